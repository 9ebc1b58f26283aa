"""Keeps TensorFlow's greetings off the command line; imported before anything that loads it.

TensorFlow's library writes them to stderr while it is loaded, whatever TF_CPP_MIN_LOG_LEVEL says,
and Python imports the package before its `__main__`. As a library nothing is changed, nor for
those who set TF_CPP_MIN_LOG_LEVEL.
"""

import os
import sys

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def _load_silently() -> None:
    os.environ[_LEVEL] = "3"  # later on; a machine without a GPU is "error", and errors are raised
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import keras  # noqa: F401
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def _is_our_command() -> bool:
    program = os.path.basename((sys.argv or [""])[0])
    # while Python looks for the module of `python -m`, "-m" stands in sys.argv[0]
    ours = any(word.partition(".")[0] == "gdn_keras" for word in sys.orig_argv)
    return program == "gdn-keras" or (program == "-m" and ours)


if _is_our_command() and _LEVEL not in os.environ:
    _load_silently()
