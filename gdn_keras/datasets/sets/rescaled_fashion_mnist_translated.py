"""Fashion-MNIST at nine sizes and at random places."""

from gdn_keras.datasets.rescaled import rescaled_set
from gdn_keras.datasets.sets.fashion_mnist import DATASET as SOURCE

DATASET = rescaled_set(
    SOURCE,
    name="rescaled_fashion_mnist_translated",
    title="rescaled Fashion-MNIST with translations",
    description="Fashion-MNIST with the objects rescaled, at random places of a black 72x72 "
    "canvas. An object is at least 4 pixels away from the border; its place does not depend on the "
    "machine.",
    canvas=72,
    extension="zero",
    translated=True,
)
