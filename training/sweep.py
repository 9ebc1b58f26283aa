"""Train many recipes at once: as processes of this machine, or as tasks of a Ray cluster.

Every recipe is one task that runs `python -m training run`; a task that dies is started again and
goes on from the run's own state, so the engine needs to know nothing about training.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from training.runs import CHECKOUT
from training.state import LOCKED

ATTEMPTS = 4
WAIT_SECONDS = 2.0  # between two looks at a run that another process holds


def run_sweep(names: list[str], arguments) -> dict[str, str]:
    """Outcome per recipe, printed as it comes: "finished", or what its last attempt said."""
    commands = {name: command(name, arguments) for name in names}
    engine = _ray if arguments.engine == "ray" else _local
    outcomes = {}
    for name, outcome in engine(commands, arguments):
        outcomes[name] = outcome
        print(f"{name:48} {outcome}", flush=True)
    return outcomes


def _local(commands: dict[str, list[str]], arguments) -> Iterator[tuple[str, str]]:
    with ThreadPoolExecutor(arguments.workers) as pool:
        pending = {pool.submit(run_until_done, c): name for name, c in commands.items()}
        for done in as_completed(pending):
            yield pending[done], done.result()


def _ray(commands: dict[str, list[str]], arguments) -> Iterator[tuple[str, str]]:
    import ray

    where = (
        {"address": arguments.cluster}
        if arguments.cluster
        else {"num_cpus": arguments.workers, "include_dashboard": False}
    )
    ray.init(
        **where,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(CHECKOUT)}},  # workers import this module
    )
    try:
        # retries: Ray starts a task again when its worker has died
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS)(run_until_done)
        pending = {task.remote(command): name for name, command in commands.items()}
        while pending:
            done, _ = ray.wait(list(pending))
            for reference in done:
                name = pending.pop(reference)
                try:
                    yield name, ray.get(reference)
                except ray.exceptions.RayError as error:
                    yield name, f"failed: {str(error).strip().splitlines()[0]}"
    finally:
        ray.shutdown()


def run_until_done(command: list[str]) -> str:
    """Run a training command; a run that was killed or stopped is resumed.

    A run that another process holds is waited for: when a worker is killed, its training process
    may live on, and what it does is not done twice.
    """
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    attempts = 0
    while attempts < ATTEMPTS:
        done = subprocess.run(
            command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return "finished"
        if done.returncode == LOCKED:
            time.sleep(WAIT_SECONDS)
            continue
        if done.returncode in (1, 2):  # refused for a reason; trying again would not help
            break
        attempts += 1
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def command(name: str, arguments) -> list[str]:
    """The command line that trains one recipe of a sweep."""
    words = [sys.executable, "-m", "training", "run", name]
    for option in ("seed", "budget", "precision", "devices", "data", "runs", "zoo"):
        value = getattr(arguments, option)
        if value is not None:
            words += [f"--{option}", str(value)]
    for option in ("set", "then"):
        for change in getattr(arguments, option):
            words += [f"--{option}", change]
    return words + ["--holdout"] * arguments.holdout + ["--jit"] * arguments.jit
