"""Typed records of a network: `Metrics`, the measured numbers, and `ModelInfo`, everything."""

from __future__ import annotations

import dataclasses
import functools
import html
import json
import math
import re
import textwrap
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdn_keras.config import GaussDerNetConfig
from gdn_keras.datasets.dataset import shown_sizes
from gdn_keras.utils.checks import has_type
from gdn_keras.utils.citation import CITATION
from gdn_keras.utils.fields import make_plain, reject_missing, reject_unknown

METRICS_VERSION = 1
LICENCE = "Apache-2.0"


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Logits of a few bundled sample images: every copy of the network must give the same."""

    sample_set: str  # for `gdn_keras.datasets.load_samples`: the data set, "rescaled_cifar10"
    indices: tuple[int, ...]  # which of these images, at size factor 1
    logits: tuple[tuple[float, ...], ...]  # image, class

    def __post_init__(self):
        make_plain(self)


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
    matched_accuracy: dict[str, float] | None = None  # all sigmas times the size factor, if too
    mean_accuracy: float  # over all sizes
    golden: Golden
    sample_accuracy: float | None  # on that sample set; None if it is of another data set
    scale_histograms: dict[str, Any] | None = None  # size -> share of every scale channel
    confusion: tuple[tuple[int, ...], ...] | None = None  # true class, predicted class; at S = 1
    calibration_error: float | None = None  # expected calibration error at S = 1
    clamped_sigmas: tuple[int, ...] | None = None  # layers whose learned sigma ended at a bound
    paper_accuracy: float | None = None  # a fraction, where the paper prints one
    paper_where: str | None = None  # the table with it
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
    config_sha256: str = ""  # `GaussDerNetConfig.sha256`; empty in folders that are older

    def __post_init__(self):
        if isinstance(self.golden, dict):
            object.__setattr__(self, "golden", from_dict(Golden, self.golden, "golden"))
        make_plain(self)
        self._check()

    def _check(self) -> None:
        for name in ("accuracy", "exact_accuracy", "matched_accuracy"):
            for key, value in (getattr(self, name) or {}).items():
                _expect_fraction(f"{name}[{key!r}]", value)
        for name in ("mean_accuracy", "sample_accuracy", "paper_accuracy", "calibration_error"):
            if getattr(self, name) is not None:
                _expect_fraction(name, getattr(self, name))
        if not self.accuracy:
            raise ValueError("`accuracy` must have at least one size. Received: accuracy={}.")
        for name in ("exact_accuracy", "matched_accuracy"):
            sizes = getattr(self, name)
            if sizes is not None and list(sizes) != list(self.accuracy):
                raise ValueError(
                    f"`{name}` must have the sizes of `accuracy`. "
                    f"Received: {list(sizes)} and {list(self.accuracy)}."
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


def to_json(data: dict[str, Any]) -> str:
    """Readable JSON: a list of numbers is on one line, so a matrix looks like one."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return re.sub(r"\[[-+.,eE\d\s]*\]", lambda match: " ".join(match[0].split()), text)


