"""Which blocks of an attention matrix are there, by name: the layouts of DeepSpeed's sparsity configs, with its parameters and their meaning.

    layout = sparta.attention.BigBird(num_heads=8, block=64, num_random_blocks=1)
    attention = sparta.nn.SparseAttention(layout)          # for any number of tokens
    layout.mask(4096)                                      # the elements, (tokens, tokens), or (heads, tokens, tokens) where heads differ

A layout speaks of blocks: "unidirectional" leaves out blocks of later tokens, and the ones on the diagonal are whole. SparseAttention(layout,
causal=True) takes what is later inside them too. Tokens need not fill the last block. Random blocks come from `seed`, so that a model that is
loaded again has those it was trained with.

Numbers may be written as attributes of a class, too, where they are what an argument that is not given stands for:

    class Wide(sparta.attention.BigBird):
        num_random_blocks = 3
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

BIDIRECTIONAL, UNIDIRECTIONAL = "bidirectional", "unidirectional"
_Init = TypeVar("_Init", bound=Callable[..., None])


def _of_class(init: _Init) -> _Init:
    """An __init__ whose arguments, where they are not given, are the attributes of these names that a subclass has."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def filled(self, *args, **kwargs):
        given = signature.bind_partial(self, *args, **kwargs).arguments
        for name in signature.parameters:
            if name not in given and hasattr(type(self), name):
                kwargs[name] = getattr(type(self), name)
        init(self, *args, **kwargs)

    return filled  # type: ignore[return-value]


