"""The products and the softmax of _torch.py, for modules: a pattern that is one whole block runs as torch's own dense product, and a pattern for
each head or item is spread over a batch."""

import math

import torch

from .. import _torch
from .._blocks import Blocks


def is_whole(blocks):
    """One block that is the whole matrix."""
    return blocks.patterns == 1 and blocks.block == blocks.shape and blocks.crd.numel() == 1


def _kept(values, blocks):
    values = values if blocks.keep is None else torch.where(blocks.keep, values, 0)
    return values.squeeze(-3)


def multiply(values, blocks, x, turned=False):
    if not is_whole(blocks):
        return _torch.multiply(values, blocks, x, turned)
    dense = _kept(values, blocks)
    return torch.matmul(dense.transpose(-1, -2) if turned else dense, x)


def sample(a, c, blocks, scale=1.0):
    if not is_whole(blocks):
        return _torch.sample(a, c, blocks, scale)
    values = torch.matmul(a * scale, c.transpose(-1, -2)).unsqueeze(-3)
    return values if blocks.keep is None else torch.where(blocks.keep, values, 0)


def softmax(values, blocks, scale=1.0):
    if not is_whole(blocks):
        return _torch.softmax(values, blocks, scale)
    if blocks.keep is None:
        return torch.softmax(values * scale, -1)
    scores = (values * scale).masked_fill(~blocks.keep, -math.inf)
    return torch.softmax(scores, -1).masked_fill(~blocks.keep.any(-1, keepdim=True), 0)


# ---------------------------------------------------------------- patterns of a batch
def select(blocks, index):
    """The patterns that `index` names, one after the other."""
    down = blocks.grid[0]
    index = torch.as_tensor(index, dtype=torch.long, device=blocks.pos.device)
    pos = blocks.pos.long()
    counts = pos.diff().view(blocks.patterns, down)[index].flatten()
    begins = pos[:-1].view(blocks.patterns, down)[index].flatten()
    new = torch.zeros(counts.numel() + 1, dtype=torch.long, device=pos.device)
    new[1:] = counts.cumsum(0)
    blocks_of_all = int(new[-1])
    at = torch.arange(blocks_of_all, device=pos.device) + torch.repeat_interleave(begins - new[:-1], counts, output_size=blocks_of_all)
    keep = None if blocks.keep is None else blocks.keep[at]
    return Blocks(new.to(torch.int32), blocks.crd[at], keep, blocks.shape, blocks.block, index.numel())


def spread(blocks, index):
    """For a batch whose items have the patterns of `index`. Where they all have the only one there is, it is shared."""
    if blocks.patterns == 1 or index == list(range(blocks.patterns)):
        return blocks
    return select(blocks, index)


def repeat(blocks, batch):
    """For a batch whose items take turns with the patterns. The one that there is serves any number, which may be symbolic then."""
    return blocks if blocks.patterns == 1 else spread(blocks, list(range(blocks.patterns)) * (batch // blocks.patterns))


def shorten(blocks, columns):
    """The patterns without the columns from columns[p] on; blocks that lose all of theirs are gone."""
    height, width = blocks.block
    rows = blocks.rows()
    limit = torch.as_tensor(columns, device=rows.device)[rows // blocks.grid[0]]
    first = blocks.crd.long() * width
    there = first < limit
    counts = torch.zeros(blocks.pos.numel(), dtype=torch.long, device=rows.device)
    counts[1:] = torch.bincount(rows[there], minlength=blocks.pos.numel() - 1)
    inside = (first[there, None] + torch.arange(width, device=rows.device)) < limit[there, None]
    keep = inside[:, None, :].expand(-1, height, -1)
    keep = keep if blocks.keep is None else keep & blocks.keep[there]
    return Blocks(counts.cumsum(0).to(torch.int32), blocks.crd[there], keep.contiguous(), blocks.shape, blocks.block, blocks.patterns)
