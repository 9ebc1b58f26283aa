"""Builders of tensorflow-datasets, downloads over a real connection, HDF5 files, command line."""

import functools
import http.server
import tarfile
import threading

import h5py
import numpy as np
import pytest
import tensorflow_datasets as tfds
from dataset_files import (
    CIFAR,
    FASHION,
    photograph_signs,
    small_data_folder,
    spoil_batch_label,
    write_boxes,
)

from gdn_keras.datasets import (
    SIZE_FACTORS,
    get,
    load_arrays,
    load_hdf5,
    load_samples,
    raw,
    rescaled,
    tfds_builder,
)
from gdn_keras.datasets.__main__ import main


@pytest.fixture
def small(monkeypatch, tmp_path):
    return small_data_folder(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", list(rescaled.rescaled_sets()))
def test_a_builder_prepares_the_arrays(small, name, tmp_path_factory):
    folder, _ = small
    builder = tfds_builder(name, size_factor=1.682, data_dir=tmp_path_factory.mktemp("tfds"))
    assert builder.builder_config.name == "size_1p682"
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(manual_dir=folder),
    )
    counts = {split: info.num_examples for split, info in builder.info.splits.items()}
    train = 30 if "fashion" in name else 40
    assert counts == {"train": train, "validation": 10, "test": counts["test"]}
    assert builder.info.citation.startswith("@article{perzanowski2025scale")
    assert builder.info.description
    for split in ("train", "train+validation", "test"):
        expected = load_arrays(name, split=split, size_factor=2**0.75, data_dir=folder)
        examples = list(tfds.as_numpy(builder.as_dataset(split=split)))
        np.testing.assert_array_equal([e["image"] for e in examples], expected.images)
        np.testing.assert_array_equal([e["label"] for e in examples], expected.labels)
        np.testing.assert_allclose([e["size_factor"] for e in examples], 2**0.75, rtol=1e-6)
    assert examples[3]["id"] == b"test_00003"


def test_there_is_a_configuration_for_each_size_factor():
    names = [f"size_{s:.3f}".replace(".", "p") for s in SIZE_FACTORS]
    for name in rescaled.rescaled_sets():
        assert list(type(tfds_builder(name)).builder_configs) == names
        assert tfds_builder(name).builder_config.name == "size_1p000"


def test_a_failed_preparation_leaves_no_data(small, tmp_path_factory):
    folder, _ = small
    spoil_batch_label(folder)
    target = tmp_path_factory.mktemp("tfds")
    builder = tfds_builder("rescaled_cifar10", data_dir=target)
    with pytest.raises(ValueError, match="Received: label 77 of image 3"):
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(manual_dir=folder)
        )
    assert not [path for path in target.rglob("*1.0.0*")] and not list(target.rglob("*tfrecord*"))


