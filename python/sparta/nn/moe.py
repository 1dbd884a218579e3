"""DynamicSparseMoE: each token through the experts that a router chose for it."""

from collections.abc import Sequence
from typing import Any

import torch

from .base import OperatorBase, need_no_way


class DynamicSparseMoE(OperatorBase):
    """The sum over a token's experts of gate * expert(token).

    >>> import torch, sparta
    >>> moe = sparta.nn.DynamicSparseMoE([torch.nn.Linear(8, 4) for _ in range(3)])
    >>> gates, ids = torch.rand(10, 3).topk(2)
    >>> moe(torch.rand(10, 8), ids, gates).shape
    torch.Size([10, 4])

    exp_modules: linear layers, or any modules (n, in) -> (n, out), which become children of this one. exp_ids are (tokens) or (tokens, k), gates
    likewise (1 unless given). Any number of tokens, in any leading dims; gradients of tokens, gates and experts.
    """

    reason = "tokens gathered by expert, one dense product for each expert that has any"

    def __init__(self, exp_modules: Sequence[torch.nn.Module]) -> None:
        super().__init__()
        if not len(exp_modules) or not all(isinstance(one, torch.nn.Module) for one in exp_modules):
            raise TypeError("DynamicSparseMoE: give a list of at least one module")
        shapes = {(one.in_features, one.out_features) for one in exp_modules if hasattr(one, "in_features")}
        if len(shapes) > 1:
            raise ValueError(f"DynamicSparseMoE: experts of different shapes (in, out): {sorted(shapes)}")
        self.experts = torch.nn.ModuleList(exp_modules)

    def update_mask(self, mask: Any) -> None:
        raise ValueError("DynamicSparseMoE: its sparsity is exp_ids, given with each call")

    def build(self, config: dict | None = None, sample_inputs: Any = None) -> None:
        need_no_way(self, config)
        self.ready = True

    def tune(self, inputs: Any = None, sample_inputs: Any = None, backward: bool = False, seconds: float = 0.2) -> dict:
        self.ready = True
        return {}

    def forward(self, tokens: torch.Tensor, exp_ids: torch.Tensor, gates: torch.Tensor | None = None) -> torch.Tensor:
        for name, given in (("tokens", tokens), ("exp_ids", exp_ids), ("gates", gates)):
            if not isinstance(given, torch.Tensor) and not (name == "gates" and given is None):
                raise TypeError(f"DynamicSparseMoE: {name} is a {type(given).__name__}; give a tensor")
        features = getattr(self.experts[0], "in_features", None)
        if tokens.dim() == 0 or features not in (None, tokens.shape[-1]):
            raise ValueError(
                f"DynamicSparseMoE: tokens are {tuple(tokens.shape)}; the last dimension has to be {features or 'that of their features'}"
            )
        lead = tokens.shape[:-1]
        whole = not exp_ids.dtype.is_floating_point and exp_ids.dtype != torch.bool
        if not whole or exp_ids.shape[: len(lead)] != lead or exp_ids.dim() - len(lead) not in (0, 1):
            raise ValueError(
                f"DynamicSparseMoE: exp_ids {tuple(exp_ids.shape)} of {exp_ids.dtype} for tokens {tuple(tokens.shape)}; "
                f"give whole numbers {tuple(lead)} or {(*lead, 'k')}"
            )
        if gates is not None and gates.shape != exp_ids.shape:
            raise ValueError(f"DynamicSparseMoE: gates {tuple(gates.shape)} for exp_ids {tuple(exp_ids.shape)}; give one for each")
        x = tokens.reshape(-1, tokens.shape[-1])
        k = exp_ids.shape[-1] if exp_ids.dim() > len(lead) else 1
        ids = exp_ids.reshape(-1).long()
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= len(self.experts)):
            raise ValueError(
                f"DynamicSparseMoE: exp_ids from {int(ids.min())} to {int(ids.max())}; there are {len(self.experts)} experts, counted from 0"
            )
        order = ids.argsort(stable=True)
        counts = torch.bincount(ids, minlength=len(self.experts)).tolist()
        rows = order // k
        parts = [expert(part) for expert, part in zip(self.experts, x[rows].split(counts)) if part.shape[0]]
        out = torch.cat(parts) if parts else self.experts[0](x[:0])
        if gates is not None:
            out = out * gates.reshape(-1)[order].unsqueeze(-1).to(out.dtype)
        return out.new_zeros(x.shape[0], out.shape[-1]).index_add(0, rows, out).reshape(*lead, out.shape[-1])
