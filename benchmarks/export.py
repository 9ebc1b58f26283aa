"""Inference in Keras against the exported ONNX file in onnxruntime, in turns, in one process.

Networks of the paper's sizes with random weights: the time does not depend on the weights.
"""

from __future__ import annotations

import json
import statistics
import time

import numpy as np

RECIPES = ("fashion_avg_2jet", "cifar_avg_2jet")
DENSITY = 2**-0.5
BATCHES = (1, 32)
SECONDS = 6.0  # per network and batch size


def run() -> dict:
    """Median milliseconds per batch: {network: {batch: {"keras": …, "onnx": …}}}."""
    import onnxruntime

    from export.onnx_model import to_onnx
    from gdn_keras.model import build_model
    from training import recipes

    results: dict = {}
    for name in RECIPES:
        config = recipes.get(name).config.replace(sampling_density=DENSITY)
        model = build_model(config)
        session = onnxruntime.InferenceSession(
            to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        results[name] = {}
        for batch in BATCHES:
            shape = (batch, *config.input_size, config.input_channels)
            images = np.random.default_rng(0).uniform(0, 255, shape).astype("float32")
            results[name][str(batch)] = _alternate(
                {
                    "keras": lambda x=images, m=model: m.predict_on_batch(x),
                    "onnx": lambda x=images, s=session: s.run(None, {"image": x}),
                }
            )
    return results


def _alternate(steps: dict) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step(), step()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times["onnx"]) < 5:
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: round(statistics.median(values), 2) for name, values in times.items()}


def main() -> None:
    results = run()
    print("| network | batch | Keras ms | ONNX ms | Keras / ONNX |\n|---|--:|--:|--:|--:|")
    for name, batches in results.items():
        for batch, ms in batches.items():
            ratio = ms["keras"] / ms["onnx"]
            print(f"| {name} | {batch} | {ms['keras']} | {ms['onnx']} | {ratio:.2f} |")
    print(json.dumps({"benchmark": "export", **results}))


if __name__ == "__main__":
    main()
