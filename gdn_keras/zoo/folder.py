"""A zoo folder: what the network is, its weights, what was measured, how it was made, and a card.

This is the only module that knows the file names in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdn_keras.config import GaussDerNetConfig
from gdn_keras.datasets import DataSet
from gdn_keras.datasets.arrays import readable
from gdn_keras.datasets.own.dataset import (
    own_record,
    read_record,
    read_samples,
    register_folder,
    samples_file,
)
from gdn_keras.utils.checks import check_type, checked, has_type
from gdn_keras.zoo.records import Metrics, ModelInfo, read_json, to_json
from gdn_keras.zoo.weights import assign_weights, file_sha256, read_weights

if TYPE_CHECKING:
    import keras

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.weights.h5"
METRICS_FILE = "metrics.json"
RECIPE_FILE = "recipe.json"
CARD_FILE = "README.md"
# of networks for data of one's own: the record of the data set, and a few of its test images
DATA_FILES = DATA_FILE, SAMPLES_FILE = "data.json", "samples.npz"
SIGNATURE_FILE = "model.sig"  # optional
FILES = (CONFIG_FILE, WEIGHTS_FILE, METRICS_FILE, RECIPE_FILE, CARD_FILE)
DESCRIPTION_FILES = (CONFIG_FILE, METRICS_FILE, RECIPE_FILE, CARD_FILE)  # all but the weights
# What recipe.json must say: the recipe's name, the budget that ran, its seed and the finished
# networks that it started from (an empty list for random weights); for STIR also `train_sizes`,
# the name of a range of object sizes. Other keys belong to the trainer.
RECIPE_KEYS = {"name": str, "budget": str, "seed": int, "lineage": list[str]}
OWN_DATA = "own_data"  # key of recipe.json: there are DATA_FILES
# of the classes of networks in Keras
REGISTERED_NAMES = ("gdn_keras>GaussDerNet", "gdn_keras>ImageClassifier")


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A zoo folder that has been read and checked; the weights are still in their file."""

    path: Path
    config: GaussDerNetConfig
    metrics: Metrics
    recipe: dict[str, Any]
    card: str

    @property
    def weights_file(self) -> Path:
        return self.path / WEIGHTS_FILE

    def info(self) -> ModelInfo:
        """What `gdn_keras.zoo.info` says about the network."""
        same = {field.name for field in dataclasses.fields(ModelInfo)} & set(vars(self.metrics))
        return ModelInfo(
            name=Path(os.path.abspath(self.path)).name,  # also of "."
            config=self.config,
            recipe=self.recipe["name"],
            budget=self.recipe["budget"],
            seed=self.recipe["seed"],
            train_sizes=self.recipe.get("train_sizes"),
            lineage=tuple(self.recipe["lineage"]),
            **{name: getattr(self.metrics, name) for name in same},
        )


@checked
def read_folder(path: str | os.PathLike, *, weights: bool = True) -> Folder:
    """Read and check everything in a zoo folder but the weights themselves.

    With `weights=False` their file may be missing. A data set that the folder has the record of is
    registered, so that the network can be used like those of the package's data sets.
    """
    path = Path(path)
    if not path.is_dir():
        owner_and_repo = len(path.parts) == 2 and not path.is_absolute()
        hint = f" For a network on the Hub, use hf://{path.as_posix()}." if owner_and_repo else ""
        raise FileNotFoundError(f"There is no zoo folder {path}.{hint}")
    needed = FILES if weights else DESCRIPTION_FILES
    missing = [name for name in needed if not (path / name).is_file()]
    if missing:
        raise ValueError(f"{path} is not a complete zoo folder: {', '.join(missing)} missing.")
    config = read_json(path / CONFIG_FILE, _check_config)
    metrics = read_json(path / METRICS_FILE, Metrics.from_dict)
    if any(len(row) != config.num_classes for row in metrics.golden.logits):
        raise ValueError(
            f"{path / METRICS_FILE}: the golden logits must have {config.num_classes} classes."
        )
    if metrics.config_sha256 not in ("", config.sha256()):
        raise ValueError(
            f"{path / CONFIG_FILE} is not the config of this network: its sha256 must be "
            f"{metrics.config_sha256}, as in {METRICS_FILE}. Received: {config.sha256()}."
        )
    recipe = read_json(path / RECIPE_FILE, _check_recipe)
    if recipe.get(OWN_DATA):
        _register_data(path)
    return Folder(
        path=path,
        config=config,
        metrics=metrics,
        recipe=recipe,
        card=(path / CARD_FILE).read_text(encoding="utf-8"),
    )


