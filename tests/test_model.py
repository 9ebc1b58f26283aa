"""The network: against the numpy reference, windowed against dense, and through Keras' doors."""

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
    small_config,
    weights_by_layer,
)

from gdn_keras import GaussDerNet, GaussDerNetConfig, ScaleAdamW, adapt, build_model
from gdn_keras.config import ACTIVATIONS, EVERY_PIXEL
from gdn_keras.counts import count_multiply_adds, count_parameters
from gdn_keras.layers import SpatialSelection
from gdn_keras.model import (
    channel_plans,
    clamped_sigmas,
    copy_weights,
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


def make(**changes):
    return randomise(build_model(small_config(**changes)))


# --- numbers ---


@pytest.mark.parametrize("padding", ["zero", "reflect", "edge"])
@pytest.mark.parametrize("jet_order", JET_ORDERS)
@pytest.mark.parametrize("method", METHODS)
def test_network_is_the_reference(method, jet_order, padding):
    model = make(method=method, jet_order=jet_order, padding=padding, spatial_selection="max")
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
    model = make(**changes)
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
    expected = make(**changes)
    images = random_images(expected.config)
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        model = make(**changes)
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
    model = make(input_channels=3)
    grey = adapt(model, input_channels=1)
    images = random_images(grey.config)
    assert_rounded(evaluate(grey, images), evaluate(model, images.repeat(3, axis=-1)))


def test_network_for_grey_images_takes_the_luma_of_colour_ones():
    model = make(input_channels=1)
    colour = adapt(model, input_channels=3)
    images = random_images(colour.config)
    luma = images @ np.array([[0.299], [0.587], [0.114]], "float32")
    assert_rounded(evaluate(colour, images), evaluate(model, luma))
    again = adapt(colour, input_channels=1)  # 0.299 + 0.587 + 0.114 = 1
    assert_rounded(evaluate(again, luma), evaluate(model, luma))


def test_other_numbers_of_input_channels_are_refused():
    with pytest.raises(ValueError, match="The weights of layer 'jet_1' do not fit"):
        adapt(make(input_channels=2), input_channels=3)


@pytest.mark.parametrize(
    "shape, hint",
    [
        ((2, 13, 13, 2), "`input_size=(height, width)` in `gdn_keras.zoo.load` or"),
        ((2, 13, 12, 1), "`gdn_keras.adapt` with `input_channels` changes between grey and"),
        ((13, 12, 2), "An axis is missing: `images[None]` adds it"),
        ((2, 13, 12), "An axis is missing: `images[..., None]` adds it"),
        ((2, 1, 13, 12, 2), "`input_size=(height, width)`"),
    ],
)
def test_images_of_another_shape(shape, hint):
    model = make()
    expected = r"\(batch, height, width, channels\) = \(batch, 13, 12, 2\). Received: "
    images = np.zeros(shape, "float32")
    for network in (model, model.scale_logits_model(), model.maps_model()):
        for call in (network, network.predict_on_batch):
            with pytest.raises(ValueError, match=expected) as error:
                call(images)
            assert str(shape) in str(error.value) and hint in str(error.value)


def test_images_of_another_shape_than_before():
    """TensorFlow then traces the network with an unknown size, or an unknown number of axes."""
    model = make()
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
    anywhere = {"spatial_selection": "max", "channel_sigmas": (1.0,)}
    np.testing.assert_array_equal(
        evaluate(adapt(model, **anywhere, reach=1.0), images),
        evaluate(adapt(model, **anywhere), images),
    )


@pytest.mark.parametrize("data, paper", [("fashion", 146_112), ("cifar", 430_464)])
def test_parameter_counts_of_the_paper(data, paper):
    config = recipes.get(f"{data}_avg_2jet").config
    assert count_parameters(config, as_paper=True) == paper
    widths = (config.input_channels, *config.layer_widths)
    pairs = sum(a * b for a, b in zip(widths, widths[1:], strict=False))
    assert 6 * pairs == paper
    trainable = sum(int(np.prod(w.shape)) for w in build_model(config).trainable_weights)
    # five coefficients per pair, and of batch norm a factor and an offset per feature
    assert trainable == count_parameters(config) == 5 * pairs + 2 * sum(config.layer_widths)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 3},
        {"zero_order": True},
        {"final_batch_norm": False},
        {"learned_sigmas": True},
        {"scale_dropout": 0.2},
    ],
)
def test_parameter_count_is_that_of_the_model(changes):
    model = make(**changes)
    trainable = sum(int(np.prod(w.shape)) for w in model.trainable_weights)
    assert count_parameters(model.config) == trainable


