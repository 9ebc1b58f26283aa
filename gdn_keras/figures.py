"""What all figures have in common: style, size, legend, files. Use it through `gdn_keras.plots`."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 85.0  # width in mm
_STYLE = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "legend.borderpad": 0.2,
    "legend.handlelength": 1.8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # letters stay letters
}


def styled(function):
    """Draw with `_STYLE`, whatever the user's settings are; matplotlib is imported only here."""

    @functools.wraps(function)
    def draw(*args, **kwargs):
        import matplotlib

        with matplotlib.rc_context(_STYLE):
            return function(*args, **kwargs)

    return draw


@styled
def new_figure(
    *,
    width: float = COLUMN,
    height: float = 60.0,
    rows: int = 1,
    columns: int = 1,
    **subplots,
) -> tuple[Figure, np.ndarray]:
    """A figure of some mm by mm and its axes, always an array (rows, columns).

    Further arguments go to `Figure.subplots`.
    """
    from matplotlib.figure import Figure  # not pyplot: no window, no state

    figure = Figure(figsize=(width / 25.4, height / 25.4), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **subplots)


@styled
def legend_below(figure: Figure, ax: Axes, *, columns: int = 3) -> None:
    """One legend for all axes of the figure, below them, with the lines of `ax`."""
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


@styled
def save(figure: Figure, path: str | os.PathLike) -> tuple[Path, Path]:
    """Write `path`.png and `path`.pdf; the same figure gives the same bytes."""
    path = Path(path)
    if path.suffix in (".png", ".pdf"):
        path = path.with_suffix("")
    path.parent.mkdir(parents=True, exist_ok=True)
    png, pdf = (path.with_name(path.name + suffix) for suffix in (".png", ".pdf"))
    figure.savefig(png, metadata={"Software": None})
    figure.savefig(pdf, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return png, pdf
