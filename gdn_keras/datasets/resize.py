"""Bicubic resizing with antialiasing, as dense resampling matrices.

One axis is resized by one small matrix A (n_out x n_in), so an image is resized by A x B' and a
whole batch by two matrix products. Boundary handling, mirror extension, cropping and placing on a
canvas are entries of the matrix.

Two grids, of which `rescale`, and so the data sets of this package, uses "centred":

- "matlab": the grid of MATLAB's `imresize`. Output pixel x (one-based) reads the input at
  u = x/S + (1 - 1/S)/2, which aligns the *left edges* of both images. When S n is not an integer
  the output has ceil(S n) pixels, and its centre is not the centre of the input.
- "centred": the same kernel and size on a grid that is symmetric about the image centre:
  u = (x - (m + 1)/2)/S + (n + 1)/2 for m output pixels. The same where S n is an integer.
"""

import math

import numpy as np

from gdn_keras.utils.checks import check_choice, check_integer, check_number, checked, received
from gdn_keras.utils.pixels import check_pixels

MODES = ("matlab", "centred")
EXTENSIONS = ("zero", "mirror")
_LARGEST = 10_000  # factor, and side of a canvas in pixels
_CHUNK = 50  # small enough to stay in the cache


@checked
def cubic(x: np.ndarray) -> np.ndarray:
    """Keys' cubic convolution kernel with a = -1/2."""
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x**2 + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x <= 1, near, np.where(x <= 2, far, 0.0))


@checked
def resample_matrix(
    n: int, positions: np.ndarray, *, scale: float, strips: tuple[int, int] | None = None
) -> np.ndarray:
    """Read an axis of n pixels at zero-based `positions`, which may lie outside.

    There the axis is continued by half-sample symmetric reflection, as often as needed: of the
    whole axis, or of only the first and last `strips` pixels. `scale` only stretches the kernel:
    output pixels per input pixel.
    """
    check_integer("n", n, low=1, high=_LARGEST)
    _check_scale(scale)
    positions = np.asarray(positions)
    if positions.ndim != 1:
        raise ValueError(f"`positions` must be a row. Received: shape {positions.shape}.")
    if not np.isfinite(positions).all():
        raise ValueError(f"`positions` must be finite. {received('positions', positions)}")
    for strip in strips or ():
        check_integer("strips", strip, low=1)
    stretch = max(1.0, 1.0 / scale)  # antialiasing: a wider kernel when the image shrinks
    taps = math.ceil(4 * stretch) + 2
    left = np.floor(positions - 2 * stretch).astype(int)
    index = left[:, None] + np.arange(taps)
    weights = cubic((positions[:, None] - index) / stretch)
    weights /= weights.sum(axis=1, keepdims=True)
    first, last = strips or (n, n)
    index = np.where(index < 0, _bounce(-1 - index, first), index)
    index = np.where(index >= n, n - 1 - _bounce(index - n, last), index)
    matrix = np.zeros((len(positions), n))
    np.add.at(matrix, (np.arange(len(positions))[:, None], index), weights)
    return matrix


def _bounce(steps: np.ndarray, width: int) -> np.ndarray:
    """0 ... width - 1, width - 1 ... 0, and so on."""
    steps = steps % (2 * width)
    return np.minimum(steps, 2 * width - 1 - steps)


def _centred_matrix(n: int, m: int, scale: float) -> np.ndarray:
    """m output pixels whose middle is the middle of the n input pixels."""
    return resample_matrix(n, (np.arange(m) - (m - 1) / 2) / scale + (n - 1) / 2, scale=scale)


@checked
def resize_matrix(n: int, *, scale: float, mode: str = "matlab") -> np.ndarray:
    """The matrix (n_out x n) that resizes an axis of n pixels by `scale`."""
    check_choice("mode", mode, MODES)
    check_integer("n", n, low=1, high=_LARGEST)
    m = math.ceil(_check_scale(scale) * n)
    if mode == "centred":
        return _centred_matrix(n, m, scale)
    one_based = np.arange(1, m + 1) / scale + 0.5 * (1 - 1 / scale)
    return resample_matrix(n, one_based - 1, scale=scale)


