"""The same weights on TensorFlow, JAX and PyTorch, each in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import processes
import pytest
from helpers import random_images, randomise, small_config

from gdn_keras import build_model

CASES = {
    "two_jet": {"scale_pooling": "logsumexp", "padding": "reflect", "widths": (4, 5)},
    "three_jet": {"jet_order": 3, "spatial_selection": "max", "final_batch_norm": False},
    "derivative": {"method": "integrated_derivative", "zero_order": True, "scale_pooling": "max"},
    "learned": {"learned_sigmas": True, "padding": "edge"},
    "coarse": {"sampling_density": 0.7, "reach": 1.0, "input_size": (13, 12)},
}
SHALLOW = {"final_relu": False, "widths": (4,)}  # compiling a layer takes JAX a second or two
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
# XLA then computes many values twice, with different roundings: gradients must not compare them.
UNOPTIMISED = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Networks saved here, with what they gave on every backend."""
    folder = tmp_path_factory.mktemp("backends")
    for name, changes in CASES.items():
        config = small_config(**{**SHALLOW, **changes})
        randomise(build_model(config)).save(folder / f"{name}.keras")
    images = random_images(small_config(), batch=4)
    np.savez(folder / "data.npz", images=images, labels=np.arange(4) % 3)
    worker = Path(__file__).with_name("backend_worker.py")
    running = {"tensorflow": start_with_tensorflow(worker, folder)}
    for backend in ("jax", "torch"):
        running[backend] = subprocess.Popen(
            [sys.executable, worker, folder],
            env={**os.environ, **QUIET, **UNOPTIMISED, "KERAS_BACKEND": backend},
            cwd=worker.parent.parent,
            stderr=subprocess.PIPE,
            text=True,
        )
    for backend, process in running.items():
        errors = process.communicate()[1]
        assert process.returncode == 0, f"{backend}:\n{errors[-3000:]}"
    return folder


def start_with_tensorflow(worker, target):
    code = f"import runpy; runpy.run_path({str(worker)!r}, run_name='__main__')"
    environment = {**os.environ, **QUIET, "PYTHONPATH": str(worker.parent)}
    return processes.Command(["-c", code, target], env=environment)


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("case", CASES)
def test_logits_and_training_agree_with_tensorflow(folder, backend, case):
    expected, ours = (np.load(folder / f"{name}.npz") for name in ("tensorflow", backend))
    assert set(ours) == set(expected)
    names = [name for name in expected if name.startswith(f"{case}/")]
    assert len([name for name in names if "trained/jet" in name]) >= 2
    for name in names:
        tolerance = 0.05 if name.endswith("/half") else 1e-4
        if "/large/" in name:  # after a step whose gradient jumps where two maxima are alike
            tolerance = 5e-4
        np.testing.assert_allclose(
            ours[name], expected[name], rtol=tolerance, atol=tolerance, err_msg=name
        )
    assert ours[f"{case}/none"].shape == (0, 3)
    assert expected[f"{case}/logits"].std() > 0.1


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_wrong_images_are_explained(folder, backend):
    size, channels, axis, finite, text = np.load(folder / f"{backend}.npz")["messages"].reshape(
        5, 2
    )
    for called, predicted in (size, channels, axis):
        assert "(batch, 13, 12, 2)" in called and "(batch, 13, 12, 2)" in predicted
    assert "Received: (4, 12, 12, 2)." in size[0] and "`input_size=(height, width)`" in size[0]
    assert "Received: (4, 13, 12, 1)." in channels[0] and "`input_channels`" in channels[0]
    assert "Received: (4, 13, 12)." in axis[0] and "axis" in axis[0]
    for message in finite:
        assert re.search("`images` .*finite.*Received: nan at image 0, row 0", message)
    for message in text:
        assert re.search("`images` .*real numbers.*Received: <U", message)


@pytest.mark.heavy
@pytest.mark.parametrize("case", CASES)
def test_training_moves_every_weight(folder, case):
    before = {w.path: w for w in keras.models.load_model(folder / f"{case}.keras").weights}
    after = np.load(folder / "tensorflow.npz")
    for path, weight in before.items():
        moved = np.abs(after[f"{case}/trained/{path}"] - keras.ops.convert_to_numpy(weight))
        assert moved.max() > 1e-3, path


@pytest.fixture(scope="module")
def two_devices(tmp_path_factory):
    """What `replicas_worker.py` writes."""
    worker = Path(__file__).with_name("replicas_worker.py")
    path = tmp_path_factory.mktemp("replicas") / "weights.npz"
    process = start_with_tensorflow(worker, path)
    errors = process.communicate()[1]
    assert process.returncode == 0, errors[-3000:]
    return np.load(path)


@pytest.mark.heavy
def test_dropout_differs_from_device_to_device(two_devices):
    (one,), (first, second) = two_devices["masks of one"], two_devices["masks of two"]
    np.testing.assert_array_equal(first, one)  # the first device draws what one alone draws
    for masks in (first, second):
        assert set(np.unique(masks)) == {0, 2}
        assert not np.array_equal(*masks)  # step by step
    for step in range(2):
        assert 0.3 < np.mean(first[step] == second[step]) < 0.7  # not more than chance


@pytest.mark.heavy
def test_two_devices_train_as_one(two_devices):
    """With synchronised batch statistics; learned scales are the same on every device."""
    weights = two_devices
    paths = [name.partition("/")[2] for name in weights if name.startswith("one/")]
    assert sum(path.endswith("learned_ratio") for path in paths) == 2
    for path in paths:
        np.testing.assert_allclose(weights[f"two/{path}"], weights[f"one/{path}"], atol=2e-6)
    apart = [np.abs(weights[f"apart/{path}"] - weights[f"one/{path}"]).max() for path in paths]
    assert max(apart) > 1e-3  # it is the synchronisation that makes them one
