"""How large a difference of accuracies must be before it says something about the networks.

Everything comes from the records of the zoo's folders: which network started from which, how many
images each was trained on after their training separated, and how many test images there were.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from ...recipes import RECIPES
from ..paper import ACCURACY
from ..zoo_results import MATCHED, ZooResults
from .claim import Claim

ERRORS = 2  # standard errors that a difference must exceed
EVEN = 2.0  # times as many images, at most, between networks trained for comparable lengths
# ppt; about twice the largest gain so far when a network was trained further (`training/NOTES.md`)
UNEVEN = 3.0
UNEVEN_SIGMA = 0.1  # relative


def _deviation(family: str) -> float:
    """Standard deviation over runs in ppt, root mean square of what the paper prints."""
    printed = [v.std for name, v in ACCURACY.items() if name.startswith(family) and v.std]
    return math.sqrt(sum(std**2 for std in printed) / len(printed))


RUN_DEVIATION = {"fashion": _deviation("fashion28"), "cifar": _deviation("cifar32")}


def rule() -> str:
    """The rule in Markdown, from the constants that are used."""
    spread = " and ".join(
        f"{std:.2f} ppt on {title}"
        for std, title in zip(RUN_DEVIATION.values(), ("Fashion-MNIST", "CIFAR-10"), strict=True)
    )
    return (
        "*Inconclusive*: for more than half of the values, the distance to what the claim says is "
        "smaller than what chance or training can make, on either side. The zoo has one run of "
        f"each network, so a difference must exceed {ERRORS} standard errors: the binomial errors "
        "of both accuracies (as if on different test images, which overstates it) and the "
        f"deviation between runs that the paper prints ({spread}, elsewhere the larger). It must "
        f"exceed {UNEVEN:g} ppt, between sigmas {100 * UNEVEN_SIGMA:g} %, where training was "
        "*uneven*: after the point where the training of the two separated (one started from the "
        "other, or both from a common ancestor), one of "
        f"them was trained on more than {EVEN:g} times as many images, or on less than an epoch. "
        "Networks derived by weight transfer are exempt, since they are not trained. On every "
        "pixel, different kernels that were trained on coarse grids are not compared: hybrids take "
        "their differences on the grid, and lose by the change what others do not. "
        f"{UNEVEN:g} ppt is twice the largest gain of a network that was trained further; it was "
        "chosen when the accuracies of the zoo were known, and 5 ppt was considered first."
    )


# === Training ===


def images_after_split(first: dict[str, Any], second: dict[str, Any]) -> tuple[int, int] | None:
    """Images that each of two networks was trained on after their training separated.

    Of the `recipe.json` of both; None where one of them does not say.
    """
    one, two = _history(first), _history(second)
    while one and two and one[0][:2] == two[0][:2]:
        (*run, images), (*_, others) = one.pop(0), two.pop(0)
        if images is None or others is None:
            return None
        shared = min(images, others)
        if images != others:  # one of them left this run before its end
            one.insert(0, (*run, images - shared))
            two.insert(0, (*run, others - shared))
            break
    counts = [[images for *_, images in history] for history in (one, two)]
    if any(None in count for count in counts):
        return None
    return sum(counts[0]), sum(counts[1])


def _history(recipe: dict[str, Any]) -> list[tuple[str, int, int | None]]:
    """(network, seed, images) of every run that a network's weights went through, oldest first."""
    ancestors = [(a["name"], a["seed"], a.get("images")) for a in recipe.get("ancestors", ())]
    return [*ancestors[::-1], (recipe["name"], recipe["seed"], recipe.get("images_seen"))]


def _epoch(recipe: dict[str, Any]) -> float:
    """Images of one epoch; the last, incomplete batch of an epoch is left out in training."""
    return recipe["images_seen"] / sum(stage["epochs"] for stage in recipe["stages"])


