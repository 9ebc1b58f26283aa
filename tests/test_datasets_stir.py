"""STIR files: reading, selecting, making, and refusing bad ones."""

import os
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from dataset_files import COLOURS, photograph, photograph_signs, write_boxes
from PIL import Image

from gdn_keras import accuracy
from gdn_keras.datasets import load_samples, load_stir, make_stir, stir
from gdn_keras.datasets.__main__ import main
from gdn_keras.datasets.make_stir import Box, show
from gdn_keras.datasets.raw import ENVIRONMENT_VARIABLE

REAL = os.environ.get(ENVIRONMENT_VARIABLE)


def stir_contents(*, colour=True, classes=3, instances=2):
    shape = (3, 48, classes, instances)
    sizes = np.broadcast_to(64 - np.arange(48)[:, None, None], shape)
    rng = np.random.default_rng(0)
    return {
        "imgs": rng.integers(0, 256, (*shape, 64, 64) + (3,) * colour, dtype=np.uint8),
        "lbls": np.broadcast_to(np.arange(classes)[:, None], shape).astype(np.int32),
        "scls": sizes.astype(np.int32),
        "psts": np.stack([(64 - sizes) // 2, (64 - sizes) // 3], -1).astype(np.int32),
        "metadata": np.array([["title", "a test"]]),
        "lbldata": np.array(["a", "b", "c", "d"][:classes]),
    }


@pytest.fixture(params=[True, False], ids=["colour", "grey"])
def stir_file(request, tmp_path):
    contents = stir_contents(colour=request.param)
    np.savez(tmp_path / "own.npz", **contents)
    return tmp_path / "own.npz", contents


@pytest.mark.parametrize(
    "sizes, expected",
    [
        ("small", range(17, 33)),
        ("mid", range(33, 49)),
        ("large", range(49, 65)),
        ("all", range(17, 65)),
        ([64, 17, 40], [64, 17, 40]),
    ],
)
@pytest.mark.parametrize("split, index", [("train", 0), ("validation", 1), ("test", 2)])
def test_selection_by_split_and_size(stir_file, split, index, sizes, expected):
    path, contents = stir_file
    arrays = load_stir(path, split=split, sizes=sizes)
    axis = [64 - size for size in expected]
    images = contents["imgs"][index][axis]
    channels = 3 if images.ndim == 6 else 1
    np.testing.assert_array_equal(arrays.images, images.reshape(-1, 64, 64, channels))
    np.testing.assert_array_equal(arrays.object_sizes, np.repeat(list(expected), 6))
    np.testing.assert_array_equal(arrays.labels, np.tile([0, 0, 1, 1, 2, 2], len(axis)))
    np.testing.assert_array_equal(
        arrays.object_positions, contents["psts"][index][axis].reshape(-1, 2)
    )
    assert arrays.class_names == ("a", "b", "c")


def test_names_are_found_in_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "stir").mkdir()
    np.savez(tmp_path / "stir" / "aerial.npz", **stir_contents())
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path))
    assert len(load_stir("stir_aerial", split="test", sizes=[20])) == 6


def test_without_a_data_folder_the_ways_to_give_it_are_named(monkeypatch):
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match=f"`data_dir` .*{ENVIRONMENT_VARIABLE}"):
        load_stir("stir_emoji", split="test", sizes="all")


def test_a_missing_file_is_named_with_its_home(tmp_path):
    with pytest.raises(FileNotFoundError, match="emoji.npz .*zenodo"):
        load_stir("stir_emoji", split="test", sizes="all", data_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="emojis.*Did you mean 'stir_emoji'"):
        load_stir("stir_emojis", split="test", sizes=[40])
    with pytest.raises(FileNotFoundError, match="own.npz"):
        load_stir("own.npz", split="test", sizes="all")


