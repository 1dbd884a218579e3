"""Models that have broken others, by name: each is refused with its message, or gives the right answer, in 512 MiB and 20 s.

The classes are those that have gone wrong in other runtimes, and those that propagation invites. Every file is made here, right in
everything but one thing:

    test_hostile_models.py [WORD ...]        run the cases whose class or file has one of the words
    test_hostile_models.py --table           print class, file, expected exit code and message
    test_hostile_models.py --write FOLDER    write the files, to look at one or to seed a fuzzer

A case is refused (`bad`) by inspect, propagate, compile and run alike, with one exit code and one message; or accepted (`good`):
propagate writes a model that gives onnxruntime's answer for the original, and compile and run do too; or is refused `late`, by run at the
latest, because only numbers tell; or is `heavy`: what is asked for is more than the budget, sooner in one command than in another, so
each ends by itself with an answer or with the message.
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import Tests, need, sparta, tree

SECONDS = 20
MEMORY = "512M"
PEAK_MIB = 512 + 128  # the program, its libraries and mapped files come on top
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
CASES = []
node = helper.make_node


# ---------------------------------------------------------------- pieces
class Case:
    def __init__(self, kind, klass, name, words, make, code=1, setup=None, feed=None, only=None, here=False):
        self.kind, self.klass, self.name, self.words, self.make = kind, klass, name, words, make
        self.codes = {code} if isinstance(code, int) else set(code)
        self.setup, self.feed, self.only = setup, feed, only
        self.here = here  # the program is started in the model's folder and gets a bare name: there is no folder to be beneath of

    def data(self):
        made = self.make() if callable(self.make) else self.make
        return made if isinstance(made, bytes) else made.SerializeToString()


def bad(klass, name, words, make, code=1, **more):
    CASES.append(Case("bad", klass, name, [words] if isinstance(words, str) else words, make, code, **more))


def good(klass, name, make, **more):
    CASES.append(Case("good", klass, name, [], make, 0, **more))


def late(klass, name, words, make, code=1, **more):
    CASES.append(Case("late", klass, name, [words] if isinstance(words, str) else words, make, code, **more))


def heavy(klass, name, words, make, codes=(0, 5), **more):
    CASES.append(Case("heavy", klass, name, [words], make, codes, **more))


def value(name, shape, kind=F32):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, x=(2, 4), y=(2, 4), weights=(), opset=21, domains=(), inputs=None, outputs=None, **more):
    inputs = [value("x", x)] if inputs is None else inputs
    outputs = [value("y", y)] if outputs is None else outputs
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights), **more)
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def array(a, name="w", kind=np.float32):
    return numpy_helper.from_array(np.asarray(a, dtype=kind), name)


def ints(a, name="s"):
    return array(a, name, np.int64)


def random_array(shape, name="w", seed=1):
    return array(np.random.default_rng(seed).standard_normal(shape), name)


def pruned(rows, columns, gone, name="w", seed=1):
    """A matrix whose columns `gone` are zeros."""
    a = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    a[:, gone] = 0
    return array(a, name)


def raw(shape, data, kind=F32, name="w"):
    t = TensorProto(name=name, data_type=kind, dims=shape)
    t.raw_data = data
    return t


def linear(w):
    return model([node("MatMul", ["x", "w"], ["y"], name="product")], weights=[w])


def one(op, inputs, weights=(), x=(2, 4), y=None, **attributes):
    """A model of one node named `it`."""
    opset = attributes.pop("opset", 21)
    return model([node(op, inputs, ["y"], name="it", **attributes)], x, y or [None] * len(x), weights, opset)


def external(entries, shape=(4, 4)):
    t = TensorProto(name="w", data_type=F32, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, v in entries:
        t.external_data.add(key=key, value=str(v))
    return linear(t)


def file_of(size):
    return lambda folder: open(os.path.join(folder, "w.bin"), "wb").write(bytes(size))


def outside(make):
    """A secret above the model's folder, and a way to it."""

    def setup(folder):
        secret = os.path.join(os.path.dirname(folder), "secret.bin")
        with open(secret, "wb") as f:
            f.write(np.ones(16, np.float32).tobytes())
        make(secret, folder)

    return setup


# ---------------------------------------------------------------- external data
def external_data():
    k = "external-data path"
    where = [("location", "w.bin")]
    bad(k, "up", "secret.bin", external([("location", "../secret.bin")]), setup=outside(lambda s, f: None))
    bad(k, "up-after-down", "secret.bin", external([("location", "a/../../secret.bin")]), setup=outside(lambda s, f: os.makedirs(f + "/a")))
    bad(k, "absolute", "etc/passwd", external([("location", "/etc/passwd")]))
    bad(k, "symlink", "w.bin", external(where), setup=outside(lambda s, f: os.symlink(s, f + "/w.bin")))
    bad(k, "symlink-folder", "secret.bin", external([("location", "a/secret.bin")]),
        setup=outside(lambda s, f: os.symlink(os.path.dirname(s), f + "/a")))
    bad(k, "hardlink", "w.bin", external(where), setup=outside(lambda s, f: os.link(s, f + "/w.bin")))
    bad(k, "pipe", "w.bin", external(where), setup=lambda f: os.mkfifo(f + "/w.bin"))
    bad(k, "device", "dev/zero", external([("location", "/dev/zero")]))
    bad(k, "nul-in-name", "zero byte", external([("location", "w.bin\0/../../x")]), setup=file_of(64))
    bad(k, "itself", "m.onnx", external([("location", "m.onnx"), ("offset", 1 << 20)]))
    bad(k, "folder", "w.bin", external(where), setup=lambda f: os.mkdir(f + "/w.bin"))
    bad(k, "the-folder-itself", "'w'", external([("location", ".")]))
    bad(k, "no-location", ["'w'", "location"], external([("offset", "0")]))
    bad(k, "location-empty", "'w'", external([("location", "")]))
    bad(k, "up-from-here", "secret.bin", external([("location", "../secret.bin")]), setup=outside(lambda s, f: None), here=True)
    bad(k, "symlink-from-here", "w.bin", external(where), setup=outside(lambda s, f: os.symlink(s, f + "/w.bin")), here=True)
    bad(k, "in-attribute", ["'it'", "'w'", "w.bin"], lambda: model([node("Constant", [], ["c"], name="it", value=external(where).graph.initializer[0]), node("MatMul", ["x", "c"], ["y"])]),
        {1, 4}, setup=outside(lambda s, f: os.symlink(s, f + "/w.bin")))
    k = "external-data attribute"
    for name, key, text in (("offset-negative", "offset", "-4"), ("offset-huge", "offset", str((1 << 63) - 1)), ("offset-wraps", "offset", str(1 << 64)),
                            ("offset-hex", "offset", "0x10"), ("offset-blank", "offset", " 0"), ("length-negative", "length", "-64"),
                            ("length-wraps", "length", str((1 << 64) + 64)), ("length-other", "length", "60"), ("key-unknown", "command", "rm")):
        bad(k, name, "external" if key == "offset" and name.endswith(("huge",)) else key if key != "command" else "command",
            external(where + [(key, text)]), setup=file_of(64))
    bad(k, "offset-twice", "offset", external(where + [("offset", "0"), ("offset", "64")]), setup=file_of(128))


