"""torch.ops.sparta against dense torch: answers, gradients, torch's own checks of operators; bad arguments, leaks, threads, forks, compile, export."""

import ctypes
import os
import shutil
import subprocess
import sys
import threading
import time

from common import ROOT, NotRun, Tests, need, refused  # says where sparta is, before it is imported

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

from sparta import _operators as ops
from sparta import _reference
from sparta import _torch as door
from sparta._blocks import Blocks

tests = Tests()
torch.manual_seed(0)
torch.set_num_threads(2)
DTYPES = {torch.float32: 2e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2, torch.float16: 4e-3}
BLOCKS = [(1, 1), (2, 1), (4, 1), (8, 8), (16, 16), (3, 5)]


def pattern(rows=24, cols=40, block=(4, 1), density=0.3, patterns=1, ragged=False):
    """Blocks at random places; ragged: some of their elements do not exist, and the matrix is no multiple of the block."""
    rows, cols = (rows - 1, cols - 1) if ragged else (rows, cols)
    grid = [patterns] * (patterns > 1) + [-(-rows // block[0]), -(-cols // block[1])]
    mask = (torch.rand(grid) < density).repeat_interleave(block[0], -2).repeat_interleave(block[1], -1)[..., :rows, :cols]
    if ragged:
        mask = mask & (torch.rand(mask.shape) < 0.8)
    return Blocks.from_mask(mask, block)


def numbers(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_(grad)


def values_of(blocks, *batch, dtype=torch.float32, grad=False):
    return numbers(*batch, blocks.crd.numel(), *blocks.block, dtype=dtype, grad=grad)


def index(blocks):
    return blocks.pos, blocks.crd, blocks.keep, None


def sizes(blocks):
    return *blocks.shape, *blocks.block


def close(got, want, tolerance):
    need(got.shape == want.shape and got.dtype == want.dtype, f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}")
    got, want = got.detach(), want.detach()
    off = float((got.double() - want.double()).abs().max()) if want.numel() else 0.0
    need(off <= tolerance * max(1.0, float(want.abs().max()) if want.numel() else 0.0), f"off by {off}")


def dense(name, *arguments):
    """What an operator means, in double."""
    wide = [a.detach().double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]
    return _reference.OPERATORS[name](*wide)


def agrees(name, *arguments):
    got = getattr(torch.ops.sparta, name)(*arguments)
    close(got, dense(name.removesuffix("_run"), *arguments).to(got.dtype), DTYPES[got.dtype])


# ---------------------------------------------------------------- answers
LAYOUTS = {
    "contiguous": lambda n, dtype, grad: numbers(5, n, dtype=dtype, grad=grad),
    "transposed": lambda n, dtype, grad: numbers(n, 6, dtype=dtype, grad=grad).t(),
    "0 rows": lambda n, dtype, grad: numbers(0, n, dtype=dtype, grad=grad),
    "1-D": lambda n, dtype, grad: numbers(n, dtype=dtype, grad=grad),
    "3-D": lambda n, dtype, grad: numbers(2, 3, n, dtype=dtype, grad=grad),
    "3-D that does not merge": lambda n, dtype, grad: numbers(3, 2, n, dtype=dtype, grad=grad).transpose(0, 1),
    "expanded": lambda n, dtype, grad: numbers(1, n, dtype=dtype, grad=grad).expand(7, n),
    "every second": lambda n, dtype, grad: numbers(9, 2 * n, dtype=dtype, grad=grad)[::2, ::2],
    "many": lambda n, dtype, grad: numbers(131, n, dtype=dtype, grad=grad),
    "9 dims": lambda n, dtype, grad: numbers(2, 1, 1, 2, 1, 1, 1, 2, n, dtype=dtype, grad=grad),
}


def layers(dtype, block):
    for ragged in (False, True):
        blocks = pattern(block=block, ragged=ragged)
        rows, cols = blocks.shape
        values, bias = values_of(blocks, dtype=dtype), numbers(rows, dtype=dtype)
        for make in LAYOUTS.values():
            agrees("linear", make(cols, dtype, False), values, *index(blocks), bias, *sizes(blocks))
            agrees("linear_run", make(cols, dtype, False), values, *index(blocks), None, *sizes(blocks))
            agrees("linear_turned", make(rows, dtype, False), values, *index(blocks), *sizes(blocks))


def batches(dtype, block):
    for batch, patterns, ragged in ((1, 1, False), (3, 1, True), (3, 3, False), (2, 2, True)):
        blocks = pattern(block=block, patterns=patterns, ragged=ragged)
        rows, cols = blocks.shape
        lead = (batch,) if patterns == 1 else ()
        values, rest = values_of(blocks, *lead, dtype=dtype), (*index(blocks), *sizes(blocks), patterns)
        for swap in (False, True):
            a, c, x, y = (
                numbers(batch, *((7, n) if swap else (n, 7)), dtype=dtype).transpose(1, 2) if swap else numbers(batch, n, 7, dtype=dtype)
                for n in (rows, cols, cols, rows)
            )
            agrees("multiply", x, values, *rest, False)
            agrees("multiply", y, values, *rest, True)
            agrees("sample", a, c, *rest, 0.5)
        if patterns == 1:
            agrees("multiply", x, values[0], *rest, False)
            agrees("multiply", y, values[0], *rest, True)
        agrees("softmax", values, *rest, 0.7)
        agrees("softmax_gradient", ops.softmax(values, *rest, 0.7), values_of(blocks, *lead, dtype=dtype), *rest, 0.7)


def empties():
    none = pattern(density=0)
    agrees("linear", numbers(3, 40), values_of(none), *index(none), numbers(24), *sizes(none))
    agrees("multiply", numbers(2, 40, 3), values_of(none, 2), *index(none), *sizes(none), 1, False)
    agrees("multiply", numbers(0, 40, 3), values_of(none, 0), *index(none), *sizes(none), 1, False)
    agrees("sample", numbers(2, 24, 3), numbers(2, 40, 3), *index(none), *sizes(none), 1, 1.0)
    agrees("softmax", values_of(none, 2), *index(none), *sizes(none), 1, 1.0)
    blocks = pattern()
    agrees("sample", numbers(2, 24, 0), numbers(2, 40, 0), *index(blocks), *sizes(blocks), 1, 1.0)
    agrees("multiply", numbers(2, 40, 0), values_of(blocks, 2), *index(blocks), *sizes(blocks), 1, False)
    flat = Blocks.from_mask(torch.zeros(0, 8, dtype=torch.bool), (1, 1))
    agrees("linear", numbers(3, 8), values_of(flat), *index(flat), None, *sizes(flat))


def functions():
    """The four functions of _torch.py, with and without batches."""
    for patterns in (1, 3):
        blocks = pattern(patterns=patterns, ragged=True)
        rows, cols = blocks.shape
        shapes = [(blocks.crd.numel(), *blocks.block)] + ([(3, blocks.crd.numel(), *blocks.block), (1, blocks.crd.numel(), *blocks.block)] if patterns == 1 else [])
        for shape in shapes:
            values = numbers(*shape, dtype=torch.float64)
            whole = blocks.unpack(values)
            close(blocks.unpack(door.softmax(values, blocks)), masked_softmax(whole, blocks.mask()), 1e-12)
            for lead in ((), (3,), (1,)):
                close(door.multiply(values, blocks, x := numbers(*lead, cols, 5, dtype=torch.float64)), whole @ x, 1e-12)
                close(door.multiply(values, blocks, x := numbers(*lead, rows, 5, dtype=torch.float64), True), whole.mT @ x, 1e-12)
        for la in ((), (3,), (1,)):
            for lc in ((), (3,)):
                a, c = numbers(*la, rows, 5, dtype=torch.float64), numbers(*lc, cols, 5, dtype=torch.float64)
                product = (a @ c.mT).expand(*((3,) if patterns == 3 else ()), *(a @ c.mT).shape[-2:]) if patterns == 3 else a @ c.mT
                close(door.sample(a, c, blocks, 2.0), blocks.pack(product * 2), 1e-12)


def masked_softmax(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1).nan_to_num(0)


for dtype in DTYPES:
    for block in BLOCKS:
        name = f"{str(dtype)[6:]} {block[0]}x{block[1]}"
        tests.check(f"linear {name}", layers, dtype, block)
        tests.check(f"batches {name}", batches, dtype, block)
tests.check("empty patterns, batches and sizes", empties)
tests.check("functions take batches or none", functions)


# ---------------------------------------------------------------- torch's own checks
def operator_checks(dtype):
    done = 0
    for grad in (False, True):
        for layout in ("contiguous", "transposed", "0 rows", "1-D", "3-D") if not grad else ("3-D",):
            blocks = pattern(8, 12, ragged=layout == "3-D")
            rows, cols = blocks.shape
            values, bias = values_of(blocks, dtype=dtype, grad=grad), numbers(rows, dtype=dtype, grad=grad)
            make = LAYOUTS[layout]
            done += checked(ops.linear, make(cols, dtype, grad), values, *index(blocks), bias, *sizes(blocks))
            done += checked(ops.linear_turned, make(rows, dtype, grad), values, *index(blocks), *sizes(blocks))
            if layout == "contiguous":
                done += checked(ops.linear_run, make(cols, dtype, grad), values, *index(blocks), None, *sizes(blocks))
        for batch, patterns in ((2, 1), (2, 2)):
            blocks = pattern(8, 12, patterns=patterns, ragged=patterns == 2)
            rows, cols = blocks.shape
            lead = (batch,) if patterns == 1 else ()
            rest = (*index(blocks), *sizes(blocks), patterns)
            values = values_of(blocks, *lead, dtype=dtype, grad=grad)
            a, c = numbers(batch, rows, 3, dtype=dtype, grad=grad), numbers(batch, 3, cols, dtype=dtype, grad=grad).transpose(1, 2)
            done += checked(ops.multiply, c, values, *rest, False) + checked(ops.multiply, a, values, *rest, True)
            done += checked(ops.sample, a, c, *rest, 0.5) + checked(ops.softmax, values, *rest, 0.5)
            done += checked(ops.softmax_gradient, values, values_of(blocks, *lead, dtype=dtype, grad=grad), *rest, 0.5)
    return f"{done} checks"


def checked(operator, *arguments):
    report = opcheck(operator, arguments)
    need(set(report.values()) == {"SUCCESS"}, report)
    return len(report)


def gradients():
    kind = torch.float64
    for block, ragged in (((4, 1), True), ((3, 5), True), ((1, 1), False)):
        blocks = pattern(5, 7, block, 0.5, ragged=ragged)
        rows, cols = blocks.shape
        both(lambda x, v, b, at=blocks: door.linear(x, v, at, b), numbers(2, 2, cols, dtype=kind, grad=True), values_of(blocks, dtype=kind, grad=True),
             numbers(rows, dtype=kind, grad=True))
        both(lambda x, v, at=blocks: ops.linear_turned(x, v, *index(at), *sizes(at)), numbers(3, rows, dtype=kind, grad=True),
             values_of(blocks, dtype=kind, grad=True))
    for patterns, lead in ((1, (2,)), (1, ()), (2, ())):
        blocks = pattern(5, 7, (2, 2), 0.5, patterns, ragged=True)
        rows, cols = blocks.shape
        values = values_of(blocks, *lead, dtype=kind, grad=True)
        for n, turned in ((cols, False), (rows, True)):
            both(lambda v, x, at=blocks, turned=turned: door.multiply(v, at, x, turned), values, numbers(2, n, 2, dtype=kind, grad=True))
        both(lambda a, c, at=blocks: door.sample(a, c, at, 0.3), numbers(2, rows, 2, dtype=kind, grad=True), numbers(2, cols, 2, dtype=kind, grad=True))
        both(lambda v, at=blocks: door.softmax(v, at, 0.7), values)


def both(function, *arguments):
    need(gradcheck(function, arguments), "gradcheck")
    need(gradgradcheck(function, arguments), "gradgradcheck")


for dtype in DTYPES:
    tests.check(f"opcheck {str(dtype)[6:]}", operator_checks, dtype)
tests.check("first and second derivatives", gradients)


# ---------------------------------------------------------------- what is refused
def wrong_arguments():
    blocks = pattern()
    x, values, bias = numbers(3, 40), values_of(blocks), numbers(24)

    def linear(words, kind=RuntimeError, **other):
        given = {"x": x, "values": values, "pos": blocks.pos, "crd": blocks.crd, "keep": None, "index": None, "bias": bias}
        for operator in (ops.linear, ops.linear_run):
            refused(kind, words, operator, **{**given, "rows": 24, "cols": 40, "height": 4, "width": 1, **other})

    last, column = int(blocks.pos[-1]), blocks.crd.clone()
    falling, high, low, huge = (blocks.pos.clone() for _ in range(4))
    falling[2] = falling[1] - 1
    high[-1], low[0], huge[-1] = last + 1, -1, 2**31 - 1
    twice = blocks.crd.clone()
    row = int((blocks.pos.diff() > 1).nonzero()[0])
    twice[blocks.pos[row] + 1] = twice[blocks.pos[row]]
    for words, other in (
        ("x has 39 features", {"x": numbers(3, 39)}),
        ("x has 0 dims", {"x": torch.tensor(1.0)}),
        ("[E_DTYPE]", {"x": x.double()}),
        ("type that is not taken", {"x": x.long()}),
        ("type that is not taken", {"values": values.to(torch.complex64)}),
        ("bias must be one dim of 24", {"bias": numbers(23)}),
        ("[E_DTYPE]", {"bias": bias.half()}),
        ("values", {"values": values[1:]}),
        ("values", {"values": values.flatten()}),
        ("values has 4 dims", {"values": values[None]}),
        ("pos has a type", {"pos": blocks.pos.long()}),
        ("pos is f32", {"pos": blocks.pos.float()}),
        ("pos is i32 of 2 dims", {"pos": blocks.pos[None]}),
        ("pos", {"pos": blocks.pos[:-1].contiguous()}),
        ("not contiguous", {"crd": torch.stack([column, column], 1)[:, 0]}),
        ("[E_", {"pos": falling}),
        ("[E_", {"pos": high}),
        ("[E_", {"pos": low}),
        ("[E_", {"pos": huge}),
        ("[E_", {"crd": column + 40}),
        ("[E_", {"crd": column - 40}),
        ("[E_", {"crd": column.flip(0).contiguous()}),
        ("[E_", {"crd": twice}),
        ("[E_", {"cols": 8, "x": numbers(3, 8)}),
        ("[E_", {"rows": 2**62}),
        ("is none", {"rows": 2**31}),
        ("is none", {"cols": 2**31}),
        ("is none", {"rows": -24}),
        ("is none", {"height": 0}),
        ("is none", {"height": 2**61}),
        ("is none", {"width": 65537}),
        ("keep is f32", {"keep": values}),
        ("keep", {"keep": torch.ones(3, 4, 1, dtype=torch.bool)}),
        ("keep", {"keep": torch.ones(0, 4, 1, dtype=torch.bool)}),
        ("keep", {"keep": torch.ones(last, 0, 1, dtype=torch.bool)}),
        ("[E_", {"x": numbers(0, 40), "crd": column + 40}),
        ("[E_", {"x": numbers(0, 40), "values": values[1:]}),
    ):
        try:
            linear(words, **other)
        except AssertionError as error:
            raise AssertionError(f"{words} {list(other)}: {error}") from None
    good = (*index(blocks), *sizes(blocks))
    for words, operator, *arguments in (
        ("(batch, ., features)", ops.multiply, x, values, *good, 1, False),
        ("[E_", ops.multiply, numbers(2, 39, 3), values, *good, 1, False),
        ("[E_", ops.multiply, numbers(2, 40, 3), values_of(blocks, 3), *good, 1, False),
        ("[E_", ops.multiply, numbers(2, 40, 0), values, blocks.pos, column - 40, None, None, *sizes(blocks), 1, False),
        ("patterns is 0", ops.multiply, numbers(2, 40, 3), values, *good, 0, False),
        ("[E_", ops.multiply, numbers(2, 40, 3), values, *good, 2, False),
        ("values has 4 dims", ops.multiply, numbers(2, 40, 3), values[None], *good, 2, False),
        ("patterns is", ops.multiply, numbers(2, 40, 3), values, *good, 2**62, False),
        ("[E_", ops.sample, numbers(2, 24, 3), numbers(2, 40, 4), *good, 1, 1.0),
        ("[E_", ops.sample, numbers(2, 24, 3), numbers(3, 40, 3), *good, 1, 1.0),
        ("[E_DTYPE]", ops.sample, numbers(2, 24, 3), numbers(2, 40, 3).double(), *good, 1, 1.0),
        ("[E_", ops.softmax, values[1:], *good, 1, 1.0),
        ("[E_", ops.softmax_gradient, values[None], values_of(blocks, 2), *good, 1, 1.0),
    ):
        refused(RuntimeError, words, operator, *arguments)


def none_for_a_tensor():
    """None in the place of any tensor of any operator, the others right: a sentence, and never a word that a bug of ours has."""
    blocks, done = pattern(), 0
    given = {"pos": blocks.pos, "crd": blocks.crd, "keep": None, "index": None, "bias": None, "rows": 24, "cols": 40, "height": 4, "width": 1}
    given |= {"patterns": 1, "scale": 1.0, "turned": False, "pairs": 480, "weight": numbers(24, 40), "packed": torch.zeros(480, dtype=torch.int32)}
    given |= {"values": values_of(blocks), "probabilities": values_of(blocks), "gradient": values_of(blocks), "a": numbers(24, 3), "c": numbers(40, 3)}
    names = sorted(name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names() if name.startswith("sparta::"))
    for name in names:
        operator = getattr(torch.ops.sparta, name).default
        batch = 2 if "multiply" in name or "sample" in name else 0
        x = numbers(2, 40, 3) if "multiply" in name else numbers(3, 24) if "turned" in name else numbers(3, 40)
        right = {a.name: {**given, "x": x}[a.name] for a in operator._schema.arguments}
        if batch:
            right |= {key: right[key][None].expand(2, -1, -1).contiguous() for key in ("a", "c") if key in right}
        for argument in operator._schema.arguments:
            if str(argument.type) != "Tensor" or name.endswith("_dense"):  # those are torch's own words
                continue
            try:
                operator(**{**right, argument.name: None})
            except (RuntimeError, TypeError, AttributeError) as error:
                need("E_INTERNAL" not in str(error), f"{name}, {argument.name}: {str(error).splitlines()[0]}")
                done += f"{argument.name} is None" in str(error) or "first argument is None" in str(error)
            else:
                raise AssertionError(f"{name}: {argument.name} None was accepted")
    need(done >= 20, f"only {done} were refused by us")
    return f"{done} by us"


def python_errors():
    """The functions raise what Python has for it, in one line without codes."""
    blocks, x = pattern(), numbers(3, 40)
    values = values_of(blocks)
    for kind, words, function, *arguments in (
        (ValueError, "linear: x has 7 features; the weight takes 40", door.linear, numbers(3, 7), values, blocks),
        (TypeError, "", door.linear, x.double(), values, blocks),
        (ValueError, "", door.multiply, values, blocks, numbers(2, 7, 3)),
        (ValueError, "", door.sample, numbers(24, 3), numbers(40, 4), blocks),
        (ValueError, "", door.softmax, values[1:], blocks),
    ):
        error = refused(kind, words, function, *arguments)
        need("[E_" not in str(error) and "sparta::" not in str(error) and error.status.startswith("E_"), str(error))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10


def leaks():
    """Successes, copies of what does not merge, and failures of each kind."""
    blocks = pattern(ragged=True)
    rows, cols = blocks.shape
    values, bias, x = values_of(blocks), numbers(rows), numbers(16, cols)
    apart = numbers(4, 4, cols).transpose(0, 1)

    def round():
        for _ in range(2000):
            ops.linear_run(x, values, *index(blocks), bias, *sizes(blocks))
            ops.linear_run(apart, values, *index(blocks), bias, *sizes(blocks))
            ops.softmax(values.transpose(0, 1).contiguous().transpose(0, 1), *index(blocks), *sizes(blocks), 1, 1.0)
            for wrong in (x[:, 1:], x.double()):
                try:
                    ops.linear_run(wrong, values, *index(blocks), bias, *sizes(blocks))
                except RuntimeError:
                    pass

    round()
    before = resident()
    for _ in range(4):
        round()
    need(resident() - before < 3000, f"{resident() - before} KiB more")
    return f"{resident() - before:+} KiB after 40,000 calls"


def no_room():
    """A result that no memory holds is an error, and the next call works."""
    blocks = pattern()
    values = values_of(blocks)
    quiet = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # torch before 2.13 prints a backtrace
    try:
        refused(RuntimeError, "no memory", ops.linear_turned, torch.zeros(1, 24).expand(1 << 43, 24), values, *index(blocks), *sizes(blocks))
    finally:
        os.dup2(quiet, 2)
        os.close(null)
    agrees("linear_turned", numbers(3, 24), values, *index(blocks), *sizes(blocks))


tests.check("wrong arguments, one line each", wrong_arguments)
tests.check("None for a tensor", none_for_a_tensor)
tests.check("exceptions of Python", python_errors)
tests.check("leaks", leaks)
tests.check("no memory", no_room)


# ---------------------------------------------------------------- threads and processes
def layer_of(tokens=64, n=256):
    blocks = pattern(n, n)
    values, x = values_of(blocks), numbers(tokens, n)
    return x, values, blocks, torch.nn.functional.linear(x, blocks.unpack(values))


def same(x, values, blocks, want, times=1):
    for _ in range(times):
        close(door.linear(x, values, blocks), want, 2e-5)


def in_threads():
    failed, layer = [], layer_of()

    def work():
        try:
            same(*layer, times=30)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    need(not failed, failed)
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        same(*layer)
    torch.set_num_threads(2)


def forked():
    """After the parent's threads have run."""
    layer = layer_of()
    same(*layer)
    pid = os.fork()
    if pid == 0:
        try:
            torch.set_num_threads(1)  # torch's own threads are not there in a child
            same(*layer)
            os._exit(0)
        except BaseException:
            os._exit(1)
    limit = time.monotonic() + 600
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > limit:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.01)
    need(ended[1] == 0, f"the child ended with {ended[1]}")


class Computed(torch.utils.data.Dataset):
    def __init__(self, layer):
        self.layer = layer

    def __len__(self):
        return 4

    def __getitem__(self, i):
        x, values, blocks, _ = self.layer
        return door.linear(x, values, blocks)


def workers():
    layer = layer_of()
    same(*layer)
    for batch in torch.utils.data.DataLoader(Computed(layer), num_workers=2, timeout=120):
        close(batch[0], layer[3], 2e-5)


def script(text, **environment):
    """Runs a program in a fresh interpreter; what it prints."""
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), **environment})
    need(done.returncode == 0, done.stderr[-600:])
    return done.stdout.strip()


