"""Upload to the Hub, over real HTTP against the server of `hub_server`, and back again."""

import json
import re
import signal
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import processes
import pytest
from export_tools import export, make_clone, process_environment, sample_data_folder, set_metrics
from helpers import assert_rounded
from hub_server import Fault, HubServer, Repository, connected
from zoo_tools import predict, write_tiny

from export.__main__ import main
from export.hub import upload
from export.hub.card import CURVE, hub_card
from gdn_keras import zoo
from gdn_keras.datasets import load_samples
from gdn_keras.utils import cpu
from gdn_keras.zoo import registry

REPO = "owner/net"
DATASET = "rescaled_fashion_mnist"
CARD = """# net

A network.

## Accuracy
As measured.
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    clone = make_clone(tmp_path_factory.mktemp("hub") / "clone")
    folder = write_tiny(clone / "zoo", "net", dataset=DATASET, scale_dropout=0.3)
    folder = set_metrics(folder, num_test_images=100)
    (folder.path / zoo.CARD_FILE).write_text(CARD)
    return clone


@pytest.fixture(scope="module")
def folder(clone):
    return zoo.read_folder(clone / "zoo" / "net")


@pytest.fixture(scope="module")
def built(folder, tmp_path_factory):
    """What is uploaded, without int8."""
    path = tmp_path_factory.mktemp("built") / "hub"
    return upload.build(folder, path, repo=REPO, exports=path.parent)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    from huggingface_hub import constants

    with connected(monkeypatch, tmp_path / "cache") as server:
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        yield server


# === From beginning to end, as users type it ===


@pytest.fixture(scope="module")
def uploaded(clone, folder, tmp_path_factory):
    """A network with its int8 file, sent three times: killed, to the end, and once more."""
    path = tmp_path_factory.mktemp("uploaded")
    data = sample_data_folder(path / "data")
    # accuracies of a network that has learned nothing: int8 cannot lose any
    set_metrics(folder, accuracy=dict.fromkeys(folder.metrics.accuracy, 0.0), mean_accuracy=0.0)
    done = export(clone, "onnx", "net", "--quantise", "int8", GDN_KERAS_DATA=str(data))
    assert done.returncode == 0, done.stderr
    images = load_samples(DATASET, size_factor=2).images[:6]
    np.save(path / "images.npy", images)
    with HubServer() as hub:
        environment = hub.environment(path / "home")
        command = ["hub", "net", "--repo", REPO]
        killed_while_uploading(hub, clone, command, environment, folder.metrics.weights_sha256)
        after_kill = set(tip(hub))
        done = export(clone, *command, **environment)
        assert done.returncode == 0, done.stderr
        commits = [hub.repositories[REPO].branches["main"]]
        counts = [len(hub.repositories[REPO].commits)]
        again = export(clone, *command, **environment)
        assert again.returncode == 0, again.stderr
        yield SimpleNamespace(
            path=path,
            hub=hub,
            environment=environment,
            after_kill=after_kill,
            printed=done.stdout,
            commits=[*commits, hub.repositories[REPO].branches["main"]],
            counts=[*counts, len(hub.repositories[REPO].commits)],
            logits=predict(zoo.load(folder.path), images),
        )


@pytest.mark.heavy
def test_a_killed_upload_leaves_an_empty_repository(uploaded):
    assert uploaded.after_kill == {".gitattributes"}


@pytest.mark.heavy
def test_all_files_come_in_one_commit_that_is_printed(uploaded):
    assert uploaded.counts[0] == 2  # the first one has .gitattributes
    assert f"{REPO} at {uploaded.commits[0]}" in uploaded.printed
    files = {*zoo.FILES, CURVE, ".gitattributes", "metadata.json", "model.onnx"}
    assert set(tip(uploaded.hub)) == files | {"model.int8.onnx", "model.int8.json"}


@pytest.mark.heavy
def test_the_same_network_makes_no_second_commit(uploaded):
    assert uploaded.commits[0] == uploaded.commits[1]
    assert uploaded.counts[0] == uploaded.counts[1]


@pytest.mark.heavy
def test_the_registry_has_repository_and_commit(uploaded, clone):
    info = registry.read_registry(clone / "zoo")["net"]
    assert (info.hub_repo, info.hub_revision) == (REPO, uploaded.commits[0])


@pytest.mark.heavy
def test_a_network_that_only_the_registry_knows_is_loaded_from_the_hub(uploaded, clone, folder):
    folder.path.rename(clone / "aside")
    try:
        assert_rounded(logits_of('gdn_keras.zoo.load("net")', clone, uploaded), uploaded.logits)
    finally:
        (clone / "aside").rename(folder.path)
    assert any(f"/resolve/{uploaded.commits[0]}/" in request for request in uploaded.hub.requests)


@pytest.mark.heavy
def test_keras_loads_the_network_from_the_hub(uploaded, clone):
    load = f'keras.saving.load_model("hf://{REPO}")'
    assert_rounded(logits_of(load, clone, uploaded), uploaded.logits)


@pytest.mark.heavy
def test_the_snippets_of_the_card_run(uploaded, clone):
    run_snippets(tip(uploaded.hub)["README.md"].decode(), clone, uploaded.environment)


@pytest.mark.heavy
def test_the_card_names_the_cpu_that_int8_was_measured_on(uploaded):
    assert cpu.text(cpu.describe()) in tip(uploaded.hub)["README.md"].decode()


def killed_while_uploading(hub, clone, command, environment, oid):
    hub.faults = [Fault(f"/lfs/{oid}", method="PUT", delay=60)]
    env = process_environment(**environment)
    process = processes.Command(["-m", "export", *command], cwd=clone, env=env)
    while f"PUT /lfs/{oid}" not in hub.requests:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def logits_of(load, clone, uploaded):
    code = f"""
        import gdn_keras, keras
        import numpy as np
        images = np.load({str(uploaded.path / "images.npy")!r}).astype("float32")
        np.save({str(uploaded.path / "logits.npy")!r}, {load}(images))
    """
    run_python(textwrap.dedent(code), clone, uploaded.environment)
    return np.load(uploaded.path / "logits.npy")


def run_python(code, clone, environment):
    done = processes.run("-c", code, cwd=clone, env=process_environment(**environment))
    assert done.returncode == 0, done.stderr
    return done.stdout


def snippets(card):
    """The card's own examples: two for Keras, ONNX, fine-tuning."""
    blocks = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert len(blocks) == 4
    return blocks


