"""The card of a zoo folder: its README.md and its figure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gdn_keras import datasets, plots, zoo
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.counts import count_multiply_adds, count_parameters
from gdn_keras.datasets import DataSet
from gdn_keras.datasets.dataset import shown_sizes
from gdn_keras.model import channel_plans, sigma_ranges
from gdn_keras.scale_space.discretisations import discretisation_of
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
# trained again, longer or differently, after the test accuracy of a first run: docs/numbers.md;
# with the images of the later run, since networks may have started from the first one
CHOSEN_BY_TEST = {
    "fashion_single_2jet": 1_920_000,
    "fashion_avg_2jet": 180_000,
    "fashion_max_2jet": 180_000,
    "cifar_single_2jet": 999_600,
    "cifar_avg_2jet": 249_900,
    "cifar_max_2jet": 83_310,
    "cifar_avg_2jet_mirror": 99_960,
    "cifar32_discrete_s0p50": 1_199_520,
    "cifar32_discrete_s0p71": 1_199_520,
    "cifar32_discrete_s1p00": 1_199_520,
    "fashion28_sampled_derivative_s0p50": 180_000,
    "fashion28_sampled_derivative_s1p00": 60_000,
}
_TEMPLATE = Path(__file__).with_name("card.md.jinja")


def reference_size(recipe: Recipe) -> str:
    """The key of a size that the network was trained on, the middle one of several."""
    return datasets.get(recipe.dataset).sizes.reference(recipe.train_sizes)


def card_of_folder(
    folder: zoo.Folder, *, recipe: Recipe, comparison: Comparison = NO_COMPARISON
) -> str:
    """The card of a published network, from the records in its folder."""
    return card(
        recipe,
        config=folder.config,
        metrics=folder.metrics,
        record=RunRecord.from_dict(folder.recipe),
        comparison=comparison,
    )


def card(
    recipe: Recipe,
    *,
    config: GaussDerNetConfig,
    metrics: zoo.Metrics,
    record: RunRecord,
    comparison: Comparison = NO_COMPARISON,
) -> str:
    """The folder's README.md, by the template `card.md.jinja`."""
    from jinja2 import Environment, StrictUndefined

    data = datasets.get(recipe.dataset)
    template = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    ).from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        recipe=recipe,
        config=config,
        metrics=metrics,
        record=record,
        comparison=comparison,
        data=data,
        own=recipe.group == OWN,  # a folder, not a name that the zoo knows; not of the paper
        several=len(config.channel_sigmas) > 1,
        parameters=count_parameters(config),
        sigmas=[f"{sigma:.3g}" for sigma in config.channel_sigmas],
        hybrid=discretisation_of(config.method).hybrid,
        gflop=2e-9 * count_multiply_adds(config),
        gflop_dense=2e-9 * count_multiply_adds(config, dense=True),
        sigma_ranges=sigma_ranges(config),
        shown=len(shown_sizes(metrics.accuracy)),
        table=_table(data, metrics, reference=reference_size(recipe)),
        less=_less_than_paper(recipe, record),
        chosen=_chosen_by_test(recipe, record),
        has_coarse_grids=_has_coarse_grids,
        is_cut=_is_cut,
        figure=FIGURE,
        more=MORE,
        licence=LICENCE,
        citation=CITATION,
    )


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


def _chosen_by_test(recipe: Recipe, record: RunRecord) -> list[str]:
    """Which networks of its lineage were trained as they were because of a test accuracy."""
    chosen = [
        f"`{ancestor.name}`"
        for ancestor in record.ancestors
        if ancestor.name in CHOSEN_BY_TEST
        and (ancestor.images is None or ancestor.images >= CHOSEN_BY_TEST[ancestor.name])
    ]
    return ["this network"] * (recipe.name in CHOSEN_BY_TEST) + chosen


def _less_than_paper(recipe: Recipe, record: RunRecord) -> list[str]:
    """In which ways it was trained less than the paper's networks."""
    configs = [stage.config for stage in record.stages]
    less = []
    if any(map(_has_coarse_grids, configs)):
        less.append("on coarse grids (sampling density 1/√2)")
    reaches = dict.fromkeys(f"{config.reach:g}" for config in configs if _is_cut(config))
    if reaches:
        less.append(f"at reach {', then '.join(reaches)}")
    if not recipe.transfer_from and _fewer_images(recipe, record):
        less.append("for fewer images")
    return less


def _fewer_images(recipe: Recipe, record: RunRecord) -> bool:
    """Whether all stages, including the ancestors', saw fewer images than the paper's epochs.

    Unknown numbers of images count as zero.
    """
    epochs = sum(stage.epochs for stage in record.stages)
    ancestors = sum(ancestor.images or 0 for ancestor in record.ancestors)
    return epochs * (1 + ancestors / record.images_seen) < recipe.epochs


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
