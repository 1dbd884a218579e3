"""The small programs of torch.export that searches begin with (tests/fuzz/pt2_units.py): each compiles to a package that passes compile's own check,
so that a search starts behind the reader's refusals. A quarter of them runs a day."""

import os
import sys

from common import ROOT, Tests, need, sparta

sys.path.insert(0, os.path.join(ROOT, "tests", "fuzz"))
import pt2_units  # noqa: E402
from today import turn  # noqa: E402


def compiles(folder, name, text):
    whole, config = pt2_units.program(text)
    path = os.path.join(folder, "unit.pt2")
    pt2_units.write_archive(path, "m", whole, config)
    done = sparta("compile", path, "-o", os.path.join(folder, "unit.sparta"), "--no-measure", "--threads", "1", "--target", "portable")
    need(done.code == 0, done.err.strip())


def main():
    tests = Tests()
    units, missing = pt2_units.all_units()
    tests.check("there are hundreds", lambda: need(len(units) >= 300, f"{len(units)} units"))
    tests.check("who has none", lambda: f"called with one operand only: {', '.join(missing)}" if missing else "every overload of aten.def has one")
    for number, (name, text) in enumerate(units.items()):
        if turn(number, 4) and not name.startswith("other-"):
            tests.check(name, compiles, tests.work, name, text)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
