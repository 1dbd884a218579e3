"""Expressions that a kernel is generated for, against NumPy: `sparta kernel run` reads and writes the arrays."""

import os
import sys

import numpy as np

from common import Tests, must, need

RNG = np.random.default_rng(7)
ATTENTION = (
    "S(i,j) = P(i,j)*Q(i,k)*K(j,k); m(i) = largest(S(i,j)); E(i,j) = P(i,j)*exp(S(i,j)-m(i)); "
    "d(i) = E(i,j); W(i,j) = E(i,j)/d(i); O(i,l) = W(i,j)*V(j,l)"
)


def draw(*shape, keep=1.0):
    """Numbers, `keep` of them not 0."""
    x = RNG.standard_normal(shape)
    return np.where(RNG.random(shape) < keep, x, 0).astype(np.float32)


def run(work, expression, inputs, formats, schedule=None):
    words = ["kernel", "run", "--expr", expression, "--output-dir", os.path.join(work, "out")]
    for name, array in inputs.items():
        np.save(os.path.join(work, f"{name}.npy"), array)
        words += ["--input", f"{name}={os.path.join(work, name)}.npy"]
    for name, text in formats.items():
        words += ["--format", f"{name}={text}"]
    must(*words, *(["--schedule", schedule] if schedule else []))
    return lambda name: np.load(os.path.join(work, "out", f"{name}.npy"))


def close(got, want):
    error = np.abs(got - want).max() / max(1, np.abs(want[np.isfinite(want)]).max())
    need(got.shape == want.shape and error < 1e-5, f"{got.shape}, {want.shape}, error {error}")


def softmax(work, format_):
    x = {"P": (RNG.random((40, 33)) < 0.2).astype(np.float32), "Q": draw(40, 16), "K": draw(33, 16), "V": draw(33, 24)}
    x["P"][:, 5] = 1  # no row is empty
    got = run(work, ATTENTION, x, dict.fromkeys("PSEW", format_))
    scores = np.where(x["P"] != 0, x["Q"].astype(float) @ x["K"].T.astype(float), -np.inf)
    e = np.exp(scores - scores.max(1, keepdims=True))
    close(got("m"), scores.max(1))
    close(got("O"), (e / e.sum(1, keepdims=True)) @ x["V"])


def empty_rows(work):
    a = draw(20, 30, keep=0.05)
    a[3] = 0
    got = run(work, "m(i) = largest(A(i,j)); n(j) = smallest(A(i,j))", {"A": a}, {"A": "csr"})
    there = a != 0
    need((got("m") == np.where(there, a, -np.inf).max(1)).all(), "the largest of what is stored, -infinity of nothing")
    need((got("n") == np.where(there, a, np.inf).min(0)).all(), "the smallest")


def mttkrp(work, format_):
    x = {"A": draw(13, 17, 19, keep=0.1), "X": draw(17, 32), "Y": draw(19, 32)}
    got = run(work, "C(i,l) = A(i,j,k)*X(j,l)*Y(k,l)", x, {"A": format_})
    close(got("C"), np.einsum("ijk,jl,kl->il", *(a.astype(float) for a in x.values())))


if __name__ == "__main__":
    tests = Tests()
    for each in ("csr", "dcsc", "bsr(4,4)", "ell"):
        tests.check(f"softmax over {each}", softmax, tests.work, each)
    tests.check("largest of nothing", empty_rows, tests.work)
    for each in ("csf", "(i,j,k)->(i:dense, j:compressed, k:dense)"):
        tests.check(f"MTTKRP of {each}", mttkrp, tests.work, each)
    sys.exit(tests.finish())
