"""From the options of a run to its plan, whether it is new, resumed or trained further."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from .. import PROGRAM
from ..budgets import EXACT, MORE, Plan, more_stage, plan_run, relatives
from ..options import RunOptions, Trial
from ..recipes import ALL, Recipe
from . import state
from .record import RunRecord
from .state import RECORD
from .workspace import Workspace


def run_command(name: str, *, seed: int, trial: Trial) -> str:
    """What to type to train a recipe, for messages."""
    words = [*trial.command_line(), *(["--seed", str(seed)] if seed else [])]
    return f"{PROGRAM} {shlex.join(['run', name, *words])}"


def finished_folder(recipe: Recipe, *, workspace: Workspace, seed: int, trial: Trial) -> Path:
    """The folder of a finished run; one that is only in the zoo is restored from there."""
    folder = workspace.run_folder(recipe.name, seed=seed)
    if workspace.run_record(recipe.name, seed=seed) is None and not state.exists(folder):
        workspace.restore_run(recipe.name, seed=seed)
    if workspace.run_record(recipe.name, seed=seed) is None:
        command = run_command(recipe.name.partition("@")[0], seed=seed, trial=trial)
        raise ValueError(
            f"`name` must be a finished run; there is none in {folder}. "
            f"`{command}` creates it. Received: name={recipe.name!r}."
        )
    return folder


def make_plan(
    recipe: Recipe, *, workspace: Workspace, options: RunOptions, saved: RunRecord | None
) -> Plan:
    """The plan of a run; one that was `saved` keeps the settings it was started with."""
    if saved is None:
        return _new_plan(recipe, workspace=workspace, options=options)
    plan = saved.plan(recipe)
    check_options(saved, workspace=workspace, options=options)
    if not saved.trained_further:
        relative = {(plan.warm_start or "").partition("@")[0]}
        now = _plan(recipe, options=options, finished=relative, dtype=plan.stages[0].dtype)
        if plan.stages != now.stages:
            print(
                f"{recipe.name}: the settings have changed; resuming with those it was started "
                "with."
            )
    return plan


def _new_plan(recipe: Recipe, *, workspace: Workspace, options: RunOptions) -> Plan:
    finished = workspace.finished(seed=options.seed)
    if options.trial.holdout:  # other networks have seen the validation images
        finished = {n for n in ALL if _has_holdout_run(n, workspace=workspace, options=options)}
    return new_plan(recipe, options=options, finished=finished)


def new_plan(recipe: Recipe, *, options: RunOptions, finished: set[str]) -> Plan:
    """The plan of a run that has not begun; `finished` are the networks that can lend weights."""
    source = recipe.transfer_from
    if source and source not in finished:
        raise ValueError(
            f"{recipe.name} is derived from {source}, which is not finished: "
            f"`{_relative_command(source, options)}` creates it."
        )
    finished = _initial_networks(recipe, options=options, finished=finished)
    plan = _plan(recipe, options=options, finished=finished, dtype=options.dtype)
    if options.trial.holdout and plan.warm_start:
        plan = dataclasses.replace(plan, warm_start=f"{plan.warm_start}@holdout")
    return plan


def _has_holdout_run(name: str, *, workspace: Workspace, options: RunOptions) -> bool:
    return (workspace.run_folder(f"{name}@holdout", seed=options.seed) / RECORD).exists()


def _relative_command(name: str, options: RunOptions) -> str:
    return run_command(name, seed=options.seed, trial=Trial(holdout=options.trial.holdout))


def _initial_networks(recipe: Recipe, *, options: RunOptions, finished: set[str]) -> set[str]:
    """The finished networks that may lend their weights; `--from` can leave one of them, or none.

    What is derived without training has its source, and the paper's budget starts from scratch.
    """
    name = options.start_from
    if name is None:
        return finished
    fixed = recipe.transfer_from or (options.budget == "paper" and "none")
    if name == fixed:
        return finished
    allowed = ["none", *relatives(recipe)]
    if fixed or name not in allowed:
        raise ValueError(
            f"`--from` must be {fixed or ' or '.join(allowed)} for {recipe.name} with "
            f"--budget {options.budget}. Received: {name}."
        )
    if name != "none" and name not in finished:
        raise ValueError(
            f"`--from` must be a finished network; `{_relative_command(name, options)}` creates "
            f"it. Received: {name}."
        )
    return finished & {name}


def _plan(recipe: Recipe, *, options: RunOptions, finished: set[str], dtype: str) -> Plan:
    if options.exact_phase is not None and options.trial:
        raise ValueError(
            "`--exact-phase` must be left out of a trial, which has `--then sampling_density=null` "
            f"for it. Received: {options.exact_phase}."
        )
    plan = plan_run(
        recipe,
        budget=options.budget,
        finished=finished,
        dtype=dtype,
        exact_phase=options.exact_phase,
    )
    return options.trial.apply_to(plan)


def further_record(recipe: Recipe, *, workspace: Workspace, options: RunOptions) -> RunRecord:
    """The record of a network of the zoo, with one more stage before it (`--more`)."""
    contradiction = options.trial or options.start_from or options.exact_phase
    if contradiction or not workspace.is_published(recipe.name) or recipe.transfer_from:
        raise ValueError(
            "`--more` continues a trained network of the zoo, with none of --from, "
            "--exact-phase, --holdout, --set and --then. "
            f"Received: --more {options.more:g} for {recipe.name}."
        )
    record = workspace.published_record(recipe.name)
    if record.seed != options.seed:
        raise ValueError(
            f"`--seed` must be {record.seed}, that of {recipe.name} in the zoo, to continue "
            f"it. Received: {options.seed}."
        )
    now = _plan(recipe, options=options, finished=set(), dtype=options.dtype).stages[-1]
    more = more_stage(
        record.stages[-1], epochs=options.more, window=now.config.window, dtype=options.dtype
    )
    return record.replace(
        ancestors=workspace.lineage(recipe.name, seed=options.seed)[1:],
        stages=(*record.stages, more),
        stage=len(record.stages),
        step=0,
    )


def check_options(record: RunRecord, *, workspace: Workspace, options: RunOptions) -> None:
    """Refuse options that contradict what a run was started with."""
    stages = record.stages
    last = stages[-1] if stages else None
    exact = (stage.epochs for stage in stages if stage.name == EXACT)
    started_with = {
        "budget": record.budget,
        "from": (record.warm_start or "none").partition("@")[0],
        "exact-phase": next(exact, None),
        "more": last.epochs if last and last.name == MORE else None,
    }
    given = {
        "budget": options.budget,
        "from": options.start_from,
        "exact-phase": options.exact_phase,
        "more": options.more,
    }
    if stages and options.precision != "auto":
        stage = last if started_with["more"] else stages[0]
        started_with["precision"], given["precision"] = stage.dtype, options.precision
    for name, value in started_with.items():
        if given[name] not in (None, value):
            folder = workspace.run_folder(record.name, seed=options.seed)
            again = "continue from the network of the zoo" if name == "more" else "start again"
            raise ValueError(
                f"`--{name}` must be {'left out' if value is None else value}, as when the run in "
                f"{folder} was started; or delete that folder to {again}. "
                f"Received: {given[name]}."
            )
