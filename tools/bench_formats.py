#!/usr/bin/env python3
"""Conversions of sparse formats against SciPy and PyTorch, in one run; writes docs/benchmarks/formats.md.

    make bench-formats                     everything (about four minutes; leave the machine alone)
    make bench-formats FORMATS_ARGS=--quick   shorter windows, printed only

Our side is tests/bench/convert_bench.c at the end of a pipe, the others live here. They take turns: a round gives each
a window of a fraction of a second, for the same conversion of the same matrix; the figure of a side is its best time
over all windows. Output arrays are allocated and freed within the time on every side. One thread, and ours also with two.
"""
import argparse, datetime, gc, os, pathlib, platform, re, subprocess, sys, tempfile, time
import numpy as np, scipy, scipy.sparse as sp, torch

SIDE = 4096
NODES, EDGES = 200_000, 1_000_000


# ---------------------------------------------------------------- matrices: (rows, columns, values) of float32 and their shape
def uniform(rng, sparsity):
    return np.nonzero(rng.random((SIDE, SIDE)) < 1 - sparsity)


def blocks(rng, sparsity, b):
    return np.nonzero(np.kron(rng.random((SIDE // b, SIDE // b)) < 1 - sparsity, np.ones((b, b), bool)))


def graph(rng):
    """Both ends of an edge are drawn with the weight 1/rank^0.8; ranks are dealt to nodes at random."""
    weight = 1 / np.arange(1, NODES + 1) ** 0.8
    weight /= weight.sum()
    node, edges = rng.permutation(NODES).astype(np.int64), np.empty(0, np.int64)
    while len(edges) < EDGES:
        more = node[rng.choice(NODES, EDGES // 2, p=weight)] * NODES + node[rng.choice(NODES, EDGES // 2, p=weight)]
        edges = np.unique(np.concatenate([edges, more]))
    edges = np.sort(rng.choice(edges, EDGES, replace=False))
    return edges // NODES, edges % NODES


class Matrix:
    def __init__(self, name, side, index, rng, shuffle=False):
        self.name, self.side, self.n = name, side, len(index[0])
        order = rng.permutation(self.n) if shuffle else slice(None)
        value = rng.standard_normal(self.n).astype(np.float32)
        value[value == 0] = 1
        self.row, self.col = (x[order].astype(np.int32) for x in index)
        self.value = value
        self.cache = {}

    def write(self, path):
        with open(path, "wb") as f:
            for x in (self.row, self.col, self.value):
                f.write(x.tobytes())

    def scipy(self, kind):
        if kind not in self.cache:
            coo = sp.coo_matrix((self.value, (self.row, self.col)), shape=(self.side, self.side))
            self.cache[kind] = coo if kind == "coo" else coo.toarray() if kind == "dense" else coo.tocsr()
        return self.cache[kind]

    def torch(self, kind):
        key = "torch " + kind
        if key not in self.cache:
            s = self.scipy(kind)
            if kind == "dense":
                t = torch.from_numpy(s)
            elif kind == "csr":
                t = torch.sparse_csr_tensor(torch.from_numpy(s.indptr).long(), torch.from_numpy(s.indices).long(),
                                            torch.from_numpy(s.data), s.shape)
            else:
                t = torch.sparse_coo_tensor(torch.from_numpy(np.stack([s.row, s.col])).long(), torch.from_numpy(s.data),
                                            s.shape)
            self.cache[key] = t
        return self.cache[key]


# ---------------------------------------------------------------- conversions: ours (source, target), SciPy's, torch's
def sorted_bsr(b):
    def run(s):
        out = s.tobsr((b, b))
        out.sort_indices()  # ours and torch's are; SciPy's come in the order of first appearance
        return out
    return run


def nonordered_bsr(b):
    """Ours in that order."""
    return f"(i,j)->(i/{b}:dense, j/{b}:compressed(nonordered), i%{b}:dense, j%{b}:dense)"


def torch_coo_to_csr(t):
    return t.detach().clone().coalesce().to_sparse_csr()


CONVERSIONS = {
    "dense to csr": ("dense", "csr", lambda s: sp.csr_matrix(s), lambda t: t.to_sparse_csr()),
    "csr to dense": ("csr", "dense", lambda s: s.toarray(), lambda t: t.to_dense()),
    "csr to csc": ("csr", "csc", lambda s: s.tocsc(), lambda t: t.to_sparse_csc()),
    "coo to csr": ("coo", "csr", lambda s: s.tocsr(), torch_coo_to_csr),
    "csr to bsr 4x4": ("csr", "bsr(4,4)", sorted_bsr(4), lambda t: t.to_sparse_bsr((4, 4))),
    "csr to bsr 4x4, nonordered": ("csr", nonordered_bsr(4), lambda s: s.tobsr((4, 4)), None),
    "csr to bsr 32x32": ("csr", "bsr(32,32)", sorted_bsr(32), lambda t: t.to_sparse_bsr((32, 32))),
    "csr to bsr 32x32, nonordered": ("csr", nonordered_bsr(32), lambda s: s.tobsr((32, 32)), None),
}


def plan(rng):
    """(matrix, names of conversions, is the coo shuffled)"""
    for percent in (50, 90, 99):
        index = uniform(rng, percent / 100)
        yield Matrix(f"uniform {percent} %", SIDE, index, rng), list(CONVERSIONS), False
        yield Matrix(f"uniform {percent} %, shuffled", SIDE, index, rng, shuffle=True), ["coo to csr"], True
        for b in (4, 32):
            yield Matrix(f"blocks {b}x{b}, {percent} %", SIDE, blocks(rng, percent / 100, b), rng), \
                [f"csr to bsr {b}x{b}", f"csr to bsr {b}x{b}, nonordered"], False
    index = graph(rng)
    yield Matrix("graph", NODES, index, rng), ["csr to csc", "coo to csr", "csr to bsr 4x4", "csr to bsr 4x4, nonordered"], False
    yield Matrix("graph, shuffled", NODES, index, rng, shuffle=True), ["coo to csr"], True


# ---------------------------------------------------------------- our side
class Ours:
    def __init__(self, program):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        if not answer:
            sys.exit("bench_formats: convert_bench ended")
        return answer.strip()

    def load(self, matrix, folder):
        path = os.path.join(folder, "entries.bin")
        matrix.write(path)
        self.ask(f"load {matrix.side} {matrix.side} {matrix.n} {path}")
        os.remove(path)

    def time(self, target, threads, window):
        return float(self.ask(f"time {threads} {window} {target}").split()[0])


def best_of(run, argument, window):
    best, end = float("inf"), time.perf_counter() + window
    while True:
        start = time.perf_counter()
        out = run(argument)
        del out
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best


# ---------------------------------------------------------------- one row of the table
def moved(matrix, source, target, b):
    """Bytes of the source's and the result's arrays: what any conversion must at least read and write."""
    n, side = matrix.n, matrix.side
    size = {"dense": 4 * side * side, "csr": 8 * n + 4 * side, "csc": 8 * n + 4 * side, "coo": 12 * n}
    if b:
        blocks_n = len(np.unique(matrix.row.astype(np.int64) // b * (side // b + 1) + matrix.col // b))
        size[target] = blocks_n * (4 * b * b + 4)
    return size[source] + size[target]


def measure(ours, matrix, name, shuffled, options):
    source, target, scipy_run, torch_run = CONVERSIONS[name]
    ours.ask("source " + ("as loaded" if shuffled else source))
    sides = {"ours 1": lambda: ours.time(target, 1, options.window), "ours 2": lambda: ours.time(target, 2, options.window),
             "scipy": lambda: best_of(scipy_run, matrix.scipy(source), options.window)}
    best = dict.fromkeys(sides, float("inf"))
    for _ in range(options.rounds):
        for side, run in sides.items():
            best[side] = min(best[side], run())
    if torch_run and (matrix.name != "graph" or "bsr" not in name):  # torch goes through every block there is
        best["torch"] = best_of(torch_run, matrix.torch(source), options.window)
        if best["torch"] < 3 * best["scipy"]:
            best["torch"] = min(best["torch"], *(best_of(torch_run, matrix.torch(source), options.window) for _ in range(3)))
    gc.collect()
    block = re.search(r"bsr (\d+)x", name)
    return best, moved(matrix, source, target, int(block[1]) if block else 0)


def ms(seconds):
    return "" if seconds is None else f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


HEAD = ("| conversion | matrix | ours, 1 thread | ours, 2 | SciPy | torch | ratio | of bandwidth |\n"
        "|---|---|---|---|---|---|---|---|")


def row(name, matrix, best, bytes_moved, bandwidth):
    peer = min(best["scipy"], best.get("torch", float("inf")))
    share = bytes_moved / best["ours 1"] / bandwidth
    return (f"| {name} | {matrix.name} | {ms(best['ours 1'])} | {ms(best['ours 2'])} | {ms(best['scipy'])} | "
            f"{ms(best.get('torch'))} | {peer / best['ours 1']:.1f}x | {100 * share:.0f} % |")


# ---------------------------------------------------------------- the page
def text_of(command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def page(rows, bandwidth, load, also):
    dirty = " with changes" if text_of(["git", "status", "--porcelain", "--untracked-files=no"]) else ""
    return f"""# Formats: conversion, detection, covers

Written by `make bench-formats` on {datetime.date.today()}, commit {text_of(['git', 'rev-parse', '--short', 'HEAD'])}{dirty}. {processor()}, {os.cpu_count()} cores; \
load before it began {load:.1f}. SciPy {scipy.__version__}, torch {torch.__version__} (one thread each), NumPy {np.__version__}, Python {platform.python_version()}.

## Conversion

Milliseconds, best of all windows; float32 values, 32-bit indices (torch: 64-bit, it has no others here). The sides take turns in
one run; each allocates and frees its result within the time, and ours also checks the source, which may come from a file. `ratio` is the
faster of SciPy and torch over ours with one thread. `of bandwidth` is what the arrays of source and result amount to, each
counted once, over the time and over the {bandwidth / 1e9:.1f} GB/s (read and written) of a copy of 64 MiB in the same run; a dense source is read twice (count, then
fill), and new pages are cleared by the kernel on every side.

The {SIDE}x{SIDE} matrices are uniform random, or of whole blocks with that share of blocks absent; the graph has {NODES:,} nodes and
{EDGES:,} edges with a power law. `shuffled` is coo in random order. Like is compared with like where the blocks of a bsr row may come in two orders: ours and
torch's ascend, and SciPy's are sorted for those rows (`tobsr` and `sort_indices`); in the rows `nonordered` SciPy's `tobsr` alone leaves
them in the order of their first appearance, and ours go to `j/4:compressed(nonordered)`, the same arrays; torch has no such result. Whoever needs no order from SciPy
compares its time there. bsr 32x32
of the graph would be 4 GB, and torch's bsr of it visits every block there could be: both are left out.

{HEAD}
{chr(10).join(rows)}

## Detection and covers

The issue asks for detection within 20 ms and a cover by {{32x32, 4x4, 1x1}} within 100 ms, one thread.

{also}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--convert-bench", required=True, help="the program of tests/bench/convert_bench.c")
    parser.add_argument("--also", action="append", default=[], help="programs whose tables are put below: those of tests/bench")
    parser.add_argument("--out", help="write the page here (without it: printed only)")
    parser.add_argument("--quick", action="store_true", help="short windows, few rounds, no page")
    parser.add_argument("--only", default="", help="conversions and matrices whose names have this in them")
    options = parser.parse_args()
    options.window, options.rounds = (0.05, 2) if options.quick else (0.12, 5)
    torch.set_num_threads(1)
    load, rng, rows = os.getloadavg()[0], np.random.default_rng(1), []
    ours = Ours(options.convert_bench)
    bandwidth = float(ours.ask("copy 64 0.5"))
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for matrix, names, shuffled in plan(rng):
            names = [n for n in names if options.only in f"{n} {matrix.name}"]
            if names:
                ours.load(matrix, folder)
            for name in names:
                best, bytes_moved = measure(ours, matrix, name, shuffled, options)
                bandwidth = max(bandwidth, float(ours.ask("copy 64 0.05")))
                rows.append((name, matrix, best, bytes_moved))
                print(row(*rows[-1], bandwidth), flush=True)
            matrix.cache.clear()
    rows.sort(key=lambda r: list(CONVERSIONS).index(r[0]))
    also = "\n\n".join(text_of([program]) for program in options.also)
    text = page([row(*r, bandwidth) for r in rows], bandwidth, load, also)
    if options.out and not options.quick and not options.only:
        pathlib.Path(options.out).write_text(text)
        print(f"wrote {options.out}")
    else:
        print("\n" + also)


if __name__ == "__main__":
    import warnings
    warnings.filterwarnings("ignore")
    main()
