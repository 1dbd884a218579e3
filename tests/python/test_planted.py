"""Faults of a thousandth, planted in kernels of Magika's model (PyPI, tests/real/models.txt), whose normalisations magnify rounding: compile refuses them (tests/planted.py;
tests/torch/test_planted.py has other models).

Rotates: 2"""

import sys

from common import SPARTA, Tests, need
from test_real import digest_of, extract, read_table, wheel_of

import planted  # common.py says where it is


def main():
    tests = Tests()
    row = next(r for r in read_table() if r.package == "magika")
    wheel = wheel_of(row)
    if not wheel:
        print(f"skip {row.name}: its wheel cannot be fetched")
        return 77
    model = extract(wheel, row.file, tests.work)
    if digest_of(model) != row.digest:
        print(f"skip {row.name}: PyPI has another file by that name")
        return 77

    def products():
        n = planted.products(SPARTA, model, tests.work, at_once=8)
        need(n == 16, f"{n} of 16 faults in products are refused by name")
        return f"{n} of 16 faults"

    def generated():
        n = planted.generated(SPARTA, model, tests.work)
        need(n >= 20, f"{n} faults in generated kernels are refused by name")
        return f"{n} faults"

    tests.check("products", products)
    tests.check("generated kernels", generated)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
