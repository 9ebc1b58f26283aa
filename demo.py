"""`make demo`: what scale channels are good for, in under two minutes and without a download.

With the networks of zoo/ it classifies the bundled images at nine sizes, beside a network with one
scale channel, and explains one prediction. Before that, and without any training: a scale channel
responds most where its scale matches the size of what it sees.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from gdn_keras import plots, zoo
from gdn_keras.datasets import SIZE_FACTORS, load_samples
from gdn_keras.layers import JetLayer
from gdn_keras.predict import Fitted, classify, draw

OUT = Path("out/demo")
DATASET = "rescaled_fashion_mnist"
NETWORKS = {"seven scale channels": "fashion_avg_2jet", "one scale channel": "fashion_single_2jet"}
EXPLAINED = (0.5, 1.0, 2.0)  # size factors at which one image is explained


def show_matching_scales() -> None:
    """Blobs of three sizes and the Laplacian in seven scale channels: the match moves along."""
    sigmas = tuple(2 ** (n / 2) for n in range(-1, 6))
    layer = JetLayer(1, sigma=sigmas, use_bias=False)
    layer.build([(None, 65, 65, 1)] * len(sigmas))
    layer.kernel.assign(np.reshape([0, 0, -1, 0, -1], (5, 1, 1)).astype("float32"))  # xx and yy
    y, x = np.mgrid[-32:33, -32:33]
    print("\nA blob, and the response of the scale-normalised Laplacian in seven scale channels:\n")
    print("blob size   " + "".join(f"σ={sigma:<7.2f}" for sigma in sigmas))
    for size in (1.0, 2.0, 4.0):
        blob = 255 * np.exp(-(x**2 + y**2) / (2 * size**2)).astype("float32")[None, ..., None]
        responses = [float(np.asarray(r)[0, 32, 32, 0]) for r in layer([blob] * len(sigmas))]
        best = int(np.argmax(responses))
        cells = [f"{r:6.1f}{'*' if n == best else ' '}  " for n, r in enumerate(responses)]
        print(f"{size:9.1f}   " + "".join(cells))
    print("\n(* the largest: twice the blob, two channels further)")


def compare_networks() -> dict[str, dict[float, float]]:
    """Accuracy in % on the bundled test images, per network and size factor."""
    curves = {}
    for label, name in NETWORKS.items():
        model = zoo.load(name)
        curves[label] = {}
        for factor in SIZE_FACTORS:
            samples = load_samples(DATASET, size_factor=factor)
            logits = model.predict(samples.images, batch_size=50, verbose=0)
            right = logits.argmax(axis=1) == samples.labels
            curves[label][factor] = 100 * float(right.mean())
    return curves


def print_table(curves: dict[str, dict[float, float]]) -> None:
    print(f"\nAccuracy on {len(load_samples(DATASET))} bundled images, trained at size 1 only:\n")
    print(f"{'size factor':<22}" + "".join(f"{factor:7.3f}" for factor in SIZE_FACTORS))
    for label, curve in curves.items():
        print(f"{label:<22}" + "".join(f"{curve[factor]:7.0f}" for factor in SIZE_FACTORS))


def draw_curves(curves: dict[str, dict[float, float]]) -> Path:
    figure, axes = plots.new_figure(width=110, height=75)
    plots.plot_scale_generalisation(curves, axes[0, 0])
    return plots.save(figure, OUT / "scale_generalisation")[0]


def explain_one() -> Path:
    """One garment at three sizes: the scale channels that respond move with it."""
    model = zoo.load(NETWORKS["seven scale channels"])
    images = []
    for factor in EXPLAINED:
        samples = load_samples(DATASET, size_factor=factor)
        images.append(Fitted(path=f"size {factor:g}", pixels=samples.images[0], how="bundled"))
    predictions = classify(model, np.stack([image.pixels for image in images]))
    print(f"\nOne image ({samples.class_names[samples.labels[0]]}) at three sizes:\n")
    for image, prediction in zip(images, predictions, strict=True):
        _, name, probability = prediction.classes[0]
        print(f"{image.path}: {name} ({probability:.0%}), most from σ₀ = {prediction.sigma:.2f}")
    path = OUT / "explained.png"
    draw(model, images, predictions).savefig(path, dpi=200)
    return path


def main() -> None:
    start = time.time()
    OUT.mkdir(parents=True, exist_ok=True)
    show_matching_scales()
    missing = sorted(set(NETWORKS.values()) - set(zoo.list_models()))
    if missing:
        print(f"\nThe rest needs trained networks, which are not in zoo/: {', '.join(missing)}.")
    else:
        curves = compare_networks()
        print_table(curves)
        print(f"\nfigures: {draw_curves(curves)}, {explain_one()}")
    print(f"\n{time.time() - start:.0f} seconds")


if __name__ == "__main__":
    main()
