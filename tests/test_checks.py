"""The checks behind claims about histograms, STIR, significance and matched sigmas."""

import dataclasses
import json
import math
import re
import shutil

import numpy as np
import pytest
import scipy.stats
from report_tools import (
    claim_with,
    curve,
    five_runs,
    folder,
    histograms,
    recipe_of,
    selected,
    stage_of,
    write,
)

from training.reproduction import repeated_runs
from training.reproduction.baselines import stir_baseline
from training.reproduction.claims import checks
from training.reproduction.claims.checks import find_peaks, selection_trend
from training.reproduction.claims.verdicts import judge
from training.reproduction.pages.figures import histogram_figure
from training.reproduction.paper import (
    ACCURACY,
    POOLED_FIXED,
)
from training.reproduction.zoo_results import ZooResults

SINGLE = "fashion_single_2jet"


# --- claims about histograms ---


def test_trend_of_a_covariant_network():
    sigmas = tuple(2 ** (n / 2) for n in range(-3, 4))
    sizes = [2**-0.5, 1.0, 2**0.5]
    shares = np.zeros((3, 7))
    shares[[0, 1, 2], [2, 3, 4]] = 1
    trend = selection_trend(shares, sizes=sizes, sigmas=sigmas)
    assert trend == pytest.approx((1.0, 1.0, 1.0, 0.0))
    shares[:] = 0
    shares[:, [2, 4]] = 0.5  # the size does not matter
    assert selection_trend(shares, sizes=sizes, sigmas=sigmas) == pytest.approx((0, 0, 0, 0.5))


def test_scale_selection_claim():
    claim = claim_with("The dominant scale channel is proportional", "6.1")
    judgement = judge(claim, selected())
    assert judgement.verdict == "reproduced" and judgement.ours.count("✓") == 3
    assert "with max" in judgement.ours
    assert judge(claim, selected(0.57, 0.6)).ours.count("?") == 1  # 5 % sharper is no difference
    judgement = judge(claim, selected(width_max=0.7))  # average is sharper
    assert judgement.verdict == "partly reproduced" and judgement.ours.count("✗") == 1
    assert judge(claim, selected(slope=0.1)).ours.count("✗") == 2
    narrow = selected(0.2, 0.3, slope=2.0)
    assert judge(claim, narrow).ours.count("✗") == 2  # grows, but not in proportion


def test_trend_is_that_of_the_largest_share_and_the_mean_is_told():
    """Average pooling: everything contributes, so the mean moves less than what dominates."""
    sigmas = tuple(2 ** (n / 2) for n in range(-3, 4))
    sizes = [2**-0.5, 1.0, 2**0.5]
    shares = np.full((3, 7), 0.13)
    shares[[0, 1, 2], [2, 3, 4]] = 0.22
    trend = selection_trend(shares, sizes=sizes, sigmas=sigmas)
    assert trend[:3] == pytest.approx((1.0, 1.0, 0.09))  # 9 % more at the channel that moves


def test_the_slope_of_the_mean_is_that_of_the_dots_in_the_figure():
    name = "fashion_avg_2jet"
    folders = dict(selected().folders)
    folders[name] = folder(name, curve(0.87, 0.93, 0.92), histograms(name, width=0.8, slope=0.4))
    results = ZooResults(folders)
    (axis, *_) = histogram_figure(results, name).axes
    (dots,) = [line for line in axis.lines if line.get_label() == "mean"]
    slope = np.polyfit(*dots.get_data(), 1)[0]
    assert 0.2 < slope < 0.4
    ours = judge(claim_with("The dominant scale channel is proportional", "6.1"), results).ours
    assert re.search(rf"✗ `{name}`: slope 0.\d\d \(of the mean {slope:.2f}\)", ours)


