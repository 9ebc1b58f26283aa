"""Where images of your own come from: folders, files, arrays, and data sets of other libraries.

Every function returns the record of a data set, registered under its name, like those of the
package. They share these options:

- `name`: of the data set; default: from where the images are.
- `canvas`, `side`: side of the square that a network sees (64), and longer side of an object on it
  (half of it).
- `surroundings`, `channels`: "mirrored" or "black"; 1 or 3, or as the images are.
- `record`: a JSON file with the split and all settings. If it is there, it decides: the same images
  are for training and for testing as when it was written. Otherwise it is written.
- `test_share`, `seed`: the share of every class that is kept for testing, chosen by chance, if the
  source does not say which images these are.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gdn_keras.datasets import sets
from gdn_keras.datasets.arrays import readable
from gdn_keras.datasets.dataset import DataSet
from gdn_keras.datasets.own.build import Item, build
from gdn_keras.datasets.own.dataset import own_record, read_record
from gdn_keras.datasets.own.libraries import column, prepared, read_tf_data
from gdn_keras.datasets.own.record import Look, OwnRecord, check_name
from gdn_keras.utils.checks import checked
from gdn_keras.utils.files import replace_file
from gdn_keras.utils.image_files import files_below

# names of folders and splits -> what they are here
_SPLITS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "test": "test",
    "testing": "test",
}
_HIDDEN = (".", "_")  # begin the names of folders that are no classes
BESIDE = "beside"  # the data
KINDS_OF_DATA = "a folder with one sub-folder per class, an .npz file, tfds:NAME or hf:NAME"


@checked
def from_folder(
    path: str | os.PathLike,
    *,
    name: str | None = None,
    record: str | os.PathLike | None = BESIDE,
    **options: Any,
) -> DataSet:
    """Image files in one sub-folder per class, or in train/, test/ (and validation/) of these.

    Folders whose names begin with a dot or an underscore are left out.

    >>> birds = from_folder("birds", canvas=64, surroundings="mirrored")
    >>> print(report(birds))

    Args:
        path: the folder. What cannot be read as an image is left out and reported.
        record: default: NAME.split.json next to the folder or file; None: not written.
        name, **options: see the options at the top of this page.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"There is no folder {path}.")
    folders = _visible(path)
    tops = {folder: _SPLITS.get(folder.name.lower()) for folder in folders}
    if _are_splits(path, tops):
        classes = [(split, folder) for top, split in tops.items() for folder in _visible(top)]
    else:
        classes = [(None, folder) for folder in folders]
    items = [
        Item(file.relative_to(path).as_posix(), file, folder.name, split)
        for split, folder in classes
        for file in files_below(folder)
    ]
    if not items:
        raise ValueError(
            f"{path} must have one sub-folder per class with image files in it, or train/ and "
            f"test/ with these. Received: {len(folders)} sub-folders, no files in them."
        )
    record = _beside(path.resolve(), record)
    default = _name(path.resolve().name)
    return _open(
        items, name=name, default_name=default, record=record, given=_written(record), **options
    )


@checked
def from_npz(
    path: str | os.PathLike,
    *,
    name: str | None = None,
    record: str | os.PathLike | None = BESIDE,
    **options: Any,
) -> DataSet:
    """Arrays in a file: `images`, `labels` and perhaps `class_names`.

    Or, already split, `x_train`, `y_train`, `x_test`, `y_test` and perhaps `class_names`. The
    arguments are those of `from_folder`.
    """
    path = Path(path)
    with readable(path), open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
        data = {key: file[key] for key in file}
    keys = {"images", "labels"}, {"x_train", "y_train", "x_test", "y_test"}
    if keys[0] <= set(data):
        parts = {None: (data["images"], data["labels"])}
    elif keys[1] <= set(data):
        parts = {part: (data[f"x_{part}"], data[f"y_{part}"]) for part in ("train", "test")}
    else:
        raise ValueError(
            f"{path} must have the arrays {', '.join(sorted(keys[0]))}, or "
            f"{', '.join(sorted(keys[1]))}. Received: {', '.join(sorted(data)) or 'none'}."
        )
    options.setdefault("class_names", data.get("class_names"))
    options |= {"name": name, "default_name": _name(path.stem)}
    return _from_parts(parts, record=_beside(path, record), **options)


