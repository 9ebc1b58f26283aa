"""A contact sheet of a data set, like Figures 4 and 5 of the paper."""

from collections.abc import Sequence

import numpy as np


def contact_sheet(
    top: Sequence[tuple[str, np.ndarray]],
    bottom: Sequence[tuple[str, np.ndarray]],
    *,
    title: str,
    columns: int = 10,
):
    """Draw captioned images in two groups, e.g. every class, and one image at every size factor.

    Takes pairs of caption and uint8 image `(h, w, c)`; returns a matplotlib figure.
    """
    from matplotlib.figure import Figure

    rows = [
        group[start : start + columns]
        for group in (top, bottom)
        for start in range(0, len(group), columns)
    ]
    figure = Figure(figsize=(1.3 * columns, 1.55 * len(rows) + 0.5), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for ax in line:
            ax.set_axis_off()
        for ax, (caption, image) in zip(line, row, strict=False):
            shown = image[..., 0] if image.shape[-1] == 1 else image
            ax.imshow(shown, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            ax.set_title(caption, fontsize=8)
    return figure
