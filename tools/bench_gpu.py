"""Times block-sparse products on a GPU against torch's dense product (cuBLAS), torch's BSR (Triton) and 2:4 (cuSPARSELt): make bench-gpu.

    make bench-gpu GPU_ARGS="--out docs/benchmarks/gpu.md --commit abc1234"   everything, and the page
    make bench-gpu GPU_ARGS=--quick                                           few cases, half a minute
    make bench-gpu GPU_ARGS="--only decode"                                   rows whose name has the word
    make bench-gpu GPU_ARGS=--tune                                            BSR with the best of 8 settings too, at 90 % (ten seconds each)

Everything is fp16 in one process. A time is of the device: calls captured into a CUDA graph that takes about WINDOW ms, the median of TURNS * REPLAYS replays over the number of
calls. What is compared takes turns. Large products run into the chip's limit of power, and the clock that one leaves behind is not that of the next: a turn begins with ALONE
seconds of itself that nobody times. Weights for few tokens are copies that take turns, more than the L2 cache holds. A ratio is dense time over ours.
"""

import argparse
import datetime
import itertools
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tools")]

import cusparselt  # noqa: E402

from sparta import _operators as ops  # noqa: E402
from sparta import _reference  # noqa: E402
from sparta import _torch as door  # noqa: E402
from sparta._blocks import Blocks  # noqa: E402
from sparta.nn import SparseLinear  # noqa: E402

HALF = torch.float16
CUBE = [(n, n, n) for n in (8192, 4096)]
LEVELS = (0.8, 0.9, 0.95)


WINDOW, TURNS, REPLAYS, ALONE = 15, 3, 5, 0.15


