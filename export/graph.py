"""A small builder of ONNX graphs: one call is one node, and equal constants are stored once."""

from __future__ import annotations

import hashlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

AXES_AS_INPUT = 18  # since this opset, reductions take their axes as an input
LOWEST_OPSET = 13


class Graph:
    """Nodes and constants in the order they were added; tensors are known by their names."""

    def __init__(self, opset: int):
        highest = onnx.defs.onnx_opset_version()
        if not LOWEST_OPSET <= opset <= highest:
            raise ValueError(
                f"`opset` must be from {LOWEST_OPSET} to {highest}. Received: opset={opset}."
            )
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
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=helper.find_min_ir_version_for(opsets),
            producer_name="gdn_keras",
        )
        helper.set_model_props(model, metadata)
        onnx.checker.check_model(model, full_check=True)
        return model
