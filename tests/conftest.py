"""Fixtures that several files of the training tests share."""

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
