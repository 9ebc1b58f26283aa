"""Making a file in the format of STIR from photographs with labelled boxes."""

import csv
import os
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdn_keras.datasets.resize import resample_matrix, resize_planes
from gdn_keras.datasets.stir import SIDE, SIZES
from gdn_keras.utils.checks import checked

COLUMNS = ("file", "split", "label", "left", "top", "right", "bottom")
_SPLITS = {"train": 0, "valid": 1, "validation": 1, "test": 2}


@dataclass(frozen=True)
class Box:
    """One object in one photograph: columns left ... right - 1, rows top ... bottom - 1."""

    file: Path
    split: int
    label: str
    left: int
    top: int
    right: int
    bottom: int


@checked
def make_stir(
    boxes: str | os.PathLike,
    *,
    target: str | os.PathLike,
    seed: int = 0,
    metadata: dict[str, str] | None = None,
    progress: bool = False,
) -> Path:
    """Make a STIR-like set from photographs.

    Every object is downscaled, with antialiasing, to each size from 64 to 17 pixels and placed at
    random in a 64x64 image. Its box is mapped to a square, as in STIR. Around it one sees the
    photograph as far as it reaches. Beyond, the strip between the box and the border of the
    photograph is reflected back and forth, so that there is no second object.

    Args:
        boxes: a CSV file with the columns file, split, label, left, top, right, bottom; files are
            relative to its folder, splits are train, valid and test, and a box must be at least
            64 pixels wide and high. Each class and split gives as many objects as the one that
            has the fewest.
        target: the `.npz` file to write. It appears only when it is complete.
        seed: of the random places.
        metadata: stored in the file: title, description, licence, ...
        progress: show it on stderr.
    """
    from gdn_keras.utils.progress import show_progress

    boxes, target = Path(boxes), Path(target)
    groups, names = _group(read_boxes(boxes))
    count = min(len(group) for group in groups.values())
    photographs = {box.file: _open(box) for group in groups.values() for box in group[:count]}
    grey = all(photograph.ndim == 2 for photograph in photographs.values())
    shape = (3, len(SIZES), len(names), count)
    images = np.empty((*shape, SIDE, SIDE, 1 if grey else 3), np.uint8)
    places = np.empty((*shape, 2), np.int32)
    rng = np.random.default_rng(seed)
    for (split, label), group in show_progress(groups.items(), disable=not progress, unit="class"):
        for instance, box in enumerate(group[:count]):
            photograph = _with_channels(photographs[box.file], images.shape[-1])
            for index, size in enumerate(reversed(SIZES)):
                place = rng.integers(0, SIDE - size, size=2, endpoint=True)
                where = split, index, names.index(label), instance
                images[where] = show(photograph, box, size=size, place=place)
                places[where] = place
    labels = np.broadcast_to(np.arange(len(names), dtype=np.int32)[:, None], shape)
    sizes = np.broadcast_to(np.array(SIZES[::-1], np.int32)[:, None, None], shape)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as folder:
        partial = Path(folder) / "stir.npz"
        np.savez_compressed(
            partial,
            imgs=images[..., 0] if grey else images,
            lbls=labels,
            scls=sizes,
            psts=places,
            metadata=np.array(list((metadata or {"title": target.stem}).items())),
            lbldata=np.array(names),
        )
        partial.replace(target)
    return target


def show(photograph: np.ndarray, box: Box, *, size: int, place) -> np.ndarray:
    """The 64x64 view of a photograph `(h, w, c)` in which the box is `size` pixels, at `place`.

    `place` is (left, top). Scaling, placing and reflecting are one resampling matrix per axis.
    """
    left, top = (int(p) for p in place)
    matrices = []
    for length, start, stop, offset in (
        (photograph.shape[0], box.top, box.bottom, top),
        (photograph.shape[1], box.left, box.right, left),
    ):
        scale = size / (stop - start)
        positions = start + (np.arange(SIDE) + 0.5 - offset) / scale - 0.5
        strips = max(start, 1), max(length - stop, 1)
        matrices.append(resample_matrix(length, positions, scale=scale, strips=strips))
    return resize_planes(photograph[None], *matrices)[0]


def read_boxes(path: str | os.PathLike) -> list[Box]:
    """The boxes of a CSV file, checked as far as possible without opening the photographs."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {path}. `boxes` must be a CSV file with the columns "
            f"{', '.join(COLUMNS)}."
        )
    boxes = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        if set(COLUMNS) - set(reader.fieldnames or ()):
            raise ValueError(
                f"{path} must have the columns {', '.join(COLUMNS)}. Received: {reader.fieldnames}."
            )
        for row in reader:
            at = f"{path}, line {reader.line_num}"
            if row["split"] not in _SPLITS:
                raise ValueError(f"{at}: split must be one of {tuple(_SPLITS)}. Received: {row}.")
            try:
                edges = [int(row[key]) for key in COLUMNS[3:]]
            except (TypeError, ValueError) as error:
                raise ValueError(f"{at}: a box is four whole numbers. Received: {row}.") from error
            box = Box(path.parent / row["file"], _SPLITS[row["split"]], row["label"], *edges)
            if min(box.right - box.left, box.bottom - box.top) < SIDE:
                raise ValueError(f"{at}: a box must be at least 64x64 pixels. Received: {row}.")
            boxes.append(box)
    if not boxes:
        raise ValueError(f"{path} must hold at least one box. Received: none.")
    return boxes


def _group(boxes: list[Box]) -> tuple[dict[tuple[int, str], list[Box]], list[str]]:
    groups = defaultdict(list)
    for box in boxes:
        groups[box.split, box.label].append(box)
    names = sorted({box.label for box in boxes})
    for name in names:
        for split, title in enumerate(("train", "valid", "test")):
            if (split, name) not in groups:
                raise ValueError(
                    f"Every class needs boxes in each split. Missing: {name}, {title}."
                )
    return dict(groups), names


def _open(box: Box) -> np.ndarray:
    from PIL import Image

    if not box.file.is_file():
        raise FileNotFoundError(f"There is no photograph {box.file}, named in the list of boxes.")
    with Image.open(box.file) as image:
        photograph = np.asarray(image if image.mode == "L" else image.convert("RGB"))
    height, width = photograph.shape[:2]
    if box.left < 0 or box.top < 0 or box.right > width or box.bottom > height:
        raise ValueError(
            f"A box must lie in its photograph. Received: {box}, photograph {width}x{height}."
        )
    return photograph


def _with_channels(photograph: np.ndarray, channels: int) -> np.ndarray:
    if photograph.ndim == 2:
        photograph = photograph[..., None]
    return np.broadcast_to(photograph, (*photograph.shape[:2], channels))
