"""Operators that are rewritten into ours when a model is imported: what onnxruntime's quantize_dynamic and its optimiser write, against onnxruntime."""

import logging
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from common import FIXTURES, Tests, error, inputs_of, must, need, run_onnxruntime, run_sparta, sparta

tests = Tests()
logging.disable(logging.WARNING)  # of quantisers, about how they would rather be called
os.environ["XDG_CACHE_HOME"] = os.path.join(tests.work, "cache")
F, I8, U8, I32, I64 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64
QUANTISED = {"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul", "MatMulIntegerToFloat"}
SIZES = (3, 7, 5)  # of dims that vary, in turn


def session(path, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL, write=None):
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.graph_optimization_level = 4, 1, level
    if write:
        options.optimized_model_filepath = write
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def given(path):
    rng, sizes, made = np.random.default_rng(0), {}, {}
    for name, kind, dims in inputs_of(path):
        shape = [sizes.setdefault(d, SIZES[len(sizes) % 3]) if isinstance(d, str) else d for d in dims]
        if kind == F:
            made[name] = rng.standard_normal(shape, dtype=np.float32)
        elif kind in (I8, U8):
            made[name] = rng.integers(-128 if kind == I8 else 0, 128 if kind == I8 else 256, shape).astype(np.int8 if kind == I8 else np.uint8)
        else:
            made[name] = (np.ones(shape) if "mask" in name else rng.integers(0, 2, shape)).astype(np.int32 if kind == I32 else np.int64)
    return made


def agree(path, inputs=None, most=3e-6):
    """The file on the references, and its package, against onnxruntime on the file as it is."""
    inputs = inputs or given(path)
    want = run_onnxruntime(session(path), inputs)
    package = path.replace(".onnx", ".sparta")
    must("compile", path, "--no-measure", "-o", package, "--quiet")
    for run in (path, package):
        have = run_sparta(run, inputs, os.path.join(tests.work, "io"))
        for name, answer in want.items():
            off = error(have[name], answer)[0]
            need(have[name].dtype == answer.dtype and off <= most, f"{os.path.basename(run)} {name}: off by {off} as {have[name].dtype}")


def operators(path):
    return {n.op_type for n in onnx.load(path, load_external_data=False).graph.node}


# ---------------------------------------------------------------- whole models
def quantised(name):
    """As quantize_dynamic writes it, and as onnxruntime's optimiser writes that."""
    path, fused = (os.path.join(tests.work, f"{name}{end}.onnx") for end in (".q", ".fused"))
    quantize_dynamic(os.path.join(FIXTURES, name + ".onnx"), path)
    session(path, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, fused)
    found = operators(path) | operators(fused)
    need(found & QUANTISED, f"nothing was quantised: {found}")
    for file in (path, fused):
        agree(file)
    return ", ".join(sorted(found & QUANTISED))


def static(plain, quant_format=QuantFormat.QDQ, **how):
    class Reader(CalibrationDataReader):
        left = [given(plain)]

        def get_next(self):
            return self.left.pop() if self.left else None

    path = os.path.join(tests.work, "static.onnx")
    quantize_static(plain, path, Reader(), quant_format=quant_format, **how)
    return path


def optimised(name):
    path = os.path.join(tests.work, f"{name}.fused.onnx")
    session(os.path.join(FIXTURES, name + ".onnx"), ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, path)
    found = {n.op_type for n in onnx.load(path).graph.node if n.domain == "com.microsoft"}
    need(found, "the optimiser fused nothing")
    agree(path)
    return ", ".join(sorted(found))


# ---------------------------------------------------------------- operators, one by one
def model(nodes, inputs, outputs, constants=(), opset=17):
    path = os.path.join(tests.work, "one.onnx")
    graph = helper.make_graph(nodes, "one", [helper.make_tensor_value_info(n, k, d) for n, k, d in inputs], [helper.make_tensor_value_info(n, k, d) for n, k, d in outputs],
                              [numpy_helper.from_array(v, n) for n, v in dict(constants).items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=8), path)
    return path


def one(op, inputs, outputs, constants=(), domain="com.microsoft", operands=None, feed=None, **attributes):
    operands = operands if operands is not None else [n for n, _, _ in inputs] + list(dict(constants))
    agree(model([helper.make_node(op, operands, [n for n, _, _ in outputs], domain=domain, name="it", **attributes)], inputs, outputs, constants), feed)


