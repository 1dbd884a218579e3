"""Quantised models as onnxruntime's quantiser writes them (QDQ): they compile, and packages, references and onnxruntime agree but for
rounding flips, which are counted and lie where they may; a model with other weights does not.

    TEST_ALL=1 SPARTA=$PWD/build/release/sparta .venv/bin/python tests/python/test_quantised.py layers      the flips of models of 6 layers, which docs/checking.md tells of"""

import json
import logging
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

from common import Tests, must, need, open_onnxruntime, run_onnxruntime, run_sparta, sparta
from today import ALL, SEED, turn

SIZES = ["layers=2", "hidden=64", "heads=4", "ffn=128", "vocab=60", "positions=40"]
MODELS = ["bert-mini", "gpt2-small"]
LARGE = {"bert-mini": ["layers=6", "hidden=384", "heads=12", "ffn=1536", "vocab=2000", "positions=64"],  # as MiniLM, with fewer words
         "gpt2-small": ["layers=6", "vocab=2000", "positions=64"]}
LONG = 1200  # seconds of each processor that a large one may take


def feeds(path, batch, sequence, seed):
    rng = np.random.default_rng(seed)
    made = {}
    for value in onnx.load(path).graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        high = 1 if "mask" in value.name else 2 if "type" in value.name else 60
        made[value.name] = (np.ones if high == 1 else lambda s, t: rng.integers(0, high, s).astype(t))((batch, sequence), kind)
    return made


def quantise(tests, name, per_channel, sizes=SIZES):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [feeds(plain, 2, 16, seed) for seed in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    plain = os.path.join(tests.work, name + ".onnx")
    path = os.path.join(tests.work, f"{name}-{'channels' if per_channel else 'tensor'}.onnx")
    must("zoo", name, *[w for s in sizes for w in ("--dim", s)], "-o", plain, "--seed", 5)
    quantize_static(plain, path, Reader(), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8, per_channel=per_channel)
    return path


def other_weights(path):
    """The first weight of the feed-forward layers, shuffled. (Those of queries hardly count in a model that was never trained.)"""
    model = onnx.load(path)
    weight = next(t for t in model.graph.initializer if len(t.dims) == 2 and t.data_type == onnx.TensorProto.INT8 and sorted(t.dims) in ([64, 128], [64, 256]))
    array = numpy_helper.to_array(weight)
    weight.CopyFrom(numpy_helper.from_array(np.random.default_rng(1).permutation(array.ravel()).reshape(array.shape), weight.name))
    onnx.save(model, path + ".other.onnx")
    return path + ".other.onnx"


def cosine(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def with_steps(path):
    """The model with what every quantiser reads and makes as outputs, and the same cut there: what quantisers make is given, what they read is asked for."""
    shown, cut = (onnx.shape_inference.infer_shapes(onnx.load(path)) for _ in range(2))
    quantisers = [n for n in shown.graph.node if n.op_type == "QuantizeLinear"]
    types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.data_type) for i in shown.graph.initializer}
    for n in quantisers:
        kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(types[n.input[2]]))
        made = next(v for v in shown.graph.value_info if v.name == n.output[0]).type.tensor_type.shape
        shape = [d.dim_value or d.dim_param or f"{n.output[0]}-{i}" for i, d in enumerate(made.dim)]
        read = onnx.helper.make_tensor_value_info(n.input[0], onnx.TensorProto.FLOAT, shape)
        if n.input[0] not in [o.name for o in shown.graph.output]:
            shown.graph.output.append(read)
            cut.graph.output.append(read)
        shown.graph.output.append(onnx.helper.make_tensor_value_info(n.output[0], kind, shape))
        cut.graph.input.append(onnx.helper.make_tensor_value_info(n.output[0], kind, shape))
    left = [n for n in cut.graph.node if n.op_type != "QuantizeLinear"]
    del cut.graph.node[:]
    cut.graph.node.extend(left)
    onnx.save(shown, path + ".shown.onnx")
    onnx.save(cut, path + ".cut.onnx")
    values = {i.name: numpy_helper.to_array(i) for i in shown.graph.initializer}
    return [(n.input[0], n.output[0], values[n.input[1]], values[n.input[2]]) for n in quantisers], path + ".shown.onnx", path + ".cut.onnx"


