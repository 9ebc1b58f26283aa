"""The numbers the paper prints, as data, each with the table it is from.

The paper prints accuracies only for regular Fashion-MNIST and CIFAR-10 (Tables 5 to 8). Its scale
generalisation results, those on STIR included, are figures without numbers: `paper_accuracy` says
None there, and what the text says about them is in `training.reproduction.claims`.

Accuracies are in per cent; every +- is an unbiased standard deviation over 5 runs. The footnotes of
sections 7.4 and 7.5 print two means more, without deviations.
"""

from __future__ import annotations

from dataclasses import dataclass

RUNS = 5
SIGMA_0_TAGS = ("s0p50", "s0p71", "s1p00")  # columns of Tables 5, 6 and 15: 1/2, 1/sqrt(2), 1
RATE_TAGS = ("lr1e-4", "lr1e-3", "lr1e-2")  # columns of Tables 7, 8, 11 to 14 and 17


@dataclass(frozen=True, kw_only=True)
class PaperValue:
    mean: float
    std: float | None  # None: not printed
    runs: int
    where: str

    def text(self, *, decimals: int = 2) -> str:
        """As the paper prints it."""
        mean = f"{self.mean:.{decimals}f}"
        return mean if self.std is None else f"{mean} ± {self.std:.{decimals}f}"


@dataclass(frozen=True, kw_only=True)
class PaperSpread:
    """Spatial spread of the first layer's kernels of derivative order 1 and 2, in pixels."""

    first: float
    second: float
    where: str


@dataclass(frozen=True, kw_only=True)
class PairwiseStatistics:
    """Per pair of methods and per setting: Hedges' g, and p of rank sum test and t-test."""

    where: str
    networks: str  # recipe name of a method in a setting, as a format string
    settings: tuple[str, ...]
    rows: dict[tuple[str, str], tuple[tuple[float, float, float], ...]]


@dataclass(frozen=True, kw_only=True)
class PooledStatistics:
    """Per pair of methods: pooled g, and p of Friedman Dunn-Sidak and of ANOVA Tukey."""

    where: str
    networks: str
    settings: tuple[str, ...]
    rows: dict[tuple[str, str], tuple[float, float, float]]


def paper_accuracy(name: str) -> PaperValue | None:
    """Test accuracy of the recipe `name` as the paper prints it; None where it prints none."""
    return ACCURACY.get(name)


