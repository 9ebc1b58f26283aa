"""Parameters and multiply-adds of a network, from its config alone."""

from __future__ import annotations

from gdn_keras.config import EVERY_PIXEL, GaussDerNetConfig
from gdn_keras.layers.jet import is_fused
from gdn_keras.model import channel_plans
from gdn_keras.utils.checks import checked


@checked
def count_parameters(config: GaussDerNetConfig, *, as_paper: bool = False) -> int:
    """Trainable parameters; `as_paper` counts one constant per pair of channels and no batch norm.

    The constants of all inputs of a feature act only as their sum, and batch norm takes that away,
    so the network itself has none of them.
    """
    total = 0
    for block in config.blocks():
        pairs, terms = block.c_in * block.c_out, len(block.terms)
        if as_paper:
            total += (terms + 1) * pairs
        else:
            total += terms * pairs + (2 if block.norm else 1) * block.c_out
            total += config.learned_sigmas
    return total


@checked
def count_multiply_adds(config: GaussDerNetConfig, *, dense: bool = False) -> int:
    """Multiply-adds for one image: the matrix products and convolutions of the sampling plan.

    Dense: the same operations on every pixel of the whole image in every layer.
    """
    if dense:  # of the image alone, even if it is extended; padding costs nothing
        config = config.replace(padding="zero", window=False, **EVERY_PIXEL)
    total = 0
    for plan in channel_plans(config):
        for block, layer in zip(config.blocks(), plan.layers, strict=True):
            c_in, c_out = block.c_in, block.c_out
            (h, w), ring = layer.output_size, layer.rows.ring
            rows, columns = layer.rows.window.count, layer.columns.window.count
            if is_fused(config.method, block.jet_order):
                h_, w_ = h + 2 * ring, w + 2 * ring
                total += c_in * (h_ * rows * columns + h_ * w_ * columns) + 9 * h * w * c_in * c_out
            else:
                terms, orders = len(block.terms), block.jet_order + 1
                total += c_in * (orders * h * rows * columns + terms * h * w * columns)
                total += terms * h * w * c_in * c_out
    return total
