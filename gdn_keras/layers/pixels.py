"""The first layer of a network."""

from __future__ import annotations

from typing import Any

import keras

from gdn_keras.utils.checks import checked


@keras.saving.register_keras_serializable(package="gdn_keras")
class PixelScaling(keras.layers.Rescaling):
    """Multiply pixels by `scale` and add `offset`.

    `network` is None or a dict with the settings of the `GaussDerNet` that the layer belongs to:
    `keras.models.clone_model` rebuilds a network from its layers alone, and finds them here.
    """

    @checked
    def __init__(
        self,
        scale: float,
        *,
        offset: float = 0.0,
        network: dict[str, Any] | None = None,
        **kwargs,
    ):
        super().__init__(scale, offset, **kwargs)
        self.network = network

    def get_config(self):
        return {**super().get_config(), "network": self.network}
