"""The figures contain what they should, can be read, and are the same every time."""

import ast
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from gdn_keras import plots
from gdn_keras.datasets import ObjectSizes
from gdn_keras.explain import Detection
from gdn_keras.plots import (
    COLUMN,
    PALETTE,
    Style,
    legend_below,
    new_figure,
    plot_accuracy,
    plot_activation_maps,
    plot_agreement,
    plot_detections,
    plot_filters,
    plot_object_sizes,
    plot_scale_generalisation,
    plot_scale_selection,
    plot_sigmas,
    save,
    show_image,
)

FACTORS = [2 ** (n / 4) for n in range(-4, 5)]
SIGMAS = [2 ** (n / 2) for n in range(-3, 4)]
CURVES = {
    "single": {f: 93 - 30 * np.log2(f) ** 2 for f in FACTORS},
    "average": {f: 92 - abs(np.log2(f)) for f in FACTORS},
}


def lines_of(ax) -> dict:
    return {line.get_label(): line for line in ax.lines}


def legend_of(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def smallest_text(figure) -> float:
    import matplotlib.text

    figure.canvas.draw()
    return min(
        text.get_fontsize()
        for text in figure.findobj(matplotlib.text.Text)
        if text.get_visible() and text.get_text().strip()
    )


# --- scale generalisation ---


@pytest.fixture
def generalisation():
    """The axes with both curves, the training size and the paper's range."""
    ax = new_figure()[1][0, 0]
    plot_scale_generalisation(CURVES, ax, training_size=1.0, paper={"paper": (1.0, 92.5, 93.5)})
    return ax


def test_scale_generalisation_shows_every_curve(generalisation):
    lines = lines_of(generalisation)
    for label, curve in CURVES.items():
        np.testing.assert_allclose(lines[label].get_xdata(), FACTORS)
        np.testing.assert_allclose(lines[label].get_ydata(), list(curve.values()))
    assert legend_of(generalisation) == ["single", "average", "paper"]


def test_scale_generalisation_marks_the_training_size(generalisation):
    dotted = [line for line in generalisation.lines if line.get_linestyle() == ":"]
    assert any(set(line.get_xdata()) == {1.0} for line in dotted)
    assert "trained" in [text.get_text() for text in generalisation.texts]


def test_size_factors_have_a_logarithmic_axis(generalisation):
    ax = generalisation
    assert ax.get_xscale() == "log" and "size factor" in ax.get_xlabel()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["½", "1/√2", "1", "√2", "2"]
    np.testing.assert_allclose(ax.get_xticks(minor=True), FACTORS[1::2])


def test_accuracies_fill_their_axis(generalisation):
    assert generalisation.get_ylabel() == "test accuracy (%)"
    low, high = generalisation.get_ylim()
    assert low < 63 - 5 and 93 < high <= 101  # room for the legend below, none wasted above


@pytest.mark.parametrize("low, high", [(84.5, 86.5), (97.0, 99.0), (20.0, 22.0)])
@pytest.mark.parametrize("legend", [True, False])
def test_paper_values_span_their_range_within_the_axes(low, high, legend):
    _, axes = new_figure()
    paper = {"paper": (1.0, low, high)}
    plot_scale_generalisation(CURVES, axes[0, 0], paper=paper, legend=legend)
    (container,) = axes[0, 0].containers
    (segments,) = container.lines[2]
    (x, bottom), (same, top) = segments.get_segments()[0]
    assert (bottom, top) == pytest.approx((low, high)) and x == same
    assert 2**-0.25 < x < 1  # beside the points at 1, so that it hides none
    assert container.lines[0].get_markerfacecolor() == "white"
    bottom, top = axes[0, 0].get_ylim()
    assert bottom < low and high < top
    assert (axes[0, 0].get_legend() is not None) == legend


def test_accuracies_below_zero_are_not_shown():
    _, axes = new_figure()
    peak = {"one": {0.5: 10.0, 1.0: 92.0, 2.0: 23.0}}
    plot_scale_generalisation(peak, axes[0, 0])
    assert axes[0, 0].get_ylim()[0] == 0


def test_styles_belong_to_labels():
    """Whatever else a panel shows, a label looks the same in it."""
    styles = {
        "max": Style("#D55E00", "s"),
        "SESN": Style("#CC79A7", "D", (1, 1)),
    }
    curve = {17: 90.0, 40: 91.0, 64: 92.0}

    def look(line):
        return line.get_color(), line.get_linestyle(), line._unscaled_dash_pattern

    looks = {"max": set(), "SESN": set()}
    for labels in (("max",), ("new", "max"), ("new", "newer", "max")):
        _, axes = new_figure(rows=3)
        plot_object_sizes(
            dict.fromkeys(labels, curve),
            axes[0, 0],
            training_sizes=(17, 32),
            others=dict.fromkeys((*labels[:-1], "SESN"), curve),
            styles=styles,
        )
        everything = dict.fromkeys((*labels, "SESN"), curve)
        plot_scale_generalisation(everything, axes[1, 0], styles=styles)
        plot_sigmas(dict.fromkeys((*labels, "SESN"), [0.5, 1.0]), axes[2, 0], styles=styles)
        for ax in axes[:, 0]:
            for label in looks:
                looks[label].add(look(lines_of(ax)[label]))
        assert lines_of(axes[1, 0])["max"].get_marker() == "s"
        assert lines_of(axes[1, 0])["SESN"].get_marker() == "D"
    assert looks["max"] == {("#D55E00", "-", (0, None))}
    assert looks["SESN"] == {("#CC79A7", "--", (0, (1, 1)))}


def test_curves_differ_in_more_than_colour():
    _, axes = new_figure()
    curves = {f"network {n}": {f: 90.0 - n for f in FACTORS} for n in range(9)}
    plot_scale_generalisation(curves, axes[0, 0])
    lines = [line for label, line in lines_of(axes[0, 0]).items() if label in curves]
    looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines]
    assert len(set(looks)) == 9
    assert len({marker for _, marker, _ in looks[:7]}) == 7


