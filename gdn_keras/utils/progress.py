"""Progress on stderr: a bar on a terminal, plain lines now and then in a log or a pipe.

It imports tqdm, so it is itself imported inside the functions that need it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

LINE_SECONDS = 60.0  # between lines; shorter tasks print none


def show_progress(iterable: Iterable | None = None, **options: Any) -> tqdm:
    """`tqdm(iterable, **options)`, without carriage returns where there is no terminal."""
    kind = tqdm if sys.stderr.isatty() else _Lines
    return kind(iterable, **options)


class _Lines(tqdm):
    """Lines with the numbers of the bar; the last one when all is done."""

    def __init__(self, iterable: Iterable | None = None, **options: Any):
        rare = {"mininterval": LINE_SECONDS, "miniters": 1, "delay": LINE_SECONDS}
        plain = {"ncols": 0, "leave": False}  # no bar; nothing is cleared or left, see `display`
        super().__init__(iterable, **{"disable": False, **options, **rare, **plain})

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """What tqdm calls to draw the bar, and with an empty `msg` to clear it at the end."""
        self.fp.write(f"{self}\n")
        self.fp.flush()
        return False
