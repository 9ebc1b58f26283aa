"""Random wrong inputs, and what must come of them: our own error, or finite numbers.

FUZZ=3 in the environment tries three times as many inputs, other ones in every run: `make fuzz`.
"""

import dataclasses
import math
import numbers
import os
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent
FACTOR = int(os.environ.get("FUZZ", "1"))

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 40),
    st.sampled_from([0, 2**31, -(2**63), 10**400]),
    st.floats(),
    st.sampled_from(["", "abc", "ä", "max", "average", "12", "0.5", "no", "\0", "a/b", "../x"]),
    st.sampled_from([b"bytes", 1j, object(), {1}, range(3), np.nan, np.float32(0.5), np.int64(2)]),
    st.sampled_from([np.zeros(0), np.ones(3), np.ones((2, 2)), np.array("a"), np.array([1j])]),
)
JUNK = st.recursive(
    LEAVES,
    lambda items: st.one_of(
        st.lists(items, max_size=3),
        st.tuples(items, items),
        st.dictionaries(st.sampled_from(["a", "b"]), items, max_size=2),
    ),
    max_leaves=4,
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 10**6), st.floats(), st.text(max_size=3)),
    lambda items: st.one_of(
        st.lists(items, max_size=3), st.dictionaries(st.text(max_size=3), items, max_size=2)
    ),
    max_leaves=4,
)


def examples(count):
    """Settings of a test: the same inputs in every run of the suite."""
    return settings(
        max_examples=count * FACTOR,
        derandomize=FACTOR == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def wrong_arguments(draw, valid, junk=JUNK):
    """The arguments of a valid call with one or two replaced; and the names of these."""
    names = draw(st.lists(st.sampled_from(sorted(valid)), min_size=1, max_size=2, unique=True))
    return {**valid, **{name: draw(junk) for name in names}}, names


def outcome(function, arguments, *, names, finite=True):
    """What `function` returns, or None after an error of ours that has one of `names` in it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(**arguments)
    except (ValueError, OSError) as error:
        assert_ours(error)
        assert any(name in str(error) for name in names), f"{names} not in: {error}"
        return None
    if finite:
        assert_finite(result)
    return result


def assert_ours(error):
    """Raised in our own code, not somewhere inside another library."""
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    assert last.is_relative_to(ROOT) and ".venv" not in last.parts, (last, error)


def assert_finite(result):
    if dataclasses.is_dataclass(result):
        return
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, list | tuple):
        for item in result:
            assert_finite(item)
    elif isinstance(result, np.ndarray) and result.dtype.kind in "fc":
        assert np.isfinite(result).all()
    elif isinstance(result, numbers.Real):
        assert math.isfinite(result)
