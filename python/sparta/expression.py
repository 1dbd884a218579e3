"""Expressions over operands in any formats: a kernel for just these, written, compiled and called as often as one likes (docs/kernels.md)."""

from __future__ import annotations

import ctypes as c
import math
import re
from collections.abc import Mapping
from typing import Any

from . import _arrays
from ._library import Context, Handle, header, lib, new, string, types
from .formats import Format, Packed, pack, view_sparse

_NAMED = types["sparta_named_tensor"]


class Expression(Handle):
    """A compiled kernel; expr() makes one. Operands that have a format are packed; the others are given by name with each call.

    >>> e = expr("y(i) = A(i,j)*x(j)", A=np.eye(3, dtype=np.float32), formats={"A": "csr"})
    >>> e(x=np.array([1, 2, 3], np.float32))
    array([1., 2., 3.], dtype=float32)
    """

    def __init__(self, context: Context, handle: Any, keep: Any, given: Mapping[str, Any]) -> None:
        super().__init__(context, handle, "sparta_expression_free")
        self._keep = keep  # packed operands are borrowed
        self._given = dict(given)
        self._operands: list[Any] = []
        while value := lib.sparta_expression_value_at(handle, len(self._operands)):
            self._operands.append(value.contents)

    @property
    def operands(self) -> dict[str, dict[str, Any]]:
        """Of each operand: shape (None: that of a call), type, format (None: row-major), and whether it is a result."""
        return {
            string(v.name): {"shape": _shape(v), "dtype": _arrays.dtype_name(v.dtype), "format": string(v.format), "result": bool(v.written)}
            for v in self._operands
        }

    @property
    def nest(self) -> str:
        """The loops after the schedule."""
        return string(lib.sparta_expression_nest(self._handle))

    @property
    def text(self) -> str:
        """The C text of the kernel."""
        return string(lib.sparta_expression_text(self._handle))

    def __call__(self, *, out: Any = None, **arrays: Any) -> Any:
        """Runs it: the result, or a dict of them by name where there are several.

        Arrays are NumPy's, or anything with __dlpack__ (torch's), of the operand's type; row-major on the CPU they are used as they lie. `out` is the
        array to write, or a dict of them by name; `+=` adds to what is there, or to 0. Without it results are new arrays: torch's where an operand of
        the call is. A result with a format is a Packed view of the expression's own memory, until the next call.
        """
        given = {**self._given, **arrays}
        results = [string(v.name) for v in self._operands if v.written and not v.format]
        outs = dict(out) if isinstance(out, Mapping) else {} if out is None else {results[0] if results else "": out}
        if out is not None and not isinstance(out, Mapping) and len(results) != 1:
            raise ValueError(f"expression: it has {len(results)} results; give out as a dict of them by name")
        for packed in self._keep.values():
            packed._look()
        with self._context.lock:
            inputs, keep = _named(given)
            for name in results:
                if outs.get(name) is None:
                    outs[name] = self._empty(name, inputs, arrays)
            outputs, kept, done = _written(outs)
            size = sum(math.prod(t.tensor.dim[: t.tensor.rank]) for t in (*inputs, *outputs))
            self._context.paced(size, "sparta_expression_run", self._handle, inputs, len(inputs), outputs, len(outputs))
            for call in done:
                call()
        del keep, kept
        found = {string(v.name): self._result(v, outs) for v in self._operands if v.written}
        return next(iter(found.values())) if len(found) == 1 else found

    def _empty(self, name: str, inputs: Any, arrays: Mapping[str, Any]) -> Any:
        """Zeros: a result that is added to begins as these."""
        import numpy as np

        wanted = (_NAMED * 1)(_NAMED(name=name))
        self._context.check(lib.sparta_expression_types(self._handle, inputs, len(inputs), wanted, 1))
        shape, code = tuple(wanted[0].tensor.dim[: wanted[0].tensor.rank]), wanted[0].tensor.dtype
        if any(type(a).__module__.partition(".")[0] == "torch" for a in arrays.values()):
            import torch

            return torch.zeros(shape, dtype={"f16": torch.float16, "bf16": torch.bfloat16}.get(_arrays.dtype_name(code), torch.float32))
        return np.zeros(shape, _arrays.numpy_dtype(code))

    def _result(self, value: Any, outs: Mapping[str, Any]) -> Any:
        if not value.format or string(value.name) in outs:
            return outs[string(value.name)]
        return _Stored(self, lib.sparta_expression_result(self._handle, value.name))

    def __repr__(self):
        return f"<sparta.Expression {self.nest.strip()}>"


class _Stored(Packed):
    """A result that has a format, where it lies: the expression owns it."""

    def __init__(self, owner: Expression, handle: Any) -> None:
        self._context, self._handle, self._owner = owner._context, handle, owner


