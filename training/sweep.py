"""Train many recipes at once: as processes of this machine, or as tasks of a Ray cluster.

Every recipe is one task that runs `python -m training run`; a task that dies is restarted and
resumes from the run's own state, so the engine needs to know nothing about training. When the
sweep is stopped, it asks the training processes to save and stop, and waits for them.

Workers of Ray import this module, so it imports neither Keras nor what needs it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from . import CHECKOUT, locking
from .stopping import STOPPED, Stopping

ATTEMPTS = 4
POLL_SECONDS = 0.5  # between checks of a training process, or of a lock
CANCEL_SECONDS = 5.0  # between attempts to cancel a task


@dataclass(frozen=True)
class Task:
    """One recipe of a sweep: the command that trains it, and the folder of its run."""

    name: str
    command: list[str]
    folder: Path


def run_sweep(
    tasks: list[Task], *, engine: str, workers: int, cluster: str | None, devices: int
) -> dict[str, str]:
    """Outcome per recipe, printed as it comes: finished, stopped, or the last line of an error."""
    if engine == "ray":
        ended = _ray(tasks, workers=workers, cluster=cluster, devices=devices)
    else:
        ended = _local(tasks, workers=workers)
    outcomes = {}
    for name, outcome in ended:
        outcomes[name] = outcome
        print(f"{name:48} {outcome}", flush=True)
    return outcomes


def _local(tasks: list[Task], *, workers: int) -> Iterator[tuple[str, str]]:
    with Stopping() as stop, ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(run_until_done, task, lambda: stop.asked): task for task in tasks}
        for done in as_completed(pending):
            yield pending[done].name, done.result()


def _ray(
    tasks: list[Task], *, workers: int, cluster: str | None, devices: int
) -> Iterator[tuple[str, str]]:
    import ray

    where = (
        {"address": cluster}
        if cluster
        else {"address": "local", "num_cpus": workers, "include_dashboard": False}
    )
    ray.init(
        **where,
        runtime_env={"env_vars": {"PYTHONPATH": str(CHECKOUT)}},  # workers import this module
    )
    try:
        gpus = max(node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"])
        start = ray.remote(
            num_cpus=1,
            num_gpus=min(devices, gpus),
            max_retries=ATTEMPTS,  # Ray restarts a task whose worker has died
            scheduling_strategy="SPREAD",
        )(run_until_done)
        waiting, running = list(tasks), {}
        with Stopping() as stop:  # after `init`, which installs its own handlers
            while waiting or running:
                while waiting and len(running) < workers and not stop():
                    task = waiting.pop(0)
                    running[start.remote(task)] = task.name
                if stop():
                    yield from ((task.name, "stopped") for task in waiting)
                    waiting = []
                    for reference in running:  # again and again: Ray may lose one
                        ray.cancel(reference)
                seconds = CANCEL_SECONDS if stop() else POLL_SECONDS
                done, _ = ray.wait(list(running), timeout=seconds)
                for reference in done:
                    yield running.pop(reference), _outcome(reference)
    finally:
        ray.shutdown()


def _outcome(reference) -> str:
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.TaskCancelledError:
        return "stopped"
    except ray.exceptions.RayError as error:
        return f"failed: {str(error).strip().splitlines()[0]}"


def run_until_done(task: Task, asked: Callable[[], int] = lambda: 0) -> str:
    """Run a training command; a run that was killed is resumed.

    If another process holds the run, this waits for it: when a worker is killed, its training
    process may survive, and its work is not done twice.

    Args:
        task: what to run.
        asked: returns how often the sweep was asked to stop.
    """
    attempts = 0
    while attempts < ATTEMPTS:
        _wait_until_free(task, asked)
        if asked():
            return "stopped"
        code, message = _run(task.command, asked)
        if code == 0:
            return "finished"
        if asked():
            return "stopped" if code == STOPPED else message
        if code in (1, 2):  # refused for a reason; a retry would not help
            return message
        attempts += code != locking.LOCKED
    return message


def _wait_until_free(task: Task, asked: Callable[[], int]) -> None:
    reported = False
    while _is_locked(task.folder) and not asked():
        if not reported:
            print(
                f"{task.name}: another process is working on {task.folder}; waiting for it.",
                file=sys.stderr,
                flush=True,
            )
        reported = True
        time.sleep(POLL_SECONDS)


def _is_locked(folder: Path) -> bool:
    if not (folder / locking.LOCK).exists():
        return False
    try:
        with locking.lock(folder):
            return False
    except locking.RunIsLocked:
        return True


def _run(command: list[str], asked: Callable[[], int]) -> tuple[int, str]:
    """Exit code and last line of stderr. The first request is SIGTERM, the second SIGKILL."""
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in a terminal reaches it through the sweep, once
    )
    sent = 0
    try:
        while True:
            if sent < min(asked(), 2):
                sent += 1
                process.send_signal((signal.SIGTERM, signal.SIGKILL)[sent - 1])
            try:
                _, errors = process.communicate(timeout=POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            lines = errors.strip().splitlines()
            return process.returncode, lines[-1] if lines else f"exit code {process.returncode}"
    finally:
        if process.poll() is None:  # Ray cancels a task by an exception
            process.terminate()
            process.communicate()