def write_folder(
    path: str | os.PathLike,
    *,
    config: GaussDerNetConfig,
    weights: keras.Model | str | os.PathLike,
    metrics: Metrics,
    recipe: dict[str, Any],
    card: str,
    figures: dict[str, bytes] | None = None,
    data: DataSet | None = None,
) -> Folder:
    """Write a complete zoo folder, or nothing; a folder already at `path` is replaced.

    Args:
        config: of the network, as `load` will build it.
        weights: the network, or a `.weights.h5` of it.
        metrics: the parameter and operation counts, the hashes of weights and config, and the
            size of the weights are filled in here.
        recipe: plain data; must have `RECIPE_KEYS`.
        card: the text of the folder's README.md.
        figures: pictures that the card shows, by file name (.png or .svg).
        data: the data set, if it is one's own: its record and samples go into the folder.
    """
    import keras

    from gdn_keras.counts import count_multiply_adds, count_parameters
    from gdn_keras.model import build_model

    path = Path(path)
    for name in figures or {}:
        if Path(name).name != name or Path(name).suffix not in (".png", ".svg"):
            raise ValueError(f"`figures` must be named *.png or *.svg. Received: {name!r}.")
    _check_recipe(recipe)
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, so that the rename stays on one disk; the dot hides it from `list_models`.
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        new = temporary / "new"
        new.mkdir()
        if isinstance(weights, keras.Model):
            weights.save_weights(new / WEIGHTS_FILE)
        else:
            shutil.copyfile(weights, new / WEIGHTS_FILE)
        assign_weights(build_model(config), read_weights(new / WEIGHTS_FILE))  # does it fit?
        metrics = dataclasses.replace(
            metrics,
            parameters=count_parameters(config),
            parameters_paper=count_parameters(config, as_paper=True),
            multiply_adds=count_multiply_adds(config),
            multiply_adds_dense=count_multiply_adds(config, dense=True),
            weights_sha256=file_sha256(new / WEIGHTS_FILE),
            weights_bytes=(new / WEIGHTS_FILE).stat().st_size,
            config_sha256=config.sha256(),
        )
        (new / CONFIG_FILE).write_text(config.to_json(), encoding="utf-8")
        (new / METRICS_FILE).write_text(to_json(metrics.to_dict()), encoding="utf-8")
        if data is not None:
            recipe = recipe | {OWN_DATA: True}
            (new / DATA_FILE).write_text(own_record(data).to_json(), encoding="utf-8")
            (new / SAMPLES_FILE).write_bytes(samples_file(data.samples.source.load()))
        (new / RECIPE_FILE).write_text(to_json(recipe), encoding="utf-8")
        (new / CARD_FILE).write_text(card, encoding="utf-8")
        for name, content in (figures or {}).items():
            (new / name).write_bytes(content)
        read_folder(new)
        _replace_folder(new, path, aside=temporary / "old")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return read_folder(path)


def _register_data(path: Path) -> None:
    for name in DATA_FILES:
        if not (path / name).is_file():
            raise ValueError(f"{path} is not a complete zoo folder: {name} missing.")
    record = read_record(path / DATA_FILE)
    samples = read_samples(path / SAMPLES_FILE, record)
    with readable(path / DATA_FILE):
        register_folder(record, samples=samples)


def _replace_folder(new: Path, path: Path, *, aside: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.rename(aside)
    try:
        new.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise


def _check_config(data: dict[str, Any]) -> GaussDerNetConfig:
    """The config itself, or inside what `keras.saving` writes: a repository on the Hub is both."""
    if data.get("registered_name") in REGISTERED_NAMES:
        inner = data.get("config")
        data = inner.get("config") if isinstance(inner, dict) else inner
        if not isinstance(data, dict):
            raise ValueError(f"the network's config must be an object. Received: {data!r:.80}.")
    return GaussDerNetConfig.from_dict(data)


def _check_recipe(recipe: dict[str, Any]) -> dict[str, Any]:
    for key, kind in RECIPE_KEYS.items():
        if not has_type(recipe.get(key), kind):
            raise ValueError(
                f"The recipe must have {key!r}, a {kind.__name__}. Received: {sorted(recipe)}."
            )
    check_type("train_sizes", recipe.get("train_sizes"), str | None)
    return recipe
