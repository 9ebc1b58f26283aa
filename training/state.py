"""The state of a run on disk: saved atomically, checked when read, locked against a second process.

A run folder holds `state.npz` and the one before it, `state.previous.npz`; each is written under
another name, flushed to the disk and then renamed, so that at any moment at least one is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

STATE, PREVIOUS, LOCK = "state.npz", "state.previous.npz", "lock"


class RunIsLocked(RuntimeError):
    """Another process works on the same run."""


def runs_folder() -> Path:
    """Where runs live: `GDN_KERAS_RUNS`, or a folder in the user's cache."""
    default = Path.home() / ".cache" / "gdn_keras" / "runs"
    return Path(os.environ.get("GDN_KERAS_RUNS") or default)


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the run; the lock goes away with the process, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunIsLocked(f"Another process is working on {folder}.") from None
        yield


def save(folder: Path, info: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Write the state; the last whole one becomes the previous one."""
    buffer = io.BytesIO()
    np.savez(buffer, info=np.array(json.dumps(info)), **_numbered(arrays))
    data = buffer.getvalue()
    new = folder / (STATE + ".new")
    try:
        with open(new, "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        new.unlink(missing_ok=True)
        raise
    if (folder / STATE).exists():
        os.replace(folder / STATE, folder / PREVIOUS)
    os.replace(new, folder / STATE)


def load(folder: Path) -> tuple[dict[str, Any], list[np.ndarray]] | None:
    """The newest whole state, or None if the run has not begun.

    A damaged file is passed over with a warning; if all are damaged that is an error, because
    starting again would lose the work without saying so.
    """
    files = [folder / name for name in (STATE, PREVIOUS) if (folder / name).exists()]
    for file in files:
        data = file.read_bytes()
        if hashlib.sha256(data[32:]).digest() == data[:32]:
            with np.load(io.BytesIO(data[32:]), allow_pickle=False) as state:
                info = json.loads(str(state["info"]))
                return info, [state[f"array_{n}"] for n in range(len(state.files) - 1)]
        warnings.warn(f"{file} is damaged and is not used.", stacklevel=2)
    if files:
        raise ValueError(
            f"No state in {folder} can be read; {[f.name for f in files]} are damaged. "
            "Delete the folder to start again."
        )
    return None


def write_text(path: Path, text: str) -> None:
    """Replace a small text file in one step."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    os.replace(new, path)


def _numbered(arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"array_{n}": array for n, array in enumerate(arrays)}
