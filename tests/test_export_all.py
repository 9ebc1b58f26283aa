"""`python -m export all`, as users type it: in order, resumable, with a summary."""

import re
from types import SimpleNamespace

import pytest
from export_tools import export, make_clone, sample_data_folder, set_metrics, without
from hub_server import HubServer
from zoo_tools import write_tiny

from gdn_keras.zoo import registry

STEPS = ["onnx", "saved-model", "litert", "int8", "hub"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The command three times: with packages and data missing, with all there, and once more."""
    folder = tmp_path_factory.mktemp("all")
    clone = make_clone(folder / "clone")
    for name, claimed in (("b_good", 0.0), ("a_bad", 1.0)):  # int8 cannot reach 100 %
        network = write_tiny(clone / "zoo", name)
        set_metrics(
            network, num_test_images=100, accuracy={"1.000": claimed}, mean_accuracy=claimed
        )
    onnx = clone / "out" / "export" / "b_good" / "model.onnx"
    (folder / "empty").mkdir()
    environment = without(folder / "without", "ai_edge_litert")
    first = export(clone, "all", GDN_KERAS_DATA=str(folder / "empty"), **environment)
    times = [onnx.stat().st_mtime_ns]
    with HubServer() as hub:
        data = sample_data_folder(folder / "data")
        environment = {**hub.environment(folder / "home"), "GDN_KERAS_DATA": str(data)}
        second = export(clone, "all", "--owner", "owner", **environment)
        requests = [len(hub.requests)]
        third = export(clone, "all", "--owner", "owner", **environment)
        requests.append(len(hub.requests))
    times.append(onnx.stat().st_mtime_ns)
    return SimpleNamespace(
        clone=clone,
        first=first,
        second=second,
        third=third,
        hub=hub,
        requests=requests,
        times=times,
    )


@pytest.mark.heavy
def test_one_failure_does_not_stop_the_rest(runs):
    assert runs.first.returncode == 1
    assert "error: a_bad, litert: ai_edge_litert " in runs.first.stderr
    assert re.search("error: a_bad, int8: .*test set", runs.first.stderr)
    rows = table(runs.first.stdout)
    assert {name: list(row) for name, row in rows.items()} == {"a_bad": STEPS, "b_good": STEPS}
    for row in rows.values():
        assert (row["litert"], row["int8"], row["hub"]) == ("failed", "failed", "written")
        assert all(0 < float(row[step]) < 1e-4 for step in ("onnx", "saved-model"))
    exports = runs.clone / "out" / "export"
    assert (exports / "b_good" / "saved_model" / "saved_model.pb").is_file()


@pytest.mark.heavy
def test_the_next_run_does_only_what_is_missing(runs):
    assert runs.second.returncode == 0, runs.second.stderr
    rows = table(runs.second.stdout)
    assert all(0 < float(row["litert"]) < 1e-4 for row in rows.values())
    assert rows["a_bad"]["int8"] == "refused" and rows["b_good"]["int8"].endswith("ppt")
    assert runs.times[0] == runs.times[1]  # the ONNX file of the first run


@pytest.mark.heavy
def test_the_hub_and_the_registry_have_what_the_table_says(runs):
    for name, row in table(runs.second.stdout).items():
        repository = runs.hub.repositories[f"owner/{name}"]
        commit = repository.branches["main"]
        assert row["hub"] == commit[:12]
        assert registry.read_registry(runs.clone / "zoo")[name].hub_revision == commit
        assert ("model.int8.onnx" in repository.commits[commit]) == (row["int8"] != "refused")


@pytest.mark.heavy
def test_when_all_is_done_nothing_is_sent(runs):
    assert runs.third.returncode == 0
    assert table(runs.third.stdout) == table(runs.second.stdout)
    assert runs.requests[0] == runs.requests[1]


def table(output):
    """{network: {step: text}} of the Markdown at the end."""
    lines = [line.strip("| \n").split(" | ") for line in output.splitlines() if line[:2] == "| "]
    head, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def test_all_needs_networks(tmp_path):
    done = export(make_clone(tmp_path / "clone"), "all")
    assert done.returncode == 1 and str(tmp_path / "clone" / "zoo") in done.stderr
