"""List, look up, load and download networks; use it through `gdn_keras.zoo`."""

from __future__ import annotations

import dataclasses
import fnmatch
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gdn_keras import datasets
from gdn_keras.config import EVERY_PIXEL, POOLINGS, GaussDerNetConfig
from gdn_keras.scale_space import JET_ORDERS, METHODS
from gdn_keras.utils.checks import check_choice, check_number, checked, did_you_mean, received
from gdn_keras.utils.deprecation import renamed_arguments
from gdn_keras.utils.pixels import in_pixel_range
from gdn_keras.zoo import hub_download
from gdn_keras.zoo.folder import read_folder
from gdn_keras.zoo.records import ModelInfo
from gdn_keras.zoo.search import find, is_name, known_models, read, unknown_model
from gdn_keras.zoo.signing import check_signature
from gdn_keras.zoo.weights import assign_weights, read_weights

if TYPE_CHECKING:
    from gdn_keras.model import GaussDerNet

logger = logging.getLogger("gdn_keras.zoo")
GOLDEN_TOLERANCE = 1e-3  # of the largest logit; those of a changed network differ by far more


@renamed_arguments(pooling="scale_pooling", jet="jet_order", kernel="method")
@checked
def list_models(
    pattern: str | None = None,
    *,
    dataset: str | None = None,
    scale_pooling: str | None = None,
    jet_order: int | None = None,
    method: str | None = None,
    trained: bool = True,
    min_accuracy: float | None = None,
) -> list[str]:
    """Names of networks, sorted.

    Args:
        pattern: with wildcards, "fashion_*".
        dataset: "rescaled_cifar10", "stir_emoji", …
        scale_pooling: "max", "average", "logsumexp", or "single" for one scale channel.
        jet_order: highest order of derivatives, 1 to 4.
        method: discretisation, one of `gdn_keras.scale_space.METHODS`.
        trained: only networks whose weights are available; False: also configurations without
            weights, for `load(name, weights=False)`.
        min_accuracy: mean accuracy over all test sizes, a fraction.
    """
    _one_of("scale_pooling", scale_pooling, (*POOLINGS, "single"))
    _one_of("jet_order", jet_order, JET_ORDERS)
    _one_of("method", method, METHODS)
    if min_accuracy is not None:
        check_number("min_accuracy", min_accuracy, low=0, high=1, expected="a fraction, 0…1")
    infos, local = known_models()
    known = sorted({entry.dataset for entry in infos.values()} | set(datasets.names()))
    if dataset is not None and dataset not in known:
        raise ValueError(
            f"`dataset` must be one of {tuple(known)}.{did_you_mean(dataset, known)} "
            f"{received('dataset', dataset)}"
        )
    return sorted(
        name
        for name, entry in infos.items()
        if (pattern is None or fnmatch.fnmatchcase(name, pattern))
        and dataset in (None, entry.dataset)
        and scale_pooling in (None, entry.pooling)
        and jet_order in (None, entry.config.jet_order)
        and method in (None, entry.config.method)
        and (not trained or name in local or (entry.trained and entry.hub_repo is not None))
        and (min_accuracy is None or (entry.mean_accuracy or 0.0) >= min_accuracy)
    )


@checked
def info(
    name: str | os.PathLike,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    cache_dir: str | os.PathLike | None = None,
) -> ModelInfo:
    """The record of a network: a name, a zoo folder, or hf://owner/repo[@revision].

    Never downloads weights. The other arguments are those of `load`.
    """
    if is_name(name):
        infos, _ = known_models()
        if name not in infos:
            raise unknown_model(name, infos)
        if revision is None:
            return infos[name]
    where = dict(revision=revision, offline=offline, cache_dir=cache_dir)
    found = read(name, weights=False, **where).info()
    if is_name(name):  # the folder is named after the commit
        repo, label = infos[name].hub_repo, name
    elif str(name).startswith(hub_download.SCHEME):
        repo, _ = hub_download.parse_address(str(name))
        label = repo.split("/")[1]
    else:
        return found
    return dataclasses.replace(found, name=label, hub_repo=repo, hub_revision=found.name)


