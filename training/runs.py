"""The runs of this machine: where they are, what they are begun with, what they have made."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import urllib.parse
from pathlib import Path
from typing import Any

from gdn_keras import zoo
from gdn_keras.cpu import has_bfloat16
from gdn_keras.zoo.folder import WEIGHTS_FILE
from training import CHECKOUT, state
from training.budgets import EXACT, MORE, Plan, Stage, more_stage, plan_run, relatives, resumed_plan
from training.recipes import ALL, Recipe, get
from training.state import RECORD, WEIGHTS

# of a network's config, what a trial may change
SAMPLING = ("channel_sigmas", "sampling_density", "reach")


def chosen_recipe(name: str, arguments) -> Recipe:
    """The recipe called `name`, or the trial of it that the command line describes.

    A trial has another name, so that it never mixes with the real run.
    """
    recipe = get(name)
    if not trial_options(arguments):
        return recipe
    changes = arguments.set + ["then"] * bool(arguments.then) + arguments.then
    words = ["holdout"] * arguments.holdout + list(map(_word, changes))
    split = "train" if arguments.holdout else recipe.train_split
    return dataclasses.replace(recipe, name=f"{recipe.name}@{'-'.join(words)}", train_split=split)


def _word(change: str) -> str:
    """A change as part of a file name: `channel_sigmas=[1, 2]` is channel_sigmas1,2."""
    return urllib.parse.quote(re.sub(r'[\s"\[\]=]', "", change), safe="+,")


def trial_options(arguments) -> list[str]:
    """The options that make a trial of a recipe."""
    words = ["--holdout"] * getattr(arguments, "holdout", False)
    for option in ("set", "then"):
        for change in getattr(arguments, option, []):
            words += [f"--{option}", change]
    return words


def run_command(name: str, arguments, options: list[str]) -> str:
    """What to type to train a recipe, for messages."""
    seed = ["--seed", str(arguments.seed)] if arguments.seed else []
    return shlex.join(["python", "-m", "training", "run", name, *options, *seed])


def all_runs(arguments) -> Path:
    return Path(arguments.runs) if arguments.runs else state.runs_folder()


def run_folder(name: str, arguments) -> Path:
    return all_runs(arguments) / f"{name}-seed{arguments.seed}"


def zoo_folder(arguments) -> Path:
    return Path(arguments.zoo) if arguments.zoo else CHECKOUT / "zoo"


def is_published(name: str, arguments) -> bool:
    return (zoo_folder(arguments) / name / zoo.CARD_FILE).exists()


def status(name: str, arguments) -> str:
    """trained, in progress (perhaps trained further) or open."""
    folder = run_folder(name, arguments)
    record = read_record(folder)
    if record is None and state.exists(folder):
        return "in progress"
    if record is not None and is_published(name, arguments):
        before = _published_recipe(name, arguments)
        if before["seed"] == record["seed"] and before["images_seen"] < record["images"]:
            return "in progress"  # trained further, but not yet measured and published again
    return "trained" if is_finished(name, arguments) else "open"


def is_finished(name: str, arguments) -> bool:
    """Whether there are weights, of a run or in the zoo."""
    record = run_folder(name, arguments) / RECORD
    return is_published(name, arguments) or record.exists()


def read_record(folder: Path) -> dict[str, Any] | None:
    """What a finished run says about itself; None if it is not finished."""
    file = folder / RECORD
    return json.loads(file.read_text()) if file.exists() else None


def finished_folder(name: str, arguments) -> Path:
    """The folder of a finished run; one that is in the zoo only is made from there."""
    folder = run_folder(name, arguments)
    if not (folder / RECORD).exists() and not state.exists(folder):
        _restore(name, arguments, folder)
    if not (folder / RECORD).exists():
        how = run_command(name.partition("@")[0], arguments, trial_options(arguments))
        raise ValueError(
            f"`name` must be a finished run; there is none in {folder}. "
            f"`{how}` makes it. Received: name={name!r}."
        )
    return folder


def _restore(name: str, arguments, folder: Path) -> None:
    """The run behind a network of the zoo, as far as its folder there has kept it."""
    if not is_published(name, arguments):
        return
    record, published = _published_run(name, arguments), zoo_folder(arguments) / name
    if record["seed"] != arguments.seed:
        return
    record["config"] = json.loads((published / zoo.CONFIG_FILE).read_text())
    folder.mkdir(parents=True, exist_ok=True)
    state.write_bytes(folder / WEIGHTS, (published / WEIGHTS_FILE).read_bytes())
    state.write_text(folder / RECORD, json.dumps(record, indent=2) + "\n")


def load_finished(name: str, arguments):
    """The network of a finished run, or of the zoo."""
    from gdn_keras.config import GaussDerNetConfig
    from gdn_keras.model import build_model
    from gdn_keras.zoo.weights import assign_weights, read_weights

    folder = run_folder(name, arguments)
    record = read_record(folder)
    if record is None:
        return zoo.load(zoo_folder(arguments) / name)
    model = build_model(GaussDerNetConfig.from_dict(record["config"]), dtype="float32")
    assign_weights(model, read_weights(folder / WEIGHTS), source=str(folder / WEIGHTS))
    return model


def ancestors(name: str | None, arguments) -> list[dict[str, Any]]:
    """A finished network and those it started from, the nearest first: name, seed and images.

    None where that is not known.
    """
    if name is None:
        return []
    record = _any_record(name, arguments)
    if record is None:
        return [{"name": name, "seed": None, "images": None}]
    further = record.get("ancestors")
    if further is None:  # made before this was recorded
        before = (
            record["warm_start"] if "warm_start" in record else (record["lineage"] or [None])[0]
        )
        further = ancestors(before, arguments)
    further = [_with_images(ancestor, arguments) for ancestor in further]
    return [{"name": name, "seed": record["seed"], "images": _images(record)}, *further]


def _any_record(name: str, arguments) -> dict[str, Any] | None:
    """What the run says about itself, or else the zoo folder."""
    record = read_record(run_folder(name, arguments))
    if record is None and is_published(name, arguments):
        record = _published_recipe(name, arguments)
    return record


def _published_run(name: str, arguments) -> dict[str, Any]:
    """What a zoo folder says about the run that made it, in the words of a run."""
    facts = _published_recipe(name, arguments)
    same = ("budget", "seed", "stages", "seconds", "statistics_images", "versions")
    same += ("cpu",) * ("cpu" in facts)
    return {
        "recipe": name,
        "warm_start": (facts["lineage"] or [None])[0],
        "ancestors": ancestors(name, arguments)[1:],
        "images": facts["images_seen"],
        **{field: facts[field] for field in same},
    }


def _published_recipe(name: str, arguments) -> dict[str, Any]:
    return json.loads((zoo_folder(arguments) / name / zoo.RECIPE_FILE).read_text())


def _images(record: dict[str, Any]) -> int | None:
    return record.get("images", record.get("images_seen"))  # of a run, of a zoo folder


def _with_images(ancestor: dict[str, Any], arguments) -> dict[str, Any]:
    """Recorded when only names and seeds were: the ancestor itself knows the rest."""
    if "images" in ancestor:
        return ancestor
    record = _any_record(ancestor["name"], arguments)
    known = record is not None and record["seed"] == ancestor["seed"]
    return ancestor | {"images": _images(record) if known else None}


def images_seen(facts: dict[str, Any]) -> str:
    """On how many images a network of the zoo was trained, its ancestors' included, in words."""
    before = [ancestor.get("images") for ancestor in facts.get("ancestors", ())]
    text = f"{facts['images_seen']:,} images"
    if not before:
        return text
    if None in before:
        return f"{text} after those of its ancestor{'s' * (len(before) > 1)}"
    return f"{text} after {sum(before):,} of its ancestor{'s' * (len(before) > 1)}"


