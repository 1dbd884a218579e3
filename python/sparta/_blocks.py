"""Where the elements of a sparse matrix lie, for torch: blocks of height x width elements, those of each row of blocks in order.

    pos     (rows of blocks + 1)       where the blocks of a row begin; int32
    crd     (blocks)                   the column of blocks of each, ascending in a row; int32
    values  (blocks, height, width)    the elements: not part of the pattern, given with each call
    keep    (blocks, height, width)    which of them exist; None: all
    index   (words)                    on a GPU: what kernels follow in place of pos and crd, made of them once (prepare); int32

1x1 is csr, 4x1 is the house's strip(4), 32x32 is bsr. Where a block does not divide the matrix the last ones reach over the edge; what lies there
is 0. Several patterns (a mask for each head) are one after the other: pos counts on, crd begins anew.

A matrix has values (blocks, h, w). A batch that shares one pattern has values (batch, blocks, h, w); one with a pattern each has the values of all
blocks, (blocks of all, h, w).
"""

import math

import torch

# Tried in this order: the first that is filled to this share with elements that exist. Larger blocks are faster where they fit.
CHOICES = ((64, 64), (32, 32), (16, 16), (8, 8), (4, 1), (2, 1), (1, 1))
FILLED = 0.9
# One matrix on a GPU: the squares that its kernels take.
GPU_SIDES = (128, 64, 32, 16)


def _padded(dense, height, width):
    """(..., rows, cols) as whole blocks, with zeros over the edge."""
    rows, cols = dense.shape[-2:]
    down, right = -rows % height, -cols % width
    return torch.nn.functional.pad(dense, (0, right, 0, down)) if down or right else dense


def _tiles(dense, height, width):
    """(..., rows, cols) as (..., rows of blocks, columns of blocks, height, width)."""
    return _padded(dense, height, width).unflatten(-1, (-1, width)).unflatten(-3, (-1, height)).transpose(-2, -3)


def _counts(mask, height, width):
    """Elements that exist in each block, (..., rows of blocks, columns of blocks)."""
    if height == width == 1:
        return mask
    if mask.dtype == torch.bool:
        mask = _padded(mask, height, width).contiguous()
        if _holds_words(mask):
            # Eight booleans are a word, whose bytes add up side by side: of so many lines none overflows. torch would make each an int64 first.
            lines = height if height < 256 else math.gcd(height, 128)
            mask = mask.view(torch.int64).unflatten(-2, (-1, lines)).sum(-2).view(torch.uint8)
            height //= lines
    return _tiles(mask, height, width).sum((-1, -2))


def _holds_words(mask):
    return type(mask) is torch.Tensor and mask.numel() > 0 and not (mask.shape[-1] | mask.storage_offset() | mask.data_ptr()) % 8


def _found(there, count):
    """Where something is there, so often. nonzero would ask the device how often."""
    there = there.flatten()
    return torch.repeat_interleave(there.long(), output_size=count) if there.is_cuda else there.nonzero()[:, 0]


def _inside(size, block, device):
    """How much of each of the blocks side by side lies inside."""
    return (size - torch.arange(0, size, block, device=device)).clamp(max=block)


def fill(mask, block):
    """Share of the elements of its blocks that exist; 1 for a mask without any."""
    counts = _counts(mask, *block)
    there, blocks = torch.stack([counts.sum(), counts.count_nonzero()]).tolist()
    return there / (blocks * block[0] * block[1]) if blocks else 1.0


def choose(mask):
    """The first of CHOICES that the mask fills; on a GPU the first square that has a kernel, and where none fits the whole matrix."""
    if mask.is_cuda and mask.dim() == 2:
        return _choose_square(mask)
    for block in CHOICES:
        if all(b <= max(s, 1) for b, s in zip(block, mask.shape[-2:])) and fill(mask, block) >= FILLED:
            return block
    return 1, 1


