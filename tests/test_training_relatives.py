"""Runs that start from a finished network: a relative, or the one of the zoo itself (`--more`)."""

import contextlib
import functools
import json
import re
import shutil

import numpy as np
import pytest
from training_helpers import Place

import gdn_keras.zoo
from gdn_keras.datasets import SIZE_FACTORS
from training import commands
from training.runs import state
from training.runs.logs import read_log
from training.runs.record import Ancestor


def published_after(single, name, folder):
    """A place where tiny_single is finished, and a relative of it is published."""
    place = Place(single.data, folder)
    shutil.copytree(single.runs, place.runs)
    for command in ("run", "evaluate", "publish"):
        assert place(command, name) == 0
    return place


@pytest.fixture(scope="module")
def family(single, tmp_path_factory):
    """tiny_avg started from tiny_single, tiny_lse from tiny_avg. Tests leave it as it is."""
    place = published_after(single, "tiny_avg", tmp_path_factory.mktemp("family"))
    assert place("queue", "tiny_lse") == 0
    return place


def test_a_run_starts_from_its_relative(family):
    record = family.record("tiny_avg")
    assert record.warm_start == "tiny_single"
    assert [stage.name for stage in record.stages] == ["together"]
    first = read_log(family.folder("tiny_avg"))[0]
    assert float(first["accuracy"]) > 0.2  # it did not start from nothing


@pytest.mark.parametrize(
    "name, lineage",
    [("tiny_avg", ["tiny_single"]), ("tiny_lse", ["tiny_avg", "tiny_single"])],
)
def test_the_zoo_folder_has_the_whole_lineage(family, name, lineage):
    folder = gdn_keras.zoo.read_folder(family.zoo / name)
    assert folder.recipe["lineage"] == lineage
    for ancestor in lineage:
        assert re.search(rf"`{ancestor}`[^`.]* 1,280 images", folder.card)


@pytest.mark.parametrize("name, own, before", [("tiny_avg", 1280, 1280), ("tiny_lse", 416, 2560)])
def test_the_card_counts_its_own_images_and_those_of_its_ancestors(family, name, own, before):
    card = gdn_keras.zoo.read_folder(family.zoo / name).card
    assert re.search(rf"Budget `cpu`: {own:,} images after {before:,}\b", card)


def test_the_card_has_the_settings_of_the_training(family):
    card = gdn_keras.zoo.read_folder(family.zoo / "tiny_avg").card
    assert ", no scale-channel dropout, flip, " in card
    assert ": 0.667 epochs, batch 32" in gdn_keras.zoo.read_folder(family.zoo / "tiny_lse").card


def test_every_size_has_shares_of_the_scale_channels_that_add_up_to_one(family):
    histograms = gdn_keras.zoo.read_folder(family.zoo / "tiny_avg").metrics.scale_histograms
    assert list(histograms) == [f"{factor:.3f}" for factor in SIZE_FACTORS]
    assert all(sum(groups["all"]) == pytest.approx(1, abs=1e-5) for groups in histograms.values())


def test_sigmas_are_matched_for_one_scale_channel_only(family, capsys):
    assert family("evaluate", "tiny_avg", "--matched") == 1
    assert re.search("one scale channel.*Received: tiny_avg, 3 channels", capsys.readouterr().err)


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


@pytest.fixture(scope="module")
def derived(single, tmp_path_factory):
    """tiny_avg_transfer, made from tiny_single and published. Tests leave it as it is."""
    return published_after(single, "tiny_avg_transfer", tmp_path_factory.mktemp("derived"))


def test_a_derived_network_has_the_weights_of_its_source(derived):
    assert derived.record("tiny_avg_transfer").images_seen == 0
    network = derived.workspace.load_finished("tiny_avg_transfer", seed=0)
    source = derived.workspace.load_finished("tiny_single", seed=0)
    assert len(network.config.channel_sigmas) == 3
    for new, old in zip(network.weights, source.weights, strict=True):
        np.testing.assert_array_equal(new, old)


def test_the_card_of_a_derived_network_names_its_source(derived):
    card = gdn_keras.zoo.read_folder(derived.zoo / "tiny_avg_transfer").card
    assert re.search(r"`tiny_single` [^`.]*1,280 images[^`.]*3 scale channels", card)


def test_the_training_of_a_derived_network_cannot_be_changed(derived, capsys):
    assert derived("run", "tiny_avg_transfer", "--set", "epochs=2") == 1
    assert re.search("`--set` .*tiny_avg_transfer", capsys.readouterr().err)


def test_a_derived_network_needs_its_source(place, capsys):
    assert place("run", "tiny_avg_transfer") == 1
    error = capsys.readouterr().err
    assert re.search("tiny_avg_transfer .*`python -m training run tiny_single`", error)


def test_a_published_network_lends_its_weights_too(single, place):
    """Also to a network of another seed, which then says so."""
    shutil.copytree(single.zoo, place.zoo)
    for command in ("run", "evaluate", "publish"):
        assert place(command, "tiny_avg_transfer", "--seed", "3") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_avg_transfer")
    assert folder.recipe["seed"] == 3
    assert folder.recipe["ancestors"] == [{"name": "tiny_single", "seed": 0, "images": 1280}]
    assert re.search(r"`tiny_single` \(seed 0\) [^`.]*1,280 images", folder.card)


# === trained further ===


@pytest.fixture(scope="module")
def further(single, tmp_path_factory):
    """tiny_single of the zoo, trained for 1.5 epochs more. Tests leave it as it is."""
    place = Place(single.data, tmp_path_factory.mktemp("further"))
    shutil.copytree(single.zoo, place.zoo)
    assert place("run", "tiny_single", "--more", "1.5") == 0
    return place


