"""A page that runs networks in the browser: `python -m export page`, and `space` for the Hub.

`index.html`, `page.js`, `worker.js` and `style.css` are copied as they are; `build.py` adds the
networks, the samples and onnxruntime-web. What is needed before Keras is loaded is here.
"""

from __future__ import annotations

from collections.abc import Sequence

from gdn_keras import zoo
from gdn_keras.datasets.rescaled import rescaled_sets
from gdn_keras.zoo.records import ModelInfo

DEFAULT_NAMES = ("fashion_single_2jet", "fashion_avg_2jet", "cifar_avg_2jet_mirror")


def choose(names: Sequence[str]) -> list[ModelInfo]:
    """The records of the networks of a page; rejects those that the page could not show."""
    infos = [zoo.info(name) for name in names]
    for name, info in zip(names, infos, strict=True):
        if info.dataset not in rescaled_sets():
            raise ValueError(
                f"`names` must be networks of {tuple(rescaled_sets())}, whose images the page can "
                f"resize. Received: {name}, of {info.dataset!r}."
            )
        height, width = rescaled_sets()[info.dataset].image_size
        if info.config.input_size != (height, width):
            raise ValueError(
                f"`names` must be networks for the images of their data set, {height}x{width}. "
                f"Received: {name}, input_size={info.config.input_size}."
            )
    labels = [info.name for info in infos]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"`names` must be different networks. Received twice: {twice}.")
    return infos
