"""Laws of whole networks: covariance, invariance, and what the same weights do elsewhere."""

import keras
import numpy as np
import pytest
from helpers import THREE_LAYERS, assert_rounded, evaluate, random_images, randomise, small_config

from gdn_keras import GaussDerNet, adapt, at_scale, build_model, fold
from gdn_keras.model import copy_weights, layer_sigmas
from gdn_keras.scale_space import DISCRETISATIONS, jet_terms


def make(**changes):
    return randomise(build_model(small_config(**changes)))


def blobs(size, scale, *, seed=0):
    """A smooth image on black, known at every scale: one function of (x, y) / scale."""
    rng = np.random.default_rng(seed)
    y, x = (np.mgrid[:size, :size] - (size - 1) / 2) / scale
    image = np.zeros((size, size, 2))
    for x0, y0, width, *heights in rng.uniform((-3, -3, 1.0, 0, 0), (3, 3, 2.0, 255, 255), (12, 5)):
        image += np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / (2 * width**2))[..., None] * heights
    return image[None].astype("float32") / 3


# --- scale covariance ---

SMOOTH = {"input_channels": 2, "sigma_ratio": 1.3, "truncation": 1e-4, "final_relu": False}


def covariance_errors(factor: float, **changes) -> list[float]:
    """Relative differences of channel S sigma on f(x / S) from channel sigma on f(x)."""
    size = 161
    model = make(**SMOOTH | changes, input_size=(size, size), channel_sigmas=(1.0,))
    errors = []
    for sigma in (0.5, 1.0, 2.0, 4.0):
        small = evaluate(adapt(model, channel_sigmas=(sigma,)), blobs(size, sigma))
        larger = adapt(model, channel_sigmas=(factor * sigma,))
        large = evaluate(larger, blobs(size, factor * sigma))
        errors.append(np.linalg.norm(large - small) / np.linalg.norm(small))
    return errors


@pytest.mark.parametrize("factor", [2.0, 2**0.5])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 1},
        {"jet_order": 3},
        {"jet_order": 4},
        {"method": "integrated"},
        {"method": "sampled_derivative"},
        {"reach": 1.0},
        {"sigma_ratio": (1.2, 1.5)},
        {"activation": "silu"},
    ],
)
def test_enlarging_the_image_and_the_scales_changes_less_and_less(changes, factor):
    """Channel S sigma on f(x / S) gives what channel sigma gives on f(x); exact for sigma -> inf.

    The same function is seen at more and more pixels, so only the discretisation is left.
    """
    errors = covariance_errors(factor, **changes)
    assert sorted(errors, reverse=True) == errors
    assert errors[-1] < 0.02
    assert errors[-1] < errors[0] / 8


def test_coarse_grids_are_covariant_to_factors_of_two():
    """With twice the sigma, the spacing is twice as large, once sigma is a sample wide: only the
    first layer, whose input is the image, is discretised otherwise, and less and less so. With √2
    times the sigma, all layers are, however large sigma is.
    """
    density = 2**-0.5
    twice = covariance_errors(2.0, sampling_density=density)
    assert sorted(twice, reverse=True) == twice
    assert twice[-1] < 0.02 and twice[-1] < twice[0] / 8
    between = covariance_errors(2**0.5, sampling_density=density)
    print(twice, between)
    assert between[-1] > between[1] / 2


@pytest.mark.parametrize("jet_order", [2, 3])
def test_maps_are_enlarged_with_the_image(jet_order):
    """The map of channel 2 sigma at 2 x is the map of channel sigma at x."""
    sigma = 2.0
    model = make(
        **SMOOTH,
        jet_order=jet_order,
        input_size=(41, 41),
        channel_sigmas=(sigma,),
        spatial_selection="max",
    )
    larger = adapt(at_scale(model, 2.0), input_size=(81, 81))
    small = evaluate(model.maps_model(), blobs(41, 1.5 * sigma))
    large = evaluate(larger.maps_model(), blobs(81, 3.0 * sigma))
    difference = (large[:, ::2, ::2] - small)[:, 10:-10, 10:-10]
    assert small.std(axis=(1, 2)).min() > 0.05
    assert np.abs(difference).max() < 0.02 * np.abs(small).max()


@pytest.mark.parametrize("reach", [None, 1.0])
def test_rescaling_the_image_shifts_the_scale_channels(reach):
    sigmas = tuple(2 * 2 ** (i / 2) for i in range(4))
    model = make(**SMOOTH, input_size=(161, 161), channel_sigmas=sigmas, reach=reach)
    scale_logits = model.scale_logits_model()
    original, larger, double = (
        evaluate(scale_logits, blobs(161, 2 * scale))[0] for scale in (1, 2**0.5, 2)
    )
    spread = original.std()
    np.testing.assert_allclose(larger[1:], original[:-1], atol=0.05 * spread)
    np.testing.assert_allclose(double[2:], original[:-2], atol=0.05 * spread)
    assert np.abs(larger - original).max() > 0.2 * spread  # the same channels do not agree


