"""Checks of arguments that several files of this folder share."""

import math
import numbers

MAX_ORDER = 4
# Far beyond any image on both sides. Below, 1 / sigma**5 and above, the Bessel functions, would
# sooner or later leave the range of float64.
SIGMA_RANGE = (1e-3, 1e4)


def check_sigma(sigma: float) -> float:
    low, high = SIGMA_RANGE
    expected = f"a positive number of pixels, from {low:g} to {high:g}"
    return check_number("sigma", sigma, low=low, high=high, expected=expected)


def check_number(
    name: str,
    value: float,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    expected: str = "a finite number",
) -> float:
    """A real number with low <= value <= high, as a float. Bounds are inclusive."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_real or not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}.")
    return float(value)


def check_order(order: int, *, lowest: int = 0) -> int:
    expected = f"an integer from {lowest} to {MAX_ORDER}"
    return check_integer("order", order, low=lowest, high=MAX_ORDER, expected=expected)


def check_integer(
    name: str, value: int, *, low: int, high: float = math.inf, expected: str | None = None
) -> int:
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not low <= value <= high:
        expected = expected or f"an integer of at least {low}"
        raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}.")
    return int(value)
