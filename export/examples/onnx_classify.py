"""Classify an image with an exported network: only onnxruntime, numpy and Pillow are needed.

    python export/examples/onnx_classify.py IMAGE [--model MODEL.onnx]

The image gets the size and the surroundings that images had in training; the file says which.
`python -m export onnx NAME` makes the file, and every model repository of gdn_keras has it.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

EXPORTS = Path(__file__).parents[2] / "out" / "export"  # where `python -m export` writes


def classify(image: str, *, model: str) -> list[tuple[str, float]]:
    """Names and probabilities of all classes, best first."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    (entry,) = session.get_inputs()
    pixels = fit(image, facts, channels=entry.shape[3])
    dtype = np.uint8 if entry.type == "tensor(uint8)" else np.float32
    (logits,) = session.run(["logits"], {entry.name: pixels[None].astype(dtype)})[0]
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    names = json.loads(facts["class_names"])
    return [(names[k], float(probabilities[k])) for k in np.argsort(-logits)]


def read(image: str) -> Image.Image:
    """Upright, 8 bits per colour, transparent parts black."""
    with Image.open(image) as file:
        picture = ImageOps.exif_transpose(file)
    if picture.mode == "F" or picture.mode.startswith("I"):  # numbers without a fixed range
        values = np.asarray(picture).astype(np.float64)
        if picture.mode == "F" and 0 <= values.min() and 0 < values.max() <= 1:
            values *= 255
        highest = 255 if picture.mode == "F" else 65535
        if not (values.min() >= 0 and values.max() <= highest):
            raise ValueError(f"{image}: only values 0…255, or 0…65535 for whole numbers")
        if picture.mode.startswith("I;16") or values.max() > 255:
            values /= 257
        picture = Image.fromarray(np.round(values).astype(np.uint8))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        black = Image.new("RGBA", picture.size, (0, 0, 0, 255))
        picture = Image.alpha_composite(black, picture).convert("RGB")
    return picture


def fit(image: str, facts: dict[str, str], *, channels: int) -> np.ndarray:
    """The image in the middle of an array (height, width, channels) as large as the input."""
    picture = read(image).convert("RGB" if channels == 3 else "L")
    target = json.loads(facts["canvas"])
    if facts["trained_side"] == "fills":
        scale = min(target[0] / picture.height, target[1] / picture.width)
    else:  # the object stays as large as in training, whatever the size of the input
        scale = int(facts["trained_side"]) / max(picture.size)
    width, height = (max(1, round(scale * side)) for side in picture.size)
    pixels = np.asarray(picture.resize((width, height), Image.Resampling.BICUBIC))
    pixels = pixels.reshape(height, width, channels)
    for axis in (0, 1):
        excess = pixels.shape[axis] - target[axis]
        if excess > 0:
            pixels = np.take(pixels, range(excess // 2, excess // 2 + target[axis]), axis=axis)
        else:
            widths = [(0, 0)] * 3
            widths[axis] = (-excess // 2, -excess - -excess // 2)
            pixels = np.pad(pixels, widths, mode=facts["surroundings"])
    return pixels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("image", metavar="IMAGE")
    parser.add_argument("--model", help="default: model.onnx here, or the first in out/export/")
    args = parser.parse_args()
    places = [args.model] if args.model else ["model.onnx", *sorted(EXPORTS.glob("*/model.onnx"))]
    model = next((str(place) for place in places if Path(place).is_file()), None)
    if model is None:
        parser.error("there is no ONNX file; make one: python -m export onnx NAME")
    print(model)
    try:
        classes = classify(args.image, model=model)
    except (OSError, ValueError) as error:  # no image that can be read
        parser.error(str(error))
    for name, probability in classes[:3]:
        print(f"{probability:7.2%}  {name}")


if __name__ == "__main__":
    main()
