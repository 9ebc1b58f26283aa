"""Ours against the plain dense network in PyTorch: training step and inference, alternating.

The plain network needs gigabytes for a training step on few images, so it is timed on a smaller
batch, and times are compared per image.
"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.report import print_table, record
from benchmarks.timing import Worker, disturbed, median_seconds
from gdn_keras.utils.cpu import prefers_bfloat16
from training.budgets import DENSITY, REACH

# how the cpu budget computes, and how it did with exact windows
PLANNED = {"sampling_density": DENSITY, "reach": REACH}
EXACT_WINDOW = {"sampling_density": DENSITY}
ROUNDS = 3  # of the plain network once and ours several times
OURS_PER_ROUND = 4
MEMORY_LIMIT = 3e9  # bytes, of the process that trains Fashion with batch 32

NETWORKS = {
    # recipe, batch of ours and of plain inference, batch of plain training
    "Fashion": ("fashion_avg_2jet", 32, 8),
    "CIFAR": ("cifar_avg_2jet", 30, 6),
}
TARGETS = {
    ("Fashion", "training"): 65,
    ("CIFAR", "training"): 45,
    ("Fashion", "inference, exact"): 8,
    ("CIFAR", "inference, exact"): 3.5,
    ("Fashion", "inference, coarse grids, folded"): 80,
    ("CIFAR", "inference, coarse grids, folded"): 35,
}


def run() -> dict:
    rows, memory = [], None
    for network, (recipe, batch, plain_batch) in NETWORKS.items():
        variants = {
            "training": ("our_training", PLANNED),
            "training, exact windows": ("our_training", EXACT_WINDOW),
        }
        if prefers_bfloat16():
            settings = PLANNED | {"dtype": "mixed_bfloat16"}
            variants["training, bfloat16"] = ("our_training", settings)
        measured, peak = _compare("plain_training", recipe, variants, batch, plain_batch)
        rows += [{"network": network, **row} for row in measured]
        memory = memory or peak  # Fashion comes first
        variants = {
            "inference, exact": ("our_inference", {}),
            "inference, coarse grids, folded": ("our_inference", PLANNED | {"folded": True}),
        }
        measured, _ = _compare("plain_inference", recipe, variants, batch, batch)
        rows += [{"network": network, **row} for row in measured]
    for row in rows:
        row["target"] = TARGETS.get((row["network"], row["task"]))
    return {"rows": rows, "fashion_training_peak_bytes": memory}


def _compare(plain: str, recipe: str, variants: dict, batch: int, plain_batch: int):
    """Rows for variants of ours against one plain step; and the peak memory of the first."""
    with ExitStack() as stack:
        torch = stack.enter_context(Worker("torch"))
        torch.prepare(f"benchmarks.cases:{plain}", name="plain", recipe=recipe, batch=plain_batch)
        workers, peaks = {}, {}
        for task, (function, settings) in variants.items():
            workers[task] = stack.enter_context(Worker("tensorflow"))
            workers[task].prepare(
                f"benchmarks.cases:{function}",
                name=task,
                recipe=recipe,
                batch=batch,
                **settings,
            )
        plain_samples = []
        samples = {task: [] for task in variants}
        for _ in range(ROUNDS):
            plain_samples.append(torch.sample("plain"))
            for task, worker in workers.items():
                samples[task] += [worker.sample(task) for _ in range(OURS_PER_ROUND)]
        peaks = [worker.peak_memory() for worker in workers.values()]
    plain_time = median_seconds(plain_samples) / plain_batch
    rows = []
    for task in variants:
        our_time = median_seconds(samples[task]) / batch
        rows.append(
            {
                "task": task,
                "batch": batch,
                "plain_batch": plain_batch,
                "images_per_second": 1 / our_time,
                "plain_images_per_second": 1 / plain_time,
                "ratio": plain_time / our_time,
                "samples": [len(samples[task]), len(plain_samples)],
                "disturbed": [disturbed(samples[task]), disturbed(plain_samples)],
            }
        )
    return rows, peaks[0]


def main() -> None:
    result = run()
    header = ("network", "task", "plain PyTorch, images/s", "ours, images/s", "ratio", "target")
    print_table(
        header,
        [
            (
                row["network"],
                row["task"],
                row["plain_images_per_second"],
                row["images_per_second"],
                f"{row['ratio']:.1f}",
                "" if row["target"] is None else f"{row['target']:g}",
            )
            for row in result["rows"]
        ],
    )
    batches = {
        row["network"]: row["plain_batch"] for row in result["rows"] if row["task"] == "training"
    }
    few = ", ".join(f"{network} {count}" for network, count in batches.items())
    print(f"The plain network was trained on fewer images per step ({few}); all is per image.")
    for network in batches:
        speed = {
            row["task"]: row["images_per_second"]
            for row in result["rows"]
            if row["network"] == network
        }
        gain = speed["training"] / speed["training, exact windows"]
        print(f"{network}: training is {gain:.1f} times as fast as with exact windows.")
    peak = result["fashion_training_peak_bytes"]
    print(
        f"Peak memory of a process that trains Fashion with batch 32: {peak / 1e9:.2f} GB "
        f"(limit {MEMORY_LIMIT / 1e9:g})."
    )
    if total := sum(sum(row["disturbed"]) for row in result["rows"]):
        print(f"Other programs were running during {total} samples.")
    record("speed", result)


if __name__ == "__main__":
    main()
