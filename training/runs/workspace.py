"""The folders that training works in, and what is in them: runs, and networks of the zoo."""

from __future__ import annotations

import filecmp
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gdn_keras import zoo
from gdn_keras.utils.files import replace_file
from gdn_keras.zoo.folder import WEIGHTS_FILE
from gdn_keras.zoo.registry import checkout

from .. import CHECKOUT
from ..recipes import ALL
from . import state
from .record import Ancestor, RunRecord
from .state import RECORD, WEIGHTS, read_record

if TYPE_CHECKING:
    from gdn_keras.model import GaussDerNet

RESTORED = "restored"  # an empty file in the folder of a run that is a copy of one in the zoo


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Where runs, networks and data sets are."""

    runs: Path  # one folder per run, NAME-seedN
    zoo: Path  # one folder per published network
    data: Path | None = None  # None: the folder in GDN_KERAS_DATA

    @classmethod
    def locate(
        cls, *, runs: str | None = None, zoo: str | None = None, data_dir: str | None = None
    ) -> Workspace:
        """The given folders; otherwise GDN_KERAS_RUNS or a folder in the user's cache, and zoo/.

        An installed package has no zoo/ that could be written to: then that of the current folder.
        """
        cache = Path.home() / ".cache" / "gdn_keras" / "runs"
        return cls(
            runs=Path(runs or os.environ.get("GDN_KERAS_RUNS") or cache).expanduser(),
            zoo=Path(zoo or (CHECKOUT if checkout() else "") / Path("zoo")).expanduser(),
            data=Path(data_dir) if data_dir else None,
        )

    @property
    def is_checkout(self) -> bool:
        """Whether the zoo is that of the checkout, which has tables, a report and a gallery."""
        return self.zoo == CHECKOUT / "zoo"

    def run_folder(self, name: str, *, seed: int) -> Path:
        return self.runs / f"{name}-seed{seed}"

    def is_published(self, name: str) -> bool:
        return (self.zoo / name / zoo.CARD_FILE).exists()

    def is_finished(self, name: str, *, seed: int) -> bool:
        """Whether there are weights, of a run or in the zoo."""
        return self.is_published(name) or (self.run_folder(name, seed=seed) / RECORD).exists()

    def finished(self, *, seed: int) -> set[str]:
        """The names of all recipes that are finished."""
        return {name for name in ALL if self.is_finished(name, seed=seed)}

    def status(self, name: str, *, seed: int) -> str:
        """trained, in progress (perhaps trained further) or open."""
        record = self.run_record(name, seed=seed)
        if record is None and state.exists(self.run_folder(name, seed=seed)):
            return "in progress"
        if record is not None and self.is_published(name):
            published = self.published_record(name)
            if published.seed == record.seed and published.images_seen < record.images_seen:
                return "in progress"  # trained further, but not yet measured and published again
        return "trained" if self.is_finished(name, seed=seed) else "open"

    def published_record(self, name: str) -> RunRecord:
        """The record of the run behind a network of the zoo."""
        return RunRecord.from_dict(
            json.loads((self.zoo / name / zoo.RECIPE_FILE).read_text(encoding="utf-8"))
        )

    def run_record(self, name: str, *, seed: int) -> RunRecord | None:
        """The record of a finished run; None also for a copy of weights that the zoo had once."""
        folder = self.run_folder(name, seed=seed)
        if (folder / RESTORED).exists() and self.is_published(name):
            published = self.zoo / name / WEIGHTS_FILE
            if not filecmp.cmp(folder / WEIGHTS, published, shallow=False):
                return None
        return read_record(folder)

    def record(self, name: str, *, seed: int) -> RunRecord | None:
        """The record of a finished run or else of the zoo; None if there is neither."""
        record = self.run_record(name, seed=seed)
        if record is None and self.is_published(name):
            record = self.published_record(name)
        return record

    def lineage(self, name: str | None, *, seed: int) -> tuple[Ancestor, ...]:
        """A finished network and those it started from, the nearest first."""
        if name is None:
            return ()
        record = self.record(name, seed=seed)
        if record is None:
            return (Ancestor(name=name),)
        ancestors = record.ancestors
        if ancestors and ancestors[0].seed is None:  # recorded when only names were
            ancestors = self.lineage(ancestors[0].name, seed=seed)
        own = Ancestor(name=name, seed=record.seed, images=record.images_seen)
        return (own, *(self._with_images(ancestor, seed=seed) for ancestor in ancestors))

    def _with_images(self, ancestor: Ancestor, *, seed: int) -> Ancestor:
        """Recorded when only names and seeds were: the ancestor's own record has the rest."""
        if ancestor.images is not None:
            return ancestor
        record = self.record(ancestor.name, seed=seed)
        if record is None or record.seed != ancestor.seed:
            return ancestor
        return replace(ancestor, images=record.images_seen)

    def restore_run(self, name: str, *, seed: int) -> None:
        """Write the run behind a network of the zoo, as far as its folder there has kept it."""
        record = self.published_record(name) if self.is_published(name) else None
        if record is None or record.seed != seed:
            return
        published = zoo.read_folder(self.zoo / name)
        folder = self.run_folder(name, seed=seed)
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.glob("*.json"):  # the record and the accuracies of other weights
            file.unlink()
        replace_file(folder / WEIGHTS, content=published.weights_file.read_bytes())
        (folder / RESTORED).touch()
        ancestors = self.lineage(name, seed=seed)[1:]
        state.write_record(folder, record.replace(ancestors=ancestors, config=published.config))

    def load_finished(self, name: str, *, seed: int) -> GaussDerNet:
        """The network of a finished run, or of the zoo."""
        from gdn_keras.model import build_model
        from gdn_keras.zoo.weights import assign_weights, read_weights

        folder = self.run_folder(name, seed=seed)
        record = self.run_record(name, seed=seed)
        if record is None:
            return zoo.load(self.zoo / name)
        model = build_model(record.config, dtype="float32")
        assign_weights(model, read_weights(folder / WEIGHTS), source=str(folder / WEIGHTS))
        return model