def test_palette_is_told_apart_without_colour():
    """No two of the first five colours have nearly the same luminance and hue for a dichromat."""
    # a red-green blind eye sees about the blue and the yellow (mean of red and green) part
    seen = np.array([[0.3 * r + 0.7 * g, b] for r, g, b in map(to_rgb, PALETTE[:5])])
    distance = np.linalg.norm(seen[:, None] - seen, axis=-1) + np.eye(5)
    assert distance.min() > 0.1


# --- object sizes ---


@pytest.fixture
def object_sizes():
    """The figure of one network of ours and two others, and its axes."""
    sizes = range(17, 65)
    ours = {"GaussDerNet": {size: 90.0 for size in sizes}}
    others = {name: {size: 60.0 + size / 4 for size in sizes} for name in ("SESN", "DISCO")}
    figure, axes = new_figure()
    plot_object_sizes(ours, axes[0, 0], training_sizes=(33, 48), others=others)
    return figure, axes[0, 0]


def test_object_sizes_are_shaded_where_the_network_was_trained(object_sizes):
    (span,) = object_sizes[1].patches
    assert span.get_x() == 32.5 and span.get_x() + span.get_width() == 48.5


def test_our_network_stands_out_among_others(object_sizes):
    figure, ax = object_sizes
    lines = lines_of(ax)
    assert list(lines) == ["GaussDerNet", "SESN", "DISCO"]
    assert lines["GaussDerNet"].get_linewidth() > lines["SESN"].get_linewidth()
    assert lines["SESN"].get_linestyle() == "--" and lines["SESN"].get_color() != PALETTE[0]
    legend_below(figure, ax)
    assert [t.get_text() for t in figure.legends[0].get_texts()] == list(lines)


def test_object_sizes_are_in_pixels(object_sizes):
    ax = object_sizes[1]
    assert ax.get_xlim() == (16.5, 64.5) and "pixels" in ax.get_xlabel()


def test_object_sizes_of_stir_have_their_ticks(object_sizes):
    assert [t.get_text() for t in object_sizes[1].get_xticklabels()] == "24 32 40 48 56 64".split()


