"""What the tests of exports share: a clone to run commands in, and small data folders."""

from __future__ import annotations

import dataclasses
import os
import platform
import subprocess
from pathlib import Path

import processes
from dataset_files import write_idx

from gdn_keras import zoo
from gdn_keras.datasets import get, load_samples
from gdn_keras.utils import cpu
from gdn_keras.zoo.records import to_json

ROOT = Path(__file__).parents[1]
# x86 adds two 8-bit products in 16 bits unless it has VNNI
SATURATES = platform.machine() in ("x86_64", "AMD64") and "VNNI" not in (
    cpu.describe()["instructions"] or ()
)


def make_clone(path: Path) -> Path:
    """A clone with an empty zoo; its code is this one's."""
    path.mkdir()
    for name in ("gdn_keras", "export"):
        (path / name).symlink_to(ROOT / name)
    (path / "pyproject.toml").touch()
    (path / "zoo").mkdir()
    (path / "docs").mkdir()
    for page in ("README.md", "docs/networks.md"):
        (path / page).write_text("<!-- results -->\n<!-- /results -->\n")
    return path


def export(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """`python -m export …`, as it is typed."""
    env = process_environment(**environment)
    return processes.run("-m", "export", *arguments, cwd=clone, env=env)


def without(folder: Path, *packages: str) -> dict[str, str]:
    """Variables for a process that does not find some packages; they stand in its way here."""
    for name in packages:
        (folder / name).mkdir(parents=True)
        text = f"raise ModuleNotFoundError({f'No module named {name!r}'!r}, name={name!r})\n"
        (folder / name / "__init__.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


def process_environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1", **changes}


def set_metrics(folder: zoo.Folder, **changes) -> zoo.Folder:
    """Change what metrics.json says was measured."""
    metrics = dataclasses.replace(folder.metrics, **changes)
    (folder.path / zoo.METRICS_FILE).write_text(to_json(metrics.to_dict()))
    return zoo.read_folder(folder.path)


def sample_data_folder(folder: Path) -> Path:
    """The bundled Fashion samples as if they were the whole test set."""
    samples = load_samples("fashion_mnist")
    files = get("fashion_mnist").loader
    (folder / files.folder).mkdir(parents=True)
    values = samples.images[..., 0], samples.labels.astype("uint8")
    for name, array in zip(files.parts["test"], values, strict=True):
        write_idx(folder / files.folder / name, array)
    return folder
