"""What the layers of a network correlate with, as images, and which derivatives they are."""

from __future__ import annotations

import math
from typing import NamedTuple

import keras
import numpy as np

from gdn_keras.config import GaussDerNetConfig
from gdn_keras.model import GaussDerNet, layer_sigmas
from gdn_keras.scale_space import (
    derivative_kernel,
    directional_weights,
    discretisation_of,
    scale_normalisation,
)
from gdn_keras.scale_space.plan import kernel_radius
from gdn_keras.utils.checks import check_choice, check_integer, check_number, checked, received

KINDS = ("first", "second", "third", "fourth", "laplacian")  # what a filter is compared with


class Closest(NamedTuple):
    """The derivative nearest to each filter; arrays of one shape, (input, output)."""

    kind: np.ndarray  # of `KINDS`
    angle: np.ndarray  # of its direction, in radians from rightwards to downwards; nan: Laplacian
    correlation: np.ndarray  # signed, 1 or -1 for the derivative itself


@checked
def effective_filters(
    model: GaussDerNet, *, layer: int, pairs: np.ndarray, channel: int = 0
) -> np.ndarray:
    """What a layer correlates its inputs with, (pair, size, size), rows downwards.

    The learned sum of scale-normalised Gaussian derivatives as one image; the layer's response to
    a single bright pixel is this image turned by 180 degrees. Batch norm, which only multiplies it
    by a number, is left out.

    Args:
        model: the network.
        layer: from 1 to the number of layers.
        pairs: input and output channel of every filter, (pair, 2).
        channel: index of the scale channel whose sigma is used.
    """
    basis, coefficients = _basis(model, layer, channel)
    pairs = np.asarray(pairs)
    channels = coefficients.shape[1:]
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"`pairs` must be integers, (pair, 2). Received: {pairs.dtype}, shape {pairs.shape}."
        )
    if not ((pairs >= 0) & (pairs < channels)).all():
        raise ValueError(
            f"`pairs` must be channels below {channels}. {received('pairs', pairs.tolist())}"
        )
    return np.einsum("tn,tyx->nyx", coefficients[:, pairs[:, 0], pairs[:, 1]], basis)


@checked
def strongest_pairs(
    model: GaussDerNet, *, layer: int, count: int = 10, channel: int = 0
) -> np.ndarray:
    """Input and output channel of the `count` filters with the largest norm, (pair, 2).

    Only the strongest of every output channel is considered, so they show different features.
    """
    check_integer("count", count, low=1)
    basis, coefficients = _basis(model, layer, channel)
    norm = _norm(coefficients, _gram(basis))
    inputs = norm.argmax(axis=0)
    outputs = np.argsort(-norm.max(axis=0), kind="stable")[:count]
    return np.stack([inputs[outputs], outputs], axis=1)


@checked
def closest_derivatives(model: GaussDerNet, *, layer: int, channel: int = 0) -> Closest:
    """Compare all filters of a layer with directional derivatives and the Laplacian.

    The correlation of two filters is their inner product over the product of their norms. Angles
    are in [0, pi); the opposite direction is the same derivative, negated for odd orders.
    """
    basis, coefficients = _basis(model, layer, channel)
    gram = _gram(basis)
    filters = coefficients.reshape(len(coefficients), -1)
    filters = filters / np.maximum(_norm(filters, gram), np.finfo(float).tiny)
    terms = model.blocks[layer - 1].terms
    orders = range(1, model.config.jet_order + 1)
    candidates = [(KINDS[k - 1], *_best_direction(filters, gram, terms, k)) for k in orders]
    if model.config.jet_order >= 2:
        laplacian = np.array([(t.name in ("xx", "yy")) / t.factor for t in terms])[:, None]
        laplacian = filters.T @ gram @ laplacian / _norm(laplacian, gram)
        candidates.append((KINDS[-1], np.full(len(laplacian), np.nan), laplacian[:, 0]))
    kinds, angles, correlations = zip(*candidates, strict=True)
    best = np.abs(correlations).argmax(axis=0)
    shape = coefficients.shape[1:]
    chosen = (best, np.arange(len(best)))
    return Closest(
        np.array(kinds)[best].reshape(shape),
        np.array(angles)[chosen].reshape(shape),
        np.array(correlations)[chosen].reshape(shape),
    )


