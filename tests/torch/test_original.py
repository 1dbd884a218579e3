"""What the original SparTA's own tests ask of its operators, written anew from their tables: the same grids, against torch's dense result, each
with new masks where they have them. Sizes are a half or a quarter of theirs, for the time that they take on two cores. Then what the original
gets wrong."""

import itertools
import math
import sys

import torch
from torch.nn.functional import linear

from common import Tests, need, refused

import sparta  # common.py says where it is
from sparta import _torch
from sparta._blocks import Blocks
from sparta.nn import DynamicSparseMoE, SeqlenDynamicSparseAttention, SparseAttention, SparseBatchMatMul, SparseLinear, SparseSoftmax
from sparta.testing import (block_mask, check, profile, sparse_multi_head_attention_reference, sparse_softmax_backward_reference,
                            sparse_softmax_forward_reference)

tests = Tests()
close = torch.testing.assert_close
torch.manual_seed(2023)
ON_OFF = (False, True)


def grad_of(*tensors):
    """Copies that ask for gradients."""
    return [x.detach().clone().requires_grad_() for x in tensors]


# ---------------------------------------------------------------- indexes
FINE = block_mask((256, 192), (1, 1), 0.999)


def index(kind, height, width):
    """The block mask is the any() of blocks; dense to values and back; sums of rows and columns; rows against columns."""
    mask = FINE.t().contiguous() if kind == "columns" else FINE
    height, width = (width, height) if kind == "columns" else (height, width)
    blocks = Blocks.from_mask(mask, (height, width))
    down, right = blocks.grid
    there = torch.zeros(down, right, dtype=torch.bool)
    there[blocks.rows(), blocks.crd.long()] = True
    want = torch.nn.functional.pad(mask, (0, -mask.shape[1] % width, 0, -mask.shape[0] % height)).view(down, height, right, width).amax((1, 3))
    close(there, want.bool())
    close(blocks.mask(), mask.bool())
    dense = torch.randn(2, *mask.shape) * mask
    values = blocks.pack(dense)
    close(blocks.unpack(values), dense)
    if kind != "both":
        return
    rows = _torch.multiply(values, blocks, torch.ones(2, mask.shape[1], 1))
    close(rows[..., 0], dense.sum(-1), atol=1e-5, rtol=1e-5)
    columns = _torch.multiply(values, blocks, torch.ones(2, mask.shape[0], 1), turned=True)
    close(columns[..., 0], dense.sum(-2), atol=1e-5, rtol=1e-5)


for kind, height, width in itertools.product(("rows", "columns", "both"), (4, 8, 16, 32, 64, 128), (4, 8, 16, 32, 64, 128)):
    tests.check(f"index by {kind}, blocks of {height}x{width}", index, kind, height, width)

# ---------------------------------------------------------------- products
B, M, K, N = 4, 64, 128, 96


def operands(mode, transpose_A, transpose_B):
    """A and B as stored, the shape of the mask."""
    A, right = torch.randn(B, *((K, M) if transpose_A else (M, K))), torch.randn(B, *((N, K) if transpose_B else (K, N)))
    return A, right, {"A": A.shape[1:], "B": right.shape[1:], "C": (M, N)}[mode]


def dense_product(mode, A, right, mask, transpose_A, transpose_B, bias=None):
    A, right = (A * mask if mode == "A" else A), (right * mask if mode == "B" else right)
    out = (A.transpose(1, 2) if transpose_A else A) @ (right.transpose(1, 2) if transpose_B else right)
    out = out if bias is None else out + bias.unsqueeze(1)
    return out * mask if mode == "C" else out


def product(mode, transpose_A, transpose_B, compressed, biased=False, gradients=True, masks=1, block=None):
    operator = None
    for _ in range(masks):
        A, right, shape = operands(mode, transpose_A, transpose_B)
        mask, bias = block_mask(shape, (8, 8), 0.9), torch.randn(B, N) if biased else None
        if operator is None:
            operator = SparseBatchMatMul(**{f"{mode}_mask": mask}, transpose_A=transpose_A, transpose_B=transpose_B, compressed=compressed)
        else:
            operator.update_mask(mask)
        if block is not None:
            operator.build({"block": block})
        blocks = operator.get_sparse_indexes(mode)
        ours, theirs = grad_of(*(x for x in (A, right, bias) if x is not None)), grad_of(*(x for x in (A, right, bias) if x is not None))
        given = [blocks.pack(x) if compressed and name == mode else x for name, x in zip("AB ", ours)]
        out = operator(*given)
        want = dense_product(mode, theirs[0], theirs[1], mask, transpose_A, transpose_B, *theirs[2:])
        need(not (compressed and mode == "C") or out.dim() == 4, f"the result is not compressed: {tuple(out.shape)}")
        out = blocks.unpack(out) if compressed and mode == "C" else out
        close(out, want, atol=1e-4, rtol=1e-5)
        if gradients:
            gradient = torch.randn_like(want)
            out.backward(gradient)
            want.backward(gradient)
            for got, wanted in zip(ours, theirs):
                close(got.grad, wanted.grad, atol=2e-4, rtol=1e-5)