# ---------------------------------------------------------------- sizes
def sizes():
    k = "size overflow"
    bad(k, "elements-wrap", "'w'", linear(raw([1 << 32, 1 << 32], bytes(64))), {1, 5})
    bad(k, "bytes-wrap", "'w'", linear(raw([1 << 62, 4], bytes(64))), {1, 5})
    bad(k, "zero-times-huge", "'w'", linear(raw([0, 1 << 62, 1 << 62], b"")), {1, 5})
    bad(k, "negative", ["'w'", "dim 0 is -4"], linear(raw([-4, -4], bytes(64))))
    bad(k, "smallest", ["'w'", "dim 0 is -9223372036854775808"], linear(raw([-(1 << 63), 2], bytes(64))))
    bad(k, "file-too-short", "'w'", linear(raw([1 << 20, 1 << 20], bytes(64))))
    bad(k, "nine-dims", ["'w'", "8 dims"], linear(raw([1] * 9, bytes(4))), 4)
    bad(k, "accumulate", "'w0'", model([node("Concat", [f"w{i}" for i in range(64)], ["y"], axis=0)], y=(None,), opset=21,
        weights=[raw([1 << 58], b"", name=f"w{i}") for i in range(64)]), {1, 5})
    bad(k, "nibbles-wrap", "'w'", linear(raw([(1 << 63) - 1, 4], bytes(64), TensorProto.INT4)), {1, 4, 5})
    k = "huge result"
    many = [1 << 31, 1 << 31, 1 << 31]
    late(k, "expand", ["'it'", "63 bits"], one("Expand", ["x", "s"], [ints(many)], x=(1,), y=[None] * 3), {1, 5})
    late(k, "expand-4tb", ["'it'", "memory", "--max-memory"], one("Expand", ["x", "s"], [ints([1 << 30, 1 << 10])], x=(1,), y=[None] * 2), {1, 5})
    bad(k, "tile", "'it'", one("Tile", ["x", "s"], [ints([1 << 62, 1 << 62])]), {1, 5})
    late(k, "tile-2^46", ["Tile 'a'", "memory", "--max-memory"], lambda: model([node("Tile", ["x", "s"], ["a"]), node("Concat", ["x", "a"], ["y"], axis=0)], y=(None, 4), weights=[ints([1 << 46, 1])]), {1, 5})
    bad(k, "pad", "'it'", one("Pad", ["x", "s"], [ints([1 << 62, 0, 1 << 62, 0])]), {1, 5})
    late(k, "pad-32gb", ["'it'", "memory", "--max-memory"], one("Pad", ["x", "s"], [ints([1 << 31, 0, 0, 0])]), {1, 5})
    bad(k, "reshape", "'it'", one("Reshape", ["x", "s"], [ints([1 << 62, 1 << 62])]), {1, 5})
    late(k, "constant-of-shape", ["'it'", "63 bits"], one("ConstantOfShape", ["s"], [ints(many)], y=[None] * 3), {1, 5})
    late(k, "range", ["'it'", "63 bits"], model([node("Range", ["a", "b", "c"], ["r"], name="it"), node("Cast", ["r"], ["f"], to=F32), node("Add", ["x", "f"], ["y"])], x=(1,), y=(None,),
         weights=[ints(0, "a"), ints((1 << 63) - 1, "b"), ints(1, "c")]), {1, 5})
    bad(k, "concat-wraps", "'it'", model([node("Concat", ["x", "u"], ["y"], name="it", axis=0)], inputs=[value("x", ((1 << 63) - 1,)), value("u", ((1 << 63) - 1,))], y=(None,)), {1, 5})
    bad(k, "resize", ["'it'", "1e+18"], one("Resize", ["x", "", "s"], [array([1e18, 1e18, 1, 1], "s")], x=(1, 1, 4, 4)), {1, 5})
    bad(k, "topk", "'it'", model([node("TopK", ["x", "s"], ["y", "i"], name="it")], y=(None, None), weights=[ints([1 << 40])]))
    heavy(k, "input-2^62", "", model([node("Relu", ["x"], ["y"])], x=(1 << 31, 1 << 31), y=(1 << 31, 1 << 31)), {0, 1, 5}, only=["inspect", "propagate", "run"])
    for op in ("Relu", "Softmax", "Transpose"):
        heavy(k, f"axis-2^31-{op.lower()}", "", model([node("Add", ["x", "b"], ["a"]), node(op, ["a"], ["c"]), node("ReduceSum", ["c"], ["y"])],
              x=(1 << 31, 2), y=(1, 1), weights=[array([0.0], "b")]), {0, 1, 5})


