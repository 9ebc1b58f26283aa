"""What the commands of `python -m training` do."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import sys
import time
from collections.abc import Callable

from gdn_keras import zoo
from gdn_keras.utils.files import replace_file

from . import CHECKOUT, PROGRAM
from .options import NO_TRIAL, RunOptions, Trial, auto_precision
from .publishing.comparison import Compare
from .recipes import ALL, RECIPES, Recipe, get
from .runs import locking, state
from .runs.planning import check_options, finished_folder, further_record, make_plan
from .runs.stopping import STOPPED, Stopping
from .runs.workspace import Workspace

RESUME_HINT = "run the same command to resume"
_MODE_LABELS = {
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


def run(name: str, *, workspace: Workspace, options: RunOptions) -> int:
    recipe = options.trial.recipe(name)
    with Stopping() as stop:
        done = train_recipe(recipe, workspace=workspace, options=options, stop=stop)
    print(f"{recipe.name}: {'finished' if done else f'stopped; {RESUME_HINT}'}")
    return 0 if done else STOPPED


def train_recipe(
    recipe: Recipe, *, workspace: Workspace, options: RunOptions, stop: Stopping
) -> bool:
    from . import devices

    devices.prepare(options.devices)
    main = devices.is_main()
    folder = workspace.run_folder(recipe.name, seed=options.seed)
    with locking.lock(folder) if main else contextlib.nullcontext():
        record = state.read_record(folder)
        if record is not None:
            check_options(record, workspace=workspace, options=options)
            return True
        saved = state.load(folder)
        if saved is None and options.more is not None:
            saved = further_record(recipe, workspace=workspace, options=options), None
        plan = make_plan(recipe, workspace=workspace, options=options, saved=saved and saved[0])
        from .trainer import Run, train  # after all checks: Keras takes seconds to load

        relative = None
        if saved is None and plan.warm_start:
            relative = workspace.load_finished(plan.warm_start, seed=options.seed)
        elif saved is not None and saved[1] is None:
            relative = workspace.load_finished(recipe.name, seed=options.seed)
        job = Run(
            plan,
            folder,
            seed=options.seed,
            data_dir=workspace.data,
            devices=options.devices,
            jit=options.jit,
            writes=main,
            ancestors=workspace.lineage(plan.warm_start, seed=options.seed),
        )
        stop = devices.stop_together(stop)
        return train(job, saved=saved, relative=relative, stop=stop)


def queue(
    names: list[str],
    *,
    workspace: Workspace,
    options: RunOptions,
    compare: Compare,
    hours: float | None = None,
    nice: int = 0,
) -> int:
    """Train, evaluate and publish, one recipe after another, until the time is up."""
    if nice:
        if not hasattr(os, "nice"):
            raise ValueError("`--nice` is not available on Windows.")
        os.nice(nice)
    seed = options.seed
    recipes = [get(name) for name in names or by_priority(workspace, seed=seed)]
    deadline = None if hours is None else time.time() + 3600 * hours
    failed, published = [], False
    with Stopping(deadline=deadline) as stop:
        for number, recipe in enumerate(recipes):
            try:
                if _is_due(recipe, workspace=workspace, seed=seed) and not stop():
                    left = _time_left(recipes[number:], workspace=workspace, options=options)
                    print(f"Queue: {left}", flush=True)
                    published |= _train_to_zoo(
                        recipe, workspace=workspace, options=options, compare=compare, stop=stop
                    )
                elif recipe.name in names and not stop():
                    print(
                        f"{recipe.name}: already published; delete its folders in "
                        f"{workspace.zoo} and {workspace.runs} to train it again"
                    )
            except locking.RunIsLocked as error:
                print(f"{recipe.name}: skipped. {error}")
            except (ValueError, OSError, RuntimeError) as error:
                print(f"{recipe.name}: {error}", file=sys.stderr)
                failed.append(recipe.name)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    if published:
        _advise(workspace)
    if stop():
        print(f"Stopped; {RESUME_HINT}.")
    return 1 if failed else STOPPED if stop.asked else 0


def _time_left(recipes: list[Recipe], *, workspace: Workspace, options: RunOptions) -> str:
    """How long the queue will take, estimated by what its networks cost."""
    from .costs import estimate_hours

    due = [r for r in recipes if _is_due(r, workspace=workspace, seed=options.seed)]
    estimates = estimate_hours(
        due,
        budget=options.budget,
        finished=workspace.finished(seed=options.seed),
        runs=workspace.runs,
        dtype=options.dtype,
    )
    hours = sum(hours for _, hours in estimates if hours is not None)
    return f"{len(due)} to train, about {hours:.1f} hours by their multiply-adds"


def _is_due(recipe: Recipe, *, workspace: Workspace, seed: int) -> bool:
    """Not published yet, or trained further since."""
    name = recipe.name
    in_progress = workspace.status(name, seed=seed) == "in progress"
    return in_progress or not workspace.is_published(name)


def _train_to_zoo(
    recipe: Recipe,
    *,
    workspace: Workspace,
    options: RunOptions,
    compare: Compare,
    stop: Stopping,
) -> bool:
    """Whether it is published now."""
    seed = options.seed
    if not train_recipe(recipe, workspace=workspace, options=options, stop=stop):
        return False
    if evaluate_recipe(recipe, workspace=workspace, seed=seed, mode="trained", stop=stop) is None:
        return False
    publish_recipe(recipe, workspace=workspace, seed=seed, compare=compare)
    return True


def by_priority(workspace: Workspace, *, seed: int) -> list[str]:
    """What is in progress, then the first checkpoints, then everything."""
    started = [n for n in RECIPES if workspace.status(n, seed=seed) == "in progress"]
    return list(dict.fromkeys([*started, *FIRST, *RECIPES]))


def evaluate(
    name: str,
    *,
    workspace: Workspace,
    seed: int,
    trial: Trial = NO_TRIAL,
    modes: tuple[str, ...] = ("trained",),
    limit: int | None = None,
) -> int:
    recipe = trial.recipe(name)
    if trial and not trial.holdout:
        raise ValueError(
            "A trial is measured on the validation split, never on the test set: it must have been "
            f"run with --holdout. Received: {' '.join(trial.changes + trial.then)} without it."
        )
    if limit is not None and not trial.holdout:
        raise ValueError(
            "The whole test set is measured; `--limit` needs --holdout. "
            f"Received: --limit {limit} without it."
        )
    with Stopping() as stop:
        for mode in modes:
            results = evaluate_recipe(
                recipe,
                workspace=workspace,
                seed=seed,
                trial=trial,
                mode=mode,
                limit=limit,
                stop=stop,
            )
            if results is None:
                print(f"{recipe.name}: stopped; {RESUME_HINT}")
                return STOPPED
            print(f"{recipe.name}, {_MODE_LABELS[mode]}:")
            for key, result in results.items():
                share = 100 * result.correct / result.images
                print(f"  {key:>6}  {share:6.2f} %  of {result.images:,}")
    return 0


def evaluate_recipe(
    recipe: Recipe,
    *,
    workspace: Workspace,
    seed: int,
    mode: str,
    stop: Callable[[], bool],
    trial: Trial = NO_TRIAL,
    limit: int | None = None,
):
    """The results of every size, None if it was stopped."""
    folder = finished_folder(recipe, workspace=workspace, seed=seed, trial=trial)
    from .publishing.measurement import measure_sizes

    with locking.lock(folder):
        return measure_sizes(
            workspace.load_finished(recipe.name, seed=seed),
            recipe=recipe,
            folder=folder,
            mode=mode,
            split="validation" if trial.holdout else "test",
            limit=limit,
            data_dir=workspace.data,
            stop=stop,
        )


def publish(name: str, *, workspace: Workspace, seed: int, compare: Compare) -> int:
    publish_recipe(get(name), workspace=workspace, seed=seed, compare=compare)
    _advise(workspace)
    return 0


def publish_recipe(recipe: Recipe, *, workspace: Workspace, seed: int, compare: Compare) -> None:
    folder = finished_folder(recipe, workspace=workspace, seed=seed, trial=NO_TRIAL)
    from .publishing.measurement import read_results
    from .publishing.publish import publish as write

    modes = {mode: read_results(recipe, folder=folder, mode=mode) for mode in ("exact", "matched")}
    if workspace.is_published(recipe.name):
        before = zoo.read_folder(workspace.zoo / recipe.name).metrics
        for mode, results in modes.items():
            if results is None and getattr(before, f"{mode}_accuracy"):
                raise ValueError(
                    f"{recipe.name} of the zoo has accuracies with {_MODE_LABELS[mode]}, which "
                    "must not be lost: "
                    f"`{PROGRAM} evaluate {recipe.name} --{mode}` measures the new ones."
                )
    written = write(
        recipe,
        model=workspace.load_finished(recipe.name, seed=seed),
        results=read_results(recipe, folder=folder),
        folder=folder,
        zoo_folder=workspace.zoo,
        ancestors=workspace.lineage(recipe.name, seed=seed)[1:],
        comparison=compare(recipe),
        **modes,
    )
    print(f"{recipe.name}: published, mean accuracy {100 * written.metrics.mean_accuracy:.2f} %")


def _advise(workspace: Workspace) -> None:
    """What is generated from the checkout's zoo is not updated by itself: people may edit it."""
    if workspace.is_checkout:
        commands = ", ".join(f"`{PROGRAM} {c}`" for c in ("results", "report", "gallery"))
        print(f"{commands} bring tables, report and gallery up to date.")


