"""Compiled models: compile, load, run, time; and what is known of a file without running it."""

from __future__ import annotations

import contextlib
import ctypes as c
import functools
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _arrays
from ._library import Context, Error, Handle, Path, Pool, lib, new, numbers, string, texts, types
from .schedule import Schedule

_NAMED = types["sparta_named_tensor"]


# ---------------------------------------------------------------- options
def _dims(dims):
    """{"batch": 4, "sequence": (1, 128, 512)} -> name=4, name=1:128:512."""
    for name, size in (dims or {}).items():
        yield f"{name}={':'.join(map(str, size)) if isinstance(size, (tuple, list)) else size}"


def _joined(value, kind):
    """Several of a kind as one text: [1, 16] as "1,16". Anything else as it is."""
    several = value if isinstance(value, (tuple, list)) else [value]
    return ",".join(map(str, several)) if several and all(type(v) is kind for v in several) else value


def _globs(value, name):
    """One text or several; None: none."""
    several = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    return texts(value if several else [] if value is None else [value], name)


# Which options count, by what is done (sparta.h says it of each function); of compile all that are.
_COUNT = {
    "fit": {"dims", "threads", "target", "external_data_root", "db", "progress"},
    "inspect": {"external_data_root", "external", "dims", "masks", "schedule", "limit", "no_propagate", "db"},
    "prune": {"external_data_root", "external", "dims", "masks", "schedule"},
    "verify": {"external_data_root", "external", "dims", "masks", "schedule", "remove", "threads", "rtol", "atol"},
    "propagate": {"external_data_root", "external", "dims", "masks", "schedule", "remove", "multiple", "threads", "tesa"},
}


@contextlib.contextmanager
def _called(path, name):
    """Messages name what the user gave, not the file that it went through."""
    try:
        yield
    except Error as error:
        error.args = (str(error).replace(path, name),)
        raise


@contextlib.contextmanager
def _options(context, where, masks=None, schedule=None, dims=None, remove=(), progress=None, external=None, **more):
    """sparta_compile_options of keyword arguments; a name that the header does not have, or that does not count here, is a TypeError. What it makes
    lives within."""
    known = {f[0] for f in types["sparta_compile_options"]._fields_} - {"size", "rules", "progress_user", "n_external"}
    counts = _COUNT.get(where, known - {"tesa"})
    given = dict(more, masks=masks, schedule=schedule, dims=dims, remove=remove or None, progress=progress, external=external)
    for name in sorted(name for name, value in given.items() if name in more or value is not None):
        if name not in counts:
            said = "does not count here" if name in known else "is unknown"
            raise TypeError(f"{where}: option {name!r} {said}; there are {', '.join(sorted(counts))}")
    with contextlib.ExitStack() as stack:
        if isinstance(masks, dict):
            import tempfile

            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sparta-"))
            masks = save_arrays(os.path.join(folder, "masks.npz"), masks)
            stack.enter_context(_called(masks, "masks"))
        for name, kind in ("tokens", int), ("target", str):
            if name in more:
                more[name] = _joined(more[name], kind)
        o = new("sparta_compile_options", masks=masks, **more)
        if hasattr(schedule, "schedule"):  # sparta.create_schedule's
            schedule = schedule.schedule()
        if isinstance(schedule, Schedule):
            o.rules = schedule.again(context, stack)
        elif schedule is not None:
            o.schedule = schedule
        if external:
            o.external, o.held = _named(external)  # who makes something that reads it keeps it as long
            o.n_external = len(external)
        o.dims, o.remove = texts(_dims(dims), "dims"), _globs(remove, "remove")

        def tell(_, done, every, what):
            try:
                progress(done, every, string(what))
            except BaseException as e:  # goes on where the call comes back
                context.stop(e)

        if progress:
            o.progress = type(o.progress)(tell)
        yield o


def _is_path(model):
    return isinstance(model, (str, os.PathLike))


def _is_module(model):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


