"""Masks, formats and patterns that users give, checked and turned into blocks. Whatever is wrong is said before anything is changed."""

import torch

from .. import _operators as ops
from .._blocks import FILLED, Blocks, choose, covers
from .._masks import check_mask as check_mask
from ..patterns import Pattern
from ..tensors import blocks_of

# Share of the matrix that blocks of at least this many rows may store before the dense product is the faster one. A rule of thumb: build() and tune()
# with inputs measure instead.
BREAK_EVEN = ((4, 0.7), (2, 0.45), (1, 0.3))
# The same on a GPU, of the smaller products that were timed (4096 tokens, outputs and inputs; docs/benchmarks/gpu.md), where blocks gain less than in
# large ones.
GPU_BREAK_EVEN = ((128, 0.75), (64, 0.5), (32, 0.28), (16, 0.06), (0, 0.0))
# What blocks that are not full cost besides: their values are copied with zeros in each call. For a whole matrix, of the time of its dense product
# with 4096 tokens: 5 bytes for each element at 4.2 TB/s, against 8192 operations at 660 TFLOP/s.
COPYING = 0.1


# A weight with a smaller share of zeros than this is dense: what skipping them could save is less than times differ by.
ZEROS = 0.01


def too_few_zeros(mask):
    """Why a layer is dense whatever times say; "": it has zeros enough."""
    absent = mask.numel() - int(mask.count_nonzero())
    if absent >= ZEROS * mask.numel():
        return ""
    shown = min(100 * absent / mask.numel(), 99 * ZEROS)  # never rounded to the limit
    return f"dense: {shown:.2g} % zeros; a layer with less than {100 * ZEROS:g} % is dense" if absent else "density 1.00: there are no zeros to skip"


def block_of(format, shape):
    """The block that a format text, a sparta.Format or a (height, width) stands for, no larger than the matrix; "dense" is one block of the whole."""
    if format is None:
        return None
    if isinstance(format, (tuple, list)) and len(format) == 2 and all(type(size) is int and size > 0 for size in format):
        block = tuple(format)
    else:
        block = blocks_of(str(format).lower())
    if block is None:
        raise ValueError(f"format {str(format)!r} has no kernel with gradients; take csr, strip(n), bsr(h,w) or dense")
    return tuple(shape) if block == "dense" else tuple(min(b, max(size, 1)) for b, size in zip(block, shape))


def mask_of(weight, pattern):
    """The mask that pruning to a pattern leaves of a weight, and the block that the pattern names, or None."""
    pattern = Pattern.parse(pattern)
    named = (1, 1) if pattern.of or pattern.below is not None else pattern.block if 0 not in pattern.block else None
    return pattern.mask(weight), named


def choose_blocks(mask, block=None):
    """Blocks for a mask, and why: those asked for; otherwise those that fit, or one whole block (the dense product) where too much is there."""
    if block is not None:
        return Blocks.from_mask(mask, block), f"{name_of(block, mask.shape[-2:])} as asked; not timed"
    if mask.is_cuda and mask.dim() == 2:
        block, reason = cover(mask)
        return Blocks.from_mask(mask, block), reason
    blocks = Blocks.from_mask(mask, choose(mask))
    share = stored(blocks)
    limit = next(limit for height, limit in BREAK_EVEN if blocks.block[0] >= height)
    if share > limit and blocks.patterns == 1:
        why = f"dense: blocks of {blocks.block[0]}x{blocks.block[1]} would store {share:.0%} of the matrix and pay up to about {limit:.0%}; not timed"
        return Blocks.from_mask(mask, tuple(mask.shape[-2:])), why
    return blocks, f"{name_of(blocks.block, blocks.shape)} store {share:.1%} of the matrix; not timed"