def test_peaks_stand_out_from_all_around_them():
    shares = np.array(
        [
            [0.0, 5.0, 1.0, 0.0, 1.0],
            [0.0, 1.0, 1.0, 0.0, 1.0],
            [3.0, 3.1, 1.0, 0.0, 2.0],
        ]
    )
    assert find_peaks(shares) == [(0, 1)]  # 3.1 is hardly more than 3.0, 2.0 is not strong
    shares[2, 0] = 2.9
    assert find_peaks(shares) == [(0, 1), (2, 1)]
    assert find_peaks(np.zeros((3, 3))) == []


def test_peaks_of_wrong_answers():
    claim = claim_with("strong peaks at the finest scales", "6.1")
    results = selected()
    name = "fashion_avg_2jet"
    histogram = results.folders[name].metrics.scale_histograms
    judgement = judge(claim, results)
    # more is wrong at size 1/2, and there the wrong answers of the example are at fine scales
    assert re.search(r"✓ `fashion_max_2jet`, wrong: .*\(0\.5, 0\.354\)", judgement.ours)
    for shares in histogram.values():
        shares["wrong"] = [0.0] * 6 + [1.0]
    ours = judge(claim, results).ours
    assert re.search(r"✗ `fashion_avg_2jet`, wrong: .*\(0\.5, 2\.83\)", ours)
    for shares in histogram.values():  # σ₀ = 1/√2, in the finer half but not in the finest third
        shares["wrong"] = [0.0, 0.0, 1.0] + [0.0] * 4
    assert re.search(r"✗ `fashion_avg_2jet`, wrong: .*0\.707\)", judge(claim, results).ours)
    for shares in histogram.values():
        shares["wrong"] = [0.0] * 6 + [1.0]
    assert re.search("✗ `fashion_avg_2jet`: .*largest size", ours)
    histogram["2.000"]["wrong"] = [0.0, 1.0] + [0.0] * 5
    judgement = judge(claim, results)
    assert re.search("✓ `fashion_avg_2jet`: .*largest size", judgement.ours)
    assert judgement.verdict == "reproduced"


def test_peaks_at_both_ends_must_be_higher_than_those_in_the_middle():
    claim = claim_with("more pronounced peaks")
    name = "cifar_max_2jet"
    folders = {name: folder(name, curve(0.5, 0.5, 0.5), histograms(name, width=1.0))}

    def marks(middle: float) -> str:
        shares = folders[name].metrics.scale_histograms
        for size in shares:
            row = [0.0] * 6
            if size in ("0.500", "1.000", "2.000"):
                row[{"0.500": 0, "1.000": 2, "2.000": 5}[size]] = 1.0
            if size == "1.000":
                row[2] = middle
            shares[size] = dict.fromkeys(("all", "correct", "wrong"), row)
        return re.sub("[^✓✗]", "", judge(claim, ZooResults(folders)).ours)

    assert marks(0.9) == "✓✓" and marks(1.1) == "✗✗"


def test_channels_that_dominate_at_size_factor_2():
    claim = claim_with("coarser scale channels tend to dominate")
    name = "cifar_avg_2jet"

    def ours(*, slope: float, centre: float = 0.0) -> str:
        shares = histograms(name, width=0.5, slope=slope, centre=centre)
        return judge(claim, ZooResults({name: folder(name, curve(0.7, 0.8, 0.6), shares)})).ours

    assert ours(slope=1.0) == (
        f"✓ `{name}`: from the finest channels 0 % at 2, 6 % at 1, 68 % at ½ (33 % if all were "
        "equal)"
    )
    assert ours(slope=0.0).startswith("✗")  # few, but the same at every size
    assert ours(slope=1.0, centre=-2.5).startswith("✗")  # fewer than at 1, but most


def test_without_histograms_nothing_is_said_about_peaks():
    results = ZooResults({"fashion_max_2jet": folder("fashion_max_2jet", curve(0.8, 0.9, 0.8))})
    for words in ("The dominant scale channel", "strong peaks"):
        verdict, why, *_ = judge(claim_with(words, "6.1"), results)
        assert verdict == "not yet measured" and "scale channels" in why


