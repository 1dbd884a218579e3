"""The training form: nn.Linear, nn.Conv2d and nn.Embedding whose pruned weights are 0 and stay it.

    mask_(layer, mask)        layer becomes a MaskedLinear, in place: the same Parameters under the same names, and a buffer weight_mask
    layer.update_mask(mask)   another mask; what trained and optimizers know stays, elements that come back begin at 0
    unmask_(layer)            an nn.Linear again, with zeros in its weight

Three things keep a pruned weight at 0, and none of them is in the user's loop:
- Forward in training multiplies by the masked weight, so the function and the gradient are right whatever an optimizer, a wrapper or a compiler does.
- After a step of any torch.optim optimizer the weights that it holds are set to 0 where they are pruned: momentum from before the mask moves them
  although their gradient is 0. So what is saved is what runs.
- Loading, eval() and update_mask do the same.
Outside of training the stored weight is used as it is: no slower than the module it was. So it is in training while a module is `open`: its gradient
is then that of every element, by which sparta.prune sees what should come back; it takes what is pruned out of the gradient before a step.

A MaskedLinear may train in blocks (train_in): its elements are picked out of the weight in every forward, the products and their gradients are
sparse, and the Parameter, its gradient and the optimizer know nothing of it.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook

from ._conv1d import read_layout
from ._masks import as_bool, check_mask
from ._torch import linear as sparse_linear

__all__ = ["Masked", "MaskedConv2d", "MaskedEmbedding", "MaskedLinear", "as_mask", "mask_", "unmask_"]

_ALIVE: weakref.WeakSet[Masked] = weakref.WeakSet()


def as_mask(mask: Any, shape: tuple[int, ...] | torch.Size, where: str, meta: bool = False) -> torch.Tensor:
    """A boolean of this shape of whatever says 0 where an element is gone; a ValueError or TypeError otherwise."""
    return check_mask(mask, where, shape, (len(shape),), meta=meta)


def local(x: Any) -> torch.Tensor:
    """What this process holds of a tensor that FSDP2 shards."""
    return x.to_local() if hasattr(x, "to_local") else x


def part_of(x: torch.Tensor, like: Any) -> torch.Tensor:
    """Of a whole tensor what lies beside local(like): each process cuts it for itself."""
    if not hasattr(like, "device_mesh"):
        return x
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(x, like.device_mesh, like.placements, src_data_rank=None).to_local()


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


# Gradients of is_grads_batched; a name of torch's own, which another version may not have.
_batched = getattr(getattr(torch._C, "_functorch", None), "is_legacy_batchedtensor", lambda x: False)


def _as_bits(x: torch.Tensor) -> torch.dtype | None:
    """The integers whose bits a float's are, on a CPU: times 0 they are 0.0 whatever they were, NaN too, and times 1 what they were. torch's where
    and masked_fill take 8 times as long there, as do products with booleans: they go element by element. So the mask becomes integers first. None:
    another device, or another kind of tensor, or one whose bits are not its values (many at once, or the negative of what is stored)."""
    plain = type(x) in (torch.Tensor, nn.Parameter) and x.device.type == "cpu" and x.is_floating_point()
    return _BITS.get(x.element_size()) if plain and not x.is_neg() and not _batched(x) else None


@torch.no_grad()
def keep_(x: torch.Tensor, stays: torch.Tensor) -> None:
    """0 where the mask is, in place."""
    bits = _as_bits(x)
    if bits is None:
        x.masked_fill_(~stays, 0)
    else:
        x.detach().view(bits).mul_(stays.to(bits))


class _Hide(torch.autograd.Function):
    """x where it stays, 0 elsewhere; the same for its gradient, and for that one's. owned: nobody else sees the gradient, so that it is changed where
    it lies."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, stays: torch.Tensor, owned: bool) -> torch.Tensor:
        ctx.save_for_backward(stays)
        ctx.save_for_forward(stays)
        ctx.owned = owned
        bits = _BITS[x.element_size()]
        return (x.view(bits) * stays.to(bits)).view(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (stays,) = ctx.saved_tensors
        # In place a tangent would be left as it is: forward-mode AD of the gradient takes the other way.
        if ctx.owned and not torch.is_grad_enabled() and _as_bits(grad) is not None and forward_ad._current_level < 0:
            keep_(grad, stays)
            return grad, None, None
        return hide(grad, stays), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: Any) -> torch.Tensor:
        (stays,) = ctx.saved_tensors
        return torch.where(stays, tangent, 0)


