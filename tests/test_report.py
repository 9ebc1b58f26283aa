"""Verdicts and the report, on zoo folders with numbers made up for the purpose."""

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest

from gdn_keras import zoo
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.model import build_model
from training.checks import (
    CHECKS,
    first_layer_spread,
    pooled_comparison,
    selection_trend,
)
from training.claims import CLAIMS, SIZE_FACTORS
from training.figures import CURVES, HISTOGRAMS, section_drawings
from training.paper import ACCURACY, LEARNED_SIGMA_1, POOLED_FIXED, SPREAD, PaperValue
from training.recipes import RECIPES
from training.report import SECTIONS, write_report
from training.results import Results
from training.verdicts import (
    NOT_MEASURED,
    VERDICTS,
    bounds,
    judge,
    judge_accuracy,
    judge_sigma,
    overall,
)

PAPER = PaperValue(mean=90.0, std=0.1, runs=5, where="Table 0")


def tiny(name: str) -> GaussDerNetConfig:
    """The recipe's config with next to no weights and few pixels."""
    config = RECIPES[name].config
    return config.replace(
        widths=(1,) * len(config.widths),
        num_classes=2,
        class_names=(),
        input_size=(12, 12),
        spatial_selection="centre",
    )


def metrics_of(name: str, accuracy: dict[str, float], histograms=None) -> zoo.Metrics:
    return zoo.Metrics(
        dataset=RECIPES[name].dataset,
        split="test",
        num_test_images=100,
        sampling_density=None,
        accuracy=accuracy,
        mean_accuracy=sum(accuracy.values()) / len(accuracy),
        golden=zoo.Golden(sample_set=RECIPES[name].dataset, indices=(0,), logits=((0.0, 1.0),)),
        sample_accuracy=1.0,
        scale_histograms=histograms,
        versions={},
    )


def recipe_of(name: str) -> dict:
    return {"name": name, "budget": "cpu", "seed": 0, "lineage": [], "images_seen": 1234}


def folder(name: str, accuracy: dict[str, float], histograms=None) -> zoo.Folder:
    """A zoo folder that exists in memory only, enough for what needs no weights."""
    return zoo.Folder(
        path=Path(name),
        config=tiny(name),
        metrics=metrics_of(name, accuracy, histograms),
        recipe=recipe_of(name),
        card="",
    )


def write(path: Path, name: str, accuracy, histograms=None, *, sigmas=None) -> None:
    """A whole zoo folder on disk; `sigmas` of the layers if they are learned."""
    model = build_model(tiny(name))
    for k, sigma in enumerate(sigmas or (), start=1):
        model.get_layer(f"jet_{k}").ratio.assign(sigma)
    zoo.write_folder(
        path / name,
        config=model.config,
        weights=model,
        metrics=metrics_of(name, accuracy, histograms),
        recipe=recipe_of(name),
        card=f"# {name}\n",
    )


def curve(at_half: float, at_one: float, at_two: float) -> dict[str, float]:
    """Straight from 1/2 to 1 and on to 2, fractions."""
    result = {}
    for factor in SIZE_FACTORS:
        t = math.log2(factor)
        result[f"{factor:.3f}"] = at_one + t * (at_two - at_one if t > 0 else at_one - at_half)
    return result


def histograms(name: str, *, width: float, slope: float = 1.0, centre: float = 0.0) -> dict:
    """Gaussians over log2 sigma around `centre` + `slope` log2 size; the wrong half an octave
    finer."""
    y = np.log2(RECIPES[name].config.channel_sigmas)
    result = {}
    for factor in SIZE_FACTORS:
        shares = {}
        for group, shift in (("all", 0.0), ("correct", 0.0), ("wrong", -0.5)):
            place = centre + slope * math.log2(factor) + shift
            share = np.exp(-(((y - place) / width) ** 2) / 2)
            shares[group] = (share / share.sum()).tolist()
        result[f"{factor:.3f}"] = shares
    return result