def _square_counts(mask):
    """Elements that exist in each square, for each side of GPU_SIDES; one pass over the mask."""
    finest = _counts(mask, GPU_SIDES[-1], GPU_SIDES[-1])
    return [_counts(finest, side // GPU_SIDES[-1], side // GPU_SIDES[-1]) for side in GPU_SIDES]


def _choose_square(mask):
    """One answer from the device."""
    counts = _square_counts(mask)
    there, *blocks = torch.stack([counts[-1].sum(), *(c.count_nonzero() for c in counts)]).tolist()
    for side, n in zip(GPU_SIDES, blocks):
        if side <= min(mask.shape) and there >= FILLED * n * side * side:
            return side, side
    return tuple(mask.shape)


def covers(mask):
    """The elements of a mask (rows, cols), and for each side of GPU_SIDES: squares that cover them, squares of these that are less than half full,
    and elements in those. One answer from the device."""
    answers = []
    for side, counts in zip(GPU_SIDES, _square_counts(mask)):
        loose = (counts > 0) & (2 * counts < side * side)
        answers += [counts.count_nonzero(), loose.count_nonzero(), torch.where(loose, counts, 0).sum()]
    there, *rest = torch.stack([counts.sum(), *answers]).tolist()
    return there, {side: tuple(rest[3 * k : 3 * k + 3]) for k, side in enumerate(GPU_SIDES)}


def _recall():
    """What was tuned for this GPU before is used from here on."""
    from ._points import recall

    recall()


def _versions(*tensors):
    """To see whether one was written to; None where torch does not count."""
    return None if any(t.is_inference() for t in tensors) else [t._version for t in tensors]


class Blocks:
    """A pattern of `patterns` matrices of shape (rows, cols), as plain tensors."""

    def __init__(self, pos, crd, keep, shape, block, patterns=1):
        self.pos, self.crd, self.keep = pos, crd, keep
        self.shape, self.block, self.patterns = tuple(shape), tuple(block), patterns
        self.sizes = (*self.shape, *self.block)
        self.index, self.prepared, self._versions = None, False, None
        self._sound = False  # pos and crd are known to be right

    @classmethod
    def from_mask(cls, mask, block=None):
        """Of a boolean (rows, cols), or of (patterns, rows, cols). Without a block, the one that fits."""
        mask = mask if mask.dtype == torch.bool else mask != 0
        height, width = block or choose(mask)
        counts = _counts(mask, height, width)
        (rows, cols), right = mask.shape[-2:], counts.shape[-1]
        whole = height * width
        if rows % height or cols % width:
            whole = _inside(rows, height, mask.device)[:, None] * _inside(cols, width, mask.device)
        there = (counts > 0).flatten(0, -2)
        pos = torch.zeros(there.shape[0] + 1, dtype=torch.int32, device=mask.device)
        pos[1:] = there.sum(-1).cumsum(0)
        # One answer from the device, and nothing is waited for after it.
        blocks, full = torch.stack([pos[-1], (counts == whole).sum(dtype=torch.int32)]).tolist()
        at = _found(there, blocks)
        crd = at % max(right, 1)
        keep = None if full == blocks else _tiles(mask, height, width).flatten(0, -4)[at // right, crd].contiguous()
        made = cls(pos, crd.to(torch.int32), keep, (rows, cols), (height, width), mask.shape[0] if mask.dim() == 3 else 1)
        made._sound = True
        return made

    # ---------------------------------------------------------------- the index, on a GPU
    def prepare(self):
        """Makes the index where a GPU's kernels follow one; without it every call makes it. Waits for the device, unless the pattern is of a mask."""
        pos = self.pos
        if torch.compiler.is_compiling() or type(pos) is not torch.Tensor or not pos.is_cuda or torch.cuda.is_current_stream_capturing():
            return self
        self.prepared = True
        _recall()
        made = self._words() if self.patterns == 1 else pos[:0]
        if not made.numel():
            return self
        if not self._sound and int(made[1]):
            what = f"pos and crd are no pattern of {self.shape} in blocks of {self.block}"
            raise ValueError(f"{what}: pos has to rise from 0 to the number of blocks, crd within each row of blocks")
        self.index, self._versions = made, _versions(pos, self.crd)
        return self

    def _words(self):
        return torch.ops.sparta.make_index(self.pos, self.crd, *self.sizes)

    def indexed(self):
        """The index for a call, of pos and crd as they are now; None: the call makes it. Whoever writes them in place (DistributedDataParallel sends
        buffers so, averages of models too) is seen here; by compiled code when it is compiled."""
        if torch.compiler.is_compiling():
            return self.index if self._current() else None
        if not self.prepared:
            return self.prepare().index
        if self._current():
            return self.index
        return None if torch.cuda.is_current_stream_capturing() else self._renew()

    def _current(self):
        """Were pos and crd not written since the index was made?"""
        made = self._versions
        return made is None or (made[0] == self.pos._version and made[1] == self.crd._version)

    # torch.compiler.assume_constant_result, which would import the compiler for it: compiled code asks once, when it is compiled.
    _current._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _renew(self):
        """Without waiting: kernels are safe with any pattern. In place, since graphs that were captured follow the same memory."""
        made, old = self._words(), self.index
        self._sound, self._versions = False, _versions(self.pos, self.crd)
        if made.shape == old.shape and (torch.is_inference_mode_enabled() or not old.is_inference()):
            old.copy_(made)
        else:
            self.index = made if made.numel() else None
        return self.index

    def follow(self, old):
        """Takes over what was prepared for the same tensors."""
        same = old.pos is self.pos and old.crd is self.crd and old._versions is not None and old._versions == _versions(self.pos, self.crd)
        if same and self.pos.device == old.index.device:
            self.index, self.prepared, self._versions = old.index, True, old._versions
        return self

    def __getstate__(self):
        return {**self.__dict__, "index": None, "prepared": False, "_versions": None, "_sound": False}

    @property
    def grid(self):
        """Rows and columns of blocks."""
        return tuple(-(-size // block) for size, block in zip(self.shape, self.block))

    def rows(self):
        """The row of blocks of each block, counted through all patterns; int64."""
        return torch.repeat_interleave(self.pos.diff().long(), output_size=self.crd.numel())

    def places(self):
        """Where each block is among all that there could be, row by row through all patterns; int64."""
        return torch.add(self.crd, self.rows(), alpha=self.grid[1])

    def pack(self, dense):
        """The values of a dense matrix or batch at these elements; differentiable."""
        tiles = _tiles(dense, *self.block)
        rows, columns = self.rows(), self.crd.long()
        values = tiles.flatten(0, 1)[rows, columns] if self.patterns > 1 else tiles[..., rows, columns, :, :]
        return values if self.keep is None else torch.where(self.keep, values, 0)

    def unpack(self, values):
        """The dense matrix or batch with 0 where nothing is; differentiable."""
        height, width = self.block
        down, right = self.grid
        if self.keep is not None:
            values = torch.where(self.keep, values, 0)
        lead = () if self.patterns > 1 or values.dim() == 3 else values.shape[:1]
        tiles = values.new_zeros(*lead, self.patterns * down * right, height, width).index_copy(-3, self.places(), values)
        shape = (self.patterns,) if self.patterns > 1 else lead
        dense = tiles.reshape(*shape, down, right, height, width).transpose(-2, -3).reshape(*shape, down * height, right * width)
        return dense[..., : self.shape[0], : self.shape[1]]

    def mask(self):
        """Which elements exist, as a boolean of shape (rows, cols) or (patterns, rows, cols)."""
        ones = torch.ones(self.crd.numel(), *self.block, device=self.crd.device)
        return self.unpack(ones) != 0

    def density(self):
        return int(self.mask().sum()) / max(self.patterns * self.shape[0] * self.shape[1], 1)