# ---------------------------------------------------------------- attributes trusted over data
def attributes():
    k = "axis out of range"
    s1, z1 = array([1.0, 1.0], "c"), array([0, 0], "z", np.int8)
    q = [array(np.ones((2, 4)), "w", np.int8)]
    for axis in (2, -3, 1 << 62):
        t = "rank" if axis == 2 else "below" if axis == -3 else "huge"
        bad(k, f"softmax-{t}", "'it'", one("Softmax", ["x"], axis=axis))
        bad(k, f"concat-{t}", "'it'", one("Concat", ["x", "x"], axis=axis))
        bad(k, f"gather-{t}", "'it'", one("Gather", ["x", "s"], [ints([0])], axis=axis))
        bad(k, f"split-{t}", "'it'", model([node("Split", ["x"], ["y", "z"], name="it", axis=axis, num_outputs=2)], y=(None, None)))
        bad(k, f"dequantize-{t}", "'it'", one("DequantizeLinear", ["w", "c", "z"], q + [s1, z1], axis=axis))
    bad(k, "layernorm-rank", "'it'", one("LayerNormalization", ["x", "w"], [array([1.0] * 4)], axis=2))
    bad(k, "cumsum-rank", "'it'", one("CumSum", ["x", "s"], [ints(2)]))
    bad(k, "squeeze-rank", "'it'", one("Squeeze", ["x", "s"], [ints([2])]))
    bad(k, "unsqueeze-twice", "'it'", one("Unsqueeze", ["x", "s"], [ints([0, 0])], y=[None] * 4))
    bad(k, "reduce-rank", "'it'", one("ReduceSum", ["x", "s"], [ints([2])]))
    bad(k, "reduce-twice", "'it'", one("ReduceSum", ["x", "s"], [ints([1, 1])]))
    bad(k, "transpose-twice", "'it'", one("Transpose", ["x"], perm=[1, 1]))
    bad(k, "transpose-long", "'it'", one("Transpose", ["x"], perm=[0, 1, 2]))
    k = "attribute against data"
    image, kernel = (1, 4, 5, 5), random_array((4, 4, 3, 3))
    for name, more in (("group-3", {"group": 3}), ("group-0", {"group": 0}), ("group-negative", {"group": -4}), ("group-huge", {"group": 1 << 62}),
                       ("group-2", {"group": 2}), ("kernel-other", {"kernel_shape": [5, 5]}), ("stride-0", {"strides": [0, 1]}),
                       ("stride-list", {"strides": [1]}), ("dilation-huge", {"dilations": [1 << 62, 1]}), ("dilation-0", {"dilations": [0, 1]}),
                       ("pads-negative", {"pads": [-9, 0, 0, 0]}), ("pads-huge", {"pads": [1 << 62] * 4}), ("pads-list", {"pads": [1, 1]})):
        bad(k, f"conv-{name}", "'it'", one("Conv", ["x", "w"], [kernel], x=image, **more), {1, 5})
    bad(k, "conv-too-small", "'it'", one("Conv", ["x", "w"], [random_array((4, 4, 7, 7))], x=image))
    bad(k, "conv-bias", "'it'", one("Conv", ["x", "w", "b"], [kernel, array([1.0] * 3, "b")], x=image))
    bad(k, "pool-kernel-0", "'it'", one("MaxPool", ["x"], x=image, kernel_shape=[0, 0]))
    bad(k, "pool-kernel-huge", "'it'", one("AveragePool", ["x"], x=image, kernel_shape=[1 << 62, 1 << 62]), {1, 5})
    bad(k, "pool-no-kernel", "'it'", one("MaxPool", ["x"], x=image))
    bad(k, "depth-to-space-0", "'it'", one("DepthToSpace", ["x"], x=image, blocksize=0))
    bad(k, "depth-to-space-3", "'it'", one("DepthToSpace", ["x"], x=image, blocksize=3))
    bad(k, "batchnorm-sizes", "'it'", one("BatchNormalization", ["x", "w", "w", "w", "w"], [array([1.0] * 3)], x=image))
    bad(k, "groupnorm-3", "'it'", one("GroupNormalization", ["x", "w", "w"], [array([1.0] * 4)], x=image, num_groups=3))
    bad(k, "groupnorm-0", "'it'", one("GroupNormalization", ["x", "w", "w"], [array([1.0] * 4)], x=image, num_groups=0))
    for name, q_heads, kv_heads in (("3", 3, 3), ("0", 0, 0), ("negative", -4, -4), ("kv", 4, 3)):
        bad(k, f"attention-heads-{name}", "'it'", one("Attention", ["x", "x", "x"], x=(1, 4, 8), q_num_heads=q_heads, kv_num_heads=kv_heads, opset=23))
    bad(k, "rotary-heads-3", "'it'", one("RotaryEmbedding", ["x", "w", "w"], [random_array((1, 4, 4))], x=(1, 4, 8), num_heads=3, opset=23))
    bad(k, "split-sum", "'it'", model([node("Split", ["x", "s"], ["y", "z"], name="it", axis=1)], y=(None, None), weights=[ints([3, 3])]))
    bad(k, "split-negative", "'it'", model([node("Split", ["x", "s"], ["y", "z"], name="it", axis=1)], y=(None, None), weights=[ints([5, -1])]))
    bad(k, "split-wraps", "'it'", model([node("Split", ["x", "s"], ["y", "z"], name="it", axis=1)], y=(None, None), weights=[ints([(1 << 63) - 1, -(1 << 63) + 5])]))
    bad(k, "slice-step-0", "'it'", one("Slice", ["x", "a", "b", "c", "d"], [ints([0], "a"), ints([2], "b"), ints([0], "c"), ints([0], "d")]))
    bad(k, "slice-lists", "'it'", one("Slice", ["x", "a", "b"], [ints([0, 0], "a"), ints([2], "b")]))
    bad(k, "tile-negative", "'it'", one("Tile", ["x", "s"], [ints([-1, 1])]))
    bad(k, "tile-list", "'it'", one("Tile", ["x", "s"], [ints([2])]))
    bad(k, "pad-list", "'it'", one("Pad", ["x", "s"], [ints([1, 1, 1])]))
    bad(k, "pad-negative", "'it'", one("Pad", ["x", "s"], [ints([-3, 0, 0, 0])]))
    bad(k, "expand-negative", "'it'", one("Expand", ["x", "s"], [ints([-2, 4])]))
    bad(k, "expand-other", "'it'", one("Expand", ["x", "s"], [ints([3, 4])]))
    bad(k, "reshape-two-minus-ones", "'it'", one("Reshape", ["x", "s"], [ints([-1, -1])]))
    bad(k, "reshape-negative", "'it'", one("Reshape", ["x", "s"], [ints([-2, -4])]))
    bad(k, "reshape-zero-past-end", "'it'", one("Reshape", ["x", "s"], [ints([2, 4, 0])], y=[None] * 3))
    bad(k, "resize-scales", "'it'", one("Resize", ["x", "", "s"], [array([1.0, 1.0], "s")], x=image))
    bad(k, "resize-nan", "'it'", one("Resize", ["x", "", "s"], [array([1, 1, np.nan, 1], "s")], x=image))
    bad(k, "resize-negative", "'it'", one("Resize", ["x", "", "", "s"], [ints([1, 4, -5, 5])], x=image))
    bad(k, "topk-negative", "'it'", model([node("TopK", ["x", "s"], ["y", "i"], name="it")], y=(None, None), weights=[ints([-1])]))
    bad(k, "range-step-0", ["'it'", "delta is 0"], model([node("Range", ["a", "b", "c"], ["r"], name="it"), node("Add", ["x", "r"], ["y"])], x=(1,), y=(None,),
        weights=[ints(0, "a"), ints(9, "b"), ints(0, "c")]))
    bad(k, "gather-past", "'it'", one("Gather", ["w", "s"], [random_array((4, 4)), ints([4])], y=[None] * 2))
    bad(k, "gather-below", "'it'", one("Gather", ["w", "s"], [random_array((4, 4)), ints([-5])], y=[None] * 2))
    late(k, "gather-of-input-past", ["'it'", "1099511627776"], one("Gather", ["x", "s"], [ints([1 << 40])]))
    late(k, "gathernd-past", ["'it'", "index 9"], one("GatherND", ["x", "s"], [ints([[0, 9]])], y=[None]))
    late(k, "gatherelements-past", ["'it'", "index 9"], one("GatherElements", ["x", "s"], [ints([[0, 0, 9, 0]])], axis=1))
    late(k, "scatternd-past", ["'it'", "index 2"], one("ScatterND", ["x", "s", "w"], [ints([[2]]), array(np.ones((1, 4)))]))
    bad(k, "scatternd-shape", "'it'", one("ScatterND", ["x", "s", "w"], [ints([[0]]), array(np.ones((3, 3)))]))
    bad(k, "dequantize-scales", "'it'", one("DequantizeLinear", ["w", "c"], q + [array([1.0] * 3, "c")], axis=1))
    bad(k, "dequantize-blocks", "'it'", one("DequantizeLinear", ["w", "c"], q + [array(np.ones((2, 3)), "c")], axis=1, block_size=2))
    bad(k, "quantize-zero-type", "'it'", one("QuantizeLinear", ["x", "c", "z"], [array([1.0], "c"), array([0], "z", np.int8), ], output_dtype=TensorProto.UINT8))
    bad(k, "cast-to-nothing", "'it'", one("Cast", ["x"], to=99), {1, 4})
    bad(k, "clip-types", "'it'", one("Clip", ["x", "s"], [ints(1)]))
    for op, more in (("MatMulNBits", {"K": 1 << 40, "N": 1 << 40, "bits": 4, "block_size": 16}), ("Attention", {"num_heads": 1 << 40})):
        bad(k, f"microsoft-{op.lower()}", ["'it'", op, "com.microsoft"], model([node(op, ["x", "w", "w"], ["y"], name="it", domain="com.microsoft", **more)], y=(None, None),
            weights=[random_array((4, 4))], domains=["com.microsoft"]), 4)
    k = "size zero"
    nothing = (0, 4)
    good(k, "softmax", one("Softmax", ["x"], x=(2, 0), axis=1))
    good(k, "matmul-inner", model([node("MatMul", ["x", "w"], ["y"])], x=(2, 0), y=(2, 3), weights=[raw([0, 3], b"")]))
    good(k, "reduce-sum", one("ReduceSum", ["x", "s"], [ints([0])], x=nothing, y=(1, 4)))
    good(k, "reshape-copies", one("Reshape", ["x", "s"], [ints([0, 2, 2])], x=nothing, y=[None] * 3))
    good(k, "slice-to-nothing", model([node("Mul", ["x", "w"], ["a"]), node("Slice", ["a", "s", "s"], ["b"]), node("Concat", ["b", "x"], ["y"], axis=0)],
         weights=[array([1, 0, 1, 0]), ints([1])]))
    good(k, "topk-0", model([node("TopK", ["x", "s"], ["a", "i"]), node("Concat", ["a", "x"], ["y"], axis=1)], weights=[ints([0])]))
    good(k, "gather-nothing", model([node("Gather", ["x", "s"], ["a"], axis=1), node("Concat", ["x", "a"], ["y"], axis=1)], weights=[raw([0], b"", I64, "s")]))
    bad(k, "reshape-over-0", "'it'", one("Reshape", ["x", "s"], [ints([0, -1])], x=nothing))
    bad(k, "reshape-zero-by-zero", "'it'", one("Reshape", ["x", "s"], [ints([-1, 0])], x=nothing, allowzero=1))
    bad(k, "gather-from-nothing", "'it'", one("Gather", ["w", "s"], [raw([0, 4], b""), ints([0])], y=[None] * 2))
    late(k, "resize-nothing", ["'it'", "axis 2 of 0 elements"], one("Resize", ["x", "", "", "s"], [ints([1, 1, 4, 4])], x=(1, 1, 0, 4)))
    late(k, "argmax-nothing", ["'it'", "axis 0 is empty"], model([node("ArgMax", ["x"], ["a"], name="it", axis=0), node("Cast", ["a"], ["y"], to=F32)], x=nothing, y=(1, 4)))
    k = "size zero beside a huge one"
    for name, dims, op, inputs, more in (("add", (1 << 40, 0), "Add", ["x", "x"], {}), ("matmul", (1 << 40, 1, 0, 0), "MatMul", ["x", "x"], {}),
                                         ("layernorm", (1 << 40, 0), "LayerNormalization", ["x", "w"], {}), ("rmsnorm", (1 << 40, 0), "RMSNormalization", ["x", "w"], {"opset": 23}),
                                         ("attention", (1 << 31, 1, 0, 4), "Attention", ["x", "x", "x"], {"opset": 23}), ("softmax", (1 << 40, 0), "Softmax", ["x"], {}),
                                         ("attention-heads", (1, 4, 0), "Attention", ["x", "x", "x"], {"opset": 23, "q_num_heads": 1 << 40, "kv_num_heads": 1 << 40}),
                                         ("groupnorm-groups", (1, 0, 4, 4), "GroupNormalization", ["x", "n", "n"], {"num_groups": 1 << 40}),
                                         ("instancenorm", (1 << 40, 1, 0), "InstanceNormalization", ["x", "w", "w"], {}), ("maxpool", (1 << 31, 1, 0, 1), "GlobalMaxPool", ["x"], {})):
        heavy(k, name, "", one(op, inputs, [array([1.0]), raw([0], b"", name="n")], x=dims, **more))
    heavy(k, "folded", "", model([node("Expand", ["w", "s"], ["a"]), node("Add", ["a", "w"], ["b"]), node("ReduceSum", ["b"], ["r"]), node("Add", ["r", "x"], ["y"])], x=(1, 1), y=(1, 1),
          weights=[array([[0.0]]), ints([1 << 31, 0])]), {0})
    k = "Einsum equation"
    for name, equation in (("dims-differ", "ij,ij->i"), ("letter-new", "ij,jk->iz"), ("letter-twice-out", "ij,jk->ii"), ("too-few", "ij->i"), ("too-many", "ij,jk,kl->il"),
                           ("rank", "ijk,jk->i"), ("empty", ""), ("text", "hello world"), ("dots", "i..j,jk->ik"), ("long", "i" * 100000 + ",jk->i")):
        bad(k, name, "'it'", model([node("Einsum", ["x", "w"], ["y"], name="it", equation=equation)], y=[None] * 2, weights=[random_array((4, 5))]), {1, 4, 5})
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP"
    parts = [letters[8 * i : 8 * i + 8] for i in range(5)]
    good(k, "labels-40", lambda: model([node("Einsum", ["x", "w1", "w2", "w3", "w4"], ["y"], name="it", equation=",".join(parts) + "->abc")],
         x=(1,) * 8, y=(1, 1, 1), weights=[array(np.full((1,) * 8, 2.0), f"w{i}") for i in range(1, 5)]))


