"""When to stop: on a signal, or when the time is up. Work is saved first."""

from __future__ import annotations

import signal
import time

STOPPED = 3  # exit code: the same command resumes
SAME_SECONDS = 1.0  # `timeout`, for one, sends its signal twice at once


class Stopping:
    """A context in which SIGTERM and SIGINT request a stop instead of ending the process.

    Calling it returns whether to stop. A second signal, at least a second after the first one,
    interrupts at once.
    """

    def __init__(self, *, deadline: float | None = None):
        self.asked = 0  # number of requests
        self.deadline = deadline  # as `time.time()`

    def __call__(self) -> bool:
        return self.asked > 0 or (self.deadline is not None and time.time() > self.deadline)

    def __enter__(self) -> Stopping:
        self._old = {
            number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def _ask(self, *_) -> None:
        now = time.monotonic()
        if self.asked and now - self._last < SAME_SECONDS:
            return
        self.asked, self._last = self.asked + 1, now
        if self.asked > 1:
            raise KeyboardInterrupt

    def __exit__(self, *_) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
