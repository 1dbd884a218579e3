"""Formats against SciPy and NumPy: every named format packs every matrix that it can hold and gives it back, or is refused for the right reason.

What SciPy stores too (csr csc coo bsr dia) is compared array for array. Matrices are generated here; those of ../shared/data are used as well where
they are. Words on the command line choose checks by name.
"""

import json
import os
import re
import resource
import sys

import ml_dtypes
import numpy as np
import scipy.io
import scipy.sparse as sp

from common import ROOT, Tests, must, need, sparta, tree

DATA = os.path.join(os.path.dirname(ROOT), "shared", "data")
ARGUMENTS = {"bsr": "(2,3)", "hyb": "(1,3)", "sr-bcrs": "(4,4)", "bell": "(2,2)", "rows": "(4)", "strip": "(4)", "cv": "(4)", "bsc": "(3,2)",
             "dbsr": "(2,2)"}
OPAQUE = {"quads": ["quads(16)", "quads"], "pairs": ["pairs(16)", "pairs"], "groups": ["groups"]}
FOREVER = 1e12  # a limit that nothing passes
REFUSALS = {  # what a refusal must say: exit code, message
    "limit": (5, r"would store [0-9.]+x the nonzeros \(limit 4\.0x.*--limit \d+"),
    "n:m": (2, r"structured\[2,4\] holds 2"),
    "rank": (2, r"3 dimensions but .* has 2"),
}


# ---------------------------------------------------------------- formats
def named_formats():
    """Every row of formats.def and opaque.def with arguments."""
    folder = os.path.join(ROOT, "src/format")
    names = []
    for name, arity in re.findall(r'^SP_FORMAT(?:_WRITTEN)?\("([^"]+)", (\d+)', open(f"{folder}/formats.def").read(), re.M):
        names.append(name + (ARGUMENTS.get(name) or "(" + ",".join(["2"] * int(arity)) + ")" if int(arity) else ""))
    return names


def opaque_formats():
    """Every row of opaque.def, as it is written."""
    rows = re.findall(r"^SP_OPAQUE\((\w+)\)", open(os.path.join(ROOT, "src/format/opaque.def")).read(), re.M)
    return [text for name in rows for text in OPAQUE[name]]


EXTRA = ["(i,j)->(i:dense, j:ragged)", "(i,j)->(i:dense, j:loose)", "(i,j)->(i:compressed(nonunique), j:singleton(aos))",
         "(i,j)->(j/8:dense, i:compressed, j%8/2:packed[auto](pad=zero), j%2:dense)", "(i,j)->(i+j:compressed, i:range)",
         "hyb(2,4)", "sum{rownnz<=2 -> (i,j)->(i:compressed, j:packed[2]); rest -> csr}", "sum{blockdensity>=0.5 -> bsr(4,4); rest -> coo}",
         "sum{first(2) -> csr; rest -> coo}", "sum{colpart(3) -> csr}", "csr, crd=u16, pos=i64"]


# ---------------------------------------------------------------- matrices
class Matrix:
    """A file, and what is in it: a dense array or, of large ones, a SciPy matrix; `pattern` has no values."""

    def __init__(self, name, path, want, pattern=False):
        self.name, self.path, self.pattern = name, path, pattern
        self.sparse = want if sp.issparse(want) else entries(want)
        self.dense = want.toarray() if sp.issparse(want) else want
        self.shape = want.shape
        self.large = want.shape[0] * want.shape[1] > 1 << 20
        self.explicit = sp.issparse(want) and want.nnz != np.count_nonzero(present(self.dense))
        self.nnz = want.nnz if sp.issparse(want) else int(present(want).sum())


def present(dense):
    """Elements that are stored from a dense source: all bits 0 is absent. (-0.0 is absent too unless --strict: sources here have none.)"""
    if dense.size == 0:
        return np.zeros(dense.shape, bool)
    raw = np.ascontiguousarray(dense).view(np.uint8).reshape(*dense.shape, dense.dtype.itemsize)
    return raw.any(axis=-1)


def entries(dense):
    """What SciPy would have, -0.0 too; it has no f16."""
    row, col = np.nonzero(present(dense))
    data = dense[row, col]
    return sp.coo_array((data.astype(np.float32) if dense.dtype == np.float16 else data, (row, col)), shape=dense.shape)


def random_dense(rng, shape, density, dtype):
    mask = rng.random(shape) < density
    if dtype == bool:
        return mask
    values = rng.standard_normal(shape) * 8 if np.issubdtype(dtype, np.floating) else rng.integers(1, 100, shape)
    return np.where(mask, values, 0).astype(dtype)


