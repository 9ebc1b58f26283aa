"""The network through Keras' doors: saving, precision, compilation, training."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import (
    assert_rounded,
    evaluate,
    half,
    needs_half_precision,
    random_images,
    small_config,
    small_model,
)

from gdn_keras import GaussDerNet, ScaleAdamW, adapt, build_model
from gdn_keras.model import channel_plans, copy_weights
from gdn_keras.zoo.classifier import ImageClassifier


def test_every_layer_is_named():
    names = [layer.name for layer in small_model(final_batch_norm=False).layers]
    expected = ["image", "pixels", "jet_1", "norm_1", "relu_1", "jet_2", "norm_2", "relu_2"]
    expected += ["jet_3", "relu_3", "selection", "scale_dropout", "pooling"]
    assert names == expected


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 3, "sampling_density": 0.7, "input_size": (30, 31), "scale_dropout": 0.2},
        {"learned_sigmas": True, "method": "integrated_derivative", "spatial_selection": "max"},
    ],
)
def test_saved_models_are_bit_identical(changes, tmp_path):
    model = small_model(**changes)
    images = random_images(model.config)
    expected = evaluate(model, images)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is GaussDerNet
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(evaluate(loaded, images), expected)

    again = GaussDerNet.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    model.save_weights(tmp_path / "model.weights.h5")
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(evaluate(again, images), expected)

    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(evaluate(clone, images), expected)
    assert type(clone) is GaussDerNet
    assert clone.get_config() == model.get_config()


def test_a_clone_of_a_classifier_is_one():
    model = ImageClassifier(small_config(), dataset="stir_emoji", train_sizes="mid")
    clone = keras.models.clone_model(model)
    assert type(clone) is ImageClassifier and clone.get_config() == model.get_config()
    smaller = keras.models.clone_model(adapt(clone, scale_pooling="average"))
    assert (smaller.dataset, smaller.train_sizes) == ("stir_emoji", "mid")
    assert smaller.config.scale_pooling == "average"


def test_weights_fit_networks_with_and_without_dropout(tmp_path):
    with_dropout, without = small_model(scale_dropout=0.3), build_model(small_config())
    with_dropout.save_weights(tmp_path / "a.weights.h5")
    without.load_weights(tmp_path / "a.weights.h5")
    images = random_images(without.config)
    np.testing.assert_array_equal(evaluate(without, images), evaluate(with_dropout, images))


def test_compiled_model_with_our_optimizer_survives_saving(tmp_path):
    model = small_model(learned_sigmas=True, scale_dropout=0.3)
    model.compile(
        ScaleAdamW(0.01, sigma_learning_rate_factor=0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    images, labels = random_images(model.config, batch=3), np.arange(3)
    model.fit(images, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.optimizer) is ScaleAdamW
    np.testing.assert_array_equal(evaluate(loaded, images), evaluate(model, images))


@pytest.mark.parametrize(
    "policy", [half("mixed_float16"), half("mixed_bfloat16"), half("float16"), "float64"]
)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"jet_order": 3, "method": "sampled_derivative"},
        {"learned_sigmas": True, "zero_order": True},
        {"learned_sigmas": True, "jet_order": 3, "method": "integrated_derivative"},
    ],
)
def test_precision_policies_are_finite_and_close(changes, policy):
    model = small_model(**changes)
    images = random_images(model.config)
    expected = evaluate(model, images)
    other = build_model(model.config, dtype=policy)
    copy_weights(model, other)
    logits = evaluate(other, images)
    assert logits.dtype == "float32"
    tolerance = {"mixed_bfloat16": 0.05, "float64": 1e-5}.get(policy, 0.01)
    np.testing.assert_allclose(logits, expected, atol=tolerance * np.abs(expected).max())
    assert GaussDerNet.from_config(other.get_config()).policy.name == policy


@needs_half_precision
def test_half_precision_training_step_is_finite():
    model = build_model(small_config(learned_sigmas=True), dtype="mixed_float16")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(ScaleAdamW(0.01), loss=loss, jit_compile=False)
    before = [keras.ops.convert_to_numpy(w) for w in model.trainable_weights]
    model.fit(random_images(model.config, batch=6), np.arange(6) % 3, epochs=3, verbose=0)
    for old, weight in zip(before, model.trainable_weights, strict=True):
        new = keras.ops.convert_to_numpy(weight)
        assert np.all(np.isfinite(new)) and not np.array_equal(new, old)


@pytest.mark.parametrize("jet_order", [2, 3])
def test_eager_graph_symbolic_and_predict_agree(jet_order):
    model = small_model(jet_order=jet_order)
    images = random_images(model.config, batch=5)
    eager = evaluate(model, images)
    graph = tf.function(model)(tf.constant(images))
    symbolic = model(keras.Input(images.shape[1:]))
    assert symbolic.shape == (None, 3) and symbolic.dtype == "float32"
    assert_rounded(graph, eager)
    assert_rounded(model.predict(images, batch_size=2, verbose=0), eager)


def test_xla_agrees():
    model = small_model(learned_sigmas=True, channel_sigmas=(0.7,), widths=(4,))
    images = random_images(model.config)
    compiled = tf.function(model, jit_compile=True)(tf.constant(images))
    assert_rounded(compiled, evaluate(model, images))


@pytest.mark.parametrize("pooling", ["max", "average", "logsumexp"])
@pytest.mark.parametrize("selection", ["centre", "max"])
def test_batches_of_one_and_of_none(selection, pooling):
    model = small_model(spatial_selection=selection, scale_pooling=pooling)
    images = random_images(model.config, batch=3)
    together = evaluate(model, images)
    for index in range(3):
        alone = evaluate(model, images[index : index + 1])
        assert_rounded(alone[0], together[index])
    assert evaluate(model, images[:0]).shape == (0, 3)
    assert evaluate(model.scale_logits_model(), images[:0]).shape == (0, 2, 3)


def test_a_list_of_one_batch_is_that_batch():
    model = small_model()
    images = random_images(model.config)
    expected = model.predict(images, verbose=0)
    np.testing.assert_array_equal(model.predict([images], verbose=0), expected)
    np.testing.assert_array_equal(model([images]), model(images))
    symbolic = keras.Input(images.shape[1:])
    np.testing.assert_allclose(
        keras.Model(symbolic, model([symbolic])).predict(images, verbose=0), expected, atol=1e-5
    )


def test_a_list_of_images_is_no_batch():
    model = small_model()
    images = random_images(model.config)
    for wrong in (list(images), [images[0]], [images, images]):
        for use in (model, model.predict_on_batch):
            with pytest.raises(ValueError, match=f"np.stack.*Received: a list of {len(wrong)}"):
                use(wrong)


def test_channels_in_front_are_told():
    model = small_model()
    images = random_images(model.config)
    with pytest.raises(ValueError, match=r"Received: .*np.moveaxis\(images, 1, -1\)"):
        model(np.moveaxis(images, -1, 1))


def test_whole_numbers_are_pixels_too():
    model = small_model()
    images = random_images(model.config).round()
    np.testing.assert_array_equal(evaluate(model, images.astype("uint8")), evaluate(model, images))


def test_every_intermediate_is_available():
    model = small_model(spatial_selection="max", scale_pooling="max")
    images = random_images(model.config)
    for layer, width in enumerate(model.config.layer_widths, start=1):
        maps = evaluate(model.maps_model(layer), images)
        assert [m.shape for m in maps] == 2 * [(2, 13, 12, width)]
        assert all((m >= 0).all() and m.max() > 0 for m in maps)
    scale_logits = evaluate(model.scale_logits_model(), images)
    np.testing.assert_array_equal(
        scale_logits, np.stack([m.max(axis=(1, 2)) for m in maps], axis=1)
    )
    np.testing.assert_array_equal(evaluate(model, images), scale_logits.max(axis=1))


def test_maps_of_one_scale_channel_are_no_list():
    single = small_model(channel_sigmas=(1.0,), spatial_selection="max")
    assert evaluate(single.maps_model(), random_images(single.config)).shape == (2, 13, 12, 3)


@pytest.mark.parametrize("wrong", [0, 4, -1])
def test_layers_that_there_are_not_have_no_maps(wrong):
    with pytest.raises(ValueError, match=f"`layer` must be from 1 to 3.*layer={wrong}"):
        small_model().maps_model(wrong)


def test_plans_of_a_config():
    config = small_config(input_size=(60, 60))
    whole = channel_plans(config.replace(window=False))
    assert all(layer.output_size == (60, 60) for plan in whole for layer in plan.layers)
    window = channel_plans(config)
    first, second = (plan.layers[0].rows.window.count for plan in window)
    assert first < second < 60


def test_what_is_frozen_stays_frozen(tmp_path):
    """After saving and loading, with the optimizer where it was; and in adapted networks."""
    model = build_model(small_config())
    for layer in model.layers:
        layer.trainable = layer.name in ("jet_3", "norm_3")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=loss)
    images, labels = random_images(model.config, batch=6), np.arange(6) % 3
    model.fit(images, labels, verbose=0)
    model.save(tmp_path / "frozen.keras")
    loaded = keras.saving.load_model(tmp_path / "frozen.keras")
    names = [v.path for v in model.trainable_variables]
    assert len(names) == 3 and [v.path for v in loaded.trainable_variables] == names
    assert int(loaded.optimizer.iterations) == 1
    before = {layer.name: layer.get_weights() for layer in loaded.layers if layer.weights}
    loaded.fit(images, labels, verbose=0)
    after = {name: loaded.get_layer(name).get_weights() for name in before}
    for name in before:
        same = all(map(np.array_equal, before[name], after[name]))
        assert same == (name not in ("jet_3", "norm_3")), name
    adapted = adapt(model, input_size=(20, 20))
    assert adapted.frozen == model.frozen and len(adapted.trainable_variables) == 3
    assert "frozen" not in build_model(small_config()).get_config()
    model.trainable = False  # all layers, also those that the next networks do not have
    for changes in ({"spatial_selection": "none"}, {"activation": "gelu"}):
        assert not adapt(model, **changes).trainable_variables


def test_training_lowers_the_loss_and_moves_the_statistics():
    keras.utils.set_random_seed(0)
    model = build_model(small_config(scale_dropout=0.2), seed=1)
    images = random_images(model.config, batch=24)
    labels = np.arange(24) % 3
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(ScaleAdamW(0.02), loss=loss, jit_compile=False)
    losses = model.fit(images, labels, batch_size=24, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    for k in (1, 2, 3):
        moving_mean = keras.ops.convert_to_numpy(model.get_layer(f"norm_{k}").moving_mean)
        assert np.abs(moving_mean).max() > 0.001
