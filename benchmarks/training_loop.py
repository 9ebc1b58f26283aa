"""Does training run at the speed of its step? The whole loop against bare steps, alternating.

The loop is what `python -m training run` does once a stage has begun: data, augmentation, step,
progress bar, logs, and a saved state. The bare step is `train_on_batch` on one batch that is there.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.report import print_table, record
from benchmarks.timing import Worker, disturbed, median_seconds
from gdn_keras.utils.cpu import prefers_bfloat16

TARGET = 0.9
IMAGES = 3200
ROUNDS = 4
STAGE_STEPS = 100_000  # more than are ever run
NETWORKS = {
    # recipe: steps in one sample, a multiple of the trainer's chunk
    "fashion28_discrete_s1p00": 100,
    "cifar32_discrete_s1p00": 60,
    "fashion_avg_2jet": 20,
}


def run() -> dict:
    dtype = "mixed_bfloat16" if prefers_bfloat16() else "float32"
    rows = []
    for recipe, steps in NETWORKS.items():
        with Worker("tensorflow") as worker:
            samples = {"bare": [], "loop": []}
            worker.prepare(
                "benchmarks.training_loop:steps_of_both",
                name="prepare",
                warm=1,
                recipe=recipe,
                dtype=dtype,
                steps=steps,
            )
            for kind in samples:
                worker.prepare("benchmarks.training_loop:prepared", name=kind, warm=1, kind=kind)
            worker.prepare("benchmarks.training_loop:prepared", name="save", warm=1, kind="save")
            for _ in range(ROUNDS):
                for kind, taken in samples.items():
                    taken.append(worker.sample(kind))
            saving = median_seconds([worker.sample("save") for _ in range(ROUNDS)])
        bare, loop = (median_seconds(samples[kind]) / steps for kind in ("bare", "loop"))
        rows.append(
            {
                "recipe": recipe,
                "dtype": dtype,
                "step_seconds": bare,
                "loop_seconds_per_step": loop,
                "ratio": bare / loop,
                "save_seconds": saving,
                "samples": ROUNDS,
                "disturbed": [disturbed(samples["bare"]), disturbed(samples["loop"])],
            }
        )
    return {"rows": rows, "target": TARGET}


# === in the worker ===

_steps: dict[str, Callable[[], object]] = {}


def steps_of_both(*, recipe: str, dtype: str, steps: int) -> Callable[[], object]:
    """Make the bare and the whole loop over one model; `prepared` gives them."""
    from training.budgets import plan_run
    from training.recipes import get
    from training.runs import state
    from training.runs.progress import Progress, snapshot
    from training.runs.record import RunRecord
    from training.stages import build_stage_model, compile_model
    from training.trainer import CHUNK, Run, fit

    plan = plan_run(get(recipe), budget="cpu", finished=set(), dtype=dtype)
    stage = plan.stages[-1]
    data = _images(stage)
    model = build_stage_model(stage, seed=0)
    compile_model(model, stage, STAGE_STEPS)
    model.optimizer.build(model.trainable_variables)
    folder = Path(tempfile.mkdtemp(prefix="training_loop"))
    job = Run(plan, folder)
    record = RunRecord.start(plan, seed=0)
    batch = data.images[: stage.batch_size].astype("float32"), data.labels[: stage.batch_size]

    go, done = threading.Semaphore(0), threading.Semaphore(0)

    class Paused(Progress):
        """Waits for permission before every chunk, so that one long fit can be timed in parts."""

        def on_epoch_begin(self, epoch, logs=None):
            go.acquire()
            super().on_epoch_begin(epoch, logs)

        def on_epoch_end(self, epoch, logs=None):
            super().on_epoch_end(epoch, logs)
            done.release()

    def whole_fit():
        progress = Paused(job, stage, record, steps=STAGE_STEPS, stop=lambda: False)
        fit(model, data, stage, progress, seed=0, steps=STAGE_STEPS)

    threading.Thread(target=whole_fit, daemon=True).start()

    def loop():
        for _ in range(steps // CHUNK):
            go.release()
            done.acquire()

    def bare():
        for _ in range(steps):
            model.train_on_batch(*batch)

    _steps.update(loop=loop, bare=bare, save=lambda: state.save(folder, record, snapshot(model)))
    return lambda: None


def prepared(*, kind: str) -> Callable[[], object]:
    return _steps[kind]


def _images(stage):
    from gdn_keras.datasets import load_samples

    samples = load_samples(stage.dataset)
    return samples.select(np.arange(IMAGES) % len(samples))


def main() -> None:
    begin = time.time()
    result = run()
    print_table(
        ("recipe", "bare step, ms", "loop, ms per step", "ratio", "target", "save, ms"),
        [
            (
                row["recipe"],
                1000 * row["step_seconds"],
                1000 * row["loop_seconds_per_step"],
                f"{row['ratio']:.1%}",
                f"{TARGET:.0%}",
                1000 * row["save_seconds"],
            )
            for row in result["rows"]
        ],
    )
    record("training_loop", {**result, "seconds": time.time() - begin})


if __name__ == "__main__":
    main()
