"""Pixels: their range, values that are not finite, and what is no image."""

import json
import re

import keras
import numpy as np
import pytest
from helpers import assert_rounded, evaluate, random_images, randomise, small_config
from PIL import Image
from zoo_tools import write_tiny

from gdn_keras import adapt, build_model, zoo
from gdn_keras.__main__ import main
from gdn_keras.classify import classify, read_image
from gdn_keras.datasets import load_samples
from gdn_keras.explain import activation_maps, localise, scale_logits

RANGE = r"0…255, .*1 of 1 .*from 0(\.\d+)? to 1, .*pixel_range="


@pytest.fixture(scope="module")
def model():
    return randomise(build_model(small_config()))


@pytest.fixture(scope="module")
def images(model):
    """Integers, as in a file."""
    return random_images(model.config, batch=3).round()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("zoo"), "net").path


def test_the_axes_of_a_batch_are_named(model):
    for name, function in (("pixels", classify), ("images", scale_logits)):
        for wrong in ([], np.zeros((13, 12, 2)), np.zeros((1, 13, 12, 3))):
            message = rf"`{name}` must be \(image, height, width, 2\). Received: shape {{}}"
            with pytest.raises(ValueError, match=message.format(re.escape(str(np.shape(wrong))))):
                function(model, wrong)


# === The range ===


def unit(images):
    """The first image with its pixels in 0…1, and with both ends of it."""
    image = images[:1] / 255
    image[0, 0, 0], image[0, 1, 1] = 0, 1
    return image


def test_pixels_in_0_to_1_are_told(model, images):
    for function in (classify, scale_logits):
        with pytest.warns(UserWarning, match=RANGE):
            function(model, unit(images))
    with pytest.warns(UserWarning, match=RANGE):
        localise(model, unit(images)[0])
    with pytest.warns(UserWarning, match="2 of 3 .*number 0"):
        classify(model, np.concatenate([unit(images), images[:1], unit(images)]))


@pytest.mark.parametrize("lowest, highest", [(-1, 1), (0, 1000), (-2.1, 2.6)])
def test_other_ranges_are_told(model, lowest, highest):
    image = np.full((1, 13, 12, 2), lowest, float)
    image[0, 0, 0] = highest
    with pytest.warns(UserWarning, match=f"from {lowest} to {highest}"):
        classify(model, image)


@pytest.mark.filterwarnings("error")
def test_raw_pixels_black_images_and_overshoot_are_right(model, images):
    classify(model, images)
    classify(model, images.astype(np.uint8))
    classify(model, np.zeros((1, 13, 12, 2)))
    classify(model, np.clip(images, 0, 2) * 150 - 20)  # bicubic resizing goes beyond both ends
    assert classify(model, images[:0]) == []


def test_a_network_for_pixels_in_0_to_1(model, images, tmp_path):
    """The same weights, and the same answers to the same images."""
    adapted = adapt(model, pixel_range=(0, 1))
    expected = evaluate(model, images)
    assert_rounded(evaluate(adapted, images / 255), expected)
    assert_rounded(adapted.predict(images / 255, verbose=0), expected)
    for ours, theirs in zip(adapted.weights, model.weights, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (ours, theirs)))
    adapted.save(tmp_path / "net.keras")
    again = keras.saving.load_model(tmp_path / "net.keras")
    assert again.config.pixel_range == (0, 1)
    assert_rounded(evaluate(again, images / 255), expected)
    with pytest.warns(UserWarning, match="0…1, .*3 of 3"):
        classify(adapted, images)


@pytest.mark.filterwarnings("error")
def test_bytes_are_raw_pixels_for_every_network(model, images):
    adapted, raw = adapt(model, pixel_range=(0, 1)), images.astype(np.uint8)
    assert_rounded(scale_logits(adapted, raw), scale_logits(model, raw))
    assert_rounded(activation_maps(adapted, raw), activation_maps(model, raw))


def test_networks_of_the_zoo_take_pixels_in_0_to_1(folder):
    images = load_samples("fashion_mnist").images[:4]
    expected = zoo.load(folder).predict(images, verbose=0)
    model = zoo.load(folder, pixel_range=(0, 1))
    assert_rounded(model.predict(images / 255, verbose=0), expected)
    assert "raw pixels 0…255" in str(zoo.info(folder))


