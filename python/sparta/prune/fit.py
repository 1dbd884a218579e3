"""Pruning to a time: which layer takes which pattern at which sparsity, by times that the library measures (measure/fit.c). Here a module becomes a
file, names of weights become names of layers, and errors come from what the layers meet.

    time = Time(latency="5ms")                            or Time(speedup=4)
    exchange = fit(model, x, time, layers, errors)        errors(layer, pattern): the share of its output that is lost; None: it is no option
    exchange.patterns                                     {"encoder.0.fc1": Pattern("4x1:0.8"), ...}, those that are not dense
"""

from __future__ import annotations

import ctypes as c
import dataclasses
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from torch import nn

from .. import _layers
from .._library import Context, lib, new, string, texts
from ..package import _as_file, _options
from ..patterns import Pattern
from ..stages import Report

__all__ = ["Exchange", "Time", "fit"]

_COLUMNS = {"layer": "name", "shape": "shape", "tokens": "tokens", "pattern": "pattern", "us": "us", "dense us": "dense_us", "error": "error"}
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def _milliseconds(value: Any) -> float:
    """Of "5ms", "800us", "1.5s"; a number is milliseconds.

    >>> _milliseconds("800us")
    0.8
    """
    said = re.fullmatch(r"\s*(\d+\.?\d*(?:[eE][-+]?\d+)?)\s*(us|ms|s)\s*", value) if isinstance(value, str) else None
    ms = float(said[1]) * _UNITS[said[2]] if said else value
    if isinstance(ms, bool) or not isinstance(ms, (int, float)) or not 0 < ms < math.inf:
        raise ValueError(f"target_latency: a time with its unit is needed, '5ms' or '800us', not {value!r}")
    return float(ms)


@dataclasses.dataclass(frozen=True)
class Time:
    """What is wanted: milliseconds of a run, or its speed over that of the dense model."""

    latency: float = 0.0
    speedup: float = 0.0
    patterns: tuple[str, ...] = ("4x1", "2:4")
    threads: int = 0

    @classmethod
    def of(cls, latency: Any, speedup: Any, patterns: Any = None, threads: int = 0) -> Time:
        if latency is not None and speedup is not None:
            raise ValueError("target_latency and target_speedup: which of them? leave one out")
        if speedup is not None and (isinstance(speedup, bool) or not isinstance(speedup, (int, float)) or not 1 <= speedup < math.inf):
            raise ValueError(f"target_speedup: a number of at least 1 is needed, not {speedup!r}")
        given = (patterns,) if isinstance(patterns, (str, Pattern)) else cls.patterns if patterns is None else tuple(patterns)
        if not given or not all(isinstance(p, (str, Pattern)) for p in given):
            raise ValueError(f"pattern: for a time, patterns such as '4x1' or ['4x1', '2:4'] are needed, not {patterns!r}")
        return cls(0.0 if latency is None else _milliseconds(latency), float(speedup or 0), tuple(map(str, given)), threads)


@dataclasses.dataclass
class Exchange:
    """rows: of each layer its pattern, times and error; the milliseconds are the whole model's, measured_ms None where times were given."""

    rows: Report
    target_ms: float
    dense_ms: float
    expected_ms: float
    measured_ms: float | None
    threads: int
    noisy: bool

    @property
    def patterns(self) -> dict[str, Pattern]:
        return {row["name"]: Pattern.parse(row["pattern"]) for row in self.rows if row["sparse"]}

    def __str__(self) -> str:
        took = self.expected_ms if self.measured_ms is None else self.measured_ms
        said = f"{self.dense_ms:.3g} ms dense, {self.target_ms:.3g} wanted, {took:.3g} {'expected' if self.measured_ms is None else 'measured'}"
        return f"{self.rows}\n{said}: {self.dense_ms / took:.2f} times as fast on {self.threads} thread{'s'[: self.threads > 1]}"


class _Names:
    """Of a weight in the file the layer: a weight that several modules hold, or that is by several names, is the first of `layers` that holds it."""

    def __init__(self, model: nn.Module, layers: Collection[str]):
        held: dict[int, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):
            weight = module._parameters.get("weight")
            if weight is not None:
                held.setdefault(id(weight), []).append(name)
        self.layer = {name: layer for names in held.values() for layer in [n for n in names if n in layers][:1] for name in names}

    def __call__(self, weight: str) -> str:
        name = weight.removesuffix(".weight")
        return self.layer.get(name, name)


def _callback(context: Context, kind: Any, names: _Names, of: Callable[[str, str | None], float | None]) -> Any:
    """What goes wrong in Python ends the call and is raised where it comes back."""

    def ask(_, weight, pattern):
        try:
            value = of(names(string(weight)), string(pattern))
            return math.nan if value is None else float(value)
        except BaseException as error:
            context.stop(error)
            return math.nan

    return kind(ask)


def fit(
    model: nn.Module,
    example_inputs: Any,
    time: Time,
    layers: Mapping[str, Any],
    errors: Callable[[str, str], float | None],
    times: Mapping[tuple[str, str | None], float] | None = None,
) -> Exchange:
    """Chooses for `layers`, others stay dense; changes nothing. times: microseconds by (layer, pattern), pattern None: dense; then nothing is
    compiled or measured."""
    if example_inputs is None:
        raise ValueError("prune: a target time is that of a run: example_inputs are needed, a tensor, a tuple of arguments or a dict of named ones")
    for name, module in layers.items():
        if not bool(_layers.weight_of(module).isfinite().all()):
            raise ValueError(f"prune: the weight of {name!r} is not finite")
    names = _Names(model, layers)
    known = lambda layer, pattern: errors(layer, pattern) if layer in layers else None
    return _as_file(lambda path: _fit(path, time, names, known, times), model, "prune", example_inputs)


def _fit(path, time, names, errors, times) -> Exchange:
    context = Context()
    o: Any = new("sparta_fit_options", target_ms=time.latency, target_speedup=time.speedup)
    o.patterns = texts(time.patterns, "patterns")
    o.error = _callback(context, type(o.error), names, errors)
    if times is not None:
        o.time = _callback(context, type(o.time), names, lambda layer, pattern: times.get((layer, pattern)))
    handle = lib.sparta_fit_model.argtypes[-1]._type_()
    try:
        with _options(context, "fit", threads=time.threads) as options:
            context.long("sparta_fit_model", path, o, options, c.byref(handle))
        return _exchange(handle, names)
    finally:
        lib.sparta_fit_free(handle)


def _exchange(handle, names) -> Exchange:
    facts = lib.sparta_fit_facts_of(handle).contents
    rows, i = [], 0
    while at := lib.sparta_fit_layer_at(handle, i):
        l, i = at.contents, i + 1
        row = {"name": names(string(l.weight)), "shape": [l.n, l.k], "tokens": l.tokens, "pattern": string(l.pattern) or "dense"}
        rows.append({**row, "us": l.us, "dense_us": l.dense_us, "error": l.error, "sparse": bool(l.pattern)})
    measured = None if math.isnan(facts.measured_ms) else facts.measured_ms
    return Exchange(Report(rows, _COLUMNS), facts.target_ms, facts.dense_ms, facts.expected_ms, measured, facts.threads, bool(facts.noisy))
