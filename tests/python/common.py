"""What the Python tests share: counting results, calling the program, and the models' inputs and answers by other means."""

import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ["SPARTA_TRUST"] = "all"  # whatever runs beside the tests
SPARTA = os.path.abspath(os.environ.get("SPARTA", os.path.join(ROOT, "build/release/sparta")))
FIXTURES = os.path.join(ROOT, "tests/fixtures")
THREADS = 2
EVER = 1200  # seconds on the wall: whoever has not ended by then waits for ever
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests")]  # `import sparta` is the package of this clone, over build/release; today.py

import written  # noqa: E402  tests/written.py


# ---------------------------------------------------------------- counting
class Tests:
    """Runs named checks, prints `ok NAME` or `not ok NAME` with the reason, and ends with the counts."""

    def __init__(self):
        self.passed = self.failed = 0
        self.work = tempfile.mkdtemp(prefix="sparta-test-")
        self.only = sys.argv[1:]  # words; a check runs when its name has one of them

    def wanted(self, name):
        return not self.only or any(word in name for word in self.only)

    def check(self, name, function, *arguments, **more):
        """A check fails by an exception; what it returns is shown beside its name."""
        if not self.wanted(name):
            return
        try:
            said = function(*arguments, **more)
            self.passed += 1
            print(f"ok {name}" + (f"  {said}" if said else ""), flush=True)
        except Exception as error:
            self.failed += 1
            print(f"not ok {name}: {error}", flush=True)
            if not isinstance(error, (AssertionError, Failed)):
                traceback.print_exc(file=sys.stdout)

    def finish(self):
        shutil.rmtree(self.work, ignore_errors=True)
        if not self.passed + self.failed:
            print("no check was run")
            self.failed = 1
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


class Failed(Exception):
    """The program did not do what it should."""


def need(condition, said):
    if not condition:
        raise Failed(said)


# ---------------------------------------------------------------- the program
class Result:
    """`seconds` is what a clock on the wall says, `busy` those of the processors: other work on the machine is not in them."""

    def __init__(self, code, out, err, seconds, usage):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds
        self.busy, self.peak_mib = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

    def __str__(self):
        return f"exit {self.code} after {self.seconds:.1f} s, stdout {self.out[-300:]!r}, stderr {self.err[-600:]!r}"


def busy_of(pid):
    """Seconds of the processor that a running process has had, with children that ended."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        ticks = file.read().rsplit(")", 1)[1].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def children_busy():
    """That of all children which ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def sparta(*words, env=None, timeout=120, prepare=None, look=True):
    """Runs the program; never raises for what the program does, but for an ONNX file that it wrote and onnxruntime does not take (look=False: which is not asked, as
    what it is made of would break it). Who takes more than `timeout` seconds of each processor, or waits for ever, is killed. Its peak memory is measured too."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([SPARTA, *map(str, words)], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env={**os.environ, **(env or {})}, preexec_fn=prepare)
        while True:  # wait4, because only it tells the memory of this child
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if busy_of(process.pid) > THREADS * timeout or time.monotonic() - begin > max(EVER, timeout):
                process.kill()
            time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        result = Result(process.returncode, out.read().decode(errors="replace"), err.read().decode(errors="replace"),
                        time.monotonic() - begin, usage)
    if result.code == 0 and look:
        written.after(words)
    return result


def must(*words, **more):
    """Runs the program, which must succeed."""
    result = sparta(*words, **more)
    need(result.code == 0, f"sparta {words[0]}: {result}")
    return result


def limit_file_size(bytes_):
    """For `prepare`: writing past this fails with EFBIG, as on a full disk."""
    import signal

    def apply():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))

    return apply


def tree(folder):
    """Every file beneath a folder with its size: what must not change when a command fails."""
    found = {}
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(at, name)
            found[os.path.relpath(path, folder)] = os.lstat(path).st_size if name in files else "folder"
    return found


# ---------------------------------------------------------------- inputs
def inputs_of(path):
    """[(name, elem_type, dims)] with a dim as a number or a symbol's name."""
    graph = onnx.load(path, load_external_data=False).graph
    kept = {i.name for i in graph.initializer}
    return [(i.name, i.type.tensor_type.elem_type, [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim])
            for i in graph.input if i.name not in kept]


