"""sparta.nn as modules: state, copies, optimizers, other masks, bad input, dtypes. What they compute is compared with torch's own dense result."""

import copy
import doctest
import importlib
import io
import os
import pickle
import sys

import torch
from torch.nn.functional import linear

from common import Tests, need, refused

import sparta  # common.py says where it is
from sparta.nn import SparseBatchMatMul, SparseConv2d, SparseEmbedding, SparseLinear, SparseSoftmax
from sparta.testing import block_mask

tests = Tests()
close = torch.testing.assert_close
torch.manual_seed(1)


def layer(rows=48, cols=40, mask=None, **more):
    """A dense layer whose pruned weights are 0, its mask, and the sparse one."""
    dense = torch.nn.Linear(cols, rows)
    mask = block_mask((rows, cols), (4, 1), 0.8) if mask is None else mask
    with torch.no_grad():
        dense.weight *= mask
    return dense, mask, SparseLinear(dense, weight_mask=mask, **more)


FORMATS = ("csr", "strip(4)", "bsr(8,8)", "bsr(3,5)", "dense", None)


# ---------------------------------------------------------------- running
def shapes(format):
    dense, _, sparse = layer(format=format)
    for lead in ((), (1,), (7,), (2, 3), (2, 1, 5), (0,), (3, 0)):
        x = torch.randn(*lead, 40)
        close(sparse(x), dense(x))
    for x in (torch.randn(40, 9).t(), torch.randn(2, 40, 3).transpose(1, 2), torch.randn(0, 40, 3).transpose(1, 2), torch.randn(5, 4, 3, 40).permute(2, 0, 1, 3)):
        close(sparse(x), dense(x))
    close(sparse(torch.randn(4, 80)[:, ::2]).shape, torch.Size((4, 48)))
    close(sparse.weight, dense.weight)


def dtypes(dtype, format):
    dense, _, sparse = layer(format=format)
    dense, sparse = dense.to(dtype), sparse.to(dtype)
    x = torch.randn(5, 40, dtype=dtype)
    got = sparse(x)
    need(got.dtype == dtype, got.dtype)
    close(got.double(), dense.double()(x.double()), **({"atol": 2e-2, "rtol": 2e-2} if dtype.itemsize == 2 else {"atol": 1e-5, "rtol": 1e-5}))


def autocast():
    _, _, sparse = layer()
    for module in (sparse, layer(format="dense")[2]):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = module(torch.randn(5, 40))
            need(out.dtype == torch.bfloat16, f"{out.dtype} under autocast")
        out.float().sum().backward()
        need(module.values.grad.dtype == torch.float32, "the gradient is not the parameter's dtype")


