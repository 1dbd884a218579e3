"""What the library does with model files and needs no torch for: prune, verify, report."""

from __future__ import annotations

import contextlib
import ctypes as c
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._library import Context, Path, lib, new, string, types
from ._report import Report
from .package import Package, _called, _file, _globs, _is_module, _named, _options, inspect, save_arrays

_PRUNED = {name: name for name in ("name", "shape", "density", "norm_kept", "error", "left")}


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _by_name(arrays: Any, where: str) -> Mapping[str, Any]:
    if isinstance(arrays, Mapping):
        return arrays
    raise TypeError(f"{where}: arrays are given by the names of the inputs, {{'x': array}}, not as {type(arrays).__name__}")


@contextlib.contextmanager
def _path(model: Any, where: str):
    """Of a model in any form that is no torch module."""
    if _is_module(model):
        raise TypeError(f"{where}: a torch.nn.Module is none; give a file, e.g. of torch.export.save or sparta.compile(model, path)")
    if isinstance(model, Package):
        with tempfile.TemporaryDirectory(prefix="sparta-") as folder:
            yield model.save(os.path.join(folder, "model.sparta"))
        return
    with _file(model, where) as path:
        yield path


# ---------------------------------------------------------------- prune
def prune(
    model: Any,
    out: Path,
    pattern: str,
    *,
    method: str = "magnitude",
    data: Path | Mapping[str, Any] | None = None,
    keep: str | Iterable[str] = (),
    progress: Callable[[int, int, str], object] | None = None,
    threads: int = 0,
    **options: Any,
) -> Report:
    """Writes an ONNX model (out) with less of the weights of a model: of an ONNX or .pt2 file, bytes or an onnx.ModelProto, as `sparta prune` does.

    pattern: "4x1:0.9", "2:4". method: "magnitude", or "wanda" and "sparsegpt", which look at data: an .npz, a .safetensors or a dict with an array
    for each input, items along the first dimension. keep: globs of weights or layers to leave. Options: masks, schedule, dims, external_data_root,
    external.
    Returns a row for each matrix-like weight: what is left of it, of its norm and of its layer's output, and why it was left as it is.

    >>> rows = prune(model, out, "4x1:0.95", keep="fc3*")
    >>> [(row["name"], round(row["density"], 2), row["left"]) for row in rows]
    [('fc1.weight', 0.05, ''), ('fc2.weight', 0.05, ''), ('fc3.weight', 1.0, 'kept, as asked for')]
    """
    context = Context()

    def tell(_, done, every, what):
        try:
            progress(done, every, string(what))
        except BaseException as e:  # goes on where the call comes back
            context.stop(e)

    with contextlib.ExitStack() as stack:
        path = stack.enter_context(_path(model, "prune"))
        if data is not None and not isinstance(data, (str, bytes, os.PathLike)):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sparta-"))
            data = save_arrays(os.path.join(folder, "data.npz"), _by_name(data, "prune: data"))
            stack.enter_context(_called(data, "data"))
        o = new("sparta_prune_options", pattern=pattern, method=method, threads=threads)
        o.data, o.keep = data, _globs(keep, "keep")
        if progress:
            o.progress = type(o.progress)(tell)
        compile_options = stack.enter_context(_options(context, "prune", **options))
        handle = types["sparta_pruned"]()
        try:
            context.long("sparta_prune_file", path, out, o, compile_options, c.byref(handle))
            return Report(_weights(handle), _PRUNED)
        finally:
            lib.sparta_pruned_free(handle)


def _weights(handle):
    i = 0
    while w := lib.sparta_pruned_weight_at(handle, i):
        w, i = w.contents, i + 1
        row = {"name": string(w.name), "shape": list(w.dim[: w.rank])}
        yield {**row, **{key: _known(getattr(w, key)) for key in ("density", "norm_kept", "error")}, "left": string(w.left)}


# ---------------------------------------------------------------- verify
def verify(model: Any, against: Any, inputs: Mapping[str, Any] | None = None, *, seed: int = 0, **options: Any) -> dict[str, Any]:
    """Do two models give the same answer? As `sparta verify --json` says it; each is a Package, or a package, ONNX or .pt2 file, and is run.

    inputs: arrays by name; without, inputs are made from the seed, at a few sizes. Options: masks, dims (sizes of the inputs that are made),
    rtol, atol, threads, external_data_root, external.

    >>> found = verify(sparta.compile(model), model)
    >>> found["ok"], found["outputs"][0]["name"]
    (True, 'logits')
    """
    context = Context()
    with contextlib.ExitStack() as stack:
        paths = [stack.enter_context(_path(m, "verify")) for m in (model, against)]
        o = new("sparta_verify_options", seed=seed)
        if inputs is not None and (inputs := _by_name(inputs, "verify: inputs")):
            o.inputs, held = _named(inputs)
            o.n_inputs = len(held) - 1
        compile_options = stack.enter_context(_options(context, "verify", **options))
        handle = context.make("sparta_verify", *paths, o, compile_options)
        try:
            return _found(handle)
        finally:
            lib.sparta_verified_free(handle)


def _found(handle):
    facts, outputs = lib.sparta_verified_facts_of(handle).contents, []
    while o := lib.sparta_verified_output_at(handle, len(outputs)):
        o = o.contents
        numbers = {key: _known(getattr(o, key)) for key in ("max_abs", "max_rel", "cosine", "allowed")}
        outputs.append({"name": string(o.name), "ok": bool(o.same), **numbers})
    sizes = [string(size) for size in facts.sizes if size]
    return {"ok": bool(facts.same), "outputs": outputs, "first_difference": string(facts.first_difference), "sizes": sizes}


# ---------------------------------------------------------------- report
def report(model: Any) -> Report:
    """What runs each layer of a model, and why it is not faster: rows as `sparta inspect` has them; print shows a table. Of a file or a Package,
    and of a torch.nn.Module what sparta.build_ took, with the weights that are left whatever their zeros are.

    >>> rows = report(sparta.compile(model))
    >>> rows[0]["name"], rows[0]["op"], rows[0]["sparse"]
    ('/fc1/Gemm', 'Linear', True)
    """
    if _is_module(model):
        from .stages import report as of_module

        return of_module(model)
    if isinstance(model, Package):
        return Report(model.layers)
    with _path(model, "report") as path:
        return Report(inspect(path)["layers"])
