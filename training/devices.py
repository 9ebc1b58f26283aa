"""Several devices that share every batch, with what exists: tf.distribute or keras.distribution.

GPUs if there are; otherwise the processor is divided into so many virtual devices, which is of no
use but for tests. Batch statistics are those of the whole batch, so the result is that of one
device.
"""

from __future__ import annotations

import contextlib
import os

import keras


def prepare(devices: int) -> None:
    """Divide the processor if there are no GPUs. Call it before anything is computed."""
    if isinstance(devices, bool) or not isinstance(devices, int) or devices < 1:
        raise ValueError(f"`devices` must be a positive integer. Received: devices={devices!r}.")
    if devices == 1:
        return
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

        if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
            with contextlib.suppress(RuntimeError):  # too late; `shared_batches` will tell
                jax.config.update("jax_num_cpu_devices", devices)
    else:
        raise ValueError(
            "`devices` above 1 needs the Keras backend tensorflow or jax. "
            f"Received: devices={devices}, backend {backend}."
        )


def shared_batches(devices: int):
    """A context in which a model is built and fitted so that `devices` share every batch."""
    if devices == 1:
        return contextlib.nullcontext()
    if keras.backend.backend() == "jax":
        names = _first(devices, keras.distribution.list_devices())
        return keras.distribution.DataParallel(devices=names).scope()
    import tensorflow as tf

    devices_there = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    names = _first(devices, [device.name for device in devices_there])
    return tf.distribute.MirroredStrategy(names).scope()


def _first(devices: int, names: list[str]) -> list[str]:
    if len(names) < devices:
        raise ValueError(
            f"`devices` must be at most {len(names)}, what this process has. "
            f"Received: devices={devices}."
        )
    return names[:devices]
