"""Times sparta against onnxruntime (and torch) and writes docs/benchmarks/first-walk.md or models.md (make bench-peers).

    .venv-peers/bin/python tools/bench_peers.py --sparta build/release/sparta          everything, about ten minutes; leave the machine alone
    make bench-peers PEERS_ARGS="--quick"                                              bert-mini, few rounds: does it work?
    make bench-peers PEERS_ARGS="--only 'bert-base b8'"                                one part, printed and not put into docs/
    make bench-peers PEERS_ARGS="--every-pattern"                                      scattered, 2x1, 2:4, bert-large and dlrm: models.md
    make bench-peers PEERS_ARGS="--every-pattern --only dlrm"                          the recommender: 1.3 GB of tables, written four times
    make bench-peers PEERS_ARGS="--target avx512,avx2 --int8 --only bert-base"         our code for both, and onnxruntime's int8 as one more peer

Every subject is a process of its own on the same cores: ours calls libsparta_rt.so through ctypes, the peers run the dense model.
They take turns; whoever is not at turn is stopped (SIGSTOP, and waited for), so that spinning threads of one do not slow
another. A turn is a run that is not counted (left out when a run takes longer than a quarter of a second) and then runs for --turn
seconds; its figure is their median. A ratio is taken within each round and summed up as the median of all rounds with a 95 %
bootstrap interval. onnxruntime runs twice, with spinning threads and without: the faster of the two is the peer. With --int8 it also runs the dense
model quantised by its own tools, dynamically and statically (QDQ, calibrated on the same inputs), with spinning threads: the faster of the two counts,
whatever its answer is worth.

Worker processes import no numpy for sparta, so that its memory is its own (and an interpreter's). Models and packages are kept in
build/bench-peers.
"""

import argparse
import ctypes
import hashlib
import json
import math
import os
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, "build/bench-peers")
VOCABULARY = 30522
BERT = {"bert-mini": (4, 256, 4), "bert-base": (12, 768, 12), "bert-large": (24, 1024, 16)}  # layers, hidden, heads
TABLES, ROWS, COLUMNS = 26, 100000, 128  # of dlrm
PATTERN = {"dense": None, "4x1 80 %": "4x1:0.8", "4x1 90 %": "4x1:0.9", "16x4 85 %": "16x4:0.85", "1x1 90 %": "1x1:0.9", "2x1 70 %": "2x1:0.7",
           "2:4": "2:4"}
CASES = [  # model, batch, pattern, at least, reach for: the table of the first walk
    ("bert-base", 1, "dense", 1.05, 1.2), ("bert-base", 1, "4x1 80 %", 4, 5.3), ("bert-base", 1, "4x1 90 %", 6, 9.3),
    ("bert-base", 8, "dense", 1.05, 1.2), ("bert-base", 8, "4x1 80 %", 4, 5.3), ("bert-base", 8, "4x1 90 %", 6, 9.3),
    ("bert-mini", 1, "4x1 90 %", 5.5, 8.7),
]
EVERY_PATTERN = [  # the whole models of "every pattern at speed"
    ("bert-base", 8, "4x1 90 %", 6, 9.3), ("bert-base", 8, "1x1 90 %", 4, 7.5), ("bert-base", 8, "2x1 70 %", 2.2, 3.3), ("bert-base", 8, "2:4", 1.5, 2.2),
    ("bert-large", 1, "4x1 90 %", 6, 9.5), ("bert-large", 1, "1x1 90 %", 4, 7.5), ("bert-large", 1, "2x1 70 %", 2.2, 3.3),
    ("dlrm", 2048, "dense", 1.05, 1.2), ("dlrm", 2048, "16x4 85 %", 3.5, 6),
]
TOLERANCE = 1e-4  # of the largest value, between our answer and onnxruntime's on the same pruned model
LONG_RUN = 0.25  # seconds; such a run is not preceded by one that is not counted


def note(text):
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- workers: start(spec) gives run(), answer(path) and what it cost to open
class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dim", ctypes.c_int64 * 8), ("stride", ctypes.c_int64 * 8),
                ("data", ctypes.c_void_p), ("device", ctypes.c_int)]


class Named(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", Tensor)]


class SessionOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int), ("profile", ctypes.c_int)]


