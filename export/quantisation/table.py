"""What int8 costs: the table of docs/export.md, from the reports in `export/int8/`.

The folder has a copy of the report of every accepted int8 file whose weights are in `zoo/`. That of
a network that was trained again, or that was quantised otherwise than today, goes until int8 is
measured again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gdn_keras import zoo
from gdn_keras.utils import cpu
from gdn_keras.utils.files import replace_file
from gdn_keras.utils.markdown import table, with_table
from gdn_keras.zoo import registry
from gdn_keras.zoo.records import read_json, to_json
from gdn_keras.zoo.tables import SIZES

from .. import PROGRAM
from .quantise import WEIGHTS, accepted_report


def update(output: Path, *, root: Path | None = None) -> None:
    """Take new reports from below `output`, drop those of older files, and write the table.

    Args:
        root: of the clone; default: the one this is run from.
    """
    root = root or registry.checkout()
    if root is None:
        raise FileNotFoundError(f"`{PROGRAM} table` is run from a clone, which has a zoo/.")
    folder = root / "export" / "int8"
    folder.mkdir(parents=True, exist_ok=True)
    for path in zoo.folders(root / "zoo"):
        report = accepted_report(output / path.name, zoo.info(path))
        if report is not None:
            (folder / f"{path.name}.json").write_text(to_json(report), encoding="utf-8")
    for name in stale(root):
        (folder / f"{name}.json").unlink()
        print(f"{name}: its report is of other weights than zoo/{name} has, or quantised otherwise")
    page = root / "docs" / "export.md"
    replace_file(page, content=with_table(page, markdown(reports(root)), name="int8"))
    print(f"{page}: {len(reports(root))} networks")


def reports(root: Path) -> dict[str, dict[str, Any]]:
    """Those in the clone at `root`, by the network's name."""
    files = sorted((root / "export" / "int8").glob("*.json"))
    return {file.stem: read_json(file, dict) for file in files}


def stale(root: Path) -> list[str]:
    """Networks whose report is not of the weights in `zoo/`, quantised as today."""
    here = {path.name: zoo.info(path).weights_sha256 for path in zoo.folders(root / "zoo")}
    return [
        name
        for name, report in reports(root).items()
        if (report["weights_sha256"], report.get("weights")) != (here.get(name), WEIGHTS)
    ]


def markdown(found: dict[str, dict[str, Any]]) -> str:
    """One row per network, accuracies float / int8 in per cent."""
    header = ["network", *SIZES.values(), "mean over sizes", "largest loss", "CPU"]
    rows = []
    for name, report in found.items():
        before, after = report["float"], report["int8"]
        cells = [_pair(before[key], after[key]) if key in after else "" for key in SIZES]
        means = [sum(values.values()) / len(values) for values in (before, after)]
        cells.append(f"{_pair(*means)} ({len(after)})" if len(after) > 1 else "")
        link = f"[`{name}`](../export/int8/{name}.json)"
        rows.append([link, *cells, f"{report['worst_loss_ppt']:.2f}", cpu.text(report["cpu"])])
    return table(header, rows=rows, align="l" + "r" * (len(header) - 2) + "l")


def _pair(before: float, after: float) -> str:
    return f"{100 * before:.2f} / {100 * after:.2f}"
