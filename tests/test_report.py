"""The report and its figures, on zoo folders with numbers made up for the purpose."""

import dataclasses
import re
from pathlib import Path

import pytest
from report_tools import curve, folder, histograms, selected, stage_of, write, write_learned

from gdn_keras import zoo
from gdn_keras.explain import sigmas_and_fit
from training import CHECKOUT
from training.recipes import RECIPES, derived, trained
from training.reproduction.baselines import MODELS
from training.reproduction.claims import CLAIMS
from training.reproduction.paper import (
    PAIRWISE_FIXED,
    PAIRWISE_LEARNED,
    POOLED_FIXED,
    POOLED_LEARNED,
)
from training.reproduction.report import FILE, SECTIONS, compose, write_report
from training.reproduction.report_figures import (
    CURVES,
    HISTOGRAMS,
    STYLES,
    curves_figure,
    section_drawings,
    sigma_networks,
)
from training.reproduction.statistics import format_pairwise, format_pooled
from training.reproduction.verdicts import VERDICTS, rules
from training.reproduction.zoo_results import MATCHED, ZooResults

# --- figures ---


def test_figures_name_recipes():
    named = [
        n for figures in CURVES.values() for _, _, networks in figures for n in networks.values()
    ]
    assert {name.removesuffix(MATCHED) for name in named} <= set(RECIPES)
    assert {name for names in HISTOGRAMS.values() for name in names} <= set(RECIPES)
    stems = [stem for figures in CURVES.values() for stem, _, _ in figures]
    assert len(set(stems)) == len(stems)


def test_every_label_of_a_figure_has_a_look_of_its_own():
    together = [list(networks) for figures in CURVES.values() for _, _, networks in figures]
    together.append(["ours, dropout", "ours, without", *MODELS])
    together.append(list(sigma_networks("cifar32")))
    for labels in together:
        assert len({STYLES[label] for label in labels}) == len(labels), labels
    for labels in together:  # whoever is pooled the same way has the same colour
        for word in ("max", "average"):
            colours = {STYLES[label].colour for label in labels if label.startswith(word)}
            assert colours <= {STYLES[f"{word} pooling"].colour}


def test_legends_fit_below_the_figure():
    name = "fashion_max_2jet"
    results = ZooResults({name: folder(name, curve(0.8, 0.9, 0.8))})
    for labels in {tuple(networks) for figures in CURVES.values() for _, _, networks in figures}:
        figure = curves_figure(results, dict.fromkeys(labels, name))
        figure.canvas.draw()
        box = figure.legends[0].get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, labels


def test_figures_show_the_networks_that_are_there():
    results = selected()
    drawings = {d.stem: d.figure for d in section_drawings("6.1", results)}
    lines = {line.get_label() for line in drawings["scales_fashion"].axes[0].lines}
    assert {"max pooling", "average pooling"} <= lines and "one scale channel" not in lines
    assert "paper: ~93 %" in drawings["scales_fashion"].axes[0].get_legend_handles_labels()[1]
    (caption,) = [d.caption for d in section_drawings("6.1", results) if "scales" in d.stem]
    assert caption.endswith("Not yet trained: `fashion_single_2jet`.")
    panels = drawings["selection_fashion_max_2jet"].axes
    assert [ax.get_title() for ax in panels[:3]] == [
        f"{group} classifications" for group in ("all", "correct", "wrong")
    ]
    assert all(d.figure is None for d in section_drawings("6.3", results))


