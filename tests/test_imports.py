"""Who may import whom (numbers go up only), what must not be loaded; small folders."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LEVELS = {
    "gdn_keras.utils": 0,
    "gdn_keras.version": 0,
    "gdn_keras.scale_space": 1,
    "gdn_keras.layers": 2,
    "gdn_keras.layers.replicas": 2,  # asks TensorFlow for its replicas, if that is the backend
    "gdn_keras.config": 3,
    "gdn_keras.image_model": 3,
    "gdn_keras.counts": 3,
    "gdn_keras.features": 3,
    "gdn_keras.model": 3,
    "gdn_keras.optimizer": 3,
    "gdn_keras.datasets": 4,
    "gdn_keras.explain": 5,
    "gdn_keras.filters": 5,
    "gdn_keras.plots": 5,
    "gdn_keras": 6,  # what all of it exports
    "gdn_keras.accuracy": 6,
    "gdn_keras.classify": 6,
    "gdn_keras.zoo": 6,
    "gdn_keras.parts": 7,  # finds the two below, in a clone and in a wheel
    "export": 7,
    "training": 8,
    "training.reproduction": 8,
    "training.__main__": 8,  # the command line of both
    "gdn_keras.__main__": 9,  # the command line of everything
    "benchmarks": 9,
    "demo": 9,
}
NEVER = {  # beyond the numbers: (importer, imported)
    ("gdn_keras.datasets", "gdn_keras.layers"),  # knows nothing of models
    ("gdn_keras.datasets", "gdn_keras.config"),
    ("gdn_keras.datasets", "gdn_keras.model"),
    ("gdn_keras.datasets", "gdn_keras.optimizer"),
    ("training", "training.reproduction"),  # trains what the other judges
}
MOST_MODULES = 13  # of a folder, besides __init__.py and __main__.py
BACKENDS = {"tensorflow", "jax", "torch"}
# third-party packages a part may use at all, or not at all
ONLY = {"gdn_keras.scale_space": {"numpy", "scipy"}}
FORBIDDEN = {
    "gdn_keras.layers": BACKENDS,
    "gdn_keras.config": BACKENDS,
    "gdn_keras.image_model": BACKENDS,
    "gdn_keras.counts": BACKENDS,
    "gdn_keras.features": BACKENDS,
    "gdn_keras.model": BACKENDS,
    "gdn_keras.optimizer": BACKENDS,
    "gdn_keras.explain": BACKENDS,
    "gdn_keras.filters": BACKENDS,
    "gdn_keras.plots": BACKENDS,
}
LATE = {"tensorflow_datasets", "matplotlib", "huggingface_hub"}  # only inside functions
LATE_IN = {"gdn_keras.datasets": LATE | {"tensorflow", "keras"}}
# its classes derive from those of the package; it is itself imported inside a function
DERIVES = {("gdn_keras.datasets.builders", "tensorflow_datasets")}


def source_files():
    folders = ("gdn_keras", "training", "export", "benchmarks")
    return [ROOT / "demo.py", *(path for f in folders for path in sorted((ROOT / f).rglob("*.py")))]


def module_name(path):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module):
    """The longest prefix of a module's name that has a level; None if it is not ours."""
    names = module.split(".")
    prefixes = (".".join(names[:n]) for n in range(len(names), 0, -1))
    part = next((prefix for prefix in prefixes if prefix in LEVELS), None)
    is_new = part == "gdn_keras" and (ROOT / Path(*names).with_suffix(".py")).exists()
    assert not is_new, f"{module} has no number yet: add it to LEVELS"
    return part


