"""Times single products of every pattern against the peak, the best dense product and what else multiplies sparse (make bench-kernels).

    make bench-kernels                                      everything, under ten minutes; leave the machine alone
    make bench-kernels KERNELS_ARGS=--quick                 one shape, few rounds, under two minutes: does it work?
    make bench-kernels KERNELS_ARGS="--only '4x1 90'"       some of it
    make bench-kernels KERNELS_ARGS=--write                 also puts it into docs/benchmarks/kernels.md and .json (make bench-plots draws them)

Ours is `sparta kernel bench --json`, a process each time. The peers wait in processes of their own: torch and SciPy in a worker of this
file, oneDNN and libxsmm in tools/peers_kernels.c, built here when their headers are installed (Debian: libdnnl-dev, libxsmm-dev). A round
gives every subject one turn of many short windows; the figure of a subject is its fastest window of all rounds, because on a
shared machine everything else measures the neighbours. Medians are in the .json.
"""

import argparse
import json
import os
import platform
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from bench_peers import commit_name, note
from kernels_page import page

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, "build/bench-kernels")
PAGE = os.path.join(ROOT, "docs/benchmarks/kernels.md")
TOKENS = 384
TWICE_ROUNDS = 3  # of our own with two threads
WINDOW = 30e-6  # seconds; as in kernel_bench.c and peers_kernels.c


@dataclass(frozen=True)
class Case:
    name: str
    pattern: str
    sparsity: float
    intel: float = 0  # share of the peak (one token: of the bandwidth) that is wanted on 1024 x 1024: Ice Lake
    amd: float = 0  # and Zen 4


PRODUCTS = [
    Case("dense", "dense", 0, 0.80, 0.90),
    Case("4x1 90 %", "4x1", 0.9, 0.82, 0.88), Case("16x4 90 %", "16x4", 0.9, 0.82, 0.88), Case("32x32 90 %", "32x32", 0.9, 0.82, 0.88),
    Case("2x1 90 %", "2x1", 0.9, 0.55, 0.80),
    Case("1x1 90 %", "1x1", 0.9, 0.42, 0.70), Case("1x1 70 %", "1x1", 0.7, 0.50, 0.85), Case("1x1 50 %", "1x1", 0.5, 0.60, 0.90),
    Case("2:4", "2:4", 0.5, 0.60, 0.90),
    Case("hybrid", "hybrid", 0.475, 0.75, 0.80),  # half of the 32x32 blocks full, 5 % of the elements outside them
]
SHAPES = [(1024, 1024, 0), (768, 3072, 0.06)]  # outputs, inputs, what the wanted share may be lower
ONE_TOKEN = [Case("1x1 50 %", "1x1", 0.5, 0.8, 0.8), Case("1x1 80 %", "1x1", 0.8, 0.8, 0.8), Case("16x1 80 %", "16x1", 0.8, 0.8, 0.8)]
ONE_TOKEN_SHAPE = (16384, 8192)
AVX2 = [Case("dense", "dense", 0, 0.75, 0.75), Case("4x1 90 %", "4x1", 0.9, 0.75, 0.75)]
SWEEP = {"4x1": 0.10, "16x4": None, "2x1": 0.35, "1x1": 0.40}  # pattern: at or below which sparsity it should break even
SWEEP_GROUPS = ["2:4", "1:4"]  # their sparsity is given; single points
SPARSITIES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98]
DENSE_PEERS = ["torch", "oneDNN", "libxsmm"]
SPARSE_PEERS = ["torch CSR", "torch BSR", "SciPy CSR", "libxsmm spmdm"]
PROGRAM = {"oneDNN": "onednn", "libxsmm": "libxsmm", "libxsmm spmdm": "spmdm"}  # in peers_kernels.c


