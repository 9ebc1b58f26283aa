"""The network: against the numpy reference, windowed against dense, with learned scales."""

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from helpers import (
    SIX_LAYERS,
    assert_rounded,
    evaluate,
    random_images,
    randomise,
    small_model,
    weights_by_layer,
)

from gdn_keras import adapt, build_model
from gdn_keras.config import ACTIVATIONS, EVERY_PIXEL
from gdn_keras.counts import count_multiply_adds
from gdn_keras.layers import SpatialSelection
from gdn_keras.model import (
    channel_plans,
    clamped_sigmas,
    layer_sigmas,
    sigma_ranges,
)
from gdn_keras.scale_space import JET_ORDERS, METHODS
from training import recipes

# The multi-scale-channel networks of Table 1 with centre selection, with one channel, as 3-jets.
TABLE_1 = [
    f"{data}_{variant}"
    for data in ("fashion", "cifar")
    for variant in ("single_2jet", "avg_2jet", "avg_3jet")
]


# --- numbers ---


@pytest.mark.parametrize("padding", ["zero", "reflect", "edge"])
@pytest.mark.parametrize("jet_order", JET_ORDERS)
@pytest.mark.parametrize("method", METHODS)
def test_network_is_the_reference(method, jet_order, padding):
    model = small_model(
        method=method, jet_order=jet_order, padding=padding, spatial_selection="max"
    )
    images = random_images(model.config, batch=1)
    maps = evaluate(model.maps_model(), images)
    logits, _, expected = reference.network(images[0], weights_by_layer(model), model.config)
    for ours, theirs in zip(maps, expected, strict=True):
        assert theirs.std(axis=(0, 1)).max() > 0.05  # there is something to compare
        assert_rounded(ours[0], theirs)
    assert_rounded(evaluate(model, images)[0], logits)


@pytest.mark.parametrize(
    "changes",
    [
        {"scale_pooling": "max"},
        {"scale_pooling": "logsumexp", "spatial_selection": "max"},
        {"zero_order": True, "final_relu": False},
        {"zero_order": True, "jet_order": 3, "padding": "edge", "final_relu": False},
        {"final_batch_norm": False},
        {"final_relu": False},
        {"final_batch_norm": False, "final_relu": False, "truncation": 0.05},
        {"truncation": 1e-6, "padding": "reflect"},
        {"input_size": (5, 4), "padding": "reflect"},
        {"input_size": (1, 3), "padding": "reflect"},
        {"input_size": (1, 3), "padding": "mirror", "truncation": 1e-7},
        {"input_size": (40, 33), "channel_sigmas": (0.5, 1.0, 2.0)},
        {"scale_dropout": 0.5},
        {"sigma_ratio": (1.0, 2.1)},
        {"sigma_ratio": (2.1, 1.0), "padding": "mirror", "truncation": 1e-7},
        {"activation": "gelu"},
        {"activation": "tanh", "jet_order": 4, "zero_order": True},
    ],
)
def test_options_are_those_of_the_reference(changes):
    model = small_model(**changes)
    images = random_images(model.config)
    logits, scale_logits = evaluate(model, images), evaluate(model.scale_logits_model(), images)
    weights = weights_by_layer(model)
    expected = [reference.network(image, weights, model.config) for image in images]
    assert_rounded(logits, np.array([pooled for pooled, _, _ in expected]))
    assert_rounded(scale_logits, np.array([scales for _, scales, _ in expected]))


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling_density": 0.7},
        {"jet_order": 3, "learned_sigmas": True},
        {"input_size": (120, 110), "spatial_selection": "max"},  # kernels slide
    ],
)
def test_images_are_channels_last_whatever_keras_is_set_to(changes):
    expected = small_model(**changes)
    images = random_images(expected.config)
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        model = small_model(**changes)
        logits, trained = evaluate(model, images), evaluate(model, images, training=True)
    finally:
        keras.config.set_image_data_format(before)
    np.testing.assert_array_equal(logits, evaluate(expected, images))
    np.testing.assert_array_equal(trained, evaluate(expected, images, training=True))


@pytest.mark.heavy
@pytest.mark.parametrize("name", TABLE_1)
def test_window_is_exact_for_every_network_of_table_1(name):
    config = recipes.get(name).config.replace(sampling_density=None)
    assert config.spatial_selection == "centre"
    model = randomise(build_model(config))
    images = random_images(config, batch=1)
    dense = adapt(model, spatial_selection="max").maps_model()(images)
    dense = dense if isinstance(dense, list) else [dense]
    assert all(tuple(maps.shape[1:3]) == config.input_size for maps in dense)
    expected = keras.ops.convert_to_numpy(SpatialSelection("centre")(dense))
    window = evaluate(model.scale_logits_model(), images)
    assert expected.std() > 0.1
    assert_rounded(window, expected, roundings=SIX_LAYERS)


def test_activations_are_those_of_keras_that_act_on_every_value_alone():
    values = np.linspace(-3, 3, 8, dtype="float32").reshape(2, 4)
    alone = set()
    for name in dir(keras.activations):
        function = getattr(keras.activations, name)
        try:
            whole, one = function(values), function(values[:, :1])
        except Exception:  # needs arguments, or an even number of features
            continue
        if getattr(whole, "shape", None) == values.shape and np.allclose(whole[:, :1], one):
            alone.add(function)
    assert alone == {getattr(keras.activations, name) for name in ACTIVATIONS}


