"""Programs of torch.export (.pt2), read without Python: what PyTorch writes compiles, and the package gives eager PyTorch's answer."""

import json
import os
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from common import ROOT, Tests, need, program, refused
from today import turn

import sparta  # common.py says where it is

warnings.filterwarnings("ignore")
tests = Tests()
os.environ["XDG_CACHE_HOME"] = tests.work.name
torch.manual_seed(0)
QUICK = {"no_measure": 1, "context": {"cache_dir": "", "compiler": ""}}
BATCH, LENGTH = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=1, max=64)


def save(name, module, inputs, shapes=None, kwargs=None):
    path = os.path.join(tests.work.name, name + ".pt2")
    try:
        program = torch.export.export(module, inputs, kwargs, dynamic_shapes=shapes)
    except torch._dynamo.exc.UserError:  # not at every size that the dims allow: those that torch finds
        auto = torch.utils._pytree.tree_map(lambda _: torch.export.Dim.AUTO, shapes)
        program = torch.export.export(module, inputs, kwargs, dynamic_shapes=auto)
    torch.export.save(program, path)
    return path


def close(got, want, most=1e-4):
    want = want.detach().numpy()
    need(got.shape == want.shape and got.dtype == want.dtype, f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}")
    plain = np.isfinite(want)
    need(np.array_equal(got[~plain], want[~plain], equal_nan=got.dtype.kind == "f"), "other infinities or NaNs")
    got, want = got[plain].astype(np.float64), want[plain].astype(np.float64)
    off = np.abs(got - want).max() if want.size else 0
    need(off <= most * max(np.abs(want).max() if want.size else 0, 1e-3), f"off by {off}")
    return off


def leaves(answer):
    return [x for x in torch.utils._pytree.tree_leaves(answer) if isinstance(x, torch.Tensor)]


def agree(name, module, inputs, shapes=None, more=(), kwargs=None, most=1e-4):
    """The package of the exported module at the example and at other sizes, as close as that."""
    package = sparta.compile(save(name, module.eval(), inputs, shapes, kwargs), **QUICK)
    for given in (inputs, *more):
        with torch.no_grad():
            want = leaves(module(*given, **(kwargs or {})))
        got = package.run(dict(zip(package.inputs, leaves((given, kwargs or {})))))
        need(len(got) == len(want), f"{list(got)} for {len(want)} outputs")
        for have, expected in zip(got.values(), want):
            close(have, expected, most)
    return package


def in_onnxruntime(name, module, inputs):
    """What propagate and prune write of the saved program is ONNX that onnxruntime runs, propagate's with eager PyTorch's answer."""
    import onnxruntime

    path, written = (os.path.join(tests.work.name, name + end) for end in (".pt2", ".onnx"))
    for words in (("prune", path, "--pattern", "1x1:0.5"), ("propagate", path)):
        done = program(*words, "-o", written)
        need(done.returncode == 0 or "has no weight" in done.stderr, f"{words[0]}: {done.stderr}")
    session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    with torch.no_grad():
        want = leaves(module(*inputs))
    for have, expected in zip(session.run(None, dict(zip(names, (x.numpy() for x in leaves(inputs))))), want, strict=True):
        close(have, expected)


# ---------------------------------------------------------------- overloads, one by one


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


