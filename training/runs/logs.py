"""The logs of a run: a CSV file, TensorBoard events, a figure.

A log is not worth losing a run: if the disk is full, rows are left out and the run continues.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import importlib.util
import io
import sys
from pathlib import Path

from gdn_keras.utils.files import replace_file

LOG, CURVES, BOARD = "log.csv", "curves.png", "tensorboard"
FIELDS = ("stage", "step", "images", "learning_rate", "loss", "accuracy", "seconds")


class RunLog:
    """The log of a run, continued after the last row that belongs to the state it resumes from.

    Args:
        folder: of the run.
        last: stage and step of that state; later rows are of steps that will be done again.
    """

    def __init__(self, folder: Path, *, last: tuple[int, int]):
        import tensorflow as tf

        self._failed = False
        self._folder = folder
        with self._tolerant():
            kept = [
                row for row in read_log(folder) if (int(row["stage"]), int(row["step"])) <= last
            ]
            replace_file(folder / LOG, content=_as_csv(kept, header=True))
        self._board = None
        if importlib.util.find_spec("tensorboard") is None:  # scalars need it
            _say_what_is_missing()
            return
        with self._tolerant():
            self._board = tf.summary.create_file_writer(str(folder / BOARD))
            self._scalar = tf.summary.scalar

    def write(self, row: dict) -> None:
        with self._tolerant():
            with open(self._folder / LOG, "a", newline="", encoding="utf-8") as file:
                file.write(_as_csv([row]))
        if self._board:
            with self._tolerant(), self._board.as_default(step=row["images"]):
                for name in ("loss", "accuracy", "learning_rate"):
                    self._scalar(name, row[name])

    def close(self) -> None:
        if self._board:
            with self._tolerant():
                self._board.close()

    @contextlib.contextmanager
    def _tolerant(self):
        from tensorflow.errors import OpError

        try:
            yield
        except (OSError, OpError) as error:
            if not self._failed:
                print(f"\nThe log could not be written: {error}. Continuing.", file=sys.stderr)
            self._failed = True


@functools.cache  # once is enough
def _say_what_is_missing() -> None:
    print(
        "No logs for TensorBoard, which is not installed: pip install 'gdn-keras[training]'. "
        f"{LOG} has the same numbers.",
        file=sys.stderr,
    )


def read_log(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's CSV file; one that was cut off by a kill or a full disk is left out."""
    if not (folder / LOG).exists():
        return []
    with open(folder / LOG, newline="", encoding="utf-8") as file:
        text = file.read()
    rows = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]), FIELDS)
    header = dict(zip(FIELDS, FIELDS, strict=True))  # not there if the disk was full at first
    whole = (row for row in rows if None not in row and None not in row.values())
    return [row for row in whole if row != header]


def plot_curves(folder: Path) -> None:
    """The figure of a run's loss, accuracy and learning rate."""
    import matplotlib.figure

    rows = read_log(folder)
    images = [int(row["images"]) / 1000 for row in rows]
    figure = matplotlib.figure.Figure(figsize=(7, 2.6), layout="constrained")
    for ax, field in zip(figure.subplots(1, 3), ("loss", "accuracy", "learning_rate"), strict=True):
        ax.plot(images, [float(row[field]) for row in rows], color="#0072B2", linewidth=1)
        ax.set(xlabel="thousand images", ylabel=field.replace("_", " "))
    figure.savefig(folder / CURVES, dpi=150)


def _as_csv(rows: list[dict], *, header: bool = False) -> str:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, FIELDS, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