for mode, tA, tB, compressed in itertools.product("ABC", ON_OFF, ON_OFF, ON_OFF):
    name = f"product {mode} sparse{', A transposed' if tA else ''}{', B transposed' if tB else ''}{', compressed' if compressed else ''}"
    for biased, block in itertools.product(ON_OFF, ([1, 1], [32, 32])):
        tests.check(f"{name}{', bias' if biased else ''}, blocks of {block[0]}x{block[1]}", product, mode, tA, tB, compressed, biased, False, 1, block)
    for biased in ON_OFF:
        tests.check(f"{name}{', bias' if biased else ''}, gradients", product, mode, tA, tB, compressed, biased)
    tests.check(f"{name}, three masks", product, mode, tA, tB, compressed, masks=4)


def linear_layer(mode, biased):
    dense, sparse = torch.nn.Linear(K, N, bias=biased), None
    for _ in range(4):
        mask = block_mask({"input": (M, K), "weight": (N, K), "output": (M, N)}[mode], (8, 8), 0.9)
        if sparse is None:
            sparse = SparseLinear(dense, **{f"{mode}_mask": mask})
        else:
            sparse.update_mask(mask)
        if mode == "weight":
            with torch.no_grad():
                dense.weight.copy_(sparse.weight)
        (ours, theirs), _ = (grad_of(x, x) for x in torch.randn(2, M, K))
        out, want = sparse(ours), dense(theirs * mask if mode == "input" else theirs)
        want = want * mask if mode == "output" else want
        close(out, want, atol=1e-5, rtol=1.3e-6)
        gradient = torch.randn_like(want)
        sparse.zero_grad()
        dense.zero_grad()
        out.backward(gradient)
        want.backward(gradient)
        close(ours.grad, theirs.grad, atol=1e-5, rtol=1.3e-6)
        got = sparse.get_sparse_indexes().unpack(sparse.values.grad) if mode == "weight" else sparse.weight.grad
        close(got, dense.weight.grad * mask if mode == "weight" else dense.weight.grad, atol=1e-4, rtol=1.3e-6)
        if biased:
            close(sparse.bias.grad, dense.bias.grad, atol=1e-4, rtol=1.3e-6)


for mode, biased in itertools.product(("input", "weight", "output"), ON_OFF):
    tests.check(f"linear, {mode} sparse{', bias' if biased else ''}, three masks", linear_layer, mode, biased)


# ---------------------------------------------------------------- softmax
def softmax(compressed, batch, backward):
    height, width = 128, 256
    temperature, operator = math.sqrt(width), None
    for _ in range(4):
        mask = block_mask((height, width), (8, 8), 0.9)
        if operator is None:
            operator = SparseSoftmax(mask, temperature=1, compressed=compressed)
            operator.set_temperature(temperature)
        else:
            operator.update_mask(mask)
        blocks = operator.get_sparse_indexes()
        x = torch.randn(*(() if batch is None else (batch,)), height, width).requires_grad_()
        out = operator(blocks.pack(x) if compressed else x)
        out = blocks.unpack(out) if compressed else out
        want = sparse_softmax_forward_reference(x.detach(), mask, temperature)
        close(out, want)
        if backward:
            gradient = torch.randn_like(want)
            out.backward(gradient)
            close(x.grad, sparse_softmax_backward_reference(gradient, want, mask, temperature))


for compressed, batch, backward in itertools.product(ON_OFF, (None, 4), ON_OFF):
    tests.check(f"softmax, batch {batch}{', compressed' if compressed else ''}{', gradient' if backward else ''}, three masks",
                softmax, compressed, batch, backward)


