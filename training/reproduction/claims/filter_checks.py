"""Checks of the claims about architecture and filters, read from configs and weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gdn_keras import zoo
from gdn_keras.zoo.weights import read_weights

from ..zoo_results import ZooResults
from .claim import Check, Claim

if TYPE_CHECKING:
    from gdn_keras.model import GaussDerNet

RESEMBLES = 0.9  # correlation
LOWEST, HIGHER = (1, 2), (4, 5, 6)  # layers
RULES = {
    "resemble": f"a correlation of at least {RESEMBLES:g}, over all filters of a layer; lowest and "
    f"higher layers: {LOWEST[0]} to {LOWEST[-1]} and {HIGHER[0]} to {HIGHER[-1]}; by chance: with "
    "random coefficients of the same deviations, drawn once, so without an error; more complex: "
    "fewer resemble a derivative. This is the third form of the check, and the results of the "
    "first two were known: the ten strongest filters of a layer (65 % in the lowest, 50 % in the "
    "higher layers, a difference within chance), then all filters without a comparison with chance "
    "(43 and 29 %)",
}


def has_weights(name: str, results: ZooResults) -> bool:
    return results.folders[name].weights_file.exists()


def architecture(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        folder = results.folders[name]
        sigmas = np.array(folder.config.channel_sigmas)
        text = f"`{name}`: sigma grows by {folder.config.sigma_ratio:g} per layer"
        checks.append(Check(text, folder.config.sigma_ratio > 1))
        single = name.replace("_max_", "_single_").replace("_avg_", "_single_")
        if single == name or single not in claim.models:
            continue
        apart = bool(np.allclose(sigmas[1:] / sigmas[:-1], math.sqrt(2)))
        checks.append(Check(f"`{name}`: {len(sigmas)} channels √2 apart", apart))
        same = _shapes(folder) == _shapes(results.folders[single])
        checks.append(Check(f"`{name}`: as many weights as with one channel", same))
    return checks


def _shapes(folder: zoo.Folder) -> dict[str, list[tuple[int, ...]]]:
    layers = read_weights(folder.weights_file).items()
    return {layer: [array.shape for array in arrays] for layer, arrays in layers}


class Resembling(NamedTuple):
    """What the filters of a network resemble."""

    derivatives: list[float]  # per layer, share like a directional derivative
    laplacians: int  # of all layers


def resembling(model: GaussDerNet) -> Resembling:
    from gdn_keras.filters import closest_derivatives

    shares, laplacians = [], 0
    for layer in range(1, model.config.num_layers + 1):
        closest = closest_derivatives(model, layer=layer)
        alike = np.abs(closest.correlation) >= RESEMBLES
        laplacian = closest.kind == "laplacian"
        shares.append(float(np.mean(alike & ~laplacian)))
        laplacians += int(np.sum(alike & laplacian))
    return Resembling(shares, laplacians)


def randomise(model: GaussDerNet) -> None:
    """Draw all coefficients at random; every derivative keeps its standard deviation.

    Sums of five derivatives often resemble one of them by chance.
    """
    import keras

    rng = np.random.default_rng(0)
    for layer in range(1, model.config.num_layers + 1):
        kernel = model.get_layer(f"jet_{layer}").kernel
        values = keras.ops.convert_to_numpy(kernel)
        deviation = values.std(axis=tuple(range(1, values.ndim)), keepdims=True)
        kernel.assign(deviation * rng.normal(size=values.shape))


def _mean(shares: list[float], layers: tuple[int, ...]) -> float:
    return float(np.mean([shares[layer - 1] for layer in layers]))


def derivative_filters(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        model = zoo.load(results.folders[name].path)
        learned = resembling(model)
        randomise(model)
        chance = resembling(model)
        means = [_mean(r.derivatives, part) for part in (LOWEST, HIGHER) for r in (learned, chance)]
        text = "{:.0%} in the lowest layers (by chance {:.0%}), {:.0%} in the higher ({:.0%})"
        low, low_by_chance, high, high_by_chance = means
        most = low - low_by_chance > max(high - high_by_chance, 0)
        checks.append(Check(f"`{name}`: {text.format(*means)}", most))
        text = f"`{name}`: {learned.laplacians:,} like the Laplacian ({chance.laplacians:,})"
        checks.append(Check(text, learned.laplacians > chance.laplacians))
    return checks


def complex_filters(claim: Claim, results: ZooResults) -> list[Check]:
    checks = []
    for name in claim.models:
        other = name.replace("_2jet", "_3jet")
        if other != name and other in claim.models:
            models = [zoo.load(results.folders[n].path) for n in (name, other)]
            two, three = (_mean(resembling(model).derivatives, HIGHER) for model in models)
            text = f"{100 * two:.0f} % of the 2-jet, {100 * three:.0f} % of the 3-jet"
            checks.append(Check(f"`{other}`: in the higher layers {text}", three < two))
    return checks
