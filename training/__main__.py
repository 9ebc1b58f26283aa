"""Train, evaluate and publish the networks of the zoo: `python -m training`."""

import argparse
import sys
from pathlib import Path

from gdn_keras.utils.command_line import run_command
from gdn_keras.zoo.registry import checkout

from . import PROGRAM, commands
from .factory import commands as factory
from .options import RunOptions, Trial
from .parser import PLACES, make_parser
from .reproduction import commands as reproduction
from .runs import locking
from .runs.workspace import Workspace


def main(argv: list[str] | None = None) -> int:
    arguments = make_parser().parse_args(argv)
    resume = f"interrupted; {commands.RESUME_HINT}"
    return run_command(lambda: _call(arguments), interrupted=resume)


def _call(arguments: argparse.Namespace) -> int:
    try:
        return _COMMANDS[arguments.command](arguments, make_workspace(arguments))
    except locking.RunIsLocked as error:
        print(f"error: {error}", file=sys.stderr)
        return locking.LOCKED


# === From the command line to options ===


def make_workspace(arguments: argparse.Namespace) -> Workspace:
    given = vars(arguments)  # a command has only the options that it reads
    return Workspace.locate(**{name: given.get(name) for name in PLACES})


def make_trial(arguments: argparse.Namespace) -> Trial:
    return Trial(
        holdout=arguments.holdout, changes=tuple(arguments.set), then=tuple(arguments.then)
    )


def make_run_options(arguments: argparse.Namespace, **more) -> RunOptions:
    shared = ("seed", "budget", "precision", "devices", "jit", "start_from", "exact_phase")
    return RunOptions(**{name: getattr(arguments, name) for name in shared}, **more)


def _docs(arguments: argparse.Namespace) -> Path:
    if arguments.docs:
        return Path(arguments.docs)
    _need_clone(arguments)
    return reproduction.DOCS


def _need_clone(arguments: argparse.Namespace) -> None:
    if checkout() is None:
        raise ValueError(f"`{PROGRAM} {arguments.command}` is run from a clone, which has a zoo/.")


# === Commands ===


def _list(arguments, workspace) -> int:
    where = {"workspace": workspace, "seed": arguments.seed}
    if arguments.cost:
        return commands.list_costs(arguments.pattern, **where)
    return commands.list_recipes(arguments.pattern, **where, compare=_compare)


def _run(arguments, workspace) -> int:
    options = make_run_options(arguments, trial=make_trial(arguments), more=arguments.more)
    return commands.run(arguments.name, workspace=workspace, options=options)


def _queue(arguments, workspace) -> int:
    return commands.queue(
        arguments.names,
        workspace=workspace,
        options=make_run_options(arguments),
        compare=_compare,
        hours=arguments.hours,
        nice=arguments.nice,
    )


def _evaluate(arguments, workspace) -> int:
    return commands.evaluate(
        arguments.name,
        workspace=workspace,
        seed=arguments.seed,
        trial=make_trial(arguments),
        modes=("trained", *("exact",) * arguments.exact, *("matched",) * arguments.matched),
        limit=arguments.limit,
    )


def _publish(arguments, workspace) -> int:
    return commands.publish(
        arguments.name, workspace=workspace, seed=arguments.seed, compare=_compare
    )


def _sweep(arguments, workspace) -> int:
    _need_clone(arguments)
    return factory.sweep(
        arguments.group,
        workspace=workspace,
        options=make_run_options(arguments, trial=make_trial(arguments)),
        compare=_compare,
        report=lambda where, docs: reproduction.report(where, docs=docs),
        storage=arguments.storage,
        address=arguments.address,
        workers=arguments.workers,
        cpus=arguments.cpus,
        gpus=arguments.gpus,
        tflops=arguments.rate,
        dry_run=arguments.dry_run,
    )


def _results(arguments, _) -> int:
    _need_clone(arguments)
    return commands.results(check=arguments.check)


def _compare(recipe):
    from .reproduction.comparison import compare

    return compare(recipe)


_COMMANDS = {
    "list": _list,
    "run": _run,
    "queue": _queue,
    "evaluate": _evaluate,
    "publish": _publish,
    "sweep": _sweep,
    "results": _results,
    "cards": lambda _, where: commands.cards(workspace=where, compare=_compare),
    "report": lambda arguments, where: reproduction.report(where, docs=_docs(arguments)),
    "gallery": lambda arguments, where: reproduction.gallery(
        arguments.names, workspace=where, docs=_docs(arguments)
    ),
    "statistics": lambda arguments, where: reproduction.statistics(
        arguments.file, workspace=where, keep=arguments.keep
    ),
    "verify": lambda arguments, where: reproduction.verify(
        arguments.name,
        workspace=where,
        sizes=arguments.sizes,
        limit=arguments.limit,
        samples=arguments.samples,
    ),
}


if __name__ == "__main__":
    sys.exit(main())