def generated(folder):
    """Dense arrays by name."""
    rng = np.random.default_rng(1)
    made = {}
    for dtype in (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.int64, bool):
        made[f"random {np.dtype(dtype).name}"] = random_dense(rng, (33, 47), 0.1, dtype)
    made["no rows"], made["no columns"], made["nothing"] = np.zeros((0, 5), np.float32), np.zeros((5, 0), np.float32), np.zeros((5, 7), np.float32)
    made["one element"] = np.zeros((9, 11), np.float32)
    made["one element"][8, 10] = 3
    made["one by one"], made["a row"] = np.full((1, 1), 2.5), random_dense(rng, (1, 50), 0.3, np.float32)
    made["a column"], made["full"] = random_dense(rng, (50, 1), 0.3, np.float32), rng.standard_normal((12, 16)).astype(np.float32)
    band = sum(np.diag(rng.standard_normal(40 - abs(k)), k) for k in (-2, 0, 1))
    made["a band"] = band.astype(np.float32)
    made["2 of 4"] = random_dense(rng, (16, 32), 2, np.float32)
    made["2 of 4"].reshape(16, 8, 4)[:, :, ::2] = 0
    made["blocks"] = blocky(rng, (8, 12), 0.2, 4)
    made["strips"] = np.where(np.repeat(rng.random((16, 96)) < 0.1, 4, axis=0), rng.standard_normal((64, 96)), 0).astype(np.float32)
    arrow = np.diag(np.ones(30, np.float32))
    arrow[4] = 7
    made["an arrow"] = arrow
    strange = random_dense(rng, (13, 17), 0.2, np.float32)
    strange[2, 3], strange[2, 4], strange[5, 0], strange[12, 16], strange[7, 7] = np.nan, -0.0, np.inf, -np.inf, 1e-45
    made["not finite"] = strange
    return [dense_matrix(folder, name, a) for name, a in made.items()]


def blocky(rng, blocks, density, size):
    mask = np.kron(rng.random(blocks) < density, np.ones((size, size), bool))
    return np.where(mask, rng.standard_normal(mask.shape), 0).astype(np.float32)


def dense_matrix(folder, name, a):
    path = os.path.join(folder, name.replace(" ", "-") + ".npy")
    np.save(path, a)
    return Matrix(name, path, np.where(a == 0, np.zeros_like(a), a))  # -0.0 is a zero of a dense source


def shared_matrices():
    folder = os.path.join(DATA, "matrices")
    if not os.path.isdir(folder):
        return []
    found = []
    for file in sorted(os.listdir(folder)):
        path = os.path.join(folder, file)
        want, pattern = scipy.io.mmread(path), b" pattern " in open(path, "rb").readline()
        typed = re.search(r"^%%GraphBLAS type (\w+?)(_t)?$", open(path).read(), re.M)  # a comment to SciPy
        if pattern or typed:
            want = want.astype(bool if pattern else {"float": "float32", "double": "float64"}.get(typed[1], typed[1]))
        found.append(Matrix(f"shared {file}", path, canonical(want) if sp.issparse(want) else want, pattern))
    return found


def canonical(matrix):
    """Entries in row-major order, duplicates summed, explicit zeros kept."""
    csr = sp.csr_array(matrix)
    csr.sum_duplicates()
    return csr


# ---------------------------------------------------------------- what was stored
def load(path):
    with np.load(path) as z:
        return {name: z[name] for name in z.files}


def arrays_of(z):
    return {name: a for name, a in z.items() if name not in ("format", "shape", "sparta")}


def same_bits(a, b, what):
    need(a.shape == b.shape and a.dtype == b.dtype, f"{what}: {a.dtype} {a.shape}, wanted {b.dtype} {b.shape}")
    need(np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes(), f"{what} differ")


def same_ints(a, b, what):
    need(np.array_equal(a, b), f"{what} differ: {a[:20]}, SciPy has {b[:20]}")


def compare_csr(z, m):
    s = canonical(m.sparse)
    same_ints(z["p0_l1_pos"], s.indptr, "pos")
    same_ints(z["p0_l1_crd"], s.indices, "crd")
    return s.data


def compare_csc(z, m):
    s = sp.csc_array(m.sparse)
    s.sum_duplicates()
    same_ints(z["p0_l1_pos"], s.indptr, "pos")
    same_ints(z["p0_l1_crd"], s.indices, "crd")
    return s.data