# ---------------------------------------------------------------- attention
def attention(heads, queries, keys, features, masks=4):
    operator = None
    for _ in range(masks):
        mask = block_mask((queries, keys), (8, 8), 0.95)
        if operator is None:
            operator = SparseAttention(mask)
        else:
            operator.update_mask(mask)
        q, k, v = torch.randn(heads, queries, features), torch.randn(heads, keys, features), torch.randn(heads, keys, features)
        ours, theirs = grad_of(q, k, v), grad_of(q, k, v)
        out, want = operator(*ours), sparse_multi_head_attention_reference(*theirs, mask)
        close(out, want, atol=1e-4, rtol=1e-5)
        gradient = torch.randn_like(want)
        out.backward(gradient)
        want.backward(gradient)
        for got, wanted in zip(ours, theirs):
            close(got.grad, wanted.grad, atol=1e-4, rtol=1e-5)


for heads, queries, keys, features in itertools.product((1, 4), (64, 128, 256), (64, 128, 256), (16, 32, 64)):
    tests.check(f"attention of {heads} heads, {queries} x {keys} x {features}, three masks", attention, heads, queries, keys, features)
tests.check("attention of 4 heads, 1024 x 1024 x 256", attention, 4, 1024, 1024, 256, 1)


def lengths(global_mode):
    items, heads, n, features = 12, 5, 256, 64
    operator = SeqlenDynamicSparseAttention(global_mode)
    for _ in range(3):
        q, k, v = torch.randn(3, items, heads, n, features) / 4
        seqlens = torch.randint(1, n + 1, (items,), dtype=torch.int32)
        inside = torch.arange(n) < seqlens[:, None]
        mask = (inside[:, :, None] & inside[:, None, :])[:, None]
        if global_mode:
            SeqlenDynamicSparseAttention.set_global_seqlens(seqlens)
        out = operator(q, k, v) if global_mode else operator(q, k, v, seqlens)
        close(out, sparse_multi_head_attention_reference(q, k, v, mask, temperature=1.0), atol=1e-4, rtol=1e-5)


for global_mode in ON_OFF:
    tests.check(f"attention by {'global' if global_mode else 'given'} lengths", lengths, global_mode)


def experts(dtype, tolerance):
    layers = [torch.nn.Linear(768, 192, bias=False).to(dtype) for _ in range(8)]
    operator = DynamicSparseMoE(layers)
    for _ in range(3):
        tokens, ids = torch.randn(4096, 768, dtype=dtype), torch.randint(0, 8, (4096,), dtype=torch.int32)
        want = torch.empty(4096, 192, dtype=dtype)
        for k, layer in enumerate(layers):
            want[ids == k] = layer(tokens[ids == k])
        close(operator(tokens, ids), want, atol=tolerance, rtol=tolerance)


tests.check("experts float32", experts, torch.float32, 1e-4)
tests.check("experts float16", experts, torch.float16, 2e-2)


# ---------------------------------------------------------------- the example of its overview
def example():
    """As it is printed there, without .cuda(), and completed: A has values, and the weight is masked where autograd allows it."""
    M, N, K, sparsity = 1024, 1024, 1024, 0.5
    A = torch.rand((M, K))
    w_mask = sparta.testing.block_mask(shape=(N, K), block=(32, 32), sparsity=sparsity, algo='rand')
    dense_op = torch.nn.Linear(K, N)
    with torch.no_grad():
        dense_op.weight *= w_mask
    sparse_op = sparta.nn.SparseLinear(dense_op, weight_mask=w_mask)
    sparse_op.tune(inputs=(A))
    torch.testing.assert_close(sparse_op(A), dense_op(A))
    return sparse_op.reason


def helpers():
    mask = block_mask((100, 70), (32, 32), 0.5)
    need(mask.dtype == torch.uint8 and mask.shape == (100, 70) and mask.device.type == "cpu", "a mask of another kind")
    need(block_mask((64, 64), (1, 1), 0.75).sum() == 1024 and block_mask((64, 64), (1, 1), 0.0).all() and not block_mask((8, 8), (2, 2), 1.0).any(), "sparsity")
    need(0 < block_mask((64, 64), sparsity=0.5, algo="uniform").float().mean() < 1, "uniform")
    for bad in ({"sparsity": 2}, {"algo": "x"}, {"block": (0, 1)}, {"block": (1,)}):
        refused(ValueError, "block_mask", block_mask, (8, 8), **bad)
    need(profile(torch.relu, torch.ones(3), torch.ones(3)) > 0, "no time")
    try:
        check(torch.relu, (torch.ones(3),), torch.zeros(3))
    except AssertionError:
        return
    raise AssertionError("a wrong answer was accepted")