# --- invariance and translation ---


@pytest.mark.parametrize("method", [m for m, row in DISCRETISATIONS.items() if row.hybrid])
@pytest.mark.parametrize("padding", ["reflect", "edge", "mirror"])
def test_adding_a_constant_to_the_image_changes_nothing(method, padding):
    for changes in ({}, {"jet_order": 3}, {"zero_order": True}):  # none in the first layer
        model = make(method=method, padding=padding, final_relu=False, **changes)
        images = random_images(model.config) / 2
        brighter = evaluate(model, images + 100)
        assert_rounded(brighter, evaluate(model, images), roundings=2 * THREE_LAYERS)


def test_adding_a_constant_changes_nothing_inside_zero_padding():
    model = make(input_size=(60, 60))
    images = random_images(model.config) / 2
    brighter = evaluate(model, images + 100)
    assert_rounded(brighter, evaluate(model, images), roundings=2 * THREE_LAYERS)
    near_the_border = make()
    images = random_images(near_the_border.config) / 2
    changed = evaluate(near_the_border, images + 100) - evaluate(near_the_border, images)
    assert np.abs(changed).max() > 0.05


@pytest.mark.parametrize("jet_order", [2, 3])
@pytest.mark.parametrize("padding", ["zero", "reflect"])
def test_maps_move_with_the_image(jet_order, padding):
    model = make(
        jet_order=jet_order,
        padding=padding,
        input_size=(64, 60),
        channel_sigmas=(0.5, 1.0),
        spatial_selection="max",
    )
    images = random_images(model.config)
    moved = np.roll(images, (3, -5), axis=(1, 2))
    margin = 22  # reach of three layers at sigma 1, 1.4, 2, and the shift
    for before, after in zip(
        evaluate(model.maps_model(), images), evaluate(model.maps_model(), moved), strict=True
    ):
        expected = np.roll(before, (3, -5), axis=(1, 2))
        inside = np.s_[:, margin:-margin, margin:-margin]
        assert expected[inside].std() > 0.05
        assert_rounded(after[inside], expected[inside])
        assert np.abs(after - before)[inside].max() > 0.1


@pytest.mark.parametrize("jet_order", [2, 3])
def test_mirrored_image_is_the_sign_of_odd_derivatives(jet_order):
    model = make(jet_order=jet_order)
    mirrored = adapt(model)
    odd = np.array([term.x % 2 for term in jet_terms(jet_order)])
    for k in (1, 2, 3):
        kernel = mirrored.get_layer(f"jet_{k}").kernel
        kernel.assign(kernel * (1 - 2 * odd[:, None, None]).astype("float32"))
    images = random_images(model.config)
    assert_rounded(evaluate(mirrored, images[:, :, ::-1]), evaluate(model, images))


# --- the same weights under another config ---


def test_adapting_to_the_same_config_is_the_same_network():
    for changes in ({}, {"jet_order": 3, "final_batch_norm": False}, {"learned_sigmas": True}):
        model = make(**changes)
        images = random_images(model.config)
        np.testing.assert_array_equal(evaluate(adapt(model), images), evaluate(model, images))


def test_one_channel_becomes_several():
    single = make(channel_sigmas=(1.0,))
    sigmas = (0.5, 1.0, 2.0)
    several = adapt(single, channel_sigmas=sigmas, scale_pooling="max")
    images = random_images(single.config)
    scale_logits = evaluate(several.scale_logits_model(), images)
    for index, sigma in enumerate(sigmas):
        alone = evaluate(adapt(single, channel_sigmas=(sigma,)), images)
        assert_rounded(scale_logits[:, index], alone)
    assert_rounded(evaluate(several, images), scale_logits.max(axis=1))
    np.testing.assert_array_equal(evaluate(single, images), evaluate(adapt(single), images))


def test_another_image_size_sees_the_same_centre():
    model = make(input_size=(60, 59))
    images = random_images(model.config)
    smaller = adapt(model, input_size=(40, 41))
    assert max(p for p in smaller.get_layer("jet_1").plans[1].output_size) < 40
    assert_rounded(evaluate(smaller, images[:, 10:50, 9:50]), evaluate(model, images))


def test_adapting_leaves_the_model_alone():
    model = make()
    images = random_images(model.config)
    before = evaluate(model, images)
    other = adapt(model, scale_pooling="max")
    other.get_layer("jet_1").kernel.assign(0 * other.get_layer("jet_1").kernel)
    np.testing.assert_array_equal(evaluate(model, images), before)
    assert model.config == small_config()


