"""Segment garments of any size anywhere on a canvas: dense maps and a head of plain Keras.

    python training/examples/segmentation.py

A network with `spatial_selection="none"` has an output at every pixel and for every scale channel;
the head takes the largest over the scale channels. It learns, from garments of Fashion-MNIST of one
size at random places, which pixels are background and which belong to which kind of garment. It is
then measured at sizes that it was not trained on, beside the same network with one scale channel.

It needs the files of Fashion-MNIST (GDN_KERAS_DATA; otherwise they are downloaded) and takes a
few minutes on one core of a CPU.
"""

import argparse

import keras
import numpy as np
from scipy import ndimage

from gdn_keras.config import GaussDerNetConfig
from gdn_keras.datasets import Arrays, load_arrays
from gdn_keras.model import build_model

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
        num_classes=class_count + 1,
        channel_sigmas=channel_sigmas,
        sigma_ratio=1.5,
        widths=(12, 16, 24, 32),
        spatial_selection="none",
        final_relu=False,
        final_batch_norm=False,
        sampling_density=2**-0.5,
    )
    dense = build_model(config)  # (batch, height, width, scale channel, class)
    pooled = keras.layers.Lambda(lambda x: keras.ops.max(x, axis=3))(dense.output)
    return keras.Model(dense.input, pooled)


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
    parser.add_argument("--train", type=int, default=600, help="images at size factor 1")
    parser.add_argument("--test", type=int, default=100, help="images of each size")
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args(argv)
    train = load_arrays(DATASET, split="train", limit=arguments.train)
    options = {"split": "test", "limit": arguments.test}
    tests = {size: load_arrays(DATASET, size_factor=size, **options) for size in SIZES}
    for channel_sigmas in ((1.0,), SEVERAL):
        keras.utils.set_random_seed(0)
        canvas = train.images.shape[1]
        model = segmenter(len(train.class_names), channel_sigmas=channel_sigmas, canvas=canvas)
        steps = arguments.epochs * -(-len(train) // BATCH)
        model.compile(
            optimizer=keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.01, steps)),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        labels = pixel_labels(train)
        model.fit(train.images, labels, batch_size=BATCH, epochs=arguments.epochs, verbose=2)
        print(f"{len(channel_sigmas)} scale channels, {model.count_params():,} parameters")
        print("size factor   mean IoU   garment pixels")
        for size, data in tests.items():
            union, right = scores(model, data)
            print(f"{size:11.3f} {union:10.1%} {right:16.1%}", flush=True)


if __name__ == "__main__":
    main()
