"""Which part of a long test is today's: `TEST_SEED` chooses it (by default the date), `TEST_ALL=1` asks for everything (make test-all)."""

import datetime
import os

SEED = int(os.environ.get("TEST_SEED") or datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d"))
ALL = os.environ.get("TEST_ALL", "") not in ("", "0")


def turn(number, every):
    """Whether it is the turn of the case of that number, of which one in `every` runs a day."""
    return ALL or (SEED + number) % every == 0


def day(seed=SEED):
    """Its number, one more from each day to the next, from month to month too; a seed that is no date counts itself."""
    try:
        return datetime.datetime.strptime(f"{seed:08}", "%Y%m%d").toordinal()
    except ValueError:
        return seed
