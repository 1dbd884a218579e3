"""Formats as classes: their texts are the language's, what they store is SciPy's where SciPy has the format, and a tensor comes back as it was."""

import doctest
import os
import subprocess
import sys

import numpy as np
import scipy.sparse
import torch

from common import Tests, need, refused

import sparta
import sparta as sparse
from sparta import tensors as door

tests = Tests()
rng = np.random.default_rng(0)


def weight(rows=24, cols=40, density=0.2, dtype=np.float32):
    return np.where(rng.random((rows, cols)) < density, rng.standard_normal((rows, cols)), 0).astype(dtype)


CLASSES = [
    (sparta.CsrTensor, (), "(i,j)->(i:dense, j:compressed)"),
    (sparta.CscTensor, (), "(i,j)->(j:dense, i:compressed)"),
    (sparta.CooTensor, (), "(i,j)->(i:compressed(nonunique), j:singleton(soa))"),
    (sparta.DcsrTensor, (), "(i,j)->(i:compressed, j:compressed)"),
    (sparta.BsrTensor, (8,), "(i,j)->(i/8:dense, j/8:compressed, i%8:dense, j%8:dense)"),
    (sparta.BsrTensor, (4, 1), "(i,j)->(i/4:dense, j/1:compressed, i%4:dense, j%1:dense)"),
    (sparta.EllpackTensor, (), "(i,j)->(i:dense, j:packed[auto])"),
    (sparta.EllpackTensor, (40,), "(i,j)->(i:dense, j:packed[40])"),
    (sparta.DiaTensor, (), "(i,j)->(j-i:compressed, i:range)"),
    (sparta.BitmapTensor, (), "(i,j)->(i:dense, j:bitmap)"),
    (sparta.CsfTensor, (2,), "(i,j)->(i:compressed, j:compressed)"),
    (sparta.NMTensor, (4, 4), "(i,j)->(i:dense, j/4:dense, j%4:structured[4,4]), crd=u2"),
]


def round_trip(kind, arguments, text):
    need(str(kind(*arguments).format) == text, kind(*arguments).format)
    for w in (weight(), weight(7, 13), np.zeros((3, 5), np.float32), weight(dtype=np.float64), weight(dtype=np.float16)):
        stored = kind.from_dense(w, *arguments, limit=1000)
        need(np.array_equal(stored.to_dense(), w) and stored.packed.shape == w.shape, f"{kind.__name__} {w.shape}")
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        t = torch.from_numpy(weight()).to(dtype).requires_grad_()
        back = kind.from_dense(t, *arguments, limit=1000).to_dense()
        need(back.dtype == dtype and torch.equal(back, t.detach()), dtype)


def scipys():
    """The arrays are those that SciPy makes."""
    w = weight()
    a = sparta.CsrTensor.from_dense(w).packed.arrays()
    s = scipy.sparse.csr_matrix(w)
    need(all(np.array_equal(*pair) for pair in ((a["l1_pos"], s.indptr), (a["l1_crd"], s.indices), (a["values"], s.data))), "csr")
    a, s = sparta.CscTensor.from_dense(w).packed.arrays(), scipy.sparse.csc_matrix(w)
    need(all(np.array_equal(*pair) for pair in ((a["l1_pos"], s.indptr), (a["l1_crd"], s.indices), (a["values"], s.data))), "csc")
    a, s = sparta.CooTensor.from_dense(w).packed.arrays(), scipy.sparse.coo_matrix(w)
    need(all(np.array_equal(*pair) for pair in ((a["l0_crd"], s.row), (a["l1_crd"], s.col), (a["values"], s.data))), "coo")
    a, s = sparta.BsrTensor.from_dense(w, 4, limit=100).packed.arrays(), scipy.sparse.bsr_matrix(w, blocksize=(4, 4))
    s.sort_indices()
    need(np.array_equal(a["l1_crd"], s.indices) and np.array_equal(a["values"].reshape(s.data.shape), s.data), "bsr")
    band = np.diag(np.arange(1, 9)).astype(np.float32) + np.diag(np.ones(6, np.float32), 2)
    a, s = sparta.DiaTensor.from_dense(band).packed.arrays(), scipy.sparse.dia_matrix(band)
    need(np.array_equal(a["l0_crd"], np.sort(s.offsets)), "dia")
    half = np.array([[1, 0, 2, 0, 0, 3, 0, 4]], np.float32)
    need(np.array_equal(sparta.NMTensor.from_dense(half).packed.arrays()["values"].ravel(), [1, 2, 3, 4]), "2:4")
    cube = np.where(rng.random((3, 4, 5)) < 0.3, 1, 0).astype(np.float32)
    need(np.array_equal(sparta.CsfTensor.from_dense(cube).to_dense(), cube), "csf")


def torchs():
    """torch's own csr and bsr have the same arrays."""
    w = torch.from_numpy(weight(32, 32))
    a, t = sparta.CsrTensor.from_dense(w).packed.arrays(), w.to_sparse_csr()
    need(all(np.array_equal(*pair) for pair in ((a["l1_pos"], t.crow_indices()), (a["l1_crd"], t.col_indices()), (a["values"], t.values()))), "csr")
    a, t = sparta.BsrTensor.from_dense(w, 8, limit=100).packed.arrays(), w.to_sparse_bsr((8, 8))
    need(np.array_equal(a["l1_crd"], t.col_indices()) and np.array_equal(a["values"].reshape(t.values().shape), t.values()), "bsr")


# As the proposal prints it: `as I, J` without brackets.
class EllpackTensor(sparse.SparseTensor):
    def __init__(self):
        with sparse.iter(dim=2) as I, J:  # noqa: F821
            J.compress(coordinate=True).pack()  # noqa: F821
            self.indices = [I, J]  # noqa: F821


