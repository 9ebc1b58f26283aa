"""Signatures of zoo folders: with the right key and the signed files only."""

import shutil

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from zoo_tools import write_tiny

from export.__main__ import main as export
from gdn_keras import zoo
from gdn_keras.__main__ import main


def write_keys(folder, name):
    """A new pair of keys: the paths of the private and of the public one."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    public.write_bytes(
        key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return write_keys(tmp_path_factory.mktemp("keys"), "ours")


@pytest.fixture(scope="module")
def signed(keys, tmp_path_factory):
    folder = write_tiny(tmp_path_factory.mktemp("zoo"), "net").path
    assert export(["sign", str(folder), "--key", str(keys[0])]) == 0
    return folder


@pytest.fixture
def folder(signed, tmp_path):
    return shutil.copytree(signed, tmp_path / "net")


def test_the_signed_folder(folder, keys, capsys):
    (folder / "accuracy.png").write_bytes(b"another picture")  # not signed
    assert main(["verify", str(folder), "--key", str(keys[1])]) == 0
    assert "the signature is right, all hashes agree" in capsys.readouterr().out


@pytest.mark.parametrize("name", zoo.FILES)
def test_a_changed_file(folder, keys, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + b"x")
    with pytest.raises(ValueError, match=f"net is not what the key in .* has signed.*{name}"):
        zoo.check_signature(folder, key=keys[1])


def test_another_key_another_signature_and_none(folder, keys, tmp_path, capsys):
    _, other = write_keys(tmp_path, "theirs")
    with pytest.raises(ValueError, match="net is not what the key in .*theirs.pub has signed"):
        zoo.check_signature(folder, key=other)
    (folder / zoo.SIGNATURE_FILE).write_text("{}")
    with pytest.raises(ValueError, match="is not what the key"):
        zoo.check_signature(folder, key=keys[1])
    (folder / zoo.SIGNATURE_FILE).unlink()
    assert main(["verify", str(folder), "--key", str(keys[1])]) == 1
    assert "has no signature, model.sig; `python -m export sign`" in capsys.readouterr().err


def test_keys_that_are_none(folder, keys, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no key .*nothing.pem"):
        zoo.sign(folder, key=tmp_path / "nothing.pem")
    for function in (zoo.sign, zoo.check_signature):
        with pytest.raises(ValueError, match="`key` must be a file with a key of an elliptic"):
            function(folder, key=folder / "config.json")
