"""What a sweep shows: a line for every job that ends, and a table of those that run."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping

from gdn_keras.utils import progress as lines
from gdn_keras.utils.markdown import table

from .schedule import DONE, FAILED, STOPPED, Job, Outcome, Schedule
from .worker import Progress


class LiveTable:
    """Redrawn in place on a terminal; in a log or a pipe, one line a minute."""

    def __init__(self, stream=None):
        self._stream = stream or sys.stdout
        self._drawn = 0  # lines on the terminal
        self._last = time.monotonic()

    def report(self, job: Job, outcome: Outcome, *, final: bool) -> None:
        """An attempt has ended."""
        words = outcome.kind
        if outcome.kind not in (DONE, STOPPED):
            words += f": {outcome.message}; " + ("set aside" if final else "trying again")
        if outcome.kind == FAILED and outcome.log:
            words += f", see {outcome.log}"
        self._clear()
        print(f"{job.recipe:48} {job.step:8} {words}", file=self._stream, flush=True)

    def show(self, schedule: Schedule, progress: Mapping[tuple[str, str], Progress]) -> None:
        now = time.monotonic()
        if self._stream.isatty():
            self._clear()
            width, height = shutil.get_terminal_size()  # longer lines would become two
            rows = [line[:width] for line in render(schedule, progress).splitlines()][1 - height :]
            self._drawn = len(rows)
            print(*rows, sep="\n", file=self._stream, flush=True)
        elif now - self._last > lines.LINE_SECONDS:
            self._last = now
            print(summary(schedule, progress), file=self._stream, flush=True)

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write(f"\x1b[{self._drawn}F\x1b[J")
        self._drawn = 0


def render(schedule: Schedule, progress: Mapping[tuple[str, str], Progress]) -> str:
    """The jobs that run, and a summary."""
    rows = []
    for job in schedule.running:
        now = progress.get(job.key)
        rate, seconds = now and now.rate, _seconds_left(job, now)
        rows.append(
            [
                job.recipe,
                job.step,
                now.host if now else "starting",
                f"{now.images / job.images:.0%}" if now and job.images else "",
                f"{rate:,.0f}" if rate else "",
                _duration(seconds),
                now.problem if now else "",
            ]
        )
    header = ["running", "step", "machine", "done", "images/s", "left", ""]
    return table(header, rows=rows, align="lllrrrl", pad=True) + f"\n{summary(schedule, progress)}"


def summary(schedule: Schedule, progress: Mapping[tuple[str, str], Progress]) -> str:
    """Numbers of jobs, images per second, and the time left at the speed of those that run."""
    counts = {
        "running": schedule.running,
        "waiting": schedule.waiting,
        "done": schedule.done,
        "failed": schedule.failed,
    }
    words = [", ".join(f"{len(jobs)} {name}" for name, jobs in counts.items())]
    left = sum(job.gflop for job in schedule.waiting)
    speed = images = 0.0
    for job in schedule.running:
        now = progress.get(job.key)
        share = now.images / job.images if now and job.images else 0.0
        left += job.gflop * (1 - min(share, 1.0))
        if now and now.rate and job.images:
            speed += now.rate * job.gflop / job.images
            images += now.rate
    if speed:
        words += [f"{images:,.0f} images/s", f"{_duration(left / speed)} left"]
    problems = {now.problem for now in progress.values() if now.problem}
    return "; ".join([*words, *sorted(problems)])


def _seconds_left(job: Job, now: Progress | None) -> float | None:
    if now is None or not now.rate or not job.images:
        return None
    return max(job.images - now.images, 0) / now.rate


def _duration(seconds: float | None) -> str:
    """Hours and minutes, as 3:05."""
    if seconds is None:
        return ""
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02}"
