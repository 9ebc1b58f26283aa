"""Nothing is lost: kills, signals, damaged files, full disks, two processes, divergence."""

import errno
import functools
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import time
import warnings

import numpy as np
import pytest
from training_helpers import run_words, start

from training.__main__ import main
from training.runs import locking, progress, state
from training.runs.logs import read_log
from training.runs.stopping import SAME_SECONDS

NAME = "tiny_max"  # has dropout, so a random state too
STEPS = 40  # of each of its two stages
KILLS = 12
LIMIT = 600  # seconds after which something is wrong


def options(data, runs, *more):
    return run_words(NAME, *more, data=data, runs=runs)


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory):
    """The folder of a run that nobody disturbed."""
    runs = tmp_path_factory.mktemp("uninterrupted")
    finish(options(data, runs), output=runs / "output")
    return runs / f"{NAME}-seed0"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / f"{NAME}-seed0"


def finish(argv, *, output, **how):
    end(start(argv, output=output, **how), 0, output=output)


def end(process, code, *, output):
    """Wait until a process ends with an exit code; returns what was printed."""
    process.join(LIMIT)
    text = output.read_text()
    assert process.exitcode == code, text
    return text


def wait_for(condition, process):
    latest = time.time() + LIMIT
    while not condition():
        assert process.is_alive(), f"ended with {process.exitcode}"
        assert time.time() < latest
        time.sleep(0.002)


def wait_for_words(words, process, *, output):
    wait_for(lambda: output.exists() and words in output.read_text(), process)


def weights(folder):
    return hashlib.sha256((folder / state.WEIGHTS).read_bytes()).hexdigest()


def position(folder):
    """Stage and step of the saved state."""
    saved = state.load(folder)
    return saved and (saved[0].stage, saved[0].step)