X, Y, POSITIVE, IDS = torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.rand(2, 3, 4) + 0.5, torch.randint(0, 3, (2, 5))
IMAGE, MASK, WHOLE = torch.randn(2, 4, 6, 6), torch.rand(2, 3, 4) > 0.5, torch.randint(-9, 9, (2, 3, 4))
CASES = {
    "one operand": (lambda x, p: (x.relu(), x.tanh(), x.sigmoid(), x.erf(), x.exp(), p.log(), p.sqrt(), p.rsqrt(), x.square(), p.reciprocal(), x.abs(), -x, x.sin(), x.cos()), X, POSITIVE),
    "rounding": (lambda x: (x.floor(), x.ceil(), x.round(), x.sign(), torch.isnan(x), torch.isinf(x), ~(x > 0), torch.logical_not(x > 0)), X),
    "activations": (lambda x: (F.silu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.leaky_relu(x, 0.2), F.elu(x, 0.7), F.softplus(x), F.mish(x), F.hardswish(x), F.hardsigmoid(x), F.relu6(x), F.selu(x), F.hardtanh(x, -0.5, 0.3)), X),
    "two operands": (lambda x, y, p: (x + y, torch.add(x, y, alpha=2), x - y, torch.sub(x, y, alpha=0.5), 3 - x, x * y, x / p, torch.maximum(x, y), torch.min(x, y), p**2, p**y, 2**x, x + 1, x * 2.5), X, Y, POSITIVE),
    "integers": (lambda w: (w + 1, w * 2, w / 2, w // 3, torch.div(w, 3, rounding_mode="trunc"), w % 3, w.sum(), w.abs(), w == 3, w < 0, w > 0.5), WHOLE),
    "floor and remainder": (lambda x: (torch.div(x, 0.3, rounding_mode="floor"), torch.div(x, 0.3, rounding_mode="trunc"), x % 0.7), X),
    "comparisons": (lambda x, y, m: (x < y, x <= 0, x > y, x >= 0, x == y, x != y, m & (x > 0), m | (x > 0), m ^ (x > 0), torch.logical_and(m, x > 0)), X, Y, MASK),
    "choices": (lambda x, y, m: (torch.where(m, x, y), torch.where(m, x, 0.0), x.masked_fill(m, float("-inf")).softmax(-1), x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.1)), X, Y, MASK),
    "reductions": (lambda x, p, m: (x.sum(), x.sum(1), x.sum((0, 2), keepdim=True), x.mean(-1), x.mean(), p.prod(1), x.amax(1), x.amin((0, 1)), x.max(), x.min(), m.any(), m.all(1), m.sum(-1), x.logsumexp(-1), x.norm(dim=-1), torch.linalg.vector_norm(x, 1, dim=1)), X, POSITIVE, MASK),
    "where they are": (lambda x: (*x.max(1), *x.min(-1, keepdim=True), x.argmax(-1), x.argmin(1, keepdim=True), x.argmax(), *x.topk(2, -1), x.cumsum(1)), X),
    "softmax": (lambda x: (x.softmax(-1), x.softmax(1), x.log_softmax(-1), F.softmax(x, dim=-1, dtype=torch.float64)), X),
    "products": (lambda x, y: (x @ y.transpose(1, 2), torch.bmm(x, y.mT), torch.mm(x[0], y[0].t()), torch.addmm(x[0, 0], x[0], y[0].T.contiguous() @ y[0], beta=0.5, alpha=2), torch.einsum("bij,bkj->bik", x, y), torch.baddbmm(x @ y.mT, x, y.mT), x[0, 0] @ y[0, 1]), X, Y),
    "views": (lambda x: (x.view(6, 4), x.reshape(-1), x.flatten(1), x.flatten(0, 1), x.unflatten(2, (2, 2)), x.transpose(0, 2), x.permute(2, 0, 1), x.movedim(0, 2), x.unsqueeze(-1), x[:1].squeeze(0), x.unsqueeze(1).squeeze(), x.view_as(x)), X),
    "pieces": (lambda x: (x[:, 1:], x[..., ::2], x[:, -1], x[0], x.narrow(1, 1, 2), *x.split(2, 1), *x.split([1, 3], 2), *x.chunk(2, -1), *x.unbind(1), x.select(2, -1)), X),
    "together": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], -1), x.repeat(2, 1, 3), x.repeat(2, 1, 1, 1), x.repeat_interleave(2, 1), x[:, :1].expand(-1, 5, -1), x[:1].expand_as(y), x.roll(1, 1), x.roll((1, -1), (0, 2)), x.flip(1), x.diff(dim=1)), X, Y),
    "padding": (lambda x, i: (F.pad(x, (1, 2)), F.pad(x, (0, 1, 2, 0), value=3.0), F.pad(i, (1, 1, 1, 1), mode="reflect"), F.pad(i, (1, 0, 0, 1), mode="replicate"), x.tril(), x.triu(1)), X, IMAGE),
    "indices": (lambda x, i: (x[:, i[0] % 3], x[i[0] % 2, i[1] % 3], x[:, i[0] % 3, i[1] % 4], x[i[0] % 2, :, i[1] % 4], x[i[:, :1] % 2, i % 3], x.index_select(2, i[0] % 4), x.gather(1, i[:, :1, None].expand(2, 1, 4) % 3)), X, IDS),
    "new tensors": (lambda x: (x + torch.arange(4), torch.arange(1, 7, 2) + x[0, 0, 0], x + torch.ones(3, 1), torch.zeros_like(x) + x, torch.full((2,), 2.5) * x[:, 0, 0], x.new_ones(2, 1, 1) + x, torch.full_like(x, -1) * x, x * torch.tensor(3.0)), X),
    "types": (lambda x, w: (x.double(), x.to(torch.int32), w.float() * x, w.to(x.dtype), x.half().float(), w.bool(), w.type_as(x), x + w), X, WHOLE),
    "convolutions": (lambda i, w: (F.conv2d(i, w), F.conv2d(i, w, padding=1, stride=2), F.conv2d(i, w, padding="same"), F.conv2d(i, w[:, :2], groups=2, dilation=2), F.conv_transpose2d(i, w.transpose(0, 1), stride=2, padding=1, output_padding=1), F.conv1d(i[:, :, 0], w[:, :, 0])), IMAGE, torch.randn(6, 4, 3, 3)),
    "pools": (lambda i: (F.max_pool2d(i, 2), F.max_pool2d(i, 3, 2, 1), F.max_pool2d(i, 3, 2, ceil_mode=True), F.avg_pool2d(i, 2), F.avg_pool2d(i, 3, 1, 1), F.adaptive_avg_pool2d(i, 1), F.adaptive_avg_pool2d(i, (3, 2)), F.max_pool1d(i[:, :, 0], 2)), IMAGE),
    "images": (lambda i: (F.interpolate(i, scale_factor=2), F.interpolate(i, size=(9, 8), mode="bilinear"), F.interpolate(i, size=(9, 8), mode="bilinear", align_corners=True), F.pixel_shuffle(i, 2)), IMAGE),
    "norms": (lambda i, x: (F.group_norm(i, 2), F.instance_norm(i), F.layer_norm(x, (4,)), F.layer_norm(x, (3, 4)), F.rms_norm(x, (4,)), F.batch_norm(i, torch.ones(4), torch.full((4,), 2.0))), IMAGE, X),
    "more activations": (lambda x, i, s: (x.atan(), F.threshold(x, 0.3, -2.0), F.logsigmoid(x), F.glu(x, -1), F.glu(i, 1), F.prelu(i, s), F.prelu(x, s[:1]), F.prelu(x[0], s)), X, IMAGE, torch.rand(4)),
    "variances": (lambda x: (x.var(-1), x.var(1, unbiased=False), x.var((0, 2), keepdim=True), x.std(-1), x.var(), torch.std(x, 1, correction=0), x[:, :1].var(1).isnan(), *torch.var_mean(x, 1), *torch.var_mean(x, (0, 1), correction=0)), X),
    "sorts": (lambda x, w: (*x.sort(), *x.sort(1, descending=True), x.argsort(0), *torch.sort(w % 3, dim=-1, stable=True), *(x > 0).sort(1), torch.argsort(w % 2 > 0, dim=-1, descending=True, stable=True), *x.sum().sort(), x.sum().argsort(0), x.sum().flatten()), X, WHOLE),
    "windows": (lambda x, i: (x.unfold(2, 2, 1), x.unfold(1, 3, 2), F.unfold(i, 3), F.unfold(i, (2, 3), dilation=(2, 1), padding=(1, 2), stride=(2, 1))), X, IMAGE),
    "uneven pools": (lambda i, x: (F.adaptive_avg_pool2d(i, 4), F.adaptive_avg_pool2d(i, (5, 3)), F.adaptive_avg_pool2d(i, 7), F.adaptive_avg_pool1d(x, 3), F.adaptive_max_pool2d(i, (4, 5))), IMAGE, X),
    "uneven pools of what is not finite": (lambda x: F.adaptive_avg_pool1d(x, 3), torch.randn(1, 2, 8).index_fill(2, torch.tensor([7]), torch.inf)),
    "writes at places": (lambda x, i, w: (x.scatter_add(1, i[:, :, None].expand(2, 5, 4) % 3, w.repeat(1, 2, 1).float()), x.scatter(2, i[:, None, :3].expand(2, 3, 3) % 4, w.float()), x.scatter(1, i[:, :1, None], 7.0), torch.zeros(3, 4).index_put((i[0],), x[0, :1]), torch.zeros(2, 3, 4).index_put((i[:, :2] % 2, i[:, 1:3] - 1), x[0, 0], accumulate=True), torch.masked_fill(x, x > 0, 1).index_put((x > 1,), torch.tensor(2.0)), (x * 1).index_put_((i[0] % 2,), torch.ones(4)), torch.ops.aten.index_put(x, [None, i[0, :2]], x[:, :2]), torch.ops.aten.index_put(torch.zeros(2, 3, 4), [None, i[:, :2], i[:, 1:3] - 1], x[0, 0, 0], True), torch.ops.aten.index_put(torch.zeros(2, 3, 4), [i[0, :1] % 2, None, i[0, :2]], x[0, :2, :3])), X, IDS, WHOLE),
    "writes where a mask is true": (lambda x, v: (x.index_put((x > 0,), v[0, 0], accumulate=True), x.index_put((x[..., 0] > 0,), v[0]), x.index_put((x[:, 0, 0] > 0,), v[:1, None], accumulate=True), x.index_put((x[:, :, 0] > 9,), v[:1])), X, torch.randn(2, 4)),
    "in place ones": (lambda x, i: (F.dropout(x, 0.5, False, True).relu(), F.dropout(x * 1, 0.5, False, True), (x * 1).scatter_add_(1, i[:, :1, None], x[:, :1]), F.threshold((x * 1), 0.1, 0.0, True)), X, IDS),
    "counts": (lambda x: (torch.histc(x, 5, -1, 1), torch.histc(x, 4), torch.histc(x[:1, :1, :1] * 0 + 2, 3)), X),
    "bags": (lambda t, i, s: (F.embedding_bag(i, t), F.embedding_bag(i, t, mode="sum"), F.embedding_bag(i, t, mode="max"), F.embedding_bag(i, t, mode="sum", per_sample_weights=s), F.embedding_bag(i.reshape(-1), t, torch.tensor([0, 4, 4, 7])), F.embedding_bag(i.reshape(-1), t, torch.tensor([0, 3, 10]), mode="sum", include_last_offset=True), F.embedding_bag(i, t, padding_idx=1), F.embedding_bag(i, t, mode="sum", padding_idx=0), F.embedding_bag(i.reshape(-1), t, torch.arange(0, 6, 2), mode="sum")), torch.randn(6, 3), IDS, torch.rand(2, 5)),
    "bags of f64": (lambda t, i, o: tuple(F.embedding_bag(i, t.double(), o, mode=m, include_last_offset=True) for m in ("sum", "mean")), torch.randn(6, 3), IDS[0], torch.tensor([0, 2, 4])),
    "bags that end early": (lambda t, i, o: tuple(F.embedding_bag(i, t, o, mode=m, include_last_offset=True, padding_idx=p) for m in ("sum", "mean", "max") for p in (None, 1)), torch.randn(6, 3), torch.arange(6), torch.tensor([0, 2, 2, 4])),
    "bags of i32": (lambda t, i: tuple(F.embedding_bag(i, t, mode=m, padding_idx=p) for m in ("sum", "mean", "max") for p in (None, -6)), torch.randn(6, 3), IDS.int()),
    "bags with what is not finite": (lambda t, i, o, w: (*(F.embedding_bag(i, t, o, mode=m, padding_idx=4) for m in ("sum", "mean", "max")), *(F.embedding_bag(i, t, o, mode=m) for m in ("sum", "mean")), F.embedding_bag(i, t, o, mode="sum", per_sample_weights=w, padding_idx=4)),
                                     torch.randn(6, 3).index_fill(0, torch.tensor([2]), torch.inf).index_fill(0, torch.tensor([4]), torch.nan), torch.arange(6), torch.tensor([0, 2, 2, 3]), torch.rand(6)),
    "weights of a norm": (lambda v, g: (torch._weight_norm(v, g), torch._weight_norm(v, g[:1, :1].expand(1, 4), 1), torch._weight_norm(v, g[0, 0], -1)), torch.randn(3, 4), torch.rand(3, 1) + 0.5),
    "lookups": (lambda i, t: F.embedding(i, t), IDS, torch.randn(3, 7)),
}


