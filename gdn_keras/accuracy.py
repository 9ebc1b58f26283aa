"""Accuracy of a network on the test images of its data set, size by size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gdn_keras import datasets
from gdn_keras.datasets import Arrays
from gdn_keras.datasets.sources import find_data
from gdn_keras.utils.checks import check_integer, checked
from gdn_keras.zoo.folder import DATA_FILE
from gdn_keras.zoo.search import find

if TYPE_CHECKING:
    from gdn_keras.model import GaussDerNet


@checked
def size_keys(dataset: str, sizes: Sequence[float] | None = None) -> list[str]:
    """The sizes at which a network for `dataset` is measured, as in `Metrics.accuracy`.

    Default: all; otherwise size factors or object sizes.
    """
    tested = datasets.get(dataset, argument="dataset").sizes
    return tested.keys if sizes is None else [tested.key(size) for size in sizes]


@checked
def evaluate(
    model: GaussDerNet,
    *,
    dataset: str,
    sizes: Sequence[float] | None = None,
    data_dir: str | os.PathLike | None = None,
    limit: int | None = None,
    batch_size: int = 32,
) -> dict[str, float]:
    """Share of the test images that are classified correctly, by size; shows its progress.

    Args:
        dataset: "rescaled_cifar10", "stir_emoji", …
        sizes: size factors or object sizes; default all of `size_keys(dataset)`.
        data_dir: see `gdn_keras.datasets.load_arrays`.
        limit: maximum number of images of each size.
    """
    from gdn_keras.utils.progress import show_progress

    model.config.reject_dense("The accuracy")
    keys = size_keys(dataset, sizes)
    white = model.config.pixel_range[1]

    def predict(images):
        return model.predict_on_batch(images * (white / 255))

    # one model for all sizes, and progress over them on stderr
    sets = test_sets(dataset, keys, data_dir=data_dir, limit=limit)
    return {
        key: accuracy(arrays, predict=predict, batch_size=batch_size)
        for key, arrays in show_progress(sets, total=len(keys), unit="size")
    }


@checked
def accuracy(
    data: Arrays,
    *,
    predict: Callable[[np.ndarray], np.ndarray],
    batch_size: int = 32,
    label: str | None = None,
) -> float:
    """Share of the images that are classified correctly; arguments as of `predict_batches`."""
    batches = predict_batches(data.images, predict=predict, batch_size=batch_size, label=label)
    predicted = np.concatenate([logits.argmax(axis=1) for logits in batches])
    return float(np.mean(predicted == data.labels))


@checked
def predict_batches(
    images: np.ndarray,
    *,
    predict: Callable[[np.ndarray], np.ndarray],
    batch_size: int,
    label: str | None = None,
) -> Iterator[np.ndarray]:
    """What a network says about the images, one batch after another.

    Args:
        images: raw pixels 0…255.
        predict: outputs for a batch of images, such as `model.predict_on_batch`.
        batch_size: the last batch may be smaller.
        label: shows the progress under this name; None: does not show it.
    """
    from gdn_keras.utils.progress import show_progress

    check_integer("batch_size", batch_size, low=1)
    bar = {"total": len(images), "unit": "img", "desc": label, "mininterval": 1.0}
    with show_progress(**bar, disable=label is None) as progress:
        for first in range(0, len(images), batch_size):
            batch = images[first : first + batch_size].astype("float32")
            yield np.asarray(predict(batch))
            progress.update(len(batch))


@checked
def open_data(name: str | os.PathLike, data: str, *, offline: bool | None = None) -> None:
    """Make the images that a network of `gdn-keras train` was trained on available, split as then.

    Args:
        name: of the network, as for `zoo.load`.
        data: `KINDS_OF_DATA`.
    """
    folder, _ = find(name, offline=offline)
    if not (folder / DATA_FILE).is_file():
        raise ValueError(
            f"`--data` is for networks of `gdn-keras train`, which have a {DATA_FILE}. "
            f"Received: {name}."
        )
    find_data(data)(record=folder / DATA_FILE)


@checked
def test_sets(
    dataset: str,
    keys: Sequence[str],
    *,
    split: str = "test",
    data_dir: str | os.PathLike | None = None,
    limit: int | None = None,
) -> Iterator[tuple[str, Arrays]]:
    """The images at each of the sizes called `keys`, loaded one size at a time.

    Args:
        dataset: "rescaled_cifar10", "stir_emoji", …
        keys: of `size_keys(dataset)`.
        split: "train", "validation" or "test".
        data_dir: see `gdn_keras.datasets.load_arrays`.
        limit: maximum number of images of each size.
    """
    record = datasets.get(dataset, argument="dataset")
    return record.load_sizes(keys, split=split, data_dir=data_dir, limit=limit)