def compare_coo(z, m):
    s = canonical(m.sparse).tocoo()
    same_ints(z["p0_l0_pos"], np.array([0, s.nnz]), "pos")
    same_ints(z["p0_l0_crd"], s.row, "rows")
    same_ints(z["p0_l1_crd"], s.col, "columns")
    return s.data


def compare_bsr(z, m):
    n, k = m.shape
    csr = canonical(m.sparse)
    wide = sp.csr_array((csr.data, csr.indices, np.concatenate([csr.indptr, np.full(-n % 2, csr.indptr[-1])])), shape=(n + -n % 2, k + -k % 3))
    s = wide.tobsr(blocksize=(2, 3))
    s.sort_indices()
    same_ints(z["p0_l1_pos"], s.indptr, "pos")
    same_ints(z["p0_l1_crd"], s.indices, "crd")
    data = s.data.reshape(-1)  # SciPy adds up: its blocks have no -0.0
    return np.copysign(data, z["p0_values"]) if "p0_values" in z and data.dtype.kind == "f" and np.array_equal(data, z["p0_values"], equal_nan=True) else data


def compare_dia(z, m):
    s = m.sparse.todia()
    order = np.argsort(s.offsets)
    same_ints(z["p0_l0_crd"], s.offsets[order], "offsets")
    values = np.zeros((len(order), m.shape[0]), s.data.dtype)
    for to, d in enumerate(order):  # SciPy's row is by column, ours by row
        i = np.arange(m.shape[0])
        j = i + s.offsets[d]
        inside = (j >= 0) & (j < min(m.shape[1], s.data.shape[1]))
        values[to, inside] = s.data[d, j[inside]]
    return values.reshape(-1)


COMPARE = {"csr": compare_csr, "csc": compare_csc, "coo": compare_coo, "bsr(2,3)": compare_bsr, "dia": compare_dia}


def compare_scipy(path, m, text):
    z = load(path)
    data = COMPARE[text](z, m)
    if "p0_values" in z:
        same_bits(z["p0_values"], data.astype(m.dense.dtype), "values")
    else:
        need(m.pattern, "values are missing")


# ---------------------------------------------------------------- one format, one matrix
def check_numbers(said, path, m):
    """The statistics are those of the arrays in the file."""
    z = load(path)
    arrays = arrays_of(z)
    need(bytes(z["format"]).decode() == said["format"], "the file has another format text")
    need(list(z["shape"]) == list(m.shape) == said["shape"], "another shape")
    need(z["format"].dtype == np.uint8 and z["sparta"].dtype == np.uint8 and z["shape"].dtype == np.int64, "types of the marks")
    need(said["elements"] == m.nnz, f"{said['elements']} elements, wanted {m.nnz}")
    need(said["bytes"] == sum(a.nbytes for a in arrays.values()), f"{said['bytes']} bytes, the arrays have {sum(a.nbytes for a in arrays.values())}")
    if not said["pattern"]:
        slots = sum(a.size for name, a in arrays.items() if name.endswith("_values"))
        need(said["slots"] == slots, f"{said['slots']} slots, the arrays have {slots}")
    need(abs(said["fill"] - said["slots"] / max(m.nnz, 1)) < 1e-6, f"fill {said['fill']}")


def unpacked(packed, m, folder):
    """Equal to what SciPy has, as an array or, of large ones, as entries."""
    if not m.large:
        must("format", "unpack", packed, "-o", folder + "/back.npy", "-q")
        return same_bits(np.load(folder + "/back.npy"), m.dense, "unpacked values")
    must("format", "unpack", packed, "-o", folder + "/back.mtx", "-q")
    header = open(folder + "/back.mtx").readline()
    need(m.pattern or " pattern " not in header, header)
    need(" pattern " in header or any(name.endswith("_values") for name in load(packed)), header)
    back, want = canonical(scipy.io.mmread(folder + "/back.mtx")), canonical(m.sparse)
    same_ints(back.indptr, want.indptr, "rows")
    same_ints(back.indices, want.indices, "columns")
    if not m.pattern:
        same_bits(back.data.astype(want.dtype), want.data, "values")


