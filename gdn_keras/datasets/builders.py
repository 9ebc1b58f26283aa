"""The three rescaled data sets as builders of tensorflow-datasets. Importing this registers them.

>>> from gdn_keras.datasets import tfds_builder
>>> builder = tfds_builder("rescaled_cifar10", size_factor=2, data_dir="prepared")
>>> builder.download_and_prepare()
>>> test = builder.as_dataset(split="test")

Without a network, put the standard files (see raw.py) into a folder and give it in the environment
variable GDN_KERAS_DATA, or as `manual_dir` of a `tfds.download.DownloadConfig`.
"""

from functools import partial
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from gdn_keras.citation import BIBTEX
from gdn_keras.datasets import download, raw
from gdn_keras.datasets.rescaled import (
    REGULAR,
    RESCALINGS,
    SIZE_FACTORS,
    finder,
    load_with,
    source_files,
)

_SOURCE_PAPERS = {
    "fashion_mnist": """@article{xiao2017fashion,
  title={Fashion-{MNIST}: a novel image dataset for benchmarking machine learning algorithms},
  author={Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  journal={arXiv preprint arXiv:1708.07747},
  year={2017}
}""",
    "cifar10": """@techreport{krizhevsky2009learning,
  title={Learning multiple layers of features from tiny images},
  author={Krizhevsky, Alex and Hinton, Geoffrey},
  institution={University of Toronto},
  year={2009}
}""",
}
_HOMEPAGES = {
    "fashion_mnist": "https://github.com/zalandoresearch/fashion-mnist",
    "cifar10": "https://www.cs.toronto.edu/~kriz/cifar.html",
}


class SizeFactorConfig(tfds.core.BuilderConfig):
    """One size factor; named as in the authors' files, `size_1p414`."""

    def __init__(self, size_factor: float):
        self.size_factor = size_factor
        super().__init__(
            name=config_name(size_factor),
            description=f"Objects are {size_factor:.3f} times as large as in the original images.",
        )


def config_name(size_factor: float) -> str:
    """The name of a configuration: `size_1p414` for the square root of 2."""
    return f"size_{size_factor:.3f}".replace(".", "p")


class _Rescaled(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version, resized on the centred grid."}
    BUILDER_CONFIGS = [SizeFactorConfig(factor) for factor in SIZE_FACTORS]
    DEFAULT_BUILDER_CONFIG_NAME = config_name(1.0)
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Only without the internet: `manual_dir` must hold fashion-mnist/*.gz or "
        "cifar-10-batches-bin/*.bin, the standard files of the original data set."
    )

    def _info(self) -> tfds.core.DatasetInfo:
        how = RESCALINGS[self.name]
        channels = 3 if how.source == "cifar10" else 1
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.__doc__,
            features=tfds.features.FeaturesDict(
                {
                    "id": tfds.features.Text(),
                    "image": tfds.features.Image(shape=(how.canvas, how.canvas, channels)),
                    "label": tfds.features.ClassLabel(names=REGULAR[how.source]),
                    "size_factor": np.float32,
                }
            ),
            supervised_keys=("image", "label"),
            homepage=_HOMEPAGES[how.source],
            citation=f"{BIBTEX}\n\n{_SOURCE_PAPERS[how.source]}",
            disable_shuffling=True,  # the original order, which everyone can compare
        )

    def _split_generators(self, dl_manager):
        find = self._finder(dl_manager)
        return {
            split: self._generate_examples(split, find) for split in ("train", "validation", "test")
        }

    def _finder(self, dl_manager):
        """From `manual_dir` if it holds the original data set, else as `load_arrays` does."""
        subfolder, _ = source_files(self.name)[0]
        try:
            manual = Path(dl_manager.manual_dir)
        except AssertionError:  # not given, or empty
            manual = None
        if manual is not None and (manual / subfolder).is_dir():
            return partial(raw.find, folder=manual)
        if raw.data_folder() is not None:
            return finder()
        return partial(download.find, manager=dl_manager)

    def _generate_examples(self, split: str, find):
        factor = self.builder_config.size_factor
        arrays = load_with(find, self.name, split=split, size_factor=factor)
        for number, (image, label) in enumerate(zip(arrays.images, arrays.labels, strict=True)):
            key = f"{split}_{number:05d}"
            yield key, {"id": key, "image": image, "label": int(label), "size_factor": factor}


class RescaledFashionMnist(_Rescaled):
    """Fashion-MNIST with the objects rescaled, centred on a black canvas of 72x72 pixels."""


class RescaledFashionMnistTranslated(_Rescaled):
    """Fashion-MNIST with the objects rescaled, at random places of a black 72x72 canvas.

    An object is at least 4 pixels away from the border; its place does not depend on the machine.
    """


class RescaledCifar10(_Rescaled):
    """CIFAR-10 rescaled, 64x64 pixels; what the image does not reach is its mirror image."""
