"""Broken, foreign and hostile folders: a clear error, and never a partly loaded network."""

import json
import shutil

import h5py
import keras
import numpy as np
import pytest
from zoo_tools import tiny_config, tiny_model, weights_of, write_tiny

from gdn_keras import GaussDerNetConfig, zoo
from gdn_keras.zoo.weights import assign_weights, file_sha256, read_weights


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("zoo"), "net")


@pytest.fixture
def folder(original, tmp_path):
    return shutil.copytree(original.path, tmp_path / "net")


def edit_json(path, **changes):
    data = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not Ellipsis}))


def edit_weights(folder, change):
    """Change the weights file and make the folder's hash agree, as a forger would."""
    with h5py.File(folder / "model.weights.h5", "r+") as file:
        change(file["layers/jet_layer/vars"], folder)
    edit_json(folder / "metrics.json", weights_sha256=file_sha256(folder / "model.weights.h5"))


# === The weights file ===


def flip_a_bit(content):
    return content[:3000] + bytes([content[3000] ^ 1]) + content[3001:]


@pytest.mark.parametrize(
    "damage", [flip_a_bit, lambda content: content[:-1], lambda content: b"", lambda c: c + b"x"]
)
def test_another_file_than_the_published_one(folder, damage):
    path = folder / "model.weights.h5"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="model.weights.h5 .*published"):
        zoo.load(folder)


def replace(group, array):
    del group["0"]
    group["0"] = array


def external_array(group, folder):
    del group["0"]
    group.create_dataset("0", (5, 1, 4), "f4", external=[("/etc/hostname", 0, 80)])


def virtual_array(group, folder):
    del group["0"]
    layout = h5py.VirtualLayout((5, 1, 4), "f4")
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (5, 1, 4))
    group.create_virtual_dataset("0", layout)


def huge_array(group, folder):
    del group["0"]
    group.create_dataset("0", (10**9, 10**3), "f4", chunks=(10**3, 10**3))


def soft_link(group, folder):
    del group["0"]
    group["0"] = h5py.SoftLink("/layers/jet_layer_1/vars/0")


def external_link(group, folder):
    del group["0"]
    group["0"] = h5py.ExternalLink("/etc/hostname", "/x")


def loop(group, folder):
    group["again"] = group.file["/"]


def same_name_twice(group, folder):
    group.file["layers/jet_layer_1/vars"].attrs["name"] = "jet_1"


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda g, _: replace(g, np.zeros((5, 1, 3), "f4")),
            r"jet_1/kernel must have shape \(5, 1",
        ),
        (lambda g, _: replace(g, np.zeros((5, 1, 4), "f8")), "must be a plain float32 array"),
        (lambda g, _: replace(g, np.full((5, 1, 4), np.nan, "f4")), "jet_1/kernel .*finite"),
        (lambda g, _: g.__delitem__("0"), "1 variables of layer 'jet_1'.*Received: 0"),
        (
            lambda g, _: g.__setitem__("1", np.zeros(4, "f4")),
            "1 variables of layer 'jet_1'.*Received: 2",
        ),
        (lambda g, _: g.move("0", "1"), "layer 'jet_1' must have variables 0, 1"),
        (lambda g, _: g.attrs.__setitem__("name", "jet_9"), "'jet_9'"),
        (lambda g, _: g.attrs.__delitem__("name"), "/layers/.*named layer"),
        (same_name_twice, "/layers/.*named layer"),
        (external_array, "must be a plain float32 array"),
        (virtual_array, "must be a plain float32 array"),
        (huge_array, "must be a plain float32 array"),
        (soft_link, "/layers/jet_layer/vars/0 is a link"),
        (external_link, "/layers/jet_layer/vars/0 is a link"),
        (loop, "model.weights.h5 .*complete"),
    ],
)
def test_forged_weights_are_refused(folder, change, message):
    edit_weights(folder, change)
    with pytest.raises(ValueError, match=message):
        zoo.load(folder)


def test_a_pickle_instead_of_weights_is_never_opened(folder, tmp_path):
    import pickle

    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    (folder / "model.weights.h5").write_bytes(pickle.dumps(Trap()))
    edit_json(folder / "metrics.json", weights_sha256=file_sha256(folder / "model.weights.h5"))
    with pytest.raises(ValueError, match="model.weights.h5 .*complete"):
        zoo.load(folder)
    assert not (tmp_path / "sprung").exists()


def test_no_code_is_loaded_from_a_folder(folder, tmp_path, monkeypatch):
    for name in ("__init__.py", "model.py", "config.py", "sitecustomize.py", "keras.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    monkeypatch.chdir(folder)
    zoo.load(folder)
    assert not (tmp_path / "sprung").exists()


def test_weights_that_do_not_fit_change_nothing(original):
    model = tiny_model(tiny_config(), seed=5)
    before = weights_of(model)
    arrays = read_weights(original.weights_file)
    arrays["norm_3"][3] = arrays["norm_3"][3][:-1]  # the very last variable
    with pytest.raises(ValueError, match="norm_3/moving_variance must have shape"):
        assign_weights(model, arrays)
    for name, value in weights_of(model).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


# === The other files ===


@pytest.mark.parametrize("name", zoo.FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"zoo folder.*{name} missing"):
        zoo.load(folder)
    if name == "model.weights.h5":
        assert zoo.load(folder, weights=False).config == zoo.info(folder).config


@pytest.mark.parametrize("name", ["config.json", "metrics.json", "recipe.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", '"text"', "\udcff"])
def test_broken_json_names_the_file(folder, name, text):
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=f"{name}: "):
        zoo.load(folder)


