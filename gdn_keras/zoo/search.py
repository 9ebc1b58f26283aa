"""Where networks are: on this machine, in the cache of the Hub, or on the Hub itself."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from gdn_keras.utils.checks import checked, did_you_mean
from gdn_keras.zoo import hub_download
from gdn_keras.zoo.folder import (
    CONFIG_FILE,
    DATA_FILES,
    DESCRIPTION_FILES,
    FILES,
    OWN_DATA,
    RECIPE_FILE,
    Folder,
    read_folder,
)
from gdn_keras.zoo.records import ModelInfo, read_json
from gdn_keras.zoo.registry import ENVIRONMENT_VARIABLE, read_registry, roots

logger = logging.getLogger("gdn_keras.zoo")


def read(name: str | os.PathLike, *, weights: bool = True, **where) -> Folder:
    """The folder of a network, wherever it is; without `weights` all but these."""
    path, expected = find(name, files=FILES if weights else DESCRIPTION_FILES, **where)
    folder = read_folder(path, weights=weights)
    found = folder.metrics.weights_sha256
    if expected is not None and (
        expected.weights_sha256 != found or expected.config != folder.config
    ):
        raise ValueError(
            f"{path} is not the {name} of the registry: its weights must have sha256 "
            f"{expected.weights_sha256} and its config must be the same. Received: {found}."
        )
    return folder


def find(
    name: str | os.PathLike,
    *,
    files: Sequence[str] = FILES,
    revision: str | None = None,
    offline: bool | None = None,
    cache_dir: str | os.PathLike | None = None,
    force: bool = False,
) -> tuple[Path, ModelInfo | None]:
    """The folder of a network, and what the registry says it must be if it is from the Hub."""
    command = ["python", "-m", "gdn_keras", "download", str(name)]
    command += [] if revision is None else ["--revision", revision]
    command += [] if cache_dir is None else ["--cache-dir", str(cache_dir)]
    where = {
        "files": files,
        "offline": offline,
        "cache_dir": cache_dir,
        "force": force,
        "command": shlex.join(command),
    }
    if str(name).startswith(hub_download.SCHEME):
        repo, at = hub_download.parse_address(str(name))
        if at is not None and revision not in (None, at):
            raise ValueError(f"`revision` contradicts {name!r}. Received: revision={revision!r}.")
        return _from_hub(str(name), repo, at or revision, **where), None
    if "://" in str(name):
        raise ValueError(
            "`name` must be the name of a network, a folder, or hf://owner/repo for the Hub. "
            f"Received: name={str(name)!r}."
        )
    if not is_name(name):
        if revision is not None:
            raise ValueError(
                f"A folder has no revisions; only the Hub has. Received: revision={revision!r}."
            )
        logger.debug("the folder %s", name)
        return Path(name).expanduser(), None
    if revision is None and not force:
        for label, root in roots():
            path = root / name
            if path.is_dir():
                logger.debug("%s: found in %s, %s", name, label, path)
                return path, None
            logger.debug("%s: not in %s, %s", name, label, root)
    infos, local = known_models()
    if name not in infos:
        raise unknown_model(name, infos)
    entry = infos[name]
    if entry.hub_repo is None:
        if not entry.trained:
            reason = (
                "has no trained weights yet; `weights=False` builds the network without, and "
                f"`python -m training run {name}` in a clone of the repository trains it"
            )
        elif name in local:
            reason = f"is not on the Hub, only at {local[name]}"
        else:
            reason = (
                "is not on the Hub, and its folder is not on this machine. It is zoo/"
                f"{name} in the repository of gdn_keras: `git clone` that, and run from the clone "
                f"or set {ENVIRONMENT_VARIABLE} to its folder zoo. `python -m training run {name}` "
                "in the clone trains it again"
            )
        raise FileNotFoundError(f"{name} {reason}.")
    path = _from_hub(name, entry.hub_repo, revision or entry.hub_revision, **where)
    return path, entry if revision in (None, entry.hub_revision) else None


def _from_hub(name: str, repo: str, revision: str | None, *, files: Sequence[str], **where) -> Path:
    """The folder in the cache, with the files of the data set if the network has its own."""
    path = hub_download.locate(name, repo, revision, files=files, **where)
    if not read_json(path / RECIPE_FILE, dict).get(OWN_DATA):
        return path
    return hub_download.locate(name, repo, path.name, files=(*files, *DATA_FILES), **where)


@checked
def folders(root: Path) -> list[Path]:
    """The zoo folders in `root`, by name."""
    return sorted(path.parent for path in root.glob(f"[!.]*/{CONFIG_FILE}"))


def known_models() -> tuple[dict[str, ModelInfo], dict[str, Path]]:
    """Every network by name, and the folders of those that are on this machine."""
    infos: dict[str, ModelInfo] = {}
    local: dict[str, Path] = {}
    for _, root in reversed(roots()):  # the first root takes precedence
        registry = read_registry(root)
        infos.update({name: entry for name, entry in registry.items() if name not in local})
        for path in folders(root):
            try:
                entry = read_folder(path).info()
            except (ValueError, OSError) as error:  # damaged, or being replaced just now
                logger.warning("skipped: %s", error)
                continue
            listed = registry.get(path.name)
            if listed is not None and listed.weights_sha256 == entry.weights_sha256:
                entry = dataclasses.replace(
                    entry, hub_repo=listed.hub_repo, hub_revision=listed.hub_revision
                )
            infos[path.name], local[path.name] = entry, path
    return infos, local


def is_name(name: str | os.PathLike) -> bool:
    return isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name) is not None


def unknown_model(name: str, infos: Mapping[str, ModelInfo]) -> ValueError:
    """An error that suggests a network with weights first.

    Its attribute `command_line` is the message of a command line (`run_command`).
    """
    trained = [known for known, info in infos.items() if info.trained]
    what = f"Unknown model {name!r}.{did_you_mean(name, infos, first=trained)}"
    path = f"for a folder, give a path: ./{name}."
    error = ValueError(
        f"{what} `gdn_keras.zoo.list_models()` lists all networks with weights, "
        f"`list_models(trained=False)` also those without; {path}"
    )
    error.command_line = (
        f"{what} `gdn-keras list` lists all networks with weights, "
        f"`gdn-keras list --all` also those without; {path}"
    )
    return error
