"""`make demo`: what scale channels are good for, in under two minutes and without a download.

With the networks of zoo/ it classifies the bundled images at nine sizes, beside a network with one
scale channel, and explains one prediction. Before that, and without any training: a scale channel
responds most where its scale matches the size of what it sees.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from gdn_keras import GaussDerNet, GaussDerNetConfig, build_model, plots, zoo
from gdn_keras.accuracy import accuracy
from gdn_keras.classify import Fitted, classify, draw
from gdn_keras.datasets import SIZE_FACTORS, load_samples

OUT = Path("out/demo")
DATASET = "rescaled_fashion_mnist"
NETWORKS = {"seven scale channels": "fashion_avg_2jet", "one scale channel": "fashion_single_2jet"}
DISC_SIZES = tuple(2 ** (n / 2) for n in range(-2, 3))
EXPLAINED = (0.5, 1.0, 2.0)  # size factors at which one image is explained


def untrained_network() -> GaussDerNet:
    """Two layers that need no training: the Laplacian, a detector of blobs, then smoothing."""
    config = GaussDerNetConfig(
        input_size=(97, 97),
        input_channels=1,
        num_classes=1,
        channel_sigmas=tuple(2 ** (n / 2) for n in range(7)),
        sigma_ratio=1.28,
        widths=(1,),
        zero_order=True,
        scale_pooling="max",
    )
    model = build_model(config, folded=True)
    for name, coefficients in {
        "jet_1": [0, 0, -1, 0, -1],  # x, y, xx, xy, yy
        "jet_2": [1, 0, 0, 0, 0, 0],  # the smoothed image, x, y, xx, xy, yy
    }.items():
        model.get_layer(name).kernel.assign(np.reshape(coefficients, (-1, 1, 1)))
    return model


def disc(size_factor: float) -> np.ndarray:
    """The same disc at any size, (97, 97, 1), with a smooth edge."""
    y, x = np.mgrid[-48:49, -48:49] / size_factor
    return 255 / (1 + np.exp(4 * (np.hypot(x, y) - 6)))[..., None]


def show_matching_scales() -> Path:
    """A disc at five sizes in seven scale channels: the strongest response moves along."""
    model = untrained_network()
    sigmas = model.config.channel_sigmas
    images = np.stack([disc(factor) for factor in DISC_SIZES]).astype("float32")
    responses = np.asarray(model.scale_logits_model()(images))[..., 0]
    print("\nA disc at five sizes, and the responses of seven scale channels to it:\n")
    print("disc size   " + "".join(f"σ₀={sigma:<6.2f}" for sigma in sigmas))
    for factor, row in zip(DISC_SIZES, responses, strict=True):
        cells = [f"{r:7.3f}{'*' if r == row.max() else ' '} " for r in row]
        print(f"{factor:9.2f}   " + "".join(cells))
    print("\n(* the largest: √2 times the size, one scale channel further)")
    return draw_matching_scales(images, responses, sigmas)


def draw_matching_scales(images, responses, sigmas) -> Path:
    figure, axes = plots.new_figure(
        width=110, height=110, rows=len(images), columns=2, width_ratios=(1, 4), sharex="col"
    )
    for (left, right), factor, image, row in zip(axes, DISC_SIZES, images, responses, strict=True):
        plots.show_image(image, left, title=f"size {factor:.2f}")
        colours = [plots.PALETTE[1] if r == row.max() else plots.PALETTE[0] for r in row]
        right.bar(range(len(row)), row, color=colours, width=0.7)
        right.set(ylim=(0, 1.1 * responses.max()), yticks=[], ylabel="response")
    right.set_xticks(range(len(sigmas)), [f"{sigma:.2f}" for sigma in sigmas])
    right.set_xlabel("scale channel σ₀ (pixels)")
    return plots.save(figure, OUT / "matching_scales")[0]


def compare_networks() -> dict[str, dict[float, float]]:
    """Accuracy in % on the bundled test images, per network and size factor."""
    curves = {}
    for label, name in NETWORKS.items():
        model = zoo.load(name)
        curves[label] = {}
        for factor in SIZE_FACTORS:
            samples = load_samples(DATASET, size_factor=factor)
            share = accuracy(samples, predict=model.predict_on_batch, batch_size=50)
            curves[label][factor] = 100 * share
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
    print(f"\nfigure: {show_matching_scales()}")
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
