"""Images as a network takes them: real, finite numbers in the range of its pixels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gdn_keras.utils.checks import is_array

_SCALED = 10.0  # no raw image stays below, if it also has negative values
OVERSHOOT = 0.25  # of the range: what resizing may add to the darkest and brightest pixels


def check_pixels(images: Any, *, name: str = "images") -> None:
    """Raise a `ValueError` unless `images` are real, finite numbers, saying where they are not."""
    if not is_array(images):
        kind = getattr(images, "dtype", type(images).__name__)
        raise ValueError(f"`{name}` must be an array of real numbers. Received: {kind}.")
    images = np.asarray(images)
    if images.dtype.kind != "f" or np.isfinite(images).all():
        return
    wrong = np.argwhere(~np.isfinite(images))
    place = tuple(wrong[0].tolist())
    axes = ("image", "row", "column", "channel")[-len(place) :]
    where = ", ".join(f"{axis} {k}" for axis, k in zip(axes, place, strict=False))
    raise ValueError(
        f"`{name}` must have finite pixels. Received: {images[place]} at {where or place}, "
        f"{len(wrong)} such values in all."
    )


def check_image_batch(images: Any, *, channels: int, name: str = "images") -> None:
    """Raise a `ValueError` unless `images` are pixels with the axes of a batch."""
    check_pixels(images, name=name)
    shape = np.shape(images)
    if len(shape) != 4 or shape[-1] != channels:
        raise ValueError(
            f"`{name}` must be (image, height, width, {channels}). Received: shape {shape}."
        )


def in_pixel_range(
    images: np.ndarray, pixel_range: tuple[float, float], *, name: str = "images"
) -> np.ndarray:
    """Checked images as float32, (image, height, width, channel), in the range of a network.

    Images of type uint8 are raw pixels 0…255 and are scaled to it. Others are expected to be in
    the range; a warning tells the range of those that are not.
    """
    check_pixels(images, name=name)
    images = np.asarray(images)
    low, high = pixel_range
    if images.dtype == np.uint8 and (low, high) != (0, 255):
        return (low + images * np.float64((high - low) / 255)).astype(np.float32)
    _warn_of_other_ranges(images, low, high, name)
    return images.astype(np.float32)


def _warn_of_other_ranges(images: np.ndarray, low: float, high: float, name: str) -> None:
    if images.size == 0:
        return
    axes = tuple(range(1, images.ndim))
    lowest, highest = (np.asarray(f(images, axis=axes), float) for f in (np.min, np.max))
    room = OVERSHOOT * (high - low)
    outside = (lowest < low - room) | (highest > high + room)
    largest = np.maximum(-lowest, highest)  # as if images were scaled to 0…1 or standardised
    tiny = (largest > 0) & (largest <= _SCALED) & ((highest <= 1) | (lowest < 0)) & (high > _SCALED)
    wrong = np.flatnonzero(outside | tiny)
    if len(wrong) == 0:
        return
    unit = lowest[wrong].min() >= 0 and highest[wrong].max() <= 1
    hint = " `pixel_range=(0, 1)` in `gdn_keras.zoo.load` or `gdn_keras.adapt` takes such pixels."
    warnings.warn(
        f"`{name}` should have pixels in {low:g}…{high:g}, but {len(wrong)} of {len(images)} have "
        f"values from {lowest[wrong].min():g} to {highest[wrong].max():g}, the first of them "
        f"number {wrong[0]}.{hint if unit else ''}",
        stacklevel=4,
    )
