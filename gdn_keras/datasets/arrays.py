"""What every loader returns: images with labels, in memory."""

import contextlib
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gdn_keras.utils.fields import check_fields

# what reading a damaged .npz or JSON file raises
_UNREADABLE = (ValueError, TypeError, AttributeError, KeyError, EOFError, OSError, RuntimeError)
_UNREADABLE += (zipfile.BadZipFile, zlib.error)
_SHAPES = {"labels": (), "object_sizes": (), "object_positions": (2,)}  # after the first axis


@dataclass(frozen=True, eq=False)
class Arrays:
    """A labelled set of images. Checked when it is created, so it need not be checked again."""

    images: np.ndarray  # uint8 (n, h, w, c), 0...255
    labels: np.ndarray  # int64 (n,)
    class_names: tuple[str, ...]
    # STIR only: side of the object in pixels, int64 (n,), and its left and top, int64 (n, 2)
    object_sizes: np.ndarray | None = None
    object_positions: np.ndarray | None = None

    def __post_init__(self):
        check_fields(self)
        for name in ("images", *_SHAPES):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.asarray(getattr(self, name)))
        images, labels = self.images, self.labels
        if images.dtype != np.uint8 or images.ndim != 4:
            raise ValueError(
                "`images` must be uint8 (n, h, w, c). "
                f"Received: dtype {images.dtype}, shape {images.shape}."
            )
        for name, shape in _SHAPES.items():
            values = getattr(self, name)
            if values is None:
                continue
            if values.shape != (len(images), *shape) or values.dtype.kind not in "ui":
                raise ValueError(
                    f"`{name}` must be integers of shape {(len(images), *shape)}. "
                    f"Received: dtype {values.dtype}, shape {values.shape}."
                )
            object.__setattr__(self, name, values.astype(np.int64))
        outside = (labels < 0) | (labels >= len(self.class_names))
        if outside.any():
            first = int(np.argmax(outside))
            raise ValueError(
                f"`labels` must be in 0...{len(self.class_names) - 1}, as `class_names`. "
                f"Received: label {labels[first]} of image {first}."
            )
        object.__setattr__(self, "class_names", tuple(self.class_names))

    def __len__(self) -> int:
        return len(self.images)

    def select(self, index) -> "Arrays":
        """The images at `index`: a slice, a boolean mask or an array of positions."""
        present = ("images", *(name for name in _SHAPES if getattr(self, name) is not None))
        return replace(self, **{name: getattr(self, name)[index] for name in present})

    def spread(self, limit: int | None) -> "Arrays":
        """At most `limit` images, evenly spread: files that are sorted by class keep them all."""
        if limit is None or limit >= len(self):
            return self
        return self.select(np.linspace(0, len(self) - 1, limit).round().astype(int))


def join(parts: Sequence[Arrays]) -> Arrays:
    """Several sets with the same classes as one, in this order."""
    if len(parts) == 1:
        return parts[0]
    present = [name for name in ("images", *_SHAPES) if getattr(parts[0], name) is not None]
    joined = {name: np.concatenate([getattr(p, name) for p in parts]) for name in present}
    return replace(parts[0], **joined)


@contextlib.contextmanager
def readable(path: str | os.PathLike, *, expected: str = "a whole file") -> Iterator[None]:
    """While `path` is read: whatever is wrong with its content is a `ValueError` that names it."""
    try:
        yield
    except _UNREADABLE as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is not {expected}: {reason}.") from error
