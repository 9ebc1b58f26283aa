"""GaussDerNetConfig: what it accepts, what it says when it refuses, and its JSON."""

import dataclasses
import json
import math

import numpy as np
import pytest

from gdn_keras import GaussDerNetConfig
from training import recipes

REQUIRED = {
    "input_size": (32, 24),
    "input_channels": 3,
    "num_classes": 10,
    "channel_sigmas": (0.5, 1.0),
    "sigma_ratio": 1.28,
    "widths": (8, 16),
}


def make(**changes):
    return GaussDerNetConfig(**{**REQUIRED, **changes})


EVERY_FIELD = make(
    jet_order=3,
    zero_order=True,
    method="integrated",
    compensate_integration=True,
    truncation=0.001,
    padding="edge",
    spatial_selection="max",
    scale_pooling="logsumexp",
    scale_dropout=0.3,
    final_batch_norm=False,
    final_relu=False,
    activation="gelu",
    learned_sigmas=True,
    sigma_range=(0.75, 5.0),
    class_names=tuple("abcdefghij"),
    pixel_range=(0, 1),
    sampling_density=1 / math.sqrt(2),
    reach=1.25,
    window=False,
)


def test_blocks_are_the_chain_from_the_image_to_the_classes():
    first, second, last = make(zero_order=True, jet_order=3).blocks()
    assert (first.jet, first.norm, first.activated) == ("jet_1", "norm_1", "relu_1")
    assert (last.jet, last.norm, last.activated) == ("jet_3", "norm_3", "relu_3")
    blocks = (first, second, last)
    assert [(block.c_in, block.c_out) for block in blocks] == [(3, 8), (8, 16), (16, 10)]
    assert [block.zero_order for block in blocks] == [False, True, True]
    assert [len(block.terms) for block in blocks] == [9, 10, 10]
    assert [block.relative_sigma for block in blocks] == [1.0, 1.28, 1.28**2]


def test_blocks_have_the_layers_that_the_config_says():
    blocks = make(final_batch_norm=False, final_relu=False).blocks()
    assert [block.norm for block in blocks] == ["norm_1", "norm_2", None]
    assert [block.activated for block in blocks] == ["relu_1", "relu_2", None]
    folded = make().blocks(folded=True)
    assert [block.norm for block in folded] == [None] * 3
    assert [block.activated for block in folded] == ["relu_1", "relu_2", "relu_3"]


def test_every_field_survives_json_bit_for_bit():
    defaults = make()
    for field in dataclasses.fields(GaussDerNetConfig):
        if field.name not in REQUIRED:
            assert getattr(EVERY_FIELD, field.name) != getattr(defaults, field.name), field.name
    for config in (defaults, EVERY_FIELD):
        again = GaussDerNetConfig.from_json(config.to_json())
        assert again == config
        assert hash(again) == hash(config)
        assert again.to_json() == config.to_json()
        assert GaussDerNetConfig.from_dict(config.to_dict()) == config


def test_every_recipe_survives_json():
    for recipe in recipes.RECIPES.values():
        assert GaussDerNetConfig.from_json(recipe.config.to_json()) == recipe.config


def test_json_is_an_object_with_a_version_and_every_field():
    data = json.loads(make().to_json())
    assert data.pop("format_version") == 2
    assert set(data) == {field.name for field in dataclasses.fields(GaussDerNetConfig)}


def test_numpy_and_lists_become_plain_python():
    config = make(
        input_size=np.array([32, 24]),
        num_classes=np.int64(10),
        channel_sigmas=[np.float64(0.5), np.float32(1.0)],
        widths=[8, 16],
        final_relu=np.True_,
    )
    assert config == make()
    assert config.to_json() == make().to_json()
    assert type(config.num_classes) is int
    assert [type(sigma) for sigma in config.channel_sigmas] == [float, float]


def test_frozen_and_keyword_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().num_classes = 3
    with pytest.raises(TypeError, match="positional"):
        GaussDerNetConfig((32, 32))


def test_layers():
    config = make(widths=(8, 16, 24))
    assert config.num_layers == 4
    assert config.layer_widths == (8, 16, 24, 10)
    np.testing.assert_allclose(config.layer_sigmas(0.5), 0.5 * 1.28 ** np.arange(4))


def test_replace_changes_a_copy():
    config = make()
    assert config.replace(padding="reflect") == make(padding="reflect")
    assert config == make()


def test_ratios_of_sigmas_can_differ_from_layer_to_layer():
    config = make(sigma_ratio=[1.5, 2.0])
    assert config.layer_sigmas(0.5) == (0.5, 0.75, 1.5)
    assert [block.relative_sigma for block in config.blocks()] == [1.0, 1.5, 3.0]
    assert GaussDerNetConfig.from_json(config.to_json()) == config
    assert make(sigma_ratio=(2.0, 2.0)).layer_sigmas(1.0) == make(sigma_ratio=2.0).layer_sigmas(1.0)


def test_one_number_is_a_square():
    assert make(input_size=32) == make(input_size=np.int64(32)) == make(input_size=(32, 32))
    assert make().replace(input_size=32).input_size == (32, 32)


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("chanel_sigmas", "channel_sigmas"),
        ("pooling", "scale_pooling"),
        ("density", "sampling_density"),
        ("sigmaratio", "sigma_ratio"),
        ("classes", "num_classes"),
    ],
)
def test_unknown_field_gets_the_nearest_name(wrong, right):
    text = f"{wrong!r}.*{right!r}"
    with pytest.raises(ValueError, match=text):
        GaussDerNetConfig.from_dict({**REQUIRED, wrong: 1})
    with pytest.raises(ValueError, match=text):
        make().replace(**{wrong: 1})


