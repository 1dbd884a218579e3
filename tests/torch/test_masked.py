"""Masks by pattern, against the C pruner; and the training form: pruned weights stay 0, everything else is as torch has it."""

import copy
import doctest
import io
import os
import pickle
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.autograd import forward_ad as fwAD

from common import Tests, need, program, refused

import sparta  # common.py says where it is
from sparta import masked, patterns

tests = Tests()
torch.manual_seed(0)
PATTERNS = ["4x1:0.9", "1x1:0.8", "8x8:0.7", "16x4:0.5", "3x5:0.33", "2:4", "2:4@out", "3:7", "rows:0.5", "cols:0.5", "1x1:0", "1x1:1"]


# ---------------------------------------------------------------- patterns
def zoo(*more):
    path = os.path.join(tests.work.name, "zoo.onnx")
    sizes = ("--dim", "inputs=70", "--dim", "hidden1=33", "--dim", "hidden2=20")
    program("zoo", "mlp", "-o", path, *sizes, *more, check=True)
    return {t.name: torch.tensor(numpy_helper.to_array(t)) for t in onnx.load(path).graph.initializer if t.name in ("fc1.weight", "fc2.weight")}


def as_zoo():
    dense = zoo()
    for pattern in PATTERNS:
        parsed = patterns.Pattern.parse(pattern)
        for name, weight in zoo("--prune", pattern).items():
            if parsed.fits(weight.shape):
                mask = patterns.mask(dense[name], pattern)
                need(torch.equal(torch.where(mask, dense[name], 0), weight), f"{pattern} of {name} keeps others than the C pruner")


