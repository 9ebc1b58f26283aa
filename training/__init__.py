"""The factory of the zoo: recipes, training, evaluation and reports, run from a clone."""
