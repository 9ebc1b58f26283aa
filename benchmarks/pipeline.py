"""Do the data keep up with training? Images per second of the pipelines, on one core.

    python -m benchmarks pipeline

Every rate is compared with four times what training consumes, in images/s: 750 of Fashion-MNIST, 50
of rescaled Fashion-MNIST (all scale channels), 380 of CIFAR-10, 122 of rescaled CIFAR-10 (one scale
channel); and with what a GPU would need that trains a small network on these data with the paper's
budget. Uses the images of the package, repeated to 10,000 in memory.
"""

import os
import statistics
import time
from contextlib import contextmanager

import numpy as np

from benchmarks.report import print_table, record
from gdn_keras.counts import count_multiply_adds
from gdn_keras.datasets import Arrays, as_dataset, load_samples, rescale, training_batches
from training.budgets import plan_run
from training.recipes import Recipe, get

COUNT = 10_000
REPEATS = 5
STEPS = 30
GPU_TFLOPS = 10.0  # sustained
PIPELINES = {
    # a small network on the data, augmentation, images/s it must deliver
    "fashion28": ("fashion28_discrete_s1p00", ("flip",), 3000),
    "fashion72": ("fashion_single_2jet", ("flip",), 200),
    "cifar32": ("cifar32_discrete_s1p00", ("flip", "colour_jitter"), 1520),
    "cifar64": ("cifar_single_2jet", ("flip", "colour_jitter"), 488),
    "cifar64 cutout": ("cifar_max_2jet_cutout", ("flip", "colour_jitter", "cutout"), 488),
}


@contextmanager
def one_core():
    """Keep this process on one core, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def many(name: str) -> Arrays:
    """The sample images of a data set, repeated to COUNT."""
    samples = load_samples(name)
    return samples.select(np.arange(COUNT) % len(samples))


def images_per_second(batches, batch_size: int) -> float:
    """Median over REPEATS of the rate of an iterator, after one warm-up."""
    rates = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        for _ in range(STEPS):
            next(batches)
        rates.append(STEPS * batch_size / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def gpu_images_per_second(recipe: Recipe) -> float:
    """What a GPU of GPU_TFLOPS trains on; backwards costs twice as much as forwards."""
    (stage,) = plan_run(recipe, budget="paper", finished=set()).stages
    return GPU_TFLOPS * 1e12 / (3 * 2 * count_multiply_adds(stage.config))


def rescaling_seconds(name: str, *, canvas: int, extension: str) -> float:
    """Median time to rescale COUNT images to one size factor."""
    images = many(name).images
    times = []
    for _ in range(3):
        start = time.perf_counter()
        rescale(images, size_factor=2**0.25, canvas=canvas, extension=extension)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def run() -> dict:
    """All measurements; `margin` is the lower rate divided by the required one."""
    pipelines = []
    with one_core():
        for title, (name, augment, required) in PIPELINES.items():
            recipe = get(name)
            arrays, batch_size = many(recipe.dataset), recipe.batch_size
            kinds = {"batch_size": batch_size, "seed": 0, "augment": augment}
            plain = images_per_second(training_batches(arrays, **kinds), batch_size)
            tf_data = images_per_second(iter(as_dataset(arrays, **kinds)), batch_size)
            pipelines.append(
                {
                    "pipeline": title,
                    "iterator images/s": round(plain),
                    "tf.data images/s": round(tf_data),
                    "required": required,
                    "margin": round(min(plain, tf_data) / required, 2),
                    "a GPU needs": round(gpu_images_per_second(recipe)),
                }
            )
        fashion = rescaling_seconds("fashion_mnist", canvas=72, extension="zero")
        cifar = rescaling_seconds("cifar10", canvas=64, extension="mirror")
    seconds = {"fashion": round(fashion, 2), "cifar": round(cifar, 2)}
    return {"cores used": 1, "pipelines": pipelines, "seconds to rescale 10,000": seconds}


def main() -> None:
    results = run()
    rows = [list(pipeline.values()) for pipeline in results["pipelines"]]
    print_table(list(results["pipelines"][0]), rows)
    print(f"seconds to rescale 10,000 images: {results['seconds to rescale 10,000']}")
    record("pipeline", results)


if __name__ == "__main__":
    main()
