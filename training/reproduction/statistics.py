"""The statistics of appendix A.3, on accuracies of repeated runs.

Two samples of runs, one setting (Tables 15 and 17): `hedges_g`, `rank_sum_p`, `t_test_p`.

All methods over all settings (Tables 16 and 18): `pooled_hedges_g`, `friedman`, `anova`. Here the
columns of a matrix are the methods and its rows the runs of all settings, one below the other; a
row holds runs of the same number in the same setting, which count as paired.

`pairwise_table` and `pooled_table` print both kinds as the paper does, and
`python -m training statistics` does it for the runs of this project or in a file.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from gdn_keras.utils.markdown import table

SIGNIFICANCE = 0.05
_EXACT_UP_TO = 20  # runs in both samples together


# === Two samples ===


def hedges_correction(degrees_of_freedom: int) -> float:
    """g / d = Gamma(a/2) / (sqrt(a/2) Gamma((a-1)/2)), a the degrees of freedom, exactly.

    >>> round(hedges_correction(5 + 5 - 2), 3), round(hedges_correction(15 + 15 - 2), 3)
    (0.903, 0.973)
    """
    half = degrees_of_freedom / 2
    return math.exp(scipy.special.gammaln(half) - scipy.special.gammaln(half - 0.5)) / math.sqrt(
        half
    )


def hedges_g(x: ArrayLike, y: ArrayLike) -> float:
    """Difference of the means in pooled standard deviations, corrected for small samples."""
    x, y = _sample("x", x), _sample("y", y)
    degrees = x.size + y.size - 2
    squares = (x.size - 1) * x.var(ddof=1) + (y.size - 1) * y.var(ddof=1)
    if squares == 0:
        raise ValueError(f"`x` or `y` must vary. Received: x={x}, y={y}.")
    d = float(x.mean() - y.mean()) / math.sqrt(squares / degrees)
    return d * hedges_correction(degrees)


def pooled_hedges_g(x: ArrayLike, y: ArrayLike) -> float:
    """Mean of the paired differences in their standard deviations, corrected as `hedges_g`.

    `x` and `y` hold the runs of all settings in the same order.
    """
    x, y = _sample("x", x), _sample("y", y)
    if x.size != y.size:
        raise ValueError(f"`y` must be as long as `x`, {x.size}. Received: {y.size} runs.")
    difference = x - y
    if np.ptp(difference) == 0:
        raise ValueError(f"`x - y` must vary. Received: x - y = {difference}.")
    d = float(difference.mean() / difference.std(ddof=1))
    return d * hedges_correction(2 * x.size - 2)


def rank_sum_p(x: ArrayLike, y: ArrayLike) -> float:
    """Two-sided p of the Wilcoxon rank-sum (Mann-Whitney) test.

    Up to 20 runs in total it is exact: every division of the ranks into two samples is counted,
    equal runs sharing their mean rank. With 5 runs each the smallest value is 2/252 = 0.008.
    Above, the normal approximation with corrections for ties and continuity.
    """
    x, y = _sample("x", x), _sample("y", y)
    total = x.size + y.size
    if total > _EXACT_UP_TO:
        return float(scipy.stats.mannwhitneyu(x, y, method="asymptotic").pvalue)
    ranks = np.rint(2 * scipy.stats.rankdata([*x, *y])).astype(
        int
    )  # halves, so doubled: exact sums
    # ways[n, s]: subsets of n runs with doubled rank sum s
    ways = np.zeros((x.size + 1, ranks.sum() + 1), dtype=np.int64)
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank]
    observed, ways = ranks[: x.size].sum(), ways[x.size]
    tail = min(ways[: observed + 1].sum(), ways[observed:].sum())
    return min(1.0, 2 * tail / math.comb(total, x.size))


def t_test_p(x: ArrayLike, y: ArrayLike) -> float:
    """Two-sided p of the two-sample t-test with equal variances."""
    x, y = _sample("x", x), _sample("y", y)
    if np.ptp(x) == 0 and np.ptp(y) == 0:
        raise ValueError(f"`x` or `y` must vary. Received: x={x}, y={y}.")
    return float(scipy.stats.ttest_ind(x, y).pvalue)


# === Methods over all settings ===


@dataclass(frozen=True, kw_only=True)
class Friedman:
    statistic: float  # chi-square with (methods - 1) degrees of freedom
    p: float
    mean_ranks: np.ndarray  # per method; the highest run of a row has the highest rank
    pairwise_p: np.ndarray  # (method, method), Dunn-Sidak


@dataclass(frozen=True, kw_only=True)
class Anova:
    f: float  # of the methods, after removing the effect of the rows
    p: float
    row_f: float
    row_p: float
    mean_square_error: float
    degrees_of_freedom: int  # of the error
    pairwise_p: np.ndarray  # (method, method), Tukey


def friedman(runs: ArrayLike) -> Friedman:
    """Friedman's test that the columns are alike, and Dunn-Sidak's test of every pair.

    The runs of a row are ranked. The unbiased variance of the ranks 1...k of a row is
    v = k (k+1) / 12, less with ties; the difference of two mean ranks over n rows then has
    variance 2 v / n if the methods are alike. A pair's p becomes 1 - (1 - p)^m, m pairs in all.
    """
    runs = _matrix(runs)
    rows, methods = runs.shape
    ranks = scipy.stats.rankdata(runs, axis=1)
    mean_ranks = ranks.mean(axis=0)
    variance = ((ranks - (methods + 1) / 2) ** 2).sum() / (rows * (methods - 1))
    if variance == 0:
        raise ValueError("`runs` must differ within some row. Received: only equal runs.")
    statistic = rows * ((mean_ranks - (methods + 1) / 2) ** 2).sum() / variance
    z = np.abs(mean_ranks[:, None] - mean_ranks) / math.sqrt(2 * variance / rows)
    single = np.minimum(2 * scipy.stats.norm.sf(z), 1.0)
    with np.errstate(divide="ignore"):  # log1p(-1) of the diagonal
        pairwise_p = -np.expm1(math.comb(methods, 2) * np.log1p(-single))
    return Friedman(
        statistic=float(statistic),
        p=float(scipy.stats.chi2.sf(statistic, methods - 1)),
        mean_ranks=mean_ranks,
        pairwise_p=pairwise_p,
    )


def anova(runs: ArrayLike) -> Anova:
    """Two-way analysis of variance, run = row + method + error, and Tukey's test of every pair."""
    runs = _matrix(runs)
    rows, methods = runs.shape
    row_means, means, mean = runs.mean(axis=1), runs.mean(axis=0), runs.mean()
    error = runs - row_means[:, None] - means + mean
    degrees = (rows - 1) * (methods - 1)
    mean_square_error = (error**2).sum() / degrees
    if mean_square_error <= 1e-24 * (runs**2).mean():
        raise ValueError("`runs` must not be exactly additive: the error would be zero.")
    f = rows * ((means - mean) ** 2).sum() / (methods - 1) / mean_square_error
    row_f = methods * ((row_means - mean) ** 2).sum() / (rows - 1) / mean_square_error
    q = np.abs(means[:, None] - means) / math.sqrt(mean_square_error / rows)
    return Anova(
        f=float(f),
        p=float(scipy.stats.f.sf(f, methods - 1, degrees)),
        row_f=float(row_f),
        row_p=float(scipy.stats.f.sf(row_f, rows - 1, degrees)),
        mean_square_error=float(mean_square_error),
        degrees_of_freedom=degrees,
        pairwise_p=np.clip(scipy.stats.studentized_range.sf(q, methods, degrees), 0.0, 1.0),
    )


