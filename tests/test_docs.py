"""The pages of docs/: snippets run, links lead somewhere, and what they say of the zoo is true."""

import re
import shlex

import h5py
import numpy as np
import pytest
from dataset_files import photograph_signs, small_data_folder, write_boxes
from test_datasets_stir import stir_contents

from export.__main__ import _parser as export_parser
from gdn_keras.__main__ import _parser as parser
from gdn_keras.datasets import load_samples, raw, sets
from gdn_keras.datasets.__main__ import main as datasets
from gdn_keras.zoo import registry
from gdn_keras.zoo.registry import read_registry
from training.recipes import RECIPES

ROOT = registry.checkout()
PAGES = (
    "datasets.md",
    "export.md",
    "features.md",
    "networks.md",
    "numbers.md",
    "own_data.md",
    "page.md",
    "train_everything.md",
    "training.md",
    "zoo.md",
)


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def snippets(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), re.DOTALL)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with small files in the formats of the data sets."""
    folder, _ = small_data_folder(tmp_path / "data", monkeypatch)
    monkeypatch.setenv(raw.ENVIRONMENT_VARIABLE, str(folder))
    monkeypatch.chdir(tmp_path)
    np.savez("my_signs.npz", **stir_contents())
    with h5py.File("fashion_te10000_outsize72-72_scte2p000.h5", "w") as file:
        file["x_test"], file["y_test"] = np.zeros((5, 72, 72), np.uint8), np.arange(5)
    (tmp_path / "photographs").mkdir()
    write_boxes(*photograph_signs(tmp_path / "photographs"))


@pytest.mark.heavy
def test_snippets_about_data(workplace):
    names = {}
    exec(compile("\n".join(snippets("datasets.md", "python")), "datasets.md", "exec"), names)
    assert names["samples"].images.shape == (100, 64, 64, 3)
    assert len(names["train"]) == 40 and names["test"].images.shape == (20, 72, 72, 1)
    assert set(names["signs"].object_sizes) == set(range(17, 33)) and len(names["theirs"]) == 5
    assert names["images"].shape == (20, 64, 64, 3) and names["images"].dtype == "float32"
    assert names["record"].name == "rescaled_cifar10"
    assert names["datasets"].get("noise") is names["noise"]
    del names["datasets"].sets._registered["noise"]
    assert len(names["in_order"]) == 1 and len(names["prepared"]) == 20


@pytest.mark.heavy
def test_commands_about_data(workplace, tmp_path, capsys):
    codes = {}
    (block,) = snippets("datasets.md", "sh")
    (tmp_path / "my_signs.npz").unlink()
    for line in block.splitlines():
        python, dash_m, package, *arguments = shlex.split(line)
        assert (python, dash_m, package) == ("python", "-m", "gdn_keras.datasets")
        codes[arguments[0]] = datasets(arguments)
    # the small files are not the original ones
    assert codes == {"show": 0, "prepare": 0, "make-stir": 0, "verify": 1}
    assert "fashion-mnist/t10k-images-idx3-ubyte.gz: different" in capsys.readouterr().out
    assert (tmp_path / "sheet.png").is_file() and (tmp_path / "my_signs.npz").is_file()


def test_snippets_about_own_images(monkeypatch, capsys):
    monkeypatch.setattr(sets, "_registered", {})
    names = {}
    exec("\n".join(snippets("own_data.md", "python")), names)
    printed = capsys.readouterr().out
    assert re.search("photos: 60 colour .*3 classes.*30x40 to 30x40 pixels", printed)
    assert len(names["train"]) == 48 and names["large"].images.shape == (12, 64, 64, 3)


def test_commands_about_own_images_exist():
    lines = re.findall(r"(?m)^gdn-keras .*$", text_of("own_data.md"))
    assert len(lines) >= 9
    for line in lines:
        program, command, *arguments = shlex.split(line)
        assert program == "gdn-keras"
        if command == "export":
            export_parser().parse_args(arguments)
        else:
            parser().parse_args([command, *arguments])


def test_snippets_about_export(tmp_path, monkeypatch):
    import onnxruntime

    monkeypatch.chdir(tmp_path)
    names = {}
    (own,) = [text for text in snippets("export.md", "python") if "to_onnx" in text]
    exec(own, names)
    session = onnxruntime.InferenceSession("mine.onnx")
    images = load_samples("rescaled_fashion_mnist").images[:3].astype("float32")
    (logits,) = session.run(None, {"image": images})
    np.testing.assert_allclose(logits, names["model"].predict(images, verbose=0), atol=1e-4)


def test_snippets_about_training():
    names = {}
    exec("\n".join(snippets("training.md", "python")), names)
    factor = names["model"].optimizer.sigma_learning_rate_factor
    assert factor == 0.1 and names["sigmas"].shape == (1, 3)


@pytest.mark.heavy
def test_snippets_about_features():
    names = {}
    exec("\n".join(snippets("features.md", "python")), names)
    assert names["embeddings"].shape == (8, 128) and names["per_scale"].shape == (8, 7, 128)
    np.testing.assert_allclose(names["per_scale"].mean(axis=1), names["embeddings"], atol=1e-4)
    assert names["classifier"](names["images"]).shape == (8, 3)
    assert names["heat"].shape == (2, 72, 72, 10)


def test_every_page_is_in_the_navigation_of_the_site():
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert pages == set(re.findall(r"docs/\w+\.md", navigation))


def test_every_part_of_a_name_is_explained():
    legend = text_of("networks.md").partition("| in the name |")[2].partition("<!--")[0]
    words = sorted(re.findall(r"`([\w-]+)`", legend), key=len, reverse=True)
    for name in RECIPES:
        assert re.fullmatch(f"({'|'.join(words)}|_)+", name), name


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(page)):
        assert target.startswith("https://") or (ROOT / "docs" / target).exists(), target


def test_the_page_says_whether_there_are_networks_on_the_hub():
    pinned = [name for name, known in read_registry(ROOT / "zoo").items() if known.hub_repo]
    assert ("on the Hub yet" in text_of("zoo.md")) == (not pinned)
