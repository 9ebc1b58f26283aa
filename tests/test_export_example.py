"""The deployment example, in a virtual environment that has what it needs and nothing else."""

import importlib.util
import json
import subprocess
import sys
from importlib import metadata

import numpy as np
import onnx
import pytest
from export_tools import ROOT
from packaging.requirements import Requirement
from PIL import Image
from zoo_tools import predict, write_tiny

from export.__main__ import main
from gdn_keras import zoo
from gdn_keras.classify import read_image

EXAMPLE = ROOT / "export" / "examples" / "onnx_classify.py"
PACKAGES = ["onnxruntime", "numpy", "pillow"]


def link_installed(site, packages):
    """Link the files of installed packages, of those they require, and of no others."""
    todo, done = list(packages), set()
    while todo:
        package = metadata.distribution(todo.pop())
        if package.name in done:
            continue
        done.add(package.name)
        for file in package.files:
            if not {"..", "__pycache__"} & set(file.parts):
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                (site / file).symlink_to(file.locate())
        for requirement in map(Requirement, package.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.append(requirement.name)


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory):
    path = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    python = str(path / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--retries", "0"]
    command = [*pip, "--quiet", "--only-binary", ":all:", *PACKAGES]
    if subprocess.run(command, capture_output=True).returncode:  # then those installed here
        link_installed(next(path.glob("lib/python*/site-packages")), PACKAGES)
    for module in ("keras", "tensorflow", "onnx", "gdn_keras"):
        command = [python, "-c", f"import {module}"]
        assert subprocess.run(command, capture_output=True).returncode == 1, f"{module} is there"
    return python


def picture(path):
    """A coloured picture that is neither square nor of the network's size."""
    pixels = np.random.default_rng(0).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((140, 90), Image.Resampling.BICUBIC).save(path)
    return path


@pytest.mark.heavy
@pytest.mark.parametrize(
    "dataset, options",
    [
        ("rescaled_cifar10", []),  # mirrored surroundings, colour
        ("rescaled_fashion_mnist", ["--uint8"]),  # black surroundings, grey
        ("fashion_mnist", ["--exact", "--dynamic-size"]),  # fills the input
        ("fashion_mnist", ["--size", "96x128"]),  # fills a larger one
    ],
)
def test_the_example_says_what_gdn_keras_says(clean_python, tmp_path, dataset, options):
    folder = write_tiny(tmp_path, "net", dataset=dataset)
    model_file = tmp_path / "model.onnx"
    assert main(["onnx", str(folder.path), "-o", str(model_file), *options]) == 0
    image = picture(tmp_path / "image.png")
    command = [clean_python, str(EXAMPLE), str(image)]  # model.onnx is where the user is
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    where, *lines = done.stdout.splitlines()
    assert where == "model.onnx" and done.stderr == ""
    found = [(name, float(share.rstrip("%"))) for share, name in (x.split("  ") for x in lines)]

    changes = {"--exact": {"sampling_density": None}, "--size": {"input_size": (96, 128)}}
    model = zoo.load(folder.path, **changes.get(options[0] if options else "", {}))
    pixels = read_image(image, config=model.config, dataset=dataset).pixels
    logits = predict(model, pixels[None])[0]
    shares = np.exp(logits - logits.max())
    shares *= 100 / shares.sum()
    for (name, share), k in zip(found, np.argsort(-logits)[:3], strict=True):
        assert share == pytest.approx(shares[k], abs=0.02)
        assert name == model.config.class_names[k]


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("onnx_classify", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def save_pictures(folder):
    """Turned, transparent, deep and otherwise unusual pictures; their paths."""
    pixels = np.random.default_rng(0).integers(0, 256, (9, 14, 4), dtype=np.uint8)
    large = Image.fromarray(pixels).resize((140, 90), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    grey = np.asarray(large.convert("L"))
    files = {
        "turned.jpg": large.convert("RGB"),
        "transparent.png": large,
        "grey_transparent.png": large.convert("LA"),
        "palette.gif": large.convert("RGB").quantize(),
        "palette_transparent.png": large.convert("RGB").quantize(),
        "cmyk.tif": large.convert("CMYK"),
        "bits.png": large.convert("1"),
        "deep.png": Image.fromarray(grey.astype(np.uint16) * 201),
        "dark_deep.png": Image.fromarray(grey.astype(np.uint16)),  # 16 bits, if hardly used
        "long.tif": Image.fromarray(grey.astype(np.int32)),
        "long_deep.tif": Image.fromarray(grey.astype(np.int32) * 201),
        "float.tif": Image.fromarray(grey.astype(np.float32)),
    }
    options = {"turned.jpg": {"exif": exif}, "palette_transparent.png": {"transparency": 3}}
    for name, image in files.items():
        image.save(folder / name, **options.get(name, {}))
    return [folder / name for name in files]


@pytest.mark.parametrize("size", [None, (96, 128)], ids=["trained size", "96x128"])
@pytest.mark.parametrize("dataset", ["rescaled_cifar10", "fashion_mnist"])
def test_the_example_reads_pictures_as_gdn_keras_does(example, tmp_path, dataset, size):
    folder = write_tiny(tmp_path, "net", dataset=dataset)
    model_file = tmp_path / "model.onnx"
    options = [] if size is None else ["--size", "{}x{}".format(*size)]
    assert main(["onnx", str(folder.path), "-o", str(model_file), *options]) == 0
    facts = {entry.key: entry.value for entry in onnx.load(model_file).metadata_props}
    config = folder.config.replace(input_size=size or folder.config.input_size)
    assert tuple(json.loads(facts["trained_size"])) == folder.config.input_size
    assert tuple(json.loads(facts["canvas"])) == config.input_size
    for path in save_pictures(tmp_path):
        expected = read_image(path, config=config, dataset=dataset).pixels
        found = example.fit(str(path), facts, channels=folder.config.input_channels)
        np.testing.assert_array_equal(found, expected, err_msg=path.name)
        assert np.ptp(expected) > 0 or path.name == "dark_deep.png"


@pytest.fixture(scope="module")
def nameless(tmp_path_factory):
    """A network without class names, with its ONNX file inside."""
    folder = write_tiny(tmp_path_factory.mktemp("zoo"), "net", class_names=())
    assert main(["onnx", str(folder.path), "-o", str(folder.path / "model.onnx")]) == 0
    return folder


def test_the_example_gives_numbers_for_classes_without_names(example, nameless, tmp_path):
    folder = nameless
    image = picture(tmp_path / "image.png")
    found = example.classify(str(image), model=str(folder.path / "model.onnx"))
    pixels = read_image(image, config=folder.config, dataset="fashion_mnist").pixels
    order = np.argsort(-predict(zoo.load(folder.path), pixels[None])[0])
    assert [name for name, _ in found] == [str(k) for k in order]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"no picture", "cannot identify image file"),
        (np.full((4, 4), 1e6, np.int32), "0…65535"),
        (np.full((4, 4), np.nan, np.float32), "0…255"),
    ],
    ids=["text", "large", "nan"],
)
def test_the_example_says_what_it_cannot_read(
    example, nameless, tmp_path, monkeypatch, capsys, content, message
):
    path = tmp_path / "image.tif"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        Image.fromarray(content).save(path)
    monkeypatch.chdir(nameless.path)
    monkeypatch.setattr(sys, "argv", ["onnx_classify.py", str(path)])
    with pytest.raises(SystemExit) as stop:
        example.main()
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_the_example_asks_for_a_model(tmp_path):
    image = picture(tmp_path / "image.png")
    command = [sys.executable, str(EXAMPLE), str(image), "--model", "nothing.onnx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "python -m export onnx NAME" in done.stderr
