"""The gallery: every figure from networks with next to no weights, and the page."""

import re

import numpy as np
import pytest
from report_tools import folder, write

from gdn_keras import zoo
from gdn_keras.datasets import load_samples
from gdn_keras.model import build_model
from training import CHECKOUT
from training.__main__ import main
from training.recipes import RECIPES
from training.reproduction.pages import gallery
from training.reproduction.pages.gallery import EXHIBITS, PREFIX, side_by_side, write_gallery
from training.reproduction.zoo_results import ZooResults

SIZES = ("0.500", "1.000", "2.000")


@pytest.fixture(scope="module")
def small_zoo(tmp_path_factory):
    """The recipes' networks with one or two features per layer and three scale channels."""
    path = tmp_path_factory.mktemp("zoo")
    for name in ("fashion_translated_max_2jet", "cifar_avg_3jet", "cifar_avg_2jet"):
        config = RECIPES[name].config
        model = build_model(
            config.replace(
                widths=(2, 1), channel_sigmas=(0.5, 1.0, 2.0), sampling_density=0.8, truncation=0.05
            )
        )
        zoo.write_folder(
            path / name,
            config=model.config,
            weights=model,
            metrics=zoo.Metrics(
                dataset=RECIPES[name].dataset,
                split="test",
                num_test_images=1,
                sampling_density=0.8,
                accuracy=dict.fromkeys(SIZES, 0.5),
                mean_accuracy=0.5,
                golden=zoo.Golden(sample_set="fashion_mnist", indices=(0,), logits=((0.0,) * 10,)),
                sample_accuracy=0.5,
                versions={},
            ),
            recipe={"name": name, "budget": "cpu", "seed": 0, "lineage": []},
            card="",
        )
    return path


def test_exhibits_name_recipes():
    for name, exhibit in EXHIBITS.items():
        assert re.fullmatch(r"[a-z0-9_]+", name)
        assert exhibit.networks and set(exhibit.networks) <= set(RECIPES)


def test_without_networks_the_page_says_what_is_missing(tmp_path):
    (tmp_path / "zoo").mkdir()
    text = write_gallery(tmp_path / "zoo", tmp_path / "docs").read_text()
    assert text.count("Not yet trained: ") == len(EXHIBITS) and "![" not in text
    for name in EXHIBITS:
        assert f"```\npython -m training gallery {name}\n```" in text
    assert list((tmp_path / "docs" / "figures").iterdir()) == []


@pytest.mark.heavy
def test_page_shows_what_can_be_drawn(small_zoo, tmp_path):
    text = write_gallery(small_zoo, tmp_path).read_text()
    shown = set(re.findall(rf"\(figures/{PREFIX}(\w+)\.png\)", text))
    assert shown == {
        "activation_maps_fashion_translated_max_2jet",
        "activation_maps_channels_cifar_avg_2jet",
        "filters_2jet_cifar_avg_2jet",
        "filters_3jet_cifar_avg_3jet",
        "localisation_fashion_translated_max_2jet",
    }
    files = {file.name for file in (tmp_path / "figures").iterdir()}
    assert files == {f"{PREFIX}{name}.{suffix}" for name in shown for suffix in ("png", "pdf")}
    assert text.count("Not yet trained: ") == len(EXHIBITS) - len(shown)


def test_one_figure_leaves_the_others_alone(small_zoo, tmp_path):
    """And no picture gets the caption of a network that it does not show."""
    (tmp_path / "figures").mkdir()

    def drawn_before(stem: str):
        file = tmp_path / "figures" / f"{PREFIX}{stem}.png"
        file.write_bytes(b"old")
        return file

    old = drawn_before("filters_3jet_cifar_avg_3jet")
    gone = drawn_before("activation_maps_channels_fashion_avg_2jet")  # not in the zoo any more
    of_yesterday = drawn_before("of_yesterday")
    text = write_gallery(small_zoo, tmp_path, names=["filters_2jet"]).read_text()
    assert old.read_bytes() == b"old" and f"({old.relative_to(tmp_path)})" in text
    assert "`cifar_avg_3jet`" in text
    new = tmp_path / "figures" / f"{PREFIX}filters_2jet_cifar_avg_2jet.png"
    assert new.stat().st_size > 10_000 and f"({new.relative_to(tmp_path)})" in text
    assert not gone.exists() and not of_yesterday.exists()


def test_what_is_not_drawn_is_distinguished_from_what_cannot_be(small_zoo, tmp_path):
    results = ZooResults.read(small_zoo)
    text = gallery.page(results, tmp_path)
    sections = dict(re.findall(r"(?ms)^## (.*?)$(.*?)(?=^## |\Z)", text))
    for exhibit in EXHIBITS.values():
        reason = "Not drawn yet" if exhibit.best(results) else "Not yet trained: `"
        assert reason in sections[exhibit.title]