@renamed_arguments(pooling="scale_pooling")
@checked
def load(
    name: str | os.PathLike,
    *,
    weights: bool = True,
    include_top: bool = True,
    dtype: Any = None,
    revision: str | None = None,
    offline: bool | None = None,
    cache_dir: str | os.PathLike | None = None,
    **config_changes: Any,
) -> GaussDerNet:
    """A network of the zoo as a Keras model: raw pixels 0…255 in, logits out.

    >>> model = load("fashion_avg_2jet")
    >>> model.classify("photo.jpg")                               # see `ImageClassifier`
    >>> features = load("fashion_avg_2jet", include_top=False)    # embeddings, see `without_top`
    >>> model = load("fashion_avg_2jet", num_classes=5)           # a new last layer, the rest kept
    >>> model = load("fashion_avg_2jet", input_size=(128, 96), spatial_selection="max")

    Weights are searched for in this order: the folder given as `name` or in GDN_KERAS_ZOO, the
    checkout's `zoo/`, the installed package, the cache of the Hub, the Hub at the commit recorded
    in the registry. The logger "gdn_keras.zoo" reports each step at level DEBUG.

    Args:
        name: one of `list_models()`, the path of a zoo folder, or `hf://owner/repo[@revision]`.
        weights: False gives the network with random weights; their file is neither needed nor
            downloaded.
        include_top: False leaves out the last layer, and the network gives embeddings, (batch,
            `info(name).num_features`), instead of logits.
        dtype: a Keras dtype policy such as "mixed_bfloat16", to fine-tune or predict faster.
            Default: the global policy.
        revision: branch, tag or commit on the Hub; then only the Hub and its cache are searched.
        offline: True never uses the internet. Default: the value of HF_HUB_OFFLINE.
        cache_dir: of the Hub's cache. Default: that of `huggingface_hub`.
        **config_changes: fields of `GaussDerNetConfig` that replace those of the network. With its
            weights, all fields can change that leave their shapes as they are; the most useful:

            - `num_classes`, `class_names`: if they differ from the network's own, the last jet
              layer and its batch norm start with fresh weights; all other weights are kept.
            - `input_size`: height and width in pixels, or one number for both.
            - `input_channels`: 1 for grey images in a network for colour ones, or 3 the other way.
            - `channel_sigmas`: first-layer sigma of each scale channel; all share the weights.
            - `scale_pooling`: "max", "average" or "logsumexp".
            - `spatial_selection`: "centre", or "max" for objects that can be anywhere; "none" gives
              (batch, height, width, scale channel, class), on the pixels of the image.
            - `padding`: "mirror" for photographs that fill the image.
            - `pixel_range`: (0, 1) for images whose pixels are 0…1 instead of 0…255.
            - `sampling_density`, `reach`: None and None compute exactly, on every pixel.
    """
    if "pretrained" in config_changes:
        raise ValueError(
            "`pretrained` is called `weights`: `weights=False` gives the network with random "
            f"weights. {received('pretrained', config_changes['pretrained'])}"
        )
    where = dict(revision=revision, offline=offline, cache_dir=cache_dir)
    folder = read(name, **where) if weights else None
    record = folder.info() if weights else info(name, **where)
    config = record.config
    changed = _changed(config, config_changes)
    given = [k for k in ("num_classes", "class_names") if config_changes.get(k) is not None]
    if given and not include_top:
        raise ValueError(
            "`include_top` must be True to change the classes, which only the last layer has. "
            f"Received: include_top=False, {given[0]}={config_changes[given[0]]!r}."
        )
    from gdn_keras.features import without_top  # after all checks: Keras takes seconds to load
    from gdn_keras.model import adapt
    from gdn_keras.zoo.classifier import ImageClassifier

    channels = changed.input_channels
    if weights:  # which have the channels of the network
        changed = changed.replace(input_channels=config.input_channels)
    trained = dict(dataset=record.dataset, train_sizes=record.train_sizes)
    model = ImageClassifier(changed, dtype=dtype, **trained)
    if weights:
        fields = ("num_classes", "class_names")
        same = all(getattr(changed, field) == getattr(config, field) for field in fields)
        fresh = () if same else _head(model)
        arrays = read_weights(folder.weights_file, sha256=folder.metrics.weights_sha256)
        assign_weights(model, arrays, fresh=fresh, source=str(folder.weights_file))
        logger.debug("loaded %s", folder.weights_file)
    if channels != changed.input_channels:
        model = adapt(model, input_channels=channels)
    return model if include_top else without_top(model)