def why_refused(m, text, fill):
    """What must be said, or None when the format holds the matrix."""
    if text == "csf":
        return "rank"
    groups = np.pad(present(m.dense) if not m.explicit else m.dense != 0, ((0, 0), (0, -m.shape[1] % 4))).reshape(m.shape[0], (m.shape[1] + 3) // 4, 4)
    if text == "nm24" and groups.sum(axis=2).max(initial=0) > 2:
        return "n:m"
    return "limit" if fill is not None and fill > 4 else None


def is_dense(text):
    return text in ("dense", "panel", "vnni") or text.startswith("rows(")


def fill_of(m, text):
    """What `stats` says it would be; None when it cannot be stored at all."""
    r = sparta("format", "stats", m.path, "--format", text, "--json", "--threads", 1)
    return json.loads(r.out)["fill"] if r.code == 0 else None


def one(folder, m, text):
    packed = folder + "/p.npz"
    r = sparta("format", "pack", m.path, "--format", text, "-o", packed, "--json", "--threads", 1)
    if r.code:
        return refused(folder, m, text, r)
    said = json.loads(r.out)
    need(why_refused(m, text, None if is_dense(text) else said["fill"]) is None, f"it should have been refused: fill {said['fill']}")
    check_numbers(said, packed, m)
    unpacked(packed, m, folder)
    if text in COMPARE and not m.explicit:
        compare_scipy(packed, m, text)
    return f"fill {said['fill']:.2f}"


def refused(folder, m, text, r):
    fill = fill_of(m, text)
    why = why_refused(m, text, fill)
    need(why, f"refused without a reason: {r}")
    code, message = REFUSALS[why]
    need(r.code == code and re.search(message, r.err), f"wanted exit {code} and {message!r}: {r}")
    if why == "limit" and not m.large:  # those who mean it
        must("format", "pack", m.path, "--format", text, "-o", folder + "/p.npz", "--limit", FOREVER, "-q", "--threads", 1)
        unpacked(folder + "/p.npz", m, folder)
    return "refused: " + why


def formats_hold(t, folder, matrices):
    formats = named_formats() + opaque_formats() + EXTRA
    for m in matrices:
        for text in formats:
            t.check(f"{m.name}: {text}", one, folder, m, text)


# ---------------------------------------------------------------- conversions
def chains(t, folder, matrices):
    """From csr through every format and a third one back to csr: the same arrays."""
    formats = [f for f in named_formats() + opaque_formats() + EXTRA if f not in ("csf", "nm24")]
    for at, m in enumerate(matrices):
        for i, text in enumerate(formats):
            third = formats[(i * 7 + at * 3 + 1) % len(formats)]
            t.check(f"csr to {text} to {third} to csr: {m.name}", chain, folder, m, [text, third, "csr"])


def chain(folder, m, steps):
    first = at = folder + "/c0.npz"
    must("format", "pack", m.path, "--format", "csr", "-o", first, "-q", "--threads", 1)
    for i, text in enumerate(steps):
        to = f"{folder}/c{i + 1}.npz"
        must("format", "convert", at, "--to", text, "-o", to, "-q", "--limit", FOREVER, "--threads", 2)
        at = to
    a, b = load(first), load(at)
    need(set(a) == set(b), f"other arrays: {sorted(b)}")
    for name in a:
        same_bits(b[name], a[name], name)


# ---------------------------------------------------------------- sources
def sources(t, folder):
    rng = np.random.default_rng(3)
    a = random_dense(rng, (24, 36), 0.15, np.float32)
    for kind in ("csr", "csc", "coo", "dia"):
        t.check(f"save_npz of {kind}", saved, folder, a, getattr(sp, kind + "_array")(a))
        t.check(f"save_npz of {kind}, not compressed", saved, folder, a, getattr(sp, kind + "_matrix")(a), compressed=False)
    t.check("save_npz of bsr", saved, folder, a, sp.bsr_array(a, blocksize=(4, 6)), blocks=True)
    t.check("an npz of one array", from_npz, folder, a)
    t.check("an npz of several arrays", from_several, folder, a)
    t.check("a packed tensor as source", repacked, folder, a)
    t.check("safetensors", from_safetensors, folder, a)
    t.check("smtx", from_smtx, folder, a)
    t.check("bf16", bf16, folder, a)
    t.check("explicit zeros are kept, zeroless drops them", explicit_zeros, folder)
    t.check("duplicates are summed", duplicates, folder)
    t.check("NaN and infinities are values, -0.0 with --strict", strange_values, folder)
    t.check("a pattern has no values", pattern_only, folder)
    t.check("tensors of 1, 3 and 4 dimensions", other_ranks, folder)
    t.check("formats of one's own", own_formats, folder, a)
    t.check("integers beyond 32 bits", wide_integers, folder)


def csr_arrays(folder, source, *more):
    must("format", "pack", source, "--format", "csr", "-o", folder + "/s.npz", "-q", "--limit", FOREVER, *more)
    return load(folder + "/s.npz")


def equals_csr(z, want):
    s = canonical(want)
    same_ints(z["p0_l1_pos"], s.indptr, "pos")
    same_ints(z["p0_l1_crd"], s.indices, "crd")
    same_bits(z["p0_values"], s.data, "values")


def saved(folder, a, matrix, compressed=True, blocks=False):
    sp.save_npz(folder + "/scipy.npz", matrix, compressed=compressed)
    equals_csr(csr_arrays(folder, folder + "/scipy.npz"), matrix.tocsr() if blocks else a)


def from_npz(folder, a):
    np.savez_compressed(folder + "/one.npz", weight=a)
    equals_csr(csr_arrays(folder, folder + "/one.npz"), a)


def from_several(folder, a):
    path = folder + "/two.npz"
    np.savez(path, weight=a, bias=np.ones(3, np.float32))
    r = sparta("format", "pack", path, "--format", "csr", "-o", folder + "/no.npz")
    need(r.code == 2 and "holds 2 arrays" in r.err and "--tensor" in r.err, f"{r}")
    r = sparta("format", "pack", path, "--format", "csr", "--tensor", "weihgt", "-o", folder + "/no.npz")
    need(r.code == 2 and "did you mean 'weight'" in r.err, f"{r}")
    need(not os.path.exists(folder + "/no.npz"), "something was written")
    equals_csr(csr_arrays(folder, path, "--tensor", "weight"), a)


def repacked(folder, a):
    np.save(folder + "/a.npy", a)
    must("format", "pack", folder + "/a.npy", "--format", "bell(4,4)", "--limit", FOREVER, "-o", folder + "/b.npz", "-q")
    equals_csr(csr_arrays(folder, folder + "/b.npz"), a)
    said = json.loads(must("format", "stats", folder + "/b.npz", "--json").out)
    need(said["bytes"] == sum(x.nbytes for x in arrays_of(load(folder + "/b.npz")).values()), f"{said}")


def from_safetensors(folder, a):
    import safetensors.numpy

    path = folder + "/w.safetensors"
    safetensors.numpy.save_file({"weight": a, "h": a.astype(np.float16)}, path)
    equals_csr(csr_arrays(folder, path, "--tensor", "weight"), a)
    need(csr_arrays(folder, path, "--tensor", "h")["p0_values"].dtype == np.float16, "another type")
    safetensors.numpy.save_file({"weight": a}, path)
    equals_csr(csr_arrays(folder, path), a)


def from_smtx(folder, a):
    s = canonical(a)
    lines = [f"{a.shape[0]}, {a.shape[1]}, {s.nnz}", " ".join(map(str, s.indptr)), " ".join(map(str, s.indices))]
    with open(folder + "/w.smtx", "w") as f:
        f.write("\n".join(lines) + "\n")
    z = csr_arrays(folder, folder + "/w.smtx")
    same_ints(z["p0_l1_crd"], s.indices, "crd")
    need("p0_values" not in z, "a pattern got values")


def bf16(folder, a):
    wide = a.astype(ml_dtypes.bfloat16)
    np.save(folder + "/bf16.npy", wide)
    m = Matrix("bf16", folder + "/bf16.npy", a)
    must("format", "pack", m.path, "--format", "strip(4)", "--limit", FOREVER, "-o", folder + "/p.npz", "-q")
    must("format", "unpack", folder + "/p.npz", "-o", folder + "/back.npy", "-q")
    need(np.load(folder + "/back.npy").tobytes() == wide.tobytes(), "values differ")


def explicit_zeros(folder):
    s = sp.coo_array((np.array([1.0, 0.0, 2.0, -0.0]), ([0, 0, 1, 2], [1, 3, 0, 2])), shape=(3, 4))
    for name, path in (("npz", folder + "/z.npz"), ("mtx", folder + "/z.mtx")):
        sp.save_npz(path, s) if name == "npz" else scipy.io.mmwrite(path, s)
        z = csr_arrays(folder, path)
        equals_csr(z, s)
        for text in ("coo", "dcsr", "csc", "(i,j)->(i:dense, j:bitmap)", "ell", "hyb(1,2)"):
            must("format", "pack", path, "--format", text, "-o", folder + "/y.npz", "-q", "--limit", FOREVER)
            equals_csr(csr_arrays(folder, folder + "/y.npz"), s)
        z = load_as(folder, path, "(i,j)->(i:dense, j:compressed(zeroless))")
        need(z["p0_values"].size == 3, f"zeroless kept {z['p0_values']}")  # -0.0 is a value
        must("format", "unpack", folder + "/s.npz", "-o", folder + "/z2.mtx", "-q")


def load_as(folder, source, text):
    must("format", "pack", source, "--format", text, "-o", folder + "/s.npz", "-q", "--limit", FOREVER)
    return load(folder + "/s.npz")


def duplicates(folder):
    s = sp.coo_array((np.array([1, 2, 4, 8], np.float32), ([0, 0, 0, 1], [1, 1, 1, 0])), shape=(2, 2))
    sp.save_npz(folder + "/d.npz", s)
    z = csr_arrays(folder, folder + "/d.npz")
    need(z["p0_values"].tolist() == [7, 8], f"{z['p0_values']}")
    with open(folder + "/d.mtx", "w") as f:
        f.write("%%MatrixMarket matrix coordinate integer general\n2 2 3\n1 1 5\n2 2 1\n1 1 -5\n")
    z = csr_arrays(folder, folder + "/d.mtx")
    need(z["p0_values"].tolist() == [0, 1] and z["p0_l1_crd"].tolist() == [0, 1], f"{z}")


def strange_values(folder):
    a = np.zeros((3, 4), np.float32)
    a[0, 1], a[1, 1], a[1, 2], a[2, 3] = -0.0, np.nan, np.inf, -np.inf
    np.save(folder + "/n.npy", a)
    need(csr_arrays(folder, folder + "/n.npy")["p0_l1_crd"].tolist() == [1, 2, 3], "-0.0 is stored")
    z = csr_arrays(folder, folder + "/n.npy", "--strict")
    need(z["p0_l1_crd"].tolist() == [1, 1, 2, 3], f"{z['p0_l1_crd']}")
    need(z["p0_values"].tobytes() == a[present(a)].tobytes(), f"{z['p0_values']}")


def pattern_only(folder):
    with open(folder + "/p.mtx", "w") as f:
        f.write("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n3 1\n")
    for text in ("csr", "coo", "dcsr", "csc", "bitmap", "hyb(1,2)"):
        z = load_as(folder, folder + "/p.mtx", text)
        need(not any(name.endswith("values") for name in z), f"{text} has values")
    z = load_as(folder, folder + "/p.mtx", "bsr(2,2)")
    need(z["p0_values"].dtype == bool and z["p0_values"].sum() == 2, "blocks of a pattern are bools")
    must("format", "unpack", folder + "/s.npz", "-o", folder + "/p2.npy", "-q")
    need(np.array_equal(np.load(folder + "/p2.npy"), np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0]], bool)), "another pattern")
    for text in ("coo", "bsr(2,2)", "ell", "groups"):  # with bools or without: it stays a pattern
        load_as(folder, folder + "/p.mtx", text)
        must("format", "unpack", folder + "/s.npz", "-o", folder + "/p2.mtx", "-q")
        need(open(folder + "/p2.mtx").read().split("\n")[:2] == ["%%MatrixMarket matrix coordinate pattern general", "3 3 2"], f"{text}: no pattern")


