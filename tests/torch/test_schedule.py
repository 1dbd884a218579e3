"""Schedules of PyTorch models: the snippets of the proposal as it prints them, names, texts that read back, masks against the library's own, what
runs at every call against torch written out, and what is refused with nothing changed."""

import copy
import doctest
import math
import os
import pickle
import re
import sys
import textwrap
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from common import ROOT, Tests, need, refused

import sparta
import sparta as sparse

warnings.filterwarnings("ignore")
tests = Tests()
os.environ["XDG_CACHE_HOME"] = tests.work.name
THIS = os.path.splitext(os.path.basename(__file__))[0]
sys.modules[THIS] = sys.modules[__name__]  # so that texts can name what this file defines


def close(a, b, most=1e-5):
    off = float((a.detach() - b.detach()).abs().max()) if a.numel() else 0.0
    need(a.shape == b.shape and off <= most * max(1.0, float(b.detach().abs().max()) if b.numel() else 1.0), f"{tuple(a.shape)}, off by {off}")


class Attention(nn.Module):
    """q, k, v and an attention, by scaled_dot_product_attention or written out."""

    def __init__(self, width=16, heads=2, written_out=False):
        super().__init__()
        self.qkv, self.heads, self.written_out = nn.Linear(width, 3 * width), heads, written_out

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if self.written_out:
            out = F.softmax(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1]), dim=-1) @ v
        else:
            out = F.scaled_dot_product_attention(q, k, v)
        return out.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, width=16, written_out=False):
        super().__init__()
        self.attn = Attention(width, written_out=written_out)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width))

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, written_out=False):
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.linear1 = Block(written_out=written_out)
        self.linear2 = Block(written_out=written_out)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 11, bias=False)
        self.conv = nn.Conv1d(4, 4, 1)

    def forward(self, ids):
        return self.head(self.norm(self.linear2(self.linear1(self.embed(ids)))))


def model(**more):
    torch.manual_seed(0)
    return Model(**more)


ids = torch.arange(24).reshape(2, 12) % 11


# ---------------------------------------------------------------- the proposal's snippets
class EllpackTensor(sparse.SparseTensor):
    def __init__(self):
        with sparse.iter(dim=2) as I, J:  # noqa: F821
            J.compress(coordinate=True).pack()  # noqa: F821
            self.indices = [I, J]  # noqa: F821


class SimilaritySparsifier(sparse.Sparsifier):
    """Keys whose similarity with a query is above the mean."""

    def __init__(self, above=0.0):
        self.above = above

    def attention_mask(self, q, k):
        scores = q @ k.transpose(-1, -2)
        return scores >= scores.mean(-1, keepdim=True) + self.above


def snippet_csc():
    m = model()
    s = sparse.create_schedule(m)
    (s["linear1.mlp.0.weight"]
        .set_format(sparse.CscTensor))
    need('format csc' in str(s), str(s))
    want = m(ids)
    need(s.report()[0]["runs"] == "C operator" and "until then dense" in s.report()[0]["reason"], s.report())
    close(s.build_(ids)(ids), want)
    row = s.report()[0]
    need(row["runs"] == "C operator" and ("walk" in row["reason"] or "generated" in row["reason"]), row)


def snippet_ellpack():
    m = model()
    s = sparse.create_schedule(m)
    s["linear1.mlp.0.weight"].set_format(EllpackTensor)
    need("format (i,j)->(i:dense, j:packed[auto])" in str(s), str(s))
    s.apply_()


def snippet_hybrid():
    m = model()
    s = sparse.create_schedule(m)
    (s["linear1.mlp.0.weight"]
        .sparsify("magnitude(16x16, 0.5)")
        .block(16, 16)
        .set_format(sparse.EllpackTensor, axis=[0, 1])
        .set_format(sparse.CooTensor, axis=[2, 3]))
    text = "format (i,j)->(i/16:dense, j/16:packed[auto], i%16:compressed(nonunique), j%16:singleton(soa))"
    need(text in str(s), str(s))
    s.apply_()
    weight = m.linear1.mlp[0].weight
    need(float((weight == 0).float().mean()) == 0.5, "half of it was to go")
    packed = sparta.pack(weight.detach(), s["linear1.mlp.0.weight"].said["format"])
    need(np.array_equal(packed.numpy(), weight.detach().numpy()), "the hybrid does not come back")


def snippet_similarity():
    for written_out in (False, True):
        for format in ("dense", "bsr(4)", sparse.BsrTensor(4), "csr"):
            m = model(written_out=written_out)
            s = sparse.create_schedule(m)
            (s["linear1.attn"]
                .set_format(format)
                .sparsify(SimilaritySparsifier))
            s.apply_()
            x = torch.randn(2, 12, 16, requires_grad=True)
            got = m.linear1.attn(x)
            want = written(m.linear1.attn, x, SimilaritySparsifier().attention_mask)
            close(got, want)
            for a, b in zip(*(torch.autograd.grad(y.sin().sum(), (x, m.linear1.attn.qkv.weight)) for y in (got, want))):
                close(a, b, 1e-4)
            need(0 < s.report()[0]["density"] < 1, s.report())
            s.remove_()
            close(m.linear1.attn(x), written(m.linear1.attn, x, lambda q, k: torch.ones(12, 12, dtype=torch.bool)))


