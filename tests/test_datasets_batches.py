"""Training batches: reproducible, resumable at any step, the same as an iterator and in tf.data."""

import json

import keras
import numpy as np
import pytest

from gdn_keras.datasets import Arrays, as_dataset, load_samples, training_batches

COUNT, BATCH = 50, 8
PAPER_CIFAR = ("flip", "colour_jitter", "cutout")


def numbered(count=COUNT, channels=1):
    """Images that say which they are: pixel 0, 0 is the number of the image."""
    images = np.zeros((count, 4, 4, channels), np.uint8)
    images[:, 0, 0] = np.arange(count)[:, None]
    return Arrays(images, np.arange(count) % 10, tuple("abcdefghij"))


def take(batches, count):
    return [next(batches) for _ in range(count)]


def assert_same(some, others):
    assert len(some) == len(others)
    for (images, labels), (other_images, other_labels) in zip(some, others, strict=True):
        np.testing.assert_array_equal(images, other_images)
        np.testing.assert_array_equal(labels, other_labels)
        assert images.dtype == other_images.dtype


@pytest.mark.parametrize("drop_remainder, steps", [(True, 6), (False, 7)])
def test_an_epoch_shows_every_image_at_most_once(drop_remainder, steps):
    batches = training_batches(numbered(), batch_size=BATCH, seed=1, drop_remainder=drop_remainder)
    assert batches.steps_per_epoch == steps
    epochs = []
    for _ in range(2):
        taken = take(batches, steps)
        shown = np.concatenate([images[:, 0, 0, 0] for images, _ in taken])
        np.testing.assert_array_equal(
            np.concatenate([labels for _, labels in taken]), shown.astype(int) % 10
        )
        assert len(shown) == len(set(shown)) == (48 if drop_remainder else 50)
        epochs.append(shown)
    assert not np.array_equal(*epochs)
    assert batches.state()["epoch"] == 2 and batches.state()["position"] == 0


def test_the_seed_decides():
    def first(seed):
        return take(training_batches(numbered(), batch_size=BATCH, seed=seed), 9)

    assert_same(first(3), first(3))
    assert any(not np.array_equal(a[0], b[0]) for a, b in zip(first(3), first(4), strict=True))


@pytest.mark.parametrize("done", [0, 1, 5, 11, 12, 13, 30])
def test_resuming_at_any_step_gives_the_same_batches(done):
    samples = load_samples("cifar10").select(slice(COUNT))
    kinds = {"batch_size": 4, "augment": PAPER_CIFAR}
    whole = training_batches(samples, seed=7, **kinds)
    assert whole.steps_per_epoch == 12
    take(whole, done)
    saved = json.dumps(whole.state())
    expected = take(whole, 14)

    resumed = training_batches(samples, seed=0, **kinds)
    take(resumed, 3)
    resumed.restore(json.loads(saved))
    assert_same(take(resumed, 14), expected)


def test_augmentation_is_fresh_in_every_epoch_and_batch():
    one = Arrays(load_samples("cifar10").images[:1], np.zeros(1, int), ("a",))
    batches = training_batches(one, batch_size=1, seed=0, augment=("colour_jitter",))
    seen = [images.sum() for images, _ in take(batches, 10)]
    assert len(set(seen)) == 10


def test_no_two_random_streams_are_the_same(monkeypatch):
    """Also not the order of an epoch and the augmentation of its first batch."""
    streams, seeds = [], range(3)
    make = np.random.default_rng

    def make_and_note(seed):
        streams.append(tuple(make(seed).integers(0, 2**62, 4)))
        return make(seed)

    monkeypatch.setattr(np.random, "default_rng", make_and_note)
    for seed in seeds:
        batches = training_batches(numbered(), batch_size=BATCH, seed=seed, augment=("flip",))
        take(batches, 3 * batches.steps_per_epoch)
    assert len(streams) == len(set(streams)) == len(seeds) * 3 * (1 + 6)


def test_flip_shows_both_sides():
    image = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
    one = Arrays(np.repeat(image, 8, 0), np.zeros(8, int), ("a",))
    images, _ = next(training_batches(one, batch_size=8, seed=0, augment=("flip",)))
    sides = {int(side[0, 0, 0]) for side in images}
    assert sides == {0, 3} and images.dtype == np.uint8


