"""Classify image files of any size and mode; predictions as records and as a figure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from gdn_keras import datasets
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.utils.checks import check_choice, check_integer, checked
from gdn_keras.utils.image_files import decode_image, fit_image, image_from_array
from gdn_keras.utils.pixels import OVERSHOOT, check_image_batch, in_pixel_range

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gdn_keras.model import GaussDerNet

FITS = {
    "trained": "the longer side becomes what objects had in training",
    "contain": "the longer side fills the network's input",
    "cover": "the shorter side fills the network's input; the rest is cut off",
    "original": "no resizing; what is too large is cut off",
}
# the surroundings of images that do not fill the input, by the padding of the network
FILLS = {"zero": "black", "mirror": "mirrored", "reflect": "mirrored", "edge": "its edge"}


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """An image file as a network sees it."""

    path: str
    pixels: np.ndarray  # uint8, (height, width, colour), the network's input size
    how: str  # what was done to it, in words


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A network's answer for one image."""

    classes: tuple[tuple[int, str, float], ...]  # index, name, probability; best first
    channel: int  # from 0: the scale channel that decided, or contributed most
    sigma: float  # its first-layer sigma
    shares: tuple[float, ...]  # of every scale channel in the output of the best class


@checked
def read_image(
    image: str | os.PathLike | np.ndarray,
    *,
    config: GaussDerNetConfig,
    dataset: str | None,
    train_sizes: str | None = None,
    fit: str = "trained",
) -> Fitted:
    """Read an image file, or take raw pixels, and fit it to a network.

    Resizing keeps the aspect ratio (bicubic, antialiased) and the image stays centred. The rest of
    the network's input is filled as in training: black, mirrored or with the edge.

    Args:
        image: the path of a file, or an array (height, width) or (height, width, colour), uint8
            or in the range of the network's pixels.
        config: of the network.
        dataset: what it was trained on, as `zoo.info` says; must be one of
            `gdn_keras.datasets.names()` for `fit="trained"`.
        train_sizes: the same for STIR: objects of which sizes.
        fit: one of `FITS`.
    """
    check_choice("fit", fit, FITS)
    path, mode = "array", "RGB" if config.input_channels == 3 else "L"
    if isinstance(image, (str, os.PathLike)):
        path = str(image)
        if re.match(r"\w+://", path):
            raise ValueError(f"{path} is a URL, not an image file; download it first.")
        image, notes = decode_image(Path(path), mode=mode)
    else:
        image, notes = image_from_array(_raw(image, config.pixel_range), mode=mode)
    height, width = config.input_size
    trained_side, fill = None, FILLS[config.padding]
    if fit == "trained" or dataset in datasets.names():
        trained_side, fill = as_in_training(config, dataset=dataset, train_sizes=train_sizes)
    contain = min(height / image.height, width / image.width)
    scale = {
        "trained": trained_side / max(image.size) if trained_side else contain,
        "contain": contain,
        "cover": max(height / image.height, width / image.width),
        "original": 1.0,
    }[fit]
    size = tuple(max(1, round(scale * side)) for side in image.size)
    if size != image.size:
        notes.append(f"resized from {image.width}x{image.height} to {size[0]}x{size[1]}")
    pixels = fit_image(image, resized=size, size=config.input_size, fill=fill)
    if size[0] > width or size[1] > height:
        notes.append(f"cut to {width}x{height}")
    if size[0] < width or size[1] < height:
        notes.append(f"surroundings up to {width}x{height} {fill}")
    return Fitted(path=path, pixels=pixels, how=", ".join(notes) or "used unchanged")


def _raw(image: np.ndarray, pixel_range: tuple[float, float]) -> np.ndarray:
    """Pixels 0…255; arrays of another type than uint8 are in the range of the network."""
    image = np.asarray(image)
    if image.dtype == np.uint8:
        return image
    low, high = pixel_range
    image = image[..., None] if image.ndim == 2 else image
    image = in_pixel_range(image[None], pixel_range, name="image")[0]
    room = OVERSHOOT * (high - low)
    if image.size and not (low - room <= image.min() and image.max() <= high + room):
        raise ValueError(
            f"`image` must be from {low:g} to {high:g}. Received: from {image.min():g} to "
            f"{image.max():g}."
        )
    return np.clip((image - low) * np.float32(255 / (high - low)), 0, 255)


