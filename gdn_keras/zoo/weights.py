"""Read weights files with h5py alone: everything or nothing, and only numbers."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np

if TYPE_CHECKING:
    import keras


def file_sha256(path: str | os.PathLike) -> str:
    """Hash of a file, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_weights(
    path: str | os.PathLike, *, sha256: str | None = None
) -> dict[str, list[np.ndarray]]:
    """The arrays of a Keras `.weights.h5` by layer name; the whole file must have the given hash.

    The file is read once, so the bytes that are checked are those that are used, even if it is
    replaced. Only float32 arrays in the file itself are read: a link to another file, an array
    stored elsewhere, one larger than the file, or any other type is rejected.
    """
    content = Path(path).read_bytes()
    received = hashlib.sha256(content).hexdigest()
    if sha256 is not None and received != sha256:
        raise ValueError(
            f"{path} is not the file that was published: its sha256 must be {sha256}. "
            f"Received: {received}, {len(content)} bytes. Restore it, in a clone with `git "
            "checkout`; if it is in the cache of the Hub, download it again: python -m gdn_keras "
            "download NAME --force"
        )
    found: dict[str, dict[int, np.ndarray]] = {}
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            _walk(file, "", found, len(content))
    except (OSError, RuntimeError, KeyError, ValueError) as error:  # h5py has them all
        raise ValueError(f"{path} is not a complete weights file: {error}.") from error
    for name, arrays in found.items():
        if sorted(arrays) != list(range(len(arrays))):
            raise ValueError(f"{path}: layer {name!r} must have variables 0, 1, … without gaps.")
    return {name: [arrays[k] for k in range(len(arrays))] for name, arrays in found.items()}


def _walk(group: h5py.Group, prefix: str, found: dict, limit: int) -> None:
    for key in group:
        where = f"{prefix}/{key}"
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise ValueError(f"{where} is a link, which is not allowed")
        item = group[key]
        if isinstance(item, h5py.Group):
            _walk(item, where, found, limit)
            continue
        plain = isinstance(item, h5py.Dataset) and item.dtype == np.float32
        if not plain or item.external or item.is_virtual or item.nbytes > limit:
            raise ValueError(f"{where} must be a plain float32 array")
        layer = group.attrs.get("name")
        variables = found.setdefault(layer, {}) if isinstance(layer, str) else None
        if variables is None or not key.isdecimal() or int(key) in variables:
            raise ValueError(f"{where} is not a variable of a named layer")
        variables[int(key)] = item[()]


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
    layers = {layer.name: layer.weights for layer in model.layers}
    layers = {name: variables for name, variables in layers.items() if variables}
    for name in weights:
        if name not in layers:
            raise ValueError(
                f"{source} has variables of {name!r}, which the network does not have."
            )
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