F32, I64 = 0, 10  # of sparta_dtype in sparta.h


def start_sparta(spec):
    lib = ctypes.CDLL(spec["library"])
    for function, kind in (("sparta_ctx_create", ctypes.c_void_p), ("sparta_message", ctypes.c_char_p),
                           ("sparta_package_input_name", ctypes.c_char_p), ("sparta_package_output_name", ctypes.c_char_p)):
        getattr(lib, function).restype = kind
    cx, package, session = ctypes.c_void_p(lib.sparta_ctx_create(None)), ctypes.c_void_p(), ctypes.c_void_p()

    def must(status):
        if status:
            raise RuntimeError(lib.sparta_message(cx).decode())

    begin = time.perf_counter()
    must(lib.sparta_package_open(cx, spec["model"].encode(), ctypes.byref(package)))
    opened = time.perf_counter() - begin
    options = SessionOptions(ctypes.sizeof(SessionOptions), spec["threads"], 0)
    must(lib.sparta_session_create(cx, package, ctypes.byref(options), ctypes.byref(session)))
    cost = {"open_ms": opened * 1e3, "session_ms": (time.perf_counter() - begin - opened) * 1e3}
    names = [lib.sparta_package_input_name(package, i) for i in range(lib.sparta_package_inputs(package))]
    outputs = lib.sparta_package_outputs(package) if spec.get("every_output") else 1
    given, wanted, kept = (Named * len(names))(), (Named * outputs)(), []
    for slot, name in zip(given, names):
        with open(f"{spec['inputs']}-{name.decode()}.bin", "rb") as f:
            kept.append(ctypes.create_string_buffer(f.read()))
        slot.name = name
        dtype, shape = spec["tensors"][name.decode()]
        slot.tensor.dtype, slot.tensor.rank, slot.tensor.data = F32 if dtype == "float32" else I64, len(shape), ctypes.addressof(kept[-1])
        slot.tensor.dim[0 : len(shape)] = shape
        slot.tensor.stride[0 : len(shape)] = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    for i, slot in enumerate(wanted):
        slot.name = lib.sparta_package_output_name(package, i)

    def run():
        must(lib.sparta_session_run(cx, session, given, len(names), wanted, outputs))

    def answer(path):
        t = wanted[0].tensor
        shape = list(t.dim[: t.rank])
        dense = all(t.stride[i] == t.stride[i + 1] * shape[i + 1] for i in range(t.rank - 1)) and t.stride[t.rank - 1] == 1
        if t.dtype != F32 or not dense:
            raise RuntimeError("the output is not a row-major float array")
        size = 4
        for d in shape:
            size *= d
        with open(path, "wb") as f:
            f.write(ctypes.string_at(t.data, size))
        return shape

    run.keep = kept
    return run, answer, cost


def numpy_inputs(spec, names):
    import numpy as np

    return {n: np.fromfile(f"{spec['inputs']}-{n}.bin", spec["tensors"][n][0]).reshape(spec["tensors"][n][1]) for n in names}


def save(array, path):
    array.tofile(path)
    return list(array.shape)


def start_onnxruntime(spec):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = spec["threads"]
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spec["spin"] else "0")
    begin = time.perf_counter()
    session = ort.InferenceSession(spec["model"], options, providers=["CPUExecutionProvider"])
    cost = {"open_ms": (time.perf_counter() - begin) * 1e3}
    feed = numpy_inputs(spec, [i.name for i in session.get_inputs()])
    wanted = [o.name for o in session.get_outputs()][: None if spec.get("every_output") else 1]
    last = {}

    def run():
        last["answer"] = session.run(wanted, feed)[0]

    return run, lambda path: save(last["answer"], path), cost


