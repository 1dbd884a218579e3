"""Code that used other libraries, with one import changed: the examples of docs/dropins.md, each against torch written out, with gradients."""

import contextlib
import copy
import doctest
import importlib
import inspect
import io
import os
import re
import sys
import warnings

from common import ROOT, Tests, need, refused

import torch
from torch import nn
from torch.nn import functional as F

import sparta

warnings.filterwarnings("ignore")
tests = Tests()
torch.manual_seed(0)


def close(a, b, most=1e-4):
    off = float((a.detach() - b.detach()).abs().max()) if a.numel() else 0.0
    need(
        a.shape == b.shape and off <= most * max(1.0, float(b.detach().abs().max()) if b.numel() else 1.0),
        f"{tuple(a.shape)} {tuple(b.shape)}, off by {off}",
    )


def same_gradients(got, want, inputs, most=1e-3):
    close(got, want)
    seed = torch.randn_like(want)
    for a, b in zip(torch.autograd.grad(got, inputs, seed, retain_graph=True), torch.autograd.grad(want, inputs, seed, retain_graph=True)):
        close(a, b, most)


# ---------------------------------------------------------------- SparTA
def original():
    M, N, K, sparsity = 64, 96, 64, 0.5
    A = torch.rand(M, K)
    w_mask = sparta.testing.block_mask(shape=(N, K), block=(32, 32), sparsity=sparsity, algo="rand")
    dense_op = torch.nn.Linear(K, N)
    with torch.no_grad():
        dense_op.weight *= w_mask
    sparse_op = sparta.nn.SparseLinear(dense_op, weight_mask=w_mask)
    sparse_op.tune(inputs=(A))
    torch.testing.assert_close(sparse_op(A), dense_op(A))


# ---------------------------------------------------------------- pytorch_block_sparse
def block_sparse_linear():
    from sparta.compat.pytorch_block_sparse import BlockSparseLinear, BlockSparseModelPatcher

    fc = BlockSparseLinear(1024, 256, density=0.1)
    weight = fc.weight.detach().clone().requires_grad_()
    need((weight != 0).sum() == int(0.1 * 256) * 1024, "blocks")
    x = torch.randn(5, 7, 1024, requires_grad=True)
    same_gradients(fc(x), F.linear(x, weight, fc.bias), (x, fc.bias))
    optimizer = torch.optim.AdamW(fc.parameters(), 0.01)
    fc(x).square().mean().backward()
    optimizer.step()
    need(torch.equal(fc.weight != 0, weight != 0), "blocks grew")
    dense = nn.Linear(64, 96)
    kept = BlockSparseLinear(torch_nn_linear=dense, density=0.5)
    means = dense.weight.abs().unflatten(0, (3, 32)).unflatten(2, (2, 32)).mean((1, 3))
    largest = means >= means.flatten().topk(3).values[-1]
    need(torch.equal(kept.weight.unflatten(0, (3, 32)).unflatten(2, (2, 32)).abs().sum((1, 3)) > 0, largest), "the largest blocks")
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Sequential(nn.Linear(64, 32)))
    patcher = BlockSparseModelPatcher()
    patcher.add_pattern(r"2\.0", {"density": 0.5})
    patcher.patch_model(model)
    need(isinstance(model[2][0], BlockSparseLinear) and type(model[0]) is nn.Linear, model)
    refused(ValueError, "between 0 and 1", BlockSparseLinear, 64, 64, density=2)
    refused(ValueError, "no layer matches 'fc'", _patcher("fc").patch_model, model)
    refused(ValueError, "narrow the pattern", _patcher("1").patch_model, model)


def _patcher(pattern):
    from sparta.compat.pytorch_block_sparse import BlockSparseModelPatcher

    patcher = BlockSparseModelPatcher()
    patcher.add_pattern(pattern, {"density": 0.5})
    return patcher


# ---------------------------------------------------------------- torch_blocksparse
def to_sparse(x, layout, block):
    """The blocks of a dense (Z, H, M, N) in the order of layout.nonzero(), by hand."""
    return torch.stack([x[:, h, i * block : (i + 1) * block, j * block : (j + 1) * block] for h, i, j in layout.nonzero().tolist()], 1)


def to_mask(layout, block):
    return layout.bool().repeat_interleave(block, 1).repeat_interleave(block, 2)


