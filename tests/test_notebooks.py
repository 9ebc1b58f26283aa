"""The notebooks of docs/ run from top to bottom, on a small network of the same name."""

import json

import matplotlib
import numpy as np
import pytest
from zoo_tools import write_tiny

from gdn_keras.zoo import registry

FOLDER = registry.checkout() / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def cells(name):
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.fixture
def small_zoo(tmp_path, monkeypatch):
    write_tiny(tmp_path, "fashion_avg_2jet", dataset="rescaled_fashion_mnist", widths=(4,) * 5)
    monkeypatch.setenv(registry.ENVIRONMENT_VARIABLE, str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def run(name):
    names = {}
    with matplotlib.rc_context({"backend": "agg"}):
        for cell in cells(name):
            exec(compile("".join(cell["source"]), f"{name}.ipynb", "exec"), names)
    return names


def test_first_steps(small_zoo, capsys):
    names = run("first_steps")
    assert capsys.readouterr().out.count("of 20 images") == 3
    logits = names["model"].predict(names["samples"][2.0].images[10][None], verbose=0)
    assert names["prediction"].classes[0][0] == logits.argmax()
    heights = [patch.get_height() for patch in names["axes"][1, 2].patches]
    np.testing.assert_allclose(np.mean(heights), logits[0, names["label"]], rtol=1e-4)
    assert names["features"].output_shape == (None, 4)


def test_own_data(small_zoo):
    names = run("own_data")
    losses = names["history"].history["loss"]
    assert losses[-1] < losses[0]
    assert names["images"].shape == (16, 72, 72, 3) and len(names["names"]) == 8
    path, loaded = names["path"], names["loaded"]
    assert loaded.config.class_names == tuple(names["names"])
    assert loaded.classify(path, fit="original") == names["model"].classify(path, fit="original")


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_are_those_of_a_complete_run(name):
    counts = [cell["execution_count"] for cell in cells(name)]
    assert counts == list(range(1, len(counts) + 1))
    kinds = {output["output_type"] for cell in cells(name) for output in cell["outputs"]}
    assert kinds <= {"stream", "execute_result", "display_data"}  # no error
