"""The small programs of torch.export that searches begin with (tests/fuzz/pt2_units.py): each compiles to a package that passes compile's own check,
so that a search starts behind the reader's refusals. And each, with numbers in it that break programs, is read or refused. A quarter of them runs a day."""

import copy
import os
import sys

from common import ROOT, Tests, need, sparta

sys.path.insert(0, os.path.join(ROOT, "tests", "fuzz"))
import pt2_units  # noqa: E402
from today import turn  # noqa: E402

import sparta as door  # isort: skip  # noqa: E402  # the program is called sparta here

NUMBERS = (-(1 << 63), (1 << 63) - 1, -1, 1 << 31)


def compiles(folder, name, text):
    whole, config = pt2_units.program(text)
    path = os.path.join(folder, "unit.pt2")
    pt2_units.write_archive(path, "m", whole, config)
    done = sparta("compile", path, "-o", os.path.join(folder, "unit.sparta"), "--no-measure", "--threads", "1", "--target", "portable")
    need(done.code == 0, done.err.strip())


def integers(value):
    """(what holds it, where) of every integer in it."""
    for at, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, (dict, list)):
            yield from integers(inner)
        elif isinstance(inner, int) and not isinstance(inner, bool):
            yield value, at


def refuses(folder, name, text):
    whole, config = pt2_units.program(text)
    path, refused = os.path.join(folder, "broken.pt2"), 0
    places = [place for node in whole["graph_module"]["graph"]["nodes"] for place in integers(node["inputs"])]
    for holder, at in places:
        old = copy.copy(holder[at])
        for holder[at] in NUMBERS:
            pt2_units.write_archive(path, "m", whole, config)
            try:
                door.inspect(path)
            except door.Error as error:
                need(error.status != "E_INTERNAL", f"{holder} at {at}: {error}")
                refused += 1
        holder[at] = old
    return f"{refused} of {len(places) * len(NUMBERS)} refused" if places else ""


def main():
    tests = Tests()
    units, missing = pt2_units.all_units()
    tests.check("there are hundreds", lambda: need(len(units) >= 300, f"{len(units)} units"))
    tests.check("who has none", lambda: f"called with one operand only: {', '.join(missing)}" if missing else "every overload of aten.def has one")
    for number, (name, text) in enumerate(units.items()):
        if turn(number, 4) and not name.startswith("other-"):
            tests.check(name, compiles, tests.work, name, text)
            tests.check(name + ", numbers that break", refuses, tests.work, name, text)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
