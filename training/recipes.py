"""Every configuration of the paper as data, generated from a few tables.

A recipe has the settings of the paper's section 5: the network, the data, the optimiser.
How a machine gets there (budgets, stages, warm starts) is not decided here.

>>> get("cifar_avg_2jet").epochs
60
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gdn_keras import datasets
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.scale_space import channel_scales
from gdn_keras.utils.checks import did_you_mean

from . import PROGRAM

OWN = "own"  # group of the networks for data of one's own, see own.py


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One trained network, or one derived from a trained network without training."""

    name: str
    group: str
    dataset: str
    config: GaussDerNetConfig
    train_split: str  # "train+validation" or "train"
    batch_size: int
    epochs: int  # 0 for a derived network
    weight_decay: float
    flip: bool  # left-right with probability 1/2
    train_sizes: str | None = None  # a range of the data set's sizes, if it has any: STIR
    learning_rate: float = 0.01  # cosine per step down to `final_learning_rate`
    final_learning_rate: float = 1e-5
    colour_jitter: bool = False  # how strong, as of the others: gdn_keras/datasets/batching
    cutout: bool = False
    sigma_learning_rate: float | None = None  # only with config.learned_sigmas
    sigma_weight_decay: float | None = None
    fixed_last_sigma: bool = False  # the last layer keeps its starting sigma
    transfer_from: str | None = None  # name of the trained network that lends its weights
    paper_section: str | None = None  # None: the paper does not have this network


# --- what networks of one family share: Tables 1 and 2 ---
_FASHION: dict[str, Any] = dict(
    config=dict(widths=(32, 48, 64, 96, 128), padding="zero"),
    train_split="train+validation",
    batch_size=32,
    epochs=32,
    weight_decay=0.05,
    flip=True,
)
_CIFAR: dict[str, Any] = dict(
    config=dict(widths=(64, 96, 128, 160, 192), padding="reflect"),
    train_split="train+validation",
    batch_size=30,
    epochs=60,
    weight_decay=0.025,
    flip=True,
    colour_jitter=True,
)
_STIR: dict[str, Any] = dict(
    config=dict(
        widths=(32, 48, 64, 96, 128),
        padding="reflect",
        spatial_selection="max",
        scale_pooling="average",
    ),
    train_split="train",
    batch_size=32,
    epochs=24,
    weight_decay=0.025,
    flip=False,
)
# family -> settings, dataset, and per tag of sigma_0: ratio and channels as powers of sqrt(2),
# first to last (Tables 1, 9 and 10); sigma_0 itself is the power given in _SIGMA_0
_RESCALED = {
    "fashion": (
        _FASHION,
        "rescaled_fashion_mnist",
        {"": (1.28, -3, 3), "_s0p50": (1.47, -4, 1), "_s0p71": (1.37, -4, 2)},
    ),
    "cifar": (
        _CIFAR,
        "rescaled_cifar10",
        {"": (1.45, -3, 2), "_s0p50": (1.67, -4, 0), "_s0p71": (1.56, -4, 1)},
    ),
}
_SIGMA_0 = {"": 0, "_s0p50": -2, "_s0p71": -1}
# name after the family -> pooling, jet order, scale-channel dropout, cutout, section
_VARIANTS = {
    "fashion": {
        "single_2jet": (None, 2, 0.0, False, "6.1"),
        "max_2jet": ("max", 2, 0.2, False, "6.1"),
        "avg_2jet": ("average", 2, 0.0, False, "6.1"),
        "avg_2jet_drop": ("average", 2, 0.2, False, "7.1"),
        "max_2jet_nodrop": ("max", 2, 0.0, False, "7.1"),
        "lse_2jet": ("logsumexp", 2, 0.2, False, "7.3"),
        "avg_3jet": ("average", 3, 0.2, False, "7.2"),
    },
    "cifar": {
        "single_2jet": (None, 2, 0.0, False, "6.3"),
        "max_2jet": ("max", 2, 0.3, False, "6.3"),
        "avg_2jet": ("average", 2, 0.3, False, "6.3"),
        "max_2jet_nodrop": ("max", 2, 0.0, False, "7.1"),
        "avg_2jet_nodrop": ("average", 2, 0.0, False, "7.1"),
        "max_2jet_cutout": ("max", 2, 0.0, True, "7.1"),
        "avg_2jet_cutout": ("average", 2, 0.0, True, "7.1"),
        "lse_2jet": ("logsumexp", 2, 0.3, False, "7.3"),
        "avg_3jet": ("average", 3, 0.3, False, "7.2"),
    },
}
# dataset -> section; emoji and GTSRB are not in the paper
_STIR_SECTIONS = {"stir_sign": "6.4", "stir_aerial": "6.4", "stir_emoji": None, "stir_gtsrb": None}
# regular images, one scale channel: settings, dataset, ratio per tag of sigma_0 (Tables 5 and 6),
# ratio with learned sigmas (Tables 7 and 8)
_REGULAR = {
    "fashion28": (
        _FASHION,
        "fashion_mnist",
        {"s0p50": (-2, 1.47), "s0p71": (-1, 1.37), "s1p00": (0, 1.28)},
        1.28,
    ),
    "cifar32": (
        _CIFAR,
        "cifar10",
        {"s0p50": (-2, 1.67), "s0p71": (-1, 1.56), "s1p00": (0, 1.45)},
        1.4,
    ),
}
_METHODS = (
    "discrete",
    "sampled_derivative",
    "integrated_derivative",
    "sampled",
    "normalised",
    "integrated",
)
_LEARNED_METHODS = ("sampled_derivative", "integrated_derivative", "sampled", "integrated")
_SIGMA_LEARNING_RATES = {"lr1e-4": 1e-4, "lr1e-3": 1e-3, "lr1e-2": 1e-2}
# The paper's sigmas were free; the first layer went down to 0.206 and the starred network starts
# its last layer at 7.1. The upper end keeps a kernel's support within a 28 x 28 image.
_SIGMA_RANGE = (0.15, 9.0)
_STARRED = "cifar32_learned_integrated_derivative_nobn_lr1e-2"  # the * of Table 8
_STARRED_RATIO = 1.48
# footnotes of sections 7.4 and 7.5: the same networks with zero padding
_ZERO_PADDED = ("cifar32_discrete_s0p50", "cifar32_learned_sampled_derivative_bn_lr1e-4")


