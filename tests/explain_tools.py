"""A small network whose signal stays alive, for the tests of explain and filters."""

import keras
import numpy as np

from gdn_keras import GaussDerNetConfig, build_model


def small_config(**changes) -> GaussDerNetConfig:
    return GaussDerNetConfig(
        **{
            "input_size": (40, 40),
            "input_channels": 1,
            "num_classes": 3,
            "channel_sigmas": (0.5, 2**-0.5, 1.0),
            "sigma_ratio": 1.2,
            "widths": (4, 5),
            **changes,
        }
    )


def make_small_model():
    """Random weights, with a batch norm that is not the identity and keeps the signal alive."""
    keras.utils.set_random_seed(3)
    model = build_model(small_config())
    rng = np.random.default_rng(3)
    for k in (1, 2, 3):
        norm = model.get_layer(f"norm_{k}")
        norm.gamma.assign(rng.uniform(0.5, 2, norm.gamma.shape))
        norm.beta.assign(rng.uniform(-0.5, 1, norm.beta.shape))
        norm.moving_mean.assign(rng.normal(0, 0.01, norm.beta.shape))
        norm.moving_variance.assign(np.full(norm.beta.shape, 0.03))
    return model
