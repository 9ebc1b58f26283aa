"""The proof that an exported network computes what Keras computes."""

from __future__ import annotations

import os
from collections.abc import Callable

import keras
import numpy as np

from gdn_keras.datasets import describe
from gdn_keras.model import GaussDerNet
from gdn_keras.utils.image_files import place

BATCHES = (1, 3, 8)
TOLERANCE = 1e-4


class ParityError(ValueError):
    """An export that does not compute what the network computes."""


def check_images(model: GaussDerNet, *, dataset: str):
    """For each of `BATCHES` the bundled samples of the data set, and random images."""
    rng = np.random.default_rng(0)
    shape = (*model.config.input_size, model.config.input_channels)
    samples = _samples(dataset, shape)
    white = model.config.pixel_range[1]
    for batch in BATCHES:
        if samples is not None:
            yield f"{batch} samples", samples[:batch] * (white / 255)
        pixels = rng.integers(0, 256, (batch, *shape)).astype("float32")
        yield f"{batch} random", pixels * (white / 255)


def _samples(dataset: str, shape: tuple[int, int, int]) -> np.ndarray | None:
    """Sample images cut or mirrored to a size; None if the data set has none of this kind."""
    samples = describe(dataset).samples
    if samples is None:
        return None
    images = samples.load().images.astype("float32")
    if images.shape[3] != shape[2]:
        return None
    return place(images, size=shape[:2], mode="symmetric")


def compare(
    model: GaussDerNet, run: Callable[[np.ndarray], dict[str, np.ndarray]], *, dataset: str
) -> float:
    """Largest deviation of `run`'s outputs from Keras; raises `ParityError` above `TOLERANCE`.

    `run` maps float32 images to outputs by name: `logits`, and maybe `scale_logits` and
    `selected_scale`.
    """
    scale_logits = model.scale_logits_model().output
    both = keras.Model(model.input, {"logits": model.output, "scale_logits": scale_logits})
    worst = 0.0
    for name, images in check_images(model, dataset=dataset):
        expected = keras.tree.map_structure(
            keras.ops.convert_to_numpy, both(images, training=False)
        )
        outputs = run(images)
        selected = outputs.pop("selected_scale", None)
        deviations = [np.abs(value - expected[key]).max() for key, value in outputs.items()]
        if selected is not None:
            deviations.append(_shortfall(selected, **expected))
        # Python's max drops what is not a number, numpy's keeps it
        deviation = float(np.max(deviations))
        print(f"  {name}: max deviation from Keras {deviation:.1e}")
        worst = max(worst, np.inf if np.isnan(deviation) else deviation)
    if worst > TOLERANCE:
        raise ParityError(
            f"The export deviates from Keras by {worst:.1e}; at most {TOLERANCE:.0e} is allowed. "
            "No file was kept."
        )
    return worst


def _shortfall(selected: np.ndarray, *, logits: np.ndarray, scale_logits: np.ndarray) -> float:
    """How far the selected scale channels are below the best ones; rounding may swap equals."""
    rows = np.arange(len(logits))
    outputs = scale_logits[rows, :, logits.argmax(axis=1)]
    return float((outputs.max(axis=1) - outputs[rows, selected]).max())


def onnx_runner(
    model: str | os.PathLike | bytes, *, threads: int = 0
) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Runs a file, or its content, in onnxruntime; the input is cast to the required type.

    Args:
        threads: 0: as many as there are cores.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # others work too
    source = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    dtype = np.uint8 if entry.type == "tensor(uint8)" else np.float32
    names = [output.name for output in session.get_outputs()]

    def run(images: np.ndarray) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, {entry.name: images.astype(dtype)}), strict=True))

    return run
