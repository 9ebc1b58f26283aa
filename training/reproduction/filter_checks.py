"""Checks of the claims about architecture and filters, read from configs and weights."""

from __future__ import annotations

import math

import numpy as np

from gdn_keras import zoo
from gdn_keras.weights import read_weights
from training.reproduction.claims import Check, Claim
from training.reproduction.results import Results

RESEMBLES = 0.9  # correlation
LOWEST, HIGHER = (1, 2), (4, 5, 6)  # layers
RULES = {
    "resemble": f"a correlation of at least {RESEMBLES:g}, over all filters of a layer; lowest and "
    f"higher layers: {LOWEST[0]} to {LOWEST[-1]} and {HIGHER[0]} to {HIGHER[-1]}; more complex: "
    "fewer resemble a derivative",
}


def has_weights(name: str, results: Results) -> bool:
    return results.folders[name].weights_file.exists()


def architecture(claim: Claim, results: Results) -> list[Check]:
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


def resembling(folder: zoo.Folder) -> tuple[list[float], int]:
    """Per layer the share of filters that resemble a directional derivative; all Laplacians."""
    from gdn_keras.filters import closest_derivatives

    model, shares, laplacians = zoo.load(folder.path), [], 0
    for layer in range(1, len(folder.config.widths) + 2):
        closest = closest_derivatives(model, layer=layer)
        alike = np.abs(closest.correlation) >= RESEMBLES
        laplacian = closest.kind == "laplacian"
        shares.append(float(np.mean(alike & ~laplacian)))
        laplacians += int(np.sum(alike & laplacian))
    return shares, laplacians


def _mean(shares: list[float], layers: tuple[int, ...]) -> float:
    return float(np.mean([shares[layer - 1] for layer in layers]))


def derivative_filters(claim: Claim, results: Results) -> list[Check]:
    checks = []
    for name in claim.models:
        shares, laplacians = resembling(results.folders[name])
        low, high = _mean(shares, LOWEST), _mean(shares, HIGHER)
        text = f"`{name}`: {100 * low:.0f} % in the lowest layers, {100 * high:.0f} % in the higher"
        checks.append(Check(text, low > high))
        checks.append(Check(f"`{name}`: {laplacians:,} like the Laplacian", laplacians > 0))
    return checks


def complex_filters(claim: Claim, results: Results) -> list[Check]:
    checks = []
    for name in claim.models:
        other = name.replace("_2jet", "_3jet")
        if other != name and other in claim.models:
            two, three = (_mean(resembling(results.folders[n])[0], HIGHER) for n in (name, other))
            text = f"{100 * two:.0f} % of the 2-jet, {100 * three:.0f} % of the 3-jet"
            checks.append(Check(f"`{other}`: in the higher layers {text}", three < two))
    return checks
