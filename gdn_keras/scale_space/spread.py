"""Spatial spread of discrete derivative kernels (appendix A.2)."""

import numpy as np

from gdn_keras.utils.checks import checked


@checked
def spatial_spread(kernel: np.ndarray) -> float:
    """Standard deviation of |kernel|, the measure S of how far a derivative kernel reaches.

    S = sqrt(V), V = sum n**2 |w[n]| / sum |w[n]| - (sum n |w[n]| / sum |w[n]|)**2. It compares
    discretisations where the same sigma means different amounts of smoothing; at coarse scales
    S is sigma for order 0 and sqrt(2) sigma for order 1. Truncation makes S smaller: give a
    kernel with a generous radius.
    """
    weights = np.abs(np.asarray(kernel, dtype=float))
    if weights.ndim != 1 or not np.isfinite(weights).all() or not weights.sum() > 0:
        raise ValueError(
            "`kernel` must be one-dimensional with finite weights that are not all zero. "
            f"Received: kernel={kernel!r}."
        )
    positions = np.arange(len(weights))
    mean = np.average(positions, weights=weights)
    return float(np.sqrt(np.average((positions - mean) ** 2, weights=weights)))
