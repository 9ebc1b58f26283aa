"""The deployment example, in a virtual environment that has what it needs and nothing else."""

import subprocess
import sys

import numpy as np
import pytest
from export_tools import ROOT
from PIL import Image
from zoo_tools import predict, write_tiny

from export.__main__ import main
from gdn_keras import zoo
from gdn_keras.predict import read_image

EXAMPLE = ROOT / "export" / "examples" / "onnx_classify.py"
PACKAGES = ["onnxruntime", "numpy", "pillow"]


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory):
    path = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
    python = str(path / "bin" / "python")
    install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--retries", "0"]
    done = subprocess.run([python, *install, *PACKAGES], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{', '.join(PACKAGES)} cannot be had: {done.stderr.splitlines()[-1:]}")
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

    density = None if options[:1] == ["--exact"] else folder.config.sampling_density
    model = zoo.load(folder.path, sampling_density=density)
    pixels = read_image(image, config=model.config, dataset=dataset).pixels
    logits = predict(model, pixels[None])[0]
    shares = np.exp(logits - logits.max())
    shares *= 100 / shares.sum()
    for (name, share), k in zip(found, np.argsort(-logits)[:3], strict=True):
        assert share == pytest.approx(shares[k], abs=0.02)
        assert name == model.config.class_names[k]


def test_the_example_asks_for_a_model(tmp_path):
    image = picture(tmp_path / "image.png")
    command = [sys.executable, str(EXAMPLE), str(image), "--model", "nothing.onnx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "python -m export onnx NAME" in done.stderr
