"""Laws of the kernels, masks and scale levels, stated as equations."""

import math

import numpy as np
import pytest
from scipy.ndimage import correlate

from gdn_keras.scale_space import (
    DISCRETISATIONS,
    METHODS,
    channel_scales,
    derivative_kernel,
    difference_mask,
    directional_weights,
    fit_geometric,
    jet_masks,
    jet_terms,
    mask_2d,
    scale_levels,
    scale_normalisation,
    smoothing_kernel,
)

ORDERS = (0, 1, 2, 3, 4)


def moment(kernel, power, centre=None):
    centre = (len(kernel) - 1) / 2 if centre is None else centre
    return ((np.arange(len(kernel)) - centre) ** power * kernel).sum()


def generous(sigma):
    return math.ceil(9 * sigma) + 15


# --- smoothing


@pytest.mark.parametrize("sigma, other", [(0.1, 0.3), (0.5, 1.0), (1.0, 2.0), (3.0, 40.0)])
def test_smoothing_twice_adds_the_variances(sigma, other):
    first, second = (smoothing_kernel(s, radius=generous(s)) for s in (sigma, other))
    twice = np.convolve(first, second)
    once = smoothing_kernel(math.hypot(sigma, other), radius=generous(sigma) + generous(other))
    np.testing.assert_allclose(twice, once, rtol=0, atol=1e-14)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 3.0, 50.0])
def test_discrete_gaussian_has_sum_one_and_variance_sigma_squared(sigma):
    kernel = smoothing_kernel(sigma, radius=generous(sigma))
    assert kernel.sum() == pytest.approx(1, abs=1e-13)
    assert moment(kernel, 2) == pytest.approx(sigma**2, rel=1e-11)
    assert (kernel > 0).all()


@pytest.mark.parametrize("sigma", [1.0, 3.0, 50.0])
@pytest.mark.parametrize("method", [m for m in METHODS if m != "discrete"])
def test_variance_of_the_other_methods(method, sigma):
    # From sigma = 1 on, aliasing is below 2 exp(-2 pi**2 sigma**2) times a few powers of sigma.
    extra = 1 / 12 if DISCRETISATIONS[method].integrated else 0
    kernel = smoothing_kernel(sigma, method=method, radius=generous(sigma))
    assert kernel.sum() == pytest.approx(1, abs=1e-8)
    assert moment(kernel, 2) == pytest.approx(sigma**2 + extra, abs=1e-6, rel=1e-11)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0, 20.0])
def test_derivative_by_scale_is_half_the_second_difference(sigma):
    # dT/ds = 1/2 delta_xx T, with s = sigma**2; central difference in s
    radius, s = generous(sigma), sigma**2
    step = 1e-4 * s
    ahead, behind = (smoothing_kernel(math.sqrt(s + d), radius=radius) for d in (step, -step))
    by_scale = (ahead - behind) / (2 * step)
    second = derivative_kernel(sigma, 2, radius=radius)
    np.testing.assert_allclose(by_scale, second / 2, rtol=0, atol=1e-7 * np.abs(second).max())


@pytest.mark.parametrize("sigma", [0.5, 0.7, 1.0, 3.0, 50.0])
def test_half_way_discrete_gaussian_keeps_sum_mean_and_variance(sigma):
    kernel = smoothing_kernel(sigma, offset=0.5, radius=generous(sigma))
    n = np.arange(-generous(sigma) + 1, generous(sigma) + 1)
    assert len(kernel) == len(n)
    assert kernel.sum() == pytest.approx(1, abs=1e-13)
    assert (n * kernel).sum() == pytest.approx(0.5, abs=1e-12)
    assert ((n - 0.5) ** 2 * kernel).sum() == pytest.approx(sigma**2, rel=1e-11)
    np.testing.assert_array_equal(kernel, kernel[::-1])


def test_half_way_discrete_gaussian_at_its_smallest_scale_is_the_mean_of_two():
    np.testing.assert_array_equal(smoothing_kernel(0.5, offset=0.5), [0.5, 0.5])
    np.testing.assert_array_equal(smoothing_kernel(0.5, offset=0.5, radius=2), [0, 0.5, 0.5, 0])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", METHODS)
