"""The authors' own HDF5 files of the rescaled data sets, for those who have them.

A file holds some of `x_train, x_val, x_test` (images, 0...255) and `y_train, y_val, y_test`
(labels). Its name says the size factor: ..._te10000_outsize72-72_scte2p000.h5 is size factor 2.
"""

import os
import re
from pathlib import Path

import numpy as np

from gdn_keras.datasets.arrays import Arrays
from gdn_keras.datasets.raw import CIFAR_CLASSES, FASHION_CLASSES
from gdn_keras.datasets.rescaled import SPLITS, check_size_factor

_KEYS = {
    "train": ("train",),
    "validation": ("val",),
    "train+validation": ("train", "val"),
    "test": ("test",),
}


def load_hdf5(path: str | os.PathLike, *, split: str) -> Arrays:
    """Load one split of an HDF5 file of the authors.

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
        for key in _KEYS[split]:
            for letter in "xy":
                if f"{letter}_{key}" not in file:
                    raise ValueError(
                        f"{path} must hold {letter}_{key} for split {split!r}. "
                        f"Received: {sorted(file)}."
                    )
            images.append(_as_images(file[f"x_{key}"][()], f"{path}, x_{key}"))
            labels.append(_as_labels(file[f"y_{key}"][()], f"{path}, y_{key}"))
    images = np.concatenate(images)
    names = FASHION_CLASSES if images.shape[-1] == 1 else CIFAR_CLASSES
    return Arrays(images, np.concatenate(labels), names)


def hdf5_size_factor(path: str | os.PathLike) -> float:
    """The size factor in the name of a file: 2.0 for ..._scte2p000.h5."""
    found = re.findall(r"_scte(\d+)p(\d+)", Path(path).name)
    if not found:
        raise ValueError(f"The name must contain _scte and a size factor. Received: {path}.")
    whole, decimals = found[-1]
    return check_size_factor(float(f"{whole}.{decimals}"))


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
