"""Weights files: read with h5py alone, all or nothing, and never anything but numbers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import h5py
import keras
import numpy as np

from gdn_keras.model import layer_weights


def sha256(path: str | os.PathLike) -> str:
    """Hash of a file, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_weights(model: keras.Model, path: str | os.PathLike) -> None:
    """Write a `.weights.h5`; the same weights give the same bytes."""
    model.save_weights(path, overwrite=True)


def read_weights(path: str | os.PathLike) -> dict[str, list[np.ndarray]]:
    """The arrays of a Keras `.weights.h5` by layer name.

    Only float32 arrays that lie in the file itself are read: a link to another file, an array
    stored elsewhere or any other type is refused.
    """
    found: dict[str, dict[int, np.ndarray]] = {}
    try:
        with h5py.File(path, "r") as file:
            _walk(file, "", found, Path(path).name)
    except OSError as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} is not a whole HDF5 file: {error}.") from error
    for name, arrays in found.items():
        if sorted(arrays) != list(range(len(arrays))):
            raise ValueError(f"{path}: layer {name!r} must have variables 0, 1, … without gaps.")
    return {name: [arrays[k] for k in range(len(arrays))] for name, arrays in found.items()}


def _walk(group: h5py.Group, prefix: str, found: dict, file_name: str) -> None:
    for key in group:
        where = f"{prefix}/{key}"
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise ValueError(f"{file_name}: {where} is a link, which is refused.")
        item = group[key]
        if isinstance(item, h5py.Group):
            _walk(item, where, found, file_name)
            continue
        ok = isinstance(item, h5py.Dataset) and item.dtype == np.float32
        if not ok or item.external or item.is_virtual or item.id.get_create_plist().get_nfilters():
            raise ValueError(f"{file_name}: {where} must be a plain float32 array.")
        layer = group.attrs.get("name")
        if not key.isdecimal() or not isinstance(layer, str):
            raise ValueError(f"{file_name}: {where} is not a variable of a named layer.")
        found.setdefault(layer, {})[int(key)] = item[()]


def assign_weights(
    model: keras.Model,
    weights: Mapping[str, list[np.ndarray]],
    *,
    fresh: Iterable[str] = (),
    source: str = "The weights file",
) -> None:
    """Put `weights` into `model`; nothing is changed unless every variable fits.

    Variables whose name ("jet_6/kernel") is in `fresh` keep what the model has.
    """
    fresh = set(fresh)
    layers = {layer.name: layer_weights(layer) for layer in model.layers}
    layers = {name: variables for name, variables in layers.items() if variables}
    for name in weights:
        if name not in layers:
            raise ValueError(f"{source} has variables of {name!r}, which the network has not.")
    pairs = []
    for name, variables in layers.items():
        arrays = weights.get(name, [])
        if len(arrays) != len(variables):
            raise ValueError(
                f"{source} must have {len(variables)} variables of layer {name!r}. "
                f"Received: {len(arrays)}."
            )
        for variable, array in zip(variables, arrays, strict=True):
            if f"{name}/{variable.name}" in fresh:
                continue
            if tuple(variable.shape) != array.shape:
                raise ValueError(
                    f"{source}: {variable.path} must have shape {tuple(variable.shape)}. "
                    f"Received: shape {array.shape}."
                )
            if not np.isfinite(array).all():
                raise ValueError(f"{source}: {variable.path} has values that are not finite.")
            pairs.append((variable, array))
    for variable, array in pairs:
        variable.assign(array)
