"""Networks with an output at every pixel: `spatial_selection="none"`."""

from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import onnxruntime
import pytest
import reference
from helpers import (
    assert_rounded,
    evaluate,
    random_images,
    randomise,
    small_config,
    weights_by_layer,
)
from scipy import ndimage

from export.files import write_litert, write_saved_model
from export.onnx_model import to_onnx
from export.quantisation.quantise import write_int8
from gdn_keras import GaussDerNet, adapt, build_model, fold, without_top
from gdn_keras.accuracy import evaluate as evaluate_accuracy
from gdn_keras.classify import classify
from gdn_keras.layers import CommonGrid
from gdn_keras.model import channel_plans
from gdn_keras.scale_space.plan import Grid, interpolation

COARSE = {"sampling_density": 0.5, "channel_sigmas": (0.5, 1.0, 2.0)}  # every, 2nd, 4th pixel


def make(**changes):
    return randomise(build_model(small_config(spatial_selection="none", **changes)))


@pytest.mark.parametrize("padding", ["zero", "mirror"])
def test_outputs_are_the_maps_of_the_reference(padding):
    model = make(padding=padding)
    images = random_images(model.config)
    outputs = evaluate(model, images)
    assert model.output_shape == (None, 13, 12, 2, 3) and outputs.shape == (2, 13, 12, 2, 3)
    weights = weights_by_layer(model)
    for image, output in zip(images, outputs, strict=True):
        maps = [
            reference.scale_channel(image, weights, model.config, sigma)
            for sigma in model.config.channel_sigmas
        ]
        assert_rounded(output, np.stack(maps, axis=2))


def test_the_centre_is_that_of_the_network_that_reads_it():
    model = make()
    images = random_images(model.config)
    centre = adapt(model, spatial_selection="centre").scale_logits_model()
    middle = evaluate(model, images)[:, 6, 5:7].mean(axis=1)
    assert_rounded(middle, evaluate(centre, images))
    largest = adapt(model, spatial_selection="max").scale_logits_model()
    assert_rounded(evaluate(model, images).max(axis=(1, 2)), evaluate(largest, images))