def without_torch():
    text = "import sys; sys.modules['torch'] = None\nimport sparta\ntry:\n    import sparta._operators\nexcept ImportError as e: print(e)"
    said = script(text)
    need("torch 2.10 or newer" in said and "\n" not in said, said)
    need(script("import sparta, sys; print('torch' in sys.modules)") == "False", "import sparta imports torch")


def imports():
    """What `import sparta` brings beside its own modules: nothing that is not Python's or NumPy's, and of torch only what torch itself has imported."""
    text = """if True:
        import sys, torch, torch.library
        before = set(sys.modules)
        import sparta, sparta._torch
        print(*sorted(set(sys.modules) - before))"""
    brought = script(text).split()
    ours = [name for name in brought if name.split(".")[0] == "sparta"]
    others = [name for name in brought if name.split(".")[0] not in {"sparta", "numpy", *sys.stdlib_module_names}]
    need("sparta._torch" in ours and not others, f"it imports {others}")
    later = {"stages", "tuning", "tensors", "sparsifiers", "compat", "dynamo", "prune", "nn", "masked", "testing"} & {name.split(".")[1] for name in ours if "." in name}
    need(not later, f"it imports {sorted(later)}, which are for when they are asked for")
    return f"{len(ours)} modules of ours, {len(brought) - len(ours)} of Python and NumPy"


