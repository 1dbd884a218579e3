"""Times sparta against onnxruntime and torch and writes the table under docs/benchmarks/ (make bench-peers).

Every subject is a process of its own on the same cores: ours calls libsparta_rt.so through ctypes, the peers run the dense model.
They take turns; whoever is not at turn is stopped (SIGSTOP), so that spinning threads of one do not slow another. A turn is
one run that is not counted and then runs for --turn seconds; its figure is their median. A ratio is taken within each round and
summed up as the median of all rounds with a 95 % bootstrap interval. onnxruntime runs twice, with spinning threads and without:
the faster of the two is the peer.
"""

import argparse
import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

CASES = [("bert-base", 1), ("bert-base", 8), ("bert-mini", 1)]
PRUNE = [("dense", None), ("4x1 80 %", "4x1:0.8"), ("4x1 90 %", "4x1:0.9")]
BERT = {"bert-mini": (4, 256, 4), "bert-base": (12, 768, 12), "bert-large": (24, 1024, 16)}  # layers, hidden, heads
VOCABULARY = 30522


def inputs_for(names, batch, sequence):
    """Full-length sequences; the same ids for every subject."""
    ids = np.random.default_rng(7).integers(0, 1000, (batch, sequence), dtype=np.int64)
    return {n: np.ones_like(ids) if "mask" in n else np.zeros_like(ids) if "type" in n else ids for n in names}


# ---------------------------------------------------------------- subjects: start(args) returns (function to time, its output)
class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dim", ctypes.c_int64 * 8), ("stride", ctypes.c_int64 * 8),
                ("data", ctypes.c_void_p)]


class Named(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", Tensor)]


class SessionOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int), ("profile", ctypes.c_int)]


I64 = 10  # of sparta_dtype in sparta.h


def start_sparta(a):
    lib = ctypes.CDLL(a.library)
    for f in ("sparta_ctx_create", "sparta_message", "sparta_package_input_name", "sparta_package_output_name"):
        getattr(lib, f).restype = ctypes.c_void_p if f == "sparta_ctx_create" else ctypes.c_char_p
    cx, package, session = ctypes.c_void_p(lib.sparta_ctx_create(None)), ctypes.c_void_p(), ctypes.c_void_p()

    def must(status):
        if status:
            raise RuntimeError(lib.sparta_message(cx).decode())

    begin = time.perf_counter()
    must(lib.sparta_package_open(cx, a.model.encode(), ctypes.byref(package)))
    options = SessionOptions(ctypes.sizeof(SessionOptions), a.threads, 0)
    must(lib.sparta_session_create(cx, package, ctypes.byref(options), ctypes.byref(session)))
    opened = time.perf_counter() - begin
    names = [lib.sparta_package_input_name(package, i).decode() for i in range(lib.sparta_package_inputs(package))]
    arrays = inputs_for(names, a.batch, a.sequence)
    given, wanted = (Named * len(names))(), (Named * 1)()
    for slot, name in zip(given, names):
        slot.name = name.encode()
        slot.tensor.dtype, slot.tensor.rank, slot.tensor.data = I64, 2, arrays[name].ctypes.data
        slot.tensor.dim[0:2] = [a.batch, a.sequence]
        slot.tensor.stride[0:2] = [a.sequence, 1]
    wanted[0].name = lib.sparta_package_output_name(package, 0)

    def run():
        must(lib.sparta_session_run(cx, session, given, len(names), wanted, 1))

    def output():
        t = wanted[0].tensor
        shape = list(t.dim[: t.rank])
        return np.ctypeslib.as_array(ctypes.cast(t.data, ctypes.POINTER(ctypes.c_float)), shape).copy()

    run.keep = arrays
    return run, output, opened


def start_onnxruntime(a):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = a.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if a.spin else "0")
    begin = time.perf_counter()
    session = ort.InferenceSession(a.model, options, providers=["CPUExecutionProvider"])
    opened = time.perf_counter() - begin
    feed = inputs_for([i.name for i in session.get_inputs()], a.batch, a.sequence)
    first = session.get_outputs()[0].name
    answer = {}

    def run():
        answer[0] = session.run([first], feed)[0]

    return run, lambda: answer[0], opened


def start_torch(a):
    """The same encoder, dense, written as PyTorch people do; weights are random, only time is looked at."""
    import torch
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    layers, hidden, heads = BERT[a.name]

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
            return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))

    torch.set_num_threads(a.threads)
    begin = time.perf_counter()
    words, places = nn.Embedding(VOCABULARY, hidden), nn.Embedding(512, hidden)
    encoder = nn.Sequential(*[Layer() for _ in range(layers)]).eval()
    opened = time.perf_counter() - begin
    ids = torch.from_numpy(inputs_for(["input_ids"], a.batch, a.sequence)["input_ids"])
    answer = {}

    def run():
        with torch.inference_mode():
            answer[0] = encoder(words(ids) + places(torch.arange(a.sequence)))

    return run, lambda: answer[0].numpy(), opened


