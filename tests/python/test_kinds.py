"""Every kind of NumPy array through every way in: its values are right, or it is refused in one sentence. What is lent is changed afterwards."""

import os
import sys

import numpy as np
import scipy.sparse

from common import Tests, must, need

import sparta

tests = Tests()
draw = np.random.default_rng(5)
A = (draw.integers(-4, 5, (8, 8)) * (draw.random((8, 8)) < 0.5)).astype(np.float32)
X = draw.integers(-4, 5, (8, 8)).astype(np.float32)


# ---------------------------------------------------------------- kinds: an array of the same values, or as many of them as it has
def strided(x):
    wide = np.full((x.shape[0] * 2, x.shape[1] * 3), 99, x.dtype)
    wide[::2, ::3] = x
    return wide[::2, ::3]


def misaligned(x):
    return np.frombuffer(b"?" + x.tobytes(), x.dtype, offset=1).reshape(x.shape)


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def subclass(x):
    class Named(np.ndarray):
        pass

    return x.copy().view(Named)


def mapped(x):
    path = os.path.join(tests.work, f"{x.shape[0]}.npy")
    np.save(path, x)
    return np.load(path, mmap_mode="r")


def field(x):
    records = np.zeros(x.shape, [("a", "i1"), ("x", x.dtype), ("b", "i1")])  # its strides are no multiples
    records["x"] = x
    return records["x"]


RIGHT = {
    "plain": lambda x: x.copy(),
    "column-major": np.asfortranarray,
    "strided": strided,
    "turned around": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "one element everywhere": lambda x: np.lib.stride_tricks.as_strided(x[:1, :1].copy(), x.shape, (0, 0)),
    "overlapping rows": lambda x: np.lib.stride_tricks.as_strided(x.ravel().copy(), x.shape, (x.itemsize, x.itemsize)),
    "misaligned": misaligned,
    "field of records": field,
    "read-only": read_only,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "subclass": subclass,
    "matrix": lambda x: np.asmatrix(x),
    "mapped file": mapped,
    "view of halves": lambda x: np.ascontiguousarray(x).view(np.float16).view(x.dtype),
    "lists": lambda x: x if x.dtype != np.float64 else x.tolist(),
}
REFUSED = {
    "masked": (lambda x: np.ma.masked_array(x, x > 0), "masked"),
    "masked, with nothing masked": (lambda x: np.ma.masked_array(x), "masked"),
    "complex": (lambda x: x.astype(np.complex64), "complex64"),
    "long double": (lambda x: x.astype(np.longdouble), "longdouble" if np.dtype(np.longdouble).itemsize == 8 else "float128"),
    "objects": (lambda x: x.astype(object), "object"),
    "texts": (lambda x: x.astype(str), "<U"),
    "dates": (lambda x: x.astype("i8").view("M8[s]"), "datetime64"),
    "records": (lambda x: x.view([("a", "i2"), ("b", "i2")]), "<i2"),
    "nine dimensions": (lambda x: x.reshape((1,) * 7 + x.shape), "9 dimensions"),
    "a word": (lambda x: "array", "<U"),
    "a dict": (lambda x: {"x": x}, "object"),
    "nothing": (lambda x: None, "object"),
}


# ---------------------------------------------------------------- ways in: what one makes of an array, and of a plain one with these values
def given(x):
    return sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, formats={"A": "csr"})(x=x)


def default(x):
    return sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, x=x, formats={"A": "csr"})()


def formatted(x):
    return sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=x, formats={"A": "csr"})(x=X)


def packed(x):
    return sparta.pack(x, "csr").numpy()


def packed_in_blocks(x):
    return sparta.pack(x, "bsr(2,2)", limit=99).numpy()


def masked_by(x):
    return sparta.pack(A, "csr", mask=x, limit=99).numpy()


def saved(x):
    return np.load(sparta.save_arrays(os.path.join(tests.work, "kinds.npz"), {"x": x}))["x"]


def stored(x):
    return sparta.CsrTensor.from_dense(x).to_dense()


def model():
    path = os.path.join(tests.work, "mlp.onnx")
    if not os.path.exists(path):
        must("zoo", "mlp", "-o", path, "--prune", "4x1:0.9")
    return path


kept = {}


def run(x):
    if "package" not in kept:
        kept["package"] = sparta.compile(model(), no_measure=1)
    if np.ndim(x) == 2 and np.shape(x) == A.shape:  # a kind of 8x8 tells as much as one of 8x784
        kind = kept["kind"]
        wide = np.resize(np.asarray(X), (8, 784)).astype(np.float32)
        return kept["package"].run({"x": kind(wide)})["logits"]
    return kept["package"].run({"x": x})["logits"]


WAYS = (given, default, formatted, packed, packed_in_blocks, masked_by, saved, stored, run)


def plain(x):
    return np.array(np.asarray(x).tolist(), np.float32)


def right(way, make):
    kept["kind"] = make
    got = way(make(X if way is not packed_in_blocks else A))
    kept["kind"] = lambda x: np.ascontiguousarray(np.array(make(x)), dtype=np.float32)
    want = way(plain(make(X if way is not packed_in_blocks else A)))
    need(got.dtype == want.dtype and np.array_equal(got, want), f"off by {np.max(np.abs(got - want))}")


