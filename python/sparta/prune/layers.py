"""Which layers of a model are pruned: each weight once, under its first name; tables of embeddings and computed weights are none of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from torch import nn

from .. import _layers
from .._conv1d import turn_
from ..patterns import Pattern

__all__ = ["prunable"]


def _matching(found: dict[str, Any], globs: Iterable[str], where: str) -> list[str]:
    try:
        return [name for glob in globs for name in _layers.matching(list(found), glob)]
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def prunable(
    where: str,
    model: nn.Module,
    pattern: Pattern | None,
    names: Iterable[str] = (),
    excluded: Iterable[str] = (),
    types: Collection[str] = ("Linear", "Conv2d"),
    taken: Collection[str] = (),
) -> dict[str, Any]:
    """By name. names, excluded: globs; taken: names of layers that are somebody else's. pattern None: all fit."""
    found: dict[str, Any] = _layers.layers(turn_(model))
    wanted = _matching(found, names, f"{where}: op_names")
    left = set(_matching(found, excluded, f"{where}: excluded_op_names" if where == "prune" else f"{where}: excluded"))
    seen = {id(m._parameters.get("weight")) for m in found.values() if isinstance(m, nn.Embedding)}
    chosen: dict[str, Any] = {}
    for name in dict.fromkeys(wanted or found):
        module = found[name]
        if _layers.is_packed(module):
            raise ValueError(f"{where}: {name!r} is built; sparta.unbuild_(model) goes back to the training form")
        kind = type(module).__name__.removeprefix("Masked").replace("NonDynamicallyQuantizableLinear", "Linear")
        weight = id(module._parameters.get("weight"))
        if name in left or name in taken or kind not in types or weight in seen:
            continue
        fits = pattern is None or pattern.fits(module.weight.shape)
        if wanted and not fits:
            raise ValueError(f"{where}: no block of {pattern} fits into {name!r}, which is {tuple(module.weight.shape)}")
        if fits:
            _layers.need_weight(where, name, module)
            seen.add(weight)
            chosen[name] = module
    if not chosen:
        block = "what is excluded leaves none" if pattern is None else f"what is named, what is excluded and {pattern} leave none"
        kinds = " and ".join(types)
        raise ValueError(f"{where}: no layer is left to prune: of {len(found)} layers, of which {kinds} are taken here, {block}")
    return chosen