@pytest.mark.parametrize(
    "sizes, first, second", [((100, 120, 140), 100, 105), ((5, 400), 50, 100), ((24,), 24, None)]
)
def test_object_sizes_of_other_data_have_ticks(sizes, first, second):
    ax = new_figure()[1][0, 0]
    record = ObjectSizes(sizes[0], sizes[-1])
    plot_accuracy({"mine": dict.fromkeys(sizes, 90.0)}, ax, sizes=record)
    ticks = ax.get_xticks()
    assert ticks[0] == first and ticks[-1] == sizes[-1] and len(ticks) <= 9
    assert second is None or ticks[1] == second


def test_no_accuracy_above_100_is_labelled():
    ax = new_figure()[1][0, 0]
    plot_object_sizes({"perfect": {17: 98.0, 64: 100.0}}, ax, training_sizes=(33, 48))
    assert ax.get_ylim() == (93, 101) and max(ax.get_yticks()) <= 100


def test_a_legend_below_names_the_lines_of_all_panels_once():
    figure, axes = new_figure(rows=2)
    axes[0, 0].plot([0, 1], label="a")
    axes[1, 0].plot([0, 1], label="a")
    axes[1, 0].plot([1, 0], label="b")
    legend_below(figure, *axes[:, 0])
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["a", "b"]


def test_agreement_has_a_point_per_network_and_the_diagonal():
    _, axes = new_figure()
    ax = axes[0, 0]
    plot_agreement({"Fashion": [(93.0, 0.1, 92.5), (92.0, 0.2, 92.1)], "CIFAR": []}, ax)
    points = ax.containers[0].lines[0]
    np.testing.assert_array_equal(points.get_xdata(), [93.0, 92.0])
    np.testing.assert_array_equal(points.get_ydata(), [92.5, 92.1])
    assert any((line.get_xdata() == line.get_ydata()).all() for line in ax.lines[2:])
    assert ax.get_xlim() == ax.get_ylim() and ax.get_xlabel() == "paper (%)"
    assert legend_of(ax) == ["Fashion", "CIFAR"]
    _, axes = new_figure()
    plot_agreement({"one": [(93.0, 2.0, 92.5)]}, axes[0, 0])
    low, high = axes[0, 0].get_xlim()
    assert low < 91 and high > 95  # error bars are inside


# --- scale selection ---


def histogram() -> np.ndarray:
    """Mean log2 sigma exactly equal to log2 size factor - 1/4."""
    shares = np.zeros((9, 7))
    for n, factor in enumerate(FACTORS):
        place = 2 * (np.log2(factor) - 0.25) + 3
        lower = int(np.floor(place))
        shares[n, lower : lower + 2] = 1 - (place - lower), place - lower
    return shares


@pytest.fixture
def selection():
    """The figure of the histogram above, and its axes."""
    figure, axes = new_figure()
    options = {"size_factors": FACTORS, "channel_sigmas": SIGMAS, "title": "all images"}
    plot_scale_selection(histogram(), axes[0, 0], **options)
    return figure, axes[0, 0]


def test_scale_selection_shows_shares(selection):
    figure, ax = selection
    mesh = ax.collections[0]
    np.testing.assert_allclose(mesh.get_array(), 100 * histogram().T)
    assert mesh.get_clim()[0] == 0
    assert len(figure.axes) == 2  # the other one has the colour bar


def test_scale_selection_shows_the_mean_and_slope_one_through_it(selection):
    ax = selection[1]
    mean = lines_of(ax)["mean"]
    np.testing.assert_allclose(mean.get_xdata(), np.log2(FACTORS))
    np.testing.assert_allclose(mean.get_ydata(), np.log2(FACTORS) - 0.25, atol=1e-12)
    expected = ax.lines[1]  # through the mean at size factor 1
    np.testing.assert_allclose(expected.get_ydata() - expected.get_xdata(), -0.25, atol=1e-12)


