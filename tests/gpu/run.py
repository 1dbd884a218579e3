"""The same on a GPU: kernels through the C interface against float64, then torch around them (make test-gpu).

    make test-gpu                                 everything, by as many processes as there are cores: most of its time is NVRTC's
    make test-gpu GPU_ARGS="--only training"      sections whose name has the word
    make test-gpu-sanitize                        every kernel once under compute-sanitizer
"""

import copy
import ctypes
import io
import json
import os
import pickle
import shutil
import subprocess
import tempfile
import threading

from common import *  # noqa: F403
from common import _DTYPE as DTYPES
from common import _said as said

import numpy

import sparta
import sparta.dynamo
from sparta import _operators as ops
from sparta import _torch as door
from sparta.nn import SparseLinear

tests = Tests()
BLOCKS = [(16, 16), (32, 32), (64, 64), (128, 128), (256, 256), (128, 64), (64, 32), (32, 64), (64, 128), (192, 64)]
TOKENS = [0, 1, 7, 64, 65, 300]
if options.small:
    BLOCKS, TOKENS = [(16, 16), (32, 32), (64, 64), (128, 128), (64, 32)], [1, 7, 65]
SHAPES = {  # of blocks (h, w): rows, cols, and how the pattern is made; the step of lines that TMA needs
    "even": lambda h, w: (3 * h, 4 * w, {}),
    "past the edge": lambda h, w: (3 * h - 5, 4 * w - 3, {}),
    "one row": lambda h, w: (h, 5 * w, {}),
    "one block": lambda h, w: (h, w, {"density": 1}),
    "empty rows": lambda h, w: (6 * h, 3 * w, {"kept_rows": lambda r: r % 3 == 1}),
    "all": lambda h, w: (2 * h, 3 * w, {"density": 1}),
    "none": lambda h, w: (2 * h, 2 * w, {"density": 0}),
    "kept in part": lambda h, w: (2 * h, 3 * w, {"ragged": True}),
}


def of_shape(name, block):
    rows, cols, how = SHAPES[name](*block)
    return pattern(rows, cols, block, **how)


