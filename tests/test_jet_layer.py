"""JetLayer on its own: derivatives of known functions, the numpy reference, learned scales."""

import warnings
from math import factorial

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from helpers import ROUNDING, THREE_LAYERS

from gdn_keras.layers import Clamp, JetLayer
from gdn_keras.layers.learned import LEARNED_KERNELS, learned_kernel
from gdn_keras.scale_space import (
    DISCRETISATIONS,
    JET_ORDERS,
    METHODS,
    PADDINGS,
    Smoothing,
    derivative_kernel,
    jet_terms,
    plan_channel,
)
from gdn_keras.scale_space.plan import offset_of


def one_of_each(jet_order, zero_order=False):
    """A kernel (terms, 1, terms) that gives every derivative as an output channel of its own."""
    return np.eye(len(jet_terms(jet_order, zero_order)), dtype="float32")[:, None]


def respond(layer, image):
    """The map of a layer for one image (height, width, channels)."""
    return keras.ops.convert_to_numpy(layer(image[None].astype("float32")))[0]


def jets(image, *, sigma, jet_order=2, zero_order=False, **kwargs):
    """All scale-normalised derivatives of a (height, width) image, as channels."""
    kernel = one_of_each(jet_order, zero_order)
    layer = JetLayer(len(kernel), sigma=sigma, jet_order=jet_order, zero_order=zero_order, **kwargs)
    layer.build((None, *image.shape, 1))
    layer.kernel.assign(kernel)
    return respond(layer, image[..., None])


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
@pytest.mark.parametrize("jet_order, method", [(2, "discrete"), (2, "integrated"), (3, "discrete")])
def test_whole_numbers_are_pixels_too(jet_order, method, dtype):
    images = np.random.default_rng(0).integers(0, 256, (2, 9, 9, 3)).astype(dtype)
    layer = JetLayer(4, sigma=1.0, jet_order=jet_order, method=method)
    np.testing.assert_array_equal(layer(images), layer(images.astype("float32")))
    symbolic = keras.Input((9, 9, 3), dtype=dtype)
    found = keras.Model(symbolic, layer(symbolic)).predict(images, verbose=0)
    np.testing.assert_allclose(found, layer(images), atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("jet_order", JET_ORDERS)
def test_derivatives_of_polynomials(jet_order, method):
    """d^(a+b) / dx^a dy^b of x^a y^b / (a! b!) is one: x goes rightwards, y downwards."""
    size, sigma = 41, 1.5
    y, x = np.mgrid[:size, :size] - size // 2
    terms = jet_terms(jet_order)
    for index, term in enumerate(terms):
        image = x**term.x * y**term.y / (factorial(term.x) * factorial(term.y))
        centre = jets(image, sigma=sigma, jet_order=jet_order, method=method, truncation=1e-12)[
            size // 2, size // 2
        ]
        expected = sigma**term.order * term.factor
        # exact but for the two derivative methods, which are sampled
        tolerance = 1e-4 if DISCRETISATIONS[method].hybrid else 2e-3
        assert centre[index] == pytest.approx(expected, rel=tolerance), term.name
        for other, value in zip(terms, centre, strict=True):
            if other.order > term.order:  # higher derivatives of a polynomial vanish
                assert abs(value) < 2e-3, (term.name, other.name)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [(9, 14), (130, 15), (12, 131)])
def test_one_layer_is_the_reference(size, method, padding):
    rng = np.random.default_rng(0)
    image = rng.normal(size=(*size, 2))
    for jet_order in (2, 3):
        for zero_order in (False, True):
            settings = {
                "sigma": 1.7,
                "jet_order": jet_order,
                "zero_order": zero_order,
                "method": method,
                "padding": padding,
                "truncation": 0.002,
            }
            layer = JetLayer(3, **settings)
            layer.build((None, *image.shape))
            kernel = rng.normal(size=layer.kernel.shape).astype("float32")
            layer.kernel.assign(kernel)
            layer.bias.assign([1.0, 2.0, 3.0])
            expected = reference.jet_layer(image, kernel, **settings) + np.array([1, 2, 3])
            np.testing.assert_allclose(respond(layer, image), expected, atol=1e-4)


