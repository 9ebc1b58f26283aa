"""Sweeps before anything is started: what starts from what, what it costs, whose turn it is."""

import dataclasses
import io
import re

import pytest

from gdn_keras.counts import count_multiply_adds
from gdn_keras.datasets import raw, sets
from gdn_keras.datasets.stir import StirFile
from training import devices
from training.__main__ import main
from training.budgets import relatives
from training.factory import table
from training.factory.plan import SMALL_SHARE, Finished, describe, make_sweep_plan
from training.factory.schedule import (
    DONE,
    EVALUATE,
    FAILED,
    LOST,
    TRAIN,
    Job,
    Outcome,
    Schedule,
)
from training.factory.worker import Progress
from training.options import RunOptions, Trial, auto_precision
from training.recipes import ALL, RECIPES, derived, get
from training.runs.workspace import Workspace

PAPER = RunOptions(budget="paper", precision="float32")
NOTHING = Finished()


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory):
    """A workspace whose data folder seems to have everything: the files are empty."""
    data = tmp_path_factory.mktemp("data")
    for dataset in sets.all_sets().values():
        loader = getattr(dataset.loader, "source", dataset.loader)
        if isinstance(loader, StirFile):
            names = [f"stir/{loader.file}"]
        else:
            names = [f"{loader.folder}/{name}" for part in loader.parts.values() for name in part]
        for name in names:
            (data / name).parent.mkdir(exist_ok=True)
            (data / name).touch()
    return Workspace(runs=data / "runs", zoo=data / "zoo", data=data)


def plan_of(names, workspace, *, options=PAPER, finished=NOTHING, **how):
    recipes = [ALL[name] for name in names]
    return make_sweep_plan(recipes, options=options, finished=finished, workspace=workspace, **how)


@pytest.fixture(scope="module", params=["paper", "cpu"])
def everything(everywhere, request):
    options = dataclasses.replace(PAPER, budget=request.param)
    return plan_of(reversed(RECIPES), everywhere, options=options), request.param


def test_all_networks_are_planned_in_the_order_of_what_starts_from_what(everything):
    plan, budget = everything
    names = [row.recipe.name for row in plan.rows]
    assert sorted(names) == sorted(RECIPES) and not plan.left_out
    assert set(names[-len(derived()) :]) == {recipe.name for recipe in derived()}
    several = [len(row.recipe.config.channel_sigmas) > 1 for row in plan.rows]
    assert several == sorted(several)
    done = set()
    for row in plan.rows:
        train, evaluate = row.jobs
        assert (train.step, evaluate.step) == (TRAIN, EVALUATE)
        assert {key for job in row.jobs for key in job.after} <= done | {train.key}
        assert evaluate.after == (train.key,)
        allowed = [row.recipe.transfer_from] if row.recipe.transfer_from else []
        if budget == "cpu":
            allowed = allowed or relatives(row.recipe)
        earlier = [name for name in allowed if (TRAIN, name) in done]
        assert row.source == next(iter(earlier), None)  # the nearest of those that come before
        assert train.after == tuple((TRAIN, name) for name in earlier[:1])
        done |= {job.key for job in row.jobs}


def test_the_hours_of_a_plan_by_hand(everywhere):
    """60,000 images, 32 epochs, backwards costs twice as much as forwards; 10,000 at nine sizes."""
    plan = plan_of(["fashion_avg_2jet"], everywhere)
    config = get("fashion_avg_2jet").config
    whole = 2e-9 * count_multiply_adds(config, dense=True)  # maps in training
    gflop = 2e-9 * count_multiply_adds(config)
    training, evaluation = 3 * 32 * 60_000 * whole, 9 * 10_000 * gflop
    text = describe(plan, tflops=20)
    (row,) = (line for line in text.splitlines() if "fashion_avg_2jet" in line)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    hours = (training + evaluation) / 20e3 / 3600
    assert cells == [
        *("fashion_avg_2jet", "", "train, evaluate", "1", f"{gflop:.2f}", f"{32 * 60_000:,}"),
        *(f"{training:,.0f}", f"{evaluation:,.0f}", f"{hours:.2f}"),
    ]
    assert re.search(rf"{hours:.1f} hours of one GPU .*20 TFLOP/s", text)


def test_networks_whose_data_are_not_counted_are_named(everywhere):
    text = describe(plan_of(["stir_sign_mid_drop", "fashion_avg_2jet"], everywhere), tflops=10)
    assert text.endswith(": stir_sign_mid_drop.")