def hide(x: torch.Tensor, stays: torch.Tensor, owned: bool = False) -> torch.Tensor:
    """0 where the mask is; differentiable."""
    if torch.compiler.is_compiling() or _as_bits(x) is None or torch._C._are_functorch_transforms_active():
        return torch.where(stays, x, 0)
    return _Hide.apply(x, stays, owned)


class Masked(nn.Module):
    """What the masked modules share. They are made by mask_, not constructed."""

    weight: torch.Tensor
    weight_mask: torch.Tensor
    pattern: str | None = None  # as it was asked for; None: the mask was given
    reason: str = ""  # why it runs as it does, where build_ left it here
    open: bool = False  # the gradient of what is pruned is computed, too
    _reads_layouts = True

    def update_mask(self, mask: Any) -> None:
        """Another mask. The Parameter and the optimizer's state stay; elements that come back begin at 0."""
        mask = as_mask(mask, self.weight_mask.shape, type(self).__name__, self.weight_mask.is_meta)
        self.pattern = None
        self.__dict__.pop("measured", None)
        with torch.no_grad():
            self.weight_mask.copy_(mask)
        self.zero_pruned_()
        self._mask_changed()

    def _mask_changed(self) -> None:
        """For what is made of the mask."""

    def masked_weight(self) -> torch.Tensor:
        """The weight with 0 where it is pruned, also where it is Inf or NaN there; differentiable."""
        return hide(self.weight, self.weight_mask)

    @torch.no_grad()
    def zero_pruned_(self) -> None:
        keep_(local(self.weight), part_of(self.weight_mask, self.weight))

    def _hides(self) -> bool:
        """Must forward mask the weight, for the sake of its gradient?"""
        return self.training and not self.open and torch.is_grad_enabled()

    def density(self) -> float:
        return float(self.weight_mask.sum()) / max(self.weight_mask.numel(), 1)

    def train(self, mode: bool = True) -> Masked:
        if not mode:
            self.zero_pruned_()
        return super().train(mode)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, density={self.density():.3g}"

    def __setstate__(self, state) -> None:
        super().__setstate__(state)
        _ALIVE.add(self)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        """Its own form; a dense one, which gets the mask that is here; or a packed one, which brings its own."""
        read_layout(self, state_dict, prefix)
        _unpack_state(state_dict, prefix, tuple(self.weight.shape), errors)
        given = state_dict.setdefault(prefix + "weight_mask", self.weight_mask)
        try:
            if not isinstance(given, torch.Tensor):
                raise TypeError(f"{prefix}weight_mask is a {type(given).__name__}; a checkpoint's mask is a tensor")
            as_bool(given, prefix + "weight_mask")
        except (TypeError, ValueError) as error:
            errors.append(str(error))
            return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)
        if self.weight_mask.dtype != torch.bool:
            # load_state_dict(assign=True) took it as it was.
            self.weight_mask = self.weight_mask != 0
        if not self.weight.is_meta:
            self.zero_pruned_()
            self._mask_changed()


