#!/usr/bin/env python3
"""Times generated kernels on a power-law graph and on plain arrays against SciPy, torch and NumPy, all on one thread.

    make bench-graphs                                                                   writes docs/benchmarks/graphs.md, about six minutes
    .venv-torch/bin/python tools/bench_graphs.py --sparta build/release/sparta --quick  a small graph, printed: does it work?

Ours is `sparta kernel bench --expr`, a process of its own; the peers run in this one. Rounds take turns, and the best single run of all rounds counts:
the machine may have others on it. One product is compared with SciPy's before anything is timed.
"""

import argparse
import ctypes
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import scipy
import scipy.sparse
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPMM, SPMV = "C(i,k) = A(i,j)*B(j,k)", "y(i) = A(i,j)*x(j)"
SDDMM, MTTKRP = "C(i,j) = S(i,j)*A(i,k)*B(j,k)", "C(i,l) = A(i,j,k)*B(j,l)*D(k,l)"


def graph(nodes, edges, seed):
    """Ends of edges are drawn with probability ~ rank^-0.8, ranks shuffled; edges drawn twice count once."""
    rng = np.random.default_rng(seed)
    weight = np.arange(1, nodes + 1) ** -0.8
    weight /= weight.sum()
    taken = np.empty(0, np.int64)
    names = rng.permutation(nodes), rng.permutation(nodes)
    while taken.size < edges:
        drawn = [rng.choice(nodes, edges, p=weight) for _ in range(2)]
        taken = np.unique(np.concatenate([taken, names[0][drawn[0]] * nodes + names[1][drawn[1]]]))
    taken = np.sort(rng.choice(taken, edges, replace=False))
    values = rng.standard_normal(edges, dtype=np.float32)
    return scipy.sparse.coo_matrix((values, (taken // nodes, taken % nodes)), (nodes, nodes)).tocsr()


def drawn(rng, shape):
    """Begins at a line of the cache, as tensors of torch and of ours do; NumPy's own arrays begin 16 bytes behind one, and rows then lie in one line more."""
    room = np.empty(int(np.prod(shape)) + 16, np.float32)
    skip = -room.ctypes.data % 64 // 4
    x = room[skip : skip + int(np.prod(shape))].reshape(shape)
    rng.standard_normal(out=x, dtype=np.float32)
    return x


def random_matrix(n, density, seed):
    return scipy.sparse.random(n, n, density, "csr", np.float32, np.random.default_rng(seed))


READING = """
/* What there is to reach: the rows of B that a product reads, in its order, and nothing else. WIDTH columns at a time, two rows in flight. */
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
#define READ(WIDTH) \\
static float read##WIDTH(const int *crd, long n, const float *b, long columns) { \\
    vec sum[2 * WIDTH / 16] = {0}; \\
    for (long k = 0; k < columns; k += WIDTH) \\
        for (long p = 0; p + 2 <= n; p += 2) \\
            for (int r = 0; r < 2; r++) \\
                for (int v = 0; v < WIDTH / 16; v++) sum[r * WIDTH / 16 + v] += *(const vec *)(b + crd[p + r] * columns + k + 16 * v); \\
    for (int v = 1; v < 2 * WIDTH / 16; v++) sum[0] += sum[v]; \\
    return sum[0][0]; \\
}
READ(32)
READ(64)
READ(128)
float reading(const int *crd, long n, const float *b, long columns, long width) {
    return width == 32 ? read32(crd, n, b, columns) : width == 64 ? read64(crd, n, b, columns) : read128(crd, n, b, columns);
}
"""


def l2_bytes():
    said = subprocess.run(["getconf", "LEVEL2_CACHE_SIZE"], capture_output=True, text=True).stdout.strip()
    return int(said) if said.isdigit() and int(said) else 1 << 20


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.facts = {}  # of each section what `wanted` asks for
        source, library = os.path.join(folder, "reading.c"), os.path.join(folder, "reading.so")
        with open(source, "w") as f:
            f.write(READING)
        subprocess.run([os.environ.get("CC", "cc"), "-O3", "-march=native", "-shared", "-fPIC", "-o", library, source], check=True)
        self.library = ctypes.CDLL(library)
        self.library.reading.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
        self.library.reading.restype = ctypes.c_float

    def reading(self, a, x):
        """Calls that read the rows of x that a product with a reads, by the widths that divide them."""
        crd = np.ascontiguousarray(a.indices, np.int32)
        return [lambda w=w: self.library.reading(crd.ctypes.data, crd.size, x.ctypes.data, x.shape[1], w) for w in (32, 64, 128) if x.shape[1] % w == 0]

    def file(self, name, a):
        path = os.path.join(self.folder, name + (".npy" if isinstance(a, np.ndarray) else ".npz"))
        if not os.path.exists(path):
            np.save(path, a) if isinstance(a, np.ndarray) else scipy.sparse.save_npz(path, a, compressed=False)
        return path

    def sparta(self, verb, expr, words):
        """`words` are flags as they are given; returns what is said as JSON."""
        command = [self.args.sparta, "kernel", verb, "--expr", expr, "--threads", "1", "--json", *words]
        if verb == "bench":
            command += ["--time", str(self.args.time)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        return json.loads(done.stdout)

    def peer(self, call):
        call()
        best, end = float("inf"), time.perf_counter() + self.args.time
        while time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            best = min(best, time.perf_counter() - begin)
        return best * 1e6

    def row(self, expr, words, *calls):
        """Best times in us: ours, then each peer's."""
        best = [float("inf")] * (1 + len(calls))
        for _ in range(self.args.rounds):
            best[0] = min(best[0], self.sparta("bench", expr, words)["best_us"])
            for i, call in enumerate(calls):
                best[1 + i] = min(best[1 + i], self.peer(call))
        return best

    def check(self, a, b):
        where = os.path.join(self.folder, "out")
        self.sparta("run", SPMM, ["--format", "A=csr", "--input", "A=" + self.file("graph", a), "--input", "B=" + self.file("check", b), "--output-dir", where])
        want = a @ b
        if np.abs(np.load(os.path.join(where, "C.npy")) - want).max() > 1e-4 * np.abs(want).max():
            sys.exit("bench_graphs: our product is not SciPy's")


def as_torch(a):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(torch.from_numpy(a.indptr), torch.from_numpy(a.indices), torch.from_numpy(a.data), a.shape)


def ratio(peer, ours):
    return f"{peer / ours:.2f}x"


def products(b, a, features):
    """SpMM of the graph, as csr and as hyb; and a loop that only reads the rows of B that it reads, as they lie."""
    yield "| features | B, MB | csr, us | Gop/s | rows of B, GB/s | of reading alone | SciPy | torch CSR | hyb(1,5) | hyb / csr |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    t = as_torch(a)
    for k in features:
        x = drawn(np.random.default_rng(k), (a.shape[1], k))
        dense = torch.from_numpy(x)
        given = ["--input", "A=" + b.file("graph", a), "--dim", f"k={k}"]
        us, theirs, torches, *reads = b.row(SPMM, ["--format", "A=csr", *given], lambda x=x: a @ x, lambda dense=dense: t @ dense, *b.reading(a, x))
        hyb = b.row(SPMM, ["--format", "A=hyb(1,5)", "--limit", "20", *given])[0]
        rate, share = 4e-3 * k * a.nnz / us, min(reads) / us
        b.facts.setdefault("products", []).append((k, x.nbytes, theirs / us, torches / us, share, min(theirs, torches) / min(reads)))
        yield f"| {k} | {x.nbytes / 1e6:.1f} | {us:.0f} | {2e-3 * a.nnz * k / us:.1f} | {rate:.0f} | {100 * share:.0f} % | {ratio(theirs, us)} | {ratio(torches, us)} | {hyb:.0f} | {hyb / us:.2f} |"
    yield ""
    yield "Reading alone: a loop in C that adds up the rows of B which the edges name, in their order, as they lie in B, 32, 64 or 128 columns at a time, the best of these. More than 100 %: ours reads strips of B that were copied to lie side by side and stay in L2, each row of which comes from there. Where B fits L2 it is no bound: the loop waits for each row, a product has several on their way."


def samples(b, a, features):
    yield "| features | csr, us | Gop/s | torch sampled_addmm |"
    yield "|---|---|---|---|"
    t = as_torch(a)
    for k in features:
        rng = np.random.default_rng(k)
        x, y = (torch.from_numpy(drawn(rng, (a.shape[0], k))) for _ in range(2))
        words = ["--format", "S=csr", "--format", "C=csr", "--input", "S=" + b.file("graph", a), "--dim", f"k={k}"]
        us, theirs = b.row(SDDMM, words, lambda x=x, y=y: torch.sparse.sampled_addmm(t, x, y.t(), beta=0.0))
        b.facts.setdefault("samples", []).append(theirs / us)
        yield f"| {k} | {us:.0f} | {2e-3 * a.nnz * k / us:.1f} | {ratio(theirs, us)} |"


def formats(b, quick):
    """One matrix in formats without a template, by 128 columns and by a vector."""
    n = 256 if quick else 1024
    scattered = random_matrix(n, 0.1, 1)
    bands = scipy.sparse.diags([np.ones(n, np.float32)] * 25, list(range(-12, 13)), shape=(n, n), format="csr", dtype=np.float32)
    x, v = drawn(np.random.default_rng(2), (n, 128)), drawn(np.random.default_rng(3), (n,))
    dense, vector = torch.from_numpy(x), torch.from_numpy(v)
    yield "| matrix | format | by 128 columns, us | rate of csr's | SciPy, the same format | torch CSR | by a vector, us | SciPy | torch CSR |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, a, texts in (("scattered", scattered, ("csr", "dcsr", "csc", "coo", "ell", "bitmap", "hyb(1,7)", "ranges(128)")), ("25 diagonals", bands, ("csr", "dia"))):
        base = None
        for text in texts:
            peer = a.asformat(text) if text in ("csc", "coo", "dia") else a
            t = as_torch(a)
            given = ["--format", f"A={text}", "--limit", "20", "--input", "A=" + b.file(name.replace(" ", "-"), a)]
            us, theirs, torches = b.row(SPMM, [*given, "--dim", "k=128"], lambda peer=peer: peer @ x, lambda t=t: t @ dense)
            one, ours_v, torch_v = b.row(SPMV, given, lambda peer=peer: peer @ v, lambda t=t: t @ vector)
            base = base or us
            b.facts.setdefault("formats", []).append((text if name == "scattered" else f"{text} of diagonals", base / us, theirs / us, torches / us, ours_v / one, torch_v / one))
            yield f"| {name} | `{text}` | {us:.0f} | {base / us:.2f} | {ratio(theirs, us)} | {ratio(torches, us)} | {one:.1f} | {ratio(ours_v, one)} | {ratio(torch_v, one)} |"


def tensors(b, quick):
    """csf: three dimensions, for which neither SciPy nor torch has a sparse product; einsum is dense."""
    n, k = (64 if quick else 192), 64
    rng = np.random.default_rng(4)
    a = (rng.standard_normal((n, n, n), dtype=np.float32) * (rng.random((n, n, n), dtype=np.float32) < 0.02)).astype(np.float32)
    x = rng.standard_normal((n, k), dtype=np.float32)
    ta, tx = torch.from_numpy(a), torch.from_numpy(x)
    us, theirs = b.row(MTTKRP, ["--format", "A=csf", "--input", "A=" + b.file("tensor", a), "--dim", f"l={k}"], lambda: torch.einsum("ijk,jl,kl->il", ta, tx, tx))
    entries = int(np.count_nonzero(a))
    yield f"`{MTTKRP}`, A {n} x {n} x {n} in `csf` with {entries} elements, {k} columns: {us:.0f} us, {3e-3 * entries * k / us:.1f} Gop/s at three each; torch's dense einsum {ratio(theirs, us)} of that time."


def streams(b, quick):
    """Element by element and sums, as a share of what torch's copy moves in the same caches."""
    yield "| where | expression | us | GB/s | of torch's copy | torch, the same |"
    yield "|---|---|---|---|---|---|"
    for where, n in (("L2", 1 << 16), ("memory", 1 << (20 if quick else 26))):
        x, y, z = (torch.rand(n) for _ in range(3))
        copy = 8e-3 * n / min(b.peer(lambda x=x, y=y: y.copy_(x)) for _ in range(b.args.rounds))
        rows = int(n**0.5)
        mx, my = x[: rows * rows].view(rows, rows), torch.empty(rows)
        for expr, sizes, count, call in (
            ("y(i) = x(i)", [f"i={n}"], 2 * n, lambda: y.copy_(x)),
            ("y(i) = relu(x(i))", [f"i={n}"], 2 * n, lambda: torch.clamp_min(x, 0, out=y)),
            ("y(i) = x(i)*z(i)", [f"i={n}"], 3 * n, lambda: torch.mul(x, z, out=y)),
            ("y(i) = x(i,j)", [f"i={rows}", f"j={rows}"], rows * rows, lambda: torch.sum(mx, 1, out=my)),
            ("y(j) = x(i,j)", [f"i={rows}", f"j={rows}"], rows * rows, lambda: torch.sum(mx, 0, out=my)),
        ):
            us, theirs = b.row(expr, [w for s in sizes for w in ("--dim", s)], call)
            rate = 4e-3 * count / us
            b.facts.setdefault("streams", []).append((expr, where, rate / copy))
            yield f"| {where}, {4 * n / 2**20:.2f} MB each | `{expr}` | {us:.1f} | {rate:.0f} | {100 * rate / copy:.0f} % | {ratio(theirs, us)} |"


def compiles(b):
    """Cold: the cache of compiled kernels is another folder each time."""
    yield "| expression | format | ms |"
    yield "|---|---|---|"
    spmm = [(SPMM, "A", t) for t in ("csr", "csc", "ell", "dia", "bitmap", "bsr(4,4)", "bsr(8,8)", "hyb(1,5)", "sum{colpart(8) -> csr}")]
    for expr, name, text in [*spmm, (SPMV, "A", "csr"), (SDDMM, "S", "csr"), (MTTKRP, "A", "csf")]:
        words = ["--format", f"{name}={text}", *(w for i in sorted({c for c in expr if c.islower()} - {"y", "x"}) for w in ("--dim", f"{i}=64"))]
        best = float("inf")
        for _ in range(b.args.rounds):
            with tempfile.TemporaryDirectory() as cache:
                os.environ["XDG_CACHE_HOME"] = cache
                best = min(best, b.sparta("bench", expr, words + ["--limit", "100"])["compile_ms"])
        del os.environ["XDG_CACHE_HOME"]
        b.facts.setdefault("compiles", []).append((text, best))
        yield f"| `{expr}` | `{text}` | {best:.0f} |"


def listed(rows):
    """`a` 1.2x, `b` 1.9x; or none."""
    return ", ".join(rows) or "none"


def wanted(b):
    """What is wanted, and which rows of the tables above fall short of it."""
    facts, l2 = b.facts, l2_bytes()
    inside = [f for f in facts["products"] if f[1] <= l2]
    beyond = [f for f in facts["products"] if f[1] > l2]
    for k, _, theirs, torches, share, most in inside:
        yield f"- The graph where its features fit L2 ({k}): 3x asked; {theirs:.1f}x of SciPy, {torches:.1f}x of torch, at {100 * share:.0f} % of reading alone, which by itself is {most:.1f}x of the better peer."
    if beyond:
        short = [f"{k} features {100 * share:.0f} %" for k, _, _, _, share, _ in beyond if share < 0.8]
        yield f"- Beyond L2, 80 % of the bandwidth asked: {100 * min(f[4] for f in beyond):.0f} to {100 * max(f[4] for f in beyond):.0f} % of reading alone; below it: {listed(short)}. Of torch {min(f[3] for f in beyond):.1f} to {max(f[3] for f in beyond):.1f}x."
    yield f"- Samples against torch, no number asked: {min(facts['samples']):.2f} to {max(facts['samples']):.2f}x."
    rows = facts["formats"]
    for column, what in ((2, "by 128 columns, SciPy"), (3, "by 128 columns, torch CSR"), (4, "by a vector, SciPy"), (5, "by a vector, torch CSR")):
        yield f"- Formats without a template {what}: 2x asked; below it: {listed([f'`{r[0]}` {r[column]:.2f}x' for r in rows if r[column] < 2])}."
    yield f"- At least half of csr's rate by 128 columns; below it: {listed([f'`{r[0]}` {r[1]:.2f}' for r in rows if r[1] < 0.5])}."
    yield f"- Element by element and sums: 80 % of a copy's rate asked; below it: {listed([f'`{e}` in {w} {100 * r:.0f} %' for e, w, r in facts['streams'] if r < 0.8])}."
    yield f"- Cold compile: 250 ms asked; above it: {listed([f'`{t}` {ms:.0f} ms' for t, ms in facts['compiles'] if ms > 250])}."


def machine():
    with open("/proc/cpuinfo") as f:
        name = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown")
    said = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    caches = ", ".join(" ".join(line.split()).replace(" cache:", "") for line in said.splitlines() if line.startswith(("L1d", "L2", "L3")))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    yield f"- machine: {name}, one of {os.cpu_count()} cores ({caches}); load when it began: {os.getloadavg()[0]:.1f}"
    if os.getloadavg()[0] > os.cpu_count():
        yield "- others had more work than there are cores: what takes more than a few ms was interrupted, and its rows say more of them than of the kernels"
    yield f"- SciPy {scipy.__version__}, NumPy {np.__version__}, torch {torch.__version__}, one thread each; date: {datetime.date.today()}; commit: {commit or 'unknown'}"


def page(b):
    quick = b.args.quick
    nodes, edges = (2048, 50_000) if quick else (16_384, 1_000_000)
    features = (32, 64) if quick else (32, 64, 128, 256, 512)
    a = graph(nodes, edges, 17)
    b.check(a, np.random.default_rng(5).standard_normal((nodes, 64), dtype=np.float32))
    degree = np.diff(a.indptr)
    yield "# Graphs, formats, streams: generated kernels against SciPy and torch"
    yield ""
    yield "Made by `make bench-graphs` (tools/bench_graphs.py). f32, one thread; the best single run of all rounds, ours and the peers' in turns. `2.00x`: the peer takes twice our time."
    yield ""
    yield from machine()
    yield f"- the graph: {nodes} nodes, {edges} edges, both ends by a power law; rows of {degree.min()} to {degree.max()} edges, median {int(np.median(degree))}"
    parts = (
        (f"Graph by features: `{SPMM}`", products(b, a, features)),
        (f"Samples: `{SDDMM}`", samples(b, a, features)),
        ("One matrix in many formats, 1024 x 1024, 10 % or 25 diagonals", formats(b, quick)),
        ("Three dimensions", tensors(b, quick)),
        ("Dense: element by element, and sums", streams(b, quick)),
        ("Cold compile, sizes of 64", compiles(b)),
        ("What was wanted", wanted(b)),
    )
    for title, lines in parts:
        yield ""
        yield f"## {title}"
        yield ""
        yield from lines


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--sparta", default=os.path.join(ROOT, "build/release/sparta"))
    p.add_argument("--time", type=float, default=0.3, help="seconds of each subject in a round")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--quick", action="store_true", help="a small graph")
    p.add_argument("--out", help="file to write")
    args = p.parse_args()
    torch.set_num_threads(1)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for line in page(Bench(args, folder)):
            print(line, flush=True)
            lines.append(line)
    if args.out:
        with open(args.out + ".new", "w") as f:
            f.write("\n".join(lines) + "\n")
        os.replace(args.out + ".new", args.out)


if __name__ == "__main__":
    main()