def written(attn, x, mask_of):
    q, k, v = attn.qkv(x).unflatten(-1, (3, attn.heads, -1)).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~mask_of(q.detach(), k.detach()), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


# ---------------------------------------------------------------- names
def names():
    m = model()
    s = sparse.create_schedule(m)

    def found(glob):
        return [(t.name, t.kind) for t in sparse.create_schedule(m)[glob].targets]

    need(found("head.weight") == [("head.weight", "weight")] and found("head") == [("head.weight", "weight")], found("head"))
    need(found("*.mlp.0.weight") == [("linear1.mlp.0.weight", "weight"), ("linear2.mlp.0.weight", "weight")], found("*.mlp.0.weight"))
    one = nn.ModuleDict({"a[0]": nn.Linear(8, 8), "a0": nn.Linear(8, 8)})
    sparta.sparsify_(one, {"a[0]": "4x1:0.5"})
    need([type(layer) is nn.Linear for layer in one.values()] == [False, True], "one language of globs: brackets are letters")
    need(found("linear?.mlp.0") == found("*.mlp.0.weight"), found("linear?.mlp.0"))
    need(len(found("*")) == 8 and all(kind == "weight" and "embed" not in name and "norm" not in name for name, kind in found("*")), found("*"))
    need(found("embed.weight") == [("embed.weight", "weight")], found("embed.weight"))
    need(found("linear1.attn") == [("linear1.attn:attention", "attention")], found("linear1.attn"))
    need(found("linear1.attn:output") == [("linear1.attn:output", "output")], found("linear1.attn:output"))
    need(found("*.attn:attention") == [("linear1.attn:attention", "attention"), ("linear2.attn:attention", "attention")], found("*.attn:attention"))
    need(found("linear1.mlp.1") == [("linear1.mlp.1:output", "output")], found("linear1.mlp.1"))
    need(s["head"] is s["head"], "a name said twice is one rule")
    refused(ValueError, "'linear1.mlp.0.weight'", lambda: s["linear1.mpl.0.weight"])
    refused(ValueError, "nearest names are", lambda: s["nothing.*"])
    refused(ValueError, "'linear1.attn'", lambda: s["linear1.atn:output"])
    refused(ValueError, "has shape (16,)", lambda: s["norm.weight"])
    refused(ValueError, "has shape (48,)", lambda: s["linear1.attn.qkv.bias"])
    refused(TypeError, "by name or glob", lambda: s[3])
    refused(TypeError, "torch.nn.Module", sparse.create_schedule, "model")
    need("tensor" not in str(sparse.create_schedule(m)) and str(s) == "", "nothing was said")


# ---------------------------------------------------------------- weights
def library_masks():
    """What apply_ prunes is what the library's own schedule prunes: the same text, given to sparta.compile."""
    from onnx import helper, numpy_helper

    for text in ("magnitude(4x1, 0.75)", "magnitude(2:4)", "magnitude(rows, 0.5)", "threshold(0.1)"):
        layer = nn.Sequential(nn.Linear(24, 16, bias=False))
        weight = layer[0].weight.detach().clone()
        s = sparse.create_schedule(layer)
        s["0.weight"].sparsify(text)
        s.apply_()
        graph = helper.make_graph([helper.make_node("Gemm", ["x", "0.weight"], ["y"], transB=1)], "g",
                                  [helper.make_tensor_value_info("x", 1, ["n", 24])], [helper.make_tensor_value_info("y", 1, ["n", 16])],
                                  [numpy_helper.from_array(weight.numpy(), "0.weight")])
        onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        package = sparta.compile(onnx_model, schedule=s, no_measure=1)
        answer = package.run({"x": np.eye(24, dtype=np.float32)})["y"]
        need(np.allclose(answer.T, layer[0].weight.detach().numpy(), atol=1e-6), text)


