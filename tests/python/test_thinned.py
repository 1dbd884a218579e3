"""Products of two values that are computed, the left one thinned out as the model runs, against NumPy: random shapes and sparsifiers, attention written out, schedules that make no sense."""

import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from common import THREADS, Tests, must, need, run_sparta, sparta
from today import SEED

F32 = TensorProto.FLOAT


def write(path, nodes, inputs, constants=()):
    given = [helper.make_tensor_value_info(n, F32, shape) for n, shape in inputs.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("y", F32, None)], list(constants))
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


# ---------------------------------------------------------------- what stays, as docs/schedules.md says it
def topk(x, k):
    """Of each line the k largest magnitudes; of equals the first."""
    order = np.argsort(-np.abs(x), axis=-1, kind="stable")[..., :k]
    mask = np.zeros(x.shape, bool)
    np.put_along_axis(mask, order, True, -1)
    return np.where(mask, x, 0)


def thinned(x, call):
    name, *numbers = call
    if name == "topk":
        return topk(x, numbers[0])
    if name == "threshold":
        value, bound = numbers
        return topk(np.where(np.abs(x) >= np.float32(value), x, 0), bound)
    left, right = numbers  # bands
    s, n = x.shape[-2:]
    off = np.arange(n)[None, :] - (np.arange(s)[:, None] + n - s)
    return np.where((off >= -left) & (off <= right), x, 0)


def spelled(call, expect):
    name, *numbers = call
    words = {"topk": "topk({})", "threshold": "threshold({}, bound={})", "bands": "bands(left={}, right={})"}[name].format(*numbers)
    return f"{words[:-1]}, expect={expect})"


# ---------------------------------------------------------------- checks
def draw(rng):
    m, k, n = int(rng.integers(1, 70)), int(rng.choice([8, 33, 64, 100, 257, 1030])), int(rng.choice([1, 7, 16, 40, 64, 130]))
    lead = tuple(int(d) for d in rng.integers(1, 4, rng.integers(0, 3)))
    right = [lead, (), (1,) * len(lead)][rng.integers(3)]
    most = int(rng.integers(1, k + 1))
    call = [("topk", most), ("threshold", round(float(rng.random()), 3), most), ("bands", int(rng.integers(0, k)), int(rng.integers(0, k)))][rng.integers(3)]
    return lead, right, m, k, n, call


def random_product(tests, number):
    rng = np.random.default_rng([SEED, number])
    lead, right, m, k, n, call = draw(rng)
    path, rules, package = (os.path.join(tests.work, f) for f in ("r.onnx", "r.sched", "r.sparta"))
    write(path, [helper.make_node("Relu" if number % 3 == 0 else "Neg", ["x"], ["j"], name="/j"), helper.make_node("MatMul", ["j", "v"], ["y"], name="/k")],
          {"x": [*lead, m, k], "v": [*right, k, n]})
    with open(rules, "w") as f:
        f.write(f'tensor "/j:output" {{ sparsify {spelled(call, 1)} }}\n')
    x, v = (rng.standard_normal(s).astype(np.float32) for s in ((*lead, m, k), (*right, k, n)))
    want = thinned(np.maximum(x, 0) if number % 3 == 0 else -x, call).astype(np.float64) @ v
    must("compile", path, "--schedule", rules, "--no-measure", *(("--target", "portable") if number % 3 == 1 else ()), "-o", package)
    skips = "matmul_skip" in must("inspect", package).out
    need(skips, f"nothing skips: {lead}, {right}, {m}, {k}, {n}, {call}")
    first = None
    for threads in (1, THREADS):
        got = run_sparta(package, {"x": x, "v": v}, os.path.join(tests.work, "out"), "--threads", threads)["y"]
        off = np.abs(got - want).max(initial=0)
        need(got.shape == want.shape and off < 2e-5 * max(1, np.abs(want).max(initial=0)), f"{lead}, {right}, {m}, {k}, {n}, {call}: off by {off:.2g}")
        need(first is None or np.array_equal(got, first), "threads change bits")
        first = got
    return f"{(*lead, m, k)} x {(*right, k, n)}, {call[0]}: off by {off:.1g}"


