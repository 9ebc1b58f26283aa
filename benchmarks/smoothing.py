"""Three ways to smooth: one matrix product, products of blocks, separable depthwise convolution.

What `BLOCK_ROWS` and `WORTH_BLOCKS` of gdn_keras/scale_space/plan.py are to be judged by. Every
batch has about as many pixels, whatever their size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.report import print_table, record
from benchmarks.timing import Worker, disturbed, median_seconds

SIZES = (28, 48, 72, 96, 128, 192, 256, 512)
SIGMAS = (1.0, 4.0)
CHANNELS = 64
PIXELS = 32 * 72 * 72
ROUNDS = 5
BLOCKS = (24, 48, 96)


def run(sizes: tuple[int, ...] = SIZES, pixels: int = PIXELS) -> dict:
    rows = []
    for size in sizes:
        for sigma in SIGMAS:
            batch = max(1, round(pixels / size**2))
            blocks = [n for n in BLOCKS if 2 * n <= size]
            ways = ["matrix", *(f"blocks of {n}" for n in blocks), "depthwise"]
            with Worker("tensorflow") as worker:
                for way in ways:
                    worker.prepare(
                        "benchmarks.smoothing:smoothing_step",
                        name=way,
                        way=way,
                        size=size,
                        sigma=sigma,
                        batch=batch,
                    )
                samples = {way: [] for way in ways}
                for _ in range(ROUNDS):
                    for way in ways:
                        samples[way].append(worker.sample(way))
            values = batch * size * size * CHANNELS
            rows.append(
                {
                    "size": size,
                    "sigma": sigma,
                    "batch": batch,
                    "nanoseconds_per_value": {
                        way: 1e9 * median_seconds(taken) / values for way, taken in samples.items()
                    },
                    "disturbed": sum(map(disturbed, samples.values())),
                }
            )
    return {"channels": CHANNELS, "rounds": ROUNDS, "rows": rows}


def smoothing_step(*, way: str, size: int, sigma: float, batch: int) -> Callable[[], object]:
    """Smooth a batch and compute the gradient for it; `way` as in the table."""
    import tensorflow as tf

    smooth = smoother(way, size=size, sigma=sigma)
    shape = (batch, size, size, CHANNELS)
    images = tf.constant(np.random.default_rng(0).normal(size=shape).astype("float32"))

    @tf.function
    def step(images):
        with tf.GradientTape() as tape:
            tape.watch(images)
            smoothed = smooth(images)
        return tape.gradient(smoothed, images, output_gradients=images)

    return lambda: step(images).numpy()[0, 0, 0, 0]


def smoother(way: str, *, size: int, sigma: float) -> Callable:
    """A function from (batch, size, size, channels) to the same, smoothed with zero padding."""
    from keras import ops

    from gdn_keras.scale_space import Smoothing, smoothing_kernel, smoothing_matrix
    from gdn_keras.scale_space.plan import Axis, Grid, row_blocks

    if way == "depthwise":
        weights = smoothing_kernel(sigma).astype("float32")
        radius = len(weights) // 2

        def depthwise(images):
            kernel = np.tile(weights[:, None, None, None], (1, 1, images.shape[-1], 1))
            padding = ((0, 0), (radius, radius), (radius, radius), (0, 0))
            along_rows = ops.depthwise_conv(ops.pad(images, padding), kernel)
            return ops.depthwise_conv(along_rows, kernel.transpose(1, 0, 2, 3))

        return depthwise
    grid = Grid(size)
    matrix = smoothing_matrix(Axis(grid, grid, grid, 0), sigma, Smoothing()).astype("float32")
    block_rows = size if way == "matrix" else int(way.removeprefix("blocks of "))
    blocks = [(slice(0, size), slice(0, size))]
    if block_rows < size:
        blocks = row_blocks(matrix, block_rows)

    def product(tensor):
        parts = [ops.matmul(matrix[r, c], tensor[:, c]) for r, c in blocks]
        return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=1)

    def products(images):
        channels = images.shape[-1]
        images = product(ops.reshape(images, (-1, size, size * channels)))
        images = product(ops.reshape(images, (-1, size, channels)))
        return ops.reshape(images, (-1, size, size, channels))

    return products


def main() -> None:
    result = run()
    ways = ["matrix", *(f"blocks of {n}" for n in BLOCKS), "depthwise"]
    print("Smoothing and its gradient, nanoseconds per value:")
    print_table(
        ("size", "sigma", *ways),
        [
            (row["size"], row["sigma"], *(row["nanoseconds_per_value"].get(w, "") for w in ways))
            for row in result["rows"]
        ],
    )
    record("smoothing", result)


if __name__ == "__main__":
    main()
