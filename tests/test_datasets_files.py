"""Standard files: reading, splitting, rescaling, and what happens with bad ones."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dataset_files import CIFAR, FASHION, small_data_folder, spoil_batch_label, write_idx

from gdn_keras.datasets import (
    NAMES,
    SIZE_FACTORS,
    Arrays,
    get,
    imresize,
    load_arrays,
    load_samples,
    raw,
    rescale,
    rescaled,
)
from gdn_keras.datasets.samples import make_samples
from gdn_keras.datasets.verify import verify

REAL = os.environ.get(raw.ENVIRONMENT_VARIABLE)
needs_real_files = pytest.mark.skipif(
    not REAL, reason=f"needs the original files in {raw.ENVIRONMENT_VARIABLE}"
)


@pytest.fixture
def small(monkeypatch, tmp_path):
    return small_data_folder(tmp_path, monkeypatch)


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, gdn_keras; before = set(sys.modules); import gdn_keras.datasets.__main__; "
        "heavy = {'tensorflow_datasets', 'matplotlib', 'PIL', 'h5py', 'tensorflow', 'keras'}; "
        "print(sorted(heavy & (set(sys.modules) - before)), 'tensorflow_datasets' in before)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[] False", result.stderr


def test_the_size_factors_are_exact():
    assert len(SIZE_FACTORS) == 9
    assert SIZE_FACTORS[0] == 0.5 and SIZE_FACTORS[4] == 1 and SIZE_FACTORS[8] == 2
    np.testing.assert_allclose(np.diff(np.log2(SIZE_FACTORS)), 0.25, atol=1e-15)


@pytest.mark.parametrize("name, train", [("fashion_mnist", 30), ("cifar10", 40)])
def test_splits_are_parts_of_the_original_files(small, name, train):
    folder, contents = small
    expected = {
        "train": (slice(0, train), "train"),
        "validation": (slice(train, None), "train"),
        "train+validation": (slice(None), "train"),
        "test": (slice(None), "test"),
    }
    for split, (where, part) in expected.items():
        images, labels = contents[name][part]
        arrays = load_arrays(name, split=split, data_dir=folder)
        np.testing.assert_array_equal(arrays.images, images[where])
        np.testing.assert_array_equal(arrays.labels, labels[where])
        assert arrays.labels.dtype == np.int64 and len(arrays.class_names) == 10
        limited = load_arrays(name, split=split, data_dir=folder, limit=7)
        np.testing.assert_array_equal(limited.images, images[where][:7])


def test_the_folder_can_come_from_the_environment(small, monkeypatch):
    folder, contents = small
    monkeypatch.setenv(raw.ENVIRONMENT_VARIABLE, str(folder))
    np.testing.assert_array_equal(
        load_arrays("cifar10", split="test").images, contents["cifar10"]["test"][0]
    )


@pytest.mark.parametrize("factor", [0.5, 0.595, 2**0.75, 2])
def test_rescaled_sets_are_rescaled_regular_ones(small, factor):
    folder, contents = small
    for name, source, canvas, extension in (
        ("rescaled_fashion_mnist", "fashion_mnist", 72, "zero"),
        ("rescaled_cifar10", "cifar10", 64, "mirror"),
    ):
        arrays = load_arrays(name, split="validation", size_factor=factor, data_dir=folder)
        exact = min(SIZE_FACTORS, key=lambda s: abs(s - factor))
        expected = rescale(
            contents[source]["train"][0][-10:],
            size_factor=exact,
            canvas=canvas,
            extension=extension,
        )
        np.testing.assert_array_equal(arrays.images, expected)


def test_translated_objects_keep_their_distance_and_their_place():
    indices = np.arange(60_000)
    for room in (72 - 14, 72 - 28, 72 - 56):
        places = rescaled.translations(indices, part="train", room=room)
        assert places.min() == 4 and places.max() == room - 4
        counts = np.bincount(places[:, 0] - 4)
        assert counts.min() > 0.9 * counts.mean()
    np.testing.assert_array_equal(
        rescaled.translations(np.array([59_999, 17]), part="train", room=44),
        rescaled.translations(indices, part="train", room=44)[[59_999, 17]],
    )
    # The same for everyone, for ever: changing these numbers changes the data set.
    assert rescaled.translations(np.arange(3), part="train", room=44).tolist() == TRAIN_PLACES
    assert rescaled.translations(np.arange(3), part="test", room=44).tolist() == TEST_PLACES


TRAIN_PLACES = [[15, 35], [9, 5], [37, 5]]
TEST_PLACES = [[22, 15], [35, 24], [17, 32]]


@pytest.mark.parametrize("factor", SIZE_FACTORS)
def test_the_translated_set_only_moves_the_objects(small, factor):
    folder, _ = small
    kinds = {"split": "train+validation", "size_factor": factor, "data_dir": folder}
    centred = load_arrays("rescaled_fashion_mnist", **kinds)
    moved = load_arrays("rescaled_fashion_mnist_translated", **kinds)
    for image, other in zip(centred.images, moved.images, strict=True):
        boxes = []
        for shown in (image[..., 0], other[..., 0]):
            rows, columns = (np.flatnonzero(shown.any(axis=axis)) for axis in (1, 0))
            assert rows[0] >= 4 and columns[0] >= 4 and rows[-1] < 68 and columns[-1] < 68
            boxes.append(shown[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
        np.testing.assert_array_equal(*boxes)
    part = load_arrays("rescaled_fashion_mnist_translated", **kinds | {"split": "validation"})
    np.testing.assert_array_equal(part.images, moved.images[-10:])


def test_translated_objects_stay_apart_from_the_border_at_the_largest_size():
    white = np.full((50, 28, 28, 1), 255, np.uint8)
    arrays = get("rescaled_fashion_mnist_translated").loader.apply(
        Arrays(white, np.zeros(50, int), FASHION.class_names),
        2.0,
        part="test",
        indices=np.arange(50),
    )
    places = {tuple(np.argwhere(image[..., 0])[0]) for image in arrays.images}
    assert len(places) > 20
    assert {row for row, _ in places} <= set(range(4, 13))
    np.testing.assert_array_equal(arrays.images.sum(axis=(1, 2, 3), dtype=int), 56 * 56 * 255)


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_balanced_and_shaped_like_the_set(name):
    shape = {"fashion_mnist": (28, 28, 1), "cifar10": (32, 32, 3), "rescaled_cifar10": (64, 64, 3)}
    samples = load_samples(name)
    assert samples.images.shape == (100, *shape.get(name, (72, 72, 1)))
    np.testing.assert_array_equal(np.bincount(samples.labels), 10)
    assert samples.class_names == get(name).class_names


def test_samples_at_size_factor_two_are_imresize():
    for name in ("cifar10", "fashion_mnist"):
        large = load_samples(f"rescaled_{name}", size_factor=2).images
        margin = (large.shape[1] - 2 * load_samples(name).images.shape[1]) // 2
        inner = large[:, margin : large.shape[1] - margin, margin : large.shape[1] - margin]
        np.testing.assert_array_equal(inner, imresize(load_samples(name).images, 2, mode="centred"))


@pytest.mark.parametrize("name, count", [("stir_emoji", 108), ("stir_gtsrb", 96)])
def test_samples_of_stir(name, count):
    samples = load_samples(name)
    assert samples.images.shape == (count, 64, 64, 3 if name == "stir_gtsrb" else 1)
    assert len(set(np.bincount(samples.labels))) == 1
    assert set(samples.object_sizes) == {24, 40, 56}
    assert (samples.object_positions >= 0).all()
    assert (samples.object_positions + samples.object_sizes[:, None] <= 64).all()


def fashion(folder, name):
    return folder / FASHION.folder / name


def cut_gzip(folder):
    path = fashion(folder, "t10k-images-idx3-ubyte.gz")
    path.write_bytes(path.read_bytes()[:-100])


def spoil_magic(folder):
    path = fashion(folder, "t10k-labels-idx1-ubyte.gz")
    write_idx(path, np.zeros(20, np.uint8), magic=bytes([0, 0, 9, 1]))


def spoil_label(folder):
    write_idx(fashion(folder, "t10k-labels-idx1-ubyte.gz"), np.full(20, 10, np.uint8))


def spoil_count(folder):
    write_idx(fashion(folder, "t10k-labels-idx1-ubyte.gz"), np.zeros(20, np.uint8), count=21)


def spoil_number(folder):
    write_idx(fashion(folder, "t10k-labels-idx1-ubyte.gz"), np.zeros(19, np.uint8))


def spoil_size(folder):
    write_idx(fashion(folder, "t10k-images-idx3-ubyte.gz"), np.zeros((20, 27, 28), np.uint8))


def no_gzip(folder):
    fashion(folder, "t10k-images-idx3-ubyte.gz").write_bytes(b"<html>not found</html>")


def remove_fashion(folder):
    fashion(folder, "t10k-images-idx3-ubyte.gz").unlink()


def remove_batch(folder):
    (folder / CIFAR.folder / "test_batch.bin").unlink()


def cut_batch(folder):
    path = folder / CIFAR.folder / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    "name, spoil, error, message",
    [
        ("fashion_mnist", cut_gzip, ValueError, "t10k-images.*not a whole gzip file"),
        ("fashion_mnist", no_gzip, ValueError, "t10k-images.*not a whole gzip file"),
        ("fashion_mnist", spoil_magic, ValueError, "magic number 00000801. Received: 00000901"),
        ("fashion_mnist", spoil_label, ValueError, "Received: label 10 of image 0"),
        ("fashion_mnist", spoil_count, ValueError, "must hold 21 values.*Received: 20"),
        ("fashion_mnist", spoil_number, ValueError, "Received: 20 images, 19 labels"),
        ("fashion_mnist", spoil_size, ValueError, r"28x28 images. Received: shape \(20, 27, 28\)"),
        ("fashion_mnist", remove_fashion, FileNotFoundError, "Missing t10k-images.*zalando"),
        ("cifar10", remove_batch, FileNotFoundError, "Missing test_batch.bin in .*kriz.*download"),
        ("cifar10", cut_batch, ValueError, "test_batch.bin must have 30730 bytes.*30729"),
        ("cifar10", spoil_batch_label, ValueError, "Received: label 77 of image 3"),
    ],
)
def test_bad_files_are_named(small, name, spoil, error, message):
    folder, _ = small
    spoil(folder)
    with pytest.raises(error, match=message):
        load_arrays(name, split="test", data_dir=folder)
    with pytest.raises(error, match=message):
        load_arrays(f"rescaled_{name}", split="test", size_factor=2, data_dir=folder)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"name": "mnist"}, "`name` must be one of.*name='mnist'"),
        ({"split": "valid"}, "`split` must be one of.*split='valid'"),
        ({"size_factor": 1.5}, r"`size_factor` must be 2\^\(n/4\).*Received: size_factor=1.5"),
        ({"size_factor": 4}, "Received: size_factor=4"),
        ({"name": "cifar10", "size_factor": 2}, "`size_factor` must be 1 for the regular set"),
        ({"limit": 0}, "`limit` must be .*at least 1. Received: limit=0"),
        ({"name": "stir_emoji"}, "`load_stir` loads those.*name='stir_emoji'"),
    ],
)
def test_load_arrays_refuses(small, arguments, message):
    arguments = {"name": "rescaled_cifar10", "split": "test", "data_dir": small[0]} | arguments
    with pytest.raises(ValueError, match=message):
        load_arrays(arguments.pop("name"), **arguments)


def test_load_samples_refuses():
    with pytest.raises(ValueError, match="`name` must be one of.*Received: name='imagenet'"):
        load_samples("imagenet")
    with pytest.raises(ValueError, match="`size_factor` must be 1 .*'cifar10'.*2"):
        load_samples("cifar10", size_factor=2)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"images": np.zeros((2, 4, 4, 1))}, "`images` must be uint8.*Received: dtype float64"),
        ({"images": np.zeros((2, 4, 4), np.uint8)}, r"Received: dtype uint8, shape \(2, 4, 4\)"),
        (
            {"labels": np.array([0, 2])},
            "`labels` must be in 0...1, as .*label 2 of image 1",
        ),
        ({"labels": np.array([0, -1])}, "Received: label -1 of image 1"),
        ({"labels": np.zeros(3, int)}, r"`labels` must be integers of shape \(2,\).*\(3,\)"),
        ({"labels": np.zeros(2)}, "`labels` must be integers.*Received: dtype float64"),
        ({"object_sizes": np.zeros((2, 1), int)}, r"`object_sizes` must be .*\(2,\)"),
    ],
)
def test_arrays_refuse(change, message):
    good = {"images": np.zeros((2, 4, 4, 1), np.uint8), "labels": np.zeros(2, int)}
    with pytest.raises(ValueError, match=message):
        Arrays(**good | change, class_names=("a", "b"))


def test_verify_tells_good_from_bad(small):
    folder, _ = small
    remove_batch(folder)
    cut_gzip(folder)
    results = verify(folder)
    assert results["cifar-10-batches-bin/test_batch.bin"] == "missing"
    assert results["fashion-mnist/t10k-images-idx3-ubyte.gz"].startswith("unreadable")
    assert results["cifar-10-batches-bin/data_batch_1.bin"].startswith("different: SHA-256")
    with pytest.raises(FileNotFoundError, match=CIFAR.folder):
        verify(folder / CIFAR.folder)
    with pytest.raises(FileNotFoundError, match="`data_dir` .*nowhere"):
        verify(folder / "nowhere")


@needs_real_files
def test_the_real_files_are_the_published_ones():
    results = verify(REAL)
    assert len(results) >= 10 and set(results.values()) == {"ok"}


@needs_real_files
@pytest.mark.parametrize(
    "name, counts", [("fashion_mnist", (50_000, 10_000)), ("cifar10", (40_000, 10_000))]
)
def test_the_real_splits_have_the_sizes_of_the_paper(name, counts):
    for split, count in zip(("train", "validation"), counts, strict=True):
        assert len(load_arrays(name, split=split)) == count
    test = load_arrays(name, split="test")
    np.testing.assert_array_equal(np.bincount(test.labels), 1000)


@needs_real_files
def test_the_samples_can_be_made_again(tmp_path):
    if not (Path(REAL) / "stir" / "gtsrb.npz").is_file():
        pytest.skip("needs stir/gtsrb.npz, which `python -m gdn_keras.datasets make-stir` makes")
    make_samples(tmp_path)
    for name in ("fashion_mnist", "cifar10", "stir_emoji", "stir_gtsrb"):
        with np.load(tmp_path / f"samples_{name}.npz") as made:
            expected = load_samples(name)
            np.testing.assert_array_equal(made["images"], expected.images)
            np.testing.assert_array_equal(made["labels"], expected.labels)


@needs_real_files
@pytest.mark.parametrize("name", list(rescaled.rescaled_sets()))
def test_rescaled_samples_are_those_of_the_full_test_set(name):
    limited = load_arrays(name, split="test", size_factor=2**0.5, limit=50)
    samples = load_samples(name, size_factor=2**0.5)
    matches = (samples.images[:, None] == limited.images[None]).all(axis=(2, 3, 4)).any(axis=1)
    assert matches.sum() >= 40
