"""Runs that start from a finished network: a relative, or the one of the zoo itself (`--more`)."""

import contextlib
import functools
import json
import re
import shutil

import numpy as np
import pytest

import gdn_keras.zoo
from gdn_keras.datasets import SIZE_FACTORS
from training import commands
from training.runs import state
from training.runs.logs import read_log
from training.runs.record import Ancestor


def test_a_warm_start_is_used_and_told(after_single, capsys):
    place = after_single
    assert place("run", "tiny_avg") == 0
    record = place.record("tiny_avg")
    assert record.warm_start == "tiny_single"
    assert [stage.name for stage in record.stages] == ["together"]
    first = read_log(place.folder("tiny_avg"))[0]
    assert float(first["accuracy"]) > 0.2  # it did not start from nothing
    assert place("evaluate", "tiny_avg") == 0
    assert place("evaluate", "tiny_avg", "--matched") == 1
    assert "for networks of one scale channel. Received: tiny_avg" in capsys.readouterr().err
    assert place("publish", "tiny_avg") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_avg")
    assert folder.recipe["lineage"] == ["tiny_single"]
    assert "The weights started from `tiny_single` as it was after 1,280 images." in folder.card
    assert "Budget `cpu`: 1,280 images after 1,280 of its ancestor, in " in folder.card
    assert "what the scale channels give" in folder.card
    assert ", no scale-channel dropout, flip, " in folder.card
    histograms = folder.metrics.scale_histograms
    assert list(histograms) == [f"{factor:.3f}" for factor in SIZE_FACTORS]
    assert all(sum(groups["all"]) == pytest.approx(1, abs=1e-5) for groups in histograms.values())
    assert place("queue", "tiny_lse") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_lse")
    assert folder.recipe["lineage"] == ["tiny_avg", "tiny_single"]
    words = "The weights started from `tiny_avg` as it was after 1,280 images, which started from "
    assert words + "`tiny_single` as it was after 1,280 images." in folder.card
    assert "416 images after 2,560 of its ancestors, in " in folder.card
    assert ": 0.667 epochs, batch 32" in folder.card


def test_records_that_know_only_the_nearest_relative(single, place):
    """Such as were made before whole lineages were recorded: the relatives say the rest."""
    shutil.copytree(single.zoo, place.zoo)
    old = {"recipe": "tiny_avg", "budget": "cpu", "seed": 0, "images": 416}
    old |= {"warm_start": "tiny_single"}
    for name, record in {"tiny_avg": old, "tiny_max": old | {"warm_start": "tiny_avg"}}.items():
        place.folder(name).mkdir(parents=True)
        (place.folder(name) / state.RECORD).write_text(json.dumps(record))
    lineage = functools.partial(place.workspace.lineage, seed=0)
    chain = lineage("tiny_max")
    assert [ancestor.name for ancestor in chain] == ["tiny_max", "tiny_avg", "tiny_single"]
    assert [ancestor.seed for ancestor in chain] == [0, 0, 0]
    assert [ancestor.images for ancestor in chain] == [416, 416, 1280]  # the last by its zoo folder
    record = old | {"ancestors": [{"name": "tiny_single", "seed": 0}]}  # when images were not
    (place.folder("tiny_avg") / state.RECORD).write_text(json.dumps(record))
    assert lineage("tiny_avg")[1] == chain[2]
    record["ancestors"][0]["seed"] = 5  # another network than the one that is there
    (place.folder("tiny_avg") / state.RECORD).write_text(json.dumps(record))
    assert lineage("tiny_avg")[1].images is None
    shutil.rmtree(place.folder("tiny_avg"))
    assert lineage("tiny_max") == (chain[0], Ancestor(name="tiny_avg"))  # nothing else is known


