"""`docs/REPRODUCTION.md`: the paper's claims and numbers compared with ours, made from the zoo.

Nothing in it is typed by hand: run `python -m training report` again after every new network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gdn_keras import plots
from gdn_keras.utils.files import replace_file

from ...recipes import RECIPES, Recipe, derived, trained
from ..claims.claim import Claim
from ..claims.statements import CLAIMS
from ..claims.verdicts import ENOUGH, VERDICTS, judge, rules, section_verdict
from ..zoo_results import MATCHED, ZooResults
from .figures import Drawing, section_drawings
from .tables import (
    UNTRAINED,
    curve_table,
    marked,
    marks_per_grid,
    printed_summary,
    printed_table,
    sigma_table,
    statistics_tables,
    table,
    waiting,
)

FILE, TABLES_FILE, RULES_FILE = "REPRODUCTION.md", "measurements.md", "verdicts.md"
FIGURES, PREFIX = "figures", "report_"
SECTIONS = {
    "2": "Receptive fields, architecture and covariance",
    "6.1": "Rescaled Fashion-MNIST",
    "6.2": "Rescaled Fashion-MNIST with translations",
    "6.3": "Rescaled CIFAR-10",
    "6.4": "STIR",
    "7.1": "Scale-channel dropout and cutout",
    "7.2": "2-jets and 3-jets",
    "7.3": "Pooling over scales with logsumexp",
    "7.4": "Discretisations of the Gaussian derivatives",
    "7.5": "Learned scales",
    "8": "Activation maps and filters",
    "A.1": "Training all scale channels, or transferring one",
    "A.2": "What the first layer learns",
    "A.3": "Significance",
}


class Section(NamedTuple):
    number: str
    lines: list[str]
    claims: list[list[str]]  # their verdicts, on each grid
    numbers: list[list[str]]
    verdict: str  # on all of them together
    networks: str  # how many of its own are trained, or where those of its claims are


def write_report(zoo_dir: Path, docs_dir: Path, *, runs_dir: Path | None = None) -> Path:
    """Write `docs_dir`/REPRODUCTION.md, with figures, tables and rules, from the zoo in `zoo_dir`.

    Appendix A.3 also counts the other runs of these networks, in `runs_dir`.
    """
    results = ZooResults.read(Path(zoo_dir), runs_dir=runs_dir)
    text, drawings = compose(results)
    figures = Path(docs_dir) / FIGURES
    figures.mkdir(parents=True, exist_ok=True)
    drawn = set()
    for drawing in drawings:
        drawn |= set(plots.save(drawing.figure, figures / f"{PREFIX}{drawing.stem}"))
    for old in set(figures.glob(f"{PREFIX}*.p[nd][gf]")) - drawn:
        old.unlink()
    pages = {FILE: text, TABLES_FILE: compose_tables(results), RULES_FILE: compose_rules()}
    for name, page in pages.items():
        replace_file(Path(docs_dir) / name, content=page)
    return Path(docs_dir) / FILE


def compose(results: ZooResults) -> tuple[str, list[Drawing]]:
    """The report and the figures that it shows."""
    sections, drawings = [], []
    for number in SECTIONS:
        section = _section(number, results)
        judged = section.verdict != UNTRAINED  # few networks make no figure
        shown = [d for d in section_drawings(number, results) if d.figure] if judged else []
        for drawing in shown:
            file = f"{FIGURES}/{PREFIX}{drawing.stem}"
            link = f"[![{drawing.stem}]({file}.png)]({file}.pdf)"
            section.lines.append(f"{link}<br>*{drawing.caption}*<br>")
        section.lines.extend([""] * bool(shown))
        drawings += shown
        sections.append(section)
    lines = [*_head(results), *_summary(sections), *printed_summary(results)]
    for section in sections:
        lines += section.lines
    lines += ["## How verdicts are given", "", _HOW]
    return "\n".join(lines) + "\n", drawings


def compose_tables(results: ZooResults) -> str:
    """The page with what was measured for the networks of every section."""
    lines = ["# Measurements", "", _GENERATED, "", _TABLES, ""]
    for number, title in SECTIONS.items():
        own = [name for name, recipe in RECIPES.items() if recipe.paper_section == number]
        tables = _measured(number, own, results)
        if number in _ALSO_SHOWN:
            group, words = _ALSO_SHOWN[number]
            others = curve_table(_others(group), results)
            tables += [words, "", *others] if others else []
        if tables:
            lines += [f'<a id="{_anchor(number)}"></a>', f"## {number} {title}", "", *tables]
    return "\n".join(lines).rstrip() + "\n"


def compose_rules() -> str:
    """The page that says how verdicts are given, from the constants that are used."""
    choices = ["## Where the paper leaves a choice", "", *(f"- {line}" for line in _CHOICES)]
    lines = ["# How verdicts are given", "", _GENERATED, "", *rules(), "", *choices]
    return "\n".join(lines) + "\n"


# === The document ===


def _head(results: ZooResults) -> list[str]:
    budgets = Counter(results.record(name).budget for name in results.folders)
    counts = ", ".join(
        f"{count} with the budget `{name}`" for name, count in sorted(budgets.items())
    )

    def count(recipes: Iterable[Recipe]) -> str:
        here = [recipe.name in results.folders for recipe in recipes]
        return f"{sum(here)} of {len(here)}"

    own = [recipe for recipe in trained() if recipe.paper_section]
    more = [recipe for recipe in trained() if not recipe.paper_section]
    return [
        "# Reproduction",
        "",
        _GENERATED,
        "",
        "What the paper says about its networks, in our words, compared with the networks of this "
        f"zoo: {count(own)} networks of the paper are trained, {count(derived())} derived by "
        f"weight transfer, and {count(more)} that the paper does not have"
        + (f" ({counts})." if counts else ".")
        + " `python -m training list` names all.",
        "The budget `paper` is the paper's own schedule; `cpu` is a fraction of it for most "
        "networks, most of them trained and measured on coarse grids (sampling density 1/√2) where "
        "the paper computes every pixel; section 7.4 is judged on both. The zoo has one run of "
        "each network; the paper's Tables 5 to 8 and its curves on STIR are means of 5. Read [what "
        "these numbers are](numbers.md) first.",
        "",
    ]


def _summary(sections: list[Section]) -> list[str]:
    rows = [
        [
            f"[{section.number}](#{_anchor(section.number)})",
            SECTIONS[section.number],
            section.networks,
            marks_per_grid(section.claims),
            marks_per_grid(section.numbers),
            marked(section.verdict),
        ]
        for section in sections
    ]
    return [
        "## Summary",
        "",
        ", ".join(marked(verdict) for verdict in VERDICTS)
        + f" ([how verdicts are given]({RULES_FILE})); in section 7.4, first on the grid of the "
        "training, then on every pixel.",
        "",
        *table(
            ["section", "experiment", "its networks trained", "claims", "numbers", "verdict"],
            rows=rows,
            align="l",
        ),
    ]


def _section(number: str, results: ZooResults) -> Section:
    claims = [claim for claim in CLAIMS if claim.section == number]
    named = {name for claim in claims for name in (*claim.models, *claim.rivals)}
    own = [name for name, recipe in RECIPES.items() if recipe.paper_section == number]
    numbers, found_numbers = [], []
    if number in ("7.4", "7.5"):
        numbers, found_numbers = printed_table(own, results)
    elif number == "A.2":
        found_numbers = sigma_table(results)[1]
    claim_lines, found, open_claims = _claims_table(claims, results)
    trained = [name in results.folders for name in own or named]
    judged = sum(trained) > ENOUGH * len(trained)
    verdict = section_verdict(found, found_numbers) if judged else UNTRAINED
    lines = [
        f'<a id="{_anchor(number)}"></a>',
        f"## {number} {SECTIONS[number]}: {marked(verdict)}",
        "",
        *claim_lines,
        *numbers,
    ]
    others = _others(_ALSO_SHOWN[number][0]) if number in _ALSO_SHOWN else []
    if _measured(number, own, results) or any(name in results.folders for name in others):
        lines += [f"[Measurements]({TABLES_FILE}#{_anchor(number)}).", ""]
    lines += waiting(open_claims, [n for n in (*own, *others) if n not in results.folders])
    elsewhere = sorted({RECIPES[name].paper_section for name in named - {*own}})
    count = f"{sum(trained)} of {len(own)}" if own else f"those of {', '.join(elsewhere)}"
    return Section(number, lines, found, found_numbers, verdict, count)


def _claims_table(
    claims: list[Claim], results: ZooResults
) -> tuple[list[str], list[list[str]], list[str]]:
    """A table of the claims that something is known about, all verdicts, and the other claims."""
    rows, found, others = [], [], []
    for claim in claims:
        judgements = {"": judge(claim, results)}
        if claim.section == "7.4":
            judgements["every pixel: "] = judge(claim, results, every_pixel=True)
        found.append([judgement.verdict for judgement in judgements.values()])
        if not judgements[""].ours:
            others.append(claim.text)
            continue
        ours = {grid: judgement.ours for grid, judgement in judgements.items()}
        said = {
            grid: ", ".join(filter(None, [marked(judgement.verdict), judgement.extent]))
            for grid, judgement in judgements.items()
        }
        rows.append([claim.text, _on_grids(ours), _on_grids(said)])
    lines = table(["the paper says", "ours", "verdict"], rows=rows, align="l")
    return lines, [list(grid) for grid in zip(*found, strict=True)], others


def _on_grids(texts: dict[str, str]) -> str:
    """Texts by grid, once if they are the same."""
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "<br>".join(f"{grid}{text}" for grid, text in texts.items())


def _measured(number: str, own: list[str], results: ZooResults) -> list[str]:
    """Tables of a section's networks, where the paper has figures, or is in an appendix."""
    if number == "A.3":
        return statistics_tables(results, only_measured=True)
    if number == "A.2":
        return sigma_table(results)[0]
    if not own or number in ("7.4", "7.5"):
        return []
    if number == "A.1":  # also the single networks of other sections, with matched sigmas
        matched = [n for n, r in RECIPES.items() if "_single_" in n and r.paper_section]
        own = [*(f"{name}{MATCHED}" for name in matched), *own]
    return curve_table(own, results)


