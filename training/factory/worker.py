"""One process of a sweep, which does one job after another: what `queue` does, without an order."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import platform
import tempfile
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..options import RunOptions
from ..publishing.comparison import Comparison
from ..runs import state
from ..runs.locking import RunIsLocked
from ..runs.logs import read_log
from ..runs.workspace import Workspace
from .schedule import DONE, FAILED, STOPPED, TRAIN, Job, Outcome
from .storage import LOGS, POLL_SECONDS, ZOO, Mirror, Storage

RECENT = 10  # rows of the log over which the speed is measured


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    host: str
    process: int
    gpus: str  # that the process may use
    images: int = 0  # trained on
    rate: float | None = None  # images per second
    problem: str = ""  # what is in the way


class Worker:
    """Does jobs; `progress` and `stop` are called from other threads meanwhile."""

    def __init__(self, storage: Storage, *, options: RunOptions, data: Path | None):
        self._storage, self._options, self._data = storage, options, data
        self._stop = threading.Event()
        self._folder: Path | None = None
        self._mirror: Mirror | None = None
        self._problem = ""

    def stop(self) -> None:
        """Let the job save and end."""
        self._stop.set()

    def progress(self) -> Progress:
        rows = read_log(self._folder)[-RECENT:] if self._folder else []
        rate = None
        if len(rows) > 1:
            seconds = float(rows[-1]["seconds"]) - float(rows[0]["seconds"])
            rate = (int(rows[-1]["images"]) - int(rows[0]["images"])) / max(seconds, 0.1)
        return Progress(
            host=platform.node(),
            process=os.getpid(),
            gpus=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
            images=int(rows[-1]["images"]) if rows else 0,
            rate=rate,
            problem=self._mirror.problem if self._mirror else self._problem,
        )

    def work(self, job: Job, *, comparison: Comparison | None = None) -> Outcome:
        """Do a job, when no other process is working on its run."""
        while True:
            try:
                with self._storage.lock(job.run):
                    return self._work(job, comparison=comparison)
            except RunIsLocked as error:
                self._problem = str(error)
            except Exception as error:  # a disk that is full, or without locks
                return _failure(error)
            if self._stop.wait(POLL_SECONDS):
                return Outcome(STOPPED)

    def _work(self, job: Job, *, comparison: Comparison | None) -> Outcome:
        """What it prints is kept in the storage, whatever happens."""
        self._problem = ""
        log = f"{LOGS}/{job.run}.{job.step}.log"
        with tempfile.TemporaryDirectory(prefix="gdn-keras-") as scratch:
            place = Path(scratch)
            (place / LOGS).mkdir()
            workspace = Workspace(runs=place, zoo=place / ZOO, data=self._data)
            folders = (job.run, f"{ZOO}/{job.recipe}", LOGS)
            try:
                (place / log).write_bytes(self._storage.read(log) or b"")  # of earlier attempts
                self._storage.fetch(job.run, into=place)
                self._mirror = Mirror(self._storage, place=place, folders=folders)
                self._folder = place / job.run if job.step == TRAIN else None
                with _printing_to(place / log), self._mirror:
                    outcome = self._try(job, workspace=workspace, comparison=comparison)
            except Exception as error:  # of the storage
                outcome = _failure(error)
            finally:
                self._folder = self._mirror = None
        return dataclasses.replace(outcome, log=self._storage / log)

    def _try(self, job: Job, *, workspace: Workspace, comparison: Comparison | None) -> Outcome:
        try:
            step = self._train if job.step == TRAIN else self._evaluate
            done = step(job, workspace=workspace, comparison=comparison)
            return Outcome(DONE if done else STOPPED)
        except Exception as error:  # whatever it is, the other runs go on
            traceback.print_exc()
            return _failure(error)
        finally:
            import keras

            keras.backend.clear_session()
            gc.collect()

    def _train(self, job: Job, *, workspace: Workspace, **_) -> bool:
        from ..commands import train_recipe

        options = self._options
        if job.source and not state.exists(workspace.runs / job.run):
            self._storage.fetch(f"{job.source}-seed{options.seed}", into=workspace.runs)
            self._storage.fetch(f"{ZOO}/{job.source}", into=workspace.runs)
        recipe = options.trial.recipe(job.recipe)
        return train_recipe(recipe, workspace=workspace, options=options, stop=self._stop.is_set)

    def _evaluate(self, job: Job, *, workspace: Workspace, comparison: Comparison) -> bool:
        from ..commands import evaluate_recipe, publish_recipe
        from ..recipes import get

        recipe, seed = get(job.recipe), self._options.seed
        how = {"workspace": workspace, "seed": seed}
        if evaluate_recipe(recipe, **how, mode="trained", stop=self._stop.is_set) is None:
            return False
        if job.publish:
            publish_recipe(recipe, **how, compare=lambda _: comparison)
        return True


def _failure(error: Exception) -> Outcome:
    """A process is used again only after errors that are made to be read."""
    broken = not isinstance(error, ValueError | OSError)
    return Outcome(FAILED, f"{type(error).__name__}: {error}", broken=broken)


@contextlib.contextmanager
def _printing_to(file: Path) -> Iterator[None]:
    with (
        open(file, "a", buffering=1) as stream,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
    ):
        yield
