"""Plans: from a recipe and a budget to stages, and what a run starts from."""

import dataclasses
import json

import numpy as np
import pytest

from gdn_keras.datasets import Arrays, DataSet
from gdn_keras.scale_space import METHODS
from training import CHECKOUT, stages
from training.budgets import CPU_STAGES, DENSITY, REACH, WIDE_REACH, plan_run, relatives
from training.options import RunOptions, Trial
from training.recipes import ALL, RECIPES, get, trained
from training.runs import planning, state
from training.runs.record import Ancestor, RunRecord
from training.runs.workspace import Workspace


@pytest.mark.parametrize("recipe", trained(), ids=lambda recipe: recipe.name)
def test_the_paper_budget_is_the_recipe(recipe):
    plan = plan_run(recipe, budget="paper", finished=set(RECIPES))
    assert plan.warm_start is None
    (stage,) = plan.stages
    assert stage.config == recipe.config.replace(window=False)
    assert stage.config.sampling_density is None
    same = ("dataset", "batch_size", "epochs", "learning_rate", "final_learning_rate")
    same += ("weight_decay", "train_sizes", "sigma_learning_rate", "sigma_weight_decay")
    for name in (*same, "fixed_last_sigma"):
        assert getattr(stage, name) == getattr(recipe, name)
    assert stage.split == recipe.train_split
    assert (stage.warmup, stage.label_smoothing, stage.limit) == (0, 0, None)
    used = {"flip": recipe.flip, "colour_jitter": recipe.colour_jitter, "cutout": recipe.cutout}
    assert stage.augment == tuple(name for name, value in used.items() if value)


@pytest.mark.parametrize("recipe", trained(), ids=lambda recipe: recipe.name)
def test_the_cpu_budget_ends_with_the_recipe_on_coarse_grids(recipe):
    plan = plan_run(recipe, budget="cpu", finished=set())
    last = plan.stages[-1]
    reach = REACH
    if last.name == "together" and recipe.config.padding != "mirror":
        kind = recipe.group.partition("_")[0]
        reach = {"fashion": None, "cifar": WIDE_REACH}.get(kind, REACH)
    # learned sigmas depend on what batch norm sees, and so do channels that are added later
    window = not recipe.config.learned_sigmas and last.name != "whole"
    coarse = recipe.config.replace(sampling_density=DENSITY, reach=reach, window=window)
    assert last.config == coarse
    assert all(stage.limit is None for stage in plan.stages)
    channels = [len(stage.config.channel_sigmas) for stage in plan.stages]
    assert channels[0] == 1 and channels == sorted(channels)
    for stage in plan.stages[1:]:
        assert stage.config.channel_sigmas == recipe.config.channel_sigmas
    assert {stage.dataset for stage in plan.stages} == {recipe.dataset}  # size factor 1, see below


def test_only_size_factor_1_is_trained_on(monkeypatch):
    asked = {}

    class Asked:
        def load(self, sizes, *, split, data_dir, limit):
            asked.update(sizes=list(sizes), split=split)
            yield 1.0, Arrays(np.zeros((1, 2, 2, 1), np.uint8), np.zeros(1, int), ("one",))

    monkeypatch.setattr(DataSet, "_loader", lambda self: Asked())
    for recipe in trained():
        for stage in plan_run(recipe, budget="cpu", finished=set()).stages:
            if not stage.train_sizes:
                stages.load_data(stage)
                assert asked["split"] in ("train", "train+validation")
                assert asked["sizes"] == [1.0]


def test_networks_of_several_channels_begin_at_the_scale_of_the_single_one():
    first = {
        name: plan_run(get(name), budget="cpu", finished=set()).stages[0].config.channel_sigmas
        for name in RECIPES
        if not get(name).transfer_from
    }
    for tag, sigma in (("", 1.0), ("_s0p50", 0.5), ("_s0p71", 2**-0.5)):
        for family in ("fashion", "cifar"):
            for pooling in ("single", "max", "avg"):
                assert first[f"{family}_{pooling}_2jet{tag}"] == (sigma,)
    assert first["fashion_translated_avg_2jet"] == first["stir_emoji_mid_drop"] == (1.0,)