def run_snippets(card, clone, environment):
    """All of them in one process; only the user's images are added."""
    blocks = snippets(card)
    user = "import numpy as np\nimages, labels = np.zeros((4, 72, 72, 1)), np.arange(4) % 2\n"
    output = run_python(user + "\n".join(blocks), clone, environment)
    names = load_samples(DATASET).class_names
    assert any(name in output for name in names)


def tip(hub) -> dict[str, bytes]:
    repository = hub.repositories[REPO]
    return repository.commits[repository.branches["main"]]


# === What is uploaded ===


def test_dry_run_sends_nothing_and_needs_no_token(folder, hub, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    target = tmp_path / "folder"
    command = ["hub", str(folder.path), "--repo", REPO, "--dry-run", "-o", str(target)]
    assert main([*command, "--private"]) == 0
    output = capsys.readouterr().out
    assert re.search("private .*owner/net", output)
    assert "nothing was sent" in output and "no int8 file" in output
    for file in target.iterdir():
        assert f"{file.stat().st_size:,}  {file.name}" in output
    assert hub.requests == []


def test_a_network_without_class_names(hub, tmp_path, capsys):
    folder = write_tiny(tmp_path, "net", class_names=())
    target = tmp_path / "hub"
    command = ["hub", str(folder.path), "--repo", REPO, "--dry-run", "-o", str(target)]
    assert main(command) == 0
    hub.commit(REPO, {"model.onnx": (target / "model.onnx").read_bytes()})
    capsys.readouterr()
    exec(snippets((target / "README.md").read_text())[2], {})
    black = np.zeros((1, *folder.config.input_size, 1))
    best = predict(zoo.load(folder.path), black)[0].argmax()
    assert capsys.readouterr().out == f"{best}\n"


def test_the_card_says_what_the_hub_understands(built, folder):
    from huggingface_hub import ModelCard

    data = ModelCard.load(built / "README.md").data
    assert data.library_name == "keras" and data.pipeline_tag == "image-classification"
    assert data.license == "apache-2.0"
    assert data.datasets == ["zalando-datasets/fashion_mnist"]
    assert {"gdn-keras", DATASET} <= set(data.tags)
    found = {result.dataset_config: result.metric_value for result in data.eval_results}
    accuracy = zoo.info(folder.path).accuracy
    assert found == {f"size_factor_{size}": value for size, value in accuracy.items()}
    assert all(result.task_type == "image-classification" for result in data.eval_results)


def test_the_card_has_figure_citation_and_sections_once_and_in_order(built):
    text = (built / "README.md").read_text()
    for part in (f"![accuracy per size]({CURVE})", "@article{perzanowski2025scale", "## Accuracy"):
        assert text.count(part) == 1
    assert text.index("# net") < text.index("## Use") < text.index("## Accuracy")


@pytest.mark.parametrize("sigmas, holds", [((1.0,), False), ((0.7, 1.4), True)])
def test_the_card_promises_other_sizes_only_with_several_channels(tmp_path, sigmas, holds):
    folder = write_tiny(tmp_path, "net", channel_sigmas=sigmas)
    card = hub_card(folder, zoo.info(folder.path), repo=REPO, deviation=0.0)
    assert ("holds at the others" in card) == holds
    assert ("one scale channel" in card and "at_scale(model, 2.0)" in card) != holds


def test_weights_are_there_once_and_the_same_network_gives_the_same_files(built, folder, tmp_path):
    again = upload.build(folder, tmp_path / "hub", repo=REPO, exports=tmp_path)
    content = {path.name: path.read_bytes() for path in built.iterdir()}
    assert {path.name: path.read_bytes() for path in again.iterdir()} == content
    assert content["model.weights.h5"] == folder.weights_file.read_bytes()
    assert zoo.read_folder(built).config == folder.config


@pytest.mark.parametrize("config", [{"config": 3}, 3, None])
def test_a_damaged_keras_config_is_refused(built, tmp_path, config):
    for path in built.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    data = json.loads((built / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**data, "config": config}))
    with pytest.raises(ValueError, match=r"config\.json: .*config must be an object"):
        zoo.read_folder(tmp_path)


