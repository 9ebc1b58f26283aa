"""One frozen dataclass describes a network completely; as JSON it is the zoo's `config.json`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from gdn_keras.scale_space import (
    JET_ORDERS,
    METHODS,
    PADDINGS,
    PIXEL_VARIANCE,
    SELECTIONS,
    JetTerm,
    Smoothing,
    discretisation_of,
    jet_terms,
    scale_levels,
)
from gdn_keras.utils.checks import MAX_COUNT, SIGMA_RANGE, check_choice, checked, has_type, received
from gdn_keras.utils.fields import make_plain, reject_missing, reject_unknown

# 1 had no `reach`, which was 1 with mirror padding, and computed learned sigmas on every pixel.
FORMAT_VERSION = 2
# Exact, as the paper computes: changes to a config that need no other weights.
EVERY_PIXEL = {"sampling_density": None, "reach": None}
POOLINGS = ("max", "average", "logsumexp")
ACTIVATIONS = (  # those of `keras.activations` that act on every value alone
    *("relu", "celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu"),
    *("hard_tanh", "leaky_relu", "linear", "log_sigmoid", "mish", "relu6", "selu", "sigmoid"),
    *("silu", "soft_shrink", "softplus", "softsign", "sparse_plus", "sparse_sigmoid"),
    *("squareplus", "tanh", "tanh_shrink"),
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One step of a network: a jet layer, batch norm, an activation.

    All code that walks through a network uses `config.blocks()`. Another kind of block is described
    by a new field here and computed in four places: the Keras model, the ONNX file, and the two
    networks that they are compared with, in PyTorch and in numpy.
    """

    jet: str  # the names of its layers; None: the block has no such layer
    norm: str | None  # batch norm has a bias; without it the jet layer has one
    activated: str | None
    c_in: int
    c_out: int
    jet_order: int
    zero_order: bool
    relative_sigma: float  # sigma over that of the first block, in every scale channel
    activation: str | None  # a name of `keras.activations`

    @property
    def terms(self) -> tuple[JetTerm, ...]:
        """What the coefficients of the jet layer multiply."""
        return jet_terms(self.jet_order, self.zero_order)