# === The paper's tables ===


Pair = tuple[str, str]
Triple = tuple[float, float, float]  # g and both p


def pairwise_statistics(
    runs: Mapping[str, ArrayLike], *, pairs: Iterable[Pair] | None = None
) -> dict[Pair, tuple[Triple, ...]]:
    """Per pair of methods and per setting Hedges' g and the p of rank-sum test and t-test.

    Args:
        runs: accuracies per method, shape (settings, runs).
        pairs: the methods to compare; all pairs by default.
    """
    runs, pairs = _methods(runs, pairs)
    return {
        (a, b): tuple(
            (hedges_g(x, y), rank_sum_p(x, y), t_test_p(x, y))
            for x, y in zip(runs[a], runs[b], strict=True)
        )
        for a, b in pairs
    }


def pooled_statistics(
    runs: Mapping[str, ArrayLike], *, pairs: Iterable[Pair] | None = None
) -> dict[Pair, Triple]:
    """Per pair of methods the pooled g and the p of both post hoc tests, Dunn-Sidak and Tukey.

    All methods of `runs`, each of shape (settings, runs), take part in the ranks and the variance.
    """
    runs, pairs = _methods(runs, pairs)
    names = list(runs)
    matrix = np.stack([runs[name].ravel() for name in names], axis=1)
    dunn_sidak, tukey = friedman(matrix).pairwise_p, anova(matrix).pairwise_p
    places = {(a, b): (names.index(a), names.index(b)) for a, b in pairs}
    return {
        pair: (
            pooled_hedges_g(matrix[:, i], matrix[:, j]),
            float(dunn_sidak[i, j]),
            float(tukey[i, j]),
        )
        for pair, (i, j) in places.items()
    }


