"""Sparse attention: masks of all, of heads and of items, causal, key lengths, dropout, block layouts by name; against torch's dense attention."""

import concurrent.futures
import copy
import doctest
import importlib
import itertools
import math
import pickle
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

from common import Tests, need, refused

import sparta  # common.py says where it is
from sparta import attention as layouts
from sparta.nn import SparseAttention
from sparta.testing import block_mask

tests = Tests()
close = torch.testing.assert_close
torch.manual_seed(3)
ITEMS, HEADS, N, E = 3, 4, 48, 16


def dense(q, k, v, mask, scale=None):
    """torch's own, with 0 where a query sees nothing."""
    mask = mask.bool().expand(*q.shape[:-1], k.shape[-2])
    there = mask.any(-1, keepdim=True)
    return scaled_dot_product_attention(q, k, v, attn_mask=mask | ~there, scale=scale).masked_fill(~there, 0)


def same(operator, mask, lead=(ITEMS, HEADS), keys=N, scale=None, **more):
    """Answer and gradients."""
    q, k, v = torch.randn(*lead, N, E), torch.randn(*lead, keys, E), torch.randn(*lead, keys, E + 3)
    ours, theirs = ([x.clone().requires_grad_() for x in (q, k, v)] for _ in range(2))
    out, want = operator(*ours, **more), dense(*theirs, mask, scale)
    close(out, want, atol=1e-5, rtol=1e-5)
    gradient = torch.randn_like(want)
    out.backward(gradient)
    want.backward(gradient)
    for got, wanted in zip(ours, theirs):
        close(got.grad, wanted.grad, atol=1e-5, rtol=1e-5)


MASKS = {
    "one": (N, N),
    "one for each head": (HEADS, N, N),
    "one for each head, four dims": (1, HEADS, N, N),
    "one for each item": (ITEMS, 1, N, N),
    "one for each item and head": (ITEMS, HEADS, N, N),
}


def forms(shape, block, causal):
    mask = block_mask(shape, block, 0.7)
    wanted = mask.tril() if causal else mask
    operator = SparseAttention(mask, causal=causal)
    same(operator, wanted)
    flat = wanted.expand(ITEMS, HEADS, N, N).reshape(-1, N, N)
    same(operator, flat, lead=(ITEMS * HEADS,))
    for lengths in ([N, 1, 17], [0, N, 8]):
        short = torch.arange(N) < torch.tensor(lengths)[:, None, None, None]
        same(operator, wanted * short, key_lengths=torch.tensor(lengths))
        same(operator, (wanted * short).expand(ITEMS, HEADS, N, N).reshape(-1, N, N), lead=(ITEMS * HEADS,), key_lengths=lengths)
    again = block_mask(shape, block, 0.3)
    operator.update_mask(again)
    same(operator, again.tril() if causal else again)


def other_keys():
    mask = block_mask((N, 31), (8, 8), 0.5)
    same(SparseAttention(mask), mask, keys=31)
    same(SparseAttention(mask, scale=0.3, format="csr"), mask, keys=31, scale=0.3)
    same(SparseAttention(mask, format="dense"), mask, keys=31)
    same(SparseAttention(mask, format="dense"), mask * (torch.arange(31) < 9), keys=31, key_lengths=[9, 9, 9])


def small():
    """One item, one head, none at all; tokens that change from call to call, in several threads."""
    mask = block_mask((N, N), (8, 8), 0.5)
    operator = SparseAttention(mask)
    same(operator, mask * (torch.arange(N) < 20), lead=(1,), key_lengths=[20])
    same(operator, mask, lead=(1, 1))
    need(operator(*torch.randn(3, 0, HEADS, N, E)).shape == (0, HEADS, N, E), "an empty batch")
    layout = layouts.Fixed(HEADS, 8, different_layout_per_head=True, num_different_global_patterns=2)
    operator = SparseAttention(layout)

    def many(tokens):
        for _ in range(10):
            q, k, v = torch.randn(3, 2, HEADS, tokens, E)
            close(operator(q, k, v), dense(q, k, v, layout.mask(tokens)), atol=1e-5, rtol=1e-5)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(many, (33, 48, 64, 96)))
    need(list(operator.state_dict()) == ["_extra_state"], f"a layout is saved: {list(operator.state_dict())}")
    same(pickle.loads(pickle.dumps(operator)), layout.mask(N))


