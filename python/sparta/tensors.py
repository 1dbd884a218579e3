"""Formats as classes, and how they are put together.

    class Ellpack(sparta.SparseTensor):
        def __init__(self):
            with sparta.iter(dim=2) as (I, J):
                J.compress(coordinate=True).pack()
                self.indices = [I, J]

    Ellpack().format                                (i,j)->(i:dense, j:packed[auto])
    Ellpack.from_dense(w).to_dense()                packed by the library, and back

Everything here ends in a text of the format language (docs/formats.md), which the library reads. Needs no torch; torch's tensors are taken and given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ._loops import NAMES, Axis
from .formats import Format, Packed, pack

__all__ = [
    "BitmapTensor",
    "BsrTensor",
    "CooTensor",
    "CscTensor",
    "CsfTensor",
    "CsrTensor",
    "DcsrTensor",
    "DiaTensor",
    "EllpackTensor",
    "NMTensor",
    "SparseTensor",
]


class SparseTensor:
    """A format, and maybe a tensor stored in it. A subclass sets `indices`, those of sparta.iter() outermost first, or `text` in the language.

    >>> class Rows(SparseTensor):
    ...     text = "(i,j)->(i:compressed, j:dense)"
    >>> Rows.from_dense(np.eye(2, dtype=np.float32)).packed.storage["slots"]
    4
    """

    text: str | None = None
    indices: list[Axis] | None = None
    packed: Packed | None = None
    _torch = False

    @property
    def format(self) -> Format:
        """Its text, checked by the library."""
        return Format(self._written())

    def _written(self):
        if self.indices is None:
            if self.text is None:
                raise ValueError(f"{type(self).__name__}: its __init__ must set self.indices = [I, J] or self.text")
            return self.text
        indices = list(self.indices)
        if not indices or not all(isinstance(axis, Axis) for axis in indices):
            raise TypeError(f"{type(self).__name__}: indices must be those of sparta.iter(), not {self.indices!r}")
        if len(indices) != len(set(map(id, indices))) or {id(a) for a in indices} != {id(a) for a in indices[0]}:
            raise ValueError(f"{type(self).__name__}: indices must have each index of one sparta.iter() once")
        return f"({','.join(NAMES[: len(indices)])})->({', '.join(axis.level() for axis in indices)})"

    @classmethod
    def from_dense(cls, array: Any, *arguments: Any, mask: Any = None, limit: float = 0, **named: Any) -> SparseTensor:
        """Stores an array or torch tensor; the arguments behind it are those of the class. mask and limit as sparta.pack has them."""
        self = cls(*arguments, **named)
        self._torch = hasattr(array, "detach")
        array, mask = (x.detach() if getattr(x, "requires_grad", False) else x for x in (array, mask))
        self.packed = pack(array, self.format, mask, limit)
        return self

    def to_dense(self) -> Any:
        """Of the kind that from_dense was given."""
        if self.packed is None:
            raise ValueError(f"{type(self).__name__}: there is nothing stored in it; use {type(self).__name__}.from_dense(array)")
        dense = self.packed.numpy()
        if not self._torch:
            return dense
        import torch

        if self.packed.dtype == "bf16":
            return torch.from_numpy(dense.view("int16")).view(torch.bfloat16)
        return torch.from_numpy(dense)

    def __repr__(self):
        return f"<sparta.{type(self).__name__} {self.packed or self.format}>"


class CsrTensor(SparseTensor):
    """Where each row begins, and the columns of each."""

    text = "csr"


class CscTensor(SparseTensor):
    """Where each column begins, and the rows of each."""

    text = "csc"


class CooTensor(SparseTensor):
    """Row and column of each element."""

    text = "coo"


class DcsrTensor(SparseTensor):
    """csr without the empty rows."""

    text = "dcsr"


class BsrTensor(SparseTensor):
    """csr of blocks."""

    def __init__(self, height: int = 32, width: int | None = None):
        self.text = f"bsr({_size(height)},{_size(height if width is None else width)})"


class EllpackTensor(SparseTensor):
    """Every row as long as the longest, or as long as `width`."""

    def __init__(self, width: int | None = None):
        self.text = "ell" if width is None else f"(i,j)->(i:dense, j:packed[{_size(width)}])"


class DiaTensor(SparseTensor):
    """Whole diagonals."""

    text = "dia"


class BitmapTensor(SparseTensor):
    """One bit an element, and the values of those that are there."""

    text = "bitmap"


class CsfTensor(SparseTensor):
    """A tree, with a level for each dimension."""

    def __init__(self, dim: int = 3):
        if isinstance(dim, bool) or not isinstance(dim, int) or not 1 <= dim <= len(NAMES):
            raise ValueError(f"CsfTensor(dim={dim!r}): a tensor has 1 to {len(NAMES)} dimensions")
        names = NAMES[:dim]
        self.text = f"({','.join(names)})->({', '.join(f'{name}:compressed' for name in names)})"


class NMTensor(SparseTensor):
    """n of each m along the last dimension."""

    def __init__(self, n: int = 2, m: int = 4):
        width = {2: "u2", 4: "u2", 8: "u4", 16: "u4"}.get(_size(m), "u8")
        self.text = f"(i,j)->(i:dense, j/{m}:dense, j%{m}:structured[{_size(n)},{m}]), crd={width}"


def _size(value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"a format's size must be a number of at least 1, not {value!r}")
    return value


# ---------------------------------------------------------------- texts
def text_of(format: object) -> str:
    """The text of what stands for a format: a text, a sparta.Format, a class or an object of one."""
    if isinstance(format, (str, Format)):
        return str(format)
    if isinstance(format, type) and issubclass(format, SparseTensor):
        name = format.__name__
        try:
            format = format()
        except TypeError as error:
            raise TypeError(f"set_format({name}): the class needs arguments ({error}); give an object of it, {name}(...)") from None
    if isinstance(format, SparseTensor):
        return format._written()
    raise TypeError(f"set_format: a text, a sparta.Format or a sparta.SparseTensor is needed, not {format!r}")


_MAP = re.compile(r"\(([a-z,]+)\)->\((.*)\)((?:, *(?:pos|crd)[^,()]*)*)")


def levels_of(text: str) -> tuple[list[str], list[tuple[str, ...]], str]:
    """(dimensions, [(expression, kind)], widths) of a format that is one map."""
    found = _MAP.fullmatch(str(Format(text)))
    if not found:
        raise ValueError(f"format '{text}': only a format that is one map of levels can be put on axes; give a sum or an opaque format alone")
    # A comma between levels stands before "expression:"; those inside brackets do not.
    levels = re.split(r", (?=[^,:()\[\]]+:)", found[2])
    return found[1].split(","), [tuple(level.split(":", 1)) for level in levels], found[3]


class Layout:
    """A format put together axis by axis: block() cuts the dimensions, set_format() says how some of the axes are stored.

    >>> print(Layout(2).block(16, 16).set_format(EllpackTensor, [0, 1]).set_format(CooTensor, [2, 3]))
    (i,j)->(i/16:dense, j/16:packed[auto], i%16:compressed(nonunique), j%16:singleton(soa))
    """

    def __init__(self, dim: int = 2) -> None:
        if not 1 <= dim <= len(NAMES):
            raise ValueError(f"a tensor of {dim} dimensions; a format has 1 to {len(NAMES)}")
        self.names = list(NAMES[:dim])
        self.axes = list(self.names)
        self.groups: list[tuple[list[int], Any]] = []  # [(axes, [(expression, kind)])] in the order of their first axis
        self.whole: str | None = None  # the text of a format of the whole tensor

    def __bool__(self):
        return bool(self.whole or self.groups or len(self.axes) > len(self.names))

    def block(self, *sizes: int) -> Layout:
        """Axes 0 .. dim-1 count blocks, dim .. 2 dim-1 the elements inside of one."""
        if self:
            raise ValueError("block: the axes have a format or blocks already; call block() first, and once")
        if len(sizes) != len(self.names):
            raise ValueError(f"block{sizes}: {len(sizes)} sizes for {len(self.names)} dimensions")
        self.axes = [f"{n}/{_size(b)}" for n, b in zip(self.names, sizes)] + [f"{n}%{b}" for n, b in zip(self.names, sizes)]
        return self

    def set_format(self, format: object, axis: int | Sequence[int] | None = None) -> Layout:
        """How these axes are stored; None: the whole tensor, or the blocks."""
        text = text_of(format)
        if axis is None and len(self.axes) == len(self.names):
            if self.groups:
                raise ValueError("set_format: some axes have a format already; name the others with axis=[...]")
            Format(text)
            self.whole = text
            return self
        return self._put(text, self._checked(range(len(self.names)) if axis is None else axis))

    def _checked(self, axis):
        axis = [axis] if isinstance(axis, int) else list(axis)
        if self.whole:
            raise ValueError(f"axis: the whole tensor has format '{self.whole}' already")
        for a in axis:
            if isinstance(a, bool) or not isinstance(a, int) or not 0 <= a < len(self.axes):
                more = "; axes 2 and 3 exist only after block(n, m)" if len(self.axes) == len(self.names) else ""
                raise ValueError(f"axis={axis}: there is no axis {a!r}, they are 0 to {len(self.axes) - 1}{more}")
            if any(a in axes for axes, _ in self.groups):
                raise ValueError(f"axis={axis}: axis {a} has a format already")
        if not axis or len(set(axis)) != len(axis):
            raise ValueError(f"axis={axis}: name each axis once")
        return axis

    def _put(self, text, axis):
        names, levels, widths = levels_of(text)
        if len(names) != len(axis):
            raise ValueError(f"axis={axis}: format '{text}' has {len(names)} dimensions, not {len(axis)}")
        place = dict(zip(names, (self.axes[a] for a in axis)))
        for expression, _ in levels:
            if expression not in place:
                raise ValueError(f"axis={axis}: format '{text}' has a level '{expression}', which no part of a tensor can take; give it alone")
        if widths:
            raise ValueError(f"axis={axis}: format '{text}' says widths{widths}, which a part of a tensor cannot; leave them out")
        self.groups.append((axis, [(place[expression], kind) for expression, kind in levels]))
        self.groups.sort(key=lambda group: min(group[0]))
        return self

    def level(self, axis: int) -> Axis:
        """The one axis as an Axis, to compress() and pack(); what is said of it stays."""
        axis = axis + len(self.axes) if isinstance(axis, int) and axis < 0 else axis
        for axes, levels in self.groups:
            if axes == [axis] and isinstance(levels, Axis):
                return levels
        (axis,) = self._checked(axis)
        made = Axis(None, self.axes[axis])
        self.groups.append(([axis], made))
        self.groups.sort(key=lambda group: min(group[0]))
        return made

    def __str__(self):
        if self.whole:
            return self.whole
        said = {min(axes): levels for axes, levels in self.groups}
        taken = {a for axes, _ in self.groups for a in axes}
        levels = []
        for a, expression in enumerate(self.axes):
            if a in said:
                levels += [said[a].level()] if isinstance(said[a], Axis) else [f"{e}:{kind}" for e, kind in said[a]]
            elif a not in taken:
                levels.append(f"{expression}:dense")
        for name in self.names:  # blocks of 1 are none
            if f"{name}%1:dense" in levels:
                levels.remove(f"{name}%1:dense")
                levels = [level.replace(f"{name}/1:", f"{name}:") for level in levels]
        return str(Format(f"({','.join(self.names)})->({', '.join(levels)})"))


def blocks_of(text: str) -> tuple[int, int] | str | None:
    """(height, width) of the blocks that a matrix format stores whole, row of blocks by row of blocks: csr (1, 1), strip(4) (4, 1), bsr(8) (8, 8).
    "dense" where all elements are stored; None: another format."""
    try:
        names, levels, _ = levels_of(text)
    except ValueError:
        return None
    if len(names) != 2:
        return None
    if {kind for _, kind in levels} == {"dense"}:
        return "dense"
    rows, cols = names
    blocks = rf"{rows}(?:/(\d+))?:dense {cols}(?:/(\d+))?:compressed(?: {rows}%\d+:dense)?(?: {cols}%\d+:dense)?"
    found = re.fullmatch(blocks, " ".join(map(":".join, levels)))
    return (int(found[1] or 1), int(found[2] or 1)) if found else None
