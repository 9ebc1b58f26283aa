"""From a recipe and a budget to the stages that are run.

`paper` is section 5 of the paper, one stage, on every pixel; batch norm sees whole maps, as in the
paper's equations, although only the centre is read.
`cpu` takes hours on two cores: coarse grids, fewer epochs, and networks with several scale channels
start from the single-channel network of the same family. NOTES.md records what was tried.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from gdn_keras.config import EVERY_PIXEL, GaussDerNetConfig

from .recipes import ALL, OWN, RECIPES, Recipe

DENSITY = 1 / math.sqrt(2)
REACH = 1.0
# of networks with several scale channels on CIFAR-10, and of derived ones: at 1, the channels that
# do not fit the size of an object see where they are cut off, and disturb the one that does; those
# on Fashion-MNIST are trained with exact windows
WIDE_REACH = 1.25
STATISTICS_IMAGES = 4800
EXACT = "exact"  # name of an optional last stage, on every pixel
EXACT_LEARNING_RATE = 0.001
MORE = "more"  # name of a stage that a finished network of the zoo gets afterwards
OPTIONAL = (EXACT, MORE)  # stages that only some networks of a family have
BUDGETS = ("paper", "cpu")
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run, with one network, one data set and one learning rate curve."""

    name: str
    config: GaussDerNetConfig
    dataset: str
    split: str
    batch_size: int
    epochs: float
    learning_rate: float
    final_learning_rate: float
    weight_decay: float
    train_sizes: str | None = None
    warmup: float = 0.0  # share of the steps with a rising learning rate
    label_smoothing: float = 0.0
    augment: tuple[str, ...] = ()
    dtype: str = "float32"
    sigma_learning_rate: float | None = None
    sigma_weight_decay: float | None = None
    fixed_last_sigma: bool = False
    limit: int | None = None  # number of images, for trials only; None: all

    def __post_init__(self):
        def expect(name: str, condition: bool, expected: str) -> None:
            if not condition:
                value = getattr(self, name)
                raise ValueError(f"`{name}` must be {expected}. Received: {name}={value!r}.")

        def count(value) -> bool:
            return isinstance(value, int) and not isinstance(value, bool) and value > 0

        def within(value, low: float, high: float) -> bool:
            return isinstance(value, int | float) and low <= value < high

        def positive(value) -> bool:
            return within(value, 0, math.inf) and value > 0

        expect("batch_size", count(self.batch_size), "a positive integer")
        expect("epochs", positive(self.epochs), "a positive number")
        expect("learning_rate", positive(self.learning_rate), "a positive number")
        for name in ("final_learning_rate", "weight_decay"):
            expect(name, within(getattr(self, name), 0, math.inf), "a number >= 0")
        for name in ("warmup", "label_smoothing"):
            expect(name, within(getattr(self, name), 0, 1), "in [0, 1)")
        expect("dtype", self.dtype in PRECISIONS, f"one of {PRECISIONS}")
        expect("limit", self.limit is None or count(self.limit), "None or a positive integer")

    def steps(self, num_images: int) -> int:
        """Steps of the whole stage; the last, incomplete batch of an epoch is left out."""
        per_epoch = num_images // self.batch_size
        if not per_epoch:
            raise ValueError(
                f"`batch_size` must be at most {num_images}, the number of images. "
                f"Received: batch_size={self.batch_size}."
            )
        return max(1, round(self.epochs * per_epoch))

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"config": self.config.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Stage:
        config = GaussDerNetConfig.from_dict(data["config"])
        return cls(**data | {"config": config, "augment": tuple(data["augment"])})


@dataclass(frozen=True)
class Plan:
    """What a run does: the initial weights, then the stages."""

    recipe: Recipe
    budget: str
    warm_start: str | None  # name of a finished relative
    stages: tuple[Stage, ...]

    @property
    def statistics_images(self) -> int:
        """The largest number of images for measuring the batch statistics at the end."""
        return STATISTICS_IMAGES if self.budget == "cpu" and self.stages else 0


