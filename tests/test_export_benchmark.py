"""The benchmark of exports runs, on the smallest network there is a recipe for."""

import pytest

from benchmarks import export


@pytest.mark.heavy
def test_all_contenders_are_timed_in_one_run():
    (row,) = export.run(networks=["fashion28_discrete_s1p00"], batches=[1], rounds=1)
    assert row["network"] == "fashion28_discrete_s1p00" and row["batch"] == 1
    assert all(row[f"{name} ms"] > 0 for name in export.CONTENDERS)
    assert row["float / int8"] == pytest.approx(row["float ms"] / row["int8 ms"])