def weights():
    m = model()
    before = {name: p for name, p in m.named_parameters()}
    optimizer = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, weight_decay=0.1)
    s = sparse.create_schedule(m)
    s["*.mlp.*.weight"].sparsify("4x1:0.75").set_format("strip(4)")
    s["linear?.attn.qkv"].sparsify(lambda w: w.abs() > w.abs().median())
    s["head.weight"].sparsify(sparta.sparsifiers.TopK(4))
    need(s.apply_() is m and all(p is before[n] for n, p in m.named_parameters()), "parameters changed")
    for _ in range(3):
        optimizer.zero_grad()
        m(ids).square().mean().backward()
        optimizer.step()
    need(float((m.linear1.mlp[0].weight == 0).float().mean()) == 0.75, "a pruned weight grew back")
    need(((m.head.weight != 0).sum(1) == 4).all(), "top 4 of each row")
    want = m.eval()(ids)
    need(str(s.report()).count("blocks 4x1") == 4 and "measured" in str(s.report()), str(s.report()))
    s2 = sparse.create_schedule(m)
    s2["*.mlp.*.weight"].set_format("strip(4)")
    s2["linear?.attn.qkv"].set_format("csr")
    s2["head"].set_format(sparse.BitmapTensor)
    s2.build_((ids,))
    need(all(isinstance(layer, sparta.nn.SparseLinear) for layer in (m.linear1.mlp[0], m.linear2.attn.qkv)), m)
    need(isinstance(m.head, sparta.masked.MaskedLinear), m.head)
    close(m(ids), want)
    rows = {row["name"]: row for row in s2.report()}
    need(rows["linear1.mlp.0.weight"]["runs"] == "SparseLinear, blocks 4x1" and rows["linear1.mlp.0.weight"]["density"] == 0.25, rows)
    need(rows["head.weight"]["runs"] == "C operator", rows["head.weight"])
    third = sparse.create_schedule(m)
    third["linear1.mlp.0"].sparsify("2:4")
    refused(ValueError, "unbuild_", third.apply_)


def any_format():
    """The library's operator without gradients, dense with them; a weight that changes; copies, and back."""
    for text in ("quads(64)", "pairs", "ell", "csc", "bitmap", "coo", "dia", "hyb(1,2)", "dcsr", "bell(4,4)"):
        layer = nn.Sequential(nn.Linear(96, 40, bias=text != "coo"))
        s = sparse.create_schedule(layer)
        sparsifier = {"dia": lambda w: torch.ones_like(w).triu(0).tril(3), "bell(4,4)": "4x4:0.8"}.get(text, "1x1:0.8")
        s["0"].sparsify(sparsifier).set_format(text)
        s.build_()
        need(s.report()[0]["runs"] == "C operator", s.report())
        for shape in ((96,), (1, 96), (3, 50, 96), (200, 96), (0, 96)):
            x = torch.randn(shape)
            want = F.linear(x, layer[0].weight, layer[0].bias)
            with torch.no_grad():
                close(layer(x), want)
            close(layer(x), want)
    x = torch.randn(130, 96).t().contiguous().t()
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    layer(x).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        want = F.linear(x, layer[0].weight, layer[0].bias)
        close(layer(x), want)
        for same in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            close(same(x), want)
        close(layer.double()(x.double()), want.double())
        layer.float()
        layer[0].weight.data.mul_(2)
        close(layer.eval()(x), F.linear(x, layer[0].weight, layer[0].bias))
    need(sorted(layer.state_dict()) == ["0.bias", "0.weight", "0.weight_mask"], sorted(layer.state_dict()))
    row = sparta.report(layer)[0]
    need(row["implement"] == "C operator" and row["sparse"] and row["block"] == "bell(4,4)", row)
    need("walk" in row["reason"] or "generated" in row["reason"], row)
    need(type(sparta.unbuild_(copy.deepcopy(layer))[0]) is sparta.masked.MaskedLinear, "unbuild_")
    sparta.masked.unmask_(layer[0])
    need(type(layer[0]) is nn.Linear and int((layer[0].weight == 0).sum()) >= 0.8 * 96 * 40 - 1, "back")
    refused(RuntimeError, "", nn.Sequential(s.model[0]), torch.randn(3, 5))


@torch.no_grad()
def exchanged():
    """A weight that is another tensor, or has other memory, is seen: Python gives the number of an object that is gone again, at version 0."""
    model = nn.Sequential(nn.Linear(64, 64, bias=False))
    s = sparse.create_schedule(model)
    s["0"].sparsify("1x1:0.9").set_format("ell")
    s.build_()
    layer, x = model[0], torch.randn(4, 64)

    def new():
        return torch.randn(64, 64) * layer.weight_mask

    def replaced():
        weight = new()
        del layer.weight
        layer.weight = nn.Parameter(weight)

    def twice():
        for _ in range(2):
            layer.weight = nn.Parameter(new())

    def memory():
        layer.weight.data = new()

    def vector():
        nn.utils.vector_to_parameters(new().reshape(-1), [layer.weight])

    for change in (replaced, twice, memory, vector, lambda: layer.weight.mul_(2)):
        for _ in range(30):
            layer(x)
            change()
            close(layer(x), F.linear(x, layer.weight))
    need(sparta.report(model)[0]["implement"] == "C operator", sparta.report(model))


def frozen_weight():
    """A bias that trains beside a frozen weight gets its gradient."""
    layer = nn.Sequential(nn.Linear(96, 40))
    s = sparse.create_schedule(layer)
    s["0"].sparsify("1x1:0.8").set_format("csc")
    s.build_()
    layer[0].weight.requires_grad_(False)
    layer(torch.randn(8, 96)).sum().backward()
    close(layer[0].bias.grad, torch.full((40,), 8.0))


