"""The Python package, without torch: compile, load, run, inspect, propagate, formats, schedules; arrays by NumPy and DLPack; errors; threads, forks and
Ctrl-C; and an installed copy."""

import ast
import contextlib
import ctypes
import doctest
import gc
import glob
import importlib
import io
import json
import multiprocessing
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import onnx
import scipy.sparse

from common import FIXTURES, ROOT, Tests, must, need, open_onnxruntime, run_onnxruntime, sparta, written

import sparta as door  # common.py says where it is

tests = Tests()
path = os.path.join(tests.work, "mlp.onnx")
must("zoo", "mlp", "-o", path, "--prune", "4x1:0.9", "--dim", "inputs=64", "--dim", "hidden1=32", "--dim", "hidden2=16")
x = np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)
want = run_onnxruntime(open_onnxruntime(path), {"x": x})["logits"]
QUICK = {"no_measure": 1}


def close(got, expected=want):
    need(got.dtype == expected.dtype and got.shape == expected.shape, f"{got.dtype} {got.shape}, not {expected.dtype} {expected.shape}")
    off = float(np.max(np.abs(got - expected), initial=0))
    need(off <= 1e-4 * np.max(np.abs(expected), initial=0), f"off by {off}")


def refused(kind, words, function, *arguments, **more):
    """It must fail by this kind of exception, whose one line has these words."""
    try:
        function(*arguments, **more)
    except kind as error:
        need(words in str(error) and "\n" not in str(error), f"said {str(error)!r}, which lacks {words!r}")
        return error
    raise AssertionError("it was accepted")


# ---------------------------------------------------------------- models
def models():
    out = os.path.join(tests.work, "mlp.sparta")
    package = door.compile(path, out, **QUICK)
    close(package.run({"x": x})["logits"])
    close(door.load(out, threads=1).run({"x": x}, ["logits"])["logits"])
    need(package.inputs == {"x": ("f32", (None, 64))} and package.outputs == {"logits": ("f32", (None, 10))}, f"{package.inputs} {package.outputs}")
    need(package.isa and package.note == "", package.isa + package.note)
    package.check()
    for rows in (1, 64, 130):
        need(package.run({"x": np.zeros((rows, 64), np.float32)})["logits"].shape == (rows, 10), rows)
    package.close()
    refused(ValueError, "closed", package.run, {"x": x})


def in_memory():
    model = onnx.load(path)
    close(door.compile(model, **QUICK).run({"x": x})["logits"])
    package = door.compile(model.SerializeToString(), **QUICK)
    gc.collect()
    close(package.run({"x": x})["logits"])
    saved = package.save(os.path.join(tests.work, "saved.sparta"))
    close(door.load(saved).run({"x": x})["logits"])


def reports():
    """The same as the program says."""
    import json

    said = json.loads(must("inspect", path, "--json").out)
    facts = door.inspect(path)
    for name in ("nodes", "parameters", "bytes", "symbols", "bounds", "operators", "opset"):
        need(facts[name] == said[name], f"{name}: {facts[name]}, not {said[name]}")
    for ours, theirs in zip(facts["layers"], said["layers"], strict=True):
        for name in theirs:
            # Numbers are rounded in text.
            same = np.isclose(ours[name], theirs[name], rtol=1e-3) if isinstance(theirs[name], float) else ours[name] == theirs[name]
            need(same, f"{name}: {ours[name]}, not {theirs[name]}")
    package = door.compile(path, **QUICK)
    need([l["name"] for l in package.layers] == [l["name"] for l in facts["layers"]], "layers of the package")
    need(package.inspect()["targets"], "no target")
    saved = package.save(os.path.join(tests.work, "named.sparta"))
    need(door.inspect(saved)["name"] == saved, "its name")


def remeasured():
    """Times are remembered, unless compile is told to believe none."""
    db = os.path.join(tests.work, "times.db")
    for remeasure, source in ((False, "measured"), (False, "database"), (True, "measured"), (False, "database")):
        package = door.compile(path, db=db, no_propagate=1, remeasure=remeasure)
        found = {l["source"] for l in package.layers if l["op"] == "Linear"}
        need(found == {source}, f"remeasure={remeasure}: {found}, not {source}")


