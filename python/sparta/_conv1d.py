"""transformers' Conv1D, the linear layer of GPT-2 and its relatives, whose weight lies as (in, out).

    turn_(model)     each is an nn.Linear from now on, in place: the same module and Parameters, the weight as (out, in)

Checkpoints stay Conv1D's: a state_dict has the weight, and the mask that sparta adds, as (in, out), and one of the original model loads. What an
optimizer has gathered by then (momentum) lies the other way round, so that it is made after the model is pruned.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

__all__ = ["is_conv1d", "keep_layout", "read_layout", "seen_as_linear", "turn_"]


def _class() -> Any:
    """transformers' class; None: nobody imported it, so that no model has one."""
    return getattr(sys.modules.get("transformers.pytorch_utils"), "Conv1D", None)


def is_conv1d(module: nn.Module) -> bool:
    return type(module) is _class() and isinstance(module._parameters.get("weight"), nn.Parameter)


def _turned(module: nn.Module, state: Any, prefix: str, *_: Any) -> None:
    """What a state_dict has of a module, the other way round."""
    for name in ("weight", "weight_mask"):
        x = state.get(prefix + name)
        if isinstance(x, torch.Tensor) and x.dim() == 2:  # what is not one is refused by whoever loads it
            state[prefix + name] = x.t().contiguous()


def _loading(module: nn.Module, state: Any, prefix: str, *_: Any) -> None:
    if not hasattr(module, "_reads_layouts"):
        _turned(module, state, prefix)


def read_layout(module: nn.Module, state: Any, prefix: str) -> None:
    """For forms that look at what is loaded (`_reads_layouts`) before torch calls its hooks."""
    if hasattr(module, "_sparta_conv1d"):
        _turned(module, state, prefix)


def keep_layout(module: nn.Module) -> None:
    """Checkpoints of this linear layer are a Conv1D's."""
    module._sparta_conv1d = True  # type: ignore[assignment]
    module.register_state_dict_post_hook(_turned)
    module.register_load_state_dict_pre_hook(_loading)


def seen_as_linear(module: Any) -> nn.Linear:
    """The same numbers as an nn.Linear, for looking at."""
    linear = nn.Linear(module.weight.shape[0], module.weight.shape[1], module.bias is not None, device="meta")
    linear.weight = nn.Parameter(module.weight.detach().t(), requires_grad=False)
    linear.bias = module.bias
    return linear


@torch.no_grad()
def turn_(model: nn.Module) -> nn.Module:
    """In place; returns the model."""
    turned: set[int] = set()
    found: list[Any] = [m for m in model.modules() if is_conv1d(m)]
    for module in found:
        weight = module.weight
        if id(weight) not in turned:  # two modules may share it
            weight.data, weight.grad = weight.data.t().contiguous(), None
            turned.add(id(weight))
        module.__class__ = nn.Linear
        module.out_features, module.in_features = weight.shape
        keep_layout(module)
    return model
