"""Train, evaluate and publish the networks of the zoo.

Data: the folder in GDN_KERAS_DATA, or `--data`. Runs: GDN_KERAS_RUNS, or a folder in the user's
cache. Whatever was stopped, by a signal, a kill or a power cut, goes on with the same command.

Exit codes: 0 done, 1 an error, 2 a mistake in the command, 3 stopped on request, 4 another process
works on the same run.
"""

import argparse
import sys
from functools import partial

from training import commands, state
from training.reproduction import commands as reproduction

EXAMPLES = {
    "list": (
        "python -m training list",
        "python -m training list 'cifar_*'",
        "python -m training list --cost      # hours on this machine, and what is left to train",
    ),
    "run": (
        "python -m training run fashion_avg_2jet",
        "python -m training run fashion_avg_2jet --budget paper --devices 4 --jit",
        "python -m training run fashion28_sampled_s1p00 --seed 1 --from none",
        "python -m training run fashion_avg_2jet --holdout --set epochs=2   # a trial",
        "python -m training run fashion_avg_2jet --more 2     # train the one of the zoo further",
    ),
    "queue": (
        "python -m training queue --hours 8 --nice 10",
        "python -m training queue fashion_single_2jet fashion_avg_2jet --hours 2",
    ),
    "evaluate": (
        "python -m training evaluate fashion_avg_2jet --exact",
        "python -m training evaluate fashion_avg_2jet --holdout --set epochs=2   # of a trial",
        "python -m training evaluate fashion_avg_2jet --holdout --limit 1000     # a quick look",
    ),
    "publish": ("python -m training publish fashion_avg_2jet",),
    "sweep": (
        "python -m training sweep fashion28 --workers 2",
        "python -m training sweep 'stir_*' --engine ray --cluster auto --runs /shared/runs",
    ),
    "report": ("python -m training report",),
    "results": ("python -m training results", "python -m training results --check"),
    "gallery": ("python -m training gallery", "python -m training gallery filters_2jet"),
    "verify": (
        "python -m training verify fashion28_discrete_s1p00",
        "python -m training verify fashion_avg_2jet --sizes 0.5 1 2 --limit 1000",
        "python -m training verify fashion_avg_2jet --samples     # without any data",
    ),
    "statistics": ("python -m training statistics", "python -m training statistics runs.csv"),
}


