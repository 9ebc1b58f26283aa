"""Traffic signs cut out of photographs of GTSRB, in the format of STIR; not in the paper."""

from gdn_keras.datasets.dataset import DataSet
from gdn_keras.datasets.samples import SampleFile
from gdn_keras.datasets.stir import SIDE, STIR_SIZES, StirFile

DATASET = DataSet(
    name="stir_gtsrb",
    title="GTSRB in the format of STIR",
    description="Traffic signs of 17 to 64 pixels at random places of a 64x64 image, with the "
    "photograph around them.",
    image_size=(SIDE, SIDE),
    channels=3,
    class_names=(
        "general caution",
        "priority road",
        "right of way",
        "road work",
        "speed limit 30",
        "speed limit 50",
        "stop",
        "yield",
    ),
    num_images=(3_072, 192),
    sizes=STIR_SIZES,
    surroundings="mirrored",
    licence="GTSRB photographs: no licence came with the files; its authors ask to be cited "
    "(Stallkamp, Schlipsing, Salmen and Igel, 2012)",
    loader=StirFile("gtsrb.npz", photographs="gtsrb-signs"),
    samples=SampleFile("stir_gtsrb", per_class=4),
)
