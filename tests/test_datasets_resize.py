"""Laws and reference values of imresize and rescale."""

import math

import numpy as np
import pytest

from gdn_keras.datasets import SIZE_FACTORS, imresize, rescale
from gdn_keras.datasets.resize import cubic, resize_matrix


def matlab_resize_slowly(image, scale):
    """MATLAB's algorithm pixel by pixel, for one float channel."""

    def axis(signal, n):
        out = []
        for x in range(1, math.ceil(scale * n) + 1):
            u = x / scale + 0.5 * (1 - 1 / scale)
            support = 2 * max(1, 1 / scale)
            total, weights = 0.0, 0.0
            for j in range(math.floor(u - support) - 1, math.ceil(u + support) + 2):
                t = abs(u - j) * min(1, scale)
                if t <= 1:
                    weight = 1.5 * t**3 - 2.5 * t**2 + 1
                elif t <= 2:
                    weight = -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
                else:
                    continue
                k = (j - 1) % (2 * n)
                total = total + weight * signal[k if k < n else 2 * n - 1 - k]
                weights += weight
            out.append(total / weights)
        return np.array(out)

    rows = axis(image, image.shape[0])
    return axis(rows.T, image.shape[1]).T


def test_imresize_gives_the_values_of_matlab():
    np.testing.assert_allclose(
        imresize(np.arange(16.0).reshape(4, 4), 0.75),
        [
            [0.7505518764, 2.1004415011, 3.4503311258],
            [6.1501103753, 7.5, 8.8498896247],
            [11.5496688742, 12.8995584989, 14.2494481236],
        ],
        atol=1e-10,
    )
    np.testing.assert_allclose(
        imresize(np.arange(64).reshape(8, 8), 0.5)[0],
        [4.04296875, 6.08203125, 8.10546875, 10.14453125],
        atol=1e-12,
    )


@pytest.mark.parametrize("scale", [0.3, 2**-0.75, 0.75, 1.0, 2**0.25, 1.9, 3.0])
def test_imresize_is_the_pixelwise_definition(scale):
    image = np.random.default_rng(0).random((11, 7))
    expected = matlab_resize_slowly(image, scale)
    assert expected.shape == (math.ceil(11 * scale), math.ceil(7 * scale))
    np.testing.assert_allclose(imresize(image, scale), expected, atol=1e-12)


def test_the_cubic_kernel_interpolates_and_sums_to_one():
    np.testing.assert_array_equal(cubic(np.arange(-3.0, 4)), [0, 0, 0, 1, 0, 0, 0])
    offsets = np.linspace(0, 1, 11)[:, None] + np.arange(-3, 3)
    np.testing.assert_allclose(cubic(offsets).sum(axis=1), 1, atol=1e-14)


@pytest.mark.parametrize("mode", ["matlab", "centred"])
@pytest.mark.parametrize("scale", SIZE_FACTORS)
def test_constants_stay_and_floats_are_not_clipped(mode, scale):
    np.testing.assert_allclose(resize_matrix(9, scale=scale, mode=mode).sum(axis=1), 1, atol=1e-12)
    image = np.full((6, 6), 300.5)
    np.testing.assert_allclose(imresize(image, scale, mode=mode), 300.5, atol=1e-9)


def test_uint8_is_rounded_and_clipped_after_each_axis_in_matlab_mode():
    # extremes: overshoots on both sides
    image = np.random.default_rng(0).integers(0, 2, (9, 9), dtype=np.uint8) * 255
    rows = imresize(image.astype(float), (2, 1))
    assert rows.min() < -1 and rows.max() > 256
    rows = np.floor(np.clip(rows, 0, 255) + 0.5)
    both = np.floor(np.clip(imresize(rows, (1, 2)), 0, 255) + 0.5)
    np.testing.assert_array_equal(imresize(image, 2), both)
    once = np.floor(np.clip(imresize(image.astype(float), 2), 0, 255) + 0.5)
    np.testing.assert_array_equal(imresize(image, 2, mode="centred"), once)
    assert (once != both).any()


def test_the_smaller_scale_goes_first():
    image = np.random.default_rng(0).integers(0, 2, (12, 12), dtype=np.uint8) * 255
    # uint8 rounding in between makes the order visible.
    np.testing.assert_array_equal(
        imresize(image, (2, 0.5)), imresize(imresize(image, (1, 0.5)), (2, 1))
    )
    np.testing.assert_array_equal(
        imresize(image, (0.5, 2)), imresize(imresize(image, (0.5, 1)), (1, 2))
    )
    assert (imresize(image, (2, 0.5)) != imresize(imresize(image, (2, 1)), (1, 0.5))).any()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_a_batch_is_its_images(dtype):
    batch = (np.random.default_rng(0).random((3, 8, 6, 2)) * 255).astype(dtype)
    result = imresize(batch, 0.75)
    assert result.dtype == dtype and result.shape == (3, 6, 5, 2)
    for image, expected in zip(batch, result, strict=True):
        np.testing.assert_array_equal(imresize(image, 0.75), expected)
        np.testing.assert_array_equal(imresize(image[..., 1], 0.75), expected[..., 1])


