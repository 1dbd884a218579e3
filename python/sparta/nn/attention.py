"""Attention over a sparse pattern: scores only where it has elements, their softmax, and the product with the values.

scores = sample(Q, K)   P = softmax(scores)   out = multiply(P, V)          _torch.py; gradients are made of the same three
"""

import math
from typing import Any

import torch
from torch.nn.functional import dropout, scaled_dot_product_attention

from .. import attention as layouts
from ._mask import block_of, check_mask, choose_blocks
from ._products import is_whole, multiply, sample, select, shorten, softmax, spread
from .base import OperatorBase, need_no_way


class SparseAttention(OperatorBase):
    """softmax(Q K' / sqrt(E)) V, over the elements of the mask. A query that may see nothing gets 0.

    >>> import torch, sparta
    >>> attention = sparta.nn.SparseAttention(sparta.attention.BigBird(block=16), causal=True)
    >>> q, k, v = torch.rand(3, 2, 4, 100, 32)
    >>> attention(q, k, v, key_lengths=torch.tensor([100, 60])).shape
    torch.Size([2, 4, 100, 32])

    mask            (queries, keys), or one for each head (heads, queries, keys), or (items, heads, queries, keys) where items or heads may be 1;
                    or a layout of sparta.attention, for any number of tokens
    causal          without the keys after a query (query i sees key j <= i)
    dropout         of the probabilities, while training
    scale           of the scores; 1 / sqrt(E) unless given

    Q, K and V are (items * heads, n, e) or (items, heads, n, e). key_lengths, (items), leaves out the keys from there on.
    """

    def __init__(self, mask: Any, *, causal: bool = False, dropout: float = 0.0, scale: float | None = None, format: Any = None) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"SparseAttention: dropout {dropout}; give a share from 0 to below 1")
        self.causal, self.dropout, self.scale = bool(causal), float(dropout), scale
        self._format = format
        self._layout: Any = None
        self.update_mask(mask)

    # ---------------------------------------------------------------- the pattern
    def update_mask(self, mask: Any) -> None:
        """Another mask, or another layout."""
        if isinstance(mask, layouts.Layout):
            self._layout, self._blocks = mask, None
            self.pos = self.crd = self.keep = None
            self._lead = (1, mask.num_layout_heads)
            self.reason = f"{type(mask).__name__} in blocks of {mask.block}; not timed"
        else:
            checked = check_mask(mask, "SparseAttention: mask", dims=(2, 3, 4), device=None if self.pos is None else self.pos.device)
            self._layout, self._asked = None, block_of(self._format, checked.shape[-2:])
            self._lead = (1,) * (4 - checked.dim()) + tuple(checked.shape[:-2])
            self._set_blocks(*self._chosen(checked, self._asked))
        self._forget()
        self.ready = False

    def _chosen(self, mask, block):
        mask = mask.reshape(-1, *mask.shape[-2:]) if mask.dim() > 2 else mask
        mask = mask[0] if mask.dim() == 3 and mask.shape[0] == 1 else mask
        return choose_blocks(mask.tril() if self.causal else mask, block)

    def _forget(self):
        # What was made for the shapes of a call, for the next of the same: replaced whole, so that several threads may call.
        self._made: Any = (None, None)
        self._spread: Any = (None, None, None)

    def _set_blocks(self, blocks, reason=None):
        super()._set_blocks(blocks, reason)
        self._forget()

    def _refresh(self):
        super()._refresh()
        self._forget()

    # ---------------------------------------------------------------- checkpoints: whose the masks are is saved behind the sizes
    _sizes = 7

    def get_extra_state(self) -> torch.Tensor:
        """With the leading dims of its masks."""
        return torch.cat([super().get_extra_state(), torch.tensor(self._lead)])

    def _pattern_of(self, state, prefix):
        if self._layout is not None and state.get(prefix + "pos") is not None:
            raise ValueError(f"{prefix}SparseAttention: the checkpoint has a mask; this module has a layout: update_mask(mask) before loading")
        blocks = super()._pattern_of(state, prefix)
        if blocks is not None:
            lead = tuple(state[prefix + "_extra_state"][5:].tolist())
            if math.prod(lead) != blocks.patterns:
                raise ValueError(
                    f"{prefix}SparseAttention: _extra_state has {blocks.patterns} masks of {lead} (items, heads); the checkpoint is damaged"
                )
            self._lead = lead
        return blocks

    def build(self, config: dict | None = None, sample_inputs: Any = None) -> None:
        if self._layout is None:
            super().build(config, sample_inputs)
        self.ready = True

    def tune(self, inputs: Any = None, sample_inputs: Any = None, backward: bool = False, seconds: float = 0.2) -> dict:
        if self._layout is not None:
            self.ready = True
            return {"block": [self._layout.block] * 2}
        return super().tune(inputs, sample_inputs, backward, seconds)

    def _trial(self, config, inputs):
        blocks, _ = self._config_blocks(config)
        q, k, v, *_ = inputs
        if blocks.patterns > 1:
            return None
        q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
        return lambda: self._run(q, k, v, blocks)

    # ---------------------------------------------------------------- running
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, key_lengths: Any = None) -> torch.Tensor:
        lead = self._check(query, key, value)
        blocks = self._of_batch(self._of_shape(query.shape[-2], key.shape[-2], query.device), lead)
        q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (query, key, value))
        if key_lengths is not None:
            lengths = self._lengths(key_lengths, lead, key.shape[-2])
            if is_whole(blocks):
                return self._dense(q, k, v, blocks, lengths).reshape(*lead, q.shape[-2], v.shape[-1])
            blocks = shorten(blocks if blocks.patterns > 1 else select(blocks, [0] * lead.numel()), lengths)
        return self._run(q, k, v, blocks).reshape(*lead, q.shape[-2], v.shape[-1])

    def _run(self, q, k, v, blocks):
        if is_whole(blocks):
            return self._dense(q, k, v, blocks)
        scale = 1 / math.sqrt(q.shape[-1]) if self.scale is None else self.scale
        probabilities = softmax(sample(q, k, blocks, scale), blocks)
        if self.dropout and self.training:
            probabilities = dropout(probabilities, self.dropout)
        return multiply(probabilities, blocks, v)

    def _dense(self, q, k, v, blocks, lengths=None):
        """torch's own, where the mask is one block."""
        mask = blocks.keep
        if lengths is not None:
            inside = (torch.arange(k.shape[-2], device=q.device) < lengths[:, None])[:, None, :].expand(-1, q.shape[-2], -1)
            mask = inside if mask is None else inside & mask
        there = None
        if mask is not None:  # a query that sees nothing would be a softmax of nothing
            there = mask.any(-1, keepdim=True)
            mask = mask | ~there
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0, scale=self.scale)
        return out if there is None else out.masked_fill(~there, 0)

    def _check(self, q, k, v):
        """The leading dims of inputs that go together."""
        if not all(isinstance(x, torch.Tensor) and x.dim() in (3, 4) for x in (q, k, v)):
            raise ValueError("SparseAttention: Q, K and V are tensors (items * heads, n, e) or (items, heads, n, e)")
        if not q.dtype == k.dtype == v.dtype and not torch.is_autocast_enabled(q.device.type):
            raise TypeError(f"SparseAttention: Q is {q.dtype}, K {k.dtype} and V {v.dtype}; convert them to one with .to()")
        if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2] or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
            raise ValueError(f"SparseAttention: Q {tuple(q.shape)}, K {tuple(k.shape)} and V {tuple(v.shape)} do not go together")
        return q.shape[:-2]

    def _of_shape(self, queries, keys, device):
        """The pattern for as many queries and keys: the mask's, or one that the layout makes."""
        if self._layout is None:
            if self._blocks.shape != (queries, keys):
                raise ValueError(f"SparseAttention: {queries} queries and {keys} keys; the mask is {self._blocks.shape}")
            return self._blocks
        if queries != keys:
            raise ValueError(f"SparseAttention: a layout is for as many queries as keys, not {queries} and {keys}; give a mask")
        made, blocks = self._made
        if made != (keys, device):
            blocks, _ = self._chosen(self._layout.mask(keys).to(device), (self._layout.block,) * 2)
            self._made = (keys, device), blocks
        return blocks

    def _of_batch(self, blocks, lead):
        """The pattern of each item and head, or the one of all."""
        if blocks.patterns == 1:
            return blocks
        base, of, result = self._spread
        if base is not blocks or of != lead:
            result = spread(blocks, self._index(lead))
            self._spread = blocks, lead, result
        return result

    def _index(self, lead):
        items_of, heads_of = self._lead
        batch = lead.numel()
        heads = lead[1] if len(lead) == 2 else batch // items_of if heads_of == 1 else heads_of
        items = batch // max(heads, 1)
        if items_of == 1 and heads_of == batch:
            return list(range(batch))
        if items * heads != batch or items_of not in (1, items) or heads_of not in (1, heads):
            raise ValueError(f"SparseAttention: masks for {items_of} items and {heads_of} heads do not go with inputs {tuple(lead)}")
        return [(item if items_of > 1 else 0) * heads_of + (head if heads_of > 1 else 0) for item in range(items) for head in range(heads)]

    @staticmethod
    def _lengths(lengths, lead, keys):
        lengths = torch.as_tensor(lengths)
        batch = lead.numel()
        if lengths.dtype.is_floating_point or lengths.dtype == torch.bool or lengths.dim() != 1 or not lengths.numel() or batch % lengths.numel():
            raise ValueError(f"SparseAttention: key_lengths {tuple(lengths.shape)} of {lengths.dtype}; give one whole number for each of the items")
        if len(lead) == 2 and lengths.numel() != lead[0]:
            raise ValueError(f"SparseAttention: {lengths.numel()} key_lengths for {lead[0]} items")
        if int(lengths.min()) < 0 or int(lengths.max()) > keys:
            raise ValueError(f"SparseAttention: key_lengths from {int(lengths.min())} to {int(lengths.max())}; there are {keys} keys")
        return lengths.long().repeat_interleave(batch // lengths.numel())

    def extra_repr(self) -> str:
        return f"causal={self.causal}, dropout={self.dropout}, {self.reason}"


class SeqlenDynamicSparseAttention(OperatorBase):
    """softmax(Q K') V of items of different lengths: neither queries nor keys from an item's length on; what lies there is 0.

    >>> import torch, sparta
    >>> attention = sparta.nn.SeqlenDynamicSparseAttention(global_mode=False)
    >>> q, k, v = torch.rand(3, 2, 4, 10, 8)
    >>> bool((attention(q, k, v, torch.tensor([10, 3]))[1, :, 3:] == 0).all())
    True

    global_mode: lengths are set for all such modules at once, by set_global_seqlens(lengths); without it update_mask(lengths) is for this one.
    The scores are not scaled, as in the original; scale=None scales by 1 / sqrt(E).
    """

    _global_seqlens: Any = None
    reason = "each item by torch's dense attention over its own length"

    def __init__(self, global_mode: bool = True, scale: float | None = 1.0) -> None:
        super().__init__()
        self.global_mode, self.scale = bool(global_mode), scale
        self._seqlens: Any = None

    @staticmethod
    def set_global_seqlens(seqlens: Any) -> None:
        SeqlenDynamicSparseAttention._global_seqlens = seqlens

    def update_mask(self, mask: Any) -> None:
        """Its mask is the lengths: of all such modules in global_mode, otherwise of this one."""
        if self.global_mode:
            self.set_global_seqlens(mask)
        else:
            self._seqlens = mask

    def build(self, config: dict | None = None, sample_inputs: Any = None) -> None:
        need_no_way(self, config)
        self.ready = True

    def tune(self, inputs: Any = None, sample_inputs: Any = None, backward: bool = False, seconds: float = 0.2) -> dict:
        self.ready = True
        return {}

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, seqlens: Any = None) -> torch.Tensor:
        if seqlens is None:
            seqlens = SeqlenDynamicSparseAttention._global_seqlens if self.global_mode else self._seqlens
        if seqlens is None:
            raise ValueError(
                "SeqlenDynamicSparseAttention: no lengths; call set_global_seqlens(lengths) or update_mask(lengths), or give them with the inputs"
            )
        lengths = torch.as_tensor(seqlens)
        if not all(isinstance(x, torch.Tensor) for x in (query, key, value)):
            raise TypeError("SeqlenDynamicSparseAttention: Q, K and V are tensors (items, heads, n, e)")
        if query.dim() != 4 or query.shape != key.shape or query.shape[:-1] != value.shape[:-1]:
            shapes = f"Q {tuple(query.shape)}, K {tuple(key.shape)}, V {tuple(value.shape)}"
            raise ValueError(f"SeqlenDynamicSparseAttention: {shapes}; give (items, heads, n, e)")
        items, _, n, _ = query.shape
        if lengths.dtype.is_floating_point or lengths.dtype == torch.bool or tuple(lengths.shape) != (items,):
            raise ValueError(f"SeqlenDynamicSparseAttention: lengths {tuple(lengths.shape)} of {lengths.dtype}; give {items} whole numbers")
        if items and (int(lengths.min()) < 0 or int(lengths.max()) > n):
            raise ValueError(f"SeqlenDynamicSparseAttention: lengths from {int(lengths.min())} to {int(lengths.max())}; there are {n} tokens")
        out = [
            scaled_dot_product_attention(query[b, :, :length], key[b, :, :length], value[b, :, :length], scale=self.scale)
            if length
            else value.new_zeros(value.shape[1], 0, value.shape[-1])
            for b, length in enumerate(lengths.tolist())
        ]
        padded = [torch.nn.functional.pad(one, (0, 0, 0, n - one.shape[-2])) for one in out]
        return torch.stack(padded) if padded else torch.zeros_like(value)