@pytest.mark.parametrize(
    "name, changes, message",
    [
        ("config.json", dict(format_version=3), "newer gdn_keras"),
        ("metrics.json", dict(format_version=2), "newer gdn_keras"),
        ("metrics.json", dict(format_version=...), "Received: format_version=None"),
        ("config.json", dict(widths="wide"), "`widths` must be positive integers"),
        ("config.json", dict(wdths=[1]), "'wdths'.*'widths'"),
        ("metrics.json", dict(acuracy=1), "'acuracy'.*'accuracy'"),
        ("metrics.json", dict(golden=...), "metrics must have golden"),
        ("metrics.json", dict(weights_sha256=5), "`weights_sha256` of the metrics must be str"),
        ("metrics.json", dict(accuracy={"1.000": "x"}), r"`accuracy` of the metrics must be dict"),
        ("metrics.json", dict(accuracy={}), "`accuracy` must have at least one size"),
        (
            "metrics.json",
            dict(accuracy={"1.000": 93.0}),
            r"accuracy\['1.000'\]` must be a fraction",
        ),
        ("metrics.json", dict(mean_accuracy=0.9), "`mean_accuracy` must be the mean of `accuracy`"),
        ("metrics.json", dict(exact_accuracy={"2.000": 0.5}), "must have the sizes of `accuracy`"),
        ("metrics.json", dict(sample_accuracy=float("nan")), "`sample_accuracy` of the metrics"),
        ("recipe.json", dict(seed=...), "recipe must have 'seed', a int"),
        ("config.json", dict(num_classes=3, class_names=[]), "golden logits must have 3 classes"),
    ],
)
def test_wrong_fields_are_explained(folder, name, changes, message):
    edit_json(folder / name, **changes)
    with pytest.raises(ValueError, match=message) as error:
        zoo.load(folder)
    assert str(folder) in str(error.value)


# === Writing ===


def test_the_same_weights_give_the_same_bytes(original, tmp_path):
    again = write_tiny(tmp_path, "net")
    assert again.metrics.weights_sha256 == original.metrics.weights_sha256
    again = zoo.write_folder(
        tmp_path / "copy",
        config=original.config,
        weights=original.weights_file,
        metrics=original.metrics,
        recipe=original.recipe,
        card=original.card,
    )
    assert again.metrics == original.metrics


@pytest.mark.parametrize(
    "change, error, message",
    [
        (
            lambda old: {"weights": tiny_model(tiny_config(widths=(3, 5)))},
            ValueError,
            "must have shape",
        ),
        (
            lambda old: {"recipe": {**old.recipe, "stages": float("nan")}},
            ValueError,
            "not JSON compliant",
        ),
        (lambda old: {"recipe": {}}, ValueError, "recipe must have 'name', a str"),
        (lambda old: {"figures": {"../x.png": b""}}, ValueError, "`figures` must be named"),
        (lambda old: {"weights": old.path / "nothing"}, FileNotFoundError, "nothing"),
    ],
    ids=["other shapes", "not a number", "no recipe", "a figure elsewhere", "no weights"],
)
def test_a_failed_write_leaves_what_was_there(folder, change, error, message):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    old = zoo.read_folder(folder)
    arguments = dict(config=old.config, metrics=old.metrics, recipe=old.recipe, card="new")
    arguments |= dict(weights=old.weights_file) | change(old)
    with pytest.raises(error, match=message):
        zoo.write_folder(folder, **arguments)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["net"]


def test_a_new_version_replaces_the_whole_folder(folder):
    (folder / "old_figure.png").touch()
    old = zoo.read_folder(folder)
    new = zoo.write_folder(
        folder,
        config=old.config,
        weights=tiny_model(old.config, seed=9),
        metrics=old.metrics,
        recipe=old.recipe,
        card="new",
    )
    assert new.card == "new" and new.metrics.weights_sha256 != old.metrics.weights_sha256
    assert sorted(path.name for path in folder.iterdir()) == sorted(zoo.FILES)
    assert [path.name for path in folder.parent.iterdir()] == ["net"]
    zoo.load(folder)


# === The config ===


def test_a_changed_config_is_rejected(folder):
    """It would build another function from the same weights."""
    assert zoo.read_folder(folder).metrics.config_sha256
    edit_json(folder / "config.json", sigma_ratio=1.98)
    with pytest.raises(ValueError, match=r"config\.json .*config of this network"):
        zoo.load(folder)


def test_folders_from_before_the_hash_of_the_config_are_read(folder):
    edit_json(folder / "metrics.json", config_sha256=...)
    assert zoo.verify(folder) < 1e-4


def test_verify_computes_in_float32_whatever_the_policy_is(folder):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        assert zoo.verify(folder) < 1e-4
    finally:
        keras.config.set_dtype_policy("float32")


def test_verify_notices_a_forged_config(folder):
    config = json.loads((folder / "config.json").read_text())
    edit_json(folder / "config.json", sigma_ratio=1.98)
    changed = GaussDerNetConfig.from_dict({**config, "sigma_ratio": 1.98})
    edit_json(folder / "metrics.json", config_sha256=changed.sha256())
    zoo.load(folder)
    with pytest.raises(ValueError, match="net .*published logits"):
        zoo.verify(folder)


def test_hash_of_a_config_does_not_depend_on_how_it_is_written():
    config = tiny_config()
    assert config.sha256() == GaussDerNetConfig.from_json(config.to_json()).sha256()
    assert config.sha256() == config.replace(jet_order=2, activation="relu").sha256()
    assert config.sha256() != config.replace(jet_order=3).sha256()
    assert config.sha256() != config.replace(sigma_ratio=1.98).sha256()