def test_a_picture_keeps_the_name_of_its_network(tmp_path):
    """A better network comes: what was drawn before is still captioned with what it shows."""
    key, (better, *_, worse) = "filters_2jet", EXHIBITS["filters_2jet"].networks
    results = ZooResults(
        {name: folder(name, dict.fromkeys(SIZES, 0.9)) for name in (better, worse)}
    )
    (tmp_path / "figures").mkdir()
    (tmp_path / f"{EXHIBITS[key].file(key, worse)}.png").touch()
    text = gallery.page(results, tmp_path)
    assert f"`{worse}`" in text and f"_{worse}.png" in text
    assert f"`{better}`" not in text
    assert EXHIBITS[key].best(results) == better
    (tmp_path / f"{EXHIBITS[key].file(key, better)}.png").touch()
    text = gallery.page(results, tmp_path)
    assert f"`{better}`" in text and f"_{better}.png" in text


def test_the_committed_page_is_that_of_the_committed_zoo():
    """After `publish`: `python -m training gallery`."""
    results, docs = ZooResults.read(CHECKOUT / "zoo"), CHECKOUT / "docs"
    best = {key: exhibit.best(results) for key, exhibit in EXHIBITS.items()}
    shown = {key: name for key, name in best.items() if name is not None}
    text = (docs / "GALLERY.md").read_text()
    assert text == gallery.page(results, docs, shown=shown)
    linked = set(re.findall(r"\(figures/([^)]+)\)", text))
    files = {file.name for file in (docs / "figures").iterdir()}
    assert linked <= files and {f for f in files if f.startswith(PREFIX)} <= linked


@pytest.mark.parametrize("group", ["all", "correct", "wrong"])
def test_the_panels_of_a_histogram_are_named(group):
    assert group in EXHIBITS["scale_selection"].text


def test_an_exhibit_shows_the_best_network_that_is_there(small_zoo, tmp_path):
    """Fashion where there is no CIFAR, and another figure than the report only if it differs."""
    name = "fashion_max_2jet"
    shares = np.eye(7)[[1, 3, 5]].tolist()
    groups = [dict.fromkeys(("all", "correct", "wrong"), share) for share in shares]
    write(tmp_path / "zoo", name, dict.fromkeys(SIZES, 0.9), dict(zip(SIZES, groups, strict=True)))
    chosen = ["filters_2jet", "scale_selection"]
    text = write_gallery(tmp_path / "zoo", tmp_path, names=chosen).read_text()
    assert f"`{name}`" in text
    assert f"(figures/report_selection_{name}.png)" in text  # the file that the report draws too
    files = {file.stem for file in (tmp_path / "figures").iterdir()}
    assert files == {f"{PREFIX}filters_2jet_{name}", f"report_selection_{name}"}
    text = write_gallery(small_zoo, tmp_path, names=["filters_2jet"]).read_text()
    assert "`cifar_avg_2jet`" in text
    assert not (tmp_path / "figures" / f"{PREFIX}filters_2jet_{name}.png").exists()


def test_filters_are_labelled_with_the_nearest_derivative(small_zoo):
    figure = gallery.filters(ZooResults.read(small_zoo), "cifar_avg_3jet", columns=2)
    titles = [ax.get_title() for ax in figure.axes if ax.axison]
    assert len(titles) == 2 + 1 + 2  # layers of 2, 1 and 10 outputs, two columns
    assert all(re.fullmatch(r"(∂[²³]? \d+°|∇²)\n[+-][01]\.\d\d", title) for title in titles)
    assert [ax.get_ylabel() for ax in figure.axes[::2]] == [
        "layer 1\nσ = 1",
        "layer 2\nσ = 1.45",
        "layer 3\nσ = 2.1",
    ]


def test_maps_over_sizes_show_the_winning_channel(small_zoo):
    results = ZooResults.read(small_zoo)
    name = "fashion_translated_max_2jet"
    figure = gallery.maps_over_sizes(results, name, classes=("bag",))
    images, maps = figure.axes[:3], figure.axes[3:]
    assert [ax.get_title() for ax in images] == ["bag, size ½", "bag, size 1", "bag, size 2"]
    for ax in maps:
        sigma, highest = re.fullmatch(r"σ₀ = ([\d.]+), max ([\d.]+)", ax.get_title()).groups()
        assert float(sigma) in (0.5, 1.0, 2.0)
        assert float(highest) == pytest.approx(ax.images[0].get_array().max(), abs=0.06)
    shown = images[1].images[0].get_array()
    samples = load_samples("rescaled_fashion_mnist_translated")
    of_class = samples.images[samples.labels == samples.class_names.index("bag")][..., 0] / 255
    assert any(np.allclose(shown, image) for image in of_class)


def test_two_objects_stand_side_by_side():
    large, small = (load_samples("rescaled_fashion_mnist", size_factor=s) for s in (2.0, 1.0))
    canvas = side_by_side(large, small, "trouser", "sneaker")
    assert canvas.shape == (72, 144, 1)
    halves = (large, "trouser", canvas[:, :72]), (small, "sneaker", canvas[:, 72:])
    for samples, wanted, half in halves:
        place = np.flatnonzero([np.array_equal(image, half) for image in samples.images])
        assert samples.class_names[samples.labels[place[0]]] == wanted


def test_command_line(tmp_path, capsys):
    (tmp_path / "zoo").mkdir()
    options = ["--zoo", str(tmp_path / "zoo"), "--docs", str(tmp_path / "docs")]
    assert main(["gallery", *options]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "docs" / "GALLERY.md")
    assert main(["gallery", "pictures", *options]) == 1
    assert "error: `names` must be of ['scale_generalisation'" in capsys.readouterr().err
