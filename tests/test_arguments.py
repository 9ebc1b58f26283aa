"""Arguments of a wrong type or value: one error, which names the argument and what came."""

import inspect
import re
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from helpers import small_config

import gdn_keras
from gdn_keras import accuracy, datasets, explain, filters, layers, scale_space, zoo
from gdn_keras.classify import classify
from gdn_keras.datasets.resize import resize_matrix
from gdn_keras.utils import checks
from gdn_keras.utils.checks import check_choice, check_integer, checked, did_you_mean


@pytest.fixture(scope="module")
def model():
    return gdn_keras.build_model(small_config())


IMAGES = np.zeros((1, 13, 12, 2))
EXAMPLES = {
    "class_names": lambda m: zoo.load("fashion_avg_2jet", class_names="abc"),
    "channel_sigmas": lambda m: zoo.load("fashion_avg_2jet", channel_sigmas="12"),
    "weights": lambda m: zoo.load("fashion_avg_2jet", weights="no"),
    "zero_order": lambda m: layers.JetLayer(3, sigma=1.0, zero_order="abc"),
    "ratio_range": lambda m: layers.JetLayer(3, sigma=1.0, ratio_range="ä"),
    "top": lambda m: classify(m, IMAGES, top=-1),
    "factor": lambda m: gdn_keras.at_scale(m, True),
    "model": lambda m: gdn_keras.fold(0),
    "name": lambda m: zoo.load(3),
    "config": lambda m: gdn_keras.build_model(None),
    "pattern": lambda m: zoo.list_models(pattern=5),
    "kernel": lambda m: scale_space.spatial_spread("a"),
    "scale": lambda m: resize_matrix(5, scale=float("nan")),
    "dataset": lambda m: zoo.list_models(dataset="nonsense"),
    "batch_size": lambda m: explain.scale_logits(m, IMAGES, batch_size=0),
    "layer": lambda m: m.maps_model(layer=True),
    "seed": lambda m: gdn_keras.build_model(m.config, seed="0"),
    "frozen": lambda m: gdn_keras.build_model(m.config, frozen=["jet_9"]),
    "limit": lambda m: accuracy.evaluate(m, dataset="fashion_mnist", limit=-1),
    "sizes": lambda m: accuracy.evaluate(m, dataset="fashion_mnist", sizes="1"),
    "rate": lambda m: layers.ScaleChannelDropout("0.5"),
    "sigma_weight_decay": lambda m: gdn_keras.ScaleAdamW(sigma_weight_decay=np.nan),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_argument_is_named(model, name):
    with pytest.raises(ValueError, match=rf"`{name}` must be .*Received: {name}="):
        EXAMPLES[name](model)


def test_brackets_without_end():
    text = "[" * 100_000
    with pytest.raises(ValueError, match="config .*JSON"):
        gdn_keras.GaussDerNetConfig.from_json(text)


def test_the_nearest_name_only_where_one_is_near():
    with pytest.raises(ValueError, match="'rescaled_cifar10'.*Received: dataset='rescaled_cifar'"):
        zoo.list_models(dataset="rescaled_cifar")
    for call in (
        lambda: zoo.list_models(dataset="nonsense"),
        lambda: zoo.load("qqq"),
        lambda: datasets.get("qqq"),
        lambda: small_config().replace(qqq=1),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert "Did you mean" not in str(error.value)


def test_the_nearest_name_is_asked_for():
    assert did_you_mean("abd", ["abc", "xyz"]) == " Did you mean 'abc'?"
    assert did_you_mean("long", ["a name with long", "xyz"]) == " Did you mean 'a name with long'?"
    assert did_you_mean("on", ["a name with long", "xyz"]) == ""
    assert did_you_mean("abcd", ["abce", "abcdf"], first=["abce"]) == (
        " Did you mean 'abce', 'abcdf'?"
    )


# === The checks themselves ===


@checked
def example(
    number: float,
    *,
    count: int = 1,
    flag: bool = True,
    names: tuple[str, ...] = (),
    pair: tuple[float, float] | None = None,
    array: np.ndarray = None,
    later: "Missing" = None,  # noqa: F821 (a class that only type checkers import)
):
    return number, count


class Missing:
    pass


RIGHT = [
    dict(number=1, count=np.int64(3), flag=np.True_, names=["a"], pair=(1, 2)),
    dict(number=np.float32(0.5), pair=np.array([0.0, 1.0]), array=[[1, 2], [3, 4]]),
    dict(number=-1e300, array=np.zeros(0), names=(), later=Missing()),
]
WRONG = [
    (dict(number=True), "`number` must be a finite number. Received: number=True."),
    (dict(number=np.nan), "`number` must be a finite number. Received: number=nan."),
    (dict(number=10**400), "`number` must be a finite number. Received: number=1000"),
    (dict(number=1, count=1.0), "`count` must be an integer. Received: count=1.0."),
    (dict(number=1, flag=1), "`flag` must be True or False. Received: flag=1."),
    (dict(number=1, names="ab"), "`names` must be a sequence of strings. Received: names='ab'."),
    (dict(number=1, pair=[1]), "`pair` must be None or a sequence of 2 finite numbers."),
    (dict(number=1, array="a"), "`array` must be an array of real numbers. Received: array='a'."),
    (dict(number=1, array=np.zeros(2, complex)), "Received: array=complex128 (2,)."),
    (dict(number=1, later=3), "`later` must be a Missing. Received: later=3."),
]


@pytest.mark.parametrize("arguments", RIGHT)
def test_what_the_annotations_allow_is_taken(arguments):
    assert example(**arguments) == (arguments["number"], arguments.get("count", 1))


@pytest.mark.parametrize("arguments, message", WRONG)
def test_what_the_annotations_exclude_is_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        example(**arguments)


@pytest.mark.parametrize("hint", [Sequence[np.ndarray], Sequence[float], tuple[int, ...]])
def test_an_array_is_checked_without_copying_its_pixels(hint):
    images = np.zeros((500, 32, 32, 3), np.uint8)
    tracemalloc.start()
    assert checks.has_type(images, hint) == (hint == Sequence[np.ndarray])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < images.nbytes / 2


def test_a_checked_function_keeps_its_signature():
    with pytest.raises(TypeError, match="'size'"):
        example(1, size=2)
    assert inspect.signature(example).parameters["count"].default == 1


@pytest.mark.parametrize("value", [True, 2.0, "2", np.ones(2), None], ids=repr)
def test_choices(value):
    assert check_choice("order", np.int64(2), (1, 2)) == 2
    with pytest.raises(ValueError, match=r"`order` must be one of \(1, 2\).*Received: order="):
        check_choice("order", value, (1, 2))


@pytest.mark.parametrize("value", [0, 2**21, 1.0, False])
def test_bounds(value):
    with pytest.raises(ValueError, match=f"`n` must be an integer of at least 1.*n={value}"):
        check_integer("n", value, low=1)


def test_every_public_function_is_checked():
    """A new one without `@checked` (or `check_choice` on its only argument) is noticed here."""
    by_hand = {"discretisation_of", "names", "get", "tfds_builder", "known_models", "folders"}
    by_hand |= {"write_folder", "smoothing_kernel", "derivative_label", "scale_logits_model"}
    by_hand |= {"find"}
    inner = {checks.__name__, "gdn_keras.utils.pixels", "gdn_keras.scale_space.plan"}
    missing = []
    for module in (gdn_keras, scale_space, datasets, zoo, explain, filters, accuracy):
        for name, value in vars(module).items():
            ours = inspect.isfunction(value) and value.__module__.startswith("gdn_keras")
            if ours and not name.startswith("_") and value.__module__ not in inner:
                if not hasattr(value, "__wrapped__") and name not in by_hand:
                    missing.append(f"{value.__module__}.{name}")
    assert not missing
