"""The page as a Space on the Hub, over real HTTP against the server of `hub_server`."""

import re

import pytest
from hub_server import TOKEN, Fault, connected
from zoo_tools import write_tiny

from export.__main__ import main
from export.page import build as page_build
from export.page import space

REPO = "owner/live"
NAME = f"spaces/{REPO}"


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("zoo"), "net", dataset="rescaled_fashion_mnist").path


@pytest.fixture(autouse=True)
def no_runtime(monkeypatch):
    """onnxruntime-web is tested elsewhere."""

    def write_runtime(folder, *, webgpu):
        assert not webgpu
        folder.mkdir(parents=True)
        for name in ("ort.js", "ort.wasm", "LICENSE"):
            (folder / name).write_text(name)

    monkeypatch.setattr(page_build, "write_runtime", write_runtime)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    from huggingface_hub import constants

    with connected(monkeypatch, tmp_path / "cache") as server:
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        yield server


@pytest.fixture
def command(network, tmp_path):
    return ["space", REPO, str(network), "-o", str(tmp_path / "page")]


def tip(hub):
    repository = hub.repositories[NAME]
    return repository.commits[repository.branches["main"]]


def test_a_dry_run_is_the_default_and_sends_nothing(hub, command, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main(command) == 0
    output = capsys.readouterr().out
    assert REPO in output and re.search("nothing was sent.*`--publish`", output)
    for name, file in space.files_of(tmp_path / "page").items():
        assert f"{file.stat().st_size:,}  {name}" in output
    assert hub.requests == []


def test_all_files_come_in_one_commit_that_is_printed(hub, command, tmp_path, capsys):
    assert main([*command, "--publish"]) == 0
    files = space.files_of(tmp_path / "page")
    assert {name: file.read_bytes() for name, file in files.items()} == {
        name: content for name, content in tip(hub).items() if name != ".gitattributes"
    }
    repository = hub.repositories[NAME]
    assert repository.sdk == "static" and not repository.private
    assert len(repository.commits) == 2  # the Hub's own, and ours
    assert f"{REPO} at {repository.branches['main']}" in capsys.readouterr().out


def test_updates_remove_what_no_longer_belongs_and_are_made_once(hub, command, tmp_path):
    assert main(command) == 0
    space.upload(tmp_path / "page", repo=REPO)
    hub.commit(NAME, {"models/old.onnx": b"of another page", "NOTES.md": b"the owner's"})
    commit = space.upload(tmp_path / "page", repo=REPO)
    assert "models/old.onnx" not in tip(hub) and tip(hub)["NOTES.md"] == b"the owner's"
    assert space.upload(tmp_path / "page", repo=REPO) == commit


def test_the_card_says_what_the_hub_must_know(hub, command, tmp_path):
    from huggingface_hub import SpaceCard

    assert main(command) == 0
    data = SpaceCard.load(tmp_path / "page" / "README.md").data
    assert (data.sdk, data.license, data.title) == ("static", "apache-2.0", space.TITLE)
    assert len(data.short_description) <= 60  # the Hub refuses longer ones


def test_private(hub, command):
    assert main([*command, "--publish", "--private"]) == 0
    assert hub.repositories[NAME].private


def test_another_space_is_not_overwritten(hub, command, capsys):
    commit = hub.commit(NAME, {"app.py": b"print()", "README.md": b""})
    assert main([*command, "--publish"]) == 1
    error = capsys.readouterr().err
    assert re.search(rf"{REPO} .*page\.json.*Received: \['app\.py'\]", error)
    assert hub.repositories[NAME].branches["main"] == commit


def test_a_failed_upload_publishes_nothing_and_can_be_repeated(hub, command, capsys):
    hub.faults = [Fault("/commit/main", method="POST", status=500, times=100)]
    assert main([*command, "--publish"]) == 1
    assert re.search("Nothing was published.*same command", capsys.readouterr().err)
    assert set(tip(hub)) == {".gitattributes"}
    hub.faults.clear()
    assert main([*command, "--publish"]) == 0
    assert "page.json" in tip(hub)


def test_what_arrived_is_looked_at(hub, command, capsys, monkeypatch):
    commit = hub.commit

    def change(name, files, **where):
        files = {k: b"other" if k == "page.js" else v for k, v in files.items()}
        return commit(name, files, **where)

    monkeypatch.setattr(hub, "commit", change)
    assert main([*command, "--publish"]) == 1
    assert re.search(r"Received .*\['page\.js'\]", capsys.readouterr().err)


def test_a_token_is_needed_before_the_work(hub, command, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main([*command, "--publish"]) == 1
    assert re.search("no token.*HF_TOKEN", capsys.readouterr().err)
    assert hub.requests == [] and not (tmp_path / "page").exists()


def test_a_wrong_token_is_rejected(hub, command, monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}, but wrong")
    assert main([*command, "--publish"]) == 1
    assert f"{REPO} (401" in capsys.readouterr().err
