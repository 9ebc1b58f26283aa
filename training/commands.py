"""What the commands of `python -m training` do."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import sys
import time
from pathlib import Path

from gdn_keras import zoo
from gdn_keras.datasets.raw import ENVIRONMENT_VARIABLE
from training import CHECKOUT, state
from training.comparison import Compare
from training.recipes import ALL, RECIPES, Recipe, get
from training.runs import (
    all_runs,
    ancestors,
    auto_precision,
    check_options,
    chosen_recipe,
    finished_folder,
    is_finished,
    is_published,
    load_finished,
    make_plan,
    precision,
    published_to_go_on,
    read_record,
    run_folder,
    status,
    trial_options,
    zoo_folder,
)
from training.stopping import STOPPED, Stopping

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
    recipe = chosen_recipe(arguments.name, arguments)
    with Stopping() as stop:
        done = _train(recipe, arguments, stop)
    print(f"{recipe.name}: {'finished' if done else 'stopped; the same command goes on'}")
    return 0 if done else STOPPED


def _train(recipe: Recipe, arguments, stop: Stopping) -> bool:
    from training import devices

    devices.prepare(arguments.devices)
    main = devices.is_main()
    folder = run_folder(recipe.name, arguments)
    with state.lock(folder) if main else contextlib.nullcontext():
        record = read_record(folder)
        if record is not None:
            check_options(record, arguments)
            return True
        saved = state.load(folder)
        if saved is None and getattr(arguments, "more", None) is not None:
            saved = published_to_go_on(recipe, arguments), None
        plan = make_plan(recipe, arguments, begun=saved and saved[0])
        from training.trainer import Run, train  # after all checks: Keras takes seconds to load

        relative = None
        if saved is None and plan.warm_start:
            relative = load_finished(plan.warm_start, arguments)
        elif saved is not None and saved[1] is None:
            relative = load_finished(recipe.name, arguments)
        job = Run(
            plan,
            folder,
            seed=arguments.seed,
            data_dir=arguments.data and Path(arguments.data),
            devices=arguments.devices,
            jit=arguments.jit,
            writes=main,
            ancestors=tuple(ancestors(plan.warm_start, arguments)),
        )
        stop = devices.stop_together(stop)
        return train(job, saved=saved, relative=relative, stop=stop)


def queue(arguments, compare: Compare) -> int:
    """Train, evaluate and publish, one recipe after another, until the time is up."""
    os.nice(arguments.nice)
    recipes = [get(name) for name in arguments.names or _by_priority(arguments)]
    deadline = None if arguments.hours is None else time.time() + 3600 * arguments.hours
    failed, published = [], False
    with Stopping(deadline=deadline) as stop:
        for number, recipe in enumerate(recipes):
            try:
                if _is_due(recipe, arguments) and not stop():
                    print(f"Queue: {_time_left(recipes[number:], arguments)}", flush=True)
                    published |= _train_to_zoo(recipe, arguments, compare, stop)
                elif recipe.name in arguments.names and not stop():
                    print(
                        f"{recipe.name}: published already; delete its folders in "
                        f"{zoo_folder(arguments)} and {all_runs(arguments)} to train it again"
                    )
            except state.RunIsLocked as error:
                print(f"{recipe.name}: left out. {error}")
            except (ValueError, OSError, RuntimeError) as error:
                print(f"{recipe.name}: {error}", file=sys.stderr)
                failed.append(recipe.name)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    if published:
        _advise(arguments)
    if stop():
        print("Stopped; the same command goes on.")
    return 1 if failed else STOPPED if stop.asked else 0


def _time_left(recipes: list[Recipe], arguments) -> str:
    """How long the queue will take, by what its networks cost; empty if nothing is left."""
    from training.costs import estimate_hours

    open_ = [recipe for recipe in recipes if _is_due(recipe, arguments)]
    if not open_:
        return ""
    finished = {name for name in ALL if is_finished(name, arguments)}
    rates = {"runs": all_runs(arguments), "dtype": precision(arguments)}
    estimates = estimate_hours(open_, budget=arguments.budget, finished=finished, **rates)
    known = [hours for _, hours in estimates if hours is not None]
    return f"{len(open_)} to train, about {sum(known):.1f} hours by their multiply-adds"


def _is_due(recipe: Recipe, arguments) -> bool:
    """Not published yet, or trained further since."""
    name = recipe.name
    return status(name, arguments) == "in progress" or not is_published(name, arguments)


def _train_to_zoo(recipe: Recipe, arguments, compare: Compare, stop: Stopping) -> bool:
    """Whether it is published now."""
    if not _train(recipe, arguments, stop):
        return False
    if _evaluate(recipe, arguments, way="trained", stop=stop) is None:
        return False
    _publish(recipe, arguments, compare)
    return True


def _by_priority(arguments) -> list[str]:
    """What is in progress, then the first checkpoints, then everything."""
    begun = [name for name in RECIPES if status(name, arguments) == "in progress"]
    return list(dict.fromkeys([*begun, *FIRST, *RECIPES]))


def evaluate(arguments) -> int:
    recipe = chosen_recipe(arguments.name, arguments)
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
    folder = finished_folder(recipe.name, arguments)
    from training.evaluate import evaluate as measure_all

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


def publish(arguments, compare: Compare) -> int:
    _publish(get(arguments.name), arguments, compare)
    _advise(arguments)
    return 0


def _publish(recipe: Recipe, arguments, compare: Compare) -> None:
    folder = finished_folder(recipe.name, arguments)
    from training.evaluate import read_results
    from training.publish import publish as write

    ways = {way: read_results(recipe, folder, way=way) for way in ("exact", "matched")}
    if is_published(recipe.name, arguments):
        before = zoo.read_folder(zoo_folder(arguments) / recipe.name).metrics
        for way, results in ways.items():
            if results is None and getattr(before, f"{way}_accuracy"):
                raise ValueError(
                    f"{recipe.name} of the zoo has accuracies with {_WAY_WORDS[way]}, which must "
                    "not be lost: "
                    f"`python -m training evaluate {recipe.name} --{way}` measures the new ones."
                )
    written = write(
        recipe,
        load_finished(recipe.name, arguments),
        read_results(recipe, folder),
        folder,
        zoo_folder=zoo_folder(arguments),
        ancestors=ancestors(recipe.name, arguments)[1:],
        comparison=compare(recipe),
        **ways,
    )
    print(f"{recipe.name}: published, mean accuracy {100 * written.metrics.mean_accuracy:.2f} %")


def _advise(arguments) -> None:
    """What is made from the checkout's zoo is not written on the way: people may work on it."""
    if not arguments.zoo:
        commands = ", ".join(f"`python -m training {c}`" for c in ("results", "report", "gallery"))
        print(f"{commands} bring tables, report and gallery up to date.")


