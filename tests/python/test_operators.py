"""Small models of operators that ONNX's node tests do not cover whole: older opsets, quantised weights, types narrower than a byte in files.

Each is run by `sparta run` from ONNX and from its package, and compared with ONNX's reference implementation. Words on the command line choose
checks by name.
"""

import os
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from common import Tests, must, need, run_sparta

F32, I4, I64, U8 = TensorProto.FLOAT, TensorProto.INT4, TensorProto.INT64, TensorProto.UINT8


class Operators:
    def __init__(self, tests):
        self.tests = tests
        self.rng = np.random.default_rng(0)

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def agree(self, name, nodes, constants, inputs, outputs, opset, batch="batch"):
        """inputs: name -> array, whose first dim is the symbol `batch` unless that is None; outputs: name -> (type, rank)."""
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            nodes, "g",
            [info(n, helper.np_dtype_to_tensor_dtype(a.dtype), [batch if batch and i == 0 else d for i, d in enumerate(a.shape)])
             for n, a in inputs.items()],
            [info(n, kind, [None] * rank) for n, (kind, rank) in outputs.items()],
            [numpy_helper.from_array(a, n) for n, a in constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        onnx.checker.check_model(model)
        folder = os.path.join(self.tests.work, name.replace(" ", "-"))
        os.makedirs(folder, exist_ok=True)
        path, package = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.sparta")
        onnx.save(model, path)
        must("compile", path, "-o", package, "--quiet", "--no-measure")
        wanted = dict(zip(outputs, ReferenceEvaluator(model).run(None, inputs)))
        for source in (path, package):
            got = run_sparta(source, inputs, folder)
            need(sorted(got) == sorted(wanted), f"outputs {sorted(got)}")
            for n, want in wanted.items():
                self.compare(n, got[n], np.asarray(want))

    @staticmethod
    def compare(name, got, want):
        need(got.shape == want.shape, f"{name}: shape {got.shape}, wanted {want.shape}")
        if want.dtype == ml_dtypes.int4:
            need(got.dtype == np.dtype("V1"), f"{name} is {got.dtype}")
            got = got.view(np.uint8).view(ml_dtypes.int4)
        got, want = got.astype(np.float64), want.astype(np.float64)
        need(np.max(np.abs(got - want)) <= 2e-6 * max(1, np.max(np.abs(want))), f"{name}: {got.ravel()[:8]}, wanted {want.ravel()[:8]}")

    def quantised(self):
        node = helper.make_node
        nodes = [node("QuantizeLinear", ["x", "xs", "xz"], ["q"]), node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
                 node("DequantizeLinear", ["w", "ws"], ["wd"], axis=1), node("MatMul", ["d", "wd"], ["y"])]
        constants = {"w": self.rng.integers(-128, 128, (64, 32)).astype(np.int8), "ws": np.abs(self.floats(32)), "xs": np.float32(0.02),
                     "xz": np.uint8(128)}
        self.agree("quantised", nodes, constants, {"x": self.floats(5, 64)}, {"y": (F32, 2), "q": (U8, 2)}, 19)

    def four_bits(self):
        nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=16), helper.make_node("MatMul", ["x", "d"], ["y"])]
        constants = {"w": self.rng.integers(-8, 8, (60, 32)).astype(ml_dtypes.int4), "s": np.abs(self.floats(4, 32))}
        self.agree("four bits", nodes, constants, {"x": self.floats(5, 60)}, {"y": (F32, 2)}, 21)

    def four_bits_in_files(self):
        nodes = [helper.make_node("Cast", ["q"], ["y"], to=F32), helper.make_node("Transpose", ["q"], ["z"])]
        self.agree("four bits in files", nodes, {}, {"q": self.rng.integers(-8, 8, (5, 3)).astype(ml_dtypes.int4)}, {"y": (F32, 2), "z": (I4, 2)}, 21)

    def old_forms(self):
        for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"):
            for opset, axes, keep in ((11, [1], 1), (13, [1, -1], 0)):
                node = helper.make_node(op, ["x"], ["y"], axes=axes, keepdims=keep)
                self.agree(f"{op} {opset}", [node], {}, {"x": self.floats(2, 3, 4)}, {"y": (F32, 3 if keep else 1)}, opset)

    def einsum(self):
        for equation, shapes in (("bh...d,bde->bh...e", [(2, 3, 4, 5), (2, 5, 6)]), ("aab->b", [(3, 3, 2)]), ("i,j,k", [(2,), (3,), (4,)])):
            names = [f"x{i}" for i in range(len(shapes))]
            rank = len(np.einsum(equation, *[np.zeros(s) for s in shapes]).shape)
            node = helper.make_node("Einsum", names, ["y"], equation=equation)
            self.agree("einsum", [node], {}, {n: self.floats(*s) for n, s in zip(names, shapes)}, {"y": (F32, rank)}, 12, batch=None)

    def top(self):
        nodes = [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1), helper.make_node("ArgMax", ["x"], ["a"], axis=2, keepdims=0)]
        self.agree("top", nodes, {"k": np.array([3])}, {"x": self.floats(2, 6, 4)}, {"v": (F32, 3), "i": (I64, 3), "a": (I64, 2)}, 11)


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = os.path.join(tests.work, "cache")
    o = Operators(tests)
    for check in (o.quantised, o.four_bits, o.four_bits_in_files, o.old_forms, o.einsum, o.top):
        tests.check(check.__name__.replace("_", " "), check)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
