"""Run the stages of a plan, from wherever the run was left, without losing work.

Training is Keras' own `fit` over batches that are a pure function of (data, seed, step), so the
state is: which stage, which step, all variables of the model and the optimiser. It is saved at
least every `SAVE_SECONDS`, at the end, and when the process is asked to stop.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras.datasets import Arrays, as_dataset, load_arrays, load_stir
from gdn_keras.layers import ScaleBatchNormalization
from gdn_keras.model import GaussDerNet, build_model, copy_weights, layer_weights
from gdn_keras.optimizer import ScaleAdamW
from training import state as state_file
from training.budgets import Plan, Stage
from training.devices import shared_batches
from training.logs import RunLog, plot_curves
from training.state import RECORD, WEIGHTS

SAVE_SECONDS = 60.0
CHUNK = 20  # steps from one row of the log to the next
DIVERGED = 10.0  # a loss so many times that of guessing is the end


class TrainingDiverged(RuntimeError):
    """The loss is no longer a number, or far from one that can be learned from."""


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


def train(
    run: Run,
    *,
    saved: tuple[dict, list[np.ndarray]] | None = None,
    relative: GaussDerNet | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train until done (returns True) or until `stop()` (returns False). Call it under the lock.

    Args:
        run: what to do, where.
        saved: what `state.load` says of the run's folder.
        relative: the finished network that the plan starts from; not needed with `saved`.
        stop: asked after every step.
    """
    info, arrays = saved or (fresh_info(run), None)
    model = None if saved else relative
    for number in range(info["stage"], len(run.plan.stages)):
        model = _run_stage(run, number, info, before=model, arrays=arrays, stop=stop)
        if model is None:
            return False
        arrays = None
        info |= {"stage": number + 1, "step": 0}
    if run.writes:
        _finish(run, model, info)
    return True


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
            kind = Progress if run.writes else _Follower
            progress = kind(run, stage, info, steps=steps, stop=stop)
            try:
                fit(model, data, stage, progress, seed=run.seed, steps=steps)
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
            _batches(data, stage, seed=seed, step=info["step"]),
            epochs=whole or 1,
            steps_per_epoch=CHUNK if whole else min(CHUNK - into_chunk, left),
            shuffle=False,  # the data set does it
            callbacks=[progress],
            verbose=0,
        )


def _batches(data: Arrays, stage: Stage, *, seed: int, step: int):
    """The stage's batches from `step` on."""
    epoch, position = divmod(step, len(data) // stage.batch_size)
    state = {"epoch": epoch, "position": position, "seed": seed}
    state |= {"batch_size": stage.batch_size, "num_images": len(data)}
    return as_dataset(
        data, batch_size=stage.batch_size, seed=seed, augment=stage.augment, state=state
    )


def build_stage_model(stage: Stage, *, seed: int, synchronized: bool = False) -> GaussDerNet:
    """The stage's network, the same for the same seed."""
    keras.utils.set_random_seed(seed)
    model = build_model(stage.config, dtype=stage.dtype, seed=seed, synchronized=synchronized)
    if stage.fixed_last_sigma:
        model.get_layer(f"jet_{stage.config.num_layers}").ratio.trainable = False
    return model


def start_from(before: GaussDerNet, model: GaussDerNet) -> None:
    """Take over the weights of `before`; derivatives that it does not have start at zero."""
    if before.config.jet_order == model.config.jet_order:
        copy_weights(before, model)
        return
    for layer in model.layers:
        new, old = layer_weights(layer), layer_weights(before.get_layer(layer.name))
        for variable, value in zip(new, map(keras.ops.convert_to_numpy, old), strict=True):
            missing = variable.shape[0] - len(
                value
            )  # the terms of a 2-jet are the first of a 3-jet
            variable.assign(np.pad(value, [(0, missing)] + [(0, 0)] * (value.ndim - 1)))


def measure_statistics(model: GaussDerNet, data: Arrays, stage: Stage, *, seed: int, images: int):
    """Replace the moving batch statistics by means over `images` training images.

    The moving ones remember ten batches or so, which at the centre of the last layer is a few
    hundred samples.
    """
    norms = [layer for layer in model.layers if isinstance(layer, ScaleBatchNormalization)]
    statistics = [v for norm in norms for v in (norm.moving_mean, norm.moving_variance)]
    momentum = {norm: norm.momentum for norm in norms}
    sums = [0.0] * len(statistics)
    steps = max(1, min(images, len(data)) // stage.batch_size)
    batches = iter(_batches(data, stage, seed=seed, step=0))
    for norm in norms:
        norm.momentum = 0.0  # what a batch has, and nothing of the past
    for _ in range(steps):
        model(next(batches)[0], training=True)
        values = map(keras.ops.convert_to_numpy, statistics)
        sums = [total + value.astype("float64") for total, value in zip(sums, values, strict=True)]
    for norm in norms:
        norm.momentum = momentum[norm]
    for variable, total in zip(statistics, sums, strict=True):
        variable.assign(total / steps)


def compile_model(model: GaussDerNet, stage: Stage, steps: int, *, jit: bool = False) -> None:
    """Loss, optimiser and learning rate curve of section 5 (and of the stage)."""
    warmup = round(stage.warmup * steps)
    rate = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=stage.learning_rate / 100 if warmup else stage.learning_rate,
        decay_steps=max(steps - warmup, 1),
        alpha=stage.final_learning_rate / stage.learning_rate,
        warmup_target=stage.learning_rate if warmup else None,
        warmup_steps=warmup,
    )
    sigma_rate = stage.sigma_learning_rate
    optimizer = ScaleAdamW(
        rate,
        weight_decay=stage.weight_decay,
        sigma_learning_rate_factor=(sigma_rate or stage.learning_rate) / stage.learning_rate,
        sigma_weight_decay=stage.sigma_weight_decay or 0.0,
    )
    if stage.dtype == "mixed_float16":  # small gradients would be zero
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    if stage.label_smoothing:
        classes, smoothing = stage.config.num_classes, stage.label_smoothing

        def loss(labels, logits):
            targets = keras.ops.one_hot(keras.ops.reshape(labels, (-1,)), classes)
            return keras.losses.categorical_crossentropy(
                targets, logits, from_logits=True, label_smoothing=smoothing
            )
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        optimizer=optimizer,
        loss=loss,
        metrics=["accuracy"],
        jit_compile=jit or keras.backend.backend() == "jax",  # JAX has no other fast way
    )


