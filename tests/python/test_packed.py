"""Packed files and matrices that must be refused: exit 1, one line that names the file, nothing written, quickly and in little memory.

Files are written by the program and then changed in one thing with NumPy. Words on the command line choose checks by name.
"""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np

from common import SPARTA, Tests, busy_of, children_busy, must, need, sparta, tree
from test_formats import DATA, FOREVER, frugal, load, random_dense


# ---------------------------------------------------------------- matrices
HEAD = "%%MatrixMarket matrix coordinate real general\n"
WRONG = {  # name: (text, what the message says)
    "another object": ("%%MatrixMarket tensor coordinate real general\n1 1 0\n", ["line 1", "tensor"]),
    "another format": ("%%MatrixMarket matrix sparse real general\n1 1 0\n", ["line 1", "sparse"]),
    "another field": ("%%MatrixMarket matrix coordinate text general\n1 1 0\n", ["line 1", "text"]),
    "another symmetry": ("%%MatrixMarket matrix coordinate real round\n1 1 0\n", ["line 1", "round"]),
    "hermitian numbers that are real": ("%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n", ["line 1", "hermitian"]),
    "a value is missing": (HEAD + "% a comment\n3 3 1\n1 1\n", ["line 4", "value"]),
    "a size is missing": (HEAD + "3\n", ["line 2", "columns"]),
    "an entry is missing": (HEAD + "3 3 2\n1 1 1\n", ["line"]),
    "an entry too many": (HEAD + "3 3 1\n1 1 1\n2 2 2\n", ["line 4"]),
    "a row out of range": (HEAD + "3 3 1\n4 1 1\n", ["line 3", "row 4"]),
    "a row 0": (HEAD + "3 3 1\n0 1 1\n", ["line 3", "row 0"]),
    "a value that is none": (HEAD + "3 3 1\n1 1 one\n", ["line 3", "one"]),
    "more entries than there can be": (HEAD + "3 3 99999999999999999999\n", ["line 2"]),
}
MANGLED = {"mangled1": "object", "mangled2": "mangled", "mangled3": "mangled", "mangled4": "mangled", "mangled5": "hermitian", "mangled6": "hermitian",
           "mangled7": "gunk", "mangled8": "line 4"}


def mangled(t, folder):
    for name, (text, reasons) in WRONG.items():
        path = f"{folder}/{name.replace(' ', '-')}.mtx"
        with open(path, "w") as f:
            f.write(text)
        t.check(f"mtx: {name}", mangled_one, folder, path, reasons)
    for name, reason in MANGLED.items():
        path = os.path.join(DATA, "mangled", name + ".mtx")
        if os.path.exists(path):
            t.check(f"shared {name}.mtx", mangled_one, folder, path, [reason])


def mangled_one(folder, path, reasons):
    for words in (["inspect", path], ["format", "pack", path, "--format", "csr", "-o", folder + "/mangled.npz"]):
        r = sparta(*words)
        need(r.code == 1 and re.search(r"line \d+", r.err) and all(word in r.err for word in reasons), f"{r}")
    need(not os.path.exists(folder + "/mangled.npz"), "something was written")
    return r.err.strip()


# ---------------------------------------------------------------- packed tensors
def hostile(t, folder):
    a = random_dense(np.random.default_rng(9), (12, 20), 0.3, np.float32)
    np.save(folder + "/h.npy", a)

    def bad(name, text, change):
        t.check(f"packed file: {name}", damaged, folder, text, change)

    def put(name, value):
        return lambda z: z.update({name: value})

    def drop(name):
        return lambda z: z.pop(name)

    def alter(name, function):
        return lambda z: z.update({name: function(z[name].copy())})

    def set_(at, value):
        def apply(x):
            x[at] = value
            return x
        return apply

    text = lambda s: np.frombuffer(s.encode(), np.uint8)
    bad("no mark", "csr", drop("sparta"))
    bad("another version", "csr", put("sparta", np.array([99], np.uint8)))
    bad("no format", "csr", drop("format"))
    bad("a format that is none", "csr", put("format", text("(i,j)->(i:dens)")))
    bad("a format of 3 dimensions", "csr", put("format", text("csf")))
    bad("another format", "csr", put("format", text("(i,j)->(i:compressed, j:compressed)")))
    bad("a format with a zero byte", "csr", put("format", text("csr\0x")))
    bad("no shape", "csr", drop("shape"))
    bad("a negative shape", "csr", put("shape", np.array([-12, 20])))
    bad("a shape of 3 dimensions", "csr", put("shape", np.array([12, 20, 1])))
    bad("a shape that is too large", "csr", put("shape", np.array([2**62, 2**62])))
    bad("more rows than positions", "csr", put("shape", np.array([13, 20])))
    bad("fewer columns than coordinates", "csr", put("shape", np.array([12, 3])))
    bad("values of two dimensions", "csr", alter("p0_values", lambda x: x.reshape(1, -1)))
    bad("too few values", "csr", alter("p0_values", lambda x: x[:-1]))
    bad("too many coordinates", "csr", alter("p0_l1_crd", lambda x: np.append(x, x[-1:])))
    bad("no positions", "csr", drop("p0_l1_pos"))
    bad("positions of another type", "csr", alter("p0_l1_pos", lambda x: x.astype(np.int64)))
    bad("positions that go back", "csr", alter("p0_l1_pos", set_(1, 30)))
    bad("negative positions", "csr", alter("p0_l1_pos", set_(0, -1)))
    bad("positions past the end", "csr", alter("p0_l1_pos", set_(-1, 10**6)))
    bad("a coordinate out of range", "csr", alter("p0_l1_crd", set_(0, 20)))
    bad("a negative coordinate", "csr", alter("p0_l1_crd", set_(0, -1)))
    bad("coordinates out of order", "csr", alter("p0_l1_crd", lambda x: x[::-1].copy()))
    bad("an offset that is no diagonal", "dia", alter("p0_l0_crd", set_(0, -500)))
    bad("bits past the last column", "bitmap", alter("p0_l1_bits", set_(2, 255)))
    bad("a part is missing", "sum{rownnz<=5 -> csr; rest -> coo}", drop("p1_values"))
    bad("a part is damaged", "sum{rownnz<=5 -> csr; rest -> coo}", alter("p1_l1_crd", set_(0, 99)))
    bad("padding that is not 0", "ell", padding)
    t.check("packed file: every truncation", truncations, folder)
    t.check("packed file: flipped bytes give an answer or an error", flips, folder)


