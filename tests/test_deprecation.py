"""Old names of the public API work for one version and give the new one in a warning."""

import argparse
import importlib
import sys
import warnings

import pytest

from gdn_keras.utils.deprecation import (
    REMOVED_IN,
    RENAMED_MODULES,
    RenamedOption,
    renamed_arguments,
)
from gdn_keras.version import __version__


def test_old_names_are_removed_in_the_version_that_the_warning_gives():
    assert int(__version__.split(".")[1]) < int(REMOVED_IN.split(".")[1]), "remove the old names"


@pytest.mark.parametrize("old, new", RENAMED_MODULES.items())
def test_an_old_module_is_the_new_one(old, new):
    sys.modules.pop(old, None)
    spec = importlib.import_module(new).__spec__
    with pytest.warns(FutureWarning, match=f"{old} .*{new}.*{REMOVED_IN}"):
        module = importlib.import_module(old)
    assert module is sys.modules[new] and module.__spec__ is spec
    with warnings.catch_warnings():  # once in a process
        warnings.simplefilter("error")
        importlib.import_module(old)


def test_the_warning_points_to_the_import():
    sys.modules.pop("gdn_keras.predict", None)
    with pytest.warns(FutureWarning) as caught:
        from gdn_keras.predict import classify
    assert caught[0].filename == __file__ and classify.__module__ == "gdn_keras.classify"


def test_an_old_option_sets_the_new_one():
    parser = argparse.ArgumentParser()
    parser.add_argument("--paint-colour", choices=["red", "blue"])
    parser.add_argument("--hue", dest="paint_colour", action=RenamedOption, choices=["red", "blue"])
    assert parser.parse_args([]).paint_colour is None and "--hue" not in parser.format_help()
    with pytest.warns(FutureWarning, match="--hue .*--paint-colour"):
        assert parser.parse_args(["--hue", "red"]).paint_colour == "red"
    with pytest.raises(SystemExit):
        parser.parse_args(["--hue", "green"])


@renamed_arguments(colour="hue", size="area")
def paint(what, *, hue="red", area=1):
    return what, hue, area


def test_an_old_argument_becomes_the_new_one():
    with pytest.warns(FutureWarning, match="`colour` .*`hue`") as caught:
        assert paint("door", colour="blue") == ("door", "blue", 1)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paint("door", hue="green", area=2) == ("door", "green", 2)


def test_an_old_and_its_new_argument_contradict_each_other():
    with pytest.raises(TypeError, match="`size` .*`area`"):
        paint("door", size=1, area=2)
