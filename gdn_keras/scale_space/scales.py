"""Scale levels: geometric over the layers of a scale channel and over the scale channels.

`sigma[n][k] = ratio**(k - 1) * spacing**(n - 1) * first`, for layers k = 1, 2, … and scale channels
n = 1, 2, … (eq. sigma-geometric-multi and sigma0-multichan).
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import NamedTuple

import numpy as np

from gdn_keras.utils.checks import SIGMA_RANGE, check_integer, check_number, check_sigma, checked

_LARGEST_LOG = 300.0  # of the last sigma over the first


class GeometricFit(NamedTuple):
    """sigma of layer k is about sigma_0 * ratio**(k - 1)."""

    sigma_0: float
    ratio: float


@checked
def channel_scales(
    first: float, *, num_channels: int, spacing: float = math.sqrt(2)
) -> tuple[float, ...]:
    """First-layer sigma of each scale channel: first, first * spacing, first * spacing**2, …

    `channel_scales(2**-1.5, num_channels=7)` is exactly 2**-1.5, 2**-1, …, 2**1.5.
    """
    low = math.nextafter(1.0, 2.0)
    spacing = check_number("spacing", spacing, low=low, expected="a finite number greater than 1")
    start, step = _log2(check_sigma(first, name="first")), _log2(spacing)
    num_channels = check_integer("num_channels", num_channels, low=1)
    if start + (num_channels - 1) * step > math.log2(SIGMA_RANGE[1]):
        raise ValueError(
            f"`num_channels` and `spacing` must leave sigmas of at most {SIGMA_RANGE[1]:g}. "
            f"Received: num_channels={num_channels}, spacing={spacing}."
        )
    return tuple(2.0 ** (start + n * step) for n in range(num_channels))


@checked
def scale_levels(
    channel_sigmas: Sequence[float], *, ratio: float | Sequence[float], num_layers: int
) -> tuple[tuple[float, ...], ...]:
    """sigma of every scale channel and layer, as `levels[channel][layer]`.

    `ratio` is that of any layer to the one before, or a sequence with one ratio for each layer but
    the first.
    """
    num_layers = check_integer("num_layers", num_layers, low=1)
    low = {"low": 1.0, "expected": "a finite number of at least 1"}
    if isinstance(ratio, Sequence):
        if len(ratio) != num_layers - 1:
            raise ValueError(
                f"`ratio` must be a number or have {num_layers - 1} of them, one for each layer "
                f"but the first. Received: ratio={ratio!r}."
            )
        ratios = [check_number("ratio", r, **low) for r in ratio]
        factors = list(accumulate(ratios, mul, initial=1))
    else:
        ratio = check_number("ratio", ratio, **low)
        if (num_layers - 1) * math.log(ratio) > _LARGEST_LOG:  # a power beyond all floats
            factors = [math.inf] * num_layers
        else:
            factors = [ratio**k for k in range(num_layers)]
    if factors[-1] > math.exp(_LARGEST_LOG):
        raise ValueError(
            f"`ratio` must leave sigmas in the range of floats after `num_layers`, {num_layers}. "
            f"Received: ratio={ratio}."
        )
    return tuple(
        tuple(check_sigma(sigma, name="channel_sigmas") * factor for factor in factors)
        for sigma in channel_sigmas
    )


@checked
def fit_geometric(layer_sigmas: Sequence[float]) -> GeometricFit:
    """Geometric distribution nearest to (learned) sigmas of layers 1, 2, …

    Least squares in log sigma, so that every layer counts by its relative deviation.
    """
    logs = np.log([check_sigma(sigma, name="layer_sigmas") for sigma in layer_sigmas])
    if len(logs) < 2:
        raise ValueError(
            f"`layer_sigmas` must have at least two layers. Received: layer_sigmas={layer_sigmas}."
        )
    layers = np.arange(len(logs)) - (len(logs) - 1) / 2
    slope = layers @ logs / (layers @ layers)
    return GeometricFit(
        sigma_0=float(np.exp(logs.mean() + slope * layers[0])), ratio=float(np.exp(slope))
    )


def _log2(value: float) -> float:
    """log2, exact for what 2 ** (i / 12) rounds to: sqrt(2) ** 2 must not be 2.0000000000000004."""
    exponent = math.log2(value)
    nearest = round(12 * exponent) / 12
    return nearest if 2.0**nearest == value else exponent
