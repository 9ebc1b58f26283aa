"""The activations of Keras as ONNX nodes, with Keras' default arguments."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .graph import Graph


class _Nodes:
    """Arithmetic on the tensors of a graph, one node for each operation."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def __call__(self, kind: str, *inputs: str | float, **attributes) -> str:
        names = (
            value if isinstance(value, str) else self.graph.constant(np.float32(value))
            for value in inputs
        )
        return self.graph.add(kind, *names, **attributes)

    def hard_sigmoid(self, x: str) -> str:
        return self("HardSigmoid", x, alpha=1 / 6, beta=0.5)

    def times(self, x: str, factor: str | float) -> str:
        return self("Mul", x, factor)


def _gelu(n: _Nodes, x: str) -> str:
    erf = n("Erf", n.times(x, math.sqrt(0.5)))
    return n.times(n.times(x, 0.5), n("Add", erf, 1.0))


def _squareplus(n: _Nodes, x: str) -> str:
    root = n("Sqrt", n("Add", n.times(x, x), 4.0))
    return n.times(n("Add", x, root), 0.5)


def _sparse_plus(n: _Nodes, x: str) -> str:
    """(x + 1)**2 / 4 between -1 and 1, x above."""
    root = n("Add", n("Clip", x, -1.0, 1.0), 1.0)
    return n("Add", n.times(n.times(root, root), 0.25), n("Relu", n("Sub", x, 1.0)))


_WRITERS: dict[str, Callable[[_Nodes, str], str]] = {
    "celu": lambda n, x: n("Celu", x),
    "elu": lambda n, x: n("Elu", x),
    "exponential": lambda n, x: n("Exp", x),
    "gelu": _gelu,
    "hard_shrink": lambda n, x: n("Shrink", x, lambd=0.5, bias=0.0),
    "hard_sigmoid": lambda n, x: n.hard_sigmoid(x),
    "hard_silu": lambda n, x: n.times(x, n.hard_sigmoid(x)),
    "hard_tanh": lambda n, x: n("Clip", x, -1.0, 1.0),
    "leaky_relu": lambda n, x: n("LeakyRelu", x, alpha=0.2),
    "linear": lambda n, x: x,
    "log_sigmoid": lambda n, x: n("Neg", n("Softplus", n("Neg", x))),
    "mish": lambda n, x: n.times(x, n("Tanh", n("Softplus", x))),
    "relu": lambda n, x: n("Relu", x),
    "relu6": lambda n, x: n("Clip", x, 0.0, 6.0),
    "selu": lambda n, x: n("Selu", x),
    "sigmoid": lambda n, x: n("Sigmoid", x),
    "silu": lambda n, x: n.times(x, n("Sigmoid", x)),
    "soft_shrink": lambda n, x: n("Shrink", x, lambd=0.5, bias=0.5),
    "softplus": lambda n, x: n("Softplus", x),
    "softsign": lambda n, x: n("Softsign", x),
    "sparse_plus": _sparse_plus,
    "sparse_sigmoid": lambda n, x: n.times(n("Add", n("Clip", x, -1.0, 1.0), 1.0), 0.5),
    "squareplus": _squareplus,
    "tanh": lambda n, x: n("Tanh", x),
    "tanh_shrink": lambda n, x: n("Sub", x, n("Tanh", x)),
}


def write_activation(graph: Graph, name: str, x: str) -> str:
    """Add the activation that `keras.activations` has under `name`; returns its output."""
    return _WRITERS[name](_Nodes(graph), x)
