"""What the command lines of this project share: types of options, and how they end."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended
EXPECTED = (ValueError, OSError, RuntimeError)

# === Types of options; argparse prints the name of the option ===


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

# === How they end ===


def run_command(
    command: Callable[[], int | None],
    *,
    expected: tuple[type[Exception], ...] = EXPECTED,
    interrupted: str = "interrupted",
) -> int:
    """Run `command` and return the exit code.

    Args:
        expected: errors that are not bugs, reported in one line, without a traceback. Their
            attribute `command_line`, if they have one, replaces the message.
        interrupted: what to say after Ctrl-C.
    """
    try:
        return command() or 0
    except BrokenPipeError:  # `… | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except expected as error:
        print(f"error: {getattr(error, 'command_line', error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return INTERRUPTED
