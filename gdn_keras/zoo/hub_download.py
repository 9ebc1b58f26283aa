"""Files of a repository on the Hugging Face Hub, or of its cache on this machine.

Downloads go through `huggingface_hub`, into its cache: a file appears there complete or not at all,
two processes do not interfere, and files that are there are not downloaded again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

logger = logging.getLogger("gdn_keras.zoo")

SCHEME = "hf://"
_REPO = r"[\w.-]+/[\w.-]+"
_ADDRESS = re.compile(rf"hf://(?P<repo>{_REPO})(@(?P<revision>[\w./-]+))?")


def parse_address(address: str) -> tuple[str, str | None]:
    """("owner/repo", revision or None) of `hf://owner/repo[@revision]`."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(
            f"An address on the Hub must be hf://owner/repo[@revision]. Received: {address!r}."
        )
    return match["repo"], match["revision"]


def check_repo(repo: str) -> None:
    """Raise a `ValueError` unless `repo` is owner/name."""
    if not re.fullmatch(_REPO, repo):
        raise ValueError(f"`repo` must be OWNER/NAME. Received: repo={repo!r}.")


def locate(
    name: str,
    repo: str,
    revision: str | None,
    *,
    files: Sequence[str],
    offline: bool | None,
    cache_dir: str | os.PathLike | None,
    force: bool,
    command: str,
) -> Path:
    """The folder with `files` at `revision` in the cache, downloaded if necessary and allowed.

    For messages: `name` is the user's name of the network, and `command` downloads it.
    """
    cache_dir = cache_dir and Path(cache_dir).expanduser()
    offline = is_offline(offline)
    pinned = revision is not None and re.fullmatch("[0-9a-f]{40}", revision)
    if (pinned or offline) and not force:
        path = cached(repo, revision=revision, files=files, cache_dir=cache_dir)
        if path is not None:
            logger.debug("%s: found in the cache of the Hub, %s", name, path)
            return path
    if offline and force:
        raise ValueError(
            f"`force` needs internet access to download {name}, which is disabled. "
            "Received: force=True."
        )
    logger.debug("%s: not in the cache of the Hub", name)
    if offline:
        found = _cached_files(repo, revision=revision, files=files, cache_dir=cache_dir)
        missing = ", ".join(file for file in files if file not in found)
        allowed = "HF_HUB_OFFLINE=0 " if is_offline(None) else ""
        raise FileNotFoundError(
            f"{name} is not on this machine, and internet access is disabled: missing {missing} "
            f"of {repo} at {revision or 'main'}. To download what is missing: {allowed}{command}"
        )
    logger.debug("%s: asking the Hub for %s at %s", name, repo, revision or "main")
    return fetch(repo, revision=revision, files=files, cache_dir=cache_dir, force=force)


def is_offline(offline: bool | None) -> bool:
    """`offline` itself; if it is None, what the environment (HF_HUB_OFFLINE) says."""
    if offline is not None:
        return offline
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def cached(
    repo: str,
    *,
    revision: str | None,
    files: Sequence[str],
    cache_dir: str | os.PathLike | None = None,
) -> Path | None:
    """The cached folder with all `files` at `revision` (default: main as last seen), or None."""
    found = _cached_files(repo, revision=revision, files=files, cache_dir=cache_dir)
    return found[files[0]].parent if len(found) == len(files) else None


def _cached_files(repo, *, revision, files, cache_dir) -> dict[str, Path]:
    from huggingface_hub import try_to_load_from_cache

    where = {"cache_dir": cache_dir, "revision": revision}
    paths = {name: try_to_load_from_cache(repo, name, **where) for name in files}
    return {name: Path(path) for name, path in paths.items() if isinstance(path, str)}


def fetch(
    repo: str,
    *,
    revision: str | None,
    files: Sequence[str],
    cache_dir: str | os.PathLike | None = None,
    force: bool = False,
) -> Path:
    """Download `files` of one commit into the cache and return their folder there.

    Only these files are requested, whatever else is in the repository. `force` downloads them even
    if they are in the cache.
    """
    from huggingface_hub import hf_hub_download

    folder = None
    at = revision
    for name in files:
        try:
            path = hf_hub_download(
                repo, name, revision=at, cache_dir=cache_dir, force_download=force
            )
        except Exception as error:  # of whatever HTTP client huggingface_hub uses
            raise _explained(error, repo, name, revision) from error
        folder = Path(path).parent
        at = folder.name  # the commit: all files from the same one
    logger.debug("fetched %s at %s into %s", repo, at, folder)
    return folder


def _explained(error: Exception, repo: str, name: str, revision: str | None) -> OSError:
    from huggingface_hub import utils

    what = f"{name} of {repo} at {revision or 'main'}"
    if isinstance(error, utils.RepositoryNotFoundError):
        text = (
            f"There is no repository {repo} on the Hub, or it is private and no token with access "
            "is set (HF_TOKEN)."
        )
    elif isinstance(error, utils.RevisionNotFoundError):
        text = f"The repository {repo} has no revision {revision!r}."
    elif isinstance(error, utils.EntryNotFoundError) and isinstance(error, utils.HfHubHTTPError):
        text = f"The repository {repo} has no file {name} at {revision or 'main'}."
    elif isinstance(error, OSError) and error.errno is not None:
        return OSError(
            error.errno,
            f"Could not write {what} into the cache: {error.strerror}. Free space, or give another "
            "folder as `cache_dir` or in HF_HUB_CACHE",
            error.filename,
        )
    else:
        cause = error.__cause__ or error
        text = (
            f"Could not download {what} ({type(cause).__name__}: {cause}). Nothing incomplete was "
            "kept; try again."
        )
    return ConnectionError(text)