# ---------------------------------------------------------------- sparse tensors
def sparse_model(dims, values, indices):
    m = model([node("MatMul", ["x", "w"], ["y"], name="product")])
    t = helper.make_sparse_tensor(array(values, "w"), ints(indices, "i"), dims)
    m.graph.sparse_initializer.append(t)
    return m


def sparse():
    """None is expanded, so none is looked into: all are refused alike, in the same few bytes."""
    k = "sparse initialiser"
    for name, dims, values, indices in (("right", [4, 4], [1.0, 2.0], [1, 6]), ("bomb-512m", [1 << 27, 1], [1.0], [0]), ("bomb-2^62", [1 << 31, 1 << 31], [1.0], [0]),
                                        ("bomb-wraps", [1 << 62, 1 << 62], [1.0], [0]), ("index-past", [4, 4], [1.0, 2.0], [1, 16]), ("index-negative", [4, 4], [1.0, 2.0], [-1, 3]),
                                        ("index-twice", [4, 4], [1.0, 2.0], [3, 3]), ("index-falls", [4, 4], [1.0, 2.0], [6, 3]), ("more-than-there-are", [2, 2], [1.0] * 5, [0, 1, 2, 3, 4]),
                                        ("counts-differ", [4, 4], [1.0, 2.0], [1, 2, 3]), ("pair-past", [4, 4], [1.0], [[0, 4]])):
        bad(k, name, "sparse initialisers", sparse_model(dims, values, indices), 4)


# ---------------------------------------------------------------- recursion, and bytes that are no model
def nested_if(depth):
    inner = helper.make_graph([node("Identity", ["x"], [f"o{depth}"])], "leaf", [], [value(f"o{depth}", (2, 4))])
    for i in range(depth - 1, -1, -1):
        inner = helper.make_graph([node("If", ["c"], [f"o{i}"], then_branch=inner, else_branch=inner)] if i == depth - 1 else
                                  [node("If", ["c"], [f"o{i}"], then_branch=inner)], "b", [], [value(f"o{i}", (2, 4))])
    m = model([node("Identity", ["o0"], ["y"])])
    m.graph.node.insert(0, inner.node[0])
    return m


