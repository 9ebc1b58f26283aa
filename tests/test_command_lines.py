"""All command lines as processes: what they load, and what they write to a stderr that is a file.

A command that only answers must not load Keras, which takes seconds; one that computes must not
show TensorFlow's log or a progress bar that needs a terminal.
"""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import pytest
from dataset_files import write_fashion
from helpers import small_config
from zoo_tools import write_tiny

from gdn_keras import GaussDerNet, ImageClassifier, build_model
from gdn_keras.utils import progress, quiet
from gdn_keras.utils.command_line import run_command
from gdn_keras.zoo import folder

ROOT = Path(__file__).parent.parent
HEAVY = {
    "tensorflow",
    "keras",
    "jax",
    "torch",
    "matplotlib",
    "tensorflow_datasets",
    "huggingface_hub",
}


def run(*arguments, options=(), level=None, cwd=ROOT):
    """`python -m …` with TF_CPP_MIN_LOG_LEVEL at `level`, or not set."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {"KERAS_BACKEND": "tensorflow", "PYTHONPATH": str(ROOT)}
    environment |= {} if level is None else {"TF_CPP_MIN_LOG_LEVEL": level}
    return subprocess.run(
        [sys.executable, *options, "-m", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )


def loaded_by(*arguments, **where):
    """Exit code, stderr, and the top-level packages that the command imported."""
    done = run(*arguments, options=("-X", "importtime"), **where)
    imports, words = [], []
    for line in done.stderr.splitlines():
        (imports if line.startswith("import time:") else words).append(line)
    packages = {line.rpartition("|")[2].strip().partition(".")[0] for line in imports}
    assert "gdn_keras" in packages
    return done.returncode, words, packages


# === What only answers does not load Keras ===


@pytest.mark.parametrize(
    "command",
    [
        "gdn_keras --help",
        "gdn_keras list",
        "gdn_keras list --help",
        "gdn_keras info cifar_avg_2jet",
        "gdn_keras train --help",
        "gdn_keras export onnx --help",
        "gdn_keras training list",
        "gdn_keras datasets --help",
        "gdn_keras.datasets --help",
        "training --help",
        "training list",
        "training list --help",
        "training verify --help",
        "export --help",
        "export onnx --help",
        "export page --help",
        "export sign --help",
        "export space --help",
    ],
)
def test_answers_come_without_keras(command):
    code, words, packages = loaded_by(*command.split())
    assert (code, words) == (0, []) and not packages & HEAVY


@pytest.mark.parametrize(
    "command, code, message",
    [
        ("gdn_keras", 2, "required: COMMAND"),
        ("gdn_keras nosuch", 2, "invalid choice: 'nosuch'"),
        ("gdn_keras info nosuch", 1, "Unknown model 'nosuch'"),
        ("gdn_keras predict nosuch photo.png", 1, "Unknown model 'nosuch'"),
        ("gdn_keras predict cifar_avg_2jet nosuch.png", 1, "no file nosuch.png"),
        ("gdn_keras verify nosuch", 1, "Unknown model 'nosuch'"),
        ("gdn_keras evaluate cifar_avg_2jet --size 3", 1, "`size_factor` must be"),
        ("gdn_keras train nosuch --like fashion_avg_2jet -o mine", 1, "`DATA` must be a folder"),
        ("gdn_keras train . --like nosuch -o mine", 1, "`name` must be the name of a recipe"),
        ("gdn_keras train . --like fashion_avg_2jet", 2, "required: -o/--output"),
        ("gdn_keras evaluate cifar_avg_2jet --data .", 1, "`--data` "),
        ("gdn_keras export onnx nosuch", 1, "Unknown model 'nosuch'"),
        ("gdn_keras training nosuch", 2, "invalid choice: 'nosuch'"),
        ("gdn_keras.datasets prepare nosuch", 2, "invalid choice: 'nosuch'"),
        ("gdn_keras.datasets prepare rescaled_cifar10 --size-factor 3", 1, "`size_factor` must be"),
        ("gdn_keras.datasets show nosuch", 1, "no file nosuch"),
        ("training nosuch", 2, "invalid choice: 'nosuch'"),
        ("training run nosuch", 1, "`name` must be the name of a recipe"),
        ("training run fashion_avg_2jet --set nosuch=1", 1, "`--set` must be FIELD=VALUE"),
        ("training run fashion_avg_2jet --from nosuch", 1, "`--from` must be"),
        ("training run fashion_avg_2jet --devices 0", 2, "must be a whole number >= 1, not 0"),
        ("training evaluate nosuch", 1, "`name` must be the name of a recipe"),
        ("training publish nosuch", 1, "`name` must be the name of a recipe"),
        ("training queue nosuch", 1, "`name` must be the name of a recipe"),
        ("training sweep nosuch", 1, "`group` must be one of"),
        ("training sweep", 2, "group --all"),
        ("training sweep --all --cpus 0", 2, "must be a whole number >= 1, not 0"),
        ("training gallery nosuch", 1, "`names` must be of"),
        ("training verify nosuch", 1, "nosuch"),
        ("training verify fashion_avg_2jet --sizes 3", 1, "`size_factor` must be"),
        ("training verify fashion_avg_2jet --limit 0", 2, "must be a whole number >= 1, not 0"),
        ("export nosuch", 2, "invalid choice: 'nosuch'"),
        ("export onnx nosuch", 1, "Unknown model 'nosuch'"),
        ("export onnx cifar_avg_2jet --opset 9", 1, "`opset` must be from 13"),
        ("export onnx cifar_avg_2jet --density 0", 1, "`sampling_density` must be"),
        ("export saved-model nosuch", 1, "Unknown model 'nosuch'"),
        ("export litert nosuch", 1, "Unknown model 'nosuch'"),
        ("export hub nosuch --repo owner/name", 1, "Unknown model 'nosuch'"),
        ("export hub cifar_avg_2jet --repo name", 1, "`repo` must be OWNER/NAME"),
        ("export page nosuch", 1, "Unknown model 'nosuch'"),
        ("export sign cifar_avg_2jet --key nosuch.pem", 1, "nosuch.pem"),
        ("export page stir_emoji_mid_drop", 1, "`names` must be networks of"),
        ("export page --serve http", 2, "must be a whole number from 0 to 65535, not http"),
        ("export page --serve 70000", 2, "must be a whole number from 0 to 65535, not 70000"),
        ("export space name", 1, "`repo` must be OWNER/NAME"),
        ("export space owner/name nosuch", 1, "Unknown model 'nosuch'"),
        ("export all --owner owner/name", 1, "`repo` must be OWNER/NAME"),
    ],
)
def test_mistakes_are_reported_without_keras(command, code, message, tmp_path, monkeypatch):
    monkeypatch.setenv("GDN_KERAS_RUNS", str(tmp_path))
    received, words, packages = loaded_by(*command.split())
    assert received == code and not packages & HEAVY
    assert message in words[-1] and words[0].startswith(("usage: ", "error: "))


def test_programs_that_import_the_library_get_all_of_it(tmp_path):
    """Somebody's own package may have the name of one of ours: it is no command line of ours."""
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "__init__.py").touch()
    (tmp_path / "training" / "__main__.py").write_text(
        "import sys, gdn_keras; print('tensorflow' in sys.modules, gdn_keras.build_model.__name__)"
    )
    done = run("training", cwd=tmp_path)
    assert done.stdout == "True build_model\n"
    assert "absl::InitializeLog" in done.stderr  # TensorFlow's log is theirs, too


