"""What the tests on a GPU share: sections and counts, patterns, calls of libsparta.so with device pointers, bounds on errors."""

import argparse
import concurrent.futures
import ctypes
import math
import os
import re
import subprocess
import sys
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

try:
    import torch
except ImportError:
    sys.exit("test-gpu: this Python has no torch; give one with CUDA: make test-gpu PYTHON=/path/to/python3")

parser = argparse.ArgumentParser()
parser.add_argument("--only", action="append", default=[], help="sections whose name has this word")
parser.add_argument("--small", action="store_true", help="few cases and small: for compute-sanitizer")
parser.add_argument("--jobs", type=int, default=1, help="sections side by side, each a process; those that time something come last, alone")
parser.add_argument("--device", default="cuda", help="cpu: the cases that need no GPU, to test the test")
options = parser.parse_args()
DEVICE = options.device
if DEVICE == "cuda" and not torch.cuda.is_available():
    sys.exit(f"test-gpu: torch {torch.__version__} sees no GPU (torch.cuda.is_available() is False)")

from sparta import _reference  # noqa: E402
from sparta._blocks import Blocks  # noqa: E402
from sparta._library import Context, lib, new, numbers, types  # noqa: E402

if DEVICE == "cuda" and lib.sparta_gpus() < 1:
    sys.exit(f"test-gpu: sparta sees no GPU: {os.fsdecode(lib.sparta_gpu_problem() or b'')}")

# name: torch's type, may it be rounded to tf32, relative error of one rounding of the result, of one product
KINDS = {
    "f16": (torch.float16, 0, 2**-11, 0.0),
    "bf16": (torch.bfloat16, 0, 2**-8, 0.0),
    "f32": (torch.float32, 0, 2**-24, 2**-24),
    "tf32": (torch.float32, 1, 2**-24, 2**-9),
}
SUM = 2**-23  # of one addition in a tensor core, which cuts off what does not fit
TINY = 2**-24  # f16's smallest step
_DTYPE = {torch.float16: "SPARTA_F16", torch.bfloat16: "SPARTA_BF16", torch.float32: "SPARTA_F32", torch.int32: "SPARTA_I32", torch.bool: "SPARTA_BOOL"}
E_UNSUPPORTED = numbers["SPARTA_E_UNSUPPORTED"]


# ---------------------------------------------------------------- counting
class Tests:
    def __init__(self):
        self.passed = self.failed = 0
        self.name, self.begun = "", 0.0

    def section(self, name, function, needs_gpu=True):
        if options.only and not any(word in name if word[0] != "=" else word[1:] == name for word in options.only):
            return
        if needs_gpu and DEVICE != "cuda":
            return
        self.name, begin, before = name, time.monotonic(), (self.passed, self.failed)
        torch.manual_seed(0)
        self.check("the section", function, quiet=True)
        passed, failed = self.passed - before[0], self.failed - before[1]
        print(f"{name}: {passed} passed, {failed} failed, {time.monotonic() - begin:.1f} s", flush=True)

    def check(self, name, function, *arguments, quiet=False):
        """A check fails by an exception; what it returns is shown."""
        try:
            said = function(*arguments)
            self.passed += not quiet
            if said:
                print(f"  ok {self.name}: {name}  {said}", flush=True)
        except Exception as error:
            self.failed += 1
            if self.failed <= 60:
                print(f"  not ok {self.name}: {name}: {type(error).__name__}: {str(error)[:600]}", flush=True)
                if not isinstance(error, AssertionError):
                    traceback.print_exc(limit=-4, file=sys.stdout)

    def side_by_side(self, names, jobs):
        """Each section by a process of its own: most of their time is that of compiling kernels, which one process does one after the other."""
        command = [sys.executable, os.path.abspath(sys.argv[0]), "--device", DEVICE, *(["--small"] if options.small else [])]

        def run(name):
            return subprocess.run([*command, "--only", "=" + name], capture_output=True, text=True, check=False)

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for name, done in zip(names, pool.map(run, names)):
                print("\n".join(done.stdout.splitlines()[:-1]), done.stderr[-2000:] if done.returncode else "", flush=True)
                count = re.fullmatch(r"(\d+) passed, (\d+) failed", (done.stdout.splitlines() or [""])[-1])
                if count is None:
                    print(f"  not ok {name}: it ended with {done.returncode}")
                self.passed += int(count[1]) if count else 0
                self.failed += int(count[2]) if count else 1

    def finish(self):
        if not self.passed + self.failed:
            print("no check was run")
            self.failed = 1
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


