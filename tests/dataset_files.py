"""Files in the formats of the data sets, written for tests."""

import csv
import gzip
import struct

import numpy as np
from PIL import Image

from gdn_keras.datasets import get, raw

FASHION, CIFAR = get("fashion_mnist").loader, get("cifar10").loader  # which files there are
COLOURS = {"blue": (20, 40, 250), "red": (250, 30, 10)}


def write_idx(path, values, *, magic=None, count=None):
    header = struct.pack(f">{values.ndim}I", count or len(values), *values.shape[1:])
    path.write_bytes(
        gzip.compress((magic or bytes([0, 0, 8, values.ndim])) + header + values.tobytes(), 1)
    )


def write_fashion(folder, *, train=40, test=20):
    """Files in the format of Fashion-MNIST; returns their images and labels."""
    (folder / FASHION.folder).mkdir(parents=True)
    rng, contents = np.random.default_rng(0), {}
    for part, count in (("train", train), ("test", test)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = rng.integers(0, 10, count, dtype=np.uint8)
        for name, values in zip(FASHION.parts[part], (images, labels), strict=True):
            write_idx(folder / FASHION.folder / name, values)
        contents[part] = images[..., None], labels
    return contents


def write_cifar(folder):
    """Files in the format of CIFAR-10, with raw.CIFAR_BATCH images each."""
    (folder / CIFAR.folder).mkdir(parents=True)
    rng, contents = np.random.default_rng(0), {"train": [], "test": []}
    for part, names in CIFAR.parts.items():
        for name in names:
            images = rng.integers(0, 256, (raw.CIFAR_BATCH, 32, 32, 3), dtype=np.uint8)
            labels = rng.integers(0, 10, raw.CIFAR_BATCH, dtype=np.uint8)
            planes = images.transpose(0, 3, 1, 2).reshape(raw.CIFAR_BATCH, -1)
            np.concatenate([labels[:, None], planes], axis=1).tofile(folder / CIFAR.folder / name)
            contents[part].append((images, labels))
    return {
        part: tuple(np.concatenate(values) for values in zip(*batches, strict=True))
        for part, batches in contents.items()
    }


def small_data_folder(folder, monkeypatch):
    """A data folder whose files are small: 10 images of validation and 10 in a CIFAR batch."""
    monkeypatch.setattr(raw, "VALIDATION_IMAGES", 10)
    monkeypatch.setattr(raw, "CIFAR_BATCH", 10)
    monkeypatch.delenv(raw.ENVIRONMENT_VARIABLE, raising=False)
    return folder, {"fashion_mnist": write_fashion(folder), "cifar10": write_cifar(folder)}


def spoil_batch_label(folder):
    path = folder / CIFAR.folder / "test_batch.bin"
    data = bytearray(path.read_bytes())
    data[3 * 3073] = 77
    path.write_bytes(data)


def photograph(colour, *, width=100, height=90, box=(10, 12, 80, 80)):
    """A coloured rectangle on a grey gradient."""
    left, top, right, bottom = box
    image = np.tile(np.linspace(90, 160, width).astype(np.uint8)[None, :, None], (height, 1, 3))
    image[top:bottom, left:right] = colour
    return image


def photograph_signs(folder):
    """Photographs and a list of boxes; one class and split has an object more than the others."""
    rows = []
    for split in ("train", "valid", "test"):
        for label, colour in COLOURS.items():
            for number in range(2 + (split == "train" and label == "red")):
                name = f"{split}-{label}-{number}.png"
                Image.fromarray(photograph(colour)).save(folder / name)
                rows.append([name, split, label, 10, 12, 80, 80])
    return folder / "boxes.csv", rows


def write_boxes(path, rows, header="file,split,label,left,top,right,bottom"):
    with path.open("w", newline="") as file:
        file.write(header + "\n")
        csv.writer(file).writerows(rows)
