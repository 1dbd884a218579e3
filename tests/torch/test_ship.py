"""torch.export of modules of sparta.nn: the operator stays in the graph, is saved, loaded and decomposed with it, and runs in an AOTInductor package; meta and
fake tensors, vmap, inference_mode; batches whose size is open."""

import io
import logging
import os
import sys
import warnings

import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from common import NotRun, Tests, need

import sparta  # common.py says where it is
import sparta.nn
import sparta.testing

tests = Tests()
os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tests.work.name
torch.manual_seed(0)
warnings.simplefilter("ignore")
logging.getLogger("torch").setLevel(logging.ERROR)
mask = sparta.testing.block_mask


def heads():
    return tuple(torch.randn(3, 2, 32, 16) for _ in range(3))


# Module, arguments whose first dimension is open, and the operators that it leaves in a graph.
MODULES = {
    "linear": (sparta.nn.SparseLinear(nn.Linear(64, 32), pattern="4x1:0.75"), (torch.randn(6, 64),), {"linear"}),
    "linear, no bias": (sparta.nn.SparseLinear(nn.Linear(64, 32, bias=False), pattern="1x1:0.9"), (torch.randn(6, 5, 64),), {"linear"}),
    "linear, held dense": (sparta.nn.SparseLinear(nn.Linear(64, 32), pattern="1x1:0.3"), (torch.randn(6, 64),), set()),
    "linear, sparse input": (sparta.nn.SparseLinear(nn.Linear(64, 32), input_mask=mask((6, 64), sparsity=0.8)), (torch.randn(3, 6, 64),), {"multiply"}),
    "linear, sparse output": (sparta.nn.SparseLinear(nn.Linear(64, 32), output_mask=mask((6, 32), sparsity=0.8)), (torch.randn(3, 6, 64),), {"sample"}),
    "convolution of 1x1": (sparta.nn.SparseConv2d(nn.Conv2d(16, 32, 1), pattern="4x1:0.75"), (torch.randn(3, 16, 8, 8),), {"multiply"}),
    "convolution of 3x3": (sparta.nn.SparseConv2d(nn.Conv2d(16, 32, 3), pattern="4x1:0.75"), (torch.randn(3, 16, 8, 8),), set()),
    "embedding": (sparta.nn.SparseEmbedding(nn.Embedding(50, 32), weight_mask=mask((50, 32), sparsity=0.5)), (torch.arange(12).view(3, 4),), set()),
    "batched product": (
        sparta.nn.SparseBatchMatMul(A_mask=mask((32, 64), sparsity=0.8), compressed=False),
        (torch.randn(3, 32, 64), torch.randn(3, 64, 16)),
        {"multiply"},
    ),
    "sampled product": (
        sparta.nn.SparseBatchMatMul(C_mask=mask((32, 24), sparsity=0.8), compressed=False),
        (torch.randn(3, 32, 64), torch.randn(3, 64, 24)),
        {"sample"},
    ),
    "softmax": (sparta.nn.SparseSoftmax(mask((32, 64), sparsity=0.8)), (torch.randn(3, 32, 64),), {"softmax"}),
    "attention": (sparta.nn.SparseAttention(mask((32, 32), block=(4, 4), sparsity=0.7)), heads(), {"sample", "softmax", "multiply"}),
}


def ours(program):
    """The operators of ours in a graph."""
    return {str(node.target).split(".")[1].removesuffix("_run") for node in program.graph.nodes if str(node.target).startswith("sparta.")}


def same(got, want, what, atol=1e-5):
    need(got.shape == want.shape and torch.allclose(got, want, atol=atol), f"{what} differs")


def exported(module, x, operators):
    module = module.eval()
    batch = torch.export.Dim("batch", max=64)
    program = torch.export.export(module, x, dynamic_shapes=tuple({0: batch} for _ in x))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    more = tuple(torch.cat([t, t]) for t in x)
    for what, form in {"exported": program, "loaded": torch.export.load(file), "decomposed": program.run_decompositions()}.items():
        need(ours(form) == operators, f"{what} has {ours(form)}")
        same(form.module()(*x), module(*x), what)
        same(form.module()(*more), module(*more), f"{what}, another size,")


def elsewhere(module, x, operators):
    module = module.eval()
    with torch.no_grad():
        want = module(*x)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            need(module(*map(mode.from_tensor, x)).shape == want.shape, "fake tensors")
        several = tuple(torch.stack([torch.zeros_like(t), t]) for t in x)
        same(torch.vmap(module)(*several)[1], want, "vmap")
    with torch.inference_mode():
        same(module(*x), want, "inference_mode")
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    there = torch.load(file, weights_only=False).to("meta")
    need(there(*(t.to("meta") for t in x)).shape == want.shape, "meta tensors")


def packages():
    """An AOTInductor package with our operator inside; skipped where one of a plain layer does not work either."""
    x = torch.randn(6, 64)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), sparta.nn.SparseLinear(nn.Linear(64, 32), pattern="4x1:0.75")).eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    made = {}
    for what, module in {"plain": nn.Linear(64, 8).eval(), "ours": model}.items():
        program = torch.export.export(module, (x,), dynamic_shapes=({0: batch},))
        try:
            path = torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(tests.work.name, f"{what}.pt2"))
            made[what] = torch._inductor.aoti_load_package(path)
        except Exception as error:
            if what == "plain":
                raise NotRun(f"torch makes no such package here ({str(error).splitlines()[0][:80]})") from None
            raise
    for tokens in (6, 33):
        x = torch.randn(tokens, 64)
        with torch.no_grad():
            same(made["ours"](x), model(x), f"{tokens} tokens")


for name, arguments in MODULES.items():
    tests.check(f"torch.export: {name}", exported, *arguments)
    tests.check(f"meta, fake, vmap, inference_mode: {name}", elsewhere, *arguments)
tests.check("AOTInductor package", packages)
sys.exit(tests.finish())
