"""The card of a zoo folder: its README.md and its figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gdn_keras import datasets, plots, zoo
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.counts import count_parameters
from gdn_keras.datasets import DataSet
from gdn_keras.datasets.dataset import shown_sizes
from gdn_keras.model import channel_plans, sigma_ranges
from gdn_keras.utils import markdown
from gdn_keras.utils.citation import CITATION
from gdn_keras.zoo.records import LICENCE

from ..budgets import MORE
from ..recipes import OWN, Recipe
from ..runs.record import RunRecord
from .comparison import NO_COMPARISON, Comparison
from .measurement import test_sizes
from .styles import STYLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE = "accuracy.png"


def reference_size(recipe: Recipe) -> str:
    """The key of a size that the network was trained on, the middle one of several."""
    return datasets.get(recipe.dataset).sizes.reference(recipe.train_sizes)


def card(
    recipe: Recipe,
    *,
    config: GaussDerNetConfig,
    metrics: zoo.Metrics,
    record: RunRecord,
    comparison: Comparison = NO_COMPARISON,
) -> str:
    """The folder's README.md."""
    data = datasets.get(recipe.dataset)
    channels = len(config.channel_sigmas)
    where = "./" if recipe.group == OWN else ""  # a folder, not a name that the zoo knows
    several = f"{channels} scale channels with {config.scale_pooling} pooling"
    lines = [
        f"# {recipe.name}",
        "",
        f"A Gaussian derivative network for {recipe.dataset}: "
        f"{several if channels > 1 else '1 scale channel'}, "
        f"{config.jet_order}-jets, {config.spatial_selection} selection in space, "
        f"{count_parameters(config):,} parameters.",
        *_border(recipe, config),
        "",
        "```python",
        "import gdn_keras.zoo",
        f'model = gdn_keras.zoo.load("{where}{recipe.name}")  # raw pixels 0…255 in, logits out',
        "```",
        "",
        "## Accuracy",
        f"Measured on all {metrics.num_test_images:,} test images per size, "
        + " ".join([f"{_computed(config)}.", *_size_notes(data, metrics)]),
        "",
        _table(data, metrics, reference=reference_size(recipe)),
        "",
        *_clamped(config, metrics),
    ]
    if len(metrics.accuracy) > 1:
        lines += [f"![accuracy per size]({FIGURE})", ""]
    for paragraph in comparison.paragraphs(metrics):
        lines += [paragraph, ""]
    lines += ["## How it was trained", *_history(recipe, record)]
    for stage in record.stages:
        lines.append(
            f"- stage `{stage.name}`: {_epochs(stage.epochs)}, batch {stage.batch_size}, "
            f"learning rate {stage.learning_rate} → {stage.final_learning_rate} (cosine, "
            f"warm-up {stage.warmup:.0%}), weight decay {stage.weight_decay}, "
            f"{_dropout(stage.config)}"
            f"{', '.join(stage.augment) or 'no augmentation'}, {stage.dtype}"
        )
    if record.stages:
        lines.append(f"- batch norm saw {_normalised(record.stages[-1].config)}")
    if record.statistics_images:
        lines.append(
            f"- then the batch statistics were measured over {record.statistics_images:,} "
            "training images"
        )
    lines += [
        "",
        "## Limits",
        f"Trained on {data.sizes.trained_words(recipe.train_sizes)} only"
        + (
            "; the accuracy at other sizes is what the scale channels give. "
            if channels > 1
            else ". One scale channel: not meant for objects of other sizes. "
        )
        + "Objects are expected "
        + (
            "at the centre of the image."
            if config.spatial_selection == "centre"
            else "anywhere in the image, one per image."
        ),
        *([data.remark] if data.remark else []),
        "",
        "## Licence and citation",
        ("" if recipe.group == OWN else f"Weights: {LICENCE}. ")
        + (data.licence and f"{data.licence}."),
        f"Architecture: {CITATION}",
        "",
    ]
    return "\n".join(lines)