@pytest.mark.parametrize("augment", [(), ("flip",), PAPER_CIFAR])
def test_tf_data_delivers_the_same_batches(augment):
    samples = load_samples("cifar10").select(slice(COUNT))
    kinds = {"batch_size": BATCH, "seed": 2, "augment": augment}
    batches = training_batches(samples, **kinds)
    expected = take(batches, 8)
    dataset = as_dataset(samples, **kinds)
    assert_same(list(dataset.take(8).as_numpy_iterator()), expected)
    assert dataset.element_spec[0].shape == (BATCH, 32, 32, 3)
    state = batches.state()
    expected = take(batches, 5)
    resumed = as_dataset(samples, state=state, **kinds)
    assert_same(list(resumed.take(5).as_numpy_iterator()), expected)


def test_two_passes_over_one_dataset_do_not_disturb_each_other():
    dataset = as_dataset(numbered(), batch_size=BATCH, seed=2)
    first, second = iter(dataset), iter(dataset)
    ahead = [next(first)[1].numpy() for _ in range(20)]
    np.testing.assert_array_equal([next(second)[1].numpy() for _ in range(20)], ahead)


def test_without_a_seed_every_image_comes_once_in_order():
    dataset = as_dataset(numbered(), batch_size=BATCH)
    assert len(dataset) == 7
    images, labels = zip(*dataset.as_numpy_iterator(), strict=True)
    np.testing.assert_array_equal(np.concatenate(images)[:, 0, 0, 0], np.arange(COUNT))
    assert len(labels[-1]) == 2
    whole = as_dataset(numbered(), batch_size=BATCH, drop_remainder=True)
    assert len(whole) == 6 and whole.element_spec[0].shape == (BATCH, 4, 4, 1)
    assert len(as_dataset(numbered(), batch_size=64)) == 1


def test_with_a_seed_the_rest_of_an_epoch_is_left_out_unless_asked_for():
    for drop_remainder, last in ((None, 8), (True, 8), (False, 2)):
        dataset = as_dataset(numbered(), batch_size=BATCH, seed=0, drop_remainder=drop_remainder)
        sizes = [len(labels) for _, labels in dataset.take(7).as_numpy_iterator()]
        assert sizes == [8] * 6 + [last]


def test_keras_fits_and_evaluates():
    samples = load_samples("fashion_mnist")
    model = keras.Sequential(
        [keras.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(10)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss, metrics=["accuracy"])
    train = as_dataset(samples, batch_size=20, seed=0, augment=("flip",))
    history = model.fit(train, epochs=2, steps_per_epoch=5, shuffle=False, verbose=0)
    assert len(history.history["loss"]) == 2
    assert model.evaluate(as_dataset(samples, batch_size=32), verbose=0, return_dict=True)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"augment": "flip"}, "`augment` must be a sequence of strings.*'flip'"),
        ({"augment": ("rotate",)}, "Received: augment=\\('rotate',\\)"),
        ({"augment": ("colour_jitter",)}, "three channels. Received: shape"),
        ({"batch_size": 0}, "`batch_size` must be an integer in 1...50, the number.*batch_size=0"),
        ({"batch_size": 51}, "Received: batch_size=51"),
        ({"batch_size": 2.5}, "Received: batch_size=2.5"),
        ({"seed": -1}, r"`seed` must be in 0...2\*\*32 - 1. Received: seed=-1"),
        ({"seed": 2**32}, "Received: seed=4294967296"),
    ],
)
def test_training_batches_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        training_batches(numbered(), **{"batch_size": BATCH, "seed": 0} | change)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"batch_size": 4}, "same batch_size, 8. Received: batch_size=4"),
        ({"num_images": 49}, "same num_images, 50. Received: num_images=49"),
        ({"position": 6}, "position in 0...5. Received: epoch=0, position=6"),
    ],
)
def test_restore_refuses_a_state_of_something_else(change, message):
    batches = training_batches(numbered(), batch_size=BATCH, seed=0)
    with pytest.raises(ValueError, match=message):
        batches.restore(batches.state() | change)


@pytest.mark.parametrize("batch_size", [0, -1, 2.5])
@pytest.mark.parametrize("seed", [None, 0])
def test_as_dataset_refuses_impossible_batches(batch_size, seed):
    with pytest.raises(ValueError, match=f"`batch_size` must be an .*batch_size={batch_size}"):
        as_dataset(numbered(), batch_size=batch_size, seed=seed)


def test_as_dataset_without_seed_refuses_to_augment():
    with pytest.raises(ValueError, match="`seed`.*seed=None, augment=..flip"):
        as_dataset(numbered(), batch_size=BATCH, augment=("flip",))
