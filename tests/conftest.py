"""What all files of tests share: threads, memory, and the fixtures of the training tests."""

import gc
import os
import shutil
import sys
from collections import Counter

import pytest
from filelock import FileLock

# Workers of pytest-xdist share the cores. The libraries read these variables when they are loaded,
# which is later; the processes that tests start have them, too.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    threads = max(1, os.cpu_count() // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        os.environ.setdefault(name, str(threads))

# Tracing makes many objects that live on; looking through all of them again and again takes a fifth
# of its time.
gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(items):
    """The files with most heavy tests first, so that no worker is left with one at the end."""
    heavy = Counter(item.path for item in items if item.get_closest_marker("heavy"))
    items.sort(key=lambda item: -heavy[item.path])


def pytest_collection_finish():
    """What is imported by now stays: collecting garbage need not look at it."""
    gc.collect()
    gc.freeze()


def shared(tmp_path_factory, name, make):
    """A folder that `make(folder)` fills once, for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        folder = base / name
        make(folder)
        return folder
    folder, done = base.parent / name, base.parent / f"{name}.done"
    with FileLock(base.parent / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="module", autouse=True)
def release_memory():
    """After every file: what Keras and the plans keep of its models would add up to gigabytes."""
    yield
    if "gdn_keras.layers" in sys.modules:
        import keras

        from gdn_keras.layers import smoothing

        keras.backend.clear_session()
        smoothing.correlations.cache_clear()
    gc.collect()


@pytest.fixture(scope="module", autouse=True)
def forget_data_sets():
    """What the tests of one file register is not there in the next one."""
    yield
    if "gdn_keras.datasets.sets" in sys.modules:
        sys.modules["gdn_keras.datasets.sets"]._registered.clear()


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder in the standard formats. Tests read it and leave it as it is."""
    from training_helpers import write_data_folder

    return shared(tmp_path_factory, "data", write_data_folder)


@pytest.fixture
def place(data, tmp_path):
    """Folders for runs and zoo of the test's own."""
    from training_helpers import Place

    return Place(data, tmp_path)


@pytest.fixture(scope="session")
def single(data, tmp_path_factory):
    """tiny_single, trained, evaluated all ways, published. Tests leave it as it is."""
    from training_helpers import Place

    def make(folder):
        place = Place(data, folder)
        assert place("run", "tiny_single") == 0
        assert place("evaluate", "tiny_single", "--exact", "--matched") == 0
        assert place("publish", "tiny_single") == 0

    return Place(data, shared(tmp_path_factory, "single", make))


@pytest.fixture
def after_single(single, place):
    """A place of its own where tiny_single is finished."""
    shutil.copytree(single.runs, place.runs)
    return place
