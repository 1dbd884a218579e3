"""The two stages of a whole model: sparsify_, build_, unbuild_, report, tune; states of each form in each other; tied weights."""

import contextlib
import copy
import doctest
import io
import json
import os
import pickle
import random
import sys
import threading
import time
import types
import warnings

import torch
from torch import nn
from torch.nn.utils import prune

from common import Tests, need, refused

import sparta  # common.py says where it is
from sparta import _layers, _quiet, _times, stages, tuning
from sparta.masked import Masked, MaskedConv2d, MaskedEmbedding, MaskedLinear
from sparta.nn import SparseLinear, _race
from sparta.nn._race import race

tests = Tests()
rng = random.Random(0)
work = os.environ["XDG_CACHE_HOME"] = tests.work.name
torch.manual_seed(0)
TIMES = tuning._times
tuning.SECONDS = 0.01


def blocks_win(module, mask, tried, met, backward_weight, grads, quiet):
    """Times as if blocks were always faster: what build_ then makes does not hang on the machine."""
    return {tuning.word(way): 1000.0 if way == "dense" else 100.0 + i for i, way in enumerate(tried)}


def dense_wins(module, mask, tried, met, backward_weight, grads, quiet):
    return {tuning.word(way): 10.0 if way == "dense" else 100.0 for way in tried}


def pretend(times):
    """From here on, layers take these times; none is remembered."""
    tuning._times = times
    path = os.path.join(work, "sparta", "torch-times.json")
    if os.path.exists(path):
        os.remove(path)


def mlp():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32, bias=False), nn.BatchNorm1d(32), nn.Linear(32, 10)).eval()


X = torch.randn(16, 64)


def same(got, want, what, atol=1e-5):
    need(torch.allclose(got, want, atol=atol, rtol=1e-4), f"{what}: off by {float((got - want).detach().abs().max())}")


# ---------------------------------------------------------------- sparsify_
def sparsify():
    model = mlp()
    weights = [p for p in model.parameters()]
    need(sparta.sparsify_(model, "4x1:0.75") is model and all(a is b for a, b in zip(weights, model.parameters())), "not the same Parameters")
    need([type(m) for m in model] == [MaskedLinear, nn.ReLU, MaskedLinear, nn.BatchNorm1d, MaskedLinear], str(model))
    rows = sparta.report(model)
    need([r["name"] for r in rows] == ["0", "2", "4"] and abs(rows[0]["density"] - 0.25) < 0.01 and rows[0]["pattern"] == "4x1", str(rows))
    sparta.sparsify_(model, {"0": "4x1:0.9"})
    need(abs(sparta.report(model)[0]["density"] - 0.1) < 0.01, "pruned on")
    model = sparta.sparsify_(mlp(), {"*": "4x1:0.5", "4": None})
    need(isinstance(model[0], Masked) and type(model[4]) is nn.Linear, "None leaves a layer dense")
    model = sparta.sparsify_(mlp(), {"0.weight": torch.eye(48, 64), "2": lambda w: w > 0})
    need(torch.equal(model[0].weight_mask, torch.eye(48, 64) != 0) and (model[2].weight >= 0).all(), "masks and functions")
    pruned = mlp()
    with torch.no_grad():
        pruned[2].weight[:, ::2] = 0
    need(isinstance(sparta.sparsify_(pruned)[2], Masked) and type(pruned[0]) is nn.Linear, "exact zeros are the mask")
    small = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 2))
    need(type(sparta.sparsify_(small, "4x1:0.5")[1]) is nn.Linear, "a block does not fit")
    model = nn.Sequential(nn.Embedding(12, 8), nn.Conv2d(4, 8, 3), nn.Linear(8, 8))
    sparta.sparsify_(model, "4x1:0.5")
    need([type(m) for m in model] == [nn.Embedding, MaskedConv2d, MaskedLinear], str(model))
    need(isinstance(sparta.sparsify_(model, {"0": "rows:0.5"})[0], MaskedEmbedding), "a named table")
    sparta.build_(model)
    need(all(row["reason"] for row in sparta.report(model)), "a reason each")


def bad_sparsify():
    model = mlp()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    for kind, words, what in (
        (ValueError, "near it", {"0": "4x1:0.5", "fc1": "4x1:0.5"}),
        (ValueError, "no pattern", {"0": "4x1:0.5", "2": "4y1"}),
        (ValueError, "different things", {"0": "4x1:0.5", "*": "2:4"}),
        (ValueError, "(3, 3)", {"0": "4x1:0.5", "2": torch.ones(3, 3)}),
        (ValueError, "fits", {"4": "16x1:0.5"}),
        (ValueError, "fits", "128x1:0.5"),
        (TypeError, "pattern", 7),
        (ValueError, "zeros", None),
        (ValueError, "NaN", {"0": torch.full((48, 64), float("nan"))}),
        (TypeError, "text", {3: "2:4"}),
        (ValueError, "names no layer", {}),
        (ValueError, "another model", sparta.create_schedule(mlp(), 'tensor "0.weight" { sparsify magnitude(4x1, 0.75) }')),
    ):
        refused(kind, words, sparta.sparsify_, model, what)
        need(
            not any(isinstance(m, Masked) for m in model.modules()) and all(torch.equal(before[k], v) for k, v in model.state_dict().items()),
            f"{what}: half-changed",
        )
    refused(TypeError, "Module", sparta.sparsify_, 3, "2:4")
    stored = nn.Sequential(nn.Linear(16, 16))
    stored[0].weight = nn.Parameter(stored[0].weight.detach().to_sparse_csr())
    refused(TypeError, "to_dense()", sparta.sparsify_, stored, "4x1:0.5")
    refused(ValueError, "example inputs", sparta.sparsify_, model, "4x1:0.5", torch.ones(3, 5))
    need(not any(isinstance(m, Masked) for m in model.modules()), "half-changed")
    for function in (sparta.build_, sparta.report, sparta.unbuild_):
        refused(TypeError, "Module", function, 3)


class Scaled(nn.Embedding):
    """As Gemma and BART have it."""

    def forward(self, ids):
        return 4 * super().forward(ids)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.inner, self.head = nn.Embedding(40, 16), nn.Linear(16, 16), nn.Linear(16, 40, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids):
        return self.head(self.inner(self.table(ids)))


