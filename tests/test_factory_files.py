"""The files in training/cluster/, as far as they can be tried without a cluster."""

import json
import os
import re
import signal
import subprocess
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLUSTER = ROOT / "training" / "cluster"
LIMIT = 60  # seconds after which something is wrong

# What the script calls. Each writes its words to a file; `srun` then does what it is told.
STAND_INS = {
    "scontrol": "printf 'one\\ntwo\\nthree\\n'",
    "srun": 'while [[ "$1" == -* ]]; do [[ "$1" == -w ]] && shift; shift; done; exec "$@"',
    "hostname": "echo 10.0.0.1 fe80::1",
    "ray": '[[ "$1" == status ]] || exec sleep 600',
    "python": "until [[ $(grep -c '^ray start' {folder}/words) == 3 ]]; do sleep 0.02; done; "
    "trap 'kill $!; exit 3' TERM; touch {folder}/begun; sleep {seconds} & wait",
}


def start_script(folder, *, seconds):
    for name, body in STAND_INS.items():
        text = body.replace("{folder}", str(folder)).replace("{seconds}", str(seconds))
        tool = folder / name
        tool.write_text(f'#!/bin/bash\necho "{name} $*" >> {folder}/words\n{text}\n')
        tool.chmod(0o755)
    variables = {"SLURM_JOB_NODELIST": "one,two,three", "GDN_KERAS_BIN": str(folder)}
    variables |= {"SLURM_CPUS_PER_TASK": "8", "SLURM_GPUS_ON_NODE": "4"}
    return subprocess.Popen(
        ["bash", CLUSTER / "slurm.sh", "--all", "--storage", "a folder"],
        env=os.environ | variables | {"PATH": f"{folder}:{os.environ['PATH']}"},
        start_new_session=True,
    )


def test_slurm_starts_ray_everywhere_and_then_the_sweep(tmp_path):
    script = start_script(tmp_path, seconds=0)
    assert script.wait(LIMIT) == 0
    words = (tmp_path / "words").read_text().splitlines()
    size = "--num-cpus=8 --num-gpus=4"
    join = f"ray start --block --address=10.0.0.1:6379 {size}"
    assert words.count(f"ray start --head --block --port=6379 {size}") == 1
    assert words.count(join) == 2
    assert "python -m training sweep --all --storage a folder --address 10.0.0.1:6379" in words
    for node in ("two", "three"):
        (line,) = (line for line in words if line.startswith("srun") and f"-w {node} " in line)
        assert line.endswith(join)


def test_the_signal_of_slurm_reaches_the_sweep(tmp_path):
    script, end = start_script(tmp_path, seconds=600), time.time() + LIMIT
    while not (tmp_path / "begun").exists():
        assert script.poll() is None and time.time() < end
        time.sleep(0.02)
    script.send_signal(signal.SIGTERM)
    assert script.wait(LIMIT) == 3  # as the sweep itself ended, after its runs were saved


def test_the_cluster_is_one_that_ray_accepts():
    yaml, jsonschema = pytest.importorskip("yaml"), pytest.importorskip("jsonschema")
    schema = Path(find_spec("ray").origin).parent / "autoscaler" / "ray-schema.json"
    cluster = yaml.safe_load((CLUSTER / "ray.yaml").read_text())
    jsonschema.validate(cluster, json.loads(schema.read_text()))
    kinds = cluster["available_node_types"]
    assert cluster["max_workers"] == sum(kind.get("max_workers", 0) for kind in kinds.values())
    assert [name for name, kind in kinds.items() if kind["resources"].get("GPU")] == ["gpu"]


@pytest.mark.parametrize("file", ["Containerfile", "ray.yaml"])
def test_what_is_installed_exists(file):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"\.\[([\w,]+)\]", (CLUSTER / file).read_text())
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