def start_torch_dlrm(spec):
    """The same recommender, dense, as its authors write it; nn.Embedding, one id a table."""
    import torch
    from torch import nn

    def layers(*sizes):
        return [m for i, o in zip(sizes, sizes[1:]) for m in (nn.Linear(i, o), nn.ReLU())]

    torch.set_num_threads(spec["threads"])
    begin = time.perf_counter()
    tables = [nn.Embedding(ROWS, COLUMNS) for _ in range(TABLES)]
    pairs = torch.tril_indices(TABLES + 1, TABLES + 1, offset=-1)
    bottom = nn.Sequential(*layers(13, 512, 256, COLUMNS))
    top = nn.Sequential(*layers(COLUMNS + pairs.shape[1], 1024, 1024, 512, 256), nn.Linear(256, 1), nn.Sigmoid())
    cost = {"open_ms": (time.perf_counter() - begin) * 1e3}
    inputs = {n: torch.from_numpy(a) for n, a in numpy_inputs(spec, ["dense", "ids"]).items()}
    last = {}

    def run():
        with torch.inference_mode():
            x = bottom(inputs["dense"])
            t = torch.stack([x] + [table(inputs["ids"][:, i]) for i, table in enumerate(tables)], dim=1)
            z = torch.bmm(t, t.transpose(1, 2))
            last["answer"] = top(torch.cat([x, z[:, pairs[0], pairs[1]]], dim=1))

    return run, lambda path: save(last["answer"].numpy(), path), cost


def start_torch(spec):
    """The same encoder, dense, written as PyTorch people do; weights are random, only its time is looked at. It gets no mask,
    which is to its advantage."""
    if spec["name"] == "dlrm":
        return start_torch_dlrm(spec)
    import torch
    from torch import nn
    from torch.nn.functional import gelu, scaled_dot_product_attention

    layers, hidden, heads = BERT[spec["name"]]

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

        def forward(self, x):
            b, s, _ = x.shape
            q, k, v = self.qkv(x).view(b, s, 3, heads, hidden // heads).permute(2, 0, 3, 1, 4)
            y = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, hidden)
            x = self.norm1(x + self.out(y))
            return self.norm2(x + self.down(gelu(self.up(x))))

    torch.set_num_threads(spec["threads"])
    begin = time.perf_counter()
    words, places, norm = nn.Embedding(VOCABULARY, hidden), nn.Embedding(512, hidden), nn.LayerNorm(hidden)
    encoder = nn.Sequential(*[Layer() for _ in range(layers)]).eval()
    cost = {"open_ms": (time.perf_counter() - begin) * 1e3}
    ids = torch.from_numpy(numpy_inputs(spec, ["input_ids"])["input_ids"])
    last = {}

    def run():
        with torch.inference_mode():
            last["answer"] = encoder(norm(words(ids) + places(torch.arange(spec["sequence"]))))

    return run, lambda path: save(last["answer"].numpy(), path), cost


def memory(what):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(what + ":")) / 1024


def take_turn(run, seconds, last):
    if last < LONG_RUN:
        run()
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return times


