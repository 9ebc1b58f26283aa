"""int8 exports: what they are, that they are measured, and when they are refused."""

import io
import json
import re
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from export_tools import ROOT, SATURATES, sample_data_folder, set_metrics
from onnx import numpy_helper
from PIL import Image
from zoo_tools import write_tiny

from export import verify
from export.__main__ import main
from export.quantisation import quantise
from gdn_keras import zoo
from gdn_keras.datasets import load_samples, raw
from gdn_keras.utils import cpu

TRAINED = ROOT / "zoo" / "fashion28_discrete_s1p00"


@pytest.fixture
def data(tmp_path, monkeypatch):
    folder = sample_data_folder(tmp_path / "data")
    monkeypatch.setenv(raw.ENVIRONMENT_VARIABLE, str(folder))
    return folder


def copy_trained(folder):
    """A trained network that claims 85 % on a test set of the 100 samples, of which it knows 90."""
    path = shutil.copytree(TRAINED, folder / "zoo" / "net")
    return set_metrics(
        zoo.read_folder(path), num_test_images=100, accuracy={"1.000": 0.85}, mean_accuracy=0.85
    )


@pytest.fixture
def trained(tmp_path):
    return copy_trained(tmp_path)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "exports" / quantise.INT8_FILE


def command(folder, target, *options):
    return ["onnx", str(folder.path), "--quantise", "int8", "-o", str(target), *options]


class Accepted(NamedTuple):
    """An int8 file that was kept, and what the command printed."""

    info: zoo.ModelInfo
    target: Path
    output: str

    @property
    def report(self):
        return json.loads(self.target.with_name(quantise.REPORT_FILE).read_text())


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """Tests leave it as it is."""
    folder = tmp_path_factory.mktemp("accepted")
    trained, target = copy_trained(folder), folder / "exports" / quantise.INT8_FILE
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as output:
        patch.setenv(raw.ENVIRONMENT_VARIABLE, str(sample_data_folder(folder / "data")))
        assert main(command(trained, target)) == 0
    return Accepted(zoo.info(trained.path), target, output.getvalue())


def test_the_command_says_how_it_was_calibrated_and_checked(accepted):
    assert re.search("calibrating on 100 images: .*samples", accepted.output)
    assert f"exact integers on {cpu.text(cpu.describe())}" in accepted.output
    files = sorted(path.name for path in accepted.target.parent.iterdir())
    assert files == [quantise.REPORT_FILE, quantise.INT8_FILE]


def test_the_report_has_what_was_measured(accepted):
    report, samples = accepted.report, load_samples("fashion_mnist")
    outputs = verify.onnx_runner(accepted.target)(samples.images)
    right = outputs["logits"].argmax(axis=1) == samples.labels
    assert report["int8"] == {"1.000": right.mean()} and right.mean() > 0.85
    assert report["float"] == {"1.000": 0.85} and report["num_test_images"] == 100
    assert report["options"] == {"opset": 18, "with_scales": False, "uint8": False}
    assert report["weights"] == quantise.WEIGHTS and report["cpu"] == cpu.describe()


def test_the_file_computes_in_integers(accepted):
    proto = onnx.load(accepted.target)
    assert [entry.name for entry in proto.graph.input] == ["image"]
    assert {entry.key for entry in proto.metadata_props} >= {"class_names", "trained_side"}
    by_output = {name: node for node in proto.graph.node for name in node.output}
    made_by = {name: node.op_type for name, node in by_output.items()}
    convolutions = [node for node in proto.graph.node if node.op_type == "Conv"]
    assert {made_by[node.input[k]] for node in convolutions for k in (0, 1)} == {"DequantizeLinear"}
    weights = {entry.name: numpy_helper.to_array(entry) for entry in proto.graph.initializer}
    kernels = [weights[by_output[node.input[1]].input[0]] for node in convolutions]
    assert [kernel.dtype for kernel in kernels] == [np.uint8] + [np.int8] * (len(kernels) - 1)
    assert kernels[0].max() > 250 and max(kernel.max() for kernel in kernels[1:]) == 64


def test_a_report_is_accepted_only_for_its_file_and_weights(accepted, tmp_path):
    info, report = accepted.info, accepted.report
    folder = shutil.copytree(accepted.target.parent, tmp_path / "exports")
    assert quantise.accepted_report(folder, info) == report
    for weights, fits in (("int8", False), (quantise.WEIGHTS, True)):
        (folder / quantise.REPORT_FILE).write_text(json.dumps(report | {"weights": weights}))
        assert (quantise.accepted_report(folder, info) is not None) == fits
    other = write_tiny(tmp_path, "other")
    assert quantise.accepted_report(folder, zoo.info(other.path)) is None
    file = folder / quantise.INT8_FILE
    file.write_bytes(file.read_bytes() + b"\0")
    assert quantise.accepted_report(folder, info) is None


def test_a_file_that_is_called_differently_does_not_go_to_the_hub(trained, data, target):
    assert main(command(trained, target, "--with-scales", "--uint8", "--opset", "19")) == 0
    report = json.loads(target.with_name(quantise.REPORT_FILE).read_text())
    assert report["options"] == {"opset": 19, "with_scales": True, "uint8": True}
    outputs = verify.onnx_runner(target)(load_samples("fashion_mnist").images)
    assert outputs["scale_logits"].shape == (100, 1, 10)
    info = zoo.info(trained.path)
    assert quantise.accepted_report(target.parent, info) is None
    for other in ({"opset": 19}, {"with_scales": True}, {"uint8": True}, {}):
        changed = report | {"options": quantise.DEFAULTS | other}
        target.with_name(quantise.REPORT_FILE).write_text(json.dumps(changed))
        assert (quantise.accepted_report(target.parent, info) is None) == bool(other)