class _Pick(torch.autograd.Function):
    """Elements of a weight by their places, into slots; its gradient is 0 everywhere else."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weight, places, slots, count):
        picked = weight.reshape(-1)[places]
        return picked if slots is None else picked.new_zeros(count).index_copy(0, slots, picked)

    @staticmethod
    def setup_context(ctx, inputs, output):
        weight, places, slots, _ = inputs
        ctx.save_for_backward(places, slots)
        ctx.shape = weight.shape

    @staticmethod
    def backward(ctx, grad):
        places, slots = ctx.saved_tensors
        grad = grad if slots is None else grad[slots]
        return grad.new_zeros(ctx.shape.numel()).index_copy(0, places, grad).view(ctx.shape), None, None, None


class MaskedLinear(Masked, nn.Linear):
    _way: Any = None  # the pattern, and where in the weight its elements are; None: dense

    def train_in(self, block: tuple[int, int] | None) -> None:
        """In training, runs in blocks of this size; None: dense with the masked weight."""
        self._way = None
        if block is None or self.weight.device.type != "cpu":
            return
        from ._blocks import Blocks

        blocks = Blocks.from_mask(self.weight_mask, block)
        where = blocks.pack(torch.arange(1, self.weight_mask.numel() + 1).view(self.weight_mask.shape)).reshape(-1)
        slots = None if bool(where.all()) else where.nonzero()[:, 0]
        self._way = blocks, where[where > 0] - 1, slots, where.numel()

    def _mask_changed(self) -> None:
        if self._way is not None:
            self.train_in(self._way[0].block)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        if self.weight.device.type != "cpu":
            self._way = None
        return self

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self._hides():
            if self._way is not None:
                blocks, places, slots, count = self._way
                values = _Pick.apply(self.weight, places, slots, count).view(-1, *blocks.block)
                return sparse_linear(input, values, blocks, self.bias)
            return F.linear(input, hide(self.weight, self.weight_mask, True), self.bias)
        return F.linear(input, self.weight, self.bias)


class MaskedConv2d(Masked, nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight = hide(self.weight, self.weight_mask, True) if self._hides() else self.weight
        return self._conv_forward(input, weight, self.bias)


class MaskedEmbedding(Masked, nn.Embedding):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows = super().forward(input)
        if self._hides():
            # The rows are masked, not the table: cheaper, and sparse gradients stay sparse.
            return torch.where(F.embedding(input, self.weight_mask), rows, 0)
        return rows


# NonDynamicallyQuantizableLinear: nn.MultiheadAttention's output projection, which reads the weight itself.
CLASSES: dict[type, type[Masked]] = {
    nn.Linear: MaskedLinear,
    nn.modules.linear.NonDynamicallyQuantizableLinear: MaskedLinear,
    nn.Conv2d: MaskedConv2d,
    nn.Embedding: MaskedEmbedding,
}
_PLAIN: dict[type, type[nn.Module]] = {MaskedLinear: nn.Linear, MaskedConv2d: nn.Conv2d, MaskedEmbedding: nn.Embedding}


def mask_(module: Any, mask: Any, pattern: str | None = None, where: str | None = None) -> Masked:
    """Makes the module a masked one, or gives a masked one another mask. In place; returns it.

    >>> layer = nn.Linear(4, 2)
    >>> same = mask_(layer, torch.tensor([[1, 0, 0, 1], [0, 1, 1, 0]]))
    >>> same is layer, isinstance(layer, nn.Linear), list(layer.state_dict())
    (True, True, ['weight', 'bias', 'weight_mask'])
    """
    where = where or type(module).__name__
    if isinstance(module, Masked):
        module.update_mask(mask)
        module.pattern = pattern
        return module
    kind = CLASSES.get(type(module))
    if kind is None:
        raise TypeError(f"{where}: a {type(module).__name__} has no masked form; there is one of {', '.join(k.__name__ for k in _PLAIN.values())}")
    mask = as_mask(mask, module.weight.shape, where, module.weight.is_meta).to(module.weight.device, copy=True)
    module.register_buffer("weight_mask", mask)
    module.__class__ = kind
    module.pattern = pattern
    _ALIVE.add(module)
    module.zero_pruned_()
    return module


def unmask_(module: Any) -> nn.Module:
    """An ordinary module again, with zeros in its weight. In place; returns it."""
    module.zero_pruned_()
    del module.weight_mask
    for name in ("pattern", "reason", "open", "format", "measured", "_running", "_way"):
        module.__dict__.pop(name, None)
    _ALIVE.discard(module)
    module.__class__ = _PLAIN[type(module)]
    return module


def _unpack_state(state_dict, prefix: str, shape, errors) -> None:
    """weight and weight_mask in place of what a packed sparta.nn.SparseLinear saved."""
    if prefix + "values" not in state_dict or prefix + "weight" in state_dict:
        return
    from .nn._mask import check_blocks

    where, values = prefix + "values", state_dict[prefix + "values"]
    try:
        if not isinstance(values, torch.Tensor) or values.dim() != 3 or len(shape) != 2 or 0 in values.shape[1:]:
            raise ValueError(f"{where}: not the values of blocks (blocks, height, width); the checkpoint is damaged or of another module")
        pos, crd, keep = (state_dict.get(prefix + name) for name in ("pos", "crd", "keep"))
        blocks = check_blocks(where, pos, crd, keep, shape, tuple(values.shape[1:]), 1)
        if values.shape[0] != blocks.crd.numel():
            raise ValueError(f"{where}: {values.shape[0]} blocks of values and {blocks.crd.numel()} of crd; the checkpoint is damaged")
    except (ValueError, TypeError) as error:
        errors.append(str(error))
        return
    for name in ("values", "pos", "crd", "keep", "_extra_state"):
        state_dict.pop(prefix + name, None)
    state_dict[prefix + "weight"], state_dict[prefix + "weight_mask"] = blocks.unpack(values.detach()), blocks.mask()


def _after_step(optimizer, *_) -> None:
    if not _ALIVE:
        return
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for module in list(_ALIVE):
        if id(module.weight) in held:
            module.zero_pruned_()


register_optimizer_step_post_hook(_after_step)
