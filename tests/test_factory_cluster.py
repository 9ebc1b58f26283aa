"""Sweeps on a real Ray cluster of three local nodes: one of them dies, nothing is lost.

All tests share the cluster, and three sweeps: processes that import TensorFlow are what takes time.
"""

import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest
from training_helpers import start

from gdn_keras import zoo
from gdn_keras.zoo.registry import read_registry
from training.__main__ import main
from training.factory.schedule import ATTEMPTS, EVALUATE, TRAIN
from training.factory.table import LiveTable
from training.recipes import ALL
from training.runs import state
from training.runs.stopping import STOPPED

pytestmark = pytest.mark.heavy
LIMIT = 600  # seconds after which something is wrong
GPUS = 0.5  # of one, for every run
RUN = "tiny_max@epochs4-seed0"  # has dropout, so a random state too
RECIPE = ["tiny_max", "--set", "epochs=4", "--precision", "float32", "--from", "none"]
LAST_STAGE, STEPS = 1, 80
SYSTEM = {  # a node that is gone is noticed at once, and nothing is started before it is needed
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 200,
    "health_check_failure_threshold": 3,
    "prestart_worker_first_driver": False,
    "worker_niceness": 0,  # or whatever else runs on the machine starves them
}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with a declared GPU, and one without; the head only keeps the books."""
    ray_cluster = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # where Ray notes the address of the cluster, in a folder that it does not make
        Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)
        short = tempfile.mkdtemp(prefix="ray")  # sockets in it must have short names
        memory = {"object_store_memory": 80 * 2**20}
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": SYSTEM}
        cluster = ray_cluster.Cluster(
            initialize_head=True, head_node_args={**head, **memory, "temp_dir": short}
        )
        try:
            for cpus, gpus in ((4, 1), (4, 1), (1, 0)):
                cluster.add_node(num_cpus=cpus, num_gpus=gpus, **memory)
            yield cluster
        finally:
            cluster.shutdown()
            shutil.rmtree(short, ignore_errors=True)


def node_of(process, cluster):
    """The node of a process, which its raylet has started; None if either has ended."""
    try:
        parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return None
    nodes = {raylet(node).pid: node for node in cluster.list_all_nodes()}
    return nodes.get(parent)


def raylet(node):
    return node.all_processes["raylet"][0].process


class Watch:
    """Sees what the live table shows, again and again, and may do something about it."""

    def __init__(self, patch, cluster, react=lambda *_: None):
        self.seen, show = [], LiveTable.show

        def watched(table, schedule, progress):
            show(table, schedule, progress)
            running = {job.key: progress.get(job.key) for job in schedule.running}
            nodes = {key: node_of(now.process, cluster) for key, now in running.items() if now}
            self.seen.append((running, nodes, _gpus()))
            react(running, nodes)

        patch.setattr(LiveTable, "show", watched)


def _gpus():
    """Those of the cluster, and those that Ray could still give away."""
    import ray

    return ray.cluster_resources().get("GPU", 0), ray.available_resources().get("GPU", 0)


# === A node that is killed, and Ctrl-C ===


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The weights of the same run, made by the command `run`."""
    runs = tmp_path_factory.mktemp("undisturbed")
    run_to_the_end(runs, data)
    return (runs / RUN / state.WEIGHTS).read_bytes()


def run_to_the_end(runs, data):
    argv = ["run", *RECIPE, "--data-dir", str(data), "--runs", str(runs)]
    process = start(argv, output=runs / "output", before=one_thread)
    process.join(LIMIT)
    assert process.exitcode == 0, (runs / "output").read_text()


def one_thread():
    """As every process of a sweep has by default."""
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1"}


def test_a_killed_node_is_replaced_by_another(cluster, undisturbed, data, tmp_path):
    """As in a power cut: its processes end without being asked. The weights are the same."""
    argv = ["sweep", *RECIPE, "--gpus", str(GPUS), "--data-dir", str(data)]
    argv += ["--storage", f"file://{tmp_path}", "--address", cluster.address]
    killed, after = [], set()

    def react(running, nodes):
        node = nodes.get((TRAIN, "tiny_max"))
        if node is None or not (tmp_path / RUN / state.STATE).exists():
            return
        if not killed:
            killed.append(node)
            os.kill(running[TRAIN, "tiny_max"].process, signal.SIGKILL)
            cluster.remove_node(node, allow_graceful=False)
        else:
            after.add(node)

    with pytest.MonkeyPatch.context() as patch:
        Watch(patch, cluster, react)
        assert main(argv) == 0
    assert after and not after & set(killed)
    assert (tmp_path / RUN / state.WEIGHTS).read_bytes() == undisturbed


