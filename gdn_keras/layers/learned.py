"""Gaussian derivative kernels as differentiable functions of sigma, in every backend."""

import math

import numpy as np
from keras import ops

from gdn_keras.scale_space import PIXEL_VARIANCE, discretisation_of, discretisations


def learned_kernel(sigma, order=0, *, method, radius, offset=0.0, compensate_integration=False):
    """The weights of `scale_space.derivative_kernel` for a scalar tensor `sigma`.

    Same order of weights, same conventions; the static `radius` does not follow sigma. Hybrid
    methods have order 0 only: their differences follow on the output's grid.
    """
    row = discretisation_of(method)
    if order not in row.orders(order):
        raise ValueError(f"`order` must be 0 for method={method!r}. Received: order={order}.")
    if compensate_integration:
        sigma = ops.sqrt(ops.square(sigma) - PIXEL_VARIANCE)
    return LEARNED_KERNELS[row.kernel](sigma, order, radius, offset)


def _sampled_gaussian(sigma, order, radius, offset):
    kernel = _gaussian_derivative(_positions(radius, offset), sigma, order)
    return kernel * (-1) ** order  # correlation weights


def _normalised_gaussian(sigma, order, radius, offset):
    kernel = _gaussian_derivative(_positions(radius, offset), sigma, 0)
    return kernel / ops.sum(kernel)


def _integrated_gaussian(sigma, order, radius, offset):
    positions = _positions(radius, offset)
    upper, lower = (
        _gaussian_derivative(positions + half, sigma, order - 1) for half in (0.5, -0.5)
    )
    return (upper - lower) * (-1) ** order  # correlation weights


def _positions(radius, offset):
    positions = np.arange(-radius, radius) + 0.5 if offset else np.arange(-radius, radius + 1)
    return ops.convert_to_tensor(positions.astype("float32"))


def _gaussian_derivative(x, sigma, order):
    """Derivative of an order -1 … 4 of the Gaussian; order -1 is its integral from -infinity."""
    u = x / sigma
    if order == -1:
        return 0.5 * (1 + ops.erf(u / math.sqrt(2)))
    gaussian = ops.exp(-0.5 * ops.square(u)) / (math.sqrt(2 * math.pi) * sigma)
    hermite = (
        lambda u: 1.0,
        lambda u: -u,
        lambda u: u * u - 1,
        lambda u: u * (3 - u * u),
        lambda u: u * u * (u * u - 6) + 3,
    )
    return gaussian * hermite[order](u) / sigma**order


def _discrete_gaussian(sigma, order, radius, offset):
    """T(n; s) = (1 / pi) int_0^pi exp(s (cos t - 1)) cos(n t) dt, by the trapezoid rule.

    The integrand is smooth and periodic, so the rule is exact up to T(2 steps - n), which is
    nothing when the steps are well above the radius. Half way between samples the integrand has
    cos(t / 2) cos(n t) for the averaging of two neighbours and s - 1/4 for s.
    """
    variance = ops.square(sigma)
    steps = 2 * radius + 16
    angles = np.arange(steps + 1) * np.pi / steps
    weights = np.full(steps + 1, 1 / steps)
    weights[[0, -1]] /= 2
    if offset:
        positions = np.arange(-radius, radius) + 0.5
        variance = variance - 0.25
        weights = weights * np.cos(angles / 2)
    else:
        positions = np.arange(-radius, radius + 1)
    waves = np.cos(np.outer(positions, angles)) * weights
    decay = ops.exp(variance * ops.convert_to_tensor((np.cos(angles) - 1).astype("float32")))
    return ops.matmul(ops.convert_to_tensor(waves.astype("float32")), decay)


# Every kernel that the table of discretisations names, as a function of a scalar tensor sigma.
LEARNED_KERNELS = {
    discretisations.discrete_gaussian: _discrete_gaussian,
    discretisations.sampled_gaussian: _sampled_gaussian,
    discretisations.normalised_gaussian: _normalised_gaussian,
    discretisations.integrated_gaussian: _integrated_gaussian,
}
