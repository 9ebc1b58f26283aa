"""Checks of arguments: of their types, by annotations, and of their values.

`@checked` compares what a function receives with its annotations, so every error of a public
function names the argument. The functions below it check values.
"""

from __future__ import annotations

import collections.abc
import difflib
import functools
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

MAX_ORDER = 4  # of derivatives
# Far beyond any image on both sides. Below, 1 / sigma**5 and above, the Bessel functions, would
# sooner or later leave the range of float64.
SIGMA_RANGE = (1e-3, 1e4)
MAX_COUNT = 2**20  # of pixels along an axis, weights of a kernel, channels, layers and classes
_SHOWN = 200  # characters of a wrong value
_SHORTEST_PART = 4  # letters of a name that tell which one was meant


# === Types ===


def checked(function: Callable) -> Callable:
    """Raise a `ValueError` for arguments that do not fit their annotations.

    | annotation                    | accepts                                                     |
    |-------------------------------|-------------------------------------------------------------|
    | `float`, `int`, `bool`        | finite numbers, integers, True and False, numpy's too       |
    | `tuple[float, ...]`, `list`   | lists, tuples and arrays of them; never a string            |
    | `np.ndarray`                  | whatever numpy makes an array of real numbers or bools of   |
    | a class                       | its instances                                               |

    A default is always accepted, and so is what has no annotation.
    """
    signature = inspect.signature(function)
    parameters = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.annotation is not parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }

    @functools.wraps(function)
    def check_and_call(*args, **kwargs):
        try:
            received = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # Python's own error names what is missing
        for name, parameter in parameters.items():
            if name in received and received[name] is not parameter.default:
                check_type(name, received[name], _hint(function, name))
        return function(*args, **kwargs)

    check_and_call.__signature__ = signature  # `inspect.getfullargspec` looks at nothing else
    return check_and_call


@functools.cache
def _hint(function: Callable, name: str) -> Any:
    """The annotation of an argument; a class that only type checkers import stays a string."""
    annotation = inspect.signature(function).parameters[name].annotation
    if not isinstance(annotation, str):
        return annotation
    names = {**vars(typing), **vars(collections.abc), **function.__globals__}
    try:
        return eval(annotation, names)  # our own source, as `typing.get_type_hints` does
    except NameError:
        return annotation if annotation.isidentifier() else Any


def check_type(name: str, value: Any, hint: Any) -> None:
    if not has_type(value, hint):
        raise ValueError(f"`{name}` must be {in_words(hint)}. {received(name, value)}")


def received(name: str, value: Any) -> str:
    """The end of an error: what came, shortened."""
    text = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else repr(value)
    return f"Received: {name}={text if len(text) <= _SHOWN else text[:_SHOWN] + ' …'}."


def has_type(value: Any, hint: Any) -> bool:
    """Whether a value fits a type hint; any list, tuple or row of an array is a sequence."""
    if hint is Any:
        return True
    if isinstance(hint, str):
        return any(base.__name__ == hint for base in type(value).__mro__)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(has_type(value, argument) for argument in arguments)
    if origin is not None and issubclass(origin, collections.abc.Mapping):
        return isinstance(value, origin) and all(has_type(v, arguments[1]) for v in value.values())
    if origin is tuple and arguments[-1] is not ...:
        items = _items(value)
        fits = items is not None and len(items) == len(arguments)
        return fits and all(map(has_type, items, arguments))
    if origin in (tuple, list, collections.abc.Sequence):
        items = _items(value)
        return items is not None and all(has_type(item, arguments[0]) for item in items)
    if origin is collections.abc.Iterable:  # must not be used up
        return isinstance(value, Iterable) and not isinstance(value, str | bytes)
    if origin is collections.abc.Callable or hint is Callable:
        return callable(value)
    if origin is not None:
        return isinstance(value, origin)
    if hint is types.NoneType or hint is None:
        return value is None
    if hint is np.ndarray:
        return is_array(value)
    if isinstance(value, bool | np.bool_):
        return hint is bool
    if hint is float:
        return isinstance(value, numbers.Real) and _is_finite(value)
    if hint is int:
        return isinstance(value, numbers.Integral)
    return isinstance(value, hint)


