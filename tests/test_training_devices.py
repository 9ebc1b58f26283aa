"""More than one device, more than one recipe: the result is the same, and all results arrive."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from training_helpers import start

from gdn_keras.zoo.weights import read_weights
from training import locking, state, sweep
from training.logs import BOARD, read_log
from training.stopping import STOPPED

ROOT = Path(__file__).parent.parent
STEPS = ["--set", "epochs=0.25"]  # five steps
LIMIT = 600  # seconds after which something is wrong


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


def start_sweep(data, runs, *words, variables=None, **how):
    """`sweep` as a process of its own."""
    places = options(data, runs, "")[2:]
    return subprocess.Popen(
        [sys.executable, "-m", "training", "sweep", *words, *places],
        cwd=ROOT,
        env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"} | (variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )


def wait_for(condition, driver):
    latest = time.time() + LIMIT
    while not condition():
        assert driver.poll() is None, driver.communicate()
        assert time.time() < latest
        time.sleep(0.05)


def outcomes(output):
    """{recipe: outcome} of what a sweep has printed."""
    return dict(line.split(maxsplit=1) for line in output.splitlines() if "tiny" in line)


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
    words = ("tiny_[am]*", "--engine", "ray", "--workers", "2", "--set", "epochs=15")
    driver = start_sweep(data, tmp_path, *words)
    victims = {}

    def all_are_killed():
        for name in set(names) - set(victims):
            # in the second stage, when the state of the first is saved
            rows = read_log(tmp_path / f"{name}-seed0")
            process = training_processes(tmp_path).get(name.partition("@")[0])
            if process and rows and rows[-1]["stage"] == "1":
                victims[name] = process if name == names[0] else parent(process)
                os.kill(victims[name], signal.SIGKILL)
        return len(victims) == 2

    try:
        wait_for(all_are_killed, driver)
        output, errors = driver.communicate(timeout=LIMIT)
    finally:
        driver.kill()
    assert driver.returncode == 0, errors
    assert outcomes(output) == {"tiny_avg": "finished", "tiny_max": "finished"}
    for name in names:
        assert (tmp_path / f"{name}-seed0" / state.RECORD).exists()
    # two stages, and the second one resumed; never the first one again. A training process whose
    # worker is killed may live on, which is up to Ray; then nothing is resumed.
    assert starts(tmp_path, names[0]) == 3
    assert starts(tmp_path, names[1]) in (2, 3)


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["Ctrl-C", "kill"])
def test_a_stopped_sweep_saves_and_leaves_nothing_behind(data, tmp_path, how):
    """One recipe is training, the other one waits for its turn."""
    words = ("tiny_[am]*", "--workers", "1", "--set", "epochs=200")
    driver = start_sweep(data, tmp_path, *words, start_new_session=True)
    begun, waiting = (tmp_path / f"tiny_{name}@epochs200-seed0" for name in ("avg", "max"))
    try:
        wait_for(lambda: read_log(begun), driver)
        if how == "Ctrl-C":  # which a terminal sends to the whole group
            os.killpg(driver.pid, signal.SIGINT)
        else:
            os.kill(driver.pid, signal.SIGTERM)
        output, errors = driver.communicate(timeout=LIMIT)
    finally:
        driver.kill()
    assert driver.returncode == STOPPED, errors
    assert outcomes(output) == {"tiny_avg": "stopped", "tiny_max": "stopped"}
    assert "Stopped; run the same command to resume." in output
    assert training_processes(tmp_path) == {}
    saved, _ = state.load(begun)
    # all steps, not only those that had been saved before: that was none
    last = read_log(begun)[-1]
    assert (saved.stage, saved.step) == (int(last["stage"]), int(last["step"]))
    assert starts(tmp_path, begun.name.removesuffix("-seed0")) == saved.stage + 1
    assert not waiting.exists()


@pytest.mark.heavy
def test_a_sweep_on_a_cluster_takes_gpus_and_as_many_workers_as_it_may(data, tmp_path):
    """A cluster of this machine, which is told that it has two GPUs."""
    ray = Path(sys.executable).parent / "ray"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex()}
    short = tempfile.mkdtemp()  # sockets in it must have short names
    size = ["--num-cpus=2", "--num-gpus=2", "--include-dashboard=false", f"--temp-dir={short}"]
    head = subprocess.Popen(
        [ray, "start", "--head", "--block", f"--port={port}", *size],
        env=os.environ | own | {"RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    seen, gpus = [], set()
    try:
        words = ("tiny_[am]*", "--engine", "ray", "--cluster", f"127.0.0.1:{port}")
        words += ("--workers", "1", "--set", "epochs=0.05", "--set", "limit=320")
        driver = start_sweep(data, tmp_path, *words, variables=own)
        while driver.poll() is None:
            seen.append(training_processes(tmp_path))
            gpus |= set(map(visible_gpus, seen[-1].values()))
            time.sleep(0.1)
        output, errors = driver.communicate()
    finally:
        head.terminate()
        head.wait()
        shutil.rmtree(short, ignore_errors=True)
    assert driver.returncode == 0, errors
    assert outcomes(output) == {"tiny_avg": "finished", "tiny_max": "finished"}
    assert max(map(len, seen)) == 1
    assert {name for running in seen for name in running} == {"tiny_avg", "tiny_max"}
    assert gpus - {"ended"} and gpus <= {"0", "1", "ended"}


def visible_gpus(process):
    try:
        text = Path(f"/proc/{process}/environ").read_text()
    except OSError:
        text = ""
    variables = dict(variable.partition("=")[::2] for variable in text.split("\0"))
    return variables.get("CUDA_VISIBLE_DEVICES", "all") if text else "ended"


@pytest.mark.heavy
def test_a_local_sweep_reports_every_outcome(data, single, tmp_path, capsys):
    from training.__main__ import main

    runs = shutil.copytree(single.runs, tmp_path / "runs")
    words = options(data, runs, "")[2:]
    assert main(["sweep", "tiny_s*", "--set", "epochs=0.1", *words]) == 0
    assert outcomes(capsys.readouterr().out) == {"tiny_single": "finished", "tiny_stir": "finished"}


def task(tmp_path, end, *, first="pass"):
    """A task that counts how often it is started, between two lines of Python."""
    counter = tmp_path / "counter"
    count = f"open({str(counter)!r}, 'a').write('x')"
    code = f"import os, signal, sys, time; {first}; {count}; {end}"
    return sweep.Task("tiny_avg", [sys.executable, "-c", code], tmp_path), counter


def test_a_refused_recipe_is_not_tried_again(tmp_path):
    refused, counter = task(tmp_path, "sys.exit('error: no')")
    assert sweep.run_until_done(refused) == "error: no"
    assert counter.read_text() == "x"


def test_a_killed_recipe_is_tried_a_few_times(tmp_path):
    killed, counter = task(tmp_path, "os.kill(os.getpid(), 9)")
    assert sweep.run_until_done(killed) == "exit code -9"
    assert counter.read_text() == "x" * sweep.ATTEMPTS


def test_what_another_process_holds_is_waited_for(tmp_path, capsys):
    """By looking at the lock: nothing is started before it is free."""
    free, counter = task(tmp_path, "pass")
    with ThreadPoolExecutor() as pool:
        with locking.lock(tmp_path):
            outcome = pool.submit(sweep.run_until_done, free)
            time.sleep(3 * sweep.POLL_SECONDS)
            assert not counter.exists()
        assert outcome.result(LIMIT) == "finished"
    assert counter.read_text() == "x"
    assert capsys.readouterr().err == (
        f"tiny_avg: another process is working on {tmp_path}; waiting for it.\n"
    )


def test_the_second_request_to_stop_kills(tmp_path):
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    stubborn, counter = task(tmp_path, "time.sleep(600)", first=deaf)
    asked = lambda: 2 * counter.exists()  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "POLL_SECONDS", 0.1)
        assert sweep.run_until_done(stubborn, asked) == "exit code -9"
    assert counter.read_text() == "x"


def test_workers_of_ray_do_not_load_keras():
    code = "import sys, training.sweep; sys.exit('keras' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