def test_avoided_channels():
    claim = claim_with("channels with sigma_0 of at most", "A.1")
    name = "fashion_max_2jet_s0p50_transfer"
    values = histograms(name, width=0.3, centre=-1.0)  # sigma_0 = 1/2 at the training size
    first = judge(claim, ZooResults({name: folder(name, curve(0.5, 0.9, 0.8), values)}))
    assert "✗ `fashion_max_2jet_s0p50_transfer`: finest channels" in first.ours
    for shares in values.values():  # move everything away from the two finest channels
        moved = [0.0, 0.0, *shares["all"][2:]]
        shares["all"] = [value / sum(moved) for value in moved]
    second = judge(claim, ZooResults({name: folder(name, curve(0.5, 0.9, 0.8), values)}))
    assert re.search(f"✓ `{name}`: finest channels .* 0 %", second.ours)
    assert second.verdict == "not yet trained" and second.extent == "1 of 6 networks trained"


def test_histograms_are_shares_of_all_images():
    results = selected()
    name = "fashion_max_2jet"
    accuracy = np.array(list(results.accuracies[name].values())) / 100
    for group, total in (("all", 1), ("correct", accuracy), ("wrong", 1 - accuracy)):
        np.testing.assert_allclose(results.histogram(name, group).sum(axis=1), total)
    values = histograms(name, width=0.4)
    values["1.000"]["wrong"] = []  # nothing was wrong
    perfect = ZooResults({name: folder(name, curve(0.87, 1.0, 0.92), values)})
    np.testing.assert_array_equal(perfect.histogram(name, "wrong")[4], np.zeros(7))
    assert ZooResults({name: folder(name, curve(0.8, 0.9, 0.8))}).histogram(name) is None


# --- STIR ---


SIGNS = [f"stir_sign_{sizes}_drop" for sizes in ("small", "mid", "large")]
FLAT = {str(size): 0.97 for size in range(17, 65)}
STEEP = {str(size): 0.3 + size / 100 for size in range(17, 65)}


def test_flat_curves_on_stir_are_noticed():
    better = claim_with("curves are almost flat and better")
    judgement = judge(better, ZooResults({name: folder(name, FLAT) for name in SIGNS}))
    assert judgement.verdict == "reproduced" and judgement.ours == "14 of 14 checks hold"
    judgement = judge(better, ZooResults({SIGNS[0]: folder(SIGNS[0], STEEP)}))
    assert judgement.verdict == "not reproduced"
    assert "✗ `stir_sign_small_drop`: range 47.0" in judgement.ours


def test_flat_curves_are_no_merit_where_those_of_others_are_as_flat(monkeypatch):
    known = stir_baseline("SESN", dataset="stir_sign", train_sizes="small")
    level = dataclasses.replace(known, mean=np.full(48, 80.0))
    monkeypatch.setattr(checks, "stir_baseline", lambda *args, **kwargs: level)
    claim = claim_with("curves are almost flat and better")
    (name, *_) = SIGNS
    assert f"? `{name}`: range 0.0" in judge(claim, ZooResults({name: folder(name, FLAT)})).ours
    sloped = {size: 0.9 + int(size) / 1000 for size in FLAT}  # 4.7 ppt
    ours = judge(claim, ZooResults({name: folder(name, sloped)})).ours
    assert f"✗ `{name}`: range 4.7 ppt, of the others 0.0 or more" in ours


def test_what_dropout_gains_on_stir_is_noticed():
    dropout = claim_with("Scale-channel dropout raises the accuracy")
    name, without = SIGNS[0], SIGNS[0].replace("drop", "nodrop")
    pair = {name: folder(name, FLAT), without: folder(without, STEEP)}
    judgement = judge(dropout, ZooResults(pair))
    assert judgement.ours.count("✓") == 2 and judgement.extent == "2 of 12 networks trained"