rng = np.random.default_rng(1)
normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)


def integers():
    whole = lambda kind, *shape: rng.integers(*((-128, 128) if kind is np.int8 else (0, 256)), shape).astype(kind)
    for kind in (np.int8, np.uint8):
        w = whole(kind, 16, 6)
        for zero in ({}, {"az": np.uint8(7)}, {"az": np.uint8(7), "bz": kind(3)}, {"az": np.array([9], np.uint8), "bz": np.array([3], kind)}, {"az": np.uint8(200), "bz": whole(kind, 6)}):
            one("MatMulInteger", [("a", U8, [2, "n", 16])], [("y", I32, None)], {"b": w, **zero}, domain="")
    one("MatMulInteger", [("a", U8, [4, 8]), ("b", U8, [8, 3]), ("az", U8, [1]), ("bz", U8, [])], [("y", I32, None)], domain="")
    one("MatMulInteger", [("a", U8, [2, "n", 16])], [("y", I32, None)], {"b": whole(np.int8, 2, 16, 3), "az": np.uint8(7), "bz": whole(np.int8, 2, 1, 3)}, domain="")
    kernel = whole(np.uint8, 5, 3, 3, 3)
    for zero in ({}, {"xz": np.uint8(130)}, {"xz": np.uint8(130), "wz": np.uint8(120)}):
        one("ConvInteger", [("x", U8, ["n", 3, 8, 9])], [("y", I32, None)], {"w": kernel, **zero}, domain="", pads=[1, 0, 1, 2], strides=[2, 1])
    for case in (normal(5, 7), np.abs(normal(5, 7)), -np.abs(normal(5, 7)), np.zeros((5, 7), np.float32), 1e-3 * normal(5, 7) + 4):
        one("DynamicQuantizeLinear", [("x", F, ["n", 7])], [("y", U8, None), ("s", F, []), ("z", U8, [])], domain="", feed={"x": case})
    w, scale, bias = whole(np.int8, 16, 6), np.abs(normal(6)), normal(6)
    for scales in (scale, scale[:1]):
        zero = whole(np.int8, *scales.shape)
        for operands in (["x", "w", "s"], ["x", "w", "s", "z"], ["x", "w", "s", "", "b"], ["x", "w", "s", "z", "b"]):
            one("DynamicQuantizeMatMul", [("x", F, [2, "n", 16])], [("y", F, None)], {"w": w, "s": scales, "z": zero, "b": bias}, operands=operands)
    for operands in (["x", "w", "t", "s"], ["x", "w", "t", "s", "zx", "zw", "b"]):
        one("MatMulIntegerToFloat", [("x", U8, ["n", 16])], [("y", F, None)], {"w": w, "t": np.float32(0.02), "s": scale, "zx": np.uint8(100), "zw": np.zeros(6, np.int8), "b": bias}, operands=operands)


def node_tests():
    """ONNX's own of opset 10, which is older than what is read; the operators are the same since."""
    folder = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/node")
    for name in ("test_matmulinteger", "test_convinteger_with_padding", "test_convinteger_without_padding"):
        old = onnx.load(os.path.join(folder, name, "model.onnx"))
        old.opset_import[0].version = 11
        old.ir_version = 6
        path = os.path.join(tests.work, name + ".onnx")
        onnx.save(old, path)
        read = lambda what: numpy_helper.to_array(onnx.load_tensor(os.path.join(folder, name, "test_data_set_0", what)))  # noqa: B023
        have = run_sparta(path, {i.name: read(f"input_{k}.pb") for k, i in enumerate(old.graph.input)}, os.path.join(tests.work, "io"))
        need(np.array_equal(next(iter(have.values())), read("output_0.pb")), f"{name}: {have}")


def activations():
    for op in ("Gelu", "FastGelu"):
        one(op, [("x", F, ["n", 8])], [("y", F, None)])
    for op in ("BiasGelu", "FastGelu"):
        one(op, [("x", F, ["n", 8])], [("y", F, None)], {"b": normal(8)})
    for more in ({}, {"alpha": 0.7}):
        one("QuickGelu", [("x", F, ["n", 8])], [("y", F, None)], **more)


