"""torch.compile(model, backend="sparta"): the backend, which torch finds by its entry point.

    torch.compile(model, backend="sparta")                                rewrite: our products inside Inductor's graph; trains
    torch.compile(model, backend="sparta", options={"mode": "engine"})    engine: whole sub-graphs run by a compiled package; inference

    mode      "rewrite" or "engine"
    inner     the backend of what is not ours: "inductor"; "aot_eager" needs no C++ compiler
    compile   engine: options of sparta.compile, {"no_measure": 1}
    others    go to Inductor

What each graph became is in report(); what could have run as ours and does not is said once, as a warning that names it.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any

import torch

MODES = ("rewrite", "engine")
_OURS = {"mode", "inner", "compile"}
_alive: weakref.WeakSet[Graph] = weakref.WeakSet()
_told: set[str] = set()


class Graph:
    """A compiled graph: what runs it, and a row of {"name", "op", "implement", "reason"} for each layer that was looked at."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.rows: list[dict[str, str]] = []
        self.run: Any = None
        _alive.add(self)

    def add(self, name: str, op: str, implement: str, reason: str) -> None:
        self.rows.append({"name": name, "op": op, "implement": implement, "reason": reason})

    def __call__(self, *inputs: Any) -> Any:
        return self.run(*inputs)


def tell(what: str) -> None:
    """A fall-back, said once in a process."""
    if what not in _told:
        _told.add(what)
        warnings.warn(f"sparta: torch.compile: {what}", stacklevel=2)


def report() -> list[dict[str, str]]:
    """Of all graphs that are alive: what runs each layer, and why."""
    return [{"mode": graph.mode, **row} for graph in list(_alive) for row in graph.rows]


def inner(name: str, gm: torch.fx.GraphModule, inputs: Any, more: dict) -> Any:
    """Compiles a graph with another backend."""
    from torch._dynamo.backends.registry import lookup_backend

    compiler: Any = lookup_backend(name)
    return compiler(gm, inputs, config_patches=more) if more and name == "inductor" else compiler(gm, inputs)


def backend(gm: torch.fx.GraphModule, example_inputs: Any, *, options: dict[str, Any] | None = None, mode: str | None = None) -> Any:
    """What torch.compile calls with each graph."""
    options = dict(options or {})
    mode = options.get("mode", mode or "rewrite")
    if mode not in MODES:
        raise ValueError(f"torch.compile: backend sparta has no mode {mode!r}; there are {' and '.join(MODES)}")
    rest = {name: value for name, value in options.items() if name not in _OURS}
    if rest and options.get("inner", "inductor") != "inductor":
        raise ValueError(f"torch.compile: backend sparta knows no option {min(rest)!r}; there are {', '.join(sorted(_OURS))}")
    name = options.get("inner", "inductor")
    if mode == "engine":
        from .engine import compile_graph

        return compile_graph(gm, example_inputs, name, rest, options.get("compile", {}))
    from .rewrite import rewrite

    graph = Graph(mode)
    graph.run = inner(name, rewrite(gm, example_inputs, graph), example_inputs, rest)
    return graph


def register() -> None:
    """For processes that have the package on their path without having installed it: torch finds the backend by name after this."""
    from torch._dynamo.backends.registry import _COMPILER_FNS, register_backend

    if "sparta" not in _COMPILER_FNS:
        register_backend(backend, name="sparta")