# ---------------------------------------------------------------- the index
def strips(pos, crd, side, depth, lines, cross, at):
    """index.h in plain Python: (count, item, steps of each strip), and the word after this side."""
    parts = 1 if side >= 64 else 64 // side
    n = -(-lines // parts)
    per = max(256 // depth, 1)
    found = [dict() for _ in range(n)]
    for line in range(lines):
        for block in range(pos[line], pos[line + 1]):
            found[line // parts].setdefault(crd[block], [-1] * parts)[line % parts] = block
    steps = [[[k, *which, *[0] * (parts - 1)] for k, which in sorted(f.items())] for f in found]
    count = [len(s) for s in steps]
    item = [0]
    for c in count:
        item.append(item[-1] + -(-c // per))
    begin = (at + 3 * n + 1 + 7) & ~7
    return n, parts, count, item, steps, begin, (begin + n * cross * 2 * parts + 7) & ~7


def turned(pos, crd, lines, cross):
    """pos and crd of the columns, and which block each is."""
    entries = sorted((crd[b], line, b) for line in range(lines) for b in range(pos[line], pos[line + 1]))
    begin, rows, which = [0] * (cross + 1), [e[1] for e in entries], [e[2] for e in entries]
    for column, _, _ in entries:
        begin[column + 1] += 1
    return list(numpy.cumsum(begin)), rows, which


def same_index(blocks):
    words = make_index(blocks).cpu().tolist()
    pos, crd = blocks.pos.tolist(), blocks.crd.tolist()
    (h, w), (down, right) = blocks.block, blocks.grid
    across = strips(pos, crd, h, w, down, right, 8)
    tpos, tcrd, which = turned(pos, crd, down, right)
    back = strips(tpos, tcrd, w, h, right, down, across[-1])
    need(len(words) == back[-1], f"{len(words)} words, not {back[-1]}")
    need(words[:4] == [0x53504958, 0, across[0], back[0]], f"head {words[:8]}")
    for side, name, names, at, cross in ((across, "across", None, 8, right), (back, "turned", which, across[-1], down)):
        n, parts, count, item, steps, begin, _ = side
        need(words[at : at + n] == count, f"{name}: count")
        order = words[at + n : at + 2 * n]
        need(sorted(order) == list(range(n)) and all(count[a] >= count[b] for a, b in zip(order, order[1:])), f"{name}: order {order[:8]}")
        need(words[at + 2 * n : at + 3 * n + 1] == item, f"{name}: item")
        for strip in range(n):
            for k, step in enumerate(steps[strip]):
                place = begin + (strip * cross + k) * 2 * parts
                want = [step[0], *(b if b < 0 or names is None else names[b] for b in step[1 : 1 + parts]), *step[1 + parts :]]
                need(words[place : place + 2 * parts] == want, f"{name}: strip {strip} step {k} is {words[place : place + 2 * parts]}, not {want}")


def index():
    for block in BLOCKS:
        for shape in SHAPES:
            tests.check(f"{block} {shape}", same_index, of_shape(shape, block))
    tests.check("large", same_index, pattern(2048, 4096, (16, 16), 0.1))
    wrong = pattern(256, 256, (64, 64), 0.7)

    def bad():
        for pos, crd in ((wrong.pos, wrong.crd + 3), (wrong.pos.flip(0), wrong.crd), (wrong.pos, wrong.crd.flip(0)), (wrong.pos * 0, wrong.crd), (wrong.pos, wrong.crd - 9)):
            broken = Blocks(pos.contiguous(), crd.contiguous(), None, wrong.shape, wrong.block)
            refused(ValueError, "no pattern", broken.prepare)

    tests.check("wrong pos and crd are said", bad)
    need(not make_index(pattern(64, 64, (4, 1))).numel(), "an index of 4x1")


# ---------------------------------------------------------------- products, samples, epilogues
def cases(run):
    """Every kind x block x shape x tokens. A call that is refused for its strides alone is counted; with lines apart it must run."""
    refusals = []
    for kind in KINDS:
        for block in BLOCKS:
            for shape in SHAPES:
                blocks = of_shape(shape, block)
                prepared = make_index(blocks) if DEVICE == "cuda" else None
                for tokens in TOKENS:
                    for step in (0, 8) if shape == "past the edge" else (0,):
                        given = prepared if tokens != 7 else None  # without, the call makes it
                        tests.check(f"{kind} {block} {shape} {tokens} tokens", _unless_refused, refusals, run, kind, blocks, tokens, step, given)
    wait()
    print(f"  {len(refusals)} refused for odd strides, which torch runs dense")


def _unless_refused(refusals, run, kind, blocks, tokens, step, prepared):
    try:
        run(kind, blocks, tokens, step, prepared)
    except Refused as error:
        if error.status != E_UNSUPPORTED or not any(size % 8 for size in blocks.shape) or step:
            raise AssertionError(str(error)) from None
        refusals.append(error)


def _apart(features, step):
    return features if not step else -(-features // step) * step


def products():
    def run(kind, blocks, tokens, step, prepared):
        dtype = KINDS[kind][0]
        values = values_of(blocks, dtype)
        for turn in (False, True):
            features = blocks.shape[0 if turn else 1]
            check_product(blocks, values, stepped(tokens, features, dtype, _apart(features, step)), turn, kind, index=prepared)

    cases(run)


def samples():
    def run(kind, blocks, tokens, step, prepared):
        dtype = KINDS[kind][0]
        a, c = (stepped(tokens, size, dtype, _apart(size, step)) for size in blocks.shape)
        check_sample(blocks, a, c, kind, index=prepared)

    cases(run)


WORDS = ["", "bias", "add", "mul", "bias relu", "bias gelu", "bias gelu_tanh", "bias silu add", "bias add relu", "tanh", "sigmoid mul", "bias quick_gelu add"]


def epilogues():
    def run(kind, block, turn, text, tokens):
        dtype = KINDS[kind][0]
        blocks = pattern(3 * block[0], 4 * block[1], block)
        values, features = values_of(blocks, dtype), blocks.shape[0 if turn else 1]
        made = blocks.shape[1 if turn else 0]
        x, bias, residual = numbers_of(tokens, features, dtype=dtype) / 8, numbers_of(made, dtype=dtype), numbers_of(tokens, made, dtype=dtype)
        y = multiply(blocks, values, x, turn, KINDS[kind][1], make_index(blocks) if DEVICE == "cuda" else None, text,
                     bias if "bias" in text else None, residual if "add" in text or "mul" in text else None)
        dense = blocks.unpack(values.double())
        dense = dense.t() if turn else dense
        sums, terms = x.double() @ dense.t(), x.double().abs() @ dense.abs().t() + bias.double().abs()
        want = epilogue_of(text, sums, bias.double(), residual.double())
        # No word is steeper than 1.2; a factor multiplies the error.
        bound = product_bound(kind, dense.shape[1], terms, want) * 1.2 * (residual.double().abs().clamp(min=1) if "mul" in text else 1)
        within(y, want, bound + KINDS[kind][2] * want.abs() + 1e-6)

    for kind in KINDS:
        for block in [(64, 64), (32, 32)] if not options.small else [(64, 64)]:
            for turn in (False, True):
                for text in WORDS:
                    for tokens in (7, 300) if not options.small else (7,):
                        tests.check(f"{kind} {block} {'turned ' * turn}{text!r} {tokens} tokens", run, kind, block, turn, text, tokens)


# ---------------------------------------------------------------- what cuBLASLt does
ODD = [(4, 1), (1, 1), (8, 8), (5, 3), (48, 16), (1, 24)]


def dense():
    """Row dense: blocks that no kernel takes, and full ones. Without cuBLASLt there is no such row, and one check that says so."""
    small = pattern(64, 64, (4, 1))
    try:
        multiply(small, values_of(small, torch.float16), numbers_of(8, 64, dtype=torch.float16), own=0)
    except Refused as error:
        tests.check("without cuBLASLt", lambda: need("others need cuBLASLt" in str(error), str(error)))
        return
    for kind in KINDS:
        for block in ODD if not options.small else ODD[:4]:
            for shape in SHAPES:
                for tokens in (0, 1, 7, 65, 300) if not options.small else (7, 65):
                    tests.check(f"{kind} {block} {shape} {tokens} tokens", odd_blocks, kind, block, shape, tokens)
            for text in WORDS:
                tests.check(f"{kind} {block} {text!r}", odd_words, kind, block, text)
    for kind in ("f16", "bf16"):
        for block in (16, 32, 64, 128):
            tests.check(f"{kind} {block} full", full_blocks, kind, block)
    tests.check("the same bits", odd_bits)
    tests.check("a CUDA graph", odd_graph)
    tests.check("streams and threads", odd_streams)
    tests.check("NaN passes relu", odd_nan)
    tests.check("pos and crd of garbage", odd_garbage)
    tests.check("own kernels alone refuse", odd_own)
    tests.check("times", dense_times)


def odd_blocks(kind, block, shape, tokens):
    several = block if shape == "one block" else tuple(side * -(-8 // side) for side in block)  # small blocks make small matrices
    rows, cols, how = SHAPES[shape](*several)
    blocks, dtype = pattern(rows, cols, block, **how), KINDS[kind][0]
    values = values_of(blocks, dtype)
    for step in (0, 8):
        for turn in (False, True):
            features = blocks.shape[0 if turn else 1]
            check_product(blocks, values, stepped(tokens, features, dtype, _apart(features, step)), turn, kind, own=0)
        a, c = (stepped(tokens, size, dtype, _apart(size, step)) for size in blocks.shape)
        check_sample(blocks, a, c, kind, own=0)


def odd_words(kind, block, text):
    dtype, tokens = KINDS[kind][0], 33
    blocks = pattern(12 * block[0], 16 * block[1], block)
    values, bias = values_of(blocks, dtype), numbers_of(blocks.shape[0], dtype=dtype)
    x, residual = numbers_of(tokens, blocks.shape[1], dtype=dtype) / 8, numbers_of(tokens, blocks.shape[0], dtype=dtype)
    y = multiply(blocks, values, x, False, KINDS[kind][1], None, text, bias if "bias" in text else None,
                 residual if "add" in text or "mul" in text else None, own=0)
    wide = blocks.unpack(values.double())
    sums, terms = x.double() @ wide.t(), x.double().abs() @ wide.abs().t() + bias.double().abs()
    want = epilogue_of(text, sums, bias.double(), residual.double())
    bound = product_bound(kind, wide.shape[1], terms, want) * 1.2 * (residual.double().abs().clamp(min=1) if "mul" in text else 1)
    within(y, want, bound + KINDS[kind][2] * want.abs() + 1e-6)


def full_blocks(kind, block):
    """Full enough for cuBLASLt, with blocks past the edge and elements that do not exist."""
    dtype = KINDS[kind][0]
    for shape in ("all", "past the edge", "kept in part"):
        rows, cols, _ = SHAPES[shape](block, block)
        blocks = pattern(rows, cols, (block, block), 1, ragged=shape == "kept in part")
        values, made = values_of(blocks, dtype), make_index(blocks)
        x, dy = stepped(4096, cols, dtype, _apart(cols, 8)), stepped(4096, rows, dtype, _apart(rows, 8))
        check_product(blocks, values, x, False, kind, index=made, own=0)
        check_product(blocks, values, dy, True, kind, index=made, own=0)
        check_sample(blocks, dy, x, kind, index=made, own=0)


def odd_bits():
    for kind in KINDS:
        for tokens in (16, 700, 4096):
            blocks, dtype = pattern(1024, 2048, (4, 1), 0.2), KINDS[kind][0]
            values, x, dy = values_of(blocks, dtype), numbers_of(tokens, 2048, dtype=dtype), numbers_of(tokens, 1024, dtype=dtype)
            for call in (lambda: multiply(blocks, values, x, tf32=KINDS[kind][1], own=0), lambda: multiply(blocks, values, dy, True, KINDS[kind][1], own=0),
                         lambda: sample(blocks, dy, x, tf32=KINDS[kind][1], own=0)):
                first = call()
                need(all(torch.equal(first, call()) for _ in range(4)), f"{kind} {tokens}: bits differ")


def odd_graph():
    """Captured at once: a shape that nothing was planned for."""
    blocks = pattern(1000, 1096, (4, 1), 0.3)
    values, x = values_of(blocks, torch.float16), numbers_of(77, 1096, dtype=torch.float16)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = multiply(blocks, values, x, epilogue="relu", own=0)
    for _ in range(2):
        x.copy_(torch.randn_like(x))
        values.mul_(0.5)
        captured.replay()
        need(torch.equal(y, multiply(blocks, values, x, epilogue="relu", own=0)), "another answer")


def odd_streams():
    blocks, failed = pattern(1024, 1024, (4, 1), 0.3), []
    values, x = values_of(blocks, torch.float16), numbers_of(300, 1024, dtype=torch.float16)
    want = multiply(blocks, values, x, own=0)
    torch.cuda.synchronize()

    def work():
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    need(torch.equal(multiply(blocks, values, x, own=0), want), "another answer")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    need(not failed, failed)


def odd_nan():
    blocks = pattern(64, 64, (4, 1), 1)
    x = numbers_of(8, 64)
    x[3, 5] = float("nan")
    y = multiply(blocks, values_of(blocks), x, epilogue="relu", own=0)
    need(bool(y[3].isnan().all()) and not bool(y[:3].isnan().any()), "NaN is lost, or spread")


def odd_garbage():
    for block in ((4, 1), (5, 3), (8, 8)):
        blocks = pattern(512, 768, block, 0.4)
        values, x, dy = values_of(blocks, torch.float16), numbers_of(100, 768, dtype=torch.float16), numbers_of(100, 512, dtype=torch.float16)
        for name in ("pos", "crd"):
            broken = copy.copy(blocks)
            setattr(broken, name, torch.randint(-(2**31), 2**31 - 1, getattr(blocks, name).shape, device=DEVICE).int())
            multiply(broken, values, x, own=0)
            sample(broken, dy, x, own=0)
            torch.cuda.synchronize()
        check_product(blocks, values, x, False, "f16", own=0)


def odd_own():
    blocks = pattern(64, 64, (4, 1))
    error = refused(Refused, "no GPU kernel takes blocks of 4x1", multiply, blocks, values_of(blocks, torch.float16), numbers_of(8, 64, dtype=torch.float16))
    need(error.status == E_UNSUPPORTED, error.status)


def replayed(call, calls=4, replays=7):
    """Seconds of a call: the median of replays of a graph."""
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(calls):
            call()
    found = []
    for _ in range(replays):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        captured.replay()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e-3 / calls)
    return sorted(found)[replays // 2]


def dense_times():
    """Where the rule of dense.c lies: kernels of ours by share, row dense when nothing is absent, cuBLAS alone. Reported, not judged."""
    if options.small:
        return None
    for size in (4096, 8192):
        x, dy, w = (numbers_of(size, size, dtype=torch.float16) for _ in range(3))
        alone = replayed(lambda: torch.nn.functional.linear(x, w))
        for block in (128, 64, 32, 16):
            blocks = pattern(size, size, (block, block), 1)
            values, made = values_of(blocks, torch.float16), make_index(blocks)
            full = [replayed(lambda: multiply(blocks, values, x, index=made, own=0)), replayed(lambda: multiply(blocks, values, dy, True, index=made, own=0)),
                    replayed(lambda: sample(blocks, dy, x, index=made, own=0))]
            ours = []
            for share in {128: (0.7, 0.8, 0.9, 1), 64: (0.5, 0.6, 0.7, 0.8), 32: (0.2, 0.3, 0.4, 0.5), 16: (0.05, 0.1, 0.15)}[block]:
                blocks = pattern(size, size, (block, block), share)
                values, made = values_of(blocks, torch.float16), make_index(blocks)
                took = [replayed(lambda: multiply(blocks, values, x, index=made)), replayed(lambda: multiply(blocks, values, dy, True, index=made)),
                        replayed(lambda: sample(blocks, dy, x, index=made))]
                ours.append(f"{share:.0%} {'/'.join(f'{t * 1e6:.0f}' for t in took)}")
            print(f"  {size} {block}x{block}, us of y/dx/dw: cuBLAS {alone * 1e6:.0f}, row dense {'/'.join(f'{t * 1e6:.0f}' for t in full)}, ours at {', '.join(ours)}", flush=True)
    for block in ((4, 1), (1, 1)):
        blocks = pattern(4096, 4096, block, 0.1)
        values, x = values_of(blocks, torch.float16), numbers_of(4096, 4096, dtype=torch.float16)
        print(f"  4096 {block} 10%: row dense {replayed(lambda: multiply(blocks, values, x, own=0)) * 1e6:.0f} us", flush=True)


def older():
    """The texts for sm_80, which run on newer chips, too."""
    script = os.path.abspath(__file__)
    only = [flag for name in ("products", "samples", "epilogues", "dense", "unstructured") for flag in ("--only", name)]
    done = subprocess.run([sys.executable, script, "--small", *only], capture_output=True, text=True, timeout=600, check=False,
                          env={**os.environ, "SPARTA_TARGET": "sm_80"})
    print("  sm_80: " + "\n  sm_80: ".join(done.stdout.strip().splitlines()[-12:]))
    tests.check("SPARTA_TARGET=sm_80", lambda: need(done.returncode == 0, done.stdout[-300:] + done.stderr[-600:]))


def same_bits():
    def run(kind, block, tokens):
        blocks = pattern(1024, 2048, block, 0.2)
        dtype = KINDS[kind][0]
        values, x, dy = values_of(blocks, dtype), numbers_of(tokens, 2048, dtype=dtype), numbers_of(tokens, 1024, dtype=dtype)
        made = make_index(blocks)
        for call in (lambda: multiply(blocks, values, x, False, KINDS[kind][1], made), lambda: multiply(blocks, values, dy, True, KINDS[kind][1], made),
                     lambda: sample(blocks, dy, x, 1.0, KINDS[kind][1], made)):
            first = call()
            need(all(torch.equal(first, call()) for _ in range(4)), "bits differ")

    for kind in KINDS:
        for block in ((16, 16), (32, 32), (64, 64), (128, 128)):
            for tokens in (16, 700):
                tests.check(f"{kind} {block} {tokens} tokens", run, kind, block, tokens)


# ---------------------------------------------------------------- torch
def dense_of(x, values, blocks, bias):
    return torch.nn.functional.linear(x, blocks.unpack(values), bias)


def gradients_agree(dtype, block, make_x, tolerance):
    blocks = pattern(512, 768, block, 0.4)
    x, values, bias = make_x(768).to(dtype), values_of(blocks, dtype), numbers_of(512, dtype=dtype)
    wide = [t.detach().double().requires_grad_() for t in (x, values, bias)]
    want = dense_of(wide[0], wide[1], blocks, wide[2])
    dy = torch.randn_like(want)
    wanted = torch.autograd.grad(want, wide, dy)
    x, values, bias = (t.detach().requires_grad_() for t in (x, values, bias))
    with CountDense() as dense:
        got = door.linear(x, values, blocks, bias)
        grads = torch.autograd.grad(got, (x, values, bias), dy.to(dtype))
        with torch.no_grad():
            need(torch.equal(door.linear(x, values, blocks, bias), got), "linear and linear_run differ")
    close(got, want.to(dtype), tolerance)
    for a, b, name in zip(grads, wanted, ("dx", "dvalues", "dbias")):
        close(a, b.to(dtype), tolerance, name)
    need(dense.n == 0, f"the dense product ran {dense.n} times")


def layers():
    layouts = {
        "2-D": lambda n: numbers_of(96, n),
        "3-D": lambda n: numbers_of(2, 48, n),
        "1-D": lambda n: numbers_of(n),
        "turned": lambda n: numbers_of(n, 96).t(),
        "every second": lambda n: numbers_of(192, n)[::2],
        "one token, expanded": lambda n: numbers_of(1, n).expand(96, n),
        "no token": lambda n: numbers_of(0, n),
    }
    for dtype, tolerance in ((torch.float16, 4e-3), (torch.bfloat16, 3e-2), (torch.float32, 1e-5)):
        for block in ((64, 64), (32, 32), (16, 16), (128, 128)):
            for name, make in layouts.items():
                tests.check(f"gradients {str(dtype)[6:]} {block} {name}", gradients_agree, dtype, block, make, tolerance)
    tests.check("the gradient of a sum, which is expanded", sum_gradient)
    tests.check("multiply and sample of one matrix", one_matrix)
    tests.check("gradcheck", checked_gradients)


def sum_gradient():
    blocks = pattern(256, 256, (64, 64))
    values = values_of(blocks, torch.float16).requires_grad_()
    x = numbers_of(64, 256, dtype=torch.float16).requires_grad_()
    with CountDense() as dense:
        door.linear(x, values, blocks).sum().backward()
    close(x.grad, blocks.unpack(values.double()).sum(0).expand(64, 256).half(), 4e-3)
    need(dense.n == 0, "the dense product ran")


def one_matrix():
    blocks = pattern(256, 320, (64, 64))
    values, x, a, c = (t.requires_grad_() for t in (values_of(blocks), numbers_of(320, 40), numbers_of(256, 24), numbers_of(320, 24)))
    for tensors, ours, theirs in (
        ((values, x), lambda v, x: door.multiply(v, blocks, x), lambda v, x: blocks.unpack(v) @ x),
        ((values, a), lambda v, a: door.multiply(v, blocks, a, True), lambda v, a: blocks.unpack(v).t() @ a),
        ((a, c), lambda a, c: door.sample(a, c, blocks, 0.5), lambda a, c: blocks.pack(a @ c.t() * 0.5)),
    ):
        with CountDense() as dense:
            got = ours(*tensors)
            dy = torch.randn_like(got)
            grads = torch.autograd.grad(got, tensors, dy)
        want = theirs(*(t.double() for t in tensors))
        close(got, want.float(), 1e-5)
        for one, two in zip(grads, torch.autograd.grad(want, tensors, dy.double())):
            close(one, two, 1e-5)
        need(dense.n == 0, f"the dense product ran {dense.n} times")


def checked_gradients():
    """gradcheck is of float64, which runs dense; the float32 kernels by differences of the loss, which is linear in each argument."""
    blocks = pattern(48, 64, (16, 16), 0.6)
    wide = values_of(blocks).double().requires_grad_()
    need(torch.autograd.gradcheck(lambda x, v: door.linear(x, v, blocks), (torch.randn(3, 64, device=DEVICE, dtype=torch.float64, requires_grad=True), wide)))
    x, values, w = numbers_of(5, 64).requires_grad_(), values_of(blocks).requires_grad_(), numbers_of(5, 48)
    dx, dv = torch.autograd.grad((door.linear(x, values, blocks) * w).sum(), (x, values))
    for tensor, grad in ((x, dx), (values, dv)):
        toward = torch.randn_like(tensor)
        with torch.no_grad():
            moved = [x + toward, values] if tensor is x else [x, values + toward]
            difference = ((door.linear(*moved, blocks) - door.linear(x, values, blocks)) * w).double().sum()
        need(abs(float(difference - (grad.double() * toward.double()).sum())) < 1e-2, "the derivative along a line")


def fallbacks():
    """What has no kernel is torch's dense product, gradients and all."""
    def run(block, dtype, count=True):
        blocks = pattern(96, 128, block, 0.3)
        x, values = numbers_of(5, 128).to(dtype).requires_grad_(), values_of(blocks).to(dtype).requires_grad_()
        with CountDense() as dense:
            y = door.linear(x, values, blocks)
            grads = torch.autograd.grad(y.sum(), (x, values))
        want = dense_of(x, values, blocks, None)
        close(y, want, 1e-5)
        for a, b in zip(grads, torch.autograd.grad(want.sum(), (x, values))):
            close(a, b, 1e-5)
        need(dense.n >= 3, f"{dense.n} dense products")

    for block in ((4, 1), (1, 1), (8, 8), (48, 16), (5, 3)):
        tests.check(f"{block}", run, block, torch.float32)
    tests.check("float64", run, (64, 64), torch.float64)

    def batches():
        blocks = pattern(96, 128, (32, 32))
        values = numbers_of(3, blocks.crd.numel(), 32, 32)
        p = door.softmax(values, blocks)
        close(p.sum(), torch.tensor(float(3 * int((blocks.mask().any(-1)).sum())), device=DEVICE), 1e-4)
        close(door.multiply(p, blocks, x := numbers_of(3, 128, 8)), blocks.unpack(p) @ x, 1e-5)

    tests.check("batches and the softmax", batches)

    def devices():
        blocks, values = pattern(64, 64, (64, 64), 1), numbers_of(1, 64, 64)
        refused((TypeError, RuntimeError, ValueError), "", door.linear, torch.ones(2, 64), values, blocks)
        refused((TypeError, RuntimeError, ValueError), "", door.linear, numbers_of(2, 64), values.cpu(), blocks)
        here = Blocks(blocks.pos.cpu(), blocks.crd.cpu(), None, blocks.shape, blocks.block)
        refused((TypeError, RuntimeError, ValueError), "", door.linear, numbers_of(2, 64), values, here)
        close(door.linear(x := numbers_of(2, 64), values, blocks), x @ values[0].t(), 1e-4)

    tests.check("arguments on two devices", devices)


def rounding():
    """float32 follows torch's own setting."""
    blocks = pattern(512, 512, (64, 64))
    x, values = numbers_of(256, 512), values_of(blocks)
    want = x.double() @ blocks.unpack(values.double()).t()
    before = torch.get_float32_matmul_precision()
    off = []
    for setting in ("highest", "high"):
        torch.set_float32_matmul_precision(setting)
        off.append(float((door.linear(x, values, blocks).double() - want).abs().max()))
    torch.set_float32_matmul_precision(before)
    tests.check("tf32 where torch allows it", lambda: need(off[0] < 1e-4 < off[1] < 0.3, off))


# ---------------------------------------------------------------- 2:4 weights
def half_weight(rows, cols, dtype):
    """At most 2 of 4 along cols; at the edge a group may be cut."""
    fours = torch.rand(rows, -(-cols // 4), 4, device=DEVICE)
    kept = fours.argsort(-1).argsort(-1) < torch.randint(0, 3, (*fours.shape[:2], 1), device=DEVICE)
    return torch.where(kept.flatten(1)[:, :cols], numbers_of(rows, cols), 0).to(dtype)


def half_pack(weight, step=None):
    """(packed, its last word); lines of the weight lie `step` elements apart."""
    rows, cols = weight.shape
    if step:
        weight = torch.nn.functional.pad(weight, (0, step - cols), value=float("nan"))[:, :cols]
    words = lib.sparta_half_bytes(numbers[DTYPES[weight.dtype]], rows, cols) // 4
    packed, message = torch.full((words,), -1, dtype=torch.int32, device=DEVICE), ctypes.create_string_buffer(512)
    launch = new("sparta_launch", stream=torch.cuda.current_stream().cuda_stream)
    said(lib.sparta_half_pack(view(weight), view(packed), launch, message, 512), message)
    return packed, int(packed[-1])


def half_multiply(packed, shape, x, epilogue=None, bias=None, residual=None, call=None):
    y, message = torch.full((x.shape[0], shape[0]), float("nan"), dtype=x.dtype, device=DEVICE), ctypes.create_string_buffer(512)
    words = new("sparta_multiply_options", epilogue=epilogue)
    held = [view(bias) if bias is not None else None, cube(residual) if residual is not None else None]
    for name, tensor in zip(("bias", "residual"), held):
        if tensor is not None:
            setattr(words, name, ctypes.pointer(tensor))
    launch = new("sparta_launch", stream=torch.cuda.current_stream().cuda_stream)
    call = call or lib.sparta_half_multiply
    said(call(view(packed), *shape, cube(x), cube(y), words, launch, message, 512), message)
    return y


def check_half(kind, rows, cols, tokens, text=None, step=None):
    dtype = KINDS[kind][0]
    weight, x = half_weight(rows, cols, dtype), stepped(tokens, cols, dtype, -(-cols // 8) * 8 + 8).div_(8)  # in place: lines stay apart
    bias, residual = numbers_of(rows, dtype=dtype), numbers_of(tokens, rows, dtype=dtype)
    packed, over = half_pack(weight, step)
    need(over == 0, "it says that the weight is not 2:4")
    given = text or ""
    y = half_multiply(packed, (rows, cols), x, text, bias if "bias" in given else None, residual if "add" in given or "mul" in given else None)
    sums, terms = x.double() @ weight.double().t(), x.double().abs() @ weight.double().abs().t() + bias.double().abs()
    want = epilogue_of(given, sums, bias.double(), residual.double())
    bound = product_bound(kind, cols, terms, want) * 1.2 * (residual.double().abs().clamp(min=1) if "mul" in given else 1)
    within(y, want, bound + KINDS[kind][2] * want.abs() + 1e-6)
    return packed, x, y


HALF_SHAPES = [(64, 64), (8, 16), (128, 128), (136, 72), (264, 200), (1000, 1096), (512, 768)]


def half():
    if torch.cuda.get_device_capability()[0] != 9 or os.environ.get("SPARTA_TARGET", "sm_90a") != "sm_90a":
        print("  no kernel of this GPU: skipped")
        return
    shapes = HALF_SHAPES if not options.small else HALF_SHAPES[:5]
    for kind in ("f16", "bf16"):
        for rows, cols in shapes:
            for tokens in (1, 2, 7, 63, 64, 65, 128, 129, 200, 256, 257, 300) if not options.small else (1, 65, 300):
                tests.check(f"{kind} {rows}x{cols} {tokens} tokens", lambda *a: check_half(*a) and None, kind, rows, cols, tokens)
        for text in WORDS:
            for tokens in (7, 300):
                tests.check(f"{kind} {text!r} {tokens} tokens", lambda *a: check_half(*a) and None, kind, 264, 200, tokens, text)
        for step in (203, 208):
            tests.check(f"{kind} lines {step} apart", lambda *a: check_half(*a) and None, kind, 264, 200, 33, "bias", step)
    tests.check("no tokens", half_nothing)
    tests.check("odd columns: the weight is packed, x has lines apart", lambda: check_half("f16", 264, 203, 40) and None)
    tests.check("odd sizes that TMA cannot address are refused", half_odd)
    tests.check("more than 2 of 4 are flagged, the largest taken", half_over)
    tests.check("the same bits", half_bits)
    tests.check("garbage in place of the packed weight", half_garbage)
    if options.small:
        return
    for kind in ("f16", "bf16"):
        for rows, cols, tokens in ((4096, 4096, 4096), (8192, 1024, 2048), (1024, 4096, 8190)):  # those that clusters share
            tests.check(f"{kind} {rows}x{cols} {tokens} tokens", lambda *a: check_half(*a) and None, kind, rows, cols, tokens, "bias")
    tests.check("the layer", half_layer)
    tests.check("the layer: training, moves, graphs, autocast", half_around)


def half_nothing():
    packed, _ = half_pack(half_weight(64, 64, torch.float16))
    need(half_multiply(packed, (64, 64), numbers_of(0, 64, dtype=torch.float16)).shape == (0, 64))


def half_odd():
    packed, _ = half_pack(half_weight(264, 203, torch.float16))
    error = refused(Refused, "16 bytes", half_multiply, packed, (264, 203), numbers_of(40, 203, dtype=torch.float16))
    need(error.status == E_UNSUPPORTED, error.status)


def half_over():
    weight = half_weight(200, 136, torch.float16)
    weight[137, 60:64] = torch.tensor([1.0, -4.0, 0.5, 3.0])
    packed, over = half_pack(weight)
    need(over == 1, "it is not said")
    weight[137, 60] = weight[137, 62] = 0
    x = numbers_of(9, 136, dtype=torch.float16)
    close(half_multiply(packed, (200, 136), x), (x.double() @ weight.double().t()).half(), 1e-2)
    need(half_pack(weight)[1] == 0, "the word stays")


def half_bits():
    for tokens in (16, 700, 4096):
        packed, x, y = check_half("f16", 1024, 2048, tokens)
        need(all(torch.equal(half_multiply(packed, (1024, 2048), x), y) for _ in range(4)), "bits differ")


def half_garbage():
    """Wrong answers, no wrong access."""
    packed, x, y = check_half("f16", 512, 768, 300)
    for make in (lambda: torch.randint(-(2**31), 2**31 - 1, packed.shape, device=DEVICE).int(), lambda: torch.full_like(packed, -1)):
        half_multiply(make(), (512, 768), x)
        torch.cuda.synchronize()
    need(torch.equal(half_multiply(packed, (512, 768), x), y), "another answer after it")
    refused(Refused, "expected", half_multiply, packed[:-4], (512, 768), x)
    refused(Refused, "16 bytes", half_multiply, torch.cat([packed, packed[:1]])[1:], (512, 768), x)


class CountHalf:
    """How often the module packed and multiplied."""

    names = "half_pack", "half_linear"

    def __enter__(self):
        self.packs = self.products = 0
        self._pack, self._linear = (getattr(ops, name) for name in self.names)

        def pack(*arguments):
            self.packs += 1
            return self._pack(*arguments)

        def linear(*arguments):
            self.products += 1
            return self._linear(*arguments)

        for name, function in zip(self.names, (pack, linear)):
            setattr(ops, name, function)
        return self

    def __exit__(self, *_):
        for name, function in zip(self.names, (self._pack, self._linear)):
            setattr(ops, name, function)

    def ran(self, packs, products, said):
        need((self.packs, self.products) == (packs, products), f"{said}: {self.packs} packs and {self.products} products, not {packs} and {products}")
        self.packs = self.products = 0


def same_layer(layer, x, said):
    with torch.no_grad():
        close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias), 4e-3 if x.dtype == torch.float16 else 3e-2, said)


def half_layer():
    for dtype in (torch.float16, torch.bfloat16):
        for bias in (True, False):
            layer = SparseLinear(torch.nn.Linear(768, 512, bias, device=DEVICE, dtype=dtype), pattern="2:4")
            need(layer.reason.startswith("2:4 on the GPU (forward without gradients); dense with gradients"), layer.reason)
            with CountHalf() as count:
                for x in (numbers_of(300, 768, dtype=dtype), numbers_of(2, 3, 768, dtype=dtype), numbers_of(768, dtype=dtype), numbers_of(768, 40, dtype=dtype).t()):
                    same_layer(layer, x, str(tuple(x.shape)))
                count.ran(1, 4, "four inputs")
                with torch.no_grad():
                    layer.values.mul_(0.5)
                same_layer(layer, x, "changed in place")
                count.ran(1, 1, "changed in place")
                layer.values = torch.nn.Parameter(layer.values.detach() * 3)
                same_layer(layer, x, "another parameter")
                count.ran(1, 1, "another parameter")
                with torch.inference_mode():
                    layer(x)
                count.ran(0, 1, "inference mode")
                same_layer(layer, numbers_of(1, 768, dtype=dtype).expand(9, 768), "expanded")  # x that TMA cannot address: dense
    free = SparseLinear(torch.nn.Linear(768, 512, device=DEVICE, dtype=torch.float16), weight_mask=torch.rand(512, 768, device=DEVICE) < 0.5)
    need("2:4" not in free.reason and free._copy is None, free.reason)
    wide = SparseLinear(torch.nn.Linear(768, 512, device=DEVICE), pattern="2:4")
    need("2:4" not in wide.reason, wide.reason)
    need(wide.half().reason.startswith("2:4") and "2:4" not in wide.cpu().reason, wide.reason)


def half_around():
    layer, x = SparseLinear(torch.nn.Linear(768, 512, device=DEVICE, dtype=torch.float16), pattern="2:4"), numbers_of(128, 768, dtype=torch.float16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with CountHalf() as count:
        for _ in range(2):
            layer(x).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            same_layer(layer, x, "after a step")
        count.ran(2, 2, "training")
        layer.values.data.mul_(0.5)
        layer(x)
        same_layer(layer, x, "written through .data, a forward with gradients since")
        count.ran(1, 1, ".data")
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer).cpu().cuda()):
            same_layer(other, x, "moved")
        count.ran(3, 3, "moves")
        need(not any("half" in name or "packed" in name for name in layer.state_dict()), "it is in the checkpoint")
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            need(layer(x).dtype == torch.bfloat16, "autocast")
        with torch.no_grad():
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                y = layer(x)
            layer.values.mul_(0.5)
            captured.replay()
            close(y, torch.nn.functional.linear(x, layer.weight, layer.bias), 4e-3, "a graph")
        count.ran(0, 0, "autocast, a graph")
    mask = sparta.patterns.mask(torch.randn(512, 768, device=DEVICE), "2:4")
    layer.update_mask(mask)
    same_layer(layer, x, "update_mask")
    with torch.no_grad():
        close(torch.compile(layer, backend="aot_eager")(x), layer(x), 4e-3, "compiled")
    found = layer.tune(x)
    need(layer.reason.startswith("2:4"), layer.reason)
    return f"{found} {layer.reason}"


# ---------------------------------------------------------------- unstructured weights for few tokens
def bits_weight(rows, cols, dtype, density):
    kept = torch.rand(rows, cols, device=DEVICE) < density
    return torch.where(kept, numbers_of(rows, cols), 0).to(dtype)


def pairs_of(weight):
    return int(torch.nn.functional.pad(weight != 0, (0, weight.shape[1] % 2)).unflatten(-1, (-1, 2)).any(-1).sum())


def bits_pack(weight, step=None, pairs=None):
    """(packed, its last word); lines of the weight lie `step` elements apart."""
    rows, cols = weight.shape
    pairs = pairs_of(weight) if pairs is None else pairs
    if step:
        weight = torch.nn.functional.pad(weight, (0, step - cols), value=float("nan"))[:, :cols]
    words = lib.sparta_bits_bytes(numbers[DTYPES[weight.dtype]], rows, cols, pairs) // 4
    packed, message = torch.full((words,), -1, dtype=torch.int32, device=DEVICE), ctypes.create_string_buffer(512)
    launch = new("sparta_launch", stream=torch.cuda.current_stream().cuda_stream)
    said(lib.sparta_bits_pack(view(weight), view(packed), launch, message, 512), message)
    return packed, int(packed[-1])


def bits_multiply(*arguments):
    return half_multiply(*arguments, call=lib.sparta_bits_multiply)


def bits_terms(weight, x, bias, residual, text):
    """What the product is, and the sum of the magnitudes of its terms."""
    sums, terms = x.double() @ weight.double().t(), x.double().abs() @ weight.double().abs().t() + bias.double().abs()
    return epilogue_of(text, sums, bias.double(), residual.double()), terms


def check_bits(kind, rows, cols, tokens, density=0.3, text=None, step=None, apart=None, weight=None):
    dtype = KINDS[kind][0]
    weight = bits_weight(rows, cols, dtype, density) if weight is None else weight
    x = stepped(tokens, cols, dtype, apart or cols).div_(8)
    bias, residual = numbers_of(rows, dtype=dtype), numbers_of(tokens, rows, dtype=dtype)
    packed, over = bits_pack(weight, step)
    need(over == 0, "it says that the weight does not fit")
    given = text or ""
    y = bits_multiply(packed, (rows, cols), x, text, bias if "bias" in given else None, residual if "add" in given or "mul" in given else None)
    want, terms = bits_terms(weight, x, bias, residual, given)
    bound = product_bound(kind, cols, terms, want) * 1.2 * (residual.double().abs().clamp(min=1) if "mul" in given else 1)
    within(y, want, bound + KINDS[kind][2] * want.abs() + 1e-6)
    return packed, x, y


BITS_SHAPES = [(64, 64), (1, 1), (1, 200), (200, 1), (63, 65), (136, 72), (264, 203), (1000, 1096), (2048, 4096), (8448, 640)]


def bits():
    run = lambda *a, **k: check_bits(*a, **k) and None  # noqa: E731
    for kind in ("f16", "bf16"):
        # Each is a kernel to compile, or several: sizes meet all densities, and one of them all numbers of tokens.
        for rows, cols in BITS_SHAPES if kind == "f16" and not options.small else BITS_SHAPES[4:8]:
            for density in (0, 0.02, 0.3, 0.6, 1):
                for tokens in (1, 2, 8, 9, 16, 24, 31, 40, 48, 57, 64) if (rows, density) == (264, 0.3) and not options.small else (7, 16):
                    if cols % 8 and tokens > 56:  # those that begin anywhere are at most 56
                        continue
                    tests.check(f"{kind} {rows}x{cols} {density:.0%} {tokens} tokens", run, kind, rows, cols, tokens, density)
        for text in WORDS:
            for tokens in (7, 33, 64):
                tests.check(f"{kind} {text!r} {tokens} tokens", run, kind, 264, 200, tokens, 0.3, text)
        for step, apart in ((203, 200), (208, 203), (200, 208)):
            tests.check(f"{kind} lines of the weight {step} apart, tokens {apart}", run, kind, 264, 200, 33, 0.3, "bias", step, apart)
    tests.check("no tokens", bits_nothing)
    tests.check("65 tokens are refused, and 57 that begin anywhere", bits_many)
    tests.check("strips and tiles of every density", bits_uneven)
    tests.check("too little room is said, and nothing else is written", bits_over)
    tests.check("the same bits, packed and multiplied", bits_same)
    tests.check("garbage in place of the packed weight", bits_garbage)
    if options.small:
        return
    for kind in ("f16", "bf16"):
        for rows, cols, tokens in ((8192, 28672, 16), (28672, 8192, 5), (4096, 4096, 64)):
            tests.check(f"{kind} {rows}x{cols} {tokens} tokens", run, kind, rows, cols, tokens, 0.3, "bias")
    tests.check("the layer", bits_layer)
    tests.check("the layer: training, moves, graphs, autocast", bits_around)


def bits_nothing():
    packed, _ = bits_pack(bits_weight(64, 64, torch.float16, 0.3))
    need(bits_multiply(packed, (64, 64), numbers_of(0, 64, dtype=torch.float16)).shape == (0, 64))


def bits_many():
    packed, _ = bits_pack(bits_weight(64, 64, torch.float16, 0.3))
    for x in (numbers_of(65, 64, dtype=torch.float16), numbers_of(57, 65, dtype=torch.float16)[:, :64]):
        error = refused(Refused, "1 to 64", bits_multiply, packed, (64, 64), x)
        need(error.status == E_UNSUPPORTED, error.status)


def bits_uneven():
    """Records far above the average are read where they lie."""
    for rows, cols, tokens in ((512, 4096, 16), (512, 4096, 48), (512, 4096, 64), (200, 1000, 3)):
        weight = bits_weight(rows, cols, torch.float16, 0.05)
        weight[64:100] = numbers_of(36, cols, dtype=torch.float16)
        weight[:, 128:192] = numbers_of(rows, 64, dtype=torch.float16)
        weight[:, 300:500] = 0
        check_bits("f16", rows, cols, tokens, weight=weight)


def bits_over():
    weight = bits_weight(200, 136, torch.float16, 0.5)
    words = lib.sparta_bits_bytes(numbers["SPARTA_F16"], 200, 136, 0) // 4
    room, message = torch.full((words + 64,), 77, dtype=torch.int32, device=DEVICE), ctypes.create_string_buffer(512)
    launch = new("sparta_launch", stream=torch.cuda.current_stream().cuda_stream)
    said(lib.sparta_bits_pack(view(weight), view(room[:words]), launch, message, 512), message)
    need(int(room[words - 1]) == 1, "it is not said")
    need(bool((room[words:] == 77).all()), "written past the end")
    bits_multiply(room[:words], (200, 136), numbers_of(9, 136, dtype=torch.float16))
    torch.cuda.synchronize()
    need(bits_pack(weight)[1] == 0, "the word stays")


def bits_same():
    weight = bits_weight(1000, 2048, torch.float16, 0.3)
    packed, _ = bits_pack(weight)
    need(all(torch.equal(bits_pack(weight)[0][:1000], packed[:1000]) for _ in range(3)), "other records")
    for tokens in (1, 16, 64):
        x = numbers_of(tokens, 2048, dtype=torch.float16)
        y = bits_multiply(packed, weight.shape, x)
        need(all(torch.equal(bits_multiply(packed, weight.shape, x), y) for _ in range(4)), "bits differ")


def bits_garbage():
    """Wrong answers, no wrong access."""
    for tokens in (1, 16, 64):
        packed, x, y = check_bits("f16", 512, 768, tokens)
        for make in (
            lambda p: torch.randint(-(2**31), 2**31 - 1, p.shape, device=DEVICE).int(),
            lambda p: torch.full_like(p, -1),
            lambda p: torch.randint(0, p.numel() // 4, p.shape, device=DEVICE).int(),
            lambda p: p.sort().values,
            lambda p: torch.cat([p[:100], torch.randint(-(2**31), 2**31 - 1, p[100:].shape, device=DEVICE).int()]),  # the directory stays
            lambda p: torch.cat([p[:100].flip(0), p[100:]]),
        ):
            bits_multiply(make(packed).contiguous(), (512, 768), x)
            torch.cuda.synchronize()
        need(torch.equal(bits_multiply(packed, (512, 768), x), y), "another answer after it")
    refused(Refused, "multiple of 4", bits_multiply, packed[:-1], (512, 768), x)
    refused(Refused, "16 bytes", bits_multiply, torch.cat([packed, packed[:1]])[1:], (512, 768), x)


class CountBits(CountHalf):
    """How often the module packed and multiplied."""

    names = "bits_pack", "bits_linear"


def bits_layer():
    for dtype in (torch.float16, torch.bfloat16):
        for bias in (True, False):
            raw = torch.nn.Linear(4096, 4096, bias, device=DEVICE, dtype=dtype)
            layer = SparseLinear(raw, weight_mask=torch.rand(4096, 4096, device=DEVICE) < 0.3)
            need(layer.reason.startswith("unstructured on the GPU for 1 to 16 tokens"), layer.reason)
            with CountBits() as count:
                for x in (numbers_of(16, 4096, dtype=dtype), numbers_of(2, 3, 4096, dtype=dtype), numbers_of(4096, dtype=dtype), numbers_of(4096, 12, dtype=dtype).t()):
                    same_layer(layer, x, str(tuple(x.shape)))
                count.ran(1, 4, "four inputs")
                same_layer(layer, numbers_of(17, 4096, dtype=dtype), "17 tokens")
                same_layer(layer, numbers_of(0, 4096, dtype=dtype), "no tokens")
                count.ran(0, 0, "too many, none")
                with torch.no_grad():
                    layer.values.mul_(0.5)
                same_layer(layer, x, "changed in place")
                count.ran(1, 1, "changed in place")
                layer.values = torch.nn.Parameter(layer.values.detach() * 3)
                same_layer(layer, x, "another parameter")
                count.ran(1, 1, "another parameter")
                with torch.inference_mode():
                    layer(x)
                count.ran(0, 1, "inference mode")
    csr = SparseLinear(torch.nn.Linear(4096, 4096, device=DEVICE, dtype=torch.float16), pattern="1x1:0.8", format="csr")
    need(csr.reason.startswith("unstructured on the GPU"), csr.reason)
    same_layer(csr, numbers_of(5, 4096, dtype=torch.float16), "csr")
    for density, size in ((0.6, 4096), (0.3, 2048)):  # too much is there; too small
        layer = SparseLinear(torch.nn.Linear(size, size, device=DEVICE, dtype=torch.float16), weight_mask=torch.rand(size, size, device=DEVICE) < density)
        need(layer.reason.startswith("dense") and layer._copy is None, layer.reason)


def bits_around():
    mask = torch.rand(4096, 4096, device=DEVICE) < 0.3
    layer, x = SparseLinear(torch.nn.Linear(4096, 4096, device=DEVICE, dtype=torch.float16), weight_mask=mask), numbers_of(16, 4096, dtype=torch.float16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with CountBits() as count:
        for _ in range(2):
            layer(x).float().square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            same_layer(layer, x, "after a step")
        count.ran(2, 2, "training")
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer).cpu().cuda()):
            same_layer(other, x, "moved")
        count.ran(3, 3, "moves")
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            need(layer(x).dtype == torch.bfloat16, "autocast")
        with torch.no_grad():
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                y = layer(x)
            layer.values.mul_(0.5)
            captured.replay()
            close(y, torch.nn.functional.linear(x, layer.weight, layer.bias), 4e-3, "a graph")
        count.ran(0, 0, "autocast, a graph")
    layer.update_mask(torch.rand(4096, 4096, device=DEVICE) < 0.2)
    same_layer(layer, x, "update_mask")
    with torch.no_grad():
        close(torch.compile(layer, backend="aot_eager")(x), layer(x), 4e-3, "compiled")
    found = layer.tune(x)
    need(layer.reason.startswith("unstructured"), layer.reason)
    return f"{found} {layer.reason}"


# ---------------------------------------------------------------- modules
def block_layer(rows=512, cols=768, block=64, density=0.3, dtype=torch.float16, bias=True):
    raw = torch.nn.Linear(cols, rows, bias, device=DEVICE, dtype=dtype)
    return SparseLinear(raw, weight_mask=pattern(rows, cols, (block, block), density).mask())


def modules():
    tests.check("what runs is said", reasons)
    tests.check("blocks that are not full", covers)
    tests.check("to, deepcopy, pickle, checkpoints", moves)
    tests.check("update_mask keeps values and optimizer state", updates)
    tests.check("tune", tunes)
    tests.check("sparta.tune and build", tunes_models)


def reasons():
    layer = block_layer()
    need(layer._blocks.block == (64, 64) and "on the GPU" in layer.reason and "dense" not in layer.reason, layer.reason)
    need(block_layer(block=128)._blocks.block == (128, 128), "128")
    raw = torch.nn.Linear(256, 256, device=DEVICE)
    free = SparseLinear(raw, weight_mask=torch.rand(256, 256, device=DEVICE) < 0.1)
    need(free.reason.startswith("dense"), free.reason)
    strip = SparseLinear(raw, pattern="4x1:0.9", format="strip(4)")
    need("no kernel there takes blocks of 4x1" in strip.reason, strip.reason)
    need("on the GPU" not in strip.cpu().reason, strip.reason)


def covers():
    """Blocks that are not full: chosen by how many there are; what is not there stays gone, with gradients and without."""
    found = []
    for name, mask in (("loose", pattern(1024, 1024, (64, 64), 0.1).mask() & (torch.rand(1024, 1024, device=DEVICE) < 0.3)),
                       ("scattered beside", pattern(1024, 1024, (64, 64), 0.1).mask() | (torch.rand(1024, 1024, device=DEVICE) < 2e-5))):
        for dtype, tolerance in ((torch.float16, 4e-3), (torch.float32, 1e-5)):
            raw = torch.nn.Linear(1024, 1024, device=DEVICE, dtype=dtype)
            layer, x = SparseLinear(raw, weight_mask=mask), numbers_of(96, 1024, dtype=dtype).requires_grad_()
            need(layer._blocks.block == (64, 64) and "of it filled" in layer.reason and layer.reason.endswith("on the GPU"), layer.reason)
            with CountDense() as dense:
                y = layer(x)
                grads = torch.autograd.grad(y.square().mean(), (x, layer.values))
            wide, given = torch.where(mask, raw.weight, 0).double().requires_grad_(), x.detach().double().requires_grad_()
            want = torch.nn.functional.linear(given, wide, raw.bias.double())
            wanted = torch.autograd.grad(want.square().mean(), (given, wide))
            close(y, want.to(dtype), tolerance, name)
            close(grads[0] * 1e3, (wanted[0] * 1e3).to(dtype), tolerance, "dx")
            close(layer._blocks.unpack(grads[1]) * 1e3, torch.where(mask, wanted[1] * 1e3, 0).to(dtype), tolerance, "dw")
            need(dense.n == 0 and not bool(layer.weight[~mask].any()), f"the dense product ran {dense.n} times, or what is gone came back")
        found.append(layer.reason)
    x = numbers_of(4096, 4096, dtype=torch.float16)
    for name, mask in (("64x64 10%", pattern(4096, 4096, (64, 64), 0.1).mask()), ("64x64 10%, 30% of it", pattern(4096, 4096, (64, 64), 0.1).mask() & (torch.rand(4096, 4096, device=DEVICE) < 0.3)),
                       ("64x64 10% and 2e-5", pattern(4096, 4096, (64, 64), 0.1).mask() | (torch.rand(4096, 4096, device=DEVICE) < 2e-5)),
                       ("1e-4 alone", torch.rand(4096, 4096, device=DEVICE) < 1e-4), ("3e-4 alone", torch.rand(4096, 4096, device=DEVICE) < 3e-4), ("1% alone", torch.rand(4096, 4096, device=DEVICE) < 0.01)):
        layer = SparseLinear(torch.nn.Linear(4096, 4096, device=DEVICE, dtype=torch.float16), weight_mask=mask)
        with torch.no_grad():
            weight = layer.weight
            took, dense = replayed(lambda: layer(x)), replayed(lambda: torch.nn.functional.linear(x, weight, layer.bias))
        print(f"  4096 {name}: {took * 1e6:.0f} us, dense {dense * 1e6:.0f}; {layer.reason}", flush=True)
    return found


def moves():
    layer = block_layer(dtype=torch.float32)
    x = numbers_of(9, 768)
    want = layer(x)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), layer.cpu().cuda()):
        need(other._blocks.index is not None, "no index")
        need(torch.equal(other(x), want), "another answer")
    here = copy.deepcopy(layer).cpu()
    need(here._blocks.index is None, "an index on the CPU")
    close(here(x.cpu()).cuda(), want, 1e-4)
    need(not any("index" in name for name in layer.state_dict()), "the index is in the checkpoint")
    half = copy.deepcopy(layer).half()
    need(half._blocks.index is not None, "half: no index")
    other = block_layer(dtype=torch.float32, density=0.5)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    need(torch.equal(other(x), want), "another answer after loading")


def updates():
    layer = block_layer(dtype=torch.float32)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.01)
    x = numbers_of(32, 768)
    layer(x).square().mean().backward()
    optimizer.step()
    before, state = layer.weight.detach().clone(), layer._blocks.unpack(optimizer.state[layer.values]["exp_avg"])
    mask = pattern(512, 768, (64, 64), 0.3).mask()
    both = mask & layer._blocks.mask()
    layer.update_mask(mask)
    need(torch.equal(layer.weight, torch.where(both, before, 0)), "values")
    need(torch.equal(layer._blocks.unpack(optimizer.state[layer.values]["exp_avg"]), torch.where(both, state, 0)), "state")
    close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias), 1e-4)


def tunes():
    layer = block_layer(1024, 1024, 64, 0.1)
    found = layer.tune(numbers_of(2048, 1024, dtype=torch.float16))
    return f"{found} {layer.reason}"


def tunes_models():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)).cuda().half()
    sparta.sparsify_(model, "64x64:0.9")
    x = numbers_of(4096, 1024, dtype=torch.float16)
    want = model.eval()(x)
    config = sparta.tune(model, x)
    close(sparta.build(model, x, config)(x), want, 1e-2)
    return {name: row["reason"] for name, row in config.items()}


# ---------------------------------------------------------------- torch around it
def around():
    tests.check("two streams at once", two_streams)
    tests.check("a CUDA graph", graph)
    tests.check("autocast", autocast)
    tests.check("torch.compile", compiled)
    for mode in ("rewrite", "engine"):
        tests.check(f"torch.compile, backend sparta, {mode}, and its CUDA graph", backend, mode)
    tests.check("torch.export, and its CUDA graph", exported)
    tests.check("threads", in_threads)
    tests.check("two processes", two_processes)
    tests.check("out of memory", no_memory)


def two_streams():
    layer = block_layer(2048, 2048)
    xs = [numbers_of(2048, 2048, dtype=torch.float16) for _ in range(2)]
    want = [layer(x).detach() for x in xs]
    torch.cuda.synchronize()
    streams, got = [torch.cuda.Stream() for _ in xs], [None, None]
    for _ in range(5):
        for k, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                for _ in range(3):
                    got[k] = layer(xs[k])
    torch.cuda.synchronize()
    need(all(torch.equal(a, b) for a, b in zip(got, want)), "answers differ")


def graph():
    layer = block_layer()
    x = numbers_of(64, 768, dtype=torch.float16).requires_grad_()
    dy = numbers_of(64, 512, dtype=torch.float16)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            torch.autograd.grad(layer(x), (x, layer.values), dy)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = layer(x)
        grads = torch.autograd.grad(y, (x, layer.values), dy)
    for _ in range(3):
        with torch.no_grad():
            x.copy_(torch.randn_like(x))
            layer.values.mul_(0.5)
        captured.replay()
        want = layer(x)
        need(torch.equal(y, want), "another answer")
        need(all(torch.equal(a, b) for a, b in zip(grads, torch.autograd.grad(want, (x, layer.values), dy))), "other gradients")


def autocast():
    layer = block_layer(dtype=torch.float32)
    x = numbers_of(32, 768)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype=dtype), CountDense() as dense:
            y = layer(x)
            y.sum().backward()
        need(y.dtype == dtype and layer.values.grad.dtype == torch.float32 and dense.n == 0, (y.dtype, layer.values.grad.dtype, dense.n))
        close(y.float(), torch.nn.functional.linear(x, layer.weight, layer.bias), 3e-2)


def compiled():
    layer = block_layer(dtype=torch.float32)
    fast = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = numbers_of(32, 768).requires_grad_()
    got, want = torch.autograd.grad(fast(x).square().sum(), (x, layer.values)), torch.autograd.grad(layer(x).square().sum(), (x, layer.values))
    for a, b in zip(got, want):
        close(a, b, 1e-5)
    with torch.no_grad():
        close(fast(x), layer(x), 1e-6)


def same_when_replayed(run, x, want):
    """A call captured as a CUDA graph, whose replays see other inputs."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            run(x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        y = run(x)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        captured.replay()
        with torch.no_grad():
            close(y, want(x), 1e-5, "replayed")


def backend(mode):
    """What is on a GPU stays there in both modes: engine, which is for the CPU, leaves it to Inductor."""
    model = perceptron(DEVICE)
    x = numbers_of(64, 256)
    sparta.dynamo.register()
    fast = torch.compile(model, backend="sparta", options={"mode": mode})
    with torch.no_grad():
        got = fast(x)
        need(got.is_cuda, got.device)
        close(got, model(x), 1e-5)
    same_when_replayed(fast, x, model)
    if mode == "rewrite":
        wanted = [torch.autograd.grad(run(x).square().sum(), list(model.parameters())) for run in (fast, model)]
        for a, b in zip(*wanted):
            close(a, b, 1e-4)


def exported():
    model, x = perceptron(DEVICE), numbers_of(64, 256)
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (x,)), file)
    file.seek(0)
    again = torch.export.load(file).module()
    close(again(x), model(x), 1e-5)
    same_when_replayed(again, x, model)


def in_threads():
    layer, failed = block_layer(), []
    x = numbers_of(100, 768, dtype=torch.float16)
    with torch.no_grad():
        want = layer(x)

    def work():
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    need(torch.equal(layer(x), want), "another answer")
        except Exception as error:
            failed.append(error)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    need(not failed, failed)


def two_processes():
    script = os.path.abspath(__file__)
    runs = [subprocess.Popen([sys.executable, script, "--small", "--only", "bits"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    said = [run.communicate(timeout=300)[0] for run in runs]
    need(all(run.returncode == 0 for run in runs), said[0][-300:] + said[1][-300:])


def no_memory():
    """All but 1 GB of the GPU is taken, the result has 4 GB: more than what caches could still give back."""
    layer = block_layer(8192, 8192, 128, 0.1)
    x = torch.zeros(1, 8192, device=DEVICE, dtype=torch.float16).expand(2**18, 8192)
    few = numbers_of(128, 8192, dtype=torch.float16)
    with torch.no_grad():
        want = layer(few)
        torch.cuda.empty_cache()
        hog = torch.empty(max(torch.cuda.mem_get_info()[0] - 2**30, 0), device=DEVICE, dtype=torch.uint8)
        refused(torch.OutOfMemoryError, "memory", layer, x)
        del hog
        torch.cuda.empty_cache()
        need(torch.equal(layer(few), want), "another answer after it")


# ---------------------------------------------------------------- training
def perceptron(device, seed=1):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256))
    sparta.sparsify_(model, "64x64:0.5")
    for name, layer in list(model.named_children()):
        if isinstance(layer, torch.nn.Linear):
            model[int(name)] = SparseLinear(layer, weight_mask=layer.weight_mask, format=(64, 64))
    return model.to(device)


def losses(model, device, steps=12, wrapped=None):
    run = wrapped or model
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator, found = torch.Generator().manual_seed(3), []
    for step in range(steps):
        x = torch.randn(128, 256, generator=generator).to(device)
        loss = (run(x) - x.roll(1, -1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
        if step == steps // 2 and wrapped is None:
            layer = model[0]
            grid = torch.ones(8, 4, dtype=torch.bool)
            grid[::2, ::2] = False
            layer.update_mask(grid.repeat_interleave(64, 0).repeat_interleave(64, 1).to(device))
    return found


def training():
    here, there = losses(perceptron("cpu"), "cpu"), losses(perceptron(DEVICE), DEVICE)

    def same():
        need(all(abs(a - b) < 2e-4 * max(a, 1) for a, b in zip(here, there)), f"{here}\n{there}")
        return f"{there[0]:.4f} -> {there[-1]:.4f}"

    tests.check("the same losses on the CPU and on the GPU, a mask changed on the way", same)
    if DEVICE == "cuda":
        tests.check("DDP and FSDP2 on one GPU", spread)


def spread():
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl" if dist.is_nccl_available() else "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            model = perceptron(DEVICE)
            want = losses(copy.deepcopy(model), DEVICE, wrapped=None, steps=4)[:2]
            got = losses(twin := copy.deepcopy(model), DEVICE, steps=2, wrapped=DistributedDataParallel(twin, device_ids=[0]))
            need(all(abs(a - b) < 1e-5 for a, b in zip(got, want)), f"DDP: {got}, not {want}")
            shard = fully_shard(copy.deepcopy(model))
            got = losses(shard, DEVICE, steps=2, wrapped=shard)
            need(all(abs(a - b) < 1e-5 for a, b in zip(got, want)), f"FSDP2: {got}, not {want}")
        finally:
            dist.destroy_process_group()


# ---------------------------------------------------------------- times
def times():
    tests.check("update_mask on the device under 1 ms", mask_time)
    tests.check("time of the host at most 1.3 of nn.Linear's", host_time)


def mask_time():
    layer = block_layer(8192, 8192, 64, 0.1)
    masks = [pattern(8192, 8192, (64, 64), 0.1).mask() for _ in range(3)]
    took = {}
    for name, asked in (("as asked", (64, 64)), ("by rule", None)):
        layer._asked = asked
        layer.update_mask(masks[0])
        best = math.inf
        for k in range(1, 40):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            layer.update_mask(masks[k % 3])
            torch.cuda.synchronize()
            best = min(best, time.perf_counter() - begin)
        took[name] = best * 1e3
    need(took["as asked"] < 1, took)
    return ", ".join(f"{name} {ms:.2f} ms" for name, ms in took.items())


def host_time():
    dense = torch.nn.Linear(256, 256, device=DEVICE, dtype=torch.float16)
    layer = SparseLinear(dense, weight_mask=pattern(256, 256, (64, 64)).mask(), format=(64, 64))
    x, said = numbers_of(16, 256, dtype=torch.float16), []
    for name, grad in (("no gradients", False), ("with gradients", True)):
        best = {dense: math.inf, layer: math.inf}
        with torch.set_grad_enabled(grad):
            for _ in range(15):
                for module in best:
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    for _ in range(200):
                        module(x)
                    best[module] = min(best[module], (time.perf_counter() - begin) / 200)
        ours, theirs = best[layer] * 1e6, best[dense] * 1e6
        said.append(f"{name} {ours:.1f} us against {theirs:.1f}")
        need(ours <= 1.3 * theirs, said[-1])
    return ", ".join(said)


# ---------------------------------------------------------------- points
def found_said(found):
    point = os.fsdecode(found.point)
    gain = f"{found.rule_us:.1f} us by rule, {found.us:.1f} at {point} ({found.rule_us / found.us:.3f}x)" if point else f"{found.rule_us:.1f} us by rule"
    return f"{os.fsdecode(found.implement)}, {found.points} points, {found.measured} measured: {gain}"


def points():
    """Every point that a call can run at gives the rule's answer, and the winner the right one."""
    folder = tempfile.mkdtemp()
    db = os.path.join(folder, "tune.db")
    for block in ((128, 128), (64, 64), (32, 32), (192, 64)):
        for kind, tokens in (("f16", 16), ("bf16", 2048)):
            tests.check(f"{block} {kind} {tokens} tokens", points_agree, block, kind, tokens, db)
    for text in ("bias gelu add", "silu mul"):
        tests.check(text, points_agree, (64, 64), "f16", 1000, db, text)
    tests.check("2:4", points_half, db)
    tests.check("known points are not measured again", points_known, db)
    tests.check("another process", points_elsewhere, db)
    tests.check("modules", points_of_modules)
    shutil.rmtree(folder)


def points_agree(block, kind, tokens, db, text=None):
    blocks = pattern(768, 960, block, 0.3)
    dtype, given = KINDS[kind][0], text or ""
    values, x, dy = values_of(blocks, dtype), numbers_of(tokens, 960, dtype=dtype), numbers_of(tokens, 768, dtype=dtype)
    bias = numbers_of(768, dtype=dtype) if "bias" in given else None
    residual = numbers_of(tokens, 768, dtype=dtype) if "add" in given or "mul" in given else None
    said = []
    for verb, one, two in (("SPARTA_MULTIPLY", x, dy), ("SPARTA_MULTIPLY_TURNED", dy, x), ("SPARTA_SAMPLE", dy, x)):
        words = {"epilogue": text, "bias": bias, "residual": residual} if verb == "SPARTA_MULTIPLY" else {}
        found, notes = tune(verb, blocks, values, one, two, db, **words)
        need(found.wrong == 0 and found.failed == 0, f"{verb}: {notes}")
        need(found.points > 1 or found.points == 0, f"{verb}: {found.points} points")
        said.append(found_said(found))
    index = make_index(blocks)
    if not text:
        check_product(blocks, values, x, False, kind, index=index)
    check_product(blocks, values, dy, True, kind, index=index)
    check_sample(blocks, dy, x, kind, index=index)
    return "; ".join(said)


def points_half(db):
    weight, said = half_weight(1024, 1280, torch.float16), []
    packed, _ = half_pack(weight)
    for tokens in (64, 2048):
        x, y = numbers_of(tokens, 1280, dtype=torch.float16), numbers_of(tokens, 1024, dtype=torch.float16)
        call = new("sparta_tune_call", verb=numbers["SPARTA_MULTIPLY"], packed=ctypes.pointer(view(packed)), rows=1024, cols=1280, db=db)
        call.x, call.y = ctypes.pointer(cube(x)), ctypes.pointer(cube(y))
        found, context = new("sparta_tuned"), Context()
        context.call("sparta_blocks_tune", call, found)
        need(found.wrong == 0 and found.failed == 0, os.fsdecode(lib.sparta_notes(context.cx) or b""))
        close(half_multiply(packed, (1024, 1280), x).double(), x.double() @ weight.double().t(), 1e-2)
        said.append(found_said(found))
    return "; ".join(said)


def points_known(db):
    blocks = pattern(1024, 1024, (64, 64), 0.2)
    values, x, y = values_of(blocks, torch.float16), numbers_of(4096, 1024, dtype=torch.float16), numbers_of(4096, 1024, dtype=torch.float16)
    first, _ = tune("SPARTA_MULTIPLY", blocks, values, x, y, db)
    second, _ = tune("SPARTA_MULTIPLY", blocks, values, x, y, db)
    need(first.measured == first.points and second.measured == 0, (first.measured, second.measured))
    need(first.point == second.point, (first.point, second.point))
    third, _ = tune("SPARTA_MULTIPLY", blocks, values, x, y, db, again=1)
    need(third.measured == third.points, third.measured)
    return f"{found_said(first)}; again: {found_said(third)}"


def points_elsewhere(db):
    """Winners are counted by a process that measured nothing."""
    text = "import sys; from sparta._library import Context, lib; c = Context(); print(lib.sparta_blocks_recall(c.cx, sys.argv[1].encode()))"
    ran = subprocess.run([sys.executable, "-c", text, db], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
    need(ran.returncode == 0, ran.stderr[-500:])
    return f"it knows {int(ran.stdout)} winners"


def points_of_modules():
    layer = block_layer(2048, 2048, 64, 0.1)
    x = numbers_of(4096, 2048, dtype=torch.float16)
    before = layer(x)
    rows = layer.tune_points(x, backward=True)
    need([row["verb"] for row in rows] == ["forward", "gradient of the input", "gradient of the weight"], rows)
    need(all(row["us"] <= row["rule_us"] for row in rows), rows)
    close(layer(x), before, 1e-2)
    layer.tune(x, backward=True)  # may hold it dense where other sections have the chip
    close(layer(x), before, 1e-2)
    return layer.reason


def program():
    """The command line on the GPU."""
    tests.check("doctor --measure", measured)
    tests.check("kernel bench --tune", tuned_bench)
    tests.check("kernel pack, then without NVRTC", packed_bench)


def sparta_says(*arguments, **more):
    ran = subprocess.run(
        [os.path.join(ROOT, "build/release/sparta"), *arguments, "--json"], capture_output=True, text=True, env={**os.environ, **libraries(), **more}
    )
    need(ran.returncode == 0, ran.stderr[-600:])
    return json.loads(ran.stdout)


def libraries():
    """Where torch has NVRTC and cuBLAS."""
    files = [line.split()[-1] for line in open("/proc/self/maps") if "libnvrtc.so" in line or "libcublas.so" in line]
    found = {("SPARTA_NVRTC" if "nvrtc" in os.path.basename(f) else "SPARTA_CUBLAS"): f for f in files}
    return {name: path for name, path in found.items() if name not in os.environ}


def measured():
    gpu = sparta_says("doctor", "--measure", "--threads", "1")["gpus"][0]
    need(gpu["peak_gbytes_per_s"] > 100 and 200 < gpu["clock_mhz"] < 4000, gpu)
    need(gpu["peak_tflops"] is None or gpu["peak_tflops"] > 1, gpu)
    return {name: gpu[name] for name in ("name", "peak_tflops", "peak_gbytes_per_s", "clock_mhz", "clock_khz")}


def tuned_bench():
    said = []
    for op in ("matmul", "turned", "sample"):
        flags = ("kernel", "bench", "--device", "cuda:0", "--op", op, "--pattern", "32x32", "--time", "0.2")
        first = sparta_says(*flags, "--tune")
        need(first["tuned"]["points"] > 1 and first["tuned"]["wrong"] == 0 and first["tuned"]["failed"] == 0, first["tuned"])
        after = sparta_says(*flags)
        need(after["parameters"] == first["parameters"], (after["parameters"], first["parameters"]))
        said.append(f"{op}: {first['tuned']} then {after['best_us']:.1f} us at {after['parameters']}, {after['clock_mhz']:.0f} MHz")
    return "; ".join(said)


def packed_bench():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mine.sparta-gpu")
        chip = "".join(str(n) for n in torch.cuda.get_device_capability())
        shapes = ("--pattern", "64x64", "--m", "16,2048", "--n", "2048", "--k", "2048", "--op", "matmul,turned,sample")
        sparta_says("kernel", "pack", "--device", "sm_90a" if chip == "90" else f"sm_{chip}", *shapes, "-o", path)
        without = {"SPARTA_NVRTC": "/nowhere", "SPARTA_CACHE": "off", "SPARTA_GPU_KERNELS": path}
        rows = sparta_says("kernel", "bench", "--device", "cuda:0", *shapes, "--time", "0.05", **without)["runs"]
        return f"{os.path.getsize(path)} bytes; " + ", ".join(f"{r['op']} {r['m']}: {r['implement']} {r['best_us']:.1f} us" for r in rows)


def headlines():
    """What tuning gains on the products of the table of figures; nothing is required."""
    folder = tempfile.mkdtemp()
    for rows, cols, tokens, side, density in (
        (8192, 8192, 8192, 128, 0.1), (8192, 8192, 8192, 64, 0.1), (8192, 8192, 8192, 32, 0.1), (8192, 8192, 8192, 16, 0.1),
        (4096, 4096, 4096, 64, 0.1), (3072, 768, 4096, 64, 0.1), (28672, 8192, 16, 64, 0.1), (1024, 1024, 512, 32, 0.1),
    ):  # fmt: skip
        tests.check(f"{tokens}x{rows}x{cols} blocks of {side}", headline, rows, cols, tokens, side, density, os.path.join(folder, "tune.db"))
    shutil.rmtree(folder)


def headline(rows, cols, tokens, side, density, db):
    blocks = pattern(rows, cols, (side, side), density)
    values, x, y = values_of(blocks, torch.float16), numbers_of(tokens, cols, dtype=torch.float16), numbers_of(tokens, rows, dtype=torch.float16)
    said = [found_said(tune("SPARTA_MULTIPLY", blocks, values, x, y, db)[0])]
    if tokens > 64:
        said += [found_said(tune(verb, blocks, values, y, x, db)[0]) for verb in ("SPARTA_MULTIPLY_TURNED", "SPARTA_SAMPLE")]
    return "; ".join(said)


# ---------------------------------------------------------------- what is wrong
def hostile():
    """An index of garbage: a wrong answer, never a wrong access. The context must live after it."""
    def run(block, dtype, tokens, garbage):
        blocks = pattern(512, 768, block, 0.4)
        values, good = values_of(blocks, dtype), make_index(blocks)
        bad = garbage(good)
        x, dy = numbers_of(tokens, 768, dtype=dtype), numbers_of(tokens, 512, dtype=dtype)
        multiply(blocks, values, x, False, 0, bad)
        multiply(blocks, values, dy, True, 0, bad)
        sample(blocks, dy, x, 1.0, 0, bad)
        torch.cuda.synchronize()
        check_product(blocks, values, x, False, "f16" if dtype == torch.float16 else "f32", index=good)

    kinds = {
        "random": lambda good: torch.randint(-(2**31), 2**31 - 1, good.shape, device=DEVICE, dtype=torch.int64).int(),
        "random below 64": lambda good: torch.randint(0, 64, good.shape, device=DEVICE, dtype=torch.int32),
        "all ones": lambda good: torch.full_like(good, -1),
        "largest": lambda good: torch.full_like(good, 2**31 - 1),
        "shuffled": lambda good: good[torch.randperm(good.numel(), device=DEVICE)],
    }
    for block in ((16, 16), (32, 32), (64, 64), (128, 128)):
        for dtype in (torch.float16, torch.float32):
            for tokens in (8, 200):
                for name, garbage in kinds.items():
                    tests.check(f"{name} {block} {str(dtype)[6:]} {tokens} tokens", run, block, dtype, tokens, garbage)

    def patterns():
        """pos and crd of garbage without an index: the call makes it."""
        for _ in range(5):
            blocks = pattern(512, 768, (64, 64), 0.4)
            for name in ("pos", "crd"):
                broken = copy.copy(blocks)
                setattr(broken, name, torch.randint(-(2**31), 2**31 - 1, getattr(blocks, name).shape, device=DEVICE).int())
                multiply(broken, values_of(blocks, torch.float16), numbers_of(100, 768, dtype=torch.float16))
                torch.cuda.synchronize()

    tests.check("pos and crd", patterns)


def once():
    """Every kernel, at sizes that a checker of memory has time for: make test-gpu-sanitize."""
    quietly = lambda check, *a, **k: check(*a, **k) is None or None  # noqa: E731
    for block in ((128, 128), (64, 64), (32, 32), (16, 16)):
        for kind in ("f16", "f32"):
            blocks, dtype = pattern(256, 384, block, 0.5, ragged=block == (64, 64)), KINDS[kind][0]
            values, made = values_of(blocks, dtype), make_index(blocks)
            for tokens in (8, 200):
                x, dy = numbers_of(tokens, 384, dtype=dtype), numbers_of(tokens, 256, dtype=dtype)
                tests.check(f"{block} {kind} {tokens} tokens", lambda: quietly(check_product, blocks, values, x, False, kind, index=made))
                tests.check(f"{block} {kind} {tokens} tokens, turned", lambda: quietly(check_product, blocks, values, dy, True, kind, index=made))
                tests.check(f"{block} {kind} {tokens} tokens, sampled", lambda: quietly(check_sample, blocks, dy, x, kind, index=made))
    tests.check("2:4", lambda: quietly(check_half, "f16", 136, 256, 40))
    tests.check("unstructured", lambda: quietly(check_bits, "f16", 200, 264, 9))


SECTIONS = (
    ("once", once, True),
    ("index", index, True),
    ("products", products, False),
    ("samples", samples, False),
    ("epilogues", epilogues, False),
    ("bits", same_bits, True),
    ("dense", dense, True),
    ("layers", layers, True),
    ("fallbacks", fallbacks, True),
    ("rounding", rounding, True),
    ("half", half, True),
    ("unstructured", bits, True),
    ("modules", modules, True),
    ("around", around, True),
    ("training", training, False),
    ("times", times, True),
    ("points", points, True),
    ("program", program, True),
    ("headlines", headlines, True),
    ("hostile", hostile, True),
    ("older", older, True),
)
TIMED = ("times", "headlines")  # alone on the GPU
SLOW = ("around", "training", "points", "program", "older", "modules", *TIMED)
wanted = [(name, function, needs) for name, function, needs in SECTIONS if options.only or (name != "once" and not (options.small and name in SLOW))]
if options.jobs > 1 and not options.only:
    tests.side_by_side([name for name, _, needs in wanted if name not in TIMED and (DEVICE == "cuda" or not needs)], options.jobs)
    wanted = [row for row in wanted if row[0] in TIMED]
for row in wanted:
    tests.section(*row)
if __name__ == "__main__":
    sys.exit(tests.finish())
