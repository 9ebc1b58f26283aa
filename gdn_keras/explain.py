"""Look inside a network: where and at which scale it responds, and what its filters are.

Arrays in, arrays out; `gdn_keras.plots` draws what these functions return.

| question                                           | function                                  |
|----------------------------------------------------|-------------------------------------------|
| where does it respond, at which scale, which class | `activation_maps`                         |
| what do the scale channels say, also together      | `scale_logits`, `pool_over_scales`        |
| which scale channel decides, or contributes most   | `scale_contributions`, `scale_shares`     |
| where are the objects, and how large are they      | `localise`, `find_objects`                |
| what does a layer's filter look like               | `effective_filters`, `strongest_pairs`    |
| which derivative is that                           | `closest_derivatives`, `derivative_label` |
| are learned scales geometric                       | `sigmas_and_fit`                          |

The functions about filters are in `gdn_keras.filters`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import keras
import numpy as np
from scipy import ndimage
from scipy.special import logsumexp, softmax

from gdn_keras.config import EVERY_PIXEL, POOLINGS
from gdn_keras.filters import KINDS as KINDS
from gdn_keras.filters import Closest as Closest
from gdn_keras.filters import closest_derivatives as closest_derivatives
from gdn_keras.filters import derivative_label as derivative_label
from gdn_keras.filters import effective_filters as effective_filters
from gdn_keras.filters import strongest_pairs as strongest_pairs
from gdn_keras.model import GaussDerNet, adapt, layer_sigmas
from gdn_keras.scale_space import fit_geometric
from gdn_keras.utils.checks import check_choice, check_integer, check_number, checked, received
from gdn_keras.utils.pixels import check_image_batch, check_pixels, in_pixel_range

_POOL = {"max": np.max, "average": np.mean, "logsumexp": logsumexp}
_FLAT = 1e-4  # of the strongest response: rounding errors in maps that are equal everywhere


# === Responses ===


@checked
def activation_maps(model: GaussDerNet, images: np.ndarray, *, batch_size: int = 8) -> np.ndarray:
    """The last layer's maps on every pixel, (image, scale channel, height, width, class).

    `images` are raw pixels (image, height, width, colour) of any size, not only the network's own.
    Law: the maps move with the object, as far as the borders are out of reach.
    """
    check_integer("batch_size", batch_size, low=1)
    images = _images(model, images)
    everywhere = adapt(model, input_size=images.shape[1:3], spatial_selection="max", **EVERY_PIXEL)
    maps = _run(everywhere.maps_model(), images, batch_size)
    return maps if maps.ndim == 5 else maps[:, None]  # Keras unpacks a list of one scale channel


@checked
def scale_contributions(
    model: GaussDerNet, images: np.ndarray, *, batch_size: int = 32
) -> np.ndarray:
    """The contribution of every scale channel to the prediction, (image, scale channel).

    Rows sum to one; see `scale_shares`. Images must have the size of the network's input.
    """
    model.config.reject_dense("The contribution of scale channels")
    logits = scale_logits(model, images, batch_size=batch_size)
    return scale_shares(logits, pooling=model.config.scale_pooling)


@checked
def scale_logits(model: GaussDerNet, images: np.ndarray, *, batch_size: int = 32) -> np.ndarray:
    """Outputs before pooling over scales, (image, scale channel, class).

    Images must have the size of the network's input.
    """
    check_integer("batch_size", batch_size, low=1)
    model.config.reject_dense("`scale_logits`")
    return _run(model.scale_logits_model(), _images(model, images), batch_size)


@checked
def pool_over_scales(scale_logits: np.ndarray, *, pooling: str) -> np.ndarray:
    """The outputs of the network from those of its scale channels, (image, class).

    Args:
        scale_logits: outputs before pooling, (image, scale channel, class).
        pooling: how the network pools, "max", "average" or "logsumexp".
    """
    check_choice("pooling", pooling, POOLINGS)
    scale_logits = np.asarray(scale_logits)
    if scale_logits.ndim != 3 or 0 in scale_logits.shape[1:]:
        raise ValueError(
            "`scale_logits` must be (image, scale channel, class). "
            f"Received: shape {scale_logits.shape}."
        )
    return _POOL[pooling](scale_logits, axis=1)


@checked
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
    scale_logits = np.asarray(scale_logits, dtype=float)
    pooled = pool_over_scales(scale_logits, pooling=pooling)
    if classes is None:
        classes = pooled.argmax(axis=-1)
    classes = np.asarray(classes)
    if classes.shape != pooled.shape[:1] or not set(classes.tolist()) <= {*range(pooled.shape[1])}:
        raise ValueError(
            f"`classes` must be one index of {pooled.shape[1]} classes for each image. "
            f"{received('classes', classes.tolist())}"
        )
    outputs = np.take_along_axis(scale_logits, classes.astype(int)[:, None, None], axis=2)[..., 0]
    if pooling == "logsumexp":
        return softmax(outputs, axis=1)
    if pooling == "max":
        shares = (outputs == outputs.max(axis=1, keepdims=True)).astype(float)
    else:
        shares = np.maximum(outputs, 0.0)
        shares[shares.sum(axis=1) == 0] = 1.0  # no output at all: equal shares
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


@checked
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
    logit itself. Networks trained with centre selection have not learned what to answer next to an
    object; those trained on translated objects have.

    Empty if nothing responds: no output above zero, or the same everywhere. A network may also
    respond to something that is not an object: the first one is the strongest, not a certain one.

    Args:
        model: the network.
        image: raw pixels, (height, width, colour), of any size.
        max_objects: how many to return at most.
        relative_threshold: what a further object must reach of the strongest response.
        extent: see `receptive_radii`; of two maxima of which one lies within the radius of the
            other, only the stronger is kept, whatever their scales and classes.
    """
    check_pixels(image, name="image")
    image = np.asarray(image)
    if image.ndim != 3:
        raise ValueError(
            f"`image` must be one image (height, width, colour). Received: shape {image.shape}."
        )
    config = model.config
    check_integer("max_objects", max_objects, low=1)
    sigmas = layer_sigmas(model)[:, 0].tolist()
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
            sigma=sigmas[channel],
            radius=radii[channel],
            class_index=class_index,
            class_name=names[class_index],
            response=response,
        )
        for channel, row, column, class_index, response in found
    ]


