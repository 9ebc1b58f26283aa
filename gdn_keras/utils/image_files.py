"""Image files and arrays of any size and mode as arrays of one size."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

MAX_PIXELS = 80_000_000  # a 240 MB array; larger images are hardly meant to be classified
NOT_IMAGES = (".", "@", "__")  # begin the names of files, and of folders with them, of programs
PAD_MODES = {"black": "constant", "mirrored": "symmetric", "its edge": "edge"}


def files_below(folder: Path) -> list[Path]:
    """All files in a folder and in those below it, sorted, but for those of programs."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(NOT_IMAGES) for part in path.relative_to(folder).parts)
    )


def find_images(folder: Path) -> list[Path]:
    """Those of `files_below` whose suffix is one of an image that Pillow can read."""
    from PIL import Image

    suffixes = {s for s, kind in Image.registered_extensions().items() if kind in Image.OPEN}
    return [path for path in files_below(folder) if path.suffix.lower() in suffixes]


def decode_image(path: Path, *, mode: str | None = None):
    """A Pillow image, upright; and notes on what was done to get it.

    `mode` is "L" for grey, "RGB", or None for whichever of the two the file has.
    """
    from PIL import Image, ImageOps

    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not an image file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: it has no bytes.")
    try:
        with warnings.catch_warnings():  # Pillow warns of large images; the limit is checked below
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(path)
            frames = getattr(image, "n_frames", 1)
    except Image.DecompressionBombError as error:
        raise ValueError(f"{path} is too large: {error}") from error
    except PermissionError:
        raise
    except Exception as error:  # decoders of broken files raise whatever they like
        raise ValueError(f"{path} is not an image file that Pillow can read.") from error
    notes = []
    with image:
        if image.width * image.height == 0:
            raise ValueError(f"{path} is empty: it has {image.width}x{image.height} pixels.")
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(
                f"{path} is too large: at most {MAX_PIXELS:,} pixels are read. "
                f"Received: {image.width}x{image.height}."
            )
        if frames > 1:
            notes.append(f"first of {frames} frames")
        try:
            image.load()
            upright = ImageOps.exif_transpose(image)
        except Exception as error:
            raise ValueError(f"{path} is broken: {error}.") from error
    if upright.size != image.size:
        notes.append("turned upright")
    return convert_image(upright, path, notes, mode=mode), notes


def image_from_array(array: np.ndarray, *, mode: str | None = None):
    """The same for raw pixels 0…255: grey, RGB or RGBA."""
    from PIL import Image

    pixels = np.asarray(array)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    colours = pixels.shape[2] if pixels.ndim == 3 else 1
    if pixels.ndim not in (2, 3) or colours not in (1, 3, 4) or pixels.size == 0:
        raise ValueError(
            "`image` must be a path, or pixels of shape (height, width) or (height, width, colour) "
            f"with 1, 3 or 4 colours. Received: shape {np.shape(array)}."
        )
    low, high = pixels.min(), pixels.max()
    if not (low >= 0 and high <= 255):
        raise ValueError(f"`image` must be from 0 to 255. Received: from {low:g} to {high:g}.")
    notes: list[str] = []
    image = Image.fromarray(np.round(pixels).astype(np.uint8))
    return convert_image(image, "array", notes, mode=mode), notes


def convert_image(image, path: Path | str, notes: list[str], *, mode: str | None):
    """The image as grey ("L") or "RGB"; None: whichever of the two it has."""
    from PIL import Image

    if mode is None:
        mode = "L" if image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I") else "RGB"
    if image.mode == "F" or image.mode.startswith("I"):  # numbers without a fixed range
        values = np.asarray(image).astype(np.float64)
        low, high = values.min(), values.max()
        if image.mode == "F" and 0 <= low and 0 < high <= 1:
            values, high = 255 * values, 255 * high
            notes.append("values 0…1 taken as 0…255")
        if not (low >= 0 and high <= (255 if image.mode == "F" else 65535)):
            raise ValueError(
                f"{path} has colour mode {image.mode} with values from {low:g} to {high:g}; only "
                "0…255, 0…1 for floats, or 0…65535 for whole numbers, are understood."
            )
        if image.mode.startswith("I;16") or high > 255:
            values = values / 257
            notes.append("16 bits to 8")
        image = Image.fromarray(np.round(values).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
        image = image.convert("RGB")
        notes.append("transparent parts made black")
    if image.mode == mode:
        return image
    wanted = "grey" if mode == "L" else mode
    try:
        converted = image.convert(mode)
    except ValueError as error:
        raise ValueError(
            f"{path} has colour mode {image.mode}, which cannot be made {wanted}; save it as RGB "
            "or grey."
        ) from error
    notes.append(f"{image.mode} made {wanted}")
    return converted


def fit_image(image, *, resized: tuple[int, int], size: tuple[int, int], fill: str) -> np.ndarray:
    """The pixels `(height, width, colour)` of a Pillow image that is resized, then cut or filled.

    Args:
        resized: width and height that it is resized to, bicubic with antialiasing.
        size: height and width of the result, around the centre.
        fill: what is seen around the image, one of `PAD_MODES`.
    """
    if resized != image.size:
        from PIL import Image

        kept, box = _middle(image.size, resized, size[::-1])
        image = image.resize(kept, Image.Resampling.BICUBIC, box=box)
    pixels = np.asarray(image)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return place(pixels, size=size, mode=PAD_MODES[fill])


def _middle(size, resized, limit) -> tuple[tuple[int, int], tuple[float, ...]]:
    """The size that `place` would keep of a resized image, and that part of the original.

    Resizing only that part gives the same but for rounding, and an image that is a thousand times
    as long as wide does not become a gigantic one first.
    """
    kept = tuple(map(min, resized, limit))
    first = [(n - m) // 2 for n, m in zip(resized, kept, strict=True)]
    last = [n + m for n, m in zip(first, kept, strict=True)]
    scale = [n / m for n, m in zip(size, resized, strict=True)]
    return kept, tuple(min(n * scale[k % 2], size[k % 2]) for k, n in enumerate([*first, *last]))


def place(images: np.ndarray, *, size: tuple[int, int], mode: str) -> np.ndarray:
    """Cut or fill (…, height, width, colour) to a size, around the centre."""
    for axis, target in zip((-3, -2), size, strict=True):
        excess = images.shape[axis] - target
        if excess > 0:
            images = np.take(images, np.arange(excess // 2, excess // 2 + target), axis=axis)
        else:
            widths = [(0, 0)] * images.ndim
            widths[axis] = (-excess // 2, -excess - -excess // 2)
            images = np.pad(images, widths, mode=mode)
    return images
