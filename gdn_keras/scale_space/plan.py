"""The sampling plan: which samples of every layer are computed, decided before any tensor exists.

All sample positions are measured in pixels from the centre of the image. A layer lives on a
centred grid, positions (i - (count - 1) / 2) * spacing, i = 0 … count - 1, so along one axis the
two numbers of a `Grid` say everything:

    72 pixels            Grid(72, 1)     positions -35.5 … 35.5, the centre half way between two
    every second, coarse Grid(37, 2)     positions -36, -34 … 36, the centre is a sample

Four reductions (each can be read off the plan alone):

* Window: with centre selection, a layer is computed only where it can reach the centre. Exact.
* Reach: the radii of all later layers add up to far more than what these layers see together, one
  Gaussian of variance sum sigma**2. With a `reach`, a layer is computed as far as that many times
  the radius of this one Gaussian; beyond, what is computed is padded like an image. Approximate;
  `reach=None` adds up the radii.
* Coarse grids: a layer at scale sigma is kept at the spacing s, the largest power of two with
  sigma / s >= density. Coarse grids always contain the centre. Approximate; `density=None` keeps
  every pixel.
* Smoothing, padding, cropping and subsampling along one axis are one small matrix A, so a layer's
  smoothing is A_rows x A_columns^T, whatever the padding. On large images, where A is a narrow
  band, the kernel is slid along the samples instead: see `Correlation`.

Padding "mirror" differs from the others: layers do not pad their inputs; the image is extended by
mirroring, and layers are computed outside it, too, as far as their windows go. The border of the
image is then nothing special for any layer but the first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdn_keras.scale_space.kernels import derivative_kernel, truncation_radius
from gdn_keras.utils.checks import (
    check_choice,
    check_integer,
    check_number,
    check_sigma,
    checked,
    received,
)

PADDINGS = ("zero", "reflect", "edge", "mirror")
SELECTIONS = ("centre", "max", "none")
# A product with a matrix takes 1.5 + 0.018 samples, a sliding kernel 2.7 + 0.04 weights
# nanoseconds per value (smoothing and its gradient, benchmarks/smoothing.py): they meet here.
SLIDE_FROM = 80  # samples …
TAP_WORTH = 2  # … and this many for every weight of the kernel


@dataclass(frozen=True)
class Grid:
    """A centred row of `count` samples, `spacing` pixels apart."""

    count: int
    spacing: int = 1

    @property
    def half_width(self) -> float:
        """Distance in pixels from the centre to the outermost sample."""
        return (self.count - 1) / 2 * self.spacing


@dataclass(frozen=True)
class Axis:
    """One axis of one layer: reads `window`, the middle of `domain`, and gives `output`.

    What lies outside `domain` is padding. `ring` more output samples are smoothed on either side,
    for the differences that follow.
    """

    domain: Grid
    window: Grid
    output: Grid
    ring: int


@dataclass(frozen=True)
class Smoothing:
    """What kernel is used; all but the grid that the matrix of a `Correlation` depends on."""

    method: str = "discrete"
    truncation: float = 0.005
    padding: str = "zero"
    compensate_integration: bool = False
    jet_order: int = 2


@dataclass(frozen=True)
class LayerPlan:
    """One layer of one scale channel."""

    sigma: float  # in pixels
    rows: Axis
    columns: Axis

    @property
    def output_size(self) -> tuple[int, int]:
        return self.rows.output.count, self.columns.output.count

    def to_list(self) -> list:
        """As nested lists of numbers, for JSON."""
        axes = [
            [axis.ring, *((g.count, g.spacing) for g in (axis.domain, axis.window, axis.output))]
            for axis in (self.rows, self.columns)
        ]
        return [self.sigma, *axes]

    @classmethod
    def from_list(cls, data: list) -> LayerPlan:
        try:
            sigma, *axes = data
            rows, columns = (Axis(*(Grid(*g) for g in grids), ring) for ring, *grids in axes)
            for axis in (rows, columns):
                check_integer("ring", axis.ring, low=0)
                for grid in (axis.domain, axis.window, axis.output):
                    check_integer("count", grid.count, low=1)
                    check_integer("spacing", grid.spacing, low=1)
            return cls(check_sigma(sigma), rows, columns)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`plans` must be as `LayerPlan.to_list` gives them: {error} "
                f"{received('plan', data)}"
            ) from None


@dataclass(frozen=True)
class ChannelPlan:
    """All layers of one scale channel."""

    layers: tuple[LayerPlan, ...]


@checked
def plan_channel(
    image_size: tuple[int, int],
    *,
    sigmas: tuple[float, ...],
    smoothing: Smoothing,
    ring: int,
    selection: str = "centre",
    density: float | None = None,
    reach: float | None = None,
    radius_sigmas: tuple[float, ...] | None = None,
    window: bool = True,
) -> ChannelPlan:
    """Plan one scale channel whose layers have the scales `sigmas`.

    Args:
        image_size: height and width in pixels.
        sigmas: sigma of every layer, in pixels, non-decreasing if `density` is given.
        smoothing: the kernel and the padding.
        ring: samples around a layer's output that its differences need (0 if the method's kernels
            are derivatives themselves).
        selection: what is read of the last layer: the centre, or everything ("max", "none").
        density: samples per sigma on the coarse grids; None keeps every pixel.
        reach: how far layers are computed, as a factor on the radius of all later layers together;
            None as far as their radii add up.
        radius_sigmas: the largest sigmas the plan must serve, if they can grow (learned scales).
        window: False computes every layer on all its samples.
    """
    sigmas, radius_sigmas = tuple(sigmas), tuple(sigmas if radius_sigmas is None else radius_sigmas)
    for size in image_size:
        check_integer("image_size", size, low=1)
    check_integer("ring", ring, low=0)
    check_choice("selection", selection, SELECTIONS)
    check_choice("padding", smoothing.padding, PADDINGS)
    for name, values in (("sigmas", sigmas), ("radius_sigmas", radius_sigmas)):
        if not values or len(values) != len(sigmas):
            raise ValueError(
                f"`{name}` must be one for each layer, and there must be layers. "
                f"Received: {name}={values}."
            )
        for sigma in values:
            check_sigma(sigma, name=name)
    if density is not None:
        check_number("density", density, low=1e-3, expected="None or a number of at least 0.001")
        if list(sigmas) != sorted(sigmas):  # a coarse grid cannot become finer again
            raise ValueError(
                f"`sigmas` must not decrease if there is a `density`. Received: sigmas={sigmas}."
            )
    if reach is not None:
        check_number("reach", reach, low=0.5, expected="None or a number of at least 0.5")
    spacings = [_spacing(sigma, density) for sigma in sigmas]
    spacings = [max(spacings[: k + 1]) for k in range(len(spacings))]
    if selection == "centre" and len(spacings) > 1:
        spacings[-1] = spacings[-2]  # one sample is left: a coarser grid would save nothing
    axes = [
        _plan_axis(
            size,
            sigmas=radius_sigmas,
            spacings=spacings,
            smoothing=smoothing,
            ring=ring,
            everywhere=not window or selection != "centre",
            reach=reach,
        )
        for size in image_size
    ]
    return ChannelPlan(
        tuple(
            LayerPlan(sigma, rows, columns)
            for sigma, rows, columns in zip(sigmas, *axes, strict=True)
        )
    )


def _spacing(sigma: float, density: float | None) -> int:
    if density is None or sigma < 2 * density:
        return 1
    return 2 ** math.floor(math.log2(sigma / density) + 1e-9)


def _domain(size: int, spacing: int) -> Grid:
    """The samples of a whole layer; on coarse grids the last one is nearest to the border."""
    if spacing == 1:
        return Grid(size)
    return Grid(2 * round((size - 1) / 2 / spacing) + 1, spacing)


def _plan_axis(size, *, sigmas, spacings, smoothing, ring, everywhere, reach) -> list[Axis]:
    domains = [_domain(size, spacing) for spacing in (1, *spacings)]
    last = domains[-1]
    output = last if everywhere else Grid(2 - last.count % 2, last.spacing)
    selected = output.half_width
    axes = []
    for k in reversed(range(len(sigmas))):
        domain = domains[k]
        offset = _offset(domain, output)
        radius = kernel_radius(sigmas[k] / domain.spacing, smoothing, offset) - offset
        needed = output.half_width + ring * output.spacing + radius * domain.spacing
        limit = math.inf
        if reach is not None and 0 < k < len(sigmas) - 1:
            together = kernel_radius(math.hypot(*sigmas[k:]) / domain.spacing, smoothing)
            limit = selected + (reach * together + ring) * domain.spacing
        extended = smoothing.padding == "mirror" and k > 0
        if extended:
            window = _middle(domain, min(needed, limit))
        else:
            window = domain if everywhere else _window(domain, min(needed, limit))
        if extended or limit < needed:  # nothing is computed beyond: padding begins here
            domain = window
        axes.append(Axis(domain, window, output, ring))
        output = window
    return axes[::-1]


def offset_of(axis: Axis) -> float:
    """0.5 if the output's samples fall half way between the domain's, else 0."""
    return _offset(axis.domain, axis.output)


def _offset(domain: Grid, output: Grid) -> float:
    return (output.half_width - domain.half_width) / domain.spacing % 1.0


def _window(domain: Grid, reach: float) -> Grid:
    """The smallest middle part of `domain` that covers `reach` pixels from the centre."""
    return min(domain, _middle(domain, reach), key=lambda grid: grid.count)


def _middle(domain: Grid, reach: float) -> Grid:
    """The same samples as far as `reach` pixels from the centre, in `domain` or beyond."""
    odd = domain.count % 2
    pairs = math.ceil(reach / domain.spacing + (0 if odd else 0.5) - 1e-9)
    return Grid(2 * pairs + odd, domain.spacing)


def kernel_radius(sigma: float, smoothing: Smoothing, offset: float = 0.0) -> int:
    """Radius in samples that covers every kernel a layer needs.

    Kernels that are derivatives have the radius of a 3-jet at least, whatever jet they are for.
    """
    return truncation_radius(
        sigma,
        method=smoothing.method,
        truncation=smoothing.truncation,
        order=max(3, smoothing.jet_order),
        offset=offset,
        compensate_integration=smoothing.compensate_integration,
    )


def axis_kernel(axis: Axis, sigma: float, smoothing: Smoothing, order: int = 0) -> np.ndarray:
    """1-D correlation weights on the samples of `axis`; `sigma` is in pixels.

    An `order` above 0 is for the methods whose kernels are derivatives, and counts per sample of
    the domain, so (sigma / domain.spacing) ** order normalises it.
    """
    grid_sigma = sigma / axis.domain.spacing
    offset = offset_of(axis)
    return derivative_kernel(
        grid_sigma,
        order,
        method=smoothing.method,
        radius=kernel_radius(grid_sigma, smoothing, offset),
        offset=offset,
        compensate_integration=smoothing.compensate_integration,
    )


@dataclass(frozen=True)
class Correlation:
    """A kernel on the samples of an axis: as a matrix, or as what sliding it needs."""

    axis: Axis
    kernel: np.ndarray
    padding: str

    @cached_property
    def matrix(self) -> np.ndarray:
        """A with A x = the correlated samples: (output.count + 2 ring, window.count), read-only."""
        places = placement(self.axis, len(self.kernel), self.padding)
        matrix = np.tensordot(self.kernel, places, axes=1)
        matrix.setflags(write=False)
        return matrix

    @cached_property
    def slides(self) -> bool:
        """Whether sliding the kernel is faster than a product with the matrix."""
        samples = self.axis.window.count
        subsamples = self.axis.output.spacing != self.axis.domain.spacing
        return samples >= SLIDE_FROM + TAP_WORTH * len(self.kernel) and not subsamples

    @cached_property
    def samples(self) -> np.ndarray:
        """Indices in the window, one per sample that the sliding kernel passes; -1 is a zero."""
        first = _first_touched(self.axis, len(self.kernel))
        touched = np.arange(first[0], first[-1] + len(self.kernel))
        inside = _fold(touched, self.axis.domain.count, self.padding)
        return np.where(inside < 0, -1, inside - _margin(self.axis))


def placement(axis: Axis, length: int, padding: str) -> np.ndarray:
    """Where every weight of a kernel of `length` weights goes: (length, rows, columns) of counts.

    A smoothing matrix is linear in its kernel, and this is the linear map; learned scales use it
    to make their matrices inside the network.
    """
    first = _first_touched(axis, length)
    index = _fold(first[None, :] + np.arange(length)[:, None], axis.domain.count, padding)
    weight, row = np.nonzero(index >= 0)
    column = index[weight, row] - _margin(axis)
    if column.min() < 0 or column.max() >= axis.window.count:
        raise ValueError(
            f"`length` must be what the window was planned for at most. Received: {length}, {axis}."
        )
    result = np.zeros((length, len(first), axis.window.count), np.float32)
    result[weight, row, column] = 1
    return result


def _first_touched(axis: Axis, length: int) -> np.ndarray:
    """Index in the domain of the first sample that a kernel touches, for every row of a matrix."""
    rows = axis.output.count + 2 * axis.ring
    centre = (np.arange(rows) - (rows - 1) / 2) * axis.output.spacing / axis.domain.spacing
    return np.rint(centre + (axis.domain.count - length) / 2).astype(int)


def _margin(axis: Axis) -> int:
    """Samples of the domain before the first one of the window."""
    return (axis.domain.count - axis.window.count) // 2


def interpolation(source: Grid, target: Grid) -> np.ndarray:
    """A with A x = the samples x on `source`, read at the positions of `target`.

    Linear between two samples, so a sample that is in both grids keeps its value; beyond the
    outermost samples the value is theirs.
    """
    positions = (np.arange(target.count) - (target.count - 1) / 2) * target.spacing
    index = positions / source.spacing + (source.count - 1) / 2
    index = np.clip(index, 0, source.count - 1)[:, None]
    return np.maximum(0.0, 1 - np.abs(index - np.arange(source.count))).astype(np.float32)


def _fold(index: np.ndarray, count: int, padding: str) -> np.ndarray:
    """Map indices outside 0 … count - 1 back inside; -1 where the padding is zero."""
    if padding == "edge":
        return np.clip(index, 0, count - 1)
    if padding == "reflect":  # without repeating the edge; repeated if the kernel is wider
        period = max(2 * count - 2, 1)
        index = index % period
        return np.minimum(index, period - index) if count > 1 else index * 0
    if padding == "mirror":  # the edge is repeated, as in an image that was extended by mirroring
        index = index % (2 * count)
        return np.minimum(index, 2 * count - 1 - index)
    return np.where((index < 0) | (index >= count), -1, index)
