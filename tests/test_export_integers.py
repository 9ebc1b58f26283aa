"""int8 in exact integers: the evaluation, onnxruntime against it, and files that saturate."""

import functools
import itertools
from fractions import Fraction

import numpy as np
import onnx
import pytest
from export_tools import SATURATES
from onnx import TensorProto, helper, numpy_helper

from export import verify
from export.quantisation import integers
from gdn_keras.utils import cpu

INPUT_STEP, OUTPUT_STEP = 0.5, 40.0


def network(kernel, *, bias=None, signed=False, output_step=OUTPUT_STEP, **attributes):
    """One convolution of 8-bit maps in the QDQ format, as `quantise_file` writes it."""
    features, _, *shape = kernel.shape
    steps = np.linspace(0.25, 0.5, features).astype("float32")  # one factor per feature
    kind = np.int8 if signed else np.uint8
    constants = {
        "input_step": np.float32(INPUT_STEP),
        "zero": kind(3),
        "kernel": kernel.astype(np.int8),
        "steps": steps,
        "zeros": np.zeros(features, np.int8),
        "output_step": np.float32(output_step),
        "middle": kind(0 if signed else 128),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["image", "input_step", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "input_step", "zero"], ["x"]),
        helper.make_node("DequantizeLinear", ["kernel", "steps", "zeros"], ["k"], axis=0),
        helper.make_node("QuantizeLinear", ["y", "output_step", "middle"], ["map"]),
        helper.make_node("DequantizeLinear", ["map", "output_step", "middle"], ["logits"]),
    ]
    inputs = ["x", "k"]
    if bias is not None:
        constants |= {"bias": bias.astype(np.int32), "no_zeros": np.zeros(features, np.int32)}
        constants["bias_steps"] = (INPUT_STEP * steps).astype("float32")
        scaled = ["bias", "bias_steps", "no_zeros"]
        nodes.insert(0, helper.make_node("DequantizeLinear", scaled, ["b"], axis=0))
        inputs.append("b")
    convolution = helper.make_node("Conv", inputs, ["y"], kernel_shape=shape, **attributes)
    nodes.insert(-2, convolution)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4)
        for name in ("image", "logits")
    ]
    graph = helper.make_graph(
        nodes,
        "one convolution",
        ends[:1],
        ends[1:],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def by_hand(image, kernel, bias, *, pads, strides, group):
    """The map in Python's integers and fractions: no float is rounded before the last step."""
    q = [[[round(Fraction(float(v)) / Fraction(INPUT_STEP)) for v in r] for r in c] for c in image]
    q = np.array([[[min(max(v + 3, 0), 255) - 3 for v in r] for r in c] for c in q], object)
    top, left, bottom, right = pads
    padded = np.pad(q, ((0, 0), (top, bottom), (left, right)))
    features, depth, rows, columns = kernel.shape
    shape = (np.array(padded.shape[1:]) - (rows, columns)) // strides + 1
    steps = np.linspace(0.25, 0.5, features).astype("float32")
    result = np.zeros((features, *shape), int)
    for f, y, x in itertools.product(range(features), *map(range, shape)):
        first = f if group > 1 else 0
        window = padded[first : first + depth, y * strides[0] :, x * strides[1] :]
        total = int(bias[f]) + sum(
            int(kernel[f, c, i, j]) * window[c, i, j]
            for c, i, j in itertools.product(range(depth), range(rows), range(columns))
        )
        steps_up = total * Fraction(INPUT_STEP) * Fraction(float(steps[f])) / Fraction(OUTPUT_STEP)
        result[f, y, x] = min(max(round(steps_up) + 128, 0), 255)  # Python rounds halves to even
    return result


@pytest.mark.parametrize(
    "shape, attributes",
    [
        ((6, 5, 3, 3), dict(pads=[0, 0, 0, 0], strides=[1, 1], group=1)),
        ((6, 5, 3, 3), dict(pads=[1, 2, 0, 1], strides=[2, 1], group=1)),
        ((5, 1, 1, 4), dict(pads=[0, 3, 0, 2], strides=[1, 2], group=5)),
        ((5, 1, 3, 1), dict(pads=[1, 0, 1, 0], strides=[2, 1], group=5)),
    ],
)
def test_a_convolution_is_exact(shape, attributes):
    rng = np.random.default_rng(0)
    image = rng.uniform(-5, 130, (5, 9, 8)).astype("float32")
    image[0, 0] = [-1.5, -0.25, 0.25, 0.75, 126.0, 126.25, 130.0, -9.0]  # halves, both ends
    kernel, bias = rng.integers(-127, 128, shape), rng.integers(-9000, 9000, shape[0])
    model = network(kernel, bias=bias, **attributes)
    result = integers.evaluate(model, image[None])
    expected = by_hand(image, kernel, bias, **attributes)
    assert len(np.unique(expected)) > 50
    np.testing.assert_array_equal(result["map"][0], expected)
    np.testing.assert_array_equal(result["logits"], (result["map"].astype(float) - 128) * 40)


def test_sums_above_the_range_of_float32_are_exact():
    """255 * 127 * 1024 is above 2^24: a float32 sum would lose the last unit."""
    kernel = np.full((1, 1024, 1, 1), 127)
    image = np.full((1, 1024, 1, 1), 252 * INPUT_STEP, "float32")
    exact = integers.evaluate(network(kernel), image)
    image[0, 0], bias = 0, np.array([252 * 127])
    np.testing.assert_array_equal(
        integers.evaluate(network(kernel, bias=bias), image)["map"], exact["map"]
    )
    x = integers._dequantise(np.full((1, 1024, 1, 1), 255), np.array(1.0), np.array(0))
    k = integers._dequantise(kernel, np.array(1.0), np.array(0))
    odd = integers._dequantise(np.array([1]), np.array(1.0), np.array(0))
    total = integers._convolve(x, k, odd, kernel_shape=[1, 1])
    assert int(total.item()) == 255 * 127 * 1024 + 1


def test_given_maps_replace_the_computed_ones():
    model = network(np.full((1, 1, 1, 1), 64))
    image = np.full((1, 1, 2, 2), 100, "float32")
    assert (integers.evaluate(model, image)["q"] == 203).all()
    given = {"q": np.full((1, 1, 2, 2), 3, np.uint8)}
    result = integers.evaluate(model, image, given=given)
    assert (result["q"] == 203).all() and (result["map"] == 128).all()


# two products of these are above 2^15, whichever two
WEIGHTS = np.random.default_rng(1).integers(100, 128, (16, 32, 3, 3))
WEIGHTS[::2] *= -1
BRIGHT = np.random.default_rng(2).uniform(110, 126, (2, 32, 6, 6)).astype("float32")
saturating = functools.partial(network, WEIGHTS, output_step=20_000.0)


def test_two_products_that_do_not_fit_into_16_bits_are_refused_on_every_cpu():
    with pytest.raises(verify.ParityError, match=r"at most 64\b.*VNNI.*: 1\d\d in kernel"):
        integers.check_weights(saturating())
    assert 2 * 255 * integers.LARGEST_WEIGHT < 2**15 <= 2 * 255 * (integers.LARGEST_WEIGHT + 1)
    integers.check_weights(network(np.full((1, 1, 1, 1), -64)))
    with pytest.raises(verify.ParityError, match="Received: 65 in kernel"):
        integers.check_weights(network(np.full((1, 1, 1, 1), -65)))


@pytest.mark.parametrize("signed", [False, True])
def test_a_cpu_that_saturates_is_noticed(tmp_path, signed):
    """With int8 maps too: onnxruntime makes them uint8 before it multiplies."""
    path = tmp_path / "saturating.onnx"
    onnx.save(saturating(signed=signed), path)
    if not SATURATES:
        integers.check_runtime(path, BRIGHT)
        return
    with pytest.raises(verify.ParityError, match="not compute the integers") as error:
        integers.check_runtime(path, BRIGHT)
    assert cpu.text(cpu.describe()) in str(error.value)
    if not signed:
        assert "1 of 2 maps" in str(error.value)


def test_what_saturation_does():
    """Sums of 16 bits halve the result; onnxruntime computes one of the two."""
    model = saturating()
    exact = integers.evaluate(model, BRIGHT)
    signs = np.sign(WEIGHTS[:, 0, 0, 0])
    pairs = WEIGHTS[0].size // 2
    totals = pairs * np.where(signs > 0, 2**15 - 1, -(2**15)) - 3 * WEIGHTS.sum(axis=(1, 2, 3))
    steps = np.linspace(0.25, 0.5, 16).astype("float32")
    saturated = np.rint(totals * INPUT_STEP * steps.astype(float) / 20_000) + 128
    saturated = np.broadcast_to(saturated[:, None, None], exact["map"].shape[1:])
    assert np.abs(exact["map"] - saturated).min() > 10
    result = verify.onnx_runner(model.SerializeToString())(BRIGHT)["logits"] / 20_000 + 128
    expected = np.broadcast_to(saturated, exact["map"].shape) if SATURATES else exact["map"]
    np.testing.assert_allclose(result, expected, atol=1 + 1e-5)  # a step, where halves are rounded


def test_weights_of_7_bits_are_exact_here(tmp_path):
    path = tmp_path / "reduced.onnx"
    model = network(np.sign(WEIGHTS) * (WEIGHTS % 4 + 61), output_step=20_000.0)
    integers.check_weights(model)
    onnx.save(model, path)
    integers.check_runtime(path, BRIGHT)
