"""CIFAR-10 at nine sizes, extended by mirroring."""

from gdn_keras.datasets.rescaled import rescaled_set
from gdn_keras.datasets.sets.cifar10 import DATASET as SOURCE

DATASET = rescaled_set(
    SOURCE,
    name="rescaled_cifar10",
    title="rescaled CIFAR-10",
    description="CIFAR-10 rescaled, 64x64 pixels; beyond its border the image is extended by "
    "mirroring.",
    canvas=64,
    extension="mirror",
)
