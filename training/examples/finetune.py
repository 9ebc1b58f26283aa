"""Fine-tune a network of the zoo on other images: plain Keras, about a minute on a CPU, offline.

    python training/examples/finetune.py [NAME]

NAME is a network of the zoo or a zoo folder; default: fashion_avg_2jet. It learns new classes (36
symbols for networks of grey images, 8 traffic signs for those of colour images) from the package's
images of one object size, 40 pixels. It is then tested on objects of 24 and 56 pixels, 0.6 and 1.4
times that size, which it has not seen, and of 40 pixels, which it has.
A network of several scale channels should know them again; one of a single channel should not.
"""

import argparse

import keras

from gdn_keras import zoo
from gdn_keras.datasets import load_samples
from gdn_keras.utils.command_line import POSITIVE

SAMPLES = {1: "stir_emoji", 3: "stir_gtsrb"}  # by the number of image channels
TRAINED_SIZE = 40
DEFAULT = "fashion_avg_2jet"


def finetune(name: str, *, epochs: int = 20) -> dict[int, tuple[float, float]]:
    """Accuracy before and after, by object size in pixels."""
    samples = load_samples(SAMPLES[zoo.info(name).config.input_channels])
    # a new last layer for the new classes; objects may be anywhere in the image
    model = zoo.load(
        name,
        num_classes=len(samples.class_names),
        input_size=samples.images.shape[1:3],
        spatial_selection="max",
    )
    model.compile(
        optimizer=keras.optimizers.AdamW(0.003, weight_decay=0.025),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    sizes = sorted(set(samples.object_sizes.tolist()))
    parts = {size: samples.select(samples.object_sizes == size) for size in sizes}

    def accuracy(size: int) -> float:
        part = parts[size]
        return model.evaluate(part.images, part.labels, verbose=0, return_dict=True)["accuracy"]

    before = {size: accuracy(size) for size in sizes}
    train = parts[TRAINED_SIZE]
    model.fit(train.images, train.labels, batch_size=12, epochs=epochs, verbose=2)
    return {size: (before[size], accuracy(size)) for size in sizes}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", default=DEFAULT)
    parser.add_argument("--epochs", type=POSITIVE, default=20)
    arguments = parser.parse_args(argv)
    name = arguments.name
    keras.utils.set_random_seed(0)
    result = finetune(name, epochs=arguments.epochs)
    print(f"{name}, fine-tuned on the images with objects of {TRAINED_SIZE} pixels")
    print("object size   size factor   before    after")
    for size, (before, after) in result.items():
        print(f"{size:8} px {size / TRAINED_SIZE:13.1f} {before:8.1%} {after:8.1%}")


if __name__ == "__main__":
    main()
