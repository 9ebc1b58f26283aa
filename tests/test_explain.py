"""What the explain functions say, against networks whose answers are known by mathematics."""

import math

import numpy as np
import pytest
from explain_tools import make_small_model, small_config
from helpers import ROUNDING, THREE_LAYERS, assert_rounded

from gdn_keras import GaussDerNetConfig, adapt, build_model
from gdn_keras.explain import (
    activation_maps,
    find_objects,
    localise,
    pool_over_scales,
    receptive_radii,
    scale_contributions,
    scale_shares,
    sigmas_and_fit,
)
from gdn_keras.scale_space import jet_terms


@pytest.fixture(scope="module")
def small_model():
    return make_small_model()


def blob_detector(*, channel_sigmas, input_size=(64, 96), **changes):
    """-sigma^2 Laplacian (class 0, bright blobs) and its negative (class 1, dark blobs).

    Layer 1 is the Laplacian at sigma, lifted far above the ReLU; layer 2 smooths at the same sigma
    and takes the lift away. On a Gaussian blob of standard deviation b the response is greatest
    in its centre, where it is 2 t b^2 A / (b^2 + 2 t)^2 with t = sigma^2 and A the height of the
    blob; over the scales its maximum is at 2 t = b^2.
    """
    lift = 100.0
    model = build_model(
        GaussDerNetConfig(
            input_size=input_size,
            input_channels=1,
            num_classes=2,
            channel_sigmas=channel_sigmas,
            sigma_ratio=1.0,
            widths=(1,),
            zero_order=True,
            padding="edge",
            truncation=1e-6,
            spatial_selection="max",
            scale_pooling="max",
            final_batch_norm=False,
            class_names=("bright", "dark"),
            **changes,
        )
    )
    first = np.zeros((5, 1, 1), "float32")
    names = [term.name for term in jet_terms(2)]
    first[[names.index("xx"), names.index("yy")]] = -2.0  # the factor of these terms is 1/2
    second = np.zeros((6, 1, 2), "float32")
    second[0, 0] = 1.0, -1.0  # zero order
    model.get_layer("jet_1").kernel.assign(first)
    norm = model.get_layer("norm_1")
    norm.moving_variance.assign([1 - norm.epsilon])
    norm.beta.assign([lift])
    model.get_layer("jet_2").kernel.assign(second)
    model.get_layer("jet_2").bias.assign([-lift, lift])
    return model


def blob(size, *, row, column, std, height=100.0):
    y, x = np.ogrid[: size[0], : size[1]]
    return height * np.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * std**2))[..., None]


# --- activation maps ---


def test_maps_have_every_pixel_whatever_the_selection_and_density(small_model):
    coarse = adapt(small_model, sampling_density=1.0)
    images = np.random.default_rng(7).uniform(0, 255, (2, 40, 40, 1))
    maps = activation_maps(coarse, images)
    assert maps.shape == (2, 3, 40, 40, 3) and maps.dtype == np.float32
    assert_rounded(maps, activation_maps(small_model, images))


def test_centre_of_the_maps_is_what_the_network_pools(small_model):
    images = np.random.default_rng(7).uniform(0, 255, (2, 40, 40, 1)).astype("float32")
    maps = activation_maps(small_model, images)
    pooled = maps[:, :, 19:21, 19:21].mean(axis=(2, 3)).mean(axis=1)
    assert_rounded(pooled, small_model.predict(images, verbose=0))


def test_maps_of_one_scale_channel_have_the_same_axes(small_model):
    single = adapt(small_model, channel_sigmas=(1.0,))
    assert activation_maps(single, np.zeros((2, 40, 40, 1))).shape == (2, 1, 40, 40, 3)


def test_activation_maps_move_with_the_object(small_model):
    image = np.zeros((1, 64, 64, 1))
    image[0, 22:30, 24:34, 0] = np.random.default_rng(7).uniform(0, 255, (8, 10))
    moved = np.roll(image, (5, -3), axis=(1, 2))
    maps, moved_maps = activation_maps(small_model, np.concatenate([image, moved]))
    far = slice(16, 48)  # the borders reach 15 pixels into the maps: 3 layers of radius 4 + 1
    expected = np.roll(maps, (5, -3), axis=(1, 2))[:, far, far]
    assert_rounded(moved_maps[:, far, far], expected)
    assert np.ptp(maps[:, far, far], axis=(1, 2)).max() > 0.1  # there is something to move


def test_wrong_images_are_refused(small_model):
    with pytest.raises(ValueError, match=r"`images` must be \(image, height, width, 1\).*\(40, 40"):
        activation_maps(small_model, np.zeros((40, 40, 1)))
    with pytest.raises(ValueError, match=r"Received: shape \(2, 40, 40, 3\)"):
        scale_contributions(small_model, np.zeros((2, 40, 40, 3)))
    with pytest.raises(ValueError, match=r"`image` .*Received: shape \(1, 40, 40, 1\)"):
        localise(small_model, np.zeros((1, 40, 40, 1)))


