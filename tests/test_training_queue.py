"""`python -m training queue`: recipes one after another."""

import os
import re
import shutil
import time

from training_helpers import start, write_rates

from training import commands
from training.recipes import RECIPES
from training.runs import locking, state

STOPPED = re.compile(r"^Stopped.* resume", re.M)


def test_the_queue_is_nice(place, tmp_path):
    before = os.getpriority(os.PRIO_PROCESS, 0)
    where = ["--data-dir", str(place.data), "--runs", str(place.runs), "--zoo", str(place.zoo)]
    write_rates(place.runs)
    process = start(["queue", "tiny_single", "--nice", "3", *where], output=tmp_path / "output")
    expected, end = min(before + 3, 19), time.time() + 120
    while os.getpriority(os.PRIO_PROCESS, process.pid) != expected:
        assert process.is_alive() and time.time() < end
        time.sleep(0.01)
    process.kill()
    process.join()


def test_a_queue_without_time_stops_at_once(after_single, capsys):
    assert after_single("queue", "tiny_avg_transfer", "--hours", "0") == 0
    assert STOPPED.search(capsys.readouterr().out)
    assert not after_single.zoo.exists()


def test_the_queue_continues_after_a_failure(after_single, capsys):
    place = after_single
    assert place("queue", "tiny_single", "cifar32_discrete_s1p00", "tiny_avg_transfer") == 1
    printed = capsys.readouterr()
    assert "cifar32_discrete_s1p00: Missing data_batch_1.bin" in printed.err
    assert "Failed: cifar32_discrete_s1p00." in printed.err
    assert sorted(path.name for path in place.zoo.iterdir()) == ["tiny_avg_transfer", "tiny_single"]


def test_the_queue_leaves_out_what_is_published(single, place, capsys):
    shutil.copytree(single.zoo, place.zoo)
    before = {path: path.read_bytes() for path in place.zoo.rglob("*.*")}
    assert place("queue", "tiny_single") == 0
    assert "tiny_single: already published" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in place.zoo.rglob("*.*")} == before


def test_the_queue_stops_in_the_middle_of_a_recipe(place, capsys):
    hours = 4 / 3600  # loading and tracing alone take a good part of it
    before = time.time()
    assert place("queue", "tiny_single", "tiny_max", "tiny_avg", "--hours", str(hours)) == 0
    assert time.time() - before < 60
    assert STOPPED.search(capsys.readouterr().out)
    assert place("list", "tiny*") == 0
    assert not capsys.readouterr().out.splitlines()[-1].startswith("3 trained")


def test_the_queue_takes_what_is_in_progress_first(place):
    begun = place.folder("cifar32_integrated_s1p00")
    begun.mkdir(parents=True)
    (begun / state.PREVIOUS).touch()
    order = commands.by_priority(place.workspace, seed=0)
    assert order[: 1 + len(commands.FIRST)] == ["cifar32_integrated_s1p00", *commands.FIRST]
    assert sorted(order) == sorted(RECIPES)


def test_the_queue_leaves_out_what_another_process_holds(place, capsys):
    with locking.lock(place.folder("tiny_single")):
        assert place("queue", "tiny_single") == 0
    out = capsys.readouterr().out
    assert "tiny_single: skipped" in out and str(place.folder("tiny_single")) in out