def attention(tests):
    """softmax(q k') with its largest probabilities alone, times v: as exporters write it."""
    path, rules, package = (os.path.join(tests.work, f) for f in ("a.onnx", "a.sched", "a.sparta"))
    write(path, [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["qk"], name="/Scores"),
                 helper.make_node("Mul", ["qk", "scale"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1, name="/Softmax"),
                 helper.make_node("MatMul", ["p", "v"], ["y"], name="/Context")],
          {"q": [2, 3, 90, 16], "k": [2, 3, 130, 16], "v": [2, 3, 130, 24]}, [numpy_helper.from_array(np.array(0.25, np.float32), "scale")])
    with open(rules, "w") as f:
        f.write('tensor "/Softmax:output" { sparsify topk(10%) }\n')
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 90, 16), (2, 3, 130, 16), (2, 3, 130, 24)))
    s = q.astype(np.float64) @ k.swapaxes(-1, -2) * 0.25
    p = np.exp(s - s.max(-1, keepdims=True))
    want = topk(p / p.sum(-1, keepdims=True), 13) @ v
    must("compile", path, "--schedule", rules, "-o", package)
    said = must("inspect", package).out
    need("of them there (measured: " in said or "not skipping is faster (measured: " in said, said)
    got = run_sparta(package, {"q": q, "k": k, "v": v}, os.path.join(tests.work, "out"))["y"]
    off = np.abs(got - want).max()
    need(off < 2e-5, f"off by {off:.2g}")
    verified = must("verify", package, "--against", path, "--schedule", rules).out
    need("the answers are the same" in verified, verified)
    return f"off by {off:.1g}"


def odd_numbers(tests):
    """A NaN is larger than all and stays; what is dropped does not meet an infinite number."""
    path, rules, package = (os.path.join(tests.work, f) for f in ("o.onnx", "o.sched", "o.sparta"))
    write(path, [helper.make_node("MatMul", ["x", "v"], ["y"], name="/k")], {"x": [2, 40], "v": [40, 5]})
    with open(rules, "w") as f:
        f.write('tensor "x" { sparsify topk(2) }\n')
    must("compile", path, "--schedule", rules, "--no-measure", "-o", package)
    x, v = np.ones((2, 40), np.float32), np.ones((40, 5), np.float32)
    x[0, 30] = np.nan
    v[2:] = np.inf
    got = run_sparta(package, {"x": x, "v": v}, os.path.join(tests.work, "out"))["y"]
    need(np.isnan(got[0]).all() and np.array_equal(got[1], np.full(5, 2, np.float32)), f"{got}")


def nonsense(tests):
    path, rules = (os.path.join(tests.work, f) for f in ("n.onnx", "n.sched"))
    write(path, [helper.make_node("Neg", ["x"], ["j"], name="/j"), helper.make_node("MatMul", ["j", "v"], ["y"], name="/k")], {"x": [3, 40], "v": [40, 5]})
    for call in ("topk(0)", "topk(-1)", "topk(1e99)", "topk(0%)", "topk(101%)", "topk(nan)", "topk()", "topk(3, expect=0)", "topk(3, expect=4)", "threshold(nan)", "threshold(-1)", "threshold(1e31)",
                 "threshold(1, bound=0)", "bands(left=-1, right=2)", "bands(left=99999999999999999999, right=0)", "bands(1)", "function(\"nobody\")", "topk(3, topk=3)", "topk(" + "9" * 5000 + ")"):
        with open(rules, "w") as f:
            f.write(f'tensor "/j:output" {{ sparsify {call} }}\n')
        result = sparta("compile", path, "--schedule", rules, "--no-measure", "-o", os.path.join(tests.work, "n.sparta"))
        need(result.code in (2, 4) and "n.sched:1:" in result.err, f"{call[:60]}: {result}")
    with open(rules, "w") as f:
        f.write('tensor "v" { sparsify topk(10%) }\ntensor "/j:output" { implement matmul_skip }\n')
    result = sparta("compile", path, "--schedule", rules, "--no-measure", "-o", os.path.join(tests.work, "n.sparta"))
    need(result.code == 4 and "of what is computed only sparsify can be said" in result.err, f"{result}")


def main():
    tests = Tests()
    print(f"TEST_SEED={SEED}")
    for number in range(24):
        tests.check(f"product {number}", random_product, tests, number)
    tests.check("attention", attention, tests)
    tests.check("odd numbers", odd_numbers, tests)
    tests.check("nonsense", nonsense, tests)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