def other_ranks(folder):
    rng = np.random.default_rng(4)
    for shape, texts in (((40,), ["(i)->(i:compressed)", "(i)->(i:bitmap)", "(i)->(i/4:compressed, i%4:dense)"]),
                         ((5, 6, 7), ["csf", "(i,j,k)->(i:dense, j:compressed, k:compressed)", "(i,j,k)->(k:dense, i:compressed, j:packed[auto])"]),
                         ((3, 4, 2, 5), ["(o,i,y,x)->(o:dense, i:compressed, y:dense, x:dense)",
                                         "(o,i,y,x)->(o:compressed, i:compressed, y:compressed, x:compressed)"])):
        a = random_dense(rng, shape, 0.2, np.float32)
        np.save(folder + "/r.npy", a)
        for text in texts:
            must("format", "pack", folder + "/r.npy", "--format", text, "-o", folder + "/r.npz", "-q", "--limit", FOREVER)
            must("format", "unpack", folder + "/r.npz", "-o", folder + "/r2.npy", "-q")
            same_bits(np.load(folder + "/r2.npy"), a, text)
        r = sparta("format", "unpack", folder + "/r.npz", "-o", folder + "/r.mtx")
        need(r.code == 2 and "dimensions" in r.err, f"{r}")
        must("format", "advise", folder + "/r.npy")


