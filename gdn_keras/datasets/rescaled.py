"""The rescaled data sets: images of a regular set, resized and shown on a larger canvas.

Also the loader by name for all sets with size factors, and the reader of the authors' own files.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gdn_keras.datasets import sets
from gdn_keras.datasets.arrays import Arrays
from gdn_keras.datasets.dataset import DataSet, Loader, SizeFactors
from gdn_keras.datasets.raw import SPLITS, Finder, StandardFiles, part_of
from gdn_keras.datasets.resize import object_size, rescale
from gdn_keras.datasets.samples import SampleFile
from gdn_keras.utils.checks import checked

# 2 ** (n / 4) and not (2 ** 0.25) ** n, so that 1/2, 1 and 2 are exact.
SIZE_FACTORS: tuple[float, ...] = tuple(2 ** (n / 4) for n in range(-4, 5))
BORDER = 4  # a translated object stays this many pixels away from the border
_SURROUNDINGS = {"zero": "black", "mirror": "mirrored"}
_TRANSLATION_KEYS = {"train": 1, "test": 2}


@checked
def load_arrays(
    name: str,
    *,
    split: str,
    size_factor: float = 1.0,
    data_dir: str | os.PathLike | None = None,
    limit: int | None = None,
) -> Arrays:
    """Load one split of a data set, at one size factor, into memory.

    >>> test = load_arrays("rescaled_cifar10", split="test", size_factor=2)
    >>> test.images.shape
    (10000, 64, 64, 3)

    Args:
        name: "fashion_mnist" (28x28x1), "cifar10" (32x32x3), "rescaled_fashion_mnist" and
            "rescaled_fashion_mnist_translated" (72x72x1), "rescaled_cifar10" (64x64x3), or the name
            of a registered data set with size factors.
        split: "train", "validation", "train+validation" or "test".
        size_factor: one of `SIZE_FACTORS`, exactly or to three decimals. 1 for regular sets.
        data_dir: folder with the standard files. Default: the environment variable
            GDN_KERAS_DATA, and if it is not set, a download with tensorflow-datasets.
        limit: only the first `limit` images of the split.
    """
    dataset = sets.get(name)
    if dataset.sizes.unit != "factor":
        raise ValueError(
            "`name` must be that of a data set with size factors; `load_stir` loads those with "
            f"objects of several sizes. Received: name={name!r}."
        )
    key = dataset.sizes.key(size_factor)
    ((_, arrays),) = dataset.load_sizes([key], split=split, data_dir=data_dir, limit=limit)
    return arrays


# === Making them ===


@dataclass(frozen=True, kw_only=True)
class Rescaled(Loader):
    """Images of other files, resized by size factors and shown on a square canvas."""

    source: StandardFiles
    canvas: int
    extension: str  # see `rescale`
    translated: bool = False  # to a random place instead of the centre

    def load(self, sizes, *, split, data_dir=None, limit=None, find: Finder | None = None):
        find = find or self.source.finder(data_dir)
        arrays, first = self.source.read_split(split, find=find, limit=limit)
        indices = np.arange(first, first + len(arrays))
        for factor in sizes:
            yield factor, self.apply(arrays, factor, part=part_of(split), indices=indices)

    def check(self, data_dir=None):
        self.source.check(data_dir)

    def apply(
        self, arrays: Arrays, size_factor: float, *, part: str, indices: np.ndarray
    ) -> Arrays:
        """Make images of this set from regular ones.

        `part` ("train" or "test") and `indices` say which images of the original files these are;
        the position of a translated object depends on nothing else.
        """
        corners = None
        if self.translated:
            size = object_size(arrays.images.shape[1], size_factor=size_factor, canvas=self.canvas)
            corners = translations(indices, part=part, room=self.canvas - size)
        images = rescale(
            arrays.images,
            size_factor=size_factor,
            canvas=self.canvas,
            extension=self.extension,
            corners=corners,
        )
        return Arrays(images, arrays.labels, arrays.class_names)


@dataclass(frozen=True)
class RescaledSamples:
    """Samples of a regular set, rescaled when loaded: they equal images of the rescaled set."""

    source: SampleFile
    how: Rescaled
    sizes: SizeFactors

    @property
    def size_factors(self) -> tuple[float, ...]:
        return self.sizes.values

    def load(self, size_factor: float = 1.0) -> Arrays:
        arrays, indices = self.source.read()
        factor = self.sizes.check(size_factor)
        return self.how.apply(arrays, factor, part="test", indices=indices)


def rescaled_set(
    source: DataSet,
    *,
    name: str,
    title: str,
    description: str,
    canvas: int,
    extension: str,
    translated: bool = False,
) -> DataSet:
    """The record of a rescaled version of a regular set, at all `SIZE_FACTORS`.

    Args:
        canvas: height and width of the images in pixels.
        extension: what is seen around the resized image, "zero" or "mirror", see `rescale`.
        translated: to a random place instead of the centre.
    """
    how = Rescaled(source=source.loader, canvas=canvas, extension=extension, translated=translated)
    rule = "2^(n/4) with n = -4...4"
    sizes = SizeFactors(SIZE_FACTORS, side=source.image_size[0], rule=rule)
    return replace(
        source,
        name=name,
        title=title,
        description=description,
        image_size=(canvas, canvas),
        sizes=sizes,
        surroundings=_SURROUNDINGS[extension],
        loader=how,
        samples=RescaledSamples(source.samples, how, sizes),
    )


def rescaled_sets() -> dict[str, DataSet]:
    """The records of all rescaled data sets, by name."""
    return {
        name: dataset
        for name, dataset in sets.all_sets().items()
        if isinstance(dataset.loader, Rescaled)
    }


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


# === Files of the authors ===

_HDF5_KEYS = {
    "train": ("train",),
    "validation": ("val",),
    "train+validation": ("train", "val"),
    "test": ("test",),
}


@checked
def load_hdf5(path: str | os.PathLike, *, split: str) -> Arrays:
    """Load one split of the authors' own HDF5 files of rescaled sets, for those who have them.

    A file holds some of `x_train, x_val, x_test` (images, 0...255) and `y_train, y_val, y_test`
    (labels) at the size factor in its name: ..._te10000_outsize72-72_scte2p000.h5 is size factor 2.
    Images may be stored as (n, h, w), (n, h, w, c) or (n, c, h, w), as bytes or as floats; floats
    are rounded to whole grey levels. One channel is Fashion-MNIST, three are CIFAR-10.
    """
    import h5py

    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}.")
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}. The authors give their files on request: "
            "https://zenodo.org/record/15188747 (rescaled CIFAR-10)."
        )
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path} is not a whole HDF5 file ({error}).") from error
    with file:
        images, labels = [], []
        for key in _HDF5_KEYS[split]:
            for letter in "xy":
                if f"{letter}_{key}" not in file:
                    raise ValueError(
                        f"{path} must hold {letter}_{key} for split {split!r}. "
                        f"Received: {sorted(file)}."
                    )
            images.append(_as_images(file[f"x_{key}"][()], f"{path}, x_{key}"))
            labels.append(_as_labels(file[f"y_{key}"][()], f"{path}, y_{key}"))
    images = np.concatenate(images)
    regular = sets.get("fashion_mnist" if images.shape[-1] == 1 else "cifar10")
    return Arrays(images, np.concatenate(labels), regular.class_names)


def _as_images(values: np.ndarray, where: str) -> np.ndarray:
    if values.ndim == 3:
        values = values[..., None]
    if values.ndim == 4 and values.shape[-1] not in (1, 3) and values.shape[1] in (1, 3):
        values = np.moveaxis(values, 1, -1)
    if values.ndim != 4 or values.shape[-1] not in (1, 3) or not values.size:
        raise ValueError(
            f"{where} must be images with one or three channels. Received: shape {values.shape}."
        )
    if values.dtype == np.uint8:
        return values
    low, high = float(values.min()), float(values.max())
    if not (0 <= low and 1 < high <= 255):
        raise ValueError(f"{where} must have grey levels 0...255. Received: {low}...{high}.")
    return np.floor(values + 0.5).astype(np.uint8)


def _as_labels(values: np.ndarray, where: str) -> np.ndarray:
    values = values.reshape(-1)
    if not np.array_equal(values, values.astype(np.int64)):
        raise ValueError(f"{where} must be whole numbers. Received: dtype {values.dtype}.")
    return values.astype(np.int64)