def uneven_training(first: str, second: str, results: ZooResults) -> str:
    """Why the training of two networks cannot be compared, in words; empty if it can."""
    first, second = first.removesuffix(MATCHED), second.removesuffix(MATCHED)
    if _on_another_grid(first, second, results):
        return "uneven: trained on coarse grids"
    if RECIPES[first].transfer_from or RECIPES[second].transfer_from:
        return ""
    records = [results.folders[name].recipe for name in (first, second)]
    images = images_after_split(*records)
    if images is None:
        return "uneven: images not recorded"
    enough = all(count >= _epoch(record) for count, record in zip(images, records, strict=True))
    if enough and max(images) <= EVEN * min(images):
        return ""
    return f"uneven: {images[0]:,} against {images[1]:,} images after the split"


def _on_another_grid(first: str, second: str, results: ZooResults) -> bool:
    """Whether two kinds of kernels, trained on coarse grids, are compared on every pixel.

    Hybrids take differences on the grid, so that they suffer from the change, and others do not.
    """
    folders = [results.folders[name] for name in (first, second)]
    changed = (f.config.sampling_density and not f.metrics.sampling_density for f in folders)
    return folders[0].config.method != folders[1].config.method and any(changed)


# === Margins ===


def standard_error(accuracy: float, images: int) -> float:
    """Of an accuracy, both in %; after Agresti and Coull, so that 100 % has an error, too."""
    share = (accuracy / 100 * images + 2) / (images + 4)
    return 100 * math.sqrt(share * (1 - share) / (images + 4))


def run_deviation(name: str) -> float:
    family = name[: name.find("_")].rstrip("0123456789")
    return RUN_DEVIATION.get(family, max(RUN_DEVIATION.values()))


def _binomial_error(name: str, results: ZooResults, sizes: Sequence[float]) -> float:
    """Of a mean over sizes; the test images are the same at all, so that it is no smaller."""
    images = results.folders[name.removesuffix(MATCHED)].metrics.num_test_images
    curve = results.curve(name)
    return sum(standard_error(curve[size], images) for size in sizes) / len(sizes)


def error_of(name: str, results: ZooResults, sizes: Sequence[float]) -> float:
    """Standard error of a network's mean accuracy over sizes: of its run and its test images.

    A name that ends in `MATCHED` is that with matched sigmas.
    """
    return math.hypot(_binomial_error(name, results, sizes), run_deviation(name))


def margin(first: str, second: str, results: ZooResults, sizes: Sequence[float]) -> float:
    """What a difference of mean accuracies over sizes must exceed, in ppt."""
    by_chance = ERRORS * math.hypot(*(error_of(n, results, sizes) for n in (first, second)))
    return max(by_chance, _training_margin(first, second, results))


def _training_margin(first: str, second: str, results: ZooResults) -> float:
    names = [name.removesuffix(MATCHED) for name in (first, second)]
    if _on_another_grid(*names, results):
        return math.inf
    return UNEVEN if uneven_training(first, second, results) else 0.0


def drop_margin(name: str, results: ZooResults, size: float) -> float:
    """How far from a bound a loss from size factor 1 to this one must be: both are of one run."""
    errors = [_binomial_error(name, results, [at]) for at in (1.0, size)]
    return ERRORS * math.hypot(*errors, run_deviation(name))


def claim_margins(claim: Claim, results: ZooResults) -> list[float]:
    """For every value of a claim, how far from a bound it must be."""
    if claim.measure == "accuracy":  # has the tolerance of a printed number
        return [0.0] * len(claim.models) * len(claim.size_factors)
    if claim.measure == "drop":
        each = product(claim.models, claim.size_factors)
        return [drop_margin(name, results, size) for name, size in each]
    pairs = list(zip(claim.models, claim.rivals, strict=True))
    if claim.printed:  # the same
        margins = [_training_margin(*pair, results) for pair in pairs]
    elif claim.measure == "gain":
        margins = [margin(*pair, results, [size]) for pair in pairs for size in claim.size_factors]
    elif claim.measure == "mean":
        margins = [margin(*pair, results, claim.size_factors) for pair in pairs]
    else:  # a difference of ranges, of two accuracies each
        margins = [math.sqrt(2) * margin(*pair, results, claim.size_factors) for pair in pairs]
    return [sum(margins) / len(margins)] if claim.on_average else margins


def beyond(difference: float, needed: float) -> bool | None:
    """Whether a difference is positive; None if it is too small to tell."""
    return None if abs(difference) <= needed else bool(difference > 0)
