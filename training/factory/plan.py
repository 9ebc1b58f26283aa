"""The jobs of a sweep: what has to be done, in which order, on what, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gdn_keras import datasets
from gdn_keras.utils.markdown import table

from ..costs import Cost, cost_of
from ..options import RunOptions, Trial
from ..recipes import Recipe
from ..runs.planning import new_plan
from ..runs.workspace import Workspace
from .schedule import EVALUATE, TRAIN, Job

# GFLOP of an image in training, forwards: a step of a smaller network is less than 20 ms of work
# for a GPU of 10 TFLOP/s, much of it for starting kernels. So four of them share a GPU.
SMALL_GFLOP = 2.0
SMALL_SHARE = 0.25


@dataclass(frozen=True)
class Finished:
    """What the storage has already."""

    runs: frozenset[str] = frozenset()  # folders of finished runs
    evaluated: frozenset[str] = frozenset()  # those of them that are evaluated completely
    published: frozenset[str] = frozenset()  # names of networks

    def names(self, *, options: RunOptions) -> set[str]:
        """The networks that can lend their weights."""
        suffix = f"{'@holdout' * options.trial.holdout}-seed{options.seed}"
        own = {run.removesuffix(suffix) for run in self.runs if run.endswith(suffix)}
        return own if options.trial.holdout else own | self.published


@dataclass(frozen=True)
class Row:
    """One recipe of the plan."""

    recipe: Recipe
    source: str | None
    cost: Cost | None
    jobs: tuple[Job, ...]  # that are left to do


@dataclass(frozen=True)
class SweepPlan:
    """All recipes in the order of what starts from what, and those left out, with the reason."""

    rows: tuple[Row, ...]
    left_out: dict[str, str]

    @property
    def jobs(self) -> list[Job]:
        return [job for row in self.rows for job in row.jobs]


def make_sweep_plan(
    recipes: Iterable[Recipe],
    *,
    options: RunOptions,
    finished: Finished,
    workspace: Workspace,
    gpus: float | None = None,
) -> SweepPlan:
    """Single scale channels first, then several, then what is derived without training.

    Args:
        recipes: those of the sweep.
        options: of every run.
        finished: is not done again.
        workspace: whose data folder must have the images; others are left out.
        gpus: of every run; None: one, or a share of one for small networks.
    """
    trial = options.trial
    lends = trial in (Trial(), Trial(holdout=True))  # other trials are never started from
    available = finished.names(options=options)
    rows, left_out, planned = [], {}, {}
    for recipe in sorted(recipes, key=_position):
        reason = _obstacle(recipe, options=options, available=available, data=workspace.data)
        if reason:
            left_out[recipe.name] = reason
            continue
        named = trial.recipe(recipe.name)
        plan = new_plan(named, options=options, finished=available - {recipe.name})
        cost, source = cost_of(plan), plan.warm_start
        run = workspace.run_folder(named.name, seed=options.seed).name
        share = gpus or _gpu_share(cost, options=options)
        jobs = []
        if run not in finished.runs:
            train = Job(
                recipe=recipe.name,
                step=TRAIN,
                run=run,
                after=(planned[source],) if source in planned else (),
                source=source,
                gpus=share if plan.stages else 0,
                gflop=cost.training if cost else 0.0,
                images=cost.images if cost else 0,
            )
            jobs.append(train)
            if lends:
                planned[named.name] = train.key
        publish = recipe.name not in finished.published
        if not trial and (publish or run not in finished.evaluated):
            evaluate = Job(
                recipe=recipe.name,
                step=EVALUATE,
                run=run,
                after=tuple(job.key for job in jobs),
                gpus=share,
                gflop=cost.evaluation if cost else 0.0,
                publish=publish,
            )
            jobs.append(evaluate)
        rows.append(Row(recipe, source, cost, tuple(jobs)))
        if lends:
            available = available | {recipe.name}
    return SweepPlan(tuple(rows), left_out)


def _obstacle(
    recipe: Recipe, *, options: RunOptions, available: set[str], data: Path | None
) -> str | None:
    """Why a recipe is left out."""
    source = recipe.transfer_from
    if source and options.trial:
        return "derived without training, so there is nothing to try"
    if source and source not in available:
        return f"derived from {source}, which is neither finished nor planned"
    try:
        datasets.get(recipe.dataset).check_files(data)
    except FileNotFoundError as error:
        return str(error)
    return None


def _position(recipe: Recipe) -> tuple[bool, bool, int]:
    config = recipe.config
    return bool(recipe.transfer_from), len(config.channel_sigmas) > 1, config.jet_order


def _gpu_share(cost: Cost | None, *, options: RunOptions) -> float:
    if options.devices > 1:
        return options.devices
    if cost is None:
        return 1.0
    gflop = cost.training / 3 / cost.images if cost.images else cost.gflop
    return SMALL_SHARE if gflop < SMALL_GFLOP else 1.0


def describe(plan: SweepPlan, *, tflops: float) -> str:
    """The plan in words, with hours of one device that computes `tflops` TFLOP/s."""

    def hours(gflop: float) -> float:
        return gflop / tflops / 3.6e6

    def numbers(cost: Cost | None) -> list[str]:
        if cost is None:
            return ["?"] * 5
        total = hours(cost.training + cost.evaluation)
        gflop = f"{cost.training:,.0f}", f"{cost.evaluation:,.0f}"
        return [f"{cost.gflop:.2f}", f"{cost.images:,}", *gflop, f"{total:.2f}"]

    header = ["recipe", "starts from", "to do", "GPUs", "GFLOP/image", "images"]
    header += ["training GFLOP", "evaluation GFLOP", "hours"]
    rows = []
    for row in plan.rows:
        steps = ", ".join(job.step for job in row.jobs) or "done"
        gpus = f"{max((job.gpus for job in row.jobs), default=0):g}"
        rows.append([row.recipe.name, row.source or "", steps, gpus, *numbers(row.cost)])
    lines = [table(header, rows=rows, align="lllrrrrrr", pad=True), ""]
    jobs, left = plan.jobs, sum(job.gflop for job in plan.jobs)
    lines.append(
        f"{len(jobs)} jobs for {len(plan.rows)} networks, {left / 1e9:.3g} EFLOP: "
        f"{hours(left):.1f} hours of one GPU that sustains {tflops:g} TFLOP/s."
    )
    unknown = [row.recipe.name for row in plan.rows if row.cost is None]
    if unknown:
        lines.append(f"Not in the sum, as the size of their data is unknown: {', '.join(unknown)}.")
    lines += [f"Left out: {name}: {reason}" for name, reason in plan.left_out.items()]
    return "\n".join(lines)