def make_inputs(path, sizes, vocabulary, seed, all_padding=False):
    """Random inputs; a mask keeps a random length of each row (at least one token), or nothing of the last row."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, kind, dims in inputs_of(path):
        shape = [sizes[d] if isinstance(d, str) else d for d in dims]
        if kind == TensorProto.FLOAT:
            made[name] = rng.standard_normal(shape, dtype=np.float32)
        elif "mask" in name:
            length = rng.integers(1, shape[1] + 1, shape[0])
            length[-1] = 0 if all_padding else length[-1]
            made[name] = (np.arange(shape[1])[None, :] < length[:, None]).astype(np.int64)
        else:
            made[name] = rng.integers(0, 2 if "type" in name else vocabulary, shape, dtype=np.int64)
    return made


# ---------------------------------------------------------------- answers
def run_sparta(package, inputs, folder, *words):
    """The outputs of `sparta run` by name."""
    os.makedirs(folder, exist_ok=True)
    flags = []
    for name, array in inputs.items():
        file = os.path.join(folder, f"in-{name}.npy")
        np.save(file, array)
        flags += ["--input", f"{name}={file}"]
    out = os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    must("run", package, *flags, "--output-dir", out, "--quiet", *words)
    return {os.path.splitext(f)[0]: np.load(os.path.join(out, f)) for f in os.listdir(out)}


def open_onnxruntime(path, optimised=True):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_onnxruntime(session, inputs):
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


# ONNX's own Erf answers in float32 whatever it is asked, and Gelu is built on it: these answer in double.
class Erf(OpRun):
    op_domain = ""

    def _run(self, x):
        return (np.vectorize(math.erf, otypes=["d"])(x).astype(x.dtype),)


class Gelu(OpRun):
    op_domain = ""

    def _run(self, x, approximate=None):
        if approximate in ("tanh", b"tanh"):
            return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)
        return (0.5 * x * (1 + np.vectorize(math.erf, otypes=["d"])(x / math.sqrt(2))),)


def widen(tensor):
    return numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name)


def widen_attribute(node, attribute):
    """Constants and casts to float become double."""
    if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == TensorProto.FLOAT:
        attribute.t.CopyFrom(widen(attribute.t))
    if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
        attribute.i = TensorProto.DOUBLE
    if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        name = attribute.name
        attribute.Clear()
        attribute.CopyFrom(onnx.helper.make_attribute("value", numpy_helper.from_array(np.array(value, dtype=np.float64), name)))


def open_double(path):
    """The model with every float tensor as double, on ONNX's reference implementation."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(widen(tensor))
    for node in model.graph.node:
        need(not any(a.HasField("g") for a in node.attribute), f"{node.op_type} has a graph inside")
        for attribute in node.attribute:
            widen_attribute(node, attribute)
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    del model.graph.value_info[:]
    return ReferenceEvaluator(model, new_ops=[Erf, Gelu])


def run_double(evaluator, inputs):
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in inputs.items()}
    with np.errstate(all="ignore"):
        answers = dict(zip(evaluator.output_names, evaluator.run(None, wide)))
    need(all(a.dtype == np.float64 for a in answers.values()), "the double reference did not stay double")
    return answers


def error(a, b):
    """Largest and mean square difference as shares of the largest value, and how many values were compared; where b is not finite, a must be
    the same."""
    need(a.shape == b.shape, f"shape {a.shape}, wanted {b.shape}")
    finite = np.isfinite(b)
    need(np.array_equal(a[~finite], b[~finite].astype(a.dtype), equal_nan=True), "values that are not finite differ")
    if not finite.any():
        return 0.0, 0.0, 0
    a, b = a[finite].astype(np.float64), b[finite].astype(np.float64)
    difference = np.abs(a - b) / max(np.max(np.abs(b)), 1e-30)
    need(np.all(np.isfinite(difference)), "our answer is not finite where the other is")
    return float(np.max(difference)), float(np.mean(difference**2)), int(finite.sum())
