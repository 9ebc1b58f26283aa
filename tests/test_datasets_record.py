"""Records of data sets: what they must say, and a new one, which is one file and a recipe."""

import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from training_helpers import Place

from export.hub import card as hub
from gdn_keras import accuracy, datasets, zoo
from gdn_keras.classify import as_in_training, read_image
from gdn_keras.datasets import (
    Arrays,
    DataSet,
    Loader,
    ObjectSizes,
    SizeFactors,
    raw,
    samples,
    sets,
)
from gdn_keras.datasets.dataset import SURROUNDINGS, Sizes, shown_sizes
from training import recipes

ROOT = Path(__file__).parent.parent


# === The records of the package ===


@pytest.mark.parametrize("name", datasets.names())
def test_a_record_is_one_file_of_its_name_and_says_what_it_is(name):
    dataset = datasets.get(name)
    assert (ROOT / "gdn_keras" / "datasets" / "sets" / f"{name}.py").is_file()
    assert dataset.name == name and dataset.title and dataset.description
    with pytest.raises(dataclasses.FrozenInstanceError):
        dataset.name = "other"


@pytest.mark.parametrize("name", datasets.names())
def test_a_record_has_images_and_classes_that_networks_can_take(name):
    dataset = datasets.get(name)
    height, width = dataset.image_size
    assert height == width and dataset.channels in (1, 3) and dataset.num_classes >= 2
    assert len(dataset.class_names) in (0, dataset.num_classes)
    assert dataset.surroundings in (None, *SURROUNDINGS)


@pytest.mark.parametrize("name", datasets.names())
def test_keys_of_sizes_stand_for_their_values(name):
    sizes = datasets.get(name).sizes
    assert [sizes.key(sizes.value(key)) for key in sizes.keys] == sizes.keys
    assert [sizes.value(key) for key in sizes.keys] == list(sizes.values)
    for train_sizes in sizes.ranges or (None,):
        assert set(sizes.trained(train_sizes)) <= set(sizes.values)
        assert sizes.reference(train_sizes) in sizes.keys


@pytest.mark.parametrize("name", [name for name in datasets.names() if datasets.get(name).samples])
def test_samples_are_as_the_record_says(name):
    dataset = datasets.get(name)
    loaded = dataset.samples.load()
    assert loaded.images.shape[1:] == (*dataset.image_size, dataset.channels)
    assert loaded.class_names == dataset.class_names


FACTORS = SizeFactors((0.5, 2**-0.25, 1.0, 2.0), side=28)


def test_names_of_size_factors():
    assert FACTORS.keys == ["0.500", "0.841", "1.000", "2.000"]
    assert FACTORS.value("0.841") == FACTORS.check(0.8409) == 2**-0.25
    assert FACTORS.label("0.500") == "size factor 0.500" and FACTORS.heading("0.500") == "0.5"
    assert FACTORS.columns == {"½": (0.5,), "1": (1.0,), "2": (2.0,)}


def test_size_factor_1_is_trained_on():
    assert FACTORS.trained() == (1.0,) and FACTORS.reference() == "1.000"
    assert FACTORS.trained_side() == 28 and SizeFactors().trained_side() is None


def test_size_factors_refuse():
    with pytest.raises(ValueError, match="`size_factor` must be one of: 0.500, .*size_factor=3"):
        FACTORS.key(3)
    with pytest.raises(ValueError, match="`train_sizes` must be None .*train_sizes='mid'"):
        FACTORS.trained("mid")


PIXELS = ObjectSizes(10, 20, ranges={"low": (10, 13)})


def test_names_of_object_sizes():
    assert PIXELS.keys == [str(size) for size in range(10, 21)]
    assert PIXELS.label("10") == "object size 10 pixels" and PIXELS.heading("10") == "10"
    assert PIXELS.columns == {"10…13": (10, 11, 12, 13)}
    assert shown_sizes(PIXELS.keys, most=3) == ["10", "15", "20"]


