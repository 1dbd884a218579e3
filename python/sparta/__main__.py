"""The program `sparta`, which an installed package carries beside its library."""

import os
import sys

from ._library import HERE


def main():
    program = os.path.join(HERE, "lib", "sparta")
    if not os.path.exists(program):
        program = os.path.join(HERE, "../../build/release/sparta")
    if not os.path.exists(program):
        sys.exit("sparta: the program is not there; run `make` in the clone, or `pip install .` there")
    os.execv(program, ["sparta", *sys.argv[1:]])


if __name__ == "__main__":
    main()
