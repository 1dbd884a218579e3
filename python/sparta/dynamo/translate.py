"""A graph of ATen operators, as torch.export has them before decomposition, as an ONNX file: what the engine reads.

    known(node)                               is there a row for it?
    translate(gm, values, folder) -> Model    the file, its inputs and its outputs

A row is a function that writes the nodes of some overloads. Arguments are values, numbers, symbolic numbers and lists of them. Open sizes are
expressions over symbols, and a symbol is the size of some input: its name in the file. A row leaves open sizes open, those that are arguments, too:
one that asked for the number would make a graph for this size alone. Whoever reads .pt2 files can take the place of translate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .._blocks import Blocks
from .onnx import TYPES, File

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Unknown(Exception):
    """Something that has no translation; says what."""


@dataclass
class Value:
    """A tensor in the file, and what torch knows of it."""

    name: str
    fake: torch.Tensor

    @property
    def dims(self) -> list[Any]:
        return list(self.fake.shape)

    @property
    def rank(self) -> int:
        return self.fake.dim()

    @property
    def dtype(self) -> torch.dtype:
        return self.fake.dtype


@dataclass
class Model:
    path: str
    inputs: list[tuple[int, str]]  # which of the arguments, and its name
    outputs: list[str]
    sizes: dict[str, int]  # of each open size by its name in the file: what torch saw first
    external: dict[str, Any] = field(default_factory=dict)  # the bytes of constants, where they lie in torch's memory


_ROWS: dict[str, Callable[..., Any]] = {}


def row(*names: str) -> Callable:
    """The function translates these overloads, "linear.default"."""

    def take(function: Callable) -> Callable:
        for name in names:
            _ROWS["aten." + name] = function
        return function

    return take


def is_sym(value: Any) -> bool:
    """Is a size open? torch may have settled it since it gave it a symbol."""
    return isinstance(value, torch.SymInt) and not value.node.expr.is_number


def known(node: torch.fx.Node) -> bool:
    """Is there a row, and are its tensors of types and on a device that the engine has?"""
    if str(node.target) not in _ROWS:
        return False
    tensors = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
    flat = [t for v in tensors for t in (v if isinstance(v, (list, tuple)) else [v]) if isinstance(t, torch.Tensor)]
    return bool(flat) and all(t.dtype in TYPES and t.device.type == "cpu" and t.dim() <= 8 for t in flat)


# ---------------------------------------------------------------- the walk
class Writer:
    """A file that is being written, and what rows need to say sizes and types."""

    def __init__(self) -> None:
        self.file = File()
        self.symbols: dict[Any, tuple[str, int]] = {}  # of an expression: an input that has this size, and where
        self.out: Any = None  # what torch says the result of the node at hand is
        self.op = ""  # its overload
        self.label: str | None = None

    def node(self, op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        names = [i.name if isinstance(i, Value) else "" if i is None else i for i in inputs]
        return self.file.node(op, names, outputs, self.label, **attributes)

    def cast(self, value: Any, dtype: torch.dtype) -> str:
        """A tensor or a number in a type."""
        if not isinstance(value, Value):
            if is_sym(value):
                return self.node("Cast", self.scalar(value), to=TYPES[dtype]) if dtype != torch.int64 else self.scalar(value)
            return self.file.constant(number(value), dtype)
        return value.name if value.dtype == dtype else self.node("Cast", value.name, to=TYPES[dtype])

    # Sizes. `vector` is one-dimensional, `scalar` has no dimension.
    def vector(self, sizes: Any) -> str:
        sizes = list(sizes)
        if not any(map(is_sym, sizes)):
            return self.file.constant([int(n) for n in sizes])
        parts = [self._of(n.node.expr) if is_sym(n) else self.file.constant([int(n)]) for n in sizes]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def scalar(self, size: Any) -> str:
        return self.node("Squeeze", self.vector([size]), self.file.constant([0])) if is_sym(size) else self.file.constant(int(size))

    def _of(self, expr: Any) -> str:
        """An expression over symbols, of one element."""
        if expr in self.symbols:
            name, axis = self.symbols[expr]
            return self.node("Shape", name, start=axis, end=axis + 1)
        if expr.is_Integer:
            return self.file.constant([int(expr)])
        op = {"Add": "Add", "Mul": "Mul", "FloorDiv": "Div", "CleanDiv": "Div"}.get(type(expr).__name__)
        if op is None or not all(getattr(a, "is_integer", False) for a in expr.args):
            raise Unknown(f"a size {expr}")
        first, *rest = [self._of(a) for a in expr.args]
        for other in rest:
            first = self.node(op, first, other)
        return first

    def shape(self, sizes: list[Any], like: list[Any] | None = None) -> str:
        """What a Reshape is given: 0 where a size stays, -1 for one that is open. Both keep sizes out of what the engine has to follow."""
        given: list[Any] = [0 if like is not None and i < len(like) and same(n, like[i]) and is_sym(n) else n for i, n in enumerate(sizes)]
        open_ = [i for i, n in enumerate(given) if is_sym(n)]
        if len(open_) == 1 and -1 not in [n for n in given if not is_sym(n)]:
            given[open_[0]] = -1
        if any(map(is_sym, given)):
            given = sizes
        return self.vector(given)


def same(a: Any, b: Any) -> bool:
    """Are two sizes one expression?"""
    of = lambda n: n.node.expr if is_sym(n) else int(n)
    return bool(of(a) == of(b))


def dim_of(size: Any, name: str) -> int | str:
    """A size for the file: a number, the symbol that it is, or a name of its own."""
    return int(size) if not is_sym(size) else str(size.node.expr) if size.node.expr.is_Symbol else name


def number(value: Any) -> Any:
    """A symbolic number as what it is now; torch notes that the graph is for this one."""
    return float(value) if isinstance(value, torch.SymFloat) else int(value) if isinstance(value, torch.SymInt) else value


def _typed(value: Any) -> Any:
    """What decides the type of a result as a tensor or a number does: of a symbolic number any of its kind, which settles no size."""
    return value.fake if isinstance(value, Value) else 1 if isinstance(value, torch.SymInt) else number(value)


def translate(gm: torch.fx.GraphModule, values: list[torch.Tensor | None], folder: str, names: list[str]) -> Model:
    """The graph as a file. values: of each placeholder what is constant about it, or None; names: of the placeholders."""
    w, here, given = Writer(), {}, []
    sizes: dict[str, int] = {}
    placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
    for i, (node, value, name) in enumerate(zip(placeholders, values, names)):
        fake = node.meta["val"]
        if not isinstance(fake, torch.Tensor):
            continue
        here[node] = Value(name, fake)
        if value is not None:
            w.file.tensors[name] = value
            continue
        given.append((i, name))
        dims: list[int | str] = []
        size: Any
        for axis, size in enumerate(fake.shape):
            if is_sym(size):
                w.symbols.setdefault(size.node.expr, (name, axis))
                sizes[str(dim_of(size, f"{name}_{axis}"))] = int(size.node.hint)
            dims.append(dim_of(size, f"{name}_{axis}"))
        w.file.input(name, fake.dtype, dims)
    outputs: list[str] = []
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            tensor = getattr(gm, str(node.target))
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                raise Unknown(f"a constant that is a {type(tensor).__name__}")
            w.file.tensors[node.name] = tensor
            here[node] = Value(node.name, node.meta.get("val", tensor))
        elif node.op == "call_function":
            here[node] = _call(w, node, here)
        elif node.op == "output":
            outputs = _outputs(w, node, here)
    return Model(w.file.save(folder), given, outputs, sizes, w.file.external)


def _call(w: Writer, node: torch.fx.Node, here: dict) -> Any:
    def argument(a: Any) -> Any:
        if isinstance(a, torch.fx.Node):
            return here[a] if a in here else a.meta["val"]
        return type(a)(map(argument, a)) if isinstance(a, (list, tuple)) else a

    given = [argument(a) for a in node.args]
    if "getitem" in str(node.target):
        return given[0][given[1]]
    w.out, w.op, w.label = node.meta["val"], str(node.target), label(node)
    made = _ROWS[str(node.target)](w, *given, **{key: argument(a) for key, a in node.kwargs.items()})
    if isinstance(w.out, (list, tuple)):
        return [Value(name, fake) for name, fake in zip(made, w.out)]
    return made if isinstance(made, Value) else Value(made, w.out)


def label(node: torch.fx.Node) -> str | None:
    """What the engine's reports call a layer: the module that it is in."""
    stack = node.meta.get("nn_module_stack")
    path = next(reversed(stack.values()))[0] if stack else ""
    for noise in ("L['self'].", "_modules.", "L['fn'].", "_modules['", "['", "']"):
        path = path.replace(noise, "." if noise == "['" else "")
    return f"{path.strip('.')}/{node.name}" if path.strip(".") else node.name


