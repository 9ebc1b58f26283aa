"""Exports, as users type the commands, on small networks, against Keras."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import onnxruntime
import processes
import pytest
from helpers import assert_rounded, random_images, randomise, small_config
from zoo_tools import write_tiny

from export import files, verify
from export.__main__ import main
from export.onnx_model import to_onnx
from gdn_keras import zoo
from gdn_keras.config import ACTIVATIONS
from gdn_keras.model import adapt, build_model
from gdn_keras.scale_space import METHODS, PADDINGS

ROOT = Path(__file__).parents[1]


def run_onnx(proto, images):
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"image": images})


def keras_logits(model, images):
    return np.asarray(model(images, training=False))


@pytest.mark.parametrize(
    "changes",
    [
        *({"method": method} for method in METHODS),
        *({"scale_pooling": mode} for mode in ("max", "average", "logsumexp")),
        *({"padding": mode, "spatial_selection": "max"} for mode in PADDINGS),
        {"jet_order": 1, "padding": "reflect"},
        {"jet_order": 3},
        {"jet_order": 4},
        {"jet_order": 4, "method": "integrated_derivative", "sigma_ratio": (1.0, 2.0)},
        {"jet_order": 3, "method": "sampled_derivative", "zero_order": True},
        {"zero_order": True, "final_relu": False},
        {"learned_sigmas": True, "sigma_range": (0.5, 2.0)},
        {"sampling_density": 0.7, "input_size": (40, 33)},
        {"sampling_density": 0.7, "input_size": (40, 33), "jet_order": 3, "padding": "reflect"},
        {"sampling_density": 0.7, "input_size": (40, 33), "padding": "mirror"},
        *({"reach": 1.0, "input_size": (40, 33), "padding": mode} for mode in PADDINGS),
        {"reach": 1.0, "sampling_density": 0.7, "input_size": (40, 33), "jet_order": 3},
        {"learned_sigmas": True, "sampling_density": 0.7, "input_size": (40, 33)},
    ],
    ids=str,
)
@pytest.mark.parametrize("widths", [(4, 5), (16, 16)], ids=["dense", "blocked"])
def test_onnx_computes_what_keras_computes(changes, widths):
    model = randomise(build_model(small_config(widths=widths, **changes)))
    images = random_images(model.config, batch=3)
    expected = keras_logits(model, images)
    assert np.ptp(expected, axis=0).max() > 1e-2  # images are told apart, so errors would show
    assert_rounded(run_onnx(to_onnx(model), images)[0], expected)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("jet_order", [2, 3])
def test_the_form_for_int8_computes_the_same(padding, jet_order):
    config = small_config(
        widths=(16, 16),
        padding=padding,
        jet_order=jet_order,
        input_size=(33, 40),
        spatial_selection="max",
    )
    model = randomise(build_model(config))
    images = random_images(model.config, batch=3)
    proto = to_onnx(model, split=False)
    kinds = [node.op_type for node in proto.graph.node]
    assert ("Pad" in kinds) == (padding in ("reflect", "edge")) and "Add" not in kinds
    assert_rounded(run_onnx(proto, images)[0], keras_logits(model, images))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_that_of_keras(activation):
    # once in the network: the exponential of an exponential is soon infinite
    config = small_config(activation=activation, widths=(4,), final_relu=False)
    model = randomise(build_model(config))
    images = random_images(model.config, batch=3)
    expected = keras_logits(model, images)
    assert np.ptp(expected, axis=0).max() > 1e-2
    assert_rounded(run_onnx(to_onnx(model, opset=13), images)[0], expected)


@pytest.mark.parametrize("selection", ["centre", "max"])
@pytest.mark.parametrize("padding", ["zero", "reflect"])
def test_one_file_takes_every_size(selection, padding):
    model = randomise(
        build_model(small_config(widths=(16, 16), spatial_selection=selection, padding=padding))
    )
    proto = to_onnx(model, dynamic_size=True)
    for size in ((12, 13), (40, 37), (64, 80)):
        other = adapt(model, input_size=size)
        images = random_images(other.config)
        assert_rounded(run_onnx(proto, images)[0], keras_logits(other, images))


def test_a_network_for_pixels_from_0_to_1(tmp_path, folder):
    """Is compared on such images, not on 255 times as bright ones."""
    model = zoo.load(folder.path, pixel_range=(0, 1))
    largest = [images.max() for _, images in verify.check_images(model, dataset="fashion_mnist")]
    assert max(largest) <= 1
    path = tmp_path / "unit.onnx"
    assert files.write_onnx(model, path, info=folder.info()) < 1e-5


def test_a_network_of_data_that_nobody_here_knows(tmp_path):
    """Its file says that images fill the input, and what is around them by its padding."""
    folder = write_tiny(tmp_path, "net", padding="reflect")
    path, info = tmp_path / "net.onnx", dataclasses.replace(folder.info(), dataset="other")
    assert files.write_onnx(zoo.load(folder.path), path, info=info) < 1e-4
    facts = onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map
    assert (facts["dataset"], facts["trained_side"]) == ("other", "fills")
    assert facts["surroundings"] == "symmetric"


def test_scales_and_signature():
    model = randomise(build_model(small_config(scale_pooling="max")))
    images = random_images(model.config, batch=5)
    proto = to_onnx(model, with_scales=True, uint8=True, opset=13)
    assert [entry.name for entry in proto.graph.input] == ["image"]
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    names = [output.name for output in proto.graph.output]
    assert names == ["logits", "scale_logits", "selected_scale"]
    logits, scale_logits, selected = run_onnx(proto, images.astype("uint8"))
    expected = np.asarray(model.scale_logits_model()(np.floor(images)))
    assert_rounded(scale_logits, expected)
    outputs = expected[np.arange(5), :, logits.argmax(axis=1)]
    assert_rounded(outputs[np.arange(5), selected], outputs.max(axis=1))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"sampling_density": 0.7}, "every pixel.*Received: sampling_density=0.7, reach=None"),
        ({"reach": 1.0}, "every pixel.*Received: sampling_density=None, reach=1.0"),
        ({"padding": "mirror"}, "pads every layer.*Received: padding='mirror'"),
    ],
)
def test_networks_of_one_size_are_refused_where_any_is_asked_for(changes, message):
    with pytest.raises(ValueError, match=message):
        to_onnx(build_model(small_config(**changes)), dynamic_size=True)


def test_an_opset_that_is_too_old_is_refused():
    with pytest.raises(ValueError, match="`opset` must be from 13.*Received: opset=9"):
        to_onnx(build_model(small_config()), opset=9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("zoo"), "net")


def test_a_wrong_export_leaves_no_file(folder, tmp_path, monkeypatch, capsys):
    """The check must be able to fail: the tolerance is made smaller than float32's rounding."""
    monkeypatch.setattr(verify, "TOLERANCE", 0.0)
    target = tmp_path / "net.onnx"
    assert main(["onnx", str(folder.path), "-o", str(target)]) == 1
    assert "deviates from Keras" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["logits", "scale_logits"])
