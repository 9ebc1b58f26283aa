"""Checks of the claims that are about histograms, other networks, sigmas or significance.

Each takes a claim about networks for which everything is measured, and says which parts of it hold.
`RULES` states how words like "linear" are read, and the report prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from gdn_keras.datasets.stir import STIR_SIZES

from ...recipes import RECIPES
from ..baselines import stir_baseline
from ..paper import POOLED_FIXED, POOLED_LEARNED
from ..repeated_runs import SEVERAL
from ..statistics import SIGNIFICANCE, pooled_statistics
from ..zoo_results import MATCHED, ZooResults
from . import filter_checks, sigma_checks
from .claim import MUCH, OBJECT_SIZES, Check, Claim
from .margins import ERRORS, beyond, drop_margin, error_of, margin

SLOPES, LINEAR = (0.5, 1.5), 0.8
PEAK, STRONG = 1.05, 0.5
AVOIDED, TOO_FINE = 0.5, 2**-1.5 + 1e-9  # pixels, the paper's bound
QUITE_WELL = 15.0  # ppt
ALMOST_FLAT = 10.0  # ppt
SHARPER = 0.1  # relative
RULES = {
    "dominant scale channel": "the one that decides the most images (max pooling) or contributes "
    "most of the output (average pooling)",
    "proportional, a linear trend": "its log σ₀ against the log of the size has a fitted slope of "
    f"{SLOPES[0]:g} to {SLOPES[1]:g} (1 is proportional; also given: that of the mean over all "
    f"channels) and a correlation of at least {LINEAR:g}; "
    "where fine channels are avoided, over the sizes that do not need them",
    "sharper": "the shares of the scale channels spread over fewer octaves, mean over the sizes; "
    f"a difference of {100 * SHARPER:g} % or less is inconclusive",
    "strong peak": "in the histogram over sizes and scale channels, as shares of all images of a "
    f"size, a cell at least {100 * (PEAK - 1):.0f} % larger than each cell around it and at least "
    f"{STRONG:g} times the largest; finest and coarsest: a third of the scale channels each; more "
    "pronounced: the highest at either end is higher than all between",
    "middle and coarser channels dominate": "at size factor 2 less comes from the finest channels "
    "than if all were equal, and less than at size factors 1 and ½",
    "avoided": f"chosen less than {AVOIDED:g} times as often as if all channels were equal",
    "performs quite well": f"loses at most {QUITE_WELL:g} ppt to size factor 1, and is better on "
    "the mean than unmatched",
    "almost flat": f"a range of at most {ALMOST_FLAT:g} ppt, and less than that of every other "
    "network",
    "better than others, on STIR": "on the mean over all sizes; most of all for small objects: "
    "networks trained on larger ones have a larger lead over the others' mean at 17 to 32 pixels "
    "than above, and dropout gains more below the sizes trained on than at the others",
    "significant": f"both p below {SIGNIFICANCE:g}, from at least {SEVERAL} runs per setting",
    **sigma_checks.RULES,
    **filter_checks.RULES,
}


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
        text = f"`{name}`: slope {trend.slope:.2f} (of the mean {trend.mean_slope:.2f}), "
        text += f"correlation {trend.correlation:.2f}"
        checks.append(Check(text, linear))
    for name in widths:
        rival = name.replace("_max_", "_avg_")
        if rival != name and rival in widths and "sharper" in claim.parts:
            text = f"spread {widths[name]:.2f} octaves with max, {widths[rival]:.2f} with average"
            narrower = beyond(widths[rival] - widths[name], SHARPER * widths[rival])
            checks.append(Check(text, narrower))
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
    at = ", ".join(f"({sizes[s]:.3g}, {sigmas[c]:.3g})" for s, c in peaks)
    found = f"peaks at (size, σ₀) = {at}" if peaks else "no strong peak"
    return peaks, f"`{name}`, {group}: {found}"


def _ends(name: str, results: ZooResults) -> tuple[range, range]:
    """The finest and the coarsest scale channels."""
    count = len(results.folders[name].config.channel_sigmas)
    return range(count // 3), range(count - count // 3, count)


def _wrong_peak_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        finest, _ = _ends(name, results)
        peaks, text = _peaks(name, "wrong", results)
        checks.append(Check(text, any(c in finest for _, c in peaks)))
        if results.folders[name].config.scale_pooling == "average":
            largest = any(s == len(results.accuracies[name]) - 1 for s, _ in peaks)
            checks.append(Check(f"`{name}`: a peak at the largest size", largest))
    return checks


def _end_peak_checks(claim: Claim, results: ZooResults) -> list[Check]:
    """At both ends, a peak that is higher than all in the middle."""
    checks = []
    for name in claim.models:
        finest, coarsest = _ends(name, results)
        middle = range(finest.stop, coarsest.start)
        for group in ("correct", "wrong"):
            shares = results.histogram(name, group)
            peaks, text = _peaks(name, group, results)
            highest = [
                max((shares[peak] for peak in peaks if peak[1] in part), default=0.0)
                for part in (finest, middle, coarsest)
            ]
            checks.append(Check(text, min(highest[0], highest[2]) > highest[1]))
    return checks


def _coarser_checks(claim: Claim, results: ZooResults) -> list[Check]:
    """At the largest size, whose activation maps the paper shows, against the others."""
    checks = []
    for name in claim.models:
        finest, _ = _ends(name, results)
        shares = dict(zip(results.accuracies[name], results.histogram(name), strict=True))
        half, one, two = (100 * shares[size][list(finest)].sum() for size in (0.5, 1.0, 2.0))
        equal = 100 * len(finest) / len(shares[1.0])
        text = f"`{name}`: from the finest channels {two:.0f} % at 2, {one:.0f} % at 1, "
        text += f"{half:.0f} % at ½ ({equal:.0f} % if all were equal)"
        checks.append(Check(text, bool(two < min(equal, one, half))))
    return checks


# === Matched sigmas ===


def _mean(curve: dict[float, float], sizes) -> float:
    return float(np.mean([curve[size] for size in sizes]))


def _matched_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        matched = results.matched[name]
        worst = min(matched, key=matched.get)
        loss = matched[1.0] - matched[worst]
        quite_well = beyond(QUITE_WELL - loss, drop_margin(name + MATCHED, results, worst))
        checks.append(Check(f"`{name}`: loses {loss:.1f} ppt at most", quite_well))
        gain = _mean(matched, matched) - _mean(results.accuracies[name], matched)
        better = beyond(gain, margin(name + MATCHED, name, results, list(matched), gain))
        checks.append(Check(f"`{name}`: mean {gain:+.1f} ppt by matching", better))
    return checks


def _transfer_checks(claim: Claim, results: ZooResults) -> list[Check]:
    """Transferred networks against the single-scale-channel network they come from, matched."""
    checks = []
    for name in claim.models:
        source = RECIPES[name].transfer_from
        matched, curve = results.matched[source], results.accuracies[name]
        gain = _mean(curve, matched) - _mean(matched, matched)
        needed = margin(name, source + MATCHED, results, list(matched), gain)
        slightly_worse = beyond(min(-gain, gain + MUCH), needed)
        checks.append(Check(f"`{name}`: mean {gain:+.1f} ppt", slightly_worse))
    return checks


def _transfer_at_half_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        source = RECIPES[name].transfer_from
        gain = results.accuracies[name][0.5] - results.matched[source][0.5]
        better = beyond(gain, margin(name, source + MATCHED, results, [0.5], gain))
        checks.append(Check(f"`{name}`: {gain:+.1f} ppt at ½", better))
    return checks


# === STIR ===


def _stir_checks(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    small = STIR_SIZES.trained("small")
    above = range(small[-1] + 1, OBJECT_SIZES[-1] + 1)
    for name in claim.models:
        recipe, curve = RECIPES[name], results.accuracies[name]
        ours, others = _mean(curve, OBJECT_SIZES), {}
        for rival in ("SESN", "DISCO", "PixelPool"):
            published = stir_baseline(rival, dataset=recipe.dataset, train_sizes=recipe.train_sizes)
            others[rival] = published.curve
            theirs = _mean(published.curve, OBJECT_SIZES)
            better = beyond(ours - theirs, ERRORS * error_of(name, results, OBJECT_SIZES))
            checks.append(Check(f"`{name}` {ours:.1f} %, {rival} {theirs:.1f} %", better))
        if "flat" in claim.parts:
            extent = np.ptp(list(curve.values()))
            least = min(np.ptp(list(other.values())) for other in others.values())
            needed = ERRORS * np.sqrt(2) * error_of(name, results, OBJECT_SIZES)
            flat = beyond(min(ALMOST_FLAT, least) - extent, needed)
            text = f"`{name}`: range {extent:.1f} ppt, of the others {least:.1f} or more"
            checks.append(Check(text, flat))
        if "small objects" in claim.parts and recipe.train_sizes != "small":
            leads = [
                _mean(curve, sizes) - np.mean([_mean(other, sizes) for other in others.values()])
                for sizes in (small, above)
            ]
            text = f"`{name}`: ahead by {leads[0]:.1f} ppt for small objects, {leads[1]:.1f} above"
            needed = ERRORS * np.hypot(*(error_of(name, results, s) for s in (small, above)))
            checks.append(Check(text, beyond(leads[0] - leads[1], needed)))
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

        found = [
            (f"mean {mean:+.1f} ppt", mean, 1.0),
            (f"range {-flatter:+.1f} ppt", flatter, np.sqrt(2)),
        ]
        first = STIR_SIZES.trained(RECIPES[name].train_sizes)[0]
        if first > OBJECT_SIZES[0]:
            smaller = _mean(gain, range(OBJECT_SIZES[0], first))
            rest = _mean(gain, range(first, OBJECT_SIZES[-1] + 1))
            text = f"{smaller:+.1f} ppt for smaller objects, {rest:+.1f} for the others"
            found.append((text, smaller - rest, np.sqrt(2)))
        for text, difference, errors in found:
            needed = errors * margin(other, name, results, OBJECT_SIZES, difference)
            checks.append(Check(f"`{other}`: {text}", beyond(difference, needed)))
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
    return set(OBJECT_SIZES) <= results.accuracies.get(name, {}).keys()


def _has_size_one(name: str, results: ZooResults) -> bool:
    return 1.0 in results.accuracies.get(name, {})


def _has_matched(name: str, results: ZooResults) -> bool:
    return name in results.matched


def _source_has_matched(name: str, results: ZooResults) -> bool:
    return RECIPES[name].transfer_from in results.matched


def _has_runs(name: str, results: ZooResults) -> bool:
    return any(len(runs.get(name, ())) >= SEVERAL for runs in results.runs.values())


class CheckMethod(NamedTuple):
    check: Callable[[Claim, ZooResults], list[Check]]
    measured: Callable[[str, ZooResults], bool] = _trained  # does a network have what is needed?
    missing: str = ""  # what to report where none has; {runs}: how many runs there are
    parts: tuple[str, ...] = ()  # checks that only some claims need
    compares: bool = False  # accuracies of networks, which must be measured on the same grid


_OBJECTS = (_has_object_sizes, "not measured at all sizes of the objects")
_AT_ONE = (_has_size_one, "not measured at size factor 1")
_SHARES = (_has_histogram, "the shares of the scale channels are not measured")
_WEIGHTS = (filter_checks.has_weights, "the weights are missing")
_NO_MATCH = "matched sigmas are not measured"
_RUNS = (
    _has_runs,
    f"needs {SEVERAL} runs from scratch per setting; there are {{runs}} of each network",
)
# `Claim.check` -> how it is checked
CHECKS: dict[str, CheckMethod] = {
    "selection": CheckMethod(_selection_checks, *_SHARES, parts=("sharper", "avoided")),
    "wrong peaks": CheckMethod(_wrong_peak_checks, *_SHARES),
    "peaks at both ends": CheckMethod(_end_peak_checks, *_SHARES),
    "coarser channels": CheckMethod(_coarser_checks, *_SHARES),
    "matched": CheckMethod(_matched_checks, _has_matched, _NO_MATCH),
    "transfer": CheckMethod(_transfer_checks, _source_has_matched, _NO_MATCH),
    "transfer at 1/2": CheckMethod(_transfer_at_half_checks, _source_has_matched, _NO_MATCH),
    "stir": CheckMethod(_stir_checks, *_OBJECTS, parts=("flat", "small objects")),
    "stir dropout": CheckMethod(_stir_dropout_checks, *_OBJECTS, compares=True),
    "growth": CheckMethod(sigma_checks.growth),
    "last sigma": CheckMethod(sigma_checks.last_sigma),
    "same sigmas": CheckMethod(sigma_checks.same_sigmas),
    "smaller rate": CheckMethod(sigma_checks.smaller_rate, *_AT_ONE, compares=True),
    "comparable": CheckMethod(sigma_checks.comparable, *_AT_ONE, compares=True),
    "derivative filters": CheckMethod(filter_checks.derivative_filters, *_WEIGHTS),
    "complex filters": CheckMethod(filter_checks.complex_filters, *_WEIGHTS),
    "central filters": CheckMethod(filter_checks.central_filters, *_WEIGHTS),
    "localisation": CheckMethod(filter_checks.localisation, *_WEIGHTS),
    "first sigmas": CheckMethod(sigma_checks.first_sigmas),
    "spread": CheckMethod(sigma_checks.spread),
    "significance": CheckMethod(_significance_checks, *_RUNS),
    "no significance": CheckMethod(_no_significance_checks, *_RUNS),
}
