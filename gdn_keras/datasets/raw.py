"""The standard files of Fashion-MNIST and CIFAR-10: where they are and how to read them.

With a folder (the argument `data_dir` or the environment variable GDN_KERAS_DATA), the files are
read from there and nothing is downloaded:

    fashion-mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz
    cifar-10-batches-bin/{data_batch_1,...,data_batch_5,test_batch}.bin

Without one, tensorflow-datasets downloads the same files, from the addresses and with the
checksums of its own `fashion_mnist` and `cifar10`. The files rather than its prepared records are
read, because the records are shuffled, and the validation set is defined by the original order.
"""

import gzip
import os
import zlib
from pathlib import Path

import numpy as np

ENVIRONMENT_VARIABLE = "GDN_KERAS_DATA"
FASHION_CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
CIFAR_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
FASHION_FOLDER = "fashion-mnist"
CIFAR_FOLDER = "cifar-10-batches-bin"
CIFAR_BATCH = 10_000
FASHION_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
CIFAR_FILES = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
_HOMES = {
    FASHION_FOLDER: "the four .gz files of https://github.com/zalandoresearch/fashion-mnist",
    CIFAR_FOLDER: 'the unpacked "binary version" of https://www.cs.toronto.edu/~kriz/cifar.html',
}


def data_folder(data_dir: str | os.PathLike | None = None) -> Path | None:
    """The folder with the standard files, or None if they are to be downloaded."""
    chosen = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen).expanduser() if chosen else None


def find(subfolder: str, names: tuple[str, ...], *, folder: Path) -> list[Path]:
    """The named files of folder/subfolder; says how to get those that are missing."""
    paths = [folder / subfolder / name for name in names]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"Missing {', '.join(missing)} in {folder / subfolder}. Put {_HOMES[subfolder]} there; "
            f"or, with a network, leave out `data_dir` and {ENVIRONMENT_VARIABLE}, and the files "
            "are downloaded with tensorflow-datasets."
        )
    return paths


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
