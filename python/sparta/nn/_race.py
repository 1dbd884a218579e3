"""Times several ways to do one thing against each other, in turns: what disturbs the machine disturbs all of them."""

import torch

from .._quiet import Quiet


def _once(function, times, device, quiet):
    if device is not None and device.type == "cuda":
        return _once_there(function, times, device)
    return quiet.window(function, times) / times


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
    """The best of these times and of so many windows of each function."""
    times = [max(1, int(window / max(t, 1e-7))) for t in best]
    best = list(best)
    for _ in range(turns):
        for k, f in enumerate(functions):
            best[k] = min(best[k], _once(f, times[k], device, quiet))
    return best