def own_formats(folder, a):
    path = folder + "/my.formats"
    np.save(folder + "/a.npy", a)
    with open(path, "w") as f:
        f.write("# mine\nformat fours = (i,j)->(i/4:dense, j:bitmap, i%4:dense), pos=u16   # with a bit a column\n")
    said = must("format", "check", "fours", "--formats", path).out
    need(said.strip() == "(i,j)->(i/4:dense, j:bitmap, i%4:dense), pos=u16", said)
    m = Matrix("own", folder + "/a.npy", a)
    must("format", "pack", m.path, "--format", "fours", "--formats", path, "-o", folder + "/p.npz", "-q")
    unpacked(folder + "/p.npz", m, folder)  # the file has the text, not the name
    for text, word in (("format csr = (i,j)->(i:dense, j:dense)\n", "csr"), ("format x = (i,j)->(i:dens)\n", "dens"), ("formt x = csr\n", ":1")):
        with open(path, "w") as f:
            f.write(text)
        r = sparta("format", "check", "csr", "--formats", path)
        need(r.code == 2 and word in r.err, f"{text}: {r}")
    r = sparta("format", "check", "csr", "--formats", folder + "/nowhere")
    need(r.code == 1, f"{r}")


def wide_integers(folder):
    a = np.zeros((3, 3), np.int64)
    a[1, 2], a[2, 0] = 2**53 + 1, -(2**63)
    np.save(folder + "/w.npy", a)
    for text in ("csr", "dia", "bsr(2,2)", "hyb(1,2)"):
        must("format", "pack", folder + "/w.npy", "--format", text, "-o", folder + "/w.npz", "-q", "--limit", FOREVER)
        must("format", "unpack", folder + "/w.npz", "-o", folder + "/w2.npy", "-q")
        same_bits(np.load(folder + "/w2.npy"), a, text)
        must("format", "unpack", folder + "/w.npz", "-o", folder + "/w2.mtx", "-q")
        equals_csr(csr_arrays(folder, folder + "/w2.mtx"), a)