@contextlib.contextmanager
def _file(model, where="compile", example_inputs=None, dims=None, via="pt2", dynamic_shapes=None):
    """The path of a model that is given as one, as the bytes of an ONNX model, as an onnx.ModelProto or as a torch module."""
    if not _is_module(model) and (example_inputs is not None or dynamic_shapes is not None):
        raise ValueError(f"{where}: example_inputs and dynamic_shapes are for a torch.nn.Module; a file says its own: leave them out")
    if _is_path(model):
        yield model
        return
    if _is_module(model):
        import tempfile

        from . import _export

        with tempfile.TemporaryDirectory(prefix="sparta-") as folder:
            yield (_export.program if via == "pt2" else _export.export)(model, example_inputs, folder, where, dims, dynamic_shapes)
        return
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise TypeError(f"a model is a path, bytes, an onnx.ModelProto or a torch.nn.Module, not {type(model).__name__}")
    import tempfile

    with tempfile.TemporaryDirectory(prefix="sparta-") as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model)
        yield path


def _ways(model, via):
    """How a torch module becomes a file: as a program of torch.export, and as ONNX where that has an operator we do not know."""
    if via and not _is_module(model):
        raise ValueError(f"compile: via={via!r} is for a torch.nn.Module; a file is what it is: leave it out")
    if via not in (None, "pt2", "onnx"):
        raise ValueError(f"compile: via is 'pt2' or 'onnx', not {via!r}")
    if via or not _is_module(model):
        return [via or "pt2"]
    from ._export import has_onnx

    return ["pt2", "onnx"] if has_onnx() else ["pt2"]


_EXPERTS = "transformers.grouped_mm"  # the operator of theirs that runs a mixture of experts


def _as_file(call, model, where, example_inputs=None, dims=None, via=None, dynamic_shapes=None):
    """call(path) with the model as a file, in the first form that has no operator which is not supported."""
    refusals: list[Exception] = []
    for way in _ways(model, via):
        try:
            with _file(model, where, example_inputs, dims, way, dynamic_shapes) as path:
                return call(path)
        except Error as error:
            if error.status != "E_UNSUPPORTED":
                raise
            refusals.append(error)
        except ValueError as error:
            if not refusals:
                raise
            refusals.append(error)  # torch has no other form of what the first one lacks
    first, last = refusals[0], refusals[-1]
    if isinstance(last, Error) and _EXPERTS not in str(last):
        raise last
    words = "; ".join(map(str, refusals))
    if _EXPERTS in words:
        words += '; call model.set_experts_implementation("batched_mm") before, by which experts are products that are supported'
    both = type(first)(words)
    both.status = first.status
    raise both from last


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> Path:
    """Named arrays into an .npz or .safetensors. Returns the path."""
    named, _held = _named(arrays)
    Context().long("sparta_archive_save", path, named, len(arrays))
    return path