def test_weights_are_finite_at_the_ends_of_the_allowed_range(method, order):
    for sigma in (0.001, 0.01, 2000.0, 10000.0):
        assert np.isfinite(derivative_kernel(sigma, order, method=method)).all()
        row = DISCRETISATIONS[method]
        if order in row.orders(4) and sigma >= row.lowest_half_way:
            assert np.isfinite(derivative_kernel(sigma, order, method=method, offset=0.5)).all()
    np.testing.assert_allclose(
        smoothing_kernel(0.001, method="normalised", offset=0.5, radius=2), [0, 0.5, 0.5, 0]
    )


@pytest.mark.parametrize("sigma", [1.0, 3.0, 50.0])
@pytest.mark.parametrize("method", [m for m in METHODS if m != "discrete"])
def test_half_way_kernels_of_the_other_methods(method, sigma):
    extra = 1 / 12 if DISCRETISATIONS[method].integrated else 0
    kernel = smoothing_kernel(sigma, method=method, offset=0.5, radius=generous(sigma))
    assert len(kernel) == 2 * generous(sigma)
    assert kernel.sum() == pytest.approx(1, abs=1e-8)
    assert moment(kernel, 1) == pytest.approx(0, abs=1e-12)
    assert moment(kernel, 2) == pytest.approx(sigma**2 + extra, abs=1e-6, rel=1e-11)


@pytest.mark.parametrize("sigma", [0.3, 1.3, 20.0])
@pytest.mark.parametrize("order", ORDERS)
def test_half_way_derivatives_are_values_and_integrals_at_half_integers(order, sigma):
    def derivative(x):  # of the Gaussian, times (-1)**order for correlation
        u = x / sigma
        hermite = (u**0, u, u**2 - 1, u**3 - 3 * u, u**4 - 6 * u**2 + 3)[order]
        return hermite * np.exp(-(u**2) / 2) / (math.sqrt(2 * math.pi) * sigma ** (order + 1))

    radius = generous(sigma)
    n = np.arange(-radius + 1, radius + 1)
    options = {"offset": 0.5, "radius": radius}
    sampled = derivative_kernel(sigma, order, method="sampled_derivative", **options)
    np.testing.assert_allclose(sampled, derivative(n - 0.5), rtol=1e-12, atol=1e-15)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    integral = derivative(n[:, None] - 0.5 + nodes / 2) @ weights / 2
    integrated = derivative_kernel(sigma, order, method="integrated_derivative", **options)
    np.testing.assert_allclose(integrated, integral, rtol=0, atol=1e-13 * max(1, sigma**-order))


@pytest.mark.parametrize("sigma", [1.0, 3.0, 50.0])
@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("method", ["integrated", "integrated_derivative"])
def test_compensated_integrated_kernels_have_variance_sigma_squared(method, offset, sigma):
    kernel = smoothing_kernel(
        sigma, method=method, offset=offset, radius=generous(sigma), compensate_integration=True
    )
    assert moment(kernel, 2) == pytest.approx(sigma**2, abs=1e-6, rel=1e-11)
    shrunk = smoothing_kernel(
        math.sqrt(sigma**2 - 1 / 12), method=method, offset=offset, radius=generous(sigma)
    )
    np.testing.assert_array_equal(kernel, shrunk)


# --- derivatives


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", METHODS)
def test_kernels_are_even_or_odd(method, order):
    for sigma in (0.1, 0.6, 1.0, 11.0, 50.0):
        kernel = derivative_kernel(sigma, order, method=method, radius=generous(sigma))
        mirrored = (-1) ** order * kernel[::-1]
        if order in DISCRETISATIONS[method].orders(4):
            np.testing.assert_array_equal(kernel, mirrored)
        else:  # the sums of a convolution are rounded from left to right
            np.testing.assert_allclose(kernel, mirrored, rtol=0, atol=1e-15)
        if not DISCRETISATIONS[method].hybrid:
            half_way = derivative_kernel(sigma, order, method=method, offset=0.5, radius=9)
            np.testing.assert_array_equal(half_way, (-1) ** order * half_way[::-1])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 7.0, 50.0])