@pytest.mark.parametrize("size", [(41, 33), (40, 33)])
def test_coarse_maps_are_interpolated_as_scipy_does(size):
    model = make(**COARSE, input_size=size)
    images = random_images(model.config)
    outputs = evaluate(model, images)
    maps = evaluate(model.maps_model(), images)
    grids = [plan.layers[-1].rows.output for plan in channel_plans(model.config)]
    assert [grid.spacing for grid in grids] == [1, 2, 4]
    for channel, (grid, samples) in enumerate(zip(grids, maps, strict=True)):
        positions = [
            (np.arange(n) - (n - 1) / 2) / grid.spacing + (m - 1) / 2
            for n, m in zip(size, samples.shape[1:3], strict=True)
        ]
        places = np.meshgrid(*positions, indexing="ij")
        expected = np.empty(outputs[:, :, :, channel].shape)
        for image, k in np.ndindex(2, 3):
            values = samples[image, ..., k].astype("float64")
            expected[image, ..., k] = ndimage.map_coordinates(
                values, places, order=1, mode="nearest"
            )
        assert_rounded(outputs[:, :, :, channel], expected)
    np.testing.assert_array_equal(outputs[:, :, :, 0], maps[0])  # exact where grids agree
    if size == (41, 33):  # … also at the common samples of odd sizes
        rows, columns = (np.arange(n % 8 // 2, n, 4) for n in size)
        assert maps[2].shape[1:3] == (len(rows), len(columns))
        np.testing.assert_array_equal(outputs[:, rows][:, :, columns, 2], maps[2])


@pytest.mark.parametrize("changes, shift", [({}, (3, -5)), (COARSE, (4, -8))])
def test_outputs_move_with_the_image(changes, shift):
    """By any number of pixels; on coarse grids by their spacing."""
    model = make(**{"channel_sigmas": (0.5, 1.0), **changes}, input_size=(120, 117))
    images = random_images(model.config)
    moved = np.roll(images, shift, axis=(1, 2))
    before, after = evaluate(model, images), evaluate(model, moved)
    margin = 24 if not changes else 48  # reach of three layers, and the shift
    inside = np.s_[:, margin:-margin, margin:-margin]
    expected = np.roll(before, shift, axis=(1, 2))
    assert expected[inside].std() > 0.05 and np.abs(after - before)[inside].max() > 0.1
    assert_rounded(after[inside], expected[inside])


@pytest.fixture(scope="module")
def coarse():
    """A network on coarse grids, images and its outputs. Tests leave it as it is."""
    model = make(**COARSE, scale_dropout=0.3)
    images = random_images(model.config)
    return SimpleNamespace(model=model, images=images, outputs=evaluate(model, images))


def test_a_folded_network_computes_the_same(coarse):
    assert_rounded(evaluate(fold(coarse.model), coarse.images), coarse.outputs)


def test_scale_logits_are_the_outputs(coarse):
    scale_logits = evaluate(coarse.model.scale_logits_model(), coarse.images)
    np.testing.assert_array_equal(scale_logits, coarse.outputs)


def test_a_saved_network_computes_the_same(coarse, tmp_path):
    coarse.model.save(tmp_path / "dense.keras")
    loaded = keras.saving.load_model(tmp_path / "dense.keras")
    assert type(loaded) is GaussDerNet
    np.testing.assert_array_equal(evaluate(loaded, coarse.images), coarse.outputs)


def test_sigmas_size_and_selection_can_be_changed(coarse):
    single = adapt(coarse.model, channel_sigmas=(0.5,), input_size=(20, 21))
    assert single.output_shape == (None, 20, 21, 1, 3)
    assert adapt(single, spatial_selection="max").output_shape == (None, 3)


def test_features_are_the_maps_of_the_last_but_one_layer(coarse):
    features = without_top(coarse.model)
    assert features.output_shape == (None, 13, 12, 3, 5)
    maps = adapt(coarse.model, spatial_selection="max").maps_model(layer=2)
    expected = evaluate(maps, coarse.images)[0]
    assert_rounded(evaluate(features, coarse.images)[:, :, :, 0], expected)


@pytest.mark.parametrize("changes", [{}, COARSE])
def test_onnx(changes):
    model = make(**changes)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    images = random_images(model.config, batch=3)
    (outputs,) = session.run(None, {"image": images})
    assert_rounded(outputs, evaluate(model, images))
    assert session.get_outputs()[0].shape == ["batch", *model.output_shape[1:]]


@pytest.mark.parametrize("write", [write_saved_model, write_litert])
def test_formats_of_tensorflow(write, tmp_path):
    """Each is compared with Keras before it is kept; the data set has no images of this size."""
    deviation = write(make(**COARSE), tmp_path / "net", info=SimpleNamespace(dataset="cifar10"))
    assert deviation <= 1e-4 and (tmp_path / "net").exists()


def test_interpolation_matrices():
    np.testing.assert_array_equal(interpolation(Grid(5), Grid(5)), np.eye(5))
    expected = [[1, 0], [1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1], [0, 1]]
    np.testing.assert_array_equal(interpolation(Grid(2, 2), Grid(6)), expected)


@pytest.mark.parametrize(
    "what, call",
    [
        ("`classify`", lambda model: classify(model, random_images(model.config))),
        ("accuracy", lambda model: evaluate_accuracy(model, dataset="fashion_mnist")),
        ("`dynamic_size`", lambda model: to_onnx(model, dynamic_size=True)),
        ("`with_scales`", lambda model: to_onnx(model, with_scales=True)),
        (
            "`--quantise`",
            lambda model: write_int8(
                model, Path("net.onnx"), info=SimpleNamespace(dataset="cifar10")
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_one_output_per_image_says_so(what, call):
    needs = "one output per image.*'centre' or 'max'.*Received: spatial_selection='none'"
    with pytest.raises(ValueError, match=f"{what} .*{needs}"):
        call(make())


@pytest.mark.parametrize("as_list", [False, True])
def test_a_common_grid_is_for_the_maps_of_all_channels(as_list):
    images = random_images(small_config())
    with pytest.raises(ValueError, match="`inputs` must be a list of 2 .*Received: shape"):
        CommonGrid((3, 3), spacings=(1, 1))([images] if as_list else images)
