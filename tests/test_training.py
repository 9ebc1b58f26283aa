"""`run`, `list`, `evaluate` and `publish` of `python -m training`, as users type them."""

import json
import re
import shutil

import numpy as np
import pytest
from helpers import assert_rounded
from training_helpers import Place, write_rates

import gdn_keras.zoo
from gdn_keras.config import EVERY_PIXEL
from gdn_keras.datasets import SIZE_FACTORS, load_arrays, raw
from training import stages, trainer
from training.__main__ import main
from training.recipes import RECIPES
from training.runs import state, workspace
from training.runs.logs import BOARD, CURVES, read_log

SIZES = [f"{factor:.3f}" for factor in SIZE_FACTORS]


# === run, publish ===


def test_a_run_leaves_weights_logs_and_a_figure(single):
    folder = single.folder("tiny_single")
    rows = read_log(folder)
    assert [int(row["step"]) for row in rows] == [20, 40]
    assert [int(row["images"]) for row in rows] == [640, 1280]
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert float(rows[-1]["learning_rate"]) == pytest.approx(1e-5, rel=1e-3)
    assert (folder / CURVES).read_bytes().startswith(b"\x89PNG")
    assert list((folder / BOARD).glob("events*"))
    assert single.record("tiny_single").images_seen == 1280


def test_the_published_network_is_the_trained_one(single):
    trained = single.workspace.load_finished("tiny_single", seed=0)
    loaded = gdn_keras.zoo.load(single.zoo / "tiny_single")
    images = load_arrays(
        "rescaled_fashion_mnist", split="test", data_dir=single.data
    ).images.astype("float32")
    logits = loaded.predict(images, verbose=0)
    np.testing.assert_array_equal(logits, trained.predict(images, verbose=0))
    golden = gdn_keras.zoo.read_folder(single.zoo / "tiny_single").metrics.golden
    assert_rounded(logits[list(golden.indices)], golden.logits)


