"""Kernels, masks and spread measures against independent truth: pyscsp and the printed tables."""

import math

import numpy as np
import pytest
from pyscsp import discscsp, gaussders

from gdn_keras.scale_space import (
    DISCRETISATIONS,
    METHODS,
    derivative_kernel,
    difference_mask,
    directional_weights,
    jet_masks,
    jet_terms,
    mask_2d,
    scale_normalisation,
    smoothing_kernel,
    spatial_spread,
    truncation_radius,
)

HYBRID = [method for method, row in DISCRETISATIONS.items() if row.hybrid]
PYSCSP = {
    "discrete": discscsp.make1Ddiscgaussderfilter,
    "sampled": discscsp.make1Dsamplgaussdifffilter,
    "normalised": discscsp.make1Dnormsamplgaussdifffilter,
    "integrated": discscsp.make1Dintgaussdifffilter,
    "sampled_derivative": gaussders.make1Dsamplgaussderfilter,
    "integrated_derivative": gaussders.make1Dintgaussderfilter,
}
SIGMAS = (0.1, 0.25, 0.5, 1.0, 1.6, 4.0, 15.0, 50.0)
ORDERS = (0, 1, 2, 3, 4)


def pyscsp_kernel(sigma, order, method, radius):
    """Its convolution kernel, flipped; made larger first, since its differences reflect there."""
    margin = 0 if order == 0 else 2
    kernel = PYSCSP[method](order, sigma, radius + margin)[::-1]
    return kernel[margin : len(kernel) - margin]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", METHODS)
def test_kernels_are_those_of_pyscsp(method, order):
    for sigma in SIGMAS:
        for radius in (1, 3, 8, math.ceil(3 * sigma), math.ceil(9 * sigma) + 9):
            if method == "normalised" and radius < 9 * sigma:
                continue  # normalised over what is cut off there
            ours = derivative_kernel(sigma, order, method=method, radius=radius)
            theirs = pyscsp_kernel(sigma, order, method, radius)
            # The atol is rounding in pyscsp's error function, at most doubled by every difference;
            # the smallest of the largest weights (sigma 50, order 4) are near 1e-9.
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=2.5e-16 * 2**order)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_normalised_kernel_cut_at_any_radius_is_that_of_pyscsp(sigma):
    for radius in (0, 1, 3, 8):
        ours = smoothing_kernel(sigma, method="normalised", radius=radius)
        theirs = pyscsp_kernel(sigma, 0, "normalised", radius)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        assert ours.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("sigma", (0.1, 0.5, 1.0, 7.0, 50.0))
def test_discrete_gaussian_is_its_fourier_integral(sigma):
    # T(n; s) = (1/pi) * integral over 0…pi of exp(s (cos t - 1)) cos(n t); the trapezoid rule
    # converges faster than any power for periodic functions.
    radius = math.ceil(6 * sigma) + 6
    angles = 2 * np.pi * np.arange(40 * radius) / (40 * radius)
    spectrum = np.exp(sigma**2 * (np.cos(angles) - 1))
    expected = np.cos(np.outer(np.arange(-radius, radius + 1), angles)) @ spectrum / len(angles)
    np.testing.assert_allclose(smoothing_kernel(sigma, radius=radius), expected, atol=1e-14)


@pytest.mark.parametrize("sigma", (0.1, 0.5, 1.0, 7.0, 50.0))
def test_far_tail_of_discrete_gaussian_keeps_its_digits(sigma):
    # T(n - 1) - T(n + 1) = (2 n / s) T(n), relative to numbers as small as 1e-60.
    radius = math.ceil(15 * sigma) + 15
    tail = smoothing_kernel(sigma, radius=radius)[radius:]
    n = np.arange(1, radius)
    assert 0 < tail[-1] < 1e-20
    np.testing.assert_allclose(tail[:-2] - tail[2:], 2 * n / sigma**2 * tail[1:-1], rtol=1e-9)


def test_integrated_tail_keeps_its_digits():
    # scipy-free: ndtr(-u) ~ exp(-u^2/2)/(u sqrt(2 pi)) (1 - 1/u^2 + 3/u^4 - 15/u^6)
    def tail(u):
        series = 1 - u**-2 + 3 * u**-4 - 15 * u**-6 + 105 * u**-8
        return math.exp(-(u**2) / 2) / (u * math.sqrt(2 * math.pi)) * series

    last = smoothing_kernel(0.5, method="integrated", radius=8)[[0, -1]]
    np.testing.assert_allclose(last, tail(15.0) - tail(17.0), rtol=1e-8)