def registered():
    """Again is nothing; a second copy of the library says why it cannot; a library without torch, too."""
    need(ops._library.sp_torch_register() is None, "registering again")
    copy = os.path.join(getattr(tests.work, "name", tests.work), "libsparta_torch.so")
    shutil.copy(ops._library._name, copy)
    library = ctypes.CDLL(copy)
    library.sp_torch_register.restype = ctypes.c_char_p
    quiet, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    said = library.sp_torch_register()
    os.dup2(quiet, 2)
    need(said and b"another copy" in said, said)
    text = f"import sparta, ctypes; l = ctypes.CDLL({ops._library._name!r}); l.sp_torch_register.restype = ctypes.c_char_p; print(l.sp_torch_register())"
    need("import torch first" in script(text), "without torch")


tests.check("threads", in_threads)
tests.check("a forked child", forked)
tests.check("workers of a DataLoader", workers)
tests.check("without torch", without_torch)
tests.check("what is imported", imports)
tests.check("registering twice", registered)


# ---------------------------------------------------------------- torch around it
def autocast():
    blocks = pattern()
    x, values, bias = numbers(5, 40, grad=True), values_of(blocks, grad=True), numbers(24)
    for kind in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=kind):
            y = door.linear(x, values, blocks, bias)
            with torch.no_grad():
                need(door.linear(x, values, blocks, bias).dtype == kind, "linear_run")
            p = door.softmax(door.sample(numbers(24, 8), numbers(40, 8), blocks), blocks)
            z = door.multiply(p, blocks, numbers(40, 8))
        need(y.dtype == p.dtype == z.dtype == kind, (y.dtype, p.dtype, z.dtype))
        dx, dv = torch.autograd.grad(y.float().sum(), (x, values))
        need(dx.dtype == dv.dtype == torch.float32, (dx.dtype, dv.dtype))
        close(y.float(), dense("linear", x, values, *index(blocks), bias, *sizes(blocks)).float(), DTYPES[kind])


