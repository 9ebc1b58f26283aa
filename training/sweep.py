"""Train many recipes at once: as processes of this machine, or as tasks of a Ray cluster.

Every recipe is one task that runs `python -m training run`; a task that dies is started again and
goes on from the run's own state, so the engine needs to know nothing about training.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from training.commands import CHECKOUT

ATTEMPTS = 4


def run_sweep(names: list[str], arguments) -> dict[str, str]:
    """Outcome per recipe: "finished", or what its last attempt said."""
    commands = {name: _command(name, arguments) for name in names}
    if arguments.engine == "ray":
        return _ray(commands, arguments)
    with ThreadPoolExecutor(arguments.workers) as pool:
        outcomes = pool.map(run_until_done, commands.values())
        return dict(zip(commands, outcomes, strict=True))


def _ray(commands: dict[str, list[str]], arguments) -> dict[str, str]:
    import ray

    if arguments.cluster:
        ray.init(address=arguments.cluster, log_to_driver=False)
    else:
        ray.init(num_cpus=arguments.workers, include_dashboard=False, log_to_driver=False)
    try:
        # retries: Ray starts a task again when its worker has died
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS)(run_until_done)
        pending = {name: task.remote(command) for name, command in commands.items()}
        return {name: ray.get(reference) for name, reference in pending.items()}
    finally:
        ray.shutdown()


def run_until_done(command: list[str]) -> str:
    """Run a training command; a run that was killed or stopped is resumed."""
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return "finished"
        if done.returncode == 1:  # refused for a reason; trying again would not help
            break
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _command(name: str, arguments) -> list[str]:
    command = [sys.executable, "-m", "training", "run", name]
    command += ["--seed", str(arguments.seed), "--budget", arguments.budget]
    command += ["--precision", arguments.precision, "--devices", str(arguments.devices)]
    for option in ("data", "runs", "zoo"):
        if getattr(arguments, option):
            command += [f"--{option}", getattr(arguments, option)]
    for change in arguments.set:
        command += ["--set", change]
    command += ["--holdout"] * arguments.holdout + ["--jit"] * arguments.jit
    return command
