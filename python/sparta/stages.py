"""The two stages of a whole model, in place: a training form with masks, and a running form whose layers are packed where that is faster.

    sparta.sparsify_(model, "4x1:0.9")          nn.Linear and nn.Conv2d become masked: same Parameters, same names, same optimizer
    ... train ...
    sparta.build_(model, example_inputs)        each layer as blocks or dense, whichever is faster at the shapes it meets
    print(sparta.report(model))                 what runs each layer, its time beside dense, and the reason
    sparta.unbuild_(model)                      masked again, with what was trained in between

A state_dict of any form, and one of the dense model, loads into any form. A model that is pruned already needs no sparsify_: exact zeros are its
mask.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import _layers, _left, tuning
from ._blocks import choose
from ._conv1d import is_conv1d, seen_as_linear, turn_
from ._format_linear import FormatLinear
from ._report import Report, left_reason
from .masked import Masked, as_mask, mask_
from .nn import OperatorBase
from .patterns import Pattern
from .schedule import Schedule

__all__ = ["Report", "build_", "report", "sparsify_", "unbuild_"]


# ---------------------------------------------------------------- sparsify_
def sparsify_(model: nn.Module, what: Any = None, example_inputs: Any = None) -> nn.Module:
    """Prunes a model by magnitude and gives it masks. In place; returns the model.

    what: a pattern ("4x1:0.9": every nn.Linear and nn.Conv2d into which a block fits, but for weights that are also an embedding; transformers'
    Conv1D becomes an nn.Linear, whose checkpoints stay a Conv1D's);
    {glob: pattern}, where a glob names layers or their weights, and a pattern may also be a mask, a function of the weight that returns one, or None
    for layers to leave dense; a schedule; or nothing: exact zeros are the mask. Called again with another sparsity it prunes on.
    example_inputs: what a training step takes; linear layers whose products and gradients are faster in blocks at its shapes then train so.

    >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    >>> print(report(sparsify_(model, {"0": "4x1:0.75"}))[0]["density"])
    0.25
    """
    _need_module("sparsify_", model)
    turn_(model)
    if isinstance(what, Schedule):
        import sparta

        what = sparta.create_schedule(model, what)
    if hasattr(what, "apply_") and what.model is not model:
        raise ValueError("sparsify_: the schedule is of another model; give its text, sparta.create_schedule(model, str(schedule))")
    if example_inputs is not None:
        _layers.run(model, example_inputs)
    if hasattr(what, "apply_"):
        what.apply_()
        return _quick(model, example_inputs)
    found: dict[str, Any] = {**_layers.layers(model), **_layers.computed(model)}
    plan = _by_glob(found, what) if isinstance(what, dict) else _everywhere(model, found, what)
    for name in plan:
        _layers.need_weight("sparsify_", name, found[name])
    masks = _tied(model, found, {name: _mask(name, found[name], wish) for name, wish in plan.items()})
    for name, mask in masks.items():
        wish = plan.get(name)
        pattern = str(Pattern.parse(wish)) if isinstance(wish, (str, Pattern)) else None
        if _layers.is_packed(found[name]):
            found[name].update_mask(mask)
            found[name].__dict__.pop("measured", None)
            found[name].__dict__["pattern"] = pattern
        else:
            _layers.settle_(found[name])
            mask_(found[name], mask, pattern, name)
    return _quick(model, example_inputs)


def _need_module(where: str, model) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"{where}: a torch.nn.Module is needed, not {type(model).__name__}")


def _quick(model, example_inputs):
    if example_inputs is not None:
        tuning.quicken_(model, example_inputs)
    return model


def _everywhere(model, found, what) -> dict[str, Any]:
    if what is None:
        plan: dict[str, Any] = {name: mask for name, mask in ((name, _layers.mask_of(m)) for name, m in found.items()) if mask is not None}
        if not plan:
            raise ValueError(f"sparsify_: no layer has {_layers.ZEROS:.0%} of zeros in its weight; say which pattern, e.g. '4x1:0.9'")
        return plan
    pattern = Pattern.parse(what)
    # Of all modules: an embedding of a model's own class, which scales what it looks up, has no masked form.
    weights = [m._parameters.get("weight") for m in model.modules() if isinstance(m, nn.Embedding)]
    tables = {id(w) for w in weights if w is not None}
    plan = {name: pattern for name, m in found.items() if id(m._parameters.get("weight")) not in tables and pattern.fits(_shape(m))}
    if not plan:
        raise ValueError(f"sparsify_: the model has no nn.Linear or nn.Conv2d into which a block of '{pattern}' fits")
    return plan


def _by_glob(found, wishes) -> dict[str, Any]:
    if not wishes:
        raise ValueError("sparsify_: {} names no layer; give {glob: pattern}, e.g. {'*': '4x1:0.9'}")
    plan: dict[str, Any] = {}
    said: dict[str, str] = {}
    left: set[str] = set()
    for glob, wish in wishes.items():
        if not isinstance(glob, str):
            raise TypeError(f"sparsify_: a glob is a text, not {type(glob).__name__}")
        if isinstance(wish, str):
            wish = Pattern.parse(wish)
        names = _layers.matching(list(found), glob)
        if wish is None:
            left.update(names)
            continue
        if isinstance(wish, Pattern):
            fit = [name for name in names if wish.fits(_shape(found[name]))]
            if not fit:
                raise ValueError(f"sparsify_: no block of '{wish}' fits into {names[0]!r}, which is {tuple(_shape(found[names[0]]))}")
            names = fit
        for name in names:
            if name in plan and plan[name] is not wish and plan[name] != wish:
                raise ValueError(
                    f"sparsify_: {name!r} is named by {said[name]!r} and by {glob!r}, which say different things; let one of them name it"
                )
            plan[name], said[name] = wish, glob
    return {name: wish for name, wish in plan.items() if name not in left}


def _shape(module) -> tuple[int, ...]:
    return (module.out_features, module.in_features) if _layers.is_packed(module) else tuple(module.weight.shape)


def _mask(name: str, module, wish) -> torch.Tensor:
    weight = _layers.weight_of(module)
    if isinstance(wish, Pattern):
        return wish.mask(weight)
    if callable(wish):
        wish = wish(weight)
    return as_mask(wish, weight.shape, f"sparsify_: {name!r}", weight.is_meta)


def _tied(model, found, masks: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """With the other layers that share a weight: they get its mask."""
    whole = dict(masks)
    for names in _layers.shared(model).values():
        given = [name for name in names if name in masks]
        if not given:
            continue
        if not all(torch.equal(masks[name], masks[given[0]]) for name in given):
            raise ValueError(f"sparsify_: {given[0]!r} and {given[1]!r} share one weight and would get different masks; name one of them")
        for name in names:
            if name not in found:
                raise TypeError(f"sparsify_: {name!r} shares the weight of {given[0]!r} and has no masked form; leave the weight dense")
            whole[name] = masks[given[0]]
    return whole


# ---------------------------------------------------------------- build_ and unbuild_
def build_(model: nn.Module, example_inputs: Any = None, remeasure: bool = False) -> nn.Module:
    """Packs the layers that run faster so, at the shapes that example_inputs give them: a tensor, a tuple or a dict of named ones; without, 128 rows.

    In place; returns the model. A layer for which dense is faster stays an nn.Linear with zeros. The packed ones have a Parameter `values` in
    place of `weight`: an optimizer that trains on is to be made anew. Times are remembered (docs/times.md); remeasure=True believes none of before.
    """
    _need_module("build_", model)
    # Two ways a layer, dense and the blocks that fit: enough to be right, and quick for a model of many layers. sparta.tune tries more.
    return tuning.build(model, example_inputs, tuning.tune(model, example_inputs, remeasure=remeasure, _most=2))


def unbuild_(model: nn.Module) -> nn.Module:
    """The training form again: packed layers become masked ones, with the values that they have now. In place; returns the model."""
    _need_module("unbuild_", model)
    new = {id(m): _unpack(m) for m in _layers.layers(model).values() if _layers.is_packed(m)}
    if id(model) in new:
        raise ValueError("unbuild_: the model is one layer, which cannot be replaced in place; wrap it in nn.Sequential")
    _layers.replace(model, new)
    for module in model.modules():
        module.__dict__.pop("measured", None)
        unformat_ = getattr(module, "unformat_", None)
        if unformat_:
            unformat_()
    return model


def _unpack(packed: Any) -> nn.Module:
    linear = nn.Linear(packed.in_features, packed.out_features, packed.bias is not None, device="meta")
    linear.weight = nn.Parameter(packed.weight.detach().clone(), requires_grad=packed.values.requires_grad)
    linear.bias = packed.bias
    linear.training = packed.training
    return mask_(linear, packed.get_sparse_indexes().mask(), packed.__dict__.get("pattern"))


# ---------------------------------------------------------------- report
def report(model: nn.Module) -> Report:
    """What runs each layer of a model, its times where they were taken, and why: rows as `sparta inspect` has them. Matrix-like weights that are left
    whatever their zeros are have a row, too, whose `left` says why: convolutions, embeddings, tied heads, stacks of experts, in_proj_weight.

    >>> rows = report(nn.Sequential(nn.Linear(64, 32)))
    >>> rows[0]["name"], rows[0]["shape"], rows[0]["implement"], rows[0]["reason"]
    ('0', [32, 64], 'dense', 'density 1.00: there are no zeros to skip')
    """
    _need_module("report", model)
    found, shared = _layers.layers(model), _left.tied(model)
    seen = {id(p) for module in found.values() for p in module.parameters(recurse=False)}
    rows: list[dict[str, Any]] = []
    for name, module in model.named_modules():
        if name in found:
            rows.append(_row(name, module, shared))
        elif is_conv1d(module):
            rows.append(_row(name, seen_as_linear(module), shared))
        elif isinstance(module, OperatorBase):
            rows.append(_operator(name, module))
        else:
            rows += [_left_row(name, module, *of) for of in _left.parameters(module, seen)]
    return Report(rows)


_OPS = {"Conv2d": "Conv", "Embedding": "Gather"}


def _left_row(module_name: str, module: nn.Module, name: str, p: torch.Tensor, kind: str) -> dict[str, Any]:
    """A weight that is no layer of its own."""
    density = 1.0 if p.is_meta or not p.numel() else float((p.detach() != 0).float().mean())
    return {
        "name": f"{module_name}.{name}" if module_name else name,
        "op": type(module).__name__,
        "shape": list(p.shape),
        "dtype": str(p.dtype).removeprefix("torch."),
        "pattern": "dense",
        "block": "",
        "density": density,
        "implement": "dense",
        "sparse": False,
        "left": left_reason(kind),
        "reason": left_reason(kind),
        "us": None,
        "dense_us": None,
    }


def _row(name: str, module: Any, shared: set[int]) -> dict[str, Any]:
    mask: Any = _layers.mask_of(module)
    packed = _layers.is_packed(module)
    density = _layers.density(mask)
    there, few = (density, "") if mask is not None else _layers.unpruned(module)
    measured = module.__dict__.get("measured", {})
    if measured.get("density", density) != density:
        # Another mask came since.
        measured = {}
    block: Any = module.get_sparse_indexes().block if packed else choose(mask.flatten(1)) if mask is not None and mask.dim() >= 2 else None
    blocks = packed and block != tuple(module.get_sparse_indexes().shape)
    format = module.format if isinstance(module, FormatLinear) else None
    asked = module.__dict__.get("pattern")
    plain = "dense" if mask is None else f"{block[0]}x{block[1]}"
    kind = None if packed or measured else _left.of_layer(module, shared)
    left = left_reason(kind) if kind and (mask is None or kind == "EMBEDDING") else None
    return {
        "name": name,
        "op": _OPS.get(type(module).__name__.removeprefix("Masked"), "Linear"),
        "shape": list(_shape(module)),
        "dtype": str(next(module.parameters(recurse=False)).dtype).removeprefix("torch."),
        "pattern": _without_sparsity(asked) if asked else plain,
        "block": format or (f"{block[0]}x{block[1]}" if block else ""),
        "density": there,
        "implement": f"blocks {block[0]}x{block[1]}" if blocks else getattr(module, "implement", "dense"),
        "sparse": blocks or format is not None,
        "left": left,
        "reason": left or _reason(module, few, packed, measured),
        "us": measured.get("us"),
        "dense_us": measured.get("dense_us"),
        "disturbed": measured.get("disturbed", False),
    }


def _operator(name: str, module: Any) -> dict[str, Any]:
    """Attention, softmax, products and whatever else has a pattern of its own, once it has one."""
    blocks = module.get_sparse_indexes()
    known = blocks is not None
    dense = not known or blocks.block == blocks.shape
    block = "x".join(map(str, blocks.block)) if known else ""
    return {
        "name": name,
        "op": type(module).__name__,
        "shape": list(blocks.shape) if known else [],
        "dtype": "",
        "pattern": block or "dense",
        "block": block,
        "density": blocks.density() if known else 1.0,
        "implement": "dense" if dense else f"blocks {block}",
        "sparse": not dense,
        "left": None,
        "reason": module.reason,
        "us": None,
        "dense_us": None,
    }


def _without_sparsity(pattern: str) -> str:
    p = Pattern.parse(pattern)
    return pattern if p.of or p.below is not None else pattern.rpartition(":")[0]


def _reason(module, few, packed, measured) -> str:
    if measured.get("reason"):
        return measured["reason"]
    if packed:
        return module.reason
    if few:
        return few
    if getattr(module, "reason", ""):
        return module.reason
    if isinstance(module, nn.Conv2d):
        return "pruned: build_ leaves convolutions dense; sparta.nn.SparseConv2d runs them in blocks"
    return (
        "training form: build_ makes it run sparse where that is faster"
        if isinstance(module, Masked)
        else "pruned: build_ makes it run sparse where that is faster"
    )
