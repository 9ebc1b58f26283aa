"""Data sets of your own: images of any size with labels, as a record like those of the package.

`sources.py` reads them from folders, files and other libraries. Every image is resized so that its
longer side has `side` pixels, and shown on a square canvas at nine sizes, as `rescale` does.

`OwnRecord` is what is written down about such a data set (data.json of a zoo folder): how its
images are made, which of them are for training and which for testing, and what was found. With it,
the same images give the same data set again.
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gdn_keras import markdown
from gdn_keras.checks import check_integer
from gdn_keras.datasets import sets
from gdn_keras.datasets.arrays import Arrays, join
from gdn_keras.datasets.dataset import DataSet, Loader
from gdn_keras.datasets.raw import SPLITS
from gdn_keras.datasets.rescaled import SIZE_FACTORS, rescaled_set
from gdn_keras.datasets.resize import object_size
from gdn_keras.fields import make_plain, reject_missing, reject_unknown
from gdn_keras.image_files import convert_image, decode_image, fit_image

EXTENSIONS = {"black": "zero", "mirrored": "mirror"}  # surroundings -> argument of `rescale`
SAMPLES = 100  # images that a zoo folder keeps, if there are not more classes
FORMAT_VERSION = 1


# === What is written down ===


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

    def apply(self, image, name: str) -> tuple[np.ndarray, tuple[int, int]]:
        """Pixels `(side, side, 1 or 3)` and the original width and height.

        `image` is a path, a Pillow image or an array; one that cannot be used is a ValueError.
        """
        from PIL import Image

        if isinstance(image, Path):
            image, _ = decode_image(image)
        elif isinstance(image, np.ndarray):
            image = Image.fromarray(_check_pixels(image, name))
        image = convert_image(image, name, [], mode={1: "L", 3: "RGB", None: None}[self.channels])
        scale = self.side / max(image.size)
        resized = tuple(max(1, round(scale * n)) for n in image.size)
        square = (self.side, self.side)
        pixels = fit_image(image, resized=resized, size=square, fill=self.surroundings)
        return pixels, image.size


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
        kind = {1: "grey", 3: "colour"}[self.channels]
        total = sum(map(len, self.split.values()))
        small, large = (f"{width}x{height}" for width, height in self.image_sizes)
        rows = [
            [name, *(str(counts.get(name, 0)) for counts in self.counts.values())]
            for name in self.class_names
        ]
        lines = [
            f"{self.name}: {total:,} {kind} images of {len(self.class_names)} classes, "
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


# === The data set ===


@dataclass(frozen=True, kw_only=True)
class OwnImages(Loader):
    """The images of a data set of one's own, each filling a square; `Rescaled` resizes them."""

    record: OwnRecord
    parts: Mapping[str, Arrays] | None = None  # by split; None: only the record is here

    def finder(self, data_dir=None) -> None:
        """They are in memory, so no files have to be found."""

    def read_split(self, split: str, *, find=None, limit: int | None = None) -> tuple[Arrays, int]:
        """The images of a split, at most `limit` of them, and 0: they have no other order."""
        if self.parts is None:
            raise ValueError(
                f"The images of {self.record.name!r} are not on record, only how they are made: "
                "open them with `gdn_keras.datasets.from_folder` and so on, or `--data`."
            )
        names = split.split("+") if split in SPLITS else ()
        parts = [self.parts[name] for name in names if name in self.parts]
        if not parts:
            raise ValueError(f"`split` must be one of {tuple(self.parts)}. Received: {split!r}.")
        return join(parts).spread(limit), 0


@dataclass(frozen=True)
class OwnSamples:
    """A few test images of a data set of one's own, which its zoo folders keep."""

    name: str
    arrays: Arrays

    size_factors = (1.0,)

    def load(self, size_factor: float = 1.0) -> Arrays:
        return self.arrays

    def read(self) -> tuple[Arrays, np.ndarray]:
        return self.arrays, np.arange(len(self.arrays))


def make_dataset(
    record: OwnRecord, *, samples: Arrays, parts: Mapping[str, Arrays] | None = None
) -> DataSet:
    """The data set of a record: only with samples of its images, or with all of them."""
    counts = [sum(part.values()) for part in (record.counts["train"], record.counts["test"])]
    source = DataSet(
        name=record.name,
        image_size=(record.side, record.side),
        channels=record.channels,
        class_names=record.class_names,
        num_images=tuple(counts),
        loader=OwnImages(record=record, parts=parts),
        samples=OwnSamples(record.name, samples),
    )
    title = record.name.replace("_", " ")
    return rescaled_set(
        source,
        name=record.name,
        title=title,
        description=f"{title}, objects of {record.side} pixels, rescaled.",
        canvas=record.canvas,
        extension=EXTENSIONS[record.surroundings],
    )


def own_record(dataset: DataSet) -> OwnRecord | None:
    """The record behind a data set of one's own; None for the others."""
    source = getattr(dataset.loader, "source", None)
    return source.record if isinstance(source, OwnImages) else None


