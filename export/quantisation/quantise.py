"""Static int8 quantisation of an ONNX export, kept only if it classifies as well as float.

Weights become int8 with one factor per feature, maps become uint8 with one factor each; the
factors of the maps are measured on calibration images. Weights use 7 of the 8 bits, see
`integers.py`: with 8, accuracy depends on the CPU. The kernels of the first layer are uint8
with all 8: products of two uint8 are added in 32 bits everywhere, more slowly, but the kernels are
small, and rounding derivatives costs most where the image has its mean. The layers have the dense
form of `export.network`: splitting their kernels adds maps that would have to be rounded.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from gdn_keras.accuracy import accuracy, size_keys, test_sets
from gdn_keras.classify import read_image
from gdn_keras.config import EVERY_PIXEL
from gdn_keras.datasets import Arrays, describe
from gdn_keras.model import GaussDerNet
from gdn_keras.utils import cpu
from gdn_keras.utils.files import replace_file
from gdn_keras.version import __version__
from gdn_keras.zoo import ModelInfo
from gdn_keras.zoo.records import read_json, to_json
from gdn_keras.zoo.weights import file_sha256

from .. import DEFAULT_OPSET, verify
from ..files import kept_if_good, save_checked
from . import integers

INT8_FILE, REPORT_FILE = "model.int8.onnx", "model.int8.json"
MAX_LOSS = 1.0  # percentage points, at any size
CALIBRATION_IMAGES = 180  # bundled samples, the same number of each size
WEIGHTS = "int8 of 7 bits, in the first layer uint8"  # what a report is of
COMPARED_IMAGES = 4  # with exact integers, which take a second for each
BATCH = 32
# of `to_onnx`: a file on the Hub has these, so that all networks there are called alike
DEFAULTS = {"opset": DEFAULT_OPSET, "with_scales": False, "uint8": False}


class AccuracyError(ValueError):
    """A quantised network that classifies worse than the network it was made from."""


def write_int8(
    model: GaussDerNet,
    path: Path,
    *,
    info: ModelInfo,
    calibrate: Sequence[str | Path] = (),
    **options,
) -> dict[str, Any]:
    """Quantise a network, measure it on its whole test set, and keep it if it is good enough.

    The accuracies are written next to the file, with the suffix .json, and returned. After an
    interruption, the next call continues with the next size.

    Args:
        calibrate: image files or folders of them. Default: the bundled samples at all sizes.
        options: of `DEFAULTS`, as in `to_onnx`.
    """
    model.config.reject_dense("`--quantise`")
    if model.config.input_size != info.config.input_size:
        raise ValueError(
            "`--quantise` measures the network on its test images, so it must have their size, "
            f"{info.config.input_size}. Received: {model.config.input_size}."
        )
    report_path = path.with_suffix(".json")
    progress = path.with_name(f".{path.name}.progress")
    white = model.config.pixel_range[1]
    images, source = _calibration_images(model, info, calibrate)
    images = images * (white / 255)
    with kept_if_good(path) as new:
        reference = new.with_name("float.onnx")
        deviation = save_checked(model, reference, info=info, split=False, **options)
        print(f"float: max deviation from Keras {deviation:.1e}")
        print(f"calibrating on {len(images)} images: {source}")
        quantise_file(reference, new, images)
        _check_integers(new, images)
        float_run, int8_run = (_on_raw_pixels(file, white) for file in (reference, new))
        evaluation = Evaluation(info, progress, key=file_sha256(new))
        before = _published_accuracy(model, info)
        if before is None:
            before = evaluation.accuracy("float", float_run)
        try:
            after = evaluation.accuracy("int8", int8_run, at_least=before)
        except AccuracyError:
            for stale in (path, report_path, progress):
                stale.unlink(missing_ok=True)
            raise
        report = {
            "name": info.name,
            "dataset": info.dataset,
            "split": "test",
            "num_test_images": info.num_test_images,
            "sampling_density": model.config.sampling_density,
            "reach": model.config.reach,
            "options": DEFAULTS | options,
            "float": before,
            "int8": after,
            "worst_loss_ppt": round(max(100 * (before[k] - after[k]) for k in after), 4),
            "allowed_loss_ppt": MAX_LOSS,
            "weights": WEIGHTS,
            "calibration": {"images": len(images), "source": source},
            "cpu": cpu.describe(),
            "weights_sha256": info.weights_sha256,
            "file_sha256": file_sha256(new),
            "versions": _versions(),
        }
        replace_file(report_path, content=to_json(report))
        length = new.stat().st_size
    progress.unlink(missing_ok=True)
    print(f"{path}: {length:,} bytes, loses {report['worst_loss_ppt']:.2f} ppt at most")
    return report


def accepted_report(folder: Path, info: ModelInfo) -> dict[str, Any] | None:
    """The report of the int8 file in `folder` if it was accepted for the weights of `info`.

    Only a file that is called like the float one counts: the default options, the same density.
    """
    if not (folder / INT8_FILE).is_file() or not (folder / REPORT_FILE).is_file():
        return None
    report = read_json(folder / REPORT_FILE, dict)
    expected = {
        "weights_sha256": info.weights_sha256,
        "file_sha256": file_sha256(folder / INT8_FILE),
        "sampling_density": info.config.sampling_density,
        "reach": info.config.reach,
        "options": DEFAULTS,
        "weights": WEIGHTS,
    }
    fits = all(report.get(key) == value for key, value in expected.items())
    return report if fits and report["worst_loss_ppt"] <= MAX_LOSS else None


def _on_raw_pixels(file: Path, white: float) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """Runs a file on pixels 0…255, whatever range its input has."""
    run = verify.onnx_runner(file)
    return run if white == 255 else lambda images: run(images * (white / 255))


# === Calibration ===


def _calibration_images(
    model: GaussDerNet, info: ModelInfo, paths: Sequence[str | Path]
) -> tuple[np.ndarray, str]:
    """Float32 images as the network takes them, and where they are from."""
    dataset = info.dataset
    if paths:
        files = sorted(file for path in paths for file in _files(Path(path)))
        if not files:
            raise ValueError(
                f"`--calibrate` found no files. Received: {', '.join(map(str, paths))}."
            )
        trained = dict(dataset=dataset, train_sizes=info.train_sizes)
        pixels = [read_image(f, config=model.config, **trained).pixels for f in files]
        return np.stack(pixels).astype("float32"), "given files"
    samples = describe(dataset).samples
    if samples is None:
        raise ValueError(f"There are no bundled images of {dataset}; give some with `--calibrate`.")
    sizes = samples.size_factors
    each = CALIBRATION_IMAGES // len(sizes)
    images = [samples.load(size).images[:each] for size in sizes]
    source = "bundled samples at every size" if len(sizes) > 1 else "bundled samples"
    return np.concatenate(images).astype("float32"), source


def _files(path: Path) -> Iterable[Path]:
    if not path.is_dir():
        return [path]
    return (file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))


def quantise_file(source: Path, target: Path, images: np.ndarray) -> None:
    """Quantise an ONNX file; the ranges of its maps are those on `images`."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    graph = onnx.load(source).graph
    (entry,) = graph.input
    kind = onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.batches = iter(range(0, len(images), BATCH))

        def get_next(self):
            first = next(self.batches, None)
            if first is None:
                return None
            return {entry.name: images[first : first + BATCH].astype(kind)}

    eight_bits = {
        "axis": 0,
        "quant_type": quantization.QuantType.QUInt8,
        "symmetric": True,
        "reduce_range": False,
    }
    prepared = source.with_name("prepared.onnx")
    # the graph is as simple as it gets already; this only notes the shapes of all maps
    quant_pre_process(source, prepared, skip_optimization=True, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared,
        target,
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        extra_options={
            "TensorQuantOverrides": {name: [eight_bits] for name in _first_kernels(graph)}
        },
    )
    proto = onnx.load(target)
    kept = [entry for entry in proto.metadata_props if not entry.key.startswith("onnx.")]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, target)