def masks_and_schedules():
    weight = onnx.numpy_helper.to_array(onnx.load(path).graph.initializer[0])
    name = onnx.load(path).graph.initializer[0].name
    none = door.compile(path, masks={name: np.zeros(weight.shape, bool)}, no_propagate=1, **QUICK)
    need(none.layers[0]["density"] == 0, none.layers[0])
    s = door.Schedule()
    s[name].sparsify("magnitude(pattern=2:4)")
    need(door.compile(path, schedule=s, **QUICK).layers[0]["density"] <= 0.5, "the schedule did nothing")
    need(str(door.Schedule.parse(str(s))) == str(s), str(s))
    file = os.path.join(tests.work, "s.sched")
    with open(file, "w", encoding="utf-8") as f:
        f.write(str(s))
    need(str(door.Schedule.open(file)) == str(s), "the file")
    refused(ValueError, "1:", s[name].sparsify, "magnitud(pattern=2:4)")
    pinned = door.Schedule()
    pinned[name].set_implement("dense4")
    need(door.compile(path, schedule=pinned, **QUICK).layers[0]["implement"] == "dense4", "the pin did nothing")
    refused(ValueError, "nearest", door.compile, path, schedule=door.Schedule.parse('tensor "nobody" { format csr }'), **QUICK)


def propagation():
    wide, small = os.path.join(tests.work, "rows.onnx"), os.path.join(tests.work, "small.onnx")
    must("zoo", "mlp", "-o", wide, "--prune", "rows:0.5", "--dim", "inputs=64")
    went = door.propagate(wide, small)
    need(went["parameters_after"] < went["parameters_before"], went)
    need(written.look(small) is None, "onnxruntime cannot be asked")
    close(door.compile(small, **QUICK).run({"x": x})["logits"], run_onnxruntime(open_onnxruntime(wide), {"x": x})["logits"])


# ---------------------------------------------------------------- arrays
class Dlpack:
    """Somebody else's array, as far as DLPack sees it."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device, self.taken = array, device, 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        self.taken += 1
        return self.array.__dlpack__()


def arrays():
    package = door.compile(path, **QUICK)
    close(package.run({"x": np.asfortranarray(x)})["logits"])
    close(package.run({"x": np.repeat(x, 2, 0)[::2]})["logits"])
    close(package.run({"x": x[::-1]})["logits"], want[::-1])
    close(package.run({"x": Dlpack(np.asfortranarray(x))})["logits"])
    other = Dlpack(x)
    close(package.run({"x": other})["logits"])
    need(other.taken == 1, "DLPack was not used")
    refused(ValueError, "CPU", package.run, {"x": Dlpack(x, (2, 0))})
    refused((TypeError, ValueError), "f64", package.run, {"x": x.astype(np.float64)})
    refused(TypeError, "complex64", package.run, {"x": x.astype(np.complex64)})
    shifted = np.frombuffer(b"?" + x.tobytes(), np.float32, offset=1).reshape(x.shape)
    need(not shifted.flags.aligned, "it is aligned")
    close(package.run({"x": shifted})["logits"])


def packed():
    dense = np.where(np.random.default_rng(2).random((37, 53)) < 0.8, 0, 1).astype(np.float32) * np.arange(1, 54, dtype=np.float32)
    csr = scipy.sparse.csr_matrix(dense)
    p = door.pack(dense, "csr")
    a = p.arrays()
    for name, theirs in (("l1_pos", csr.indptr), ("l1_crd", csr.indices), ("values", csr.data)):
        need(np.array_equal(a[name], theirs) and not a[name].flags.writeable, name)
    del p
    gc.collect()
    need(np.array_equal(a["values"], csr.data), "arrays do not outlive the tensor")
    for text in ("csc", "coo", "bsr(4,4)", "strip(4)", "bitmap"):
        q = door.pack(dense, text, limit=64)
        need(np.array_equal(q.numpy(), dense) and np.array_equal(q.to("csr").numpy(), dense), text)
        need(np.array_equal(door.Packed.open(q.save(os.path.join(tests.work, "p.npz"))).numpy(), dense), text)
    need(door.pack(dense, "csr", mask=np.ones_like(dense)).storage["elements"] == dense.size, "mask")
    need(door.pack(dense.astype(np.float16), "csr").dtype == "f16", "f16")
    need(str(door.Format("csr")) == "(i,j)->(i:dense, j:compressed)" and door.Format("csr") == door.Format(str(door.Format("csr"))), "text")
    refused(ValueError, "1:", door.Format, "(i,j)->(i:dens, j:compressed)")
    refused(door.Error, "limit", door.pack, np.eye(64, dtype=np.float32), "bsr(16,16)")


# ---------------------------------------------------------------- errors, threads, signals
def errors():
    need(refused(door.Error, "none.onnx", door.compile, os.path.join(tests.work, "none.onnx")).status == "E_IO", "status")
    need(refused(door.Error, "", door.compile, b"not a model").status == "E_FORMAT", "status")
    refused(TypeError, "ModelProto", door.compile, 7)
    refused(TypeError, "no_mesure", door.compile, path, no_mesure=1)
    refused(ValueError, "avx9", door.compile, path, target="avx9")
    refused(ValueError, "nothing", door.compile, path, dims={"nothing": 3})
    package = door.compile(path, **QUICK)
    refused(ValueError, "dimension 1", package.run, {"x": np.zeros((2, 3), np.float32)})
    refused(ValueError, "'y'", package.run, {"x": x, "y": x})
    refused(ValueError, "'x'", package.run, {"y": x})
    refused(ValueError, "x", package.run, {})
    refused(ValueError, "nobody", package.run, {"x": x}, ["nobody"])
    refused(MemoryError, "memory", door.load, package.save(os.path.join(tests.work, "e.sparta")), context={"max_memory": 1000, "copy_files": 1})
    close(package.run({"x": x})["logits"])


def heard(call, *arguments, **more):
    """What a call warns of: notes, each where the call stands."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        call(*arguments, **more)
    for w in given:
        need(w.category is door.Note and w.filename == __file__, f"{w.filename}: {w.category.__name__}: {w.message}")
    return " | ".join(str(w.message) for w in given)


