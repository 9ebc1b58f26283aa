"""Errors of an export that are not bugs: reported in one line, without a traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

# packages that may be missing, and the extra of gdn_keras that brings them
_EXTRAS = {
    "onnx": "[onnx]",
    "onnxruntime": "[onnx]",
    "ai_edge_litert": "[litert]",
    "huggingface_hub": "",
}


class MissingPackage(ImportError):
    """A package that an export needs is not installed."""


EXPECTED = (ValueError, OSError, MissingPackage)


@contextlib.contextmanager
def missing_packages_named() -> Iterator[None]:
    """Make an import that fails say what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        extra = _EXTRAS[package]
        raise MissingPackage(
            f'{package} is not installed. It comes with pip install "gdn-keras{extra}"; '
            f'in a clone: pip install -e ".{extra}"'
        ) from error
