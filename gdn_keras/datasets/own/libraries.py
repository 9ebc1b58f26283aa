"""Data sets of tensorflow, tensorflow-datasets and Hugging Face: their images and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gdn_keras.utils.checks import did_you_mean


def read_tf_data(dataset) -> tuple[list[np.ndarray], list[int]]:
    """The images and labels of a `tf.data.Dataset`, one by one or in batches."""
    pairs = list(_elements(dataset))
    return [image for image, _ in pairs], [int(label) for _, label in pairs]


def _elements(dataset) -> Iterator[tuple[np.ndarray, int]]:
    spec = dataset.element_spec
    spec = (spec["image"], spec["label"]) if isinstance(spec, Mapping) else spec
    if spec[1].shape.rank == 1:
        dataset = dataset.unbatch()
    for element in dataset.as_numpy_iterator():
        yield (element["image"], element["label"]) if isinstance(element, Mapping) else element


def prepared(tfds_name: str, *, data_dir: str | None):
    """The builder of a data set of tensorflow-datasets with images of classes, prepared."""
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(tfds_name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError:  # whose text lists hundreds of names
        names = tfds.list_builders(with_community_datasets=False)
        raise ValueError(
            "`tfds_name` must be the name of a data set of tensorflow-datasets."
            f"{did_you_mean(tfds_name, names, count=3)} "
            f"`tensorflow_datasets.list_builders()` lists them. Received: {tfds_name}."
        ) from None
    except Exception as error:  # those of tensorflow-datasets have no class of their own
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{tfds_name} could not be opened: {reason}") from error
    features = dict(builder.info.features)
    if "image" not in features or not hasattr(features.get("label"), "names"):
        raise ValueError(
            "`tfds_name` must be a data set with the features image and label, a class. "
            f"Received: {tfds_name}, with {', '.join(features)}."
        )
    try:
        builder.download_and_prepare()
    except Exception as error:
        raise OSError(f"{tfds_name} could not be prepared: {error}") from error
    return builder


def column(part, kind: str) -> str:
    """The name of the column of a `datasets.Dataset` whose feature is a `kind`."""
    found = [name for name, feature in part.features.items() if type(feature).__name__ == kind]
    if not found:
        raise ValueError(
            f"The data set must have a column of {kind}. Received: {', '.join(part.features)}."
        )
    return found[0]
