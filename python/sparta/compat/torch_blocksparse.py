"""torch_blocksparse, and triton.ops.blocksparse, which took it over: products and softmax of matrices that are sparse by blocks.

layout   (heads, rows of blocks, columns of blocks), not 0 where a block is
sparse   (batch, blocks, block, block): the blocks in the order of layout.nonzero()
dense    (batch, heads, rows, columns)

sdd = MatMul(layout, block, "sdd", trans_b=True)         sparse = dense x dense
softmax = Softmax(layout, block)
dsd = MatMul(layout, block, "dsd")                       dense = sparse x dense
context = dsd(softmax(sdd(q, k), scale=0.125), v)
"""

from __future__ import annotations

import torch

from .. import _torch
from .._blocks import Blocks


class _Layout:
    def __init__(self, layout, block, where, shape=None, device=None, bench=False):
        if bench:
            raise ValueError(f"{where}: bench is not known; sparta.testing.profile times what you like")
        layout = torch.as_tensor(layout)
        if layout.dim() == 2:
            layout = layout[None]
        if layout.dim() != 3 or isinstance(block, bool) or not isinstance(block, int) or block < 1:
            raise ValueError(f"{where}: a layout is (heads, rows, columns) of blocks and block a number, not {tuple(layout.shape)} and {block!r}")
        self.layout, self.block, self.where = layout != 0, block, where
        self.heads, self.rows, self.cols = layout.shape
        self.shape = shape or (self.rows * block, self.cols * block)
        self.head, self.row, self.col = self.layout.nonzero().unbind(-1)
        self._made = {}
        self.device = None if device is None else torch.device(device)  # where its operands have to be; None: anywhere

    def blocks(self, batch, device):
        """The pattern of a batch: that of the heads, again and again."""
        if self.device is not None and (self.device.type != device.type or self.device.index not in (None, device.index)):
            raise ValueError(f"{self.where}: it was made for {self.device}, and its operands are on {device}")
        key = batch, device
        if key not in self._made:
            counts = self.layout.sum(-1).flatten().repeat(batch)
            pos = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(torch.int32)
            crd = self.col.to(torch.int32).repeat(batch)
            if len(self._made) >= 8:
                self._made.clear()
            self._made[key] = Blocks(pos.to(device), crd.to(device), None, self.shape, (self.block, self.block), batch * self.heads)
        return self._made[key]

    def flat_values(self, values):
        """(batch, blocks, block, block) as the blocks of all patterns; of a single pattern, which may have a batch, as it is."""
        if values.dim() != 4 or values.shape[1:] != (self.row.numel(), self.block, self.block):
            raise ValueError(
                f"{self.where}: the sparse operand is {tuple(values.shape)}, the layout asks for "
                f"(batch, {self.row.numel()}, {self.block}, {self.block})"
            )
        return values.flatten(0, 1)

    def flat(self, dense):
        if dense.dim() != 4 or dense.shape[1] != self.heads:
            raise ValueError(f"{self.where}: the dense operand is {tuple(dense.shape)}, the layout asks for (batch, {self.heads}, rows, columns)")
        return dense.flatten(0, 1)


