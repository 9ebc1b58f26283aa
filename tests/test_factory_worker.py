"""A process of a sweep, without a cluster: what it takes from the storage and leaves there."""

import os
import subprocess
import threading
import time

import pytest
from training_helpers import run_words, start

from gdn_keras import zoo
from gdn_keras.zoo.registry import read_registry
from training.factory.commands import write_results
from training.factory.schedule import DONE, EVALUATE, FAILED, STOPPED, TRAIN, Job
from training.factory.storage import Mirror, Storage
from training.factory.worker import Worker
from training.options import RunOptions, Trial
from training.publishing.comparison import NO_COMPARISON
from training.runs import locking, progress, state

OPTIONS = RunOptions(precision="float32", trial=Trial(changes=("epochs=0.5",)))
RUN = "tiny_avg@epochs0.5-seed0"
JOB = Job(recipe="tiny_avg", step=TRAIN, run=RUN)
LIMIT = 300  # seconds after which something is wrong


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory):
    """The weights of the same run, made by the command `run`."""
    runs = tmp_path_factory.mktemp("uninterrupted")
    argv = run_words("tiny_avg", data=data, runs=runs)
    process = start([*argv, "--set", "epochs=0.5"], output=runs / "output")
    process.join(LIMIT)
    assert process.exitcode == 0, (runs / "output").read_text()
    return (runs / RUN / state.WEIGHTS).read_bytes()


@pytest.fixture(params=["folder", "memory"])
def storage(request, tmp_path):
    """Of each kind: a folder, and a file system that is none of this machine's."""
    url = tmp_path / "storage" if request.param == "folder" else f"memory://{tmp_path.name}/zoo"
    return Storage.locate(url)


def test_a_storage_keeps_files(storage, tmp_path):
    assert storage.read("a/b/file") is None and storage.folders_with("file", under="a") == set()
    storage.write("a/b/file", b"1")
    storage.write("a/b/file", b"22")
    storage.write("a/c/other", b"3")
    assert storage.read("a/b/file") == b"22"
    assert storage.folders_with("file", under="a") == {"b"}
    assert storage.fetch("a", into=tmp_path / "here") and not storage.fetch("z", into=tmp_path)
    assert (tmp_path / "here/a/b/file").read_bytes() == b"22"
    assert (tmp_path / "here/a/c/other").read_bytes() == b"3"


def test_a_storage_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="`--storage` .*URL.*nosuch://x"):
        Storage.locate("nosuch://x").read("file")


class Recording(Storage):
    """Remembers the order in which files arrive."""

    def write(self, name, content):
        super().write(name, content)
        order = self.__dict__.setdefault("order", [])
        order.append(name)


def test_what_says_that_all_is_there_comes_last(tmp_path):
    storage, place = Recording.locate(tmp_path / "storage"), tmp_path / "here"
    names = {
        "x-seed0": (state.RECORD, "lock", "state.npz.new", state.PREVIOUS, "z.h5", "a.csv"),
        "zoo/x": (zoo.CARD_FILE, "z.json"),
    }
    with Mirror(storage, place=place, folders=tuple(names)):
        for folder, files in names.items():
            (place / folder).mkdir(parents=True)
            for name in files:
                (place / folder / name).write_text(name)
    assert sorted(storage.order[:3]) == ["x-seed0/a.csv", "x-seed0/z.h5", "zoo/x/z.json"]
    assert sorted(storage.order[3:]) == [f"x-seed0/{state.RECORD}", f"zoo/x/{zoo.CARD_FILE}"]


def test_a_saved_state_is_copied_at_once(tmp_path):
    storage, folder = Storage.locate(tmp_path / "storage"), tmp_path / "here" / "x"
    folder.mkdir(parents=True)
    with Mirror(storage, place=tmp_path / "here", folders=("x",)):
        (folder / "log.csv").write_text("1")
        (folder / state.STATE).write_text("2")
        wait_for(lambda: storage.read(f"x/{state.STATE}") == b"2")
        assert storage.read("x/log.csv") == b"1"


def wait_for(condition):
    end = time.time() + LIMIT
    while not condition():
        assert time.time() < end
        time.sleep(0.02)


@pytest.mark.heavy
def test_a_stopped_job_is_continued_from_the_storage(data, uninterrupted, tmp_path):
    """By another worker, on a file system that is no folder."""
    storage = Storage.locate("memory://continued")
    worker = Worker(storage, options=OPTIONS, data=data)
    stopping = threading.Thread(target=lambda: (wait_for(lambda: begun(worker)), worker.stop()))
    stopping.start()
    outcome = worker.work(JOB)
    stopping.join()
    assert outcome.kind == STOPPED and outcome.log == f"memory://continued/logs/{RUN}.train.log"
    assert storage.folders_with(state.STATE) == {RUN}
    storage.fetch(RUN, into=tmp_path)
    saved, _ = state.load(tmp_path / RUN)
    assert (saved.stage, saved.step) < (1, 10) and saved.images_seen > 0
    again = Worker(storage, options=OPTIONS, data=data)
    assert again.work(JOB).kind == DONE
    assert storage.read(f"{RUN}/{state.WEIGHTS}") == uninterrupted


