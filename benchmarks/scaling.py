"""How the cost of a network grows with image size, number of scale channels, and density.

Writes docs/figures/scaling.png and .pdf; from the last measurement, without a new one:

    python -c "from benchmarks import scaling; scaling.draw()"
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from benchmarks.report import RESULTS, print_table, record
from benchmarks.timing import Worker, disturbed, median_seconds
from gdn_keras.utils.figure_style import PALETTE, Style, draw_lines, new_figure, save, styled

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "scaling"
RECIPE = "fashion_avg_2jet"
COARSE = 1 / math.sqrt(2)
DENSITIES = (0.5, COARSE, 1.0, math.sqrt(2), 2.0, None)
EVERY_PIXEL = 2 * math.sqrt(2)  # where no density is drawn: one step to the right of the others
SIZES = (32, 64, 128, 256)
CHANNELS = (1, 2, 3, 4, 5, 6, 7)
REPEATS = 3
WAYS = {  # to compute the same network
    "every pixel": {"sampling_density": None},
    "coarse grids": {"sampling_density": COARSE},
    "coarse grids, reach 1": {"sampling_density": COARSE, "reach": 1.0},
}
_CENTRE = (
    Style(PALETTE[0], "o"),
    Style(PALETTE[1], "s", (3, 1.5)),
    Style(PALETTE[4], "v", (1, 1)),
)
STYLES = {
    **dict(zip(WAYS, _CENTRE, strict=True)),
    **{f"centre, {way}": style for way, style in zip(WAYS, _CENTRE, strict=True)},
    "max, every pixel": Style(PALETTE[2], "^"),
    "max, coarse grids": Style(PALETTE[3], "D", (3, 1.5)),
}


def run() -> dict:
    from training import recipes

    sigmas = recipes.get(RECIPE).config.channel_sigmas
    lines = []
    for selection in ("centre", "max"):
        for way, changes in WAYS.items():
            if selection == "max" and "reach" in changes:  # every position is looked at anyway
                continue
            changes = changes | {"spatial_selection": selection}
            points = [(n, 2, changes | {"input_size": (n, n)}) for n in SIZES]
            lines.append(_line("image size", f"{selection}, {way}", points))
    for way, changes in WAYS.items():
        points = [(n, 8, changes | {"channel_sigmas": sigmas[:n]}) for n in CHANNELS]
        lines.append(_line("scale channels", way, points))
    points = [(density or EVERY_PIXEL, 8, {"sampling_density": density}) for density in DENSITIES]
    lines.append(_line("density", "centre", points))
    return {"recipe": RECIPE, "lines": lines}


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


@styled
def plot(result: dict):
    """A figure of column width with one panel per thing that grows."""
    from matplotlib.ticker import LogLocator

    figure, axes = new_figure(height=150, rows=3)
    names = {
        "image size": "image size (pixels)",
        "scale channels": "scale channels",
        "density": "sampling density (samples per sigma)",
    }
    for ax, (axis, name) in zip(axes[:, 0], names.items(), strict=True):
        lines = {line["label"]: line["points"] for line in result["lines"] if line["axis"] == axis}
        curves = {label: {x: y for x, y, _ in points} for label, points in lines.items()}
        draw_lines(curves, ax, styles=STYLES)
        ax.set_yscale("log", subs=())
        if max(points[-1][1] for points in lines.values()) < 100:
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.set(xlabel=name, ylabel="ms per image")
        if axis != "scale channels":
            xs = sorted(next(iter(curves.values())))
            ax.set_xscale("log")
            ax.set_xticks(xs, [_tick(x) for x in xs])
            ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        ax.grid(axis="y")
        if len(curves) > 1:
            ax.legend()
    return figure


def _tick(x: float) -> str:
    if x == EVERY_PIXEL:
        return "every\npixel"
    return f"{x:.2g}" if x < 10 else f"{x:g}"


def draw() -> None:
    """The figure from the last line about this benchmark in results.jsonl."""
    lines = map(json.loads, RESULTS.read_text().splitlines())
    save(plot([line for line in lines if line["benchmark"] == "scaling"][-1]), FIGURE)


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
    record("scaling", result)
    draw()


if __name__ == "__main__":
    main()
