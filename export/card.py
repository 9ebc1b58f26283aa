"""The model card of a repository on the Hugging Face Hub: for the Hub and for people."""

from __future__ import annotations

from typing import Any

from gdn_keras import cpu, datasets, markdown
from gdn_keras.citation import BIBTEX
from gdn_keras.zoo import Folder, ModelInfo

CURVE = "accuracy.png"  # accuracy per size, in the zoo folder
_TASK = "image-classification"
_TAGS = ["gdn-keras", "gaussian-derivatives", "scale-space", "scale-covariance", "onnx"]
_CITATION = f"```bibtex\n{BIBTEX}\n```\n"
_USE = """## Use
The repository is an unzipped Keras model and a folder of the `gdn_keras` zoo at the same time.
`gdn_keras` is installed from a clone of its repository with `pip install .`.

### Keras

```python
import gdn_keras  # Keras then knows the network's class
import keras

model = keras.saving.load_model("hf://{repo}")  # raw pixels 0…255 in, logits out
```

or, with the hash of the weights checked, at one commit if you like, and for other sizes, scales
and densities:

```python
import gdn_keras

model = gdn_keras.zoo.load("hf://{repo}")
```

### ONNX

`model.onnx` deviates from Keras by {deviation:.1e} at most, on sample and random images in batches
of 1, 3 and 32. It needs no Keras:

```python
import json

import numpy as np
import onnxruntime
from huggingface_hub import hf_hub_download

session = onnxruntime.InferenceSession(hf_hub_download("{repo}", "model.onnx"))
names = json.loads(session.get_modelmeta().custom_metadata_map["class_names"])
pixels = np.zeros((1, {height}, {width}, {channels}), "float32")  # your image, 0…255
(logits,) = session.run(["logits"], {{"image": pixels}})
print(names[logits[0].argmax()])
```

{int8}### Fine-tune

```python
import gdn_keras
import keras

model = gdn_keras.zoo.load("hf://{repo}", num_classes=2)  # a new last layer, the rest kept
model.compile(
    optimizer=keras.optimizers.AdamW(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(images, labels, batch_size=16, epochs=1)  # your images, 0…255, and their classes
```

{sizes}

"""
_SEVERAL_CHANNELS = """\
All scale channels share the weights, so what is learned at one size holds at the others that the
channels cover."""
_ONE_CHANNEL = """\
The network has one scale channel, so it knows objects only near the size that it was trained at;
`gdn_keras.at_scale(model, 2.0)` is the same network for objects twice as large."""


def hub_card(
    folder: Folder,
    info: ModelInfo,
    *,
    repo: str,
    deviation: float,
    int8: dict[str, Any] | None = None,
) -> str:
    """README.md of the repository: metadata, the folder's own card, how to use it, citation.

    Args:
        repo: owner/name.
        deviation: of the ONNX file from Keras.
        int8: the report of the quantised file, if there is one.
    """
    height, width = info.config.input_size
    use = _USE.format(
        repo=repo,
        deviation=deviation,
        height=height,
        width=width,
        channels=info.config.input_channels,
        int8="" if int8 is None else _int8(int8),
        sizes=_ONE_CHANNEL if len(info.config.channel_sigmas) == 1 else _SEVERAL_CHANNELS,
    )
    start, heading, rest = folder.card.partition("\n## ")
    if len(info.accuracy) > 1 and f"({CURVE})" not in folder.card:
        start += f"\n![accuracy per size]({CURVE})\n"
    return f"---\n{_metadata(info)}\n---\n\n{start}\n{use}{heading.lstrip()}{rest}\n{_CITATION}"


def _metadata(info: ModelInfo) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    known = datasets.describe(info.dataset)
    dataset = known.hub_id or known.name
    labels = {size: known.sizes.label(size) for size in info.accuracy}
    results = [
        EvalResult(
            task_type=_TASK,
            dataset_type=dataset,
            dataset_name=f"{info.dataset}, {labels[size]}",
            dataset_config=labels[size].replace(" ", "_"),
            dataset_split="test",
            metric_type="accuracy",
            metric_name=f"accuracy, {labels[size]}",
            metric_value=value,
        )
        for size, value in info.accuracy.items()
    ]
    return ModelCardData(
        library_name="keras",
        pipeline_tag=_TASK,
        license=info.licence.lower(),
        datasets=[dataset],
        metrics=["accuracy"],
        tags=[*_TAGS, info.dataset],
        model_name=info.name,
        eval_results=results,
    ).to_yaml()


def _int8(report: dict[str, Any]) -> str:
    sizes = list(report["int8"])
    heading = datasets.describe(report["dataset"]).sizes.heading
    rows = (
        [label, *(f"{100 * report[key][size]:.2f}" for size in sizes)]
        for label, key in (("float %", "float"), ("int8 %", "int8"))
    )
    table = markdown.table(["size", *map(heading, sizes)], rows=rows)
    return (
        "`model.int8.onnx` is the same network in 8-bit integers; accuracy on all "
        f"{report['num_test_images']:,} test images per size, measured on "
        f"{cpu.text(report['cpu'])}:\n\n{table}\n\n"
        "It computes the same on CPUs with and without VNNI.\n\n"
    )
