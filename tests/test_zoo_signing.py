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
    assert "signature is right" in capsys.readouterr().out


@pytest.mark.parametrize("name", zoo.FILES)
def test_a_changed_file(folder, keys, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1] + b"x")
    with pytest.raises(ValueError, match=f"net .*{keys[1].name}.*{name}"):
        zoo.check_signature(folder, key=keys[1])


def test_the_data_of_a_network_for_images_of_ones_own_are_signed(folder, keys):
    record = folder / "data.json"
    record.write_text("{}")
    with pytest.raises(ValueError, match=r"net .*data\.json"):  # it came after the signature
        zoo.check_signature(folder, key=keys[1])
    record.unlink()
    zoo.check_signature(folder, key=keys[1])


def test_another_key(folder, tmp_path):
    _, other = write_keys(tmp_path, "theirs")
    with pytest.raises(ValueError, match=r"net .*theirs\.pub"):
        zoo.check_signature(folder, key=other)


def test_another_signature(folder, keys):
    (folder / zoo.SIGNATURE_FILE).write_text("{}")
    with pytest.raises(ValueError, match=f"net .*{keys[1].name}"):
        zoo.check_signature(folder, key=keys[1])


def test_no_signature(folder, keys, capsys):
    (folder / zoo.SIGNATURE_FILE).unlink()
    assert main(["verify", str(folder), "--key", str(keys[1])]) == 1
    error = capsys.readouterr().err
    assert zoo.SIGNATURE_FILE in error and "`gdn-keras export sign`" in error


def test_keys_that_are_none(folder, keys, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.pem"):
        zoo.sign(folder, key=tmp_path / "nothing.pem")
    for function in (zoo.sign, zoo.check_signature):
        with pytest.raises(ValueError, match=r"`key` .*elliptic.*config\.json"):
            function(folder, key=folder / "config.json")
