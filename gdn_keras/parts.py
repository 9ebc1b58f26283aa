"""The folders `training` and `export`: in a clone next to the package, in a wheel inside it.

They import their own modules by relative imports, so that they work under both names. A process
uses one of the names only: in a clone `training` and `export`, so that no module is loaded twice.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from gdn_keras.zoo.registry import checkout


def load_part(module: str) -> ModuleType:
    """The module `training.…` or `export.…`, for command lines: in a clone it changes the path."""
    if module.startswith("gdn_keras."):
        return importlib.import_module(module)
    clone = checkout()
    if clone is None:
        return importlib.import_module(f"gdn_keras.{module}")
    if sys.path[0] != str(clone):  # first: the current folder may have a `training` of its own
        sys.path.insert(0, str(clone))
    return importlib.import_module(module)
