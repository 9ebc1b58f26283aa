"""For the tests of training: a small data folder, commands, and processes that can be killed."""

import json
import sys

import numpy as np
import processes
from dataset_files import write_idx

from gdn_keras.datasets import load_samples
from gdn_keras.utils import cpu
from training.__main__ import main
from training.options import auto_precision
from training.runs import progress, state
from training.runs.workspace import Workspace

TRAIN_IMAGES = 10_700  # the readers take the last 10,000 as the validation set


def run_words(name, *more, data, runs):
    """The command that trains a recipe, with the same precision on every CPU."""
    where = ["--data-dir", str(data), "--runs", str(runs)]
    return ["run", name, *where, "--precision", "float32", *more]


class Place:
    """Folders for data, runs and zoo, and the commands with the options for them."""

    def __init__(self, data, base):
        self.data, self.runs, self.zoo = data, base / "runs", base / "zoo"

    def __call__(self, *words, data=None):
        where = ["--runs", str(self.runs), "--zoo", str(self.zoo)]
        if words[0] == "sweep":
            where = ["--storage", str(self.runs)]
        if words[0] not in ("list", "publish"):
            where += ["--data-dir", str(data or self.data)]
        if words[0] == "queue":
            write_rates(self.runs)
        return main([*words, *where])

    @property
    def workspace(self):
        """What the functions behind the commands get."""
        return Workspace(runs=self.runs, zoo=self.zoo, data=self.data)

    def folder(self, name):
        return self.runs / f"{name}-seed0"

    def record(self, name):
        return state.read_record(self.folder(name))


def write_rates(runs):
    """The speed of this machine, as if it had been measured: that takes most of a minute."""
    runs.mkdir(parents=True, exist_ok=True)
    dtype = auto_precision("cpu")
    rate = {"training": 50.0, "inference": 50.0}
    key = f"{cpu.text(cpu.describe())}, {dtype}"
    known = {key: {name: rate for name in ("fashion_avg_2jet", "cifar_avg_2jet")}}
    (runs / "rates.json").write_text(json.dumps(known))


def write_data_folder(folder):
    """Files in the standard formats with the bundled samples in them, over and over."""
    samples = load_samples("fashion_mnist")
    fashion = folder / "fashion-mnist"
    fashion.mkdir(parents=True)
    for part, count in (("train", TRAIN_IMAGES), ("t10k", len(samples))):
        chosen = np.arange(count) % len(samples)
        write_idx(fashion / f"{part}-images-idx3-ubyte.gz", samples.images[chosen, :, :, 0])
        write_idx(fashion / f"{part}-labels-idx1-ubyte.gz", samples.labels[chosen].astype("uint8"))
    (folder / "stir").mkdir()
    write_stir(folder / "stir" / "emoji.npz", load_samples("stir_emoji"))
    return folder


def write_stir(path, samples):
    """A file in the format of STIR: in each of its parts the samples, once for every size."""
    sizes = 64 - np.arange(48)
    # the samples are of three sizes; every other size gets the images of the nearest of them
    there = np.unique(samples.object_sizes)
    nearest = there[np.abs(there[None] - sizes[:, None]).argmin(axis=1)]
    images = np.stack([samples.images[samples.object_sizes == size] for size in nearest])
    images = images[..., 0] if images.shape[-1] == 1 else images  # grey ones have no channel axis
    labels = np.stack([samples.labels[samples.object_sizes == size] for size in nearest])
    three = np.ones((3, 1, 1, 1), int)
    np.savez(
        path,
        imgs=np.stack([images[:, :, None]] * 3),
        lbls=three * labels[None, :, :, None],
        scls=three * sizes[None, :, None, None] * np.ones((1, 1, labels.shape[1], 1), int),
        psts=np.zeros((3, *labels.shape, 1, 2), int),
        metadata=np.array([["title", "samples"]]),
        lbldata=np.array(samples.class_names),
    )


def start(argv, *, output, save_seconds=progress.SAVE_SECONDS, before=None):
    """`python -m training *argv` as a process of its own; what it prints goes to a file."""
    return processes.start(_command, argv, str(output), save_seconds, before)


def _command(argv, output, save_seconds, before):
    processes.redirect(output, output)
    progress.SAVE_SECONDS = save_seconds
    if before is not None:
        before()
    sys.exit(main(argv))
