"""Gaussian derivative networks for Keras 3: image classifiers that are scale-covariant."""

from typing import TYPE_CHECKING

from gdn_keras.utils import cpu
from gdn_keras.utils import deprecation as deprecation
from gdn_keras.utils import quiet as quiet  # before TensorFlow is loaded
from gdn_keras.version import __version__ as __version__

cpu.avoid_broken_amx()

# At once, because `keras.saving.load_model` finds only classes that are registered already. But a
# command line imports what it needs, and most answers need no Keras.
if TYPE_CHECKING or not quiet.is_command_line():
    from gdn_keras import zoo as zoo
    from gdn_keras.config import GaussDerNetConfig as GaussDerNetConfig
    from gdn_keras.features import without_top as without_top
    from gdn_keras.model import GaussDerNet as GaussDerNet
    from gdn_keras.model import adapt as adapt
    from gdn_keras.model import at_scale as at_scale
    from gdn_keras.model import build_model as build_model
    from gdn_keras.model import fold as fold
    from gdn_keras.optimizer import ScaleAdamW as ScaleAdamW
    from gdn_keras.zoo.classifier import ImageClassifier as ImageClassifier