def measured():
    m = model()
    s = sparse.create_schedule(m)
    s["*.mlp.*.weight"].sparsify("4x1:0.75")
    s["linear1.mlp.0:output"].sparsify("topk(8)")
    s.apply_()
    want = m.eval()(ids)
    again = model()
    t = sparse.create_schedule(again)
    t["*.mlp.*.weight"].sparsify("4x1:0.75")
    t["linear1.mlp.0:output"].sparsify("topk(8)")
    t.build_({"ids": ids})
    close(again.eval()(ids), want)
    layer = again.linear1.mlp[0]
    packed = "SparseLinear" in t.report()[0]["runs"]
    need(isinstance(layer, sparta.nn.SparseLinear) == packed and len(layer._forward_hooks) == 1, "the hook is on the layer that runs")
    need(all("with [2, 12, " in row["reason"] for row in t.report() if row["kind"] == "weight"), str(t.report()))


def encoders():
    """torch's encoder reads the weights of its parts: they stay dense, and the report says so; the same builder as sparta.build_'s."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    s = sparse.create_schedule(layer)
    s["linear1"].sparsify("4x1:0.5").set_format("strip(4)")
    s["linear2"].sparsify("4x1:0.5").set_format("csc")
    said = [(row["runs"], row["reason"]) for row in s.report()]
    s.build_(torch.randn(2, 5, 16))
    need([(row["runs"], row["reason"]) for row in s.report()] == said, "what is said before is what is said after")
    need(all(runs == "dense" and "reads its weight" in why for runs, why in said), said)
    need(type(layer.linear1) is type(layer.linear2) is sparta.masked.MaskedLinear, layer)
    m = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
    bias = m[0].bias
    s = sparse.create_schedule(m)
    s["0"].sparsify("4x1:0.5").set_format("strip(4)")
    s.build_()
    need(isinstance(m[0], sparta.nn.SparseLinear) and m[0].bias is bias, "the same bias")
    need("as the schedule says" in sparta.report(m)[0]["reason"] and type(s.report()) is type(sparta.report(m)), str(sparta.report(m)))
    one = nn.Linear(8, 8)
    s = sparse.create_schedule(one)
    s["weight"].sparsify("4x1:0.5").set_format("strip(4)")
    s.build_()
    need(s.report()[0]["runs"] == "dense" and "one layer" in s.report()[0]["reason"], s.report())


def tied():
    m = nn.Module()
    m.embed, m.out = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
    m.out.weight = m.embed.weight
    s = sparse.create_schedule(m)
    s["out.weight"].sparsify("1x1:0.5")
    s.build_()
    need(m.out.weight is m.embed.weight and type(m.embed).__name__ == "MaskedEmbedding" and "tied" in s.report()[0]["reason"], m)
    need(len(sparse.create_schedule(m)["*"].targets) == 1, "once")


def mask_files():
    folder = tests.work.name
    keep = (np.arange(12 * 8).reshape(12, 8) % 3 != 0).astype(np.float32)
    np.savez(os.path.join(folder, "masks.npz"), **{"0.weight": keep})
    layer = nn.Sequential(nn.Linear(8, 12))
    s = sparse.create_schedule(layer, 'tensor "0.weight" { sparsify mask("masks.npz") }', folder=folder)
    s.apply_()
    need(np.array_equal(layer[0].weight_mask.numpy(), keep != 0), "another mask")
    other = nn.Sequential(nn.Linear(8, 12), nn.Linear(12, 8))
    t = sparse.create_schedule(other, folder=folder)
    t["1.weight"].sparsify('mask("masks.npz")')
    refused(ValueError, "has no array of that name; it has 0.weight", t.apply_)
    t["1.weight"].sparsify('mask("../masks.npz")')
    refused(ValueError, "beneath the folder", t.apply_)
    for file, content in (("none.npz", None), ("bad.npz", b"PK" + bytes(40)), ("empty.npz", b""), ("bad.safetensors", bytes(40)), ("bad.npy", b"x")):
        if content is not None:
            with open(os.path.join(folder, file), "wb") as out:
                out.write(content)
        t["1.weight"].sparsify(f'mask("{file}")')
        refused(ValueError, file, t.apply_)
    with open(os.path.join(folder, "schedule.sparta"), "w") as out:
        out.write('tensor "0.weight" { sparsify mask("masks.npz") }')
    opened = sparta.Schedule.open(os.path.join(folder, "schedule.sparta"))
    for take in (lambda m: sparta.sparsify_(m, opened), lambda m: sparse.create_schedule(m, opened).apply_(), lambda m: sparse.create_schedule(m, s).apply_()):
        layer = take(nn.Sequential(nn.Linear(8, 12)))
        need(np.array_equal(layer[0].weight_mask.numpy(), keep != 0), "a schedule's masks lie in its own folder")
    need(type(other[1]) is nn.Linear, "half changed")


# ---------------------------------------------------------------- at every call
def outputs():
    m = model()
    s = sparse.create_schedule(m)
    s["linear1.mlp.0:output"].sparsify("topk(5)")
    s["linear2.mlp.1"].sparsify("threshold(0.2)")
    s["linear2.attn:output"].sparsify(lambda x: x > 0)
    s.apply_()
    x = torch.randn(3, 4, 16, requires_grad=True)
    got = m.linear1.mlp[0](x)
    full = F.linear(x, m.linear1.mlp[0].weight, m.linear1.mlp[0].bias)
    want = torch.where(full.abs() >= full.abs().topk(5, -1).values[..., -1:], full, 0)
    close(got, want)
    close(*(torch.autograd.grad(y.square().sum(), x)[0] for y in (got, want)))
    y = m.linear2.mlp[1](x)
    need(torch.equal(y, torch.where(x.relu() < 0.2, 0, x.relu())), "threshold")
    need((m.linear2.attn(x) >= 0).all(), "a function")
    same = pickle.loads(pickle.dumps(copy.deepcopy(remove_lambda(s, m))))
    close(same(ids), m(ids))
    again = sparse.create_schedule(m)
    again["linear1.mlp.0:output"].sparsify("topk(7)")
    again.apply_()
    need(((m.linear1.mlp[0](x) != 0).sum(-1) == 7).all() and len(m.linear1.mlp[0]._forward_hooks) == 1, "the last schedule counts")
    again.remove_()
    close(m.linear1.mlp[0](x), full)


def remove_lambda(s, m):
    s["linear2.attn:output"].sparsify(sparta.sparsifiers.TopK(3))
    return s.apply_()


def attention_modules():
    x = torch.randn(2, 10, 16)
    for need_weights in (True, False):
        for mode in (True, False):
            m = nn.MultiheadAttention(16, 2, batch_first=True).train(mode)
            hold = nn.ModuleDict({"attn": m})
            pad = torch.zeros(2, 10, dtype=torch.bool)
            pad[0, 7:] = True
            later = torch.ones(10, 10, dtype=torch.bool).triu(1)
            want = m(x, x, x, key_padding_mask=pad, attn_mask=later, need_weights=need_weights)
            s = sparse.create_schedule(hold)
            s["attn"].sparsify(all_of_them)
            s.apply_()
            got = m(x, x, x, key_padding_mask=pad, attn_mask=later, need_weights=need_weights)
            close(got[0], want[0])
            need((got[1] is None) == (want[1] is None), "weights")
            if want[1] is not None:
                close(got[1], want[1])
            s["attn"].sparsify("topk(3)")
            s.apply_()
            _, shares = m(x, x, x, average_attn_weights=False)
            need(((shares > 0).sum(-1) == 3).all(), "three keys a query")
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    threads(hold)
    s = sparse.create_schedule(layer)
    s["self_attn"].sparsify("similarity(topk=1, block=2)")
    s.apply_()
    with torch.no_grad():
        layer(x)
    need(0.1 < s.report()[0]["density"] < 0.5, s.report())
    wrong = sparse.create_schedule(model())
    wrong["linear1.mlp:attention"].sparsify("topk(2)")
    refused(ValueError, "computed no attention", wrong.apply_(), ids)


class Causal(nn.Module):
    """The three ways to hide the keys of the future and of padding."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, q, k, v):
        later = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
        if self.way == "is_causal":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.way == "bool":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=~later)
        low = {"-inf": float("-inf"), "lowest": torch.finfo(q.dtype).min}[self.way.split()[-1]]
        added = torch.zeros(later.shape).masked_fill(later, low)
        if "written" not in self.way:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=added)
        return F.softmax(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + added, dim=-1) @ v


