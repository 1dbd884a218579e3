#!/usr/bin/env python3
"""Times single operators that are no product with a weight, on about a million elements, against onnxruntime.

    PYTHONPATH=python python tools/bench_operators.py                       all, one thread, 0.3 s each
    PYTHONPATH=python python tools/bench_operators.py --only Transpose      those whose line has that text
    make bench-operators OPERATORS_ARGS="--threads 2"                       all, and writes docs/benchmarks/operators.md

Each operator is a model of one node (a chain: of four), compiled as any model is. Short windows of both alternate, and the best of each counts:
other jobs share the machine. What is timed is the call of each library with inputs and outputs in place, without Python's copies. A ratio above 1
is slower than onnxruntime; answers are compared as well. Needs numpy, onnx, onnxruntime.
"""

import argparse
import os
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from bench_peers import commit_name, cpu_name
from sparta import _arrays, _library, package

MOST = 1.2  # times onnxruntime's time that an operator may take
M = 1 << 20
FUNCTIONS = {"GroupNormalization"}  # ONNX infers no shapes of these: results are as their input


def real(*shape, low=-2.0, high=2.0):
    return np.random.default_rng(1).uniform(low, high, shape).astype(np.float32)


def ints(most, *shape, dtype=np.int64):
    return np.random.default_rng(2).integers(0, most, shape).astype(dtype)


def const(*values):
    return np.array(values, np.int64)


def one(op, inputs, constants=(), outputs=1, **attributes):
    """A node: its inputs, then constants."""
    return [(op, [f"x{i}" for i in range(len(inputs))] + [f"c{i}" for i in range(len(constants))], [f"y{i}" for i in range(outputs)], attributes)], inputs, constants


def many(*nodes, inputs, constants=()):
    """Nodes as (operator, names of inputs, names of outputs, attributes); the last one's outputs are the model's."""
    return list(nodes), inputs, constants