def notes():
    """What the library notes is a warning: of the call that it is about, and of no later one."""
    db, sizes, memory = os.path.join(tests.work, "locked.db"), "sparta: sizes assumed: batch=128", f"{tests.work}/locked.db: another process holds its lock"
    said = heard(door.compile, path, db=db)
    need(said.count(sizes) == 1 and memory not in said, said)
    with contextlib.closing(sqlite3.connect(db)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = heard(door.compile, path, db=db, dims={"batch": 8})
    need(said.count(memory) == 1 and "sizes assumed" not in said, said)
    apart = lambda: [t := threading.Thread(target=door.compile, args=(path,), kwargs=QUICK), t.start(), t.join()]
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        apart()
    need([str(w.message).startswith(sizes) for w in given] == [True], "in another thread")
    package = door.compile(path, **QUICK, context={"compiler": "", "cache_dir": ""})
    need("portable" in heard(package.run, {"x": x}), "the first run")
    need(heard(package.run, {"x": x}) == "", "another run")
    exact = {"masks": {"fc3.weight": np.ones((10, 16))}, "rtol": 1e-12, "atol": 1e-12}
    need("mask 'fc3.weight' keeps all" in heard(lambda: refused(door.Error, "differ", door.compile, path, **QUICK, **exact)), "beside an error")
    out = os.path.join(tests.work, "noted.sparta")
    with warnings.catch_warnings():
        warnings.simplefilter("error", door.Note)
        refused(door.Note, sizes, door.compile, path, out, **QUICK)
        warnings.simplefilter("ignore", door.Note)
        close(door.load(out).run({"x": x})["logits"])
        need(heard(door.load(out).run, {"x": x}) == "", "what was compiled has code")


def threads():
    package, wrong = door.compile(path, **QUICK), []

    def work(i):
        for _ in range(50):
            rows = np.roll(x, i, 0)
            if not np.allclose(package.run({"x": rows})["logits"], np.roll(want, i, 0), atol=1e-4):
                wrong.append(i)

    several = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in several:
        t.start()
    for t in several:
        t.join()
    need(not wrong, wrong)
    need(1 <= len(package._sessions.idle) <= 6, len(package._sessions.idle))


def closing():
    """A package that is closed under runs: each has its answer or is refused."""
    for _ in range(20):
        package, wrong = door.compile(path, **QUICK), []

        def work():
            try:
                while True:
                    if not np.allclose(package.run({"x": x})["logits"], want, atol=1e-4):
                        wrong.append("an answer")
            except ValueError as error:
                if "closed" not in str(error):
                    wrong.append(error)

        several = [threading.Thread(target=work) for _ in range(3)]
        for t in several:
            t.start()
        time.sleep(0.01)
        package.close()
        for t in several:
            t.join()
        need(not wrong, wrong)


def _child(package, pipe):
    pipe.send(float(np.max(np.abs(package.run({"x": x})["logits"] - want))))


def fork():
    package = door.compile(path, **QUICK)
    package.run({"x": x})
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_child, args=(package, theirs))
    child.start()
    need(ours.poll(600), "the child hangs")
    need(ours.recv() < 1e-4, "the child's answer")
    child.join()
    close(package.run({"x": x})["logits"])


