"""How large a difference of accuracies must be before it says something about the networks.

Everything comes from the records of the zoo's folders: which network started from which, how many
images each was trained on after their training separated, and how many test images there were.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import accumulate, product
from typing import Any, NamedTuple

from ...recipes import RECIPES
from ..paper import ACCURACY
from ..zoo_results import MATCHED, ZooResults
from .claim import LARGER, SMALLER, Claim, claim_values

ERRORS = 2  # standard errors that a difference must exceed
EVEN = 1.5  # times as many images, at most, between networks trained for comparable lengths
# ppt; a little more than training again has changed so far: 4.5 at size factor 1
# (`cifar_max_2jet`), 8.1 elsewhere (`fashion_single_2jet` at √2)
UNEVEN, UNEVEN_AWAY = 5.0, 9.0
BEHIND = 3  # times that, if the network that was trained less is the worse one
UNEVEN_SIGMA = 0.1  # relative
AWAY = SMALLER + LARGER  # size factors at which no network was trained


def _deviation(family: str) -> float:
    """Standard deviation over runs in ppt, root mean square of what the paper prints."""
    printed = [v.std for name, v in ACCURACY.items() if name.startswith(family) and v.std]
    return math.sqrt(sum(std**2 for std in printed) / len(printed))


RUN_DEVIATION = {"fashion": _deviation("fashion28"), "cifar": _deviation("cifar32")}
# ppt; of 90.74, 90.09 and 87.79 %, three runs of `fashion_avg_2jet` at size factor 2, which also
# differ in how they were trained
AWAY_DEVIATION = 1.6


def rule() -> str:
    """The rule in Markdown, from the constants that are used."""
    spread = " and ".join(
        f"{std:.2f} ppt on {title}"
        for std, title in zip(RUN_DEVIATION.values(), ("Fashion-MNIST", "CIFAR-10"), strict=True)
    )
    return (
        "*Inconclusive*: for more than half of the values, the distance to what the claim says is "
        "smaller than what chance or training can make, on either side. Accuracies that the paper "
        "prints have the tolerances of the table above, and are never inconclusive; differences "
        "inside a range that its text prints hold, whatever the margin.\n\n"
        f"- *Chance*: the zoo has one run of each network, so a difference must exceed {ERRORS} "
        "standard errors: the binomial errors of both accuracies (as if on different test images, "
        f"which overstates it) and the deviation between runs. The paper prints {spread} "
        "(elsewhere, the larger is used), for regular data. Away from size factor 1 and without "
        f"matched sigmas, it is {AWAY_DEVIATION:g} ppt: that of three runs of our "
        "`fashion_avg_2jet` at size factor 2, which also differ in how they were trained.\n"
        "- *Uneven training*: one of two networks was trained on more than "
        f"{EVEN:g} times as many images as the other, or one of them on less than an epoch, not "
        "counting what they share (one started from the other, or both from a common ancestor, in "
        "a state that the records show to be the same). If the network that was trained less is "
        "the better one, or neither was trained less, the distance must exceed "
        f"{UNEVEN:g} ppt at size factor 1 and on regular and STIR data, and {UNEVEN_AWAY:g} ppt at "
        f"other size factors; if it is the worse one, {BEHIND} times as much; between sigmas, "
        f"{100 * UNEVEN_SIGMA:g} % either way. Training networks of this zoo again, for longer, "
        "has changed accuracies by up to 4.5 ppt at size factor 1 and 8.1 ppt elsewhere; these "
        f"limits, and the {EVEN:g} and {BEHIND} times, were chosen when the accuracies of the zoo "
        "were known. "
        "Networks derived by weight transfer are exempt, since they are not trained.\n"
        "- *Grids*: on every pixel, different kernels that were trained on coarse grids are not "
        "compared: hybrids, whose derivatives are differences after smoothing, take these on the "
        "grid, and lose by the change what others do not."
    )


# === Training ===


def images_after_split(first: dict[str, Any], second: dict[str, Any]) -> tuple[int, int] | None:
    """Images that each of two networks was trained on after their training separated.

    Of the `recipe.json` of both; None where one of them does not say.
    """
    one, two = _history(first), _history(second)
    while one and two and (one[0].name, one[0].seed) == (two[0].name, two[0].seed):
        if one[0].images is None or two[0].images is None:
            return None
        shorter, longer = sorted((one[0], two[0]), key=lambda run: run.images)
        if shorter.images == longer.images:
            del one[0], two[0]
            continue
        if longer.passed(shorter.images):  # one of them left this run before its end
            one[0], two[0] = (
                r._replace(images=r.images - shorter.images) for r in (one[0], two[0])
            )
        break  # or the network was trained again since
    counts = [[run.images for run in history] for history in (one, two)]
    if any(None in count for count in counts):
        return None
    return sum(counts[0]), sum(counts[1])


class _Run(NamedTuple):
    """A run that a network's weights went through."""

    name: str
    seed: int
    images: int | None
    epochs: tuple[float, ...] = ()  # of its stages, where they are known

    def passed(self, images: int) -> bool:
        """Whether a stage ended after that many images, give or take incomplete batches."""
        epoch = self.images / sum(self.epochs) if self.epochs else math.inf
        return any(abs(n * epoch - images) < 0.01 * epoch for n in accumulate(self.epochs))


