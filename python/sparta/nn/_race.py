"""Times several ways to do one thing against each other, in turns: what disturbs the machine disturbs all of them."""

import time

import torch


def _once(function, times, device):
    if device is not None and device.type == "cuda":
        return _once_there(function, times, device)
    begin = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - begin) / times


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


def race(functions, seconds=0.2, turns=9, device=None):
    """Seconds of one call of each function: the best of `turns`. `seconds` is for each, about."""
    first = [min(_once(f, 1, device), _once(f, 1, device)) for f in functions]
    times = [max(1, int(seconds / turns / max(t, 1e-7))) for t in first]
    best = list(first)
    for _ in range(turns):
        for k, f in enumerate(functions):
            best[k] = min(best[k], _once(f, times[k], device))
    return best