def test_scale_channels_share_the_weights():
    image = np.random.default_rng(0).normal(size=(2, 12, 12, 3)).astype("float32")
    layer = JetLayer(4, sigma=(0.8, 1.6))
    both = layer([image, image])
    assert len(layer.weights) == 2
    for sigma, output in zip((0.8, 1.6), both, strict=True):
        alone = JetLayer(4, sigma=sigma)
        alone.build(image.shape)
        alone.set_weights(layer.get_weights())
        np.testing.assert_array_equal(alone(image), output)


def test_he_uniform_with_the_derivatives_in_the_fan_in():
    for jet_order, derivatives in ((2, 5), (3, 9)):
        layer = JetLayer(64, sigma=1.0, jet_order=jet_order)
        layer.build((None, 9, 9, 32))
        limit = np.sqrt(6 / (derivatives * 32))
        kernel = keras.ops.convert_to_numpy(layer.kernel)
        assert kernel.shape == (derivatives, 32, 64)
        assert 0.98 * limit < np.abs(kernel).max() <= limit
        assert kernel.std() == pytest.approx(limit / np.sqrt(3), rel=0.03)


def test_compensated_integrated_kernels_are_narrower():
    # the variance of the smoothing kernel, read from the zero-order response to x**2 / 2
    x = np.tile((np.arange(41) - 20.0) ** 2, (41, 1))
    for compensate_integration, extra in ((False, 1 / 12), (True, 0.0)):
        smoothed = jets(
            x,
            sigma=1.0,
            zero_order=True,
            method="integrated",
            compensate_integration=compensate_integration,
            truncation=1e-12,
        )
        assert smoothed[20, 20, 0] == pytest.approx(1.0 + extra, abs=1e-4)


def test_the_old_name_of_compensate_integration():
    new = JetLayer(2, sigma=1.0, method="integrated", compensate_integration=True)
    with pytest.warns(FutureWarning, match="`compensate` .*`compensate_integration`"):
        layer = JetLayer(2, sigma=1.0, method="integrated", compensate=True, name=new.name)
    assert layer.get_config() == new.get_config()
    saved = new.get_config()
    saved["compensate"] = saved.pop("compensate_integration")
    with warnings.catch_warnings():  # files of an earlier version are read without one
        warnings.simplefilter("error")
        assert JetLayer.from_config(saved).get_config() == new.get_config()


# --- learned scales ---


def test_every_discretisation_has_a_learned_kernel():
    assert set(LEARNED_KERNELS) == {row.kernel for row in DISCRETISATIONS.values()}


def test_learned_kernels_take_no_differences():
    for method, row in DISCRETISATIONS.items():
        if row.hybrid:
            with pytest.raises(ValueError, match=f"`order` must be 0 for method='{method}'.*=1"):
                learned_kernel(1.0, 1, method=method, radius=3)


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("method", METHODS)
def test_learned_kernels_are_the_kernels(method, offset):
    orders = DISCRETISATIONS[method].orders(3)
    compensated = (False, True) if DISCRETISATIONS[method].integrated else (False,)
    for sigma in (0.6, 1.0, 2.7, 6.0):
        for order in orders:
            for radius in (2, 5, 24):
                for compensate_integration in compensated:
                    options = {"method": method, "radius": radius, "offset": offset}
                    options["compensate_integration"] = compensate_integration
                    expected = derivative_kernel(sigma, order, **options)
                    ours = learned_kernel(keras.ops.convert_to_tensor(sigma), order, **options)
                    np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("method", METHODS)
def test_gradients_of_learned_kernels(method, offset):
    """Against central differences of the float64 kernels."""
    orders = DISCRETISATIONS[method].orders(3)
    for sigma in (0.7, 1.3, 3.0):
        for order in orders:
            options = {"method": method, "radius": 8, "offset": offset}
            step = 1e-4
            expected = (
                derivative_kernel(sigma + step, order, **options)
                - derivative_kernel(sigma - step, order, **options)
            ) / (2 * step)
            tensor = tf.constant(sigma, "float32")
            with tf.autodiff.ForwardAccumulator(tensor, tf.ones(())) as accumulator:
                kernel = learned_kernel(tensor, order, **options)
            gradient = accumulator.jvp(kernel)
            np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("method", METHODS)
