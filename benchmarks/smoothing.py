"""Two ways to smooth: a product with a matrix, or a kernel that slides (depthwise convolution).

What `SLIDE_FROM` and `TAP_WORTH` of gdn_keras/scale_space/plan.py are judged by: smoothing and
its gradient alone, and whole networks in training. Batches have about as many pixels, whatever the
size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.report import print_table, record
from benchmarks.timing import Worker, disturbed, median_seconds

WAYS = ("matrix", "sliding")
SIZES = (28, 48, 72, 96, 128, 192, 256, 512)
SIGMAS = (1.0, 4.0)
CHANNELS = 64
PIXELS = 32 * 72 * 72
ROUNDS = 5
NETWORKS = {  # 72 pixels as in the zoo; larger ones with every position, so no small windows
    "72 px, centre": {"batch": 32, "sampling_density": 2**-0.5},
    "72 px, centre, bfloat16": {
        "batch": 32,
        "sampling_density": 2**-0.5,
        "dtype": "mixed_bfloat16",
    },
    "96 px, spatial max": {"batch": 4, "spatial_selection": "max", "input_size": (96, 96)},
    "144 px, spatial max": {"batch": 2, "spatial_selection": "max", "input_size": (144, 144)},
}


def run(sizes: tuple[int, ...] = SIZES, pixels: int = PIXELS) -> dict:
    rows = []
    for size in sizes:
        for sigma in SIGMAS:
            batch = max(1, round(pixels / size**2))
            seconds, count = _compare("smoothing_step", size=size, sigma=sigma, batch=batch)
            values = batch * size * size * CHANNELS
            row = {"size": size, "sigma": sigma, "batch": batch, "disturbed": count}
            row["nanoseconds_per_value"] = {way: 1e9 * s / values for way, s in seconds.items()}
            rows.append(row)
    return {"channels": CHANNELS, "rounds": ROUNDS, "rows": rows}


def run_networks() -> list[dict]:
    rows = []
    for name, settings in NETWORKS.items():
        seconds, count = _compare("training_step", recipe="fashion_avg_2jet", **settings)
        speed = {way: settings["batch"] / s for way, s in seconds.items()}
        rows.append({"network": name, "images_per_second": speed, "disturbed": count})
    return rows


def _compare(step: str, **arguments) -> tuple[dict[str, float], int]:
    """Seconds of a step both ways, alternating, and how many samples were disturbed."""
    with Worker("tensorflow") as worker:
        for way in WAYS:
            worker.prepare(f"benchmarks.smoothing:{step}", name=way, way=way, **arguments)
        samples = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way in WAYS:
                samples[way].append(worker.sample(way))
    seconds = {way: median_seconds(taken) for way, taken in samples.items()}
    return seconds, sum(map(disturbed, samples.values()))


def force(way: str) -> None:
    """From now on every network that is built smooths this way."""
    from gdn_keras.layers.smoothing import correlations
    from gdn_keras.scale_space import plan

    plan.SLIDE_FROM = 0 if way == "sliding" else 10**9
    plan.TAP_WORTH = 0
    correlations.cache_clear()


def smoothing_step(*, way: str, size: int, sigma: float, batch: int) -> Callable[[], object]:
    """Smooth a batch and compute the gradient for it."""
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


def training_step(*, way: str, **arguments) -> Callable[[], object]:
    from benchmarks.cases import our_training

    force(way)
    return our_training(**arguments)


def smoother(way: str, *, size: int, sigma: float) -> Callable:
    """A function from (batch, size, size, channels) to the same, smoothed with zero padding."""
    from gdn_keras.layers.smoothing import apply_columns, apply_rows
    from gdn_keras.scale_space import Smoothing
    from gdn_keras.scale_space.plan import Axis, Correlation, Grid, axis_kernel

    force(way)
    grid = Grid(size)
    axis = Axis(grid, grid, grid, 0)
    correlation = Correlation(axis, axis_kernel(axis, sigma, Smoothing()), "zero")
    assert correlation.slides == (way == "sliding")  # decided here and now
    return lambda images: apply_columns(apply_rows(images, correlation), correlation)


def main() -> None:
    result = run()
    print("Smoothing and its gradient, nanoseconds per value:")
    print_table(
        ("size", "sigma", *WAYS),
        [
            (row["size"], row["sigma"], *(row["nanoseconds_per_value"][way] for way in WAYS))
            for row in result["rows"]
        ],
    )
    result["networks"] = run_networks()
    print("Training fashion_avg_2jet, images per second:")
    print_table(
        ("network", *WAYS),
        [
            (row["network"], *(row["images_per_second"][way] for way in WAYS))
            for row in result["networks"]
        ],
    )
    record("smoothing", result)


if __name__ == "__main__":
    main()
