"""Networks measured again: the same numbers agree, others are noticed."""

import dataclasses
import json

import numpy as np
import pytest
from dataset_files import small_data_folder
from zoo_tools import predict, tiny_model, write_tiny

from gdn_keras import zoo
from gdn_keras.config import EVERY_PIXEL
from gdn_keras.datasets import load_arrays
from gdn_keras.model import adapt
from training.__main__ import main
from training.reproduction.verify import (
    Comparison,
    accuracy_tolerance,
    format_comparisons,
    verify,
    verify_samples,
)

NAME = "tiny"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A zoo of one network whose accuracy on 20 test images was counted by hand."""
    data, contents = small_data_folder(tmp_path / "data", monkeypatch)
    write_tiny(tmp_path / "zoo", NAME)
    images, labels = contents["fashion_mnist"]["test"]
    folder = zoo.read_folder(tmp_path / "zoo" / NAME)
    model = tiny_model(folder.config, seed=0)
    right = predict(model, images).argmax(axis=1) == labels
    publish(tmp_path, right.mean(), images=len(images))
    return tmp_path


def publish(path, accuracy: float, *, images: int = 20, **changes) -> None:
    folder = zoo.read_folder(path / "zoo" / NAME)
    metrics = dataclasses.replace(
        folder.metrics,
        accuracy={"1.000": float(accuracy)},
        mean_accuracy=float(accuracy),
        num_test_images=images,
        **changes,
    )
    (folder.path / "metrics.json").write_text(json.dumps(dataclasses.asdict(metrics)))


def command(path, *options: str) -> int:
    return main(["verify", NAME, "--zoo", str(path / "zoo"), *options])


def test_the_same_accuracy_agrees_and_another_one_does_not(published, capsys):
    data = published / "data"
    (comparison,) = verify(published / "zoo" / NAME, data_dir=data)
    assert comparison.measured == pytest.approx(comparison.published) and comparison.agrees
    assert command(published, "--data-dir", str(data)) == 0
    assert "0 of 1 numbers differ" in capsys.readouterr().out
    publish(published, comparison.published / 100 + 0.2)  # four images of twenty
    assert command(published, "--data-dir", str(data), "--sizes", "1") == 1
    out = capsys.readouterr().out
    assert "accuracy at 1.000, %" in out and "-20.00" in out and "DIFFERS" in out


def test_other_accuracies_are_compared_too(published):
    """On every pixel, and with sigmas times the size factor, which is 1 here."""
    folder = published / "zoo" / NAME
    accuracy = zoo.read_folder(folder).metrics.accuracy["1.000"]
    others = {"exact_accuracy": {"1.000": 1.0}, "matched_accuracy": {"1.000": accuracy}}
    publish(published, accuracy, **others)
    trained, exact, matched = verify(folder, data_dir=published / "data")
    assert trained.measured == matched.measured and trained.agrees and matched.agrees
    assert exact.what == "accuracy at 1.000 on every pixel, %" and not exact.agrees
    model = zoo.load(folder)
    test = load_arrays("fashion_mnist", split="test", data_dir=published / "data")
    right = predict(adapt(model, **EVERY_PIXEL), test.images).argmax(axis=1) == test.labels
    assert exact.measured == pytest.approx(100 * right.mean())


def test_shares_of_the_scale_channels_are_compared(published):
    """The tiny network pools over two channels; that of the first is published wrongly."""
    folder, data = published / "zoo" / NAME, published / "data"
    accuracy = zoo.read_folder(folder).metrics.accuracy["1.000"]
    publish(published, accuracy, scale_histograms={"1.000": {"all": [1.0, 0.5]}})
    _, share = verify(folder, data_dir=data)
    assert share.what == "share of channel 1 at 1.000, %" and not share.agrees
    right = share.measured / 100
    publish(published, accuracy, scale_histograms={"1.000": {"all": [right, 1 - right]}})
    assert all(comparison.agrees for comparison in verify(folder, data_dir=data))


def test_samples_need_no_data_and_show_other_weights(published, capsys):
    assert command(published, "--samples") == 0
    golden = zoo.read_folder(published / "zoo" / NAME).metrics.golden
    first, *rest = golden.logits
    changed = dataclasses.replace(golden, logits=((first[0] + 0.01, *first[1:]), *rest))
    publish(published, 0.5, golden=changed)
    comparisons = verify_samples(published / "zoo" / NAME)
    assert [one.agrees for one in comparisons] == [False, *[True] * 8]
    assert comparisons[0].what == "logit 0 of image 0"
    assert command(published, "--samples") == 1
    assert "1 of 9 numbers differ" in capsys.readouterr().out


@pytest.mark.parametrize("accuracy, images", [(0.92, 500), (0.5, 100), (0.99, 5000)])
def test_a_part_of_the_test_images_is_within_the_tolerance(accuracy, images):
    """Drawn without replacement from 10,000; hardly ever outside, and never far inside."""
    right = round(accuracy * 10_000)
    drawn = np.random.default_rng(0).hypergeometric(right, 10_000 - right, images, 20_000)
    differences = np.abs(100 * drawn / images - 100 * accuracy)
    tolerance = accuracy_tolerance(100 * accuracy, images=images, of=10_000)
    assert np.mean(differences > tolerance) < 0.003
    assert tolerance < 2 * np.quantile(differences, 0.997)


def test_all_images_leave_room_for_rounding_only():
    assert accuracy_tolerance(92.0, images=10_000, of=10_000) == pytest.approx(0.1)
    assert accuracy_tolerance(92.0, images=36, of=36) == pytest.approx(100 / 36)  # one image


def test_the_table_names_what_differs():
    rows = [Comparison("accuracy at 1.000, %", 92.06, 91.0, 0.1), Comparison("logit", 1, 1, 1e-3)]
    header, differs, agrees, sentence = format_comparisons(rows).splitlines()
    assert header.split() == ["published", "measured", "difference", "tolerance"]
    assert differs.split()[-5:] == ["92.06", "91.00", "-1.06", "0.10", "DIFFERS"]
    assert agrees.endswith("agrees") and sentence.startswith("1 of 2 numbers differ")


def test_limit_must_be_positive(published):
    with pytest.raises(ValueError, match="`limit` must be a positive .*limit=0"):
        verify(published / "zoo" / NAME, limit=0)