def _outputs(w: Writer, node: torch.fx.Node, here: dict) -> list[str]:
    names: list[str] = []
    result: Any = node.args[0]
    for out in result if isinstance(result, (list, tuple)) else [result]:
        value = here[out]
        name = w.file.node("Identity", [value.name], [f"output_{len(names)}"])[0]
        w.file.output(name, value.dtype, [f"{name}_{i}" if is_sym(n) else int(n) for i, n in enumerate(value.dims)])
        names.append(name)
    return names


# ---------------------------------------------------------------- rows: the same elements
@row("clone.default", "contiguous.default", "detach.default", "alias.default", "lift_fresh_copy.default", "detach_.default")
def _same(w: Writer, x: Value, **_: Any) -> Value:
    return x


@row("dropout.default", "dropout_.default")
def _dropout(w: Writer, x: Value, p: float, train: bool) -> Value:
    if train:
        raise Unknown("dropout while it trains")
    return x


@row("to.dtype", "to.dtype_layout", "to.device", "to.other", "_to_copy.default", "type_as.default")
def _to(w: Writer, x: Value, *_: Any, **__: Any) -> Value:
    return Value(w.cast(x, w.out.dtype), w.out)


@row("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints", "unflatten.int", "view_as.default", "reshape_as.default")
def _view(w: Writer, x: Value, *_: Any) -> str:
    return w.node("Reshape", x, w.shape(list(w.out.shape), x.dims))