def wire(field, payload):
    size, head = len(payload), b""
    while True:
        head += bytes([size & 0x7F | (0x80 if size > 0x7F else 0)])
        size >>= 7
        if not size:
            break
    return bytes([field << 3 | 2]) + head + payload


HEAD = onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 21)]).SerializeToString()


def nested_attributes(depth, op=b"If"):
    """Node, attribute, graph, node, attribute ... by hand: protobuf itself refuses to write it."""
    graph = b""
    for _ in range(depth):
        graph = wire(1, wire(2, b"it") + wire(4, op) + wire(5, wire(1, b"then_branch") + wire(6, graph)))
    return HEAD + wire(7, graph)


def nested_types(depth):
    """An input that is a sequence of sequences of ..."""
    kind = b""
    for _ in range(depth):
        kind = wire(4, wire(1, kind))
    return HEAD + wire(7, wire(11, wire(1, b"x") + wire(2, kind)))


def function_chain(depth):
    m = model([node("f0", ["x"], ["y"], domain="me")], domains=["me"])
    for i in range(depth):
        inside = node(f"f{i + 1}", ["a"], ["b"], domain="me") if i + 1 < depth else node("Relu", ["a"], ["b"])
        m.functions.append(helper.make_function("me", f"f{i}", ["a"], ["b"], [inside], [helper.make_opsetid("", 21), helper.make_opsetid("me", 1)]))
    return m


def function_doubling(depth):
    """A function that calls the next twice: 2^depth nodes."""
    m = model([node("f0", ["x"], ["y"], domain="me")], domains=["me"])
    for i in range(depth):
        inside = [node(f"f{i + 1}", ["a"], ["c"], domain="me"), node(f"f{i + 1}", ["c"], ["b"], domain="me")] if i + 1 < depth else [node("Relu", ["a"], ["b"])]
        m.functions.append(helper.make_function("me", f"f{i}", ["a"], ["b"], inside, [helper.make_opsetid("", 21), helper.make_opsetid("me", 1)]))
    return m


def recursion():
    k = "recursion"
    bad(k, "if-8-deep", ["'o0'", "operator If", "control flow"], lambda: nested_if(8), {1, 4})
    bad(k, "if-3000-deep", ["'it'", "operator If"], lambda: nested_attributes(3000), {1, 4})
    bad(k, "graph-in-relu", ["'it'", "Relu", "then_branch"], lambda: nested_attributes(3000, b"Relu"), {1, 4})
    bad(k, "types-3000-deep", "'x'", lambda: nested_types(3000), {1, 4})
    bad(k, "functions-3000-deep", ["local functions", "inline"], lambda: function_chain(3000), {1, 4, 5})
    bad(k, "functions-2^40", ["local functions", "inline"], lambda: function_doubling(40), {1, 4, 5})
    bad(k, "function-calls-itself", ["local functions", "inline"], lambda: function_chain_loop(), {1, 4, 5})
    bad(k, "groups", ["byte 0", "wire type"], b"\x0b" * 40000)
    bad(k, "messages", "no outputs", lambda: nested_wire(30000))
    k = "not a model"
    bad(k, "empty", "is empty", b"")
    bad(k, "text", ["byte 0", "no ONNX model"], b"this is not a model\n" * 20)
    bad(k, "zeros", ["byte 0", "no ONNX model"], bytes(4096))
    bad(k, "field-past-end", "longer than what is left", b"\x3a\xff\xff\xff\xff\x0f" + bytes(32))
    bad(k, "length-2^64", "longer than what is left", b"\x3a" + b"\xff" * 9 + b"\x01" + bytes(32))
    bad(k, "varint-without-end", "does not end", b"\x08" + b"\xff" * 64)
    bad(k, "pickle", "no ONNX model", b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.")
    bad(k, "zip-of-pickle", "m.onnx", b"PK\x03\x04" + bytes(26) + b"archive/data.pkl" + b"\x80\x02cposix\nsystem\n", code=(1, 4))


def nested_wire(depth):
    data = b""
    for _ in range(depth):
        data = wire(7, data)
        if len(data) > 1 << 18:
            break
    return HEAD + data


def function_chain_loop():
    m = function_chain(2)
    m.functions[1].node[0].op_type, m.functions[1].node[0].domain = "f0", "me"
    return m


# ---------------------------------------------------------------- structure
def structure():
    k = "structure"
    bad(k, "cycle", "cycle", model([node("Add", ["x", "b"], ["a"], name="n1"), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]))
    bad(k, "cycle-of-one", ["'n1'", "'y'", "cycle"], model([node("Add", ["x", "y"], ["y"], name="n1")]))
    bad(k, "cycle-apart", "cycle", model([node("Relu", ["x"], ["y"]), node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"])]))
    bad(k, "two-makers", "y", model([node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])]))
    bad(k, "maker-of-input", "x", model([node("Relu", ["x"], ["x"]), node("Abs", ["x"], ["y"])]))
    bad(k, "maker-of-weight", "w", model([node("Relu", ["x"], ["w"]), node("Add", ["w", "x"], ["y"])], weights=[random_array((2, 4))]))
    bad(k, "nobody-makes", "ghost", model([node("Add", ["x", "ghost"], ["y"])]))
    bad(k, "output-nobody-makes", "y", model([node("Relu", ["x"], ["z"])]))
    bad(k, "weights-of-one-name", "'w'", model([node("MatMul", ["x", "w"], ["y"])], weights=[random_array((4, 4))] * 2))
    bad(k, "no-graph", "no graph", onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 21)]))
    bad(k, "operator-unknown", ["Frobnicate", "it"], model([node("Frobnicate", ["x"], ["y"], name="it", domain="my.own")], domains=["my.own"]), 4)
    bad(k, "type-string", ["'w'", "strings"], linear(TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])), 4)
    bad(k, "type-99", "'w'", linear(raw([4, 4], bytes(64), kind=99)), {1, 4})
    good(k, "weight-is-input-too", model([node("MatMul", ["x", "w"], ["y"])], inputs=[value("x", (2, 4)), value("w", (4, 4))],
                                         weights=[pruned(4, 4, [1])]), feed=["x"])
    k = "names"
    for name, text in (("shell", '"; touch owned; `touch owned`; $(touch owned)'), ("c-code", '*/ __asm__("int3"); /* " \\\n#include </etc/passwd>\n'),
                       ("percent", "%s%n%s%n%999999999d"), ("line-feed", "a\nb\x1b[31m"), ("long", "n" * 100000), ("path", "../../../tmp/owned"), ("wide", "\u202e\U0001f4a3")):
        good(k, name, model([node("MatMul", ["x", text + "w"], [text + "a"], name=text + "1"), node("Relu", [text + "a"], ["y"], name=text + "2")],
                            weights=[pruned(4, 4, [1, 2], text + "w")]))
    bad(k, "not-utf-8", "", model([node("MatMul", ["x", "w"], ["y"], name="QQQQ")], weights=[random_array((4, 4))]).SerializeToString().replace(b"QQQQ", b"\xff\xfe\x80\xc0"),
        {0, 1})


