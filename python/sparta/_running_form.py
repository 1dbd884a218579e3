"""The running form of what a schedule says of weights: the configuration that tuning.build then applies, and what came of it."""

from __future__ import annotations

from typing import Any

import torch

from . import _layers, tuning
from ._format_linear import Operator

KERNELS = "only csr, strip(n) and bsr(h,w) have kernels with them"


def layer_of(plan) -> str:
    """The name of the module that holds the weight."""
    return plan.target.name.rpartition(".")[0]


def stays(model, plan) -> str:
    """Why a weight stays in a dense module with a mask; "": it does not."""
    module, format = plan.target.modules[0], plan.said.get("format")
    if not isinstance(module, torch.nn.Linear):
        return f"a {type(module).__name__} runs dense with the pruned elements at 0"
    if module is model:
        return "the model is this one layer, which cannot be replaced in place"
    if len(plan.target.modules) > 1:
        return "the weight is tied to another module's, which needs it dense"
    return f"format {format} stores all elements" if plan.block == "dense" else tuning.held(model, layer_of(plan), module)


def operators(plans) -> None:
    """Those that run a weight in a format without kernels of blocks. What the library refuses it refuses here, with nothing changed."""
    for plan in plans:
        if not plan.stays and plan.block is None and "format" in plan.said:
            module = plan.target.modules[0]
            plan.operator = Operator(torch.where(plan.mask, _layers.weight_of(module), 0), module.bias, plan.said["format"])


def configuration(model, plans, example_inputs) -> dict[str, Any]:
    """Blocks where the schedule says them, the fastest way where it says no format. The weights are masked by now."""
    config: dict[str, Any] = {}
    free = {layer_of(plan) for plan in plans if not plan.stays and "format" not in plan.said}
    if free:
        config.update(tuning.tune(model, example_inputs, _most=2, _only=free))
    for plan in plans:
        if not plan.stays and plan.block is not None:
            why = f"format {plan.said['format']}, as the schedule says; not timed"
            config[layer_of(plan)] = {"block": list(plan.block), "us": None, "dense_us": None, "reason": why}
    return config


def built(plan) -> dict[str, str]:
    """What runs a weight after tuning.build, and why."""
    module = plan.target.modules[0]
    if plan.stays:
        return {"runs": "dense", "reason": plan.stays}
    if plan.operator is not None:
        return {"runs": "C operator", "reason": f"{plan.operator.reason}; with gradients dense, {KERNELS}"}
    reason = module.__dict__.get("measured", {}).get("reason", "density 1.00: there are no zeros to skip")
    if not _layers.is_packed(module):
        return {"runs": "dense", "reason": reason}
    height, width = module.get_sparse_indexes().block
    whole = (height, width) == tuple(module.get_sparse_indexes().shape)
    return {"runs": "SparseLinear, " + ("dense" if whole else f"blocks {height}x{width}"), "reason": reason}