def test_saved_networks_load_after_importing_the_library_alone(tmp_path):
    build_model(small_config()).save(tmp_path / "net.keras")
    program = "import gdn_keras, keras; keras.saving.load_model('net.keras')"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)


def test_the_names_in_saved_configs_are_the_registered_ones():
    names = [keras.saving.get_registered_name(cls) for cls in (GaussDerNet, ImageClassifier)]
    assert tuple(names) == folder.REGISTERED_NAMES


@pytest.mark.parametrize(
    "command, arguments, expected",
    [
        ("python -m gdn_keras list", "list", True),
        ("python -W error -m gdn_keras.datasets show x", "show x", True),
        ("python -mgdn_keras", "", True),
        ("python -m pytest gdn_keras", "gdn_keras", False),
        ("python -m gdn_keras_tools", "", False),
    ],
)
def test_packages_are_imported_before_their_main(command, arguments, expected, monkeypatch):
    """Then "-m" stands for the program, and only the whole command tells which module it is."""
    monkeypatch.setattr(sys, "orig_argv", command.split())
    monkeypatch.setattr(sys, "argv", ["-m", *arguments.split()])
    assert quiet.is_command_line() is expected


@pytest.mark.parametrize(
    "program, expected",
    [
        ("/usr/bin/gdn-keras", True),
        (ROOT / "training" / "__main__.py", True),
        (ROOT / "export" / "__main__.py", True),
        (ROOT / "gdn_keras" / "datasets" / "__main__.py", True),
        (ROOT / "demo.py", False),
        ("/home/me/training/__main__.py", False),
        ("/home/me/gdn-keras.py", False),
        ("", False),
    ],
    ids=str,
)
def test_programs_are_known_by_their_path(program, expected, tmp_path, monkeypatch):
    prompt = tmp_path / "gdn-keras"  # a prompt in a clone of that name is no command line
    prompt.mkdir()
    monkeypatch.chdir(prompt)
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert quiet.is_command_line() is expected


