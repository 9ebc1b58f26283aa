"""Tables of the zoo, made from its folders: registry, results.csv and the tables in the docs."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path

from gdn_keras import zoo
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.counts import count_multiply_adds, count_parameters
from gdn_keras.utils.files import replace_file
from gdn_keras.utils.markdown import table, with_table
from gdn_keras.zoo.records import ModelInfo
from gdn_keras.zoo.registry import REGISTRY_FILE, read_registry, registry_text

RESULTS_FILE = "results.csv"
HEADLINE = (  # the README's table; docs/networks.md has all networks
    "fashion_single_2jet",
    "fashion_avg_2jet",
    "cifar_avg_2jet",
    "cifar_avg_2jet_mirror",
    "stir_emoji_mid_drop",
)
SIZES = {"0.500": "S = ½", "1.000": "S = 1", "2.000": "S = 2"}


def update(
    root: Path,
    *,
    configurations: Mapping[str, tuple[str, GaussDerNetConfig]] | None = None,
    pins: Mapping[str, tuple[str, str]] | None = None,
    check: bool = False,
) -> list[Path]:
    """Update the tables of the clone at `root`; returns the files that were out of date.

    Args:
        configurations: data set and config of every network that could be trained, by name; they
            replace those in the registry. Default: those stay.
        pins: repository on the Hub and commit of networks that have just been uploaded, by name.
        check: write nothing.
    """
    infos = _registry(root / "zoo", configurations, pins or {})
    trained = [info for info in infos.values() if info.trained]
    trained.sort(key=lambda info: (info.dataset, info.name))
    headline = [infos[name] for name in HEADLINE if name in infos and infos[name].trained]
    readme, page = root / "README.md", root / "docs" / "networks.md"
    texts = {
        root / "zoo" / REGISTRY_FILE: registry_text(infos),
        root / "zoo" / RESULTS_FILE: _csv(trained),
        readme: with_table(readme, markdown(headline, folder="zoo"), name="results"),
        page: with_table(page, markdown(trained, folder="../zoo"), name="results"),
    }
    stale = []
    for path, text in texts.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                replace_file(path, content=text)
    return stale


def _registry(root: Path, configurations, pins) -> dict[str, ModelInfo]:
    before = read_registry(root)
    folders = {path.name: zoo.info(path) for path in zoo.folders(root)}
    infos = {name: info for name, info in before.items() if info.hub_repo is not None}
    if configurations is None:
        configurations = {k: (v.dataset, v.config) for k, v in before.items()}
    for name, (dataset, config) in configurations.items():
        infos.setdefault(name, untrained(name, dataset=dataset, config=config))
    for name, info in folders.items():
        old = before.get(name)
        if old is not None and old.weights_sha256 == info.weights_sha256:
            info = dataclasses.replace(info, hub_repo=old.hub_repo, hub_revision=old.hub_revision)
        infos[name] = info
    for name, (repo, revision) in pins.items():
        infos[name] = dataclasses.replace(infos[name], hub_repo=repo, hub_revision=revision)
    return infos


def untrained(name: str, *, dataset: str, config: GaussDerNetConfig) -> ModelInfo:
    """The record of a configuration without weights."""
    return ModelInfo(
        name=name,
        dataset=dataset,
        config=config,
        parameters=count_parameters(config),
        parameters_paper=count_parameters(config, as_paper=True),
        multiply_adds=count_multiply_adds(config),
        multiply_adds_dense=count_multiply_adds(config, dense=True),
    )


def _rows(infos: list[ModelInfo]) -> list[dict]:
    rows = []
    for info in infos:
        sizes = {size: info.accuracy.get(size) for size in SIZES}
        rows.append(
            {
                "name": info.name,
                "dataset": info.dataset,
                "parameters": info.parameters,
                "gflop_dense": 2e-9 * info.multiply_adds_dense,
                "gflop_planned": 2e-9 * info.multiply_adds,
                **{f"accuracy_{size}": value for size, value in sizes.items()},
                "mean_accuracy": info.mean_accuracy if len(info.accuracy) > 1 else None,
                "sizes": len(info.accuracy),
                "paper_accuracy": info.paper_accuracy,
                "budget": info.budget,
            }
        )
    return rows


def _csv(infos: list[ModelInfo]) -> str:
    names = ["name", "dataset", "parameters", "gflop_dense", "gflop_planned"]
    names += [f"accuracy_{size}" for size in SIZES]
    names += ["mean_accuracy", "sizes", "paper_accuracy", "budget"]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in _rows(infos):
        writer.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})
    return text.getvalue()


def markdown(infos: list[ModelInfo], *, folder: str) -> str:
    """A table of networks, without empty columns; accuracies in per cent.

    Args:
        folder: the path from the page to `zoo/`, for links.
    """
    if not infos:
        return "No trained networks yet."
    rows = [
        {
            "name": f"[`{row['name']}`]({folder}/{row['name']})",
            "parameters": f"{row['parameters']:,}",
            "GFLOP dense / planned": f"{row['gflop_dense']:.2f} / {row['gflop_planned']:.2f}",
            **{title: _percent(row[f"accuracy_{size}"]) for size, title in SIZES.items()},
            "mean over sizes": _percent(row["mean_accuracy"])
            + (f" ({row['sizes']})" if row["mean_accuracy"] is not None else ""),
            "paper": _percent(row["paper_accuracy"]),
        }
        for row in _rows(infos)
    ]
    titles = [title for title in rows[0] if any(row[title] for row in rows)]
    return table(titles, rows=([row[title] for title in titles] for row in rows))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
