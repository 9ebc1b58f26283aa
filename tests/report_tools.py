"""Zoo folders with numbers made up for the tests of the report."""

import dataclasses
import math
from pathlib import Path

import numpy as np

from gdn_keras import zoo
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.model import build_model
from training.budgets import plan_run
from training.recipes import RECIPES
from training.reproduction.claims.claim import SIZE_FACTORS, Claim
from training.reproduction.claims.statements import CLAIMS
from training.reproduction.paper import ACCURACY, LEARNED_SIGMA_1, PaperValue
from training.reproduction.zoo_results import ZooResults


def tiny(name: str) -> GaussDerNetConfig:
    """The recipe's config with next to no weights and few pixels."""
    config = RECIPES[name].config
    return config.replace(
        widths=(1,) * len(config.widths),
        num_classes=2,
        class_names=(),
        input_size=(12, 12),
        spatial_selection="centre",
    )


def metrics_of(name: str, accuracy: dict[str, float], histograms=None, matched=None) -> zoo.Metrics:
    return zoo.Metrics(
        dataset=RECIPES[name].dataset,
        split="test",
        num_test_images=10_000,
        sampling_density=None,
        accuracy=accuracy,
        mean_accuracy=sum(accuracy.values()) / len(accuracy),
        golden=zoo.Golden(sample_set=RECIPES[name].dataset, indices=(0,), logits=((0.0, 1.0),)),
        sample_accuracy=1.0,
        scale_histograms=histograms,
        matched_accuracy=matched,
        versions={},
    )


def stage_of(network: str, **changes) -> dict:
    """The last stage of the cpu budget, as a record has it."""
    stage = plan_run(RECIPES[network], budget="cpu", finished=set()).stages[-1]
    return dataclasses.replace(stage, **changes).to_dict()


def recipe_of(name: str) -> dict:
    return {
        "name": name,
        "budget": "cpu",
        "seed": 0,
        "lineage": [],
        "ancestors": [],
        "stages": [] if RECIPES[name].transfer_from else [stage_of(name, epochs=20)],
        "images_seen": 1_200_000,
    }


def folder(name: str, accuracy: dict[str, float], histograms=None, matched=None) -> zoo.Folder:
    """A zoo folder that exists in memory only, enough for what needs no weights."""
    return zoo.Folder(
        path=Path(name),
        config=tiny(name),
        metrics=metrics_of(name, accuracy, histograms, matched),
        recipe=recipe_of(name),
        card="",
    )


def write(path: Path, name: str, accuracy, histograms=None, *, sigmas=None) -> None:
    """A whole zoo folder on disk; `sigmas` of the layers if they are learned."""
    model = build_model(tiny(name))
    for k, sigma in enumerate(sigmas or (), start=1):
        model.get_layer(f"jet_{k}").ratio.assign(sigma)
    zoo.write_folder(
        path / name,
        config=model.config,
        weights=model,
        metrics=metrics_of(name, accuracy, histograms),
        recipe=recipe_of(name),
        card=f"# {name}\n",
    )


def curve(at_half: float, at_one: float, at_two: float) -> dict[str, float]:
    """Straight from 1/2 to 1 and on to 2, fractions."""
    result = {}
    for factor in SIZE_FACTORS:
        t = math.log2(factor)
        result[f"{factor:.3f}"] = at_one + t * (at_two - at_one if t > 0 else at_one - at_half)
    return result


def histograms(name: str, *, width: float, slope: float = 1.0, centre: float = 0.0) -> dict:
    """Gaussians over log2 sigma around `centre` + `slope` log2 size; the wrong half an octave
    finer."""
    y = np.log2(RECIPES[name].config.channel_sigmas)
    result = {}
    for factor in SIZE_FACTORS:
        shares = {}
        for group, shift in (("all", 0.0), ("correct", 0.0), ("wrong", -0.5)):
            place = centre + slope * math.log2(factor) + shift
            share = np.exp(-(((y - place) / width) ** 2) / 2)
            shares[group] = (share / share.sum()).tolist()
        result[f"{factor:.3f}"] = shares
    return result


def selected(width_max=0.4, width_avg=0.6, slope=1.0) -> ZooResults:
    names = {"fashion_max_2jet": width_max, "fashion_avg_2jet": width_avg}
    return ZooResults(
        {
            name: folder(name, curve(0.87, 0.93, 0.92), histograms(name, width=width, slope=slope))
            for name, width in names.items()
        }
    )


def write_learned(path: Path) -> ZooResults:
    """Sigmas as Figure 18 and Tables 11 and 12 describe them."""
    for family in ("fashion28", "cifar32"):
        for method in ("sampled_derivative", "integrated_derivative", "sampled", "integrated"):
            for norm in ("bn", "nobn"):
                name = f"{family}_learned_{method}_{norm}_lr1e-3"
                sigmas = [0.5 * 1.7**k for k in range(6)]
                sigmas[0] = LEARNED_SIGMA_1[name].mean
                sigmas[5] = 2.0 if norm == "bn" else 4.0 if family == "fashion28" else 6.0
                write(path, name, {"1.000": ACCURACY[name].mean / 100}, sigmas=sigmas)
    return ZooResults.read(path)


def claim_with(words: str, section: str | None = None) -> Claim:
    (claim,) = [c for c in CLAIMS if words in c.text and section in (None, c.section)]
    return claim


def five_runs(values: dict[str, PaperValue]) -> ZooResults:
    """Runs with exactly the paper's means and standard deviations, in no particular order."""
    rng = np.random.default_rng(0)
    runs = {}
    for name, value in values.items():
        z = rng.permutation([-1.25, -0.5, 0.0, 0.5, 1.25])
        z = value.mean + (value.std or 0.1) * z / z.std(ddof=1)
        runs[name] = dict(enumerate(z.tolist()))
    folders = {n: folder(n, {"1.000": v.mean / 100}) for n, v in values.items()}
    return ZooResults(folders, {"paper": runs})