def overloads(name):
    function, *inputs = CASES[name]
    agree("case", Of(function), tuple(inputs))


def wide():
    """What is f64 is computed in f64."""
    agree("wide", Of(lambda d: (d.var(-1), d.std(1), *torch.var_mean(d), d.logsumexp(-1), d.softmax(-1), F.adaptive_avg_pool1d(d, 3), d.norm(dim=-1))), (X.double(),), most=1e-13)


def attention():
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
    mask = torch.rand(2, 1, 5, 7) > 0.4
    mask[0, :, 2] = False  # a row of nothing is zeros
    agree("sdpa", Of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), (q, k, v))
    agree("mask", Of(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=0.3)), (q, k, v, mask))
    agree("bias", Of(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m)), (q, k, v, torch.randn(5, 7)))
    agree("causal", Of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), (q, k, v))
    agree("groups", Of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)), (k, v[:, :2], k[:, :2]))
    agree("three dims", Of(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)), (q[0], k[0], v[0]))


def in_place():
    def changed(x):
        y = x * 2
        y += 1
        y.relu_()
        return y, y.mul_(3) + x

    agree("changed", Of(changed), (X,))

    def seen(x):
        y = x * 2
        v = y.view(-1)
        y.add_(1)
        return v

    agree("dropped", nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Linear(4, 4)), (X,))
    refused(sparta.Error, "an input or a weight, in place", sparta.compile, save("input", Of(lambda x: x.relu_().sum()), (X,)))
    refused(sparta.Error, "changed in place", sparta.compile, save("seen", Of(seen), (X,)))
    functional = torch.export.export(Of(seen), (X,)).run_decompositions({})
    path = os.path.join(tests.work.name, "functional.pt2")
    torch.export.save(functional, path)
    close(next(iter(sparta.compile(path, **QUICK).run({"x_0": X}).values())), seen(X))


