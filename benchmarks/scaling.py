"""How the cost of a network grows with image size, number of scale channels, and density.

Writes docs/figures/scaling.png.
"""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks.report import print_table, record
from benchmarks.timing import Worker, disturbed, median_seconds

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "scaling.png"
RECIPE = "fashion_avg_2jet"
COARSE = 1 / math.sqrt(2)
DENSITIES = (0.5, COARSE, 1.0, math.sqrt(2), 2.0, None)
SIZES = (32, 64, 128, 256)
CHANNELS = (1, 2, 3, 4, 5, 6, 7)
REPEATS = 3


def run() -> dict:
    from training import recipes

    sigmas = recipes.get(RECIPE).config.channel_sigmas
    lines = []
    for selection in ("centre", "max"):
        for density in (None, COARSE):
            changes = {"spatial_selection": selection, "sampling_density": density}
            points = [(n, 2, changes | {"input_size": (n, n)}) for n in SIZES]
            lines.append(_line("image size", f"{selection}, {_name(density)}", points))
    for density in (None, COARSE):
        points = [
            (n, 8, {"sampling_density": density, "channel_sigmas": sigmas[:n]}) for n in CHANNELS
        ]
        lines.append(_line("scale channels", _name(density), points))
    # "every pixel" is drawn at the right end
    points = [
        (density or 2 * math.sqrt(2), 8, {"sampling_density": density}) for density in DENSITIES
    ]
    lines.append(_line("density", "centre", points))
    return {"recipe": RECIPE, "lines": lines}


def _name(density: float | None) -> str:
    return "every pixel" if density is None else "coarse grids"


def _line(axis: str, label: str, points: list) -> dict:
    """Inference time per image at every (position, batch, changes of the config)."""
    measured = []
    for position, batch, changes in points:
        with Worker("tensorflow") as worker:
            case = "benchmarks.cases:our_inference"
            worker.prepare(case, recipe=RECIPE, batch=batch, **changes)
            samples = [worker.sample(case) for _ in range(REPEATS)]
        milliseconds = 1000 * median_seconds(samples) / batch
        measured.append([position, milliseconds, disturbed(samples)])
    return {"axis": axis, "label": label, "points": measured}


def plot(result: dict):
    """A figure with one panel per thing that grows."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(10, 3.2), layout="constrained")
    panels = figure.subplots(1, 3)
    titles = ("image size", "scale channels", "density")
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
    for ax, axis in zip(panels, titles, strict=True):
        lines = [line for line in result["lines"] if line["axis"] == axis]
        for colour, line in zip(colours, lines, strict=False):
            x, y, _ = zip(*line["points"], strict=True)
            ax.plot(x, y, "o-", color=colour, label=line["label"], markersize=4)
        ax.set(xlabel=axis, ylabel="ms per image", yscale="log")
        if axis != "scale channels":
            ax.set_xscale("log")
            ax.set_xticks(x, [f"{value:.2g}" if value < 10 else f"{value:g}" for value in x])
            ax.minorticks_off()
        if len(lines) > 1:
            ax.legend(frameon=False, fontsize=8)
    panels[2].set_xlabel("density (right end: every pixel)")
    return figure


def main() -> None:
    result = run()
    print_table(
        ("axis", "line", "position", "ms per image"),
        [
            (line["axis"], line["label"], float(position), milliseconds)
            for line in result["lines"]
            for position, milliseconds, _ in line["points"]
        ],
    )
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    plot(result).savefig(FIGURE, dpi=150)
    record("scaling", result)


if __name__ == "__main__":
    main()
