"""Times `sparta propagate` on the zoo, and onnxruntime on what goes in and what comes out; fills docs/benchmarks/propagation.md.

    make bench-propagate                                        everything, a few minutes and 6 GB in build/bench-propagate; leave the machine alone
    make bench-propagate PROPAGATE_ARGS="--only unet"           one model, printed and not put into docs/

Every model has half of the outputs of its layers set to zero (zoo --prune rows:0.5: layer by layer, without regard for who meets
whom in a residual). Time is the shortest of --rounds runs of the command, as its --json says it; memory the largest of them, mapped
files included. All models are propagated before onnxruntime is loaded, whose size a child would begin with. The models before, after,
and after with --multiple 8 then run in onnxruntime on one thread, in turns for --seconds; the shortest run of each counts, after
their answers have been compared.
"""

import argparse
import json
import os
import platform
import subprocess
import time

from bench_peers import commit_name, cpu_name, note
from plot import fill

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, "build/bench-propagate")
PAGE = os.path.join(ROOT, "docs/benchmarks/propagation.md")
MODELS = {  # inputs for onnxruntime, by name; (shape, largest id or None)
    "resnet50": {"x": ((1, 3, 224, 224), None)},
    "mobilenet-v2": {"x": ((1, 3, 224, 224), None)},
    "unet": {"x": ((1, 3, 256, 256), None)},
    "densenet-small": {"x": ((1, 3, 32, 32), None)},
    "llama-mini": {"input_ids": ((1, 128), 100)},
    "gpt2-small": {"input_ids": ((1, 128), 100)},
    "bert-base": {"input_ids": ((1, 128), 100)},
    "bert-large": {"input_ids": ((1, 128), 100)},
}
CLOSE = 1e-4  # of the largest value


def sparta(args, *words):
    """What it prints, and the memory it took."""
    child = subprocess.Popen([args.sparta, *words], stdout=subprocess.PIPE, text=True)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"sparta {' '.join(words)} failed")
    return said, used.ru_maxrss * 1024


def propagate(args, model, small):
    """The shortest run, and the largest memory."""
    best, memory = None, 0
    for _ in range(args.rounds):
        said, used = sparta(args, "propagate", model, "-o", small, "--json")
        found, memory = json.loads(said), max(memory, used)
        if not best or found["seconds"] < best["seconds"]:
            best = found
    return best, memory


def session(path):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def inputs_of(runner, name):
    import numpy as np

    random, given = np.random.default_rng(1), {}
    for i in runner.get_inputs():
        shape, most = MODELS[name].get(i.name, ((1, 128), 1))
        if i.type == "tensor(float)":
            given[i.name] = random.standard_normal(shape, dtype=np.float32)
        else:
            given[i.name] = random.integers(0, most, shape) if most > 1 else np.ones(shape, np.int64)
    return given


def compare(args, name, models):
    """Shortest runs of each, in turns, in seconds."""
    import numpy as np

    runners = [session(m) for m in models]
    given = inputs_of(runners[0], name)
    answers = [r.run(None, given)[0] for r in runners]
    for other in answers[1:]:
        apart = float(np.abs(answers[0] - other).max() / max(np.abs(answers[0]).max(), 1e-30))
        if apart > CLOSE:
            raise SystemExit(f"{name}: the answers are {apart:.1e} of the largest value apart")
    best, end, turns = [float("inf")] * len(models), time.monotonic() + args.seconds, 0
    while time.monotonic() < end or turns < 3:
        turns += 1
        for i, r in enumerate(runners):
            begin = time.perf_counter()
            r.run(None, given)
            best[i] = min(best[i], time.perf_counter() - begin)
    return best


def make(args, name):
    """Three files, and the first half of the row."""
    models = [os.path.join(WORK, f"{name}{end}.onnx") for end in ("", "-small", "-even")]
    sparta(args, "zoo", name, "--prune", "rows:0.5", "-o", models[0], "--quiet")
    found, memory = propagate(args, models[0], models[1])
    sparta(args, "propagate", models[0], "-o", models[2], "--multiple", "8", "--quiet")
    held = sum(1 for t in found["tensors"] if t["blocked_by"])
    return models, (f"| {name} | {found['parameters_before'] / 1e6:.2f} | {found['parameters_after'] / 1e6:.2f} | {held} | {found['seconds']:.2f} | "
                    f"{found['read_s']:.2f} | {found['write_s']:.2f} | {found['bytes_before'] / 1e6:.0f} | {memory / 1e6:.0f}")


def row(args, name, models, begin):
    before, after, even = compare(args, name, models)
    line = f"{begin} | {before * 1e3:.1f} | {after * 1e3:.1f} | **{before / after:.2f}x** | {even * 1e3:.1f} | **{before / even:.2f}x** |"
    note(line)
    for path in models:
        os.remove(path)
    return line


def machine(args):
    import importlib.metadata as metadata

    return (f"{cpu_name()}, {os.cpu_count()} cores; onnxruntime {metadata.version('onnxruntime')}, Python {platform.python_version()}; "
            f"{time.strftime('%Y-%m-%d')}, commit {commit_name()}; load before the start {os.getloadavg()[0]:.2f}; "
            f"{args.rounds} runs, {args.seconds} s in onnxruntime.")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sparta", default=os.path.join(ROOT, "build/release/sparta"))
    p.add_argument("--only", help="one model; nothing is put into docs/")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--seconds", type=float, default=6)
    args = p.parse_args()
    if args.only and args.only not in MODELS:
        p.error(f"--only {args.only}: one of {', '.join(MODELS)}")
    os.makedirs(WORK, exist_ok=True)
    lines = [machine(args), "",
             "| model | parameters, M | after, M | weights that keep zeros | propagating, s | reading, s | writing, s | file, MB | peak memory, MB | "
             "onnxruntime before, ms | after, ms | faster | after with --multiple 8, ms | faster |", "|---" * 14 + "|"]
    made = [(name, *make(args, name)) for name in ([args.only] if args.only else MODELS)]
    lines += [row(args, *m) for m in made]
    if args.only:
        print("\n".join(lines))
        return
    with open(PAGE) as f:
        page = f.read()
    with open(PAGE, "w") as f:
        f.write(fill(page, "models", lines))
    print(f"the table of models in {os.path.relpath(PAGE, ROOT)} is new")


if __name__ == "__main__":
    main()
