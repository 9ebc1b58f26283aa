"""Central differences, the terms of a jet, and scale normalisation.

Axes: x = column, rightwards; y = row, *downwards*. Masks are correlation weights,
response(x) = sum_n w[n] f(x + n), so (-1/2, 0, 1/2) is positive on a ramp that rises to the right.
"""

import math
from typing import NamedTuple

import numpy as np

from gdn_keras.utils.checks import (
    MAX_ORDER,
    check_integer,
    check_number,
    check_order,
    check_sigma,
    checked,
    received,
)

JET_ORDERS = tuple(range(1, MAX_ORDER + 1))
_MASKS = (
    (1.0,),
    (-0.5, 0.0, 0.5),
    (1.0, -2.0, 1.0),
    (-0.5, 1.0, 0.0, -1.0, 0.5),  # the first difference of the second difference
    (1.0, -4.0, 6.0, -4.0, 1.0),
)


class JetTerm(NamedTuple):
    """One partial derivative of a jet: `x` times along the columns, `y` times along the rows."""

    x: int
    y: int
    factor: float  # as printed in front of the coefficient in eq. 2-Jet and 3-Jet: 1 / (x! y!)
    name: str  # "x", "xy", "yyy", …; "0" for the zero-order term

    @property
    def order(self) -> int:
        return self.x + self.y


@checked
def difference_mask(order: int) -> np.ndarray:
    """1-D central difference mask of an order 0…4; 1, 3, 3, 5 or 5 weights.

    The mask is exact on polynomials of its own degree: sum_n n**order w[n] = order!.
    """
    check_order(order)
    return np.array(_MASKS[order])


def difference_radius(jet_order: int) -> int:
    """Samples that the differences of a jet need on either side."""
    return 1 if jet_order <= 2 else 2


@checked
def difference_kernel(kernel: np.ndarray, order: int, *, step: int = 1) -> np.ndarray:
    """The central difference, `step` samples wide, of what `kernel` gives, as one kernel."""
    kernel = np.asarray(kernel)
    if kernel.ndim != 1 or not len(kernel) or not np.isfinite(kernel).all():
        raise ValueError(
            f"`kernel` must be one-dimensional with finite weights. {received('kernel', kernel)}"
        )
    check_integer("step", step, low=1)
    mask = difference_mask(order)
    wide = np.zeros(step * (len(mask) - 1) + 1)
    wide[::step] = mask
    return np.convolve(kernel, wide)


@checked
def jet_terms(order: int, zero_order: bool = False) -> tuple[JetTerm, ...]:
    """Terms of the 1-, 2-, 3- or 4-jet: x, y | xx, xy, yy | xxx, xxy, xyy, yyy | xxxx, ….

    With `zero_order` the smoothed image itself comes first, under the name "0".
    """
    check_order(order, lowest=1)
    pairs = [(k - y, y) for k in range(0 if zero_order else 1, order + 1) for y in range(k + 1)]
    return tuple(
        JetTerm(x, y, 1.0 / (math.factorial(x) * math.factorial(y)), "x" * x + "y" * y or "0")
        for x, y in pairs
    )


@checked
def mask_2d(term: JetTerm, *, radius: int | None = None) -> np.ndarray:
    """Mask of one term, `(2 m + 1, 2 m + 1)`, rows = y downwards, columns = x rightwards.

    Without the factor of the term and without sigma. m = `radius`, or by default the m of the
    smallest jet with that term: 1 up to second order, 2 above.
    """
    smallest = difference_radius(term.order)
    radius = smallest if radius is None else check_integer("radius", radius, low=smallest)
    along_y, along_x = (_padded(difference_mask(k), radius) for k in (term.y, term.x))
    return np.outer(along_y, along_x) + 0.0  # no -0.0


@checked
def jet_masks(order: int, zero_order: bool = False) -> np.ndarray:
    """Masks of all `jet_terms`, `(terms, size, size)`, times their factors but not sigma.

    size = 3 up to a 2-jet, 5 above. A jet layer at scale sigma applies
    sum_d C_d sigma**|d| masks[d] to the smoothed image.
    """
    terms = jet_terms(order, zero_order)
    radius = difference_radius(order)
    return np.stack([term.factor * mask_2d(term, radius=radius) for term in terms])


@checked
def scale_normalisation(sigma: float, order: int) -> float:
    """Factor sigma**order of a derivative, eq. scale-normalised-derivatives with gamma = 1.

    With it the normalised derivatives of an image and of its enlarged copy agree at matching
    scales, which is what makes the network scale covariant.
    """
    return check_sigma(sigma) ** check_order(order)


@checked
def directional_weights(order: int, angle: float) -> np.ndarray:
    """Weights of the partial derivatives of one order in the derivative along a direction.

    The direction is (cos angle, sin angle) in (x, y), so positive angles turn from rightwards to
    downwards. The weights belong to the terms of `jet_terms` of that order, without their
    factors: cos, sin; cos**2, 2 cos sin, sin**2; … (eq. 1st-order-dir-der, 2nd-order-dir-der).
    """
    check_order(order, lowest=1)
    angle = check_number("angle", angle)
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([math.comb(order, y) * cos ** (order - y) * sin**y for y in range(order + 1)])


def _padded(mask: np.ndarray, radius: int) -> np.ndarray:
    return np.pad(mask, radius - len(mask) // 2)
