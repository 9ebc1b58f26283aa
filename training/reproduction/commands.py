"""What the commands of `python -m training` do that judge the paper's claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import CHECKOUT
from ..runs.workspace import Workspace

DOCS = CHECKOUT / "docs"


def report(workspace: Workspace, *, docs: Path = DOCS) -> int:
    from .pages.report import write_report

    print(write_report(workspace.zoo, docs, runs_dir=workspace.runs))
    return 0


def gallery(names: list[str], *, workspace: Workspace, docs: Path = DOCS) -> int:
    from .pages.gallery import write_gallery

    print(write_gallery(workspace.zoo, docs, names=names))
    return 0


def statistics(file: str | None, *, workspace: Workspace, keep: bool = False) -> int:
    """Tables 15 to 18, of the runs in a file or of those of this project.

    `keep` also writes the accuracies of repeated runs to the zoo, where the report finds them.
    """
    from .statistics import pairwise_table, pooled_table, read_csv

    if file:
        if keep:
            raise ValueError("`--keep` keeps the runs of this project, not those of a file.")
        runs, settings = read_csv(file)
        print(pairwise_table(runs, settings=settings))
        print(pooled_table(runs))
        return 0
    from . import repeated_runs
    from .pages.tables import statistics_tables
    from .zoo_results import ZooResults

    results = ZooResults.read(workspace.zoo, runs_dir=workspace.runs)
    print("\n".join(statistics_tables(results)))
    if keep:
        path = workspace.zoo / repeated_runs.FILE
        print(f"{path}: {repeated_runs.write(path, results.runs | results.trials)} runs")
    return 0


def verify(
    name: str,
    *,
    workspace: Workspace,
    sizes: Sequence[float] | None = None,
    limit: int | None = None,
    samples: bool = False,
) -> int:
    from . import verify as verification

    folder = workspace.zoo / name
    if samples:
        comparisons = verification.verify_samples(folder)
    else:
        comparisons = verification.verify(folder, sizes=sizes, limit=limit, data_dir=workspace.data)
    print(verification.format_comparisons(comparisons))
    return 0 if all(comparison.agrees for comparison in comparisons) else 1
