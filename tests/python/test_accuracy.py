"""Products against double, where digits are at stake: biases of thousands, inputs and weights that have a mean, residuals that take away what was summed
up, and a normalisation behind a large bias. Ours may be off by twice what onnxruntime is off by (root of the mean of squares), and by the one rounding of the
largest number that both have; compile's own check must not refuse what is right. Long sums along an axis that is not the last are as good as onnxruntime's."""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import Tests, must, need, open_double, open_onnxruntime, run_double, run_onnxruntime, run_sparta
from today import SEED

KINDS = ["bias", "mean", "means", "cancelling", "normalised", "convolution"]
SIZES = [(64, 96), (1024, 160), (3000, 200)]  # inputs, outputs
DENSITIES = [1.0, 0.1]
ROWS = [1, 4, 130]


def draw(kind, k, n, density, rng):
    """Weight (k, n) in blocks of one input and 4 outputs, and bias."""
    w = rng.standard_normal((k, n)) + (3 if kind == "means" else 0)
    w *= np.repeat(rng.random((k, n // 4)) < density, 4, axis=1)
    bias = rng.standard_normal(n) + (np.where(np.arange(n) % 2, 1000, -1000) if kind in ("bias", "normalised", "convolution") else 0)
    return w.astype(np.float32), bias.astype(np.float32)


def model(kind, k, n, w, bias, rows):
    """Rows are known when it is compiled where they are few, so that kernels for few tokens take part."""
    first = rows if rows <= 16 else "rows"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [first, k])]
    kept = {"w": w, "b": bias}
    if kind == "convolution":
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [first, k // 4, 2, 2])]
        kept["w"] = np.ascontiguousarray(w.T).reshape(n, k // 4, 2, 2)
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"]), helper.make_node("Flatten", ["c"], ["y"])]
    else:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"])]
        if kind == "cancelling":
            inputs.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, [first, n]))
            nodes.append(helper.make_node("Add", ["s", "r"], ["y"]))
        elif kind == "normalised":
            kept |= {"g": np.ones(n, np.float32), "h": np.zeros(n, np.float32)}
            nodes.append(helper.make_node("LayerNormalization", ["s", "g", "h"], ["y"], axis=-1, epsilon=1e-5))
        else:
            nodes.append(helper.make_node("Identity", ["s"], ["y"]))
    graph = helper.make_graph(nodes, kind, inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [first, n])],
                              [numpy_helper.from_array(v, name) for name, v in kept.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def feed_of(kind, k, n, w, bias, rows, rng):
    x = (rng.standard_normal((rows, k)) + (30 if kind in ("mean", "means") else 0)).astype(np.float32)
    if kind == "convolution":
        return {"x": x.reshape(rows, k // 4, 2, 2)}
    if kind != "cancelling":
        return {"x": x}
    exact = x.astype(np.float64) @ w + bias
    return {"x": x, "r": (1e-3 * rng.standard_normal((rows, n)) - exact).astype(np.float32)}


def off(got, exact):
    return float(np.sqrt(np.mean((got.astype(np.float64) - exact) ** 2)))


def as_exact_as_onnxruntime(work, number, kind, k, n, density, rows):
    rng = np.random.default_rng([SEED, number])
    w, bias = draw(kind, k, n, density, rng)
    path, package = os.path.join(work, "m.onnx"), os.path.join(work, "m.sparta")
    onnx.save(model(kind, k, n, w, bias, rows), path)
    must("compile", path, "-o", package, "--no-measure", "--quiet")
    feed = feed_of(kind, k, n, w, bias, rows, rng)
    exact = run_double(open_double(path), feed)["y"]
    theirs = off(run_onnxruntime(open_onnxruntime(path), feed)["y"], exact)
    ours = off(run_sparta(package, feed, work)["y"], exact)
    rounding = float(np.max(np.abs(exact if kind != "cancelling" else feed["r"]))) * 2**-24
    need(ours <= 2 * theirs + rounding, f"off by {ours:.3g}, onnxruntime by {theirs:.3g}, one rounding is {rounding:.3g}")
    return f"{ours / theirs:.2f}" if theirs else "exact"


def sums_as_exact(work, terms, squares):
    """Numbers that have a mean, of which every addition loses digits."""
    path, package = os.path.join(work, "m.onnx"), os.path.join(work, "m.sparta")
    nodes = [helper.make_node("Mul", ["x", "x"], ["q"])] * squares + [helper.make_node("ReduceMean", ["q" if squares else "x"], ["y"], axes=[1], keepdims=0)]
    graph = helper.make_graph(nodes, "sums", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", terms, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 64])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    must("compile", path, "-o", package, "--quiet", "--db", os.path.join(work, "times.db"))
    feed = {"x": (0.7 + 0.1 * np.random.default_rng(SEED).random((3, terms, 64))).astype(np.float32)}
    exact = run_double(open_double(path), feed)["y"]
    theirs = off(run_onnxruntime(open_onnxruntime(path), feed)["y"], exact)
    ours = off(run_sparta(package, feed, work)["y"], exact)
    need(ours <= theirs, f"off by {ours:.3g}, onnxruntime by {theirs:.3g}")
    return f"{ours / theirs:.2f}" if theirs else "exact"


def timed_with_itself(work):
    """A product of a value with itself has one operand, on the bed too."""
    path, package = os.path.join(work, "m.onnx"), os.path.join(work, "m.sparta")
    nodes = [helper.make_node("Mul", ["x", "x"], ["y"], name="square")]
    graph = helper.make_graph(nodes, "square", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 512])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 512])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    made = must("compile", path, "-o", package, "--db", os.path.join(work, "square.db"))
    need("disagrees" not in made.err, made.err)


def main():
    tests = Tests()
    tests.check("a square is right when it is timed", timed_with_itself, tests.work)
    for terms in (512, 5000):
        for squares in (False, True):
            tests.check(f"mean of {terms} {'squares' if squares else 'numbers'} along axis 1", sums_as_exact, tests.work, terms, squares)
    number = 0
    for kind in KINDS:
        for k, n in SIZES:
            for density in DENSITIES:
                for rows in ROWS:
                    number += 1
                    tests.check(f"{kind}, {k} inputs, {density:.0%} of the weights, {rows} rows", as_exact_as_onnxruntime, tests.work, number, kind, k, n,
                                density, rows)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
