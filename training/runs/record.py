"""The record of a run, the same while it is trained, when it is finished and in the zoo.

`state.npz` holds it next to the weights of a run in progress, `run.json` is that of a finished run,
and `recipe.json` of a zoo folder is that of the run which made the network.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from gdn_keras.config import GaussDerNetConfig

from ..budgets import MORE, Plan, Stage
from ..recipes import Recipe

# field -> what it was called in files written before there was one name for it
_FORMER_NAMES = {"name": "recipe", "images_seen": "images"}


@dataclass(frozen=True, kw_only=True)
class Ancestor:
    """A network that a run's initial weights come from, in the state they were taken over."""

    name: str
    seed: int | None = None  # None: unknown
    images: int | None = None  # seen by then; None: unknown


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What a run was started with, how far it is, and what it took."""

    name: str  # of the recipe, or of a trial of it
    budget: str
    seed: int
    ancestors: tuple[Ancestor, ...] = ()  # the nearest first
    stages: tuple[Stage, ...] = ()
    stage: int = 0  # index of the current one; `len(stages)` after the last
    step: int = 0  # within that stage
    images_seen: int = 0
    seconds: float = 0.0
    # of finished runs
    statistics_images: int = 0  # over which the batch statistics were measured at the end
    cpu: str | None = None  # None: unknown
    versions: dict[str, str] = field(default_factory=dict)
    config: GaussDerNetConfig | None = None  # of the final network; a zoo folder has config.json

    @classmethod
    def start(cls, plan: Plan, *, seed: int, ancestors: tuple[Ancestor, ...] = ()) -> RunRecord:
        """The record of a run before its first step."""
        return cls(
            name=plan.recipe.name,
            budget=plan.budget,
            seed=seed,
            ancestors=ancestors,
            stages=plan.stages,
        )

    @property
    def lineage(self) -> tuple[str, ...]:
        """The names of the ancestors, the nearest first."""
        return tuple(ancestor.name for ancestor in self.ancestors)

    @property
    def warm_start(self) -> str | None:
        """The network that the weights were taken from; None: a run from scratch."""
        return self.lineage[0] if self.ancestors else None

    @property
    def trained_further(self) -> bool:
        """Whether a stage was added after the test accuracy was known (`--more`)."""
        return any(stage.name == MORE for stage in self.stages)

    def plan(self, recipe: Recipe) -> Plan:
        """The plan a run was started with, whatever the settings are by now."""
        return Plan(recipe, self.budget, self.warm_start, self.stages)

    def replace(self, **changes: Any) -> RunRecord:
        return dataclasses.replace(self, **changes)

    def describe_images(self) -> str:
        """How many images the network was trained on, including its ancestors, in words."""
        text = f"{self.images_seen:,} images"
        if not self.ancestors:
            return text
        whose = "its ancestor" if len(self.ancestors) == 1 else "its ancestors"
        images = [ancestor.images for ancestor in self.ancestors]
        if None in images:
            return f"{text} after those of {whose}"
        return f"{text} after {sum(images):,} of {whose}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; `lineage` is included because readers of a zoo folder need it."""
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        data["lineage"] = self.lineage
        data["ancestors"] = [dataclasses.asdict(ancestor) for ancestor in self.ancestors]
        data["stages"] = [stage.to_dict() for stage in self.stages]
        data["config"] = self.config and self.config.to_dict()
        return json.loads(json.dumps(data))  # as it is read back: lists, not tuples

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunRecord:
        """Older files have other names, and some only the name of the nearest ancestor."""
        data = data | {
            name: data[former]
            for name, former in _FORMER_NAMES.items()
            if former in data and name not in data
        }
        lineage = data.get("lineage", filter(None, [data.get("warm_start")]))
        ancestors = data.get("ancestors", [{"name": name} for name in lineage])
        stages = tuple(Stage.from_dict(stage) for stage in data.get("stages", ()))
        config = data.get("config")
        read = {
            "ancestors": tuple(Ancestor(**ancestor) for ancestor in ancestors),
            "stages": stages,
            "stage": data.get("stage", len(stages)),  # a zoo folder's is finished
            "config": config and GaussDerNetConfig.from_dict(config),
        }
        names = {f.name for f in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in names} | read)