@pytest.mark.parametrize("way", ["accuracy", "exact_accuracy", "matched_accuracy"])
def test_the_published_accuracy_is_what_keras_measures(single, way):
    folder = gdn_keras.zoo.read_folder(single.zoo / "tiny_single")
    metrics = folder.metrics
    assert list(metrics.accuracy) == list(getattr(metrics, way)) == SIZES
    for key in ("0.500", "1.000"):
        changes = {
            "accuracy": {},
            "exact_accuracy": EVERY_PIXEL,
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


@pytest.fixture
def published(single):
    """The zoo folder of tiny_single."""
    return gdn_keras.zoo.read_folder(single.zoo / "tiny_single")


def test_the_published_recipe_says_what_was_done(published):
    assert published.recipe["budget"] == "cpu"
    assert published.recipe["images_seen"] == 1280
    assert published.recipe["lineage"] == []


@pytest.mark.parametrize(
    "fact",
    [
        "^# tiny_single$",
        r'gdn_keras.zoo.load\("tiny_single"\)',
        r"!\[.*\]\(accuracy.png\)",
        "Budget `cpu`: 1,280 images",
        "less than the 32 epochs on every pixel",
        "stage `single`: 2 epochs, batch 32",
        " 640 training images",  # over which batch statistics are measured: as many as there are
        "One scale channel: not meant for objects of other sizes",
        "at the centre of the image",
        "Perzanowski and T. Lindeberg",
    ],
)
def test_the_card_says_what_was_done(published, fact):
    assert re.search(fact, published.card, re.M)


def test_the_card_of_one_scale_channel_says_nothing_about_dropout(published):
    assert "dropout" not in published.card


def test_the_card_has_the_figure_and_the_measured_accuracies(published):
    assert (published.path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    row = next(line for line in published.card.splitlines() if line.startswith("| accuracy %"))
    shown = [float(cell.strip(" *")) for cell in row.split("|")[2:-1]]
    metrics = published.metrics
    expected = [100 * value for value in (*metrics.accuracy.values(), metrics.mean_accuracy)]
    assert shown == pytest.approx(expected, abs=0.006)


def test_a_finished_run_is_left_alone(single, capsys):
    before = (single.folder("tiny_single") / state.WEIGHTS).stat().st_mtime_ns
    assert single("run", "tiny_single") == 0
    assert capsys.readouterr().out == "tiny_single: finished\n"
    assert (single.folder("tiny_single") / state.WEIGHTS).stat().st_mtime_ns == before
    assert single("run", "tiny_single", "--budget", "paper") == 1
    assert re.search("`--budget` must be cpu.*Received: paper", capsys.readouterr().err)


def test_list_shows_status_and_accuracy_of_what_is_trained(single, capsys):
    assert single("list", "tiny*") == 0
    lines = capsys.readouterr().out.splitlines()
    metrics = gdn_keras.zoo.read_folder(single.zoo / "tiny_single").metrics
    row = next(line.split() for line in lines if line.startswith("tiny_single"))
    assert row[1:] == [
        "trained",
        f"{100 * metrics.accuracy['1.000']:.2f}",
        f"{100 * metrics.mean_accuracy:.2f}",
    ]
    assert lines[-1] == "1 trained, 0 in progress, 5 open"


def test_list_shows_the_accuracy_of_the_paper_for_what_is_open(place, capsys):
    assert place("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"0 trained, 0 in progress, {len(RECIPES)} open"
    row = next(line for line in lines if line.startswith("fashion28_discrete_s0p50"))
    assert row.split() == ["fashion28_discrete_s0p50", "open", "93.76"]  # Table 5
    assert not any(line.startswith("tiny") for line in lines)


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
    with pytest.warns(UserWarning, match="evaluation.json is damaged"):
        assert after_single("evaluate", "tiny_single") == 0
    now = json.loads(file.read_text())
    assert {k: v["correct"] for k, v in now.items()} == {k: v["correct"] for k, v in whole.items()}


def test_publishing_needs_a_whole_evaluation(after_single, place, capsys):
    file = after_single.folder("tiny_single") / "evaluation.json"
    part = json.loads(file.read_text())
    del part["2.000"]
    file.write_text(json.dumps(part))
    assert after_single("publish", "tiny_single") == 1
    error = capsys.readouterr().err
    assert re.search("tiny_single .*1 of 9 sizes.*`python -m training evaluate tiny_single`", error)
    assert not (after_single.zoo / "tiny_single").exists()


def test_what_is_not_finished_cannot_be_measured_or_published(place, capsys):
    for command in ("evaluate", "publish"):
        assert place(command, "tiny_avg") == 1
        error = capsys.readouterr().err
        assert re.search("`name` .*finished.*`python -m training run tiny_avg`.*'tiny_avg'", error)
        assert str(place.folder("tiny_avg")) in error


@pytest.fixture(scope="module")
def stir(data, tmp_path_factory):
    """tiny_stir, trained, evaluated and published."""
    place = Place(data, tmp_path_factory.mktemp("stir"))
    assert place("run", "tiny_stir", "--precision", "float32") == 0
    assert place("evaluate", "tiny_stir") == 0
    assert place("publish", "tiny_stir") == 0
    return place


@pytest.mark.heavy
def test_stir_is_measured_at_all_sizes(stir):
    metrics = gdn_keras.zoo.read_folder(stir.zoo / "tiny_stir").metrics
    assert list(metrics.accuracy) == [str(size) for size in range(17, 65)]
    assert np.sum(metrics.confusion) == 36


@pytest.mark.heavy
def test_stir_is_trained_on_some_sizes(stir):
    folder = gdn_keras.zoo.read_folder(stir.zoo / "tiny_stir")
    assert [s.name for s in stir.record("tiny_stir").stages] == ["single", "together"]
    assert folder.info().train_sizes == "mid" and "33 to 48 pixels" in folder.card
    assert folder.config.class_names[:2] == ("tired", "surprise")


# === trials, the paper's budget ===


TRIAL = ("tiny_single", "--set", "epochs=1", "--set", "limit=320")
TRIAL_NAME = "tiny_single@holdout-epochs1-limit320"


@pytest.fixture(scope="module")
def trial(single, tmp_path_factory):
    """A trial of tiny_single, finished, and the place it is in. Tests add evaluations only."""
    place = Place(single.data, tmp_path_factory.mktemp("trial"))
    assert place("run", *TRIAL, "--holdout") == 0
    return place


def test_a_trial_has_a_run_of_its_own_without_the_validation_images(trial):
    assert trial.record(TRIAL_NAME).images_seen == 320
    assert trial.record(TRIAL_NAME).stages[0].split == "train"


@pytest.mark.parametrize(
    "limit, file, images",
    [
        ([], "validation_evaluation.json", 50),
        (["--limit", "20"], "validation20_evaluation.json", 20),
    ],
)
def test_a_trial_is_measured_on_the_validation_split(trial, monkeypatch, limit, file, images):
    monkeypatch.setattr(raw, "VALIDATION_IMAGES", 50)  # to be quick
    assert trial("evaluate", *TRIAL, "--holdout", *limit) == 0
    results = json.loads((trial.folder(TRIAL_NAME) / file).read_text())
    assert {result["images"] for result in results.values()} == {images}


def test_a_trial_is_never_measured_on_the_test_set(trial, capsys):
    assert trial("evaluate", *TRIAL) == 1
    assert re.search("test set.*--holdout.*Received: epochs=1 limit=320", capsys.readouterr().err)


def test_a_part_of_the_test_set_is_never_measured(after_single, capsys):
    assert after_single("evaluate", "tiny_single", "--limit", "20") == 1
    assert re.search("`--limit` .*--holdout.*Received: --limit 20", capsys.readouterr().err)


def test_a_trial_starts_from_nothing_that_has_seen_the_validation_images(after_single):
    place = after_single
    short = ("--set", "epochs=0.05", "--holdout")
    assert place("run", "tiny_single", *short) == 0
    assert place.record("tiny_single@holdout-epochs0.05").warm_start is None
    assert place("run", "tiny_avg", *short, "--set", "limit=320") == 0
    record = place.record("tiny_avg@holdout-epochs0.05-limit320")
    assert record.warm_start is None and len(record.stages) == 2
    assert place("run", "tiny_single", "--holdout") == 0
    assert place("run", "tiny_avg", *short) == 0
    record = place.record("tiny_avg@holdout-epochs0.05")
    assert record.warm_start == "tiny_single@holdout" and len(record.stages) == 1


def test_a_trial_may_go_on_with_other_samples(after_single):
    place = after_single
    first = ("--set", "epochs=0.5", "--set", "sampling_density=0.5")
    then = ("--then", "sampling_density=null", "--then", "epochs=0.1")
    assert place("run", "tiny_single", *first, *then, "--holdout") == 0
    name = "tiny_single@holdout-epochs0.5-sampling_density0.5-then-sampling_densitynull-epochs0.1"
    record = place.record(name)
    densities = [stage.config.sampling_density for stage in record.stages]
    assert densities == [0.5, None] and record.config.sampling_density is None
    assert [stage.name for stage in record.stages] == ["single", "then"]
    assert record.images_seen == 320 + 64


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
    assert (record.budget, record.warm_start, record.images_seen) == ("paper", None, 64)
    assert record.statistics_images == 0
    assert record.config.sampling_density is None
    (stage,) = record.stages
    assert (stage.name, stage.dtype, stage.warmup) == ("single", "float32", 0)


def test_who_publishes_is_told_what_else_to_bring_up_to_date(after_single, capsys, monkeypatch):
    """In the checkout; a zoo elsewhere has no tables, report or gallery."""
    place = after_single
    assert place("publish", "tiny_single") == 0
    assert "python -m training" not in capsys.readouterr().out
    monkeypatch.setattr(workspace, "CHECKOUT", place.zoo.parent)
    assert main(["queue", "tiny_single", "--runs", str(place.runs)]) == 0  # it is there already
    assert "python -m training" not in capsys.readouterr().out
    shutil.rmtree(place.zoo)
    write_rates(place.runs)
    for command in ("publish", "queue"):
        assert main([command, "tiny_single", "--runs", str(place.runs)]) == 0
        advice = re.findall(r"`python -m training (\w+)`", capsys.readouterr().out)
        assert advice == ["results", "report", "gallery"]
        shutil.rmtree(place.zoo)
