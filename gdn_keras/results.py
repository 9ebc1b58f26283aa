"""Tables of the zoo, made from its folders: the registry, results.csv and the README's table."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path

from gdn_keras import zoo
from gdn_keras.config import GaussDerNetConfig
from gdn_keras.model import count_multiply_adds, count_parameters
from gdn_keras.records import ModelInfo
from gdn_keras.registry import REGISTRY_FILE, read_registry, registry_text

START, END = "<!-- results -->", "<!-- /results -->"
_SIZES = {"0.500": "S = ½", "1.000": "S = 1", "2.000": "S = 2"}


def update(
    root: Path,
    *,
    configurations: Mapping[str, tuple[str, GaussDerNetConfig]] | None = None,
    pins: Mapping[str, tuple[str, str]] | None = None,
    check: bool = False,
) -> list[Path]:
    """Bring the tables of the clone at `root` up to date; returns the files that were not.

    Args:
        configurations: data set and config of every network that could be trained, by name; they
            replace those in the registry. Default: those stay.
        pins: repository on the Hub and commit of networks that have just been uploaded, by name.
        check: write nothing.
    """
    infos = _registry(root / "zoo", configurations, pins or {})
    trained = [known for known in infos.values() if known.trained]
    readme = root / "README.md"
    texts = {
        root / "zoo" / REGISTRY_FILE: registry_text(infos),
        root / "results.csv": _csv(trained),
        readme: with_table(readme.read_text(encoding="utf-8"), markdown(trained)),
    }
    stale = []
    for path, text in texts.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                temporary = path.with_name(f".{path.name}.new")
                temporary.write_text(text, encoding="utf-8")
                temporary.replace(path)
    return stale


def _registry(root: Path, configurations, pins) -> dict[str, ModelInfo]:
    before = read_registry(root)
    folders = {path.name: zoo.info(path) for path in zoo.folders(root)}
    infos = {name: known for name, known in before.items() if known.hub_repo is not None}
    if configurations is None:
        configurations = {k: (v.dataset, v.config) for k, v in before.items()}
    for name, (dataset, config) in configurations.items():
        infos.setdefault(name, untrained(name, dataset=dataset, config=config))
    for name, known in folders.items():
        old = before.get(name)
        if old is not None and old.weights_sha256 == known.weights_sha256:
            known = dataclasses.replace(known, hub_repo=old.hub_repo, hub_revision=old.hub_revision)
        infos[name] = known
    for name, (repo, revision) in pins.items():
        infos[name] = dataclasses.replace(infos[name], hub_repo=repo, hub_revision=revision)
    return infos


def untrained(name: str, *, dataset: str, config: GaussDerNetConfig) -> ModelInfo:
    """What is known of a configuration that has no weights."""
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
    for known in sorted(infos, key=lambda known: (known.dataset, known.name)):
        sizes = {size: known.accuracy.get(size) for size in _SIZES}
        rows.append(
            {
                "name": known.name,
                "dataset": known.dataset,
                "parameters": known.parameters,
                "gflop_dense": 2e-9 * known.multiply_adds_dense,
                "gflop_planned": 2e-9 * known.multiply_adds,
                **{f"accuracy_{size}": value for size, value in sizes.items()},
                "mean_accuracy": known.mean_accuracy if len(known.accuracy) > 1 else None,
                "sizes": len(known.accuracy),
                "paper_accuracy": known.paper_accuracy,
                "budget": known.budget,
            }
        )
    return rows


def _csv(infos: list[ModelInfo]) -> str:
    names = ["name", "dataset", "parameters", "gflop_dense", "gflop_planned"]
    names += [f"accuracy_{size}" for size in _SIZES]
    names += ["mean_accuracy", "sizes", "paper_accuracy", "budget"]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in _rows(infos):
        writer.writerow({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})
    return text.getvalue()


def markdown(infos: list[ModelInfo]) -> str:
    """The table for the README; accuracies in per cent."""
    if not infos:
        return "No trained networks yet."
    lines = [
        "| name | parameters | GFLOP dense / planned | "
        + " | ".join(_SIZES.values())
        + " | mean over sizes | paper |",
        "|" + "---|" * (len(_SIZES) + 5),
    ]
    for row in _rows(infos):
        mean = row["mean_accuracy"]
        cells = [
            f"[`{row['name']}`](zoo/{row['name']})",
            f"{row['parameters']:,}",
            f"{row['gflop_dense']:.2f} / {row['gflop_planned']:.2f}",
            *(_percent(row[f"accuracy_{size}"]) for size in _SIZES),
            "" if mean is None else f"{_percent(mean)} ({row['sizes']})",
            _percent(row["paper_accuracy"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_table(text: str, table: str) -> str:
    """`text` with the table between the markers."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"The README must have the markers {START} and {END}.")
    return f"{before}{START}\n{table}\n{END}{after}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"