def _sigmas(first: int, last: int) -> tuple[float, ...]:
    """Powers `first` to `last` of the square root of two, exact where they are powers of two."""
    return channel_scales(2.0 ** (first / 2), num_channels=last - first + 1)


def _make(
    name: str, group: str, shared: dict[str, Any], config: dict[str, Any], *, dataset: str, **rest
) -> Recipe:
    """A recipe from shared settings, its own, and those of the data set's record."""
    data = datasets.get(dataset)
    of_data = dict(
        input_size=data.image_size,
        input_channels=data.channels,
        num_classes=data.num_classes,
        class_names=data.class_names,  # if there are none, those of the files when it is trained
    )
    settings = shared | rest | {"config": GaussDerNetConfig(**of_data | shared["config"] | config)}
    return Recipe(name=name, group=group, dataset=dataset, **settings)


def _rescaled(family: str, variant: str, tag: str, *, group: str, section: str) -> Recipe:
    shared, dataset, scales = _RESCALED[family]
    pooling, jet_order, dropout, cutout, _ = _VARIANTS[family][variant]
    ratio, first, last = scales[tag]
    if pooling is None:
        first = last = _SIGMA_0[tag]
    config = dict(
        channel_sigmas=_sigmas(first, last),
        sigma_ratio=ratio,
        jet_order=jet_order,
        scale_pooling=pooling or "average",
        scale_dropout=dropout,
    )
    return _make(
        f"{family}_{variant}{tag}",
        group,
        shared,
        config,
        dataset=dataset,
        cutout=cutout,
        paper_section=section,
    )


def _rescaled_recipes():
    for family, variants in _VARIANTS.items():
        for variant, (*_, section) in variants.items():
            yield _rescaled(family, variant, "", group=family, section=section)
        # A.1 names no dropout values: those of the same networks in section 6
        for tag in ("_s0p50", "_s0p71"):
            for variant in ("single_2jet", "max_2jet", "avg_2jet"):
                yield _rescaled(family, variant, tag, group=f"{family}_scales", section="A.1")


def _translated_recipes():
    for pooling in ("max", "avg"):
        centred = _rescaled("fashion", f"{pooling}_2jet", "", group="", section="")
        config = centred.config.replace(spatial_selection="max", scale_dropout=0.2)
        yield dataclasses.replace(
            centred,
            name=f"fashion_translated_{pooling}_2jet",
            group="fashion_translated",
            dataset="rescaled_fashion_mnist_translated",
            config=config,
            paper_section="6.2",
        )


def _mirrored_recipes():
    """Not in the paper: the image is extended by mirroring, as these data sets are made."""
    for pooling in ("max", "avg"):
        padded = _rescaled("cifar", f"{pooling}_2jet", "", group="", section="")
        yield dataclasses.replace(
            padded,
            name=f"{padded.name}_mirror",
            group="cifar_mirror",
            config=padded.config.replace(padding="mirror", reach=1.0),
            paper_section=None,
        )


