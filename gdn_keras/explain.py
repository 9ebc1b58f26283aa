"""Look inside a network: where and at which scale it responds, and what its filters are.

Arrays in, arrays out; `gdn_keras.plots` draws what these functions return.

| question                                           | function                                  |
|----------------------------------------------------|-------------------------------------------|
| where does it respond, at which scale, which class | `activation_maps`                         |
| which scale channel decides, or contributes most   | `scale_contributions`, `scale_shares`     |
| where are the objects, and how large are they      | `localise`, `find_objects`                |
| what does a layer's filter look like               | `effective_filters`, `strongest_pairs`    |
| which derivative is that                           | `closest_derivatives`, `derivative_label` |
| are learned scales geometric                       | `sigmas_and_fit`                          |
"""

from __future__ import annotations

import math
from typing import NamedTuple

import keras
import numpy as np
from scipy import ndimage
from scipy.special import logsumexp, softmax

from gdn_keras.config import POOLINGS, GaussDerNetConfig
from gdn_keras.model import GaussDerNet, adapt, learned_sigmas
from gdn_keras.scale_space import (
    HYBRID_METHODS,
    JetTerm,
    Smoothing,
    derivative_kernel,
    directional_weights,
    fit_geometric,
    jet_terms,
)
from gdn_keras.scale_space.plan import kernel_radius

KINDS = ("first", "second", "third", "laplacian")  # what a filter is compared with
_POOL = {"max": np.max, "average": np.mean, "logsumexp": logsumexp}


# === Responses ===


def activation_maps(model: GaussDerNet, images: np.ndarray, *, batch_size: int = 8) -> np.ndarray:
    """The last layer's maps on every pixel, (image, scale channel, height, width, class).

    `images` are raw pixels (image, height, width, colour) of any size, not only the network's own.
    Law: the maps move with the object, as far as the borders are out of reach.
    """
    images = _images(model, images)
    everywhere = adapt(
        model, input_size=images.shape[1:3], spatial_selection="max", sampling_density=None
    )
    maps = _run(everywhere.maps_model(), images, batch_size)
    return maps if maps.ndim == 5 else maps[:, None]  # Keras unpacks a list of one scale channel


def scale_contributions(
    model: GaussDerNet, images: np.ndarray, *, batch_size: int = 32
) -> np.ndarray:
    """How much every scale channel has to do with the prediction, (image, scale channel).

    Rows sum to one; see `scale_shares`. Images must have the size of the network's input.
    """
    images = _images(model, images)
    logits = _run(model.scale_logits_model(), images, batch_size)
    return scale_shares(logits, pooling=model.config.scale_pooling)


def scale_shares(
    scale_logits: np.ndarray, *, pooling: str, classes: np.ndarray | None = None
) -> np.ndarray:
    """Shares of the scale channels in a pooled output, (image, scale channel), rows sum to one.

    | pooling   | share of a scale channel                                         |
    |-----------|------------------------------------------------------------------|
    | max       | 1 if it has the largest output, else 0; equal outputs share the 1 |
    | average   | its part of the sum over scale channels, outputs below 0 left out |
    | logsumexp | its part of the sum of exponentials                               |

    Args:
        scale_logits: outputs before pooling, (image, scale channel, class).
        pooling: how the network pools, "max", "average" or "logsumexp".
        classes: the class to look at, one per image; by default the predicted one.
    """
    if pooling not in POOLINGS:
        raise ValueError(f"`pooling` must be one of {POOLINGS}. Received: pooling={pooling!r}.")
    scale_logits = np.asarray(scale_logits, dtype=float)
    if scale_logits.ndim != 3:
        raise ValueError(
            "`scale_logits` must be (image, scale channel, class). "
            f"Received: shape {scale_logits.shape}."
        )
    if classes is None:
        classes = _POOL[pooling](scale_logits, axis=1).argmax(axis=-1)
    outputs = np.take_along_axis(scale_logits, np.asarray(classes)[:, None, None], axis=2)[..., 0]
    if pooling == "logsumexp":
        return softmax(outputs, axis=1)
    if pooling == "max":
        shares = (outputs == outputs.max(axis=1, keepdims=True)).astype(float)
    else:
        shares = np.maximum(outputs, 0.0)
        shares[shares.sum(axis=1) == 0] = 1.0  # no output at all: nobody contributes more
    return shares / shares.sum(axis=1, keepdims=True)


# === Objects ===


class Detection(NamedTuple):
    """A maximum over space and scale of the last layer's maps."""

    row: int
    column: int
    channel: int  # index of the scale channel
    sigma: float  # its first-layer sigma; proportional to the size of the object
    radius: float  # in pixels: how far around it weaker maxima are taken for the same object
    class_index: int
    class_name: str
    response: float