def test_other_programs_of_the_same_environment_are_left_alone(tmp_path, monkeypatch):
    """An installed package has all others as its neighbours."""
    monkeypatch.setattr(quiet, "__file__", str(tmp_path / "gdn_keras" / "utils" / "quiet.py"))
    for program, expected in (("pytest", False), ("gdn_keras", True), ("gdn_keras/export", True)):
        monkeypatch.setattr(sys, "argv", [str(tmp_path / program / "__main__.py")])
        assert quiet.is_command_line() is expected


# === What computes is quiet ===


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small network, and a small data set in the standard format."""
    place = tmp_path_factory.mktemp("place")
    write_tiny(place, "net")
    write_fashion(place / "data", train=10_010, test=10)  # 10,000 are for validation
    return place


@pytest.mark.heavy
@pytest.mark.parametrize(
    "command, words",
    [
        ("gdn_keras predict {place}/net {place}/photo.png --json", ""),
        ("gdn_keras.datasets prepare rescaled_fashion_mnist --size-factor 1 --to {place}/tfds", ""),
        ("training run tiny_single --data-dir {place}/nowhere --runs {place}/runs", "error: "),
        ("export saved-model {place}/net -o {place}", "error: "),
    ],
    ids=lambda value: value.split()[0] if "{" in value else "",
)
def test_tensorflow_is_loaded_without_its_log(place, command, words, monkeypatch):
    """Also for those who set TF_CPP_MIN_LOG_LEVEL, which alone would not do."""
    shutil.copyfile(ROOT / "docs" / "figures" / "matching_scales.png", place / "photo.png")
    monkeypatch.setenv("GDN_KERAS_DATA", str(place / "data"))
    done = run(*command.format(place=place).split(), level="2")
    assert done.returncode == (1 if words else 0), done.stderr
    assert done.stderr.startswith(words) and done.stderr.count("\n") == len(words.split())


@pytest.mark.heavy
def test_the_log_can_be_asked_for(place):
    done = run("export", "saved-model", place / "net", "-o", place, level="0")
    assert "absl::InitializeLog" in done.stderr and "error: " in done.stderr


# === How they end ===


@pytest.mark.parametrize(
    "command", ["training list", "gdn_keras list", "gdn_keras training list", "export --help"]
)
def test_a_reader_that_has_seen_enough_is_no_error(command):
    """As `| head`: here the pipe is closed from the beginning."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-u", "-m", *command.split()],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    assert "rror" not in done.stderr and done.returncode in (0, 120)


@pytest.mark.parametrize(
    "error, code, message",
    [
        (None, 0, ""),
        (ValueError("`size` must be 1."), 1, "error: `size` must be 1.\n"),
        (KeyboardInterrupt(), 130, "interrupted; go on\n"),
    ],
)
def test_what_is_no_bug_is_one_line(error, code, message, capsys):
    def command():
        if error is not None:
            raise error

    assert run_command(command, interrupted="interrupted; go on") == code
    assert capsys.readouterr().err == message
    with pytest.raises(ZeroDivisionError):
        run_command(lambda: 1 // 0)


# === Progress ===


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(progress.show_progress(range(3), desc="sizes", unit="size")) == [0, 1, 2]
    assert "\rsizes: 100%|" in sys.stderr.getvalue()


def test_a_log_gets_lines(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    with progress.show_progress(total=8, initial=6, desc="images", unit="img") as bar:
        bar.update(1)
        bar.set_postfix(loss="0.5", refresh=False)
        bar.update(1)
    text = sys.stderr.getvalue()
    assert "\r" not in text and text.endswith("\n") and "\n\n" not in text
    last = text.splitlines()[-1]
    assert last.startswith("images: 100% 8/8 [") and "loss=0.5" in last


def test_lines_are_rare(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for _ in progress.show_progress(range(1000)):
        pass
    assert sys.stderr.getvalue() == ""  # over before the first one


def test_progress_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    assert list(progress.show_progress(range(3), disable=True)) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""


def test_all_progress_goes_one_way():
    """Our own bars are `show_progress`, and those of Keras are switched off."""
    for part in ("gdn_keras", "training", "export", "benchmarks"):
        for path in (ROOT / part).rglob("*.py"):
            text = path.read_text()
            ours = path == ROOT / "gdn_keras" / "utils" / "progress.py"
            assert ours or "tqdm" not in text.replace("TQDM", ""), path
            assert "Progbar" not in text, path
