"""Packages of parts, kept beside the kernels for processes to come, each with a question: made-up inputs and torch's answer.

    packages/<key>.sparta     the package
    packages/<key>.pt         what is asked of it before it is used, and what its inputs and outputs are called

The key is a digest of all that either was made of: the graph, the values of its constants, options, versions, the processor. Who finds a package
still runs it on the question and compares; what differs, or cannot be read, is compiled as if it were not there. Parts with open sizes are not kept:
translating one decides sizes, which torch has to hear of. The least recently used go where there are more than MOST bytes.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import glob
import hashlib
import os
from typing import Any

import torch
from torch._guards import tracing

from .. import _library
from .. import package as packages
from .._library import Context, string
from .check import Question
from .onnx import memory
from .translate import Model, is_sym, label

MOST = 4 << 30
# Whatever else is asked for names files or functions, which may be others tomorrow.
OPTIONS = frozenset(
    ("threads", "no_measure", "no_verify", "no_propagate", "dense_only", "target", "limit", "multiple", "rtol", "atol", "db", "context")
)


def place(part: Any) -> str:
    """Where the package of a part would lie, without its ending; "" where it is not kept."""
    if set(part.options) - OPTIONS or any(is_open(n.meta.get("val")) for n in part.gm.graph.nodes):
        return ""
    context = Context(**(part.options.get("context") or {}))
    folder = string(_library.lib.sparta_cache_folder(context.cx))
    return os.path.join(folder, "packages", key(part)) if folder else ""


def described(gm: torch.fx.GraphModule) -> str:
    """The nodes of a graph, with types, sizes and strides."""

    def of(value: Any) -> str:
        if isinstance(value, (list, tuple)):
            return " ".join(map(of, value))
        return f"{value.dtype} {tuple(value.shape)} {value.stride()}" if isinstance(value, torch.Tensor) else str(value)

    return "\n".join(f"{n.op} {n.name} {n.target} {n.args} {n.kwargs} {of(n.meta.get('val'))}" for n in gm.graph.nodes)


def is_open(value: Any) -> bool:
    """Is it a number that is not settled, or has it such a size?"""
    if isinstance(value, (list, tuple)):
        return any(map(is_open, value))
    tensor = isinstance(value, torch.Tensor) and any(map(is_sym, value.shape))
    return tensor or is_sym(value) or isinstance(value, torch.SymFloat)


def key(part: Any) -> str:
    """Of everything that a package and torch's answer are made of."""
    attributes = [getattr(part.gm, str(n.target)) for n in part.gm.graph.nodes if n.op == "get_attr"]
    tensors = [t for t in (*part.values, *attributes) if isinstance(t, torch.Tensor)]
    with concurrent.futures.ThreadPoolExecutor(torch.get_num_threads()) as pool:
        digests = list(pool.map(lambda t: hashlib.sha256(memory(t)).hexdigest(), tensors))
    given = [None if v is None else (v.dtype, tuple(v.shape)) for v in part.values]
    labels = [label(n) for n in part.gm.graph.nodes]
    all_of_it = (described(part.gm), given, part.names, labels, digests, sorted(part.options.items(), key=str), torch.get_num_threads(), _around())
    return hashlib.sha256(repr(all_of_it).encode()).hexdigest()


def _around() -> list[Any]:
    """Versions, the processor, and variables that choose kernels."""
    files = [_library.lib._name, *sorted(glob.glob(os.path.dirname(__file__) + "/*.py"))]
    stats = [(s.st_size, s.st_mtime_ns) for s in map(os.stat, files)]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = sorted({line for line in file if line.startswith(("model name", "flags"))})
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("SPARTA_"))
    return [torch.__version__, torch.backends.cpu.get_cpu_capability(), stats, cpu, settings]


def find(part: Any, where: str) -> tuple[packages.Package, Model, Question] | None:
    """The package at a place, and what to ask it."""
    if not where or not os.path.exists(where + ".pt"):
        return None
    try:
        os.utime(where + ".pt")  # of the package's own file sessions would say that it was written
        with tracing(None):  # else torch.load gives tensors without data
            held = torch.load(where + ".pt", weights_only=True)
        made = packages.load(where + ".sparta", threads=torch.get_num_threads(), context=part.options.get("context"))
    except Exception:  # a file that is damaged, or gone meanwhile
        return None
    return made, Model(where, held["inputs"], held["outputs"], {}), Question(held["made"], held["answers"], held["scales"])


def keep(part: Any, where: str, package: packages.Package, model: Model, question: Question) -> packages.Package:
    """Writes both files; the package as it lies there, which reads no memory of torch's. What cannot be written is compiled again another time."""
    if not where:
        return package
    mine = f"{where}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(where), mode=0o700, exist_ok=True)
        package.save(where + ".sparta")
        torch.save(
            {"inputs": model.inputs, "outputs": model.outputs, "made": question.made, "answers": question.answers, "scales": question.scales}, mine
        )
        os.replace(mine, where + ".pt")
        _trim(os.path.dirname(where))
    except Exception:
        drop(where)
    found = find(part, where)
    return package if found is None else found[0]


def drop(where: str) -> None:
    """Removes what is kept at a place."""
    for ending in (".pt", ".sparta", f".{os.getpid()}") if where else ():
        with contextlib.suppress(OSError):
            os.unlink(where + ending)


def _trim(folder: str) -> None:
    """Removes what was not used for longest, until the rest is within MOST."""
    files: dict[str, list[os.DirEntry]] = {}
    for entry in os.scandir(folder):
        files.setdefault(entry.name.split(".")[0], []).append(entry)
    used = sorted(files.values(), key=lambda all_: -max(e.stat().st_mtime for e in all_))
    left = MOST
    for all_ in used:
        left -= sum(e.stat().st_size for e in all_)
        for e in all_ if left < 0 else ():
            os.unlink(e.path)