def normalisations():
    x, gamma, beta, bias = [("x", F, ["n", 5, 8]), ("r", F, ["n", 5, 8])], normal(8), normal(8), normal(8)
    for operands in (["x", "r", "g"], ["x", "r", "g", "b"], ["x", "r", "g", "b", "c"], ["x", "r", "g", "", "c"]):
        one("SkipLayerNormalization", x, [("y", F, None)], {"g": gamma, "b": beta, "c": bias}, operands=operands, epsilon=1e-3)
    nodes = [helper.make_node("SkipLayerNormalization", ["x", "r", "g", "b"], ["y", "", "", "s"], domain="com.microsoft")]
    agree(model(nodes, x, [("y", F, None), ("s", F, None)], {"g": gamma, "b": beta}))
    for operands in (["x", "r", "g"], ["x", "r", "g", "c"]):
        one("SkipSimplifiedLayerNormalization", x, [("y", F, None)], {"g": gamma, "c": bias}, operands=operands, epsilon=1e-3)
    one("SimplifiedLayerNormalization", x[:1], [("y", F, None)], {"g": gamma}, domain="", axis=-1, epsilon=1e-3)


def embeddings():
    tables = {"w": normal(20, 8), "p": normal(16, 8), "t": normal(2, 8), "g": normal(8), "b": normal(8)}
    ids, types, mask, place = (("ids", I32, ["n", "m"]), ("types", I32, ["n", "m"]), ("mask", I32, ["n", "m"]), ("place", I32, ["n", "m"]))
    for inputs, operands in (([ids, types], ["ids", "types", "w", "p", "t", "g", "b"]), ([ids], ["ids", "", "w", "p", "", "g", "b"]),
                             ([ids, types, mask], ["ids", "types", "w", "p", "t", "g", "b", "mask"]), ([ids, types, mask, place], ["ids", "types", "w", "p", "t", "g", "b", "mask", "place"])):
        for out in (["y", ""], ["y", "", "sum"]):
            nodes = [helper.make_node("EmbedLayerNormalization", operands, out, domain="com.microsoft", epsilon=1e-4)]
            agree(model(nodes, inputs, [(n, F, None) for n in out if n], tables))


def products():
    for a, b, ta, tb in (([4, 8], [8, 3], 0, 0), ([8, 4], [8, 3], 1, 0), ([2, 4, 8], [2, 3, 8], 0, 1), ([2, 2, 8, 4], [2, 2, 3, 8], 1, 1)):
        for alpha in (1.0, 0.3):
            one("FusedMatMul", [("a", F, a), ("b", F, b)], [("y", F, None)], transA=ta, transB=tb, alpha=alpha)
    # Nothing says how many dims these have before shapes are inferred.
    nodes = [helper.make_node("Expand", [v, v + "s"], [v + "2"]) for v in "ab"] + [helper.make_node("FusedMatMul", ["a2", "b2"], ["y"], domain="com.microsoft", transA=1, transB=1, alpha=0.5)]
    agree(model(nodes, [("a", F, [8, 4]), ("b", F, [3, 8])], [("y", F, None)], {"as": np.array([2, 8, 4]), "bs": np.array([2, 3, 8])}))
    x, w, b = [("x", F, ["n", 3, 7, 7])], normal(5, 3, 3, 3), normal(5)
    for word, by in (("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_params": [0.2]}), ("Clip", {"activation_params": [-0.5, 0.5]}), ("HardSigmoid", {"activation_params": [0.2, 0.4]})):
        one("FusedConv", x, [("y", F, None)], {"w": w, "b": b}, activation=word, pads=[1, 1, 1, 1], **by)
    agree(model([helper.make_node("FusedConv", ["x", "w", "b", "z"], ["y"], domain="com.microsoft", activation="Relu")], [*x, ("z", F, ["n", 5, 5, 5])], [("y", F, None)], {"w": w, "b": b}))
    for word, by in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Sigmoid", {})):
        one("FusedGemm", [("x", F, ["n", 8])], [("y", F, None)], {"w": normal(6, 8), "b": normal(6)}, activation=word, transB=1, alpha=0.5, **by)


def contributed():
    """QDQ as quantize_static writes it with onnxruntime's own operators, which 16 and 4 bits need below opset 21."""
    plain = os.path.join(FIXTURES, "mlp-script.onnx")
    for act, kind in ((QuantType.QUInt8, QuantType.QInt8), (QuantType.QInt16, QuantType.QInt8), (QuantType.QUInt16, QuantType.QInt16), (QuantType.QInt8, QuantType.QInt4), (QuantType.QUInt16, QuantType.QUInt4)):
        for channels in (False, True):
            path = static(plain, activation_type=act, weight_type=kind, per_channel=channels, extra_options={"UseQDQContribOps": True})
            found = {(n.domain, n.op_type) for n in onnx.load(path).graph.node}
            need({("com.microsoft", "QuantizeLinear"), ("com.microsoft", "DequantizeLinear")} <= found, f"{found}")
            agree(path)