def test_relatives_fit():
    """Whatever a network may start from has weights of the same shapes and was trained."""
    order = relatives(get("cifar_max_2jet"))
    assert order.index("cifar_avg_2jet") < order.index("cifar_single_2jet")  # same channels
    assert "fashion_single_2jet" in relatives(get("fashion_translated_avg_2jet"))
    order = ["cifar_max_2jet_s0p50", "cifar_single_2jet_s0p50"]
    assert relatives(get("cifar_avg_2jet_s0p50")) == order
    for recipe in trained():
        if len(recipe.config.channel_sigmas) > 1:
            for other in map(get, relatives(recipe)):
                assert not other.transfer_from
                for field in ("widths", "num_classes", "input_channels"):
                    assert getattr(other.config, field) == getattr(recipe.config, field)
                assert other.config.jet_order <= recipe.config.jet_order


def test_what_regularisation_does_is_not_tried_on_the_weights_of_the_other():
    """Section 7.1 compares networks with dropout, cutout and neither; STIR has both, too."""
    for recipe in trained():
        for other in map(get, relatives(recipe)):
            if other.dataset == recipe.dataset and len(other.config.channel_sigmas) > 1:
                assert other.config.scale_dropout == recipe.config.scale_dropout
                assert other.cutout == recipe.cutout
    assert relatives(get("stir_emoji_mid_nodrop")) == []
    assert "fashion_avg_2jet" in relatives(get("fashion_translated_avg_2jet"))  # other data
    mirrored = relatives(get("cifar_avg_2jet_mirror"))
    assert mirrored[:2] == ["cifar_max_2jet_mirror", "cifar_avg_2jet"]
    assert "cifar_avg_2jet_nodrop" not in mirrored
    assert not any("mirror" in name for name in relatives(get("cifar_avg_2jet")))


def test_relatives_of_other_kinds():
    """Another discretisation and lower jets will do; the nearest comes first."""
    sampled = relatives(get("fashion28_sampled_s1p00"))
    assert sampled[0] == "fashion28_discrete_s1p00" and "fashion28_discrete_s0p50" not in sampled
    discrete = relatives(get("cifar32_discrete_s0p71"))  # other kernels before other sigmas
    assert set(discrete[:5]) == {f"cifar32_{name}_s0p71" for name in METHODS} - {
        "cifar32_discrete_s0p71"
    }
    assert discrete[5:7] == ["cifar32_discrete_s0p50", "cifar32_discrete_s1p00"]
    assert relatives(get("cifar_avg_3jet"))[0] == "cifar_avg_2jet"
    assert "cifar_avg_3jet" not in relatives(get("cifar_max_2jet"))
    for recipe in trained():
        if recipe.config.learned_sigmas:
            assert not relatives(recipe)


def test_single_channels_that_lend_their_weights_see_whole_maps_in_the_end():
    for recipe in trained():
        lends = any(other.transfer_from == recipe.name for other in RECIPES.values())
        for name in (recipe.name, f"{recipe.name}@holdout"):  # a trial is trained alike
            stages = plan_run(
                dataclasses.replace(recipe, name=name), budget="cpu", finished=set()
            ).stages
            names = [stage.name for stage in stages]
            assert names == ["single", "whole"] if lends else "whole" not in names
            assert not lends or [stage.config.window for stage in stages] == [True, False]


@pytest.mark.parametrize(
    "name, window", [("cifar_single_2jet", False), ("fashion28_discrete_s1p00", True)]
)
def test_training_further_ends_as_the_budget_does_now(tmp_path, name, window):
    workspace = Workspace(runs=tmp_path, zoo=CHECKOUT / "zoo")
    before = workspace.published_record(name).stages
    record = planning.further_record(get(name), workspace=workspace, options=RunOptions(more=1.0))
    assert record.stages[:-1] == before
    last = record.stages[-1]
    assert last.config == before[-1].config.replace(window=window)
    assert last.learning_rate == before[-1].learning_rate / 2


