"""Whole models against onnxruntime and against the same model in double.

Zoo models and the exports in tests/fixtures, dense and pruned, over batches, sequences and padding: `sparta compile` once, `sparta run`
for each size. An answer passes when it is onnxruntime's within 1e-4 of the largest value; a model passes when its error against double, over
all its runs, is at most twice onnxruntime's (plus 1e-7, about one rounding of the largest value). Words on the command line choose
checks by name.
"""

import glob
import os
import sys

import numpy as np
import onnx

from common import (FIXTURES, Tests, error, inputs_of, make_inputs, must, need, open_double, open_onnxruntime, run_double, run_onnxruntime,
                    run_sparta)

BATCHES = [1, 5]
SEQUENCES = [7, 128, 200]
RTOL = 1e-4
ROUNDING = 1e-7
PRUNED = [None, "4x1:0.9", "1x1:0.8", "2:4"]
BATCHES_ALONE = [1, 5, 130]  # of models without a sequence
ZOO = [  # name, sizes, ids below, prunings if not all
    ("mlp", [], 0),
    ("bert-mini", [], 30522),
    ("bert-base", ["layers=2", "vocab=2000"], 2000),
    ("dlrm", ["rows=50"], 50),
    ("gpt2-small", ["layers=2", "hidden=64", "ffn=128", "heads=4", "vocab=100"], 100, ["4x1:0.9"]),
    ("llama-mini", ["layers=2", "hidden=64", "ffn=128", "heads=4", "vocab=100"], 100, ["1x1:0.8"]),
]


class Errors:
    """The errors of one side over all runs of a model, as shares of the largest value: the largest, and the root of the mean square."""

    def __init__(self):
        self.worst, self.squares, self.count = 0.0, 0.0, 0

    def add(self, answers, exact):
        here = 0.0
        for name in exact:
            largest, mean_square, finite = error(answers[name], exact[name])
            here = max(here, largest)
            self.squares += mean_square * finite
            self.count += finite
        self.worst = max(self.worst, here)
        return here

    def rms(self):
        return (self.squares / max(self.count, 1)) ** 0.5


class Model:
    """One ONNX file, its package, and the two others that answer for it."""

    def __init__(self, tests, name, path, vocabulary):
        self.tests, self.name, self.path, self.vocabulary = tests, name, path, vocabulary
        self.folder = os.path.join(tests.work, name)
        self.package = os.path.join(self.folder, "m.sparta")
        self.peer = self.double = None
        self.ours, self.theirs = Errors(), Errors()
        os.makedirs(self.folder, exist_ok=True)

    def compile(self, *words):
        must("compile", self.path, "-o", self.package, "--quiet", "--threads", 2, *words, timeout=300)

    def answer(self, sizes, *words, **how):
        self.peer = self.peer or open_onnxruntime(self.path)
        self.double = self.double or open_double(self.path)
        need(os.path.exists(self.package), "was not compiled")
        inputs = make_inputs(self.path, sizes, self.vocabulary, seed=sum(sizes.values()), **how)
        answers = run_sparta(self.package, inputs, self.folder, *words)
        return self.compare(answers, run_onnxruntime(self.peer, inputs), run_double(self.double, inputs))

    def compare(self, answers, peer, exact):
        need(sorted(answers) == sorted(peer), f"outputs {sorted(answers)}, wanted {sorted(peer)}")
        to_peer = Errors().add(answers, peer)
        ours, theirs = self.ours.add(answers, exact), self.theirs.add(peer, exact)
        said = f"to onnxruntime {to_peer:.1e}, to double {ours:.1e} (onnxruntime {theirs:.1e})"
        need(to_peer <= RTOL, said)
        return said

    def compare_errors(self):
        """Over all runs, because one run of few values says little about rounding."""
        a, b = self.ours, self.theirs
        said = f"largest {a.worst:.1e} (onnxruntime {b.worst:.1e}), mean {a.rms():.1e} (onnxruntime {b.rms():.1e})"
        need(a.count > 0, "nothing was compared")
        need(a.worst <= 2 * b.worst + ROUNDING and a.rms() <= 2 * b.rms() + ROUNDING / 4, said)
        return said

    def sizes(self):
        symbols = {d for _, _, dims in inputs_of(self.path) for d in dims if isinstance(d, str)}
        need(symbols <= {"batch", "sequence"}, f"unknown symbols {symbols}")
        if "sequence" not in symbols:
            return [{"batch": b} for b in BATCHES_ALONE]
        return [{"batch": b, "sequence": s} for b in BATCHES for s in SEQUENCES]

    def check(self, *words):
        """Everything about this model; what is named in `words` goes to compile."""
        check, label = self.tests.check, self.name
        if not self.tests.wanted(label):
            return
        check(f"{label}: compile", self.compile, *words)
        if not os.path.exists(self.package):
            return  # said once
        for size in self.sizes():
            check(f"{label}: " + " ".join(f"{k} {v}" for k, v in size.items()), self.answer, size)
        if any("mask" in name for name, _, _ in inputs_of(self.path)):
            check(f"{label}: a row that is all padding", lambda: self.answer({"batch": 3, "sequence": 33}, all_padding=True))
        check(f"{label}: error against double", self.compare_errors)
        self.peer = self.double = None  # large ones need not stay

    def check_file(self):
        """What `sparta zoo` wrote is ONNX, for ONNX's checker with shape inference and for onnxruntime."""
        onnx.checker.check_model(self.path, full_check=True)
        names = {i.name for i in open_onnxruntime(self.path).get_inputs()}
        need(names == {name for name, _, _ in inputs_of(self.path)}, f"onnxruntime sees the inputs {names}")