def _captured(functions, calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for k in range(calls):
            functions[k % len(functions)]()
    return graph.replay


def _elapsed(run):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def _window(functions):
    """A function that runs these in turns for about WINDOW ms, and how many calls it makes; what cannot be captured is called."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for f in functions * 2:
            f()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    once = min(_elapsed(lambda: [f() for f in functions]) for _ in range(3)) / len(functions)
    calls = max(10, min(400, int(WINDOW * 1e3 / once)))
    calls += -calls % len(functions)
    try:
        return _captured(functions, calls), calls
    except Exception:
        torch.cuda.synchronize()
        return lambda: [functions[k % len(functions)]() for k in range(calls)], calls


def _windows(subjects):
    for subject in subjects:
        try:
            yield subject and _window(subject if isinstance(subject, list) else [subject])
        except Exception as error:
            print(f"{type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
            torch.cuda.synchronize()
            yield None


def _alone(window):
    end = time.perf_counter() + ALONE
    while time.perf_counter() < end:
        _elapsed(window)


def compete(*subjects):
    """Microseconds of one call of each subject, a function or several that take turns. None: it is None, or fails."""
    windows = list(_windows(subjects))
    taken = [[] for _ in windows]
    for _ in range(TURNS):
        for window, times_ in zip(windows, taken):
            if window:
                _alone(window[0])
                times_ += [_elapsed(window[0]) / window[1] for _ in range(REPLAYS)]
    return [statistics.median(t) if t else None for t in taken]


# ---------------------------------------------------------------- subjects
def numbers(*shape):
    return torch.randn(*shape, device="cuda", dtype=HALF) / 8


def blocks_of(rows, cols, block, sparsity):
    """As many blocks as the sparsity says, at random places."""
    down, right = rows // block, cols // block
    grid = torch.zeros(down * right, dtype=torch.bool, device="cuda")
    grid[torch.randperm(down * right, device="cuda")[: round(down * right * (1 - sparsity))]] = True
    grid = grid.view(down, right)
    pos = torch.zeros(down + 1, dtype=torch.int32, device="cuda")
    pos[1:] = grid.sum(-1).cumsum(0)
    return Blocks(pos, grid.nonzero()[:, 1].int(), None, (rows, cols), (block, block)).prepare()


def values_of(blocks):
    return numbers(blocks.crd.numel(), *blocks.block)


def bsr_of(blocks, values):
    return torch.sparse_bsr_tensor(blocks.pos, blocks.crd, values, blocks.shape)


def bsr_ways(bsr, x, tune):
    """torch's BSR: F.linear, and its Triton kernel called by itself, with the settings that torch has or with the best of some."""
    from torch.sparse._triton_ops import bsr_dense_addmm

    out = torch.empty(bsr.shape[0], x.shape[0], device="cuda", dtype=HALF)

    def kernel(meta=None):
        return lambda: bsr_dense_addmm(out, bsr, x.t(), beta=0, out=out, meta=meta)

    return [lambda: F.linear(x, bsr), kernel(), *([kernel(best)] if tune and (best := _tuned(kernel, x.shape[0])) else [])]


def _tuned(kernel, tokens):
    found = {}
    for (tile, warps), stages in itertools.product(((64, 4), (128, 4), (128, 8), (256, 8)), (2, 3)):
        if tokens % tile:
            continue
        meta = {"SPLIT_N": tokens // tile, "GROUP_SIZE_ROW": 4, "num_stages": stages, "num_warps": warps}
        try:
            run = kernel(meta)
            run()
            found[min(_elapsed(run) for _ in range(5))] = meta
        except Exception:
            torch.cuda.synchronize()
    return found[min(found)] if found else None


def least(times_):
    return min((t for t in times_ if t is not None), default=None)


def semi_way(weight, x):
    """2:4 by cuSPARSELt; None where torch has none."""
    try:
        from torch.sparse import SparseSemiStructuredTensor, to_sparse_semi_structured

        SparseSemiStructuredTensor._FORCE_CUTLASS = False
        sparse = to_sparse_semi_structured(weight)
        return lambda: F.linear(x, sparse)
    except Exception:
        return None


class NoDense:
    """Fails where torch's dense product runs in place of a kernel of ours."""

    def __enter__(self):
        self._pattern = _reference._pattern

        def fail(*_):
            raise RuntimeError("no kernel took it: the dense product ran")

        _reference._pattern = fail

    def __exit__(self, *_):
        _reference._pattern = self._pattern


# ---------------------------------------------------------------- the tables
class Page:
    def __init__(self, options):
        self.options, self.lines = options, []

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def table(self, title, *columns):
        self.say()
        self.say(f"### {title}")
        self.say()
        self.say("| " + " | ".join(columns) + " |")
        self.say("|" + "---|" * len(columns))

    def row(self, *cells):
        self.say("| " + " | ".join("-" if c is None else f"{c:.1f}" if isinstance(c, float) else str(c) for c in cells) + " |")

    def wants(self, *names):
        return not self.options.only or any(word in name for word in self.options.only for name in names)


def times(dense, ours):
    return f"**{dense / ours:.2f}x**" if dense and ours else None


def forward(page, cases):
    if not page.wants("forward"):
        return
    page.table("y = x w', us", "tokens x outputs x inputs", "block", "sparsity", "dense", "sparta", "ratio", "torch BSR", "its ratio")
    for (m, n, k), block, sparsity in cases:
        x, weight = numbers(m, k), numbers(n, k)
        blocks = blocks_of(n, k, block, sparsity)
        values = values_of(blocks)
        with torch.no_grad(), NoDense():
            bsr = [] if page.options.quick else bsr_ways(bsr_of(blocks, values), x, page.options.tune and sparsity == 0.9)
            dense, ours, *theirs = compete(lambda: F.linear(x, weight), lambda: door.linear(x, values, blocks), *bsr)
        page.row(f"{m} x {n} x {k}", f"{block}x{block}", f"{sparsity:.0%}", dense, ours, times(dense, ours), least(theirs), times(dense, least(theirs)))


def gradients(page, cases):
    if not page.wants("gradients"):
        return
    page.table("Gradients alone: dx = dy w, and that of the values, dw = dy' x at the blocks, us", "tokens x outputs x inputs", "block", "sparsity", "dense dx", "sparta",
               "ratio", "dense dw", "sparta", "ratio")
    for (m, n, k), block, sparsity in cases:
        x, dy, weight = numbers(m, k), numbers(m, n), numbers(n, k)
        blocks = blocks_of(n, k, block, sparsity)
        values = values_of(blocks)
        pattern, sizes = (blocks.pos, blocks.crd, None, blocks.index), blocks.sizes
        cells = []
        for theirs, ours in (
            (lambda: dy @ weight, lambda: ops.linear_turned(dy, values, *pattern, *sizes)),
            (lambda: dy.t() @ x, lambda: ops.sample(dy.t()[None], x.t()[None], *pattern, *sizes, 1, 1.0)),
        ):
            with torch.no_grad(), NoDense():
                dense, took = compete(theirs, ours)
            cells += [dense, took, times(dense, took)]
        page.row(f"{m} x {n} x {k}", f"{block}x{block}", f"{sparsity:.0%}", *cells)


def training(page, cases):
    """Forward and both gradients through the modules."""
    if not page.wants("training"):
        return
    page.table("A layer trains: y, dx, dw and db through the module, us", "tokens x outputs x inputs", "block", "sparsity", "nn.Linear", "SparseLinear", "ratio")
    for (m, n, k), block, sparsity in cases:
        dense = torch.nn.Linear(k, n, device="cuda", dtype=HALF)
        layer = SparseLinear(dense, weight_mask=blocks_of(n, k, block, sparsity).mask(), format=(block, block))
        x, dy = numbers(m, k).requires_grad_(), numbers(m, n)

        def both(module):
            return lambda: torch.autograd.grad(module(x), (x, *module.parameters()), dy)

        with NoDense():
            took = compete(both(dense), both(layer))
        page.row(f"{m} x {n} x {k}", f"{block}x{block}", f"{sparsity:.0%}", *took, times(*took))


def decode(page, cases):
    if not page.wants("decode"):
        return
    page.table("Few tokens, weights that are in no cache, us", "tokens x outputs x inputs", "block", "sparsity", "dense", "sparta", "ratio", "of the weight TB/s", "torch BSR", "its ratio")
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    for (m, n, k), block, sparsity in cases:
        x = numbers(m, k)
        weights = [numbers(n, k) for _ in range(2)]
        blocks = blocks_of(n, k, block, sparsity)
        bytes = blocks.crd.numel() * block * block * 2
        copies = [values_of(blocks) for _ in range(max(2, 4 * l2 // bytes + 1))]
        with torch.no_grad(), NoDense():
            bsr = [] if page.options.quick else list(zip(*(bsr_ways(bsr_of(blocks, v), x, False) for v in copies)))
            dense, ours, *theirs = compete(
                [lambda w=w: F.linear(x, w) for w in weights], [lambda v=v: door.linear(x, v, blocks) for v in copies], *(list(way) for way in bsr)
            )
        page.row(f"{m} x {n} x {k}", f"{block}x{block}", f"{sparsity:.0%}", dense, ours, times(dense, ours), f"{bytes / ours * 1e-6:.2f}" if ours else None, least(theirs),
                 times(dense, least(theirs)))


def unstructured(page, cases):
    """Few tokens by a weight without any structure; copies of the packed one take turns."""
    if not page.wants("unstructured", "decode"):
        return
    page.table("Few tokens by unstructured weights that are in no cache, us; packing once for each change of the weight", "tokens x outputs x inputs", "sparsity", "dense", "sparta", "ratio",
               "of the packed weight TB/s", "bytes of the dense one", "packing")
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    for (m, n, k), sparsity in cases:
        x, weights = numbers(m, k), [numbers(n, k) for _ in range(2)]
        weight = weights[0] * (torch.rand(n, k, device="cuda") >= sparsity)
        pairs = int(weight.view(n, k // 2, 2).any(-1).sum())
        packed = ops.bits_pack(weight, pairs)
        wrong = int(packed[-1]) or not torch.allclose(ops.bits_linear(x, packed, None, n, k).float(), F.linear(x, weight).float(), rtol=2e-2, atol=2e-2)
        if wrong:
            print(f"unstructured {m}x{n}x{k} {sparsity:.0%}: the answer is wrong", file=sys.stderr)
            continue
        bytes = packed.numel() * 4
        copies = [packed.clone() for _ in range(max(2, 4 * l2 // bytes + 1))]
        with torch.no_grad():
            dense, ours = compete([lambda w=w: F.linear(x, w) for w in weights], [lambda p=p: ops.bits_linear(x, p, None, n, k) for p in copies])
            (packing,) = compete(lambda: ops.bits_pack(weight, pairs))
        page.row(f"{m} x {n} x {k}", f"{sparsity:.0%}", dense, ours, times(dense, ours), f"{bytes / ours * 1e-6:.2f}" if ours else None, f"{bytes / (2 * n * k):.0%}", packing)


def half_way(weight, x):
    """The product with a packed weight, checked; it is packed once for each change."""
    packed = ops.half_pack(weight)
    if int(packed[-1]):
        raise RuntimeError("the weight is not 2:4")
    ours, wanted = ops.half_linear(x[:64], packed, None, *weight.shape), F.linear(x[:64].float(), weight.float())
    if float((ours.float() - wanted).abs().max()) > 1e-2 * float(wanted.abs().max()):
        raise RuntimeError("the answer is wrong")
    return lambda: ops.half_linear(x, packed, None, *weight.shape)


def searched_way(weight, x):
    """cuSPARSELt by its own functions with the algorithm that it finds fastest; None where it is not there, or fails."""
    try:
        theirs = cusparselt.Product(weight, x)
        got, wanted = theirs.multiply()[:64].float(), F.linear(x[:64].float(), weight.float())
        if float((got - wanted).abs().max()) > 1e-2 * float(wanted.abs().max()):
            raise RuntimeError("its answer is wrong")
        return theirs
    except Exception as error:
        print(f"cuSPARSELt {tuple(weight.shape)}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
        return None


def semi(page):
    if not page.wants("semi"):
        return
    page.table("2:4, and cuSPARSELt beside: by its own functions with the algorithm that its search finds, and by torch, us; packing once for each change of the weight",
               "tokens x outputs x inputs", "dense", "sparta", "ratio", "packing", "cuSPARSELt", "its ratio", "its packing", "by torch", "its ratio")
    for m, n, k in [*CUBE, (2048, 8192, 8192), (512, 8192, 8192), (4096, 3072, 768)]:
        x, weight = numbers(m, k), numbers(n, k)
        weight *= (torch.rand(n, k // 4, 4, device="cuda").argsort(-1).argsort(-1) < 2).view(n, k)
        with torch.no_grad():
            searched = searched_way(weight, x)
            dense, ours, found, theirs = compete(lambda: F.linear(x, weight), half_way(weight, x), searched and searched.multiply, semi_way(weight, x))
            packing, compressing = compete(lambda: ops.half_pack(weight), searched and searched.compress)
        page.row(f"{m} x {n} x {k}", dense, ours, times(dense, ours), packing, found, times(dense, found), compressing, theirs, times(dense, theirs))


def host(page):
    if not page.wants("host"):
        return
    page.table("Time of the host for one call, us: small layers, no gradients; with: forward only", "", "nn.Linear", "SparseLinear", "ratio")
    dense = torch.nn.Linear(512, 512, device="cuda", dtype=HALF)
    layer = SparseLinear(dense, weight_mask=blocks_of(512, 512, 64, 0.5).mask(), format=(64, 64))
    x = numbers(16, 512)
    for name, grad in (("no gradients", False), ("with gradients", True)):
        best = [float("inf")] * 2
        with torch.set_grad_enabled(grad):
            for _ in range(15):
                for k, module in enumerate((dense, layer)):
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    for _ in range(200):
                        module(x)
                    best[k] = min(best[k], (time.perf_counter() - begin) / 200 * 1e6)
        page.row(name, *best, f"{best[1] / best[0]:.2f} of it")


def masks(page):
    if not page.wants("masks"):
        return
    page.table("update_mask on the device, ms", "weight", "block", "time")
    layer = SparseLinear(torch.nn.Linear(8192, 8192, device="cuda", dtype=HALF), weight_mask=blocks_of(8192, 8192, 64, 0.9).mask(), format=(64, 64))
    given = [blocks_of(8192, 8192, 64, 0.9).mask() for _ in range(2)]
    took = []
    for k in range(12):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        layer.update_mask(given[k % 2])
        torch.cuda.synchronize()
        took.append((time.perf_counter() - begin) * 1e3)
    page.row("8192 x 8192", "64x64, 90%", f"{min(took):.2f}")


def head(page):
    facts = torch.cuda.get_device_properties(0)
    try:
        import pynvml  # type: ignore[import-not-found]

        pynvml.nvmlInit()
        driver = pynvml.nvmlSystemGetDriverVersion()
    except Exception:
        try:
            with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
                driver = next(word for word in file.readline().split() if word[0].isdigit())
        except (OSError, StopIteration):
            driver = "unknown"
    page.say("# Block-sparse products on the GPU")
    page.say()
    page.say("`make bench-gpu GPU_ARGS=\"--out docs/benchmarks/gpu.md\"` makes this page. Everything is fp16 with sums in f32, in one process; a time is of the device, by replay of a")
    page.say("CUDA graph of about 15 ms, the median of 15; what is compared takes turns, each after 0.15 s alone on the chip. A ratio is the time of torch's dense product (cuBLAS) over the other: above 1 it is faster.")
    page.say()
    page.say(f"{facts.name}, {facts.multi_processor_count} multiprocessors, driver {driver}, CUDA {torch.version.cuda}, torch {torch.__version__}, Python {sys.version.split()[0]}, "
             f"{datetime.date.today()}, commit {page.options.commit}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--commit", default="unknown")
    page = Page(options := parser.parse_args())
    if not torch.cuda.is_available():
        sys.exit(f"bench-gpu: torch {torch.__version__} sees no GPU")
    torch.manual_seed(0)
    head(page)
    large, small, two = CUBE[0], CUBE[1], (4096, 768, 3072)
    layer, few = (4096, 3072, 768), (16, 8192, 28672)
    if options.quick:
        forward(page, [(large, 128, 0.9), (large, 64, 0.9), (large, 32, 0.9), (two, 64, 0.9)])
        gradients(page, [(large, 64, 0.9)])
        training(page, [(large, 64, 0.9)])
        decode(page, [(few, 64, 0.9)])
    else:
        squares = [(large, block, level) for block in (128, 64, 32) for level in LEVELS] + [(large, 16, 0.9), (large, 16, 0.95)]
        others = [(small, block, 0.9) for block in (128, 64, 32)] + [(small, 64, 0.8), (small, 64, 0.95), (two, 64, 0.9), (layer, 64, 0.9)]
        forward(page, squares + others)
        gradients(page, [*((large, block, 0.9) for block in (128, 64, 32, 16)), (large, 64, 0.8), (large, 64, 0.95), (small, 64, 0.9), (two, 64, 0.9), (layer, 64, 0.9)])
        training(page, [(large, 128, 0.9), (large, 64, 0.9), (small, 64, 0.9), (two, 64, 0.9)])
        decode(page, [*((few, 64, level) for level in LEVELS), (few, 128, 0.9), (few, 32, 0.9)])
        unstructured(page, [*((few, level) for level in (0.5, 0.7, 0.8, 0.9)), *(((m, *few[1:]), 0.7) for m in (1, 64)), ((16, 4096, 4096), 0.7)])
        semi(page)
    host(page)
    masks(page)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("\n".join(page.lines) + "\n")


if __name__ == "__main__":
    main()
