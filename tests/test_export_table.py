"""The table of int8 accuracies: made from reports, of the networks that are in the zoo."""

import pytest
from export_tools import ROOT, make_clone
from zoo_tools import write_tiny

from export.quantisation import quantise, table
from gdn_keras import zoo
from gdn_keras.utils.markdown import with_table
from gdn_keras.zoo.records import to_json
from gdn_keras.zoo.weights import file_sha256

AGAIN = "run `python -m export table`"


def test_the_page_has_the_table_of_the_reports():
    assert table.stale(ROOT) == [], AGAIN
    page, text = ROOT / "docs" / "export.md", table.markdown(table.reports(ROOT))
    assert with_table(page, text, name="int8") == page.read_text(encoding="utf-8"), AGAIN


@pytest.mark.parametrize("name", sorted(table.reports(ROOT)))
def test_a_report_is_of_the_network_as_it_is_loaded(name):
    report, info = table.reports(ROOT)[name], zoo.info(ROOT / "zoo" / name)
    assert report["options"] == quantise.DEFAULTS
    assert report["sampling_density"] == info.config.sampling_density
    assert report["float"] == info.accuracy and report["num_test_images"] == info.num_test_images
    losses = [100 * (info.accuracy[size] - after) for size, after in report["int8"].items()]
    assert list(report["int8"]) == list(info.accuracy)
    assert report["worst_loss_ppt"] == pytest.approx(max(losses)) and max(losses) <= 1


def test_a_network_that_is_trained_again_drops_out(tmp_path, capsys):
    root = make_clone(tmp_path / "clone")
    (root / "export").unlink()  # a link to the real one
    page = root / "docs" / "export.md"
    page.write_text("before\n<!-- int8 -->\nold\n<!-- /int8 -->\nafter\n")
    info = zoo.info(write_tiny(root / "zoo", "net").path)
    folder = tmp_path / "out" / "net"
    folder.mkdir(parents=True)
    (folder / quantise.INT8_FILE).write_bytes(b"the network in integers")
    report = {
        "weights_sha256": info.weights_sha256,
        "file_sha256": file_sha256(folder / quantise.INT8_FILE),
        "sampling_density": info.config.sampling_density,
        "options": quantise.DEFAULTS,
        "weights": quantise.WEIGHTS,
        "cpu": {"name": "AMD EPYC", "instructions": ["AVX2"]},
        "float": {"1.000": 0.9},
        "int8": {"1.000": 0.8975},
        "worst_loss_ppt": 0.25,
    }
    (folder / quantise.REPORT_FILE).write_text(to_json(report))
    table.update(tmp_path / "out", root=root)
    row = "| [`net`](../export/int8/net.json) |  | 90.00 / 89.75 |  |  | 0.25 | AMD EPYC (AVX2) |\n"
    before, _, rest = page.read_text().partition("<!-- int8 -->\n")
    assert before == "before\n" and rest.endswith(f"{row}<!-- /int8 -->\nafter\n")
    assert "old" not in rest and table.reports(root) == {"net": report}

    write_tiny(root / "zoo", "net", seed=1)
    assert table.stale(root) == ["net"]
    capsys.readouterr()
    table.update(tmp_path / "out", root=root)
    assert "net: its report is of other weights" in capsys.readouterr().out
    assert "`net`" not in page.read_text() and table.reports(root) == {}


def test_a_report_of_a_file_that_was_quantised_otherwise_drops_out(tmp_path):
    root = make_clone(tmp_path / "clone")
    (root / "export").unlink()  # a link to the real one
    info = zoo.info(write_tiny(root / "zoo", "net").path)
    folder = root / "export" / "int8"
    folder.mkdir(parents=True)
    report = {"weights_sha256": info.weights_sha256, "weights": quantise.WEIGHTS}
    (folder / "net.json").write_text(to_json(report))
    assert table.stale(root) == []
    del report["weights"]
    (folder / "net.json").write_text(to_json(report))
    assert table.stale(root) == ["net"]