def test_changes_that_the_weights_do_not_fit_are_refused():
    model = make()
    with pytest.raises(ValueError, match="'jet_2'"):
        adapt(model, widths=(4, 6))
    with pytest.raises(ValueError, match="'jet_1'"):
        adapt(model, jet_order=3)
    with pytest.raises(ValueError, match="'sigmas'"):
        adapt(model, sigmas=(1.0,))


def test_of_weights_that_do_not_fit_none_are_copied():
    model = make()
    target = make(widths=(4, 6))
    before = [keras.ops.convert_to_numpy(w) for w in target.weights]
    with pytest.raises(ValueError, match="'jet_2'"):
        copy_weights(model, target)
    for old, new in zip(before, target.weights, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(new), old)


def test_at_scale_multiplies_every_sigma():
    model = make(learned_sigmas=True)
    model.get_layer("jet_2").ratio.assign(1.9)
    doubled = at_scale(model, 2.0)
    assert doubled.config.channel_sigmas == (1.4, 2.8)
    np.testing.assert_allclose(layer_sigmas(doubled), 2 * layer_sigmas(model))
    np.testing.assert_allclose(layer_sigmas(model)[0], np.array([1, 1.9, 1.96]) * 0.7, rtol=1e-6)
    images = random_images(model.config)
    again = at_scale(doubled, 0.5)
    assert_rounded(evaluate(again, images), evaluate(model, images))
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(
            ValueError, match="`factor` must be a (positive|finite) number.*Received"
        ):
            at_scale(model, wrong)


def test_sigmas_that_are_not_learned():
    expected = [[0.7, 0.7 * 1.4, 0.7 * 1.96], [1.4, 1.4**2, 1.4**3]]
    np.testing.assert_allclose(layer_sigmas(make()), expected)


# --- batch norm folded ---


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 3, "spatial_selection": "max"},
        {"method": "sampled_derivative", "scale_pooling": "logsumexp"},
        {"final_batch_norm": False, "final_relu": False},
        {"learned_sigmas": True, "zero_order": True, "final_relu": False},
        {"sampling_density": 0.7, "input_size": (31, 40), "scale_dropout": 0.3},
        {"jet_order": 4, "sigma_ratio": (1.0, 2.0), "activation": "gelu"},
        {"jet_order": 1, "activation": "tanh"},
    ],
)
def test_folded_network_is_the_same_function(changes, tmp_path):
    model = make(**changes)
    if model.config.learned_sigmas:
        model.get_layer("jet_2").ratio.assign(1.8)
    images = random_images(model.config)
    expected = evaluate(model, images)
    folded = fold(model)
    assert not any(layer.name.startswith("norm") for layer in folded.layers)
    assert_rounded(evaluate(folded, images), expected)
    assert fold(folded) is folded

    other = adapt(folded, scale_pooling="max")
    assert_rounded(
        evaluate(other, images), evaluate(fold(adapt(model, scale_pooling="max")), images)
    )
    folded.save(tmp_path / "folded.keras")
    loaded = keras.models.load_model(tmp_path / "folded.keras")
    assert type(loaded) is GaussDerNet and loaded.folded
    np.testing.assert_array_equal(evaluate(loaded, images), evaluate(folded, images))


# --- whole maps for batch norm ---


@pytest.mark.parametrize("padding", ["zero", "mirror"])
def test_whole_maps_change_the_batch_statistics_only(padding):
    """`window=False`: statistics over all pixels of every layer, and the same output.

    The maps of the first layer do not depend on batch norm, so a network that reads every pixel has
    the true ones.
    """
    model = make(input_size=(40, 40), padding=padding, window=False)
    windows, everywhere = (
        adapt(model, window=True, spatial_selection=s) for s in ("centre", "max")
    )
    images = random_images(model.config, batch=3)
    np.testing.assert_allclose(
        evaluate(model, images), evaluate(windows, images), rtol=1e-4, atol=1e-5
    )
    first = keras.Model(everywhere.input, everywhere.get_layer("jet_1").output)
    maps = [np.asarray(m, "float64") for m in first.predict(images, verbose=0)]
    mean = np.mean([m.mean(axis=(0, 1, 2)) for m in maps], axis=0)
    norms = [network.get_layer("norm_1") for network in (model, windows)]
    for network, norm in zip((model, windows), norms, strict=True):
        norm.momentum = 0.0
        network(images, training=True)
    whole, window = (keras.ops.convert_to_numpy(norm.moving_mean) for norm in norms)
    np.testing.assert_allclose(whole, mean, rtol=1e-4, atol=1e-6)
    assert np.abs(window - mean).max() > 1e-3
    assert all(tensor.shape[1:3] == (40, 40) for tensor in model.get_layer("norm_3").output)