def _shape(value):
    return tuple(None if n < 0 else n for n in value.dim[: value.rank])


def _named(arrays):
    """(named tensors, what must live as long as they do)."""
    tensors, keep = (_NAMED * len(arrays))(), []
    for slot, (name, array) in zip(tensors, arrays.items()):
        slot.name = name
        slot.tensor, kept = _arrays.view(array, name, rows=True)
        keep.append(kept)
    return tensors, keep


def _written(arrays):
    """The same of results, and what to call when they are there."""
    tensors, keep, done = (_NAMED * len(arrays))(), [], []
    for slot, (name, array) in zip(tensors, arrays.items()):
        slot.name = name
        slot.tensor, kept, call = _arrays.written(array, f"expression: out {name}")
        keep.append(kept)
        done.append(call)
    return tensors, keep, done


def expr(
    text: str,
    operands: Mapping[str, Any] | None = None,
    *,
    formats: Mapping[str, object] | None = None,
    dtypes: Mapping[str, str] | None = None,
    schedule: str | None = None,
    target: str | None = None,
    threads: int = 0,
    limit: float = 0,
    **named: Any,
) -> Expression:
    """A kernel for an expression in index notation, "C(i,k) = A(i,j)*B(j,k)".

    operands, or arguments by their names: those with a format are packed now (a Packed and a sparse matrix of SciPy or torch have one, and are
    borrowed), the others say sizes to expect and are what calls take that give no other. formats: by name, of results too: dense levels alone, or
    that of an operand with the same indices, whose pattern it then has. dtypes: "f16" or "bf16" by name, of results and of what calls give; what is
    given here has its own, all others are f32. Sums are f32. schedule: primitives of docs/schedules.md; None: what is good without
    tuning. limit: slots that a format may store for each non-zero; 0: 4.

    >>> sampled = expr("D(i,j) = M(i,j)*X(i,f)*Y(j,f)", M=np.tri(4, dtype=np.float32), formats={"M": "csr", "D": "csr"})
    >>> sampled(X=np.ones((4, 2), np.float32), Y=np.ones((4, 2), np.float32)).numpy()[1]
    array([2., 2., 0., 0.], dtype=float32)
    """
    context = Context()
    given, wanted = {**(operands or {}), **named}, {name: str(f) for name, f in (formats or {}).items()}
    written = set(re.findall(r"(?:^|;)\s*(\w+)\s*\(", text))
    tried = {name: _pack(array, wanted.get(name), limit) for name, array in given.items() if name not in written}
    packed = {name: p for name, p in tried.items() if p is not None}
    dense = {name: array for name, array in given.items() if name not in packed}
    told = {name: _dtype(name, word) for name, word in (dtypes or {}).items()}
    names = list(dict.fromkeys([*given, *wanted, *told]))
    list_of, keep = (types["sparta_expression_operand"] * len(names))(), []
    for operand, name in zip(list_of, names):
        operand.name = name
        if name in packed:
            if name in told and packed[name].dtype != _arrays.dtype_name(told[name]):
                raise TypeError(f"expression: {name} is {packed[name].dtype}, and dtypes says {_arrays.dtype_name(told[name])}; convert it first")
            operand.packed = packed[name]._handle
            continue
        if name in dense:
            operand.tensor, kept = _arrays.view(dense[name], name, rows=True)
            keep.append(kept)
        elif name in told:
            operand.tensor.dtype = told[name]
        if name in told and operand.tensor.dtype != told[name]:
            has = _arrays.dtype_name(operand.tensor.dtype)
            raise TypeError(f"expression: {name} is {has}, and dtypes says {_arrays.dtype_name(told[name])}; convert it first")
        operand.format = wanted.get(name)
    spec = new(
        "sparta_expression_spec", text=text, n=len(names), operand=list_of, schedule=schedule, target=target, threads=threads, limit=float(limit)
    )
    handle = context.make("sparta_expression_create", c.byref(spec))
    return Expression(context, handle, packed, {name: array for name, array in dense.items() if name not in written})


def _dtype(name: str, word: str) -> int:
    code = getattr(header.sparta_dtype, str(word).upper(), None)
    if code is None:
        raise ValueError(f"expression: dtypes: {name}: there is no type {word!r}; say f32, f16 or bf16")
    return code


def _pack(array: Any, format: str | None, limit: float) -> Packed | None:
    """None: it lies row-major. What is packed in the format that is asked for, and a sparse matrix without one, is borrowed."""
    stored = view_sparse(array)
    if stored is None:
        return None if format is None else pack(array, format, limit=limit)
    return stored if format is None or Format(format).text == stored.format else stored.to(format, limit)
