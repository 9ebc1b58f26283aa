"""About a hundred test images of each family, in the package: no download for demos and tests.

Licences are in gdn_keras/data/SAMPLES.md.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdn_keras.datasets import sets
from gdn_keras.datasets.arrays import Arrays, join
from gdn_keras.datasets.dataset import DataSet
from gdn_keras.utils.checks import checked

SAMPLE_FOLDER = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class SampleFile:
    """The file with the samples of a data set, balanced over its classes."""

    name: str  # of the data set
    per_class: int  # images of each class, at each size that there are samples of

    size_factors = (1.0,)

    def load(self, size_factor: float = 1.0) -> Arrays:
        if size_factor != 1:
            raise ValueError(f"`size_factor` must be 1 for {self.name!r}. Received: {size_factor}.")
        return self.read()[0]

    def read(self) -> tuple[Arrays, np.ndarray | None]:
        """The images, and which ones of the test set they are if the file says so."""
        with np.load(SAMPLE_FOLDER / f"samples_{self.name}.npz", allow_pickle=False) as file:
            data = {key: file[key] for key in file}
        arrays = Arrays(
            images=data["images"],
            labels=data["labels"],
            class_names=tuple(str(name) for name in data["class_names"]),
            object_sizes=data.get("object_sizes"),
            object_positions=data.get("object_positions"),
        )
        return arrays, data.get("indices")


def sets_with_samples() -> dict[str, DataSet]:
    """The records of the data sets that have samples, by name."""
    return {name: dataset for name, dataset in sets.all_sets().items() if dataset.samples}


@checked
def load_samples(name: str, *, size_factor: float = 1.0) -> Arrays:
    """Test images that come with the package, balanced over the classes.

    >>> load_samples("cifar10").images.shape
    (100, 32, 32, 3)
    >>> load_samples("rescaled_cifar10", size_factor=2).images.shape
    (100, 64, 64, 3)

    Args:
        name: "fashion_mnist", "cifar10", "stir_emoji" or "stir_gtsrb"; or a rescaled set, which is
            made on the spot and equals the same images of `load_arrays(name, split="test")`.
        size_factor: for rescaled sets, one of `SIZE_FACTORS`.
    """
    samples = sets.get(name).samples
    if samples is None:
        raise ValueError(
            f"`name` must be one of {tuple(sets_with_samples())}. Received: name={name!r}."
        )
    return samples.load(size_factor)


def make_samples(
    folder: str | os.PathLike,
    *,
    names: Iterable[str] | None = None,
    data_dir: str | os.PathLike | None = None,
) -> None:
    """Write the sample files of some data sets (default: all). For maintainers of this package."""
    files = {n: d for n, d in sets_with_samples().items() if isinstance(d.samples, SampleFile)}
    for name in files if names is None else names:
        dataset = files[name]
        # the size trained on; the middle of each range, if there are several
        keys = [dataset.sizes.reference(r) for r in dataset.sizes.ranges or (None,)]
        parts, indices = [], []
        for _, test in dataset.load_sizes(keys, split="test", data_dir=data_dir):
            of_class = (np.flatnonzero(test.labels == k) for k in range(len(test.class_names)))
            chosen = np.sort(np.concatenate([i[: dataset.samples.per_class] for i in of_class]))
            parts.append(test.select(chosen))
            indices.append(chosen)
        arrays = join(parts)
        more = {key: getattr(arrays, key) for key in ("object_sizes", "object_positions")}
        np.savez_compressed(
            Path(folder) / f"samples_{name}.npz",
            images=arrays.images,
            labels=arrays.labels,
            class_names=np.array(arrays.class_names),
            indices=np.concatenate(indices),
            **{key: values for key, values in more.items() if values is not None},
        )
