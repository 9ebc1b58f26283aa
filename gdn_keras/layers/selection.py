"""From the maps of every scale channel to one number per class: select in space, pool over scale.

The scale channels are stacked on axis 1: (batch, scale channel, class), or at every image point
(batch, scale channel, height, width, class).
"""

import math

import keras
from keras import ops

from gdn_keras.layers.replicas import replica_number
from gdn_keras.utils.checks import check_choice, check_number, check_type


@keras.saving.register_keras_serializable(package="gdn_keras")
class SpatialSelection(keras.layers.Layer):
    """Read one vector per scale channel: at the centre, or the maximum over the image.

    Takes the maps of all scale channels, a list of (batch, height, width, class), which may differ
    in size, and returns (batch, scale channel, class). The centre of an even size is the mean of
    the two middle samples.
    """

    def __init__(self, mode="centre", **kwargs):
        super().__init__(**kwargs)
        self.mode = check_choice("mode", mode, ("centre", "max"))

    def call(self, inputs, training=False):
        if not isinstance(inputs, (list, tuple)):
            raise ValueError(
                "`SpatialSelection` takes a list of maps, one per scale channel. "
                f"Received: one tensor of shape {tuple(inputs.shape)}."
            )
        if self.mode == "centre":
            return ops.stack([_centre(tensor) for tensor in inputs], axis=1)
        return ops.stack(
            [_max(tensor, axis=(1, 2), training=training) for tensor in inputs], axis=1
        )

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], len(input_shape), input_shape[0][-1])

    def get_config(self):
        return {**super().get_config(), "mode": self.mode}


def _centre(tensor):
    rows, columns = (slice((n - 1) // 2, n // 2 + 1) for n in ops.shape(tensor)[1:3])
    return ops.mean(tensor[:, rows, columns], axis=(1, 2))


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScalePooling(keras.layers.Layer):
    """Reduce axis 1, the scale channels, by max, average or logsumexp.

    Takes (batch, scale channel, class) or (batch, scale channel, height, width, class). Every mode
    ignores the order of the scale channels; a rescaled image only shifts them, so the result is
    invariant up to the ends of the range of scales.
    """

    def __init__(self, mode="average", **kwargs):
        super().__init__(**kwargs)
        self.mode = check_choice("mode", mode, ("max", *_SMOOTH_POOLING))

    def call(self, inputs, training=False):
        if len(inputs.shape) not in (3, 5):  # else it would pool over classes, or over rows
            raise ValueError(
                "`inputs` must be (batch, scale channel, class) or (batch, scale channel, height, "
                f"width, class). Received: shape {tuple(inputs.shape)}."
            )
        if self.mode == "max":
            return _max(inputs, axis=(1,), training=training)
        return _SMOOTH_POOLING[self.mode](inputs, axis=1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], *input_shape[2:])

    def get_config(self):
        return {**super().get_config(), "mode": self.mode}


def _max(tensor, *, axis, training):
    """The maximum over some axes, also of an empty batch.

    In training, the gradient goes to the place of the maximum. `ops.max` would compare every value
    with the maximum; if XLA computes them twice, with another rounding, none is equal, and the
    gradient is divided by zero.
    """
    if training:
        for one in reversed(axis):
            place = ops.argmax(tensor, axis=one, keepdims=True)
            tensor = ops.squeeze(ops.take_along_axis(tensor, place, axis=one), axis=one)
        return tensor
    # TensorFlow has no maximum of an empty batch; a sum is empty, too
    return ops.sum(tensor, axis=axis) if tensor.shape[0] == 0 else ops.max(tensor, axis=axis)


_SMOOTH_POOLING = {"average": ops.mean, "logsumexp": ops.logsumexp}


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScaleChannelDropout(keras.layers.Layer):
    """Drop outputs of scale channels in training, as in the paper.

    X(class, scale channel) ~ Bernoulli(1 - rate), independent for every sample too; what is kept
    is divided by 1 - rate. Every replica of a `tf.distribute` strategy draws its own masks.
    """

    def __init__(self, rate, *, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_number("rate", rate, low=0, high=math.nextafter(1, 0), expected="in [0, 1)")
        check_type("seed", seed, int | None)
        self.rate = rate
        self.seed = seed
        if rate:
            self.seed_generator = _SeedPerReplica(seed)

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        return keras.random.dropout(inputs, self.rate, seed=self.seed_generator)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


class _SeedPerReplica(keras.random.SeedGenerator):
    """Replicas have the same state, so their number goes into the seeds; 0 changes nothing."""

    def next(self, ordered=True):
        seed = super().next(ordered)
        apart = [1_000_003 * replica_number(), 0]  # the second number counts the steps
        return seed + ops.convert_to_tensor(apart, dtype=seed.dtype)
