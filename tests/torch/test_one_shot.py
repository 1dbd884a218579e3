"""Pruning after training: magnitude, Wanda and SparseGPT against what they say on paper, and against the published order of their errors."""

import copy
import doctest
import importlib
import json
import math
import os
import sys

import torch
from torch import nn

from common import Tests, need, program, refused

from sparta.masked import Masked
from sparta.patterns import Pattern
from sparta.prune import one_shot
from sparta.prune.one_shot import _by_rows, _factor, _of_each, _sparsegpt

PATTERNS = ("1x1:0.5", "2:4", "2:4@out", "4x1:0.75", "16x4:0.5", "rows:0.25", "cols:0.25")


def published(w, h, sparsity=None, keep=0, of=0):
    """SparseGPT as its authors write it (cholesky, cholesky_inverse, cholesky; 128 columns at a time), in double, for 1x1 and n:m."""
    w, h = w.double().clone(), h.double().clone()
    h.diagonal().add_(0.01 * h.diagonal().mean())
    hinv = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    for i1 in range(0, w.shape[1], 128):
        i2 = min(i1 + 128, w.shape[1])
        w1, h1 = w[:, i1:i2].clone(), hinv[i1:i2, i1:i2]
        q1, e1 = torch.zeros_like(w1), torch.zeros_like(w1)
        gone = torch.zeros_like(w1, dtype=torch.bool)
        if sparsity is not None:
            score = w1**2 / h1.diagonal() ** 2
            gone = score <= score.flatten().sort().values[int(score.numel() * sparsity) - 1]
        for i in range(i2 - i1):
            if of and i % of == 0:
                score = w1[:, i : i + of] ** 2 / h1.diagonal()[i : i + of] ** 2
                gone.scatter_(1, i + torch.topk(score, of - keep, dim=1, largest=False).indices, True)
            q = w1[:, i].clone()
            q[gone[:, i]] = 0
            q1[:, i] = q
            e = (w1[:, i] - q) / h1[i, i]
            w1[:, i:] -= e[:, None] * h1[i, i:]
            e1[:, i] = e
        w[:, i1:i2] = q1
        w[:, i2:] -= e1 @ hinv[i1:i2, i2:]
    return w


def inputs(k=200, count=600):
    torch.manual_seed(0)
    return torch.randn(count, k) @ (torch.randn(k, k) / math.sqrt(k) + torch.eye(k))


def as_published():
    x = inputs()
    w, h = torch.randn(64, 200), x.T @ x
    for pattern, said in (("1x1:0.5", {"sparsity": 0.5}), ("2:4", {"keep": 2, "of": 4})):
        stays, got = _sparsegpt(w, h, Pattern.parse(pattern))
        want = published(w, h, **said)
        need(float((stays != (want != 0)).float().mean()) < 1e-3, f"{pattern}: other elements")
        same = (got != 0) == (want != 0)
        rows = same.all(1)
        need(int(rows.sum()) > 50, f"{pattern}: {int(rows.sum())} rows alike")
        torch.testing.assert_close(got[rows].double(), want[rows], atol=2e-3, rtol=2e-3)


def factored():
    for k in (40, 530):
        x = inputs(k, 2 * k).double()
        h = x.T @ x
        u = _factor(h.float()).double()
        damped = h + 0.01 * h.diagonal().mean() * torch.eye(k, dtype=torch.float64)
        torch.testing.assert_close(u.T @ u, torch.linalg.inv(damped), atol=1e-5, rtol=1e-3)
        need(bool((u.tril(-1) == 0).all()), "U is upper")


def groups():
    """Compared with each other, the same stay as when they are sorted, equals too; the last group may be cut off."""
    torch.manual_seed(0)
    for text in ("2:4", "1:2", "3:8", "5:16", "4:32"):
        pattern = Pattern.parse(text)
        for size in (pattern.of, pattern.of - 1):
            worth = torch.randint(0, 4, (size, 200)).float()
            need(torch.equal(_of_each(worth, pattern), pattern.stays(worth.T).T), f"{text}, {size}")


def wanda_by_hand():
    """Scores of row 0: 1*4, 2*1, 3*1, 4*0; of row 1: 8*4, 1*1, 1*1, 9*0. Two of each row go, although all of row 1 is larger than some of row 0."""
    model = nn.Sequential(nn.Linear(4, 2, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 2.0, 3.0, 4.0], [8.0, 1.0, 1.5, 9.0]]))
    one_shot(model, torch.tensor([[4.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]), "wanda", "1x1:0.5")
    need(model[0].weight.tolist() == [[1, 0, 3, 0], [8, 0, 1.5, 0]], str(model[0].weight))
    # rows of blocks: ragged edges count what they hold. The first row must lose 5 and loses 8, which is all that both must.
    stays = _by_rows(Pattern.parse("2x2:0.5"), torch.arange(15.0).reshape(3, 5))
    need(stays[:2].sum(1).tolist() == [1, 1] and bool(stays[2].all()), str(stays))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 10))