# ---------------------------------------------------------------- what propagation invites
def two_layers(w1, b1, w2, y=None, hidden=6):
    nodes = [node("MatMul", ["x", "w1"], ["a"]), node("Add", ["a", "b1"], ["b"]), node("Relu", ["b"], ["c"]), node("MatMul", ["c", "w2"], ["y"])]
    return model(nodes, weights=[w1, array(b1, "b1"), w2], y=y or (2, 4))


def special_numbers():
    k = "propagation: numbers"
    w1, w2 = pruned(4, 6, [1, 3], "w1"), random_array((6, 4), "w2", 2)
    for name, x in (("nan", np.nan), ("inf", np.inf), ("minus-inf", -np.inf), ("minus-zero", -0.0), ("denormal", 1e-45), ("largest", 3.4e38)):
        bias, weights = np.array([1, 0, 2, x, 0, 1], np.float32), numpy_helper.to_array(w2).copy()
        good(k, f"bias-{name}", two_layers(w1, bias, w2))
        weights[1, 2] = x
        good(k, f"weight-{name}", two_layers(w1, np.zeros(6), array(weights, "w2")))
    first = np.random.default_rng(4).standard_normal((4, 6)).astype(np.float32)
    first[:, 1] = -0.0
    good(k, "column-of-minus-zero", two_layers(array(first, "w1"), np.zeros(6), w2))
    good(k, "reciprocal-of-zero", model([node("MatMul", ["x", "w"], ["a"]), node("Reciprocal", ["a"], ["b"]), node("Clip", ["b", "lo", "hi"], ["y"])],
         weights=[pruned(4, 4, [0]), array(-1.0, "lo"), array(1.0, "hi")]))
    good(k, "zero-over-zero", model([node("MatMul", ["x", "w"], ["a"]), node("Div", ["a", "a"], ["b"]), node("IsNaN", ["b"], ["c"]), node("Cast", ["c"], ["y"], to=F32)],
         weights=[pruned(4, 4, [0, 3])]))
    good(k, "zero-times-inf", model([node("MatMul", ["x", "w"], ["a"]), node("Mul", ["a", "i"], ["b"]), node("IsNaN", ["b"], ["c"]), node("Cast", ["c"], ["y"], to=F32)],
         weights=[pruned(4, 4, [0, 3]), array([np.inf] * 4, "i")]))
    good(k, "all-zeros", two_layers(array(np.zeros((4, 6)), "w1"), np.zeros(6), array(np.zeros((6, 4)), "w2")))


def shapes_of_facts():
    k = "propagation: shapes"
    eight = np.random.default_rng(5).standard_normal((2,) * 8).astype(np.float32)
    eight[:, 1] = 0
    good(k, "rank-8", model([node("Mul", ["x", "w"], ["a"]), node("Transpose", ["a"], ["b"], perm=[7, 6, 5, 4, 3, 2, 1, 0]), node("ReduceSum", ["b", "s"], ["y"])],
         x=(2,) * 8, y=(2, 1, 2, 2, 2, 2, 2, 2), weights=[array(eight), ints([1])]))
    good(k, "rank-8-reshape", model([node("Mul", ["x", "w"], ["a"]), node("Reshape", ["a", "s"], ["b"]), node("MatMul", ["b", "v"], ["y"])],
         x=(2,) * 8, y=(16, 3), weights=[array(eight), ints([16, 16]), random_array((16, 3), "v")]))
    good(k, "zero-size", model([node("Concat", ["x", "w"], ["a"], axis=1), node("MatMul", ["a", "v"], ["y"])], y=(2, 3),
         weights=[array(np.zeros((2, 0))), random_array((4, 3), "v")]))
    good(k, "zero-size-product", model([node("MatMul", ["w", "v"], ["a"]), node("Add", ["x", "a"], ["y"])], weights=[array(np.zeros((2, 0))), array(np.zeros((0, 4)), "v")]))
    good(k, "zero-size-slice", model([node("Slice", ["x", "s", "s"], ["a"]), node("Concat", ["a", "x"], ["y"], axis=0)], weights=[ints([2])]))
    good(k, "zero-size-input", model([node("MatMul", ["x", "w"], ["y"])], x=(0, 4), y=(0, 4), weights=[pruned(4, 4, [1])]))
    good(k, "scalar", model([node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "v"], ["y"])], x=(), y=(), weights=[array(0.0), array(0.0, "v")]))
    good(k, "concat-5000", lambda: model([node("Relu", ["x"], [f"a{i}"]) for i in range(5000)] + [node("Concat", [f"a{i}" for i in range(5000)], ["c"], axis=1),
         node("MatMul", ["c", "w"], ["y"])], x=(1, 4), y=(1, 2), weights=[pruned(20000, 2, [])]))
    good(k, "concat-of-zeros", lambda: model([node("Concat", ["x"] + ["w"] * 3000, ["c"], axis=1), node("MatMul", ["c", "v"], ["y"])], x=(1, 4), y=(1, 2),
         weights=[array(np.zeros((1, 4))), random_array((12004, 2), "v")]))
    good(k, "split-1000", lambda: model([node("Split", ["x"], [f"a{i}" for i in range(1000)], axis=1, num_outputs=1000), node("Concat", [f"a{i}" for i in range(999, -1, -1)], ["y"],
         axis=1)], x=(1, 1000), y=(1, 1000)))
    good(k, "gather-all-one", model([node("Mul", ["x", "w"], ["a"]), node("Gather", ["a", "s"], ["y"], axis=1)], y=(2, 1000),
         weights=[array([[1, 0, 1, 0]]), ints([1] * 500 + [-1] * 500)]))
    good(k, "slice-backwards", model([node("Mul", ["x", "w"], ["a"]), node("Slice", ["a", "s", "e", "d", "t"], ["y"])], y=(2, 4), weights=[array([[1, 0, 1, 0]]),
         ints([-1]), ints([-(1 << 63)], "e"), ints([1], "d"), ints([-1], "t")]))
    good(k, "tile-zero", model([node("Tile", ["x", "s"], ["a"]), node("Concat", ["x", "a"], ["y"], axis=0)], weights=[ints([0, 1])]))
    good(k, "pad-of-zeros", model([node("MatMul", ["x", "w"], ["a"]), node("Pad", ["a", "s"], ["b"]), node("MatMul", ["b", "v"], ["y"])], y=(2, 3),
         weights=[pruned(4, 4, [2]), ints([0, 2, 0, 3]), random_array((9, 3), "v")]))