def interrupt():
    """Ctrl-C while it compiles: KeyboardInterrupt, soon, and nothing is written."""
    bert, out = os.path.join(tests.work, "bert.onnx"), os.path.join(tests.work, "bert.sparta")
    must("zoo", "bert-mini", "-o", bert, "--prune", "4x1:0.9")
    begun = threading.Event()
    threading.Thread(target=lambda: begun.wait() and os.kill(os.getpid(), signal.SIGINT)).start()
    before = time.monotonic()
    try:
        door.compile(bert, out, progress=lambda *_: begun.set(), db=":memory:")
        raise AssertionError("it was not interrupted")
    except KeyboardInterrupt:
        need(not os.path.exists(out), "it wrote")
    return f"{time.monotonic() - before:.1f} s"


def stop():
    """An exception of a progress function comes back to who called."""
    class Mine(Exception):
        pass

    def progress(done, every, what):
        raise Mine(what)

    refused(Mine, "", door.compile, path, progress=progress)
    close(door.compile(path, **QUICK).run({"x": x})["logits"])


def one_input():
    """A package with one input takes an array, and is called; several are named. It says what it is."""
    package = door.compile(path, **QUICK)
    close(package.run(x)["logits"])
    close(package(x))
    close(package({"x": x}))
    close(package.run(x, "logits")["logits"])
    need(repr(package) == "<sparta.Package in memory (x: f32[?,64]) -> (logits)>", repr(package))
    need(repr(door.compile(path, os.path.join(tests.work, "r.sparta"), **QUICK)).startswith("<sparta.Package /"), "the path of a file")
    need(package.bench(x, seconds=0.01)["subject"]["runs"], "bench of one array")
    package.close()
    need(repr(package) == "<sparta.Package, closed>", repr(package))
    several = door.compile(os.path.join(FIXTURES, "bert-dynamo-eager.onnx"), **QUICK)
    refused(TypeError, "inputs; give them by name: {'", several, x)


def files_alone():
    """prune, verify and report of files, without torch: what the program says."""
    small, other = os.path.join(tests.work, "small.onnx"), os.path.join(tests.work, "other.onnx")
    data = {"x": np.random.default_rng(3).standard_normal((16, 64), np.float32)}
    door.save_arrays(os.path.join(tests.work, "data.npz"), data)
    for given, words in (
        ({"pattern": "2:4", "method": "wanda", "data": data, "keep": ["fc3*"]}, ("--pattern", "2:4", "--method", "wanda", "--keep", "fc3*")),
        ({"pattern": "4x1:0.97"}, ("--pattern", "4x1:0.97")),
    ):
        rows = door.prune(path, small, **given)
        more = ("--data", os.path.join(tests.work, "data.npz")) if "data" in given else ()
        want_of = json.loads(must("prune", path, "-o", other, *words, *more, "--json").out)["layers"]
        for row, wanted in zip(rows, want_of, strict=True):
            same = all(row[key] == value or abs(row[key] - value) <= 1e-8 for key, value in wanted.items())  # the program rounds
            need(same and row.keys() == wanted.keys(), f"{row} and {wanted}")
        with open(small, "rb") as one, open(other, "rb") as two:
            need(one.read() == two.read(), "another file than the program's")
    need(door.verify(small, other)["ok"] and door.verify(small, small, {"x": x})["sizes"] == [], "the same file")
    found = door.verify(small, path, seed=3)
    need(not found["ok"] and found["first_difference"] and found["outputs"][0]["max_abs"] > found["outputs"][0]["allowed"], found)
    said = json.loads(sparta("verify", small, "--against", path, "--seed", "3", "--json").out.splitlines()[0])
    need(all(abs(o["max_abs"] - p["max_abs"]) <= 1e-8 for o, p in zip(said["outputs"], found["outputs"], strict=True)), f"{said} and {found}")
    need(door.verify(door.compile(path, **QUICK), path)["ok"], "a package in memory")
    need(door.verify(path, path, dims={"batch": 2})["sizes"] == ["batch=2"], "dims")
    need(not door.verify(small, path, {"x": x}, rtol=1e-9)["ok"] and door.verify(small, path, {"x": x}, rtol=10)["ok"], "rtol")
    steps = []
    door.prune(path, small, "2:4", progress=lambda *step: steps.append(step))
    need(steps and len(set(steps)) == len(steps), steps)
    with open(path, "rb") as file:
        report = door.report(file.read())
    need(list(report) == door.inspect(path)["layers"] == list(door.report(path)) and "strip4" in str(report), str(report))
    os.unlink(small)
    for kind, words, function, *arguments in (
        (ValueError, "has no sparsity", door.prune, path, small, "4x1"),
        (TypeError, "'rtol' does not count here", lambda: door.prune(path, small, "2:4", rtol=1)),
        (ValueError, "there is no method taylor", lambda: door.prune(path, small, "2:4", method="taylor")),
        (ImportError, "needs torch", lambda: door.prune.one_shot),
        (ValueError, "there is no input y", door.verify, path, path, {"y": x}),
        (TypeError, "a model is a path", door.verify, path, 4),
        (TypeError, "verify: inputs: arrays are given by the names of the inputs", door.verify, path, path, x),
        (TypeError, "prune: data: arrays are given by the names of the inputs", lambda: door.prune(path, small, "2:4", method="wanda", data=x)),
    ):
        refused(kind, words, function, *arguments)
    need(not os.path.exists(small) and "torch" not in sys.modules, "it wrote, or torch was imported")


