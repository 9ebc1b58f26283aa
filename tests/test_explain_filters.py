"""The filters of a layer are its impulse response, and the derivatives in them are recognised."""

import math

import keras
import numpy as np
import pytest
from explain_tools import make_small_model, small_config

from gdn_keras import adapt, build_model
from gdn_keras.explain import (
    KINDS,
    closest_derivatives,
    derivative_label,
    effective_filters,
    strongest_pairs,
)
from gdn_keras.scale_space import DISCRETISATIONS, METHODS, directional_weights, jet_terms


@pytest.fixture(scope="module")
def small_model():
    return make_small_model()


@pytest.mark.parametrize("jet_order", [2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_filters_are_the_impulse_response_of_the_layer(method, jet_order):
    compensate = DISCRETISATIONS[method].integrated
    model = build_model(
        small_config(
            method=method,
            jet_order=jet_order,
            channel_sigmas=(1.0, 1.5),
            zero_order=True,
            compensate_integration=compensate,
        )
    )
    layer, channel = 2, 1
    pairs = np.array([(0, 0), (3, 1), (2, 4)])
    filters = effective_filters(model, layer=layer, pairs=pairs, channel=channel)
    jet = model.get_layer("jet_2")
    alone = type(jet).from_config(
        {**jet.get_config(), "sigma": jet.sigma[channel], "plans": None, "name": "alone"}
    )
    side = filters.shape[1] + 10
    impulses = np.zeros((4, side, side, 4), "float32")  # one image per input channel
    impulses[range(4), side // 2, side // 2, range(4)] = 1
    alone.build(impulses.shape)
    alone.kernel.assign(jet.kernel)
    responses = keras.ops.convert_to_numpy(alone(impulses))
    for image, (c_in, c_out) in zip(filters, pairs, strict=True):
        turned = responses[c_in, ::-1, ::-1, c_out]  # correlation: the response is the mirror image
        np.testing.assert_allclose(np.pad(image, 5), turned, atol=2e-6)


def set_filter(model, coefficients, *, layer=1):
    """All filters of a layer from coefficients of the derivatives themselves, {name: value}."""
    jet = model.get_layer(f"jet_{layer}")
    terms = jet_terms(model.config.jet_order)
    values = np.array([coefficients.get(t.name, 0.0) / t.factor for t in terms], "float32")
    jet.kernel.assign(np.broadcast_to(values[:, None, None], jet.kernel.shape))


@pytest.mark.parametrize("degrees", [0, 20, 59.4, 90, 135, 179.7])
@pytest.mark.parametrize("order, sign", [(1, 1), (1, -1), (2, 1), (2, -1), (3, 1), (3, -1)])
def test_a_directional_derivative_is_recognised(order, sign, degrees):
    model = build_model(small_config(jet_order=max(order, 2), channel_sigmas=(1.3,)))
    names = [t.name for t in jet_terms(3) if t.order == order]
    weights = sign * directional_weights(order, math.radians(degrees))
    set_filter(model, dict(zip(names, weights, strict=True)))
    closest = closest_derivatives(model, layer=1)
    assert closest.kind.shape == closest.angle.shape == closest.correlation.shape == (1, 4)
    assert (closest.kind == KINDS[order - 1]).all()
    turn = (np.degrees(closest.angle) - degrees + 90) % 180 - 90  # 180 is 0, up to sign
    np.testing.assert_allclose(turn, 0, atol=0.05)
    expected = (
        sign if abs(closest.angle[0, 0] - math.radians(degrees)) < 1 else sign * (-1) ** order
    )
    np.testing.assert_allclose(closest.correlation, expected, atol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_laplacian_is_recognised(small_model, sign):
    model = adapt(small_model)
    set_filter(model, {"xx": sign, "yy": sign})
    closest = closest_derivatives(model, layer=1, channel=2)
    assert (closest.kind == "laplacian").all() and np.isnan(closest.angle).all()
    np.testing.assert_allclose(closest.correlation, sign, atol=1e-12)


def test_correlations_are_those_of_the_images(small_model):
    pairs = np.array([(i, o) for i in range(4) for o in range(5)])
    filters = effective_filters(small_model, layer=2, pairs=pairs, channel=1)
    closest = closest_derivatives(small_model, layer=2, channel=1)
    model = adapt(small_model)
    for image, (i, o) in zip(filters, pairs, strict=True):
        if closest.kind[i, o] == "laplacian":
            weights, names = (1.0, 1.0), ("xx", "yy")
        else:
            order = KINDS.index(closest.kind[i, o]) + 1
            weights = directional_weights(order, closest.angle[i, o])
            names = [t.name for t in jet_terms(2) if t.order == order]
        set_filter(model, dict(zip(names, weights, strict=True)), layer=2)
        (ideal,) = effective_filters(model, layer=2, pairs=[(i, o)], channel=1)
        correlation = (image * ideal).sum() / np.linalg.norm(image) / np.linalg.norm(ideal)
        assert closest.correlation[i, o] == pytest.approx(correlation, abs=1e-6)
    assert np.abs(closest.correlation).max() <= 1 and np.abs(closest.correlation).min() > 0.3


def test_no_other_direction_is_closer(small_model):
    model = adapt(small_model)
    closest = closest_derivatives(small_model, layer=1, channel=2)
    filters = effective_filters(small_model, layer=1, pairs=[(0, o) for o in range(4)], channel=2)
    for order in (1, 2):
        for degrees in range(0, 180, 7):
            names = [t.name for t in jet_terms(2) if t.order == order]
            weights = directional_weights(order, math.radians(degrees))
            set_filter(model, dict(zip(names, weights, strict=True)))
            (ideal,) = effective_filters(model, layer=1, pairs=[(0, 0)], channel=2)
            norms = np.linalg.norm(filters, axis=(1, 2)) * np.linalg.norm(ideal)
            correlations = np.abs((filters * ideal).sum(axis=(1, 2)) / norms)
            assert (correlations <= np.abs(closest.correlation[0]) + 1e-6).all()


def test_a_filter_of_nothing_correlates_with_nothing(small_model):
    model = adapt(small_model)
    set_filter(model, {})
    np.testing.assert_array_equal(closest_derivatives(model, layer=1).correlation, 0)


def test_strongest_pairs_have_the_largest_norms(small_model):
    pairs = strongest_pairs(small_model, layer=2, count=3)
    everything = np.array([(i, o) for i in range(4) for o in range(5)])
    norms = np.linalg.norm(effective_filters(small_model, layer=2, pairs=everything), axis=(1, 2))
    norms = norms.reshape(4, 5)
    assert pairs.shape == (3, 2) and len(set(pairs[:, 1])) == 3
    assert (norms.argmax(axis=0)[pairs[:, 1]] == pairs[:, 0]).all()
    np.testing.assert_allclose(norms[tuple(pairs.T)], np.sort(norms.max(axis=0))[:-4:-1])


def test_wrong_filters_are_refused(small_model):
    with pytest.raises(ValueError, match="`layer` must be from 1 to 3. Received: layer=0"):
        closest_derivatives(small_model, layer=0)
    with pytest.raises(ValueError, match="`channel` must be from 0 to 2. Received: channel=3"):
        strongest_pairs(small_model, layer=1, channel=3)
    with pytest.raises(ValueError, match=r"`pairs` must be .*\(pair, 2\). .*shape \(2,\)"):
        effective_filters(small_model, layer=1, pairs=(0, 1))


def test_labels():
    assert derivative_label("first", math.radians(29.6)) == "∂ 30°"
    assert derivative_label("second", math.radians(179.8)) == "∂² 0°"
    assert derivative_label("third", 0.0) == "∂³ 0°"
    assert derivative_label("fourth", 0.0) == "∂⁴ 0°"
    assert derivative_label("laplacian", math.nan) == "∇²"
    with pytest.raises(ValueError, match="Received: kind='fifth'"):
        derivative_label("fifth", 0.0)
