"""A lock on the folder of a run, against a second process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

LOCK = "lock"  # file in the folder of a run
LOCKED = 4  # exit code of a command that found the run locked


class RunIsLocked(RuntimeError):
    """Another process is working on the same run."""


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the run; the lock is released when the process ends, however it ends."""
    from filelock import FileLock, Timeout  # which loads asyncio

    folder.mkdir(parents=True, exist_ok=True)
    held = FileLock(folder / LOCK)
    try:
        held.acquire(timeout=0)
    except Timeout:
        raise RunIsLocked(f"Another process is working on {folder}.") from None
    try:
        yield
    finally:
        held.release()
