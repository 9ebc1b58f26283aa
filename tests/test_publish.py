"""What is published: golden images where the data set has none, the card's words and figure."""

import dataclasses
import re
import shutil
import types
from pathlib import Path

import numpy as np
import pytest
from report_tools import curve, metrics_of, recipe_of, stage_of
from test_zoo_schema import check_facts, check_outputs
from training_helpers import Place, write_stir

from gdn_keras import zoo
from gdn_keras.accuracy import size_keys
from gdn_keras.datasets import get, load_samples, names
from gdn_keras.datasets.samples import SAMPLE_FOLDER
from training import recipes
from training.__main__ import main
from training.budgets import DENSITY, REACH
from training.publishing.card import CHOSEN_BY_TEST, card, card_of_folder, draw_accuracy
from training.publishing.publish import golden_samples
from training.publishing.styles import STYLES
from training.recipes import RECIPES
from training.reproduction.comparison import compare
from training.runs.record import Ancestor, RunRecord

ROOT = Path(__file__).parents[1]
SIGN = "stir_sign_mid_drop"


# === Data sets without bundled images ===


@pytest.mark.parametrize("dataset", sorted({recipe.dataset for recipe in RECIPES.values()}))
def test_every_data_set_has_golden_images(dataset):
    recipe = next(recipe for recipe in RECIPES.values() if recipe.dataset == dataset)
    name, samples = golden_samples(recipe)
    assert samples.images.shape[1:] == (*recipe.config.input_size, recipe.config.input_channels)
    assert name == ("stir_gtsrb" if dataset in ("stir_sign", "stir_aerial") else dataset)


def test_images_of_no_bundled_shape_are_refused():
    recipe = RECIPES[SIGN]
    other = dataclasses.replace(recipe, config=recipe.config.replace(input_size=(65, 64)))
    with pytest.raises(ValueError, match=r"Received: .*\(65, 64, 3\)"):
        golden_samples(other)


@pytest.mark.heavy
def test_a_network_of_the_papers_traffic_signs_is_published(tmp_path, monkeypatch):
    """Their file is not available, so one of its shape is written; the network is a small one."""
    photographs = load_samples("stir_gtsrb").select(slice(None, None, 2))
    signs = types.SimpleNamespace(
        images=photographs.images,
        object_sizes=photographs.object_sizes,
        labels=np.arange(len(photographs)) % 16,
        class_names=tuple(f"sign {n}" for n in range(16)),
    )
    (tmp_path / "data" / "stir").mkdir(parents=True)
    write_stir(tmp_path / "data" / "stir" / "trafficsign.npz", signs)
    recipe = RECIPES[SIGN]
    small = dict(widths=(3,), channel_sigmas=(1.0, 2.0), truncation=0.05)
    tiny = dataclasses.replace(
        recipe, config=recipe.config.replace(**small), epochs=1, batch_size=256
    )
    monkeypatch.setitem(recipes.ALL, SIGN, tiny)
    place = Place(tmp_path / "data", tmp_path)
    assert place("run", SIGN, "--budget", "paper") == 0
    assert place("evaluate", SIGN) == 0
    assert place("publish", SIGN) == 0
    path = place.zoo / SIGN
    metrics = zoo.read_folder(path).metrics
    assert metrics.golden.sample_set == "stir_gtsrb" and metrics.sample_accuracy is None
    assert np.shape(metrics.golden.logits) == (8, 16)
    check_facts(path)
    check_outputs(path)
    assert zoo.read_folder(path).config.class_names[3] == "sign 3"
    assert zoo.info(path).train_sizes == "mid"


# === The card ===


def record_of(name: str, **changes) -> RunRecord:
    config = RECIPES[name].config.replace(sampling_density=DENSITY)
    stage = stage_of(name, name="together", epochs=1, batch_size=32, config=config)
    facts = {"stages": [stage], "images_seen": 1234, "statistics_images": 0, "seconds": 60.0}
    return RunRecord.from_dict(recipe_of(name) | facts).replace(**changes)


def card_of(name: str, accuracy: dict[str, float], **changes) -> str:
    metrics = dataclasses.replace(metrics_of(name, accuracy), **changes.pop("metrics", {}))
    record = record_of(name, **changes)
    recipe = RECIPES[name]
    return card(
        recipe, config=recipe.config, metrics=metrics, record=record, comparison=compare(recipe)
    )


def test_dropout_and_epochs_are_told():
    nine = curve(0.8, 0.9, 0.8)
    text = card_of("fashion_max_2jet", nine)
    assert "- stage `together`: 1 epoch, batch 32" in text and "scale-channel dropout 0.2," in text
    assert "no scale-channel dropout," in card_of("fashion_avg_2jet", nine)
    assert "dropout" not in card_of("fashion_single_2jet", nine)