def order_of_methods():
    """SparseGPT changes the outputs of layers least, then Wanda, then magnitude; every pattern is kept, and exactly."""
    x = inputs(64, 512)
    for pattern in PATTERNS:
        error = {}
        for method in ("magnitude", "wanda", "sparsegpt"):
            model = net()
            rows = one_shot(model, list(x.split(128)), method, pattern, max_memory=1 << 18)
            p = Pattern.parse(pattern)
            for row in rows:
                m = model.get_submodule(row["name"])
                need(isinstance(m, Masked) and not m.weight[~m.weight_mask].any(), "a pruned weight is not 0")
                stays = m.weight_mask.double()
                if p.of:
                    lines = nn.functional.pad(stays.T if p.along_out else stays, (0, -stays.shape[0 if p.along_out else 1] % p.of))
                    need(bool((lines.unflatten(-1, (-1, p.of)).sum(-1) <= p.keep).all()), f"{method} {pattern}")
                else:
                    mean, _ = p.blocks(stays)
                    need(bool(((mean == 0) | (mean == 1)).all()) and row["density"] <= 1 - p.sparsity + 1e-9, f"{method} {pattern}: {row}")
                need(0 < row["norm_kept"] <= 1 and row["error"] is not None, str(row))
            error[method] = rows[0]["error"]
        # Of whole rows nothing stays that could make up for what goes.
        need(pattern.startswith("rows") or (error["sparsegpt"] < error["wanda"] * 1.001 and error["sparsegpt"] < error["magnitude"]), f"{pattern}: {error}")
    need("norm kept" in str(rows), str(rows))


def bounded():
    """Whatever the memory, every layer is pruned; later groups meet what the pruned ones give."""
    x = inputs(64, 256)
    told = []
    small, large = net(), net()
    rows = one_shot(small, x, "sparsegpt", "2:4", max_memory=1, progress=lambda *said: told.append(said))
    one_shot(large, x, "sparsegpt", "2:4")
    need([r["name"] for r in rows] == ["0", "2", "4"] and told[-1] == (3, 3, "4"), str(told))
    need(torch.equal(small[0].weight, large[0].weight) and not torch.equal(small[2].weight, large[2].weight), "the second layer met the same")
    worth = lambda m: float((m(x) - net()(x)).detach().norm())
    need(worth(small) < worth(large) * 1.1, f"{worth(small)} {worth(large)}")


def rounded_once():
    """Rows of blocks and panels of columns do not each round up: no layer loses a block more than it must."""
    for method, pattern, shape in (
        ("sparsegpt", "64x64:0.9", (256, 1024)),
        ("sparsegpt", "16x48:0.9", (40, 300)),
        ("wanda", "32x32:0.9", (768, 256)),
        ("wanda", "4x1:0.99", (512, 64)),
        ("wanda", "16x48:0.9", (40, 300)),
    ):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(shape[1], shape[0]))
        one_shot(model, torch.randn(16, shape[1]), method, pattern)
        p = Pattern.parse(pattern)
        gone = int((~model[0].weight_mask).sum()) - p.sparsity * math.prod(shape)
        need(-1e-6 <= gone < math.prod(p.block), f"{method} {pattern} of {shape}: {gone:g} elements too many")


def others():
    """Convolutions by magnitude, tied weights, inputs that are never there, weights in bfloat16."""
    conv = nn.Sequential(nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 8))
    rows = one_shot(conv, None, "magnitude", "4x1:0.5")
    need([r["density"] for r in rows] == [0.5, 0.5] and rows[0]["error"] is None, str(rows))
    tied = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    tied[2].weight = tied[0].weight
    rows = one_shot(tied, torch.randn(8, 16), "wanda", "2:4")
    need(len(rows) == 1 and torch.equal(tied[0].weight_mask, tied[2].weight_mask), "a tied weight")
    x = torch.randn(64, 64)
    x[:, :7] = 0
    dead = net()
    one_shot(dead, x, "sparsegpt", "1x1:0.5")
    need(not dead[0].weight[:, :7].any() and bool(dead[0].weight.isfinite().all()), "inputs that are always 0")
    few = net()  # fewer inputs than features: H has no full rank
    one_shot(few, torch.randn(3, 64), "sparsegpt", "2:4")
    need(bool(few[0].weight.isfinite().all()), "few inputs")
    half = net().bfloat16()
    one_shot(half, torch.randn(32, 64).bfloat16(), "sparsegpt", "2:4")
    need(half[0].weight.dtype == torch.bfloat16, "bfloat16")


