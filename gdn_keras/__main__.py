"""The command line: list, look up, use, verify and measure networks, and train your own.

Exit codes: 0 done, 1 failed (the reason is on stderr), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gdn_keras import classify, datasets, zoo
from gdn_keras.config import EVERY_PIXEL, POOLINGS
from gdn_keras.datasets.sources import KINDS_OF_DATA
from gdn_keras.parts import load_part
from gdn_keras.scale_space import JET_ORDERS, METHODS
from gdn_keras.utils.command_line import POSITIVE, SEED, run_command
from gdn_keras.utils.deprecation import RenamedOption
from gdn_keras.utils.image_files import find_images

# command lines of their own, with all that follows
PARTS = {
    "export": ("export.__main__", "write ONNX, SavedModel or LiteRT, publish on the Hub, a page"),
    "training": ("training.__main__", "train, evaluate and publish the networks of the paper"),
    "datasets": ("gdn_keras.datasets.__main__", "prepare, show and verify data sets"),
}


def main(argv: Sequence[str] | None = None) -> int:
    if argv is None:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # tidy up then, too
    argv = sys.argv[1:] if argv is None else list(argv)
    if argv and argv[0] in PARTS:
        return load_part(PARTS[argv[0]][0]).main(argv[1:])
    args = _parser().parse_args(argv)
    return run_command(lambda: args.run(args))


def _list(args) -> int:
    names = zoo.list_models(
        args.pattern,
        dataset=args.dataset,
        scale_pooling=args.scale_pooling,
        jet_order=args.jet_order,
        method=args.method,
        trained=not args.all,
        min_accuracy=args.min_accuracy,
    )
    known_models, _ = zoo.known_models()
    infos = [known_models[name] for name in names]
    if args.json:
        _print_json([info.to_dict() for info in infos])
        return 0
    if not infos:
        print("no networks found; --all also lists configurations without weights", file=sys.stderr)
        return 0
    width = max(len(name) for name in names)
    print(f"{'name':<{width}}  {'data set':<33}  {'parameters':>10}  {'mean accuracy':>13}")
    for info in infos:
        mean = "" if info.mean_accuracy is None else f"{info.mean_accuracy:.2%}"
        print(f"{info.name:<{width}}  {info.dataset:<33}  {info.parameters:>10,}  {mean:>13}")
    return 0


def _info(args) -> int:
    info = zoo.info(args.name, offline=args.offline or None)
    if args.json:
        _print_json(info.to_dict())
    else:
        print(info)
    return 0


def _predict(args) -> int:
    info = zoo.info(args.name, offline=args.offline or None)
    trained = dict(dataset=info.dataset, train_sizes=info.train_sizes)
    images, errors = [], []
    for path in args.images:
        files = find_images(Path(path)) if os.path.isdir(path) else [path]
        if not files:
            errors.append(f"{path} is a folder without image files.")
        for file in files:
            try:
                image = classify.read_image(file, config=info.config, fit=args.fit, **trained)
                images.append(image)
            except (ValueError, OSError) as error:
                errors.append(error)
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    if not images:
        return 1
    model = zoo.load(args.name, offline=args.offline or None)
    pixels = np.stack([image.pixels for image in images])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        predictions = classify.classify(model, pixels, top=args.top)
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    if args.json:
        _print_json([_as_json(*pair) for pair in zip(images, predictions, strict=True)])
    else:
        for image, prediction in zip(images, predictions, strict=True):
            _print_prediction(image, prediction)
    if args.figure:
        path = Path(args.figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        classify.draw(model, images, predictions).savefig(path, dpi=200)
        print(f"figure: {path}", file=sys.stderr)
    return int(bool(errors))


def _print_prediction(image, prediction) -> None:
    print(f"{image.path}  ({image.how})")
    for _, name, probability in prediction.classes:
        print(f"  {probability:7.2%}  {name}")
    share = f"{prediction.shares[prediction.channel]:.0%} of the output"
    print(f"  sigma {prediction.sigma:.3g}: {share} (scale channel {prediction.channel})")


def _as_json(image, prediction) -> dict:
    return {
        "file": image.path,
        "fitted": image.how,
        "classes": [
            {"index": index, "name": name, "probability": probability}
            for index, name, probability in prediction.classes
        ],
        "scale_channel": prediction.channel,
        "sigma": prediction.sigma,
        "scale_shares": prediction.shares,
    }


def _verify(args) -> int:
    deviation = zoo.verify(args.name, key=args.key, offline=args.offline or None)
    signed = "the signature is right, " if args.key else ""
    print(
        f"{args.name}: {signed}all hashes agree; logits differ from the published ones by "
        f"{deviation:.1e}"
    )
    return 0


def _download(args) -> int:
    path = zoo.download(
        args.name, revision=args.revision, cache_dir=args.cache_dir, force=args.force
    )
    print(path)
    return 0


def _train(args) -> int:
    own = load_part("training.own")
    look = {name: getattr(args, name) for name in ("canvas", "side", "surroundings", "channels")}
    options = own.OwnOptions(
        like=args.like,
        start_from=args.start_from,
        seed=args.seed,
        epochs=args.epochs,
        flip=args.flip,
        name=args.name,
        look=look,
    )
    return own.train_own(args.data, args.output, options=options)


def _evaluate(args) -> int:
    from gdn_keras.accuracy import evaluate, open_data, size_keys

    info = zoo.info(args.name, offline=args.offline or None)
    if args.data is not None:
        open_data(args.name, args.data, offline=args.offline or None)
        args.size = args.size or (None if args.sizes else [1.0])
    size_keys(info.dataset, args.size)  # a wrong size is reported before the network is loaded
    density = EVERY_PIXEL if args.exact else {}
    model = zoo.load(args.name, offline=args.offline or None, **density)
    measured = evaluate(
        model,
        dataset=info.dataset,
        sizes=args.size,
        data_dir=args.data_dir,
        limit=args.limit,
        batch_size=args.batch_size,
    )
    if args.sizes or args.figure:
        _draw_sizes(measured, info=info, path=Path(args.figure or f"{info.name}_sizes.png"))
    published = (info.exact_accuracy if args.exact else info.accuracy) or {}
    if args.json:
        _print_json(
            {
                size: {"accuracy": a, "published": published.get(size)}
                for size, a in measured.items()
            }
        )
        return 0
    print(f"{'size':>8}  {'accuracy':>8}  {'published':>9}")
    for size, accuracy in measured.items():
        stated = f"{published[size]:.2%}" if size in published else ""
        print(f"{size:>8}  {accuracy:8.2%}  {stated:>9}")
    print(f"{'mean':>8}  {np.mean(list(measured.values())):8.2%}")
    return 0


def _draw_sizes(measured: dict[str, float], *, info, path: Path) -> None:
    from gdn_keras import plots

    sizes = datasets.get(info.dataset).sizes
    curve = {sizes.value(key): 100 * accuracy for key, accuracy in measured.items()}
    figure, axes = plots.new_figure(height=60)
    plots.plot_accuracy({info.name: curve}, axes[0, 0], sizes=sizes, train_sizes=info.train_sizes)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=200)
    print(f"figure: {path}", file=sys.stderr)


def _print_json(data) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gdn_keras", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    command = add("list", _list, "list networks")
    command.add_argument("pattern", nargs="?", help='with wildcards, in quotes: "fashion_*"')
    command.add_argument("--dataset")
    options = {
        ("scale_pooling", "--pooling"): {"choices": (*POOLINGS, "single")},
        ("jet_order", "--jet"): {"choices": JET_ORDERS, "type": int},
        ("method", "--kernel"): {"choices": METHODS},
    }
    for (field, old), values in options.items():
        command.add_argument(f"--{field.replace('_', '-')}", **values)
        command.add_argument(old, dest=field, action=RenamedOption, **values)
    command.add_argument("--min-accuracy", type=float, help="mean over all sizes, 0…1")
    command.add_argument("--all", action="store_true", help="also configurations without weights")
    command.add_argument("--json", action="store_true")

    command = add("info", _info, "show the record of a network")
    _add_name(command)
    _add_offline(command)
    command.add_argument("--json", action="store_true")

    text = "classify image files, or all in a folder; scale channels and classes count from 0"
    command = add("predict", _predict, text)
    _add_name(command)
    command.add_argument("images", nargs="+", metavar="IMAGE")
    command.add_argument(
        "--fit",
        choices=classify.FITS,
        default="trained",
        help="; ".join(f"{fit}: {text}" for fit, text in classify.FITS.items())
        + " (default: %(default)s)",
    )
    command.add_argument("--top", type=POSITIVE, default=3, help="how many classes")
    command.add_argument("--figure", metavar="FILE", help="write a picture (.png, .pdf, .svg)")
    _add_offline(command)
    command.add_argument("--json", action="store_true")

    text = (
        "compare the files of a network with their hashes, and its logits with the published ones"
    )
    command = add("verify", _verify, text)
    _add_name(command)
    command.add_argument(
        "--key",
        metavar="PUBLIC_KEY",
        help="a PEM file: also check that this key has signed the network",
    )
    _add_offline(command)

    command = add("download", _download, "download a network; prints its folder")
    _add_name(command)
    command.add_argument("--revision", help="branch, tag or commit on the Hub")
    command.add_argument("--cache-dir")
    command.add_argument(
        "--force", action="store_true", help="even if it is already on this machine"
    )

    command = add("evaluate", _evaluate, "measure the accuracy on test images of every size")
    _add_name(command)
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--size", action="append", type=float, help="size factor or object size; may be repeated"
    )
    which.add_argument("--sizes", action="store_true", help="every size, and the curve as a figure")
    command.add_argument("--figure", metavar="FILE", help="default with --sizes: NAME_sizes.png")
    command.add_argument(
        "--data", metavar="DATA", help=f"what it was trained on: {KINDS_OF_DATA}; at size factor 1"
    )
    command.add_argument("--limit", type=POSITIVE, help="maximum number of images of each size")
    command.add_argument(
        "--exact", action="store_true", help="compute every pixel, as the paper does"
    )
    command.add_argument("--data-dir", help="folder with the data sets (default: GDN_KERAS_DATA)")
    command.add_argument("--batch-size", type=POSITIVE, default=32)
    _add_offline(command, "never use the internet for the network")
    command.add_argument("--json", action="store_true")

    text = "train a network on images of your own, or resume; writes a folder like those of the zoo"
    command = add("train", _train, text)
    command.add_argument("data", metavar="DATA", help=KINDS_OF_DATA)
    command.add_argument("-o", "--output", required=True, metavar="FOLDER", help="to be written")
    command.add_argument(
        "--like", metavar="NAME", help="the recipe to follow; default: that of --from"
    )
    command.add_argument(
        "--from", dest="start_from", metavar="NAME", help="start from the weights of this network"
    )
    command.add_argument("--name", help="of the data set; default: from DATA")
    command.add_argument("--canvas", type=POSITIVE, help="height and width of the images")
    command.add_argument("--side", type=POSITIVE, help="longer side of an object on it")
    command.add_argument("--surroundings", choices=("black", "mirrored"))
    for option, american, channels in (("--grey", "--gray", 1), ("--colour", "--color", 3)):
        into = {"dest": "channels", "action": "store_const", "const": channels}
        command.add_argument(option, **into)
        command.add_argument(american, **into, help=argparse.SUPPRESS)
    command.add_argument(
        "--flip",
        action=argparse.BooleanOptionalAction,
        help="exchange left and right in half of the images",
    )
    command.add_argument(
        "--epochs", type=POSITIVE, help="of the second stage; the first has eight times as many"
    )
    command.add_argument("--seed", type=SEED, default=0)

    for name, (_, text) in PARTS.items():  # for --help; `main` runs them
        commands.add_parser(name, help=f"{text}; see {name} --help")
    return parser


def _add_name(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="name, folder or hf://owner/repo[@revision]")


def _add_offline(command: argparse.ArgumentParser, text: str = "never use the internet") -> None:
    command.add_argument("--offline", action="store_true", help=text)


if __name__ == "__main__":
    sys.exit(main())
