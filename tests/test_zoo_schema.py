"""Every folder in zoo/ is complete and true; the check itself is tested on folders made here."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from zoo_tools import predict, write_tiny

from gdn_keras import zoo
from gdn_keras.accuracy import size_keys
from gdn_keras.config import EVERY_PIXEL
from gdn_keras.counts import count_multiply_adds, count_parameters
from gdn_keras.datasets import get, load_samples
from gdn_keras.zoo import registry
from gdn_keras.zoo.weights import file_sha256
from training import recipes

ROOT = registry.checkout() / "zoo"
FOLDERS = zoo.folders(ROOT)
TOLERANCE = 1e-4
TEST_IMAGES = {"fashion": 10_000, "cifar": 10_000, "stir_emoji": 36, "stir_gtsrb": 192}


def check_facts(path) -> None:
    """All that can be checked without running the network."""
    folder = zoo.read_folder(path)
    config, metrics = folder.config, folder.metrics
    assert list(metrics.accuracy) == size_keys(metrics.dataset)
    assert metrics.split == "test"
    for family, count in TEST_IMAGES.items():
        assert family not in metrics.dataset or metrics.num_test_images == count
    assert metrics.sampling_density == config.sampling_density
    assert metrics.parameters == count_parameters(config)
    assert metrics.parameters_paper == count_parameters(config, as_paper=True)
    assert metrics.multiply_adds == count_multiply_adds(config)
    assert metrics.multiply_adds_dense == count_multiply_adds(config, dense=True)
    assert metrics.weights_sha256 == file_sha256(folder.weights_file)
    assert metrics.weights_bytes == folder.weights_file.stat().st_size
    own = get(metrics.dataset).samples is not None
    assert (metrics.golden.sample_set == metrics.dataset) == own
    assert (metrics.sample_accuracy is not None) == own and len(metrics.golden.indices) == 8
    assert np.shape(metrics.confusion) == (config.num_classes, config.num_classes)
    assert metrics.calibration_error is not None and metrics.versions
    assert folder.path.name in folder.card
    assert (metrics.paper_accuracy is None) == (metrics.paper_where is None)


def check_recipe(path) -> None:
    """The recipe exists, and describes this very network."""
    folder = zoo.read_folder(path)
    recipe = recipes.get(folder.recipe["name"])
    assert folder.path.name == recipe.name
    assert folder.metrics.dataset == recipe.dataset
    how = {"class_names": (), **EVERY_PIXEL}
    assert folder.config.replace(**how) == recipe.config.replace(**how)
    for name in folder.recipe["lineage"]:
        recipes.get(name.split("@")[0])


def check_outputs(path) -> None:
    """The stored logits and the accuracy on the bundled images come out again."""
    metrics = zoo.read_folder(path).metrics
    samples = load_samples(metrics.golden.sample_set)
    logits = predict(zoo.load(path), samples.images)
    golden = logits[list(metrics.golden.indices)]
    np.testing.assert_allclose(golden, metrics.golden.logits, atol=TOLERANCE)
    if metrics.sample_accuracy is not None:
        right = np.sum(logits.argmax(axis=1) == samples.labels)
        published = metrics.sample_accuracy * len(samples)
        assert abs(right - published) < 1.5  # one may be a near tie


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.name)
@pytest.mark.parametrize("check", [check_facts, check_recipe, check_outputs])
def test_folder(check, path):
    check(path)


def test_an_empty_zoo_lists_nothing(tmp_path, monkeypatch):
    """What these tests walk over is what users see, also when there is nothing."""
    assert set(path.name for path in FOLDERS) <= set(zoo.list_models())
    monkeypatch.setenv("GDN_KERAS_ZOO", str(tmp_path))
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "gdn_keras")
    assert zoo.folders(tmp_path) == [] and zoo.list_models() == []


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_networks_on_other_backends(backend):
    """One with many scale channels and zero padding, one with reflection."""
    paths = [ROOT / name for name in ("fashion_avg_2jet", "stir_emoji_mid_drop")]
    for path, deviation in zip(paths, golden_deviations(paths, backend), strict=True):
        assert deviation < TOLERANCE, path


def golden_deviations(paths, backend: str) -> list[float]:
    """Largest difference from the stored logits, in a process of its own."""
    code = """if True:
        import sys, keras, numpy as np
        from gdn_keras import zoo
        from gdn_keras.datasets import load_samples
        print(keras.backend.backend())
        for path in sys.argv[1:]:
            golden = zoo.read_folder(path).metrics.golden
            images = load_samples(golden.sample_set).images[list(golden.indices)]
            logits = keras.ops.convert_to_numpy(zoo.load(path)(images.astype("float32")))
            print(float(np.abs(logits - golden.logits).max()))
    """
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    output = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert output.returncode == 0, output.stderr
    name, *deviations = output.stdout.split()
    assert name == backend
    return [float(deviation) for deviation in deviations]


# === The check can fail ===


@pytest.fixture
def folder(tmp_path):
    return write_tiny(tmp_path, "net", dataset="rescaled_fashion_mnist").path


def change_metrics(path, **changes):
    file = path / "metrics.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_true_folder_passes(folder):
    check_facts(folder)
    check_outputs(folder)
    with pytest.raises(ValueError, match="recipe.*'net'"):
        check_recipe(folder)


@pytest.mark.parametrize(
    "changes",
    [
        dict(accuracy={"1.000": 0.5}, mean_accuracy=0.5),
        dict(parameters=1),
        dict(parameters_paper=1),
        dict(multiply_adds=1),
        dict(multiply_adds_dense=1),
        dict(weights_sha256="0" * 64),
        dict(weights_bytes=1),
        dict(sampling_density=None),
        dict(num_test_images=1000),
        dict(confusion=[[1]]),
        dict(paper_accuracy=0.9),
        dict(versions={}),
    ],
)
def test_wrong_facts_fail(folder, changes):
    change_metrics(folder, **changes)
    with pytest.raises(AssertionError):
        check_facts(folder)


def test_wrong_outputs_fail(folder):
    metrics = zoo.read_folder(folder).metrics
    change_metrics(folder, sample_accuracy=metrics.sample_accuracy - 0.03)
    with pytest.raises(AssertionError):
        check_outputs(folder)
    golden = dataclasses.asdict(metrics.golden)
    golden["logits"] = (np.array(golden["logits"]) + 2 * TOLERANCE).tolist()
    change_metrics(folder, sample_accuracy=metrics.sample_accuracy, golden=golden)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_outputs(folder)