def refused(kind, words, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except kind as error:
        need(words in str(error) and "\n" not in str(error).strip(), f"said {str(error)!r}, which lacks {words!r}")
        return
    raise AssertionError("it was accepted")


def wrong(way, make, words):
    kept["kind"] = make
    if way is masked_by and make(X) is None:
        return  # no mask
    refused((TypeError, ValueError), words, way, make(X))


# ---------------------------------------------------------------- out=
def whole(kind):
    """An array of 8x8 of this kind to write into."""
    return kind(np.full((8, 8), 7, np.float32))


OUT = {
    "plain": (lambda x: x.copy(), None),
    "subclass": (subclass, None),
    "matrix": (lambda x: np.asmatrix(x), None),
    "strided": (strided, "row-major"),
    "column-major": (np.asfortranarray, "row-major"),
    "turned around": (lambda x: x[::-1, ::-1], "row-major"),
    "broadcast": (lambda x: np.lib.stride_tricks.as_strided(x[:1].copy(), x.shape, (0, 4), writeable=True), "one address"),
    "overlapping rows": (lambda x: np.lib.stride_tricks.as_strided(x.ravel().copy(), x.shape, (4, 4), writeable=True), "one address"),
    "misaligned": (lambda x: np.frombuffer(bytearray(b"?" + x.tobytes()), x.dtype, offset=1).reshape(x.shape), "multiple"),
    "field of records": (field, "multiple"),
    "read-only": (read_only, "read-only"),
    "big-endian": (lambda x: x.astype(">f4"), "other order"),
    "masked": (lambda x: np.ma.masked_array(x, x > 0), "masked"),
    "double": (lambda x: x.astype(np.float64), "f64"),
    "complex": (lambda x: x.astype(np.complex64), "complex64"),
    "list": (lambda x: x.tolist(), "not an array"),
    "smaller": (lambda x: x[:4].copy(), ""),
}


def out(make, words):
    """Written as it should be, or refused and as it was."""
    e = sparta.expr("y(i,k) += A(i,j)*x(j,k)", A=A, formats={"A": "csr"})
    into = whole(make)
    before = np.array(into)
    if words is None:
        need(e(x=X, out=into) is into, "another array than the one that was given")
        need(np.array_equal(np.array(into), before + A @ X), "other values")
    else:
        refused((TypeError, ValueError), words, e, x=X, out=into)
        need(np.array_equal(np.array(into), before), "it was written to")


# ---------------------------------------------------------------- what is lent, changed
WILD = (10**9, -1, 0)


def lent(kind, wild):
    """Positions are our own from the start; values are those at the time of the call."""
    matrix = getattr(scipy.sparse, kind + "_array")(A) if kind != "bsr" else scipy.sparse.bsr_array(A, blocksize=(2, 2))
    matrix.sum_duplicates()  # what is not sorted is copied whole
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=matrix)
    need(np.array_equal(e(x=X), A @ X), "before")
    matrix.data *= 2
    matrix.indices[:] = wild
    matrix.indptr[1:] = wild
    need(np.array_equal(e(x=X), 2 * A @ X), "after")
    refused(sparta.Error, "", sparta.expr, "y(i,k) = A(i,j)*x(j,k)", A=matrix)


def lent_values():
    """Values that are fewer since are not read behind their end."""
    data = A[A != 0].copy()
    matrix = scipy.sparse.csr_array((data, *(getattr(scipy.sparse.csr_array(A), name) for name in ("indices", "indptr"))), shape=A.shape)
    matrix.data = data
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=matrix)
    need(np.array_equal(e(x=X), A @ X), "before")
    data.resize(2, refcheck=False)
    refused(ValueError, "resized", e, x=X)


def lent_dense():
    """An operand that is given once is read in each call, whatever became of it."""
    x = X.copy()
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, x=x, formats={"A": "csr"})
    x *= 2
    need(np.array_equal(e(), 2 * A @ X), "the values of the call")
    x.resize((8, 2), refcheck=False)
    need(np.array_equal(e(), A @ x), "the sizes of the call")


def sparse_kinds():
    e = lambda a: sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=a)(x=X)
    for name in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
        for kind in ("_array", "_matrix"):
            need(np.array_equal(e(getattr(scipy.sparse, name + kind)(A)), A @ X), name + kind)
    doubled = scipy.sparse.csr_array((np.ones(4, np.float32), np.array([1, 1, 0, 0]), np.array([0, 2, 4])), shape=(2, 8))
    need(np.array_equal(e(doubled), doubled.toarray() @ X), "coordinates that come twice")
    refused((TypeError, ValueError), "", e, scipy.sparse.csr_array(A.astype(np.complex64)))
    refused((TypeError, ValueError), "", e, scipy.sparse.coo_array(np.zeros((2, 2, 2), np.float32)))
    wide = scipy.sparse.csr_array(A)
    wide.data = wide.data.astype(">f4")
    need(np.array_equal(sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=wide)(x=X), A @ X), "big-endian values")


if __name__ == "__main__":
    for name, make in RIGHT.items():
        for way in WAYS:
            tests.check(f"{way.__name__}_{name}", right, way, make)
    for name, (make, words) in REFUSED.items():
        for way in WAYS:
            tests.check(f"refused_{way.__name__}_{name}", wrong, way, make, words)
    for name, (make, words) in OUT.items():
        tests.check(f"out_{name}", out, make, words)
    for kind in ("csr", "csc", "bsr"):
        for wild in WILD:
            tests.check(f"lent_{kind}_{wild}", lent, kind, wild)
    tests.check("lent_values", lent_values)
    tests.check("lent_dense", lent_dense)
    tests.check("sparse_kinds", sparse_kinds)
    sys.exit(tests.finish())