def written_views():
    """What writes to a part of a tensor is refused, and the advice leads to a program that is read."""

    def pieces(x, n):
        y = x * 2
        y[0:1].relu_()
        y[:, 0].add_(1)
        y[:, 1:] = x[:, 1:]
        y[:, -1] = 1.0
        y[..., ::2] *= n
        y[1:].zero_()
        y[0, 3:1] = 5  # none
        return y

    def kinds(x, n):
        y, i, m, rows = x.double(), x.int(), x > 0, x.new_zeros(x.shape[0] + 2, 3, 4)
        y[:, 1] = x[:, 0]
        i[:, 0] = 2.7
        i[-1] = x[0]
        m[0].fill_(True)
        rows[1:-1] = x
        rows[0].fill_(n.sum())
        rows[-2:, :, 1:3].copy_(x[0, :, :2])
        return y, i, m, rows

    for function in (pieces, kinds):
        program = torch.export.export(Of(function), (torch.randn(7, 3, 4), X[0, :, :2]), dynamic_shapes=(({0: torch.export.Dim("rows", min=4, max=64)}, None),))
        path = os.path.join(tests.work.name, "views.pt2")
        torch.export.save(program, path)
        refused(sparta.Error, "program.run_decompositions({})", sparta.compile, path)
        torch.export.save(program.run_decompositions({}), path)
        package = sparta.compile(path, **QUICK)
        for x in (torch.randn(4, 3, 4), torch.randn(5, 3, 4)):
            for have, want in zip(package.run(dict(zip(package.inputs, (x, X[0, :, :2])))).values(), leaves(function(x, X[0, :, :2])), strict=True):
                close(have, want)
    wholes = lambda x, n: ((x * 1).zero_(), (x * 1).fill_(2.5), (x * 1).copy_(x[0]), (x * 1).fill_(n.sum()))
    agree("wholes", Of(wholes), (X, X[0]))


# ---------------------------------------------------------------- whole models


class Layers(nn.Module):
    """Layers that people take from torch.nn, with what they do to their input in place."""

    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(20, 8, mode="sum")
        self.up = torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 16))
        self.old = torch.nn.utils.weight_norm(nn.Conv1d(16, 12, 3))
        self.act, self.drop, self.gate = nn.PReLU(12), nn.Dropout(0.5, inplace=True), nn.GLU(1)

    def forward(self, ids):
        y = F.hardswish(self.up(self.words(ids)), inplace=True)
        y = self.drop(self.act(self.old(y[:, :, None].expand(-1, -1, 5))))
        return F.adaptive_avg_pool1d(self.gate(y), 2), F.logsigmoid(y.var(-1))


def layers():
    ids = torch.randint(0, 20, (3, 4))
    agree("layers", Layers(), (ids,), ({0: BATCH},), [(torch.randint(0, 20, (7, 4)),)])


def vision(name):
    """Models of torchvision, which drop out and activate in place."""
    import torchvision

    module = getattr(torchvision.models, name)(weights=None)
    for layer in module.modules():  # a network that was never trained fades away
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean, 0, 0.1)
            nn.init.uniform_(layer.running_var, 0.01, 0.1)
    agree(name, module, (torch.randn(2, 3, 64, 64),), ({0: BATCH},), [(torch.randn(1, 3, 64, 64),)])


def networks(name):
    sys.path.insert(0, os.path.join(ROOT, "tests", "fixtures"))
    import networks as small

    module = {"resnet": small.ResNet, "mobilenet": small.MobileNet, "unet": small.UNet}[name]().eval()
    size = (3, 3, 32, 32)
    for m in module.modules():  # statistics that are not 0 and 1
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(), m.running_var.uniform_(0.5, 2)
    agree(name, module, (torch.randn(*size),), ({0: BATCH},), [(torch.randn(5, *size[1:]),), (torch.randn(1, *size[1:]),)])
    in_onnxruntime(name, module, (torch.randn(2, *size[1:]),))