@row("transpose.int", "permute.default", "t.default", "numpy_T.default", "swapaxes.default")
def _permute(w: Writer, x: Value, *axes: Any) -> Any:
    order = list(range(x.rank))
    if len(axes) == 2:
        a, b = (int(i) % x.rank for i in axes)
        order[a], order[b] = b, a
    elif axes:
        order = [int(i) % x.rank for i in axes[0]]
    else:
        order.reverse()
    return w.node("Transpose", x, perm=order)


@row("movedim.int")
def _movedim(w: Writer, x: Value, source: int, target: int) -> str:
    order = [i for i in range(x.rank) if i != source % x.rank]
    order.insert(target % x.rank, source % x.rank)
    return w.node("Transpose", x, perm=order)


@row("unsqueeze.default")
def _unsqueeze(w: Writer, x: Value, dim: int) -> str:
    return w.node("Unsqueeze", x, w.file.constant([dim % (x.rank + 1)]))


@row("squeeze.dim", "squeeze.dims", "squeeze.default")
def _squeeze(w: Writer, x: Value, dims: Any = None) -> Any:
    asked = range(x.rank) if dims is None else dims if isinstance(dims, (list, tuple)) else [dims]
    axes = [d % x.rank for d in asked if not is_sym(x.dims[d]) and x.dims[d] == 1]
    return w.node("Squeeze", x, w.file.constant(axes)) if axes else x


@row("expand.default", "expand_as.default", "broadcast_to.default")
def _expand(w: Writer, x: Value, *_: Any, **__: Any) -> Any:
    sizes, before = list(w.out.shape), [1] * (w.out.dim() - x.rank) + x.dims
    wanted = [1 if same(n, b) else n for n, b in zip(sizes, before)]
    if x.rank == w.out.dim() and all(not is_sym(n) and n == 1 for n in wanted):
        return x
    return w.node("Expand", x, w.vector(wanted))


