"""Random ONNX models with what real ones bring and tests by hand forget: ranks 0 to 5, odd sizes, scalars as inputs, symbolic sizes, operators
that mix the items of a batch, weights pruned in several patterns, normalisation of large means.

    model, feeds = random_model(seed)      the same seed gives the same model; feeds: two dicts of inputs, at different sizes

A model is made node by node from a list of values whose dims are numbers or symbols' names. Numbers stay in a range in which f32 is well-behaved:
what two right implementations would answer differently is not made."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ODD = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 33, 40, 64]
SYMBOLS = ["batch", "sequence"]
PATTERNS = ["dense", "dense", "1x1", "1x1", "4x1", "16x1", "1x4", "2:4", "rows", "cols", "all", "one", "minus"]


class Value:
    def __init__(self, name, dims, flat=False):
        self.name, self.dims = name, list(dims)
        self.flat = flat  # of moderate size: may be multiplied, exponentiated

    @property
    def rank(self):
        return len(self.dims)


class Maker:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.values, self.count = [], [], [], [], 0
        self.sizes = [{"batch": self.pick([1, 2, 3, 5]), "sequence": self.pick([1, 2, 4, 7])},
                      {"batch": self.pick([1, 4, 11, 66]), "sequence": self.pick([1, 3, 9, 64])}]

    # ------------------------------------------------------------ parts
    def pick(self, some):
        return some[int(self.rng.integers(len(some)))]

    def chance(self, p):
        return self.rng.random() < p

    def name(self, what):
        self.count += 1
        return f"{what}_{self.count}"

    def constant(self, array):
        name = self.name("c")
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def floats(self, *shape, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def node(self, op, inputs, dims, flat=False, **attributes):
        """Adds a node with one output of these dims."""
        out = Value(self.name(op.lower()), dims, flat)
        self.nodes.append(helper.make_node(op, [i.name if isinstance(i, Value) else i for i in inputs], [out.name], **attributes))
        self.values.append(out)
        return out

    def number(self, dim, which=1):
        return self.sizes[which][dim] if isinstance(dim, str) else dim

    def elements(self, dims):
        return int(np.prod([self.number(d) for d in dims], dtype=np.int64))

    def weight(self, k, n):
        """(k, n), pruned."""
        w = self.floats(k, n, scale=1 / np.sqrt(k))
        pattern, keep = self.pick(PATTERNS), self.rng.random((k, n))
        if pattern == "1x1":
            w[keep > self.pick([0.5, 0.1])] = 0
        elif pattern in ("4x1", "16x1"):
            b = int(pattern.split("x")[0])
            w[np.repeat(keep[:, : -(-n // b)], b, axis=1)[:, :n] > 0.3] = 0
        elif pattern == "1x4":
            w[np.repeat(keep[: -(-k // 4)], 4, axis=0)[:k] > 0.3] = 0
        elif pattern == "2:4":
            for i in range(0, k, 4):
                w[i:i + 4][np.argsort(np.argsort(keep[i:i + 4], axis=0), axis=0) >= 2] = 0
        elif pattern == "rows":
            w[:, self.rng.random(n) > 0.6] = 0
        elif pattern == "cols":
            w[self.rng.random(k) > 0.6] = 0
        elif pattern == "all":
            w[:] = 0
        elif pattern == "one":
            w.ravel()[np.arange(w.size) != int(self.rng.integers(w.size))] = 0
        elif pattern == "minus":
            w = np.where(keep > 0.2, np.float32(-0.0), w)
        return w

    def value(self, least=0, most=5):
        fits = [v for v in self.values if least <= v.rank <= most]
        return self.pick(fits[-4:] if fits and self.chance(0.7) else fits) if fits else None

    def fixed_axis(self, v):
        """An axis whose size is a number above 1, or None."""
        axes = [i for i, d in enumerate(v.dims) if not isinstance(d, str) and d > 1]
        return self.pick(axes) if axes else None

    # ------------------------------------------------------------ inputs
    def add_inputs(self):
        for _ in range(self.pick([1, 1, 2])):
            rank = self.pick([1, 2, 2, 3, 3, 3, 4, 5])
            dims = [self.pick(ODD[: (14, 14, 14, 14, 7, 5)[rank]]) for _ in range(rank)]
            if self.chance(0.8):
                dims[0] = "batch"
            if rank > 2 and self.chance(0.6):
                dims[1] = "sequence"
            self.input("x", dims)
        if self.chance(0.3):
            self.input("scalar", [])
        if self.chance(0.25):
            self.embedding()

    def input(self, what, dims):
        v = Value(self.name(what), dims, flat=True)
        self.inputs.append((v, None))
        self.values.append(v)

    def embedding(self):
        ids = Value(self.name("ids"), self.pick([["batch"], ["batch", "sequence"], ["batch", 3]]))
        rows, width = self.pick([3, 17, 50]), self.pick(ODD[3:])
        self.inputs.append((ids, rows))
        self.node("Gather", [self.constant(self.floats(rows, width)), ids], ids.dims + [width], flat=True)

    def feed(self, which):
        made = {}
        for v, rows in self.inputs:
            shape = [self.number(d, which) for d in v.dims]
            made[v.name] = np.asarray(self.rng.integers(0, rows, shape) if rows else self.rng.standard_normal(shape),
                                      np.int64 if rows else np.float32, order="C")
        return made

    # ------------------------------------------------------------ operators; each adds to the values, or does nothing
    def unary(self):
        v = self.value()
        op, more = self.pick([("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("Erf", {}), ("Abs", {}), ("Neg", {}), ("LeakyRelu", {"alpha": 0.1}),
                              ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("HardSwish", {}), ("Softplus", {}), ("Identity", {}), ("Elu", {})])
        self.node(op, [v], v.dims, flat=v.flat or op in ("Tanh", "Sigmoid", "Erf"), **more)

    def silu(self):
        v = self.value()
        self.node("Mul", [v, self.node("Sigmoid", [v], v.dims, flat=True)], v.dims, flat=v.flat)

    def clip(self):
        v = self.value()
        self.node("Clip", [v, self.constant(np.float32(-2)), self.constant(np.float32(3))], v.dims, flat=True)

    def binary_constant(self):
        v = self.value()
        shape = [1 if isinstance(d, str) or self.chance(0.4) else d for d in v.dims][self.pick([0, 0, v.rank - 1]) if v.rank else 0:]
        op = self.pick(["Add", "Sub", "Mul", "Div"])
        c = self.floats(*shape) if op != "Div" else (1 + np.abs(self.floats(*shape))).astype(np.float32)
        pair = [v, self.constant(c)]
        self.node(op, pair[:: -1] if op in ("Add", "Sub", "Mul") and self.chance(0.3) else pair, v.dims, flat=v.flat)

    def binary(self):
        a = self.value()
        fits = [b for b in self.values if b.dims == a.dims or not b.dims or (b.dims and b.dims == a.dims[-b.rank:])]
        b = self.pick(fits)
        op = self.pick(["Add", "Sub", "Max", "Min"] + ["Mul"] * (a.flat and b.flat))
        self.node(op, [a, b] if self.chance(0.5) else [b, a], a.dims, flat=a.flat and b.flat and op in ("Max", "Min"))

    def linear(self, v=None, n=None, act=True):
        v = v or self.value(least=1)
        if v is None or isinstance(v.dims[-1], str):
            return None
        k, n = v.dims[-1], n or self.pick(ODD)
        w = self.weight(k, n)
        if v.rank == 2 and self.chance(0.4):
            transposed = int(self.chance(0.6))
            y = self.node("Gemm", [v, self.constant(np.ascontiguousarray(w.T) if transposed else w)] +
                          ([self.constant(self.floats(n))] if self.chance(0.8) else []), v.dims[:-1] + [n], flat=v.flat, transB=transposed)
        else:
            y = self.node("MatMul", [v, self.constant(w)], v.dims[:-1] + [n], flat=v.flat)
            if self.chance(0.7):
                y = self.node("Add", [y, self.constant(self.floats(n))], y.dims, flat=v.flat)
        if act and self.chance(0.5):
            y = self.node(self.pick(["Relu", "Gelu", "Tanh", "Sigmoid"]), [y], y.dims, flat=v.flat)
        if k == n and act and self.chance(0.5):
            y = self.node("Add", [y, v], y.dims, flat=v.flat)
        return y

    def norm(self):
        v = self.value(least=1)
        if v is None or isinstance(v.dims[-1], str) or v.dims[-1] < 2:
            return
        # What was computed is rounded otherwise by others, and a mean of 1000 would magnify that.
        n, mean = v.dims[-1], self.pick([0, 0, 30, 1000]) if any(v is i for i, _ in self.inputs) else self.pick([0, 0, 5])
        if mean:
            v = self.node("Add", [v, self.constant(np.float32(mean))], v.dims)
        scale, bias = self.constant(self.floats(n)), self.constant(self.floats(n))
        if self.chance(0.5):
            self.node("LayerNormalization", [v, scale, bias], v.dims, flat=True, axis=-1, epsilon=1e-5)
            return
        last, kept = self.ints(-1), v.dims[:-1] + [1]
        d = self.node("Sub", [v, self.node("ReduceMean", [v, last], kept, keepdims=1)], v.dims)
        var = self.node("ReduceMean", [self.node("Pow", [d, self.constant(np.float32(2))], v.dims), last], kept, keepdims=1)
        root = self.node("Sqrt", [self.node("Add", [var, self.constant(np.float32(1e-5))], kept)], kept)
        y = self.node("Mul", [self.node("Div", [d, root], v.dims, flat=True), scale], v.dims, flat=True)
        self.node("Add", [y, bias], v.dims, flat=True)

    def along(self):
        """Operators along any axis, the batch too."""
        v = self.value(least=1)
        if v is None:
            return
        axis = int(self.rng.integers(v.rank))
        given = self.pick([axis, axis - v.rank])
        op = self.pick(["Softmax", "Softmax", "LogSoftmax", "CumSum"])
        if op == "CumSum":
            self.node(op, [v, self.constant(np.int64(given))], v.dims, exclusive=self.pick([0, 1]), reverse=self.pick([0, 1]))
        else:
            self.node(op, [v], v.dims, flat=True, axis=given)

    def reduce(self):
        v = self.value(least=1)
        if v is None:
            return
        axes = sorted({int(self.rng.integers(v.rank)) for _ in range(self.pick([1, 1, 2, 5]))})
        op, keep = self.pick(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"]), self.pick([0, 1])
        dims = [1 if i in axes else d for i, d in enumerate(v.dims) if keep or i not in axes]
        self.node(op, [v, self.ints(*axes)], dims, flat=v.flat and op in ("ReduceMean", "ReduceMax", "ReduceMin"), keepdims=keep)

    def transpose(self, v=None, order=None):
        v = v or self.value(least=2)
        if v is None:
            return None
        order = order or [int(i) for i in self.rng.permutation(v.rank)]
        return self.node("Transpose", [v], [v.dims[i] for i in order], flat=v.flat, perm=order)

    def gram(self):
        """x times its own transpose: mixes the items when x has two dimensions."""
        v = self.value(least=2)
        if v is None or not v.flat:
            return
        order = list(range(v.rank - 2)) + [v.rank - 1, v.rank - 2]
        t = self.transpose(v, order)
        a, b = (v, t) if self.chance(0.5) else (t, v)
        self.node("MatMul", [a, b], v.dims[:-2] + [a.dims[-2], a.dims[-2]])

    def reshape(self):
        v = self.value(least=2)
        if v is None:
            return
        kind = self.pick(["flatten", "rows", "split", "ask"])
        if kind == "flatten" and not any(isinstance(d, str) for d in v.dims[1:]):
            self.node("Flatten", [v], [v.dims[0], self.elements(v.dims[1:])], flat=v.flat, axis=1)
        elif kind == "split" and not isinstance(v.dims[-1], str) and v.dims[-1] % 2 == 0 and v.rank < 5:
            self.node("Reshape", [v, self.ints(*[0] * (v.rank - 1), 2, v.dims[-1] // 2)], v.dims[:-1] + [2, v.dims[-1] // 2], flat=v.flat)
        elif kind == "ask" and not isinstance(v.dims[-1], str):  # as exporters write it: Shape, Gather, Concat
            s = self.name("shape")
            self.nodes.append(helper.make_node("Shape", [v.name], [s]))
            parts = []
            for i in range(v.rank - 1):
                one = self.name("size")
                self.nodes.append(helper.make_node("Gather", [s, self.ints(i)], [one]))
                parts.append(one)
            to = self.name("to")
            self.nodes.append(helper.make_node("Concat", parts + [self.ints(1, v.dims[-1])], [to], axis=0))
            if v.rank < 5:
                self.node("Reshape", [v, to], v.dims[:-1] + [1, v.dims[-1]], flat=v.flat)

    def cut(self):
        v = self.value(least=1)
        axis = self.fixed_axis(v) if v else None
        if axis is None:
            return
        n = v.dims[axis]
        a = int(self.rng.integers(n - 1))
        b = int(self.rng.integers(a + 1, n + 1))
        rest = lambda m: v.dims[:axis] + [m] + v.dims[axis + 1:]
        kind = self.pick(["slice", "step", "gather", "split"])
        if kind == "slice":
            self.node("Slice", [v, self.ints(a), self.ints(b), self.ints(axis)], rest(b - a), flat=v.flat)
        elif kind == "step":
            self.node("Slice", [v, self.ints(-1), self.ints(-n - 1), self.ints(axis), self.ints(-2)], rest((n + 1) // 2), flat=v.flat)
        elif kind == "gather":
            index = self.rng.integers(0, n, self.pick([(), (1,), (3,)]))
            self.node("Gather", [v, self.constant(np.asarray(index, np.int64))], v.dims[:axis] + list(index.shape) + v.dims[axis + 1:],
                      flat=v.flat, axis=axis)
        elif b > a:
            outs = [Value(self.name("split"), rest(m), v.flat) for m in (b, n - b) if m]
            self.nodes.append(helper.make_node("Split", [v.name, self.ints(*[o.dims[axis] for o in outs])], [o.name for o in outs], axis=axis))
            self.values += outs

    def join(self):
        v = self.value(least=1)
        axis = self.fixed_axis(v) if v else None
        if axis is None:
            return
        fits = [u for u in self.values if u.rank == v.rank and all(a == b for i, (a, b) in enumerate(zip(u.dims, v.dims)) if i != axis)
                and not isinstance(u.dims[axis], str)]
        some = [v] + [self.pick(fits) for _ in range(self.pick([1, 2]))]
        if sum(u.dims[axis] for u in some) <= 128:
            self.node("Concat", some, v.dims[:axis] + [sum(u.dims[axis] for u in some)] + v.dims[axis + 1:], flat=all(u.flat for u in some), axis=axis)

    def size_one(self):
        v = self.value(most=4)
        if v is None:
            return
        axis = int(self.rng.integers(v.rank + 1))
        if axis < v.rank and v.dims[axis] == 1:
            self.node("Squeeze", [v, self.ints(axis)], v.dims[:axis] + v.dims[axis + 1:], flat=v.flat)
        else:
            self.node("Unsqueeze", [v, self.ints(axis)], v.dims[:axis] + [1] + v.dims[axis:], flat=v.flat)

    def where(self):
        v = self.value()
        test = self.name("test")
        self.nodes.append(helper.make_node(self.pick(["Greater", "Less"]), [v.name, self.constant(np.float32(0.1234567))], [test]))
        self.node("Where", [test, v, self.constant(np.float32(self.pick([0, -1, 0.5])))], v.dims, flat=v.flat)

    def pad(self):
        v = self.value(least=1)
        axis = self.fixed_axis(v) if v else None
        if axis is None:
            return
        pads = [int(i % v.rank == axis) * self.pick([0, 1, 2]) for i in range(2 * v.rank)]
        self.node("Pad", [v, self.ints(*pads), self.constant(np.float32(0.25))],
                  [d if i != axis else d + pads[i] + pads[i + v.rank] for i, d in enumerate(v.dims)], flat=v.flat)

    def attention(self):
        v = self.value(least=3, most=3)
        if v is None or not v.flat or isinstance(v.dims[2], str) or v.dims[2] % 4:
            return
        width, heads = v.dims[2], self.pick([2, 4])
        split, b, s = self.ints(0, 0, heads, width // heads), v.dims[0], v.dims[1]
        made = []
        for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            x = self.linear(v, width, act=False)
            x = self.node("Reshape", [x, split], [b, s, heads, width // heads])
            made.append(self.transpose(x, order))
        q, k, w = made
        score = self.node("MatMul", [q, k], [b, heads, s, s])
        score = self.node("Mul", [score, self.constant(np.float32((width // heads) ** -0.5))], score.dims)
        y = self.node("MatMul", [self.node("Softmax", [score], score.dims, flat=True, axis=-1), w], [b, heads, s, width // heads])
        y = self.transpose(y, [0, 2, 1, 3])
        y = self.node("Reshape", [y, self.ints(0, 0, width)], [b, s, width], flat=True)
        self.node("Add", [self.linear(y, width, act=False), v], v.dims, flat=True)

    def image(self):
        v = self.value(least=4, most=4)
        if v is None or any(isinstance(d, str) for d in v.dims[1:]) or min(v.dims[2:]) < 2:
            return
        b, c, h, w = v.dims
        kind = self.pick(["Conv", "Conv", "MaxPool", "AveragePool", "BatchNormalization"])
        if kind == "BatchNormalization":
            p = [self.constant(self.floats(c)), self.constant(self.floats(c)), self.constant(self.floats(c)), self.constant(np.abs(self.floats(c)) + 1)]
            self.node(kind, [v, *p], v.dims, flat=v.flat)
        elif kind == "Conv":
            o, group = self.pick([1, 3, 4, 8]), self.pick([1, 1, c])
            o, k = o * group, self.pick([1, 2])
            x = self.weight(c // group * k * k, o).T.reshape(o, c // group, k, k)
            self.node(kind, [v, self.constant(np.ascontiguousarray(x)), self.constant(self.floats(o))], [b, o, h + 2 - k + 1, w + 2 - k + 1], flat=v.flat,
                      pads=[1] * 4, group=group)
        else:
            self.node(kind, [v], [b, c, h - 1, w - 1], flat=v.flat, kernel_shape=[2, 2])

    def head(self, v=None):
        """What ends a recogniser or a language model: items of an image's width or tokens, thousands of classes, Softmax."""
        v, classes = v or self.value(least=2), self.pick([1030, 1300, 2100, 6000])
        if v is None:
            return
        if v.rank == 4 and not any(isinstance(d, str) for d in v.dims[1:]):
            b, c, h, w = v.dims
            v = self.node("ReduceMean", [v, self.ints(2)], [b, c, 1, w], flat=v.flat, keepdims=1)
            v = self.transpose(self.node("Squeeze", [v, self.ints(2)], [b, c, w], flat=v.flat), [0, 2, 1])
        if isinstance(v.dims[-1], str) or self.elements(v.dims[:-1]) * classes > 1 << 20:
            return
        y = self.node("MatMul", [v, self.constant(self.weight(v.dims[-1], classes))], v.dims[:-1] + [classes])
        y = self.node("Add", [y, self.constant(self.floats(classes))], y.dims)
        y = self.node(self.pick(["Softmax", "LogSoftmax"]), [y], y.dims, flat=True, axis=-1)
        if self.chance(0.5) and not any(isinstance(d, str) for d in y.dims):
            self.node("Flatten", [y], [self.elements(y.dims[:-1]), classes], flat=True, axis=y.rank - 1)

    # ------------------------------------------------------------ a model
    def make(self):
        self.add_inputs()
        makers = [self.linear] * 5 + [self.norm] * 3 + [self.along] * 2 + [self.attention, self.gram, self.reduce, self.transpose, self.reshape,
                                                                       self.cut, self.join, self.size_one, self.where, self.pad, self.image, self.silu,
                                                                       self.clip, self.unary, self.unary, self.binary, self.binary, self.binary_constant]
        for _ in range(self.pick([1, 2, 4, 6, 9, 12])):
            self.pick(makers)()
            self.values = [v for v in self.values if self.elements(v.dims) <= 1 << 20]
        if self.chance(0.1):
            self.head()
        return self.outputs()

    def outputs(self):
        made = {o for n in self.nodes for o in n.output}
        if not any(v.name in made for v in self.values):
            v = self.value()
            made.add(self.node("Tanh", [v], v.dims).name)
        used = {i for n in self.nodes for i in n.input}
        outputs = [v for v in self.values if v.name in made]
        chosen = [v for v in outputs if v.name not in used][-4:] or outputs[-1:]
        extra = self.pick(outputs)
        return chosen + [extra] * (extra not in chosen and self.chance(0.2))


def model_of(m):
    outputs = m.make()
    info = lambda v, kind: helper.make_tensor_value_info(v.name, kind, v.dims)
    graph = helper.make_graph(m.nodes, "random", [info(v, TensorProto.INT64 if rows else TensorProto.FLOAT) for v, rows in m.inputs],
                              [helper.make_tensor_value_info(v.name, TensorProto.FLOAT, [None] * v.rank) for v in outputs], m.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return model, [m.feed(0), m.feed(1)]


def random_model(seed):
    return model_of(Maker(seed))
