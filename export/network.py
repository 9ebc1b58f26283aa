"""A folded network as ONNX nodes, written so that onnxruntime runs it fast.

A jet layer is: smooth along the columns, smooth along the rows, take differences, combine. Two
ways, both exact, chosen by `LayerWriter`:

* Matrices: two MatMul with the sampling plan's matrices (cropping, padding and subsampling are
  entries of theirs), then one dense Conv with the kernel sum_d C_d mask_d.
* Depthwise: Conv with one kernel per channel. If the number of channels is a multiple of
  `BLOCK`, onnxruntime keeps the whole chain in its blocked layout, where these cost next to
  nothing. It also makes the dense part cheaper. A 2-jet has five coefficients per pair of
  channels, but its 3x3 kernel takes nine multiplications; with forward differences
  g_x(n) = f(n + 1) - f(n) it takes five:

      C_x f_x + C_xx f_xx / 2 = (C_x + C_xx) / 2 g_x(n) + (C_x - C_xx) / 2 g_x(n - 1)

  (sigma = 1), so a 1x2 kernel on g_x, a 2x1 kernel on g_y and a 1x1 kernel on f_xy are enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdn_keras.config import Block, GaussDerNetConfig
from gdn_keras.layers.jet import JetConstants
from gdn_keras.model import GaussDerNet
from gdn_keras.scale_space import discretisation_of, mask_2d
from gdn_keras.scale_space.plan import Axis, placement

from .activations import write_activation
from .graph import Graph

BLOCK = 16  # channels of onnxruntime's blocked layout with AVX-512 (8 with AVX2)
MATRIX_SIZE = 96  # pixels; a MatMul beat Pad and depthwise Conv at 64, larger was not measured
EPSILON = 1e-9  # of the largest weight
ROWS, COLUMNS = 0, 1


@dataclass(frozen=True)
class Part:
    """Differences of the smoothed image, and what they contribute to the terms of a jet."""

    rows: tuple[float, ...]  # the mask is the outer product of two 1-D masks
    columns: tuple[float, ...]
    taps: dict[str, tuple[tuple[float, ...], ...]]  # term: 2-D kernel on the differences


_PARTS_2 = (
    Part((0, 1, 0), (-1, 1), {"x": ((0.5, 0.5),), "xx": ((-1, 1),)}),
    Part((-1, 1), (0, 1, 0), {"y": ((0.5,), (0.5,)), "yy": ((-1,), (1,))}),
    Part((-0.5, 0, 0.5), (-0.5, 0, 0.5), {"xy": ((1,),)}),
)
_ALONG_3 = {1: (0, 0.5, 0.5, 0), 2: (0, -1, 1, 0), 3: (0.5, -0.5, -0.5, 0.5)}
_PARTS_3 = (
    Part((0, 0, 1, 0, 0), (-1, 1), {"x" * n: (taps,) for n, taps in _ALONG_3.items()}),
    Part(
        (-1, 1),
        (0, 0, 1, 0, 0),
        {"y" * n: tuple((tap,) for tap in taps) for n, taps in _ALONG_3.items()},
    ),
    Part((0, -0.5, 0, 0.5, 0), (0, -1, 1, 0), {"xy": ((0.5, 0.5),), "xxy": ((-1, 1),)}),
    Part((0, 1, -2, 1, 0), (0, -0.5, 0, 0.5, 0), {"xyy": ((1,),)}),
)
_PARTS = {
    2: (*_PARTS_2, Part((0, 1, 0), (0, 1, 0), {"0": ((1,),)})),
    3: (*_PARTS_3, Part((0, 0, 1, 0, 0), (0, 0, 1, 0, 0), {"0": ((1,),)})),
}


def write_network(
    graph: Graph,
    model: GaussDerNet,
    images: list[str],
    *,
    dynamic: bool = False,
    split: bool = True,
) -> list[str]:
    """Add all scale channels of a folded network; returns the maps of their last layers.

    Args:
        images: raw pixels, (batch, channel, height, width), for each scale channel.
        dynamic: the spatial axes may have any size; the network must then compute every layer on
            every pixel.
        split: 3x3 kernels may become smaller ones on differences; best in float, not in int8.
    """
    maps = []
    for x, layers in zip(images, _channels(model), strict=True):
        for k, (block, constants) in enumerate(zip(model.blocks, layers, strict=True)):
            if k == 0:  # pixels, 0…255 unless the config says otherwise, become 0…1
                white = model.config.pixel_range[1]
                constants = constants._replace(coefficients=constants.coefficients / white)
            writer = LayerWriter(
                graph, block, constants, model.config, first=k == 0, dynamic=dynamic, split=split
            )
            x = writer.write(x)
            if block.activation:
                x = write_activation(graph, block.activation, x)
        maps.append(x)
    return maps


def input_reach(model: GaussDerNet) -> list[int]:
    """How many pixels around itself a sample of the last layer sees, for each scale channel.

    For networks that compute every layer on every pixel.
    """
    return [
        sum(len(_trimmed(layer.rows)[0]) // 2 + layer.plan.rows.ring for layer in layers)
        for layers in _channels(model)
    ]


def _channels(model: GaussDerNet) -> list[list[JetConstants]]:
    return [
        [model.get_layer(block.jet).constants(channel) for block in model.blocks]
        for channel in range(len(model.config.channel_sigmas))
    ]


class LayerWriter:
    """One jet layer of one scale channel."""

    def __init__(
        self,
        graph: Graph,
        block: Block,
        constants: JetConstants,
        config: GaussDerNetConfig,
        *,
        first: bool,
        dynamic: bool,
        split: bool,
    ):
        self.graph = graph
        self.block = block
        self.constants = constants
        self.config = config
        self.first = first
        self.channels = constants.coefficients.shape[1]
        self.axes = (constants.plan.rows, constants.plan.columns)
        self.kernels = (_trimmed(constants.rows), _trimmed(constants.columns))
        self.pads = [
            _geometry(axis, len(kernels[0]))[:2]
            for axis, kernels in zip(self.axes, self.kernels, strict=True)
        ]
        blocked = self.channels % BLOCK == 0
        self.in_parts = split and blocked and not first and block.jet_order in _PARTS
        self.padded = config.padding != "zero" and max(map(max, self.pads)) > 0
        large = max(axis.window.count for axis in self.axes) > MATRIX_SIZE
        # quantised, padding beats the MatMul at every size: 15 against 17 ms for cifar_avg_2jet
        pad = (large or not split) and self._can_pad()
        self.depthwise = dynamic or (not first and blocked and (not self.padded or pad))

    def write(self, x: str) -> str:
        if self.depthwise and self.padded:
            (top, bottom), (left, right) = self.pads
            pads = self.graph.integers(0, 0, top, left, 0, 0, bottom, right)
            x = self.graph.add("Pad", x, pads, mode=self.config.padding)
        if not discretisation_of(self.config.method).hybrid:
            return self._from_derivatives(x)
        smoothed = self._along(self._along(x, COLUMNS, 0), ROWS, 0)
        return (self._from_differences if self.in_parts else self._from_smoothed)(smoothed)

    def _can_pad(self) -> bool:
        """The Pad of ONNX reflects an image only once, and never with the edge repeated."""
        return self.config.padding == "edge" or (
            self.config.padding == "reflect"
            and all(
                max(p) < axis.window.count for p, axis in zip(self.pads, self.axes, strict=True)
            )
        )

    def _along(self, x: str, dimension: int, order: int) -> str:
        """Correlate with the kernel of an order along the rows or the columns."""
        axis, kernel = self.axes[dimension], self.kernels[dimension][order]
        if not self.depthwise:
            matrix = np.tensordot(kernel, placement(axis, len(kernel), self.config.padding), 1)
            if self.first:  # the window is the middle of the image
                excess = self.config.input_size[dimension] - axis.window.count
                matrix = np.pad(matrix, ((0, 0), (excess // 2, excess - excess // 2)))
            if dimension == ROWS:
                return self.graph.add("MatMul", self.graph.constant(matrix), x)
            return self.graph.add("MatMul", x, self.graph.constant(matrix.T))
        before, after, stride = _geometry(axis, len(kernel))
        # a window that is wider than the kernel's reach
        kernel = np.pad(kernel, (max(-before, 0), max(-after, 0)))
        before, after = (0, 0) if self.padded else (max(before, 0), max(after, 0))
        pads, strides, shape = [0, 0, 0, 0], [1, 1], [1, 1]
        pads[dimension], pads[dimension + 2] = before, after
        strides[dimension], shape[dimension] = stride, len(kernel)
        return self._each_channel(x, kernel.reshape(shape), pads=pads, strides=strides)

    def _each_channel(self, x: str, mask: np.ndarray, **attributes) -> str:
        weights = np.broadcast_to(mask.astype(float), (self.channels, 1, *mask.shape))
        return self._conv(x, weights, group=self.channels, **attributes)

    def _conv(self, x: str, weights: np.ndarray, *more: str, **attributes) -> str:
        shape = list(weights.shape[2:])
        return self.graph.add(
            "Conv", x, self.graph.constant(weights), *more, kernel_shape=shape, **attributes
        )

    def _bias(self) -> str:
        return self.graph.constant(self.constants.bias)

    def _from_derivatives(self, x: str) -> str:
        """Every derivative on its own, then one product over all of them."""
        terms = self.constants.terms
        along_y = {y: self._along(x, ROWS, y) for y in sorted({term.y for term in terms})}
        stack = [self._along(along_y[term.y], COLUMNS, term.x) for term in terms]
        weights = np.concatenate(list(self.constants.coefficients)).T  # (output, term and input)
        return self._conv(
            self.graph.add("Concat", *stack, axis=1), weights[:, :, None, None], self._bias()
        )

    def _from_smoothed(self, x: str) -> str:
        """One dense kernel."""
        masks = [mask_2d(term, radius=self.axes[0].ring) for term in self.constants.terms]
        return self._conv(x, _combine(self.constants.coefficients, masks), self._bias())

    def _from_differences(self, x: str) -> str:
        """A small dense kernel on each part."""
        names = [term.name for term in self.constants.terms]
        named = dict(zip(names, self.constants.coefficients, strict=True))
        total = None
        for part in _PARTS[self.block.jet_order]:
            if not set(part.taps) <= set(named):
                continue
            differences = self._each_channel(x, np.outer(part.rows, part.columns))
            coefficients = [named[name] for name in part.taps]
            weights = _combine(coefficients, list(part.taps.values()))
            if total is None:
                total = self._conv(differences, weights, self._bias())
            else:  # onnxruntime makes Conv, Add and Relu one
                total = self.graph.add("Add", self._conv(differences, weights), total)
        return total


def _combine(coefficients, masks) -> np.ndarray:
    """sum_d coefficients[d] masks[d], (output, input, rows, columns)."""
    return np.einsum("dio,dyx->oiyx", np.stack(coefficients), np.stack(masks))


def _geometry(axis: Axis, length: int) -> tuple[int, int, int]:
    """How a Conv does what a smoothing matrix does: padding before, after, and the stride.

    Negative padding means that the ends of the window are not touched.
    """
    count = axis.output.count + 2 * axis.ring
    stride = axis.output.spacing // axis.domain.spacing
    reach = (count - 1) * stride + length
    before = (reach - axis.window.count) // 2
    return before, reach - axis.window.count - before, stride


def _trimmed(kernels: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Without ends of zeros; kernels of learned scales have the length of the largest scale."""
    size = np.max(np.abs(kernels), axis=0)
    size = np.maximum(size, size[::-1])
    first = int(np.argmax(size > EPSILON * size.max()))
    return [kernel[first : len(kernel) - first] for kernel in kernels]
