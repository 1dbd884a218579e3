"""SparseBatchMatMul: C = A B for batches of matrices, one of which is sparse."""

import math
from typing import Any

import torch

from ._mask import check_mask, choose_blocks
from ._products import multiply, repeat, sample
from .base import OperatorBase


class SparseBatchMatMul(OperatorBase):
    """C = A B, where A, B or C has elements only where its mask says.

    >>> import torch, sparta
    >>> mask = sparta.testing.block_mask((64, 64), block=(16, 16), sparsity=0.75)
    >>> product = sparta.nn.SparseBatchMatMul(C_mask=mask, transpose_B=True, compressed=False)
    >>> A, B = torch.rand(2, 64, 32), torch.rand(2, 64, 32)
    >>> torch.allclose(product(A, B), A @ B.transpose(1, 2) * mask, atol=1e-5)
    True

    A is (..., M, K), or (..., K, M) with transpose_A; B is (..., K, N), or (..., N, K) with transpose_B. The mask has the shape that its operand is
    stored with, and serves the whole batch; one of three dimensions has a pattern for each item, and is repeated where the batch is larger.
    compressed: the sparse operand (or the result) is values, as get_sparse_indexes().pack(dense) makes them; a dense operand is packed first.
    """

    def __init__(
        self,
        A_mask: Any = None,
        B_mask: Any = None,
        C_mask: Any = None,
        transpose_A: bool = False,
        transpose_B: bool = False,
        compressed: bool = True,
    ) -> None:
        super().__init__()
        given = {name: mask for name, mask in (("A", A_mask), ("B", B_mask), ("C", C_mask)) if mask is not None}
        if len(given) != 1:
            raise ValueError(f"SparseBatchMatMul: {' and '.join(given) or 'no'} mask given; give exactly one of A_mask, B_mask and C_mask")
        ((self.sparse, mask),) = given.items()
        self.transpose_A, self.transpose_B, self.compressed = bool(transpose_A), bool(transpose_B), bool(compressed)
        self.update_mask(mask)

    def update_mask(self, mask: Any) -> None:
        checked = check_mask(mask, f"SparseBatchMatMul: {self.sparse}_mask", dims=(2, 3), device=None if self.pos is None else self.pos.device)
        self._set_blocks(*choose_blocks(checked, self._asked))
        self.ready = False

    def forward(self, A: torch.Tensor, B: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """The bias, (N) or (batch, N), is added to each row; of a sparse C, where it has elements."""
        self._check(A, B, bias)
        if self.sparse == "C":
            return self._sampled(A.transpose(-1, -2) if self.transpose_A else A, B if self.transpose_B else B.transpose(-1, -2), bias)
        if self.sparse == "A":
            out = self._product(A, B.transpose(-1, -2) if self.transpose_B else B, self.transpose_A, "A", "B")
        else:  # of the transposed: C' = B' A'
            out = self._product(B, A if self.transpose_A else A.transpose(-1, -2), not self.transpose_B, "B", "A").transpose(-1, -2)
        if bias is None:
            return out
        self._check_bias(bias, out.shape[:-2], out.shape[-1])
        return out + (bias if bias.dim() == 1 else bias.unsqueeze(-2))

    def _check(self, A, B, bias):
        given = {"A": A, "B": B, **({} if bias is None else {"bias": bias})}
        for name, x in given.items():
            if not isinstance(x, torch.Tensor):
                raise TypeError(f"SparseBatchMatMul: {name} is a {type(x).__name__}; give a tensor")
            if x.dim() < (1 if name == "bias" else 2):
                raise ValueError(f"SparseBatchMatMul: {name} is {tuple(x.shape)}; give {'(N)' if name == 'bias' else 'a matrix, or a batch of them'}")
        if A.dtype != B.dtype and not torch.is_autocast_enabled(A.device.type):
            raise TypeError(f"SparseBatchMatMul: A is {A.dtype} and B {B.dtype}; convert one with .to()")

    @staticmethod
    def _check_bias(bias, lead, columns):
        fits = bias.shape[-1] == columns and bias.dim() - 1 <= len(lead) and all(b in (1, n) for b, n in zip(bias.shape[-2::-1], reversed(lead)))
        if not fits:
            raise ValueError(f"SparseBatchMatMul: the bias is {tuple(bias.shape)}; give {(columns,)} or {(*lead, columns)}")

    def _product(self, sparse, dense, turned, name, other):
        """`sparse` as it is stored, times `dense`."""
        lead, inner = dense.shape[:-2], self._blocks.shape[0 if turned else 1]
        if dense.dim() < 2 or dense.shape[-2] != inner:
            raise ValueError(
                f"SparseBatchMatMul: {other} has {tuple(dense.shape)} where the mask of {name} {self._blocks.shape} needs {inner} inside"
            )
        dense = dense.reshape(-1, *dense.shape[-2:]) if lead else dense
        blocks = self._of_batch(dense.shape[0] if lead else 1)
        out = multiply(self._values(sparse, blocks, lead, name), blocks, dense, turned)
        return out.reshape(*lead, *out.shape[-2:]) if lead else out

    def _of_batch(self, batch):
        patterns = self._blocks.patterns
        if batch % patterns:
            raise ValueError(f"SparseBatchMatMul: a batch of {batch} with {patterns} masks; the batch is a multiple of them, or one mask serves all")
        return repeat(self._blocks, batch)

    def _values(self, given, blocks, lead, name):
        """The values of the sparse operand, which may come as they are or dense."""
        packed = (blocks.crd.numel(), *blocks.block)
        batched = packed if blocks.patterns > 1 else (*lead, *packed)
        if self.compressed and tuple(given.shape) == tuple(batched):
            return given if blocks.patterns > 1 or len(lead) < 2 else given.reshape(-1, *packed)
        if tuple(given.shape) != (*lead, *blocks.shape):
            raise ValueError(
                f"SparseBatchMatMul: {name} is {tuple(given.shape)}; give {(*lead, *blocks.shape)}"
                + (f" or values {tuple(batched)}" if self.compressed else "")
            )
        return blocks.pack(given.reshape(-1, *blocks.shape) if lead else given)

    def _sampled(self, a, c, bias):
        """a c' where C has elements."""
        lead = a.shape[:-2]
        if (*a.shape[-2:-1], *c.shape[-2:-1]) != self._blocks.shape or a.shape[-1] != c.shape[-1] or c.shape[:-2] != lead:
            raise ValueError(
                f"SparseBatchMatMul: A is {tuple(a.shape)} and B {tuple(c.transpose(-1, -2).shape)}, as multiplied; the mask of C is "
                f"{self._blocks.shape}"
            )
        blocks = self._of_batch(math.prod(lead))
        flat = [x.reshape(-1, *x.shape[-2:]) if lead else x for x in (a, c)]
        values = sample(*flat, blocks)
        if bias is not None:
            self._check_bias(bias, lead, blocks.shape[1])
            full = bias.to(values.dtype).unsqueeze(-2).expand(*(lead if blocks.patterns > 1 or bias.dim() > 1 else ()), *blocks.shape)
            values = values + blocks.pack(full.reshape(-1, *blocks.shape) if full.dim() > 2 else full)
        if not self.compressed:
            return blocks.unpack(values).reshape(*lead, *blocks.shape)
        return values if blocks.patterns > 1 or len(lead) < 2 else values.reshape(*lead, *values.shape[-3:])

    def _trial(self, config, inputs):
        given = inputs["AB".index(self.sparse)] if self.sparse != "C" else None
        fixed = given is not None and tuple(given.shape[-2:]) != self._blocks.shape  # values given are of this pattern
        return None if fixed else super()._trial(config, inputs)

    def extra_repr(self) -> str:
        return f"{self.sparse} sparse, transpose_A={self.transpose_A}, transpose_B={self.transpose_B}, compressed={self.compressed}, {self.reason}"
