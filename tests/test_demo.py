"""`make demo` runs with and without trained networks, and shows what it says."""

import runpy

import pytest
from zoo_tools import write_tiny

from gdn_keras import zoo
from gdn_keras.datasets import SIZE_FACTORS
from gdn_keras.zoo import registry

DEMO = registry.checkout() / "demo.py"


@pytest.fixture
def alone(tmp_path, monkeypatch):
    monkeypatch.setenv("GDN_KERAS_ZOO", str(tmp_path))
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "gdn_keras")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_networks(alone, capsys):
    runpy.run_path(str(DEMO), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    header = next(line for line in lines if line.startswith("disc size"))
    starred = [line[: line.index("*")] for line in lines if "* " in line and "(*" not in line]
    best = [len(line.split()) - 2 for line in starred]  # after the disc's own size
    assert header.count("σ₀=") == 7
    assert best == [1, 2, 3, 4, 5]  # one scale channel for every factor of sqrt(2)
    assert (alone / "out" / "demo" / "matching_scales.png").stat().st_size > 10_000
    assert any("zoo/: fashion_avg_2jet, fashion_single_2jet" in line for line in lines)


def test_with_networks(alone, capsys):
    for name, sigmas in (("fashion_avg_2jet", (0.5, 1.0, 2.0)), ("fashion_single_2jet", (1.0,))):
        write_tiny(alone, name, dataset="rescaled_fashion_mnist", channel_sigmas=sigmas)
    assert len(zoo.list_models()) == 2
    runpy.run_path(str(DEMO), run_name="__main__")
    out = capsys.readouterr().out
    table = [line for line in out.splitlines() if "scale channel" in line and "disc" not in line]
    assert [len(line.split()) for line in table[-2:]] == [len(SIZE_FACTORS) + 3] * 2
    for name in ("scale_generalisation.png", "explained.png"):
        assert (alone / "out" / "demo" / name).stat().st_size > 10_000