@checked
def from_arrays(
    images: Sequence[np.ndarray],
    labels: np.ndarray | Sequence[int],
    *,
    name: str,
    test: tuple[Sequence[np.ndarray], np.ndarray | Sequence[int]] | None = None,
    class_names: Sequence[str] | None = None,
    **options: Any,
) -> DataSet:
    """Images in memory, of one size or of many, uint8 with or without colours.

    Args:
        images: an array `(n, h, w[, c])`, or a sequence of `(h, w[, c])`.
        labels: whole numbers from 0, one per image; `(n, 1)` as of `keras.datasets` is fine.
        test: images and labels to test on. Default: a share of every class.
        class_names: in the order of the labels. Default: "0", "1", …
        name, **options: see the options at the top of this page.
    """
    parts = {None: (images, labels)} if test is None else {"train": (images, labels), "test": test}
    return _from_parts(parts, name=name, class_names=class_names, **options)


@checked
def from_tf_data(
    dataset, *, name: str, test=None, class_names: Sequence[str] | None = None, **options: Any
) -> DataSet:
    """A `tf.data.Dataset` of pairs (image, label), or of dictionaries with these keys.

    Batches are taken apart. The arguments are those of `from_arrays`; `test` is a data set, too.
    """
    given = {None: dataset} if test is None else {"train": dataset, "test": test}
    parts = {split: read_tf_data(part) for split, part in given.items()}
    return _from_parts(parts, name=name, class_names=class_names, **options)


@checked
def from_tfds(
    tfds_name: str, *, name: str | None = None, data_dir: str | None = None, **options: Any
) -> DataSet:
    """A data set of tensorflow-datasets, prepared (and downloaded) if it is not there yet.

    Args:
        tfds_name: as `tfds.load` takes it, "beans" or "beans/config:1.0.0".
        data_dir: of tensorflow-datasets.
        name, **options: see the options at the top of this page.
    """
    builder = prepared(tfds_name, data_dir=data_dir)
    splits = [split for split in builder.info.splits if _SPLITS.get(split)]
    loaded = {split: builder.as_dataset(split=split) for split in splits}
    parts = {_SPLITS[split]: read_tf_data(part) for split, part in loaded.items()}
    options.setdefault("class_names", builder.info.features["label"].names)
    default = _name(tfds_name.partition(":")[0])
    return _from_parts(parts, name=name, default_name=default, **options)


@checked
def from_hugging_face(dataset, *, name: str | None = None, **options: Any) -> DataSet:
    """A data set of the Hugging Face library `datasets`, with a column of images and one of labels.

    Args:
        dataset: a `Dataset`, a `DatasetDict` with splits, or a name for `load_dataset`.
        name, **options: see the options at the top of this page.
    """
    if isinstance(dataset, str):
        try:
            from datasets import load_dataset
        except ImportError as error:
            raise ValueError(
                f"hf:{dataset} needs {error.name}: pip install 'gdn-keras[hugging-face]'."
            ) from error

        options["default_name"] = _name(dataset)
        dataset = load_dataset(dataset)
    by_split = dataset if isinstance(dataset, Mapping) else {"train": dataset}
    parts, names = {}, None
    for split, part in by_split.items():
        image, label = column(part, "Image"), column(part, "ClassLabel")
        names = part.features[label].names
        parts[_SPLITS.get(split, split)] = ([row[image] for row in part], part[label])
    options.setdefault("class_names", names)
    return _from_parts(parts, name=name, **options)


@checked
def find_data(data: str) -> Callable[..., DataSet]:
    """What opens the DATA of a command line, a function with the options of all functions here."""
    kind, _, rest = data.partition(":")
    if kind == "tfds":
        return partial(from_tfds, rest)
    if kind == "hf":
        return partial(from_hugging_face, rest)
    if Path(data).is_dir():
        return partial(from_folder, data)
    if Path(data).is_file() and Path(data).suffix == ".npz":
        return partial(from_npz, data)
    raise ValueError(f"`DATA` must be {KINDS_OF_DATA}. Received: {data}.")


@checked
def report(dataset: DataSet) -> str:
    """What was found: images per class and split, their sizes, and what could not be read."""
    record = own_record(dataset)
    if record is None:
        raise ValueError(f"`dataset` must be one of your own. Received: {dataset.name!r}.")
    return record.report()


