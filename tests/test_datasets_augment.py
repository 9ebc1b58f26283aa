"""Augmentations against independent implementations: Pillow, colorsys, plain loops."""

import colorsys

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from gdn_keras.datasets import load_samples
from gdn_keras.datasets.batching.augment import (
    BRIGHTNESS,
    CONTRAST,
    HUE,
    SATURATION,
    colour_jitter,
    cutout,
    draw,
    flip,
    shift_hue,
)

IMAGES = load_samples("cifar10").images[:6]
IDENTITY = np.arange(4)


def jitter_one(image, *, factors=(1, 1, 1), hue=0.0, order=IDENTITY):
    return colour_jitter(image[None], np.array([factors]), np.array([hue]), np.array([order]))[0]


def jitter_slowly(image, factors, hue, order):
    """torchvision's ColorJitter for one float image, pixel by pixel, with colorsys."""
    pixels = [[float(value) for value in pixel] for pixel in image.reshape(-1, 3)]

    def grey(pixel):
        return 0.2989 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]

    def blend(value, other, factor):
        return min(max(factor * value + (1 - factor) * other, 0.0), 255.0)

    for what in order:
        if what == BRIGHTNESS:
            pixels = [[blend(v, 0, factors[0]) for v in p] for p in pixels]
        elif what == CONTRAST:
            mean = sum(map(grey, pixels)) / len(pixels)
            pixels = [[blend(v, mean, factors[1]) for v in p] for p in pixels]
        elif what == SATURATION:
            pixels = [[blend(v, grey(p), factors[2]) for v in p] for p in pixels]
        else:
            hsv = [colorsys.rgb_to_hsv(*(v / 255 for v in p)) for p in pixels]
            rgb = [colorsys.hsv_to_rgb((h + hue) % 1, s, v) for h, s, v in hsv]
            pixels = [[255 * v for v in p] for p in rgb]
    return np.array(pixels).reshape(image.shape)


@pytest.mark.parametrize("factor", [0.8, 0.93, 1.0, 1.2])
@pytest.mark.parametrize(
    "position, enhancer",
    [
        (0, ImageEnhance.Brightness),
        (1, ImageEnhance.Contrast),
        (2, ImageEnhance.Color),
    ],
)
def test_brightness_contrast_and_saturation_are_those_of_pillow(factor, position, enhancer):
    for image in IMAGES:
        factors = [1.0, 1.0, 1.0]
        factors[position] = factor
        expected = np.asarray(enhancer(Image.fromarray(image)).enhance(factor), float)
        # Pillow rounds the result, and before that the grey level, to whole numbers.
        assert np.abs(jitter_one(image, factors=factors) - expected).max() <= 1.2


@pytest.mark.parametrize("shift", [-0.05, -0.013, 0.0, 0.05, 0.4])
def test_the_hue_shift_is_that_of_colorsys(shift):
    image = IMAGES[0]
    expected = jitter_slowly(image, (1, 1, 1), shift, [HUE])
    np.testing.assert_allclose(
        shift_hue(image[None].astype(np.float32), np.array([shift]))[0], expected, atol=2e-3
    )


def test_a_hue_shift_leaves_greys_and_a_third_of_a_turn_permutes_the_channels():
    grey = np.full((1, 2, 2, 3), 77, np.float32)
    np.testing.assert_array_equal(shift_hue(grey, np.array([0.3])), grey)
    image = IMAGES[:1].astype(np.float32)
    turned = shift_hue(image, np.array([1 / 3]))
    np.testing.assert_allclose(turned, np.roll(image, 1, axis=-1), atol=1e-3)


def test_jitter_applies_all_four_in_the_order_of_each_image():
    rng = np.random.default_rng(5)
    factors, hue, order = draw("colour_jitter", rng, IMAGES.shape)
    result = colour_jitter(IMAGES, factors, hue, order)
    assert result.dtype == np.float32 and result.min() >= 0 and result.max() <= 255
    assert len({tuple(row) for row in order}) > 1
    for index, image in enumerate(IMAGES):
        expected = jitter_slowly(image, factors[index], hue[index], order[index])
        np.testing.assert_allclose(result[index], expected, atol=5e-3)
        other = jitter_slowly(image, factors[index], hue[index], order[index][::-1])
        assert np.abs(result[index] - other).max() > 0.05


def test_jitter_that_changes_nothing_changes_nothing():
    np.testing.assert_allclose(jitter_one(IMAGES[1]), IMAGES[1], atol=1e-4)


def test_the_random_numbers_have_the_ranges_of_the_paper():
    rng = np.random.default_rng(0)
    factors, hue, order = draw("colour_jitter", rng, (20_000, 32, 32, 3))
    assert factors.shape == (20_000, 3) and 0.8 <= factors.min() < 0.8005
    assert 1.1995 < factors.max() <= 1.2 and abs(factors.mean() - 1) < 0.003
    assert -0.05 <= hue.min() < -0.0499 and 0.0499 < hue.max() <= 0.05
    counts = np.unique(order, axis=0, return_counts=True)[1]
    assert len(counts) == 24 and counts.min() > 0.8 * 20_000 / 24
    (flipped,) = draw("flip", rng, (20_000, 32, 32, 3))
    assert abs(flipped.mean() - 0.5) < 0.02
    rows, columns = draw("cutout", rng, (20_000, 40, 30, 3))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (0, 39, 0, 29)


def test_flip_mirrors_only_the_chosen_images():
    flipped = np.array([True, False, True, False, False, True])
    result = flip(IMAGES, flipped)
    for image, chosen, got in zip(IMAGES, flipped, result, strict=True):
        np.testing.assert_array_equal(got, np.fliplr(image) if chosen else image)


@pytest.mark.parametrize("row, column", [(0, 0), (31, 31), (16, 5), (20, 12), (3, 31)])
def test_cutout_is_a_square_clipped_at_the_border(row, column):
    image = np.maximum(IMAGES[:1], 1)
    expected = image.copy()
    for y in range(32):
        for x in range(32):
            if row - 8 <= y < row + 8 and column - 8 <= x < column + 8:
                expected[0, y, x] = 0
    result = cutout(image, np.array([row]), np.array([column]))
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result, expected)


def test_cutout_in_the_middle_removes_16_by_16_pixels():
    result = cutout(np.ones((1, 64, 64, 3), np.float32), np.array([32]), np.array([20]))
    assert (result == 0).sum() == 16 * 16 * 3 and result.dtype == np.float32
