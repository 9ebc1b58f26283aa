"""Batch normalisation shared by all scale channels."""

import keras
from keras import ops

from gdn_keras.utils.checks import check_number, checked


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScaleBatchNormalization(keras.layers.Layer):
    """Normalise all scale channels of a layer with the same mean and variance.

    The batch statistics are the mean over scale channels of each channel's first and second
    moments, so every scale channel counts the same, however many samples its window has, and the
    scale channels stay copies of one network. Takes one tensor or a list of tensors.

    The variance is that of float32 moments about zero: it is not meant for features whose mean is
    more than a hundred times their standard deviation.

    Args:
        momentum: how much of the moving statistics is kept at every step.
        epsilon: added to the variance.
        synchronized: average the moments over the replicas of a `tf.distribute` strategy.
    """

    @checked
    def __init__(
        self,
        *,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        synchronized: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_number("momentum", momentum, low=0, high=1, expected="in [0, 1]")
        check_number("epsilon", epsilon, low=1e-12, expected="a number of at least 1e-12")
        self.momentum = momentum
        self.epsilon = epsilon
        self.synchronized = synchronized

    def build(self, input_shape):
        shape = input_shape[0] if isinstance(input_shape[0], (list, tuple)) else input_shape
        weight = {"shape": (shape[-1],), "autocast": False}
        self.gamma = self.add_weight(name="gamma", initializer="ones", **weight)
        self.beta = self.add_weight(name="beta", initializer="zeros", **weight)
        self.moving_mean = self.add_weight(
            name="moving_mean", initializer="zeros", trainable=False, **weight
        )
        self.moving_variance = self.add_weight(
            name="moving_variance", initializer="ones", trainable=False, **weight
        )

    def call(self, inputs, training=False):
        tensors = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        if training and self.trainable:
            mean, variance = self._batch_statistics(tensors)
            for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                new = ops.stop_gradient(new)
                moving.assign(moving * self.momentum + new * (1.0 - self.momentum))
        else:
            mean, variance = self.moving_mean, self.moving_variance
        scale = self.gamma * ops.rsqrt(variance + self.epsilon)
        offset = self.beta - mean * scale
        scale = ops.cast(scale, self.compute_dtype)
        offset = ops.cast(offset, self.compute_dtype)
        outputs = [tensor * scale + offset for tensor in tensors]
        return outputs if isinstance(inputs, (list, tuple)) else outputs[0]

    def _batch_statistics(self, tensors):
        samples = (
            ops.reshape(ops.cast(tensor, "float32"), (-1, tensor.shape[-1])) for tensor in tensors
        )
        moments = sum(map(_moments, samples)) / len(tensors)
        if self.synchronized:
            moments, _ = ops.moments(moments[None], axes=[0], synchronized=True)
        mean, square = moments[0], moments[1]
        return mean, ops.maximum(square - ops.square(mean), 0.0)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "synchronized": self.synchronized,
        }


@ops.custom_gradient
def _moments(samples):
    """Mean and mean square over axis 0: (sample, feature) to (2, feature).

    Training is bound by memory here. A product with ones is the fastest sum over the outer axis
    on a CPU, and the gradient written out passes over the samples less often.
    """
    count = ops.shape(samples)[0]
    ones = ops.ones((1, count), "float32")
    sums = [ops.matmul(ones, samples), ops.matmul(ones, ops.square(samples))]

    def gradient(*args, upstream=None):
        if upstream is None:  # only PyTorch gives it by name
            (upstream,) = args
        upstream = upstream / ops.cast(count, "float32")
        return samples * (2 * upstream[1]) + upstream[0]

    return ops.concatenate(sums) / ops.cast(count, "float32"), gradient
