"""Checksums of the standard files in a data folder."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path

from gdn_keras.datasets import raw
from gdn_keras.datasets.stir import FILES, read_stir_file

# SHA-256 of the contents. For .gz files of what is inside: the same bytes are packed in several
# ways by those who pass them on.
CHECKSUMS = {
    raw.FASHION_FOLDER: {
        "train-images-idx3-ubyte.gz": (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        "train-labels-idx1-ubyte.gz": (
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
        ),
        "t10k-images-idx3-ubyte.gz": (
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        "t10k-labels-idx1-ubyte.gz": (
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
        ),
    },
    raw.CIFAR_FOLDER: {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
}


def verify(data_dir: str | os.PathLike | None = None, *, progress: bool = False) -> dict[str, str]:
    """Check every data set that a data folder holds.

    Returns:
        For each file "ok", "missing" (others of its data set are there) or what is wrong with it.
        Files of STIR have no fixed contents; it is checked that they can be read.
    """
    from gdn_keras.progress import show_progress

    folder = raw.data_folder(data_dir)
    if folder is None or not folder.is_dir():
        raise FileNotFoundError(
            "`data_dir` must be a folder, as argument or in the environment variable "
            f"{raw.ENVIRONMENT_VARIABLE}. Received: {folder}."
        )
    paths = [
        folder / subfolder / name
        for subfolder, names in CHECKSUMS.items()
        if (folder / subfolder).is_dir()
        for name in names
    ]
    stir = folder / "stir"
    paths += [stir / name for name in FILES.values() if (stir / name).exists()]
    if not paths:
        raise FileNotFoundError(
            f"There is no data set in {folder}: none of {(*CHECKSUMS, 'stir')} is there."
        )
    return {
        f"{path.parent.name}/{path.name}": _status(path)
        for path in show_progress(paths, disable=not progress, unit="file", leave=False)
    }


def _status(path: Path) -> str:
    if not path.is_file():
        return "missing"
    if path.parent.name == "stir":
        try:
            read_stir_file(path)
        except ValueError as error:
            return str(error)
        return "ok"
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        return f"unreadable: {error}"
    expected = CHECKSUMS[path.parent.name][path.name]
    found = hashlib.sha256(data).hexdigest()
    return "ok" if found == expected else f"different: SHA-256 {found} instead of {expected}"
