"""SparseEmbedding: a table with a sparse weight."""

from typing import Any

import torch
from torch.nn.functional import embedding

from ._mask import choose_blocks
from ._weight import SparseWeight


class SparseEmbedding(SparseWeight):
    """A table whose entries exist only where the mask says; the others are 0 and get no gradient.

    >>> import torch, sparta
    >>> table = sparta.nn.SparseEmbedding(torch.nn.Embedding(100, 8), pattern="1x1:0.5")
    >>> torch.equal(table(torch.tensor([3, 99])), table.weight[[3, 99]])
    True

    The table is held dense: a lookup reads whole rows, and zeros save it nothing. The mask is applied to the rows that are read.
    """

    padding_idx: int | None
    scale_grad_by_freq: bool

    def __init__(self, raw_module: torch.nn.Embedding, weight_mask: Any = None, *, pattern: str | None = None, format: Any = None) -> None:
        super().__init__()
        if not isinstance(raw_module, torch.nn.Embedding):
            raise TypeError(f"SparseEmbedding: raw_module is a {type(raw_module).__name__}; give a torch.nn.Embedding")
        if raw_module.sparse or raw_module.max_norm is not None:
            raise ValueError("SparseEmbedding: neither sparse=True (gradients in COO) nor max_norm is there; give an Embedding without")
        for name in ("num_embeddings", "embedding_dim", "padding_idx", "scale_grad_by_freq"):
            setattr(self, name, getattr(raw_module, name))
        self._take_weight(raw_module, weight_mask, pattern, format)
        self.bias = None
        self.training = raw_module.training

    def _choose(self, mask):
        return choose_blocks(mask, self._asked or tuple(mask.shape))[0], "dense: a lookup reads whole rows, zeros save it nothing"

    def configs(self) -> list[dict]:
        return [{"block": "dense"}]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not isinstance(input, torch.Tensor) or input.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"SparseEmbedding: the input is {getattr(input, 'dtype', type(input).__name__)}; give indices as int32 or int64")
        if self._packed:  # blocks were asked for, or nothing is left
            return embedding(input, self.weight, self.padding_idx, None, 2.0, self.scale_grad_by_freq)
        out = embedding(input, self.values[0], self.padding_idx, None, 2.0, self.scale_grad_by_freq)
        return out if self.keep is None else torch.where(self.keep[0][input], out, 0)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self.reason}"