def tied():
    ids = torch.arange(40)
    model = sparta.sparsify_(Tied(), "4x1:0.5")
    need(type(model.head) is nn.Linear and isinstance(model.inner, Masked), "a table is left dense unless it is named")
    sparta.sparsify_(model, {"head": "4x1:0.5"})
    need(isinstance(model.table, MaskedEmbedding) and torch.equal(model.table.weight_mask, model.head.weight_mask), "both get the mask")
    need(model.table.weight is model.head.weight, "still one weight")
    want = model.eval()(ids)
    pretend(blocks_win)
    sparta.build_(model, ids)
    need(
        isinstance(model.inner, SparseLinear) and isinstance(model.head, MaskedLinear) and model.head.weight is model.table.weight,
        "a shared weight stays one",
    )
    need("'table'" in next(r for r in sparta.report(model) if r["name"] == "head")["reason"], "the reason names it")
    same(model(ids), want, "tied")
    pruned = Tied()
    nn.utils.prune.l1_unstructured(pruned.table, "weight", 0.5)  # whose weight is no Parameter
    sparta.sparsify_(pruned, "4x1:0.5")
    scaled = Tied()
    scaled.table.__class__ = Scaled
    sparta.sparsify_(scaled, "4x1:0.5")
    need(type(scaled.table) is Scaled and type(scaled.head) is nn.Linear and isinstance(scaled.inner, Masked), "a table of a class of its own")
    refused(TypeError, "no masked form", sparta.sparsify_, scaled, {"head": "4x1:0.5"})
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    model.append(model[0])
    sparta.build_(sparta.sparsify_(model, "4x1:0.5"))
    need(model[0] is model[2] and isinstance(model[0], SparseLinear), "a module with two names stays one")


# ---------------------------------------------------------------- build_ and unbuild_
def build():
    model = sparta.sparsify_(mlp(), "4x1:0.75")
    want, statistics = model(X), model[3].running_mean.clone()
    model.train()
    pretend(blocks_win)
    need(sparta.build_(model, X) is model, "returns the model")
    need(torch.equal(model[3].running_mean, statistics) and all(m.training for m in model.modules()), "the example changed the model")
    need(all(isinstance(model[i], SparseLinear) for i in (0, 2, 4)), str(model))
    same(model.eval()(X), want, "packed")
    rows = sparta.report(model)
    for key in ("name", "op", "shape", "dtype", "pattern", "block", "density", "implement", "reason", "us", "dense_us"):
        need(key in rows[0], key)
    need(rows[0]["implement"] == "blocks 4x1" and rows[0]["us"] < rows[0]["dense_us"] and "[16, 64]" in rows[0]["reason"], str(rows[0]))
    need("3 of 3 layers run sparse" in str(rows) and len(str(rows).splitlines()) == 5, str(rows))
    # It trains in this form, and what it learnt goes back.
    optimizer = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(X).square().sum().backward()
        optimizer.step()
    trained = model(X)
    need(not torch.allclose(trained, want), "it did not train")
    need(sparta.unbuild_(model) is model and all(isinstance(model[i], MaskedLinear) for i in (0, 2, 4)), str(model))
    same(model(X), trained, "unbuilt")
    need(abs(sparta.report(model)[0]["density"] - 0.25) < 0.01 and sparta.report(model)[0]["us"] is None, "masks and times after unbuild_")
    pretend(dense_wins)
    sparta.build_(model, X)
    need(all(isinstance(model[i], nn.Linear) for i in (0, 2, 4)), "dense stays nn.Linear")
    need("dense is faster: 10 us against 100 us in blocks of 4x1" in sparta.report(model)[0]["reason"], sparta.report(model)[0]["reason"])
    same(model(X), trained, "dense")


def too_little():
    """Blocks that gain less than a timer can tell are not said to be slower; and who is slower is."""
    for dense, blocks, said in ((100.0, 97.0, "dense: blocks would gain too little: 100 us against 97 us in blocks of 4x1"), (6.0, 5.0, "gain too little: 6 us against 5 us"), (5.0, 6.0, "dense is faster: 5 us against 6 us")):
        pretend(lambda module, mask, tried, *rest, d=dense, b=blocks: {tuning.word(way): d if way == "dense" else b + i for i, way in enumerate(tried, -1)})
        row = sparta.report(sparta.build_(sparta.sparsify_(nn.Sequential(nn.Linear(64, 48)), "4x1:0.75"), X))[0]
        need(not row["sparse"] and said in row["reason"], f"{said}: {row}")


def thinned(zeros, n=48):
    """A layer of n outputs of 64 inputs, so many of its weights 0."""
    model = nn.Sequential(nn.Linear(64, n))
    with torch.no_grad():
        model[0].weight.view(-1)[torch.arange(zeros) * 97 % (64 * n)] = 0
    return model


def nearly_dense():
    """A zero in a thousand makes no layer sparse, whatever its times say; in a hundred it may."""
    pretend(blocks_win)
    for n, zeros, said in ((48, 0, "there are no zeros to skip"), (48, 1, "0.033 % zeros"), (48, 30, "0.98 % zeros"), (313, 200, "0.99 % zeros"), (48, 31, "")):
        model = thinned(zeros, n)
        sparta.sparsify_(model, {"0": model[0].weight != 0})
        sparta.build_(model, X)
        row = sparta.report(model)[0]
        need(row["sparse"] is not bool(said), str(row))
        need(said in row["reason"] and (not said or zeros == 0 or "less than 1 % is dense" in row["reason"]), str(row))


def few_zeros():
    """Without sparsify_ a layer counts as pruned from a tenth of zeros on; below, the report counts them."""
    pretend(blocks_win)
    few = "less than 1 % is dense"
    for zeros, said in ((0, "density 1.00: there are no zeros"), (1, f"0.033 % zeros; a layer with {few}"), (30, few), (31, "1 % zeros: below 10 %"), (215, "6.9 % zeros: below"), (307, "9.9 % zeros: below"), (308, "")):
        model = thinned(zeros)
        sparta.build_(model, X)
        row = sparta.report(model)[0]
        need(row["sparse"] is not bool(said) and said in row["reason"], str(row))
        need(abs(row["density"] - (1 - zeros / 3072)) < 1e-6, str(row))
        need(("no zeros" in row["reason"]) is (zeros == 0), str(row))
    need("float32 on meta do not count" in sparta.report(nn.Sequential(nn.Linear(64, 48, device="meta")))[0]["reason"], "without data")


def pruned_already():
    """A model with zeros and nothing else: three lines."""
    model = mlp()
    with torch.no_grad():
        model[0].weight *= sparta.patterns.mask(model[0].weight, "8x8:0.8")
    want = model(X)
    pretend(blocks_win)
    sparta.build_(model)
    need(
        isinstance(model[0], SparseLinear) and type(model[2]) is nn.Linear and sparta.report(model)[0]["implement"] == "blocks 8x8",
        str(sparta.report(model)),
    )
    same(model(X), want, "zeros")


