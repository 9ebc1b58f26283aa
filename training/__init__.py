"""The factory of the zoo: recipes, training, evaluation and reports.

In a wheel it is `gdn_keras.training`; see `gdn_keras/parts.py`.
"""

from pathlib import Path

# where `python -m` finds this package: a clone, or the folder of the installed packages
CHECKOUT = Path(__file__).resolve().parents[__name__.count(".") + 1]
PROGRAM = "python -m training" if __name__ == "training" else "gdn-keras training"
