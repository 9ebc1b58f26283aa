"""Checks of the claims about filters and maps, from the weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gdn_keras import zoo

from ...recipes import RECIPES
from ..zoo_results import ZooResults
from .claim import Check, Claim
from .margins import ERRORS, beyond

if TYPE_CHECKING:
    from gdn_keras.model import GaussDerNet

RESEMBLES = 0.9  # correlation
LOWEST, HIGHER = (1, 2), (4, 5, 6)  # layers
DRAWS = 5
RELIABLY, LOCATED = 0.9, 20
RULES = {
    "resemble": f"a correlation of at least {RESEMBLES:g}, over all filters of a layer; lowest and "
    f"higher layers: {LOWEST[0]} to {LOWEST[-1]} and {HIGHER[0]} to {HIGHER[-1]}; by chance: with "
    f"random coefficients of the same deviations, {DRAWS} draws, beyond {ERRORS} deviations of "
    "which a difference counts; more complex: fewer resemble a derivative, by more than by chance. "
    "This is the fourth form of the check, and the results of the others were known: the ten "
    "strongest filters of a layer, all filters without a comparison with chance, one random draw",
    "concentrated at the centre": "like the Laplacian, which of all sums of derivatives up to "
    f"order 2 has the largest part at its central pixel; first layers: {LOWEST[0]} to {LOWEST[-1]}",
    "reliably localise": "the maximum of the last layer's maps, over space, scale channels and "
    "classes, lies in the smallest rectangle around the object, in at least "
    f"{100 * RELIABLY:g} % of the first {LOCATED} sample images at every size",
}


def has_weights(name: str, results: ZooResults) -> bool:
    return results.folders[name].weights_file.exists()


class Resembling(NamedTuple):
    """What the filters of a network resemble."""

    derivatives: list[float]  # per layer, share like a directional derivative
    laplacians: list[int]  # per layer, number like the Laplacian


def resembling(model: GaussDerNet) -> Resembling:
    from gdn_keras.filters import closest_derivatives

    shares, laplacians = [], []
    for layer in range(1, model.config.num_layers + 1):
        closest = closest_derivatives(model, layer=layer)
        alike = np.abs(closest.correlation) >= RESEMBLES
        laplacian = closest.kind == "laplacian"
        shares.append(float(np.mean(alike & ~laplacian)))
        laplacians.append(int(np.sum(alike & laplacian)))
    return Resembling(shares, laplacians)


def randomise(model: GaussDerNet, *, seed: int) -> None:
    """Draw all coefficients at random; every derivative keeps its standard deviation.

    Sums of five derivatives often resemble one of them by chance.
    """
    import keras

    rng = np.random.default_rng(seed)
    for layer in range(1, model.config.num_layers + 1):
        kernel = model.get_layer(f"jet_{layer}").kernel
        values = keras.ops.convert_to_numpy(kernel)
        deviation = values.std(axis=tuple(range(1, values.ndim)), keepdims=True)
        kernel.assign(deviation * rng.normal(size=values.shape))


def _count(model: GaussDerNet) -> np.ndarray:
    """% like a derivative in the lowest and in the higher layers; number like the Laplacian in all
    layers and in the lowest."""
    found = resembling(model)
    shares = [np.mean([found.derivatives[k - 1] for k in part]) for part in (LOWEST, HIGHER)]
    central = sum(found.laplacians[k - 1] for k in LOWEST)
    return np.array([*(100 * share for share in shares), sum(found.laplacians), central])


def _learned_and_by_chance(folder: zoo.Folder) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As learned, and the mean and deviation of random draws."""
    model = zoo.load(folder.path)
    learned, drawn = _count(model), []
    for seed in range(DRAWS):
        randomise(model, seed=seed)
        drawn.append(_count(model))
    return learned, np.mean(drawn, axis=0), np.std(drawn, axis=0, ddof=1)


def derivative_filters(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        learned, chance, error = _learned_and_by_chance(results.folders[name])
        low, high = (
            f"{ours:.0f} % (by chance {theirs:.1f} ± {std:.1f} %)"
            for ours, theirs, std in list(zip(learned, chance, error, strict=True))[:2]
        )
        above = learned - chance
        most = beyond(above[0] - max(above[1], 0), ERRORS * math.hypot(*error[:2]))
        text = f"`{name}`: {low} in the lowest layers, {high} in the higher"
        checks.append(Check(text, most))
        text = f"`{name}`: {learned[2]:,.0f} like the Laplacian ({chance[2]:,.0f} ± {error[2]:.0f})"
        checks.append(Check(text, beyond(above[2], ERRORS * error[2])))
    return checks


def central_filters(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        learned, chance, error = (v[3] for v in _learned_and_by_chance(results.folders[name]))
        text = f"`{name}`: {learned:,.0f} (by chance {chance:,.0f} ± {error:.0f})"
        checks.append(Check(text, beyond(learned - chance, ERRORS * error)))
    return checks


def complex_filters(claim: Claim, results: ZooResults) -> list[Check]:
    """Fewer filters of the 3-jet resemble a derivative, and not only by chance.

    Sums of nine derivatives resemble one of them less often than sums of five, learned or not.
    """
    checks = []
    for name in claim.models:
        other = name.replace("_2jet", "_3jet")
        if other != name and other in claim.models:
            (two, by_chance, error), (three, its_chance, its_error) = (
                [values[1] for values in _learned_and_by_chance(results.folders[n])]
                for n in (name, other)
            )
            text = f"`{other}`: in the higher layers {two:.0f} % of the 2-jet (by chance "
            text += f"{by_chance:.0f} %), {three:.0f} % of the 3-jet ({its_chance:.0f} %)"
            more = (two - three) - (by_chance - its_chance)
            learned = beyond(more, ERRORS * math.hypot(error, its_error))
            checks.append(Check(text, bool(two > three) and (learned or None)))
    return checks


# === Maps ===


def located(model: GaussDerNet, images: np.ndarray) -> list[bool]:
    """Whether the strongest response lies in the rectangle around the object, on black."""
    from gdn_keras.explain import localise

    inside = []
    for image in images:
        found = localise(model, image)
        low, high = rectangle(image)
        place = (found[0].row, found[0].column) if found else (-1, -1)
        inside.append(bool(np.all(low <= place) and np.all(place <= high)))
    return inside


def rectangle(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last row and column of an object on black."""
    places = np.argwhere(image.max(axis=-1) > 0)
    return places.min(axis=0), places.max(axis=0)


def localisation(claim: Claim, results: ZooResults) -> list[Check]:
    from gdn_keras.datasets import load_samples

    checks = []
    for name in claim.models:
        model, dataset = zoo.load(results.folders[name].path), RECIPES[name].dataset
        for size in (0.5, 1.0, 2.0):
            images = load_samples(dataset, size_factor=size).images[:LOCATED]
            share = np.mean(located(model, images))
            areas = [np.prod(high - low + 1) for low, high in map(rectangle, images)]
            chance = np.mean(areas) / np.prod(images.shape[1:3])
            text = f"`{name}`: {100 * share:.0f} % at size factor {size:g} (the rectangles cover "
            checks.append(Check(f"{text}{100 * chance:.0f} %)", bool(share >= RELIABLY)))
    return checks