def test_learned_layer_is_the_layer_at_the_learned_sigma(method, padding):
    image = np.random.default_rng(0).normal(size=(13, 10, 2))
    for jet_order in (2, 3):
        options = {"jet_order": jet_order, "method": method, "padding": padding}
        # nothing of the kernels is cut off, so the larger radius of the learned one is no matter
        options["truncation"] = 1e-9
        learned = JetLayer(3, sigma=1.0, learned_ratio=1.0, ratio_range=(0.5, 2.0), **options)
        plain = JetLayer(3, sigma=1.6, **options)
        for layer in (learned, plain):
            layer.build((None, *image.shape))
        learned.ratio.assign(1.6)
        plain.kernel.assign(learned.kernel)
        np.testing.assert_allclose(respond(learned, image), respond(plain, image), atol=1e-4)


@pytest.mark.parametrize("size", [32, 33])
@pytest.mark.parametrize("method", METHODS)
def test_learned_layer_on_a_coarser_grid(method, size):
    """Half way between samples if the size is even; the learned kernels follow."""
    smoothing = Smoothing(method, truncation=1e-9)
    for jet_order in (2, 3):
        plan = plan_channel(
            (size, size),
            sigmas=(1.6, 1.6),
            smoothing=smoothing,
            ring=DISCRETISATIONS[method].ring(jet_order),
            selection="max",
            density=0.8,
            radius_sigmas=(3.2, 3.2),
        ).layers[0]
        assert plan.rows.output.spacing == 2
        assert offset_of(plan.rows) == (0 if size % 2 else 0.5)
        options = {"jet_order": jet_order, "method": method, "truncation": 1e-9, "plans": [plan]}
        learned = JetLayer(3, sigma=1.6, learned_ratio=1.0, ratio_range=(0.5, 2.0), **options)
        plain = JetLayer(3, sigma=1.6, **options)
        image = np.random.default_rng(0).normal(size=(size, size, 2))
        for layer in (learned, plain):
            layer.build((None, *image.shape))
        plain.kernel.assign(learned.kernel)
        expected = respond(plain, image)
        assert expected.shape[:2] == plan.output_size
        np.testing.assert_allclose(respond(learned, image), expected, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("jet_order", [2, 3])
def test_gradient_of_a_layer_with_respect_to_its_scale(jet_order, method):
    rng = np.random.default_rng(0)
    image = tf.constant(rng.normal(size=(2, 12, 11, 2)), "float32")
    target = tf.constant(rng.normal(size=(2, 12, 11, 3)), "float32")
    layer = JetLayer(
        3, sigma=1.1, jet_order=jet_order, method=method, padding="reflect", learned_ratio=1.2
    )
    layer.build(image.shape)
    layer.kernel.assign(rng.normal(size=layer.kernel.shape))

    def loss(ratio):
        layer.ratio.assign(ratio)
        return tf.reduce_sum(layer(image) * target)

    with tf.GradientTape() as tape:
        value = loss(1.2)
    gradient = float(tape.gradient(value, layer.ratio.value))
    # Richardson: the error is of fourth order in the step, so the step can be large
    coarse, fine = (float(loss(1.2 + h) - loss(1.2 - h)) / (2 * h) for h in (0.04, 0.02))
    assert gradient == pytest.approx((4 * fine - coarse) / 3, rel=2e-3, abs=2e-3)
    assert abs(gradient) > 0.05


def test_learned_scale_stays_in_its_range():
    image = keras.Input((9, 9, 1))
    layer = JetLayer(1, sigma=1.0, learned_ratio=1.0, ratio_range=(0.9, 1.1), name="jet")
    model = keras.Model(image, layer(image))
    rng = np.random.default_rng(0)
    images, targets = rng.normal(size=(2, 4, 9, 9, 1)).astype("float32")
    reached = set()
    for sign in (-1, 1):
        layer.ratio.assign(1.0)
        model.compile(
            keras.optimizers.SGD(1e4),
            loss=lambda y, p, sign=sign: sign * keras.ops.mean(keras.ops.square(y - p)),
            jit_compile=False,
        )
        model.fit(images, targets, verbose=0)
        reached.add(round(float(layer.ratio.value), 5))
    assert reached == {0.9, 1.1}


def test_clamp():
    clamp = Clamp(0.5, 2.0)
    np.testing.assert_array_equal(clamp(np.array([0.1, 1.0, 3.0], "float32")), [0.5, 1.0, 2.0])
    assert Clamp.from_config(clamp.get_config()).get_config() == {"low": 0.5, "high": 2.0}


# --- bad input ---


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"filters": 0}, "`filters` must be an integer of at least 1. Received: filters=0."),
        ({"filters": 2.5}, "`filters` must be an integer. Received: filters=2.5."),
        ({"sigma": -1.0}, "`sigma` must be a positive number of pixels"),
        ({"sigma": (1.0, float("nan"))}, "`sigma` must be a finite number or a sequence of"),
        ({"jet_order": 0}, "`jet_order` must be one of (1, 2, 3, 4). Received: jet_order=0."),
        ({"jet_order": 5}, "`jet_order` must be one of (1, 2, 3, 4). Received: jet_order=5."),
        ({"method": "gauss"}, "`method` must be one of ('discrete', "),
        ({"padding": "same"}, "`padding` must be one of ('zero', 'reflect', 'edge', 'mirror')."),
        ({"truncation": 1.0}, "`truncation` must be between"),
        (
            {"compensate_integration": True},
            "`compensate_integration` must be False unless",
        ),
        ({"learned_ratio": 7.0}, "`ratio_range` must be (low, high) with 0.001 <= low"),
        ({"learned_ratio": 1.0, "ratio_range": (0.0, 2.0)}, "`ratio_range` must be (low, high)"),
        (
            {"learned_ratio": 1.0, "compensate_integration": True, "method": "integrated"},
            "`sigma` must be greater than 0.2887",
        ),
    ],
)
def test_wrong_arguments(arguments, text):
    with pytest.raises(ValueError) as error:
        JetLayer(**{"filters": 3, "sigma": 1.0, **arguments})
    assert text in str(error.value)
    assert "Received: " in str(error.value)