def odd_models():
    pretend(blocks_win)
    refused(ValueError, "one layer", sparta.build_, sparta.sparsify_(nn.Linear(8, 8), "4x1:0.5"))
    encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    sparta.sparsify_(encoder, "4x1:0.5")
    x = torch.randn(2, 5, 16)
    want = encoder(x)
    with torch.no_grad():
        same(encoder(x), want, "the fast path of torch's encoder")
    for inputs in (x, None):
        sparta.build_(encoder, inputs)
        need(all("reads its weight" in r["reason"] for r in sparta.report(encoder) if not r["left"]), str(sparta.report(encoder)))
        same(encoder(x), want, "torch's encoder")
    model = sparta.sparsify_(mlp(), "4x1:0.5")
    calls = []
    handles = [
        model[0].register_forward_hook(lambda *_: calls.append("forward")),
        model[0].register_forward_pre_hook(lambda m, args, kwargs: calls.append("pre"), with_kwargs=True),
        model[0].register_full_backward_hook(lambda *_: calls.append("backward")),
        model[0].register_full_backward_pre_hook(lambda *_: calls.append("backward pre")),
    ]
    sparta.build_(model)
    model(X.clone().requires_grad_()).sum().backward()
    need(isinstance(model[0], SparseLinear) and calls == ["pre", "forward", "backward pre", "backward"], f"hooks go along: {calls}")
    for handle in handles:
        handle.remove()
    model(X.clone().requires_grad_()).sum().backward()
    need(len(calls) == 4, f"handles remove them: {calls}")
    half = sparta.sparsify_(mlp(), "4x1:0.5").to(torch.bfloat16)
    want = half(X.bfloat16())
    same(sparta.build_(half, X.bfloat16())(X.bfloat16()).float(), want.float(), "bfloat16", atol=5e-2)


