"""Old names of the public API work until `REMOVED_IN`, with a warning that gives the new name.

A `FutureWarning`, since Python hides a `DeprecationWarning` from most of those who would meet it.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType

REMOVED_IN = "0.2"
RENAMED_MODULES = {
    "gdn_keras.evaluation": "gdn_keras.accuracy",
    "gdn_keras.figures": "gdn_keras.utils.figure_style",
    "gdn_keras.folder": "gdn_keras.zoo.folder",
    "gdn_keras.hub": "gdn_keras.zoo.hub_download",
    "gdn_keras.predict": "gdn_keras.classify",
    "gdn_keras.records": "gdn_keras.zoo.records",
    "gdn_keras.registry": "gdn_keras.zoo.registry",
    "gdn_keras.results": "gdn_keras.zoo.tables",
    "gdn_keras.weights": "gdn_keras.zoo.weights",
}


def warn_renamed(old: str, *, new: str, stacklevel: int = 2) -> None:
    """Warn that `old` is now `new`; `stacklevel` as in `warnings.warn`, seen from the caller."""
    text = f"{old} has been renamed to {new}; the old name will be removed in {REMOVED_IN}."
    warnings.warn(text, FutureWarning, stacklevel=stacklevel + 1)


def renamed_arguments(**names: str) -> Callable:
    """Decorate a function to accept old keyword arguments: `@renamed_arguments(old="new")`."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            for old, new in names.items():
                if old not in kwargs:
                    continue
                if new in kwargs:
                    raise TypeError(f"`{old}` is the old name of `{new}`: give only `{new}`.")
                warn_renamed(f"`{old}`", new=f"`{new}`")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        wrapper.__signature__ = inspect.signature(function)  # Keras asks for that of __init__
        return wrapper

    return decorate


class RenamedOption(argparse.Action):
    """An old option of a command line; `dest` is that of the new one."""

    def __init__(self, option_strings, dest, **kwargs):
        hidden = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
        super().__init__(option_strings, dest, **kwargs, **hidden)

    def __call__(self, parser, namespace, values, option_string=None):
        warn_renamed(option_string, new=f"--{self.dest.replace('_', '-')}")
        setattr(namespace, self.dest, values)


class _RenamedModules:
    """Finds the modules of `RENAMED_MODULES`: importing one gives the module it is now."""

    @classmethod
    def find_spec(cls, name, path=None, target=None) -> ModuleSpec | None:
        return ModuleSpec(name, cls) if name in RENAMED_MODULES else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        new = RENAMED_MODULES[spec.name]
        warn_renamed(spec.name, new=new)
        spec.loader_state = (module := importlib.import_module(new)).__spec__
        return module

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        module.__spec__ = module.__spec__.loader_state  # the import system has replaced it


sys.meta_path.insert(0, _RenamedModules)