def test_a_range_of_object_sizes_or_all_are_trained_on():
    assert PIXELS.trained("low") == (10, 11, 12, 13) and PIXELS.reference("low") == "11"
    assert PIXELS.trained() == PIXELS.values and PIXELS.trained_side() == 15
    assert "10 to 13 pixels" in PIXELS.trained_words("low")


def test_object_sizes_refuse():
    with pytest.raises(ValueError, match=r"whole numbers in 10...20.*sizes=\(9,\)"):
        PIXELS.key(9)
    with pytest.raises(ValueError, match=r"one of \('low', 'all'\).*sizes='mid'"):
        PIXELS.trained("mid")


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"`name` .*'stir_emoji'.*names\(\)`.*name='stir_em'"):
        datasets.get("stir_em")


def test_an_unknown_data_set_has_a_name_and_cannot_be_loaded():
    unknown = datasets.describe("my_birds")
    assert (unknown.name, unknown.samples, unknown.hub_id) == ("my_birds", None, None)
    with pytest.raises(ValueError, match="'my_birds' .*load"):
        next(unknown.load_sizes())


@pytest.mark.parametrize(
    "change, message",
    [
        ({"num_classes": 3}, "`class_names` must be 3 names.*Received: 2 names"),
        ({"surroundings": "white"}, "`surroundings` must be None or one of .*'white'"),
    ],
)
def test_records_refuse(change, message):
    with pytest.raises(ValueError, match=message):
        DataSet(name="birds", class_names=("crow", "gull"), **change)


# === Data sets of one's own ===


class InMemory(Loader):
    """Images whose brightness is their size; the object has 10 to 13 pixels."""

    def load(self, sizes, *, split, data_dir=None, limit=None):
        for size in sizes:
            images = np.full((4, 16, 16, 1), size, np.uint8)
            labels = np.arange(4) % 2
            yield size, Arrays(images, labels, ("crow", "gull")).spread(limit)


@pytest.fixture
def birds():
    sizes = ObjectSizes(10, 13, ranges={"low": (10, 11)})
    yield datasets.register(
        DataSet(name="birds", class_names=("crow", "gull"), sizes=sizes, loader=InMemory())
    )
    del sets._registered["birds"]


def test_a_registered_set_is_known(birds):
    assert datasets.get("birds") is birds and "birds" in datasets.names()
    assert birds.num_classes == 2
    assert accuracy.size_keys("birds") == ["10", "11", "12", "13"]


def test_a_registered_set_is_measured_at_the_sizes_asked_for(birds):
    loaded = dict(accuracy.test_sets("birds", ["13", "10"], limit=2))
    assert list(loaded) == ["13", "10"] and set(loaded["13"].images.flat) == {13}
    assert len(loaded["10"]) == 2


def test_a_registered_set_is_trained_on_its_sizes(birds):
    low = birds.load_training("low", split="train")
    assert len(low) == 8 and low.images[:, 0, 0, 0].tolist() == [10] * 4 + [11] * 4
    few = birds.load_training("low", split="train", limit=4)
    assert set(few.images.flat) == {10, 11}  # of both sizes


def test_registering_refuses(birds):
    with pytest.raises(ValueError, match="`name` .*package.*cifar10"):
        datasets.register(DataSet(name="cifar10"))
    with pytest.raises(ValueError, match="`dataset` must be a DataSet. .*dataset='birds'"):
        datasets.register("birds")
    again = DataSet(name="birds")
    assert datasets.register(again) is again is datasets.get("birds")


# === A new one in the package: one file and a recipe, as CONTRIBUTING.md has them ===


