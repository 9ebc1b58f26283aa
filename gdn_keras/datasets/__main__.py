"""python -m gdn_keras.datasets: prepare, show, verify and make-stir."""

import argparse
import sys
from pathlib import Path

import numpy as np

from gdn_keras.datasets import (
    SIZE_FACTORS,
    load_samples,
    load_stir,
    make_stir,
    raw,
    tfds_builder,
)
from gdn_keras.datasets.figure import contact_sheet
from gdn_keras.datasets.raw import ENVIRONMENT_VARIABLE, data_folder
from gdn_keras.datasets.rescaled import REGULAR, RESCALINGS, check_size_factor, source_files
from gdn_keras.datasets.samples import STIR_INSTANCES, STIR_SIZES
from gdn_keras.datasets.stir import find_stir
from gdn_keras.datasets.verify import verify


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gdn_keras.datasets", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--data-dir", help=f"folder with the standard files (default: ${ENVIRONMENT_VARIABLE})"
    )

    prepare = commands.add_parser(
        "prepare", parents=[common], help="write a rescaled data set in the format of TFDS"
    )
    prepare.add_argument("name", choices=tuple(RESCALINGS))
    prepare.add_argument(
        "--size-factor", type=float, action="append", help="may be repeated (default: all nine)"
    )
    prepare.add_argument("--to", help="folder to write to (default: ~/tensorflow_datasets)")
    prepare.set_defaults(command=_prepare)

    show = commands.add_parser("show", parents=[common], help="draw a contact sheet")
    show.add_argument(
        "name",
        help=f"{', '.join((*RESCALINGS, *STIR_INSTANCES))} (images of the package; of STIR all "
        "sizes if there is a data folder), or a STIR file",
    )
    show.add_argument("--to", type=Path, help="figure to write (default: <name>.png)")
    show.add_argument("--image", type=int, default=0, help="which sample is shown at every size")
    show.set_defaults(command=_show)

    check = commands.add_parser("verify", parents=[common], help="check the files of a data folder")
    check.set_defaults(command=_verify)

    make = commands.add_parser("make-stir", help="make a STIR-like file from labelled photographs")
    make.add_argument("boxes", help="CSV file: file, split, label, left, top, right, bottom")
    make.add_argument("target", help="the .npz file to write")
    make.add_argument("--seed", type=int, default=0, help="of the random places (default: 0)")
    make.add_argument("--title", help="stored in the file")
    make.set_defaults(command=_make_stir)
    return parser


def _prepare(options) -> int:
    factors = [check_size_factor(factor) for factor in options.size_factor or SIZE_FACTORS]
    folder = data_folder(options.data_dir)
    if folder is not None:  # find out what is missing before any work is done
        for files in source_files(options.name):
            raw.find(*files, folder=folder)
    import tensorflow_datasets as tfds

    config = tfds.download.DownloadConfig(manual_dir=folder)
    for factor in factors:
        builder = tfds_builder(options.name, size_factor=factor, data_dir=options.to)
        builder.download_and_prepare(download_config=config)
        print(builder.data_dir)
    return 0


def _show(options) -> int:
    if options.name in RESCALINGS:
        figure = _show_rescaled(options.name, options.image)
    elif options.name in REGULAR:
        raise ValueError(f"Give a rescaled set, e.g. rescaled_{options.name}, a STIR name or file.")
    else:
        figure = _show_stir(options.name, options.image, options.data_dir)
    target = options.to or Path(f"{Path(options.name).stem}.png")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)
    print(target)
    return 0


def _show_rescaled(name: str, image: int):
    # As in the paper: CIFAR at size factor 2, where nothing is mirrored.
    at = 2.0 if name == "rescaled_cifar10" else 1.0
    samples = load_samples(name, size_factor=at)
    _check_image(image, len(samples))
    classes = [
        (label, samples.images[np.flatnonzero(samples.labels == number)[0]])
        for number, label in enumerate(samples.class_names)
    ]
    factors = [
        (f"{factor:.3g}", load_samples(name, size_factor=factor).images[image])
        for factor in SIZE_FACTORS
    ]
    return contact_sheet(
        classes, factors, title=f"{name}: classes at size factor {at:g}, one image at all factors"
    )


def _show_stir(name: str, image: int, data_dir):
    try:
        find_stir(name, data_dir=data_dir)
    except FileNotFoundError:
        if name not in STIR_INSTANCES:
            raise
        arrays, sizes = load_samples(name), STIR_SIZES
    else:
        arrays = load_stir(name, split="test", sizes="all", data_dir=data_dir)
        sizes = (17, 20, 24, 29, 34, 40, 46, 52, 58, 64)
    classes = [
        (label, arrays.images[np.flatnonzero(arrays.labels == number)[-1]])
        for number, label in enumerate(arrays.class_names)
    ]
    per_size = int((arrays.object_sizes == sizes[0]).sum())
    _check_image(image, per_size)
    one = [
        (f"{size} pixels", arrays.images[np.flatnonzero(arrays.object_sizes == size)[image]])
        for size in sizes
    ]
    title = f"{Path(name).stem}: the classes, one object at several sizes"
    return contact_sheet(classes, one, title=title)


def _check_image(image: int, count: int) -> None:
    if not 0 <= image < count:
        raise ValueError(f"--image must be in 0...{count - 1}. Received: {image}.")


def _verify(options) -> int:
    results = verify(options.data_dir, progress=True)
    for file, status in results.items():
        print(f"{file}: {status}")
    return 0 if set(results.values()) == {"ok"} else 1


def _make_stir(options) -> int:
    metadata = {"title": options.title} if options.title else None
    print(
        make_stir(
            options.boxes,
            target=options.target,
            seed=options.seed,
            metadata=metadata,
            progress=True,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
