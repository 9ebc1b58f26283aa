"""A network as a repository on the Hugging Face Hub, in one commit that the registry then names.

The repository is two things at once: a zoo folder, for `gdn_keras.zoo.load("hf://owner/repo")`,
and an unzipped Keras model, for `keras.saving.load_model("hf://owner/repo")`. Both want a
`config.json` and a `model.weights.h5`. The weights are the same file, to the byte; the config is
the one Keras writes, which has the zoo's inside, and `gdn_keras.zoo` looks there.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np

from gdn_keras import zoo
from gdn_keras.datasets import load_samples
from gdn_keras.zoo import registry, tables
from gdn_keras.zoo.hub_download import check_repo

from ..files import kept_if_good, write_onnx
from ..quantisation.quantise import INT8_FILE, REPORT_FILE, accepted_report
from .card import CURVE, hub_card

ONNX_FILE = "model.onnx"
KERAS_METADATA = "metadata.json"
# optional in an upload; if one is left out, an older file of that name is deleted
OPTIONAL = (INT8_FILE, REPORT_FILE, CURVE)
UNPUBLISHED = "Nothing was published."


def build(folder: zoo.Folder, path: Path, *, repo: str, exports: Path) -> Path:
    """Write all files of the repository to the folder `path`, or none.

    Args:
        repo: owner/name, for the card.
        exports: where the quantised network is, if it was accepted.
    """
    check_repo(repo)
    if folder.card.startswith("---"):
        raise ValueError(f"{folder.path} was downloaded from the Hub; give a folder of zoo/.")
    info = zoo.info(folder.path)
    if len(info.accuracy) > 1 and not (folder.path / CURVE).is_file():
        raise ValueError(f"{folder.path} has no {CURVE}, the curve that the model card shows.")
    model = zoo.load(folder.path)
    with kept_if_good(path, has=KERAS_METADATA) as new:
        new.mkdir()
        for source in sorted(folder.path.iterdir()):
            # the signature is of the folder's own config and card, not of those written here
            if source.name == zoo.SIGNATURE_FILE or source.name.startswith("."):
                continue
            if source.is_file():
                shutil.copyfile(source, new / source.name)
        (new / zoo.CONFIG_FILE).write_text(_keras_config(model), encoding="utf-8")
        # no date: the same network gives the same files, so that repeating changes nothing
        version = json.dumps({"keras_version": keras.__version__})
        (new / KERAS_METADATA).write_text(version, encoding="utf-8")
        deviation = write_onnx(model, new / ONNX_FILE, info=info)
        report = accepted_report(exports, info)
        if report is None:
            print(
                f"no int8 file: none in {exports} was accepted for these weights and made with the "
                "default options"
            )
        else:
            for name in (INT8_FILE, REPORT_FILE):
                shutil.copyfile(exports / name, new / name)
        card = hub_card(folder, info, repo=repo, deviation=deviation, int8=report)
        (new / zoo.CARD_FILE).write_text(card, encoding="utf-8")
        _check(new, model)
    return path


def _keras_config(model: keras.Model) -> str:
    data = keras.saving.serialize_keras_object(model)
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _check(path: Path, model: keras.Model) -> None:
    """Both readers must return the same network."""
    shape = (4, *model.config.input_size, model.config.input_channels)
    images = np.random.default_rng(0).uniform(0, 255, shape).astype("float32")
    expected = keras.ops.convert_to_numpy(model(images))
    for reader in (zoo.load, keras.saving.load_model):
        found = keras.ops.convert_to_numpy(reader(str(path))(images))
        if not np.allclose(found, expected, rtol=0, atol=1e-5):
            raise ValueError(f"The repository is wrong: {reader.__name__} gives different logits.")


def dry_run(folder: zoo.Folder, path: Path, *, repo: str, private: bool, exports: Path) -> None:
    """Write the folder and show what would be uploaded."""
    build(folder, path, repo=repo, exports=exports)
    kind = "private repository" if private else "repository"
    print(f"would be sent to the {kind} {repo} in one commit, from {path}:")
    for file in sorted(path.iterdir()):
        print(f"  {file.stat().st_size:>12,}  {file.name}")
    print("dry run: nothing was sent")


def publish(folder: zoo.Folder, path: Path, *, repo: str, private: bool, exports: Path) -> str:
    """Write the folder, upload it, and name the commit in the registry; returns the commit."""
    need_token()  # before the work is done
    build(folder, path, repo=repo, exports=exports)
    commit = upload(path, folder=folder, repo=repo, private=private)
    print(f"{repo} at {commit}")
    if record(folder, repo=repo, commit=commit):
        print(f"recorded in the registry; load it with gdn_keras.zoo.load({folder.path.name!r})")
    else:
        print(f"not recorded: {folder.path} is not in the zoo/ of this clone")
    return commit


def upload(path: Path, *, folder: zoo.Folder, repo: str, private: bool = False) -> str:
    """Commit the files in `path` to the Hub, load them back, and return the commit.

    An existing repository must contain the same network. Large files go first and the
    commit last, so an upload publishes all or nothing; files that have arrived are not sent again.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    check_repo(repo)
    need_token()
    api = HfApi()
    with clear_errors(repo):
        api.create_repo(repo, private=private or None, exist_ok=True)
        state = api.model_info(repo)
    there = {entry.rfilename for entry in state.siblings or []}
    if private and not state.private:
        raise ValueError(f"{repo} exists and is public; `private` was requested. Nothing was sent.")
    _check_content(repo, there, folder.recipe["name"], api)
    files = sorted(path.iterdir())
    operations = [CommitOperationAdd(path_in_repo=p.name, path_or_fileobj=p) for p in files]
    names = {file.name for file in files}
    operations += [
        CommitOperationDelete(path_in_repo=name) for name in OPTIONAL if name in there - names
    ]
    message = f"{folder.path.name}: weights {folder.metrics.weights_sha256[:12]}"
    with clear_errors(repo, after=lambda: outcome(api.model_info, repo, state.sha)):
        commit = api.create_commit(
            repo, operations, commit_message=message, parent_commit=state.sha
        ).oid
    try:
        _load_back(repo, commit, folder)
    except Exception as error:  # the commit is made, whatever went wrong
        raise OSError(
            f"{repo}: published as {commit}, but could not be loaded back; the registry was not "
            f"changed; run the same command again. {type(error).__name__}: {error}"
        ) from error
    return commit


