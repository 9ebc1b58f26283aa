"""`python -m training sweep`: from a pattern of recipes to networks in a storage."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import CHECKOUT
from ..commands import RESUME_HINT, matching
from ..options import RunOptions
from ..publishing.comparison import Compare
from ..recipes import ALL, RECIPES, Recipe
from ..runs.stopping import STOPPED
from ..runs.workspace import Workspace

README, TABLE_PAGE = "README.md", "docs/networks.md"
Report = Callable[[Workspace, Path], None]  # writes a report on a workspace into a folder


def sweep(
    pattern: str | None,
    *,
    workspace: Workspace,
    options: RunOptions,
    compare: Compare,
    report: Report,
    storage: str | None = None,
    address: str | None = None,
    workers: int | None = None,
    cpus: int = 1,
    gpus: float | None = None,
    tflops: float = 10.0,
    dry_run: bool = False,
) -> int:
    """Train, evaluate and publish recipes on a cluster; with `dry_run`, only print the plan.

    Args:
        pattern: a group or a pattern of names; None: all recipes.
        workspace: where the data are.
        options: of every run.
        compare: the paper's accuracies.
        report: is called at the end, for the published networks.
        storage: a folder or a URL; default: the folder of the runs.
        address: of a Ray cluster; default: a new one of this machine.
        workers: the largest number of jobs at a time; default: as many as there is room for.
        cpus: of each job.
        gpus: of each job; default: one, or a share of one for small networks.
        tflops: speed of a GPU, for the hours in the plan.
        dry_run: do nothing.
    """
    recipes = _chosen(pattern)
    for name, value in (("workers", workers), ("cpus", cpus), ("gpus", gpus), ("rate", tflops)):
        if value is not None and value <= 0:
            raise ValueError(f"`--{name}` must be positive. Received: {value:g}.")
    from .plan import describe, make_sweep_plan  # Keras takes seconds to load
    from .storage import Storage

    place = Storage.locate(storage or workspace.runs)
    plan = make_sweep_plan(
        recipes, options=options, finished=_finished(place), workspace=workspace, gpus=gpus
    )
    if dry_run:
        print(describe(plan, tflops=tflops))
        return 0
    for name, reason in plan.left_out.items():
        print(f"{name:48} left out: {reason}")
    from .cluster import Setup, connect, run_jobs
    from .schedule import Schedule
    from .table import LiveTable, summary

    schedule, stopped = Schedule(plan.jobs), False
    if schedule.waiting:
        data = workspace.data and workspace.data.absolute()
        setup = Setup(storage=place, options=options, data=data, cpus=cpus)
        connect(address)
        try:
            table = LiveTable()
            how = {"workers": workers, "compare": compare, "table": table}
            stopped = run_jobs(schedule, setup=setup, **how)
        finally:
            import ray

            ray.shutdown()  # ends all processes
    if not stopped and not options.trial and _published(place):
        write_results(place, report=report)
    print(summary(schedule, {}))
    for (step, name), outcome in schedule.failed.items():
        print(f"{name:48} {step} failed: {outcome.message}, see {outcome.log}")
    for name, source in schedule.blocked().items():
        print(f"{name:48} waits for {source}, which failed")
    if stopped:
        print(f"Stopped; {RESUME_HINT}.")
    return STOPPED if stopped else 1 if schedule.failed else 0


def _chosen(pattern: str | None) -> list[Recipe]:
    names = list(RECIPES) if pattern is None else matching(pattern)
    if not names:
        groups = sorted({recipe.group for recipe in RECIPES.values()})
        raise ValueError(
            f"`group` must be one of {', '.join(groups)}, or a pattern that matches names of "
            f"recipes. Received: {pattern!r}."
        )
    return [ALL[name] for name in names]


def _finished(storage):
    """What the storage has already."""
    from ..publishing.measurement import EVALUATION, test_sizes
    from ..runs.state import RECORD
    from .plan import Finished

    runs = storage.folders_with(RECORD)
    evaluated = set()
    for run in runs & storage.folders_with(EVALUATION):
        recipe = ALL.get(run.rpartition("-seed")[0])
        sizes = json.loads(storage.read(f"{run}/{EVALUATION}"))
        if recipe and sizes.keys() >= test_sizes(recipe).keys():
            evaluated.add(run)
    return Finished(frozenset(runs), frozenset(evaluated), frozenset(_published(storage)))


def _published(storage) -> set[str]:
    from gdn_keras import zoo

    from .storage import ZOO

    return storage.folders_with(zoo.CARD_FILE, under=ZOO)


def write_results(storage, *, report: Report) -> None:
    """Registry, tables and report of the networks in a storage, laid out as in the checkout."""
    from gdn_keras.zoo.registry import REGISTRY_FILE
    from gdn_keras.zoo.tables import RESULTS_FILE, update

    from .storage import ZOO

    with tempfile.TemporaryDirectory(prefix="gdn-keras-") as scratch:
        root = Path(scratch)
        (root / "docs").mkdir()
        for page in (README, TABLE_PAGE):  # whose tables are replaced
            shutil.copyfile(CHECKOUT / page, root / page)
        storage.fetch(ZOO, into=root)
        update(root, configurations={n: (r.dataset, r.config) for n, r in RECIPES.items()})
        report(Workspace(runs=root / "runs", zoo=root / ZOO), root / "docs")
        files = [README, f"{ZOO}/{REGISTRY_FILE}", f"{ZOO}/{RESULTS_FILE}"]
        pages = [p for p in (root / "docs").rglob("*") if p.is_file()]
        for name in (*files, *(str(path.relative_to(root)) for path in pages)):
            storage.write(name, (root / name).read_bytes())
    print(f"Tables and report: {storage / README}, {storage / 'docs'}")