def trained_further(facts: dict[str, Any]) -> bool:
    """Whether a network of the zoo got a stage when its test accuracy was known."""
    return any(stage["name"] == MORE for stage in facts["stages"])


def make_plan(recipe: Recipe, arguments, *, begun: dict[str, Any] | None) -> Plan:
    """The plan of a run; one that was `begun` goes on with the settings it has."""
    if begun is None:
        holdout = getattr(arguments, "holdout", False)
        if holdout:  # other networks have seen the validation images
            finished = {n for n in ALL if read_record(run_folder(f"{n}@holdout", arguments))}
        else:
            finished = {name for name in ALL if is_finished(name, arguments)}
        source = recipe.transfer_from
        if source and source not in finished:
            how = run_command(source, arguments, ["--holdout"] * holdout)
            raise ValueError(
                f"{recipe.name} is derived from {source}, which is not finished: `{how}` makes it."
            )
        finished = _to_start_from(recipe, arguments, finished)
        plan = _plan(recipe, arguments, finished, precision(arguments))
        if holdout and plan.warm_start:
            plan = dataclasses.replace(plan, warm_start=f"{plan.warm_start}@holdout")
        return plan
    plan = resumed_plan(recipe, begun)
    check_options(begun, arguments)
    begun_from = {(plan.warm_start or "").partition("@")[0]}
    goes_on = any(stage.name == MORE for stage in plan.stages)
    if (
        not goes_on
        and plan.stages != _plan(recipe, arguments, begun_from, plan.stages[0].dtype).stages
    ):
        print(f"{recipe.name}: the settings have changed; it goes on with those it was begun with.")
    return plan


