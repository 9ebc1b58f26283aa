"""Embeddings: a network without its last layer."""

import numpy as np
import pytest
from helpers import assert_rounded, evaluate, random_images, randomise, small_config
from test_model_laws import SMOOTH, blobs

from gdn_keras import adapt, build_model, fold, without_top


def make(**changes):
    return randomise(build_model(small_config(**changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"final_relu": False, "final_batch_norm": False, "scale_dropout": 0.3},
        {"spatial_selection": "max", "scale_pooling": "max", "padding": "mirror"},
        {"learned_sigmas": True, "sigma_ratio": (1.3, 1.5), "activation": "silu"},
    ],
)
def test_features_are_the_maps_before_the_last_layer(changes):
    model = make(**changes)
    config = model.config
    features = without_top(model)
    images = random_images(config)
    assert features.output_shape == (None, config.num_features) == (None, 5)
    whole = adapt(model, spatial_selection="max").maps_model(layer=2)
    maps = evaluate(whole, images)
    if config.padding == "mirror":  # these go beyond the image
        beyond = [((m.shape[1] - 13) // 2, (m.shape[2] - 12) // 2) for m in maps]
        assert np.min(beyond) > 0
        maps = [
            m[:, top : top + 13, left : left + 12]
            for m, (top, left) in zip(maps, beyond, strict=True)
        ]
    if config.spatial_selection == "max":
        expected = np.stack([m.max(axis=(1, 2)) for m in maps], axis=1)
    else:
        expected = np.stack([m[:, 6, 5:7].mean(axis=1) for m in maps], axis=1)
    assert_rounded(evaluate(features.scale_logits_model(), images), expected)
    pooled = expected.max(axis=1) if config.scale_pooling == "max" else expected.mean(axis=1)
    assert_rounded(evaluate(features, images), pooled)
    assert_rounded(evaluate(without_top(fold(model)), images), pooled)


def test_features_move_along_the_scale_channels_with_the_size():
    sigmas = tuple(2 * 2 ** (i / 2) for i in range(4))
    features = without_top(make(**SMOOTH, input_size=(161, 161), channel_sigmas=sigmas))
    per_scale = features.scale_logits_model()
    original, double = (evaluate(per_scale, blobs(161, 2 * scale))[0] for scale in (1, 2))
    spread = original.std()
    np.testing.assert_allclose(double[2:], original[:-2], atol=0.05 * spread)
    assert np.abs(double - original).max() > 0.2 * spread


def test_what_is_frozen_stays_so():
    model = make()
    model.get_layer("norm_1").trainable = model.get_layer("jet_3").trainable = False
    assert without_top(model).frozen == ("norm_1",)


def test_two_layers_are_too_few():
    with pytest.raises(ValueError, match="`model` .*three layers.*: 2 layers"):
        without_top(make(widths=(4,)))