# === What they share ===


def _from_parts(
    parts,
    *,
    class_names: Iterable[str] | None = None,
    record: str | os.PathLike | None = None,
    **options: Any,
) -> DataSet:
    """`parts`: split, or None -> images and labels."""
    given = _written(record)
    items = []
    highest = -1
    for split, (images, labels) in parts.items():
        labels = np.asarray(labels).reshape(-1)
        if len(images) != len(labels) or labels.dtype.kind not in "ui":
            raise ValueError(
                "`labels` must be whole numbers, one per image. "
                f"Received: {len(labels)} of dtype {labels.dtype} for {len(images)} images."
            )
        if len(labels) and labels.max() < 0:  # as of a benchmark whose answers are secret
            warnings.warn(f"The split {split!r} has no labels and is left out.", stacklevel=4)
            continue
        if len(labels) and labels.min() < 0:
            raise ValueError(
                f"`labels` must not be negative. Received: {labels.min()} in the split {split!r}."
            )
        highest = max(highest, int(labels.max(initial=-1)))
        prefix = f"{split}/" if split else ""
        items += [
            (f"{prefix}{number}", image, int(label), split)
            for number, (image, label) in enumerate(zip(images, labels, strict=True))
        ]
    if class_names is None:
        class_names = given.class_names if given else range(highest + 1)
    names = tuple(map(str, class_names))
    if highest >= len(names):
        raise ValueError(
            f"`class_names` must be names of all classes. Received: {len(names)} names, and the "
            f"label {highest}."
        )
    items = [Item(name, image, names[label], split) for name, image, label, split in items]
    return _open(items, class_names=names, record=record, given=given, **options)


def _open(
    items: list[Item],
    *,
    name: str | None,
    default_name: str = "own",
    class_names: tuple[str, ...] | None = None,
    record: str | os.PathLike | None = None,
    given: OwnRecord | None = None,
    test_share: float | None = None,
    seed: int | None = None,
    **look: Any,
) -> DataSet:
    """`class_names`: default: the labels. `given` is what `record` has, if it is there."""
    if given is not None:
        asked = {"name": name, "class_names": class_names, "test_share": test_share, "seed": seed}
        _check_asked(look | asked, given=given, file=record)
        name = given.name
    name = sets.check_free(check_name(name or default_name))
    dataset = build(
        items,
        name=name,
        look=given.look if given else Look(**look),
        class_names=class_names or sorted({item.label for item in items}),
        given=given,
        test_share=0.2 if test_share is None else test_share,
        seed=0 if seed is None else seed,
        total=len(items),
    )
    if record is not None and given is None:
        replace_file(Path(record), content=own_record(dataset).to_json())
    return dataset


def _written(record: str | os.PathLike | None) -> OwnRecord | None:
    return read_record(record) if record is not None and Path(record).is_file() else None


def _check_asked(asked: Mapping[str, Any], *, given: OwnRecord, file: str | os.PathLike) -> None:
    for key, value in asked.items():
        recorded = getattr(given, key)
        if value is not None and recorded is not None and value != recorded:
            raise ValueError(
                f"`{key}` must be {recorded!r}, as in {file}: leave it out, or delete that file "
                f"to split again. Received: {key}={value!r}."
            )


def _visible(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith(_HIDDEN))


def _are_splits(path: Path, tops: Mapping[Path, str | None]) -> bool:
    """Whether the folders in `path`, with what each may stand for, are splits and not classes."""
    others = [folder.name for folder, split in tops.items() if split is None]
    both = "train" in tops.values() and {"validation", "test"} & set(tops.values())
    if both and others:
        raise ValueError(
            f"{path} must have no other folders next to those of its splits: move them, or begin "
            f"their names with an underscore. Received: {', '.join(others)}."
        )
    return bool(tops) and not others


def _name(text: str) -> str:
    """A name for a data set, from that of a file or folder."""
    words = re.sub(r"\W+", "_", text).strip("_").lower()
    return words if re.match("[a-z]", words) else f"own_{words}"


def _beside(path: Path, record: str | os.PathLike | None) -> str | os.PathLike | None:
    return path.with_name(f"{path.name}.split.json") if record == BESIDE else record