@row("cat.default", "concat.default")
def _cat(w: Writer, tensors: list[Value], dim: int = 0) -> str:
    there = [t for t in tensors if not (t.rank == 1 and w.out.dim() > 1)]  # torch leaves out what is empty
    return w.node("Concat", *(w.cast(t, w.out.dtype) for t in there), axis=dim % w.out.dim())


@row("stack.default")
def _stack(w: Writer, tensors: list[Value], dim: int = 0) -> str:
    axis = dim % w.out.dim()
    return w.node("Concat", *(w.node("Unsqueeze", w.cast(t, w.out.dtype), w.file.constant([axis])) for t in tensors), axis=axis)


@row("split.Tensor", "split_with_sizes.default", "chunk.default", "split.sizes")
def _split(w: Writer, x: Value, _: Any, dim: int = 0) -> list[str]:
    sizes = [part.shape[dim] for part in w.out]
    if any(map(is_sym, sizes)):
        raise Unknown("parts of an open size")
    made = w.node("Split", x, w.vector(sizes), outputs=len(sizes), axis=dim % x.rank)
    return made if isinstance(made, list) else [made]


@row("unbind.int")
def _unbind(w: Writer, x: Value, dim: int = 0) -> list[str]:
    return [w.node("Gather", x, w.file.constant(i), axis=dim % x.rank) for i in range(len(w.out))]