def test_network_for_colour_images_takes_grey_ones():
    model = small_model(input_channels=3)
    grey = adapt(model, input_channels=1)
    images = random_images(grey.config)
    assert_rounded(evaluate(grey, images), evaluate(model, images.repeat(3, axis=-1)))


def test_network_for_grey_images_takes_the_luma_of_colour_ones():
    model = small_model(input_channels=1)
    colour = adapt(model, input_channels=3)
    images = random_images(colour.config)
    luma = images @ np.array([[0.299], [0.587], [0.114]], "float32")
    assert_rounded(evaluate(colour, images), evaluate(model, luma))
    again = adapt(colour, input_channels=1)  # 0.299 + 0.587 + 0.114 = 1
    assert_rounded(evaluate(again, luma), evaluate(model, luma))


def test_other_numbers_of_input_channels_are_refused():
    with pytest.raises(ValueError, match="'jet_1'"):
        adapt(small_model(input_channels=2), input_channels=3)


@pytest.mark.parametrize(
    "shape, hint",
    [
        ((2, 13, 13, 2), "`input_size=(height, width)`"),
        ((2, 13, 12, 1), "`input_channels`"),
        ((13, 12, 2), "`images[None]`"),
        ((2, 13, 12), "`images[..., None]`"),
        ((2, 1, 13, 12, 2), "`input_size=(height, width)`"),
    ],
)
def test_images_of_another_shape(shape, hint):
    model = small_model()
    expected = r"\(batch, height, width, channels\) = \(batch, 13, 12, 2\). Received: "
    images = np.zeros(shape, "float32")
    for network in (model, model.scale_logits_model(), model.maps_model()):
        for call in (network, network.predict_on_batch):
            with pytest.raises(ValueError, match=expected) as error:
                call(images)
            assert str(shape) in str(error.value) and hint in str(error.value)


def test_images_of_another_shape_than_before():
    """TensorFlow then traces the network with an unknown size, or an unknown number of axes."""
    model = small_model()
    model.compile("sgd", loss="mse")
    images = np.zeros((4, 13, 12, 2), "float32")
    model.predict(images, verbose=0)
    model.fit(images, np.zeros((4, 3)), verbose=0)
    expected = r"channels\) = \(batch, 13, 12, 2\). Received: "
    for shape in ((4, 20, 12, 2), (4, 13, 12, 1), (4, 13, 12), (4, 13, 12, 2, 1)):
        wrong = np.zeros(shape, "float32")
        with pytest.raises(ValueError, match=expected):
            model.predict(wrong, verbose=0)
        with pytest.raises(ValueError, match=expected):
            model.fit(wrong, np.zeros((4, 3)), verbose=0)
    assert model.predict(images, verbose=0).shape == (4, 3)  # not broken by them


def test_adapting_gives_no_other_classes():
    with pytest.raises(ValueError, match="must be 3, as in the network.*Received: num_classes=5"):
        adapt(small_model(), num_classes=5)


@pytest.mark.parametrize("name", ["fashion_avg_2jet", "fashion_avg_3jet", "cifar_avg_2jet"])
def test_adaptive_sampling_deviates_little_and_less_when_denser(name):
    """Deviation of the logits from those of every pixel, relative to how they vary with class."""
    config = recipes.get(name).config.replace(widths=(16,) * 5, sampling_density=None)
    model = randomise(build_model(config))
    images = random_images(config, batch=3)
    exact = evaluate(model, images)
    variation = np.linalg.norm(exact - exact.mean(axis=-1, keepdims=True))

    def deviation(density):
        sampled = evaluate(adapt(model, sampling_density=density), images)
        return np.linalg.norm(sampled - exact) / variation

    densities = (0.35, 0.5, 2**-0.5, 1.0, 2**0.5, 2.0, 4.0)
    deviations = {density: deviation(density) for density in densities}
    print(deviations)
    assert sorted(deviations.values(), reverse=True) == list(deviations.values())
    for density, bound in ((0.35, 0.25), (2**-0.5, 0.1), (1.0, 0.05), (2.0, 0.01), (4.0, 0.001)):
        assert deviations[density] < bound
    assert deviations[0.35] > 0.01  # it is another computation


