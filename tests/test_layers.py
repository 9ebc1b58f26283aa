"""Every public layer: the Keras contract, what it computes, and what it says to bad input."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import half, needs_half_precision

from gdn_keras import layers
from gdn_keras.layers import (
    CommonGrid,
    JetLayer,
    PixelScaling,
    ScaleBatchNormalization,
    ScaleChannelDropout,
    ScalePooling,
    SpatialSelection,
)

IMAGE = (None, 11, 8, 2)
MAPS = [(None, 11, 8, 3), (None, 5, 4, 3), (None, 1, 2, 3)]
CONTRACT = {  # how a layer is made, and the shape(s) it takes
    "pixels": (lambda **kw: PixelScaling(1 / 255, network={"num_classes": 3}, **kw), IMAGE),
    "jet": (lambda **kw: JetLayer(3, sigma=1.2, **kw), IMAGE),
    "jet of two channels": (lambda **kw: JetLayer(3, sigma=(0.6, 1.2), **kw), [IMAGE, IMAGE]),
    "jet with everything": (
        lambda **kw: JetLayer(
            3,
            sigma=(0.8, 1.2),
            jet_order=3,
            zero_order=True,
            method="integrated_derivative",
            padding="reflect",
            truncation=0.01,
            compensate_integration=True,
            use_bias=False,
            learned_ratio=1.5,
            ratio_range=(0.8, 2.0),
            **kw,
        ),
        [IMAGE, IMAGE],
    ),
    "learned 2-jet": (lambda **kw: JetLayer(3, sigma=1.2, learned_ratio=1.0, **kw), IMAGE),
    "norm": (lambda **kw: ScaleBatchNormalization(momentum=0.8, epsilon=1e-3, **kw), MAPS[0]),
    "norm of three channels": (lambda **kw: ScaleBatchNormalization(**kw), MAPS),
    "centre": (lambda **kw: SpatialSelection("centre", **kw), MAPS),
    "spatial max": (lambda **kw: SpatialSelection("max", **kw), MAPS),
    "grid": (lambda **kw: CommonGrid((21, 16), spacings=(2, 4, 8), **kw), MAPS),
    "max": (lambda **kw: ScalePooling("max", **kw), (None, 4, 3)),
    "average": (lambda **kw: ScalePooling("average", **kw), (None, 4, 3)),
    "logsumexp at points": (lambda **kw: ScalePooling("logsumexp", **kw), (None, 4, 6, 5, 3)),
    "dropout": (lambda **kw: ScaleChannelDropout(0.3, seed=5, **kw), (None, 4, 3)),
    "no dropout": (lambda **kw: ScaleChannelDropout(0.0, **kw), (None, 4, 3)),
}


def as_list(value):
    return list(value) if isinstance(value, list) else [value]


def like(spec, values):
    return values if isinstance(spec, list) else values[0]


def as_numpy(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


def draw(spec, batch=2):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(batch, *shape[1:])).astype("float32") for shape in as_list(spec)]
    return like(spec, arrays)


def test_contract_covers_every_public_layer():
    public = {
        value
        for value in vars(layers).values()
        if inspect.isclass(value) and issubclass(value, keras.layers.Layer)
    }
    assert {type(make()) for make, _ in CONTRACT.values()} == public


@pytest.mark.parametrize("case", CONTRACT)
@pytest.mark.parametrize("dtype", ["float32", half("mixed_float16"), half("mixed_bfloat16")])
def test_contract(case, dtype, tmp_path):
    make, spec = CONTRACT[case]
    layer = make(name="the_layer", dtype=dtype)
    before = layer.get_config()
    for argument in inspect.signature(type(layer)).parameters:
        if argument != "kwargs":
            assert argument in before
            assert getattr(layer, argument) == before[argument] or argument == "plans"

    shape = layer.compute_output_shape(spec)
    assert not layer.built
    inputs = draw(spec)
    outputs = as_list(layer(inputs))
    assert [(None, *output.shape[1:]) for output in outputs] == as_list(shape)
    assert layer.compute_output_shape(spec) == shape
    for output in outputs:
        assert output.shape[0] == 2
        assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
        assert np.all(np.isfinite(as_numpy(output)))

    assert layer.get_config() == before
    again = type(layer).from_config(json.loads(json.dumps(before)))
    assert again.get_config() == before

    symbolic = [keras.Input(s[1:]) for s in as_list(spec)]
    model = keras.Model(symbolic, layer(like(spec, symbolic)))
    assert model.output_shape == shape
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("the_layer").get_config() == before
    for old, new in zip(outputs, as_list(loaded(as_list(inputs))), strict=True):
        np.testing.assert_array_equal(as_numpy(old), as_numpy(new))


# --- batch normalisation ---


def test_statistics_are_the_mean_over_scale_channels():
    layer = ScaleBatchNormalization(momentum=0.9)
    maps = [3 * draw(MAPS)[0] + 1, draw(MAPS)[1] - 2, draw(MAPS)[2]]
    outputs = [as_numpy(x) for x in layer(maps, training=True)]
    mean = np.mean([x.mean(axis=(0, 1, 2)) for x in maps], axis=0)
    square = np.mean([(x**2).mean(axis=(0, 1, 2)) for x in maps], axis=0)
    variance = square - mean**2
    for x, output in zip(maps, outputs, strict=True):
        np.testing.assert_allclose(output, (x - mean) / np.sqrt(variance + 1e-5), atol=1e-5)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * mean, atol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, 0.9 + 0.1 * variance, atol=1e-5)
    assert [w.name for w in layer.trainable_weights] == ["gamma", "beta"]


def test_one_tensor_is_normalised_as_keras_does():
    x = 2 * draw((None, 5, 4, 3), batch=6) + 1
    ours = ScaleBatchNormalization(momentum=0.8, epsilon=1e-3)
    theirs = keras.layers.BatchNormalization(momentum=0.8, epsilon=1e-3)
    target = tf.constant(draw((None, 5, 4, 3), batch=6))
    gradients = []
    for layer in (ours, theirs):
        layer.build(x.shape)
        layer.gamma.assign([0.5, 1.0, 1.5])
        layer.beta.assign([-1.0, 0.0, 1.0])
        image = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(image)
            loss = tf.reduce_sum(tf.tanh(layer(image, training=True)) * target)
        gradients.append(tape.gradient(loss, [image, layer.gamma.value, layer.beta.value]))
    for our, their in zip(*gradients, strict=True):
        np.testing.assert_allclose(our, their, atol=1e-4)
    for our, their in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(as_numpy(our), as_numpy(their), atol=1e-5)
    np.testing.assert_allclose(ours(x), theirs(x), atol=1e-5)


def test_frozen_norm_does_not_move():
    layer = ScaleBatchNormalization(trainable=False)
    x = draw(MAPS)
    for trained, plain in zip(layer(x, training=True), layer(x), strict=True):
        np.testing.assert_array_equal(trained, plain)
    np.testing.assert_array_equal(layer.moving_mean, 0.0)


@needs_half_precision
def test_half_precision_statistics_do_not_overflow():
    layer = ScaleBatchNormalization(dtype="mixed_float16")
    output = layer(300 * draw((None, 30, 30, 3)), training=True)  # 300**2 is above float16
    assert as_numpy(output).std() == pytest.approx(1.0, abs=0.01)


# --- selection in space, pooling over scale ---


@pytest.mark.parametrize("size, rows, columns", [((5, 7), [2], [3]), ((4, 3), [1, 2], [1])])
def test_centre(size, rows, columns):
    x = draw((None, *size, 3))
    expected = x[:, rows][:, :, columns].mean(axis=(1, 2))
    np.testing.assert_allclose(SpatialSelection("centre")([x])[:, 0], expected, atol=1e-6)


def test_the_centre_of_maps_of_any_size():
    images = keras.Input((None, None, 3))
    model = keras.Model(images, SpatialSelection()([images]))
    for size in ((5, 7), (4, 3)):
        x = draw((None, *size, 3))
        expected = SpatialSelection()([x])
        np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-6)


def test_spatial_max_of_maps_of_several_sizes():
    x = draw(MAPS)
    expected = np.stack([tensor.max(axis=(1, 2)) for tensor in x], axis=1)
    for training in (False, True):
        np.testing.assert_array_equal(SpatialSelection("max")(x, training=training), expected)


@pytest.mark.parametrize(
    "layer, shape, axis",
    [
        (lambda x, **kw: SpatialSelection("max")([x], **kw), (None, 4, 5, 3), (1, 2)),
        (ScalePooling("max"), (None, 4, 3), 1),
    ],
    ids=["space", "scale"],
)
def test_the_gradient_of_a_maximum_goes_to_its_place(layer, shape, axis):
    x = tf.constant(draw(shape))
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(layer(x, training=True))
    place = x.numpy() == x.numpy().max(axis=axis, keepdims=True)
    np.testing.assert_array_equal(tape.gradient(total, x), place)


@pytest.mark.parametrize("shape", [(None, 4, 3), (None, 4, 6, 5, 3)])
def test_pooling_and_that_it_ignores_the_order(shape):
    x = 10 * draw(shape)
    expected = {
        "max": x.max(axis=1),
        "average": x.mean(axis=1),
        "logsumexp": np.log(np.exp(x.astype("float64")).sum(axis=1)),
    }
    for mode, value in expected.items():
        for x_or_reversed, training in ((x, False), (x, True), (x[:, ::-1], False)):
            pooled = ScalePooling(mode)(x_or_reversed, training=training)
            np.testing.assert_allclose(pooled, value, rtol=1e-5, atol=1e-5)


def test_logsumexp_of_large_logits_is_finite():
    x = np.full((1, 7, 2), 500.0, "float32")
    np.testing.assert_allclose(ScalePooling("logsumexp")(x), 500 + np.log(7), rtol=1e-6)


# --- scale-channel dropout ---


def test_dropout_is_independent_for_sample_scale_and_class_and_keeps_the_mean():
    rate = 0.3
    layer = ScaleChannelDropout(rate, seed=0)
    kept = as_numpy(layer(np.ones((4000, 4, 3), "float32"), training=True))
    np.testing.assert_allclose(np.unique(kept), [0, 1 / (1 - rate)], rtol=1e-6)
    dropped = (kept == 0).reshape(4000, 12)
    np.testing.assert_allclose(dropped.mean(axis=0), rate, atol=0.04)  # 5 standard deviations
    correlation = np.corrcoef(dropped.T) - np.eye(12)
    assert np.abs(correlation).max() < 0.08
    assert not np.array_equal(kept, layer(np.ones((4000, 4, 3), "float32"), training=True))


def test_dropout_of_a_seed_is_the_same_again_and_nothing_at_inference():
    x = draw((None, 4, 3), batch=50)
    first, second = (ScaleChannelDropout(0.5, seed=7)(x, training=True) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(ScaleChannelDropout(0.5)(x), x)
    np.testing.assert_array_equal(ScaleChannelDropout(0.0)(x, training=True), x)


# --- bad input ---


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda: SpatialSelection("mean"),
            "`mode` must be one of ('centre', 'max'). Received: mode=",
        ),
        (lambda: ScalePooling("mean"), "`mode` must be one of ('max', 'average', 'logsumexp'). "),
        (lambda: ScaleChannelDropout(1.0), "`rate` must be in [0, 1). Received: rate=1.0."),
        (lambda: ScaleChannelDropout(-0.1), "`rate` must be in [0, 1). Received: rate=-0.1."),
        (lambda: SpatialSelection()(np.ones((2, 4, 4, 3))), "takes a list of maps"),
        (lambda: ScalePooling()(np.ones((2, 3))), "`inputs` must be (batch, scale channel, class)"),
        (lambda: ScalePooling()(np.ones((2, 4, 4, 3))), "Received: shape (2, 4, 4, 3)."),
        (
            lambda: ScaleBatchNormalization(momentum=1.5),
            "`momentum` must be in [0, 1]. Received: momentum=1.5.",
        ),
        (
            lambda: ScaleBatchNormalization(epsilon=-1),
            "`epsilon` must be a number of at least 1e-12. Received: epsilon=-1.",
        ),
    ],
)
def test_wrong_arguments(make, text):
    with pytest.raises(ValueError) as error:
        make()
    assert text in str(error.value)
