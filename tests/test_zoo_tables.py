"""Registry, results.csv and the tables of networks are up to date with the folders of the zoo."""

import csv
import re

import pytest
from zoo_tools import tiny_config, write_tiny

from gdn_keras import zoo
from gdn_keras.zoo import registry, tables
from training import commands
from training.__main__ import main
from training.recipes import RECIPES

PAGE = "# Title\n\n<!-- results -->\nold\n<!-- /results -->\n\nthe end\n"


@pytest.fixture
def clone(tmp_path):
    (tmp_path / "zoo").mkdir()
    (tmp_path / "docs").mkdir()
    for page in ("README.md", "docs/networks.md"):
        (tmp_path / page).write_text(PAGE)
    return tmp_path


def rows(clone):
    with open(clone / "zoo" / "results.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_tables_of_this_repository_are_up_to_date():
    """If this fails: python -m training results"""
    assert tables.update(registry.checkout(), check=True) == []


def test_the_registry_of_this_repository_has_every_recipe():
    """If this fails, the recipes have changed: python -m training results"""
    known = registry.read_registry(registry.checkout() / "zoo")
    assert set(known) == set(RECIPES)
    for name, recipe in RECIPES.items():
        if not known[name].trained:
            assert known[name].config == recipe.config and known[name].dataset == recipe.dataset


def test_no_folders(clone):
    assert len(tables.update(clone)) == 4
    assert rows(clone) == []
    for page in ("README.md", "docs/networks.md"):
        assert (clone / page).read_text() == PAGE.replace("old", "No trained networks yet.")
    assert tables.update(clone) == []


@pytest.fixture
def two_networks(clone):
    write_tiny(clone / "zoo", "scaled", dataset="rescaled_fashion_mnist")
    write_tiny(clone / "zoo", "regular")
    return clone


def test_checking_writes_nothing(two_networks):
    assert len(tables.update(two_networks, check=True)) == 4
    assert not (two_networks / "zoo" / "results.csv").exists()


def test_folders_become_rows(two_networks):
    tables.update(two_networks)
    regular, scaled = rows(two_networks)
    assert (scaled["name"], regular["name"]) == ("scaled", "regular")
    accuracies = [scaled[f"accuracy_{size}"] for size in ("0.500", "1.000", "2.000")]
    assert accuracies == ["0.5000", "0.5400", "0.5800"] and scaled["mean_accuracy"] == "0.5400"
    assert (regular["accuracy_0.500"], regular["accuracy_1.000"]) == ("", "0.5000")
    info = zoo.info(two_networks / "zoo" / "scaled")
    assert float(scaled["gflop_dense"]) == pytest.approx(2e-9 * info.multiply_adds_dense, abs=1e-4)


def test_the_table_of_a_page_is_replaced_and_the_rest_kept(two_networks):
    tables.update(two_networks)
    text = (two_networks / "docs" / "networks.md").read_text()
    assert text.startswith("# Title") and text.endswith("the end\n") and "old" not in text
    info = zoo.info(two_networks / "zoo" / "scaled")
    line = next(line for line in text.splitlines() if "(../zoo/scaled)" in line)
    assert "| 50.00 | 54.00 | 58.00 | 54.00 (9) |" in line and f"{info.parameters:,}" in line
    assert tables.update(two_networks) == []


def test_the_readme_has_the_headline_networks_in_their_order(clone):
    for name in (*reversed(tables.HEADLINE), "another"):
        write_tiny(clone / "zoo", name)
    tables.update(clone)
    names = re.findall(r"\(zoo/(\w+)\)", (clone / "README.md").read_text())
    assert tuple(names) == tables.HEADLINE
    page = (clone / "docs" / "networks.md").read_text()
    assert len(re.findall(r"\(\.\./zoo/\w+\)", page)) == len(names) + 1


def test_a_table_has_no_empty_column(clone):
    write_tiny(clone / "zoo", "regular")
    tables.update(clone)
    text = (clone / "docs" / "networks.md").read_text()
    assert "| S = 1 |" in text and "S = 2" not in text and "mean over sizes" not in text


def test_the_command_checks_and_updates(clone, monkeypatch, capsys):
    few = {name: RECIPES[name] for name in ("fashion_avg_2jet", "cifar32_discrete_s0p50")}
    monkeypatch.setattr(commands, "RECIPES", few)
    monkeypatch.setattr(commands, "CHECKOUT", clone)
    assert main(["results", "--check"]) == 1
    files = ("zoo/registry.json", "zoo/results.csv", "README.md", "docs/networks.md")
    assert capsys.readouterr().out.splitlines() == [f"stale: {file}" for file in files]
    assert main(["results"]) == 0 and "updated: zoo/results.csv" in capsys.readouterr().out
    assert set(registry.read_registry(clone / "zoo")) == set(few)
    assert main(["results", "--check"]) == 0 and capsys.readouterr().out == ""


def test_a_changed_folder_makes_the_tables_stale(clone):
    write_tiny(clone / "zoo", "net")
    tables.update(clone)
    write_tiny(clone / "zoo", "net", seed=1)
    assert tables.update(clone, check=True) == [clone / "zoo" / "registry.json"]
    (clone / "README.md").write_text(PAGE)
    assert clone / "README.md" in tables.update(clone, check=True)


def test_pins_and_configurations_are_kept(clone):
    commit = "a" * 40
    write_tiny(clone / "zoo", "net")
    tables.update(clone, configurations={"planned": ("cifar10", tiny_config())})
    tables.update(clone, pins={"net": ("owner/net", commit)})
    tables.update(clone)
    known = registry.read_registry(clone / "zoo")
    assert (known["net"].hub_repo, known["net"].hub_revision) == ("owner/net", commit)
    assert not known["planned"].trained


def test_a_network_that_is_only_on_the_hub_stays_known_until_its_weights_change(clone):
    write_tiny(clone / "zoo", "net")
    tables.update(clone, pins={"net": ("owner/net", "a" * 40)})
    (clone / "zoo" / "net").rename(clone / "elsewhere")
    tables.update(clone, configurations={})
    assert set(registry.read_registry(clone / "zoo")) == {"net"}
    write_tiny(clone / "zoo", "net", seed=1)
    tables.update(clone)
    assert registry.read_registry(clone / "zoo")["net"].hub_repo is None


@pytest.mark.parametrize("page", ["README.md", "docs/networks.md"])
def test_a_page_without_markers_is_refused(page, clone):
    (clone / page).write_text("# Title\n")
    name = page.rpartition("/")[2]
    with pytest.raises(ValueError, match=f"{name} .*<!-- results -->"):
        tables.update(clone)
    assert not (clone / "zoo" / "results.csv").exists()


def test_a_registry_of_the_future_is_refused(clone):
    (clone / "zoo" / "registry.json").write_text('{"format_version": 2, "models": {}}')
    with pytest.raises(ValueError, match="registry.json: `format_version` must be 1"):
        registry.read_registry(clone / "zoo")
    (clone / "zoo" / "registry.json").write_text('{"format_version": 1}')
    with pytest.raises(ValueError, match="registry.json: `models` is missing"):
        registry.read_registry(clone / "zoo")
