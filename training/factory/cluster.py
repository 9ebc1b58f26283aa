"""The processes of a sweep, on a Ray cluster or on a new one of this machine.

A process is an actor of Ray: it holds its share of a machine, does one job after another, and can
be asked how far it is, or to save and stop. One that dies takes only its own job with it, which is
continued by another from the last state in the storage.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import CHECKOUT
from ..options import RunOptions
from ..publishing.comparison import Compare
from ..recipes import get
from ..runs.stopping import Stopping
from .schedule import EVALUATE, FAILED, LOST, STOPPED, Job, Outcome, Schedule
from .storage import Storage
from .worker import Progress, Worker

if TYPE_CHECKING:
    from .table import LiveTable

POLL_SECONDS = 1.0  # between looks at what the processes do
_PASSED_ON = ("KERAS_BACKEND", "GDN_KERAS_DATA", "XLA_FLAGS")  # to all processes


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all processes of a sweep share."""

    storage: Storage
    options: RunOptions
    data: Path | None
    cpus: int = 1  # of each process, which has as many threads


@dataclass(frozen=True, order=True)
class _Share:
    """A part of a machine."""

    gpus: float
    cpus: float


@dataclass(frozen=True)
class _Process:
    actor: Any  # a `Worker`
    node: str
    share: _Share


@dataclass
class _Attempt:
    job: Job
    process: _Process
    question: Any  # the reference of a progress that has been asked for
    progress: Progress | None = None


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
    """The processes, busy and idle.

    It chooses their machines itself: Ray would rather evaluate a network next to GPUs than let it
    wait for a machine without.
    """

    def __init__(self, setup: Setup):
        self._setup = setup
        self._idle: list[_Process] = []
        self._most_gpus = 0.0  # of a machine, even if it is gone: then another is waited for
        self.attempts: dict[Any, _Attempt] = {}  # by the reference of the outcome

    def start(self, job: Job, *, compare: Compare) -> bool:
        """Begin a job if a process is idle, or there is room for one."""
        process = self._process_for(job)
        if process is None:
            return False
        reference = process.actor.work.remote(job, comparison=compare(get(job.recipe)))
        self.attempts[reference] = _Attempt(job, process, process.actor.progress.remote())
        return True

    def _process_for(self, job: Job) -> _Process | None:
        nodes = _nodes()
        self._most_gpus = max(self._most_gpus, *(has.gpus for has in nodes.values()))
        gpus = min(job.gpus, self._most_gpus)
        plain = {node: has for node, has in nodes.items() if has.cpus and not has.gpus}
        if plain and (job.step == EVALUATE or not gpus):
            nodes, gpus = plain, 0.0
        cpus = min(self._setup.cpus, max(has.cpus for has in nodes.values()))
        share = _Share(gpus, max(cpus, 1))
        for process in self._idle:
            if process.node in nodes and process.share == share:
                self._idle.remove(process)
                return process
        left = {node: self._left(node, has) for node, has in nodes.items()}
        room = [n for n in left if left[n].gpus >= share.gpus and left[n].cpus >= share.cpus]
        if not room:
            return None
        node = max(room, key=left.get)
        self._end_idle(node)
        return _Process(self._new_actor(share, node=node), node, share)

    def _left(self, node: str, has: _Share) -> _Share:
        """What busy processes leave of a machine."""
        busy = [a.process.share for a in self.attempts.values() if a.process.node == node]
        gpus = has.gpus - sum(share.gpus for share in busy)
        return _Share(round(gpus, 4), has.cpus - sum(share.cpus for share in busy))

    def _end_idle(self, node: str) -> None:
        """Those of a machine, which are in the way of others."""
        import ray

        for process in self._idle:
            if process.node == node:
                ray.kill(process.actor)
        self._idle = [process for process in self._idle if process.node != node]

    def _new_actor(self, share: _Share, *, node: str):
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        variables = {
            "TF_NUM_INTRAOP_THREADS": f"{share.cpus:.0f}",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # processes that share a GPU must not take all of its memory at once
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        if not share.gpus:  # Ray would leave all of them visible
            variables["CUDA_VISIBLE_DEVICES"] = "-1"
        setup = self._setup
        return (
            ray.remote(Worker)
            .options(
                num_cpus=share.cpus,
                num_gpus=share.gpus,
                max_concurrency=3,  # `work`, `progress` and `stop`
                runtime_env={"env_vars": variables},
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(setup.storage, options=setup.options, data=setup.data)
        )

    def stop(self) -> list[Job]:
        """Let all jobs save and end; returns those that had not begun."""
        import ray

        waiting = []
        for reference, attempt in list(self.attempts.items()):
            if attempt.progress is None:
                ray.kill(attempt.process.actor)
                waiting.append(self.attempts.pop(reference).job)
            else:
                attempt.process.actor.stop.remote()
        return waiting

    def end(self, reference) -> tuple[Job, Outcome]:
        """How an attempt ended. A process that is lost or broken is not used again."""
        import ray

        attempt = self.attempts.pop(reference)
        process = attempt.process
        try:
            outcome = ray.get(reference)
        except ray.exceptions.RayError as error:
            kind = FAILED if process.node in _nodes() else LOST
            outcome = Outcome(kind, str(error).strip().splitlines()[0].rstrip("."), broken=True)
        if outcome.broken:
            ray.kill(process.actor)
        else:
            self._idle.append(process)
        return attempt.job, outcome

    def progress(self) -> dict[tuple[str, str], Progress]:
        """How far the jobs are, by key, as far as their processes have answered."""
        import ray

        for attempt in self.attempts.values():
            if ray.wait([attempt.question], timeout=0)[0]:
                with contextlib.suppress(ray.exceptions.RayError):  # the outcome will say it
                    attempt.progress = ray.get(attempt.question)
                attempt.question = attempt.process.actor.progress.remote()
        answered = (attempt for attempt in self.attempts.values() if attempt.progress)
        return {attempt.job.key: attempt.progress for attempt in answered}


def _nodes() -> dict[str, _Share]:
    """The machines that are alive, and what they have."""
    import ray

    alive = {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
    return {name: _Share(has.get("GPU", 0.0), has.get("CPU", 0.0)) for name, has in alive.items()}