def meta():
    blocks = pattern()
    there = Blocks(blocks.pos.to("meta"), blocks.crd.to("meta"), None, blocks.shape, blocks.block)
    values = values_of(blocks).to("meta")
    need(door.linear(torch.empty(2, 3, 40, device="meta"), values, there).shape == (2, 3, 24), "linear")
    need(door.multiply(values, there, torch.empty(24, 3, device="meta"), True).shape == (40, 3), "multiply")
    need(door.sample(torch.empty(2, 24, 3, device="meta"), torch.empty(2, 40, 3, device="meta"), there).shape == (2, *values.shape), "sample")
    refused(TypeError, "cpu and on meta", door.linear, numbers(3, 40), values, there)
    refused(TypeError, "meta and on cpu", door.linear, torch.empty(3, 40, device="meta"), values_of(blocks), blocks)
    refused(TypeError, "one device", door.multiply, values_of(blocks), blocks, torch.empty(40, 3, device="meta"))
    refused(TypeError, "one device", door.sample, numbers(24, 3), torch.empty(40, 3, device="meta"), blocks)
    refused(TypeError, "one device", door.softmax, values_of(blocks), there)
    refused(TypeError, "one device", door.softmax, values_of(blocks, grad=True), there)


def nothing_kept_by_infinity():
    """An element of a block that is not kept is a 0, and 0 times infinity is NaN, as in torch."""
    blocks = Blocks.from_mask(torch.tensor([[True, False], [True, True]]), (2, 2))
    for dtype in DTYPES:
        x = torch.tensor([[1.0, float("inf")]], dtype=dtype)
        values = torch.ones(1, 2, 2, dtype=dtype)
        got, want = door.linear(x, values, blocks), torch.nn.functional.linear(x, blocks.unpack(values))
        need(torch.equal(got.isnan(), want.isnan()) and bool(want.isnan()[0, 0]), (dtype, got, want))
        need(bool(door.softmax(values, blocks, float("nan"))[0, 1].isnan().all()), dtype)


