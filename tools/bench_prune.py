#!/usr/bin/env python3
"""Times pruning: what it adds to a training step, SparseGPT against the algorithm as its authors published it, and whole models in one shot.

    .venv-torch/bin/python tools/bench_prune.py --sparta build/release/sparta [--only step] [--write docs/benchmarks/prune.md]

- step: bert-mini, 32 rows of 64 tokens, AdamW; steps of the plain model and of a pruned one in turns, medians and the best. Masks that grow
  every 50 steps are timed by themselves and shared out.
- sparsegpt: a layer of 1024 x 4096 to 1x1 0.5 and 2:4, with 2048 inputs. The peer is the published algorithm in torch (published below): X'X, two
  factorisations and an inverse, 128 columns at a time. Both from inputs to the pruned weight; the program also reads and writes its files.
- magnitude, wanda: bert-base, 4x1:0.8, Wanda with 64 rows of 128 tokens; in Python from a module in memory, the program from file to file.

Steps and SparseGPT of contenders are timed in turns, whole models once.
"""

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import torch
from torch import nn

import sparta

ROWS = []


def row(what, got, against, bound):
    """`bound` is what the figure has to keep to; the load says what else ran."""
    ROWS.append((what, got, against, bound, f"{os.getloadavg()[0]:.1f}"))
    print("| " + " | ".join(ROWS[-1]) + " |", flush=True)


def seconds(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def in_turns(contenders, times):
    """The times of each, A B A B ..."""
    took = {name: [] for name in contenders}
    for _ in range(times):
        for name, f in contenders.items():
            took[name].append(seconds(f))
    return took


# ---------------------------------------------------------------- a training step
def trainer(model, said):
    """One step of training, and the pruner where there is one."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    pruner = sparta.prune.prepare_pruning(model, said, optimizer) if said else None
    ids, labels = torch.randint(0, 1000, (32, 64)), torch.randint(0, 2, (32,))
    model.train()

    def step():
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()

    return step, pruner


def steps(args):
    import transformers

    torch.manual_seed(0)
    size = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**size))
    plain, _ = trainer(copy.deepcopy(model), None)
    every = 50
    for kind in ("magnitude", "snip_momentum"):
        said = {"pattern": "4x1", "target_sparsity": 0.8, "start_step": 1, "end_step": 1001, "pruning_frequency": every, "pruning_type": kind}
        ours, pruner = trainer(copy.deepcopy(model), said)
        ours(), ours(), plain()  # masks are there
        growth = []
        for _ in range(3):
            pruner.step, pruner._began = 1 + 19 * every, -1  # near the target
            growth.append(seconds(pruner._begin))
        pruner.step = pruner._began = 2 + 19 * every
        took = in_turns({"plain": plain, "ours": ours}, args.steps)
        median = {name: statistics.median(t) for name, t in took.items()}
        grow = min(growth) / every
        added = (median["ours"] + grow) / median["plain"] - 1
        best = (min(took["ours"]) + grow) / min(took["plain"]) - 1
        row(
            f"a step of bert-mini, {kind}",
            f"{1e3 * median['ours']:.1f} ms, masks {1e3 * min(growth):.0f} ms every {every}",
            f"{1e3 * median['plain']:.1f} ms",
            f"{100 * added:+.1f} % (best {100 * best:+.1f} %); at most 5 %",
        )


# ---------------------------------------------------------------- SparseGPT
def published(w, h, sparsity=0.0, keep=0, of=0):
    """Frantar and Alistarh, 2023, algorithm 1, B = Bs = 128: the upper factor of the inverse of H, columns one by one, what is right of 128 of them
    at once. Written from the paper's description."""
    w, h = w.clone(), h.clone()
    h.diagonal().add_(0.01 * h.diagonal().mean())
    u = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    for a in range(0, w.shape[1], 128):
        b = min(a + 128, w.shape[1])
        part, square = w[:, a:b].clone(), u[a:b, a:b]
        errors = torch.zeros_like(part)
        gone = torch.zeros_like(part, dtype=torch.bool)
        if not of:
            score = part**2 / square.diagonal() ** 2
            gone = score <= score.flatten().sort().values[int(score.numel() * sparsity) - 1]
        for i in range(b - a):
            if of and i % of == 0:
                score = part[:, i : i + of] ** 2 / square.diagonal()[i : i + of] ** 2
                gone.scatter_(1, i + torch.topk(score, of - keep, dim=1, largest=False).indices, True)
            left = part[:, i].masked_fill(gone[:, i], 0)
            errors[:, i] = (part[:, i] - left) / square[i, i]
            part[:, i:] -= errors[:, i, None] * square[i, i:]
            part[:, i] = left
        w[:, a:b] = part
        w[:, b:] -= errors @ u[a:b, b:]
    return w


def sparsegpt(args):
    torch.manual_seed(0)
    n, k = 1024, 4096
    x = torch.randn(2048, k) @ (torch.randn(k, k) / k**0.5 + torch.eye(k))
    layer = nn.Linear(k, n, bias=False)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        one_layer(path("layer.onnx"), layer.weight.detach().numpy())
        sparta.save_arrays(path("x.npz"), {"x": x.numpy()})
        for pattern, said in (("1x1:0.5", {"sparsity": 0.5}), ("2:4", {"keep": 2, "of": 4})):
            command = [args.sparta, "prune", path("layer.onnx"), "--pattern", pattern, "--method", "sparsegpt", "--data", path("x.npz"), "-q"]
            command += ["--threads", str(args.threads), "-o", path("out.onnx")]
            contenders = {
                "published": lambda said=said: published(layer.weight.detach(), x.T @ x, **said),
                "python": lambda pattern=pattern: sparta.prune.one_shot(copy.deepcopy(nn.Sequential(layer)), x, "sparsegpt", pattern),
                "program": lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL),
            }
            took = {name: min(t) for name, t in in_turns(contenders, 2).items()}
            for name in ("python", "program"):
                got = f"{took[name]:.2f} s"
                row(
                    f"SparseGPT, {n} x {k}, {pattern}, {name}",
                    got,
                    f"{took['published']:.2f} s",
                    f"{took['published'] / took[name]:.2f} times as fast; at least 1",
                )


