"""SparseSoftmax: along the last dimension, over the elements of a mask."""

import math
from typing import Any

import torch

from ._mask import check_mask, choose_blocks
from ._products import repeat, softmax
from .base import OperatorBase


class SparseSoftmax(OperatorBase):
    """Softmax of x / temperature over the elements that the mask has; the others, and rows without any, are 0.

    >>> import torch, sparta
    >>> softmax = sparta.nn.SparseSoftmax(torch.tensor([[1, 1, 0], [0, 0, 0]]))
    >>> softmax(torch.zeros(2, 3)).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]

    A mask (rows, cols) serves a whole batch; (patterns, rows, cols) has one for each item, repeated where the batch is larger.
    compressed: values in and out, as get_sparse_indexes().pack(dense) makes them.
    """

    def __init__(self, mask: Any, temperature: float = 1, compressed: bool = False) -> None:
        super().__init__()
        self.compressed = bool(compressed)
        self.set_temperature(temperature)
        self.update_mask(mask)

    def set_temperature(self, temperature: float) -> None:
        temperature = float(temperature)
        if not (math.isfinite(temperature) and temperature > 0):
            raise ValueError(f"SparseSoftmax: temperature {temperature}; give a positive number")
        self.temperature = temperature

    def update_mask(self, mask: Any) -> None:
        checked = check_mask(mask, "SparseSoftmax: mask", dims=(2, 3), device=None if self.pos is None else self.pos.device)
        self._set_blocks(*choose_blocks(checked, self._asked))
        self.ready = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            raise TypeError(f"SparseSoftmax: the input is {getattr(x, 'dtype', type(x).__name__)}; give a tensor of floating-point numbers")
        blocks = self._blocks
        values = (blocks.crd.numel(), *blocks.block)
        if self.compressed and tuple(x.shape[-3:]) == values and (x.dim() == 3 or blocks.patterns == 1):
            flat = x.reshape(-1, *values) if x.dim() > 4 else x
            return softmax(flat, blocks, 1 / self.temperature).reshape(x.shape)
        if self.compressed or tuple(x.shape[-2:]) != blocks.shape:
            wanted = f"values {values}" if self.compressed else f"{blocks.shape}"
            raise ValueError(f"SparseSoftmax: the input is {tuple(x.shape)}; give {wanted}, with any dims before")
        batch = math.prod(x.shape[:-2])
        if batch % blocks.patterns:
            raise ValueError(
                f"SparseSoftmax: a batch of {batch} with {blocks.patterns} masks; the batch is a multiple of them, or one mask serves all"
            )
        blocks = repeat(blocks, batch)
        flat = x.reshape(-1, *blocks.shape) if x.dim() > 2 else x
        return blocks.unpack(softmax(blocks.pack(flat), blocks, 1 / self.temperature)).reshape(x.shape)

    def _trial(self, config, inputs):
        return None if self.compressed else super()._trial(config, inputs)  # values given are of this pattern

    def extra_repr(self) -> str:
        return f"{self._blocks.shape}, temperature={self.temperature}, compressed={self.compressed}, {self.reason}"
