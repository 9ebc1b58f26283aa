"""The statistics against scipy, statsmodels, small cases by hand and the paper's own tables."""

import math
import re
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.libqsturng import psturng
from statsmodels.stats.meta_analysis import effectsize_smd
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttest_ind

from training.__main__ import main
from training.reproduction.statistics import (
    anova,
    friedman,
    hedges_correction,
    hedges_g,
    pairwise_table,
    pooled_hedges_g,
    pooled_table,
    rank_sum_p,
    t_test_p,
)


def accuracies(*shape, seed=0, shift=0.0):
    """Runs rounded as accuracies are, so that ties occur, with `shift` from column to column."""
    runs = np.random.default_rng(seed).normal(86.0, 0.3, shape)
    return np.round(runs + shift * np.arange(shape[-1]), 2)


# --- Hedges' g ---


def test_correction_factors_of_the_paper():
    assert round(hedges_correction(5 + 5 - 2), 3) == 0.903
    assert round(hedges_correction(15 + 15 - 2), 3) == 0.973


def test_correction_is_the_exact_one():
    # a = 4: Gamma(2) / (sqrt(2) Gamma(3/2)) = 1 / (sqrt(2) sqrt(pi) / 2)
    assert hedges_correction(4) == pytest.approx(math.sqrt(2 / math.pi), rel=1e-14)
    assert hedges_correction(8) != pytest.approx(1 - 3 / (4 * 8 - 1), rel=1e-5)
    assert hedges_correction(1000) == pytest.approx(1 - 3 / (4 * 1000 - 1), rel=1e-6)


def test_hedges_g_by_hand():
    # means 2 and 5, variances 1 and 4, pooled (2 * 1 + 2 * 4) / 4 = 2.5
    expected = -3 / math.sqrt(2.5) * math.sqrt(2 / math.pi)
    assert hedges_g([1, 2, 3], [3, 5, 7]) == pytest.approx(expected, rel=1e-14)
    assert hedges_g([3, 5, 7], [1, 2, 3]) == pytest.approx(-expected, rel=1e-14)


def test_hedges_g_weighs_the_variances_of_unequal_samples():
    # variances 1 (3 runs) and 2 (2 runs): (2 * 1 + 1 * 2) / 3
    expected = -2 / math.sqrt(4 / 3) * hedges_correction(3)
    assert hedges_g([1, 2, 3], [3, 5]) == pytest.approx(expected, rel=1e-14)


def test_hedges_g_against_statsmodels():
    x, y = accuracies(2, 40, seed=1)
    y = y + 0.2
    smd, _ = effectsize_smd(x.mean(), x.std(ddof=1), 40, y.mean(), y.std(ddof=1), 40)
    assert hedges_g(x, y) == pytest.approx(smd, rel=1e-4)  # its correction is the approximate one


def test_pooled_g_by_hand():
    # differences 1, 2, 3: mean 2, standard deviation 1; alpha = 3 + 3 - 2
    expected = 2 * math.sqrt(2 / math.pi)
    assert pooled_hedges_g([11, 22, 33], [10, 20, 30]) == pytest.approx(expected, rel=1e-14)


def test_pooled_g_ignores_what_a_setting_does_to_both():
    x, y = accuracies(2, 15)
    settings = np.repeat([0.0, -1.5, -3.0], 5)
    assert pooled_hedges_g(x + settings, y + settings) == pytest.approx(pooled_hedges_g(x, y))
    assert abs(hedges_g(x + settings, y + settings)) < abs(hedges_g(x, y))


# --- two samples ---


@pytest.mark.parametrize("sizes", [(5, 5), (4, 7), (2, 2)])
def test_rank_sum_without_ties_against_scipy(sizes):
    for seed in range(5):
        runs = np.random.default_rng(seed).normal(size=sum(sizes))
        x, y = runs[: sizes[0]], runs[sizes[0] :] + 0.5
        expected = stats.mannwhitneyu(x, y, method="exact").pvalue
        assert rank_sum_p(x, y) == pytest.approx(expected, rel=1e-12)


def test_rank_sum_with_ties_counts_all_divisions():
    x, y = [1.0, 2.0, 2.0, 3.0, 5.0], [2.0, 3.0, 4.0, 5.0, 6.0]
    ranks = stats.rankdata(x + y)
    sums = np.array([ranks[list(five)].sum() for five in combinations(range(10), 5)])
    tails = (sums <= ranks[:5].sum()).sum(), (sums >= ranks[:5].sum()).sum()
    assert rank_sum_p(x, y) == pytest.approx(2 * min(tails) / 252, rel=1e-12)