def test_close_curves_have_a_panel_of_their_own():
    results = selected()
    (drawing,) = [d for d in section_drawings("6.1", results) if d.stem == "scales_fashion"]
    assert len(drawing.figure.axes) == 1  # both fill it
    single = "fashion_single_2jet"
    results.folders[single] = folder(single, curve(0.4, 0.93, 0.2))
    (drawing,) = [
        d
        for d in section_drawings("6.1", ZooResults(results.folders))
        if d.stem == "scales_fashion"
    ]
    all_, close = drawing.figure.axes
    labels = [text.get_text() for text in drawing.figure.legends[0].get_texts()]
    assert labels == ["one scale channel", "max pooling", "average pooling", "paper: ~93 %"]
    assert {"one scale channel"} == {
        line.get_label() for line in all_.lines if line.get_label() in STYLES
    } - {line.get_label() for line in close.lines}
    assert all_.get_ylim()[0] >= 0 and close.get_ylim()[0] > 80
    assert "Not yet" not in drawing.caption


def test_a_figure_without_two_contenders_is_not_drawn():
    name = "fashion_max_2jet"
    results = ZooResults({name: folder(name, curve(0.87, 0.93, 0.92))})
    for section in ("6.1", "7.1", "7.3", "A.1"):
        for drawing in section_drawings(section, results):
            assert drawing.figure is None, drawing.stem


def test_appendix_a1_shows_the_single_network_with_matched_sigmas():
    names = ["fashion_max_2jet", "fashion_single_2jet"]
    matched = curve(0.86, 0.92, 0.91)
    folders = {name: folder(name, curve(0.5, 0.92, 0.4)) for name in names}

    def drawn():
        drawings = section_drawings("A.1", ZooResults(folders))
        return next(d for d in drawings if d.stem == "transfer_fashion")

    assert drawn().figure is None
    assert "Not yet measured: `fashion_single_2jet, matched σ`." in drawn().caption
    folders[names[1]] = folder(names[1], curve(0.5, 0.92, 0.4), matched=matched)
    line = next(
        line
        for line in drawn().figure.axes[0].lines
        if line.get_label() == "one channel, matched σ"
    )
    assert line.get_ydata() == pytest.approx([100 * value for value in matched.values()])
    assert "Not yet measured" not in drawn().caption


def test_stir_figure_has_a_panel_per_training_size():
    flat = {str(size): 0.97 for size in range(17, 65)}
    names = [
        *("stir_emoji_small_nodrop", "stir_emoji_large_drop", "stir_emoji_large_nodrop"),
        "stir_gtsrb_mid_nodrop",
    ]
    results = ZooResults({name: folder(name, flat) for name in names})
    drawings = {d.stem: d for d in section_drawings("6.4", results)}
    emoji = drawings["stir_emoji"].figure
    assert [len(ax.lines) for ax in emoji.axes] == [5, 6]
    assert drawings["stir_sign"].figure is drawings["stir_gtsrb"].figure is None
    assert "`stir_emoji_small_drop`, `stir_emoji_mid_drop`" in drawings["stir_emoji"].caption
    # one network more in a panel changes no line of it
    looks = [
        {line.get_label(): (line.get_color(), line.get_linestyle()) for line in ax.lines}
        for ax in emoji.axes
    ]
    assert looks[0].items() <= looks[1].items()
    legend = {text.get_text() for text in emoji.legends[0].get_texts()}
    assert legend == looks[1].keys()
    results.folders["stir_gtsrb_mid_drop"] = folder("stir_gtsrb_mid_drop", flat)
    drawings = {d.stem: d for d in section_drawings("6.4", ZooResults(results.folders))}
    assert len(drawings["stir_gtsrb"].figure.axes[0].lines) == 2


def test_published_networks_are_compared_with_ours_on_the_same_sizes(tmp_path):
    flat = {str(size): 0.97 for size in range(17, 65)}
    write(tmp_path / "zoo", "stir_emoji_mid_drop", flat)
    text = write_report(tmp_path / "zoo", tmp_path / "docs").read_text()
    rows = [line for line in text.splitlines() if "| published, " in line]
    assert [row.split()[1] for row in rows] == list(MODELS)  # not of sizes that ours has not
    assert all("on `stir_emoji`, mid" in row for row in rows)
    assert rows[2].startswith("| PixelPool") and rows[2].endswith("| 84.29 |")