def test_multiply_adds():
    """Two layers and one scale channel, by hand: 5 x 5 image, sigma 1, kernels of 7 weights."""
    config = GaussDerNetConfig(
        input_size=(5, 5),
        input_channels=2,
        num_classes=3,
        channel_sigmas=(1.0,),
        sigma_ratio=1.0,
        widths=(4,),
        spatial_selection="max",
    )
    smoothing = 7 * 5 * 5 + 7 * 7 * 5  # one more sample on either side, for the differences
    everywhere = 2 * smoothing + 9 * 25 * 2 * 4 + 4 * smoothing + 9 * 25 * 4 * 3
    assert count_multiply_adds(config) == everywhere
    centre = config.replace(spatial_selection="centre")
    ours = 2 * smoothing + 9 * 25 * 2 * 4 + 4 * (3 * 5 * 5 + 3 * 3 * 5) + 9 * 4 * 3
    assert count_multiply_adds(centre) == ours
    for same in (config, centre, config.replace(sampling_density=0.5)):
        assert count_multiply_adds(same, dense=True) == everywhere


@pytest.mark.parametrize("density", [None, 2**-0.5])
def test_a_plan_never_costs_more_than_every_pixel(density):
    for name, recipe in recipes.RECIPES.items():
        config = recipe.config.replace(sampling_density=density)
        assert count_multiply_adds(config) <= count_multiply_adds(config, dense=True), name


# --- learned scales ---


@pytest.mark.parametrize("method", ["discrete", "integrated", "sampled_derivative"])
def test_gradients_of_learned_scales_in_a_network(method):
    model = make(
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
    plain, learned = make(**changes), make(**changes, learned_sigmas=True, sigma_range=(0.9, 2.5))
    for ours, theirs in zip(
        [w for w in learned.weights if w.name != "learned_ratio"], plain.weights, strict=True
    ):
        ours.assign(theirs)
    images = random_images(plain.config)
    assert_rounded(evaluate(learned, images), evaluate(plain, images))


def test_learned_sigmas_stay_above_half_a_sample_of_their_grid():
    config = recipes.get("fashion28_learned_sampled_bn_lr1e-2").config
    every_pixel = sigma_ranges(config)
    assert every_pixel == (config.sigma_range,) * 6
    config = config.replace(sampling_density=2**-0.5)
    low, high = config.sigma_range
    spacings = [layer.rows.output.spacing for layer in channel_plans(config)[0].layers]
    assert spacings == [1, 1, 2, 2, 2, 2]
    assert sigma_ranges(config) == ((low, high),) * 2 + ((1.0, high),) * 4
    assert count_multiply_adds(config) < 0.4 * count_multiply_adds(config.replace(**EVERY_PIXEL))
    model = build_model(config)
    assert clamped_sigmas(model) == ()
    for k, value in ((1, 0.01), (3, 0.01), (5, 100.0), (6, 1.5)):
        ratio = model.get_layer(f"jet_{k}").ratio
        ratio.assign(ratio.constraint(keras.ops.convert_to_tensor(value)))
    np.testing.assert_allclose(layer_sigmas(model)[0, [0, 2, 4, 5]], [low, 1.0, high, 1.5])
    assert clamped_sigmas(model) == (1, 3, 5)
    assert np.isfinite(evaluate(model, random_images(config))).all()
    two = config.replace(channel_sigmas=(0.5, 1.0), sigma_range=(0.15, 9.0))
    assert sigma_ranges(two)[2] == (1.0, high)  # channel 1/2 has every pixel there


# --- through Keras' doors ---


def test_every_layer_is_named():
    names = [layer.name for layer in make(final_batch_norm=False).layers]
    expected = ["image", "pixels", "jet_1", "norm_1", "relu_1", "jet_2", "norm_2", "relu_2"]
    expected += ["jet_3", "relu_3", "selection", "scale_dropout", "pooling"]
    assert names == expected


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 3, "sampling_density": 0.7, "input_size": (30, 31), "scale_dropout": 0.2},
        {"learned_sigmas": True, "method": "integrated_derivative", "spatial_selection": "max"},
    ],
)
def test_saved_models_are_bit_identical(changes, tmp_path):
    model = make(**changes)
    images = random_images(model.config)
    expected = evaluate(model, images)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is GaussDerNet
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(evaluate(loaded, images), expected)

    again = GaussDerNet.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    model.save_weights(tmp_path / "model.weights.h5")
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(evaluate(again, images), expected)

    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(evaluate(clone, images), expected)
    assert type(clone) is GaussDerNet
    assert clone.get_config() == model.get_config()


