"""The data sets by name. Each file of this folder has the record of one, called DATASET.

A new file is a new data set, and nothing else has to know about it. `register` adds data sets that
are not part of the package.
"""

import functools
import importlib
import pkgutil

from gdn_keras.datasets.dataset import DataSet
from gdn_keras.utils.checks import check_type, checked, did_you_mean

_registered: dict[str, DataSet] = {}


@functools.cache
def _of_the_package() -> dict[str, DataSet]:
    found = (
        importlib.import_module(f"{__name__}.{module.name}").DATASET
        for module in pkgutil.iter_modules(__path__)
    )
    return {dataset.name: dataset for dataset in found}


def all_sets() -> dict[str, DataSet]:
    """The records of all data sets, by name."""
    return _of_the_package() | _registered


def names() -> tuple[str, ...]:
    """The names of all data sets."""
    return tuple(all_sets())


def get(name: str, *, argument: str = "name") -> DataSet:
    """The record of the data set called `name`; an unknown name raises an error with the nearest.

    `argument` is what the caller calls the name, for the error.
    """
    sets = all_sets()
    check_type(argument, name, str)
    if name in sets:
        return sets[name]
    raise ValueError(
        f"`{argument}` must be one of {tuple(sets)}.{did_you_mean(name, sets)} "
        "`gdn_keras.datasets.names()` lists them, `gdn_keras.datasets.register` adds one. "
        f"Received: {argument}={name!r}."
    )


@checked
def describe(name: str) -> DataSet:
    """The record of a data set, or one with only the name if it is not registered.

    A network may have been trained on data that only its owner has.
    """
    return all_sets().get(name) or DataSet(name=name)


@checked
def register(dataset: DataSet) -> DataSet:
    """Add a data set, for this process; an earlier one that was registered by its name is replaced.

    Returns the record.
    """
    _registered[check_free(dataset.name)] = dataset
    return dataset


def check_free(name: str) -> str:
    """A name that no data set of the package has."""
    if name in _of_the_package():
        raise ValueError(
            f"`name` must not be that of a data set of the package. Received: name={name!r}."
        )
    return name
