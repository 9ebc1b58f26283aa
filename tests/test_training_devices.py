"""More than one device, or host: the result is the same."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from training_helpers import start

from gdn_keras.zoo.weights import read_weights
from training.runs import state
from training.runs.logs import read_log
from training.runs.stopping import STOPPED

ROOT = Path(__file__).parent.parent
STEPS = ["--set", "epochs=0.25"]  # five steps
LIMIT = 600  # seconds after which something is wrong


def options(data, runs, name, *more):
    return [
        *("run", name, "--precision", "float32", "--data-dir", str(data)),
        *("--runs", str(runs), "--zoo", str(runs / "zoo"), *more),
    ]


def weights(runs):
    (folder,) = runs.glob("tiny_avg*")
    layers = read_weights(folder / state.WEIGHTS)
    return {
        f"{name}/{k}": array for name, arrays in layers.items() for k, array in enumerate(arrays)
    }


def assert_same(one, other, *, atol):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], atol=atol, err_msg=name)


@pytest.fixture(scope="module")
def one_device(data, single, tmp_path_factory):
    runs = shutil.copytree(single.runs, tmp_path_factory.mktemp("one") / "runs")
    process = start(options(data, runs, "tiny_avg", *STEPS), output=runs / "output")
    process.join(LIMIT)
    assert process.exitcode == 0, (runs / "output").read_text()
    return weights(runs)


def tell_the_devices():
    import tensorflow as tf

    tf.get_logger().setLevel("INFO")


@pytest.mark.heavy
def test_two_devices_of_tensorflow_are_one(data, single, one_device, tmp_path):
    """Weights and batch statistics after five steps on batches of 32, or twice 16."""
    runs = shutil.copytree(single.runs, tmp_path / "runs")
    argv = options(data, runs, "tiny_avg", *STEPS, "--devices", "2")
    process = start(argv, output=tmp_path / "output", before=tell_the_devices)
    process.join(LIMIT)
    text = (tmp_path / "output").read_text()
    assert process.exitcode == 0, text
    assert re.search(r"MirroredStrategy with devices \(.*CPU:0', .*CPU:1'\)", text)
    assert_same(weights(runs), one_device, atol=1e-4)


def start_with_jax(argv, **variables):
    """The command as a process of its own, on the JAX backend."""
    return subprocess.Popen(
        [sys.executable, "-m", "training", *argv],
        cwd=ROOT,
        env=os.environ | {"KERAS_BACKEND": "jax"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.heavy
def test_two_devices_of_jax_are_one(data, single, one_device, tmp_path):
    runs = shutil.copytree(single.runs, tmp_path / "runs")
    process = start_with_jax(options(data, runs, "tiny_avg", *STEPS, "--devices", "2"))
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, output
    assert_same(weights(runs), one_device, atol=1e-4)


def start_two_hosts(data, runs, *words):
    """Two processes that know each other by an address."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    return [
        start_with_jax(
            options(data, runs, "tiny_avg", *words, "--devices", "2"),
            KERAS_DISTRIBUTION_JOB_ADDRESSES=address,
            KERAS_DISTRIBUTION_NUM_PROCESSES="2",
            KERAS_DISTRIBUTION_PROCESS_ID=str(number),
        )
        for number in range(2)
    ]


@pytest.mark.heavy
def test_two_hosts_of_jax_are_one(data, single, one_device, tmp_path):
    """Only the first one writes."""
    runs = shutil.copytree(single.runs, tmp_path / "runs")
    for process in start_two_hosts(data, runs, *STEPS):
        output, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, output
    assert_same(weights(runs), one_device, atol=1e-4)


def wait_for(condition, process):
    latest = time.time() + LIMIT
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.time() < latest
        time.sleep(0.05)


@pytest.mark.heavy
def test_a_signal_to_one_host_stops_both(data, single, tmp_path):
    runs = shutil.copytree(single.runs, tmp_path / "runs")
    folder = runs / "tiny_avg@epochs200-seed0"
    hosts = start_two_hosts(data, runs, "--set", "epochs=200")
    try:
        wait_for(lambda: read_log(folder), hosts[0])
        hosts[1].send_signal(signal.SIGTERM)
        for process in hosts:
            output, _ = process.communicate(timeout=LIMIT)
            assert process.returncode == STOPPED, output
    finally:
        for process in hosts:
            process.kill()
    saved, _ = state.load(folder)
    assert saved.step == int(read_log(folder)[-1]["step"]) > 0
