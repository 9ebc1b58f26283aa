"""What a run is asked for: budget, precision, devices and, in a trial, changes to the recipe."""

from __future__ import annotations

import dataclasses
import json
import re
import urllib.parse
from dataclasses import dataclass
from typing import Any

from gdn_keras.utils.cpu import prefers_bfloat16

from .budgets import Plan, Stage
from .devices import gpu_precision
from .recipes import Recipe, get

# of a network's config, what a trial may change
SAMPLING = ("channel_sigmas", "sampling_density", "reach", "window")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Changes to a recipe that are tried, but never published; false if there are none."""

    holdout: bool = False  # train without the validation split
    changes: tuple[str, ...] = ()  # FIELD=VALUE, of the last stage
    then: tuple[str, ...] = ()  # FIELD=VALUE, of one more stage

    def __bool__(self) -> bool:
        return self != NO_TRIAL

    def recipe(self, name: str) -> Recipe:
        """The recipe called `name`, or the trial of it.

        A trial has another name, so that it never mixes with the real run.
        """
        recipe = get(name)
        if not self:
            return recipe
        changes = (*self.changes, *("then",) * bool(self.then), *self.then)
        words = ["holdout"] * self.holdout + list(map(_file_name_part, changes))
        split = "train" if self.holdout else recipe.train_split
        name = f"{recipe.name}@{'-'.join(words)}"
        return dataclasses.replace(recipe, name=name, train_split=split)

    def apply_to(self, plan: Plan) -> Plan:
        """The plan with the changes to its stages."""
        if (self.changes or self.then) and not plan.stages:
            raise ValueError(
                f"`--set` changes training, and {plan.recipe.name} is derived without any."
            )
        stages = plan.stages
        if self.changes:
            stages = (*stages[:-1], _changed(stages[-1], self.changes))
        if self.then:
            stages = (*stages, dataclasses.replace(_changed(stages[-1], self.then), name="then"))
        return dataclasses.replace(plan, stages=stages)

    def command_line(self) -> list[str]:
        """The options that describe it."""
        words = ["--holdout"] * self.holdout
        for option, changes in (("--set", self.changes), ("--then", self.then)):
            for change in changes:
                words += [option, change]
        return words


NO_TRIAL = Trial()


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a recipe is trained."""

    seed: int = 0
    budget: str = "cpu"
    precision: str = "auto"  # or a dtype policy of Keras
    devices: int = 1  # that share every batch
    jit: bool | None = None  # compile the step with XLA; None: where it helps
    start_from: str | None = None  # a finished relative, or "none"; None: the nearest one
    exact_phase: float | None = None  # epochs on every pixel at the end of the cpu budget
    more: float | None = None  # epochs that a network of the zoo is trained further
    trial: Trial = NO_TRIAL

    @property
    def dtype(self) -> str:
        """`precision`, or what suits the machine."""
        return auto_precision(self.budget) if self.precision == "auto" else self.precision


def auto_precision(budget: str) -> str:
    """What suits this machine: its CPU for the cpu budget, otherwise its GPU."""
    if budget == "paper":
        return gpu_precision()
    return "mixed_bfloat16" if prefers_bfloat16() else "float32"


def _file_name_part(change: str) -> str:
    """A change as part of a file name: `channel_sigmas=[1, 2]` is channel_sigmas1,2."""
    return urllib.parse.quote(re.sub(r'[\s"\[\]=]', "", change), safe="+,")


def _changed(stage: Stage, changes: tuple[str, ...]) -> Stage:
    parsed = _parsed(changes)
    sampling = {name: parsed.pop(name) for name in SAMPLING if name in parsed}
    return dataclasses.replace(stage, config=stage.config.replace(**sampling), **parsed)


def _parsed(changes: tuple[str, ...]) -> dict[str, Any]:
    own = {field.name for field in dataclasses.fields(Stage)} - {"name", "config"}
    names = sorted(own | set(SAMPLING))
    parsed = {}
    for change in changes:
        name, _, text = change.partition("=")
        if name not in names:
            raise ValueError(f"`--set` must be FIELD=VALUE, one of {names}. Received: {change!r}.")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        parsed[name] = tuple(value) if isinstance(value, list) else value
    return parsed
