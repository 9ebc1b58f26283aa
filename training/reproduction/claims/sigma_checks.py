"""Checks of the claims about learned sigmas, read from the weights."""

from __future__ import annotations

import math
import re

import numpy as np

from gdn_keras.scale_space import derivative_kernel, spatial_spread

from ...recipes import RECIPES
from ..paper import LEARNED_SIGMA_1, RATE_TAGS, SIGMA_0_TAGS
from ..zoo_results import ZooResults
from .claim import ALIKE, Check, Claim
from .margins import ERRORS, UNEVEN_SIGMA, beyond, margin, uneven_training

LAW, LAW_FACTOR = (0.5, 1.7), 1.6
FINE = 1.0  # pixels
SAME_SPREAD = 1.25
SAME_SIGMA = 1.25
CLEAR_DROP = 0.1  # relative
RULES = {
    "roughly as 1/2 · 1.7^(k−1)": f"within a factor of {LAW_FACTOR:g}, and growing more "
    "per layer than before training; last layer not counted",
    "a fine scale": f"σ of the first layer below {FINE:g} pixel, where it starts",
    "a clear drop": f"the last sigma more than {100 * CLEAR_DROP:g} % below the one before",
    "nearly the same spread": f"largest at most {SAME_SPREAD:g} times the smallest of a data set, "
    "where several methods are trained",
    "the same sigmas": f"within a factor of {SAME_SIGMA:g} from layer 2 on",
    "a smaller first sigma": f"by more than {ERRORS} standard errors, from the deviations that the "
    "paper prints",
    "some become comparable": "for one of the two Gaussians, the mean difference to derivatives is "
    f"at most {ALIKE:g} ppt with learned sigmas, and smaller than with fixed ones",
}


def growth(claim: Claim, results: ZooResults) -> list[Check]:
    """Up to the layer before the last; initial sigmas grow, too, which must not count."""
    checks = []
    for name in claim.models:
        inner = results.sigmas[name][:-1]
        law = LAW[0] * LAW[1] ** np.arange(len(inner))
        factor = float(np.exp(np.abs(np.log(inner / law)).max()))
        ratio = float((inner[-1] / inner[0]) ** (1 / (len(inner) - 1)))
        initial = RECIPES[name].config.sigma_ratio
        text = f"`{name}`: grows {ratio:.2f}-fold per layer, {initial:g} at the start"
        checks.append(Check(text, ratio > initial))
        text = f"`{name}`: within a factor {factor:.2f} of ½·1.7^(k−1)"
        checks.append(Check(text, factor <= LAW_FACTOR))
    return checks


def last_sigma(claim: Claim, results: ZooResults) -> list[Check]:
    """Relative to the layer before, with and without a final batch norm."""
    alone, compared = [], []
    ratios = {name: float(s[-1] / s[-2]) for name in claim.models for s in [results.sigmas[name]]}
    for name, ratio in ratios.items():
        drops = beyond(1 - CLEAR_DROP / 2 - ratio, CLEAR_DROP / 2)
        windowed = results.record(name).stages[-1].config.window
        text = f"`{name}`: last layer {ratio:.2f} times the one before"
        text += " (in training, batch norm saw only what can reach the centre)" * windowed
        if "_bn_" in name:
            alone.append(Check(text, drops))
            without = ratios.get(name.replace("_bn_", "_nobn_"))
            if without is not None:
                text = f"`{name}`: {without:.2f} times without final batch norm"
                compared.append(Check(text, beyond(without - ratio, CLEAR_DROP * without)))
        elif name.startswith("cifar32"):
            alone.append(Check(text, None if drops is None else not drops))
    return _with_comparisons(alone, compared)


def _with_comparisons(alone: list[Check], compared: list[Check]) -> list[Check]:
    """All checks of a claim that compares networks; without a comparison, nothing favours it."""
    return alone + compared if compared else [c for c in alone if c.holds is False]


def _is_first_smaller(name: str, other: str, results: ZooResults) -> bool | None:
    """Whether the first sigma is smaller; None if chance or uneven training can make it so."""
    sigma, theirs = (float(results.sigmas[n][0]) for n in (name, other))
    needed = ERRORS * math.hypot(*(LEARNED_SIGMA_1[n].std for n in (name, other)))
    if uneven_training(name, other, results) is not None:
        needed = max(needed, UNEVEN_SIGMA * theirs)
    return beyond(theirs - sigma, needed)


