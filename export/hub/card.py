"""The model card of a repository on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdn_keras import datasets
from gdn_keras.utils import cpu
from gdn_keras.utils.citation import BIBTEX
from gdn_keras.zoo import Folder, ModelInfo

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

CURVE = "accuracy.png"  # accuracy per size, in the zoo folder
_TASK = "image-classification"
_TAGS = ["gdn-keras", "gaussian-derivatives", "scale-space", "scale-covariance", "onnx"]
_TEMPLATE = Path(__file__).with_name("card.md.jinja")


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
    from huggingface_hub import ModelCard

    introduction, heading, rest = folder.card.partition("\n## ")
    card = ModelCard.from_template(
        _metadata(info),
        _TEMPLATE,
        introduction=introduction.rstrip(),
        sections=(heading + rest).strip(),
        curve=CURVE,
        show_curve=len(info.accuracy) > 1 and f"({CURVE})" not in folder.card,
        repo=repo,
        deviation=deviation,
        config=info.config,
        int8=int8,
        int8_cpu=int8 and cpu.text(int8["cpu"]),
        heading=datasets.describe(info.dataset).sizes.heading,
        bibtex=BIBTEX,
    )
    return f"{card}\n"


def _metadata(info: ModelInfo) -> ModelCardData:
    from huggingface_hub import EvalResult, ModelCardData

    data = datasets.describe(info.dataset)
    dataset = data.hub_id or data.name
    labels = {size: data.sizes.label(size) for size in info.accuracy}
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
    )