# --- section 7.4: fixed scales, columns SIGMA_0_TAGS ---
_FIXED = {
    ("fashion28", "Table 5, section 7.4"): {
        "discrete": ((93.76, 0.10), (93.55, 0.19), (93.08, 0.05)),
        "sampled_derivative": ((93.74, 0.10), (93.45, 0.12), (92.99, 0.18)),
        "integrated_derivative": ((93.48, 0.15), (93.22, 0.09), (92.77, 0.07)),
        "sampled": ((93.60, 0.13), (93.23, 0.13), (92.84, 0.08)),
        "normalised": ((93.49, 0.09), (93.23, 0.18), (92.73, 0.05)),
        "integrated": ((93.32, 0.18), (93.09, 0.09), (92.67, 0.21)),
    },
    ("cifar32", "Table 6, section 7.4"): {
        "discrete": ((86.72, 0.23), (85.56, 0.09), (83.40, 0.15)),
        "sampled_derivative": ((86.92, 0.27), (85.20, 0.17), (82.92, 0.41)),
        "integrated_derivative": ((86.12, 0.08), (84.87, 0.21), (82.70, 0.32)),
        "sampled": ((85.58, 0.32), (84.27, 0.30), (82.00, 0.17)),
        "normalised": ((85.82, 0.08), (84.35, 0.28), (82.29, 0.10)),
        "integrated": ((85.23, 0.25), (83.91, 0.14), (81.81, 0.28)),
    },
}
# --- section 7.5: learned scales, columns RATE_TAGS ---
_LEARNED = {
    ("fashion28", "Table 7, section 7.5"): {
        "sampled_derivative_bn": ((93.47, 0.10), (93.50, 0.12), (93.71, 0.05)),
        "integrated_derivative_bn": ((93.59, 0.10), (93.61, 0.08), (93.55, 0.14)),
        "sampled_derivative_nobn": ((93.12, 0.12), (93.35, 0.15), (93.45, 0.13)),
        "integrated_derivative_nobn": ((93.09, 0.09), (93.22, 0.05), (93.32, 0.09)),
        "sampled_bn": ((93.47, 0.14), (93.68, 0.19), (93.55, 0.08)),
        "integrated_bn": ((93.54, 0.11), (93.52, 0.10), (93.52, 0.10)),
        "sampled_nobn": ((93.17, 0.09), (93.31, 0.12), (93.40, 0.04)),
        "integrated_nobn": ((93.23, 0.12), (93.19, 0.13), (93.35, 0.05)),
    },
    ("cifar32", "Table 8, section 7.5"): {
        "sampled_derivative_bn": ((87.71, 0.20), (87.52, 0.29), (87.33, 0.31)),
        "integrated_derivative_bn": ((86.93, 0.14), (86.52, 0.36), (86.64, 0.22)),
        "sampled_derivative_nobn": ((85.63, 0.39), (86.75, 0.23), (86.52, 0.18)),
        "integrated_derivative_nobn": ((85.33, 0.21), (86.06, 0.17), (85.96, 0.23)),
        "sampled_bn": ((86.90, 0.28), (86.61, 0.29), (86.81, 0.20)),
        "integrated_bn": ((86.74, 0.26), (86.66, 0.40), (86.79, 0.29)),
        "sampled_nobn": ((85.25, 0.13), (86.03, 0.32), (85.83, 0.33)),
        "integrated_nobn": ((85.34, 0.30), (85.93, 0.15), (86.17, 0.39)),
    },
}
# --- appendix A.2: sigma of the first layer after learning ---
_SIGMA_1 = {
    ("fashion28", "Table 11, appendix A.2"): {
        "sampled_derivative_bn": ((0.659, 0.003), (0.660, 0.003), (0.664, 0.002)),
        "integrated_derivative_bn": ((0.524, 0.008), (0.422, 0.005), (0.397, 0.008)),
        "sampled_derivative_nobn": ((0.659, 0.002), (0.660, 0.004), (0.656, 0.008)),
        "integrated_derivative_nobn": ((0.524, 0.006), (0.396, 0.003), (0.381, 0.010)),
        "sampled_bn": ((0.467, 0.008), (0.390, 0.009), (0.372, 0.012)),
        "integrated_bn": ((0.404, 0.010), (0.308, 0.007), (0.298, 0.004)),
        "sampled_nobn": ((0.469, 0.004), (0.384, 0.002), (0.370, 0.007)),
        "integrated_nobn": ((0.407, 0.003), (0.306, 0.007), (0.301, 0.006)),
    },
    ("cifar32", "Table 12, appendix A.2"): {
        "sampled_derivative_bn": ((0.505, 0.006), (0.514, 0.004), (0.513, 0.002)),
        "integrated_derivative_bn": ((0.339, 0.004), (0.364, 0.028), (0.394, 0.004)),
        "sampled_derivative_nobn": ((0.541, 0.008), (0.511, 0.002), (0.497, 0.001)),
        "integrated_derivative_nobn": ((0.336, 0.003), (0.375, 0.006), (0.390, 0.005)),
        "sampled_bn": ((0.304, 0.002), (0.302, 0.005), (0.325, 0.019)),
        "integrated_bn": ((0.214, 0.004), (0.206, 0.009), (0.227, 0.021)),
        "sampled_nobn": ((0.304, 0.001), (0.292, 0.005), (0.338, 0.026)),
        "integrated_nobn": ((0.212, 0.002), (0.207, 0.004), (0.246, 0.008)),
    },
}
# --- appendix A.2: spread of the first layer's kernels, orders 1 and 2, at the mean sigma above ---
_SPREAD = {
    ("fashion28", "Table 13, appendix A.2"): {
        "sampled_derivative_bn": ((1.087, 0.866), (1.087, 0.868), (1.091, 0.874)),
        "integrated_derivative_bn": ((1.039, 0.786), (1.005, 0.719), (1.003, 0.713)),
        "sampled_derivative_nobn": ((1.087, 0.866), (1.087, 0.868), (1.084, 0.861)),
        "integrated_derivative_nobn": ((1.039, 0.786), (1.003, 0.712), (1.002, 0.710)),
        "sampled_bn": ((1.130, 0.818), (1.053, 0.747), (1.039, 0.736)),
        "integrated_bn": ((1.168, 0.860), (1.080, 0.770), (1.071, 0.763)),
        "sampled_nobn": ((1.132, 0.820), (1.048, 0.743), (1.037, 0.735)),
        "integrated_nobn": ((1.171, 0.863), (1.078, 0.768), (1.073, 0.765)),
    },
    ("cifar32", "Table 14, appendix A.2"): {
        "sampled_derivative_bn": ((1.008, 0.688), (1.010, 0.696), (1.010, 0.695)),
        "integrated_derivative_bn": ((1.000, 0.708), (1.001, 0.709), (1.002, 0.712)),
        "sampled_derivative_nobn": ((1.018, 0.719), (1.010, 0.693), (1.007, 0.681)),
        "integrated_derivative_nobn": ((1.000, 0.708), (1.001, 0.710), (1.002, 0.712)),
        "sampled_bn": ((1.007, 0.712), (1.006, 0.712), (1.013, 0.717)),
        "integrated_bn": ((1.015, 0.718), (1.011, 0.715), (1.021, 0.722)),
        "sampled_nobn": ((1.007, 0.712), (1.004, 0.710), (1.019, 0.721)),
        "integrated_nobn": ((1.014, 0.717), (1.012, 0.716), (1.032, 0.731)),
    },
}


