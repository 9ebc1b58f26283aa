"""What an int8 file must compute: its graph in numpy, where every sum of products is exact.

An independent truth for onnxruntime, which chooses its kernels by the CPU. On x86 without VNNI they
add two products in 16 bits, and a sum that does not fit is cut off: it saturates. Weights of 7 bits
cannot do that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from gdn_keras.utils import cpu

from .. import verify

LARGEST_WEIGHT = 64  # the largest w with 255 w + 255 w < 2^15


def check_weights(model: onnx.ModelProto) -> None:
    """Raise `ParityError` if sums of two products may not fit into 16 bits: on some other CPU."""
    values = {entry.name: entry for entry in model.graph.initializer}
    for node in model.graph.node:
        entry = values.get(node.input[0])
        if node.op_type != "DequantizeLinear" or entry is None:
            continue
        weights = numpy_helper.to_array(entry)
        largest = np.abs(weights.astype(int)).max()
        if weights.dtype == np.int8 and largest > LARGEST_WEIGHT:
            raise verify.ParityError(
                f"int8 weights must be at most {LARGEST_WEIGHT}: two products of larger ones do "
                "not fit into 16 bits, where x86 CPUs without VNNI add them. "
                f"Received: {largest} in {entry.name}."
            )


def check_runtime(path: str | os.PathLike, images: np.ndarray) -> None:
    """Raise `ParityError` if onnxruntime deviates from the exact integers on this CPU.

    Each layer is compared on its own, with onnxruntime's maps as its inputs: a step of 8 bits is
    what rounding may do.
    """
    model = onnx.load(path)
    outputs = verify.onnx_runner(path)(images)
    maps = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    shown.graph.output.extend(map(helper.make_empty_tensor_value_info, maps))
    seen = verify.onnx_runner(shown.SerializeToString())(images)
    exact = evaluate(model, images, given={name: seen[name] for name in maps})
    steps = {name: int(np.abs(seen[name].astype(int) - exact[name]).max()) for name in maps}
    wrong = [name for name in maps if steps[name] > 1]
    where = f"on this CPU, {cpu.text(cpu.describe())}"
    if wrong:
        worst = max(wrong, key=steps.get)
        raise verify.ParityError(
            f"onnxruntime does not compute the integers of the int8 file {where}: {len(wrong)} of "
            f"{len(maps)} maps deviate by more than rounding, {worst} by {steps[worst]} of 255 "
            "steps."
        )
    for name, value in outputs.items():
        if value.dtype.kind != "f":  # an index is another one where two values are equal
            continue
        deviation = np.abs(value - exact[name]).max()
        if not deviation <= verify.TOLERANCE:
            raise verify.ParityError(
                f"onnxruntime does not compute the integers of the int8 file {where}: `{name}` "
                f"deviates by {deviation:.1e}; at most {verify.TOLERANCE:.0e} is allowed."
            )


@dataclass(frozen=True)
class Dequantised:
    """Integers, the zero point subtracted, and their factors, which broadcast."""

    integers: np.ndarray
    factors: np.ndarray

    @property
    def real(self) -> np.ndarray:
        return self.integers * self.factors


def evaluate(
    model: onnx.ModelProto, images: np.ndarray, *, given: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """All 8-bit maps of a graph in the QDQ format, and its outputs, by name.

    Args:
        given: 8-bit maps that later nodes get instead of the computed ones. With the maps of
            another program as `given`, every result deviates by the error of one layer only.
    """
    given = given or {}
    graph = model.graph
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    values = {entry.name: numpy_helper.to_array(entry) for entry in graph.initializer}
    values[graph.input[0].name] = images
    results = {}
    for node in graph.node:
        inputs = [values[name] for name in node.input]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        (name,) = node.output
        if node.op_type == "QuantizeLinear":
            results[name] = _quantise(_real(inputs[0]), *inputs[1:])
            values[name] = given.get(name, results[name])
        elif node.op_type == "DequantizeLinear":
            values[name] = _dequantise(*inputs, **attributes)
        elif node.op_type == "Conv":
            values[name] = _convolve(*inputs, **attributes)
        else:
            names = [helper.make_empty_tensor_value_info(name) for name in node.input]
            outputs = [helper.make_empty_tensor_value_info(name)]
            one = helper.make_graph([node], "one", names, outputs)
            feeds = dict(zip(node.input, map(_real, inputs), strict=True))
            (values[name],) = ReferenceEvaluator(one, opsets=opsets).run(None, feeds)
    return results | {entry.name: _real(values[entry.name]) for entry in graph.output}


def _real(value: Dequantised | np.ndarray) -> np.ndarray:
    return value.real if isinstance(value, Dequantised) else value


def _quantise(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    limits = np.iinfo(zero.dtype)
    steps = np.rint(x / float(scale)) + int(zero)  # halves to even, as ONNX says
    return np.clip(steps, limits.min, limits.max).astype(zero.dtype)


def _dequantise(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, *, axis=1) -> Dequantised:
    shape = np.ones(x.ndim, int)
    if scale.ndim:
        shape[axis] = len(scale)
    integers = x.astype(float) - zero.reshape(shape)
    return Dequantised(integers, scale.astype(float).reshape(shape))


def _convolve(
    x: Dequantised,
    kernel: Dequantised,
    bias: Dequantised | None = None,
    *,
    kernel_shape,
    pads=(0, 0, 0, 0),
    strides=(1, 1),
    group: int = 1,
) -> np.ndarray:
    """Dense or depthwise; (batch, channel, height, width)."""
    top, left, bottom, right = pads
    weights = kernel.integers
    # whole numbers below 2^24 are exact in float32, those below 2^53 in float64
    largest = np.abs(weights).sum(axis=(1, 2, 3)).max() * np.abs(x.integers).max()
    kind = np.float32 if largest < 2**24 else np.float64
    pixels = np.pad(x.integers.astype(kind), ((0, 0), (0, 0), (top, bottom), (left, right)))
    weights = weights.astype(kind)
    height, width = (
        (size - taps) // stride + 1
        for size, taps, stride in zip(pixels.shape[2:], kernel_shape, strides, strict=True)
    )
    total = np.zeros((len(pixels), len(weights), height * width), kind)
    for row, column in np.ndindex(*kernel_shape):
        part = pixels[:, :, row :: strides[0], column :: strides[1]][:, :, :height, :width]
        part = part.reshape(*part.shape[:2], -1)
        tap = weights[:, :, row, column]
        total += tap @ part if group == 1 else tap * part
    total = total.reshape(len(pixels), -1, height, width).astype(float)
    factors = x.factors * kernel.factors.reshape(1, -1, 1, 1)
    if bias is not None:  # its factor is theirs
        total += bias.integers.reshape(1, -1, 1, 1)
    return total * factors