@pytest.mark.parametrize("method", ["discrete", "normalised", "integrated"])
def test_moments_are_exact_for_smoothing_with_sum_one_and_differences(method, sigma, order):
    # sum n**k w_k[n] = k!, and the moments below k vanish: exact on polynomials up to degree k.
    kernel = derivative_kernel(sigma, order, method=method, radius=generous(sigma))
    scale = np.abs(kernel) @ np.abs(np.arange(len(kernel)) - len(kernel) // 2) ** order
    assert moment(kernel, order) == pytest.approx(math.factorial(order), abs=1e-11 * scale)
    for lower in range(order):
        assert moment(kernel, lower) == pytest.approx(0, abs=1e-12 * scale)


@pytest.mark.parametrize("order", ORDERS)
def test_moments_of_the_sampled_method_are_exact_up_to_its_sum(order):
    for sigma in (0.1, 0.3, 0.5, 1.0, 7.0):
        total = smoothing_kernel(sigma, method="sampled", radius=generous(sigma)).sum()
        kernel = derivative_kernel(sigma, order, method="sampled", radius=generous(sigma))
        assert moment(kernel, order) == pytest.approx(math.factorial(order) * total, rel=1e-10)


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", ["sampled_derivative", "integrated_derivative"])
def test_moments_of_derivative_methods_are_exact_at_coarse_scales_only(method, order, offset):
    def deviation(sigma):
        kernel = derivative_kernel(
            sigma, order, method=method, offset=offset, radius=generous(sigma)
        )
        return abs(moment(kernel, order) / math.factorial(order) - 1)

    assert deviation(2.0) < 1e-10
    assert deviation(20.0) < 1e-10
    if (method, order) != ("integrated_derivative", 0):  # which sums to one at every scale
        assert deviation(0.3) > 0.1
    else:
        assert deviation(0.3) < 1e-14


# --- masks and jets


@pytest.mark.parametrize("order", ORDERS)
def test_difference_mask_is_exact_on_polynomials(order):
    mask = difference_mask(order)
    for power in range(order + 1):
        expected = math.factorial(order) if power == order else 0
        assert moment(mask, power) == expected


def test_third_difference_is_first_of_second():
    composed = np.convolve(difference_mask(1), difference_mask(2))
    np.testing.assert_array_equal(difference_mask(3), composed)


def test_axes_x_right_y_down():
    rows, columns = np.mgrid[0:9, 0:9].astype(float)
    image = 2 * columns + 5 * rows
    by_name = {term.name: correlate(image, mask_2d(term))[4, 4] for term in jet_terms(3)}
    assert by_name.pop("x") == 2
    assert by_name.pop("y") == 5
    assert set(by_name.values()) == {0}


@pytest.mark.parametrize("order", [1, 2, 3])
def test_jet_masks_give_the_taylor_polynomial(order):
    # f(a, b) = sum_d factor_d D_d f(0) a**x b**y for every polynomial of that degree
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[-2:3, -2:3]
    terms = jet_terms(order, zero_order=True)
    coefficients = rng.normal(size=len(terms))
    image = sum(c * columns**t.x * rows**t.y for c, t in zip(coefficients, terms, strict=True))
    masks = jet_masks(order, zero_order=True)
    margin = (5 - masks.shape[-1]) // 2
    patch = image[margin : 5 - margin, margin : 5 - margin]
    derivatives = (masks * patch).sum((1, 2))
    # Third derivatives leak into first differences: x**3 has central difference 1 at 0.
    if order < 3:
        np.testing.assert_allclose(derivatives, coefficients, atol=1e-13)
    else:
        names = [term.name for term in terms]
        expected = coefficients.copy()
        for axis in "xy":
            expected[names.index(axis)] += coefficients[names.index(3 * axis)]
        np.testing.assert_allclose(derivatives, expected, atol=1e-13)


@pytest.mark.parametrize("angle", [0.0, 0.4, math.pi / 2, 2.5, -1.0])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_directional_derivative_of_a_blob(order, angle):
    terms = [term for term in jet_terms(3) if term.order == order]
    weights = directional_weights(order, angle)
    mask = sum(w * mask_2d(term) for w, term in zip(weights, terms, strict=True))

    def relative_error(sigma):
        size = math.ceil(4 * sigma)
        rows, columns = np.mgrid[-size : size + 1, -size : size + 1] / sigma
        blob = np.exp(-(columns**2 + rows**2) / 2)
        u = columns * math.cos(angle) + rows * math.sin(angle)
        expected = (-1) ** order * (1.0, u, u**2 - 1, u**3 - 3 * u)[order] * blob
        response = sigma**order * correlate(blob, mask)
        return np.abs(response - expected)[3:-3, 3:-3].max() / np.abs(expected).max()

    assert relative_error(10.0) < 0.012
    assert relative_error(10.0) < 0.3 * relative_error(5.0)  # second-order differences


def test_directional_weights_are_the_printed_ones():
    angle = 0.7
    cos, sin = math.cos(angle), math.sin(angle)
    np.testing.assert_allclose(directional_weights(1, angle), [cos, sin])
    np.testing.assert_allclose(directional_weights(2, angle), [cos**2, 2 * cos * sin, sin**2])
    # C = k! cos**x sin**y in a jet layer is the k-th derivative along the direction.
    for order in (1, 2, 3):
        terms = [term for term in jet_terms(3) if term.order == order]
        jet = [math.factorial(order) * cos**t.x * sin**t.y * t.factor for t in terms]
        np.testing.assert_allclose(directional_weights(order, angle), jet)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_scale_normalised_response_to_a_wave_does_not_depend_on_scale(method, order):
    # sin(w x) at sigma and sin(w x / 2) at 2 sigma: equal normalised amplitudes at coarse scales.
    def amplitude(frequency, sigma):
        kernel = derivative_kernel(sigma, order, method=method, radius=generous(sigma))
        n = np.arange(len(kernel)) - len(kernel) // 2
        response = kernel @ np.exp(1j * frequency * n)
        return abs(response) * scale_normalisation(sigma, order)

    fine, coarse = amplitude(1 / 8, 8.0), amplitude(1 / 16, 16.0)
    assert fine == pytest.approx(coarse, rel=0.01)
    assert coarse == pytest.approx(math.exp(-0.5), rel=0.01)


def test_scale_normalisation_power():
    assert scale_normalisation(2.0, 3) == 8
    assert scale_normalisation(2.0, 0) == 1


# --- scale levels


def test_channel_scales_of_the_paper_are_exact_powers():
    assert channel_scales(2**-1.5, num_channels=7) == tuple(2 ** (n / 2) for n in range(-3, 4))
    assert channel_scales(0.25, num_channels=6) == tuple(2 ** (n / 2) for n in range(-4, 2))
    assert channel_scales(1.0, num_channels=9, spacing=2**0.25) == tuple(
        2 ** (n / 4) for n in range(9)
    )
    np.testing.assert_allclose(channel_scales(0.3, num_channels=3, spacing=1.3), [0.3, 0.39, 0.507])


def test_scale_levels_are_geometric_in_both_directions():
    first, ratio, spacing = 0.4, 1.45, 1.3
    channels = channel_scales(first, num_channels=4, spacing=spacing)
    levels = np.array(scale_levels(channels, ratio=ratio, num_layers=6))
    n, k = np.mgrid[1:5, 1:7]
    np.testing.assert_allclose(levels, ratio ** (k - 1.0) * spacing ** (n - 1.0) * first)
    hash(scale_levels(channels, ratio=ratio, num_layers=6))


def test_geometric_fit_recovers_and_averages():
    sigmas = scale_levels((0.5,), ratio=1.7, num_layers=6)[0]
    np.testing.assert_allclose(fit_geometric(sigmas), (0.5, 1.7), rtol=1e-14)
    disturbed = np.array(sigmas) * [1.1, 1 / 1.1, 1.05, 1 / 1.05, 0.9, 1.2]
    slope, intercept = np.polyfit(np.arange(6), np.log(disturbed), 1)
    fit = fit_geometric(disturbed)
    np.testing.assert_allclose((fit.sigma_0, fit.ratio), np.exp((intercept, slope)), rtol=1e-13)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: channel_scales(0.0, num_channels=2), r"`first` must be a positive.*first=0\.0"),
        (lambda: channel_scales(1.0, num_channels=0), r"`num_channels` must be an integer of at"),
        (lambda: channel_scales(1.0, num_channels=2, spacing=1.0), r"`spacing` must be .*greater"),
        (lambda: scale_levels((1.0,), ratio=0.9, num_layers=6), r"`ratio` must be .* at least 1"),
        (lambda: scale_levels((1.0,), ratio=1.2, num_layers=2.0), r"`num_layers` must be an integ"),
        (
            lambda: scale_levels((-1.0,), ratio=1.2, num_layers=2),
            r"`channel_sigmas` must be a posit",
        ),
        (lambda: fit_geometric([1.0]), r"`layer_sigmas` must have at least two layers.*\[1\.0\]"),
        (lambda: fit_geometric([1.0, math.nan]), r"`layer_sigmas` must be .* finite numbers.*nan"),
    ],
)
def test_bad_arguments_of_scales_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
