"""The mathematics as Keras layers; `keras.ops` only, so every backend runs them."""

from gdn_keras.layers.jet import Clamp as Clamp
from gdn_keras.layers.jet import JetLayer as JetLayer
from gdn_keras.layers.normalisation import ScaleBatchNormalization as ScaleBatchNormalization
from gdn_keras.layers.pixels import PixelScaling as PixelScaling
from gdn_keras.layers.resampling import CommonGrid as CommonGrid
from gdn_keras.layers.selection import ScaleChannelDropout as ScaleChannelDropout
from gdn_keras.layers.selection import ScalePooling as ScalePooling
from gdn_keras.layers.selection import SpatialSelection as SpatialSelection