# ---------------------------------------------------------------- large shapes
def large(t, folder):
    path = folder + "/large.mtx"
    rng = np.random.default_rng(6)
    entries = sorted(set(zip(rng.integers(1, 10**6, 10).tolist(), rng.integers(1, 10**6, 10).tolist())))
    with open(path, "w") as f:
        f.write(f"%%MatrixMarket matrix coordinate real general\n1000000 1000000 {len(entries)}\n")
        f.writelines(f"{i} {j} {n + 1}\n" for n, (i, j) in enumerate(entries))
    for text in ("coo", "csr", "csc", "dcsr", "hyb(1,3)", "sum{rownnz<=1 -> dcsr; rest -> coo}", "(i,j)->(i/1000:compressed, i%1000:compressed, j:compressed)"):
        t.check(f"a million squared as {text}", large_packs, folder, path, text, len(entries))
    for text in ("dense", "bitmap", "ell", "dia", "bsr(1000,1000)"):
        t.check(f"a million squared is too much for {text}", large_refused, folder, path, text)
    t.check("advice on a million squared", large_advice, path)


def little_memory():
    """Before the program starts: an address space in which nothing of these is dense."""
    resource.setrlimit(resource.RLIMIT_AS, (256 << 20, 256 << 20))


def frugal(*words):
    """Who looks at every element of these takes hours, and is killed."""
    return sparta(*words, "--max-memory", "64M", prepare=little_memory, timeout=30)


def large_packs(folder, path, text, n):
    packed, back = folder + "/large.npz", folder + "/large2.mtx"
    for words in (["pack", path, "--format", text, "-o", packed], ["unpack", packed, "-o", back]):
        r = frugal("format", *words, "-q")
        need(r.code == 0, f"{words[0]}: {r}")
    a, b = scipy.io.mmread(path).tocsr(), scipy.io.mmread(back).tocsr()
    need(b.shape == a.shape and b.nnz == n and (a != b).nnz == 0, "other entries")
    r = frugal("format", "unpack", packed, "-o", folder + "/large.npy")
    need(r.code == 5 and ".mtx" in r.err, f"{r}")
    os.unlink(packed)


def large_refused(folder, path, text):
    before = tree(folder)
    r = frugal("format", "pack", path, "--format", text, "-o", folder + "/no.npz")
    need(r.code == 5, f"{r}")
    need(tree(folder) == before, "something was left")
    return r.err.strip()[:120]


def large_advice(path):
    r = frugal("format", "advise", path, "--json")
    need(r.code == 0, f"{r}")
    said = json.loads(r.out)
    need(not said["patterns_looked_for"] and said["formats"][0]["format"] in ("coo", "dcsr", "hyb(1,1)"), f"{said['formats'][0]}")