def worker(a):
    """Answers lines on stdin: `turn SECONDS` with the times of its runs, `answer` by saving the output."""
    run, output, opened = {"sparta": start_sparta, "onnxruntime": start_onnxruntime, "torch": start_torch}[a.kind](a)
    run()
    print(json.dumps({"open_ms": opened * 1e3}), flush=True)
    for line in sys.stdin:
        word, argument = line.split(maxsplit=1)
        if word == "turn":
            run()
            times, end = [], time.perf_counter() + float(argument)
            while not times or time.perf_counter() < end:
                begin = time.perf_counter()
                run()
                times.append(time.perf_counter() - begin)
            print(json.dumps(times), flush=True)
        elif word == "answer":
            np.save(argument.strip(), output())
            peak = next(l for l in open("/proc/self/status") if l.startswith("VmHWM"))
            print(json.dumps({"peak_mib": int(peak.split()[1]) / 1024}), flush=True)


# ---------------------------------------------------------------- the referee
class Subject:
    def __init__(self, label, kind, args, model, **more):
        self.label, self.kind, self.medians = label, kind, []
        command = [sys.executable, __file__, "--worker", kind, "--model", model, "--threads", str(args.threads)]
        for key, value in more.items():
            command += ["--" + key, str(value)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.open_ms = self.read()["open_ms"]
        self.pause()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench_peers: {self.label} ended, status {self.process.wait()}")
        return json.loads(line)

    def ask(self, line):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.read()
        self.pause()
        return answer

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def interval(values, seed=1):
    """Median and its 95 % bootstrap interval."""
    v = np.asarray(values)
    again = np.median(v[np.random.default_rng(seed).integers(0, len(v), (2000, len(v)))], axis=1)
    return [float(np.median(v)), float(np.quantile(again, 0.025)), float(np.quantile(again, 0.975))]


def sparta(args, *words):
    begin = time.perf_counter()
    subprocess.run([args.sparta, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def prepare(args, work, name):
    """The models of a case: pruned ONNX files and their packages; how long compiling took with an empty and a filled cache."""
    made = {}
    for label, prune in PRUNE:
        onnx, package = f"{work}/{name}-{prune}.onnx", f"{work}/{name}-{prune}.sparta"
        if not os.path.exists(onnx):
            sparta(args, "zoo", name, *(["--prune", prune] if prune else []), "-o", onnx)
            cold = sparta(args, "compile", onnx, "-o", package, "--quiet")
            warm = sparta(args, "compile", onnx, "-o", package, "--quiet")
            json.dump([cold, warm], open(package + ".json", "w"))
        made[label] = (onnx, package, *json.load(open(package + ".json")))
    return made


def difference(args, work, subject, onnx, size):
    """Largest difference between our answer and onnxruntime's on the same (pruned) model, as a share of the largest value."""
    peer = Subject("check", "onnxruntime", args, onnx, **size)
    ours = subject.ask(f"answer {work}/a.npy")
    peer.ask("turn 0")
    peer.ask(f"answer {work}/b.npy")
    peer.close()
    a, b = np.load(f"{work}/a.npy"), np.load(f"{work}/b.npy")
    if a.shape != b.shape:
        raise SystemExit(f"bench_peers: {subject.label}: our answer is {a.shape}, onnxruntime's is {b.shape}")
    return float(np.max(np.abs(a - b)) / np.max(np.abs(b))), ours["peak_mib"]


def measure(args, work, name, batch):
    made = prepare(args, work, name)
    size = {"batch": batch, "sequence": args.sequence}
    library = os.path.join(os.path.dirname(os.path.abspath(args.sparta)), "libsparta_rt.so")
    ours = [Subject(label, "sparta", args, made[label][1], library=library, **size) for label, _ in PRUNE]
    peers = [Subject(f"onnxruntime, {word}", "onnxruntime", args, made["dense"][0], spin=spin, **size)
             for spin, word in ((1, "spinning"), (0, "not spinning"))]
    if args.torch:
        peers.append(Subject("torch", "torch", args, "", name=name, **size))
    for i in range(args.rounds):
        for s in ours + peers:
            s.medians.append(float(np.median(s.ask(f"turn {args.turn}"))) * 1e3)
        print(f"\r{name} batch {batch}: round {i + 1} of {args.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    best = min(peers[:2], key=lambda s: np.median(s.medians))
    rows = []
    for s in ours:
        onnx, package, cold, warm = made[s.label]
        error, memory = difference(args, work, s, onnx, size)
        row = {"model": name, "batch": batch, "pattern": s.label, "ms": interval(s.medians), "onnxruntime": best.label,
               "onnxruntime_ms": interval(best.medians), "ratio": interval(np.array(best.medians) / s.medians),
               "difference": error, "open_ms": s.open_ms, "peak_mib": memory, "compile_cold_s": cold, "compile_warm_s": warm,
               "rounds": s.medians}
        if args.torch:
            row["torch_ratio"] = interval(np.array(peers[2].medians) / s.medians)
        rows.append(row)
    peak = best.ask(f"answer {work}/b.npy")["peak_mib"]
    for row in rows:
        row["onnxruntime_peak_mib"] = peak
    for s in ours + peers:
        s.close()
    return rows


# ---------------------------------------------------------------- the table
def cpu_name():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def report(args, rows, versions):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    text = [f"# Against onnxruntime{' and torch' if args.torch else ''}: {cpu_name()}", "",
            f"`make bench-peers`, commit {commit or 'unknown'}, {time.strftime('%Y-%m-%d')}, " + ", ".join(versions) +
            f", fp32, {args.threads} threads, sequence {args.sequence}, {args.rounds} rounds.",
            "The peers run the dense model; ours is compiled from the pruned one. A ratio above 1 means that ours is faster; 95 % intervals.", "",
            "| model | batch | pattern | ms | onnxruntime ms | ratio |" + (" ratio to torch |" if args.torch else ""),
            "|---|---|---|---|---|---|" + ("---|" if args.torch else "")]
    spread = lambda v, f: f"{v[0]:{f}} ({v[1]:{f}} to {v[2]:{f}})"
    for r in rows:
        line = (f"| {r['model']} | {r['batch']} | {r['pattern']} | {spread(r['ms'], '.3g')} | {spread(r['onnxruntime_ms'], '.3g')} "
                f"| **{r['ratio'][0]:.2f}** ({r['ratio'][1]:.2f} to {r['ratio'][2]:.2f}) |")
        text.append(line + (f" {r['torch_ratio'][0]:.2f} |" if args.torch else ""))
    text += ["", "| model | batch | pattern | difference to onnxruntime | open ms | compile s, cold / warm | peak MiB, ours / onnxruntime |",
             "|---|---|---|---|---|---|---|"]
    for r in rows:
        text.append(f"| {r['model']} | {r['batch']} | {r['pattern']} | {r['difference']:.1e} | {r['open_ms']:.1f} | {r['compile_cold_s']:.1f} / "
                    f"{r['compile_warm_s']:.1f} | {r['peak_mib']:.0f} / {r['onnxruntime_peak_mib']:.0f} |")
    text += ["", "Difference: largest absolute difference to onnxruntime on the same pruned model, over the largest value. Peak memory is of the whole",
             "process, the Python interpreter included. onnxruntime: the faster of spinning and not spinning ("
             + "; ".join(f"{m} batch {b}: {o}" for m, b, o in sorted({(r['model'], r['batch'], r['onnxruntime'].split(', ')[1]) for r in rows})) + ")."]
    return "\n".join(text) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--sparta", default="build/release/sparta")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--sequence", type=int, default=128)
    p.add_argument("--rounds", type=int, default=30)
    p.add_argument("--turn", type=float, default=0.3, help="seconds of a turn (0.3)")
    p.add_argument("--models", default="", help="only these, comma-separated")
    p.add_argument("--no-torch", dest="torch", action="store_false")
    p.add_argument("-o", "--output", help="file to write (docs/benchmarks/peers-<cpu>.md)")
    p.add_argument("--worker", dest="kind", help=argparse.SUPPRESS)
    for name, kind in (("model", str), ("batch", int), ("spin", int), ("library", str), ("name", str)):
        p.add_argument("--" + name, type=kind, help=argparse.SUPPRESS)
    args = p.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    if args.kind:
        return worker(args)
    import importlib.metadata as metadata

    versions = [f"{n} {metadata.version(n)}" for n in ["onnxruntime"] + (["torch"] if args.torch else [])]
    rows = []
    with tempfile.TemporaryDirectory() as work:
        os.environ["XDG_CACHE_HOME"] = work + "/cache"
        for name, batch in CASES:
            if not args.models or name in args.models.split(","):
                rows += measure(args, work, name, batch)
    text = report(args, rows, versions)
    output = args.output or "docs/benchmarks/peers-" + "-".join(cpu_name().lower().replace("(r)", "").replace("@", "").split()[:4]) + ".md"
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    open(output, "w").write(text)
    json.dump(rows, open(os.path.splitext(output)[0] + ".json", "w"), indent=1)
    print(text + f"\nwritten to {output}")


if __name__ == "__main__":
    main()
