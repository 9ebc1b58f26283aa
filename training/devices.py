"""Share every batch among several devices, with tf.distribute or keras.distribution.

These are GPUs if there are any; otherwise the CPU is divided into virtual devices, for tests. Batch
statistics are computed over the whole batch, so the result equals that of one device, up to
rounding. The exception is dropout with tf.distribute: every device draws its own masks, so the
result is as good but not equal.

Devices of several hosts need the JAX backend: start the same command on every host, with Keras'
variables KERAS_DISTRIBUTION_JOB_ADDRESSES, …_NUM_PROCESSES and …_PROCESS_ID, and the folder of the
runs on a disk that all of them share. Process 0 writes; the others only compute. Stopping one of
them stops all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Callable

HOSTS = "KERAS_DISTRIBUTION_NUM_PROCESSES"
_QUERY = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")


# === What the GPUs of this machine can do ===


def gpu_capability() -> float | None:
    """The lowest CUDA compute capability of this machine's GPUs; None if it has none.

    The driver's own tool is asked, because every backend would take seconds to load.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1") or not shutil.which(_QUERY[0]):
        return None
    answer = subprocess.run(_QUERY, capture_output=True, text=True)
    lines = answer.stdout.split() if answer.returncode == 0 else []
    return min(map(float, lines), default=None)


def gpu_precision() -> str:
    """The fastest precision of the GPUs; docs/train_everything.md has the reasons."""
    capability = gpu_capability() or 0.0
    if capability >= 8.0:
        return "mixed_bfloat16"
    return "mixed_float16" if capability >= 7.0 else "float32"


def prefers_xla(devices: int) -> bool:
    """Whether a step is compiled with XLA by default; docs/train_everything.md has the reasons."""
    import keras

    backend = keras.backend.backend()
    one_gpu = devices == 1 and gpu_capability() is not None
    return backend == "jax" or (backend == "tensorflow" and one_gpu)


# === Several devices ===


def prepare(devices: int) -> None:
    """Find the other hosts, divide the processor. Call it before anything is computed."""
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise ValueError(f"`devices` must be a positive integer. Received: devices={devices!r}.")
    if devices == 1:
        return
    import keras

    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        if not tf.config.list_physical_devices("GPU"):
            processor = tf.config.list_physical_devices("CPU")[0]
            with contextlib.suppress(RuntimeError):  # too late; `shared_batches` reports it
                tf.config.set_logical_device_configuration(
                    processor, [tf.config.LogicalDeviceConfiguration()] * devices
                )
    elif backend == "jax":
        import jax

        hosts = int(os.environ.get(HOSTS, 1))
        if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
            with contextlib.suppress(RuntimeError):  # too late; `shared_batches` reports it
                jax.config.update("jax_num_cpu_devices", max(1, devices // hosts))
        if hosts > 1 and not jax.distributed.is_initialized():
            keras.distribution.initialize()
    else:
        raise ValueError(
            "`devices` above 1 needs the Keras backend tensorflow or jax. "
            f"Received: devices={devices}, backend {backend}."
        )


def is_main() -> bool:
    """Whether this process writes; false on all hosts except the first."""
    if HOSTS not in os.environ:  # without asking Keras, which takes seconds to load
        return True
    import keras

    if keras.backend.backend() != "jax":
        return True
    import jax

    return jax.process_index() == 0


def stop_together(stop: Callable[[], bool]) -> Callable[[], bool]:
    """`stop`, or with several hosts a function that stops all of them at the same step.

    JAX chooses that step after one of them has received SIGTERM, which it handles itself. Every
    host must call the function once per step.
    """
    import keras

    if keras.backend.backend() != "jax":
        return stop
    import jax
    from jax.experimental.multihost_utils import reached_preemption_sync_point

    if not jax.distributed.is_initialized():
        return stop

    steps, requested = itertools.count(), []

    def together() -> bool:
        if stop() and not requested:  # Ctrl-C, or the time is up
            requested.append(True)
            os.kill(os.getpid(), signal.SIGTERM)
        return reached_preemption_sync_point(next(steps))

    return together


def shared_batches(devices: int):
    """A context in which a model is built and fitted so that `devices` share every batch."""
    if devices == 1:
        return contextlib.nullcontext()
    import keras

    if keras.backend.backend() == "jax":
        names = _first(devices, keras.distribution.list_devices())
        return keras.distribution.DataParallel(devices=names).scope()
    import tensorflow as tf

    devices_here = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    names = _first(devices, [device.name for device in devices_here])
    return tf.distribute.MirroredStrategy(names).scope()


def _first(devices: int, names: list[str]) -> list[str]:
    if len(names) < devices:
        raise ValueError(
            f"`devices` must be at most {len(names)}, the number that this process has. "
            f"Received: devices={devices}."
        )
    return names[:devices]