def blocksparse_matmul():
    from sparta.compat.torch_blocksparse import MatMul

    Z, H, M, N, K, block = 3, 2, 64, 32, 48, 16
    for mode in ("sdd", "dsd", "dds"):
        for trans_a in (False, True):
            for trans_b in (False, True):
                for heads in (H, 1):
                    a = torch.randn(Z, heads, *((K, M) if trans_a else (M, K)), requires_grad=True)
                    b = torch.randn(Z, heads, *((N, K) if trans_b else (K, N)), requires_grad=True)
                    shape = {"sdd": (M, N), "dsd": a.shape[2:], "dds": b.shape[2:]}[mode]
                    layout = (torch.rand(heads, shape[0] // block, shape[1] // block) < 0.5).long()
                    layout[:, 0, 0] = 1
                    mask = to_mask(layout, block)
                    op = MatMul(layout, block, mode, trans_a=trans_a, trans_b=trans_b)
                    A, B = (a * mask if mode == "dsd" else a), (b * mask if mode == "dds" else b)
                    want = (A.transpose(2, 3) if trans_a else A) @ (B.transpose(2, 3) if trans_b else B)
                    want = to_sparse(want, layout, block) if mode == "sdd" else want
                    got = op(to_sparse(a, layout, block) if mode == "dsd" else a, to_sparse(b, layout, block) if mode == "dds" else b)
                    same_gradients(got, want, (a, b))
    layout = torch.ones(2, 2, 2)
    refused(ValueError, "none of sdd, dsd, dds", MatMul, layout, 16, "ddd")
    refused(ValueError, "a layout is", MatMul, torch.ones(2), 16, "sdd")
    refused(ValueError, "the layout asks for (batch, 8, 16, 16)", MatMul(layout, 16, "dsd"), torch.ones(1, 7, 16, 16), torch.ones(1, 2, 32, 4))
    refused(ValueError, "do not make (32, 32)", MatMul(layout, 16, "sdd"), torch.ones(1, 2, 16, 4), torch.ones(1, 2, 4, 32))
    refused(ValueError, "(batch, 2, rows, columns)", MatMul(layout, 16, "sdd"), torch.ones(1, 3, 32, 4), torch.ones(1, 3, 4, 32))


def blocksparse_softmax():
    from sparta.compat.torch_blocksparse import Softmax

    Z, H, M, N, block, scale = 2, 3, 64, 64, 16, 0.5
    layout = (torch.rand(H, M // block, N // block) < 0.6).long()
    layout[:, :, 0] = 1
    x = torch.randn(Z, H, M, N, requires_grad=True)
    attn = torch.rand(M, N) < 0.7
    attn[5] = False
    padding = torch.zeros(Z, N).masked_fill(torch.rand(Z, N) < 0.2, float("-inf"))
    rpe = torch.randn(H, M, N)
    for kp, am, position in ((None, None, None), (padding, None, None), (None, attn, None), (padding, attn, rpe), (padding, attn.float(), None)):
        scores = (x * scale + (0 if position is None else position)).masked_fill(~to_mask(layout, block), float("-inf"))
        scores = scores if kp is None else scores + kp[:, None, None]
        scores = scores if am is None else scores.masked_fill(am == 0, float("-inf"))
        want = to_sparse(torch.where((scores > float("-inf")).any(-1, keepdim=True), scores, 0).softmax(-1) * (scores > float("-inf")), layout, block)
        got = Softmax(layout, block)(
            to_sparse(x, layout, block),
            scale=scale,
            rpe=position,
            key_padding_mask=kp,
            attn_mask=am,
            key_padding_mask_mode="add",
            attn_mask_mode="mul",
        )
        same_gradients(got, want, (x,))
    refused(ValueError, "neither 'add' nor 'mul'", Softmax(layout, block), to_sparse(x, layout, block), attn_mask=attn, attn_mask_mode="x")


# ---------------------------------------------------------------- xFormers and DeepSpeed
def dense_attention(q, k, v, mask, added=0.0):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + added
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.where(mask.any(-1, keepdim=True), scores, 0).softmax(-1).masked_fill(~mask, 0) @ v


def xformers_attention():
    from sparta.compat.xformers import BlockSparseAttention, scaled_dot_product_attention

    q, k, v = (torch.randn(2, 4, 64, 16, requires_grad=True) for _ in range(3))
    layout = (torch.rand(4, 4, 4) < 0.5).long()
    layout[:, range(4), range(4)] = 1
    mask = to_mask(layout, 16)
    same_gradients(BlockSparseAttention(layout, block_size=16, num_heads=4)(q, k, v), dense_attention(q, k, v, mask), (q, k, v))
    causal = torch.ones(64, 64, dtype=torch.bool).tril()
    same_gradients(BlockSparseAttention(layout, block_size=16, causal=True)(q, k, v), dense_attention(q, k, v, mask & causal), (q, k, v))
    flat = BlockSparseAttention(layout, block_size=16)(*(x.flatten(0, 1) for x in (q, k, v)), att_mask=causal)
    close(flat.unflatten(0, (2, 4)), dense_attention(q, k, v, mask & causal))
    for seen in (causal, mask, torch.rand(64, 64) < 0.2):
        same_gradients(scaled_dot_product_attention(q=q, k=k, v=v, att_mask=seen), dense_attention(q, k, v, seen.expand(4, 64, 64)), (q, k, v))
    added = torch.randn(64, 64).masked_fill(~causal, float("-inf"))
    close(scaled_dot_product_attention(q, k, v, added), dense_attention(q, k, v, causal, added.masked_fill(~causal, 0)))
    one = [x[0, 0] for x in (q, k, v)]
    close(scaled_dot_product_attention(*one, att_mask=causal), dense_attention(*one, causal))
    close(scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v))
    need(scaled_dot_product_attention(q, k, v, causal, dropout=nn.Dropout(0.5)).shape == q.shape, "dropout")
    refused(ValueError, "4 heads, not 8", BlockSparseAttention, layout, num_heads=8)


def deepspeed_attention():
    from sparta.compat import deepspeed

    q, k, v = (torch.randn(2, 4, 96, 16, requires_grad=True) for _ in range(3))
    padding = torch.zeros(2, 96)
    padding[1, 80:] = float("-inf")
    for config in (
        deepspeed.BigBirdSparsityConfig(num_heads=4, block=16),
        deepspeed.FixedSparsityConfig(num_heads=4, block=16, num_local_blocks=2),
        deepspeed.BSLongformerSparsityConfig(num_heads=4, block=32),
        deepspeed.LocalSlidingWindowSparsityConfig(num_heads=4, block=16),
        deepspeed.VariableSparsityConfig(num_heads=4, block=16),
        deepspeed.DenseSparsityConfig(num_heads=4, block=16),
    ):
        layout = config.make_layout(96)
        attention = deepspeed.SparseSelfAttention(sparsity_config=config)
        mask = to_mask(layout, config.block)
        same_gradients(attention(q, k, v), dense_attention(q, k, v, mask), (q, k, v))
        same_gradients(attention(q, k, v, key_padding_mask=padding), dense_attention(q, k, v, mask & (padding == 0)[:, None, None]), (q, k, v))
    ragged = [x[:, :, :75] for x in (q, k, v)]
    close(attention(*ragged), F.scaled_dot_product_attention(*ragged))
    later = deepspeed.SparseSelfAttention(sparsity_config=deepspeed.BigBirdSparsityConfig)

    class Mine:
        """A config of one's own."""

        num_heads, block = 4, 16

        def make_layout(self, tokens):
            return torch.eye(tokens // 16)[None].repeat(4, 1, 1)

    need(later(q, k, v).shape == q.shape, "a class in place of a config")
    for tokens in range(96, 135):
        later.get_ops(4, tokens)
    need(len(later._ops) <= deepspeed.LENGTHS and later.get_ops(4, 134) is later.get_ops(4, 134), "operators of every length are kept")
    close(deepspeed.SparseSelfAttention(Mine())(q, k, v), dense_attention(q, k, v, to_mask(Mine().make_layout(96), 16)))
    refused(ValueError, "make it with num_heads=4", deepspeed.SparseSelfAttention(deepspeed.DenseSparsityConfig(num_heads=2)), q, k, v)
    refused(ValueError, "must be alike", attention, q, k[:, :, :5], v)
    short = deepspeed.SparseSelfAttention(deepspeed.DenseSparsityConfig(num_heads=4), max_seq_length=64)
    refused(ValueError, "max_seq_length is 64", short, q, k, v)


def deepspeed_classes():
    """Configs as people write them: numbers as attributes of a class, derived from the base of all or from the config that they mean."""
    from sparta import attention as layouts
    from sparta.compat import deepspeed
    from sparta.compat.deepspeed import SparsityConfig

    class BigBirdSparsityConfig(SparsityConfig):
        num_random_blocks = 0
        num_sliding_window_blocks = 5
        block = 8

    want = deepspeed.BigBirdSparsityConfig(num_heads=4, block=8, num_random_blocks=0, num_sliding_window_blocks=5)
    need(not torch.equal(want.make_layout(96), deepspeed.BigBirdSparsityConfig(num_heads=4, block=8).make_layout(96)), "the defaults are no case")
    need(torch.equal(BigBirdSparsityConfig(num_heads=4).make_layout(96), want.make_layout(96)), "of the name in the base of all")
    need(isinstance(BigBirdSparsityConfig(), deepspeed.BigBirdSparsityConfig), "it is one of these")
    q, k, v = (torch.randn(2, 4, 96, 16) for _ in range(3))
    attention = deepspeed.SparseSelfAttention(sparsity_config=BigBirdSparsityConfig)
    close(attention(q, k, v), dense_attention(q, k, v, to_mask(want.make_layout(96), 8)))

    class Wide(deepspeed.FixedSparsityConfig):
        num_local_blocks, attention, num_heads = 2, "unidirectional", 4

    class Wider(Wide):
        num_local_blocks = 3

        def __init__(self, **more):
            super().__init__(block=32, **more)

    for config, same in (
        (Wide(), layouts.Fixed(4, num_local_blocks=2, attention="unidirectional")),
        (Wider(), layouts.Fixed(4, 32, num_local_blocks=3, attention="unidirectional")),
        (Wider(attention="bidirectional"), layouts.Fixed(4, 32, num_local_blocks=3)),
        (Wide(num_local_blocks=3), layouts.Fixed(4, num_local_blocks=3, attention="unidirectional")),
    ):
        need(torch.equal(config.make_layout(96), same.make_layout(96)), f"{type(config).__name__}: {vars(config)}")
    for kind in layouts._NAMED.values():  # every argument of every layout
        given = {"num_heads": 2, "block": 8, "different_layout_per_head": True, "seed": 7, "attention": "unidirectional", "num_random_blocks": 2}
        given |= {"local_window_blocks": [1, 2], "global_block_indices": [1], "global_block_end_indices": [3], "num_local_blocks": 6}
        given |= {"num_global_blocks": 2, "num_sliding_window_blocks": 5, "num_different_global_patterns": 3}
        taken = {name: value for name, value in given.items() if name in inspect.signature(kind.__init__).parameters}
        mine = type("Mine", (kind,), taken)
        need(torch.equal(mine().make_layout(96), kind(**taken).make_layout(96)), f"{kind.__name__} by attributes")
    refused(ValueError, "num_random_blocks -1", type("Mine", (layouts.BigBird,), {"num_random_blocks": -1}))
    refused(TypeError, "did you mean 'num_random_blocks'?", type, "Mine", (layouts.BigBird,), {"num_randm_blocks": 1})
    refused(TypeError, "Dense has no 'attention'", type, "Mine", (layouts.Dense,), {"attention": "unidirectional"})
    refused(NotImplementedError, "it has no layout", type("Mine", (SparsityConfig,), {"block": 4})().make_layout, 96)
    eight = deepspeed.SparseSelfAttention(type("Mine", (layouts.BigBird,), {"num_heads": 8}))
    refused(ValueError, "the config has 8 heads, the query 4", eight, q, k, v)
    named = deepspeed.SparseSelfAttention(type("Own", (layouts.BigBird,), {"_head": lambda self, head, n: torch.eye(n, dtype=torch.bool), "note": 1}))
    need(named(q, k, v).shape == q.shape, "a layout of one's own")


def nothing_ignored():
    """What other libraries take and nothing here would read is refused by name; what prints prints."""
    from sparta.compat import sten
    from sparta.compat.pytorch_block_sparse import BlockSparseLinear, BlockSparseModelPatcher
    from sparta.compat.torch_blocksparse import MatMul, Softmax
    from sparta.compat.xformers import BlockSparseAttention

    layout = torch.ones(2, 4, 4)
    refused(TypeError, "dropuot", BlockSparseAttention, layout, dropuot=0.5)
    refused(ValueError, "bench is not known", MatMul, layout, 16, "sdd", bench=True)
    refused(ValueError, "bench is not known", Softmax, layout, 16, bench=True)
    q = torch.rand(1, 2, 64, 8)
    close(MatMul(layout, 16, "sdd", trans_b=True, device="cpu")(q, q), MatMul(layout, 16, "sdd", trans_b=True)(q, q))
    refused(ValueError, "it was made for cuda:0", MatMul(layout, 16, "sdd", trans_b=True, device="cuda:0"), q, q)
    patcher = BlockSparseModelPatcher()
    refused(ValueError, "'pseudo_linear' is not known", patcher.add_pattern, "0", {"density": 0.5, "pseudo_linear": True})
    refused(ValueError, "has no 'density'", patcher.add_pattern, "0", {})
    patcher.add_pattern("0", {"density": 0.5, "block_shape": (8, 8)})
    model = nn.Sequential(nn.Linear(64, 64))
    patcher.patch_model(model)
    need(model[0].get_sparse_indexes().block == (8, 8), "block_shape of a pattern")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        BlockSparseLinear(64, 64, density=0.5, verbose=True)
    need("density 0.5" in said.getvalue(), f"verbose said {said.getvalue()!r}")

    class Halves:
        """A format that has no element below 0.5."""

        def __init__(self, data):
            self.data = data

        @staticmethod
        def from_dense(tensor):
            return Halves(torch.where(tensor.abs() >= 0.5, tensor, 0))

        def to_dense(self):
            return self.data

    for formats in ({"out_format": Halves}, {"tmp_format": Halves}, {"tmp_format": Halves, "inline_sparsifier": sten.KeepAll()}):
        builder = sten.SparsityBuilder()
        builder.set_weight("0.weight", **formats)
        dense = nn.Sequential(nn.Linear(16, 16))
        with torch.no_grad():
            dense[0].weight.copy_(torch.rand(16, 16))
        made = builder.get_sparse_model(dense)[0].weight
        need(torch.equal(made != 0, dense[0].weight >= 0.5), f"{formats} are ignored")



# ---------------------------------------------------------------- torch's sparse tensors
def torch_tensors():
    from sparta.compat import torch_sparse

    keep = torch.zeros(64, 96)
    keep[:32, 32:64] = 1
    keep[48:, :16] = 1
    dense = nn.Linear(96, 64)
    with torch.no_grad():
        dense.weight.mul_(keep)
    x = torch.randn(3, 5, 96)
    want = dense(x)
    for name, weight in (
        ("bsr", dense.weight.detach().to_sparse_bsr((16, 16))),
        ("csr", dense.weight.detach().to_sparse_csr()),
        ("csc", dense.weight.detach().to_sparse_csc()),
        ("coo", dense.weight.detach().to_sparse()),
    ):
        layer = torch_sparse.linear(weight, dense.bias)
        close(layer(x), want)
        need(layer.get_sparse_indexes().block == ((16, 16) if name == "bsr" else (1, 1)), name)
    model = nn.Sequential(copy.deepcopy(dense), nn.ReLU(), nn.Linear(64, 8))
    kept = model(x)
    model[0].weight = nn.Parameter(model[0].weight.detach().to_sparse_bsr((16, 16)), requires_grad=False)
    torch_sparse.convert_(model)
    need(isinstance(model[0], sparta.nn.SparseLinear) and type(model[2]) is nn.Linear, model)
    close(model(x), kept)
    model(x).sum().backward()
    need(model[0].values.grad is not None, "it trains")
    refused(ValueError, "no linear layer", torch_sparse.convert_, nn.Sequential(nn.Linear(4, 4)))
    half = nn.Linear(32, 16)
    refused(ValueError, "prune it first", torch_sparse.to_sparse_semi_structured, half)
    with torch.no_grad():
        half.weight.mul_(sparta.patterns.mask(half.weight, "2:4"))
    close(torch_sparse.to_sparse_semi_structured(half)(x[..., :32]), half(x[..., :32]))


# ---------------------------------------------------------------- apex
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn, self.conv2 = nn.Conv2d(4, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Conv2d(16, 8, 3, padding=1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(8, 32), nn.Linear(32, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = self.conv2(F.relu(self.bn(self.conv1(x)))).mean((2, 3))
        h = F.gelu(self.fc1(x))
        return self.fc3(torch.relu(self.fc2(h)) + 1)


def apex_asp():
    from sparta.compat.apex import ASP
    from sparta.compat.channels import find_order, permute_channels_

    torch.manual_seed(1)
    net, x = Net(), torch.randn(6, 4, 5, 5)
    net(x)
    net.eval()
    want = net(x)
    pattern = sparta.patterns.Pattern.parse("2:4").mask
    moved = permute_channels_(net, {name: m for name, m in net.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))}, pattern)
    need(set(moved) == {"conv2", "fc2"} and all(after > before for before, after in moved.values()), moved)
    close(net(x), want)
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    ASP.prune_trained_model(net, optimizer)
    need(ASP.is_sparsity_enabled(), "enabled")
    for _ in range(3):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    for layer in (net.conv2, net.fc1, net.fc2, net.fc3):
        groups = (layer.weight != 0).movedim(1, -1).unflatten(-1, (-1, 4)).sum(-1)
        need(int(groups.max()) == 2, f"{layer}: a group keeps {int(groups.max())}")
    best = torch.zeros(8, 8)
    best[:, :4] = torch.rand(8, 4) + 1
    order = find_order(best)
    need(int(((order[:4]) < 4).sum()) == 2 and sorted(order.tolist()) == list(range(8)), order)

    # What an optimizer remembers is permuted with its weights, and so are gradients.
    for make, name in ((lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), "momentum_buffer"), (lambda p: torch.optim.AdamW(p, 0.01), "exp_avg_sq")):
        net = Net()
        optimizer = make(net.parameters())
        net(x).square().mean().backward()
        optimizer.step()
        peer, known = copy.deepcopy(net), {key: (optimizer.state[p][name].clone(), p.grad.clone()) for key, p in net.named_parameters()}
        ASP.prune_trained_model(net, optimizer)
        need(set(ASP.permuted) == {"conv2", "fc2"}, ASP.permuted)
        for before, after in (("conv1", "conv2"), ("fc1", "fc2")):
            old, new = getattr(peer, before).bias, getattr(net, before).bias
            order = (new[:, None] == old).int().argmax(-1)
            need(sorted(order.tolist()) == list(range(len(old))) and order.tolist() != sorted(order.tolist()), order)
            for key, dim in ((before + ".weight", 0), (before + ".bias", 0), (after + ".weight", 1)):
                p = net.get_parameter(key)
                for now, then in zip((optimizer.state[p][name], p.grad), known[key]):
                    close(now, then.index_select(dim, order))

    dense = Net().eval()
    want = dense(x)
    ASP.init_model_for_pruning(dense, allow_recompute_mask=True, disallowed_layer_names=["fc3"])
    ASP.compute_sparse_masks()
    need(type(dense.fc3) is nn.Linear and not torch.allclose(dense(x), want), "pruned")
    ASP.restore_pruned_weights()
    close(dense(x), want)
    ASP.compute_sparse_masks()
    need(ASP.is_sparsity_enabled(), "again")
    refused(ValueError, "has no layer 'fc9'", ASP.init_model_for_pruning, dense, disallowed_layer_names=["fc9"])
    refused(ValueError, "is not known", ASP.init_model_for_pruning, dense, "m4n2_2d_best")
    refused(ValueError, "none of the model's", ASP.init_optimizer_for_pruning, torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.1))
    ASP.init_model_for_pruning(dense)
    refused(ValueError, "masks are there already", ASP.compute_sparse_masks)
    refused(ValueError, "were not kept", ASP.restore_pruned_weights)


# ---------------------------------------------------------------- STen
def sten_own():
    """A format, a sparsifier and implementations of one's own: which are called, and the answer and the gradients are torch's."""
    import scipy.sparse

    from sparta.compat import sten

    called = []

    class MyCsc:
        def __init__(self, data):
            self.data = data

        @staticmethod
        def from_dense(tensor):
            return MyCsc(scipy.sparse.csc_matrix(tensor.numpy()))

        def to_dense(self):
            return torch.from_numpy(self.data.toarray())

    class Half:
        def __init__(self, fraction):
            self.fraction = fraction

    @sten.register_sparsifier_implementation(sparsifier=Half, inp=torch.Tensor, out=MyCsc)
    def half(sparsifier, tensor, grad_fmt=None):
        called.append("half")
        kept = tensor.abs() >= tensor.abs().flatten().quantile(sparsifier.fraction)
        return sten.SparseTensorWrapper.wrapped_from_dense(MyCsc.from_dense(torch.where(kept, tensor, 0)), tensor, grad_fmt)

    @sten.register_fwd_op_impl(operator=torch.mm, inp=(MyCsc, torch.Tensor), out=[(sten.KeepAll, torch.Tensor)])
    def mm(ctx, inputs, output_sparsifiers):
        called.append("mm")
        ctx.save_for_backward(*inputs)
        return torch.from_numpy(inputs[0].wrapped_tensor.data @ inputs[1].numpy())

    @sten.register_bwd_op_impl(
        operator=torch.mm, grad_out=[torch.Tensor], grad_inp=((sten.KeepAll, torch.Tensor), (sten.KeepAll, torch.Tensor)), inp=(MyCsc, torch.Tensor)
    )
    def mm_backward(ctx, grad_outputs, input_sparsifiers):
        called.append("mm_backward")
        a, b = ctx.saved_tensors
        (grad,) = grad_outputs
        return grad @ b.T, torch.from_numpy(a.wrapped_tensor.data.T @ grad.numpy())

    a, b, c = torch.randn(10, 20, requires_grad=True), torch.randn(10, 20, requires_grad=True), torch.randn(20, 30, requires_grad=True)
    fmt = [(sten.KeepAll(), torch.Tensor, Half(0.7), MyCsc)]
    dense = [(sten.KeepAll(), torch.Tensor, sten.KeepAll(), torch.Tensor)]
    d = torch.mm(sten.sparsified_op(orig_op=torch.add, out_fmt=fmt, grad_out_fmt=dense)(a, b), c)
    need(called == ["half", "mm"], called)
    total = a + b
    kept = total.abs() >= total.abs().flatten().quantile(0.7)
    close(d, (total * kept) @ c)
    seed = torch.randn(10, 30)
    d.backward(seed)
    need(called == ["half", "mm", "mm_backward"], called)
    close(a.grad, seed @ c.T)
    close(c.grad, (total * kept).T @ seed)
    # Gradient formats: of an output, and of a tensor.
    a.grad = None
    tenth = [(sten.KeepAll(), torch.Tensor, sten.ScalarFractionSparsifier(0.9), torch.Tensor)]
    sten.sparsified_op(torch.add, dense, tenth)(a, b).backward(torch.randn(10, 20))
    need(int((a.grad != 0).sum()) == 20, int((a.grad != 0).sum()))
    x = sten.SparseTensorWrapper(sten.CsrTensor.from_dense(torch.randn(10, 20)), requires_grad=True)
    x.grad_fmt = (sten.KeepAll(), torch.Tensor, sten.RandomFractionSparsifier(0.5), sten.CooTensor)
    sten.sparsified_op(torch.add, [(sten.ScalarFractionSparsifier(0.6), sten.CsrTensor, sten.KeepAll(), sten.CsrTensor)], dense)(x, b).backward(
        torch.ones(10, 20)
    )
    need(isinstance(x.grad.wrapped_tensor, sten.CooTensor) and int((x.grad.dense != 0).sum()) == 100, x.grad)
    sten.set_dispatch_failure("raise")
    refused(sten.DispatchError, "register_fwd_op_impl(operator=mul", torch.mul, x, b)
    sten.set_dispatch_failure("warn")
    close(torch.mul(x, b), x.dense * b)
    refused(TypeError, "nothing says how Half", sten.sparsify, Half(0.5), a, torch.Tensor)
    refused(ValueError, "neither", sten.set_dispatch_failure, "panic")
    refused(ValueError, "a format is", sten.sparsified_op, torch.add, [(sten.KeepAll(), torch.Tensor)])


def sten_models():
    from sparta.compat import sten

    class SparseLinear(nn.Module):
        def __init__(self, linear, fraction):
            super().__init__()
            kept = torch.where(sten.ScalarFractionSparsifier(fraction).mask(linear.weight), linear.weight.detach(), 0)
            self.weight = sten.SparseParameterWrapper(sten.CscTensor.from_dense(kept))
            self.weight.grad_fmt = (sten.KeepAll(), torch.Tensor, sten.KeepAll(), torch.Tensor)
            self.bias = nn.Parameter(linear.bias.detach().clone())

        def forward(self, input):
            sparse_op = sten.sparsified_op(
                orig_op=torch.nn.functional.linear,
                out_fmt=tuple([(sten.KeepAll(), torch.Tensor, sten.KeepAll(), torch.Tensor)]),
                grad_out_fmt=tuple([(sten.KeepAll(), torch.Tensor, sten.KeepAll(), torch.Tensor)]),
            )
            return sparse_op(input, self.weight, self.bias)

    linear, x = nn.Linear(12, 8), torch.randn(5, 12, requires_grad=True)
    layer = SparseLinear(linear, 0.75)
    need(isinstance(layer.weight.wrapped_tensor, sten.CscTensor) and len(list(layer.parameters())) == 2, "a parameter in a format")
    same_gradients(layer(x), F.linear(x, layer.weight.detach(), layer.bias), (x, layer.bias))
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    layer(x).square().sum().backward()
    optimizer.step()
    need(int((layer.weight != 0).sum()) == 24, "elements grew")

    model = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 4))
    sb = sten.SparsityBuilder()
    sb.set_weight("0.weight", initial_sparsifier=sten.ScalarFractionSparsifier(0.5), out_format=sten.CsrTensor)
    sb.set_interm("1", external_sparsifier=sten.ScalarFractionSparsifier(0.25), out_format=sten.CooTensor)
    sb.set_weight_grad("2.weight", external_sparsifier=sten.ScalarFractionSparsifier(0.5))
    sparse = sb.get_sparse_model(model)
    need(type(model[0]) is nn.Linear and int((sparse[0].weight == 0).sum()) == 96, "half of the weight went")
    h = F.gelu(F.linear(x, sparse[0].weight, sparse[0].bias))
    h = torch.where(sten.ScalarFractionSparsifier(0.25).mask(h), h, 0)
    close(sparse(x), F.linear(h, model[2].weight, model[2].bias))
    sparse(x).sum().backward()
    need(int((sparse[2].weight.grad != 0).sum()) <= 32, "half of the gradient went")
    wrong = sten.SparsityBuilder()
    wrong.set_weight_grad("3.weight")
    refused(ValueError, "no parameter '3.weight'", wrong.sparsify_model_inplace, model)


# ---------------------------------------------------------------- the page
def docstrings():
    for name in ("pytorch_block_sparse", "torch_blocksparse", "xformers", "deepspeed", "torch_sparse", "channels"):
        result = doctest.testmod(importlib.import_module("sparta.compat." + name), extraglobs={"torch": torch})
        need(result.attempted and not result.failed, f"{name}: {result.failed} of {result.attempted} examples failed")


def page():
    """Every block of docs/dropins.md behind "after" runs."""
    with open(os.path.join(ROOT, "docs/dropins.md"), encoding="utf-8") as file:
        after = re.findall(r"<!-- after -->\n```python\n(.*?)```", file.read(), re.DOTALL)
    need(len(after) >= 7, f"{len(after)} examples")
    for code in after:
        exec(compile(code, "docs/dropins.md", "exec"), {"__name__": "dropins"})
    return f"{len(after)} examples"


for name, function in (
    ("SparTA", original),
    ("pytorch_block_sparse", block_sparse_linear),
    ("torch_blocksparse: products", blocksparse_matmul),
    ("torch_blocksparse: softmax", blocksparse_softmax),
    ("xFormers", xformers_attention),
    ("DeepSpeed", deepspeed_attention),
    ("DeepSpeed: configs as classes with numbers", deepspeed_classes),
    ("nothing is taken and ignored", nothing_ignored),
    ("torch's sparse tensors", torch_tensors),
    ("apex", apex_asp),
    ("STen: formats and implementations of one's own", sten_own),
    ("STen: models", sten_models),
    ("docstrings", docstrings),
    ("the page", page),
):
    tests.check(name, function)
sys.exit(tests.finish())
