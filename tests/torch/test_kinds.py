"""Every kind of torch tensor through every way in: its values are right, or it is refused in one sentence. What is lent is changed afterwards."""

import gc
import os
import sys
import warnings

import numpy as np
import torch
from common import Tests, need, refused

import sparta
import sparta.dynamo

tests = Tests()
sparta.dynamo.register()
torch.manual_seed(5)
A = torch.randint(-4, 5, (8, 8)).float() * (torch.rand(8, 8) < 0.5)
X = torch.randint(-4, 5, (8, 8)).float()
CSR = A.to_sparse_csr()


# ---------------------------------------------------------------- kinds: values are those of .tolist()
def strided(x):
    wide = torch.full((16, 24), 99.0)
    wide[::2, ::3] = x
    return wide[::2, ::3]


def misaligned(x):
    memory = bytearray(b"?" + x.numpy().tobytes())
    return torch.frombuffer(memory, dtype=torch.float32, offset=1).reshape(x.shape)


class OnlyNamed(torch.Tensor):
    """Its memory is its values."""


class Doubled(torch.Tensor):
    """Its meaning is not in its memory."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        raise NotImplementedError(str(function))


class Over(torch.Tensor):
    """The same with memory beneath."""

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        raise NotImplementedError(str(function))


def negative(x):
    made = torch.complex(torch.zeros_like(x), -x).conj().imag
    assert made.is_neg()
    return made


def inference(x):
    with torch.inference_mode():
        return x.clone()


def resized(x):
    x = x.clone()
    x.untyped_storage().resize_(8)
    return x


def fake(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(x)


def quantised(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(x, 1.0, 0, torch.qint8)


def quietly(make):
    def made(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make(x)

    return made


RIGHT = {
    "plain": lambda x: x.clone(),
    "negative": negative,
    "negative view": lambda x: torch._neg_view(x.neg()),
    "negative, turned": lambda x: negative(x.t().contiguous()).t(),
    "negative, expanded": lambda x: negative(x)[:1].expand(8, 8),
    "conjugate of what is real": lambda x: x.conj(),
    "real part of a conjugate": lambda x: torch.complex(x, x).conj().real,
    "turned": lambda x: x.t(),
    "strided": strided,
    "expanded": lambda x: x[:1].expand(8, 8),
    "one element everywhere": lambda x: x[0, 0].expand(8, 8),
    "overlapping rows": lambda x: x.flatten().as_strided((8, 8), (1, 1)),
    "misaligned": misaligned,
    "view of halves": lambda x: x.clone().view(torch.float16).view(torch.float32),
    "channels last": lambda x: x.reshape(1, 2, 4, 8).to(memory_format=torch.channels_last).reshape(8, 8),
    "subclass": lambda x: x.clone().as_subclass(OnlyNamed),
    "frozen parameter": lambda x: torch.nn.Parameter(x.clone(), requires_grad=False),
    "buffer": lambda x: torch.nn.Buffer(x.clone()),
    "inference": inference,
    "shared": lambda x: x.clone().share_memory_(),
    "of NumPy": lambda x: torch.from_numpy(x.numpy().copy()),
}
REFUSED = {
    "requires a gradient": (lambda x: x.clone().requires_grad_(), "gradient"),
    "parameter": (lambda x: torch.nn.Parameter(x.clone()), "gradient"),
    "result with a history": (lambda x: x.clone().requires_grad_() * 2, "gradient"),
    "wrapper": (Doubled, "Doubled"),
    "wrapper with memory": (lambda x: x.clone().as_subclass(Over), "Over"),
    "fake": (fake, "FakeTensor"),
    "meta": (lambda x: x.to("meta"), "meta"),
    "coordinates": (lambda x: x.to_sparse(), "sparse_coo"),
    "columns in blocks": (quietly(lambda x: x.to_sparse_bsc((2, 2))), "sparse_bsc"),
    "mkldnn": (lambda x: x.to_mkldnn(), "mkldnn"),
    "nested": (quietly(lambda x: torch.nested.nested_tensor([x[0], x[1, :3]])), "nested"),
    "jagged": (quietly(lambda x: torch.nested.nested_tensor([x[0], x[1, :3]], layout=torch.jagged)), "NestedTensor"),
    "quantised": (quantised, "quantized"),
    "complex": (lambda x: x.to(torch.complex64), "complex64"),
    "conjugate": (lambda x: x.to(torch.complex64).conj(), "complex64"),
    "eight bits of float": (lambda x: x.to(torch.float8_e4m3fn), "float8"),
    "nine dimensions": (lambda x: x.reshape((1,) * 7 + (8, 8)), "9 dimensions"),
    "without its memory": (resized, "memory"),
    "zeros without memory": (lambda x: torch._efficientzerotensor(8, 8), "memory"),
}
if torch.cuda.is_available():
    REFUSED["on a GPU"] = (lambda x: x.cuda(), "cuda")


# ---------------------------------------------------------------- ways in
def given(x):
    return sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, formats={"A": "csr"})(x=x)


def default(x):
    return sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, x=x, formats={"A": "csr"})()


def formatted(x):
    return sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=x, formats={"A": "csr"})(x=X)


def packed(x):
    return sparta.pack(x, "csr").numpy()


def masked_by(x):
    return sparta.pack(A, "csr", mask=x, limit=99).numpy()


def saved(x):
    return np.load(sparta.save_arrays(os.path.join(tests.work.name, "kinds.npz"), {"x": x}))["x"]


def stored(x):
    return sparta.CsrTensor.from_dense(x).to_dense()


class Eight(torch.nn.Module):
    def __init__(self, weight=None):
        super().__init__()
        self.l = torch.nn.Linear(8, 8, bias=False)
        self.l.weight = torch.nn.Parameter(A.clone() if weight is None else weight, requires_grad=False)

    def forward(self, x):
        return self.l(x)


kept = {}


def run(x):
    if "package" not in kept:
        kept["package"] = sparta.compile(Eight().eval(), example_inputs=torch.ones(8, 8), no_measure=1)
    return next(iter(kept["package"].run({next(iter(kept["package"].inputs)): x}).values()))


WAYS = (given, default, formatted, packed, masked_by, saved, stored, run)


def plain(x):
    return torch.tensor(np.array(x.tolist(), np.float32))


def array(x):
    return x.numpy() if isinstance(x, torch.Tensor) else x


def right(way, make):
    got, want = array(way(make(X))), array(way(plain(make(X))))
    need(got.dtype == want.dtype and np.array_equal(got, want), f"off by {np.max(np.abs(got - want))}")


def wrong(way, make, words):
    if way is stored and words == "gradient":
        return right(way, lambda x: make(x).detach())  # detaches by itself
    refused((TypeError, ValueError), words, way, make(X))


# ---------------------------------------------------------------- torch.ops.sparta: each tensor in turn as this kind
def operators(make):
    from sparta import _operators as ops

    pattern, sizes = (CSR.crow_indices().int(), CSR.col_indices().int(), None, None), (8, 8, 1, 1)
    values = CSR.values().reshape(-1, 1, 1)
    batch = X.unsqueeze(0)
    calls = {
        "linear": lambda x: ops.linear(x, values, *pattern, None, *sizes),
        "linear_turned": lambda x: ops.linear_turned(x, values, *pattern, *sizes),
        "multiply": lambda x: ops.multiply(x.unsqueeze(0), values, *pattern, *sizes, 1, False),
        "sample": lambda x: ops.sample(x.unsqueeze(0), batch, *pattern, *sizes, 1, 1.0),
        "sample, second": lambda x: ops.sample(batch, x.unsqueeze(0), *pattern, *sizes, 1, 1.0),
        "values": lambda x: ops.linear(X, x.flatten()[: len(values)].reshape(-1, 1, 1), *pattern, None, *sizes),
        "softmax": lambda x: ops.softmax(x.flatten()[: len(values)].reshape(-1, 1, 1), *pattern, *sizes, 1, 1.0),
        "bias": lambda x: ops.linear(X, values, *pattern, x[0], *sizes),
    }
    for name, call in calls.items():
        got, want = call(make(X)), call(plain(make(X)))
        need(torch.equal(got.detach(), want), f"{name}: off by {(got - want).abs().max()}")


def modules(make):
    """A layer in a format, which reads memory by its address."""
    from sparta import _format_linear

    want = torch.nn.functional.linear(plain(make(X)), A)
    made = _format_linear.Operator(A, None, "csr")
    need(torch.allclose(made(make(X)), want), "a layer in a format")
    made = _format_linear.Operator(make(A), None, "csr")
    need(torch.allclose(made(X), torch.nn.functional.linear(X, plain(make(A)))), "a layer in a format, its weight")


# Masks: (8, 8) of a module, as the elements that it then has.
def of_linear(mask):
    return sparta.nn.SparseLinear(Full(), weight_mask=mask).weight


def of_update(mask):
    layer = sparta.nn.SparseLinear(Full(), weight_mask=torch.ones(8, 8))
    layer.update_mask(mask)
    return layer.weight


def of_masked(mask):
    layer = sparta.sparsify_(torch.nn.Sequential(Full()), {"0": torch.ones(8, 8)})[0]
    layer.update_mask(mask)
    return layer.weight


def of_sparsify(mask):
    return sparta.sparsify_(torch.nn.Sequential(Full()), {"0": mask})[0].weight


def of_attention(mask):
    return sparta.nn.SparseAttention(mask).get_sparse_indexes().mask()


class Full(torch.nn.Linear):
    """Every element is 1."""

    def __new__(cls):
        made = torch.nn.Linear(8, 8)
        torch.nn.init.ones_(made.weight)
        return made


MASKED = (of_linear, of_update, of_masked, of_sparsify, of_attention)


def masks(way, make):
    """The elements that a mask of this kind leaves, or a refusal in one sentence."""
    given = make(X)
    try:
        got = way(given).detach().reshape(8, 8) != 0
    except (TypeError, ValueError) as error:
        need("\n" not in str(error), error)
        need(make not in RIGHT.values(), error)
    else:
        want = plain(given) if make in RIGHT.values() else X.reshape(given.shape)
        need(torch.equal(got, way(want).detach().reshape(8, 8) != 0), "other elements")


def no_masks(way):
    hidden = np.ma.masked_array(np.ones((8, 8)), mask=X.numpy() > 0)
    refused(TypeError, "filled(0)", way, hidden)
    refused(ValueError, "meta", way, X.to("meta"))
    refused(TypeError, "nested", way, REFUSED["nested"][0](X))
    refused(ValueError, "memory", way, resized(X))


def compiled(make):
    """By both modes. Inductor alone reads a negative bit with the other sign."""
    for mode in ("engine", "rewrite"):
        torch._dynamo.reset()
        model = torch.compile(Eight().eval(), backend="sparta", options={"mode": mode})
        with torch.no_grad():
            need(torch.allclose(model(make(X)), torch.nn.functional.linear(plain(make(X)), A)), mode)
            need(torch.allclose(model(X), torch.nn.functional.linear(X, A)), f"{mode}, and then as it is")


def written_in_place():
    """A negative input that the graph writes to has the new values, and the gradient of one has its sign."""

    def add(c, x):
        c.add_(1)
        return c * 2 + x

    def views(x):
        return x[1:3], x.t()

    for mode in ("engine", "rewrite"):
        for name in ("negative", "negative view", "negative, turned"):
            torch._dynamo.reset()
            ours, theirs = RIGHT[name](X), RIGHT[name](X)
            got, want = torch.compile(add, backend="sparta", options={"mode": mode})(ours, X), add(theirs, X)
            need(torch.equal(got, want) and torch.equal(ours, theirs), f"{mode}, {name}")
            torch._dynamo.reset()
            ours, theirs = RIGHT[name](X), RIGHT[name](X)
            for run, x in ((torch.compile(views, backend="sparta", options={"mode": mode}), ours), (views, theirs)):
                some, whole = run(x)
                whole.t().add_(1)
                some.mul_(2)
            need(torch.equal(ours, theirs), f"{mode}, {name}: what is written to a view that came back")
    torch._dynamo.reset()
    x = X.to(torch.complex64).requires_grad_()
    of = lambda run: torch.autograd.grad(run(x.conj().imag, X).sum(), x)[0]
    f = lambda a, b: a * a * b
    need(torch.equal(of(torch.compile(f, backend="sparta")), of(f)), "gradient")


@torch.no_grad()
def negative_constants():
    """A weight with the negative bit is no constant of a package: each call had a copy of it, for which the package was compiled again."""
    for keep in (lambda w: torch.nn.Parameter(w, requires_grad=False), torch.nn.Buffer):
        torch._dynamo.reset()
        model = Eight().eval()
        del model.l.weight
        model.l.weight = keep(RIGHT["negative view"](A))
        run = torch.compile(model, backend="sparta", options={"mode": "engine", "inner": "aot_eager", "compile": {"no_measure": 1}})
        for _ in range(3):
            need(torch.allclose(run(X), torch.nn.functional.linear(X, A)), "another answer")
        gc.collect()
        builds = [p.builds for graph in sparta.dynamo._alive for s in getattr(graph, "parts", []) for p in s.parts.values()]
        need(builds == [1], f"compiled {builds} times")


# ---------------------------------------------------------------- out=
OUT = {
    "plain": (lambda x: x.clone(), None),
    "negative": (negative, None),
    "negative view": (lambda x: torch._neg_view(x.neg()), None),
    "negative, turned": (lambda x: negative(x).t(), "row-major"),
    "subclass": (lambda x: x.clone().as_subclass(OnlyNamed), None),
    "frozen parameter": (lambda x: torch.nn.Parameter(x.clone(), requires_grad=False), None),
    "inference": (inference, None),
    "parameter": (lambda x: torch.nn.Parameter(x.clone()), "gradient"),
    "turned": (lambda x: x.clone().t(), "row-major"),
    "strided": (strided, "row-major"),
    "expanded": (lambda x: x[:1].clone().expand(8, 8), "one address"),
    "overlapping rows": (lambda x: x.flatten().clone().as_strided((8, 8), (1, 1)), "one address"),
    "misaligned": (misaligned, "multiple"),
    "double": (lambda x: x.double(), "f64"),
    "complex": (lambda x: x.to(torch.complex64), "complex64"),
}


def out(make, words):
    e = sparta.expr("y(i,k) += A(i,j)*x(j,k)", A=A, formats={"A": "csr"})
    into = make(torch.full((8, 8), 7.0))
    before, version = into.detach().clone(), None if into.is_inference() else into._version
    if words is None:
        need(e(x=X, out=into) is into, "another tensor than the one that was given")
        need(np.array_equal(into.tolist(), (before + A @ X).tolist()), "other values")
        need(version is None or into._version > version, "autograd does not know that it was written")
    else:
        refused((TypeError, ValueError), words, e, x=X, out=into)
        need(into.tolist() == before.tolist(), "it was written to")


def out_refused():
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, formats={"A": "csr"})
    for name, (make, _) in REFUSED.items():
        into = make(X)
        try:
            e(x=X, out=into)
        except (TypeError, ValueError) as error:
            need("\n" not in str(error), f"{name}: {error}")
        else:
            raise AssertionError(f"{name}: it was accepted")


def inside_of_functions():
    """torch.func's tensors have no memory of their own."""
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, formats={"A": "csr"})
    refused(TypeError, "torch.func", torch.func.vmap(lambda x: e(x=x)), torch.stack([X, X]))