def dropped():
    """Dropout while training only: on average the same, at any time of the right kind."""
    mask = block_mask((N, N), (8, 8), 0.5)
    for format in ("bsr(8,8)", "dense"):
        operator = SparseAttention(mask, dropout=0.25, format=format)
        q, k, v = torch.randn(3, 2, N, E)
        want = dense(q, k, v, mask)
        close(operator.eval()(q, k, v), want, atol=1e-5, rtol=1e-5)
        operator.train()
        mean = torch.stack([operator(q, k, v) for _ in range(300)]).mean(0)
        need(not torch.equal(operator(q, k, v), operator(q, k, v)), "nothing was dropped")
        need((mean - want).abs().mean() < 0.1, f"off by {(mean - want).abs().mean()} on average")
    refused(ValueError, "dropout", SparseAttention, mask, dropout=1.0)


def second():
    """Gradients against differences, in float64."""
    mask = torch.stack([block_mask((6, 5), (2, 2), 0.4), block_mask((6, 5), (1, 1), 0.5)])
    operator = SparseAttention(mask)
    q, k, v = (torch.randn(2, n, 3, dtype=torch.double, requires_grad=True) for n in (6, 5, 5))
    need(torch.autograd.gradcheck(operator, (q, k, v)), "gradcheck")
    need(torch.autograd.gradcheck(lambda *x: operator(*x, key_lengths=[3, 5]), (q, k, v)), "gradcheck with lengths")


def copies():
    mask = block_mask((HEADS, N, N), (8, 8), 0.6)
    operator = SparseAttention(mask)
    same(copy.deepcopy(operator), mask)
    same(pickle.loads(pickle.dumps(operator)), mask)
    other = SparseAttention(block_mask((N, N), (2, 2), 0.5))
    other.load_state_dict(operator.state_dict())
    same(other, mask)
    same(operator.double().float(), mask)
    state = SparseAttention(layouts.BigBird(block=8)).state_dict()
    SparseAttention(layouts.BigBird(block=8)).load_state_dict(state)


def whose():
    """Whose the masks are, items' or heads', comes with a checkpoint; one of a mask does not go into a layout, and sizes that are not there are refused."""
    for lead in ((HEADS, 1), (1, HEADS)):
        mask = block_mask((*lead, N, N), (8, 8), 0.6)
        for other in (SparseAttention(block_mask((*lead[::-1], N, N), (8, 8), 0.6)), SparseAttention(block_mask((N, N), (8, 8), 0.6))):
            other.load_state_dict(SparseAttention(mask).state_dict())
            same(other, mask, (HEADS, HEADS))
    state = SparseAttention(mask).state_dict()
    fixed = SparseAttention(layouts.BigBird(block=8))
    refused(ValueError, "has a layout", _load, fixed, state)
    need(fixed._layout is not None and fixed.pos is None, "half-changed")
    refused(ValueError, "is damaged", _load, SparseAttention(mask), {**state, "_extra_state": state["_extra_state"] + torch.tensor([0] * 6 + [1])})
    refused(ValueError, "sizes", _load, SparseAttention(mask), {**state, "_extra_state": state["_extra_state"][:5]})
    refused(ValueError, "mask is", _load, SparseAttention(mask[0, 0, :8]), state)


def _load(module, state):
    """torch tells everything that is wrong in one RuntimeError of several lines."""
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(" ".join(str(error).split())) from None


def lengths_of_one():
    """update_mask of a module that is not global is for this one."""
    q = torch.randn(2, 1, 5, 4)
    one, other, every = (sparta.nn.SeqlenDynamicSparseAttention(global_mode=g) for g in (False, False, True))
    before = sparta.nn.SeqlenDynamicSparseAttention._global_seqlens
    every.update_mask(torch.tensor([5, 5]))
    one.update_mask(torch.tensor([2, 5]))
    refused(ValueError, "no lengths", other, q, q, q)
    need(bool((one(q, q, q)[0, :, 2:] == 0).all()) and bool((every(q, q, q)[0, :, 2:] != 0).all()), "lengths")
    sparta.nn.SeqlenDynamicSparseAttention.set_global_seqlens(before)


def halves():
    mask = block_mask((N, N), (16, 16), 0.5)
    for dtype in (torch.float16, torch.bfloat16):
        q, k, v = torch.randn(3, 2, N, E).to(dtype)
        out = SparseAttention(mask)(q, k, v)
        need(out.dtype == dtype, out.dtype)
        close(out.float(), dense(q.float(), k.float(), v.float(), mask), atol=2e-2, rtol=2e-2)
    q, k, v = q.float(), k.float(), v.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = SparseAttention(mask)(q, k, v)
    close(out.float(), dense(q, k, v, mask), atol=5e-2, rtol=5e-2)


