"""What propagation leaves of each weight of an ONNX model, as indices: {name: (outputs, inputs)}.

sparta.propagate writes a smaller model, whose weights are slices of the given ones. To learn which slices, it is asked about a model of the same
zeros whose other elements say where they were: of a weight, their row (or, asked a second time, their column) counted from 1; of a vector, their
place in the lowest bits, which leaves its sign and nearly its size.
"""

from __future__ import annotations

import itertools
import os

import numpy as np
import onnx
from onnx import numpy_helper

from .package import propagate

PLACES = 16  # low bits of a float32 that say where an element of a vector was

Cut = dict[str, tuple[np.ndarray, ...]]


def upright(model: onnx.ModelProto) -> set[str]:
    """Weights that only a Transpose uses become their transpose, so that they keep their names. Returns which."""
    graph = model.graph
    uses: dict[str, int] = {}
    for node in graph.node:
        for name in node.input:
            uses[name] = uses.get(name, 0) + 1
    weights = {t.name: t for t in graph.initializer}
    turned: dict[str, str] = {}
    for node in list(graph.node):
        perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), [1, 0])
        weight = weights.get(node.input[0]) if node.op_type == "Transpose" else None
        if weight is None or uses[weight.name] != 1 or perm != [1, 0] or len(weight.dims) != 2:
            continue
        weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(numpy_helper.to_array(weight).T), weight.name))
        turned[node.output[0]] = weight.name
        graph.node.remove(node)
    for node in graph.node:
        node.input[:] = [turned.get(name, name) for name in node.input]
    return set(turned.values())


def _where(values: np.ndarray, axis: int) -> np.ndarray:
    """The same zeros, and elsewhere the index along the axis, from 1."""
    shape = [1] * values.ndim
    shape[axis] = -1
    index = np.arange(1, values.shape[axis] + 1, dtype=np.float32).reshape(shape)
    return np.where(values != 0, index, 0).astype(np.float32)


def _stamped(values: np.ndarray) -> np.ndarray:
    bits = values.astype(np.float32).view(np.uint32)
    low = np.uint32((1 << PLACES) - 1)
    stamped = (bits & ~low) | np.arange(values.size, dtype=np.uint32)
    return np.where(values != 0, stamped, bits).astype(np.uint32).view(np.float32)


def _probe(model: onnx.ModelProto, axis: int, folder: str) -> dict[str, np.ndarray]:
    """Its weights by name after propagation, with the indices along this axis in place of their elements."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    for tensor in asked.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or not values.ndim:
            continue
        if values.ndim > 1:
            tensor.CopyFrom(numpy_helper.from_array(_where(values, axis), tensor.name))
        elif values.size < 1 << PLACES:
            tensor.CopyFrom(numpy_helper.from_array(_stamped(values), tensor.name))
    given, out = os.path.join(folder, "given.onnx"), os.path.join(folder, "out.onnx")
    onnx.save(asked, given)
    propagate(given, out)
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer}


def _indices(found: np.ndarray, axis: int, whole: np.ndarray) -> np.ndarray | None:
    """Which indices along the axis are left; None: that cannot be told."""
    size = whole.shape[axis]
    if found.shape[axis] == size:
        return np.arange(size)
    lines = np.moveaxis(found, axis, 0).reshape(found.shape[axis], -1)
    index = lines.max(1).astype(np.int64) - 1
    empty = np.asarray(~np.moveaxis(whole, axis, 0).reshape(size, -1).any(1))
    return _gaps(index, empty)


def _gaps(index: np.ndarray, empty: np.ndarray) -> np.ndarray | None:
    """Lines of zeros that stayed say nothing (-1): they are those between their neighbours, where all of these stayed."""
    known = [-1, *index[index >= 0].tolist(), len(empty)]
    if any(a >= b for a, b in itertools.pairwise(known)):
        return None
    left, at, filled = 0, 0, []
    for a, b in itertools.pairwise(known):
        while at < len(index) and index[at] < 0:
            left, at = left + 1, at + 1
        between = [i for i in range(a + 1, b) if empty[i]]
        if left and left != len(between):
            return None
        filled += between if left else []
        filled += [b] if b < len(empty) else []
        left, at = 0, at + 1
    return np.array(filled, dtype=np.int64)


def _places(found: np.ndarray) -> np.ndarray | None:
    """Of a stamped vector."""
    if not found.all():
        return None
    index = (found.astype(np.float32).view(np.uint32) & np.uint32((1 << PLACES) - 1)).astype(np.int64)
    return index if (np.diff(index) > 0).all() else None


def cuts(path: str, folder: str) -> tuple[Cut, dict[str, str], dict[str, int]]:
    """Of each weight and vector that became smaller what is left along each axis; why it is not known of others; and the groups of convolutions."""
    model = onnx.load(path)
    turned = upright(model)
    rows, cols = _probe(model, 0, folder), _probe(model, 1, folder)
    out = onnx.load(os.path.join(folder, "out.onnx"))
    groups = {node.input[1]: a.i for node in out.graph.node if node.op_type == "Conv" for a in node.attribute if a.name == "group"}
    found: Cut = {}
    lost: dict[str, str] = {}
    for tensor in model.graph.initializer:
        name, whole = tensor.name, numpy_helper.to_array(tensor)
        if name not in rows or rows[name].shape == whole.shape or whole.dtype != np.float32 or rows[name].ndim != whole.ndim:
            continue
        if whole.ndim == 1:
            axes: tuple = (_places(rows[name]) if whole.size < 1 << PLACES else None,)
        else:
            axes = _indices(rows[name], 0, whole), _indices(cols[name], 1, whole)
        if any(axis is None for axis in axes):
            lost[name] = "which of its zeros stayed cannot be told"
        else:
            found[name] = tuple(reversed(axes)) if name in turned else tuple(axes)
    return found, lost, groups