def claim_with(words: str, section: str | None = None):
    (claim,) = [c for c in CLAIMS if words in c.text and section in (None, c.section)]
    return claim


# --- rules ---


def test_every_claim_is_measured_or_has_a_check_or_a_reason():
    for claim in CLAIMS:
        ways = [
            claim.measure is not None,
            any(words in claim.text for words in NOT_MEASURED),
            any(words in claim.text for words in CHECKS) and claim.measure is None,
        ]
        assert sum(ways) == 1, claim.text
    for words in (*NOT_MEASURED, *CHECKS):
        assert any(words in claim.text for claim in CLAIMS), words


def test_accuracy_verdicts_by_hand():
    assert judge_accuracy(89.51, PAPER) == judge_accuracy(95.0, PAPER) == "reproduced"
    assert judge_accuracy(89.4, PAPER) == judge_accuracy(88.01, PAPER) == "partly"
    assert judge_accuracy(87.9, PAPER) == "not reproduced"
    assert judge_accuracy(89.15, dataclasses.replace(PAPER, std=0.3)) == "reproduced"  # 3 std


def test_sigma_verdicts_by_hand():
    paper = PaperValue(mean=0.5, std=0.001, runs=5, where="")
    assert judge_sigma(0.549, paper) == judge_sigma(0.451, paper) == "reproduced"
    assert judge_sigma(0.62, paper) == "partly"
    assert judge_sigma(0.37, paper) == "not reproduced"


def test_overall_verdicts_by_hand():
    assert overall([]) == overall(["not measured"]) == "not measured"
    assert overall(["reproduced", "not measured", "reproduced"]) == "reproduced"
    assert overall(["reproduced", "not yet trained"]) == "partly"
    assert overall(["reproduced", "not reproduced"]) == "partly"
    assert overall(["not reproduced", "not yet trained"]) == "not reproduced"
    assert overall(["not yet trained"] * 2) == "not yet trained"


def test_bounds_read_alike_as_two_points():
    assert bounds(claim_with("similar to those for centred")) == (-2.0, 2.0)
    assert bounds(claim_with("keep nearly the accuracy")) == (-math.inf, 2.0)
    assert bounds(claim_with("all three networks reach")) == (92.5, 93.5)
    assert bounds(claim_with("somewhat better than max pooling below")) == (0.0, math.inf)


# --- claims about accuracies ---


def fashion(*, single=0.93, max_=0.93, avg=0.93, **more) -> Results:
    folders = {
        "fashion_single_2jet": folder("fashion_single_2jet", curve(0.5, single, 0.6)),
        "fashion_max_2jet": folder("fashion_max_2jet", curve(0.87, max_, 0.92)),
        "fashion_avg_2jet": folder("fashion_avg_2jet", curve(0.88, avg, 0.91)),
    }
    return Results({name: value for name, value in folders.items() if name not in more})


def test_a_claim_that_holds_is_reproduced():
    judgement = judge(claim_with("all three networks reach"), fashion())
    assert judgement == ("reproduced", "93.00, 93.00, 93.00 %", 0.0)
    judgement = judge(claim_with("lose about 4 to 7 ppt"), fashion())
    assert judgement.verdict == "reproduced" and judgement.ours == "+6.00, +5.00 ppt"


def test_a_claim_that_holds_for_some_is_partly_reproduced():
    judgement = judge(claim_with("all three networks reach"), fashion(avg=0.90))
    assert judgement.verdict == "partly"
    assert judgement.difference == pytest.approx(-2.5)  # 90 where 92.5 was needed
    judgement = judge(claim_with("all three networks reach"), fashion(avg=0.90, max_=0.95))
    assert judgement.verdict == "not reproduced"


