"""Get the standard files with the download manager of tensorflow-datasets.

Its `fashion_mnist` and `cifar10` know the addresses and checksums; what is downloaded stays in its
download folder (~/tensorflow_datasets/downloads, or TFDS_DATA_DIR) and is fetched only once.
"""

from pathlib import Path

from gdn_keras.datasets import raw


def fashion(names: tuple[str, ...], *, manager=None) -> list[Path]:
    """Paths of downloaded Fashion-MNIST files."""
    urls = _urls("fashion_mnist")
    return _fetch("fashion_mnist", lambda m: m.download([urls[name] for name in names]), manager)


def cifar(names: tuple[str, ...], *, manager=None) -> list[Path]:
    """Paths of CIFAR-10 batch files, downloaded as one archive and unpacked."""
    (url,) = _urls("cifar10").values()
    folder = _fetch("cifar10", lambda m: m.download_and_extract([url]), manager)[0]
    return raw.find(folder, raw.CIFAR_FOLDER, names)


def _urls(name: str) -> dict[str, str]:
    """The addresses that tensorflow-datasets registers for a data set, by file name."""
    import tensorflow_datasets as tfds

    return {url.rsplit("/", 1)[-1]: url for url in tfds.builder(name).url_infos}


def _fetch(name: str, get, manager) -> list[Path]:
    import tensorflow_datasets as tfds

    if manager is None:
        root = tfds.builder(name).data_dir_root
        manager = tfds.download.DownloadManager(
            download_dir=root / "downloads", url_infos=tfds.builder(name).url_infos
        )
    try:
        return [Path(path) for path in get(manager)]
    except OSError as error:  # every error of the network is one
        raise ConnectionError(
            f"Could not download {name} ({type(error).__name__}: {error}). Without a network, put "
            f"the standard files into a folder and give it as `data_dir` or in the environment "
            f"variable {raw.ENVIRONMENT_VARIABLE}."
        ) from error