@pytest.fixture(scope="module")
def learned(tmp_path_factory) -> ZooResults:
    return write_learned(tmp_path_factory.mktemp("zoo"))


def test_agreement_and_sigma_figures(learned):
    drawings = {d.stem: d.figure for d in section_drawings("7.5", learned)}
    assert all(drawings.values())
    labels = drawings["agreement_7_5"].axes[0].get_legend_handles_labels()[1]
    assert labels == ["Fashion-MNIST", "CIFAR-10"]
    lines = {line.get_label(): line for line in drawings["sigmas_cifar32"].axes[0].lines}
    assert len(lines) == 9  # four networks, their fits and the law
    name = "cifar32_learned_sampled_derivative_bn_lr1e-3"
    fitted = sigmas_and_fit(zoo.load(learned.folders[name].path)).fitted
    assert lines["_fit of sampled derivatives"].get_ydata() == pytest.approx(fitted)


# --- the report ---


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report of four networks, one of them with numbers in the paper, one half measured."""
    path = tmp_path_factory.mktemp("report")
    for name, width in (("fashion_max_2jet", 0.4), ("fashion_avg_2jet", 0.6)):
        write(path / "zoo", name, curve(0.87, 0.93, 0.92), histograms(name, width=width))
    write(path / "zoo", "cifar32_discrete_s0p50", {"1.000": 0.8601})
    write(path / "zoo", "fashion_single_2jet_s0p50", {"0.500": 0.5, "1.000": 0.9})  # no others
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
    own = [recipe for recipe in trained() if recipe.paper_section]
    assert f"4 of {len(own)} networks of the paper are trained, 0 of {len(derived())} d" in text
    assert f"and 0 of {len(trained()) - len(own)} that the paper does not have (4 with" in text
    assert "generated by `python -m training report`" in text


def test_report_says_what_is_not_yet_trained(written):
    text = written[1].read_text()
    assert "| `fashion_single_2jet` | not yet trained | – | – | – | – |" in text
    assert "| `fashion_max_2jet` | `cpu`, 1,234 images | 87.00 | 93.00 | 92.00 |" in text
    row = "| `cifar32_discrete_s0p50` | `cpu`, 1,234 images | 86.72 ± 0.23 | 86.01 | -0.71 |"
    assert row in text
    assert "| `cifar32_discrete_s0p71` | not yet trained | 85.56 ± 0.09 | – | – |" in text
    assert re.search(r"\| *\|", text) is None  # nothing is left blank
    row = "| `fashion_single_2jet_s0p50` | `cpu`, 1,234 images | 50.00 | 90.00 | not yet measured |"
    assert row in text  # trained, though it lacks a size
    assert (
        "| `fashion_single_2jet_s0p50`, matched σ | `cpu`, 1,234 images | not yet measured" in text
    )
    assert "| `fashion_single_2jet`, matched σ | not yet trained | – | – | – | – |" in text
    assert "| ✅ reproduced |" in text and "🟩 holds so far, 2 of 3 networks trained |" in text


def test_an_accuracy_on_every_pixel_and_a_stage_after_the_test_are_told():
    name = "fashion28_discrete_s1p00"  # 93.08 in the paper
    ours = folder(name, {"1.000": 0.9303})
    exact = dataclasses.replace(ours.metrics, exact_accuracy={"1.000": 0.9157})
    ours.recipe["stages"] = [stage_of(name, name=stage) for stage in ("single", "more")]
    text, _ = compose(ZooResults({name: dataclasses.replace(ours, metrics=exact)}))
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` | `cpu`")]
    assert "`cpu`, 1,234 images, some with its test accuracy known |" in row
    assert row.endswith("| 93.03 (every pixel 91.57) | -0.05 | ✅ reproduced |")


def test_report_states_its_rules_and_the_papers_statistics(written):
    text = written[1].read_text()
    assert "\n".join(rules()) in text
    for table in (PAIRWISE_FIXED, PAIRWISE_LEARNED):
        assert format_pairwise(table.rows, settings=table.settings) in text
    for table in (POOLED_FIXED, POOLED_LEARNED):
        assert format_pooled(table.rows) in text
    needs = "Ours, not yet measured: needs at least 3 runs from scratch per setting; there are "
    assert f"{needs}0 to 1 of each network." in text and f"{needs}0 of each network." in text
    assert re.search(r"\*\*3\.69\*\* \| +\*\*0\.008\*\* \| +\*\*0\.000\*\*", text)  # bold, as there


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
    marks = re.findall(r"[✅🟩🟨❌⬜➖] ([a-z ]+?) *(?:,|\||\*|$)", written[1].read_text())
    assert len(marks) > 100 and set(marks) <= set(VERDICTS)


def test_report_links_the_figures_it_wrote(written):
    path, report = written
    linked = set(re.findall(r"\((figures/[^)]+)\)", report.read_text()))
    files = {f"figures/{file.name}" for file in (path / "docs" / "figures").iterdir()}
    assert linked == files - {"figures/drawn_by_others.png"}  # yesterday's is gone
    assert {Path(file).stem for file in linked} == {
        "report_scales_fashion",
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


def _without_other_runs(text: str) -> str:
    """A.3 also counts runs that only the machine has that wrote the report."""
    text = text.partition('<a id="section-a-3"></a>')[0]
    return re.sub(r"(?m)^\| \[A\.3\].*\n", "", text)


def test_the_committed_report_is_that_of_the_committed_zoo():
    """After `publish`: `python -m training report`."""
    text, drawings = compose(ZooResults.read(CHECKOUT / "zoo"))
    docs = CHECKOUT / "docs"
    assert _without_other_runs((docs / FILE).read_text()) == _without_other_runs(text)
    files = {f"report_{d.stem}.{suffix}" for d in drawings for suffix in ("png", "pdf")}
    assert files == {file.name for file in (docs / "figures").glob("report_*")}


def test_an_empty_zoo_gives_a_report_of_what_is_to_be_done(tmp_path):
    (tmp_path / "zoo").mkdir()
    text = write_report(tmp_path / "zoo", tmp_path / "docs").read_text()
    assert "0 of 128 networks of the paper are trained" in text and "figures/" not in text
    assert "**✅ reproduced**" not in text and text.count("**⬜ not yet trained**") == len(SECTIONS)
    assert text.count("⛔ cannot be compared |") == 2 + 1  # of GD-CNN; and the head of the summary


def test_a_caption_says_what_a_share_is_of():
    captions = {d.stem: d.caption for d in section_drawings("6.1", selected())}
    decide, contribute = (captions[f"selection_fashion_{p}_2jet"] for p in ("max", "avg"))
    figures = {d.stem: d.figure for d in section_drawings("6.1", selected())}
    for pooling, words in (("max", "% of the images"), ("avg", "% of the output")):
        axes = figures[f"selection_fashion_{pooling}_2jet"].axes
        assert [ax.get_ylabel() for ax in axes[3:]] == [words] * 3  # the colour bars
    assert "that decide in `fashion_max_2jet`, in % of the images: all images" in decide
    assert "that contribute to the answer in `fashion_avg_2jet`, in % of the output" in contribute
    assert "decide" not in contribute


def test_ancestors_count(tmp_path):
    name = "fashion_max_2jet"
    one = folder(name, curve(0.87, 0.93, 0.92))
    one.recipe["ancestors"] = [
        {"name": "fashion_avg_2jet", "seed": 0, "images": 60_000},
        {"name": "fashion_single_2jet", "seed": 0, "images": 480_000},
    ]
    assert (
        "| `cpu`, 1,234 images after 540,000 of its ancestors |"
        in compose(ZooResults({name: one}))[0]
    )
    one.recipe["ancestors"][1]["images"] = None  # not known
    text, _ = compose(ZooResults({name: one}))
    assert "| `cpu`, 1,234 images after those of its ancestors |" in text