def hidden_keys(way, format):
    """topk chooses among the keys that a query may see: as many as asked for, the largest of them; never NaN."""
    torch.manual_seed(2)
    hold = nn.ModuleDict({"attn": Causal(way)})
    q, k, v = (torch.randn(2, 3, 9, 8, requires_grad=True) for _ in range(3))
    scores = (q @ k.transpose(-1, -2) / math.sqrt(8)).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(1), float("-inf"))
    for count, sparsifier in ((1, "topk(1)"), (4, "topk(4)"), (1, "similarity(topk=1)"), (2, largest)):
        s = sparse.create_schedule(hold)
        rule = s["attn:attention"].sparsify(sparsifier)
        if format:
            rule.set_format(format)
        s.apply_()
        got = hold["attn"](q, k, v)
        seen = scores if sparsifier is not largest else torch.where(scores == float("-inf"), 0, scores).abs().masked_fill(scores == float("-inf"), -1)
        kept = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, seen.topk(count, -1).indices, True) & (scores > float("-inf"))
        kept = kept | torch.eye(9, dtype=torch.bool) if "similarity" in str(sparsifier) else kept
        want = torch.softmax(scores.masked_fill(~kept, float("-inf")), -1) @ v
        close(got, want)
        for ours, theirs in zip(torch.autograd.grad(got.sum(), (q, k, v)), torch.autograd.grad(want.sum(), (q, k, v), retain_graph=True)):
            close(ours, theirs, 1e-4)
        s.remove_()