def plan_run(
    recipe: Recipe,
    *,
    budget: str,
    finished: set[str],
    dtype: str = "float32",
    exact_phase: float | None = None,
) -> Plan:
    """The stages for `recipe`; `finished` are the names of networks that can lend weights.

    `exact_phase` is the number of epochs of one more stage of the cpu budget, on every pixel.
    """
    if budget not in BUDGETS:
        raise ValueError(f"`budget` must be one of {BUDGETS}. Received: budget={budget!r}.")
    if exact_phase is not None and (budget == "paper" or recipe.transfer_from):
        raise ValueError(
            "`exact_phase` must be None for the paper's budget, which is on every pixel anyway, "
            "and for networks that are derived without training. "
            f"Received: exact_phase={exact_phase} for {recipe.name}."
        )
    if recipe.transfer_from:
        return Plan(recipe, budget, recipe.transfer_from, ())
    main = recipe_stage(recipe, dtype=dtype)
    if budget == "paper":
        whole = dataclasses.replace(main, config=recipe.config.replace(window=False))
        return Plan(recipe, budget, None, (whole,))
    if recipe.group not in CPU_STAGES:
        raise ValueError(
            f"`group` must be one that has stages in training/budgets.py: {', '.join(CPU_STAGES)}. "
            f"Received: group={recipe.group!r} of {recipe.name}."
        )
    candidates = (name for name in relatives(recipe) if name in finished)
    relative = next(candidates, None)
    settings = CPU_STAGES[recipe.group]
    several = len(recipe.config.channel_sigmas) > 1
    if not several:
        settings = settings[:1]
    if relative:
        other = ALL[relative].config
        if several and len(other.channel_sigmas) == 1:
            settings = settings[1:]
        elif other.jet_order < recipe.config.jet_order:  # the highest derivatives are new
            settings = settings[-1:]
        else:
            settings = (settings[-1] | _last_changes(recipe, other, settings),)
    if recipe.name.partition("@")[0] in _LENDERS and recipe.group != OWN:
        settings += (_WHOLE,)
    stages = tuple(_cpu_stage(recipe, main, **stage) for stage in settings)
    if exact_phase is not None:
        config = recipe.config.replace(**EVERY_PIXEL)
        changes = {"epochs": exact_phase, "learning_rate": EXACT_LEARNING_RATE}
        stages += (dataclasses.replace(stages[-1], name=EXACT, config=config, **changes),)
    return Plan(recipe, budget, relative, stages)


