"""The maps of all scale channels on one grid."""

import keras
from keras import ops

from gdn_keras.layers.smoothing import apply_columns, apply_rows
from gdn_keras.scale_space.plan import Grid, interpolation


@keras.saving.register_keras_serializable(package="gdn_keras")
class CommonGrid(keras.layers.Layer):
    """Resample the maps of all scale channels to the pixels of the image, and stack them.

    Takes a list of (batch, rows, columns, class), one per scale channel, on centred grids, and
    returns (batch, height, width, scale channel, class). Maps are interpolated linearly, so those
    that are on all pixels stay as they are; beyond its outermost samples, a map is constant.

    Args:
        size: height and width of the image in pixels.
        spacings: distance of the samples in pixels, one for each scale channel.
    """

    def __init__(self, size, *, spacings, **kwargs):
        super().__init__(**kwargs)
        self.size = tuple(size)
        self.spacings = tuple(spacings)

    def build(self, input_shape):
        if not isinstance(input_shape[0], (list, tuple)) or len(input_shape) != len(self.spacings):
            raise ValueError(
                f"`inputs` must be a list of {len(self.spacings)} maps, one per scale channel. "
                f"Received: shape {input_shape}."
            )
        self.sizes = [tuple(shape[1:3]) for shape in input_shape]

    def matrices(self):
        """For each scale channel: A and B with A x B' = the pixels of map x; None if they are x."""
        for sizes, spacing in zip(self.sizes, self.spacings, strict=True):
            grids = [Grid(count, spacing) for count in sizes], [Grid(count) for count in self.size]
            yield None if grids[0] == grids[1] else tuple(map(interpolation, *grids))

    def call(self, inputs):
        maps = []
        for tensor, matrices in zip(inputs, self.matrices(), strict=True):
            if matrices is not None:
                rows, columns = map(ops.convert_to_tensor, matrices)
                tensor = apply_columns(apply_rows(tensor, rows), columns)
            maps.append(tensor)
        return ops.stack(maps, axis=3)

    def compute_output_shape(self, input_shape):
        return (input_shape[0][0], *self.size, len(input_shape), input_shape[0][-1])

    def get_config(self):
        return {**super().get_config(), "size": self.size, "spacings": self.spacings}