def patterns():
    dense = torch.nn.Linear(64, 32)
    size = dense.weight.abs()
    sparse = SparseLinear(dense, pattern="4x1:0.75")
    mask = sparse.weight != 0
    need(int(mask.sum()) == 32 * 64 // 4, int(mask.sum()))
    score, kept = size.view(8, 4, 64).sum(1), mask.view(8, 4, 64).all(1)
    need(score[kept].min() >= score[~kept].max(), "not the largest blocks were kept")
    sparse = SparseLinear(dense, pattern="2:4")
    groups = (sparse.weight != 0).view(32, 16, 4)
    need(bool((groups.sum(-1) == 2).all()), "2:4 is not 2 of 4")
    for text in ("4x1", "0x1:0.5", "4x1:2", "nonsense", "5:4"):
        refused(ValueError, "pattern", SparseLinear, dense, pattern=text)


def decided():
    """A dense mask is run dense and says so; a format is obeyed; timing decides by itself."""
    _, _, sparse = layer(mask=torch.ones(48, 40))
    need(sparse.reason.startswith("dense"), sparse.reason)
    _, _, sparse = layer(mask=block_mask((48, 40), (1, 1), 0.95))
    need("1x1" in sparse.reason and not sparse.ready, sparse.reason)
    config = sparse.tune(inputs=torch.randn(8, 40), seconds=0.02)
    need(sparse.ready and "us on (8, 40)" in sparse.reason and config in sparse.configs(), sparse.reason)
    for config in ({"block": "dense"}, {"block": [8, 8]}, {"block": "strip(4)"}):
        before = sparse.weight.detach().clone()
        sparse.build(config)
        close(sparse.weight.detach(), before)
    refused(ValueError, "configuration", sparse.build, {"tile": 3})
    refused(ValueError, "format", sparse.build, {"block": "coo"})
    refused(ValueError, "no inputs", sparse.tune)
    need(sparse.tune_points(torch.randn(8, 40)) == [], "points are a GPU's")
    sparse.build(sample_inputs=(torch.randn(3, 40),))
    sparse.build()


# ---------------------------------------------------------------- state
def saved(format, other):
    """A checkpoint of one pattern in a module of another, in every way that there is to save."""
    dense, _, sparse = layer(format=format)
    file = io.BytesIO()
    torch.save(sparse.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    x = torch.randn(6, 40)
    for assign in (False, True):
        _, _, target = layer(format=other, mask=block_mask((48, 40), (2, 2), 0.5))
        parameter = target.values
        target.load_state_dict(copy.deepcopy(state), assign=assign)
        close(target(x), dense(x))
        need(assign or target.values is parameter, "the Parameter is another")
        target(x).sum().backward()
    for again in (copy.deepcopy(sparse), pickle.loads(pickle.dumps(sparse))):
        close(again(x), dense(x))
        with torch.no_grad():
            again.values.zero_()
        close(again(x), dense.bias.expand(6, -1))
        close(sparse(x), dense(x))
        again.double()(x.double())


def dense_checkpoint():
    _, mask, sparse = layer()
    other = torch.nn.Linear(40, 48)
    sparse.load_state_dict(other.state_dict())
    x = torch.randn(6, 40)
    close(sparse(x), linear(x, other.weight * mask, other.bias))
    mask = block_mask((48, 40), (8, 8), 0.5).bool()
    sparse.load_state_dict({**other.state_dict(), "weight_mask": mask})
    close(sparse(x), linear(x, other.weight * mask, other.bias))
    model = torch.nn.Sequential(sparse, torch.nn.ReLU(), layer(8, 48)[2])
    plain = torch.nn.Sequential(torch.nn.Linear(40, 48), torch.nn.ReLU(), torch.nn.Linear(48, 8))
    model.load_state_dict(plain.state_dict())
    close(model[0].weight, plain[0].weight * mask)


def safetensors():
    from safetensors.torch import load_file, save_file

    dense, _, sparse = layer(format="bsr(3,5)")
    path = os.path.join(tests.work.name, "layer.safetensors")
    save_file(sparse.state_dict(), path)
    _, _, target = layer()
    target.load_state_dict(load_file(path))
    close(target.weight, dense.weight)


def hostile():
    """Checkpoints that lie are refused, and the module stays as it was."""
    dense, _, sparse = layer(format="bsr(8,8)", mask=block_mask((48, 40), (2, 2), 0.7))
    good = sparse.state_dict()
    x = torch.randn(6, 40)

    def bad(**changed):
        state = {**good, **changed}
        refused(RuntimeError, "", _one_line, sparse.load_state_dict, {name: t for name, t in state.items() if t is not None})
        close(sparse(x), dense(x))

    def _one_line(load, state):
        try:
            load(state)
        except RuntimeError as error:
            raise RuntimeError(" ".join(str(error).split())) from error

    pos, crd, values, keep, facts = (good[name] for name in ("pos", "crd", "values", "keep", "_extra_state"))
    bad(pos=pos + 1)
    bad(pos=pos.flip(0))
    bad(pos=pos[:-1])
    bad(pos=pos.float())
    bad(crd=crd + 100)
    bad(crd=crd - 1000)
    bad(crd=crd.flip(0))
    bad(crd=torch.zeros_like(crd))
    bad(crd=crd[:-1])
    bad(crd=crd.view(1, -1))
    bad(values=values[:-1])
    bad(values=values.flatten())
    bad(keep=keep[:-1])
    bad(keep=keep.float())
    bad(_extra_state=facts + 1)
    bad(_extra_state=facts * 0)
    bad(_extra_state=-facts)
    bad(_extra_state=facts * 2**40)
    bad(_extra_state=facts[:3])
    bad(crd=None)
    bad(values=None)
    bad(**{name: None for name in ("values", "pos", "crd", "keep", "_extra_state")}, weight=torch.zeros(3, 3))


# ---------------------------------------------------------------- training
OPTIMIZERS = {
    "SGD with momentum and decay": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.1),
    "SGD foreach": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, foreach=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
    "AdamW foreach amsgrad": lambda p: torch.optim.AdamW(p, 0.01, foreach=True, amsgrad=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.5),
}


def step(optimizer, module, x, weight_of=None):
    optimizer.zero_grad()
    module(x).pow(2).mean().backward()
    optimizer.step()


class Masked(torch.nn.Module):
    """The dense way to train a masked layer: the peer of these tests."""

    def __init__(self, dense, mask):
        super().__init__()
        self.weight, self.bias, self.mask = torch.nn.Parameter(dense.weight.detach().clone()), torch.nn.Parameter(dense.bias.detach().clone()), mask

    def forward(self, x):
        return linear(x, self.weight * self.mask, self.bias)


def trains(make, format):
    """As the masked dense layer trains; what is pruned stays 0."""
    dense, mask, sparse = layer(format=format, mask=block_mask((48, 40), (1, 1), 0.8))
    peer = Masked(dense, mask)
    ours, theirs = make(sparse.parameters()), make(peer.parameters())
    for _ in range(6):
        x = torch.randn(16, 40)
        step(ours, sparse, x)
        step(theirs, peer, x)
    close(sparse.weight, peer.weight * mask, atol=1e-4, rtol=1e-4)
    need(bool((sparse.weight[mask == 0] == 0).all()), "pruned weights grew back")
    need(sparse.keep is None or bool((sparse.values[~sparse.keep] == 0).all()), "slots that the mask leaves out are not 0")


def new_masks(make, given):
    """A mask that changes while training: kept elements go on as they were, with their momentum; the Parameter and the optimizer stay."""
    dense, mask, sparse = layer(mask=block_mask((48, 40), (1, 1), 0.5))
    peer = Masked(dense, mask)
    ours, theirs = make(sparse.parameters()), make(peer.parameters())
    parameter = sparse.values
    for round in range(4):
        for _ in range(2):
            x = torch.randn(16, 40)
            loss = sparse(x).sum()  # a graph that lives on must not remember the old shape
            step(ours, sparse, x)
            step(theirs, peer, x)
        with torch.no_grad():
            mask = mask * block_mask((48, 40), (4, 1), 0.3)  # only fewer: dense momentum of elements that come back is its own
            sparse.update_mask(mask, optimizer=ours if given else None)
            peer.mask = mask
            peer.weight *= mask
            for state in theirs.state[peer.weight].values():
                if isinstance(state, torch.Tensor) and state.shape == mask.shape:
                    state *= mask
        need(sparse.values is parameter, "the Parameter is another")
        del loss
    step(ours, sparse, x)
    step(theirs, peer, x)
    close(sparse.weight, peer.weight * mask, atol=1e-4, rtol=1e-4)


def saved_between():
    """A checkpoint written between update_mask and a step fits, of an optimizer that stepped and of one that was only loaded; nothing is kept of any."""
    import gc
    import weakref

    dense, _, sparse = layer()
    optimizer = torch.optim.AdamW(sparse.parameters(), 0.01)
    x = torch.randn(16, 40)
    step(optimizer, sparse, x)
    start = copy.deepcopy((sparse.state_dict(), optimizer.state_dict()))
    for k in range(3):
        sparse.update_mask(block_mask((48, 40), (4, 1), 0.3 + k / 10))
    model, state = copy.deepcopy((sparse.state_dict(), optimizer.state_dict()))
    step(optimizer, sparse, x)
    loaded = sparta.nn.SparseLinear(dense, weight_mask=torch.ones(48, 40))
    loaded.load_state_dict(model)
    other = torch.optim.AdamW(loaded.parameters(), 0.01)
    other.load_state_dict(state)
    step(other, loaded, x)
    close(loaded.weight, sparse.weight)
    loaded.load_state_dict(start[0])
    fresh = torch.optim.AdamW(loaded.parameters(), 0.01)
    fresh.load_state_dict(start[1])
    loaded.update_mask(block_mask((48, 40), (8, 8), 0.5))
    need(fresh.state[loaded.values]["exp_avg"].shape == loaded.values.shape, "the state of an optimizer that was only loaded did not move")
    step(fresh, loaded, x)
    gone = weakref.ref(fresh)
    del fresh
    gc.collect()
    need(gone() is None, "the optimizer is kept")


def functions(format):
    """torch.func: gradients and a second derivative are those of the dense layer."""
    dense, mask, sparse = layer(16, 12, format=format)
    x = torch.randn(4, 12)
    masked = copy.deepcopy(dense)
    sparta.masked.mask_(masked, mask)
    masked.train_in(sparse._blocks.block if format != "dense" else None)

    def gradient(module):
        return torch.func.grad(lambda p: torch.func.functional_call(module, p, (x,)).square().sum())(dict(module.named_parameters()))

    want = gradient(dense)
    close(sparse._blocks.unpack(gradient(sparse)["values"]), want["weight"] * mask)
    close(gradient(masked)["weight"], want["weight"] * mask)
    close(gradient(masked)["bias"], want["bias"])
    second = [torch.func.jacrev(torch.func.grad(lambda x, m=m: m(x).pow(3).sum()))(x[0]) for m in (sparse, dense)]
    close(*second, atol=1e-4, rtol=1e-4)


def forgets_times():
    """What was said and measured of the old mask is not said of the new one."""
    _, _, sparse = layer()
    sparse.measured, sparse.pattern = {"us": 1.0, "dense_us": 2.0, "reason": "old"}, "4x1:0.5"
    sparse.update_mask(block_mask((48, 40), (4, 1), 0.5))
    need(not hasattr(sparse, "measured") and not hasattr(sparse, "pattern"), "told of the old mask")


def grows():
    """Elements that come back start at 0, the others are as trained; gradients that were there move along; two changes before a step."""
    _, mask, sparse = layer()
    optimizer = torch.optim.AdamW(sparse.parameters(), 0.01)
    x = torch.randn(16, 40)
    step(optimizer, sparse, x)
    before, grad = sparse.weight.detach().clone(), sparse._blocks.unpack(sparse.values.grad)
    sparse.update_mask(torch.ones(48, 40))
    close(sparse.weight.detach(), before)
    close(sparse._blocks.unpack(sparse.values.grad), grad)
    sparse.update_mask(block_mask((48, 40), (8, 8), 0.5))
    need(optimizer.state[sparse.values]["exp_avg"].shape == sparse.values.shape, "the state did not move at once")
    step(optimizer, sparse, x)
    other = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), 0.1)
    refused(ValueError, "optimizer", sparse.update_mask, mask, other)
    sparse.update_mask(torch.zeros(48, 40))
    close(sparse(x), sparse.bias.expand(16, -1))
    step(optimizer, sparse, x)