class Reader(nn.Module):
    """As T5 does it: the weight's dtype decides."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return self.fc2(self.fc1(x).to(self.fc2.weight.dtype))


def readers():
    pretend(blocks_win)
    x = torch.randn(4, 16)
    model = sparta.sparsify_(Reader().eval(), "4x1:0.5")
    want = model(x)
    sparta.build_(model, x)
    need(isinstance(model.fc1, SparseLinear) and isinstance(model.fc2, MaskedLinear), str(model))
    need("reads its weight" in sparta.report(model)[1]["reason"], str(sparta.report(model)))
    same(model(x), want, "a model that reads a weight")
    # Two threads at once, one of which ends within the other's run.
    plain, inner, outer = SparseLinear.weight, threading.Event(), threading.Event()

    class Waits(nn.Module):
        def __init__(self, told, awaited):
            super().__init__()
            self.fc, self.told, self.awaited = nn.Linear(16, 16), told, awaited

        def forward(self, x):
            self.told.set()
            self.awaited.wait(5)
            return self.fc(x)

    models = [Waits(inner, outer), Waits(outer, inner)]
    threads = [threading.Thread(target=_layers.read_weights, args=(m, x)) for m in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    need(SparseLinear.weight is plain, "a class was changed for good")


def pruned_by_torch():
    """torch.nn.utils.prune: its masks are taken, its Parameters stay, its hooks go."""
    def stepped():
        model = mlp()
        prune.l1_unstructured(model[0], "weight", 0.8)
        prune.ln_structured(model[2], "weight", 0.5, n=2, dim=0)
        prune.l1_unstructured(model[4], "bias", 0.5)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(X).square().mean().backward()
        optimizer.step()  # weight_orig is ahead of weight until the next call
        return model

    def fresh():
        return stepped(), stepped()(X).detach()

    pretend(blocks_win)
    steps = {
        "sparsify_": lambda m: sparta.sparsify_(m), "build_": lambda m: sparta.build_(m, X),
        "both": lambda m: sparta.build_(sparta.sparsify_(m), X), "a schedule": lambda m: scheduled(m).build_(X),
        "a pattern": lambda m: sparta.sparsify_(m, {"0": lambda w: w != 0}),
    }
    for step, do in steps.items():
        model, want = fresh()
        held = {id(p) for p in model.parameters()}
        mask = model[0].weight_mask.bool()
        do(model)
        same(model(X), want, step)
        need(torch.equal(_layers.mask_of(model[0]), mask), f"{step}: another mask")
        need(not _layers.pruned_by_torch(model[0]) and "0.weight_orig" not in dict(model.named_parameters()), f"{step}: {model.state_dict().keys()}")
        need(id(model[0].bias) in held and (isinstance(model[0], SparseLinear) or id(model[0].weight) in held), f"{step}: other Parameters")
        model.train()[3].eval()
        model(X).sum().backward()
        sparta.unbuild_(model).eval()
        same(model(X), want, f"{step}, and back")


def scheduled(model):
    s = sparta.create_schedule(model)
    s["0"].set_format("csr")
    s["2"].set_format("strip(4)")
    return s


def computed_weights():
    """weight_norm and parametrizations compute the weight in each call: named, not broken."""
    for norm in (nn.utils.weight_norm, nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm):
        model = mlp()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model[2] = norm(model[2])
        before = {k: v.clone() for k, v in model.state_dict().items()}
        for what in ("4x1:0.5", {"*": "4x1:0.5"}, {"0": "4x1:0.5", "2": torch.eye(32, 48)}):
            refused(ValueError, "weight of '2' is computed", sparta.sparsify_, model, what)
        refused(ValueError, "weight of '2' is computed", sparta.build, model, None, {"2": {"block": [4, 1]}})
        s = sparta.create_schedule(model)
        s["2"].sparsify("4x1:0.5")
        refused(ValueError, "2.weight", s.apply_)
        need(all(torch.equal(v, before[k]) for k, v in model.state_dict().items()), "half-changed")
        sparta.sparsify_(model, {"*": "4x1:0.5", "2": None})
        want = model.eval()(X)
        pretend(blocks_win)
        same(sparta.build_(model, X)(X), want, "the others")
        need(sparta.report(model), "a report")


def schedules():
    text = 'tensor "0.weight" { sparsify magnitude(4x1, 0.75) }'
    for make in (lambda model: sparta.Schedule.parse(text), lambda model: sparta.create_schedule(model, text)):
        model = mlp()
        sparta.sparsify_(model, make(model))
        need(isinstance(model[0], Masked) and abs(model[0].density() - 0.25) < 0.01 and type(model[2]) is nn.Linear, str(model))


def operators():
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.attention = nn.Linear(8, 8), sparta.nn.SparseAttention(torch.ones(16, 16).tril())

        def forward(self, x):
            return self.attention(self.fc(x), x, x)

    model, x = Attending().eval(), torch.randn(2, 16, 8)
    want = model(x)
    config = sparta.tune(model, x)
    same(sparta.build(model, x, config)(x), want, "an operator of its own")
    row = next(r for r in sparta.report(model) if r["name"] == "attention")
    need(row["reason"] == config["attention"]["reason"], f"{row['reason']} is not what was timed")
    need(row["op"] == "SparseAttention" and row["reason"] and 0.4 < row["density"] < 0.6, str(row))


def operators_without_ways():
    """Experts and lengths have one way to run; arguments may have names; tune leaves operators as they are."""

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.moe = sparta.nn.DynamicSparseMoE([nn.Linear(8, 8) for _ in range(3)])
            self.lengths = sparta.nn.SeqlenDynamicSparseAttention(global_mode=False)
            self.softmax = sparta.nn.SparseSoftmax(torch.ones(16, 16).tril())
            self.attention = sparta.nn.SparseAttention(torch.ones(16, 16).tril())

        def forward(self, x):
            y = self.moe(x, exp_ids=torch.arange(16).repeat(2, 1) % 3)
            y = self.attention(y, value=x, key=y)
            y = self.lengths(y[:, None], y[:, None], value=x[:, None], seqlens=torch.tensor([16, 9]))[:, 0]
            return self.softmax(x=y @ x.transpose(1, 2))

    model, x = sparta.sparsify_(Mixed(), {"moe.*": "4x1:0.5"}).eval(), torch.randn(2, 16, 8)
    want = model(x)
    pretend(blocks_win)
    before = [(m.reason, m.ready, m.get_sparse_indexes()) for m in (model.softmax, model.attention)]
    config = sparta.tune(model, x)
    need({"softmax", "attention"} <= set(config) and not {"moe", "lengths"} & set(config), str(list(config)))
    need([(m.reason, m.ready, m.get_sparse_indexes()) for m in (model.softmax, model.attention)] == before, "tune changed an operator")
    sparta.build(model, x, json.loads(json.dumps(config)))
    same(model(x), want, "with a configuration")
    same(sparta.build_(model, x)(x), want, "build_")
    need(isinstance(model.moe.experts[0], SparseLinear) and sparta.report(model), str(model))


def bad_builds():
    pretend(blocks_win)
    model = sparta.sparsify_(mlp(), "4x1:0.75")
    model.softmax = sparta.nn.SparseSoftmax(torch.ones(16, 16).tril())
    blocks, kinds = model.softmax.get_sparse_indexes(), [type(m) for m in model.modules()]
    good = {"0": {"block": [4, 1]}, "softmax": {"block": [1, 1]}}
    for kind, words, inputs, more in (
        (ValueError, "example inputs", torch.ones(3, 5), {}),
        (ValueError, "example inputs", {"wrong": X}, {}),
        (ValueError, "'2'", None, {"2": {"block": [0, 1]}}),
        (ValueError, "'2'", None, {"2": {"block": "quads(64)"}}),
        (ValueError, "'2'", None, {"2": {"block": None}}),
        (ValueError, "'2'", None, {"2": {"block": 5}}),
        (ValueError, "'softmax'", None, {"softmax": {"block": [4]}}),
        (ValueError, "without a mask", None, {"1": {"block": [4, 1]}}),
    ):
        refused(kind, words, sparta.build, model, inputs, {**good, **more})
        need([type(m) for m in model.modules()] == kinds and model.softmax.get_sparse_indexes() is blocks, f"{more}: half-built")
    refused(ValueError, "example inputs", sparta.build_, model, torch.ones(3, 5))
    del model.softmax
    want = model(X)
    sparta.build(model, X, {"0": {"block": "strip(4)"}, "2": {"block": "csr"}, "4": {"block": "dense"}})
    need([r["implement"] for r in sparta.report(model)] == ["blocks 4x1", "blocks 1x1", "dense"], str(sparta.report(model)))
    same(model(X), want, "formats")
    sparta.sparsify_(model, {"0": "8x1:0.9"})
    need(sparta.report(model)[0]["pattern"] == "8x1" and abs(sparta.report(model)[0]["density"] - 0.1) < 0.02, str(sparta.report(model)[0]))


def other_masks():
    """Times of a mask that is no more are not told; a layer alone is tuned and built by its own name."""
    pretend(blocks_win)
    model = sparta.build_(sparta.sparsify_(mlp(), "2:4"), X)
    need(sparta.report(model)[0]["pattern"] == "2:4" and sparta.report(model)[0]["us"], str(sparta.report(model)[0]))
    model[0].update_mask(torch.eye(48, 64))
    need(sparta.report(model)[0]["us"] is None and "times" not in sparta.report(model)[0]["reason"], str(sparta.report(model)[0]))
    layer = SparseLinear(nn.Linear(64, 32), pattern="4x1:0.75")
    want = layer(X)
    config = sparta.tune(layer, [X])
    need(config[""]["block"] == [4, 1], str(config))
    same(sparta.build(layer, [X], config)(X), want, "a layer alone")


def quick_training():
    """sparsify_ with an example: layers train in blocks where that is faster; the steps are the same."""
    times = tuning._training_times
    try:
        for wins in (True, False):
            pretend(TIMES)
            tuning._training_times = lambda layer, block, met, quiet, us=50.0 if wins else 99.0: {"dense": 100.0, tuning.word(block): us}
            models = [sparta.sparsify_(mlp(), "4x1:0.75", x).train() for x in (None, X)]
            need([m._way is not None for m in models[1] if isinstance(m, MaskedLinear)] == [wins] * 3, "which layers train in blocks")
            for model in models:
                optimizer = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1)
                for _ in range(3):
                    optimizer.zero_grad()
                    model(X).square().mean().backward()
                    optimizer.step()
            for a, b in zip(*(m.parameters() for m in models)):
                same(a, b, "trained in blocks", atol=1e-4)
    finally:
        tuning._training_times = times
    pretend(TIMES)
    model = sparta.sparsify_(mlp(), "4x1:0.75", X)
    sparta.tune(model, X, backward_weight=1)
    need(all(p.grad is None for p in model.parameters()), "timing left gradients behind")


def in_blocks(model):
    for m in model.modules():
        if isinstance(m, MaskedLinear):
            m.train_in((4, 1))
    return model


def compiled():
    """torch.compile takes both forms whole, and trains them."""
    pretend(blocks_win)
    for form in (lambda m: m, in_blocks, lambda m: sparta.build_(m, X)):
        model = form(sparta.sparsify_(mlp(), "4x1:0.75")).train()
        twin = copy.deepcopy(model)
        torch._dynamo.reset()
        for run in (twin, torch.compile(model, backend="aot_eager", fullgraph=True)):
            optimizer = torch.optim.AdamW(run.parameters(), 0.01)
            for _ in range(3):
                optimizer.zero_grad()
                run(X).square().mean().backward()
                optimizer.step()
        for a, b in zip(model.parameters(), twin.parameters()):
            same(a, b, "compiled", atol=1e-4)
        need(not any(m.weight[~m.weight_mask].any() for m in model.modules() if isinstance(m, Masked)), "a pruned weight grew back")


def states():
    pretend(blocks_win)
    forms = {
        "dense": mlp,
        "masked": lambda: sparta.sparsify_(mlp(), "4x1:0.75"),
        "packed": lambda: sparta.build_(sparta.sparsify_(mlp(), "4x1:0.75")),
    }
    source = sparta.sparsify_(mlp(), "4x1:0.75")
    with torch.no_grad():
        for p in source.parameters():
            p.mul_(1.5).add_(0.01)
    source.eval()
    want = source(X)
    saved = {"masked": copy.deepcopy(source).state_dict(), "packed": sparta.build_(copy.deepcopy(source)).state_dict()}
    saved["dense"] = {k: v for k, v in saved["masked"].items() if not k.endswith("mask")}
    for kind, state in saved.items():
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        state = torch.load(file, weights_only=True)
        for form in ("masked", "packed"):
            keys = list(state)
            model = forms[form]()
            model.load_state_dict(state, strict=True)
            same(model.eval()(X), want, f"{kind} into {form}")
            need(list(state) == keys, "the state was changed")
    other = sparta.sparsify_(mlp(), "2:4")
    other.load_state_dict(saved["packed"])
    need(torch.equal(other[0].weight_mask, source[0].weight_mask), "a packed state brings its mask")
    for key, bad in (("0.crd", torch.full_like(saved["packed"]["0.crd"], 10**6)), ("0.values", torch.ones(3)), ("0.pos", torch.zeros(2))):
        refused_load(other, {**saved["packed"], key: bad})


def refused_load(model, state):
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        need("damaged" in str(error), str(error))
        return
    raise AssertionError("it was accepted")


def copies():
    pretend(blocks_win)
    for form in (lambda m: m, sparta.build_):
        model = form(sparta.sparsify_(mlp(), "4x1:0.75"))
        want = model(X)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            same(twin(X), want, "a copy")
            need(str(sparta.report(twin)) == str(sparta.report(model)), "its report")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            same(model(X).float(), want, "autocast", atol=5e-2)


def bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(
        BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=50, max_position_embeddings=32)
    ).eval()
    inputs = {"input_ids": torch.arange(12).reshape(2, 6), "attention_mask": torch.ones(2, 6, dtype=torch.long)}
    sparta.sparsify_(model, {"encoder.*": "4x1:0.75"})
    want = model(**inputs).last_hidden_state
    pretend(blocks_win)
    sparta.build_(model, inputs)
    need(sum(isinstance(m, SparseLinear) for m in model.modules()) == 12, str(sparta.report(model)))
    same(model(**inputs).last_hidden_state, want, "bert")
    need("[2, 6, 32]" in sparta.report(model)[4]["reason"], str(sparta.report(model)))


# ---------------------------------------------------------------- tune
def tune():
    pretend(blocks_win)
    model = sparta.sparsify_(mlp(), "4x1:0.75")
    want = model(X)
    config = json.loads(json.dumps(sparta.tune(model, X, backward_weight=0.5)))
    need(list(config) == ["0", "2", "4"] and all(type(m) is not SparseLinear for m in model), "nothing of the model is changed")
    need(config["0"]["block"] == [4, 1] and config["0"]["us"] == 101.0, str(config["0"]))
    tuning._times = None  # remembered: not timed again
    need(sparta.tune(model, X, backward_weight=0.5) == config, "another configuration")
    need(sparta.build(model, None, config) is model and isinstance(model[0], SparseLinear), str(model))
    same(model(X), want, "tuned")
    pretend(blocks_win)
    need([r["block"] for r in sparta.tune(model, X).values()][:2] == [[4, 1]] * 2, "of packed layers")
    sparta.build(model, X, {"0": {"block": "dense"}, "2": {"block": [1, 1]}})
    need(sparta.report(model)[0]["implement"] == "dense" and sparta.report(model)[1]["implement"] == "blocks 1x1", str(sparta.report(model)))
    same(model(X), want, "as the configuration says")
    pretend(None)
    rows = sparta.tune(sparta.sparsify_(mlp(), "4x1:0.75"), X, budget="0s")
    need(all("not timed" in row["reason"] for row in rows.values()), str(rows))
    rows = sparta.tune(sparta.sparsify_(mlp(), "4x1:0.75"), X, max_trials=0, algo="random")
    need(all("not timed" in row["reason"] for row in rows.values()), str(rows))
    for kind, words, more in (
        (ValueError, "algorithm", {"algo": "best"}),
        (ValueError, "algo 'tpe' is not there yet", {"algo": "tpe"}),
        (ValueError, "algo 'evolution' is not there yet", {"algo": "evolution"}),
        (ValueError, "backward_weight=1", {"sample_grads": X}),
        (ValueError, "max_trials", {"max_trials": True}),
        (ValueError, "budget", {"budget": "long"}),
        (ValueError, "max_trials", {"max_trials": -1}),
        (ValueError, "backward_weight", {"backward_weight": -1}),
    ):
        refused(kind, words, sparta.tune, model, X, **more)
    operators_in_budget()
    refused(ValueError, "near it", sparta.build, model, None, {"fc": {"block": "dense"}})
    refused(TypeError, "configuration", sparta.build, model, None, {"0": 4})


def operators_in_budget():
    """What a model has of operators with a pattern of their own keeps within the budget, counts gradients and is told, as layers are."""

    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = sparta.nn.SparseAttention(torch.ones(64, 64, dtype=torch.bool).tril())

        def forward(self, x):
            return self.attention(x, x, x)

    model, x = Attends(), torch.randn(2, 64, 8)
    for given in ({"max_trials": 0}, {"budget": "0s"}, {"max_trials": 1}):
        need(sparta.tune(model, x, **given) == {}, f"timed within {given}")
    both, ways = nn.Sequential(Attends(), Attends()), len(model.attention.configs())
    need(list(sparta.tune(both, x, max_trials=2 * ways - 1)) == ["0.attention"], "trials for one went to both")
    seen = []
    real = sparta.nn.OperatorBase.tune

    def tune(self, *args, **kwargs):
        seen.append(args[2] if len(args) > 2 else kwargs["backward"])
        return real(self, *args, **kwargs)

    sparta.nn.OperatorBase.tune = tune
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            quick, whole = sparta.tune(model, x), sparta.tune(model, x, backward_weight=1, verbose=True)
    finally:
        sparta.nn.OperatorBase.tune = real
    need(seen == [False, True] and "with gradients" not in quick["attention"]["reason"], f"{seen}, {quick}")
    need("with gradients" in whole["attention"]["reason"] and said.getvalue().startswith("attention: "), f"{whole}, said {said.getvalue()!r}")
    refused(ValueError, "it runs in one way", sparta.nn.DynamicSparseMoE([nn.Linear(4, 4)]).build, {"block": [4, 1]})


def really():
    """Times as they are: whatever build_ takes, the answer is the same, the times are told, and blocks were at least 5 % faster."""
    pretend(TIMES)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).eval()
    sparta.sparsify_(model, {"0": "4x1:0.95", "2": "1x1:0.5"})
    x = torch.randn(32, 256)
    want = model(x)
    config = sparta.tune(model, x, backward_weight=1, sample_grads=torch.ones(32, 256))
    need(all(set(row["ways"]) >= {"dense", "1x1"} and min(row["ways"].values()) > 0 for row in config.values()), str(config))
    sparta.build_(model, x)
    same(model(x), want, "built by time")
    for row in sparta.report(model):
        need(row["us"] <= row["dense_us"] * (tuning.MARGIN if row["sparse"] else 1), str(row))


def hostile_times():
    folder = os.path.join(work, "sparta")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, "torch-times.json")
    good = {"ways": {"dense": 3.0}, "at": time.time(), "disturbed": False}
    rows = [3, {"dense": 3.0}, {**good, "more": 1}, {**good, "disturbed": 0}, {**good, "ways": [3.0]}]
    rows += [{**good, "ways": {"dense": us}} for us in (-1, 0, "x", None, True, float("nan"), 1e13, 10**400)]
    rows += [{**good, "at": at} for at in (-1, "x", None, True, float("nan"), float("inf"), 10**400)]
    for text in ("", "[]", "[" * 100000, *(json.dumps({"a": row}) for row in rows)):
        with open(path, "w") as file:
            file.write(text)
        need(_times.Times().get("a") is None, f"{text[:80]!r} was believed")
    with open(path, "w") as file:
        json.dump({"a": good}, file)
    need(_times.Times().get("a") == {"dense": 3.0}, "a file as it should be was not believed")
    times = _times.Times()
    times.put("a", {"dense": 2.0})
    times.save()
    need(_times.Times().get("a") == {"dense": 2.0}, "not remembered")
    os.chmod(folder, 0o777)
    need(_times.Times().get("a") is None, "a folder that others can write was believed")
    os.chmod(folder, 0o700)


class Machine:
    """Clocks for _quiet.py: a thread that runs, and waits while others do."""

    def __init__(self):
        self.wall = self.ran = self.everything = 1000.0
        self.loop = 1e-4

    def run(self, seconds, waits=0.0):
        self.wall, self.ran, self.everything = self.wall + seconds + waits, self.ran + seconds, self.everything + seconds + waits * (os.cpu_count() or 1)

    def __enter__(self):
        self.old = _quiet.time, _quiet._used, _quiet._loop, _quiet._loop_best, os.environ.pop("SPARTA_TRUST"), torch.get_num_threads()
        clocks = {"monotonic": lambda: self.wall, "perf_counter": lambda: self.wall, "thread_time": lambda: self.ran}
        _quiet.time = types.SimpleNamespace(**clocks)
        _quiet._used, _quiet._loop, _quiet._loop_best = lambda: (self.everything, self.ran), lambda: self.loop, float("inf")
        torch.set_num_threads(1)
        return self

    def __exit__(self, *error):
        _quiet.time, _quiet._used, _quiet._loop, _quiet._loop_best, os.environ["SPARTA_TRUST"], threads = self.old
        torch.set_num_threads(threads)


def busy_clocks():
    """A thread that waits is not timed: whoever else works, the times are those of the calls, and they are marked. So are those of a machine whose
    other processors or whose clock is busy with something else."""
    ways = (3e-3, 4e-3, 3.5e-3)
    for waits in (0.0, 8e-3):
        with Machine() as machine:
            quiet = _quiet.Quiet()
            functions = [lambda us=us: machine.run(us, waits * rng.random()) for us in ways]
            got = race(functions, 0.05, quiet=quiet)
            need(all(abs(g / w - 1) < 0.03 for g, w in zip(got, ways)), f"waits of {waits}: {got}")
            need(quiet.disturbed() == (waits > 0), f"waits of {waits}: {quiet.__dict__}")
            os.environ["SPARTA_TRUST"] = "all"
            need(not quiet.disturbed(), "SPARTA_TRUST=all is not heard")
    for others, loop, expected in ((0.0, 1.0, False), (0.6, 1.0, True), (0.1, 1.0, False), (0.0, 2.0, True), (0.0, 1.1, False)):
        with Machine() as machine:
            _quiet.Quiet()
            machine.loop *= loop
            quiet = _quiet.Quiet()
            quiet.window(lambda: machine.run(1.0), 1)
            machine.everything += others * (os.cpu_count() or 1)
            need(quiet.disturbed() == expected, f"others {others}, loop {loop}: {quiet.__dict__}")


def waiting_threads():
    """Two threads that wait for each other take a slice of the scheduler's for a call. A race ends by the clock then, and every way was timed."""
    seconds, ways = 0.05, (50e-6, 80e-6, 2e-3)
    for slice_, most in ((0.0, 1.2), (4e-3, 22.0)):
        with Machine() as machine:
            torch.set_num_threads(2)
            quiet, calls, begin = _quiet.Quiet(), [0] * len(ways), machine.wall

            def call(k, machine=machine, calls=calls, slice_=slice_):
                calls[k] += 1  # the first two are lucky, and so is one of a hundred
                machine.run(ways[k], slice_ if calls[k] > 2 and calls[k] % 100 else 0.0)

            got = race([lambda k=k: call(k) for k in range(len(ways))], seconds, quiet=quiet)
            took = (machine.wall - begin) / (seconds * len(ways))
            need(took < most, f"slices of {slice_}: {took:.1f} times as long as asked for")
            need(all(abs(g / w - 1) < 1e-6 for g, w in zip(got, ways)) and min(calls) > 9, f"slices of {slice_}: {got}, {calls} calls")
            need(slice_ or all(n * w > 0.7 * seconds for n, w in zip(calls, ways)), f"a quiet machine: {calls} calls")


