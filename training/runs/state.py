"""The state of a run on disk: saved atomically, and checked when read.

A run folder holds `state.npz` and the one before it, `state.previous.npz`. Files are replaced in
one step (`gdn_keras.utils.files`), so that at any moment at least one of them is whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from pathlib import Path

import numpy as np

from gdn_keras.utils.files import replace_file

from .record import RunRecord

STATE, PREVIOUS = "state.npz", "state.previous.npz"
WEIGHTS, RECORD = "model.weights.h5", "run.json"  # of a finished run; the record comes last
DAMAGED = ".damaged"  # appended to the name of a state file that cannot be used
_HASH = 32  # a state file begins with the SHA-256 of the rest


def exists(folder: Path) -> bool:
    """Whether a run has been started there."""
    return any((folder / name).exists() for name in (STATE, PREVIOUS))


def save(folder: Path, record: RunRecord, arrays: list[np.ndarray]) -> None:
    """Write the state; the last whole one becomes the previous one."""
    buffer = io.BytesIO()
    np.savez(buffer, info=np.array(json.dumps(record.to_dict())), **_numbered(arrays))
    data = buffer.getvalue()
    content = hashlib.sha256(data).digest() + data
    replace_file(folder / STATE, content=content, previous=folder / PREVIOUS)


def load(folder: Path) -> tuple[RunRecord, list[np.ndarray]] | None:
    """The newest whole state, or None if the run has not started. Call it under the lock.

    A damaged file is set aside with a warning. If all are damaged, that is an error, because
    starting again would silently lose the work.
    """
    for rest in folder.glob(f"{STATE}.*.new"):  # of a process that was killed while it wrote
        rest.unlink()
    damaged = []
    for file in (folder / STATE, folder / PREVIOUS):
        if not file.exists():
            continue
        data = file.read_bytes()
        if hashlib.sha256(data[_HASH:]).digest() != data[:_HASH]:
            damaged.append(file)
            continue
        for bad in damaged:  # otherwise the next save would replace the whole one with it
            aside = bad.with_name(bad.name + DAMAGED)
            os.replace(bad, aside)
            warnings.warn(f"{bad} is damaged; {file.name} is used instead.", stacklevel=2)
        with np.load(io.BytesIO(data[_HASH:]), allow_pickle=False) as state:
            record = RunRecord.from_dict(json.loads(str(state["info"])))
            return record, [state[f"array_{n}"] for n in range(len(state.files) - 1)]
    if damaged:
        raise ValueError(
            f"No state in {folder} can be read: {', '.join(f.name for f in damaged)} damaged. "
            "Restore one of them from a backup, or delete the folder to start again."
        )
    return None


def read_record(folder: Path) -> RunRecord | None:
    """The record of a finished run; None if it is not finished."""
    file = folder / RECORD
    return (
        RunRecord.from_dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None
    )


def write_record(folder: Path, record: RunRecord) -> None:
    """Write `run.json`; its presence means that the run is finished, so it is written last."""
    text = json.dumps(record.to_dict(), indent=2) + "\n"
    replace_file(folder / RECORD, content=text)


def _numbered(arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"array_{n}": array for n, array in enumerate(arrays)}