def dirty():
    """Something else writes into slots that the mask leaves out: they count as 0 all the same."""
    for format in ("dense", "bsr(8,8)", "strip(4)"):
        _, mask, sparse = layer(format=format, mask=block_mask((48, 40), (1, 1), 0.8))
        x = torch.randn(4, 40)
        with torch.no_grad():
            sparse(x)
            torch.nn.init.normal_(sparse.values)
            want = linear(x, sparse.weight, sparse.bias)
            close(sparse(x), want)
        need(bool((sparse.weight[mask == 0] == 0).all()), "not 0")
        close(sparse(x), want)
        if sparse.keep is not None:
            with torch.no_grad():
                sparse.values.masked_fill_(~sparse.keep, float("nan"))
            close(sparse(x), want)
            with torch.no_grad():
                close(sparse(x), want)
                sparse.values.masked_fill_(~sparse.keep, float("inf"))
                close(sparse.weight, copy.deepcopy(sparse).weight)
                close(sparse(x), want)


def double_gradient(format):
    _, _, sparse = layer(12, 10, mask=block_mask((12, 10), (2, 1), 0.5), format=format)
    sparse = sparse.double()
    x = torch.randn(3, 10, dtype=torch.double, requires_grad=True)
    need(torch.autograd.gradcheck(lambda x, v, b: torch.func.functional_call(sparse, {"values": v, "bias": b}, (x,)),
                                  (x, sparse.values.detach().requires_grad_(), sparse.bias.detach().requires_grad_())), "gradcheck")


