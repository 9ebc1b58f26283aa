"""The network as one would program it from the paper's text, in PyTorch: what ours is compared to.

Every scale channel is computed on every pixel: separable smoothing by two depthwise convolutions,
five difference maps, a 1x1 convolution that mixes them, batch norm, ReLU. For 2-jets of smoothed
images (the hybrid discretisations). It walks the blocks of a config, and gives the logits of our
dense network for the same weights.
"""

from __future__ import annotations

import keras
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gdn_keras.config import Block, GaussDerNetConfig
from gdn_keras.model import GaussDerNet
from gdn_keras.scale_space import discretisation_of, jet_masks, jet_terms, smoothing_kernel

_PADDING = {"zero": "constant", "reflect": "reflect", "edge": "replicate"}


class PlainJet(nn.Module):
    """A jet layer: (batch, c_in, height, width) at one sigma to (batch, c_out, height, width)."""

    def __init__(self, block: Block, config: GaussDerNetConfig):
        super().__init__()
        self.config = config
        terms = len(block.terms)
        self.mix = nn.Conv2d(terms * block.c_in, block.c_out, 1, bias=block.norm is None)

    def forward(self, maps: torch.Tensor, sigma: float) -> torch.Tensor:
        channels = maps.shape[1]
        smooth, differences = _kernels(sigma, self.config.method, self.config.truncation)
        smooth = smooth.to(maps.dtype).expand(channels, 1, -1)
        # the differences look one pixel around the smoothed image
        radius = smooth.shape[-1] // 2 + 1
        maps = functional.pad(maps, (radius,) * 4, mode=_PADDING[self.config.padding])
        maps = functional.conv2d(maps, smooth[:, :, None, :], groups=channels)
        maps = functional.conv2d(maps, smooth[:, :, :, None], groups=channels)
        derivatives = functional.conv2d(
            maps, differences.to(maps.dtype).repeat(channels, 1, 1, 1), groups=channels
        )
        return self.mix(derivatives)


class PlainGaussDerNet(nn.Module):
    """(batch, channels, height, width) of raw pixels to logits; all scale channels share all."""

    def __init__(self, config: GaussDerNetConfig):
        super().__init__()
        two_jets = all(block.terms == jet_terms(2) for block in config.blocks())
        smoothed = discretisation_of(config.method).hybrid and not config.learned_sigmas
        plain = two_jets and smoothed and config.activation == "relu"
        if not plain or config.padding not in _PADDING:
            raise ValueError(
                "The plain network has 2-jets at fixed scales, as differences of smoothed images, "
                f"without zero order, with ReLU, and pads every layer. Received: {config}."
            )
        self.config = config
        self.blocks = config.blocks()
        self.jets = nn.ModuleList(PlainJet(block, config) for block in self.blocks)
        # torch's momentum is the share of the new; ours is the share of the old
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(block.c_out, eps=1e-5, momentum=0.1) if block.norm else nn.Identity()
            for block in self.blocks
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        config = self.config
        maps = [images / config.pixel_range[1]] * len(config.channel_sigmas)
        for block, jet, norm in zip(self.blocks, self.jets, self.norms, strict=True):
            maps = [
                jet(tensor, first * block.relative_sigma)
                for tensor, first in zip(maps, config.channel_sigmas, strict=True)
            ]
            joined = norm(torch.cat(maps))  # statistics of all scale channels together
            maps = (functional.relu(joined) if block.activation else joined).chunk(len(maps))
        scale_logits = torch.stack([_select(tensor, config.spatial_selection) for tensor in maps])
        if config.scale_pooling == "average":
            return scale_logits.mean(0)
        if config.scale_pooling == "max":
            return scale_logits.amax(0)
        return scale_logits.logsumexp(0)

    def load(self, model: GaussDerNet) -> PlainGaussDerNet:
        """Take over the weights of a Keras network."""
        for block, jet, norm in zip(self.blocks, self.jets, self.norms, strict=True):
            source = model.get_layer(block.jet)
            kernel = _array(source.kernel)  # (term, c_in, c_out)
            jet.mix.weight.data = torch.tensor(
                kernel.transpose(2, 1, 0).reshape(kernel.shape[2], -1, 1, 1)
            )
            if block.norm is None:
                jet.mix.bias.data = torch.tensor(_array(source.bias))
                continue
            weights = model.get_layer(block.norm).weights
            names = ("weight", "bias", "running_mean", "running_var")
            for name, weight in zip(names, weights, strict=True):
                getattr(norm, name).data = torch.tensor(_array(weight))
        return self


def _array(weight) -> np.ndarray:
    return np.array(keras.ops.convert_to_numpy(weight))


def _kernels(sigma: float, method: str, truncation: float) -> tuple[torch.Tensor, torch.Tensor]:
    smooth = smoothing_kernel(sigma, method=method, truncation=truncation)
    powers = np.array([sigma**term.order for term in jet_terms(2)])
    differences = jet_masks(2) * powers[:, None, None]
    return torch.tensor(smooth), torch.tensor(differences[:, None])


def _select(maps: torch.Tensor, selection: str) -> torch.Tensor:
    if selection == "max":
        return maps.amax((2, 3))
    rows, columns = (slice((n - 1) // 2, n // 2 + 1) for n in maps.shape[2:])
    return maps[:, :, rows, columns].mean((2, 3))
