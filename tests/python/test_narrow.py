"""Models in f16 and bf16 run on the f32 kernels: converted here from f32 ones as a tool would, they must agree with onnxruntime's f16 and with the
f32 model, every Linear must have a kernel, and what goes in and out keeps its type."""

import json
import os
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import FIXTURES, Tests, error, inputs_of, make_inputs, must, need, open_onnxruntime, run_onnxruntime, run_sparta, sparta

TYPES = {"f16": (TensorProto.FLOAT16, np.float16), "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}
CLOSE = 2e-2
CRASHES = ["encoder-dynamo"]  # onnxruntime 1.31, in f16
MODELS = ["bert-script-eager", "bert-dynamo-sdpa-4x1", "encoder-dynamo", "mlp-script-4x1", "gpt2-dynamo", "llama-script"]


def narrow_tensor(t, to):
    code, kind = TYPES[to]
    if t.data_type != TensorProto.FLOAT:
        return
    a = numpy_helper.to_array(t)
    a = np.clip(a, -65504, 65504) if to == "f16" else a
    t.CopyFrom(helper.make_tensor(t.name, code, a.shape, np.asarray(a).astype(kind).tobytes(), raw=True))


def narrow(source, to, path, edges=True):
    """The model with every f32 as the other type; inputs and outputs too, or with Casts behind and in front of them."""
    model = onnx.load(source)
    code = TYPES[to][0]
    for t in model.graph.initializer:
        narrow_tensor(t, to)
    for n in model.graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                narrow_tensor(a.t, to)
            if n.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = code
    floats = [v for v in [*model.graph.input, *model.graph.output] if v.type.tensor_type.elem_type == TensorProto.FLOAT]
    for v in floats:
        if edges:
            v.type.tensor_type.elem_type = code
    if not edges:
        inputs = {v.name for v in model.graph.input}
        for v in floats:
            inside = v.name + "/narrow"
            for n in model.graph.node:
                for names in (n.input, n.output):
                    for i, name in enumerate(names):
                        if name == v.name:
                            names[i] = inside
            if v.name in inputs:
                model.graph.node.insert(0, helper.make_node("Cast", [v.name], [inside], v.name + "/in", to=code))
            else:
                model.graph.node.append(helper.make_node("Cast", [inside], [v.name], v.name + "/out", to=TensorProto.FLOAT))
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path


def rounded(source, to, path):
    """The f32 model with the weights of the narrow one, which is what we compute."""
    model = onnx.load(source)
    for t in model.graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            name, wide = t.name, numpy_helper.to_array(t)
            narrow_tensor(t, to)
            kept = np.frombuffer(t.raw_data, TYPES[to][1]).astype(np.float32).reshape(wide.shape)
            t.CopyFrom(numpy_helper.from_array(kept, name))
    onnx.save(model, path)
    return path


def check_model(folder, name, to, edges):
    source = os.path.join(FIXTURES, name + ".onnx")
    path = narrow(source, to, os.path.join(folder, "n.onnx"), edges)
    package = os.path.join(folder, "n.sparta")
    said = json.loads(must("compile", path, "--no-measure", "--json", "-o", package).out)
    linear = [x for x in said["layers"] if x["op"] == "Linear"]
    need(linear and all(x["implement"] != "builtin" for x in linear), f"without a kernel: {[x['name'] for x in linear if x['implement'] == 'builtin']}")
    need(not any(x["op"] == "Gemm" for x in said["layers"]), "a Gemm stayed")
    need(any(f"is in {to}" in n for n in said["notes"]), said["notes"])
    must("verify", package, "--against", path, "--dim", "batch=2", *(["--dim", "sequence=7"] if "sequence" in str(inputs_of(path)) else []))
    kind = TYPES[to][1] if edges else np.float32
    inputs = make_inputs(source, {"batch": 3, "sequence": 9}, 20, 1)
    ours = {n: a.astype(kind) if a.dtype == np.float32 else a for n, a in inputs.items()}
    got = run_sparta(package, ours, os.path.join(folder, "run"))
    same = {n: a.astype(kind).astype(np.float32) if a.dtype == np.float32 else a for n, a in inputs.items()}
    wide = run_onnxruntime(open_onnxruntime(rounded(source, to, os.path.join(folder, "w.onnx"))), same)
    worst = 0
    for n, want in wide.items():
        a = got[n.replace("/", "_")]
        if want.dtype != np.float32:
            continue
        a = a.view(ml_dtypes.bfloat16) if to == "bf16" and edges else a
        need(a.dtype == kind, f"{n} is {a.dtype}")
        worst = max(worst, error(a.astype(np.float32), want)[0])
    need(worst < CLOSE / 2, f"{worst:.3g} from the same weights in f32")
    if to == "bf16" or name in CRASHES:  # bf16 onnxruntime does not run on CPUs
        return f"{worst:.2g}"
    peer = run_onnxruntime(open_onnxruntime(path), ours)
    for n, want in peer.items():
        if want.dtype in (np.float16, np.float32):
            off = error(got[n.replace("/", "_")].astype(np.float32), want.astype(np.float32))[0]
            need(off < CLOSE, f"{n}: {off:.3g} from onnxruntime's f16")
    return f"{worst:.2g}"


def small(path, nodes, kind=TensorProto.FLOAT16, out=TensorProto.FLOAT16, initializer=()):
    info = lambda n, t: helper.make_tensor_value_info(n, t, ["batch", 8])  # noqa: E731
    graph = helper.make_graph(nodes, "m", [info("x", kind)], [info("y", out)], list(initializer))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def check_rounding(folder):
    """A Cast to f16 and straight back is there to round: it stays, exactly."""
    nodes = [helper.make_node("Cast", ["x"], ["h"], "down", to=TensorProto.FLOAT16), helper.make_node("Cast", ["h"], ["y"], "up", to=TensorProto.FLOAT)]
    path = small(os.path.join(folder, "round.onnx"), nodes, TensorProto.FLOAT, TensorProto.FLOAT)
    package = os.path.join(folder, "round.sparta")
    must("compile", path, "--no-measure", "-o", package)
    x = np.float32([[1.0001, 3.14159, 1e-9, 70000, -2049, 0.1, -1e5, 7]])
    with np.errstate(over="ignore"):
        want = x.astype(np.float16).astype(np.float32)
    got = run_sparta(package, {"x": x}, os.path.join(folder, "round"))["y"]
    need(np.array_equal(got, want), f"{got} instead of {want}")


def check_edges(folder):
    """An output that others read too, an input that is an output's operand twice, a constant of f16 that is filled in."""
    value = helper.make_tensor("", TensorProto.FLOAT16, [1], np.float16([0.5]).tobytes(), raw=True)
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("ConstantOfShape", ["s"], ["c"], value=value), helper.make_node("Add", ["x", "x"], ["d"]),
             helper.make_node("Mul", ["d", "c"], ["y"]), helper.make_node("Add", ["y", "d"], ["z"])]
    info = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT16, ["batch", 8])  # noqa: E731
    graph = helper.make_graph(nodes, "m", [info("x")], [info("y"), info("z")])
    path = os.path.join(folder, "edges.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    package = os.path.join(folder, "edges.sparta")
    must("compile", path, "--no-measure", "-o", package)
    x = np.random.default_rng(2).standard_normal((3, 8)).astype(np.float16)
    got = run_sparta(package, {"x": x}, os.path.join(folder, "edges"))
    need(got["y"].dtype == np.float16 and np.array_equal(got["y"], x), "y")
    need(got["z"].dtype == np.float16 and np.allclose(got["z"], 3 * x.astype(np.float32), rtol=2e-3), "z")


def check_strict(folder):
    """--strict keeps what overflows; without it the inside does not."""
    nodes = [helper.make_node("Mul", ["x", "x"], ["h"]), helper.make_node("Div", ["h", "x"], ["y"])]
    path = small(os.path.join(folder, "strict.onnx"), nodes)
    x = np.float16([[1000] * 8])
    for words, want in ((["--strict"], np.inf), ([], 1000)):
        package = os.path.join(folder, "strict.sparta")
        must("compile", path, "--no-measure", *words, "-o", package)
        got = run_sparta(package, {"x": x}, os.path.join(folder, "strict"))["y"]
        need(got[0, 0] == want, f"{got[0, 0]} instead of {want}")


def check_plain(folder):
    """Nothing is said of a model in f32."""
    result = sparta("compile", os.path.join(FIXTURES, "mlp-script.onnx"), "--no-measure", "--json", "-o", os.path.join(folder, "p.sparta"))
    need(not any("computed in f32" in n for n in json.loads(result.out)["notes"]), result)


def main():
    tests = Tests()
    for name in MODELS:
        for to in TYPES:
            tests.check(f"{name} in {to}", check_model, tests.work, name, to, True)
    tests.check("f32 outside, f16 inside", check_model, tests.work, "mlp-dynamo", "f16", False)
    tests.check("f32 outside, bf16 inside", check_model, tests.work, "encoder-script", "bf16", False)
    tests.check("rounding that is meant", check_rounding, tests.work)
    tests.check("edges", check_edges, tests.work)
    tests.check("strict", check_strict, tests.work)
    tests.check("f32 is as it was", check_plain, tests.work)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
