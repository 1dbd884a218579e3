#!/usr/bin/env python3
"""Times the functions of room sparse (sparta_blocks_* of sparta.h) against torch's dense and sparse products.

    OMP_NUM_THREADS=2 PYTHONPATH=python python tools/bench_sparse.py [--only linear] [--seconds 1]
    SPARTA_TARGET=avx2 ...                                             the kernels of a lower target (torch: ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA)

Each line alternates short windows of all its contenders and prints the best of each: other jobs share the machine. sparta's calls are shared by the
threads of torch's own OpenMP, so that two pools do not wait against each other. Needs a C compiler for that (four lines).
"""

import argparse
import ctypes
import glob
import os
import subprocess
import tempfile
import time

import torch

from sparta import _library as sparta
from sparta._blocks import Blocks

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64", torch.int32: "I32", torch.bool: "BOOL"}
TEAM = """
void parallel_for(void *host, int n, void (*fn)(void *, int), void *arg)
{
    (void)host;
#pragma omp parallel for schedule(static, 1) num_threads(n)
    for (int i = 0; i < n; i++) fn(arg, i);
}
"""


def team():
    """The address of a parallel_for on the OpenMP that torch has loaded."""
    folder = tempfile.mkdtemp()
    with open(folder + "/team.c", "w") as file:
        file.write(TEAM)
    subprocess.check_call(["cc", "-O2", "-fPIC", "-fopenmp", "-c", folder + "/team.c", "-o", folder + "/team.o"])
    subprocess.check_call(["cc", "-shared", folder + "/team.o", "-o", folder + "/team.so"])  # OpenMP stays undefined: torch's is loaded
    site = os.path.dirname(os.path.dirname(torch.__file__))
    for path in glob.glob(site + "/torch/lib/libgomp*") + glob.glob(site + "/torch.libs/libgomp*"):
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(folder + "/team.so").parallel_for


def tensor(t):
    s = sparta.types["sparta_tensor"]()
    if t is not None:
        s.dtype, s.rank, s.data = getattr(sparta.header.sparta_dtype, DTYPES[t.dtype]), t.dim(), t.data_ptr()
        s.dim[: t.dim()], s.stride[: t.dim()] = t.shape, t.stride()
    return s


class Calls:
    """Calls with everything made beforehand, so that what is timed is C."""

    def __init__(self, blocks, values, threads):
        self.keep = [blocks, values]
        batch = values.shape[0] if values.dim() == 4 else blocks.patterns
        self.s = sparta.new(
            "sparta_blocks", rows=blocks.shape[0], cols=blocks.shape[1], height=blocks.block[0], width=blocks.block[1], batch=batch,
            patterns=blocks.patterns, pos=tensor(blocks.pos), crd=tensor(blocks.crd), keep=tensor(blocks.keep), values=tensor(values),
        )
        self.threads, self.message = threads, ctypes.create_string_buffer(300)

    def bind(self, verb, function, *arguments, x=None, y=None):
        launch = sparta.new("sparta_launch", threads=self.threads)
        launch.parallel_for = ctypes.cast(TEAM_ADDRESS, type(launch.parallel_for))
        launch.workspace_bytes = sparta.lib.sparta_blocks_workspace(verb, self.s, x, y, launch)
        room = torch.empty(launch.workspace_bytes, dtype=torch.uint8)
        launch.workspace = room.data_ptr()
        self.keep += [room, launch, arguments]

        def call():
            if getattr(sparta.lib, function)(self.s, *arguments, launch, self.message, 300):
                raise RuntimeError(self.message.value.decode())

        return call

    def multiply(self, x, out, turned=0, bias=None):
        b = tensor(bias)
        options = sparta.new("sparta_multiply_options", turned=turned, bias=ctypes.pointer(b) if bias is not None else None)
        self.keep += [x, out, bias, b]
        x, out = tensor(x), tensor(out)
        return self.bind(turned, "sparta_blocks_multiply", x, out, options, x=x, y=out)

    def sample(self, a, c, scale=1.0):
        self.keep += [a, c]
        a, c = tensor(a), tensor(c)
        return self.bind(2, "sparta_blocks_sample", a, c, scale, x=a, y=c)

    def softmax(self, out, scale):
        self.keep += [out]
        return self.bind(3, "sparta_blocks_softmax", scale, tensor(out))

    def gradient(self, gradient, out, scale):
        self.keep += [gradient, out]
        return self.bind(4, "sparta_blocks_softmax_gradient", scale, tensor(gradient), tensor(out))


def best(contenders, seconds):
    """name -> milliseconds: the best window of each, alternating."""
    result = {name: float("inf") for name in contenders}
    calls = {}
    for name, call in contenders.items():
        call()
        begin = time.perf_counter()
        call()
        calls[name] = max(1, int(0.003 / (time.perf_counter() - begin + 1e-9)))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in contenders.items():
            begin = time.perf_counter()
            for _ in range(calls[name]):
                call()
            result[name] = min(result[name], (time.perf_counter() - begin) / calls[name] * 1e3)
    return result


def show(title, times, base):
    print(f"{title:44}" + "".join(f"  {n} {t:.3f}" + (f" ({times[base] / t:.2f}x)" if n != base else "") for n, t in times.items()), flush=True)