def test_missing_networks_make_a_claim_partly_or_not_yet_trained():
    claim = claim_with("all three networks reach")
    assert judge(claim, fashion(fashion_avg_2jet=None)).verdict == "partly"
    assert judge(claim, Results({})) == ("not yet trained", "", None)
    pooling = claim_with("somewhat better than max pooling below")
    assert judge(pooling, fashion()).verdict == "reproduced"
    assert judge(pooling, fashion(fashion_max_2jet=None)).verdict == "not yet trained"


def test_many_values_are_summed_up():
    judgement = judge(claim_with("somewhat better than max pooling below"), fashion(avg=0.915))
    assert judgement == ("partly", "+1.00, +0.38, -0.25, -0.88 ppt", pytest.approx(-0.875))
    claim = claim_with("a smaller sigma_0 is slightly better")
    results = Results({n: folder(n, {"1.000": v.mean / 100}) for n, v in ACCURACY.items()})
    assert re.fullmatch(r"\+0\.\d+ … \+0\.\d+ ppt; holds for 12 of 12", judge(claim, results).ours)


def test_the_papers_own_numbers_reproduce_the_paper():
    results = Results({n: folder(n, {"1.000": v.mean / 100}) for n, v in ACCURACY.items()})
    judged = {
        claim.text: judge(claim, results).verdict
        for claim in CLAIMS
        if claim.section in ("7.4", "7.5", "A.3") and claim.measure
    }
    assert len(judged) == 9 and set(judged.values()) == {"reproduced"}, judged


def test_reasons_are_given_for_what_is_not_measured():
    for claim in CLAIMS:
        if "GD-CNN" in claim.text or "Zero padding" in claim.text:
            verdict, reason, _ = judge(claim, Results({}))
            assert verdict == "not measured" and len(reason) > 10


# --- claims about histograms ---


def selected(width_max=0.4, width_avg=0.6, slope=1.0) -> Results:
    names = {"fashion_max_2jet": width_max, "fashion_avg_2jet": width_avg}
    return Results(
        {
            name: folder(name, curve(0.87, 0.93, 0.92), histograms(name, width=width, slope=slope))
            for name, width in names.items()
        }
    )


def test_trend_of_a_covariant_network():
    sigmas = tuple(2 ** (n / 2) for n in range(-3, 4))
    sizes = [2**-0.5, 1.0, 2**0.5]
    shares = np.zeros((3, 7))
    shares[[0, 1, 2], [2, 3, 4]] = 1
    trend = selection_trend(shares, sizes=sizes, sigmas=sigmas)
    assert trend == pytest.approx((1.0, 1.0, 0.0))
    shares[:] = 0
    shares[:, [2, 4]] = 0.5  # the size does not matter
    assert selection_trend(shares, sizes=sizes, sigmas=sigmas) == pytest.approx((0, 0, 0.5))


def test_scale_selection_claim():
    claim = claim_with("The selected scale channel grows linearly", "6.1")
    judgement = judge(claim, selected())
    assert judgement.verdict == "reproduced" and judgement.ours.count("✓") == 5
    assert "with max" in judgement.ours
    judgement = judge(claim, selected(width_max=0.7))  # average is sharper
    assert judgement.verdict == "partly" and judgement.ours.count("✗") == 1
    assert judge(claim, selected(slope=0.1)).ours.count("✗") == 2


def test_avoided_channels():
    claim = claim_with("channels with sigma_0 of at most", "A.1")
    name = "fashion_max_2jet_s0p50_transfer"
    values = histograms(name, width=0.3, centre=-1.0)  # sigma_0 = 1/2 at the training size
    first = judge(claim, Results({name: folder(name, curve(0.5, 0.9, 0.8), values)}))
    assert "✗ `fashion_max_2jet_s0p50_transfer`: finest channels" in first.ours
    for shares in values.values():  # move everything away from the two finest channels
        moved = [0.0, 0.0, *shares["all"][2:]]
        shares["all"] = [value / sum(moved) for value in moved]
    second = judge(claim, Results({name: folder(name, curve(0.5, 0.9, 0.8), values)}))
    assert "✓ `fashion_max_2jet_s0p50_transfer`: finest channels are chosen for 0 %" in second.ours
    assert second.verdict == "partly"  # five other networks are missing


