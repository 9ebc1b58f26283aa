"""Classify an image with an exported network: only onnxruntime, numpy and Pillow are needed.

    python onnx_classify.py MODEL.onnx IMAGE

The image is scaled so that its longer side fills the network's input, and centred on black.
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image


def main(model: str, image: str) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    (entry,) = session.get_inputs()
    height, width = json.loads(facts["trained_size"])
    colour = entry.shape[3] == 3
    with Image.open(image) as file:
        picture = file.convert("RGB" if colour else "L")
    factor = min(height / picture.height, width / picture.width)
    size = [max(1, round(factor * side)) for side in picture.size]
    canvas = Image.new(picture.mode, (width, height))
    canvas.paste(picture.resize(size), ((width - size[0]) // 2, (height - size[1]) // 2))
    pixels = np.asarray(canvas).reshape(1, height, width, entry.shape[3])
    dtype = np.uint8 if entry.type == "tensor(uint8)" else np.float32
    (logits,) = session.run(["logits"], {entry.name: pixels.astype(dtype)})[0]
    probabilities = np.exp(logits - logits.max())
    probabilities /= probabilities.sum()
    names = json.loads(facts["class_names"]) or list(range(len(logits)))
    for index in np.argsort(-logits)[:3]:
        print(f"{probabilities[index]:7.2%}  {names[index]}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