@pytest.mark.parametrize("name", ["fashion_avg_2jet", "fashion_avg_3jet", "cifar_avg_2jet"])
@pytest.mark.parametrize("density", [None, 2**-0.5])
def test_reach_deviates_little_and_less_when_longer(name, density):
    """Deviation of the logits from those of the exact window, relative to how they vary."""
    config = recipes.get(name).config.replace(
        widths=(8,) * 5, channel_sigmas=(0.5, 1.0, 2.0), sampling_density=density
    )
    model = randomise(build_model(config))
    images = random_images(config, batch=3)
    exact = evaluate(model, images)
    variation = np.linalg.norm(exact - exact.mean(axis=-1, keepdims=True))
    deviations, costs = [], []
    for reach in (0.75, 1.0, 1.25, 1.5, 2.0):
        shorter = adapt(model, reach=reach)
        deviations.append(np.linalg.norm(evaluate(shorter, images) - exact) / variation)
        costs.append(count_multiply_adds(shorter.config))
    print(deviations, costs)
    assert sorted(deviations, reverse=True) == deviations
    assert sorted(costs) == costs and costs[1] < 0.8 * count_multiply_adds(config)
    assert deviations[0] > 0.005  # it is another computation
    # random weights on fine squares see more of the border than trained ones on real images
    assert (np.array(deviations[1:]) < (1, 0.25, 0.05, 0.002)).all()
    whole = evaluate(adapt(model, reach=10.0), images)
    np.testing.assert_array_equal(whole, exact)
    # every sample is selected, so there is nothing to leave out
    anywhere = {"spatial_selection": "max", "channel_sigmas": (1.0,)}
    np.testing.assert_array_equal(
        evaluate(adapt(model, **anywhere, reach=1.0), images),
        evaluate(adapt(model, **anywhere), images),
    )


# --- learned scales ---


@pytest.mark.parametrize("method", ["discrete", "integrated", "sampled_derivative"])
def test_gradients_of_learned_scales_in_a_network(method):
    model = small_model(
        method=method, learned_sigmas=True, sigma_range=(0.7, 3.0), final_relu=False, widths=(6, 6)
    )
    images = tf.constant(random_images(model.config))
    target = tf.constant(np.random.default_rng(0).normal(size=(2, 3)), "float32")
    ratios = [model.get_layer(f"jet_{k}").ratio for k in (1, 2, 3)]
    for start, ratio in zip((0.9, 1.5, 1.8), ratios, strict=True):
        ratio.assign(start)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(images) * target)
    gradients = tape.gradient(loss, [ratio.value for ratio in ratios])
    for ratio, gradient in zip(ratios, gradients, strict=True):
        start = float(ratio.value)
        step = 1e-3
        values = []
        for sign in (-1, 1):
            ratio.assign(start + sign * step)
            values.append(float(tf.reduce_sum(model(images) * target)))
        ratio.assign(start)
        difference = (values[1] - values[0]) / (2 * step)
        assert float(gradient) == pytest.approx(difference, rel=0.03, abs=0.01)
        assert abs(difference) > 0.05


@pytest.mark.parametrize(
    "changes",
    [
        {"jet_order": 3},
        {"input_size": (33, 40), "sampling_density": 0.7},
        {"input_size": (33, 40), "sampling_density": 0.7, "method": "sampled_derivative"},
    ],
)
def test_learned_network_starts_as_the_geometric_one(changes):
    changes = {"truncation": 1e-7, **changes}
    plain, learned = (
        small_model(**changes),
        small_model(**changes, learned_sigmas=True, sigma_range=(0.9, 2.5)),
    )
    for ours, theirs in zip(
        [w for w in learned.weights if w.name != "learned_ratio"], plain.weights, strict=True
    ):
        ours.assign(theirs)
    images = random_images(plain.config)
    assert_rounded(evaluate(learned, images), evaluate(plain, images))


@pytest.fixture(scope="module")
def learned_config():
    """Layers 3 to 6 have every second pixel."""
    config = recipes.get("fashion28_learned_sampled_bn_lr1e-2").config
    config = config.replace(sampling_density=2**-0.5)
    spacings = [layer.rows.output.spacing for layer in channel_plans(config)[0].layers]
    assert spacings == [1, 1, 2, 2, 2, 2]
    return config


def test_learned_sigmas_stay_above_half_a_sample_of_their_grid(learned_config):
    low, high = learned_config.sigma_range
    assert sigma_ranges(learned_config) == ((low, high),) * 2 + ((1.0, high),) * 4
    assert sigma_ranges(learned_config.replace(**EVERY_PIXEL)) == ((low, high),) * 6
    two = learned_config.replace(channel_sigmas=(0.5, 1.0), sigma_range=(0.15, 9.0))
    assert sigma_ranges(two)[2] == (1.0, high)  # channel 1/2 has every pixel there


def test_coarse_grids_of_learned_sigmas_save_most_of_the_work(learned_config):
    every_pixel = learned_config.replace(**EVERY_PIXEL)
    assert count_multiply_adds(learned_config) < 0.4 * count_multiply_adds(every_pixel)


def test_sigmas_at_a_bound_of_their_range_are_named(learned_config):
    low, high = learned_config.sigma_range
    model = build_model(learned_config)
    assert clamped_sigmas(model) == ()
    for k, value in ((1, 0.01), (3, 0.01), (5, 100.0), (6, 1.5)):
        ratio = model.get_layer(f"jet_{k}").ratio
        ratio.assign(ratio.constraint(keras.ops.convert_to_tensor(value)))
    np.testing.assert_allclose(layer_sigmas(model)[0, [0, 2, 4, 5]], [low, 1.0, high, 1.5])
    assert clamped_sigmas(model) == (1, 3, 5)
    assert np.isfinite(evaluate(model, random_images(learned_config))).all()
