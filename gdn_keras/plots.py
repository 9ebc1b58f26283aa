"""Figures of publication quality: arrays and axes in, nothing read, nothing saved but by `save`.

>>> figure, axes = new_figure(height=60)
>>> plot_scale_generalisation({"average pooling": {0.5: 87.1, 1.0: 93.0, 2.0: 92.4}}, axes[0, 0])
>>> save(figure, "docs/figures/fashion")          # fashion.png and fashion.pdf

Made to be printed one column (85 mm) wide without scaling. Colours are those of Okabe and Ito,
which people with any kind of colour vision tell apart; lines differ in their markers too. Where
several panels or figures show the same things, `styles` says how each label looks in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gdn_keras.config import POOLINGS
from gdn_keras.utils.checks import checked
from gdn_keras.utils.figure_style import COLUMN as COLUMN
from gdn_keras.utils.figure_style import MARKERS, draw_lines, styled
from gdn_keras.utils.figure_style import PALETTE as PALETTE
from gdn_keras.utils.figure_style import Style as Style
from gdn_keras.utils.figure_style import legend_below as legend_below
from gdn_keras.utils.figure_style import new_figure as new_figure
from gdn_keras.utils.figure_style import png_bytes as png_bytes
from gdn_keras.utils.figure_style import save as save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gdn_keras.datasets.dataset import Sizes
    from gdn_keras.explain import Detection

BLUE_WHITE_RED = ("#053061", "#4393C3", "#FFFFFF", "#D6604D", "#67001F")
SIZE_FACTOR_LABELS = {0.5: "½", 2**-0.5: "1/√2", 1.0: "1", 2**0.5: "√2", 2.0: "2"}


# === Accuracies ===


@checked
def plot_accuracy(
    curves: Mapping[str, Mapping[float, float]],
    ax: Axes,
    *,
    sizes: Sizes,
    train_sizes: str | None = None,
    styles: Mapping[str, Style] | None = None,
) -> None:
    """Accuracy against the sizes of a data set, whatever they are.

    Args:
        curves: label -> {size: accuracy in %}.
        ax: where to draw.
        sizes: of the record of the data set.
        train_sizes: the name of the range trained on, if the sizes have ranges.
        styles: label -> how the line looks.
    """
    trained = sizes.trained(train_sizes)
    if sizes.unit == "factor":
        legend = len(curves) > 1
        plot_scale_generalisation(
            curves, ax, training_size=trained[0], styles=styles, legend=legend
        )
    else:
        plot_object_sizes(curves, ax, training_sizes=(trained[0], trained[-1]), styles=styles)


@styled
@checked
def plot_scale_generalisation(
    curves: Mapping[str, Mapping[float, float]],
    ax: Axes,
    *,
    training_size: float = 1.0,
    paper: Mapping[str, tuple[float, float, float]] | None = None,
    styles: Mapping[str, Style] | None = None,
    legend: bool = True,
) -> None:
    """Accuracy against the size of the test images, one line per network.

    Args:
        curves: label -> {size factor: accuracy in %}.
        ax: where to draw.
        training_size: marked by a vertical line.
        paper: label -> (size factor, lowest, highest accuracy in %), drawn as open diamonds with
            error bars, a little to the left so that they hide no point.
        styles: label -> how the line looks.
        legend: leave room for a legend in the axes and draw it.
    """
    draw_lines(curves, ax, styles=styles)
    values = [value for curve in curves.values() for value in curve.values()]
    ax.axvline(training_size, color="0.6", linestyle=":", linewidth=1, zorder=0)
    ax.set_xscale("log", base=2)
    _size_factor_axis(ax, {factor for curve in curves.values() for factor in curve})
    ax.set_ylabel("test accuracy (%)")
    ax.grid(axis="y")
    for n, (label, (factor, low, high)) in enumerate((paper or {}).items(), start=1):
        ax.errorbar(
            [factor * 2 ** (-0.07 * n)],
            [(low + high) / 2],
            yerr=[(high - low) / 2],
            color="black",
            marker="d",
            markersize=5,
            markerfacecolor="white",
            capsize=2,
            linewidth=0.8,
            linestyle="none",
            label=label,
        )
        values += [low, high]
    _limit_accuracies(ax, values, legend=legend)
    ax.annotate(
        "trained",
        (training_size, 1),
        xycoords=("data", "axes fraction"),
        xytext=(2, -1),
        textcoords="offset points",
        va="top",
        fontsize=6,
        color="0.4",
    )


@styled
@checked
def plot_object_sizes(
    curves: Mapping[str, Mapping[int, float]],
    ax: Axes,
    *,
    training_sizes: tuple[int, int],
    others: Mapping[str, Mapping[int, float]] | None = None,
    styles: Mapping[str, Style] | None = None,
) -> None:
    """Accuracy against the size of the object, as of STIR, the sizes trained on shaded.

    Args:
        curves: label -> {side of the object in pixels: accuracy in %}.
        ax: where to draw.
        training_sizes: first and last size trained on.
        others: other networks in the same form, drawn thinner behind.
        styles: label -> how the line looks.
    """
    from matplotlib.ticker import MaxNLocator

    others = others or {}
    first, last = training_sizes
    ax.axvspan(first - 0.5, last + 0.5, color="0.9", linewidth=0, zorder=0)
    draw_lines(curves, ax, styles=styles, markers=False, linewidth=1.8, zorder=3)
    behind = {"first": len(curves), "dashed": True, "linewidth": 0.9}
    draw_lines(others, ax, styles=styles, markers=False, **behind)
    sizes = [size for curve in (*curves.values(), *others.values()) for size in curve]
    ax.set_xlim(min(sizes) - 0.5, max(sizes) + 0.5)
    ticks = MaxNLocator(8, steps=[1, 2, 4, 5, 8, 10], integer=True)  # of STIR multiples of 8
    ticks = ticks.tick_values(min(sizes), max(sizes))
    ax.set_xticks([tick for tick in ticks if min(sizes) <= tick <= max(sizes)])
    ax.set_xlabel("size of the object (pixels)")
    ax.set_ylabel("test accuracy (%)")
    ax.grid(axis="y")
    values = [v for c in (*curves.values(), *others.values()) for v in c.values()]
    low, high = max(0.0, min(values) - 5), min(101.0, max(values) + 3)
    ax.set_ylim(low, high)
    ax.set_yticks([tick for tick in ax.get_yticks() if low <= tick <= min(high, 100)])


@styled
@checked
def plot_agreement(
    groups: Mapping[str, Sequence[tuple[float, float, float]]], ax: Axes, *, unit: str = "%"
) -> None:
    """Published numbers and ours, one point each; on the diagonal they agree.

    Args:
        groups: label -> (published, its standard deviation, ours) of every network.
        ax: where to draw.
        unit: of the numbers.
    """
    values = []
    for n, (label, points) in enumerate(groups.items()):
        published, deviation, ours = np.array(points, dtype=float).reshape(-1, 3).T
        ax.errorbar(
            published,
            ours,
            xerr=deviation,
            fmt=MARKERS[n % len(MARKERS)],
            color=PALETTE[n % len(PALETTE)],
            elinewidth=0.7,
            label=label,
        )
        values += [*(published - deviation), *(published + deviation), *ours]
    ends = np.array([min(values), max(values)]) + np.array([-0.05, 0.05]) * max(np.ptp(values), 1)
    ax.plot(ends, ends, ":", color="0.5", linewidth=1, zorder=0)
    ax.set(xlim=ends, ylim=ends, xlabel=f"paper ({unit})", ylabel=f"this project ({unit})")
    ax.set_aspect("equal")
    ax.grid()
    ax.legend(loc="upper left")


def _limit_accuracies(ax, values: Sequence[float], *, legend: bool) -> None:
    """Limits that show all values and leave a legend its place below them, above 0 % if it fits."""
    low, high = min(values), max(values)
    span = max(high - low, 4.0)
    low -= 0.06 * span
    if legend:
        entries = len(ax.get_legend_handles_labels()[1])
        columns = 1 + (entries > 4)
        low -= 0.09 * span * -(-entries // columns)
        ax.legend(loc="lower center" if low > 0 else "best", ncols=columns)
    ax.set_ylim(max(low, 0.0), min(high + 0.12 * span, 101.0))


def _size_factor_axis(ax, factors: Iterable[float]) -> None:
    from matplotlib.ticker import NullFormatter

    factors = sorted(factors)
    named = {f: label for f, label in SIZE_FACTOR_LABELS.items() if factors[0] <= f <= factors[-1]}
    ax.set_xticks(list(named), list(named.values()))
    ax.set_xticks([f for f in factors if f not in named], minor=True)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("size factor of the test images")


# === Scale selection ===


@styled
@checked
def plot_scale_selection(
    shares: np.ndarray,
    ax: Axes,
    *,
    size_factors: Sequence[float],
    channel_sigmas: Sequence[float],
    pooling: str | None = None,
    title: str = "",
    colour_bar: bool = True,
) -> None:
    """Which scale channels decide, for every size of the test images, as in Figures 7 and 10.

    A dot marks the (geometric) mean scale of every size; a scale-covariant network has them on a
    line of slope one, drawn dotted through the mean of the training size.

    Args:
        shares: of the test images, (size factor, scale channel), 0…1; each row sums to one for a
            histogram over all images, to the accuracy for one over the right answers.
        ax: where to draw.
        size_factors: of the rows.
        channel_sigmas: first-layer sigma of every scale channel.
        pooling: how the network pools over scales. With "max" (and by default) one channel decides
            for every image, with "average" and "logsumexp" all have shares of the output.
        title: above the axes.
        colour_bar: also draw what the colours mean.
    """
    if pooling not in (None, *POOLINGS):
        raise ValueError(f"`pooling` must be one of {POOLINGS}. Received: pooling={pooling!r}.")
    shares = np.asarray(shares, dtype=float)
    if shares.shape != (len(size_factors), len(channel_sigmas)):
        raise ValueError(
            "`shares` must be (size factor, scale channel), "
            f"{(len(size_factors), len(channel_sigmas))}. Received: shape {shares.shape}."
        )
    x, y = np.log2(size_factors), np.log2(channel_sigmas)
    mesh = ax.pcolormesh(_edges(x), _edges(y), 100 * shares.T, cmap="Blues", vmin=0)
    used = shares.sum(axis=1) > 0
    mean = shares[used] @ y / shares[used].sum(axis=1)
    ax.plot(x[used], mean, "o", color=PALETTE[1], markersize=3, label="mean")
    if used.any():
        at = np.abs(x[used]).argmin()  # the training size, 1
        ends = np.array([x[0], x[-1]])
        ax.plot(ends, mean[at] + ends - x[used][at], ":", color=PALETTE[1], linewidth=1)
    ax.set_xlim(_edges(x)[[0, -1]])
    ax.set_ylim(_edges(y)[[0, -1]])
    named = {np.log2(f): label for f, label in SIZE_FACTOR_LABELS.items() if f in size_factors}
    ax.set_xticks(list(named), list(named.values()))
    ax.set_yticks(y, [f"{sigma:.3g}" for sigma in channel_sigmas])
    ax.set_xlabel("size factor of the test images")
    ax.set_ylabel("scale channel σ₀ (px)")
    ax.set_title(title)
    if colour_bar:
        decided = pooling in (None, "max")
        label = "% of the images" if decided else "% of the output"
        ax.figure.colorbar(mesh, ax=ax, label=label, pad=0.02)


def _edges(centres: np.ndarray) -> np.ndarray:
    """Borders of cells around evenly spaced centres; one centre has a cell of width one."""
    step = centres[1] - centres[0] if len(centres) > 1 else 1.0
    return np.append(centres - step / 2, centres[-1] + step / 2)


# === Maps, filters, scales ===


@styled
@checked
def plot_activation_maps(
    image: np.ndarray,
    maps: np.ndarray,
    axes: Sequence[Axes],
    *,
    titles: Sequence[str] = (),
    image_title: str = "",
    colour_bar: bool = True,
) -> None:
    """An image and its activation maps on one common colour scale, as in Figures 19 and 20.

    Args:
        image: raw pixels, (height, width, 1 or 3).
        maps: of one class, (map, height, width); a cross marks the maximum of each.
        axes: one for the image, then one per map.
        titles: of the maps.
        image_title: above the image.
        colour_bar: also draw what the colours mean.
    """
    if len(axes) != len(maps) + 1:
        raise ValueError(f"`axes` must be {len(maps) + 1}. Received: {len(axes)} axes.")
    show_image(image, axes[0], title=image_title)
    high = max(float(np.max(maps)), 1e-6)
    for n, (ax, values) in enumerate(zip(axes[1:], maps, strict=True)):
        picture = ax.imshow(values, cmap="viridis", vmin=0, vmax=high, interpolation="nearest")
        row, column = np.unravel_index(np.argmax(values), values.shape)
        ax.plot(column, row, "+", color="white", markersize=5, markeredgewidth=0.8)
        _bare(ax, titles[n] if n < len(titles) else "")
    if colour_bar:
        bar = axes[0].figure.colorbar(picture, ax=list(axes[1:]), pad=0.02, aspect=12)
        bar.ax.tick_params(labelsize=6)
        bar.set_label("response", fontsize=6)


@styled
@checked
def plot_filters(
    filters: Sequence[np.ndarray], axes: Sequence[Axes], *, titles: Sequence[str] = ()
) -> None:
    """Filters as images, positive red, negative blue, zero white, as in Figures 21 and 22.

    Every filter has its own colour scale. `axes` beyond the number of filters are left empty.
    """
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("signed", BLUE_WHITE_RED)
    for n, ax in enumerate(axes):
        if n >= len(filters):
            ax.set_axis_off()
            continue
        high = max(float(np.abs(filters[n]).max()), 1e-12)
        ax.imshow(filters[n], cmap=colours, vmin=-high, vmax=high, interpolation="nearest")
        _bare(ax, titles[n] if n < len(titles) else "")
        ax.title.set_fontsize(6)


@styled
@checked
def plot_detections(
    image: np.ndarray, detections: Iterable[Detection], ax: Axes, *, title: str = ""
) -> None:
    """An image with a circle for everything `gdn_keras.explain.localise` found.

    Names and scales are shown below the image, strongest first, where they cover nothing.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle

    show_image(image, ax, title=title)
    height, width = image.shape[:2]
    handles = []
    for n, found in enumerate(detections):
        colour = PALETTE[(1, 5, 4, 3, 2)[n % 5]]  # the ones that stand out on black and on white
        look = {"color": colour, "linewidth": 1.2, "linestyle": ("-", "--", ":")[n // 5 % 3]}
        ax.add_patch(Circle((found.column, found.row), found.radius, fill=False, **look))
        name = found.class_name or f"class {found.class_index}"
        handles.append(Line2D([], [], label=f"{name}, σ₀ = {found.sigma:.3g}", **look))
    if handles:
        ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=2)
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(height - 0.5, -0.5)


@styled
@checked
def plot_sigmas(
    sigmas: Mapping[str, Sequence[float]],
    ax: Axes,
    *,
    fits: Mapping[str, tuple[float, float]] | None = None,
    styles: Mapping[str, Style] | None = None,
) -> None:
    """Sigma of every layer, one line per network, as in Figure 18.

    Args:
        sigmas: label -> sigma of layers 1, 2, …
        ax: where to draw.
        fits: label -> (sigma_0, ratio), drawn as the dashed line sigma_0 * ratio**(k - 1): in the
            colour of the network with that label, else in grey with an entry in the legend.
        styles: label -> how the line looks.
    """
    lines = {label: dict(enumerate(values, 1)) for label, values in sigmas.items()}
    draw_lines(lines, ax, styles=styles)
    colours = {line.get_label(): line.get_color() for line in ax.lines}
    layers = np.arange(1, max(map(len, sigmas.values())) + 1)
    for label, (sigma_0, ratio) in (fits or {}).items():
        ax.plot(
            layers,
            sigma_0 * ratio ** (layers - 1.0),
            color=colours.get(label, "0.4"),
            linestyle="--",
            linewidth=0.8,
            label=f"_fit of {label}" if label in colours else label,  # _: not in the legend
            zorder=0,
        )
    ax.set_yscale("log", base=2)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xticks(layers)
    ax.set_xlabel("layer")
    ax.set_ylabel("σ (pixels)")
    ax.grid(axis="y")
    ax.legend(loc="upper left")


@styled
@checked
def show_image(image: np.ndarray, ax: Axes, *, title: str = "") -> None:
    """Raw pixels 0…255, (height, width, 1 or 3)."""
    image = np.clip(np.asarray(image, dtype=float) / 255, 0, 1)
    if image.shape[-1] == 1:
        ax.imshow(image[..., 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    else:
        ax.imshow(image, interpolation="nearest")
    _bare(ax, title)


def _bare(ax, title: str) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.3)
    ax.set_title(title, fontsize=7, pad=2)
