"""Puts the registry and the networks that zoo/shipped.txt names into the sdist and the wheel.

All other settings are in pyproject.toml. The files stay in one place in the repository: they are
copied while a wheel is built, from a clone or from an sdist.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

LIST = "zoo/shipped.txt"


def shipped_files() -> list[Path]:
    """Files of the wheel, relative to the root of the repository."""
    folders = [Path("zoo", name) for name in Path(LIST).read_text(encoding="utf-8").split()]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return [Path("zoo", "registry.json"), *files]


class BuildWithZoo(build_py):
    def get_source_files(self):
        """Source files of the package; the sdist contains these."""
        return [*super().get_source_files(), LIST, *map(str, shipped_files())]

    def run(self):
        super().run()
        if self.editable_mode:  # runs from the clone, which has zoo/
            return
        data = Path(self.build_lib) / "gdn_keras" / "data"
        shutil.rmtree(data / "zoo", ignore_errors=True)  # of an earlier build
        for path in shipped_files():
            (data / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, data / path)


setup(cmdclass={"build_py": BuildWithZoo})
