"""Run saved networks on the backend of KERAS_BACKEND: `backend_worker.py FOLDER`.

For every FOLDER/<case>.keras, with the images and labels of FOLDER/data.npz, writes to
FOLDER/<backend>.npz the logits, all weights after two steps of training, and `messages`.
"""

import sys
from pathlib import Path

import keras
import numpy as np
from keras.ops import convert_to_numpy as to_numpy

from gdn_keras import ScaleAdamW, adapt, build_model
from gdn_keras.model import copy_weights
from gdn_keras.utils.cpu import onednn_may_use_bfloat16


def run(model, images, labels):
    """What the network gives, and what two steps of training make of it."""
    model.compile(
        # with a large epsilon the size of a gradient matters, not only its sign
        ScaleAdamW(0.5, weight_decay=0.01, sigma_learning_rate_factor=0.5, epsilon=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=keras.backend.backend() == "jax",
    )
    model.optimizer.build(model.trainable_variables)  # or TensorFlow traces the step twice
    results = {"logits": model.predict_on_batch(images), "none": model(images[:0])}
    model.fit(images, labels, batch_size=len(images), epochs=2, verbose=0)
    return results | {f"trained/{weight.path}": weight for weight in model.weights}


def run_variants(model, images):
    """The same weights on coarser grids, with an output at every pixel, and in half precision."""
    coarse = adapt(model, sampling_density=0.7)
    dense = adapt(model, sampling_density=0.7, spatial_selection="none")
    variants = {"coarse": coarse, "dense": dense}
    if onednn_may_use_bfloat16():
        variants["half"] = build_model(model.config, dtype="mixed_bfloat16")
        copy_weights(model, variants["half"])
    return {name: variant.predict_on_batch(images) for name, variant in variants.items()}


def run_large(model, images):
    """Large enough for sliding kernels instead of matrices, with the gradient for the image."""
    wide = np.pad(images, ((0, 0), (0, 0), (65, 65), (0, 0)))
    model = adapt(model, input_size=wide.shape[1:3], spatial_selection="max")
    model.compile("sgd", loss="mse")
    model.optimizer.build(model.trainable_variables)
    results = {"large": model.predict_on_batch(wide)}
    model.fit(wide, np.zeros(results["large"].shape), epochs=1, verbose=0)
    return results | {f"large/{weight.path}": weight for weight in model.weights}


def messages(model, images):
    """What is said about images of another size, with another channel, and without an axis."""
    found = []
    wrong = images[:, 1:], images[..., :1], images[..., 0], images * np.nan, images.astype("U")
    for batch in wrong:
        for call in (model, lambda x: model.predict(x, verbose=0)):
            try:
                call(batch)
                found.append("accepted")
            except ValueError as error:
                found.append(str(error))
    return found


def main(folder):
    data = np.load(folder / "data.npz")
    results = {}
    for path in sorted(folder.glob("*.keras")):
        model = keras.models.load_model(path)
        outputs = run_variants(model, data["images"]) if path.stem == "learned" else {}
        if path.stem in ("two_jet", "three_jet"):
            outputs |= run_large(model, data["images"])
        outputs |= run(model, data["images"], data["labels"])
        if path.stem == "two_jet":
            results["messages"] = np.array(messages(model, data["images"]))
        results |= {f"{path.stem}/{name}": to_numpy(x) for name, x in outputs.items()}
    np.savez(folder / f"{keras.backend.backend()}.npz", **results)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
