"""Distillation: the pruned model also learns to answer as the dense one did.

    loss = (1 - alpha) loss + alpha T^2 KL(dense || pruned)        of logits over T

A hook on the model runs the dense one on the same inputs in training. Where the output carries its own loss (transformers), that is replaced, and no
loop changes; elsewhere `loss = pruner.distill(loss, output)` is the one line.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from .config import Config

__all__ = ["Distiller"]


def _logits(output: Any) -> torch.Tensor:
    logits = getattr(output, "logits", output)
    if isinstance(logits, (tuple, list)):
        logits = next((x for x in logits if isinstance(x, torch.Tensor) and x.dim() >= 2), None)
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"prune: distillation needs logits: a tensor, or an output that has .logits, not {type(output).__name__}")
    return logits


class Distiller:
    def __init__(self, model: nn.Module, config: Config, teacher: nn.Module | None):
        self._own = teacher is None
        if teacher is None:
            if any(hasattr(p, "device_mesh") for p in model.parameters()):
                raise ValueError("prune: distillation: a sharded model cannot be copied; give the dense one as teacher")
            teacher = copy.deepcopy(model)
        self.alpha, self.temperature = config.distill, config.temperature
        self.teacher = teacher.eval().requires_grad_(False)
        self.answer: torch.Tensor | None = None
        self._handle = model.register_forward_hook(self._see, with_kwargs=True)

    def _see(self, model, args, kwargs, output):
        if not model.training or not torch.is_grad_enabled():
            return None
        if self._own:
            self._follow(model)
        with torch.no_grad():
            self.answer = _logits(self.teacher(*args, **kwargs)).detach()
        if isinstance(getattr(output, "loss", None), torch.Tensor):
            output.loss = self.mixed(output.loss, output)
        return None

    def _follow(self, model: nn.Module) -> None:
        """The copy is where the model is, and of its dtype: the model may have been moved since."""
        now = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        for name, mine in (*self.teacher.named_parameters(), *self.teacher.named_buffers()):
            like = now.get(name)
            if like is not None and (like.device != mine.device or like.dtype != mine.dtype):
                mine.data = mine.data.to(like.device, like.dtype)

    def mixed(self, loss: torch.Tensor, output: Any) -> torch.Tensor:
        mine = _logits(output)
        if self.answer is None or self.answer.shape != mine.shape:
            raise ValueError("prune: distillation: the dense model has not seen this batch; call the model in training mode, then distill")
        t = self.temperature
        wide = mine.float().flatten(0, -2)
        dense = self.answer.float().flatten(0, -2)
        kl = F.kl_div(F.log_softmax(wide / t, -1), F.log_softmax(dense / t, -1), log_target=True, reduction="batchmean")
        return (1 - self.alpha) * loss + self.alpha * t * t * kl

    def remove(self) -> None:
        self._handle.remove()
        self.answer = None
