"""The standard files of Fashion-MNIST and CIFAR-10: where they are and how to read them.

With a folder (the argument `data_dir` or the environment variable GDN_KERAS_DATA), the files are
read from there and nothing is downloaded:

    fashion-mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz
    cifar-10-batches-bin/{data_batch_1,...,data_batch_5,test_batch}.bin

Without one, tensorflow-datasets downloads the same files, from the addresses and with the
checksums of its own `fashion_mnist` and `cifar10`. What is downloaded stays in its download folder
(~/tensorflow_datasets/downloads, or TFDS_DATA_DIR) and is fetched only once. The files rather than
its prepared records are read, because the records are shuffled, and the validation set is defined
by the original order.

Splits, as in the paper: Fashion 50,000 / 10,000 / 10,000, CIFAR 40,000 / 10,000 / 10,000.
The validation set is the last 10,000 images of the original training set, in the original order
(CIFAR: data_batch_5); "train+validation" is the original training set.
"""

import gzip
import hashlib
import os
import socket
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from gdn_keras.datasets.arrays import Arrays
from gdn_keras.datasets.dataset import Loader

ENVIRONMENT_VARIABLE = "GDN_KERAS_DATA"
SPLITS = ("train", "validation", "train+validation", "test")
VALIDATION_IMAGES = 10_000
CIFAR_BATCH = 10_000  # images in a file
Finder = Callable[[Sequence[str]], list[Path]]


def data_folder(data_dir: str | os.PathLike | None = None) -> Path | None:
    """The folder with the standard files, or None if they should be downloaded."""
    chosen = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen).expanduser() if chosen else None


@dataclass(frozen=True, kw_only=True)
class StandardFiles(Loader):
    """Files of a data set as its authors publish them: a part to train on, and one to test on."""

    folder: str  # in the data folder
    # part ("train", "test") -> name of each file -> SHA-256 of its contents. For .gz files of what
    # is inside: the same bytes are packed in several ways by those who pass them on.
    parts: Mapping[str, Mapping[str, str]]
    read: Callable[[list[Path]], tuple[np.ndarray, np.ndarray]]  # images and labels of a part
    class_names: tuple[str, ...]
    home: str  # which files, and where people find them
    tfds_name: str  # of the data set of tensorflow-datasets whose addresses are used
    archive: bool = False  # what is downloaded is an archive of the folder

    def load(self, sizes, *, split, data_dir=None, limit=None):
        arrays, _ = self.read_split(split, find=self.finder(data_dir), limit=limit)
        for size in sizes:
            yield size, arrays

    def read_split(
        self, split: str, *, find: Finder, limit: int | None = None
    ) -> tuple[Arrays, int]:
        """The images of a split, and the position of the first one in the original files."""
        if split not in SPLITS:
            raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}.")
        if limit is not None and limit < 1:
            raise ValueError(f"`limit` must be at least 1. Received: limit={limit}.")
        part = part_of(split)
        paths = find(tuple(self.parts[part]))
        images, labels = self.read(paths)
        border = len(images) - VALIDATION_IMAGES
        if part == "train" and border < 1:
            raise ValueError(
                f"{paths[0]} must hold more than the {VALIDATION_IMAGES} images of the validation "
                f"set. Received: {len(images)}."
            )
        where = {"train": slice(border), "validation": slice(border, None)}.get(split, slice(None))
        images, labels = images[where][:limit], labels[where][:limit]
        return Arrays(images, labels, self.class_names), where.start or 0

    def finder(self, data_dir: str | os.PathLike | None = None) -> Finder:
        """How to get the files: from a folder if there is one, otherwise by download."""
        folder = data_folder(data_dir)
        return partial(self.find, folder=folder) if folder else self.download

    def find(self, names: Sequence[str], *, folder: Path) -> list[Path]:
        """The named files in a data folder; says how to get those that are missing."""
        paths = [folder / self.folder / name for name in names]
        missing = [path.name for path in paths if not path.is_file()]
        if missing:
            raise FileNotFoundError(
                f"Missing {', '.join(missing)} in {folder / self.folder}. Put {self.home} there; "
                f"or, with a connection to the internet, leave out `data_dir` and "
                f"{ENVIRONMENT_VARIABLE}, and the files are downloaded with tensorflow-datasets."
            )
        return paths

    def find_all(self, folder: Path) -> list[Path]:
        """All files in a data folder; says how to get those that are missing."""
        return [path for names in self.parts.values() for path in self.find(names, folder=folder)]

    def download(self, names: Sequence[str], *, manager=None) -> list[Path]:
        """The named files, downloaded if necessary.

        `manager` is a `tfds.download.DownloadManager`; by default one for the usual folders.
        """
        urls = _urls(self.tfds_name)
        if not self.archive:
            return _fetch(self.tfds_name, [urls[name] for name in names], manager, extract=False)
        (folder,) = _fetch(self.tfds_name, list(urls.values()), manager, extract=True)
        return self.find(names, folder=folder)

    def check(self, data_dir=None):
        folder = data_folder(data_dir)
        if folder:
            self.find_all(folder)

    def files(self, folder):
        if not (folder / self.folder).is_dir():
            return []
        return [folder / self.folder / name for names in self.parts.values() for name in names]

    def status(self, path):
        try:
            data = path.read_bytes()
            if path.suffix == ".gz":
                data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            return f"unreadable: {error}"
        (expected,) = (names[path.name] for names in self.parts.values() if path.name in names)
        found = hashlib.sha256(data).hexdigest()
        return "ok" if found == expected else f"different: SHA-256 {found} instead of {expected}"