def busy_times():
    """Times that were disturbed serve their call alone; quiet ones take their place and stay; all grow old; remeasure believes none."""
    pretend(TIMES)
    get = lambda **more: _times.Times(**more).get("a")  # noqa: E731
    os.environ.pop("SPARTA_TRUST")
    try:
        for disturbed, us, found in ((True, 9.0, None), (False, 2.0, 2.0), (True, 1.0, 2.0), (False, 3.0, 3.0)):
            times = _times.Times(anew=True)
            times.put("a", {"dense": us}, disturbed)
            need(times.get("a") == {"dense": us}, "a call does not go by its own times")
            times.save()
            need((get() or {}).get("dense") == found, f"{us}, disturbed {disturbed}: {get()}")
        times = _times.Times()
        times.put("a", {"1x1": 5.0}, True)
        need(times.get("a") == {"dense": 3.0, "1x1": 5.0}, "what was known of other ways is lost")
        times.save()
        need(get() == {"dense": 3.0} and get(anew=True) is None, "a quiet time went, or all were believed anew")
        now = _times.time.time
        for days, found in ((89, True), (91, False), (-2, False), (-0.5, True)):
            _times.time = types.SimpleNamespace(time=lambda: now() + days * 86400)
            need((get() is not None) == found, f"after {days} days")
            _times.time = time
    finally:
        _times.time = time
        os.environ["SPARTA_TRUST"] = "all"


