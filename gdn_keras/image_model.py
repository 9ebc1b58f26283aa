"""A Keras model that checks the images it is given, on every backend."""

from __future__ import annotations

import numbers

import keras
import numpy as np

from gdn_keras.utils.pixels import check_pixels

# what Keras makes arrays of, and what is no data at all
_PLAIN = (*(list, tuple, dict, set, range, str, bytes), numbers.Number, np.ndarray, np.generic)


@keras.saving.register_keras_serializable(package="gdn_keras")
class ImageModel(keras.Model):
    """A functional model that accepts images of its own shape only, and says so.

    Pixels must be real, finite numbers. This is checked where they are seen before a backend has
    them: in arrays, not in data sets.
    """

    def __call__(self, inputs, *args, **kwargs):
        self._check_images(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def fit(self, x=None, *args, **kwargs):
        self._check_arrays(x)
        return super().fit(x, *args, **kwargs)

    def evaluate(self, x=None, *args, **kwargs):
        self._check_arrays(x)
        return super().evaluate(x, *args, **kwargs)

    def predict(self, x, *args, **kwargs):
        self._check_arrays(x)
        return super().predict(x, *args, **kwargs)

    def predict_on_batch(self, x):
        self._check_arrays(x)
        return super().predict_on_batch(x)

    def _check_arrays(self, images) -> None:
        """Of what Keras takes data from, all but data sets, generators and tensors."""
        has_items = hasattr(images, "__iter__") or hasattr(images, "__getitem__")
        if isinstance(images, _PLAIN) or not has_items:
            self._check_images(images)

    def _check_images(self, images) -> None:
        if isinstance(images, dict) and len(images) == 1:
            (images,) = images.values()
        elif isinstance(images, (list, tuple)):
            images = _one_of(images)
        expected, shape = self.input_shape, _shape_of(images)
        if isinstance(images, _PLAIN):
            check_pixels(images)
        if shape is None or len(shape) != 4 or shape[1:] != expected[1:]:
            raise ValueError(_wrong_shape(expected, shape))


def _one_of(images):
    """What is in a list of one input, as Keras takes it; it would take more as several inputs."""
    if len(images) == 1 and len(getattr(images[0], "shape", ())) == 4:
        return images[0]
    raise ValueError(
        "Images must be one array of shape (batch, height, width, channels); `np.stack(images)` "
        f"makes one of arrays of the same shape. Received: a {type(images).__name__} of "
        f"{len(images)}."
    )


def _shape_of(images) -> tuple[int | None, ...] | None:
    """None if TensorFlow has forgotten it, since earlier images had another number of axes."""
    try:
        return tuple(getattr(images, "shape", None) or np.shape(images))
    except ValueError:
        return None


def _wrong_shape(expected, received) -> str:
    height, width, channels = expected[1:]
    text = (
        "Images must have the shape (batch, height, width, channels) = "
        f"(batch, {height}, {width}, {channels}). "
    )
    if received is None:
        return f"{text}Received: another number of axes."
    text += f"Received: {received}"
    if None in received[1:]:
        text += ", where None is a number that differs from that of earlier images"
    if len(received) == 3:
        missing = "[None]" if received[-1] == channels else "[..., None]"
        return f"{text}. An axis is missing: `images{missing}` adds it."
    if received[1:] == (channels, height, width):
        return f"{text}. `np.moveaxis(images, 1, -1)` moves the channels to the end."
    if len(received) == 4 and received[3] not in (channels, None):
        return f"{text}. `gdn_keras.adapt` with `input_channels` changes between grey and colour."
    return (
        f"{text}. `input_size=(height, width)` in `gdn_keras.zoo.load` or `gdn_keras.adapt` makes "
        "a network for another size."
    )
