"""Types of options that several command lines have; argparse prints the name of the option."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable


def whole_number(low: int = 0, high: int | None = None) -> Callable[[str], int]:
    """A whole number from `low` to `high`, both included.

    >>> whole_number(1)("3")
    3
    """
    expected = f"from {low} to {high}" if high is not None else f">= {low}"

    def parse(text: str) -> int:
        number = int(text) if text.isdecimal() else -1
        if number < low or high is not None and number > high:
            raise ArgumentTypeError(f"must be a whole number {expected}, not {text}")
        return number

    return parse


POSITIVE = whole_number(1)
SEED = whole_number(0, 2**32 - 1)  # what keras.utils.set_random_seed takes
PORT = whole_number(0, 65535)
