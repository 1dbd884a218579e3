"""Matrix-like weights of a torch model that stay dense whatever their zeros are, and why. The words are the library's (src/prune/left.c), here is
only which of them a module's Parameter gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrize import ParametrizationList

from . import _layers

_EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)
_RECURRENT = (nn.RNNBase, nn.RNNCellBase)


def tied(model: nn.Module) -> set[int]:
    """Ids of the weights that an embedding shares with another module."""
    held = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return held & set(_layers.shared(model))


def of_layer(module: Any, shared: set[int]) -> str | None:
    """Of a module that counts as a layer; None: it may run sparse."""
    if isinstance(module, _EMBEDDINGS):
        return "EMBEDDING"
    if isinstance(module, _ConvNd):
        return "CONVOLUTION"
    return "TIED" if id(module._parameters.get("weight")) in shared else None


def _kind(module: nn.Module, parameter: torch.Tensor) -> str:
    if isinstance(module, nn.MultiheadAttention):
        return "IN_PROJECTION"
    if isinstance(module, _RECURRENT):
        return "RECURRENT"
    if isinstance(module, ParametrizationList) or (hasattr(module, "weight") and _layers.made(module)):
        return "COMPUTED"
    if isinstance(module, _EMBEDDINGS):
        return "EMBEDDING"
    if isinstance(module, _ConvNd):
        return "CONVOLUTION"
    stacked = parameter.dim() >= 3 and parameter.numel() > parameter.shape[-1] * parameter.shape[-2]
    return "EXPERTS" if stacked else "OWN"


def parameters(module: nn.Module, seen: set[int]) -> Iterator[tuple[str, torch.Tensor, str]]:
    """The matrix-like Parameters of a module that is no layer, each once in a model: (name, Parameter, kind)."""
    for name, p in module.named_parameters(recurse=False):
        if p.is_floating_point() and sum(size > 1 for size in p.shape) >= 2 and id(p) not in seen:
            seen.add(id(p))
            yield name, p, _kind(module, p)
