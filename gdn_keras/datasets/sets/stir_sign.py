"""STIR traffic signs (Altstidl et al., 2023)."""

from gdn_keras.datasets.dataset import DataSet
from gdn_keras.datasets.stir import HOME, SIDE, STIR_SIZES, StirFile

DATASET = DataSet(
    name="stir_sign",
    title="STIR traffic signs",
    description="Traffic signs of 17 to 64 pixels at random places of a 64x64 image.",
    image_size=(SIDE, SIDE),
    channels=3,
    num_classes=16,  # their names are in the file only
    sizes=STIR_SIZES,
    surroundings="mirrored",
    loader=StirFile("trafficsign.npz", home=HOME),
)
