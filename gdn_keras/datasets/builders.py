"""The rescaled data sets as builders of tensorflow-datasets. Importing this registers them.

>>> from gdn_keras.datasets import tfds_builder
>>> builder = tfds_builder("rescaled_cifar10", size_factor=2, data_dir="prepared")
>>> builder.download_and_prepare()
>>> test = builder.as_dataset(split="test")

Offline, put the standard files (see raw.py) into a folder and give it in the environment
variable GDN_KERAS_DATA, or as `manual_dir` of a `tfds.download.DownloadConfig`.
"""

from functools import partial
from pathlib import Path

import numpy as np
import tensorflow_datasets as tfds

from gdn_keras.datasets import sets
from gdn_keras.datasets.raw import data_folder
from gdn_keras.datasets.rescaled import SIZE_FACTORS, rescaled_sets
from gdn_keras.utils.citation import BIBTEX


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
        dataset = sets.get(self.name)
        return tfds.core.DatasetInfo(
            builder=self,
            description=dataset.description,
            features=tfds.features.FeaturesDict(
                {
                    "id": tfds.features.Text(),
                    "image": tfds.features.Image(shape=(*dataset.image_size, dataset.channels)),
                    "label": tfds.features.ClassLabel(names=dataset.class_names),
                    "size_factor": np.float32,
                }
            ),
            supervised_keys=("image", "label"),
            homepage=dataset.homepage,
            citation=f"{BIBTEX}\n\n{dataset.citation}",
            disable_shuffling=True,  # the original order, which everyone can compare
        )

    def _split_generators(self, dl_manager):
        find = self._finder(dl_manager)
        return {
            split: self._generate_examples(split, find) for split in ("train", "validation", "test")
        }

    def _finder(self, dl_manager):
        """From `manual_dir` if it holds the original data set, else as `load_arrays` does."""
        source = sets.get(self.name).loader.source
        try:
            manual = Path(dl_manager.manual_dir)
        except AssertionError:  # not given, or empty
            manual = None
        if manual is not None and (manual / source.folder).is_dir():
            return source.finder(manual)
        if data_folder() is not None:
            return source.finder()
        return partial(source.download, manager=dl_manager)

    def _generate_examples(self, split: str, find):
        factor = self.builder_config.size_factor
        ((_, arrays),) = sets.get(self.name).loader.load([factor], split=split, find=find)
        for number, (image, label) in enumerate(zip(arrays.images, arrays.labels, strict=True)):
            key = f"{split}_{number:05d}"
            yield key, {"id": key, "image": image, "label": int(label), "size_factor": factor}


def _make_builder(name: str) -> type:
    """A class whose name in snake case is that of the data set, which is how it is registered."""
    words = "".join(word.capitalize() for word in name.split("_"))
    description = sets.get(name).description
    return type(words, (_Rescaled,), {"__doc__": description, "__module__": __name__})


BUILDERS = [_make_builder(name) for name in rescaled_sets()]
