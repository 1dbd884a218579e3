"""Mode rewrite: products with weights that have zeros become torch.ops.sparta.linear_zeros in a copy of the graph; everything else is as it was.

    linear(x, W, b)                         of a Parameter W with zeros that pay             in inference, and where W does not train
    linear(x, where(mask, W, 0), b)         of a mask, as masked layers train                in training, too: the mask says which gradients there are
    addmm(b, x, W), mm(x, W), x @ W         the same of a W that lies turned

Nothing is left out because nobody reads it: it may write (writes.py), and who compiles the graph knows better. A product of a weight or a mask that
the graph itself writes to stays dense.

Modules of sparta.nn bring operators of their own, which stay. Parameters reach Dynamo's graph as inputs with their values, so densities are read
here; what they become later the operator sees for itself (_zeros.py).
"""

from __future__ import annotations

import operator
import re
from typing import Any

import torch
from torch.nn import functional as F

from .. import _zeros
from . import Graph, tell
from .writes import transforms, writes, written

_LINEAR: tuple[Any, ...] = (F.linear, torch._C._nn.linear)
_PRODUCT: tuple[Any, ...] = (torch.mm, torch.matmul, operator.matmul)
# Why weights whose zeros would pay stay dense.
ADDED = "it is added to more than a bias"
WRITTEN = "the graph writes to it"
LEVELS = "torch.func changes what operators do, and ours knows nothing of it"
TRAINS = "it trains, and no mask says that its zeros stay; sparsify_ gives it one"
WORTH_TELLING = (ADDED, LEVELS, TRAINS)


def copied(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Dynamo goes on using its own graph, which must stay as it is."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return torch.fx.GraphModule(gm, graph)


def name_of(node: torch.fx.Node) -> str:
    """The parameter that a placeholder stands for, by its path in the model."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    text = source.name if source is not None and isinstance(source.name, str) else source.name() if source is not None else node.name
    for noise in ("._modules", "._parameters", "._buffers"):
        text = text.replace(noise, "")
    text = re.sub(r"^L\['\w+'\]\.?(?=.)", "", text)
    return text.replace("']['", ".").replace("['", ".").replace("']", "").removeprefix("L.").lstrip(".") or node.name


def _weight(node: Any, values: dict) -> tuple[Any, Any] | None:
    """(weight, mask) where a node is a Parameter, or one with a mask in front of it."""
    if not isinstance(node, torch.fx.Node):
        return None
    if node in values:
        return (node, None) if isinstance(values[node], torch.nn.Parameter) else None
    if node.target is torch.where and len(node.args) == 3 and isinstance(node.args[2], (int, float)) and node.args[2] == 0:
        mask, weight = node.args[:2]
        if isinstance(values.get(weight), torch.nn.Parameter) and getattr(values.get(mask), "dtype", None) == torch.bool:
            return (weight, mask) if values[mask].shape == values[weight].shape else None
    return None


def _operands(node: torch.fx.Node) -> tuple[Any, Any, Any, bool] | None:
    """(x, W, bias, turned) of a node that may be a linear layer."""
    if node.op != "call_function":
        return None
    arguments = [*node.args, *(node.kwargs.get(n) for n in ("input", "weight", "bias")[len(node.args) :])]
    if node.target in _LINEAR and set(node.kwargs) <= {"input", "weight", "bias"}:
        return arguments[0], arguments[1], arguments[2], False
    if node.target is torch.addmm and len(node.args) == 3 and not node.kwargs:
        return node.args[1], node.args[2], node.args[0], True
    if node.target in _PRODUCT and len(node.args) == 2 and not node.kwargs:
        return node.args[0], node.args[1], None, True
    return None


def rewrite(gm: torch.fx.GraphModule, inputs: Any, made: Graph) -> torch.fx.GraphModule:
    """The copy of a graph, with our products."""
    twin = copied(gm)
    placeholders = [n for n in twin.graph.nodes if n.op == "placeholder"]
    values = dict(zip(placeholders, inputs))
    writers = [n for n in twin.graph.nodes if writes(n)]  # asked of each layer, and few
    levels = transforms(gm)
    for node in list(twin.graph.nodes):
        found = _operands(node)
        given = _weight(found[1], values) if found else None
        if not found or given is None:
            continue
        x, _, bias, turned = found
        weight, mask = given
        changed = any(written(writers, n) for n in given if n is not None)
        taken, reason = (False, WRITTEN) if changed else _decide(node, values[weight], values.get(mask), bias, turned)
        if taken and levels:
            taken, reason = False, LEVELS
        made.add(name_of(weight), "linear", "linear_zeros" if taken else "dense", reason)
        if taken:
            with twin.graph.inserting_before(node):
                ours = twin.graph.call_function(_zeros.linear_zeros, (x, weight, mask, bias, turned))
            ours.meta = dict(node.meta)
            node.replace_all_uses_with(ours)
            twin.graph.erase_node(node)
            # Nothing else is dead: what nobody reads may write.
            if isinstance(found[1], torch.fx.Node) and found[1].target is torch.where and not found[1].users:
                twin.graph.erase_node(found[1])
    twin.recompile()
    kept = [f"{row['name']} stays dense: {row['reason']}" for row in made.rows if row["reason"] in WORTH_TELLING]
    if kept:
        tell("; ".join(kept[:4]) + (f"; and {len(kept) - 4} more" if len(kept) > 4 else ""))
    return twin


def _decide(node: torch.fx.Node, weight: torch.Tensor, mask: torch.Tensor | None, bias: Any, turned: bool) -> tuple[bool, str]:
    """Is a product ours, and why?"""
    if not _zeros.can(weight) or (mask is not None and mask.is_inference()):
        return False, "dense: its weight is no plain matrix in the memory of the CPU"
    blocks, reason = _zeros.judged(weight, mask, turned)
    if blocks is None:
        return False, reason
    if node.target is torch.addmm and not _is_row(bias, weight):
        return False, ADDED
    if torch.is_grad_enabled() and weight.requires_grad and mask is None:
        return False, TRAINS
    return True, reason


def _is_row(bias: Any, weight: torch.Tensor) -> bool:
    example = bias.meta.get("example_value") if isinstance(bias, torch.fx.Node) else None
    return example is not None and tuple(example.shape) == (weight.shape[1],)