class MatMul(_Layout):
    """One of three products: "sdd" sparse = dense x dense, "dsd" dense = sparse x dense, "dds" dense = dense x sparse; trans_a, trans_b turn one.

    >>> layout = torch.tensor([[[1, 0], [1, 1]]])
    >>> a, b = torch.rand(2, 1, 32, 8), torch.rand(2, 1, 8, 32)
    >>> MatMul(layout, 16, "sdd")(a, b).shape
    torch.Size([2, 3, 16, 16])
    """

    MODES = ("sdd", "dsd", "dds")

    def __init__(self, layout, block: int, mode: str, trans_a: bool = False, trans_b: bool = False, device=None, bench: bool = False, *, shape=None):
        super().__init__(layout, block, f"MatMul {mode}", shape, device, bench)
        if mode not in self.MODES:
            raise ValueError(f"MatMul: mode {mode!r} is none of {', '.join(self.MODES)}")
        self.mode, self.trans_a, self.trans_b = mode, trans_a, trans_b

    def __call__(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        batch = a.shape[0]
        blocks = self.blocks(batch, a.device)
        if self.mode == "sdd":
            a, b = self.flat(a), self.flat(b)
            a, c = a.transpose(-1, -2) if self.trans_a else a, b if self.trans_b else b.transpose(-1, -2)
            self._same(a.shape[-2:], c.shape[-2:])
            a, c = _as_patterns(blocks, a, c)
            values = _torch.sample(a, c, blocks)
            return values.reshape(batch, -1, self.block, self.block)
        if self.mode == "dsd":
            x = self.flat(b)
            x = x.transpose(-1, -2) if self.trans_b else x
            return self._product(self.flat_values(a), blocks, x, self.trans_a).unflatten(0, (batch, self.heads))
        x = self.flat(a)
        x = x if self.trans_a else x.transpose(-1, -2)
        out = self._product(self.flat_values(b), blocks, x, not self.trans_b)
        return out.transpose(-1, -2).unflatten(0, (batch, self.heads))

    def _same(self, a, c):
        if (a[0], c[0]) != tuple(self.shape) or a[1] != c[1]:
            raise ValueError(f"{self.where}: operands of {tuple(a)} and {tuple(c)[::-1]} do not make {tuple(self.shape)}, which the layout asks for")

    def _product(self, values, blocks, x, turned):
        if x.shape[-2] != self.shape[0 if turned else 1]:
            raise ValueError(
                f"{self.where}: the dense operand has {x.shape[-2]} rows for the product, the layout asks for {self.shape[0 if turned else 1]}"
            )
        (x,) = _as_patterns(blocks, x)
        return _torch.multiply(values, blocks, x, turned).reshape(-1, self.shape[1 if turned else 0], x.shape[-1])


def _as_patterns(blocks, *dense):
    """A single pattern has no batch."""
    return tuple(x[0] if blocks.patterns == 1 else x for x in dense)


class Softmax(_Layout):
    """Of each row, over the blocks that are there. Masks of the mode "add" are added to the scores, those of "mul" say 0 where nothing is seen;
    a row that sees nothing is 0."""

    def __init__(self, layout, block: int, device=None, bench: bool = False, *, shape=None):
        super().__init__(layout, block, "Softmax", shape, device, bench)

    def __call__(self, x, scale=1.0, rpe=None, key_padding_mask=None, attn_mask=None, key_padding_mask_mode="add", attn_mask_mode="mul"):
        values = self.flat_values(x).unflatten(0, (x.shape[0], -1)) * scale
        gone = torch.zeros((), dtype=torch.bool, device=x.device)
        for given, mode, place in (
            (rpe, "add", self._everywhere),
            (key_padding_mask, key_padding_mask_mode, self._keys),
            (attn_mask, attn_mask_mode, self._everywhere),
        ):
            if given is None:
                continue
            if mode not in ("add", "mul"):
                raise ValueError(f"Softmax: mask mode {mode!r} is neither 'add' nor 'mul'")
            given = place(given)
            gone = gone | ((given == 0) if mode == "mul" or given.dtype == torch.bool else given == float("-inf"))
            if mode == "add" and given.dtype != torch.bool:
                values = values + given.to(values.dtype)
        masked = bool(gone.any())
        if masked:
            # Exactly 0 after the softmax, and no NaN where a row has nothing left.
            gone = gone.expand(values.shape)
            values = values.masked_fill(gone, torch.finfo(values.dtype).min / 4)
        blocks = self.blocks(x.shape[0], x.device)
        shares = _torch.softmax(values.flatten(0, 1), blocks).reshape(values.shape)
        return shares.masked_fill(gone, 0) if masked else shares

    def _keys(self, mask):
        """(batch, columns) for each block, every row of it."""
        pad = torch.nn.functional.pad(mask, (0, self.cols * self.block - mask.shape[-1]))
        return pad.unflatten(-1, (self.cols, self.block))[:, self.col.to(mask.device), None, :]

    def _everywhere(self, mask):
        """(rows, columns), (heads, rows, columns) or (batch, heads, rows, columns) for each block."""
        down, right = self.rows * self.block - mask.shape[-2], self.cols * self.block - mask.shape[-1]
        mask = torch.nn.functional.pad(mask, (0, right, 0, down))
        tiles = mask.unflatten(-1, (self.cols, self.block)).unflatten(-3, (self.rows, self.block)).transpose(-2, -3)
        row, col, head = (i.to(mask.device) for i in (self.row, self.col, self.head))
        return tiles[row, col] if mask.dim() == 2 else tiles[..., head if mask.shape[-3] > 1 else torch.zeros_like(head), row, col, :, :]


matmul, softmax = MatMul, Softmax
