"""Batches for training: shuffled, augmented, and resumable at any step.

Batch number `step` of a run is a pure function of (data, seed, step): the order of an epoch comes
from (seed, epoch) and the augmentation from (seed, epoch, position). So resuming needs no stored
random state, and the plain iterator and the tf.data pipeline deliver the same batches. A first
number separates orders from augmentations: for numpy, [seed, epoch] and [seed, epoch, 0] are equal.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from gdn_keras.datasets.arrays import Arrays
from gdn_keras.datasets.batching.augment import AUGMENTATIONS, augment
from gdn_keras.utils.checks import check_integer, checked, received

Batch = tuple[np.ndarray, np.ndarray]
_ORDER, _AUGMENTATION = 0, 1


class TrainingBatches(Iterator):
    """An endless iterator over `(images, labels)`; made by `training_batches`."""

    @checked
    def __init__(
        self,
        arrays: Arrays,
        *,
        batch_size: int,
        seed: int,
        augment: Sequence[str] = (),
        drop_remainder: bool = True,
    ):
        unknown = [name for name in augment if name not in AUGMENTATIONS]
        if isinstance(augment, str) or unknown:
            raise ValueError(
                f"`augment` must be a sequence of names from {tuple(AUGMENTATIONS)}. "
                f"Received: augment={augment!r}."
            )
        if "colour_jitter" in augment and arrays.images.shape[-1] != 3:
            raise ValueError(
                "`augment='colour_jitter'` needs images with three channels. "
                f"Received: shape {arrays.images.shape}."
            )
        highest = len(arrays)
        expected = f"an integer in 1...{highest}, the number of images"
        check_integer("batch_size", batch_size, low=1, high=highest, expected=expected)
        if not 0 <= seed < 2**32:  # numpy would take a larger one for two numbers
            raise ValueError(f"`seed` must be in 0...2**32 - 1. Received: seed={seed}.")
        self.arrays, self.batch_size, self.seed = arrays, batch_size, int(seed)
        self.augment, self.drop_remainder = tuple(augment), drop_remainder
        whole, rest = divmod(len(arrays), batch_size)
        self.steps_per_epoch = whole + (rest > 0 and not drop_remainder)
        self.epoch, self.position = 0, 0
        self._order = (None, None, None)  # seed, epoch, permutation

    def __next__(self) -> Batch:
        batch = self.batch(self.epoch, self.position)
        self.position += 1
        if self.position == self.steps_per_epoch:
            self.epoch, self.position = self.epoch + 1, 0
        return batch

    def batch(self, epoch: int, position: int) -> Batch:
        """Batch `position` of an epoch, wherever the iterator is."""
        seed, cached_epoch, order = self._order
        if (seed, cached_epoch) != (self.seed, epoch):
            rng = np.random.default_rng([_ORDER, self.seed, epoch])
            order = rng.permutation(len(self.arrays))
            self._order = (self.seed, epoch, order)
        chosen = order[position * self.batch_size : (position + 1) * self.batch_size]
        images, labels = self.arrays.images[chosen], self.arrays.labels[chosen]
        if self.augment:
            rng = np.random.default_rng([_AUGMENTATION, self.seed, epoch, position])
            images = augment(images, self.augment, rng)
        return images, labels

    def state(self) -> dict[str, int]:
        """The position of the next batch, serialisable as JSON."""
        return {
            "epoch": self.epoch,
            "position": self.position,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "num_images": len(self.arrays),
        }

    @checked
    def restore(self, state: dict[str, int]) -> None:
        """Go to a saved state; the same batches follow."""
        missing = [name for name in self.state() if name not in state]
        if missing:
            raise ValueError(f"`state` must have {missing}. {received('state', state)}")
        for name, here in (("batch_size", self.batch_size), ("num_images", len(self.arrays))):
            if state[name] != here:
                raise ValueError(
                    f"`state` must come from batches with the same {name}, {here}. "
                    f"Received: {name}={state[name]}."
                )
        if state["epoch"] < 0 or not 0 <= state["position"] < self.steps_per_epoch:
            raise ValueError(
                f"`state` must have an epoch >= 0 and a position in 0...{self.steps_per_epoch - 1}"
                f". Received: epoch={state['epoch']}, position={state['position']}."
            )
        self.epoch, self.position = int(state["epoch"]), int(state["position"])
        self.seed = int(state["seed"])


@checked
def training_batches(
    arrays: Arrays,
    *,
    batch_size: int,
    seed: int,
    augment: Sequence[str] = (),
    drop_remainder: bool = True,
) -> TrainingBatches:
    """Endless shuffled, augmented batches, epoch after epoch.

    >>> batches = training_batches(arrays, batch_size=32, seed=0, augment=("flip",))
    >>> images, labels = next(batches)
    >>> saved = batches.state()       # {"epoch": 0, "position": 1, "seed": 0, ...}, fit for JSON
    >>> batches.restore(saved)        # here or in another process: the same batches follow

    Args:
        arrays: what `load_arrays` returns.
        batch_size: images per batch.
        seed: same seed, same batches (with the same version of numpy).
        augment: any of "flip", "colour_jitter" and "cutout", applied in this order of the
            sequence. The paper: Fashion ("flip",), CIFAR ("flip", "colour_jitter"), its cutout
            ablation ("flip", "colour_jitter", "cutout"), STIR ().
        drop_remainder: leave out the images that do not fill a batch (other ones in each epoch),
            so that all batches have one shape. If False, the last batch of an epoch is smaller.

    Images are `(batch, h, w, c)`, 0...255: uint8, or float32 with "colour_jitter". Labels int64.
    """
    return TrainingBatches(
        arrays, batch_size=batch_size, seed=seed, augment=augment, drop_remainder=drop_remainder
    )


@checked
def as_dataset(
    arrays: Arrays,
    *,
    batch_size: int,
    seed: int | None = None,
    augment: Sequence[str] = (),
    drop_remainder: bool | None = None,
    state: dict[str, int] | None = None,
):
    """A `tf.data.Dataset` for Keras' `fit` and `evaluate`, on any backend.

    With a seed it delivers the batches of `training_batches`, for ever, from `state` on:

    >>> train = as_dataset(arrays, batch_size=32, seed=0, augment=("flip",))
    >>> model.fit(train, epochs=3, steps_per_epoch=len(arrays) // 32, shuffle=False)

    Without one, for evaluation: every image once, in order, the last batch may be smaller.

    `drop_remainder` is True with a seed and False without one, unless it is given.
    """
    import tensorflow as tf

    if seed is None:
        if augment or state is not None:
            raise ValueError(
                "`augment` and `state` need a `seed`. "
                f"Received: seed=None, augment={augment!r}, state={state!r}."
            )
        check_integer("batch_size", batch_size, low=1)
        whole, rest = divmod(len(arrays), batch_size)

        def at(step):
            chosen = slice(step * batch_size, (step + 1) * batch_size)
            return arrays.images[chosen], arrays.labels[chosen]

        steps = tf.data.Dataset.range(whole + (rest > 0 and not drop_remainder))
        kind, leading = np.uint8, batch_size if drop_remainder else None
    else:
        drop_remainder = drop_remainder is None or drop_remainder
        batches = training_batches(
            arrays, batch_size=batch_size, seed=seed, augment=augment, drop_remainder=drop_remainder
        )
        if state is not None:
            batches.restore(state)
        per_epoch = batches.steps_per_epoch
        first = batches.epoch * per_epoch + batches.position

        def at(step):
            return batches.batch(*divmod(int(step), per_epoch))

        steps = tf.data.Dataset.counter(start=first)
        kind = np.float32 if "colour_jitter" in augment else np.uint8
        leading = batch_size if drop_remainder else None

    def load(step):
        images, labels = tf.numpy_function(at, [step], [kind, np.int64], stateful=False)
        images.set_shape((leading, *arrays.images.shape[1:]))
        labels.set_shape((leading,))
        return images, labels

    return steps.map(load).prefetch(2)