def as_schedule():
    """Weights with many equal magnitudes, NaN excluded; the product with the identity is the weight."""
    weight = torch.randint(-3, 4, (23, 18), generator=torch.Generator().manual_seed(3)).float()
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [18, 18])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [18, 23])],
        [numpy_helper.from_array(weight.numpy(), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    for text in (
        "magnitude(pattern=4x1, sparsity=0.6)",
        "magnitude(2:4)",
        "magnitude(2:4@out)",
        "magnitude(rows, 0.4)",
        "threshold(1.5)",
        "magnitude(1x1, 0.7)",
    ):
        s = sparta.Schedule()
        s["w"].sparsify(text)
        y = sparta.compile(model, schedule=s, no_measure=1, context={"cache_dir": "", "compiler": ""}).run({"x": np.eye(18, dtype=np.float32)})["y"]
        need(torch.equal(torch.tensor(y).T, torch.where(patterns.mask(weight, text), weight, 0)), f"{text} keeps others than compile")


def convolutions():
    w = torch.randn(8, 6, 3, 3)
    need(patterns.mask(w, "rows:0.5").flatten(1).any(1).sum() == 4, "rows are whole filters")
    need(patterns.mask(w, "cols:0.5").transpose(0, 1).flatten(1).any(1).sum() == 3, "cols are whole input channels")
    need((patterns.mask(w, "2:4@out").unflatten(0, (2, 4)).sum(1) == 2).all(), "2:4@out at each place")
    need(torch.equal(patterns.mask(w, "4x1:0.5").flatten(1), patterns.mask(w.flatten(1), "4x1:0.5")), "4x1 is 4x1 of the rolled out weight")


def bad_patterns():
    for text in (
        "",
        "4x1",
        "4x1:2",
        "0x1:0.5",
        "5:4",
        "2:4:0.5",
        "heads:0.5",
        "magnitude()",
        "magnitude(4x1,0.9,3)",
        "threshold(-1)",
        "4x1:nan",
        "x:y",
        "9999999x1:0.5",
    ):
        refused(ValueError, "", patterns.Pattern.parse, text)
    refused(TypeError, "text", patterns.Pattern.parse, 4)
    refused(ValueError, "dimensions", patterns.mask, torch.ones(4), "2:4")
    refused(TypeError, "floats", patterns.mask, torch.ones(4, 4, dtype=torch.int32), "2:4")
    odd = torch.randn(4, 4)
    odd[1, 2] = float("nan")
    need(patterns.mask(odd, "1x1:0.9")[1, 2], "NaN stays as long as any")


# ---------------------------------------------------------------- modules
def layers():
    yield nn.Linear(12, 8), torch.randn(5, 12)
    yield nn.Conv2d(4, 8, 3, padding=1), torch.randn(2, 4, 6, 6)
    yield nn.Embedding(16, 8), torch.randint(0, 16, (3, 7))
    yield nn.Embedding(16, 8, sparse=True), torch.randint(0, 16, (3, 7))


def by_hand(layer, mask, x):
    """Output and gradient of an ordinary module with the masked weight."""
    dense = copy.deepcopy(layer)
    with torch.no_grad():
        dense.weight *= mask
    y = dense(x)
    y.square().sum().backward()
    grad = dense.weight.grad.to_dense() if dense.weight.grad.is_sparse else dense.weight.grad
    return y, grad * mask


def bits():
    """Where bits stand in for torch.where: the same, to the last one, in every type; and so are its gradients, and theirs."""
    stays = torch.tensor([[True, False, True], [False, True, False]])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.tensor([[1.5, float("nan"), float("-inf")], [float("inf"), -0.0, -3.0]], dtype=dtype)
        want = torch.where(stays, x, 0)
        for view, mask, right in ((x, stays, want), (x.T, stays.T, want.T)):
            got = view.clone()
            masked.keep_(got, mask)
            for y in (got, masked.hide(view, mask)):
                need(torch.equal(y, right) and torch.equal(y.signbit(), right.signbit()), f"{dtype}: {y}")
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    need(torch.autograd.gradcheck(lambda x: masked.hide(x, stays), x), "gradient")
    need(torch.autograd.gradgradcheck(lambda x: masked.hide(x, stays) ** 2, x), "gradient of the gradient")
    many = torch.func.vmap(torch.func.grad(lambda x: (masked.hide(x, stays) ** 2).sum()))(torch.ones(4, 2, 3))
    need(torch.equal(many, (2.0 * stays).expand(4, 2, 3)), "vmap of grad")


def gradients_of_gradients():
    """Of an owned weight, whose gradient is changed in place where nobody else sees it: forward over reverse, many at once, and with the negative bit
    set they are what torch.where gives."""
    stays = torch.tensor([[True, False, True], [False, True, False]])
    own, where = (lambda w: masked.hide(w, stays, True)), (lambda w: torch.where(stays, w, 0))
    w, tangent = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)

    def forward_over_reverse(f):
        with fwAD.dual_level():
            x = fwAD.make_dual(w.clone().requires_grad_(), tangent)
            grad = fwAD.unpack_dual(torch.autograd.grad((f(x) + 1).pow(3).sum(), x)[0])
            return torch.stack([grad.primal.detach(), grad.tangent.detach()])

    def from_outside(f):  # the tangent comes with the gradient alone
        x = w.clone().requires_grad_()
        y = f(x)
        with fwAD.dual_level():
            grad = fwAD.unpack_dual(torch.autograd.grad(y, x, fwAD.make_dual(torch.ones_like(w), tangent))[0])
            return torch.stack([grad.primal, grad.tangent])

    def batched(f):
        x = w.clone().requires_grad_()
        return torch.autograd.grad(f(x), x, torch.arange(24, dtype=torch.float64).view(4, 2, 3), is_grads_batched=True)[0]

    def negative(f):
        x = w.clone().requires_grad_()
        grad = torch.complex(w, tangent).conj().imag
        need(grad.is_neg(), "no negative bit")
        return torch.autograd.grad(f(x), x, grad)[0]

    vectorized = lambda f: torch.autograd.functional.jacobian(lambda w: f(w).pow(2), w, vectorize=True)
    hessian = lambda f: torch.autograd.functional.hessian(lambda w: f(w).pow(3).sum(), w, vectorize=True)
    for way in (forward_over_reverse, from_outside, batched, negative, vectorized, hessian):
        need(torch.equal(way(own), way(where)), f"{way.__name__}: {way(own)}, torch.where's {way(where)}")
    minus = torch.complex(w, tangent).conj().imag
    kept = minus.clone()
    masked.keep_(minus, stays)
    need(torch.equal(minus, where(kept)) and torch.equal(masked.hide(torch.complex(w, tangent).conj().imag, stays), where(-tangent)), "the negative bit")


def forward_and_gradient():
    for layer, x in layers():
        mask = patterns.mask(layer.weight, "4x1:0.75")
        want, grad = by_hand(layer, mask, x)
        weight, names = layer.weight, [n for n, _ in layer.named_parameters()]
        need(masked.mask_(layer, mask) is layer and layer.weight is weight, "not the same Parameters")
        need([n for n, _ in layer.named_parameters()] == names, "not the same names")
        got = layer(x)
        got.square().sum().backward()
        have = layer.weight.grad.to_dense() if layer.weight.grad.is_sparse else layer.weight.grad
        need(torch.allclose(got, want, atol=1e-6) and torch.allclose(have, grad, atol=1e-5), f"{layer}: another answer or gradient")
        with torch.no_grad():
            for got in (layer(x), layer.eval()(x)):
                need(torch.allclose(got, want, atol=1e-6), f"{layer}: another answer outside of training")
        plain = masked.unmask_(layer)
        need(type(plain) in (nn.Linear, nn.Conv2d, nn.Embedding) and "weight_mask" not in plain.state_dict(), "unmask_")
        need(torch.allclose(plain(x), want, atol=1e-6), "unmask_: another answer")


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.1),
    "adamw fused": lambda p: torch.optim.AdamW(p, 0.1, fused=True),
    "adamw foreach": lambda p: torch.optim.AdamW(p, 0.1, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.1, momentum=0.9),
}