def _named(arrays: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Arrays as the library takes them, and what has to live as long."""
    named, held = (_NAMED * len(arrays))(), []
    for slot, (name, array) in zip(named, arrays.items()):
        slot.name = name
        slot.tensor, keep = _arrays.view(array, name)
        held.append(keep)
    return named, [named, *held]


# ---------------------------------------------------------------- reports
def _rows(report, what):
    function, i = getattr(lib, "sparta_report_" + what), 0
    while row := function(report, i):
        yield row.contents
        i += 1


def _layer(l):
    """As `sparta inspect --json` has it."""
    known = lambda x: None if x != x else x
    row = {
        "name": string(l.name),
        "op": string(l.op),
        "shape": [l.n, l.k] if l.n else [],
        "dtype": _arrays.dtype_name(l.dtype),
        "pattern": string(l.pattern),
        "block": string(l.block),
        "density": l.density,
        "implement": string(l.implement),
        "sparse": bool(l.sparse),
        "reason": string(l.reason),
        "source": string(l.source),
        "us": known(l.us),
        "dense_us": known(l.dense_us),
    }
    if l.format:
        row["format"] = string(l.format)
    return row


def _facts(report):
    f = lib.sparta_report_facts(report).contents
    facts = {
        "nodes": f.nodes,
        "parameters": f.parameters,
        "bytes": f.bytes,
        "symbols": [string(s.name) for s in _rows(report, "symbol")],
        "bounds": {string(s.name): s.most for s in _rows(report, "symbol") if s.most != 2**63 - 1},
        "least": {string(s.name): s.least for s in _rows(report, "symbol") if s.least},
        "operators": {string(o.name): o.nodes for o in _rows(report, "operator")},
        "parameters_after": f.parameters_left,
        "unaccelerated_share": f.unaccelerated,
        "unaccelerated_reason": string(f.unaccelerated_reason),
        "unaccelerated_hint": string(f.unaccelerated_hint),
        "layers": [_layer(l) for l in _rows(report, "layer")],
    }
    if f.opset:
        facts["opset"] = f.opset
    return facts


@contextlib.contextmanager
def _report(context, function, *arguments):
    report = context.make(function, *arguments)
    try:
        yield report
    finally:
        lib.sparta_report_free(report)


def inspect(path: Path, **options: Any) -> dict[str, Any]:
    """What is in a model (ONNX or .pt2) or a package, as `sparta inspect --json` says it; nothing is run.

    >>> facts = inspect(model)
    >>> round(facts["layers"][0]["density"], 1)
    0.1
    """
    context = Context()
    kind = c.c_int()
    context.call("sparta_file_kind_of", path, c.byref(kind))
    if kind.value == numbers["SPARTA_FILE_PACKAGE"]:
        if options:
            raise TypeError(f"inspect: {os.fspath(path)} is a package, of which no option counts; leave {next(iter(options))!r} out")
        return load(path).inspect()
    with _options(context, "inspect", **options) as o, _report(context, "sparta_model_report", path, o) as report:
        facts = _facts(report)
        return {"name": os.fspath(path), "kind": "onnx" if "opset" in facts else "pt2", **facts}


# ---------------------------------------------------------------- packages
class _Session:
    """A session with the context that it runs in."""

    def __init__(self, package, threads):
        self.context = Context()
        options = new("sparta_session_options", threads=threads)
        self.handle = Handle(self.context, self.context.make("sparta_session_create", package._handle, options), "sparta_session_free")
        self.package = package  # lives as long as its sessions


def sessions(package: Package, threads: int) -> Pool:
    """Sessions of a package on so many threads, for who has memory of its own to give to a run."""
    return Pool(functools.partial(_Session, package._open(), threads))


class Package:
    """A compiled model. Any number of threads may run it at once.

    >>> package = compile(model)
    >>> answer = package.run({"x": np.ones((2, 784), np.float32)})
    >>> answer["logits"].shape
    (2, 10)
    """

    def __init__(self, context: Context, handle: Any, threads: int = 0, name: str | None = None) -> None:
        self._name = name
        self._package: Handle | None = Handle(context, handle, "sparta_package_close")
        self._sessions = Pool(functools.partial(_Session, self._package, threads))

    def _open(self) -> Handle:
        """Its handle's owner, which the caller keeps as long as it uses the handle."""
        package = self._package
        if not package:
            raise ValueError("the package is closed")
        return package

    @staticmethod
    def _names(package, what):
        name = getattr(lib, f"sparta_package_{what}_name")
        return [string(name(package._handle, i)) for i in range(getattr(lib, f"sparta_package_{what}s")(package._handle))]

    def _types(self, what):
        package, types_ = self._open(), {}
        for i, name in enumerate(self._names(package, what)):
            t = types["sparta_tensor"]()
            getattr(lib, f"sparta_package_{what}_type")(package._handle, i, c.byref(t))
            types_[name] = (_arrays.dtype_name(t.dtype), tuple(None if d < 0 else d for d in t.dim[: t.rank]))
        return types_

    @property
    def inputs(self) -> dict[str, tuple[str, tuple[int | None, ...]]]:
        """{name: (dtype, shape)}; None is a size that a run may choose."""
        return self._types("input")

    @property
    def outputs(self) -> dict[str, tuple[str, tuple[int | None, ...]]]:
        """The same of what comes out."""
        return self._types("output")

    @property
    def note(self) -> str:
        """What whoever runs it should know; "" when there is nothing."""
        package = self._open()
        return string(lib.sparta_package_note(package._handle))

    def run(self, inputs: Any, outputs: Iterable[str] | None = None) -> dict[str, Any]:
        """Arrays by the names of the inputs in, or one array where there is one input; NumPy arrays by the names of the outputs out (all of them, or
        those asked for)."""
        package, sessions, inputs = self._open(), self._sessions, self._named(inputs)
        outputs = [outputs] if isinstance(outputs, str) else outputs
        wanted = self._names(package, "output") if outputs is None else list(outputs)
        given, keep = (_NAMED * len(inputs))(), []
        for slot, (name, array) in zip(given, inputs.items()):
            slot.name = name
            slot.tensor, held = _arrays.view(array, f"input {name!r}", rows=True)
            keep.append(held)
        answers = (_NAMED * len(wanted))()
        for slot, name in zip(answers, wanted):
            slot.name = name
        with sessions.one() as session:
            size = sum(math.prod(slot.tensor.dim[: slot.tensor.rank]) for slot in given)
            session.context.paced(size, "sparta_session_run", session.handle._handle, given, len(given), answers, len(answers))
            # Before the session goes to somebody else: its next run writes there.
            return {name: _arrays.copy(slot.tensor) for name, slot in zip(wanted, answers)}

    def _named(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        names = self._names(self._open(), "input")
        if len(names) != 1:
            raise TypeError(f"the package has {len(names)} inputs; give them by name: {{{', '.join(f'{name!r}: array' for name in names)}}}")
        return {names[0]: inputs}

    def __call__(self, inputs: Any) -> Any:
        """As run, but where there is one output it is that array.

        >>> compile(model)(np.ones((2, 784), np.float32)).shape
        (2, 10)
        """
        answers = self.run(inputs)
        return next(iter(answers.values())) if len(answers) == 1 else answers

    def __repr__(self) -> str:
        if not self._package:
            return "<sparta.Package, closed>"
        words = [f"{name}: {dtype}[{','.join('?' if n is None else str(n) for n in dim)}]" for name, (dtype, dim) in self.inputs.items()]
        return f"<sparta.Package {self._name or 'in memory'} ({', '.join(words)}) -> ({', '.join(self.outputs)})>"

    def inspect(self) -> dict[str, Any]:
        """What is in it, as `sparta inspect --json` says it."""
        package = self._open()
        with package._context.lock, _report(package._context, "sparta_package_report", package._handle, None) as report:
            targets = [{"name": string(t.name), "kernels": t.kernels, "checked": bool(t.checked)} for t in _rows(report, "target")]
            return {"name": self._name, "kind": "package", **_facts(report), "targets": targets, "warning": self.note or None}

    @property
    def layers(self) -> list[dict[str, Any]]:
        """What runs each layer, and why it is not faster: rows as `sparta inspect --json` has them."""
        return self.inspect()["layers"]

    @property
    def isa(self) -> str:
        """The target whose code runs here, "avx512"; "portable" where the package has none that does."""
        self._open()
        with self._sessions.one() as session:
            return string(lib.sparta_session_isa(session.handle._handle))

    def save(self, path: Path) -> Path:
        """Into a file: the old one or the new one is there, never a half."""
        package = self._open()
        with package._context.lock:
            package._context.long("sparta_package_save", package._handle, path)
        return path

    def check(self) -> None:
        """Digests of all weights against the file."""
        package = self._open()
        with package._context.lock:
            package._context.long("sparta_package_check", package._handle)

    def bench(self, inputs: Any, against: Package | Callable[..., Any] | None = None, seconds: float = 1.0) -> dict[str, Any]:
        """Milliseconds of a run with these inputs, and of another package's (or any function of the inputs), alternately.

        {"subject": {"median_ms", "p90_ms", "p99_ms", "best_ms", "runs"}, "baseline": {...}, "ratio"}. A run here copies its outputs; `sparta bench`
        times the run alone.
        """
        subjects: dict[str, Callable[..., Any]] = {"subject": self.run}
        if against is not None:
            subjects["baseline"] = against.run if isinstance(against, Package) else against
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for run in subjects.values():
            run(inputs)
        end = time.perf_counter() + seconds * len(subjects)
        while time.perf_counter() < end or not times["subject"]:
            for name, run in subjects.items():
                start = time.perf_counter()
                run(inputs)
                times[name].append(1e3 * (time.perf_counter() - start))
        at = lambda t, share: sorted(t)[min(int(share * len(t)), len(t) - 1)]
        result: dict[str, Any] = {
            name: {"median_ms": at(t, 0.5), "p90_ms": at(t, 0.9), "p99_ms": at(t, 0.99), "best_ms": min(t), "runs": len(t)}
            for name, t in times.items()
        }
        if against is not None:
            result["ratio"] = result["baseline"]["median_ms"] / result["subject"]["median_ms"]
        return result

    def close(self) -> None:
        """Lets go of its memory, which is freed when the last run that is under way ends. Nothing can be asked of it afterwards."""
        self._package = None
        self._sessions = Pool(self._open)  # refuses


def load(path: Path, *, threads: int = 0, context: Mapping[str, Any] | None = None) -> Package:
    """Opens a package. threads: of its runs; 0: the cores available. context: a dict of what sparta_ctx_options has (max_memory, ...)."""
    ours = Context(**(context or {}))
    return Package(ours, ours.make("sparta_package_open", path), threads, os.fspath(path))


def compile(
    model: Any,
    out: Path | None = None,
    *,
    example_inputs: Any = None,
    masks: Path | dict[str, Any] | None = None,
    schedule: Any = None,
    target: str | list[str] | None = None,
    dims: Mapping[str, int | tuple[int, ...]] | None = None,
    dynamic_shapes: Any = None,
    progress: Callable[[int, int, str], object] | None = None,
    threads: int = 0,
    context: Mapping[str, Any] | None = None,
    via: str | None = None,
    **options: Any,
) -> Package:
    """Compiles a model (the path of an ONNX or .pt2 file, bytes of ONNX or an onnx.ModelProto) and checks the result; into a file, or in memory
    when out is None.

    A torch.nn.Module is saved by torch.export first, for inputs as example_inputs has them: a tensor, a tuple of arguments or a dict of named ones.
    via="onnx" writes ONNX instead, which needs the packages onnx and onnxscript; without via that is also tried where the program has an operator
    that is not supported. Masked and packed layers keep what is pruned, layers are called by their modules, parameters keep their names; outputs are
    `output`, `output_0` and so on, or the names of a dict. dims={"batch": (1, 8, 64)} leaves the first dimension of the inputs open;
    dynamic_shapes says it in torch.export's words, whose Dims then are the names of dims.

    masks: an .npz or .safetensors with an array per weight, or a dict of arrays; zero where the weight is gone. Without, exact zeros are the mask.
    schedule: a path, a Schedule, or create_schedule's. dims: {"batch": 4, "sequence": (1, 128, 512)}. progress: called with (done, all, what).
    target and tokens, of which there may be several: "avx2,avx512" or a list of texts, 16, [1, 16] or "1,16".
    Other options are those of sparta_compile_options: dense_only, no_measure, remeasure, external_data_root, limit, remove, multiple, rtol, atol,
    no_propagate, db, external (a dict of arrays of bytes by the location that external data names, in the place of files, which stay as they are as
    long as the package lives, which holds them); and of sparta_ctx_options in context: {"cache_dir": "", "compiler": ""} compiles with portable
    kernels and starts no process.
    """

    def compile_file(path: Path) -> Package:
        more = dict(options, target=target, threads=threads)
        return _compile(path, out, context, dict(masks=masks, schedule=schedule, dims=dims, progress=progress, **more))

    return _as_file(compile_file, model, "compile", example_inputs, dims, via, dynamic_shapes)


def _compile(path: Path, out: Path | None, context: Mapping[str, Any] | None, options: dict[str, Any]) -> Package:
    ours, threads = Context(**(context or {})), options["threads"]
    with _options(ours, "compile", **options) as o:
        if out is not None:
            ours.long("sparta_compile", path, out, o)
            return load(out, threads=threads, context=context)
        package = types["sparta_package"]()
        try:
            ours.long("sparta_compile_package", path, o, c.byref(package))
        except BaseException:
            lib.sparta_package_close(package)  # when it was too late to stop
            raise
        # The model's file stays mapped, also when its name is gone.
        made = Package(ours, package, threads)
        made._open().held = getattr(o, "held", None)
        return made


def propagate(
    model: Any,
    out: Path,
    *,
    example_inputs: Any = None,
    masks: Path | dict[str, Any] | None = None,
    schedule: Any = None,
    dims: Mapping[str, int | tuple[int, ...]] | None = None,
    **options: Any,
) -> dict[str, int]:
    """Writes a smaller ONNX model with the same answer: what is zero, constant or not needed goes. Returns parameters before and after."""
    context = Context()
    with _file(model, "propagate", example_inputs, dims) as path, _options(context, "propagate", masks, schedule, dims, **options) as o:
        where = {name: options[name] for name in ("external_data_root", "external") if name in options}
        before = inspect(path, dims=dims, no_propagate=1, **where)["parameters"]
        context.long("sparta_propagate_file", path, out, o)
    return {"parameters_before": before, "parameters_after": inspect(out, dims=dims, no_propagate=1)["parameters"]}
