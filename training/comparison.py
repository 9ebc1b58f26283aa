"""What a network is compared with when it is published or listed; here nothing is compared yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from training.recipes import Recipe

if TYPE_CHECKING:
    from gdn_keras.zoo import Metrics


@dataclass(frozen=True)
class Comparison:
    """What a network is compared with: the number that a paper prints for it, and words."""

    accuracy: float | None = None  # a fraction
    where: str | None = None  # it is printed
    paragraphs: Callable[[Metrics], list[str]] = lambda metrics: []  # for the card


NO_COMPARISON = Comparison()
Compare = Callable[[Recipe], Comparison]