def part_of(split: str) -> str:
    """The part of the original files that a split belongs to."""
    return "test" if split == "test" else "train"


# === Reading ===


def read_fashion(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (n, 28, 28, 1) and labels of the image and the label file of one part."""
    images, labels = _read_idx(paths[0], dimensions=3), _read_idx(paths[1], dimensions=1)
    if images.shape[1:] != (28, 28):
        raise ValueError(f"{paths[0]} must hold 28x28 images. Received: shape {images.shape}.")
    if len(images) != len(labels):
        raise ValueError(
            f"{paths[0]} and {paths[1]} must hold as many images as labels. "
            f"Received: {len(images)} images, {len(labels)} labels."
        )
    _check_labels(labels, paths[1])
    return images[..., None], labels


def read_cifar(paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (n, 32, 32, 3) and labels of one or several batch files."""
    images, labels = [], []
    for path in paths:
        data = np.fromfile(path, np.uint8)
        if data.size != CIFAR_BATCH * 3073:
            raise ValueError(
                f"{path} must have {CIFAR_BATCH * 3073} bytes: {CIFAR_BATCH} times a label and "
                f"3072 pixel values. Received: {data.size} bytes."
            )
        data = data.reshape(CIFAR_BATCH, 3073)
        _check_labels(data[:, 0], path)
        labels.append(data[:, 0])
        images.append(data[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return np.concatenate(images), np.concatenate(labels)


def _read_idx(path: Path, *, dimensions: int) -> np.ndarray:
    try:
        with gzip.open(path) as file:
            data = file.read()
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} is not a whole gzip file ({error}); get it again.") from error
    magic = bytes([0, 0, 8, dimensions])
    header = 4 + 4 * dimensions
    if data[:4] != magic or len(data) < header:
        raise ValueError(
            f"{path} must be an IDX file of bytes with {dimensions} dimension(s), magic number "
            f"{magic.hex()}. Received: {data[:4].hex()}."
        )
    shape = np.frombuffer(data, ">u4", dimensions, offset=4).astype(int)
    if len(data) - header != shape.prod():
        raise ValueError(
            f"{path} must hold {shape.prod()} values, shape {tuple(shape.tolist())}. "
            f"Received: {len(data) - header}."
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def _check_labels(labels: np.ndarray, path: Path) -> None:
    if labels.max(initial=0) > 9:
        first = int(np.argmax(labels > 9))
        raise ValueError(
            f"{path}: labels must be in 0...9. Received: label {labels[first]} of image {first}."
        )


# === Downloading ===


def _urls(name: str) -> dict[str, str]:
    """The addresses that tensorflow-datasets registers for a data set, by file name."""
    import tensorflow_datasets as tfds

    return {url.rsplit("/", 1)[-1]: url for url in tfds.builder(name).url_infos}


def _fetch(name: str, urls: list[str], manager, *, extract: bool) -> list[Path]:
    import tensorflow_datasets as tfds

    if manager is None:
        builder = tfds.builder(name)
        manager = tfds.download.DownloadManager(
            download_dir=builder.data_dir_root / "downloads", url_infos=builder.url_infos
        )
    get = manager.download_and_extract if extract else manager.download
    try:
        if not _downloaded(manager, urls):
            _check_connection(urls[0])
        return [Path(path) for path in get(urls)]
    except OSError as error:  # every error of a connection is one
        raise ConnectionError(
            f"Could not download {name} ({type(error).__name__}: {error}). Offline, put the "
            "standard files into a folder and give it as `data_dir`, in the environment variable "
            f"{ENVIRONMENT_VARIABLE}, or to a builder as `manual_dir`."
        ) from error


def _downloaded(manager, urls: list[str]) -> bool:
    # The download manager writes a file .INFO with the address next to whatever it has fetched.
    notes = "".join(
        path.read_text(encoding="utf-8") for path in Path(manager.download_dir).glob("*.INFO")
    )
    return all(url in notes for url in urls)


def _check_connection(url: str) -> None:
    """Fail within seconds where the download manager would retry for many minutes."""
    parts = urlsplit(url)
    if parts.scheme in urllib.request.getproxies():
        return  # the proxy finds the host, not we
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    socket.create_connection((parts.hostname, port), timeout=10).close()
