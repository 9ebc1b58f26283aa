"""Export networks of the zoo. Every export is run and compared with Keras before it is kept.

examples:
  python -m export onnx cifar_avg_2jet
  python -m export onnx cifar_avg_2jet --with-scales --exact --dynamic-size -o any_size.onnx
  python -m export onnx cifar_avg_2jet --quantise int8
  python -m export saved-model cifar_avg_2jet
  python -m export litert cifar_avg_2jet
  python -m export hub cifar_avg_2jet --repo OWNER/cifar_avg_2jet --dry-run
  python -m export page --serve
  python -m export space OWNER/NAME
  python -m export all
  python -m export sign zoo/cifar_avg_2jet --key private.pem

NAME is a network of the zoo, a zoo folder or hf://owner/repo. Exit codes: 0 done, 1 failed
(the reason is on stderr), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gdn_keras import zoo
from gdn_keras.accuracy import open_data
from gdn_keras.config import EVERY_PIXEL
from gdn_keras.datasets.sources import KINDS_OF_DATA
from gdn_keras.utils.command_line import PORT, run_command
from gdn_keras.zoo.hub_download import check_repo

from . import DEFAULT_OPSET, PROGRAM
from .errors import EXPECTED, missing_packages_named
from .page import DEFAULT_NAMES, choose

OUTPUT = Path("out") / "export"
PAGE = Path("out") / "page"
DEFAULT_PORT = 8000


# Functions import what needs Keras after the arguments are checked: it takes seconds to load.


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)

    def run() -> int | None:
        with missing_packages_named():
            return args.run(args)

    resume = "interrupted; the same command continues from here"
    return run_command(run, expected=EXPECTED, interrupted=resume)


def _onnx(args) -> None:
    options = {"opset": args.opset, "with_scales": args.with_scales, "uint8": args.uint8}
    if args.calibrate and not args.quantise:
        raise ValueError("`--calibrate` needs `--quantise int8`.")
    if args.data and not args.quantise:
        raise ValueError("`--data` needs `--quantise int8`.")
    if args.quantise and args.dynamic_size:
        raise ValueError("`--quantise` needs one size; it cannot go with `--dynamic-size`.")
    info = zoo.info(args.name)
    if args.data:
        open_data(args.name, args.data)
    from .graph import check_opset

    check_opset(args.opset)
    model = _load(args)
    if args.quantise:
        from .quantisation.quantise import INT8_FILE, write_int8

        target = _target(args, INT8_FILE)
        write_int8(model, target, info=info, calibrate=args.calibrate, **options)
    else:
        from .files import write_onnx

        target = _target(args, "model.onnx")
        write_onnx(model, target, info=info, dynamic_size=args.dynamic_size, **options)


def _saved_model(args) -> None:
    model = _load(args)
    from .files import write_saved_model

    write_saved_model(model, _target(args, "saved_model"), info=zoo.info(args.name))


def _litert(args) -> None:
    model = _load(args)
    from .files import write_litert

    write_litert(model, _target(args, "model.tflite"), info=zoo.info(args.name))


def _hub(args) -> None:
    check_repo(args.repo)
    folder = zoo.read_folder(zoo.download(args.name))
    from .hub import upload

    publish = upload.dry_run if args.dry_run else upload.publish
    publish(
        folder,
        _target(args, "hub"),
        repo=args.repo,
        private=args.private,
        exports=OUTPUT / Path(args.name).name,
    )


def _page(args) -> None:
    infos = choose(args.names)
    from .page import build, space

    folder = space.build(args.names, infos, Path(args.output), webgpu=args.webgpu)
    print(f"{folder}: any web server can serve it; `--serve` does, too")
    if args.serve is not None:
        build.serve(folder, port=args.serve)


def _space(args) -> None:
    check_repo(args.repo)
    infos = choose(args.names)
    from .hub.upload import need_token
    from .page import space

    if args.publish:
        need_token()  # before the work is done
    folder = space.build(args.names, infos, Path(args.output), webgpu=args.webgpu)
    publish = space.publish if args.publish else space.dry_run
    publish(folder, repo=args.repo, private=args.private)


def _all(args) -> int:
    if args.owner is not None:
        check_repo(f"{args.owner}/name")
    from .everything import export_all

    return export_all(OUTPUT, owner=args.owner, private=args.private, force=args.force)


def _sign(args) -> None:
    print(zoo.sign(zoo.download(args.name), key=args.key))


def _table(args) -> None:
    from .quantisation import table

    table.update(OUTPUT)


def _load(args):
    changes = {}
    if args.size:
        changes["input_size"] = args.size
    if args.exact:
        changes |= EVERY_PIXEL
    elif args.density is not None:
        changes["sampling_density"] = args.density
    return zoo.load(args.name, **changes)


def _target(args, default: str) -> Path:
    if args.output is not None:
        return Path(args.output)
    return OUTPUT / Path(args.name).name / default


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=__doc__.replace("python -m export", PROGRAM),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run, text: str, example: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=text,
            description=text,
            epilog=f"example: {PROGRAM} {name} {example}",
        )
        command.set_defaults(run=run)
        return command

    def add_format(name: str, run, text: str, example: str = "") -> argparse.ArgumentParser:
        command = add(name, run, text, f"cifar_avg_2jet {example}")
        command.add_argument("name", metavar="NAME", help="name, folder or hf://owner/repo")
        command.add_argument("-o", "--output", metavar="FILE", help=f"default: below {OUTPUT}")
        command.add_argument("--size", type=_size, metavar="HxW", help="another input size")
        group = command.add_mutually_exclusive_group()
        group.add_argument(
            "--exact", action="store_true", help="compute every pixel, as the paper does"
        )
        group.add_argument("--density", type=float, metavar="R", help="samples per sigma")
        return command

    command = add_format("onnx", _onnx, "write an ONNX file", "--with-scales --exact --size 96x128")
    command.add_argument(
        "--opset", type=int, default=DEFAULT_OPSET, metavar="N", help="default: %(default)s"
    )
    command.add_argument(
        "--dynamic-size",
        action="store_true",
        help="any height and width; needs --exact, not for mirror padding",
    )
    command.add_argument(
        "--with-scales", action="store_true", help="outputs scale_logits and selected_scale too"
    )
    command.add_argument("--uint8", action="store_true", help="input uint8 instead of float32")
    command.add_argument(
        "--quantise",
        choices=["int8"],
        help="8-bit integers; kept only if it loses at most 1 percentage point at every size of "
        "the whole test set, which must be in the folder GDN_KERAS_DATA",
    )
    command.add_argument("--quantize", dest="quantise", choices=["int8"], help=argparse.SUPPRESS)
    command.add_argument(
        "--calibrate",
        nargs="+",
        default=(),
        metavar="PATH",
        help="images, or folders of them, for --quantise; default: the bundled samples",
    )
    command.add_argument(
        "--data",
        metavar="DATA",
        help=f"for --quantise, what a network of your own was trained on: {KINDS_OF_DATA}",
    )
    add_format("saved-model", _saved_model, "write a TensorFlow SavedModel")
    add_format("litert", _litert, "write a LiteRT (TensorFlow Lite) file")

    example = "cifar_avg_2jet --repo OWNER/cifar_avg_2jet --dry-run"
    command = add("hub", _hub, "upload to the Hugging Face Hub", example)
    command.add_argument("name", metavar="NAME", help="name or zoo folder")
    command.add_argument("--repo", required=True, metavar="OWNER/NAME")
    command.add_argument("--dry-run", action="store_true", help="write the folder, send nothing")
    command.add_argument("--private", action="store_true", help="a private repository")
    command.add_argument("-o", "--output", metavar="FOLDER", help=f"default: below {OUTPUT}")

    def add_names(command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "names",
            nargs="*",
            default=DEFAULT_NAMES,
            metavar="NAME",
            help=f"networks of rescaled data sets; default: {' '.join(DEFAULT_NAMES)}",
        )
        command.add_argument("-o", "--output", default=PAGE, metavar="DIR", help=f"default: {PAGE}")
        command.add_argument(
            "--webgpu",
            action="store_true",
            help="use the visitor's GPU where it agrees with wasm and is faster (27 MB more)",
        )

    text = "write a folder with a page that runs networks in the browser"
    command = add("page", _page, text, "fashion_single_2jet fashion_avg_2jet --serve")
    add_names(command)
    command.add_argument(
        "--serve",
        nargs="?",
        type=PORT,
        const=DEFAULT_PORT,
        metavar="PORT",
        help=f"then serve it on this machine; default port: {DEFAULT_PORT}",
    )
    text = "the same page as a static Space on the Hugging Face Hub; without --publish a dry run"
    command = add("space", _space, text, "OWNER/NAME --publish")
    command.add_argument("repo", metavar="OWNER/NAME")
    add_names(command)
    command.add_argument("--publish", action="store_true", help="send it")
    command.add_argument("--private", action="store_true", help="a private Space")

    text = "every format and the Hub, for every folder in zoo/; continues after an interruption"
    command = add("all", _all, text, "--owner OWNER")
    command.add_argument(
        "--owner", metavar="OWNER", help="upload to OWNER/NAME; default: only write the folders"
    )
    command.add_argument("--private", action="store_true", help="private repositories")
    command.add_argument("--force", action="store_true", help="also exports that are already done")

    text = "sign a zoo folder, for `python -m gdn_keras verify NAME --key PUBLIC_KEY`"
    command = add("sign", _sign, text, "zoo/cifar_avg_2jet --key private.pem")
    command.add_argument("name", metavar="NAME", help="name or zoo folder")
    command.add_argument(
        "--key", required=True, metavar="PRIVATE_KEY", help="of an elliptic curve, a PEM file"
    )

    text = "the table of docs/export.md, from the int8 reports of the networks in zoo/"
    add("table", _table, text, "")
    return parser


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"must be HEIGHTxWIDTH, like 64x48, not {text!r}")
    return int(match[1]), int(match[2])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # tidy up then, too
    sys.exit(main())
