"""python -m gdn_keras.datasets: prepare, show, verify and make-stir."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gdn_keras.datasets import DataSet, make_stir, sets, tfds_builder
from gdn_keras.datasets.arrays import Arrays
from gdn_keras.datasets.dataset import shown_sizes
from gdn_keras.datasets.raw import ENVIRONMENT_VARIABLE, data_folder
from gdn_keras.datasets.rescaled import rescaled_sets
from gdn_keras.datasets.samples import sets_with_samples
from gdn_keras.datasets.stir import STIR_SIZES, StirFile
from gdn_keras.datasets.verify import verify
from gdn_keras.utils.checks import did_you_mean
from gdn_keras.utils.command_line import SEED, run_command, whole_number


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return run_command(lambda: options.command(options))


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
    prepare.add_argument("name", choices=tuple(rescaled_sets()))
    prepare.add_argument(
        "--size-factor", type=float, action="append", help="may be repeated (default: all nine)"
    )
    prepare.add_argument("--to", help="folder to write to (default: ~/tensorflow_datasets)")
    prepare.set_defaults(command=_prepare)

    show = commands.add_parser("show", parents=[common], help="draw a contact sheet")
    several = [name for name, d in sets_with_samples().items() if len(d.sizes.keys) > 1]
    show.add_argument(
        "name",
        help=f"{', '.join(several)} (images of the package; of STIR all sizes if there is a data "
        "folder), or a STIR file",
    )
    show.add_argument("--to", type=Path, help="figure to write (default: <name>.png)")
    show.add_argument(
        "--image", type=whole_number(), default=0, help="which sample is shown at every size"
    )
    show.set_defaults(command=_show)

    check = commands.add_parser("verify", parents=[common], help="check the files of a data folder")
    check.set_defaults(command=_verify)

    make = commands.add_parser("make-stir", help="make a STIR-like file from labelled photographs")
    make.add_argument("boxes", help="CSV file: file, split, label, left, top, right, bottom")
    make.add_argument("target", help="the .npz file to write")
    make.add_argument("--seed", type=SEED, default=0, help="of the random places (default: 0)")
    make.add_argument("--title", help="stored in the file")
    make.set_defaults(command=_make_stir)
    return parser


def _prepare(options) -> int:
    dataset = sets.get(options.name)
    factors = [dataset.sizes.check(f) for f in options.size_factor or dataset.sizes.values]
    folder = data_folder(options.data_dir)
    if folder is not None:  # find out what is missing before any work is done
        dataset.loader.source.find_all(folder)
    import tensorflow_datasets as tfds

    config = tfds.download.DownloadConfig(manual_dir=folder)
    for factor in factors:
        builder = tfds_builder(options.name, size_factor=factor, data_dir=options.to)
        builder.download_and_prepare(download_config=config)
        print(builder.data_dir)
    return 0


def _show(options) -> int:
    dataset = _named(options.name)
    if len(dataset.sizes.keys) == 1:
        raise ValueError(f"Give a rescaled set, e.g. rescaled_{dataset.name}, a STIR name or file.")
    shown = _images(dataset, options.data_dir)
    largest, arrays = list(shown.items())[-1]
    if not 0 <= options.image < len(arrays):
        raise ValueError(f"--image must be in 0...{len(arrays) - 1}. Received: {options.image}.")
    classes = [
        (label, arrays.images[np.flatnonzero(arrays.labels == number)[0]])
        for number, label in enumerate(arrays.class_names)
    ]
    one = [(dataset.sizes.heading(key), a.images[options.image]) for key, a in shown.items()]
    title = f"{dataset.name}: the classes at {dataset.sizes.label(largest)}, one at several sizes"
    figure = contact_sheet(classes, one, title=title)
    target = options.to or Path(f"{dataset.name}.png")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=120)
    print(target)
    return 0


def _named(name: str) -> DataSet:
    """The record of a data set, or one for a file in the format of STIR."""
    if name in sets.names():
        return sets.get(name)
    path = Path(name).absolute()
    if not path.is_file():
        several = [name for name, d in sets.all_sets().items() if len(d.sizes.keys) > 1]
        raise FileNotFoundError(
            f"There is no file {name}. `name` must be a STIR file or one of {tuple(several)}."
            f"{did_you_mean(name, several)}"
        )
    return DataSet(name=path.stem, sizes=STIR_SIZES, loader=StirFile(str(path)))


def _images(dataset: DataSet, data_dir) -> dict[str, Arrays]:
    """Test images by size: the samples if they have every size, or the files if they are there."""
    keys, samples = shown_sizes(dataset.sizes.keys), dataset.samples
    if samples is not None and set(samples.size_factors) >= set(dataset.sizes.values):
        return {key: samples.load(dataset.sizes.value(key)) for key in keys}
    try:
        return dict(dataset.load_sizes(keys, data_dir=data_dir))
    except FileNotFoundError:
        if samples is None:
            raise
    arrays = samples.load()
    there = np.unique(arrays.object_sizes)
    return {dataset.sizes.key(s): arrays.select(arrays.object_sizes == s) for s in there}


def contact_sheet(
    top: Sequence[tuple[str, np.ndarray]],
    bottom: Sequence[tuple[str, np.ndarray]],
    *,
    title: str,
    columns: int = 10,
):
    """Draw captioned images in two groups, like Figures 4 and 5 of the paper.

    Takes pairs of caption and uint8 image `(h, w, c)`; returns a matplotlib figure.
    """
    from matplotlib.figure import Figure

    rows = [
        group[start : start + columns]
        for group in (top, bottom)
        for start in range(0, len(group), columns)
    ]
    figure = Figure(figsize=(1.3 * columns, 1.55 * len(rows) + 0.5), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for ax in line:
            ax.set_axis_off()
        for ax, (caption, image) in zip(line, row, strict=False):
            shown = image[..., 0] if image.shape[-1] == 1 else image
            ax.imshow(shown, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            ax.set_title(caption, fontsize=8)
    return figure


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
