"""Values that move when their pattern changes: the Parameter stays the same object, and what an optimizer remembers of it moves along.

An optimizer is not known to a module. Those that remember anything are: they have stepped, or were given a state. What they remember moves at once,
so that a checkpoint fits whenever it is written.
"""

import functools
import weakref

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

_known: "weakref.WeakSet[Optimizer]" = weakref.WeakSet()


@torch._disable_dynamo  # it would be traced into a compiled step, and knows no weak sets
def _note(optimizer, args=None, kwargs=None):
    _known.add(optimizer)


def _noting(setstate):
    """load_state_dict and unpickling end here; torch has hooks of that for single optimizers only."""

    @functools.wraps(setstate)
    def call(self, state):
        setstate(self, state)
        _known.add(self)

    return call


register_optimizer_step_pre_hook(_note)
Optimizer.__setstate__ = _noting(Optimizer.__setstate__)  # type: ignore[method-assign]


def mover(old, new):
    """What makes values of one pattern values of another: elements of both are kept, new ones are 0."""
    if (old.shape, old.block, old.patterns) != (new.shape, new.block, new.patterns) or not old.crd.numel():
        return lambda tensor: new.pack(old.unpack(tensor))
    # Block by block. Where each block of the old pattern is, in a table of all places.
    table = torch.full((old.patterns * old.grid[0] * old.grid[1],), -1, device=old.crd.device)
    table[old.places()] = torch.arange(old.crd.numel(), device=old.crd.device)
    at = table[new.places()]
    there = (at >= 0)[:, None, None]
    at = at.clamp(min=0)
    for keep in (None if old.keep is None else old.keep[at], new.keep):
        there = there if keep is None else there & keep
    return lambda tensor: torch.where(there, tensor[at], 0)


def replace(parameter, values):
    """Gives a Parameter values of another shape, without a gradient."""
    parameter.grad = None
    # Autograd remembers the shape of a leaf while any graph of it lives, and forgets it only when the dtype changes: by way of another dtype.
    parameter.data = torch.empty(0, dtype=torch.float64 if values.dtype != torch.float64 else torch.float32, device=values.device)
    parameter.data = values


@torch.no_grad()
def repack(parameter, old, new, optimizer=None):
    """Changes the values of `parameter` from one pattern to another, in place, with its gradient and its optimizers' state."""
    if type(parameter.detach()) is not torch.Tensor:
        kind = type(parameter.detach()).__name__
        raise ValueError(f"update_mask: the values are a {kind}; change masks and build before values are shared among processes")
    if optimizer is not None and not _has(optimizer, parameter):
        raise ValueError("update_mask: this optimizer does not have the module's values; give the one that trains them, or none")
    move = mover(old, new)
    values = move(parameter.detach())
    grad = None if parameter.grad is None else move(parameter.grad)
    replace(parameter, values)
    parameter.grad = grad
    for one in {*_known, *([] if optimizer is None else [optimizer])}:
        if _has(one, parameter):
            _move_state(one.state.get(parameter, {}), (old.crd.numel(), *old.block), move)


def _has(optimizer, parameter):
    return any(p is parameter for group in optimizer.param_groups for p in group["params"])


def _move_state(state, shape, move):
    for name, tensor in state.items():
        if isinstance(tensor, torch.Tensor) and tensor.shape == shape:
            state[name] = move(tensor)
