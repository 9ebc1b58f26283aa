"""The parts of training by themselves: stages, steps, what is measured."""

import dataclasses
import math
import sys

import keras
import numpy as np
import pytest
from helpers import assert_rounded, half, randomise, small_config

from gdn_keras import build_model
from gdn_keras.datasets import SIZE_FACTORS, Arrays
from gdn_keras.datasets.batching import batches
from gdn_keras.layers import ScaleBatchNormalization
from training import stages, trainer
from training.budgets import Stage, plan_run
from training.publishing import measurement
from training.recipes import get
from training.runs import locking, logs, state
from training.runs.logs import read_log


def tiny_stage(**changes):
    stage = plan_run(get("tiny_single"), budget="cpu", finished=set()).stages[0]
    return dataclasses.replace(stage, **changes)


def tiny_run(folder, data, *, seed=0, **changes):
    plan = plan_run(get("tiny_single"), budget="cpu", finished=set())
    plan = dataclasses.replace(plan, stages=(tiny_stage(**changes),))
    return trainer.Run(plan, folder, seed=seed, data_dir=data)


def train(run):
    with locking.lock(run.folder):
        assert trainer.train(run)


# === stages ===


def test_a_3_jet_started_from_a_2_jet_computes_the_same():
    old = randomise(build_model(small_config(zero_order=True, final_relu=False)))
    new = build_model(small_config(zero_order=True, final_relu=False, jet_order=3))
    stages.start_from(old, new)
    images = np.random.default_rng(0).uniform(0, 255, (2, *new.input_shape[1:])).astype("float32")
    expected = keras.ops.convert_to_numpy(old(images))
    assert np.abs(expected).max() > 0.1
    assert_rounded(keras.ops.convert_to_numpy(new(images)), expected)


def test_statistics_are_means_over_the_training_images():
    stage = tiny_stage(augment=(), batch_size=16)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (70, *stage.config.input_size, 1), dtype="uint8")
    data = Arrays(images, np.zeros(70, "int64"), ("thing",))
    model = build_model(stage.config)
    assert stages.measure_statistics(model, data, stage, seed=0, images=4800) == 64
    # of all but 6 of the images, in float64; the first layer is linear, so it is easy to follow
    maps = keras.Model(model.input, model.get_layer("jet_1").output)(images.astype("float32"))
    maps = keras.ops.convert_to_numpy(maps[0] if isinstance(maps, list) else maps)
    norm = model.get_layer("norm_1")
    mean, variance = (
        keras.ops.convert_to_numpy(v) for v in (norm.moving_mean, norm.moving_variance)
    )
    deviation = maps.std(axis=(0, 1, 2))
    assert np.abs(mean - maps.mean(axis=(0, 1, 2))).max() < 0.05 * deviation.max()
    np.testing.assert_allclose(variance, deviation**2, rtol=0.1)
    assert norm.momentum == 0.9