def one_layer(path, weight):
    """y = x w', as ONNX; the protocol's bytes by hand, so that no package is needed."""

    def number(n):
        out = b""
        while n >= 128:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    field = lambda i, data: number(i << 3 | 2) + number(len(data)) + data
    value = lambda i, n: number(i << 3) + number(n)
    dim = lambda n: field(1, value(1, n) if isinstance(n, int) else field(2, n))
    tensor = lambda name, dims: field(1, name) + field(2, field(1, value(1, 1) + field(2, b"".join(map(dim, dims)))))
    n, k = weight.shape
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(3, b"layer") + field(4, b"Gemm")
    node += field(5, field(1, b"transB") + value(3, 1) + value(20, 2))
    w = value(1, n) + value(1, k) + value(2, 1) + field(8, b"w") + field(9, weight.tobytes())
    graph = field(1, node) + field(2, b"g") + field(5, w) + field(11, tensor(b"x", [b"batch", k])) + field(12, tensor(b"y", [b"batch", n]))
    with open(path, "wb") as file:
        file.write(value(1, 8) + field(7, graph) + field(8, value(2, 17)))


# ---------------------------------------------------------------- whole models
def whole(args, method, bound, data):
    import transformers

    torch.manual_seed(0)
    ids = torch.randint(0, 1000, (64, 128))
    model = transformers.BertModel(transformers.BertConfig()).eval()
    batches = [{"input_ids": part} for part in ids.split(8)] if data else None
    took = seconds(lambda: sparta.prune.one_shot(model, batches, method, "4x1:0.8", excluded=["pooler*"]))
    row(f"bert-base, {method}, Python", f"{took:.1f} s", "", bound)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        subprocess.run([args.sparta, "zoo", "bert-base", "-o", path("base.onnx")], check=True, stdout=subprocess.DEVNULL)
        command = [args.sparta, "prune", path("base.onnx"), "--pattern", "4x1:0.8", "--method", method, "-q", "-o", path("out.onnx")]
        if data:
            zeros = torch.zeros_like(ids)
            sparta.save_arrays(path("ids.npz"), {"input_ids": ids.numpy(), "attention_mask": (zeros + 1).numpy(), "token_type_ids": zeros.numpy()})
            command += ["--data", path("ids.npz")]
        took = seconds(lambda: subprocess.run([*command, "--threads", str(args.threads)], check=True, stdout=subprocess.DEVNULL))
        row(f"bert-base, {method}, sparta prune", f"{took:.1f} s", "", bound)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sparta", default="build/release/sparta")
    parser.add_argument("--only", default="step,sparsegpt,magnitude,wanda")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", type=int, default=20, help="of training, of each")
    parser.add_argument("--write", help="the document whose table is replaced")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    head = ("what", "sparta", "against", "must hold", "load")
    print(f"{args.threads} threads, torch {torch.__version__}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    jobs = {
        "step": lambda: steps(args),
        "sparsegpt": lambda: sparsegpt(args),
        "magnitude": lambda: whole(args, "magnitude", "under 5 s", False),
        "wanda": lambda: whole(args, "wanda", "under 60 s, 64 rows of 128 tokens", True),
    }
    for name in args.only.split(","):
        jobs[name]()
    if args.write:
        table = [head, ("---",) * len(head), *ROWS]
        write(args.write, "\n".join("| " + " | ".join(cells) + " |" for cells in table))


def write(path, table):
    """Between the two marks of the document."""
    with open(path, encoding="utf-8") as file:
        before, _, rest = file.read().partition("<!-- measured -->\n")
    after = rest.partition("<!-- end -->")[2]
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{before}<!-- measured -->\n{table}\n<!-- end -->{after}")
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main()