def pairwise_table(
    runs: Mapping[str, ArrayLike],
    *,
    settings: Sequence[str],
    pairs: Iterable[Pair] | None = None,
) -> str:
    """`pairwise_statistics` of runs, printed as Tables 15 and 17."""
    return format_pairwise(pairwise_statistics(runs, pairs=pairs), settings=settings)


def pooled_table(runs: Mapping[str, ArrayLike], *, pairs: Iterable[Pair] | None = None) -> str:
    """`pooled_statistics` of runs, printed as Tables 16 and 18."""
    return format_pooled(pooled_statistics(runs, pairs=pairs))


def format_pairwise(rows: Mapping[Pair, Sequence[Triple]], *, settings: Sequence[str]) -> str:
    """Tables 15 and 17 in Markdown: bold where both p are below 0.05."""
    header = ["Compared kernels"]
    for setting in settings:
        header += [f"{setting}: Hedges", "Wilcoxon", "t-test"]
    cells = []
    for pair, triples in rows.items():
        if len(triples) != len(settings):
            raise ValueError(
                f"`settings` must name {len(triples)} settings. Received: {list(settings)}."
            )
        cells.append(
            [" vs. ".join(pair), *(cell for triple in triples for cell in _cells(*triple))]
        )
    return _padded(header, cells)


def format_pooled(rows: Mapping[Pair, Triple]) -> str:
    """Tables 16 and 18 in Markdown: bold where both p are below 0.05."""
    header = ["Compared kernels", "Hedges' g pooled", "Friedman Dunn-Šidák", "ANOVA Tukey"]
    return _padded(header, [[" vs. ".join(pair), *_cells(*row)] for pair, row in rows.items()])


def _cells(g: float, *p: float) -> list[str]:
    cells = [f"{g:.2f}", *(f"{value:.3f}" for value in p)]
    return [f"**{cell}**" for cell in cells] if max(p) < SIGNIFICANCE else cells


def _padded(header: list[str], rows: list[list[str]]) -> str:
    return table(header, rows=rows, align="lr", pad=True) + "\n"


# === Checks ===


def _sample(name: str, values: ArrayLike) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or values.size < 2 or not np.isfinite(values).all():
        raise ValueError(f"`{name}` must be at least two finite numbers. Received: {values}.")
    return values


def _matrix(runs: ArrayLike) -> np.ndarray:
    runs = np.asarray(runs, dtype=float)
    if runs.ndim != 2 or min(runs.shape) < 2 or not np.isfinite(runs).all():
        raise ValueError(
            "`runs` must be finite and of shape (rows, methods), at least 2 of each. "
            f"Received: shape {runs.shape}."
        )
    return runs


def _methods(runs, pairs):
    runs = {name: np.asarray(values, dtype=float) for name, values in runs.items()}
    shapes = {values.shape for values in runs.values()}
    if len(runs) < 2 or len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise ValueError(
            "`runs` must have two or more methods of one shape, (settings, runs). "
            f"Received: { {name: values.shape for name, values in runs.items()} }."
        )
    pairs = list(combinations(runs, 2)) if pairs is None else list(pairs)
    for name in (name for pair in pairs for name in pair):
        if name not in runs:
            raise ValueError(f"`pairs` must name methods of {list(runs)}. Received: {name!r}.")
    return runs, pairs


# === Files ===

COLUMNS = ("method", "setting", "run", "accuracy")


def read_csv(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], list[str]]:
    """Accuracies per method, (setting, run), and the settings, from a file with `COLUMNS`.

    Methods, settings and runs come in the order in which the file names them first. Every method
    must have the same runs, two or more, in every setting.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        if not set(COLUMNS) <= set(reader.fieldnames or ()):
            raise ValueError(
                f"{path} must begin with a line {','.join(COLUMNS)}. Received: {reader.fieldnames}."
            )
        cells = {}
        for row in reader:
            place = row["method"], row["setting"], row["run"]
            if place in cells:
                raise ValueError(f"{path}, line {reader.line_num}: {place} appears twice.")
            try:
                cells[place] = float(row["accuracy"])
            except (TypeError, ValueError):
                raise ValueError(
                    f"{path}, line {reader.line_num}: accuracy must be a number. "
                    f"Received: {row['accuracy']!r}."
                ) from None
    methods, settings, runs = (list(dict.fromkeys(place[n] for place in cells)) for n in range(3))
    if len(methods) < 2 or len(runs) < 2:
        raise ValueError(
            f"{path} must have two or more methods and runs. Received: {methods}, runs {runs}."
        )
    for m in methods:
        for s in settings:
            missing = [run for run in runs if (m, s, run) not in cells]
            if missing:
                raise ValueError(f"{path} has no run {', '.join(missing)} of {m!r} in {s!r}.")
    return {m: np.array([[cells[m, s, r] for r in runs] for s in settings]) for m in methods}, (
        settings
    )
