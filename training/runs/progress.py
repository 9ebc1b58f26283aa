"""What is done after every step: progress, logs, saving, and a check that the loss is sane."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import keras
import numpy as np

from ..budgets import Stage
from . import state as state_file
from .logs import RunLog
from .record import RunRecord

if TYPE_CHECKING:
    from ..trainer import Run

SAVE_SECONDS = 60.0
RETRY_SECONDS = 10.0  # between attempts to save work that exists only in memory
DIVERGED = 10.0  # a loss that is this many times that of guessing ends the run


class TrainingDiverged(RuntimeError):
    """The loss is no longer a number, or too high to recover."""


class RunFolderDeleted(RuntimeError):
    """Somebody deleted the folder of a run while it was running."""


def retry_until_saved(write: Callable[[], None]) -> None:
    """Write what exists nowhere else; on a full disk, wait until there is space.

    Only an exception from outside ends it: a second signal, see `Stopping`. If the folder is gone,
    waiting would not bring it back, nor the lock on it.
    """
    while True:
        try:
            return write()
        except FileNotFoundError as error:
            raise _deleted(error) from error
        except OSError as error:
            print(
                f"\nNot saved: {error}. Retrying every {RETRY_SECONDS:g} seconds until it works; "
                "stop the command a second time to give up.",
                file=sys.stderr,
                flush=True,
            )
            time.sleep(RETRY_SECONDS)


def _deleted(error: FileNotFoundError) -> RunFolderDeleted:
    return RunFolderDeleted(
        f"The folder of the run was deleted, so nothing can be saved in it ({error}). The same "
        "command starts again from the beginning."
    )


class Progress(keras.callbacks.Callback):
    """After every step: progress bar, whether to save or stop. After every chunk: a log row.

    The checks are made when the next step begins: asking for the end of a step would make a GPU
    wait.
    """

    def __init__(self, run: Run, stage: Stage, record: RunRecord, *, steps: int, stop):
        super().__init__()
        from gdn_keras.utils.progress import show_progress

        self.run, self.stage, self.record, self.stop = run, stage, record, stop
        self.stopped = False
        self._saved = self._clock = time.time()
        self._log = RunLog(run.folder, last=(record.stage, record.step))
        self._bar = show_progress(
            total=steps,
            initial=record.step,
            unit_scale=stage.batch_size,
            unit="img",
            desc=f"{run.plan.recipe.name} {stage.name}",
            smoothing=0.05,
            mininterval=1.0,
        )

    def on_epoch_begin(self, epoch, logs=None):
        self._new = 0  # steps that `record` does not count yet

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
        """Bring `record` up to the last step that is done, and log it."""
        now = time.time()
        loss, accuracy = float(logs["loss"]), float(logs["accuracy"])
        if not loss <= DIVERGED * math.log(self.stage.config.num_classes):
            self._diverged(f"The loss became {loss:.3g}")
        self.record = record = self.record.replace(
            step=self.record.step + self._new,
            images_seen=self.record.images_seen + self._new * self.stage.batch_size,
            seconds=self.record.seconds + now - self._clock,
        )
        self._new, self._clock = 0, now
        row = {
            "stage": record.stage,
            "step": record.step,
            "images": record.images_seen,
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            "loss": loss,
            "accuracy": accuracy,
            "seconds": round(record.seconds, 1),
        }
        self._log.write(row)
        self._bar.set_postfix(loss=f"{loss:.3f}", accuracy=f"{accuracy:.3f}", refresh=False)

    def save(self, *, retry: bool = False) -> None:
        """Save the state; if that fails, `retry` until it works or leave it to the next time."""
        self._saved = time.time()
        arrays = snapshot(self.model)
        if not all(np.isfinite(array).all() for array in arrays):
            self._diverged("A weight is no longer a number")
        if retry:
            retry_until_saved(lambda: state_file.save(self.run.folder, self.record, arrays))
            return
        try:
            state_file.save(self.run.folder, self.record, arrays)
        except FileNotFoundError as error:
            raise _deleted(error) from error
        except OSError as error:  # a full disk must not end a long run
            print(f"\nThe state could not be saved: {error}. Continuing.", file=sys.stderr)

    def _diverged(self, what: str) -> None:
        kept = state_file.exists(self.run.folder)
        raise TrainingDiverged(
            f"{what} after step {self.record.step} of stage {self.stage.name!r} of "
            f"{self.run.plan.recipe.name}. "
            + (f"The last good state is kept in {self.run.folder}. " if kept else "")
            + f"A lower learning rate than {self.stage.learning_rate:g} may help."
        )

    def close(self):
        self._bar.close()
        self._log.close()


class Follower(keras.callbacks.Callback):
    """Instead of `Progress` on all hosts but the first: counts, and leaves the rest to it."""

    def __init__(self, run: Run, stage: Stage, record: RunRecord, *, steps: int, stop):
        super().__init__()
        self.stage, self.record, self.stop, self.stopped = stage, record, stop, False

    def on_train_batch_begin(self, batch, logs=None):
        self.record = self.record.replace(
            step=self.record.step + 1,
            images_seen=self.record.images_seen + self.stage.batch_size,
        )
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
        raise ValueError(
            "The saved state belongs to another network; delete the run to start again."
        )
    for variable, array in zip(own, arrays, strict=True):
        variable.assign(array)
