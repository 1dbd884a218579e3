"""Models that were slower than onnxruntime on one thread, in the sizes in which people have them, against it: docs/benchmarks/one-thread.md.

    python tools/bench_one_thread.py build/release/sparta               all of them, printed as the table of that page; a quarter of an hour
    python tools/bench_one_thread.py build/release/sparta mlp minilm    some

A figure is processor time, the least of many short windows in which the two take turns, so that what else runs costs them little; of models of less than a
millisecond it is `sparta bench --against onnxruntime`'s best time, since calls from Python cost as much as they do. Weights are random, and sizes are
the published ones. Files stay in --work DIR (one-thread in TMPDIR). It needs torch, transformers, onnx, onnxscript and onnxruntime.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

LENGTHS = (16, 32, 100, 128)
MODELS = {  # name -> exporters, sizes that are measured
    "mlp": (("ts",), [{"batch": n} for n in (1, 4, 8, 16)]),
    "dcn": (("ts",), [{"batch": n} for n in (1, 4, 8, 16)]),
    "minilm": (("ts", "dynamo"), [{"batch": 1, "sequence": n} for n in LENGTHS]),
    "albert": (("ts", "dynamo"), [{"batch": 1, "sequence": n} for n in LENGTHS]),
    "vit": (("ts", "dynamo"), [{"batch": 1}]),
}
SMALL = ("mlp", "dcn")
WINDOW = 0.003  # seconds


def module_of(name):
    """A module, its inputs by name and the names of their open dims."""
    import torch
    import transformers

    class Cross(torch.nn.Module):
        """Deep and cross network: 26 categories of 16 numbers and 13 more, x0 * (W x + b) + x three times beside layers of 512 and 256."""

        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(26000, 16)
            self.cross = torch.nn.ModuleList(torch.nn.Linear(429, 429) for _ in range(3))
            self.deep = torch.nn.Sequential(torch.nn.Linear(429, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256), torch.nn.ReLU())
            self.last = torch.nn.Linear(685, 1)

        def forward(self, ids, dense):
            first = x = torch.cat([self.table(ids).flatten(1), dense], 1)
            for layer in self.cross:
                x = first * layer(x) + x
            return torch.sigmoid(self.last(torch.cat([x, self.deep(first)], 1)))

    class Last(torch.nn.Module):
        def __init__(self, module, names):
            super().__init__()
            self.module, self.names = module, names

        def forward(self, *inputs):
            return self.module(**dict(zip(self.names, inputs))).last_hidden_state

    items = {0: "batch"}
    if name == "mlp":
        sizes = (784, 1024, 512, 256, 10)
        layers = [m for k, n in zip(sizes, sizes[1:]) for m in (torch.nn.Linear(k, n), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers[:-1]), {"x": (torch.randn(3, 784), items)}
    if name == "dcn":
        return Cross(), {"ids": (torch.randint(0, 999, (3, 26)), items), "dense": (torch.randn(3, 13), items)}
    if name == "vit":
        return Last(transformers.ViTModel(transformers.ViTConfig()), ["pixel_values"]), {"pixel_values": (torch.randn(2, 3, 224, 224), items)}
    size = dict(hidden_size=384, num_attention_heads=12, num_hidden_layers=6, intermediate_size=1536)
    wide = dict(hidden_size=768, num_attention_heads=12, num_hidden_layers=12, intermediate_size=3072, embedding_size=128)
    small = name == "minilm"
    module = transformers.BertModel(transformers.BertConfig(**size)) if small else transformers.AlbertModel(transformers.AlbertConfig(**wide))
    tokens = {0: "batch", 1: "sequence"}
    inputs = {"input_ids": (torch.randint(3, 999, (2, 24)), tokens), "attention_mask": (torch.ones(2, 24, dtype=torch.int64), tokens)}
    return Last(module, list(inputs)), inputs


def export(name, exporter, path):
    import torch

    torch.manual_seed(1)
    module, inputs = module_of(name)
    axes = {n: names for n, (_, names) in inputs.items()}
    made = tuple(x for x, _ in inputs.values())
    common = dict(input_names=list(inputs), output_names=["out"])
    with torch.no_grad():
        if exporter == "ts":
            torch.onnx.export(module.eval(), made, path, dynamic_axes=axes, opset_version=17, dynamo=False, **common)
            return
        dim = {n: torch.export.Dim(n, min=1, max=512) for n in ("batch", "sequence")}
        shapes = tuple({at: dim[n] for at, n in names.items()} for names in axes.values())
        shapes = (shapes,) if name not in SMALL else shapes
        torch.onnx.export(module.eval(), made, path, dynamic_shapes=shapes, dynamo=True, external_data=False, verbose=False, **common)


def feed_of(session, sizes):
    random, feed = np.random.default_rng(5), {}
    for i in session.get_inputs():
        shape = [sizes.get(d, d) for d in i.shape]
        if "mask" in i.name:
            feed[i.name] = np.ones(shape, np.int64)
        elif "int" in i.type:
            feed[i.name] = random.integers(3, 999, shape)
        else:
            feed[i.name] = random.standard_normal(shape).astype(np.float32)
    return feed


def window(run, times):
    begin = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - begin) / times


def by_turns(package, onnx, sizes, seconds):
    """Least processor time of ours and of onnxruntime, in ms."""
    import onnxruntime

    import sparta

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
    ours, feed = sparta.load(package, threads=1), feed_of(session, sizes)
    runs = (lambda: ours.run(feed), lambda: session.run(None, feed))
    wanted, got = runs[1]()[0], runs[0]()["out"]
    if np.abs(wanted - got).max() > 1e-4 * np.abs(wanted).max():
        raise SystemExit(f"{package}: another answer than onnxruntime's")
    times = [max(1, int(WINDOW / max(window(run, 2), 1e-6))) for run in runs]
    best, end, turns = [1e9, 1e9], time.monotonic() + seconds, 0
    while time.monotonic() < end or turns < 8:
        best = [min(b, window(run, n)) for b, run, n in zip(best, runs, times)]
        turns += 1
    return [b * 1e3 for b in best]


def by_bench(program, package, onnx, sizes, seconds):
    dims = [w for n, v in sizes.items() for w in ("--dim", f"{n}={v}")]
    words = [program, "bench", package, "--model", onnx, "--against", "onnxruntime", "--threads", "1", "--time", str(seconds), "--json", *dims]
    said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return said["subject"]["best_ms"], said["baseline"]["best_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sparta")
    parser.add_argument("models", nargs="*", choices=[[], *MODELS], default=[])
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "one-thread"))
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.makedirs(args.work, exist_ok=True)
    print("| model | exporter | sizes | ours, ms | onnxruntime, ms | ratio |\n|---|---|---|---|---|---|")
    for name in args.models or MODELS:
        exporters, all_sizes = MODELS[name]
        for exporter in exporters:
            onnx, package = (f"{args.work}/{name}.{exporter}.{end}" for end in ("onnx", "sparta"))
            if not os.path.exists(onnx):
                export(name, exporter, onnx)
            subprocess.run([args.sparta, "compile", onnx, "-o", package, "-q"], check=True)
            for sizes in all_sizes:
                small = name in SMALL
                ours, theirs = by_bench(args.sparta, package, onnx, sizes, args.seconds) if small else by_turns(package, onnx, sizes, args.seconds)
                said = " ".join(f"{n}={v}" for n, v in sizes.items())
                print(f"| {name} | {exporter} | {said} | {ours:.3g} | {theirs:.3g} | {theirs / ours:.2f}x |", flush=True)


if __name__ == "__main__":
    main()