def _first_kernels(graph: onnx.GraphProto) -> set[str]:
    """The kernels of convolutions that follow no other convolution."""
    kernels, later = set(), set()
    for node in graph.node:
        if node.op_type == "Conv" and node.input[0] not in later:
            kernels.add(node.input[1])
        if node.op_type == "Conv" or not later.isdisjoint(node.input):
            later.update(node.output)
    return kernels


def _check_integers(path: Path, images: np.ndarray) -> None:
    """Check that onnxruntime computes exact integers with this file, on this CPU and on others."""
    integers.check_weights(onnx.load(path))
    few = images[:: max(1, len(images) // COMPARED_IMAGES)][:COMPARED_IMAGES]
    integers.check_runtime(path, few)
    print(f"int8: onnxruntime has the exact integers on {cpu.text(cpu.describe())}")


# === Accuracy ===


class Evaluation:
    """Accuracy on the whole test set, size by size; measured sizes are kept in a file.

    Args:
        progress: the file; it counts only for the same quantised network.
        key: the hash of that network.
    """

    def __init__(self, info: ModelInfo, progress: Path, *, key: str):
        self.info, self.progress, self.key = info, progress, key
        self.measured: dict[str, dict[str, float]] = {"float": {}, "int8": {}}
        with contextlib.suppress(OSError, ValueError, TypeError):
            state = json.loads(progress.read_text(encoding="utf-8"))
            if state.pop("key", None) == key:
                self.measured |= state

    def accuracy(
        self, which: str, run: Callable, *, at_least: dict[str, float] | None = None
    ) -> dict[str, float]:
        """By size; raises `AccuracyError` at the first size that loses too much."""
        done = self.measured[which]
        sizes = size_keys(self.info.dataset)
        sets = test_sets(self.info.dataset, [size for size in sizes if size not in done])
        for size in sizes:
            if size in done:
                print(f"  size {size}: {which} {done[size]:.2%}, measured before")
            else:
                done[size] = self._measure(which, run, size, self._next(sets))
                self.progress.parent.mkdir(parents=True, exist_ok=True)
                state = json.dumps({"key": self.key, **self.measured})
                self.progress.write_text(state, encoding="utf-8")
                print(f"  size {size}: {which} {done[size]:.2%}", flush=True)
            loss = 100 * (at_least[size] - done[size]) if at_least else 0.0
            if loss > MAX_LOSS + 1e-9:
                raise AccuracyError(
                    f"int8 loses {loss:.2f} percentage points at size {size} ({at_least[size]:.2%} "
                    f"to {done[size]:.2%}); at most {MAX_LOSS:g} is allowed. No file was kept."
                )
        return dict(done)

    def _measure(self, which: str, run: Callable, size: str, test: Arrays) -> float:
        return accuracy(
            test,
            predict=lambda images: run(images)["logits"],
            batch_size=BATCH,
            label=f"{which}, size {size}",
        )

    def _next(self, sets: Iterator[tuple[str, Arrays]]) -> Arrays:
        dataset = self.info.dataset
        try:
            size, test = next(sets)
        except Exception as error:  # of tensorflow_datasets too, which may try to download
            raise FileNotFoundError(
                f"int8 is accepted on the whole test set of {dataset} only, which was not found; "
                "set GDN_KERAS_DATA to the folder with the original files. "
                f"{type(error).__name__}: {error}"
            ) from error
        if len(test) != self.info.num_test_images:
            raise ValueError(
                f"The test set of {dataset} must have {self.info.num_test_images:,} images at size "
                f"{size}, as metrics.json says. Received: {len(test):,}."
            )
        return test


def _published_accuracy(model: GaussDerNet, info: ModelInfo) -> dict[str, float] | None:
    """The accuracy in metrics.json for this network; the float export computes the same to 1e-4."""
    accuracy = None
    if model.config == info.config:
        accuracy = info.accuracy
    elif model.config == info.config.replace(**EVERY_PIXEL):
        accuracy = info.exact_accuracy
    return accuracy if accuracy and list(accuracy) == size_keys(info.dataset) else None


def _versions() -> dict[str, str]:
    import onnxruntime

    return {
        "gdn-keras": __version__,
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
    }