def remeasured():
    """build_ believes what another process measured, unless it is told not to, or the machine was busy then."""
    calls = []

    def small(*sizes):
        torch.manual_seed(3)
        return sparta.sparsify_(nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))), "4x1:0.9")

    def watched(*arguments):
        calls.append(arguments)
        return blocks_win(*arguments)

    pretend(watched)
    for remeasure, taken in ((False, 2), (False, 2), (True, 4), (False, 4)):
        sparta.build_(small(64, 64, 32), torch.randn(8, 64), remeasure=remeasure)
        need(len(calls) == taken, f"remeasure={remeasure}: {len(calls)} layers were timed, not {taken}")
    pretend(watched)
    calls.clear()
    with Machine() as machine:
        tuning._times = lambda *arguments: (machine.run(1.0, 1.0), watched(*arguments))[1]
        for _ in range(2):
            model = sparta.build_(small(64, 64), torch.randn(8, 64))
            need("other programs worked" in sparta.report(model)[0]["reason"], sparta.report(model)[0]["reason"])
        need(len(calls) == 2, "a busy machine's times were believed")
        model = sparta.build_(small(64, 64, 64), torch.randn(8, 64))  # two that are alike: one is timed, both say how
        need(len(calls) == 3 and all("other programs worked" in r["reason"] for r in sparta.report(model)), str(sparta.report(model)))
        tuning._times = watched
        for _ in range(2):
            sparta.build_(small(64, 64), torch.randn(8, 64))
        need(len(calls) == 4, "a quiet machine's times were not believed")
        need("other programs" not in sparta.report(sparta.build_(small(64, 64, 64), torch.randn(8, 64)))[1]["reason"], "a quiet time is said to be none")


