"""The report and its figures, on zoo folders with numbers made up for the purpose."""

import dataclasses
import re
from pathlib import Path

import pytest
from report_tools import (
    curve,
    five_runs,
    folder,
    histograms,
    selected,
    stage_of,
    write,
    write_learned,
)

from gdn_keras import zoo
from gdn_keras.explain import sigmas_and_fit
from training import CHECKOUT
from training.recipes import RECIPES, derived, trained
from training.reproduction.baselines import MODELS
from training.reproduction.claims.statements import CLAIMS
from training.reproduction.claims.verdicts import VERDICTS, rules, section_verdict
from training.reproduction.pages.figures import (
    CURVES,
    HISTOGRAMS,
    STYLES,
    curves_figure,
    section_drawings,
    sigma_networks,
)
from training.reproduction.pages.report import (
    FILE,
    RULES_FILE,
    SECTIONS,
    TABLES_FILE,
    compose,
    compose_rules,
    compose_tables,
    write_report,
)
from training.reproduction.pages.tables import images, printed_summary, statistics_tables
from training.reproduction.paper import (
    ACCURACY,
    PAIRWISE_FIXED,
    PAIRWISE_LEARNED,
    POOLED_FIXED,
    POOLED_LEARNED,
    SIGMA_0_TAGS,
)
from training.reproduction.statistics import format_pairwise, format_pooled
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
    assert (
        "`stir_emoji_small_drop`, `stir_emoji_mid_{drop,nodrop}`" in drawings["stir_emoji"].caption
    )
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


def test_published_networks_are_shown_with_ours_of_the_same_sizes(tmp_path):
    flat = {str(size): 0.97 for size in range(17, 65)}
    write(tmp_path / "zoo", "stir_emoji_mid_drop", flat)
    write_report(tmp_path / "zoo", tmp_path / "docs")
    text = (tmp_path / "docs" / TABLES_FILE).read_text()
    rows = [line for line in text.splitlines() if "| published, " in line]
    (row,) = rows  # not of sizes on which none of ours was trained
    assert row.startswith(f"| {', '.join(MODELS)} on `stir_emoji`, mid | published, 50 runs each |")
    assert row.endswith("| 78.59, 81.55, 84.29, 59.38 |")


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


def test_report_has_every_section_and_claim(written):
    _, report = written
    text = report.read_text()
    for number, title in SECTIONS.items():
        assert f"## {number} {title}" in text
    for claim in CLAIMS:
        assert claim.text in text
    assert "`python -m training report`" in text


def test_report_counts_the_networks(written):
    """Those of the paper, those derived from them, and those that the paper does not have."""
    own = len([recipe for recipe in trained() if recipe.paper_section])
    counts = re.findall(r"\b(\d+) of (\d+)\b", written[1].read_text())[:3]
    expected = [(4, own), (0, len(derived())), (0, len(trained()) - own)]
    assert [tuple(map(int, count)) for count in counts] == expected


def tables_of(written) -> str:
    return written[1].with_name(TABLES_FILE).read_text()


def test_report_has_the_numbers_of_what_is_trained(written):
    text = written[1].read_text()
    assert "| `fashion_max_2jet` | 1.2M | 87.00 | 93.00 | 92.00 |" in tables_of(written)
    assert f"[Measurements]({TABLES_FILE}#section-6-1)" in text
    assert '<a id="section-6-1"></a>' in tables_of(written)
    assert "| `cifar32_discrete_*` | 86.72±0.23: 86.01🟨<br>1.2M |" in text
    assert "| ✅ reproduced |" in text and "🟩 holds so far, 2 of 3 networks trained |" in text


def test_report_says_what_is_not_yet_trained(written):
    text = written[1].read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert not [line for line in rows if "not yet trained" in line]  # those are folded away
    assert "Not yet trained: `fashion_single_2jet`." in text
    assert "Not yet trained: 36 networks." in text and "`python -m training list`" in text
    assert re.search(r"\| *\|", text + tables_of(written)) is None  # nothing is left blank