def test_histograms_are_shares_of_all_images():
    results = selected()
    name = "fashion_max_2jet"
    accuracy = np.array(list(results.accuracies[name].values())) / 100
    for group, total in (("all", 1), ("correct", accuracy), ("wrong", 1 - accuracy)):
        np.testing.assert_allclose(results.histogram(name, group).sum(axis=1), total)
    values = histograms(name, width=0.4)
    values["1.000"]["wrong"] = []  # nothing was wrong
    perfect = Results({name: folder(name, curve(0.87, 1.0, 0.92), values)})
    np.testing.assert_array_equal(perfect.histogram(name, "wrong")[4], np.zeros(7))
    assert Results({name: folder(name, curve(0.8, 0.9, 0.8))}).histogram(name) is None


# --- STIR ---


def test_stir_claims():
    flat = {str(size): 0.97 for size in range(17, 65)}
    steep = {str(size): 0.3 + size / 100 for size in range(17, 65)}
    names = [f"stir_sign_{sizes}_drop" for sizes in ("small", "mid", "large")]
    better = claim_with("curves are almost flat and better")
    judgement = judge(better, Results({name: folder(name, flat) for name in names}))
    assert judgement.verdict == "reproduced" and judgement.ours == "12 of 12 checks hold"
    judgement = judge(better, Results({names[0]: folder(names[0], steep)}))
    assert judgement.verdict == "not reproduced" and "✗ `stir_sign_small_drop`: range 47.0" in (
        judgement.ours
    )
    dropout = claim_with("Scale-channel dropout raises the accuracy")
    without = names[0].replace("drop", "nodrop")
    pair = {names[0]: folder(names[0], flat), without: folder(without, steep)}
    judgement = judge(dropout, Results(pair))
    assert judgement.ours.count("✓") == 2 and judgement.verdict == "partly"


# --- learned scales, with weights on disk ---


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> Results:
    """Sigmas as Figure 17 and Tables 11 and 12 describe them."""
    path = tmp_path_factory.mktemp("zoo")
    for family in ("fashion28", "cifar32"):
        for method in ("sampled_derivative", "integrated_derivative", "sampled", "integrated"):
            for norm in ("bn", "nobn"):
                name = f"{family}_learned_{method}_{norm}_lr1e-3"
                sigmas = [0.5 * 1.7**k for k in range(6)]
                sigmas[0] = LEARNED_SIGMA_1[name].mean
                sigmas[5] = 2.0 if norm == "bn" else 4.0 if family == "fashion28" else 6.0
                write(path, name, {"1.000": ACCURACY[name].mean / 100}, sigmas=sigmas)
    return Results.read(path)


def test_sigmas_are_read_from_the_weights(learned):
    name = "cifar32_learned_sampled_bn_lr1e-3"
    np.testing.assert_allclose(
        learned.sigmas[name], [0.302, 0.85, 1.445, 2.4565, 4.17605, 2.0], rtol=1e-6
    )
    assert set(learned.sigmas) == set(learned.folders)


def test_claims_about_learned_sigmas(learned):
    assert judge(claim_with("Learned sigmas grow"), learned).verdict == "reproduced"
    assert judge(claim_with("sigma does not drop"), learned).verdict == "reproduced"
    assert judge(claim_with("The first layer learns"), learned).verdict == "reproduced"
    assert judge(claim_with("The spread of the kernels"), learned).verdict in (
        "reproduced",
        "partly",
    )
    broken = Results(learned.folders)
    swapped = {name: sigma[::-1] for name, sigma in learned.sigmas.items()}
    object.__setattr__(broken, "sigmas", swapped)  # the wrong way round
    assert judge(claim_with("Learned sigmas grow"), broken).verdict == "not reproduced"
    assert judge(claim_with("sigma does not drop"), broken).verdict == "not reproduced"
    wide = {name: sigma * (1 + ("sampled" in name)) for name, sigma in learned.sigmas.items()}
    object.__setattr__(broken, "sigmas", wide)
    assert judge(claim_with("The spread of the kernels"), broken).verdict == "partly"


