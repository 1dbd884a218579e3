"""A package against the graph that it was made of, which torch runs: what compile's own check is to a file, and many times as fast.

    question = ask(part, package, sizes)    made-up inputs, and torch's answers
    differs(part, running, question) -> ""  the package's are torch's, but for rounding; else what differs

Inputs are made up as compile makes them, ids inside of their tables, at the sizes that torch saw first and on as many threads as it has. Close
enough is what docs/checking.md says: max|a-b| <= rtol * max|b| + 1e-6 * s, with s the largest operand of what computes the output where that adds
up, else the largest of the output; atol takes the place of the second term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .. import _arrays
from .._library import Context, Handle, lib, new, texts
from ..package import _dims

# Relative to the largest value of an output.
RTOL = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 2e-2, torch.bfloat16: 2e-2}
# What adds up: rounding is that of the operands, which may cancel. A huge operand of anything else forgives nothing.
SUMS = frozenset((
    "linear", "linear_run", "addmm", "mm", "bmm", "matmul", "conv1d", "conv2d", "add", "sub", "rsub", "diff", "sum", "mean", "cumsum", "avg_pool2d",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "layer_norm", "rms_norm", "group_norm", "batch_norm",
))  # fmt: skip


def made_inputs(package: Any, sizes: dict[str, int]) -> dict[str, torch.Tensor]:
    """Tensors for the inputs of a package, made from a seed, with these sizes for its symbols."""
    context, handle = Context(), package._open()
    options = new("sparta_inputs_options", seed=11, dims=texts(_dims(sizes), "dims"))
    inputs = Handle(context, context.make("sparta_package_make_inputs", handle._handle, options), "sparta_inputs_free")
    made: dict[str, torch.Tensor] = {}
    while slot := lib.sparta_inputs_array(inputs._handle, len(made)):
        named = slot.contents
        array = _arrays.copy(named.tensor)
        whole = torch.from_numpy(array.view("int16")).view(torch.bfloat16) if array.dtype.name in ("bfloat16", "void16") else torch.from_numpy(array)
        made[named.name.decode()] = whole
    return made


class _Answer(torch.fx.Interpreter):
    """Runs the graph, and looks at what the nodes are given that compute its outputs."""

    def __init__(self, gm: torch.fx.GraphModule, outputs: list[Any]) -> None:
        super().__init__(gm)
        self.scales: dict[Any, float] = dict.fromkeys(outputs, 0.0)

    def run_node(self, n: torch.fx.Node) -> Any:
        made = super().run_node(n)
        if n in self.scales:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            counted = [*args, *kwargs.values()] if "".join(str(n.target).split(".")[1:2]) in SUMS else [made]
            self.scales[n] = max((largest(t) for t in counted if isinstance(t, torch.Tensor)), default=0.0)
        return made


def largest(t: torch.Tensor) -> float:
    """Of the finite elements of a tensor, by absolute value."""
    return float(torch.nan_to_num(t, 0.0, 0.0, 0.0).abs().max()) if t.numel() and t.is_floating_point() else 0.0


def far(got: torch.Tensor, want: torch.Tensor, rtol: float | None, atol: float | None, scale: float) -> str:
    """What is wrong with an answer, or ""."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"it is {got.dtype} {list(got.shape)}, torch's {want.dtype} {list(want.shape)}"
    if not want.is_floating_point():
        return "" if torch.equal(got, want) else "its integers are not torch's"
    allowed = (rtol or RTOL[want.dtype]) * largest(want) + (atol or 1e-6 * scale)
    if torch.allclose(got, want, rtol=0, atol=allowed, equal_nan=True):
        return ""
    return f"it differs from torch's by {float((got - want).abs().max()):.3g} where {allowed:.3g} is allowed"


@dataclass
class Question:
    """Inputs by name, what torch answers, and how large what computes each answer is."""

    made: dict[str, torch.Tensor]
    answers: list[torch.Tensor]
    scales: list[float]


def _given(part: Any, made: dict[str, torch.Tensor]) -> list[Any]:
    """The arguments of a part's graph: constants, made-up inputs, sizes."""
    placeholders = [n for n in part.gm.graph.nodes if n.op == "placeholder"]
    return [
        value if value is not None else made[name] if name in made else _number(n) for n, value, name in zip(placeholders, part.values, part.names)
    ]


def results(gm: torch.fx.GraphModule) -> list[Any]:
    """The nodes that a graph gives, one or several."""
    outputs = next(n for n in gm.graph.nodes if n.op == "output").args[0]
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def ask(part: Any, package: Any, sizes: dict[str, int]) -> Question:
    """Makes inputs for a package, and runs the graph on them."""
    symbols = package.inspect()["symbols"]  # a size that follows from others has none
    made = made_inputs(package, {name: size for name, size in sizes.items() if name in symbols})
    nodes = results(part.gm)
    watch = _Answer(part.gm, nodes)
    with torch.no_grad():
        answer = watch.run(*_given(part, made))
    return Question(made, list(answer) if isinstance(answer, (list, tuple)) else [answer], [watch.scales[n] for n in nodes])


def differs(part: Any, running: Any, question: Question) -> str:
    """Runs a package of the part; what differs, or ""."""
    placeholders = [n for n in part.gm.graph.nodes if n.op == "placeholder"]
    given = _given(part, question.made)
    got = running([given[i] for i, n in enumerate(placeholders) if isinstance(n.meta["val"], torch.Tensor)])
    for node, ours, want, scale in zip(results(part.gm), got, question.answers, question.scales, strict=True):
        why = far(ours, want, part.options.get("rtol"), part.options.get("atol"), scale)
        if why:
            return f"{node}: {why}"
    return ""


def _number(node: torch.fx.Node) -> Any:
    """A size that is an argument of the graph, as torch saw it first."""
    size = node.meta["val"]
    return size.node.hint if isinstance(size, (torch.SymInt, torch.SymFloat)) else size
