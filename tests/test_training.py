"""The commands of `python -m training` as users type them, on tiny recipes and bundled samples."""

import contextlib
import json
import os
import re
import shutil
import time

import numpy as np
import pytest
from training_helpers import Place, start

import gdn_keras.zoo
from gdn_keras.datasets import SIZE_FACTORS, load_arrays, rescaled
from training import commands, runs, stages, state, trainer
from training.__main__ import main, make_parser
from training.logs import BOARD, CURVES, read_log
from training.recipes import RECIPES

SIZES = [f"{factor:.3f}" for factor in SIZE_FACTORS]


@pytest.fixture(scope="module")
def single(data, tmp_path_factory):
    """tiny_single, trained, evaluated both ways, published."""
    place = Place(data, tmp_path_factory.mktemp("single"))
    assert place("run", "tiny_single") == 0
    assert place("evaluate", "tiny_single", "--exact", "--matched") == 0
    assert place("publish", "tiny_single") == 0
    return place


@pytest.fixture
def after_single(single, place):
    """A place of its own where tiny_single is finished."""
    shutil.copytree(single.runs, place.runs)
    return place


def _arguments(place):
    return make_parser().parse_args(["list", "--runs", str(place.runs), "--zoo", str(place.zoo)])


# === run, evaluate, publish ===


def test_a_run_leaves_weights_logs_and_a_figure(single):
    folder = single.folder("tiny_single")
    rows = read_log(folder)
    assert [int(row["step"]) for row in rows] == [20, 40]
    assert [int(row["images"]) for row in rows] == [640, 1280]
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert float(rows[-1]["learning_rate"]) == pytest.approx(1e-5, rel=1e-3)
    assert (folder / CURVES).read_bytes().startswith(b"\x89PNG")
    assert list((folder / BOARD).glob("events*"))
    assert single.record("tiny_single")["images"] == 1280


def test_the_published_network_is_the_trained_one(single):
    trained = commands.load_finished("tiny_single", _arguments(single))
    loaded = gdn_keras.zoo.load(single.zoo / "tiny_single")
    images = load_arrays(
        "rescaled_fashion_mnist", split="test", data_dir=single.data
    ).images.astype("float32")
    logits = loaded.predict(images, verbose=0)
    np.testing.assert_array_equal(logits, trained.predict(images, verbose=0))
    golden = gdn_keras.zoo.read_folder(single.zoo / "tiny_single").metrics.golden
    np.testing.assert_allclose(logits[list(golden.indices)], golden.logits, atol=1e-5)


@pytest.mark.parametrize("way", ["accuracy", "exact_accuracy", "matched_accuracy"])
def test_the_published_accuracy_is_what_keras_measures(single, way):
    folder = gdn_keras.zoo.read_folder(single.zoo / "tiny_single")
    metrics = folder.metrics
    assert list(metrics.accuracy) == list(getattr(metrics, way)) == SIZES
    for key in ("0.500", "1.000"):
        changes = {
            "accuracy": {},
            "exact_accuracy": {"sampling_density": None},
            "matched_accuracy": {"channel_sigmas": (float(key) * 1.0,)},
        }
        model = gdn_keras.zoo.load(folder.path, **changes[way])
        model.compile(metrics=["accuracy"], loss="sparse_categorical_crossentropy")
        test = load_arrays(
            "rescaled_fashion_mnist", split="test", size_factor=float(key), data_dir=single.data
        )
        measured = model.evaluate(test.images.astype("float32"), test.labels, verbose=0)[1]
        assert getattr(metrics, way)[key] == pytest.approx(measured, abs=1e-6)
    confusion = np.array(metrics.confusion)
    assert confusion.sum() == metrics.num_test_images == 100
    assert np.trace(confusion) / 100 == metrics.accuracy["1.000"]