def largest(x):
    return x.abs() >= x.abs().topk(2, -1).values[..., -1:]


def nothing_seen():
    """A query that the module's own mask leaves nothing gets 0, not NaN."""

    class Written(nn.Module):
        def forward(self, q, added):
            return torch.softmax(q @ q.transpose(-1, -2) + added, -1) @ q

    hold = nn.ModuleDict({"attn": Written()})
    s = sparse.create_schedule(hold)
    s["attn:attention"].sparsify("topk(1)")
    s.apply_()
    q = torch.randn(2, 5, 4, requires_grad=True)
    added = torch.zeros(5, 5)
    added[3] = float("-inf")
    out = hold["attn"](q, added)
    out.sum().backward()
    need(bool((out[:, 3] == 0).all()) and bool(out.isfinite().all()) and bool(q.grad.isfinite().all()), out)


def threads(hold):
    """Several at once on one module: each sees its own attention."""
    import concurrent.futures

    xs = [torch.randn(1, 10, 16) for _ in range(16)]
    with torch.no_grad(), concurrent.futures.ThreadPoolExecutor(4) as pool:
        want = [hold["attn"].eval()(x, x, x)[0] for x in xs]
        for got, one in zip(pool.map(lambda x: hold["attn"](x, x, x)[0].detach(), xs), want):
            close(got, one)


def all_of_them(x):
    return torch.ones_like(x)


def routing():
    """Queries see the keys of their cluster; what attracts a direction moves it."""
    r = sparta.sparsifiers.Routing(clusters=4, decay=0.5)
    q = torch.randn(2, 3, 40, 8)
    mask = r.attention_mask(q, q)
    cluster = (F.normalize(q, dim=-1) @ F.normalize(torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), dim=-1).T).argmax(-1)
    need(torch.equal(mask, cluster[..., :, None] == cluster[..., None, :]), "clusters")
    before = r.means.clone()
    with torch.no_grad():
        r.attention_mask(q, q)
    need(torch.equal(r.means, before), "it learned without training")
    r.attention_mask(q, q)
    need(not torch.equal(r.means, before) and torch.allclose(r.means.norm(dim=-1), torch.ones(4)), "it did not learn")


def transformers_bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    bert = BertModel(BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=50)).eval()
    inputs = {"input_ids": torch.randint(0, 50, (2, 16)), "attention_mask": torch.ones(2, 16, dtype=torch.long)}
    inputs["attention_mask"][0, 12:] = 0
    s = sparse.create_schedule(bert)
    s["encoder.layer.*.output.dense.weight"].sparsify("magnitude(4x1, 0.5)").set_format("strip(4)")
    s["encoder.layer.0.attention"].sparsify(all_of_them)
    with torch.no_grad():
        for name, layer in bert.named_modules():
            if name.endswith("output.dense"):
                layer.weight.mul_(sparta.patterns.mask(layer.weight, "4x1:0.5"))
        want = bert(**inputs).last_hidden_state
        s.build_(inputs)
        close(bert(**inputs).last_hidden_state, want, 1e-4)
        need(s.report()[0]["runs"] == "SparseLinear, blocks 4x1" and s.report()[-1]["density"] > 0.8, str(s.report()))
        s["encoder.layer.0.attention"].sparsify("topk(4)")


# ---------------------------------------------------------------- texts
def texts():
    m = model()
    s = sparse.create_schedule(m)
    s["*.mlp.*.weight"].sparsify("4x1:0.75").block(4, 1).set_format("csr")
    s["head.weight"].sparsify(SimilarityOfWeights(k=2, name='a "b"\\'))
    s["linear1.attn"].sparsify(SimilaritySparsifier).set_format("bsr(4)")
    s["linear2.attn"].sparsify("topk(3)")
    s["linear1.attn.qkv"].sparsify(all_of_them)
    s["linear2.mlp:output"].sparsify("threshold(0.25)")
    text = str(s)
    need(f'sparsify python("{THIS}:SimilaritySparsifier", arguments="above=0.0")' in text.replace("__main__", THIS), text)
    need(f'sparsify python("{THIS}:all_of_them")' in text.replace("__main__", THIS), text)
    again = sparse.create_schedule(m, text)
    need(str(again) == text, f"{again}\n{text}")
    need(str(sparse.create_schedule(m, sparse.Schedule.parse(text))) == text and str(sparse.Schedule.parse(text)) == text, "Schedule.parse")
    need(again["head.weight"].said["sparsify"].name == 'a "b"\\', again["head.weight"].said)
    s["linear1.attn.qkv"].sparsify(lambda w: w > 0)
    refused(ValueError, "has no name that a text could say", str, s)

    class Local(sparse.Sparsifier):
        def mask(self, x):
            return x > 0

    s["linear1.attn.qkv"].sparsify(Local)
    refused(ValueError, "outside", str, s)
    s["linear1.attn.qkv"].sparsify(SimilarityOfWeights(name=torch.ones(1)))
    refused(ValueError, "its argument name=", str, s)
    named = ('format mine = (n,k)->(n/4:dense, k:compressed, n%4:dense)\nsparsifier heavy = magnitude(4x1, 0.5)\nmodel { dim batch=1:8:32 }\n'
             'tensor "*.mlp.*.weight" { sparsify heavy; format mine }\ntensor "head" { format sum{rownnz<=4 -> mine; rest -> csr} }')
    t = sparse.create_schedule(m, named)
    need("dim batch=1:8:32" in str(t) and "sparsify magnitude(pattern=4x1, sparsity=0.5)" in str(t) and "rownnz<=4 -> (n,k)" in str(t), str(t))
    need(str(sparse.create_schedule(m, str(t))) == str(t), "again")


