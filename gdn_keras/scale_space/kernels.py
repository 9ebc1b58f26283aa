"""1-D kernels of Gaussian derivatives, for every method of `discretisations.py`.

All kernels are correlation weights w, response(x) = sum_n w[n] f(x + n), and are not
scale-normalised; w[n] approximates (-1)**order times the derivative of the Gaussian at n.

Truncation: keep the smallest radius with at most `truncation` of sum_n |w[n]| outside. No kernel
is rescaled after truncation, except `normalised`, whose remaining weights sum to one.
"""

import math

import numpy as np

from gdn_keras.scale_space.differences import difference_mask
from gdn_keras.scale_space.discretisations import (
    DISCRETISATIONS,
    PIXEL_VARIANCE,
    discretisation_of,
)
from gdn_keras.utils.checks import check_integer, check_number, check_order, check_sigma, checked
from gdn_keras.utils.deprecation import renamed_arguments


@renamed_arguments(compensate="compensate_integration")
def smoothing_kernel(
    sigma: float,
    *,
    method: str = "discrete",
    radius: int | None = None,
    truncation: float = 0.005,
    offset: float = 0.0,
    compensate_integration: bool = False,
) -> np.ndarray:
    """Order 0 of `derivative_kernel`, with the same arguments."""
    return derivative_kernel(
        sigma,
        0,
        method=method,
        radius=radius,
        truncation=truncation,
        offset=offset,
        compensate_integration=compensate_integration,
    )


@renamed_arguments(compensate="compensate_integration")
@checked
def derivative_kernel(
    sigma: float,
    order: int = 0,
    *,
    method: str = "discrete",
    radius: int | None = None,
    truncation: float = 0.005,
    offset: float = 0.0,
    compensate_integration: bool = False,
) -> np.ndarray:
    """Correlation weights of the derivative of an order 0…4 at scale `sigma`.

    ```
    derivative_kernel(1.0)                         # smoothing, 7 weights that sum to 0.998
    derivative_kernel(1.0, 1)                      # the same followed by (-1/2, 0, 1/2), 9 weights
    derivative_kernel(1.0, 1, radius=2)            # 5 weights for n = -2…2
    derivative_kernel(1.0, offset=0.5, radius=2)   # 4 weights, for n = -1, 0, 1, 2
    ```

    Args:
        sigma: standard deviation in pixels. Accurate from 0.1 to 50, allowed from 0.001 to 10000.
        order: of the derivative.
        method: one of `METHODS`.
        radius: R of the 2 R + 1 returned weights, which are those of the infinite kernel
            (`normalised`: of the kernel that sums to one over all weights the result needs).
            By default, R is `truncation_radius`, plus the radius of the difference mask for the
            hybrid methods: then the weights are exactly those of smoothing with the truncated
            kernel and taking differences after that.
        truncation: share of the kernel that may be left out; used if `radius` is None.
        offset: 0, or 0.5 to evaluate half way between two samples: response(x + 1/2) =
            sum_n w[n] f(x + n) with the 2 R weights n = -R + 1 … R, so entry i belongs to the
            neighbour n = i - R + 1, at distance n - 1/2. `discrete` then is the kernel for
            sigma**2 - 1/4 followed by (1/2, 1/2), whose variance is exactly sigma**2. Hybrid
            methods have it for order 0 only: their differences follow on the new grid.
        compensate_integration: for the two integrated methods, start from sigma**2 - 1/12, so
            that the variance after integrating over pixels is sigma**2.
    """
    order = check_order(order)
    row = discretisation_of(method)
    sigma = _effective_sigma(sigma, method, offset, compensate_integration)
    mask = difference_mask(order if row.hybrid else 0)
    if offset and len(mask) > 1:
        raise ValueError(
            f"`offset` must be 0 for derivatives with method={method!r}, which takes differences "
            f"after smoothing. Received: offset={offset!r}, order={order}."
        )
    kernel_order = 0 if row.hybrid else order
    if radius is None:
        radius = _truncation_radius(sigma, order, row, truncation, offset)
        return np.convolve(row.kernel(sigma, kernel_order, radius, offset), mask)
    radius = check_integer("radius", radius, low=1 if offset else 0)
    support = radius + len(mask) // 2
    return np.convolve(row.kernel(sigma, kernel_order, support, offset), mask, mode="valid")


@checked
def truncation_radius(
    sigma: float,
    *,
    method: str = "discrete",
    truncation: float = 0.005,
    order: int = 0,
    offset: float = 0.0,
    compensate_integration: bool = False,
) -> int:
    """Smallest radius with at most the share `truncation` of sum_n |w[n]| outside.

    For hybrid methods this is the radius of the smoothing kernel, whatever the order; the
    differences then add 1 (orders 1 and 2) or 2 (orders 3 and 4). For the two derivative methods it
    serves every order from 0 to `order`, since a jet needs them all at one radius.
    """
    order = check_order(order)
    sigma = _effective_sigma(sigma, method, offset, compensate_integration)
    return _truncation_radius(sigma, order, discretisation_of(method), truncation, offset)


def _truncation_radius(sigma, order, row, truncation, offset):
    expected = "between 1e-30 and 1, not 1 itself"
    check_number("truncation", truncation, low=1e-30, high=math.nextafter(1, 0), expected=expected)
    support = math.ceil(40 * sigma) + 40  # beyond it everything underflows
    radii = []
    for k in row.orders(order):
        # Both halves are equal up to sign. Take the right one: the centre, which belongs half to
        # it, then n = 1, 2, …; half way between samples there is no centre.
        half = np.abs(row.kernel(sigma, k, support, offset))[support:]
        half[0] *= 1.0 if offset else 0.5
        outside = np.cumsum(half[::-1])[::-1]  # small numbers first
        radii.append(np.count_nonzero(outside[1:] > truncation * outside[0]))
    return int(max(radii)) + (1 if offset else 0)


def _effective_sigma(sigma, method, offset, compensate_integration):
    """Check what all kernels have in common; the sigma of the kernel before pixels are added."""
    sigma = check_sigma(sigma)
    row = discretisation_of(method)
    if offset not in (0, 0.5):
        raise ValueError(f"`offset` must be 0 or 0.5. Received: offset={offset!r}.")
    if offset and sigma < row.lowest_half_way:
        raise ValueError(
            f"`sigma` must be at least {row.lowest_half_way} for method={method!r} half way "
            f"between samples. Received: sigma={sigma}, offset={offset}."
        )
    if not compensate_integration:
        return sigma
    if not row.integrated:
        integrated = " or ".join(repr(name) for name, r in DISCRETISATIONS.items() if r.integrated)
        raise ValueError(
            f"`compensate_integration` must be False unless method is {integrated}. "
            f"Received: compensate_integration={compensate_integration!r}, method={method!r}."
        )
    variance = sigma**2 - PIXEL_VARIANCE
    if variance < 1e-6:
        raise ValueError(
            "`sigma` must be greater than 0.2887 (sigma**2 > 1/12) if `compensate_integration` is "
            f"True. Received: sigma={sigma}."
        )
    return math.sqrt(variance)