def need_token() -> None:
    from huggingface_hub import get_token

    if get_token() is None:
        raise PermissionError(
            "There is no token for the Hub: set HF_TOKEN to one with write access, or log in with "
            "`hf auth login`. Nothing was sent."
        )


def _check_content(repo: str, there: set[str], name: str, api) -> None:
    """A repository with files must contain the network `name`."""
    if there <= {".gitattributes", zoo.CARD_FILE}:
        return
    found = None
    if zoo.RECIPE_FILE in there:
        with clear_errors(repo), tempfile.TemporaryDirectory() as cache:
            path = api.hf_hub_download(repo, zoo.RECIPE_FILE, cache_dir=cache)
            with contextlib.suppress(ValueError, AttributeError):
                found = json.loads(Path(path).read_text(encoding="utf-8")).get("name")
    if found != name:
        what = f"the network {found!r}" if found else "something else"
        raise FileExistsError(
            f"{repo} exists and contains {what}, not {name!r}. Choose another repository, or empty "
            "this one. Nothing was sent."
        )


def _load_back(repo: str, commit: str, folder: zoo.Folder) -> None:
    with tempfile.TemporaryDirectory() as cache:
        downloaded = zoo.load(f"hf://{repo}@{commit}", cache_dir=cache)
    golden = folder.metrics.golden
    images = load_samples(golden.sample_set).images[list(golden.indices)].astype("float32")
    found, expected = (
        keras.ops.convert_to_numpy(model(images)) for model in (downloaded, zoo.load(folder.path))
    )
    if not np.allclose(found, expected, rtol=0, atol=1e-5):
        raise ValueError(f"{repo} at {commit} gives different logits than {folder.path}.")


def record(folder: zoo.Folder, *, repo: str, commit: str) -> bool:
    """Name the commit in the registry, if `folder` is in the clone; returns whether it is."""
    root = registry.checkout()
    if root is None or folder.path.resolve().parent != (root / "zoo").resolve():
        return False
    tables.update(root, pins={folder.path.name: (repo, commit)})
    return True


def outcome(look: Callable, repo: str, before: str) -> str:
    """The state after a failed commit: the Hub may have made it although its response was lost.

    Args:
        look: method of the client that returns the state of a repository of this type.
    """
    try:
        now = look(repo, timeout=10).sha
    except Exception:  # of whatever HTTP client huggingface_hub uses
        return "It is unknown whether it was published: the Hub does not respond."
    if now == before:
        return "Nothing was published so far."
    return (
        f"{repo} has changed to {now}, by this upload if its response was lost, or by someone else."
    )


@contextlib.contextmanager
def clear_errors(repo: str, *, after: Callable[[], str] = lambda: UNPUBLISHED) -> Iterator[None]:
    """Make errors say what went wrong, what is on the Hub now, and what to do."""
    from huggingface_hub import constants, errors

    again = "Run the same command again; files that have arrived are not sent twice."
    try:
        yield
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        text = error.server_message or str(error).splitlines()[0]
        if status in (401, 403):
            owner = repo.split("/")[0]
            raise PermissionError(
                f"The Hub rejects {repo} ({status}: {text}). The token must be valid and have "
                f"write access for {owner!r}. {UNPUBLISHED}"
            ) from error
        if status == 412:
            text = "the repository has changed in the meantime"
        raise ConnectionError(
            f"The Hub could not take {repo} ({status}: {text}). {after()} {again}"
        ) from error
    except Exception as error:  # of whatever HTTP client huggingface_hub uses
        causes = [error]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)
        reason = "; ".join(f"{type(cause).__name__}: {cause}" for cause in causes[:2])
        reason = " ".join(reason.split())  # on one line
        raise ConnectionError(
            f"Could not upload {repo} to {constants.ENDPOINT} ({reason}). {after()} {again}"
        ) from error
