"""Where a sweep keeps everything: a folder that all machines share, or any URL of fsspec.

It has what a folder of runs has, `NAME-seedN/`, and next to them `zoo/NAME/` and `logs/`. Machines
work in folders of their own: they fetch what a job needs and push what has changed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gdn_keras import zoo
from gdn_keras.utils.files import replace_file

from ..publishing.measurement import EVALUATION
from ..runs import locking
from ..runs.state import PREVIOUS, RECORD, STATE

ZOO, LOGS, NEW = "zoo", "logs", ".new"
LAST = (RECORD, zoo.CARD_FILE)  # their presence says that all other files are there
POLL_SECONDS = 0.5  # between looks at a folder that is mirrored


@dataclass(frozen=True)
class Storage:
    """A folder or an fsspec URL."""

    url: str

    @classmethod
    def locate(cls, place: str | Path) -> Storage:
        text = str(place)
        return cls(text if "://" in text else str(Path(text).expanduser().absolute()))

    @cached_property
    def _place(self):
        import fsspec

        try:
            return fsspec.url_to_fs(self.url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise ValueError(
                f"`--storage` must be a folder or a URL whose file system is installed: {error}. "
                f"Received: {self.url}."
            ) from error

    @property
    def _is_local(self) -> bool:
        from fsspec.implementations.local import LocalFileSystem

        return isinstance(self._place[0], LocalFileSystem)

    def __truediv__(self, name: str) -> str:
        """The whole path of a file or folder, for people."""
        return f"{self.url.rstrip('/')}/{name}"

    def _path(self, name: str) -> str:
        return f"{self._place[1].rstrip('/')}/{name}"

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        try:
            return self._place[0].cat_file(self._path(name))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """Replace a file in one step."""
        system, path = self._place[0], self._path(name)
        parent = path.rpartition("/")[0]
        system.makedirs(parent, exist_ok=True)
        if self._is_local:  # fsspec would not flush it to the disk
            return replace_file(Path(path), content=content)
        system.pipe_file(path + NEW, content)
        system.mv(path + NEW, path)

    def lock(self, run: str) -> contextlib.AbstractContextManager:
        """Hold a run, if it is in a folder: only those have locks."""
        return locking.lock(Path(self._path(run))) if self._is_local else contextlib.nullcontext()

    def folders_with(self, file: str, *, under: str = "") -> set[str]:
        """The names of the folders that have a file."""
        start = self._path(under).rstrip("/")
        system = self._place[0]
        system.invalidate_cache()
        found = system.glob(f"{start}/*/{file}") if system.isdir(start) else ()
        return {path.split("/")[-2] for path in found}

    def fetch(self, folder: str, *, into: Path) -> bool:
        """Copy a folder to the same name in `into`; returns whether there is one."""
        system, source = self._place[0], self._path(folder)
        system.invalidate_cache()
        if not system.isdir(source):
            return False
        for path in system.find(source):
            relative = path[len(source) + 1 :]
            if not relative.endswith(NEW):
                target = into / folder / relative
                target.parent.mkdir(parents=True, exist_ok=True)
                system.get_file(path, str(target))
        return True


class Mirror:
    """A context in which folders are copied to the storage whenever a run has saved its state.

    If that fails, the work goes on, and it is tried again with the next state. At the end it is
    tried until it works; `problem` then says what is in the way.

    Args:
        storage: where to.
        place: the folder on this machine with the folders.
        folders: their names, which may begin to exist later.
    """

    def __init__(self, storage: Storage, *, place: Path, folders: tuple[str, ...]):
        self._storage, self._place, self._folders = storage, place, folders
        self._pushed = dict(self._files())  # what was fetched from there
        self._ended, self.problem = threading.Event(), ""
        self._thread = threading.Thread(target=self._watch, args=(self._saved(),), daemon=True)

    def __enter__(self) -> Mirror:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        from ..runs.progress import retry_until_saved

        self._ended.set()
        self._thread.join()
        retry_until_saved(self._push)

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """The files to copy, and what tells whether they have changed; those of `LAST` last."""
        paths = [path for folder in self._folders for path in (self._place / folder).rglob("*")]
        for path in sorted(paths, key=lambda path: path.name in LAST):
            if path.name in (PREVIOUS, locking.LOCK) or path.name.endswith(NEW):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:  # replaced right now
                continue
            if path.is_file():
                yield str(path.relative_to(self._place)), (status.st_mtime_ns, status.st_size)

    def _watch(self, seen: dict[str, tuple[int, int]]) -> None:
        while not self._ended.wait(POLL_SECONDS):
            now = self._saved()
            if now != seen:
                seen = now
                try:
                    self._push()
                except OSError as error:
                    print(
                        f"\nNot copied to {self._storage.url}: {error}. Continuing.",
                        file=sys.stderr,
                        flush=True,
                    )

    def _saved(self) -> dict[str, tuple[int, int]]:
        return {name: s for name, s in self._files() if name.endswith((STATE, EVALUATION))}

    def _push(self) -> None:
        for name, stamp in self._files():
            if self._pushed.get(name) == stamp:
                continue
            try:
                self._storage.write(name, (self._place / name).read_bytes())
            except Exception as error:  # file systems of fsspec have many kinds of them
                self.problem = f"not saved: {getattr(error, 'strerror', None) or error}"
                raise OSError(str(error)) from error
            self._pushed[name] = stamp
        self.problem = ""