@row("slice.Tensor")
def _slice(w: Writer, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    start, end = 0 if start is None else start, 2**62 if end is None else end
    whole = not is_sym(start) and start == 0 and step == 1
    if whole and (same(w.out.shape[dim], x.dims[dim])):
        return x
    ends = w.vector([end if is_sym(end) else min(int(end), 2**62)])
    return w.node("Slice", x, w.vector([start]), ends, w.file.constant([dim % x.rank]), w.file.constant([step]))


@row("select.int")
def _select(w: Writer, x: Value, dim: int, index: Any) -> str:
    return w.node("Gather", x, w.scalar(index), axis=dim % x.rank)


@row("repeat.default", "tile.default")
def _repeat(w: Writer, x: Value, times: Any) -> str:
    shaped = w.node("Reshape", x, w.shape([1] * (len(times) - x.rank) + x.dims)) if len(times) > x.rank else x
    return w.node("Tile", shaped, w.vector(times))


@row("tril.default", "triu.default")
def _trilu(w: Writer, x: Value, diagonal: int = 0) -> str:
    return w.node("Trilu", x, w.scalar(diagonal), upper=int("triu" in w.op))


# ---------------------------------------------------------------- rows: made of sizes
@row("arange.default", "arange.start", "arange.start_step")
def _arange(w: Writer, *bounds: Any, **_: Any) -> str:
    start, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    return w.node("Range", *(w.cast(n, w.out.dtype) for n in (start, end, step)))


@row("full.default", "ones.default", "zeros.default", "new_ones.default", "new_zeros.default", "new_full.default", "scalar_tensor.default")
@row("full_like.default", "ones_like.default", "zeros_like.default")
def _full(w: Writer, *given: Any, **_: Any) -> str:
    value = 1 if "ones" in w.op else 0 if "zeros" in w.op else given[-1]
    if is_sym(value):
        return w.node("Expand", w.cast(value, w.out.dtype), w.vector(w.out.shape))
    value = number(value)
    return w.node("ConstantOfShape", w.vector(w.out.shape), value=torch.tensor([value], dtype=w.out.dtype))


# ---------------------------------------------------------------- rows: element by element
def _binary(op: str, *names: str) -> None:
    def write(w: Writer, a: Any, b: Any, **more: Any) -> str:
        kind = torch.result_type(_typed(a), _typed(b))
        if op == "Div" and not kind.is_floating_point:
            kind = torch.get_default_dtype()
        if more.get("rounding_mode"):
            raise Unknown("a division that rounds")
        alpha = more.get("alpha", 1)
        if is_sym(alpha) or alpha != 1:
            b = Value(w.node("Mul", w.cast(b, kind), w.cast(alpha, kind)), torch.empty((), dtype=kind, device="meta"))
        logical = op in ("And", "Or", "Xor")
        if logical and kind != torch.bool:
            raise Unknown("bits of numbers")
        if kind == torch.bool and op in ("Add", "Sub", "Mul", "Max", "Min"):
            raise Unknown("arithmetic of bools")
        return w.node(op, w.cast(a, kind), w.cast(b, kind))

    row(*names)(write)


_binary("Add", "add.Tensor", "add.Scalar")
_binary("Sub", "sub.Tensor", "sub.Scalar")
_binary("Mul", "mul.Tensor", "mul.Scalar")
_binary("Div", "div.Tensor", "div.Scalar", "true_divide.Tensor")
_binary("Pow", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
_binary("Max", "maximum.default", "max.other")
_binary("Min", "minimum.default", "min.other")
_binary("Equal", "eq.Tensor", "eq.Scalar")
_binary("Less", "lt.Tensor", "lt.Scalar")
_binary("LessOrEqual", "le.Tensor", "le.Scalar")
_binary("Greater", "gt.Tensor", "gt.Scalar")
_binary("GreaterOrEqual", "ge.Tensor", "ge.Scalar")
_binary("And", "logical_and.default", "bitwise_and.Tensor", "__and__.Tensor")
_binary("Or", "logical_or.default", "bitwise_or.Tensor", "__or__.Tensor")


@row("ne.Tensor", "ne.Scalar")
def _ne(w: Writer, a: Value, b: Any) -> str:
    return w.node("Not", _ROWS["aten.eq.Tensor"](w, a, b))


@row("rsub.Scalar", "rsub.Tensor")
def _rsub(w: Writer, a: Value, b: Any) -> str:
    return _ROWS["aten.sub.Tensor"](w, b, a)


def _unary(op: str, *names: str) -> None:
    row(*names)(lambda w, x: w.node(op, w.cast(x, w.out.dtype)))


for _op in ("Relu", "Tanh", "Sigmoid", "Exp", "Log", "Sin", "Cos", "Neg", "Abs", "Sqrt", "Erf", "Floor", "Ceil", "Round", "Reciprocal"):
    _unary(_op, _op.lower() + ".default")
_unary("HardSwish", "hardswish.default")
_unary("Mish", "mish.default")


@row("sign.default")
def _sign(w: Writer, x: Value) -> str:
    """torch's of NaN is 0, ONNX's is NaN."""
    zero = w.cast(0, x.dtype)
    above, below = (w.node("Cast", w.node(op, x, zero), to=TYPES[x.dtype]) for op in ("Greater", "Less"))
    return w.node("Sub", above, below)


@row("logical_not.default", "bitwise_not.default")
def _not(w: Writer, x: Value) -> str:
    if x.dtype != torch.bool:
        raise Unknown("bits of numbers")
    return w.node("Not", x)


@row("hardsigmoid.default")
def _hardsigmoid(w: Writer, x: Value) -> str:
    return w.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@row("leaky_relu.default", "elu.default")
def _leaky(w: Writer, x: Value, alpha: Any = None, *scales: Any) -> str:
    leaky = "leaky" in w.op
    if any(number(s) != 1 for s in scales):
        raise Unknown("a scaled elu")
    slope = number(alpha) if alpha is not None else 0.01 if leaky else 1.0
    return w.node("LeakyRelu" if leaky else "Elu", x, alpha=float(slope))


@row("rsqrt.default")
def _rsqrt(w: Writer, x: Value) -> str:
    return w.node("Reciprocal", w.node("Sqrt", w.cast(x, w.out.dtype)))


@row("silu.default")
def _silu(w: Writer, x: Value) -> str:
    return w.node("Mul", x, w.node("Sigmoid", x))


@row("gelu.default")
def _gelu(w: Writer, x: Value, approximate: str = "none") -> str:
    return w.node("Gelu", x, approximate=approximate)


@row("clamp.default", "clamp_min.default", "clamp_max.default", "hardtanh.default", "relu6.default")
def _clamp(w: Writer, x: Value, low: Any = None, high: Any = None, **more: Any) -> str:
    low, high = more.get("min", low), more.get("max", high)
    if "clamp_max" in w.op:
        low, high = None, low
    if "hardtanh" in w.op or "relu6" in w.op:
        low, high = (0.0, 6.0) if "relu6" in w.op else (-1.0 if low is None else low, 1.0 if high is None else high)
    kind = w.out.dtype
    limits = None if kind.is_floating_point else torch.iinfo(kind)
    for b in (low, high):
        if limits and b is not None and not (kind == torch.int64 if is_sym(b) else limits.min <= number(b) <= limits.max):
            raise Unknown("a clamp to what its type cannot hold")
    bounds = [None if b is None else w.cast(b, kind) for b in (low, high)]
    return w.node("Clip", w.cast(x, kind), *bounds)


@row("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(w: Writer, condition: Value, a: Any, b: Any) -> str:
    return w.node("Where", w.cast(condition, torch.bool), w.cast(a, w.out.dtype), w.cast(b, w.out.dtype))


@row("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(w: Writer, x: Value, mask: Value, value: Any) -> str:
    return w.node("Where", mask, w.cast(value, x.dtype), x)


# ---------------------------------------------------------------- rows: over axes
def _reduce(op: str, *names: str) -> None:
    def write(w: Writer, x: Value, dims: Any = None, keepdim: bool = False, **_: Any) -> str:
        dims = list(range(x.rank)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        return w.node(op, w.cast(x, w.out.dtype), w.file.constant([int(d) % x.rank for d in dims]), keepdims=int(keepdim))

    row(*names)(write)


_reduce("ReduceMean", "mean.dim", "mean.default")
_reduce("ReduceSum", "sum.dim_IntList", "sum.default")
_reduce("ReduceMax", "amax.default")
_reduce("ReduceMin", "amin.default")


@row("argmax.default", "argmin.default")
def _arg(w: Writer, x: Value, dim: Any = None, keepdim: bool = False) -> str:
    if dim is None:
        raise Unknown("an argmax over everything")
    op = "ArgMin" if "argmin" in w.op else "ArgMax"
    return w.node(op, x, axis=dim % x.rank, keepdims=int(keepdim))


@row("cumsum.default")
def _cumsum(w: Writer, x: Value, dim: int, **_: Any) -> str:
    return w.node("CumSum", w.cast(x, w.out.dtype), w.file.constant(dim % x.rank))


@row("diff.default")
def _diff(w: Writer, x: Value, n: int = 1, dim: int = -1, before: Any = None, after: Any = None) -> str:
    if n != 1 or x.dtype == torch.bool:
        raise Unknown("higher differences")
    axis, parts = dim % x.rank, [v for v in (before, x, after) if v is not None]
    whole = w.node("Concat", *parts, axis=axis) if len(parts) > 1 else x.name
    cut = lambda a, b: w.node("Slice", whole, w.file.constant([a]), w.file.constant([b]), w.file.constant([axis]))
    return w.node("Sub", cut(1, 2**62), cut(0, -1))


@row("softmax.int", "_softmax.default", "log_softmax.int")
def _softmax(w: Writer, x: Value, dim: int, *_: Any, **__: Any) -> str:
    op = "LogSoftmax" if "log" in w.op else "Softmax"
    return w.node(op, w.cast(x, w.out.dtype), axis=dim % x.rank)


def _ones(w: Writer, sizes: Any, dtype: torch.dtype) -> str:
    return w.file.constant(torch.ones(list(map(int, sizes))).tolist(), dtype)


@row("layer_norm.default")
def _layer_norm(w: Writer, x: Value, shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5, *_: Any) -> str:
    scale = weight if weight is not None else _ones(w, shape, x.dtype)
    return w.node("LayerNormalization", x, scale, bias, axis=-len(shape), epsilon=float(number(eps)))


@row("rms_norm.default")
def _rms_norm(w: Writer, x: Value, shape: Any, weight: Any = None, eps: Any = None) -> str:
    if eps is None and x.dtype not in (torch.float32, torch.float64):
        raise Unknown("rms_norm of half precision without an epsilon")  # of which type it is differs between versions of torch
    if weight is not None and weight.dtype != x.dtype:
        raise Unknown("rms_norm of two types")
    scale = weight if weight is not None else _ones(w, shape, x.dtype)
    least = torch.finfo(x.dtype).eps if eps is None else number(eps)
    return w.node("RMSNormalization", x, scale, axis=-len(shape), epsilon=float(least))


@row("group_norm.default")
def _group_norm(w: Writer, x: Value, groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5, *_: Any) -> str:
    channels = int(x.dims[1])
    scale = weight if weight is not None else w.file.constant([1.0] * channels, x.dtype)
    shift = bias if bias is not None else w.file.constant([0.0] * channels, x.dtype)
    return w.node("GroupNormalization", x, scale, shift, num_groups=groups, epsilon=float(number(eps)))


@row("batch_norm.default")
def _batch_norm(w: Writer, x: Value, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: Any, eps: Any, *_: Any) -> str:
    if training or mean is None or var is None:
        raise Unknown("batch_norm while it trains")
    channels = int(x.dims[1])
    scale = weight if weight is not None else w.file.constant([1.0] * channels, x.dtype)
    shift = bias if bias is not None else w.file.constant([0.0] * channels, x.dtype)
    return w.node("BatchNormalization", x, scale, shift, mean, var, epsilon=float(number(eps)))


# ---------------------------------------------------------------- rows: products
@row("linear.default")
def _linear(w: Writer, x: Value, weight: Value, bias: Any = None) -> str:
    y = w.node("MatMul", x, w.node("Transpose", weight, perm=[1, 0]))
    return y if bias is None else w.node("Add", y, bias)


def _packed_linear(w: Writer, x: Value, *blocks: Any) -> str:
    """Of a module of sparta.nn: the file has the matrix that its blocks are, and the engine packs it as it likes."""
    *held, _, bias, rows, cols, height, width = blocks
    tensors = [None if v is None else w.file.tensors.get(v.name) for v in held]
    if any(v is not None and t is None for v, t in zip(held, tensors)):
        raise Unknown("a product by blocks that are no constants")
    values, pos, crd, keep = tensors
    with torch.no_grad():
        name = held[0].name + "_dense"
        w.file.tensors[name] = Blocks(pos, crd, keep, (rows, cols), (height, width)).unpack(values).t().contiguous()
    y = w.node("MatMul", x, name)
    return y if bias is None else w.node("Add", y, bias)


_ROWS["sparta.linear.default"] = _ROWS["sparta.linear_run.default"] = _packed_linear


@row("addmm.default")
def _addmm(w: Writer, bias: Value, x: Value, weight: Value, **scales: Any) -> str:
    if any(number(s) != 1 for s in scales.values()):
        raise Unknown("a scaled addmm")
    return w.node("Add", w.node("MatMul", x, weight), bias)


@row("mm.default", "matmul.default", "bmm.default")
def _matmul(w: Writer, a: Value, b: Value) -> str:
    return w.node("MatMul", a, b)


@row("conv1d.default", "conv2d.default")
def _conv(w: Writer, x: Value, weight: Value, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> str:
    n = x.rank - 2
    every = lambda v: [
        int(i) for i in (list(v) * n if isinstance(v, (list, tuple)) and len(v) == 1 else v if isinstance(v, (list, tuple)) else [v] * n)
    ]
    return w.node("Conv", x, weight, bias, strides=every(stride), pads=every(padding) * 2, dilations=every(dilation), group=groups)


def _pool_sizes(x: Value, kernel: Any, stride: Any, padding: Any) -> dict[str, Any]:
    n = x.rank - 2
    every = lambda v: [int(i) for i in (list(v) * n if len(v) == 1 else v)] if isinstance(v, (list, tuple)) else [int(v)] * n
    return {"kernel_shape": every(kernel), "strides": every(stride) if stride else every(kernel), "pads": every(padding) * 2}


@row("max_pool2d.default")
def _max_pool(w: Writer, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> str:
    if ceil_mode or set(dilation if isinstance(dilation, (list, tuple)) else [dilation]) != {1}:
        raise Unknown("max_pool2d with dilation or ceil_mode")
    return w.node("MaxPool", x, **_pool_sizes(x, kernel, stride, padding))


@row("avg_pool2d.default")
def _avg_pool(
    w: Writer, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count: bool = True, divisor: Any = None
) -> str:
    if ceil_mode or divisor is not None:
        raise Unknown("avg_pool2d with ceil_mode or a divisor")
    return w.node("AveragePool", x, **_pool_sizes(x, kernel, stride, padding), count_include_pad=int(count))


@row("adaptive_avg_pool2d.default", "adaptive_avg_pool1d.default")
def _adaptive(w: Writer, x: Value, sizes: Any) -> str:
    if any(is_sym(n) or n != 1 for n in sizes):
        raise Unknown("an adaptive pool to more than one")
    if x.rank != len(sizes) + 2:
        raise Unknown("a pool without a batch")
    return w.node("GlobalAveragePool", x)


@row("embedding.default")
def _embedding(w: Writer, weight: Value, ids: Value, *_: Any) -> str:
    return w.node("Gather", weight, ids, axis=0)


@row("gather.default")
def _gather(w: Writer, x: Value, dim: int, ids: Value, **_: Any) -> str:
    if x.rank != ids.rank or any(not same(a, b) for i, (a, b) in enumerate(zip(x.dims, ids.dims)) if i != dim % x.rank):
        raise Unknown("a gather of fewer lines")
    return w.node("GatherElements", x, ids, axis=dim % x.rank)


@row("index.Tensor")
def _index(w: Writer, x: Value, indices: list[Any]) -> str:
    """By whole numbers for the first axes; one place for each, all of one shape."""
    if any(not isinstance(i, Value) or i.dtype not in (torch.int64, torch.int32) for i in indices):
        raise Unknown("an index that is no list of places")
    if len(indices) == 1:
        return w.node("Gather", x, indices[0], axis=0)
    lead = list(w.out.shape)[: w.out.dim() - (x.rank - len(indices))]
    spread = [w.node("Expand", w.cast(i, torch.int64), w.vector(lead)) for i in indices]
    places = [w.node("Unsqueeze", i, w.file.constant([len(lead)])) for i in spread]
    return w.node("GatherND", x, w.node("Concat", *places, axis=len(lead)))


@row("scaled_dot_product_attention.default")
def _attention(w: Writer, q: Value, k: Value, v: Value, mask: Any = None, dropout: Any = 0.0, is_causal: bool = False, **more: Any) -> str:
    if number(dropout) or q.rank != 4:
        raise Unknown("attention with dropout, or of another rank than 4")
    if is_causal and not same(q.dims[2], k.dims[2]):
        raise Unknown("causal attention of other queries than keys")
    scale = more.get("scale")
    y = w.node(
        "Attention", q, k, v, mask, is_causal=int(is_causal), scale=float(number(scale)) if scale is not None else 1 / math.sqrt(int(q.dims[-1]))
    )
    return y if mask is None else w.node("Where", _sees(w, mask), y, w.cast(0, w.out.dtype))


def _sees(w: Writer, mask: Value) -> str:
    """Which queries have a key: torch gives 0 to the others, ONNX NaN."""
    most = w.node("ReduceMax", mask, w.file.constant([-1]), keepdims=1)
    return most if mask.dtype == torch.bool else w.node("Greater", most, w.cast(-math.inf, mask.dtype))
