from itertools import product

import numpy as np
import pytest

from gdn_keras.datasets.stir import STIR_SIZES
from training.recipes import RECIPES
from training.reproduction.baselines import DATASETS, MODELS, SCENARIOS, stir_baseline


@pytest.mark.parametrize("model, dataset, sizes", list(product(MODELS, DATASETS, SCENARIOS)))
def test_every_curve_covers_all_sizes_and_is_best_near_the_training_sizes(model, dataset, sizes):
    curve = stir_baseline(model, dataset=dataset, train_sizes=sizes)
    np.testing.assert_array_equal(curve.sizes, np.arange(17, 65))
    assert curve.mean.shape == curve.std.shape == (48,)
    assert np.all((0 <= curve.mean) & (curve.mean <= 100)) and np.all(curve.std >= 0)
    assert curve.runs >= 25
    first, last = STIR_SIZES.ranges[sizes]
    trained = (first <= curve.sizes) & (curve.sizes <= last)
    far = abs(curve.sizes - (first + last) / 2) > 16
    assert curve.mean[trained].mean() > curve.mean[far].mean()


def test_one_number_of_each_column():
    # first line of the file: disco,aerial,1,17,78.9689,1.9906,25
    curve = stir_baseline("DISCO", dataset="stir_aerial", train_sizes="small")
    assert (curve.sizes[0], curve.mean[0], curve.std[0]) == (17, 78.9689, 1.9906)
    assert curve.runs == 25


def test_names_are_those_of_the_recipes():
    in_recipes = {r.dataset for r in RECIPES.values() if r.dataset.startswith("stir_")}
    assert in_recipes - {"stir_gtsrb"} <= set(DATASETS)
    assert set(SCENARIOS) == set(STIR_SIZES.ranges)


def test_unknown_names():
    with pytest.raises(ValueError, match="`model` must be one of SESN, .* Received: model='sesn'"):
        stir_baseline("sesn", dataset="stir_sign", train_sizes="mid")
    with pytest.raises(ValueError, match="`dataset` must be .* Received: dataset='stir_gtsrb'"):
        stir_baseline("SESN", dataset="stir_gtsrb", train_sizes="mid")
    with pytest.raises(
        ValueError, match="`train_sizes` must be one of small, mid, large.*'medium'"
    ):
        stir_baseline("SESN", dataset="stir_sign", train_sizes="medium")
