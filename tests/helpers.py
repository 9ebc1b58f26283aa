"""What several test files share: small configs, weights as after training, images."""

import keras
import numpy as np
import pytest

from gdn_keras import GaussDerNetConfig, build_model
from gdn_keras.utils.cpu import onednn_may_use_bfloat16

needs_half_precision = pytest.mark.skipif(
    not onednn_may_use_bfloat16(), reason="ONEDNN_MAX_CPU_ISA is lower than half precision"
)


def half(parameter):
    """A parameter of a test that stands for half precision."""
    return pytest.param(parameter, marks=needs_half_precision)


def small_config(**changes):
    """Two scale channels, three layers, 13 x 12 pixels: odd, even, smaller than its kernels."""
    settings = {
        "input_size": (13, 12),
        "input_channels": 2,
        "num_classes": 3,
        "channel_sigmas": (0.7, 1.4),
        "sigma_ratio": 1.4,
        "widths": (4, 5),
    }
    return GaussDerNetConfig(**{**settings, **changes})


def randomise(model, seed=0):
    """Weights as after some training: batch norm and biases are not what they start with."""
    rng = np.random.default_rng(seed)
    draw = {
        "kernel": lambda shape: rng.normal(size=shape) / np.sqrt(shape[0] * shape[1]),
        "bias": lambda shape: rng.normal(size=shape) / 2,
        "gamma": lambda shape: rng.uniform(0.5, 1.5, shape),
        "beta": lambda shape: rng.normal(size=shape) / 2,
        "moving_mean": lambda shape: rng.normal(size=shape) / 10,
        "moving_variance": lambda shape: rng.uniform(0.01, 0.05, shape),
    }
    for weight in model.weights:
        if weight.name in draw:
            weight.assign(draw[weight.name](tuple(weight.shape)).astype("float32"))
    return model


def small_model(**changes):
    """The network of a small config, with weights as after some training."""
    return randomise(build_model(small_config(**changes)))


def weights_by_layer(model):
    """One dict of arrays per block, with the weights of its layers by their names."""
    layers = []
    for block in model.blocks:
        named = [layer for layer in model.layers if layer.name in (block.jet, block.norm)]
        layers.append(
            {w.name: keras.ops.convert_to_numpy(w) for layer in named for w in layer.weights}
        )
    return layers


def random_images(config, batch=2, seed=1):
    """Squares of 3 x 3 pixels of random grey: structure at the scales of the networks."""
    height, width = config.input_size
    coarse = (batch, -(-height // 3), -(-width // 3), config.input_channels)
    squares = np.random.default_rng(seed).uniform(0, 255, coarse).repeat(3, 1).repeat(3, 2)
    return squares[:, :height, :width].astype("float32")


ROUNDING = 2.0**-24  # relative error of one float32 operation
# How a convolution is computed, and in which order it is added up, depends on the processor, so
# bounds come from float64: evaluated in numpy with everything rounded to float32, the networks of
# `small_config` (three layers) differ from it by up to 170 roundings of the largest output, the
# networks of Table 1 (six layers) by up to 530. The bounds are about eight times that.
THREE_LAYERS = 1500
SIX_LAYERS = 4000


def assert_rounded(actual, expected, *, roundings=THREE_LAYERS):
    """Equal up to so many roundings of the largest expected value."""
    largest = np.abs(expected).max()
    assert 0 < largest < np.inf  # there is something to compare
    np.testing.assert_allclose(actual, expected, rtol=0, atol=roundings * ROUNDING * largest)


def evaluate(model, images, **kwargs):
    """The output(s) of a model as numpy arrays."""
    outputs = model(images, **kwargs)
    if isinstance(outputs, (list, tuple)):
        return [keras.ops.convert_to_numpy(output) for output in outputs]
    return keras.ops.convert_to_numpy(outputs)
