"""Train many recipes at once: as processes of this machine, or as tasks of a Ray cluster.

Every recipe is one task that runs `python -m training run`; a task that dies is started again and
goes on from the run's own state, so the engine needs to know nothing about training. When the
sweep is stopped, it asks the training processes to stop, which save, and waits for them.

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

from training import CHECKOUT, state
from training.stopping import STOPPED, Stopping

ATTEMPTS = 4
LOOK_SECONDS = 0.5  # from one look at a training process, or at a lock, to the next
CANCEL_SECONDS = 5.0  # from one cancel of a task to the next


@dataclass(frozen=True)
class Task:
    """One recipe of a sweep: the command that trains it, and the folder of its run."""

    name: str
    command: list[str]
    folder: Path


def run_sweep(tasks: list[Task], arguments) -> dict[str, str]:
    """Outcome per recipe, printed as it comes: finished, stopped, or the last words of an error."""
    engine = _ray if arguments.engine == "ray" else _local
    outcomes = {}
    for name, outcome in engine(tasks, arguments):
        outcomes[name] = outcome
        print(f"{name:48} {outcome}", flush=True)
    return outcomes


def _local(tasks: list[Task], arguments) -> Iterator[tuple[str, str]]:
    with Stopping() as stop, ThreadPoolExecutor(arguments.workers) as pool:
        pending = {pool.submit(run_until_done, task, lambda: stop.asked): task for task in tasks}
        for done in as_completed(pending):
            yield pending[done].name, done.result()


def _ray(tasks: list[Task], arguments) -> Iterator[tuple[str, str]]:
    import ray

    where = (
        {"address": arguments.cluster}
        if arguments.cluster
        else {"address": "local", "num_cpus": arguments.workers, "include_dashboard": False}
    )
    ray.init(
        **where,
        runtime_env={"env_vars": {"PYTHONPATH": str(CHECKOUT)}},  # workers import this module
    )
    try:
        gpus = max(node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"])
        start = ray.remote(
            num_cpus=1,
            num_gpus=min(arguments.devices, gpus),
            max_retries=ATTEMPTS,  # Ray starts a task again when its worker has died
            scheduling_strategy="SPREAD",
        )(run_until_done)
        waiting, running = list(tasks), {}
        with Stopping() as stop:  # after `init`, which has handlers of its own
            while waiting or running:
                while waiting and len(running) < arguments.workers and not stop():
                    task = waiting.pop(0)
                    running[start.remote(task)] = task.name
                if stop():
                    yield from ((task.name, "stopped") for task in waiting)
                    waiting = []
                    for reference in running:  # again and again: Ray may lose one
                        ray.cancel(reference)
                seconds = CANCEL_SECONDS if stop() else LOOK_SECONDS
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

    A run that another process holds is waited for: when a worker is killed, its training process
    may live on, and what it does is not done twice.

    Args:
        task: what to run.
        asked: says how often the sweep was asked to stop.
    """
    attempts = 0
    while attempts < ATTEMPTS:
        _wait_until_free(task, asked)
        if asked():
            return "stopped"
        code, words = _run(task.command, asked)
        if code == 0:
            return "finished"
        if asked():
            return "stopped" if code == STOPPED else words
        if code in (1, 2):  # refused for a reason; trying again would not help
            return words
        attempts += code != state.LOCKED
    return words


def _wait_until_free(task: Task, asked: Callable[[], int]) -> None:
    told = False
    while _is_locked(task.folder) and not asked():
        if not told:
            print(
                f"{task.name}: another process is working on {task.folder}; waiting for it.",
                file=sys.stderr,
                flush=True,
            )
        told = True
        time.sleep(LOOK_SECONDS)


def _is_locked(folder: Path) -> bool:
    if not (folder / state.LOCK).exists():
        return False
    try:
        with state.lock(folder):
            return False
    except state.RunIsLocked:
        return True


def _run(command: list[str], asked: Callable[[], int]) -> tuple[int, str]:
    """Exit code and last words. Asked once, the process is to save and stop; then it is killed."""
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in a terminal comes by way of the sweep, once
    )
    told = 0
    try:
        while True:
            if told < min(asked(), 2):
                told += 1
                process.send_signal((signal.SIGTERM, signal.SIGKILL)[told - 1])
            try:
                _, errors = process.communicate(timeout=LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            lines = errors.strip().splitlines()
            return process.returncode, lines[-1] if lines else f"exit code {process.returncode}"
    finally:
        if process.poll() is None:  # Ray cancels a task by an exception
            process.terminate()
            process.communicate()