def flips_alone(tests, path, given):
    """The promise of docs/checking.md: from what the quantisers of a package make to what the next ones read it computes what onnxruntime does, up to rounding; a quantiser
    makes of what it reads exactly what it should. So the steps that flip are within rounding of a border, and they explain all that differs."""
    quantisers, shown, cut = with_steps(path)
    package = shown.replace(".onnx", ".sparta")
    must("compile", shown, "-o", package, "--no-measure", "--quiet", timeout=LONG)
    ours = run_sparta(package, given, os.path.join(tests.work, "shown"))
    plain = open_onnxruntime(path, optimised=False)
    named = {name: value for name, value in run_onnxruntime(open_onnxruntime(shown, optimised=False), given).items()}
    feed = {i.name: given[i.name] for i in plain.get_inputs()} | {made: ours[as_file(made)] for _, made, _, _ in quantisers}
    session = open_onnxruntime(cut, optimised=False)
    want = run_onnxruntime(session, {i.name: feed[i.name] for i in session.get_inputs()})
    flips, steps, moved = 0, 0, 0
    for read, made, scale, zero in quantisers:
        limits = np.iinfo(zero.dtype)
        step = lambda x, scale=scale, zero=zero, limits=limits: np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(zero.dtype)
        mine, theirs, q = ours[as_file(read)], want[read], ours[as_file(made)]
        need(np.array_equal(step(mine), q), f"{made} is not what its quantiser makes of {read}")
        allowed, off = 1e-4 * np.max(np.abs(theirs)) + 1e-6, np.max(np.abs(mine - theirs))
        need(off <= allowed, f"{read} is off by {off:.3g}, {allowed:.3g} is allowed")
        border = np.abs(theirs / scale - np.floor(theirs / scale) - 0.5) * scale
        wrong = step(theirs) != q
        need(np.all(border[wrong] <= allowed), f"{made} flips {np.max(border[wrong], initial=0):.3g} from a border")
        flips, steps, moved = flips + int(wrong.sum()), steps + q.size, moved + int(np.sum(named[made] != q))
    end = quantisers and max(float(np.max(np.abs(ours[o.name] - named[o.name]))) for o in plain.get_outputs())
    return f"{flips} of {steps} steps flip at {len(quantisers)} quantisers, {moved} are others in the end, which moves the output by {end:.3g}"


def as_file(name):
    return name.replace("/", "_")


def agrees(tests, name, per_channel, measured):
    path = quantise(tests, name, per_channel)
    package = path.replace(".onnx", ".sparta")
    floats, numbers = (json.loads(must("inspect", p, "--json").out)["parameters"] for p in (os.path.join(tests.work, name + ".onnx"), path))
    need(floats <= numbers <= 1.1 * floats, f"{numbers} parameters, and {floats} before it was quantised")
    must("compile", path, "-o", package, *(["--db", os.path.join(tests.work, "times.db")] if measured else ["--no-measure"]))
    for seed in range(2):
        must("verify", package, "--against", path, "--seed", seed)
    given = feeds(path, 3, 21, 9)
    ours, theirs = run_sparta(package, given, os.path.join(tests.work, "run")), run_onnxruntime(open_onnxruntime(path), given)
    worst = min(cosine(ours[o], theirs[o]) for o in theirs)
    need(worst > 0.999, f"onnxruntime's answer has cosine {worst:.5f}")
    differs = sparta("verify", package, "--against", other_weights(path))
    need(differs.code == 3, f"other weights: {differs}")
    return f"cosine {worst:.6f} with onnxruntime; {flips_alone(tests, path, feeds(path, 8, 33, SEED))}"


def flips_of_large(tests, name):
    path = quantise(tests, name, False, LARGE[name])
    return flips_alone(tests, path, feeds(path, 8, 33, SEED))


def main():
    logging.disable(logging.WARNING)
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = os.path.join(tests.work, "cache")
    for i, (name, per_channel) in enumerate((name, per_channel) for name in MODELS for per_channel in (False, True)):
        measured = turn(i, 4)
        tests.check(f"{name} by {'channel' if per_channel else 'tensor'}{', measured' if measured else ''}", agrees, tests, name, per_channel, measured)
    for name in LARGE if ALL else []:
        tests.check(f"{name} of 6 layers", flips_of_large, tests, name)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