# ---------------------------------------------------------------- what is refused
def told_of(path, *words):
    told = sparta("inspect", path)
    need(told.code == 4 and all(w in told.err for w in words), f"{told}")


def advice():
    """Where the advice of a refusal leads: the file that is made as it says is read."""
    plain = os.path.join(FIXTURES, "mlp-script.onnx")
    operators = os.path.join(tests.work, "operators.onnx")
    told_of(static(plain, quant_format=QuantFormat.QOperator), "QLinearMatMul", "quant_format=QuantFormat.QDQ")
    path = static(plain)
    agree(path)
    session(path, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, operators)
    need(any(n.op_type.startswith(("QLinear", "QGemm")) for n in onnx.load(operators).graph.node), "onnxruntime fused nothing")
    told_of(operators, "before onnxruntime optimised it")


def refused():
    nodes = [helper.make_node("FusedMatMul", ["a", "b"], ["y"], domain="com.microsoft", transBatchA=1)]
    told = sparta("inspect", model(nodes, [("a", F, [2, 4, 4]), ("b", F, [2, 4, 3])], [("y", F, None)]))
    need(told.code == 4 and "transposes the batch" in told.err, f"{told}")
    nodes = [helper.make_node(op, ["x"], [op], domain="com.microsoft") for op in ("Attention", "QAttention")] + [helper.make_node("NonZero", ["x"], ["z"])]
    told = sparta("inspect", model(nodes, [("x", F, ["n", 8])], [("z", I64, None)]))
    need(told.code == 4 and "com.microsoft.Attention, com.microsoft.QAttention, NonZero" in told.err and "of com.microsoft.Attention alone: " in told.err, f"{told}")
    for op, said in (("BiasSoftmax", "before they ran"), ("MatMulNBits", "with quant_format=QuantFormat.QDQ"), ("GroupQueryAttention", "torch.onnx.export"), ("Inverse", "docs/operators.md lists what is")):
        told_of(model([helper.make_node(op, ["x"], ["z"], domain="com.microsoft")], [("x", F, ["n", 8])], [("z", F, None)]), said)
    for op, more in (("FusedConv", {"activation": "Clip", "activation_params": [0.5]}), ("FusedConv", {"activation": "LeakyRelu"}), ("FusedGemm", {"activation": "HardSigmoid", "activation_alpha": 0.2})):
        nodes = [helper.make_node(op, ["x", "w"], ["y"], domain="com.microsoft", **more)]
        dims = [2, 3, 7, 7] if op == "FusedConv" else [2, 8]
        told = sparta("inspect", model(nodes, [("x", F, dims)], [("y", F, None)], {"w": normal(5, 3, 3, 3) if op == "FusedConv" else normal(8, 6)}))
        need(told.code == 4 and "a parameter of its activation is missing" in told.err, f"{op} {more}: {told}")
    path, whole = os.path.join(tests.work, "nchwc.onnx"), os.path.join(FIXTURES, "mobilenet-script.onnx")
    session(whole, ort.GraphOptimizationLevel.ORT_ENABLE_ALL, path)
    if any(n.domain == "com.microsoft.nchwc" for n in onnx.load(path).graph.node):
        told = sparta("inspect", path)
        need(told.code == 4 and "GraphOptimizationLevel.ORT_ENABLE_EXTENDED" in told.err, f"{told}")


for fixture in ("mlp-script", "bert-script-eager", "bert-dynamo-sdpa", "mobilenet-script", "gpt2-script", "swin-script"):
    tests.check(f"quantize_dynamic: {fixture}", quantised, fixture)
for fixture in ("mlp-script", "bert-script-eager", "bert-dynamo-sdpa", "mobilenet-script", "gpt2-script", "vit-dynamo", "resnet-dynamo"):
    tests.check(f"optimised: {fixture}", optimised, fixture)
for check in (integers, node_tests, activations, normalisations, embeddings, products, contributed, advice, refused):
    tests.check(check.__name__.replace("_", " "), check)

if __name__ == "__main__":
    sys.exit(tests.finish())
