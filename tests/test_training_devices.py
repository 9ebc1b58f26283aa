"""More than one device, more than one recipe: the result is the same, and all results arrive."""

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
from training_helpers import start, write_data_folder

from gdn_keras.weights import read_weights
from training import state, sweep
from training.logs import BOARD, read_log

ROOT = Path(__file__).parent.parent
STEPS = ["--set", "epochs=0.25"]  # five steps


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data_folder(tmp_path_factory.mktemp("data") / "data")


@pytest.fixture(scope="module")
def single(data, tmp_path_factory):
    """A folder of runs with a finished tiny_single, from which tiny_avg starts."""
    runs = tmp_path_factory.mktemp("single")
    process = start(options(data, runs, "tiny_single"), output=runs / "output")
    process.join(120)
    assert process.exitcode == 0, (runs / "output").read_text()
    return runs


def options(data, runs, name, *more):
    return [
        *("run", name, "--precision", "float32", "--data", str(data)),
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
    runs = shutil.copytree(single, tmp_path_factory.mktemp("one") / "runs")
    process = start(options(data, runs, "tiny_avg", *STEPS), output=runs / "output")
    process.join(120)
    assert process.exitcode == 0, (runs / "output").read_text()
    return weights(runs)


def tell_the_devices():
    import tensorflow as tf

    tf.get_logger().setLevel("INFO")


@pytest.mark.heavy
def test_two_devices_of_tensorflow_are_one(data, single, one_device, tmp_path):
    """Weights and batch statistics after five steps on batches of 32, or twice 16."""
    runs = shutil.copytree(single, tmp_path / "runs")
    argv = options(data, runs, "tiny_avg", *STEPS, "--devices", "2")
    process = start(argv, output=tmp_path / "output", before=tell_the_devices)
    process.join(120)
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
    runs = shutil.copytree(single, tmp_path / "runs")
    process = start_with_jax(options(data, runs, "tiny_avg", *STEPS, "--devices", "2"))
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 0, output
    assert_same(weights(runs), one_device, atol=1e-4)


@pytest.mark.heavy
def test_two_hosts_of_jax_are_one(data, single, one_device, tmp_path):
    """Two processes that know each other by an address; only the first one writes."""
    runs = shutil.copytree(single, tmp_path / "runs")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    processes = [
        start_with_jax(
            options(data, runs, "tiny_avg", *STEPS, "--devices", "2"),
            KERAS_DISTRIBUTION_JOB_ADDRESSES=address,
            KERAS_DISTRIBUTION_NUM_PROCESSES="2",
            KERAS_DISTRIBUTION_PROCESS_ID=str(number),
        )
        for number in range(2)
    ]
    for process in processes:
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 0, output
    assert_same(weights(runs), one_device, atol=1e-4)


# === sweep ===


def training_processes(runs):
    """{recipe: process id} of the training commands that work in a folder of runs."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode().split("\0")
        except OSError:  # it has ended
            continue
        if words[1:4] == ["-m", "training", "run"] and str(runs) in words:
            found[words[4]] = int(entry.parent.name)
    return found


def parent(process):
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def starts(runs, name):
    """How often a stage of a run was begun or resumed: each time has a file of events."""
    return len(list((runs / f"{name}-seed0" / BOARD).glob("events*")))


@pytest.mark.heavy
def test_a_sweep_on_ray_survives_kills(data, tmp_path):
    """Of two recipes at the same time, one loses its process and the other its Ray worker."""
    names = [f"tiny_{pooling}@epochs15" for pooling in ("avg", "max")]
    command = ["sweep", "tiny_[am]*", "--engine", "ray", "--workers", "2"]
    command += options(data, tmp_path, "")[2:] + ["--set", "epochs=15"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "training", *command],
        cwd=ROOT,
        env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        victims = {}
        end = time.time() + 240
        while len(victims) < 2:
            assert driver.poll() is None, driver.communicate()
            assert time.time() < end
            for name in set(names) - set(victims):
                # in the second stage, when the state of the first is saved
                rows = read_log(tmp_path / f"{name}-seed0")
                process = training_processes(tmp_path).get(name.partition("@")[0])
                if process and rows and rows[-1]["stage"] == "1":
                    victims[name] = process if name == names[0] else parent(process)
                    os.kill(victims[name], signal.SIGKILL)
            time.sleep(0.05)
        output, errors = driver.communicate(timeout=300)
    finally:
        driver.kill()
    assert driver.returncode == 0, errors
    assert {line.split()[0]: line.split()[1] for line in output.splitlines() if "tiny" in line} == {
        "tiny_avg": "finished",
        "tiny_max": "finished",
    }
    for name in names:
        assert (tmp_path / f"{name}-seed0" / state.RECORD).exists()
    # two stages, and the second one resumed; never the first one again. A training process whose
    # worker is killed may live on, which is up to Ray; then nothing is resumed.
    assert starts(tmp_path, names[0]) == 3
    assert starts(tmp_path, names[1]) in (2, 3)


@pytest.mark.heavy
def test_a_local_sweep_reports_every_outcome(data, single, tmp_path, capsys):
    from training.__main__ import main

    runs = shutil.copytree(single, tmp_path / "runs")
    words = options(data, runs, "")[2:]
    assert main(["sweep", "tiny_s*", "--set", "epochs=0.1", *words]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert sorted(printed) == [["tiny_single", "finished"], ["tiny_stir", "finished"]]


def test_a_refused_recipe_is_not_tried_again(tmp_path):
    counter = tmp_path / "counter"
    code = f"open({str(counter)!r}, 'a').write('x'); import sys; sys.exit('error: no')"
    assert sweep.run_until_done([sys.executable, "-c", code]) == "error: no"
    assert counter.read_text() == "x"


def test_a_killed_recipe_is_tried_a_few_times(tmp_path):
    counter = tmp_path / "counter"
    code = f"open({str(counter)!r}, 'a').write('x'); import os; os.kill(os.getpid(), 9)"
    assert sweep.run_until_done([sys.executable, "-c", code]) == "exit code -9"
    assert counter.read_text() == "x" * sweep.ATTEMPTS
