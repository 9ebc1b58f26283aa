"""Networks for data of one's own: `gdn-keras train DATA --like NAME -o FOLDER`.

A run with the trainer, the measurements and the publisher of all other networks, on a recipe that
is made from another one: its network and its training, for other images.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdn_keras import datasets, zoo
from gdn_keras.datasets import DataSet
from gdn_keras.datasets.own.dataset import own_record
from gdn_keras.datasets.sources import find_data
from gdn_keras.utils.files import replace_file
from gdn_keras.zoo import ModelInfo
from gdn_keras.zoo.folder import DATA_FILE, OWN_DATA

from .budgets import Plan, plan_run
from .options import auto_precision
from .recipes import ALL, OWN, Recipe, get
from .runs import locking, state
from .runs.record import Ancestor
from .runs.stopping import STOPPED, Stopping
from .runs.workspace import Workspace

if TYPE_CHECKING:
    from gdn_keras.model import GaussDerNet

IMAGES, EPOCHS = 4000, 3  # of the last stage: so many images, but at least so many epochs
_PADDINGS = {"black": "zero", "mirrored": "mirror"}


@dataclass(frozen=True, kw_only=True)
class OwnOptions:
    """What a network for data of one's own is made like."""

    like: str | None = None  # a recipe; None: that of `start_from`
    start_from: str | None = None  # a network whose weights it starts from; None: random ones
    seed: int = 0
    epochs: int | None = None  # of the last stage; None: by the number of images
    flip: bool | None = None  # left and right may be exchanged; None: as in the recipe
    name: str | None = None  # of the data set; None: from the place of the images
    look: dict[str, Any] = dataclasses.field(default_factory=dict)  # arguments of `Look`


def train_own(data: str, output: str, *, options: OwnOptions) -> int:
    """Train, or resume; then measure at nine sizes, and write the zoo folder `output`."""
    output = Path(output).absolute()
    _check_output(output)
    start = zoo.info(options.start_from) if options.start_from else None
    like = _like(options, start)
    open_data = find_data(data)
    workspace = Workspace(runs=output.parent, zoo=output.parent)
    folder = workspace.run_folder(output.name, seed=options.seed)
    split = folder / DATA_FILE
    dataset = open_data(
        name=options.name,
        record=split if split.exists() else None,
        seed=options.seed,
        **_look(like) | {k: v for k, v in options.look.items() if v is not None},
    )
    print(datasets.report(dataset), flush=True)
    recipe = make_recipe(like, dataset, name=output.name, options=options)
    with locking.lock(folder), Stopping() as stop:
        if not split.exists():  # the folder is made only for images that can be used
            replace_file(split, content=own_record(dataset).to_json())
        record = state.read_record(folder)
        saved = None if record else state.load(folder)
        began = record or (saved and saved[0])
        # another machine may prefer another precision than the one where the run was started
        dtype = began.stages[0].dtype if began else auto_precision("cpu")
        plan = make_plan(recipe, start=start, dtype=dtype)
        if began and (began.stages, began.warm_start) != (plan.stages, plan.warm_start):
            raise ValueError(
                f"The options must be those with which the run in {folder} was started; or delete "
                "that folder to start again."
            )
        if not record:
            from .trainer import Run, train  # after all checks: Keras takes seconds to load

            run = Run(plan, folder, seed=options.seed, ancestors=_ancestors(start))
            relative = _relative(recipe, start=start, options=options) if saved is None else None
            datasets.register(dataset)  # `relative` may have come with one of the same name
            if not train(run, saved=saved, relative=relative, stop=stop):
                return _stopped(output)
        model = workspace.load_finished(recipe.name, seed=options.seed)
        from .publishing.measurement import measure_sizes
        from .publishing.publish import publish

        results = measure_sizes(model, recipe=recipe, folder=folder, stop=stop)
        if results is None:
            return _stopped(output)
        written = publish(
            recipe,
            model=model,
            results=results,
            folder=folder,
            zoo_folder=output.parent,
            ancestors=state.read_record(folder).ancestors,
        )
    print(f"{'size':>8}  {'accuracy':>8}")
    for key, accuracy in written.metrics.accuracy.items():
        print(f"{key:>8}  {accuracy:8.2%}")
    print(f"{'mean':>8}  {written.metrics.mean_accuracy:8.2%}")
    print(f"{output}: finished; `gdn-keras predict {output} IMAGE …` uses it")
    return 0


