"""Images of one's own as a data set: from every source, split, resized and reported."""

import dataclasses
import json
import re
import shutil
import sys

import numpy as np
import pytest
from PIL import Image

from gdn_keras import datasets
from gdn_keras.datasets import sets
from gdn_keras.datasets.own.dataset import own_record, register_folder
from gdn_keras.datasets.own.record import Look
from gdn_keras.datasets.sources import find_data

CLASSES = ("cat", "dog", "owl")
SIDE, CANVAS = 8, 16
LOOK = {"canvas": CANVAS, "side": SIDE}
LABELS = np.repeat(np.arange(3), 10)
IMAGES = np.random.default_rng(0).integers(0, 256, (30, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(sets, "_registered", {})


def write_folder(path, *, images=IMAGES, split=lambda number: ""):
    for number, (image, label) in enumerate(zip(images, LABELS, strict=True)):
        file = path / split(number) / CLASSES[label] / f"{number:02d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    return path


def part(number):
    """The last two of every ten are for testing."""
    return "test" if number % 10 > 7 else "train"


IS_TEST = np.array([part(number) == "test" for number in range(30)])


def halves():
    return [(IMAGES[chosen], LABELS[chosen]) for chosen in (~IS_TEST, IS_TEST)]


def open_folder(tmp_path):
    return datasets.from_folder(write_folder(tmp_path / "pets", split=part), **LOOK)


def open_npz(tmp_path):
    (x_train, y_train), (x_test, y_test) = halves()
    arrays = dict(x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    np.savez(tmp_path / "pets.npz", **arrays, class_names=np.array(CLASSES))
    return datasets.from_npz(tmp_path / "pets.npz", **LOOK)


def open_arrays(tmp_path):
    train, test = halves()
    return datasets.from_arrays(*train, test=test, name="pets", class_names=CLASSES, **LOOK)


def open_tf_data(tmp_path):
    import tensorflow as tf

    train, test = halves()
    pairs = tf.data.Dataset.from_tensor_slices(train).batch(7)
    named = tf.data.Dataset.from_tensor_slices({"image": test[0], "label": test[1]})
    return datasets.from_tf_data(pairs, test=named, name="pets", class_names=CLASSES, **LOOK)


def open_tfds(tmp_path):
    import tensorflow_datasets as tfds

    class Pets(tfds.core.GeneratorBasedBuilder, skip_registration=False):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            image = tfds.features.Image(shape=(SIDE, SIDE, 3))
            label = tfds.features.ClassLabel(names=list(CLASSES))
            features = tfds.features.FeaturesDict({"image": image, "label": label})
            return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

        def _split_generators(self, dl_manager):
            return dict(zip(("train", "test"), map(self._generate_examples, halves()), strict=True))

        def _generate_examples(self, pairs):
            for number, (image, label) in enumerate(zip(*pairs, strict=True)):
                yield number, {"image": image, "label": int(label)}

    return datasets.from_tfds("pets", data_dir=str(tmp_path), **LOOK)


def open_hugging_face(tmp_path):
    import datasets as library

    features = library.Features(
        {"photo": library.Image(), "kind": library.ClassLabel(names=list(CLASSES))}
    )
    splits = {
        name: library.Dataset.from_dict(
            {"photo": list(map(Image.fromarray, images)), "kind": labels.tolist()}, features
        )
        for name, (images, labels) in zip(("train", "test"), halves(), strict=True)
    }
    return datasets.from_hugging_face(library.DatasetDict(splits), name="pets", **LOOK)


@pytest.mark.parametrize(
    "source", [open_folder, open_npz, open_arrays, open_tf_data, open_tfds, open_hugging_face]
)
def test_every_source_gives_the_same_data_set(source, tmp_path):
    pets = source(tmp_path)
    assert pets is datasets.get("pets") and pets.class_names == CLASSES
    assert (pets.image_size, pets.channels, pets.num_images) == ((16, 16), 3, (24, 6))
    assert pets.surroundings == "mirrored" and len(pets.sizes.keys) == 9 and pets.sizes.side == 8
    for split, chosen in (("train", ~IS_TEST), ("test", IS_TEST)):
        ((key, arrays),) = pets.load_sizes(["1.000"], split=split)
        # at size factor 1 the middle of the canvas is the image itself
        np.testing.assert_array_equal(arrays.images[:, 4:12, 4:12], IMAGES[chosen])
        np.testing.assert_array_equal(arrays.labels, LABELS[chosen])
    assert len(pets.load_training(split="train+validation")) == 24


def test_objects_grow_and_their_surroundings_are_black_or_mirrored(tmp_path):
    white = np.full((30, SIDE, SIDE), 255, np.uint8)
    for surroundings, outside in (("black", 0), ("mirrored", 255)):
        record = datasets.from_arrays(
            white, LABELS, name="white", surroundings=surroundings, **LOOK
        )
        for key, arrays in record.load_sizes():
            assert arrays.images.shape == (6, CANVAS, CANVAS, 1)
            lit = np.flatnonzero(arrays.images[0, CANVAS // 2, :, 0] > 127)
            if outside:
                assert len(lit) == CANVAS
            else:
                assert abs(len(lit) - SIDE * float(key)) <= 1
                assert lit[0] + lit[-1] == CANVAS - 1  # centred


def test_long_images_keep_their_aspect_ratio():
    long = np.full((4, 20, 3), 200, np.uint8)
    look = Look(canvas=40, side=10, surroundings="black")
    pixels, size, _ = look.apply(long, "long")
    assert pixels.shape == (10, 10, 3) and size == (20, 4)
    np.testing.assert_array_equal(np.flatnonzero(pixels[:, 5, 0]), [4, 5])  # 4 of 20 are 2 of 10


def test_the_split_is_by_class_and_written_down(tmp_path):
    folder = write_folder(tmp_path / "My pets")
    first = datasets.from_folder(folder, **LOOK)
    written = tmp_path / "My pets.split.json"
    record = json.loads(written.read_text())
    assert first.name == record["name"] == "my_pets"
    assert record["counts"]["test"] == dict.fromkeys(CLASSES, 2)
    train, test = record["split"]["train"], record["split"]["test"]
    files = {file.relative_to(folder).as_posix() for file in folder.rglob("*.png")}
    assert set(train) | set(test) == files and not set(train) & set(test)
    Image.fromarray(IMAGES[0]).save(folder / "cat" / "00b.png")  # would shift a split by number
    again = datasets.from_folder(folder)
    assert own_record(again) == own_record(first)
    for split in ("train", "test"):
        before, after = (
            next(dataset.load_sizes(["1.000"], split=split))[1] for dataset in (first, again)
        )
        np.testing.assert_array_equal(before.images, after.images)


def test_a_split_that_was_written_down_must_still_fit(tmp_path):
    folder = write_folder(tmp_path / "My pets")
    datasets.from_folder(folder, **LOOK)
    written = tmp_path / "My pets.split.json"
    missing = json.loads(written.read_text())["split"]["test"][0]
    (folder / missing).unlink()
    with pytest.raises(ValueError, match=f"1, first '{missing}'"):
        datasets.from_folder(folder)
    with pytest.raises(ValueError, match=f"`canvas` must be 16.*{written}"):
        datasets.from_folder(folder, canvas=32)
    with pytest.raises(ValueError, match=f"`name` must be 'my_pets'.*{written}.*name='cats'"):
        datasets.from_folder(folder, name="cats")


def test_options_that_a_written_split_does_not_have_are_refused(tmp_path):
    folder = write_folder(tmp_path / "pets")
    first = datasets.from_folder(folder, seed=5, **LOOK)
    for options in ({}, {"seed": 5}, {"test_share": 0.2}, {"class_names": CLASSES}):
        assert own_record(datasets.from_folder(folder, **options)) == own_record(first)
    words = "as in .*pets.split.json: leave it out, or delete that file to split again. Received"
    with pytest.raises(ValueError, match=f"`seed` must be 5, {words}: seed=0"):
        datasets.from_folder(folder, seed=0)
    with pytest.raises(ValueError, match=f"`test_share` must be 0.2, {words}: test_share=0.5"):
        datasets.from_folder(folder, test_share=0.5)


def test_names_of_folders_can_be_put_in_order_but_not_replaced(tmp_path):
    folder = write_folder(tmp_path / "pets")
    options = {"record": None, **LOOK}
    assert datasets.from_folder(folder, class_names=CLASSES[::-1], **options).num_images == (24, 6)
    with pytest.raises(ValueError, match="`class_names` .*cat, cow, and images of dog, owl"):
        datasets.from_folder(folder, class_names=("cat", "cow"), **options)


def test_a_record_that_does_not_have_the_seed_stays_valid(tmp_path):
    folder = write_folder(tmp_path / "pets")
    split = own_record(datasets.from_folder(folder, **LOOK)).split
    written = tmp_path / "pets.split.json"
    record = json.loads(written.read_text())
    del record["seed"], record["test_share"]
    written.write_text(json.dumps(record))
    assert own_record(datasets.from_folder(folder, seed=5)).split == split


def test_a_split_of_the_source_has_no_seed(tmp_path):
    record = own_record(open_folder(tmp_path))
    assert record.seed is None and record.test_share is None


@pytest.mark.parametrize("first, then", [(None, ("a", "b", "c")), (("a", "b", "c"), CLASSES)])
def test_names_of_classes_are_those_of_the_record(tmp_path, first, then):
    np.savez(tmp_path / "pets.npz", images=IMAGES, labels=LABELS)
    pets = datasets.from_npz(tmp_path / "pets.npz", class_names=first, **LOOK)
    assert datasets.from_npz(tmp_path / "pets.npz").class_names == pets.class_names
    with pytest.raises(ValueError, match="`class_names` must be .*pets.npz.split.json"):
        datasets.from_npz(tmp_path / "pets.npz", class_names=then)


def test_a_folder_and_a_file_of_one_name_have_their_own_records(tmp_path):
    folder = write_folder(tmp_path / "pets")
    np.savez(tmp_path / "pets.npz", images=IMAGES, labels=LABELS)
    opened = [
        datasets.from_folder(folder, **LOOK),
        datasets.from_npz(tmp_path / "pets.npz", **LOOK),
    ]
    written = [tmp_path / "pets.split.json", tmp_path / "pets.npz.split.json"]
    for dataset, file in zip(opened, written, strict=True):
        assert json.loads(file.read_text())["class_names"] == list(dataset.class_names)


@pytest.mark.parametrize("text", ["[]", '{"split": []}', "{", "null"])
def test_a_damaged_record_is_named(tmp_path, text):
    folder = write_folder(tmp_path / "pets")
    (tmp_path / "pets.split.json").write_text(text)
    with pytest.raises(ValueError, match=r"pets\.split\.json"):
        datasets.from_folder(folder)


def test_another_seed_is_another_split():
    options = {"class_names": CLASSES, **LOOK}
    tests = [
        own_record(datasets.from_arrays(IMAGES, LABELS, name="pets", seed=seed, **options))
        for seed in (0, 0, 1)
    ]
    assert tests[0] == tests[1] and tests[0].split != tests[2].split


def test_the_report_names_what_is_broken(tmp_path):
    folder = write_folder(tmp_path / "pets")
    (folder / "dog" / "notes.txt").write_text("not an image")
    (folder / "owl" / "empty.png").touch()
    whole = (folder / "cat" / "00.png").read_bytes()
    (folder / "cat" / "00.png").write_bytes(whole[: len(whole) // 2])
    Image.fromarray(np.zeros((5, 40), np.uint8)).save(folder / "cat" / "wide.png")
    pets = datasets.from_folder(folder, **LOOK)
    text = datasets.report(pets)
    assert re.search("pets: 30 colour .*3 classes.*8x8 to 40x5 pixels", text)
    for name in ("dog/notes.txt", "owl/empty.png", "cat/00.png"):
        assert f"  {name} is " in text
    assert str(tmp_path) not in text  # a zoo folder has it, too
    assert "| cat   |     8 |    2 |" in text


def test_files_of_cameras_are_images_and_those_of_programs_are_not(tmp_path):
    folder = write_folder(tmp_path / "pets")
    image = (folder / "cat" / "00.png").read_bytes()
    for name in ("_MG_0001.png", ".ipynb_checkpoints/00.png", "@eaDir/00.png", "._00.png"):
        (folder / "cat" / name).parent.mkdir(exist_ok=True)
        (folder / "cat" / name).write_bytes(image)
    record = own_record(datasets.from_folder(folder, **LOOK))
    names = [name for part in record.split.values() for name in part]
    assert len(names) == 31 and "cat/_MG_0001.png" in names


def test_grey_images_stay_grey_unless_colour_is_asked_for():
    grey = IMAGES[..., 0]
    assert datasets.from_arrays(grey, LABELS, name="pets", **LOOK).channels == 1
    colour = datasets.from_arrays(grey, LABELS, name="pets", channels=3, **LOOK)
    images = next(colour.load_sizes(["1.000"]))[1].images
    assert images.shape[-1] == 3 and (images[..., 0] == images[..., 2]).all()
    assert datasets.from_arrays(IMAGES, LABELS, name="pets", channels=1, **LOOK).channels == 1


def test_the_report_says_that_colour_is_lost():
    few = IMAGES.copy()
    few[3:] = few[3:, ..., :1]  # grey, in three channels
    pets = datasets.from_arrays(few, LABELS, name="pets", channels=1, **LOOK)
    words = "pets: 30 images of 3 classes, 3 of them in colour, taken as grey (--colour keeps it)"
    assert f"{words}, 8x8 to 8x8 pixels" in datasets.report(pets)
    for images, channels in ((few, 3), (few, None), (few[..., :1], 1)):
        pets = datasets.from_arrays(images, LABELS, name="pets", channels=channels, **LOOK)
        assert re.match("pets: 30 (colour|grey) images of 3 classes, 8x8", datasets.report(pets))


def test_validation_is_kept_apart_or_taken_for_the_test(tmp_path):
    folder = write_folder(
        tmp_path / "a", split=lambda n: {8: "valid", 9: "test"}.get(n % 10, "train")
    )
    record = own_record(datasets.from_folder(folder, **LOOK))
    assert [len(record.split[s]) for s in ("train", "validation", "test")] == [24, 3, 3]
    folder = write_folder(tmp_path / "b", split=lambda n: "val" if n % 10 == 9 else "train")
    assert set(own_record(datasets.from_folder(folder, **LOOK)).split) == {"train", "test"}


@pytest.mark.parametrize("splits", [("train", "test"), ("Training", "val")])
def test_splits_are_not_taken_for_classes(tmp_path, splits):
    folder = write_folder(tmp_path / "pets", split=lambda n: splits[n % 10 == 9])
    shutil.copytree(folder / splits[0], folder / "unlabelled")
    message = f"{folder} must have no other folders .*underscore. Received: unlabelled"
    with pytest.raises(ValueError, match=message):
        datasets.from_folder(folder, **LOOK)
    (folder / "unlabelled").rename(folder / "_unlabelled")
    assert datasets.from_folder(folder, **LOOK).num_images == (27, 3)


def test_a_class_may_have_the_name_of_a_split(tmp_path):
    folder = write_folder(tmp_path / "vehicles")
    (folder / "cat").rename(folder / "train")
    assert datasets.from_folder(folder, **LOOK).class_names == ("dog", "owl", "train")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"name": "Pets"}, "`name` must begin with a small letter"),
        ({"name": "cifar10"}, "`name` must not be that of a data set of the package"),
        ({"canvas": 12, "surroundings": "black"}, "`canvas` must be at least 16 pixels"),
        ({"surroundings": "white"}, r"`surroundings` must be one of \('black', 'mirrored'\)"),
        ({"channels": 2}, "`channels` must be 1 for grey, 3 for colour"),
        ({"test_share": 0}, "`test_share` must be between 0 and 1"),
        ({"class_names": ("cat", "dog")}, "Received: 2 names, and the label 2"),
        ({"class_names": ("cat", "dog", "cat")}, "must be at least two different names"),
        ({"class_names": (*CLASSES, "yak")}, "none of yak in the split 'train'"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        datasets.from_arrays(IMAGES, LABELS, **{"name": "pets", **LOOK, **options})


@pytest.mark.parametrize(
    "images, labels, message",
    [
        (IMAGES / 255, LABELS, r"image 0 must be uint8 .* Received: dtype float64"),
        (IMAGES[:5], LABELS, "Received: 30 of dtype int64 for 5 images"),
        (IMAGES, LABELS - 1, "`labels` must not be negative"),
        (IMAGES[:3], range(3), "images to train on. Received: none of 0, 1, 2 in the split"),
        (IMAGES, LABELS / 1, "`labels` must be whole numbers.* dtype float64 for 30 images"),
        (IMAGES, "cat", "`labels` must be an array of real numbers or a sequence of integers"),
        (LABELS, LABELS, "image 0 must be uint8 .* Received: dtype int64"),
    ],
)
def test_arrays_that_are_no_images_with_labels(images, labels, message):
    with pytest.raises(ValueError, match=message):
        datasets.from_arrays(images, labels, name="pets")


def test_labels_as_of_keras_datasets():
    pets = datasets.from_arrays(IMAGES, LABELS[:, None], name="pets", **LOOK)
    assert pets.num_images == (24, 6)
    pets = datasets.from_arrays(
        IMAGES, LABELS, test=(IMAGES[::5], LABELS[::5, None]), name="pets", **LOOK
    )
    assert pets.num_images == (30, 6)


def test_a_split_whose_labels_are_secret_is_left_out():
    import datasets as library

    features = library.Features({"image": library.Image(), "label": library.ClassLabel(3)})
    train = {"image": list(map(Image.fromarray, IMAGES)), "label": LABELS.tolist()}
    hidden = {"image": train["image"][:4], "label": [-1] * 4}
    splits = {
        name: library.Dataset.from_dict(columns, features)
        for name, columns in (("train", train), ("test", hidden))
    }
    with pytest.warns(UserWarning, match="The split 'test' has no labels and is left out"):
        pets = datasets.from_hugging_face(library.DatasetDict(splits), name="pets", **LOOK)
    assert pets.num_images == (24, 6)  # a fifth of each class of the others


def test_new_images_are_not_in_a_written_split(tmp_path):
    folder = write_folder(tmp_path / "pets")
    datasets.from_folder(folder, **LOOK)
    Image.fromarray(IMAGES[0]).save(folder / "cat" / "new.png")
    with pytest.warns(UserWarning, match="pets: 1 images are not in the split .* are left out"):
        again = datasets.from_folder(folder, **LOOK)
    assert again.num_images == (24, 6)


def test_a_zoo_folder_does_not_replace_images_that_are_open(tmp_path):
    pets = open_arrays(tmp_path)
    record, samples = own_record(pets), pets.samples.source.load()
    register_folder(dataclasses.replace(record, side=4), samples=samples)
    assert datasets.get("pets") is pets
    register_folder(dataclasses.replace(record, name="owls"), samples=samples)
    register_folder(dataclasses.replace(record, name="owls", side=4), samples=samples)
    assert own_record(datasets.get("owls")).side == 4  # neither had more than samples


def test_data_of_a_command_line(tmp_path):
    folder = write_folder(tmp_path / "pets")
    assert find_data(str(folder))(**LOOK).name == "pets"
    np.savez(tmp_path / "more.npz", images=IMAGES, labels=LABELS)
    assert find_data(str(tmp_path / "more.npz"))(**LOOK).class_names == ("0", "1", "2")
    with pytest.raises(ValueError, match="`DATA` .*sub-folder per class.*nosuch"):
        find_data(str(tmp_path / "nosuch"))


@pytest.mark.parametrize("damage", ["cut", "empty", "one array"])
def test_a_file_that_is_no_npz_is_named(tmp_path, damage):
    file = tmp_path / "pets.npz"
    np.savez(file, images=IMAGES, labels=LABELS)
    file.write_bytes(b"" if damage == "empty" else file.read_bytes()[:-200])
    if damage == "one array":
        with file.open("wb") as opened:
            np.save(opened, IMAGES)
    with pytest.raises(ValueError, match=r"pets\.npz is not a whole file"):
        datasets.from_npz(file)


def test_names_of_the_package_are_refused_before_anything_is_read(tmp_path):
    for name in CLASSES:
        (tmp_path / "cifar10" / name).mkdir(parents=True)
        (tmp_path / "cifar10" / name / "no_image.png").touch()
    with pytest.raises(ValueError, match="`name` .*data set of the package.*cifar10"):
        datasets.from_folder(tmp_path / "cifar10")


def test_hugging_face_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"hf:owner/x .*pip install 'gdn-keras\[hugging-face\]'"):
        find_data("hf:owner/x")()


def test_a_set_of_tfds_without_classes_is_refused_before_its_download(tmp_path):
    import tensorflow_datasets as tfds

    class Boxes(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = {"image": tfds.features.Image(), "label": tfds.features.Text()}
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, dl_manager):
            raise AssertionError("downloaded")

        _generate_examples = None

    with pytest.raises(ValueError, match="image and label, a class.*boxes, with image, label"):
        datasets.from_tfds("boxes", data_dir=str(tmp_path))


@pytest.mark.parametrize(
    "name, message",
    [
        ("nothinghere", r"must be .* tensorflow-datasets\. `tens.*Received: nothinghere\."),
        ("mnst", r"`tfds_name` must be .*Did you mean 'mnist'.*Received: mnst\."),
        ("mnist:9.9.9", r"mnist:9\.9\.9 could not be opened: .*only: "),
        ("a b", "a b could not be opened: "),
    ],
)
def test_an_unknown_set_of_tfds_is_one_line(name, message):
    with pytest.raises(ValueError, match=message) as error:
        find_data(f"tfds:{name}")()
    assert "\n" not in str(error.value) and len(str(error.value)) < 250


def test_data_without_images_and_labels_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty .*sub-folder per class"):
        find_data(str(tmp_path / "empty"))()
    np.savez(tmp_path / "other.npz", pictures=IMAGES)
    with pytest.raises(ValueError, match="other.npz .*images, labels.*Received: pictures"):
        find_data(str(tmp_path / "other.npz"))()
