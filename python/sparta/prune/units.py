"""What goes together, and which of it goes: blocks of one layer, groups of n:m, or the heads of an attention, which are rows of query, key and value
and columns of the output at once.

    unit.blocks(scores)  -> what each block is worth, and how many elements it has
    choose(units, ...)   -> the masks of all layers, at one sparsity: each layer for itself (local) or the lowest of all (global, with bounds)
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import nn

from .. import _layers
from ..patterns import Pattern, largest, needed
from .criteria import Criterion

__all__ = ["Heads", "Unit", "check", "choose", "find_heads", "together"]

Scores = dict[str, torch.Tensor]  # by layer, of the shape of its weight


@dataclasses.dataclass
class Unit:
    """One layer, in blocks or groups."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    pattern: Pattern

    def blocks(self, scores: Scores) -> tuple[torch.Tensor, torch.Tensor]:
        return self.pattern.blocks(scores[self.name])

    def any(self, kept: Scores) -> torch.Tensor:
        """Of which blocks something is there."""
        return self.pattern.any(kept[self.name])

    def sizes(self) -> torch.Tensor:
        return self.pattern.sizes(self.shapes[self.name])

    def masks(self, stays: torch.Tensor) -> dict[str, torch.Tensor]:
        return {self.name: self.pattern.spread(stays, self.shapes[self.name])}

    @property
    def elements(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes.values())


