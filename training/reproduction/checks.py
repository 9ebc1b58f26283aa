"""Checks of the claims that are about histograms, other networks, sigmas or significance.

Each takes a claim about networks that are fully measured, and returns which parts of it hold.
`RULES` defines how words like "linear" are read, and the report prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from gdn_keras.datasets.stir import STIR_SIZES
from gdn_keras.scale_space import derivative_kernel, spatial_spread
from training.recipes import RECIPES
from training.reproduction.baselines import stir_baseline
from training.reproduction.claims import MUCH, OBJECT_SIZES, Claim
from training.reproduction.paper import POOLED_FIXED, POOLED_LEARNED
from training.reproduction.statistics import SIGNIFICANCE, pooled_statistics
from training.reproduction.zoo_results import SEVERAL, ZooResults

SLOPES, LINEAR = (0.5, 1.5), 0.8
PEAK, STRONG = 1.05, 0.5
AVOIDED, TOO_FINE = 0.5, 2**-1.5 + 1e-9  # pixels, the paper's bound
QUITE_WELL = 15.0  # ppt
ALMOST_FLAT = 10.0  # ppt
LAW, LAW_FACTOR = (0.5, 1.7), 1.6
FINE = 1.0  # pixels
SAME_SPREAD = 1.25
RULES = {
    "dominant scale channel": "the one with the largest share of the images that it decides (max "
    "pooling) or of the output that it contributes (average pooling)",
    "proportional, a linear trend": "log σ₀ of it against that of the size has a fitted slope of "
    f"{SLOPES[0]:g} to {SLOPES[1]:g} (1 is proportional) and a correlation of at least {LINEAR:g}; "
    "where fine channels are avoided, over the sizes that do not ask for them",
    "sharper": "the shares of the scale channels spread over fewer octaves, mean over the sizes",
    "strong peak": "in the histogram over sizes and scale channels a cell that is at least "
    f"{100 * (PEAK - 1):.0f} % larger than each cell around it and at least {STRONG:g} times the "
    "largest; cells are shares of all images of a size, so those of the correct and of the wrong "
    "ones are weighted by how many these are; finest and coarsest: the halves of the scale "
    "channels",
    "avoided": f"chosen less than {AVOIDED:g} times as often as if all channels were equal",
    "performs quite well": f"loses at most {QUITE_WELL:g} ppt to size factor 1, and is on the mean "
    "better than unmatched",
    "almost flat": f"a range of at most {ALMOST_FLAT:g} ppt; better than others: on the mean over "
    "all sizes; most of all for small objects: networks trained on larger ones have a larger lead "
    "over the others' mean at 17 to 32 pixels than above, and dropout gains more below the sizes "
    "trained on than at the others",
    "roughly as 1/2 · 1.7^(k−1)": f"within a factor of {LAW_FACTOR:g}, last layer not counted",
    "a fine scale": f"σ of the first layer below {FINE:g} pixel, where it starts",
    "nearly the same spread": f"largest at most {SAME_SPREAD:g} times the smallest of a data set",
    "significant": f"both p below {SIGNIFICANCE:g}, from at least {SEVERAL} runs per setting",
}


class Check(NamedTuple):
    """One part of a claim."""

    text: str
    holds: bool


# === Scale selection ===


class Trend(NamedTuple):
    slope: float  # octaves of the dominant channel's sigma per octave of size
    correlation: float
    mean_slope: float  # the same of the mean over all channels, as the dots in the figures
    width: float  # mean standard deviation of log2 sigma at one size


def selection_trend(
    shares: np.ndarray, *, sizes: Sequence[float], sigmas: Sequence[float]
) -> Trend:
    """How the scale channels follow the size of the test images.

    The mean follows it less than the dominant channel where all contribute (average pooling).
    """
    x, y = np.log2(sizes), np.log2(sigmas)
    mean, dominant = shares @ y, y[shares.argmax(axis=1)]
    width = np.sqrt(np.maximum(shares @ y**2 - mean**2, 0)).mean()
    slope, mean_slope = (np.polyfit(x, values, 1)[0] for values in (dominant, mean))
    correlation = np.corrcoef(x, dominant)[0, 1] if np.ptp(dominant) > 1e-9 else 0.0
    return Trend(float(slope), float(correlation), float(mean_slope), float(width))


def _selection_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks, widths = [], {}
    for name in claim.models:
        shares = results.histogram(name)
        sigmas = results.folders[name].config.channel_sigmas
        sizes = np.array(list(results.accuracies[name]))
        asked = np.ones(len(sizes), bool)
        if "avoided" in claim.parts:
            fine = np.array(sigmas) <= TOO_FINE
            share = float(shares[:, fine].sum(axis=1).mean())
            text = f"`{name}`: finest channels are chosen for {100 * share:.0f} %"
            checks.append(Check(text, share < AVOIDED * fine.mean()))
            at_one = 2 ** (shares[np.abs(np.log(sizes)).argmin()] @ np.log2(sigmas))
            asked = at_one * sizes > TOO_FINE
        trend = selection_trend(shares[asked], sizes=sizes[asked], sigmas=sigmas)
        widths[name] = trend.width
        linear = trend.correlation >= LINEAR and SLOPES[0] <= trend.slope <= SLOPES[1]
        text = f"`{name}`: slope {trend.slope:.2f} (1 is proportional; {trend.mean_slope:.2f} of "
        text += f"the mean over all channels), correlation {trend.correlation:.2f}"
        checks.append(Check(text, linear))
    for name in widths:
        rival = name.replace("_max_", "_avg_")
        if rival != name and rival in widths and "sharper" in claim.parts:
            text = f"spread {widths[name]:.2f} octaves with max, {widths[rival]:.2f} with average"
            checks.append(Check(text, widths[name] < widths[rival]))
    return checks


def find_peaks(shares: np.ndarray) -> list[tuple[int, int]]:
    """Row and column of every strong peak."""
    around = np.ones((3, 3), bool)
    around[1, 1] = False
    rivals = scipy.ndimage.maximum_filter(shares, footprint=around, mode="constant")
    peak = (shares > 0) & (shares >= PEAK * rivals) & (shares >= STRONG * shares.max())
    return [tuple(place) for place in np.argwhere(peak).tolist()]


def _peaks(name: str, group: str, results: ZooResults) -> tuple[list[tuple[int, int]], str]:
    """Size and scale channel of the strong peaks, and a text about them."""
    sizes, sigmas = list(results.accuracies[name]), results.folders[name].config.channel_sigmas
    peaks = find_peaks(results.histogram(name, group))
    at = ", ".join(f"(size {sizes[s]:.3g}, σ₀ {sigmas[c]:.3g})" for s, c in peaks)
    return peaks, f"`{name}`, {group}: {f'peaks at {at}' if peaks else 'no strong peak'}"


def _wrong_peak_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        config = results.folders[name].config
        peaks, text = _peaks(name, "wrong", results)
        checks.append(Check(text, any(c < len(config.channel_sigmas) // 2 for _, c in peaks)))
        if config.scale_pooling == "average":
            largest = any(s == len(results.accuracies[name]) - 1 for s, _ in peaks)
            checks.append(Check(f"`{name}`: a peak at the largest size", largest))
    return checks


def _end_peak_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        count = len(results.folders[name].config.channel_sigmas)
        for group in ("correct", "wrong"):
            peaks, text = _peaks(name, group, results)
            fine = any(c < count // 2 for _, c in peaks)
            coarse = any(c >= count - count // 2 for _, c in peaks)
            checks.append(Check(text, fine and coarse))
    return checks


# === Matched sigmas ===


def _matched_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        matched = results.matched[name]
        loss = matched[1.0] - min(matched.values())
        gain = np.mean(list(matched.values())) - np.mean(list(results.accuracies[name].values()))
        checks.append(Check(f"`{name}`: loses {loss:.1f} ppt at most", loss <= QUITE_WELL))
        checks.append(Check(f"`{name}`: mean {gain:+.1f} ppt by matching", bool(gain > 0)))
    return checks


def _transfer_checks(claim: Claim, results: ZooResults) -> list[Check]:
    """Transferred networks against the single-scale-channel network they come from, matched."""
    checks = []
    for name in claim.models:
        matched = results.matched[RECIPES[name].transfer_from]
        curve = results.accuracies[name]
        gain = np.mean(list(curve.values())) - np.mean(list(matched.values()))
        checks.append(Check(f"`{name}`: mean {gain:+.1f} ppt", bool(-MUCH <= gain < 0)))
    return checks


def _transfer_at_half_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        gain = results.accuracies[name][0.5] - results.matched[RECIPES[name].transfer_from][0.5]
        checks.append(Check(f"`{name}`: {gain:+.1f} ppt at ½", bool(gain > 0)))
    return checks


# === STIR ===


def _mean(curve: dict[float, float], sizes) -> float:
    return float(np.mean([curve[size] for size in sizes]))


def _stir_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    small = STIR_SIZES.trained("small")
    above = range(small[-1] + 1, OBJECT_SIZES[-1] + 1)
    for name in claim.models:
        recipe, curve = RECIPES[name], results.accuracies[name]
        ours, others = _mean(curve, OBJECT_SIZES), {}
        for rival in ("SESN", "DISCO", "PixelPool"):
            baseline = stir_baseline(rival, dataset=recipe.dataset, train_sizes=recipe.train_sizes)
            others[rival] = dict(zip(baseline.sizes.tolist(), baseline.mean.tolist(), strict=True))
            theirs = _mean(others[rival], OBJECT_SIZES)
            checks.append(Check(f"`{name}` {ours:.1f} %, {rival} {theirs:.1f} %", ours > theirs))
        if "flat" in claim.parts:
            extent = max(curve.values()) - min(curve.values())
            checks.append(Check(f"`{name}`: range {extent:.1f} ppt", extent <= ALMOST_FLAT))
        if "small objects" in claim.parts and recipe.train_sizes != "small":
            leads = [
                _mean(curve, sizes) - np.mean([_mean(other, sizes) for other in others.values()])
                for sizes in (small, above)
            ]
            text = f"`{name}`: ahead by {leads[0]:.1f} ppt for small objects, {leads[1]:.1f} above"
            checks.append(Check(text, bool(leads[0] > leads[1])))
    return checks


def _stir_dropout_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        other = name.replace("_nodrop", "_drop")
        if other == name or other not in claim.models:
            continue
        without, with_ = results.accuracies[name], results.accuracies[other]
        gain = {size: with_[size] - without[size] for size in OBJECT_SIZES}
        flatter = np.ptp(list(without.values())) - np.ptp(list(with_.values()))
        mean = _mean(gain, OBJECT_SIZES)
        checks.append(Check(f"`{other}`: mean {mean:+.1f} ppt", mean > 0))
        checks.append(Check(f"`{other}`: range {-flatter:+.1f} ppt", bool(flatter > 0)))
        first = STIR_SIZES.trained(RECIPES[name].train_sizes)[0]
        if first > OBJECT_SIZES[0]:
            smaller = _mean(gain, range(OBJECT_SIZES[0], first))
            rest = _mean(gain, range(first, OBJECT_SIZES[-1] + 1))
            text = f"`{other}`: {smaller:+.1f} ppt for smaller objects, {rest:+.1f} for the others"
            checks.append(Check(text, smaller > rest))
    return checks


# === Learned sigmas ===


def _growth_checks(claim: Claim, results: ZooResults) -> list[Check]:
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


def _no_drop_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        ratio = results.sigmas[name][-1] / results.sigmas[name][-2]
        text = f"`{name}`: last layer {ratio:.2f} times the one before"
        checks.append(Check(text, bool(ratio >= 1)))
    return checks


def _order_checks(claim: Claim, results: ZooResults) -> list[Check]:
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


def _spread_checks(claim: Claim, results: ZooResults) -> list[Check]:
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
            checks.append(Check(text, ratio <= SAME_SPREAD))
    return checks


# === Significance ===


def _pooled(claim: Claim, results: ZooResults) -> list[tuple[str, tuple, float, float, tuple]]:
    """Per pair of methods: a text, the pair, our g and larger p, and what the paper prints."""
    learned = RECIPES[claim.models[0]].config.learned_sigmas
    table = POOLED_LEARNED if learned else POOLED_FIXED
    runs = results.run_table(table)
    if runs is None:
        return []
    return [
        (f"{' − '.join(pair)}: g {g:+.2f}, p {max(p):.3f}", pair, g, max(p), table.rows[pair])
        for pair, (g, *p) in pooled_statistics(runs, pairs=table.rows).items()
    ]


def _significance_checks(claim: Claim, results: ZooResults) -> list[Check]:
    """What is significant in the paper is so here, with the same sign."""
    return [
        Check(text, p < SIGNIFICANCE and g * printed[0] > 0)
        for text, _, g, p, printed in _pooled(claim, results)
        if max(printed[1:]) < SIGNIFICANCE
    ]


def _no_significance_checks(claim: Claim, results: ZooResults) -> list[Check]:
    return [
        Check(text, p >= SIGNIFICANCE)
        for text, pair, _, p, _ in _pooled(claim, results)
        if pair == ("discrete", "sampled_derivative")
    ]


# === Which claim is checked how ===


def _trained(name: str, results: ZooResults) -> bool:
    return True


def _has_histogram(name: str, results: ZooResults) -> bool:
    return results.histogram(name) is not None


def _has_object_sizes(name: str, results: ZooResults) -> bool:
    return set(OBJECT_SIZES) <= results.accuracies[name].keys()


def _has_matched(name: str, results: ZooResults) -> bool:
    return name in results.matched


def _source_has_matched(name: str, results: ZooResults) -> bool:
    return RECIPES[name].transfer_from in results.matched


def _has_runs(name: str, results: ZooResults) -> bool:
    return any(len(runs.get(name, ())) >= SEVERAL for runs in results.runs.values())


class CheckMethod(NamedTuple):
    """How a claim is checked."""

    check: Callable[[Claim, ZooResults], list[Check]]
    measured: Callable[[str, ZooResults], bool] = _trained  # whether a network has what is needed
    missing: str = ""  # the reason given where none has; {runs}: the number of runs
    parts: tuple[str, ...] = ()  # those of its checks that are for some claims only


_OBJECTS = (_has_object_sizes, "not measured at all sizes of the objects")
_SHARES = (_has_histogram, "the shares of the scale channels are not measured")
_NO_MATCH = "matched sigmas are not measured"
_RUNS = (
    _has_runs,
    f"needs at least {SEVERAL} runs from scratch per setting; there are {{runs}} of each network",
)
# `Claim.check` -> how it is checked
CHECKS: dict[str, CheckMethod] = {
    "selection": CheckMethod(_selection_checks, *_SHARES, parts=("sharper", "avoided")),
    "wrong peaks": CheckMethod(_wrong_peak_checks, *_SHARES),
    "peaks at both ends": CheckMethod(_end_peak_checks, *_SHARES),
    "matched": CheckMethod(_matched_checks, _has_matched, _NO_MATCH),
    "transfer": CheckMethod(_transfer_checks, _source_has_matched, _NO_MATCH),
    "transfer at 1/2": CheckMethod(_transfer_at_half_checks, _source_has_matched, _NO_MATCH),
    "stir": CheckMethod(_stir_checks, *_OBJECTS, parts=("flat", "small objects")),
    "stir dropout": CheckMethod(_stir_dropout_checks, *_OBJECTS),
    "growth": CheckMethod(_growth_checks),
    "no drop": CheckMethod(_no_drop_checks),
    "first sigmas": CheckMethod(_order_checks),
    "spread": CheckMethod(_spread_checks),
    "significance": CheckMethod(_significance_checks, *_RUNS),
    "no significance": CheckMethod(_no_significance_checks, *_RUNS),
}
