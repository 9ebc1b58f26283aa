"""STIR, Scaled and Translated Image Recognition (Altstidl et al., 2023): reading its files.

A file holds objects of every size from 17 to 64 pixels at random places in 64x64 images:

    imgs     uint8 (3, 48, n, m, 64, 64[, 3])  split, 64 - size, class, instance, row, column
    lbls     (3, 48, n, m)                     class
    scls     (3, 48, n, m)                     size in pixels
    psts     (3, 48, n, m, 2)                  left, top of the object
    metadata (k, 2)                            pairs of strings
    lbldata  (n,)                              class names
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdn_keras.datasets import sets
from gdn_keras.datasets.arrays import Arrays, readable
from gdn_keras.datasets.dataset import Loader, ObjectSizes
from gdn_keras.datasets.raw import ENVIRONMENT_VARIABLE, data_folder
from gdn_keras.utils.checks import checked, did_you_mean

SIDE = 64
STIR_SIZES = ObjectSizes(17, 64, ranges={"small": (17, 32), "mid": (33, 48), "large": (49, 64)})
SIZES = STIR_SIZES.values
SPLITS = ("train", "validation", "test")
HOME = "the STIR data set, https://zenodo.org/record/6578038"
_KEYS = ("imgs", "lbls", "scls", "psts", "metadata", "lbldata")


@checked
def load_stir(
    path_or_name: str | os.PathLike,
    *,
    split: str,
    sizes: str | int | Sequence[int],
    data_dir: str | os.PathLike | None = None,
) -> Arrays:
    """Load the images of one split and some object sizes of a STIR file.

    >>> train = load_stir("stir_emoji", split="train", sizes="small")
    >>> test = load_stir("somewhere/trafficsign.npz", split="test", sizes=[17, 40, 64])

    Args:
        path_or_name: a path to a `.npz` file, or a name: "stir_emoji", "stir_gtsrb", "stir_sign"
            or "stir_aerial" for `stir/{emoji,gtsrb,trafficsign,aerial}.npz` in the data folder.
        split: "train", "validation" or "test".
        sizes: "small" (17...32), "mid" (33...48), "large" (49...64), "all", or whole numbers.
        data_dir: the data folder. Default: the environment variable GDN_KERAS_DATA.

    Returns:
        Arrays with the size of the object in each image in `object_sizes` and its left and top
        in `object_positions`; ordered by the given sizes, then as in the file.
    """
    _check_split(split)
    chosen = STIR_SIZES.choose(sizes)
    return _select(read_stir_file(find_stir(path_or_name, data_dir=data_dir)), split, chosen)


@dataclass(frozen=True)
class StirFile(Loader):
    """A file in the format of STIR, in the folder `stir` of the data folder or anywhere."""

    file: str  # a name, or an absolute path
    home: str = ""  # where people find it
    photographs: str = ""  # folder in the data folder from whose boxes.csv the file is made

    def load(self, sizes, *, split, data_dir=None, limit=None):
        _check_split(split)
        data = read_stir_file(self.find(data_dir))
        for size in sizes:
            yield size, _select(data, split, [size]).spread(limit)  # sorted by class

    def find(self, data_dir: str | os.PathLike | None = None) -> Path:
        """The path of the file; says how to get it if it is missing."""
        folder = data_folder(data_dir)
        if folder is None and not Path(self.file).is_absolute():
            raise FileNotFoundError(
                f"{self.file} must be in the folder `stir` of a data folder. "
                f"Give the data folder as `data_dir` or in {ENVIRONMENT_VARIABLE}."
            )
        path = Path(folder or "", "stir", self.file)  # an absolute path stays what it is
        if path.is_file():
            return path
        how = f"get it from {self.home}" if self.home else "there is no such file"
        if self.photographs:
            boxes = folder / self.photographs / "boxes.csv"
            how = f"it is made from photographs and {boxes}, which is missing, too; see `make_stir`"
            if boxes.is_file():
                how = f"make it: python -m gdn_keras.datasets make-stir {boxes} {path}"
        raise FileNotFoundError(f"Missing {path.name} in {path.parent}: {how}.")

    def check(self, data_dir=None):
        self.find(data_dir)

    def files(self, folder):
        path = folder / "stir" / self.file
        return [path] if path.exists() else []

    def status(self, path):
        try:
            read_stir_file(path)
        except ValueError as error:
            return str(error)
        return "ok"


def find_stir(path_or_name: str | os.PathLike, *, data_dir=None) -> Path:
    """The path of a STIR file; says how to get one that is missing."""
    files = {n: d.loader for n, d in sets.all_sets().items() if isinstance(d.loader, StirFile)}
    if path_or_name in files:
        return files[path_or_name].find(data_dir)
    path = Path(path_or_name)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}. `path_or_name` must be a path or one of {tuple(files)}."
            f"{did_you_mean(str(path_or_name), files)}"
        )
    return path


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}.")


def _select(data: dict[str, np.ndarray], split: str, sizes: Iterable[int]) -> Arrays:
    where = SPLITS.index(split), [SIDE - size for size in sizes]
    images = data["imgs"][where]
    channels = 3 if images.ndim == 6 else 1
    return Arrays(
        images=images.reshape(-1, SIDE, SIDE, channels),
        labels=data["lbls"][where].reshape(-1),
        class_names=tuple(str(name) for name in data["lbldata"]),
        object_sizes=data["scls"][where].reshape(-1),
        object_positions=data["psts"][where].reshape(-1, 2),
    )


def read_stir_file(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """All arrays of a STIR file, checked. Files with pickled objects are rejected."""
    # Opened here because np.load leaves a file open when it is not a whole archive.
    with (
        readable(path, expected="a whole STIR file"),
        open(path, "rb") as opened,
        np.load(opened, allow_pickle=False) as file,
    ):
        missing = [key for key in _KEYS if key not in file]
        if missing:
            raise ValueError(f"the keys {missing} are missing")
        data = {key: file[key] for key in _KEYS}
    _check(data, path)
    return data


def _check(data: dict[str, np.ndarray], path) -> None:
    images, names = data["imgs"], data["lbldata"]
    leading = images.shape[:4]
    if (
        images.dtype != np.uint8
        or images.shape[:2] != (3, len(SIZES))
        or images.shape[4:] not in ((SIDE, SIDE), (SIDE, SIDE, 3))
    ):
        raise ValueError(
            f"{path}: `imgs` must be uint8 (3, 48, n, m, 64, 64) or (3, 48, n, m, 64, 64, 3). "
            f"Received: dtype {images.dtype}, shape {images.shape}."
        )
    for key, shape in (("lbls", leading), ("scls", leading), ("psts", (*leading, 2))):
        if data[key].shape != shape or data[key].dtype.kind not in "ui":
            raise ValueError(
                f"{path}: `{key}` must be integers of shape {shape}. "
                f"Received: dtype {data[key].dtype}, shape {data[key].shape}."
            )
    if names.ndim != 1 or names.dtype.kind != "U":
        raise ValueError(
            f"{path}: `lbldata` must be a list of strings. "
            f"Received: dtype {names.dtype}, shape {names.shape}."
        )
    if data["lbls"].min() < 0 or data["lbls"].max() >= len(names):
        raise ValueError(
            f"{path}: `lbls` must be in 0...{len(names) - 1}. "
            f"Received: {data['lbls'].min()}...{data['lbls'].max()}."
        )
    expected = SIDE - np.arange(len(SIZES))[None, :, None, None]
    if (data["scls"] != expected).any():
        raise ValueError(f"{path}: `scls` must be 64 - index along axis 1.")