def test_a_stop_while_statistics_are_measured_loses_nothing(data, tmp_path):
    run, whole = (tiny_run(tmp_path / name, data, epochs=1) for name in ("run", "whole"))
    train(whole)

    def all_steps_are_done():
        saved = state.load(run.folder)
        return saved is not None and saved[0].step == 20

    with locking.lock(run.folder):
        assert not trainer.train(run, stop=all_steps_are_done)
        assert not (run.folder / state.RECORD).exists()
        assert trainer.train(run, saved=state.load(run.folder))
    weights = [(one.folder / state.WEIGHTS).read_bytes() for one in (run, whole)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("writes", [True, False])
def test_no_batch_comes_twice_in_a_run(data, tmp_path, monkeypatch, writes):
    """Also where another host writes: all hosts of a run must take the same batches."""
    steps = []

    def noted(data, stage, *, seed, step):
        steps.append(step)
        return stages.batches(data, stage, seed=seed, step=step)

    monkeypatch.setattr(trainer, "batches", noted)
    run = tiny_run(tmp_path, data, epochs=1.25)
    plan = dataclasses.replace(run.plan, stages=(*run.plan.stages, tiny_stage(epochs=0.5)))
    train(dataclasses.replace(run, plan=plan, writes=writes))
    assert steps == [0, 20, 25]  # a chunk, five more steps, the second stage


@pytest.mark.parametrize(
    "change, message",
    [
        ({"epochs": 0}, "`epochs` must be a positive number"),
        ({"epochs": math.inf}, "`epochs` must be a positive number"),
        ({"batch_size": 2.5}, "`batch_size` must be a positive integer"),
        ({"learning_rate": 0}, "`learning_rate` must be a positive number"),
        ({"final_learning_rate": -1}, "`final_learning_rate` must be a number >= 0"),
        ({"warmup": 1.0}, r"`warmup` must be in \[0, 1\)"),
        ({"label_smoothing": -0.1}, r"`label_smoothing` must be in \[0, 1\)"),
        ({"dtype": "float64"}, "`dtype` must be one of"),
        ({"limit": 0}, "`limit` must be None or a positive integer"),
    ],
)
def test_a_stage_is_checked(change, message):
    with pytest.raises(ValueError, match=message):
        tiny_stage(**change)


def test_steps_of_a_stage():
    assert tiny_stage(epochs=2, batch_size=30).steps(100) == 6  # a rest of ten images per epoch
    assert tiny_stage(epochs=0.5, batch_size=25).steps(100) == 2
    assert Stage.from_dict(tiny_stage(augment=("flip",)).to_dict()) == tiny_stage(augment=("flip",))


# === training ===


def test_a_phase_on_every_pixel_is_trained_and_recorded(data, tmp_path):
    """And decides how the finished network is computed."""
    stage = tiny_stage(limit=64, epochs=1)
    plan = plan_run(get("tiny_single"), budget="cpu", finished=set(), exact_phase=0.5)
    exact = dataclasses.replace(plan.stages[-1], limit=64)
    plan = dataclasses.replace(plan, stages=(stage, exact))
    train(trainer.Run(plan, tmp_path, data_dir=data))
    record = state.read_record(tmp_path)
    assert [(s.name, s.epochs) for s in record.stages] == [("single", 1), ("exact", 0.5)]
    assert record.images_seen == 96 and record.config.sampling_density is None
    assert read_log(tmp_path)[-1]["stage"] == "1"


def test_nothing_is_traced_again(data, tmp_path, monkeypatch):
    """Layers are called by Python only while a graph is made, however many steps there are."""
    calls = []
    original = ScaleBatchNormalization.call

    def call(self, inputs, training=False):
        calls.append(training)
        return original(self, inputs, training=training)

    monkeypatch.setattr(ScaleBatchNormalization, "call", call)
    counts = []
    for epochs in (1, 4):
        calls.clear()
        train(tiny_run(tmp_path / str(epochs), data, epochs=epochs))
        counts.append(len(calls))
    assert counts[0] == counts[1]


def test_a_run_is_plain_keras_over_all_batches_in_turn(data, tmp_path):
    """Also from chunk to chunk: `fit` must not begin the data again."""
    run = tiny_run(tmp_path, data, limit=320, epochs=9, warmup=0.2)
    train(run)
    stage = run.plan.stages[0]
    arrays = stages.load_data(stage, data_dir=data)
    steps = stage.steps(len(arrays))
    assert steps == 4 * trainer.CHUNK + 10
    model = stages.build_stage_model(stage, seed=0)
    stages.compile_model(model, stage, steps)
    source = batches.training_batches(arrays, batch_size=32, seed=0, augment=("flip",))
    for _ in range(steps):
        model.train_on_batch(*next(source))
    finished = build_model(get("tiny_single").config)
    finished.load_weights(tmp_path / state.WEIGHTS)
    for one, other in zip(finished.trainable_weights, model.trainable_weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_data_with_other_classes_are_refused_before_the_first_step(data, tmp_path):
    config = get("tiny_single").config.replace(num_classes=11, class_names=())
    run = tiny_run(tmp_path, data, config=config)
    with pytest.raises(ValueError, match="`num_classes` must be 10.* num_classes=11"):
        train(run)
    assert state.load(tmp_path) is None and not read_log(tmp_path)


def test_missing_tensorboard_is_told_once(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # as if it were not installed
    logs._say_what_is_missing.cache_clear()
    for _ in range(2):
        logs.RunLog(tmp_path, last=(0, 0)).close()
    assert capsys.readouterr().err.count("pip install 'gdn-keras[training]'") == 1
    assert (tmp_path / logs.LOG).exists() and not (tmp_path / logs.BOARD).exists()


def test_a_log_that_lost_its_header_can_be_read(tmp_path, monkeypatch):
    """The disk was full when the run began, and not any more when it wrote its rows."""

    def full(path, content):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(logs, "replace_file", full)
        log = logs.RunLog(tmp_path, last=(0, 0))
    for step in (20, 40):
        log.write(dict.fromkeys(logs.FIELDS, 1) | {"step": step})
    log.close()
    assert [row["step"] for row in read_log(tmp_path)] == ["20", "40"]
    logs.plot_curves(tmp_path)
    logs.RunLog(tmp_path, last=(1, 20)).close()  # goes on, with a header now
    assert (tmp_path / logs.LOG).read_text().splitlines()[0] == ",".join(logs.FIELDS)
    assert [row["step"] for row in read_log(tmp_path)] == ["20"]


def test_seeds_differ(data, tmp_path):
    ends = []
    for seed in (0, 1):
        train(tiny_run(tmp_path / str(seed), data, seed=seed, limit=32, epochs=1))
        ends.append((tmp_path / str(seed) / state.WEIGHTS).read_bytes())
    assert ends[0] != ends[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"label_smoothing": 0.1},
        half({"dtype": "mixed_bfloat16"}),
        half({"dtype": "mixed_float16"}),
    ],
    ids=str,
)
def test_options_train(data, tmp_path, changes):
    train(tiny_run(tmp_path, data, **changes))
    rows = [float(row["loss"]) for row in read_log(tmp_path)]
    assert rows[-1] < rows[0]


def test_label_smoothing_is_what_it_says():
    stage = tiny_stage(label_smoothing=0.2)
    model = stages.build_stage_model(stage, seed=0)
    stages.compile_model(model, stage, 1)
    labels = np.array([3, 0])
    logits = np.random.default_rng(0).normal(size=(2, 10)).astype("float32")
    log_shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    targets = 0.8 * np.eye(10)[labels] + 0.02
    loss = model.compute_loss(y=labels, y_pred=keras.ops.convert_to_tensor(logits))
    assert float(loss) == pytest.approx(-(targets * log_shares).sum(axis=1).mean(), rel=1e-5)


@pytest.mark.heavy
def test_learned_scales_are_part_of_the_state(data, tmp_path):
    """A network with learned scales, whose last one is kept, stopped and resumed at every step."""
    config = get("tiny_single").config.replace(
        learned_sigmas=True, method="sampled_derivative", sigma_range=(0.5, 3.0)
    )
    changes = {"config": config, "limit": 64, "epochs": 1, "sigma_learning_rate": 0.01}
    changes |= {"sigma_weight_decay": 0.025, "fixed_last_sigma": True}
    run = tiny_run(tmp_path / "whole", data, **changes)
    recipe = dataclasses.replace(run.plan.recipe, config=config)
    plan = dataclasses.replace(run.plan, recipe=recipe)
    train(dataclasses.replace(run, plan=plan))
    pieces = trainer.Run(plan, tmp_path / "pieces", data_dir=data)
    with locking.lock(pieces.folder):
        # every step is asked to be the last; then the statistics are measured undisturbed
        for stop in (True, True, False):
            done = trainer.train(pieces, saved=state.load(pieces.folder), stop=lambda s=stop: s)
    assert done
    weights = [(tmp_path / name / state.WEIGHTS).read_bytes() for name in ("whole", "pieces")]
    assert weights[0] == weights[1]
    model = build_model(config)
    model.load_weights(tmp_path / "whole" / state.WEIGHTS)
    ratios = [float(model.get_layer(f"jet_{k}").ratio) for k in (1, 2, 3)]
    assert ratios[0] != 1 and ratios[1] != 1.5 and ratios[2] == 2.25


def test_a_subset_of_stir_has_all_classes(data):
    stage = plan_run(get("tiny_stir"), budget="cpu", finished=set()).stages[0]
    stage = dataclasses.replace(stage, limit=100)
    arrays = stages.load_data(stage, data_dir=data)
    assert len(arrays) == 100
    assert len(np.unique(arrays.labels)) > 30
    assert set(np.unique(arrays.object_sizes)) == set(range(33, 49))


# === what is measured ===


@pytest.mark.parametrize(
    "pooling, capability, installed, onnxruntime",
    [
        ("max", None, True, True),
        ("average", None, True, True),
        ("logsumexp", None, True, True),
        ("average", None, False, False),
        ("average", 8.0, True, False),  # Keras is faster on a GPU
    ],
)
def test_the_measured_network_is_the_network(
    pooling, capability, installed, onnxruntime, monkeypatch
):
    monkeypatch.setattr(measurement, "gpu_capability", lambda: capability)
    monkeypatch.setattr(measurement, "find_spec", lambda name: installed or None)
    config = small_config(input_channels=1, scale_pooling=pooling, input_size=(12, 12))
    model, rng = randomise(build_model(config)), np.random.default_rng(0)
    images = rng.integers(0, 256, (150, 12, 12, 1), dtype=np.uint8)
    offset = model.get_layer(model.blocks[-1].norm).beta
    offset.assign_add(9.0 * np.ones(3))  # above the last ReLU, and then alike: every class occurs
    offset.assign_sub(np.median(model.predict(images.astype("float32"), verbose=0), axis=0) - 9)
    logits = model.predict(images.astype("float32"), verbose=0)
    clear = np.flatnonzero(np.ptp(np.sort(logits)[:, 1:], axis=1) > 1e-3)[:130]
    images, logits = images[clear], logits[clear]
    labels = np.where(rng.random(130) < 0.5, logits.argmax(axis=1), 0)
    arrays = Arrays(images, labels, ("a", "b", "c"))
    network = measurement.network_in("trained", model)
    assert (network.onnxruntime is not None) == onnxruntime
    result = measurement.measure(network, arrays, pooling=pooling)
    assert result.onnxruntime == network.onnxruntime
    expected = logits.argmax(axis=1)
    assert set(expected) == {0, 1, 2}
    assert (result.images, result.correct) == (130, int((expected == labels).sum()))
    for true in range(3):
        for predicted in range(3):
            count = int(((labels == true) & (expected == predicted)).sum())
            assert result.confusion[true][predicted] == count
    shares = result.correct / 130 * np.array(result.histograms["correct"])
    shares += (1 - result.correct / 130) * np.array(result.histograms["wrong"])
    np.testing.assert_allclose(shares, result.histograms["all"], atol=1e-5)


def test_calibration_error_by_hand():
    """Ten images at confidence 0.8, seven right; ten at 0.6, all right: (0.1 + 0.4) / 2."""
    probabilities = np.repeat([[0.8, 0.2], [0.6, 0.4]], 10, axis=0)
    labels = np.array([0] * 7 + [1] * 3 + [0] * 10)
    assert measurement.calibration_error(probabilities, labels) == pytest.approx(0.25)


def test_evaluation_stops_when_it_is_asked_to(data, tmp_path, monkeypatch):
    recipe, model = get("tiny_single"), build_model(get("tiny_single").config)
    measured = []
    original = measurement.measure
    monkeypatch.setattr(
        measurement, "measure", lambda *a, **k: measured.append(1) or original(*a, **k)
    )
    stop = lambda: len(measured) == 3  # noqa: E731
    assert (
        measurement.measure_sizes(model, recipe=recipe, folder=tmp_path, data_dir=data, stop=stop)
        is None
    )
    assert list(measurement._read(tmp_path / "evaluation.json")) == ["0.500", "0.595"]
    with pytest.raises(
        ValueError, match="tiny_single .*7 of 9 sizes.*`python -m training evaluate tiny_single`"
    ):
        measurement.read_results(recipe, folder=tmp_path)
    assert measurement.read_results(recipe, folder=tmp_path, mode="exact") is None
    results = measurement.measure_sizes(model, recipe=recipe, folder=tmp_path, data_dir=data)
    assert len(measured) == 3 + 7
    assert measurement.read_results(recipe, folder=tmp_path) == results
    assert len(results) == len(SIZE_FACTORS)
