"""Wrong inputs: our own error that names the argument, or finite numbers. See `fuzz_tools.py`."""

import copy
import dataclasses
import io
import json
import shutil

import keras
import numpy as np
import pytest
from fuzz_tools import JSON, JUNK, assert_finite, assert_ours, examples, outcome, wrong_arguments
from helpers import random_images, small_config
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from zoo_tools import write_tiny

import gdn_keras
from export.__main__ import main as export
from gdn_keras import GaussDerNetConfig, datasets, explain, layers, scale_space, zoo
from gdn_keras.__main__ import main
from gdn_keras.classify import FITS, classify, read_image
from gdn_keras.datasets import resize
from gdn_keras.filters import closest_derivatives, effective_filters, strongest_pairs
from gdn_keras.zoo import registry
from training.__main__ import main as training

SMALL = {f.name: getattr(small_config(), f.name) for f in dataclasses.fields(GaussDerNetConfig)}
PIXELS = np.zeros((2, 9, 9, 1), np.uint8)


# === Functions without a network ===

KERNEL = dict(
    sigma=1.0, method="integrated", truncation=0.01, offset=0.0, compensate_integration=False
)
CALLS = {  # valid ones; arguments are replaced by something else
    scale_space.smoothing_kernel: {**KERNEL, "radius": 3},
    scale_space.derivative_kernel: {**KERNEL, "order": 1, "radius": None},
    scale_space.truncation_radius: {**KERNEL, "order": 2},
    scale_space.difference_mask: dict(order=2),
    scale_space.difference_kernel: dict(kernel=np.ones(3), order=1, step=2),
    scale_space.jet_terms: dict(order=2, zero_order=True),
    scale_space.jet_masks: dict(order=3, zero_order=False),
    scale_space.mask_2d: dict(term=scale_space.jet_terms(2)[3], radius=2),
    scale_space.scale_normalisation: dict(sigma=2.0, order=1),
    scale_space.directional_weights: dict(order=2, angle=0.3),
    scale_space.discretisation_of: dict(method="sampled"),
    scale_space.channel_scales: dict(first=0.5, num_channels=3, spacing=2.0),
    scale_space.scale_levels: dict(channel_sigmas=(0.5, 1.0), ratio=1.5, num_layers=3),
    scale_space.fit_geometric: dict(layer_sigmas=[1.0, 2.0, 3.0]),
    scale_space.spatial_spread: dict(kernel=[0.25, 0.5, 0.25]),
    scale_space.plan_channel: dict(
        image_size=(13, 12),
        sigmas=(0.7, 1.4),
        smoothing=scale_space.Smoothing(),
        ring=1,
        selection="centre",
        density=0.7,
        reach=1.0,
        radius_sigmas=None,
        window=True,
    ),
    resize.resize_matrix: dict(n=5, scale=0.5, mode="matlab"),
    resize.resample_matrix: dict(n=5, positions=np.arange(4.0), scale=1.0, strips=None),
    datasets.imresize: dict(image=PIXELS[0], scale=(2.0, 0.5), mode="centred"),
    datasets.rescale: dict(
        images=PIXELS, size_factor=1.5, canvas=16, extension="zero", corners=None
    ),
    datasets.load_samples: dict(name="rescaled_cifar10", size_factor=0.5),
    datasets.get: dict(name="cifar10"),
    datasets.describe: dict(name="cifar10"),
    datasets.register: dict(dataset=datasets.DataSet(name="fuzz")),
    datasets.training_batches: dict(
        arrays=datasets.load_samples("cifar10"),
        batch_size=8,
        seed=0,
        augment=("flip",),
        drop_remainder=True,
    ),
    datasets.Arrays: dict(images=PIXELS, labels=[0, 1], class_names=("a", "b"))
    | dict(object_sizes=None, object_positions=np.zeros((2, 2), int)),
    datasets.DataSet: dict(name="fuzz", title="", image_size=(9, 9), channels=1, num_classes=2)
    | dict(class_names=("a", "b"), num_images=(1, 1), sizes=datasets.SizeFactors(), licence="")
    | dict(surroundings="black", loader=datasets.Loader(), samples=None),
    datasets.load_arrays: dict(
        name="cifar10", split="test", size_factor=1.0, data_dir="nowhere", limit=3
    ),
    datasets.load_stir: dict(
        path_or_name="stir_emoji", split="test", sizes="small", data_dir="nowhere"
    ),
    datasets.load_hdf5: dict(path="nowhere.h5", split="test"),
    explain.pool_over_scales: dict(scale_logits=np.ones((2, 3, 4)), pooling="max"),
    explain.scale_shares: dict(scale_logits=np.ones((2, 3, 4)), pooling="average", classes=None),
    explain.find_objects: dict(
        maps=np.ones((2, 5, 5, 3)), radii=[1.0, 2.0], max_objects=2, relative_threshold=0.5
    ),
    explain.derivative_label: dict(kind="first", angle=0.5),
    zoo.list_models: dict(
        pattern="f*", dataset="fashion_mnist", scale_pooling="max", jet_order=2, method="discrete"
    )
    | dict(trained=False, min_accuracy=0.5),
    zoo.info: dict(name="fashion_avg_2jet", revision=None, offline=True, cache_dir=None),
    zoo.load: dict(name="nothing", weights=True, revision=None, offline=True, cache_dir=None),
    zoo.download: dict(name="nothing", revision=None, cache_dir=None, force=False),
    zoo.read_folder: dict(path="nowhere", weights=True),
}


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """A random name must not become a request to the Hub, nor a file in the clone."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("GDN_KERAS_DATA", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)


@examples(1500)
@given(data=st.data())
def test_arguments_of_functions(data):
    function = data.draw(st.sampled_from(list(CALLS)))
    arguments, names = data.draw(wrong_arguments(CALLS[function]))
    # a message about a file or a network has its name instead of the word
    names += [str(value) for value in arguments.values() if isinstance(value, str)]
    outcome(function, arguments, names=[*names, "file", "folder"])


def test_every_public_function_of_the_mathematics_is_tried():
    public = {
        value
        for value in vars(scale_space).values()
        if callable(value) and not isinstance(value, type)
    }
    assert public <= set(CALLS)


# === Configs and networks ===


@examples(600)
@given(wrong_arguments(SMALL))
def test_configs(wrong):
    arguments, names = wrong
    config = outcome(GaussDerNetConfig, arguments, names=names)
    if config is not None:
        again = GaussDerNetConfig.from_json(config.to_json())
        assert again == config and again.sha256() == config.sha256()


@examples(200)
@given(st.one_of(st.text(max_size=20), JSON.map(json.dumps), st.just("[" * 100_000)))
def test_texts_that_are_no_config(text):
    assert outcome(GaussDerNetConfig.from_json, {"text": text}, names=["config"]) is None


@pytest.fixture(scope="module")
def model():
    return gdn_keras.build_model(small_config(pixel_range=(0, 1), class_names=tuple("abc")))


SANE = {  # values that may be right, for fields that decide what is built
    "input_size": st.tuples(st.integers(0, 20), st.integers(0, 20)),
    "channel_sigmas": st.lists(st.floats(0, 9), max_size=3),
    "sigma_ratio": st.one_of(st.floats(0, 4), st.tuples(st.floats(0.9, 3), st.floats(0.9, 3))),
    "jet_order": st.integers(0, 5),
    "method": st.sampled_from(scale_space.METHODS),
    "truncation": st.floats(0, 1),
    "padding": st.sampled_from(scale_space.PADDINGS),
    "spatial_selection": st.sampled_from(scale_space.SELECTIONS),
    "sampling_density": st.floats(0.1, 3),
    "reach": st.floats(0, 3),
    "activation": st.sampled_from(["gelu", "tanh", "softplus", "none"]),
    "pixel_range": st.tuples(st.integers(0, 1), st.integers(0, 300)),
    "compensate_integration": st.booleans(),
    "zero_order": st.booleans(),
}


@examples(10)
@given(st.fixed_dictionaries({}, optional=SANE))
def test_networks(changes):
    config = outcome(GaussDerNetConfig, {**SMALL, **changes}, names=list(SANE))
    assume(config is not None)
    model = outcome(gdn_keras.build_model, {"config": config}, names=list(SANE))
    assume(model is not None)
    white = config.pixel_range[1]
    logits = model.predict_on_batch(random_images(config, batch=1) / 255 * white)
    dense = (*config.input_size, len(config.channel_sigmas))  # at every pixel, for every channel
    shape = dense if config.spatial_selection == "none" else ()
    assert logits.shape == (1, *shape, config.num_classes) and np.isfinite(logits).all()
    again = type(model).from_config(json.loads(json.dumps(model.get_config())))
    assert again.config == config and again.get_config() == model.get_config()


NETWORK_CALLS = {
    gdn_keras.adapt: dict(padding="edge", input_size=(9, 9), channel_sigmas=(1.0,)),
    gdn_keras.at_scale: dict(factor=2.0),
    gdn_keras.fold: {},
    classify: dict(pixels=np.zeros((1, 13, 12, 2)), top=2),
    explain.scale_logits: dict(images=np.zeros((1, 13, 12, 2)), batch_size=2),
    explain.scale_contributions: dict(images=np.zeros((1, 13, 12, 2)), batch_size=2),
    explain.localise: dict(
        image=np.zeros((5, 5, 2)), max_objects=1, relative_threshold=0.5, extent=2.0
    ),
    explain.receptive_radii: dict(extent=2.0),
    explain.sigmas_and_fit: dict(channel=1),
    effective_filters: dict(layer=2, pairs=np.array([[0, 1]]), channel=0),
    strongest_pairs: dict(layer=1, count=2, channel=1),
    closest_derivatives: dict(layer=1, channel=1),
}


@examples(200)
@given(data=st.data())
def test_arguments_of_functions_of_a_network(model, data):
    function = data.draw(st.sampled_from(list(NETWORK_CALLS)))
    valid = {"model": model, **NETWORK_CALLS[function]}
    arguments, names = data.draw(wrong_arguments(valid))
    if function is gdn_keras.adapt and isinstance(arguments["model"], gdn_keras.GaussDerNet):
        function = lambda model, **changes: model.config.replace(**changes)  # noqa: E731
    result = outcome(function, arguments, names=names, finite=False)
    if not isinstance(result, keras.Model | explain.Closest):
        assert_finite(result)


@examples(200)
@given(JUNK)
def test_images_that_are_no_images(model, images):
    assert outcome(model.predict, {"x": images}, names=["mages"]) is None
    assert outcome(model, {"inputs": images}, names=["mages"]) is None


# === Layers ===

LAYERS = {
    layers.JetLayer: dict(
        filters=3,
        sigma=1.0,
        jet_order=2,
        zero_order=True,
        method="integrated",
        padding="edge",
        truncation=0.01,
        compensate_integration=False,
        use_bias=True,
        learned_ratio=None,
        ratio_range=(0.5, 2.0),
        plans=None,
    ),
    layers.ScaleBatchNormalization: dict(momentum=0.9, epsilon=1e-5, synchronized=False),
    layers.SpatialSelection: dict(mode="max"),
    layers.ScalePooling: dict(mode="logsumexp"),
    layers.ScaleChannelDropout: dict(rate=0.3, seed=1),
    layers.Clamp: dict(low=0.5, high=2.0),
    gdn_keras.ScaleAdamW: dict(sigma_learning_rate_factor=1.0, sigma_weight_decay=0.1),
}


@examples(200)
@given(data=st.data())
def test_layers(data):
    layer_class = data.draw(st.sampled_from(list(LAYERS)))
    arguments, names = data.draw(wrong_arguments(LAYERS[layer_class]))
    layer = outcome(layer_class, arguments, names=names)
    if layer is None:
        return
    again = layer_class.from_config(copy.deepcopy(layer.get_config()))
    assert again.get_config() == layer.get_config()
    if layer_class is layers.JetLayer and not isinstance(layer.sigma, tuple):
        maps = layer(np.ones((1, 5, 6, 2), "float32"))
        assert np.isfinite(keras.ops.convert_to_numpy(maps)).all()


# === Files ===


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny(tmp_path_factory.mktemp("zoo"), "net").path


def image_files():
    ramp = np.tile(np.linspace(0, 255, 20).astype(np.uint8), (15, 1))
    files = {"png": ramp, "jpeg": ramp, "gif": ramp, "bmp": ramp, "webp": ramp, "tiff": ramp}
    files["float.tiff"] = ramp.astype(np.float32) / 255
    contents = {}
    for name, pixels in files.items():
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, format=name.split(".")[-1])
        contents[name] = target.getvalue()
    return contents


@examples(200)
@given(data=st.data())
def test_damaged_image_files(tmp_path, data):
    kind, content = data.draw(st.sampled_from(list(image_files().items())))
    content = bytearray(content)
    for _ in range(data.draw(st.integers(0, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"image.{kind}"
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    fit = data.draw(st.sampled_from(list(FITS)))
    arguments = dict(image=path, config=small_config(input_channels=1), dataset="fashion_mnist")
    image = outcome(read_image, {**arguments, "fit": fit}, names=[path.name])
    assert image is None or (image.pixels.shape, image.pixels.dtype) == ((13, 12, 1), np.uint8)


def damage_json(data, path):
    """Another value, a missing key, a new one, or half of the file."""
    content = json.loads(path.read_text())
    what = data.draw(st.sampled_from(["value", "missing", "new", "half"]))
    key = data.draw(st.sampled_from(sorted(content)))
    if what == "half":
        text = path.read_text()
        path.write_text(text[: data.draw(st.integers(0, len(text) - 2))])
        return
    if what == "missing":
        del content[key]
    else:
        content[key if what == "value" else "unknown"] = data.draw(JSON)
    path.write_text(json.dumps(content))


@examples(200)
@given(data=st.data())
def test_damaged_zoo_folders(folder, tmp_path, data):
    copied = shutil.copytree(folder, tmp_path / "net", dirs_exist_ok=True)
    name = data.draw(st.sampled_from(["config.json", "metrics.json", "recipe.json"]))
    damage_json(data, copied / name)
    read = outcome(zoo.read_folder, {"path": copied}, names=[name])
    if read is not None:
        assert zoo.ModelInfo.from_dict(json.loads(json.dumps(read.info().to_dict())))
        assert str(read.info())


@examples(60)
@given(data=st.data())
def test_damaged_registries(folder, tmp_path, data):
    info = zoo.read_folder(folder).info()
    path = tmp_path / registry.REGISTRY_FILE
    entry = json.loads(registry.registry_text({"net": info}))
    path.write_text(json.dumps(entry["models"]["net"]))
    damage_json(data, path)
    try:
        entry["models"]["net"] = json.loads(path.read_text())
    except ValueError:
        assume(False)
    path.write_text(json.dumps(entry))
    read = outcome(registry.read_registry, {"root": tmp_path}, names=[path.name])
    if read is not None:
        assert registry.read_registry(tmp_path) == read and str(read["net"])


# === Command lines ===

WORDS = st.one_of(
    st.sampled_from(["list", "info", "predict", "verify", "download", "evaluate", "--json"]),
    st.sampled_from(["--dataset", "--jet-order", "--min-accuracy", "--top", "--limit", "--size"]),
    st.sampled_from(["net", "nothing", "./net", "https://a//b.png", "--fit", "cover", "--help"]),
    st.sampled_from(["0", "-1", "2", "nan", "1e999", "", "*", "[", "\0"]),
    st.text(max_size=5),
)


# of the other two, what does nothing without the name of a network
COMMANDS = [
    *((training, name) for name in ("run", "evaluate", "publish", "verify", "list")),
    *((export, name) for name in ("onnx", "saved-model", "litert", "hub", "sign")),
]
OPTIONS = st.one_of(
    st.sampled_from(["nothing", "--seed", "--runs", "--set", "--budget", "--precision", "--limit"]),
    st.sampled_from(["--opset", "--density", "--size", "--repo", "a/b", "--key", "--dry-run"]),
    st.sampled_from(["0", "-1", "nan", "epochs=x", "1x1", "", "\0", "--help"]),
    st.text(alphabet="ab-=/ä", max_size=4),
)


def assert_answer(command, words, capsys):
    try:
        code = command(words)
    except SystemExit as end:
        code = end.code
    errors = capsys.readouterr().err
    assert code in (0, 1, 2)
    assert (code != 0) == ("error: " in errors), errors
    assert "Traceback" not in errors


@examples(300)
@given(words=st.lists(WORDS, max_size=6))
def test_command_lines(folder, monkeypatch, capsys, words):
    assume("evaluate" not in words[:1] or "net" not in words)  # which would load a data set
    monkeypatch.setenv("GDN_KERAS_ZOO", str(folder.parent))
    assert_answer(main, words, capsys)


@examples(150)
@given(command=st.sampled_from(COMMANDS), words=st.lists(OPTIONS, max_size=5))
def test_the_other_command_lines(capsys, command, words):
    run, name = command
    assert_answer(run, [name, *words], capsys)


def test_an_error_of_another_library_is_a_failure():
    with pytest.raises(AssertionError):
        outcome(np.linspace, {"start": 0, "stop": 1, "num": -1}, names=["num"])
    with pytest.raises(AssertionError):
        outcome(scale_space.difference_mask, {"order": 9}, names=["sigma"])
    try:
        scale_space.difference_mask(9)
    except ValueError as error:
        assert_ours(error)