# ---------------------------------------------------------------- what the original gets wrong
def whole_blocks(height, width):
    """A block whose elements are all there is not dropped."""
    mask = torch.zeros(256, 256)
    mask[:height, width : 2 * width] = 1
    dense = torch.nn.Linear(256, 256)
    with torch.no_grad():
        dense.weight *= mask
    x = torch.randn(3, 256)
    sparse = SparseLinear(dense, weight_mask=mask)
    close(sparse(x), dense(x), atol=1e-5, rtol=1e-5)
    sparse.build({"block": [height, width]})
    close(sparse(x), dense(x), atol=1e-5, rtol=1e-5)
    close(SparseBatchMatMul(C_mask=mask, transpose_B=True, compressed=False)(x.new_ones(1, 256, 8), x.new_ones(1, 256, 8)), 8 * mask[None])


def odd_sizes(block):
    """Sizes that blocks do not divide."""
    for rows, cols in ((1, 1), (7, 5), (33, 65), (100, 3)):
        mask = block_mask((rows, cols), (2, 3), 0.5)
        for operator in (SparseSoftmax(mask), SparseAttention(mask), SparseBatchMatMul(A_mask=mask, compressed=False)):
            operator.build({"block": block})
            if isinstance(operator, SparseSoftmax):
                x = torch.randn(2, rows, cols)
                close(operator(x), sparse_softmax_forward_reference(x, mask))
            elif isinstance(operator, SparseAttention):
                q, k, v = torch.randn(2, rows, 9), torch.randn(2, cols, 9), torch.randn(2, cols, 11)
                close(operator(q, k, v), sparse_multi_head_attention_reference(q, k, v, mask), atol=1e-5, rtol=1e-5)
            else:
                x, y = torch.randn(2, rows, cols), torch.randn(2, cols, 13)
                close(operator(x, y), (x * mask) @ y, atol=1e-5, rtol=1e-5)


def empty_masks():
    nothing = torch.zeros(12, 20)
    dense = torch.nn.Linear(20, 12)
    x = torch.randn(5, 20, requires_grad=True)
    sparse = SparseLinear(dense, weight_mask=nothing)
    close(sparse(x), dense.bias.expand(5, 12))
    sparse(x).sum().backward()
    close(x.grad, torch.zeros(5, 20))
    close(SparseLinear(dense, output_mask=torch.zeros(5, 12))(x), torch.zeros(5, 12))
    close(SparseLinear(dense, input_mask=torch.zeros(5, 20))(x), dense.bias.expand(5, 12))
    close(SparseSoftmax(nothing)(torch.randn(12, 20)), torch.zeros(12, 20))
    close(SparseAttention(nothing)(torch.randn(2, 12, 8), torch.randn(2, 20, 8), torch.randn(2, 20, 8)), torch.zeros(2, 12, 8))
    for mode in "ABC":
        product = SparseBatchMatMul(**{f"{mode}_mask": torch.zeros(6, 6)}, compressed=False)
        close(product(torch.randn(2, 6, 6), torch.randn(2, 6, 6)), torch.zeros(2, 6, 6))


def turned_mask():
    """A mask that is a transposed view is read as what it is."""
    mask = block_mask((20, 12), (4, 4), 0.5).t()
    dense = torch.nn.Linear(20, 12)
    x = torch.randn(5, 20)
    close(SparseLinear(dense, weight_mask=mask)(x), linear(x, dense.weight * mask, dense.bias))


def regrowing():
    """Inside a kept block, pruned weights stay 0 through momentum and weight decay; another mask keeps what was trained."""
    mask = block_mask((64, 64), (1, 1), 0.7)
    sparse = SparseLinear(torch.nn.Linear(64, 64), weight_mask=mask, format="bsr(32,32)")
    optimizer = torch.optim.SGD(sparse.parameters(), 0.1, momentum=0.9, weight_decay=0.01)
    start = sparse.weight.detach().clone()
    for _ in range(5):
        optimizer.zero_grad()
        sparse(torch.randn(8, 64)).pow(2).sum().backward()
        optimizer.step()
    trained = sparse.weight.detach().clone()
    need(bool((trained[mask == 0] == 0).all()) and not torch.equal(start, trained), "pruned weights grew back")
    smaller = mask * block_mask((64, 64), (1, 1), 0.5)
    sparse.update_mask(smaller)
    close(sparse.weight.detach(), trained * smaller)


