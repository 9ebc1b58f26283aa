"""What is written down about a data set of one's own, data.json of a zoo folder.

How its images are made, which of them are for training and which for testing, and what was found.
With it, the same images give the same data set again.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gdn_keras.datasets.rescaled import SIZE_FACTORS
from gdn_keras.datasets.resize import object_size
from gdn_keras.utils import markdown
from gdn_keras.utils.checks import check_integer
from gdn_keras.utils.fields import make_plain, reject_missing, reject_unknown
from gdn_keras.utils.image_files import convert_image, decode_image, fit_image

EXTENSIONS = {"black": "zero", "mirrored": "mirror"}  # surroundings -> argument of `rescale`
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Look:
    """How images of any size become those of a data set."""

    canvas: int = 64  # height and width of the images that a network sees
    side: int | None = None  # longer side of an object at size factor 1; None: half of the canvas
    surroundings: str = "mirrored"  # what is seen around an object, or "black"
    channels: int | None = None  # 1 grey, 3 colour; None: as the images are

    def __post_init__(self):
        check_integer("canvas", self.canvas, low=2)
        if self.side is None:
            object.__setattr__(self, "side", self.canvas // 2)
        check_integer("side", self.side, low=1)
        if self.channels not in (None, 1, 3):
            raise ValueError(
                f"`channels` must be 1 for grey, 3 for colour, or None for what the images have. "
                f"Received: channels={self.channels!r}."
            )
        if self.surroundings not in EXTENSIONS:
            raise ValueError(
                f"`surroundings` must be one of {tuple(EXTENSIONS)}. "
                f"Received: surroundings={self.surroundings!r}."
            )
        largest = object_size(self.side, size_factor=SIZE_FACTORS[-1], canvas=self.canvas)
        if self.surroundings == "black" and largest > self.canvas:
            raise ValueError(
                f"`canvas` must be at least {largest} pixels for objects of {self.side} pixels at "
                f"twice their size with black surroundings. Received: canvas={self.canvas}."
            )

    def apply(self, image, name: str) -> tuple[np.ndarray, tuple[int, int], bool]:
        """Pixels `(side, side, 1 or 3)`, the original width and height, whether colour was lost.

        `image` is a path, a Pillow image or an array; one that cannot be used is a ValueError.
        """
        from PIL import Image

        if isinstance(image, Path):
            image, _ = decode_image(image)
        elif not isinstance(image, Image.Image):
            image = Image.fromarray(_check_pixels(np.asarray(image), name))
        coloured = self.channels == 1 and _has_colour(convert_image(image, name, [], mode=None))
        image = convert_image(image, name, [], mode={1: "L", 3: "RGB", None: None}[self.channels])
        scale = self.side / max(image.size)
        resized = tuple(max(1, round(scale * n)) for n in image.size)
        square = (self.side, self.side)
        pixels = fit_image(image, resized=resized, size=square, fill=self.surroundings)
        return pixels, image.size, coloured


def _has_colour(image) -> bool:
    pixels = np.asarray(image)  # of a file in RGB, all pixels may be grey
    return pixels.ndim == 3 and bool((pixels != pixels[..., :1]).any())


def _check_pixels(pixels: np.ndarray, name: str) -> np.ndarray:
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    colours = pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[-1] == 3)
    if pixels.dtype != np.uint8 or not colours or not pixels.size:
        raise ValueError(
            f"image {name} must be uint8 (h, w), (h, w, 1) or (h, w, 3), values 0…255. "
            f"Received: dtype {pixels.dtype}, shape {pixels.shape}."
        )
    return pixels


@dataclass(frozen=True, kw_only=True)
class OwnRecord:
    """What is known about a data set of one's own; as JSON, data.json of a zoo folder."""

    name: str
    class_names: tuple[str, ...]
    channels: int
    canvas: int
    side: int
    surroundings: str
    split: Mapping[str, tuple[str, ...]]  # "train", "test", "validation" -> names of images
    # what was found: the images of each class in each split, the smallest and the largest image
    # (width, height), and the images that could not be read, with the reason
    counts: Mapping[str, Mapping[str, int]]
    image_sizes: tuple[tuple[int, int], ...]
    broken: Mapping[str, str] = field(default_factory=dict)
    coloured: int = 0  # images in colour that are taken as grey
    # of a split by chance; None: the source has the split, or the record is an old one
    test_share: float | None = None
    seed: int | None = None
    format_version: int = FORMAT_VERSION

    def __post_init__(self):
        make_plain(self)
        object.__setattr__(self, "split", {k: tuple(v) for k, v in self.split.items()})
        check_name(self.name)

    @property
    def look(self) -> Look:
        return Look(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Look)})

    def to_json(self) -> str:
        data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        data = {"format_version": data.pop("format_version"), **data}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OwnRecord:
        if data.get("format_version") != FORMAT_VERSION:
            raise ValueError(
                f"`format_version` must be {FORMAT_VERSION}; a newer gdn_keras may read this data "
                f"set. Received: format_version={data.get('format_version')!r}."
            )
        reject_unknown(cls, data, what="data set")
        reject_missing(cls, data, what="data set")
        return cls(**data)

    def report(self) -> str:
        """What was found, for people."""
        kind, lost = {1: "grey images", 3: "colour images"}[self.channels], ""
        if self.coloured:
            kind = "images"
            lost = f"{self.coloured:,} of them in colour, taken as grey (--colour keeps it), "
        total = sum(map(len, self.split.values()))
        small, large = (f"{width}x{height}" for width, height in self.image_sizes)
        rows = [
            [name, *(str(counts.get(name, 0)) for counts in self.counts.values())]
            for name in self.class_names
        ]
        lines = [
            f"{self.name}: {total:,} {kind} of {len(self.class_names)} classes, {lost}"
            f"{small} to {large} pixels",
            f"shown at {self.side} pixels on a canvas of {self.canvas}x{self.canvas}, "
            f"surroundings {self.surroundings}",
            "",
            markdown.table(["class", *self.counts], rows=rows, align="lr", pad=True),
        ]
        if self.broken:
            lines += ["", f"left out, because they could not be read: {len(self.broken)}"]
            lines += [f"  {reason}" for reason in self.broken.values()]
        return "\n".join(lines)


def check_name(name: str) -> str:
    """A name that can be one of a data set of one's own."""
    if not re.fullmatch(r"[a-z]\w*", name):
        raise ValueError(
            "`name` must begin with a small letter and have only letters, digits and underscores. "
            f"Received: name={name!r}."
        )
    return name