def refusals():
    mask = block_mask((HEADS, N, N), (8, 8), 0.6)
    operator = SparseAttention(mask)
    q = torch.randn(ITEMS, HEADS, N, E)
    refused(ValueError, "do not go together", operator, q, q[..., :3], q)
    refused(ValueError, "do not go together", operator, q, q, q[:, :, :4])
    refused(ValueError, "queries", operator, q[:, :, :4], q, q)
    refused(ValueError, "heads", operator, q[:, :3], q[:, :3], q[:, :3])
    refused(TypeError, "float64", operator, q, q.double(), q)
    refused(ValueError, "tensors", operator, q[0, 0], q[0, 0], q[0, 0])
    for lengths in ([1], [1, 2, N + 1], [-1, 2, 3], [1.0, 2.0, 3.0], [[1, 2, 3]]):
        refused(ValueError, "key_lengths", operator, q, q, q, key_lengths=lengths)
    refused(ValueError, "dimensions", SparseAttention, mask[0, 0])
    refused(ValueError, "NaN", SparseAttention, mask.float() / 0 * 0)
    refused(ValueError, "as many queries", SparseAttention(layouts.Dense()), q, q[:, :, :4], q[:, :, :4])


# ---------------------------------------------------------------- layouts, said again block by block
def rule_dense(p, h, n, i, j):
    return True


def rule_fixed(p, h, n, i, j):
    causal = p.attention == "unidirectional"
    local = i // p.num_local_blocks == j // p.num_local_blocks and (not causal or j <= i)
    first = p.num_local_blocks - (1 + h % p.num_different_global_patterns) * p.num_global_blocks
    whole = n - n % p.num_local_blocks

    def start_of(k):
        window = k // p.num_local_blocks * p.num_local_blocks
        return window + first if window < whole else min(whole + first, n - p.num_global_blocks)

    def is_global(k):
        return any(start <= k < start + p.num_global_blocks for start in {start_of(w) for w in range(n)})

    def begin(k):
        return next(start for start in {start_of(w) for w in range(n)} if start <= k < start + p.num_global_blocks)

    return local or (is_global(j) and (not causal or i >= begin(j))) or (p.horizontal_global_attention and is_global(i))


def _ranged(p, k):
    ends = p.global_block_end_indices or [start + 1 for start in p.global_block_indices]
    return next(((start, end) for start, end in zip(p.global_block_indices, ends) if start <= k < end), None)


def rule_variable(p, h, n, i, j):
    causal = p.attention == "unidirectional"
    window, edges = 0, []
    while sum(edges) < n:
        edges.append(p.local_window_blocks[min(window, len(p.local_window_blocks) - 1)])
        window += 1
    number = [k for k, size in enumerate(edges) for _ in range(size)]
    local = number[i] == number[j] and (not causal or j <= i)
    seen = _ranged(p, j)
    return local or (seen and (not causal or i >= seen[0])) or (p.horizontal_global_attention and _ranged(p, i))


def rule_bigbird(p, h, n, i, j):
    near = abs(i - j) <= p.num_sliding_window_blocks // 2
    return (near or i < p.num_global_blocks or j < p.num_global_blocks) and (p.attention == "bidirectional" or j <= i)


def rule_longformer(p, h, n, i, j):
    near = abs(i - j) <= p.num_sliding_window_blocks // 2
    return (near or _ranged(p, i) or _ranged(p, j)) and (p.attention == "bidirectional" or j <= i)


def rule_local(p, h, n, i, j):
    return abs(i - j) <= p.num_sliding_window_blocks // 2 and (p.attention == "bidirectional" or j <= i)


BOTH = ("bidirectional", "unidirectional")
LAYOUTS = [
    (layouts.Dense, rule_dense, [{}]),
    (layouts.Fixed, rule_fixed, [{"attention": a} for a in BOTH] + [
        {"num_local_blocks": 4, "num_global_blocks": 2, "attention": a} for a in BOTH] + [
        {"horizontal_global_attention": True}, {"num_heads": 4, "different_layout_per_head": True, "num_different_global_patterns": 4}]),
    (layouts.Variable, rule_variable, [{"attention": a, "local_window_blocks": [1, 3, 2], "global_block_indices": [0, 4]} for a in BOTH] + [
        {"attention": a, "global_block_indices": [2, 30], "global_block_end_indices": [4, 31]} for a in BOTH] + [{"horizontal_global_attention": True}]),
    (layouts.BigBird, rule_bigbird, [{"attention": a, "num_random_blocks": 0, "num_global_blocks": g} for a in BOTH for g in (0, 1, 2)]),
    (layouts.BSLongformer, rule_longformer, [{"attention": a, "global_block_indices": [0, 3]} for a in BOTH] + [
        {"global_block_indices": [1], "global_block_end_indices": [3], "num_sliding_window_blocks": 5}]),
    (layouts.LocalSlidingWindow, rule_local, [{"attention": a, "num_sliding_window_blocks": w} for a in BOTH for w in (1, 3, 4)]),
]