def cards(*, workspace: Workspace, compare: Compare) -> int:
    """Write the cards of all published networks again, after a change of the template."""
    from .publishing.card import card_of_folder

    for path in zoo.folders(workspace.zoo):
        recipe = get(path.name)
        folder = zoo.read_folder(path)
        text = card_of_folder(folder, recipe=recipe, comparison=compare(recipe))
        if text != folder.card:
            replace_file(path / zoo.CARD_FILE, content=text)
            print(f"updated: {path / zoo.CARD_FILE}")
    return 0


def results(*, check: bool = False) -> int:
    from gdn_keras.zoo.tables import update

    configurations = {name: (recipe.dataset, recipe.config) for name, recipe in RECIPES.items()}
    stale = update(CHECKOUT, configurations=configurations, check=check)
    for path in stale:
        print(f"{'stale' if check else 'updated'}: {path.relative_to(CHECKOUT)}")
    return int(check and bool(stale))


def matching(pattern: str) -> list[str]:
    """Recipes of a group, or whose name matches; the tiny ones only if they are asked for."""
    recipes = ALL if pattern.startswith("tiny") else RECIPES
    return [
        name
        for name, recipe in recipes.items()
        if recipe.group == pattern or fnmatch.fnmatchcase(name, pattern)
    ]