def mask_of(rows, cols, block, density):
    down, right = -(-rows // block[0]), -(-cols // block[1])
    there = torch.rand(down, right) < density
    return there.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)[:rows, :cols]


def linear(tokens, cols, rows, block, density, dtype, args):
    mask = mask_of(rows, cols, block, density)
    weight = (torch.randn(rows, cols) / cols**0.5 * mask).to(dtype)
    blocks = Blocks.from_mask(mask, block)
    values = blocks.pack(weight).contiguous()
    x, dy, bias = torch.randn(tokens, cols).to(dtype), torch.randn(tokens, rows).to(dtype), torch.randn(rows).to(dtype)
    y, dx, dv = torch.empty(tokens, rows, dtype=dtype), torch.empty(tokens, cols, dtype=dtype), torch.empty_like(values)[None]
    calls, gradient = Calls(blocks, values, args.threads), Calls(blocks, dv, args.threads)
    forward = calls.multiply(x.t()[None], y.t()[None], bias=bias)
    back = calls.multiply(dy.t()[None], dx.t()[None], turned=1)
    sample = gradient.sample(dy.t()[None], x.t()[None])
    with torch.no_grad():
        dense = lambda: torch.nn.functional.linear(x, weight, bias)
        contenders = {"dense": dense, "sparta": forward}
        if args.peers and dtype == torch.float32:
            csr = weight.to_sparse_csr()
            contenders["csr"] = lambda: torch.addmm(bias[:, None], csr, x.t())
            if block[0] == block[1] and block[0] > 1:
                bsr = weight.to_sparse_bsr(block)
                contenders["bsr"] = lambda: torch.nn.functional.linear(x, bsr, bias)
        forward()
        error = (y.float() - dense().float()).abs().max().item()
        assert error < (1e-3 if dtype == torch.float32 else 0.2), error
        name = f"{tokens}x{cols}x{rows} {block[0]}x{block[1]} {100 - density * 100:.0f} % {str(dtype)[6:]}"
        show(name, best(contenders, args.seconds), "dense")
        if args.forward:
            return
        times = best({"dense dx": lambda: dy @ weight, "dense dW": lambda: dy.t() @ x, "dx": back, "dW": sample}, args.seconds)
        times["total"], times["dense both"] = times["dx"] + times["dW"], times["dense dx"] + times["dense dW"]
        show("    gradients", times, "dense both")
        whole = {"dense": lambda: (dense(), dy @ weight, dy.t() @ x), "sparta": lambda: (forward(), back(), sample())}
        show("    all three", best(whole, args.seconds), "dense")


def attention(tokens, heads, features, block, density, dtype, args):
    mask = mask_of(tokens, tokens, (block, block), density)
    blocks = Blocks.from_mask(mask, (block, block))
    new = lambda: torch.randn(heads, tokens, features).to(dtype)
    q, k, v, do = new(), new(), new(), new()
    out, dq, dk, dv = new(), new(), new(), new()
    n, scale = blocks.crd.numel(), features**-0.5
    p, ds = torch.empty(heads, n, block, block, dtype=dtype), torch.empty(heads, n, block, block, dtype=dtype)
    of_p, of_ds = Calls(blocks, p, args.threads), Calls(blocks, ds, args.threads)
    forward = [of_p.sample(q, k), of_p.softmax(p, scale), of_p.multiply(v, out)]
    backward = [
        of_p.multiply(do, dv, turned=1), of_ds.sample(do, v), of_p.gradient(ds, ds, scale), of_ds.multiply(k, dq), of_ds.multiply(q, dk, turned=1),
    ]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    name = f"attention {heads}x{tokens}x{features} block {block} {100 - density * 100:.0f} % {str(dtype)[6:]}"
    run = lambda calls: [c() for c in calls]
    show(name, best({"sdpa": lambda: sdpa(q[None], k[None], v[None]), "sparta": lambda: run(forward)}, args.seconds), "sdpa")
    parts = dict(zip(("qk", "softmax", "pv", "dv", "dp", "dsoftmax", "dq", "dk"), forward + backward))
    show("    parts", best(parts, args.seconds), "qk")
    if not args.forward:
        qg, kg, vg = (t[None].detach().requires_grad_() for t in (q, k, v))

        def dense():
            sdpa(qg, kg, vg).backward(do[None])
            qg.grad = kg.grad = vg.grad = None

        show("    with gradients", best({"sdpa": dense, "sparta": lambda: run(forward + backward)}, 2 * args.seconds), "sdpa")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="linear, few or attention")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each comparison")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--peers", action="store_true", help="torch's csr and bsr too")
    parser.add_argument("--forward", action="store_true", help="no gradients")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--blocks", default="4x1,1x1,32x32")
    args = parser.parse_args()
    TEAM_ADDRESS = team()
    torch.manual_seed(0)
    dtype = getattr(torch, args.dtype)
    sizes = [tuple(map(int, b.split("x"))) for b in args.blocks.split(",")]
    if args.only in ("", "linear"):
        for shape in ((384, 1024, 1024), (1024, 768, 3072)):
            for block in sizes:
                linear(*shape, block, 0.1, dtype, args)
    if args.only in ("", "few"):
        for tokens in (1, 4, 16, 32, 100):
            for block in sizes:
                linear(tokens, 1024, 1024, block, 0.1, dtype, args)
    if args.only in ("", "attention"):
        attention(4096, 8, 64, 64, 0.05, dtype, args)
