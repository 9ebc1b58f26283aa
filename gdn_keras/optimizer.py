"""AdamW with a separate learning rate and weight decay for learned scales."""

import keras
from keras import ops

from gdn_keras.layers.jet import LEARNED_RATIO
from gdn_keras.utils.checks import check_number


@keras.saving.register_keras_serializable(package="gdn_keras")
class ScaleAdamW(keras.optimizers.AdamW):
    """AdamW that treats the learned scales of jet layers apart from all other weights.

    A network has one learned scale per layer among thousands of coefficients, and a good step for
    these is not a good one for sigma. On weights named `learned_ratio`, a step is AdamW's with

        learning rate  sigma_learning_rate_factor * learning_rate
        weight decay   sigma_weight_decay

    so a schedule of the learning rate applies to both. All other weights are
    updated as by `keras.optimizers.AdamW`.

    Args:
        learning_rate: a number, or a `keras.optimizers.schedules.LearningRateSchedule`.
        weight_decay: decoupled weight decay of all weights but the learned scales.
        sigma_learning_rate_factor: learning rate of the learned scales over `learning_rate`.
        sigma_weight_decay: decoupled weight decay of the learned scales.
        **kwargs: as of `keras.optimizers.AdamW`.
    """

    def __init__(
        self,
        learning_rate=0.001,
        *,
        weight_decay=0.004,
        sigma_learning_rate_factor=1.0,
        sigma_weight_decay=0.025,
        **kwargs,
    ):
        for name, value in (
            ("sigma_learning_rate_factor", sigma_learning_rate_factor),
            ("sigma_weight_decay", sigma_weight_decay),
        ):
            check_number(name, value, low=0, expected="a number >= 0")
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay, **kwargs)
        self.sigma_learning_rate_factor = sigma_learning_rate_factor
        self.sigma_weight_decay = sigma_weight_decay
        self.exclude_from_weight_decay()

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        """As in Keras; learned scales are always left out, which have their own decay."""
        super().exclude_from_weight_decay(var_list, [*(var_names or ()), LEARNED_RATIO])

    def update_step(self, gradient, variable, learning_rate):
        # TensorFlow adds to the name, as in "learned_ratio/replica_1:0"
        if LEARNED_RATIO in variable.name:
            learning_rate = learning_rate * self.sigma_learning_rate_factor
            decay = ops.cast(self.sigma_weight_decay * learning_rate, variable.dtype)
            self.assign_sub(variable, variable * decay)
        super().update_step(gradient, variable, learning_rate)

    def get_config(self):
        return {
            **super().get_config(),
            "sigma_learning_rate_factor": self.sigma_learning_rate_factor,
            "sigma_weight_decay": self.sigma_weight_decay,
        }