def worker(spec):
    """Answers lines: `turn SECONDS` with the times of its runs, `answer FILE` by saving its output, both on stdout as JSON."""
    sys.stdout, real = sys.stderr, sys.stdout  # a library that prints must not answer for us
    if spec["kind"] == "onnxruntime":
        import onnxruntime  # noqa: F401 (what the imports take is told apart from what the model takes)
    if spec["kind"] == "torch":
        import torch  # noqa: F401
    imported = memory("VmRSS")
    run, answer, cost = {"sparta": start_sparta, "onnxruntime": start_onnxruntime, "torch": start_torch}[spec["kind"]](spec)
    begin = time.perf_counter()
    run()
    last = time.perf_counter() - begin
    print(json.dumps({**cost, "imported_mib": imported}), file=real, flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "turn":
            times = take_turn(run, float(rest), last)
            last = statistics.median(times)
            said = {"times": times, "peak_mib": memory("VmHWM")}
        else:
            said = {"shape": answer(rest)}
        print(json.dumps(said), file=real, flush=True)


# ---------------------------------------------------------------- the referee
class Subject:
    """A worker process that runs only while it is asked something."""

    def __init__(self, label, spec):
        self.label, self.medians, self.peak_mib = label, [], 0.0
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker", json.dumps(spec)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.started = self.read()
        self.stop()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench_peers: {self.label} ended, status {self.process.wait()}")
        return json.loads(line)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise SystemExit(f"bench_peers: {self.label} ended, status {status}")

    def ask(self, line):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.read()
        self.stop()
        return answer

    def turn(self, seconds):
        said = self.ask(f"turn {seconds}")
        self.peak_mib = said["peak_mib"]
        self.medians.append(statistics.median(said["times"]) * 1e3)

    def answer(self):
        import numpy as np

        path = os.path.join(WORK, "answer.bin")
        shape = self.ask("answer " + path)["shape"]
        return np.fromfile(path, np.float32).reshape(shape)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def summary(values):
    """Median and its 95 % bootstrap interval."""
    import numpy as np

    v = np.asarray(values)
    again = np.median(v[np.random.default_rng(1).integers(0, len(v), (2000, len(v)))], axis=1)
    return [float(np.median(v)), float(np.quantile(again, 0.025)), float(np.quantile(again, 0.975))]


def call(args, *words, cache=None):
    """Runs the program and gives (seconds, stdout)."""
    environment = {**os.environ, **({"XDG_CACHE_HOME": cache} if cache else {})}
    begin = time.perf_counter()
    done = subprocess.run([args.sparta, *map(str, words)], stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"bench_peers: sparta {' '.join(map(str, words))}: exit {done.returncode}")
    return time.perf_counter() - begin, done.stdout


class Models:
    """ONNX files, kept while the program is the same, and packages, compiled anew each time because that is timed."""

    def __init__(self, args):
        self.args, self.compiled = args, {}
        with open(args.sparta, "rb") as f:
            self.key = hashlib.sha256(f.read()).hexdigest()
        os.makedirs(WORK, exist_ok=True)

    def onnx(self, name, pattern):
        path = os.path.join(WORK, f"{name}-{PATTERN[pattern] or 'dense'}.onnx".replace(":", "-"))
        stamp = path + ".made-by"
        if not (os.path.exists(path) and os.path.exists(stamp) and open(stamp).read() == self.key):
            note(f"making {os.path.relpath(path, ROOT)}")
            call(self.args, "zoo", name, *(["--prune", PATTERN[pattern]] if PATTERN[pattern] else []), "-o", path, "--quiet")
            with open(stamp, "w") as f:
                f.write(self.key)
        return path

    def package(self, name, pattern, target):
        """(path, seconds with an empty cache, seconds with a filled one); target "": the best"""
        if (name, pattern, target) not in self.compiled:
            source = self.onnx(name, pattern)
            path, cache = source[: -len("onnx")] + (target + "." if target else "") + "sparta", os.path.join(WORK, "cache")
            shutil.rmtree(cache, ignore_errors=True)
            words = ["compile", source, "-o", path, "--threads", self.args.threads, "--quiet", *(["--target", target] if target else [])]
            note(f"compiling {os.path.relpath(path, ROOT)} twice")
            self.compiled[name, pattern, target] = (path, call(self.args, *words, cache=cache)[0], call(self.args, *words, cache=cache)[0])
        return self.compiled[name, pattern, target]

    def quantised(self, name, how, batch):
        """The dense model as onnxruntime's own tools quantise it."""
        dense = self.onnx(name, "dense")
        path = dense[: -len("onnx")] + f"int8-{how}-b{batch}.onnx"
        if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(dense):
            note(f"quantising {os.path.relpath(path, ROOT)}")
            quantise(self.args, how, name, dense, path, batch)
        return path


def quantise(args, how, name, source, path, batch):
    """Weights s8, activations u8, products only: what onnxruntime has kernels for."""
    from onnxruntime import quantization as q

    products = ["MatMul", "Gemm"]
    if how == "dynamic":
        q.quantize_dynamic(source, path, weight_type=q.QuantType.QInt8, op_types_to_quantize=products)
        return
    feed = numpy_inputs(spec_of(args, "onnxruntime", name, source, batch), make_inputs(args, name, batch)[1])

    class Inputs(q.CalibrationDataReader):
        left = [feed]

        def get_next(self):
            return self.left.pop() if self.left else None

    q.quantize_static(source, path, Inputs(), quant_format=q.QuantFormat.QDQ, weight_type=q.QuantType.QInt8, activation_type=q.QuantType.QUInt8,
                      op_types_to_quantize=products)


def make_inputs(args, name, batch):
    """Full-length sequences, or a recommender's items with uniform ids, the same for every subject, as raw files: (where, {input: [dtype,
    shape]})."""
    import numpy as np

    rng = np.random.default_rng(7)
    if name == "dlrm":
        prefix = os.path.join(WORK, f"inputs-dlrm-b{batch}")
        arrays = {"dense": rng.standard_normal((batch, 13), dtype=np.float32), "ids": rng.integers(0, ROWS, (batch, TABLES), dtype=np.int64)}
    else:
        prefix = os.path.join(WORK, f"inputs-b{batch}-s{args.sequence}")
        ids = rng.integers(0, VOCABULARY, (batch, args.sequence), dtype=np.int64)
        arrays = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    for word, array in arrays.items():
        array.tofile(f"{prefix}-{word}.bin")
    return prefix, {word: [str(a.dtype), list(a.shape)] for word, a in arrays.items()}


def spec_of(args, kind, name, model, batch, **more):
    prefix, tensors = make_inputs(args, name, batch)
    return {"kind": kind, "name": name, "model": model, "batch": batch, "sequence": args.sequence, "threads": args.threads,
            "inputs": prefix, "tensors": tensors, "library": args.library, **more}


def difference(args, models, subject, name, pattern, batch):
    """Largest difference between our answer and onnxruntime's on the same pruned model, as a share of the largest value."""
    import numpy as np

    peer = Subject("onnxruntime on the pruned model", spec_of(args, "onnxruntime", name, models.onnx(name, pattern), batch, spin=0))
    ours, theirs = subject.answer(), peer.answer()
    peer.close()
    if ours.shape != theirs.shape:
        raise SystemExit(f"bench_peers: {subject.label}: our answer is {ours.shape}, onnxruntime's is {theirs.shape}")
    worst = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
    if not worst <= TOLERANCE:
        raise SystemExit(f"bench_peers: {subject.label}: our answer differs from onnxruntime's by {worst:.1e} of the largest value")
    return worst


def rounds(args, subjects, label):
    for i in range(args.rounds):
        for s in subjects:
            s.turn(args.turn)
        print(f"\r{label}: round {i + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
    note("")


def open_peers(args, models, name, batch):
    """(fp32, int8, torch): subjects on the dense model; of the first two kinds the fastest counts."""
    dense = models.onnx(name, "dense")
    fp32 = [Subject(word, spec_of(args, "onnxruntime", name, dense, batch, spin=spin)) for spin, word in ((1, "spinning"), (0, "not spinning"))]
    int8 = [Subject(f"int8 {how}", spec_of(args, "onnxruntime", name, models.quantised(name, how, batch), batch, spin=1))
            for how in (("dynamic", "static") if args.int8 else ())]
    return fp32, int8, [Subject("torch", spec_of(args, "torch", name, "", batch))] if args.torch else []


def measure(args, models, name, batch, cases):
    """All patterns of a model and batch, for each target, against the peers on the dense model."""
    import numpy as np

    cases = [(*c[:5], target) for target in args.target for c in cases]
    ours = [Subject(f"sparta {name} {c[2]} {c[5]}", spec_of(args, "sparta", name, models.package(name, c[2], c[5])[0], batch)) for c in cases]
    errors = [difference(args, models, s, name, c[2], batch) for s, c in zip(ours, cases)]
    peers, int8, torch = open_peers(args, models, name, batch)
    everyone = ours + peers + int8 + torch
    rounds(args, everyone, f"{name} b{batch}")
    fastest = lambda subjects: min(subjects, key=lambda s: statistics.median(s.medians))
    best = fastest(peers)
    rows = []
    for s, case, worst in zip(ours, cases, errors):
        row = {"model": name, "batch": batch, "pattern": case[2], "target": case[5], "at_least": case[3], "reach_for": case[4], "ms": summary(s.medians),
               "onnxruntime": best.label, "onnxruntime_ms": summary(best.medians),
               "ratio": summary(np.array(best.medians) / np.array(s.medians)), "difference": worst, "peak_mib": s.peak_mib,
               "imported_mib": s.started["imported_mib"], "onnxruntime_peak_mib": min(p.peak_mib for p in peers),
               "onnxruntime_imported_mib": best.started["imported_mib"],
               "rounds_ms": {x.label: x.medians for x in [s, *peers, *int8, *torch]}}
        for word, others in (("int8", int8), ("torch", torch)):
            if others:
                other = fastest(others)
                row[word], row[word + "_ms"] = other.label, summary(other.medians)
                row[word + "_ratio"] = summary(np.array(other.medians) / np.array(s.medians))
        rows.append(row)
    for s in everyone:
        s.close()
    return rows


# ---------------------------------------------------------------- single figures
def kernel_line(args):
    """Share of peak of one product, best over best, as the program measures it; the median of five calls."""
    words = shlex.split("kernel bench --op matmul --m 384 --n 1024 --k 1024 --pattern 4x1 --sparsity 0.9 --dtype f32 --threads 1 --json")
    shares = []
    for _ in range(2 if args.quick else 5):
        shares.append(json.loads(call(args, *words)[1]))
    shares.sort(key=lambda k: k["share_of_peak"])
    return {"command": "sparta " + " ".join(words), "least": shares[0]["share_of_peak"], "most": shares[-1]["share_of_peak"],
            **shares[len(shares) // 2]}


def open_time(args, name, package):
    """Ten fresh processes; the file is in the page cache."""
    found = []
    for _ in range(10):
        s = Subject("opening", spec_of(args, "sparta", name, package, 1))
        found.append(s.started)
        s.close()
    return statistics.median(f["open_ms"] for f in found), statistics.median(f["session_ms"] for f in found)


def profile(args, name, package, batch):
    """Where the time goes, summed over layers of one operator and implement."""
    words = ["bench", package, "--profile", "--no-baseline", "--threads", args.threads, "--batch", batch, "--time", 2, "--json"]
    words += ["--dim", f"sequence={args.sequence}"] if name in BERT else []
    found = json.loads(call(args, *words)[1])
    sums = {}
    for layer in found["layers"]:
        entry = sums.setdefault((layer["op"], layer["implement"]), [0.0, 0.0, 0])
        entry[0] += layer["ms"]
        entry[1] += layer["ms"] * layer["gops_real"]
        entry[2] += 1
    total = sum(e[0] for e in sums.values())
    rows = ["| operator | implement | layers | ms | share of time | share of peak |", "|---|---|---|---|---|---|"]
    for (op, implement), (ms, work, n) in sorted(sums.items(), key=lambda item: -item[1][0]):
        if ms > total / 200:
            share = f"{work / ms / found['peak_gops']:.0%}" if work else ""
            rows.append(f"| {op} | {implement} | {n} | {ms:.3f} | {ms / total:.0%} | {share} |")
    return rows


# ---------------------------------------------------------------- the page
def cpu_name():
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def commit_name():
    return subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"


def versions(args):
    import importlib.metadata as metadata

    names = ["onnxruntime", "numpy"] + (["onnx"] if args.int8 else []) + (["torch"] if args.torch else [])
    return [f"Python {platform.python_version()}"] + [f"{n} {metadata.version(n)}" for n in names]


def header(args, isa, load):
    return ["# Whole models of every pattern against onnxruntime" if args.every_pattern else "# The first walk against onnxruntime", "",
            f"Made by `make bench-peers`{' with ' + args.asked if args.asked else ''}; [README](README.md) says how it is measured.", "",
            f"- machine: {cpu_name()}, {args.threads} of {os.cpu_count()} cores, {isa}, {platform.system()} {platform.release()}; "
            f"load before the start {load:.2f}",
            f"- versions: sparta {call(args, '--version')[1].split()[-1]}, " + ", ".join(versions(args)),
            f"- {time.strftime('%Y-%m-%d')}, commit {commit_name()}",
            f"- fp32, {args.threads} threads, full sequences of {args.sequence} or uniform ids, random weights, encoder linears pruned (dlrm: all but both ends); {args.rounds} rounds of "
            f"{args.turn} s turns", ""]


def spread(v, form):
    return f"{v[0]:{form}} ({v[1]:{form}} to {v[2]:{form}})"


def verdict(row):
    r = row["ratio"][0]
    return "reached for" if r >= row["reach_for"] else "at least" if r >= row["at_least"] else "**below**"


def row_name(r):
    return f"| {r['model']} b{r['batch']} | {r['pattern']}{', ' + r['target'] if r['target'] else ''} |"


def speed_table(args, rows):
    more = [("int8", "onnxruntime int8")] * args.int8 + [("torch", "torch")] * args.torch
    text = ["## Speed", "",
            "Ratio: time of onnxruntime on the dense model over ours on the pruned one; medians with 95 % intervals.", "",
            "| model | pattern | ratio | at least | reach for | it is | sparta ms | onnxruntime ms |" + "".join(f" ratio to {name} |" for _, name in more),
            "|---|---|---|---|---|---|---|---|" + "---|" * len(more)]
    for r in rows:
        line = (f"{row_name(r)} **{r['ratio'][0]:.2f}x** ({r['ratio'][1]:.2f} to {r['ratio'][2]:.2f}) "
                f"| {r['at_least']}x | {r['reach_for']}x | {verdict(r)} | {spread(r['ms'], '.4g')} | {spread(r['onnxruntime_ms'], '.4g')} |")
        text.append(line + "".join(f" {r[word + '_ratio'][0]:.2f}x |" for word, _ in more))
    spins = sorted({(r["model"], r["batch"], r["onnxruntime"]) for r in rows})
    text += ["", "onnxruntime's threads, the faster of both: " + "; ".join(f"{m} b{b} {o}" for m, b, o in spins) + "."]
    for word, what in (("int8", "onnxruntime, dense, the faster of its int8 models"), ("torch", "torch (eager, dense, no mask)")):
        found = {(r["model"], r["batch"]): (r[word], r[word + "_ms"]) for r in rows if word in r}
        if found:
            text.append(f"{what}: " + "; ".join(f"{m} b{b} {label} {spread(v, '.4g')} ms" for (m, b), (label, v) in found.items()) + ".")
    return text + [""]


def memory_table(rows):
    text = ["## Answers and memory", "",
            "Difference: the largest to onnxruntime on the same pruned model, over the largest value. Peak memory: VmHWM of the whole process "
            "after all rounds, in MiB; in brackets what interpreter and imports take before a model is opened.", "",
            "| model | pattern | difference | sparta MiB | onnxruntime (dense) MiB | below it |", "|---|---|---|---|---|---|"]
    for r in rows:
        text.append(f"{row_name(r)} {r['difference']:.1e} | {r['peak_mib']:.0f} ({r['imported_mib']:.0f}) | "
                    f"{r['onnxruntime_peak_mib']:.0f} ({r['onnxruntime_imported_mib']:.0f}) | {'yes' if r['peak_mib'] < r['onnxruntime_peak_mib'] else '**no**'} |")
    return text + [""]


def figures_table(kernel, opened, compiled):
    mark = lambda good: "yes" if good else "**no**"
    text = ["## Single figures", "", "| what | figure | wanted | reached |", "|---|---|---|---|"]
    if kernel:
        text.append(f"| kernel 4x1 90 %, 1024 x 1024, 384 tokens, one thread, {kernel['implement']} on {kernel['isa']}: share of peak | "
                    f"{kernel['share_of_peak']:.1%} (calls: {kernel['least']:.1%} to {kernel['most']:.1%}; peak {kernel['peak_gops']:.0f} GOP/s) | 80 % | "
                    f"{mark(kernel['share_of_peak'] >= 0.8)} |")
    for name, pattern, open_ms, session_ms in opened:
        text.append(f"| open {name} {pattern} (a session after it: {session_ms:.1f} ms) | {open_ms:.1f} ms | below 50 ms | {mark(open_ms < 50)} |")
    for (name, pattern, target), (_, cold, warm) in compiled:
        pattern += f", {target}" if target else ""
        text.append(f"| compile {name} {pattern}, empty cache | {cold:.1f} s | below 60 s | {mark(cold < 60)} |")
        text.append(f"| compile {name} {pattern}, filled cache | {warm:.1f} s | below 10 s | {mark(warm < 10)} |")
    return text + [""]


def physical_cores(count):
    """One logical CPU of each core, as many as there are threads: two threads on one core would measure the core."""
    chosen, seen, allowed = [], set(), sorted(os.sched_getaffinity(0))
    for cpu in allowed:
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                siblings = f.read().strip()
        except OSError:
            siblings = str(cpu)
        if siblings not in seen:
            seen.add(siblings)
            chosen.append(cpu)
    return (chosen + [c for c in allowed if c not in chosen])[:count]


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--sparta", default=os.path.join(ROOT, "build/release/sparta"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--sequence", type=int, default=128)
    p.add_argument("--rounds", type=int, help="alternations (30; quick 5)")
    p.add_argument("--turn", type=float, help="seconds of a turn (0.3; quick 0.1)")
    p.add_argument("--quick", action="store_true", help="bert-mini only, few rounds")
    p.add_argument("--only", default="", help="cases whose 'model bN pattern' has this text: bert-base, 'bert-base b8', '4x1 90'")
    p.add_argument("--every-pattern", action="store_true", help="the cases of docs/benchmarks/models.md in place of first-walk.md's")
    p.add_argument("--target", default="", help="our code: avx2, or avx512,avx2 for a row of each (the best that the machine has)")
    p.add_argument("--int8", action="store_true", help="onnxruntime's int8 of the dense model as one more peer (needs the package onnx)")
    p.add_argument("--torch", action=argparse.BooleanOptionalAction, help="torch as one more peer (when it is installed)")
    p.add_argument("-o", "--output", help="file to write (docs/benchmarks/first-walk.md or models.md; a part of the table: build/bench-peers/part.md)")
    args = p.parse_args()
    args.asked = " ".join(shlex.quote(w) for w in sys.argv[1:] if w != "--sparta" and w != args.sparta)
    args.target = args.target.split(",")
    args.sparta = os.path.abspath(args.sparta)
    args.library = os.path.join(os.path.dirname(args.sparta), "libsparta_rt.so")
    args.rounds = args.rounds or (5 if args.quick else 30)
    args.turn = args.turn or (0.1 if args.quick else 0.3)
    if args.torch is None:
        import importlib.util

        args.torch = importlib.util.find_spec("torch") is not None
    return args


def chosen_cases(args):
    table = EVERY_PATTERN if args.every_pattern else CASES
    cases = [c for c in table if args.only in f"{c[0]} b{c[1]} {c[2]}" and (not args.quick or c[0] == "bert-mini")]
    if not cases:
        raise SystemExit(f"bench_peers: no case has {args.only!r}; they are " + ", ".join(f"{c[0]} b{c[1]} {c[2]}" for c in table))
    return cases


def write(args, text, rows, whole):
    output = args.output or os.path.join(ROOT, f"docs/benchmarks/{'models' if args.every_pattern else 'first-walk'}.md" if whole else "build/bench-peers/part.md")
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with open(output, "w") as f:
        f.write(text)
    with open(os.path.splitext(output)[0] + ".json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    print(text)
    note(f"written to {os.path.relpath(output)}; the times of every round are beside it")


def main():
    args = parse()
    os.sched_setaffinity(0, physical_cores(args.threads))
    load, cases = os.getloadavg()[0], chosen_cases(args)
    if load > 0.5:
        note(f"bench_peers: the load is {load:.1f}: something else runs here, the figures will be wrong")
    models = Models(args)
    groups = list(dict.fromkeys((c[0], c[1]) for c in cases))
    packages = {(c[0], c[2], t): models.package(c[0], c[2], t) for t in args.target for c in cases}
    kernel = kernel_line(args) if not args.only else None
    opened = [(name, pattern, *open_time(args, name, path)) for (name, pattern, target), (path, _, _) in packages.items()
              if pattern != "4x1 80 %" and target == args.target[0]]
    rows = []
    for name, batch in groups:
        rows += measure(args, models, name, batch, [c for c in cases if c[:2] == (name, batch)])
    isa = json.loads(call(args, "doctor", "--json")[1])["isa"]
    text = header(args, isa, load) + speed_table(args, rows) + figures_table(kernel, opened, packages.items()) + memory_table(rows)
    for r in rows:
        if r["ratio"][0] < r["at_least"]:
            text += [f"## Where the time goes: {r['model']} b{r['batch']}, {r['pattern']}{', ' + r['target'] if r['target'] else ''}", ""]
            text += profile(args, r["model"], packages[r["model"], r["pattern"], r["target"]][0], r["batch"]) + [""]
    write(args, "\n".join(text), rows, whole=len(cases) == len(EVERY_PATTERN if args.every_pattern else CASES) and args.rounds >= (12 if args.every_pattern else 30) and not args.quick)


if __name__ == "__main__":
    worker(json.loads(sys.argv[2])) if sys.argv[1:2] == ["--worker"] else main()