def _transfer_recipes():
    for family in _VARIANTS:
        for tag in _SIGMA_0:
            for pooling in ("max", "avg"):
                trained = _rescaled(family, f"{pooling}_2jet", tag, group="", section="")
                yield dataclasses.replace(
                    trained,
                    name=f"{trained.name}_transfer",
                    group=f"{family}_transfer",
                    config=trained.config.replace(scale_dropout=0.0),
                    epochs=0,
                    transfer_from=f"{family}_single_2jet{tag}",
                    paper_section="A.1",
                )


def _stir_recipes():
    for dataset, section in _STIR_SECTIONS.items():
        for sizes in datasets.get(dataset).sizes.ranges:
            for variant, dropout in (("drop", 0.3), ("nodrop", 0.0)):
                yield _make(
                    f"{dataset}_{sizes}_{variant}",
                    dataset,
                    _STIR,
                    dict(
                        channel_sigmas=_sigmas(-3, 2),
                        sigma_ratio=1.45,
                        scale_dropout=dropout,
                    ),
                    dataset=dataset,
                    train_sizes=sizes,
                    paper_section=section,
                )


def _regular_recipes():
    for family, (shared, dataset, scales, _) in _REGULAR.items():
        for method in _METHODS:
            for tag, (power, ratio) in scales.items():
                yield _make(
                    f"{family}_{method}_{tag}",
                    family,
                    shared,
                    dict(
                        channel_sigmas=_sigmas(power, power),
                        sigma_ratio=ratio,
                        method=method,
                    ),
                    dataset=dataset,
                    paper_section="7.4",
                )


def _learned_recipes():
    for family, (shared, dataset, _, ratio) in _REGULAR.items():
        for method in _LEARNED_METHODS:
            for norm in ("bn", "nobn"):
                for tag, learning_rate in _SIGMA_LEARNING_RATES.items():
                    name = f"{family}_learned_{method}_{norm}_{tag}"
                    yield _make(
                        name,
                        f"{family}_learned",
                        shared,
                        dict(
                            channel_sigmas=(1.0,),
                            sigma_ratio=_STARRED_RATIO if name == _STARRED else ratio,
                            method=method,
                            final_batch_norm=norm == "bn",
                            learned_sigmas=True,
                            sigma_range=_SIGMA_RANGE,
                        ),
                        dataset=dataset,
                        sigma_learning_rate=learning_rate,
                        sigma_weight_decay=0.025,
                        fixed_last_sigma=name == _STARRED,
                        paper_section="7.5",
                    )


def _zero_padded_recipes():
    for recipe in (*_regular_recipes(), *_learned_recipes()):
        if recipe.name in _ZERO_PADDED:
            config = recipe.config.replace(padding="zero")
            yield dataclasses.replace(recipe, name=f"{recipe.name}_zero", config=config)


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipes in (
        _rescaled_recipes(),
        _translated_recipes(),
        _mirrored_recipes(),
        _stir_recipes(),
        _regular_recipes(),
        _learned_recipes(),
        _zero_padded_recipes(),
        _transfer_recipes(),
    )
    for recipe in recipes
}


def _tiny_recipes():
    """Networks that learn little, in seconds: for trying the commands. Not of the paper."""
    small = dict(widths=(4, 6), sigma_ratio=1.5, channel_sigmas=(0.5, 1.0, 2.0))
    for variant, rest in {
        "single": dict(channel_sigmas=(1.0,)),
        "avg": {},
        "lse": dict(scale_pooling="logsumexp"),
        "max": dict(scale_pooling="max", scale_dropout=0.2),
    }.items():
        name, dataset = f"tiny_{variant}", "rescaled_fashion_mnist"
        yield _make(name, "tiny", _FASHION, small | rest, dataset=dataset)
    config = small | {"channel_sigmas": (1.0, 2.0)}
    yield _make("tiny_stir", "tiny_stir", _STIR, config, dataset="stir_emoji", train_sizes="mid")


TINY: dict[str, Recipe] = {recipe.name: recipe for recipe in _tiny_recipes()}
TINY["tiny_avg_transfer"] = dataclasses.replace(
    TINY["tiny_avg"], name="tiny_avg_transfer", epochs=0, transfer_from="tiny_single"
)
ALL: dict[str, Recipe] = RECIPES | TINY


def get(name: str) -> Recipe:
    """The recipe called `name`; the error of an unknown name shows the nearest ones."""
    if name in ALL:
        return ALL[name]
    raise ValueError(
        f"`name` must be the name of a recipe.{did_you_mean(name, ALL, count=3)} "
        f"`{PROGRAM} list` shows all. Received: name={name!r}."
    )


def trained() -> list[Recipe]:
    """The recipes that are trained."""
    return [recipe for recipe in RECIPES.values() if recipe.transfer_from is None]


def derived() -> list[Recipe]:
    """The recipes whose weights come from a single-scale-channel network, without training."""
    return [recipe for recipe in RECIPES.values() if recipe.transfer_from is not None]