def _border(recipe: Recipe, config: GaussDerNetConfig) -> list[str]:
    """What mirror padding is, and why it suits the data."""
    if config.padding != "mirror":
        return []
    if recipe.group == OWN:
        return ["The image is extended by mirroring (padding `mirror`)."]
    lines = [
        "The image is extended by mirroring (padding `mirror`), whereas the paper's networks pad "
        f"every layer, as `{recipe.name.removesuffix('_mirror')}` does. The idea came when test "
        "accuracies of `cifar_avg_2jet` were known, and was tried on training images."
    ]
    data = datasets.get(recipe.dataset)
    if data.surroundings == "mirrored" and data.sizes.unit == "factor":
        lines.append(
            "The images of this data set were made in the same way: those below size factor "
            f"{data.image_size[0] / data.sizes.side:g} are extended by mirroring."
        )
    return lines


def _clamped(config: GaussDerNetConfig, metrics: zoo.Metrics) -> list[str]:
    """Which learned sigmas might have gone further."""
    ranges = sigma_ranges(config)
    lines = [
        f"The learned sigma of layer {k} ended at a bound of its range, {ranges[k - 1][0]:g} to "
        f"{ranges[k - 1][1]:g}: without it, it might have gone further."
        for k in metrics.clamped_sigmas or ()
    ]
    return [*lines, ""] if lines else []


def _has_coarse_grids(config: GaussDerNetConfig) -> bool:
    """Whether some layer leaves out pixels; those with learned sigmas may have none that does."""
    return any(
        axis.output.spacing > 1
        for plan in channel_plans(config)
        for layer in plan.layers
        for axis in (layer.rows, layer.columns)
    )


def _is_cut(config: GaussDerNetConfig) -> bool:
    """Whether `reach` ends some layer earlier than the exact window."""
    return channel_plans(config) != channel_plans(config.replace(reach=None))


def _normalised(config: GaussDerNetConfig) -> str:
    """What the batch statistics are of; see `docs/training.md`."""
    if config.spatial_selection == "max" or not config.window:
        return "whole maps in training, as in the paper's equations"
    return (
        "only what can reach the centre in training, in the last layer the centre alone; in the "
        "paper's equations it sees whole maps"
    )


def _computed(config: GaussDerNetConfig) -> str:
    words = []
    if _has_coarse_grids(config):
        words.append(f"at sampling density {config.sampling_density:.3g}")
    if _is_cut(config):
        words.append(f"at reach {config.reach:g}")
    return " and ".join(words) or "on every pixel"


def _history(recipe: Recipe, record: RunRecord) -> list[str]:
    # a relative of another seed is not what the seed of this network suggests
    seeds = (None, record.seed)
    started = [
        f"`{ancestor.name}`"
        + ("" if ancestor.seed in seeds else f" (seed {ancestor.seed})")
        + ("" if ancestor.images is None else f" as it was after {ancestor.images:,} images")
        for ancestor in record.ancestors
    ]
    if recipe.transfer_from:
        return [
            f"Not at all: these are the weights of {started[0]}, in "
            f"{len(recipe.config.channel_sigmas)} scale channels instead of one."
        ]
    minutes = record.seconds / 60
    duration = f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
    duration = "1 minute" if duration == "1 minutes" else duration
    full = record.budget == "paper"
    schedule = ", the full schedule of the paper" if full else ""
    if full and record.trained_further:
        schedule += " and more"
    lines = [
        f"Budget `{record.budget}`: {record.describe_images()}, in {duration} on "
        f"{_machine(record)}{schedule}. Seed {record.seed}."
    ]
    configs = [stage.config for stage in record.stages]
    less = []
    if any(map(_has_coarse_grids, configs)):
        less.append("on coarse grids (sampling density 1/√2)")
    if configs and _is_cut(configs[-1]):
        less.append(f"at reach {configs[-1].reach:g}")
    if _fewer_images(recipe, record):
        less.append("for fewer images")
    if not full and less and recipe.group != OWN:  # which is not of the paper
        *first, last = less
        ways = f"{', '.join(first)} and {last}" if first else last
        lines.append(
            f"This is **less than the paper's budget** of {recipe.epochs} epochs on every pixel: "
            f"it was trained {ways}."
        )
    if started:
        lines.append(f"The weights started from {', which started from '.join(started)}.")
    if record.trained_further:
        lines.append(
            f"It was trained further (`{MORE}`) when its accuracy on the test images was known, so "
            "how long it was trained is not independent of them."
        )
    return lines