def snippets():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Add a data set")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def leaves(tmp_path, monkeypatch):
    """The data set of CONTRIBUTING.md with a data folder, and a small network for it."""
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "leaves.py").write_text(snippets()[0])
    monkeypatch.setattr(sets, "__path__", [*sets.__path__, str(tmp_path / "sets")])
    sets._of_the_package.cache_clear()
    data = tmp_path / "data"
    data.mkdir()
    rng, files = np.random.default_rng(0), {}
    for split, count in (("train", 24), ("validation", 6), ("test", 12)):
        files[f"{split}_images"] = rng.integers(0, 256, (count, 24, 24, 3), dtype=np.uint8)
        files[f"{split}_labels"] = np.arange(count) % 3
    np.savez(data / "leaves.npz", **files)
    monkeypatch.delenv(raw.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(samples, "SAMPLE_FOLDER", tmp_path)
    samples.make_samples(tmp_path, names=["leaves"], data_dir=data)
    names = dict(vars(recipes))
    exec(snippets()[1], names)
    (recipe,) = names["_leaf_recipes"]()
    small = dict(widths=(3,), channel_sigmas=(1.0, 2.0), truncation=0.05)
    tiny = dataclasses.replace(
        recipe, config=recipe.config.replace(**small), epochs=1, batch_size=8, colour_jitter=False
    )
    monkeypatch.setitem(recipes.ALL, recipe.name, tiny)
    yield Place(data, tmp_path), recipe, files
    sets._of_the_package.cache_clear()
    sys.modules.pop(f"{sets.__name__}.leaves", None)


def test_a_new_file_is_a_new_data_set(leaves):
    _, recipe, _ = leaves
    dataset = datasets.get("leaves")
    assert dataset in datasets.sets.all_sets().values() and dataset.num_classes == 3
    config = recipe.config
    assert (config.input_size, config.input_channels) == ((48, 48), 3)
    assert config.class_names == ("ash", "beech", "oak")
    assert as_in_training(config, dataset="leaves") == (24, "mirrored")


def test_images_of_a_new_data_set_are_loaded(leaves):
    place, _, files = leaves
    test = datasets.load_arrays("leaves", split="test", size_factor=2, data_dir=place.data)
    assert test.images.shape == (12, 48, 48, 3)
    at_one = datasets.load_arrays("leaves", split="test", data_dir=place.data)
    np.testing.assert_array_equal(at_one.images[:, 12:36, 12:36], files["test_images"])
    np.testing.assert_array_equal(datasets.load_samples("leaves").images, at_one.images[:6])


def test_photographs_are_shown_to_a_network_of_a_new_data_set_as_in_training(leaves, tmp_path):
    config = leaves[1].config
    pixels = np.random.default_rng(0).integers(0, 256, (50, 100, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "leaf.png")
    fitted = read_image(tmp_path / "leaf.png", config=config, dataset="leaves")
    assert re.search("100x50 to 24x12, .*48x48 mirrored", fitted.how)


@pytest.mark.heavy
def test_a_network_of_a_new_data_set_goes_all_the_way(leaves):
    place, recipe, _ = leaves
    name = recipe.name
    assert place("run", name, "--budget", "paper") == 0
    assert place("evaluate", name) == 0
    assert place("publish", name) == 0
    path = place.zoo / name
    info, model = zoo.info(path), zoo.load(path)
    measured = accuracy.evaluate(model, dataset="leaves", data_dir=place.data)
    assert list(measured) == list(info.accuracy) == ["0.500", "1.000", "2.000"]
    assert measured == pytest.approx(info.accuracy)
    text = (path / "README.md").read_text(encoding="utf-8")
    assert "| size | 0.5 | 1 | 2 | mean |" in text and "CC BY 4.0.\n" in text
    assert "size factor 1)" in text
    assert zoo.read_folder(path).metrics.golden.sample_set == "leaves"
    metadata = hub._metadata(info).to_yaml()
    assert "leaves, size factor 0.500" in metadata and "datasets:\n- leaves\n" in metadata


def test_sizes_that_lack_a_method_name_it():
    with pytest.raises(TypeError, match="Sizes .*check.*trained_words"):
        Sizes()
