"""About a hundred test images of each family, in the package: no download for demos and tests.

Licences are in gdn_keras/data/SAMPLES.md.
"""

import os
from pathlib import Path

import numpy as np

from gdn_keras.datasets.arrays import Arrays
from gdn_keras.datasets.rescaled import (
    RESCALINGS,
    check_size_factor,
    finder,
    load_regular,
    rescale_like,
)
from gdn_keras.datasets.stir import SIDE, find_stir, read_stir_file

SAMPLE_FOLDER = Path(__file__).parents[1] / "data"
PER_CLASS = 10
STIR_SIZES = (24, 40, 56)  # the middle of "small", "mid" and "large"
STIR_INSTANCES = {"stir_emoji": 1, "stir_gtsrb": 4}
FAMILIES = ("fashion_mnist", "cifar10", *STIR_INSTANCES)


def load_samples(name: str, *, size_factor: float = 1.0, mode: str = "centred") -> Arrays:
    """Test images that come with the package, balanced over the classes.

    >>> load_samples("cifar10").images.shape
    (100, 32, 32, 3)
    >>> load_samples("rescaled_cifar10", size_factor=2).images.shape
    (100, 64, 64, 3)

    Args:
        name: "fashion_mnist", "cifar10", "stir_emoji" or "stir_gtsrb"; or a rescaled set, which is
            made on the spot and equals the same images of `load_arrays(name, split="test")`.
        size_factor: for rescaled sets, one of `SIZE_FACTORS`.
        mode: for rescaled sets, see `rescale`.
    """
    if name not in (*FAMILIES, *RESCALINGS):
        raise ValueError(
            f"`name` must be one of {(*FAMILIES, *RESCALINGS)}. Received: name={name!r}."
        )
    factor = check_size_factor(size_factor)
    family = RESCALINGS[name].source if name in RESCALINGS else name
    if family == name and factor != 1:
        raise ValueError(f"`size_factor` must be 1 for {name!r}. Received: {size_factor}.")
    with np.load(SAMPLE_FOLDER / f"samples_{family}.npz", allow_pickle=False) as file:
        data = {key: file[key] for key in file}
    arrays = Arrays(
        images=data["images"],
        labels=data["labels"],
        class_names=tuple(str(name) for name in data["class_names"]),
        object_sizes=data.get("object_sizes"),
        object_positions=data.get("object_positions"),
    )
    if family == name:
        return arrays
    return rescale_like(
        name, arrays, size_factor=factor, mode=mode, part="test", indices=data["indices"]
    )


def make_samples(folder: str | os.PathLike, *, data_dir: str | os.PathLike | None = None) -> None:
    """Write the four sample files, from the full data sets. For maintainers of this package."""
    for name in ("fashion_mnist", "cifar10"):
        test, _ = load_regular(finder(data_dir), name, split="test")
        chosen = np.sort(
            np.concatenate(
                [np.flatnonzero(test.labels == k)[:PER_CLASS] for k in range(len(test.class_names))]
            )
        )
        _write(folder, name, test.select(chosen), indices=chosen)
    for name, instances in STIR_INSTANCES.items():
        data = read_stir_file(find_stir(name, data_dir=data_dir))
        where = 2, [SIDE - size for size in STIR_SIZES], slice(None), slice(instances)
        images = data["imgs"][where]
        arrays = Arrays(
            images.reshape(-1, SIDE, SIDE, 3 if images.ndim == 6 else 1),
            data["lbls"][where].reshape(-1),
            tuple(str(label) for label in data["lbldata"]),
            data["scls"][where].reshape(-1),
            data["psts"][where].reshape(-1, 2),
        )
        _write(
            folder,
            name,
            arrays,
            object_sizes=arrays.object_sizes,
            object_positions=arrays.object_positions,
        )


def _write(folder, name: str, arrays: Arrays, **more: np.ndarray) -> None:
    np.savez_compressed(
        Path(folder) / f"samples_{name}.npz",
        images=arrays.images,
        labels=arrays.labels,
        class_names=np.array(arrays.class_names),
        **more,
    )
