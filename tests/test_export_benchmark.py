"""The benchmarks of exports, evaluation and the page run, on small networks."""

import pytest
from page_tools import chromium, need_runtime
from zoo_tools import write_tiny

from benchmarks import evaluation, export, page


@pytest.mark.heavy
def test_all_contenders_are_timed_in_one_run():
    (row,) = export.run(networks=["fashion28_discrete_s1p00"], batches=[1], rounds=1)
    assert row["network"] == "fashion28_discrete_s1p00" and row["batch"] == 1
    assert all(row[f"{name} ms"] > 0 for name in export.CONTENDERS)
    assert row["float / int8"] == pytest.approx(row["float ms"] / row["int8 ms"])


@pytest.mark.heavy
def test_evaluation_is_timed_in_both_programs():
    rows = evaluation.run(networks=["fashion28_discrete_s1p00"], images=10, rounds=1)
    assert [(row["program"], row["reach"]) for row in rows[::3]] == [
        ("Keras", "exact"),
        ("onnxruntime", "exact"),
    ]
    assert len(rows) == 6 and rows[0]["times the first"] == 1
    assert rows[5]["times the first"] == pytest.approx(rows[5]["images/s"] / rows[0]["images/s"])


@pytest.mark.heavy
def test_all_files_of_a_page_are_timed(tmp_path):
    chromium()
    need_runtime()
    network = write_tiny(tmp_path, "net", dataset="rescaled_fashion_mnist")
    result = page.run(names=[str(network.path)], visits=1, images=1)
    kinds = ["published", "reach 1.25", "reach 1.25, int8"]
    assert [(row["network"], row["file"]) for row in result["rows"]] == [("net", k) for k in kinds]
    assert all(row["ms per image"] > 0 and row["MB"] > 0 for row in result["rows"])
    assert result["first answer s"] > 0
