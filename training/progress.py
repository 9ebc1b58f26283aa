"""What is done after every step: progress, logs, saving, and a look at whether all is well."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import keras
import numpy as np

from training import state as state_file
from training.budgets import Stage
from training.logs import RunLog

if TYPE_CHECKING:
    from training.trainer import Run

SAVE_SECONDS = 60.0
RETRY_SECONDS = 10.0  # from one attempt to the next, where only the memory has the work
DIVERGED = 10.0  # a loss so many times that of guessing is the end


class TrainingDiverged(RuntimeError):
    """The loss is no longer a number, or far from one that can be learned from."""


def insist(write: Callable[[], None]) -> None:
    """Write what exists nowhere else; on a full disk, wait until there is room.

    Only an exception from outside ends it: a second signal, see `Stopping`.
    """
    while True:
        try:
            return write()
        except OSError as error:
            print(
                f"\nNot saved: {error}. Trying again every {RETRY_SECONDS:g} seconds, until it "
                "works; stopping the command a second time gives up.",
                file=sys.stderr,
                flush=True,
            )
            time.sleep(RETRY_SECONDS)


class Progress(keras.callbacks.Callback):
    """After every step: progress bar, whether to save or stop. After every chunk: a log row.

    Looks are taken when the next step begins: asking for the end of a step would make a GPU wait.
    """

    def __init__(self, run: Run, stage: Stage, info: dict, *, steps: int, stop):
        super().__init__()
        from gdn_keras.progress import show_progress

        self.run, self.stage, self.info, self.stop = run, stage, info, stop
        self.stopped = False
        self._saved = self._clock = time.time()
        self._log = RunLog(run.folder, last=(info["stage"], info["step"]))
        self._bar = show_progress(
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
                self.save()
        self._new += 1
        if self.stop():  # after this step
            self.stopped = self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        self._bar.update(1)
        self._advance(logs)
        # a little earlier than in the middle of a chunk, so that chunks are not broken
        if time.time() - self._saved > SAVE_SECONDS / 2:
            self.save()

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

    def save(self, *, insisting: bool = False) -> None:
        """Save the state; if that fails, wait (`insisting`) or leave it to the next time."""
        self._saved = time.time()
        arrays = snapshot(self.model)
        if not all(np.isfinite(array).all() for array in arrays):
            self._diverged("A weight is no longer a number")
        if insisting:
            insist(lambda: state_file.save(self.run.folder, self.info, arrays))
            return
        try:
            state_file.save(self.run.folder, self.info, arrays)
        except OSError as error:  # a full disk must not end a long run
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


class Follower(keras.callbacks.Callback):
    """Instead of `Progress` on all hosts but the first: counts, and leaves the rest to it."""

    def __init__(self, run: Run, stage: Stage, info: dict, *, steps: int, stop):
        super().__init__()
        self.stage, self.info, self.stop, self.stopped = stage, info, stop, False

    def on_train_batch_begin(self, batch, logs=None):
        self.info["step"] += 1
        self.info["images"] += self.stage.batch_size
        if self.stop():  # after this step
            self.stopped = self.model.stop_training = True

    def save(self, **_):
        pass

    def close(self):
        pass


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