def _last_changes(
    recipe: Recipe, other: GaussDerNetConfig, settings: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    """How the last stage changes for a network that is nearly there."""
    if not _same_scales(recipe.config, other):
        return FROM_OTHER_SCALES[recipe.group]
    if recipe.group in FROM_OTHER_METHOD and other.method != recipe.config.method:
        return FROM_OTHER_METHOD[recipe.group]
    own = settings[1:] or settings  # with all scale channels, if there are several
    return {"epochs": sum(stage["epochs"] for stage in own) / 3}


def _same_scales(config: GaussDerNetConfig, other: GaussDerNetConfig) -> bool:
    """Whether both have the same sigmas, or one of them has one channel of the other."""
    few, many = sorted((config, other), key=lambda one: len(one.channel_sigmas))
    alone = len(few.channel_sigmas) == 1 < len(many.channel_sigmas)
    same = alone or few.channel_sigmas == many.channel_sigmas
    return same and few.sigma_ratio == many.sigma_ratio


def _cpu_stage(
    recipe: Recipe,
    main: Stage,
    *,
    name: str,
    times: float | None = None,
    reach: float | None = REACH,
    window: bool = True,
    **changes: Any,
) -> Stage:
    """A stage of `CPU_STAGES`: `single` has one scale channel, the others all.

    `times` is for recipes without a fixed data set: epochs as a multiple of the recipe's. Without
    `window`, batch norm sees whole maps.
    """
    if times is not None:
        changes["epochs"] = times * recipe.epochs
    config = recipe.config.replace(sampling_density=DENSITY, reach=reach, window=window)
    if name == "single":
        config = config.replace(channel_sigmas=_single_sigmas(recipe), scale_dropout=0.0)
    return dataclasses.replace(main, name=name, config=config, **{"warmup": 0.05} | changes)


def more_stage(last: Stage, *, epochs: float, window: bool, dtype: str) -> Stage:
    """One more stage for a network that is finished: its last one, at half the learning rate.

    At the full rate, a short stage would first lose what the last one gained. `window` is that of
    the config in the last stage of such networks today.
    """
    config, rate = last.config.replace(window=window), last.learning_rate / 2
    changes = {"config": config, "epochs": epochs, "learning_rate": rate, "dtype": dtype}
    return dataclasses.replace(last, name=MORE, **changes)


# group -> another group whose networks it may start from
_VARIANT_OF = {"fashion_translated": "fashion", "cifar_mirror": "cifar"}


def relatives(recipe: Recipe) -> list[str]:
    """Finished networks that `recipe` may start from, best first.

    The same data or its centred version, the same scales (in some groups others will do) and
    weights of the same shapes; pooling may differ, several channels may start from one, another
    discretisation or padding will do, and a 3-jet may start from a 2-jet. Not one of several
    channels that had another regularisation on the same data: what dropout or cutout do cannot be
    seen in weights that come from the other.
    """
    config = recipe.config
    same = ("input_channels", "num_classes", "widths", "learned_sigmas")

    def regularisation(of: Recipe) -> tuple:
        return of.config.scale_dropout, of.cutout

    def fits(other: Recipe) -> bool:
        sigmas = other.config.channel_sigmas
        other_scales = recipe.group in FROM_OTHER_SCALES and other.config.method == config.method
        return (
            other.name != recipe.name.partition("@")[0]  # a trial is not its own relative
            and not other.transfer_from
            and other.group in (recipe.group, _VARIANT_OF.get(recipe.group))
            and other.train_sizes == recipe.train_sizes
            and other.config.jet_order <= config.jet_order
            and (len(config.channel_sigmas) > 1 or len(sigmas) == 1)
            and (other_scales or _same_scales(other.config, config))
            and not config.learned_sigmas
            and (
                other.dataset != recipe.dataset
                or len(sigmas) == 1
                or regularisation(other) == regularisation(recipe)
            )
            and all(getattr(other.config, name) == getattr(config, name) for name in same)
        )

    def distance(other: Recipe) -> tuple[bool, ...]:
        fields = ("padding", "method", "jet_order", "channel_sigmas", "scale_pooling")
        differs = (getattr(other.config, name) != getattr(config, name) for name in fields)
        return not _same_scales(other.config, config), *differs

    return [other.name for other in sorted(filter(fits, ALL.values()), key=distance)]


def _single_sigmas(recipe: Recipe) -> tuple[float, ...]:
    """Its own, those of the family's single-channel network, or the middle one of several."""
    sigmas = recipe.config.channel_sigmas
    if len(sigmas) == 1:
        return sigmas
    singles = (ALL[name].config.channel_sigmas for name in relatives(recipe))
    middle = (sigmas[len(sigmas) // 2],)
    return next((single for single in singles if len(single) == 1), middle)


def recipe_stage(recipe: Recipe, *, dtype: str = "float32") -> Stage:
    """The whole training of a recipe in one stage, with the network as its config says."""
    augment = [
        name
        for name, used in (
            ("flip", recipe.flip),
            ("colour_jitter", recipe.colour_jitter),
            ("cutout", recipe.cutout),
        )
        if used
    ]
    return Stage(
        name="together" if len(recipe.config.channel_sigmas) > 1 else "single",
        config=recipe.config,
        dataset=recipe.dataset,
        split=recipe.train_split,
        train_sizes=recipe.train_sizes,
        batch_size=recipe.batch_size,
        epochs=recipe.epochs,
        learning_rate=recipe.learning_rate,
        final_learning_rate=recipe.final_learning_rate,
        weight_decay=recipe.weight_decay,
        augment=tuple(augment),
        dtype=dtype,
        sigma_learning_rate=recipe.sigma_learning_rate,
        sigma_weight_decay=recipe.sigma_weight_decay,
        fixed_last_sigma=recipe.fixed_last_sigma,
    )


# --- stages of the cpu budget; NOTES.md records what was tried on validation splits ---
# A network with one scale channel has the first stage only; one that starts from a relative skips
# the stages that the relative has had.
_TINY = (
    {"name": "single", "epochs": 2, "limit": 640},
    {"name": "together", "epochs": 2, "limit": 640},
)
_FASHION28 = ({"name": "single", "epochs": 12},)
_CIFAR32 = ({"name": "single", "epochs": 24},)
# as long as with fixed sigmas; learned ones depend on what batch norm sees
_FASHION28_LEARNED = (_FASHION28[0] | {"window": False},)
_CIFAR32_LEARNED = (_CIFAR32[0] | {"window": False},)
_FASHION = (
    {"name": "single", "epochs": 32},
    {"name": "together", "epochs": 3, "learning_rate": 0.004, "reach": None},
)
_CIFAR = (
    {"name": "single", "epochs": 20},
    {"name": "together", "epochs": 5, "learning_rate": 0.004, "reach": WIDE_REACH},
)
_CIFAR_MIRROR = (
    {"name": "single", "epochs": 20},
    {"name": "together", "epochs": 6, "learning_rate": 0.002},
)
_STIR = (
    {"name": "single", "epochs": 10},
    {"name": "together", "epochs": 12, "learning_rate": 0.004},
)
_GTSRB = (  # five times as many images per epoch, nearly all learned in the first
    {"name": "single", "epochs": 5},
    {"name": "together", "epochs": 6, "learning_rate": 0.004},
)
_OWN = (
    {"name": "single", "times": 8},
    {"name": "together", "times": 1, "learning_rate": 0.003},
)
# The end of networks of one scale channel whose weights are also used in several, without training:
# what batch norm saw decides how good they are there.
_WHOLE = {"name": "whole", "epochs": 2, "learning_rate": 0.005, "window": False}
_LENDERS = {recipe.transfer_from for recipe in RECIPES.values()}
# The last stage of networks that start from one with another discretisation, and of those that
# start from one with other sigmas: at a low rate, since their loss is nearly that of the other from
# the first step. Other groups have a third of the epochs, or cannot.
FROM_OTHER_METHOD = {
    "fashion28": {"epochs": 1, "learning_rate": 0.0003},
    "cifar32": {"epochs": 2, "learning_rate": 0.0003},
}
FROM_OTHER_SCALES = {
    "fashion28": {"epochs": 3, "learning_rate": 0.0015},
    "cifar32": {"epochs": 4, "learning_rate": 0.0015},
}
CPU_STAGES: dict[str, tuple[dict[str, Any], ...]] = {
    "fashion": _FASHION,
    "fashion_scales": _FASHION,
    "fashion_translated": _FASHION,
    "cifar": _CIFAR,
    "cifar_scales": _CIFAR,
    "cifar_mirror": _CIFAR_MIRROR,
    "stir_sign": _STIR,
    "stir_aerial": _STIR,
    "stir_emoji": _STIR,
    "stir_gtsrb": _GTSRB,
    "fashion28": _FASHION28,
    "cifar32": _CIFAR32,
    "fashion28_learned": _FASHION28_LEARNED,
    "cifar32_learned": _CIFAR32_LEARNED,
    OWN: _OWN,
    "tiny": _TINY,
    "tiny_stir": _TINY,
}
