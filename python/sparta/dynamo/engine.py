"""Mode engine: whole sub-graphs of an inference run by a compiled package, activations in panels between their layers.

    Dynamo's graph --> ATen, undecomposed --> parts whose operators all have a row in translate.py --> a package each
                                              the rest: the inner backend, with the parts as opaque calls

Parameters and buffers are constants of a package. Each call looks whether they are tensors that a package is there for, at the version of before;
where one is not, a package is compiled for these, so that writes in place are seen; those through .data are not looked for. Open sizes are symbols of
the package. A run takes the memory of torch's tensors and writes into tensors of torch's, on as many threads as torch has. Packages are kept for
later (kept.py).

Where gradients are wanted, under autocast or torch.func, and where torch cannot trace a graph, it is rewritten instead (rewrite.py); what stays
outside is said once.
"""

from __future__ import annotations

import collections
import hashlib
import operator
import tempfile
import threading
import time
import weakref
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from .. import package as packages
from .._arrays import Tensor
from .._library import Error, numbers, text, types
from . import Graph, inner, tell
from .check import ask, differs, results
from .kept import described, drop, find, keep, place
from .rewrite import copied, name_of, rewrite
from .translate import Model, Unknown, is_sym, known, translate
from .writes import draws, memory, transforms, writes

_NAMED = types["sparta_named_tensor"]
_CODES = {
    torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64", torch.int8: "I8", torch.uint8: "U8", torch.int16: "I16",
    torch.int32: "I32", torch.int64: "I64", torch.bool: "BOOL",
}  # fmt: skip
CODES = {dtype: numbers["SPARTA_" + word] for dtype, word in _CODES.items()}
CHANGED = "mode engine: weights have changed; packages are compiled again when they do"
# A part without one of these is not worth a call.
PRODUCTS = ("linear", "linear_run", "addmm", "mm", "bmm", "matmul", "conv1d", "conv2d", "scaled_dot_product_attention")


def compile_graph(gm: torch.fx.GraphModule, inputs: Any, name: str, more: dict, options: dict) -> Graph:
    """The graph with its parts as packages, and the rest by the backend of this name."""
    reason = _not_ours(gm, inputs)
    if not reason:
        try:
            return _by_parts(gm, inputs, options, lambda rest: inner(name, rest, inputs, more))
        except Unknown as error:
            reason = str(error)
        except torch._dynamo.exc.RestartAnalysis:  # Dynamo's own way to begin anew
            raise
        except Exception as error:  # whatever torch or a model does; the other mode takes the graph as it is
            reason = f"its ATen form fails ({type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error).strip() else ''})"
    tell(f"mode engine: {reason}; the graph is rewritten instead")
    graph = Graph("rewrite", reason)
    graph.run = inner(name, rewrite(gm, inputs, graph), inputs, more)
    return graph


def _by_parts(gm: torch.fx.GraphModule, inputs: Any, options: dict, by_inner: Any) -> Graph:
    """Calls of packages, and what the inner backend makes of these and the rest, where there is a rest."""
    graph = Graph("engine")
    traced = functional(to_aten(gm))
    graph.parts = split(traced, inputs, gm, graph, options)  # type: ignore[attr-defined]
    left = [
        n
        for n in traced.graph.nodes
        if n.op == "call_function" and n.target is not operator.getitem and n.target is not torch.ops.sparta.engine.default
    ]
    _tell_rest(left)
    graph.run = by_inner(traced) if any(isinstance(n.meta.get("val"), torch.Tensor) for n in left) else traced.forward
    return graph


def _not_ours(gm: torch.fx.GraphModule, inputs: Any) -> str:
    """Why a graph is not for this mode, or "". Operators are recorded before autocast would choose their types."""
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in inputs):
        return "gradients are wanted"
    if transforms(gm):
        return "torch.func changes what its operators do"
    entered = [n for n in gm.graph.nodes if n.target is torch.amp.autocast_mode._enter_autocast]
    if torch.is_autocast_enabled("cpu") or any(n.args[2:3] != (False,) for n in entered):
        return "autocast chooses types"
    return ""


def _tell_rest(left: list[torch.fx.Node]) -> None:
    unknown = collections.Counter(str(n.target) for n in left if not known(n) and isinstance(n.meta.get("val"), (torch.Tensor, tuple, list)))
    if unknown:
        named = ", ".join(f"{op} ({count})" if count > 1 else op for op, count in sorted(unknown.items()))
        tell(f"mode engine: {named}: no translation, outside of the packages")


