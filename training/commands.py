"""What the commands of `python -m training` do."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import sys
import time
from pathlib import Path

from training import devices, state
from training.recipes import ALL, RECIPES, Recipe, get
from training.runs import (
    CHECKOUT,
    check_options,
    chosen_recipe,
    finished_folder,
    is_published,
    load_finished,
    make_plan,
    read_record,
    run_folder,
    status,
    zoo_folder,
)
from training.stopping import Stopping

STOPPED = 3  # exit code: the same command goes on
_WAY_WORDS = {
    "trained": "as trained",
    "exact": "every pixel",
    "matched": "all sigmas times the size factor",
}
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
    recipe = chosen_recipe(arguments)
    with Stopping() as stop:
        done = _train(recipe, arguments, stop)
    print(f"{recipe.name}: {'finished' if done else 'stopped; the same command goes on'}")
    return 0 if done else STOPPED


def _train(recipe: Recipe, arguments, stop: Stopping) -> bool:
    from training.trainer import Run, train

    devices.prepare(arguments.devices)
    main = devices.is_main()
    folder = run_folder(recipe.name, arguments)
    with state.lock(folder) if main else contextlib.nullcontext():
        record = read_record(folder)
        if record is not None:
            check_options(record, arguments)
            return True
        saved = state.load(folder)
        plan = make_plan(recipe, arguments, begun=saved and saved[0])
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
            writes=main,
        )
        return train(job, saved=saved, relative=relative, stop=stop)


def queue(arguments) -> int:
    """Train, evaluate and publish, one recipe after another, until the time is up."""
    os.nice(arguments.nice)
    recipes = [get(name) for name in arguments.names or _by_priority(arguments)]
    deadline = None if arguments.hours is None else time.time() + 3600 * arguments.hours
    failed = []
    with Stopping(deadline=deadline) as stop:
        for recipe in recipes:
            try:
                if not is_published(recipe.name, arguments) and not stop():
                    _train_to_zoo(recipe, arguments, stop)
            except state.RunIsLocked as error:
                print(f"{recipe.name}: left out. {error}")
            except (ValueError, OSError, RuntimeError) as error:
                print(f"{recipe.name}: {error}", file=sys.stderr)
                failed.append(recipe.name)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    if stop():
        print("Stopped; the same command goes on.")
    return 1 if failed else STOPPED if stop.asked else 0


def _train_to_zoo(recipe: Recipe, arguments, stop: Stopping) -> None:
    if _train(recipe, arguments, stop):
        if _evaluate(recipe, arguments, way="trained", stop=stop) is not None:
            _publish(recipe, arguments)


def _by_priority(arguments) -> list[str]:
    """What is in progress, then the first checkpoints, then everything."""
    begun = [name for name in RECIPES if status(name, arguments) == "in progress"]
    return list(dict.fromkeys([*begun, *FIRST, *RECIPES]))


def evaluate(arguments) -> int:
    recipe = chosen_recipe(arguments)
    trial = arguments.set + arguments.then
    if trial and not arguments.holdout:
        raise ValueError(
            "A trial is measured on the validation split, never on the test set: it must have been "
            f"run with --holdout. Received: {' '.join(trial)} without it."
        )
    if arguments.limit is not None and not (arguments.holdout and arguments.limit > 0):
        raise ValueError(
            "The test set is measured whole; `--limit` must be a positive number and needs "
            f"--holdout. Received: --limit {arguments.limit}."
        )
    with Stopping() as stop:
        for way in ("trained", *(w for w in ("exact", "matched") if getattr(arguments, w))):
            results = _evaluate(recipe, arguments, way=way, stop=stop)
            if results is None:
                print(f"{recipe.name}: stopped; the same command goes on")
                return STOPPED
            print(f"{recipe.name}, {_WAY_WORDS[way]}:")
            for key, result in results.items():
                share = 100 * result.correct / result.images
                print(f"  {key:>6}  {share:6.2f} %  of {result.images:,}")
    return 0


def _evaluate(recipe: Recipe, arguments, *, way: str, stop: Stopping):
    from training.evaluate import evaluate as measure_all

    folder = finished_folder(recipe.name, arguments)
    with state.lock(folder):
        return measure_all(
            load_finished(recipe.name, arguments),
            recipe,
            folder,
            way=way,
            split="validation" if getattr(arguments, "holdout", False) else "test",
            limit=getattr(arguments, "limit", None),
            data_dir=arguments.data and Path(arguments.data),
            stop=stop,
        )


def publish(arguments) -> int:
    _publish(get(arguments.name), arguments)
    return 0


def _publish(recipe: Recipe, arguments) -> None:
    from training.evaluate import read_results
    from training.publish import publish as write

    folder = finished_folder(recipe.name, arguments)
    written = write(
        recipe,
        load_finished(recipe.name, arguments),
        read_results(recipe, folder),
        folder,
        zoo_folder=zoo_folder(arguments),
        exact=read_results(recipe, folder, way="exact"),
        matched=read_results(recipe, folder, way="matched"),
    )
    print(f"{recipe.name}: published, mean accuracy {100 * written.metrics.mean_accuracy:.2f} %")


def report(arguments) -> int:
    from training.report import write_report

    docs = Path(arguments.docs) if arguments.docs else CHECKOUT / "docs"
    print(write_report(zoo_folder(arguments), docs))
    return 0


def sweep(arguments) -> int:
    from training.sweep import run_sweep

    names = [name for name in _matching(arguments.group) if not ALL[name].transfer_from]
    if not names:
        groups = sorted({recipe.group for recipe in RECIPES.values()})
        raise ValueError(
            f"`group` must be one of {', '.join(groups)}, or a pattern that matches names of "
            f"recipes. Received: {arguments.group!r}."
        )
    results = run_sweep(names, arguments)
    return 0 if all(outcome == "finished" for outcome in results.values()) else 1


def _matching(pattern: str) -> list[str]:
    """Recipes of a group, or whose name matches; the tiny ones only if they are asked for."""
    recipes = ALL if pattern.startswith("tiny") else RECIPES
    return [
        name
        for name, recipe in recipes.items()
        if recipe.group == pattern or fnmatch.fnmatchcase(name, pattern)
    ]


def list_recipes(arguments) -> int:
    """Every recipe: status, the paper's number, ours."""
    from gdn_keras import zoo
    from training.paper import paper_accuracy

    counts = dict.fromkeys(("trained", "in progress", "open"), 0)
    print(f"{'recipe':48} {'status':12} {'paper':>6} {'ours':>6} {'mean':>6}")
    for name in _matching(arguments.pattern):
        printed, ours, mean = paper_accuracy(name), "", ""
        here = status(name, arguments)
        if is_published(name, arguments):
            metrics = zoo.read_folder(zoo_folder(arguments) / name).metrics
            ours = f"{100 * metrics.accuracy.get('1.000', metrics.mean_accuracy):.2f}"
            mean = f"{100 * metrics.mean_accuracy:.2f}"
        counts[here] += 1
        note = "  (derived)" if ALL[name].transfer_from else ""
        paper = f"{printed.mean:.2f}" if printed else ""
        print(f"{name:48} {here:12} {paper:>6} {ours:>6} {mean:>6}{note}")
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 0
