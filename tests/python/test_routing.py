"""Attention whose keys are routed by similarity as the model runs, against NumPy: masks, windows, shapes, groups of heads, and numbers nobody likes."""

import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from common import Tests, must, need, run_sparta, sparta

F32 = TensorProto.FLOAT
INF = np.float32(np.inf)


# ---------------------------------------------------------------- the model, and its answer
def model(path, heads, e, d, t="s", causal=False, padding=False, scale=None, flat=False):
    """softmax(scale q k' + masks) v as exporters write it; flat: (B*h, S, E), as torch.nn.MultiheadAttention is exported."""
    lead = ["n"] if flat else ["batch", heads]
    scale = e**-0.5 if scale is None else scale
    inputs = [helper.make_tensor_value_info(n, F32, [*lead, s, f]) for n, s, f in (("q", "s", e), ("k", t, e), ("v", t, d))]
    perm = [0, 2, 1] if flat else [0, 1, 3, 2]
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=perm), helper.make_node("MatMul", ["q", "kt"], ["qk"]),
             helper.make_node("Mul", ["qk", "scale"], ["scores"])]
    constants = [numpy_helper.from_array(np.array(scale, np.float32), "scale")]
    at = "scores"
    if padding:
        inputs.append(helper.make_tensor_value_info("mask", F32, ["batch", 1, 1, t]))
        nodes.append(helper.make_node("Add", [at, "mask"], ["padded"]))
        at = "padded"
    if causal:
        inputs.append(helper.make_tensor_value_info("seen", TensorProto.BOOL, ["s", t]))
        constants.append(numpy_helper.from_array(np.array(-INF), "hidden"))
        nodes.append(helper.make_node("Where", ["seen", at, "hidden"], ["causal"]))
        at = "causal"
    nodes += [helper.make_node("Softmax", [at], ["p"], axis=-1, name="/Softmax"), helper.make_node("MatMul", ["p", "v"], ["y"], name="/Context")]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", F32, None)], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return scale


def means(x, block):
    return np.stack([x[i : i + block].astype(np.float64).mean(0) for i in range(0, len(x), block)])


def routed(q, k, hidden, topk, block, own):
    """Which keys the queries of one head see, as docs/schedules.md says it: written for this test, block by block."""
    alike = means(q, block) @ means(k, block).T
    mask = np.zeros((len(q), len(k)), bool)
    for i, row in enumerate(alike):
        rows = slice(i * block, (i + 1) * block)
        may = [j for j in range(len(row)) if not (hidden[rows, j * block : (j + 1) * block] <= -5000).all()]
        may = may or list(range(len(row)))
        order = sorted(may, key=lambda j: (not np.isnan(row[j]), -np.nan_to_num(row[j]), j))[:topk]
        for j in set(order) | ({i} if own else set()):
            mask[rows, j * block : (j + 1) * block] = True
    return mask


def answer(inputs, scale, topk, block, own=False):
    q, k, v = (inputs[n] for n in "qkv")
    y = np.zeros((*q.shape[:-1], v.shape[-1]))
    for at in np.ndindex(*q.shape[:-2]):
        hidden = np.zeros((q.shape[-2], k.shape[-2]))
        if "mask" in inputs:
            hidden = hidden + inputs["mask"][at[0], 0]
        if "seen" in inputs:
            hidden = np.where(inputs["seen"], hidden, -np.inf)
        x = q[at].astype(np.float64) @ k[at].T.astype(np.float64) * scale + hidden
        x = np.where(routed(q[at], k[at], hidden, topk, block, own), x, -np.inf)
        with np.errstate(invalid="ignore"):
            p = np.exp(x - x.max(-1, keepdims=True))
            y[at] = p / p.sum(-1, keepdims=True) @ v[at]
    return y