# ---------------------------------------------------------------- sparse layouts
def layouts():
    e = lambda a: sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=a)
    for make in (A.to_sparse_csr(), A.to_sparse_csc(), A.to_sparse_bsr((2, 2))):
        need(torch.equal(e(make)(x=X), A @ X), str(make.layout))
    signed = torch.sparse_csr_tensor(CSR.crow_indices(), CSR.col_indices(), negative(CSR.values()), (8, 8))
    need(torch.equal(e(signed)(x=X), A @ X), "negative values")
    for make, words in (
        (lambda: A.to_sparse(), "sparse_coo"),
        (lambda: A.to_sparse_bsc((2, 2)), "sparse_bsc"),
        (lambda: CSR.to("meta"), "meta"),
        (lambda: torch.stack([A, A]).to_sparse_csr(), "dimensions"),
        (lambda: CSR.to(torch.complex64), "complex64"),
        (lambda: A.clone().requires_grad_().to_sparse_csr(), "gradient"),
    ):
        refused((TypeError, ValueError), words, e, make())
    need(sparta.formats.view_sparse(torch.Size([1, 2])) is None, "what is no tensor")


def lent(make, wild):
    matrix = make()
    crow = matrix.ccol_indices() if matrix.layout == torch.sparse_csc else matrix.crow_indices()
    col = matrix.row_indices() if matrix.layout == torch.sparse_csc else matrix.col_indices()
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=matrix)
    matrix.values().mul_(2)
    col.fill_(wild)
    crow[1:] = wild
    need(torch.equal(e(x=X), 2 * A @ X), "after")
    refused(sparta.Error, "", sparta.expr, "y(i,k) = A(i,j)*x(j,k)", A=matrix)


