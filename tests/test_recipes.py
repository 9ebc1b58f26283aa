"""The recipes against the paper's tables, whose rows are typed here as the paper prints them."""

import dataclasses
import math
from itertools import pairwise

import pytest

from gdn_keras.config import GaussDerNetConfig
from gdn_keras.datasets.stir import STIR_SIZES
from training.recipes import RECIPES, TINY, Recipe, derived, get, trained

ROOT = math.sqrt(2)
SEVEN = (1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1, ROOT, 2, 2 * ROOT)
SIX = SEVEN[:-1]
ALL = pytest.mark.parametrize("recipe", list(RECIPES.values()), ids=list(RECIPES))

# Table 1, columns: rescaled Fashion-MNIST, rescaled CIFAR-10, STIR
TABLE_1 = {
    "Number of scale channels": (7, 6, 6),
    "Initial scale value range": ((ROOT**-3, 2 * ROOT), (ROOT**-3, 2), (ROOT**-3, 2)),
    "Relative scale ratio": (1.28, 1.45, 1.45),
    "Number of layers": (6, 6, 6),
    "Intermediate feature channels": (
        (32, 48, 64, 96, 128),
        (64, 96, 128, 160, 192),
        (32, 48, 64, 96, 128),
    ),
    "Spatial selection method": ("centre", "centre", "max"),
    "Number of network parameters": (146_000, 430_000, 146_000),
    "Input image size": ((72, 72), (64, 64), (64, 64)),
}
# Table 2, same columns
TABLE_2 = {
    "Initial learning rate": (0.01, 0.01, 0.01),
    "Batch size": (32, 30, 32),
    "Number of training epochs": (32, 60, 24),
    "Weight decay": (0.05, 0.025, 0.025),
}
# one network per column of Tables 1 and 2, at its full number of scale channels
COLUMNS = ("fashion_avg_2jet", "cifar_avg_2jet", "stir_aerial_mid_drop")

# Tables 9 and 10 (appendix A.1): network, relative scale ratio, initial scale values
TABLE_9 = [
    ("fashion_single_2jet_s0p50", 1.47, (1 / 2,)),
    ("fashion_max_2jet_s0p50", 1.47, (1 / 4, 1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1, ROOT)),
    ("fashion_avg_2jet_s0p50", 1.47, (1 / 4, 1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1, ROOT)),
    ("fashion_single_2jet_s0p71", 1.37, (1 / ROOT,)),
    ("fashion_max_2jet_s0p71", 1.37, (1 / 4, 1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1, ROOT, 2)),
    ("fashion_avg_2jet_s0p71", 1.37, (1 / 4, 1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1, ROOT, 2)),
    ("fashion_single_2jet", 1.28, (1,)),
    ("fashion_max_2jet", 1.28, SEVEN),
    ("fashion_avg_2jet", 1.28, SEVEN),
]
TABLE_10 = [
    ("cifar_single_2jet_s0p50", 1.67, (1 / 2,)),
    ("cifar_max_2jet_s0p50", 1.67, (1 / 4, 1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1)),
    ("cifar_avg_2jet_s0p50", 1.67, (1 / 4, 1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1)),
    ("cifar_single_2jet_s0p71", 1.56, (1 / ROOT,)),
    ("cifar_max_2jet_s0p71", 1.56, (1 / 4, 1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1, ROOT)),
    ("cifar_avg_2jet_s0p71", 1.56, (1 / 4, 1 / (2 * ROOT), 1 / 2, 1 / ROOT, 1, ROOT)),
    ("cifar_single_2jet", 1.45, (1,)),
    ("cifar_max_2jet", 1.45, SIX),
    ("cifar_avg_2jet", 1.45, SIX),
]
# rows of Tables 5 and 6 (and of 7 and 8) -> the method that belongs to the words
KERNELS = {
    "Discrete Gaussian + central differences": "discrete",
    "Sampled Gaussian derivatives": "sampled_derivative",
    "Integrated Gaussian derivatives": "integrated_derivative",
    "Sampled Gaussian + central differences": "sampled",
    "Normalised sampled Gaussian + central differences": "normalised",
    "Integrated Gaussian + central differences": "integrated",
}
TABLES_5_AND_6 = {"s0p50": 1 / 2, "s0p71": 1 / ROOT, "s1p00": 1}  # columns
RATIOS = {"fashion28": (1.47, 1.37, 1.28), "cifar32": (1.67, 1.56, 1.45)}
TABLES_7_AND_8 = [  # rows: kernel, batch normalisation in the final layer
    ("Sampled Gaussian derivatives", "bn"),
    ("Integrated Gaussian derivatives", "bn"),
    ("Sampled Gaussian derivatives", "nobn"),
    ("Integrated Gaussian derivatives", "nobn"),
    ("Sampled Gaussian + central differences", "bn"),
    ("Integrated Gaussian + central differences", "bn"),
    ("Sampled Gaussian + central differences", "nobn"),
    ("Integrated Gaussian + central differences", "nobn"),
]
# section: network, scale pooling, jet order, q, cutout, spatial selection
SECTIONS = [
    ("6.1", "fashion_single_2jet", None, 2, 0.0, False, "centre"),
    ("6.1", "fashion_max_2jet", "max", 2, 0.2, False, "centre"),
    ("6.1", "fashion_avg_2jet", "average", 2, 0.0, False, "centre"),
    ("6.2", "fashion_translated_max_2jet", "max", 2, 0.2, False, "max"),
    ("6.2", "fashion_translated_avg_2jet", "average", 2, 0.2, False, "max"),
    ("6.3", "cifar_single_2jet", None, 2, 0.0, False, "centre"),
    ("6.3", "cifar_max_2jet", "max", 2, 0.3, False, "centre"),
    ("6.3", "cifar_avg_2jet", "average", 2, 0.3, False, "centre"),
    ("7.1", "fashion_max_2jet_nodrop", "max", 2, 0.0, False, "centre"),
    ("7.1", "fashion_avg_2jet_drop", "average", 2, 0.2, False, "centre"),
    ("7.1", "cifar_max_2jet_nodrop", "max", 2, 0.0, False, "centre"),
    ("7.1", "cifar_avg_2jet_nodrop", "average", 2, 0.0, False, "centre"),
    ("7.1", "cifar_max_2jet_cutout", "max", 2, 0.0, True, "centre"),
    ("7.1", "cifar_avg_2jet_cutout", "average", 2, 0.0, True, "centre"),
    ("7.2", "fashion_avg_3jet", "average", 3, 0.2, False, "centre"),
    ("7.2", "cifar_avg_3jet", "average", 3, 0.3, False, "centre"),
    ("7.3", "fashion_lse_2jet", "logsumexp", 2, 0.2, False, "centre"),
    ("7.3", "cifar_lse_2jet", "logsumexp", 2, 0.3, False, "centre"),
]
# sections 7.4 and 7.5: "when trained with zero padding"
FOOTNOTES = ("cifar32_discrete_s0p50", "cifar32_learned_sampled_derivative_bn_lr1e-4")
STIR = {  # dataset: classes, image channels, section, classes whose names come with the package
    "sign": (16, 3, "6.4", ()),
    "aerial": (9, 3, "6.4", ()),
    "emoji": (36, 1, None, ("tired", "surprise", "smile-wink")),
    "gtsrb": (8, 3, None, ("general caution", "priority road", "right of way")),
}


