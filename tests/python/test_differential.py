"""Random models (random_models.py, and one in eight random_images.py) against onnxruntime: each is compiled, written, opened and run at two sets of sizes.

    TEST_SEED=7 SPARTA_MODELS=300 .venv/bin/python tests/python/test_differential.py      what make test does, with today's date as the seed
    .venv/bin/python tests/python/test_differential.py 7000017                              one model again

The library runs in a process of its own, so that a crash is one failed model. Most models are compiled without a compiler (portable kernels, no
timing), every tenth with it, and those with a layer of a thousand outputs: what a kernel keeps of wide lines is of other sizes. Nobody may write outside
of its operands. Where ours and onnxruntime's answers differ, the same model in double decides: ours may be off by 1e-4 of the largest number, or by ten
times as much as onnxruntime's. A model that magnifies rounding (onnxruntime is off by more than 1e-5) may be refused by compile's own check; few are. A model that fails
stays in build/differential with its inputs."""

import multiprocessing
import os
import shutil
import sys

import numpy as np
import onnx

from common import ROOT, Failed, Tests, must, need, open_double, open_onnxruntime, run_double, run_onnxruntime
from random_images import random_image
from random_models import random_model
from today import ALL, SEED

import sparta as door  # common.py says where it is

KEPT = os.path.join(ROOT, "build/differential")
MODELS = int(os.environ.get("SPARTA_MODELS", 300 if ALL else 150))
CLOSE, LATITUDE, MAGNIFIES = 1e-4, 10, 1e-5  # shares of the largest number, but for the second
WAIT = 600  # seconds: it hangs
WIDE = 1000
ASIDE = "set aside: it magnifies rounding"
REFUSED = "differs from the reference"  # by compile's own check


# ---------------------------------------------------------------- one model
def draw(seed):
    """Of the images, too, some are timed."""
    return random_image(seed) if seed % 8 == 2 else random_model(seed)


def off(a, b):
    """The largest difference as a share of b's largest number."""
    if a.shape != b.shape:
        raise Failed(f"shape {a.shape}, wanted {b.shape}")
    if not b.size:
        return 0.0
    with np.errstate(all="ignore"):
        return float(np.max(np.where(a == b, 0, np.abs(a - b)), initial=0) / max(np.max(np.abs(b)), 1e-30))


def judge(path, feed, got, want):
    exact = None
    for name, theirs in want.items():
        need(np.all(np.isfinite(theirs)), f"{name}: onnxruntime's answer is not finite")  # the generator's fault
        if off(got[name], theirs) <= CLOSE:
            continue
        exact = exact or run_double(open_double(path), feed)
        ours, peer = off(got[name], exact[name]), off(theirs, exact[name])
        need(ours <= max(CLOSE, LATITUDE * peer), f"{name} is off by {ours:.2g} of its largest number, onnxruntime by {peer:.2g}")


def magnifies(path, feeds, wants):
    exact = [run_double(open_double(path), feed) for feed in feeds]
    return any(off(want[name], answer[name]) > MAGNIFIES for want, answer in zip(wants, exact) for name in want)


def compile_timed(path, package, threads):
    """By the program, whose notes name who wrote outside of its memory; every candidate runs, none is remembered."""
    db = os.path.join(os.path.dirname(package), "times.db")
    for end in ("", "-shm", "-wal"):
        if os.path.exists(db + end):
            os.remove(db + end)
    notes = must("compile", path, "--db", db, "--threads", threads, "-o", package).err
    need("outside" not in notes, notes)


def attempt(folder, seed):
    """What to say of a model that is right."""
    model, feeds = draw(seed)
    path, package = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.sparta")
    onnx.save(model, path)
    session = open_onnxruntime(path)
    wants = [run_onnxruntime(session, feed) for feed in feeds]
    wide = any(max(c.dims, default=0) >= WIDE for c in model.graph.initializer)
    compiled = seed % 10 == 0 or wide
    try:
        if compiled:
            compile_timed(path, package, 1 + seed % 2)
            package = door.load(package, threads=1 + seed % 2)
        else:
            package = door.compile(path, package, no_measure=True, threads=1 + seed % 2, context={"compiler": "", "cache_dir": ""})
    except (door.Error, Failed) as refusal:
        if REFUSED in str(refusal) and magnifies(path, feeds, wants):
            return ASIDE
        raise
    for feed, want in zip(feeds, wants):
        judge(path, feed, package.run(feed), want)
    return "right"


def keep(seed):
    os.makedirs(KEPT, exist_ok=True)
    model, feeds = draw(seed)
    onnx.save(model, os.path.join(KEPT, f"{seed}.onnx"))
    for i, feed in enumerate(feeds):
        np.savez(os.path.join(KEPT, f"{seed}-{i}.npz"), **feed)
    return f"kept as {os.path.relpath(KEPT, ROOT)}/{seed}.onnx; again: tests/python/test_differential.py {seed}"


# ---------------------------------------------------------------- the process that runs them
def serve(pipe, folder):
    while True:
        seed = pipe.recv()
        try:
            pipe.send((True, attempt(folder, seed)))
        except Exception as error:
            pipe.send((False, f"{'' if isinstance(error, (Failed, door.Error)) else type(error).__name__ + ': '}{error}"))


class Worker:
    """Starts a process when there is none; one that died or hangs is a failed model."""

    def __init__(self, folder):
        self.folder, self.process, self.aside = folder, None, 0

    def start(self):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(theirs, self.folder), daemon=True)
        self.process.start()
        theirs.close()

    def stop(self, why=""):
        if self.process:
            self.process.kill()
            self.process.join()
            self.process = None
        return False, why

    def run(self, seed):
        if not self.process:
            self.start()
        try:
            self.pipe.send(seed)
            right, said = self.pipe.recv() if self.pipe.poll(WAIT) else self.stop(f"no answer after {WAIT} s")
        except (EOFError, OSError):
            self.process.join()
            right, said = self.stop(f"the process died with {self.process.exitcode}")
        need(right, f"{said}; {'' if right else keep(seed)}")
        self.aside += said == ASIDE
        return said if said == ASIDE else None


def main():
    shutil.rmtree(KEPT, ignore_errors=True)
    seeds = [int(word) for word in sys.argv[1:]] or [SEED * 1000 + i for i in range(MODELS)]
    sys.argv[1:] = []
    print(f"seed {SEED}: models {seeds[0]} to {seeds[-1]}", flush=True)
    tests = Tests()
    worker = Worker(tests.work)
    for seed in seeds:
        tests.check(f"model {seed}", worker.run, seed)
    worker.stop()
    tests.check("few are set aside", lambda: need(worker.aside <= 1 + len(seeds) // 50, f"{worker.aside} of {len(seeds)}"))
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
