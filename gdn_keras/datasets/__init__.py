"""The paper's data sets: Fashion-MNIST, CIFAR-10, their rescaled versions, and STIR.

From a folder of local files (`data_dir` or the environment variable GDN_KERAS_DATA), or downloaded
with tensorflow-datasets; a few images of each set come with the package (`load_samples`).
"""

from gdn_keras.datasets.arrays import Arrays as Arrays
from gdn_keras.datasets.batches import TrainingBatches as TrainingBatches
from gdn_keras.datasets.batches import as_dataset as as_dataset
from gdn_keras.datasets.batches import training_batches as training_batches
from gdn_keras.datasets.hdf5 import hdf5_size_factor as hdf5_size_factor
from gdn_keras.datasets.hdf5 import load_hdf5 as load_hdf5
from gdn_keras.datasets.make_stir import make_stir as make_stir
from gdn_keras.datasets.rescaled import NAMES as NAMES
from gdn_keras.datasets.rescaled import SIZE_FACTORS as SIZE_FACTORS
from gdn_keras.datasets.rescaled import load_arrays as load_arrays
from gdn_keras.datasets.resize import imresize as imresize
from gdn_keras.datasets.resize import rescale as rescale
from gdn_keras.datasets.samples import load_samples as load_samples
from gdn_keras.datasets.stir import load_stir as load_stir


def tfds_builder(name: str, *, size_factor: float = 1.0, data_dir: str | None = None):
    """A tensorflow-datasets builder of a rescaled data set; `data_dir` is where it prepares.

    The same as `tfds.builder("rescaled_cifar10/size_1p000")` after `import
    gdn_keras.datasets.builders`.
    """
    import tensorflow_datasets as tfds

    from gdn_keras.datasets import builders
    from gdn_keras.datasets.rescaled import RESCALINGS, check_size_factor

    if name not in RESCALINGS:
        raise ValueError(f"`name` must be one of {tuple(RESCALINGS)}. Received: name={name!r}.")
    config = builders.config_name(check_size_factor(size_factor))
    return tfds.builder(f"{name}/{config}", data_dir=data_dir)
