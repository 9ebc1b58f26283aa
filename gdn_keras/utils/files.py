"""Replace a file in one step, so that readers and power cuts never find half of it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, *, content: str | bytes, previous: Path | None = None) -> None:
    """Write `content` to `path` by way of a temporary file that is flushed and then renamed.

    Several processes may write the same file; the last one wins. An OSError means that nothing has
    changed.

    Args:
        path: of the file; its folder must exist.
        content: text is encoded as UTF-8.
        previous: the old file is kept under this name, if there is one.
    """
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with open(new, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        _rename(new, path, previous)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # where folders cannot be flushed, as on Windows
        _flush_names(path.parent)


def _rename(new: Path, path: Path, previous: Path | None) -> None:
    moved = previous is not None and path.exists()
    if moved:
        os.replace(path, previous)
    try:
        os.replace(new, path)
    except OSError:
        if moved:
            os.replace(previous, path)
        raise


def _flush_names(folder: Path) -> None:
    """Renames reach the disk too, so that a power cut does not undo them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