@dataclasses.dataclass
class Heads(Unit):
    """An attention: `axis` says for each layer whether its heads are rows (0) or columns (1); fused query, key and value are 3 times the rows."""

    axis: dict[str, int]
    heads: int

    def _split(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """(heads, elements of one)"""
        x = x.movedim(self.axis[name], 0)
        return x.reshape(-1, self.heads, x.shape[0] // self._times(name) // self.heads, *x.shape[1:]).transpose(0, 1).flatten(1)

    def _times(self, name: str) -> int:
        return 3 if self.axis[name] == 0 and len([a for a in self.axis.values() if a == 0]) == 1 else 1

    def blocks(self, scores: Scores) -> tuple[torch.Tensor, torch.Tensor]:
        whole = torch.cat([self._split(name, scores[name].double()) for name in self.shapes], 1)
        return whole.mean(1), self.sizes().to(whole)

    def any(self, kept: Scores) -> torch.Tensor:
        return torch.stack([self._split(name, kept[name]).any(1) for name in self.shapes]).any(0)

    def sizes(self) -> torch.Tensor:
        return torch.full((self.heads,), self.elements / self.heads, dtype=torch.float64)

    def masks(self, stays: torch.Tensor) -> dict[str, torch.Tensor]:
        made = {}
        for name, shape in self.shapes.items():
            size = shape[self.axis[name]]
            line = stays.repeat_interleave(size // self._times(name) // self.heads).repeat(self._times(name))
            made[name] = (line[:, None] if self.axis[name] == 0 else line[None, :]).expand(shape).clone()
        return made


# ---------------------------------------------------------------- heads
_QKV = (("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("q_lin", "k_lin", "v_lin"), ("qkv",), ("c_attn",))
_OUT = ("out_proj", "o_proj", "out_lin", "proj", "out", "c_proj", "dense")
_COUNT = ("num_attention_heads", "num_heads", "n_heads", "heads")


def find_heads(model: nn.Module, allowed: set[str], pattern: Pattern) -> list[Unit]:
    """The attentions whose layers are all allowed: modules with query, key and value (or qkv) and a number of heads."""
    found: list[Unit] = []
    for path, module in model.named_modules():
        inputs = next((names for names in _QKV if all(isinstance(getattr(module, n, None), nn.Linear) for n in names)), None)
        heads = next((n for n in (getattr(module, word, None) for word in _COUNT) if isinstance(n, int) and n > 0), None)
        if inputs is None or heads is None:
            continue
        layers = {f"{path}.{name}" if path else name: 0 for name in inputs}
        out = _output(model, path, module)
        if out:
            layers[out] = 1
        shapes = {name: tuple(model.get_submodule(name).weight.shape) for name in layers}  # type: ignore[arg-type]
        each = {shape[layers[name]] for name, shape in shapes.items()}
        fused = 3 if len(inputs) == 1 else 1
        rows = {shapes[name][0] // fused for name, axis in layers.items() if axis == 0}
        if not out or not set(layers) <= allowed or len(rows | {shapes[out][1]}) > 1 or any(n % heads for n in each):
            continue
        found.append(Heads(path, shapes, pattern, layers, heads))
    if not found:
        raise ValueError(
            "prune: pattern heads: no attention was found whose layers are query, key and value (q_proj.., q_lin.., qkv) with an output "
            "of the same size and a number of heads (num_attention_heads, num_heads, n_heads, heads); use rows, or op_names of other layers"
        )
    return found


def _output(model: nn.Module, path: str, module: nn.Module) -> str:
    """The projection behind the heads: a child, or BERT's output.dense beside the module."""
    child = next((name for name in _OUT if isinstance(getattr(module, name, None), nn.Linear)), None)
    if child:
        return f"{path}.{child}" if path else child
    beside = f"{path.rpartition('.')[0]}.output.dense".lstrip(".")
    return beside if isinstance(_layers.layers(model).get(beside), nn.Linear) else ""


# ---------------------------------------------------------------- choosing
@dataclasses.dataclass
class _Side:
    """The blocks of one unit."""

    unit: Unit
    score: torch.Tensor  # flat
    weight: torch.Tensor
    shape: torch.Size


def _sides(units: list[Unit], scores: Scores, kept: Scores | None, criterion: Criterion) -> list[_Side]:
    sides = []
    for unit in units:
        score, weight = unit.blocks(scores)
        if criterion.signed:
            score = score.abs()
        if kept is not None:
            # What went stays away: it is worth less than anything.
            score = score.masked_fill(~unit.any(kept), -math.inf)
        sides.append(_Side(unit, score.flatten(), weight.flatten(), score.shape))
    return sides


def _bound(side: _Side, least: float, most: float) -> tuple[torch.Tensor, float]:
    """Its scores with what must go first and what must stay last, and how many elements may go: up to the block with which
    the bound is met, as a share is met elsewhere. At least one block stays."""
    stays = largest(side.score, side.weight, needed(side.unit.elements, most))
    if not bool(stays.any()):
        stays[(side.score == side.score.amax()).nonzero()[-1]] = True
    score = side.score
    if needed(side.unit.elements, least):
        score = torch.where(largest(score, side.weight, needed(side.unit.elements, least)), score, -math.inf)
    return score.masked_fill(stays, math.inf), float(torch.where(stays, 0, side.weight).sum())


def choose(
    units: list[Unit],
    scores: Scores,
    kept: Scores | None,
    criterion: Criterion,
    sparsity: float,
    scope: str,
    bounds: tuple[float, float],
) -> dict[str, torch.Tensor]:
    """The masks at this sparsity. kept: masks whose zeros stay zeros; None: what went may come back."""
    if units[0].pattern.of:
        masks = {}
        for unit in units:
            worth = scores[unit.name].abs() if criterion.signed else scores[unit.name]
            worth = worth.double() if kept is None else worth.double().masked_fill(~kept[unit.name], -math.inf)
            stays = unit.pattern.stays(worth)
            masks[unit.name] = stays if kept is None else stays & kept[unit.name]
        return masks
    masks = _pick(_sides(units, scores, kept, criterion), sparsity, scope, bounds)
    # Masks that were there before may lack elements of a block that stays.
    return masks if kept is None else {name: mask.to(kept[name].device) & kept[name] for name, mask in masks.items()}


def check(units: list[Unit], sparsity: float, scope: str, bounds: tuple[float, float]) -> None:
    """Can so much go, and every layer keep something? The sizes of blocks tell."""
    if not units[0].pattern.of:
        sizes = [unit.sizes() for unit in units]
        _pick([_Side(unit, torch.zeros(s.numel()), s.flatten(), s.shape) for unit, s in zip(units, sizes)], sparsity, scope, bounds)


def _pick(sides: list[_Side], sparsity: float, scope: str, bounds: tuple[float, float]) -> dict[str, torch.Tensor]:
    if scope == "local":
        parts = [largest(side.score, side.weight, needed(side.unit.elements, sparsity)) for side in sides]
        _not_empty(sides, parts, sparsity)
    else:
        bounded = [_bound(side, *bounds) for side in sides]
        need = needed(sum(side.unit.elements for side in sides), sparsity)
        if sum(may for _, may in bounded) < need:
            raise ValueError(
                f"prune: {sparsity:.4g} of all layers cannot go: each keeps at least a block, and of none goes more than "
                f"max_sparsity_ratio_per_op {bounds[1]:g}; lower target_sparsity or raise that"
            )
        device = sides[0].score.device  # layers may lie on many, and are compared on one
        scores, weights = [score.to(device) for score, _ in bounded], [side.weight.to(device) for side in sides]
        stays = largest(torch.cat(scores), torch.cat(weights), need)
        parts = list(stays.split([len(side.score) for side in sides]))
    return {name: mask for side, part in zip(sides, parts) for name, mask in side.unit.masks(part.reshape(side.shape)).items()}


def together(each: list[torch.Tensor]) -> list[Any]:
    """The values of scalars of layers: waited for once where all lie on one device."""
    if len({x.device for x in each}) == 1:
        return torch.stack(each).tolist()
    return [x.item() for x in each]


def _not_empty(sides: list[_Side], parts: list[torch.Tensor], sparsity: float) -> None:
    for side, part, any_ in zip(sides, parts, together([part.any() for part in parts])):
        if not any_:
            shape = "x".join(map(str, next(iter(side.unit.shapes.values()))))
            raise ValueError(
                f"prune: {side.unit.name!r} ({shape}, {len(part)} blocks of {side.unit.pattern}) would become empty at sparsity {sparsity:.4g}; "
                "lower target_sparsity, take smaller blocks, or leave it out with excluded_op_names"
            )