def test_a_downloaded_folder_is_refused(built, tmp_path):
    with pytest.raises(ValueError, match="downloaded.*zoo/"):
        upload.build(zoo.read_folder(built), tmp_path / "x", repo=REPO, exports=tmp_path)
    assert not (tmp_path / "x").exists()


def test_a_missing_curve_is_refused(tmp_path):
    bare = write_tiny(tmp_path, "net", dataset=DATASET)
    (bare.path / CURVE).unlink()
    with pytest.raises(ValueError, match=r"no accuracy\.png"):
        upload.build(bare, tmp_path / "x", repo=REPO, exports=tmp_path)
    assert not (tmp_path / "x").exists()


# === Trouble ===


def test_updates_remove_what_no_longer_belongs(hub, built, folder):
    first = upload.upload(built, folder=folder, repo=REPO)
    hub.commit(REPO, {"model.int8.onnx": b"of older weights", "LICENSE": b"the owner's"})
    second = upload.upload(built, folder=folder, repo=REPO)
    assert second != first
    assert "model.int8.onnx" not in tip(hub) and tip(hub)["LICENSE"] == b"the owner's"


def test_the_registry_is_left_alone_for_a_folder_elsewhere(hub, folder, tmp_path, capsys):
    other = write_tiny(tmp_path, "net")
    command = ["hub", str(other.path), "--repo", REPO, "-o", str(tmp_path / "hub")]
    assert main(command) == 0
    assert "not recorded" in capsys.readouterr().out


def test_private(hub, built, folder):
    upload.upload(built, folder=folder, repo=REPO, private=True)
    assert hub.repositories[REPO].private
    hub.repositories["owner/open"] = Repository()
    hub.commit("owner/open", {".gitattributes": b""})
    with pytest.raises(ValueError, match="owner/open .*public"):
        upload.upload(built, folder=folder, repo="owner/open", private=True)


@pytest.mark.parametrize(
    "files, message",
    [
        ({"model.bin": b"1"}, "owner/net .*something else, not 'net'"),
        ({"recipe.json": b'{"name": "cifar_avg_2jet"}'}, "owner/net .*'cifar_avg_2jet', not 'net'"),
        ({"recipe.json": b"[]"}, "owner/net .*something else, not 'net'"),
    ],
)
def test_another_network_is_not_overwritten(hub, built, folder, files, message):
    commit = hub.commit(REPO, files)
    with pytest.raises(FileExistsError, match=message):
        upload.upload(built, folder=folder, repo=REPO)
    assert hub.repositories[REPO].branches["main"] == commit


