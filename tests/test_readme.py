"""The README and its neighbours: snippets run, links lead somewhere, recipes in them exist."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gdn_keras import zoo
from gdn_keras.datasets import load_samples
from gdn_keras.datasets.stir import STIR_SIZES
from gdn_keras.utils.citation import CITATION
from training.reproduction.baselines import MODELS, stir_baseline

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "gdn_keras/scale_space/README.md")


@pytest.fixture(scope="module")
def snippets():
    """What the snippets of the README define, run in order."""
    names = {}
    for snippet in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S):
        exec(snippet, names)
    return names


def test_the_network_of_the_readme_classifies(snippets):
    # one scale channel has a quarter of these right
    assert (snippets["labels"] == load_samples("rescaled_cifar10").labels).mean() > 0.5


@pytest.mark.parametrize(
    "name, shape",
    [
        ("per_scale", (100, 6, 10)),
        ("logits", (8, 10)),
        ("scale_logits", (8, 4, 10)),
        ("maps", (None, 32, 32, 8)),
    ],
)
def test_outputs_in_the_readme_have_their_shapes(snippets, name, shape):
    assert snippets[name].shape == shape


def test_networks_are_changed_as_the_readme_says(snippets):
    assert snippets["new_head"].output_shape == (None, 3)
    assert snippets["anywhere"].config.spatial_selection == "max"
    assert snippets["larger"].config.input_size == (64, 64)
    assert snippets["doubled"].config.channel_sigmas[0] == 1.0
    assert snippets["folded"].folded


def test_the_readme_cites_the_paper():
    text = (ROOT / "README.md").read_text()
    words = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).replace("*", "").split()
    assert CITATION in " ".join(words)
    assert "(https://arxiv.org/abs/2409.11140)" in text and "arXiv:2409.11140" in CITATION


def test_the_readme_has_no_accuracy_outside_the_generated_table():
    text = (ROOT / "README.md").read_text()
    typed = text.partition("<!-- results -->")[0] + text.partition("<!-- /results -->")[2]
    assert not re.findall(r"[\d.]+ ?(?:%|per cent)", typed)


def test_one_scale_channel_falls_at_other_sizes_and_seven_do_not():
    single, several = (
        zoo.read_folder(ROOT / "zoo" / name).metrics
        for name in ("fashion_single_2jet", "fashion_avg_2jet")
    )
    for end in ("0.500", "2.000"):
        assert single.accuracy[end] < several.accuracy[end] - 0.3
    assert min(several.accuracy.values()) > max(several.accuracy.values()) - 0.1
    assert min(single.matched_accuracy.values()) > max(single.matched_accuracy.values()) - 0.1


@pytest.mark.parametrize("sizes", list(STIR_SIZES.ranges))
def test_ours_is_ahead_of_the_published_networks_on_stir_emoji(sizes):
    ours = zoo.read_folder(ROOT / "zoo" / f"stir_emoji_{sizes}_drop").metrics.mean_accuracy
    for model in MODELS:
        others = stir_baseline(model, dataset="stir_emoji", train_sizes=sizes).mean
        assert 100 * ours > others.mean()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), target


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_named_files_and_targets_exist(document):
    text = (ROOT / document).read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)", text):
        assert f"\n{target}:" in makefile, target
    for name in re.findall(r"\b(test_\w+\.py|reference\.py)", text):
        assert (ROOT / "tests" / name).exists(), name


def test_the_names_in_the_walks_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("\n## Walks\n")[2].partition("\n## ")[0]
    steps = re.findall(r"(?ms)^\d\. `([\w/]+\.py)`: (.*?)(?=^\d\. |^$|\Z)", section)
    assert len(steps) == len(re.findall(r"(?m)^\d\. ", section)) > 12
    for file, words in steps:
        tree = ast.walk(ast.parse((ROOT / file).read_text()))
        defined = {getattr(node, "name", None) for node in tree}
        functions, classes = re.findall(r"`(\w+)\(\)`", words), re.findall(r"`([A-Z]\w+)`", words)
        assert functions + classes and not {*functions, *classes} - defined, file
        for other in re.findall(r"`([\w/]+\.py)`", words):
            assert (ROOT / other).is_file(), other


def test_make_audit_says_how_to_get_what_it_needs(tmp_path):
    """With an environment that has Python and nothing else."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    (tmp_path / "installed-dev").touch()
    command = ["make", "audit", f"VENV={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(f"{tmp_path}/bin/python .*pip install pip-audit", done.stdout)


def test_the_readme_lists_all_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = (ROOT / "README.md").read_text().partition("| extra |")[2].partition("\n\n")[0]
    named = re.findall(r"(?m)^\| (`.*?`) \|", table)
    assert set(", ".join(named).replace("`", "").split(", ")) == {*project["optional-dependencies"]}


def test_versions_of_keras_with_known_vulnerabilities_are_not_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = {r.name: r.specifier for r in map(Requirement, project["dependencies"])}
    assert "3.15.0" not in requirements["keras"] and "3.15.1" in requirements["keras"]
