"""ScaleAdamW: AdamW, but for the learned scales."""

import keras
import numpy as np
import pytest

from gdn_keras.layers import JetLayer
from gdn_keras.optimizer import ScaleAdamW

DECAY = 0.05


def small_network():
    keras.utils.set_random_seed(3)
    image = keras.Input((9, 9, 1))
    maps = JetLayer(4, sigma=1.0, learned_ratio=1.0, name="jet")(image)
    logits = keras.layers.GlobalMaxPooling2D()(keras.layers.ReLU()(maps))
    return keras.Model(image, logits)


def train(optimizer, *, steps=5):
    """Weights by name after `steps` steps from the same start on the same data."""
    model = small_network()
    rng = np.random.default_rng(0)
    images = rng.normal(size=(8, 9, 9, 1)).astype("float32")
    labels = rng.integers(4, size=8)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss=loss, jit_compile=False)
    start = {w.name: keras.ops.convert_to_numpy(w) for w in model.weights}
    model.fit(images, labels, batch_size=8, epochs=steps, verbose=0)
    return start, {w.name: keras.ops.convert_to_numpy(w) for w in model.weights}


def test_factor_one_and_equal_decay_is_keras_adamw():
    _, expected = train(keras.optimizers.AdamW(0.01, weight_decay=DECAY))
    start, ours = train(ScaleAdamW(0.01, weight_decay=DECAY, sigma_weight_decay=DECAY))
    assert set(ours) == {"kernel", "bias", "learned_ratio"}
    for name in ours:
        assert np.all(ours[name] != start[name])
        np.testing.assert_allclose(ours[name], expected[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("factor", [0.0, 0.01, 0.3, 2.0])
def test_first_step_of_sigma_scales_with_the_factor(factor):
    options = {"weight_decay": 0.0, "sigma_weight_decay": 0.0}
    start, one = train(ScaleAdamW(0.01, **options), steps=1)
    _, ours = train(ScaleAdamW(0.01, sigma_learning_rate_factor=factor, **options), steps=1)
    step = one["learned_ratio"] - start["learned_ratio"]
    assert abs(step) == pytest.approx(0.01, rel=1e-3)  # Adam's first step is the learning rate
    np.testing.assert_allclose(
        ours["learned_ratio"] - start["learned_ratio"], factor * step, rtol=1e-4, atol=1e-7
    )
    np.testing.assert_array_equal(ours["kernel"], one["kernel"])


def test_decay_of_sigma_is_its_own():
    start, none = train(ScaleAdamW(0.01, weight_decay=DECAY, sigma_weight_decay=0.0), steps=1)
    _, ours = train(
        ScaleAdamW(0.01, weight_decay=DECAY, sigma_weight_decay=0.5, sigma_learning_rate_factor=1),
        steps=1,
    )
    np.testing.assert_array_equal(ours["kernel"], none["kernel"])
    decay = ours["learned_ratio"] - none["learned_ratio"]
    np.testing.assert_allclose(decay, -0.5 * 0.01 * start["learned_ratio"], rtol=1e-4)


def test_excluding_other_weights_from_decay_keeps_sigma_apart():
    optimizer = ScaleAdamW(0.01, weight_decay=DECAY, sigma_weight_decay=0.0)
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    _, ours = train(optimizer, steps=1)
    _, undecayed = train(ScaleAdamW(0.01, weight_decay=0.0, sigma_weight_decay=0.0), steps=1)
    for name in ("kernel", "learned_ratio"):
        np.testing.assert_array_equal(ours[name], undecayed[name])


def test_schedule_applies_to_sigma_too():
    schedule = keras.optimizers.schedules.CosineDecay(0.01, 3, alpha=0.0)
    start, short = train(ScaleAdamW(schedule), steps=3)
    _, long = train(ScaleAdamW(schedule), steps=6)  # the rate is zero from the fourth step on
    assert short["learned_ratio"] != start["learned_ratio"]
    for name in short:
        np.testing.assert_array_equal(long[name], short[name])


@pytest.mark.parametrize(
    "learning_rate", [0.02, keras.optimizers.schedules.CosineDecay(0.01, 10, alpha=1e-3)]
)
def test_config_round_trip(learning_rate):
    optimizer = ScaleAdamW(
        learning_rate,
        weight_decay=0.03,
        sigma_learning_rate_factor=0.1,
        sigma_weight_decay=0.2,
        clipnorm=1.0,
    )
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert type(again) is ScaleAdamW
    assert again.get_config() == optimizer.get_config()
    assert again.get_config()["sigma_learning_rate_factor"] == 0.1
    assert again.get_config()["sigma_weight_decay"] == 0.2


def test_saved_model_goes_on_training_from_the_same_state(tmp_path):
    model = small_network()
    images, labels = np.ones((4, 9, 9, 1), "float32") * np.arange(9)[:, None], np.arange(4)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = ScaleAdamW(0.01, sigma_learning_rate_factor=0.1)
    model.compile(optimizer, loss=loss, jit_compile=False)
    model.fit(images, labels, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for network in (model, again):
        network.fit(images, labels, shuffle=False, verbose=0)
    for old, new in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", ["sigma_learning_rate_factor", "sigma_weight_decay"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_bad_numbers(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be a number >= 0.*{name}={value}"):
        ScaleAdamW(0.01, **{name: value})