def _cells(tables, infix: str, tags: tuple[str, ...]):
    """(recipe name, (first, second number), where) for every cell of `tables`."""
    for (family, where), rows in tables.items():
        for row, numbers in rows.items():
            for tag, cell in zip(tags, numbers, strict=True):
                yield f"{family}_{infix}{row}_{tag}", cell, where


def _values(tables, infix: str, tags: tuple[str, ...]) -> dict[str, PaperValue]:
    return {
        name: PaperValue(mean=mean, std=std, runs=RUNS, where=where)
        for name, (mean, std), where in _cells(tables, infix, tags)
    }


# --- sections 7.4 and 7.5, footnotes: zero padding; the second one is named as the row of Table 8
# with a final batch norm is ---
_FOOTNOTES = {
    "cifar32_discrete_s0p50_zero": (89.33, "footnote, section 7.4"),
    "cifar32_learned_sampled_derivative_bn_lr1e-4_zero": (90.27, "footnote, section 7.5"),
}

ACCURACY: dict[str, PaperValue] = {
    **_values(_FIXED, "", SIGMA_0_TAGS),
    **_values(_LEARNED, "learned_", RATE_TAGS),
    **{
        name: PaperValue(mean=mean, std=None, runs=RUNS, where=where)
        for name, (mean, where) in _FOOTNOTES.items()
    },
}
LEARNED_SIGMA_1: dict[str, PaperValue] = _values(_SIGMA_1, "learned_", RATE_TAGS)
SPREAD: dict[str, PaperSpread] = {
    name: PaperSpread(first=first, second=second, where=where)
    for name, (first, second), where in _cells(_SPREAD, "learned_", RATE_TAGS)
}

