"""What the zoo holds, as the report and the gallery need it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from gdn_keras import zoo
from gdn_keras.model import learned_sigmas
from training.claims import SIZE_FACTORS
from training.recipes import RECIPES

_KEYS = {f"{factor:.3f}": factor for factor in SIZE_FACTORS}


def _percent(accuracy: dict[str, float]) -> dict[float, float]:
    return {_KEYS.get(key) or int(key): 100 * value for key, value in accuracy.items()}


@dataclass(frozen=True)
class Results:
    """The zoo folders of recipes, by name."""

    folders: dict[str, zoo.Folder]

    @classmethod
    def read(cls, zoo_dir: Path) -> Results:
        paths = zoo.folders(zoo_dir)
        return cls({path.name: zoo.read_folder(path) for path in paths if path.name in RECIPES})

    @cached_property
    def accuracies(self) -> dict[str, dict[float, float]]:
        """{network: {size factor, or size of the object in pixels: accuracy in %}}."""
        return {name: _percent(folder.metrics.accuracy) for name, folder in self.folders.items()}

    @cached_property
    def matched(self) -> dict[str, dict[float, float]]:
        """The same with all sigmas times the size factor, where that was measured."""
        return {
            name: _percent(folder.metrics.matched_accuracy)
            for name, folder in self.folders.items()
            if folder.metrics.matched_accuracy
        }

    @cached_property
    def sigmas(self) -> dict[str, np.ndarray]:
        """{network with learned scales: sigma of every layer}."""
        return {
            name: learned_sigmas(zoo.load(folder.path))[0]
            for name, folder in self.folders.items()
            if folder.config.learned_sigmas
        }

    def histogram(self, name: str, group: str = "all") -> np.ndarray | None:
        """Share of the test images per size and scale channel; `group` all, correct or wrong."""
        metrics = self.folders[name].metrics
        if metrics.scale_histograms is None:
            return None
        rows = []
        for key, accuracy in metrics.accuracy.items():
            part = {"all": 1.0, "correct": accuracy, "wrong": 1 - accuracy}[group]
            shares = metrics.scale_histograms[key][group]  # empty if there are no such images
            rows.append(
                part * np.array(shares or [0.0] * len(metrics.scale_histograms[key]["all"]))
            )
        return np.array(rows)
