"""Judging the claims of the paper by what the zoo holds: report, gallery, statistics.

Imports from `training`, which never imports from here.
"""
