"""Accuracies of repeated runs, kept in the zoo although their weights are not."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gdn_keras.utils.files import replace_file
from gdn_keras.utils.markdown import table

from .statistics import hedges_g, rank_sum_p, t_test_p

FILE = "repeated_runs.csv"  # in the zoo
COLUMNS = ("network", "training", "seed", "accuracy")
SEVERAL = 3  # runs of a network, at least, before differences are tested
TRIAL = "trial "  # how the training of runs begins that were measured on the validation split

# how they were trained -> network -> seed -> accuracy in % at size factor 1
Runs = dict[str, dict[str, dict[int, float]]]


def rows_of(runs: Runs) -> Iterator[tuple[str, str, int, float]]:
    """The runs of networks that have several of one training, in the order of `COLUMNS`."""
    for training, networks in sorted(runs.items()):
        for network, accuracies in sorted(networks.items()):
            if len(accuracies) > 1:
                for seed, accuracy in sorted(accuracies.items()):
                    yield network, training, seed, accuracy


def read(path: Path) -> Iterator[tuple[str, str, int, float]]:
    """The rows of the file, none if there is no file."""
    if not path.exists():
        return
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            network, training, seed, accuracy = (row[name] for name in COLUMNS)
            yield network, training, int(seed), float(accuracy)


def write(path: Path, runs: Runs) -> int:
    """Write the file; returns how many runs it has."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows = [(*names, f"{accuracy:.2f}") for *names, accuracy in rows_of(runs)]
    writer.writerows(rows)
    replace_file(path, content=buffer.getvalue())
    return len(rows)


def tables(runs: Runs) -> list[str]:
    """Mean and deviation of every network with several runs, and their differences."""
    lines = []
    for training, networks in sorted(runs.items()):
        several = {name: seeds for name, seeds in networks.items() if len(seeds) >= SEVERAL}
        if not several:
            continue
        rows = []
        for name, seeds in several.items():
            values = [seeds[seed] for seed in sorted(seeds)]
            spread = f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
            rows.append([f"`{name}`", spread, ", ".join(f"{value:.2f}" for value in values)])
        split = " on the validation split" * training.startswith(TRIAL)
        lines += [f"Repeated runs from scratch, `{training}`, accuracy in %{split}:", ""]
        lines += [*table(["network", "mean", "runs"], rows=rows, align="lrl").splitlines(), ""]
        differences = []
        for one, other in itertools.combinations(several, 2):
            seeds = sorted(several[one].keys() & several[other].keys())
            if len(seeds) < SEVERAL or one.partition("_")[0] != other.partition("_")[0]:
                continue
            x, y = ([several[name][seed] for seed in seeds] for name in (one, other))
            differences.append(
                [
                    f"`{one}` − `{other}`",
                    f"{np.mean(x) - np.mean(y):+.2f}",
                    f"{hedges_g(x, y):.2f}",
                    f"{rank_sum_p(x, y):.3f}",
                    f"{t_test_p(x, y):.3f}",
                ]
            )
        if differences:
            header = ["difference", "ppt", "Hedges' g", "Wilcoxon p", "t-test p"]
            lines += [*table(header, rows=differences, align="lr").splitlines(), ""]
            least = 2 / math.comb(2 * SEVERAL, SEVERAL)
            lines += [f"With {SEVERAL} runs of each, Wilcoxon p is never below {least:.2g}.", ""]
    return lines
