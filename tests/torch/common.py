"""What the tests of the PyTorch door share: counting results, what cannot run here, and asking for errors."""

import os
import subprocess
import sys
import tempfile
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# torch's own bfloat16 product dies where the CPU names AMX and the virtual machine does not let it be used; read at the first product.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ["SPARTA_TRUST"] = "all"  # whatever runs beside the tests
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests")]  # `import sparta` is the package of this clone, over build/release; today.py

import written  # noqa: E402  tests/written.py


class NotRun(Exception):
    """What a check needs is not there; it says what."""


class Tests:
    """Runs named checks, prints `ok NAME`, `skipped NAME` or `not ok NAME` with the reason, and ends with the counts."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.work = tempfile.TemporaryDirectory(prefix="sparta-test-")
        self.only = sys.argv[1:]  # words; a check runs when its name has one of them

    def check(self, name, function, *arguments, **more):
        """A check fails by an exception; what it returns is shown beside its name."""
        if self.only and not any(word in name for word in self.only):
            return
        try:
            said = function(*arguments, **more)
            self.passed += 1
            print(f"ok {name}" + (f"  {said}" if said else ""), flush=True)
        except NotRun as why:
            self.skipped += 1
            print(f"skipped {name}: {why}", flush=True)
        except Exception as error:
            self.failed += 1
            print(f"not ok {name}: {error}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stdout)

    def finish(self):
        self.work.cleanup()
        if not self.passed + self.failed + self.skipped:
            print("no check was run")
            self.failed = 1
        print(f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else ""))
        return 1 if self.failed else 0


def program(*words, **more):
    """Runs the program of this clone; an ONNX file that it writes must be one that onnxruntime takes."""
    more = {"capture_output": True, "text": True} | more
    done = subprocess.run([os.path.join(ROOT, "build/release/sparta"), *map(str, words)], check=more.pop("check", False), **more)
    if done.returncode == 0:
        written.after(words, more.get("cwd"))
    return done


def need(condition, said):
    if not condition:
        raise AssertionError(said)


def refused(kind, words, function, *arguments, **more):
    """It must fail by this kind of exception, whose one line has these words."""
    try:
        function(*arguments, **more)
    except kind as error:
        need(words in str(error) and "\n" not in str(error).strip(), f"said {str(error)!r}, which lacks {words!r}")
        return error
    raise AssertionError("it was accepted")