def test_the_card_and_the_recipe_say_what_was_done(single):
    folder = gdn_keras.zoo.read_folder(single.zoo / "tiny_single")
    assert folder.recipe["budget"] == "cpu"
    assert folder.recipe["images_seen"] == 1280
    assert folder.recipe["lineage"] == []
    text = folder.card
    for words in (
        "# tiny_single",
        'gdn_keras.zoo.load("tiny_single")',
        "![accuracy per size](accuracy.png)",
        "Budget `cpu`: 1,280 images",
        "**less than the paper's budget** of 32 epochs",
        "- stage `single`: 2 epochs, batch 32",
        "measured over 640 training images",  # as many as there are
        "One scale channel: not meant for objects of other sizes. Objects are expected at the",
        "## Limits",
        "Perzanowski and T. Lindeberg",
    ):
        assert words in text
    assert (folder.path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert "what the scale channels give" not in text and "dropout" not in text
    row = next(line for line in text.splitlines() if line.startswith("| accuracy %"))
    shown = [float(cell.strip(" *")) for cell in row.split("|")[2:-1]]
    expected = [100 * value for value in folder.metrics.accuracy.values()]
    assert shown == pytest.approx([*expected, 100 * folder.metrics.mean_accuracy], abs=0.006)


def test_a_finished_run_is_left_alone(single, capsys):
    before = (single.folder("tiny_single") / state.WEIGHTS).stat().st_mtime_ns
    assert single("run", "tiny_single") == 0
    assert capsys.readouterr().out == "tiny_single: finished\n"
    assert (single.folder("tiny_single") / state.WEIGHTS).stat().st_mtime_ns == before
    assert single("run", "tiny_single", "--budget", "paper") == 1
    assert "`--budget` must be cpu, as when the run" in capsys.readouterr().err


def test_list_shows_status_and_numbers(single, place, capsys):
    assert single("list", "tiny*") == 0
    lines = capsys.readouterr().out.splitlines()
    metrics = gdn_keras.zoo.read_folder(single.zoo / "tiny_single").metrics
    row = next(line.split() for line in lines if line.startswith("tiny_single"))
    assert row[1:] == [
        "trained",
        f"{100 * metrics.accuracy['1.000']:.2f}",
        f"{100 * metrics.mean_accuracy:.2f}",
    ]
    assert lines[-1] == "1 trained, 0 in progress, 4 open"
    assert place("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"0 trained, 0 in progress, {len(RECIPES)} open"
    row = next(line for line in lines if line.startswith("fashion28_discrete_s0p50"))
    assert row.split() == ["fashion28_discrete_s0p50", "open", "93.76"]  # Table 5
    assert not any(line.startswith("tiny") for line in lines)


# === starting from a relative ===


def test_a_warm_start_is_used_and_told(after_single, capsys):
    place = after_single
    assert place("run", "tiny_avg") == 0
    record = place.record("tiny_avg")
    assert record["warm_start"] == "tiny_single"
    assert [stage["name"] for stage in record["stages"]] == ["together"]
    first = read_log(place.folder("tiny_avg"))[0]
    assert float(first["accuracy"]) > 0.2  # it did not start from nothing
    assert place("evaluate", "tiny_avg") == 0
    assert place("evaluate", "tiny_avg", "--matched") == 1
    assert "for networks of one scale channel. Received: tiny_avg" in capsys.readouterr().err
    assert place("publish", "tiny_avg") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_avg")
    assert folder.recipe["lineage"] == ["tiny_single"]
    assert "The weights started from `tiny_single`." in folder.card
    assert "Budget `cpu`: 1,280 images after 1,280 of its ancestor, in " in folder.card
    assert "what the scale channels give" in folder.card
    assert ", no scale-channel dropout, flip, " in folder.card
    histograms = folder.metrics.scale_histograms
    assert list(histograms) == SIZES
    assert all(sum(groups["all"]) == pytest.approx(1, abs=1e-5) for groups in histograms.values())
    assert place("queue", "tiny_max") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_max")
    assert folder.recipe["lineage"] == ["tiny_avg", "tiny_single"]
    words = "The weights started from `tiny_avg`, which started from `tiny_single`."
    assert words in folder.card
    assert "416 images after 2,560 of its ancestors, in " in folder.card
    assert (
        ": 0.667 epochs, batch 32" in folder.card and ", scale-channel dropout 0.2, " in folder.card
    )


def test_records_that_know_only_the_nearest_relative(single, place):
    """Such as were made before whole lineages were recorded: the relatives say the rest."""
    shutil.copytree(single.zoo, place.zoo)
    old = {"seed": 0, "warm_start": "tiny_single"}
    for name, record in {"tiny_avg": old, "tiny_max": old | {"warm_start": "tiny_avg"}}.items():
        place.folder(name).mkdir(parents=True)
        (place.folder(name) / state.RECORD).write_text(json.dumps(record))
    arguments = _arguments(place)
    chain = runs.ancestors("tiny_max", arguments)
    assert [ancestor["name"] for ancestor in chain] == ["tiny_max", "tiny_avg", "tiny_single"]
    assert [ancestor["seed"] for ancestor in chain] == [0, 0, 0]
    assert chain[2]["images"] == 1280  # its zoo folder says so
    record = old | {"ancestors": [{"name": "tiny_single", "seed": 0}]}  # when images were not
    (place.folder("tiny_avg") / state.RECORD).write_text(json.dumps(record))
    assert runs.ancestors("tiny_avg", arguments)[1] == chain[2]
    record["ancestors"][0]["seed"] = 5  # another network than the one that is there
    (place.folder("tiny_avg") / state.RECORD).write_text(json.dumps(record))
    assert runs.ancestors("tiny_avg", arguments)[1]["images"] is None
    shutil.rmtree(place.folder("tiny_avg"))
    last = {"name": "tiny_avg", "seed": None, "images": None}
    assert runs.ancestors("tiny_max", arguments) == [chain[0], last]


def test_a_derived_network_has_the_weights_of_its_source(after_single, capsys):
    place = after_single
    assert place("run", "tiny_avg_transfer") == 0
    assert place.record("tiny_avg_transfer")["images"] == 0
    arguments = _arguments(place)
    derived = commands.load_finished("tiny_avg_transfer", arguments)
    source = commands.load_finished("tiny_single", arguments)
    assert len(derived.config.channel_sigmas) == 3
    for new, old in zip(derived.weights, source.weights, strict=True):
        np.testing.assert_array_equal(new, old)
    assert place("evaluate", "tiny_avg_transfer") == 0
    assert place("publish", "tiny_avg_transfer") == 0
    card = gdn_keras.zoo.read_folder(place.zoo / "tiny_avg_transfer").card
    assert "Not at all: these are the weights of `tiny_single`, in 3 scale channels" in card
    assert place("run", "tiny_avg_transfer", "--set", "epochs=2") == 1
    assert "is derived without any" in capsys.readouterr().err


def test_a_derived_network_needs_its_source(place, capsys):
    assert place("run", "tiny_avg_transfer") == 1
    assert (
        "tiny_avg_transfer is derived from tiny_single, which is not finished: "
        "`python -m training run tiny_single` makes it." in capsys.readouterr().err
    )


def test_a_published_network_lends_its_weights_too(single, place):
    """Also to a network of another seed, which then says so."""
    shutil.copytree(single.zoo, place.zoo)
    for command in ("run", "evaluate", "publish"):
        assert place(command, "tiny_avg_transfer", "--seed", "3") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_avg_transfer")
    assert folder.recipe["seed"] == 3
    assert folder.recipe["ancestors"] == [{"name": "tiny_single", "seed": 0, "images": 1280}]
    assert "these are the weights of `tiny_single` (seed 0), in 3" in folder.card


def test_a_network_of_the_zoo_is_trained_further(single, place, capsys):
    """It is the same run, made longer: its stages, images and seconds are added up."""
    shutil.copytree(single.zoo, place.zoo)
    before = gdn_keras.zoo.read_folder(place.zoo / "tiny_single")
    further = ("run", "tiny_single", "--more", "1.5")
    assert place(*further) == 0
    record = place.record("tiny_single")
    assert [stage["name"] for stage in record["stages"]] == ["single", "more"]
    assert record["stages"][0] == before.recipe["stages"][0]
    assert record["stages"][1]["epochs"] == 1.5
    rates = [stage["learning_rate"] for stage in record["stages"]]
    assert rates == [0.01, 0.005]
    assert record["images"] == 1280 + 960 and record["warm_start"] is None
    assert record["seconds"] > before.recipe["seconds"]
    rows = read_log(place.folder("tiny_single"))
    assert [int(row["images"]) for row in rows] == [1920, 2240]  # it knows what came before
    assert float(rows[0]["loss"]) < float(read_log(single.folder("tiny_single"))[0]["loss"])
    assert place(*further) == 0  # finished: nothing is done again
    assert place.record("tiny_single") == record
    assert place("run", "tiny_single", "--more", "2") == 1
    error = capsys.readouterr().err
    assert "`--more` must be 1.5, as when the run in " in error
    assert "or delete that folder to go on from the network of the zoo." in error
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
        ("tiny_avg", [], "goes on with a trained network of the zoo, with none of --from"),
        ("tiny_single", ["--from", "none"], "Received: --more 1 for tiny_single."),
        ("tiny_single", ["--holdout"], "goes on with a trained network of the zoo"),
        ("tiny_single", ["--seed", "3"], "`--seed` must be 0, that of tiny_single in the zoo"),
        ("tiny_single", ["--budget", "paper"], "`--budget` must be cpu, as when the run"),
    ],
)
def test_what_cannot_be_trained_further(single, place, name, words, message, capsys):
    shutil.copytree(single.zoo, place.zoo)
    assert place("run", name, "--more", "1", *words) == 1
    assert message in capsys.readouterr().err


