"""xFormers: attention over a block-sparse layout, and over a mask.

from sparta.compat.xformers import BlockSparseAttention, scaled_dot_product_attention
attention = BlockSparseAttention(layout, block_size=16, dropout=0.1, num_heads=8)
y = attention(q, k, v)                                            (batch, heads, tokens, features)
y = scaled_dot_product_attention(q=q, k=k, v=v, att_mask=mask)    mask True where a key is seen
"""

from __future__ import annotations

import torch

from .. import _torch
from .._blocks import Blocks
from .torch_blocksparse import MatMul, Softmax


class BlockSparseAttention(torch.nn.Module):
    """>>> attention = BlockSparseAttention(torch.ones(2, 4, 4).tril(), block_size=16, num_heads=2)
    >>> q = torch.rand(3, 2, 64, 8)
    >>> attention(q, q, q).shape
    torch.Size([3, 2, 64, 8])
    """

    def __init__(self, layout: torch.Tensor, block_size: int = 16, dropout: float = 0.0, num_heads: int | None = None, causal: bool = False):
        super().__init__()
        layout = layout if layout.dim() == 3 else layout[None].expand(num_heads or 1, -1, -1)
        if num_heads is not None and layout.shape[0] != num_heads:
            raise ValueError(f"BlockSparseAttention: the layout has {layout.shape[0]} heads, not {num_heads}")
        self.num_heads, self.block_size, self.causal = layout.shape[0], block_size, causal
        self.attn_drop = torch.nn.Dropout(dropout)
        self.sparse_dot_sdd = MatMul(layout, block_size, "sdd", trans_b=True)
        self.sparse_dot_dsd = MatMul(layout, block_size, "dsd")
        self.sparse_softmax = Softmax(layout, block_size)

    def forward(self, q, k, v, att_mask=None, scale=None):
        flat = q.dim() == 3
        if flat:
            q, k, v = (x.unflatten(0, (-1, self.num_heads)) for x in (q, k, v))
        scores = self.sparse_dot_sdd(q, k)
        if self.causal:
            later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
            att_mask = (
                later if att_mask is None else att_mask & later if att_mask.dtype == torch.bool else att_mask.masked_fill(~later, float("-inf"))
            )
        mode = "mul" if att_mask is not None and att_mask.dtype == torch.bool else "add"
        shares = self.sparse_softmax(scores, scale=q.shape[-1] ** -0.5 if scale is None else scale, attn_mask=att_mask, attn_mask_mode=mode)
        out = self.sparse_dot_dsd(self.attn_drop(shares), v)
        return out.flatten(0, 1) if flat else out


def scaled_dot_product_attention(q, k, v, att_mask=None, dropout=None, block_size=None):
    """Over a mask, (tokens, keys) or one for each of the batch: boolean, True where a key is seen, or added to the scores. Blocks that fit the
    mask are found; without a mask torch's own runs."""
    if att_mask is None:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=_share(dropout))
    lead = q.shape[:-2]
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    added = None if att_mask.dtype == torch.bool else att_mask
    seen = att_mask if added is None else att_mask > float("-inf")
    if seen.dim() > 2:
        seen = seen.expand(*lead, *seen.shape[-2:]).reshape(-1, *seen.shape[-2:])
        seen = seen[0] if seen.shape[0] == 1 else seen
    blocks = Blocks.from_mask(seen, (block_size, block_size) if block_size else None)
    scores = (
        _torch.sample(q, k, blocks, q.shape[-1] ** -0.5)
        if blocks.patterns > 1 or q.shape[0] > 1
        else _torch.sample(q[0], k[0], blocks, q.shape[-1] ** -0.5)
    )
    if added is not None:
        added = added.clamp_min(torch.finfo(added.dtype).min / 4).to(q.dtype)
        added = added if added.dim() == 2 and blocks.patterns == 1 else added.expand(*lead, *added.shape[-2:]).reshape(-1, *added.shape[-2:])
        scores = scores + blocks.pack(added if added.dim() == 2 or added.shape[0] > 1 else added[0])
    shares = _torch.softmax(scores, blocks)
    if dropout is not None:
        shares = dropout(shares) if callable(dropout) else torch.nn.functional.dropout(shares, dropout)
    out = _torch.multiply(shares, blocks, v if shares.dim() == 4 or blocks.patterns > 1 else v[0])
    return out.reshape(*lead, *out.shape[-2:])


def _share(dropout):
    return (dropout.p if dropout.training else 0.0) if isinstance(dropout, torch.nn.Dropout) else dropout or 0.0
