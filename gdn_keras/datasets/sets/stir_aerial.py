"""STIR aerial (Altstidl et al., 2023)."""

from gdn_keras.datasets.dataset import DataSet
from gdn_keras.datasets.stir import HOME, SIDE, STIR_SIZES, StirFile

DATASET = DataSet(
    name="stir_aerial",
    title="STIR aerial",
    description="Aerial photographs: objects of 17 to 64 pixels at random places.",
    image_size=(SIDE, SIDE),
    channels=3,
    num_classes=9,  # their names are in the file only
    sizes=STIR_SIZES,
    surroundings="mirrored",
    loader=StirFile("aerial.npz", home=HOME),
)