# ---------------------------------------------------------------- bad input
def refusals():
    dense, mask, sparse = layer()
    refused(TypeError, "raw_module", SparseLinear, torch.nn.ReLU(), weight_mask=mask)
    refused(ValueError, "exactly one", SparseLinear, dense)
    refused(ValueError, "exactly one", SparseLinear, dense, weight_mask=mask, input_mask=mask)
    refused(ValueError, "exactly one", SparseLinear, dense, weight_mask=mask, pattern="4x1:0.5")
    refused(ValueError, "wanted (48, 40)", SparseLinear, dense, weight_mask=mask.t())
    refused(ValueError, "dimensions", SparseLinear, dense, weight_mask=mask[0])
    refused(ValueError, "NaN", SparseLinear, dense, weight_mask=mask.float() / 0 * 0)
    refused(TypeError, "mask", SparseLinear, dense, weight_mask="4x1")
    refused(TypeError, "mask", SparseLinear, dense, weight_mask=mask.to(torch.complex64))
    refused(ValueError, "meta", SparseLinear, dense, weight_mask=mask.to("meta"))
    for format in ("coo", "bsr(0,4)", "strip(0)", 7):
        refused(ValueError, "format", SparseLinear, dense, weight_mask=mask, format=format)
    before = sparse.weight.detach().clone()
    refused(ValueError, "wanted", sparse.update_mask, mask[1:])
    refused(ValueError, "NaN", sparse.update_mask, mask.float() / 0 * 0)
    close(sparse.weight.detach(), before)
    for module in (sparse, layer(format="dense")[2]):
        refused(ValueError, "has to be 40", module, torch.randn(3, 41))
        refused(ValueError, "has to be 40", module, torch.tensor(3.0))
        refused(TypeError, "float64", module, torch.randn(3, 40, dtype=torch.double))
        refused(TypeError, "list", module, [1.0])
    refused(ValueError, "meta", layer(format="dense")[2], torch.randn(3, 40, device="meta"))
    inputs = SparseLinear(dense, input_mask=block_mask((6, 40), sparsity=0.5))
    refused(ValueError, "6 rows", inputs, torch.randn(5, 40))
    refused(ValueError, "has to be 40", inputs, torch.randn(6, 41))