def load_data(stage: Stage, *, data_dir: Path | None = None) -> Arrays:
    """The training images of a stage; always size factor 1, or the STIR sizes of the recipe."""
    if not stage.train_sizes:
        return load_arrays(stage.dataset, split=stage.split, data_dir=data_dir, limit=stage.limit)
    data = load_stir(stage.dataset, split=stage.split, sizes=stage.train_sizes, data_dir=data_dir)
    if stage.limit is None or stage.limit >= len(data):
        return data
    # ordered by size and class, so the first ones would be of one kind
    return data.select(np.linspace(0, len(data) - 1, stage.limit).round().astype(int))


def variables(model: keras.Model) -> list:
    """All that a step changes: weights, batch statistics, random states, the optimiser."""
    metrics = {id(variable) for variable in model.metrics_variables}
    own = [variable for variable in model.variables if id(variable) not in metrics]
    return [*own, *model.optimizer.variables]


def snapshot(model: keras.Model) -> list[np.ndarray]:
    if keras.backend.backend() == "jax":
        model.jax_state_sync()  # during `fit` the values are elsewhere
    return [np.asarray(keras.ops.convert_to_numpy(v)) for v in variables(model)]


def restore(model: keras.Model, arrays: list[np.ndarray]) -> None:
    own = variables(model)
    shapes = [tuple(v.shape) for v in own], [a.shape for a in arrays]
    if shapes[0] != shapes[1]:
        raise ValueError("The saved state is of another network; delete the run to start again.")
    for variable, array in zip(own, arrays, strict=True):
        variable.assign(array)