def impossible_times():
    """A time that what there is to do does not explain is taken again, once; the minimum is stored, and one that was found twice is believed."""
    pretend(TIMES)
    real, run, speed = _race.race, tuning._run, _race.speed
    layer = nn.Sequential(nn.Linear(64, 64))
    model = sparta.sparsify_(layer, "4x1:0.9")
    usual = [40e-6] + [20e-6] * (len(tuning.ways(model[0].weight_mask)) - 1)
    need(_race.least((1e9, 1e9), (10, 20), 0.5, 4, 2) == _race.CALL + 800e-9 + 2 * (100 + 120) * 1e-9, "what a product needs")
    fast = (1e12, 1e11)
    once, dense = [100.0] * len(usual), [100.0] + [1.0] * (len(usual) - 1)
    for what, slow, speeds, races, us in (
        ("a quiet machine", [[1.0] * len(usual)] * 3, fast, 1, 1.0),
        ("all ways were slowed", [once, [1.0] * len(usual)] + [once] * 3, fast, 2, 1.0),
        ("one way was slowed", [dense, [1.0] * len(usual)] + [once] * 3, fast, 2, 1.0),
        ("one way was slowed, and the machine looks slow", [dense, [1.0] * len(usual)] + [once] * 3, (1e6, 1e6), 2, 1.0),
        ("the second time is worse", [[100.0] + [2.0] * (len(usual) - 1), [1.0] + [3.0] * (len(usual) - 1)], fast, 2, None),
        ("slow twice", [once, once] + [[1.0] * len(usual)] * 3, fast, 2, 100.0),
    ):
        raced = []
        with Machine() as machine:
            calls = iter(range(1000))

            def fake(f, meeting, x, grad, machine=machine, slow=slow, raced=raced, calls=calls):
                k = next(calls) % len(usual)
                return lambda: machine.run(usual[k] * slow[len(raced) - 1][k]), None

            def counted(*arguments, raced=raced, **more):
                raced.append(arguments)
                return real(*arguments, **more)

            tuning._run, _race.race, tuning.speed = fake, counted, lambda threads, speeds=speeds: speeds
            try:
                row = sparta.tune(model, torch.randn(8, 64), remeasure=True)["0"]
                with open(os.path.join(work, "sparta", "torch-times.json")) as file:
                    (stored,) = json.load(file).values()
            finally:
                tuning._run, _race.race, tuning.speed = run, real, speed
        factors = [us] * len(usual) if us else [1.0] + [2.0] * (len(usual) - 1)
        need(len(raced) == races, f"{what}: {len(raced)} races")
        need(all(abs(t / (1e6 * u * f) - 1) < 1e-3 for t, u, f in zip(stored["ways"].values(), usual, factors)), f"{what}: {stored}")
        need(not stored["disturbed"] and stored["ways"] == row["ways"], f"{what}: {stored} {row}")


def remembered_speed():
    """The machine's speed is measured once, unless others work meanwhile."""
    kept = dict(_race._speeds)
    try:
        for waits, times in ((0.0, 1), (3e-3, 2)):
            _race._speeds.clear()
            with Machine() as machine:
                real, races = _race.race, []

                def pretended(functions, seconds, quiet, machine=machine, waits=waits, races=races):
                    races.append(functions)
                    quiet.window(lambda: machine.run(1e-3, waits), 1)
                    return [1e-3, 2e-3]

                _race.race = pretended
                try:
                    found = [_race.speed(1) for _ in range(2)]
                finally:
                    _race.race = real
            need(found == [(2 * 256**3 / 1e-3, 2 * 2**23 / 2e-3)] * 2 and len(races) == times, f"waits of {waits}: {found}, {len(races)} races")
    finally:
        _race._speeds.clear()
        _race._speeds.update(kept)


