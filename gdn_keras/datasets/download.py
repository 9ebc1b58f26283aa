"""Get the standard files with the download manager of tensorflow-datasets.

Its `fashion_mnist` and `cifar10` know the addresses and checksums; what is downloaded stays in its
download folder (~/tensorflow_datasets/downloads, or TFDS_DATA_DIR) and is fetched only once.
"""

import socket
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from gdn_keras.datasets import raw


def find(subfolder: str, names: tuple[str, ...], *, manager=None) -> list[Path]:
    """Paths of the named standard files, downloaded if need be.

    `manager` is a `tfds.download.DownloadManager`; by default one for the usual folders is made.
    """
    if subfolder == raw.FASHION_FOLDER:
        urls = _urls("fashion_mnist")
        return _fetch("fashion_mnist", [urls[name] for name in names], manager, extract=False)
    (folder,) = _fetch("cifar10", list(_urls("cifar10").values()), manager, extract=True)
    return raw.find(subfolder, names, folder=folder)


def _urls(name: str) -> dict[str, str]:
    """The addresses that tensorflow-datasets registers for a data set, by file name."""
    import tensorflow_datasets as tfds

    return {url.rsplit("/", 1)[-1]: url for url in tfds.builder(name).url_infos}


def _fetch(name: str, urls: list[str], manager, *, extract: bool) -> list[Path]:
    import tensorflow_datasets as tfds

    if manager is None:
        builder = tfds.builder(name)
        manager = tfds.download.DownloadManager(
            download_dir=builder.data_dir_root / "downloads", url_infos=builder.url_infos
        )
    get = manager.download_and_extract if extract else manager.download
    try:
        if not _downloaded(manager, urls):
            _check_network(urls[0])
        return [Path(path) for path in get(urls)]
    except OSError as error:  # every error of the network is one
        raise ConnectionError(
            f"Could not download {name} ({type(error).__name__}: {error}). Without a network, put "
            "the standard files into a folder and give it as `data_dir`, in the environment "
            f"variable {raw.ENVIRONMENT_VARIABLE}, or to a builder as `manual_dir`."
        ) from error


def _downloaded(manager, urls: list[str]) -> bool:
    # The download manager writes a file .INFO with the address next to whatever it has fetched.
    notes = "".join(path.read_text() for path in Path(manager.download_dir).glob("*.INFO"))
    return all(url in notes for url in urls)


def _check_network(url: str) -> None:
    """Fail within seconds where the download manager would retry for many minutes."""
    parts = urlsplit(url)
    if parts.scheme in urllib.request.getproxies():
        return  # the proxy finds the host, not we
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    socket.create_connection((parts.hostname, port), timeout=10).close()
