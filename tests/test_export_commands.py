"""`python -m export onnx | saved-model | litert`, every option, small and trained networks."""

import json
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from export_tools import ROOT, export, make_clone, process_environment, without
from helpers import random_images
from zoo_tools import predict, write_tiny

from export.__main__ import main
from export.graph import highest_opset
from gdn_keras import zoo
from gdn_keras.datasets import load_samples

HEADLINES = ("cifar_avg_2jet", "fashion_avg_2jet", "fashion28_discrete_s1p00")


def run(path, images):
    """Outputs of an ONNX file by name."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"image": images}), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("zoo"), "net", scale_pooling="max")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "net.onnx"


# === Networks of every kind ===


@pytest.mark.heavy
@pytest.mark.parametrize(
    "changes",
    [
        *(
            {"scale_pooling": pooling, "spatial_selection": selection}
            for pooling in ("max", "average", "logsumexp")
            for selection in ("centre", "max")
        ),
        {"jet_order": 3, "scale_pooling": "max"},
        {"learned_sigmas": True, "sigma_range": (0.5, 2.0)},
        {"channel_sigmas": (1.0,)},
    ],
    ids=lambda changes: " ".join(map(str, changes.values())),
)
def test_every_format_of_every_kind_of_network(changes, tmp_path):
    folder = write_tiny(tmp_path, "net", **changes)
    onnx_file, saved, lite = (tmp_path / name for name in ("a.onnx", "saved", "a.tflite"))
    name = str(folder.path)
    assert main(["onnx", name, "--with-scales", "-o", str(onnx_file)]) == 0
    assert main(["saved-model", name, "-o", str(saved)]) == 0
    assert main(["litert", name, "-o", str(lite)]) == 0
    model = zoo.load(folder.path)
    images = random_images(folder.config, batch=5)
    expected = predict(model, images)
    assert np.ptp(expected, axis=0).max() > 1e-2  # images are told apart, so errors would show
    outputs = run(onnx_file, images)
    np.testing.assert_allclose(outputs["logits"], expected, atol=1e-4)
    scale_logits = predict(model.scale_logits_model(), images)
    np.testing.assert_allclose(outputs["scale_logits"], scale_logits, atol=1e-4)
    best = scale_logits[np.arange(5), :, expected.argmax(axis=1)]
    chosen = best[np.arange(5), outputs["selected_scale"]]
    np.testing.assert_allclose(chosen, best.max(axis=1), atol=1e-4)
    np.testing.assert_allclose(run_saved_model(saved, images), expected, atol=1e-4)
    np.testing.assert_allclose(run_litert(lite, images), expected, atol=1e-4)


def run_saved_model(path, images):
    import tensorflow as tf

    return tf.saved_model.load(str(path)).signatures["serving_default"](image=images)["logits"]


def run_litert(path, images):
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_path=str(path)).get_signature_runner()(image=images)["logits"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", HEADLINES)
def test_trained_networks_keep_their_golden_logits(name, tmp_path):
    """The numbers that were stored with the weights, long before anything was exported."""
    golden = zoo.read_folder(ROOT / "zoo" / name).metrics.golden
    images = load_samples(golden.sample_set).images[list(golden.indices)].astype("float32")
    onnx_file, saved, lite = (tmp_path / file for file in ("a.onnx", "saved", "a.tflite"))
    assert main(["onnx", name, "-o", str(onnx_file)]) == 0
    assert main(["saved-model", name, "-o", str(saved)]) == 0
    assert main(["litert", name, "-o", str(lite)]) == 0
    for logits in (
        run(onnx_file, images)["logits"],
        run_saved_model(saved, images),
        run_litert(lite, images),
    ):
        np.testing.assert_allclose(logits, golden.logits, atol=1e-3)


# === Options ===


@pytest.fixture(scope="module")
def typed(folder, tmp_path_factory):
    """`python -m export onnx NAME` in a process, from the folder the user is in."""
    here = tmp_path_factory.mktemp("here")
    (here / "export").symlink_to(ROOT / "export")
    done = export(here, "onnx", str(folder.path))
    assert done.returncode == 0, done.stderr
    return done.stdout, onnx.load(here / "out" / "export" / "net" / "model.onnx")


def test_the_default_target_and_the_deviations_are_printed(typed):
    output, _ = typed
    for what in ("1 samples", "1 random", "3 samples", "3 random", "8 samples", "8 random"):
        assert re.search(rf"\b{what}: .*deviation.* \d", output)
    assert "out/export/net/model.onnx: " in output


def test_the_default_graph_takes_images_and_gives_logits(typed):
    _, proto = typed
    onnx.checker.check_model(proto, full_check=True)
    (image,), (logits,) = proto.graph.input, proto.graph.output
    assert image.name == "image" and shape_of(image) == ["batch", 28, 28, 1]
    assert logits.name == "logits" and shape_of(logits) == ["batch", 10]
    assert proto.opset_import[0].version == 18


def test_the_file_knows_classes_size_and_preprocessing(typed, folder):
    facts = {entry.key: entry.value for entry in typed[1].metadata_props}
    assert json.loads(facts["class_names"]) == list(folder.config.class_names)
    assert json.loads(facts["input_size"]) == [28, 28] and "0…255" in facts["preprocessing"]


def shape_of(entry):
    dims = entry.type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]


@pytest.mark.parametrize("opset", [13, 17, 21, highest_opset()])
def test_opset(folder, target, opset):
    assert main(["onnx", str(folder.path), "-o", str(target), "--opset", str(opset)]) == 0
    assert onnx.load(target).opset_import[0].version == opset


def test_opsets_that_onnxruntime_does_not_know_are_refused(folder, target, capsys):
    """onnx may know more: the error must not be onnxruntime's."""
    highest = highest_opset()
    for opset in {highest + 1, max(highest + 1, onnx.defs.onnx_opset_version())}:
        assert main(["onnx", str(folder.path), "-o", str(target), "--opset", str(opset)]) == 1
        error = capsys.readouterr().err
        assert f"error: `opset` must be from 13 to {highest}" in error
        assert f"Received: opset={opset}." in error and not target.exists()