def spoil(file):
    """One bit of a file falls over."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


class Saves:
    """Counts how often the state of a run is saved."""

    def __init__(self, folder):
        self._file, self.count = folder / state.STATE, 0
        self._last = self._now()

    def _now(self):
        try:
            return self._file.stat().st_ino
        except FileNotFoundError:
            return self._last if self.count else None

    def reach(self, count):
        now = self._now()
        if now != self._last:
            self.count, self._last = self.count + 1, now
        return self.count >= count


@pytest.mark.heavy
def test_kills_at_random_moments_change_nothing(data, folder, uninterrupted, tmp_path):
    """The weights are those of the uninterrupted run, bit for bit."""
    moments = random.Random(0)
    argv, output = options(data, tmp_path), tmp_path / "output"
    places = [0]
    for _ in range(KILLS):
        saves = Saves(folder)
        process = start(argv, output=output, save_seconds=0.0)
        count = min(moments.randint(0, 6), 2 * STEPS - 10 - places[-1])
        if count > 0:  # some steps, then anywhere in a step or in the saving of its state
            wait_for(lambda count=count, saves=saves: saves.reach(count), process)
            time.sleep(moments.uniform(0, 0.05))
        else:  # in the start, or in the tracing of the first step
            end_of_wait = time.monotonic() + moments.uniform(0, 3)
            while time.monotonic() < end_of_wait and not saves.reach(1):  # not to the last step
                time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        stage, step = position(folder) or (0, 0)
        places.append(stage * STEPS + step)
    assert len(set(places)) > KILLS / 2  # it went on, and was killed in different places
    finish(argv, output=output)
    assert weights(folder) == weights(uninterrupted)
    steps = [(int(row["stage"]), int(row["step"])) for row in read_log(folder)]
    assert steps == sorted(set(steps)) and steps[-1] == (1, STEPS)


@pytest.mark.heavy
def test_a_signal_saves_and_stops(data, folder, uninterrupted, tmp_path):
    argv, output = options(data, tmp_path), tmp_path / "output"
    process = start(argv, output=output)
    wait_for(lambda: read_log(folder), process)  # the first chunk is done
    for _ in range(2):  # as `timeout` does it
        os.kill(process.pid, signal.SIGTERM)
    text = end(process, 3, output=output)
    assert f"{NAME}: stopped" in text
    assert position(folder) >= (0, 20)
    assert not (folder / state.RECORD).exists()
    finish(argv, output=output)
    assert weights(folder) == weights(uninterrupted)


@pytest.fixture(scope="module")
def begun(data, tmp_path_factory):
    """The folder of a run that was killed after some steps; copy it."""
    runs = tmp_path_factory.mktemp("begun")
    folder = runs / f"{NAME}-seed0"
    saves = Saves(folder)
    process = start(options(data, runs), output=runs / "output", save_seconds=0.0)
    wait_for(lambda: saves.reach(5), process)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return folder


@pytest.mark.heavy
def test_a_damaged_state_is_passed_over(data, begun, folder, uninterrupted, tmp_path):
    shutil.copytree(begun, folder)
    spoil(folder / state.STATE)
    output = tmp_path / "output"
    finish(options(data, tmp_path), output=output)
    assert re.search(rf"{state.STATE} .*damaged.*{state.PREVIOUS}", output.read_text())
    assert (folder / f"{state.STATE}{state.DAMAGED}").exists()  # kept, but out of the way
    assert weights(folder) == weights(uninterrupted)


def test_if_every_state_is_damaged_nothing_is_begun_anew(data, begun, folder, tmp_path, capsys):
    shutil.copytree(begun, folder)
    for name in (state.STATE, state.PREVIOUS):
        spoil(folder / name)
    before = {path: path.read_bytes() for path in folder.glob("*.npz*")}
    assert main(options(data, tmp_path)) == 1
    error = capsys.readouterr().err
    assert re.search(rf"error: .*{folder}.*{state.STATE}, {state.PREVIOUS} damaged", error)
    assert {path: path.read_bytes() for path in folder.glob("*.npz*")} == before


def test_a_kill_between_the_two_renames_of_a_save(begun, folder):
    shutil.copytree(begun, folder)
    os.replace(folder / state.STATE, folder / f"{state.STATE}.1234.new")
    with warnings.catch_warnings(action="error"):
        assert position(folder) is not None
    assert not list(folder.glob("*.new"))


def test_a_state_of_another_network_is_refused(data, begun, folder, tmp_path, capsys):
    shutil.copytree(begun, folder)
    record, arrays = state.load(folder)
    state.save(folder, record, arrays[:-1])
    assert main(options(data, tmp_path)) == 1
    assert "belongs to another network" in capsys.readouterr().err


def test_the_second_process_on_a_run_refuses(data, folder, tmp_path, capsys):
    process = start(options(data, tmp_path), output=tmp_path / "output")
    wait_for((folder / locking.LOCK).exists, process)
    assert main(options(data, tmp_path)) == locking.LOCKED
    assert re.search(f"error: Another process .*{folder}", capsys.readouterr().err)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with locking.lock(folder):  # the lock went away with the process
        pass


def fill_the_disk(room):
    """Flushing a file to the disk fails as it does on a full one, until `room` exists."""
    flush = os.fsync

    def fsync(file):
        if not room.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    os.fsync = fsync
    try_again_soon()


def try_again_soon():
    progress.RETRY_SECONDS = 0.2


CONTINUING = "No space left on device. Continuing"
WAITING = "No space left on device. Retrying every 0.2 seconds"


@pytest.mark.heavy
def test_a_full_disk_loses_nothing(data, begun, folder, uninterrupted, tmp_path):
    """The run goes on without saving, and at its end waits until there is room."""
    shutil.copytree(begun, folder)
    output, room = tmp_path / "output", tmp_path / "room"
    before = position(folder)
    full = functools.partial(fill_the_disk, room)
    process = start(options(data, tmp_path), output=output, save_seconds=0.5, before=full)
    wait_for_words(WAITING, process, output=output)
    assert position(folder) == before
    room.touch()
    assert CONTINUING in end(process, 0, output=output)
    assert weights(folder) == weights(uninterrupted)


@pytest.mark.heavy
@pytest.mark.parametrize("answer", ["room", "a second signal"])
def test_a_stop_waits_for_room(data, tmp_path, answer):
    output, room = tmp_path / "output", tmp_path / "room"
    folder = tmp_path / f"{NAME}@epochs100-seed0"
    argv = options(data, tmp_path, "--set", "epochs=100")
    full = functools.partial(fill_the_disk, room)
    process = start(argv, output=output, save_seconds=0.0, before=full)
    wait_for_words(CONTINUING, process, output=output)
    os.kill(process.pid, signal.SIGTERM)
    wait_for_words(WAITING, process, output=output)
    if answer == "room":
        room.touch()
        end(process, 3, output=output)
        assert position(folder) > (0, 0)
    else:
        time.sleep(SAME_SECONDS)
        os.kill(process.pid, signal.SIGTERM)
        text = end(process, 130, output=output)
        assert "interrupted; run the same command to resume" in text
        assert position(folder) is None


@pytest.mark.heavy
def test_a_full_disk_that_is_one(data, uninterrupted, tmp_path):
    """On a file system of 64 kB, where the log and TensorBoard have no room either."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a file system needs to be allowed")
    try:
        argv, output = options(data, disk), tmp_path / "output"
        process = start(argv, output=output, save_seconds=0.0, before=try_again_soon)
        wait_for_words(WAITING, process, output=output)
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        assert CONTINUING in end(process, 0, output=output)
        assert weights(disk / f"{NAME}-seed0") == weights(uninterrupted)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.heavy
@pytest.mark.parametrize("save_seconds", [0.0, 3600.0], ids=["a save on the way", "the last save"])
def test_a_deleted_folder_ends_the_run(data, folder, tmp_path, save_seconds):
    output = tmp_path / "output"
    process = start(options(data, tmp_path), output=output, save_seconds=save_seconds)
    wait_for(lambda: read_log(folder), process)
    folder.rename(tmp_path / "gone")  # in one step, unlike deleting
    text = end(process, 1, output=output)
    assert re.search("error: The folder of the run was deleted", text)
    assert not folder.exists()


@pytest.mark.heavy
def test_divergence_keeps_the_last_good_state(data, tmp_path):
    """A learning rate that grows instead of falling: some steps are good, then none."""
    output = tmp_path / "output"
    argv = options(data, tmp_path, "--set", "final_learning_rate=1e30")
    text = end(start(argv, output=output, save_seconds=0.0), 1, output=output)
    folder = tmp_path / f"{NAME}@final_learning_rate1e30-seed0"
    message = re.search(
        rf"error: .* step (\d+) of stage 'together' of {NAME}@.*{folder}.* rate than 0.01\b",
        text,
    )
    assert message
    record, arrays = state.load(folder)
    assert record.stage == 1 and 1 <= record.step <= int(message[1])
    assert all(np.isfinite(array).all() for array in arrays)
