"""The networks that `gdn_keras.zoo.load` returns: they take image files, too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from gdn_keras import datasets
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.model import GaussDerNet
from gdn_keras.utils.image_files import convert_image
from gdn_keras.utils.pixels import in_pixel_range

if TYPE_CHECKING:
    from gdn_keras.classify import Prediction


@keras.saving.register_keras_serializable(package="gdn_keras")
class ImageClassifier(GaussDerNet):
    """A network that also fits images to its input: `classify` takes files and arrays of any size.

    Args:
        config, *outputs: as for `GaussDerNet`.
        dataset: what it was trained on, one of `gdn_keras.datasets.names()`; `classify` gives
            objects the size that they have there. Otherwise images fill the network's input.
        train_sizes: for STIR, the name of a range of object sizes.
        **kwargs: as for `GaussDerNet`.
    """

    def __init__(
        self,
        config: GaussDerNetConfig | dict,
        *outputs,
        dataset: str | None = None,
        train_sizes: str | None = None,
        **kwargs,
    ):
        super().__init__(config, *outputs, **kwargs)
        settings = self.get_layer("pixels").network  # where a clone finds them
        if not outputs:
            settings.update({"dataset": dataset, "train_sizes": train_sizes})
        self.dataset = settings["dataset"]
        self.train_sizes = settings["train_sizes"]

    def classify(
        self, images: Any, *, top: int = 3, fit: str | None = None
    ) -> Prediction | list[Prediction]:
        """The best classes of an image, and which scale channel decided; a list for a list.

        >>> model.classify("photo.jpg").classes[0]      # index, name, probability
        >>> model.classify(["a.png", "b.png"])          # one `Prediction` each

        Args:
            images: the path of an image file, a Pillow image, or pixels of shape (height, width,
                colour) or (height, width), uint8 or in the network's `pixel_range`; or several
                of them, as a list or as an array of four axes. An image of the network's input
                size is only made grey or colour; all else is fitted.
            top: how many classes.
            fit: how images are fitted, one of `gdn_keras.classify.FITS`. Default: "trained" if
                the network's data set is known, otherwise "contain".
        """
        from gdn_keras.classify import classify

        several = isinstance(images, (list, tuple)) or getattr(images, "ndim", 0) == 4
        fit = fit or ("trained" if self.dataset in datasets.names() else "contain")
        pixels = [self._fitted(image, fit) for image in (images if several else [images])]
        shape = (len(pixels), *self.config.input_size, self.config.input_channels)
        predictions = classify(self, np.reshape(pixels, shape), top=top)
        return predictions if several else predictions[0]

    def _fitted(self, image, fit: str) -> np.ndarray:
        from PIL import Image

        from gdn_keras.classify import read_image

        if isinstance(image, Image.Image):
            image = convert_image(image, "image", [], mode=None)
        if not isinstance(image, (str, os.PathLike)):
            image = np.asarray(image)
            pixels = image[..., None] if image.ndim == 2 else image
            if pixels.shape[:2] == self.config.input_size:
                if pixels.shape[2:] == (self.config.input_channels,):
                    return self._in_range(pixels)
                fit = "original"  # only its colours are changed
        trained = {"dataset": self.dataset, "train_sizes": self.train_sizes}
        return self._in_range(read_image(image, config=self.config, fit=fit, **trained).pixels)

    def _in_range(self, pixels: np.ndarray) -> np.ndarray:
        """Raw pixels as the network takes them; other arrays are taken to be in its range."""
        if pixels.dtype != np.uint8:
            return pixels
        return in_pixel_range(pixels[None], self.config.pixel_range)[0]

    def get_config(self):
        trained = {"dataset": self.dataset, "train_sizes": self.train_sizes}
        return {**super().get_config(), **trained}