def test_what_the_text_of_the_paper_names_is_compared_with_ours():
    text = card_of("cifar_avg_2jet", curve(0.7, 0.8, 0.65))
    assert re.search(r"85 to 86 %.*Here: 80\.00 %", text)
    assert re.search(r"8 to 10 ppt .*1 to 1/2\..*Here: 10\.00 ppt", text)
    assert re.search(r"7 to 9 ppt .*1 to 2\..*Here: 15\.00 ppt", text)


def test_what_the_paper_only_draws_is_not_compared():
    text = card_of("fashion_lse_2jet", curve(0.7, 0.8, 0.65))
    assert "section 7.3" in text and "Here:" not in text


def test_images_of_ancestors_are_told():
    names = ("fashion_avg_2jet", "other")
    before = tuple(Ancestor(name=name, seed=0, images=210_000) for name in names)
    text = card_of("fashion_max_2jet", curve(0.8, 0.9, 0.8), ancestors=before)
    assert re.search(r"`cpu`: 1,234 images after 420,000 of its ancestors,", text)


def test_choices_after_a_look_at_the_test_set_are_told():
    words = r"The training of {} was chosen when the test accuracy of an earlier run was known"
    assert words.format("this network") in card_of("cifar_single_2jet", curve(0.3, 0.8, 0.3))
    chosen = Ancestor(name="fashion_single_2jet", seed=0, images=1_920_000)
    before = (chosen, Ancestor(name="x", seed=0))
    text = card_of("fashion_max_2jet_nodrop", curve(0.8, 0.9, 0.8), ancestors=before)
    assert words.format("`fashion_single_2jet`") in text
    first = (dataclasses.replace(chosen, images=360_000),)  # the run before
    text = card_of("fashion_lse_2jet", curve(0.8, 0.9, 0.8), ancestors=first)
    assert "was chosen" not in text
    assert "was chosen" not in card_of("stir_emoji_mid_drop", {"17": 1.0})
    listed = (ROOT / "docs" / "numbers.md").read_text(encoding="utf-8")
    stems = re.findall(r"`([a-z0-9_]+)\{([a-z0-9_,]+)\}([a-z0-9_]*)`|`([a-z0-9_]+)`", listed)
    names = {a + b + c for a, several, c, _ in stems for b in several.split(",")}
    names |= {name for *_, name in stems}
    assert names >= set(CHOSEN_BY_TEST)


def test_fewer_images_than_the_paper_are_told_only_if_it_is_so():
    flat = {str(size): 0.9 for size in range(17, 65)}
    (short,) = record_of("stir_emoji_mid_drop").stages
    long = dataclasses.replace(short, epochs=20)
    few = card_of("stir_emoji_mid_drop", flat, stages=(long,))
    assert re.search("less than the 24 epochs.*sampling density 1/√2.*fewer images", few)
    half = Ancestor(name="stir_emoji_mid_nodrop", seed=0, images=617)  # as many images again
    many = card_of("stir_emoji_mid_drop", flat, stages=(long,), ancestors=(half,))
    assert re.search("less than the 24 epochs.*sampling density 1/√2", many)
    assert "fewer images" not in many
    more = dataclasses.replace(long, name="more")
    full = card_of("stir_emoji_mid_drop", flat, stages=(long, more), budget="paper")
    assert "full schedule of the paper and more" in full and "24 epochs" not in full


COARSE = "on coarse grids (sampling density 1/√2)"


@pytest.mark.parametrize(
    "name, measured, trained",
    [
        # at 28 x 28 pixels no layer ends before the image does
        ("fashion28_discrete_s1p00", "at sampling density 0.707", COARSE),
        ("fashion_avg_2jet", "at sampling density 0.707 and at reach 1", f"{COARSE}, at reach 1"),
    ],
)
def test_cards_say_how_the_network_is_computed(name, measured, trained):
    accuracy = curve(0.8, 0.9, 0.8) if name == "fashion_avg_2jet" else {"1.000": 0.9}
    config = RECIPES[name].config.replace(sampling_density=DENSITY, reach=REACH)

    def text_of(config):
        record = record_of(name)
        record = record.replace(stages=(dataclasses.replace(record.stages[0], config=config),))
        metrics = metrics_of(name, accuracy)
        return card(RECIPES[name], config=config, metrics=metrics, record=record)

    text = text_of(config)
    assert f", {measured}." in text
    less = re.compile("less than the paper's budget.*32 epochs on every pixel: (.*)")
    assert f"{trained} and for fewer images" in less.search(text)[1]
    text = text_of(RECIPES[name].config)
    assert ", on every pixel." in text
    reason = less.search(text)[1]
    assert "for fewer images" in reason and "sampling" not in reason and "reach" not in reason


