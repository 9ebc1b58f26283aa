"""Checks of the claims that are about histograms, other networks, sigmas or significance.

Each takes a claim about networks that are all there, and says what of it holds. "Linear", "roughly"
and "nearly" are our readings, written where they are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gdn_keras.scale_space import derivative_kernel, spatial_spread
from training.baselines import stir_baseline
from training.claims import Claim
from training.paper import POOLED_FIXED, POOLED_LEARNED, PooledStatistics
from training.recipes import RECIPES
from training.results import Results
from training.statistics import SIGNIFICANCE, anova, friedman, pooled_hedges_g

_RIVALS = ("SESN", "DISCO", "PixelPool")


class Check(NamedTuple):
    """One thing that a claim says."""

    text: str
    holds: bool


class Trend(NamedTuple):
    slope: float  # octaves of sigma per octave of size; 1 for a covariant network
    correlation: float
    width: float  # mean standard deviation of log2 sigma at one size


def selection_trend(shares: np.ndarray, *, sizes: list[float], sigmas: tuple[float, ...]) -> Trend:
    """How the scale that is selected follows the size of the test images."""
    x, y = np.log2(sizes), np.log2(sigmas)
    mean = shares @ y
    width = np.sqrt(np.maximum(shares @ y**2 - mean**2, 0)).mean()
    slope = np.polyfit(x, mean, 1)[0]
    correlation = np.corrcoef(x, mean)[0, 1] if np.ptp(mean) > 0 else 0.0
    return Trend(float(slope), float(correlation), float(width))


def _selection_checks(claim: Claim, results: Results) -> list[Check]:
    checks, widths = [], {}
    for name in claim.models:
        shares = results.histogram(name)
        if shares is None:
            continue
        sigmas = results.folders[name].config.channel_sigmas
        trend = selection_trend(shares, sizes=list(results.accuracies[name]), sigmas=sigmas)
        widths[name] = trend.width
        linear = trend.correlation >= 0.95 and trend.slope >= 0.5
        text = f"`{name}`: slope {trend.slope:.2f} (1 is proportional), r {trend.correlation:.2f}"
        checks.append(Check(text, linear))
        if "avoided" in claim.text:
            fine = np.array(sigmas) <= 2**-1.5 + 1e-9
            share = float(shares[:, fine].sum(axis=1).mean())
            text = f"`{name}`: finest channels are chosen for {100 * share:.0f} %"
            checks.append(Check(text, share < 0.5 * fine.mean()))
        if "wrong classifications" in claim.text:
            wrong = results.histogram(name, "wrong")
            _, channel = np.unravel_index(wrong.argmax(), wrong.shape)
            text = f"`{name}`: most wrong answers at σ₀ = {sigmas[channel]:.3g}"
            checks.append(Check(text, channel < len(sigmas) / 2))
    for name in widths:
        rival = name.replace("_max_", "_avg_")
        if rival != name and rival in widths and "sharply" in claim.text:
            text = f"spread {widths[name]:.2f} octaves with max, {widths[rival]:.2f} with average"
            checks.append(Check(text, widths[name] < widths[rival]))
    return checks


def _matched_checks(claim: Claim, results: Results) -> list[Check]:
    """Quite well: nowhere more than 15 ppt below size factor 1, and better than unmatched."""
    checks = []
    for name in claim.models:
        matched = results.matched.get(name)
        if matched is None:
            continue
        loss = matched[1.0] - min(matched.values())
        gain = np.mean(list(matched.values())) - np.mean(list(results.accuracies[name].values()))
        checks.append(Check(f"`{name}`: loses {loss:.1f} ppt at most", loss <= 15))
        checks.append(Check(f"`{name}`: mean {gain:+.1f} ppt by matching", bool(gain > 0)))
    return checks


def _transfer_checks(claim: Claim, results: Results) -> list[Check]:
    """Transferred networks against the single-scale-channel network they come from, matched."""
    checks = []
    for name in claim.models:
        matched = results.matched.get(RECIPES[name].transfer_from)
        if matched is None:
            continue
        curve = results.accuracies[name]
        if "at size factor 1/2" in claim.text:
            gain = curve[0.5] - matched[0.5]
            checks.append(Check(f"`{name}`: {gain:+.1f} ppt at ½", bool(gain > 0)))
        else:
            gain = np.mean(list(curve.values())) - np.mean(list(matched.values()))
            checks.append(Check(f"`{name}`: mean {gain:+.1f} ppt", bool(gain < 0)))
    return checks


def _stir_checks(claim: Claim, results: Results) -> list[Check]:
    """Better than others on the mean over all sizes; almost flat: within 10 ppt."""
    checks = []
    for name in claim.models:
        recipe, curve = RECIPES[name], results.accuracies[name]
        ours = np.mean(list(curve.values()))
        for rival in _RIVALS:
            known = stir_baseline(rival, dataset=recipe.dataset, train_sizes=recipe.train_sizes)
            theirs = known.mean[np.isin(known.sizes, list(curve))].mean()
            text = f"`{name}` {ours:.1f} %, {rival} {theirs:.1f} %"
            checks.append(Check(text, bool(ours > theirs)))
        extent = max(curve.values()) - min(curve.values())
        if "almost flat" in claim.text:
            checks.append(Check(f"`{name}`: range {extent:.1f} ppt", extent <= 10))
    return checks


def _stir_dropout_checks(claim: Claim, results: Results) -> list[Check]:
    checks = []
    for name in claim.models:
        other = name.replace("_nodrop", "_drop")
        if other == name or other not in results.folders:
            continue
        without, with_ = (np.array(list(results.accuracies[n].values())) for n in (name, other))
        gain, flatter = with_.mean() - without.mean(), np.ptp(without) - np.ptp(with_)
        checks.append(Check(f"`{other}`: mean {gain:+.1f} ppt", bool(gain > 0)))
        checks.append(Check(f"`{other}`: range {-flatter:+.1f} ppt", bool(flatter > 0)))
    return checks


def _growth_checks(claim: Claim, results: Results) -> list[Check]:
    checks, drops = [], {}
    for name in claim.models:
        sigma = results.sigmas[name]
        inner, last = sigma[:-1], sigma[-1]
        law = 0.5 * 1.7 ** np.arange(len(inner))
        factor = float(np.exp(np.abs(np.log(inner / law)).max()))
        drops[name] = float(last / inner[-1])
        checks.append(Check(f"`{name}`: grows up to layer 5", bool((np.diff(inner) > 0).all())))
        checks.append(Check(f"`{name}`: within a factor {factor:.2f} of ½·1.7^(k−1)", factor < 1.6))
        if not name.startswith("cifar32") or "_nobn_" not in name:
            text = f"`{name}`: last layer {drops[name]:.2f} times the one before"
            checks.append(Check(text, drops[name] < 1))
    for name in drops:
        rival = name.replace("_bn_", "_nobn_")
        if rival != name and rival in drops:
            text = f"`{name}`: stronger drop than without final batch norm"
            checks.append(Check(text, drops[name] < drops[rival]))
    return checks


def _no_drop_checks(claim: Claim, results: Results) -> list[Check]:
    checks = []
    for name in claim.models:
        ratio = results.sigmas[name][-1] / results.sigmas[name][-2]
        text = f"`{name}`: last layer {ratio:.2f} times the one before"
        checks.append(Check(text, bool(ratio >= 1)))
    return checks


def _order_checks(claim: Claim, results: Results) -> list[Check]:
    """First sigmas: CIFAR < Fashion, integrated < sampled, Gaussians < derivatives."""
    swaps = (
        ("^cifar32", "fashion28"),
        ("_integrated", "_sampled"),
        ("_(sampled|integrated)_(bn|nobn)", r"_\1_derivative_\2"),
    )
    checks = []
    for name in claim.models:
        for smaller, larger in swaps:
            other = re.sub(smaller, larger, name)
            if other != name and other in claim.models:
                a, b = (float(results.sigmas[n][0]) for n in (name, other))
                checks.append(Check(f"`{name}` {a:.3f} < `{other}` {b:.3f}", a < b))
    return checks


def first_layer_spread(name: str, sigma: float) -> tuple[float, float]:
    """Spatial spread of the derivatives of order 1 and 2 at the first layer's sigma."""
    method = RECIPES[name].config.method
    kernels = [derivative_kernel(sigma, order, method=method, radius=12) for order in (1, 2)]
    return spatial_spread(kernels[0]), spatial_spread(kernels[1])