# === evaluate ===


def test_evaluation_goes_on_where_it_was(after_single):
    """Only what is missing is measured; the rest is believed."""
    place = after_single
    file = place.folder("tiny_single") / "evaluation.json"
    whole = json.loads(file.read_text())
    part = dict(whole)
    part["0.500"] = whole["0.500"] | {"correct": -1}
    del part["1.000"], part["2.000"]
    file.write_text(json.dumps(part))
    assert place("evaluate", "tiny_single") == 0
    now = json.loads(file.read_text())
    assert now["0.500"]["correct"] == -1
    for key in ("1.000", "2.000"):
        assert now[key] | {"seconds": 0} == whole[key] | {"seconds": 0}


def test_a_damaged_evaluation_is_measured_again(after_single):
    file = after_single.folder("tiny_single") / "evaluation.json"
    whole = json.loads(file.read_text())
    file.write_text(file.read_text()[:100])
    with pytest.warns(UserWarning, match="evaluation.json is damaged; all sizes are measured"):
        assert after_single("evaluate", "tiny_single") == 0
    now = json.loads(file.read_text())
    assert {k: v["correct"] for k, v in now.items()} == {k: v["correct"] for k, v in whole.items()}


def test_publishing_needs_a_whole_evaluation(after_single, place, capsys):
    file = after_single.folder("tiny_single") / "evaluation.json"
    part = json.loads(file.read_text())
    del part["2.000"]
    file.write_text(json.dumps(part))
    assert after_single("publish", "tiny_single") == 1
    assert (
        "tiny_single must be evaluated first, 1 of 9 sizes are missing: "
        "`python -m training evaluate tiny_single`." in capsys.readouterr().err
    )
    assert not (after_single.zoo / "tiny_single").exists()