def _history(recipe: dict[str, Any]) -> list[_Run]:
    """The oldest run first; only of the last one the stages are known."""
    ancestors = [_Run(a["name"], a["seed"], a.get("images")) for a in recipe.get("ancestors", ())]
    epochs = tuple(stage["epochs"] for stage in recipe.get("stages", ()))
    return [
        *ancestors[::-1],
        _Run(recipe["name"], recipe["seed"], recipe.get("images_seen"), epochs),
    ]


def _epoch(recipe: dict[str, Any]) -> float:
    """Images of one epoch; the last, incomplete batch of an epoch is left out in training."""
    return recipe["images_seen"] / sum(stage["epochs"] for stage in recipe["stages"])


class Uneven(NamedTuple):
    """Why a difference between two networks may be one between their trainings."""

    words: str
    # signs of a difference, first minus second, that length of training does not explain; ():
    # no difference says anything
    telling: tuple[int, ...]


def uneven_training(first: str, second: str, results: ZooResults) -> Uneven | None:
    """None where the training of two networks can be compared."""
    first, second = first.removesuffix(MATCHED), second.removesuffix(MATCHED)
    if _on_another_grid(first, second, results):
        return Uneven("not compared (trained on coarse grids)", ())
    if first == second or RECIPES[first].transfer_from or RECIPES[second].transfer_from:
        return None
    records = [results.folders[name].recipe for name in (first, second)]
    images = images_after_split(*records)
    if images is None:
        return Uneven("trained unevenly: images not recorded", ())
    enough = [
        min(count, record["images_seen"]) >= _epoch(record)
        for count, record in zip(images, records, strict=True)
    ]
    if all(enough) and max(images) <= EVEN * min(images):
        return None
    words = f"{images[0]:,} against {images[1]:,} images of their own"
    if 0 in images:
        words = f"one started from the other and saw {max(images):,} images more"
    one, two = zip(enough, images, strict=True)
    telling = (1,) if one < two else (-1,) if two < one else (1, -1)
    return Uneven(f"trained unevenly: {words}", telling)


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


def run_deviation(name: str, sizes: Sequence[float]) -> float:
    """Of a mean over sizes, at worst: as if a run that is better at one were so at all.

    With matched sigmas, every size is the one that the network was trained on.
    """
    family = name[: name.find("_")].rstrip("0123456789")
    trained = RUN_DEVIATION.get(family, max(RUN_DEVIATION.values()))
    if name.endswith(MATCHED):
        return trained
    return sum(AWAY_DEVIATION if size in AWAY else trained for size in sizes) / len(sizes)


def _binomial_error(name: str, results: ZooResults, sizes: Sequence[float]) -> float:
    """Of a mean over sizes; the test images are the same at all, so that it is no smaller."""
    images = results.folders[name.removesuffix(MATCHED)].metrics.num_test_images
    curve = results.curve(name)
    return sum(standard_error(curve[size], images) for size in sizes) / len(sizes)


def error_of(name: str, results: ZooResults, sizes: Sequence[float]) -> float:
    """Standard error of a network's mean accuracy over sizes: of its run and its test images.

    A name that ends in `MATCHED` is that with matched sigmas.
    """
    return math.hypot(_binomial_error(name, results, sizes), run_deviation(name, sizes))


def margin(
    first: str, second: str, results: ZooResults, sizes: Sequence[float], difference: float
) -> float:
    """What a difference of mean accuracies over sizes, first minus second, must exceed, in ppt."""
    by_chance = ERRORS * math.hypot(*(error_of(n, results, sizes) for n in (first, second)))
    return max(by_chance, _training_margin(first, second, results, sizes, difference))


def _training_margin(
    first: str, second: str, results: ZooResults, sizes: Sequence[float], difference: float
) -> float:
    uneven = uneven_training(first, second, results)
    if uneven is None:
        return 0.0
    if not uneven.telling:
        return math.inf
    limit = sum(UNEVEN_AWAY if size in AWAY else UNEVEN for size in sizes) / len(sizes)
    sign = (difference > 0) - (difference < 0)
    return limit if sign in uneven.telling else BEHIND * limit


def drop_margin(name: str, results: ZooResults, size: float) -> float:
    """How far from a bound a loss from size factor 1 to this one must be: both are of one run."""
    errors = [_binomial_error(name, results, [at]) for at in (1.0, size)]
    return ERRORS * math.hypot(*errors, run_deviation(name, [size]))


def claim_margins(claim: Claim, results: ZooResults) -> list[float]:
    """For every value of a claim, how far from a bound it must be."""
    if claim.measure == "accuracy":  # has the tolerance of a printed number
        return [0.0] * len(claim.models) * len(claim.size_factors)
    if claim.measure == "drop":
        each = product(claim.models, claim.size_factors)
        return [drop_margin(name, results, size) for name, size in each]
    # a printed number has the tolerance for chance already
    needed = _training_margin if claim.printed else margin
    pairs = zip(claim.models, claim.rivals, strict=True)
    sizes = [[s] for s in claim.size_factors] if claim.measure == "gain" else [claim.size_factors]
    values = claim_values(dataclasses.replace(claim, on_average=False), results.accuracies)
    margins = [
        needed(*pair, results, at, value)
        for (pair, at), value in zip(product(pairs, sizes), values, strict=True)
    ]
    if claim.measure == "flatter":  # a difference of ranges, of two accuracies each
        margins = [math.sqrt(2) * needed for needed in margins]
    return [sum(margins) / len(margins)] if claim.on_average else margins


def beyond(difference: float, needed: float) -> bool | None:
    """Whether a difference is positive; None if it is too small to tell."""
    return None if abs(difference) <= needed else bool(difference > 0)
