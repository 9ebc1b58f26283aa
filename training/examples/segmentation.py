"""Segment garments of any size anywhere on a canvas: dense maps and a head of plain Keras.

    python training/examples/segmentation.py

A network with `spatial_selection="none"` has an output at every pixel and for every scale channel.
The head takes the largest over the scale channels, adds the pixel itself, and decides with two
dense layers, pixel by pixel, so it does not depend on the size either. The network learns which
pixels are background and which belong to which kind of garment, from garments of Fashion-MNIST of
one size at random places: first with one scale channel, then, starting from those weights, with
several. Both are measured at sizes that they were not trained on.

It needs the files of Fashion-MNIST (GDN_KERAS_DATA; otherwise they are downloaded) and takes
about five minutes on one core of a CPU.
"""

import argparse
import functools

import keras
import numpy as np
from scipy import ndimage

from gdn_keras.config import GaussDerNetConfig
from gdn_keras.datasets import Arrays, load_arrays
from gdn_keras.model import build_model, copy_weights
from gdn_keras.utils.command_line import POSITIVE

DATASET = "rescaled_fashion_mnist_translated"
BATCH = 8
SIZES = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)
SEVERAL = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)  # sigmas of the scale channels


def pixel_labels(data: Arrays) -> np.ndarray:
    """0 is the background, k + 1 a garment of class k."""
    garment = np.stack([ndimage.binary_fill_holes(image[..., 0] > 16) for image in data.images])
    return np.where(garment, data.labels[:, None, None] + 1, 0)


def segmenter(class_count: int, *, channel_sigmas: tuple[float, ...], canvas: int) -> keras.Model:
    """Logits of the background and of every class at every pixel."""
    config = GaussDerNetConfig(
        input_size=(canvas, canvas),
        input_channels=1,
        num_classes=32,  # features for the head
        channel_sigmas=channel_sigmas,
        sigma_ratio=2.0,
        widths=(12, 16, 24, 32),
        spatial_selection="none",
        final_relu=False,
        sampling_density=2**-0.5,
    )
    dense = build_model(config)  # (batch, height, width, scale channel, feature)
    largest = keras.ops.max(dense.output, axis=3)
    pixels = keras.layers.Rescaling(1 / 255)(dense.input)
    features = keras.layers.Concatenate()([largest, pixels])
    hidden = keras.layers.Dense(32, activation="relu", name="head")(features)
    return keras.Model(dense.input, keras.layers.Dense(class_count + 1, name="logits")(hidden))


def fit(model: keras.Model, data: Arrays, *, epochs: int, learning_rate: float) -> None:
    steps = epochs * -(-len(data) // BATCH)
    schedule = keras.optimizers.schedules.CosineDecay(learning_rate, steps)
    model.compile(
        optimizer=keras.optimizers.AdamW(schedule),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(data.images, pixel_labels(data), batch_size=BATCH, epochs=epochs, verbose=2)


def scores(model: keras.Model, data: Arrays) -> tuple[float, float]:
    """Mean intersection over union of all classes, and the accuracy on pixels of garments."""
    truth = pixel_labels(data)
    found = model.predict(data.images, batch_size=16, verbose=0).argmax(axis=-1)
    ratios = []
    for label in range(len(data.class_names) + 1):
        union = ((truth == label) | (found == label)).sum()
        if union:
            ratios.append(((truth == label) & (found == label)).sum() / union)
    return float(np.mean(ratios)), float(np.mean((found == truth)[truth > 0]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=POSITIVE, default=2000, help="images at size factor 1")
    parser.add_argument("--test", type=POSITIVE, default=100, help="images of each size")
    parser.add_argument("--epochs", type=POSITIVE, default=6, help="with one scale channel")
    parser.add_argument("--further-epochs", type=POSITIVE, default=2, help="with several")
    arguments = parser.parse_args(argv)
    train = load_arrays(DATASET, split="train", limit=arguments.train)
    options = {"split": "test", "limit": arguments.test}
    tests = {size: load_arrays(DATASET, size_factor=size, **options) for size in SIZES}
    keras.utils.set_random_seed(0)
    build = functools.partial(segmenter, len(train.class_names), canvas=train.images.shape[1])
    single, several = (build(channel_sigmas=sigmas) for sigmas in ((1.0,), SEVERAL))
    fit(single, train, epochs=arguments.epochs, learning_rate=0.01)
    report("one scale channel", single, tests)
    copy_weights(single, several)
    fit(several, train, epochs=arguments.further_epochs, learning_rate=0.003)
    report(f"{len(SEVERAL)} scale channels", several, tests)


def report(name: str, model: keras.Model, tests: dict[float, Arrays]) -> None:
    print(f"{name}, {model.count_params():,} parameters")
    print("size factor   mean IoU   garment pixels")
    for size, data in tests.items():
        union, right = scores(model, data)
        print(f"{size:11.3f} {union:10.1%} {right:16.1%}", flush=True)


if __name__ == "__main__":
    main()