def test_axes_of_scale_selection(selection):
    ax = selection[1]
    assert [t.get_text() for t in ax.get_yticklabels()][3:] == ["1", "1.41", "2", "2.83"]
    assert ax.get_title() == "all images" and "px" in ax.get_ylabel()
    assert ax.get_xlim() == (-1.125, 1.125) and ax.get_ylim() == (-1.75, 1.75)


@pytest.mark.parametrize(
    "pooling, label",
    [
        (None, "% of the images"),
        ("max", "% of the images"),
        ("average", "% of the output"),
        ("logsumexp", "% of the output"),
    ],
)
def test_the_colour_bar_says_what_the_shares_are(pooling, label):
    figure, axes = new_figure()
    options = {"size_factors": FACTORS, "channel_sigmas": SIGMAS, "pooling": pooling}
    plot_scale_selection(histogram(), axes[0, 0], **options)
    assert figure.axes[1].get_ylabel() == label
    with pytest.raises(ValueError, match="`pooling` must be one of .* pooling='mean'"):
        plot_scale_selection(histogram(), axes[0, 0], **{**options, "pooling": "mean"})


def test_sizes_without_any_image_have_no_mean():
    shares = histogram()
    shares[2] = 0  # nothing was wrong at this size
    _, axes = new_figure()
    options = {"size_factors": FACTORS, "channel_sigmas": SIGMAS, "colour_bar": False}
    plot_scale_selection(shares, axes[0, 0], **options)
    assert len(lines_of(axes[0, 0])["mean"].get_xdata()) == 8
    _, axes = new_figure()
    plot_scale_selection(np.zeros((9, 7)), axes[0, 0], **options)
    assert len(lines_of(axes[0, 0])["mean"].get_xdata()) == 0
    with pytest.raises(ValueError, match=r"`shares` must be .*\(9, 7\). Received: shape \(7, 9\)"):
        plot_scale_selection(shares.T, axes[0, 0], **options)


# --- images ---


def test_maps_share_a_colour_scale_and_mark_their_maximum():
    maps = np.zeros((2, 12, 16))
    maps[0, 3, 5], maps[1, 7, 9] = 2.0, 8.0
    figure, axes = new_figure(columns=3)
    image = np.full((12, 16, 1), 255)
    plot_activation_maps(image, maps, axes[0], titles=["fine", "coarse"], image_title="bag")
    assert [ax.get_title() for ax in axes[0]] == ["bag", "fine", "coarse"]
    for ax, values, place in zip(axes[0, 1:], maps, ((5, 3), (9, 7)), strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), values)
        assert ax.images[0].get_clim() == (0, 8)
        assert (ax.lines[0].get_xdata()[0], ax.lines[0].get_ydata()[0]) == place
    assert axes[0, 0].images[0].get_array().max() == 1
    with pytest.raises(ValueError, match="`axes` must be 3. Received: 2 axes"):
        plot_activation_maps(image, maps, axes[0, :2])


def test_filters_have_white_at_zero():
    filters = [np.array([[0.0, 2.0], [-1.0, 0.5]]), np.zeros((2, 2))]
    _, axes = new_figure(columns=3)
    plot_filters(filters, axes[0], titles=["∂ 30°\n0.98", "∇²"])
    picture = axes[0, 0].images[0]
    assert picture.get_clim() == (-2, 2)
    zero, positive, negative = picture.to_rgba(np.array([0.0, 2.0, -2.0]))[:, :3]
    np.testing.assert_allclose(zero, 1, atol=0.01)
    assert positive[0] > positive[2] and negative[2] > negative[0]  # red and blue
    assert axes[0, 0].get_title() == "∂ 30°\n0.98"
    assert not axes[0, 2].axison and axes[0, 1].axison


