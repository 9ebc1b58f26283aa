"""CIFAR-10 (Krizhevsky and Hinton, 2009)."""

from gdn_keras.datasets.dataset import DataSet
from gdn_keras.datasets.raw import StandardFiles, read_cifar
from gdn_keras.datasets.samples import SampleFile

_HOMEPAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_TRAIN = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
)
_TEST = "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"
DATASET = DataSet(
    name="cifar10",
    title="CIFAR-10",
    description="Colour photographs of animals and vehicles, 32x32 pixels.",
    image_size=(32, 32),
    channels=3,
    class_names=_CLASSES,
    num_images=(50_000, 10_000),
    licence="CIFAR-10 images: no licence is stated by its authors, who ask to be cited "
    "(Krizhevsky and Hinton, 2009); the photographs belong to their owners",
    homepage=_HOMEPAGE,
    hub_id="uoft-cs/cifar10",
    loader=StandardFiles(
        folder="cifar-10-batches-bin",
        parts={
            "train": {f"data_batch_{n}.bin": sha256 for n, sha256 in enumerate(_TRAIN, start=1)},
            "test": {"test_batch.bin": _TEST},
        },
        read=read_cifar,
        class_names=_CLASSES,
        home=f'the unpacked "binary version" of {_HOMEPAGE}',
        tfds_name="cifar10",
        archive=True,
    ),
    samples=SampleFile("cifar10", per_class=10),
    citation="""@techreport{krizhevsky2009learning,
  title={Learning multiple layers of features from tiny images},
  author={Krizhevsky, Alex and Hinton, Geoffrey},
  institution={University of Toronto},
  year={2009}
}""",
)