@checked
def find_objects(
    maps: np.ndarray,
    *,
    radii: list[float],
    max_objects: int = 1,
    relative_threshold: float = 0.5,
) -> list[tuple[int, int, int, int, float]]:
    """Non-maximum suppression over space and scale: (channel, row, column, class, response).

    Only responses above zero are objects, and a map that is the same everywhere has none.

    Args:
        maps: of one image, (scale channel, height, width, class).
        radii: extent of an object in every scale channel, in pixels.
        max_objects: how many to return at most.
        relative_threshold: what a further object must reach of the strongest response.
    """
    check_integer("max_objects", max_objects, low=1)
    maps = np.asarray(maps)
    if maps.ndim != 4 or len(radii) != len(maps) or 0 in maps.shape:
        raise ValueError(
            "`maps` must be (scale channel, height, width, class) with one of `radii` per scale "
            f"channel. Received: shape {maps.shape}, {len(radii)} radii."
        )
    strength, classes = maps.max(axis=-1), maps.argmax(axis=-1)
    strongest = float(strength.max())
    if strongest <= 0 or strongest - strength.min() <= _FLAT * strongest:
        return []
    # a shoulder of a strong response just outside its radius is not an object: peaks only
    peak = strength == ndimage.maximum_filter(strength, size=3, mode="nearest")
    peak &= (strength > 0) & (strength >= relative_threshold * strongest)
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


@checked
def receptive_radii(model: GaussDerNet, *, extent: float = 2.0) -> np.ndarray:
    """`extent` standard deviations of all the smoothing in each scale channel, in pixels.

    The variances of the layers add up. Proportional to the first sigma of the scale channel.
    """
    check_number("extent", extent, low=0, expected="a number of at least 0")
    return extent * np.linalg.norm(layer_sigmas(model), axis=1)


# === Scales ===


class SigmaFit(NamedTuple):
    sigmas: np.ndarray  # of every layer
    fitted: np.ndarray  # sigma_0 * ratio**(k - 1), the nearest geometric series
    sigma_0: float
    ratio: float


@checked
def sigmas_and_fit(model: GaussDerNet, *, channel: int = 0) -> SigmaFit:
    """Sigma of every layer of a scale channel, learned or not, and the geometric fit to them."""
    sigmas = layer_sigmas(model)
    check_integer("channel", channel, low=0, high=len(sigmas) - 1)
    sigmas = sigmas[channel]
    fit = fit_geometric(sigmas)
    fitted = fit.sigma_0 * fit.ratio ** np.arange(len(sigmas))
    return SigmaFit(sigmas=sigmas, fitted=fitted, sigma_0=fit.sigma_0, ratio=fit.ratio)


def _images(model: GaussDerNet, images: np.ndarray) -> np.ndarray:
    check_image_batch(images, channels=model.config.input_channels)
    return in_pixel_range(np.asarray(images), model.config.pixel_range)


def _run(network: keras.Model, images: np.ndarray, batch_size: int) -> np.ndarray:
    """Outputs for all images; a list of outputs is stacked on axis 1.

    Not `predict`: it compiles every new network, which takes longer than a few images do. But on
    PyTorch it does not, and a call would keep all maps for gradients.
    """
    torch = keras.backend.backend() == "torch"
    batches = []
    for first in range(0, max(len(images), 1), batch_size):  # once also without images
        batch = images[first : first + batch_size]
        outputs = network.predict_on_batch(batch) if torch else network(batch, training=False)
        outputs = keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)
        batches.append(np.stack(outputs, axis=1) if isinstance(outputs, list) else outputs)
    return np.concatenate(batches)