SIZE = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
GROUPS = dict(SIZE, num_key_value_heads=2)
T5 = dict(vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
SIDES = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 64))}
PICTURE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
RELATIVE = dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16, share_att_key=True, norm_rel_ebd="layer_norm")
MODELS = {  # name -> (inputs, configuration)
    "BertModel": ("text", SIZE),
    "RobertaModel": ("text", SIZE),
    "DistilBertModel": ("text", dict(vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=64)),
    "AlbertModel": ("text", dict(SIZE, embedding_size=16)),
    "ElectraModel": ("text", dict(SIZE, embedding_size=16)),
    "MPNetModel": ("text", SIZE),
    "DebertaV2Model": ("text", dict(SIZE, **RELATIVE)),
    "ModernBertModel": ("text", dict(SIZE, local_attention=8, pad_token_id=0)),
    "MobileBertModel": ("text", dict(SIZE, embedding_size=16, intra_bottleneck_size=32)),
    "GPT2LMHeadModel": ("decoder", dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=64)),
    "LlamaForCausalLM": ("decoder", GROUPS),
    "Qwen2ForCausalLM": ("decoder", GROUPS),
    "Gemma2ForCausalLM": ("decoder", dict(GROUPS, head_dim=8, query_pre_attn_scalar=8, sliding_window=8)),
    "MistralForCausalLM": ("decoder", dict(GROUPS, sliding_window=8)),
    "OPTForCausalLM": ("decoder", dict(SIZE, ffn_dim=64, word_embed_proj_dim=32)),
    "PhiForCausalLM": ("decoder", SIZE),
    "GPTNeoXForCausalLM": ("decoder", SIZE),
    "T5EncoderModel": ("text", T5),
    "T5Model": ("pair", T5),
    "BartModel": ("pair", dict(vocab_size=60, d_model=32, max_position_embeddings=64, decoder_start_token_id=2, pad_token_id=1, **SIDES)),
    "ViTModel": ("image", PICTURE),
    "DeiTModel": ("image", PICTURE),
    "SwinModel": ("image", dict(image_size=32, patch_size=2, embed_dim=24, depths=[2, 2], num_heads=[3, 6], window_size=4)),
    "CLIPModel": ("both", dict(text_config=dict(SIZE, eos_token_id=2), vision_config=PICTURE)),
}
ALWAYS = ("BertModel", "LlamaForCausalLM")  # others in turns; PT2_MODELS=T5Model,ViTModel chooses


class Tensors(nn.Module):
    """A model by the names of its inputs, without what it remembers."""

    def __init__(self, module, names, fixed):
        super().__init__()
        self.module, self.names, self.fixed = module, names, fixed

    def forward(self, *inputs):
        return tuple(x for x in self.module(**dict(zip(self.names, inputs)), **self.fixed).to_tuple() if isinstance(x, torch.Tensor))[:2]


def given(kind, batch, length):
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[1:, length // 2 :] = 0
    text = {"input_ids": torch.randint(3, 60, (batch, length)), "attention_mask": mask}
    pair = {**text, "decoder_input_ids": torch.randint(3, 60, (batch, 5))}
    picture = {"pixel_values": torch.randn(batch, 3, 32, 32)}
    return {"text": text, "decoder": text, "pair": pair, "image": picture, "both": {**text, **picture}}[kind]


def transformer(name):
    import transformers

    kind, config = MODELS[name]
    cls = getattr(transformers, name)
    try:
        module = cls._from_config(cls.config_class(**config), attn_implementation="sdpa")
    except ValueError:  # not this one
        module = cls._from_config(cls.config_class(**config), attn_implementation="eager")
    inputs, other = given(kind, 3, 11), given(kind, 2, 7)
    for p in module.parameters():  # norms and biases that are not 1 and 0
        if p.dim() == 1:
            p.data += 0.1 * torch.randn_like(p)
    wrapped = Tensors(module.eval(), list(inputs), {"use_cache": False} if kind in ("decoder", "pair") else {})
    shapes = tuple({0: BATCH} if x.dim() == 4 or n == "decoder_input_ids" else {0: BATCH, 1: LENGTH} for n, x in inputs.items())
    package = agree(name, wrapped, tuple(inputs.values()), (shapes,), [tuple(other.values())])
    products = {l["op"] for l in package.layers}
    need("Attention" in products and "Linear" in products, f"nothing was recognised: {products}")
    in_onnxruntime(name, wrapped, tuple(other.values()))


def of_this_day():
    """All have been tried in a week."""
    if os.environ.get("PT2_MODELS"):
        return os.environ["PT2_MODELS"].split(",")
    rest = [m for m in MODELS if m not in ALWAYS]
    return [*ALWAYS, *(m for number, m in enumerate(rest) if turn(number, 6))]


# ---------------------------------------------------------------- names, verbs, hostile files


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x):
        return {"y": self.down(self.up(x).relu()), "extra": [x * 2, (x + 1,)]}


def names():
    module = Named().eval()
    path = save("named", module, (torch.randn(3, 16),), ({0: BATCH},))
    package = sparta.compile(path, dims={"x_0": (1, 8, 64)}, **QUICK)
    need([l["name"] for l in package.layers] == ["up", "down"], f"layers are called {[l['name'] for l in package.layers]}")
    need(list(package.inputs) == ["x"] and list(package.outputs) == ["y", "extra_0", "extra_1_0"], f"{list(package.outputs)}")
    need(sparta.inspect(path)["bounds"] == {"x_0": 64}, f"{sparta.inspect(path)['bounds']}")
    gone = np.ones((32, 16), np.uint8)
    gone[:24] = 0
    package = sparta.compile(path, masks={"up.weight": gone}, **QUICK)
    need(package.layers[0]["density"] <= 0.25 or package.layers[0]["shape"] != [32, 16], "masks by the names of parameters")
    s = sparta.Schedule()
    s["down.weight"].sparsify("magnitude(1x1, 0.5)")
    need(sparta.compile(path, schedule=s, **QUICK).layers[-1]["density"] <= 0.6, "schedules by the names of parameters")


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.dense = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (4, 8)).transpose(1, 2) for f in (self.query, self.key, self.value))
        return self.dense(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.up, self.down = Attentive(), nn.Linear(32, 48, bias=False), nn.Linear(48, 32)

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.down(self.up(x).relu())


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x):
        for layer in self.layer:
            x = layer(x)
        return x


