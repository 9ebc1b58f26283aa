"""Signatures of zoo folders, with a key of one's own, by `model-signing` (gdn-keras[signing]).

A hash in `metrics.json` notices a file that was changed by mistake; whoever changes a file on
purpose can change the hash, too, but not the signature.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gdn_keras.utils.checks import checked
from gdn_keras.zoo.folder import DATA_FILES, FILES, SIGNATURE_FILE, read_folder


@checked
def sign(path: str | os.PathLike, *, key: str | os.PathLike) -> Path:
    """Sign the files of a zoo folder; returns the signature, a file in the folder.

    Pictures next to the card are not signed.

    Args:
        key: file with a private key of an elliptic curve, in PEM format, without a password.
    """
    folder = read_folder(path)
    _check_key(key)
    signing = _package().signing
    target = folder.path / SIGNATURE_FILE
    with _errors_of_the_key(key), _signed_files(folder.path) as files:
        config = signing.Config().use_elliptic_key_signer(private_key=key)
        config.sign(files, target)
    return target


@checked
def check_signature(path: str | os.PathLike, *, key: str | os.PathLike) -> None:
    """Raise a `ValueError` unless the files of a zoo folder are those that `key` has signed.

    Args:
        key: file with the public key, in PEM format.
    """
    path = Path(path)
    signature = path / SIGNATURE_FILE
    if not signature.is_file():
        raise ValueError(
            f"{path} has no signature, {SIGNATURE_FILE}; `gdn-keras export sign` writes one."
        )
    _check_key(key)
    verifying = _package().verifying
    with _errors_of_the_key(key):
        config = verifying.Config().use_elliptic_key_verifier(public_key=key)
    with _signed_files(path) as files:
        try:
            config.verify(files, signature)
        except Exception as error:  # of the cryptography, or of a signature that is no JSON
            raise ValueError(
                f"{path} is not what the key in {os.fspath(key)} has signed: {error or 'wrong key'}"
            ) from error


def _package():
    try:
        import model_signing.signing
        import model_signing.verifying
    except ModuleNotFoundError as error:
        raise ValueError(
            f"Signatures need {error.name}: pip install 'gdn-keras[signing]'."
        ) from error
    return model_signing


def _check_key(key: str | os.PathLike) -> None:
    if not Path(key).is_file():
        raise FileNotFoundError(f"There is no key {os.fspath(key)}.")


@contextlib.contextmanager
def _errors_of_the_key(key: str | os.PathLike) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"`key` must be a file with a key of an elliptic curve, in PEM format ({error}). "
            f"Received: key={os.fspath(key)!r}."
        ) from error


@contextlib.contextmanager
def _signed_files(path: Path) -> Iterator[Path]:
    """A folder with copies of what is signed: in the cache of the Hub, files are links."""
    with tempfile.TemporaryDirectory() as temporary:
        own = (name for name in DATA_FILES if (path / name).exists())
        for name in (*FILES, *own):
            shutil.copyfile(path / name, Path(temporary, name))
        yield Path(temporary)