def results(arguments) -> int:
    from gdn_keras.zoo.tables import update

    configurations = {name: (recipe.dataset, recipe.config) for name, recipe in RECIPES.items()}
    stale = update(CHECKOUT, configurations=configurations, check=arguments.check)
    for path in stale:
        print(f"{'stale' if arguments.check else 'updated'}: {path.relative_to(CHECKOUT)}")
    return int(arguments.check and bool(stale))


def sweep(arguments) -> int:
    from training.sweep import Task, run_sweep

    names = [name for name in _matching(arguments.group) if not ALL[name].transfer_from]
    if not names:
        groups = sorted({recipe.group for recipe in RECIPES.values()})
        raise ValueError(
            f"`group` must be one of {', '.join(groups)}, or a pattern that matches names of "
            f"recipes. Received: {arguments.group!r}."
        )
    if arguments.workers < 1:
        raise ValueError(f"`--workers` must be positive. Received: {arguments.workers}.")
    tasks = []
    for name in names:
        folder = run_folder(chosen_recipe(name, arguments).name, arguments)
        tasks.append(Task(name, _run_words(name, arguments), folder.absolute()))
    outcomes = set(run_sweep(tasks, arguments).values())
    if "stopped" in outcomes:
        print("Stopped; the same command goes on.")
    return 1 if outcomes - {"finished", "stopped"} else STOPPED if "stopped" in outcomes else 0