@checked
def imresize(
    image: np.ndarray, scale: float | tuple[float, float], *, mode: str = "matlab"
) -> np.ndarray:
    """Resize like MATLAB's `imresize(image, scale)`: bicubic, antialiased.

    >>> imresize(np.arange(16.0).reshape(4, 4), 0.75)[0]
    array([0.75055188, 2.1004415 , 3.45033113])

    A batch is resized at once:

    >>> imresize(np.zeros((100, 28, 28, 1), np.uint8), 2).shape
    (100, 56, 56, 1)

    Args:
        image: `(h, w)`, `(h, w, c)` or `(n, h, w, c)`. `uint8` stays `uint8`, `float32` and
            `float64` stay what they are; other integers become `float64`.
        scale: one factor, or a pair for rows and columns. The axis with the smaller factor is
            resized first, rows if they are equal.
        mode: "matlab", or "centred" for a grid that is symmetric about the image centre (see the
            head of this file).

    In "matlab" mode `uint8` is rounded and clipped after each axis, as MATLAB does; in "centred"
    mode once, at the end. Floats are neither rounded nor clipped.
    """
    check_choice("mode", mode, MODES)
    image = np.asarray(image)
    if image.ndim not in (2, 3, 4) or image.size == 0:
        raise ValueError(
            "`image` must be a non-empty array (h, w), (h, w, c) or (n, h, w, c). "
            f"Received: shape {image.shape}."
        )
    if image.dtype.kind not in "uif" or image.dtype == np.float16:
        raise ValueError(
            "`image` must hold uint8, integers, float32 or float64. "
            f"Received: image.dtype={image.dtype}."
        )
    check_pixels(image, name="image")
    scales = np.broadcast_to(np.asarray(scale, float), 2)
    for factor in scales.tolist():
        _check_scale(factor)
    batch = image[None] if image.ndim < 4 else image
    if image.ndim == 2:
        batch = batch[..., None]
    rows, columns = (
        resize_matrix(n, scale=s, mode=mode)
        for n, s in zip(batch.shape[1:3], scales.tolist(), strict=True)
    )
    is_uint8 = image.dtype == np.uint8
    result = _apply(
        batch,
        rows,
        columns,
        rows_first=scales[0] <= scales[1],
        round_between=is_uint8 and mode == "matlab",
    )
    if is_uint8:
        result = _to_uint8(result)
    elif image.dtype == np.float32:
        result = result.astype(np.float32)
    if image.ndim == 2:
        result = result[..., 0]
    return result[0] if image.ndim < 4 else result