@pytest.mark.parametrize("name", list(SPREAD)[::7])
def test_spread_of_the_first_layer_is_that_of_tables_13_and_14(name):
    first, second = first_layer_spread(name, LEARNED_SIGMA_1[name].mean)
    assert (first, second) == pytest.approx((SPREAD[name].first, SPREAD[name].second), abs=0.003)


# --- significance ---


def test_pooled_comparison_needs_all_networks_and_orders_them():
    names = [
        POOLED_FIXED.networks.format(method=method, setting=setting)
        for method in ("discrete", "sampled_derivative", "sampled", "normalised")
        for setting in POOLED_FIXED.settings
    ]
    folders = {n: folder(n, {"1.000": ACCURACY[n].mean / 100}) for n in names}
    compared = pooled_comparison(POOLED_FIXED, Results(folders))
    assert compared.keys() == POOLED_FIXED.rows.keys()
    for pair, (g, p, q) in compared.items():
        assert np.sign(g) == np.sign(POOLED_FIXED.rows[pair][0])
        assert 0 <= p <= 1 and 0 <= q <= 1
    assert compared["discrete", "sampled"].anova_p < 0.01
    claim = claim_with("no general significant difference")
    assert judge(claim, Results(folders)).verdict == "reproduced"
    del folders[names[0]]
    assert pooled_comparison(POOLED_FIXED, Results(folders)) is None
    assert judge(claim, Results(folders)).verdict == "not yet trained"


# --- figures ---


def test_figures_name_recipes():
    named = [
        n for figures in CURVES.values() for _, _, networks in figures for n in networks.values()
    ]
    assert set(named) <= set(RECIPES)
    assert {name for names in HISTOGRAMS.values() for name in names} <= set(RECIPES)
    stems = [stem for figures in CURVES.values() for stem, _, _ in figures]
    assert len(set(stems)) == len(stems)


def test_figures_show_the_networks_that_are_there():
    results = selected()
    drawings = {d.stem: d.figure for d in section_drawings("6.1", results)}
    lines = {line.get_label() for line in drawings["scales_fashion"].axes[0].lines}
    assert {"max pooling", "average pooling"} <= lines and "one scale channel" not in lines
    assert "paper: ~93 %" in drawings["scales_fashion"].axes[0].get_legend_handles_labels()[1]
    panels = drawings["selection_fashion_max_2jet"].axes
    assert [ax.get_title() for ax in panels[:3]] == [
        f"{group} classifications" for group in ("all", "correct", "wrong")
    ]
    assert all(d.figure is None for d in section_drawings("6.3", results))


def test_stir_figure_has_a_panel_per_training_size():
    flat = {str(size): 0.97 for size in range(17, 65)}
    names = ["stir_emoji_small_drop", "stir_emoji_large_drop", "stir_gtsrb_mid_nodrop"]
    results = Results({name: folder(name, flat) for name in names})
    drawings = {d.stem: d.figure for d in section_drawings("6.4", results)}
    emoji, gtsrb = drawings["stir_emoji"], drawings["stir_gtsrb"]
    assert len(emoji.axes) == 2 and len(gtsrb.axes) == 1
    assert [len(ax.lines) for ax in emoji.axes] == [5, 5] and len(gtsrb.axes[0].lines) == 1
    assert drawings["stir_sign"] is None


def test_agreement_and_sigma_figures(learned):
    drawings = {d.stem: d.figure for d in section_drawings("7.5", learned)}
    assert all(drawings.values())
    labels = drawings["agreement_7_5"].axes[0].get_legend_handles_labels()[1]
    assert labels == ["Fashion-MNIST", "CIFAR-10"]
    assert len(drawings["sigmas_cifar32"].axes[0].lines) == 5  # four networks and the law


