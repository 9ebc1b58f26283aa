"""Train, evaluate and publish the networks of the zoo.

    python -m training list
    python -m training run fashion_avg_2jet --seed 0
    python -m training queue fashion_single_2jet fashion_avg_2jet --hours 2
    python -m training evaluate fashion_avg_2jet
    python -m training publish fashion_avg_2jet
    python -m training sweep 'fashion28_*' --engine ray
    python -m training report

Data: the folder in GDN_KERAS_DATA, or `--data`. Runs: GDN_KERAS_RUNS, or a folder in the user's
cache; a run that was stopped goes on where it was.
"""

import argparse
import sys

from training import commands


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub = parser.add_subparsers(dest="command", required=True)

    listing = sub.add_parser("list", help="all recipes: status, the paper's number and ours")
    listing.add_argument("pattern", nargs="?", default="*", help="shell pattern, e.g. 'cifar_*'")
    _place_options(listing)

    run = sub.add_parser("run", help="train one recipe, or go on with it")
    run.add_argument("name")
    _training_options(run)
    _trial_options(run)

    queue = sub.add_parser("queue", help="train, evaluate and publish recipes one after another")
    queue.add_argument("names", nargs="*", help="default: the order of the first checkpoints")
    queue.add_argument("--hours", type=float, default=None, help="stop cleanly after this time")
    queue.add_argument("--nice", type=int, default=0, help="lower the priority by this")
    _training_options(queue)

    evaluate = sub.add_parser("evaluate", help="accuracy at all sizes on the full test set")
    evaluate.add_argument("name")
    evaluate.add_argument("--exact", action="store_true", help="also on every pixel")
    _place_options(evaluate)

    publish = sub.add_parser("publish", help="write zoo/NAME from a finished, evaluated run")
    publish.add_argument("name")
    _place_options(publish)

    sweep = sub.add_parser("sweep", help="train many recipes at once")
    sweep.add_argument("pattern", help="shell pattern of recipe names")
    sweep.add_argument("--engine", choices=("local", "ray"), default="local")
    sweep.add_argument("--workers", type=int, default=2, help="recipes at the same time")
    sweep.add_argument("--cluster", default=None, help="address of a Ray cluster, else one here")
    _training_options(sweep)
    _trial_options(sweep)

    report = sub.add_parser("report", help="write docs/REPRODUCTION.md from zoo/")
    report.add_argument("--docs", default=None, metavar="DIR")
    _place_options(report)

    arguments = parser.parse_args(argv)
    command = "list_recipes" if arguments.command == "list" else arguments.command
    try:
        return getattr(commands, command)(arguments)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _training_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget", choices=("paper", "cpu"), default="cpu")
    parser.add_argument(
        "--precision",
        choices=("auto", "float32", "mixed_bfloat16", "mixed_float16"),
        default="auto",
        help="auto: mixed_bfloat16 where the processor has it and the budget is cpu",
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


def _place_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--zoo", default=None, metavar="DIR", help="default: zoo/ of the checkout")
    parser.add_argument("--data", default=None, metavar="DIR")
    parser.add_argument("--runs", default=None, metavar="DIR")


if __name__ == "__main__":
    sys.exit(main())
