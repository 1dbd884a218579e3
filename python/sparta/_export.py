"""A torch module as a file, with the names of its parameters: for sparta.compile and compact_, which read no Python."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import logging
import os
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from . import _layers
from .masked import Masked, unmask_
from .stages import unbuild_

MOST = 1 << 16  # elements of a constant that is folded
LARGEST = 1_900_000_000  # bytes of weights that an ONNX file holds itself; beyond, they lie in a file beside it


def plain(model: nn.Module) -> nn.Module:
    """A copy for running, of ordinary modules: masked and packed layers are nn.Linear with zeros, and models of transformers answer without the
    cache that they would go on from, which is an object of theirs and no tensor."""
    twin = unbuild_(nn.Sequential(copy.deepcopy(model))).get_submodule("0")
    for module in list(twin.modules()):
        if isinstance(module, Masked):
            unmask_(module)
        config: Any = getattr(module, "config", None)
        if _of_transformers(config, "PreTrainedConfig", "PretrainedConfig") and getattr(config, "use_cache", None) is True:
            config.use_cache = False  # the copy's own
    return twin.eval()


def size(model: nn.Module) -> int:
    """Bytes of its parameters and buffers."""
    return sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))


def _need_exporter(where: str) -> None:
    lacking = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if lacking:
        raise ImportError(f"{where}: torch writes ONNX with {' and '.join(lacking)}; pip install {' '.join(lacking)}")


def _names(answer: Any) -> list[str] | None:
    """Names of the outputs: a dict's own, or output and output_1; None where they are nested."""
    if isinstance(answer, torch.Tensor):
        return ["output"]
    if hasattr(answer, "items"):
        return list(answer) if all(isinstance(v, torch.Tensor) for v in answer.values()) else None
    if isinstance(answer, (tuple, list)) and all(isinstance(v, torch.Tensor) for v in answer):
        return [f"output_{i}" for i in range(len(answer))]
    return None


def _shapes(inputs: Any, dims: Any, given: Any) -> Any:
    """What is said of open sizes, in torch's words; else the first dimension of each input under its name, where a size is asked for."""
    if given is not None or "batch" not in (dims or {}):
        return given
    batch = torch.export.Dim("batch")
    of = lambda x: {0: batch} if isinstance(x, torch.Tensor) and x.dim() else None
    return {name: of(x) for name, x in inputs.items()} if isinstance(inputs, dict) else tuple(of(x) for x in inputs)