def test_traffic_signs_are_compared_with_aerial_images():
    flatter = claim_with("The curves on traffic signs are flatter")
    aerials = [name.replace("sign", "aerial") for name in SIGNS]
    pair = {SIGNS[0]: folder(SIGNS[0], FLAT), aerials[0]: folder(aerials[0], STEEP)}
    judgement = judge(flatter, ZooResults(pair))
    assert judgement == ("not yet trained", "+47.00 ppt", "2 of 6 networks trained")
    for curve_there, verdict in ((STEEP, "reproduced"), (FLAT, "inconclusive")):
        there = {name: folder(name, curve_there) for name in aerials}
        every = ZooResults({name: folder(name, FLAT) for name in SIGNS} | there)
        assert judge(flatter, every).verdict == verdict


def test_stir_gains_are_compared_by_size():
    """Objects smaller than those trained on, and others, by hand."""
    name, without = "stir_sign_mid_drop", "stir_sign_mid_nodrop"
    flat = {str(size): 0.90 for size in range(17, 65)}
    low = {str(size): 0.80 if size < 33 else 0.88 for size in range(17, 65)}
    dropout = claim_with("Scale-channel dropout raises the accuracy")
    results = ZooResults({name: folder(name, flat), without: folder(without, low)})
    assert re.search(r"✓ \+10\.0 ppt .*\+2\.0 ", judge(dropout, results).ours)
    high = {str(size): 0.89 if size < 33 else 0.80 for size in range(17, 65)}
    results.folders[without] = folder(without, high)
    other_way = judge(dropout, ZooResults(results.folders)).ours
    assert re.search(r"✗ \+1\.0 ppt .*\+10\.0 ", other_way)
    alone = judge(dropout, ZooResults({name: folder(name, flat)}))
    assert alone.verdict == "not yet trained"


def test_stir_leads_are_compared_by_size():
    name = "stir_sign_mid_drop"
    better = claim_with("curves are almost flat and better")
    known = [
        stir_baseline(rival, dataset="stir_sign", train_sizes="mid").mean
        for rival in ("SESN", "DISCO", "PixelPool")
    ]
    theirs = np.mean(known, axis=0)  # at 17…64
    ahead = {str(17 + n): (v + (3.0 if n < 16 else 1.0)) / 100 for n, v in enumerate(theirs)}
    ours = judge(better, ZooResults({name: folder(name, ahead)})).ours
    assert re.search(r"✓ ahead by 3\.0 ppt .*1\.0 ", ours)


# --- significance ---


def test_significance_needs_several_runs():
    claim = claim_with("no general significant difference")
    one = ZooResults({n: folder(n, {"1.000": v.mean / 100}) for n, v in ACCURACY.items()})
    for results, count in ((one, "0"), (five_runs(ACCURACY), "2 to 5")):
        for name in ("cifar32_discrete_s0p50", "cifar32_discrete_s1p00"):
            for seed in (2, 3, 4):
                results.runs.get("paper", {}).get(name, {}).pop(seed, None)
        verdict, why, *_ = judge(claim, results)
        assert verdict == "not yet measured"
        assert re.search(f"3 runs .*there are {count} ", why)
    results = five_runs(ACCURACY)
    del results.folders["cifar32_discrete_s0p50"]
    del results.runs["paper"]["cifar32_discrete_s0p50"]
    assert judge(claim, results).verdict == "not yet trained"
    assert judge(claim, ZooResults({})).verdict == "not yet trained"


def test_runs_are_compared_with_runs_of_the_same_seed_and_budget():
    results = five_runs(ACCURACY)
    runs = results.runs["paper"]
    del runs["cifar32_discrete_s0p50"][2]
    table = results.run_table(POOLED_FIXED)
    assert list(table) == ["discrete", "sampled_derivative", "sampled", "normalised"]
    expected = [
        [runs[f"cifar32_sampled_{tag}"][seed] for seed in (0, 1, 3, 4)]
        for tag in POOLED_FIXED.settings
    ]
    np.testing.assert_array_equal(table["sampled"], expected)
    results.runs["cpu"] = {"cifar32_discrete_s0p50": runs.pop("cifar32_discrete_s0p50")}
    assert results.run_table(POOLED_FIXED) is None  # one network has another budget