def token_counts():
    """Any number of tokens, also none and one; top-k with gates and bias; gradients, float64."""
    layers = [torch.nn.Linear(16, 8, dtype=torch.double) for _ in range(5)]
    operator = DynamicSparseMoE(layers)
    for count in (0, 1, 255, 257, 5000):
        tokens, scores = torch.randn(count, 16, dtype=torch.double), torch.rand(count, 5, dtype=torch.double)
        gates, ids = scores.topk(2)
        every = torch.stack([layer(tokens) for layer in layers], 1)
        want = (every.gather(1, ids[..., None].expand(-1, -1, 8)) * gates[..., None]).sum(1)
        close(operator(tokens, ids, gates), want)
    tokens, gates, ids = tokens[:6].requires_grad_(), gates[:6].detach().requires_grad_(), ids[:6]
    need(torch.autograd.gradcheck(lambda t, g: operator(t, ids, g), (tokens, gates)), "gradcheck")
    close(operator(tokens.view(2, 3, 16), ids.view(2, 3, 2), gates.view(2, 3, 2)).view(6, 8), operator(tokens, ids, gates))
    close(operator(tokens, torch.full((6,), 4)), layers[4](tokens))
    refused(ValueError, "exp_ids", operator, tokens, torch.full((6,), 5))
    refused(ValueError, "exp_ids", operator, tokens, torch.full((6,), -1))
    refused(ValueError, "exp_ids", operator, tokens, torch.rand(6))
    refused(ValueError, "exp_ids", operator, tokens, torch.zeros(5, dtype=torch.long))
    refused(ValueError, "gates", operator, tokens, ids, gates[:, :1])
    refused(TypeError, "module", DynamicSparseMoE, [])
    refused(ValueError, "different shapes", DynamicSparseMoE, [torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)])


def features_of_lengths():
    """Features that are no multiple of 64; gradients; an item of length 0; scaling when asked."""
    q, k, v = (x.requires_grad_() for x in torch.randn(3, 3, 2, 7, 5, dtype=torch.double).unbind())
    seqlens = torch.tensor([7, 0, 3])
    operator = SeqlenDynamicSparseAttention(global_mode=False, scale=None)
    inside = torch.arange(7) < seqlens[:, None]
    mask = (inside[:, :, None] & inside[:, None, :])[:, None]
    close(operator(q, k, v, seqlens), sparse_multi_head_attention_reference(q, k, v, mask))
    need(torch.autograd.gradcheck(lambda q, k, v: operator(q, k, v, seqlens), (q, k, v)), "gradcheck")
    refused(ValueError, "lengths", operator, q, k, v, torch.tensor([8, 0, 3]))
    refused(ValueError, "lengths", operator, q, k, v, torch.tensor([1.0, 0, 3]))
    refused(ValueError, "no lengths", operator, q, k, v)


def any_batch():
    """The batch and the number of rows are not frozen by building."""
    mask = block_mask((16, 24), (4, 4), 0.5)
    dense = torch.nn.Linear(24, 16)
    sparse = SparseLinear(dense, weight_mask=mask)
    sparse.build(sample_inputs=[torch.randn(8, 24)])
    product = SparseBatchMatMul(B_mask=mask.t(), compressed=False)
    for rows in (1, 3, 64):
        x = torch.randn(rows, 24)
        close(sparse(x), linear(x, dense.weight * mask, dense.bias))
        x = torch.randn(rows, 5, 24)
        close(product(x, dense.weight.t().expand(rows, -1, -1)), x @ (dense.weight * mask).t())


for height, width in ((64, 64), (32, 128), (128, 32), (64, 128), (128, 64), (128, 128), (256, 128)):
    tests.check(f"whole blocks of {height}x{width}", whole_blocks, height, width)
for block in ([1, 1], [4, 1], [8, 8], [3, 5], "dense"):
    tests.check(f"sizes that do not divide, {block}", odd_sizes, block)
for one in (example, helpers, empty_masks, turned_mask, regrowing, token_counts, features_of_lengths, any_batch):
    tests.check(one.__name__.replace("_", " "), one)
sys.exit(tests.finish())
