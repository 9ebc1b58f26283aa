"""From a finished, evaluated run to a complete zoo folder; the only writer of `zoo/`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from gdn_keras import datasets, plots, zoo
from gdn_keras.datasets import Arrays
from gdn_keras.datasets.own.dataset import own_record
from gdn_keras.datasets.samples import sets_with_samples
from gdn_keras.model import GaussDerNet, clamped_sigmas

from ..recipes import Recipe
from ..runs.record import Ancestor
from ..runs.state import WEIGHTS, read_record
from ..trainer import versions
from .card import FIGURE, card, draw_accuracy, reference_size
from .comparison import NO_COMPARISON, Comparison
from .measurement import SizeResult

GOLDEN_IMAGES = 8


def publish(
    recipe: Recipe,
    *,
    model: GaussDerNet,
    results: dict[str, SizeResult],
    folder: Path,
    zoo_folder: Path,
    ancestors: tuple[Ancestor, ...],
    comparison: Comparison = NO_COMPARISON,
    exact: dict[str, SizeResult] | None = None,
    matched: dict[str, SizeResult] | None = None,
) -> zoo.Folder:
    """Write `zoo/NAME` from the run in `folder`; `ancestors` from `Workspace.lineage`."""
    record = read_record(folder)
    if record.name != recipe.name or "@" in recipe.name:
        raise ValueError(f"Only runs of a recipe are published. Received: {record.name}.")
    record = record.replace(ancestors=ancestors, seconds=round(record.seconds, 1))
    metrics = dataclasses.replace(
        _metrics(recipe, model, results, exact=exact, matched=matched),
        paper_accuracy=comparison.accuracy,
        paper_where=comparison.where,
    )
    facts = record.to_dict() | {
        "paper_section": recipe.paper_section,
        "paper_epochs": recipe.epochs,
        **({"train_sizes": recipe.train_sizes} if recipe.train_sizes else {}),
    }
    for name in ("stage", "step", "config"):  # it is finished, and config.json has the network
        del facts[name]
    data = datasets.get(recipe.dataset)
    return zoo.write_folder(
        zoo_folder / recipe.name,
        config=record.config,
        weights=folder / WEIGHTS,
        metrics=metrics,
        recipe=facts,
        card=card(
            recipe, config=record.config, metrics=metrics, record=record, comparison=comparison
        ),
        figures={FIGURE: plots.png_bytes(draw_accuracy(recipe, metrics))}
        if len(metrics.accuracy) > 1
        else {},
        data=data if own_record(data) else None,
    )


def _metrics(recipe, model, results, *, exact, matched) -> zoo.Metrics:
    accuracy = _accuracy(results)
    reference = results[reference_size(recipe)]
    measured = [r for part in (results, exact, matched) if part for r in part.values()]
    runtimes = ", ".join(sorted({r.onnxruntime for r in measured if r.onnxruntime}))
    sample_set, samples = golden_samples(recipe)
    logits = model.predict(samples.images.astype("float32"), batch_size=32, verbose=0)
    indices = np.linspace(0, len(logits) - 1, GOLDEN_IMAGES).astype(int)
    return zoo.Metrics(
        dataset=recipe.dataset,
        split="test",
        num_test_images=reference.images,
        sampling_density=model.config.sampling_density,
        accuracy=accuracy,
        exact_accuracy=exact and _accuracy(exact),
        matched_accuracy=matched and _accuracy(matched),
        mean_accuracy=float(np.mean(list(accuracy.values()))),
        golden=zoo.Golden(
            sample_set=sample_set,
            indices=tuple(int(i) for i in indices),
            logits=tuple(tuple(round(float(v), 6) for v in logits[i]) for i in indices),
        ),
        sample_accuracy=float((logits.argmax(axis=1) == samples.labels).mean())
        if sample_set == recipe.dataset
        else None,
        scale_histograms={key: r.histograms for key, r in results.items()}
        if len(model.config.channel_sigmas) > 1
        else None,
        confusion=tuple(tuple(row) for row in reference.confusion),
        calibration_error=reference.calibration_error,
        clamped_sigmas=clamped_sigmas(model) if model.config.learned_sigmas else None,
        versions=versions() | ({"onnxruntime": runtimes} if runtimes else {}),
        seconds=round(sum(r.seconds for r in results.values()), 1),
    )


def golden_samples(recipe: Recipe) -> tuple[str, Arrays]:
    """The bundled images of the data set; if it has none, those of another one of that shape."""
    own = datasets.get(recipe.dataset)
    if own.samples is not None:
        return own.name, own.samples.load()
    size, channels = recipe.config.input_size, recipe.config.input_channels
    bundled = sets_with_samples().values()
    others = [d for d in bundled if (d.image_size, d.channels) == (size, channels)]
    if not others:
        raise ValueError(
            f"`input_size` must be that of a bundled set. Received: images of {(*size, channels)}."
        )
    other = min(others, key=lambda other: other.sizes != own.sizes)  # one of its kind, if possible
    return other.name, other.samples.load()


def _accuracy(results: dict[str, SizeResult]) -> dict[str, float]:
    return {key: r.correct / r.images for key, r in results.items()}