def test_training_further_makes_the_same_run_longer(further):
    """Its stages, images and seconds are added up."""
    before = gdn_keras.zoo.read_folder(further.zoo / "tiny_single").recipe
    record = further.record("tiny_single")
    assert [stage.name for stage in record.stages] == ["single", "more"]
    assert record.to_dict()["stages"][0] == before["stages"][0]
    assert [stage.epochs for stage in record.stages] == [2, 1.5]
    assert [stage.learning_rate for stage in record.stages] == [0.01, 0.005]
    assert record.images_seen == 1280 + 960 and record.warm_start is None
    assert record.seconds > before["seconds"]


def test_training_further_starts_from_the_trained_weights(single, further):
    rows = read_log(further.folder("tiny_single"))
    assert [int(row["images"]) for row in rows] == [1920, 2240]  # it knows what came before
    assert float(rows[0]["loss"]) < float(read_log(single.folder("tiny_single"))[0]["loss"])


def test_a_finished_run_is_not_trained_further_twice(further):
    record = further.record("tiny_single")
    assert further("run", "tiny_single", "--more", "1.5") == 0
    assert further.record("tiny_single") == record


def test_how_much_further_is_settled_when_the_run_is_started(further, capsys):
    assert further("run", "tiny_single", "--more", "2") == 1
    error = capsys.readouterr().err
    assert re.search("`--more` must be 1.5.*delete that folder.*Received: 2", error)
    assert str(further.folder("tiny_single")) in error


def test_what_was_trained_further_replaces_the_network_of_the_zoo(further, place):
    shutil.copytree(further.zoo, place.zoo)
    shutil.copytree(further.runs, place.runs)
    before = gdn_keras.zoo.read_folder(place.zoo / "tiny_single")
    assert place("evaluate", "tiny_single", "--exact", "--matched") == 0
    assert place("publish", "tiny_single") == 0
    after = gdn_keras.zoo.read_folder(place.zoo / "tiny_single")
    assert after.recipe["lineage"] == [] and after.recipe["images_seen"] == 2240
    assert "stage `single`: 2 epochs" in after.card and "stage `more`: 1.5 epochs" in after.card
    known = "trained further .*accuracy on the test images"
    assert re.search(known, after.card) and not re.search(known, before.card)


def test_training_further_is_seen_and_taken_up_again(family, after_single, capsys, monkeypatch):
    """A stopped run of a network that is in the zoo is in progress, and the queue ends it."""
    place = after_single
    shutil.copytree(family.zoo / "tiny_avg", place.zoo / "tiny_avg")
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
    assert "1,920 images after 1,280 " in folder.card


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
    assert "`python -m training evaluate tiny_single --matched`" in capsys.readouterr().err
    assert place("evaluate", "tiny_single", "--matched") == 0
    assert place("publish", "tiny_single") == 0


@pytest.mark.parametrize(
    "name, words, message",
    [
        ("tiny_avg", [], "`--more` .*trained.*Received: --more 1 for tiny_avg"),
        ("tiny_single", ["--from", "none"], "`--more` .*--from.*--more 1 for tiny_single"),
        ("tiny_single", ["--holdout"], "`--more` .*--holdout.*--more 1 for tiny_single"),
        ("tiny_single", ["--seed", "3"], "`--seed` must be 0.*Received: 3"),
        ("tiny_single", ["--budget", "paper"], "`--budget` must be cpu.*Received: paper"),
    ],
)
def test_what_cannot_be_trained_further(single, place, name, words, message, capsys):
    shutil.copytree(single.zoo, place.zoo)
    assert place("run", name, "--more", "1", *words) == 1
    assert re.search(message, capsys.readouterr().err)


# === measured further ===


def test_a_network_of_the_zoo_is_measured_without_its_run(single, place, capsys):
    """As from a fresh clone; publishing it again changes nothing but what was measured."""
    shutil.copytree(single.zoo, place.zoo)
    assert place("evaluate", "tiny_single", "--exact", "--seed", "3") == 1  # another network
    assert "tiny_single-seed3" in capsys.readouterr().err
    assert place("evaluate", "tiny_single", "--exact", "--matched") == 0
    before = gdn_keras.zoo.read_folder(single.zoo / "tiny_single")
    shutil.rmtree(place.zoo / "tiny_single")
    assert place("publish", "tiny_single") == 0
    after = gdn_keras.zoo.read_folder(place.zoo / "tiny_single")
    assert after.recipe == before.recipe and after.config == before.config
    assert after.card == before.card
    for way in ("accuracy", "exact_accuracy", "matched_accuracy", "golden", "weights_sha256"):
        assert getattr(after.metrics, way) == getattr(before.metrics, way), way


def test_what_the_zoo_has_replaced_is_not_measured(single, place, tmp_path):
    """Nor published, although a copy of it was made to measure it."""
    shutil.copytree(single.zoo, place.zoo)
    assert place("evaluate", "tiny_single") == 0
    newer = Place(single.data, tmp_path / "newer")
    shutil.copytree(single.zoo, newer.zoo)
    both = ("evaluate", "tiny_single", "--exact", "--matched")
    for words in (("run", "tiny_single", "--more", "0.5"), both, ("publish", "tiny_single")):
        assert newer(*words) == 0
    shutil.rmtree(place.zoo)
    shutil.copytree(newer.zoo, place.zoo)
    assert place.workspace.record("tiny_single", seed=0).images_seen == 1280 + 320
    assert place(*both) == place("publish", "tiny_single") == 0
    expected, found = (
        gdn_keras.zoo.read_folder(zoo / "tiny_single").metrics for zoo in (newer.zoo, place.zoo)
    )
    assert found.weights_sha256 == expected.weights_sha256 and found.accuracy == expected.accuracy
