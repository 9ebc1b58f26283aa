"""`zoo.load(name).classify(…)`: files and arrays to predictions, in one call."""

import keras
import numpy as np
import pytest
from helpers import assert_rounded
from PIL import Image
from zoo_tools import predict, tiny_config, write_tiny

from gdn_keras import GaussDerNet, ImageClassifier, adapt, fold, without_top, zoo
from gdn_keras.datasets import load_samples

FASHION = "rescaled_fashion_mnist"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A network for canvases of 72 x 72 pixels with garments of 28 x 28."""
    return write_tiny(tmp_path_factory.mktemp("zoo"), "net", dataset=FASHION).path


@pytest.fixture(scope="module")
def model(folder):
    return zoo.load(folder)


@pytest.fixture(scope="module")
def garments(tmp_path_factory):
    """Three garments alone as files, and on their canvases."""
    canvases = load_samples(FASHION).images[:3]
    paths = [tmp_path_factory.mktemp("files") / f"{k}.png" for k in range(3)]
    for path, canvas in zip(paths, canvases, strict=True):
        Image.fromarray(canvas[22:50, 22:50, 0]).save(path)
    return paths, canvases


def probabilities(model, images):
    logits = predict(model, images).astype("float64")
    logits = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits / logits.sum(axis=1, keepdims=True)


def test_files_arrays_and_canvases_are_the_same_images(model, garments):
    paths, canvases = garments
    expected = probabilities(model, canvases)
    alone = [np.asarray(Image.open(path)) for path in paths]
    colour = [np.repeat(array[..., None], 3, axis=2) for array in alone]
    for images in (paths, [str(p) for p in paths], alone, colour, canvases, list(canvases)):
        found = model.classify(images, top=10)
        assert len(found) == 3
        for prediction, row in zip(found, expected, strict=True):
            shown = np.zeros(10)
            for index, name, probability in prediction.classes:
                assert name == model.config.class_names[index]
                shown[index] = probability
            assert_rounded(shown, row)


def test_one_image_gives_one_prediction(model, garments):
    paths, canvases = garments
    expected = probabilities(model, canvases)
    one = model.classify(paths[1])
    assert len(one.classes) == 3 and one.classes[0][0] == expected[1].argmax()
    assert model.classify(canvases[1]) == one
    assert model.classify(canvases[1, :, :, 0]) == one


def test_no_images_give_no_predictions(model):
    assert model.classify([]) == []


def test_only_the_colours_of_a_canvas_are_changed(model, garments):
    expected = model.classify(garments[1][0], top=10)
    canvas = garments[1][0]
    opaque = np.full_like(canvas, 255)
    for channels in ((canvas,) * 3, (canvas, canvas, canvas, opaque)):
        assert model.classify(np.concatenate(channels, axis=2), top=10) == expected


def test_pillow_images_are_what_they_show(model, garments):
    """A palette has its colours in any order."""
    grey = Image.open(garments[0][0])
    palette = Image.fromarray(255 - np.asarray(grey)).convert("P")
    palette.putpalette([255 - value for value in range(256) for _ in range(3)])
    alone, *found = model.classify([garments[0][0], grey, palette])
    assert found == [alone, alone]


def test_another_fit(model, garments):
    paths, canvases = garments
    path = paths[0]
    enlarged = np.asarray(Image.open(path).resize((72, 72), Image.Resampling.BICUBIC))
    assert model.classify(path, fit="contain") == model.classify(enlarged)
    with pytest.raises(ValueError, match="`fit` must be one of .* Received: fit='stretch'"):
        model.classify(path, fit="stretch")


def test_a_network_of_unknown_data_fills_its_input(garments):
    path = garments[0][0]
    model = ImageClassifier(tiny_config(FASHION))
    assert model.classify(path) == model.classify(path, fit="contain")
    with pytest.raises(ValueError, match="`fit` .*'trained'"):
        model.classify(path, fit="trained")


def test_saved_adapted_and_folded_networks_classify(model, garments, tmp_path):
    path = garments[0][0]
    expected = model.classify(path)
    model.save(tmp_path / "net.keras")
    loaded = keras.saving.load_model(tmp_path / "net.keras")
    assert type(loaded) is ImageClassifier and loaded.get_config() == model.get_config()
    assert loaded.classify(path) == expected == adapt(model).classify(path)
    folded = fold(model).classify(path)
    assert folded.classes[0][:2] == expected.classes[0][:2]
    assert folded.classes[0][2] == pytest.approx(expected.classes[0][2], rel=1e-4)


@pytest.mark.parametrize(
    "image, message",
    [
        (np.zeros((5, 5, 2)), r"or \(height, width, colour\) with 1, 3 or 4 colours.*\(5, 5, 2\)"),
        (np.zeros(7), r"Received: shape \(7,\)"),
        (np.zeros((0, 5)), r"Received: shape \(0, 5, 1\)"),
        (np.full((5, 5), 400.0), "`image` must be from 0 to 255. Received: from 400 to 400."),
        (
            np.full((5, 5), np.nan),
            "finite pixels. Received: nan at image 0, row 0, column 0",
        ),
        (np.full((5, 5), "a"), "an array of real numbers. Received: image=<U1"),
    ],
)
def test_arrays_that_are_no_images(model, image, message):
    with pytest.raises(ValueError, match=message):
        model.classify([image])


def test_arrays_that_resizing_took_out_of_their_range_are_images(folder):
    """By as much as bicubic resizing may add; what is further away is told in that range."""
    model = zoo.load(folder, pixel_range=(0, 1))
    small = np.linspace(-0.02, 1.02, 50 * 40, dtype="float32").reshape(50, 40)
    assert len(model.classify(small).classes) == 3
    with pytest.raises(ValueError, match="`image` must be from 0 to 1. Received: from -2 to 102."):
        with pytest.warns(UserWarning, match="should have pixels in 0…1"):
            model.classify(100 * small)


def test_a_precision_of_its_own(folder, model):
    half = zoo.load(folder, dtype="mixed_bfloat16")
    assert half.policy.compute_dtype == "bfloat16" and model.policy.compute_dtype == "float32"
    np.testing.assert_array_equal(half.get_layer("jet_1").kernel, model.get_layer("jet_1").kernel)


def test_missing_files_are_named(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.png"):
        model.classify(tmp_path / "nowhere.png")


def test_embeddings_of_the_zoo(folder, model, garments):
    _, canvases = garments
    features = zoo.load(folder, include_top=False)
    info = zoo.info(folder)
    assert type(features) is GaussDerNet and info.num_features == 5 == features.output_shape[1]
    assert "5, with include_top=False" in str(info)
    assert_rounded(predict(features, canvases), predict(without_top(model), canvases))
    wide = zoo.load(folder, include_top=False, input_size=(72, 90), input_channels=3)
    assert wide.input_shape == (None, 72, 90, 3) and wide.output_shape == (None, 5)
    assert zoo.load(folder, include_top=False, weights=False).output_shape == (None, 5)
    with pytest.raises(ValueError, match="`include_top` must be True.*False, num_classes=3"):
        zoo.load(folder, include_top=False, num_classes=3)


def test_pixels_in_another_range_are_taken_or_reported(folder, model, garments):
    """Floats in 0…1: those of a network for them, alone and on a canvas; a warning from others."""
    paths, canvases = garments
    alone = np.asarray(Image.open(paths[0]))
    unit = zoo.load(folder, pixel_range=(0, 1))
    expected = model.classify(alone)
    for image in (alone, alone / 255, canvases[0], canvases[0] / 255):
        found = unit.classify([image, paths[0]])  # a list of both kinds
        for prediction in found:
            assert prediction.classes[0][:2] == expected.classes[0][:2]
            assert prediction.classes[0][2] == pytest.approx(expected.classes[0][2], rel=1e-3)
    for image in (alone / 255, canvases[0] / 255):
        with pytest.warns(UserWarning, match="0…255, .* from 0 to"):
            model.classify(image)