def test_a_derived_network_has_the_weights_of_its_source(after_single, capsys):
    place = after_single
    assert place("run", "tiny_avg_transfer") == 0
    assert place.record("tiny_avg_transfer").images_seen == 0
    derived = place.workspace.load_finished("tiny_avg_transfer", seed=0)
    source = place.workspace.load_finished("tiny_single", seed=0)
    assert len(derived.config.channel_sigmas) == 3
    for new, old in zip(derived.weights, source.weights, strict=True):
        np.testing.assert_array_equal(new, old)
    assert place("evaluate", "tiny_avg_transfer") == 0
    assert place("publish", "tiny_avg_transfer") == 0
    card = gdn_keras.zoo.read_folder(place.zoo / "tiny_avg_transfer").card
    words = "Not at all: these are the weights of `tiny_single` as it was after 1,280 images, in 3 "
    assert words + "scale channels" in card
    assert place("run", "tiny_avg_transfer", "--set", "epochs=2") == 1
    assert "is derived without any" in capsys.readouterr().err


def test_a_derived_network_needs_its_source(place, capsys):
    assert place("run", "tiny_avg_transfer") == 1
    assert (
        "tiny_avg_transfer is derived from tiny_single, which is not finished: "
        "`python -m training run tiny_single` creates it." in capsys.readouterr().err
    )


def test_a_published_network_lends_its_weights_too(single, place):
    """Also to a network of another seed, which then says so."""
    shutil.copytree(single.zoo, place.zoo)
    for command in ("run", "evaluate", "publish"):
        assert place(command, "tiny_avg_transfer", "--seed", "3") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_avg_transfer")
    assert folder.recipe["seed"] == 3
    assert folder.recipe["ancestors"] == [{"name": "tiny_single", "seed": 0, "images": 1280}]
    words = "these are the weights of `tiny_single` (seed 0) as it was after 1,280 images, in 3"
    assert words in folder.card


# === trained further ===


def test_a_network_of_the_zoo_is_trained_further(single, place, capsys):
    """It is the same run, made longer: its stages, images and seconds are added up."""
    shutil.copytree(single.zoo, place.zoo)
    before = gdn_keras.zoo.read_folder(place.zoo / "tiny_single")
    further = ("run", "tiny_single", "--more", "1.5")
    assert place(*further) == 0
    record = place.record("tiny_single")
    assert [stage.name for stage in record.stages] == ["single", "more"]
    assert record.to_dict()["stages"][0] == before.recipe["stages"][0]
    assert record.stages[1].epochs == 1.5
    rates = [stage.learning_rate for stage in record.stages]
    assert rates == [0.01, 0.005]
    assert record.images_seen == 1280 + 960 and record.warm_start is None
    assert record.seconds > before.recipe["seconds"]
    rows = read_log(place.folder("tiny_single"))
    assert [int(row["images"]) for row in rows] == [1920, 2240]  # it knows what came before
    assert float(rows[0]["loss"]) < float(read_log(single.folder("tiny_single"))[0]["loss"])
    assert place(*further) == 0  # finished: nothing is done again
    assert place.record("tiny_single") == record
    assert place("run", "tiny_single", "--more", "2") == 1
    error = capsys.readouterr().err
    assert "`--more` must be 1.5, as when the run in " in error
    assert "or delete that folder to continue from the network of the zoo." in error
    assert place("evaluate", "tiny_single", "--exact", "--matched") == 0
    assert place("publish", "tiny_single") == 0
    after = gdn_keras.zoo.read_folder(place.zoo / "tiny_single")
    assert after.recipe["lineage"] == [] and after.recipe["images_seen"] == 2240
    assert "stage `single`: 2 epochs" in after.card and "stage `more`: 1.5 epochs" in after.card
    words = "when its accuracy on the test images was known"
    assert words in after.card and words not in before.card


