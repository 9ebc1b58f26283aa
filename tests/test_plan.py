"""The sampling plan: matrices against np.pad and np.correlate, windows against the whole."""

import json
import math

import numpy as np
import pytest

from gdn_keras.scale_space import (
    DISCRETISATIONS,
    METHODS,
    PADDINGS,
    LayerPlan,
    Smoothing,
    derivative_kernel,
    plan_channel,
)
from gdn_keras.scale_space.plan import (
    Axis,
    Correlation,
    Grid,
    axis_kernel,
    kernel_radius,
    offset_of,
    placement,
)

OF_LAYERS = ("zero", "reflect", "edge")  # every layer pads its input
NUMPY_PADDING = {"zero": "constant", "reflect": "reflect", "edge": "edge", "mirror": "symmetric"}


def padded_correlation(signal, kernel, padding, margin):
    """`signal` correlated with `kernel` at its own samples and `margin` more on either side."""
    extended = np.pad(signal, len(kernel) // 2 + margin, mode=NUMPY_PADDING[padding])
    return np.correlate(extended, kernel, mode="valid")


def responses(axis, sigma, smoothing, order, signal):
    """What a smoothing matrix must give, from np.pad and np.correlate on the whole domain."""
    grid_sigma = sigma / axis.domain.spacing
    offset = offset_of(axis)
    radius = kernel_radius(grid_sigma, smoothing, offset)
    kernel = derivative_kernel(
        grid_sigma, order, method=smoothing.method, radius=radius, offset=offset
    )
    step = axis.output.spacing // axis.domain.spacing
    ring = axis.ring * step
    beyond = axis.output.half_width - axis.domain.half_width  # of the output, outside the domain
    margin = ring + step + max(0, math.ceil(beyond / axis.domain.spacing))
    everywhere = padded_correlation(signal, kernel, smoothing.padding, margin)
    # the position of entry i of `everywhere`, in samples of the domain from its centre
    positions = np.arange(len(everywhere)) - (len(everywhere) - 1) / 2
    count = axis.output.count + 2 * axis.ring
    wanted = (np.arange(count) - (count - 1) / 2) * step
    index = np.searchsorted(positions, wanted - 1e-9)
    np.testing.assert_allclose(positions[index], wanted, atol=1e-12)
    return everywhere[index]


def smoothing_matrix(axis, sigma, smoothing, order=0):
    return Correlation(axis, axis_kernel(axis, sigma, smoothing, order), smoothing.padding).matrix


def check_matrix(axis, sigma, smoothing, order=0):
    signal = np.random.default_rng(axis.domain.count).normal(size=axis.domain.count)
    cut = (axis.domain.count - axis.window.count) // 2
    window = signal[cut : cut + axis.window.count]
    matrix = smoothing_matrix(axis, sigma, smoothing, order)
    expected = responses(axis, sigma, smoothing, order, signal)
    np.testing.assert_allclose(matrix @ window, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("size", [1, 2, 5, 8, 31, 32])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0, 9.0])
def test_matrix_is_padding_and_correlation(size, sigma, padding):
    smoothing = Smoothing(padding=padding)
    for ring in (0, 1, 2):
        grid = Grid(size)
        check_matrix(Axis(grid, grid, grid, ring), sigma, smoothing)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("method", METHODS)
def test_matrix_of_every_method_and_order(method, padding):
    grid = Grid(12)
    ring = 1 if DISCRETISATIONS[method].hybrid else 0
    for order in DISCRETISATIONS[method].orders(3):
        check_matrix(Axis(grid, grid, grid, ring), 1.3, Smoothing(method, padding=padding), order)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("size", [24, 25, 60, 61])
@pytest.mark.parametrize("selection", ["centre", "max"])
@pytest.mark.parametrize("density", [None, 0.5, 1.0])
def test_every_matrix_of_a_plan(size, selection, density, padding):
    # odd and even domains, clipped and unclipped windows, coarser outputs, half-sample offsets
    for method in ("discrete", "integrated_derivative"):
        hybrid = DISCRETISATIONS[method].hybrid
        smoothing = Smoothing(method, padding=padding)
        plan = plan_channel(
            (size, size),
            sigmas=(0.7, 1.2, 2.3, 4.1),
            smoothing=smoothing,
            ring=1 if hybrid else 0,
            selection=selection,
            density=density,
        )
        for layer in plan.layers:
            for order in (0,) if hybrid else (0, 1, 2):
                check_matrix(layer.rows, layer.sigma, smoothing, order)


