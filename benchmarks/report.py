"""Where results go: a table on the screen, one JSON line per run in results.jsonl."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.timing import THREADS
from gdn_keras.utils import cpu
from gdn_keras.utils.markdown import table

RESULTS = Path(__file__).parent / "results.jsonl"
PACKAGES = ("gdn-keras", "keras", "tensorflow", "torch", "numpy")


def machine() -> dict:
    """What a measured time depends on."""
    found = cpu.describe()
    return {
        "cpu": found["name"],
        "cpu_family_model": [cpu.field("cpu family"), cpu.field("model")],
        "instructions": found["instructions"],
        "cores": os.cpu_count(),
        "threads": THREADS,
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def record(benchmark: str, result: dict) -> None:
    """Append one line to results.jsonl."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    line = {"benchmark": benchmark, "time": now, "machine": machine(), **result}
    with open(RESULTS, "a") as file:
        file.write(json.dumps(line) + "\n")


def print_table(header: Sequence[str], rows: Iterable[Sequence]) -> None:
    """A Markdown table; numbers to the right, three digits."""
    cells = [[_cell(value) for value in row] for row in rows]
    print(table(header, rows=cells, align="r", pad=True))


def _cell(value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