def gpu():
    """Where there is no kernel of ours the dense formula runs, gradients and all; arguments on two devices are refused."""
    if not torch.cuda.is_available():
        raise NotRun("no GPU")
    blocks = pattern(ragged=True)
    there = Blocks(blocks.pos.cuda(), blocks.crd.cuda(), blocks.keep.cuda(), blocks.shape, blocks.block)
    x, values, y = numbers(3, blocks.shape[1], grad=True), values_of(blocks, grad=True), numbers(3, blocks.shape[0])
    want = torch.autograd.grad((door.linear(x, values, blocks) * y).sum(), (x, values))
    got = torch.autograd.grad((door.linear(x.cuda(), values.cuda(), there) * y.cuda()).sum(), (x, values))
    for a, b in zip(got, want):
        close(a, b, 1e-4)
    p = door.softmax(values.cuda(), there)
    close(p.cpu(), door.softmax(values, blocks), 1e-5)
    close(door.multiply(p, there, x.cuda().t()).cpu(), door.multiply(door.softmax(values, blocks), blocks, x.t()), 1e-4)
    with torch.autocast("cuda", dtype=torch.float16):
        need(door.linear(x.cuda(), values.cuda(), there).dtype == torch.float16, "autocast")
    for bad in (x, x.cuda()):
        refused((RuntimeError, ValueError, TypeError), "", door.linear, bad, values.cuda(), blocks)