def test_derived_networks_of_the_paper_budget_are_measured_on_every_pixel(everywhere):
    name = "fashion_avg_2jet_transfer"
    plan = plan_of(["fashion_single_2jet", name], everywhere)
    gflop = 2e-9 * count_multiply_adds(get(name).config)
    train, evaluate = plan.rows[-1].jobs
    assert (train.gpus, train.gflop) == (0, 0.0)
    assert evaluate.gflop == pytest.approx(9 * 10_000 * gflop)


def test_small_networks_share_a_gpu(everywhere):
    names = ("fashion28_discrete_s1p00", "cifar_avg_2jet")
    assert [row.jobs[0].gpus for row in plan_of(names, everywhere).rows] == [SMALL_SHARE, 1]
    assert {job.gpus for job in plan_of(names, everywhere, gpus=0.5).jobs} == {0.5}
    four = dataclasses.replace(PAPER, devices=4)
    assert {job.gpus for job in plan_of(names, everywhere, options=four).jobs} == {4}


def test_what_is_finished_is_not_done_again(everywhere):
    names = ["tiny_single", "tiny_avg", "tiny_max", "tiny_lse"]
    finished = Finished(
        runs=frozenset({f"{name}-seed0" for name in names[:3]}),
        evaluated=frozenset({"tiny_single-seed0", "tiny_avg-seed0"}),
        published=frozenset({"tiny_single"}),
    )
    plan = plan_of(names, everywhere, finished=finished)
    jobs = {row.recipe.name: [(job.step, job.publish) for job in row.jobs] for row in plan.rows}
    assert jobs == {
        "tiny_single": [],
        "tiny_avg": [(EVALUATE, True)],
        "tiny_max": [(EVALUATE, True)],
        "tiny_lse": [(TRAIN, False), (EVALUATE, True)],
    }


def test_another_seed_is_trained_and_measured_but_replaces_no_published_network(everywhere):
    finished = Finished(
        runs=frozenset({"tiny_single-seed0"}),
        evaluated=frozenset({"tiny_single-seed0"}),
        published=frozenset({"tiny_single"}),
    )
    other = dataclasses.replace(PAPER, seed=1)
    (row,) = plan_of(["tiny_single"], everywhere, options=other, finished=finished).rows
    assert [(job.step, job.publish) for job in row.jobs] == [(TRAIN, False), (EVALUATE, False)]


def test_trials_are_neither_derived_nor_published_nor_started_from(everywhere):
    options = RunOptions(trial=Trial(changes=("epochs=3",)))
    plan = plan_of(["tiny_single", "tiny_avg", "tiny_avg_transfer"], everywhere, options=options)
    assert [job.run for job in plan.jobs] == ["tiny_single@epochs3-seed0", "tiny_avg@epochs3-seed0"]
    assert all(job.step == TRAIN and not job.after for job in plan.jobs)
    assert list(plan.left_out) == ["tiny_avg_transfer"]


def test_a_trial_with_holdout_starts_from_one_with_holdout(everywhere):
    holdout = RunOptions(trial=Trial(holdout=True))
    plan = plan_of(["tiny_single", "tiny_avg"], everywhere, options=holdout)
    assert plan.rows[1].source == "tiny_single@holdout"
    assert plan.rows[1].jobs[0].after == ((TRAIN, "tiny_single"),)
    assert plan.rows[1].jobs[0].source == "tiny_single@holdout"


def test_recipes_without_data_are_left_out(data, tmp_path, capsys):
    where = ["--data-dir", str(data), "--storage", str(tmp_path)]
    assert main(["sweep", "--all", "--budget", "paper", "--dry-run", *where]) == 0
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("Left out: ")]
    names = {line.split(": ")[1] for line in lines}
    assert names == {
        recipe.name
        for recipe in RECIPES.values()
        if not recipe.dataset.startswith(("fashion", "rescaled_fashion", "stir_emoji"))
    }
    assert "Left out: cifar_avg_2jet: Missing data_batch_1.bin" in printed
    assert re.search("cifar_avg_2jet_transfer: .*cifar_single_2jet", printed)
    assert list(tmp_path.iterdir()) == []


