"""What a node of a graph does beside giving its result: who moves, drops or joins nodes asks here first.

    writes(node)               does it change memory that it is given, or anything else that is there without it?
    draws(node)                does it take random numbers, and so decide which the next one gets?
    written(nodes, tensor)     may one of these nodes write to the memory of a tensor?
    transforms(gm)             has a graph levels of torch.func, vmap and grad?

Dynamo's graph has torch as people write it, x.add_(1), torch.add(x, 1, out=y), x += 1, F.relu(x, inplace=True), F.batch_norm: some writes stand in a
name, some in an argument. ATen's graphs have schemas that say it, of all but running statistics. What is not known to write nothing writes.
"""

from __future__ import annotations

import builtins
import inspect
import math
import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import functional as F

# Norms that update the running statistics they are given, which not even ATen's schemas say.
_NORMS = (
    "batch_norm", "instance_norm", "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_impl_index", "batch_norm_update_stats",
    "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts",
)  # fmt: skip
# Functions that write to what they are given under no name that says so, and the argument that must be there for it.
_STATEFUL = {**dict.fromkeys(_NORMS, "running_mean"), "embedding": "max_norm", "embedding_bag": "max_norm"}
_PURE = (operator, math, builtins)
_IN_PLACE_OPERATORS = frozenset(
    name for name in dir(operator) if name.startswith("i") and hasattr(operator, f"__{name}__") and name not in ("inv", "invert", "index", "is_not")
)
# What changes how the nodes behind it compute, and the memory of no tensor: blocks of autocast, as every rotary embedding has one, checks, seeds.
_MODES = frozenset((
    "_enter_autocast", "_exit_autocast", "_set_grad_enabled", "_enter_inference_mode", "_exit_inference_mode", "set_rng_state", "manual_seed",
    "_assert", "_assert_async", "_check", "_check_is_size", "_check_value", "_check_with", "sym_constrain_range_for_size",
))  # fmt: skip
_METHODS = frozenset(["__setitem__", "__delitem__", *(f"__{name}__" for name in _IN_PLACE_OPERATORS)])


def writes(node: torch.fx.Node) -> bool:
    """Does it change what was there before it?"""
    if node.op in ("placeholder", "output", "get_attr"):
        return False
    if node.op == "call_method":
        return _by_name(str(node.target)) or node.kwargs.get("out") is not None
    return node.op != "call_function" or _function_writes(node)


def _by_name(name: str) -> bool:
    return name in _METHODS or (name.endswith("_") and not name.endswith("__"))


def _function_writes(node: torch.fx.Node) -> bool:
    target: Any = node.target
    if getattr(target, "_schema", None) is not None:
        return bool(target._schema.is_mutable) or _updates_statistics(node)
    name, module = getattr(target, "__name__", ""), getattr(target, "__module__", None) or ""
    if any(getattr(place, name, None) is target for place in _PURE):
        return target in (operator.setitem, operator.delitem, setattr, delattr) or name in _IN_PLACE_OPERATORS
    if _by_name(name) or node.kwargs.get("out") is not None:
        return True
    if module.startswith("torch.nn.functional") or getattr(F, name, None) is target:
        return _argument(node, "inplace") is True or (name in _STATEFUL and _argument(node, _STATEFUL[name]) is not None)
    # Functions of torch in C: the others of its names, and whatever else can be called, may do anything.
    ours = getattr(torch, name, None) is target or getattr(torch._C._nn, name, None) is target or getattr(torch.Tensor, name, None) is target
    return not ours or name in _STATEFUL or name.startswith("_foreach_") or name in ("set_rng_state", "manual_seed")


def _updates_statistics(node: torch.fx.Node) -> bool:
    """Of ATen's graphs: a norm with running statistics, unless it only reads them."""
    target: Any = node.target
    given = _given(node) if target._schema.name.removeprefix("aten::") in _NORMS else {}
    return given.get("running_mean") is not None and given.get("training", given.get("use_input_stats")) is not False


def _given(node: torch.fx.Node) -> dict[str, Any]:
    """The arguments of an overload, with those that it has by default."""
    target: Any = node.target
    known = target._schema.arguments
    return {a.name: a.default_value for a in known} | dict(zip([a.name for a in known], node.args)) | node.kwargs


def _argument(node: torch.fx.Node, name: str) -> Any:
    """What a function is given by this name, wherever it stands."""
    target: Any = node.target
    try:
        given = inspect.signature(target).bind_partial(*node.args, **node.kwargs)
    except (TypeError, ValueError):  # one of C
        return node.kwargs.get(name)
    given.apply_defaults()
    return given.arguments.get(name)


def draws(node: torch.fx.Node) -> bool:
    """Of ATen's graphs: does it take random numbers?"""
    target: Any = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = _given(node)
    return not (given.get("train") is False or given.get("training") is False or given.get("dropout_p") == 0)


def memory(value: Any) -> set[int]:
    """The memory of what torch says a node gives."""
    if isinstance(value, (list, tuple)):
        return set().union(*map(memory, value))
    if not isinstance(value, torch.Tensor):
        return set()
    try:
        return {value.untyped_storage()._cdata}
    except (NotImplementedError, RuntimeError):  # a sparse one
        return {-1}


def of(node: torch.fx.Node) -> Any:
    """What torch says a node gives, in Dynamo's graph or in ATen's."""
    return node.meta.get("example_value", node.meta.get("val"))


def _is_mode(node: torch.fx.Node) -> bool:
    """Also whatever else of torch is given nothing: Dynamo's graphs have tensors as inputs only."""
    target: Any = node.target
    module = getattr(target, "__module__", None) or ""
    ours = module == "torch" or module.startswith("torch.")
    return ours and (not node.all_input_nodes or getattr(target, "__name__", "") in _MODES)


def transforms(gm: torch.fx.GraphModule) -> bool:
    """Has a graph, or one inside of it, levels of torch.func, where operators do more than they say?"""
    graphs = [m.graph for m in gm.modules() if isinstance(m, torch.fx.GraphModule)]
    targets: list[Any] = [n.target for graph in graphs for n in graph.nodes if n.op == "call_function"]
    return any((getattr(target, "__module__", None) or "").startswith(("torch._functorch", "torch._C._functorch")) for target in targets)


def written(nodes: Iterable[torch.fx.Node], tensor: torch.fx.Node) -> bool:
    """May one of these nodes write to the memory of a tensor?"""
    mine = memory(of(tensor))
    for node in nodes:
        if _is_mode(node):
            continue
        if writes(node) and (not node.all_input_nodes or any(of(n) is None or memory(of(n)) & mine for n in node.all_input_nodes)):
            return True
    return False
