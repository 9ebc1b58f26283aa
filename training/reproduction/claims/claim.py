"""A claim of the paper about its networks, as data; `statements.py` has all of them.

A claim that accuracies can settle has a `measure`, which `claim_values` computes:

| measure    | one value per         | value                                                  |
|------------|-----------------------|--------------------------------------------------------|
| `accuracy` | model and size factor | accuracy in %                                          |
| `drop`     | model and size factor | accuracy at size factor 1 minus that at this one       |
| `gain`     | pair and size factor  | accuracy of the model minus that of its rival          |
| `mean`     | pair                  | the same, averaged over the size factors               |
| `flatter`  | pair                  | rival's range over the size factors minus the model's  |

The claim says that the values lie above `low` and not above `high`. The paper's words have the
bounds of `WORDS`, which are our reading. Claims without bounds say "alike". Claims about
histograms, sigmas or significance name a `check` of `checks.py` instead, and which `parts` of
it they say; those that nothing in the zoo can decide say why (`unavailable`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from gdn_keras.datasets import SIZE_FACTORS
from gdn_keras.datasets.stir import STIR_SIZES

SMALLER = tuple(factor for factor in SIZE_FACTORS if factor < 1)
LARGER = tuple(factor for factor in SIZE_FACTORS if factor > 1)
REGULAR = (1.0,)  # the only size of the regular test sets
OBJECT_SIZES = STIR_SIZES.values  # in pixels

ALIKE = 2.0  # ppt
MUCH = 5.0  # ppt
WORDS = {
    "better, flatter, helps": "by more than 0 ppt",
    "slightly, somewhat, marginally, a little": f"by more than 0 and at most {MUCH:g} ppt",
    "much": f"by more than {MUCH:g} ppt",
    "alike, similar, as good, nearly": f"within {ALIKE:g} ppt",
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    section: str
    text: str
    models: tuple[str, ...]
    rivals: tuple[str, ...] = ()  # one per model, for `gain` and `flatter`
    measure: str | None = None
    size_factors: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    on_average: bool = False  # about the mean of the values, not about each
    loose: bool = False  # "generally", "mostly", "often": need not hold for all
    printed: str | None = None  # the number as the paper prints it
    check: str | None = None  # a key of `checks.CHECKS`, for claims without a measure
    parts: tuple[str, ...] = ()  # of that check, those the claim speaks of
    unavailable: str | None = None  # why nothing in the zoo can decide it


class Check(NamedTuple):
    """One thing that a claim says, and whether it holds."""

    text: str
    holds: bool | None  # None: the difference is too small to tell


def claim_values(
    claim: Claim, accuracies: Mapping[str, Mapping[float, float]]
) -> list[float] | None:
    """The values `claim` is about, given `{model: {size factor: accuracy in %}}`.

    None where the claim has no measure or `accuracies` does not have what it needs.
    """

    def at(name: str, factor: float) -> float:
        return accuracies[name][factor]

    def extent(name: str) -> float:
        values = [at(name, factor) for factor in claim.size_factors]
        return max(values) - min(values)

    each = product(claim.models, claim.size_factors)
    pairs = zip(claim.models, claim.rivals, strict=bool(claim.rivals))
    try:
        match claim.measure:
            case "accuracy":
                values = [at(model, factor) for model, factor in each]
            case "drop":
                values = [at(model, 1.0) - at(model, factor) for model, factor in each]
            case "gain":
                against = product(pairs, claim.size_factors)
                values = [at(model, size) - at(rival, size) for (model, rival), size in against]
            case "mean":
                values = [
                    sum(at(model, size) - at(rival, size) for size in claim.size_factors)
                    / len(claim.size_factors)
                    for model, rival in pairs
                ]
            case "flatter":
                values = [extent(rival) - extent(model) for model, rival in pairs]
            case _:
                return None
    except KeyError:
        return None
    return [sum(values) / len(values)] if claim.on_average else values
