"""Checks of arguments that several files of this folder share."""

import math
import numbers

MAX_ORDER = 3
# Far beyond any image on both sides. Below, 1 / sigma**4 and above, the Bessel functions, would
# sooner or later leave the range of float64.
SIGMA_RANGE = (1e-3, 1e4)


def check_sigma(sigma: float) -> float:
    low, high = SIGMA_RANGE
    is_number = isinstance(sigma, numbers.Real) and not isinstance(sigma, bool)
    if not is_number or not low <= sigma <= high:
        raise ValueError(
            f"`sigma` must be a positive number of pixels, from {low:g} to {high:g}. "
            f"Received: sigma={sigma!r}."
        )
    return float(sigma)


def check_order(order: int, *, lowest: int = 0) -> int:
    is_integer = isinstance(order, numbers.Integral) and not isinstance(order, bool)
    if not is_integer or not lowest <= order <= MAX_ORDER:
        raise ValueError(
            f"`order` must be an integer from {lowest} to {MAX_ORDER}. Received: order={order!r}."
        )
    return int(order)


def check_positive(name: str, value: float) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not (math.isfinite(value) and value > 0):
        raise ValueError(f"`{name}` must be a positive finite number. Received: {name}={value!r}.")
    return float(value)


def check_count(name: str, value: int, *, lowest: int) -> int:
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or value < lowest:
        raise ValueError(
            f"`{name}` must be an integer of at least {lowest}. Received: {name}={value!r}."
        )
    return int(value)