def test_what_is_not_finished_cannot_be_measured_or_published(place, capsys):
    for command in ("evaluate", "publish"):
        assert place(command, "tiny_avg") == 1
        assert re.search(
            r"`name` must be a finished run; there is none in .*tiny_avg-seed0. "
            r"`python -m training run tiny_avg` makes it.",
            capsys.readouterr().err,
        )


@pytest.mark.heavy
def test_stir_has_all_sizes(place):
    assert place("run", "tiny_stir", "--precision", "float32") == 0
    assert [s["name"] for s in place.record("tiny_stir")["stages"]] == ["single", "together"]
    assert place("evaluate", "tiny_stir") == 0
    assert place("publish", "tiny_stir") == 0
    folder = gdn_keras.zoo.read_folder(place.zoo / "tiny_stir")
    assert list(folder.metrics.accuracy) == [str(size) for size in range(17, 65)]
    assert "Trained on objects of 33 to 48 pixels only" in folder.card
    assert folder.info().train_sizes == "mid"
    assert np.sum(folder.metrics.confusion) == 36
    assert folder.config.class_names[:2] == ("tired", "surprise")


def test_a_trial_is_kept_apart_and_measured_on_the_validation_split(
    after_single, capsys, monkeypatch
):
    monkeypatch.setattr(rescaled, "_VALIDATION", 50)  # to be quick
    place = after_single
    trial = ("tiny_single", "--set", "epochs=1", "--set", "limit=320")
    assert place("run", *trial, "--holdout") == 0
    name = "tiny_single@holdout-epochs1-limit320"
    assert place.record(name)["images"] == 320
    assert place.record(name)["stages"][0]["split"] == "train"
    assert place("evaluate", *trial, "--holdout") == 0
    results = json.loads((place.folder(name) / "validation_evaluation.json").read_text())
    assert {result["images"] for result in results.values()} == {50}
    assert place("evaluate", *trial, "--holdout", "--limit", "20") == 0
    results = json.loads((place.folder(name) / "validation20_evaluation.json").read_text())
    assert {result["images"] for result in results.values()} == {20}
    assert place("evaluate", "tiny_single", "--limit", "20") == 1
    assert "The test set is measured whole" in capsys.readouterr().err
    assert place("evaluate", *trial) == 1
    assert "measured on the validation split, never on the test set" in capsys.readouterr().err


