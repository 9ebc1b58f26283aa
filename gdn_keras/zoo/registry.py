"""Where zoo folders are on this machine, and the records of networks without their folders."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from gdn_keras.zoo.records import ModelInfo, read_json, to_json

ENVIRONMENT_VARIABLE = "GDN_KERAS_ZOO"
REGISTRY_FILE = "registry.json"  # next to the zoo folders
REGISTRY_VERSION = 1
_PACKAGE = Path(__file__).parents[1]


def roots() -> list[tuple[str, Path]]:
    """Folders of zoo folders, in the order in which they are searched."""
    found = []
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        path = Path(chosen).expanduser()
        if not path.is_dir():
            raise FileNotFoundError(f"{ENVIRONMENT_VARIABLE} must be a folder. Received: {chosen}.")
        found.append((ENVIRONMENT_VARIABLE, path))
    if checkout() is not None:
        found.append(("the checkout", checkout() / "zoo"))
    return [*found, ("the installed package", _PACKAGE / "data" / "zoo")]


def checkout() -> Path | None:
    """The root of the clone this package is run from, None for an installed wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "zoo").is_dir() else None


def read_registry(root: Path) -> dict[str, ModelInfo]:
    """The registry in `root`: records of networks, with or without a folder on this machine."""
    path = root / REGISTRY_FILE
    return read_json(path, _check) if path.is_file() else {}


def _check(data: dict[str, Any]) -> dict[str, ModelInfo]:
    version = data.get("format_version")
    if version != REGISTRY_VERSION:
        raise ValueError(
            f"`format_version` must be {REGISTRY_VERSION}; a newer gdn_keras may read this "
            f"registry. Received: format_version={version!r}."
        )
    if not isinstance(data.get("models"), dict):
        raise ValueError("`models` is missing: the networks by name.")
    return {name: ModelInfo.from_dict(entry) for name, entry in data["models"].items()}


def registry_text(infos: dict[str, ModelInfo]) -> str:
    """The content of the registry's file."""
    defaults = {field.name: field.default for field in dataclasses.fields(ModelInfo)}
    models = {
        name: {k: v for k, v in infos[name].to_dict().items() if v != defaults[k]}
        for name in sorted(infos)
    }
    return to_json({"format_version": REGISTRY_VERSION, "models": models})
