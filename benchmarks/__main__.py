"""`python -m benchmarks` runs all benchmarks, `python -m benchmarks speed` some."""

import argparse
import importlib
from importlib.util import find_spec

NAMES = (
    "speed",
    "scaling",
    "smoothing",
    "pipeline",
    "evaluation",
    "export",
    "page",
    "training_loop",
)


def main() -> None:
    available = [name for name in NAMES if find_spec(f"benchmarks.{name}")]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(available)}")
    names = parser.parse_args().names
    for name in names:
        if name not in available:
            parser.error(f"NAME must be one of {', '.join(available)}. Received: {name!r}.")
    for name in names or available:
        print(f"=== {name} ===", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
