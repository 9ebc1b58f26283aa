"""The command line of `python -m training`: its commands, options and examples."""

import argparse
from collections.abc import Iterable

from gdn_keras.utils.command_line import POSITIVE, SEED
from gdn_keras.utils.deprecation import RenamedOption

from . import PROGRAM

DESCRIPTION = """Train, evaluate and publish the networks of the zoo.

Data: the folder in GDN_KERAS_DATA, or `--data-dir`. Runs: GDN_KERAS_RUNS, or a folder in the user's
cache. To resume a run that was stopped by a signal, a kill or a power cut, run the same command.

Exit codes: 0 done, 1 an error, 2 a mistake in the command, 3 stopped on request, 4 another process
is working on the same run, 130 interrupted.
"""
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
        "python -m training sweep --all --budget paper --dry-run",
        "python -m training sweep --all --budget paper --address auto --storage s3://bucket/zoo",
        "python -m training sweep 'stir_*' --address auto --storage /shared/runs",
        "python -m training sweep fashion28 --workers 2      # on this machine",
    ),
    "report": ("python -m training report",),
    "results": ("python -m training results", "python -m training results --check"),
    "cards": ("python -m training cards",),
    "gallery": ("python -m training gallery", "python -m training gallery filters_2jet"),
    "verify": (
        "python -m training verify fashion28_discrete_s1p00",
        "python -m training verify fashion_avg_2jet --sizes 0.5 1 2 --limit 1000",
        "python -m training verify fashion_avg_2jet --samples     # without any data",
    ),
    "statistics": (
        "python -m training statistics --keep",
        "python -m training statistics runs.csv",
    ),
}
_DOCS = "default: docs/ of the checkout"
PLACES = {
    "zoo": "default: zoo/ of the checkout, or of the current folder if there is none",
    "data_dir": "folder with the data sets; default: GDN_KERAS_DATA",
    "runs": "default: GDN_KERAS_RUNS",
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=_examples(lines[0] for lines in EXAMPLES.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub = parser.add_subparsers(dest="command", required=True)

    def add(name: str, what: str) -> argparse.ArgumentParser:
        return sub.add_parser(
            name,
            help=what,
            description=what[0].upper() + what[1:] + ".",
            epilog=_examples(EXAMPLES[name]),
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

    run = add("run", "train one recipe, or resume it")
    run.add_argument("name")
    run.add_argument(
        "--more",
        type=_positive,
        default=None,
        metavar="EPOCHS",
        help="train the network of the zoo further: repeat its last stage at half the rate",
    )
    _training_options(run)
    _trial_options(run)

    queue = add("queue", "train, evaluate and publish recipes one after another")
    queue.add_argument(
        "names", nargs="*", help="default: those in progress, the first checkpoints, all others"
    )
    queue.add_argument(
        "--hours", type=float, default=None, help="stop cleanly after that many hours"
    )
    queue.add_argument("--nice", type=int, default=0, help="lower the priority by that much")
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
        "--limit", type=POSITIVE, default=None, metavar="N", help="only N images; with --holdout"
    )
    _place_options(evaluate)
    _trial_options(evaluate)

    publish = add("publish", "write zoo/NAME from a finished, evaluated run")
    publish.add_argument("name")
    _place_options(publish, "seed", "zoo", "runs")

    sweep = add("sweep", "train, evaluate and publish many recipes at once, on a Ray cluster")
    which = sweep.add_mutually_exclusive_group(required=True)
    which.add_argument("group", nargs="?", help="a group, or a pattern of names")
    which.add_argument("--all", action="store_true", help="every recipe whose data can be had")
    sweep.add_argument(
        "--dry-run", action="store_true", help="only print the plan: runs, dependencies, hours"
    )
    sweep.add_argument(
        "--rate",
        type=float,
        default=10.0,
        metavar="TFLOPS",
        help="what a GPU sustains, for the hours of --dry-run; default: 10",
    )
    sweep.add_argument(
        "--storage",
        default=None,
        metavar="DIR|URL",
        help="where state, runs and networks are kept: a folder that all machines share, or any "
        "URL of fsspec; default: GDN_KERAS_RUNS",
    )
    sweep.add_argument("--runs", action=RenamedOption, dest="storage")
    sweep.add_argument(
        "--address", default=None, help="of the cluster; default: a new one of this machine"
    )
    sweep.add_argument("--cluster", action=RenamedOption, dest="address")
    sweep.add_argument(
        "--workers",
        type=POSITIVE,
        default=None,
        help="largest number of jobs at a time; default: as many as there is room for",
    )
    sweep.add_argument("--cpus", type=POSITIVE, default=1, help="CPUs of a job, and its threads")
    sweep.add_argument(
        "--gpus",
        type=float,
        default=None,
        help="GPUs of a job, or the share of one; default: 1, for small networks 0.25",
    )
    _training_options(sweep, "seed", "data_dir")
    _trial_options(sweep)

    report = add("report", "write docs/REPRODUCTION.md from zoo/")
    report.add_argument("--docs", default=None, metavar="DIR", help=_DOCS)
    _place_options(report, "zoo", "runs")

    results = add(
        "results", "bring zoo/registry.json, zoo/results.csv and the tables of networks up to date"
    )
    results.add_argument("--check", action="store_true", help="write nothing; exit with 1 if stale")

    cards = add("cards", "write the cards of all networks of zoo/ again, from their records")
    _place_options(cards, "zoo")

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
    verify.add_argument(
        "--limit", type=POSITIVE, default=None, metavar="N", help="only N images a size"
    )
    verify.add_argument(
        "--samples", action="store_true", help="the images of the package; needs no data"
    )
    _place_options(verify, "zoo", "data_dir")

    statistics = add("statistics", "the tables of appendix A.3, from runs with several seeds")
    statistics.add_argument(
        "file",
        nargs="?",
        help="a CSV with the columns method, setting, run, accuracy; default: the networks of zoo/ "
        "and the runs on this machine",
    )
    statistics.add_argument(
        "--keep",
        action="store_true",
        help="also write the accuracies of repeated runs to the zoo, for the report",
    )
    _place_options(statistics, "zoo", "runs")
    return parser


def _examples(lines: Iterable[str]) -> str:
    text = "examples:\n" + "\n".join(f"  {line}" for line in lines)
    return text.replace("python -m training", PROGRAM)


def _training_options(parser: argparse.ArgumentParser, *places: str) -> None:
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
        help="auto: mixed precision if the GPU (for the cpu budget, the CPU) is faster with it",
    )
    parser.add_argument(
        "--from",
        dest="start_from",
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
        help="epochs on every pixel at the end of the cpu budget",
    )
    parser.add_argument(
        "--devices", type=POSITIVE, default=1, help="number of devices that share every batch"
    )
    parser.add_argument(
        "--jit",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="compile the step with XLA; default: on a GPU, and always with JAX",
    )
    _place_options(parser, *places)


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
        help="one more stage for a trial, like the last one except for this setting: "
        "--then sampling_density=null --then epochs=0.1",
    )


def _place_options(parser: argparse.ArgumentParser, *only: str) -> None:
    """The seed of a run and the folders; by default all of them, or only those that are read."""
    if not only or "seed" in only:
        parser.add_argument("--seed", type=SEED, default=0)
    for name, default in PLACES.items():
        if not only or name in only:
            option = f"--{name.replace('_', '-')}"
            parser.add_argument(option, default=None, metavar="DIR", help=default)
    if not only or "data_dir" in only:
        parser.add_argument("--data", action=RenamedOption, dest="data_dir")


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, not {text}")
    return number
