"""The example script runs as it is, on a small network."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from zoo_tools import write_tiny

SCRIPT = Path(__file__).parent.parent / "training" / "examples" / "finetune.py"


@pytest.mark.parametrize("dataset", ["rescaled_fashion_mnist", "rescaled_cifar10"])
def test_finetuning_learns_new_classes(dataset, tmp_path, capsys, monkeypatch):
    write_tiny(tmp_path, "small", dataset=dataset, widths=(8, 12))
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path / "small"), "--epochs", "40"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    output = capsys.readouterr().out
    rows = re.findall(r"(\d+) px +([\d.]+) +([\d.]+)% +([\d.]+)%", output)
    assert [row[:2] for row in rows] == [("24", "0.6"), ("40", "1.0"), ("56", "1.4")]
    before, after = float(rows[1][2]), float(rows[1][3])
    assert after > before + 20


def test_the_default_is_a_network_of_several_scale_channels(capsys, monkeypatch):
    script = runpy.run_path(str(SCRIPT))
    assert len(script["zoo"].info(script["DEFAULT"]).config.channel_sigmas) > 1
    chosen = []
    monkeypatch.setitem(
        script["main"].__globals__, "finetune", lambda name, *, epochs: chosen.append(name) or {}
    )
    script["main"]([])
    assert chosen == [script["DEFAULT"]]
    assert capsys.readouterr().out.startswith(f"{script['DEFAULT']}, fine-tuned on the images")
