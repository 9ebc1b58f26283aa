"""Export networks of the zoo: python -m export onnx | saved-model | litert NAME.

Every export is run and compared with Keras first; one that deviates leaves no file behind.
Exit codes: 0 done, 1 it could not be done (the reason is on stderr), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from gdn_keras import zoo

OUTPUT = Path("out") / "export"


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        args.run(args)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _onnx(args) -> None:
    from export.files import write_onnx

    write_onnx(
        _load(args),
        _target(args, "model.onnx"),
        info=zoo.info(args.name),
        opset=args.opset,
        with_scales=args.with_scales,
        dynamic_size=args.dynamic_size,
        uint8=args.uint8,
    )


def _saved_model(args) -> None:
    from export.files import write_saved_model

    write_saved_model(_load(args), _target(args, "saved_model"), info=zoo.info(args.name))


def _litert(args) -> None:
    from export.files import write_litert

    write_litert(_load(args), _target(args, "model.tflite"), info=zoo.info(args.name))


def _load(args):
    changes = {}
    if args.size:
        changes["input_size"] = args.size
    if args.exact:
        changes["sampling_density"] = None
    elif args.density is not None:
        changes["sampling_density"] = args.density
    return zoo.load(args.name, **changes)


def _target(args, default: str) -> Path:
    if args.output is not None:
        return Path(args.output)
    return OUTPUT / Path(args.name).name / default


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m export", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        command.add_argument("name", metavar="NAME", help="name, folder or hf://owner/repo")
        command.add_argument("-o", "--output", metavar="FILE", help=f"default: below {OUTPUT}")
        command.add_argument("--size", type=_size, metavar="HxW", help="another input size")
        group = command.add_mutually_exclusive_group()
        group.add_argument("--exact", action="store_true", help="compute every pixel")
        group.add_argument("--density", type=float, metavar="R", help="samples per sigma")
        return command

    command = add("onnx", _onnx, "write an ONNX file")
    command.add_argument("--opset", type=int, default=18, metavar="N")
    command.add_argument("--dynamic-size", action="store_true", help="any height and width")
    command.add_argument(
        "--with-scales", action="store_true", help="outputs scale_logits and selected_scale too"
    )
    command.add_argument("--uint8", action="store_true", help="input uint8 instead of float32")
    add("saved-model", _saved_model, "write a TensorFlow SavedModel")
    add("litert", _litert, "write a LiteRT (TensorFlow Lite) file")
    return parser


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"must be HEIGHTxWIDTH, like 64x48, not {text!r}")
    return int(match[1]), int(match[2])


if __name__ == "__main__":
    sys.exit(main())
