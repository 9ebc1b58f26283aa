"""What the commands of `python -m training` do."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
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
    done = train_recipe(arguments.name, arguments)
    print(f"{arguments.name}: {'finished' if done else 'stopped; run again to go on'}")
    return 0 if done else 3


def train_recipe(name: str, arguments) -> bool:
    """Train a recipe, or a trial of it, as the command line says."""
    recipe = get(name)
    if arguments.set or arguments.holdout:
        recipe = _trial(recipe, holdout=arguments.holdout, changes=arguments.set)
    return _train(recipe, arguments)


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
    return runs | {name for name in RECIPES if is_published(name, CHECKOUT / "zoo")}


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
    """Train, evaluate and publish, one recipe after another, until the time is up."""
    os.nice(arguments.nice)
    deadline = time.time() + arguments.hours * 3600 if arguments.hours is not None else None
    for name in arguments.names or FIRST:
        recipe = get(name)
        if deadline is not None and time.time() > deadline:
            print("The time is up; the same command goes on.")
            break
        if is_published(name, zoo_folder(arguments)):
            continue
        if not _train(recipe, arguments, deadline=deadline):
            print(f"{name}: stopped; the same command goes on with it.")
            break
        _evaluate(recipe, arguments, exact=False)
        publish(argparse.Namespace(**vars(arguments) | {"name": name}))
    return 0


def evaluate(arguments) -> int:
    recipe = get(arguments.name)
    for exact in (False, True)[: 2 if arguments.exact else 1]:
        results = _evaluate(recipe, arguments, exact=exact)
        print(f"{recipe.name}, {'every pixel' if exact else 'as trained'}:")
        for key, result in results.items():
            share = 100 * result.correct / result.images
            print(f"  {key:>6}  {share:6.2f} %  of {result.images:,}")
    return 0


def _evaluate(recipe: Recipe, arguments, *, exact: bool):
    from training.evaluate import evaluate as measure_all

    folder = _finished_folder(recipe.name, arguments)
    return measure_all(
        load_finished(recipe.name, arguments),
        recipe,
        folder,
        exact=exact,
        data_dir=arguments.data and Path(arguments.data),
    )


def _finished_folder(name: str, arguments) -> Path:
    folder = run_folder(name, arguments)
    if not (folder / "run.json").exists():
        raise ValueError(
            f"`name` must be a finished run; there is none in {folder}. "
            f"`python -m training run {name}` makes it."
        )
    return folder


def publish(arguments) -> int:
    from training.evaluate import EVALUATION
    from training.publish import publish as write

    recipe = get(arguments.name)
    folder = _finished_folder(recipe.name, arguments)
    if not (folder / EVALUATION).exists():
        raise ValueError(
            f"{recipe.name} has not been evaluated; `python -m training evaluate {recipe.name}`."
        )
    exact = (folder / f"exact_{EVALUATION}").exists()
    written = write(
        recipe,
        load_finished(recipe.name, arguments),
        _evaluate(recipe, arguments, exact=False),
        folder,
        zoo_folder=zoo_folder(arguments),
        exact=_evaluate(recipe, arguments, exact=True) if exact else None,
    )
    print(f"{recipe.name}: published, mean accuracy {100 * written.metrics.mean_accuracy:.2f} %")
    return 0


def zoo_folder(arguments) -> Path:
    return Path(arguments.zoo) if arguments.zoo else CHECKOUT / "zoo"


def is_published(name: str, folder: Path) -> bool:
    return (folder / name / "README.md").exists()


def report(arguments) -> int:
    from training.report import write_report

    docs = Path(arguments.docs) if arguments.docs else CHECKOUT / "docs"
    print(write_report(zoo_folder(arguments), docs))
    return 0


def sweep(arguments) -> int:
    from training.sweep import run_sweep

    names = [name for name in RECIPES if fnmatch.fnmatch(name, arguments.pattern)]
    names = [name for name in names if not RECIPES[name].transfer_from]
    if not names:
        raise ValueError(f"`pattern` must match a recipe. Received: {arguments.pattern!r}.")
    results = run_sweep(names, arguments)
    for name, outcome in results.items():
        print(f"{name:40} {outcome}")
    return 0 if all(outcome == "finished" for outcome in results.values()) else 1


def list_recipes(arguments) -> int:
    """Every recipe: status, the paper's number, ours."""
    from gdn_keras import zoo
    from training.paper import paper_accuracy

    counts = dict.fromkeys(("trained", "in progress", "open"), 0)
    print(f"{'recipe':48} {'status':12} {'paper':>6} {'ours':>6} {'mean':>6}")
    for name, recipe in RECIPES.items():
        if not fnmatch.fnmatch(name, arguments.pattern):
            continue
        printed, ours, mean = paper_accuracy(name), "", ""
        if is_published(name, zoo_folder(arguments)):
            status = "trained"
            metrics = zoo.read_folder(zoo_folder(arguments) / name).metrics
            ours = f"{100 * metrics.accuracy.get('1.000', metrics.mean_accuracy):.2f}"
            mean = f"{100 * metrics.mean_accuracy:.2f}"
        elif (run_folder(name, arguments) / state.STATE).exists():
            status = "in progress"
        else:
            status = "open"
        counts[status] += 1
        note = "  (derived)" if recipe.transfer_from else ""
        print(
            f"{name:48} {status:12} {printed.mean if printed else '':>6} {ours:>6} {mean:>6}{note}"
        )
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 0