def pairs(config: GaussDerNetConfig) -> int:
    """Pairs of an input and an output feature channel, over all layers."""
    return sum(a * b for a, b in pairwise((config.input_channels, *config.layer_widths)))


@pytest.mark.parametrize("column, name", list(enumerate(COLUMNS)))
def test_table_1(column, name):
    config = get(name).config
    row = {words: values[column] for words, values in TABLE_1.items()}
    row["Initial scale value range"] = pytest.approx(row["Initial scale value range"])
    assert row == {
        "Number of scale channels": len(config.channel_sigmas),
        "Initial scale value range": (config.channel_sigmas[0], config.channel_sigmas[-1]),
        "Relative scale ratio": config.sigma_ratio,
        "Number of layers": config.num_layers,
        "Intermediate feature channels": config.widths,
        "Spatial selection method": config.spatial_selection,
        "Number of network parameters": round(6 * pairs(config), -3),
        "Input image size": config.input_size,
    }


@pytest.mark.parametrize("column, name", list(enumerate(COLUMNS)))
def test_table_2(column, name):
    recipe = get(name)
    assert {words: values[column] for words, values in TABLE_2.items()} == {
        "Initial learning rate": recipe.learning_rate,
        "Batch size": recipe.batch_size,
        "Number of training epochs": recipe.epochs,
        "Weight decay": recipe.weight_decay,
    }
    assert recipe.final_learning_rate == 1e-5


def test_parameter_counts_of_the_paper():
    for name, count in (("fashion_avg_2jet", 146_112), ("cifar_avg_2jet", 430_464)):
        assert 6 * pairs(get(name).config) == count


@pytest.mark.parametrize("name, ratio, sigmas", TABLE_9 + TABLE_10)
def test_tables_9_and_10(name, ratio, sigmas):
    config = get(name).config
    assert config.sigma_ratio == ratio
    assert config.channel_sigmas == pytest.approx(sigmas)
    if "_single_" not in name:
        assert config.scale_pooling == ("max" if "_max_" in name else "average")


