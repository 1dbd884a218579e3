"""Quantised models as onnxruntime's quantiser writes them (QDQ): they compile, and packages, references and onnxruntime agree but for
rounding flips; a model with other weights does not."""

import json
import logging
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

from common import Tests, must, need, open_onnxruntime, run_onnxruntime, run_sparta, sparta

SIZES = ["layers=2", "hidden=64", "heads=4", "ffn=128", "vocab=60", "positions=40"]
MODELS = ["bert-mini", "gpt2-small"]


def feeds(path, batch, sequence, seed):
    rng = np.random.default_rng(seed)
    made = {}
    for value in onnx.load(path).graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        high = 1 if "mask" in value.name else 2 if "type" in value.name else 60
        made[value.name] = (np.ones if high == 1 else lambda s, t: rng.integers(0, high, s).astype(t))((batch, sequence), kind)
    return made


def quantise(tests, name, per_channel):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = [feeds(plain, 2, 16, seed) for seed in range(4)]

        def get_next(self):
            return self.left.pop() if self.left else None

    plain = os.path.join(tests.work, name + ".onnx")
    path = os.path.join(tests.work, f"{name}-{'channels' if per_channel else 'tensor'}.onnx")
    must("zoo", name, *[w for s in SIZES for w in ("--dim", s)], "-o", plain, "--seed", 5)
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


def agrees(tests, name, per_channel):
    path = quantise(tests, name, per_channel)
    package = path.replace(".onnx", ".sparta")
    floats, numbers = (json.loads(must("inspect", p, "--json").out)["parameters"] for p in (os.path.join(tests.work, name + ".onnx"), path))
    need(floats <= numbers <= 1.1 * floats, f"{numbers} parameters, and {floats} before it was quantised")
    must("compile", path, "-o", package, "--no-measure")
    for seed in range(2):
        must("verify", package, "--against", path, "--seed", seed)
    given = feeds(path, 3, 21, 9)
    ours, theirs = run_sparta(package, given, os.path.join(tests.work, "run")), run_onnxruntime(open_onnxruntime(path), given)
    worst = min(cosine(ours[o], theirs[o]) for o in theirs)
    need(worst > 0.999, f"onnxruntime's answer has cosine {worst:.5f}")
    differs = sparta("verify", package, "--against", other_weights(path))
    need(differs.code == 3, f"other weights: {differs}")
    return f"cosine {worst:.6f} with onnxruntime"


def main():
    logging.disable(logging.WARNING)
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = os.path.join(tests.work, "cache")
    for name in MODELS:
        for per_channel in (False, True):
            tests.check(f"{name} by {'channel' if per_channel else 'tensor'}", agrees, tests, name, per_channel)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