X2, X4 = real(1024, 1024), real(8, 12, 128, 86)
HEADS = real(8, 128, 16, 64)
IMAGE = real(1, 64, 128, 128)
CASES = {
    # moves
    "Transpose (8,128,16,64) 0213": lambda: one("Transpose", [HEADS], perm=[0, 2, 1, 3]),
    "Transpose (8,128,16,64) 0231": lambda: one("Transpose", [HEADS], perm=[0, 2, 3, 1]),
    "Transpose (1024,1024) 10": lambda: one("Transpose", [X2], perm=[1, 0]),
    "Transpose (1,64,128,128) 0231": lambda: one("Transpose", [IMAGE], perm=[0, 2, 3, 1]),
    "Transpose (101,103,101) 210": lambda: one("Transpose", [real(101, 103, 101)], perm=[2, 1, 0]),
    "Transpose u8 (1024,1024) 10": lambda: one("Transpose", [ints(255, 1024, 1024, dtype=np.uint8)], perm=[1, 0]),
    "Transpose i64 (1024,1024) 10": lambda: one("Transpose", [ints(1 << 40, 1024, 1024)], perm=[1, 0]),
    "Slice last half": lambda: one("Slice", [real(1024, 2048)], [const(1024), const(2048), const(1)]),
    "Slice step 2": lambda: one("Slice", [real(1024, 2048)], [const(0), const(2048), const(1), const(2)]),
    "Slice outermost": lambda: one("Slice", [real(2048, 1024)], [const(1024), const(2048), const(0)]),
    "Concat last of 2": lambda: one("Concat", [real(4096, 128), real(4096, 128)], axis=-1),
    "Concat last of 4 x 32": lambda: one("Concat", [real(8192, 32) for _ in range(4)], axis=-1),
    "Split last in 2": lambda: one("Split", [real(4096, 256)], outputs=2, axis=-1, num_outputs=2),
    "Split last in 3 x 64": lambda: one("Split", [real(5461, 192)], outputs=3, axis=-1, num_outputs=3),
    "Reshape": lambda: one("Reshape", [X2], [const(512, 2048)]),
    "Expand (8,1,128,1024)": lambda: one("Expand", [real(8, 1, 128, 256)], [const(8, 4, 128, 256)]),
    "Expand last (1024,1)": lambda: one("Expand", [real(1024, 1)], [const(1024, 1024)]),
    "Tile (64,128)": lambda: one("Tile", [real(64, 128)], [const(8, 16)]),
    "Tile i64 (1,512,1)": lambda: one("Tile", [ints(512, 1, 512, 1)], [const(4, 1, 512)]),
    "Pad constant": lambda: one("Pad", [IMAGE], [const(0, 0, 1, 1, 0, 0, 1, 1)]),
    "Pad reflect": lambda: one("Pad", [IMAGE], [const(0, 0, 3, 3, 0, 0, 3, 3)], mode="reflect"),
    "Gather rows of 256": lambda: one("Gather", [real(4096, 256), ints(4096, 4096)]),
    "Gather axis 1": lambda: one("Gather", [X2, ints(1024, 1024)], axis=1),
    "Gather bool rows of 8": lambda: one("Gather", [real(4096, 8), ints(4096, 131072)]),
    "GatherElements last": lambda: one("GatherElements", [real(2048, 512), ints(512, 2048, 512)], axis=-1),
    "GatherElements first": lambda: one("GatherElements", [real(512, 2048), ints(512, 512, 2048)], axis=0),
    "GatherND rows of 64": lambda: one("GatherND", [real(64, 64, 64), ints(64, 16384, 2)]),
    "GatherND elements": lambda: one("GatherND", [real(1024, 1024), ints(1024, M, 2)]),
    "ScatterND rows of 64": lambda: one("ScatterND", [real(16384, 64), ints(16384, 8192, 1), real(8192, 64)]),
    "DepthToSpace": lambda: one("DepthToSpace", [real(1, 64, 128, 128)], blocksize=2),
    # casts and makers
    "Cast i64 to f32": lambda: one("Cast", [ints(1000, M)], to=TensorProto.FLOAT),
    "Cast f32 to i64": lambda: one("Cast", [real(M)], to=TensorProto.INT64),
    "Cast bool to f32": lambda: one("Cast", [ints(2, M, dtype=bool)], to=TensorProto.FLOAT),
    "Cast i64 to bool": lambda: one("Cast", [ints(2, M)], to=TensorProto.BOOL),
    "Cast i32 to i64": lambda: one("Cast", [ints(2, M, dtype=np.int32)], to=TensorProto.INT64),
    "CumSum last i64": lambda: one("CumSum", [ints(2, 1024, 1024)], [np.array(1, np.int64)]),
    "CumSum first f32": lambda: one("CumSum", [X2], [np.array(0, np.int64)]),
    "CumSum last f32": lambda: one("CumSum", [X2], [np.array(1, np.int64)]),
    "CumSum first i64": lambda: one("CumSum", [ints(2, 1024, 1024)], [np.array(0, np.int64)]),
    "Trilu": lambda: one("Trilu", [real(4, 512, 512)], upper=0),
    # quantise, pool
    "QuantizeLinear u8": lambda: one("QuantizeLinear", [X2], [np.array(0.02, np.float32), np.array(128, np.uint8)]),
    "QuantizeLinear i8 per axis": lambda: one("QuantizeLinear", [X2], [real(1024, low=0.01, high=0.02), np.zeros(1024, np.int8)], axis=0),
    "DequantizeLinear u8": lambda: one("DequantizeLinear", [ints(255, 1024, 1024, dtype=np.uint8)], [np.array(0.02, np.float32), np.array(128, np.uint8)]),
    "DequantizeLinear i8 per axis": lambda: one("DequantizeLinear", [ints(127, 1024, 1024, dtype=np.int8)], [real(1024, low=0.01, high=0.02), np.zeros(1024, np.int8)], axis=1),
    "MaxPool 3x3 s2": lambda: one("MaxPool", [IMAGE], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "MaxPool 2x2 s2": lambda: one("MaxPool", [IMAGE], kernel_shape=[2, 2], strides=[2, 2]),
    "AveragePool 2x2 s2": lambda: one("AveragePool", [IMAGE], kernel_shape=[2, 2], strides=[2, 2]),
    "AveragePool 3x3 s1": lambda: one("AveragePool", [IMAGE], kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
    "GlobalAveragePool": lambda: one("GlobalAveragePool", [real(1, 2048, 23, 23)]),
    "GlobalMaxPool": lambda: one("GlobalMaxPool", [real(1, 2048, 23, 23)]),
    # products of two activations
    "MatMul (1,6,128,64)x(64,128)": lambda: one("MatMul", [real(1, 6, 128, 64), real(1, 6, 64, 128)]),
    "MatMul (1,6,128,128)x(128,64)": lambda: one("MatMul", [real(1, 6, 128, 128), real(1, 6, 128, 64)]),
    "MatMul (1,6,128,64)xT": lambda: many(("Transpose", ["x1"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["x0", "t"], ["y0"], {}),
                                          inputs=[real(1, 6, 128, 64), real(1, 6, 128, 64)]),
    "MatMul (1,16,1,128)x(128,512)": lambda: one("MatMul", [real(1, 16, 1, 128), real(1, 16, 128, 512)]),
    "MatMul (1,16,1,64)xT": lambda: many(("Transpose", ["x1"], ["t"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["x0", "t"], ["y0"], {}),
                                         inputs=[real(1, 16, 1, 64), real(1, 16, 1024, 64)]),
    "MatMul (512,512)x(512,512)": lambda: one("MatMul", [real(512, 512), real(512, 512)]),
    "MatMul (8,4,49,32)x(32,49)": lambda: one("MatMul", [real(64, 4, 49, 32), real(64, 4, 32, 49)]),
    "Gemm transB": lambda: one("Gemm", [real(256, 256), real(256, 256)], transB=1),
    "Einsum bhid,bhjd->bhij": lambda: one("Einsum", [real(1, 6, 128, 64), real(1, 6, 128, 64)], equation="bhid,bhjd->bhij"),
    # element by element
    "Add": lambda: one("Add", [X2, real(1024, 1024)]),
    "Add row": lambda: one("Add", [X2, real(1024)]),
    "Add column": lambda: one("Add", [X2, real(1024, 1)]),
    "Mul": lambda: one("Mul", [X2, real(1024, 1024)]),
    "Div": lambda: one("Div", [X2, real(1024, 1024, low=1)]),
    "Pow 2": lambda: one("Pow", [X2], [np.array(2, np.float32)]),
    "Pow 3": lambda: one("Pow", [X2], [np.array(3, np.float32)]),
    "Sqrt": lambda: one("Sqrt", [real(1024, 1024, low=0)]),
    "Exp": lambda: one("Exp", [X2]),
    "Log": lambda: one("Log", [real(1024, 1024, low=0.1)]),
    "Tanh": lambda: one("Tanh", [X2]),
    "Erf": lambda: one("Erf", [X2]),
    "Sigmoid": lambda: one("Sigmoid", [X2]),
    "Sin": lambda: one("Sin", [X2]),
    "Cos": lambda: one("Cos", [X2]),
    "Relu": lambda: one("Relu", [X2]),
    "Gelu": lambda: one("Gelu", [X2]),
    "Clip": lambda: one("Clip", [X2], [np.array(-1, np.float32), np.array(1, np.float32)]),
    "Where": lambda: one("Where", [ints(2, 1024, 1024, dtype=bool), X2, real(1024, 1024)]),
    "Where scalar": lambda: one("Where", [ints(2, 1024, 1024, dtype=bool), X2], [np.array(-1e9, np.float32)]),
    "Equal i64": lambda: one("Equal", [ints(2, M), ints(2, M)]),
    "Less f32": lambda: one("Less", [X2, real(1024, 1024)]),
    "Not": lambda: one("Not", [ints(2, M, dtype=bool)]),
    "And": lambda: one("And", [ints(2, M, dtype=bool), ints(2, M, dtype=bool)]),
    "Add i64": lambda: one("Add", [ints(9, M), ints(9, M)]),
    "chain of four": lambda: many(("Add", ["x0", "x1"], ["a"], {}), ("Mul", ["a", "x1"], ["b"], {}), ("Sub", ["b", "x0"], ["c"], {}), ("Relu", ["c"], ["y0"], {}),
                                  inputs=[X2, real(1024, 1024)]),
    # lines
    "Softmax last": lambda: one("Softmax", [real(12, 128, 683)], axis=-1),
    "Softmax first": lambda: one("Softmax", [X2], axis=0),
    "LogSoftmax": lambda: one("LogSoftmax", [X2], axis=-1),
    "ReduceMean last": lambda: one("ReduceMean", [X2], [const(-1)]),
    "ReduceSum first": lambda: one("ReduceSum", [X2], [const(0)]),
    "ReduceMax last": lambda: one("ReduceMax", [X2], [const(-1)]),
    "LayerNormalization": lambda: one("LayerNormalization", [X2], [real(1024), real(1024)], axis=-1),
    "BatchNormalization": lambda: one("BatchNormalization", [IMAGE], [real(64), real(64), real(64), real(64, low=0.5)]),
    "InstanceNormalization": lambda: one("InstanceNormalization", [IMAGE], [real(64), real(64)]),
    "GroupNormalization": lambda: one("GroupNormalization", [IMAGE], [real(64), real(64)], num_groups=8),
    "ArgMax last": lambda: one("ArgMax", [X2], axis=-1),
    "ArgMax first": lambda: one("ArgMax", [X2], axis=0),
    "ArgMin middle": lambda: one("ArgMin", [real(16, 64, 1024)], axis=1),
    "TopK 8 of 1024": lambda: one("TopK", [X2], [const(8)], outputs=2),
    "TopK 50 of 32768": lambda: one("TopK", [real(32, 32768)], [const(50)], outputs=2),
    # images
    "Conv 3x3 (1,64,56,56)": lambda: one("Conv", [real(1, 64, 56, 56), real(64, 64, 3, 3)], pads=[1, 1, 1, 1]),
    "Conv 3x3 s2 (1,64,56,56)": lambda: one("Conv", [real(1, 64, 56, 56), real(128, 64, 3, 3)], pads=[1, 1, 1, 1], strides=[2, 2]),
    "Conv 1x1 (1,256,28,28)": lambda: one("Conv", [real(1, 256, 28, 28), real(128, 256, 1, 1)]),
    "Conv depthwise 3x3 (1,64,112,112)": lambda: one("Conv", [real(1, 64, 112, 112), real(64, 1, 3, 3)], pads=[1, 1, 1, 1], group=64),
    "Resize nearest x2": lambda: one("Resize", [real(1, 64, 64, 64)], [np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
                                     mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "Resize linear x2": lambda: one("Resize", [real(1, 64, 64, 64)], [np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
                                    mode="linear", coordinate_transformation_mode="half_pixel"),
    "Resize cubic x2": lambda: one("Resize", [real(1, 64, 64, 64)], [np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
                                   mode="cubic", coordinate_transformation_mode="half_pixel"),
}


def aligned(x):
    """A copy that begins at a line of the cache, as tensors of onnxruntime and torch do; NumPy's begin 16 bytes behind one."""
    room = np.empty(x.nbytes + 64, np.uint8)
    at = -room.ctypes.data % 64
    copy = room[at:at + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


def model_of(nodes, inputs, constants):
    """An ONNX model whose inputs are x0, x1, ..., its constants c0, c1, ..."""
    typed = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for i, x in enumerate(inputs)]
    held = [numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(constants)]
    made = [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes]
    outputs = [onnx.ValueInfoProto(name=name) for name in nodes[-1][2]]
    if nodes[-1][0] in FUNCTIONS:
        outputs[0].type.CopyFrom(typed[0].type)
    model = helper.make_model(helper.make_graph(made, "one", typed, outputs, held), opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    onnx.checker.check_model(inferred)
    return inferred


class Ours:
    """A call of sparta_session_run with everything made beforehand."""

    def __init__(self, model, inputs, threads):
        self.package = package.compile(model, threads=threads)
        self.session = package._Session(self.package._open(), threads)
        names = self.package._names(self.package._open(), "output")
        self.given, self.keep = (package._NAMED * len(inputs))(), [names]
        for i, x in enumerate(inputs):
            self.given[i].name = f"x{i}".encode()
            self.given[i].tensor, held = _arrays.view(x, "x", rows=True)
            self.keep += [held, x]
        self.answers = (package._NAMED * len(names))()
        for slot, name in zip(self.answers, names):
            slot.name = name.encode()
        self.handle, self.context = self.session.handle._handle, self.session.context

    def __call__(self):
        status = _library.lib.sparta_session_run(self.context.cx, self.handle, self.given, len(self.given), self.answers, len(self.answers))
        if status:
            self.context.check(status)

    def outputs(self):
        return [_arrays.copy(slot.tensor) for slot in self.answers]


class Theirs:
    """onnxruntime with inputs and outputs bound."""

    def __init__(self, model, inputs, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.answer = self.session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})
        self.bound = self.session.io_binding()
        for i, x in enumerate(inputs):
            self.bound.bind_ortvalue_input(f"x{i}", onnxruntime.OrtValue.ortvalue_from_numpy(x))
        for out, y in zip(self.session.get_outputs(), self.answer):
            self.bound.bind_ortvalue_output(out.name, onnxruntime.OrtValue.ortvalue_from_numpy(y))

    def __call__(self):
        self.session.run_with_iobinding(self.bound)

    def outputs(self):
        return self.answer


def window(call, seconds):
    """The best time of one call within a window."""
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - start)
        if now >= end:
            return best


def close(ours, theirs):
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    if ours.dtype.kind == "f":
        return np.allclose(ours, theirs, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(theirs).max())))
    return bool((np.abs(ours.astype(np.int64) - theirs.astype(np.int64)) <= (1 if ours.dtype.itemsize == 1 else 0)).all())


def measure(case, threads, seconds):
    """(our µs, theirs, are the answers close, what runs it)."""
    nodes, inputs, constants = case()
    model, inputs = model_of(nodes, inputs, constants), [aligned(x) for x in inputs]
    subjects = [Ours(model, inputs, threads), Theirs(model, inputs, threads)]
    best = [float("inf")] * 2
    subjects[0](), subjects[1]()
    right = all(close(a, b) for a, b in zip(subjects[0].outputs(), subjects[1].outputs()))
    for _ in range(6):
        for i, subject in enumerate(subjects):
            best[i] = min(best[i], window(subject, seconds / 12))
    return best[0] * 1e6, best[1] * 1e6, right, " ".join(sorted({l["implement"] for l in subjects[0].package.layers}))


def write_page(options, lines):
    """The table, below what it was measured with."""
    page = ["# Operators against onnxruntime", "",
            f"What is no product with a weight, alone in a model, on about a million elements and {options.threads} thread{'s' if options.threads > 1 else ''}: "
            "the best of short windows that take turns.",
            f"A ratio above 1 is slower than onnxruntime; at most {MOST} is the aim.", "",
            f"- {cpu_name()}, {os.cpu_count()} cores; load before the start {options.load:.2f}",
            f"- onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}, numpy {np.__version__}",
            f"- {time.strftime('%Y-%m-%d')}, commit {commit_name()}",
            f"- `make bench-operators OPERATORS_ARGS=\"--threads {options.threads} --seconds {options.seconds}\"`", ""]
    with open(options.out, "w", encoding="utf-8") as file:
        file.write("\n".join(page + lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--out", help="a Markdown file for the table")
    options = parser.parse_args()
    options.load = os.getloadavg()[0]
    lines, slow = ["| operator | sparta µs | onnxruntime µs | ratio | runs as |", "|---|---:|---:|---:|---|"], []
    for name, case in CASES.items():
        if options.only.lower() not in name.lower():
            continue
        try:
            ours, theirs, right, implement = measure(case, options.threads, options.seconds)
        except Exception as error:  # one that fails must not hide the others
            print(f"{name:36} {error}", file=sys.stderr)
            slow.append(name)
            continue
        ratio = ours / theirs
        lines.append(f"| {name} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} | {implement} |")
        print(f"{name:36} {ours:9.1f} {theirs:9.1f}  {ratio:6.2f}{'' if ratio <= MOST else '  slow'}{'' if right else '  WRONG'}  {implement}", flush=True)
        if ratio > MOST or not right:
            slow.append(name)
    print(f"{len(slow)} of {len(lines) - 2} above {MOST}: {', '.join(slow)}")
    if options.out:
        write_page(options, lines)


if __name__ == "__main__":
    main()
