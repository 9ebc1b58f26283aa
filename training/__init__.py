"""The factory of the zoo: recipes, training, evaluation and reports, run from a clone."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