def _spread_checks(claim: Claim, results: Results) -> list[Check]:
    """Nearly the same: the largest of a data set is at most 1.25 times the smallest."""
    checks = []
    families: dict[str, list[tuple[float, float]]] = {}
    for name in claim.models:
        first, second = first_layer_spread(name, float(results.sigmas[name][0]))
        families.setdefault(name.partition("_")[0], []).append((first, second))
        checks.append(Check(f"`{name}`: order 1 {first:.2f} > 1", first >= 1))
        if "_sampled_derivative_" not in name:
            checks.append(Check(f"`{name}`: order 2 {second:.2f} > 0.71", second > 2**-0.5))
    for family, spreads in families.items():
        for order, values in enumerate(zip(*spreads, strict=True), start=1):
            ratio = max(values) / min(values)
            text = f"{family}, order {order}: largest {ratio:.2f} times smallest"
            checks.append(Check(text, ratio < 1.25))
    return checks


class Pooled(NamedTuple):
    g: float
    friedman_p: float
    anova_p: float

    @property
    def significant(self) -> bool:
        return max(self.friedman_p, self.anova_p) < SIGNIFICANCE


def pooled_comparison(
    table: PooledStatistics, results: Results
) -> dict[tuple[str, str], Pooled] | None:
    """Tables 16 and 18 from one run of every network; None unless all of them are there."""
    methods = list(dict.fromkeys(method for pair in table.rows for method in pair))
    names = [[table.networks.format(method=m, setting=s) for m in methods] for s in table.settings]
    if any(name not in results.folders for row in names for name in row):
        return None
    runs = np.array([[results.accuracies[name][1.0] for name in row] for row in names])
    ranks, variance = friedman(runs).pairwise_p, anova(runs).pairwise_p
    place = {method: n for n, method in enumerate(methods)}
    return {
        (a, b): Pooled(
            pooled_hedges_g(runs[:, place[a]], runs[:, place[b]]),
            float(ranks[place[a], place[b]]),
            float(variance[place[a], place[b]]),
        )
        for a, b in table.rows
    }


