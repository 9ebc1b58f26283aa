"""Checksums of the files in a data folder."""

import os

from gdn_keras.datasets import sets
from gdn_keras.datasets.raw import ENVIRONMENT_VARIABLE, data_folder


def verify(data_dir: str | os.PathLike | None = None, *, progress: bool = False) -> dict[str, str]:
    """Check every data set that a data folder holds.

    Returns:
        For each file "ok", "missing" (others of its data set are there) or what is wrong with it.
        Files of STIR have no fixed contents; it is checked that they can be read.
    """
    from gdn_keras.utils.progress import show_progress

    folder = data_folder(data_dir)
    if folder is None or not folder.is_dir():
        raise FileNotFoundError(
            "`data_dir` must be a folder, as argument or in the environment variable "
            f"{ENVIRONMENT_VARIABLE}. Received: {folder}."
        )
    loaders = [dataset.loader for dataset in sets.all_sets().values() if dataset.loader]
    paths = [(loader, path) for loader in loaders for path in loader.files(folder)]
    if not paths:
        raise FileNotFoundError(
            f"There is no data set in {folder}: no folder of the standard files of Fashion-MNIST "
            "or CIFAR-10, and no file of STIR."
        )
    return {
        f"{path.parent.name}/{path.name}": loader.status(path) if path.is_file() else "missing"
        for loader, path in show_progress(paths, disable=not progress, unit="file", leave=False)
    }