# ---------------------------------------------------------------- weights
def mask_of(np, random, n, k, case):
    """True where a weight stays: blocks by chance, exactly n of each m."""
    if case.pattern == "dense":
        return np.ones((n, k), bool)
    if ":" in case.pattern:
        keep, of = map(int, case.pattern.split(":"))
        return (random.random((n, k // of, of), np.float32).argsort(axis=2) < keep).reshape(n, k)
    if case.pattern == "hybrid":
        return blocks(np, random, n, k, 32, 32, 0.5) | (random.random((n, k), np.float32) < 0.05)
    return blocks(np, random, n, k, *map(int, case.pattern.split("x")), case.sparsity)


def blocks(np, random, n, k, rows, columns, sparsity):
    stays = random.random((n // rows, k // columns), np.float32) >= sparsity
    return stays.repeat(rows, axis=0).repeat(columns, axis=1)


def weights(n, k, case):
    import numpy as np

    random = np.random.default_rng(1)
    return random.random((n, k), np.float32) * mask_of(np, random, n, k, case)


def hybrid_file(n, k, case):
    """The mask of a pattern that has no name, as a file for --pattern."""
    import numpy as np

    path = os.path.join(WORK, f"{case.pattern}-{n}x{k}.npz")
    np.savez_compressed(path, w=mask_of(np, np.random.default_rng(1), n, k, case))
    return path


# ---------------------------------------------------------------- the worker: torch and SciPy
def csr(w):
    import scipy.sparse

    return scipy.sparse.csr_matrix(w)  # 32-bit indices: the faster for torch too


def open_torch(w, x, case):
    import torch

    dense, rows = torch.from_numpy(w), x.reshape(w.shape[1], -1).t().contiguous()
    return lambda: torch.nn.functional.linear(rows, dense)


def open_torch_csr(w, x, case):
    import torch

    s = csr(w)
    sparse = torch.sparse_csr_tensor(*map(torch.from_numpy, (s.indptr, s.indices, s.data)), size=w.shape)
    return lambda: sparse @ x


def open_torch_bsr(w, x, case):
    """It multiplies square blocks only: the largest that a block consists of."""
    import torch

    sides = [int(s) for s in case.pattern.split("x")] if "x" in case.pattern else [1]
    side = min(sides)
    if side == 1 or max(sides) % side:
        raise ValueError("multiplies square blocks only (MKL); 16x4 runs as 4x4")
    sparse = torch.from_numpy(w).to_sparse_bsr((side, side))
    return lambda: sparse @ x


def open_scipy_csr(w, x, case):
    sparse, dense = csr(w), x.numpy()
    return lambda: sparse @ dense


OPEN = {"torch": open_torch, "torch CSR": open_torch_csr, "torch BSR": open_torch_bsr, "SciPy CSR": open_scipy_csr}


def windows(run, seconds):
    begin = time.perf_counter()
    run()
    repeats, times = int(WINDOW / (time.perf_counter() - begin)) + 1, []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(repeats):
            run()
        times.append((time.perf_counter() - begin) / repeats)
    return {"best_us": min(times) * 1e6, "median_us": statistics.median(times) * 1e6, "windows": len(times)}


def worker():
    """Answers lines of JSON: {"open": id, ...}, {"turn": id, "seconds": s}, {"close": true}; each with one line."""
    import warnings

    import torch

    sys.stdout, real = sys.stderr, sys.stdout  # a library that prints must not answer for us
    warnings.simplefilter("ignore")  # torch calls its sparse tensors a beta
    torch.set_num_threads(1)
    subjects, last = {}, (None, None)
    for line in sys.stdin:
        asked, answer = json.loads(line), {}
        if "open" in asked:
            n, k, tokens, case = asked["n"], asked["k"], asked["tokens"], Case(*asked["case"])
            if last[0] != (n, k, case):
                last = ((n, k, case), weights(n, k, case))
            try:
                with torch.inference_mode():
                    x = torch.rand(k, tokens) if tokens > 1 else torch.rand(k)  # one token: matrix times vector is the faster call
                    run = OPEN[asked["peer"]](last[1], x, case)
                    run()
                subjects[asked["open"]] = run
            except (RuntimeError, ValueError) as e:
                answer["why"] = str(e).splitlines()[0]
        elif "turn" in asked:
            with torch.inference_mode():
                answer = windows(subjects[asked["turn"]], asked["seconds"])
        else:
            subjects, last = {}, (None, None)
        print(json.dumps(answer), file=real, flush=True)


class Worker:
    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench_kernels: the worker of torch and SciPy ended, status {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---------------------------------------------------------------- subjects: each takes turns and keeps its best
class Subject:
    def __init__(self, name, most_turns=1000):
        self.name, self.best_us, self.medians, self.why, self.most_turns = name, float("inf"), [], None, most_turns

    def turn(self, seconds):
        if not self.why and len(self.medians) < self.most_turns:
            self.take(self.once(seconds))

    def take(self, found):
        if found:
            self.best_us = min(self.best_us, found["best_us"])
            self.medians.append(found["median_us"])

    def figures(self):
        if not self.medians:
            return {"why": self.why}
        return {"best_us": self.best_us, "median_us": statistics.median(self.medians), "rounds": len(self.medians)}

    def close(self):
        pass


class Hosted(Subject):
    """In the worker."""

    def __init__(self, name, worker, shape, tokens, case):
        super().__init__(name)
        self.worker, self.id = worker, f"{name}, {case.name}, {shape}, {tokens}"
        answer = worker.ask(open=self.id, peer=name, n=shape[0], k=shape[1], tokens=tokens, case=[case.name, case.pattern, case.sparsity])
        self.why = answer.get("why")

    def once(self, seconds):
        return self.worker.ask(turn=self.id, seconds=seconds)


class Built(Subject):
    """A process of peers_kernels.c."""

    def __init__(self, name, program, shape, tokens, case):
        super().__init__(name)
        words = [program, PROGRAM[name], *map(str, (*shape, tokens))]
        if case.pattern != "dense":
            path = os.path.join(WORK, "weights.f32")
            weights(*shape, case).tofile(path)
            words.append(path)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline()
        if line:
            self.version = json.loads(line)["version"]
        else:
            self.why = self.process.communicate()[1].strip() or "it ended"

    def once(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench_kernels: {self.name} ended, status {self.process.wait()}")
        return json.loads(line)

    def close(self):
        if not self.why:
            self.process.communicate()


class Ours(Subject):
    def __init__(self, sparta, shape, tokens, case, threads=1, target=None):
        super().__init__("sparta", TWICE_ROUNDS if threads > 1 else 1000)
        pattern = hybrid_file(*shape, case) if case.pattern == "hybrid" else case.pattern
        self.words = [sparta, *shlex.split(f"kernel bench --op matmul --m {tokens} --n {shape[0]} --k {shape[1]} --threads {threads} --json --quiet")]
        self.words += ["--pattern", pattern, "--sparsity", f"{case.sparsity:g}"] + (["--target", target] if target else [])
        self.fastest, self.peak_gops, self.dense_us = {}, 0.0, float("inf")

    def once(self, seconds):
        found, self.why = call(self.words + ["--time", f"{seconds:g}"])
        if found:
            self.peak_gops = max(self.peak_gops, found["peak_gops"])
            self.dense_us = min(self.dense_us, found["dense"].get("best_us") or float("inf"))
            if found["best_us"] < self.best_us:
                self.fastest = found
        return found

    def figures(self):
        f = self.fastest
        if not f:
            return super().figures()
        more = {w: f[w] for w in ("implement", "parameters", "nnz", "threads", "isa", "stored_bytes") if w in f}
        return {**super().figures(), **more, "gops_real": f["gops_real"], "sparse": f["implement"] != f["dense"]["name"]}


class Bandwidth(Subject):
    """Bytes read from memory in a second, by one thread; the largest of all turns."""

    def __init__(self, sparta):
        super().__init__("bandwidth")
        self.words, self.gb_s = [sparta, "doctor", "--threads", "1", "--json"], 0.0

    def once(self, seconds):
        found, self.why = call(self.words)
        self.gb_s = max(self.gb_s, found["bandwidth_gb_s"] if found else 0.0)


def call(words):
    """(its JSON, None) or (None, why not)"""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    return json.loads(done.stdout), None


# ---------------------------------------------------------------- the referee
class Referee:
    def __init__(self, args):
        self.args, self.versions, self.absent = args, {}, {}
        self.worker = Worker() if args.peers else None
        self.program = build_peers(self.absent) if args.peers else None
        self.bandwidth = Bandwidth(args.sparta)
        self.peak = {}  # (threads, target): the largest of all calls

    def peer(self, name, shape, tokens, case):
        if not self.args.peers or name in self.absent:
            return None
        s = Built(name, self.program, shape, tokens, case) if name in PROGRAM else Hosted(name, self.worker, shape, tokens, case)
        if isinstance(s, Built) and not s.why:
            self.versions[name] = s.version
        return s

    def rounds(self, label, subjects, count, seconds):
        for i in range(count):
            note(f"{label}: round {i + 1} of {count}")
            for s in subjects:
                s.turn(seconds)

    def remember_peak(self, gops, threads=1, target=None):
        self.peak[threads, target] = max(self.peak.get((threads, target), 0.0), gops)

    def products(self, group, shape, cases, tokens=TOKENS, rounds=None):
        """Every case of a shape with its peers, and the dense peers, round by round; then the sweep, while they are there."""
        args = self.args
        dense = [p for p in (self.peer(name, shape, tokens, PRODUCTS[0]) for name in DENSE_PEERS) if p]
        rows, every = [], []
        for case in cases:
            ours, twice = Ours(args.sparta, shape, tokens, case), None
            if args.two_threads and tokens > 1:
                twice = Ours(args.sparta, shape, tokens, case, threads=2)
            peers = [self.peer(name, shape, tokens, case) for name in sparse_peers(case, tokens)]
            peers = [p for p in peers if p]
            rows.append((case, ours, twice, peers))
            every += [ours, *([twice] if twice else []), *peers]
        if tokens == 1:
            every.append(self.bandwidth)
        self.rounds(group, every + dense, rounds or args.rounds, args.turn)
        for _, ours, twice, _ in rows:
            self.remember_peak(ours.peak_gops)
            if twice:
                self.remember_peak(twice.peak_gops, 2)
        sweep = self.sweep(shape, dense) if shape == SHAPES[0][:2] and args.sweep else None
        ours_dense = min([ours.dense_us for _, ours, _, _ in rows] + ([sweep.pop("ours_dense_us")] if sweep else []))
        if ours_dense == float("inf"):
            raise SystemExit(f"bench_kernels: {group}: sparta timed nothing: {next(ours.why for _, ours, _, _ in rows)}")
        found = {"group": group, "n": shape[0], "k": shape[1], "tokens": tokens,
                 "dense": {"sparta": {"best_us": ours_dense}, **{d.name: d.figures() for d in dense}},
                 "rows": [{"name": case.name, "pattern": case.pattern, "sparsity": case.sparsity, "wanted": self.wanted(case, shape),
                           "sparta": ours.figures(),
                           **({"two_threads": twice.figures()} if twice else {}), **{p.name: p.figures() for p in peers}}
                          for case, ours, twice, peers in rows]}
        found["dense_best"], found["dense_best_us"] = best_dense(found["dense"])
        if sweep:
            finish_sweep(sweep, found["dense_best_us"])
            found["sweep"] = sweep
        for s in every + dense:
            s.close()
        if self.worker:
            self.worker.ask(close=True)
        return found

    def sweep(self, shape, dense):
        """Times over sparsities: one call for each pattern and round, all sparsities in it."""
        args = self.args
        points = {p: {} for p in [*SWEEP, *SWEEP_GROUPS] if args.only in f"sweep {p}"}
        found = {"n": shape[0], "k": shape[1], "tokens": TOKENS, "ours_dense_us": float("inf"), "why": {}}
        peers = [(s, self.peer("torch CSR", shape, TOKENS, Case(f"1x1 {s:g}", "1x1", s))) for s in args.sparsities if s >= 0.5 and "1x1" in points]
        peers = [(s, p) for s, p in peers if p]
        for i in range(args.sweep_rounds):
            note(f"sweep: round {i + 1} of {args.sweep_rounds}")
            for pattern, best in points.items():
                self.sweep_pattern(shape, pattern, best, found)
            for s in [p for _, p in peers] + dense:
                s.turn(args.turn)
        found["patterns"] = {p: [best[s] for s in sorted(best)] for p, best in points.items() if best}
        found["peers"] = {"torch CSR, 1x1": [{"sparsity": s, "best_us": p.best_us} for s, p in peers if p.medians]} if peers else {}
        return found

    def sweep_pattern(self, shape, pattern, best, found):
        words = [self.args.sparta, *shlex.split(f"kernel bench --op matmul --m {TOKENS} --n {shape[0]} --k {shape[1]} --threads 1 --json --quiet")]
        sparsities = ",".join(f"{s:g}" for s in self.args.sparsities)
        words += ["--pattern", pattern, "--time", f"{self.args.turn:g}"] + ([] if ":" in pattern else ["--sparsity", sparsities])
        answer, why = call(words)
        if why:
            found["why"][pattern] = why
            return
        for r in answer.get("runs", [answer]):
            s = round(r["sparsity"], 4)
            self.remember_peak(r["peak_gops"])
            found["ours_dense_us"] = min(found["ours_dense_us"], r["dense"].get("best_us") or float("inf"))
            if s not in best or r["best_us"] < best[s]["best_us"]:
                best[s] = {"sparsity": s, "best_us": r["best_us"], "implement": r["implement"], "sparse": r["implement"] != r["dense"]["name"]}

    def wide(self, cases):
        """Our own on AVX2, against the peak of AVX2."""
        rows = [(case, Ours(self.args.sparta, SHAPES[0][:2], TOKENS, case, target="avx2")) for case in cases]
        self.rounds("avx2", [ours for _, ours in rows], self.args.rounds, self.args.turn)
        for _, ours in rows:
            self.remember_peak(ours.peak_gops, 1, "avx2")
        return {"group": "avx2", "n": SHAPES[0][0], "k": SHAPES[0][1], "tokens": TOKENS,
                "rows": [{"name": case.name, "wanted": self.wanted(case, SHAPES[0][:2]), "sparta": ours.figures()} for case, ours in rows]}

    def wanted(self, case, shape):
        lower = next((s[2] for s in SHAPES if s[:2] == shape), 0)
        return (case.amd if self.args.doctor["cpu"]["vendor"] == "AuthenticAMD" else case.intel) - lower

    def close(self):
        if self.worker:
            self.worker.close()


def sparse_peers(case, tokens):
    if case.pattern == "dense":
        return []
    return [p for p in SPARSE_PEERS if tokens > 1 or p != "libxsmm spmdm"]


def best_dense(dense):
    return min(((name, f["best_us"]) for name, f in dense.items() if "best_us" in f), key=lambda x: x[1])


def finish_sweep(sweep, dense_us):
    sweep["dense_best_us"] = dense_us
    for points in [*sweep["patterns"].values(), *sweep["peers"].values()]:
        for p in points:
            p["speedup"] = dense_us / p["best_us"]
    sweep["break_even"] = {p: {"sparsity": break_even(points), "wanted": SWEEP[p]} for p, points in sweep["patterns"].items() if p in SWEEP}


def break_even(points):
    """The sparsity from which on it is faster than dense, between two points in proportion; None: it never is."""
    slower = [i for i, p in enumerate(points) if p["speedup"] < 1 or not p["sparse"]]
    if not slower:
        return points[0]["sparsity"]
    if slower[-1] == len(points) - 1:
        return None
    a, b = points[slower[-1]], points[slower[-1] + 1]
    if not a["sparse"]:
        return b["sparsity"]
    return a["sparsity"] + (b["sparsity"] - a["sparsity"]) * (1 - a["speedup"]) / (b["speedup"] - a["speedup"])


def build_peers(absent):
    """Compiles peers_kernels.c with what is installed; fills in why the rest is absent."""
    compiler, program = os.environ.get("CC", "gcc"), os.path.join(WORK, "peers_kernels")
    words, libraries = [compiler, "-O2", "-std=gnu11", os.path.join(ROOT, "tools/peers_kernels.c"), "-o", program], []
    for header, define, library, package, names in (("dnnl.h", "ONEDNN", ["-ldnnl"], "libdnnl-dev", ["oneDNN"]),
                                                    ("libxsmm.h", "LIBXSMM", ["-lxsmm", "-lxsmmnoblas"], "libxsmm-dev", ["libxsmm", "libxsmm spmdm"])):
        if subprocess.run([compiler, "-E", "-x", "c", "-include", header, os.devnull], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            absent.update({name: f"{header} is not installed (Debian: {package})" for name in names})
        else:
            words.append("-D" + define)
            libraries += library
    done = subprocess.run(words + libraries + ["-lpthread", "-lrt", "-ldl", "-lm"], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        absent.update({name: "peers_kernels.c was not built: " + (done.stderr.strip().splitlines() or ["?"])[-1] for name in PROGRAM})
    return program


def header(args, referee):
    import importlib.metadata as metadata

    cpu = args.doctor["cpu"]
    versions = [f"sparta {args.doctor['version']}", f"Python {platform.python_version()}"]
    if args.peers:
        versions += [f"{p} {metadata.version(p)}" for p in ("torch", "scipy", "numpy")] + sorted(set(referee.versions.values()))
    return {"machine": f"{cpu['brand']} (family {cpu['family']} model {cpu['model']}), {cpu['cores']} cores, {args.doctor['isa']}, "
                       f"L1 {cpu['l1d'] >> 10} KiB, L2 {cpu['l2'] >> 10} KiB, L3 {cpu['l3'] >> 20} MiB, {platform.system()} {platform.release()}",
            "versions": ", ".join(versions), "date": time.strftime("%Y-%m-%d"), "commit": commit_name(), "load": args.load,
            "arguments": args.asked, "rounds": args.rounds, "turn": args.turn,
            "peaks": {f"{threads} thread{'s' if threads > 1 else ''}{', ' + target if target else ''}": gops
                      for (threads, target), gops in referee.peak.items()},
            "bandwidth_gb_s": max(referee.bandwidth.gb_s, args.doctor["bandwidth_gb_s"]), "absent": referee.absent}


# ---------------------------------------------------------------- the command
def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--sparta", default=os.path.join(ROOT, "build/release/sparta"))
    p.add_argument("--rounds", type=int, help="turns of every subject (5; quick 2)")
    p.add_argument("--turn", type=float, help="seconds of a turn (0.12; quick 0.05)")
    p.add_argument("--quick", action="store_true", help="1024 x 1024 and few rounds; no second thread, no product for one token")
    p.add_argument("--only", default="", help="parts whose 'group case' has this text: 4x1, '768 x 3072 1x1', 'one token', avx2, sweep")
    p.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True, help="torch, SciPy, oneDNN and libxsmm")
    p.add_argument("--write", action="store_true", help="write docs/benchmarks/kernels.md and .json (else build/bench-kernels)")
    args = p.parse_args()
    args.asked = " ".join(shlex.quote(w) for w in sys.argv[1:] if w not in ("--sparta", args.sparta, "--write"))
    args.sparta = os.path.abspath(args.sparta)
    args.rounds, args.turn = args.rounds or (2 if args.quick else 5), args.turn or (0.05 if args.quick else 0.12)
    args.sweep_rounds, args.two_threads = (1 if args.quick else 3), not args.quick and (os.cpu_count() or 1) > 1
    args.sparsities = [0.1, 0.3, 0.5, 0.7, 0.9, 0.95] if args.quick else SPARSITIES
    args.sweep = any(args.only in f"sweep {p}" for p in SWEEP)
    return args


def chosen(args, group, cases):
    return [c for c in cases if args.only in f"{group} {c.name}"]


def measure(args, referee):
    groups = []
    for n, k, _ in SHAPES[: 1 if args.quick else None]:
        cases = chosen(args, f"{n} x {k}", PRODUCTS)
        if cases or (args.sweep and (n, k) == SHAPES[0][:2]):
            groups.append(referee.products(f"{n} x {k}", (n, k), cases))
    if not args.quick and chosen(args, "one token", ONE_TOKEN):
        groups.append(referee.products("one token", ONE_TOKEN_SHAPE, chosen(args, "one token", ONE_TOKEN), tokens=1, rounds=min(3, args.rounds)))
    if chosen(args, "avx2", AVX2) and any(t["name"] == "avx2" and t["fits"] for t in args.doctor["targets"]):
        groups.append(referee.wide(chosen(args, "avx2", AVX2)))
    if not groups:
        raise SystemExit(f"bench_kernels: nothing has {args.only!r} in it; parts are called '1024 x 1024 4x1 90 %', 'one token 1x1 50 %', "
                         "'avx2 dense', 'sweep 1x1'")
    return groups


def write(args, found):
    base = os.path.splitext(PAGE)[0] if args.write else os.path.join(WORK, "kernels")
    text = page(found)
    with open(base + ".json", "w") as f:
        json.dump(found, f, indent=1)
        f.write("\n")
    with open(base + ".md", "w") as f:
        f.write(text)
    print(text)
    note(f"written to {os.path.relpath(base)}.md and .json")


def main():
    args = parse()
    args.load = os.getloadavg()[0]
    if args.load > 0.5:
        note(f"bench_kernels: the load is {args.load:.1f}: something else runs here, the figures will be wrong")
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    args.doctor, why = call([args.sparta, "doctor", "--threads", "1", "--json"])
    if why:
        raise SystemExit(f"bench_kernels: sparta doctor: {why}")
    referee = Referee(args)
    for name, why in referee.absent.items():
        note(f"bench_kernels: without {name}: {why}")
    begin = time.monotonic()
    groups = measure(args, referee)
    referee.close()
    note(f"measured for {time.monotonic() - begin:.0f} s")
    write(args, {"header": header(args, referee), "groups": groups})


if __name__ == "__main__":
    worker() if sys.argv[1:2] == ["--worker"] else main()
