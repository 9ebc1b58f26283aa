"""Measure a published network again, and compare with the numbers in its folder.

Two measurements of the same weights differ where the CPU, the backend or the batch size changes the
order of float32 sums, so that single images on the boundary between two classes change sides.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gdn_keras import datasets, zoo

from .claims.margins import standard_error

FLIPPED = 0.001  # share of the test images whose class rounding may change; at least one image
ERRORS = 3  # binomial standard errors, where only some of the test images are measured
LOGITS = 1e-3  # largest difference of a logit
# how it was measured -> in the name of a number
WORDS = {"trained": "", "exact": " on every pixel", "matched": ", matched σ"}


class Comparison(NamedTuple):
    """A number of `metrics.json` and the same measured now."""

    what: str
    published: float
    measured: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        return abs(self.measured - self.published) <= self.tolerance


def verify(
    folder: str | os.PathLike,
    *,
    sizes: Sequence[float] | None = None,
    limit: int | None = None,
    data_dir: str | os.PathLike | None = None,
) -> list[Comparison]:
    """Compare the accuracies of a zoo folder with those on its test images.

    Also those on every pixel and with matched sigmas, if they were published, and of what the scale
    channels contribute the share that deviates most.

    Args:
        folder: of the zoo, with weights and metrics.
        sizes: size factors, or sizes of the object in pixels; all that were published by default.
        limit: measure so many images of each size, spread over the test set; all by default.
        data_dir: see `gdn_keras.datasets.load_arrays`.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be a positive integer. Received: limit={limit}.")
    published = zoo.read_folder(folder)
    metrics = published.metrics
    known = datasets.get(metrics.dataset).sizes
    keys = list(metrics.accuracy) if sizes is None else [known.key(size) for size in sizes]

    from gdn_keras.accuracy import test_sets
    from gdn_keras.model import at_scale

    from ..publishing.measurement import measure, network_in

    model = zoo.load(published.path)
    accuracies = {
        "trained": metrics.accuracy,
        "exact": metrics.exact_accuracy,
        "matched": metrics.matched_accuracy,
    }
    comparisons, networks = [], {}
    for key, data in test_sets(metrics.dataset, keys, split=metrics.split, data_dir=data_dir):
        part = data.spread(limit)
        for mode in (mode for mode, accuracy in accuracies.items() if accuracy):
            if mode == "matched":
                networks[mode] = network_in(mode, at_scale(model, known.value(key)))
            elif mode not in networks:
                networks[mode] = network_in(mode, model)
            pooling, label = model.config.scale_pooling, f"{Path(folder).name} {mode} {key}"
            result = measure(networks[mode], part, pooling=pooling, label=label)
            accuracy = 100 * accuracies[mode][key]
            tolerance = accuracy_tolerance(accuracy, images=len(part), of=metrics.num_test_images)
            measured = 100 * result.correct / result.images
            what = f"accuracy at {key}{WORDS[mode]}, %"
            comparisons.append(Comparison(what, accuracy, measured, tolerance))
            if mode == "trained" and metrics.scale_histograms:
                shares = metrics.scale_histograms[key]["all"], result.histograms["all"]
                pair = [100 * np.array(share) for share in shares]
                worst = int(np.abs(pair[0] - pair[1]).argmax())
                values = float(pair[0][worst]), float(pair[1][worst])
                of = metrics.num_test_images  # shares of images deviate no more than accuracies do
                tolerance = accuracy_tolerance(values[0], images=len(part), of=of)
                what = f"share of channel {worst + 1} at {key}, %"
                comparisons.append(Comparison(what, *values, tolerance))
    return comparisons


def accuracy_tolerance(accuracy: float, *, images: int, of: int) -> float:
    """How far apart two measurements of an accuracy in % may be, the second on a part of the first.

    The images of the part are drawn without replacement, which makes its binomial error smaller;
    there is none if it has all of them.
    """
    rounding = max(100 * FLIPPED, 100 / images)
    sampling = ERRORS * standard_error(accuracy, images) * np.sqrt(max(1 - images / of, 0))
    return float(rounding + sampling)


def verify_samples(folder: str | os.PathLike) -> list[Comparison]:
    """Compare the stored logits and accuracy of a zoo folder on the bundled images, offline."""
    published = zoo.read_folder(folder)
    golden, metrics = published.metrics.golden, published.metrics
    samples = datasets.load_samples(golden.sample_set)
    logits = zoo.load(published.path).predict(samples.images.astype("float32"), verbose=0)
    comparisons = []
    for index, stored in zip(golden.indices, golden.logits, strict=True):
        worst = np.abs(logits[index] - stored).argmax()
        values = float(stored[worst]), float(logits[index, worst])
        comparisons.append(Comparison(f"logit {worst} of image {index}", *values, LOGITS))
    if metrics.sample_accuracy is not None:
        measured = 100 * float((logits.argmax(axis=1) == samples.labels).mean())
        tolerance = 100 / len(samples)
        accuracy = 100 * metrics.sample_accuracy
        comparisons.append(Comparison("accuracy, %", accuracy, measured, tolerance))
    return comparisons


def format_comparisons(comparisons: Sequence[Comparison]) -> str:
    """A table for the terminal, and a sentence."""
    lines = [f"{'':34}{'published':>12}{'measured':>12}{'difference':>12}{'tolerance':>12}"]
    for one in comparisons:
        numbers = one.published, one.measured, one.measured - one.published, one.tolerance
        digits = 2 if one.what.endswith("%") else 6
        cells = "".join(f"{number:12.{digits}f}" for number in numbers)
        lines.append(f"{one.what:34}{cells}  {'agrees' if one.agrees else 'DIFFERS'}")
    count = sum(not one.agrees for one in comparisons)
    lines.append(f"{count} of {len(comparisons)} numbers differ by more than the tolerance.")
    return "\n".join(lines)