def localise(
    model: GaussDerNet,
    image: np.ndarray,
    *,
    max_objects: int = 1,
    relative_threshold: float = 0.5,
    extent: float = 2.0,
) -> list[Detection]:
    """Position, scale and class of the strongest responses to one image, strongest first.

    >>> localise(model, image)[0]                 # where the object is, and how large
    >>> localise(model, canvas, max_objects=5)    # several objects in an image of any size

    For a network with spatial max and max pooling over scales the first response is the largest
    logit itself. Networks trained with centre selection have not learned what to answer beside an
    object; those trained on translated objects have.

    Args:
        model: the network.
        image: raw pixels, (height, width, colour), of any size.
        max_objects: how many to return at most.
        relative_threshold: what a further object must reach of the strongest response.
        extent: see `receptive_radii`; of two maxima of which one lies within the radius of the
            other, only the stronger is kept, whatever their scales and classes.
    """
    image = np.asarray(image)
    if image.ndim != 3:
        raise ValueError(
            f"`image` must be one image (height, width, colour). Received: shape {image.shape}."
        )
    config = model.config
    radii = receptive_radii(model, extent=extent).tolist()
    found = find_objects(
        activation_maps(model, image[None])[0],
        radii=radii,
        max_objects=max_objects,
        relative_threshold=relative_threshold,
    )
    names = config.class_names or [""] * config.num_classes
    return [
        Detection(
            row=row,
            column=column,
            channel=channel,
            sigma=config.channel_sigmas[channel],
            radius=radii[channel],
            class_index=class_index,
            class_name=names[class_index],
            response=response,
        )
        for channel, row, column, class_index, response in found
    ]


def find_objects(
    maps: np.ndarray,
    *,
    radii: list[float],
    max_objects: int = 1,
    relative_threshold: float = 0.5,
) -> list[tuple[int, int, int, int, float]]:
    """Non-maximum suppression over space and scale: (channel, row, column, class, response).

    Args:
        maps: of one image, (scale channel, height, width, class).
        radii: extent of an object in every scale channel, in pixels.
        max_objects: how many to return at most.
        relative_threshold: what a further object must reach of the strongest response.
    """
    if maps.ndim != 4 or len(radii) != len(maps):
        raise ValueError(
            "`maps` must be (scale channel, height, width, class) with one of `radii` per scale "
            f"channel. Received: shape {maps.shape}, {len(radii)} radii."
        )
    strength, classes = maps.max(axis=-1), maps.argmax(axis=-1)
    strongest = float(strength.max())
    # a shoulder of a strong response just outside its radius is not an object: peaks only
    peak = strength == ndimage.maximum_filter(strength, size=3, mode="nearest")
    peak &= strength >= relative_threshold * strongest if strongest > 0 else strength == strongest
    places = np.argwhere(peak)
    places = places[np.argsort(-strength[tuple(places.T)], kind="stable")]
    kept: list[tuple[int, int, int]] = []
    for channel, row, column in places.tolist():
        if len(kept) == max_objects:
            break
        if all(
            math.hypot(row - y, column - x) >= max(radii[channel], radii[other])
            for other, y, x in kept
        ):
            kept.append((channel, row, column))
    return [(*place, int(classes[place]), float(strength[place])) for place in kept]


def receptive_radii(model: GaussDerNet, *, extent: float = 2.0) -> np.ndarray:
    """`extent` standard deviations of all the smoothing in each scale channel, in pixels.

    The variances of the layers add up. Proportional to the first sigma of the scale channel.
    """
    return extent * np.linalg.norm(learned_sigmas(model), axis=1)


# === Filters ===


class Closest(NamedTuple):
    """The derivative nearest to each filter; arrays of one shape, (input, output)."""

    kind: np.ndarray  # of `KINDS`
    angle: np.ndarray  # of its direction, in radians from rightwards to downwards; nan: Laplacian
    correlation: np.ndarray  # signed, 1 or -1 for the derivative itself


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
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"`pairs` must be (pair, 2). Received: shape {pairs.shape}.")
    return np.einsum("tn,tyx->nyx", coefficients[:, pairs[:, 0], pairs[:, 1]], basis)


def strongest_pairs(
    model: GaussDerNet, *, layer: int, count: int = 10, channel: int = 0
) -> np.ndarray:
    """Input and output channel of the `count` filters with the largest norm, (pair, 2).

    Only the strongest of every output channel is considered, so they show different features.
    """
    basis, coefficients = _basis(model, layer, channel)
    norm = _norm(coefficients, _gram(basis))
    inputs = norm.argmax(axis=0)
    outputs = np.argsort(-norm.max(axis=0), kind="stable")[:count]
    return np.stack([inputs[outputs], outputs], axis=1)


