"""Classify image files of any size and mode; predictions as records and as a figure."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy

from gdn_keras import datasets
from gdn_keras.checks import check_choice, check_integer, checked
from gdn_keras.config import GaussDerNetConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gdn_keras.model import GaussDerNet

MAX_PIXELS = 80_000_000  # a 240 MB array; larger images are hardly meant to be classified
FITS = {
    "trained": "the longer side becomes what objects had in training",
    "contain": "the longer side fills the network's input",
    "cover": "the shorter side fills the network's input; the rest is cut off",
    "original": "no resizing; what is too large is cut off",
}
_FILLS = {"zero": "black", "mirror": "mirrored", "reflect": "mirrored", "edge": "its edge"}
PAD_MODES = {"black": "constant", "mirrored": "symmetric", "its edge": "edge"}


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
    path: str | os.PathLike,
    *,
    config: GaussDerNetConfig,
    dataset: str,
    train_sizes: str | None = None,
    fit: str = "trained",
) -> Fitted:
    """Read an image file and fit it to a network.

    Resizing keeps the aspect ratio (bicubic, antialiased) and the image stays centred. The rest of
    the network's input is filled as in training: black, mirrored or with the edge.

    Args:
        config: of the network.
        dataset: what it was trained on, as `zoo.info` says; must be one of
            `gdn_keras.datasets.names()` for `fit="trained"`.
        train_sizes: the same for STIR: objects of which sizes.
        fit: one of `FITS`.
    """
    check_choice("fit", fit, FITS)
    if re.match(r"\w+://", str(path)):
        raise ValueError(f"{path} is a URL, not an image file; download it first.")
    image, notes = _decode(Path(path), colour=config.input_channels == 3)
    height, width = config.input_size
    trained_side, fill = None, _FILLS[config.padding]
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
        from PIL import Image

        notes.append(f"resized from {image.width}x{image.height} to {size[0]}x{size[1]}")
        kept, box = _middle(image.size, size, (width, height))
        image = image.resize(kept, Image.Resampling.BICUBIC, box=box)
    pixels = np.asarray(image)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    pixels = place(pixels, size=config.input_size, mode=PAD_MODES[fill])
    if size[0] > width or size[1] > height:
        notes.append(f"cut to {width}x{height}")
    if size[0] < width or size[1] < height:
        notes.append(f"surroundings up to {width}x{height} {fill}")
    return Fitted(path=str(path), pixels=pixels, how=", ".join(notes) or "used unchanged")


def _middle(size, resized, limit) -> tuple[tuple[int, int], tuple[float, ...]]:
    """The size that `place` would keep of a resized image, and that part of the original.

    Resizing only that part gives the same but for rounding, and an image that is a thousand times
    as long as wide does not become a gigantic one first.
    """
    kept = tuple(map(min, resized, limit))
    first = [(n - m) // 2 for n, m in zip(resized, kept, strict=True)]
    last = [n + m for n, m in zip(first, kept, strict=True)]
    scale = [n / m for n, m in zip(size, resized, strict=True)]
    return kept, tuple(min(n * scale[k % 2], size[k % 2]) for k, n in enumerate([*first, *last]))


@checked
def as_in_training(
    config: GaussDerNetConfig, *, dataset: str, train_sizes: str | None = None
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
    fill = record.surroundings or _FILLS[config.padding]
    return record.sizes.trained_side(train_sizes), fill


@checked
def place(images: np.ndarray, *, size: tuple[int, int], mode: str) -> np.ndarray:
    """Cut or fill (…, height, width, colour) to a size, around the centre."""
    for axis, target in zip((-3, -2), size, strict=True):
        excess = images.shape[axis] - target
        if excess > 0:
            images = np.take(images, np.arange(excess // 2, excess // 2 + target), axis=axis)
        else:
            widths = [(0, 0)] * images.ndim
            widths[axis] = (-excess // 2, -excess - -excess // 2)
            images = np.pad(images, widths, mode=mode)
    return images


def _decode(path: Path, *, colour: bool):
    """A Pillow image, grey or RGB, upright; and notes on what was done to get it."""
    from PIL import Image, ImageOps

    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not an image file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: it has no bytes.")
    try:
        with warnings.catch_warnings():  # Pillow warns of large images; the limit is checked below
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path)
            frames = getattr(image, "n_frames", 1)
    except Image.DecompressionBombError as error:
        raise ValueError(f"{path} is too large: {error}") from error
    except PermissionError:
        raise
    except Exception as error:  # decoders of broken files raise whatever they like
        raise ValueError(f"{path} is not an image file that Pillow can read.") from error
    notes = []
    with image:
        if image.width * image.height == 0:
            raise ValueError(f"{path} is empty: it has {image.width}x{image.height} pixels.")
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(
                f"{path} is too large: at most {MAX_PIXELS:,} pixels are read. "
                f"Received: {image.width}x{image.height}."
            )
        if frames > 1:
            notes.append(f"first of {frames} frames")
        try:
            image.load()
            upright = ImageOps.exif_transpose(image)
        except Exception as error:
            raise ValueError(f"{path} is broken: {error}.") from error
    if upright.size != image.size:
        notes.append("turned upright")
    return _convert(upright, path, notes, mode="RGB" if colour else "L"), notes


def _convert(image, path: Path, notes: list[str], *, mode: str):
    from PIL import Image

    if image.mode == "F" or image.mode.startswith("I"):  # numbers without a fixed range
        values = np.asarray(image).astype(np.float64)
        low, high = values.min(), values.max()
        if image.mode == "F" and 0 <= low and 0 < high <= 1:
            values, high = 255 * values, 255 * high
            notes.append("values 0…1 taken as 0…255")
        if not (low >= 0 and high <= (255 if image.mode == "F" else 65535)):
            raise ValueError(
                f"{path} has colour mode {image.mode} with values from {low:g} to {high:g}; only "
                "0…255, 0…1 for floats, or 0…65535 for whole numbers, are understood."
            )
        if image.mode.startswith("I;16") or high > 255:
            values = values / 257
            notes.append("16 bits to 8")
        image = Image.fromarray(np.round(values).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
        image = image.convert("RGB")
        notes.append("transparent parts made black")
    if image.mode == mode:
        return image
    wanted = "grey" if mode == "L" else mode
    try:
        converted = image.convert(mode)
    except ValueError as error:
        raise ValueError(
            f"{path} has colour mode {image.mode}, which cannot be made {wanted}; save it as RGB "
            "or grey."
        ) from error
    notes.append(f"{image.mode} made {wanted}")
    return converted


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