def make_recipe(like: Recipe, dataset: DataSet, *, name: str, options: OwnOptions) -> Recipe:
    """The recipe `like`, for another data set."""
    config = like.config.replace(
        input_size=dataset.image_size,
        input_channels=dataset.channels,
        num_classes=dataset.num_classes,
        class_names=dataset.class_names,
    )
    if dataset.surroundings != datasets.get(like.dataset).surroundings:
        config = config.replace(padding=_PADDINGS[dataset.surroundings])
    images, _ = dataset.num_images
    return dataclasses.replace(
        like,
        name=name,
        group=OWN,
        dataset=dataset.name,
        config=config,
        train_split="train",  # a validation split is somebody's to choose settings with
        train_sizes=None,
        batch_size=min(like.batch_size, images),
        epochs=options.epochs or max(EPOCHS, round(IMAGES / images)),
        flip=like.flip if options.flip is None else options.flip,
        colour_jitter=like.colour_jitter and dataset.channels == 3,
        paper_section=None,
    )


def make_plan(recipe: Recipe, *, start: ModelInfo | None, dtype: str) -> Plan:
    """All stages; or only the last one, from the weights of `start`."""
    plan = plan_run(recipe, budget="cpu", finished=set(), dtype=dtype)
    if start is None:
        return plan
    return dataclasses.replace(plan, warm_start=start.name, stages=plan.stages[-1:])


def _ancestors(start: ModelInfo | None) -> tuple[Ancestor, ...]:
    if start is None:
        return ()
    earlier = (Ancestor(name=name) for name in start.lineage)
    return Ancestor(name=start.name, seed=start.seed), *earlier


def _relative(
    recipe: Recipe, *, start: ModelInfo | None, options: OwnOptions
) -> GaussDerNet | None:
    """The network that lends its weights, with the inputs and outputs of the new one."""
    if start is None:
        return None
    same = ("input_size", "input_channels", "num_classes", "class_names")
    changes = {name: getattr(recipe.config, name) for name in same}
    return zoo.load(options.start_from, **changes)


def _like(options: OwnOptions, start: ModelInfo | None) -> Recipe:
    """The recipe to follow; the weights to start from must fit it."""
    name = options.like or (start and start.recipe)
    if name is None or (options.like is None and name not in ALL):
        raise ValueError(
            "`--like` must be the name of a recipe, such as fashion_avg_2jet. Received: none."
        )
    like = get(name)
    if like.transfer_from:
        raise ValueError(
            f"`--like` must be a recipe that is trained. Received: {name}, which is derived from "
            f"{like.transfer_from}."
        )
    for field in ("widths", "jet_order", "learned_sigmas") if start else ():
        ours, theirs = getattr(like.config, field), getattr(start.config, field)
        if ours != theirs:
            raise ValueError(
                f"`--from` must be a network with {field}={ours}, as {name} has. "
                f"Received: {start.name}, {field}={theirs}."
            )
    return like


def _look(like: Recipe) -> dict[str, Any]:
    """Images as those of the recipe: its canvas, the size of its objects, their surroundings."""
    data = datasets.get(like.dataset)
    side = data.sizes.trained_side(like.train_sizes)
    canvas = data.image_size[0] if side else 2 * data.image_size[0]
    return {
        "canvas": canvas,
        "side": side,
        "surroundings": data.surroundings or "mirrored",
        "channels": data.channels,
    }


def _check_output(output: Path) -> None:
    if not re.fullmatch(r"\w[\w.-]*", output.name):
        raise ValueError(
            "`-o` must be a folder whose name has only letters, digits, _, - and dots. "
            f"Received: {output.name!r}."
        )
    if output.is_dir() and any(output.iterdir()):
        there = zoo.read_folder(output).recipe
        if not there.get(OWN_DATA) or there["name"] != output.name:
            raise FileExistsError(f"{output} is a network of another kind, which is not replaced.")


def _stopped(output: Path) -> int:
    print(f"{output.name}: stopped; run the same command to resume")
    return STOPPED