def _is_finite(value: numbers.Real) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:  # an integer beyond all floats
        return False


def _items(value: Any) -> list | tuple | None:
    if isinstance(value, np.ndarray) and value.ndim:
        return list(value)  # rows are views; `tolist` would copy a whole set of images
    return value if isinstance(value, list | tuple | range) else None


def is_array(value: Any) -> bool:
    """Whether numpy makes an array of real numbers or bools of it."""
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except Exception:  # whatever `__array__` of somebody's class raises
        return False


_WORDS = {
    Any: "anything",
    bool: "True or False",
    float: "a finite number",
    int: "an integer",
    str: "a string",
    os.PathLike: "a path",
    np.ndarray: "an array of real numbers",
    types.NoneType: "None",
}
_PLURALS = {"an integer": "integers", "a finite number": "finite numbers", "a string": "strings"}


def in_words(hint: Any) -> str:
    """A type hint as the reader of an error would say it."""
    if hint is None:
        return "None"
    if isinstance(hint, str):
        return f"a {hint}"
    if hint in _WORDS:
        return _WORDS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(sorted(map(in_words, arguments), key=lambda words: words != "None"))
    if origin in (tuple, list, collections.abc.Sequence, collections.abc.Iterable):
        count = f"{len(arguments)} " if origin is tuple and arguments[-1] is not ... else ""
        item = in_words(arguments[0])
        return f"a sequence of {count}{_PLURALS.get(item, item)}"
    if origin is not None and issubclass(origin, collections.abc.Mapping):
        return f"a dict whose values are {in_words(arguments[1])}"
    if origin is collections.abc.Callable or hint is Callable:
        return "a function"
    return f"a {getattr(hint, '__name__', hint)}"


# === Values ===


def check_number(
    name: str,
    value: float,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    expected: str = "a finite number",
) -> float:
    """A real number with low <= value <= high, as a float. Bounds are inclusive."""
    if not has_type(value, float) or not low <= value <= high:
        raise ValueError(f"`{name}` must be {expected}. {received(name, value)}")
    return float(value)


def check_integer(
    name: str, value: int, *, low: int, high: int = MAX_COUNT, expected: str | None = None
) -> int:
    """An integer from `low` to `high`, by default what fits into memory as one axis."""
    if not has_type(value, int) or not low <= value <= high:
        upper = f" and at most {high}" if has_type(value, int) and value > high else ""
        expected = expected or f"an integer of at least {low}{upper}"
        raise ValueError(f"`{name}` must be {expected}. {received(name, value)}")
    return int(value)


def check_choice(name: str, value: Any, allowed: Iterable) -> Any:
    """The one of a few values that is equal and of the same type: True is not 1."""
    allowed = tuple(allowed)
    for choice in allowed:
        if has_type(value, type(choice)) and value == choice:
            return choice
    raise ValueError(f"`{name}` must be one of {allowed}. {received(name, value)}")


def check_sigma(sigma: float, *, name: str = "sigma") -> float:
    low, high = SIGMA_RANGE
    expected = f"a positive number of pixels, from {low:g} to {high:g}"
    return check_number(name, sigma, low=low, high=high, expected=expected)


def check_order(order: int, *, lowest: int = 0) -> int:
    expected = f"an integer from {lowest} to {MAX_ORDER}"
    return check_integer("order", order, low=lowest, high=MAX_ORDER, expected=expected)


# === Names ===


def did_you_mean(
    name: str, names: Iterable[str], *, count: int = 1, first: Iterable[str] = ()
) -> str:
    """A sentence with the nearest names, and a blank before it; empty if nothing is near.

    The nearest of `first` comes before that of all `names`. If none is spelled nearly like it,
    those that it is a part of are.
    """
    name, names = str(name), [str(n) for n in names]
    close = [
        match
        for group, number in ((first, 1), (names, count))
        for match in difflib.get_close_matches(name, [str(n) for n in group], n=number)
    ]
    if not close and len(name) >= _SHORTEST_PART:
        close = [n for n in names if name in n][:count]
    return f" Did you mean {', '.join(map(repr, dict.fromkeys(close)))}?" if close else ""
