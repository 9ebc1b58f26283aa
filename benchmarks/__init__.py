"""Measurements of speed, each with what it is compared with; `README.md` has the results."""
