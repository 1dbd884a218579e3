"""Which elements of a weight stay, by magnitude and pattern, for torch: the words of `sparta zoo --prune` and of schedules, and the same choices.

    4x1:0.9         blocks of 4 outputs by 1 input; those with the smallest mean magnitude go until 90 % of the elements went
    1x1:0.8         single elements
    2:4   2:4@out   the 2 largest of every 4 along the input, along the output
    rows:0.5        whole outputs; cols:0.5 whole inputs
    magnitude(pattern=4x1, sparsity=0.9)     the same, as a schedule writes it
    threshold(0.01)                          elements whose magnitude is below the value go

A weight is seen as (outputs, inputs). That of a convolution (outputs, inputs, height, width) is pruned over (outputs, inputs) for each place of the
window; rows and cols are whole filters and whole input channels. Among equals the one with the lower index goes first, sums run in one order: the
C pruner (src/prune) takes the same elements, bit for bit.
"""

from __future__ import annotations

import dataclasses
import math
import re

import torch

FORMS = "NxM:SPARSITY, n:m, n:m@out, rows:SPARSITY or cols:SPARSITY, e.g. 4x1:0.9, 2:4"
_MOST = 1 << 20  # of a block's size, as in C

_CALL = re.compile(r"\s*(magnitude|threshold)\s*\(([^()]*)\)\s*")
_PARAMETERS = {"magnitude": ("pattern", "sparsity"), "threshold": ("value",)}


def _number(text: str, what: str, most: float) -> float:
    """A number between 0 and most."""
    try:
        value = float(text) if re.fullmatch(r"[-+.0-9eE]+", text) else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        bounds = "between 0 and 1" if most == 1 else "of at least 0"
        raise ValueError(f"pattern: {what} '{text[:30]}' must be a number {bounds}")
    return value


