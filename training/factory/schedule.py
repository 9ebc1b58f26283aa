"""Which jobs of a sweep wait, run, are done or have failed; knows nothing of processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

TRAIN, EVALUATE = "train", "evaluate"  # the steps of a recipe
ATTEMPTS = 3  # a job that has failed this often is set aside
DONE, STOPPED, FAILED, LOST = "done", "stopped", "failed", "lost"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A part of a sweep that one process does: train a recipe, or evaluate and publish it."""

    recipe: str
    step: str  # TRAIN or EVALUATE
    run: str  # name of the run's folder
    after: tuple[tuple[str, str], ...] = ()  # keys of the jobs that must be done before
    source: str | None = None  # the network that a new run takes its weights from
    gpus: float = 1.0  # a share, or a number of them
    gflop: float = 0.0
    images: int = 0  # in training
    publish: bool = False  # what is evaluated

    @property
    def key(self) -> tuple[str, str]:
        return self.step, self.recipe


@dataclass(frozen=True)
class Outcome:
    """How an attempt at a job ended."""

    kind: str  # DONE, STOPPED, FAILED, or LOST: its machine is gone, which is not its own fault
    message: str = ""  # of a failure
    log: str = ""  # where its output is
    broken: bool = False  # whether the process should not be used again


@dataclass
class Schedule:
    """The state of a sweep."""

    waiting: list[Job]
    running: list[Job] = field(default_factory=list)
    done: list[Job] = field(default_factory=list)
    failed: dict[tuple[str, str], Outcome] = field(default_factory=dict)  # set aside
    _failures: Counter = field(default_factory=Counter)

    def ready(self) -> list[Job]:
        """The jobs whose turn it may be, the longest first."""
        open_jobs = {job.key for job in (*self.waiting, *self.running)} | self.failed.keys()
        ready = [job for job in self.waiting if not open_jobs & set(job.after)]
        return sorted(ready, key=lambda job: -job.gflop)

    def blocked(self) -> dict[str, str]:
        """Recipes that wait for one that has been set aside, and its name."""
        names = {name for _, name in self.failed}
        found: dict[str, str] = {}
        for job in self.waiting:  # in the order of what starts from what
            for _, name in job.after:
                if name in names or name in found:
                    found.setdefault(job.recipe, found.get(name, name))
        return {name: why for name, why in found.items() if name not in names}

    def start(self, job: Job) -> None:
        self.waiting.remove(job)
        self.running.append(job)

    def end(self, job: Job, outcome: Outcome) -> bool:
        """Note how an attempt ended; returns whether the job is tried no more."""
        self.running.remove(job)
        if outcome.kind == DONE:
            self.done.append(job)
            return True
        self._failures[job.key] += outcome.kind == FAILED
        if self._failures[job.key] >= ATTEMPTS:
            self.failed[job.key] = outcome
            return True
        self.waiting.append(job)
        return False