def read_json(path: Path, check: Callable[[dict[str, Any]], Any]) -> Any:
    """Parsed JSON through `check`; every error names the file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise ValueError(f"it must be a JSON object. Received: {data!r:.80}")
        return check(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error


def from_dict(cls, data: Any, what: str):
    """An instance of a dataclass from parsed JSON; rejects unknown, missing and mistyped fields."""
    if not isinstance(data, dict):
        raise ValueError(f"The {what} must be a JSON object. Received: {data!r:.80}.")
    reject_unknown(cls, data, what=what)
    reject_missing(cls, data, what=what)
    hints = _type_hints(cls)
    for name, value in data.items():
        nested = isinstance(value, dict) and dataclasses.is_dataclass(hints[name])
        if not nested and not has_type(value, hints[name]):
            raise ValueError(
                f"`{name}` of the {what} must be {cls.__annotations__[name]}. "
                f"Received: {name}={value!r:.80}."
            )
    return cls(**data)


_type_hints = functools.cache(typing.get_type_hints)


def _expect_fraction(name: str, value: float) -> None:
    if not (has_type(value, float) and 0 <= value <= 1):
        raise ValueError(f"`{name}` must be a fraction, 0…1. Received: {value!r}.")


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """The record of a network of the zoo. Values that were not measured are None.

    Prints as a table, in a terminal and in a notebook.
    """

    name: str
    dataset: str
    config: GaussDerNetConfig
    parameters: int
    parameters_paper: int  # as the paper counts: one constant per pair of channels, no batch norm
    multiply_adds: int  # for one image, under the network's sampling plan
    multiply_adds_dense: int  # the same operations on every pixel of every layer
    accuracy: dict[str, float] | None = None  # per size factor or object size, see `Metrics`
    exact_accuracy: dict[str, float] | None = None
    mean_accuracy: float | None = None
    num_test_images: int | None = None
    paper_accuracy: float | None = None
    paper_where: str | None = None
    train_sizes: str | None = None  # a range of the data set's sizes, if it has any
    recipe: str | None = None
    budget: str | None = None
    lineage: tuple[str, ...] = ()  # networks whose weights it started from
    seed: int | None = None
    weights_sha256: str | None = None
    weights_bytes: int | None = None
    versions: dict[str, str] | None = None
    hub_repo: str | None = None
    hub_revision: str | None = None  # the commit that belongs to `weights_sha256`
    licence: str = LICENCE
    citation: str = CITATION

    def __post_init__(self):
        if isinstance(self.config, dict):
            object.__setattr__(self, "config", GaussDerNetConfig.from_dict(self.config))
        make_plain(self)
        for name, others in {
            "accuracy": ("mean_accuracy", "num_test_images"),
            "weights_sha256": ("weights_bytes",),
        }.items():
            for other in others:
                if getattr(self, name) is not None and getattr(self, other) is None:
                    raise ValueError(f"`{other}` must be there if `{name}` is. Received: None.")

    @property
    def trained(self) -> bool:
        """Whether there are weights."""
        return self.weights_sha256 is not None

    @property
    def num_features(self) -> int:
        """The length of the embeddings that `load(name, include_top=False)` gives."""
        return self.config.num_features

    @property
    def pooling(self) -> str:
        """How scale channels are pooled; "single" if there is only one."""
        return self.config.scale_pooling if len(self.config.channel_sigmas) > 1 else "single"

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "config": self.config.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModelInfo:
        return from_dict(cls, data, "model info")

    def rows(self) -> list[tuple[str, str]]:
        """The displayed table, as pairs of a heading and a text."""
        config = self.config
        (height, width), (_, white) = config.input_size, config.pixel_range
        sigmas = ", ".join(f"{sigma:.3g}" for sigma in config.channel_sigmas)
        density = config.sampling_density
        grid = "no coarse grids" if density is None else f"sampling density {density:.3g}"
        rows = [
            ("data set", " ".join(filter(None, (self.dataset, self.train_sizes)))),
            (
                "input",
                f"{height} x {width} x {config.input_channels}, raw pixels 0…{white:g}",
            ),
            ("classes", ", ".join(config.class_names) or str(config.num_classes)),
            ("features", f"{self.num_features}, with include_top=False"),
            ("scale channels", f"{len(config.channel_sigmas)} (sigma {sigmas}), {self.pooling}"),
            ("layers", f"{config.num_layers}, {config.jet_order}-jet, {config.method}"),
            ("selection", f"{config.spatial_selection}, padding {config.padding}"),
            ("parameters", f"{self.parameters:,} (as the paper counts {self.parameters_paper:,})"),
            (
                "multiply-adds",
                f"{self.multiply_adds / 1e6:,.0f} M per image with {grid}; on every pixel of every "
                f"layer {self.multiply_adds_dense / 1e6:,.0f} M",
            ),
        ]
        if self.accuracy is not None:
            rows.append(("accuracy", _per_size(self.accuracy)))
            if self.exact_accuracy is not None:
                rows.append(("… every pixel", _per_size(self.exact_accuracy)))
            count = "1 size" if len(self.accuracy) == 1 else f"{len(self.accuracy)} sizes"
            images = f"{self.num_test_images:,} test images each"
            rows.append(("… mean", f"{self.mean_accuracy:.2%} over {count}, {images}"))
        if self.paper_accuracy is not None:
            rows.append(("paper", f"{self.paper_accuracy:.2%} ({self.paper_where})"))
        if self.recipe is not None:
            rows.append(("recipe", f"{self.recipe}, budget {self.budget}, seed {self.seed}"))
            rows.append(("started from", ", ".join(self.lineage) or "random weights"))
        if self.trained:
            rows.append(("weights", f"{self.weights_bytes:,} bytes, sha256 {self.weights_sha256}"))
        else:
            rows.append(("weights", "none yet"))
        if self.hub_repo is not None:
            rows.append(("Hub", f"{self.hub_repo} at {self.hub_revision}"))
        if self.versions:
            rows.append(("versions", ", ".join(f"{k} {v}" for k, v in self.versions.items())))
        return [*rows, ("licence", self.licence), ("cite", self.citation)]

    def __str__(self) -> str:
        lines = [self.name, "=" * len(self.name)]
        for heading, text in self.rows():
            wrapped = textwrap.wrap(text, 80, break_long_words=False) or [""]
            lines.append(f"{heading:<15} {wrapped[0]}")
            lines += [" " * 16 + line for line in wrapped[1:]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(heading)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for heading, text in self.rows()
        )
        return f"<h4>{html.escape(self.name)}</h4><table>{cells}</table>"


def _per_size(accuracy: dict[str, float]) -> str:
    return ", ".join(f"{size}: {accuracy[size]:.1%}" for size in shown_sizes(accuracy))