def sharing():
    k = "propagation: sharing"
    w = pruned(4, 4, [1, 2])
    mm = lambda a, b, c: node("MatMul", [a, b], [c])
    good(k, "weight-both-ways", model([mm("x", "w", "a"), node("Transpose", ["w"], ["t"]), mm("a", "t", "y")], weights=[w]))
    good(k, "weight-chain", model([mm("x", "w", "a"), mm("a", "w", "b"), mm("b", "w", "y")], weights=[w]))
    good(k, "weight-is-bias-too", model([mm("x", "w", "a"), node("Add", ["a", "v"], ["b"]), mm("b", "w", "c"), node("Mul", ["c", "v"], ["y"])], weights=[w, array([0, 1, 0, 2], "v")]))
    good(k, "weight-squared", model([mm("w", "w", "a"), mm("x", "a", "y")], weights=[w]))
    good(k, "value-twice", model([mm("x", "w", "a"), node("Add", ["a", "a"], ["b"]), node("Mul", ["b", "b"], ["c"]), node("Concat", ["c", "c", "c"], ["d"], axis=1),
         mm("d", "v", "y")], weights=[w, random_array((12, 4), "v")]))
    good(k, "value-minus-itself", model([mm("x", "w", "a"), node("Sub", ["a", "a"], ["b"]), node("Add", ["b", "x"], ["y"])], weights=[w]))
    good(k, "value-times-its-transpose", model([mm("x", "w", "a"), node("Transpose", ["a"], ["t"]), mm("a", "t", "y")], y=(2, 2), weights=[w]))
    good(k, "output-is-input", model([node("Relu", ["x"], ["z"])], outputs=[value("x", (2, 4)), value("z", (2, 4))]), only=["inspect", "propagate", "compile"])
    good(k, "output-is-constant", model([node("Relu", ["x"], ["z"])], outputs=[value("w", (4, 4)), value("z", (2, 4))], weights=[w]))
    good(k, "output-becomes-constant", model([mm("x", "w", "y")], weights=[array(np.zeros((4, 4)))]))
    good(k, "output-inside", model([mm("x", "w", "a"), node("Relu", ["a"], ["y"])], outputs=[value("a", (2, 4)), value("y", (2, 4))], weights=[w]))
    good(k, "outputs-same", model([mm("x", "w", "a"), node("Identity", ["a"], ["y"]), node("Identity", ["a"], ["z"])], outputs=[value("y", (2, 4)), value("z", (2, 4))], weights=[w]))
    good(k, "input-unused", model([mm("x", "w", "y")], inputs=[value("x", (2, 4)), value("u", (1 << 10, 1 << 10))], weights=[w]), feed=["x"])
    good(k, "weight-unused", model([node("Relu", ["x"], ["y"])], weights=[w]))
    good(k, "node-unused", model([mm("x", "w", "y"), mm("x", "w", "z")], weights=[w]))
    bad(k, "output-twice", "y", model([mm("x", "w", "y")], outputs=[value("y", (2, 4))] * 2, weights=[w]), {0, 1})


def chain(n, make):
    nodes, at = [], "x"
    for i in range(n):
        name = "y" if i == n - 1 else f"v{i}"
        nodes.append(make(i, at, name))
        at = name
    return nodes


def pyramid(depth):
    """Each sum reads every one before it."""
    nodes = [node("MatMul", ["x", "w"], ["v0"])]
    for i in range(1, depth):
        nodes.append(node("Sum", [f"v{j}" for j in range(i)], ["y" if i == depth - 1 else f"v{i}"]))
    return model(nodes, weights=[array(np.diag([1, 0, 1, 0]) * 1e-3)])


def erosion(size, cut):
    """y = (x W)[:, 0] of a sum with its own shift: to keep index 0 is to keep 1, and so on, one at a time."""
    w = np.zeros((4, size), np.float32)
    w[:, :: size // 4] = 1
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Relu", ["a"], ["b"]), node("Gather", ["b", "s"], ["c"], axis=1), node("Add", ["b", "c"], ["d"]),
             node("Slice", ["d", "f", "t", "one"], ["y"])]
    return model(nodes, y=(2, cut), weights=[array(w), ints(list(range(1, size)) + [0]), ints([0], "f"), ints([cut], "t"), ints([1], "one")])