def test_a_file_that_can_be_made_is_named_with_the_command(tmp_path):
    with pytest.raises(FileNotFoundError, match="gtsrb-signs.*boxes.csv, .*missing"):
        load_stir("stir_gtsrb", split="test", sizes="all", data_dir=tmp_path)
    (tmp_path / "gtsrb-signs").mkdir()
    (tmp_path / "gtsrb-signs" / "boxes.csv").touch()
    with pytest.raises(FileNotFoundError, match="python -m gdn_keras.datasets make-stir .*boxes"):
        load_stir("stir_gtsrb", split="test", sizes="all", data_dir=tmp_path)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"imgs": np.zeros((3, 48, 3, 2, 64, 64))},
            "`imgs` must be uint8.*dtype float64",
        ),
        ({"imgs": np.zeros((3, 47, 3, 2, 64, 64), np.uint8)}, r"`imgs` must.*\(3, 47, 3, 2"),
        ({"lbls": np.full((3, 48, 3, 2), 3)}, "`lbls` must be in 0...2. Received: 3...3"),
        ({"lbls": np.zeros((3, 48, 3))}, "`lbls` must be integers of shape"),
        ({"scls": np.full((3, 48, 3, 2), 20)}, "`scls` must be 64 - index along axis 1"),
        ({"psts": np.zeros((3, 48, 3, 2), int)}, "`psts` must be integers of shape"),
        ({"lbldata": np.arange(3)}, "`lbldata` must be a list of strings"),
        (
            {"lbldata": np.array(["a", "b", {}], object)},
            "own.npz is not a whole STIR .*allow_pickle",
        ),
    ],
)
def test_bad_contents_are_refused(tmp_path, change, message):
    path = tmp_path / "own.npz"
    np.savez(path, **stir_contents() | change)
    with pytest.raises(ValueError, match=message):
        load_stir(path, split="test", sizes="all")


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, **stir_contents())
    whole = path.read_bytes()
    np.savez(path, imgs=np.zeros(3))
    with pytest.raises(ValueError, match="own.npz.*'lbls'.*missing"):
        load_stir(path, split="test", sizes="all")
    np.save(tmp_path / "pickle.npy", np.array([{}], object), allow_pickle=True)
    for content in (whole[:-200], b"", b"hello", (tmp_path / "pickle.npy").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="own.npz is not a whole STIR file"):
            load_stir(path, split="test", sizes="all")