def register_folder(record: OwnRecord, *, samples: Arrays) -> None:
    """Make the data set of a zoo folder known, unless it is, perhaps with all its images."""
    there = sets.all_sets().get(record.name)
    if there is None or own_record(there) != record:
        sets.register(make_dataset(record, samples=samples))


def _choose_samples(test: Arrays) -> Arrays:
    each = max(1, SAMPLES // len(test.class_names))
    of_class = (np.flatnonzero(test.labels == k)[:each] for k in range(len(test.class_names)))
    return test.select(np.sort(np.concatenate(list(of_class))))


def samples_file(samples: Arrays) -> bytes:
    """The content of samples.npz."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=samples.images, labels=samples.labels)
    return buffer.getvalue()


def read_samples(path: Path, record: OwnRecord) -> Arrays:
    with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
        return Arrays(file["images"], file["labels"], record.class_names)


# === From images to the record ===


@dataclass(frozen=True)
class Item:
    """One image before it is read."""

    name: str
    image: Any  # a path, an array or a Pillow image
    label: str
    split: str | None = None  # None: not decided by the source


def build(
    items: Iterable[Item],
    *,
    name: str,
    look: Look,
    class_names: Iterable[str],
    given: OwnRecord | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    total: int | None = None,
) -> DataSet:
    """Read all images, split them (or as `given` says), and register the data set.

    `total` is the number of items; it shows the progress.
    """
    from gdn_keras.progress import show_progress

    class_names = given.class_names if given else tuple(map(str, class_names))
    _check_classes(class_names)
    read, broken = [], {}
    for item in show_progress(items, total=total, unit="img", desc=name, leave=False):
        try:
            pixels, size = look.apply(item.image, item.name)
        except (ValueError, OSError) as error:
            broken[item.name] = str(error).replace(str(item.image), item.name)  # no path of yours
            continue
        read.append((dataclasses.replace(item, image=None), pixels, size))
    if not read:
        reason = next(iter(broken.values()), "there are none")
        raise ValueError(f"{name}: no image could be read ({reason}).")
    channels = look.channels or max(pixels.shape[-1] for _, pixels, _ in read)
    wanted = given.split if given else _split([i for i, _, _ in read], test_share, seed)
    found = {item.name: (item.label, pixels) for item, pixels, _ in read}
    parts = {}
    for split, names in wanted.items():
        missing = [n for n in names if n not in found]
        if missing:
            raise ValueError(
                f"{name} must have all images of its split, {len(names):,} for {split!r}. "
                f"Missing or broken: {len(missing):,}, first {missing[0]!r}."
            )
        parts[split] = Arrays(
            np.stack([_with_channels(found[n][1], channels) for n in names]),
            np.array([class_names.index(found[n][0]) for n in names]),
            class_names,
        )
    counts = {
        split: {
            label: int(count)
            for label, count in zip(
                class_names, np.bincount(a.labels, minlength=len(class_names)), strict=True
            )
        }
        for split, a in parts.items()
    }
    _check_counts(counts)
    sizes = sorted((size for _, _, size in read), key=lambda size: size[0] * size[1])
    record = given or OwnRecord(
        name=name,
        class_names=class_names,
        **vars(look) | {"channels": channels},
        split=wanted,
        counts=counts,
        image_sizes=(sizes[0], sizes[-1]),
        broken=broken,
    )
    samples = _choose_samples(parts["test"])
    return sets.register(make_dataset(record, samples=samples, parts=parts))


def _with_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    return np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] < channels else pixels


def _check_classes(class_names: tuple[str, ...]) -> None:
    if len(class_names) < 2 or len(set(class_names)) < len(class_names):
        raise ValueError(
            "`class_names` must be at least two different names. "
            f"Received: {len(class_names)} classes, {', '.join(class_names)}."
        )


def _check_counts(counts: Mapping[str, Mapping[str, int]]) -> None:
    for split in ("train", "test"):
        empty = [label for label, count in counts[split].items() if not count]
        if empty:
            raise ValueError(
                f"Every class must have images to {split} on. Received: none of "
                f"{', '.join(empty)} in the split {split!r}."
            )


def _split(items: list[Item], test_share: float, seed: int) -> dict[str, tuple[str, ...]]:
    """The split of the source if it has one; otherwise the same share of every class, by chance."""
    if not 0 < test_share < 1:
        raise ValueError(f"`test_share` must be between 0 and 1. Received: {test_share}.")
    found: dict[str, list[str]] = {}
    for item in items:
        found.setdefault(item.split or "train", []).append(item.name)
    if "test" not in found and "validation" in found:
        found["test"] = found.pop("validation")
    if "test" in found and "train" in found:
        order = [split for split in ("train", "validation", "test") if split in found]
        return {split: tuple(found[split]) for split in order}
    by_class: dict[str, list[str]] = {}
    for item in items:
        by_class.setdefault(item.label, []).append(item.name)
    rng = np.random.default_rng(seed)
    test = set()
    for label in sorted(by_class):
        names = sorted(by_class[label])
        count = max(1, round(test_share * len(names)))
        test.update(names[k] for k in rng.permutation(len(names))[:count])
    names = [item.name for item in items]
    return {
        "train": tuple(n for n in names if n not in test),
        "test": tuple(n for n in names if n in test),
    }