# --- scale channels ---


def test_shares_by_hand():
    logits = np.array([[[1.0, 0.0], [3.0, 0.0], [0.0, 3.5]], [[2.0, 0.0], [2.0, 1.0], [1.0, 0.0]]])
    np.testing.assert_allclose(scale_shares(logits, pooling="max"), [[0, 0, 1], [0.5, 0.5, 0]])
    np.testing.assert_allclose(
        scale_shares(logits, pooling="average"), [[0.25, 0.75, 0], [0.4, 0.4, 0.2]]
    )
    e = np.exp(-1.0)
    np.testing.assert_allclose(
        scale_shares(logits, pooling="logsumexp", classes=[0, 0])[1],
        np.array([1, 1, e]) / (2 + e),
    )


def test_outputs_below_zero_contribute_nothing_to_an_average():
    logits = np.array([[[-1.0], [1.0]], [[-1.0], [-2.0]]])
    np.testing.assert_allclose(scale_shares(logits, pooling="average"), [[0, 1], [0.5, 0.5]])


@pytest.mark.parametrize("pooling", ["max", "average", "logsumexp"])
def test_pooling_and_contributions_are_those_of_the_network(small_model, pooling):
    model = adapt(small_model, scale_pooling=pooling)
    images = np.random.default_rng(7).uniform(0, 255, (4, 40, 40, 1)).astype("float32")
    shares = scale_contributions(model, images)
    assert shares.shape == (4, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    scale_logits = model.scale_logits_model().predict(images, verbose=0)
    logits = model.predict(images, verbose=0)
    assert_rounded(pool_over_scales(scale_logits, pooling=pooling), logits)
    expected = scale_shares(scale_logits, pooling=pooling, classes=logits.argmax(axis=1))
    assert_rounded(shares, expected)


def test_wrong_pooling_is_refused():
    for function in (scale_shares, pool_over_scales):
        with pytest.raises(ValueError, match="`pooling` must be .* Received: pooling='mean'"):
            function(np.zeros((1, 2, 3)), pooling="mean")
        with pytest.raises(ValueError, match=r"`scale_logits` must be .*Received: shape \(2, 3\)"):
            function(np.zeros((2, 3)), pooling="max")


# --- objects ---


@pytest.fixture(scope="module")
def detector():
    return blob_detector(channel_sigmas=tuple(2.0 ** (n / 2) for n in range(-1, 5)))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_blob_is_found_in_its_centre_at_its_scale(detector, n):
    sigma = 2.0 ** (n / 2)
    std = math.sqrt(2) * sigma
    image = blob((64, 96), row=30, column=41, std=std)
    (found,) = localise(detector, image)
    assert (found.row, found.column, found.class_name) == (30, 41, "bright")
    assert found.sigma == sigma and detector.config.channel_sigmas[found.channel] == sigma
    # 2 t b^2 A / (b^2 + 2 t)^2 = A / 4 at the best scale, A in units of 255; sampling and, at the
    # finest scale, the difference masks take a little of it
    assert found.response == pytest.approx(100 / 255 / 4, rel=0.1 if n == 0 else 0.03)


def test_the_strongest_response_is_the_largest_logit(detector):
    image = blob((64, 96), row=20, column=50, std=2.0)
    (found,) = localise(detector, image)
    logits = detector.predict(image[None].astype("float32"), verbose=0)[0]
    assert found.class_index == logits.argmax()
    assert found.response == pytest.approx(logits.max(), rel=THREE_LAYERS * ROUNDING)


def test_two_objects_are_found_with_their_class_place_and_size(detector):
    image = 128 + blob((64, 96), row=30, column=25, std=4.0)
    image -= blob((64, 96), row=44, column=75, std=2.0, height=80)
    large, small = localise(detector, image, max_objects=5)
    assert (large.row, large.column, large.class_name) == (30, 25, "bright")
    assert (small.row, small.column, small.class_name) == (44, 75, "dark")
    assert large.sigma / small.sigma == pytest.approx(2)
    assert large.radius / small.radius == pytest.approx(2)
    assert large.response > small.response
    assert localise(detector, image) == [large]
    assert localise(detector, image, max_objects=5, relative_threshold=0.95) == [large]


def test_enlarging_by_two_moves_the_scale_by_two_channels(detector):
    small = localise(detector, blob((64, 96), row=32, column=40, std=2.0))[0]
    large = localise(detector, blob((128, 192), row=64, column=80, std=4.0))[0]
    assert large.channel - small.channel == 2
    assert large.response == pytest.approx(small.response, rel=0.05)


def test_suppression_by_hand():
    maps = np.zeros((2, 20, 30, 2))
    maps[0, 5, 5, 1] = 1.0
    maps[1, 5, 9, 0] = 0.9  # 4 away: within the radius 6 of its own scale
    maps[0, 5, 16, 0] = 0.8  # 11 away
    maps[0, 5, 18, 1] = 0.7  # 2 away from that, within 3
    maps[0, 15, 25, 1] = 0.4
    options = {"radii": [3.0, 6.0], "max_objects": 9}
    assert find_objects(maps, **options) == [(0, 5, 5, 1, 1.0), (0, 5, 16, 0, 0.8)]
    assert find_objects(maps, **options, relative_threshold=0.3)[2:] == [(0, 15, 25, 1, 0.4)]
    maps[0, 4:7, 4:7, 0] = 0.95  # a wide peak is one peak
    maps[0, 5, 8:13, 0] = np.linspace(0.7, 0.6, 5)  # a slope is none
    assert find_objects(maps, **options) == [(0, 5, 5, 1, 1.0), (0, 5, 16, 0, 0.8)]


@pytest.mark.parametrize("everywhere", [0.0, -2.0, 3.0])
def test_where_nothing_stands_out_nothing_is_found(everywhere):
    maps = np.full((2, 6, 7, 2), everywhere)
    assert find_objects(maps, radii=[1.0, 2.0], max_objects=5) == []
    maps[1, 2, 1, 1] = everywhere + 1.0
    threshold = 0.9 if everywhere > 0 else 0.0  # zero or less is no object, whatever is asked for
    found = find_objects(maps, radii=[1.0, 2.0], max_objects=5, relative_threshold=threshold)
    assert found == ([] if everywhere < 0 else [(1, 2, 1, 1, everywhere + 1.0)])


@pytest.mark.parametrize("grey", [0, 200])
def test_nothing_is_found_in_an_image_of_one_grey(small_model, grey):
    """Batch norm makes the maps positive, and without borders they are the same everywhere."""
    model = adapt(small_model, padding="reflect")
    image = np.full((30, 40, 1), grey)
    assert activation_maps(model, image[None]).min(axis=(0, 1, 2, 3)).max() > 0.1
    assert localise(model, image, max_objects=5) == []


def test_radii_must_fit():
    with pytest.raises(ValueError, match="`radii` .*Received: .*2 radii"):
        find_objects(np.zeros((1, 4, 4, 2)), radii=[1.0, 2.0])


def test_sigma_is_the_learned_one():
    """Channel factors 1, √2, 2 times a ratio that moved from 1 to √2 in both layers."""
    factors = (1.0, math.sqrt(2), 2.0)
    model = blob_detector(channel_sigmas=factors, learned_sigmas=True, sigma_range=(0.5, 3.0))
    for layer in ("jet_1", "jet_2"):
        model.get_layer(layer).ratio.assign(math.sqrt(2))
    (found,) = localise(model, blob((64, 96), row=30, column=41, std=2 * math.sqrt(2)))
    assert (found.row, found.column) == (30, 41)
    # a blob of this size is best at sigma 2, which is now the middle channel
    assert found.channel == 1 and model.config.channel_sigmas[1] == math.sqrt(2)
    assert found.sigma == pytest.approx(2.0)
    assert found.radius == pytest.approx(2 * math.hypot(2.0, 2.0))


def test_radii_add_the_variances_of_the_layers(small_model):
    first = math.sqrt(1 + 1.2**2 + 1.2**4)
    np.testing.assert_allclose(
        receptive_radii(small_model, extent=3.0), 3 * first * np.array([0.5, 2**-0.5, 1.0])
    )


# --- scales ---


def test_learned_sigmas_against_the_fit():
    model = build_model(small_config(learned_sigmas=True, channel_sigmas=(1.0, 2.0)))
    for layer, ratio in ((1, 0.5), (2, 1.0), (3, 1.0)):
        model.get_layer(f"jet_{layer}").ratio.assign(ratio)
    result = sigmas_and_fit(model, channel=1)
    np.testing.assert_allclose(result.sigmas, [1.0, 2.0, 2.0])
    # least squares in log2: 0, 1, 1 has slope 1/2 and mean 2/3
    assert result.ratio == pytest.approx(math.sqrt(2))
    assert result.sigma_0 == pytest.approx(2 ** (2 / 3 - 1 / 2))
    np.testing.assert_allclose(result.fitted, result.sigma_0 * result.ratio ** np.arange(3))


def test_fixed_sigmas_are_their_own_fit(small_model):
    result = sigmas_and_fit(small_model, channel=2)
    np.testing.assert_allclose(result.sigmas, [1.0, 1.2, 1.44])
    np.testing.assert_allclose(result.fitted, result.sigmas)
