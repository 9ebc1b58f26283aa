"""From a Keras network to an ONNX model: input, network, selection, pooling, metadata."""

from __future__ import annotations

import json

import numpy as np
import onnx
from onnx import TensorProto, helper

from gdn_keras.config import GaussDerNetConfig
from gdn_keras.layers import CommonGrid
from gdn_keras.model import GaussDerNet, adapt, fold
from gdn_keras.version import __version__

from . import DEFAULT_OPSET
from .graph import Graph
from .network import input_reach, write_network

INPUT = "image"
LOGITS, SCALE_LOGITS, SELECTED_SCALE = "logits", "scale_logits", "selected_scale"
_POOLING = {"max": "ReduceMax", "average": "ReduceMean", "logsumexp": "ReduceLogSumExp"}


def to_onnx(
    model: GaussDerNet,
    *,
    opset: int = DEFAULT_OPSET,
    with_scales: bool = False,
    dynamic_size: bool = False,
    uint8: bool = False,
    split: bool = True,
    metadata: dict[str, str] | None = None,
) -> onnx.ModelProto:
    """The network as ONNX: batch norm folded, input `image`, output `logits`.

    With `spatial_selection="none"`, `logits` has the axes (batch, height, width, scale channel,
    class).

    Args:
        opset: version of ONNX' operators.
        with_scales: also the outputs `scale_logits` (batch, scale channel, class), before pooling,
            and `selected_scale` (batch,), the scale channel with the largest output at the
            predicted class.
        dynamic_size: height and width may be anything; only for networks on every pixel.
        uint8: the input is uint8 instead of float32.
        split: the faster form in float, see `export.network`; the other is better to quantise.
        metadata: added to the description of the network.
    """
    config = model.config
    if uint8 and config.pixel_range != (0, 255):
        raise ValueError(
            f"`uint8` needs a network for pixels 0…255. Received: pixel_range={config.pixel_range}."
        )
    dense = config.spatial_selection == "none"
    if dynamic_size or with_scales:
        config.reject_dense("`dynamic_size`" if dynamic_size else "`with_scales`")
    if dynamic_size:
        _check_dynamic(config)
        # all layers on all pixels: then no constant depends on the size
        network = fold(adapt(model, spatial_selection="max"))
    else:
        network = fold(model)
    graph = Graph(opset)
    image = graph.add("Cast", INPUT, to=TensorProto.FLOAT) if uint8 else INPUT
    image = graph.add("Transpose", image, perm=[0, 3, 1, 2])
    images = [image] * len(config.channel_sigmas)
    if dynamic_size and config.spatial_selection == "centre":
        images = [_crop(graph, image, reach) for reach in input_reach(network)]
    maps = write_network(graph, network, images, dynamic=dynamic_size, split=split)
    outputs = [(LOGITS, TensorProto.FLOAT, ["batch", *network.output_shape[1:]])]
    if with_scales:
        count = len(config.channel_sigmas)
        outputs.append((SCALE_LOGITS, TensorProto.FLOAT, ["batch", count, config.num_classes]))
        outputs.append((SELECTED_SCALE, TensorProto.INT64, ["batch"]))
    if dense:
        _stack(graph, maps, network.get_layer("selection"))
    else:
        centre = config.spatial_selection == "centre"
        selected = [_select(graph, x, config, dynamic=dynamic_size and centre) for x in maps]
        scales = graph.add("Concat", *selected, axis=1, name=SCALE_LOGITS)
        graph.reduce(_POOLING[config.scale_pooling], scales, 1, name=LOGITS)
    if with_scales:
        _selected_scale(graph)
    size = ["height", "width"] if dynamic_size else config.input_size
    shape = ["batch", *size, config.input_channels]
    kind = TensorProto.UINT8 if uint8 else TensorProto.FLOAT
    return graph.model(
        [helper.make_tensor_value_info(INPUT, kind, shape)],
        [helper.make_tensor_value_info(*output) for output in outputs],
        name=model.name,
        metadata={**describe(config, dynamic_size=dynamic_size), **(metadata or {})},
    )


