"""Parameters and multiply-adds of a network: those of the paper, of the model, and by hand."""

import numpy as np
import pytest
from helpers import small_model

from gdn_keras import GaussDerNetConfig, build_model
from gdn_keras.counts import count_multiply_adds, count_parameters
from training import recipes


@pytest.mark.parametrize("data, paper", [("fashion", 146_112), ("cifar", 430_464)])
def test_parameter_counts_of_the_paper(data, paper):
    config = recipes.get(f"{data}_avg_2jet").config
    assert count_parameters(config, as_paper=True) == paper
    widths = (config.input_channels, *config.layer_widths)
    pairs = sum(a * b for a, b in zip(widths, widths[1:], strict=False))
    assert 6 * pairs == paper
    trainable = sum(int(np.prod(w.shape)) for w in build_model(config).trainable_weights)
    # five coefficients per pair, and of batch norm a factor and an offset per feature
    assert trainable == count_parameters(config) == 5 * pairs + 2 * sum(config.layer_widths)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 3},
        {"zero_order": True},
        {"final_batch_norm": False},
        {"learned_sigmas": True},
        {"scale_dropout": 0.2},
    ],
)
def test_parameter_count_is_that_of_the_model(changes):
    model = small_model(**changes)
    trainable = sum(int(np.prod(w.shape)) for w in model.trainable_weights)
    assert count_parameters(model.config) == trainable


def test_multiply_adds():
    """Two layers and one scale channel, by hand: 5 x 5 image, sigma 1, kernels of 7 weights."""
    config = GaussDerNetConfig(
        input_size=(5, 5),
        input_channels=2,
        num_classes=3,
        channel_sigmas=(1.0,),
        sigma_ratio=1.0,
        widths=(4,),
        spatial_selection="max",
    )
    smoothing = 7 * 5 * 5 + 7 * 7 * 5  # one more sample on either side, for the differences
    everywhere = 2 * smoothing + 9 * 25 * 2 * 4 + 4 * smoothing + 9 * 25 * 4 * 3
    assert count_multiply_adds(config) == everywhere
    centre = config.replace(spatial_selection="centre")
    ours = 2 * smoothing + 9 * 25 * 2 * 4 + 4 * (3 * 5 * 5 + 3 * 3 * 5) + 9 * 4 * 3
    assert count_multiply_adds(centre) == ours
    for same in (config, centre, config.replace(sampling_density=0.5)):
        assert count_multiply_adds(same, dense=True) == everywhere


@pytest.mark.parametrize("density", [None, 2**-0.5])
def test_a_plan_never_costs_more_than_every_pixel(density):
    for name, recipe in recipes.RECIPES.items():
        config = recipe.config.replace(sampling_density=density)
        assert count_multiply_adds(config) <= count_multiply_adds(config, dense=True), name
