"""The discretisations of Gaussian derivatives: one table, and the kernels that its rows name.

| method                  | smoothing                     | derivatives                         |
|-------------------------|-------------------------------|-------------------------------------|
| `discrete`              | exp(-s) I_n(s), s = sigma**2  | central differences after smoothing |
| `sampled`               | the Gaussian g at n           | central differences after smoothing |
| `normalised`            | g at n, divided by its sum    | central differences after smoothing |
| `integrated`            | g integrated over pixel n     | central differences after smoothing |
| `sampled_derivative`    | as `sampled`                  | the derivative of g at n            |
| `integrated_derivative` | as `integrated`               | the derivative of g over pixel n    |

Whatever depends on the method asks its row, so a new method is a new row here. If its kernel is
new, too, `gdn_keras.layers.learned` needs the same kernel as a function of a learned sigma.

A kernel is called as `kernel(sigma, order, radius, offset)` and gives the weights
n = -radius … radius of the infinite kernel, or n = -radius + 1 … radius half way between samples
(`offset` 0.5). Weights are correlation weights.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from gdn_keras.scale_space.differences import difference_radius
from gdn_keras.utils.checks import check_choice

PIXEL_VARIANCE = 1 / 12  # of a box of width one: what integrating over a pixel adds to sigma**2


@dataclass(frozen=True, kw_only=True)
class Discretisation:
    """One row of `DISCRETISATIONS`."""

    kernel: Callable[[float, int, int, float], np.ndarray]  # of order 0 only if hybrid
    hybrid: bool  # derivatives are central differences after smoothing
    integrated: bool  # over pixels, which can be compensated for
    lowest_half_way: float = 0.0  # the smallest sigma half way between samples

    def orders(self, highest: int) -> range:
        """The orders that need their own kernel, for derivatives up to `highest`."""
        return range(1) if self.hybrid else range(highest + 1)

    def ring(self, jet_order: int) -> int:
        """Samples that the differences of a jet need on either side of what they give."""
        return difference_radius(jet_order) if self.hybrid else 0


def discretisation_of(method: str) -> Discretisation:
    """The row of a method."""
    return DISCRETISATIONS[check_choice("method", method, METHODS)]


def discrete_gaussian(sigma, order, radius, offset):
    """The discrete analogue; half way, that for sigma**2 - 1/4 followed by (1/2, 1/2)."""
    n = np.arange(-radius, radius + 1.0)
    if offset:
        kernel = scipy.special.ive(n, sigma**2 - 0.25)
        return (kernel[1:] + kernel[:-1]) / 2
    return scipy.special.ive(n, sigma**2)


def sampled_gaussian(sigma, order, radius, offset):
    return _gaussian(_positions(radius, offset), sigma, order)


def normalised_gaussian(sigma, order, radius, offset):
    exponents = -((_positions(radius, offset) / sigma) ** 2) / 2
    kernel = np.exp(exponents - exponents.max())  # half way, all would underflow at tiny sigma
    return kernel / kernel.sum()


def integrated_gaussian(sigma, order, radius, offset):
    positions = _positions(radius, offset)
    if order == 0:
        positions = np.abs(positions)  # differences of small tails, not of numbers close to one
    lower, upper = (_gaussian(positions + side, sigma, order - 1) for side in (-0.5, 0.5))
    return lower - upper


DISCRETISATIONS = {
    "discrete": Discretisation(
        kernel=discrete_gaussian, hybrid=True, integrated=False, lowest_half_way=0.5
    ),
    "sampled": Discretisation(kernel=sampled_gaussian, hybrid=True, integrated=False),
    "normalised": Discretisation(kernel=normalised_gaussian, hybrid=True, integrated=False),
    "integrated": Discretisation(kernel=integrated_gaussian, hybrid=True, integrated=True),
    "sampled_derivative": Discretisation(kernel=sampled_gaussian, hybrid=False, integrated=False),
    "integrated_derivative": Discretisation(
        kernel=integrated_gaussian, hybrid=False, integrated=True
    ),
}
METHODS = tuple(DISCRETISATIONS)


def _positions(radius, offset):
    positions = np.arange(-radius, radius + 1.0)
    return positions[1:] - 0.5 if offset else positions


def _gaussian(x, sigma, order):
    """(-1)**order times the derivative of the Gaussian; for order -1 its integral from x on."""
    u = x / sigma
    if order == -1:
        return scipy.special.ndtr(-u)
    squared = u * u  # products are exactly even or odd
    hermite = (1.0, u, squared - 1, u * (squared - 3), squared * (squared - 6) + 3)[order]
    return hermite * np.exp(-u * u / 2) / (math.sqrt(2 * math.pi) * sigma ** (order + 1))
