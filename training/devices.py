"""Several devices that share every batch, with what exists: tf.distribute or keras.distribution.

GPUs if there are; otherwise the processor is divided into so many virtual devices, which is of no
use but for tests. Batch statistics are those of the whole batch, so the result is that of one
device, up to rounding; except that with tf.distribute every device draws its own dropout masks,
other ones than one device would: as good, not equal.

Devices of several hosts need the JAX backend: start the same command on every host, with Keras'
variables KERAS_DISTRIBUTION_JOB_ADDRESSES, …_NUM_PROCESSES and …_PROCESS_ID, and the folder of the
runs on a disk that all of them see. Process 0 writes; the others only compute. A stop of one is a
stop of all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Callable

HOSTS = "KERAS_DISTRIBUTION_NUM_PROCESSES"


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
            with contextlib.suppress(RuntimeError):  # too late; `shared_batches` will tell
                tf.config.set_logical_device_configuration(
                    processor, [tf.config.LogicalDeviceConfiguration()] * devices
                )
    elif backend == "jax":
        import jax

        hosts = int(os.environ.get(HOSTS, 1))
        if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
            with contextlib.suppress(RuntimeError):  # too late; `shared_batches` will tell
                jax.config.update("jax_num_cpu_devices", max(1, devices // hosts))
        if hosts > 1 and not jax.distributed.is_initialized():
            keras.distribution.initialize()
    else:
        raise ValueError(
            "`devices` above 1 needs the Keras backend tensorflow or jax. "
            f"Received: devices={devices}, backend {backend}."
        )


def is_main() -> bool:
    """Whether this process is the one that writes; false on all hosts but the first."""
    if HOSTS not in os.environ:  # without asking Keras, which takes seconds to load
        return True
    import keras

    if keras.backend.backend() != "jax":
        return True
    import jax

    return jax.process_index() == 0


def stop_together(stop: Callable[[], bool]) -> Callable[[], bool]:
    """`stop`, or with several hosts one that says yes to all of them at the same step.

    JAX finds that step after a SIGTERM to any of them, and takes SIGTERM for that. Every host
    must ask once per step.
    """
    import keras

    if keras.backend.backend() != "jax":
        return stop
    import jax
    from jax.experimental.multihost_utils import reached_preemption_sync_point

    if not jax.distributed.is_initialized():
        return stop

    steps, told = itertools.count(), []

    def together() -> bool:
        if stop() and not told:  # Ctrl-C, or the time is up
            told.append(True)
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

    there = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    names = _first(devices, [device.name for device in there])
    return tf.distribute.MirroredStrategy(names).scope()


def _first(devices: int, names: list[str]) -> list[str]:
    if len(names) < devices:
        raise ValueError(
            f"`devices` must be at most {len(names)}, what this process has. "
            f"Received: devices={devices}."
        )
    return names[:devices]