def test_numbers_stand_in_for_class_names(tmp_path, target):
    folder = write_tiny(tmp_path, "net", class_names=())
    assert main(["onnx", str(folder.path), "-o", str(target)]) == 0
    facts = {entry.key: entry.value for entry in onnx.load(target).metadata_props}
    assert json.loads(facts["class_names"]) == [str(k) for k in range(10)]
    assert json.loads(facts["config"])["class_names"] == []


def test_size_density_uint8_and_scales_together(folder, target):
    options = ["--size", "40x33", "--density", "1.5", "--uint8", "--with-scales"]
    assert main(["onnx", str(folder.path), "-o", str(target), *options]) == 0
    proto = onnx.load(target)
    (image,) = proto.graph.input
    assert shape_of(image) == ["batch", 40, 33, 1]
    assert image.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    names = [output.name for output in proto.graph.output]
    assert names == ["logits", "scale_logits", "selected_scale"]
    model = zoo.load(folder.path, input_size=(40, 33), sampling_density=1.5)
    images = random_images(model.config, batch=2).astype("uint8")
    np.testing.assert_allclose(run(target, images)["logits"], predict(model, images), atol=1e-4)


def test_exact_and_any_size(folder, target):
    name = str(folder.path)
    assert main(["onnx", name, "-o", str(target), "--exact", "--dynamic-size"]) == 0
    (image,) = onnx.load(target).graph.input
    assert shape_of(image) == ["batch", "height", "width", 1]
    for size in ((28, 28), (31, 50)):
        model = zoo.load(name, input_size=size, sampling_density=None)
        images = random_images(model.config)
        np.testing.assert_allclose(run(target, images)["logits"], predict(model, images), atol=1e-4)


