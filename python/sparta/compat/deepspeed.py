"""DeepSpeed's sparse attention.

from sparta.compat.deepspeed import BigBirdSparsityConfig, SparseSelfAttention
attention = SparseSelfAttention(sparsity_config=BigBirdSparsityConfig(num_heads=8, block=64))
context = attention(query, key, value, key_padding_mask=mask)         (batch, heads, tokens, features)
"""

from __future__ import annotations

from typing import Any

import torch

from .. import attention as layouts
from .torch_blocksparse import MatMul, Softmax

DenseSparsityConfig = layouts.Dense
FixedSparsityConfig = layouts.Fixed
VariableSparsityConfig = layouts.Variable
BigBirdSparsityConfig = layouts.BigBird
BSLongformerSparsityConfig = layouts.BSLongformer
LocalSlidingWindowSparsityConfig = layouts.LocalSlidingWindow
SparsityConfig = layouts.Layout
LENGTHS = 16  # numbers of tokens whose operators are kept: those made last


class SparseSelfAttention(torch.nn.Module):
    """Attention over the blocks that a config's make_layout(tokens) has. A class in place of a config is made with its num_heads, or where it has
    none with the heads of the first query. max_seq_length: a query of more tokens is refused; None: any number.

    >>> attention = SparseSelfAttention(sparsity_config=BigBirdSparsityConfig)
    >>> q = torch.rand(2, 4, 64, 8)
    >>> attention(q, q, q).shape
    torch.Size([2, 4, 64, 8])
    """

    def __init__(
        self, sparsity_config: Any = None, key_padding_mask_mode: str = "add", attn_mask_mode: str = "mul", max_seq_length: int | None = None
    ):
        super().__init__()
        self.sparsity_config = FixedSparsityConfig(num_heads=4) if sparsity_config is None else sparsity_config
        self.key_padding_mask_mode, self.attn_mask_mode, self.max_seq_length = key_padding_mask_mode, attn_mask_mode, max_seq_length
        self._ops: dict = {}

    def get_ops(self, heads: int, tokens: int):
        """The three operators for this number of tokens."""
        if isinstance(self.sparsity_config, type):
            said = hasattr(self.sparsity_config, "num_heads")
            self.sparsity_config = self.sparsity_config() if said else self.sparsity_config(num_heads=heads)
        config = self.sparsity_config
        ops = self._ops.get(tokens)
        if ops is None:
            layout = torch.as_tensor(config.make_layout(tokens))
            if layout.shape[0] != heads:
                raise ValueError(f"SparseSelfAttention: the config has {layout.shape[0]} heads, the query {heads}; make it with num_heads={heads}")
            shape = tokens, tokens
            ops = (
                MatMul(layout, config.block, "sdd", trans_b=True, shape=shape),
                Softmax(layout, config.block, shape=shape),
                MatMul(layout, config.block, "dsd", shape=shape),
            )
            for old in list(self._ops)[: len(self._ops) + 1 - LENGTHS]:
                self._ops.pop(old, None)
            self._ops[tokens] = ops
        return ops

    def forward(self, query, key, value, rpe=None, key_padding_mask=None, attn_mask=None):
        if query.dim() != 4 or query.shape != key.shape or key.shape != value.shape:
            raise ValueError(
                f"SparseSelfAttention: query, key and value must be alike, (batch, heads, tokens, features), not {tuple(query.shape)}, "
                f"{tuple(key.shape)}, {tuple(value.shape)}"
            )
        if self.max_seq_length is not None and query.shape[2] > self.max_seq_length:
            raise ValueError(f"SparseSelfAttention: {query.shape[2]} tokens, and max_seq_length is {self.max_seq_length}; give a larger one, or None")
        sdd, softmax, dsd = self.get_ops(query.shape[1], query.shape[2])
        shares = softmax(
            sdd(query, key),
            scale=query.shape[-1] ** -0.5,
            rpe=rpe,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            key_padding_mask_mode=self.key_padding_mask_mode,
            attn_mask_mode=self.attn_mask_mode,
        )
        return dsd(shares, value)
