"""Checks of the claims about learned sigmas, read from the weights."""

from __future__ import annotations

import re

import numpy as np

from gdn_keras.scale_space import derivative_kernel, spatial_spread

from ...recipes import RECIPES
from ..paper import RATE_TAGS
from ..zoo_results import ZooResults
from .claim import Check, Claim
from .margins import beyond, margin

LAW, LAW_FACTOR = (0.5, 1.7), 1.6
FINE = 1.0  # pixels
SAME_SPREAD = 1.25
SAME_SIGMA = 1.25
RULES = {
    "roughly as 1/2 · 1.7^(k−1)": f"within a factor of {LAW_FACTOR:g}, last layer not counted",
    "a fine scale": f"σ of the first layer below {FINE:g} pixel, where it starts",
    "nearly the same spread": f"largest at most {SAME_SPREAD:g} times the smallest of a data set, "
    "where several networks are trained",
    "the same sigmas": f"within a factor of {SAME_SIGMA:g} from layer 2 on",
}


def growth(claim: Claim, results: ZooResults) -> list[Check]:
    checks, drops = [], {}
    for name in claim.models:
        sigma = results.sigmas[name]
        inner, last = sigma[:-1], sigma[-1]
        law = LAW[0] * LAW[1] ** np.arange(len(inner))
        factor = float(np.exp(np.abs(np.log(inner / law)).max()))
        drops[name] = float(last / inner[-1])
        checks.append(Check(f"`{name}`: grows up to layer 5", bool((np.diff(inner) > 0).all())))
        text = f"`{name}`: within a factor {factor:.2f} of ½·1.7^(k−1)"
        checks.append(Check(text, factor <= LAW_FACTOR))
        if not name.startswith("cifar32") or "_nobn_" not in name:
            text = f"`{name}`: last layer {drops[name]:.2f} times the one before"
            checks.append(Check(text, drops[name] < 1))
    for name in drops:
        rival = name.replace("_bn_", "_nobn_")
        if rival != name and rival in drops:
            text = f"`{name}`: stronger drop than without final batch norm"
            checks.append(Check(text, drops[name] < drops[rival]))
    return checks


def no_drop(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        ratio = results.sigmas[name][-1] / results.sigmas[name][-2]
        text = f"`{name}`: last layer {ratio:.2f} times the one before"
        checks.append(Check(text, bool(ratio >= 1)))
    return checks


def same_sigmas(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        other = name.replace("_sampled_", "_integrated_")
        if other != name and other in claim.models:
            ratios = results.sigmas[other] / results.sigmas[name]
            factor = float(np.exp(np.abs(np.log(ratios[1:])).max()))
            text = f"`{other}`: a factor of {factor:.2f} at most, {ratios[0]:.2f} in layer 1"
            checks.append(Check(text, factor <= SAME_SIGMA and bool(ratios[0] < 1)))
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
            better = beyond(gain, margin(best, name, results, [1.0]))
            checks.append(Check(f"`{best}`: {gain:+.2f} ppt", better))
    return checks


def first_sigmas(claim: Claim, results: ZooResults) -> list[Check]:
    """First sigmas: fine; CIFAR < Fashion, integrated < sampled, Gaussians < derivatives."""
    swaps = (
        ("^cifar32", "fashion28"),
        ("_integrated", "_sampled"),
        ("_(sampled|integrated)_(bn|nobn)", r"_\1_derivative_\2"),
    )
    checks = []
    for name in claim.models:
        sigma = float(results.sigmas[name][0])
        checks.append(Check(f"`{name}`: σ {sigma:.3f} < {FINE:g}", sigma < FINE))
        for smaller, larger in swaps:
            other = re.sub(smaller, larger, name)
            if other != name and other in claim.models:
                theirs = float(results.sigmas[other][0])
                text = f"`{name}` {sigma:.3f} < `{other}` {theirs:.3f}"
                checks.append(Check(text, sigma < theirs))
    return checks


def first_layer_spread(name: str, sigma: float) -> tuple[float, float]:
    """Spatial spread of the derivatives of order 1 and 2 at the first layer's sigma."""
    method = RECIPES[name].config.method
    kernels = [derivative_kernel(sigma, order, method=method, radius=12) for order in (1, 2)]
    return spatial_spread(kernels[0]), spatial_spread(kernels[1])


def spread(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    families: dict[str, list[tuple[float, float]]] = {}
    for name in claim.models:
        first, second = first_layer_spread(name, float(results.sigmas[name][0]))
        families.setdefault(name.partition("_")[0], []).append((first, second))
        checks.append(Check(f"`{name}`: order 1 {first:.2f} > 1", first >= 1))
        if "_sampled_derivative_" not in name:
            checks.append(Check(f"`{name}`: order 2 {second:.2f} > 0.71", second > 2**-0.5))
    for family, spreads in families.items():
        if len(spreads) < 2:  # nothing to compare with
            continue
        for order, values in enumerate(zip(*spreads, strict=True), start=1):
            ratio = max(values) / min(values)
            text = f"{family}, order {order}: largest {ratio:.2f} times smallest"
            checks.append(Check(text, ratio <= SAME_SPREAD))
    return checks
