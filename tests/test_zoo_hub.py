"""Networks from the Hub, over real HTTP against the server of `hub_server`."""

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from helpers import assert_rounded
from hub_server import TOKEN, Fault, HubServer, connected
from processes import Command
from zoo_tools import predict, write_tiny

from gdn_keras import zoo
from gdn_keras.__main__ import main
from gdn_keras.zoo import registry

REPO = "owner/net"
TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("zoo"), "net")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    from huggingface_hub import constants

    with connected(monkeypatch, tmp_path / "cache") as server:
        monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 2)
        yield server


@pytest.fixture
def commit(hub, folder):
    files = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    return hub.commit(REPO, {**files, "model.py": b"raise SystemExit", "model.onnx": b"1"})


@pytest.fixture
def registered(folder, commit, monkeypatch, tmp_path):
    """A machine that knows `net` from its registry only, as an installed wheel does."""
    root = tmp_path / "registry"
    root.mkdir()
    known = dataclasses.replace(zoo.info(folder.path), hub_repo=REPO, hub_revision=commit)
    (root / "registry.json").write_text(registry.registry_text({"net": known}))
    monkeypatch.setenv("GDN_KERAS_ZOO", str(root))
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "gdn_keras")
    return known


def leftovers(cache) -> list[str]:
    """Files of the cache that are neither blobs of whole files nor the cache's own records."""
    return [p.name for p in Path(cache).rglob("*") if p.name.endswith((".incomplete", ".tmp"))]


# === The protocol ===


