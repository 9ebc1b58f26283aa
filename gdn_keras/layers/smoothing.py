"""Kernels along the rows and columns of images: products with matrices, or sliding."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
from keras import ops

from gdn_keras.scale_space import (
    difference_kernel,
    difference_mask,
    discretisation_of,
    scale_normalisation,
)
from gdn_keras.scale_space.plan import Correlation, axis_kernel


@lru_cache(maxsize=4096)
def correlations(axis, sigma, smoothing, highest):
    """Smoothing, or with `highest` above 0 the normalised derivatives up to that order."""
    orders = range(highest + 1)
    if discretisation_of(smoothing.method).hybrid:
        spacing, step = axis.output.spacing, axis.output.spacing // axis.domain.spacing
        kernel = axis_kernel(axis, sigma, smoothing)
        kernels = [difference_kernel(kernel, k, step=step) for k in orders]
        axis = replace(axis, ring=0) if highest else axis  # the differences are in the kernels
    else:
        spacing = axis.domain.spacing
        kernels = [axis_kernel(axis, sigma, smoothing, k) for k in orders]
    return tuple(
        Correlation(axis, kernel * scale_normalisation(sigma / spacing, k), smoothing.padding)
        for k, kernel in enumerate(kernels)
    )


def apply_rows(image, operator):
    """Along the rows; `operator` is a `Correlation`, a matrix, or a kernel without padding."""
    if _slides(operator):
        return _slide(image, operator, dimension=1)
    _, height, width, channels = image.shape
    flat = ops.reshape(image, (-1, height, width * channels))
    product = _product(operator, flat)
    return ops.reshape(product, (-1, product.shape[1], width, channels))


def apply_columns(image, operator):
    if _slides(operator):
        return _slide(image, operator, dimension=2)
    _, height, width, channels = image.shape
    product = _product(operator, ops.reshape(image, (-1, width, channels)))
    return ops.reshape(product, (-1, height, product.shape[1], channels))


def _product(operator, tensor):
    if isinstance(operator, Correlation):
        operator = ops.convert_to_tensor(operator.matrix.astype("float32"))
    return ops.matmul(ops.cast(operator, tensor.dtype), tensor)


def _slides(operator):
    if isinstance(operator, Correlation):
        return operator.slides
    return isinstance(operator, np.ndarray) and operator.ndim == 1


def _slide(image, operator, *, dimension):
    """The correlation as a depthwise convolution of the padded image."""
    kernel = operator
    if isinstance(operator, Correlation):
        image, kernel = _padded(image, operator.samples, dimension), operator.kernel
    shape = [1, 1, 1, 1]
    shape[dimension - 1] = len(kernel)
    kernel = np.tile(kernel.astype("float32").reshape(shape), (1, 1, image.shape[-1], 1))
    kernel = ops.cast(ops.convert_to_tensor(kernel), image.dtype)
    return ops.depthwise_conv(image, kernel, padding="valid", data_format="channels_last")


def _padded(image, samples, dimension):
    """The `samples` of an image along one dimension, -1 for zeros: its middle is not copied."""
    goes_on = (np.diff(samples) == 1) & (samples[:-1] >= 0)
    breaks = np.flatnonzero(~goes_on)  # before the middle, or after it
    first = int(max(breaks[breaks < len(samples) // 2] + 1, default=0))
    last = int(min(breaks[breaks >= len(samples) // 2], default=len(samples) - 1))
    middle = [slice(None)] * 4
    middle[dimension] = slice(int(samples[first]), int(samples[last]) + 1)
    before, after = samples[:first], samples[last + 1 :]
    image_middle = image[tuple(middle)]
    if (before < 0).all() and (after < 0).all():
        zeros = [(0, 0)] * 4
        zeros[dimension] = (len(before), len(after))
        return ops.pad(image_middle, zeros) if len(before) or len(after) else image_middle
    parts = [ops.take(image, part, axis=dimension) for part in (before, after) if len(part)]
    parts.insert(1 if len(before) else 0, image_middle)
    return ops.concatenate(parts, axis=dimension)


def pad_any_size(image, radius, padding):
    """`radius` more samples on all four sides of images whose size is not known beforehand."""
    if padding == "zero":
        return ops.pad(image, [(0, 0), (radius, radius), (radius, radius), (0, 0)])
    for dimension in (1, 2):
        count = ops.shape(image)[dimension]
        index = ops.arange(-radius, count + radius)
        if padding == "edge":
            index = ops.clip(index, 0, count - 1)
        else:  # the edge is repeated only by "mirror"; reflections of reflections, if need be
            repeated = int(padding == "mirror")
            period = ops.maximum(2 * (count - 1 + repeated), 1)
            index = index % period
            index = ops.minimum(index, period - repeated - index)
            index = ops.minimum(index, count - 1)
        image = ops.take(image, index, axis=dimension)
    return image


def matrix_difference(matrix, axis, order):
    """Central differences of a smoothing matrix's rows: (count + 2 ring) -> count of them."""
    mask = difference_mask(order)
    first = axis.ring - len(mask) // 2
    return sum(
        float(weight) * matrix[first + n : first + n + axis.output.count]
        for n, weight in enumerate(mask)
        if weight
    )