# --- the report ---


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report of three networks, one of them with numbers in the paper."""
    path = tmp_path_factory.mktemp("report")
    for name, width in (("fashion_max_2jet", 0.4), ("fashion_avg_2jet", 0.6)):
        write(path / "zoo", name, curve(0.87, 0.93, 0.92), histograms(name, width=width))
    write(path / "zoo", "cifar32_discrete_s0p50", {"1.000": 0.8601})
    (path / "docs" / "figures").mkdir(parents=True)
    (path / "docs" / "figures" / "report_of_yesterday.png").write_bytes(b"old")
    (path / "docs" / "figures" / "drawn_by_others.png").write_bytes(b"theirs")
    return path, write_report(path / "zoo", path / "docs")


def test_report_has_every_section_claim_and_network(written):
    _, report = written
    text = report.read_text()
    for number, title in SECTIONS.items():
        assert f"## {number} {title}" in text
    for claim in CLAIMS:
        assert f"| {claim.text} |" in text
    for name, recipe in RECIPES.items():
        assert f"`{name}`" in text, (name, recipe.paper_section)
    assert "3 of 138 networks are trained, 0 of 12 derived" in text
    assert "generated by `python -m training report`" in text


def test_report_says_what_is_not_yet_trained(written):
    text = written[1].read_text()
    assert "| `fashion_single_2jet` | not yet trained | – | – | – | – |" in text
    assert "| `fashion_max_2jet` | `cpu`, 1,234 images | 87.00 | 93.00 | 92.00 |" in text
    row = "| `cifar32_discrete_s0p50` | `cpu`, 1,234 images | 86.72 ± 0.23 | 86.01 | -0.71 |"
    assert row in text
    assert "| `cifar32_discrete_s0p71` | not yet trained | 85.56 ± 0.09 | – | – |" in text
    assert re.search(r"\| *\|", text) is None  # nothing is left blank


def test_report_tables_are_whole(written):
    """Every row of a table has as many cells as its header, and every verdict is a known one."""
    columns = None
    for line in written[1].read_text().splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        columns = columns or len(cells)
        assert len(cells) == columns, line
    marks = re.findall(r"[✅🟨❌⬜➖] ([a-z ]+?) *(?:\||\*|$)", written[1].read_text())
    assert len(marks) > 100 and set(marks) <= set(VERDICTS)


def test_report_links_the_figures_it_wrote(written):
    path, report = written
    linked = set(re.findall(r"\((figures/[^)]+)\)", report.read_text()))
    files = {f"figures/{file.name}" for file in (path / "docs" / "figures").iterdir()}
    assert linked == files - {"figures/drawn_by_others.png"}  # yesterday's is gone
    assert {Path(file).stem for file in linked} == {
        "report_scales_fashion",
        "report_dropout_fashion",
        "report_pooling_fashion",
        "report_transfer_fashion",
        "report_selection_fashion_max_2jet",
        "report_selection_fashion_avg_2jet",
        "report_agreement_7_4",
    }
    assert (path / "docs" / "figures" / "drawn_by_others.png").exists()


def test_the_same_zoo_gives_the_same_report(written):
    path, _ = written

    def contents():
        return {file: file.read_bytes() for file in (path / "docs").rglob("*.*")}

    before = contents()
    write_report(path / "zoo", path / "docs")
    assert contents() == before and len(before) > 10


def test_an_empty_zoo_gives_a_report_of_what_is_to_be_done(tmp_path):
    (tmp_path / "zoo").mkdir()
    text = write_report(tmp_path / "zoo", tmp_path / "docs").read_text()
    assert "0 of 138 networks are trained" in text and "figures/" not in text
    assert "**✅ reproduced**" not in text and text.count("**⬜ not yet trained**") == len(SECTIONS)
