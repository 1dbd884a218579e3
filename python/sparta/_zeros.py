"""Linear layers whose weight stays where it is, dense and with zeros in it: torch.ops.sparta.linear_zeros. The elements that are there are packed
when it is first called, and again when the weight has changed.

    linear_zeros(x, weight, mask, bias, turned)      x (..., k) by weight (n, k), or (k, n) where turned, + bias
    linear_zeros_input(dy, weight, mask, turned)     its gradient by x
    linear_zeros_weight(x, dy, mask, turned)         its gradient by the weight, 0 where the mask is

mask says which elements count; None: the zeros of the weight do, and its gradient is dense. A packed form belongs to the memory of the weight and to
its version, which every write in place raises but those through .data. Where packing does not pay, the product is dense: the answer never depends on
what was packed. Compilers put these in the place of dense products (sparta.dynamo); modules hold their elements themselves (sparta.nn).
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import linear as dense_linear

from . import _operators as ops
from ._blocks import Blocks
from .nn._mask import choose_blocks
from .nn._products import is_whole

LEAST = 1 << 15  # elements of a weight that packing is tried for: below, the call costs more than it saves
TRIES = 3  # patterns that a weight without a mask may have had; one that changes more often is dense

_library = torch.library.Library("sparta", "FRAGMENT")
_library.define("linear_zeros(Tensor x, Tensor weight, Tensor? mask, Tensor? bias, bool turned) -> Tensor")
_library.define("linear_zeros_input(Tensor dy, Tensor weight, Tensor? mask, bool turned) -> Tensor")
_library.define("linear_zeros_weight(Tensor x, Tensor dy, Tensor? mask, bool turned) -> Tensor")
linear_zeros = torch.ops.sparta.linear_zeros.default
linear_zeros_input = torch.ops.sparta.linear_zeros_input.default
linear_zeros_weight = torch.ops.sparta.linear_zeros_weight.default


def pays(weight: torch.Tensor, mask: torch.Tensor | None = None, turned: bool = False) -> tuple[Blocks | None, str]:
    """The blocks in which the weight would run, None for dense; and why."""
    there = weight.detach() != 0 if mask is None else mask
    if int(there.count_nonzero()) == there.numel() > 0:
        return None, "dense: there are no zeros to skip"
    if weight.numel() < LEAST:
        return None, f"dense: a weight of {weight.numel()} elements is too small to gain"
    blocks, reason = choose_blocks(there.t() if turned else there)
    return (None if is_whole(blocks) else blocks), reason


def can(weight: Any) -> bool:
    """Is it a weight whose packed form can be remembered: a plain matrix on the CPU that counts its versions?"""
    plain = type(weight) in (torch.Tensor, torch.nn.Parameter) and weight.device.type == "cpu" and weight.dim() == 2
    return plain and weight.is_floating_point() and not weight.is_inference()


# ---------------------------------------------------------------- what is remembered
class _Packed:
    """The pattern of one tensor, a mask or a weight, and the elements of weights that were packed by it. No blocks: the dense product runs."""

    def __init__(self, source: torch.Tensor, turned: bool) -> None:
        self.refs = [StorageWeakRef(source.untyped_storage())]
        self.turned, self.version, self.patterns = turned, -1, 0
        self.blocks: Blocks | None = None
        self.reason = ""  # for these blocks, or none
        self.inside: torch.Tensor | None = None  # the mask of the blocks, made when a weight has changed
        self.values: dict[tuple, tuple[int, torch.Tensor]] = {}

    def follow(self, source: torch.Tensor) -> None:
        """Takes the pattern that there is now. That of a weight which lost elements may stay."""
        if self.version == source._version:
            return
        if source.dtype == torch.bool or self.blocks is None or not self._holds(source):
            self.patterns += source.dtype != torch.bool
            often = None, f"dense: its pattern changed more than {TRIES} times"
            self.blocks, self.reason = pays(source, None, self.turned) if self.patterns <= TRIES else often
            self.inside = None
            self.values.clear()
        self.version = source._version

    def _holds(self, weight: torch.Tensor) -> bool:
        assert self.blocks is not None
        if self.inside is None:
            self.inside = self.blocks.mask()
        return not bool(((weight.t() if self.turned else weight) != 0).logical_and_(~self.inside).any())

    def of(self, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """The elements of a weight, in this type."""
        key = (*_place(weight), dtype)
        made = self.values.get(key)
        if made is None or made[0] != weight._version:
            if made is None:
                self.refs.append(StorageWeakRef(weight.untyped_storage()))
            assert self.blocks is not None
            matrix = weight.detach().to(dtype)
            made = self.values[key] = weight._version, self.blocks.pack(matrix.t() if self.turned else matrix).contiguous()
        return made[1]


_known: dict[tuple, _Packed] = {}
_lock = threading.Lock()  # threads that call first together have seen one pattern, not one each


def _place(t: torch.Tensor) -> tuple:
    return t.untyped_storage()._cdata, t.storage_offset(), tuple(t.shape), t.stride()


def _remembered(source: torch.Tensor, turned: bool, anew: bool = False) -> _Packed:
    """Of this memory. A reference to a storage keeps its number from being given to another. anew: for a new graph, against which what its pattern
    was in earlier ones does not count."""
    key = (*_place(source), turned)
    with _lock:
        packed = _known.get(key)
        if packed is None or any(ref.expired() for ref in packed.refs):
            for other in [k for k, p in list(_known.items()) if any(ref.expired() for ref in p.refs)]:
                _known.pop(other, None)
            packed = _known[key] = _Packed(source, turned)
        if anew and packed.patterns >= TRIES:
            packed.patterns, packed.version = 0, -1
        packed.follow(source)
    return packed


def judged(weight: torch.Tensor, mask: torch.Tensor | None, turned: bool) -> tuple[Blocks | None, str]:
    """What pays says of a weight that can be remembered, remembered for its first use."""
    packed = _remembered(weight if mask is None else mask, turned, anew=True)
    return packed.blocks, packed.reason


def _packed(weight, mask, turned, dtype):
    """(blocks, values); None: the dense product."""
    if not can(weight) or (mask is not None and mask.is_inference()):
        return None
    packed = _remembered(weight if mask is None else mask, turned)
    return None if packed.blocks is None else (packed.blocks, packed.of(weight, dtype))


def _dense(weight, mask, dtype):
    weight = weight if mask is None else torch.where(mask, weight, 0)
    return weight.to(dtype)


# ---------------------------------------------------------------- the operators
def _linear(x, weight, mask, bias, turned):
    bias = None if bias is None else bias.to(x.dtype)
    found = _packed(weight, mask, turned, x.dtype)
    if found is None:
        dense = _dense(weight, mask, x.dtype)
        return dense_linear(x, dense.t() if turned else dense, bias)
    blocks, values = found
    return ops.linear_run(x, values, blocks.pos, blocks.crd, blocks.keep, None, bias, *blocks.sizes)


def _input(dy, weight, mask, turned):
    found = _packed(weight, mask, turned, dy.dtype)
    if found is None:
        dense = _dense(weight, mask, dy.dtype)
        return torch.matmul(dy, dense.t() if turned else dense)
    blocks, values = found
    return ops.linear_turned_run(dy, values, blocks.pos, blocks.crd, blocks.keep, None, *blocks.sizes)


def _weight(x, dy, mask, turned):
    x, dy = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    known = mask is not None and mask.device.type == "cpu" and not mask.is_inference()
    blocks = _remembered(mask, turned).blocks if known else None
    if blocks is None:
        dense = torch.matmul(x.t(), dy) if turned else torch.matmul(dy.t(), x)
        return dense if mask is None else torch.where(mask, dense, 0)
    a, c = dy.t().unsqueeze(0), x.t().unsqueeze(0)
    values = ops.sample_run(a, c, blocks.pos, blocks.crd, blocks.keep, None, *blocks.sizes, 1, 1.0).squeeze(0)
    dense = blocks.unpack(values)
    return dense.t().contiguous() if turned else dense


def _linear_like(x, weight, mask, bias, turned):
    rows, cols = reversed(weight.shape) if turned else weight.shape
    torch._check(x.shape[-1] == cols, lambda: f"linear_zeros: x is {tuple(x.shape)}; the weight takes {cols} features")
    return x.new_empty((*x.shape[:-1], rows))


def _input_like(dy, weight, mask, turned):
    return dy.new_empty((*dy.shape[:-1], weight.shape[0] if turned else weight.shape[1]))


def _weight_like(x, dy, mask, turned):
    return x.new_empty((x.shape[-1], dy.shape[-1]) if turned else (dy.shape[-1], x.shape[-1]))


def _save(ctx, inputs, output):
    x, weight, mask, bias, ctx.turned = inputs
    ctx.kinds = weight.dtype, None if bias is None else bias.dtype
    ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None, mask)


def _gradient(ctx, dy):
    x, weight, mask = ctx.saved_tensors
    want = ctx.needs_input_grad
    dx = linear_zeros_input(dy, weight, mask, ctx.turned) if want[0] else None
    dw = linear_zeros_weight(x, dy, mask, ctx.turned).to(ctx.kinds[0]) if want[1] else None
    db = dy.reshape(-1, dy.shape[-1]).sum(0).to(ctx.kinds[1]) if want[3] else None
    return dx, dw, None, db, None


def _autocast(x, weight, mask, bias, turned):
    """The weight stays as it is: what is packed of it has the lower type."""
    kind = torch.get_autocast_dtype("cpu")
    with torch.autocast("cpu", enabled=False):
        lower = x.is_floating_point() and x.dtype != torch.float64
        return linear_zeros(x.to(kind) if lower else x, weight, mask, bias, turned)


for _name, _run, _like in (
    ("linear_zeros", _linear, _linear_like),
    ("linear_zeros_input", _input, _input_like),
    ("linear_zeros_weight", _weight, _weight_like),
):
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"sparta::{_name}", _like, lib=_library)
_library.impl("linear_zeros", _autocast, "AutocastCPU")
torch.library.register_autograd("sparta::linear_zeros", _gradient, setup_context=_save, lib=_library)
