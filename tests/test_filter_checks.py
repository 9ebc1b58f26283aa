"""The checks behind claims about filters, and about places of objects in maps."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from report_tools import (
    claim_with,
    curve,
    metrics_of,
    recipe_of,
    tiny,
)

from gdn_keras import explain, zoo
from gdn_keras.datasets import load_samples
from gdn_keras.model import build_model
from gdn_keras.scale_space import jet_masks
from training.reproduction.claims.filter_checks import (
    central_filters,
    complex_filters,
    derivative_filters,
    located,
    randomise,
    resembling,
)
from training.reproduction.zoo_results import ZooResults


def write_filters(path, name: str, *, pure=(), laplacian=False, seed=0) -> None:
    """Random sums of derivatives, but in the `pure` layers the derivative along x alone, or the
    Laplacian."""
    model = build_model(tiny(name).replace(widths=(16,) * 5))
    rng = np.random.default_rng(seed)
    for layer in range(1, 7):
        weights = model.get_layer(f"jet_{layer}").kernel
        values = rng.normal(size=weights.shape)
        if layer in pure:
            values[:] = 0
            values[0] = 1  # the first term
            if laplacian:
                terms = [(t.name in ("xx", "yy")) / t.factor for t in model.blocks[layer - 1].terms]
                values[:] = np.reshape(terms, (-1, 1, 1))
        weights.assign(values)
    zoo.write_folder(
        path / name,
        config=model.config,
        weights=model,
        metrics=metrics_of(name, curve(0.9, 0.9, 0.9)),
        recipe=recipe_of(name),
        card="",
    )


@pytest.mark.parametrize("pure, holds", [((1, 2), True), ((3, 4, 5, 6), False), ((), None)])
def test_filters_that_are_derivatives_are_recognised(tmp_path, pure, holds):
    """Random sums are derivatives as often as random sums are: that says nothing."""
    name = "cifar_avg_2jet"
    write_filters(tmp_path, name, pure=pure)
    derivatives, laplacians = derivative_filters(
        claim_with("resemble directional"), ZooResults.read(tmp_path)
    )
    assert derivatives.holds == holds and derivatives.text.count("100 %") == bool(pure)
    assert derivatives.text.count("±") == 2
    assert re.match(rf"`{name}`: \d+ like the Laplacian \(\d+ ± \d+\)", laplacians.text)
    assert laplacians.holds is None or pure


@pytest.mark.parametrize("laplacian, holds", [(True, True), (False, None)])
def test_filters_are_concentrated_at_the_centre_if_they_are_laplacians(tmp_path, laplacian, holds):
    name = "cifar_avg_2jet"
    write_filters(tmp_path, name, pure=(1,), laplacian=laplacian)
    results = ZooResults.read(tmp_path)
    (check,) = central_filters(claim_with("concentrated at their"), results)
    assert check.holds == holds


def test_no_sum_of_derivatives_is_more_concentrated_than_the_laplacian():
    """The reading of "concentrated at their centre"."""
    masks = jet_masks(2, False)
    rng = np.random.default_rng(0)
    filters = np.einsum("nt,tyx->nyx", rng.normal(size=(10_000, len(masks))), masks)
    share = filters[:, 1, 1] ** 2 / (filters**2).sum(axis=(1, 2))
    laplacian = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    assert share.max() <= laplacian[1, 1] ** 2 / (laplacian**2).sum()


@pytest.mark.parametrize(
    "row, column, inside",
    [(2, 3, True), (5, 7, True), (1, 3, False), (6, 7, False), (5, 8, False), (None, None, False)],
)
def test_a_response_is_in_the_rectangle_of_the_object_or_not(monkeypatch, row, column, inside):
    image = np.zeros((10, 10, 1))
    image[2:6, 3] = image[5, 3:8] = 1
    place = SimpleNamespace(row=row, column=column)
    monkeypatch.setattr(explain, "localise", lambda *_: [] if row is None else [place])
    assert located(None, [image]) == [inside]


def test_real_objects_are_located_mostly():
    """By a network that was trained on centred ones; their rectangles are 9 % of the images."""
    network = zoo.load("fashion_max_2jet", spatial_selection="max")
    images = load_samples("rescaled_fashion_mnist_translated").images[:6]
    assert sum(located(network, images)) >= 3


def test_random_filters_resemble_nothing_but_by_chance(tmp_path):
    name = "cifar_avg_2jet"
    write_filters(tmp_path, name, seed=1)
    model = zoo.load(tmp_path / name)
    before = resembling(model).derivatives
    randomise(model, seed=0)
    after = resembling(model).derivatives
    assert after != before and after[1:5] == pytest.approx(before[1:5], abs=0.12)
    assert min(before[1:5]) > 0.1  # so that a share alone proves nothing
    randomise(model, seed=1)
    assert resembling(model).derivatives != after


def test_filters_are_complex_if_that_is_learned(tmp_path):
    """Sums of nine random derivatives resemble one of them less often than sums of five do."""
    claim = claim_with("more complex filters")
    two, three = "cifar_avg_2jet", "cifar_avg_3jet"

    def holds(pure_of_two, pure_of_three) -> bool | None:
        write_filters(tmp_path, two, pure=pure_of_two)
        write_filters(tmp_path, three, pure=pure_of_three)
        (check,) = complex_filters(claim, ZooResults.read(tmp_path))
        return check.holds

    assert holds((), ()) is None
    assert holds((), (4, 5, 6)) is False
