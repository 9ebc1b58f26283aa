"""Markdown tables, all written in one way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def table(
    header: Sequence[str], *, rows: Iterable[Sequence[str]], align: str = "l", pad: bool = False
) -> str:
    """A Markdown table, without a line break at its end.

    >>> print(table(["network", "accuracy"], rows=[["one", "92.02"]], align="lr"))
    | network | accuracy |
    | --- | --: |
    | one | 92.02 |

    Args:
        header: the titles of the columns.
        rows: the cells of each row.
        align: "l" or "r" for each column; the last one also for all that follow.
        pad: pad the cells with spaces, so that the columns are aligned in plain text, too.
    """
    rows, sides = [list(row) for row in rows], align.ljust(len(header), align[-1])
    widths = [3] * len(header)
    if pad:
        columns = zip(header, *rows, strict=True)
        widths = [max(3, *map(len, column)) for column in columns]
    rule = [
        "-" * (width - 1) + ("-" if side == "l" else ":")
        for width, side in zip(widths, sides, strict=True)
    ]
    lines = [list(header), rule, *rows]
    if pad:
        lines = [
            [
                cell.ljust(width) if side == "l" else cell.rjust(width)
                for cell, width, side in zip(line, widths, sides, strict=True)
            ]
            for line in lines
        ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_table(path: Path, text: str, *, name: str) -> str:
    """The content of the file at `path` with `text` between its markers called `name`."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = path.read_text(encoding="utf-8").partition(start)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{path.name} must have the markers {start} and {end}.")
    return f"{before}{start}\n{text}\n{end}{after}"
