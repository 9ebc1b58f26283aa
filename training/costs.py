"""What training a network costs: multiply-adds, images, and hours on this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gdn_keras import datasets
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.counts import count_multiply_adds
from gdn_keras.utils import cpu
from gdn_keras.utils.files import replace_file

from .budgets import DENSITY, WIDE_REACH, Plan, plan_run
from .publishing.measurement import BATCH, network_in, test_sizes
from .recipes import Recipe, get
from .stages import build_stage_model, compile_model

RATES = "rates.json"  # in the folder of the runs
# Narrow networks keep a processor less busy than wide ones, so each family has its own rate.
_CALIBRATED_WITH = ("fashion_avg_2jet", "cifar_avg_2jet")
_SECONDS = 4.0  # of steps that are timed, each for training and for inference


@dataclass(frozen=True)
class Rate:
    """The speed of this machine for one family of networks; a multiply-add is two operations."""

    training: float  # GFLOP/s
    inference: float


@dataclass(frozen=True)
class Cost:
    """Of one recipe with one budget."""

    gflop: float  # of the finished network, per image
    images: int  # in training, over all stages
    training: float  # GFLOP of all steps; backwards costs twice as much as forwards
    evaluation: float  # GFLOP of the whole test set at every size

    def hours(self, rate: Rate) -> float:
        return (self.training / rate.training + self.evaluation / rate.inference) / 3600


def cost_of(plan: Plan) -> Cost | None:
    """None for data sets whose record does not say how many images there are."""
    recipe = plan.recipe
    counts = datasets.get(recipe.dataset).num_images
    if counts is None:
        return None
    train, test = counts
    images, training = 0, 0.0
    for stage in plan.stages:
        seen = stage.steps(min(train, stage.limit or train)) * stage.batch_size
        images += seen
        training += 3 * seen * _gflop(stage.config)
    coarse = {"sampling_density": DENSITY, "reach": WIDE_REACH} if plan.budget == "cpu" else {}
    derived = recipe.config.replace(**coarse)
    last = plan.stages[-1].config if plan.stages else derived
    final = _gflop(last.replace(window=recipe.config.window))  # whole maps only in training
    return Cost(final, images, training, final * test * len(test_sizes(recipe)))


def estimate_hours(
    recipes: Iterable[Recipe], *, budget: str, finished: set[str], runs: Path, dtype: str
) -> list[tuple[Cost | None, float | None]]:
    """Cost and hours of each recipe, one after another: the first may lend weights to the others.

    `finished` are the names of networks that can already lend weights; `runs` is the folder where
    the speed of this machine is stored.
    """
    rates = measured_rates(runs, dtype=dtype)
    finished, estimates = set(finished), []
    for recipe in recipes:
        plan = plan_run(recipe, budget=budget, finished=finished - {recipe.name}, dtype=dtype)
        cost = cost_of(plan)
        estimates.append((cost, cost and cost.hours(_rate_for(recipe, rates))))
        finished.add(recipe.name)
    return estimates


def _rate_for(recipe: Recipe, rates: dict[str, Rate]) -> Rate:
    """That of the wide or of the narrow family."""
    narrow, wide = _CALIBRATED_WITH
    return rates[wide if recipe.config.widths == get(wide).config.widths else narrow]


def measured_rates(runs: Path, *, dtype: str) -> dict[str, Rate]:
    """The speed of this machine, by name of the network; measured once, stored with the runs."""
    file, key = runs / RATES, f"{cpu.text(cpu.describe())}, {dtype}"
    rates = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if key not in rates:
        print(f"Measuring the speed of this machine, stored in {file} …", flush=True)
        rates[key] = {name: asdict(_measure(name, dtype)) for name in _CALIBRATED_WITH}
        runs.mkdir(parents=True, exist_ok=True)
        replace_file(file, content=json.dumps(rates, indent=2) + "\n")
    return {name: Rate(**rate) for name, rate in rates[key].items()}


def _measure(name: str, dtype: str) -> Rate:
    stage = plan_run(get(name), budget="cpu", finished=set(), dtype=dtype).stages[-1]
    model = build_stage_model(stage, seed=0)
    compile_model(model, stage, 1000)
    network, gflop = network_in("trained", model), _gflop(stage.config)
    images, more = (_noise(stage.config, count) for count in (stage.batch_size, BATCH))
    labels = np.zeros(len(images), int)
    return Rate(
        training=3 * gflop * len(images) / _seconds(lambda: model.train_on_batch(images, labels)),
        inference=gflop * len(more) / _seconds(lambda: network.predict(more)),
    )


def _noise(config: GaussDerNetConfig, count: int) -> np.ndarray:
    shape = (count, *config.input_size, config.input_channels)
    return np.random.default_rng(0).uniform(0, 255, shape).astype("float32")


def _seconds(step: Callable[[], object]) -> float:
    """Of one step, the median over some seconds."""
    step()  # the first one compiles
    times, end = [], time.perf_counter() + _SECONDS
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _gflop(config: GaussDerNetConfig) -> float:
    return 2e-9 * count_multiply_adds(config)
