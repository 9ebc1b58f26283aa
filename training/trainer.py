"""Run the stages of a plan, from where the run was stopped, without losing work.

Training is Keras' own `fit` over batches that are a pure function of (data, seed, step), so the
state is: which stage, which step, all variables of the model and the optimiser. It is saved at
least every `progress.SAVE_SECONDS`, at the end, and when the process is asked to stop.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from gdn_keras.config import EVERY_PIXEL
from gdn_keras.datasets import Arrays
from gdn_keras.model import GaussDerNet, build_model, copy_weights
from gdn_keras.utils import cpu
from gdn_keras.utils.files import replace_file
from gdn_keras.version import __version__

from .budgets import WIDE_REACH, Plan, Stage
from .devices import prefers_xla, shared_batches
from .runs import state as state_file
from .runs.logs import plot_curves
from .runs.progress import Follower, Progress, restore, retry_until_saved
from .runs.record import Ancestor, RunRecord
from .runs.state import WEIGHTS
from .stages import (
    batches,
    build_stage_model,
    compile_model,
    load_data,
    measure_statistics,
    start_from,
)

CHUNK = 20  # steps from one row of the log to the next


@dataclass(frozen=True)
class Run:
    """A plan, a seed, and the folder that holds everything about it."""

    plan: Plan
    folder: Path
    seed: int = 0
    data_dir: Path | None = None
    devices: int = 1
    jit: bool | None = None  # None: where it helps
    writes: bool = True  # of several hosts only one does
    ancestors: tuple[Ancestor, ...] = ()  # what the initial weights come from


def train(
    run: Run,
    *,
    saved: tuple[RunRecord, list[np.ndarray] | None] | None = None,
    relative: GaussDerNet | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train until done (returns True) or until `stop()` (returns False). Call it under the lock.

    Args:
        run: what to do, where.
        saved: what `state.load` returns for the run's folder; or the record of a network that is
            trained further, and no arrays.
        relative: the finished network that the first stage starts from; not needed with arrays.
        stop: asked after every step.
    """
    started = RunRecord.start(run.plan, seed=run.seed, ancestors=run.ancestors)
    record, arrays = saved or (started, None)
    model = relative
    while record.stage < len(run.plan.stages):
        model, record = _run_stage(run, record, before=model, arrays=arrays, stop=stop)
        if model is None:
            return False
        arrays = None
        record = record.replace(stage=record.stage + 1, step=0)
    return _finish(run, model, record, stop=stop) if run.writes else True


def _run_stage(
    run: Run, record: RunRecord, *, before, arrays, stop
) -> tuple[GaussDerNet | None, RunRecord]:
    """The network at the end of the record's stage, None if it was stopped; and the record then."""
    stage = run.plan.stages[record.stage]
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
        jit = prefers_xla(run.devices) if run.jit is None else run.jit
        compile_model(model, stage, steps, jit=jit)
        model.optimizer.build(model.trainable_variables)
        if arrays is not None:
            restore(model, arrays)
        if record.step < steps:
            kind = Progress if run.writes else Follower
            progress = kind(run, stage, record, steps=steps, stop=stop)
            try:
                fit(model, data, stage, progress, seed=run.seed, steps=steps)
                is_last = record.stage + 1 == len(run.plan.stages)
                progress.save(retry=progress.stopped or is_last)  # there is no later save
            finally:
                progress.close()
            record = progress.record
    return (model if record.step >= steps else None), record


def fit(model, data: Arrays, stage: Stage, progress: Progress, *, seed: int, steps: int) -> None:
    """All remaining steps: to the end of a chunk, whole chunks, the rest of one."""
    while progress.record.step < steps and not progress.stopped:
        record = progress.record
        left, into_chunk = steps - record.step, record.step % CHUNK
        whole = 0 if into_chunk else left // CHUNK
        model.fit(
            # continue after earlier stages, so that no augmentation of an image is repeated
            batches(data, stage, seed=seed, step=record.images_seen // stage.batch_size),
            epochs=whole or 1,
            steps_per_epoch=CHUNK if whole else min(CHUNK - into_chunk, left),
            shuffle=False,  # the data set does it
            callbacks=[progress],
            verbose=0,
        )


def _finish(run: Run, model: GaussDerNet, record: RunRecord, *, stop: Callable[[], bool]) -> bool:
    """Write the weights, then the record, which marks the run as finished; False if stopped."""
    plan = run.plan
    computed = {name: getattr(model.config, name) for name in EVERY_PIXEL}
    if not plan.stages and model.config.reach is not None:  # several channels from a single one
        computed["reach"] = WIDE_REACH
    final = plan.recipe.config.replace(**computed)
    if plan.stages:
        data = load_data(plan.stages[-1], data_dir=run.data_dir)
        final = final.replace(class_names=data.class_names)
    # statistics of the same maps as in training; the finished network needs windows only
    network = build_model(final.replace(window=model.config.window), dtype="float32")
    copy_weights(model, network)
    measured = 0
    if plan.statistics_images:
        how = {"seed": run.seed, "images": plan.statistics_images, "stop": stop}
        measured = measure_statistics(network, data, plan.stages[-1], **how)
        if not measured:
            return False
    weights = _weights_file(network)
    record = record.replace(
        cpu=cpu.text(cpu.describe()),
        statistics_images=measured,
        config=final,
        versions=versions(),
    )

    def write() -> None:
        replace_file(run.folder / WEIGHTS, content=weights)
        if record.images_seen:
            plot_curves(run.folder)
        state_file.write_record(run.folder, record)

    retry_until_saved(write)
    return True


def _weights_file(network: GaussDerNet) -> bytes:
    """Written to memory first: on a full disk, HDF5 crashes instead of raising an error."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        network.save_weights(Path(scratch, WEIGHTS))
        return Path(scratch, WEIGHTS).read_bytes()


def versions() -> dict[str, str]:
    """The versions of the packages that a result depends on."""
    import platform
    from importlib.metadata import version

    packages = ("keras", "numpy", keras.backend.backend())
    ours = {"python": platform.python_version(), "gdn-keras": __version__}  # perhaps not installed
    return ours | {name: version(name) for name in packages}
