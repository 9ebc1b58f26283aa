"""Fashion-MNIST, CIFAR-10 and their rescaled versions as arrays, by name.

Splits, as in the paper: Fashion 50,000 / 10,000 / 10,000, CIFAR 40,000 / 10,000 / 10,000.
The validation set is the last 10,000 images of the original training set, in the original order
(CIFAR: data_batch_5); "train+validation" is the original training set.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from gdn_keras.datasets import download, raw
from gdn_keras.datasets.arrays import Arrays
from gdn_keras.datasets.resize import object_size, rescale

# 2 ** (n / 4) and not (2 ** 0.25) ** n, so that 1/2, 1 and 2 are exact.
SIZE_FACTORS: tuple[float, ...] = tuple(2 ** (n / 4) for n in range(-4, 5))
SPLITS = ("train", "validation", "train+validation", "test")
BORDER = 4  # a translated object stays this many pixels away from the border
Finder = Callable[[str, tuple[str, ...]], list[Path]]
_TRANSLATION_KEYS = {"train": 1, "test": 2}
_VALIDATION = 10_000


@dataclass(frozen=True)
class Rescaling:
    """How a rescaled data set is made from a regular one."""

    source: str
    canvas: int
    extension: str
    translated: bool = False


RESCALINGS = {
    "rescaled_fashion_mnist": Rescaling("fashion_mnist", 72, "zero"),
    "rescaled_fashion_mnist_translated": Rescaling("fashion_mnist", 72, "zero", translated=True),
    "rescaled_cifar10": Rescaling("cifar10", 64, "mirror"),
}
REGULAR = {"fashion_mnist": raw.FASHION_CLASSES, "cifar10": raw.CIFAR_CLASSES}
NAMES = (*REGULAR, *RESCALINGS)


def load_arrays(
    name: str,
    *,
    split: str,
    size_factor: float = 1.0,
    data_dir: str | os.PathLike | None = None,
    limit: int | None = None,
    mode: str = "centred",
) -> Arrays:
    """Load one split of a data set, at one size factor, into memory.

    >>> test = load_arrays("rescaled_cifar10", split="test", size_factor=2)
    >>> test.images.shape
    (10000, 64, 64, 3)

    Args:
        name: "fashion_mnist" (28x28x1), "cifar10" (32x32x3), "rescaled_fashion_mnist" and
            "rescaled_fashion_mnist_translated" (72x72x1) or "rescaled_cifar10" (64x64x3).
        split: "train", "validation", "train+validation" or "test".
        size_factor: one of `SIZE_FACTORS`, exactly or to three decimals. 1 for regular sets.
        data_dir: folder with the standard files. Default: the environment variable
            GDN_KERAS_DATA, and if it is not set, a download with tensorflow-datasets.
        limit: only the first `limit` images of the split.
        mode: "centred" or "matlab", see `rescale`.
    """
    return load_with(
        finder(data_dir), name, split=split, size_factor=size_factor, limit=limit, mode=mode
    )


def finder(data_dir: str | os.PathLike | None = None) -> Finder:
    """How to get the standard files: from a folder if there is one, otherwise by download."""
    folder = raw.data_folder(data_dir)
    return partial(raw.find, folder=folder) if folder else download.find


def load_with(
    find: Finder,
    name: str,
    *,
    split: str,
    size_factor: float,
    limit: int | None = None,
    mode: str = "centred",
) -> Arrays:
    """`load_arrays` with a function that finds the standard files."""
    ((_, arrays),) = load_sizes(
        find, name, split=split, size_factors=[size_factor], limit=limit, mode=mode
    )
    return arrays


def load_sizes(
    find: Finder,
    name: str,
    *,
    split: str,
    size_factors: Iterable[float],
    limit: int | None = None,
    mode: str = "centred",
) -> Iterator[tuple[float, Arrays]]:
    """A split at one size factor after another; the files are read once."""
    factors = [check_size_factor(factor) for factor in size_factors]
    source = source_of(name)
    wrong = [factor for factor in factors if source == name and factor != 1]
    if wrong:
        raise ValueError(
            f"`size_factor` must be 1 for the regular set {name!r}. Received: {wrong[0]:g}."
        )
    arrays, first = load_regular(find, source, split=split, limit=limit)
    places = {
        "part": "test" if split == "test" else "train",
        "indices": np.arange(first, first + len(arrays)),
    }
    for factor in factors:
        if source == name:
            yield factor, arrays
        else:
            yield factor, rescale_like(name, arrays, size_factor=factor, mode=mode, **places)


def load_regular(
    find: Finder, name: str, *, split: str, limit: int | None = None
) -> tuple[Arrays, int]:
    """A split of a regular set, and the position of its first image in the original file(s)."""
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}.")
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1. Received: limit={limit}.")
    part = "test" if split == "test" else "train"
    if name == "fashion_mnist":
        paths = find(raw.FASHION_FOLDER, raw.FASHION_FILES[part])
        images, labels = raw.read_fashion(paths)
        border = len(images) - _VALIDATION
        if part == "train" and border < 1:
            raise ValueError(
                f"{paths[0]} must hold more than the {_VALIDATION} images of the validation set. "
                f"Received: {len(images)}."
            )
        where = {"train": slice(border), "validation": slice(border, None)}.get(split, slice(None))
        images, labels = images[where], labels[where]
        first = where.start or 0
    else:
        where = {"train": slice(4), "validation": slice(4, None)}.get(split, slice(None))
        names = raw.CIFAR_FILES[part][where]
        first = (where.start or 0) * raw.CIFAR_BATCH
        if limit is not None:
            names = names[: -(-limit // raw.CIFAR_BATCH)]
        images, labels = raw.read_cifar(find(raw.CIFAR_FOLDER, names))
    return Arrays(images[:limit], labels[:limit], REGULAR[name]), first


def rescale_like(
    name: str, arrays: Arrays, *, size_factor: float, mode: str, part: str, indices: np.ndarray
) -> Arrays:
    """Make images of the rescaled set `name` from regular ones.

    `part` ("train" or "test") and `indices` say which images of the original files these are;
    the position of a translated object depends on nothing else.
    """
    how = RESCALINGS[name]
    corners = None
    if how.translated:
        size = object_size(
            arrays.images.shape[1], size_factor=size_factor, canvas=how.canvas, mode=mode
        )
        corners = translations(indices, part=part, room=how.canvas - size)
    images = rescale(
        arrays.images,
        size_factor=size_factor,
        canvas=how.canvas,
        extension=how.extension,
        mode=mode,
        corners=corners,
    )
    return Arrays(images, arrays.labels, arrays.class_names)


def translations(indices: np.ndarray, *, part: str, room: int) -> np.ndarray:
    """Row and column of the top left pixel of translated objects, the same for everyone.

    Two fixed random fractions belong to each image of the original files, so an object keeps its
    relative position at every size factor. They are made from the raw output of a counter-based
    generator: unlike numpy's distributions, that never changes between versions.
    """
    stream = np.random.Philox(key=_TRANSLATION_KEYS[part])
    words = stream.random_raw(2 * (int(np.max(indices)) + 1)).reshape(-1, 2)[indices]
    fractions = (words >> np.uint64(11)) * 2.0**-53
    return BORDER + np.floor(fractions * (room - 2 * BORDER + 1)).astype(int)


def source_of(name: str) -> str:
    """The regular set behind a name; the name itself for a regular set."""
    if name not in NAMES:
        raise ValueError(f"`name` must be one of {NAMES}. Received: name={name!r}.")
    return RESCALINGS[name].source if name in RESCALINGS else name


def source_files(name: str) -> list[tuple[str, tuple[str, ...]]]:
    """Subfolder and names of all standard files behind a data set."""
    if source_of(name) == "fashion_mnist":
        return [(raw.FASHION_FOLDER, files) for files in raw.FASHION_FILES.values()]
    return [(raw.CIFAR_FOLDER, files) for files in raw.CIFAR_FILES.values()]


def check_size_factor(size_factor: float) -> float:
    """The exact 2^(n/4), n = -4...4, for a number that agrees with it to three decimals."""
    for exact in SIZE_FACTORS:
        if abs(size_factor - exact) <= 5e-4:
            return exact
    raise ValueError(
        "`size_factor` must be 2^(n/4) with n = -4...4: "
        f"{', '.join(f'{s:.3f}' for s in SIZE_FACTORS)}. Received: size_factor={size_factor}."
    )
