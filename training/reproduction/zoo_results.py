"""The results of the zoo, in the form that the report and the gallery need."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gdn_keras import datasets, zoo

from ..budgets import OPTIONAL
from ..recipes import RECIPES
from ..runs.record import RunRecord
from ..runs.state import read_record
from . import repeated_runs
from .paper import PairwiseStatistics, PooledStatistics
from .repeated_runs import SEVERAL

if TYPE_CHECKING:
    from gdn_keras.explain import SigmaFit

MATCHED = ", matched σ"  # of the name of a curve: all sigmas times the size factor


def percent(accuracy: dict[str, float], *, dataset: str) -> dict[float, float]:
    """Accuracies of the metrics by size factor, or by object size in pixels, in %."""
    sizes = datasets.get(dataset).sizes
    return {sizes.value(key): 100 * value for key, value in accuracy.items()}


def group_names(names: Iterable[str]) -> list[str]:
    """`a_b`, `a_c` -> `a_{b,c}`, to save space."""
    groups: dict[str, list[str]] = {}
    for name in names:
        start, _, end = name.rpartition("_")
        groups.setdefault(start, []).append(end)
    return [
        f"{start}_{{{','.join(ends)}}}" if len(ends) > 1 else f"{start}_{ends[0]}"
        for start, ends in groups.items()
    ]


def networks_of(table: PairwiseStatistics | PooledStatistics) -> dict[str, list[str]]:
    """Method -> its networks in all settings."""
    methods = dict.fromkeys(method for pair in table.rows for method in pair)
    name = table.networks.format
    return {m: [name(method=m, setting=s) for s in table.settings] for m in methods}


@dataclass(frozen=True)
class ZooResults:
    """The zoo folders of recipes, by name, and further runs of the same recipes."""

    folders: dict[str, zoo.Folder]
    # The zoo's own run included. Only runs from scratch: others share weights with their relatives,
    # so they are neither independent of each other nor trained like those that had no relative.
    runs: repeated_runs.Runs = field(default_factory=dict)
    # The same of trials without the validation split, which are measured on it; no claim is
    # judged by them.
    trials: repeated_runs.Runs = field(default_factory=dict)

    @classmethod
    def read(cls, zoo_dir: Path, *, runs_dir: Path | None = None) -> ZooResults:
        """The zoo, and the finished and evaluated runs in `runs_dir` if there is one."""
        paths = [path for path in zoo.folders(zoo_dir) if path.name in RECIPES]
        results = cls({path.name: zoo.read_folder(path) for path in paths})
        for name, training, seed, accuracy in repeated_runs.read(zoo_dir / repeated_runs.FILE):
            results._add_run(name, training, seed, accuracy)
        for path in sorted(runs_dir.glob("*-seed*")) if runs_dir else ():
            run, _, seed = path.name.rpartition("-seed")
            name = run.partition("@")[0]
            record = read_record(path) if name in RECIPES else None
            if record is not None and not record.ancestors:
                results._add_run(name, _training(record), int(seed), _evaluated(run, path))
        for name in results.folders:
            record = results.record(name)
            if not record.ancestors:
                accuracy = results.accuracies[name].get(1.0)
                results._add_run(name, _training(record), record.seed, accuracy)
        return results

    def record(self, name: str) -> RunRecord:
        """The record of the run behind a network of the zoo."""
        return RunRecord.from_dict(self.folders[name].recipe)

    def _add_run(self, name: str, training: str, seed: int, accuracy: float | None) -> None:
        if accuracy is not None:
            runs = self.trials if training.startswith(repeated_runs.TRIAL) else self.runs
            runs.setdefault(training, {}).setdefault(name, {})[seed] = accuracy

    def count_runs(self, names: Iterable[str]) -> str:
        """How many runs of one training each of the networks has, in words."""
        most = [max((len(r.get(n, ())) for r in self.runs.values()), default=0) for n in names]
        least, most = min(most), max(most)
        return f"{least} to {most}" if least < most else f"{most}"

    def run_table(
        self, table: PairwiseStatistics | PooledStatistics
    ) -> dict[str, np.ndarray] | None:
        """Accuracies of the table's networks: method -> (setting, run).

        None unless all of them have several runs from scratch with the same seeds, budget and
        length.
        """
        names = networks_of(table)
        for training in sorted(self.runs, reverse=True):  # the paper's budget first
            runs = self.runs[training]
            seeds = sorted(
                set.intersection(*(set(runs.get(n, ())) for row in names.values() for n in row))
            )
            if len(seeds) >= SEVERAL:
                return {
                    method: np.array([[runs[name][seed] for seed in seeds] for name in row])
                    for method, row in names.items()
                }
        return None

    @cached_property
    def accuracies(self) -> dict[str, dict[float, float]]:
        """{network: {size factor, or size of the object in pixels: accuracy in %}}."""
        return {
            name: percent(folder.metrics.accuracy, dataset=folder.metrics.dataset)
            for name, folder in self.folders.items()
        }

    def on_every_pixel(self) -> ZooResults:
        """The networks that were also measured on every pixel, with those accuracies."""
        folders = {}
        for name, folder in self.folders.items():
            metrics = folder.metrics
            exact = metrics.exact_accuracy if metrics.sampling_density else metrics.accuracy
            if exact:
                metrics = dataclasses.replace(
                    metrics,
                    accuracy=exact,
                    mean_accuracy=sum(exact.values()) / len(exact),
                    sampling_density=None,
                    exact_accuracy=None,
                    matched_accuracy=None,  # these two were measured on the coarse grid
                    scale_histograms=None,
                )
                folders[name] = dataclasses.replace(folder, metrics=metrics)
        return ZooResults(folders)

    def on_different_grids(self, names: Iterable[str]) -> bool:
        """Whether the grids on which these networks were trained and measured differ."""
        return len({self.folders[name].metrics.sampling_density for name in names}) > 1

    @cached_property
    def matched(self) -> dict[str, dict[float, float]]:
        """The same with all sigmas times the size factor, where that was measured."""
        return {
            name: percent(folder.metrics.matched_accuracy, dataset=folder.metrics.dataset)
            for name, folder in self.folders.items()
            if folder.metrics.matched_accuracy
        }

    def curve(self, name: str) -> dict[float, float] | None:
        """Accuracies of a network, or with matched sigmas if `name` ends so; None if unknown."""
        if name.endswith(MATCHED):
            return self.matched.get(name.removesuffix(MATCHED))
        return self.accuracies.get(name)

    @cached_property
    def sigma_fits(self) -> dict[str, SigmaFit]:
        """{network with learned scales: sigma of every layer, and the geometric fit}."""
        from gdn_keras.explain import sigmas_and_fit

        return {
            name: sigmas_and_fit(zoo.load(folder.path))
            for name, folder in self.folders.items()
            if folder.config.learned_sigmas
        }

    @cached_property
    def sigmas(self) -> dict[str, np.ndarray]:
        """{network with learned scales: sigma of every layer}."""
        return {name: fit.sigmas for name, fit in self.sigma_fits.items()}

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


def _training(record: RunRecord) -> str:
    """Budget and length of a run; with optional stages, or as a trial, it is another one."""
    trial = record.name.partition("@")[2]
    optional = [f"{s.name} {s.epochs:g}" for s in record.stages if s.name in OPTIONAL]
    parts = [record.budget, f"{record.images_seen:,} images", *optional]
    return ", ".join([f"{repeated_runs.TRIAL}{trial}"] * bool(trial) + parts)


def _evaluated(run: str, folder: Path) -> float | None:
    """Accuracy in % at size factor 1 of a finished run, None if it is not evaluated."""
    from ..publishing.measurement import read_results

    name, _, trial = run.partition("@")
    split = "validation" if trial else "test"
    try:
        results = read_results(RECIPES[name], folder=folder, split=split)
    except ValueError:
        return None
    at_one = results.get("1.000")
    return None if at_one is None else 100 * at_one.correct / at_one.images
