"""Run the stages of a plan, from wherever the run was left, without losing work.

Training is Keras' own `fit` over batches that are a pure function of (data, seed, step), so the
state is: which stage, which step, all variables of the model and the optimiser. It is saved at
least every `SAVE_SECONDS`, at the end, and when the process is asked to stop.
"""

from __future__ import annotations

import csv
import json
import math
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gdn_keras.datasets import Arrays, as_dataset, load_arrays, load_stir
from gdn_keras.model import GaussDerNet, build_model, copy_weights
from gdn_keras.optimizer import ScaleAdamW
from training import state as state_file
from training.budgets import Plan, Stage

SAVE_SECONDS = 60.0
CHUNK = 20  # steps between two looks at the clock, the log and the signals
WEIGHTS, RECORD, LOG, CURVES = "model.weights.h5", "run.json", "log.csv", "curves.png"
LOG_FIELDS = ("stage", "step", "images", "learning_rate", "loss", "accuracy", "seconds")


class TrainingDiverged(RuntimeError):
    """The loss is no longer a number; the last good state is kept."""


@dataclass(frozen=True)
class Run:
    """A plan, a seed, and the folder that holds everything about it."""

    plan: Plan
    folder: Path
    seed: int = 0
    data_dir: Path | None = None
    devices: int = 1
    jit: bool = False


def train(run: Run, *, initial_weights: GaussDerNet | None = None, deadline: float | None = None):
    """Train until done (returns True), or until a signal or the deadline (returns False).

    `initial_weights` is the finished relative that the plan starts from. Time is `time.time()`.
    """
    with state_file.lock(run.folder), _StopOnSignal() as stopping:
        if (run.folder / RECORD).exists():
            return True
        saved = state_file.load(run.folder)
        info = saved[0] if saved else _fresh_info(run)
        _check_same_run(info, run)
        # the folder's own state is newer than any relative
        model = None if saved else initial_weights
        for number in range(info["stage"], len(run.plan.stages)):
            stage = run.plan.stages[number]
            model, done = _run_stage(
                run,
                stage,
                info,
                before=model,
                arrays=saved and saved[1],
                stop=stopping.or_after(deadline),
            )
            saved = None
            if not done:
                return False
            info |= {"stage": number + 1, "step": 0}
        _finish(run, model if model is not None else initial_weights, info)
    return True


def _run_stage(run: Run, stage: Stage, info: dict, *, before, arrays, stop):
    data = load_data(stage, data_dir=run.data_dir)
    steps = stage.steps(len(data))
    strategy = _strategy(run.devices)
    with strategy.scope():
        model = build_stage_model(stage, seed=run.seed, synchronized=run.devices > 1)
        if before is not None:
            copy_weights(before, model)
        compile_model(model, stage, steps, jit=run.jit)
        model.optimizer.build(model.trainable_variables)
    if arrays is not None:
        restore(model, arrays)
    if info["step"] < steps:
        progress = _Progress(run, stage, info, steps=steps, stop=stop)
        # whole chunks first, then what is left
        while info["step"] < steps and not progress.stopped:
            left = steps - info["step"]
            chunks = left // CHUNK
            model.fit(
                _batches(data, stage, seed=run.seed, step=info["step"]),
                epochs=chunks or 1,
                steps_per_epoch=CHUNK if chunks else left,
                callbacks=[progress],
                verbose=0,
            )
        progress.close()
    return model, info["step"] >= steps


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
    if stage.label_smoothing:
        classes, smoothing = stage.config.num_classes, stage.label_smoothing

        def loss(labels, logits):
            targets = keras.ops.one_hot(keras.ops.reshape(labels, (-1,)), classes)
            return keras.losses.categorical_crossentropy(
                targets, logits, from_logits=True, label_smoothing=smoothing
            )
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"], jit_compile=jit)


