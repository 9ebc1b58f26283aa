"""The parts of a stage: its images, its network, its loss and optimiser, its statistics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from gdn_keras import datasets
from gdn_keras.datasets import Arrays, as_dataset
from gdn_keras.layers import ScaleBatchNormalization
from gdn_keras.model import GaussDerNet, build_model, copy_weights
from gdn_keras.optimizer import ScaleAdamW

from .budgets import Stage


def load_data(stage: Stage, *, data_dir: Path | None = None) -> Arrays:
    """The training images of a stage: at size factor 1, or of the recipe's range of sizes."""
    return datasets.get(stage.dataset).load_training(
        stage.train_sizes, split=stage.split, data_dir=data_dir, limit=stage.limit
    )


def batches(data: Arrays, stage: Stage, *, seed: int, step: int):
    """The stage's batches, starting at `step`."""
    epoch, position = divmod(step, len(data) // stage.batch_size)
    state = {"epoch": epoch, "position": position, "seed": seed}
    state |= {"batch_size": stage.batch_size, "num_images": len(data)}
    return as_dataset(
        data, batch_size=stage.batch_size, seed=seed, augment=stage.augment, state=state
    )


def build_stage_model(stage: Stage, *, seed: int, synchronized: bool = False) -> GaussDerNet:
    """The stage's network, the same for the same seed."""
    keras.utils.set_random_seed(seed)
    model = build_model(stage.config, dtype=stage.dtype, seed=seed, synchronized=synchronized)
    if stage.fixed_last_sigma:
        model.get_layer(model.blocks[-1].jet).ratio.trainable = False
    return model


def start_from(before: GaussDerNet, model: GaussDerNet) -> None:
    """Copy the weights of `before`; derivatives that it does not have start at zero."""
    if before.config.jet_order == model.config.jet_order:
        copy_weights(before, model)
        return
    for layer in model.layers:
        new, old = layer.weights, before.get_layer(layer.name).weights
        for variable, value in zip(new, map(keras.ops.convert_to_numpy, old), strict=True):
            # the terms of a 2-jet are the first of a 3-jet
            missing = variable.shape[0] - len(value)
            variable.assign(np.pad(value, [(0, missing)] + [(0, 0)] * (value.ndim - 1)))


def compile_model(model: GaussDerNet, stage: Stage, steps: int, *, jit: bool = False) -> None:
    """Loss, optimiser and learning rate curve of section 5 (and of the stage)."""
    warmup = round(stage.warmup * steps)
    rate = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=stage.learning_rate / 100 if warmup else stage.learning_rate,
        decay_steps=max(steps - warmup, 1),
        alpha=stage.final_learning_rate / stage.learning_rate,
        warmup_target=stage.learning_rate if warmup else None,
        warmup_steps=warmup,
    )
    sigma_rate = stage.sigma_learning_rate
    optimizer = ScaleAdamW(
        rate,
        weight_decay=stage.weight_decay,
        sigma_learning_rate_factor=(sigma_rate or stage.learning_rate) / stage.learning_rate,
        sigma_weight_decay=stage.sigma_weight_decay or 0.0,
    )
    if stage.dtype == "mixed_float16":  # small gradients would be zero
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    if stage.label_smoothing:
        classes, smoothing = stage.config.num_classes, stage.label_smoothing

        def loss(labels, logits):
            targets = keras.ops.one_hot(keras.ops.reshape(labels, (-1,)), classes)
            return keras.losses.categorical_crossentropy(
                targets, logits, from_logits=True, label_smoothing=smoothing
            )
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        optimizer=optimizer,
        loss=loss,
        # an object already has its variables; those of a name would be created while the first
        # step is traced, and then TensorFlow traces it twice
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
        jit_compile=_jit(jit),
    )


def _jit(requested: bool) -> bool:
    return requested or keras.backend.backend() == "jax"  # where nothing else is fast


def measure_statistics(
    model: GaussDerNet,
    data: Arrays,
    stage: Stage,
    *,
    seed: int,
    images: int,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Replace the moving batch statistics by means over `images` training images, or all there are.

    The moving ones remember ten batches or so, which at the centre of the last layer is a few
    hundred samples. Returns the number of images used; 0, and useless statistics, if stopped.
    """
    from gdn_keras.utils.progress import show_progress

    norms = [layer for layer in model.layers if isinstance(layer, ScaleBatchNormalization)]
    statistics = [v for norm in norms for v in (norm.moving_mean, norm.moving_variance)]
    momentum = {norm: norm.momentum for norm in norms}
    sums = [0.0] * len(statistics)
    steps = max(1, min(images, len(data)) // stage.batch_size)
    source = batches(data, stage, seed=seed, step=0).as_numpy_iterator()
    for norm in norms:
        norm.momentum = 0.0  # only the current batch
    network = _AsInTraining(model)
    network.compile(jit_compile=_jit(False))
    for _ in show_progress(range(steps), desc="batch statistics", unit="batch", mininterval=1.0):
        if stop():
            return 0
        network.predict_on_batch(next(source)[0])
        values = map(keras.ops.convert_to_numpy, statistics)
        sums = [total + value.astype("float64") for total, value in zip(sums, values, strict=True)]
    for norm in norms:
        norm.momentum = momentum[norm]
    for variable, total in zip(statistics, sums, strict=True):
        variable.assign(total / steps)
    return steps * stage.batch_size


class _AsInTraining(keras.Model):
    """A network that uses the statistics of each batch in `predict`, too, which is compiled."""

    def __init__(self, network: GaussDerNet):
        super().__init__(name="as_in_training")
        self.network = network
        self.built = True  # as the network is; or JAX would run it once, operation by operation

    def call(self, images):
        return self.network(images, training=True)
