"""Fixtures that several files of the training tests share."""

import shutil

import pytest
from training_helpers import Place, write_data_folder


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder in the standard formats. Tests read it and leave it as it is."""
    return write_data_folder(tmp_path_factory.mktemp("data") / "data")


@pytest.fixture
def place(data, tmp_path):
    """Folders for runs and zoo of the test's own."""
    return Place(data, tmp_path)


@pytest.fixture(scope="session")
def single(data, tmp_path_factory):
    """tiny_single, trained, evaluated all ways, published. Tests leave it as it is."""
    place = Place(data, tmp_path_factory.mktemp("single"))
    assert place("run", "tiny_single") == 0
    assert place("evaluate", "tiny_single", "--exact", "--matched") == 0
    assert place("publish", "tiny_single") == 0
    return place


@pytest.fixture
def after_single(single, place):
    """A place of its own where tiny_single is finished."""
    shutil.copytree(single.runs, place.runs)
    return place