def in_packages():
    """What a module computes, sparsified in a package as at every call in PyTorch, by the same words; texts with shares read back."""
    torch.manual_seed(1)
    m = nn.Sequential(nn.Linear(64, 500), nn.ReLU(), nn.Linear(500, 40)).eval()
    x = torch.randn(1, 64)
    given = m(x)
    for text, printed in (("topk(10%)", "topk(k=10%)"), ("topk(20, expect=2%)", "topk(k=20, expect=2%)"), (sparta.sparsifiers.TopK(9), "topk(k=9)"),
                          ("threshold(0.1, bound=20%)", "threshold(value=0.1, bound=20%)"), ("threshold(0, expect=10%)", "threshold(value=0, expect=10%)"),
                          (sparta.sparsifiers.Threshold(0.5, bound=4), "threshold(value=0.5, bound=4)")):
        s = sparse.create_schedule(m)
        s["1:output"].sparsify(text)
        need(f"    sparsify {printed}\n" in str(s) and str(sparse.create_schedule(m, str(s))) == str(s), str(s))
        package = sparta.compile(m, example_inputs=x, schedule=s, no_measure=1)
        s.apply_()
        want = m(x)
        s.remove_()
        need(torch.equal(want, given) == (printed == "threshold(value=0, expect=10%)"), "the hook does something")
        close(torch.from_numpy(package.run({"input": x})["output"]), want)
        need(package.layers[-1]["implement"] == "few_skip", package.layers)
    for wrong in ("topk(0)", "topk(101%)", "threshold(1, bound=0%)", "topk(k=x%)"):
        refused(ValueError, "", sparse.create_schedule(m)["1:output"].sparsify, wrong)
    refused(ValueError, "share such as", sparta.sparsifiers.TopK, "many")


class SimilarityOfWeights(sparse.Sparsifier):
    def __init__(self, k=1, name=""):
        self.k, self.name = k, name

    def mask(self, x):
        return x > 0


def hostile_texts():
    m = model()
    for text, words in (
        ('tensor "head.weight" { sparsfy x }', "did you mean 'sparsify'"),
        ('tensor "haed.weight" { format csr }', "'head.weight'"),
        ('tensor "head.weight" { sparsify python("os:system") }', ""),
        ('tensor "head.weight" { sparsify python("no.such.module:f") }', "No module named 'no'"),
        ('tensor "head.weight" { sparsify python("math:nothing") }', "nothing"),
        ('tensor "head.weight" { sparsify python("os.system(1)") }', "module:name"),
        ('tensor "head.weight" { sparsify python("os; x:y") }', "module:name"),
        (f'tensor "head.weight" {{ sparsify python("{THIS}:SimilarityOfWeights", "k=__import__(\'os\')") }}', "plain values"),
        (f'tensor "head.weight" {{ sparsify python("{THIS}:SimilarityOfWeights", "z=3") }}', "z"),
        (f'tensor "head.weight" {{ sparsify python("{THIS}:all_of_them", "3") }}', "only classes take arguments"),
        (f'tensor "head.weight" {{ sparsify python("{THIS}:THIS") }}', "names no class and no function"),
        ('tensor "head.weight" { sparsify python(3) }', "expected a string"),
        ('tensor "head.weight" { sparsify magnitude(4x1, 2) }', "between 0 and 1"),
        ('tensor "head.weight" { format scr }', "did you mean 'csr'"),
    ):
        if words:
            refused((ValueError, TypeError), words, sparse.create_schedule, m, text)


