"""Packages of parts, kept beside the kernels for processes to come, each with a question: made-up inputs and torch's answer.

    packages/<key>.sparta     the package
    packages/<key>.pt         the key once more, what is asked of it before it is used, and what its inputs and outputs are called

The key is a digest of all that either was made of: the graph, the values of its constants, options, versions, the processor. It is made again when a
package was written: what somebody wrote into a constant meanwhile is in the package and not in the key. Who finds a package compares the key, which
names of files may have lost, and the digests of its weights, runs it on the question and compares the answer; what differs, or cannot be read, is
compiled as if it were not there. Parts with open sizes are not kept: translating one decides sizes, which torch has to hear of. The least recently
used go where there are more than MOST bytes.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import glob
import hashlib
import os
import tempfile
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
# Whatever else is asked for names files or functions that say what is computed, and may be others tomorrow; times in a database only choose.
OPTIONS = frozenset(
    ("threads", "no_measure", "no_verify", "no_propagate", "dense_only", "target", "limit", "multiple", "rtol", "atol", "db", "context")
)
CONTEXT = frozenset(("max_memory", "strict", "cache_dir", "compiler", "copy_files"))


def _loaded() -> list[Any]:
    """What this process runs, as it is when it begins: files may be others later."""
    files = [_library.lib._name, *sorted(glob.glob(os.path.dirname(os.path.dirname(__file__)) + "/**/*.py", recursive=True))]
    stats = [(s.st_size, s.st_mtime_ns) for s in map(os.stat, files)]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = sorted({line for line in file if line.startswith(("model name", "flags", "CPU ", "Features"))})
    return [torch.__version__, torch.backends.cpu.get_cpu_capability(), string(_library.lib.sparta_version()), stats, cpu]


try:
    LOADED = _loaded()
except OSError:  # nothing is kept
    LOADED = []


def place(part: Any) -> str:
    """Where the package of a part would lie, without its ending; "" where it is not kept."""
    context = part.options.get("context") or {}
    bad = set(part.options) - OPTIONS or set(context) - CONTEXT
    if not LOADED or bad or any(is_open(n.meta.get("val")) for n in part.gm.graph.nodes):
        return ""
    try:
        if sum(t.nbytes for t in _tensors(part)) > MOST // 2:
            return ""
        folder = _folder(context)
        folder = folder and _folder({**context, "cache_dir": os.path.join(folder, "packages")})
        return os.path.join(folder, key(part)) if folder else ""
    except Exception:  # a part runs without being kept
        return ""


def _folder(context: dict[str, Any]) -> str:
    """Made, and checked to be nobody else's."""
    ours = Context(**context)
    return string(_library.lib.sparta_cache_folder(ours.cx))


def _tensors(part: Any) -> list[torch.Tensor]:
    """The constants of a part."""
    attributes = [getattr(part.gm, str(n.target)) for n in part.gm.graph.nodes if n.op == "get_attr"]
    return [t for t in (*part.values, *attributes) if isinstance(t, torch.Tensor)]


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
    with concurrent.futures.ThreadPoolExecutor(torch.get_num_threads()) as pool:
        digests = list(pool.map(lambda t: hashlib.sha256(memory(t)).hexdigest(), _tensors(part)))
    given = [None if v is None else (v.dtype, tuple(v.shape)) for v in part.values]
    labels = [label(n) for n in part.gm.graph.nodes]
    options, settings = sorted(part.options.items(), key=str), sorted((k, v) for k, v in os.environ.items() if k.startswith("SPARTA_"))
    all_of_it = (described(part.gm), given, part.names, labels, digests, options, torch.get_num_threads(), settings, LOADED)
    return hashlib.sha256(repr(all_of_it).encode()).hexdigest()


def find(part: Any, where: str) -> tuple[packages.Package, Model, Question] | None:
    """The package at a place, and what to ask it."""
    if not where or not os.path.exists(where + ".pt"):
        return None
    try:
        os.utime(where + ".pt")  # of the package's own file sessions would say that it was written
        with tracing(None):  # else torch.load gives tensors without data
            held = torch.load(where + ".pt", weights_only=True)
        if held["key"] != os.path.basename(where):  # of another part, which passes its own question
            return None
        made = _open(part, where)
        made.check()
    except Exception:  # a file that is damaged, or gone meanwhile
        return None
    return made, Model(where, held["inputs"], held["outputs"], {}), Question(held["made"], held["answers"], held["scales"])


def keep(part: Any, where: str, package: packages.Package, model: Model, question: Question) -> packages.Package:
    """Writes both files; the package as it lies there, which reads no memory of torch's. What cannot be written is compiled again another time."""
    if not where:
        return package
    folder, name = os.path.split(where)
    answers = [t.contiguous().clone() for t in question.answers]  # of a view torch would write all that it is a view of
    asked = {"made": question.made, "answers": answers, "scales": question.scales}
    held = {"key": name, "inputs": model.inputs, "outputs": model.outputs, **asked}
    mine: list[str] = []
    try:
        for _ in range(2):
            handle, path = tempfile.mkstemp(dir=folder)
            os.close(handle)
            mine.append(path)
        package.save(mine[0])
        torch.save(held, mine[1])
        if key(part) != name:
            raise ValueError("a constant was written while it was compiled")
        for path, ending in zip(mine, (".sparta", ".pt")):
            os.replace(path, where + ending)
    except Exception:
        _remove(*mine)
        return package
    with contextlib.suppress(OSError):  # another process may do the same
        _trim(folder)
    try:
        return _open(part, where)
    except Exception:  # there was no room for it
        return package


def _open(part: Any, where: str) -> packages.Package:
    return packages.load(where + ".sparta", threads=torch.get_num_threads(), context=part.options.get("context"))


def drop(where: str) -> None:
    """Removes what is kept at a place."""
    if where:
        _remove(where + ".pt", where + ".sparta")


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _trim(folder: str) -> None:
    """Removes what was not used for longest, until the rest is within MOST."""
    files: dict[str, list[os.DirEntry]] = {}
    for entry in os.scandir(folder):
        files.setdefault(entry.name.split(".")[0], []).append(entry)
    left = MOST
    for all_ in sorted(files.values(), key=lambda all_: -max(e.stat().st_mtime for e in all_)):
        size = sum(e.stat().st_size for e in all_)
        if size <= left:
            left -= size
            continue
        for e in all_:
            os.unlink(e.path)
