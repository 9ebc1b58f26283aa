"""Commands in processes of their own that start at once.

One process imports TensorFlow and Keras, which takes seconds; its forks are as good as fresh
processes that have got that far. Our own packages they import themselves, from where they are told.
Tests of what is imported, and of what that logs, need real `subprocess`es.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).parent.parent
_OURS = ("gdn_keras", "training", "export", "benchmarks")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["training.trainer", "training.publishing.measurement", "gdn_keras.zoo"]
)


class Command:
    """`python *arguments`, with those methods of `subprocess.Popen` that tests use.

    `arguments` begin with "-m", a module, or with "-c", a text. `before` is called first.
    """

    def __init__(self, arguments, *, cwd=ROOT, env=None, before=None):
        backends = [(env or {}).get("KERAS_BACKEND"), os.environ.get("KERAS_BACKEND")]
        if env is not None and backends[0] != backends[1]:
            raise ValueError(f"A fork keeps the backend it has, {backends[1]}, not {backends[0]}.")
        self.args = [str(argument) for argument in arguments]
        self._folder = tempfile.TemporaryDirectory()
        self._outputs = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        environment = dict(os.environ if env is None else env)
        self._process = _context.Process(
            target=_run, args=(self.args, str(cwd), environment, self._outputs, before)
        )
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """Wait until it ends; returns what it printed."""
        self._process.join(timeout)
        if self._process.is_alive():
            raise subprocess.TimeoutExpired(self.args, timeout)
        return tuple(path.read_text() if path.exists() else "" for path in self._outputs)


def run(*arguments, **where):
    """`python *arguments` until it ends."""
    command = Command(arguments, **where)
    stdout, stderr = command.communicate()
    return subprocess.CompletedProcess(command.args, command.returncode, stdout, stderr)


def start(function, *arguments):
    """A function as a process of its own, with our packages imported."""
    process = _context.Process(target=function, args=arguments)
    process.start()
    return process


def redirect(stdout, stderr):
    """What this process and its libraries print goes to files."""
    for number, name, path in ((1, "stdout", stdout), (2, "stderr", stderr)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(file, number)
        os.close(file)
        setattr(sys, name, open(number, "w", buffering=1, closefd=False))
    _renew_locks()


def _renew_locks():
    from tqdm import tqdm

    tqdm.set_lock(threading.RLock())  # its own lock would be left behind by a killed process


def _run(arguments, cwd, environment, outputs, before):
    redirect(*outputs)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    tests = {"", str(ROOT), str(ROOT / "tests")}
    sys.path = [cwd, *filter(None, paths), *(path for path in sys.path if path not in tests)]
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    option, what, *rest = arguments
    sys.orig_argv = [sys.executable, *arguments]
    sys.argv = [option, *rest]
    if before is not None:
        before()
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