def load_data(stage: Stage, *, data_dir: Path | None = None) -> Arrays:
    """The training images of a stage; always size factor 1, or the STIR sizes of the recipe."""
    if stage.train_sizes:
        return load_stir(
            stage.dataset, split=stage.split, sizes=stage.train_sizes, data_dir=data_dir
        )
    return load_arrays(stage.dataset, split=stage.split, data_dir=data_dir, limit=stage.limit)


def variables(model: keras.Model) -> list:
    """All that a step changes: weights, batch statistics, random states, the optimiser."""
    metrics = {id(variable) for variable in model.metrics_variables}
    own = [variable for variable in model.variables if id(variable) not in metrics]
    return [*own, *model.optimizer.variables]


def snapshot(model: keras.Model) -> list[np.ndarray]:
    return [np.asarray(keras.ops.convert_to_numpy(v)) for v in variables(model)]


def restore(model: keras.Model, arrays: list[np.ndarray]) -> None:
    own = variables(model)
    shapes = [tuple(v.shape) for v in own], [a.shape for a in arrays]
    if shapes[0] != shapes[1]:
        raise ValueError("The saved state is of another network; delete the run to start again.")
    for variable, array in zip(own, arrays, strict=True):
        variable.assign(array)


class _Progress(keras.callbacks.Callback):
    """After every chunk: progress bar, log row, state, and whether to stop."""

    def __init__(self, run: Run, stage: Stage, info: dict, *, steps: int, stop):
        super().__init__()
        from tqdm import tqdm

        self.run, self.stage, self.info, self.stop = run, stage, info, stop
        self.stopped = False
        self._saved = self._clock = time.time()
        self._log = _CsvLog(run.folder / LOG, keep_up_to=(info["stage"], info["step"]))
        self._board = _TensorBoard(run.folder / "tensorboard")
        self._bar = tqdm(
            total=steps,
            initial=info["step"],
            unit_scale=stage.batch_size,
            unit="img",
            desc=f"{run.plan.recipe.name} {stage.name}",
            smoothing=0.05,
            mininterval=1.0,
        )

    def on_epoch_end(self, epoch, logs=None):
        loss = logs["loss"]
        if not math.isfinite(loss):
            raise TrainingDiverged(
                f"The loss became {loss} after step {self.info['step']} of stage "
                f"{self.stage.name!r} of {self.run.plan.recipe.name}. The last good state is "
                f"kept in {self.run.folder}; a lower learning rate may help."
            )
        steps, now = self.params["steps"], time.time()
        info = self.info
        info["step"] += steps
        info["images"] += steps * self.stage.batch_size
        info["seconds"] += now - self._clock
        self._clock = now
        row = {
            "stage": info["stage"],
            "step": info["step"],
            "images": info["images"],
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            "loss": loss,
            "accuracy": logs["accuracy"],
            "seconds": round(info["seconds"], 1),
        }
        self._log.write(row)
        self._board.write(row)
        self._bar.update(steps)
        self._bar.set_postfix(loss=f"{loss:.3f}", accuracy=f"{logs['accuracy']:.3f}")
        if self.stop():
            self.stopped = self.model.stop_training = True
        if self.stopped or now - self._saved > SAVE_SECONDS:
            self._save()

    def on_train_end(self, logs=None):
        self._save()

    def _save(self):
        self._saved = time.time()
        try:
            state_file.save(self.run.folder, self.info, snapshot(self.model))
        except OSError as error:  # a full disk must not end a long run; the next save may work
            print(f"\nThe state could not be saved: {error}. Going on.", file=sys.stderr)

    def close(self):
        self._bar.close()
        self._log.close()
        self._board.close()


