"""Inference in Keras against the exported file in onnxruntime, float and int8, in one run.

Networks of the paper's sizes with random weights: the time does not depend on the weights. Each
contender has a process of its own with two threads, and they take turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.cases import images_and_labels
from benchmarks.report import print_table, record
from benchmarks.timing import THREADS, Worker, disturbed, median_seconds
from training.budgets import DENSITY, WIDE_REACH

RECIPES = ("fashion_avg_2jet", "cifar_avg_2jet")
BATCHES = (1, 32)
PUBLISHED = {"sampling_density": DENSITY, "reach": WIDE_REACH}  # how the cpu budget ends
ROUNDS = 7
RUNS = {1: 20, 32: 1}  # per sample, which should not be much shorter than 0.1 s
# "float dense" has the nodes of "int8"; "float", the file users get, needs fewer multiplications
CONTENDERS = ("keras", "keras folded", "float", "float dense", "int8")
TARGETS = {"float": 1.3, "int8": 2.0}  # times Keras; times float, where the CPU has VNNI


def step(*, contender: str, recipe: str, batch: int) -> Callable[[], object]:
    """What is timed, in its own process."""
    from gdn_keras.model import build_model, fold
    from training import recipes

    config = recipes.get(recipe).config.replace(**PUBLISHED)
    model = build_model(config)
    images, _ = images_and_labels(config, batch)
    if contender.startswith("keras"):
        model = fold(model) if contender.endswith("folded") else model
        return lambda: [model.predict_on_batch(images) for _ in range(RUNS.get(batch, 1))]
    session = _session(model, images, contender)
    return lambda: [session.run(None, {"image": images}) for _ in range(RUNS.get(batch, 1))]


def _session(model, images, contender: str):
    import onnx
    import onnxruntime

    from export.onnx_model import to_onnx
    from export.quantisation.quantise import quantise_file

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "float.onnx"
        onnx.save(to_onnx(model, split=contender == "float"), path)
        if contender == "int8":
            source, path = path, path.with_name("int8.onnx")
            quantise_file(source, path, images)
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(
    *,
    networks: Sequence[str] = RECIPES,
    batches: Sequence[int] = BATCHES,
    rounds: int = ROUNDS,
) -> list[dict]:
    """One row for each network and batch size: median milliseconds per batch, and ratios."""
    rows = []
    for recipe in networks:
        for batch in batches:
            samples = _take_turns(recipe, batch, rounds)
            ms = {
                name: 1e3 * median_seconds(found) / RUNS.get(batch, 1)
                for name, found in samples.items()
            }
            rows.append(
                {
                    "network": recipe,
                    "batch": batch,
                    **{f"{name} ms": value for name, value in ms.items()},
                    "keras / float": ms["keras"] / ms["float"],
                    "folded / float": ms["keras folded"] / ms["float"],
                    "float / int8": ms["float"] / ms["int8"],
                    "float dense / int8": ms["float dense"] / ms["int8"],
                    "disturbed": sum(disturbed(found) for found in samples.values()),
                }
            )
    return rows


def _take_turns(recipe: str, batch: int, rounds: int) -> dict:
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker("tensorflow")) for name in CONTENDERS}
        for name, worker in workers.items():
            worker.prepare(
                "benchmarks.export:step", name=name, contender=name, recipe=recipe, batch=batch
            )
        samples = {name: [] for name in workers}
        for _ in range(rounds):
            for name, worker in workers.items():
                samples[name].append(worker.sample(name))
    return samples


def main() -> None:
    rows = run()
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    print(f"targets: keras / float {TARGETS['float']}, float / int8 {TARGETS['int8']} with VNNI")
    record("export", {"rows": rows})


if __name__ == "__main__":
    main()