# --- appendix A.3: regular CIFAR-10; with learned scales the networks with a final batch norm ---
PAIRWISE_FIXED = PairwiseStatistics(
    where="Table 15, appendix A.3",
    networks="cifar32_{method}_{setting}",
    settings=SIGMA_0_TAGS,
    rows={
        ("discrete", "sampled_derivative"): (
            (-0.69, 0.103, 0.259),
            (2.42, 0.016, 0.003),
            (1.40, 0.151, 0.040),
        ),
        ("discrete", "sampled"): ((3.69, 0.008, 0.000), (5.26, 0.008, 0.000), (7.90, 0.008, 0.000)),
        ("discrete", "normalised"): (
            (4.75, 0.008, 0.000),
            (5.27, 0.008, 0.000),
            (7.94, 0.008, 0.000),
        ),
        ("sampled_derivative", "sampled"): (
            (4.07, 0.008, 0.000),
            (3.44, 0.008, 0.000),
            (2.64, 0.008, 0.002),
        ),
        ("sampled_derivative", "normalised"): (
            (5.01, 0.008, 0.000),
            (3.32, 0.008, 0.001),
            (1.90, 0.008, 0.011),
        ),
        ("normalised", "sampled"): (
            (0.90, 0.135, 0.153),
            (0.25, 0.691, 0.672),
            (1.86, 0.016, 0.012),
        ),
    },
)
POOLED_FIXED = PooledStatistics(
    where="Table 16, appendix A.3",
    networks="cifar32_{method}_{setting}",
    settings=SIGMA_0_TAGS,
    rows={
        ("discrete", "sampled_derivative"): (0.53, 0.999, 0.118),
        ("discrete", "sampled"): (4.03, 0.000, 0.000),
        ("discrete", "normalised"): (3.91, 0.001, 0.000),
        ("sampled_derivative", "sampled"): (2.15, 0.000, 0.000),
        ("sampled_derivative", "normalised"): (2.33, 0.007, 0.000),
        ("normalised", "sampled"): (0.55, 0.535, 0.160),
    },
)
PAIRWISE_LEARNED = PairwiseStatistics(
    where="Table 17, appendix A.3",
    networks="cifar32_learned_{method}_bn_{setting}",
    settings=RATE_TAGS,
    rows={
        ("sampled_derivative", "integrated_derivative"): (
            (4.07, 0.008, 0.000),
            (2.74, 0.008, 0.001),
            (2.34, 0.008, 0.004),
        ),
        ("sampled_derivative", "sampled"): (
            (3.00, 0.008, 0.001),
            (2.80, 0.008, 0.001),
            (1.81, 0.032, 0.013),
        ),
        ("sampled_derivative", "integrated"): (
            (3.80, 0.008, 0.000),
            (2.21, 0.016, 0.005),
            (1.65, 0.032, 0.021),
        ),
        ("integrated_derivative", "sampled"): (
            (0.15, 0.691, 0.804),
            (-0.25, 0.691, 0.670),
            (-0.75, 0.310, 0.225),
        ),
        ("integrated_derivative", "integrated"): (
            (0.85, 0.071, 0.176),
            (-0.32, 0.691, 0.590),
            (-0.53, 0.691, 0.382),
        ),
        ("sampled", "integrated"): (
            (0.53, 0.413, 0.381),
            (-0.11, 1.000, 0.848),
            (0.09, 0.691, 0.882),
        ),
    },
)
POOLED_LEARNED = PooledStatistics(
    where="Table 18, appendix A.3",
    networks="cifar32_learned_{method}_bn_{setting}",
    settings=RATE_TAGS,
    rows={
        ("sampled_derivative", "integrated_derivative"): (2.98, 0.000, 0.000),
        ("sampled_derivative", "sampled"): (1.78, 0.004, 0.000),
        ("sampled_derivative", "integrated"): (1.87, 0.001, 0.000),
        ("integrated_derivative", "sampled"): (-0.20, 0.952, 0.882),
        ("integrated_derivative", "integrated"): (-0.06, 0.999, 0.991),
        ("sampled", "integrated"): (0.11, 0.994, 0.971),
    },
)
