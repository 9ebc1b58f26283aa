"""Whether what was measured supports what the paper says, by the rules that `rules` prints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gdn_keras.utils.markdown import table

from ..paper import PaperValue
from ..zoo_results import ZooResults
from . import margins
from .checks import CHECKS, RULES
from .claim import ALIKE, WORDS, Claim, claim_values

VERDICTS = (
    "reproduced",
    "holds so far",
    "partly reproduced",
    "inconclusive",
    "not reproduced",
    "not yet trained",
    "not yet measured",
    "cannot be compared",
)
DEVIATIONS = 3  # standard deviations of the paper's runs
SHORT, PARTLY_SHORT = 0.5, 2.0  # ppt below an accuracy that the paper prints
OFF, PARTLY_OFF = 0.05, 0.15  # relative to a sigma that the paper prints
PART = 0.5  # of what a claim says
MOST = 2 / 3  # the paper's own Tables 5 to 8 then support its "generally" and "mostly"
ENOUGH = 0.5  # of the networks of a claim, or of what a section says
_OPEN = ("not yet trained", "not yet measured")
_SHOWN = 6  # checks in one line; of more, half as many that do not hold


class Judgement(NamedTuple):
    verdict: str  # of VERDICTS
    ours: str = ""  # what was measured, or why nothing was
    extent: str = ""  # "2 of 3 networks trained", where not all are; uneven training


def rules() -> list[str]:
    """The rules in Markdown, from the constants that are used."""
    rows = [
        (
            "an accuracy the paper prints in a table",
            f"at most {DEVIATIONS} standard deviations or {SHORT:g} ppt below",
            f"at most {PARTLY_SHORT:g} ppt below",
        ),
        (
            "a number or a range in its text",
            f"accuracies at most {SHORT:g} ppt below; differences inside the range, or at most "
            f"{SHORT:g} ppt from a single number",
            f"at most {PARTLY_SHORT:g} ppt below or outside",
        ),
        (
            "a sigma the paper prints",
            f"within {DEVIATIONS} standard deviations or {100 * OFF:g} %",
            f"within {100 * PARTLY_OFF:g} %",
        ),
        (
            "a claim; one that says generally, mostly or often",
            f"all of it holds; {100 * MOST:.0f} % of it",
            f"{100 * PART:g} % of it holds",
        ),
    ]
    return [
        table(("what is compared", "reproduced", "partly reproduced"), rows=rows),
        "",
        margins.rule(),
        "",
        "A claim *holds so far* if nothing contradicts it, but networks are missing or some values "
        f"are inconclusive. With less than {100 * ENOUGH:g} % of its networks it can only be *not "
        "reproduced*, and only if it is about all of them; otherwise it is not yet trained, or "
        "*not yet measured* where networks exist but not the numbers. A claim about the average of "
        "all networks needs all of them; where a claim compares networks, nothing else counts in "
        "its favour without that comparison. Networks trained on different grids are compared on "
        f"every pixel. *Cannot be compared*: nothing in the zoo can decide it.",
        "",
        "A *section* has one verdict on its claims, one on the numbers that the paper prints, and "
        "from these two that in its heading, all in the same way: none until more than "
        f"{100 * ENOUGH:g} % are judged (and, for the section, more than {100 * ENOUGH:g} % of its "
        "networks trained); *inconclusive* if nothing is decided; otherwise *reproduced* if "
        "all of them are, *holds so far* if all that are decided are, or hold so far, *not "
        "reproduced* if none of them is, not even partly, and *partly reproduced* else.",
        "",
        "How the paper's words are read:",
        "",
        *(f"- *{word}*: {meaning}." for word, meaning in (WORDS | RULES).items()),
    ]


# === Numbers ===


def judge_accuracy(ours: float, paper: PaperValue) -> str:
    """Verdict on an accuracy in %."""
    short = paper.mean - ours
    if short <= max(DEVIATIONS * (paper.std or 0.0), SHORT):
        return "reproduced"
    return "partly reproduced" if short <= PARTLY_SHORT else "not reproduced"


def judge_sigma(ours: float, paper: PaperValue) -> str:
    off = abs(ours - paper.mean)
    if off <= max(DEVIATIONS * (paper.std or 0.0), OFF * paper.mean):
        return "reproduced"
    return "partly reproduced" if off <= PARTLY_OFF * paper.mean else "not reproduced"


def overall(verdicts: Iterable[str]) -> str:
    """The verdict on several together."""
    every = list(verdicts)
    if len(set(every)) == 1:
        return every[0]
    every = [verdict for verdict in every if verdict != "cannot be compared"]
    judged = [verdict for verdict in every if verdict not in _OPEN]
    decided = {verdict for verdict in judged if verdict != "inconclusive"}
    if len(judged) <= ENOUGH * len(every):
        return "not yet trained" if "not yet trained" in every else "not yet measured"
    if not decided:
        return "inconclusive"
    if decided == {"not reproduced"}:
        return "not reproduced"
    return "holds so far" if decided <= {"reproduced", "holds so far"} else "partly reproduced"


def section_verdict(claims: Iterable[list[str]], numbers: Iterable[list[str]]) -> str:
    """The verdict on a section: claims and numbers are judged apart, both on all grids."""
    parts = [[verdict for grid in part for verdict in grid] for part in (claims, numbers)]
    return overall(overall(part) for part in parts if part)


# === Claims ===


def bounds(claim: Claim) -> tuple[float, float]:
    """The values of a claim with a measure must be above the first and not above the second."""
    if claim.low is None and claim.high is None:
        return (-math.inf if claim.measure == "drop" else -ALIKE), ALIKE
    return (
        -math.inf if claim.low is None else claim.low,
        math.inf if claim.high is None else claim.high,
    )


def judge(claim: Claim, results: ZooResults, *, every_pixel: bool = False) -> Judgement:
    """Verdict on a claim from what the zoo holds, on every pixel or on the grids of the training.

    Networks that are compared, but were trained on different grids, are compared on every pixel.
    """
    if claim.unavailable:
        return Judgement("cannot be compared", claim.unavailable)
    here = _restrict(claim, lambda name: name in results.folders)
    if not here.models:
        return Judgement("not yet trained")
    method = CHECKS[claim.check] if claim.check else None
    grid = ""
    if (claim.rivals or method and method.compares) and not every_pixel:
        mixed = results.on_different_grids({*here.models, *here.rivals})
        grid = "on every pixel" if mixed else ""
    if every_pixel or grid:
        results = results.on_every_pixel()
    if claim.measure:
        needed = {*claim.size_factors, *([1.0] if claim.measure == "drop" else [])}
        part = _restrict(here, lambda name: needed <= results.accuracies.get(name, {}).keys())
        missing = "not measured at all of these sizes"
    else:
        part = _restrict(here, lambda name: method.measured(name, results))
        missing = method.missing.format(runs=results.count_runs(claim.models))
    if not part.models:
        if every_pixel or grid:
            missing = (
                "trained on different grids, and " * bool(grid) + "not measured on every pixel"
            )
        return Judgement("not yet measured", missing)
    extent, share = _extent(claim, here, part)
    if claim.measure:
        states, text = _judge_values(part, results)
    else:
        checks = method.check(part, results)
        if not checks:  # those that exist are not the ones to compare
            untrained = extent.endswith("trained")
            return (
                Judgement("not yet trained")
                if untrained
                else Judgement("not yet measured", missing)
            )
        states, text = [_STATES[check.holds] for check in checks], _list_checks(checks)
    verdict = _verdict(states, claim, complete=not extent)
    refuted = verdict == "not reproduced" and not claim.loose
    if share < ENOUGH and not refuted or claim.on_average and extent:
        verdict = "not yet trained" if extent.endswith("trained") else "not yet measured"
    remarks = filter(None, [extent, grid, _uneven(part, results)])
    return Judgement(verdict, text, ", ".join(remarks))


_STATES = {True: "holds", False: "fails", None: "open"}


def _judge_values(claim: Claim, results: ZooResults) -> tuple[list[str], str]:
    """Whether each value of a claim with a measure holds, and the values as text."""
    values = claim_values(claim, results.accuracies)
    needed = margins.claim_margins(claim, results)
    states = [_state(claim, *pair) for pair in zip(values, needed, strict=True)]
    sign, unit = ("", "%") if claim.measure == "accuracy" else ("+", "ppt")
    if len(values) <= 4:
        return states, ", ".join(f"{v:{sign}.2f}" for v in values) + f" {unit}"
    text = f"{min(values):{sign}.2f} … {max(values):{sign}.2f} {unit}"
    return states, f"{text}; holds beyond the margin: {states.count('holds')} of {len(states)}"


def _state(claim: Claim, value: float, needed: float) -> str:
    """Holds, nearly, fails, or open if the distance to the bounds is less than is needed."""
    low, high = bounds(claim)
    if claim.measure == "accuracy":  # as in the tables, more is as good
        high = math.inf
    outside = max(low - value, value - high)
    if claim.printed and low < high and outside <= 0:  # a printed range has room already
        return "holds"
    if needed and abs(outside) <= needed:
        return "open"
    if low < value <= high or claim.printed and outside <= SHORT:
        return "holds"
    return "nearly" if claim.printed and outside <= PARTLY_SHORT else "fails"


def _list_checks(checks: list) -> str:
    mark = {True: "✓", False: "✗", None: "?"}
    shown = checks if len(checks) <= _SHOWN else [c for c in checks if not c.holds][: _SHOWN // 2]
    text, last = [], None
    for check in shown:
        network, _, rest = check.text.rpartition("`: ")
        text.append(f"{mark[check.holds]} {rest if network == last else check.text}")
        last = network or None
    if len(checks) > _SHOWN:
        text.insert(0, f"{sum(c.holds is True for c in checks)} of {len(checks)} checks hold")
    return "; ".join(text)


def _verdict(states: list[str], claim: Claim, *, complete: bool) -> str:
    decided = [state for state in states if state != "open"]
    if not decided or len(decided) < len(states) / 2:
        return "inconclusive"
    share = decided.count("holds") / len(decided)
    enough = MOST if claim.loose else 1.0
    if share >= enough:
        shown = complete and states.count("holds") >= enough * len(states)
        return "reproduced" if shown else "holds so far"
    return "partly reproduced" if share >= PART or "fails" not in decided else "not reproduced"


def _restrict(claim: Claim, has: Callable[[str], bool]) -> Claim:
    """The claim about the networks that have something, pairs only where both have."""
    if not claim.rivals:
        return dataclasses.replace(claim, models=tuple(filter(has, claim.models)))
    pairs = zip(claim.models, claim.rivals, strict=True)
    pairs = [(a, b) for a, b in pairs if has(a) and has(b)]
    return dataclasses.replace(
        claim, models=tuple(a for a, _ in pairs), rivals=tuple(b for _, b in pairs)
    )


def _uneven(claim: Claim, results: ZooResults) -> str:
    """Of the pairs that are compared, the first whose training cannot be."""
    pairs = zip(claim.models, claim.rivals, strict=bool(claim.rivals))
    found = filter(None, (margins.uneven_training(*pair, results) for pair in pairs))
    return next((uneven.words for uneven in found), "")


def _extent(claim: Claim, here: Claim, part: Claim) -> tuple[str, float]:
    """How many of a claim's networks are judged, in words where some are not, and as a share."""
    wanted, trained, judged = ({*c.models, *c.rivals} for c in (claim, here, part))
    share = len(judged) / len(wanted)
    if judged == wanted:
        return "", share
    what = "trained" if judged == trained else "measured"
    return f"{len(judged)} of {len(wanted)} networks {what}", share
