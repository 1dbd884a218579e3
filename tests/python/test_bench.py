"""`sparta bench --against onnxruntime`: it is found, runs the same inputs, and a model that is another one is told apart."""

import json
import os
import sys

import onnxruntime

from common import Tests, must, need, sparta

QUICK = ["--no-measure", "--iterations", 3, "--warmup", 1, "--threads", 1, "--json"]


def bench(tests, *words, agree):
    said = json.loads(must("bench", *words, *QUICK, env=tests.python).out)
    need(said["baseline"]["name"] == "onnxruntime " + onnxruntime.__version__, said["baseline"])
    need(said["baseline"]["runs"] == 3 and said["baseline"]["median_ms"] > 0, said["baseline"])
    need(said["answers_agree"] is agree, said)
    need(agree == (not any("is not that of onnxruntime" in n for n in said.get("notes", []))), said.get("notes"))


def another(tests, onnx):
    """A package whose weights are masked is no longer the model."""
    package = os.path.join(tests.work, "masked.sparta")
    schedule = os.path.join(tests.work, "half.schedule")
    with open(schedule, "w") as f:
        f.write('tensor "*" { sparsify magnitude(pattern=1x1, sparsity=0.5) }\n')
    must("compile", onnx, "--schedule", schedule, "--no-measure", "-o", package)
    bench(tests, package, "--against", "onnxruntime", "--model", onnx, agree=False)


def wrong_model(tests, onnx, other):
    r = sparta("bench", onnx, "--against", "onnxruntime", "--model", other, *QUICK, env=tests.python)
    need(r.code == 1 and "onnxruntime" in r.err, r)
    r = sparta("bench", onnx, "--against", "onnxruntime", "--model", "missing.onnx", *QUICK, env=tests.python)
    need(r.code == 1 and "onnxruntime" in r.err, r)


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = os.path.join(tests.work, "cache")
    tests.python = {**os.environ, "SPARTA_PYTHON": sys.executable}
    onnx, small = (os.path.join(tests.work, name) for name in ("bert.onnx", "mlp.onnx"))
    must("zoo", "bert-base", "--dim", "layers=1", "--dim", "vocab=100", "--prune", "4x1:0.5", "-o", onnx)
    must("zoo", "mlp", "-o", small)
    tests.check("a model", bench, tests, onnx, "--against", "onnxruntime", "--dim", "sequence=9", "--batch", 2, agree=True)
    tests.check("another model's package", another, tests, small)
    tests.check("a model with other inputs", wrong_model, tests, onnx, small)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