def test_without_a_data_folder_what_can_be_downloaded_is_planned(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv(raw.ENVIRONMENT_VARIABLE, raising=False)
    assert main(["sweep", "*", "--budget", "paper", "--dry-run", "--storage", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("Left out: ") == printed.count("Left out: stir_") == 24
    assert list(tmp_path.iterdir()) == []


# === Whose turn it is ===


def job(recipe, *, gflop=1.0, after=(), images=0):
    keys = tuple((TRAIN, name) for name in after)
    return Job(recipe=recipe, step=TRAIN, run=recipe, gflop=gflop, after=keys, images=images)


def test_the_longest_job_that_is_ready_comes_first():
    jobs = [job("a", gflop=1), job("b", gflop=3), job("c", gflop=2), job("d", gflop=9, after="a")]
    schedule = Schedule(jobs)
    assert [j.recipe for j in schedule.ready()] == ["b", "c", "a"]
    a = schedule.ready()[-1]
    schedule.start(a)
    assert [j.recipe for j in schedule.ready()] == ["b", "c"]
    assert schedule.end(a, Outcome(DONE))
    assert [j.recipe for j in schedule.ready()] == ["d", "b", "c"]


def test_three_failures_set_a_job_aside_and_a_lost_machine_is_none():
    schedule = Schedule([job("a"), job("b", after="a"), job("c", after="b"), job("d")])
    for kind in (FAILED, LOST, LOST, LOST, FAILED, FAILED):
        assert not schedule.failed
        (a,) = (j for j in schedule.ready() if j.recipe == "a")
        schedule.start(a)
        final = schedule.end(a, Outcome(kind, "no", log="a.log"))
    assert final and schedule.failed[TRAIN, "a"].log == "a.log"
    assert [j.recipe for j in schedule.ready()] == ["d"]  # the rest goes on
    assert schedule.blocked() == {"b": "a", "c": "a"}


# === The table ===


def test_the_table_by_hand():
    a, b, c = job("a", gflop=1000, images=100), job("b", gflop=600, images=100), job("c", gflop=200)
    schedule = Schedule([a, b, c])
    for begun in (a, b):
        schedule.start(begun)
    now = {a.key: Progress(host="one", process=1, gpus="0", images=50, rate=0.5, problem="full")}
    assert table.render(schedule, now).splitlines() == [
        "| running | step  | machine  | done | images/s | left |      |",
        "| ------- | ----- | -------- | ---: | -------: | ---: | ---- |",
        "| a       | train | one      |  50% |        0 | 0:02 | full |",
        "| b       | train | starting |      |          |      |      |",
        # 500 + 600 + 200 GFLOP at 0.5 images/s of 10 GFLOP each
        "2 running, 1 waiting, 0 done, 0 failed; 0 images/s; 0:04 left; full",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_one_table_and_a_log_has_lines(monkeypatch):
    schedule = Schedule([job("a")])
    monkeypatch.setenv("COLUMNS", "30")
    screen, log = Terminal(), io.StringIO()
    for stream in (screen, log):
        live = table.LiveTable(stream)
        for _ in range(3):
            live.show(schedule, {})
        live.report(job("a"), Outcome(FAILED, "no data", log="a.log"), final=True)
    assert screen.getvalue().count("\x1b[3F\x1b[J") == 3  # over the three lines before
    assert max(len(line) for line in screen.getvalue().splitlines()[:3]) == 30
    lines = log.getvalue().splitlines()
    (line,) = lines
    assert re.search("a +train +failed: no data.*a.log", line)
    monkeypatch.setattr(table.lines, "LINE_SECONDS", -1.0)
    live.show(schedule, {})
    assert log.getvalue().splitlines()[1:] == ["0 running, 1 waiting, 0 done, 0 failed"]


# === The step on a GPU, as far as it can be tried without one ===


@pytest.mark.parametrize(
    "answer, capability, precision",
    [
        ("echo 9.0; echo 8.6", 8.6, "mixed_bfloat16"),
        ("echo 7.5", 7.5, "mixed_float16"),
        ("echo 6.1", 6.1, "float32"),
        ("echo No devices were found; exit 6", None, "float32"),
    ],
)
def test_the_driver_tells_what_a_gpu_can_do(answer, capability, precision, tmp_path, monkeypatch):
    """What nvidia-smi says decides precision and XLA; here a script says it."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{answer}\n")
    tool.chmod(0o755)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert devices.gpu_capability() == capability
    assert auto_precision("paper") == precision
    assert devices.prefers_xla(1) == (capability is not None)
    assert not devices.prefers_xla(2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert devices.gpu_capability() is None