def imports_of(path):
    """(line, module, is it loaded together with the file, is it relative) of every import."""
    tree = ast.parse(path.read_text())
    late = set()
    for node in ast.walk(tree):
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if is_function or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            late.update(id(child) for child in ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # relative
                package = module_name(path).split(".")
                is_package = path.name == "__init__.py"
                package = package[: len(package) - node.level + is_package]
                base = ".".join([*package, *filter(None, [node.module])])
            names = [
                f"{base}.{alias.name}" if is_module(f"{base}.{alias.name}") else base
                for alias in node.names
            ]
        else:
            continue
        relative = isinstance(node, ast.ImportFrom) and node.level > 0
        yield from ((node.lineno, name, id(node) not in late, relative) for name in names)


def is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def top_of(module):
    return module.partition(".")[0]


def problems(path):
    here = part_of(module_name(path))
    for line, module, at_load, relative in imports_of(path):
        top, there = module.split(".")[0], part_of(module)
        where = f"{path.relative_to(ROOT)}:{line} imports {module}"
        if there is not None:
            if LEVELS[there] > LEVELS[here]:
                yield f"{where}, which has a higher number"
            elif (here, there) in NEVER:
                yield f"{where}, which it must not know"
            elif not relative and {top, top_of(here)} <= {"training", "export"}:
                how = "a relative import" if top == top_of(here) else "`load_part`"
                yield f"{where} by a name that it does not have in a wheel: use {how}"
            if module == "gdn_keras" and top_of(here) in ("training", "export", "benchmarks"):
                yield f"{where}, which is empty in a command line: import from its modules"
            continue
        third_party = top not in sys.stdlib_module_names
        if here in ONLY and third_party and top not in ONLY[here]:
            yield f"{where}, but uses {' and '.join(sorted(ONLY[here]))} only"
        if top in FORBIDDEN.get(here, ()):
            yield f"{where}, which ties it to one backend"
        is_late = not at_load or (module_name(path), top) in DERIVES
        if here.startswith("gdn_keras") and not is_late and top in LATE_IN.get(here, LATE):
            yield f"{where} at its top, not inside the function that needs it"


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_imports_go_down(path):
    assert not list(problems(path))


@pytest.mark.parametrize(
    "file, text, complaint",
    [
        ("gdn_keras/scale_space/x.py", "from gdn_keras.layers import JetLayer", "higher number"),
        ("gdn_keras/scale_space/x.py", "def f():\n    import keras", "numpy and scipy only"),
        ("gdn_keras/scale_space/x.py", "from ..layers.jet import JetLayer", "higher number"),
        ("gdn_keras/layers/x.py", "from gdn_keras import model", "higher number"),
        ("gdn_keras/layers/x.py", "def f():\n    import tensorflow as tf", "one backend"),
        ("gdn_keras/model.py", "import gdn_keras.zoo", "higher number"),
        (
            "gdn_keras/explain.py",
            "def f():\n    import training.reproduction.paper",
            "higher number",
        ),
        ("gdn_keras/plots.py", "import matplotlib.pyplot as plt", "at its top"),
        ("benchmarks/x.py", "def f():\n    from gdn_keras import fold", "empty in a command line"),
        ("gdn_keras/datasets/x.py", "import tensorflow", "at its top"),
        ("gdn_keras/datasets/x.py", "def f():\n    from gdn_keras.model import adapt", "not know"),
        ("gdn_keras/datasets/x.py", "class A:\n    import keras", "at its top"),
        ("training/x.py", "def f():\n    from export import onnx_model", "use `load_part`"),
        ("training/x.py", "from training import recipes", "use a relative import"),
        ("training/x.py", "def f():\n    from .reproduction import paper", "not know"),
        ("export/x.py", "def f():\n    from training import recipes", "higher number"),
        ("export/x.py", "from export import onnx_model", "use a relative import"),
        ("export/x.py", "import export.onnx_model", "use a relative import"),
    ],
)
def test_violations_are_found(file, text, complaint, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    for known in ("gdn_keras/layers/jet", "gdn_keras/model", "gdn_keras/zoo", "export/onnx_model"):
        module = (tmp_path / known).with_suffix(".py")
        module.parent.mkdir(parents=True, exist_ok=True)
        module.touch()
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found = list(problems(path))
    assert len(found) == 1 and complaint in found[0]


def test_new_modules_need_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "gdn_keras").mkdir()
    (tmp_path / "gdn_keras" / "novelty.py").touch()
    with pytest.raises(AssertionError, match="gdn_keras.novelty .*LEVELS"):
        list(problems(tmp_path / "gdn_keras" / "novelty.py"))


def test_folders_are_small_enough_to_read():
    folders = {}
    for path in source_files():
        if path.parent != ROOT and path.name not in ("__init__.py", "__main__.py"):
            folders.setdefault(path.parent.relative_to(ROOT).as_posix(), []).append(path.stem)
    crowded = {folder: names for folder, names in folders.items() if len(names) > MOST_MODULES}
    assert not crowded, "move what belongs together into a folder with a name"


def test_folders_say_what_is_in_them():
    for path in source_files():
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text())), path


def test_every_package_is_in_the_wheel():
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {module_name(path) for path in source_files() if path.name == "__init__.py"}
    inside = {name if top_of(name) == "gdn_keras" else f"gdn_keras.{name}" for name in found}
    assert set(named) == inside - {"gdn_keras.benchmarks"}


def loaded_by(statement, **environment):
    code = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
    )
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout.splitlines()[-1]))


def test_importing_the_library_loads_no_heavy_package():
    # Keras itself loads some of them if they are installed; we load no others
    ours = loaded_by("import gdn_keras") - loaded_by("import keras, scipy.special, scipy.ndimage")
    assert "gdn_keras.model" in ours
    assert not ours & (LATE | BACKENDS | {"pandas", "ray", "onnx", "pyscsp", "tqdm"})


def test_importing_the_library_needs_no_heavy_package():
    blocked = sorted(LATE | {"pandas", "ray", "onnx", "pyscsp", "jax", "torch"})
    statement = f"sys.modules.update(dict.fromkeys({blocked})); import gdn_keras"
    assert "gdn_keras.zoo" in loaded_by(statement, KERAS_BACKEND="tensorflow")


@pytest.mark.parametrize("part", ["scale_space", "datasets"])
def test_what_numpy_programs_use_is_importable_without_its_package_loading_more(part):
    # the folder itself, as if it were alone: what its files import is all there is
    statement = (
        "import types; package = types.ModuleType('gdn_keras'); "
        f"package.__path__ = ['{ROOT / 'gdn_keras'}']; sys.modules['gdn_keras'] = package; "
        f"import gdn_keras.{part}"
    )
    loaded = loaded_by(statement)
    assert f"gdn_keras.{part}" in loaded
    assert not loaded & {"keras", "tensorflow", "matplotlib", "tensorflow_datasets"}
