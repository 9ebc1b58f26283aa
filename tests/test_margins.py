"""How large a difference between networks must be before it counts."""

import dataclasses
import math

import numpy as np
import pytest
from report_tools import claim_with, curve, folder, recipe_of

from training import CHECKOUT
from training.reproduction.claims.claim import MUCH
from training.reproduction.claims.margins import (
    BEHIND,
    UNEVEN,
    UNEVEN_AWAY,
    beyond,
    images_after_split,
    margin,
    standard_error,
    uneven_training,
)
from training.reproduction.claims.verdicts import judge
from training.reproduction.zoo_results import MATCHED, ZooResults

SINGLE, MAX, AVERAGE = (f"fashion_{pooling}_2jet" for pooling in ("single", "max", "avg"))
CHANCE = 1.0  # ppt; more than two single runs on 10,000 images differ by chance, at 90 %
AWAY_CHANCE = 5.0  # the same away from size factor 1


def record(
    name: str, images: int | None, *ancestors: tuple[str, int | None], epochs: tuple = (20,)
) -> dict:
    """`ancestors` from the newest to the oldest, as in `recipe.json`; `epochs` of the stages."""
    older = [{"name": n, "seed": 0, "images": i} for n, i in ancestors]
    stages = [{"name": "together", "epochs": n} for n in epochs]
    return recipe_of(name) | {"images_seen": images, "ancestors": older, "stages": stages}


def pair(at_avg: dict, at_max: dict, **records: dict) -> ZooResults:
    folders = {AVERAGE: folder(AVERAGE, at_avg), MAX: folder(MAX, at_max)}
    for name, changed in records.items():
        folders[name].recipe.update(changed)
    return ZooResults(folders)


# --- training ---


ALONE = record(SINGLE, 360_000)
AVERAGED = record(AVERAGE, 180_000, (SINGLE, 360_000), epochs=(0.5, 0.5, 2.0))
EARLY = record(MAX, 30_000, (AVERAGE, 60_000), (SINGLE, 360_000))  # of an unfinished average


@pytest.mark.parametrize(
    "first, second, images",
    [
        (ALONE, ALONE, (0, 0)),
        (AVERAGED, ALONE, (180_000, 0)),
        (EARLY, AVERAGED, (30_000, 120_000)),
        (AVERAGED, EARLY, (120_000, 30_000)),
        (EARLY, ALONE, (90_000, 0)),
        (record(AVERAGE, 500_000), ALONE, (500_000, 360_000)),  # from scratch
        (ALONE | {"seed": 1}, ALONE, (360_000, 360_000)),
        # the single network was trained again, longer: in one stage, then in stages of which the
        # first may be what the others started from (two batches are missing)
        (AVERAGED, record(SINGLE, 1_920_000, epochs=(32,)), (540_000, 1_920_000)),
        (EARLY, record(SINGLE, 1_920_000, epochs=(32,)), (450_000, 1_920_000)),
        (AVERAGED, record(SINGLE, 1_919_940, epochs=(6, 26)), (180_000, 1_559_940)),
        (EARLY, record(AVERAGE, 180_000, (SINGLE, 360_000), epochs=(3,)), (90_000, 180_000)),
        (EARLY, record(AVERAGE, 180_000, (SINGLE, 300_000)), (450_000, 480_000)),  # not known
        (record(MAX, 9, (SINGLE, None)), ALONE, None),  # unknown
        (record(MAX, None), ALONE, None),
    ],
)
def test_images_after_the_split_by_hand(first, second, images):
    assert images_after_split(first, second) == images


def test_what_is_even_training():
    flat = curve(0.9, 0.9, 0.9)

    def telling(first: int, second: int) -> tuple[int, ...] | None:
        epochs = {"stages": [{"name": "single", "epochs": 2}]}  # so half of `first` is one epoch
        changes = {AVERAGE: {"images_seen": first} | epochs, MAX: {"images_seen": second} | epochs}
        uneven = uneven_training(AVERAGE, MAX, pair(flat, flat, **changes))
        return uneven and uneven.telling

    assert telling(120_000, 120_000) is None and telling(120_000, 81_000) is None
    assert telling(120_000, 79_000) == (-1,) and telling(79_000, 120_000) == (1,)
    started = {"ancestors": [{"name": AVERAGE, "seed": 0, "images": 1_200_000}]}
    results = pair(flat, flat, **{MAX: started | {"images_seen": 600_000}})
    uneven = uneven_training(MAX, AVERAGE, results)
    assert uneven.telling == (-1,)
    assert uneven.words.endswith("one started from the other and saw 600,000 images more")


