"""What networks cost before they are trained: by hand, and as the commands show it."""

import json
import re

import numpy as np
import pytest
from training_helpers import write_rates

from gdn_keras.counts import count_multiply_adds
from gdn_keras.utils import cpu
from training import budgets, costs
from training.recipes import RECIPES, get


@pytest.fixture
def quick(monkeypatch):
    """A calibration that takes a second."""
    monkeypatch.setattr(costs, "_CALIBRATED_WITH", ("tiny_single", "tiny_avg"))
    monkeypatch.setattr(costs, "_SECONDS", 0.0)


def test_cost_by_hand():
    plan = budgets.plan_run(get("cifar_avg_2jet"), budget="cpu", finished=set())
    assert [stage.name for stage in plan.stages] == ["single", "together"]
    cost = costs.cost_of(plan)
    gflop = [2e-9 * count_multiply_adds(stage.config) for stage in plan.stages]
    images = [stage.steps(50_000) * stage.batch_size for stage in plan.stages]
    assert cost.images == sum(images)
    assert cost.gflop == gflop[1] > gflop[0]
    assert cost.training == pytest.approx(3 * np.dot(images, gflop))
    assert cost.evaluation == pytest.approx(9 * 10_000 * gflop[1])
    rate = costs.Rate(training=100.0, inference=50.0)
    assert cost.hours(rate) == pytest.approx((cost.training / 100 + cost.evaluation / 50) / 3600)


def test_every_recipe_has_a_cost_unless_its_data_are_elsewhere():
    for recipe in RECIPES.values():
        finished = {recipe.transfer_from} if recipe.transfer_from else set()
        cost = costs.cost_of(budgets.plan_run(recipe, budget="cpu", finished=finished))
        elsewhere = recipe.dataset in ("stir_sign", "stir_aerial")
        assert (cost is None) == elsewhere, recipe.name
        if cost is not None:
            assert (cost.training == 0) == bool(recipe.transfer_from), recipe.name
            assert cost.evaluation > 0


def test_the_speed_is_measured_once(quick, tmp_path, capsys):
    rates = costs.measured_rates(tmp_path, dtype="float32")
    assert set(rates) == {"tiny_single", "tiny_avg"}
    assert all(rate.training > 0 and rate.inference > 0 for rate in rates.values())
    assert "speed of this machine" in capsys.readouterr().out
    assert costs.measured_rates(tmp_path, dtype="float32") == rates
    assert capsys.readouterr().out == ""
    file = tmp_path / costs.RATES
    assert list(json.loads(file.read_text())) == [f"{cpu.text(cpu.describe())}, float32"]


def test_networks_lend_their_weights_to_those_after_them(quick, tmp_path):
    names = ("fashion_single_2jet", "fashion_avg_2jet", "stir_sign_mid_drop")
    kept = {"tiny_single": costs.Rate(1.0, 1.0), "tiny_avg": costs.Rate(2.0, 2.0)}
    key = f"{cpu.text(cpu.describe())}, float32"
    data = {key: {name: vars(rate) for name, rate in kept.items()}}
    (tmp_path / costs.RATES).write_text(json.dumps(data))
    options = {"budget": "cpu", "finished": set(), "runs": tmp_path, "dtype": "float32"}
    (single, hours), (together, _), unknown = costs.estimate_hours(map(get, names), **options)
    ((alone, _),) = costs.estimate_hours([get(names[1])], **options)
    whole = 2 * 60_000  # the end of a single channel that lends its weights; others do without
    assert together.images == alone.images - (single.images - whole)
    assert hours == single.hours(costs.Rate(1.0, 1.0))
    assert unknown == (None, None)


def test_list_and_queue_show_the_hours(place, capsys):
    write_rates(place.runs)
    assert place("list", "tiny*", "--cost") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["recipe", "status", "GFLOP/image", "images", "hours"]
    row = dict(zip(lines[0].split(), lines[1].split(), strict=True))
    assert row["recipe"] == "tiny_single" and row["status"] == "open" and row["images"] == "1,280"
    assert lines[-1].startswith("Left: ") and "hours" in lines[-1]
    assert place("queue", "tiny_single") == 0
    assert re.search(r"1 to train, .*0\.0 hours", capsys.readouterr().out)
