"""What all figures have in common: style, size, legend, files. Use it through `gdn_keras.plots`."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gdn_keras.utils.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 85.0  # width in mm
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ((3, 1.5), (1, 1), (5, 1.5, 1, 1.5), (6, 2), (4, 1, 1, 1, 1, 1))


class Style(NamedTuple):
    """How a line looks."""

    colour: str
    marker: str = "o"
    dashes: tuple[float, ...] = ()  # lengths of dash, gap, …; () is a solid line


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
def legend_below(figure: Figure, *axes: Axes, columns: int = 3) -> None:
    """One legend below the figure with the lines of `axes`, each label once."""
    handles = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    place = {"loc": "outside lower center", "ncols": columns}
    figure.legend(handles.values(), handles.keys(), **place)


@styled
def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG file; the same figure gives the same bytes."""
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


@styled
def save(figure: Figure, path: str | os.PathLike) -> tuple[Path, Path]:
    """Write `path`.png and `path`.pdf; the same figure gives the same bytes."""
    path = Path(path)
    if path.suffix in (".png", ".pdf"):
        path = path.with_suffix("")
    path.parent.mkdir(parents=True, exist_ok=True)
    png, pdf = (path.with_name(path.name + suffix) for suffix in (".png", ".pdf"))
    vectors = io.BytesIO()
    metadata = {"CreationDate": None, "Creator": None, "Producer": None}
    figure.savefig(vectors, format="pdf", metadata=metadata)
    replace_file(png, content=png_bytes(figure))
    replace_file(pdf, content=vectors.getvalue())
    return png, pdf


def draw_lines(
    curves: Mapping[str, Mapping[float, float]],
    ax: Axes,
    *,
    styles: Mapping[str, Style] | None = None,
    first: int = 0,
    markers: bool = True,
    dashed: bool = False,
    **options,
) -> None:
    """One line per label. Labels without a style are styled by their place, from `first` on."""
    for n, (label, curve) in enumerate(curves.items(), start=first):
        # a second round through the palette, and lines in the background, are dashed
        dashes = DASHES[n % len(DASHES)] if dashed or n >= len(PALETTE) else ()
        place = Style(PALETTE[n % len(PALETTE)], MARKERS[n % len(MARKERS)], dashes)
        style = (styles or {}).get(label, place)
        xs = sorted(curve)
        ax.plot(
            xs,
            [curve[x] for x in xs],
            color=style.colour,
            marker=style.marker if markers else None,
            linestyle=(0, style.dashes) if style.dashes else "-",
            label=label,
            **options,
        )