def other_refusals():
    """Of the other operators: each bad input is one ValueError or TypeError."""
    dense, mask, sparse = layer()
    for config in ({}, {"block": None}, {"block": "ell"}, {"block": [0, 1]}, {"blocks": [1, 1]}, "dense", []):
        refused(ValueError, "", sparse.build, config)
    sparse.build({"block": "strip(4)"})
    need(sparse._blocks.block == (4, 1), sparse.reason)
    for format in ("bsr(15000,15000)", (15000, 15000), "strip(100000)"):
        large = SparseLinear(dense, weight_mask=mask, format=format)
        need(large.values.numel() <= 48 * 40, f"{large.values.shape} of {format}")
        close(large(torch.ones(40)), dense(torch.ones(40)))
    x = torch.randn(2, 40, 6)
    for product in (SparseBatchMatMul(A_mask=mask, compressed=False), SparseBatchMatMul(C_mask=torch.ones(48, 6), compressed=False)):
        A = torch.randn(2, 48, 40)
        need(product(A, x, torch.ones(2, 6)).shape == product(A, x, torch.ones(6)).shape == (2, 48, 6), "a bias")
        for bias in (torch.ones(5), torch.ones(1), torch.ones(3, 6), torch.ones(2, 5), torch.ones(1, 2, 6), torch.tensor(1.0)):
            refused(ValueError, "bias", product, A, x, bias)
        refused(TypeError, "str", product, "a", x)
        refused(TypeError, "list", product, A, [1])
        refused(TypeError, "float64", product, A, x.double())
        refused(ValueError, "A is (3,)", product, torch.ones(3), x)
    softmax = SparseSoftmax(mask)
    refused(TypeError, "str", softmax, "x")
    refused(TypeError, "int64", softmax, mask.long())
    state = softmax.state_dict()
    for most in (2**31 - 1, 10**6):
        whole = {"pos": torch.tensor([0, 1], dtype=torch.int32), "crd": torch.tensor([0], dtype=torch.int32), "_extra_state": torch.tensor([most] * 4 + [1])}
        try:
            SparseSoftmax(torch.ones(48, 40)).load_state_dict(whole)
        except RuntimeError as error:
            need("checkpoint" in str(error), str(error))
        else:
            raise AssertionError("a checkpoint of any size was taken")
    SparseSoftmax(torch.ones(48, 40)).load_state_dict(state)
    moe = sparta.nn.DynamicSparseMoE([torch.nn.Linear(8, 4) for _ in range(3)])
    ids = torch.zeros(5, 2, dtype=torch.long)
    refused(ValueError, "has to be 8", moe, torch.ones(5, 7), ids)
    refused(TypeError, "exp_ids is a list", moe, torch.ones(5, 8), [0] * 5)
    refused(TypeError, "gates is a list", moe, torch.ones(5, 8), ids, [1.0])
    refused(TypeError, "tokens is a str", moe, "x", ids)
    need(moe.tune(inputs=(torch.ones(5, 8), ids)) == {}, "no other way")