@pytest.mark.parametrize("name", [row[0] for row in TABLE_9 + TABLE_10 if "_single_" not in row[0]])
def test_transferred_networks_have_weights_that_fit(name):
    config, transfer = get(name).config, get(f"{name}_transfer")
    source = get(transfer.transfer_from)
    assert transfer.config == config.replace(scale_dropout=0.0)
    assert source.transfer_from is None
    assert source.config.channel_sigmas[0] in config.channel_sigmas
    assert source.config.sigma_ratio == config.sigma_ratio
    assert source.config.widths == config.widths
    assert (transfer.dataset, transfer.paper_section) == (source.dataset, "A.1")


@pytest.mark.parametrize("family, side", [("fashion28", 28), ("cifar32", 32)])
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_tables_5_and_6(family, side, kernel):
    columns = zip(TABLES_5_AND_6.items(), RATIOS[family], strict=True)
    for (tag, sigma), ratio in columns:
        recipe = get(f"{family}_{KERNELS[kernel]}_{tag}")
        config = recipe.config
        assert config.method == KERNELS[kernel]
        assert config.channel_sigmas == pytest.approx((sigma,))
        assert config.sigma_ratio == ratio
        assert config.input_size == (side, side)
        assert (config.spatial_selection, config.learned_sigmas) == ("centre", False)
        assert (recipe.paper_section, recipe.sigma_learning_rate) == ("7.4", None)


RATES = {"lr1e-4": 0.0001, "lr1e-3": 0.001, "lr1e-2": 0.01}  # columns of Tables 7 and 8
STARRED = ("cifar32", "Integrated Gaussian derivatives", "nobn", "lr1e-2")


@pytest.mark.parametrize("family, side, ratio", [("fashion28", 28, 1.28), ("cifar32", 32, 1.4)])
@pytest.mark.parametrize("kernel, norm", TABLES_7_AND_8)
@pytest.mark.parametrize("column", list(RATES))
def test_networks_of_tables_7_and_8(family, side, ratio, kernel, norm, column):
    config = get(f"{family}_learned_{KERNELS[kernel]}_{norm}_{column}").config
    assert (config.method, config.learned_sigmas) == (KERNELS[kernel], True)
    assert config.final_batch_norm == (norm == "bn")
    assert config.channel_sigmas == (1.0,)
    assert config.sigma_ratio == (1.48 if (family, kernel, norm, column) == STARRED else ratio)
    assert config.input_size == (side, side)
    low, high = config.sigma_range
    assert low < 0.206  # the smallest sigma of a first layer that the paper reports
    assert max(config.layer_sigmas(1.0)) < high


@pytest.mark.parametrize("family", ["fashion28", "cifar32"])
@pytest.mark.parametrize("kernel, norm", TABLES_7_AND_8)
@pytest.mark.parametrize("column", list(RATES))
def test_training_of_tables_7_and_8(family, kernel, norm, column):
    recipe = get(f"{family}_learned_{KERNELS[kernel]}_{norm}_{column}")
    assert recipe.fixed_last_sigma == ((family, kernel, norm, column) == STARRED)
    assert recipe.sigma_learning_rate == RATES[column]
    assert recipe.sigma_weight_decay == 0.025
    assert recipe.paper_section == "7.5"


@pytest.mark.parametrize("section, name, pooling, jet, dropout, cutout, selection", SECTIONS)
def test_networks_of_sections_6_and_7(section, name, pooling, jet, dropout, cutout, selection):
    recipe, config = get(name), get(name).config
    assert recipe.paper_section == section
    assert (config.jet_order, config.scale_dropout) == (jet, dropout)
    assert (recipe.cutout, config.spatial_selection) == (cutout, selection)
    if pooling is None:
        assert config.channel_sigmas == (1.0,)
    else:
        assert config.scale_pooling == pooling
        expected = SIX if name.startswith("cifar") else SEVEN
        assert config.channel_sigmas == pytest.approx(expected)


@pytest.mark.parametrize("dataset", list(STIR))
@pytest.mark.parametrize(
    "sizes, first, last", [("small", 17, 32), ("mid", 33, 48), ("large", 49, 64)]
)
@pytest.mark.parametrize("variant, dropout", [("drop", 0.3), ("nodrop", 0.0)])
def test_stir(dataset, sizes, first, last, variant, dropout):
    recipe = get(f"stir_{dataset}_{sizes}_{variant}")
    classes, channels, section, names = STIR[dataset]
    assert (recipe.config.num_classes, recipe.config.input_channels) == (classes, channels)
    assert recipe.config.class_names[:3] == names
    assert recipe.config.scale_dropout == dropout
    assert recipe.config.scale_pooling == "average"
    assert recipe.config.channel_sigmas == pytest.approx(SIX)
    assert recipe.dataset == f"stir_{dataset}"
    assert STIR_SIZES.ranges[recipe.train_sizes] == (first, last)
    assert recipe.paper_section == section