@checked
def rescale(
    images: np.ndarray,
    *,
    size_factor: float,
    canvas: int,
    extension: str,
    corners: np.ndarray | None = None,
) -> np.ndarray:
    """Resize a batch by `size_factor` and show it on a square canvas, as the paper's data sets do.

    Args:
        images: `uint8 (n, h, w, c)`.
        size_factor: how much the object is enlarged, any positive number.
        canvas: height and width of the result in pixels.
        extension: what is seen outside the image. "zero": black; the resized image must fit on
            the canvas. "mirror": the image reflected at its borders (half-sample symmetric, as
            often as needed) before it is resized, then cropped.
        corners: `(n, 2)` row and column of the top left pixel of each resized image, for
            `extension="zero"` only. Default: centred.

    Returns:
        `uint8 (n, canvas, canvas, c)`, rounded and clipped once at the end. The centre of the
        image is exactly on the centre of the canvas, and at size factor 1 the middle of the canvas
        is the original image, bit for bit.
    """
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 4:
        raise ValueError(
            "`images` must be uint8 (n, h, w, c). "
            f"Received: dtype {images.dtype}, shape {images.shape}."
        )
    check_choice("extension", extension, EXTENSIONS)
    _check_scale(size_factor, name="size_factor")
    check_integer("canvas", canvas, low=1, high=_LARGEST)
    if 0 in images.shape[1:]:
        raise ValueError(f"`images` must have pixels. Received: shape {images.shape}.")
    if extension == "mirror":
        if corners is not None:
            raise ValueError("`corners` needs `extension='zero'`. Received: extension='mirror'.")
        shown = [canvas, canvas]
    else:
        shown = [object_size(n, size_factor=size_factor, canvas=canvas) for n in images.shape[1:3]]
    rows, columns = (
        _centred_matrix(n, m, size_factor) for n, m in zip(images.shape[1:3], shown, strict=True)
    )
    if extension == "zero":
        if canvas < max(len(rows), len(columns)):
            raise ValueError(
                f"`canvas` must hold the resized image of {len(rows)}x{len(columns)} pixels. "
                f"Received: canvas={canvas}, size_factor={size_factor}."
            )
        corners = _corners(corners, len(images), canvas, (len(rows), len(columns)))

    result = np.zeros((len(images), canvas, canvas, images.shape[3]), np.uint8)
    for start in range(0, len(images), _CHUNK):
        chunk = images[start : start + _CHUNK]
        resized = resize_planes(chunk, rows, columns)
        target = result[start : start + _CHUNK]
        if extension == "mirror":
            target[:] = resized
            continue
        height, width = resized.shape[1:3]
        for image, place, (top, left) in zip(
            resized, target, corners[start : start + _CHUNK], strict=True
        ):
            place[top : top + height, left : left + width] = image
    return result


@checked
def object_size(n: int, *, size_factor: float, canvas: int) -> int:
    """How many canvas pixels show an axis of n pixels when `rescale` extends with zeros.

    Those whose middle lies inside the image, which is the number nearest to S n that leaves an
    even number of pixels of the canvas.
    """
    check_integer("n", n, low=1, high=_LARGEST)
    check_integer("canvas", canvas, low=1, high=_LARGEST)
    _check_scale(size_factor, name="size_factor")
    odd = canvas % 2
    return max(2 * math.floor((size_factor * n - odd) / 2 + 0.5) + odd, 2 - odd)


def _corners(corners, count: int, canvas: int, size: tuple[int, int]) -> np.ndarray:
    room = canvas - np.array(size)
    if corners is None:
        return np.broadcast_to(room // 2, (count, 2))
    corners = np.asarray(corners)
    integers = corners.dtype.kind in "iu"
    if not integers or corners.shape != (count, 2) or (corners < 0).any() or (corners > room).any():
        raise ValueError(
            f"`corners` must be ({count}, 2) with integers in 0...{room.tolist()}. "
            f"Received: {corners.dtype}, shape {corners.shape}, maximum {corners.max(initial=0)}."
        )
    return corners


def resize_planes(batch: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """rows @ image @ columns' for a uint8 batch `(n, h, w, c)`, rounded and clipped once."""
    return _to_uint8(_apply(batch, rows, columns))


def _apply(batch, rows, columns, *, rows_first=True, round_between=False) -> np.ndarray:
    """rows @ image @ columns' for every image and channel, in float64."""
    n, h, w, c = batch.shape
    planes = batch.transpose(0, 3, 1, 2).astype(np.float64).reshape(n * c, h, w)
    for axis in (0, 1) if rows_first else (1, 0):
        planes = np.matmul(rows, planes) if axis == 0 else np.matmul(planes, columns.T)
        if round_between:
            planes = _to_uint8(planes).astype(np.float64)
    return planes.reshape(n, c, len(rows), len(columns)).transpose(0, 2, 3, 1)


def _to_uint8(values: np.ndarray) -> np.ndarray:
    # Halves go up, as in MATLAB; np.rint would send them to the even neighbour.
    values = np.clip(values, 0, 255)
    values += 0.5
    return values.astype(np.uint8)


def _check_scale(scale: float, *, name: str = "scale") -> float:
    expected = f"positive, from 1/{_LARGEST} to {_LARGEST}"
    return check_number(name, scale, low=1 / _LARGEST, high=_LARGEST, expected=expected)
