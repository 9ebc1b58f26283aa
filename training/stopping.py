"""When to stop: a signal asks for it, or the time is up. Work is saved first."""

from __future__ import annotations

import signal
import time


class Stopping:
    """As a context: SIGTERM and SIGINT ask for a stop instead of ending the process.

    Called, it says whether to stop. A second Ctrl-C interrupts at once.
    """

    def __init__(self, *, deadline: float | None = None):
        self.asked = False
        self.deadline = deadline  # as `time.time()`

    def __call__(self) -> bool:
        return self.asked or (self.deadline is not None and time.time() > self.deadline)

    def __enter__(self) -> Stopping:
        self._old = {
            number: signal.signal(number, self._ask) for number in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def _ask(self, number: int, _) -> None:
        self.asked = True
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)

    def __exit__(self, *_) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