class Progress(keras.callbacks.Callback):
    """After every step: progress bar, whether to save or stop. After every chunk: a log row.

    Looks are taken when the next step begins: asking for the end of a step would make a GPU wait.
    """

    def __init__(self, run: Run, stage: Stage, info: dict, *, steps: int, stop):
        super().__init__()
        from tqdm import tqdm

        self.run, self.stage, self.info, self.stop = run, stage, info, stop
        self.stopped = False
        self._saved = self._clock = time.time()
        self._log = RunLog(run.folder, last=(info["stage"], info["step"]))
        self._bar = tqdm(
            total=steps,
            initial=info["step"],
            unit_scale=stage.batch_size,
            unit="img",
            desc=f"{run.plan.recipe.name} {stage.name}",
            smoothing=0.05,
            mininterval=1.0,
        )

    def on_epoch_begin(self, epoch, logs=None):
        self._new = 0  # steps that `info` does not know of

    def on_train_batch_begin(self, batch, logs=None):
        if self._new:
            self._bar.update(1)
            if time.time() - self._saved > SAVE_SECONDS:
                self._advance(self.model.get_metrics_result())
                self._save()
        self._new += 1
        if self.stop():  # after this step
            self.stopped = self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        self._bar.update(1)
        self._advance(logs)
        # a little earlier than in the middle of a chunk, so that chunks are not broken
        if self.stopped or time.time() - self._saved > SAVE_SECONDS / 2:
            self._save()

    def on_train_end(self, logs=None):
        if not self.stopped:
            self._save()

    def _advance(self, logs: dict) -> None:
        """Bring `info` up to the last step that is done, and log it."""
        info, now = self.info, time.time()
        loss, accuracy = float(logs["loss"]), float(logs["accuracy"])
        if not loss <= DIVERGED * math.log(self.stage.config.num_classes):
            self._diverged(f"The loss became {loss:.3g}")
        info["step"] += self._new
        info["images"] += self._new * self.stage.batch_size
        info["seconds"] += now - self._clock
        self._new, self._clock = 0, now
        row = {
            "stage": info["stage"],
            "step": info["step"],
            "images": info["images"],
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            "loss": loss,
            "accuracy": accuracy,
            "seconds": round(info["seconds"], 1),
        }
        self._log.write(row)
        self._bar.set_postfix(loss=f"{loss:.3f}", accuracy=f"{accuracy:.3f}", refresh=False)

    def _save(self) -> None:
        self._saved = time.time()
        arrays = snapshot(self.model)
        if not all(np.isfinite(array).all() for array in arrays):
            self._diverged("A weight is no longer a number")
        try:
            state_file.save(self.run.folder, self.info, arrays)
        except OSError as error:  # a full disk must not end a long run; the next save may work
            print(f"\nThe state could not be saved: {error}. Going on.", file=sys.stderr)

    def _diverged(self, what: str) -> None:
        kept = state_file.exists(self.run.folder)
        raise TrainingDiverged(
            f"{what} after step {self.info['step']} of stage {self.stage.name!r} of "
            f"{self.run.plan.recipe.name}. "
            + (f"The last good state is kept in {self.run.folder}. " if kept else "")
            + f"A lower learning rate than {self.stage.learning_rate:g} may help."
        )

    def close(self):
        self._bar.close()
        self._log.close()


class _Follower(keras.callbacks.Callback):
    """Instead of `Progress` on all hosts but the first: counts, and leaves the rest to it."""

    stopped = False

    def __init__(self, run: Run, stage: Stage, info: dict, **_):
        super().__init__()
        self.info = info

    def on_epoch_end(self, epoch, logs=None):
        self.info["step"] += self.params["steps"]

    def close(self):
        pass


def fresh_info(run: Run) -> dict[str, Any]:
    """What is known of a run before its first step."""
    info = {
        "recipe": run.plan.recipe.name,
        "budget": run.plan.budget,
        "seed": run.seed,
        "warm_start": run.plan.warm_start,
        "stages": [stage.to_dict() for stage in run.plan.stages],
        "stage": 0,
        "step": 0,
        "images": 0,
        "seconds": 0.0,
    }
    return json.loads(json.dumps(info))  # as it will be read back


def _finish(run: Run, model: GaussDerNet, info: dict) -> None:
    """Weights, then the record whose presence says that the run is done."""
    final = run.plan.recipe.config.replace(sampling_density=model.config.sampling_density)
    network = build_model(final, dtype="float32")
    copy_weights(model, network)
    plan = run.plan
    if plan.statistics_images:
        data = load_data(plan.stages[-1], data_dir=run.data_dir)
        measure_statistics(
            network, data, plan.stages[-1], seed=run.seed, images=plan.statistics_images
        )
    # not straight to its place: on a full disk HDF5 does not raise an error but crash
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        network.save_weights(Path(scratch, WEIGHTS))
        state_file.write_bytes(run.folder / WEIGHTS, Path(scratch, WEIGHTS).read_bytes())
    if info["images"]:
        plot_curves(run.folder)
    record = info | {
        "statistics_images": plan.statistics_images,
        "config": final.to_dict(),
        "versions": versions(),
    }
    state_file.write_text(run.folder / RECORD, json.dumps(record, indent=2) + "\n")


def versions() -> dict[str, str]:
    """What a result depends on."""
    import platform
    from importlib.metadata import version

    packages = ("gdn-keras", "keras", "numpy", keras.backend.backend())
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