def test_cards_name_learned_sigmas_that_ended_at_a_bound():
    name = "fashion28_learned_sampled_derivative_bn_lr1e-3"
    config = RECIPES[name].config.replace(sampling_density=DENSITY)
    metrics = dataclasses.replace(metrics_of(name, {"1.000": 0.9}), clamped_sigmas=(1, 3))
    text = card(RECIPES[name], config=config, metrics=metrics, record=record_of(name))
    assert re.search(r"layer 1 .*bound.* 0\.15 to 9\b", text)
    assert re.search(r"layer 3 .*bound.* 1 to 9\b", text)
    assert "bound" not in card_of(name, {"1.000": 0.9})


def test_cards_of_transferred_networks_say_whose_batch_statistics_they_have():
    """Not trained: those of the network with one channel."""
    name = "fashion_max_2jet_transfer"
    metrics = metrics_of(name, curve(0.7, 0.8, 0.7))
    source = {"name": "fashion_single_2jet", "seed": 0, "images": 1_920_000}
    record = RunRecord.from_dict(recipe_of(name) | {"ancestors": [source]})
    text = card(RECIPES[name], config=RECIPES[name].config, metrics=metrics, record=record)
    words = "- batch norm uses the statistics of `fashion_single_2jet`, whose card says what it saw"
    assert words in text and "in training" not in text


def test_cards_say_what_batch_norm_saw():
    centre = "batch norm saw only what can reach the centre in training"
    whole = "batch norm saw whole maps in training"
    name, nine = "fashion_single_2jet", curve(0.4, 0.9, 0.2)
    (first,) = record_of(name).stages
    last = dataclasses.replace(first, name="whole", config=first.config.replace(window=False))
    texts = [card_of(name, nine, stages=stages) for stages in ((first,), (last,), (first, last))]
    assert centre in texts[0] and "whole maps in stage" not in texts[0] and whole not in texts[0]
    assert whole in texts[1] and centre not in texts[1]
    assert centre in texts[2] and "and whole maps in stage `whole`" in texts[2]
    name = "fashion_translated_max_2jet"  # which reads every position
    (first,) = record_of(name).stages
    last = dataclasses.replace(first, config=first.config.replace(window=False))
    for stages in ((first,), (last,)):
        text = card_of(name, nine, stages=stages)
        assert whole in text and centre not in text


def test_cards_name_the_cpu():
    nine = curve(0.8, 0.9, 0.8)
    old = card_of("fashion_avg_2jet", nine, cpu="An Old CPU (AVX2)")
    assert "1 minute on An Old CPU (AVX2)." in old
    assert "1,234 images, in 1 minute. Seed" in card_of("fashion_avg_2jet", nine)


@pytest.mark.parametrize(
    "name, words",
    [
        (
            "fashion28_sampled_s0p50",
            "- input: 28×28 pixels, grey; 10 classes\n"
            "- kernel: `sampled`, differences after smoothing; padding `zero`\n"
            "- σ: 0.5 in the first layer, growing by a factor of 1.47 per layer\n"
            "- cost: 0.3",
        ),
        ("cifar_avg_2jet", "- σ: 0.354, 0.5, 0.707, 1, 1.41 and 2 in the first layer (one per"),
        (
            "cifar32_learned_sampled_derivative_bn_lr1e-4",
            "- kernel: `sampled_derivative`, derivatives of the Gaussian; padding `reflect`\n"
            "- σ: learned, starting at 1 in the first layer, growing by a factor of 1.4 per",
        ),
    ],
)
def test_cards_say_what_the_network_is(name, words):
    assert words in card_of(name, dict.fromkeys(size_keys(RECIPES[name].dataset), 0.8))


@pytest.mark.parametrize("path", zoo.folders(ROOT / "zoo"), ids=lambda path: path.name)
def test_the_cards_of_this_repository_are_up_to_date(path):
    """If this fails: python -m training cards"""
    folder, recipe = zoo.read_folder(path), RECIPES[path.name]
    assert folder.card == card_of_folder(folder, recipe=recipe, comparison=compare(recipe))


def test_a_card_is_written_again_if_it_differs(tmp_path, capsys):
    name = "fashion28_discrete_s1p00"
    shutil.copytree(ROOT / "zoo" / name, tmp_path / name)
    (tmp_path / name / zoo.CARD_FILE).write_text("old")
    for printed in (f"updated: {tmp_path / name / zoo.CARD_FILE}\n", ""):
        assert main(["cards", "--zoo", str(tmp_path)]) == 0
        assert capsys.readouterr().out == printed
    assert zoo.read_folder(tmp_path / name).card == zoo.read_folder(ROOT / "zoo" / name).card