@pytest.mark.heavy
def test_upload_then_load_in_two_fresh_processes_at_once(folder, tmp_path):
    """Create, commit, download: only the environment says where the Hub is."""
    code = """
        import json, sys
        import numpy as np
        from gdn_keras import zoo
        from gdn_keras.datasets import load_samples
        images = load_samples("fashion_mnist").images[:4].astype("float32")
        model = zoo.load("hf://owner/net")
        again = zoo.load("hf://owner/net", offline=True)
        np.testing.assert_array_equal(model(images), again(images))
        print(json.dumps(np.asarray(model(images)).tolist()))
    """
    with HubServer() as hub:
        from huggingface_hub import HfApi

        api = HfApi(endpoint=hub.url, token=TOKEN)
        api.create_repo(REPO)
        commit = api.create_commit(REPO, _operations(folder), commit_message="first").oid
        assert set(zoo.FILES) <= set(hub.repositories[REPO].commits[commit])
        oid = folder.metrics.weights_sha256
        hub.faults = [Fault(oid, pause=0.02, times=2)]  # slow, so that both are at it
        environment = {**os.environ, **hub.environment(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}
        both = [Command(["-c", textwrap.dedent(code)], env=environment) for _ in range(2)]
        outputs = [process.communicate(timeout=300)[0] for process in both]
        assert [process.returncode for process in both] == [0, 0]
    from gdn_keras.datasets import load_samples

    expected = predict(zoo.load(folder.path), load_samples("fashion_mnist").images[:4])
    for output in outputs:
        assert_rounded(json.loads(output.splitlines()[-1]), expected)
    assert leftovers(tmp_path) == []


def _operations(folder):
    from huggingface_hub import CommitOperationAdd

    # open files go through LFS over HTTP whether or not the Xet client is installed
    return [
        CommitOperationAdd(path_in_repo=path.name, path_or_fileobj=path.open("rb"))
        for path in sorted(folder.path.iterdir())
    ]


def test_a_name_comes_from_the_pinned_commit(hub, registered, commit, folder):
    hub.commit(REPO, {"config.json": b"changed later"})
    model = zoo.load("net")
    assert model.config == folder.config
    asked = [request for request in hub.requests if "/resolve/" in request]
    assert asked and all(f"/resolve/{commit}/" in request for request in asked)
    assert {request.rsplit("/", 1)[1] for request in asked} == set(zoo.FILES)  # and no more
    hub.requests.clear()
    zoo.load("net")
    zoo.load("net", offline=True)
    assert hub.requests == []
    assert zoo.list_models() == ["net"] and "owner/net at" in str(zoo.info("net"))


def test_revisions(hub, registered, commit, folder):
    hub.commit(REPO, {"README.md": b"# on a branch"}, branch="other")
    hub.commit(REPO, {p.name: p.read_bytes() for p in folder.path.iterdir()}, branch="other")
    for arguments in (
        dict(name="net", revision="other"),
        dict(name="hf://owner/net@other"),
        dict(name=f"hf://owner/net@{commit}"),
        dict(name="hf://owner/net", revision=commit),
    ):
        assert zoo.load(**arguments).config == folder.config
    assert any("/resolve/other/" in request for request in hub.requests)


def test_info_from_the_hub(hub, commit, folder):
    info = zoo.info("hf://owner/net")
    assert (info.name, info.hub_repo, info.hub_revision) == ("net", REPO, commit)
    assert info.weights_sha256 == folder.metrics.weights_sha256


@pytest.mark.parametrize(
    "name, message",
    [
        ("hf://owner/nothing", "no repository owner/nothing .*private"),
        ("hf://owner/net@v9", "owner/net .*no revision 'v9'"),
        ("hf://owner/half", "owner/half .*no file model.weights.h5 at main"),
    ],
)
def test_what_the_hub_does_not_have(hub, commit, name, message):
    hub.commit("owner/half", {"config.json": b"{}"})
    with pytest.raises(ConnectionError, match=message):
        zoo.load(name)


def test_private_repositories_need_a_token(hub, commit, monkeypatch, tmp_path):
    hub.repositories[REPO].private = True
    assert zoo.load("hf://owner/net")
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(ConnectionError, match="owner/net .*private.*HF_TOKEN"):
        zoo.load("hf://owner/net", cache_dir=tmp_path / "other")


def test_offline_never_asks_and_says_how_to_fetch(hub, registered):
    for name in ("net", "hf://owner/net"):
        with pytest.raises(FileNotFoundError) as error:
            zoo.load(name, offline=True)
        for part in (name, "model.weights.h5", f"python -m gdn_keras download {name}"):
            assert part in str(error.value)
    assert hub.requests == []


def test_the_command_in_the_error_fetches_what_is_missing(hub, registered, commit, tmp_path):
    later = hub.commit(REPO, {"README.md": b"# later"})
    for n, (name, revision) in enumerate(
        [
            ("net", None),
            ("net", later),
            ("hf://owner/net", commit),
            (f"hf://owner/net@{later}", None),
        ]
    ):
        where = dict(revision=revision, cache_dir=tmp_path / f"with blanks {n}")
        partly = revision is None and name != "net"
        if partly:
            zoo.info(name, **where)
        with pytest.raises(FileNotFoundError) as error:
            zoo.load(name, offline=True, **where)
        missing = "model.weights.h5" if partly else ", ".join(zoo.FILES)
        assert f"missing {missing} of owner/net at" in str(error.value)
        python, m, package, *arguments = shlex.split(str(error.value).partition("missing: ")[2])
        assert (python, m, package) == ("python", "-m", "gdn_keras")
        assert main(arguments) == 0
        assert zoo.load(name, offline=True, **where)


@pytest.mark.parametrize("command", ["info", "predict", "evaluate"])
def test_offline_commands_never_ask(hub, commit, capsys, command):
    image = ["photo.png"] if command == "predict" else []
    assert main([command, "hf://owner/net", *image, "--offline"]) == 1
    assert "python -m gdn_keras download hf://owner/net" in capsys.readouterr().err
    assert hub.requests == []


def test_offline_commands_use_what_was_downloaded(hub, commit, capsys):
    assert main(["download", "hf://owner/net"]) == 0
    hub.requests.clear()
    assert main(["info", "hf://owner/net", "--offline"]) == 0
    assert "net\n===" in capsys.readouterr().out and hub.requests == []


def test_without_weights_none_are_downloaded(hub, registered, commit, folder):
    for arguments in (
        dict(name="hf://owner/net"),
        dict(name="net", revision=commit),
        dict(name="net"),
    ):
        assert zoo.load(**arguments, weights=False).config == folder.config
        known = zoo.info(**arguments)
        assert (known.name, known.hub_repo, known.hub_revision) == ("net", REPO, commit)
    asked = {r.rsplit("/", 1)[1] for r in hub.requests if "/resolve/" in r}
    assert asked == set(zoo.FILES) - {"model.weights.h5"}


def test_the_environment_can_say_offline(hub, registered, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    again = "HF_HUB_OFFLINE=0 python -m gdn_keras download net"
    with pytest.raises(FileNotFoundError, match=f"net .*: {again}"):
        zoo.load("net")
    assert hub.requests == []


def test_a_known_network_that_is_nowhere(hub, registered, monkeypatch, tmp_path):
    path = tmp_path / "registry" / "registry.json"
    lost = dataclasses.replace(registered, hub_repo=None, hub_revision=None)
    path.write_text(registry.registry_text({"net": lost}))
    assert zoo.list_models() == []
    with pytest.raises(FileNotFoundError, match="net .*Hub") as e:
        zoo.load("net")
    for step in ("zoo/net", "`git clone`", "GDN_KERAS_ZOO", "`python -m training run net`"):
        assert step in str(e.value)


# === Trouble on the way ===


def test_a_cut_off_download_is_resumed(hub, commit, folder):
    hub.faults = [Fault(folder.metrics.weights_sha256, cut_after=1000, times=2)]
    assert zoo.load("hf://owner/net").config == folder.config
    assert sum("/cdn/" in request for request in hub.requests) == 3


def test_a_download_that_never_ends_well(hub, commit, folder, tmp_path):
    hub.faults = [Fault(folder.metrics.weights_sha256, cut_after=0, times=100)]
    with pytest.raises(ConnectionError, match="model.weights.h5 of owner/net"):
        zoo.load("hf://owner/net")
    assert leftovers(tmp_path) == []
    with pytest.raises(FileNotFoundError, match="model.weights.h5"):
        zoo.load("hf://owner/net", offline=True)
    hub.faults = []
    assert zoo.load("hf://owner/net").config == folder.config


def test_a_slow_hub(hub, commit, folder):
    oid = folder.metrics.weights_sha256
    hub.faults = [Fault("config.json", method="HEAD", delay=1.0), Fault(oid, pause=0.02)]
    assert zoo.load("hf://owner/net").config == folder.config


def test_a_hub_in_trouble(hub, commit, folder):
    hub.faults = [Fault("config.json", method="HEAD", status=503, times=2)]
    assert zoo.load("hf://owner/net").config == folder.config
    assert hub.requests.count("HEAD /owner/net/resolve/main/config.json") == 3


def test_other_weights_than_registered_are_refused(hub, registered, commit, folder, tmp_path):
    """Somebody rewrote the repository under the same commit name: the registry knows better."""
    other = write_tiny(tmp_path / "forged", "net", seed=3)
    tree = hub.repositories[REPO].commits[commit]
    tree["model.weights.h5"] = other.weights_file.read_bytes()
    tree["metrics.json"] = (other.path / "metrics.json").read_bytes()
    hub.objects[other.metrics.weights_sha256] = tree["model.weights.h5"]
    with pytest.raises(ValueError, match="net of the registry.*weights"):
        zoo.load("net")


def test_a_damaged_cache_is_noticed_and_can_be_mended(hub, registered, folder, monkeypatch):
    path = zoo.download("net") / "model.weights.h5"
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.resolve().write_bytes(content)
    with pytest.raises(ValueError, match="model.weights.h5 .*published"):
        zoo.load("net")
    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(ValueError, match="`force` .*net"):
            zoo.download("net", force=True)
    assert zoo.download("net", force=True) == path.parent
    assert zoo.load("net", offline=True).config == folder.config


# A process that uses only gdn_keras/zoo/hub_download.py: it needs no Keras, so it starts at once.
_PROCESS = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("hub", {hub!r})
hub = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hub)
import huggingface_hub, huggingface_hub.utils, httpx2, encodings.idna, resource
FILES = {files!r}
def fetch(revision=None):
    return hub.fetch("owner/net", revision=revision, files=FILES)
"""


def start(hub, home, code, **arguments):
    files = ["config.json", "model.weights.h5"]
    text = _PROCESS.format(
        hub=str(TESTS.parent / "gdn_keras" / "zoo" / "hub_download.py"), files=files
    )
    command = [sys.executable, "-c", text + textwrap.dedent(code)]
    environment = {**os.environ, **hub.environment(home)}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=environment, stdout=pipe, stderr=pipe, text=True, **arguments
    )


def test_a_killed_download_leaves_nothing_that_is_loaded(hub, commit, folder, tmp_path):
    oid = folder.metrics.weights_sha256
    hub.faults = [Fault(oid, pause=0.5, times=1)]
    process = start(hub, tmp_path, "fetch()")
    while f"GET /cdn/{oid}" not in hub.requests:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    time.sleep(0.7)  # in the middle of the file
    process.send_signal(signal.SIGKILL)
    process.communicate()
    cache = tmp_path / "hub"
    with pytest.raises(FileNotFoundError, match="model.weights.h5"):
        zoo.load("hf://owner/net", offline=True, cache_dir=cache)
    assert zoo.load("hf://owner/net", cache_dir=cache).config == folder.config


def test_a_full_disk(hub, commit, folder, tmp_path):
    """The file system takes no file of more than 20 kB; the weights have more."""
    code = """
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            fetch()
        except OSError as error:
            print(error)
    """
    output, errors = start(hub, tmp_path, code).communicate(timeout=60)
    assert "model.weights.h5 of owner/net at main" in output, errors
    assert "File too large" in output and "cache_dir" in output
    assert leftovers(tmp_path) == []
    assert zoo.load("hf://owner/net", cache_dir=tmp_path / "hub").config == folder.config


def test_a_read_only_cache(hub, commit, folder, tmp_path):
    """What is in it is used; what is not is refused with a reason."""
    later = hub.commit(REPO, {"config.json": b"{}"})
    code = f"""
        path = fetch({commit!r})
        for place, folders, files in list(os.walk({str(tmp_path)!r})):
            for name in (".", *folders):
                os.chmod(os.path.join(place, name), 0o555)
        os.chmod({str(tmp_path)!r}, 0o555)
        if os.geteuid() == 0:  # nobody is allowed less
            os.setgid(65534)
            os.setuid(65534)
        assert hub.cached("owner/net", revision={commit!r}, files=FILES) == path
        assert fetch({commit!r}) == path
        try:
            fetch({later!r})
        except OSError as error:
            print(error)
    """
    for parent in (tmp_path, *tmp_path.parents):  # pytest's folders are the user's own
        if parent.owner() == tmp_path.owner() and parent != Path(parent.anchor):
            parent.chmod(parent.stat().st_mode | 0o555)
        if parent.name.startswith("pytest-of"):
            break
    output, errors = start(hub, tmp_path, code).communicate(timeout=60)
    for place, _, _ in os.walk(tmp_path):
        os.chmod(place, 0o755)
    assert "config.json of owner/net" in output, errors
    assert "Permission denied" in output
    assert leftovers(tmp_path) == []


def test_a_cache_that_cannot_be_a_folder(hub, commit, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="config.json of owner/net at main"):
        zoo.load("hf://owner/net", cache_dir=tmp_path / "file")
