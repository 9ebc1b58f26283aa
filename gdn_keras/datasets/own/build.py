"""From images and labels to a data set with its record: read, split, and registered."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdn_keras.datasets import sets
from gdn_keras.datasets.arrays import Arrays
from gdn_keras.datasets.dataset import DataSet
from gdn_keras.datasets.own.dataset import make_dataset
from gdn_keras.datasets.own.record import Look, OwnRecord

SAMPLES = 100  # images that a zoo folder keeps, if there are not more classes


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
    from gdn_keras.utils.progress import show_progress

    class_names = given.class_names if given else tuple(map(str, class_names))
    _check_classes(class_names)
    if not 0 < test_share < 1:
        raise ValueError(f"`test_share` must be between 0 and 1. Received: {test_share}.")
    read, broken, coloured = [], {}, 0
    for item in show_progress(items, total=total, unit="img", desc=name, leave=False):
        try:
            pixels, size, lost_colour = look.apply(item.image, item.name)
        except (ValueError, OSError) as error:
            broken[item.name] = str(error).replace(str(item.image), item.name)  # no path of yours
            continue
        coloured += lost_colour
        read.append((dataclasses.replace(item, image=None), pixels, size))
    if not read:
        reason = next(iter(broken.values()), "there are none")
        raise ValueError(f"{name}: no image could be read ({reason}).")
    channels = look.channels or max(pixels.shape[-1] for _, pixels, _ in read)
    chance = {}
    if given:
        wanted = given.split
    elif (wanted := _split([item for item, _, _ in read])) is None:
        chance = {"test_share": test_share, "seed": seed}
        wanted = _split_by_chance([item for item, _, _ in read], **chance)
    found = {item.name: (item.label, pixels) for item, pixels, _ in read}
    unknown = len(found.keys() - {n for names in wanted.values() for n in names})
    if unknown:
        warnings.warn(
            f"{name}: {unknown:,} images are not in the split that was written down, and are left "
            "out. Delete its file to split again.",
            stacklevel=3,
        )
    counts = {}
    for split, names in wanted.items():
        missing = [n for n in names if n not in found]
        if missing:
            raise ValueError(
                f"{name} must have all images of its split, {len(names):,} for {split!r}. "
                f"Missing or broken: {len(missing):,}, first {missing[0]!r}."
            )
        labels = Counter(found[n][0] for n in names)
        if without_name := labels.keys() - set(class_names):
            raise ValueError(
                "`class_names` must be names of all classes. Received: "
                f"{', '.join(class_names)}, and images of {', '.join(sorted(without_name))}."
            )
        counts[split] = {label: labels[label] for label in class_names}
    _check_counts(counts)
    parts = {
        split: Arrays(
            np.stack([_with_channels(found[n][1], channels) for n in names]),
            np.array([class_names.index(found[n][0]) for n in names]),
            class_names,
        )
        for split, names in wanted.items()
    }
    sizes = sorted((size for _, _, size in read), key=lambda size: size[0] * size[1])
    record = given or OwnRecord(
        name=name,
        class_names=class_names,
        **vars(look) | {"channels": channels},
        split=wanted,
        counts=counts,
        image_sizes=(sizes[0], sizes[-1]),
        broken=broken,
        coloured=coloured,
        **chance,
    )
    samples = _choose_samples(parts["test"])
    return sets.register(make_dataset(record, samples=samples, parts=parts))


def _choose_samples(test: Arrays) -> Arrays:
    each = max(1, SAMPLES // len(test.class_names))
    of_class = (np.flatnonzero(test.labels == k)[:each] for k in range(len(test.class_names)))
    return test.select(np.sort(np.concatenate(list(of_class))))


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


def _split(items: list[Item]) -> dict[str, tuple[str, ...]] | None:
    """The split of the source, if it has one."""
    found: dict[str, list[str]] = {}
    for item in items:
        found.setdefault(item.split or "train", []).append(item.name)
    if "test" not in found and "validation" in found:
        found["test"] = found.pop("validation")
    if "test" not in found or "train" not in found:
        return None
    order = [split for split in ("train", "validation", "test") if split in found]
    return {split: tuple(found[split]) for split in order}


def _split_by_chance(
    items: list[Item], *, test_share: float, seed: int
) -> dict[str, tuple[str, ...]]:
    """The same share of every class for testing."""
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
