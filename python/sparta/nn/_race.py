"""Times several ways to do one thing against each other, in turns: what disturbs the machine disturbs all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from .._quiet import Quiet

IMPLAUSIBLE = 8.0  # times slower than what there is to do allows: timed again
# By the clock on the wall no race takes more than so many times what it asked for, but for its first turn: where two threads wait for each other on
# a busy machine a call of 50 us takes a slice of the scheduler's, 4 ms.
PATIENCE = 6.0
CALL = 20e-6  # seconds that a call takes before it does anything


def _once(function, times, device, quiet, most=math.inf):
    if device is not None and device.type == "cuda":
        return _once_there(function, times, device)
    return quiet.window(function, times, most)


def _once_there(function, times, device):
    """Between two events of the stream: what the device takes, or the host where that is slower."""
    with torch.cuda.device(device):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(times):
            function()
        end.record()
        end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / times


def race(functions, seconds=0.2, turns=9, device=None, quiet=None):
    """Seconds of one call of each function: the best of `turns`. `seconds` is for each, about. quiet is told of each window; where others work, more
    and shorter ones find the moments between."""
    quiet = quiet or Quiet()
    first = [min(_once(f, 1, device, quiet), _once(f, 1, device, quiet)) for f in functions]
    best = _turns(functions, first, seconds / turns, turns, device, quiet)
    if not quiet.disturbed():
        return best
    more = max(turns, min(8 * turns, int(2 * seconds / max(max(best), 1e-7))))
    return _turns(functions, best, 2 * seconds / more, more, device, quiet)


def _turns(functions, best, window, turns, device, quiet):
    """The best of these times and of so many windows of each function, or of fewer where they take too long."""
    times = [max(1, int(window / max(t, 1e-7))) for t in best]
    best, end = list(best), quiet.timed + PATIENCE * window * turns * len(functions)
    for turn in range(turns):
        if turn and quiet.timed > end:
            break
        for k, f in enumerate(functions):
            best[k] = min(best[k], _once(f, times[k], device, quiet, PATIENCE * window))
    return best


# ---------------------------------------------------------------- times that cannot be
_speeds: dict[int, tuple[float, float]] = {}  # by threads; measured while others worked, they are measured again


def speed(threads: int) -> tuple[float, float]:
    """Operations and bytes a second of this machine with so many threads of torch: of a dense product, and of a copy of a few MB."""
    if threads in _speeds:
        return _speeds[threads]
    random = torch.Generator().manual_seed(0)  # not the user's
    a, b, out = (torch.rand(256, 256, generator=random, dtype=torch.float32, device="cpu") for _ in range(3))
    much, there = (torch.rand(1 << 21, generator=random, dtype=torch.float32, device="cpu") for _ in range(2))
    quiet = Quiet()
    with torch.no_grad():
        product, copy = race([lambda: torch.mm(a, b, out=out), lambda: there.copy_(much)], 0.05, quiet=quiet)
    found = 2 * 256**3 / product, 2 * much.nbytes / copy
    if not quiet.disturbed():
        _speeds[threads] = found
    return found


def least(fast: tuple[float, float], shape: Sequence[int], kept: float, tokens: int, size: int) -> float:
    """Seconds at this speed of a product of a weight of this shape, of which this share is stored, with so many inputs; size: bytes of a number."""
    operations, bytes_ = fast
    rows, cols = shape
    return CALL + 2 * rows * cols * kept * tokens / operations + size * (rows * cols * kept + (rows + cols) * tokens) / bytes_


def plausible(functions: list[Callable[[], object]], allowed: list[float], seconds: float, quiet: Quiet) -> list[float]:
    """race, once more if a time is far above the seconds that its work allows, by this machine or by the best of its neighbours: something slowed it
    that nothing noticed. Found so twice it is right."""
    best = race(functions, seconds, quiet=quiet)
    paces = [time / most for time, most in zip(best, allowed)]
    if max(paces) <= IMPLAUSIBLE * min(1.0, *paces):
        return best
    return [min(times) for times in zip(best, race(functions, seconds, quiet=quiet))]
