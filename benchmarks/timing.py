"""Fair timing: worker processes that stay alive and run one step on command, undisturbed.

TensorFlow and PyTorch in one process fight for threads, so each library has a process of its own.
Workers take turns: while one computes, the others wait for a command.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import statistics
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

THREADS = 2
QUIET = 0.1  # cores that other programs may use during a sample
RETRIES = 4  # for one sample; the least disturbed one is then kept


@dataclass(frozen=True)
class Sample:
    """One timed run, and how many cores other programs used meanwhile."""

    seconds: float
    disturbance: float


def take_sample(step: Callable[[], object]) -> Sample:
    """Time one call of `step`."""
    own, everything = time.process_time(), _busy_seconds()
    start = time.perf_counter()
    step()
    seconds = time.perf_counter() - start
    others = _busy_seconds() - everything - (time.process_time() - own)
    # the kernel counts in hundredths of a second on every core
    return Sample(seconds, max(0.0, others - 0.01 * (os.cpu_count() or 1)) / seconds)


def _busy_seconds() -> float:
    """CPU time of all programs since the machine was started; 0 where that cannot be known."""
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Worker:
    """A process with `THREADS` threads that prepares steps, and runs them when told to.

    >>> with Worker("tensorflow") as worker:
    ...     worker.prepare("benchmarks.cases:our_training", recipe="fashion_avg_2jet")
    ...     seconds = worker.sample("benchmarks.cases:our_training").seconds

    A step is named after the function that makes it, or by `name`.
    """

    def __init__(self, backend: str = "tensorflow"):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, backend), daemon=True)
        self._process.start()

    def prepare(self, function: str, *, name: str | None = None, warm: int = 2, **arguments):
        """Make a step by "module:function" with `arguments`, and run it `warm` times."""
        self._ask("prepare", name or function, function, warm, arguments)

    def sample(self, name: str) -> Sample:
        """Run a step; again if other programs disturbed it."""
        samples = []
        for _ in range(RETRIES):
            samples.append(Sample(*self._ask("sample", name)))
            if samples[-1].disturbance <= QUIET:
                break
        return min(samples, key=lambda sample: sample.disturbance)

    def peak_memory(self) -> int:
        """Most bytes the process ever held."""
        return self._ask("peak_memory")

    def _ask(self, *message):
        self._pipe.send(message)
        worked, answer = self._pipe.recv()
        if not worked:
            raise RuntimeError(f"A worker could not {message[0]}:\n{answer}")
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_) -> None:
        self._pipe.close()
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.terminate()


def _serve(pipe, backend: str) -> None:
    os.environ |= {
        "KERAS_BACKEND": backend,
        "OMP_NUM_THREADS": str(THREADS),
        "TF_NUM_INTRAOP_THREADS": str(THREADS),
        "TF_NUM_INTEROP_THREADS": str(THREADS),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    steps: dict[str, Callable[[], object]] = {}
    while True:
        try:
            command, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = None
            if command == "prepare":
                name, function, warm, settings = arguments
                module, _, function = function.partition(":")
                steps[name] = getattr(importlib.import_module(module), function)(**settings)
                for _ in range(warm):
                    steps[name]()
            elif command == "sample":
                sample = take_sample(steps[arguments[0]])
                answer = (sample.seconds, sample.disturbance)
            else:
                import resource

                answer = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            pipe.send((True, answer))
        except Exception:
            pipe.send((False, traceback.format_exc()))


def median_seconds(samples: list[Sample]) -> float:
    return statistics.median(sample.seconds for sample in samples)


def disturbed(samples: list[Sample]) -> int:
    """How many samples other programs slowed down."""
    return sum(sample.disturbance > QUIET for sample in samples)
