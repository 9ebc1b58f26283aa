"""The augmentations of section 5.2, each a function of a batch of images and of random numbers.

Images are `(n, h, w, c)` with values 0...255. Every image has its own random numbers, one entry of
each array per image, so a test can choose them. `draw` makes them for a batch.
"""

import numpy as np

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
# ColorJitter(0.2, 0.2, 0.2, 0.05): factors in U[0.8, 1.2], hue shift in U[-0.05, 0.05] turns
JITTER_STRENGTH = 0.2
HUE_STRENGTH = 0.05
CUTOUT_SIZE = 16
# torchvision's rounded weights; they sum to 0.9999
_LUMA = np.array([0.2989, 0.587, 0.114], np.float32)


def flip(images: np.ndarray, flipped: np.ndarray) -> np.ndarray:
    """Mirror left and right those images for which `flipped` (n, bool) is true."""
    result = images.copy()
    result[flipped] = images[flipped, :, ::-1]
    return result


def colour_jitter(
    images: np.ndarray, factors: np.ndarray, hue_shift: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Change brightness, contrast, saturation and hue, with the semantics of torchvision.

    Args:
        images: `(n, h, w, 3)`, any real type.
        factors: `(n, 3)` for brightness, contrast and saturation; 1 changes nothing.
        hue_shift: `(n,)` in turns of the colour circle; 0 changes nothing.
        order: `(n, 4)`, a permutation of (BRIGHTNESS, CONTRAST, SATURATION, HUE) per image.

    Returns:
        float32, clipped to 0...255 after each of the four steps, never rounded.
    """
    result = images.astype(np.float32)
    factors = factors.astype(np.float32)[:, :, None, None, None]
    for step in range(4):
        for what in range(4):
            chosen = np.flatnonzero(order[:, step] == what)
            if not len(chosen):
                continue
            pixels = result[chosen]
            if what == HUE:
                result[chosen] = shift_hue(pixels, hue_shift[chosen])
                continue
            factor = factors[chosen, what]
            pixels *= factor
            if what != BRIGHTNESS:
                grey = result[chosen] @ _LUMA
                if what == CONTRAST:
                    grey = grey.mean(axis=(1, 2), keepdims=True)
                pixels += (1 - factor) * grey[..., None]
            result[chosen] = np.clip(pixels, 0, 255, out=pixels)
    return result


def shift_hue(images: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Turn the hue of float images `(n, h, w, 3)` by `shift` (n,) turns; value and chroma stay."""
    red, green, blue = np.moveaxis(images, -1, 0)
    value = images.max(axis=-1)
    chroma = value - images.min(axis=-1)
    safe = np.where(chroma > 0, chroma, 1)  # the hue of grey is 0
    sector = np.where(
        value == red,
        (green - blue) / safe,
        np.where(value == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    sector += 6 * shift.astype(images.dtype)[:, None, None]
    result = np.empty_like(images)
    for channel, offset in enumerate((5, 3, 1)):
        k = (sector + offset) % 6
        result[..., channel] = value - chroma * np.clip(np.minimum(k, 4 - k), 0, 1)
    return result


def cutout(
    images: np.ndarray, rows: np.ndarray, columns: np.ndarray, *, size: int = CUTOUT_SIZE
) -> np.ndarray:
    """Set a square of `size` pixels to zero in each image.

    The square covers rows `rows - size // 2 ... rows + size // 2 - 1`, likewise columns, as far as
    they are inside the image: a centre near the border leaves a smaller rectangle.
    """
    height, width = images.shape[1:3]
    above = np.arange(height) - rows[:, None] + size // 2
    beside = np.arange(width) - columns[:, None] + size // 2
    hit = ((above >= 0) & (above < size))[:, :, None] & ((beside >= 0) & (beside < size))[:, None]
    return np.where(hit[..., None], images.dtype.type(0), images)


def draw(name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The random numbers of one augmentation for a batch of this shape, as its arguments."""
    count, height, width = shape[:3]
    if name == "flip":
        return (rng.random(count) < 0.5,)
    if name == "colour_jitter":
        return (
            rng.uniform(1 - JITTER_STRENGTH, 1 + JITTER_STRENGTH, (count, 3)),
            rng.uniform(-HUE_STRENGTH, HUE_STRENGTH, count),
            rng.permuted(np.tile(np.arange(4), (count, 1)), axis=1),
        )
    return rng.integers(height, size=count), rng.integers(width, size=count)


AUGMENTATIONS = {"flip": flip, "colour_jitter": colour_jitter, "cutout": cutout}


def augment(images: np.ndarray, names: tuple[str, ...], rng: np.random.Generator) -> np.ndarray:
    """Apply the named augmentations, in the given order, with random numbers from `rng`."""
    for name in names:
        images = AUGMENTATIONS[name](images, *draw(name, rng, images.shape))
    return images
