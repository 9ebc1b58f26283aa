"""Every snippet of docs/zoo.md is run: Python in one go, the commands one by one."""

import re
import shlex

import numpy as np
import pytest
from dataset_files import write_fashion
from PIL import Image

from gdn_keras.__main__ import main
from gdn_keras.datasets import raw
from gdn_keras.zoo import registry

PAGE = registry.checkout() / "docs" / "zoo.md"
NAME = "fashion_avg_2jet"


def snippets(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with a photograph, and no other zoo than that of the clone."""
    monkeypatch.chdir(tmp_path)
    pixels = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    Image.fromarray(pixels).save("photo.jpg")
    monkeypatch.delenv(registry.ENVIRONMENT_VARIABLE, raising=False)


@pytest.mark.heavy
def test_python(workplace):
    code = "\n".join(snippets("python"))
    names = {}
    exec(compile(code, PAGE.name, "exec"), names)
    assert names["logits"].shape == (100, 10) and len(names["names"]) == 100
    assert names["prediction"].sigma in names["model"].config.channel_sigmas
    trouser, sandal = names["objects"]
    assert (trouser.class_name, sandal.class_name) == ("trouser", "sandal")
    assert trouser.column < 72 < sandal.column and trouser.sigma > sandal.sigma
    assert names["fresh"].config.jet_order == 3
    assert names["wide"].input_shape == (None, 96, 128, 1)
    channels = len(names["model"].config.channel_sigmas)
    assert names["per_scale"].shape == (4, channels, 10) and len(names["maps"]) == channels


@pytest.mark.heavy
def test_commands(workplace, tmp_path, monkeypatch, capsys):
    write_fashion(tmp_path / "data")
    monkeypatch.setenv(raw.ENVIRONMENT_VARIABLE, str(tmp_path / "data"))
    commands = [line for block in snippets("sh") for line in block.splitlines()]
    assert len(commands) == 7
    for command in commands:
        python, dash_m, package, *arguments = shlex.split(command)
        assert (python, dash_m, package) == ("python", "-m", "gdn_keras")
        assert main(arguments) == 0, command
        assert NAME in capsys.readouterr().out or arguments[0] in ("predict", "evaluate")
    assert (tmp_path / "answer.png").stat().st_size > 10_000