@pytest.mark.parametrize("command", ["saved-model", "litert"])
def test_other_formats_take_a_size_and_a_density(folder, tmp_path, command):
    target = tmp_path / "net"
    options = ["--size", "32x30", "--exact", "-o", str(target)]
    assert main([command, str(folder.path), *options]) == 0
    model = zoo.load(folder.path, input_size=(32, 30), sampling_density=None)
    images = random_images(model.config, batch=1)
    outputs = (run_litert if command == "litert" else run_saved_model)(target, images)
    np.testing.assert_allclose(outputs, predict(model, images), atol=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--opset", "9"], "`opset` must be from 13"),
        (["--dynamic-size"], "dynamic.size` .*every pixel"),
        (["--density", "0"], "sampling_density"),
        (["--quantise", "int8", "--dynamic-size"], "`--quantise.*`--dynamic-size`"),
        (["--quantize", "int8", "--dynamic-size"], "`--quantise.*`--dynamic-size`"),
        (["--quantise", "int8", "--size", "40x40"], r"\(28, 28\).*Received: .*\(40, 40\)"),
        (["--calibrate", "x.png"], "`--calibrate` .*`--quantise int8`"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_said(folder, target, capsys, options, message):
    assert main(["onnx", str(folder.path), "-o", str(target), *options]) == 1
    captured = capsys.readouterr()
    assert re.search(message, captured.err) and captured.err.startswith("error: ")
    assert not target.exists()


@pytest.mark.parametrize(
    "command, message",
    [
        (["onnx"], "must be a file"),
        (["litert"], "must be a file"),
        (["saved-model"], "folder of other files"),
        (["hub", "--repo", "owner/net", "--dry-run"], "folder of other files"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_folder_of_the_user_is_not_replaced(folder, tmp_path, capsys, command, message):
    (tmp_path / "thesis.txt").write_text("years of work")
    name, *options = command
    assert main([name, str(folder.path), "-o", str(tmp_path), *options]) == 1
    error = capsys.readouterr().err
    assert message in error and str(tmp_path) in error
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["onnx", "net", "--size", "40"], "HEIGHTxWIDTH, like 64x48, not '40'"),
        (["onnx", "net", "--exact", "--density", "1"], "not allowed with argument --exact"),
        (["onnx", "net", "--quantise", "int4"], "invalid choice: 'int4'"),
        (["hub", "net"], "required: --repo"),
        ([], "required: COMMAND"),
    ],
    ids=str,
)
def test_wrong_usage(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    "command, package, extra",
    [
        (["onnx"], "onnx", "[onnx]"),
        (["onnx"], "onnxruntime", "[onnx]"),
        (["litert"], "ai_edge_litert.interpreter", "[litert]"),
        (["hub", "--repo", "owner/net", "--dry-run"], "huggingface_hub", ""),
    ],
    ids=str,
)
def test_what_is_not_installed(folder, tmp_path, monkeypatch, capsys, command, package, extra):
    monkeypatch.setitem(sys.modules, package, None)  # import then fails
    name, *options = command
    target = tmp_path / "out"
    assert main([name, str(folder.path), "-o", str(target), *options]) == 1
    missing = package.split(".")[0]
    error = capsys.readouterr().err
    assert error.startswith(f"error: {missing} is not installed")
    for words in (f'pip install "gdn-keras{extra}"', f'pip install -e ".{extra}"'):
        assert words in error
    assert list(tmp_path.iterdir()) == []


def test_other_imports_that_fail_are_not_hidden(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "export.onnx_model", None)
    with pytest.raises(ModuleNotFoundError, match="export.onnx_model"):
        main(["onnx", str(folder.path), "-o", str(tmp_path / "out")])


def test_without_the_extras(folder, tmp_path):
    """In a process of its own, which has not imported anything yet."""
    packages = ("onnx", "onnxruntime", "ai_edge_litert", "huggingface_hub")
    environment = without(tmp_path / "without", *packages)
    clone = make_clone(tmp_path / "clone")
    done = export(clone, "all", **environment)
    assert done.returncode == 1 and done.stdout == ""
    assert "error: onnx " in done.stderr and 'pip install "gdn-keras[onnx]"' in done.stderr
    assert "Traceback" not in done.stderr
    target = str(tmp_path / "saved")
    done = export(clone, "saved-model", str(folder.path), "-o", target, **environment)
    assert done.returncode == 0, done.stderr  # needs none of them


@pytest.mark.parametrize("command, backend", [("saved-model", "jax"), ("litert", "torch")])
def test_formats_of_tensorflow_need_its_backend(folder, tmp_path, command, backend):
    target = tmp_path / "out"
    done = subprocess.run(  # a fork would have the backend already
        [sys.executable, "-m", "export", command, str(folder.path), "-o", str(target)],
        cwd=ROOT,
        env=process_environment(KERAS_BACKEND=backend),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert re.search(f"error: .*KERAS_BACKEND=tensorflow.*Received: '{backend}'", done.stderr)
    assert not target.exists()


def test_unknown_networks_are_named(capsys):
    assert main(["onnx", "fashion28_discrete_s1p01"]) == 1
    error = capsys.readouterr().err
    assert "Unknown model" in error and "Did you mean 'fashion28_discrete_s1p00'?" in error


@pytest.mark.parametrize(
    "command", [[], ["onnx"], ["saved-model"], ["litert"], ["hub"], ["all"], ["table"]]
)
def test_help_has_examples(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    output = " ".join(capsys.readouterr().out.split())
    assert stop.value.code == 0
    assert f"python -m export {' '.join(command) or 'onnx'}" in output.split("example", 1)[1]