def test_a_density_without_known_accuracy_is_measured_in_float_too(
    trained, data, target, capsys, monkeypatch
):
    monkeypatch.setattr(quantise, "MAX_LOSS", 10.0)  # of 100 images each is a whole point
    assert main(command(trained, target, "--density", "1")) == 0
    report = json.loads(target.with_name(quantise.REPORT_FILE).read_text())
    assert report["float"] != {"1.000": 0.85} and report["sampling_density"] == 1.0
    assert quantise.accepted_report(target.parent, zoo.info(trained.path)) is None  # another net
    assert "size 1.000: float" in capsys.readouterr().out


def test_a_bad_calibration_is_refused_and_no_file_is_left(trained, data, target, tmp_path, capsys):
    """Ranges measured on black images cut off nearly everything."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    Image.new("L", (28, 28)).save(pictures / "black.png")
    target.parent.mkdir()
    for name in (quantise.INT8_FILE, quantise.REPORT_FILE):
        (target.parent / name).write_text("accepted earlier")
    assert main(command(trained, target, "--calibrate", str(pictures))) == 1
    captured = capsys.readouterr()
    assert re.search("calibrating on 1 images: .*files", captured.out)
    assert re.search("int8 loses .*at most 1 .*No file was kept", captured.err)
    assert list(target.parent.iterdir()) == []


def test_weights_of_8_bits_are_refused_and_no_file_is_left(
    trained, data, target, monkeypatch, capsys
):
    """As the files were before: exact with VNNI only, so they may not be made anywhere."""
    from onnxruntime import quantization

    full_range = quantization.quantize_static

    def quantize_static(*args, **options):
        full_range(*args, **options | {"reduce_range": False})

    monkeypatch.setattr(quantization, "quantize_static", quantize_static)
    assert main(command(trained, target)) == 1
    assert "weights must be at most 64" in capsys.readouterr().err
    assert list(target.parent.iterdir()) == []
    monkeypatch.setattr(quantise.integers, "check_weights", lambda model: None)
    monkeypatch.setattr(quantise, "MAX_LOSS", 100.0)
    assert main(command(trained, target)) == (1 if SATURATES else 0)
    error = capsys.readouterr().err
    assert ("onnxruntime does not compute the integers" in error) == SATURATES
    assert target.exists() != SATURATES


def test_calibration_files_that_are_not_there(trained, data, target, tmp_path, capsys):
    assert main(command(trained, target, "--calibrate", str(tmp_path / "none.png"))) == 1
    assert "none.png" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(command(trained, target, "--calibrate", str(tmp_path / "empty"))) == 1
    assert "`--calibrate` found no files" in capsys.readouterr().err


def test_the_whole_test_set_is_needed(trained, data, target, capsys):
    set_metrics(trained, num_test_images=10_000)
    assert main(command(trained, target)) == 1
    assert re.search("10,000 images at size 1.000.*metrics.json", capsys.readouterr().err)
    assert list(target.parent.iterdir()) == []


def test_the_data_are_needed(trained, target, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv(raw.ENVIRONMENT_VARIABLE, str(tmp_path / "empty"))
    assert main(command(trained, target)) == 1
    error = capsys.readouterr().err
    assert re.search("test set of fashion_mnist.*GDN_KERAS_DATA", error)
    assert list(target.parent.iterdir()) == []


def test_interrupted_it_goes_on_with_the_next_size(data, target, tmp_path, monkeypatch, capsys):
    folder = write_tiny(tmp_path, "net", dataset="rescaled_fashion_mnist")
    sizes = list(folder.metrics.accuracy)
    set_metrics(folder, num_test_images=100, accuracy=dict.fromkeys(sizes, 0.0), mean_accuracy=0.0)
    measure = quantise.Evaluation._measure
    seen = []

    def interrupted(self, which, run, size, test):
        if len(seen) == 4:
            raise KeyboardInterrupt
        seen.append(size)
        return measure(self, which, run, size, test)

    monkeypatch.setattr(quantise.Evaluation, "_measure", interrupted)
    assert main(command(folder, target)) == 130
    assert "same command" in capsys.readouterr().err
    assert not target.exists()
    monkeypatch.setattr(quantise.Evaluation, "_measure", measure)
    assert main(command(folder, target)) == 0
    output = capsys.readouterr().out
    assert seen == sizes[:4]
    assert [size for size in sizes if f"size {size}: int8" in output] == sizes
    assert output.count("measured before") == 4
    resumed = target.read_bytes(), target.with_name(quantise.REPORT_FILE).read_text()
    assert main(command(folder, target)) == 0
    assert "measured before" not in capsys.readouterr().out  # finished means forgotten
    assert resumed == (target.read_bytes(), target.with_name(quantise.REPORT_FILE).read_text())


@pytest.mark.heavy
@pytest.mark.skipif(
    raw.data_folder() is None or not (raw.data_folder() / "fashion-mnist").is_dir(),
    reason="needs the original Fashion-MNIST files in GDN_KERAS_DATA",
)
def test_the_trained_network_on_the_whole_test_set(target):
    assert main(command(zoo.read_folder(TRAINED), target)) == 0
    report = json.loads(target.with_name(quantise.REPORT_FILE).read_text())
    assert report["num_test_images"] == 10_000
    assert report["float"] == zoo.info(TRAINED).accuracy
    assert report["worst_loss_ppt"] == pytest.approx(
        100 * (report["float"]["1.000"] - report["int8"]["1.000"])
    )
    np.testing.assert_array_less(report["worst_loss_ppt"], 1)