def test_what_a_relative_has_had_is_left_out():
    def epochs(name, *finished):
        plan = plan_run(get(name), budget="cpu", finished=set(finished))
        return [(stage.name, stage.epochs) for stage in plan.stages]

    single, together = epochs("cifar_avg_2jet")
    assert [name for name, _ in (single, together)] == ["single", "together"]
    assert epochs("cifar_avg_2jet", "cifar_single_2jet") == [together]
    third = [("together", together[1] / 3)]
    assert epochs("cifar_max_2jet", "cifar_single_2jet", "cifar_avg_2jet") == third
    # the terms of third order are new to the 2-jet, so its last stage is not shortened
    assert epochs("cifar_avg_3jet", "cifar_avg_2jet") == [together]
    # other scales take longer than other kernels
    assert epochs("fashion28_sampled_s1p00", "fashion28_discrete_s1p00") == [("single", 1)]
    assert epochs("fashion28_discrete_s0p71", "fashion28_discrete_s0p50") == [("single", 3)]


def plan_in(folder, *, saved=None, name="fashion_max_2jet", **options):
    """The plan of a run, with a folder of runs in which networks can be finished."""
    workspace = Workspace(runs=folder / "runs", zoo=folder / "zoo")
    options = RunOptions(**options)
    return planning.make_plan(get(name), workspace=workspace, options=options, saved=saved)


def finish(folder, *names):
    for name in names:
        (folder / "runs" / f"{name}-seed0").mkdir(parents=True)
        (folder / "runs" / f"{name}-seed0" / state.RECORD).write_text("{}")


def test_what_a_run_starts_from_can_be_chosen(tmp_path):
    finish(tmp_path, "fashion_single_2jet", "fashion_lse_2jet")

    def begins(**options):
        plan = plan_in(tmp_path, **options)
        return plan.warm_start, [stage.name for stage in plan.stages]

    assert begins() == ("fashion_lse_2jet", ["together"])
    assert begins(start_from="fashion_single_2jet") == ("fashion_single_2jet", ["together"])
    assert begins(start_from="none") == (None, ["single", "together"])
    assert begins(start_from="none", budget="paper") == (None, ["together"])


@pytest.mark.parametrize(
    "name, start_from, options, message",
    [
        (
            "fashion_max_2jet",
            "cifar_avg_2jet",
            {},
            "`--from` must be none or fashion_.*: cifar",
        ),
        (
            "fashion_max_2jet",
            "fashion_lse_2jet",
            {},
            "must be a finished network; `.* run fashi",
        ),
        ("fashion_max_2jet", "fashion_single_2jet", {"budget": "paper"}, "`--from` must be none"),
        ("tiny_avg_transfer", "none", {}, "`--from` must be tiny_single for tiny_avg_transfer"),
    ],
)
def test_a_run_does_not_start_from_just_anything(tmp_path, name, start_from, options, message):
    finish(tmp_path, "fashion_single_2jet", "tiny_single")
    with pytest.raises(ValueError, match=message):
        plan_in(tmp_path, name=name, start_from=start_from, **options)


def test_a_phase_on_every_pixel_ends_the_cpu_budget(tmp_path):
    recipe = get("fashion_max_2jet")
    plan, plain = plan_in(tmp_path, exact_phase=0.1), plan_in(tmp_path)
    assert plan.stages[:-1] == plain.stages
    last, before = plan.stages[-1], plain.stages[-1]
    assert (last.name, last.epochs, last.learning_rate) == ("exact", 0.1, 0.001)
    assert last.config == recipe.config and recipe.config.sampling_density is None
    same = {"name": "", "config": None, "epochs": 1, "learning_rate": 1}
    assert dataclasses.replace(last, **same) == dataclasses.replace(before, **same)


