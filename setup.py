"""Puts the registry and the headline checkpoints of zoo/ into the wheel.

All other settings are in pyproject.toml. The files stay in one place in the repository: they are
copied while a wheel is built, from a clone or from an sdist (MANIFEST.in).
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ZOO = Path(__file__).parent / "zoo"
SHIPPED = ("registry.json", "cifar_avg_2jet", "cifar_avg_2jet_mirror", "fashion_avg_2jet")


class BuildWithZoo(build_py):
    def run(self):
        super().run()
        if self.editable_mode:  # runs from the clone, which has zoo/
            return
        target = Path(self.build_lib) / "gdn_keras" / "data" / "zoo"
        shutil.rmtree(target, ignore_errors=True)  # of an earlier build
        target.mkdir(parents=True)
        for name in SHIPPED:
            source = ZOO / name
            if source.is_dir():
                shutil.copytree(source, target / name)
            elif source.is_file():
                shutil.copy(source, target)


setup(cmdclass={"build_py": BuildWithZoo})
