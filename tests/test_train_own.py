"""`gdn-keras train` on images of one's own, and all that takes the folder it writes."""

import json
import re
import shutil
import time

import numpy as np
import pytest
from PIL import Image
from processes import Command

from export.__main__ import main as export
from export.page import build, choose
from gdn_keras import datasets, zoo
from gdn_keras.__main__ import main
from gdn_keras.datasets import load_samples, sets
from gdn_keras.parts import load_part
from gdn_keras.zoo import registry
from training import own, recipes
from training.runs import state

CLASSES = ("bag", "sneaker", "trouser")
LOOK = ["--canvas", "32", "--side", "16"]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(sets, "_registered", {})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Ten images of each class, as files."""
    samples = load_samples("fashion_mnist")
    folder = tmp_path_factory.mktemp("data") / "clothes"
    for number, (image, label) in enumerate(zip(samples.images, samples.labels, strict=True)):
        name = samples.class_names[label]
        if name in CLASSES:
            (folder / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[..., 0]).save(folder / name / f"{number}.png")
    return folder


def command(data, output, *more):
    like = [] if "--like" in more or "--from" in more else ["--like", "tiny_single"]
    return ["train", str(data), "-o", str(output), *LOOK, *like, *more]


@pytest.fixture(scope="module")
def mine(data, tmp_path_factory):
    """A network of one scale channel that has learned its images by heart."""
    output = tmp_path_factory.mktemp("networks") / "mine"
    assert main(command(data, output, "--epochs", "15")) == 0
    return output


# === Training ===


@pytest.mark.heavy
def test_it_is_a_complete_zoo_folder(mine):
    folder = zoo.read_folder(mine)
    assert folder.config.class_names == CLASSES and folder.config.input_size == (32, 32)
    assert folder.recipe["seed"] == 0 and folder.recipe["lineage"] == []
    assert (mine / "accuracy.png").stat().st_size > 1000
    assert zoo.verify(mine) < 1e-3


@pytest.mark.heavy
def test_it_is_measured_on_its_own_test_images(mine):
    metrics = zoo.read_folder(mine).metrics
    assert metrics.dataset == "clothes" and metrics.num_test_images == 6
    assert len(metrics.accuracy) == 9 and metrics.accuracy["1.000"] > 0.6
    record = json.loads((mine / "data.json").read_text())
    assert record["counts"]["train"] == dict.fromkeys(CLASSES, 8)


@pytest.mark.heavy
def test_its_files_do_not_say_where_the_images_were(mine, data):
    for name in ("README.md", "data.json"):
        assert str(data.parent) not in (mine / name).read_text()


@pytest.mark.heavy
def test_its_card_has_nothing_of_the_paper_and_no_licence(mine):
    card = zoo.read_folder(mine).card
    assert "paper's budget" not in card and "Apache" not in card


@pytest.mark.heavy
def test_evaluate_measures_what_training_did_and_draws_it(mine, data, capsys, tmp_path):
    figure = tmp_path / "sizes.png"
    options = ["--data", str(data), "--sizes", "--figure", str(figure), "--json"]
    assert main(["evaluate", str(mine), *options]) == 0
    measured = json.loads(capsys.readouterr().out)
    metrics = zoo.read_folder(mine).metrics
    assert {size: both["accuracy"] for size, both in measured.items()} == metrics.accuracy
    with Image.open(figure) as image:
        assert min(image.size) > 300
    assert main(["evaluate", str(mine), "--data", str(data)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "size",
        "1.000",
        "mean",
    ]


@pytest.mark.heavy
def test_predict_shows_a_file_as_in_training(mine, data, capsys):
    record = json.loads((mine / "data.json").read_text())
    test = record["split"]["test"]
    assert main(["predict", str(mine), *(str(data / name) for name in test), "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    right = [a["classes"][0]["name"] == n.split("/")[0] for a, n in zip(answers, test, strict=True)]
    assert np.mean(right) == zoo.read_folder(mine).metrics.accuracy["1.000"]


@pytest.mark.heavy
def test_export_and_the_hub_take_it(mine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "hub", str(mine), "--repo", "me/mine", "--dry-run", "-o", "hub"]) == 0
    files = {path.name for path in (tmp_path / "hub").iterdir()}
    assert files >= {"model.onnx", "data.json", "samples.npz", "README.md", "accuracy.png"}
    # what others download is complete: the data set is known from its files
    sets._registered.clear()
    assert zoo.info(tmp_path / "hub").dataset == "clothes"
    assert datasets.get("clothes").samples.load().images.shape[1:] == (32, 32, 1)


@pytest.mark.heavy
def test_int8_is_measured_on_the_test_images(mine, data, tmp_path, capsys):
    target = tmp_path / "int8.onnx"
    words = ["onnx", str(mine), "--quantise", "int8", "-o", str(target)]
    assert export(words) == 1
    assert re.search("'clothes' .*`--data`", capsys.readouterr().err)
    code = export([*words, "--data", str(data)])
    output = capsys.readouterr()
    # six images: a single one that it takes for another class is too many, and is said so
    assert target.exists() == (code == 0) == ("No file was kept" not in output.err)


@pytest.mark.heavy
def test_the_page_takes_it(mine, tmp_path):
    infos = choose([str(mine)])
    (family,) = build.families(infos)
    assert (family["title"], family["surroundings"], family["colours"]) == ("clothes", "black", 1)
    assert (family["canvas"], family["side"], family["classes"]) == (32, 16, list(CLASSES))
    samples = datasets.get("clothes").samples.source.load()
    build.write_samples(tmp_path / "samples.png", family, samples)
    with Image.open(tmp_path / "samples.png") as sheet:
        pixels = np.asarray(sheet)
    assert pixels.shape == (16, 160) and family["samples"]["labels"] == sorted(samples.labels)
    np.testing.assert_array_equal(pixels[:, :16], samples.images[samples.labels.argmin(), :, :, 0])


@pytest.mark.heavy
def test_fine_tuning_starts_from_its_weights(mine, data, tmp_path, capsys):
    """On other images in a folder of the same name."""
    output, other = tmp_path / "tuned", tmp_path / data.name
    shutil.copytree(data, other)
    for folder in other.iterdir():
        next(folder.iterdir()).unlink()
    words = ["--from", str(mine), "--like", "tiny_avg", "--epochs", "1"]
    assert main(command(other, output, *words)) == 0
    folder = zoo.read_folder(output)
    assert folder.recipe["lineage"] == ["mine"]
    assert [stage["name"] for stage in folder.recipe["stages"]] == ["together"]
    assert len(folder.config.channel_sigmas) == 3
    models = [zoo.load(path) for path in (mine, output)]
    before, after = (m.get_layer(m.blocks[0].jet).get_weights()[0] for m in models)
    # one step from the weights it started with, not from random ones
    assert np.abs(before - after).max() < 0.1 * np.abs(before).max()


@pytest.mark.heavy
def test_the_same_command_resumes(data, mine, tmp_path, monkeypatch):
    output = tmp_path / "mine"
    words = ["-m", "gdn_keras", *command(data, output, "--epochs", "15")]
    process = Command(words)
    log = tmp_path / "mine-seed0" / "log.csv"
    while not log.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(15)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert "mine: stopped" in out
    saved, _ = state.load(tmp_path / "mine-seed0")
    assert 0 < saved.step < 120 and not output.exists()
    process = Command(words)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    expected = zoo.read_folder(mine).metrics
    assert zoo.read_folder(output).metrics.weights_sha256 == expected.weights_sha256
    # and once more: nothing is left to do, whatever precision another machine prefers, and other
    # options do not go with it
    trained_in = zoo.read_folder(output).recipe["stages"][0]["dtype"]
    other = {"float32": "mixed_bfloat16"}.get(trained_in, "float32")
    monkeypatch.setattr(own, "auto_precision", lambda budget: other)
    assert main(command(data, output, "--epochs", "15")) == 0
    assert main(command(data, output, "--epochs", "2")) == 1
    assert main(command(data, output, "--epochs", "15", "--from", str(mine))) == 1


# === Recipes and mistakes ===


def test_the_recipe_is_that_of_another_network_for_other_images(data):
    clothes = datasets.from_folder(data, record=None, channels=3)
    options = own.OwnOptions(like="cifar_avg_2jet")
    like = recipes.get("cifar_avg_2jet")
    recipe = own.make_recipe(like, clothes, name="mine", options=options)
    assert recipe.config == like.config.replace(num_classes=3, class_names=CLASSES)
    assert (recipe.batch_size, recipe.epochs, recipe.flip) == (24, round(4000 / 24), True)
    assert recipe.colour_jitter and recipe.train_split == "train"
    plan = own.make_plan(recipe, start=None, dtype="float32")
    assert [(s.name, s.epochs) for s in plan.stages] == [("single", 8 * 167), ("together", 167)]
    assert plan.stages[0].config.channel_sigmas == (1.0,)


def test_the_recipe_follows_the_images_and_the_options(data):
    like = recipes.get("cifar_avg_2jet")
    grey = datasets.from_folder(data, record=None, channels=1, canvas=72, surroundings="black")
    recipe = own.make_recipe(like, grey, name="mine", options=own.OwnOptions(flip=False, epochs=5))
    assert recipe.config.padding == "zero" and recipe.config.input_channels == 1
    assert not recipe.colour_jitter and not recipe.flip and recipe.epochs == 5


def test_parts_are_not_loaded_twice_in_a_clone():
    assert load_part("training.own") is own
    assert load_part("export.__main__").main is export


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "`--like` must be the name of a recipe"),
        (["--like", "nosuch"], "`name` must be the name of a recipe"),
        (["--like", "cifar_avg_2jet_transfer"], "`--like` must be a recipe that is trained"),
        (["--like", "tiny_avg", "--from", "nosuch"], "Unknown model 'nosuch'"),
        (["--like", "tiny_avg", "--from", "cifar_avg_2jet"], "a network with widths=(4, 6)"),
        (["--like", "tiny_avg", "--name", "cifar10"], "that of a data set of the package"),
        (["--like", "tiny_avg", "--side", "60"], "`canvas` must be at least 120 pixels"),
    ],
)
def test_mistakes(words, message, data, tmp_path, capsys):
    assert main(["train", str(data), "-o", str(tmp_path / "mine"), *words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "option, channels", [("--grey", 1), ("--gray", 1), ("--colour", 3), ("--color", 3)]
)
def test_options_have_british_and_american_names(option, channels, monkeypatch, capsys):
    monkeypatch.setattr(own, "train_own", lambda *_, options: options.look["channels"])
    assert main(["train", "photos", "-o", "mine", option]) == channels
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    words = capsys.readouterr().out
    assert "--colour" in words and "--color" not in words and "--gray" not in words


@pytest.mark.parametrize(
    "images, message",
    [(0, "must have one sub-folder per class"), (1, "must have images to train on")],
)
def test_images_that_do_not_suffice_leave_no_folder_behind(images, message, tmp_path, capsys):
    for name in CLASSES:
        (tmp_path / "clothes" / name).mkdir(parents=True)
        for number in range(images):
            Image.new("L", (9, 9)).save(tmp_path / "clothes" / name / f"{number}.png")
    assert main(command(tmp_path / "clothes", tmp_path / "networks" / "mine")) == 1
    assert message in capsys.readouterr().err and not (tmp_path / "networks").exists()


def test_other_folders_are_not_replaced(data, tmp_path, capsys):
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").touch()
    assert main(command(data, other)) == 1
    assert str(other) in capsys.readouterr().err and (other / "chapter.tex").exists()


def test_networks_of_the_zoo_are_not_replaced(data, tmp_path, capsys):
    shutil.copytree(registry.checkout() / "zoo" / "fashion_avg_2jet", tmp_path / "copy")
    assert main(command(data, tmp_path / "copy")) == 1
    assert f"{tmp_path / 'copy'} is a network of another kind" in capsys.readouterr().err


def test_data_belongs_to_networks_that_were_trained_on_it(data, capsys):
    assert main(["evaluate", "fashion_avg_2jet", "--data", str(data)]) == 1
    error = capsys.readouterr().err
    assert re.search("`--data` .*data.json.*Received: fashion_avg_2jet", error)
