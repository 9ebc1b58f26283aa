"""The steps that are timed, one function each; a worker imports only the library it runs.

Every function takes plain numbers and names, builds what it needs, and returns a step without
arguments. Images are noise: no operation here takes longer for one image than for another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from training import recipes


def images_and_labels(config, batch: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (batch, *config.input_size, config.input_channels)
    images = rng.integers(0, 256, shape).astype("float32")
    return images, rng.integers(0, config.num_classes, batch)


def our_training(
    *, recipe: str, batch: int, dtype: str = "float32", **changes: Any
) -> Callable[[], object]:
    """One step of the trainer: forward, backward, AdamW, metrics."""
    from training.budgets import recipe_stage
    from training.stages import build_stage_model, compile_model

    stage = recipe_stage(_with(recipe, changes), dtype=dtype)
    model = build_stage_model(stage, seed=0)
    compile_model(model, stage, 1000)
    images, labels = images_and_labels(stage.config, batch)
    return lambda: model.train_on_batch(images, labels)


def our_inference(
    *, recipe: str, batch: int, folded: bool = False, **changes: Any
) -> Callable[[], object]:
    from gdn_keras.model import build_model, fold

    config = _with(recipe, changes).config
    model = fold(build_model(config)) if folded else build_model(config)
    images, _ = images_and_labels(config, batch)
    return lambda: model.predict_on_batch(images)


def plain_training(*, recipe: str, batch: int) -> Callable[[], object]:
    import torch

    from benchmarks.plain_torch import PlainGaussDerNet

    settings = recipes.get(recipe)
    network = PlainGaussDerNet(settings.config).train()
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    images, labels = _to_torch(*images_and_labels(settings.config, batch))

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def plain_inference(*, recipe: str, batch: int) -> Callable[[], object]:
    import torch

    from benchmarks.plain_torch import PlainGaussDerNet

    config = recipes.get(recipe).config
    network = PlainGaussDerNet(config).eval()
    images, _ = _to_torch(*images_and_labels(config, batch))

    def step():
        with torch.inference_mode():
            return network(images)

    return step


def _with(recipe: str, changes: dict[str, Any]):
    settings = recipes.get(recipe)
    return dataclasses.replace(settings, config=settings.config.replace(**changes))


def _to_torch(images, labels):
    import torch

    return torch.tensor(images.transpose(0, 3, 1, 2)).contiguous(), torch.tensor(labels)
