"""The figures of the report, from what the zoo holds: one function per kind.

Networks that are not trained are left out of a figure and named in its caption. A figure that
compares networks needs two of them; without what it needs there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gdn_keras import datasets, plots

from ...publishing.styles import STYLES
from ...recipes import RECIPES
from ..baselines import DATASETS, MODELS, stir_baseline
from ..claims.sigma_checks import LAW
from ..claims.statements import CLAIMS
from ..paper import ACCURACY
from ..zoo_results import MATCHED, ZooResults, group_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_LAW = {"paper: ½ · 1.7$^{k-1}$": LAW}
_FAMILIES = {"fashion": "Fashion-MNIST", "cifar": "CIFAR-10"}
_TAGS = {"_s0p50": "σ₀ = ½", "_s0p71": "σ₀ = 1/√2", "": "σ₀ = 1"}


class Drawing(NamedTuple):
    stem: str  # of the files
    caption: str
    figure: Figure | None  # None: not enough of its networks are trained


# === Kinds of figures ===


def measured_curves(
    results: ZooResults, networks: Mapping[str, str]
) -> dict[str, dict[float, float]]:
    """Label -> curve of those of `networks`, label -> name, that are there."""
    curves = {label: results.curve(name) for label, name in networks.items()}
    return {label: curve for label, curve in curves.items() if curve}


def curves_figure(
    results: ZooResults, networks: Mapping[str, str], *, section: str | None = None
) -> Figure | None:
    """Accuracy against size factor; `networks` is label -> name.

    With a section, also the accuracies that the paper's text names there. Where some curves lie
    so close together that another one hides their differences, a second panel shows these alone.
    """
    curves = measured_curves(results, networks)
    if len(curves) < 2:
        return None
    paper = {
        f"paper: {claim.printed}": (factor, claim.low, claim.high)
        for claim in CLAIMS
        if claim.section == section and claim.measure == "accuracy"
        for factor in claim.size_factors
    }
    panels = [curves]
    lowest = {label: min(curve.values()) for label, curve in curves.items()}
    highest = max(max(curve.values()) for curve in curves.values())
    middle = (min(lowest.values()) + highest) / 2
    upper = {label: curve for label, curve in curves.items() if lowest[label] > middle}
    if 2 <= len(upper) < len(curves):
        panels.append(upper)
    height = 20 + 45 * len(panels)
    figure, axes = plots.new_figure(height=height, rows=len(panels), sharex=True)
    for ax, shown in zip(axes[:, 0], panels, strict=True):
        plots.plot_scale_generalisation(shown, ax, paper=paper, styles=STYLES, legend=False)
        ax.label_outer()
    plots.legend_below(figure, axes[0, 0], columns=2)
    return figure


def histogram_figure(results: ZooResults, name: str) -> Figure | None:
    """Scale selection over all, the right and the wrong answers."""
    if name not in results.folders or results.histogram(name) is None:
        return None
    figure, axes = plots.new_figure(height=120, rows=3, sharex=True)
    for ax, group in zip(axes[:, 0], ("all", "correct", "wrong"), strict=True):
        plots.plot_scale_selection(
            results.histogram(name, group),
            ax,
            size_factors=list(results.accuracies[name]),
            channel_sigmas=results.folders[name].config.channel_sigmas,
            pooling=RECIPES[name].config.scale_pooling,
            title=f"{group} classifications",
        )
        ax.label_outer()
    return figure


def stir_figure(results: ZooResults, dataset: str) -> Figure | None:
    """One panel per range of training sizes, ours and the published networks."""
    scenarios, ranges = {}, datasets.get(dataset).sizes.ranges
    for sizes in ranges:
        names = {
            "ours, dropout": f"{dataset}_{sizes}_drop",
            "ours, without": f"{dataset}_{sizes}_nodrop",
        }
        curves = {k: results.accuracies[n] for k, n in names.items() if n in results.folders}
        if curves:
            scenarios[sizes] = curves
    if sum(map(len, scenarios.values())) < (1 if dataset in DATASETS else 2):
        return None
    figure, axes = plots.new_figure(
        height=20 + 45 * len(scenarios), rows=len(scenarios), sharex=True
    )
    for ax, (sizes, curves) in zip(axes[:, 0], scenarios.items(), strict=True):
        others = {}
        if dataset in DATASETS:
            for model in MODELS:
                baseline = stir_baseline(model, dataset=dataset, train_sizes=sizes)
                others[model] = baseline.curve
        shown = {"others": others, "styles": STYLES}
        plots.plot_object_sizes(curves, ax, training_sizes=ranges[sizes], **shown)
        ax.label_outer()
    plots.legend_below(figure, *axes[:, 0], columns=2)
    return figure


def sigma_networks(family: str, *, rate: str = "lr1e-3") -> dict[str, str]:
    """Label -> name of the networks of Figure 18; the family is fashion28 or cifar32."""
    labels = {
        "sampled_derivative_bn": "sampled derivatives",
        "integrated_derivative_bn": "integrated derivatives",
        "sampled_derivative_nobn": "sampled, no final BN",
        "integrated_derivative_nobn": "integrated, no final BN",
    }
    return {label: f"{family}_learned_{variant}_{rate}" for variant, label in labels.items()}


def sigma_figure(results: ZooResults, family: str, *, rate: str = "lr1e-3") -> Figure | None:
    """Learned sigmas of a family with their geometric fits, as in Figure 18."""
    fits = {
        label: results.sigma_fits[name]
        for label, name in sigma_networks(family, rate=rate).items()
        if name in results.folders
    }
    if not fits:
        return None
    figure, axes = plots.new_figure(height=70)
    plots.plot_sigmas(
        {label: fit.sigmas for label, fit in fits.items()},
        axes[0, 0],
        fits={label: (fit.sigma_0, fit.ratio) for label, fit in fits.items()} | PAPER_LAW,
        styles=STYLES,
    )
    return figure


def agreement_figure(results: ZooResults, names: Iterable[str]) -> Figure | None:
    """The accuracies that the paper prints, and ours."""
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for name in names:
        ours = (results.curve(name) or {}).get(1.0)
        if ours is not None:
            title = datasets.get(RECIPES[name].dataset).title
            value = ACCURACY[name]
            groups.setdefault(title, []).append((value.mean, value.std or 0.0, ours))
    if not groups:
        return None
    figure, axes = plots.new_figure(height=80)
    plots.plot_agreement(groups, axes[0, 0])
    return figure


# === Which figure belongs where ===


def section_drawings(section: str, results: ZooResults) -> list[Drawing]:
    """All figures of a section of the report."""
    drawings = []

    def add(stem: str, caption: str, figure: Figure | None, networks: Iterable[str]) -> None:
        drawings.append(Drawing(stem, caption + _missing(networks, results), figure))

    for stem, title, networks in CURVES.get(section, ()):
        caption = f"Accuracy against the size of the test images, {title}."
        figure = curves_figure(results, networks, section=section)
        add(stem, caption, figure, networks.values())
    for name in HISTOGRAMS.get(section, ()):
        decides = RECIPES[name].config.scale_pooling == "max"
        caption = (
            f"Scale channels that {'decide' if decides else 'contribute to the answer'} in "
            f"`{name}`, in % {'of the images' if decides else 'of the output, mean share'}; "
            "dots: mean; dotted: covariance."
        )
        add(f"selection_{name}", caption, histogram_figure(results, name), [name])
    if section == "6.4":
        for dataset in dict.fromkeys(r.dataset for r in RECIPES.values() if r.train_sizes):
            names = [n for n, r in RECIPES.items() if r.dataset == dataset]
            in_paper = any(RECIPES[name].paper_section for name in names)
            note = "" if in_paper else " (not in the paper)"
            caption = f"`{dataset}`{note}; shaded: the sizes of the training objects."
            add(dataset, caption, stir_figure(results, dataset), names)
    if section in ("7.4", "7.5"):
        names = [name for name in ACCURACY if RECIPES[name].paper_section == section]
        here = sum(name in results.folders for name in names)
        caption = (
            "Accuracies that the paper prints (means and standard deviations of 5 runs) and ours: "
            f"{here} of {len(names)} networks are trained."
        )
        stem = f"agreement_{section.replace('.', '_')}"
        add(stem, caption, agreement_figure(results, names), [])
    if section == "7.5":
        for family, title in (("fashion28", "Fashion-MNIST"), ("cifar32", "CIFAR-10")):
            caption = (
                f"Learned σ of every layer, regular {title}, η_σ = 0.001; dashed in the same "
                "colour: the nearest geometric series."
            )
            names = sigma_networks(family).values()
            add(f"sigmas_{family}", caption, sigma_figure(results, family), names)
    return drawings


def _missing(networks: Iterable[str], results: ZooResults) -> str:
    """What a caption says about the networks that are missing from the figure."""
    lists = {"trained": [], "measured": []}
    for name in networks:
        if results.curve(name) is None:
            trained = name.removesuffix(MATCHED) in results.folders
            lists["measured" if trained else "trained"].append(name)
    return "".join(
        f" Not yet {word}: {', '.join(f'`{name}`' for name in group_names(names))}."
        for word, names in lists.items()
        if names
    )


def _poolings(family: str) -> dict[str, str]:
    return {
        "one scale channel": f"{family}_single_2jet",
        "max pooling": f"{family}_max_2jet",
        "average pooling": f"{family}_avg_2jet",
    }


def _with_and_without_dropout(family: str, pooling: str) -> tuple[str, str]:
    name = f"{family}_{pooling}_2jet"
    return (f"{name}_drop", name) if name == "fashion_avg_2jet" else (name, f"{name}_nodrop")


_COMPARED = {
    "fashion": {"2-jet": "fashion_avg_2jet_drop", "3-jet": "fashion_avg_3jet"},
    "cifar": {"2-jet": "cifar_avg_2jet", "3-jet": "cifar_avg_3jet"},
}
# section -> (stem of the files, title, label -> network)
CURVES: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "6.1": [("scales_fashion", "rescaled Fashion-MNIST", _poolings("fashion"))],
    "6.2": [
        (
            "translated",
            "rescaled Fashion-MNIST with translations",
            {
                "max pooling": "fashion_translated_max_2jet",
                "average pooling": "fashion_translated_avg_2jet",
            },
        )
    ],
    "6.3": [("scales_cifar", "rescaled CIFAR-10", _poolings("cifar"))],
    "7.1": [
        (
            f"dropout_{family}_{pooling}",
            f"rescaled {title}, {word} pooling",
            {
                f"{word}, dropout": dropout,
                f"{word}, without": without,
                **({f"{word}, cutout": f"{dropout}_cutout"} if family == "cifar" else {}),
            },
        )
        for family, title in _FAMILIES.items()
        for pooling, word in (("max", "max"), ("avg", "average"))
        for dropout, without in [_with_and_without_dropout(family, pooling)]
    ],
    "7.2": [
        (f"jets_{family}", f"rescaled {_FAMILIES[family]}", networks)
        for family, networks in _COMPARED.items()
    ],
    "7.3": [
        (
            f"pooling_{family}",
            f"rescaled {title}",
            {
                "max pooling": f"{family}_max_2jet",
                "average pooling": _COMPARED[family]["2-jet"],
                "logsumexp pooling": f"{family}_lse_2jet",
            },
        )
        for family, title in _FAMILIES.items()
    ],
    "A.1": [
        (
            f"transfer_{family}{tag}",
            f"rescaled {title}, {sigma}; trained: all scale channels together; transferred: the "
            "weights of one",
            {
                "max, trained": f"{family}_max_2jet{tag}",
                "average, trained": f"{family}_avg_2jet{tag}",
                "max, transferred": f"{family}_max_2jet{tag}_transfer",
                "average, transferred": f"{family}_avg_2jet{tag}_transfer",
                "one channel, matched σ": f"{family}_single_2jet{tag}{MATCHED}",
            },
        )
        for family, title in _FAMILIES.items()
        for tag, sigma in _TAGS.items()
    ],
}
HISTOGRAMS = {
    "6.1": ["fashion_max_2jet", "fashion_avg_2jet"],
    "6.3": ["cifar_max_2jet", "cifar_avg_2jet"],
    "A.1": [f"{family}_max_2jet{tag}_transfer" for family in _FAMILIES for tag in _TAGS],
}