@pytest.mark.parametrize("offset", (0.0, 0.5))
@pytest.mark.parametrize("method", METHODS)
def test_truncation_radius_is_the_smallest_that_keeps_enough(method, offset):
    for sigma in (0.5, 1.0, 2.5, 20.0):
        for order in DISCRETISATIONS[method].orders(4):
            for truncation in (0.2, 0.005, 1e-10):
                radius = truncation_radius(
                    sigma, method=method, truncation=truncation, order=order, offset=offset
                )
                shares = []
                for k in range(order + 1):
                    whole = np.abs(
                        derivative_kernel(sigma, k, method=method, offset=offset, radius=250)
                    )
                    total = whole.sum()
                    cut = [250 - r for r in (radius, radius - 1)]
                    shares.append([whole[:c].sum() * 2 / total for c in cut])
                kept, too_small = np.max(shares, axis=0)
                assert kept <= truncation, (sigma, order, truncation)
                if radius > (1 if offset else 0):
                    assert too_small > truncation, (sigma, order, truncation)


def test_default_radius_is_smoothing_then_differences():
    for method in HYBRID:
        smooth = smoothing_kernel(1.3, method=method)
        assert len(smooth) == 2 * truncation_radius(1.3, method=method) + 1
        for order in ORDERS:
            np.testing.assert_array_equal(
                derivative_kernel(1.3, order, method=method),
                np.convolve(smooth, difference_mask(order)),
            )
    for method in set(METHODS) - set(HYBRID):
        for order in ORDERS:
            radius = truncation_radius(1.3, method=method, order=order)
            np.testing.assert_array_equal(
                derivative_kernel(1.3, order, method=method),
                derivative_kernel(1.3, order, method=method, radius=radius),
            )


def test_examples_of_the_docstring():
    assert len(derivative_kernel(1.0)) == 7
    assert derivative_kernel(1.0).sum() == pytest.approx(0.998, abs=5e-4)
    assert len(derivative_kernel(1.0, 1)) == 9
    assert len(derivative_kernel(1.0, 1, radius=2)) == 5
    assert len(derivative_kernel(1.0, offset=0.5, radius=2)) == 4


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"sigma": 0.0}, r"`sigma` must be a positive number.*Received: sigma=0\.0"),
        ({"sigma": -1.0}, r"`sigma` must be a positive number.*Received: sigma=-1\.0"),
        ({"sigma": math.nan}, r"`sigma` must be a finite number.*Received: sigma=nan"),
        ({"sigma": math.inf}, r"`sigma` must be a finite number.*Received: sigma=inf"),
        ({"sigma": "1"}, r"`sigma` must be a finite number.*Received: sigma='1'"),
        ({"sigma": True}, r"`sigma` must be a finite number.*Received: sigma=True"),
        ({"order": 5}, r"`order` must be an integer from 0 to 4.*Received: order=5"),
        ({"order": -1}, r"`order` must be an integer from 0 to 4.*Received: order=-1"),
        ({"order": 1.0}, r"`order` must be an integer.*Received: order=1\.0"),
        ({"method": "gauss"}, r"`method` must be one of .*Received: method='gauss'"),
        ({"radius": -1}, r"`radius` must be an integer of at least 0.*Received: radius=-1"),
        ({"radius": 2.5}, r"`radius` must be None or an integer.*Received: radius=2\.5"),
        ({"radius": 0, "offset": 0.5}, r"`radius` must be an integer of at least 1"),
        (
            {"truncation": 0.0},
            r"`truncation` must be between 1e-30 and 1.*truncation=0\.0",
        ),
        ({"truncation": math.nan}, r"`truncation` must be a finite number.*truncation=nan"),
        ({"truncation": "a"}, r"`truncation` must be a finite number.*truncation='a'"),
        ({"offset": 0.25}, r"`offset` must be 0 or 0\.5.*Received: offset=0\.25"),
        ({"offset": 0.5, "order": 1}, r"`offset` must be 0 for derivatives with method='discrete'"),
        ({"offset": 0.5, "sigma": 0.4}, r"`sigma` must be at least 0\.5 for method='discrete'"),
        (
            {"compensate_integration": True},
            r"`compensate_integration` must be False unless.*method='discrete'",
        ),
        (
            {"compensate_integration": True, "method": "integrated", "sigma": 0.28},
            r"`sigma` must be greater than 0\.2887.*Received: sigma=0\.28",
        ),
    ],
)
def test_bad_arguments_are_named(kwargs, message):
    with pytest.raises(ValueError, match=message):
        derivative_kernel(**{"sigma": 1.0, **kwargs})
    if "radius" not in kwargs and kwargs.get("order") != 1:
        with pytest.raises(ValueError, match=message):
            truncation_radius(**{"sigma": 1.0, **kwargs})


