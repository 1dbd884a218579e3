"""Batches and sequences of none: sparta gives the empty arrays that onnxruntime gives, on the references and in a session."""

import os
import sys

import numpy as np
from onnx import TensorProto, helper, save

from common import Tests, must, need, open_onnxruntime, run_onnxruntime, run_sparta

F32 = TensorProto.FLOAT


def model(path, nodes, initializers=(), x=("batch", "sequence", 8)):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", F32, list(x))],
                              [helper.make_tensor_value_info("y", F32, None)], list(initializers))
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def weight(name, *shape):
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    return helper.make_tensor(name, F32, shape, values.tobytes(), raw=True)


def ints(name, *values):
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


MODELS = {
    "product": ([helper.make_node("MatMul", ["x", "w"], ["y"])], [weight("w", 8, 16)]),
    "softmax": ([helper.make_node("Softmax", ["x"], ["y"], axis=1)], []),
    "sum of none": ([helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=0)], [ints("a", 1)]),
    "concat": ([helper.make_node("Concat", ["x", "x"], ["y"], axis=1)], []),
    "transpose": ([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2])], []),
    "split heads": ([helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 1, 3])],
                    [ints("s", 0, 0, 2, 4)]),
    "scores": ([helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["t", "x"], ["y"])], []),
}


def compare(path, sizes, work, inputs):
    want = run_onnxruntime(open_onnxruntime(path), inputs)
    package = os.path.join(work, "p.sparta")
    must("compile", path, "--no-measure", "-q", "-o", package)
    for file in (path, package):
        got = run_sparta(file, inputs, os.path.join(work, "out"))
        for name, array in want.items():
            need(got[name].shape == array.shape, f"{file}: '{name}' is {got[name].shape}, {array.shape} in onnxruntime, at {sizes}")
            need(not got[name].any(), f"{file}: '{name}' is not 0 at {sizes}")  # sums of nothing; onnxruntime leaves some unwritten


def made(tests, name):
    path = os.path.join(tests.work, "m.onnx")
    model(path, *MODELS[name])
    for sizes in ((0, 3), (2, 0), (0, 0)):
        compare(path, sizes, tests.work, {"x": np.zeros((*sizes, 8), np.float32)})


def bert(tests):
    path = os.path.join(tests.work, "b.onnx")
    must("zoo", "bert-mini", *"--dim layers=1 --dim hidden=32 --dim heads=2 --dim ffn=32 --dim vocab=20".split(), "-o", path)
    for sizes in ((0, 7), (2, 0)):
        names = ("input_ids", "attention_mask", "token_type_ids")
        compare(path, sizes, tests.work, {name: np.zeros(sizes, np.int64) for name in names})


if __name__ == "__main__":
    tests = Tests()
    for each in MODELS:
        tests.check(each, made, tests, each)
    tests.check("bert", bert, tests)
    sys.exit(tests.finish())
