"""One .pt2 of each kind from every minor version of torch on PyPI that is at least 2.10, read without Python (make test-torch-minors).

Each torch comes into an environment of its own under $TORCH_MINORS (a temporary folder), which is removed when its programs are written: some 7 GB at a
time, and minutes. The program `sparta` runs each file on the references and compiles it; both answers must be torch's. Prints a table for
docs/benchmarks/torch.md. Words on the command line choose versions: 2.12.1.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPARTA = os.environ.get("SPARTA", os.path.join(ROOT, "build/release/sparta"))
OLDEST = (2, 10)


def versions():
    """The newest of each minor, in order."""
    said = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "torch"], capture_output=True, text=True)
    if said.returncode:
        print("PyPI cannot be reached")
        raise SystemExit(77)
    found = re.search(r"Available versions: (.*)", said.stdout).group(1).split(", ")
    newest = {}
    for numbers in sorted(tuple(map(int, v.split("."))) for v in found if re.fullmatch(r"[\d.]+", v)):
        newest[numbers[:2]] = numbers
    return [".".join(map(str, v)) for minor, v in newest.items() if minor >= OLDEST]


def write_programs(version, folder, work):
    """By this version of torch, in an environment that is gone afterwards."""
    venv = os.path.join(work, f"torch-{version}")
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        python = os.path.join(venv, "bin/python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-compile", f"torch=={version}", "numpy"], check=True)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs.py")
        said = subprocess.run([python, "-W", "ignore", script, folder], check=True, capture_output=True, text=True).stdout.strip()
        if said.split("+")[0] != version:
            raise SystemExit(f"asked for torch {version}, got {said}")
    finally:
        shutil.rmtree(venv, ignore_errors=True)


def sparta(*arguments):
    subprocess.run([SPARTA, *arguments, "--quiet"], check=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "2"})


def off(model, arrays, folder):
    """How far the one output is from torch's answer, in parts of its largest value."""
    given = dict(np.load(arrays))
    want = given.pop("answer")
    inputs, out = os.path.join(folder, "inputs.npz"), os.path.join(folder, "out")
    np.savez(inputs, **given)
    shutil.rmtree(out, ignore_errors=True)
    sparta("run", model, "--inputs", inputs, "--output-dir", out)
    (name,) = os.listdir(out)
    got = np.load(os.path.join(out, name))
    if got.shape != want.shape or got.dtype != want.dtype:
        raise SystemExit(f"{model}: {got.dtype}{got.shape}, torch gives {want.dtype}{want.shape}")
    return float(np.abs(got - want).max() / np.abs(want).max())


def check(version, work):
    """The row of a version: its programs, run and compiled."""
    folder = os.path.join(work, f"programs-{version}")
    os.makedirs(folder, exist_ok=True)
    write_programs(version, folder, work)
    names = sorted(name[:-4] for name in os.listdir(folder) if name.endswith(".pt2"))
    worst = 0.0
    for name in names:
        program, package = (os.path.join(folder, name + end) for end in (".pt2", ".sparta"))
        sparta("compile", program, "--no-measure", "-o", package)
        for model in (program, package):
            far = off(model, os.path.join(folder, name + ".npz"), folder)
            if not far <= 1e-4:
                raise SystemExit(f"torch {version}: {model} is off by {far:.1e} of the largest value")
            worst = max(worst, far)
    if not names:
        raise SystemExit(f"torch {version} wrote no program")
    shutil.rmtree(folder)
    return f"| {version} | {', '.join(names)} | {worst:.0e} |"


def main():
    rows = []
    with tempfile.TemporaryDirectory(prefix="sparta-minors-", dir=os.environ.get("TORCH_MINORS")) as work:
        for version in sys.argv[1:] or versions():
            rows.append(check(version, work))
            print(rows[-1], flush=True)
    print("\n| .pt2 written by torch | programs, on the references and compiled | furthest from torch's answer, of its largest value |\n|---|---|---|\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