# --- masks


def test_masks_are_those_of_pyscsp_with_y_turned_downwards():
    for order in (2, 3, 4):
        for term in jet_terms(order):
            theirs = getattr(discscsp, f"d{term.name}mask5")()[::-1]
            if order == 2:
                theirs = theirs[1:-1, 1:-1]
            index = [t.name for t in jet_terms(order)].index(term.name)
            np.testing.assert_array_equal(jet_masks(order)[index], term.factor * theirs)


@pytest.mark.parametrize("angle", (0.0, 0.7, 2.0, -1.1))
def test_directional_masks_are_those_of_pyscsp_with_y_turned_downwards(angle):
    for order in (1, 2, 3, 4):
        terms = [term for term in jet_terms(4) if term.order == order]
        weights = directional_weights(order, angle)
        ours = sum(w * mask_2d(term) for w, term in zip(weights, terms, strict=True))
        theirs = getattr(discscsp, f"d{'phi' * order}_mask")(angle)[::-1]
        np.testing.assert_allclose(ours, theirs, atol=1e-15)


def test_jet_terms_have_the_printed_order_and_factors():
    terms = jet_terms(3, zero_order=True)
    names = ["0", "x", "y", "xx", "xy", "yy", "xxx", "xxy", "xyy", "yyy"]
    assert [term.name for term in terms] == names
    factors = [1, 1, 1, 1 / 2, 1, 1 / 2, 1 / 6, 1 / 2, 1 / 2, 1 / 6]
    np.testing.assert_allclose([term.factor for term in terms], factors, rtol=1e-15)
    assert jet_terms(3) == terms[1:]
    assert jet_terms(2) == terms[1:6]
    assert jet_terms(1) == terms[1:3]
    for term in terms:
        assert (term.name.count("x"), term.name.count("y")) == (term.x, term.y)


def test_mask_sizes():
    assert [len(difference_mask(order)) for order in ORDERS] == [1, 3, 3, 5, 5]
    assert [jet_masks(order).shape for order in (1, 2, 3, 4)] == [
        *((2, 3, 3), (5, 3, 3)),
        *((9, 5, 5), (14, 5, 5)),
    ]
    assert jet_masks(2, zero_order=True).shape == (6, 3, 3)


def test_a_larger_mask_has_zeros_around_it():
    x = jet_terms(2)[0]
    np.testing.assert_array_equal(mask_2d(x), [[0, 0, 0], [-0.5, 0, 0.5], [0, 0, 0]])
    np.testing.assert_array_equal(mask_2d(x, radius=2), np.pad(mask_2d(x), 1))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: difference_mask(5), r"`order` must be an integer from 0 to 4.*order=5"),
        (lambda: jet_terms(0), r"`order` must be an integer from 1 to 4.*order=0"),
        (lambda: jet_masks(5), r"`order` must be an integer from 1 to 4.*order=5"),
        (lambda: directional_weights(0, 0.1), r"`order` must be an integer from 1 to 4"),
        (lambda: directional_weights(1, math.nan), r"`angle` must be a finite number.*angle=nan"),
        (lambda: mask_2d(jet_terms(3)[-1], radius=1), r"`radius` must be an integer of at least 2"),
        (lambda: scale_normalisation(math.nan, 1), r"`sigma` must be a finite number"),
    ],
)
def test_bad_arguments_of_masks_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- spatial spread, appendix A.2: the printed sigma of layer 1 and the printed S1, S2, for
# scale learning rates 1e-4, 1e-3, 1e-2; second row of a method: no batch norm in the last layer