@checked
def verify(name: str | os.PathLike, *, key: str | os.PathLike | None = None, **where: Any) -> float:
    """Check that a network gives the logits that were published with it.

    The config and the weights are compared with their hashes, as in `load`; then the logits of a
    few sample images are computed again. Returns the largest deviation; one of more than
    `GOLDEN_TOLERANCE` times the largest logit raises a `ValueError`.

    Args:
        name: as of `load`.
        key: file with a public key; the folder must have a signature that was made with it.
        **where: `revision`, `offline` and `cache_dir` of `load`.
    """
    folder = read(name, **where)
    if key is not None:
        check_signature(folder.path, key=key)
    golden = folder.metrics.golden
    model = load(name, dtype="float32", **where)  # whatever the global policy is
    images = datasets.load_samples(golden.sample_set).images
    if not all(0 <= index < len(images) for index in golden.indices):
        raise ValueError(
            f"`indices` of the golden images must be from 0 to {len(images) - 1}. Received: "
            f"{golden.indices} in {folder.path}."
        )
    images = images[list(golden.indices)]
    expected = np.array(golden.logits)
    images = in_pixel_range(images, model.config.pixel_range)
    deviation = float(np.abs(model.predict_on_batch(images) - expected).max())
    limit = GOLDEN_TOLERANCE * float(np.abs(expected).max())
    if not deviation <= limit:
        raise ValueError(
            f"{name} does not give its published logits: they must agree to {limit:.2g}. "
            f"Received: a deviation of {deviation:.2g}."
        )
    return deviation


@checked
def download(
    name: str | os.PathLike,
    *,
    revision: str | None = None,
    cache_dir: str | os.PathLike | None = None,
    force: bool = False,
) -> Path:
    """Download a network for later use offline; returns its folder.

    A network that is already on this machine is not downloaded again, unless `force` is True.
    `load` still prefers a folder of that name in GDN_KERAS_ZOO, the checkout or the package.
    """
    path, _ = find(name, revision=revision, cache_dir=cache_dir, force=force)
    folder = read_folder(path)
    read_weights(folder.weights_file, sha256=folder.metrics.weights_sha256)
    return path


def _changed(config: GaussDerNetConfig, changes: dict[str, Any]) -> GaussDerNetConfig:
    """The config with `changes`; None changes nothing, except where it means to compute exactly."""
    changes = {k: v for k, v in changes.items() if v is not None or k in EVERY_PIXEL}
    for field in ("channel_sigmas", "class_names"):
        value = changes.get(field)
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            changes[field] = tuple(value)
    if isinstance(changes.get("class_names"), tuple):
        changes.setdefault("num_classes", len(changes["class_names"]))
    elif changes.get("num_classes", config.num_classes) != config.num_classes:
        changes["class_names"] = ()
    changed = config.replace(**changes)
    if "scale_pooling" in changes and len(changed.channel_sigmas) == 1:
        raise ValueError(
            "`scale_pooling` needs several scale channels, and this network has one; give "
            f"`channel_sigmas` too. Received: scale_pooling={changed.scale_pooling!r}."
        )
    return changed


def _head(model: GaussDerNet) -> list[str]:
    """The variables whose shapes follow the number of classes; a learned sigma does not."""
    last = model.blocks[-1]
    layers = [layer for layer in model.layers if layer.name in (last.jet, last.norm)]
    return [f"{layer.name}/{v.name}" for layer in layers for v in layer.weights if v.shape != ()]


def _one_of(argument: str, value: Any, allowed: tuple) -> None:
    if value is not None:
        check_choice(argument, value, allowed)
