"""The processes of a sweep, on a Ray cluster or on a new one of this machine.

A process is an actor of Ray: it holds its share of a machine, does one job after another, and can
be asked how far it is, or to save and stop. One that dies takes only its own job with it, which is
continued by another from the last state in the storage.
"""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training import CHECKOUT
from training.comparison import Compare
from training.factory.schedule import (
    EVALUATE,
    FAILED,
    LOST,
    STOPPED,
    Job,
    Outcome,
    Schedule,
)
from training.factory.storage import Storage
from training.factory.worker import Progress, Worker
from training.options import RunOptions
from training.recipes import get
from training.stopping import Stopping

if TYPE_CHECKING:
    from training.factory.table import LiveTable

POLL_SECONDS = 1.0  # between looks at what the processes do
_PASSED_ON = ("KERAS_BACKEND", "GDN_KERAS_DATA", "XLA_FLAGS")  # to all processes


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all processes of a sweep share."""

    storage: Storage
    options: RunOptions
    data: Path | None
    cpus: int = 1  # of each process, which has as many threads


@dataclass(frozen=True)
class Share:
    """The part of a machine that a process holds."""

    cpus: int
    gpus: float


@dataclass
class _Attempt:
    job: Job
    worker: Any
    share: Share
    progress: Progress | None = None
    question: Any = None  # the reference of a progress that has been asked for


class ClusterWorker(Worker):
    """A worker that knows on which machine of the cluster it is."""

    def progress(self) -> Progress:
        import ray

        node = ray.get_runtime_context().get_node_id()
        return dataclasses.replace(super().progress(), node=node)


def connect(address: str | None) -> None:
    """Join the cluster at an address, or start one that has this machine."""
    try:
        import ray
    except ImportError as error:
        raise ValueError("A sweep needs Ray: pip install 'gdn-keras[sweep]'.") from error
    where = {"address": address} if address else {"address": "local", "include_dashboard": False}
    variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    variables["PYTHONPATH"] = str(CHECKOUT)
    ray.init(**where, log_to_driver=False, runtime_env={"env_vars": variables})


def run_jobs(
    schedule: Schedule, *, setup: Setup, workers: int | None, compare: Compare, table: LiveTable
) -> bool:
    """Do all jobs on the cluster that this process is connected to.

    Returns whether it was stopped before the end. Then all runs are saved: processes are asked to
    stop and waited for. A second signal ends them at once.
    """
    import ray

    pool = _Pool(setup)
    with Stopping() as stop:  # after `connect`, which installs handlers of its own
        asked = False
        while pool.attempts or (not stop() and schedule.ready()):
            if not stop():
                for job in schedule.ready():
                    room = workers is None or len(pool.attempts) < workers
                    if room and pool.start(job, compare=compare):
                        schedule.start(job)
            elif not asked:
                asked = True
                for job in pool.stop():
                    schedule.end(job, Outcome(STOPPED))
            if not pool.attempts:  # there is no machine at the moment
                time.sleep(POLL_SECONDS)
                continue
            for reference in ray.wait(list(pool.attempts), timeout=POLL_SECONDS)[0]:
                job, outcome = pool.end(reference)
                table.report(job, outcome, final=schedule.end(job, outcome))
            table.show(schedule, pool.progress())
        return stop()


class _Pool:
    """The processes, busy and idle."""

    def __init__(self, setup: Setup):
        self._setup = setup
        self._idle: list[_Attempt] = []  # the last ones of these processes
        self.attempts: dict[Any, _Attempt] = {}  # by the reference of the outcome

    def start(self, job: Job, *, compare: Compare) -> bool:
        """Begin a job if a process is idle, or there is room for one."""
        share = self._share(job)
        alive = _alive()
        self._idle = [a for a in self._idle if not a.progress or a.progress.node in alive]
        idle = next((attempt for attempt in self._idle if attempt.share == share), None)
        if idle is not None:
            self._idle.remove(idle)
        elif not self._fits(share):
            return False
        worker = idle.worker if idle else self._new_worker(share)
        before = idle and idle.progress  # of another job: it tells only where the process is
        progress = before and dataclasses.replace(before, images=0, rate=None)
        reference = worker.work.remote(job, comparison=compare(get(job.recipe)))
        self.attempts[reference] = _Attempt(job, worker, share, progress)
        return True

    def _share(self, job: Job) -> Share:
        nodes = _resources()
        cpus = min(self._setup.cpus, max(int(node.get("CPU", 0)) for node in nodes))
        gpus = min(job.gpus, max(node.get("GPU", 0) for node in nodes))
        if job.step == EVALUATE and any(node.get("CPU") and not node.get("GPU") for node in nodes):
            gpus = 0  # Ray leaves machines with GPUs to those who ask for one
        return Share(max(cpus, 1), gpus)

    def _fits(self, share: Share) -> bool:
        """Whether the cluster has room; processes that are idle and in the way are ended."""
        nodes = _resources()
        for name in ("cpus", "gpus"):
            total = sum(node.get(name[:-1].upper(), 0) for node in nodes)
            busy = [getattr(attempt.share, name) for attempt in self.attempts.values()]
            idle = [getattr(attempt.share, name) for attempt in self._idle]
            wanted = sum(busy) + getattr(share, name)
            if wanted > total:
                return False
            if wanted + sum(idle) > total:
                self._end_idle()
        return True

    def _end_idle(self) -> None:
        import ray

        for attempt in self._idle:
            ray.kill(attempt.worker)
        self._idle = []

    def _new_worker(self, share: Share):
        import ray

        variables = {
            "TF_NUM_INTRAOP_THREADS": str(share.cpus),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # processes that share a GPU must not take all of its memory at once
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        setup = self._setup
        return (
            ray.remote(ClusterWorker)
            .options(
                num_cpus=share.cpus,
                num_gpus=share.gpus,
                max_concurrency=3,  # `work`, `progress` and `stop`
                runtime_env={"env_vars": variables},
            )
            .remote(setup.storage, options=setup.options, data=setup.data)
        )

    def stop(self) -> list[Job]:
        """Let all jobs save and end; returns those that had not begun."""
        import ray

        self._end_idle()
        waiting = []
        for reference, attempt in list(self.attempts.items()):
            if attempt.progress is None:
                ray.kill(attempt.worker)
                waiting.append(self.attempts.pop(reference).job)
            else:
                attempt.worker.stop.remote()
        return waiting

    def end(self, reference) -> tuple[Job, Outcome]:
        """How an attempt ended. A process that is lost or broken is not used again."""
        import ray

        attempt = self.attempts.pop(reference)
        try:
            outcome = ray.get(reference)
        except ray.exceptions.RayError as error:
            gone = attempt.progress and attempt.progress.node not in _alive()
            text = str(error).strip().splitlines()[0]
            outcome = Outcome(LOST if gone else FAILED, text, broken=True)
        if outcome.broken:
            ray.kill(attempt.worker)
        else:
            self._idle.append(attempt)
        return attempt.job, outcome

    def progress(self) -> dict[tuple[str, str], Progress]:
        """How far the jobs are, by key, as far as their processes have answered."""
        import ray

        for attempt in self.attempts.values():
            if attempt.question is None:
                attempt.question = attempt.worker.progress.remote()
            if ray.wait([attempt.question], timeout=0)[0]:
                question, attempt.question = attempt.question, None
                try:
                    attempt.progress = ray.get(question)
                except ray.exceptions.RayError:
                    pass  # it has died; the outcome will say so
        answered = (attempt for attempt in self.attempts.values() if attempt.progress)
        return {attempt.job.key: attempt.progress for attempt in answered}


def _resources() -> list[dict[str, float]]:
    import ray

    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _alive() -> set[str]:
    import ray

    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}