def accepted():
    """Masks of any kind: not contiguous, numbers, NumPy's, sparse; with sizes that blocks do not divide."""
    dense, mask, _ = layer(33, 21)
    x = torch.randn(4, 21)
    turned = torch.empty(21, 33, dtype=torch.uint8).t().copy_(mask)
    for one in (mask, mask.bool(), mask.float() * -3, turned, mask.numpy(), mask.tolist(), mask.float().to_sparse(), mask.float().to_sparse_csr()):
        close(SparseLinear(dense, weight_mask=one)(x), dense(x))


# ---------------------------------------------------------------- convolutions and tables
CONVOLUTIONS = (
    {"kernel_size": 3, "padding": 1}, {"kernel_size": 1}, {"kernel_size": 1, "stride": 2, "bias": False}, {"kernel_size": (3, 2), "stride": (2, 1), "dilation": (1, 2)},
    {"kernel_size": 4, "padding": "same"}, {"kernel_size": 3, "padding": 2, "padding_mode": "circular"}, {"kernel_size": 3, "groups": 2},
)


def convolution(parameters, format):
    dense = torch.nn.Conv2d(8, 12, **parameters)
    if dense.groups > 1 and format is not None:
        return
    mask = block_mask((12, dense.weight[0].numel()), (1, 1), 0.7).view_as(dense.weight)
    sparse = SparseConv2d(dense, weight_mask=mask, format=format)
    with torch.no_grad():
        dense.weight *= mask
    for shape in ((3, 8, 9, 11), (1, 8, 6, 6), (8, 7, 9), (0, 8, 9, 9)):
        ours, theirs = (x.requires_grad_() for x in torch.randn(shape).expand(2, *shape).clone().unbind())
        out, want = sparse(ours), dense(theirs)
        close(out, want, atol=1e-5, rtol=1e-5)
        gradient = torch.randn_like(want)
        sparse.zero_grad()
        dense.zero_grad()
        out.backward(gradient)
        want.backward(gradient)
        close(sparse.get_sparse_indexes().unpack(sparse.values.grad).view_as(mask), dense.weight.grad * mask, atol=1e-4, rtol=1e-4)
    x = torch.randn(2, 8, 9, 11)
    close(sparse.weight, dense.weight)
    for again in (copy.deepcopy(sparse), pickle.loads(pickle.dumps(sparse))):
        close(again(x), dense(x), atol=1e-5, rtol=1e-5)
    if format is None:
        sparse.tune(inputs=x, seconds=0.02)
        close(sparse(x), dense(x), atol=1e-5, rtol=1e-5)
    other = torch.nn.Conv2d(8, 12, **parameters)
    sparse.load_state_dict(other.state_dict())
    with torch.no_grad():
        other.weight *= mask
    close(sparse(x), other(x), atol=1e-5, rtol=1e-5)
    sparse.update_mask(torch.zeros_like(mask))
    close(sparse(x), other(x) * 0 + (0 if other.bias is None else other.bias[:, None, None]))
    refused(ValueError, "SparseConv2d", sparse, torch.randn(2, 7, 9, 9))
    refused(TypeError, "float64", sparse, x.double())
    refused(ValueError, "wanted", sparse.update_mask, mask[1:])
    return sparse.reason


