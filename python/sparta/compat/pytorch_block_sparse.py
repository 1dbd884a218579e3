"""pytorch_block_sparse: linear layers of 32x32 blocks.

from sparta.compat.pytorch_block_sparse import BlockSparseLinear
fc = BlockSparseLinear(1024, 256, density=0.1)
"""

from __future__ import annotations

import re
from typing import Any

import torch

from .. import patterns
from ..nn import SparseLinear


class BlockSparseLinear(SparseLinear):
    """A linear layer that keeps this share of its blocks: at random, or those of `torch_nn_linear` with the largest mean magnitude.

    >>> fc = BlockSparseLinear(1024, 256, density=0.1)
    >>> fc(torch.rand(3, 1024)).shape
    torch.Size([3, 256])
    """

    BLOCK_SIZE = 32

    def __init__(
        self,
        in_features: int = 0,
        out_features: int = 0,
        bias: bool = True,
        density: float = 0.5,
        torch_nn_linear: torch.nn.Linear | None = None,
        verbose: bool = False,
        block_shape: tuple[int, int] | None = None,
    ):
        if not 0 <= density <= 1:
            raise ValueError(f"BlockSparseLinear: density {density} must be between 0 and 1")
        height, width = block_shape or (self.BLOCK_SIZE, self.BLOCK_SIZE)
        linear = torch_nn_linear if torch_nn_linear is not None else torch.nn.Linear(in_features, out_features, bias)
        rows, cols = linear.weight.shape
        if torch_nn_linear is not None:
            mask = patterns.mask(linear.weight, f"{height}x{width}:{1 - density:.9g}")
        else:
            grid = torch.zeros(-(-rows // height), -(-cols // width), dtype=torch.bool)
            grid.view(-1)[torch.randperm(grid.numel())[: int(density * grid.numel())]] = True
            mask = grid.repeat_interleave(height, 0).repeat_interleave(width, 1)[:rows, :cols]
            if linear.bias is not None:
                torch.nn.init.zeros_(linear.bias)
        super().__init__(linear, weight_mask=mask, format=(height, width))
        if verbose:
            print(f"BlockSparseLinear: {rows}x{cols} in blocks of {height}x{width}, density {self.get_sparse_indexes().density():.3f}")


class BlockSparseModelPatcher:
    """Replaces the linear layers whose names match a pattern.

    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
    >>> patcher = BlockSparseModelPatcher()
    >>> patcher.add_pattern("0", {"density": 0.5})
    >>> patcher.patch_model(model)
    >>> type(model[0]).__name__
    'BlockSparseLinear'
    """

    def __init__(self) -> None:
        self.patterns: list[tuple[str, dict[str, Any]]] = []

    def add_pattern(self, pattern: str, pattern_info: dict[str, Any]) -> None:
        """pattern_info: density, and block_shape where blocks are not 32x32."""
        unknown = sorted(set(pattern_info) - {"density", "block_shape"})
        if unknown or "density" not in pattern_info:
            said = "has no 'density', e.g. {'density': 0.5}" if not unknown else f"{unknown[0]!r} is not known; there are density and block_shape"
            raise ValueError(f"add_pattern: pattern_info {said}")
        self.patterns.append((pattern, pattern_info))

    def get_patchable_layers(self, model: torch.nn.Module) -> list[dict[str, Any]]:
        return [{"regexp": re.escape(name), "layer": m} for name, m in model.named_modules() if isinstance(m, torch.nn.Linear)]

    def patch_model(self, model: torch.nn.Module) -> None:
        found = {}
        for name, module in model.named_modules():
            info = next((info for pattern, info in self.patterns if re.match(pattern, name)), None)
            if info is not None and not isinstance(module, torch.nn.Linear):
                raise ValueError(f"patch_model: '{name}' is a {type(module).__name__}, not a linear layer; narrow the pattern")
            if info is not None:
                found[name] = BlockSparseLinear(torch_nn_linear=module, **info)
        if not found:
            raise ValueError(
                f"patch_model: no layer matches {', '.join(repr(pattern) for pattern, _ in self.patterns) or 'anything: add_pattern first'}"
            )
        for name, layer in found.items():
            model.set_submodule(name, layer)