def in_c(tests):
    """`sparta prune` has its own C for the same: the same elements stay, and nearly the same numbers."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    x = inputs(64, 512)
    path = lambda name: os.path.join(tests.work.name, name)
    torch.onnx.export(net().eval(), (x,), path("net.onnx"), dynamo=True, verbose=False, input_names=["x"], dynamic_shapes={"input": {0: "batch"}})
    np.savez(path("calib.npz"), x=x.numpy())
    for pattern in (*PATTERNS, "8x72:0.6"):  # the last in two panels
        for method in ("wanda", "sparsegpt"):
            model = net()
            rows = one_shot(model, x, method, pattern)
            said = program("prune", path("net.onnx"), "--pattern", pattern, "--method", method, "--data", path("calib.npz"), "-o", path("p.onnx"), "--json")
            need(said.returncode == 0, said.stderr)
            errors = [row["error"] for row in json.loads(said.stdout)["layers"] if not row["left"]]
            need(all(abs(a - row["error"]) < 0.01 + 0.02 * a for a, row in zip(errors, rows, strict=True)), f"{method} {pattern}: {errors} {rows}")
            weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in onnx.load(path("p.onnx")).graph.initializer}
            for row in rows:
                want = model.get_submodule(row["name"]).weight.detach()
                got = weights[f"{row['name']}.weight"]
                differ = float(((got != 0) != (want != 0)).float().mean())
                need(differ < 0.01, f"{method} {pattern}: {row['name']}: {differ:.3%} of the elements differ")
                if differ == 0:
                    torch.testing.assert_close(got, want, atol=5e-3, rtol=5e-3)


def refusals():
    model = net()
    before = copy.deepcopy(model.state_dict())
    bad = torch.randn(4, 64)
    bad[0, 0] = math.nan
    for words, said in (
        ("method 'obs' is not known", (bad, "obs")),
        ("give data", (None, "wanda")),
        ("does not run on the example inputs", (torch.randn(4, 63), "wanda")),
        ("does not run on the example inputs", ([torch.randn(4, 64), torch.randn(4, 63)], "wanda")),
        ("'0' meets inputs that are not finite", (bad, "sparsegpt")),
        ("is no pattern", (bad, "wanda", "4y1:0.5")),
        ("would become empty", (bad, "wanda", "rows:1.0")),
        ("no layer is left", (bad, "wanda", "512x512:0.5")),
        ("'0' would become empty at threshold(9)", (None, "magnitude", "threshold(9)")),
        ("is a magnitude", (bad, "wanda", "threshold(0.1)")),
    ):
        refused(ValueError, words, one_shot, model, *said)
    refused(ValueError, "no layer is named", one_shot, model, excluded=["head"])
    refused(TypeError, "torch.nn.Module", one_shot, 3)
    need(list(model.state_dict()) == list(before) and all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values())), "it was changed")
    with torch.no_grad():
        model[2].weight[0, 0] = math.inf
    refused(ValueError, "the weight of '2' is not finite", one_shot, model, torch.randn(4, 64), "wanda")
    need(not any(isinstance(m, Masked) for m in model.modules()), "it was masked")
    apart = nn.Sequential(nn.Linear(8, 8))
    apart.aside = nn.ModuleList([nn.Linear(8, 8)])
    apart.forward = lambda x: apart[0](x)
    refused(ValueError, "the data does not reach 'aside.0'", one_shot, apart, torch.randn(2, 8), "wanda")
    apart.forward = lambda x: apart[0](x) if len(x) == 2 else apart.aside[0](apart[0](x))
    need(len(one_shot(apart, [torch.randn(2, 8), torch.randn(3, 8)], "wanda", "2:4")) == 2, "the second batch reaches it")


def documents():
    module = importlib.import_module("sparta.prune.one_shot")
    failed, tried = doctest.testmod(module, extraglobs={"torch": torch, "nn": nn})
    need(tried and not failed, f"{failed} of {tried}")


def main():
    tests = Tests()
    tests.check("SparseGPT as it was published", as_published)
    tests.check("the factor of the inverse", factored)
    tests.check("n:m within SparseGPT", groups)
    tests.check("Wanda by hand", wanda_by_hand)
    tests.check("every pattern; SparseGPT, Wanda, magnitude", order_of_methods)
    tests.check("bounded memory", bounded)
    tests.check("sparsity is rounded once", rounded_once)
    tests.check("convolutions, tied weights, dead inputs", others)
    tests.check("the program's own", in_c, tests)
    tests.check("what is refused", refusals)
    tests.check("examples in documents", documents)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