# ---------------------------------------------------------------- the graph
def to_aten(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """With operators as torch.export has them, traced with the sizes that Dynamo knows: what is decided on them becomes its guards."""
    from torch._guards import tracing

    fakes = [n.meta["example_value"] for n in gm.graph.nodes if n.op == "placeholder"]
    mode: Any = next(getattr(f, "fake_mode") for f in fakes if isinstance(f, torch.Tensor))  # noqa: B009
    with tracing(None), mode, torch.no_grad():
        traced = make_fx(copied(gm), pre_dispatch=True, _allow_non_fake_inputs=True)(*fakes)
    traced.graph.eliminate_dead_code(is_impure_node=lambda n: n.is_impure() or writes(n))
    if any(isinstance(t, torch._subclasses.FakeTensor) for t in _held_by(traced)):
        raise Unknown("a tensor that it computes was taken for a constant")
    return traced


def _held_by(gm: torch.fx.GraphModule) -> list[Any]:
    """What a graph and those inside of it read of their own."""
    modules = [m for m in gm.modules() if isinstance(m, torch.fx.GraphModule)]
    return [operator.attrgetter(str(n.target))(m) for m in modules for n in m.graph.nodes if n.op == "get_attr"]


def functional(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Without writes in place: x.add_(y) is x + y for who reads x later, where nobody else sees x's memory."""
    nodes = list(gm.graph.nodes)
    for at, node in enumerate(nodes):
        if getattr(node.target, "_schema", None) is None or not writes(node):
            continue
        word, overload = str(node.target).split(".")[1:3]
        plain = getattr(getattr(torch.ops.aten, word.removesuffix("_"), None), overload, None)
        written = node.args[0]
        if plain is None or not word.endswith("_") or not isinstance(written, torch.fx.Node):
            raise Unknown(f"{node.target} writes in place")
        here = memory(written.meta.get("val"))
        others = [n for n in nodes[:at] if n is not written and memory(n.meta.get("val")) & here]
        given = any(n.op in ("placeholder", "get_attr") for n in (written, *others))
        if given or any(u in nodes[at:] for n in others for u in n.users):
            raise Unknown(f"{node.target} writes to memory that others see")
        if _kind(plain, node) != written.meta["val"].dtype:
            raise Unknown(f"{node.target} rounds to the type of what it writes to")
        node.target = plain
        for user in [u for u in written.users if u in nodes[at + 1 :]]:
            user.replace_input_with(written, node)
    gm.recompile()
    return gm


def _kind(plain: Any, node: torch.fx.Node) -> torch.dtype:
    """Of what an operator gives for the arguments of a node."""
    values = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    fake = next(n.meta["val"] for n in node.all_input_nodes if hasattr(n.meta.get("val"), "fake_mode"))
    with fake.fake_mode:
        return plain(*values[0], **values[1]).dtype


class _Support:
    """What may be in a package: what has a row, draws no random number, and is no view that somebody sees as one."""

    def __init__(self, views: set[torch.fx.Node]) -> None:
        self.views = views

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        if node.op == "get_attr":
            return True
        if node.op != "call_function" or node in self.views:
            return False
        if node.target is operator.getitem:
            return isinstance(node.args[0], torch.fx.Node) and known(node.args[0])
        return known(node) and not draws(node)


def seen_views(gm: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """Views that answers are, of what the graph is given or of other answers: who writes to one writes to the other, and results of a package have
    memory of their own. Parts of one split have none in common."""
    answers = [n for n in dict.fromkeys(results(gm)) if isinstance(n, torch.fx.Node) and isinstance(n.meta.get("val"), torch.Tensor)]
    chains = [_chain(n) for n in answers]
    found: set[torch.fx.Node] = set()
    for chain in chains:
        given = chain[-1].op in ("placeholder", "get_attr")
        if given or any(other is not chain and other[-1] is chain[-1] and not _apart(chain, other) for other in chains):
            found.update(chain[:-1])
    return found


def _chain(node: torch.fx.Node) -> list[torch.fx.Node]:
    """A node and what it is a view of, up to what made the memory."""
    chain = [node]
    while chain[-1].op == "call_function" and chain[-1].args and isinstance(chain[-1].args[0], torch.fx.Node):
        source = chain[-1].args[0]
        if not memory(source.meta.get("val")) & memory(node.meta.get("val")):
            break
        chain.append(source)
    return chain


def _apart(one: list[torch.fx.Node], other: list[torch.fx.Node]) -> bool:
    """Are two views made of different parts of a split?"""
    at = next(n for n in one if n in other)
    return isinstance(at.meta.get("val"), (list, tuple)) and one[one.index(at) - 1].args[1:] != other[other.index(at) - 1].args[1:]


def split(traced: torch.fx.GraphModule, inputs: Any, gm: torch.fx.GraphModule, graph: Graph, options: dict) -> list[Shared]:
    """Makes parts of the graph into calls of packages, in place."""
    partitioner = CapabilityBasedPartitioner(traced, _Support(seen_views(traced)), allows_single_node_partition=True)  # type: ignore[arg-type]
    proposed = [p for p in partitioner.propose_partitions() if any(is_product(n) for n in p.nodes)]
    order = [n.name for n in traced.graph.nodes if draws(n)]
    fused, parts = partitioner.fuse_partitions(proposed), []
    if order != [n.name for n in fused.graph.nodes if draws(n)]:
        raise Unknown("random numbers would be taken in another order")
    # After fusing, which makes nodes anew.
    placeholders = [n for n in fused.graph.nodes if n.op == "placeholder"]
    given = [n for n in gm.graph.nodes if n.op == "placeholder"]
    constants = {n: value for n, value, source in zip(placeholders, inputs, given) if is_constant(value, source)}
    paths = {n: name_of(source) for n, source in zip(placeholders, given)}
    for node in [n for n in fused.graph.nodes if n.op == "call_module"]:
        arguments = [n for n in node.args if isinstance(n, torch.fx.Node)]
        fixed = [constants.get(n) for n in arguments if isinstance(n.meta.get("val"), torch.Tensor)]
        part = Shared(getattr(fused, str(node.target)), fixed, [paths.get(n, n.name) for n in arguments], options)
        why, package = part.first(fixed)
        if why:
            tell(f"mode engine: {why}; this part of the graph stays outside")
        else:
            parts.append(part)
            _call(fused, node, part)
            for row in package.layers if package is not None else []:
                graph.add(row["name"], row["op"], row["implement"], row["reason"])
    fused.graph.lint()
    fused.recompile()
    return parts


def is_product(node: torch.fx.Node) -> bool:
    return str(node.target).split(".")[1:2] in [[word] for word in PRODUCTS]


def is_constant(value: Any, source: torch.fx.Node) -> bool:
    """A parameter or a buffer, whose versions torch counts. Of one with the negative bit each call has a copy, in other memory."""
    if not isinstance(value, torch.Tensor) or value.is_inference() or source.meta["example_value"].is_neg():
        return False
    static = "_dynamo_static_input_type" in source.meta.get("tensor_dict", {})
    return type(value) in (torch.Tensor, torch.nn.Parameter) and (static or isinstance(value, torch.nn.Parameter))


def _call(gm: torch.fx.GraphModule, node: torch.fx.Node, part: Shared) -> None:
    """The operator in place of a part. It gives a list; who read the part's one result reads its first."""
    tensors = [a for a in node.args if isinstance(a, torch.fx.Node) and isinstance(a.meta.get("val"), torch.Tensor)]
    with gm.graph.inserting_before(node):
        made = gm.graph.call_function(torch.ops.sparta.engine.default, (tensors, part.number))
        single = not isinstance(_result(part.gm), (list, tuple))
        first = gm.graph.call_function(operator.getitem, (made, 0)) if single else made
        first.meta["val"] = node.meta.get("val")
    node.replace_all_uses_with(first)
    gm.graph.erase_node(node)
    gm.delete_submodule(str(node.target))  # else whoever traces the rest puts tensors of its own in the place of the part's constants


def _result(gm: torch.fx.GraphModule) -> Any:
    return next(n for n in gm.graph.nodes if n.op == "output").args[0]


# ---------------------------------------------------------------- a part
_held: collections.Counter[int] = collections.Counter()  # storages by how many tensors of packages hold them


def _uncounted() -> int:
    """What torch's count of holders has beside tensors: in some versions Python's object for the storage."""
    alone = torch.empty(1)
    return torch._C._storage_Use_Count(alone.untyped_storage()._cdata) - 1


_NO_TENSORS = _uncounted()


def _holders(storage: int) -> int:
    """How many tensors and arrays hold a storage."""
    return torch._C._storage_Use_Count(storage) - _NO_TENSORS


class Running:
    """A package, and how tensors go into it. Threads may run it together: what it remembers of sizes and sessions only grows."""

    def __init__(self, package: packages.Package, model: Model, gm: torch.fx.GraphModule) -> None:
        self.package = package
        slots = [i for i, n in enumerate(n for n in gm.graph.nodes if n.op == "placeholder") if isinstance(n.meta["val"], torch.Tensor)]
        self.inputs = [(slots.index(i), text(name)) for i, name in model.inputs]
        self.outputs = [text(name) for name in model.outputs]
        self.sessions: dict[int, Any] = {}
        self.shapes: dict[tuple, Any] = {}

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        used = [(name, tensors[i].contiguous()) for i, name in self.inputs]
        given = (_NAMED * len(used))(*((name, describe(t)) for name, t in used))
        key = tuple(t.shape for _, t in used)
        threads = torch.get_num_threads()
        if threads not in self.sessions:
            self.sessions[threads] = packages.sessions(self.package, threads)
        with self.sessions[threads].one() as session:
            call, handle = session.context.call, session.handle._handle
            if key not in self.shapes:
                answers = (_NAMED * len(self.outputs))(*((name, Tensor()) for name in self.outputs))
                call("sparta_session_types", handle, given, len(given), answers, len(answers))
                self.shapes[key] = [(tuple(a.tensor.dim[: a.tensor.rank]), DTYPES[a.tensor.dtype]) for a in answers]
            made = [torch.empty(shape, dtype=dtype) for shape, dtype in self.shapes[key]]
            answers = (_NAMED * len(made))(*((name, describe(t)) for name, t in zip(self.outputs, made)))
            call("sparta_session_run_into", handle, given, len(given), answers, len(answers))
        return made


class Part:
    """A part of a graph with the constants of one model, and the package that runs it."""

    def __init__(self, gm: torch.fx.GraphModule, names: list[str], options: dict, builds: int = 0) -> None:
        self.gm, self.names, self.options = gm, names, options
        self.running: Running | None = None  # which nobody changes: threads that run it have the whole
        self.builds = builds  # with those for weights that these took the place of
        self.seen: list[Any] = []
        self.storages: list[int] = []
        self.lock = threading.Lock()
        weakref.finalize(self, _let_go, self.storages)

    def build(self, constants: list[Any]) -> str:
        """Makes the package, or finds the one that was kept; why it cannot be, or "". constants: one or None for each tensor given."""
        begin, given = time.perf_counter(), iter(constants)
        self.values = [next(given) if isinstance(n.meta["val"], torch.Tensor) else None for n in self.gm.graph.nodes if n.op == "placeholder"]
        # Before anything is read: who writes meanwhile is seen. Whose memory is held: an address is not given to another tensor.
        seen = [None if t is None else (t._version, t.detach()) for t in constants]
        why, external = self._build()
        self.values = []  # a model is not kept alive
        self._hold(seen, external)  # once it is checked
        self.builds += not why
        self.seconds = time.perf_counter() - begin
        return why

    def _build(self) -> tuple[str, set[int]]:
        """Why there is no package, and the addresses that it reads its constants from."""
        where, why, external = "", "", set()
        running: Running | None = None
        try:
            here = "" if self.builds else place(self)  # weights that change would fill a disk
            running = self._found(here)
            if running is None:
                with tempfile.TemporaryDirectory(prefix="sparta-") as folder:
                    where = folder + "/model.onnx: "
                    model = translate(self.gm, self.values, folder, self.names)
                    options = {"threads": torch.get_num_threads(), "no_verify": 1, **self.options}
                    made = packages.compile(model.path, external=model.external, **options)
                    _agree(made, model.outputs, self.gm)
                question = ask(self, made, model.sizes)
                running = Running(keep(self, here, made, model, question), model, self.gm)
                external = {a.ctypes.data for a in model.external.values()} if running.package is made else set()
                why = differs(self, running, question)
                if why:
                    drop(here)
        except (Unknown, Error) as error:
            why = str(error).removeprefix(where)
        except Exception as error:  # of a graph that nobody thought of: torch runs it
            why = f"{type(error).__name__}: {error}"
        self.running = None if why else running  # before the weights count as seen: a thread would meet the package of the old ones
        return why, external

    def _hold(self, seen: list[Any], external: set[int]) -> None:
        """Counts who holds the memory of constants: the tensors here, and the arrays that the package reads."""
        _let_go(self.storages)
        self.seen = seen
        for _, t in filter(None, seen):
            self.storages += [t.untyped_storage()._cdata] * (1 + (t.data_ptr() in external))
        _held.update(self.storages)

    def gone(self) -> bool:
        """Is there a constant that only packages hold? Then no model has these any more."""
        return any(_holders(s) <= _held[s] for s in self.storages)

    def _found(self, where: str) -> Running | None:
        """A package that was kept, where there is one and its answer is torch's still."""
        try:
            found = find(self, where)
            if found is None:
                return None
            made, model, question = found
            _agree(made, model.outputs, self.gm)
            running = Running(made, model, self.gm)
            return None if differs(self, running, question) else running
        except Exception:  # a damaged one
            return None

    def fresh(self, tensors: list[torch.Tensor]) -> None:
        """Compiles again where a constant was written to: of several threads that see it one, for which the others wait."""
        if not self._written(tensors):
            return
        with self.lock:
            if self._written(tensors):
                tell(CHANGED)
                self.rebuild([None if seen is None else t for t, seen in zip(tensors, self.seen)])

    def _written(self, tensors: list[torch.Tensor]) -> bool:
        return any(seen is not None and t._version != seen[0] for t, seen in zip(tensors, self.seen))

    def rebuild(self, constants: list[Any]) -> None:
        why = self.build(constants)
        if why:
            whose = "the changed" if self.builds else "another model's"
            tell(f"mode engine: the package for {whose} weights: {why}; torch runs this part from now on")

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if self.running is not None:
            self.fresh(tensors)
        running = self.running
        return self.by_torch(tensors) if running is None else running(tensors)

    def by_torch(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The graph itself, where its package was refused. Results have memory of their own, as a package's have."""
        given = _arguments(self.gm, tensors)
        if any(map(is_sym, given)):
            raise RuntimeError("sparta: torch.compile: mode engine: a part without a package has a size that follows from none of its tensors")
        with torch.no_grad():
            return [t.clone(memory_format=torch.contiguous_format) for t in _listed(self.gm(*given))]


DTYPES = {code: dtype for dtype, code in CODES.items()}


def _agree(package: packages.Package, names: list[str], gm: torch.fx.GraphModule) -> None:
    """Types and sizes that come out must be those that torch says: a row that is wrong about them is no answer."""
    given = package.outputs
    for name, node in zip(names, results(gm), strict=True):
        fake, (kind, dims) = node.meta["val"], given[name]
        sizes = [None if is_sym(n) else int(n) for n in fake.shape]
        fits = len(sizes) == len(dims) and all(a is None or b is None or a == b for a, b in zip(sizes, dims))
        if not fits or kind != _CODES[fake.dtype].lower():
            raise Unknown(f"{node}: torch gives {_CODES[fake.dtype].lower()} {sizes}, the package {kind} {list(dims)}")


def _distinct(names: list[str]) -> list[str]:
    seen: set[str] = set()
    return [name if not (name in seen or seen.add(name)) else f"{name}_{i}" for i, name in enumerate(names)]  # type: ignore[func-returns-value]


def _listed(made: Any) -> list[torch.Tensor]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _arguments(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> list[Any]:
    """What the graph of a part takes: its tensors, and among them sizes, which are theirs or follow from them."""
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    tensors, sizes = iter(inputs), {}
    given: list[Any] = []
    for n in placeholders:
        fake = n.meta["val"]
        if isinstance(fake, torch.Tensor):
            t = next(tensors)
            given.append(t)
            sizes.update({str(s): m for s, m in zip(fake.shape, t.shape) if not isinstance(s, int)})
        else:
            given.append(n)
    return [_size(n.meta["val"], sizes) if isinstance(n, torch.fx.Node) else n for n in given]


def _size(size: Any, sizes: dict[str, Any]) -> Any:
    """One that the tensors have, or an expression over such; else as torch has it."""
    if str(size) in sizes or not is_sym(size):
        return sizes.get(str(size), size)
    expr = size.node.expr.subs({s: sizes[str(s)] for s in size.node.expr.free_symbols if type(sizes.get(str(s))) is int})
    return int(expr) if expr.is_number else size


def describe(t: torch.Tensor) -> Any:
    """The memory of a tensor, as the library takes it."""
    made = Tensor(dtype=CODES[t.dtype], rank=t.dim(), data=t.data_ptr())
    for i, (n, stride) in enumerate(zip(t.shape, t.stride())):
        made.dim[i], made.stride[i] = n, stride
    return made


def _let_go(storages: list[int]) -> None:
    for storage in storages:
        _held[storage] -= 1
        if not _held[storage]:
            del _held[storage]
    storages.clear()


class Shared:
    """A part of a graph, with a package for each model that it serves: Dynamo has one graph for all models of a class, their weights are its inputs.
    It is found by its number as long as it lives with its graph; a package goes when its model is gone and another one is made."""

    def __init__(self, gm: torch.fx.GraphModule, constants: list[Any], names: list[str], options: dict) -> None:
        self.gm, self.names, self.options = gm, _distinct(names), options
        self.fixed = tuple(i for i, t in enumerate(constants) if t is not None)
        self.parts: dict[tuple[int, ...], Part] = {}  # by the addresses of constants
        self.lock = threading.Lock()
        self.number = _parts.add(self)

    def first(self, constants: list[Any]) -> tuple[str, packages.Package | None]:
        """The package for the model that the graph was made of; why there is none."""
        part = Part(self.gm, self.names, self.options)
        why = part.build(constants)
        if not why:
            self.parts[self._key(constants)] = part
        return why, part.running.package if part.running else None

    def _key(self, tensors: list[Any]) -> tuple[int, ...]:
        return tuple([tensors[i].data_ptr() for i in self.fixed])

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        key = self._key(tensors)
        part = self.parts.get(key)
        return (self._another(key, tensors) if part is None else part)(tensors)

    def _another(self, key: tuple[int, ...], tensors: list[torch.Tensor]) -> Part:
        """For a model that was not here before, or for one whose weights are others now."""
        with self.lock:
            if key in self.parts:
                return self.parts[key]
            gone = {other.number: other.forget() for other in list(_parts.known.values())}
            if gone[self.number]:
                tell(CHANGED)
            part = Part(self.gm, self.names, self.options, gone[self.number])
            part.rebuild([t if i in self.fixed else None for i, t in enumerate(tensors)])
            self.parts[key] = part
            return part

    def forget(self) -> int:
        """Drops the packages whose models are gone; how often they had been made."""
        gone = [key for key, part in list(self.parts.items()) if part.gone()]
        dropped = [self.parts.pop(key, None) for key in gone]  # another thread may be at it as well
        return sum(part.builds for part in dropped if part is not None)


class _Parts:
    """Parts by number, which is made of what the part computes: Inductor's files know it, and those of another process are about the same part or
    about none. It is not given twice in a process."""

    def __init__(self) -> None:
        self.known: Any = weakref.WeakValueDictionary()
        self.given: set[int] = set()

    def add(self, part: Shared) -> int:
        number = digest(part.gm)
        while number in self.given:
            number += 1
        self.given.add(number)
        self.known[number] = part
        return number


def digest(gm: torch.fx.GraphModule) -> int:
    """62 bits of a graph."""
    return int.from_bytes(hashlib.sha256(described(gm).encode()).digest()[:8], "little") >> 2


_parts = _Parts()
_library = torch.library.Library("sparta", "FRAGMENT")
_library.define("engine(Tensor[] inputs, int part) -> Tensor[]")


def _run(inputs, part):
    return _parts.known[part](inputs)


def _like(inputs, part):
    """What the part's own graph says of sizes."""
    gm = _parts.known[part].gm
    return [t.contiguous() for t in _listed(_Sizes(gm, inputs).run(*_arguments(gm, inputs)))]


class _Sizes(torch.fx.Interpreter):
    """Runs a graph on tensors without data; what it holds itself has none either."""

    def __init__(self, gm: torch.fx.GraphModule, inputs: Any) -> None:
        super().__init__(gm)
        self.fake: Any = torch._guards.detect_fake_mode(inputs)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        held = super().get_attr(target, args, kwargs)
        plain = self.fake is not None and isinstance(held, torch.Tensor) and not isinstance(held, torch._subclasses.FakeTensor)
        return self.fake.from_tensor(held) if plain else held


_library.impl("engine", _run, "CPU")
torch.library.register_fake("sparta::engine", _like, lib=_library)
