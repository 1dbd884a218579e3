"""The Python package with the C library, the program and the header inside. No CPython interface: one wheel for every Python 3."""

import os
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
# The library under the name that libsparta_torch.so needs it by.
BUILT = {
    "build/release/libsparta.so": "libsparta.so.0",
    "build/release/libsparta_torch.so": "libsparta_torch.so",
    "build/release/sparta": "sparta",
    "include/sparta.h": "sparta.h",
}


def version():
    with open(os.path.join(HERE, "include/sparta.h"), encoding="utf-8") as header:
        return re.search(r'#define SPARTA_VERSION +"(.*?)"', header.read())[1]


class Build(build_py):
    def run(self):
        super().run()
        subprocess.check_call(["make", f"-j{os.cpu_count()}", "all"], cwd=HERE)
        folder = os.path.join(self.build_lib, "sparta/lib")
        os.makedirs(folder, exist_ok=True)
        for source, name in BUILT.items():
            target = os.path.join(folder, name)
            shutil.copy(os.path.realpath(os.path.join(HERE, source)), target)
            if not name.endswith(".h"):
                subprocess.check_call(["strip", "--strip-unneeded", target])


class Wheel(bdist_wheel):
    def get_tag(self):
        """manylinux by the newest symbol of glibc that the files ask for."""
        machine = os.uname().machine
        need = max(
            int(minor)
            for name in BUILT
            if not name.endswith(".h")
            for minor in re.findall(r"GLIBC_2\.(\d+)", subprocess.check_output(["objdump", "-T", os.path.join(HERE, name)], text=True))
        )
        return "py3", "none", f"manylinux_2_{need}_{machine}"


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=version(),
    distclass=Binary,
    packages=["sparta", "sparta.compat", "sparta.dynamo", "sparta.nn", "sparta.prune"],
    package_dir={"": "python"},
    package_data={"sparta": ["py.typed"]},
    cmdclass={"build_py": Build, "bdist_wheel": Wheel},
)