def test_training_further_is_seen_and_taken_up_again(after_single, capsys, monkeypatch):
    """A stopped run of a network that is in the zoo is in progress, and the queue ends it."""
    place = after_single
    for command in ("run", "evaluate", "publish"):
        assert place(command, "tiny_avg") == 0
    shutil.rmtree(place.folder("tiny_avg"))
    with monkeypatch.context() as patch:
        patch.setattr(commands, "Stopping", lambda: _StopAtOnce())
        assert place("run", "tiny_avg", "--more", "1") == 3
    capsys.readouterr()
    assert place("list", "tiny_avg") == 0
    assert re.search("tiny_avg +in progress", capsys.readouterr().out)
    assert place("queue", "tiny_avg") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_avg")
    assert [stage["name"] for stage in folder.recipe["stages"]] == ["together", "more"]
    assert folder.recipe["images_seen"] == 1280 + 640
    assert folder.recipe["lineage"] == ["tiny_single"]
    assert "1,920 images after 1,280 of its ancestor" in folder.card


def test_what_is_trained_further_is_in_progress_until_it_is_published(single, place, capsys):
    """The queue may be stopped between the training and the measuring."""
    shutil.copytree(single.zoo, place.zoo)
    assert place("run", "tiny_single", "--more", "0.5") == 0
    capsys.readouterr()
    assert place("list", "tiny_single") == 0
    assert re.search("tiny_single +in progress", capsys.readouterr().out)
    for way in ("--exact", "--matched"):  # what it had must be there again
        assert place("evaluate", "tiny_single", way) == 0
    assert place("queue", "tiny_single") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_single")
    assert folder.recipe["images_seen"] == 1280 + 320
    capsys.readouterr()
    assert place("list", "tiny_single") == 0
    assert re.search("tiny_single +trained", capsys.readouterr().out)


class _StopAtOnce(contextlib.nullcontext):
    def __enter__(self):
        return lambda: True


def test_what_was_measured_is_not_lost(single, place, capsys):
    shutil.copytree(single.zoo, place.zoo)
    assert place("run", "tiny_single", "--more", "0.5") == 0
    assert place("evaluate", "tiny_single", "--exact") == 0
    assert place("publish", "tiny_single") == 1
    words = "has accuracies with all sigmas times the size factor, which must not be lost: "
    assert words + "`python -m training evaluate tiny_single --matched`" in capsys.readouterr().err
    assert place("evaluate", "tiny_single", "--matched") == 0
    assert place("publish", "tiny_single") == 0


@pytest.mark.parametrize(
    "name, words, message",
    [
        ("tiny_avg", [], "continues a trained network of the zoo, with none of --from"),
        ("tiny_single", ["--from", "none"], "Received: --more 1 for tiny_single."),
        ("tiny_single", ["--holdout"], "continues a trained network of the zoo"),
        ("tiny_single", ["--seed", "3"], "`--seed` must be 0, that of tiny_single in the zoo"),
        ("tiny_single", ["--budget", "paper"], "`--budget` must be cpu, as when the run"),
    ],
)
def test_what_cannot_be_trained_further(single, place, name, words, message, capsys):
    shutil.copytree(single.zoo, place.zoo)
    assert place("run", name, "--more", "1", *words) == 1
    assert message in capsys.readouterr().err


# === measured further ===


def test_a_network_of_the_zoo_is_measured_without_its_run(single, place, capsys):
    """As from a fresh clone; publishing it again changes nothing but what was measured."""
    shutil.copytree(single.zoo, place.zoo)
    assert place("evaluate", "tiny_single", "--exact", "--seed", "3") == 1  # another network
    assert "must be a finished run" in capsys.readouterr().err
    assert place("evaluate", "tiny_single", "--exact", "--matched") == 0
    before = gdn_keras.zoo.read_folder(single.zoo / "tiny_single")
    shutil.rmtree(place.zoo / "tiny_single")
    assert place("publish", "tiny_single") == 0
    after = gdn_keras.zoo.read_folder(place.zoo / "tiny_single")
    assert after.recipe == before.recipe and after.config == before.config
    assert after.card == before.card
    for way in ("accuracy", "exact_accuracy", "matched_accuracy", "golden", "weights_sha256"):
        assert getattr(after.metrics, way) == getattr(before.metrics, way), way