def test_runs_are_read_from_zoo_and_runs(tmp_path):
    name, other = "fashion28_discrete_s1p00", "fashion28_sampled_s0p50"
    write(tmp_path / "zoo", name, {"1.000": 0.92})  # seed 0
    write(tmp_path / "zoo", other, {"1.000": 0.92})
    recipe = tmp_path / "zoo" / other / "recipe.json"
    started = {"ancestors": [{"name": "fashion28_discrete_s0p50", "seed": 0}]}
    recipe.write_text(json.dumps(recipe_of(other) | started))
    size = {"images": 100, "histograms": {}, "confusion": [], "calibration_error": 0, "seconds": 1}
    for folder_name, correct in (
        (f"{name}-seed0", 91),
        (f"{name}-seed7", 93),
        (f"{name}@x-seed8", 9),
        (f"{name}-seed3", 94),  # started from a relative
        (f"{other}-seed1", 90),
        (f"{other}-seed2", 95),  # with a phase on every pixel
    ):
        path = tmp_path / "runs" / folder_name
        path.mkdir(parents=True)
        start = "fashion28_sampled_s1p00" if folder_name == f"{name}-seed3" else None
        phase = "exact" if folder_name == f"{other}-seed2" else "single"
        stages = [stage_of(name, name=phase, epochs=0.2)]
        record = {"recipe": name, "budget": "cpu", "seed": 1, "warm_start": start, "stages": stages}
        record["images_seen"] = 1_200_000
        (path / "run.json").write_text(json.dumps(record))
        (path / "evaluation.json").write_text(json.dumps({"1.000": {"correct": correct, **size}}))
    (tmp_path / "runs" / f"{name}-seed9").mkdir()  # not finished
    for trial, split in (("holdout-epochs2", "validation_"), ("epochs2", "")):  # one on test data
        path = tmp_path / "runs" / f"{name}@{trial}-seed1"
        path.mkdir()
        record |= {"recipe": f"{name}@{trial}", "warm_start": None, "images_seen": 100}
        (path / "run.json").write_text(json.dumps(record))
        measured = json.dumps({"1.000": {"correct": 4500, **size | {"images": 5000}}})
        (path / f"{split}evaluation.json").write_text(measured)
    results = ZooResults.read(tmp_path / "zoo", runs_dir=tmp_path / "runs")
    scratch = {0: pytest.approx(92.0), 7: pytest.approx(93.0)}
    assert results.runs == {
        "cpu, 1,200,000 images": {name: scratch, other: {1: pytest.approx(90.0)}},
        "cpu, 1,200,000 images, exact 0.2": {other: {2: pytest.approx(95.0)}},
    }
    trained = "trial holdout-epochs2, cpu, 100 images, exact 0.2"
    assert results.trials == {trained: {name: {1: pytest.approx(90.0)}}}
    assert results.count_runs([name]) == "2" and results.count_runs([name, "x"]) == "0 to 2"
    # what is kept is there without the folder of the runs
    assert repeated_runs.write(tmp_path / "zoo" / repeated_runs.FILE, results.runs) == 2
    shutil.rmtree(tmp_path / "runs")
    assert ZooResults.read(tmp_path / "zoo").runs == {"cpu, 1,200,000 images": {name: scratch}}


