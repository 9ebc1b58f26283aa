"""Measure a finished network on the full test set, at every size, resumable."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.special import softmax

from gdn_keras import datasets
from gdn_keras.accuracy import predict_batches, test_sets
from gdn_keras.config import EVERY_PIXEL
from gdn_keras.datasets import Arrays
from gdn_keras.explain import pool_over_scales, scale_shares
from gdn_keras.model import GaussDerNet, adapt, at_scale, fold
from gdn_keras.parts import load_part
from gdn_keras.utils.files import replace_file

from .. import PROGRAM
from ..devices import gpu_capability
from ..recipes import Recipe

EVALUATION = "evaluation.json"
BATCH = 100
ONNX_BATCH = 4  # of each thread, the fastest
# as trained; on every pixel; all sigmas times the size factor (one scale channel, appendix A.1)
MODES = ("trained", "exact", "matched")


@dataclass(frozen=True)
class SizeResult:
    """What is measured at one size; counts and shares, so that nothing is lost by rounding."""

    correct: int
    images: int
    histograms: dict[str, list[float]]  # all / correct / wrong -> mean share of every channel
    confusion: list[list[int]]  # true class, predicted class
    calibration_error: float
    seconds: float
    onnxruntime: str | None = None  # its version; None if Keras computed the network


@dataclass(frozen=True)
class Network:
    """What is measured: raw pixels 0…255 -> (batch, scale channel, class)."""

    predict: Callable[[np.ndarray], np.ndarray]
    onnxruntime: str | None = None


def test_sizes(recipe: Recipe) -> dict[str, float]:
    """Key in the metrics -> size factor, or object size in pixels."""
    sizes = datasets.get(recipe.dataset).sizes
    return dict(zip(sizes.keys, sizes.values, strict=True))


def measure_sizes(
    model: GaussDerNet,
    *,
    recipe: Recipe,
    folder: Path,
    mode: str = "trained",
    split: str = "test",
    limit: int | None = None,
    data_dir: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, SizeResult] | None:
    """Results per size, kept in the run's folder; sizes already there are not measured again.

    `limit` uses that many images, spread over the split, and a separate file.

    None if `stop()` said so before all sizes were done. Call it under the run's lock.
    """
    file = _file(folder, mode, split if limit is None else f"{split}{limit}")
    done = _read(file)
    missing = [key for key in test_sizes(recipe) if key not in done]
    if missing:
        _check_mode(mode, model, recipe)
        network = None if mode == "matched" else network_in(mode, model)
        for key, data in test_sets(recipe.dataset, missing, split=split, data_dir=data_dir):
            if mode == "matched":
                network = network_in(mode, at_scale(model, test_sizes(recipe)[key]))
            label = f"{recipe.name} {'' if mode == 'trained' else mode + ' '}{key}"
            pooling = model.config.scale_pooling
            result = measure(network, data.spread(limit), pooling=pooling, label=label, stop=stop)
            if result is None:
                return None
            done[key] = vars(result)
            replace_file(file, content=json.dumps(done) + "\n")
    return {key: SizeResult(**done[key]) for key in test_sizes(recipe)}


def network_in(mode: str, model: GaussDerNet) -> Network:
    """What `measure` measures; for matched sigmas, give the model at the scale of the size.

    On a CPU, onnxruntime computes it if it is installed; benchmarks/README.md says how much faster.
    """
    model = adapt(model, **EVERY_PIXEL) if mode == "exact" else model
    installed = find_spec("onnx") and find_spec("onnxruntime")
    return (onnx_network if installed and gpu_capability() is None else keras_network)(model)


def keras_network(model: GaussDerNet) -> Network:
    return Network(fold(model).scale_logits_model().predict_on_batch)


def onnx_network(model: GaussDerNet) -> Network:
    onnx_model = load_part("export.onnx_model")
    content = onnx_model.to_onnx(model, with_scales=True).SerializeToString()
    run = load_part("export.verify").onnx_runner(content, threads=1)
    threads = int(os.environ.get("TF_NUM_INTRAOP_THREADS") or os.cpu_count() or 1)
    pool = ThreadPoolExecutor(threads)  # faster than threads that share an image

    def predict(images: np.ndarray) -> np.ndarray:
        parts = [images[k : k + ONNX_BATCH] for k in range(0, len(images), ONNX_BATCH)]
        return np.concatenate(list(pool.map(lambda p: run(p)[onnx_model.SCALE_LOGITS], parts)))

    return Network(predict, onnxruntime=metadata.version("onnxruntime"))


def _check_mode(mode: str, model: GaussDerNet, recipe: Recipe) -> None:
    if mode not in MODES:
        raise ValueError(f"`mode` must be one of {MODES}. Received: mode={mode!r}.")
    channels = len(model.config.channel_sigmas)
    factors = datasets.get(recipe.dataset).sizes.unit == "factor"
    if mode == "matched" and (channels > 1 or not factors):
        raise ValueError(
            "Sigmas are matched to size factors for networks of one scale channel. "
            f"Received: {recipe.name}, {channels} channels on {recipe.dataset}."
        )


def read_results(
    recipe: Recipe, *, folder: Path, mode: str = "trained", split: str = "test"
) -> dict[str, SizeResult] | None:
    """The results of a run. Missing ones are an error as trained, else None."""
    done = _read(_file(folder, mode, split))
    missing = [key for key in test_sizes(recipe) if key not in done]
    if missing and mode != "trained":
        return None
    if missing:
        raise ValueError(
            f"{recipe.name} must be evaluated first, {len(missing)} of "
            f"{len(test_sizes(recipe))} sizes are missing: "
            f"`{PROGRAM} evaluate {recipe.name}`."
        )
    return {key: SizeResult(**done[key]) for key in test_sizes(recipe)}


def _file(folder: Path, mode: str, split: str) -> Path:
    words = [word for word in (split, mode) if word not in ("test", "trained")]
    return folder / "_".join([*words, EVALUATION])


def _read(file: Path) -> dict[str, dict]:
    if not file.exists():
        return {}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        warnings.warn(f"{file} is damaged; all sizes are measured again.", stacklevel=3)
        return {}


def measure(
    network: Network,
    data: Arrays,
    *,
    pooling: str,
    label: str = "",
    stop: Callable[[], bool] = lambda: False,
) -> SizeResult | None:
    """One pass over the images; None if `stop()` said so before its end."""
    start = time.time()
    outputs = []
    predict = network.predict
    for batch in predict_batches(data.images, predict=predict, batch_size=BATCH, label=label):
        outputs.append(batch)
        if stop():
            return None
    outputs = np.concatenate(outputs)
    logits = pool_over_scales(outputs, pooling=pooling)
    predicted = logits.argmax(axis=1)
    right = predicted == data.labels
    shares = scale_shares(outputs, pooling=pooling, classes=predicted)
    groups = {"all": np.ones_like(right), "correct": right, "wrong": ~right}
    confusion = np.zeros((logits.shape[1],) * 2, int)
    np.add.at(confusion, (data.labels, predicted), 1)
    return SizeResult(
        correct=int(right.sum()),
        images=len(right),
        histograms={
            group: [round(float(v), 6) for v in shares[chosen].mean(axis=0)] if chosen.any() else []
            for group, chosen in groups.items()
        },
        confusion=confusion.tolist(),
        calibration_error=calibration_error(softmax(logits, axis=1), data.labels),
        seconds=round(time.time() - start, 1),
        onnxruntime=network.onnxruntime,
    )


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, *, bins: int = 15) -> float:
    """Expected calibration error: |accuracy - confidence| averaged over bins of confidence."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [
        abs(right[bin_of == b].mean() - confidence[bin_of == b].mean()) * (bin_of == b).mean()
        for b in range(bins)
        if (bin_of == b).any()
    ]
    return round(float(sum(gaps)), 6)