def _arguments(name: str, text: str) -> dict[str, str]:
    """pattern=4x1, sparsity=0.9, named or in their order."""
    given: dict[str, str] = {}
    names = _PARAMETERS[name]
    for i, part in enumerate(text.split(",") if text.strip() else ()):
        key, equals, value = part.partition("=")
        if not equals:
            key, value = names[i] if i < len(names) else "", part
        key = key.strip()
        if key not in names or key in given:
            raise ValueError(f"pattern: {name}({text[:60]}): what is '{part.strip()[:30]}'? it takes {', '.join(names)}")
        given[key] = value.strip()
    if names[0] not in given:
        raise ValueError(f"pattern: {name}({text[:60]}) lacks {names[0]}; write e.g. magnitude(pattern=4x1, sparsity=0.9) or threshold(0.01)")
    return given


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A pattern with what it takes: blocks and their sparsity, n:m, or a threshold.

    >>> p = Pattern.parse("4x1:0.9")
    >>> p.block, p.sparsity, str(p)
    ((4, 1), 0.9, '4x1:0.9')
    >>> p.mask(torch.ones(8, 10)).sum().item()
    8
    """

    text: str
    block: tuple[int, int] = (1, 1)  # 0 is the whole dimension: rows are 1x0, cols 0x1
    sparsity: float = 0.0
    keep: int = 0
    of: int = 0  # n:m where it is not 0
    along_out: bool = False
    below: float | None = None  # a threshold

    @classmethod
    def parse(cls, text: str | Pattern) -> Pattern:
        """Of a text; a ValueError says what it could be."""
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            raise TypeError(f"pattern: a text such as '4x1:0.9' is needed, not {type(text).__name__}")
        text = text.strip()
        call = _CALL.fullmatch(text)
        if call is None:
            return cls._plain(text)
        given = _arguments(*call.groups())
        if call[1] == "threshold":
            return cls(text, below=_number(given["value"], f"{text[:60]}: the value", math.inf))
        return cls._plain(given["pattern"] + (":" + given["sparsity"] if "sparsity" in given else ""))

    @classmethod
    def _plain(cls, text: str) -> Pattern:
        if re.match("heads|bands", text):
            raise ValueError(f"pattern: '{text[:60]}': {text[:5]} are not there yet; write {FORMS}")
        groups = re.fullmatch(r"(\d{1,7}):(\d{1,7})(.*)", text)
        if groups and not text.startswith(("rows", "cols")):
            keep, of, rest = int(groups[1]), int(groups[2]), groups[3]
            if rest not in ("", "@out"):
                raise ValueError(f"pattern: '{text[:60]}': '{rest[:30]}' after n:m, which takes no sparsity; only @out may follow")
            if not (2 <= of <= 256 and 1 <= keep <= of):
                raise ValueError(f"pattern: '{text[:60]}': n:m keeps n of each m, 1 <= n <= m, 2 <= m <= 256")
            return cls(text, keep=keep, of=of, along_out=rest == "@out")
        blocks = re.fullmatch(r"(rows|cols|(\d{1,7})x(\d{1,7}))(:.*)?", text)
        if not blocks or (blocks[2] and not (1 <= int(blocks[2]) <= _MOST and 1 <= int(blocks[3]) <= _MOST)):
            raise ValueError(f"pattern: '{text[:60]}' is no pattern; write {FORMS}")
        if not blocks[4]:
            raise ValueError(f"pattern: '{text[:60]}' has no sparsity; write e.g. {text[:30]}:0.9")
        sparsity = _number(blocks[4][1:], f"'{text[:60]}': the sparsity", 1)
        block = {"rows": (1, 0), "cols": (0, 1)}.get(blocks[1]) or (int(blocks[2]), int(blocks[3]))
        return cls(text, block=block, sparsity=sparsity)

    def __str__(self) -> str:
        return self.text

    def fits(self, shape: tuple[int, ...] | torch.Size) -> bool:
        """Does at least one whole block (or group) fit into a weight of this shape?"""
        rows, cols = shape[0], shape[1]
        if self.of:
            return self.of <= (rows if self.along_out else cols)
        return self.block[0] <= rows and self.block[1] <= cols

    def mask(self, weight: torch.Tensor) -> torch.Tensor:
        """Boolean of the weight's shape: True where an element stays."""
        if weight.dim() < 2:
            raise ValueError(f"pattern: a weight has at least 2 dimensions (outputs, inputs), this one has {weight.dim()}")
        if not weight.is_floating_point():
            raise TypeError(f"pattern: the weight is {weight.dtype}; only floats are pruned by magnitude")
        if self.below is not None:
            return ~(weight.detach().abs() < self.below)
        with torch.no_grad():
            sizes = weight.detach().double().abs()
            # What cannot be compared stays as long as possible.
            return self.stays(sizes.masked_fill(sizes.isnan(), math.inf))

    def stays(self, scores: torch.Tensor) -> torch.Tensor:
        """The same by scores in place of magnitudes, one for each element: what scores more stays. They may be negative."""
        seen = _seen(scores)
        if self.of:
            return _groups(seen, self).reshape(scores.shape)
        if not needed(seen.numel(), self.sparsity):
            return torch.ones(scores.shape, dtype=torch.bool, device=scores.device)
        score, weight = self.blocks(scores)
        return self.spread(largest(score, weight, needed(seen.numel(), self.sparsity)), scores.shape)

    def blocks(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each block the mean score, and how many elements it has; not for n:m."""
        seen = _seen(scores)
        block = self._block(seen.shape)
        tiles, weights = _tiles(seen, block), self.sizes(scores.shape).to(seen)
        # One element of every block after the other: the order of the C pruner, and so its sums to the last bit.
        total = torch.zeros_like(weights)
        for element in tiles.unbind(-1):
            total += element
        return total / weights, weights

    def sizes(self, shape: tuple[int, ...] | torch.Size) -> torch.Tensor:
        """How many elements each block of a weight of this shape has; at the edges fewer."""
        size = (shape[0], shape[1], math.prod(shape[2:]))
        rows, cols, places = (_lengths(n, b) for b, n in zip(self._block(size), size))
        return rows[:, None, None] * cols[None, :, None] * places

    def any(self, mask: torch.Tensor) -> torch.Tensor:
        """Of which blocks a mask has something; not for n:m."""
        seen = mask.reshape(mask.shape[0], mask.shape[1], -1)
        first, *rest = _tiles(seen, self._block(seen.shape)).unbind(-1)
        for element in rest:
            first = first | element
        return first

    def spread(self, blocks: torch.Tensor, shape: tuple[int, ...] | torch.Size) -> torch.Tensor:
        """What is said of each block, said of each element of a weight of this shape."""
        size = (shape[0], shape[1], math.prod(shape[2:]))
        for i, (b, n) in enumerate(zip(self._block(size), size)):
            blocks = blocks.repeat_interleave(b, i).narrow(i, 0, n)
        return blocks.reshape(shape)

    def _block(self, size) -> tuple[int, int, int]:
        """Rows and cols are whole filters and channels: all places of the window."""
        return self.block[0] or size[0], self.block[1] or size[1], size[2] if 0 in self.block else 1


def mask(weight: torch.Tensor, pattern: str | Pattern) -> torch.Tensor:
    """Which elements of a weight stay.

    >>> mask(torch.tensor([[1.0, -4.0, 3.0, 2.0]]), "2:4")
    tensor([[False,  True,  True, False]])
    """
    return Pattern.parse(pattern).mask(weight)


# ---------------------------------------------------------------- choices, of scores (outputs, inputs, places)
def _seen(scores: torch.Tensor) -> torch.Tensor:
    return scores.reshape(scores.shape[0], scores.shape[1], -1).double()


def _tiles(x: torch.Tensor, block) -> torch.Tensor:
    """(blocks along each dimension, elements of a block in their order), with zeros over the edge."""
    pads = [-size % b for size, b in zip(x.shape, block)]
    if any(pads):
        x = torch.nn.functional.pad(x, [p for pad in reversed(pads) for p in (0, pad)])
    for i, b in enumerate(block):
        x = x.unflatten(2 * i, (-1, b))
    return x.permute(0, 2, 4, 1, 3, 5).flatten(3)


def _lengths(size: int, block: int) -> torch.Tensor:
    """Of the blocks side by side."""
    lengths = torch.full((-(-size // block),), float(block), dtype=torch.float64)
    lengths[-1:] -= -size % block
    return lengths


def needed(count: int, sparsity: float) -> int:
    """Elements that must go; rounding of the product must not ask for one more."""
    return max(0, min(math.ceil(sparsity * count - count * 1e-12 - 1e-9), count))


def largest(scores: torch.Tensor, weights: torch.Tensor, need: int) -> torch.Tensor:
    """Which blocks stay when those with the lowest scores go until at least `need` elements went; of equals the first goes."""
    flat, each = scores.flatten(), weights.flatten()
    if need <= 0 or not len(flat):
        return torch.ones(scores.shape, dtype=torch.bool, device=scores.device)
    least, most = torch.stack(torch.aminmax(each)).tolist()
    if least == most:
        # The k-th lowest is found without sorting where that is faster: a GPU looks for one with few of its cores. Of its equals the first go.
        count = min(math.ceil(need / least), len(flat))
        last = torch.sort(flat).values[count - 1] if flat.is_cuda else torch.kthvalue(flat, count).values
        equal = flat == last
        stays = (flat > last) | (equal & (equal.cumsum(0) > count - (flat < last).sum()))
        return stays.reshape(scores.shape)
    order = torch.sort(flat, stable=True).indices
    before = each[order].cumsum(0) - each[order]
    stays = torch.empty(len(flat), dtype=torch.bool, device=scores.device)
    stays[order] = before >= need
    return stays.reshape(scores.shape)


def _groups(sizes: torch.Tensor, p: Pattern) -> torch.Tensor:
    axis = 0 if p.along_out else 1
    lines = sizes.movedim(axis, -1)
    # What lies over the edge goes first.
    lines = torch.nn.functional.pad(lines, (0, -lines.shape[-1] % p.of), value=-math.inf)
    groups = lines.unflatten(-1, (-1, p.of))
    order = torch.sort(groups, dim=-1, stable=True).indices
    stays = torch.zeros_like(groups, dtype=torch.bool).scatter(-1, order[..., p.of - p.keep :], True)
    return stays.flatten(-2).narrow(-1, 0, sizes.shape[axis]).movedim(-1, axis)
