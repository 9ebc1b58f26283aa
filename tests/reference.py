"""A slow, obviously correct Gaussian derivative network: pyscsp kernels, scipy correlation.

Written from the equations alone. It shares no code with `gdn_keras`; weights come as plain arrays,
and which layers there are, as `config.blocks()`.
"""

from math import factorial

import numpy as np
from pyscsp import discscsp, gaussders
from scipy.ndimage import correlate
from scipy.stats import norm

SMOOTHING = {
    "discrete": discscsp.make1Ddiscgaussderfilter,
    "sampled": discscsp.make1Dsamplgaussdifffilter,
    "normalised": discscsp.make1Dnormsamplgaussdifffilter,
    "integrated": discscsp.make1Dintgaussdifffilter,
}
DERIVATIVE = {
    "sampled_derivative": gaussders.make1Dsamplgaussderfilter,
    "integrated_derivative": gaussders.make1Dintgaussderfilter,
}
DIFFERENCE = {
    0: [1],
    1: [-1 / 2, 0, 1 / 2],
    2: [1, -2, 1],
    3: [-1 / 2, 1, 0, -1, 1 / 2],
    4: [1, -4, 6, -4, 1],
}
ACTIVATION = {
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: x * norm.cdf(x),
    "tanh": np.tanh,
}
# times along x (rightwards) and y (downwards)
TERMS = {1: [(1, 0), (0, 1)]}
TERMS[2] = TERMS[1] + [(2, 0), (1, 1), (0, 2)]
TERMS[3] = TERMS[2] + [(3, 0), (2, 1), (1, 2), (0, 3)]
TERMS[4] = TERMS[3] + [(4, 0), (3, 1), (2, 2), (1, 3), (0, 4)]
SCIPY_PADDING = {"zero": "constant", "reflect": "mirror", "edge": "nearest", "mirror": "reflect"}


def radius_of(make, orders, sigma, truncation):
    """The smallest radius with at most `truncation` of every kernel outside."""
    far = int(12 * sigma) + 12
    for radius in range(far):
        kernels = [np.abs(make(order, sigma, far)) for order in orders]
        outside = [1 - k[far - radius : far + radius + 1].sum() / k.sum() for k in kernels]
        if max(outside) <= truncation:
            return radius
    raise AssertionError("no radius is large enough")


def kernel_1d(method, sigma, order, truncation, jet_order):
    """Correlation weights; pyscsp's are convolution kernels, so they are flipped."""
    if method in SMOOTHING:
        make = SMOOTHING[method]
        radius = radius_of(make, [0], sigma, truncation)
        return np.convolve(make(0, sigma, radius)[::-1], DIFFERENCE[order])
    make = DERIVATIVE[method]
    radius = radius_of(make, range(max(3, jet_order) + 1), sigma, truncation)
    return make(order, sigma, radius)[::-1]


def jet_layer(image, kernel, *, sigma, jet_order, zero_order, method, padding, truncation):
    """sum_d C_d sigma**|d| / (x! y!) L_d for every output channel; `image` is (y, x, channel)."""
    terms = ([(0, 0)] if zero_order else []) + TERMS[jet_order]
    assert len(terms) == len(kernel)
    output = np.zeros((*image.shape[:2], kernel.shape[-1]))
    for (x, y), coefficients in zip(terms, kernel, strict=True):
        rows, columns = (kernel_1d(method, sigma, n, truncation, jet_order) for n in (y, x))
        mask = np.outer(rows, columns)
        factor = sigma ** (x + y) / (factorial(x) * factorial(y))
        for channel in range(image.shape[-1]):
            derivative = correlate(image[..., channel], mask, mode=SCIPY_PADDING[padding])
            output += factor * derivative[..., None] * coefficients[channel]
    return output


def scale_channel(image, weights, config, first_sigma):
    """The final map of one scale channel; `weights[k]` holds arrays by the names Keras gives."""
    features = image / 255.0
    margin = 0
    if config.padding == "mirror":  # the image goes on; what is outside is cut off in the end
        margin = sum(int(7 * first_sigma * block.relative_sigma) + 7 for block in config.blocks())
        features = np.pad(features, ((margin, margin), (margin, margin), (0, 0)), mode="symmetric")
    for block, layer in zip(config.blocks(), weights, strict=True):
        features = jet_layer(
            features,
            layer["kernel"],
            sigma=first_sigma * block.relative_sigma,
            jet_order=block.jet_order,
            zero_order=block.zero_order,
            method=config.method,
            padding=config.padding,
            truncation=config.truncation,
        )
        features = features + layer.get("bias", 0.0)
        if block.norm:
            deviation = np.sqrt(layer["moving_variance"] + 1e-5)
            features = (features - layer["moving_mean"]) / deviation
            features = features * layer["gamma"] + layer["beta"]
        if block.activation:
            features = ACTIVATION[block.activation](features)
    return features[margin : margin + len(image), margin : margin + image.shape[1]]


def select(features, selection):
    if selection == "max":
        return features.max(axis=(0, 1))
    height, width = features.shape[:2]
    middle = features[(height - 1) // 2 : height // 2 + 1, (width - 1) // 2 : width // 2 + 1]
    return middle.mean(axis=(0, 1))


def pool(scale_logits, pooling):
    if pooling == "max":
        return scale_logits.max(axis=0)
    if pooling == "average":
        return scale_logits.mean(axis=0)
    return np.log(np.exp(scale_logits).sum(axis=0))


def network(image, weights, config):
    """(logits, scale logits, final maps) of one image."""
    maps = [scale_channel(image, weights, config, sigma) for sigma in config.channel_sigmas]
    scale_logits = np.stack([select(m, config.spatial_selection) for m in maps])
    return pool(scale_logits, config.scale_pooling), scale_logits, maps