def by_time(mask):
    """For squares that fit: the time that a GPU's product takes by the table above, as a share of the dense one's, with side, share of the matrix
    that they store, of it that exists, and of squares less than half full and of elements in these; fastest first, of two as fast the larger."""
    there, counted = covers(mask)
    limits, found = dict(GPU_BREAK_EVEN), []
    for side, (blocks, loose, scattered) in counted.items():
        if side <= min(mask.shape):
            places = -(-mask.shape[0] // side) * -(-mask.shape[1] // side)
            share = blocks / places
            full, few = there / max(blocks * side * side, 1), loose / max(blocks, 1)
            time = share * (1 / limits[side] + (COPYING if there < blocks * side * side else 0))
            found.append((time, side, share, full, few, scattered / max(there, 1)))
    return sorted(found, key=lambda way: (way[0], -way[1]))


def cover(mask):
    """The squares in which a GPU is fastest, or the whole matrix where the dense product is; and why. Squares need not be full: what counts is how
    many there are."""
    whole, ways = tuple(mask.shape), by_time(mask)
    if not ways:
        return whole, "dense: no square of 16 fits into the matrix; not timed"
    time, side, share, full, loose, scattered = ways[0]
    rest = ""
    if loose > 1 - FILLED:
        rest = f", {100 * full:.2g}% of it filled"
    if 1 - FILLED < loose < 1:
        rest += f" ({100 * scattered:.2g}% of the elements lie in {loose:.0%} of the blocks, which are less than half full)"
    if time > 1:
        return whole, f"dense: blocks of {side}x{side} would store {share:.0%} of the matrix{rest}, and pay up to about {share / time:.0%}; not timed"
    return (side, side), f"{name_of((side, side), whole)} store {share:.1%} of the matrix{rest}; not timed"


def stored(blocks):
    """Share of the matrix that is stored."""
    down, right = blocks.grid
    return blocks.crd.numel() / max(blocks.patterns * down * right, 1)


def name_of(block, shape):
    return "dense" if tuple(block) == tuple(shape) else f"blocks of {block[0]}x{block[1]}"


def takes(block):
    """Do a GPU's kernels take such blocks?"""
    return all(side in (16, 32) or side % 64 == 0 for side in block)


ON_GPU = "; on the GPU"
SEVERAL = ", but dense for several inputs at once"  # after it, of a module that takes one or several


def said_of(blocks, reason, dtype=None, batches=False):
    """The reason with what runs where the pattern lies, which is made ready there."""
    reason = reason.partition(ON_GPU)[0]
    if not blocks.pos.is_cuda or reason.startswith("dense"):
        return reason
    what = "batches" if batches else "float64" if dtype == torch.float64 else f"blocks of {blocks.block[0]}x{blocks.block[1]}"
    index = blocks.prepare().index
    if batches or dtype == torch.float64 or not takes(blocks.block):
        return f"{reason}{ON_GPU} dense: no kernel there takes {what}"
    if index is None:
        return f"{reason}{ON_GPU} dense: {ops.problem() or f'no kernel there takes {what}'}"
    return reason + ON_GPU


def check_blocks(where, pos, crd, keep, shape, block, patterns):
    """Blocks of tensors that come from outside (a checkpoint), or ValueError."""
    down, right = (-(-size // b) for size, b in zip(shape, block))

    def wrong(what):
        return ValueError(f"{where}: {what}; the checkpoint is damaged or of another module")

    for name, index in (("pos", pos), ("crd", crd)):
        if not isinstance(index, torch.Tensor) or index.dtype not in (torch.int32, torch.int64) or index.dim() != 1:
            raise wrong(f"{name} is not a row of int32")
    if pos.numel() != patterns * down + 1:
        raise wrong(f"pos has {pos.numel()} entries, not {patterns * down + 1}")
    if keep is not None and (not isinstance(keep, torch.Tensor) or keep.dtype != torch.bool or tuple(keep.shape) != (crd.numel(), *block)):
        raise wrong(f"keep is not a bool of {(crd.numel(), *block)}")
    if pos.device.type != "meta" and crd.device.type != "meta":
        if int(pos[0]) != 0 or int(pos[-1]) != crd.numel() or bool((pos.diff() < 0).any()):
            raise wrong(f"pos does not rise from 0 to the {crd.numel()} entries of crd")
        if crd.numel() and (int(crd.min()) < 0 or int(crd.max()) >= right):
            raise wrong(f"crd names a column of blocks outside 0..{right - 1}")
        rises = crd.diff() > 0
        begins = pos[1:-1].long()
        rises[begins[(begins > 0) & (begins < crd.numel())] - 1] = True
        if not bool(rises.all()):
            raise wrong("crd does not rise within a row")
    return Blocks(pos.to(torch.int32), crd.to(torch.int32), keep, shape, block, patterns)