def test_a_wrong_token_is_rejected(hub, built, folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(PermissionError, match="owner/net .401: .*'owner"):
        upload.upload(built, folder=folder, repo=REPO)
    assert hub.repositories == {}


def test_without_a_token_nothing_is_asked(hub, folder, monkeypatch, capsys):
    monkeypatch.delenv("HF_TOKEN")
    assert main(["hub", str(folder.path), "--repo", REPO]) == 1
    assert re.search("no token.*HF_TOKEN", capsys.readouterr().err)
    assert hub.requests == [] and hub.repositories == {}


def test_no_network(hub, built, folder, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(ConnectionError, match=r"owner/net .*http://127\.0\.0\.1:9"):
        upload.upload(built, folder=folder, repo=REPO)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("/preupload/main", method="POST", status=400),
        Fault("/info/lfs/objects/batch", method="POST", status=400),
        Fault("/commit/main", method="POST", status=412),
        Fault("/commit/main", method="POST", status=500, times=100),
    ],
    ids=lambda fault: f"{fault.path} {fault.status}",
)
def test_a_failed_upload_publishes_nothing_and_can_be_repeated(hub, built, folder, fault):
    hub.faults = [fault]
    with pytest.raises(ConnectionError, match="Nothing was published.*same command"):
        upload.upload(built, folder=folder, repo=REPO)
    assert set(tip(hub)) <= {".gitattributes"}
    hub.faults.clear()
    commit = upload.upload(built, folder=folder, repo=REPO)
    assert hub.repositories[REPO].branches["main"] == commit
    sent = [request for request in hub.requests if request.startswith("PUT /lfs/")]
    assert len(sent) == len(set(sent))  # large files went once


def test_a_large_file_that_is_refused_is_named(hub, built, folder):
    hub.faults = [Fault(f"/lfs/{folder.metrics.weights_sha256}", method="PUT", status=400)]
    with pytest.raises(ConnectionError, match="model.weights.h5.*Nothing was published"):
        upload.upload(built, folder=folder, repo=REPO)
    assert upload.upload(built, folder=folder, repo=REPO)


def test_an_answer_that_is_lost(hub, built, folder):
    """The commit was made but nobody heard of it: the next try finds that all is there."""
    hub.faults = [Fault("/commit/main", method="POST", cut_after=10)]
    with pytest.raises(ConnectionError) as failure:
        upload.upload(built, folder=folder, repo=REPO)
    made = hub.repositories[REPO].branches["main"]
    text = str(failure.value)
    assert REPO in text and made in text and "same command" in text
    assert "Nothing was published" not in text
    assert upload.upload(built, folder=folder, repo=REPO) == made


def test_a_hub_that_falls_silent(hub, built, folder):
    lost = Fault("/commit/main", method="POST", cut_after=10)
    silent = Fault(f"/api/models/{REPO}", times=100, status=500)
    take = hub.take_fault

    def take_fault(method, path):
        if lost.times == 0:  # the commit is made: from now on, nothing is to be learned
            hub.faults = [silent]
        return take(method, path)

    hub.faults, hub.take_fault = [lost], take_fault
    with pytest.raises(ConnectionError, match="unknown whether it was published"):
        upload.upload(built, folder=folder, repo=REPO)
    assert "README.md" in tip(hub)


def test_a_commit_that_cannot_be_loaded_back(hub, clone, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(registry, "checkout", lambda: clone)
    command = ["hub", str(folder.path), "--repo", REPO, "-o", str(tmp_path / "hub")]
    hub.faults = [Fault("/config.json", method="HEAD", status=403, times=100)]
    known = (clone / "zoo" / "registry.json").exists()
    assert main(command) == 1
    made = hub.repositories[REPO].branches["main"]
    error = capsys.readouterr().err
    assert re.search(f"error: {REPO}: published as {made}, .*ConnectionError: .*config.json", error)
    assert (clone / "zoo" / "registry.json").exists() == known
    hub.faults.clear()
    assert main(command) == 0
    assert hub.repositories[REPO].branches["main"] == made
    assert registry.read_registry(clone / "zoo")["net"].hub_revision == made


@pytest.mark.parametrize("repo", ["net", "a/b/c", "owner/", "hf://owner/net"])
def test_bad_repository_names(folder, repo, capsys):
    assert main(["hub", str(folder.path), "--repo", repo, "--dry-run"]) == 1
    assert re.search(f"`repo` .*OWNER/NAME.*repo='{repo}'", capsys.readouterr().err)