# ---------------------------------------------------------------- what is refused
def refusals():
    m = model()
    state = {k: v.clone() for k, v in m.state_dict().items()}
    kinds = [type(x) for x in m.modules()]

    def wrong(words, say, kind=ValueError, do="apply_"):
        s = sparse.create_schedule(m)
        s["linear1.mlp.0.weight"].sparsify("2:4")
        say(s)
        refused(kind, words, getattr(s, do))
        need([type(x) for x in m.modules()] == kinds and all(torch.equal(v, state[k]) for k, v in m.state_dict().items()), "half changed")
        need(not any(x._forward_hooks or x._forward_pre_hooks for x in m.modules()), "hooks were left")

    wrong("say different things", lambda s: s["linear?.mlp.0.weight"].sparsify("4x1:0.5"))
    wrong("packed[2] holds 2", lambda s: s["head.weight"].set_format("(i,j)->(i:dense, j:packed[2])"))
    wrong("3 dimensions but the tensor has 2", lambda s: s["head.weight"].iter(3).compress())
    wrong("is not done in PyTorch", lambda s: s["head.weight"].quantize("i8"), sparse.Error)
    wrong("is not done in PyTorch", lambda s: s["head.weight"].kernel("{ unroll(n) }"), sparse.Error)
    wrong("is not done in PyTorch", lambda s: s["head.weight"].set_implement("strip4"), sparse.Error)
    wrong("needs a sparsifier", lambda s: s["linear1.attn"].set_format("csr"))
    wrong("does not expand to", lambda s: s["head.weight"].sparsify(lambda w: w[:3, :3] > 0))
    wrong("has NaN", lambda s: s["head.weight"].sparsify(lambda w: w * float("nan")))
    wrong("a tensor is needed", lambda s: s["head.weight"].sparsify(lambda w: 3), TypeError)
    wrong("cannot be masked", lambda s: s["conv.weight"].sparsify("1x1:0.5"))
    s = sparse.create_schedule(m)
    rule = s["head.weight"].sparsify("2:4")
    refused(ValueError, "'wrong'", s.build_, {"wrong": ids})
    need([type(x) for x in m.modules()] == kinds, "half built")
    refused(ValueError, "between 0 and 1", rule.sparsify, "magnitude(4x1, 2)")
    refused(ValueError, "expected a sparsifier", rule.sparsify, "magnitud(4x1, 0.5)")
    refused(TypeError, "a function is needed", rule.sparsify, 3)
    refused(TypeError, "has no mask", rule.sparsify, int)
    refused(TypeError, "give an object", rule.sparsify, NeedsArguments)
    refused(ValueError, "only after block", rule.set_format, "coo", [2, 3])
    refused(ValueError, "did you mean", rule.set_format, "csrr")
    refused(ValueError, "mask(...) is for weights", s["linear1.mlp:output"].sparsify, 'mask("x.npz")')
    need(str(s).count("sparsify") == 1, str(s))
    need(rule.iter().compress().pack(width=3).said["format"] == "(i,j)->(i:dense, j:packed[3])", rule.said)
    need(rule.set_format("csr").set_format("strip(4)").said["format"] == "strip(4)", "the last counts")


class NeedsArguments(sparse.Sparsifier):
    def __init__(self, k):
        self.k = k

    def mask(self, x):
        return x > 0


def page():
    """docs/scheduling-pytorch.md: its first example prints what it says, and its second does what it says."""
    import contextlib
    import io

    with open(os.path.join(ROOT, "docs/scheduling-pytorch.md"), encoding="utf-8") as file:
        text = file.read()
    blocks = [textwrap.dedent(b) for b in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)]
    space, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(blocks[0], space)
    need(said.getvalue().strip() == blocks[1].strip(), f"it prints {said.getvalue()}")
    with contextlib.redirect_stdout(said):
        exec(blocks[2], space)
    need("SparseLinear, blocks 4x1" in said.getvalue(), said.getvalue())
    exec(blocks[3].split("print(")[0] + "need(str(Ellpack().format) in page, Ellpack().format)", {"sparta": sparta, "need": need, "page": blocks[3]})


def docstrings():
    import importlib

    for name in ("model_schedule", "sparsifiers"):
        result = doctest.testmod(importlib.import_module("sparta." + name), extraglobs={"torch": torch})
        need(result.attempted and not result.failed, f"{name}: {result.failed} of {result.attempted} examples failed")


for name, function in (
    ("proposal: csc", snippet_csc), ("proposal: ellpack", snippet_ellpack), ("proposal: hybrid", snippet_hybrid),
    ("proposal: similarity", snippet_similarity), ("names", names), ("masks as the library's", library_masks), ("weights", weights),
    ("any format", any_format), ("an exchanged weight", exchanged), ("a frozen weight", frozen_weight),
    ("measured", measured), ("torch's encoder", encoders), ("tied weights", tied), ("mask files", mask_files), ("outputs", outputs), ("attention modules", attention_modules),
    ("routing", routing), ("a BERT of transformers", transformers_bert), ("texts", texts), ("in packages", in_packages), ("hostile texts", hostile_texts), ("refusals", refusals),
    ("docstrings", docstrings), ("the page", page),
):
    tests.check(name, function)
for way in ("is_causal", "bool", "-inf", "lowest", "written -inf", "written lowest"):
    for format in (None, "bsr(4,4)")[: 1 if "written" in way else 2]:
        tests.check(f"keys that nobody may see, {way}, {format or 'dense'}", hidden_keys, way, format)
tests.check("a query that sees nothing", nothing_seen)
sys.exit(tests.finish())