def test_damage_inside_a_compressed_file_is_told(tmp_path, capsys):
    path = tmp_path / "stir" / "emoji.npz"
    path.parent.mkdir()
    contents = stir_contents(colour=False, instances=1)
    np.savez_compressed(path, **contents | {"imgs": np.zeros_like(contents["imgs"])})
    with zipfile.ZipFile(path) as file:
        header = file.getinfo("imgs.npy").header_offset
    damaged = bytearray(path.read_bytes())
    name, extra = struct.unpack_from("<HH", damaged, header + 26)
    damaged[header + 30 + name + extra] = 0xFF  # there is no block of this kind
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="emoji.npz .*STIR file: Error -3"):
        load_stir(path, split="test", sizes="all")
    assert main(["verify", "--data-dir", str(tmp_path)]) == 1
    assert re.search("emoji.npz .*STIR file: Error -3", capsys.readouterr().out)
    assert main(["show", str(path), "--to", str(tmp_path / "figure.png")]) == 1
    assert re.match(f"error: {path} .*STIR file: Error -3", capsys.readouterr().err)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"split": "valid"}, "`split` must be one of.*'valid'"),
        ({"sizes": "tiny"}, "`sizes` must be one of.*'tiny'"),
        ({"sizes": [16]}, r"whole numbers in 17...64. Received: sizes=\(16,\)"),
        ({"sizes": [20.5]}, r"`sizes` must be .* integers. Received: sizes=\[20.5\]"),
        ({"sizes": []}, r"Received: sizes=\(\)"),
    ],
)
def test_load_stir_refuses(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        load_stir(tmp_path / "any", **{"split": "test", "sizes": "all"} | arguments)


@pytest.fixture
def signs(tmp_path):
    return photograph_signs(tmp_path)


def test_a_made_file_shows_each_object_once_at_its_place_and_size(signs, tmp_path):
    boxes, rows = signs
    write_boxes(boxes, rows)
    target = make_stir(boxes, target=tmp_path / "made" / "own.npz", seed=3)
    places = set()
    for split in ("train", "validation", "test"):
        arrays = load_stir(target, split=split, sizes="all")
        assert arrays.class_names == ("blue", "red") and len(arrays) == 48 * 2 * 2
        for image, label, size, (left, top) in zip(
            arrays.images, arrays.labels, arrays.object_sizes, arrays.object_positions, strict=True
        ):
            colour = COLOURS[arrays.class_names[label]]
            near = (np.abs(image.astype(int) - colour) <= 25).all(axis=-1)
            expected = np.zeros((64, 64), bool)
            expected[top : top + size, left : left + size] = True
            # All but the pixels at the edge, which antialiasing mixes, and nothing elsewhere.
            assert near[expected].mean() > 0.6 and not near[~expected].any()
            inside = near[top + 2 : top + size - 2, left + 2 : left + size - 2]
            assert inside.all()
            places.add((int(size), int(left), int(top)))
    assert len(places) > 300
    assert [path.name for path in target.parent.iterdir()] == ["own.npz"]
    again = make_stir(boxes, target=tmp_path / "again.npz", seed=3)
    with np.load(target) as first, np.load(again) as second:
        np.testing.assert_array_equal(first["imgs"], second["imgs"])


def test_a_view_without_scaling_is_the_photograph():
    image = np.random.default_rng(0).integers(0, 256, (90, 100, 3), dtype=np.uint8)
    view = show(image, Box(Path("-"), 0, "-", 20, 16, 84, 80), size=64, place=(0, 0))
    np.testing.assert_array_equal(view, image[16:80, 20:84])


def test_beyond_the_photograph_its_margin_is_reflected():
    image = np.random.default_rng(0).integers(0, 256, (80, 80, 1), dtype=np.uint8)
    view = show(image, Box(Path("-"), 0, "-", 8, 8, 72, 72), size=32, place=(32, 0))[..., 0]
    # At half size the margin of 8 pixels is 4; reflected back and forth with a period of 8.
    reflected = view[:, 24:28]
    np.testing.assert_allclose(reflected[:, 2:], view[:, 28:30][:, ::-1], atol=1)
    np.testing.assert_allclose(view[:, 20:24], reflected[:, ::-1], atol=1)
    np.testing.assert_allclose(view[:, 16:20], reflected, atol=1)


def test_grey_photographs_make_a_grey_file(tmp_path):
    rows = []
    for split in ("train", "valid", "test"):
        Image.fromarray(photograph((9, 9, 9))[..., 0]).save(tmp_path / f"{split}.png")
        rows.append([f"{split}.png", split, "x", 10, 12, 80, 80])
    write_boxes(tmp_path / "boxes.csv", rows)
    target = make_stir(tmp_path / "boxes.csv", target=tmp_path / "grey.npz")
    assert load_stir(target, split="test", sizes=[30]).images.shape == (1, 64, 64, 1)


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({1: "dev"}, ValueError, "line 2: split must be one of.*'dev'"),
        ({5: 73}, ValueError, "line 2: a box must be at least 64x64 pixels"),
        ({5: "wide"}, ValueError, "line 2: a box is four whole numbers.*'wide'"),
        ({5: 101}, ValueError, "A box must lie in its photograph.*100x90"),
        ({0: "no.png"}, FileNotFoundError, "There is no photograph .*no.png"),
        ({2: "green"}, ValueError, "Every class needs boxes in .*green, valid"),
    ],
)
def test_bad_boxes_are_named_and_leave_nothing_behind(signs, tmp_path, change, error, message):
    boxes, rows = signs
    for column, value in change.items():
        rows[0][column] = value
    write_boxes(boxes, rows)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error, match=message):
        make_stir(boxes, target=tmp_path / "own.npz")
    assert sorted(tmp_path.iterdir()) == before


