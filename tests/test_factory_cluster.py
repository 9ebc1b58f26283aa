"""Sweeps on a real Ray cluster of three local nodes: one of them dies, nothing is lost.

All tests share the cluster, and two sweeps: processes that import TensorFlow are what takes time.
"""

import os
import shutil
import signal
import tempfile

import pytest
from training_helpers import start

from gdn_keras import zoo
from training import state
from training.__main__ import main
from training.factory.schedule import ATTEMPTS, EVALUATE, TRAIN
from training.factory.table import LiveTable
from training.stopping import STOPPED

pytestmark = pytest.mark.heavy
LIMIT = 600  # seconds after which something is wrong
GPUS = 0.5  # of one, for every run
RUN = "tiny_max@epochs10-seed0"  # has dropout, so a random state too
STEPS = 40, 200  # of its two stages
QUICK = {  # a node that is gone is noticed at once
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 200,
    "health_check_failure_threshold": 3,
}


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with a declared GPU, and one without; the head only keeps the books."""
    ray_cluster = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        short = tempfile.mkdtemp(prefix="ray")  # sockets in it must have short names
        memory = {"object_store_memory": 80 * 2**20}
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": QUICK}
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


class Watch:
    """Sees what the live table shows, again and again, and may do something about it."""

    def __init__(self, patch, react=lambda running: None):
        self.seen, show = [], LiveTable.show

        def watched(table, schedule, progress):
            show(table, schedule, progress)
            running = {job.key: progress.get(job.key) for job in schedule.running}
            self.seen.append((running, _free_gpus()))
            react(running)

        patch.setattr(LiveTable, "show", watched)


def _free_gpus():
    """GPUs of the cluster, and those that Ray could still give away."""
    import ray

    return ray.cluster_resources().get("GPU", 0), ray.available_resources().get("GPU", 0)


def kill_node(cluster, progress):
    """As a power cut: its processes end without being asked."""
    (node,) = (node for node in cluster.list_all_nodes() if node.node_id == progress.node)
    os.kill(progress.process, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)


# === A node that is killed, and Ctrl-C ===


@pytest.fixture(scope="module")
def disturbed(cluster, data, tmp_path_factory):
    """A run that loses its node in the second stage, then gets Ctrl-C, and then is continued."""
    storage = tmp_path_factory.mktemp("disturbed")
    argv = ["sweep", "tiny_max", "--set", "epochs=10", "--precision", "float32"]
    argv += ["--gpus", str(GPUS), "--data", str(data), "--storage", f"file://{storage}"]
    argv += ["--address", cluster.address]
    victims, stopped = [], []

    def react(running):
        now = running.get((TRAIN, "tiny_max"))
        if now is None or not (storage / RUN / state.STATE).exists():
            return
        if not victims:
            victims.append(now)
            kill_node(cluster, now)
        elif now.node != victims[0].node and now.images > 32 * STEPS[0] and not stopped:
            stopped.append(now)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        Watch(patch, react)
        codes = [main(argv)]
    saved, _ = state.load(storage / RUN)
    codes.append(main(argv))
    return {"codes": codes, "storage": storage, "saved": saved, "nodes": victims + stopped}


def test_a_node_is_killed_and_the_run_continues_elsewhere(disturbed):
    before, after = disturbed["nodes"]
    assert before.node != after.node and before.process != after.process
    assert disturbed["codes"] == [STOPPED, 0]


def test_ctrl_c_saves_every_step(disturbed):
    """Not only what had been saved before: that was the first stage."""
    saved = disturbed["saved"]
    assert saved.stage == 1 and 0 < saved.step < STEPS[1]


def test_the_weights_are_those_of_an_undisturbed_run(disturbed, data, tmp_path):
    argv = ["run", "tiny_max", "--set", "epochs=10", "--precision", "float32"]
    argv += ["--from", "none", "--data", str(data), "--runs", str(tmp_path)]
    process = start(argv, output=tmp_path / "output", before=one_thread)
    process.join(LIMIT)
    assert process.exitcode == 0, (tmp_path / "output").read_text()
    ours, theirs = (f / RUN / state.WEIGHTS for f in (disturbed["storage"], tmp_path))
    assert ours.read_bytes() == theirs.read_bytes()


def one_thread():
    """As every process of a sweep has by default."""
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1"}


# === A whole sweep ===


@pytest.fixture(scope="module")
def swept(cluster, disturbed, data, tmp_path_factory):
    """All tiny recipes, of which one cannot work, on the two nodes that are left."""
    base = tmp_path_factory.mktemp("swept")
    storage, files = base / "storage", base / "data"
    (files / "stir").mkdir(parents=True)
    (files / "fashion-mnist").symlink_to(data / "fashion-mnist")
    (files / "stir" / "emoji.npz").write_text("no numpy file")
    argv = ["sweep", "tiny*", "--gpus", str(GPUS), "--precision", "float32"]
    argv += ["--data", str(files), "--storage", str(storage), "--address", cluster.address]
    with pytest.MonkeyPatch.context() as patch:
        watch = Watch(patch)
        code = main(argv)
    return {"code": code, "storage": storage, "seen": watch.seen}


def first_seen(swept, key):
    return next(n for n, (running, _) in enumerate(swept["seen"]) if key in running)


def last_seen(swept, key):
    return max(n for n, (running, _) in enumerate(swept["seen"]) if key in running)


def test_everything_is_trained_evaluated_and_published(swept):
    names = {"tiny_single", "tiny_avg", "tiny_lse", "tiny_max", "tiny_avg_transfer"}
    published = {path.name for path in zoo.folders(swept["storage"] / "zoo")}
    assert published == names
    registry = zoo.read_registry(swept["storage"] / "zoo")
    assert {name for name, info in registry.items() if info.trained} == names
    assert (swept["storage"] / "docs" / "REPRODUCTION.md").exists()


def test_networks_come_after_those_they_start_from(swept):
    for name in ("tiny_avg", "tiny_lse", "tiny_max", "tiny_avg_transfer"):
        record = state.read_record(swept["storage"] / f"{name}-seed0")
        assert record.lineage[-1] == "tiny_single"
        source = (TRAIN, record.warm_start)
        key = (TRAIN, name)
        seen = [running for running, _ in swept["seen"]]
        assert not any(source in running and key in running for running in seen)
        if any(key in running for running in seen):  # copying weights takes less than a look
            assert first_seen(swept, key) > last_seen(swept, source)


def test_a_failing_recipe_is_set_aside_with_its_log(swept):
    assert swept["code"] == 1
    log = (swept["storage"] / "logs" / "tiny_stir-seed0.train.log").read_text()
    assert log.count("Traceback") == ATTEMPTS and "emoji.npz" in log
    assert not (swept["storage"] / "tiny_stir-seed0" / state.RECORD).exists()


def test_runs_get_their_share_of_a_gpu_and_never_more(swept):
    """As Ray counts it; and processes without a share see no GPU."""
    shares = set()
    for running, (total, free) in swept["seen"]:
        assert total == 1  # the other one died with its node
        training = [key for key, now in running.items() if key[0] == TRAIN and now]
        assert GPUS * len(training) <= total
        shares.add(total - free)
    assert shares <= {0, GPUS, 2 * GPUS} and 2 * GPUS in shares
    visible = {now.gpus for running, _ in swept["seen"] for now in running.values() if now}
    assert "0" in visible


def test_networks_are_evaluated_on_machines_without_gpus(cluster, swept):
    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    try:
        without = {n["NodeID"] for n in ray.nodes() if not n["Resources"].get("GPU")}
    finally:
        ray.shutdown()
    found = [
        now.node
        for running, _ in swept["seen"]
        for (step, _), now in running.items()
        if step == EVALUATE and now
    ]
    assert found and set(found) <= without


def test_nothing_is_left_to_do(swept, data, capsys):
    """The same recipes again, without the one that fails: nothing is started."""
    argv = ["sweep", "tiny_[alm]*", "--data", str(data), "--dry-run"]
    assert main([*argv, "--storage", str(swept["storage"])]) == 0
    assert "\n0 jobs for " in capsys.readouterr().out