def table():
    dense = torch.nn.Embedding(30, 8, padding_idx=3)
    mask = block_mask((30, 8), (1, 1), 0.5)
    for format in (None, "csr"):
        sparse = SparseEmbedding(dense, weight_mask=mask, format=format)
        ids = torch.randint(0, 30, (4, 5))
        close(sparse(ids), dense(ids) * mask[ids])
        close(sparse(ids.int()), dense(ids) * mask[ids])
        optimizer = torch.optim.SGD(sparse.parameters(), 0.1, momentum=0.9, weight_decay=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            sparse(ids).pow(2).sum().backward()
            optimizer.step()
        need(bool((sparse.weight[mask == 0] == 0).all()), "pruned entries grew back")
        close(copy.deepcopy(sparse)(ids), sparse(ids))
        sparse.load_state_dict(dense.state_dict())
        close(sparse(ids), dense(ids) * mask[ids])
        sparse.tune(inputs=ids)
        sparse.update_mask(torch.zeros_like(mask))
        close(sparse(ids), torch.zeros(4, 5, 8))
    refused(TypeError, "indices", sparse, torch.rand(3))
    refused(ValueError, "max_norm", SparseEmbedding, torch.nn.Embedding(3, 3, max_norm=1.0), weight_mask=torch.ones(3, 3))
    refused(ValueError, "give weight_mask or pattern", SparseEmbedding, dense)
    refused(TypeError, "raw_module", SparseEmbedding, torch.nn.Linear(2, 2), pattern="1x1:0.5")
    refused(TypeError, "raw_module", SparseConv2d, torch.nn.Linear(2, 2), pattern="1x1:0.5")


def per_item():
    """Products and softmax with a mask for each item, compressed and not."""
    mask = block_mask((3, 10, 14), (2, 2), 0.5)
    A, right = torch.randn(3, 10, 14), torch.randn(3, 14, 6)
    want = (A * mask) @ right
    for compressed in (False, True):
        product = SparseBatchMatMul(A_mask=mask, compressed=compressed)
        close(product(product.get_sparse_indexes().pack(A) if compressed else A, right), want)
        close(product(torch.cat((A, A)), torch.cat((right, right))), torch.cat((want, want)))
        product = SparseBatchMatMul(C_mask=mask, compressed=compressed)
        out = product(want, torch.randn(3, 6, 14))
        need(out.shape == ((product.crd.numel(), *product.get_sparse_indexes().block) if compressed else (3, 10, 14)), out.shape)
    close(SparseSoftmax(mask)(A.expand(2, 3, 10, 14)), torch.softmax(A.masked_fill(mask == 0, -1e30), -1).mul(mask).expand(2, 3, 10, 14))
    product = SparseBatchMatMul(A_mask=mask[0], compressed=False)
    close(product(A.expand(2, 3, 10, 14), right.expand(2, 3, 14, 6)), ((A * mask[0]) @ right).expand(2, 3, 10, 6))
    close(product(A[0], right[0]), (A[0] * mask[0]) @ right[0])
    refused(ValueError, "batch of 4", SparseBatchMatMul(A_mask=mask), torch.randn(4, 10, 14), torch.randn(4, 14, 6))
    refused(ValueError, "exactly one", SparseBatchMatMul)
    refused(ValueError, "exactly one", SparseBatchMatMul, mask[0], mask[0])
    refused(ValueError, "B has", product, A, right[:, 1:])
    refused(ValueError, "A is", product, A[..., 1:], right)
    refused(ValueError, "mask of C", SparseBatchMatMul(C_mask=mask[0]), A, right)
    refused(ValueError, "temperature", SparseSoftmax, mask, 0)
    refused(ValueError, "temperature", SparseSoftmax(mask).set_temperature, float("nan"))
    refused(ValueError, "SparseSoftmax", SparseSoftmax(mask), torch.randn(3, 10, 13))
    refused(ValueError, "values", SparseSoftmax(mask, compressed=True), torch.randn(3, 10, 14))


def timed():
    """Every operator is timed in several ways, and right in the one it takes; values that are given packed leave one way."""
    mask = block_mask((24, 16), (4, 4), 0.6)
    x, y = torch.randn(2, 24, 16), torch.randn(2, 16, 8)
    dense = torch.nn.Linear(16, 24)
    inputs = SparseLinear(dense, input_mask=mask)
    outputs = SparseLinear(torch.nn.Linear(16, 16), output_mask=mask)
    for module, given in ((SparseSoftmax(mask), (x,)), (SparseBatchMatMul(A_mask=mask), (x, y)), (SparseBatchMatMul(C_mask=mask), (x, torch.randn(2, 16, 16))),
                          (inputs, (x,)), (outputs, (x,)), (SparseSoftmax(mask, compressed=True), None)):
        given = given or (module.get_sparse_indexes().pack(x),)
        want, blocks = module(*given), module.get_sparse_indexes()
        for backward in (False, True):
            config = module.tune(inputs=given, backward=backward, seconds=0.02)
        got = module(*given)
        if got.dim() == 4:
            got, want = module.get_sparse_indexes().unpack(got), blocks.unpack(want)
        close(got, want, atol=1e-5, rtol=1e-5)
        need(module.ready and set(config) == {"block"}, str(config))
        need(all(p.grad is None for p in module.parameters()), "timing left gradients")
        if not getattr(module, "compressed", False):
            need("us on" in module.reason, module.reason)


def common_ways():
    """What every operator has."""
    mask = block_mask((12, 12), (2, 2), 0.5)
    for module in (SparseSoftmax(mask), SparseBatchMatMul(A_mask=mask), SparseLinear(torch.nn.Linear(12, 12), weight_mask=mask)):
        need(isinstance(module, sparta.nn.OperatorBase) and not module.ready and module.reason, repr(module))
        module.build()
        need(module.ready and type(module).__name__ in repr(module), repr(module))
        again = pickle.loads(pickle.dumps(copy.deepcopy(module)))
        need(torch.equal(again.get_sparse_indexes().mask(), mask.bool()), "another mask")
        again.update_mask(torch.ones(12, 12))
        again.load_state_dict(module.state_dict())
        need(torch.equal(again.get_sparse_indexes().mask(), mask.bool()), "another mask after loading")
        refused(ValueError, "NaN", module.update_mask, mask.float() / 0 * 0)


def call():
    """A call costs at most 1.3 times one of nn.Linear: of several tries, because the machine may be busy."""
    from sparta.nn._race import race

    x, dense = torch.randn(4, 4), torch.nn.Linear(4, 4)
    modules = [dense, SparseLinear(dense, weight_mask=torch.eye(4), format="csr"), SparseLinear(dense, weight_mask=torch.eye(4), format="dense")]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            for _ in range(10):
                times = race([lambda module=module: module(x) for module in modules], seconds=0.1, turns=25)
                ratio = max(times[1:]) / times[0]
                if ratio <= 1.3:
                    return f"{ratio:.2f} of {times[0] * 1e6:.1f} us"
    finally:
        torch.set_num_threads(threads)
    raise AssertionError(f"{ratio:.2f} of {times[0] * 1e6:.1f} us")


def lean():
    """Nothing of torch is imported by `import sparta`; names are found."""
    import subprocess

    subprocess.check_call([sys.executable, "-c", "import sparta, sys; assert 'torch' not in sys.modules; assert 'nn' in dir(sparta); sparta.nn.SparseLinear; sparta.nn.tune"],
                          env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(sparta.__file__))})
    refused(AttributeError, "no attribute", getattr, sparta, "nothing")