def test_cards_of_stir_say_what_is_measured_on_what():
    flat = {str(size): 0.9 for size in range(17, 65)}
    text = card_of("stir_emoji_mid_drop", flat)
    assert "| size | 17 | 23 | 29 | 35 | 41 | 46 | 52 | 58 | 64 | mean |" in text
    assert "9 of 48" in text and "metrics.json" in text
    assert "SESN 78.59, DISCO 81.55, PixelPool 84.29, CNN 59.38" in text
    assert "36 icons" in text
    other = card_of("stir_gtsrb_mid_drop", flat)
    assert "icons" not in other and "SESN" not in other and "9 of 48" in other


def test_cards_of_mirrored_networks_say_what_the_border_is():
    text = card_of("cifar_avg_2jet_mirror", curve(0.7, 0.8, 0.75))
    assert re.search("padding `mirror`.*`cifar_avg_2jet`.*test accuracies", text)
    assert "below size factor 2 are extended by mirroring" in text  # of the data set
    assert "The paper (section" not in text  # which does not have this network
    assert "mirror" not in card_of("cifar_avg_2jet", curve(0.7, 0.8, 0.75))


def test_one_size_has_no_mean():
    paper = dict(paper_accuracy=0.9308, paper_where="Table 5, section 7.4")
    text = card_of("fashion28_discrete_s1p00", {"1.000": 0.92}, metrics=paper)
    assert "| size | 1 |\n| --- | --- |\n| accuracy % | 92.00 |\n| paper, Table 5" in text
    assert "| mean |" not in text and "**92" not in text
    assert "| mean |" in card_of("fashion_avg_2jet", curve(0.8, 0.9, 0.8))


def test_other_sizes_are_promised_to_several_channels_only():
    several, one = "what the scale channels give", "not meant for objects of other sizes"
    text = card_of("fashion_avg_2jet", curve(0.8, 0.9, 0.8))
    assert several in text and one not in text
    text = card_of("fashion_single_2jet", curve(0.4, 0.9, 0.3))
    assert one in text and several not in text


def licence_of_samples(name: str) -> str:
    """The last cell of the row of a data set in SAMPLES.md."""
    lines = (SAMPLE_FOLDER / "SAMPLES.md").read_text().splitlines()
    (row,) = [line for line in lines if line.startswith(f"| `samples_{name}.npz`")]
    return row.strip("| ").rpartition("|")[2].strip()


@pytest.mark.parametrize("name, licence", [("fashion_mnist", "MIT"), ("stir_emoji", "CC BY 4.0")])
def test_the_licence_of_a_data_set_is_that_of_its_samples(name, licence):
    assert licence_of_samples(name).startswith(licence) and licence in get(name).licence


@pytest.mark.parametrize("name", ["cifar10", "stir_gtsrb"])
def test_where_no_licence_is_stated_none_is_claimed(name):
    assert licence_of_samples(name).startswith("none") and "no licence" in get(name).licence
    assert "cited" in licence_of_samples(name) and "cited" in get(name).licence


def test_no_licence_is_limited_to_research():
    assert not [name for name in names() if "research" in get(name).licence]


def test_the_card_has_the_licence_of_the_data():
    assert get("cifar10").licence in card_of("cifar_avg_2jet", curve(0.8, 0.9, 0.8))


# === The figure ===


def test_the_figure_is_that_of_the_plots():
    recipe = RECIPES["fashion_single_2jet"]
    peak, flat = curve(0.4, 0.92, 0.3), curve(0.87, 0.92, 0.9)
    metrics = metrics_of(recipe.name, peak, matched=flat)
    (ax,) = draw_accuracy(recipe, metrics).axes
    lines = {line.get_label(): line for line in ax.lines}
    for label, expected in {"one scale channel": peak, "one channel, matched σ": flat}.items():
        assert lines[label].get_color() == STYLES[label].colour
        np.testing.assert_allclose(lines[label].get_ydata(), [100 * v for v in expected.values()])
    (ax,) = draw_accuracy(recipe, dataclasses.replace(metrics, matched_accuracy=None)).axes
    assert not any("matched" in line.get_label() for line in ax.lines) and ax.get_legend() is None


def test_the_figure_of_stir_shades_the_sizes_trained_on():
    recipe = RECIPES[SIGN]
    flat = {str(size): 0.97 for size in range(17, 65)}
    (ax,) = draw_accuracy(recipe, metrics_of(SIGN, flat)).axes
    assert "pixels" in ax.get_xlabel()
    assert ax.lines[0].get_label() == "average pooling" and len(ax.lines[0].get_xdata()) == 48
    assert ax.patches