def test_a_network_is_trained_as_evenly_as_itself():
    flat = curve(0.9, 0.9, 0.9)
    assert uneven_training(f"{MAX}{MATCHED}", MAX, pair(flat, flat)) is None


def test_less_than_an_epoch_is_uneven_training():
    flat = curve(0.9, 0.9, 0.9)
    less_than_an_epoch = {"images_seen": 20_000, "stages": [{"name": "together", "epochs": 0.5}]}
    siblings = {
        name: less_than_an_epoch | {"ancestors": [{"name": SINGLE, "seed": 0, "images": 360_000}]}
        for name in (MAX, AVERAGE)
    }
    assert uneven_training(MAX, AVERAGE, pair(flat, flat, **siblings)).telling == (1, -1)
    # as many images as the rival, but next to none of them as the network that it is
    siblings[MAX]["ancestors"][0] = {"name": "another", "seed": 0, "images": 400_000}
    siblings[AVERAGE] = {"images_seen": 400_000, "ancestors": []}
    assert uneven_training(MAX, AVERAGE, pair(flat, flat, **siblings)).telling == (1,)


def test_transferred_networks_are_not_unevenly_trained():
    """That one of the two is not trained is what the claims about them are about."""
    name = f"{MAX}_transfer"
    results = ZooResults({n: folder(n, curve(0.9, 0.9, 0.9)) for n in (name, MAX)})
    results.folders[name].recipe["images_seen"] = 0
    assert uneven_training(name, MAX, results) is None


def test_kernels_trained_on_coarse_grids_are_not_compared_on_every_pixel():
    """Hybrids lose ten points there on CIFAR-10, which says nothing against their kernels."""
    one = {"1.000": 0.80}

    def needed(first: str, second: str, *, density: float | None) -> float:
        folders = {name: folder(name, one) for name in (first, second)}
        for name, made in folders.items():
            config = made.config.replace(sampling_density=density)
            metrics = dataclasses.replace(made.metrics, sampling_density=density)
            metrics = dataclasses.replace(metrics, exact_accuracy=one)
            folders[name] = dataclasses.replace(made, config=config, metrics=metrics)
        return margin(first, second, ZooResults(folders).on_every_pixel(), [1.0], 1.0)

    hybrid, derivatives = "cifar32_discrete_s1p00", "cifar32_sampled_derivative_s1p00"
    assert needed(hybrid, derivatives, density=0.7) == math.inf
    assert needed(hybrid, derivatives, density=None) < math.inf
    assert needed(hybrid, "cifar32_discrete_s0p50", density=0.7) < math.inf


# --- chance ---


@pytest.mark.parametrize("accuracy, images", [(92.0, 10_000), (50.0, 400), (99.0, 3000)])
def test_standard_error_is_that_of_a_binomial(accuracy, images):
    draws = np.random.default_rng(0).binomial(images, accuracy / 100, 20_000) / images * 100
    assert standard_error(accuracy, images) == pytest.approx(draws.std(), rel=0.05)
    assert standard_error(100.0, 36) > 1.0  # 36 of 36 do not make a network perfect


def test_differences_by_chance_are_smaller_than_the_margin():
    """Pairs of networks of equal quality: at most 5 % of their differences count."""
    rng = np.random.default_rng(0)
    flat = curve(0.9, 0.9, 0.9)
    needed = margin(AVERAGE, MAX, pair(flat, flat), [1.0], 1.0)
    assert 0.8 < needed < CHANCE
    accuracies = 100 * rng.binomial(10_000, 0.9, (20_000, 2)) / 10_000
    count = [beyond(a - b, needed) is not None for a, b in accuracies]
    assert 0.005 < np.mean(count) < 0.05