def test_the_cases_above_occur():
    def axes(size, selection, density):
        plan = plan_channel(
            (size, size),
            sigmas=(0.7, 1.2, 2.3, 4.1),
            smoothing=Smoothing(),
            ring=1,
            selection=selection,
            density=density,
        )
        return [layer.rows for layer in plan.layers]

    assert any(offset_of(axis) == 0.5 for axis in axes(60, "centre", 0.5))
    assert not any(offset_of(axis) for axis in axes(61, "centre", 0.5))
    assert any(axis.window != axis.domain for axis in axes(60, "centre", None))
    assert any(axis.window == axis.domain for axis in axes(24, "centre", None))
    assert any(axis.output.spacing == 8 for axis in axes(60, "max", 0.5))


def composed(layers, sigmas, smoothing, signal):
    """All layers of a plan along one axis, first differences after each smoothing."""
    for layer, sigma in zip(layers, sigmas, strict=True):
        axis = layer.rows
        cut = (len(signal) - axis.window.count) // 2
        smoothed = smoothing_matrix(axis, sigma, smoothing) @ signal[cut : len(signal) - cut]
        signal = (smoothed[2:] - smoothed[:-2]) / 2
    return signal


@pytest.mark.parametrize("padding", OF_LAYERS)
@pytest.mark.parametrize("density", [None, 0.5, 1.0])
@pytest.mark.parametrize("size", [15, 16, 64, 65, 200])
def test_window_gives_the_centre_of_the_whole(size, density, padding):
    sigmas, smoothing = (0.5, 0.9, 1.6, 2.9), Smoothing(padding=padding)
    signal = np.random.default_rng(0).normal(size=size)
    outputs = []
    for window in (True, False):
        plan = plan_channel(
            (size, size),
            sigmas=sigmas,
            smoothing=smoothing,
            ring=1,
            density=density,
            window=window,
        )
        outputs.append(composed(plan.layers, sigmas, smoothing, signal))
    small, whole = outputs
    cut = (len(whole) - len(small)) // 2
    assert len(small) == 2 - len(whole) % 2
    np.testing.assert_allclose(small, whole[cut : len(whole) - cut], rtol=0, atol=1e-12)


@pytest.mark.parametrize("density", [None, 0.7])
@pytest.mark.parametrize("size", [9, 10, 31, 64])
@pytest.mark.parametrize("reach", [None, 1.0])
def test_a_mirrored_image_has_no_border(size, density, reach):
    """Layers after the first are planned alike whatever the size, and read what is there."""
    sigmas, smoothing = (0.5, 0.9, 1.6, 2.9), Smoothing(padding="mirror")
    signal = np.random.default_rng(0).normal(size=size)
    outputs, plans = [], []
    for part in (signal, np.pad(signal, 3 * size, mode="symmetric")):
        plan = plan_channel(
            (len(part), len(part)),
            sigmas=sigmas,
            smoothing=smoothing,
            ring=1,
            density=density,
            reach=reach,
        )
        plans.append([layer.to_list() for layer in plan.layers[1:]])
        outputs.append(composed(plan.layers, sigmas, smoothing, part))
    assert plans[0] == plans[1]
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("padding", PADDINGS)
def test_layers_are_computed_as_far_as_all_later_layers_together_reach(padding):
    sigmas, smoothing = (1.0, 3.0, 4.0), Smoothing(padding=padding)
    options = {"sigmas": sigmas, "smoothing": smoothing, "ring": 1}
    for reach in (1.0, 1.25):
        layers = plan_channel((200, 200), **options, reach=reach).layers
        assert layers[2].output_size == (2, 2)
        assert layers[1].output_size[0] == 2 + 2 * (kernel_radius(4.0, smoothing) + 1)
        together = kernel_radius(5.0, smoothing)  # 3, 4 -> 5
        assert layers[0].output_size[0] == 2 + 2 * (math.ceil(reach * together) + 1)
        assert layers[1].rows.domain == layers[0].rows.output  # what is beyond is padding
    exact = plan_channel((200, 200), **options).layers
    separate = kernel_radius(4.0, smoothing) + kernel_radius(3.0, smoothing) + 2
    assert exact[0].output_size[0] == 2 + 2 * separate > layers[0].output_size[0]
    small = plan_channel((20, 20), **options, reach=1.0).layers
    assert small[0].rows.window == Grid(20)
    # the border of the image stays what it is, unless layers are computed outside
    assert (small[0].output_size == (20, 20)) == (padding != "mirror")


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("density", [None, 0.7])
@pytest.mark.parametrize("size", [24, 65, 200])
def test_reach_grows_into_the_exact_window(size, density, padding):
    sigmas, smoothing = (0.5, 0.9, 1.6, 2.9), Smoothing(padding=padding)
    every_signal = np.eye(size)  # the norm of a response is its mean square over white noise

    def plan(reach, selection="centre"):
        options = {"sigmas": sigmas, "smoothing": smoothing, "ring": 1, "density": density}
        return plan_channel((size, size), **options, reach=reach, selection=selection)

    exact, far = plan(None), plan(10.0)
    assert far == exact
    if padding != "mirror":  # every sample is selected, so there is nothing to leave out
        assert plan(1.0, "max") == plan(None, "max")
    expected = composed(exact.layers, sigmas, smoothing, every_signal)
    errors, counts = [], []
    for reach in (0.75, 1.0, 1.25, 1.5, 2.0):
        layers = plan(reach).layers
        for layer in layers:
            check_matrix(layer.rows, layer.sigma, smoothing)
        response = composed(layers, sigmas, smoothing, every_signal)
        errors.append(np.linalg.norm(response - expected) / np.linalg.norm(expected))
        counts.append(sum(layer.output_size[0] for layer in layers))
    assert counts == sorted(counts)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3