def need(condition, said=""):
    if not condition:
        raise AssertionError(said)


def refused(kind, words, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except kind as error:
        need(words in str(error), f"said {str(error)!r}, which lacks {words!r}")
        return error
    raise AssertionError("it was accepted")


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


# ---------------------------------------------------------------- patterns and numbers
def pattern(rows, cols, block, density=0.5, ragged=False, kept_rows=None):
    """Blocks at random places; kept_rows: a function of the row of blocks, False: it has none."""
    down, right = -(-rows // block[0]), -(-cols // block[1])
    grid = torch.rand(down, right) < density
    if density >= 1:
        grid[:] = True
    if kept_rows:
        grid &= torch.tensor([bool(kept_rows(r)) for r in range(down)])[:, None]
    mask = grid.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)[:rows, :cols]
    if ragged:
        mask = mask & (torch.rand(rows, cols) < 0.8)
    return Blocks.from_mask(mask.to(DEVICE), block)


def numbers_of(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=DEVICE).to(dtype)


def values_of(blocks, dtype=torch.float32):
    return numbers_of(blocks.crd.numel(), *blocks.block, dtype=dtype)


def stepped(tokens, features, dtype, step=None):
    """(tokens, features) whose lines lie `step` elements apart."""
    step = step or features
    return numbers_of(max(tokens, 1), step, dtype=dtype)[:tokens, :features]


# ---------------------------------------------------------------- calls of the library
def view(t):
    s = types["sparta_tensor"](dtype=numbers[_DTYPE[t.dtype]], rank=t.dim(), data=t.data_ptr(), device=1 + (t.device.index or 0) if t.is_cuda else 0)
    for i in range(t.dim()):
        s.dim[i], s.stride[i] = t.shape[i], t.stride(i)
    return s


def cube(t):
    """(tokens, features) as (1, features, tokens)."""
    return view(t.t().unsqueeze(0))


def struct(blocks, values, index=None):
    rows, cols, height, width = blocks.sizes
    s = new("sparta_blocks", rows=rows, cols=cols, height=height, width=width, batch=1, patterns=1)
    s.pos, s.crd, s.values = view(blocks.pos), view(blocks.crd), view(values)
    if blocks.keep is not None:
        s.keep = view(blocks.keep)
    if index is not None:
        s.index = view(index)
    return s


class Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def _launch(verb, s, x, y, tf32, own):
    launch = new("sparta_launch", tf32=tf32, own=own)
    if DEVICE == "cuda":
        launch.stream = torch.cuda.current_stream().cuda_stream
    bytes = lib.sparta_blocks_workspace(numbers[verb], s, x, y, launch)
    room = torch.empty(bytes, dtype=torch.uint8, device=DEVICE)
    launch.workspace, launch.workspace_bytes = room.data_ptr() or None, bytes
    return launch, room


def _said(status, message):
    if status:
        raise Refused(status, os.fsdecode(message.value))


def multiply(blocks, values, x, turned=False, tf32=0, index=None, epilogue=None, bias=None, residual=None, own=1):
    """y (tokens, made), whose memory was poisoned before. own 0: cuBLASLt may do it."""
    made = blocks.shape[1 if turned else 0]
    y = torch.full((x.shape[0], made), float("nan"), dtype=x.dtype, device=DEVICE)
    s, a, b, message = struct(blocks, values, index), cube(x), cube(y), ctypes.create_string_buffer(512)
    options = new("sparta_multiply_options", turned=int(turned), epilogue=epilogue)
    held = [view(bias) if bias is not None else None, cube(residual) if residual is not None else None]
    for name, tensor in zip(("bias", "residual"), held):
        if tensor is not None:
            setattr(options, name, ctypes.pointer(tensor))
    launch, room = _launch("SPARTA_MULTIPLY_TURNED" if turned else "SPARTA_MULTIPLY", s, a, b, tf32, own)
    _said(lib.sparta_blocks_multiply(s, a, b, options, launch, message, 512), message)
    return y


def sample(blocks, a, c, scale=1.0, tf32=0, index=None, own=1):
    """a (tokens, rows), c (tokens, cols): the values."""
    values = torch.full((1, blocks.crd.numel(), *blocks.block), float("nan"), dtype=a.dtype, device=DEVICE)
    s, message = struct(blocks, values, index), ctypes.create_string_buffer(512)
    one, two = cube(a), cube(c)
    launch, room = _launch("SPARTA_SAMPLE", s, one, two, tf32, own)
    _said(lib.sparta_blocks_sample(s, one, two, scale, launch, message, 512), message)
    return values[0]


def tune(verb, blocks, values, x, y, db, epilogue=None, bias=None, residual=None, again=0):
    """The points of such a call, measured: (what was found, notes). x and y (tokens, features)."""
    s, a, b = struct(blocks, values, make_index(blocks)), cube(x), cube(y)
    options = new("sparta_multiply_options", epilogue=epilogue)
    held = [view(bias) if bias is not None else None, cube(residual) if residual is not None else None]
    for name, tensor in zip(("bias", "residual"), held):
        if tensor is not None:
            setattr(options, name, ctypes.pointer(tensor))
    call = new("sparta_tune_call", verb=numbers[verb], s=ctypes.pointer(s), x=ctypes.pointer(a), y=ctypes.pointer(b), db=db, again=again)
    call.options, found, context = ctypes.pointer(options), new("sparta_tuned"), Context()
    context.call("sparta_blocks_tune", call, found)
    return found, os.fsdecode(lib.sparta_notes(context.cx) or b"")


def make_index(blocks):
    return torch.ops.sparta.make_index(blocks.pos, blocks.crd, *blocks.sizes)


# ---------------------------------------------------------------- what is right, and how far off a right answer may be
def within(got, want, bound, said=""):
    need(got.shape == want.shape, f"{tuple(got.shape)}, not {tuple(want.shape)}")
    if not want.numel():
        return
    off = (got.double() - want).abs()
    bad = ~(off <= bound)
    if bool(bad.any()):
        at = tuple(int(i) for i in bad.nonzero()[0])
        raise AssertionError(f"{said} {int(bad.sum())} of {bad.numel()} are off; at {at}: {float(got[at])}, not {float(want[at])} within {float(bound[at]):.3g}")


def product_bound(kind, size, terms, want):
    """terms: the sum of the absolute products; size: how many there are."""
    _, _, rounding, each = KINDS[kind]
    return rounding * want.abs() + (each + (size + 4) * SUM) * terms + TINY


def check_product(blocks, values, x, turned, kind, **how):
    dense = blocks.unpack(values.double())
    dense = dense.t() if turned else dense
    y = multiply(blocks, values, x, turned, KINDS[kind][1], **how)
    want, terms = x.double() @ dense.t(), x.double().abs() @ dense.abs().t()
    within(y, want, product_bound(kind, dense.shape[1], terms, want))
    return y


def check_sample(blocks, a, c, kind, scale=0.5, **how):
    values = sample(blocks, a, c, scale, KINDS[kind][1], **how)
    want = blocks.pack(a.double().t() @ c.double()) * scale
    terms = blocks.pack(a.double().abs().t() @ c.double().abs()) * abs(scale)
    within(values, want, product_bound(kind, a.shape[0], terms, want))
    return values


def close(got, want, tolerance, said=""):
    need(got.shape == want.shape and got.dtype == want.dtype, f"{said} {got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}")
    off = float((got.double() - want.double()).abs().max()) if want.numel() else 0.0
    need(off <= tolerance * max(1.0, float(want.double().abs().max()) if want.numel() else 0.0), f"{said} off by {off}")


class CountDense:
    """How often torch's dense product ran in place of a kernel of ours."""

    def __enter__(self):
        self.n, self._pattern = 0, _reference._pattern

        def counted(*arguments):
            self.n += 1
            return self._pattern(*arguments)

        _reference._pattern = counted
        return self

    def __exit__(self, *_):
        _reference._pattern = self._pattern


ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


def epilogue_of(text, x, bias, residual):
    for word in text.split():
        x = x + bias if word == "bias" else x + residual if word == "add" else x * residual if word == "mul" else ACTIVATIONS[word](x)
    return x


__all__ = [name for name in dir() if not name.startswith("_")] + ["math"]
