"""Embeddings of objects at sizes that were not trained on, beside those of a plain CNN.

    python training/examples/features.py [NAME]

NAME is a network of the zoo for rescaled Fashion-MNIST; default: fashion_avg_2jet. The plain CNN is
trained here, on the same images of size 1. Both then give embeddings of training images at size 1,
the gallery, and of test images at five sizes, the queries. Three numbers for every size:

neighbours   the share of a query's ten nearest images of the gallery that are the same as at size 1
k-NN         the accuracy of a vote of these ten
probe        the accuracy of a linear layer that was trained on the embeddings of the gallery

It needs the files of Fashion-MNIST (GDN_KERAS_DATA; otherwise they are downloaded) and takes
one to two minutes on one core of a CPU.
"""

import argparse

import keras
import numpy as np

from gdn_keras import zoo
from gdn_keras.datasets import Arrays, load_arrays
from gdn_keras.utils.command_line import POSITIVE

DATASET = "rescaled_fashion_mnist"
SIZES = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)
NEIGHBOURS = 10
DEFAULT = "fashion_avg_2jet"


def plain_cnn(data: Arrays, *, epochs: int) -> keras.Model:
    """A CNN with about as many parameters as the network, trained; its embedding layer."""
    image = keras.Input(data.images.shape[1:])
    x = keras.layers.Rescaling(1 / 255)(image)
    for width in (16, 32, 64, 128):
        x = keras.layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False)(x)
        x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    embedding = keras.layers.GlobalAveragePooling2D()(x)
    logits = keras.layers.Dense(len(data.class_names))(embedding)
    model = keras.Model(image, logits)
    model.compile(
        optimizer=keras.optimizers.AdamW(0.002),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(data.images, data.labels, batch_size=64, epochs=epochs, verbose=2)
    return keras.Model(image, embedding)


def compare_sizes(
    embed: keras.Model, gallery: Arrays, queries: dict[float, Arrays]
) -> dict[float, tuple[float, float, float]]:
    """Kept neighbours, accuracy of k nearest neighbours and of a linear probe, by size."""

    def directions(data: Arrays) -> np.ndarray:
        embeddings = embed.predict(data.images, batch_size=32, verbose=0)
        return embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-9)

    known = directions(gallery)
    found = {size: directions(data) for size, data in queries.items()}
    probe = keras.Sequential([keras.layers.Dense(len(gallery.class_names))])
    mean, deviation = known.mean(axis=0), known.std(axis=0) + 1e-6
    probe.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    probe.fit((known - mean) / deviation, gallery.labels, batch_size=64, epochs=30, verbose=0)
    # by cosine similarity
    nearest = {size: np.argsort(-x @ known.T, axis=1)[:, :NEIGHBOURS] for size, x in found.items()}
    result = {}
    for size, data in queries.items():
        pairs = zip(nearest[size], nearest[1.0], strict=True)
        kept = np.mean([len(np.intersect1d(*pair)) / NEIGHBOURS for pair in pairs])
        votes = np.array([np.bincount(row).argmax() for row in gallery.labels[nearest[size]]])
        probed = probe.predict((found[size] - mean) / deviation, verbose=0).argmax(axis=1)
        result[size] = (kept, *(np.mean(answer == data.labels) for answer in (votes, probed)))
    return result


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", default=DEFAULT)
    parser.add_argument("--train", type=POSITIVE, default=6000, help="images that train the CNN")
    parser.add_argument(
        "--gallery", type=POSITIVE, default=600, help="images, of those that train it"
    )
    parser.add_argument("--queries", type=POSITIVE, default=100, help="test images of each size")
    parser.add_argument("--epochs", type=POSITIVE, default=4, help="of the CNN")
    arguments = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    train = load_arrays(DATASET, split="train", limit=arguments.train)
    gallery = train.select(slice(arguments.gallery))
    options = {"split": "test", "limit": arguments.queries}
    queries = {size: load_arrays(DATASET, size_factor=size, **options) for size in SIZES}
    networks = {
        arguments.name: lambda: zoo.load(arguments.name, include_top=False),
        "plain CNN": lambda: plain_cnn(train, epochs=arguments.epochs),
    }
    for name, make in networks.items():
        embed = make()
        rows = compare_sizes(embed, gallery, queries)
        print(f"{name}: {embed.output_shape[1]} features, {embed.count_params():,} parameters")
        print("size factor   neighbours     k-NN    probe")
        for size, (kept, votes, probe) in rows.items():
            print(f"{size:11.3f} {kept:12.1%} {votes:8.1%} {probe:8.1%}", flush=True)


if __name__ == "__main__":
    main()