@pytest.mark.parametrize(
    "sigma, shapes, text",
    [
        (1.0, [(2, 9, 9)], "(batch, height, width, channels)"),
        (1.0, [(2, 9, 9, 1), (2, 9, 9, 1)], "one tensor for one sigma"),
        ((1.0, 2.0), [(2, 9, 9, 1)], "a list of tensors"),
        ((1.0, 2.0), [(2, 9, 9, 1), (2, 9, 9, 3)], "number of channels"),
    ],
)
def test_wrong_inputs(sigma, shapes, text):
    tensors = [np.ones(shape, "float32") for shape in shapes]
    with pytest.raises(ValueError) as error:
        JetLayer(3, sigma=sigma)(tensors if len(tensors) > 1 else tensors[0])
    assert text in str(error.value)
    assert "Received: " in str(error.value)


def test_unknown_number_of_channels():
    with pytest.raises(ValueError, match="known number of channels"):
        JetLayer(3, sigma=1.0)(keras.Input((9, 9, None)))


@pytest.mark.parametrize("size", [(20, 20), (9, 12), (8, 10)])
def test_images_of_another_size_than_built_for(size):
    layer = JetLayer(3, sigma=1.0)
    layer(np.ones((1, 9, 10, 1), "float32"))
    with pytest.raises(ValueError, match=rf"9 x 10 .*Received: \(1, {size[0]}, {size[1]}, 1\)"):
        layer(np.ones((1, *size, 1), "float32"))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 1},
        {"jet_order": 3, "zero_order": True},
        {"jet_order": 4, "method": "sampled_derivative"},
        {"method": "integrated", "compensate_integration": True},
    ],
)
def test_images_of_unknown_size(changes, padding):
    """One model for all sizes, also those below the radius of the kernel, as one for each."""
    layer = JetLayer(3, sigma=2.0, padding=padding, **changes)
    image = keras.Input((None, None, 2))
    model = keras.Model(image, layer(image))
    assert model.output_shape == (None, None, None, 3)
    rng = np.random.default_rng(0)
    for size in ((23, 18), (5, 40), (1, 2)):
        images = rng.normal(size=(2, *size, 2)).astype("float32")
        known = JetLayer(3, sigma=2.0, padding=padding, **changes)
        known.build(images.shape)
        known.set_weights(layer.get_weights())
        # relative to the images: in the smallest, differences nearly cancel
        atol = THREE_LAYERS * ROUNDING * np.abs(images).max()
        np.testing.assert_allclose(model.predict(images, verbose=0), known(images), 0, atol)


def test_learned_scales_need_a_known_size():
    with pytest.raises(ValueError, match="`learned_ratio` .*known size.*Received: "):
        JetLayer(3, sigma=2.0, learned_ratio=1.0)(keras.Input((None, 8, 2)))