class Layout:
    """What all layouts share. A subclass says in _head(head, n) which of n x n blocks a head has."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "_head" not in vars(cls):
            _settle(cls)

    @_of_class
    def __init__(
        self, num_heads: int = 1, block: int = 16, different_layout_per_head: bool = False, attention: str = BIDIRECTIONAL, seed: int = 0
    ) -> None:
        for name, value in (("num_heads", num_heads), ("block", block)):
            if type(value) is not int or value < 1:
                raise ValueError(f"{type(self).__name__}: {name} {value!r}; give a whole number of at least 1")
        if attention not in (BIDIRECTIONAL, UNIDIRECTIONAL):
            raise ValueError(f"{type(self).__name__}: attention {attention!r}; give {BIDIRECTIONAL!r} or {UNIDIRECTIONAL!r}")
        self.num_heads, self.block, self.different_layout_per_head = num_heads, block, bool(different_layout_per_head)
        self.attention, self.seed = attention, seed
        self.horizontal_global_attention = False

    @property
    def num_layout_heads(self) -> int:
        return self.num_heads if self.different_layout_per_head else 1

    def layout(self, tokens: int) -> torch.Tensor:
        """Which blocks are there: boolean (n, n), or (num_heads, n, n) where heads differ."""
        if type(tokens) is not int or tokens < 1:
            raise ValueError(f"{type(self).__name__}: {tokens!r} tokens; give a whole number of at least 1")
        n = -(-tokens // self.block)
        heads = torch.stack([self._head(head, n) for head in range(self.num_layout_heads)])
        return heads if self.different_layout_per_head else heads[0]

    def make_layout(self, seq_len: int) -> torch.Tensor:
        """As DeepSpeed gives it: int64 (num_heads, n, n)."""
        layout = self.layout(seq_len).to(torch.int64)
        return layout if layout.dim() == 3 else layout.expand(self.num_heads, -1, -1).clone()

    def mask(self, tokens: int) -> torch.Tensor:
        """Which elements are there: boolean (tokens, tokens), or (num_heads, tokens, tokens) where heads differ."""
        layout = self.layout(tokens)
        return layout.repeat_interleave(self.block, -1).repeat_interleave(self.block, -2)[..., :tokens, :tokens].contiguous()

    __call__ = mask

    def _head(self, head: int, n: int) -> torch.Tensor:
        raise NotImplementedError(
            f"{type(self).__name__}: it has no layout; derive the class from one that has ({', '.join(_NAMED)}), or define _head(self, head, n)"
        )

    # ---------------------------------------------------------------- parts of layouts, of n x n blocks
    @property
    def _causal(self):
        return self.attention == UNIDIRECTIONAL

    def _past(self, blocks):
        return blocks.tril() if self._causal else blocks

    def _windows(self, n, sizes):
        """Windows side by side, of these sizes; the last size repeats. Blocks see their own window."""
        ends, window = [], 0
        for k in range(n):
            while k >= (ends[-1] if ends else 0):
                ends.append((ends[-1] if ends else 0) + sizes[min(window, len(sizes) - 1)])
                window += 1
        number = torch.bucketize(torch.arange(n), torch.tensor(ends or [0]), right=True)
        return self._past(number[:, None] == number[None, :])

    def _sliding(self, n, width):
        """Blocks at most half the width away."""
        self._fits("num_sliding_window_blocks", width, n)
        k = torch.arange(n)
        return (k[:, None] - k[None, :]).abs() <= width // 2

    def _random(self, head, n, count, past=False):
        """`count` blocks in each row; with `past` of those that are not later, as many as there are."""
        self._fits("num_random_blocks", count, n)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + head)
        chance = torch.rand(n, n, generator=generator)
        if past:
            chance = chance.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -1.0)
        picked = torch.zeros(n, n, dtype=torch.bool).scatter(1, chance.topk(count, 1).indices, True)
        return picked.tril() if past else picked

    @staticmethod
    def _ranges(n, starts, ends):
        """Which of n blocks are in one of these ranges."""
        there = torch.zeros(n, dtype=torch.bool)
        for start, end in zip(starts, ends if ends is not None else [start + 1 for start in starts]):
            there[start:end] = True
        return there

    def _set_global(self, out, starts, ends):
        """Adds the columns of global blocks (from their first row on where nothing later is seen), and their rows where asked."""
        for start, end in zip(starts, ends if ends is not None else [start + 1 for start in starts]):
            out[start if self._causal else 0 :, start:end] = True
            if self.horizontal_global_attention:
                out[start:end] = True

    def _fits(self, name, count, n):
        if count > n:
            raise ValueError(f"{type(self).__name__}: {name} is {count} and there are {n} blocks in a row; give fewer, or more tokens")


def _check_ranges(who, starts, ends):
    if any(type(start) is not int or start < 0 for start in starts):
        raise ValueError(f"{who}: global_block_indices {list(starts)}; give whole numbers from 0 on")
    if ends is not None and (len(ends) != len(starts) or any(start >= end for start, end in zip(starts, ends))):
        raise ValueError(f"{who}: global_block_end_indices {list(ends)} do not lie after {list(starts)}, one for one")


def _check_count(who, least=0, **counts):
    for name, count in counts.items():
        if type(count) is not int or count < least:
            raise ValueError(f"{who}: {name} {count!r}; give a whole number of at least {least}")


class Dense(Layout):
    """Everything.

    >>> Dense(block=2).layout(4).tolist()
    [[True, True], [True, True]]
    """

    @_of_class
    def __init__(self, num_heads: int = 1, block: int = 16, different_layout_per_head: bool = False) -> None:
        super().__init__(num_heads, block, different_layout_per_head)

    def _head(self, head, n):
        return torch.ones(n, n, dtype=torch.bool)


class Fixed(Layout):
    """Windows of num_local_blocks, the last num_global_blocks of each seen by all (Sparse Transformers).

    >>> Fixed(block=1, num_local_blocks=2, attention="unidirectional").layout(4).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    """

    @_of_class
    def __init__(
        self,
        num_heads: int = 1,
        block: int = 16,
        different_layout_per_head: bool = False,
        num_local_blocks: int = 4,
        num_global_blocks: int = 1,
        attention: str = BIDIRECTIONAL,
        horizontal_global_attention: bool = False,
        num_different_global_patterns: int = 1,
    ) -> None:
        super().__init__(num_heads, block, different_layout_per_head, attention)
        _check_count(
            "Fixed",
            1,
            num_local_blocks=num_local_blocks,
            num_global_blocks=num_global_blocks,
            num_different_global_patterns=num_different_global_patterns,
        )
        if num_local_blocks % num_global_blocks:
            raise ValueError(f"Fixed: num_local_blocks {num_local_blocks} is not a multiple of num_global_blocks {num_global_blocks}")
        if horizontal_global_attention and self._causal:
            raise ValueError(f"Fixed: horizontal_global_attention sees later blocks; it needs attention={BIDIRECTIONAL!r}")
        if num_different_global_patterns > 1 and not different_layout_per_head:
            raise ValueError("Fixed: num_different_global_patterns needs different_layout_per_head=True")
        most = num_local_blocks // num_global_blocks
        if num_different_global_patterns > most:
            raise ValueError(f"Fixed: num_different_global_patterns {num_different_global_patterns}; a window has {most}")
        self.num_local_blocks, self.num_global_blocks = num_local_blocks, num_global_blocks
        self.horizontal_global_attention, self.num_different_global_patterns = bool(horizontal_global_attention), num_different_global_patterns

    def _head(self, head, n):
        first = self.num_local_blocks - (1 + head % self.num_different_global_patterns) * self.num_global_blocks
        whole = n - n % self.num_local_blocks
        starts = list(range(first, whole, self.num_local_blocks))
        if whole < n:  # the last window is short: its global blocks move in
            starts.append(max(min(whole + first, n - self.num_global_blocks), 0))
        out = self._windows(n, [self.num_local_blocks])
        self._set_global(out, starts, [start + self.num_global_blocks for start in starts])
        return out


class Variable(Layout):
    """Windows of the sizes local_window_blocks (the last repeats), global blocks by index, random blocks.

    >>> Variable(block=1, local_window_blocks=[1, 2]).layout(4).int().tolist()
    [[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 1]]
    """

    @_of_class
    def __init__(
        self,
        num_heads: int = 1,
        block: int = 16,
        different_layout_per_head: bool = False,
        num_random_blocks: int = 0,
        local_window_blocks: Sequence[int] = (4,),
        global_block_indices: Sequence[int] = (0,),
        global_block_end_indices: Sequence[int] | None = None,
        attention: str = BIDIRECTIONAL,
        horizontal_global_attention: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(num_heads, block, different_layout_per_head, attention, seed)
        _check_count("Variable", num_random_blocks=num_random_blocks)
        _check_ranges("Variable", global_block_indices, global_block_end_indices)
        if not local_window_blocks or any(type(size) is not int or size < 1 for size in local_window_blocks):
            raise ValueError(f"Variable: local_window_blocks {list(local_window_blocks)}; give sizes of at least 1")
        if horizontal_global_attention and self._causal:
            raise ValueError(f"Variable: horizontal_global_attention sees later blocks; it needs attention={BIDIRECTIONAL!r}")
        self.num_random_blocks, self.local_window_blocks = num_random_blocks, list(local_window_blocks)
        self.global_block_indices, self.global_block_end_indices = list(global_block_indices), global_block_end_indices
        self.horizontal_global_attention = bool(horizontal_global_attention)

    def _head(self, head, n):
        out = self._windows(n, self.local_window_blocks)
        if self.num_random_blocks:
            out = out | self._random(head, n, self.num_random_blocks)
        self._set_global(out, self.global_block_indices, self.global_block_end_indices)
        return out


class BigBird(Layout):
    """A sliding window, global blocks at the start, random blocks.

    >>> BigBird(block=1, num_random_blocks=0).layout(5).int().tolist()
    [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 0, 1, 1, 1], [1, 0, 0, 1, 1]]
    """

    @_of_class
    def __init__(
        self,
        num_heads: int = 1,
        block: int = 16,
        different_layout_per_head: bool = False,
        num_random_blocks: int = 1,
        num_sliding_window_blocks: int = 3,
        num_global_blocks: int = 1,
        attention: str = BIDIRECTIONAL,
        seed: int = 0,
    ) -> None:
        super().__init__(num_heads, block, different_layout_per_head, attention, seed)
        _check_count(
            "BigBird", num_random_blocks=num_random_blocks, num_sliding_window_blocks=num_sliding_window_blocks, num_global_blocks=num_global_blocks
        )
        self.num_random_blocks, self.num_sliding_window_blocks = num_random_blocks, num_sliding_window_blocks
        self.num_global_blocks = num_global_blocks

    def _head(self, head, n):
        self._fits("num_global_blocks", self.num_global_blocks, n)
        out = self._sliding(n, self.num_sliding_window_blocks) | self._random(head, n, self.num_random_blocks, past=self._causal)
        out[: self.num_global_blocks] = True
        out[:, : self.num_global_blocks] = True
        return self._past(out)


class BSLongformer(Layout):
    """A sliding window, and global blocks by index, which see all and are seen by all.

    >>> BSLongformer(block=1, global_block_indices=[1]).layout(4).int().tolist()
    [[1, 1, 0, 0], [1, 1, 1, 1], [0, 1, 1, 1], [0, 1, 1, 1]]
    """

    @_of_class
    def __init__(
        self,
        num_heads: int = 1,
        block: int = 16,
        different_layout_per_head: bool = False,
        num_sliding_window_blocks: int = 3,
        global_block_indices: Sequence[int] = (0,),
        global_block_end_indices: Sequence[int] | None = None,
        attention: str = BIDIRECTIONAL,
    ) -> None:
        super().__init__(num_heads, block, different_layout_per_head, attention)
        _check_count("BSLongformer", num_sliding_window_blocks=num_sliding_window_blocks)
        _check_ranges("BSLongformer", global_block_indices, global_block_end_indices)
        self.num_sliding_window_blocks = num_sliding_window_blocks
        self.global_block_indices, self.global_block_end_indices = list(global_block_indices), global_block_end_indices

    def _head(self, head, n):
        seen = self._ranges(n, self.global_block_indices, self.global_block_end_indices)
        return self._past(self._sliding(n, self.num_sliding_window_blocks) | seen[:, None] | seen[None, :])


class LocalSlidingWindow(Layout):
    """A sliding window only.

    >>> LocalSlidingWindow(block=1).layout(4).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """

    @_of_class
    def __init__(self, num_heads: int = 1, block: int = 16, num_sliding_window_blocks: int = 3, attention: str = UNIDIRECTIONAL) -> None:
        super().__init__(num_heads, block, False, attention)
        _check_count("LocalSlidingWindow", num_sliding_window_blocks=num_sliding_window_blocks)
        self.num_sliding_window_blocks = num_sliding_window_blocks

    def _head(self, head, n):
        return self._past(self._sliding(n, self.num_sliding_window_blocks))


# ---------------------------------------------------------------- classes of others
_NAMED: dict[str, type[Layout]] = {kind.__name__: kind for kind in (Dense, Fixed, Variable, BigBird, BSLongformer, LocalSlidingWindow)}


def _settle(cls: Any) -> None:
    """Of a class without a layout of its own: one that derives from the base of all and has the name of a layout ("BigBirdSparsityConfig", as people
    copy it from DeepSpeed's pages) is derived from that one. An attribute that nothing would read is refused."""
    known = _NAMED.get(cls.__name__.removesuffix("SparsityConfig"))
    if known is not None and not issubclass(cls, known) and "make_layout" not in vars(cls):
        cls.__bases__ = tuple(known if base is Layout else base for base in cls.__bases__)
    if any(callable(getattr(value, "__func__", value)) or isinstance(value, property) for value in vars(cls).values()):
        return  # code of its own may read what it likes
    kind = next((base for base in cls.__mro__ if base in _NAMED.values()), Layout)
    numbers = [name for name in inspect.signature(kind.__init__).parameters if name != "self"]
    for name in (*vars(cls), *vars(cls).get("__annotations__", {})):
        if not name.startswith("_") and name not in numbers and kind is not Layout:
            near = difflib.get_close_matches(name, numbers, 1)
            mean = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(numbers)}"
            raise TypeError(f"{cls.__name__}: {kind.__name__} has no {name!r}{mean}")