def test_rank_sum_by_hand():
    # 2 of the C(4, 2) = 6 divisions are as extreme
    assert rank_sum_p([1, 2], [3, 4]) == pytest.approx(2 / 6)
    assert rank_sum_p([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)  # as the tables of runs say
    assert rank_sum_p([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)  # 0.008
    assert rank_sum_p([1, 1], [1, 1]) == 1.0


def test_rank_sum_of_many_runs_is_the_normal_approximation():
    x, y = accuracies(2, 15, seed=3)
    expected = stats.mannwhitneyu(x, y, method="asymptotic").pvalue
    assert rank_sum_p(x, y) == pytest.approx(expected)


def test_t_test_against_scipy_and_statsmodels():
    x, y = accuracies(5, seed=4), accuracies(7, seed=5)
    assert t_test_p(x, y) == pytest.approx(stats.ttest_ind(x, y).pvalue, rel=1e-12)
    assert t_test_p(x, y) == pytest.approx(ttest_ind(x, y, usevar="pooled")[1], rel=1e-12)


def test_t_test_by_hand():
    # t = -3 / (sqrt(2.5) sqrt(2/3)), 4 degrees of freedom
    t = 3 / math.sqrt(2.5 * 2 / 3)
    assert t_test_p([1, 2, 3], [3, 5, 7]) == pytest.approx(2 * stats.t.sf(t, 4), rel=1e-12)


# --- Friedman and Dunn-Sidak ---


@pytest.mark.parametrize("seed", range(3))
def test_friedman_against_scipy(seed):
    runs = accuracies(15, 4, seed=seed, shift=0.1)
    runs[0, 1] = runs[0, 0]  # a tie
    expected = stats.friedmanchisquare(*runs.T)
    result = friedman(runs)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert result.p == pytest.approx(expected.pvalue, rel=1e-10)
    np.testing.assert_allclose(result.mean_ranks, stats.rankdata(runs, axis=1).mean(axis=0))


def test_friedman_by_hand():
    # ranks 1 2 3 in both rows: 12 * 2 / (3 * 4) * (1 + 0 + 1) = 4; se = sqrt(3 * 4 / (6 * 2)) = 1
    result = friedman([[1, 2, 3], [10, 20, 30]])
    assert result.statistic == pytest.approx(4.0)
    np.testing.assert_allclose(result.mean_ranks, [1, 2, 3])
    one, two = 2 * stats.norm.sf(1), 2 * stats.norm.sf(2)
    expected = [1 - (1 - one) ** 3, 1 - (1 - two) ** 3, 1 - (1 - one) ** 3]
    np.testing.assert_allclose(result.pairwise_p[[0, 0, 1], [1, 2, 2]], expected)
    np.testing.assert_allclose(result.pairwise_p, result.pairwise_p.T)
    np.testing.assert_allclose(np.diag(result.pairwise_p), 1.0)


def test_dunn_sidak_against_statsmodels():
    runs = np.random.default_rng(7).normal(0.4 * np.arange(4), 1.0, (15, 4))  # no ties
    result = friedman(runs)
    first, second = np.triu_indices(4, 1)
    z = (result.mean_ranks[first] - result.mean_ranks[second]) / math.sqrt(4 * 5 / (6 * 15))
    _, expected, _, _ = multipletests(2 * stats.norm.sf(abs(z)), method="sidak")
    np.testing.assert_allclose(result.pairwise_p[first, second], expected, rtol=1e-10)


def test_dunn_sidak_gives_table_16_from_rank_sums():
    """The printed p values of Table 16 fix the rank sums over 15 rows: 54, 51, 17 and 28.

    Order: discrete, sampled derivatives, sampled, normalised. Any 15 x 4 ranks with these sums
    give the paper's column.
    """
    rows = [(4, 3, 1, 2)] * 8 + [(3, 4, 1, 2)] * 5 + [(4, 3, 2, 1), (3, 4, 2, 1)]
    rows = np.array(rows)
    assert rows.sum(axis=0).tolist() == [54, 51, 17, 28]
    p = friedman(rows).pairwise_p
    assert [f"{p[pair]:.3f}" for pair in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (3, 2)]] == [
        "0.999",
        "0.000",
        "0.001",
        "0.000",
        "0.007",
        "0.535",
    ]


# --- ANOVA and Tukey ---


def two_way_model(runs):
    rows, methods = np.indices(runs.shape)
    frame = pd.DataFrame({"run": runs.ravel(), "row": rows.ravel(), "method": methods.ravel()})
    return smf.ols("run ~ C(row) + C(method)", frame).fit()


@pytest.mark.parametrize("shape", [(15, 4), (6, 3), (3, 2)])
def test_anova_against_statsmodels(shape):
    runs = accuracies(*shape, seed=8, shift=0.1)
    result, model = anova(runs), two_way_model(runs)
    table = anova_lm(model)
    assert result.f == pytest.approx(table.loc["C(method)", "F"], rel=1e-8)
    assert result.p == pytest.approx(table.loc["C(method)", "PR(>F)"], rel=1e-8)
    assert result.row_f == pytest.approx(table.loc["C(row)", "F"], rel=1e-8)
    assert result.row_p == pytest.approx(table.loc["C(row)", "PR(>F)"], rel=1e-8)
    assert result.mean_square_error == pytest.approx(model.mse_resid, rel=1e-8)
    assert result.degrees_of_freedom == model.df_resid


def test_tukey_against_statsmodels():
    runs = accuracies(15, 4, seed=9, shift=0.15)
    result, model = anova(runs), two_way_model(runs)
    contrasts = model.t_test_pairwise("C(method)").result_frame  # rows 1-0, 2-0, 3-0, 2-1, …
    for pair, t in contrasts["t"].items():
        i, j = map(int, pair.split("-"))
        # an approximation that says nothing above 0.9 and below 0.001
        expected = float(np.squeeze(psturng(abs(t) * math.sqrt(2), 4, model.df_resid)))
        assert np.clip(result.pairwise_p[i, j], 0.001, 0.9) == pytest.approx(expected, abs=2e-3)


def test_tukey_of_two_methods_is_the_paired_t_test():
    runs = accuracies(15, 2, seed=10, shift=0.1)
    expected = stats.ttest_rel(*runs.T).pvalue
    result = anova(runs)
    assert result.pairwise_p[0, 1] == pytest.approx(expected, rel=1e-6)
    assert result.p == pytest.approx(expected, rel=1e-8)


def test_anova_by_hand():
    # method means 2 and 4, row means 1, 3, 5; errors +-1/2, +-1, +-1/2: squares sum to 3
    runs = np.array([[0.5, 1.5], [1.0, 5.0], [4.5, 5.5]])
    result = anova(runs)
    assert result.degrees_of_freedom == 2
    assert result.mean_square_error == pytest.approx(3 / 2)
    assert result.f == pytest.approx(3 * (1 + 1) / 1 / (3 / 2))
    assert result.row_f == pytest.approx(2 * (4 + 0 + 4) / 2 / (3 / 2))


def test_anova_removes_the_effect_of_a_row():
    runs = accuracies(15, 4, seed=11, shift=0.1)
    shifted = runs + np.repeat([0.0, -1.5, -3.0], 5)[:, None]
    np.testing.assert_allclose(anova(shifted).pairwise_p, anova(runs).pairwise_p, atol=1e-8)
    assert anova(shifted).row_f > anova(runs).row_f


# --- tables ---


@pytest.fixture
def three_methods():
    better = np.array([[87.1, 87.3, 87.2, 87.4, 87.5], [85.1, 85.3, 85.2, 85.4, 85.6]])
    worse = better - [[1.0, 1.2, 1.1, 0.9, 1.0], [0.9, 1.1, 1.0, 1.2, 0.8]]
    alike = better + [[0.1, -0.1, 0.0, 0.1, -0.2], [-0.1, 0.2, 0.0, -0.1, 0.05]]
    return {"a": better, "b": worse, "c": alike}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_pairwise_table(three_methods):
    text = pairwise_table(three_methods, settings=["s = 1/2", "s = 1"])
    lines = text.splitlines()
    assert len({len(line) for line in lines}) == 1  # aligned, so it reads as text too
    assert cells(lines[0]) == [
        "Compared kernels",
        *("s = 1/2: Hedges", "Wilcoxon", "t-test"),
        *("s = 1: Hedges", "Wilcoxon", "t-test"),
    ]
    assert [cells(line)[0] for line in lines[2:]] == ["a vs. b", "a vs. c", "b vs. c"]
    x, y = three_methods["a"][1], three_methods["b"][1]
    assert cells(lines[2])[4:] == [f"**{hedges_g(x, y):.2f}**", "**0.008**", "**0.000**"]
    x, y = three_methods["a"][0], three_methods["c"][0]
    assert cells(lines[3])[1:4] == [
        f"{hedges_g(x, y):.2f}",
        f"{rank_sum_p(x, y):.3f}",
        f"{t_test_p(x, y):.3f}",
    ]


def test_bold_needs_both_tests():
    # as in Table 15, 1.40 / 0.151 / 0.040: the t-test alone does not make it bold
    runs = {"a": [[1.0, 2.0, 3.0]], "b": [[4.0, 5.0, 6.0]]}
    assert t_test_p(runs["a"][0], runs["b"][0]) < 0.05 < rank_sum_p(runs["a"][0], runs["b"][0])
    assert "**" not in pairwise_table(runs, settings=["only"])


def test_pooled_table(three_methods):
    lines = pooled_table(three_methods, pairs=[("c", "a"), ("a", "b")]).splitlines()
    assert cells(lines[0]) == [
        "Compared kernels",
        "Hedges' g pooled",
        "Friedman Dunn-Šidák",
        "ANOVA Tukey",
    ]
    matrix = np.stack([values.ravel() for values in three_methods.values()], axis=1)
    g = pooled_hedges_g(matrix[:, 2], matrix[:, 0])
    dunn_sidak, tukey = friedman(matrix).pairwise_p[2, 0], anova(matrix).pairwise_p[2, 0]
    assert cells(lines[2]) == ["c vs. a", f"{g:.2f}", f"{dunn_sidak:.3f}", f"{tukey:.3f}"]
    assert cells(lines[3])[0] == "a vs. b"
    assert all(cell.startswith("**") for cell in cells(lines[3])[1:])


# --- bad input ---


@pytest.mark.parametrize("function", [hedges_g, pooled_hedges_g, rank_sum_p, t_test_p])
@pytest.mark.parametrize("bad", [[1.0], [[1.0, 2.0]], [1.0, float("nan")], []])
def test_samples_are_checked(function, bad):
    with pytest.raises(ValueError, match="`x` .*two finite numbers.*Received:"):
        function(bad, [1.0, 2.0])
    with pytest.raises(ValueError, match="`y` .*two finite numbers.*Received:"):
        function([1.0, 2.0], bad)


@pytest.mark.parametrize("function", [hedges_g, t_test_p])
def test_constant_samples_are_refused(function):
    with pytest.raises(ValueError, match="`x` or `y` must vary"):
        function([1.0, 1.0], [2.0, 2.0])


def test_pairs_must_match_and_differ():
    with pytest.raises(ValueError, match="`y` .*`x`, 2.*Received: 3"):
        pooled_hedges_g([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="`x - y` must vary"):
        pooled_hedges_g([1.0, 2.0], [0.0, 1.0])


@pytest.mark.parametrize("function", [friedman, anova])
@pytest.mark.parametrize("bad", [[1.0, 2.0], [[1.0, 2.0]], [[1.0], [2.0]], [[1, 2], [3, math.inf]]])
def test_matrices_are_checked(function, bad):
    with pytest.raises(ValueError, match=r"`runs` .*finite.*\(rows, methods\).*Received:"):
        function(bad)


def test_matrices_without_error_are_refused():
    with pytest.raises(ValueError, match="`runs` must differ"):
        friedman([[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(ValueError, match="`runs` .*additive"):
        anova([[1.1, 2.2], [2.1, 3.2]])


# --- the command ---


def run_command(tmp_path, capsys, text: str) -> tuple[int, str, str]:
    file = tmp_path / "runs.csv"
    file.write_text(text)
    code = main(["statistics", str(file)])
    return code, *capsys.readouterr()


def test_command_prints_the_tables_of_a_file(tmp_path, capsys):
    """By hand: setting one: means 2 and 5, variances 1 and 4; setting two: means 12 and 13.

    Rank sums: x 1, 2, 3 against 3, 5, 7 has ranks 1, 2, 3.5 of which two divisions in 20 are as
    low, x2. Differences over both settings: 2, 3, 4, 1, 1, 1, mean 2, variance 8/5.
    """
    rows = [
        *(("a", "one", run, value) for run, value in enumerate((1, 2, 3))),
        *(("b", "one", run, value) for run, value in enumerate((3, 5, 7))),
        *(("b", "two", run, value) for run, value in enumerate((12, 13, 14))),
        *(("a", "two", run, value) for run, value in enumerate((11, 12, 13))),
    ]
    text = "method,setting,run,accuracy\n" + "\n".join(",".join(map(str, r)) for r in rows) + "\n"
    code, out, _ = run_command(tmp_path, capsys, text)
    assert code == 0
    pairwise, pooled = (part.splitlines() for part in out.strip().split("\n\n"))
    header = ["Compared kernels", "one: Hedges", "Wilcoxon", "t-test"]
    assert cells(pairwise[0]) == [*header, "two: Hedges", "Wilcoxon", "t-test"]
    correction = math.sqrt(2 / math.pi)  # 4 degrees of freedom
    first = -3 / math.sqrt(2.5) * correction
    t = 3 / math.sqrt(2.5 * 2 / 3)
    expected = [f"{first:.2f}", "0.200", f"{2 * stats.t.sf(t, 4):.3f}"]
    assert cells(pairwise[2])[:4] == ["a vs. b", *expected]
    assert cells(pairwise[2])[4] == f"{-correction:.2f}"  # difference 1, standard deviation 1
    g = -2 / math.sqrt(8 / 5) * hedges_correction(10)
    # a below b in all 6 rows: mean ranks 1 and 2, variance 1/2, z = sqrt(6)
    p = 2 * stats.norm.sf(math.sqrt(6))
    paired_t = 2 / math.sqrt(8 / 5 / 6)
    row = [f"{g:.2f}", f"{p:.3f}", f"{2 * stats.t.sf(paired_t, 5):.3f}"]
    assert cells(pooled[2]) == ["a vs. b", *(f"**{cell}**" for cell in row)]


@pytest.mark.parametrize(
    "text, message",
    [
        ("name,accuracy\na,1\n", "runs.csv .*method,setting,run,accuracy"),
        ("method,setting,run,accuracy\na,s,1,x\n", "line 2: accuracy must be a number"),
        ("method,setting,run,accuracy\na,s,1,1\na,s,1,2\n", "line 3: .* twice"),
        ("method,setting,run,accuracy\na,s,1,1\nb,s,1,2\n", "two or more methods and runs"),
        (
            "method,setting,run,accuracy\na,s,1,1\na,s,2,1\nb,s,1,2\n",
            "no run 2 of 'b' in 's'",
        ),
    ],
)
def test_command_says_what_is_wrong_with_a_file(tmp_path, capsys, text, message):
    code, _, error = run_command(tmp_path, capsys, text)
    assert code == 1 and re.search(message, error)


def test_a_file_saved_by_excel(tmp_path, capsys):
    rows = "a,s,0,1\na,s,1,3\na,s,2,4\nb,s,0,2\nb,s,1,6\nb,s,2,5\n"
    code, out, _ = run_command(tmp_path, capsys, "\ufeffmethod,setting,run,accuracy\n" + rows)
    assert code == 0 and "| a vs. b " in out


def test_runs_of_a_file_are_not_kept(tmp_path, capsys):
    assert main(["statistics", str(tmp_path / "runs.csv"), "--keep"]) == 1
    assert "`--keep` keeps the runs of this project" in capsys.readouterr().err


def test_command_without_a_file_says_how_many_runs_there_are(tmp_path, capsys):
    (tmp_path / "zoo").mkdir()
    options = ["--zoo", str(tmp_path / "zoo"), "--runs", str(tmp_path / "runs")]
    assert main(["statistics", *options]) == 0
    out = capsys.readouterr().out
    assert re.search("at least 3 runs .*there are 0 ", out)
    assert "| discrete vs. sampled " in out  # the paper's tables are there


def test_tables_check_their_input(three_methods):
    with pytest.raises(ValueError, match="`settings` must name 2 .*Received: .*one"):
        pairwise_table(three_methods, settings=["one"])
    with pytest.raises(ValueError, match="`pairs` .*Received: 'd'"):
        pooled_table(three_methods, pairs=[("a", "d")])
    with pytest.raises(ValueError, match="`runs` .*one shape"):
        pooled_table({**three_methods, "d": [[1.0, 2.0]]})