def begun(worker):
    return worker.progress().images > 0


@pytest.mark.heavy
def test_a_full_storage_loses_nothing(data, uninterrupted, tmp_path, monkeypatch):
    """On a file system of 8 kB: the run goes on, and at its end waits until there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a file system needs to be allowed")
    monkeypatch.setattr(progress, "RETRY_SECONDS", 0.2)
    storage = Storage.locate(disk)
    worker, outcomes = Worker(storage, options=OPTIONS, data=data), []
    working = threading.Thread(target=lambda: outcomes.append(worker.work(JOB)))
    try:
        working.start()
        wait_for(lambda: "No space left on device" in worker.progress().problem)
        wait_for(lambda: finished_here(worker))
        assert storage.folders_with(state.RECORD) == set()
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        working.join(LIMIT)
        assert outcomes[0].kind == DONE
        assert storage.read(f"{RUN}/{state.WEIGHTS}") == uninterrupted
        log = storage.read(f"logs/{RUN}.train.log").decode()
        assert "No space left on device. Continuing" in log
    finally:
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        working.join(LIMIT)
        subprocess.run(["umount", str(disk)], check=True)


def finished_here(worker):
    folder = worker._folder
    return folder is not None and (folder / state.RECORD).exists()


def test_a_failed_job_leaves_its_log(tmp_path):
    storage = Storage.locate(tmp_path)
    worker = Worker(storage, options=OPTIONS, data=tmp_path / "nowhere")
    for _ in range(2):
        outcome = worker.work(JOB)
    assert outcome.kind == FAILED and not outcome.broken
    assert outcome.message.startswith("FileNotFoundError: Missing train-images")
    log = storage.read(f"logs/{RUN}.train.log").decode()
    assert outcome.log == str(tmp_path / "logs" / f"{RUN}.train.log")
    assert log.count("Traceback") == log.count("FileNotFoundError: Missing") == 2


def test_a_run_that_another_process_holds_is_waited_for(tmp_path):
    """As by `run` in the same folder, or by a process of a killed sweep that has not ended yet."""
    storage, outcomes = Storage.locate(tmp_path), []
    held = Worker(storage, options=OPTIONS, data=tmp_path / "nowhere")
    waiting = threading.Thread(target=lambda: outcomes.append(held.work(JOB)))
    with locking.lock(tmp_path / RUN):
        waiting.start()
        wait_for(lambda: held.progress().problem)
        assert str(tmp_path / RUN) in held.progress().problem
        stopped = Worker(storage, options=OPTIONS, data=None)
        stopped.stop()
        assert stopped.work(JOB).kind == STOPPED
        assert not outcomes and not (tmp_path / "logs").exists()
    waiting.join(LIMIT)
    assert outcomes[0].message.startswith("FileNotFoundError: Missing train-images")


@pytest.fixture(scope="module")
def published(single, tmp_path_factory):
    """From a finished run in the storage to everything that a clone has of it."""
    storage = Storage.locate("memory://published")
    run = "tiny_single-seed0"
    for path in single.folder("tiny_single").iterdir():
        if path.is_file():
            storage.write(f"{run}/{path.name}", path.read_bytes())
    worker = Worker(storage, options=RunOptions(), data=single.data)
    job = Job(recipe="tiny_single", step=EVALUATE, run=run, publish=True)
    outcome = worker.work(job, comparison=NO_COMPARISON)
    assert outcome.kind == DONE, storage.read(f"logs/{run}.evaluate.log").decode()

    def report(workspace, docs):
        assert workspace.is_published("tiny_single")
        (docs / "REPORT.md").write_text("It works.")

    write_results(storage, report=report)
    path = tmp_path_factory.mktemp("published")
    storage.fetch("zoo", into=path)
    return storage, path / "zoo"


@pytest.mark.heavy
def test_a_worker_publishes_what_the_commands_publish(published, single):
    ours, theirs = (zoo.read_folder(p / "tiny_single") for p in (published[1], single.zoo))
    assert ours.metrics.accuracy == theirs.metrics.accuracy
    assert ours.weights_file.read_bytes() == theirs.weights_file.read_bytes()


@pytest.mark.heavy
def test_registry_tables_and_report_have_what_is_published(published):
    storage, path = published
    assert read_registry(path)["tiny_single"].trained
    assert b"tiny_single" in storage.read("zoo/results.csv")
    assert b"](../zoo/tiny_single)" in storage.read("docs/networks.md")
    assert storage.read("docs/REPORT.md") == b"It works."