def pruned_share(path, least):
    """Zeros among the matrices that were pruned: the model is what its name says."""
    weights = [onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if len(t.dims) == 2]
    shares = [float(np.mean(w == 0)) for w in weights]
    need(max(shares) > least - 0.02 and min(shares) < 0.01, f"shares of zeros {shares}")


def zoo(tests):
    for name, dims, vocabulary, *few in ZOO:
        for prune in few[0] if few else PRUNED:
            label = f"{name} {prune or 'dense'}"
            if not tests.wanted(label):
                continue
            path = os.path.join(tests.work, label.replace(" ", "-").replace(":", "-") + ".onnx")
            flags = [w for d in dims for w in ("--dim", d)] + (["--prune", prune] if prune else [])
            model = Model(tests, label, path, vocabulary)
            tests.check(f"{label}: zoo", lambda: must("zoo", name, *flags, "-o", path, "--seed", 3) and None)
            tests.check(f"{label}: is ONNX", model.check_file)
            if prune:
                tests.check(f"{label}: is pruned", pruned_share, path, 0.5 if prune == "2:4" else float(prune.split(":")[1]))
            model.check()


def fixtures(tests):
    for path in sorted(glob.glob(os.path.join(FIXTURES, "*.onnx"))):
        Model(tests, os.path.splitext(os.path.basename(path))[0], path, 100).check()


def ways(tests):
    """The same answer in other ways: another target, no compiler, chosen without measuring, dense only, strict, one thread."""
    path = os.path.join(FIXTURES, "bert-dynamo-sdpa-4x1.onnx")
    for words in (["--target", "portable"], ["--compiler", "none"], ["--no-measure"], ["--dense"], ["--strict"], ["--dim", "batch=5"]):
        model = Model(tests, "bert-dynamo-sdpa-4x1 " + " ".join(words), path, 100)
        tests.check(f"{model.name}: compile", model.compile, *words)
        tests.check(f"{model.name}: batch 5 sequence 128", model.answer, {"batch": 5, "sequence": 128})
    model = Model(tests, "one thread", path, 100)
    tests.check("one thread: compile", model.compile)
    tests.check("one thread: batch 5 sequence 200", lambda: model.answer({"batch": 5, "sequence": 200}, "--threads", 1))
    for name in ("mlp-script-4x1.onnx", "bert-script-eager-4x1.onnx", "encoder-dynamo.onnx", "dlrm-dynamo.onnx"):
        model = Model(tests, f"reference {name}", os.path.join(FIXTURES, name), 100)
        model.package = model.path  # `sparta run` takes ONNX too: the reference of every operator
        tests.check(f"reference {name}: batch 2", model.answer, {"batch": 2, "sequence": 33})


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = os.path.join(tests.work, "cache")
    fixtures(tests)
    ways(tests)
    zoo(tests)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
