"""The folder of the page: any static web server can serve it, and it uses no other host."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from gdn_keras import zoo
from gdn_keras.datasets import Arrays
from gdn_keras.datasets.rescaled import SIZE_FACTORS, rescaled_sets
from gdn_keras.datasets.samples import SAMPLE_FOLDER
from gdn_keras.zoo.records import ModelInfo

from ..files import write_onnx
from .runtime import write_runtime

SOURCES = Path(__file__).parent
STATIC = ("index.html", "page.js", "worker.js", "style.css")
DESCRIPTION = "page.json"
CARD = "README.md"
TITLES = {"fashion_mnist": "Clothes", "cifar10": "Photos"}
FIRST = {"fashion_mnist": 48, "cifar10": 19}  # the sample to begin with: a coat, an automobile


def write_page(
    folder: Path,
    names: Sequence[str],
    infos: Sequence[ModelInfo],
    *,
    card: str,
    webgpu: bool = False,
) -> None:
    """Write everything to the new folder `folder`: inside `kept_if_good`.

    Args:
        names: of the networks, as `zoo.load` takes them.
        infos: of the same networks, from `export.page.choose`.
        card: the text of README.md.
        webgpu: whether the page may use the GPU, which needs a second build of onnxruntime-web.
    """
    write_runtime(folder / "ort", webgpu=webgpu)  # first: it may fail, and Keras takes its time
    for name in STATIC:
        shutil.copyfile(SOURCES / name, folder / name)
    for name, info in zip(names, infos, strict=True):
        target = folder / "models" / f"{info.name}.onnx"
        write_onnx(zoo.load(name), target, info=info, with_scales=True)
    shown = families(infos)
    sources = {d.samples.source.name: d.samples.source for d in rescaled_sets().values()}
    for family in shown:
        write_samples(folder / family["samples"]["file"], family, sources[family["name"]].load())
    shutil.copyfile(SAMPLE_FOLDER / "SAMPLES.md", folder / "samples" / "LICENCES.md")
    data = {"size_factors": SIZE_FACTORS, "webgpu": webgpu, "families": shown}
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    (folder / DESCRIPTION).write_text(text, encoding="utf-8")
    (folder / CARD).write_text(card, encoding="utf-8")


def families(infos: Sequence[ModelInfo]) -> list[dict[str, Any]]:
    """What the page needs of each data set, in the order in which networks name them."""
    found: dict[str, dict[str, Any]] = {}
    for info in infos:
        dataset = rescaled_sets()[info.dataset]
        source = dataset.samples.source
        samples = source.load()
        family = {
            "name": source.name,
            "title": TITLES.get(source.name, dataset.title),
            "canvas": dataset.image_size[0],
            "side": dataset.sizes.side,
            "colours": dataset.channels,
            "surroundings": dataset.surroundings,
            "classes": list(samples.class_names),
            "samples": {
                "file": f"samples/{source.name}.png",
                "labels": [],
                "first": FIRST.get(source.name, 0),
            },
            "networks": [],
        }
        names = info.config.class_names
        if names and list(names) != family["classes"]:
            raise ValueError(
                f"`names` must be networks for the classes of the samples, {family['classes']}. "
                f"Received: {info.name}, of {list(names)}."
            )
        if any(set(name) & set("<>&") for name in family["classes"]):
            raise ValueError(
                "`names` must be networks whose class names have none of the characters <, > and "
                f"&, which are special in HTML. Received: {info.name}, of {family['classes']}."
            )
        family = found.setdefault(source.name, family)
        family["networks"].append(
            {
                "name": info.name,
                "file": f"models/{info.name}.onnx",
                "sigmas": info.config.channel_sigmas,
                "pooling": info.config.scale_pooling,
            }
        )
    return list(found.values())


def write_samples(path: Path, family: dict[str, Any], samples: Arrays) -> None:
    """All samples in one lossless picture, ten in a row, class after class."""
    from PIL import Image

    order = np.argsort(samples.labels, kind="stable")
    images = samples.images[order]
    images = np.pad(images, [(0, -len(images) % 10), (0, 0), (0, 0), (0, 0)])
    count, height, width, colours = images.shape
    rows = images.reshape(count // 10, 10, height, width, colours).transpose(0, 2, 1, 3, 4)
    sheet = rows.reshape(count // 10 * height, 10 * width, colours)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(sheet[..., 0] if colours == 1 else sheet).save(path, optimize=True)
    family["samples"]["labels"] = samples.labels[order].tolist()


class _Handler(SimpleHTTPRequestHandler):
    # whatever the system's types are: browsers require these
    extensions_map = {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".json": "application/json",
        ".png": "image/png",
        ".wasm": "application/wasm",
        "": "application/octet-stream",
    }

    def log_message(self, *_) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # a page that was built again is seen
        super().end_headers()


def make_server(folder: Path, *, port: int = 0) -> ThreadingHTTPServer:
    """A web server for the folder, on this machine only; port 0 is any free one."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, directory=str(folder)))
    except OSError as error:
        raise OSError(
            f"The page is in {folder}, but `--serve` needs a free port. Received: {port}, "
            f"{error.strerror}."
        ) from error


def serve(folder: Path, *, port: int) -> None:
    """Serve the folder until Ctrl-C."""
    with make_server(folder, port=port) as server:
        print(f"http://127.0.0.1:{server.server_port}/  (Ctrl-C stops it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")