def test_detections_are_circled_and_named():
    found = [
        Detection(10, 20, 3, 2**0.5, 6.0, 1, "trouser", 9.0),
        Detection(25, 40, 1, 0.5, 3.0, 4, "", 5.0),
    ]
    figure, axes = new_figure()
    ax = axes[0, 0]
    plot_detections(np.zeros((36, 48, 1)), found, ax)
    assert [(c.center, c.radius) for c in ax.patches] == [((20, 10), 6.0), ((40, 25), 3.0)]
    assert legend_of(ax) == ["trouser, σ₀ = 1.41", "class 4, σ₀ = 0.5"]
    colours = [to_rgb(line.get_color()) for line in ax.get_legend().get_lines()]
    assert colours == [circle.get_edgecolor()[:3] for circle in ax.patches]
    figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y1 <= ax.get_window_extent().y0 + 1  # below
    assert ax.get_xlim() == (-0.5, 47.5) and ax.get_ylim() == (35.5, -0.5)


def test_colour_images_keep_their_colours():
    _, axes = new_figure()
    show_image(np.array([[[255, 0, 51]]]), axes[0, 0])
    np.testing.assert_allclose(axes[0, 0].images[0].get_array(), [[[1, 0, 0.2]]])


# --- sigmas ---


@pytest.fixture
def sigmas():
    """The axes with two networks, the law of the paper and a fit to one of the networks."""
    ax = new_figure()[1][0, 0]
    plot_sigmas(
        {"learned": [0.5, 0.8, 1.4], "other": [0.4, 1.0, 2.0]},
        ax,
        fits={"paper": (0.5, 1.7), "other": (0.4, 2.2)},
    )
    return ax


def test_sigmas_are_shown_by_layer(sigmas):
    learned = lines_of(sigmas)["learned"]
    np.testing.assert_array_equal(learned.get_xdata(), [1, 2, 3])
    np.testing.assert_array_equal(learned.get_ydata(), [0.5, 0.8, 1.4])
    assert legend_of(sigmas) == ["learned", "other", "paper"]
    assert sigmas.get_yscale() == "log" and sigmas.get_ylabel() == "σ (pixels)"
    np.testing.assert_array_equal(sigmas.get_xticks(), [1, 2, 3])


def test_a_law_is_dashed(sigmas):
    law = lines_of(sigmas)["paper"]
    np.testing.assert_allclose(law.get_ydata(), [0.5, 0.85, 1.445])
    assert law.get_linestyle() == "--"


def test_a_fit_is_dashed_in_the_colour_of_its_network(sigmas):
    lines = lines_of(sigmas)
    fit = lines["_fit of other"]
    np.testing.assert_allclose(fit.get_ydata(), [0.4, 0.88, 1.936])
    assert fit.get_color() == lines["other"].get_color() and fit.get_linestyle() == "--"


# --- files ---


def test_save_writes_png_and_vector_pdf_of_column_width(tmp_path):
    from matplotlib.image import imread

    figure, axes = new_figure(height=60)
    plot_scale_generalisation(CURVES, axes[0, 0])
    assert smallest_text(figure) >= 6  # points, at the printed size
    png, pdf = save(figure, tmp_path / "new" / "figure_2.0")
    assert (png.name, pdf.name) == ("figure_2.0.png", "figure_2.0.pdf")
    height, width = imread(png).shape[:2]
    assert abs(width / 300 * 25.4 - COLUMN) < 0.2 and abs(height / 300 * 25.4 - 60) < 0.2
    data = pdf.read_bytes()
    assert data.startswith(b"%PDF") and b"/Subtype /Image" not in data  # lines, not pixels
    before = png.read_bytes(), data
    figure, axes = new_figure(height=60)
    plot_scale_generalisation(CURVES, axes[0, 0])
    assert [path.read_bytes() for path in save(figure, png)] == list(before)


def test_users_settings_do_not_leak_in_or_out():
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "axes.labelsize": 30}):
        figure, axes = new_figure()
        plot_scale_generalisation(CURVES, axes[0, 0])
        assert matplotlib.rcParams["font.size"] == 30
    assert axes[0, 0].xaxis.label.get_fontsize() == 8


def test_plots_imports_matplotlib_only_where_it_draws():
    """Keras itself imports it where it is installed, so `sys.modules` would tell nothing."""
    names = [
        name
        for node in ast.parse(Path(plots.__file__).read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None), *(alias.name for alias in node.names)]
    ]
    assert "numpy" in names and not any("matplotlib" in (name or "") for name in names)