# ---------------------------------------------------------------- checks
def make(rng, lead, s, t, e, d, causal=False, padding=False):
    made = {"q": rng.standard_normal((*lead, s, e)), "k": rng.standard_normal((*lead, t, e)), "v": rng.standard_normal((*lead, t, d))}
    if padding:
        lengths = rng.integers(1, t + 1, lead[0])
        made["mask"] = np.where(np.arange(t) < lengths[:, None], 0, -3e38)[:, None, None, :]
    made = {n: x.astype(np.float32) for n, x in made.items()}
    if causal:
        made["seen"] = np.arange(t)[None, :] <= np.arange(s)[:, None] + t - s
    return made


def compile_routed(work, path, topk, block, *more):
    rules, package = os.path.join(work, "r.sched"), os.path.join(work, "r.sparta")
    with open(rules, "w") as f:
        f.write(f'tensor "/Softmax:input" {{ sparsify similarity(topk={topk}, block={block}) }}\n')
    result = must("compile", path, "--schedule", rules, "-o", package, *more)
    return rules, package, result


def compare(got, want, where):
    got = got.astype(np.float64)
    need(got.shape == want.shape, f"{where}: {got.shape}, not {want.shape}")
    need(np.array_equal(np.isnan(got), np.isnan(want)), f"{where}: NaN where there is none, or none where one is")
    off = np.nanmax(np.abs(got - want), initial=0)
    need(off < 2e-5, f"{where}: off by {off:.2g}")
    return off


CASES = {  # heads, s, t, e, d, topk, block, and what else the model has
    "blocks of 64": (2, 256, 256, 32, 32, 2, 64, {}),
    "causal": (2, 200, 200, 16, 16, 2, 16, {"causal": True}),
    "padding": (3, 130, 130, 24, 40, 3, 16, {"padding": True}),
    "causal and padding": (1, 96, 96, 8, 8, 1, 32, {"causal": True, "padding": True}),
    "fewer queries": (2, 40, 333, 16, 16, 4, 32, {}),
    "fewer queries, causal": (2, 70, 150, 16, 16, 2, 20, {"causal": True}),
    "odd sizes": (3, 77, 77, 5, 7, 3, 6, {}),
    "single tokens": (2, 50, 50, 8, 8, 5, 1, {}),
    "more than there are": (2, 65, 65, 8, 8, 99, 16, {}),
    "one block": (2, 20, 30, 8, 8, 1, 64, {}),
    "heads as items": (4, 128, 128, 16, 16, 2, 32, {"flat": True}),
    "turned round": (2, 96, 96, 8, 8, 2, 16, {"scale": -0.3}),
}


def case(tests, name):
    heads, s, t, e, d, topk, block, more = CASES[name]
    path = os.path.join(tests.work, "m.onnx")
    scale = model(path, heads, e, d, t="s" if s == t else "t", **more)
    lead = (2 * heads,) if more.get("flat") else (2, heads)
    masks = {n: v for n, v in more.items() if n in ("causal", "padding")}
    inputs = make(np.random.default_rng(7), lead, s, t, e, d, **masks)
    want = answer(inputs, scale, topk, block, own=s == t)
    rules, package, _ = compile_routed(tests.work, path, topk, block, "--no-measure")
    plain = run_sparta(package, inputs, os.path.join(tests.work, "out"))["y"]
    skips = "attention_skip" in must("inspect", package).out
    need(skips or more.get("flat"), "nothing skips")
    portable = os.path.join(tests.work, "p.sparta")
    must("compile", path, "--schedule", rules, "--no-measure", "--target", "portable", "-o", portable)
    compare(run_sparta(portable, inputs, os.path.join(tests.work, "out"))["y"], want, "portable")
    return f"off by {compare(plain, want, 'package'):.1g}"