@contextlib.contextmanager
def _quiet():
    """torch's exporter tells its progress; what matters comes as an exception."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logger.setLevel(level)


def has_onnx() -> bool:
    """Can torch write ONNX here?"""
    return all(importlib.util.find_spec(name) is not None for name in ("onnx", "onnxscript"))


def _named(shapes: Any) -> list[tuple[Any, int, str]]:
    """(input, axis, name) of each torch.export.Dim in dynamic_shapes; an input is its place or its name. Those that torch finds out have no name,
    nor has what a ShapesCollection or AdditionalInputs says."""
    found = []
    inputs = shapes.items() if isinstance(shapes, dict) else enumerate(shapes) if isinstance(shapes, (list, tuple)) else ()
    for key, said in inputs:
        axes = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, (list, tuple)) else ()
        for axis, dim in axes:
            name = getattr(dim, "__name__", None)
            if isinstance(axis, int) and isinstance(name, str) and name.isidentifier():
                found.append((key, axis, name))
    return found


def _names_of_sizes(exported: Any, shapes: Any) -> dict[str, str]:
    """What sparta-sizes.json says: {"x_0": "batch"}. Inputs inside of structures have sizes that are called after places."""
    inputs = exported.graph_signature.user_inputs  # None and numbers among them are no names, but have places
    place = {key: name for key, name in zip(inputs if isinstance(shapes, dict) else range(len(inputs)), inputs) if isinstance(name, str)}
    flat = isinstance(shapes, dict) or (isinstance(shapes, (list, tuple)) and len(shapes) == len(inputs))
    return {f"{place[key]}_{axis}": name for key, axis, name in _named(shapes) if flat and key in place}


def _given(inputs: Any, where: str, dims: dict | None, shapes: Any) -> Any:
    """Arguments in a row, or by name."""
    if inputs is None:
        raise ValueError(f"{where}: a torch module needs example_inputs: a tensor, a tuple of arguments or a dict of named ones")
    there = {"batch"} if shapes is None else {name for _, _, name in _named(shapes)}
    unknown = sorted(set(dims or {}) - there)
    if unknown and shapes is None:
        raise ValueError(
            f"{where}: no dim {unknown[0]!r}; a torch module has 'batch', the first dimension of each input; dynamic_shapes names others"
        )
    if unknown:
        raise ValueError(f"{where}: no dim {unknown[0]!r}; dynamic_shapes has {', '.join(sorted(there)) or 'none with a name'}")
    _need_no_cache(inputs, where)
    return dict(inputs) if hasattr(inputs, "keys") else tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _of_transformers(value: Any, *names: str) -> bool:
    """Is it of one of these classes of theirs, or of one that derives from it? The class went by several names."""
    return any(c.__name__ in names and c.__module__.startswith("transformers.") for c in type(value).__mro__)


def _need_no_cache(inputs: Any, where: str) -> None:
    """Neither a cache of transformers nor the wish for one."""
    named = inputs.items() if hasattr(inputs, "keys") else enumerate(inputs) if isinstance(inputs, (tuple, list)) else ()
    for name, value in named:
        if (name == "use_cache" and value) or _of_transformers(value, "Cache"):
            raise ValueError(
                f"{where}: example_inputs[{name!r}] asks for a cache of transformers, which is no tensor; leave it out: the whole sequence goes in"
            )


def program(model: nn.Module, inputs: Any, folder: str, where: str, dims: dict | None = None, dynamic_shapes: Any = None) -> str:
    """Writes model.pt2 into the folder and returns its path; the inputs are as export has them."""
    given = _given(inputs, where, dims, dynamic_shapes)
    arguments = ((), given) if isinstance(given, dict) else (given, None)
    path = os.path.join(folder, "model.pt2")
    try:
        with _quiet(), torch.no_grad():
            shapes = _shapes(given, dims, dynamic_shapes)
            exported = torch.export.export(plain(model), arguments[0], arguments[1], dynamic_shapes=shapes)
            sizes = _names_of_sizes(exported, shapes)
            torch.export.save(exported, path, extra_files={"sparta-sizes.json": json.dumps(sizes)})
    except Exception as error:
        raise ValueError(f"{where}: torch.export cannot take this module: {_last_line(error)}") from error
    return path


def export(model: nn.Module, inputs: Any, folder: str, where: str, dims: dict | None = None, dynamic_shapes: Any = None) -> str:
    """Writes model.onnx into the folder and returns its path. The inputs are a tensor, a tuple of arguments or a dict of named ones."""
    given = _given(inputs, where, dims, dynamic_shapes)
    _need_exporter(where)
    twin = plain(model)
    with torch.no_grad():
        names = _names(_layers.call(twin, given))
    arguments = ((), given) if isinstance(given, dict) else (given, None)
    path = os.path.join(folder, "model.onnx")
    try:
        with _quiet(), torch.no_grad():
            # Unoptimised: folding constants would rename the weights, and that is the engine's part.
            program: Any = torch.onnx.export(
                twin,
                arguments[0],
                kwargs=arguments[1],
                dynamo=True,
                verbose=False,
                optimize=False,
                output_names=names,
                dynamic_shapes=_shapes(given, dims, dynamic_shapes),
            )
            if size(twin) > LARGEST:
                program.save(path, external_data=True)
            else:
                _fold(program.model_proto, path)
    except Exception as error:
        raise ValueError(f"{where}: torch cannot write this module as ONNX: {_last_line(error)}") from error
    return path


def _fold(model: Any, path: str) -> None:
    """Writes the model, the biases of zeros that torch computes for convolutions without one folded: they hide what is constant."""
    import onnx
    from onnx import numpy_helper

    graph = model.graph
    shapes = {t.name: list(t.dims) for t in graph.initializer}
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info)}
    known: dict[str, np.ndarray] = {}
    for node in list(graph.node):
        attributes = {a.name: a for a in node.attribute}
        first = known.get(node.input[0]) if node.input else None
        value = None
        if node.op_type == "Constant":
            value = numpy_helper.to_array(attributes["value"].t) if "value" in attributes else None
            value = np.array(attributes["value_ints"].ints, np.int64) if "value_ints" in attributes else value
        elif node.op_type == "Shape" and node.input[0] in shapes:
            begin, end = (attributes[name].i if name in attributes else default for name, default in (("start", 0), ("end", None)))
            value = np.array(shapes[node.input[0]][begin:end], np.int64)
        elif node.op_type == "CastLike" and first is not None and types.get(node.input[1]):
            value = first.astype(onnx.helper.tensor_dtype_to_np_dtype(types[node.input[1]]))
        elif node.op_type == "Expand" and first is not None and node.input[1] in known:
            value = first * np.ones(known[node.input[1]].tolist(), first.dtype)
        if value is None or value.size > MOST:
            continue
        known[node.output[0]] = value
        if node.op_type != "Constant":
            graph.node.remove(node)
            graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
    for node in graph.node:
        if node.op_type == "Conv" and len(node.input) == 3 and node.input[2] in known and not known[node.input[2]].any():
            del node.input[2]
    onnx.save(model, path)


def _last_line(error: BaseException) -> str:
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[0][:300] if lines else ''}"
