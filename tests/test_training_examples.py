"""The example scripts run as they are, on small networks and few images."""

import re
import runpy
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from zoo_tools import write_tiny

from gdn_keras.datasets import Arrays, load_samples, raw

pytestmark = pytest.mark.heavy
EXAMPLES = Path(__file__).parent.parent / "training" / "examples"
SCRIPT = EXAMPLES / "finetune.py"


@pytest.mark.parametrize("dataset", ["rescaled_fashion_mnist", "rescaled_cifar10"])
def test_finetuning_learns_new_classes(dataset, tmp_path, capsys, monkeypatch):
    write_tiny(tmp_path, "small", dataset=dataset, widths=(8, 12), sampling_density=0.7)
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
    assert capsys.readouterr().out.startswith(script["DEFAULT"])


def table(text):
    """The rows of numbers of every table, as fractions, by the size factor."""
    rows = re.findall(r"(?m)^ +([\d.]+)((?: +[\d.]+%)+)$", text)
    assert [row[0] for row in rows] == 2 * ["0.500", "0.707", "1.000", "1.414", "2.000"]
    values = [[float(value) / 100 for value in re.findall(r"([\d.]+)%", row[1])] for row in rows]
    return np.array(values).reshape(2, 5, -1)


def test_features(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(raw.ENVIRONMENT_VARIABLE, str(data))
    folder = write_tiny(tmp_path, "small", dataset="rescaled_fashion_mnist", widths=(4, 12)).path
    main = runpy.run_path(str(EXAMPLES / "features.py"))["main"]
    few = ["--train", "64", "--gallery", "64", "--queries", "8", "--epochs", "1"]
    main([str(folder), *few])
    output = capsys.readouterr().out
    assert "small: 12 features" in output and "plain CNN: 128 features" in output
    values = table(output)
    np.testing.assert_array_equal(values[:, 2, 0], 1)  # its own neighbours, at size 1
    assert (values[:, [0, 4], 0] < 1).all()


def test_numbers_about_embeddings_that_are_known():
    """Pixel k of an image of class k is bright; at size 2 it is that of another class."""
    compare_sizes = runpy.run_path(str(EXAMPLES / "features.py"))["compare_sizes"]
    labels = np.arange(120) % 10
    images = np.eye(16, dtype=np.uint8)[labels].reshape(-1, 4, 4, 1) * 255
    gallery = Arrays(images, labels, tuple("abcdefghij"))
    other = Arrays(images[:20], (labels[:20] + 1) % 10, gallery.class_names)
    half = Arrays(np.concatenate([images[:10], images[1:11]]), labels[:20], gallery.class_names)
    embed = keras.Sequential([keras.Input((4, 4, 1)), keras.layers.Flatten()])
    queries = {1.0: gallery.select(slice(20)), 2.0: other, 0.5: half}
    result = compare_sizes(embed, gallery, queries)
    assert result == {1.0: (1, 1, 1), 2.0: (1, 0, 0), 0.5: (0.5, 0.5, 0.5)}


def test_segmentation(data, capsys, monkeypatch):
    monkeypatch.setenv(raw.ENVIRONMENT_VARIABLE, str(data))
    script = runpy.run_path(str(EXAMPLES / "segmentation.py"))
    samples = load_samples("rescaled_fashion_mnist")
    labels = script["pixel_labels"](samples)
    assert set(np.unique(labels[3])) == {0, samples.labels[3] + 1}
    assert (labels[3] > 0).sum() >= (samples.images[3] > 16).sum()  # holes are filled

    class Oracle:
        def __init__(self, answer):
            self.answer = np.eye(11)[answer]

        def predict(self, images, **_):
            return self.answer

    assert script["scores"](Oracle(labels), samples) == (1.0, 1.0)
    union, right = script["scores"](Oracle(0 * labels), samples)
    assert right == 0 and union == pytest.approx((labels == 0).mean() / 11)
    monkeypatch.setitem(script["main"].__globals__, "SEVERAL", (0.7, 1.4))  # less to compile
    script["main"](["--train", "32", "--test", "4", "--epochs", "1", "--further-epochs", "1"])
    values = table(capsys.readouterr().out)
    assert ((values >= 0) & (values <= 1)).all()