def test_weights_fit_networks_with_and_without_dropout(tmp_path):
    with_dropout, without = make(scale_dropout=0.3), build_model(small_config())
    with_dropout.save_weights(tmp_path / "a.weights.h5")
    without.load_weights(tmp_path / "a.weights.h5")
    images = random_images(without.config)
    np.testing.assert_array_equal(evaluate(without, images), evaluate(with_dropout, images))


def test_compiled_model_with_our_optimizer_survives_saving(tmp_path):
    model = make(learned_sigmas=True, scale_dropout=0.3)
    model.compile(
        ScaleAdamW(0.01, sigma_learning_rate_factor=0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    images, labels = random_images(model.config, batch=3), np.arange(3)
    model.fit(images, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is ScaleAdamW
    np.testing.assert_array_equal(evaluate(loaded, images), evaluate(model, images))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16", "float64"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 3, "method": "sampled_derivative"},
        {"learned_sigmas": True, "zero_order": True},
        {"learned_sigmas": True, "jet_order": 3, "method": "integrated_derivative"},
    ],
)
def test_precision_policies_are_finite_and_close(changes, policy):
    model = make(**changes)
    images = random_images(model.config)
    expected = evaluate(model, images)
    other = build_model(model.config, dtype=policy)
    copy_weights(model, other)
    logits = evaluate(other, images)
    assert logits.dtype == "float32"
    tolerance = {"mixed_bfloat16": 0.05, "float64": 1e-5}.get(policy, 0.01)
    np.testing.assert_allclose(logits, expected, atol=tolerance * np.abs(expected).max())
    assert GaussDerNet.from_config(other.get_config()).policy.name == policy


def test_half_precision_training_step_is_finite():
    model = build_model(small_config(learned_sigmas=True), dtype="mixed_float16")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(ScaleAdamW(0.01), loss=loss, jit_compile=False)
    before = [keras.ops.convert_to_numpy(w) for w in model.trainable_weights]
    model.fit(random_images(model.config, batch=6), np.arange(6) % 3, epochs=3, verbose=0)
    for old, weight in zip(before, model.trainable_weights, strict=True):
        new = keras.ops.convert_to_numpy(weight)
        assert np.all(np.isfinite(new)) and not np.array_equal(new, old)


@pytest.mark.parametrize("jet_order", [2, 3])
def test_eager_graph_symbolic_and_predict_agree(jet_order):
    model = make(jet_order=jet_order)
    images = random_images(model.config, batch=5)
    eager = evaluate(model, images)
    graph = tf.function(model)(tf.constant(images))
    symbolic = model(keras.Input(images.shape[1:]))
    assert symbolic.shape == (None, 3) and symbolic.dtype == "float32"
    assert_rounded(graph, eager)
    assert_rounded(model.predict(images, batch_size=2, verbose=0), eager)


def test_xla_agrees():
    model = make(learned_sigmas=True, channel_sigmas=(0.7,), widths=(4,))
    images = random_images(model.config)
    compiled = tf.function(model, jit_compile=True)(tf.constant(images))
    assert_rounded(compiled, evaluate(model, images))


@pytest.mark.parametrize("pooling", ["max", "average", "logsumexp"])
@pytest.mark.parametrize("selection", ["centre", "max"])
def test_batches_of_one_and_of_none(selection, pooling):
    model = make(spatial_selection=selection, scale_pooling=pooling)
    images = random_images(model.config, batch=3)
    together = evaluate(model, images)
    for index in range(3):
        alone = evaluate(model, images[index : index + 1])
        assert_rounded(alone[0], together[index])
    assert evaluate(model, images[:0]).shape == (0, 3)
    assert evaluate(model.scale_logits_model(), images[:0]).shape == (0, 2, 3)


def test_whole_numbers_are_pixels_too():
    model = make()
    images = random_images(model.config).round()
    np.testing.assert_array_equal(evaluate(model, images.astype("uint8")), evaluate(model, images))


def test_every_intermediate_is_at_hand():
    model = make(spatial_selection="max", scale_pooling="max")
    images = random_images(model.config)
    for layer, width in enumerate(model.config.layer_widths, start=1):
        maps = evaluate(model.maps_model(layer), images)
        assert [m.shape for m in maps] == 2 * [(2, 13, 12, width)]
        assert all((m >= 0).all() and m.max() > 0 for m in maps)
    scale_logits = evaluate(model.scale_logits_model(), images)
    np.testing.assert_array_equal(
        scale_logits, np.stack([m.max(axis=(1, 2)) for m in maps], axis=1)
    )
    np.testing.assert_array_equal(evaluate(model, images), scale_logits.max(axis=1))
    single = make(channel_sigmas=(1.0,), spatial_selection="max")
    assert evaluate(single.maps_model(), images).shape == (2, 13, 12, 3)
    for wrong in (0, 4, -1):
        with pytest.raises(
            ValueError, match=f"`layer` must be from 1 to 3. Received: layer={wrong}"
        ):
            model.maps_model(wrong)


def test_plans_of_a_config():
    config = small_config(input_size=(60, 60))
    whole = channel_plans(config.replace(window=False))
    assert all(layer.output_size == (60, 60) for plan in whole for layer in plan.layers)
    window = channel_plans(config)
    first, second = (plan.layers[0].rows.window.count for plan in window)
    assert first < second < 60


def test_what_is_frozen_stays_frozen(tmp_path):
    """After saving and loading, with the optimizer where it was; and in adapted networks."""
    model = build_model(small_config())
    for layer in model.layers:
        layer.trainable = layer.name in ("jet_3", "norm_3")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=loss)
    images, labels = random_images(model.config, batch=6), np.arange(6) % 3
    model.fit(images, labels, verbose=0)
    model.save(tmp_path / "frozen.keras")
    loaded = keras.saving.load_model(tmp_path / "frozen.keras")
    names = [v.path for v in model.trainable_variables]
    assert len(names) == 3 and [v.path for v in loaded.trainable_variables] == names
    assert int(loaded.optimizer.iterations) == 1
    before = {layer.name: layer.get_weights() for layer in loaded.layers if layer.weights}
    loaded.fit(images, labels, verbose=0)
    after = {name: loaded.get_layer(name).get_weights() for name in before}
    for name in before:
        same = all(map(np.array_equal, before[name], after[name]))
        assert same == (name not in ("jet_3", "norm_3")), name
    adapted = adapt(model, input_size=(20, 20))
    assert adapted.frozen == model.frozen and len(adapted.trainable_variables) == 3
    assert "frozen" not in build_model(small_config()).get_config()


def test_training_lowers_the_loss_and_moves_the_statistics():
    keras.utils.set_random_seed(0)
    model = build_model(small_config(scale_dropout=0.2), seed=1)
    images = random_images(model.config, batch=24)
    labels = np.arange(24) % 3
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(ScaleAdamW(0.02), loss=loss, jit_compile=False)
    losses = model.fit(images, labels, batch_size=24, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    for k in (1, 2, 3):
        moving_mean = keras.ops.convert_to_numpy(model.get_layer(f"norm_{k}").moving_mean)
        assert np.abs(moving_mean).max() > 0.001