def test_missing_fields_are_named():
    with pytest.raises(ValueError, match="num_classes, sigma_ratio.*Received: "):
        data = {k: v for k, v in REQUIRED.items() if k not in ("num_classes", "sigma_ratio")}
        GaussDerNetConfig.from_dict(data)


@pytest.mark.parametrize(
    "old, changes",
    [
        ({"padding": "zero"}, {}),
        ({"padding": "mirror"}, {"reach": 1.0}),
        ({"learned_sigmas": True, "sampling_density": 0.7}, {"sampling_density": None}),
        ({"learned_sigmas": False, "sampling_density": 0.7}, {}),
    ],
)
def test_files_of_version_1_are_read_as_they_were_computed(old, changes):
    data = {**REQUIRED, **old, "format_version": 1}
    assert GaussDerNetConfig.from_dict(data) == make(**old | changes)


def test_other_versions_and_other_files_are_refused():
    for version in (0, 3, "2", None):
        text = f"`format_version` must be at most 2.* format_version={version!r}"
        with pytest.raises(ValueError, match=text):
            GaussDerNetConfig.from_dict({**REQUIRED, "format_version": version})
    with pytest.raises(ValueError, match="config .*JSON"):
        GaussDerNetConfig.from_json("{")
    with pytest.raises(ValueError, match=r"JSON object.*Received: \[1, 2\]"):
        GaussDerNetConfig.from_json("[1, 2]")


METHODS = "('discrete', 'sampled', 'normalised', 'integrated', 'sampled_derivative', "
WRONG = {
    "input_size": (
        [(32,), (32, 0), (32.0, 32), True, (3, 4, 5)],
        "two positive integers, (height,",
    ),
    "input_channels": ([0, 1.0, True, None], "a positive integer"),
    "num_classes": ([0, -1, "10"], "a positive integer"),
    "channel_sigmas": (
        [(), (1.0, 1.0), (2.0, 1.0), (0.0, 1.0), (math.nan,), (math.inf,), 1.0, ("1",)],
        "positive and strictly increasing",
    ),
    "sigma_ratio": (
        [0.99, 10, math.nan, "2", None, (), (1.5,), (1.5, 0.9), (1.5, 1.5, 1.5), (1.5, "2")],
        "in [1, 10), or a tuple of 2 such numbers",
    ),
    "widths": ([(), (0,), (8, 1.5), 8], "positive integers"),
    "jet_order": ([0, 5, 2.0, "2"], "one of (1, 2, 3, 4)"),
    "zero_order": ([1, None, "yes"], "True or False"),
    "method": (["gaussian", 3], f"one of {METHODS}"),
    "compensate_integration": ([1], "True or False"),
    "truncation": ([0, 1e-13, 0.6, math.nan, None], "a number from 1e-12 to 0.5"),
    "padding": (["same", None], "one of ('zero', 'reflect', 'edge', 'mirror')"),
    "spatial_selection": (["center", None], "one of ('centre', 'max', 'none')"),
    "scale_pooling": (["mean", None], "one of ('max', 'average', 'logsumexp')"),
    "scale_dropout": ([1, 1.5, -0.1, math.nan, None], "in [0, 1)"),
    "final_batch_norm": ([0], "True or False"),
    "final_relu": ([0], "True or False"),
    "activation": (["softmax", "Relu", None], "one of ('relu', 'celu'"),
    "learned_sigmas": ([1], "True or False"),
    "sigma_range": (
        [(1.0,), (0.0, 1.0), (2.0, 1.0), (1.0, math.inf), 3.0],
        "(low, high) with 0 < low < high",
    ),
    "class_names": ([("a",), tuple(range(10)), "abcdefghij"], "empty or 10 strings"),
    "pixel_range": (
        [(0,), (1, 2), (0, 0), (0, math.inf), 255, (0, "1"), (0, True), None],
        "0 and a positive number",
    ),
    "sampling_density": ([0.29, 0, math.inf, math.nan, "1"], "None or at least 0.3"),
    "reach": ([0.49, 0, math.inf, math.nan, "1", True], "None or at least 0.5"),
    "window": ([0, None], "True or False"),
}


def test_every_field_has_wrong_values():
    assert set(WRONG) == {field.name for field in dataclasses.fields(GaussDerNetConfig)}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_named(name):
    values, expected = WRONG[name]
    for value in values:
        with pytest.raises(ValueError) as error:
            make(**{name: value})
        assert str(error.value).startswith(f"`{name}` must be {expected}"), value
        assert str(error.value).endswith(f". Received: {name}={value!r}.")


def test_only_integrated_methods_are_compensated():
    assert make(method="integrated_derivative", compensate_integration=True)
    with pytest.raises(ValueError, match="`method` .*integrated.*'sampled'"):
        make(method="sampled", compensate_integration=True)


def test_learned_sigmas_start_inside_their_range():
    assert make(learned_sigmas=True, sigma_range=(1.0, 1.28**2))
    assert make(sigma_range=(2.0, 3.0))  # not used
    for wrong in ((0.5, 1.5), (1.01, 6.0)):
        with pytest.raises(ValueError, match="`sigma_range` .*initial 1.*Received: "):
            make(learned_sigmas=True, sigma_range=wrong)


def test_compensated_learned_sigmas_cannot_reach_the_variance_of_a_pixel():
    options = {"method": "integrated", "compensate_integration": True, "learned_sigmas": True}
    assert make(**options, sigma_range=(0.58, 6.0))  # 0.5 * 0.58 > 0.2887
    with pytest.raises(ValueError, match="`sigma_range` .*0.2887.*0.57"):
        make(**options, sigma_range=(0.57, 6.0))