def test_a_trial_starts_from_nothing_that_has_seen_the_validation_images(after_single):
    place = after_single
    short = ("--set", "epochs=0.05", "--holdout")
    assert place("run", "tiny_single", *short) == 0
    assert place.record("tiny_single@holdout-epochs0.05")["warm_start"] is None
    assert place("run", "tiny_avg", *short, "--set", "limit=320") == 0
    record = place.record("tiny_avg@holdout-epochs0.05-limit320")
    assert record["warm_start"] is None and len(record["stages"]) == 2
    assert place("run", "tiny_single", "--holdout") == 0
    assert place("run", "tiny_avg", *short) == 0
    record = place.record("tiny_avg@holdout-epochs0.05")
    assert record["warm_start"] == "tiny_single@holdout" and len(record["stages"]) == 1


def test_a_trial_may_go_on_with_other_samples(after_single):
    place = after_single
    first = ("--set", "epochs=0.5", "--set", "sampling_density=0.5")
    then = ("--then", "sampling_density=null", "--then", "epochs=0.1")
    assert place("run", "tiny_single", *first, *then, "--holdout") == 0
    name = "tiny_single@holdout-epochs0.5-sampling_density0.5-then-sampling_densitynull-epochs0.1"
    record = place.record(name)
    densities = [stage["config"]["sampling_density"] for stage in record["stages"]]
    assert densities == [0.5, None] and record["config"]["sampling_density"] is None
    assert [stage["name"] for stage in record["stages"]] == ["single", "then"]
    assert record["images"] == 320 + 64


def test_the_budget_of_the_paper_compiled_with_xla(place, monkeypatch):
    compiled = []

    def compile_model(model, *args, **options):
        stages.compile_model(model, *args, **options)
        compiled.append(model.jit_compile)

    monkeypatch.setattr(trainer, "compile_model", compile_model)
    short = ("--set", "epochs=1", "--set", "limit=64")
    assert place("run", "tiny_single", "--budget", "paper", "--jit", *short) == 0
    assert compiled == [True]
    record = place.record("tiny_single@epochs1-limit64")
    assert (record["budget"], record["warm_start"], record["images"]) == ("paper", None, 64)
    assert record["statistics_images"] == 0
    assert record["config"]["sampling_density"] is None
    (stage,) = record["stages"]
    assert (stage["name"], stage["dtype"], stage["warmup"]) == ("single", "float32", 0)