def examples(name):
    result = doctest.testmod(importlib.import_module(name))
    need(result.attempted and not result.failed, f"{result.failed} of {result.attempted} examples failed")


for format in FORMATS:
    tests.check(f"shapes of inputs {format}", shapes, format)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        tests.check(f"dtype {dtype} {format}", dtypes, dtype, format)
    for name, make in OPTIMIZERS.items():
        tests.check(f"trains {name} {format}", trains, make, format)
    tests.check(f"gradcheck {format}", double_gradient, format)
    tests.check(f"torch.func {format}", functions, format)
    tests.check(f"saved {format} into csr", saved, format, "csr")
    tests.check(f"saved {format} into dense", saved, format, "dense")
for parameters in CONVOLUTIONS:
    for format in (None, "csr", "bsr(4,4)"):
        tests.check(f"convolution {parameters} {format}", convolution, parameters, format)
for check in (call, timed, table, per_item, common_ways, autocast, patterns, decided, dense_checkpoint, safetensors, hostile, grows, saved_between, forgets_times, dirty, refusals, other_refusals, accepted, lean):
    tests.check(check.__name__.replace("_", " "), check)
for name, make in OPTIMIZERS.items():
    tests.check(f"masks that change {name}", new_masks, make, False)
    tests.check(f"masks that change, optimizer given, {name}", new_masks, make, True)
for name in ("conv", "embedding", "linear", "matmul", "moe", "softmax"):
    tests.check(f"examples of sparta.nn.{name}", examples, f"sparta.nn.{name}")
for name in ("sparta.testing",):
    tests.check(f"examples of {name}", examples, name)
sys.exit(tests.finish())