def closest_derivatives(model: GaussDerNet, *, layer: int, channel: int = 0) -> Closest:
    """Compare all filters of a layer with directional derivatives and the Laplacian.

    The correlation of two filters is their inner product over the product of their norms. Angles
    are in [0, pi); the opposite direction is the same derivative, negated for odd orders.
    """
    basis, coefficients = _basis(model, layer, channel)
    gram = _gram(basis)
    filters = coefficients.reshape(len(coefficients), -1)
    filters = filters / np.maximum(_norm(filters, gram), np.finfo(float).tiny)
    terms = _layer_terms(model.config, layer)
    orders = range(1, model.config.jet_order + 1)
    candidates = [(KINDS[k - 1], *_best_direction(filters, gram, terms, k)) for k in orders]
    laplacian = np.array([(t.name in ("xx", "yy")) / t.factor for t in terms])[:, None]
    laplacian = filters.T @ gram @ laplacian / _norm(laplacian, gram)
    candidates.append((KINDS[3], np.full(len(laplacian), np.nan), laplacian[:, 0]))
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
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {KINDS}. Received: kind={kind!r}.")
    if kind == "laplacian":
        return "∇²"
    power = ("", "²", "³")[KINDS.index(kind)]
    return f"∂{power} {round(math.degrees(angle)) % 180}°"


def _layer_terms(config: GaussDerNetConfig, layer: int) -> tuple[JetTerm, ...]:
    return jet_terms(config.jet_order, config.zero_order and layer > 1)


def _basis(model: GaussDerNet, layer: int, channel: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (term, size, size) of what the coefficients (term, input, output) multiply."""
    config = model.config
    for name, value, low, high in (
        ("layer", layer, 1, config.num_layers),
        ("channel", channel, 0, len(config.channel_sigmas) - 1),
    ):
        if value not in range(low, high + 1):
            raise ValueError(f"`{name}` must be from {low} to {high}. Received: {name}={value}.")
    sigma = float(learned_sigmas(model)[channel, layer - 1])
    kernels = _kernels(config, sigma)
    basis = [
        t.factor * sigma**t.order * np.outer(kernels[t.y], kernels[t.x])
        for t in _layer_terms(config, layer)
    ]
    weights = keras.ops.convert_to_numpy(model.get_layer(f"jet_{layer}").kernel)
    return np.array(basis), weights.astype(float)


def _kernels(config, sigma: float) -> list[np.ndarray]:
    """1-D kernels of orders 0 to the jet's, of one length, cut where the layer cuts them."""
    smoothing = Smoothing(
        config.method, config.truncation, config.padding, config.compensate_integration
    )
    radius = None if config.method in HYBRID_METHODS else kernel_radius(sigma, smoothing)
    kernels = [
        derivative_kernel(
            sigma,
            order,
            method=config.method,
            radius=radius,
            truncation=config.truncation,
            compensate=config.compensate_integration,
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


# === Scales ===


class SigmaFit(NamedTuple):
    sigmas: np.ndarray  # of every layer
    fitted: np.ndarray  # sigma_0 * ratio**(k - 1), the nearest geometric series
    sigma_0: float
    ratio: float


def sigmas_and_fit(model: GaussDerNet, *, channel: int = 0) -> SigmaFit:
    """Sigma of every layer of a scale channel, learned or not, and the geometric fit to them."""
    sigmas = learned_sigmas(model)[channel]
    fit = fit_geometric(sigmas)
    fitted = fit.sigma_0 * fit.ratio ** np.arange(len(sigmas))
    return SigmaFit(sigmas=sigmas, fitted=fitted, sigma_0=fit.sigma_0, ratio=fit.ratio)


def _images(model: GaussDerNet, images: np.ndarray) -> np.ndarray:
    images = np.asarray(images)
    colours = model.config.input_channels
    if images.ndim != 4 or images.shape[-1] != colours:
        raise ValueError(
            f"`images` must be (image, height, width, {colours}). Received: shape {images.shape}."
        )
    return images.astype(np.float32)


def _run(network: keras.Model, images: np.ndarray, batch_size: int) -> np.ndarray:
    """Outputs for all images; a list of outputs is stacked on axis 1.

    Not `predict`: it compiles every new network, which takes longer than a few images do.
    """
    batches = []
    for first in range(0, len(images), batch_size):
        outputs = network(images[first : first + batch_size], training=False)
        outputs = keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
        batches.append(np.stack(outputs, axis=1) if isinstance(outputs, list) else outputs)
    return np.concatenate(batches)