def counted():
    """An option that nothing would read is refused by its name, wherever options are taken."""
    small, package = os.path.join(tests.work, "s.onnx"), os.path.join(tests.work, "s.sparta")
    door.compile(path, package, **QUICK)
    for where, words, more in (
        (door.inspect, "inspect: option 'target' does not count here; there are ", {"target": "portable"}),
        (door.inspect, "inspect: option 'tragte' is unknown", {"tragte": "portable"}),
        (lambda path, **more: door.inspect(package, **more), "is a package, of which no option counts", {"dims": {"batch": 1}}),
        (lambda path, **more: door.propagate(path, small, **more), "propagate: option 'rtol' does not count here", {"rtol": 1e-3}),
        (lambda path, **more: door.propagate(path, small, **more), "'progress' does not count here", {"progress": print}),
        (door.compile, "compile: option 'tesa' does not count here", {"tesa": "x.npz"}),
    ):
        refused(TypeError, words, where, path, **more)
    refused(ValueError, "is for a torch.nn.Module", door.compile, path, via="onnx")
    need(not os.path.exists(small), "it was written")


def without_threads():
    """Where Python gives no thread any more, at its end or past a limit, calls are made without one."""
    package, start = door.compile(path, **QUICK), threading.Thread.start

    def none_left(self):
        raise RuntimeError("can't start new thread")

    threading.Thread.start = none_left
    try:
        close(package.run(x)["logits"])
        refused(door.Error, "", door.load, os.path.join(tests.work, "nothing.sparta"))
    finally:
        threading.Thread.start = start


def slow_enough(array, call, axis):
    """As much of it as takes long: what is quick is waited for, not cancelled."""
    from sparta import _library

    while array.nbytes < 1 << 28:
        call(array)
        before = time.monotonic()
        call(array)
        if time.monotonic() - before > 5 * _library.QUICK:
            break
        array = np.concatenate([array, array], axis)
    return array


