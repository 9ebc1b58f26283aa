"""Other networks' published accuracies on STIR, to draw with ours; see `data/`.

>>> stir_baseline("SESN", dataset="stir_aerial", train_sizes="small").mean.shape
(48,)
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# our names -> those of the file
MODELS = {"SESN": "hermite", "DISCO": "disco", "PixelPool": "pixel_pool", "CNN": "standard"}
DATASETS = {"stir_sign": "trafficsign", "stir_aerial": "aerial", "stir_emoji": "emoji"}
SCENARIOS = {"small": "1", "mid": "2", "large": "3"}
_FILE = Path(__file__).parent / "data" / "stir_baselines.csv"


@dataclass(frozen=True, kw_only=True)
class Baseline:
    sizes: np.ndarray  # of the objects in the test images, in pixels: 17 to 64
    mean: np.ndarray  # test accuracy in %, per size
    std: np.ndarray  # unbiased, over the runs
    runs: int

    @property
    def curve(self) -> dict[int, float]:
        """Size -> mean accuracy in %."""
        return dict(zip(self.sizes.tolist(), self.mean.tolist(), strict=True))


def stir_baseline(model: str, *, dataset: str, train_sizes: str) -> Baseline:
    """Accuracies of `model` ("SESN", ...), trained on the small, mid or large objects."""
    key = tuple(
        _look_up(name, value, names)
        for name, value, names in (
            ("model", model, MODELS),
            ("dataset", dataset, DATASETS),
            ("train_sizes", train_sizes, SCENARIOS),
        )
    )
    return _read()[key]


def _look_up(argument: str, value: str, names: dict[str, str]) -> str:
    if value not in names:
        raise ValueError(
            f"`{argument}` must be one of {', '.join(names)}. Received: {argument}={value!r}."
        )
    return names[value]


@functools.cache
def _read() -> dict[tuple[str, str, str], Baseline]:
    rows: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    with _FILE.open(newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault((row["model"], row["dataset"], row["scenario"]), []).append(row)
    return {
        key: Baseline(
            sizes=np.array([int(row["size"]) for row in group]),
            mean=np.array([float(row["mean"]) for row in group]),
            std=np.array([float(row["std"]) for row in group]),
            runs=int(group[0]["n"]),
        )
        for key, group in rows.items()
    }