def _others(group: str) -> list[str]:
    """Networks that the paper does not have."""
    return [n for n, r in RECIPES.items() if r.group.startswith(group) and not r.paper_section]


# section -> group of networks that the paper does not have, and what is said about them
_ALSO_SHOWN = {
    "6.3": (
        "cifar_mirror",
        "More than half of what `cifar_avg_2jet` loses at size factor 2 is lost at the border of "
        "the image, where every layer reflects its features (on training images, "
        "`training/NOTES.md`). Networks that "
        "the paper does not have extend the image by mirroring instead, as the images of this "
        "data set were made:",
    ),
    "6.4": (
        "stir_",
        "The same on data that the paper does not have: STIR emoji, and traffic signs cut out of "
        "GTSRB photographs. The published networks are four of the eleven of Altstidl et al. "
        "(2023), see `training/reproduction/data/README.md`; they used the original emoji file, "
        "ours used emoji rendered again from the same icons. Large emoji leave little choice of a "
        "position: at 64 pixels all test images, and just below many of them, are also training "
        "images.",
    ),
}


_GENERATED = "<!-- generated by `python -m training report`; changes by hand are lost -->"
_TABLES = (
    "What was measured for the networks of the [reproduction report](REPRODUCTION.md), in %. "
    "*Images* are those that a network's ancestors+the network itself were trained on; `*`: some "
    "when its test accuracy was known."
)
_HOW = (
    f"By the rules of [how verdicts are given]({RULES_FILE}), which also says where the paper "
    "leaves a choice. One run of each network, and training of different lengths, leave much "
    "inconclusive."
)
_CHOICES = (
    "Padding: the paper names reflection, for CIFAR-10. Zeros for Fashion-MNIST, whose background "
    "is black, and reflection for STIR are our reading.",
    "Rescaling: the paper uses MATLAB's bicubic interpolation. Our reading is the same kernel on a "
    "grid that is symmetric about the centre of the image; MATLAB's grid aligns the left edges, "
    "which moves the object where the new size is not a whole number of pixels.",
    "Batch norm: in the paper's equations it normalises whole maps. The budget `paper` does so. "
    "With `cpu`, networks with fixed sigmas that read the centre compute, and normalise by, only "
    "what can reach it, in the last layer the centre alone; those with learned sigmas see whole "
    "maps, but for `fashion28_learned_sampled_derivative_bn_lr1e-3`, which was trained before that "
    "was so (`training/NOTES.md` compares both on validation images).",
    "Grids: with `cpu`, layers are computed on grids coarsened by powers of two, as far as their "
    "sigmas allow. Doubling the image and the sigmas doubles the spacing of coarse layers, but not "
    "of fine ones, which have every pixel: covariance holds approximately, for factors of 2. On "
    "every pixel, as in the paper, it holds for factors of √2 as well.",
)


def _anchor(number: str) -> str:
    return f"section-{number.lower().replace('.', '-')}"