PRINTED_SPREAD = {
    ("fashion", "sampled_derivative"): [
        [(0.659, 1.087, 0.866), (0.660, 1.087, 0.868), (0.664, 1.091, 0.874)],
        [(0.659, 1.087, 0.866), (0.660, 1.087, 0.868), (0.656, 1.084, 0.861)],
    ],
    ("fashion", "integrated_derivative"): [
        [(0.524, 1.039, 0.786), (0.422, 1.005, 0.719), (0.397, 1.003, 0.713)],
        [(0.524, 1.039, 0.786), (0.396, 1.003, 0.712), (0.381, 1.002, 0.710)],
    ],
    ("fashion", "sampled"): [
        [(0.467, 1.130, 0.818), (0.390, 1.053, 0.747), (0.372, 1.039, 0.736)],
        [(0.469, 1.132, 0.820), (0.384, 1.048, 0.743), (0.370, 1.037, 0.735)],
    ],
    ("fashion", "integrated"): [
        [(0.404, 1.168, 0.860), (0.308, 1.080, 0.770), (0.298, 1.071, 0.763)],
        [(0.407, 1.171, 0.863), (0.306, 1.078, 0.768), (0.301, 1.073, 0.765)],
    ],
    ("cifar", "sampled_derivative"): [
        [(0.505, 1.008, 0.688), (0.514, 1.010, 0.696), (0.513, 1.010, 0.695)],
        [(0.541, 1.018, 0.719), (0.511, 1.010, 0.693), (0.497, 1.007, 0.681)],
    ],
    ("cifar", "integrated_derivative"): [
        [(0.339, 1.000, 0.708), (0.364, 1.001, 0.709), (0.394, 1.002, 0.712)],
        [(0.336, 1.000, 0.708), (0.375, 1.001, 0.710), (0.390, 1.002, 0.712)],
    ],
    ("cifar", "sampled"): [
        [(0.304, 1.007, 0.712), (0.302, 1.006, 0.712), (0.325, 1.013, 0.717)],
        [(0.304, 1.007, 0.712), (0.292, 1.004, 0.710), (0.338, 1.019, 0.721)],
    ],
    ("cifar", "integrated"): [
        [(0.214, 1.015, 0.718), (0.206, 1.011, 0.715), (0.227, 1.021, 0.722)],
        [(0.212, 1.014, 0.717), (0.207, 1.012, 0.716), (0.246, 1.032, 0.731)],
    ],
}


@pytest.mark.parametrize("data, method", PRINTED_SPREAD)
def test_printed_spread_measures(data, method):
    for sigma, *printed in sum(PRINTED_SPREAD[data, method], []):
        for order, value in enumerate(printed, start=1):
            # Both sigma and S are printed with three digits, so S lies between those of the
            # sigmas that round to the printed one, up to its own rounding.
            low, high = (
                spatial_spread(derivative_kernel(sigma + d, order, method=method, radius=20))
                for d in (-0.0005, 0.0005)
            )
            assert low - 0.0005001 <= value <= high + 0.0005001, (sigma, order, low, high)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("method", METHODS)
def test_spread_at_coarse_scales_is_that_of_continuous_kernels(method, order):
    sigma = 20.0
    spread = spatial_spread(derivative_kernel(sigma, order, method=method, radius=200))
    x = np.linspace(-200, 200, 400001)
    u = x / sigma
    density = np.abs((1, u, u**2 - 1, u**3 - 3 * u, u**4 - 6 * u**2 + 3)[order]) * np.exp(
        -(u**2) / 2
    )
    continuous = math.sqrt((x**2 * density).sum() / density.sum())
    assert spread == pytest.approx(continuous, rel=2e-3)


def test_spread_has_the_lower_bounds_of_the_masks():
    assert spatial_spread(difference_mask(1)) == 1.0
    assert spatial_spread(difference_mask(2)) == pytest.approx(1 / math.sqrt(2), rel=1e-15)
    for method in HYBRID:
        for order, bound in ((1, 1.0), (2, 1 / math.sqrt(2))):
            assert spatial_spread(derivative_kernel(0.1, order, method=method, radius=9)) >= (
                bound - 1e-15
            )


@pytest.mark.parametrize("kernel", ([], [0.0, 0.0], [1.0, math.nan], [[1.0, 2.0]]))
def test_spread_of_what_is_no_kernel(kernel):
    with pytest.raises(ValueError, match=r"`kernel` must be one-dimensional.*Received: kernel="):
        spatial_spread(kernel)