def own_formats():
    need(EllpackTensor().format == sparta.EllpackTensor().format, EllpackTensor().format)
    need("I" not in globals() and "J" not in globals(), "names were left behind")

    class Cube(sparse.SparseTensor):
        def __init__(self, coordinate=True):
            with sparse.iter(dim=3) as I, J, K:  # noqa: F821
                K.compress(coordinate)  # noqa: F821
                self.indices = [J, I, K]  # noqa: F821

    need(str(Cube().format) == "(i,j,k)->(j:dense, i:dense, k:compressed)", Cube().format)
    need(str(Cube(False).format) == "(i,j,k)->(j:dense, i:dense, k:ragged)", Cube(False).format)

    class Bracketed(sparse.SparseTensor):
        def __init__(self, width):
            with sparse.iter(dim=2) as (a, b):
                b.compress().pack(width)
                self.indices = [b, a]

    need(str(Bracketed(3).format) == "(i,j)->(j:packed[3], i:dense)", Bracketed(3).format)
    w = weight(6, 10)
    need(np.array_equal(EllpackTensor.from_dense(w, limit=100).to_dense(), w), "it does not come back")
    refused(TypeError, "needs arguments", door.text_of, Bracketed)
    refused(TypeError, "is needed, not 3", door.text_of, 3)
    refused(ValueError, "nothing stored", sparta.CsrTensor().to_dense)

    class Empty(sparse.SparseTensor):
        pass

    class Half(sparse.SparseTensor):
        def __init__(self):
            with sparse.iter(dim=2) as (a, b):
                self.indices = [b]

    refused(ValueError, "must set self.indices", lambda: Empty().format)
    refused(ValueError, "each index of one", lambda: Half().format)
    with sparse.iter(dim=2) as (a, b):
        refused(ValueError, "compress(coordinate=True)", a.pack)
        refused(ValueError, "at least 1", a.compress().pack, 0)
    refused(ValueError, "1 to 8 dimensions", sparse.iter, 9)
    refused(ValueError, "at least 1", sparta.BsrTensor, 0)
    refused(ValueError, "holds 1", sparta.EllpackTensor.from_dense, np.ones((2, 2), np.float32), 1)
    refused(ValueError, "2 dimensions but the tensor has 3", sparta.CsrTensor.from_dense, np.zeros((2, 2, 2), np.float32))


def composed():
    hybrid = door.Layout(2).block(16, 16).set_format(sparse.EllpackTensor, axis=[0, 1]).set_format(sparse.CooTensor, axis=[2, 3])
    need(str(hybrid) == "(i,j)->(i/16:dense, j/16:packed[auto], i%16:compressed(nonunique), j%16:singleton(soa))", hybrid)
    w = weight(64, 48, 0.02)
    need(np.array_equal(sparta.pack(w, hybrid, limit=1000).numpy(), w), "the hybrid does not come back")
    need(sparta.Format(door.Layout(2).block(4, 4).set_format("csr")) == sparta.Format("bsr(4)"), "csr of blocks")
    need(str(door.Layout(2).block(4, 1).set_format("csr")) == "(i,j)->(i/4:dense, j:compressed, i%4:dense)", "blocks of one column")
    need(sparta.Format(door.Layout(2).block(2, 8).set_format("csc")) == sparta.Format("bsc(2,8)"), "csc of blocks")
    need(str(door.Layout(2).set_format("hyb(1,2)")) == "hyb(1,2)", "a sum alone")
    axis = door.Layout(2)
    axis.level(-1).compress()
    axis.level(-1).pack()
    need(str(axis) == "(i,j)->(i:dense, j:packed[auto])", axis)
    blocked = door.Layout(2).block(2, 2)
    refused(ValueError, "only after block", door.Layout(2).set_format, "coo", [2, 3])
    refused(ValueError, "no axis 4", blocked.set_format, "coo", [3, 4])
    refused(ValueError, "level 'j-i'", blocked.set_format, "dia", [0, 1])
    refused(ValueError, "only a format that is one map", blocked.set_format, "hyb(2,3)")
    refused(ValueError, "has 2 dimensions, not 1", blocked.set_format, "csr", [0])
    refused(ValueError, "did you mean 'csr'", door.Layout(2).set_format, "scr")
    refused(ValueError, "call block() first", door.Layout(2).set_format("csr").block, 2, 2)
    refused(ValueError, "axis 0 has a format already", blocked.set_format("csr", [0, 1]).set_format, "csr", [0, 2])
    refused(ValueError, "1 sizes for 2 dimensions", door.Layout(2).block, 4)


def docstrings():
    import importlib

    for name in ("_loops", "tensors", "sparsifiers"):
        module = importlib.import_module("sparta." + name)
        result = doctest.testmod(module, extraglobs={"np": np, "torch": torch})
        need(result.attempted and not result.failed, f"{name}: {result.failed} of {result.attempted} examples failed")


def without_torch():
    code = "import sparta, sys; sparta.CsrTensor().format, sparta.iter(dim=2), sparta.Sparsifier; sys.exit('torch' in sys.modules)"
    path = os.pathsep.join(p for p in sys.path if p)
    need(subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ, "PYTHONPATH": path}).returncode == 0, "formats import torch")


for kind, arguments, text in CLASSES:
    tests.check(f"{kind.__name__}{arguments}", round_trip, kind, arguments, text)
for name, function in (("SciPy's arrays", scipys), ("torch's arrays", torchs), ("formats of one's own", own_formats),
                       ("formats put together", composed), ("docstrings", docstrings), ("without torch", without_torch)):
    tests.check(name, function)
sys.exit(tests.finish())
