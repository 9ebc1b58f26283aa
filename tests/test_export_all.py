"""`python -m export all`, as users type it: in order, resumable, with a summary."""

import pytest
from export_tools import export, make_clone, sample_data_folder, set_metrics, without
from hub_server import HubServer
from zoo_tools import write_tiny

from gdn_keras.zoo import registry


@pytest.mark.heavy
def test_all_goes_on_where_it_failed_and_sums_up(tmp_path):
    clone = make_clone(tmp_path / "clone")
    for name, claimed in (("b_good", 0.0), ("a_bad", 1.0)):  # int8 cannot reach 100 %
        folder = write_tiny(clone / "zoo", name)
        set_metrics(folder, num_test_images=100, accuracy={"1.000": claimed}, mean_accuracy=claimed)
    (tmp_path / "empty").mkdir()
    environment = without(tmp_path / "without", "ai_edge_litert")
    first = export(clone, "all", GDN_KERAS_DATA=str(tmp_path / "empty"), **environment)
    assert first.returncode == 1
    assert "error: a_bad, litert: ai_edge_litert is not installed." in first.stderr
    assert "error: a_bad, int8: int8 is accepted on the whole test set" in first.stderr
    rows = table(first.stdout)
    assert list(rows) == ["a_bad", "b_good"]
    assert list(rows["a_bad"]) == ["onnx", "saved-model", "litert", "int8", "hub"]
    for row in rows.values():  # one failure does not stop the rest
        assert (row["litert"], row["int8"], row["hub"]) == ("failed", "failed", "written")
        assert all(0 < float(row[step]) < 1e-4 for step in ("onnx", "saved-model"))
    exports = clone / "out" / "export"
    assert (exports / "b_good" / "saved_model" / "saved_model.pb").is_file()
    old = (exports / "b_good" / "model.onnx").stat().st_mtime_ns

    data = sample_data_folder(tmp_path / "data")
    with HubServer() as hub:
        environment = {**hub.environment(tmp_path / "home"), "GDN_KERAS_DATA": str(data)}
        second = export(clone, "all", "--owner", "owner", **environment)
        assert second.returncode == 0, second.stderr
        commits = {name: hub.repositories[f"owner/{name}"].branches["main"] for name in rows}
        asked = len(hub.requests)
        third = export(clone, "all", "--owner", "owner", **environment)
        assert len(hub.requests) == asked  # all done
        good = hub.repositories["owner/b_good"].commits[commits["b_good"]]
        bad = hub.repositories["owner/a_bad"].commits[commits["a_bad"]]
    assert "model.int8.onnx" in good and "model.int8.onnx" not in bad
    rows = table(second.stdout)
    assert all(0 < float(row["litert"]) < 1e-4 for row in rows.values())
    assert rows["a_bad"]["int8"] == "refused" and rows["b_good"]["int8"].endswith("ppt")
    for name, commit in commits.items():
        assert rows[name]["hub"] == commit[:12]
        assert registry.read_registry(clone / "zoo")[name].hub_revision == commit
    assert (exports / "b_good" / "model.onnx").stat().st_mtime_ns == old  # not done again
    assert third.returncode == 0 and table(third.stdout) == rows


def table(output):
    """{network: {step: text}} of the Markdown at the end."""
    lines = [line.strip("| \n").split(" | ") for line in output.splitlines() if line[:2] == "| "]
    head, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def test_all_needs_networks(tmp_path):
    done = export(make_clone(tmp_path / "clone"), "all")
    assert done.returncode == 1 and "There is no zoo folder in" in done.stderr