def stays_zero(make):
    """Momentum that was there before the mask is what makes pruned weights grow back."""
    layer, x = nn.Linear(12, 8), torch.randn(5, 12)
    optimizer = make(layer.parameters())

    def step():
        optimizer.zero_grad()
        layer(x).square().sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    mask = patterns.mask(layer.weight, "4x1:0.5")
    masked.mask_(layer, mask)
    before = layer.weight.detach().clone()
    for _ in range(3):
        step()
        need(not layer.weight[~mask].any(), "a pruned weight grew back")
    need((layer.weight[mask] != before[mask]).all(), "the others do not train")
    back = ~mask
    layer.update_mask(back)
    need(not layer.weight.any(), "elements that come back begin at 0")
    step()
    need(layer.weight[back].any() and not layer.weight[mask].any(), "after another mask")


def states():
    layer, x = nn.Linear(12, 8), torch.randn(5, 12)
    dense = copy.deepcopy(layer)
    masked.mask_(layer, patterns.mask(layer.weight, "4x1:0.5"))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = masked.mask_(nn.Linear(12, 8), torch.ones(8, 12))
    other.load_state_dict(torch.load(file, weights_only=True))
    need(torch.equal(other(x), layer(x)) and torch.equal(other.weight_mask, layer.weight_mask), "its own state")
    other = masked.mask_(nn.Linear(12, 8), layer.weight_mask)
    other.load_state_dict(dense.state_dict())
    need(torch.equal(other(x), layer(x)) and not other.weight[~other.weight_mask].any(), "a dense state, masked as it is here")
    other.load_state_dict({"weight": dense.weight, "bias": dense.bias, "weight_mask": torch.ones(8, 12)}, assign=True)
    need(other.weight_mask.dtype == torch.bool and torch.equal(other(x), dense(x)), "assigned")
    bad = {**layer.state_dict(), "weight_mask": torch.full((8, 12), float("nan"))}
    refused_load("NaN", other, bad)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        optimizer = torch.optim.SGD(twin.parameters(), 0.1, momentum=0.9)
        optimizer.zero_grad()
        twin.weight.grad = torch.ones_like(twin.weight)
        optimizer.step()
        need(not twin.weight[~twin.weight_mask].any() and twin.weight is not layer.weight, "a copy is held at 0, too")
    need(layer.double()(x.double()).dtype == torch.float64 and layer.weight_mask.dtype == torch.bool, "double")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        need(layer.float()(x).dtype == torch.bfloat16, "autocast")
    with torch.no_grad():
        layer.weight.fill_(float("inf"))
    layer.eval()
    need(not layer.weight[~layer.weight_mask].any(), "eval() sets pruned weights to 0")


def refused_load(words, model, state):
    """torch's message has several lines."""
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        need(words in str(error), str(error))
        return
    raise AssertionError("it was accepted")