def padding(z):
    values = z["p0_values"].reshape(12, -1).copy()
    rows, slots = np.nonzero(values == 0)
    values[rows[-1], slots[-1]] = 1
    z.update({"p0_values": values.reshape(-1)})


def damaged(folder, text, change):
    path, bad = folder + "/good.npz", folder + "/bad.npz"
    must("format", "pack", folder + "/h.npy", "--format", text, "-o", path, "-q", "--limit", FOREVER)
    z = load(path)
    change(z)
    np.savez(bad, **z)
    before = tree(folder)
    for command in (["unpack", bad, "-o", folder + "/x.npy"], ["unpack", bad, "-o", folder + "/x.mtx"], ["convert", bad, "--to", "coo", "-o", folder + "/x.npz"]):
        r = frugal("format", *command)
        need(r.code == 1 and "bad.npz" in r.err, f"{command[0]}: {r}")
        need(r.err.count("\n") == 1, f"{r}")
    need(tree(folder) == before, "something was written")
    return r.err.strip()[8:140]


def truncations(folder):
    path, cut = folder + "/good.npz", folder + "/cut.npz"
    must("format", "pack", folder + "/h.npy", "--format", "hyb(1,2)", "-o", path, "-q")
    data = open(path, "rb").read()
    places = sorted(set(list(range(0, 40, 3)) + [len(data) * i // 25 for i in range(25)] + [len(data) - k for k in (1, 2, 3, 22, 23, 60)]))
    for n in places:
        with open(cut, "wb") as f:
            f.write(data[:n])
        r = sparta("format", "unpack", cut, "-o", folder + "/x.npy")
        need(r.code == 1, f"{n} of {len(data)} bytes: {r}")
    need(not os.path.exists(folder + "/x.npy"), "something was written")


def flips(folder):
    path, bad = folder + "/good.npz", folder + "/flip.npz"
    must("format", "pack", folder + "/h.npy", "--format", "csr", "-o", path, "-q")
    data = bytearray(open(path, "rb").read())
    rng = np.random.default_rng(10)
    codes = {}
    for at in rng.integers(0, len(data), 60):
        b = bytearray(data)
        b[at] ^= 1 << int(rng.integers(0, 8))
        with open(bad, "wb") as f:
            f.write(b)
        r = frugal("format", "convert", bad, "--to", "coo", "-o", folder + "/x.npz")
        need(r.code in (0, 1, 4, 5), f"byte {at}: {r}")
        codes[r.code] = codes.get(r.code, 0) + 1
    os.path.exists(folder + "/x.npz") and os.unlink(folder + "/x.npz")
    return str(codes)


# ---------------------------------------------------------------- signals
def interrupts(t, folder):
    t.check("Ctrl-C while packing", interrupted, folder)


def interrupted(folder):
    """A format without a short cut, of an array large enough that there is a middle."""
    np.save(folder + "/big.npy", np.random.default_rng(0).standard_normal((3000, 3000), dtype=np.float32))
    before = tree(folder)
    text = "(i,j)->(j/8:dense, i:compressed, j%8/2:packed[auto](pad=zero), j%2:dense)"
    words = ["format", "pack", folder + "/big.npy", "--format", text, "-o", folder + "/big.npz", "--progress", "plain"]
    whole = must(*words).busy
    os.unlink(folder + "/big.npz")
    for _ in range(10):  # beside other work it may be done before we come to send the signal
        process = subprocess.Popen([SPARTA, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while b"counting" not in process.stderr.readline():
            need(process.poll() is None, "it ended before it counted")
        process.send_signal(signal.SIGINT)
        begin, busy = time.monotonic(), busy_of(process.pid) + children_busy()
        _, err = process.communicate()
        took, busy = time.monotonic() - begin, children_busy() - busy  # busy: of the processor, which other work takes nothing of
        if process.returncode:
            break
        os.unlink(folder + "/big.npz")
    need(process.returncode == 130, f"exit {process.returncode}: {err.decode()}")
    need(tree(folder) == before, "files were left")
    need(busy < whole / 2, f"stopped only after {busy:.1f} s of the processor; all of it takes {whole:.1f}")
    os.unlink(folder + "/big.npy")
    return f"after {took * 1e3:.0f} ms"


def main():
    t = Tests()
    for group in (hostile, interrupts, mangled):
        group(t, t.work)
    if not os.path.isdir(os.path.join(DATA, "mangled")):
        print(f"skipped: no mangled matrices in {DATA}")
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