def lent_values(how):
    """Memory that goes away between two calls is looked for when the next one begins; it was read where it had been."""
    matrix = A.to_sparse_csr()
    e, stored = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=matrix), sparta.formats.view_sparse(matrix)
    need(torch.equal(e(x=X), A @ X), "before")
    memory = matrix.values().untyped_storage()
    memory.resize_(0)
    if how == "moved":
        memory.resize_(1 << 26)
    for call in (lambda: e(x=X), stored.numpy, stored.arrays, lambda: stored.to("coo")):
        refused(ValueError, "memory" if how == "gone" else "resized", call)


def lent_dense():
    x = X.clone()
    e = sparta.expr("y(i,k) = A(i,j)*x(j,k)", A=A, x=x, formats={"A": "csr"})
    x.mul_(2)
    need(torch.equal(e(), 2 * A @ X) if isinstance(e(), torch.Tensor) else np.array_equal(e(), 2 * A @ X), "the values of the call")
    x.untyped_storage().resize_(0)
    refused(ValueError, "memory", e)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="Sparse")
    for name, make in RIGHT.items():
        for way in WAYS:
            tests.check(f"{way.__name__}_{name}", right, way, make)
        tests.check(f"operators_{name}", operators, make)
        tests.check(f"modules_{name}", modules, make)
    for name, (make, words) in REFUSED.items():
        for way in WAYS:
            tests.check(f"refused_{way.__name__}_{name}", wrong, way, make, words)
    for way in MASKED:
        tests.check(f"no_mask_{way.__name__}", no_masks, way)
        for name, make in {**RIGHT, **{name: make for name, (make, _) in REFUSED.items()}}.items():
            tests.check(f"mask_{way.__name__}_{name}", masks, way, make)
    for name, (make, words) in OUT.items():
        tests.check(f"out_{name}", out, make, words)
    for name in ("negative", "negative view", "negative, turned", "negative, expanded", "turned"):
        tests.check(f"compiled_{name}", compiled, RIGHT[name])
    tests.check("written_in_place", written_in_place)
    tests.check("negative_constants", negative_constants)
    tests.check("out_refused", out_refused)
    tests.check("inside_of_functions", inside_of_functions)
    tests.check("layouts", layouts)
    for layout, make in (("csr", A.to_sparse_csr), ("csc", A.to_sparse_csc), ("bsr", lambda: A.to_sparse_bsr((2, 2)))):
        for wild in (10**9, -1, 0):
            tests.check(f"lent_{layout}_{wild}", lent, make, wild)
    for how in ("gone", "moved"):
        tests.check(f"lent_values_{how}", lent_values, how)
    tests.check("lent_dense", lent_dense)
    sys.exit(tests.finish())