def in_blocks():
    """Training in blocks is training with the masked weight: answers, gradients, other masks, copies, states; and gradcheck in float64."""
    for rows, cols, pattern, block in (
        (32, 24, "4x1:0.75", (4, 1)),
        (30, 17, "1x1:0.5", (4, 1)),
        (10, 12, "2:4", (1, 1)),
        (16, 16, "8x8:0.5", (8, 8)),
        (6, 5, "1x1:1", (2, 1)),
    ):
        layer, x = nn.Linear(cols, rows), torch.randn(2, 7, cols)
        masked.mask_(layer, patterns.mask(layer.weight, pattern))
        twin = copy.deepcopy(layer)
        twin.train_in(block)

        def compare(a, b, x=x):
            answers = []
            for m in (a, b):
                m.zero_grad()
                y = m(x)
                y.square().sum().backward()
                answers.append((y, m.weight.grad, m.bias.grad))
            for got, want in zip(*answers):
                torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)

        compare(twin, layer)
        need(not twin.weight.grad[~twin.weight_mask].any(), "a gradient where nothing is")
        for other in (copy.deepcopy(twin), pickle.loads(pickle.dumps(twin))):
            compare(other, layer)
        for m in (layer, twin):
            m.update_mask(~m.weight_mask)
            with torch.no_grad():
                m.weight[m.weight_mask] = 0.5
        compare(twin, layer)
        other = masked.mask_(nn.Linear(cols, rows), torch.ones(rows, cols))
        other.train_in(block)
        other.load_state_dict(layer.state_dict())
        compare(other, layer)
        optimizer = torch.optim.SGD(twin.parameters(), 0.1, momentum=0.9, weight_decay=0.1)
        optimizer.step()
        need(not twin.weight[~twin.weight_mask].any(), "a pruned weight grew back")
        precise = copy.deepcopy(twin).double()
        need(
            torch.autograd.gradcheck(
                lambda x, w, m=precise: torch.func.functional_call(m, {"weight": w}, (x,)),
                (x[:, :2].double().requires_grad_(), precise.weight.detach().clone().requires_grad_()),
            ),
            "gradcheck",
        )


def bad_masks():
    layer = nn.Linear(12, 8)
    refused(ValueError, "(3, 3)", masked.mask_, layer, torch.ones(3, 3))
    refused(ValueError, "NaN", masked.mask_, layer, torch.full((8, 12), float("nan")))
    refused(TypeError, "mask", masked.mask_, layer, object())
    refused(TypeError, "mask", masked.mask_, layer, [["a"] * 12] * 8)
    refused(TypeError, "neither yes nor no", masked.mask_, layer, torch.ones(8, 12, dtype=torch.complex64))
    refused(TypeError, "no masked form", masked.mask_, nn.ReLU(), torch.ones(1))
    need(type(layer) is nn.Linear and list(layer.state_dict()) == ["weight", "bias"], "half-changed")
    masked.mask_(layer, torch.eye(8, 12).to_sparse())
    need(torch.equal(layer.weight_mask, torch.eye(8, 12) != 0), "a sparse mask")
    for wrong in ("mask", {"a": 1}, torch.ones(8, 12, dtype=torch.complex64)):
        refused_load("weight_mask", layer, {**layer.state_dict(), "weight_mask": wrong})
    refused_load("weight_mask", layer, {**layer.state_dict(), "weight_mask": [[1] * 12] * 8})


def documents():
    for module in (patterns, masked):
        failed, tried = doctest.testmod(module)
        need(tried and not failed, f"{module.__name__}: {failed} of {tried}")


tests.check("patterns: as sparta zoo --prune", as_zoo)
tests.check("patterns: as a schedule, with equals", as_schedule)
tests.check("patterns: convolutions", convolutions)
tests.check("patterns: bad texts and weights", bad_patterns)
tests.check("masked: forward and gradient", forward_and_gradient)
tests.check("masked: bits", bits)
tests.check("masked: gradients of gradients", gradients_of_gradients)
for name, make in OPTIMIZERS.items():
    tests.check(f"masked: pruned weights stay 0, {name}", stays_zero, make)
tests.check("masked: states, copies, dtypes", states)
tests.check("masked: training in blocks", in_blocks)
tests.check("masked: bad masks", bad_masks)
tests.check("examples in documents", documents)
sys.exit(tests.finish())
