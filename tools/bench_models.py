"""Times the transformers of model_exports.py, dense and pruned, against onnxruntime on the dense model, and writes the table of docs/models.md.

    make bench-models                                        all of it into docs/models.md: half an hour; leave the machine alone
    make bench-models MODELS_ARGS="--only llama,swin"        some, printed and not put into docs/
    make bench-models MODELS_ARGS="--profile --only t5"      the operators that take most of the time

Every file is compiled and its answer checked against onnxruntime's on the same file, all outputs, at four sizes, with padding. Then whoever is compared runs as a process of its own
on the same cores and they take turns, as tools/bench_peers.py says; a figure is the best of all turns' medians, and a ratio is onnxruntime's figure on
the dense model over ours. With more than one thread onnxruntime runs twice, with spinning threads and without, and the faster counts. Batch 1, 128
tokens, no padding; a cache of 128 and one token; whole images.

A model that does not compile, or answers something else, has that in its row in place of a figure, and the exit status is 1.
"""

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

import bench_peers as peers
import model_exports as exports

PAGE = os.path.join(peers.ROOT, "docs/models.md")
BEGIN, END = "<!-- from here: make bench-models -->", "<!-- to here -->"
TOLERANCE = 1e-4  # of an output's largest value
SIZES = [(2, 37), (3, 100), (1, 1)]  # items and tokens (of a decoder with a cache: of the cache) that answers are compared at besides those that are timed
PATTERNS = {"dense": ".onnx", "pruned": ".4x1.onnx"}
WANTED = {"dense": (1.0, 1.2), "pruned": (3.0, 5.0)}  # at least, reach for


class Failed(Exception):
    pass