def test_what_is_not_a_number_is_a_deviation(folder, output):
    model = build_model(folder.config)

    def run(images):
        outputs = {
            "logits": np.array(model(images, training=False)),
            "scale_logits": np.array(model.scale_logits_model()(images, training=False)),
        }
        best = outputs["scale_logits"][np.arange(len(images)), :, outputs["logits"].argmax(axis=1)]
        outputs["selected_scale"] = best.argmax(axis=1)
        if broken and len(images) == 3:
            outputs[output].flat[-1] = np.nan
        return outputs

    broken = False
    assert verify.compare(model, run, dataset="fashion_mnist") < 1e-6
    broken = True
    with pytest.raises(verify.ParityError, match="deviates from Keras by inf"):
        verify.compare(model, run, dataset="fashion_mnist")


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(tmp_path):
    path = tmp_path / "saved"
    path.mkdir()
    (path / "saved_model.pb").write_text("old")
    with (
        pytest.raises(FileNotFoundError),
        files.kept_if_good(path, has="saved_model.pb"),
    ):
        pass  # nothing was written, so nothing can be moved
    assert (path / "saved_model.pb").read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.heavy
def test_saved_model_without_gdn_keras(folder, tmp_path):
    target = tmp_path / "saved"
    assert main(["saved-model", str(folder.path), "-o", str(target)]) == 0
    model = files.fold(randomise(build_model(folder.config)))
    images = random_images(folder.config, batch=3)
    np.save(tmp_path / "images.npy", images)
    code = f"""
import sys
sys.modules["gdn_keras"] = None  # import gdn_keras fails
import numpy as np, tensorflow as tf
loaded = tf.saved_model.load({str(target)!r})
assert list(loaded.signatures) == ["serving_default"]
image = tf.constant(np.load({str(tmp_path / "images.npy")!r}))
logits = loaded.signatures["serving_default"](image=image)["logits"]
np.save({str(tmp_path / "logits.npy")!r}, logits)
"""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = processes.run("-c", code, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(
        np.load(tmp_path / "logits.npy"), keras_logits(model, images), atol=1e-4
    )
    variables = tmp_path / "saved" / "variables" / "variables.data-00000-of-00001"
    weights = sum(4 * int(np.prod(weight.shape)) for weight in model.weights)
    assert variables.stat().st_size < 1.5 * weights + 4096  # stored once


def test_a_batch_of_no_images_is_refused():
    """ONNX cannot say that a size is at least one; onnxruntime does not multiply empty batches."""
    proto = to_onnx(build_model(small_config()))
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="MatMul"):
        run_onnx(proto, np.zeros((0, 13, 12, 2), "float32"))
