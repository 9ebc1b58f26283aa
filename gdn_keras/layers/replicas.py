"""Which replica computes: the one thing about data parallelism that Keras has no function for."""

import keras


def replica_number() -> int:
    """Number of the replica of a `tf.distribute` strategy that this is called in; otherwise 0.

    With `keras.distribution` there are no replicas: a layer sees the whole batch.
    """
    if keras.backend.backend() != "tensorflow":
        return 0
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return 0 if context is None else context.replica_id_in_sync_group
