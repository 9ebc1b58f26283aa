"""Train the same network on one and on two CPU devices of TensorFlow; write weights to a file.

Also the masks that scale-channel dropout draws on one and on two.

Its own process, since devices are split before TensorFlow starts: `replicas_worker.py FILE`.
"""

import sys

import keras
import numpy as np
import tensorflow as tf
from helpers import random_images, randomise, small_config
from keras.ops import convert_to_numpy as to_numpy

from gdn_keras import ScaleAdamW, build_model
from gdn_keras.layers import ScaleChannelDropout

DEVICES = ["CPU:0", "CPU:1"]


def train(strategy, *, synchronized):
    config = small_config(widths=(4,), final_relu=False, learned_sigmas=True)
    with strategy.scope():
        model = randomise(build_model(config, synchronized=synchronized))
        optimizer = ScaleAdamW(0.5, epsilon=1.0, sigma_learning_rate_factor=0.5)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer, loss=loss, jit_compile=False)
        optimizer.build(model.trainable_variables)  # or TensorFlow traces the step twice
    images, labels = random_images(config, batch=8), np.arange(8) % 3
    model.fit(images, labels, batch_size=8, epochs=2, shuffle=False, verbose=0)
    return {weight.path: to_numpy(weight) for weight in model.weights}


def draw_masks(strategy):
    """Two steps of dropout on every replica: (replica, step, ...)."""
    with strategy.scope():
        layer = ScaleChannelDropout(0.5, seed=3)

    @tf.function
    def draw():
        return strategy.run(lambda: layer(tf.ones((8, 4, 3)), training=True))

    steps = [strategy.experimental_local_results(draw()) for _ in range(2)]
    return np.stack([[mask.numpy() for mask in step] for step in steps], axis=1)


def main(path):
    cpu = tf.config.list_physical_devices("CPU")[0]
    split = [tf.config.LogicalDeviceConfiguration() for _ in DEVICES]
    tf.config.set_logical_device_configuration(cpu, split)
    two_devices = tf.distribute.MirroredStrategy(DEVICES)
    runs = {
        "one": train(tf.distribute.get_strategy(), synchronized=True),
        "two": train(two_devices, synchronized=True),
        "apart": train(two_devices, synchronized=False),
    }
    arrays = {f"{run}/{k}": v for run, weights in runs.items() for k, v in weights.items()}
    masks = {
        "masks of one": draw_masks(tf.distribute.get_strategy()),
        "masks of two": draw_masks(two_devices),
    }
    np.savez(path, **arrays, **masks)


if __name__ == "__main__":
    main(sys.argv[1])
