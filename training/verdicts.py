"""Whether what was measured bears out what the paper says, by rules that are written down here.

| what is compared                 | reproduced                         | partly            |
|----------------------------------|------------------------------------|-------------------|
| an accuracy the paper prints     | at most max(3 std, 0.5 ppt) below  | at most 2 ppt     |
| a sigma the paper prints         | within max(3 std, 10 %)            | within 25 %       |
| a claim                          | everything it says holds           | half of it holds  |

"Generally", "mostly" and "often" ask for three quarters. "Alike" without a number is within 2 ppt.
A claim about networks of which some are not trained is judged on the others, and is at best partly
reproduced. What the zoo's files cannot settle is "not measured", with the reason.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import NamedTuple

from training.checks import CHECKS
from training.claims import Claim, claim_values
from training.paper import PaperValue
from training.results import Results

VERDICTS = ("reproduced", "partly", "not reproduced", "not yet trained", "not measured")
ALIKE = 2.0  # ppt
_SHOWN = 6  # checks in one line
_LOOSE = ("generally", "mostly", "often")


class Judgement(NamedTuple):
    verdict: str  # of VERDICTS
    ours: str = ""  # what was measured, or why nothing was
    difference: float | None = None  # how far the worst value is outside what the claim says


# === Numbers ===


def judge_accuracy(ours: float, paper: PaperValue) -> str:
    """Verdict on an accuracy in %."""
    short = paper.mean - ours
    if short <= max(3 * paper.std, 0.5):
        return "reproduced"
    return "partly" if short <= 2.0 else "not reproduced"


def judge_sigma(ours: float, paper: PaperValue) -> str:
    off = abs(ours - paper.mean)
    if off <= max(3 * paper.std, 0.1 * paper.mean):
        return "reproduced"
    return "partly" if off <= 0.25 * paper.mean else "not reproduced"


def overall(verdicts: Iterable[str]) -> str:
    """The verdict on several together."""
    verdicts = [verdict for verdict in verdicts if verdict != "not measured"]
    if not verdicts:
        return "not measured"
    if len(set(verdicts)) == 1:
        return verdicts[0]
    good = any(verdict in ("reproduced", "partly") for verdict in verdicts)
    return "partly" if good else "not reproduced"


# === Claims ===


def bounds(claim: Claim) -> tuple[float, float]:
    """What the values of a claim with a measure must lie between."""
    if claim.low is None and claim.high is None:
        return (-math.inf if claim.measure == "drop" else -ALIKE), ALIKE
    return (
        -math.inf if claim.low is None else claim.low,
        math.inf if claim.high is None else claim.high,
    )


def judge(claim: Claim, results: Results) -> Judgement:
    """Verdict on a claim from what the zoo holds."""
    reason = next((why for words, why in NOT_MEASURED.items() if words in claim.text), None)
    if reason:
        return Judgement("not measured", reason)
    part, missing = _restrict(claim, results)
    if not part.models:
        return Judgement("not yet trained")
    if claim.measure:
        return _judge_values(part, results, complete=not missing)
    check = next(check for words, check in CHECKS.items() if words in claim.text)
    checks = check(part, results)
    if not checks:
        return Judgement("not yet trained")
    verdict = _verdict([c.holds for c in checks], claim, complete=not missing)
    shown = checks if len(checks) <= _SHOWN else [c for c in checks if not c.holds][:_SHOWN]
    text = [f"{'✓' if c.holds else '✗'} {c.text}" for c in shown]
    if len(checks) > _SHOWN:
        text.insert(0, f"{sum(c.holds for c in checks)} of {len(checks)} checks hold")
    return Judgement(verdict, "; ".join(text))


def _judge_values(claim: Claim, results: Results, *, complete: bool) -> Judgement:
    values = claim_values(claim, results.accuracies)
    if values is None:  # a network of the zoo lacks a size
        return Judgement("not yet trained")
    low, high = bounds(claim)
    outside = [min(v - low, 0.0) + max(v - high, 0.0) for v in values]
    holds = [value == 0 for value in outside]
    sign, unit = ("", "%") if claim.measure == "accuracy" else ("+", "ppt")
    if len(values) <= 4:
        text = ", ".join(f"{v:{sign}.2f}" for v in values) + f" {unit}"
    else:
        text = f"{min(values):{sign}.2f} … {max(values):{sign}.2f} {unit}"
        text += f"; holds for {sum(holds)} of {len(holds)}"
    return Judgement(_verdict(holds, claim, complete=complete), text, max(outside, key=abs))


def _verdict(holds: list[bool], claim: Claim, *, complete: bool) -> str:
    share = sum(holds) / len(holds)
    needed = 0.75 if any(word in claim.text for word in _LOOSE) else 1.0
    if share >= needed:
        return "reproduced" if complete else "partly"
    return "partly" if share >= 0.5 else "not reproduced"


def _restrict(claim: Claim, results: Results) -> tuple[Claim, bool]:
    """The claim about the networks that are there, and whether some are not."""
    here = results.folders
    if claim.rivals:
        pairs = zip(claim.models, claim.rivals, strict=True)
        pairs = [(a, b) for a, b in pairs if a in here and b in here]
        part = dataclasses.replace(
            claim, models=tuple(a for a, _ in pairs), rivals=tuple(b for _, b in pairs)
        )
    else:
        part = dataclasses.replace(claim, models=tuple(n for n in claim.models if n in here))
    return part, len(part.models) < len(claim.models)


# words of a claim -> why the zoo's files cannot settle it
NOT_MEASURED = {
    "GD-CNN": "the numbers of this network are not at hand",
    "Zero padding": "there is no recipe with zero padding",
}