def stopped_anywhere():
    """Ctrl-C in what takes long: it is cancelled, not waited for, and the same call works afterwards."""
    from sparta import _library

    large = (np.random.default_rng(0).random((4000, 4000)) < 0.2).astype(np.float32)
    packed, folder = door.pack(large, "csr", limit=9), tests.work
    product = door.expr("y(i,k) = A(i,j)*b(j,k)", A=packed)
    package = door.compile(path, **QUICK)
    rows = slow_enough(np.ones((200000, 64), np.float32), package.run, 0)
    columns = slow_enough(np.ones((4000, 256), np.float32), lambda b: product(b=b), 1)
    cases = {
        "numpy": packed.numpy,
        "pack": lambda: door.pack(large, "(i,j)->(i:compressed, j:compressed)", limit=9),
        "to": lambda: packed.to("coo", limit=9),
        "save": lambda: packed.save(folder + "/p.npz"),
        "open": lambda: door.Packed.open(folder + "/p.npz"),
        "expr": lambda: door.expr("y(i,k) = A(i,j)*b(j,k)", A=packed, schedule="reorder(i,j,k)"),
        "expression": lambda: product(b=columns),
        "run": lambda: package.run(rows),
        "inspect": lambda: [door.inspect(path) for _ in range(20)],
        "save_arrays": lambda: door.save_arrays(folder + "/a.npz", {"w": large}),
    }
    seen, check = [], _library.Context.check
    _library.Context.check = lambda self, status: (seen.append(status), check(self, status))[1]
    draw, told = np.random.default_rng(1), []
    try:
        for name, call in cases.items():
            before = time.monotonic()
            call()
            took = time.monotonic() - before
            for _ in range(30):
                seen.clear()
                timer = threading.Timer(draw.uniform(0, took), os.kill, (os.getpid(), signal.SIGINT))
                try:
                    timer.start()
                    call()
                    timer.join()  # the signal comes in any case
                    time.sleep(1)
                    raise AssertionError(f"{name}: no signal came")
                except KeyboardInterrupt:
                    pass
                timer.join()
                if any(seen) or took < 2 * _library.QUICK or name not in ("pack", "to", "expression", "run"):  # others are over soon
                    break
            else:
                raise AssertionError(f"{name}: nothing was cancelled in 30 tries of {took:.2f} s")
            call()
            told.append(name)
    finally:
        _library.Context.check = check
    return ", ".join(told)


def leaks():
    package = door.compile(path, **QUICK)

    def resident():
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * 4

    def work():
        for _ in range(300):
            package.run({"x": x})
            door.pack(x, "csr", limit=64).to("coo", limit=64).numpy()
            door.Schedule()["a"].set_format("csr")
            try:
                package.run({"x": x[:, :3]})
            except ValueError:
                pass

    work()
    before = resident()
    work()
    need(resident() - before < 2000, f"{resident() - before} KiB more")
    return f"{resident() - before} KiB"


# ---------------------------------------------------------------- the binding and the package
def header():
    """Sizes of structs as the compiler sees them."""
    library = importlib.import_module("sparta._library")
    structs = [n for n, t in library.types.items() if isinstance(t, type) and issubclass(t, ctypes.Structure)]
    source, program = os.path.join(tests.work, "sizes.c"), os.path.join(tests.work, "sizes")
    rows = "".join(f'printf("{n} %zu\\n", sizeof({n}));' + "".join(
        f'printf("{n}.{f[0]} %zu\\n", offsetof({n}, {f[0]}));' for f in library.types[n]._fields_) for n in structs)
    with open(source, "w", encoding="utf-8") as f:
        f.write(f"#include <sparta.h>\n#include <stdio.h>\nint main(void) {{ {rows} }}\n")
    subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), source, "-o", program], check=True)
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        name, size = line.split()
        struct, _, field = name.partition(".")
        kind = library.types[struct]
        need((getattr(kind, field).offset if field else ctypes.sizeof(kind)) == int(size), line)
    with open(os.path.join(ROOT, "include/sparta.h"), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    declared = set(re.findall(r"\b(sparta_\w+)\(", text)) - {"sparta_options", "sparta_plugin"}
    need(declared == set(library.header.functions) - {"sparta_plugin"}, declared ^ set(library.header.functions))
    return f"{len(structs)} structs, {len(declared)} functions"


def told(name, run):
    """How many examples there are; of one that is not true, what was expected and what came."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        result = run()
    need(not result.failed, f"{name}: {result}\n{said.getvalue()}")
    return result.attempted


def examples():
    """Docstrings and the tour are true."""
    count = 0
    for name in ("_files", "expression", "formats", "package", "schedule"):
        module = importlib.import_module("sparta." + name)
        small = os.path.join(tests.work, "doc.onnx")
        must("zoo", "mlp", "-o", small, "--prune", "4x1:0.9")
        globs = {"np": np, "model": small, "sparta": door, "out": os.path.join(tests.work, "out.onnx")}
        count += told(name, lambda: doctest.testmod(module, extraglobs=globs, verbose=False))
    os.chdir(tests.work)
    try:
        tour = os.path.join(ROOT, "docs/python.md")
        count += told(tour, lambda: doctest.testfile(tour, module_relative=False, globs={"model": small}))
    finally:
        os.chdir(ROOT)
    need(count > 20, count)
    return f"{count} lines"


def installed():
    """A copy as pip makes it, where there is neither a compiler nor a clone; its program; its wheel's name."""
    target = os.path.join(tests.work, "site")
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, ROOT], capture_output=True, text=True)
    need(done.returncode == 0, done.stderr[-500:])
    code = f"import sparta, numpy as np; p = sparta.compile({path!r}, no_measure=1, context={{'compiler': '', 'cache_dir': ''}}); print(p.isa, p.run({{'x': np.zeros((1, 64), 'f')}})['logits'].shape); import sys; print('torch' in sys.modules, sparta.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tests.work, env={"PYTHONPATH": target, "PATH": "/nowhere"})
    need(done.stdout.startswith("portable (1, 10)\nFalse " + target), done)
    program = subprocess.run([sys.executable, "-m", "sparta", "--version"], capture_output=True, text=True, env={"PYTHONPATH": target})
    need(program.stdout.split() == ["sparta", door.__version__], program)
    needs = subprocess.run(["ldd", os.path.join(target, "sparta/lib/libsparta_torch.so")], capture_output=True, text=True)
    need(os.path.join(target, "sparta/lib/libsparta.so.") in needs.stdout and "not found" not in needs.stdout, needs)
    with open(os.path.join(target, f"sparta-{door.__version__}.dist-info/WHEEL"), encoding="ascii") as f:
        tag = re.search(r"Tag: (.*)", f.read())[1]
    need(re.fullmatch(r"py3-none-manylinux_2_\d+_\w+", tag), tag)
    return tag


