"""The data set of a record: with all its images, or only with the samples a zoo folder keeps."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gdn_keras.datasets import sets
from gdn_keras.datasets.arrays import Arrays, join, readable
from gdn_keras.datasets.dataset import DataSet, Loader
from gdn_keras.datasets.own.record import EXTENSIONS, OwnRecord
from gdn_keras.datasets.raw import SPLITS
from gdn_keras.datasets.rescaled import rescaled_set
from gdn_keras.utils.checks import checked


@dataclass(frozen=True, kw_only=True)
class OwnImages(Loader):
    """The images of a data set of one's own, each filling a square; `Rescaled` resizes them."""

    record: OwnRecord
    parts: Mapping[str, Arrays] | None = None  # by split; None: only the record is here

    def finder(self, data_dir=None) -> None:
        """They are in memory, so no files have to be found."""

    def read_split(self, split: str, *, find=None, limit: int | None = None) -> tuple[Arrays, int]:
        """The images of a split, at most `limit` of them, and 0: they have no other order."""
        if self.parts is None:
            raise ValueError(
                f"The images of {self.record.name!r} are not on record, only how they are made: "
                "open them with `gdn_keras.datasets.from_folder` and so on, or `--data`."
            )
        names = split.split("+") if split in SPLITS else ()
        parts = [self.parts[name] for name in names if name in self.parts]
        if not parts:
            raise ValueError(f"`split` must be one of {tuple(self.parts)}. Received: {split!r}.")
        return join(parts).spread(limit), 0


@dataclass(frozen=True)
class OwnSamples:
    """A few test images of a data set of one's own, which its zoo folders keep."""

    name: str
    arrays: Arrays

    size_factors = (1.0,)

    def load(self, size_factor: float = 1.0) -> Arrays:
        return self.arrays

    def read(self) -> tuple[Arrays, np.ndarray]:
        return self.arrays, np.arange(len(self.arrays))


def make_dataset(
    record: OwnRecord, *, samples: Arrays, parts: Mapping[str, Arrays] | None = None
) -> DataSet:
    """The data set of a record: only with samples of its images, or with all of them."""
    counts = [sum(part.values()) for part in (record.counts["train"], record.counts["test"])]
    source = DataSet(
        name=record.name,
        image_size=(record.side, record.side),
        channels=record.channels,
        class_names=record.class_names,
        num_images=tuple(counts),
        loader=OwnImages(record=record, parts=parts),
        samples=OwnSamples(record.name, samples),
    )
    title = record.name.replace("_", " ")
    return rescaled_set(
        source,
        name=record.name,
        title=title,
        description=f"{title}, objects of {record.side} pixels, rescaled.",
        canvas=record.canvas,
        extension=EXTENSIONS[record.surroundings],
    )


@checked
def read_record(path: str | os.PathLike) -> OwnRecord:
    """The record in a JSON file."""
    with readable(path):
        return OwnRecord.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))


def own_record(dataset: DataSet) -> OwnRecord | None:
    """The record behind a data set of one's own; None for the others."""
    source = getattr(dataset.loader, "source", None)
    return source.record if isinstance(source, OwnImages) else None


def register_folder(record: OwnRecord, *, samples: Arrays) -> None:
    """Make the data set of a zoo folder known, unless one of its name has images or is not ours."""
    there = sets.all_sets().get(record.name)
    source = there and getattr(there.loader, "source", None)
    only_samples = isinstance(source, OwnImages) and source.parts is None
    if there is None or (only_samples and source.record != record):
        sets.register(make_dataset(record, samples=samples))


def samples_file(samples: Arrays) -> bytes:
    """The content of samples.npz."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=samples.images, labels=samples.labels)
    return buffer.getvalue()


def read_samples(path: Path, record: OwnRecord) -> Arrays:
    with readable(path), open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
        return Arrays(file["images"], file["labels"], record.class_names)
