"""The paper's data sets: Fashion-MNIST, CIFAR-10, their rescaled versions, and STIR.

From a folder of local files (`data_dir` or the environment variable GDN_KERAS_DATA), or downloaded
with tensorflow-datasets; a few images of each set come with the package (`load_samples`). What is
known about a data set is one record, `get(name)`. `from_folder` and the other `from_…` make one of
your own images; `register` adds any record.
"""

from gdn_keras.datasets.arrays import Arrays as Arrays
from gdn_keras.datasets.batching.batches import TrainingBatches as TrainingBatches
from gdn_keras.datasets.batching.batches import as_dataset as as_dataset
from gdn_keras.datasets.batching.batches import training_batches as training_batches
from gdn_keras.datasets.dataset import DataSet as DataSet
from gdn_keras.datasets.dataset import Loader as Loader
from gdn_keras.datasets.dataset import ObjectSizes as ObjectSizes
from gdn_keras.datasets.dataset import SizeFactors as SizeFactors
from gdn_keras.datasets.make_stir import make_stir as make_stir
from gdn_keras.datasets.rescaled import SIZE_FACTORS as SIZE_FACTORS
from gdn_keras.datasets.rescaled import load_arrays as load_arrays
from gdn_keras.datasets.rescaled import load_hdf5 as load_hdf5
from gdn_keras.datasets.resize import imresize as imresize
from gdn_keras.datasets.resize import rescale as rescale
from gdn_keras.datasets.samples import load_samples as load_samples
from gdn_keras.datasets.sets import all_sets as _all_sets
from gdn_keras.datasets.sets import describe as describe
from gdn_keras.datasets.sets import get as get
from gdn_keras.datasets.sets import names as names
from gdn_keras.datasets.sets import register as register
from gdn_keras.datasets.sources import from_arrays as from_arrays
from gdn_keras.datasets.sources import from_folder as from_folder
from gdn_keras.datasets.sources import from_hugging_face as from_hugging_face
from gdn_keras.datasets.sources import from_npz as from_npz
from gdn_keras.datasets.sources import from_tf_data as from_tf_data
from gdn_keras.datasets.sources import from_tfds as from_tfds
from gdn_keras.datasets.sources import report as report
from gdn_keras.datasets.stir import load_stir as load_stir

# those of the package that `load_arrays` takes
NAMES = tuple(name for name, dataset in _all_sets().items() if dataset.sizes.unit == "factor")


def tfds_builder(name: str, *, size_factor: float = 1.0, data_dir: str | None = None):
    """A tensorflow-datasets builder of a rescaled data set; `data_dir` is where it prepares.

    The same as `tfds.builder("rescaled_cifar10/size_1p000")` after `import
    gdn_keras.datasets.builders`.
    """
    import tensorflow_datasets as tfds

    from gdn_keras.datasets import builders
    from gdn_keras.datasets.rescaled import rescaled_sets

    sets = rescaled_sets()
    if name not in sets:
        raise ValueError(f"`name` must be one of {tuple(sets)}. Received: name={name!r}.")
    config = builders.config_name(sets[name].sizes.check(size_factor))
    return tfds.builder(f"{name}/{config}", data_dir=data_dir)
