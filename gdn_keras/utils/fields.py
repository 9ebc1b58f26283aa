"""What our dataclasses have in common, above all those that are stored as JSON."""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Any

from gdn_keras.utils.checks import check_type, did_you_mean


def make_plain(record: Any) -> None:
    """For `__post_init__`: Python's own types, tuples for JSON's lists, nothing of numpy."""
    for field in dataclasses.fields(record):
        object.__setattr__(record, field.name, _plain(getattr(record, field.name)))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def check_fields(record: Any) -> None:
    """For `__post_init__`: raise a `ValueError` for a field that does not fit its annotation."""
    for name, hint in _type_hints(type(record)).items():
        check_type(name, getattr(record, name), hint)


@functools.cache
def _type_hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def reject_unknown(cls: type, data: dict[str, Any], *, what: str) -> None:
    """Raise a `ValueError` with the nearest field if `data` has a key that `cls` does not have."""
    names = [field.name for field in dataclasses.fields(cls)]
    for key in data:
        if key not in names:
            raise ValueError(f"Unknown {what} field {key!r}.{did_you_mean(key, names)}")


def reject_missing(cls: type, data: dict[str, Any], *, what: str) -> None:
    """Raise a `ValueError` if a field of `cls` without a default is missing in `data`."""
    missing = [
        field.name
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING and field.name not in data
    ]
    if missing:
        raise ValueError(
            f"The {what} must have {', '.join(missing)}. Received: {', '.join(sorted(data))}."
        )
