"""What a network of the paper is compared with on its card."""

from __future__ import annotations

import dataclasses

from gdn_keras import zoo

from ..publishing.comparison import Comparison
from ..recipes import Recipe
from .baselines import DATASETS, MODELS, stir_baseline
from .claims.claim import claim_values
from .claims.statements import CLAIMS
from .paper import paper_accuracy
from .zoo_results import percent


def compare(recipe: Recipe) -> Comparison:
    """The accuracy that the paper prints, or what its text and other papers say."""
    printed = paper_accuracy(recipe.name)

    def paragraphs(metrics: zoo.Metrics) -> list[str]:
        described = [_described_in_paper(recipe, metrics)] if recipe.paper_section else []
        return [*_published_by_others(recipe), *([] if printed else described)]

    return Comparison(printed and printed.mean / 100, printed and printed.where, paragraphs)


def _described_in_paper(recipe: Recipe, metrics: zoo.Metrics) -> str:
    """The paper has curves without numbers; what its text names for networks like this one."""
    shown = f"The paper (section {recipe.paper_section}) shows this network's accuracy in a figure"
    ours = {recipe.name: percent(metrics.accuracy, dataset=recipe.dataset)}
    lines = []
    for claim in CLAIMS:
        if recipe.name in claim.models and claim.printed and claim.measure in ("accuracy", "drop"):
            claim = dataclasses.replace(claim, models=(recipe.name,))
            (value,) = claim_values(claim, ours)
            unit = "%" if claim.measure == "accuracy" else "ppt"
            lines.append(f"- {claim.text} Here: {value:.2f} {unit}.")
    if not lines:
        return f"{shown}, without numbers."
    return "\n".join([f"{shown} and says of it, in our words:", *lines])


def _published_by_others(recipe: Recipe) -> list[str]:
    if recipe.dataset not in DATASETS:
        return []
    which = {"dataset": recipe.dataset, "train_sizes": recipe.train_sizes}
    others = [f"{model} {stir_baseline(model, **which).mean.mean():.2f}" for model in MODELS]
    return [
        "Published for other networks that were trained on objects of these sizes (four of the "
        f"eleven of Altstidl et al., 2023), mean accuracy % over all sizes: {', '.join(others)}."
    ]