def _run_words(name: str, arguments) -> list[str]:
    """The command that trains one recipe of a sweep, the same on every node."""
    words = [sys.executable, "-m", "training", "run", name, *trial_options(arguments)]
    for option in ("seed", "budget", "precision", "devices"):
        words += [f"--{option}", str(getattr(arguments, option))]
    for option, value in (("from", arguments.start), ("exact-phase", arguments.exact_phase)):
        words += [f"--{option}", str(value)] if value is not None else []
    places = {
        "runs": all_runs(arguments),
        "data": arguments.data or os.environ.get(ENVIRONMENT_VARIABLE),
        "zoo": arguments.zoo,
    }
    for option, place in places.items():
        if place:
            words += [f"--{option}", str(Path(place).absolute())]
    return words + ["--jit"] * arguments.jit


def _matching(pattern: str) -> list[str]:
    """Recipes of a group, or whose name matches; the tiny ones only if they are asked for."""
    recipes = ALL if pattern.startswith("tiny") else RECIPES
    return [
        name
        for name, recipe in recipes.items()
        if recipe.group == pattern or fnmatch.fnmatchcase(name, pattern)
    ]


def list_recipes(arguments, compare: Compare) -> int:
    """Every recipe: status, the paper's number, ours; or what it costs."""
    if arguments.cost:
        return _list_costs(arguments)

    counts = dict.fromkeys(("trained", "in progress", "open"), 0)
    print(f"{'recipe':48} {'status':12} {'paper':>6} {'ours':>6} {'mean':>6}")
    for name in _matching(arguments.pattern):
        printed, ours, mean = compare(ALL[name]).accuracy, "", ""
        here = status(name, arguments)
        if is_published(name, arguments):
            metrics = zoo.read_folder(zoo_folder(arguments) / name).metrics
            ours = f"{100 * metrics.accuracy.get('1.000', metrics.mean_accuracy):.2f}"
            mean = f"{100 * metrics.mean_accuracy:.2f}"
        counts[here] += 1
        note = "  (derived)" if ALL[name].transfer_from else ""
        paper = f"{100 * printed:.2f}" if printed else ""
        print(f"{name:48} {here:12} {paper:>6} {ours:>6} {mean:>6}{note}")
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 0


def _list_costs(arguments) -> int:
    """Every recipe with the cpu budget: GFLOP per image, images, hours; and what is left in all."""
    from training.costs import estimate_hours

    names = _matching(arguments.pattern)
    finished = {name for name in ALL if is_finished(name, arguments)}
    estimates = estimate_hours(
        [ALL[name] for name in names],
        budget="cpu",
        finished=finished,
        runs=all_runs(arguments),
        dtype=auto_precision("cpu"),
    )
    print(f"{'recipe':48} {'status':12} {'GFLOP/image':>11} {'images':>10} {'hours':>6}")
    left, unknown = 0.0, 0
    for name, (cost, hours) in zip(names, estimates, strict=True):
        here = status(name, arguments)
        if cost is None:
            row, unknown = f"{'?':>11} {'?':>10} {'?':>6}", unknown + (here != "trained")
        else:
            row = f"{cost.gflop:11.2f} {cost.images:10,} {hours:6.2f}"
            left += hours * (here != "trained")
        print(f"{name:48} {here:12} {row}")
    print(
        f"Left: {left:.1f} hours of training and evaluation"
        + f", and {unknown} networks whose data sets are not known here" * (unknown > 0)
    )
    return 0
