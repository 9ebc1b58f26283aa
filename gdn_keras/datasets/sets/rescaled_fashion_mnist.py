"""Fashion-MNIST at nine sizes, centred."""

from gdn_keras.datasets.rescaled import rescaled_set
from gdn_keras.datasets.sets.fashion_mnist import DATASET as SOURCE

DATASET = rescaled_set(
    SOURCE,
    name="rescaled_fashion_mnist",
    title="rescaled Fashion-MNIST",
    description="Fashion-MNIST with the objects rescaled, centred on a black 72x72 canvas.",
    canvas=72,
    extension="zero",
)
