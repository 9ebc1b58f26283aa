"""What the zoo knows about a network, as typed records: measured numbers, and the whole story."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from dataclasses import dataclass
from typing import Any

METRICS_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Logits of a few bundled sample images: whoever loads the network must get the same."""

    sample_set: str  # a name for `gdn_keras.datasets.load_samples`
    indices: tuple[int, ...]  # which of its images, shown as the data set shows them at S = 1
    logits: tuple[tuple[float, ...], ...]  # image, class

    def __post_init__(self):
        _make_tuples(self)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What was measured on a network; as JSON it is the zoo's `metrics.json`.

    Accuracies are fractions, 0…1. Their keys are size factors with three decimals ("0.500", …,
    "2.000"; "1.000" alone for a regular set) or object sizes in pixels ("17", …, "64" for STIR).
    Every key is in the order of the sizes.
    """

    dataset: str
    split: str
    num_test_images: int  # per size
    sampling_density: float | None  # of the evaluation; None: every pixel
    accuracy: dict[str, float]
    exact_accuracy: dict[str, float] | None = None  # with every pixel, if measured too
    mean_accuracy: float  # over all sizes
    golden: Golden
    sample_accuracy: float  # on all images of the golden logits' sample set, at S = 1
    scale_histograms: dict[str, Any] | None = None  # size -> share of every scale channel
    confusion: tuple[tuple[int, ...], ...] | None = None  # true class, predicted class; at S = 1
    calibration_error: float | None = None  # expected calibration error at S = 1
    paper_accuracy: float | None = None  # a fraction, where the paper prints one
    paper_where: str | None = None  # the table it stands in
    versions: dict[str, str]
    seconds: float | None = None  # of the evaluation
    format_version: int = METRICS_VERSION
    # --- facts about the files: `zoo.write_folder` fills these in ---
    parameters: int = 0
    parameters_paper: int = 0
    multiply_adds: int = 0
    multiply_adds_dense: int = 0
    weights_sha256: str = ""
    weights_bytes: int = 0

    def __post_init__(self):
        if isinstance(self.golden, dict):
            object.__setattr__(self, "golden", from_dict(Golden, self.golden, "golden"))
        _make_tuples(self)
        self._check()

    def _check(self) -> None:
        for name in ("accuracy", "exact_accuracy"):
            for key, value in (getattr(self, name) or {}).items():
                _expect_fraction(f"{name}[{key!r}]", value)
        for name in ("mean_accuracy", "sample_accuracy", "paper_accuracy", "calibration_error"):
            if getattr(self, name) is not None:
                _expect_fraction(name, getattr(self, name))
        if not self.accuracy:
            raise ValueError("`accuracy` must have at least one size. Received: accuracy={}.")
        if self.exact_accuracy is not None and list(self.exact_accuracy) != list(self.accuracy):
            raise ValueError(
                "`exact_accuracy` must have the sizes of `accuracy`. "
                f"Received: {list(self.exact_accuracy)} and {list(self.accuracy)}."
            )
        mean = sum(self.accuracy.values()) / len(self.accuracy)
        if abs(mean - self.mean_accuracy) > 1e-6:
            raise ValueError(
                f"`mean_accuracy` must be the mean of `accuracy`, {mean:.6f}. "
                f"Received: mean_accuracy={self.mean_accuracy}."
            )
        logits = self.golden.logits
        if len(logits) != len(self.golden.indices) or not all(
            math.isfinite(value) for row in logits for value in row
        ):
            raise ValueError(
                "`golden.logits` must be one row of finite numbers per index. "
                f"Received: {len(logits)} rows, {len(self.golden.indices)} indices."
            )

    def to_dict(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        return {"format_version": data.pop("format_version"), **data}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Metrics:
        version = data.get("format_version")
        if version != METRICS_VERSION:
            raise ValueError(
                f"`format_version` must be {METRICS_VERSION}; a newer gdn_keras may read these "
                f"metrics. Received: format_version={version!r}."
            )
        return from_dict(cls, data, "metrics")


def from_dict(cls, data: Any, what: str):
    """An instance of a dataclass from parsed JSON; refuses what is unknown, missing or mistyped."""
    if not isinstance(data, dict):
        raise ValueError(f"The {what} must be a JSON object. Received: {data!r:.80}.")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in data:
        if key not in fields:
            close = difflib.get_close_matches(str(key), fields, n=1, cutoff=0.0)[0]
            raise ValueError(f"Unknown {what} field {key!r}. Did you mean {close!r}?")
    missing = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and name not in data
    ]
    if missing:
        raise ValueError(f"The {what} lack {', '.join(missing)}. Received: {sorted(data)}.")
    hints = typing.get_type_hints(cls)
    for name, value in data.items():
        if not _has_type(value, hints[name]):
            raise ValueError(
                f"`{name}` of the {what} must be {fields[name].type}. "
                f"Received: {name}={value!r:.80}."
            )
    return cls(**data)


def _has_type(value: Any, hint: Any) -> bool:
    """Whether parsed JSON fits a type hint; lists stand for tuples, objects for dataclasses."""
    if hint is Any:
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_has_type(value, argument) for argument in arguments)
    if origin is dict:
        return isinstance(value, dict) and all(_has_type(v, arguments[1]) for v in value.values())
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_has_type(v, arguments[0]) for v in value)
    if dataclasses.is_dataclass(hint):
        return isinstance(value, dict | hint)
    if hint is types.NoneType or hint is None:
        return value is None
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, hint)


def _make_tuples(record) -> None:
    """JSON has lists only."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, list | tuple):
            object.__setattr__(record, field.name, _as_tuple(value))


def _as_tuple(value):
    return tuple(map(_as_tuple, value)) if isinstance(value, list | tuple) else value


def _expect_fraction(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"`{name}` must be a fraction, 0…1. Received: {value!r}.")