def layout(kind, rule, parameters, tokens):
    one = kind(block=8, **parameters)
    n = math.ceil(tokens / 8)
    made = one.make_layout(tokens)
    need(made.shape == (one.num_heads, n, n) and made.dtype == torch.int64, f"{made.shape} {made.dtype}")
    for h in range(one.num_heads):
        want = torch.tensor([[bool(rule(one, h, n, i, j)) for j in range(n)] for i in range(n)])
        need(torch.equal(made[h].bool(), want), f"head {h}:\n{made[h]}\nnot\n{want.int()}")
    mask = one.mask(tokens)
    need(mask.shape[-2:] == (tokens, tokens), mask.shape)
    operator = SparseAttention(one)
    heads = one.num_heads
    for causal in (False, True):
        operator = SparseAttention(one, causal=causal)
        q, k, v = (x.requires_grad_() for x in torch.randn(3, 2, heads, tokens, 8).unbind())
        wanted = mask.tril() if causal else mask
        close(operator(q, k, v), dense(q, k, v, wanted), atol=1e-5, rtol=1e-5)
        got, want = torch.autograd.grad(operator(q, k, v).sum(), (q, k, v)), torch.autograd.grad(dense(q, k, v, wanted).sum(), (q, k, v))
        for a, b in zip(got, want):
            close(a, b, atol=1e-5, rtol=1e-5)


def random_blocks():
    one = layouts.BigBird(num_heads=3, block=4, different_layout_per_head=True, num_random_blocks=2, seed=5)
    made, plain = one.layout(80), layouts.BigBird(num_heads=3, block=4, num_random_blocks=0).layout(80)
    need(bool((made | ~plain).all()), "the window or the global blocks are not all there")
    need(torch.equal(made, one.layout(80)) and not torch.equal(made[0], made[1]), "random blocks are not those of the seed, or the same for all heads")
    need(not torch.equal(made, layouts.BigBird(3, 4, True, 2, seed=6).layout(80)), "another seed, the same blocks")
    need(bool((layouts.Variable(block=4, num_random_blocks=3, global_block_indices=[]).layout(80).sum(1) >= 4).all()), "fewer than the window")
    later = layouts.BigBird(block=4, num_random_blocks=3, attention="unidirectional").layout(80)
    need(not bool(later.triu(1).any()), "sees later blocks")


def layout_refusals():
    for kind, words, parameters in (
        (layouts.Fixed, "multiple", {"num_local_blocks": 3, "num_global_blocks": 2}),
        (layouts.Fixed, "attention", {"attention": "sideways"}),
        (layouts.Fixed, "horizontal", {"attention": "unidirectional", "horizontal_global_attention": True}),
        (layouts.Fixed, "different_layout_per_head", {"num_different_global_patterns": 2}),
        (layouts.Fixed, "num_different_global_patterns", {"num_different_global_patterns": 5, "different_layout_per_head": True}),
        (layouts.Variable, "local_window_blocks", {"local_window_blocks": []}),
        (layouts.Variable, "global_block_end_indices", {"global_block_indices": [3], "global_block_end_indices": [2]}),
        (layouts.BSLongformer, "global_block_indices", {"global_block_indices": [-1]}),
        (layouts.BigBird, "num_random_blocks", {"num_random_blocks": -1}),
        (layouts.Dense, "block", {"block": 0}),
        (layouts.Dense, "num_heads", {"num_heads": 0}),
    ):
        refused(ValueError, words, kind, **parameters)
    refused(ValueError, "num_sliding_window_blocks", layouts.BigBird(block=16).layout, 17)
    refused(ValueError, "num_random_blocks", layouts.BigBird(block=16, num_random_blocks=9).layout, 100)
    refused(ValueError, "tokens", layouts.Dense().mask, 0)


def examples(name):
    result = doctest.testmod(importlib.import_module(name))
    need(result.attempted and not result.failed, f"{result.failed} of {result.attempted} examples failed")


for (name, shape), block, causal in itertools.product(MASKS.items(), ((1, 1), (8, 8)), (False, True)):
    tests.check(f"mask, {name}, blocks of {block[0]}x{block[1]}{', causal' if causal else ''}", forms, shape, block, causal)
for one in (other_keys, small, dropped, second, copies, whose, lengths_of_one, halves, refusals, random_blocks, layout_refusals):
    tests.check(one.__name__.replace("_", " "), one)
for kind, rule, sets in LAYOUTS:
    for parameters in sets:
        for tokens in (48, 61):
            tests.check(f"layout {kind.__name__} {parameters}, {tokens} tokens", layout, kind, rule, parameters, tokens)
for name in ("sparta.attention", "sparta.nn.attention"):
    tests.check(f"examples of {name}", examples, name)
need(sparta.attention is layouts, "sparta.attention is another module")
sys.exit(tests.finish())