def _machine(record: RunRecord) -> str:
    if record.trained_further:  # perhaps on several
        return "the machines it was trained on"
    return record.cpu or "the machine it was trained on"


def _fewer_images(recipe: Recipe, record: RunRecord) -> bool:
    """Whether all stages, including the ancestors', saw fewer images than the paper's epochs.

    Unknown numbers of images count as zero.
    """
    epochs = sum(stage.epochs for stage in record.stages)
    ancestors = sum(ancestor.images or 0 for ancestor in record.ancestors)
    return epochs * (1 + ancestors / record.images_seen) < recipe.epochs


def _epochs(count: float) -> str:
    return "1 epoch" if count == 1 else f"{count:.3g} epochs"


def _dropout(config: GaussDerNetConfig) -> str:
    """What a network of several scale channels was trained with."""
    if len(config.channel_sigmas) == 1:
        return ""
    share = config.scale_dropout
    return f"scale-channel dropout {share:g}, " if share else "no scale-channel dropout, "


def _size_notes(data: DataSet, metrics: zoo.Metrics) -> list[str]:
    """What the table does not show about its sizes."""
    shown, count = len(shown_sizes(metrics.accuracy)), len(metrics.accuracy)
    some = f"{shown} of {count} are shown, metrics.json and the mean have all"
    words = "; ".join(filter(None, [data.sizes.note, some if shown < count else ""]))
    return [f"{words}."] if words else []


def _table(data: DataSet, metrics: zoo.Metrics, *, reference: str) -> str:
    keys = shown_sizes(metrics.accuracy)
    several = len(metrics.accuracy) > 1
    header = ["size", *map(data.sizes.heading, keys), *["mean"] * several]
    mean = [f"**{100 * metrics.mean_accuracy:.2f}**"] * several
    rows = [["accuracy %", *(f"{100 * metrics.accuracy[k]:.2f}" for k in keys), *mean]]
    others = {"every pixel": metrics.exact_accuracy, "sigmas × size": metrics.matched_accuracy}
    for words, other in others.items():
        if other:
            mean = [f"{100 * float(np.mean(list(other.values()))):.2f}"] * several
            rows.append([words, *(f"{100 * other[k]:.2f}" for k in keys), *mean])
    if metrics.paper_accuracy is not None:  # the paper prints numbers for regular sets only
        paper = 100 * metrics.paper_accuracy
        difference = 100 * metrics.accuracy[reference] - paper
        rows.append([f"paper, {metrics.paper_where}", f"{paper:.2f}"])
        rows.append(["difference", f"{difference:+.2f}"])
    return markdown.table(header, rows=rows)


def draw_accuracy(recipe: Recipe, metrics: zoo.Metrics) -> Figure:
    """The card's figure: accuracy at every size, and with matched sigmas if measured."""
    sizes = test_sizes(recipe)

    def curve(accuracy: dict[str, float]) -> dict[float, float]:
        return {sizes[key]: 100 * value for key, value in accuracy.items()}

    several = len(recipe.config.channel_sigmas) > 1
    label = f"{recipe.config.scale_pooling} pooling" if several else "one scale channel"
    curves = {label: curve(metrics.accuracy)}
    if metrics.matched_accuracy:
        curves["one channel, matched σ"] = curve(metrics.matched_accuracy)
    figure, axes = plots.new_figure(height=60)
    plots.plot_accuracy(
        curves,
        axes[0, 0],
        sizes=datasets.get(recipe.dataset).sizes,
        train_sizes=recipe.train_sizes,
        styles=STYLES,
    )
    return figure