class Layer(torch.nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks, self.values, self.bias = blocks, torch.nn.Parameter(values_of(blocks)), torch.nn.Parameter(numbers(blocks.shape[0]))

    def forward(self, x):
        return torch.relu(door.linear(x, self.values, self.blocks, self.bias))


def exported():
    layer = Layer(pattern())
    x = numbers(5, 40)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: torch.export.Dim("tokens")},))
    calls = [str(n.target) for n in program.graph.nodes if "sparta" in str(n.target)]
    need(calls == ["sparta.linear.default"], calls)
    for tokens in (1, 9):
        x = numbers(tokens, 40)
        close(program.module()(x), layer(x), 1e-6)


def compiled():
    """One graph, forward and backward; "aot_eager" is all of it but the C++ compiler."""
    layer = Layer(pattern())
    fast = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for tokens in (5, 6):
        x = numbers(tokens, 40, grad=True)
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                close(fast(x), layer(x), 1e-6)
        for got, want in zip(torch.autograd.grad(fast(x).sum(), (x, layer.values)), torch.autograd.grad(layer(x).sum(), (x, layer.values))):
            close(got, want, 1e-6)


tests.check("autocast", autocast)
tests.check("meta tensors", meta)
tests.check("zero by infinity, and a scale that is NaN", nothing_kept_by_infinity)
tests.check("a GPU", gpu)
tests.check("torch.export keeps the operator", exported)
tests.check("torch.compile makes one graph", compiled)

if __name__ == "__main__":
    sys.exit(tests.finish())