def input_window(plan):
    """Height and width of the part of the image that a scale channel reads."""
    return plan.layers[0].rows.window.count, plan.layers[0].columns.window.count


def test_window_is_the_smallest_that_reaches_the_centre():
    # sigma 1: radius 3 of the smoothing, 1 of the differences
    plan = plan_channel((101, 100), sigmas=(1.0, 1.0), smoothing=Smoothing(), ring=1)
    assert kernel_radius(1.0, Smoothing()) == 3
    assert input_window(plan) == (1 + 2 * 2 * 4, 2 + 2 * 2 * 4)
    assert plan.layers[0].output_size == (9, 10)
    assert plan.layers[1].output_size == (1, 2)
    for axis in (plan.layers[0].rows, plan.layers[0].columns):  # both outermost samples count
        matrix = smoothing_matrix(axis, 1.0, Smoothing())
        assert matrix[0, 0] > 0 and matrix[-1, -1] > 0


def test_window_does_not_grow_with_the_image():
    options = {"sigmas": (1.0, 2.0, 4.0), "smoothing": Smoothing(), "ring": 1}
    small, large = (input_window(plan_channel((n, n), **options)) for n in (200, 1000))
    assert small == large
    assert small[0] < 200


@pytest.mark.parametrize("size", [16, 17, 72, 101])
@pytest.mark.parametrize("selection", ["centre", "max"])
def test_coarse_grids_contain_the_centre_and_cover_the_image(size, selection):
    plan = plan_channel(
        (size, size),
        sigmas=tuple(0.5 * 1.5**k for k in range(6)),
        smoothing=Smoothing(),
        ring=1,
        selection=selection,
        density=0.5,
    )
    coarse = [layer.rows.output for layer in plan.layers if layer.rows.output.spacing > 1]
    assert len({grid.spacing for grid in coarse}) > 1
    for grid in coarse:
        assert grid.half_width % grid.spacing == 0  # 0 is a position
    for layer in plan.layers:
        domain = layer.rows.domain
        assert abs(domain.half_width - (size - 1) / 2) <= domain.spacing / 2


@pytest.mark.parametrize("density", [0.5, 1 / np.sqrt(2), 1.0, 2.0])
def test_spacing_is_the_largest_power_of_two_that_keeps_the_density(density):
    sigmas = tuple(0.4 * 1.3**k for k in range(12))
    plan = plan_channel(
        (500, 500),
        sigmas=sigmas,
        smoothing=Smoothing(),
        ring=1,
        selection="max",
        density=density,
    )
    for layer in plan.layers:
        spacing = layer.rows.output.spacing
        assert spacing == 1 or layer.sigma / spacing >= density - 1e-9
        assert layer.sigma / (2 * spacing) < density


def test_plan_is_hashable_and_survives_json():
    options = {"sigmas": (1.0, 2.0), "smoothing": Smoothing(), "ring": 1, "density": 1.0}
    plan = plan_channel((40, 31), **options)
    assert hash(plan) == hash(plan_channel((40, 31), **options))
    for layer in plan.layers:
        assert LayerPlan.from_list(json.loads(json.dumps(layer.to_list()))) == layer