def test_who_publishes_is_told_what_else_to_bring_up_to_date(after_single, capsys, monkeypatch):
    """In the checkout; a zoo elsewhere has no tables, report or gallery."""
    place = after_single
    assert place("publish", "tiny_single") == 0
    assert "python -m training" not in capsys.readouterr().out
    monkeypatch.setattr(runs, "CHECKOUT", place.zoo.parent)
    assert main(["queue", "tiny_single", "--runs", str(place.runs)]) == 0  # it is there already
    assert "python -m training" not in capsys.readouterr().out
    shutil.rmtree(place.zoo)
    for command in ("publish", "queue"):
        assert main([command, "tiny_single", "--runs", str(place.runs)]) == 0
        advice = re.findall(r"`python -m training (\w+)`", capsys.readouterr().out)
        assert advice == ["results", "report", "gallery"]
        shutil.rmtree(place.zoo)


# === queue ===


def test_the_queue_is_nice(place, tmp_path):
    before = os.getpriority(os.PRIO_PROCESS, 0)
    where = ["--data", str(place.data), "--runs", str(place.runs), "--zoo", str(place.zoo)]
    process = start(["queue", "tiny_single", "--nice", "3", *where], output=tmp_path / "output")
    expected, end = min(before + 3, 19), time.time() + 120
    while os.getpriority(os.PRIO_PROCESS, process.pid) != expected:
        assert process.is_alive() and time.time() < end
        time.sleep(0.01)
    process.kill()
    process.join()


def test_the_queue_trains_measures_and_publishes(after_single, capsys):
    place = after_single
    names = ("tiny_single", "cifar32_discrete_s1p00", "tiny_avg_transfer")
    assert place("queue", *names, "--hours", "0") == 0  # no time at all
    assert capsys.readouterr().out == "Stopped; the same command goes on.\n"
    assert not place.zoo.exists()
    assert place("queue", *names) == 1
    printed = capsys.readouterr()
    assert "cifar32_discrete_s1p00: Missing data_batch_1.bin" in printed.err
    assert "Failed: cifar32_discrete_s1p00." in printed.err  # and the queue went on
    assert sorted(path.name for path in place.zoo.iterdir()) == ["tiny_avg_transfer", "tiny_single"]
    assert place("queue", "tiny_single") == 0
    assert capsys.readouterr().out.startswith("tiny_single: published already; delete its folders")


def test_the_queue_stops_in_the_middle_of_a_recipe(place, capsys):
    hours = 4 / 3600  # loading and tracing alone take a good part of it
    before = time.time()
    assert place("queue", "tiny_single", "tiny_max", "tiny_avg", "--hours", str(hours)) == 0
    assert time.time() - before < 60
    assert capsys.readouterr().out.endswith("Stopped; the same command goes on.\n")
    assert place("list", "tiny*") == 0
    assert not capsys.readouterr().out.splitlines()[-1].startswith("3 trained")


def test_the_queue_takes_what_is_in_progress_first(place):
    arguments = _arguments(place)
    begun = place.folder("cifar32_integrated_s1p00")
    begun.mkdir(parents=True)
    (begun / state.PREVIOUS).touch()
    order = commands._by_priority(arguments)
    assert order[: 1 + len(commands.FIRST)] == ["cifar32_integrated_s1p00", *commands.FIRST]
    assert sorted(order) == sorted(RECIPES)


def test_the_queue_leaves_out_what_another_process_holds(place, capsys):
    with state.lock(place.folder("tiny_single")):
        assert place("queue", "tiny_single") == 0
    assert "tiny_single: left out. Another process is working on" in capsys.readouterr().out