def test_report_says_what_is_not_yet_measured(written):
    text = tables_of(written)
    row = "| `fashion_single_2jet_s0p50` | 1.2M | 50.00 | 90.00 | not yet meas"
    assert row in text  # trained, though it lacks a size
    assert "| `fashion_single_2jet_s0p50`, matched σ | 1.2M | not yet m" in text


def test_a_section_counts_its_own_networks_only(written):
    text = written[1].read_text()
    assert re.search(r"\| \[6\.2\]\(#section-6-2\) \| [^|]+ \| 0 of 2 \|", text)
    assert "| those of 7.5 |" in text  # by a section without networks


def test_a_section_of_which_most_is_untrained_is_not_judged():
    """Whatever its claims say: one of the twelve transferred networks, and a bad one."""
    name, single = "fashion_max_2jet_transfer", "fashion_single_2jet"
    folders = {
        name: folder(name, curve(0.5, 0.9, 0.5)),
        single: folder(single, curve(0.4, 0.92, 0.3), matched=curve(0.9, 0.92, 0.9)),
    }
    text, _ = compose(ZooResults(folders))
    assert "| ❌ not reproduced, 1 of 12 networks trained |" in text
    assert re.search(r"(?m)^## A\.1 .*: ⬜ not yet trained$", text)
    assert re.search(r"(?m)^\| \[A\.1\].* ⬜ not yet trained \|$", text)


def test_claims_and_numbers_are_counted_apart(written):
    (row,) = [line for line in written[1].read_text().splitlines() if "(#section-7-4)" in line]
    assert row.split(" | ")[2:5] == ["1 of 37", "7 ⬜", "1 🟨, 36 ⬜"]
    claims, good, bad = ["inconclusive"] * 3, ["reproduced"] * 30, ["not reproduced"] * 30
    assert section_verdict([claims], [good]) == "holds so far"  # not reproduced by numbers alone
    assert section_verdict([claims], []) == "inconclusive"
    assert section_verdict([["not yet trained"] * 3], [good]) == "not yet trained"
    assert section_verdict([["reproduced"]], [good, bad]) == "partly reproduced"


def test_the_tables_of_the_paper_are_summed_up():
    assert printed_summary(ZooResults({}))[0].startswith(
        "Of the 86 accuracies the paper prints, we measured 0 on the grid of the training, "
        "0 on every pixel. Of the 0 and 0 ✅, 0 and 0 are of networks trained from scratch "
    )
    names = [f"cifar32_discrete_{tag}" for tag in SIGMA_0_TAGS]
    folders = {}
    for name, short, exact in zip(names, (0.0, 0.0, 0.01), (0.03, 0.0, None), strict=True):
        accuracy = ACCURACY[name].mean / 100
        one = folder(name, {"1.000": accuracy - short})
        every_pixel = None if exact is None else {"1.000": accuracy - exact}
        metrics = dataclasses.replace(
            one.metrics, sampling_density=2**-0.5, exact_accuracy=every_pixel
        )
        folders[name] = dataclasses.replace(one, metrics=metrics)
    folders[names[1]].recipe["ancestors"] = [{"name": names[0], "seed": 0, "images": 1_200_000}]
    line = printed_summary(ZooResults(folders))[0]
    assert "3 on the grid of the training (2 ✅, 1 🟨), 2 on every pixel (1 ✅, 1 ❌)." in line
    assert "Of the 2 and 1 ✅, 1 and 0 are of networks trained from scratch " in line
    assert line in compose(ZooResults(folders))[0].partition('<a id="section-2">')[0]


def test_networks_trained_further_with_their_test_accuracy_known_are_marked():
    """From the stages of the record, not from a list."""
    name = "fashion_max_2jet"
    one = folder(name, curve(0.87, 0.93, 0.92))
    assert images(name, ZooResults({name: one})) == "1.2M"
    one.recipe["stages"].append(stage_of(name, name="more", epochs=1))
    assert images(name, ZooResults({name: one})) == "1.2M*"


@pytest.mark.parametrize("number, text", [(999_600, "1M"), (30_016, "30k"), (6144, "6.14k")])
def test_numbers_of_images_are_short(number, text):
    name = "fashion_max_2jet"
    one = folder(name, curve(0.87, 0.93, 0.92))
    one.recipe["images_seen"] = number
    assert images(name, ZooResults({name: one})) == text


