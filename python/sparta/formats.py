"""Formats: how the elements of a tensor lie in memory (docs/formats.md); packed tensors."""

from __future__ import annotations

import ctypes as c
import re
from collections.abc import Sequence
from typing import Any

from . import _arrays
from ._library import Context, Handle, Path, contexts, lib, new, string, types


class Format:
    """A format of the language, checked.

    >>> print(Format("csr"))
    (i,j)->(i:dense, j:compressed)
    """

    def __init__(self, text: object, shape: Sequence[int] | None = None) -> None:
        dim = (c.c_int64 * len(shape))(*shape) if shape is not None else None
        out = c.create_string_buffer(1 << 16)
        with contexts.one() as context:
            context.call("sparta_format_print", str(text), len(shape or ()), dim, out, len(out))
        self.text = string(out.value)

    def __str__(self) -> str:
        return self.text

    def __repr__(self):
        return f"sparta.Format({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def pack(self, array: Any, mask: Any = None, limit: float = 0) -> Packed:
        """sparta.pack in this format."""
        return pack(array, self, mask, limit)


class Packed(Handle):
    """A tensor stored in a format. pack() makes one."""

    _lent: Any = None  # an array that has its values, and where they lay

    def __init__(self, context: Context, handle: Any) -> None:
        super().__init__(context, handle, "sparta_packed_free")

    def _look(self) -> None:
        """Before a call reads values that are lent: are they where they were?"""
        if self._lent is not None:
            array, address, elements = self._lent
            now, _ = _arrays.view(array, "its values")
            if (now.data, _arrays.elements(now)) != (address, elements):
                raise ValueError("its values: the array that lent them was resized since; make this anew")

    @classmethod
    def open(cls, path: Path) -> Packed:
        """One that was saved."""
        context = Context()
        return cls(context, context.make("sparta_packed_open", path))

    @property
    def format(self) -> str:
        """Its text, as str(Format(...)) has it."""
        return string(lib.sparta_packed_format(self._handle))

    def _type(self):
        t = types["sparta_tensor"]()
        lib.sparta_packed_type(self._handle, c.byref(t))
        return t

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor, not of its arrays."""
        t = self._type()
        return tuple(t.dim[: t.rank])

    @property
    def dtype(self) -> str:
        """The type of its values, "f32"."""
        return _arrays.dtype_name(self._type().dtype)

    @property
    def storage(self) -> dict[str, Any]:
        """elements, slots, bytes, fill (slots over elements)."""
        s = lib.sparta_packed_storage(self._handle).contents
        return {name: getattr(s, name) for name, _ in s._fields_}

    def to(self, format: object, limit: float = 0) -> Packed:
        """The same elements in another format, never through a dense copy."""
        self._look()
        context = Context()
        with self._context.lock:
            return Packed(context, context.make("sparta_packed_convert", self._handle, str(format), float(limit)))

    def numpy(self) -> Any:
        """Dense; absent elements are 0."""
        self._look()
        t = self._type()
        out = _arrays.empty(t.dtype, self.shape)
        view, _, _ = _arrays.written(out, "out")
        view.dtype = t.dtype
        with self._context.lock:
            self._context.long("sparta_packed_unpack", self._handle, c.byref(view))
        return out

    def arrays(self) -> dict[str, Any]:
        """Its arrays without a copy: {"l1_pos": ..., "l1_crd": ..., "values": ...}, of level 1; a bitmap's bits are its coordinates. Read-only."""
        self._look()
        a = new("sparta_arrays")
        with self._context.lock:
            self._context.call("sparta_packed_arrays", self._handle, c.byref(a))
        arrays = {f"l{k}_{what}": _arrays.borrow(t, self) for what in ("pos", "crd") for k, t in enumerate(getattr(a, what)) if t.data}
        return {**arrays, "values": _arrays.borrow(a.values, self)} if a.values.data else arrays

    def save(self, path: Path) -> Path:
        """An .npz that NumPy opens (docs/files.md)."""
        self._look()
        with self._context.lock:
            self._context.long("sparta_packed_save", self._handle, path)
        return path

    def __repr__(self):
        return f"<sparta.Packed {'x'.join(map(str, self.shape))} {self.dtype} {re.sub(' +', ' ', self.format)}>"


def pack(array: Any, format: object, mask: Any = None, limit: float = 0) -> Packed:
    """The elements that are not 0, or those that the mask has. limit: slots an element, past which it is an error; 0: 4.

    >>> packed = pack(np.eye(3, dtype=np.float32), "csr")
    >>> packed.arrays()["l1_crd"]
    array([0, 1, 2], dtype=int32)
    """
    context = Context()
    dense, keep = _arrays.view(array, "array")
    hidden = None
    if mask is not None:
        hidden, keep_mask = _arrays.view(mask, "mask")
        keep = (keep, keep_mask)
    packed = context.make("sparta_packed_create", str(format), c.byref(dense), c.byref(hidden) if hidden else None, float(limit))
    del keep
    return Packed(context, packed)


def view_sparse(array: Any) -> Packed | None:
    """A sparse matrix of SciPy or torch (csr, csc, bsr) as a Packed: its positions copied, its values where they lie. None: it is none. SciPy's
    others become csr first."""
    package, kind = type(array).__module__.partition(".")[0], ""
    if isinstance(array, Packed):
        return array
    if package == "scipy" and hasattr(array, "tocsr"):
        array = array if array.format in ("csr", "csc", "bsr") else array.tocsr()
        if not array.has_canonical_format:
            array = array.copy()
            array.sum_duplicates()
        kind, arrays = array.format, (array.indptr, array.indices, array.data)
    elif str(getattr(array, "layout", "")) in _TORCH:
        kind, crow, col = _TORCH[str(array.layout)]
        # What has no memory is refused by its values, before its sizes are looked at.
        arrays = (getattr(array, crow)(), getattr(array, col)(), array.values())
    if not kind:
        return None
    views = [_arrays.view(a, what, rows=True) for a, what in zip(arrays, ("its values' positions", "its values' coordinates", "its values"))]
    pos, crd, values = (v[0] for v in views)
    blocks = f"({values.dim[1]},{values.dim[2]})" if kind == "bsr" else ""
    if len(array.shape) != 2 or values.rank != (3 if blocks else 1):
        raise ValueError(f"a sparse {kind} of {len(array.shape)} dimensions is not taken; give a matrix")
    return _view(f"{kind}{blocks}, pos={_arrays.dtype_name(pos.dtype)}, crd={_arrays.dtype_name(crd.dtype)}", array.shape, views)


_TORCH = {
    "torch.sparse_csr": ("csr", "crow_indices", "col_indices"),
    "torch.sparse_csc": ("csc", "ccol_indices", "row_indices"),
    "torch.sparse_bsr": ("bsr", "crow_indices", "col_indices"),
}


def _view(format, shape, views):
    """Positions and coordinates of the second level, and values: what csr, csc and bsr have."""
    pos, crd, values = (v[0] for v in views)
    slots = (values.dim[0] * values.dim[1] * values.dim[2]) if values.rank == 3 else values.dim[0]
    values = lib.sparta_tensor_view(values.dtype, 1, (c.c_int64 * 1)(slots), values.data)
    a = new("sparta_arrays", format=format, dtype=values.dtype, rank=len(shape))
    a.dim[: len(shape)] = shape
    a.pos[1], a.crd[1], a.values = pos, crd, values
    context = Context()
    packed = Packed(context, context.make("sparta_packed_view", c.byref(a)))
    lender = views[2][1]
    packed._lent = lender, values.data, _arrays.elements(_arrays.view(lender, "its values")[0])
    return packed
