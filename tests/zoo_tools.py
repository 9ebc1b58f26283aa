"""Small real networks as zoo folders, for the tests."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
from helpers import randomise

from gdn_keras import GaussDerNetConfig, build_model, zoo
from gdn_keras.accuracy import size_keys
from gdn_keras.datasets import load_samples

CONFIGS = {
    "rescaled_fashion_mnist": dict(input_size=(72, 72), input_channels=1, padding="zero"),
    "fashion_mnist": dict(input_size=(28, 28), input_channels=1, padding="zero"),
    "rescaled_cifar10": dict(input_size=(64, 64), input_channels=3, padding="reflect"),
}


def tiny_config(dataset: str = "fashion_mnist", **changes) -> GaussDerNetConfig:
    settings = {
        "num_classes": 10,
        "channel_sigmas": (0.7, 1.4),
        "sigma_ratio": 1.3,
        "widths": (4, 5),
        "sampling_density": 2**-0.5,
        "class_names": load_samples(dataset).class_names,
        **CONFIGS[dataset],
        **changes,
    }
    return GaussDerNetConfig(**settings)


def tiny_model(config: GaussDerNetConfig, *, seed: int = 0):
    model = build_model(config)
    randomise(model, seed)
    return model


def write_tiny(root: Path, name: str, *, dataset: str = "fashion_mnist", seed: int = 0, **changes):
    """Write a small network as `root`/`name`, with metrics that are true where it matters."""
    config = tiny_config(dataset, **changes)
    model = tiny_model(config, seed=seed)
    samples = load_samples(dataset)
    logits = predict(model, samples.images)
    right = logits.argmax(axis=1) == samples.labels
    indices = tuple(range(0, 80, 10))
    accuracy = {key: 0.5 + 0.01 * n for n, key in enumerate(size_keys(dataset))}
    metrics = zoo.Metrics(
        dataset=dataset,
        split="test",
        num_test_images=10_000,
        sampling_density=config.sampling_density,
        accuracy=accuracy,
        mean_accuracy=float(np.mean(list(accuracy.values()))),
        golden=zoo.Golden(
            sample_set=dataset,
            indices=indices,
            logits=tuple(tuple(map(float, logits[k])) for k in indices),
        ),
        sample_accuracy=float(right.mean()),
        confusion=tuple((1,) * 10 for _ in range(10)),
        calibration_error=0.1,
        versions={"keras": keras.__version__},
    )
    recipe = {"name": name, "budget": "cpu", "seed": seed, "lineage": []}
    return zoo.write_folder(
        root / name,
        config=config,
        weights=model,
        metrics=metrics,
        recipe=recipe,
        card=f"# {name}\n",
        figures={"accuracy.png": b"not looked at"},
    )


def predict(model, images) -> np.ndarray:
    """In small batches: the maps of a hundred images take gigabytes, and the time to get them."""
    batches = (images[k : k + 20].astype("float32") for k in range(0, len(images), 20))
    return np.concatenate([keras.ops.convert_to_numpy(model(x, training=False)) for x in batches])


def weights_of(model) -> dict[str, np.ndarray]:
    return {
        f"{layer.name}/{weight.name}": weight.numpy()
        for layer in model.layers
        for weight in layer.weights
    }
