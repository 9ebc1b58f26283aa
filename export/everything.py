"""Every export of every network in `zoo/`, one after the other; continues after an interruption."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import keras

from gdn_keras import zoo
from gdn_keras.utils import markdown
from gdn_keras.utils.files import replace_file
from gdn_keras.version import __version__
from gdn_keras.zoo import registry
from gdn_keras.zoo.weights import file_sha256

from . import PROGRAM
from .errors import EXPECTED, missing_packages_named
from .files import write_litert, write_onnx, write_saved_model
from .hub import upload
from .quantisation.quantise import INT8_FILE, AccuracyError, accepted_report, write_int8

REFUSED = "refused"
STATE_FILE = "done.json"  # next to a network's exports: finished steps, and for which weights


def export_all(
    output: Path, *, owner: str | None = None, private: bool = False, force: bool = False
) -> int:
    """Returns 0, or 1 if something failed; a failure does not stop the rest.

    Args:
        owner: on the Hub; by default the folders are written and nothing is sent.
        force: repeat finished exports.
    """
    root = registry.checkout()
    if root is None:
        raise FileNotFoundError(f"`{PROGRAM} all` is run from a clone, which has a zoo/.")
    folders = zoo.folders(root / "zoo")
    if not folders:
        raise FileNotFoundError(f"There is no zoo folder in {root / 'zoo'}.")
    if owner is not None:
        upload.need_token()
    table: dict[str, dict[str, str]] = {}
    failures = []
    for number, path in enumerate(folders, start=1):
        print(f"[{number}/{len(folders)}] {path.name}", flush=True)
        table[path.name] = {}
        try:
            folder = zoo.read_folder(path)
        except ValueError as error:
            failures.append(f"{path.name}: {error}")
            continue
        state = _State(output / path.name / STATE_FILE)
        steps = _steps(folder, output / path.name, owner=owner, private=private)
        for step, key, is_there, run in steps:
            text = None if force else state.get(step, key, is_there)
            if text is None:
                print(f"{path.name}: {step}", flush=True)
                try:
                    with missing_packages_named():
                        text = run()
                    state.put(step, key, text)
                except EXPECTED as error:
                    text = "failed"
                    failures.append(f"{path.name}, {step}: {error}")
                    print(f"error: {error}", file=sys.stderr)
            table[path.name][step] = text
        keras.backend.clear_session()  # or the graphs of all networks stay in memory
    print(_markdown(table))
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _steps(
    folder: zoo.Folder, target: Path, *, owner: str | None, private: bool
) -> Iterator[tuple[str, str, Callable[[], bool], Callable[[], str]]]:
    """Name, what the result depends on, is it there, and how it is made (gives a short text)."""
    name, info = folder.path.name, zoo.info(folder.path)

    def checked(write, file: str) -> str:
        return f"{write(zoo.load(folder.path), target / file, info=info):.1e}"

    def int8() -> str:
        try:
            report = write_int8(zoo.load(folder.path), target / INT8_FILE, info=info)
        except AccuracyError as error:  # a result, not a failure
            print(error)
            return REFUSED
        return f"-{report['worst_loss_ppt']:.2f} ppt"

    def to_hub() -> str:
        options = {"private": private, "exports": target}
        if owner is None:
            upload.dry_run(folder, target / "hub", repo=f"OWNER/{name}", **options)
            return "written"
        return upload.publish(folder, target / "hub", repo=f"{owner}/{name}", **options)[:12]

    network = f"{__version__} {_digest(folder.path)}"
    for step, file, write in (
        ("onnx", upload.ONNX_FILE, write_onnx),
        ("saved-model", "saved_model", write_saved_model),
        ("litert", "model.tflite", write_litert),
    ):
        yield step, network, (target / file).exists, functools.partial(checked, write, file)

    def has_int8() -> bool:
        return accepted_report(target, info) is not None

    yield "int8", network, has_int8, int8
    # only now it is known whether there is an int8 file to go with it
    key = f"{network} {owner} {private} {has_int8()}"
    yield "hub", key, (target / "hub").exists, to_hub


def _digest(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    text = "".join(f"{path.name} {file_sha256(path)}\n" for path in files)
    return hashlib.sha256(text.encode()).hexdigest()


class _State:
    """What is finished, as JSON: step -> what it depended on, and its result."""

    def __init__(self, path: Path):
        self.path = path
        self.done = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    def get(self, step: str, key: str, is_there: Callable[[], bool]) -> str | None:
        found = self.done.get(step, {})
        there = found.get("result") == REFUSED or is_there()
        return found.get("result") if found.get("key") == key and there else None

    def put(self, step: str, key: str, result: str) -> None:
        self.done[step] = {"key": key, "result": result}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, content=json.dumps(self.done, indent=2) + "\n")


def _markdown(table: dict[str, dict[str, str]]) -> str:
    """Deviation from Keras, loss of int8, commit; one row per network."""
    steps = list(dict.fromkeys(step for row in table.values() for step in row))
    rows = [[name, *(row.get(step, "failed") for step in steps)] for name, row in table.items()]
    return markdown.table(["network", *steps], rows=rows, pad=True)
