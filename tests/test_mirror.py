"""Mirror padding: the image goes on, against the numpy reference on an image that really does.

Its matrices are tested with those of the other paddings in test_plan.py.
"""

import keras
import numpy as np
import pytest
import reference
from helpers import (
    assert_rounded,
    evaluate,
    random_images,
    randomise,
    small_config,
    weights_by_layer,
)

from gdn_keras import adapt, build_model, zoo
from gdn_keras.datasets import load_samples
from gdn_keras.layers import SpatialSelection
from training import CHECKOUT, recipes


def make(**changes):
    return randomise(build_model(small_config(padding="mirror", **changes)))


@pytest.mark.parametrize("jet_order", [2, 3])
@pytest.mark.parametrize("method", ["discrete", "sampled_derivative"])
def test_mirror_padding_is_the_reference_on_the_mirrored_image(method, jet_order):
    for selection in ("max", "centre"):
        changes = {"method": method, "jet_order": jet_order, "spatial_selection": selection}
        model = make(truncation=1e-7, **changes)
        images = random_images(model.config, batch=1)
        logits = reference.network(images[0], weights_by_layer(model), model.config)[0]
        np.testing.assert_allclose(evaluate(model, images)[0], logits, rtol=0, atol=2e-4)
        usual = adapt(model, truncation=0.005)
        np.testing.assert_allclose(evaluate(usual, images)[0], logits, rtol=0, atol=0.01)


@pytest.mark.parametrize("truncation, bound", [(0.005, 0.1), (1e-6, 1e-3)])
def test_mirror_padding_cuts_off_what_hardly_matters(truncation, bound):
    """In a deep network: only the centre, on windows as planned, and the centre of all pixels."""
    config = recipes.get("cifar_avg_2jet_mirror").config.replace(
        widths=(6, 6, 6, 6, 6), channel_sigmas=(0.5, 1.0, 2.0), truncation=truncation
    )
    model = randomise(build_model(config))
    images = random_images(config)
    dense = adapt(model, spatial_selection="max").maps_model()(images)
    expected = keras.ops.convert_to_numpy(SpatialSelection("centre")(dense))
    window = evaluate(model.scale_logits_model(), images)
    assert expected.std() > 0.1
    error = np.sqrt(np.mean((window - expected) ** 2, axis=(0, 2)))
    assert (error < bound * expected.std(axis=(0, 2))).all()
    padded = evaluate(adapt(model, padding="reflect").scale_logits_model(), images)
    other = np.sqrt(np.mean((padded - expected)[:, -1] ** 2))
    assert other > 2 * error[-1]  # in the coarsest channel, which sees the border most


@pytest.mark.parametrize("density", [None, 0.7])
def test_mirroring_an_image_beforehand_changes_nothing(density):
    model = make(sampling_density=density)
    images = random_images(model.config)
    height, width = model.config.input_size
    margins = ((0, 0), (height, height), (width, width), (0, 0))
    mirrored, size = np.pad(images, margins, mode="symmetric"), (3 * height, 3 * width)
    expected = evaluate(model, images)
    assert expected.std() > 0.1
    larger = adapt(model, input_size=size)
    assert_rounded(evaluate(larger, mirrored), expected)
    smaller, larger = (adapt(network, padding="reflect") for network in (model, larger))
    assert np.abs(evaluate(larger, mirrored) - evaluate(smaller, images)).max() > 0.01


def test_a_trained_network_loses_less_at_twice_the_size():
    """On the bundled images; the whole test sets are in the metrics."""
    kept = {}
    for name in ("cifar_avg_2jet", "cifar_avg_2jet_mirror"):
        model = zoo.load(CHECKOUT / "zoo" / name)
        right = []
        for factor in (1.0, 2.0):
            samples = load_samples("rescaled_cifar10", size_factor=factor)
            answers = model.predict(samples.images, verbose=0).argmax(axis=1)
            right.append(np.mean(answers == samples.labels))
        kept[name] = right[1] / right[0]
    assert kept["cifar_avg_2jet_mirror"] > kept["cifar_avg_2jet"] + 0.05