@pytest.mark.parametrize("scale", SIZE_FACTORS)
def test_the_centred_grid_commutes_with_mirroring(scale):
    image = np.random.default_rng(0).random((28, 28))
    resized = imresize(image, scale, mode="centred")
    assert len(resized) == math.ceil(28 * scale)
    np.testing.assert_allclose(
        imresize(image[::-1, ::-1], scale, mode="centred"), resized[::-1, ::-1], atol=1e-12
    )


def test_the_matlab_grid_is_off_centre_where_the_size_is_no_integer():
    image = np.random.default_rng(0).random((28, 28))
    resized = imresize(image, 2**-0.75)
    assert resized.shape == (17, 17)
    mirrored = imresize(image[::-1, ::-1], 2**-0.75)[::-1, ::-1]
    assert np.abs(mirrored - resized).max() > 0.01
    np.testing.assert_allclose(imresize(image, 2), imresize(image, 2, mode="centred"), atol=1e-12)


@pytest.mark.parametrize("size, canvas, extension", [(28, 72, "zero"), (32, 64, "mirror")])
def test_size_factor_one_keeps_every_pixel(size, canvas, extension):
    images = np.random.default_rng(0).integers(0, 256, (4, size, size, 3), dtype=np.uint8)
    result = rescale(images, size_factor=1, canvas=canvas, extension=extension)
    low, high = (canvas - size) // 2, (canvas + size) // 2
    np.testing.assert_array_equal(result[:, low:high, low:high], images)
    margin = canvas - high
    if extension == "zero":
        assert result.sum(dtype=int) == images.sum(dtype=int)
    else:  # the edge pixel is repeated: half-sample symmetric
        expected = np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)), "symmetric")
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("factor", SIZE_FACTORS)
@pytest.mark.parametrize("extension, canvas", [("zero", 72), ("mirror", 64)])
def test_the_object_is_centred_on_the_canvas(factor, extension, canvas):
    half = np.random.default_rng(0).integers(0, 256, (2, 28, 14, 1), dtype=np.uint8)
    images = np.concatenate([half, half[:, :, ::-1]], axis=2)
    images = np.maximum(images, images[:, ::-1])  # symmetric about both axes
    result = rescale(images, size_factor=factor, canvas=canvas, extension=extension).astype(int)
    # Rounding of exact halves may differ between mirrored sums, by one grey level.
    assert np.abs(result - result[:, :, ::-1]).max() <= 1
    assert np.abs(result - result[:, ::-1]).max() <= 1


@pytest.mark.parametrize("factor", SIZE_FACTORS)
def test_mirroring_inside_the_matrix_is_extending_first(factor):
    """Mirror, resize, crop, as the paper says."""
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    # An even number of resized pixels, so that 64 of them can be cropped from the exact centre.
    margin = next(m for m in range(64, 99) if math.ceil(factor * (32 + 2 * m)) % 2 == 0)
    padded = np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)), "symmetric")
    resized = imresize(padded, factor, mode="centred")
    low = (resized.shape[1] - 64) // 2
    np.testing.assert_array_equal(
        rescale(images, size_factor=factor, canvas=64, extension="mirror"),
        resized[:, low : low + 64, low : low + 64],
    )


def test_corners_place_the_object():
    images = np.random.default_rng(0).integers(1, 256, (2, 28, 28, 1), dtype=np.uint8)
    corners = np.array([[4, 12], [0, 44]])
    result = rescale(images, size_factor=1, canvas=72, extension="zero", corners=corners)
    np.testing.assert_array_equal(result[0, 4:32, 12:40], images[0])
    np.testing.assert_array_equal(result[1, 0:28, 44:72], images[1])
    assert result.sum(dtype=int) == images.sum(dtype=int)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"images": np.zeros((1, 28, 28, 1))}, "`images` must be uint8.*float64"),
        ({"images": np.zeros((28, 28), np.uint8)}, r"Received: dtype uint8, shape \(28, 28\)"),
        ({"extension": "wrap"}, "`extension` must be one of.*'wrap'"),
        ({"size_factor": 0}, "`size_factor` must be positive.* Received: size_factor=0"),
        ({"size_factor": 4}, "`canvas` must hold the resized image of 112x112.*canvas=72"),
        ({"corners": np.array([[50, 0]])}, "`corners` must be .1, 2. with integers in 0"),
        ({"corners": np.array([[0, 0]]), "extension": "mirror"}, "`corners` needs"),
    ],
)
def test_rescale_refuses(change, message):
    arguments = {"images": np.zeros((1, 28, 28, 1), np.uint8), "size_factor": 1.0, "canvas": 72}
    arguments |= {"extension": "zero"} | change
    with pytest.raises(ValueError, match=message):
        rescale(arguments.pop("images"), **arguments)


@pytest.mark.parametrize(
    "image, scale, message",
    [
        (np.zeros((4, 4)), -1, "`scale` must be positive.* Received: scale=-1"),
        (np.zeros(4), 1, r"Received: shape \(4,\)"),
        (np.zeros((4, 4), complex), 1, "complex128"),
    ],
)
def test_imresize_refuses(image, scale, message):
    with pytest.raises(ValueError, match=message):
        imresize(image, scale)