def list_recipes(pattern: str, *, workspace: Workspace, seed: int, compare: Compare) -> int:
    """Every recipe: status, the paper's number, ours."""
    counts = dict.fromkeys(("trained", "in progress", "open"), 0)
    print(f"{'recipe':48} {'status':12} {'paper':>6} {'ours':>6} {'mean':>6}")
    for name in matching(pattern):
        printed, ours, mean = compare(ALL[name]).accuracy, "", ""
        status = workspace.status(name, seed=seed)
        if workspace.is_published(name):
            metrics = zoo.read_folder(workspace.zoo / name).metrics
            ours = f"{100 * metrics.accuracy.get('1.000', metrics.mean_accuracy):.2f}"
            mean = f"{100 * metrics.mean_accuracy:.2f}"
        counts[status] += 1
        note = "  (derived)" if ALL[name].transfer_from else ""
        paper = f"{100 * printed:.2f}" if printed else ""
        print(f"{name:48} {status:12} {paper:>6} {ours:>6} {mean:>6}{note}")
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 0


def list_costs(pattern: str, *, workspace: Workspace, seed: int) -> int:
    """Every recipe with the cpu budget: GFLOP per image, images, hours; and the hours left."""
    from .costs import estimate_hours

    names = matching(pattern)
    estimates = estimate_hours(
        [ALL[name] for name in names],
        budget="cpu",
        finished=workspace.finished(seed=seed),
        runs=workspace.runs,
        dtype=auto_precision("cpu"),
    )
    print(f"{'recipe':48} {'status':12} {'GFLOP/image':>11} {'images':>10} {'hours':>6}")
    left, unknown = 0.0, 0
    for name, (cost, hours) in zip(names, estimates, strict=True):
        status = workspace.status(name, seed=seed)
        if cost is None:
            row, unknown = f"{'?':>11} {'?':>10} {'?':>6}", unknown + (status != "trained")
        else:
            row = f"{cost.gflop:11.2f} {cost.images:10,} {hours:6.2f}"
            left += hours * (status != "trained")
        print(f"{name:48} {status:12} {row}")
    print(
        f"Left: {left:.1f} hours of training and evaluation"
        + f", and {unknown} networks whose data sets are unknown" * (unknown > 0)
    )
    return 0
