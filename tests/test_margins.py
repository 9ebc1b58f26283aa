"""How large a difference between networks must be before it counts."""

import dataclasses
import math
import re

import numpy as np
import pytest
from report_tools import claim_with, curve, folder, recipe_of

from training import CHECKOUT
from training.reproduction.claims.claim import MUCH
from training.reproduction.claims.margins import (
    UNEVEN,
    beyond,
    images_after_split,
    margin,
    standard_error,
    uneven_training,
)
from training.reproduction.claims.statements import CLAIMS
from training.reproduction.claims.verdicts import judge
from training.reproduction.zoo_results import ZooResults

SINGLE, MAX, AVERAGE = (f"fashion_{pooling}_2jet" for pooling in ("single", "max", "avg"))
CHANCE = 1.0  # ppt; more than two single runs on 10,000 images differ by chance, at 90 %


def record(name: str, images: int | None, *ancestors: tuple[str, int | None]) -> dict:
    """`ancestors` from the newest to the oldest, as in `recipe.json`."""
    older = [{"name": n, "seed": 0, "images": i} for n, i in ancestors]
    return recipe_of(name) | {"images_seen": images, "ancestors": older}


def pair(at_avg: dict, at_max: dict, **records: dict) -> ZooResults:
    folders = {AVERAGE: folder(AVERAGE, at_avg), MAX: folder(MAX, at_max)}
    for name, changed in records.items():
        folders[name].recipe.update(changed)
    return ZooResults(folders)


# --- training ---


ALONE = record(SINGLE, 360_000)
AVERAGED = record(AVERAGE, 180_000, (SINGLE, 360_000))
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
        (record(MAX, 9, (SINGLE, None)), ALONE, None),  # unknown
        (record(MAX, None), ALONE, None),
    ],
)
def test_images_after_the_split_by_hand(first, second, images):
    assert images_after_split(first, second) == images


def test_what_is_even_training():
    flat = curve(0.9, 0.9, 0.9)

    def uneven(first: int, second: int) -> bool:
        epochs = {"stages": [{"name": "single", "epochs": 2}]}  # so half of `first` is one epoch
        changes = {AVERAGE: {"images_seen": first} | epochs, MAX: {"images_seen": second} | epochs}
        return bool(uneven_training(AVERAGE, MAX, pair(flat, flat, **changes)))

    assert not uneven(120_000, 120_000) and not uneven(120_000, 60_000)
    assert uneven(120_000, 59_000) and uneven(59_000, 120_000)
    started = {"ancestors": [{"name": AVERAGE, "seed": 0, "images": 1_200_000}]}
    results = pair(flat, flat, **{MAX: started | {"images_seen": 600_000}})
    assert re.search("600,000 against 0 images", uneven_training(MAX, AVERAGE, results))


def test_less_than_an_epoch_is_uneven_training():
    flat = curve(0.9, 0.9, 0.9)
    less_than_an_epoch = {"images_seen": 20_000, "stages": [{"name": "together", "epochs": 0.5}]}
    siblings = {
        name: less_than_an_epoch | {"ancestors": [{"name": SINGLE, "seed": 0, "images": 360_000}]}
        for name in (MAX, AVERAGE)
    }
    assert uneven_training(MAX, AVERAGE, pair(flat, flat, **siblings))


def test_transferred_networks_are_not_unevenly_trained():
    """That one of the two is not trained is what the claims about them are about."""
    name = f"{MAX}_transfer"
    results = ZooResults({n: folder(n, curve(0.9, 0.9, 0.9)) for n in (name, MAX)})
    results.folders[name].recipe["images_seen"] = 0
    assert uneven_training(name, MAX, results) == ""


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
        return margin(first, second, ZooResults(folders).on_every_pixel(), [1.0])

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
    needed = margin(AVERAGE, MAX, pair(flat, flat), [1.0])
    assert 0.8 < needed < CHANCE
    accuracies = 100 * rng.binomial(10_000, 0.9, (20_000, 2)) / 10_000
    count = [beyond(a - b, needed) is not None for a, b in accuracies]
    assert 0.005 < np.mean(count) < 0.05


def test_small_differences_are_inconclusive_on_either_side():
    claim = claim_with("marginally better than average pooling at size factor 2")
    flat = curve(0.9, 0.9, 0.9)
    for gain, verdict in (
        (-2 * CHANCE, "not reproduced"),
        (-CHANCE / 2, "inconclusive"),
        (0.0, "inconclusive"),
        (CHANCE / 2, "inconclusive"),
        (2 * CHANCE, "reproduced"),
        (5 + 2 * CHANCE, "not reproduced"),  # not marginally
    ):
        at_two = 0.9 + gain / 100
        assert judge(claim, pair(flat, curve(0.9, 0.9, at_two))).verdict == verdict, gain


def test_uneven_training_needs_more():
    claim = claim_with("marginally better than average pooling at size factor 2")
    started = {"ancestors": [{"name": AVERAGE, "seed": 0, "images": 1_200_000}]}
    flat = curve(0.9, 0.9, 0.9)
    for gain, even, verdict in (
        (-2 * CHANCE, "not reproduced", "inconclusive"),
        (2 * CHANCE, "reproduced", "inconclusive"),
        (-UNEVEN - 0.1, "not reproduced", "not reproduced"),
    ):
        curves = flat, curve(0.9, 0.9, 0.9 + gain / 100)
        assert judge(claim, pair(*curves)).verdict == even
        judgement = judge(claim, pair(*curves, **{MAX: started}))
        assert judgement.verdict == verdict
        assert "1,200,000 against 0 images" in judgement.extent


def test_a_mean_over_sizes_is_no_surer_than_one_size():
    """The test images are the same at all sizes."""
    results = pair(curve(0.9, 0.9, 0.9), curve(0.9, 0.9, 0.9))
    sizes = list(results.accuracies[MAX])
    assert margin(MAX, AVERAGE, results, sizes) == pytest.approx(
        margin(MAX, AVERAGE, results, [1.0])
    )


def test_short_warm_starts_of_the_zoo_settle_nothing():
    """Differences that uneven training can make are neither praise nor blame."""
    results = ZooResults.read(CHECKOUT / "zoo")
    for claim in CLAIMS:
        pairs = list(zip(claim.models, claim.rivals, strict=bool(claim.rivals)))
        if not pairs or not all({*p} <= results.folders.keys() for p in pairs):
            continue
        if all(uneven_training(*p, results) for p in pairs) and claim.high == MUCH:
            judged = judge(claim, results)
            differences = re.findall(r"[+-]\d+\.\d+", judged.ours)
            if all(abs(float(ppt)) < UNEVEN for ppt in differences):
                assert judged.verdict == "inconclusive", claim.text