def main(argv: list[str] | None = None) -> int:
    arguments = make_parser().parse_args(argv)
    try:
        return _COMMANDS[arguments.command](arguments)
    except state.RunIsLocked as error:
        print(f"error: {error}", file=sys.stderr)
        return state.LOCKED
    except (ValueError, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; the same command goes on from what is saved", file=sys.stderr)
        return 1


def _compare(recipe):
    from training.reproduction.comparison import compare

    return compare(recipe)


_COMMANDS = {
    "list": partial(commands.list_recipes, compare=_compare),
    "run": commands.run,
    "queue": partial(commands.queue, compare=_compare),
    "evaluate": commands.evaluate,
    "publish": partial(commands.publish, compare=_compare),
    "sweep": commands.sweep,
    "results": commands.results,
    "report": reproduction.report,
    "gallery": reproduction.gallery,
    "statistics": reproduction.statistics,
    "verify": reproduction.verify,
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training",
        description=__doc__,
        epilog="examples:\n" + "\n".join(f"  {lines[0]}" for lines in EXAMPLES.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub = parser.add_subparsers(dest="command", required=True)

    def add(name: str, what: str) -> argparse.ArgumentParser:
        return sub.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog="examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[name]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    listing = add("list", "all recipes: status, the paper's accuracy and ours")
    listing.add_argument("pattern", nargs="?", default="*", help="a group, or a pattern of names")
    listing.add_argument(
        "--cost",
        action="store_true",
        help="GFLOP, images and hours of the cpu budget instead of accuracies; measures the speed "
        "of this machine the first time",
    )
    _place_options(listing, "seed", "zoo", "runs")

    run = add("run", "train one recipe, or go on with it")
    run.add_argument("name")
    run.add_argument(
        "--more",
        type=_positive,
        default=None,
        metavar="EPOCHS",
        help="go on with the network of the zoo: its last stage again, at half the learning rate",
    )
    _training_options(run)
    _trial_options(run)

    queue = add("queue", "train, evaluate and publish recipes one after another")
    queue.add_argument(
        "names", nargs="*", help="default: those in progress, the first checkpoints, all others"
    )
    queue.add_argument("--hours", type=float, default=None, help="stop cleanly after this time")
    queue.add_argument("--nice", type=int, default=0, help="lower the priority by this")
    _training_options(queue)

    evaluate = add("evaluate", "accuracy at all sizes on the full test set")
    evaluate.add_argument("name")
    evaluate.add_argument("--exact", action="store_true", help="also on every pixel")
    evaluate.add_argument(
        "--matched",
        action="store_true",
        help="also with all sigmas times the size factor; for networks of one scale channel",
    )
    evaluate.add_argument(
        "--limit", type=int, default=None, metavar="N", help="only N images; with --holdout"
    )
    _place_options(evaluate)
    _trial_options(evaluate)

    publish = add("publish", "write zoo/NAME from a finished, evaluated run")
    publish.add_argument("name")
    _place_options(publish, "seed", "zoo", "runs")

    sweep = add("sweep", "train many recipes at once")
    sweep.add_argument("group", help="a group, or a pattern of names")
    sweep.add_argument("--engine", choices=("local", "ray"), default="local")
    sweep.add_argument("--workers", type=int, default=2, help="recipes at the same time")
    sweep.add_argument("--cluster", default=None, help="of a Ray cluster; default: a new one here")
    _training_options(sweep)
    _trial_options(sweep)

    report = add("report", "write docs/REPRODUCTION.md from zoo/")
    report.add_argument("--docs", default=None, metavar="DIR", help=_DOCS)
    _place_options(report, "zoo", "runs")

    results = add(
        "results", "bring zoo/registry.json, zoo/results.csv and the tables of networks up to date"
    )
    results.add_argument("--check", action="store_true", help="write nothing, exit 1 if stale")

    gallery = add("gallery", "draw figures from the networks of zoo/ and write docs/GALLERY.md")
    gallery.add_argument("names", nargs="*", help="figures; default: all")
    gallery.add_argument("--docs", default=None, metavar="DIR", help=_DOCS)
    _place_options(gallery, "zoo")

    verify = add(
        "verify", "measure a network of zoo/ again and compare; exit code 1 if a number differs"
    )
    verify.add_argument("name")
    verify.add_argument(
        "--sizes", nargs="+", type=float, default=None, metavar="SIZE", help="default: all"
    )
    verify.add_argument("--limit", type=int, default=None, metavar="N", help="only N images a size")
    verify.add_argument(
        "--samples", action="store_true", help="the images of the package; needs no data"
    )
    _place_options(verify, "zoo", "data")

    statistics = add("statistics", "the tables of appendix A.3, from runs with several seeds")
    statistics.add_argument(
        "file",
        nargs="?",
        help="a CSV with the columns method, setting, run, accuracy; default: the runs of zoo/ and "
        "of the folder of the runs",
    )
    _place_options(statistics, "zoo", "runs")
    return parser


def _training_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget",
        choices=("paper", "cpu"),
        default="cpu",
        help="paper: the full schedule on every pixel, for a GPU; cpu: hours on two cores",
    )
    parser.add_argument(
        "--precision",
        choices=("auto", "float32", "mixed_bfloat16", "mixed_float16"),
        default="auto",
        help="auto: mixed_bfloat16 where the processor has it and the budget is cpu",
    )
    parser.add_argument(
        "--from",
        dest="start",
        default=None,
        metavar="NAME|none",
        help="the finished relative to start from, or none: from scratch, with all stages; "
        "default: the nearest one that is finished (only with --budget cpu)",
    )
    parser.add_argument(
        "--exact-phase",
        type=float,
        default=None,
        metavar="EPOCHS",
        help="at the end of the cpu budget, so many epochs on every pixel",
    )
    parser.add_argument("--devices", type=int, default=1, help="share every batch among so many")
    parser.add_argument("--jit", action="store_true", help="compile the step with XLA")
    _place_options(parser)


def _trial_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--holdout", action="store_true", help="train without the validation split")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change a setting of the last stage, for a trial (never published): --set epochs=2",
    )
    parser.add_argument(
        "--then",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="one more stage for a trial, like the last one but for this: "
        "--then sampling_density=null --then epochs=0.1",
    )


_DOCS = "default: docs/ of the checkout"
_PLACES = {
    "zoo": "default: zoo/ of the checkout",
    "data": "default: GDN_KERAS_DATA",
    "runs": "default: GDN_KERAS_RUNS",
}


def _place_options(parser: argparse.ArgumentParser, *only: str) -> None:
    """Which run it is and where things are; default all, for a command that reads all."""
    if not only or "seed" in only:
        parser.add_argument("--seed", type=_seed, default=0)
    for name, words in _PLACES.items():
        if not only or name in only:
            parser.add_argument(f"--{name}", default=None, metavar="DIR", help=words)


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text}")
    return number


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 2**32 - 1, not {text}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