def test_repeated_runs_are_compared_within_their_training():
    a, b, c = ("fashion28_discrete_s1p00", "fashion28_integrated_s1p00", "cifar32_discrete_s1p00")
    runs = {
        "cpu, 10 images": {a: {0: 93.0, 1: 92.0, 2: 94.0}, b: {2: 91.0, 0: 90.0, 1: 92.0}},
        "cpu, 20 images": {b: {0: 95.0, 1: 96.0, 2: 94.0}, c: {0: 80.0, 1: 81.0, 2: 82.0}},
        "cpu, 30 images": {c: {0: 85.0, 1: 86.0}},
    }
    text = "\n".join(repeated_runs.tables(runs))
    assert "validation split" not in text
    assert f"| `{a}` | 93.00 ± 1.00 | 93.00, 92.00, 94.00 |" in text
    assert f"| `{b}` | 91.00 ± 1.00 | 90.00, 92.00, 91.00 |" in text
    assert text.count(" − ") == 1  # not across data sets or lengths
    # g = 2 / 1 * (1 - 3 / (4 * 4 - 1)) up to the exact correction; t = 2 / sqrt(2 / 3)
    (row,) = [line for line in text.splitlines() if " − " in line]
    ppt, g, wilcoxon, t_test = (float(cell) for cell in row.strip("|").split("|")[1:])
    assert (ppt, wilcoxon) == (2.0, 0.2)  # of the 20 divisions of six ranks, 4 are so unequal
    assert g == pytest.approx(2 * 0.8, abs=0.01)
    assert t_test == pytest.approx(2 * scipy.stats.t.sf(2 / math.sqrt(2 / 3), 4), abs=6e-4)
    assert "30 images" not in text
    trials = {f"trial holdout, {training}": networks for training, networks in runs.items()}
    assert "\n".join(repeated_runs.tables(trials)).count("on the validation split") == 2


def test_matched_sigmas():
    quite_well = claim_with("multiplied by the size factor")
    peak = curve(0.4, 0.92, 0.3)
    verdict, why, *_ = judge(quite_well, ZooResults({SINGLE: folder(SINGLE, peak)}))
    assert verdict == "not yet measured" and "matched sigmas" in why

    def verdict(matched):
        names = quite_well.models[:3]
        return judge(quite_well, ZooResults({n: folder(n, peak, matched=matched) for n in names}))

    assert verdict(curve(0.85, 0.92, 0.91)).verdict == "holds so far"
    assert "✓ `fashion_single_2jet`: loses 7.0" in verdict(curve(0.85, 0.92, 0.91)).ours
    assert "✗ `fashion_single_2jet`: loses 22.0" in verdict(curve(0.7, 0.92, 0.91)).ours
    for at_half in (0.775, 0.765):  # 14.5 and 15.5
        assert "? `fashion_single_2jet`: loses" in verdict(curve(at_half, 0.92, 0.91)).ours
    assert "? mean +0.0 ppt by matching" in verdict(peak).ours
    assert verdict(curve(0.3, 0.92, 0.3)).verdict == "not reproduced"


def test_transferred_networks_against_matched_sigmas():
    slightly_worse = claim_with("The transferred networks generalise slightly worse")
    name = "fashion_max_2jet_transfer"
    single = folder(SINGLE, curve(0.4, 0.92, 0.3), matched=curve(0.85, 0.92, 0.91))

    def ours(transferred):
        return judge(
            slightly_worse, ZooResults({SINGLE: single, name: folder(name, transferred)})
        ).ours

    assert ours(curve(0.80, 0.90, 0.90)).startswith(f"? `{name}`: mean -2.6")  # chance leaves 3
    assert ours(curve(0.85, 0.92, 0.91)) == f"? `{name}`: mean +0.0 ppt"
    assert ours(curve(0.90, 0.95, 0.95)).startswith(f"✗ `{name}`: mean +")
    assert ours(curve(0.60, 0.90, 0.60)).startswith(f"✗ `{name}`: mean -")  # not slightly
    assert ours(curve(0.77, 0.90, 0.84)).startswith(f"? `{name}`: mean -5.1")  # slightly, perhaps
    assert ours(curve(0.84, 0.92, 0.91)).startswith(f"? `{name}`: mean -0.3")