def test_exports_take_them_too(model, images):
    from export.onnx_model import to_onnx
    from export.verify import onnx_runner

    proto = to_onnx(adapt(model, pixel_range=(0, 1)))
    logits = onnx_runner(proto.SerializeToString())(images / 255)["logits"]
    np.testing.assert_allclose(logits, evaluate(model, images), atol=1e-4)
    assert any("raw pixels 0…1," in p.value for p in proto.metadata_props)
    with pytest.raises(ValueError, match=r"`uint8` .*0…255.*\(0, 1\)"):
        to_onnx(adapt(model, pixel_range=(0, 1)), uint8=True)


def test_the_command_line_tells_the_range(folder, capsys, tmp_path):
    Image.fromarray(np.eye(28, dtype=np.uint8)).save(tmp_path / "bits.png")
    assert main(["predict", str(folder), str(tmp_path / "bits.png"), "--json"]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)) == 1
    assert re.match("warning: `images` .*0…255, .*1 of 1", captured.err)


# === Values that are not finite, and no values at all ===


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_located(model, images, value):
    images = images.copy()
    images[2, 7, 5, 1] = images[2, 9, 0, 0] = value
    where = f".*finite.*Received: {value} at image 2, row 7, column 5, channel 1, 2"
    calls = [
        lambda: model(images),
        lambda: model.predict(images, verbose=0),
        lambda: model.predict_on_batch(images),
        lambda: model.scale_logits_model().predict(images, verbose=0),
        lambda: activation_maps(model, images),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"`images` {where}"):
            call()
    with pytest.raises(ValueError, match=f"`pixels` {where}"):
        classify(model, images)
    with pytest.raises(ValueError, match="`image` must .* at row 7, column 5, channel 1, 2 such"):
        localise(model, images[2])


@pytest.mark.parametrize("dtype", ["complex64", "str", "object", "datetime64[s]"])
def test_what_is_no_number_is_refused(model, dtype):
    images = np.zeros((1, 13, 12, 2)).astype("int64").astype(dtype)
    if dtype == "object":
        images[0, 0, 0, 0] = "a"
    for call in (model, model.predict, model.fit, lambda x: classify(model, x)):
        with pytest.raises(ValueError, match="must be an array of real numbers"):
            call(images)


# === Files ===


def fitted(path):
    config = small_config(input_size=(15, 20), input_channels=1)
    return read_image(path, config=config, dataset="fashion_mnist", fit="original")


def test_a_float_tiff_in_0_to_1(tmp_path):
    ramp = np.tile(np.linspace(0, 1, 20, dtype=np.float32), (15, 1))
    Image.fromarray(ramp).save(tmp_path / "ramp.tif")
    image = fitted(tmp_path / "ramp.tif")
    np.testing.assert_array_equal(image.pixels[..., 0], np.round(255 * ramp))
    assert "values 0…1 taken as 0…255" in image.how
    Image.fromarray(ramp * np.nan).save(tmp_path / "nan.tif")
    with pytest.raises(ValueError, match="nan.tif .*mode F .*from nan to nan"):
        fitted(tmp_path / "nan.tif")


def test_damaged_tiffs(tmp_path):
    """Every byte of the directory in turn: an image, or an error that names the file."""
    path = tmp_path / "broken.tif"
    Image.fromarray(np.zeros((15, 20), np.uint8)).save(path)
    content = path.read_bytes()
    first = int.from_bytes(content[4:8], "little")
    refused = 0
    for k in range(first, len(content) if first > 300 else first + 120):
        changed = bytearray(content)
        changed[k] ^= 0x7F
        path.write_bytes(changed)
        try:
            fitted(path)
        except ValueError as error:
            refused += 1
            assert "broken.tif" in str(error)
    assert refused > 5


def test_a_url_keeps_its_slashes(capsys, folder):
    with pytest.raises(ValueError, match="^https://a.org//b.png is a URL"):
        fitted("https://a.org//b.png")
    assert main(["predict", str(folder), "https://a.org/b.png"]) == 1
    assert "error: https://a.org/b.png is a URL" in capsys.readouterr().err
    with pytest.raises(ValueError, match="hf://owner/repo.*name='https://a.org/b'"):
        zoo.load("https://a.org/b")
