"""Command lines answer at once and quietly; a program that imports the library is left alone.

In a command line, Keras is imported by the functions that need it, not by `import gdn_keras`. And
TensorFlow's library writes to stderr while it is loaded, whatever TF_CPP_MIN_LOG_LEVEL says: there
it is loaded without stderr. Only TF_CPP_MIN_LOG_LEVEL=0, which asks for all of its log, shows it.
Progress bars of other packages need a terminal; for our own see `gdn_keras.utils.progress`.
"""

import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def is_command_line() -> bool:
    """Whether this process is `gdn-keras`, `python -m gdn_keras…`, or one of the clone's own."""
    if not (sys.argv and sys.argv[0]):  # a prompt
        return False
    program = Path(sys.argv[0]).resolve()
    if program.name == "-m":  # Python imports the package before it has found the `__main__` in it
        module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
        return module.partition(".")[0] == "gdn_keras"
    if program.name != "__main__.py":
        return program.name in ("gdn-keras", "gdn-keras.exe")
    package = Path(__file__).resolve().parents[1]
    is_clone = (package.parent / "pyproject.toml").is_file()  # in a wheel, others are next to it
    return package in program.parents or (is_clone and program.parents[1] == package.parent)


class _SilentLoader(SourceFileLoader):
    def exec_module(self, module):
        stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        try:
            super().exec_module(module)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            os.close(nowhere)


class _TensorFlowFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path) if name == "tensorflow" else None
        if spec is not None:
            spec.loader = _SilentLoader(spec.loader.name, spec.loader.path)
        return spec


if is_command_line():
    if os.environ.get(_LEVEL) != "0":
        os.environ[_LEVEL] = "3"  # a machine without a GPU is an "error"; real ones are raised
        sys.meta_path.insert(0, _TensorFlowFinder)
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")
