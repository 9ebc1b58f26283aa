"""What is published: golden images where the data set has none, the card's words and figure."""

import dataclasses
import types

import numpy as np
import pytest
from report_tools import curve, metrics_of, recipe_of, stage_of
from test_zoo_schema import check_facts, check_outputs
from training_helpers import Place, write_stir

from gdn_keras import zoo
from gdn_keras.datasets import get, load_samples, names
from gdn_keras.datasets.samples import SAMPLE_FOLDER
from training import recipes
from training.budgets import DENSITY, REACH
from training.publishing.card import card, draw_accuracy
from training.publishing.publish import golden_samples
from training.publishing.styles import STYLES
from training.recipes import RECIPES
from training.reproduction.comparison import compare
from training.runs.record import Ancestor, RunRecord

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
    with pytest.raises(ValueError, match=r"a bundled set. Received: images of \(65, 64, 3\)"):
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
    assert "networks reach 85 to 86 %. Here: 80.00 %.\n" in text
    assert "lose about 8 to 10 ppt from size factor 1 to 1/2. Here: 10.00 ppt.\n" in text
    assert "lose 7 to 9 ppt from size factor 1 to 2. Here: 15.00 ppt.\n" in text
    assert "without numbers" not in text
    silent = card_of("fashion_lse_2jet", curve(0.7, 0.8, 0.65))
    assert "in a figure, without numbers.\n" in silent and "Here:" not in silent


def test_images_of_ancestors_are_told():
    names = ("fashion_avg_2jet", "other")
    before = tuple(Ancestor(name=name, seed=0, images=210_000) for name in names)
    text = card_of("fashion_max_2jet", curve(0.8, 0.9, 0.8), ancestors=before)
    assert "Budget `cpu`: 1,234 images after 420,000 of its ancestors, in 1 minute on" in text


def test_fewer_images_than_the_paper_are_told_only_if_it_is_so():
    flat = {str(size): 0.9 for size in range(17, 65)}
    (short,) = record_of("stir_emoji_mid_drop").stages
    long = dataclasses.replace(short, epochs=20)
    few = card_of("stir_emoji_mid_drop", flat, stages=(long,))
    assert "(sampling density 1/√2) and for fewer images." in few
    half = Ancestor(name="stir_emoji_mid_nodrop", seed=0, images=617)  # as many images again
    many = card_of("stir_emoji_mid_drop", flat, stages=(long,), ancestors=(half,))
    assert "**less than the paper's budget** of 24 epochs" in many
    assert "(sampling density 1/√2).\n" in many and "fewer images" not in many
    more = dataclasses.replace(long, name="more")
    full = card_of("stir_emoji_mid_drop", flat, stages=(long, more), budget="paper")
    assert ", the full schedule of the paper and more. " in full


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
    assert f"test images per size, {measured}." in text
    less = text.partition("less than the paper's budget")[2].partition("\n")[0]
    assert f"it was trained {trained} and for fewer images." in less
    text = text_of(RECIPES[name].config)
    assert "test images per size, on every pixel." in text
    assert "32 epochs on every pixel: it was trained for fewer images.\n" in text


def test_cards_name_learned_sigmas_that_ended_at_a_bound():
    name = "fashion28_learned_sampled_derivative_bn_lr1e-3"
    config = RECIPES[name].config.replace(sampling_density=DENSITY)
    metrics = dataclasses.replace(metrics_of(name, {"1.000": 0.9}), clamped_sigmas=(1, 3))
    text = card(RECIPES[name], config=config, metrics=metrics, record=record_of(name))
    assert "sigma of layer 1 ended at a bound of its range, 0.15 to 9:" in text
    assert "sigma of layer 3 ended at a bound of its range, 1 to 9:" in text
    assert "bound" not in card_of(name, {"1.000": 0.9})


def test_cards_name_the_cpu():
    nine = curve(0.8, 0.9, 0.8)
    assert "in 1 minute on An Old CPU (AVX2). Seed" in card_of(
        "fashion_avg_2jet", nine, cpu="An Old CPU (AVX2)"
    )
    assert "in 1 minute on the machine it was trained on." in card_of("fashion_avg_2jet", nine)


def test_cards_of_stir_say_what_is_measured_on_what():
    flat = {str(size): 0.9 for size in range(17, 65)}
    text = card_of("stir_emoji_mid_drop", flat)
    assert "| size | 17 | 23 | 29 | 35 | 41 | 46 | 52 | 58 | 64 | mean |" in text
    assert "9 of 48 are shown, metrics.json and the mean have all." in text
    assert "over all sizes: SESN 78.59, DISCO 81.55, PixelPool 84.29, CNN 59.38." in text
    assert "the same 36 icons as the training images" in text
    other = card_of("stir_gtsrb_mid_drop", flat)
    assert "icons" not in other and "Published" not in other and "9 of 48" in other


def test_cards_of_mirrored_networks_say_what_the_border_is():
    text = card_of("cifar_avg_2jet_mirror", curve(0.7, 0.8, 0.75))
    assert "The image is extended by mirroring (padding `mirror`)" in text
    assert "as `cifar_avg_2jet` does. The idea came when test accuracies" in text
    assert "\nThe images of this data set were made in the same way" in text
    assert "shows this network's accuracy" not in text  # the paper does not have it
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


def test_licences_are_those_of_the_samples():
    """The words of SAMPLES.md: where no licence is stated, none is claimed."""
    table = (SAMPLE_FOLDER / "SAMPLES.md").read_text()
    for words in ("stated by its authors, who ask to be cited", "belong to their owners"):
        assert words in table and words in get("cifar10").licence
    words = "came with the files; its authors ask to be cited"
    assert words in table and words in get("stir_gtsrb").licence
    assert "free for research" not in " ".join(get(name).licence for name in names())
    assert "no licence is stated" in card_of("cifar_avg_2jet", curve(0.8, 0.9, 0.8))


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
    assert ax.get_xlabel() == "size of the object (pixels)"
    assert ax.lines[0].get_label() == "average pooling" and len(ax.lines[0].get_xdata()) == 48
    assert ax.patches