def odd_numbers(tests):
    """A NaN is most alike of all, of equals the first count; an infinite key that nobody goes to is not seen."""
    path = os.path.join(tests.work, "o.onnx")
    scale = model(path, 1, 4, 4, t="t")
    _, package, _ = compile_routed(tests.work, path, 1, 4, "--no-measure")
    inputs = make(np.random.default_rng(1), (1, 1), 8, 16, 4, 4)
    run = lambda: run_sparta(package, inputs, os.path.join(tests.work, "out"))["y"]  # noqa: E731
    inputs["q"][:] = 0
    compare(run(), answer(inputs, scale, 1, 4), "all alike")
    compare(run(), np.broadcast_to(inputs["v"][:, :, :4].mean(2, keepdims=True), (1, 1, 8, 4)), "the first of equals")
    inputs = make(np.random.default_rng(2), (1, 1), 8, 16, 4, 4)
    inputs["k"][0, 0, 9, 2] = np.nan
    need(np.isnan(run()).all(), "a NaN in a block of keys did not make it the most alike")
    inputs["k"] = np.ones((1, 1, 16, 4), np.float32)
    inputs["q"] = np.ones((1, 1, 8, 4), np.float32)
    inputs["k"][0, 0, 9] = -INF
    compare(run(), answer(inputs, scale, 1, 4), "a key of -inf")
    need(np.isfinite(run()).all(), "a key of -inf was seen")


def empty(tests):
    path = os.path.join(tests.work, "e.onnx")
    model(path, 2, 4, 4, t="t")
    _, package, _ = compile_routed(tests.work, path, 2, 8, "--no-measure")
    for batch, s, t in ((0, 3, 3), (2, 0, 5), (2, 3, 0), (0, 0, 0)):
        inputs = make(np.random.default_rng(1), (batch, 2), s, t, 4, 4)
        got = run_sparta(package, inputs, os.path.join(tests.work, "out"))["y"]
        need(got.shape == (batch, 2, s, 4) and not got.any(), f"{batch}, {s}, {t}: {got}")


def timed(tests):
    """With sizes, who skips and who does not compete, and the reason has both times; bench has a baseline that computes all scores."""
    path = os.path.join(tests.work, "t.onnx")
    model(path, 2, 16, 16)
    dims = [w for n, v in (("batch", 1), ("s", 256)) for w in ("--dim", f"{n}={v}")]
    _, package, _ = compile_routed(tests.work, path, 1, 64, *dims)
    said = must("inspect", package).out
    need("queries see at most 2 of 4 blocks of 64 keys: the others are skipped (measured: " in said, said)


def words(tests):
    path = os.path.join(tests.work, "w.onnx")
    model(path, 2, 4, 4)
    for tensor, call, code, said in (("/Softmax:input", "similarity(topk=0)", 2, "topk=0: expected how many"),
                                     ("/Softmax:input", "similarity(block=4)", 2, "similarity needs 'topk'"),
                                     ("/Softmax:input", "similarity(2, block=0)", 2, "block=0: a block has 1 to"),
                                     ("/Softmax:input", "similarity(2, blok=4)", 2, "did you mean 'block'"),
                                     ("/Softmax:input", "similarity(topk=10%)", 4, "no number"),
                                     ("/Softmax:output", "similarity(2)", 2, "similarity is of the scores of an attention"),
                                     ("scores", "similarty(2)", 2, "did you mean 'similarity'")):
        with open(os.path.join(tests.work, "w.sched"), "w") as f:
            f.write(f'tensor "{tensor}" {{ sparsify {call} }}\n')
        result = sparta("compile", path, "--schedule", os.path.join(tests.work, "w.sched"), "-o", os.path.join(tests.work, "w.sparta"))
        need(result.code == code and said in result.err and "w.sched:1:" in result.err, f"{call}: {result}")


def main():
    tests = Tests()
    for name in CASES:
        tests.check(name, case, tests, name)
    tests.check("odd numbers", odd_numbers, tests)
    tests.check("none at all", empty, tests)
    tests.check("competes", timed, tests)
    tests.check("words", words, tests)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