def facts_bomb(count, axis):
    """Values of 2^22 cells, all known in half of their elements, one after the other."""
    mask = (np.arange(axis) % 2).astype(np.float32)
    nodes = [node("Mul", ["x", "w"], ["a0"]), node("Mul", ["a0", "v"], ["v0"])]
    nodes += [node("Add" if i % 2 else "Mul", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(count)] + [node("ReduceSum", [f"v{count}", "s"], ["y"])]
    return model(nodes, x=(axis, axis), y=(1, axis), weights=[array(mask), array(mask.reshape(-1, 1), "v"), ints([0])])


def contraction_bomb(count, size):
    """Products whose operands both vary everywhere, sparsely enough that nothing is settled early."""
    a = np.zeros((size, size), np.float32)
    np.fill_diagonal(a, 1)
    nodes = [node("Mul", ["x", "w"], ["v0"])] + [node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(count)] + [node("ReduceSum", [f"v{count}", "s"], ["y"])]
    return model(nodes, x=(size, size), y=(1, size), weights=[array(a), ints([0])])


def evaluation_bomb(count, size):
    """Constant products, one after the other: each is worth computing, all of them are not."""
    nodes = [node("MatMul", ["w", "w"], ["v0"])] + [node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(count)]
    nodes += [node("ReduceSum", [f"v{count}", "s"], ["r"]), node("Add", ["x", "r"], ["y"])]
    return model(nodes, x=(1, size), y=(1, size), weights=[array(np.ones((size, size)) / size), ints([0])])


def long_and_wide():
    k = "propagation: cost"
    mm = [node("MatMul", ["x", "w"], ["y"])]
    good(k, "relu-10000", lambda: model(chain(10000, lambda i, a, b: node("Relu" if i else "Abs", [a], [b]))))
    good(k, "matmul-10000", lambda: model(chain(10000, lambda i, a, b: node("MatMul", [a, "w"], [b])), weights=[array(np.diag([1, 0, 1, 0]))]))
    good(k, "add-zero-10000", lambda: model(chain(10000, lambda i, a, b: node("Add", [a, "w"], [b])), weights=[array([0.0] * 4)]))
    good(k, "residual-5000", lambda: model([n for i in range(5000) for n in (node("MatMul", [f"v{i}" if i else "x", "w"], [f"m{i}"]),
         node("Add", [f"m{i}", f"v{i}" if i else "x"], ["y" if i == 4999 else f"v{i + 1}"]))], weights=[array(np.zeros((4, 4)))]))
    good(k, "transpose-10000", lambda: model(chain(10000, lambda i, a, b: node("Transpose", [a], [b], perm=[1, 0])), x=(3, 4), y=(3, 4)))
    good(k, "fan-out-5000", lambda: model([node("MatMul", ["x", "w"], ["a"])] + [node("Relu", ["a"], [f"b{i}"]) for i in range(5000)]
         + [node("Sum", [f"b{i}" for i in range(5000)], ["y"])], weights=[pruned(4, 4, [1])]))
    good(k, "everyone-reads-everyone-200", lambda: pyramid(12))
    heavy(k, "everyone-reads-everyone-600", "", lambda: pyramid(600), only=["inspect", "propagate"])
    good(k, "constants-5000", lambda: model([node("Add", ["w", "w"], ["v0"])] + [node("Sub", [f"v{i}", "w"], [f"v{i + 1}"]) for i in range(5000)]
         + [node("Add", ["x", "v5000"], ["y"])], weights=[array([1.0, 2, 3, 4])]))
    good(k, "erosion-4096", lambda: erosion(4096, 1))
    heavy(k, "erosion-2^18", "", lambda: erosion(1 << 18, 1), only=["inspect", "propagate"])
    heavy(k, "facts-of-2^22-cells", "memory", lambda: facts_bomb(2000, 2048), only=["inspect", "propagate"])
    heavy(k, "facts-beyond-2^22-cells", "memory", lambda: facts_bomb(50, 4096), only=["inspect", "propagate"])
    heavy(k, "contraction-200", "", lambda: contraction_bomb(200, 1024), only=["inspect", "propagate"])
    heavy(k, "evaluation-2000", "", lambda: evaluation_bomb(2000, 512), only=["inspect", "propagate"])
    heavy(k, "expand-of-zero", "", lambda: model([node("Expand", ["w", "s"], ["a"]), node("Add", ["a", "x"], ["b"]), node("ReduceSum", ["b"], ["y"])], x=(1, 1), y=(1, 1),
          weights=[array([[0.0]]), ints([1 << 31, 1 << 31])]), {0, 1, 5})
    heavy(k, "range-folded", "", lambda: model([node("Range", ["a", "b", "c"], ["r"]), node("ReduceSum", ["r"], ["q"]), node("Cast", ["q"], ["f"], to=F32), node("Add", ["x", "f"], ["y"])],
          x=(1,), y=(1,), weights=[ints(0, "a"), ints(1 << 34, "b"), ints(1, "c")]), {0, 1, 5})


def quantised():
    k = "propagation: QDQ"
    q = array(np.random.default_rng(6).integers(-5, 5, (4, 4)), "w", np.int8)

    def qdq(scale, zero, axis=1, kind=np.int8):
        return model([node("DequantizeLinear", ["w", "c", "z"], ["d"], axis=axis), node("MatMul", ["x", "d"], ["a"]), node("QuantizeLinear", ["a", "c", "z"], ["q"], axis=axis),
                      node("DequantizeLinear", ["q", "c", "z"], ["y"], axis=axis)], weights=[q, array(scale, "c"), array(zero, "z", kind)])

    good(k, "right", qdq([0.5, 1, 2, 4], [0, 0, 0, 0]))
    good(k, "zero-points", qdq([0.5, 1, 2, 4], [1, -128, 127, 0]))
    good(k, "scale-zero", qdq([0.0, 1, 2, 4], [0, 0, 0, 0]), only=["inspect", "propagate"])
    good(k, "scale-nan", qdq([np.nan, 1, 2, np.inf], [0, 0, 0, 0]), only=["inspect", "propagate"])
    bad(k, "axis", ["'d'", "axis 2", "[-2, 1]"], qdq([0.5] * 4, [0] * 4, axis=2))
    bad(k, "zero-of-another-type", ["'d'", "i8", "u8"], qdq([0.5] * 4, [0] * 4, kind=np.uint8))
    bad(k, "scale-of-3", ["'d'", "3 and 4"], qdq([0.5] * 3, [0] * 3))


for fill in (external_data, sizes, attributes, sparse, recursion, structure, special_numbers, shapes_of_facts, sharing, long_and_wide, quantised):
    fill()


# ---------------------------------------------------------------- running
def commands(path, folder):
    return {"inspect": ["inspect", path], "propagate": ["propagate", path, "-o", folder + "/out.onnx"],
            "compile": ["compile", path, "-o", folder + "/out.sparta", "--no-measure"], "run": ["run", path, "--output-dir", folder + "/out"]}


def call(case, words, env, accepted, folder):
    result = sparta(*words, "--max-memory", MEMORY, timeout=SECONDS, env=env, prepare=(lambda: os.chdir(folder)) if case.here else None, look=case.kind == "good")
    need(result.code in accepted, f"{words[0]}: wanted exit {sorted(accepted)}: {result}")
    need(result.peak_mib < PEAK_MIB, f"{words[0]}: took {result.peak_mib:.0f} MiB")
    if result.code:
        need(result.err.splitlines()[-1].startswith("sparta: "), f"{words[0]}: no message: {result}")
        need(not any(w in result.err for w in ("this is a mistake", "Sanitizer")), f"{words[0]}: {result}")
        for word in case.words:
            need(word in result.err, f"{words[0]}: the message lacks {word!r}: {result}")
    return result


def answers(session, feeds):
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})))


def same_answer(case, path, smaller):
    """The original and what propagate made of it, in onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        before = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return f"not compared: onnxruntime says {str(error)[:80]}"
    after = onnxruntime.InferenceSession(smaller, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(7)
    feeds = {i.name: (rng.standard_normal(i.shape) if not case.feed or i.name in case.feed else np.zeros(i.shape)).astype(np.float32) for i in before.get_inputs()}
    want, got = answers(before, feeds), answers(after, feeds)
    need(list(want) == list(got), f"other outputs: {list(want)}, {list(got)}")
    for name in want:
        need(want[name].shape == got[name].shape, f"{name}: shape {want[name].shape}, {got[name].shape}")
        need(np.allclose(want[name], got[name], rtol=1e-5, atol=1e-5, equal_nan=True), f"{name}: another answer, {want[name].ravel()[:8]} {got[name].ravel()[:8]}")
    return ""


def run(case, work):
    folder = os.path.join(work, "".join(c if c.isalnum() else "-" for c in f"{case.klass} {case.name}"), "in")
    out, temporary = os.path.join(os.path.dirname(folder), "result"), os.path.join(work, "tmp")
    for f in (folder, out, temporary):
        os.makedirs(f, exist_ok=True)
    path = os.path.join(folder, "m.onnx")
    with open(path, "wb") as f:
        f.write(case.data())
    if case.setup:
        case.setup(folder)
    before, said = tree(folder), []
    for verb, words in commands("m.onnx" if case.here else path, out).items():
        if case.only and verb not in case.only:
            continue
        accepted = case.codes | ({0} if case.kind == "late" and verb != "run" else set())
        result = call(case, words, {"TMPDIR": temporary, "XDG_CACHE_HOME": work + "/cache"}, accepted, folder)
        said.append(f"{verb} {result.code} {result.seconds:.1f}s")
        need(result.code == 0 or not os.listdir(out) or "out.onnx" not in os.listdir(out) or verb != "propagate", f"{verb}: left {os.listdir(out)}")
        if verb == "propagate" and result.code == 0 and case.kind == "good":
            note = same_answer(case, path, out + "/out.onnx")
            said += [note] if note else []
    need(tree(folder) == before, "files beside the model were left or changed")
    need(not os.listdir(temporary), f"temporary files were left: {os.listdir(temporary)}")
    need(not os.path.exists("owned"), "a name was run as a command")
    return ", ".join(said)


def main():
    if "--table" in sys.argv:
        for c in CASES:
            print(f"{c.klass:28} {c.name:32} {'/'.join(map(str, sorted(c.codes))):8} {' '.join(c.words)}")
        return 0
    if "--write" in sys.argv:
        folder = sys.argv[sys.argv.index("--write") + 1]
        os.makedirs(folder, exist_ok=True)
        for c in CASES:
            with open(os.path.join(folder, "".join(x if x.isalnum() else "-" for x in f"{c.klass} {c.name}") + ".onnx"), "wb") as f:
                f.write(c.data())
        return 0
    tests = Tests()
    for c in CASES:
        tests.check(f"{c.klass}: {c.name}", run, c, tests.work)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