@pytest.mark.parametrize(
    "epochs, options, message",
    [
        (0.0, {}, "`epochs` must be a positive number"),
        (0.1, {"budget": "paper"}, "`exact_phase` must be None .*paper"),
        (0.1, {"trial": Trial(holdout=True)}, "`--exact-phase` .*trial"),
    ],
)
def test_a_phase_on_every_pixel_is_refused(tmp_path, epochs, options, message):
    with pytest.raises(ValueError, match=message):
        plan_in(tmp_path, exact_phase=epochs, **options)


def test_every_group_has_settings():
    assert set(CPU_STAGES) >= {recipe.group for recipe in ALL.values() if recipe.epochs}


def test_a_run_keeps_the_settings_it_was_started_with(tmp_path, monkeypatch, capsys):
    """Also when the settings of the budget, or the machine, are other ones by now."""
    plan = plan_in(tmp_path, name="tiny_avg", precision="float32")
    saved = RunRecord.start(plan, seed=0)
    assert saved.plan(get("tiny_avg")) == plan
    monkeypatch.setitem(
        CPU_STAGES, "tiny", ({"name": "single", "epochs": 9}, {"name": "together", "epochs": 9})
    )
    assert plan_in(tmp_path, name="tiny_avg", saved=saved) == plan
    assert "tiny_avg: the settings have changed" in capsys.readouterr().out


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("budget", "paper", "`--budget` must be cpu"),
        ("precision", "mixed_bfloat16", "`--precision` must be float32"),
        ("start_from", "tiny_single", "`--from` must be none"),
        ("exact_phase", 0.1, "`--exact-phase` must be left out"),
    ],
)
def test_a_run_refuses_other_options_than_it_was_started_with(tmp_path, option, value, message):
    plan = plan_in(tmp_path, name="tiny_avg", precision="float32")
    saved = RunRecord.start(plan, seed=0)
    with pytest.raises(ValueError, match=f"{message}.*Received: {value}"):
        plan_in(tmp_path, name="tiny_avg", saved=saved, **{option: value})


# === records ===


def test_a_record_is_the_same_after_it_was_written():
    plan = plan_run(get("tiny_avg"), budget="cpu", finished={"tiny_single"})
    ancestors = (Ancestor(name="tiny_single", seed=0, images=1280), Ancestor(name="older"))
    record = RunRecord.start(plan, seed=3, ancestors=ancestors)
    record = record.replace(stage=1, step=0, images_seen=64, seconds=1.5, cpu="One")
    record = record.replace(config=get("tiny_avg").config, versions={"keras": "3"})
    data = json.loads(json.dumps(record.to_dict()))
    assert data == record.to_dict() and RunRecord.from_dict(data) == record
    assert data["lineage"] == ["tiny_single", "older"] and record.warm_start == "tiny_single"


def test_records_of_older_versions_are_read():
    """Runs and zoo folders had their own names for the same things."""
    new = RunRecord.start(
        plan_run(get("tiny_avg"), budget="cpu", finished={"tiny_single"}),
        seed=3,
        ancestors=(Ancestor(name="tiny_single"),),
    ).replace(images_seen=64, seconds=1.5)
    shared = {"budget": "cpu", "seed": 3, "seconds": 1.5, "stages": new.to_dict()["stages"]}
    run = {"recipe": "tiny_avg", "warm_start": "tiny_single", "images": 64, "stage": 0, "step": 0}
    assert RunRecord.from_dict(shared | run) == new
    folder = {"name": "tiny_avg", "lineage": ["tiny_single"], "images_seen": 64}
    folder |= {"paper_section": None, "paper_epochs": 32}  # what the recipe says
    assert RunRecord.from_dict(shared | folder) == new.replace(stage=1)  # finished
    scratch = RunRecord.from_dict(shared | run | {"warm_start": None})
    assert scratch.ancestors == () and scratch.warm_start is None