def documents():
    pretend(TIMES)
    for module in (stages, tuning, _times):
        failed, tried = doctest.testmod(module, extraglobs={"sparta": sparta})
        need(tried and not failed, f"{module.__name__}: {failed} of {tried}")


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(4, 16, 32))
        self.place = nn.Parameter(torch.randn(1, 8, 16))
        self.scale = nn.Parameter(torch.randn(16))


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.bag = nn.Embedding(50, 16), nn.EmbeddingBag(20, 16)
        self.conv, self.conv1 = nn.Conv2d(3, 8, 3), nn.Conv1d(3, 8, 3)
        self.att, self.rnn, self.experts = nn.MultiheadAttention(16, 2), nn.LSTM(16, 8), Experts()
        self.made = nn.utils.parametrizations.weight_norm(nn.Linear(16, 16))
        self.fc, self.head = nn.Linear(16, 16), nn.Linear(16, 50, bias=False)
        self.head.weight = self.emb.weight


class Autocast(nn.Module):
    """As Accelerate has a model: forward itself chooses the types, and a layer meets what the one before it gave."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.two(torch.relu(self.one(x))).float()


def autocast():
    """Layers are timed in the type in which they meet their inputs, and a time in one type is none in another."""
    x, model = torch.randn(16, 64), sparta.sparsify_(Autocast(), "4x1:0.75", torch.randn(16, 64)).eval()
    with torch.no_grad():
        want = model(x)
        built = sparta.build_(copy.deepcopy(model), x)
        need((built(x) - want).abs().max() <= 0.02 * want.abs().max(), "another answer")
    rows = {row["name"]: row for row in sparta.report(built)}
    need(all(rows[name]["us"] is not None for name in ("one", "two")), str(rows))
    met = _layers.meetings(model, _layers.layers(model), x)
    need([(m.dtype, m.lower) for name in ("one", "two") for m in met[name]] == [(torch.float32, torch.bfloat16), (torch.bfloat16, torch.bfloat16)], str(met))
    packed = sparta.build(copy.deepcopy(model), None, {name: {"block": [4, 1]} for name in ("one", "two")})
    with torch.no_grad():
        need((packed(x) - want).abs().max() <= 0.02 * want.abs().max(), "another answer in blocks")
    train = sparta.tune(model, x, torch.randn(16, 64), backward_weight=1)
    need(train["two"]["us"] is not None, str(train))


def totals():
    """How many times as fast is said of times of a quiet machine; what is estimated is called so."""
    rows = [{**row, "us": us, "dense_us": 40.0} for row, us in zip(sparta.report(mlp()), (10.0, 0.1))]
    said = lambda *more: str(stages.Report([{**row, **extra} for row, extra in zip(rows, more)])).splitlines()[-1]
    need(said({}, {"disturbed": True}).endswith("those timed take 10 us, dense 40 us: 4.00x; not counted: 1 timed while other programs worked"), said({}, {"disturbed": True}))
    need("those timed take 10 us, dense 40 us" in said({}, {"source": "model"}), said({}, {"source": "model"}))
    need("; estimated: 10 us, dense 80 us" in said({"source": "model"}, {"source": "model"}), said({"source": "model"}, {"source": "model"}))
    model, known = sparta.sparsify_(mlp(), "4x1:0.75"), _quiet.Quiet.disturbed
    pretend(blocks_win)
    _quiet.Quiet.disturbed = lambda self: True
    try:
        report = sparta.report(sparta.build_(model, X, remeasure=True))
    finally:
        _quiet.Quiet.disturbed = known
    need(report[0]["sparse"] and "faster than dense" in report[0]["reason"] and "x as fast" not in str(report), str(report))
    need("layers run sparse; not counted: " in str(report), str(report))


def left():
    """Every matrix-like Parameter has a row, and those that are left a reason of the library's."""
    model = Everything()
    rows = {row["name"]: row for row in sparta.report(model)}
    want = {
        "emb": "an embedding",
        "bag.weight": "an embedding",
        "conv": "a convolution",
        "conv1.weight": "a convolution",
        "att.in_proj_weight": "in_proj_weight",
        "rnn.weight_ih_l0": "recurrent",
        "rnn.weight_hh_l0": "recurrent",
        "experts.gate_up_proj": "a stack",
        "experts.place": "own forward",
        "made.parametrizations.weight.original1": "computed",
        "head": "also an embedding",
    }
    found = {name for name, row in rows.items() if row["left"]}
    need(found == set(want), f"{found ^ set(want)}")
    need(all(text in rows[name]["left"] and rows[name]["reason"] == rows[name]["left"] for name, text in want.items()), str(rows))
    need(not rows["fc"]["left"] and not rows["att.out_proj"]["left"], str(rows))
    need(rows["experts.gate_up_proj"]["shape"] == [4, 16, 32] and not rows["experts.gate_up_proj"]["sparse"], str(rows))
    matrices = {id(p) for p in model.parameters() if sum(s > 1 for s in p.shape) >= 2}
    reported = {id(model.get_parameter(name if name in dict(model.named_parameters()) else name + ".weight")) for name in rows}
    need(matrices <= reported, "one has no row")
    row = next(r for r in sparta.report(sparta.sparsify_(Everything(), {"conv": "4x1:0.5"})) if r["name"] == "conv")
    need(abs(row["density"] - 0.5) < 0.05 and row["left"] is None and row["reason"].startswith("pruned: build_ leaves convolutions dense"), row)
    model.experts.gate_up_proj.data[:2] = 0
    density = {row["name"]: row for row in sparta.report(model)}["experts.gate_up_proj"]["density"]
    need(abs(density - 0.5) < 0.01, density)


for name, function in {
    "what is left": left,
    "totals": totals,
    "sparsify_": sparsify,
    "sparsify_: errors change nothing": bad_sparsify,
    "tied weights": tied,
    "build_ and unbuild_": build,
    "blocks that gain too little": too_little,
    "layers with a few zeros": nearly_dense,
    "layers with a few zeros, without sparsify_": few_zeros,
    "a model that is pruned already": pruned_already,
    "odd models": odd_models,
    "a model that reads weights": readers,
    "torch.nn.utils.prune": pruned_by_torch,
    "weight_norm and parametrizations": computed_weights,
    "operators without ways, called by name": operators_without_ways,
    "build: errors change nothing": bad_builds,
    "schedules": schedules,
    "other masks": other_masks,
    "training in blocks": quick_training,
    "torch.compile": compiled,
    "autocast inside of forward": autocast,
    "other operators": operators,
    "states of each form in each other": states,
    "copies": copies,
    "transformers' BERT": bert,
    "tune and build": tune,
    "real times": really,
    "remembered times, hostile": hostile_times,
    "times beside other programs": busy_clocks,
    "threads that wait for each other": waiting_threads,
    "remembered times of a busy machine": busy_times,
    "times measured again": remeasured,
    "times that cannot be": impossible_times,
    "the machine's speed": remembered_speed,
    "examples in documents": documents,
}.items():
    tests.check(name, function)
sys.exit(tests.finish())
