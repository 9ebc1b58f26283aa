"""Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017)."""

from gdn_keras.datasets.dataset import DataSet
from gdn_keras.datasets.raw import StandardFiles, read_fashion
from gdn_keras.datasets.samples import SampleFile

_HOMEPAGE = "https://github.com/zalandoresearch/fashion-mnist"
_CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
DATASET = DataSet(
    name="fashion_mnist",
    title="Fashion-MNIST",
    description="Grey images of clothes, 28x28 pixels.",
    image_size=(28, 28),
    channels=1,
    class_names=_CLASSES,
    num_images=(60_000, 10_000),
    licence="Fashion-MNIST images: MIT",
    homepage=_HOMEPAGE,
    hub_id="zalando-datasets/fashion_mnist",
    loader=StandardFiles(
        folder="fashion-mnist",
        parts={
            "train": {
                "train-images-idx3-ubyte.gz": (
                    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
                ),
                "train-labels-idx1-ubyte.gz": (
                    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
                ),
            },
            "test": {
                "t10k-images-idx3-ubyte.gz": (
                    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
                ),
                "t10k-labels-idx1-ubyte.gz": (
                    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
                ),
            },
        },
        read=read_fashion,
        class_names=_CLASSES,
        home=f"the four .gz files of {_HOMEPAGE}",
        tfds_name="fashion_mnist",
    ),
    samples=SampleFile("fashion_mnist", per_class=10),
    citation="""@article{xiao2017fashion,
  title={Fashion-{MNIST}: a novel image dataset for benchmarking machine learning algorithms},
  author={Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  journal={arXiv preprint arXiv:1708.07747},
  year={2017}
}""",
)
