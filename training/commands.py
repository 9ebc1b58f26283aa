"""What the commands of `python -m training` do."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path

from training import state
from training.budgets import Plan, Stage, plan_run
from training.recipes import RECIPES, Recipe, get

CHECKOUT = Path(__file__).resolve().parent.parent
# The order in which the zoo's first checkpoints are trained: relatives lend their weights.
FIRST = (
    "fashion_single_2jet",
    "fashion_avg_2jet",
    "fashion_max_2jet",
    "cifar_single_2jet",
    "cifar_avg_2jet",
    "cifar_max_2jet",
    "fashion28_discrete_s0p50",
    "fashion28_discrete_s1p00",
    "cifar32_discrete_s0p50",
    "cifar32_discrete_s1p00",
    "fashion_translated_avg_2jet",
    "fashion_translated_max_2jet",
    "stir_emoji_small_drop",
    "stir_emoji_mid_drop",
    "stir_emoji_large_drop",
    "stir_gtsrb_mid_drop",
    "stir_gtsrb_mid_nodrop",
    "fashion28_learned_sampled_derivative_bn_lr1e-3",
    "cifar32_learned_sampled_derivative_bn_lr1e-4",
    "fashion_lse_2jet",
    "fashion_avg_3jet",
    "cifar_avg_3jet",
)


def run(arguments) -> int:
    recipe = get(arguments.name)
    if arguments.set or arguments.holdout:
        recipe = _trial(recipe, holdout=arguments.holdout, changes=arguments.set)
    done = _train(recipe, arguments)
    print(f"{recipe.name}: {'finished' if done else 'stopped; run again to go on'}")
    return 0 if done else 3


def _train(recipe: Recipe, arguments, *, deadline: float | None = None) -> bool:
    from training.trainer import Run, train

    folder = run_folder(recipe.name, arguments)
    saved = state.load(folder)
    finished = finished_names(arguments) if saved is None else {saved[0]["warm_start"]}
    plan = plan_run(
        recipe,
        budget=arguments.budget,
        finished=finished,
        dtype=_precision(arguments.precision, arguments.budget),
    )
    plan = _apply_changes(plan, getattr(arguments, "set", []))
    relative = None
    if plan.warm_start and saved is None:
        relative = load_finished(plan.warm_start, arguments)
    job = Run(
        plan,
        folder,
        seed=arguments.seed,
        data_dir=arguments.data and Path(arguments.data),
        devices=arguments.devices,
        jit=arguments.jit,
    )
    return train(job, initial_weights=relative, deadline=deadline)


def _trial(recipe: Recipe, *, holdout: bool, changes: list[str]) -> Recipe:
    """A recipe under another name, so that a trial never mixes with the real run."""
    label = "-".join(["holdout"] * holdout + [c.replace("=", "") for c in changes])
    split = "train" if holdout else recipe.train_split
    return dataclasses.replace(recipe, name=f"{recipe.name}@{label}", train_split=split)


def _apply_changes(plan: Plan, changes: list[str]) -> Plan:
    if not changes:
        return plan
    fields = {field.name for field in dataclasses.fields(Stage)}
    parsed = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in fields:
            raise ValueError(f"`--set` must name one of {sorted(fields)}. Received: {change!r}.")
        try:
            parsed[name] = json.loads(value)
        except json.JSONDecodeError:
            parsed[name] = value
    last = dataclasses.replace(plan.stages[-1], **parsed)
    return dataclasses.replace(plan, stages=(*plan.stages[:-1], last))


def _precision(choice: str, budget: str) -> str:
    if choice != "auto":
        return choice
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        flags = ""
    fast = "avx512_bf16" in flags or "amx_bf16" in flags
    return "mixed_bfloat16" if budget == "cpu" and fast else "float32"


def run_folder(name: str, arguments) -> Path:
    base = Path(arguments.runs) if arguments.runs else state.runs_folder()
    return base / f"{name}-seed{arguments.seed}"


def finished_names(arguments) -> set[str]:
    """Recipes whose weights can be had: finished runs, and what is published."""
    runs = {name for name in RECIPES if (run_folder(name, arguments) / "run.json").exists()}
    published = {path.parent.name for path in (CHECKOUT / "zoo").glob("*/README.md")}
    return runs | published


def load_finished(name: str, arguments):
    """The network of a finished run, or of the zoo."""
    from gdn_keras import zoo
    from gdn_keras.config import GaussDerNetConfig
    from gdn_keras.model import build_model
    from training.trainer import RECORD, WEIGHTS

    folder = run_folder(name, arguments)
    if (folder / RECORD).exists():
        record = json.loads((folder / RECORD).read_text())
        model = build_model(GaussDerNetConfig.from_dict(record["config"]), dtype="float32")
        model.load_weights(folder / WEIGHTS)
        return model
    published = zoo.read_folder(CHECKOUT / "zoo" / name)
    model = build_model(published.config, dtype="float32")
    model.load_weights(published.weights_file)
    return model


def queue(arguments) -> int:
    os.nice(arguments.nice)
    deadline = time.time() + arguments.hours * 3600 if arguments.hours else None
    for name in arguments.names or FIRST:
        if deadline and time.time() > deadline:
            break
        if not _train(get(name), arguments, deadline=deadline):
            break
        print(f"{name}: trained", flush=True)
    return 0
