"""The mathematics of Gaussian derivative networks: numpy and scipy only."""

from gdn_keras.scale_space.differences import JetTerm as JetTerm
from gdn_keras.scale_space.differences import difference_kernel as difference_kernel
from gdn_keras.scale_space.differences import difference_mask as difference_mask
from gdn_keras.scale_space.differences import directional_weights as directional_weights
from gdn_keras.scale_space.differences import jet_masks as jet_masks
from gdn_keras.scale_space.differences import jet_terms as jet_terms
from gdn_keras.scale_space.differences import mask_2d as mask_2d
from gdn_keras.scale_space.differences import scale_normalisation as scale_normalisation
from gdn_keras.scale_space.kernels import HYBRID_METHODS as HYBRID_METHODS
from gdn_keras.scale_space.kernels import METHODS as METHODS
from gdn_keras.scale_space.kernels import derivative_kernel as derivative_kernel
from gdn_keras.scale_space.kernels import smoothing_kernel as smoothing_kernel
from gdn_keras.scale_space.kernels import truncation_radius as truncation_radius
from gdn_keras.scale_space.plan import PADDINGS as PADDINGS
from gdn_keras.scale_space.plan import SELECTIONS as SELECTIONS
from gdn_keras.scale_space.plan import ChannelPlan as ChannelPlan
from gdn_keras.scale_space.plan import LayerPlan as LayerPlan
from gdn_keras.scale_space.plan import Smoothing as Smoothing
from gdn_keras.scale_space.plan import plan_channel as plan_channel
from gdn_keras.scale_space.plan import smoothing_matrix as smoothing_matrix
from gdn_keras.scale_space.scales import GeometricFit as GeometricFit
from gdn_keras.scale_space.scales import channel_scales as channel_scales
from gdn_keras.scale_space.scales import fit_geometric as fit_geometric
from gdn_keras.scale_space.scales import scale_levels as scale_levels
from gdn_keras.scale_space.spread import spatial_spread as spatial_spread