@checked
def as_in_training(
    config: GaussDerNetConfig, *, dataset: str | None, train_sizes: str | None = None
) -> tuple[int | None, str]:
    """The longer side objects had in training, None if they filled the input, and the surroundings.

    Of several sizes it is the middle one. The surroundings are one of `PAD_MODES`, whose values
    are modes of `numpy.pad`.

    Args:
        dataset: what the network was trained on.
        train_sizes: for STIR, the name of a range of sizes; default all.
    """
    try:
        record = datasets.get(dataset, argument="dataset")
    except ValueError as error:
        raise ValueError(
            f"{error} The size of objects in other data is unknown: use another `fit` than "
            "'trained', such as 'contain'."
        ) from None
    fill = record.surroundings or FILLS[config.padding]
    return record.sizes.trained_side(train_sizes), fill


@checked
def classify(model: GaussDerNet, pixels: np.ndarray, *, top: int = 3) -> list[Prediction]:
    """The best classes for each image, and which scale channel decided.

    Args:
        pixels: (image, height, width, colour), of the network's input size. Those of type uint8
            are raw, 0…255; others must be in the `pixel_range` of the network's config, or a
            warning tells their range.
        top: how many classes.
    """
    check_integer("top", top, low=1)
    from gdn_keras.explain import pool_over_scales, scale_logits, scale_shares
    from gdn_keras.model import layer_sigmas

    config = model.config
    config.reject_dense("`classify`")
    check_image_batch(pixels, channels=config.input_channels, name="pixels")
    per_scale = scale_logits(model, pixels)
    logits = pool_over_scales(per_scale, pooling=config.scale_pooling)
    shares = scale_shares(per_scale, pooling=config.scale_pooling)
    probabilities = scipy.special.softmax(logits, axis=1)
    names = config.class_names or [f"class {k}" for k in range(config.num_classes)]
    sigmas = layer_sigmas(model)[:, 0]
    predictions = []
    for n in range(len(pixels)):
        best = np.argsort(-logits[n], kind="stable")[:top]
        channel = int(shares[n].argmax())
        predictions.append(
            Prediction(
                classes=tuple((int(k), names[k], float(probabilities[n, k])) for k in best),
                channel=channel,
                sigma=float(sigmas[channel]),
                shares=tuple(map(float, shares[n])),
            )
        )
    return predictions


@checked
def draw(model: GaussDerNet, images: list[Fitted], predictions: list[Prediction]) -> Figure:
    """One row per image: what the network saw, its scale channels, where it responded."""
    from gdn_keras import plots
    from gdn_keras.explain import activation_maps
    from gdn_keras.model import layer_sigmas

    rows = len(images)
    figure, axes = plots.new_figure(
        width=2 * plots.COLUMN,
        height=12 + 48 * rows,
        rows=rows,
        columns=3,
        width_ratios=(1, 1.4, 1.2),
    )
    sigmas = [f"{sigma:.3g}" for sigma in layer_sigmas(model)[:, 0]]
    all_maps = activation_maps(model, np.stack([image.pixels for image in images]))
    for row, image, prediction, maps in zip(axes, images, predictions, all_maps, strict=True):
        index, name, probability = prediction.classes[0]
        maps = maps[:, :, :, index]
        plots.plot_activation_maps(
            image.pixels,
            maps[prediction.channel][None],
            [row[0], row[2]],
            titles=[f"response to “{name}” at σ₀ = {prediction.sigma:.3g}"],
            image_title=f"{Path(image.path).name}: {name}, {probability:.0%}",
        )
        colours = [plots.PALETTE[0]] * len(sigmas)
        colours[prediction.channel] = plots.PALETTE[1]
        row[1].bar(sigmas, [100 * share for share in prediction.shares], color=colours)
        row[1].set_xlabel("scale channel σ₀ (px)", fontsize=8)
        row[1].set_ylabel("share of the output (%)", fontsize=8)
        row[1].tick_params(labelsize=7)
    return figure