def test_ctrl_c_saves_the_current_step(undisturbed, data, tmp_path):
    """In a terminal it reaches all processes of the group, those of Ray too."""
    argv = ["sweep", *RECIPE, "--data-dir", str(data), "--storage", str(tmp_path)]
    sweep = start(argv, output=tmp_path / "output", before=os.setsid)
    end = time.time() + LIMIT
    while not (tmp_path / RUN / state.STATE).exists():  # after the first stage
        assert sweep.is_alive() and time.time() < end, (tmp_path / "output").read_text()
        time.sleep(0.02)
    os.killpg(sweep.pid, signal.SIGINT)
    sweep.join(LIMIT)
    assert sweep.exitcode == STOPPED, (tmp_path / "output").read_text()
    saved, _ = state.load(tmp_path / RUN)
    assert saved.stage == LAST_STAGE and 0 < saved.step < STEPS
    run_to_the_end(tmp_path, data)  # what a sweep has stored is a run as any other
    assert (tmp_path / RUN / state.WEIGHTS).read_bytes() == undisturbed


# === A whole sweep ===


@pytest.fixture(scope="module")
def swept(cluster, data, tmp_path_factory):
    """Four recipes, of which one cannot work, on the nodes that are left."""
    base = tmp_path_factory.mktemp("swept")
    storage, files = base / "storage", base / "data"
    (files / "stir").mkdir(parents=True)
    (files / "fashion-mnist").symlink_to(data / "fashion-mnist")
    (files / "stir" / "emoji.npz").write_text("no numpy file")
    argv = ["sweep", "tiny_[as]*", "--gpus", str(GPUS), "--precision", "float32"]
    argv += ["--data-dir", str(files), "--storage", str(storage), "--address", cluster.address]
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(patch, cluster)
        code = main(argv)
    return {"code": code, "storage": storage, "seen": watch.seen}


def first_seen(swept, key):
    return next(n for n, (running, *_) in enumerate(swept["seen"]) if key in running)


def last_seen(swept, key):
    return max(n for n, (running, *_) in enumerate(swept["seen"]) if key in running)


def test_everything_is_trained_evaluated_and_published(swept):
    names = {"tiny_single", "tiny_avg", "tiny_avg_transfer"}
    published = {path.name for path in zoo.folders(swept["storage"] / "zoo")}
    assert published == names
    registry = read_registry(swept["storage"] / "zoo")
    assert {name for name, info in registry.items() if info.trained} == names
    assert (swept["storage"] / "docs" / "REPRODUCTION.md").exists()


def test_networks_come_after_those_they_start_from(swept):
    for name in ("tiny_avg", "tiny_avg_transfer"):
        record = state.read_record(swept["storage"] / f"{name}-seed0")
        assert record.lineage[-1] == "tiny_single"
        source = (TRAIN, record.warm_start)
        key = (TRAIN, name)
        seen = [running for running, *_ in swept["seen"]]
        assert not any(source in running and key in running for running in seen)
        if any(key in running for running in seen):  # copying weights takes less than a look
            assert first_seen(swept, key) > last_seen(swept, source)


def test_a_failing_recipe_is_set_aside_with_its_log(swept):
    assert swept["code"] == 1
    log = (swept["storage"] / "logs" / "tiny_stir-seed0.train.log").read_text()
    assert len(re.findall("emoji.npz .*STIR file", log)) == ATTEMPTS
    assert not (swept["storage"] / "tiny_stir-seed0" / state.RECORD).exists()


def test_runs_get_their_share_of_a_gpu_and_never_more(swept):
    """As Ray counts it; and every process sees the GPU of its node, or none."""
    shares, visible = set(), {TRAIN: set(), EVALUATE: set()}
    for running, _, (total, free) in swept["seen"]:
        shares.add(total - free)
        for (step, name), now in running.items():
            if now and not ALL[name].transfer_from:  # which needs no GPU
                visible[step].add(now.gpus)
        training = [name for step, name in running if step == TRAIN]
        assert GPUS * sum(not ALL[name].transfer_from for name in training) <= total
    assert {2 * GPUS} <= shares <= {0, GPUS, 2 * GPUS, 3 * GPUS, 4 * GPUS}
    assert visible == {TRAIN: {"0"}, EVALUATE: {"-1"}}


def test_networks_are_evaluated_on_machines_without_gpus(swept):
    found = [
        node.get_resource_and_label_spec().num_gpus
        for _, nodes, _ in swept["seen"]
        for (step, _), node in nodes.items()
        if step == EVALUATE and node
    ]
    assert found and set(found) == {0}


def test_nothing_is_left_to_do(swept, data, capsys):
    """The same recipes again, without the one that fails: nothing is started."""
    argv = ["sweep", "tiny_a*", "--data-dir", str(data), "--dry-run"]
    assert main([*argv, "--storage", str(swept["storage"])]) == 0
    assert "\n0 jobs for " in capsys.readouterr().out
