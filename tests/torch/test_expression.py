"""sparta.expr on torch's tensors: used as they lie, sparse layouts too; results are tensors."""

import sys

import torch
from common import Tests, need

import sparta

tests = Tests()
torch.manual_seed(3)
A, X = torch.randn(33, 21) * (torch.rand(33, 21) < 0.3), torch.randn(21, 10)


def close(got, want):
    need(isinstance(got, torch.Tensor) and torch.allclose(got, want, atol=1e-5), f"{got}, not {want}")


def dense():
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, formats={"A": "csr"})
    close(e(x=X), A @ X)
    turned = torch.randn(10, 21)
    close(e(x=turned.t()), A @ turned.t())  # copied, since it is not row-major


def types():
    for dtype, word in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
        a, x = A.to(dtype), X.to(dtype)
        want = a.float() @ x.float()
        close(sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=a, formats={"A": "csr"}, dtypes={"x": word})(x=x), want)
        got = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=a.to_sparse_csr(), dtypes={"x": word, "y": word})(x=x)
        need(got.dtype == dtype, f"{got.dtype}, not {dtype}")
        need(torch.allclose(got.float(), want, rtol=2**-7, atol=1e-5), "off by more than a rounding")


def layouts():
    for matrix in (A.to_sparse_csr(), A.to_sparse_csc(), torch.nn.functional.pad(A, (0, 3, 0, 3)).to_sparse_bsr((4, 4))):
        x = torch.randn(matrix.shape[1], 6)
        close(sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=matrix)(x=x), matrix.to_dense() @ x)


def borrowed():
    csr, out = A.to_sparse_csr(), torch.ones(33, 10)
    e = sparta.expr("y(i,k) += A(i,j)*x(j,k)", A=csr)
    need(e(x=X, out=out) is out, "another tensor than the one that was given")
    close(out, 1 + A @ X)
    csr.values().mul_(2)
    close(e(x=X), 2 * A @ X)


def learning():
    """A tensor that gradients are asked of is not taken in silence."""
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, formats={"A": "csr"})
    try:
        e(x=X.clone().requires_grad_())
    except ValueError as error:
        need("grad" in str(error), str(error))
    else:
        raise AssertionError("it was accepted")


for test in (dense, types, layouts, borrowed, learning):
    tests.check(test.__name__, test)
sys.exit(tests.finish())
