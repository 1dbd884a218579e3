"""sparta.expr against NumPy and SciPy: products, samples, MTTKRP, element-wise; formats, schedules, sizes that change, results in place, errors."""

import gc
import sys
import threading

import numpy as np
import scipy.sparse

from common import Tests, need

import sparta as door

tests = Tests()
draw = np.random.default_rng(17)


def sparse(*shape, density=0.2):
    return (draw.standard_normal(shape) * (draw.random(shape) < density)).astype(np.float32)


def dense(*shape):
    return draw.standard_normal(shape).astype(np.float32)


def close(got, want):
    want = np.asarray(want)
    need(got.dtype == np.float32 and got.shape == want.shape, f"{got.dtype} {got.shape}, not {want.shape}")
    off = float(np.max(np.abs(got - want), initial=0))
    need(off <= 1e-5 * np.max(np.abs(want), initial=1e-30) * 10, f"off by {off}")


def refused(kind, words, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except kind as error:
        need(words in str(error) and "\n" not in str(error), f"said {str(error)!r}, which lacks {words!r}")
        return
    raise AssertionError("it was accepted")


FORMATS = ("csr", "csc", "dcsr", "coo", "ell", "bsr(4,4)", "bitmap", "hyb(2,2)", "(i,j)->(i/8:dense, j:compressed, i%8:dense)")


def products():
    a = sparse(37, 29)
    for format in FORMATS:
        e = door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": format}, limit=100)
        for k in (1, 16, 33):  # other sizes by the same kernel
            x = dense(29, k)
            close(e(x=x), scipy.sparse.csr_array(a) @ x)
        v = door.expr("y(i) = A(i,j)*x(j)", A=a, formats={"A": format}, limit=100)
        x = dense(29)
        close(v(x=x), scipy.sparse.csr_array(a) @ x)


def biases():
    """Added to whole sums wherever they stand, however large: columns that add to results began with the bias, and were off by 20 times as much."""
    a, x, b = sparse(40, 512, density=0.5), dense(512, 33), (1000 * (-1) ** np.arange(40)).astype(np.float32)
    sums = a.astype(np.float64) @ x
    off = lambda y, exact: float(np.sqrt(np.mean((y - exact) ** 2)))
    for format in FORMATS:
        without = off(door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": format}, limit=100)(x=x), sums)
        for text in ("b(i) + A(i,j)*x(j,k)", "A(i,j)*x(j,k) + b(i)", "-(b(i) - A(i,j)*x(j,k))"):
            exact = sums - b[:, None] if text[0] == "-" else sums + b[:, None]
            y = door.expr("y(i,k) = " + text, A=a, formats={"A": format}, limit=100)(x=x, b=b)
            need(off(y, exact) <= 2 * without + 1000 * 2**-24, f"{format}, {text}: off by {off(y, exact):.2g}, without a bias by {without:.2g}")


def types():
    a, x = sparse(37, 29).astype(np.float16), dense(29, 20).astype(np.float16)
    want = a.astype(np.float32) @ x.astype(np.float32)
    for format in FORMATS:
        e = door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, x=x, formats={"A": format}, limit=100)
        close(e(), want)
        need(e.operands["x"]["dtype"] == "f16" and e.operands["y"]["dtype"] == "f32", f"{e.operands}")
    e = door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": "csr"}, dtypes={"x": "f16", "y": "f16"})
    got = e(x=x)
    need(got.dtype == np.float16 and np.array_equal(got, want.astype(np.float16)), "a result of f16 is rounded once")
    matrix = scipy.sparse.csr_array(a.astype(np.float32))
    close(door.expr("y(i,k) = A(i,j)*x(j,k)", A=matrix, dtypes={"x": "f16"})(x=x), want)
    refused(TypeError, "convert it first", door.expr, "y(i) = A(i,j)*x(j)", A=a, dtypes={"A": "bf16"})
    refused(TypeError, "convert it first", door.expr, "y(i) = A(i,j)*x(j)", A=a, formats={"A": "csr"}, dtypes={"A": "bf16"})
    refused(ValueError, "no type 'f12'", door.expr, "y(i) = A(i,j)*x(j)", A=a, dtypes={"x": "f12"})
    refused((TypeError, ValueError, door.Error), "say the type", door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": "csr"}), x=x)


def scipy_matrices():
    a = scipy.sparse.random_array((64, 48), density=0.1, rng=draw, dtype=np.float32, format="csr")
    x = dense(48, 20)
    for matrix in (a, a.tocsc(), a.tobsr((4, 4)), a.tocoo(), scipy.sparse.csr_matrix(a)):
        close(door.expr("y(i,k) = A(i,j)*x(j,k)", A=matrix)(x=x), a @ x)
        close(door.expr("y(i,k) = A(i,j)*x(j,k)", A=matrix, formats={"A": "csc"})(x=x), a @ x)
    wide = a.copy()
    wide.indptr, wide.indices = wide.indptr.astype(np.int64), wide.indices.astype(np.int64)
    close(door.expr("y(i,k) = A(i,j)*x(j,k)", A=wide)(x=x), a @ x)
    e = door.expr("y(i,k) = A(i,j)*x(j,k)", {"A": a, "x": x})
    a.data *= 2  # the same memory
    close(e(), a @ x)
    doubled = scipy.sparse.csr_array((np.ones(3, np.float32), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    close(door.expr("y(i) = A(i,j)*x(j)", A=doubled)(x=np.array([1, 10], np.float32)), [21])
    packed = door.pack(a.toarray(), "strip(4)", limit=100)
    e = door.expr("y(i,k) = A(i,j)*x(j,k)", A=packed)
    del packed
    gc.collect()
    close(e(x=x), a @ x)


def samples():
    m, x, y = sparse(31, 23), dense(31, 12), dense(23, 12)
    e = door.expr("D(i,j) = M(i,j)*X(i,f)*Y(j,f)", M=m, formats={"M": "csr", "D": "csr"})
    want = m * (x @ y.T)
    got = e(X=x, Y=y)
    need(isinstance(got, door.Packed), f"{type(got)}")
    close(got.numpy(), want)
    close(got.arrays()["values"], scipy.sparse.csr_array(m).multiply(x @ y.T).tocsr().data)
    into = np.full_like(m, 7)
    need(e(X=x, Y=y, out={"D": into}) is into, "another array than the one that was given")
    close(into, want)
    second = door.expr("z(i,n) = D(i,j)*V(j,n)", D=got)  # what the first leaves, where it lies
    v = dense(23, 9)
    close(second(V=v), want @ v)
    e(X=2 * x, Y=y)
    close(second(V=v), 2 * want @ v)


def tensors():
    t, b, c = sparse(9, 11, 13, density=0.05), dense(11, 8), dense(13, 8)
    for format in ("csf", "(i,j,k)->(i:dense, j:compressed, k:compressed)", "(i,j,k)->(k:compressed, i:dense, j:compressed)"):
        e = door.expr("M(i,r) = T(i,j,k)*B(j,r)*C(k,r)", T=t, formats={"T": format}, limit=100)
        close(e(B=b, C=c), np.einsum("ijk,jr,kr->ir", t, b, c))
    images, taps = dense(20), dense(5)
    close(door.expr("y(i) = x(i+k)*w(k)")(x=images, w=taps), np.correlate(images, taps))


def elementwise():
    a, b = sparse(17, 19), sparse(17, 19)
    both = door.expr("C(i,j) = A(i,j)*B(i,j)", A=a, B=b, formats={"A": "csr", "B": "csc"})
    close(both(), a * b)
    either = door.expr("C(i,j) = A(i,j) + B(i,j)", A=a, B=b, formats={"A": "csr", "B": "dcsr"})
    close(either(), a + b)
    two = door.expr("s(i) = A(i,j); t(j) = A(i,j)", A=a, formats={"A": "csr"})()
    close(two["s"], a.sum(1))
    close(two["t"], a.sum(0))
    close(door.expr("y(i) = relu(A(i,j)*x(j)); y(i) += b(i)", A=a, formats={"A": "csr"})(x=np.ones(19, np.float32), b=np.ones(17, np.float32)),
          np.maximum(a, 0).sum(1) + 1)  # fmt: skip


def in_place():
    a, x = sparse(13, 7), dense(7, 5)
    e = door.expr("y(i,k) += A(i,j)*x(j,k)", A=a, formats={"A": "csr"})
    out = np.ones((13, 5), np.float32)
    need(e(x=x, out=out) is out, "another array than the one that was given")
    close(out, 1 + a @ x)
    e(x=x, out={"y": out})
    close(out, 1 + 2 * (a @ x))
    close(e(x=x), a @ x)
    close(e(x=np.asfortranarray(x)), a @ x)  # copied, since it is not row-major
    wide = np.zeros((13, 10), np.float32)
    refused(ValueError, "row-major", e, x=x, out=wide[:, :5])
    wide.flags.writeable = False
    refused(ValueError, "read-only", e, x=x, out=wide[:, :5])
    empty = door.expr("y(i,k) = A(i,j)*x(j,k)", A=np.zeros((4, 3), np.float32), formats={"A": "csr"})
    close(empty(x=dense(3, 2)), np.zeros((4, 2)))
    need(empty(x=dense(3, 0)).shape == (4, 0), "no columns")


def schedules():
    a, x = sparse(40, 30), dense(30, 40)
    e = door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": "csr"}, schedule="reorder(i,k,j); vectorize(k,2); threads(i)", threads=2)
    close(e(x=x), a @ x)
    need("k*2" in e.nest and "sp_special_0" in e.text, e.nest)
    need(e.operands["A"] == {"shape": (40, 30), "dtype": "f32", "format": str(door.Format("csr")), "result": False}, f"{e.operands}")
    need(e.operands["y"] == {"shape": (40, None), "dtype": "f32", "format": None, "result": True}, f"{e.operands}")
    close(door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": "csr"}, target="portable")(x=x), a @ x)
    panels = door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, y=np.empty((40, 40), np.float32),
                       formats={"A": "csr", "y": "(i,j)->(i/8:dense, j:dense, i%8:dense)"})  # fmt: skip
    close(panels(x=x).numpy(), a @ x)


def threads():
    a, x = sparse(50, 40), dense(40, 8)
    e = door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": "csr"})
    wrong = []

    def work(times):
        for n in range(20):
            if not np.allclose(e(x=x * times + n), a @ (x * times + n), atol=1e-3):
                wrong.append(times)

    all_of_them = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in all_of_them:
        t.start()
    for t in all_of_them:
        t.join()
    need(not wrong, f"wrong: {wrong}")


def errors():
    a, x = sparse(8, 6), dense(6, 4)
    csr = {"formats": {"A": "csr"}}
    refused(ValueError, "expression", door.expr, "y(i = A", A=a)
    refused(ValueError, "no operand 'Q'", door.expr, "y(i,k) = A(i,j)*x(j,k)", Q=a, **csr)
    refused(ValueError, "csx", door.expr, "y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": "csx"})
    refused(ValueError, "no loop 'q'", door.expr, "y(i,k) = A(i,j)*x(j,k)", A=a, schedule="vectorize(q)", **csr)
    refused(TypeError, "f64", door.expr, "y(i,k) = A(i,j)*x(j,k)", A=a.astype(np.float64), **csr)
    refused(door.Error, "limit", door.expr, "y(i,k) = A(i,j)*x(j,k)", A=np.eye(64, dtype=np.float32), formats={"A": "bsr(16,16)"})
    e = door.expr("y(i,k) = A(i,j)*x(j,k)", A=a, **csr)
    refused(ValueError, "how many values k", e)
    refused(ValueError, "j has", e, x=dense(7, 4))
    refused(TypeError, "f64", e, x=x.astype(np.float64))
    refused(ValueError, "was packed", e, x=x, A=a)
    refused(ValueError, "shares memory", door.expr("y(i,k) = A(i,j)*x(j,k)", A=np.eye(6, dtype=np.float32), **csr), x=x, out=x)
    refused(TypeError, "list", e, x=x, out=[1])
    refused(door.Error, "would add to what is not there", door.expr, "S(i,j) += A(i,j)*x(j)", A=a, formats={"A": "csr", "S": "csr"})
    same = {"formats": {"A": "ell", "S": "ell"}}
    refused(door.Error, "no elements", door.expr("S(i,j) = largest(A(i,j)*B(j,k))", A=a, **same), B=dense(6, 3))
    close(e(x=x), a @ x)


for test in (products, biases, types, scipy_matrices, samples, tensors, elementwise, in_place, schedules, threads, errors):
    tests.check(test.__name__, test)
sys.exit(tests.finish())
