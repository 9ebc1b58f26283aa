"""The figures of the report, from what the zoo holds: one function per kind.

Networks that are not trained are left out of a figure; without any there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gdn_keras import plots
from training.baselines import DATASETS, MODELS, stir_baseline
from training.claims import CLAIMS
from training.paper import ACCURACY
from training.recipes import RECIPES, TRAIN_SIZES
from training.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER_LAW = {"paper: ½ · 1.7$^{k-1}$": (0.5, 1.7)}
_FAMILIES = {"fashion": "Fashion-MNIST", "cifar": "CIFAR-10"}
_TAGS = {"_s0p50": "σ₀ = ½", "_s0p71": "σ₀ = 1/√2", "": "σ₀ = 1"}


class Drawing(NamedTuple):
    stem: str  # of the files
    caption: str
    figure: Figure | None  # None: none of its networks is trained


# === Kinds of figures ===


def curves_figure(
    results: Results, networks: Mapping[str, str], *, section: str | None = None
) -> Figure | None:
    """Accuracy against size factor; `networks` is label -> name.

    With a section, also the accuracies that the paper's text names there.
    """
    curves = {k: results.accuracies[n] for k, n in networks.items() if n in results.folders}
    if not curves:
        return None
    paper = {
        f"paper: {claim.printed}": (factor, claim.low, claim.high)
        for claim in CLAIMS
        if claim.section == section and claim.measure == "accuracy"
        for factor in claim.size_factors
    }
    figure, axes = plots.new_figure(height=62)
    plots.plot_scale_generalisation(curves, axes[0, 0], paper=paper)
    return figure


def histogram_figure(results: Results, name: str) -> Figure | None:
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
            title=f"{group} classifications",
        )
        ax.label_outer()
    return figure


def stir_figure(results: Results, dataset: str) -> Figure | None:
    """One panel per range of training sizes, ours beside the published networks."""
    scenarios = {}
    for sizes in TRAIN_SIZES:
        names = {
            "ours, scale-channel dropout": f"{dataset}_{sizes}_drop",
            "ours, without": f"{dataset}_{sizes}_nodrop",
        }
        curves = {k: results.accuracies[n] for k, n in names.items() if n in results.folders}
        if curves:
            scenarios[sizes] = curves
    if not scenarios:
        return None
    figure, axes = plots.new_figure(
        height=20 + 45 * len(scenarios), rows=len(scenarios), sharex=True
    )
    for ax, (sizes, curves) in zip(axes[:, 0], scenarios.items(), strict=True):
        others = {}
        if dataset in DATASETS:
            for model in MODELS:
                known = stir_baseline(model, dataset=dataset, train_sizes=sizes)
                others[model] = dict(zip(known.sizes.tolist(), known.mean.tolist(), strict=True))
        plots.plot_object_sizes(curves, ax, training_sizes=TRAIN_SIZES[sizes], others=others)
        ax.label_outer()
    widest = max(axes[:, 0], key=lambda ax: len(ax.lines))
    plots.legend_below(figure, widest, columns=2)
    return figure


def sigma_figure(results: Results, family: str, *, rate: str = "lr1e-3") -> Figure | None:
    """Learned sigmas of a family (fashion28 or cifar32), as in Figure 17."""
    labels = {
        "sampled_derivative_bn": "sampled derivatives",
        "integrated_derivative_bn": "integrated derivatives",
        "sampled_derivative_nobn": "sampled, no final BN",
        "integrated_derivative_nobn": "integrated, no final BN",
    }
    names = {label: f"{family}_learned_{variant}_{rate}" for variant, label in labels.items()}
    sigmas = {label: results.sigmas[n] for label, n in names.items() if n in results.folders}
    if not sigmas:
        return None
    figure, axes = plots.new_figure(height=62)
    plots.plot_sigmas(sigmas, axes[0, 0], fits=PAPER_LAW)
    return figure


def agreement_figure(results: Results, names: Iterable[str]) -> Figure | None:
    """The accuracies that the paper prints, and ours."""
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for name in names:
        if name in results.folders and name in ACCURACY:
            family = _FAMILIES["fashion" if name.startswith("fashion") else "cifar"]
            value = ACCURACY[name]
            ours = results.accuracies[name][1.0]
            groups.setdefault(family, []).append((value.mean, value.std, ours))
    if not groups:
        return None
    figure, axes = plots.new_figure(height=80)
    plots.plot_agreement(groups, axes[0, 0])
    return figure


# === Which figure belongs where ===


def section_drawings(section: str, results: Results) -> list[Drawing]:
    """All figures of a section of the report."""
    drawings = []
    for stem, title, networks in CURVES.get(section, ()):
        caption = f"Accuracy against the size of the test images, {title}."
        figure = curves_figure(results, networks, section=section)
        drawings.append(Drawing(stem, caption, figure))
    for name in HISTOGRAMS.get(section, ()):
        caption = (
            f"Scale channels that decide in `{name}`; dots: their mean, dotted: what scale "
            "covariance asks for."
        )
        drawings.append(Drawing(f"selection_{name}", caption, histogram_figure(results, name)))
    if section == "6.4":
        for dataset in dict.fromkeys(r.dataset for r in RECIPES.values() if r.train_sizes):
            note = " (not in the paper)" if dataset in ("stir_emoji", "stir_gtsrb") else ""
            caption = f"`{dataset}`{note}; shaded: the sizes of the training objects."
            drawings.append(Drawing(dataset, caption, stir_figure(results, dataset)))
    if section in ("7.4", "7.5"):
        names = [name for name in ACCURACY if RECIPES[name].paper_section == section]
        caption = (
            "Accuracies that the paper prints (mean and standard deviation of 5 runs), and ours."
        )
        stem = f"agreement_{section.replace('.', '_')}"
        drawings.append(Drawing(stem, caption, agreement_figure(results, names)))
    if section == "7.5":
        for family, title in (("fashion28", "Fashion-MNIST"), ("cifar32", "CIFAR-10")):
            caption = f"Learned σ of every layer, regular {title}, η_σ = 0.001."
            drawings.append(Drawing(f"sigmas_{family}", caption, sigma_figure(results, family)))
    return drawings


def _poolings(family: str) -> dict[str, str]:
    return {
        "one scale channel": f"{family}_single_2jet",
        "max pooling": f"{family}_max_2jet",
        "average pooling": f"{family}_avg_2jet",
    }


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
            "dropout_fashion",
            "rescaled Fashion-MNIST",
            {
                "max, dropout": "fashion_max_2jet",
                "max": "fashion_max_2jet_nodrop",
                "average, dropout": "fashion_avg_2jet_drop",
                "average": "fashion_avg_2jet",
            },
        ),
        *(
            (
                f"dropout_cifar_{pooling}",
                f"rescaled CIFAR-10, {word} pooling",
                {
                    "scale-channel dropout": f"cifar_{pooling}_2jet",
                    "cutout": f"cifar_{pooling}_2jet_cutout",
                    "neither": f"cifar_{pooling}_2jet_nodrop",
                },
            )
            for pooling, word in (("avg", "average"), ("max", "max"))
        ),
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
                "max": f"{family}_max_2jet",
                "average": _COMPARED[family]["2-jet"],
                "logsumexp": f"{family}_lse_2jet",
            },
        )
        for family, title in _FAMILIES.items()
    ],
    "A.1": [
        (
            f"transfer_{family}{tag}",
            f"rescaled {title}, {sigma}",
            {
                "max, trained together": f"{family}_max_2jet{tag}",
                "average, trained together": f"{family}_avg_2jet{tag}",
                "max, transferred": f"{family}_max_2jet{tag}_transfer",
                "average, transferred": f"{family}_avg_2jet{tag}_transfer",
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
