"""apex ASP: 2:4 sparsity of a trained model, kept while it is trained on.

    from sparta.compat.apex import ASP
    ASP.prune_trained_model(model, optimizer)            # channels permuted, masks by magnitude, pruned weights stay 0 through every step

or step by step: init_model_for_pruning, init_optimizer_for_pruning, compute_sparse_masks, restore_pruned_weights. Several models may be pruned one
after the other. Masks are sparta.masked's, so that the model can be saved, built (sparta.build_) and compiled like any other.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import torch
from torch import nn

from .. import patterns
from ..masked import CLASSES, Masked, mask_, unmask_
from .channels import permute_channels_


class ASP:
    """One model at a time, as in apex; init_model_for_pruning takes the next."""

    _model: Any = None
    _layers: ClassVar[dict] = {}
    _dense: ClassVar[dict | None] = {}
    _mask: Any = None
    _permute = True
    _verbosity = 0
    _optimizers: tuple = ()
    permuted: ClassVar[dict] = {}

    @classmethod
    def init_model_for_pruning(
        cls,
        model: nn.Module,
        mask_calculator: Any = "m4n2_1d",
        verbosity: int = 0,
        whitelist: Any = (nn.Linear, nn.Conv2d),
        allowed_layer_names: Any = None,
        disallowed_layer_names: Any = (),
        allow_recompute_mask: bool = False,
        custom_layer_dict: Any = None,
        allow_permutation: bool = True,
    ) -> None:
        """mask_calculator: m4n2_1d (2 of 4), mMnN_1d (N of M), or a function that gives the mask of a weight. verbosity: from 2 on a line is printed
        for each layer that gets a mask."""
        if custom_layer_dict:
            raise ValueError("ASP: custom_layer_dict is not known; layers of torch.nn.Linear and Conv2d are pruned")
        mask = mask_calculator if callable(mask_calculator) else _calculator(mask_calculator)
        modules: dict[str, Any] = dict(model.named_modules())
        for name in [*(allowed_layer_names or ()), *disallowed_layer_names]:
            if name not in modules:
                raise ValueError(f"ASP: the model has no layer '{name}'")
        # As apex: a layer whose sizes its kernels do not take stays dense. Here: one that has no whole group.
        cls._layers = {
            name: m
            for name, m in modules.items()
            if _is_one(m, whitelist)
            and (type(m) in CLASSES or isinstance(m, Masked))
            and m.weight.shape[1] >= 4
            and m.weight.requires_grad
            and name not in disallowed_layer_names
            and (allowed_layer_names is None or name in allowed_layer_names)
        }
        cls._model, cls._mask, cls._permute, cls._verbosity = model, mask, allow_permutation, verbosity
        cls._dense = {} if allow_recompute_mask else None
        cls._optimizers, cls.permuted = (), {}

    @classmethod
    def init_optimizer_for_pruning(cls, optimizer: torch.optim.Optimizer) -> None:
        """What it remembers is permuted with the channels. Pruned weights stay 0 through every step anyway; that it has the model's is checked."""
        cls._ready()
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not any(id(m.weight) in held for m in cls._layers.values()):
            raise ValueError("ASP: the optimizer has none of the model's pruned weights; make it of model.parameters()")
        cls._optimizers = (*cls._optimizers, optimizer)

    @classmethod
    def compute_sparse_masks(cls) -> None:
        """Permutes channels where that keeps more, then masks."""
        cls._ready()
        for layer in cls._layers.values():
            if isinstance(layer, Masked) and cls._dense is None:
                raise ValueError("ASP: masks are there already; allow_recompute_mask=True keeps what is needed to make them again")
        if cls._dense:
            cls.restore_pruned_weights()
        if cls._permute:
            cls.permuted = permute_channels_(cls._model, cls._layers, cls._mask, cls._optimizers)
        masks = {name: cls._mask(layer.weight.detach()) for name, layer in cls._layers.items()}
        for name, layer in cls._layers.items():
            if cls._dense is not None:
                cls._dense[name] = layer.weight.detach().clone()
            mask_(layer, masks[name], where=name)
            if cls._verbosity >= 2:
                print(f"ASP: {name}: {tuple(layer.weight.shape)}, {float(masks[name].float().mean()):.0%} stays")

    @classmethod
    def restore_pruned_weights(cls) -> None:
        """Dense layers again, with the weights that masks took; what was trained since stays."""
        cls._ready()
        if cls._dense is None:
            raise ValueError("ASP: pruned weights were not kept; init_model_for_pruning(..., allow_recompute_mask=True) keeps them")
        with torch.no_grad():
            for name, layer in cls._layers.items():
                if isinstance(layer, Masked):
                    mask = layer.weight_mask
                    unmask_(layer)
                    layer.weight.copy_(torch.where(mask, layer.weight, cls._dense[name]))

    @classmethod
    def is_sparsity_enabled(cls) -> bool:
        cls._ready()
        return bool(cls._layers) and all(isinstance(m, Masked) for m in cls._layers.values())

    @classmethod
    def prune_trained_model(cls, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """2:4, with everything above."""
        cls.init_model_for_pruning(model)
        cls.init_optimizer_for_pruning(optimizer)
        cls.compute_sparse_masks()

    @classmethod
    def _ready(cls):
        if cls._model is None:
            raise ValueError("ASP: call init_model_for_pruning(model) first")


def _is_one(module: nn.Module, kinds) -> bool:
    return isinstance(module, tuple(kinds))


def _calculator(text):
    found = re.fullmatch(r"m(\d+)n(\d+)_1d", text)
    if not found or not 1 <= int(found[2]) <= int(found[1]):
        raise ValueError(f"ASP: mask calculator '{text}' is not known; m4n2_1d is, mMnN_1d, and any function of a weight")
    pattern = patterns.Pattern.parse(f"{found[2]}:{found[1]}")
    return pattern.mask