class _CsvLog:
    """A CSV file; rows after the point a run is resumed from are written anew."""

    def __init__(self, path: Path, *, keep_up_to: tuple[int, int]):
        rows = []
        if path.exists():
            with open(path, newline="") as file:
                rows = [
                    row
                    for row in csv.DictReader(file)
                    if (int(row["stage"]), int(row["step"])) <= keep_up_to
                ]
        self._file = open(path, "w", newline="")  # noqa: SIM115
        self._writer = csv.DictWriter(self._file, LOG_FIELDS)
        self._writer.writeheader()
        self._writer.writerows(rows)
        self._file.flush()

    def write(self, row: dict) -> None:
        self._writer.writerow(row)
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _TensorBoard:
    """Scalars for TensorBoard, if it is installed."""

    def __init__(self, folder: Path):
        from importlib.util import find_spec

        import tensorflow as tf

        self._summary = tf.summary if find_spec("tensorboard") else None
        self._writer = tf.summary.create_file_writer(str(folder))

    def write(self, row: dict) -> None:
        if self._summary:
            with self._writer.as_default(step=row["images"]):
                for name in ("loss", "accuracy", "learning_rate"):
                    self._summary.scalar(name, row[name])

    def close(self) -> None:
        self._writer.close()


class _StopOnSignal:
    """SIGTERM and SIGINT ask for a stop at the next chunk instead of ending the process."""

    def __enter__(self):
        self.asked = False
        self._old = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            self._old[number] = signal.signal(number, self._ask)
        return self

    def _ask(self, *_):
        self.asked = True

    def or_after(self, deadline: float | None):
        return lambda: self.asked or (deadline is not None and time.time() > deadline)

    def __exit__(self, *_):
        for number, handler in self._old.items():
            signal.signal(number, handler)


def _strategy(devices: int):
    """One device, or several that share a batch: GPUs if there are, else virtual CPU devices."""
    import contextlib

    class Plain:
        scope = staticmethod(contextlib.nullcontext)

    if devices == 1:
        return Plain()
    if keras.backend.backend() == "jax":
        keras.distribution.set_distribution(
            keras.distribution.DataParallel(devices=keras.distribution.list_devices()[:devices])
        )
        return Plain()
    import tensorflow as tf

    names = [d.name for d in tf.config.list_logical_devices("GPU")]
    names = names or [d.name for d in tf.config.list_logical_devices("CPU")]
    if len(names) < devices:
        raise ValueError(
            f"`devices` must be at most {len(names)}, what this machine has. "
            f"Received: devices={devices}."
        )
    return tf.distribute.MirroredStrategy(names[:devices])


def _fresh_info(run: Run) -> dict[str, Any]:
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


def _check_same_run(info: dict, run: Run) -> None:
    fresh = _fresh_info(run)
    different = [k for k in ("recipe", "budget", "seed", "stages") if info[k] != fresh[k]]
    if different:
        raise ValueError(
            f"The run in {run.folder} was begun with other settings ({', '.join(different)}). "
            "Finish it with those, or delete the folder to start again."
        )


def _finish(run: Run, model: GaussDerNet, info: dict) -> None:
    """Weights, then the record whose presence says that the run is done."""
    final = run.plan.recipe.config.replace(sampling_density=model.config.sampling_density)
    keras.config.set_dtype_policy("float32")
    network = build_model(final)
    copy_weights(model, network)
    network.save_weights(run.folder / WEIGHTS)
    if info["images"]:
        _plot_curves(run.folder)
    record = info | {"config": final.to_dict(), "versions": versions()}
    state_file.write_text(run.folder / RECORD, json.dumps(record, indent=2) + "\n")


def _plot_curves(folder: Path) -> None:
    import matplotlib.figure

    with open(folder / LOG, newline="") as file:
        rows = list(csv.DictReader(file))
    images = [int(row["images"]) / 1000 for row in rows]
    figure = matplotlib.figure.Figure(figsize=(7, 2.6), layout="constrained")
    for ax, field in zip(figure.subplots(1, 3), ("loss", "accuracy", "learning_rate"), strict=True):
        ax.plot(images, [float(row[field]) for row in rows], color="#0072B2", linewidth=1)
        ax.set(xlabel="thousand images", ylabel=field.replace("_", " "))
    figure.savefig(folder / CURVES, dpi=150)


def versions() -> dict[str, str]:
    """What a result depends on."""
    import platform
    from importlib.metadata import version

    packages = ("gdn-keras", "keras", "numpy", keras.backend.backend())
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
