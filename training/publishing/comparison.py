"""What a network is compared with when it is published or listed; `reproduction` fills it in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..recipes import Recipe

if TYPE_CHECKING:
    from gdn_keras.zoo import Metrics


@dataclass(frozen=True)
class Comparison:
    """What a network is compared with: the accuracy that a paper prints, and text for the card."""

    accuracy: float | None = None  # a fraction
    where: str | None = None  # the place in the paper
    paragraphs: Callable[[Metrics], list[str]] = lambda metrics: []


NO_COMPARISON = Comparison()
Compare = Callable[[Recipe], Comparison]