def derivative_label(kind: str, angle: float) -> str:
    """A short name for a figure: "∂² 30°", "∇²"."""
    if check_choice("kind", kind, KINDS) == "laplacian":
        return "∇²"
    check_number("angle", angle)
    power = ("", "²", "³", "⁴")[KINDS.index(kind)]
    return f"∂{power} {round(math.degrees(angle)) % 180}°"


def _basis(model: GaussDerNet, layer: int, channel: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (term, size, size) of what the coefficients (term, input, output) multiply."""
    config = model.config
    for name, value, low, high in (
        ("layer", layer, 1, config.num_layers),
        ("channel", channel, 0, len(config.channel_sigmas) - 1),
    ):
        check_integer(name, value, low=low, high=high, expected=f"from {low} to {high}")
    sigma = float(layer_sigmas(model)[channel, layer - 1])
    block, kernels = model.blocks[layer - 1], _kernels(config, sigma)
    basis = [
        t.factor * scale_normalisation(sigma, t.order) * np.outer(kernels[t.y], kernels[t.x])
        for t in block.terms
    ]
    weights = keras.ops.convert_to_numpy(model.get_layer(block.jet).kernel)
    return np.array(basis), weights.astype(float)


def _kernels(config: GaussDerNetConfig, sigma: float) -> list[np.ndarray]:
    """1-D kernels of orders 0 to the jet's, of one length, cut where the layer cuts them."""
    hybrid = discretisation_of(config.method).hybrid
    radius = None if hybrid else kernel_radius(sigma, config.smoothing)
    kernels = [
        derivative_kernel(
            sigma,
            order,
            method=config.method,
            radius=radius,
            truncation=config.truncation,
            compensate_integration=config.compensate_integration,
        )
        for order in range(config.jet_order + 1)
    ]
    length = max(map(len, kernels))
    return [np.pad(kernel, (length - len(kernel)) // 2) for kernel in kernels]


def _gram(basis: np.ndarray) -> np.ndarray:
    """Inner products of the basis images; all that norms and correlations need of them."""
    return np.einsum("ayx,byx->ab", basis, basis)


def _norm(coefficients: np.ndarray, gram: np.ndarray) -> np.ndarray:
    squares = np.einsum("a...,ab,b...->...", coefficients, gram, coefficients, optimize=True)
    return np.sqrt(np.maximum(squares, 0.0))


def _best_direction(filters, gram, terms, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Angle and signed correlation of the best derivative of `order`, for unit filters."""
    step = math.pi / 180
    grid = []
    for angle in np.arange(180) * step:
        weights = iter(directional_weights(order, angle))
        d = np.array([next(weights) / t.factor if t.order == order else 0.0 for t in terms])
        grid.append(d / _norm(d, gram))
    correlation = np.array(grid) @ gram @ filters  # (angle, filter)
    peak = np.abs(correlation).argmax(axis=0)
    # beyond half a turn the derivatives repeat up to sign, so the neighbours of 0 are 179 and 1
    before, at, after = (
        np.take_along_axis(correlation, (peak[None] + n) % 180, axis=0)[0] for n in (-1, 0, 1)
    )
    # a parabola through the three: its top is exact to the fourth power of the step
    sign, before, after = np.where(at < 0, -1.0, 1.0), np.abs(before), np.abs(after)
    bend = before - 2 * np.abs(at) + after
    shift = np.divide(before - after, 2 * bend, out=np.zeros_like(bend), where=bend < 0)
    top = np.minimum(np.abs(at) - (before - after) * shift / 4, 1.0)
    angles = (peak + shift) * step
    # an angle that comes back into [0, pi) by half a turn changes the sign of odd orders
    turned = (angles < 0) & (order % 2 == 1)
    return angles % math.pi, np.where(turned, -sign, sign) * top
