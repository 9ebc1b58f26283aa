"""What `pip wheel .` makes, from a clone and from an sdist, works without the internet."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import processes
import pytest
from zoo_tools import write_tiny

from gdn_keras.zoo import registry, tables

CLONE = registry.checkout()
LIST = CLONE / "zoo" / "shipped.txt"
SHIPPED = set(LIST.read_text(encoding="utf-8").split())
LIMIT = 20_000_000


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A clone with the shipped networks and a small one."""
    root = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "setup.py", "LICENSE"):
        shutil.copy(CLONE / name, root)
    ignore = shutil.ignore_patterns("__pycache__")
    for part in ("gdn_keras", "training", "export"):
        shutil.copytree(CLONE / part, root / part, ignore=ignore)
    (root / "zoo").mkdir()
    (root / "docs").mkdir()
    shutil.copy(LIST, root / "zoo")
    for name in SHIPPED:
        shutil.copytree(CLONE / "zoo" / name, root / "zoo" / name)
    write_tiny(root / "zoo", "another")
    for page in ("README.md", "docs/networks.md"):
        (root / page).write_text("<!-- results -->\n<!-- /results -->\n")
    tables.update(root)
    return root


def build(folder, what: str):
    """Build as pip does, with the setuptools that is installed; returns the file."""
    code = f"from setuptools import build_meta; build_meta.build_{what}('dist')"
    built = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (file,) = (folder / "dist").glob("*.whl" if what == "wheel" else "*.tar.gz")
    return file


@pytest.mark.heavy
def test_wheel_from_the_clone_and_from_the_sdist(sources, tmp_path):
    with tarfile.open(build(sources, "sdist")) as archive:
        archive.extractall(tmp_path / "sdist", filter="data")
    (unpacked,) = (tmp_path / "sdist").iterdir()
    contents = []
    for folder in (sources, unpacked):
        wheel = build(folder, "wheel")
        assert wheel.stat().st_size < LIMIT
        with zipfile.ZipFile(wheel) as file:
            shipped = [name for name in file.namelist() if name.startswith("gdn_keras/data/zoo/")]
            contents.append({name: file.read(name) for name in shipped})
    assert contents[0] == contents[1]
    names = {name.split("/")[3] for name in contents[0]}
    assert names == {"registry.json", *SHIPPED}
    run_installed(wheel, tmp_path)


def run_installed(wheel, tmp_path):
    """Only the wheel's files on the path, no internet, another working folder."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    code = f"""if True:
        import gdn_keras
        assert gdn_keras.__file__.startswith({str(tmp_path)!r}), gdn_keras.__file__
        assert gdn_keras.zoo.list_models() == {sorted(SHIPPED)}
        assert gdn_keras.zoo.info("another").trained  # known from the registry
        for name in {sorted(SHIPPED)}:
            gdn_keras.zoo.load(name)
    """
    environment = {k: v for k, v in os.environ.items() if k != "GDN_KERAS_ZOO"}
    environment |= {"PYTHONPATH": str(tmp_path / "site"), "HF_ENDPOINT": "http://127.0.0.1:9"}
    ran = processes.run("-c", code, cwd=tmp_path, env=environment)
    assert ran.returncode == 0, ran.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", images=images, labels=np.arange(20) % 2)
    for command in (
        "train ../noise.npz --like tiny_single --canvas 16 --side 8 --epochs 1 -o mine",
        "evaluate mine/ --data ../noise.npz --sizes",
        "predict mine/ mine/accuracy.png",
        "export onnx mine/ -o mine.onnx",
        "export hub mine/ --repo me/mine --dry-run -o hub",  # with the template of the card
        "training list tiny_single",
    ):
        ran = processes.run("-m", "gdn_keras", *command.split(), cwd=empty, env=environment)
        assert ran.returncode == 0, ran.stderr
    assert {path.name for path in empty.iterdir()} == {
        "mine",
        "mine-seed0",
        "mine_sizes.png",
        "mine.onnx",
        "hub",
    }
    for file in ("page/index.html", "page/page.js", "page/onnxruntime-web.LICENSE"):
        assert (tmp_path / "site" / "gdn_keras" / "export" / file).is_file()


def test_no_second_copy_is_kept():
    """The package in the clone has no zoo of its own, and nothing else ships twice."""
    assert not (CLONE / "gdn_keras" / "data" / "zoo").exists()


def test_the_docs_name_the_networks_that_are_shipped():
    text = (CLONE / "docs" / "zoo.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"the wheel\s+contains\s([^;.]*)[;.]", text)
    assert set(re.findall(r"`(\w+)`", sentence)) == SHIPPED
