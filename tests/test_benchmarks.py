"""The network ours is compared to computes the same function, and the harness measures right."""

import time

import keras
import numpy as np
import pytest
from helpers import random_images, randomise, small_config

from gdn_keras import build_model
from gdn_keras.scale_space import plan

torch = pytest.importorskip("torch")

from benchmarks.plain_torch import PlainGaussDerNet  # noqa: E402
from benchmarks.scaling import plot  # noqa: E402
from benchmarks.smoothing import WAYS, smoother  # noqa: E402
from benchmarks.timing import Worker, take_sample  # noqa: E402


@pytest.mark.parametrize("padding", ["zero", "reflect", "edge"])
@pytest.mark.parametrize("pooling", ["average", "max", "logsumexp"])
@pytest.mark.parametrize("final", [True, False])
def test_the_plain_network_gives_the_logits_of_ours(padding, pooling, final):
    config = small_config(
        input_size=(20, 17),
        padding=padding,
        scale_pooling=pooling,
        final_batch_norm=final,
        final_relu=final,
    )
    model = randomise(build_model(config))
    images = random_images(config)
    plain = PlainGaussDerNet(config).load(model).eval()
    with torch.inference_mode():
        logits = plain(torch.tensor(images.transpose(0, 3, 1, 2))).numpy()
    expected = keras.ops.convert_to_numpy(model(images))
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(logits, expected, atol=1e-3)


def test_the_plain_network_normalises_all_scale_channels_together():
    # with spatial max every pixel counts in both networks
    config = small_config(input_size=(20, 17), spatial_selection="max")
    model = randomise(build_model(config))
    images = random_images(config)
    plain = PlainGaussDerNet(config).load(model).train()
    with torch.no_grad():
        logits = plain(torch.tensor(images.transpose(0, 3, 1, 2))).numpy()
    expected = keras.ops.convert_to_numpy(model(images, training=True))
    np.testing.assert_allclose(logits, expected, atol=1e-3)


@pytest.mark.parametrize(
    "changes", [{"jet_order": 3}, {"padding": "mirror"}, {"method": "sampled_derivative"}]
)
def test_the_plain_network_refuses_what_it_does_not_compute(changes):
    with pytest.raises(ValueError, match="2-jets.*fixed.*pad.*Received"):
        PlainGaussDerNet(small_config(**changes))


def test_both_ways_to_smooth_agree(monkeypatch):
    for name in ("SLIDE_FROM", "TAP_WORTH"):  # the benchmark changes them
        monkeypatch.setattr(plan, name, getattr(plan, name))
    images = np.random.default_rng(0).normal(size=(1, 50, 50, 2)).astype("float32")
    smoothed, expected = (
        keras.ops.convert_to_numpy(smoother(way, size=50, sigma=2.0)(keras.ops.array(images)))
        for way in WAYS
    )
    np.testing.assert_allclose(smoothed, expected, atol=1e-5)


def test_a_sample_knows_its_time():
    sample = take_sample(lambda: time.sleep(0.2))
    assert 0.2 <= sample.seconds < 2
    assert sample.disturbance >= 0


def test_a_worker_tells_what_went_wrong():
    with Worker("tensorflow") as worker:
        with pytest.raises(RuntimeError, match="(?s)no_such_module"):
            worker.prepare("no_such_module:step")
        assert worker.peak_memory() > 1e6


def test_the_figure_has_all_lines():
    points = [[1.0, 10.0, 0], [2.0, 20.0, 0]]
    axes = ("image size", "scale channels", "density")
    figure = plot({"lines": [{"axis": axis, "label": axis, "points": points} for axis in axes]})
    assert [len(ax.lines) for ax in figure.axes] == [1, 1, 1]
