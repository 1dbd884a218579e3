"""Was the machine left alone while something was timed? As src/device/quiet.h says it of the library's own times.

quiet = Quiet()
seconds = quiet.window(function, 10)      of one call, of so many: what the thread ran, where others kept it waiting
quiet.timed                               seconds that all windows took by the clock on the wall
quiet.disturbed()                         whether others worked meanwhile: such times serve the call at hand and are not believed later
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable

import torch

WAITED = 0.05  # of what was timed
OTHERS = 0.25  # of all processors
SLOWER = 1.25  # times the best of a loop of known work: the clock went down
SHORTEST = 0.1  # seconds over which /proc/stat, which counts in hundredths, says something
TICKS = 0.02  # seconds by which it may be wrong

_loop_best = float("inf")


def trusts_all() -> bool:
    """SPARTA_TRUST=all: every time is believed, whatever else the machine did."""
    return os.environ.get("SPARTA_TRUST") == "all"


def _used() -> tuple[float, float] | None:
    """Processor seconds of the whole machine, and of this process and its children; None: not known."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            words = file.readline().split()
        ticks = [int(word) for word in words[1:9]]
        everything = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return everything, time.process_time() + children.ru_utime + children.ru_stime


def _loop() -> float:
    """Seconds of a little known work, the best of a few."""

    def once() -> float:
        begin = time.thread_time()
        sum(range(10_000))
        return time.thread_time() - begin

    return min(once() for _ in range(5))


def _slowness() -> float:
    global _loop_best
    took = _loop()
    _loop_best = min(_loop_best, took)
    return took / max(_loop_best, 1e-9)


class Quiet:
    """The machine from now on."""

    def __init__(self) -> None:
        self._slow = _slowness()
        self._begin, self._used = time.monotonic(), _used()
        self.timed = self._waited = 0.0

    def window(self, function: Callable[[], object], times: int, most: float = math.inf) -> float:
        """Seconds of a call, of so many, or of as many as begin within `most` seconds. Several threads wait for each other: what one of them ran says
        nothing then."""
        alone, called, wall = torch.get_num_threads() == 1, 0, 0.0
        ran = time.thread_time()
        begin = time.perf_counter()
        while not called or (called < times and wall < most):
            function()
            called += 1
            wall = time.perf_counter() - begin
        ran = time.thread_time() - ran
        self.timed += wall
        if not alone or ran <= 0 or wall - ran < 3e-6 + 0.02 * wall:
            return wall / called
        self._waited += wall - ran
        return ran / called

    def others(self) -> float:
        """Processors that other programs used meanwhile; 0: none, or not known."""
        seconds, now = time.monotonic() - self._begin, _used()
        if self._used is None or now is None or seconds < SHORTEST:
            return 0.0
        return max(0.0, now[0] - self._used[0] - (now[1] - self._used[1]) - TICKS) / seconds

    def disturbed(self) -> bool:
        if trusts_all():
            return False
        busy = self.others() > OTHERS * (os.cpu_count() or 1)
        return busy or self._waited > WAITED * self.timed or (self._slow > SLOWER and _slowness() > SLOWER)
