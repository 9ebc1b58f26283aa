"""The tables of the report: networks, and the numbers that the paper prints for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gdn_keras import datasets
from gdn_keras.utils import markdown

from ...recipes import RECIPES
from .. import repeated_runs
from ..baselines import DATASETS, MODELS, stir_baseline
from ..claims.sigma_checks import first_layer_spread
from ..claims.verdicts import VERDICTS, judge_accuracy, judge_sigma
from ..paper import (
    ACCURACY,
    LEARNED_SIGMA_1,
    PAIRWISE_FIXED,
    PAIRWISE_LEARNED,
    POOLED_FIXED,
    POOLED_LEARNED,
    SPREAD,
    PairwiseStatistics,
    PooledStatistics,
)
from ..repeated_runs import SEVERAL
from ..statistics import format_pairwise, format_pooled, pairwise_table, pooled_table
from ..zoo_results import MATCHED, ZooResults, group_names, networks_of

UNTRAINED, UNMEASURED, NONE = "not yet trained", "not yet measured", "–"
MARKS = dict(zip(VERDICTS, ("✅", "🟩", "🟨", "🔷", "❌", "⬜", "➖", "⛔"), strict=True))
_FEW = 4  # names that are listed without folding them away

Table = tuple[list[str], list[str]]  # lines, and the verdicts of its rows


def marked(verdict: str) -> str:
    return f"{MARKS[verdict]} {verdict}"


def table(header: Sequence[str], *, rows: list[list[str]], align: str) -> list[str]:
    """The lines of a table; none if it has no rows."""
    return [*markdown.table(header, rows=rows, align=align).splitlines(), ""] if rows else []


def waiting(claims: list[str], names: Iterable[str]) -> list[str]:
    """What is not yet trained: claims, which a reader opens by clicking, and networks."""
    names = list(names)
    networks = f"{len(names)} networks (`python -m training list` names them)"
    if len(names) <= _FEW:
        networks = ", ".join(f"`{name}`" for name in group_names(names))
    lines = [f"Not yet trained: {networks}.", ""] if names else []
    if claims:
        summary = f"Claims that wait for networks: {len(claims)}"
        claims = f"<details><summary>{summary}</summary>{' '.join(claims)}</details>"
        lines += [claims, ""]
    return lines


# === Networks ===


def curve_table(names: list[str], results: ZooResults) -> list[str]:
    """Accuracies against sizes; a name that ends in `MATCHED` is that with matched sigmas."""
    sizes = datasets.get(RECIPES[names[0].removesuffix(MATCHED)].dataset).sizes.columns
    rows = []
    for name in names:
        own = name.removesuffix(MATCHED)
        if own in results.folders:
            curve = results.curve(name)
            means = [_mean(curve, group) for group in sizes.values()]
            label = f"`{own}`{name.removeprefix(own)}"
            rows.append([label, budget(own, results), *means, _mean(curve, curve or ())])
    here = [RECIPES[name] for name in names if name in results.folders]
    for dataset, train_sizes in dict.fromkeys((r.dataset, r.train_sizes) for r in here):
        if dataset in DATASETS:
            which = {"dataset": dataset, "train_sizes": train_sizes}
            published = [stir_baseline(model, **which) for model in MODELS]
            groups = (*sizes.values(), published[0].curve)
            means = [", ".join(_mean(p.curve, group) for p in published) for group in groups]
            label = f"{', '.join(MODELS)} on `{dataset}`, {train_sizes}"
            rows.append([label, f"published, {published[0].runs} runs each", *means])
    header = ["network", "trained", *(f"at {size}" for size in sizes), "mean of all sizes"]
    return table(header, rows=rows, align="llr")


def printed_table(names: list[str], results: ZooResults) -> Table:
    """Accuracies that the paper prints, on the grid of the training and on every pixel."""
    every_pixel = results.on_every_pixel()
    rows, found = [], []
    for name in names:
        if name not in results.folders:
            found.append(UNTRAINED)
            continue
        grids = [results]
        if results.folders[name].metrics.sampling_density:
            grids.append(every_pixel)
        cells = []
        for grid in grids:
            verdict, cell = _printed_cell(name, grid)
            found.append(verdict)
            cells.append(cell)
        cells += ["as trained"] * (2 - len(cells))
        rows.append([f"`{name}`", budget(name, results), ACCURACY[name].text(), *cells])
    header = ["network", "trained", "paper", "grid of the training", "every pixel"]
    return table(header, rows=rows, align="llrl"), found


def printed_summary(results: ZooResults) -> str:
    """How many of the accuracies that the paper prints are measured and reproduced."""
    grids = {"on the grid of the training": results, "on every pixel": results.on_every_pixel()}
    parts = []
    for words, grid in grids.items():
        count = Counter(_printed_cell(name, grid)[0] for name in ACCURACY)
        del count[UNMEASURED]
        shown = ", ".join(f"{count[v]} {MARKS[v]}" for v in VERDICTS if count[v])
        parts.append(f"{count.total()} {words}" + f" ({shown})" * bool(shown))
    return f"Of the {len(ACCURACY)} accuracies the paper prints, we measured {', '.join(parts)}."


def _printed_cell(name: str, results: ZooResults) -> tuple[str, str]:
    ours = (results.curve(name) or {}).get(1.0)
    if ours is None:
        return UNMEASURED, MARKS[UNMEASURED]
    verdict = judge_accuracy(ours, ACCURACY[name])
    return verdict, f"{ours:.2f} ({ours - ACCURACY[name].mean:+.2f}) {MARKS[verdict]}"


def sigma_table(results: ZooResults) -> Table:
    """Sigmas and spreads of the first layer, Tables 11 to 14."""
    rows, found = [], []
    for name, paper in LEARNED_SIGMA_1.items():
        if name not in results.folders:
            found.append(UNTRAINED)
            continue
        ours = float(results.sigmas[name][0])
        found.append(judge_sigma(ours, paper))
        spreads = [f"{SPREAD[name].first:.3f}, {SPREAD[name].second:.3f}"]
        spreads.append("{:.3f}, {:.3f}".format(*first_layer_spread(name, ours)))
        shown = f"{ours:.3f} ({ours - paper.mean:+.3f}) {MARKS[found[-1]]}"
        rows.append([f"`{name}`", paper.text(decimals=3), shown, *spreads])
    header = ["network", "σ₁ paper", "ours", "spreads paper", "ours"]
    return table(header, rows=rows, align="lrlr"), found


# === Statistics ===


def statistics_tables(results: ZooResults, *, only_measured: bool = False) -> list[str]:
    """Tables 15 to 18: the paper's, and ours if there are enough runs; and all repeated runs."""
    lines, missing = [], []
    for statistics in (PAIRWISE_FIXED, POOLED_FIXED, PAIRWISE_LEARNED, POOLED_LEARNED):
        ours = _our_statistics(statistics, results)
        if ours or not only_measured:
            lines += [f"{statistics.where}, the paper:", "", *_printed_statistics(statistics), ""]
        if ours:
            lines += ["Ours:", "", *ours.splitlines(), ""]
        else:
            missing.append(statistics)
    if missing and not only_measured:
        names = [n for s in missing for row_ in networks_of(s).values() for n in row_]
        lines += [
            f"{', '.join(s.where.partition(',')[0] for s in missing)}: ours are {UNMEASURED}; they "
            f"need at least {SEVERAL} runs from scratch per setting, and there are "
            f"{results.count_runs(names)} of each network.",
            "",
        ]
    return lines + repeated_runs.tables(results.runs | results.trials)


def _printed_statistics(table: PairwiseStatistics | PooledStatistics) -> list[str]:
    if isinstance(table, PairwiseStatistics):
        return format_pairwise(table.rows, settings=table.settings).splitlines()
    return format_pooled(table.rows).splitlines()


def _our_statistics(
    table: PairwiseStatistics | PooledStatistics, results: ZooResults
) -> str | None:
    runs = results.run_table(table)
    if isinstance(table, PairwiseStatistics):
        return runs and pairwise_table(runs, settings=table.settings, pairs=table.rows)
    return runs and pooled_table(runs, pairs=table.rows)


def budget(name: str, results: ZooResults) -> str:
    record = results.record(name)
    seen = f", {record.describe_images()}" if record.images_seen else ""
    further = ", some with its test accuracy known" if record.trained_further else ""
    return f"`{record.budget}`{seen}{further}"


def _mean(curve: dict[float, float] | None, sizes: Iterable[float]) -> str:
    sizes = list(sizes)
    if not curve or not set(sizes) <= curve.keys():
        return UNMEASURED
    return f"{sum(curve[size] for size in sizes) / len(sizes):.2f}"
