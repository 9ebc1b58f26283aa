"""The tables of the report: networks, and the numbers that the paper prints for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

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
    RATE_TAGS,
    SIGMA_0_TAGS,
    SPREAD,
    PairwiseStatistics,
    PooledStatistics,
)
from ..repeated_runs import SEVERAL
from ..statistics import format_pairwise, format_pooled, pairwise_table, pooled_table
from ..zoo_results import MATCHED, ZooResults, group_names, networks_of

UNTRAINED, UNMEASURED, NONE = "not yet trained", "not yet measured", "–"
MARKS = dict(zip(VERDICTS, ("✅", "🟩", "🟨", "🔷", "❌", "⬜", "➖", "⛔"), strict=True))
_FEW = 4  # names that are listed
_MANY = 8  # rows that are folded away
_TAGS = (*SIGMA_0_TAGS, *RATE_TAGS)

Table = tuple[list[str], list[list[str]]]  # lines, and the verdicts on each grid


def marked(verdict: str) -> str:
    return f"{MARKS[verdict]} {verdict}"


def table(header: Sequence[str], *, rows: list[list[str]], align: str) -> list[str]:
    """The lines of a table; none if it has no rows."""
    return [*markdown.table(header, rows=rows, align=align).splitlines(), ""] if rows else []


def marks(verdicts: Iterable[str]) -> str:
    """How many of each, in the order of `VERDICTS`."""
    count = Counter(verdicts)
    return ", ".join(f"{count[v]} {MARKS[v]}" for v in VERDICTS if count[v]) or NONE


def marks_per_grid(grids: Sequence[Sequence[str]]) -> str:
    """On the grid of the training and on every pixel, where these differ."""
    return "; ".join(dict.fromkeys(map(marks, grids))) or NONE


def folded(lines: list[str], *, summary: str) -> list[str]:
    """A table that a reader opens by clicking, if it is long."""
    if len(lines) <= _MANY + 3:
        return lines
    start = f'<details markdown="1"><summary>{summary}</summary>'
    return [start, "", *lines, "</details>", ""]


def waiting(claims: list[str], names: Iterable[str]) -> list[str]:
    """What is not yet trained: claims, which a reader opens by clicking, and networks."""
    names = list(names)
    networks = f"{len(names)} networks"
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
            rows.append([label, images(own, results), *means, _mean(curve, curve or ())])
    here = [RECIPES[name] for name in names if name in results.folders]
    for dataset, train_sizes in dict.fromkeys((r.dataset, r.train_sizes) for r in here):
        if dataset in DATASETS:
            which = {"dataset": dataset, "train_sizes": train_sizes}
            published = [stir_baseline(model, **which) for model in MODELS]
            groups = (*sizes.values(), published[0].curve)
            means = [", ".join(_mean(p.curve, group) for p in published) for group in groups]
            label = f"{', '.join(MODELS)} on `{dataset}`, {train_sizes}"
            rows.append([label, f"published, {published[0].runs} runs each", *means])
    header = ["network", "images", *(f"at {size}" for size in sizes), "mean"]
    return folded(table(header, rows=rows, align="llr"), summary=f"{len(rows)} networks")


def _matrix(names: Iterable[str], cell: Callable[[str], str]) -> list[str]:
    """A table with a column for each tag: sigmas or learning rates, `*` in the names of rows."""
    rows: dict[str, dict[str, str]] = {}
    for name in names:
        (tag,) = [tag for tag in _TAGS if tag in name]
        rows.setdefault(name.replace(tag, "*"), {})[tag] = cell(name)
    tags = [tag for tag in _TAGS if any(tag in cells for cells in rows.values())]
    lines = table(
        ["network", *(f"`{tag}`" for tag in tags)],
        rows=[[f"`{n}`", *(cells.get(tag, NONE) for tag in tags)] for n, cells in rows.items()],
        align="l",
    )
    return folded(lines, summary="Networks and numbers")


def printed_table(names: list[str], results: ZooResults) -> Table:
    """Accuracies that the paper prints, on the grid of the training and on every pixel."""
    grids = (results, results.on_every_pixel())

    def cell(name: str) -> str:
        coarse = results.folders[name].metrics.sampling_density
        ours = " ".join(_printed_cell(name, grid)[1] for grid in grids[: 1 + bool(coarse)])
        return f"{_compact(ACCURACY[name].text())}: {ours}<br>{images(name, results)}"

    lines = _matrix([name for name in names if name in results.folders], cell)
    legend = (
        "Each cell: the paper: ours on the grid of the training, and on every pixel if that is "
        "another; images of its ancestors+its own (`*`: some with its test accuracy known). "
        "Columns: what `*` in names stands for."
    )
    found = [
        [_printed_cell(n, grid)[0] if n in results.folders else UNTRAINED for n in names]
        for grid in grids
    ]
    return ([legend, "", *lines] if lines else []), found


def printed_summary(results: ZooResults) -> list[str]:
    """How many of the accuracies that the paper prints are measured and reproduced."""
    grids = {"on the grid of the training": results, "on every pixel": results.on_every_pixel()}
    parts, good = [], []
    for words, grid in grids.items():
        found = {name: _printed_cell(name, grid)[0] for name in ACCURACY}
        found = {name: verdict for name, verdict in found.items() if verdict != UNMEASURED}
        parts.append(f"{len(found)} {words}" + f" ({marks(found.values())})" * bool(found))
        good.append([name for name, verdict in found.items() if verdict == VERDICTS[0]])
    scratch = [sum(not results.record(name).ancestors for name in names) for names in good]
    return [
        f"Of the {len(ACCURACY)} accuracies the paper prints, we measured {', '.join(parts)}. "
        f"Of the {len(good[0])} and {len(good[1])} {MARKS[VERDICTS[0]]}, {scratch[0]} and "
        f"{scratch[1]} are of networks trained from scratch (some for a length that was chosen "
        "after a first test accuracy: [what these numbers are](numbers.md)). Others, after a short "
        "warm start, show that the kernel can be exchanged, not that training with it reaches this "
        "accuracy.",
        "",
    ]


def _printed_cell(name: str, grid: ZooResults) -> tuple[str, str]:
    ours = (grid.curve(name) or {}).get(1.0)
    if ours is None:
        return UNMEASURED, MARKS[UNMEASURED]
    verdict = judge_accuracy(ours, ACCURACY[name])
    return verdict, f"{ours:.2f}{MARKS[verdict]}"


def sigma_table(results: ZooResults) -> Table:
    """Sigmas and spreads of the first layer, Tables 11 to 14."""
    here = {
        name: float(results.sigmas[name][0]) for name in LEARNED_SIGMA_1 if name in results.folders
    }
    found = {name: judge_sigma(ours, LEARNED_SIGMA_1[name]) for name, ours in here.items()}

    def cell(name: str) -> str:
        ours, paper = here[name], _compact(LEARNED_SIGMA_1[name].text(decimals=3))
        spreads = "{:.3f}, {:.3f}".format(*first_layer_spread(name, ours))
        printed = f"{SPREAD[name].first:.3f}, {SPREAD[name].second:.3f}"
        return f"{paper}: {ours:.3f}{MARKS[found[name]]}<br>{printed}: {spreads}"

    lines = _matrix(here, cell)
    legend = "Each cell: sigma of the first layer and spreads of its kernels, the paper: ours."
    every = [found.get(name, UNTRAINED) for name in LEARNED_SIGMA_1]
    return ([legend, "", *lines] if lines else []), [every]


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


def images(name: str, results: ZooResults) -> str:
    """How many images the network was trained on: ancestors+own."""
    record = results.record(name)
    before = [ancestor.images for ancestor in record.ancestors]
    parts = ["?" if None in before else _short(sum(before))] if before else []
    further = "*" if record.trained_further else ""
    paper = " (`paper`)" if record.budget == "paper" else ""
    return "+".join([*parts, _short(record.images_seen)]) + further + paper


def _compact(value: str) -> str:
    return value.replace(" ", "")


def _short(number: int) -> str:
    """1,200,000 -> 1.2M, with three digits."""
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if number >= 0.9995 * size:
            return f"{number / size:.3g}{unit}"
    return str(number)


def _mean(curve: dict[float, float] | None, sizes: Iterable[float]) -> str:
    sizes = list(sizes)
    if not curve or not set(sizes) <= curve.keys():
        return UNMEASURED
    return f"{sum(curve[size] for size in sizes) / len(sizes):.2f}"
