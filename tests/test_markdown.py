"""Markdown tables, and files that are replaced in one step."""

import doctest
import os

import pytest

from gdn_keras.utils import markdown
from gdn_keras.utils.files import replace_file


def test_the_example():
    assert doctest.testmod(markdown).failed == 0


def test_columns_are_aligned_in_plain_text_too():
    rows = [["one", "9.5"], ["another", "10.25"]]
    assert markdown.table(["network", "%"], rows=rows, align="lr", pad=True).splitlines() == [
        "| network |     % |",
        "| ------- | ----: |",
        "| one     |   9.5 |",
        "| another | 10.25 |",
    ]


def test_the_last_side_is_that_of_all_columns_that_follow():
    assert (
        markdown.table("abcd", rows=[], align="lr").splitlines()[1] == "| --- | --: | --: | --: |"
    )
    assert markdown.table("ab", rows=[]).splitlines()[1] == "| --- | --- |"


def test_a_file_is_replaced_and_the_old_one_kept(tmp_path):
    path, previous = tmp_path / "file", tmp_path / "previous"
    replace_file(path, content="größer", previous=previous)
    assert path.read_text(encoding="utf-8") == "größer" and not previous.exists()
    replace_file(path, content=b"new", previous=previous)
    assert path.read_bytes() == b"new" and previous.read_text(encoding="utf-8") == "größer"
    assert sorted(tmp_path.iterdir()) == [path, previous]


def test_a_file_that_cannot_be_renamed_leaves_the_old_ones(tmp_path, monkeypatch):
    """As on Windows, where a file that is open elsewhere cannot be replaced."""
    path, previous = tmp_path / "file", tmp_path / "previous"
    path.write_text("old")
    replace = os.replace

    def refuse(source, target):
        if source.name.endswith(".new"):
            raise PermissionError("in use")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    for kept in (None, previous):
        with pytest.raises(OSError, match="in use"):
            replace_file(path, content="new", previous=kept)
        assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError("No space left on device")

    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, content="new", previous=tmp_path / "previous")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
