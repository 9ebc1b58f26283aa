"""`python -m training queue`: recipes one after another."""

import os
import time

from training_helpers import start, write_rates

from training import commands
from training.recipes import RECIPES
from training.runs import locking, state


def test_the_queue_is_nice(place, tmp_path):
    before = os.getpriority(os.PRIO_PROCESS, 0)
    where = ["--data", str(place.data), "--runs", str(place.runs), "--zoo", str(place.zoo)]
    write_rates(place.runs)
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
    assert capsys.readouterr().out == "Stopped; run the same command to resume.\n"
    assert not place.zoo.exists()
    assert place("queue", *names) == 1
    printed = capsys.readouterr()
    assert "cifar32_discrete_s1p00: Missing data_batch_1.bin" in printed.err
    assert "Failed: cifar32_discrete_s1p00." in printed.err  # and the queue continued
    assert sorted(path.name for path in place.zoo.iterdir()) == ["tiny_avg_transfer", "tiny_single"]
    assert place("queue", "tiny_single") == 0
    assert capsys.readouterr().out.startswith("tiny_single: already published; delete its folders")


def test_the_queue_stops_in_the_middle_of_a_recipe(place, capsys):
    hours = 4 / 3600  # loading and tracing alone take a good part of it
    before = time.time()
    assert place("queue", "tiny_single", "tiny_max", "tiny_avg", "--hours", str(hours)) == 0
    assert time.time() - before < 60
    assert capsys.readouterr().out.endswith("Stopped; run the same command to resume.\n")
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
    assert "tiny_single: skipped. Another process is working on" in capsys.readouterr().out