def _significance_checks(claim: Claim, results: Results) -> list[Check]:
    table = POOLED_LEARNED if "learned" in claim.text else POOLED_FIXED
    compared = pooled_comparison(table, results)
    if compared is None:
        return []
    checks = []
    for pair, printed in table.rows.items():
        g, p, q = compared[pair]
        expected = max(printed[1:]) < SIGNIFICANCE
        text = f"{' − '.join(pair)}: g {g:+.2f}, p {max(p, q):.3f}"
        if "no general" in claim.text:
            if pair == ("discrete", "sampled_derivative"):
                checks.append(Check(text, max(p, q) >= SIGNIFICANCE))
        elif expected:
            checks.append(Check(text, compared[pair].significant))
            checks.append(Check(f"{' − '.join(pair)}: same sign", g * printed[0] > 0))
    return checks


# words of a claim without a measure -> how it is checked
CHECKS: dict[str, Callable[[Claim, Results], list[Check]]] = {
    "The selected scale channel grows linearly": _selection_checks,
    "multiplied by the size factor": _matched_checks,
    "with matched sigmas": _transfer_checks,
    "curves are almost flat and better": _stir_checks,
    "curves are better than those": _stir_checks,
    "Scale-channel dropout raises the accuracy": _stir_dropout_checks,
    "Learned sigmas grow with the layer": _growth_checks,
    "sigma does not drop in the last layer": _no_drop_checks,
    "The first layer learns a fine scale": _order_checks,
    "The spread of the kernels": _spread_checks,
    "significant": _significance_checks,
}