def test_matrix_is_made_once_and_read_only():
    axis = plan_channel((20, 20), sigmas=(1.0,), smoothing=Smoothing(), ring=1).layers[0].rows
    correlation = Correlation(axis, axis_kernel(axis, 1.0, Smoothing()), "zero")
    matrix = correlation.matrix
    assert correlation.matrix is matrix
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 1.0


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(
    "size, window, ring", [(20, 20, 1), (100, 61, 0), (9, 9, 2), (150, 150, 1)]
)
def test_sliding_is_the_product_with_the_matrix(size, window, ring, padding):
    sigma = 2.0
    count = window if window == size else window - 2 * kernel_radius(sigma, Smoothing())
    axis = Axis(Grid(size), Grid(window), Grid(count), ring)
    correlation = Correlation(axis, axis_kernel(axis, sigma, Smoothing()), padding)
    signal = np.random.default_rng(1).normal(size=window)
    passed = np.append(signal, 0.0)[correlation.samples]
    slid = np.correlate(passed, correlation.kernel)
    np.testing.assert_allclose(slid, correlation.matrix @ signal, rtol=0, atol=1e-12)


def test_kernels_slide_where_it_is_cheaper():
    def slides(size, sigma, spacing=1):
        axis = Axis(Grid(size), Grid(size), Grid(2 * (size // spacing // 2) + 1, spacing), 1)
        return Correlation(axis, axis_kernel(axis, sigma, Smoothing()), "zero").slides

    assert not slides(72, 1.0)  # the largest images of the paper
    assert slides(97, 1.0)
    assert slides(151, 4.0) and not slides(97, 4.0)
    assert not slides(301, 60.0)  # the kernel is as wide as the image
    assert not slides(301, 1.0, spacing=2)  # half of the work would be thrown away


@pytest.mark.parametrize("padding", PADDINGS)
def test_placement_times_kernel_is_the_matrix(padding):
    axis = plan_channel(
        (40, 40), sigmas=(1.5, 2.0), smoothing=Smoothing(padding=padding), ring=1
    ).layers[1]
    kernel = derivative_kernel(2.0, radius=kernel_radius(2.0, Smoothing()))
    matrix = np.tensordot(kernel, placement(axis.rows, len(kernel), padding), axes=1)
    np.testing.assert_array_equal(
        matrix, smoothing_matrix(axis.rows, 2.0, Smoothing(padding=padding))
    )


def test_kernel_wider_than_planned_is_refused():
    axis = plan_channel((80, 80), sigmas=(1.0,), smoothing=Smoothing(), ring=1).layers[0].rows
    with pytest.raises(ValueError, match="`length` .*Received: .*31"):
        placement(axis, 31, "zero")


@pytest.mark.parametrize("name, value", [("selection", "mean"), ("padding", "wrap")])
def test_unknown_words(name, value):
    options = {"selection": "centre", "padding": "zero", name: value}
    with pytest.raises(ValueError, match=rf"`{name}` must be one of .* {name}='{value}'"):
        plan_channel(
            (9, 9),
            sigmas=(1.0,),
            smoothing=Smoothing(padding=options["padding"]),
            ring=1,
            selection=options["selection"],
        )


@pytest.mark.parametrize("reach", [0, 0.4, -1, float("nan"), float("inf"), "1", True])
def test_impossible_reaches(reach):
    with pytest.raises(ValueError, match=rf"`reach` must be None or .* reach={reach!r}"):
        plan_channel((9, 9), sigmas=(1.0,), smoothing=Smoothing(), ring=1, reach=reach)


@pytest.mark.parametrize("density", [0, -1, float("nan"), float("inf"), "1"])
def test_impossible_densities(density):
    with pytest.raises(ValueError, match=rf"`density` must be None or .* density={density!r}"):
        plan_channel((9, 9), sigmas=(1.0,), smoothing=Smoothing(), ring=1, density=density)


def test_scales_that_decrease_need_every_pixel():
    options = {"sigmas": (2.0, 1.0), "smoothing": Smoothing(), "ring": 1}
    assert len(plan_channel((9, 9), **options).layers) == 2
    with pytest.raises(ValueError, match=r"`sigmas` must not decrease .* sigmas=\(2.0, 1.0\)"):
        plan_channel((9, 9), **options, density=1.0)
