"""One function from a config to a `keras.Model`, and what can be done with the model's weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

from gdn_keras.config import Block, GaussDerNetConfig
from gdn_keras.image_model import ImageModel
from gdn_keras.layers import (
    CommonGrid,
    JetLayer,
    PixelScaling,
    ScaleBatchNormalization,
    ScaleChannelDropout,
    ScalePooling,
    SpatialSelection,
)
from gdn_keras.scale_space import (
    ChannelPlan,
    discretisation_of,
    plan_channel,
)
from gdn_keras.utils.checks import (
    check_choice,
    check_integer,
    check_number,
    check_type,
    checked,
)

# A learned sigma may become this small on a coarse grid: the grids of the networks with fixed
# sigmas have 0.7 samples per sigma or more.
SAMPLES_PER_SIGMA = 0.5
# How the first layer takes grey images for colour ones, and the other way round.
_MIXING = {
    (3, 1): np.ones((3, 1), "float32"),
    (1, 3): np.array([[0.299, 0.587, 0.114]], "float32"),  # luma, ITU-R BT.601
}


@checked
def build_model(config: GaussDerNetConfig | dict, **kwargs: Any) -> GaussDerNet:
    """A Keras model for `config`, with fresh weights: pixels in `pixel_range` in, logits out.

    Keyword arguments (`name`, `dtype`, `seed`) go to `GaussDerNet`.
    """
    return GaussDerNet(config, **kwargs)


@keras.saving.register_keras_serializable(package="gdn_keras")
class GaussDerNet(ImageModel):
    """A Gaussian derivative network as a functional Keras model.

    Layers are those of `blocks`, named `jet_k`, `norm_k` and, by the activation, `relu_k`
    (k = 1 … number of layers), then `selection`, `scale_dropout`, `pooling`. Every one of them
    handles all scale channels. With `spatial_selection="none"` the last two are left out, and the
    output is dense: (batch, height, width, scale channel, class), on the pixels of the image.

    Args:
        config: a `GaussDerNetConfig` or the dict it makes.
        outputs: only for `keras.models.clone_model`, which passes the ends of a graph of layers.
        folded: leave out batch norm and have biases instead; `fold(model)` fills them.
        synchronized: batch statistics over all replicas of a `tf.distribute` strategy.
        seed: of the scale-channel dropout.
        frozen: names of layers that are not trained, as if their `trainable` were set to False.
        dtype: a Keras dtype policy; the logits are always float32.
    """

    @checked
    def __init__(
        self,
        config,
        *outputs,
        folded: bool = False,
        synchronized: bool = False,
        seed: int | None = None,
        frozen: Iterable[str] = (),
        dtype=None,
        name: str = "gaussdernet",
        **kwargs,
    ):
        if outputs:
            super().__init__(config, *outputs, name=name, **kwargs)
            self._read_settings()
            return
        check_type("config", config, GaussDerNetConfig | dict)
        if isinstance(config, dict):
            config = GaussDerNetConfig.from_dict(config)
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        # === Functional model ===
        image = keras.Input((*config.input_size, config.input_channels), name="image")
        settings = {"folded": folded, "synchronized": synchronized, "seed": seed}
        pixels = PixelScaling(
            1 / config.pixel_range[1],
            network={"config": config.to_dict(), **settings},
            dtype=policy,
            name="pixels",
        )(image)
        plans, ranges = channel_plans(config), sigma_ranges(config)
        maps = [pixels] * len(plans)
        for k, block in enumerate(config.blocks(folded=folded)):
            maps = JetLayer(
                block.c_out,
                sigma=tuple(plan.layers[k].sigma for plan in plans),
                jet_order=block.jet_order,
                zero_order=block.zero_order,
                method=config.method,
                padding=config.padding,
                truncation=config.truncation,
                compensate_integration=config.compensate_integration,
                use_bias=block.norm is None,  # batch norm has its own bias
                learned_ratio=block.relative_sigma if config.learned_sigmas else None,
                ratio_range=ranges[k],
                plans=[plan.layers[k] for plan in plans],
                dtype=policy,
                name=block.jet,
            )(maps)
            if block.norm:
                maps = ScaleBatchNormalization(
                    synchronized=synchronized, dtype=policy, name=block.norm
                )(maps)
            if block.activation:
                activation = keras.layers.Activation(
                    block.activation, dtype=policy, name=block.activated
                )
                maps = [activation(tensor) for tensor in maps]
        if config.spatial_selection == "none":
            spacings = [plan.layers[-1].rows.output.spacing for plan in plans]
            logits = CommonGrid(
                config.input_size, spacings=spacings, name="selection", dtype="float32"
            )(maps)
        else:
            scale_logits = SpatialSelection(
                config.spatial_selection, name="selection", dtype="float32"
            )(maps)
            dropped = ScaleChannelDropout(
                config.scale_dropout, seed=seed, name="scale_dropout", dtype="float32"
            )(scale_logits)
            logits = ScalePooling(config.scale_pooling, name="pooling", dtype="float32")(dropped)
        super().__init__(inputs=image, outputs=logits, name=name, **kwargs)
        self._read_settings()
        names = [layer.name for layer in self.layers]
        for layer in frozen:
            self.get_layer(check_choice("frozen", layer, names)).trainable = False

    def _read_settings(self) -> None:
        """Take the settings from the first layer: a clone of a network has nothing but layers."""
        # === Config ===
        first = self.get_layer("pixels")
        self.config = GaussDerNetConfig.from_dict(first.network["config"])
        self.folded = first.network["folded"]
        self.synchronized = first.network["synchronized"]
        self.seed = first.network["seed"]
        self.policy = first.dtype_policy

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The layers from the image to the last maps, and their names."""
        return self.config.blocks(folded=self.folded)

    @property
    def frozen(self) -> tuple[str, ...]:
        """Names of the layers with weights that are not trained now."""
        return tuple(layer.name for layer in self.layers if layer.weights and not layer.trainable)

    def scale_logits_model(self) -> keras.Model:
        """The same weights, giving (batch, scale channel, class) before pooling over scale.

        The output of a dense network is not pooled, so there it is the same.
        """
        return ImageModel(self.input, self.get_layer("selection").output, name="scale_logits")

    @checked
    def maps_model(self, layer: int | None = None) -> keras.Model:
        """The same weights, giving the activated maps of `layer` (1 …; default the last).

        A list with one tensor (batch, height, width, features) per scale channel; with a single
        scale channel the tensor itself, since Keras unpacks lists of one. With centre selection
        the maps are windows around the centre; `adapt(model, spatial_selection="max",
        sampling_density=None)` has them on every pixel. With mirror padding the maps of all layers
        but the last may go beyond the image; the centre is always in the middle.
        """
        layer = self.config.num_layers if layer is None else layer
        highest = self.config.num_layers
        check_integer("layer", layer, low=1, high=highest, expected=f"from 1 to {highest}")
        following = "selection" if layer == highest else self.blocks[layer].jet
        maps = self.get_layer(following).input
        maps = maps if isinstance(maps, list) else [maps]
        return ImageModel(self.input, maps, name=f"maps_{layer}")

    def get_config(self):
        return {
            "config": self.config.to_dict(),
            "folded": self.folded,
            "synchronized": self.synchronized,
            "seed": self.seed,
            **({"frozen": list(self.frozen)} if self.frozen else {}),
            "dtype": keras.saving.serialize_keras_object(self.policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        if isinstance(config.get("dtype"), dict):
            config["dtype"] = keras.saving.deserialize_keras_object(config["dtype"])
        return cls(**config)


def channel_plans(config: GaussDerNetConfig) -> tuple[ChannelPlan, ...]:
    """The sampling plan of every scale channel."""
    plans = []
    for first in config.channel_sigmas:
        sigmas = largest = config.layer_sigmas(first)
        if config.learned_sigmas:  # kernels must fit into their windows however far sigmas grow
            largest = (first * config.sigma_range[1],) * config.num_layers
        plans.append(
            plan_channel(
                config.input_size,
                sigmas=sigmas,
                smoothing=config.smoothing,
                ring=discretisation_of(config.method).ring(config.jet_order),
                selection=config.spatial_selection,
                density=config.sampling_density,
                reach=config.reach,
                radius_sigmas=largest,
                window=config.window,
            )
        )
    return tuple(plans)


def sigma_ranges(config: GaussDerNetConfig) -> tuple[tuple[float, float], ...]:
    """Where the learned sigma of every layer stays, as a factor on the first sigma of its channel.

    That is `config.sigma_range`, but on a coarse grid at least half a sample: grids are made for
    the sigmas that a network starts with, and a finer kernel would miss what lies between samples.
    """
    low, high = config.sigma_range
    lowest = [low] * config.num_layers
    samples = min(SAMPLES_PER_SIGMA, config.sampling_density or SAMPLES_PER_SIGMA)
    for first, plan in zip(config.channel_sigmas, channel_plans(config), strict=True):
        for k, layer in enumerate(plan.layers):
            spacing = layer.rows.output.spacing
            if spacing > 1:
                lowest[k] = max(lowest[k], samples * spacing / first)
    return tuple((value, high) for value in lowest)


@checked
def adapt(model: GaussDerNet, **changes: Any) -> GaussDerNet:
    """The same weights under a changed config.

    >>> adapt(single, channel_sigmas=(0.5, 1.0, 2.0))       # one channel -> three, same weights
    >>> adapt(model, input_size=(128, 128), spatial_selection="max")
    >>> adapt(model, **EVERY_PIXEL)                         # as the paper computes

    Fields that decide the shapes of the weights (widths, jet order, classes …) cannot change, but
    for `input_channels`: a network for colour images takes grey ones as if all three channels had
    their values, and a network for grey images takes the luma of colour ones.
    """
    classes = changes.get("num_classes", model.config.num_classes)
    if classes != model.config.num_classes:
        raise ValueError(
            f"`num_classes` must be {model.config.num_classes}, as in the network; "
            "`gdn_keras.zoo.load` with `num_classes` gives one of the zoo a new last layer. "
            f"Received: num_classes={classes}."
        )
    config = model.config.replace(**changes)
    new = _rebuild(model, config=config)
    copy_weights(
        model, new, mixing=_MIXING.get((model.config.input_channels, config.input_channels))
    )
    return new


def _rebuild(model: GaussDerNet, **changes: Any) -> GaussDerNet:
    """A network of the same class and settings but for `changes`, with fresh weights."""
    return type(model).from_config({**model.get_config(), **changes})


@checked
def at_scale(model: GaussDerNet, factor: float) -> GaussDerNet:
    """The same weights at `factor` times the scales: the network for images enlarged by it."""
    check_number("factor", factor, low=1e-6, high=1e6, expected="a positive number, 1e-6 to 1e6")
    sigmas = tuple(factor * sigma for sigma in model.config.channel_sigmas)
    return adapt(model, channel_sigmas=sigmas)


def copy_weights(
    source: keras.Model, target: keras.Model, *, mixing: np.ndarray | None = None
) -> None:
    """Copy all weights, layer by layer by name; nothing is copied unless everything fits.

    `mixing`, (input channels of the source, of the target), gives the first layer other inputs.
    """
    pairs = []
    for layer in target.layers:
        new = layer.weights
        old = _layer_or_none(source, layer.name)
        old = [] if old is None else old.weights
        if old and mixing is not None:
            mixed, mixing = keras.ops.einsum("tio,ij->tjo", old[0], mixing), None
            old = [mixed, *old[1:]]
        if [w.shape for w in old] != [w.shape for w in new]:
            raise ValueError(
                f"The weights of layer {layer.name!r} do not fit: the source has "
                f"{[tuple(w.shape) for w in old]}, the target needs "
                f"{[tuple(w.shape) for w in new]}."
            )
        pairs += zip(new, old, strict=True)
    for new, old in pairs:
        new.assign(keras.ops.copy(old))  # JAX would share the buffer, and training gives it away


@checked
def fold(model: GaussDerNet) -> GaussDerNet:
    """The same function without batch norm: every layer is smoothing, convolution, ReLU.

    Batch norm at inference is a factor and an offset per feature, and a jet layer is linear in
    its coefficients, so both go into the coefficients and a bias. For inference only.
    """
    if model.folded:
        return model
    folded = _rebuild(model, folded=True, frozen=())
    for block in model.blocks:
        source, target = model.get_layer(block.jet), folded.get_layer(block.jet)
        kernel = keras.ops.convert_to_numpy(source.kernel).astype("float64")
        if block.norm is None:
            bias = keras.ops.convert_to_numpy(source.bias)
        else:
            norm = model.get_layer(block.norm)
            gamma, beta, mean, variance = (
                keras.ops.convert_to_numpy(w).astype("float64") for w in norm.weights
            )
            scale = gamma / np.sqrt(variance + norm.epsilon)
            kernel, bias = kernel * scale, beta - mean * scale
        target.kernel.assign(kernel.astype("float32"))
        target.bias.assign(bias.astype("float32"))
        if source.ratio is not None:
            target.ratio.assign(keras.ops.copy(source.ratio))
    return folded


def _layer_or_none(model: keras.Model, name: str) -> keras.layers.Layer | None:
    return next((layer for layer in model.layers if layer.name == name), None)


@checked
def layer_sigmas(model: GaussDerNet) -> np.ndarray:
    """Sigma of every layer in every scale channel, (scale channel, layer), learned or not."""
    config = model.config
    if not config.learned_sigmas:
        return np.array([config.layer_sigmas(first) for first in config.channel_sigmas])
    ratios = [
        float(keras.ops.convert_to_numpy(model.get_layer(block.jet).ratio))
        for block in model.blocks
    ]
    return np.outer(config.channel_sigmas, ratios)


def clamped_sigmas(model: GaussDerNet) -> tuple[int, ...]:
    """The layers (1 …) whose learned sigma is at an end of its range."""
    ranges, ratios = sigma_ranges(model.config), layer_sigmas(model)[0]
    ratios = ratios / model.config.channel_sigmas[0]
    return tuple(
        k
        for k, (ratio, bounds) in enumerate(zip(ratios, ranges, strict=True), start=1)
        if np.isclose(ratio, bounds, rtol=1e-5, atol=0).any()
    )
