"""Replace a file in one step, so that readers and power cuts never find half of it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, *, content: str | bytes, previous: Path | None = None) -> None:
    """Write `content` to `path` by way of a temporary file that is flushed and then renamed.

    An OSError means that nothing has changed.

    Args:
        path: of the file; its folder must exist.
        content: text is encoded as UTF-8.
        previous: the old file is kept under this name, if there is one.
    """
    new = path.with_name(f"{path.name}.new")
    try:
        with open(new, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        new.unlink(missing_ok=True)
        raise
    if previous is not None:
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, previous)
    os.replace(new, path)
    with contextlib.suppress(OSError):  # where folders cannot be flushed, as on Windows
        _flush_names(path.parent)


def _flush_names(folder: Path) -> None:
    """Renames reach the disk too, so that a power cut does not undo them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