def _check_dynamic(config: GaussDerNetConfig) -> None:
    if config.sampling_density is not None or config.reach is not None:
        raise ValueError(
            "`dynamic_size` needs a network on every pixel (`--exact`): where the samples of a "
            "coarse grid are, and where layers end, depends on the size of the image. Received: "
            f"sampling_density={config.sampling_density}, reach={config.reach}."
        )
    if config.padding == "mirror":
        raise ValueError(
            "`dynamic_size` needs a network that pads every layer: ONNX has no reflection that "
            "repeats the edge. Received: padding='mirror'."
        )


def describe(config: GaussDerNetConfig, *, dynamic_size: bool = False) -> dict[str, str]:
    """What a user of the file must know, as strings; lists and objects are JSON."""
    (height, width), (_, white) = config.input_size, config.pixel_range
    return {
        "class_names": json.dumps(config.class_names or [*map(str, range(config.num_classes))]),
        "input_size": "any" if dynamic_size else json.dumps([height, width]),
        "canvas": json.dumps([height, width]),  # what images are fitted to, also if any size goes
        "preprocessing": f"none: raw pixels 0…{white:g}, (batch, height, width, channel), "
        + ("RGB" if config.input_channels == 3 else f"{config.input_channels} channel(s)"),
        "channel_sigmas": json.dumps(config.channel_sigmas),
        "config": json.dumps(config.to_dict()),
        "gdn_keras_version": __version__,
    }


def _crop(graph: Graph, image: str, reach: int) -> str:
    """The part of the image that the centre of the last layer sees, if the image is larger."""
    size = graph.add("Slice", graph.add("Shape", image), graph.integers(2), graph.integers(4))
    first, last = _middle(graph, size)
    first = graph.add("Sub", first, graph.integers(reach))
    first = graph.add("Max", first, graph.integers(0))
    end = graph.add("Add", last, graph.integers(reach))
    return graph.add("Slice", image, first, end, graph.integers(2, 3))


def _middle(graph: Graph, size: str) -> tuple[str, str]:
    """First and one past the last index of the middle sample, or of the two of an even size."""
    two = graph.integers(2)
    first = graph.add("Div", graph.add("Sub", size, graph.integers(1)), two)
    return first, graph.add("Add", graph.add("Div", size, two), graph.integers(1))


def _select(graph: Graph, x: str, config: GaussDerNetConfig, *, dynamic: bool) -> str:
    """One number per class, (batch, 1, class), from a map (batch, class, height, width)."""
    if dynamic:
        size = graph.add("Slice", graph.add("Shape", x), graph.integers(2), graph.integers(4))
        x = graph.add("Slice", x, *_middle(graph, size), graph.integers(2, 3))
    # with a fixed size, the map of centre selection is nothing but the centre
    centre = config.spatial_selection == "centre"
    x = graph.add("GlobalAveragePool" if centre else "GlobalMaxPool", x)
    return graph.add("Reshape", x, graph.integers(-1, 1, config.num_classes))


def _stack(graph: Graph, maps: list[str], layer: CommonGrid) -> None:
    """What `CommonGrid` computes from maps (batch, class, rows, columns)."""
    resampled = []
    for x, matrices in zip(maps, layer.matrices(), strict=True):
        if matrices is not None:
            rows, columns = map(graph.constant, (matrices[0], matrices[1].T))
            x = graph.add("MatMul", graph.add("MatMul", rows, x), columns)
        resampled.append(graph.add("Unsqueeze", x, graph.integers(1)))
    scales = graph.add("Concat", *resampled, axis=1)  # (batch, scale, class, height, width)
    graph.add("Transpose", scales, perm=[0, 3, 4, 1, 2], name=LOGITS)


def _selected_scale(graph: Graph) -> None:
    best = graph.add("ArgMax", LOGITS, axis=1, keepdims=1)
    by_class = graph.add("Transpose", SCALE_LOGITS, perm=[0, 2, 1])
    outputs = graph.add("GatherND", by_class, best, batch_dims=1)
    graph.add("ArgMax", outputs, axis=1, keepdims=0, name=SELECTED_SCALE)


def operators(model: onnx.ModelProto) -> dict[str, int]:
    """How many nodes of each kind the graph has, most frequent first."""
    kinds, counts = np.unique([node.op_type for node in model.graph.node], return_counts=True)
    return {str(kinds[i]): int(counts[i]) for i in np.argsort(-counts)}
