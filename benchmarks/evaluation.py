"""How fast the trainer measures a network, in Keras and in onnxruntime, with and without reach.

Networks of the paper's sizes with random weights, in the batches of `training evaluate`. Each
contender has a process of its own with two threads, and they take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from benchmarks.cases import images_and_labels
from benchmarks.report import print_table, record
from benchmarks.timing import Worker, disturbed, median_seconds
from training.budgets import DENSITY, REACH, WIDE_REACH

RECIPES = ("fashion_avg_2jet", "cifar_avg_2jet")
IMAGES = 200  # in a sample
ROUNDS = 5
CONTENDERS = tuple(
    (program, reach) for program in ("Keras", "onnxruntime") for reach in (None, WIDE_REACH, REACH)
)  # the first: as it was before layers had a reach


def step(*, program: str, recipe: str, reach: float | None, images: int) -> Callable[[], object]:
    """What is timed, in its own process."""
    from gdn_keras.model import build_model
    from training import recipes
    from training.publishing import measurement

    config = recipes.get(recipe).config.replace(sampling_density=DENSITY, reach=reach)
    make = {"Keras": measurement.keras_network, "onnxruntime": measurement.onnx_network}[program]
    network = make(build_model(config))
    pixels, _ = images_and_labels(config, images)
    size = measurement.BATCH
    return lambda: [network.predict(pixels[k : k + size]) for k in range(0, images, size)]


def run(
    *, networks: Sequence[str] = RECIPES, images: int = IMAGES, rounds: int = ROUNDS
) -> list[dict]:
    """One row for each network, program and reach: images per second, and times the first one."""
    rows = []
    for recipe in networks:
        samples = _take_turns(recipe, images, rounds)
        before = median_seconds(samples[CONTENDERS[0]])
        for (program, reach), found in samples.items():
            seconds = median_seconds(found)
            rows.append(
                {
                    "network": recipe,
                    "program": program,
                    "reach": reach or "exact",
                    "images/s": images / seconds,
                    "times the first": before / seconds,
                    "disturbed": disturbed(found),
                }
            )
    return rows


def _take_turns(recipe: str, images: int, rounds: int) -> dict:
    samples = {contender: [] for contender in CONTENDERS}
    with ExitStack() as stack:
        workers = {contender: stack.enter_context(Worker()) for contender in CONTENDERS}
        for (program, reach), worker in workers.items():
            worker.prepare(
                "benchmarks.evaluation:step",
                name="step",
                program=program,
                recipe=recipe,
                reach=reach,
                images=images,
            )
        for _ in range(rounds):
            for contender, worker in workers.items():
                samples[contender].append(worker.sample("step"))
    return samples


def main() -> None:
    rows = run()
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    record("evaluation", {"rows": rows})


if __name__ == "__main__":
    main()