def _public(body, inside=""):
    """Functions that users call, as (name, node, whether its first argument is self or cls)."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node.body, inside + node.name + ".")
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name in ("__init__", "__call__")):
            static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
            yield inside + node.name, node, bool(inside) and not static


def hints():
    """Every argument of a public function has a type, and so has its result. The drop-ins have the signatures of others, hooks those of torch."""
    package, count, bare = os.path.join(ROOT, "python/sparta"), 0, []
    for file in sorted(glob.glob(package + "/**/*.py", recursive=True)):
        name = os.path.relpath(file, package)
        if name.startswith(("compat/", "dynamic")) or os.path.basename(name).startswith("_"):
            continue
        with open(file, encoding="utf-8") as f:
            tree = ast.parse(f.read())
        for where, node, method in _public(tree.body):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs][method:]
            result = node.returns is not None or node.name == "__init__"
            count += 1
            if not result or any(a.annotation is None for a in given):
                bare.append(f"{name}: {where}")
    need(not bare, bare)
    need(count > 150, count)
    return f"{count} functions"


def importing():
    """What `import sparta` brings: its own modules that are needed at once, and of others only Python's."""
    said = subprocess.run([sys.executable, "-c", "import sys; before = set(sys.modules); import sparta; print(*sorted(set(sys.modules) - before))"], check=True,
                          env={"PYTHONPATH": os.path.join(ROOT, "python")}, capture_output=True, text=True)
    brought = said.stdout.split()
    others = [name for name in brought if name.split(".")[0] not in {"sparta", *sys.stdlib_module_names}]
    need(not others, f"it imports {others}")
    ours = {name for name in brought if name.startswith("sparta.")}
    wanted = {"sparta." + name for name in ("_arrays", "_header", "_library", "expression", "formats", "package", "schedule")}
    need(ours == wanted, f"it imports {sorted(ours - wanted)}")
    heavy = {"asyncio", "concurrent", "email", "http", "importlib.metadata", "inspect", "json", "multiprocessing", "tempfile", "unittest"} & set(brought)
    need(not heavy, f"it imports {sorted(heavy)}")
    return f"{len(ours)} modules of ours, {len(brought) - len(ours)} of Python"


if __name__ == "__main__":
    for check in (models, in_memory, reports, remeasured, masks_and_schedules, propagation, arrays, packed, errors, notes, threads, closing, fork, interrupt, stop, one_input, files_alone, counted,
                  without_threads, stopped_anywhere, leaks, header, examples, hints, importing, installed):
        tests.check(check.__name__, check)
    sys.exit(tests.finish())