class Model:
    """An exported file: its inputs on disk, its sizes."""

    def __init__(self, args, stem):
        self.args, self.stem = args, stem
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.onnx("dense"), options, providers=["CPUExecutionProvider"])
        self.inputs, self.outputs = exports.inputs_of(session), [o.name for o in session.get_outputs()]
        self.dims = [w for name, value in exports.sizes_of(session).items() if name.isidentifier() for w in ("--dim", f"{name}={value}")]

    def onnx(self, pattern):
        return f"{self.args.models}/{self.stem}{PATTERNS[pattern]}"

    def package(self, pattern, threads):
        return f"{self.args.work}/{self.stem}.{pattern}.{threads}.sparta"

    def sparta(self, *words):
        done = subprocess.run([self.args.sparta, *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if not line.startswith("sparta: note")] or ["?"]
            raise Failed(f"{words[0]}: {said[0].removeprefix('sparta: ')}")
        return done.stdout

    def compile(self, pattern, threads):
        """Seconds that it took."""
        begin = time.perf_counter()
        self.sparta("compile", self.onnx(pattern), "-o", self.package(pattern, threads), "--threads", threads, "-q")
        return time.perf_counter() - begin

    def check(self, pattern, threads):
        """Largest difference to onnxruntime on the same file, over an output's largest value; at the size that is measured and at all in SIZES."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(self.onnx(pattern), options, providers=["CPUExecutionProvider"])
        worst = self.compare(session, pattern, threads, self.inputs)
        for batch, length in SIZES:
            inputs = exports.inputs_of(session, batch, length)
            if {n: x.shape for n, x in inputs.items()} != {n: x.shape for n, x in self.inputs.items()}:
                worst = max(worst, self.compare(session, pattern, threads, inputs, may_refuse=True))
        return worst

    def compare(self, session, pattern, threads, inputs, may_refuse=False):
        """The same of one run. may_refuse: nothing is compared where onnxruntime does not run the file at these sizes."""
        folder = tempfile.mkdtemp(dir=self.args.work)
        try:
            try:
                wanted = session.run(None, inputs)
            except Exception:
                if may_refuse:
                    peers.note(f"{self.stem}: onnxruntime refuses " + ", ".join(f"{n} {x.shape}" for n, x in inputs.items())[:120])
                    return 0.0
                raise
            np.savez(f"{folder}/in.npz", **inputs)
            self.sparta("run", self.package(pattern, threads), "--inputs", f"{folder}/in.npz", "--output-dir", f"{folder}/out", "--threads", threads)
            worst = 0.0
            for name, want in zip(self.outputs, wanted):
                got = np.load(f"{folder}/out/{name}.npy")
                if got.shape != want.shape:
                    raise Failed(f"wrong: {name} is {got.shape}, onnxruntime's is {want.shape}")
                worst = max(worst, float(np.abs(got - want).max() / np.abs(want).max()))
            if not worst <= TOLERANCE:
                raise Failed(f"wrong: differs from onnxruntime by {worst:.1e}")
            return worst
        finally:
            shutil.rmtree(folder)

    def spec(self, kind, file, threads, **more):
        prefix = f"{self.args.work}/{self.stem}"
        for name, array in self.inputs.items():
            array.tofile(f"{prefix}-{name}.bin")
        tensors = {name: [str(a.dtype), list(a.shape)] for name, a in self.inputs.items()}
        return {"kind": kind, "model": file, "threads": threads, "inputs": prefix, "tensors": tensors, "library": self.args.library,
                "every_output": True, **more}


# ------------------------------------------------------------------ measuring


def prepare(model, threads):
    """{pattern: why there is nothing to time, or None} after compiling and checking."""
    found = {}
    for pattern in PATTERNS:
        try:
            model.compile(pattern, threads)
            model.check(pattern, threads)
            found[pattern] = None
        except Failed as e:
            found[pattern] = str(e)
    return found


def measure(model, threads):
    """A row: {pattern: ratio or why not, "ms": onnxruntime's, "ours": {pattern: ms}}."""
    row = prepare(model, threads)
    ours = {p: peers.Subject(f"{model.stem} {p}", model.spec("sparta", model.package(p, threads), threads)) for p, why in row.items() if not why}
    theirs = [peers.Subject(f"{model.stem} onnxruntime", model.spec("onnxruntime", model.onnx("dense"), threads, spin=spin))
              for spin in ((1, 0) if threads > 1 else (0,))]
    everyone = [*ours.values(), *theirs]
    for _ in range(model.args.rounds):
        for s in everyone:
            s.turn(model.args.turn)
    for s in everyone:
        s.close()
    row["ms"], row["ours"] = min(min(s.medians) for s in theirs), {p: min(s.medians) for p, s in ours.items()}
    row.update({p: row["ms"] / ms for p, ms in row["ours"].items()})
    return row


def cell(row, pattern):
    if isinstance(row[pattern], str):
        return row[pattern]
    least, reach = WANTED[pattern]
    ratio = row[pattern]
    word = f"**{ratio:.2f}x**" if ratio >= reach else f"{ratio:.2f}x" if ratio >= least else f"_{ratio:.2f}x_"
    return f"{word} ({row['ours'][pattern]:.3g} ms)"


def table(args, rows):
    threads = args.threads
    columns = [f"{p}, {t} thread{'s' * (t > 1)}" for t in threads for p in PATTERNS]
    text = [f"- machine: {peers.cpu_name()}, {len(os.sched_getaffinity(0))} cores, {args.isa}; load before the start {args.load:.2f}",
            f"- versions: sparta {args.version}, onnxruntime {onnxruntime.__version__}" + "".join(f", {n}" for n in exporters()),
            f"- {time.strftime('%Y-%m-%d')}, commit {peers.commit_name()}; {args.rounds} turns of {args.turn} s", "",
            "| model | exporter | onnxruntime ms | " + " | ".join(columns) + " |", "|---" * (3 + len(columns)) + "|"]
    for stem, by_threads in rows.items():
        name, exporter = stem.rsplit(".", 1)
        ms = ", ".join(f"{by_threads[t]['ms']:.3g}" for t in threads)
        text.append(f"| {name} | {exporter} | {ms} | " + " | ".join(cell(by_threads[t], p) for t in threads for p in PATTERNS) + " |")
    return text


def exporters():
    import importlib.metadata as metadata

    return [f"{n} {metadata.version(n)}" for n in ("torch", "transformers", "onnxscript")]


def write(text):
    """Into the page, between its two marks."""
    with open(PAGE) as f:
        page = f.read()
    made = f"{BEGIN}\n\n" + "\n".join(text) + f"\n\n{END}"
    with open(PAGE, "w") as f:
        f.write(re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: made, page, flags=re.S))


# ------------------------------------------------------------------ where the time goes


def profile(model, pattern, threads, most=5):
    """Lines: the operators, by operator and implement, that take most of a run."""
    words = ["bench", model.onnx(pattern), "--profile", "--no-baseline", "--threads", threads, "--time", model.args.turn * 4, "--json", *model.dims]
    found = json.loads(model.sparta(*words))
    sums = collections.defaultdict(lambda: [0.0, 0])
    for layer in found["layers"]:
        entry = sums[layer["op"], layer["implement"]]
        entry[0] += layer["ms"]
        entry[1] += 1
    total = sum(ms for ms, _ in sums.values())
    lines = [f"{model.stem} {pattern}: {found['subject']['best_ms']:.2f} ms"]
    for (op, implement), (ms, count) in sorted(sums.items(), key=lambda item: -item[1][0])[:most]:
        lines.append(f"    {ms / total:4.0%}  {ms:8.3f} ms  {count:3} x {op} ({implement})")
    return lines


# ------------------------------------------------------------------ the command


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sparta", default=os.path.join(peers.ROOT, "build/release/sparta"))
    p.add_argument("--models", default=os.path.join(peers.ROOT, "build/bench-models"), help="folder of the exports; what is missing is made")
    p.add_argument("--work", default=os.path.join(peers.ROOT, "build/bench-models/work"), help="folder of packages and inputs")
    p.add_argument("--only", default="", help="names, or names with an exporter: llama,swin.ts")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--turn", type=float, default=0.1, help="seconds of a turn")
    p.add_argument("--profile", action="store_true", help="print the five operators of each model that take most time, and time nothing else")
    p.add_argument("--check", action="store_true", help="compile and compare answers only")
    args = p.parse_args()
    args.sparta, args.models, args.work = map(os.path.abspath, (args.sparta, args.models, args.work))
    args.library = os.path.join(os.path.dirname(args.sparta), "libsparta_rt.so")
    args.threads, args.load = [int(t) for t in args.threads.split(",")], os.getloadavg()[0]
    args.version = peers.call(args, "--version")[1].split()[-1]
    args.isa = json.loads(peers.call(args, "doctor", "--json")[1])["isa"]
    return args


def chosen(args):
    asked = set(filter(None, args.only.split(",")))
    known = [f"{name}.{exporter}" for name in exports.NAMES for exporter in exports.EXPORTERS]
    stems = [s for s in known if not asked or s in asked or s.rsplit(".", 1)[0] in asked]
    if not stems:
        raise SystemExit(f"bench_models: no model is called {args.only!r}; they are {', '.join(exports.NAMES)}")
    exports.export_all(args.models, list(dict.fromkeys(s.rsplit(".", 1)[0] for s in stems)))
    return [s for s in stems if os.path.exists(f"{args.models}/{s}.onnx")]


def look(args, stems):
    """--profile and --check: a few lines a model. Says whether all went well."""
    good = True
    for stem in stems:
        model = Model(args, stem)
        for pattern in PATTERNS:
            try:
                if args.check:
                    seconds = model.compile(pattern, args.threads[0])
                    print(f"{stem} {pattern}: compiled in {seconds:.1f} s, difference {model.check(pattern, args.threads[0]):.1e}", flush=True)
                else:
                    print("\n".join(profile(model, pattern, args.threads[0])), flush=True)
            except Failed as e:
                good = False
                print(f"{stem} {pattern}: {e}", flush=True)
    return good


def main():
    args = parse()
    os.makedirs(args.work, exist_ok=True)
    stems = chosen(args)
    if args.profile or args.check:
        raise SystemExit(not look(args, stems))
    os.sched_setaffinity(0, peers.physical_cores(max(args.threads)))
    rows = {}
    for stem in stems:
        model = Model(args, stem)
        rows[stem] = {t: measure(model, t) for t in args.threads}
        peers.note(f"{stem}: " + "; ".join(cell(rows[stem][t], p) for t in args.threads for p in PATTERNS))
    text = table(args, rows)
    print("\n".join(text))
    if not args.only:
        write(text)
    raise SystemExit(any(isinstance(row[p], str) for by_threads in rows.values() for row in by_threads.values() for p in PATTERNS))


if __name__ == "__main__":
    main()
