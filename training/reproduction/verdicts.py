"""Whether the measurements support the paper's claims, by the rules that `rules` prints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gdn_keras.markdown import table
from training.reproduction.checks import CHECKS, RULES
from training.reproduction.claims import ALIKE, WORDS, Claim, claim_values
from training.reproduction.paper import PaperValue
from training.reproduction.zoo_results import ZooResults

VERDICTS = (
    "reproduced",
    "holds so far",
    "partly reproduced",
    "not reproduced",
    "not yet trained",
    "not yet measured",
    "cannot be compared",
)
DEVIATIONS = 3  # standard deviations of the paper's runs
SHORT, PARTLY_SHORT = 0.5, 2.0  # ppt below an accuracy that the paper prints
OFF, PARTLY_OFF = 0.1, 0.25  # relative to a sigma that the paper prints
PART = 0.5  # of what a claim says
MOST = 2 / 3  # the paper's own Tables 5 to 8 then bear out its "generally" and "mostly"
_SHOWN = 6  # checks in one line


class Judgement(NamedTuple):
    verdict: str  # of VERDICTS
    ours: str = ""  # what was measured, or why nothing was
    difference: float | None = None  # how far the worst value is outside what the claim says
    extent: str = ""  # "2 of 3 networks trained", where not all are; "not independent"


def rules() -> list[str]:
    """The rules in Markdown, from the constants that are used."""
    rows = [
        (
            "an accuracy the paper prints",
            f"at most {DEVIATIONS} standard deviations or {SHORT:g} ppt below",
            f"at most {PARTLY_SHORT:g} ppt below",
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
        "A claim of which some networks are not trained is judged on the others; if all of it "
        "holds for them, it *holds so far*. One about the average of all waits for all of them. "
        "*Not yet measured*: networks are there, but not the numbers, for the reason given. "
        "*Cannot be compared*: it is about numbers of others, which are not available. *Not "
        "independent*: of two networks that are compared, one started from the other's weights, so "
        "that a small difference may say more about the order and the length of their training "
        "than about what is compared.",
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
    seen = set(verdicts)
    if len(seen) == 1:
        return seen.pop()
    judged = seen - {"not yet trained", "not yet measured", "cannot be compared"}
    if not judged:
        return "not yet trained" if "not yet trained" in seen else "not yet measured"
    if judged <= {"reproduced", "holds so far"}:
        return "holds so far"
    return "not reproduced" if judged == {"not reproduced"} else "partly reproduced"


# === Claims ===


def bounds(claim: Claim) -> tuple[float, float]:
    """The values of a claim with a measure must be above the first and not above the second."""
    if claim.low is None and claim.high is None:
        return (-math.inf if claim.measure == "drop" else -ALIKE), ALIKE
    return (
        -math.inf if claim.low is None else claim.low,
        math.inf if claim.high is None else claim.high,
    )


def judge(claim: Claim, results: ZooResults) -> Judgement:
    """Verdict on a claim from what the zoo holds."""
    if claim.not_available:
        return Judgement("cannot be compared", claim.not_available)
    here = _restrict(claim, lambda name: name in results.folders)
    if not here.models:
        return Judgement("not yet trained")
    method = CHECKS[claim.check] if claim.check else None
    if claim.measure:
        needed = {*claim.size_factors, *([1.0] if claim.measure == "drop" else [])}
        part = _restrict(here, lambda name: needed <= results.accuracies[name].keys())
        missing = "not measured at all of these sizes"
    else:
        part = _restrict(here, lambda name: method.measured(name, results))
        missing = method.missing.format(runs=results.count_runs(claim.models))
    if not part.models:
        return Judgement("not yet measured", missing)
    extent = _extent(claim, here, part)
    if claim.measure:
        judgement = _judge_values(part, results, complete=not extent)
        if claim.on_average and extent:  # the others may change it either way
            judgement = judgement._replace(verdict="not yet trained", difference=None)
        related = "not independent" if _related(part, results) else ""
        return judgement._replace(extent=", ".join(filter(None, [extent, related])))
    checks = method.check(part, results)
    if not checks:  # those that are there are not the ones to compare
        untrained = extent.endswith("trained")
        return Judgement("not yet trained") if untrained else Judgement("not yet measured", missing)
    verdict = _verdict([c.holds for c in checks], claim, complete=not extent)
    shown = checks if len(checks) <= _SHOWN else [c for c in checks if not c.holds][:_SHOWN]
    text = [f"{'✓' if c.holds else '✗'} {c.text}" for c in shown]
    if len(checks) > _SHOWN:
        text.insert(0, f"{sum(c.holds for c in checks)} of {len(checks)} checks hold")
    return Judgement(verdict, "; ".join(text), extent=extent)


def _judge_values(claim: Claim, results: ZooResults, *, complete: bool) -> Judgement:
    values = claim_values(claim, results.accuracies)
    low, high = bounds(claim)
    outside = [min(v - low, 0.0) + max(v - high, 0.0) for v in values]
    holds = [low < value <= high for value in values]
    sign, unit = ("", "%") if claim.measure == "accuracy" else ("+", "ppt")
    if len(values) <= 4:
        text = ", ".join(f"{v:{sign}.2f}" for v in values) + f" {unit}"
    else:
        text = f"{min(values):{sign}.2f} … {max(values):{sign}.2f} {unit}"
        text += f"; holds for {sum(holds)} of {len(holds)}"
    verdict = _verdict(holds, claim, complete=complete)
    return Judgement(verdict, text, max(outside, key=abs))


def _verdict(holds: list[bool], claim: Claim, *, complete: bool) -> str:
    share = sum(holds) / len(holds)
    if share >= (MOST if claim.loose else 1.0):
        return "reproduced" if complete else "holds so far"
    return "partly reproduced" if share >= PART else "not reproduced"


def _restrict(claim: Claim, has: Callable[[str], bool]) -> Claim:
    """The claim about the networks that have something, pairs only where both have."""
    if not claim.rivals:
        return dataclasses.replace(claim, models=tuple(filter(has, claim.models)))
    pairs = zip(claim.models, claim.rivals, strict=True)
    pairs = [(a, b) for a, b in pairs if has(a) and has(b)]
    return dataclasses.replace(
        claim, models=tuple(a for a, _ in pairs), rivals=tuple(b for _, b in pairs)
    )


def _related(claim: Claim, results: ZooResults) -> bool:
    """Whether of a pair that is compared one started from the other."""

    def started(name: str, other: str) -> bool:
        return other in results.record(name).lineage

    pairs = zip(claim.models, claim.rivals, strict=bool(claim.rivals))
    return any(started(a, b) or started(b, a) for a, b in pairs)


def _extent(claim: Claim, here: Claim, part: Claim) -> str:
    """How many of a claim's networks are judged, where some are not trained or not measured."""
    wanted, trained, judged = ({*c.models, *c.rivals} for c in (claim, here, part))
    if judged == wanted:
        return ""
    if judged == trained:
        return f"{len(judged)} of {len(wanted)} networks trained"
    return f"{len(judged)} of {len(wanted)} networks measured"
