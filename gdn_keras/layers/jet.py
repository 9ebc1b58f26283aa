"""The jet layer: a learned linear combination of scale-normalised Gaussian derivatives."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from gdn_keras.layers.learned import learned_kernel
from gdn_keras.layers.smoothing import (
    apply_columns,
    apply_rows,
    correlations,
    matrix_difference,
    pad_any_size,
)
from gdn_keras.scale_space import (
    JET_ORDERS,
    PADDINGS,
    JetTerm,
    LayerPlan,
    Smoothing,
    discretisation_of,
    jet_masks,
    jet_terms,
    plan_channel,
)
from gdn_keras.scale_space.plan import (
    axis_kernel,
    kernel_radius,
    offset_of,
    placement,
)
from gdn_keras.utils.checks import SIGMA_RANGE, check_choice, check_integer, check_number, checked
from gdn_keras.utils.deprecation import renamed_arguments

LEARNED_RATIO = "learned_ratio"  # the name of the trainable factor on the sigmas of a layer


class JetConstants(NamedTuple):
    """A jet layer at one scale, as float64 numbers; learned scales are what they are now.

    response = sum_d coefficients[d] D_d image + bias. D_d correlates with `rows[d.y]` along the
    rows and with `columns[d.x]` along the columns; or, if only order 0 is there, it smooths with
    `rows[0]` and `columns[0]` and takes central differences on the output's grid.
    """

    plan: LayerPlan
    terms: tuple[JetTerm, ...]
    rows: tuple[np.ndarray, ...]  # 1-D kernels by order; `placement` says where they go
    columns: tuple[np.ndarray, ...]
    coefficients: np.ndarray  # (term, input, output), with factors and powers of sigma
    bias: np.ndarray


@keras.saving.register_keras_serializable(package="gdn_keras")
class JetLayer(keras.layers.Layer):
    """Learned linear combinations of the Gaussian derivatives up to an order of 1 to 4.

    On one image, at one scale:

    >>> JetLayer(8, sigma=1.0)(images)              # (batch, height, width, 8)

    Images may have any size, also one that is not known when the layer is built.

    On one image, at several scales with the same coefficients (scale channels):

    >>> JetLayer(8, sigma=(1.0, 2.0))([images, images])

    Law: enlarging an image by S and multiplying sigma by S leaves the response the same, up to
    the discretisation, which matters when sigma is well below one pixel.

    Args:
        filters: number of output channels.
        sigma: scale in pixels; a tuple takes a list of as many tensors and returns a list.
        jet_order: highest derivative order, 1 to 4.
        zero_order: also a coefficient for the smoothed image itself.
        method: discretisation, one of `gdn_keras.scale_space.METHODS`.
        padding: "zero", "reflect", "edge" or "mirror" (reflection that repeats the edge): how the
            input is extended. In a network with mirror padding, the plans ensure that only the
            image itself is mirrored.
        truncation: share of the 1-D kernels that may be cut off.
        compensate_integration: take sigma**2 - 1/12 for integrated kernels.
        use_bias: add one number per output channel.
        learned_ratio: None, or the initial value of a trainable factor on every sigma.
        ratio_range: what the trainable factor is clamped to.
        plans: one `LayerPlan` (or its `to_list()`) per tensor; by default every pixel of the
            input is computed. Given by `build_model`.
    """

    @renamed_arguments(compensate="compensate_integration")
    @checked
    def __init__(
        self,
        filters: int,
        *,
        sigma: float | Sequence[float],
        jet_order: int = 2,
        zero_order: bool = False,
        method: str = "discrete",
        padding: str = "zero",
        truncation: float = 0.005,
        compensate_integration: bool = False,
        use_bias: bool = True,
        learned_ratio: float | None = None,
        ratio_range: tuple[float, float] = (0.25, 6.0),
        plans: Sequence[LayerPlan | list | tuple] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.filters = check_integer("filters", filters, low=1)
        self.sigma = tuple(map(float, sigma)) if np.ndim(sigma) else sigma
        self.jet_order = jet_order
        self.zero_order = zero_order
        self.method = method
        self.padding = padding
        self.truncation = truncation
        self.compensate_integration = compensate_integration
        self.use_bias = use_bias
        self.learned_ratio = learned_ratio
        self.ratio_range = tuple(ratio_range)
        self.plans = None
        if plans is not None and len(plans):
            self.plans = tuple(
                plan if isinstance(plan, LayerPlan) else LayerPlan.from_list(plan) for plan in plans
            )
        if self.plans and len(self.plans) != len(self._sigmas()):
            raise ValueError(
                f"`plans` must be one for each of {len(self._sigmas())} sigmas. "
                f"Received: {len(self.plans)} plans."
            )
        self._smoothing = Smoothing(method, truncation, padding, compensate_integration, jet_order)
        self._check()
        self._terms = jet_terms(jet_order, zero_order)
        self._discretisation = discretisation_of(method)
        self._fused = is_fused(method, jet_order)

    def build(self, input_shape):
        shapes = self._as_list(input_shape, of_shapes=True)
        channels = {shape[-1] for shape in shapes}
        if len(channels) != 1 or None in channels:
            raise ValueError(
                f"All inputs must have the same known number of channels. Received: {input_shape}."
            )
        self._plans = self._plans_for(shapes)
        self._any_size = self.plans is None and any(None in shape[1:3] for shape in shapes)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(len(self._terms), channels.pop(), self.filters),
            initializer="he_uniform",
            autocast=False,  # sigma is folded in before it is rounded
        )
        self.bias = self.ratio = None
        if self.use_bias:
            self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer="zeros")
        if self.learned_ratio is not None:
            self.ratio = self.add_weight(
                name=LEARNED_RATIO,
                shape=(),
                initializer=keras.initializers.Constant(self.learned_ratio),
                constraint=Clamp(*self.ratio_range),
                autocast=False,
            )

    def constants(self, channel: int = 0) -> JetConstants:
        """One scale channel as plain numbers, for programs that compute the layer elsewhere."""
        plan = self._plans[channel]
        row = self._discretisation
        kernels = [
            tuple(self._kernel(axis, plan.sigma, k) for k in row.orders(self.jet_order))
            for axis in (plan.rows, plan.columns)
        ]
        spacing = plan.rows.output.spacing if row.hybrid else plan.rows.domain.spacing
        sigma = float(ops.convert_to_numpy(self._factor(plan.sigma))) / spacing
        factors = np.array([term.factor * sigma**term.order for term in self._terms])
        kernel = ops.convert_to_numpy(self.kernel).astype("float64")
        return JetConstants(
            plan=plan,
            terms=self._terms,
            rows=kernels[0],
            columns=kernels[1],
            coefficients=kernel * factors[:, None, None],
            bias=np.zeros(self.filters)
            if self.bias is None
            else ops.convert_to_numpy(self.bias).astype("float64"),
        )

    def call(self, inputs):
        outputs = [
            self._respond(tensor, plan)
            for tensor, plan in zip(self._as_list(inputs), self._plans, strict=True)
        ]
        return outputs if isinstance(inputs, (list, tuple)) else outputs[0]

    def _respond(self, image, plan):
        if image.shape[0] == 0:  # TensorFlow gives an empty convolution the shape of its input
            size = image.shape[1:3] if self._any_size else plan.output_size
            return ops.zeros((0, *size, self.filters), self.compute_dtype)
        image = ops.cast(image, self.compute_dtype)  # Keras leaves integers as they are
        if self._any_size:
            image, rows = self._padded(image, plan)
            columns = rows
        else:
            image = _centre_crop(image, plan)
            rows = self._operators(plan.rows, plan.sigma)
            columns = self._operators(plan.columns, plan.sigma)
        if self._fused:
            smoothed = apply_columns(apply_rows(image, rows[0]), columns[0])
            response = ops.conv(
                smoothed, self._convolution(plan), padding="valid", data_format="channels_last"
            )
        else:
            response = self._stacked(image, rows, columns)
        return response if self.bias is None else response + self.bias

    def _padded(self, image, plan):
        """An image of any size with its padding, and the kernels that slide along it.

        The plan is that of a single pixel. Kernels get the same length, so that one padding serves
        all of them.
        """
        kernels = [operator.kernel for operator in self._operators(plan.rows, plan.sigma)]
        length = max(map(len, kernels))
        kernels = [np.pad(kernel, (length - len(kernel)) // 2) for kernel in kernels]
        ring = plan.rows.ring if self._fused else 0
        return pad_any_size(image, length // 2 + ring, self.padding), kernels

    def _convolution(self, plan):
        """The 3x3 kernel sum_d C_d sigma**|d| factor_d mask_d."""
        masks = (
            jet_masks(self.jet_order, self.zero_order)
            .astype("float32")
            .reshape(len(self._terms), 9)
        )
        sigma = self._factor(plan.sigma) / plan.rows.output.spacing
        powers = ops.stack([ops.convert_to_tensor(sigma**t.order, "float32") for t in self._terms])
        scaled = ops.convert_to_tensor(masks.T) * powers
        kernel = ops.matmul(scaled, ops.reshape(self.kernel, (len(self._terms), -1)))
        kernel = ops.reshape(kernel, (3, 3, *self.kernel.shape[1:]))
        return ops.cast(kernel, self.compute_dtype)

    def _stacked(self, image, rows, columns):
        """Every derivative on its own, then one matrix product over all of them."""
        along_y = {y: apply_rows(image, rows[y]) for y in {term.y for term in self._terms}}
        stack = [apply_columns(along_y[term.y], columns[term.x]) for term in self._terms]
        factors = np.array([term.factor for term in self._terms], "float32")
        kernel = self.kernel * ops.convert_to_tensor(factors[:, None, None])
        kernel = ops.reshape(kernel, (-1, self.filters))  # (term, input) as one axis
        stack = ops.concatenate(stack, axis=-1)
        return ops.matmul(stack, ops.cast(kernel, self.compute_dtype))

    def _operators(self, axis, sigma):
        """Order 0 … jet_order along one axis, normalised; only order 0 if fused.

        `Correlation`s, or, if the scale is learned, matrices that depend on it.
        """
        highest = 0 if self._fused else self.jet_order
        if self.learned_ratio is None:
            return correlations(axis, sigma, self._smoothing, highest)
        orders = range(highest + 1)
        if self._discretisation.hybrid:
            matrix, spacing = self._learned_matrix(axis, sigma, 0), axis.output.spacing
            plain = [matrix_difference(matrix, axis, k) for k in orders] if highest else [matrix]
        else:
            spacing = axis.domain.spacing
            plain = [self._learned_matrix(axis, sigma, k) for k in orders]
        sigma = self._factor(sigma) / spacing
        return [matrix * sigma**k for k, matrix in enumerate(plain)]

    def _learned_matrix(self, axis, sigma, order):
        weights = self._learned_kernel(axis, sigma, order)
        places = placement(axis, weights.shape[0], self.padding)
        return ops.tensordot(weights, ops.convert_to_tensor(places), axes=1)

    def _kernel(self, axis, sigma, order):
        if self.learned_ratio is None:
            return axis_kernel(axis, sigma, self._smoothing, order)
        kernel = self._learned_kernel(axis, sigma, order)
        return ops.convert_to_numpy(kernel).astype("float64")

    def _learned_kernel(self, axis, sigma, order):
        offset = offset_of(axis)
        largest = sigma * self.ratio_range[1] / self.learned_ratio / axis.domain.spacing
        radius = kernel_radius(largest, self._smoothing, offset)
        return learned_kernel(
            self._factor(sigma) / axis.domain.spacing,
            order,
            method=self.method,
            radius=radius,
            offset=offset,
            compensate_integration=self.compensate_integration,
        )

    def _factor(self, sigma):
        """`sigma` itself, or the tensor that has been learned in its place."""
        if self.ratio is None:
            return sigma
        return sigma / self.learned_ratio * ops.cast(self.ratio, "float32")

    def _plans_for(self, shapes):
        return self.plans or tuple(map(self._dense_plan, shapes, self._sigmas()))

    def _dense_plan(self, shape, sigma):
        if len(shape) != 4 or shape[-1] is None:
            raise ValueError(
                "`JetLayer` takes images, (batch, height, width, channels). "
                f"Received: input_shape={shape}."
            )
        size, largest = tuple(shape[1:3]), sigma
        if self.learned_ratio is not None:
            if None in size:
                raise ValueError(
                    "`JetLayer` with a `learned_ratio` takes images of known size. "
                    f"Received: input_shape={shape}."
                )
            largest = sigma * self.ratio_range[1] / self.learned_ratio
        plan = plan_channel(
            (1, 1) if None in size else size,
            sigmas=(sigma,),
            smoothing=self._smoothing,
            ring=discretisation_of(self.method).ring(self.jet_order),
            radius_sigmas=(largest,),
            window=False,
        )
        return plan.layers[0]

    def _check(self):
        check_choice("jet_order", self.jet_order, JET_ORDERS)
        check_choice("padding", self.padding, PADDINGS)
        if not self._sigmas():
            raise ValueError("`sigma` must have at least one scale. Received: sigma=().")
        for sigma in self._sigmas():
            kernel_radius(sigma, self._smoothing)  # raises an error if there is no kernel
        if self.learned_ratio is not None:
            low, high = self.ratio_range
            if not SIGMA_RANGE[0] <= low <= self.learned_ratio <= high:
                raise ValueError(
                    "`ratio_range` must be (low, high) with 0.001 <= low <= learned_ratio <= high. "
                    f"Received: ratio_range={self.ratio_range}, learned_ratio={self.learned_ratio}."
                )
            kernel_radius(min(self._sigmas()) * low / self.learned_ratio, self._smoothing)

    def _sigmas(self):
        return self.sigma if isinstance(self.sigma, tuple) else (self.sigma,)

    def _as_list(self, inputs, of_shapes=False):
        several = isinstance(inputs[0] if of_shapes else inputs, (list, tuple))
        if several != isinstance(self.sigma, tuple) or (several and len(inputs) != len(self.sigma)):
            raise ValueError(
                "`JetLayer` takes one tensor for one sigma and a list of tensors for a tuple of "
                f"sigmas. Received: sigma={self.sigma}, "
                f"{f'{len(inputs)} tensors' if several else 'one tensor'}."
            )
        return list(inputs) if several else [inputs]

    def compute_output_shape(self, input_shape):
        shapes = self._as_list(input_shape, of_shapes=True)
        outputs = [
            (shape[0], *(shape[1:3] if None in shape[1:3] else plan.output_size), self.filters)
            for shape, plan in zip(shapes, self._plans_for(shapes), strict=True)
        ]
        return outputs if isinstance(self.sigma, tuple) else outputs[0]

    def get_config(self):
        return {
            **super().get_config(),
            "filters": self.filters,
            "sigma": self.sigma,
            "jet_order": self.jet_order,
            "zero_order": self.zero_order,
            "method": self.method,
            "padding": self.padding,
            "truncation": self.truncation,
            "compensate_integration": self.compensate_integration,
            "use_bias": self.use_bias,
            "learned_ratio": self.learned_ratio,
            "ratio_range": self.ratio_range,
            "plans": self.plans and [plan.to_list() for plan in self.plans],
        }

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        if "compensate" in config:  # a file of an earlier version: nothing to warn about
            config["compensate_integration"] = config.pop("compensate")
        return super().from_config(config)


@keras.saving.register_keras_serializable(package="gdn_keras")
class Clamp(keras.constraints.Constraint):
    """Keep a weight between `low` and `high`."""

    @checked
    def __init__(self, low: float, high: float):
        check_number("high", high, low=low, expected=f"at least `low`, {low}")
        self.low, self.high = low, high

    def __call__(self, weight):
        return ops.clip(weight, self.low, self.high)

    def get_config(self):
        return {"low": self.low, "high": self.high}


def is_fused(method: str, jet_order: int) -> bool:
    """Whether a jet is one 3x3 convolution of the smoothed image; else derivatives are stacked."""
    return discretisation_of(method).hybrid and jet_order <= 2


def _centre_crop(image, plan):
    for dimension, axis in ((1, plan.rows), (2, plan.columns)):
        excess = image.shape[dimension] - axis.window.count
        if excess not in (0, axis.domain.count - axis.window.count):
            raise ValueError(
                f"The layer was built for images of {plan.rows.domain.count} x "
                f"{plan.columns.domain.count} samples. Received: {tuple(image.shape)}."
            )
        if excess:
            part = slice(excess // 2, excess // 2 + axis.window.count)
            image = image[:, part] if dimension == 1 else image[:, :, part]
    return image