def column_of(recipe: Recipe) -> int:
    """Its column of Tables 1 and 2."""
    return ["fashion", "cifar", "stir"].index(recipe.name.split("_")[0].rstrip("2380"))


@ALL
def test_splits_padding_and_augmentation_follow_the_data(recipe):
    column, variant = column_of(recipe), recipe.name.rpartition("_")[2]
    cifar = variant if variant in ("zero", "mirror") else "reflect"
    assert recipe.config.padding == ("zero", cifar, "reflect")[column]
    assert recipe.train_split == ("train+validation", "train+validation", "train")[column]
    assert recipe.flip == (True, True, False)[column]
    assert recipe.colour_jitter is (False, True, False)[column]
    assert (recipe.train_sizes is None) == (column != 2)


@ALL
def test_training_follows_table_2(recipe):
    table_2 = {words: values[column_of(recipe)] for words, values in TABLE_2.items()}
    if recipe.transfer_from:
        table_2["Number of training epochs"] = 0
    assert table_2 == {
        "Initial learning rate": recipe.learning_rate,
        "Batch size": recipe.batch_size,
        "Number of training epochs": recipe.epochs,
        "Weight decay": recipe.weight_decay,
    }


@ALL
def test_what_all_networks_have_in_common(recipe):
    config = recipe.config
    assert config.widths == TABLE_1["Intermediate feature channels"][column_of(recipe)]
    assert config.sampling_density is None
    assert (recipe.sigma_learning_rate is None) == (not config.learned_sigmas)
    nameless = recipe.group in ("stir_sign", "stir_aerial")
    assert len(config.class_names) == (0 if nameless else config.num_classes)


@ALL
def test_every_recipe_is_a_valid_config_under_its_own_name(recipe):
    assert isinstance(recipe, Recipe)
    assert get(recipe.name) is recipe
    assert GaussDerNetConfig.from_json(recipe.config.to_json()) == recipe.config
    with pytest.raises(dataclasses.FrozenInstanceError):
        recipe.epochs = 1


@pytest.mark.parametrize("name", FOOTNOTES)
def test_footnotes_differ_in_the_padding_only(name):
    recipe, other = get(f"{name}_zero"), get(name)
    assert (recipe.config.padding, other.config.padding) == ("zero", "reflect")
    config = recipe.config.replace(padding="reflect")
    assert dataclasses.replace(recipe, name=name, config=config) == other


@pytest.mark.parametrize("pooling", ["max", "avg"])
def test_mirrored_networks_differ_in_the_padding_only(pooling):
    recipe, other = get(f"cifar_{pooling}_2jet_mirror"), get(f"cifar_{pooling}_2jet")
    assert (recipe.config.padding, other.config.padding) == ("mirror", "reflect")
    config = recipe.config.replace(padding="reflect", reach=None)
    assert dataclasses.replace(recipe, config=config) == dataclasses.replace(
        other, name=recipe.name, group="cifar_mirror", paper_section=None
    )


def test_counts():
    in_paper = [recipe for recipe in trained() if recipe.paper_section is not None]
    assert len(in_paper) == 126 + len(FOOTNOTES)
    assert len(derived()) == 12
    extra = {recipe.group for recipe in trained()} - {recipe.group for recipe in in_paper}
    assert extra == {"stir_emoji", "stir_gtsrb", "cifar_mirror"}
    assert len(trained()) == 126 + len(FOOTNOTES) + 2 * 6 + 2
    assert len(RECIPES) == len(trained()) + len(derived())  # names are unique


def test_every_recipe_of_the_paper_is_in_a_table_above():
    typed = {row[0] for row in TABLE_9 + TABLE_10} | {row[1] for row in SECTIONS}
    assert len(typed) == 7 + 6 + 2 + 9 + 6
    assert len(typed) + 12 + 2 * len(KERNELS) * 3 + 2 * len(TABLES_7_AND_8) * 3 == 126


def test_no_two_networks_are_alike():
    nameless = {
        dataclasses.replace(recipe, name="", group="", paper_section="") for recipe in trained()
    }
    assert len(nameless) == len(trained())


def test_tiny_recipes_are_found_but_not_counted():
    assert not set(TINY) & set(RECIPES)
    for name, recipe in TINY.items():
        assert get(name) is recipe and recipe.name == name
        assert recipe.paper_section is None


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"Did you mean 'fashion_avg_2jet'.*Received: name='fashio"
    ):
        get("fashio_avg_2jet")
