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
    """A compiled graph: what runs it, why that is not the mode asked for, and a row of {"name", "op", "implement", "reason"} for each layer that was
    looked at."""

    def __init__(self, mode: str, instead: str = "") -> None:
        self.mode, self.instead = mode, instead
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

    def made(inputs: Any) -> Graph:
        if mode == "engine":
            from .engine import compile_graph

            return compile_graph(gm, inputs, name, rest, options.get("compile", {}))
        from .rewrite import rewrite

        graph = Graph(mode)
        graph.run = inner(name, rewrite(gm, inputs, graph), inputs, rest)
        return graph

    negative = {i for i, x in enumerate(example_inputs) if isinstance(x, torch.Tensor) and x.is_neg()}
    if negative and _given_back(gm, negative):
        return _by_torch(gm, mode)
    graph = made(_all_plainly(example_inputs, negative))
    if negative:
        graph.run = _of_negative(graph.run, negative)
    return graph


def _given_back(gm: torch.fx.GraphModule, negative: set[int]) -> bool:
    """Is an answer a view of one of these inputs? Of a copy it would be another's."""
    from .check import results
    from .writes import memory, of

    given = [n for n in gm.graph.nodes if n.op == "placeholder"]
    mine = set().union(*(memory(of(given[i])) for i in negative))
    return any(isinstance(n, torch.fx.Node) and memory(of(n)) & mine for n in results(gm))


def _by_torch(gm: torch.fx.GraphModule, mode: str) -> Graph:
    why = "an answer is a view of an input with the negative bit"
    tell(f"{why}; torch runs this graph")
    graph = Graph(mode, why)
    graph.run = gm.forward
    return graph


def _stored_plainly(x: torch.Tensor) -> torch.Tensor:
    """The values of a tensor whose memory has them with the other sign (x.conj().imag): of its sizes and strides, in memory of its own."""
    once = x
    for axis, stride in enumerate(x.stride()):
        once = once.narrow(axis, 0, 1) if not stride and x.shape[axis] > 1 else once
    return torch.empty_strided(once.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(once).expand(x.shape)


def _all_plainly(inputs: Any, negative: set[int]) -> list[Any]:
    return [_stored_plainly(x) if i in negative else x for i, x in enumerate(inputs)]


def _of_negative(run: Any, negative: set[int]) -> Any:
    """Inductor's code reads memory, and knows of no sign that a tensor has beside it: these inputs are copied, and written back where it wrote. torch
    compiles anew when an input has the sign, or has lost it."""

    def call(*inputs: Any) -> Any:
        given = _all_plainly(inputs, negative)
        answer = run(*given)
        with torch.no_grad():
            for i in negative:
                if not torch.equal(given[i], inputs[i]):
                    inputs[i].copy_(given[i])
        return answer

    return call


def register() -> None:
    """For processes that have the package on their path without having installed it: torch finds the backend by name after this."""
    from torch._dynamo.backends.registry import _COMPILER_FNS, register_backend

    if "sparta" not in _COMPILER_FNS:
        register_backend(backend, name="sparta")