def test_small_differences_are_inconclusive_on_either_side():
    at_two = claim_with("marginally better than average pooling at size factor 2")
    at_one = dataclasses.replace(at_two, size_factors=(1.0,))
    for claim, chance in ((at_two, AWAY_CHANCE), (at_one, CHANCE)):
        for gain, verdict in (
            (-1.3 * chance, "not reproduced"),
            (-chance / 2, "inconclusive"),
            (0.0, "inconclusive"),
            (chance / 2, "inconclusive"),
            (2 * CHANCE, "reproduced" if claim is at_one else "inconclusive"),
            (MUCH + 1.3 * chance, "not reproduced"),  # not marginally
        ):
            better = curve(0.8, 0.8 + gain / 100, 0.8 + gain / 100)
            assert judge(claim, pair(curve(0.8, 0.8, 0.8), better)).verdict == verdict, gain


@pytest.mark.parametrize("size, needed", [(1.0, UNEVEN), (2.0, UNEVEN_AWAY)])
def test_what_uneven_training_says_depends_on_which_network_is_better(size, needed):
    """Of the two, max pooling is trained less: it started from average pooling, or vice versa."""
    claim = claim_with("marginally better than average pooling at size factor 2")
    claim = dataclasses.replace(claim, size_factors=(size,), high=None)
    parent = {"ancestors": [{"name": AVERAGE, "seed": 0, "images": 1_200_000}]}
    child = {"ancestors": [{"name": MAX, "seed": 0, "images": 1_200_000}]}
    flat = curve(0.7, 0.7, 0.7)
    for gain, even, parents, childs in (
        (-needed - 0.1, "not reproduced", "not reproduced", "inconclusive"),
        (needed - 0.1, "reproduced", "inconclusive", "inconclusive"),
        (needed + 0.1, "reproduced", "inconclusive", "reproduced"),
        (BEHIND * needed - 0.1, "reproduced", "inconclusive", "reproduced"),
        (BEHIND * needed + 0.1, "reproduced", "reproduced", "reproduced"),
        (0.1 - BEHIND * needed, "not reproduced", "not reproduced", "inconclusive"),
        (-0.1 - BEHIND * needed, "not reproduced", "not reproduced", "not reproduced"),
    ):
        curves = flat, curve(0.7, 0.7 + gain / 100, 0.7 + gain / 100)
        assert judge(claim, pair(*curves)).verdict == even
        judgement = judge(claim, pair(*curves, **{MAX: parent}))
        assert judgement.verdict == parents
        assert "saw 1,200,000 images more" in judgement.extent
        assert judge(claim, pair(*curves, **{AVERAGE: child})).verdict == childs


def test_a_mean_over_sizes_is_no_surer_than_one_size():
    """The test images are the same at all sizes."""
    results = pair(curve(0.9, 0.9, 0.9), curve(0.9, 0.9, 0.9))
    away = [size for size in results.accuracies[MAX] if size != 1]
    assert margin(MAX, AVERAGE, results, away, 1.0) == pytest.approx(
        margin(MAX, AVERAGE, results, [2.0], 1.0)
    )
    assert margin(MAX, AVERAGE, results, [1.0, *away], 1.0) > margin(
        MAX, AVERAGE, results, [1.0], 1.0
    )


def test_multi_scale_networks_of_the_zoo_that_were_trained_less():
    """They are worse at the training size, which says nothing, and better away from it."""
    results = ZooResults.read(CHECKOUT / "zoo")
    worse, better = "cifar_single_2jet", ("cifar_max_2jet", "cifar_avg_2jet")
    tells = [uneven_training(name, worse, results) for name in better]
    if all(uneven and uneven.telling == (1,) for uneven in tells):  # until they are trained again
        words = "the single-scale-channel network is slightly worse"
        assert judge(claim_with(words, "6.3"), results).verdict == "inconclusive"
        words = "are much better than the single-scale"
        assert judge(claim_with(words, "6.3"), results).verdict == "reproduced"
