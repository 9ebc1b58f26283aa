"""Run the stages of a plan, from wherever the run was left, without losing work.

Training is Keras' own `fit` over batches that are a pure function of (data, seed, step), so the
state is: which stage, which step, all variables of the model and the optimiser. It is saved at
least every `progress.SAVE_SECONDS`, at the end, and when the process is asked to stop.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras import cpu
from gdn_keras.config import EVERY_PIXEL
from gdn_keras.datasets import Arrays
from gdn_keras.model import GaussDerNet, build_model, copy_weights
from training import state as state_file
from training.budgets import Plan, Stage
from training.devices import shared_batches
from training.logs import plot_curves
from training.progress import Follower, Progress, insist, restore
from training.stages import (
    batches,
    build_stage_model,
    compile_model,
    load_data,
    measure_statistics,
    start_from,
)
from training.state import RECORD, WEIGHTS

CHUNK = 20  # steps from one row of the log to the next


@dataclass(frozen=True)
class Run:
    """A plan, a seed, and the folder that holds everything about it."""

    plan: Plan
    folder: Path
    seed: int = 0
    data_dir: Path | None = None
    devices: int = 1
    jit: bool = False
    writes: bool = True  # of several hosts only one does
    ancestors: tuple[dict[str, Any], ...] = ()  # name and seed of what the weights come from


def train(
    run: Run,
    *,
    saved: tuple[dict, list[np.ndarray] | None] | None = None,
    relative: GaussDerNet | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train until done (returns True) or until `stop()` (returns False). Call it under the lock.

    Args:
        run: what to do, where.
        saved: what `state.load` says of the run's folder; or what is known of a network that goes
            on, and no arrays.
        relative: the finished network that the first stage starts from; not needed with arrays.
        stop: asked after every step.
    """
    info, arrays = saved or (fresh_info(run), None)
    model = relative
    for number in range(info["stage"], len(run.plan.stages)):
        model = _run_stage(run, number, info, before=model, arrays=arrays, stop=stop)
        if model is None:
            return False
        arrays = None
        info |= {"stage": number + 1, "step": 0}
    return _finish(run, model, info, stop=stop) if run.writes else True


def _run_stage(run: Run, number: int, info: dict, *, before, arrays, stop) -> GaussDerNet | None:
    """The network at the end of a stage; None if it was stopped."""
    stage = run.plan.stages[number]
    if stage.batch_size % run.devices:
        raise ValueError(
            f"`devices` must divide the batch of {stage.batch_size} images. "
            f"Received: devices={run.devices}."
        )
    with shared_batches(run.devices):
        data = load_data(stage, data_dir=run.data_dir)
        if len(data.class_names) != stage.config.num_classes:
            raise ValueError(
                f"`num_classes` must be {len(data.class_names)}, as many as {stage.dataset} has. "
                f"Received: num_classes={stage.config.num_classes}."
            )
        steps = stage.steps(len(data))
        # JAX sees the whole batch anyway
        synchronized = run.devices > 1 and keras.backend.backend() == "tensorflow"
        model = build_stage_model(stage, seed=run.seed, synchronized=synchronized)
        if before is not None:
            start_from(before, model)
        compile_model(model, stage, steps, jit=run.jit)
        model.optimizer.build(model.trainable_variables)
        if arrays is not None:
            restore(model, arrays)
        if info["step"] < steps:
            kind = Progress if run.writes else Follower
            progress = kind(run, stage, info, steps=steps, stop=stop)
            try:
                fit(model, data, stage, progress, seed=run.seed, steps=steps)
                last = number + 1 == len(run.plan.stages)
                progress.save(insisting=progress.stopped or last)  # no later save would do
            finally:
                progress.close()
    return model if info["step"] >= steps else None


def fit(model, data: Arrays, stage: Stage, progress: Progress, *, seed: int, steps: int) -> None:
    """All steps that are left: to the end of a chunk, whole chunks, the rest of one."""
    info = progress.info
    while info["step"] < steps and not progress.stopped:
        left, into_chunk = steps - info["step"], info["step"] % CHUNK
        whole = 0 if into_chunk else left // CHUNK
        model.fit(
            # after those of earlier stages: no image comes again with the same augmentation
            batches(data, stage, seed=seed, step=info["images"] // stage.batch_size),
            epochs=whole or 1,
            steps_per_epoch=CHUNK if whole else min(CHUNK - into_chunk, left),
            shuffle=False,  # the data set does it
            callbacks=[progress],
            verbose=0,
        )


def fresh_info(run: Run) -> dict[str, Any]:
    """What is known of a run before its first step."""
    info = {
        "recipe": run.plan.recipe.name,
        "budget": run.plan.budget,
        "seed": run.seed,
        "warm_start": run.plan.warm_start,
        "ancestors": run.ancestors,
        "stages": [stage.to_dict() for stage in run.plan.stages],
        "stage": 0,
        "step": 0,
        "images": 0,
        "seconds": 0.0,
    }
    return json.loads(json.dumps(info))  # as it will be read back


def _finish(run: Run, model: GaussDerNet, info: dict, *, stop: Callable[[], bool]) -> bool:
    """Weights, then the record whose presence says that the run is done; False if stopped."""
    plan = run.plan
    computed = {name: getattr(model.config, name) for name in EVERY_PIXEL}
    final = plan.recipe.config.replace(**computed)
    if plan.stages:
        data = load_data(plan.stages[-1], data_dir=run.data_dir)
        final = final.replace(class_names=data.class_names)
    network = build_model(final, dtype="float32")
    copy_weights(model, network)
    measured = 0
    if plan.statistics_images:
        how = {"seed": run.seed, "images": plan.statistics_images, "stop": stop}
        measured = measure_statistics(network, data, plan.stages[-1], **how)
        if not measured:
            return False
    weights = _weights_file(network)
    record = info | {
        "cpu": cpu.text(cpu.describe()),
        "statistics_images": measured,
        "config": final.to_dict(),
        "versions": versions(),
    }

    def write() -> None:
        state_file.write_bytes(run.folder / WEIGHTS, weights)
        if info["images"]:
            plot_curves(run.folder)
        state_file.write_text(run.folder / RECORD, json.dumps(record, indent=2) + "\n")

    insist(write)
    return True


def _weights_file(network: GaussDerNet) -> bytes:
    """By way of the memory: on a full disk HDF5 does not raise an error but crash."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        network.save_weights(Path(scratch, WEIGHTS))
        return Path(scratch, WEIGHTS).read_bytes()


def versions() -> dict[str, str]:
    """What a result depends on."""
    import platform
    from importlib.metadata import version

    packages = ("gdn-keras", "keras", "numpy", keras.backend.backend())
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
