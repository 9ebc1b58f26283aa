"""Exports as files: written under another name, run, compared with Keras, and only then kept."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np

from gdn_keras import datasets
from gdn_keras.classify import FILLS, as_in_training
from gdn_keras.model import GaussDerNet, adapt, fold
from gdn_keras.utils.image_files import PAD_MODES
from gdn_keras.zoo import ModelInfo

from . import verify


@contextlib.contextmanager
def kept_if_good(path: Path, *, has: str | None = None) -> Iterator[Path]:
    """A path to write to; what is there becomes `path` unless an exception is raised.

    Args:
        has: for folders, a file that every such folder has: without it, an old folder at `path`
            belongs to someone else and stays.
    """
    if path.is_dir():
        if has is None:
            raise IsADirectoryError(f"The output must be a file. Received: the folder {path}.")
        if any(path.iterdir()) and not (path / has).is_file():
            raise FileExistsError(f"{path} is a folder of other files, which are not replaced.")
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        new, old = folder / path.name, folder / "old"
        yield new
        try:
            if path.is_dir():
                path.rename(old)
            new.replace(path)
        except BaseException:
            if old.exists() and not path.exists():
                old.rename(path)
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_onnx(model: GaussDerNet, path: Path, *, info: ModelInfo, **options) -> float:
    """Write an ONNX file and return its largest deviation from Keras; options as `to_onnx`."""
    import onnx

    from .onnx_model import operators

    with kept_if_good(path) as new:
        worst = save_checked(model, new, info=info, **options)
        length, counts = new.stat().st_size, operators(onnx.load(new))
    nodes = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    print(f"{path}: {length:,} bytes, max deviation from Keras {worst:.1e}\n  {nodes}")
    return worst


def save_checked(
    model: GaussDerNet, path: Path, *, info: ModelInfo, dynamic_size: bool = False, **options
) -> float:
    """Write to `path` at once, then compare with Keras: inside `kept_if_good`."""
    import onnx

    from .onnx_model import to_onnx

    # of the network as it was trained, whatever size is exported
    if info.dataset in datasets.names():
        trained = dict(dataset=info.dataset, train_sizes=info.train_sizes)
        side, surroundings = as_in_training(info.config, **trained)
    else:  # of somebody's own
        side, surroundings = None, FILLS[info.config.padding]
    metadata = {
        "name": info.name,
        "dataset": info.dataset,
        "licence": info.licence,
        "trained_size": json.dumps(info.config.input_size),
        "trained_side": str(side or "fills"),  # images filled the input
        "surroundings": PAD_MODES[surroundings],
    }
    onnx.save(to_onnx(model, dynamic_size=dynamic_size, metadata=metadata, **options), path)
    run = verify.onnx_runner(path)
    worst = verify.compare(model, run, dataset=info.dataset)
    for size in _other_sizes(model.config.input_size) if dynamic_size else ():
        print(f" size {size[0]}x{size[1]}")
        other = adapt(model, input_size=size)
        worst = max(worst, verify.compare(other, run, dataset=info.dataset))
    return worst


def _other_sizes(size: tuple[int, int]) -> list[tuple[int, int]]:
    height, width = size
    return [(height + 1, width), (height + 9, 2 * width - 3)]


def write_saved_model(model: GaussDerNet, path: Path, *, info: ModelInfo) -> float:
    """Write a SavedModel with one signature, `image` to `logits`; needs no gdn_keras to load."""
    import tensorflow as tf

    module = _tensorflow_module(model)
    with kept_if_good(path, has="saved_model.pb") as new:
        tf.saved_model.save(module, str(new), signatures={"serving_default": module.serve})
        loaded = tf.saved_model.load(str(new)).signatures["serving_default"]

        def run(images: np.ndarray) -> dict[str, np.ndarray]:
            return {"logits": loaded(image=tf.constant(images))["logits"].numpy()}

        worst = verify.compare(model, run, dataset=info.dataset)
    print(f"{path}: max deviation from Keras {worst:.1e}")
    return worst


def write_litert(model: GaussDerNet, path: Path, *, info: ModelInfo) -> float:
    """Write a LiteRT (TensorFlow Lite) file with one signature, `image` to `logits`."""
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    module = _tensorflow_module(model)
    function = module.serve.get_concrete_function()
    content = tf.lite.TFLiteConverter.from_concrete_functions([function], module).convert()
    with kept_if_good(path) as new:
        new.write_bytes(content)
        runner = Interpreter(model_path=str(new)).get_signature_runner("serving_default")
        worst = verify.compare(model, lambda images: runner(image=images), dataset=info.dataset)
    print(f"{path}: {len(content):,} bytes, max deviation from Keras {worst:.1e}")
    return worst


def _tensorflow_module(model: GaussDerNet):
    """The folded network as a `tf.Module` that holds each variable once; `serve` runs it."""
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "SavedModel and LiteRT need the TensorFlow backend of Keras: set "
            f"KERAS_BACKEND=tensorflow. Received: {keras.backend.backend()!r}."
        )
    import tensorflow as tf

    folded = fold(model)
    config = model.config
    shape = [None, *config.input_size, config.input_channels]
    module = tf.Module()
    module.weights = [weight.value for weight in folded.weights]

    @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32, name="image")])
    def serve(image):
        return {"logits": folded(image, training=False)}

    module.serve = serve
    return module