class Known(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.lm_head = Encoder(), nn.Linear(32, 60, bias=False)

    def forward(self, x):
        return self.lm_head(self.encoder(x))


def known_names():
    """Layers and weights have the names of their modules, whichever exporter wrote the file, and --keep and schedules take them."""
    module, x, work = Known().eval(), torch.randn(2, 5, 32), tests.work.name
    files = [save("known", module, (x,), ({0: BATCH},))]
    for dynamo in (True, False):
        files.append(os.path.join(work, f"known{dynamo}.onnx"))
        torch.onnx.export(module, (x,), files[-1], dynamo=dynamo, verbose=False, input_names=["x"], **({"dynamic_shapes": {"x": {0: "batch"}}} if dynamo else {"dynamic_axes": {"x": {0: "batch"}}}))
    weights = {n for n, w in module.named_parameters() if w.dim() == 2}
    layers = [[row["name"] for row in json.loads(program("inspect", f, "--json").stdout)["layers"]] for f in files]
    need(layers[0] == layers[1] and "lm_head" in layers[0] and "encoder.layer.1.up" in layers[0], f"{layers[0]} and {layers[1]}")
    for f in files:
        for keep in ("lm_head*", "lm_head", "lm_head.weight"):
            told = program("prune", f, "--pattern", "1x1:0.5", "--keep", keep, "--json", "-o", os.path.join(work, "pruned.onnx"))
            need(told.returncode == 0, f"{f} {keep}: {told.stderr}")
            rows = json.loads(told.stdout)["layers"]
            need({r["name"] for r in rows} == weights, f"{f}: {sorted(r['name'] for r in rows)}")
            need([r["name"] for r in rows if r["left"]] == ["lm_head.weight"], f"{f} {keep}: {rows}")
        with open(os.path.join(work, "known.sched"), "w") as s:
            s.write('tensor "encoder.layer.*.up" { sparsify magnitude(1x1, 0.5) }\ntensor "lm_head*" { sparsify magnitude(1x1, 0.25) }\n')
        told = program("inspect", f, "--schedule", os.path.join(work, "known.sched"), "--json")
        need(told.returncode == 0, f"{f}: {told.stderr}")
        half = [r["name"] for r in json.loads(told.stdout)["layers"] if abs((r["density"] or 1) - 0.5) < 0.01]
        need(len(half) == 2 and all("up" in n for n in half), f"{f}: {half}")


def assumed_sizes():
    """Bounds and names of sizes are kept; nobody said how many tokens there are: every verb that has to assume 128 says so, and says nothing where they are given."""
    work, shapes = tests.work.name, {"x": {0: BATCH, 1: torch.export.Dim("tokens", min=2, max=512)}}
    exported = torch.export.export(Known().eval(), (torch.randn(2, 5, 32),), dynamic_shapes=shapes)
    path, package = os.path.join(work, "assumed.pt2"), os.path.join(work, "assumed.sparta")
    given = ("--dim", "batch=2", "--dim", "tokens=9")
    for names in ({}, {"x_0": "batch", "x_1": "tokens"}):
        torch.export.save(exported, path, extra_files={"sparta-sizes.json": json.dumps(names)})
        batch, tokens = names.get("x_0", "x_0"), names.get("x_1", "x_1")
        bounds = json.loads(program("inspect", path, "--json").stdout)["bounds"]
        need(bounds == {batch: 64, tokens: 512}, bounds)
        at = f"sizes assumed: {batch}=1 {tokens}=128; --dim {tokens}=N"
        for words, said in (
            (("compile", path, "--no-measure", "-o", package), at), (("inspect", path, "--what-if", "1x1:0.5", "--time", "0.005"), at), (("bench", package, "--no-baseline", "--iterations", "2"), at),
            (("run", package, "--output-dir", os.path.join(work, "assumed")), at), (("verify", package, "--against", path), f"sizes assumed: {batch}=1 {tokens}=65, {batch}=5 {tokens}=7"),
        ):  # fmt: skip
            told = program(*words)
            need(told.returncode == 0 and said in told.stderr, f"{words}: {told.stderr}")
            told = program(*words, *given) if names else None
            need(told is None or (told.returncode == 0 and "assumed" not in told.stderr), f"{words} {given}: {told and told.stderr}")
            if words[0] == "compile":  # one that takes all sizes
                program(*words)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = nn.Embedding(20, 16), nn.Linear(16, 8)

    def forward(self, ids, scale):
        return self.layer(self.words(ids)) * scale[:, None, None]


class Maybe(nn.Module):
    def forward(self, mask, x):
        return x * 2 if mask is None else x * mask


def named_sizes():
    """Dims of torch.export are sizes of the package, by their names."""
    module, ids, scale = Two().eval(), torch.randint(0, 20, (3, 7)), torch.randn(3)
    of = {"ids": {0: BATCH, 1: LENGTH}, "scale": {0: BATCH}}
    for inputs, shapes in (((ids, scale), (of["ids"], of["scale"])), ({"scale": scale, "ids": ids}, of), ((ids, scale), of)):
        package = sparta.compile(module, example_inputs=inputs, dynamic_shapes=shapes, dims={"length": (1, 8, 32)}, **QUICK)
        need(package.inspect()["bounds"] == {"batch": 64, "length": 32}, f"{package.inspect()['bounds']}")
        for b, n in ((3, 7), (1, 30)):
            i, s = torch.randint(0, 20, (b, n)), torch.randn(b)
            close(next(iter(package.run({"ids": i, "scale": s}).values())), module(i, s))
    refused(ValueError, "has batch, length", sparta.compile, module, example_inputs=(ids, scale), dynamic_shapes=of, dims={"tokens": 3})
    auto = {"ids": {1: torch.export.Dim.AUTO}, "scale": None}
    package = sparta.compile(module, example_inputs=(ids, scale), dynamic_shapes=auto, **QUICK)
    need(package.inputs["ids"][1] == (3, None), f"{package.inputs}")
    said, more = torch.export.ShapesCollection(), torch.export.AdditionalInputs()
    said[ids] = (BATCH, LENGTH)
    said[scale] = (BATCH,)
    more.add((torch.randint(0, 20, (5, 9)), torch.randn(5)))
    for shapes in (said, more):
        package = sparta.compile(module, example_inputs=(ids, scale), dynamic_shapes=shapes, **QUICK)
        need(package.inputs["ids"][1] == (None, None), f"{package.inputs}")
    refused(ValueError, "none with a name", sparta.compile, module, example_inputs=(ids, scale), dynamic_shapes=said, dims={"batch": 3})
    package = sparta.compile(Maybe(), example_inputs=(None, scale), dims={"batch": (1, 4, 8)}, **QUICK)
    need(package.inspect()["bounds"] == {"batch": 8}, f"{package.inspect()['bounds']}")


class Long(nn.Module):
    def forward(self, x):
        return x.sum(1) if x.shape[1] >= 16 else -x.sum(1)


def allowed(path, batch, tokens):
    """Torch's own answer of a saved program; None where it refuses."""
    x = torch.randn(batch, tokens, 4)
    try:
        return x, torch.export.load(path).module()(x)
    except (AssertionError, RuntimeError):
        return x, None


def edges():
    """Sizes that a program does not take are refused wherever they are given, and never made up: its other branch would be the answer."""
    work, module, x = tests.work.name, Long(), torch.randn(3, 20, 4)
    dims = {0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("tokens", min=16, max=40)}
    path, saved, out = save("long", module, (x,), (dims,)), os.path.join(work, "long.sparta"), os.path.join(work, "long")
    named = sparta.compile(module, example_inputs=(x,), dynamic_shapes=(dims,), **QUICK)
    package = sparta.compile(path, saved, **QUICK)
    need(package.inspect()["bounds"] == {"x_0": 8, "x_1": 40} and package.inspect()["least"] == {"x_1": 16}, package.inspect())
    for batch, tokens in ((1, 16), (8, 40), (0, 16), (1, 15), (1, 17), (1, 39), (1, 41), (1, 1), (1, 0), (7, 16), (9, 16)):
        given, want = allowed(path, batch, tokens)
        need((want is not None) == (batch <= 8 and 16 <= tokens <= 40), f"torch: {batch} {tokens}")
        at, said = ("--dim", f"x_0={batch}", "--dim", f"x_1={tokens}"), "give 0 to 8" if batch > 8 else "give 16 to 40"
        np.save(os.path.join(work, "long.npy"), given.numpy())
        words = [("run", saved, "--input", "x=" + os.path.join(work, "long.npy"), "--output-dir", out), ("run", path, *at, "--output-dir", out)]
        if batch and tokens:  # of nothing there is nothing to compile or to time
            compiled = ("compile", path, "--no-measure", "-o", os.path.join(work, "fixed.sparta"), *at)
            words += [("bench", saved, *at, "--iterations", "2", "--no-baseline"), ("verify", saved, "--against", path, *at), compiled]
        for made in (package, named):
            if want is None:
                refused(ValueError, said, made.run, {"x": given})
            else:
                close(next(iter(made.run({"x": given}).values())), want)
        for told, one in ((program(*one), one) for one in words):
            need(told.returncode == (0 if want is not None else 2), f"{one}: {told.returncode}: {told.stderr}")
            need(want is not None or (said if one[0] != "compile" else said.replace("0 to 8", "1 to 8")) in told.stderr, f"{one}: {told.stderr}")
    refused(ValueError, "give 1 to 8", sparta.compile, module, example_inputs=(x,), dynamic_shapes=(dims,), dims={"batch": 9}, **QUICK)
    refused(ValueError, "give 16 to 40", sparta.compile, module, example_inputs=(x,), dynamic_shapes=(dims,), dims={"tokens": 15}, **QUICK)
    for wider, says in (({"x_0": (1, 8, 9)}, "give 1 to 8"), ({"x_1": (15, 20, 40)}, "give 16 to 40"), ({"x_1": (16, 20, 41)}, "give 16 to 40")):
        refused(ValueError, says, sparta.compile, path, dims=wider, **QUICK)
    part = sparta.compile(path, dims={"x_1": (18, 20, 22)}, **QUICK)  # the bounds of a package are what it was compiled for
    for tokens in (17, 18, 22, 23):
        given, want = allowed(path, 2, tokens)
        if 18 <= tokens <= 22:
            close(next(iter(part.run({"x": given}).values())), want)
        else:
            refused(ValueError, "give 18 to 22", part.run, {"x": given})


def few_made_up():
    """Whatever makes up sizes makes up some that the program takes, where it takes none that are small, and none that are usual."""
    work = tests.work.name
    for least, most in ((16, 20), (200, 300)):
        dims = {0: torch.export.Dim("batch", min=5, max=7), 1: torch.export.Dim("tokens", min=least, max=most)}
        path, out = save("few", nn.Sequential(nn.Linear(4, 8), Long()), (torch.randn(6, least + 1, 4),), (dims,)), os.path.join(work, "few")
        for words in (
            ("compile", path, "--no-measure", "-o", out + ".sparta"), ("compile", path, "--no-measure", "--tokens", "1,16,1024", "-o", out + ".sparta"),
            ("run", path, "--output-dir", out), ("bench", path, "--no-measure", "--iterations", "2"), ("verify", path, "--against", path),
            ("inspect", path, "--what-if", "1x1:0.5", "--time", "0.005"), ("verify", out + ".sparta", "--against", path),
        ):  # fmt: skip
            told = program(*words)
            need(told.returncode == 0, f"{words}: {told.stderr}")


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x.reshape(x.shape[0], x.shape[1] // 2, 2, 4)).sum(1)


def derived():
    """A size that is worked out from another (2*half) cannot vary: every verb says at once what to give, and runs with it."""
    module, x, work = Pairs(), torch.randn(3, 16, 4), tests.work.name
    dims = ({0: torch.export.Dim("batch"), 1: 2 * torch.export.Dim("half")},)
    path, package = os.path.join(work, "pairs.pt2"), os.path.join(work, "pairs.sparta")
    torch.export.save(torch.export.export(module, (x,), dynamic_shapes=dims), path)
    symbols = json.loads(program("inspect", path, "--json").stdout)["symbols"]
    half = next(s for s in symbols if s != "x_0")
    advice = f"--dim {half}="
    for words in (
        ("compile", path, "--no-measure", "-o", package), ("run", path, "--output-dir", os.path.join(work, "pairs")), ("verify", path, "--against", path),
        ("bench", path, "--no-measure", "--iterations", "2"), ("inspect", path, "--what-if", "1x1:0.5", "--time", "0.005"),
    ):  # fmt: skip
        told = program(*words)
        need(told.returncode and advice in told.stderr, f"{words}: {told.stderr}")
        told = program(*words, "--dim", f"{half}=8")
        need(told.returncode == 0, f"{words} with {half}=8: {told.stderr}")
    told = program("compile", path, "--no-measure", "-o", package, "--dim", f"{half}=1:8:64")
    need(told.returncode and advice + "N" in told.stderr, told.stderr)
    close(next(iter(sparta.load(package).run({"x": x}).values())), module(x))


def verbs():
    module = Named().eval()
    path, work = save("verbs", module, (torch.randn(3, 16),), ({0: BATCH},)), tests.work.name
    run = lambda *words: program(*words, cwd=work)
    told = json.loads(run("inspect", path, "--json").stdout)
    need(told["kind"] == "pt2" and [l["name"] for l in told["layers"]] == ["up", "down"], told)
    for words in (
        ("compile", path, "--no-measure", "-o", "v.sparta"),
        ("verify", "v.sparta", "--against", path),
        ("verify", path, "--against", path, "--dim", "x_0=5"),
        ("run", path, "--dim", "x_0=2", "--output-dir", "out"),
        ("propagate", path, "-o", "small.onnx"),
        ("verify", "small.onnx", "--against", path),
        ("inspect", path, "--what-if", "4x1:0.5", "--time", "0.01"),
        ("bench", path, "--dim", "x_0=4", "--iterations", "3"),
    ):
        done = run(*words)
        need(done.returncode == 0, f"{words[0]}: {done.returncode}: {done.stderr.strip()}")
    x = np.load(f"{work}/out/x.npy") if os.path.exists(f"{work}/out/x.npy") else None
    if x is not None:
        close(np.load(f"{work}/out/y.npy"), module(torch.from_numpy(x))["y"])


def refusals():
    path = save("odd", Of(lambda x: torch.fft.rfft(x).abs() + torch.linalg.det(x[:, :, :3])[:, None, None]), (X,))
    error = refused(sparta.Error, "not supported", sparta.compile, path)
    need("aten.fft_rfft.default" in str(error) and "aten.linalg_det.default" in str(error) and "run_decompositions" in str(error), str(error))
    torch.export.save(torch.export.load(path).run_decompositions(), path)
    error = refused(sparta.Error, "leave that part out of the module (docs", sparta.compile, path)
    refused(sparta.Error, "export module.eval()", sparta.compile, save("drops", nn.Dropout(0.5).train(), (X,)))
    places, image = torch.tensor([[0, 1, 0, 2]]), torch.randn(3, 8, 8)
    for words, function in (("it adds bools", lambda x: (x[0] > 0).scatter_add(0, places, x[0, :1] > 0)), ("it adds bools", lambda x: (x > 0).index_put((x > 1,), x[0, 0, 0] > 0, accumulate=True)),
                            ("x.unsqueeze(0)", lambda x: F.unfold(image + x.sum(), 3)), ("x.unsqueeze(0)", lambda x: F.adaptive_avg_pool2d(image + x.sum(), 2)),
                            ("torch.where(mask", lambda x: x.index_put((x > 9,), x[0, 0, :2]))):
        need(refused(sparta.Error, words, sparta.compile, save("said", Of(function), (X,))).status == "E_UNSUPPORTED", words)
    refused(sparta.Error, "as an index", sparta.compile, save("mask", Of(lambda x: torch.relu(x)[x[:, 0, 0] > -9].sum()), (X,)))


def hostile():
    path = save("whole", Named().eval(), (torch.randn(3, 16),), ({0: BATCH},))
    with open(path, "rb") as f:
        whole = f.read()
    noise = np.random.default_rng(3)
    broken = os.path.join(tests.work.name, "broken.pt2")
    for i in range(60):
        part = bytearray(whole[: int(noise.integers(1, len(whole)))] if i % 2 else whole)
        for at in noise.integers(0, len(part), 0 if i % 2 else 4):
            part[at] = int(noise.integers(0, 256))
        with open(broken, "wb") as f:
            f.write(part)
        try:
            sparta.compile(broken, **QUICK)
        except (sparta.Error, ValueError) as error:
            need(str(error).strip(), "no message")


for case in CASES:
    tests.check(f"overloads: {case}", overloads, case)
tests.check("f64", wide)
tests.check("attention", attention)
tests.check("in place", in_place)
tests.check("views written in place", written_views)
tests.check("layers", layers)
for network in ("resnet", "mobilenet", "unet"):
    tests.check(network, networks, network)
for network in ("mobilenet_v3_small", "efficientnet_b0", "mnasnet0_5"):
    tests.check(network, vision, network)
for model in of_this_day():
    tests.check(model, transformer, model)
for name, function in {"names": names, "known names": known_names, "assumed sizes": assumed_sizes, "names of sizes": named_sizes, "edges of sizes": edges, "sizes made up within edges": few_made_up, "sizes that others are worked out from": derived, "verbs": verbs, "refusals": refusals, "hostile": hostile}.items():
    tests.check(name, function)
sys.exit(tests.finish())
