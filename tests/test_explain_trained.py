"""What explain says about trained networks; runs as soon as the zoo has them."""

from pathlib import Path

import numpy as np
import pytest

from gdn_keras import zoo
from gdn_keras.datasets import load_samples
from gdn_keras.explain import localise, scale_contributions

ZOO = Path(__file__).parent.parent / "zoo"


def trained(*names: str):
    """The first of these networks that the zoo has."""
    for name in names:
        if (ZOO / name).is_dir():
            return zoo.load(ZOO / name)
    pytest.skip(f"the zoo has none of {', '.join(names)} yet")


DISTINCT = ("trouser", "dress", "sandal", "sneaker", "bag", "ankle boot")  # rarely confused


def garments_found(model, *, canvases: int = 12) -> int:
    """In how many canvases with two garments both have their class, place and order of sizes."""
    large, small = (load_samples("rescaled_fashion_mnist", size_factor=s) for s in (2.0, 1.0))
    usable = np.flatnonzero([large.class_names[k] in DISTINCT for k in large.labels])
    rng = np.random.default_rng(0)
    both = 0
    for _ in range(canvases):
        first, second = rng.choice(usable, 2, replace=False)
        canvas = np.concatenate([large.images[first], small.images[second]], axis=1)
        found = localise(model, canvas, max_objects=2)
        if len(found) == 2:
            left, right = sorted(found, key=lambda detection: detection.column)
            both += (
                left.column < 72 <= right.column
                and left.class_index == large.labels[first]
                and right.class_index == small.labels[second]
                and left.sigma > right.sigma
            )
    return both


@pytest.mark.heavy
def test_a_trained_network_finds_two_garments():
    # networks trained on centred objects only see much where there is nothing
    names = "fashion_translated_max_2jet", "fashion_translated_avg_2jet"
    assert garments_found(trained(*names)) > 6  # most of 12


@pytest.mark.heavy
def test_enlarging_by_two_moves_a_trained_network_two_channels_up():
    model = trained("fashion_max_2jet")
    channels = np.arange(len(model.config.channel_sigmas))
    means = [
        scale_contributions(
            model, load_samples("rescaled_fashion_mnist", size_factor=s).images
        ).mean(axis=0)
        @ channels
        for s in (1.0, 2.0)
    ]
    assert means[1] - means[0] == pytest.approx(2, abs=0.6)
