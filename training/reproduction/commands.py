"""What the commands of `python -m training` do that judge the paper's claims."""

from __future__ import annotations

from pathlib import Path

from training import CHECKOUT
from training.runs import all_runs, zoo_folder


def report(arguments) -> int:
    from training.reproduction.report import write_report

    runs = all_runs(arguments)
    print(write_report(zoo_folder(arguments), _docs(arguments), runs_dir=runs))
    return 0


def gallery(arguments) -> int:
    from training.reproduction.gallery import write_gallery

    print(write_gallery(zoo_folder(arguments), _docs(arguments), names=arguments.names))
    return 0


def _docs(arguments) -> Path:
    return Path(arguments.docs) if arguments.docs else CHECKOUT / "docs"


def statistics(arguments) -> int:
    """Tables 15 to 18, of the runs in a file or of those of this project."""
    from training.reproduction.statistics import pairwise_table, pooled_table, read_csv

    if arguments.file:
        runs, settings = read_csv(arguments.file)
        print(pairwise_table(runs, settings=settings))
        print(pooled_table(runs))
        return 0
    from training.reproduction.results import Results
    from training.reproduction.tables import statistics_tables

    runs = all_runs(arguments)
    print("\n".join(statistics_tables(Results.read(zoo_folder(arguments), runs_dir=runs))))
    return 0


def verify(arguments) -> int:
    from training.reproduction import verify as verification

    folder = zoo_folder(arguments) / arguments.name
    if arguments.samples:
        comparisons = verification.verify_samples(folder)
    else:
        comparisons = verification.verify(
            folder, sizes=arguments.sizes, limit=arguments.limit, data_dir=arguments.data
        )
    print(verification.format_comparisons(comparisons))
    return 0 if all(comparison.agrees for comparison in comparisons) else 1
