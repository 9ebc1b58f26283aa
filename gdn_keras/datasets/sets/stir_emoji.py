"""STIR emoji (Altstidl et al., 2023): 36 icons, white on black."""

from gdn_keras.datasets.dataset import DataSet
from gdn_keras.datasets.samples import SampleFile
from gdn_keras.datasets.stir import HOME, SIDE, STIR_SIZES, StirFile

_CLASSES = """
    tired surprise smile-wink smile-beam sad-tear sad-cry meh-rolling-eyes meh-blank
    laugh-wink laugh-squint laugh-beam laugh kiss-wink-heart kiss-beam kiss grin-wink
    grin-tongue-wink grin-tongue-squint grin-tongue grin-tears grin-stars grin-squint-tears
    grin-squint grin-hearts grin-beam-sweat grin-beam grin-alt grin grimace frown-open flushed
    dizzy angry smile meh frown
"""
DATASET = DataSet(
    name="stir_emoji",
    title="STIR emoji",
    description="Icons of 17 to 64 pixels at random places of a black 64x64 canvas.",
    image_size=(SIDE, SIDE),
    channels=1,
    class_names=tuple(_CLASSES.split()),
    num_images=(576, 36),
    sizes=STIR_SIZES,
    surroundings="black",
    licence="STIR emoji: CC BY 4.0 (the icons of Font Awesome Free 5)",
    remark="The test images show the same 36 icons as the training images, at other sizes "
    "and places (at 64 pixels, and often just below, even the place is the same). The images were "
    "rendered again from the icons and are not the file of STIR's authors.",
    loader=StirFile("emoji.npz", home=HOME),
    samples=SampleFile("stir_emoji", per_class=1),
)