# ---------------------------------------------------------------- advice
def advice(t, folder):
    rng = np.random.default_rng(8)
    strips = np.where(np.repeat(rng.random((32, 128)) < 0.1, 4, axis=0), rng.standard_normal((128, 128)), 0).astype(np.float32)
    keep = np.argsort(rng.random((64, 16, 4)), axis=2) < 2
    pairs = np.where(keep.reshape(64, 64), rng.standard_normal((64, 64)), 0).astype(np.float32)
    blocks = blocky(rng, (4, 4), 0.3, 32)
    mixed = np.where(rng.random((128, 128)) < 0.02, 1, blocks).astype(np.float32)
    shuffled = strips[rng.permutation(128)]
    for name, a in (("strips", strips), ("pairs", pairs), ("blocks", blocks), ("mixed", mixed), ("shuffled", shuffled)):
        np.save(f"{folder}/{name}.npy", a)
    t.check("advice for 4x1", advised, folder, "strips", strips, lambda best: best["pattern"] == "4x1" and best["exact"] and best["implement"] == "strip4")
    t.check("advice for 2:4", advised, folder, "pairs", pairs, lambda best: best["format"] == "bitmap", "nm24", "2:4 along k")
    t.check("advice for 32x32", advised, folder, "blocks", blocks, lambda best: best["fill"] == 1 and best["crd_bytes"] < best["value_bytes"] / 100)
    t.check("advice for a mixture is a sum", advised, folder, "mixed", mixed, lambda best: best["format"].startswith("sum{blockdensity>="))
    t.check("an order of rows", grouped, folder, shuffled)
    t.check("advice with a format of one's own", own_advice, folder)


def advised(folder, name, a, right, also=None, pattern=None):
    path = f"{folder}/{name}.npy"
    said = json.loads(must("format", "advise", path, "--json").out)
    rows = said["formats"]
    need(right(rows[0]), f"the best is {rows[0]}")
    need(not also or any(r["format"] == also and r["pattern"] == pattern and r["exact"] for r in rows), f"{also} is not there")
    need([r["bytes"] for r in rows] == sorted(r["bytes"] for r in rows), "not by bytes")
    names = {r["format"].split("(")[0] for r in rows}
    need({"csr", "coo", "bitmap", "ell", "dia", "hyb", "bsr", "dense"} <= names, f"only {names}")
    need(all(r["elements"] == np.count_nonzero(a) and abs(r["share"] - r["bytes"] / a.nbytes) < 1e-6 for r in rows), "other numbers")
    for row in rows[:3]:  # what it says is what pack stores
        must("format", "pack", path, "--format", row["format"], "-o", folder + "/p.npz", "-q", "--limit", FOREVER)
        stored = arrays_of(load(folder + "/p.npz"))
        need(sum(x.nbytes for x in stored.values()) == row["bytes"], f"{row['format']}: other bytes")
    return rows[0]["format"]


def fill_of_strips(a):
    n = np.abs(a).reshape(a.shape[0] // 4, 4, -1).max(axis=1)
    return np.count_nonzero(n) * 4 / np.count_nonzero(a)


def grouped(folder, a):
    said = json.loads(must("format", "advise", folder + "/shuffled.npy", "--group", "-o", folder + "/order.npy", "--json").out)
    order = np.load(folder + "/order.npy")
    need(sorted(order) == list(range(len(a))) and said["group"]["order"] == order.tolist(), "no permutation")
    need(said["group"]["block"] == [4, 1] and said["group"]["fill_after"] == 1, f"{said['group']['block']} {said['group']['fill_after']}")
    need(abs(fill_of_strips(a[order]) - said["group"]["fill_after"]) < 1e-6, "the order has another fill")
    need(abs(fill_of_strips(a) - said["group"]["fill_before"]) < 1e-6, "the fill before was another")
    r = sparta("format", "advise", folder + "/shuffled.npy", "-o", folder + "/no.npy")
    need(r.code == 2 and "--group" in r.err, f"{r}")


def own_advice(folder):
    mine = "(i,j)->(i/4:dense, j:bitmap, i%4:dense), pos=u16"
    said = json.loads(must("format", "advise", folder + "/strips.npy", "--format", mine, "--json").out)
    need(any(r["format"] == mine for r in said["formats"]), "it is not there")
    r = sparta("format", "advise", folder + "/strips.npy", "--format", "nm24")
    need(r.code == 2 and "structured" in r.err, f"{r}")


def main():
    t = Tests()
    folder = t.work
    small = generated(folder)
    shared = shared_matrices()
    if not shared:
        print(f"skipped: no matrices in {DATA}; the generated ones run")
    formats_hold(t, folder, small + shared)
    chains(t, folder, [m for m in small if m.name in ("random float32", "a band", "an arrow", "not finite", "strips")])
    for group in (sources, large, advice):
        group(t, folder)
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