@dataclass(frozen=True, kw_only=True)
class GaussDerNetConfig:
    """A Gaussian derivative network: what is computed, and on which grid.

    Example:

    >>> config = GaussDerNetConfig(
    ...     input_size=(72, 72), input_channels=1, num_classes=10,
    ...     channel_sigmas=(0.5, 1.0, 2.0), sigma_ratio=1.28, widths=(32, 48, 64, 96, 128),
    ... )
    >>> GaussDerNetConfig.from_json(config.to_json()) == config
    True

    Args:
        input_size: height and width in pixels; one number for both.
        input_channels: 1 for grey images, 3 for colour.
        num_classes: number of classes.
        channel_sigmas: sigma of the first layer of each scale channel, in pixels, increasing.
        sigma_ratio: sigma of layer k + 1 over sigma of layer k.
        widths: feature channels of every layer but the last.
        jet_order: highest derivative order, 1 to 4.
        zero_order: also a zero-order term, in the layers after the first.
        method: discretisation of the Gaussian derivatives, one of `gdn_keras.scale_space.METHODS`.
        compensate_integration: take sigma**2 - 1/12 for integrated kernels.
        truncation: share of a 1-D kernel that may be cut off.
        padding: "zero", "reflect" or "edge" of every layer; "mirror" of the image.
        spatial_selection: "centre" or "max"; "none" for an output at every pixel.
        scale_pooling: "max", "average" or "logsumexp"; not with selection "none".
        scale_dropout: share of outputs dropped in training; not with selection "none".
        final_batch_norm: whether the last layer has batch norm, too.
        final_relu: whether the last layer has an activation, too.
        activation: of every layer, a name of `keras.activations`.
        learned_sigmas: one trainable sigma per layer, common to all scale channels.
        sigma_range: where learned sigmas stay, in the channel with factor 1.
        class_names: empty, or one name per class.
        pixel_range: black and white of the images.
        sampling_density: samples per sigma of the coarse grids; None: every pixel.
        reach: how far layers are computed, in radii of all later layers together; None: exactly.
        window: False computes whole maps even if only the centre is read, for batch statistics.
    """

    # --- what the network is: these fields and the weights define the function ---
    input_size: tuple[int, int]
    input_channels: int
    num_classes: int
    channel_sigmas: tuple[float, ...]
    sigma_ratio: float | tuple[float, ...]
    widths: tuple[int, ...]
    jet_order: int = 2
    zero_order: bool = False
    method: str = "discrete"
    compensate_integration: bool = False
    truncation: float = 0.005
    padding: str = "zero"
    spatial_selection: str = "centre"
    scale_pooling: str = "average"
    scale_dropout: float = 0.0
    final_batch_norm: bool = True
    final_relu: bool = True
    activation: str = "relu"
    learned_sigmas: bool = False
    sigma_range: tuple[float, float] = (0.25, 6.0)
    class_names: tuple[str, ...] = ()
    pixel_range: tuple[float, float] = (0, 255)
    # --- how it is computed: the same weights serve every density and reach ---
    sampling_density: float | None = None
    reach: float | None = None
    window: bool = True

    def __post_init__(self):
        make_plain(self)
        if type(self.input_size) is int:
            object.__setattr__(self, "input_size", (self.input_size, self.input_size))
        _check(self)

    @property
    def num_layers(self) -> int:
        return len(self.widths) + 1

    @property
    def layer_widths(self) -> tuple[int, ...]:
        """Output feature channels of every layer, the last one included."""
        return (*self.widths, self.num_classes)

    @property
    def num_features(self) -> int:
        """Features of the last layer but one: the length of the network's embeddings."""
        return self.widths[-1]

    def blocks(self, *, folded: bool = False) -> tuple[Block, ...]:
        """The network from the image to the last maps; `folded` has no batch norm."""
        inputs = (self.input_channels, *self.widths)
        ratios = self.layer_sigmas(1.0)
        blocks = []
        for k in range(1, self.num_layers + 1):
            last = k == self.num_layers
            normalised = (self.final_batch_norm or not last) and not folded
            active = self.final_relu or not last
            blocks.append(
                Block(
                    jet=f"jet_{k}",
                    norm=f"norm_{k}" if normalised else None,
                    activated=f"{self.activation}_{k}" if active else None,
                    c_in=inputs[k - 1],
                    c_out=self.layer_widths[k - 1],
                    jet_order=self.jet_order,
                    zero_order=self.zero_order and k > 1,
                    relative_sigma=ratios[k - 1],
                    activation=self.activation if active else None,
                )
            )
        return tuple(blocks)

    def layer_sigmas(self, channel_sigma: float) -> tuple[float, ...]:
        """Sigma of every layer in the scale channel that starts at `channel_sigma`."""
        levels = {"ratio": self.sigma_ratio, "num_layers": self.num_layers}
        return scale_levels((channel_sigma,), **levels)[0]

    @property
    def smoothing(self) -> Smoothing:
        """The kernels of all layers."""
        return Smoothing(
            self.method,
            self.truncation,
            self.padding,
            self.compensate_integration,
            self.jet_order,
        )

    def reject_dense(self, what: str) -> None:
        """Raise a `ValueError` if the network has an output at every pixel, not one per image."""
        if self.spatial_selection == "none":
            raise ValueError(
                f"{what} needs one output per image: `spatial_selection` must be 'centre' or "
                "'max'. Received: spatial_selection='none'."
            )

    def replace(self, **changes: Any) -> GaussDerNetConfig:
        """A copy with some fields changed; unknown names raise a `ValueError`."""
        reject_unknown(GaussDerNetConfig, changes, what="config")
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        return {"format_version": FORMAT_VERSION, **dataclasses.asdict(self)}

    def sha256(self) -> str:
        """A hash of the fields that differ from their defaults: new fields leave it as it is."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        data = {k: v for k, v in dataclasses.asdict(self).items() if v != defaults[k]}
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    @checked
    def from_dict(cls, data: dict[str, Any]) -> GaussDerNetConfig:
        data = dict(data)
        version = data.pop("format_version", FORMAT_VERSION)
        if not has_type(version, int) or version not in range(1, FORMAT_VERSION + 1):
            raise ValueError(
                f"`format_version` must be at most {FORMAT_VERSION}; a newer gdn_keras may read "
                f"this config. Received: format_version={version!r}."
            )
        if version == 1:
            if data.get("padding") == "mirror":
                data["reach"] = 1.0
            if data.get("learned_sigmas"):
                data["sampling_density"] = None
        reject_unknown(cls, data, what="config")
        reject_missing(cls, data, what="config")
        return cls(**data)

    @classmethod
    @checked
    def from_json(cls, text: str) -> GaussDerNetConfig:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"The config is not valid JSON: {error}.") from error
        if not isinstance(data, dict):
            raise ValueError(f"The config must be a JSON object. Received: {data!r:.80}.")
        return cls.from_dict(data)


def _check(config: GaussDerNetConfig) -> None:
    def expect(name: str, condition: bool, expected: str) -> None:
        if not condition:
            value = getattr(config, name)
            raise ValueError(f"`{name}` must be {expected}. {received(name, value)}")

    def number(value) -> bool:
        return has_type(value, float)

    def positive(value) -> bool:
        return number(value) and value > 0

    def count(value) -> bool:
        return has_type(value, int) and 0 < value <= MAX_COUNT

    def one_of(name: str, allowed) -> None:
        check_choice(name, getattr(config, name), allowed)

    def all_of(value, kind) -> bool:
        return isinstance(value, tuple) and all(kind(item) for item in value)

    c = config
    expect(
        "input_size",
        all_of(c.input_size, count) and len(c.input_size) == 2,
        "two positive integers, (height, width)",
    )
    expect("input_channels", count(c.input_channels), "a positive integer")
    expect("num_classes", count(c.num_classes), "a positive integer")
    expect(
        "channel_sigmas",
        all_of(c.channel_sigmas, positive)
        and len(c.channel_sigmas) > 0
        and all(a < b for a, b in zip(c.channel_sigmas, c.channel_sigmas[1:], strict=False)),
        "positive and strictly increasing",
    )
    expect("widths", all_of(c.widths, count) and len(c.widths) > 0, "positive integers")
    ratios = c.sigma_ratio if isinstance(c.sigma_ratio, tuple) else (c.sigma_ratio,)
    expect(
        "sigma_ratio",
        all(number(ratio) and 1 <= ratio < 10 for ratio in ratios)
        and (ratios == (c.sigma_ratio,) or len(ratios) == len(c.widths)),
        f"in [1, 10), or a tuple of {len(c.widths)} such numbers, one for each layer but the first",
    )
    one_of("jet_order", JET_ORDERS)
    one_of("method", METHODS)
    expect(
        "truncation",
        number(c.truncation) and 1e-12 <= c.truncation <= 0.5,
        "a number from 1e-12 to 0.5",
    )
    one_of("padding", PADDINGS)
    one_of("activation", ACTIVATIONS)
    one_of("spatial_selection", SELECTIONS)
    one_of("scale_pooling", POOLINGS)
    expect("scale_dropout", number(c.scale_dropout) and 0 <= c.scale_dropout < 1, "in [0, 1)")
    expect(
        "sigma_range",
        all_of(c.sigma_range, positive)
        and len(c.sigma_range) == 2
        and c.sigma_range[0] < c.sigma_range[1],
        "(low, high) with 0 < low < high",
    )
    expect(
        "class_names",
        isinstance(c.class_names, tuple)
        and all(isinstance(name, str) for name in c.class_names)
        and len(c.class_names) in (0, c.num_classes),
        f"empty or {c.num_classes} strings",
    )
    expect(
        "pixel_range",
        all_of(c.pixel_range, number)
        and len(c.pixel_range) == 2
        and c.pixel_range[0] == 0
        and positive(c.pixel_range[1]),
        "0 and a positive number, such as (0, 255) or (0, 1)",
    )
    expect(
        "sampling_density",
        c.sampling_density is None or (number(c.sampling_density) and c.sampling_density >= 0.3),
        "None or at least 0.3",
    )
    expect(
        "reach",
        c.reach is None or (number(c.reach) and c.reach >= 0.5),
        "None or at least 0.5",
    )
    for name in (
        "zero_order",
        "compensate_integration",
        "final_batch_norm",
        "final_relu",
        "learned_sigmas",
        "window",
    ):
        expect(name, isinstance(getattr(c, name), bool), "True or False")
    low, high = SIGMA_RANGE
    growth = math.log(ratios[0]) * len(c.widths) if len(ratios) == 1 else sum(map(math.log, ratios))
    expect(
        "channel_sigmas",
        low <= c.channel_sigmas[0] and math.log(c.channel_sigmas[-1]) + growth <= math.log(high),
        f"from {low:g} to {high:g} pixels, also in the last layer by `sigma_ratio` and `widths`",
    )
    if c.compensate_integration:
        row = discretisation_of(c.method)
        expect("method", row.integrated, "an integrated one to be compensated")
    if c.learned_sigmas:
        low, high = c.sigma_range
        first, last = 1.0, c.layer_sigmas(1.0)[-1]
        expect(
            "sigma_range",
            low <= first and last <= high,
            f"a range with the initial {first:g} to {last:.4g} (by `sigma_ratio`) in it",
        )
        if c.compensate_integration:
            expect(
                "sigma_range",
                (low * c.channel_sigmas[0]) ** 2 > PIXEL_VARIANCE,
                "above 0.2887 / channel_sigmas[0], since sigma**2 - 1/12 must stay positive",
            )
