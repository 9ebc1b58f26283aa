"""The paper's data sets: Fashion-MNIST, CIFAR-10, their rescaled versions, and STIR."""

from gdn_keras.datasets.arrays import Arrays as Arrays
from gdn_keras.datasets.batches import TrainingBatches as TrainingBatches
from gdn_keras.datasets.batches import as_dataset as as_dataset
from gdn_keras.datasets.batches import training_batches as training_batches
from gdn_keras.datasets.make_stir import make_stir as make_stir
from gdn_keras.datasets.rescaled import NAMES as NAMES
from gdn_keras.datasets.rescaled import SIZE_FACTORS as SIZE_FACTORS
from gdn_keras.datasets.rescaled import load_arrays as load_arrays
from gdn_keras.datasets.resize import imresize as imresize
from gdn_keras.datasets.resize import rescale as rescale
from gdn_keras.datasets.stir import load_stir as load_stir
