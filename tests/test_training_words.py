"""What is typed: mistakes are explained, the help is right, trials have their own names."""

import dataclasses
import re
import shlex
import subprocess
import sys
import textwrap

import pytest

from gdn_keras.model import build_model
from training import CHECKOUT, recipes
from training.__main__ import main
from training.budgets import plan_run
from training.options import Trial
from training.parser import EXAMPLES, make_parser


@pytest.mark.parametrize(
    "options, name",
    [
        (
            {"holdout": True, "changes": ("epochs=2", "learning_rate=0.005")},
            "holdout-epochs2-learning_rate0.005",
        ),
        ({"changes": ("channel_sigmas=[1,2]",)}, "channel_sigmas1,2"),
        ({"changes": ("channel_sigmas=[12]",)}, "channel_sigmas12"),
        ({"changes": ("dataset=a/b",)}, "dataseta%2Fb"),
        (
            {"then": ("sampling_density=null",), "changes": ("limit=9",)},
            "limit9-then-sampling_densitynull",
        ),
    ],
)
def test_trials_have_their_own_names(options, name):
    trial = Trial(**options)
    assert trial.recipe("tiny_avg").name == f"tiny_avg@{name}"


def test_what_to_type_for_a_trial_that_was_not_run(place, capsys):
    trial = ["tiny_avg", "--holdout", "--set", "channel_sigmas=[1, 2]", "--then", "epochs=1"]
    assert place("evaluate", *trial, "--seed", "2") == 1
    advice = re.search("`(python -m training run .*?)`", capsys.readouterr().err)[1]
    assert shlex.split(advice)[3:] == ["run", *trial, "--seed", "2"]


def test_what_to_type_for_the_source_of_a_trial(place, capsys):
    assert place("run", "tiny_avg_transfer", "--holdout") == 1
    assert "`python -m training run tiny_single --holdout`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, message",
    [
        ("run tiny_singel", r"Did you mean 'tiny_single'.*Received: name='tiny_singel'"),
        ("evaluate fashion_avg_2jt", r"Did you mean 'fashion_avg_2jet'"),
        ("queue tiny_single nothing_like_it", r"Received: name='nothing_like_it'"),
        ("run tiny_single --set epochs=0", r"`epochs` must be a positive number.*epochs=0\."),
        ("run tiny_single --set epochs=-1", r"`epochs` must be a positive number.*epochs=-1\."),
        ("run tiny_single --set epochs=many", r"`epochs` must be a positive.*epochs='many'"),
        (
            "run tiny_single --set batch_size=641",
            r"`batch_size` must be at most 640.* Received: batch_size=641\.",
        ),
        ("run tiny_single --set batch_size=0", r"`batch_size` must be a positive integer"),
        ("run tiny_single --set dtype=float8", r"`dtype` must be one of .*'float32'"),
        ("run tiny_single --set depth=3", r"`--set` must be FIELD=VALUE, one of .*'epochs'"),
        ("run tiny_single --devices 3", r"`devices` must divide the batch of 32 images"),
        ("sweep tiny_single --gpus -1", r"`--gpus` must be positive. Received: -1\."),
        ("sweep nothing", r"`group` must be one of cifar, .*Received: 'nothing'"),
    ],
)
def test_mistakes_are_explained(place, words, message, capsys):
    assert place(*words.split()) == 1
    assert re.search(f"^error: .*{message}", capsys.readouterr().err)
    assert not list(place.runs.rglob("*.npz"))


def test_missing_data(place, tmp_path, capsys):
    assert place("run", "tiny_single", data=tmp_path / "nowhere") == 1
    assert re.search(r"error: Missing train-images.* in .*/nowhere/.*Put", capsys.readouterr().err)


def test_a_seed_is_checked(capsys):
    with pytest.raises(SystemExit) as end:
        main(["run", "tiny_single", "--seed", "1.5"])
    assert end.value.code == 2
    assert re.search(r"--seed: .* from 0 to 4294967295", capsys.readouterr().err)


def test_help_has_examples():
    done = subprocess.run(
        [sys.executable, "-m", "training", "--help"], capture_output=True, text=True, check=True
    )
    assert "Exit codes" in done.stdout
    for name, lines in EXAMPLES.items():
        assert lines[0] in done.stdout
        parts = lines[0].split("   #")[0].split()
        assert parts[:4] == ["python", "-m", "training", name]


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_help_of_every_command_has_examples(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    for line in EXAMPLES[name]:
        assert line in text
        make_parser().parse_args(shlex.split(line, comments=True)[3:])  # the examples are right


@pytest.mark.parametrize(
    "command, unread",
    [
        ("report", "seed data"),
        ("gallery", "seed data runs"),
        ("statistics", "seed data"),
        ("list", "data"),
        ("publish x", "data"),
    ],
)
def test_a_command_has_no_option_that_it_ignores(command, unread, capsys):
    for option in unread.split():
        with pytest.raises(SystemExit):
            make_parser().parse_args([*command.split(), f"--{option}", "1"])
        assert f"unrecognized arguments: --{option}" in capsys.readouterr().err


# === CONTRIBUTING.md ===


def _contributed() -> recipes.Recipe:
    """What the snippet yields, run in the module where it belongs."""
    text = (CHECKOUT / "CONTRIBUTING.md").read_text()
    (snippet,) = re.findall(r"(?ms)^    ```python\n(.*?)^    ```", text)
    scope = vars(recipes).copy()
    exec(textwrap.dedent(snippet), scope)
    (recipe,) = scope["_edge_recipes"]()
    return recipe


def test_the_configuration_that_contributing_adds_can_be_trained():
    recipe = _contributed()
    assert recipe.name == "fashion_avg_2jet_edge" and recipe.name not in recipes.ALL
    assert recipe.config.padding == "edge"
    build_model(recipe.config.replace(widths=(1,), sampling_density=0.7))
    alone = plan_run(recipe, budget="cpu", finished=set())
    assert [stage.name for stage in alone.stages] == ["single", "together"]
    plan = plan_run(recipe, budget="cpu", finished={"fashion_single_2jet"})
    assert plan.warm_start == "fashion_single_2jet" and len(plan.stages) == 1
    assert len(plan_run(recipe, budget="paper", finished=set()).stages) == 1


def test_the_commands_of_contributing_are_right():
    text = (CHECKOUT / "CONTRIBUTING.md").read_text()
    lines = re.findall(r"(?m)^    (python -m training .*)$", text)
    words = [shlex.split(line, comments=True)[3:] for line in lines]
    for command in words:
        make_parser().parse_args(command)
    names = [command[0] for command in words]
    assert names[-6:] == ["run", "evaluate", "publish", "results", "report", "gallery"]


def test_a_group_without_stages_is_explained():
    recipe = dataclasses.replace(_contributed(), group="fashion_edge")
    with pytest.raises(ValueError, match="`group` .*: fashion, .*group='fashion_edge'"):
        plan_run(recipe, budget="cpu", finished=set())
