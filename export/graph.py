"""A small builder of ONNX graphs: one call is one node, and equal constants are stored once."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

AXES_AS_INPUT = 18  # since this opset, reductions take their axes as an input
LOWEST_OPSET = 13


class Graph:
    """Nodes and constants in the order they were added; tensors have names."""

    def __init__(self, opset: int):
        check_opset(opset)
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def constant(self, array: np.ndarray) -> str:
        """A constant; float64 becomes float32."""
        array = np.ascontiguousarray(array)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
        name = f"{array.dtype}_{'x'.join(map(str, array.shape)) or 'scalar'}_{digest}"
        self._constants.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, kind: str, *inputs: str, name: str | None = None, **attributes) -> str:
        """Add a node and return the name of its output."""
        output = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, list(inputs), [output], name=f"{output}_node", **attributes)
        )
        return output

    def reduce(self, kind: str, x: str, *axes: int, name: str | None = None) -> str:
        """A reduction that drops `axes`."""
        if self.opset >= AXES_AS_INPUT:
            return self.add(kind, x, self.integers(*axes), name=name, keepdims=0)
        return self.add(kind, x, name=name, keepdims=0, axes=list(axes))

    def model(
        self,
        inputs: list[onnx.ValueInfoProto],
        outputs: list[onnx.ValueInfoProto],
        *,
        name: str,
        metadata: dict[str, str],
    ) -> onnx.ModelProto:
        """The finished model, checked."""
        graph = helper.make_graph(self.nodes, name, inputs, outputs, list(self._constants.values()))
        model = _model(graph, self.opset)
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model


def _model(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(
        graph,
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),
        producer_name="gdn_keras",
    )


def check_opset(opset: int) -> None:
    if not LOWEST_OPSET <= opset <= highest_opset():
        raise ValueError(
            f"`opset` must be from {LOWEST_OPSET} to {highest_opset()}, the newest that the "
            f"installed onnx and onnxruntime know. Received: opset={opset}."
        )


@functools.cache
def highest_opset() -> int:
    """The newest opset that onnx can write and onnxruntime, which must be tried, can run."""
    import onnxruntime

    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", "x", "y")], "probe", ends[:1], ends[1:])
    for opset in range(onnx.defs.onnx_opset_version(), LOWEST_OPSET, -1):
        try:
            onnxruntime.InferenceSession(
                _model(graph, opset).SerializeToString(), providers=["CPUExecutionProvider"]
            )
        except Exception:  # onnxruntime's errors have no common class
            continue
        return opset
    return LOWEST_OPSET
