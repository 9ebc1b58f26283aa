"""The page as a static Space on the Hugging Face Hub, in one commit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from gdn_keras.utils.citation import CITATION
from gdn_keras.zoo.hub_download import check_repo
from gdn_keras.zoo.records import LICENCE, ModelInfo

from ..files import kept_if_good
from ..hub.upload import clear_errors, need_token, outcome
from .build import CARD, DESCRIPTION, STATIC, write_page
from .runtime import PACKAGE, VERSION

TITLE = "Gaussian derivative networks, live"
FOLDERS = ("models/", "ort/", "samples/")  # old files in these are deleted
# what the Hub itself may put into a new static Space
TEMPLATE = {".gitattributes", CARD, "index.html", "style.css"}


def card(infos: Sequence[ModelInfo], *, title: str = TITLE) -> str:
    """README.md, with the settings of the Space at its head."""
    networks = "\n".join(f"- `{info.name}`, trained on {info.dataset}" for info in infos)
    return f"""---
title: {title}
emoji: 🔎
colorFrom: blue
colorTo: yellow
sdk: static
pinned: false
license: {LICENCE.lower()}
short_description: Image classifiers that keep working at half or twice size
---

# {title}

Drag the size of an image from ½ to 2 and watch which scale channel answers. The networks run in the
browser: nothing is sent anywhere, and it works offline. Any static web server can serve the folder.

{networks}

The paper: {CITATION}

Licences: the page and the networks {LICENCE}; {PACKAGE} {VERSION} MIT (`ort/LICENSE`); the sample
images as `samples/LICENCES.md` says.
"""


def build(
    names: Sequence[str], infos: Sequence[ModelInfo], path: Path, *, webgpu: bool = False
) -> Path:
    """Write the folder of the page to `path`, or nothing."""
    with kept_if_good(path, has=DESCRIPTION) as new:
        new.mkdir()
        write_page(new, names, infos, card=card(infos), webgpu=webgpu)
    return path


def files_of(path: Path) -> dict[str, Path]:
    """All files of a page, by their paths in the repository."""
    files = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    return dict(sorted(files.items()))


def dry_run(path: Path, *, repo: str, private: bool) -> None:
    """Show what would be uploaded of the folder."""
    kind = "private Space" if private else "Space"
    print(f"would be sent to the {kind} {repo} in one commit, from {path}:")
    for name, file in files_of(path).items():
        print(f"  {file.stat().st_size:>12,}  {name}")
    print("dry run: nothing was sent; `--publish` sends it")


def publish(path: Path, *, repo: str, private: bool) -> str:
    """Upload the folder and return the commit."""
    commit = upload(path, repo=repo, private=private)
    print(f"the Space {repo} at {commit}")
    return commit


def upload(path: Path, *, repo: str, private: bool = False) -> str:
    """Commit the files in `path` to the Space `repo`, check the uploaded files, return the commit.

    A Space that is there already must hold such a page. Large files go first and the commit last,
    so an upload publishes all or nothing; if nothing changed there is no new commit.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    check_repo(repo)
    need_token()
    api = HfApi()
    kind = {"repo_type": "space"}
    with clear_errors(repo):
        api.create_repo(repo, private=private or None, exist_ok=True, space_sdk="static", **kind)
        state = api.space_info(repo)
    there = {entry.rfilename for entry in state.siblings or []}
    if private and not state.private:
        raise ValueError(f"{repo} exists and is public; `private` was requested. Nothing was sent.")
    if DESCRIPTION not in there and not there <= TEMPLATE:
        raise FileExistsError(
            f"The Space {repo} must be empty or hold a page with a {DESCRIPTION}. Received: "
            f"{sorted(there - TEMPLATE)}. Choose another name, or empty this one. Nothing was sent."
        )
    files = files_of(path)
    operations = [CommitOperationAdd(path_in_repo=n, path_or_fileobj=f) for n, f in files.items()]
    operations += [
        CommitOperationDelete(path_in_repo=name)
        for name in sorted(there - set(files))
        if name.startswith(FOLDERS) or name in STATIC
    ]
    text = f"Page of {', '.join(sorted(n.split('/')[1] for n in files if n.startswith('models/')))}"
    with clear_errors(repo, after=lambda: outcome(api.space_info, repo, state.sha)):
        commit = api.create_commit(
            repo, operations, commit_message=text, parent_commit=state.sha, **kind
        ).oid
    with clear_errors(repo, after=lambda: f"It was published as {commit}, but not looked at."):
        arrived = list(api.list_repo_tree(repo, recursive=True, revision=commit, **kind))
    hashes = {e.path: e.lfs.sha256 if e.lfs else e.blob_id for e in arrived if hasattr(e, "lfs")}
    wrong = [name for name, file in files.items() if hashes.get(name) not in _hashes(file)]
    if wrong:
        raise OSError(
            f"{repo} at {commit} must have the files of {path}. Received others, or none, for "
            f"{wrong}. Run the same command again."
        )
    return commit


def _hashes(file: Path) -> tuple[str, str]:
    """The names that the Hub gives to a large and to a small file."""
    content = file.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return hashlib.sha256(content).hexdigest(), blob