def test_bad_lists_of_boxes_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="boxes.csv"):
        make_stir(tmp_path / "boxes.csv", target=tmp_path / "own.npz")
    write_boxes(tmp_path / "boxes.csv", [], header="file,label")
    with pytest.raises(ValueError, match=r"boxes.csv .*columns.* Received: \['file', 'label'\]"):
        make_stir(tmp_path / "boxes.csv", target=tmp_path / "own.npz")
    write_boxes(tmp_path / "boxes.csv", [])
    with pytest.raises(ValueError, match="boxes.csv .*at least one box"):
        make_stir(tmp_path / "boxes.csv", target=tmp_path / "own.npz")


@pytest.mark.heavy
@pytest.mark.skipif(
    not REAL or not (Path(REAL) / "gtsrb-signs" / "boxes.csv").is_file(),
    reason="needs gtsrb-signs/boxes.csv and its photographs in GDN_KERAS_DATA",
)
def test_the_traffic_signs_are_made_from_their_photographs(tmp_path):
    """All of `gtsrb.npz`, by the command that users type; the samples come from such a file."""
    target = tmp_path / "gtsrb.npz"
    assert main(["make-stir", f"{REAL}/gtsrb-signs/boxes.csv", str(target)]) == 0
    with np.load(target) as file:
        assert file["imgs"].shape == (3, 48, 8, 24, 64, 64, 3) and file["imgs"].dtype == np.uint8
        assert file["lbls"].shape == file["scls"].shape == (3, 48, 8, 24)
        assert file["psts"].shape == (3, 48, 8, 24, 2)
    samples = load_samples("stir_gtsrb")
    sizes = sorted(set(samples.object_sizes.tolist()))
    made = load_stir(target, split="test", sizes=sizes)
    assert made.class_names == samples.class_names and len(set(made.class_names)) == 8
    chosen = np.arange(len(made)).reshape(len(sizes), 8, 24)[:, :, :4].reshape(-1)
    made = made.select(chosen)  # the first four of every class
    np.testing.assert_array_equal(made.labels, samples.labels)
    np.testing.assert_array_equal(made.object_sizes, samples.object_sizes)
    np.testing.assert_array_equal(made.object_positions, samples.object_positions)
    np.testing.assert_allclose(made.images.astype(int), samples.images.astype(int), atol=1)


@pytest.mark.skipif(
    not REAL or not (Path(REAL) / "stir" / "emoji.npz").is_file(),
    reason="needs stir/emoji.npz in GDN_KERAS_DATA",
)
def test_the_real_emoji_are_where_the_file_says():
    arrays = load_stir("stir_emoji", split="test", sizes="all")
    assert arrays.images.shape == (48 * 36, 64, 64, 1) and len(arrays.class_names) == 36
    for image, size, (left, top) in zip(
        arrays.images[..., 0], arrays.object_sizes, arrays.object_positions, strict=True
    ):
        outside = image.copy()
        outside[top : top + size, left : left + size] = 0
        assert not outside.any()


def test_a_stir_file_is_read_once_for_all_sizes(tmp_path, monkeypatch):
    (tmp_path / "stir").mkdir()
    contents = stir_contents(colour=False)
    np.savez(tmp_path / "stir" / "emoji.npz", **contents)
    reads = []
    read = stir.read_stir_file
    monkeypatch.setattr(stir, "read_stir_file", lambda path: reads.append(path) or read(path))
    keys = ["17", "40", "64"]
    sets = dict(accuracy.test_sets("stir_emoji", keys, data_dir=tmp_path))
    assert list(sets) == keys and len(reads) == 1
    for key, arrays in sets.items():
        images = contents["imgs"][2, 64 - int(key)].reshape(-1, 64, 64, 1)
        np.testing.assert_array_equal(arrays.images, images)
    options = {"split": "validation", "data_dir": tmp_path, "limit": 4}
    ((_, few),) = accuracy.test_sets("stir_emoji", ["20"], **options)
    whole = contents["imgs"][1, 44].reshape(-1, 64, 64)  # sorted by class: some of every part
    spread = np.linspace(0, len(whole) - 1, 4).round().astype(int)
    np.testing.assert_array_equal(few.images[..., 0], whole[spread])
    assert len(set(few.labels)) == len(set(contents["lbls"][1, 44].reshape(-1)[spread])) > 1