def test_numbers_are_judged_on_the_grid_of_the_training_and_on_every_pixel():
    name = "fashion28_discrete_s1p00"  # 93.08 in the paper
    ours = folder(name, {"1.000": 0.9303})
    coarse = dataclasses.replace(ours.metrics, sampling_density=2**-0.5)
    measured = dataclasses.replace(coarse, exact_accuracy={"1.000": 0.8957})
    ours.recipe["stages"].append(stage_of(name, name="more", epochs=1))

    def cell(metrics) -> str:
        text, _ = compose(ZooResults({name: dataclasses.replace(ours, metrics=metrics)}))
        (row,) = [line for line in text.splitlines() if line.startswith("| `fashion28_discrete_*`")]
        return row.split(" | ")[1].removesuffix(" |")

    assert cell(measured) == "93.08±0.05: 93.03✅ 89.57❌<br>1.2M*"
    assert cell(coarse) == "93.08±0.05: 93.03✅ ➖<br>1.2M*"
    assert cell(ours.metrics) == "93.08±0.05: 93.03✅<br>1.2M*"  # trained on every pixel


def test_claims_of_section_7_4_are_judged_on_every_pixel_too():
    pair = {"cifar32_discrete_s0p50_zero": 0.88, "cifar32_discrete_s0p50": 0.86}
    folders = {}
    for (name, accuracy), exact in zip(pair.items(), (0.80, 0.83), strict=True):
        one = folder(name, {"1.000": accuracy})
        metrics = dataclasses.replace(
            one.metrics, sampling_density=2**-0.5, exact_accuracy={"1.000": exact}
        )
        folders[name] = dataclasses.replace(one, metrics=metrics)
    lines = compose(ZooResults(folders))[0].splitlines()
    (row,) = [line for line in lines if "with fixed sigmas, zero padding" in line]
    assert row.endswith(
        "| +2.00 ppt<br>every pixel: -3.00 ppt | ✅ reproduced<br>every pixel: ❌ not reproduced |"
    )
    for name, one in folders.items():  # trained, not measured there: not "not yet trained"
        metrics = dataclasses.replace(one.metrics, exact_accuracy=None)
        folders[name] = dataclasses.replace(one, metrics=metrics)
    text, _ = compose(ZooResults(folders))
    assert text.count("<br>every pixel: ➖ not yet measured |") == 1
    for name in folders:  # the same on both grids is said once
        folders[name] = folder(name, {"1.000": pair[name]})
    text, _ = compose(ZooResults(folders))
    assert "| +2.00 ppt | ✅ reproduced |" in text


def test_report_links_its_rules_last(written):
    _, last = written[1].read_text().split("\n## How verdicts are given\n")
    assert f"({RULES_FILE})" in last
    page = written[1].with_name(RULES_FILE).read_text()
    assert page == compose_rules() and "\n".join(rules()) in page


def test_the_report_has_at_most_half_of_its_former_length():
    """616 lines and 9,719 words; it grows with the zoo."""
    text = (CHECKOUT / "docs" / FILE).read_text()
    assert len(text.splitlines()) <= 616 / 2 and len(text.split()) <= 9719 / 2


def test_the_papers_statistics():
    text = "\n".join(statistics_tables(ZooResults({})))
    for table in (PAIRWISE_FIXED, PAIRWISE_LEARNED):
        assert format_pairwise(table.rows, settings=table.settings) in text
    for table in (POOLED_FIXED, POOLED_LEARNED):
        assert format_pooled(table.rows) in text
    assert re.search("at least 3 runs .*there are 0 ", text)
    assert re.search(r"\*\*3\.69\*\* \| +\*\*0\.008\*\* \| +\*\*0\.000\*\*", text)  # bold, as there
    measured = "\n".join(statistics_tables(five_runs(ACCURACY), only_measured=True))
    assert measured.count("Ours:") == 4 and "not yet measured" not in measured


def test_report_tables_are_whole(written):
    """Every row of a table has as many cells as its header, and every verdict is a known one."""
    columns = None
    for line in (written[1].read_text() + tables_of(written)).splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        columns = columns or len(cells)
        assert len(cells) == columns, line
    marks = re.findall(r"[✅🟩🟨🔷❌⬜➖⛔] ([a-z ]+[a-z])", written[1].read_text())
    assert len(marks) > 40 and set(marks) <= set(VERDICTS)