def same_sigmas(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        other = name.replace("_sampled_", "_integrated_")
        if other != name and other in claim.models:
            ratios = results.sigmas[other] / results.sigmas[name]
            factor = float(np.exp(np.abs(np.log(ratios[1:])).max()))
            text = f"`{other}`: a factor of {factor:.2f} at most, {ratios[0]:.2f} in layer 1"
            smaller = _is_first_smaller(other, name, results)
            checks.append(Check(text, factor <= SAME_SIGMA and smaller))
    return checks


def smaller_rate(claim: Claim, results: ZooResults) -> list[Check]:
    """Whether the better of the two smaller learning rates beats the largest, per method."""
    largest, *smaller = RATE_TAGS[::-1]
    checks = []
    for name in claim.models:
        others = [name.replace(largest, tag) for tag in smaller]
        if name.endswith(largest) and {*others} <= {*claim.models}:
            accuracy = {n: results.accuracies[n][1.0] for n in (name, *others)}
            best = max(others, key=accuracy.get)
            gain = accuracy[best] - accuracy[name]
            better = beyond(gain, margin(best, name, results, [1.0], gain))
            checks.append(Check(f"`{best}`: {gain:+.2f} ppt", better))
    return checks


def comparable(claim: Claim, results: ZooResults) -> list[Check]:
    """What differences lose against derivatives: of the Gaussian that loses least, if learned."""
    found = []
    rates = [f"bn_{tag}" for tag in RATE_TAGS]
    for method in ("sampled", "integrated"):
        lost, needed = {}, []
        for infix, tags in (("", SIGMA_0_TAGS), ("learned_", rates)):
            start = f"cifar32_{infix}{method}"
            pairs = [(f"{start}_derivative_{tag}", f"{start}_{tag}") for tag in tags]
            pairs = [pair for pair in pairs if {*pair} <= {*claim.models}]
            at_one = [[results.accuracies[name][1.0] for name in pair] for pair in pairs]
            lost[infix] = [theirs - ours for theirs, ours in at_one]
            needed += [
                margin(*pair, results, [1.0], difference)
                for pair, difference in zip(pairs, lost[infix], strict=True)
            ]
        if all(lost.values()):
            fixed, learned = (float(np.mean(values)) for values in lost.values())
            text = f"{method}: {learned:.2f} ppt behind derivatives, {fixed:.2f} with fixed sigmas"
            closer = beyond(fixed - learned, math.sqrt(2) * float(np.mean(needed)))
            found.append((learned, Check(text, closer if learned <= ALIKE else False)))
    return [min(found)[1]] if found else []


def first_sigmas(claim: Claim, results: ZooResults) -> list[Check]:
    """First sigmas: fine; CIFAR < Fashion, integrated < sampled, Gaussians < derivatives."""
    swaps = (
        ("^cifar32", "fashion28"),
        ("_integrated", "_sampled"),
        ("_(sampled|integrated)_(bn|nobn)", r"_\1_derivative_\2"),
    )
    alone, compared = [], []
    for name in claim.models:
        sigma = float(results.sigmas[name][0])
        alone.append(Check(f"`{name}`: σ {sigma:.3f} < {FINE:g}", sigma < FINE))
        for smaller, larger in swaps:
            other = re.sub(smaller, larger, name)
            if other != name and other in claim.models:
                theirs = float(results.sigmas[other][0])
                text = f"`{name}` {sigma:.3f} < `{other}` {theirs:.3f}"
                compared.append(Check(text, _is_first_smaller(name, other, results)))
    return _with_comparisons(alone, compared)


def first_layer_spread(name: str, sigma: float) -> tuple[float, float]:
    """Spatial spread of the derivatives of order 1 and 2 at the first layer's sigma."""
    method = RECIPES[name].config.method
    kernels = [derivative_kernel(sigma, order, method=method, radius=12) for order in (1, 2)]
    return spatial_spread(kernels[0]), spatial_spread(kernels[1])


def spread(claim: Claim, results: ZooResults) -> list[Check]:
    """That spreads have lower bounds is a law of the kernels, and not checked here."""
    checks = []
    families: dict[str, dict[str, tuple[float, float]]] = {}
    for name in claim.models:
        values = first_layer_spread(name, float(results.sigmas[name][0]))
        families.setdefault(name.partition("_")[0], {})[name] = values
    for family, spreads in families.items():
        if len({RECIPES[name].config.method for name in spreads}) < 2:  # nothing to compare with
            continue
        for order, values in enumerate(zip(*spreads.values(), strict=True), start=1):
            ratio = max(values) / min(values)
            text = f"{family}, order {order}: largest {ratio:.2f} times smallest"
            checks.append(Check(text, ratio <= SAME_SPREAD))
    return checks