def test_tfds_builder_refuses():
    with pytest.raises(ValueError, match="`name` must be one of.*Received: name='cifar10'"):
        tfds_builder("cifar10")
    with pytest.raises(ValueError, match="Received: size_factor=3"):
        tfds_builder("rescaled_cifar10", size_factor=3)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def mirror(small, monkeypatch, tmp_path_factory):
    """A web server on this machine with the standard files, known as their home."""
    folder, contents = small
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(folder / CIFAR.folder, arcname=CIFAR.folder)
    handler = functools.partial(QuietHandler, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    home = f"http://127.0.0.1:{server.server_port}"
    files = [file for pair in FASHION.parts.values() for file in pair]
    urls = {
        "fashion_mnist": {file: f"{home}/{FASHION.folder}/{file}" for file in files},
        "cifar10": {"cifar-10-binary.tar.gz": f"{home}/cifar-10-binary.tar.gz"},
    }
    monkeypatch.setattr(raw, "_urls", urls.get)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    cache = tmp_path_factory.mktemp("downloads")
    yield server, contents, functools.partial(tfds.download.DownloadManager, download_dir=cache)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("name", ["fashion_mnist", "cifar10"])
def test_files_are_downloaded_once_and_read_in_the_original_order(mirror, name):
    server, contents, manager = mirror
    files = get(name).loader
    find = functools.partial(files.download, manager=manager())
    arrays, _ = files.read_split("train+validation", find=find)
    np.testing.assert_array_equal(arrays.images, contents[name]["train"][0])
    server.shutdown()
    server.server_close()
    find = functools.partial(files.download, manager=manager())
    again, _ = files.read_split("train+validation", find=find)
    np.testing.assert_array_equal(again.images, arrays.images)


def test_without_a_network_the_error_comes_soon_and_says_what_to_do(mirror):
    server, _, manager = mirror
    server.shutdown()
    server.server_close()
    find = functools.partial(CIFAR.download, manager=manager())
    with pytest.raises(ConnectionError, match="cifar10.*GDN_KERAS_DATA"):
        CIFAR.read_split("test", find=find)


def test_tensorflow_datasets_still_knows_the_addresses():
    fashion = raw._urls("fashion_mnist")
    assert set(fashion) == {file for pair in FASHION.parts.values() for file in pair}
    assert list(raw._urls("cifar10")) == ["cifar-10-binary.tar.gz"]


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("name", ["rescaled_fashion_mnist", "rescaled_cifar10"])
def test_hdf5_files_of_the_authors(tmp_path, name, dtype, layout):
    samples = load_samples(name, size_factor=2)
    path = tmp_path / "rescaled_te10000_outsize72-72_scte2p000.h5"
    parts = {"train": slice(0, 50), "val": slice(50, 70), "test": slice(70, 100)}
    with h5py.File(path, "w") as file:
        for key, where in parts.items():
            images = samples.images[where].astype(dtype)
            file[f"x_{key}"] = images if layout == "nhwc" else np.moveaxis(images, -1, 1)
            file[f"y_{key}"] = samples.labels[where].astype(np.int32)
    for split, where in (
        ("train", slice(0, 50)),
        ("validation", slice(50, 70)),
        ("train+validation", slice(0, 70)),
        ("test", slice(70, 100)),
    ):
        arrays = load_hdf5(path, split=split)
        np.testing.assert_array_equal(arrays.images, samples.images[where])
        np.testing.assert_array_equal(arrays.labels, samples.labels[where])
        assert arrays.class_names == samples.class_names


@pytest.fixture
def hdf5(tmp_path):
    return tmp_path / "a_scte1p500.h5"


def test_a_missing_hdf5_file_is_named_with_its_home(hdf5):
    with pytest.raises(FileNotFoundError, match="scte1p500.*zenodo"):
        load_hdf5(hdf5, split="test")


def test_a_damaged_hdf5_file_is_named(hdf5):
    hdf5.write_bytes(b"\x89HDF\r\n")
    with pytest.raises(ValueError, match="scte1p500.*whole HDF5 file"):
        load_hdf5(hdf5, split="test")


@pytest.mark.parametrize(
    "images, message",
    [
        (np.full((2, 8, 8, 1), 0.5), r"x_test .*0\.\.\.255.*Received: 0\.5\.\.\.0\.5"),
        (np.full((2, 8, 8, 1), 256.0), r"Received: 256\.0\.\.\.256\.0"),
        (np.zeros((2, 8, 8, 2), np.uint8), r"one or three channels.*\(2, 8, 8, 2"),
    ],
    ids=["fractions", "too bright", "two channels"],
)
def test_hdf5_files_with_other_images_are_refused(hdf5, images, message):
    with h5py.File(hdf5, "w") as file:
        file["x_test"], file["y_test"] = images, np.zeros(2)
    with pytest.raises(ValueError, match=message):
        load_hdf5(hdf5, split="test")


def test_a_split_that_an_hdf5_file_lacks_is_named(hdf5):
    with h5py.File(hdf5, "w") as file:
        file["x_test"], file["y_test"] = np.zeros((2, 8, 8, 1), np.uint8), np.zeros(2)
    with pytest.raises(ValueError, match=r"x_val .*Received: \['x_test', 'y_test'\]"):
        load_hdf5(hdf5, split="validation")


@pytest.mark.parametrize("data", ["no data folder", "one without these files"])
@pytest.mark.parametrize("name", [*rescaled.rescaled_sets(), "stir_emoji", "stir_gtsrb"])
def test_show_draws_a_contact_sheet(name, data, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(raw.ENVIRONMENT_VARIABLE, raising=False)
    if data != "no data folder":
        monkeypatch.setenv(raw.ENVIRONMENT_VARIABLE, str(tmp_path))
    target = tmp_path / "figures" / "sheet.png"
    assert main(["show", name, "--to", str(target)]) == 0
    assert capsys.readouterr().out.strip() == str(target)
    assert target.read_bytes().startswith(b"\x89PNG") and target.stat().st_size > 10_000


def test_the_command_prepares_several_sizes(small, tmp_path_factory, capsys):
    target = tmp_path_factory.mktemp("prepared")
    order = ["prepare", "rescaled_cifar10", "--size-factor", "0.5", "--size-factor", "2"]
    assert main([*order, "--to", str(target), "--data-dir", str(small[0])]) == 0
    assert [line[-16:] for line in capsys.readouterr().out.split() if "size_" in line][-1:] == [
        "size_2p000/1.0.0"
    ]
    assert len(tfds.load("rescaled_cifar10/size_0p500", data_dir=target, split="train")) == 40


def test_the_command_verifies_files(small, capsys):
    assert main(["verify", "--data-dir", str(small[0])]) == 1
    assert "test_batch.bin: different" in capsys.readouterr().out


def test_the_command_makes_and_shows_a_stir_file(tmp_path):
    boxes, rows = photograph_signs(tmp_path)
    write_boxes(boxes, rows)
    made = tmp_path / "stir" / "own.npz"
    assert main(["make-stir", str(boxes), str(made), "--title", "mine"]) == 0
    with np.load(made) as file:
        assert file["metadata"].tolist() == [["title", "mine"]]
    assert main(["show", str(made), "--to", str(tmp_path / "own.png")]) == 0
    assert (tmp_path / "own.png").is_file()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["show", "fashion_mnist"], "rescaled_fashion_mnist"),
        (["show", "cifar"], "Did you mean 'rescaled_cifar10'?"),
        (["show", "x"], "`name` must be a STIR file or one of ('rescaled_cifar10', "),
        (
            ["show", "rescaled_cifar10", "--image", "100"],
            "must be in 0...99. Received: 100",
        ),
        (["prepare", "rescaled_cifar10", "--size-factor", "3"], "Received: size_factor=3.0"),
        (["prepare", "rescaled_cifar10", "--data-dir", "nowhere"], "Missing data_batch_1.bin"),
        (["verify", "--data-dir", "nowhere"], "`data_dir` must be a folder"),
        (["make-stir", "nowhere.csv", "own.npz"], "nowhere.csv"),
    ],
)
def test_the_command_line_says_what_is_wrong(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error
    assert not list(tmp_path.iterdir())