def test_report_links_the_figures_it_wrote(written):
    path, report = written
    linked = set(re.findall(r"\((figures/[^)]+)\)", report.read_text()))
    files = {f"figures/{file.name}" for file in (path / "docs" / "figures").iterdir()}
    assert linked == files - {"figures/drawn_by_others.png"}  # yesterday's is gone
    assert {Path(file).stem for file in linked} == {
        "report_scales_fashion",
        "report_selection_fashion_max_2jet",
        "report_selection_fashion_avg_2jet",
    }  # not of sections that are mostly untrained
    assert (path / "docs" / "figures" / "drawn_by_others.png").exists()


def test_the_same_zoo_gives_the_same_report(written):
    path, _ = written

    def contents():
        return {file: file.read_bytes() for file in (path / "docs").rglob("*.*")}

    before = contents()
    write_report(path / "zoo", path / "docs")
    assert contents() == before and len(before) == 10  # three pages, figures, those of others


_RUNS = '<a id="section-a-3"></a>'


def _without_other_runs(text: str) -> str:
    """A.3 also counts runs that only the machine has that wrote the report."""
    before, _, after = text.partition(_RUNS)
    rules_and_more = after[after.index("## How verdicts are given") :]
    return re.sub(r"(?m)^\| \[A\.3\].*\n", "", before) + rules_and_more


def test_the_committed_report_is_that_of_the_committed_zoo():
    """After `publish`: `python -m training report`."""
    text, drawings = compose(ZooResults.read(CHECKOUT / "zoo"))
    docs = CHECKOUT / "docs"
    assert _without_other_runs((docs / FILE).read_text()) == _without_other_runs(text)
    assert (docs / RULES_FILE).read_text() == compose_rules()
    tables = [(docs / TABLES_FILE).read_text(), compose_tables(ZooResults.read(CHECKOUT / "zoo"))]
    assert len({page.partition(_RUNS)[0].rstrip() for page in tables}) == 1
    files = {f"report_{d.stem}.{suffix}" for d in drawings for suffix in ("png", "pdf")}
    assert files == {file.name for file in (docs / "figures").glob("report_*")}


def test_an_empty_zoo_gives_a_report_of_what_is_to_be_done(tmp_path):
    (tmp_path / "zoo").mkdir()
    text = write_report(tmp_path / "zoo", tmp_path / "docs").read_text()
    assert "0 of 128 networks" in text and "figures/" not in text
    headings = [line for line in text.splitlines() if re.match(r"## [2678A]", line)]
    assert len(headings) == len(SECTIONS)
    assert all(line.endswith(": ⬜ not yet trained") for line in headings)


def test_a_caption_says_what_a_share_is_of():
    captions = {d.stem: d.caption for d in section_drawings("6.1", selected())}
    decide, contribute = (captions[f"selection_fashion_{p}_2jet"] for p in ("max", "avg"))
    figures = {d.stem: d.figure for d in section_drawings("6.1", selected())}
    for pooling, words in (("max", "% of the images"), ("avg", "% of the output")):
        axes = figures[f"selection_fashion_{pooling}_2jet"].axes
        assert [ax.get_ylabel() for ax in axes[3:]] == [words] * 3  # the colour bars
    assert re.search("decide .*`fashion_max_2jet`.* % of the images", decide)
    assert re.search("contribute .*`fashion_avg_2jet`.* % of the output", contribute)
    assert "decide" not in contribute


def test_ancestors_count():
    name = "fashion_max_2jet"
    one = folder(name, curve(0.87, 0.93, 0.92))
    one.recipe["ancestors"] = [
        {"name": "fashion_avg_2jet", "seed": 0, "images": 60_000},
        {"name": "fashion_single_2jet", "seed": 0, "images": 480_000},
    ]
    assert "| 540k+1.2M |" in compose_tables(ZooResults({name: one}))
    one.recipe["ancestors"][1]["images"] = None  # not known
    assert "| ?+1.2M |" in compose_tables(ZooResults({name: one}))