def published_to_go_on(recipe: Recipe, arguments) -> dict[str, Any]:
    """What is known of the network of the zoo, as of a run that has one more stage before it."""
    contradiction = trial_options(arguments) or arguments.start or arguments.exact_phase
    if contradiction or not is_published(recipe.name, arguments) or recipe.transfer_from:
        raise ValueError(
            "`--more` goes on with a trained network of the zoo, with none of --from, "
            "--exact-phase, --holdout, --set and --then. "
            f"Received: --more {arguments.more:g} for {recipe.name}."
        )
    begun = _published_run(recipe.name, arguments)
    if begun["seed"] != arguments.seed:
        raise ValueError(
            f"`--seed` must be {begun['seed']}, that of {recipe.name} in the zoo, to go on with "
            f"it. Received: {arguments.seed}."
        )
    stages = begun["stages"]
    more = more_stage(
        Stage.from_dict(stages[-1]), epochs=arguments.more, dtype=precision(arguments)
    )
    return begun | {
        "stages": [*stages, json.loads(json.dumps(more.to_dict()))],
        "stage": len(stages),
        "step": 0,
    }


def _to_start_from(recipe: Recipe, arguments, finished: set[str]) -> set[str]:
    """The finished networks that may lend their weights; `--from` can leave one of them, or none.

    What is derived without training has its source, and the paper's budget starts from scratch.
    """
    name = getattr(arguments, "start", None)
    if name is None:
        return finished
    fixed = recipe.transfer_from or (arguments.budget == "paper" and "none")
    if name == fixed:
        return finished
    allowed = ["none", *relatives(recipe)]
    if fixed or name not in allowed:
        raise ValueError(
            f"`--from` must be {fixed or ' or '.join(allowed)} for {recipe.name} with "
            f"--budget {arguments.budget}. Received: {name}."
        )
    if name != "none" and name not in finished:
        how = run_command(name, arguments, ["--holdout"] * getattr(arguments, "holdout", False))
        raise ValueError(
            f"`--from` must be a finished network; `{how}` makes it. Received: {name}."
        )
    return finished & {name}


def check_options(info: dict[str, Any], arguments) -> None:
    """Refuse options that contradict what a run was begun with."""
    stages = info["stages"]
    exact = (stage["epochs"] for stage in stages if stage["name"] == EXACT)
    begun = {
        "budget": info["budget"],
        "from": (info.get("warm_start") or "none").partition("@")[0],
        "exact-phase": next(exact, None),
        "more": stages[-1]["epochs"] if stages and stages[-1]["name"] == MORE else None,
    }
    given = {
        "budget": arguments.budget,
        "from": getattr(arguments, "start", None),
        "exact-phase": getattr(arguments, "exact_phase", None),
        "more": getattr(arguments, "more", None),
    }
    if stages and arguments.precision != "auto":
        stage = stages[-1] if begun["more"] else stages[0]
        begun["precision"], given["precision"] = stage["dtype"], arguments.precision
    for name, value in begun.items():
        if given[name] not in (None, value):
            folder = run_folder(info["recipe"], arguments)
            again = "go on from the network of the zoo" if name == "more" else "start again"
            raise ValueError(
                f"`--{name}` must be {'left out' if value is None else value}, as when the run in "
                f"{folder} was begun; or delete that folder to {again}. "
                f"Received: {given[name]}."
            )


def precision(arguments) -> str:
    """`--precision`, or what suits the machine."""
    return (
        auto_precision(arguments.budget) if arguments.precision == "auto" else arguments.precision
    )


def auto_precision(budget: str) -> str:
    return "mixed_bfloat16" if budget == "cpu" and has_bfloat16() else "float32"


def _plan(recipe: Recipe, arguments, finished: set, dtype: str) -> Plan:
    exact_phase = getattr(arguments, "exact_phase", None)
    if exact_phase is not None and trial_options(arguments):
        raise ValueError(
            "`--exact-phase` must be left out of a trial, which has `--then sampling_density=null` "
            f"for it. Received: {exact_phase}."
        )
    plan = plan_run(
        recipe,
        budget=arguments.budget,
        finished=finished,
        dtype=dtype,
        exact_phase=exact_phase,
    )
    changes, more = getattr(arguments, "set", []), getattr(arguments, "then", [])
    if (changes or more) and not plan.stages:
        raise ValueError(f"`--set` changes training, and {recipe.name} is derived without any.")
    stages = plan.stages
    if changes:
        stages = (*stages[:-1], _changed(stages[-1], changes))
    if more:
        stages = (*stages, dataclasses.replace(_changed(stages[-1], more), name="then"))
    return dataclasses.replace(plan, stages=stages)


def _changed(stage: Stage, changes: list[str]) -> Stage:
    parsed = _parsed(changes)
    sampling = {name: parsed.pop(name) for name in SAMPLING if name in parsed}
    return dataclasses.replace(stage, config=stage.config.replace(**sampling), **parsed)


def _parsed(changes: list[str]) -> dict[str, Any]:
    own = {field.name for field in dataclasses.fields(Stage)} - {"name", "config"}
    names = sorted(own | set(SAMPLING))
    parsed = {}
    for change in changes:
        name, _, text = change.partition("=")
        if name not in names:
            raise ValueError(f"`--set` must be FIELD=VALUE, one of {names}. Received: {change!r}.")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        parsed[name] = tuple(value) if isinstance(value, list) else value
    return parsed
