"""Times the PyTorch door against torch itself: sparse layers, their gradients, attention, call overhead, whole layers after build_, a compiled BERT (make bench-torch).

    make bench-torch                             everything, about five minutes; leave the machine alone
    make bench-torch TORCH_ARGS=--quick          few rounds: does it work?
    make bench-torch TORCH_ARGS="--only linear"  one section: linear, gradients, attention, overhead, built, compiled
    make bench-torch TORCH_ARGS=--write          also puts it into docs/benchmarks/torch.md

Everything is in one process on the same two threads. A round gives each subject of a row one turn of a few calls, in an order that changes; the figure of
a subject is its fastest turn of all rounds, because on a shared machine everything else measures the neighbours. A ratio is dense time over ours.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings

import torch
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))

import sparta  # noqa: E402
import sparta.attention  # noqa: E402
import sparta.dynamo  # noqa: E402
import sparta.nn  # noqa: E402
import sparta.testing  # noqa: E402
from bench_peers import commit_name, cpu_name, note  # noqa: E402

PAGE = os.path.join(ROOT, "docs/benchmarks/torch.md")
SHAPES = [(384, 1024, 1024), (1024, 768, 3072)]  # tokens, inputs, outputs
PATTERNS = [((4, 1), 0.9), ((1, 1), 0.9), ((32, 32), 0.9), ((4, 1), 0.8), ((1, 1), 0.7)]
# Layers of BERT-base, GPT-2, ViT, Llama-like, DLRM and recommenders: tokens, inputs, outputs, block, sparsity. Some are too dense or too small to gain.
LAYERS = [
    (128, 768, 768, (4, 1), 0.9), (128, 768, 3072, (4, 1), 0.9), (128, 3072, 768, (4, 1), 0.9), (128, 768, 2304, (1, 1), 0.9), (1024, 768, 768, (1, 1), 0.5),
    (1024, 768, 3072, (1, 1), 0.3), (197, 384, 1536, (4, 1), 0.7), (197, 1536, 384, (2, 1), 0.7), (1, 768, 3072, (4, 1), 0.9), (1, 1024, 1024, (1, 1), 0.5),
    (8, 2048, 2048, (16, 16), 0.9), (16, 512, 256, (1, 1), 0.8), (2048, 256, 128, (16, 4), 0.85), (2048, 479, 1024, (1, 1), 0.9), (33, 100, 50, (1, 1), 0.9),
    (64, 64, 64, (4, 1), 0.5), (4, 4, 4, (1, 1), 0.5), (512, 1024, 4096, (32, 32), 0.95), (512, 4096, 1024, (64, 64), 0.5), (256, 1000, 1000, (1, 1), 0.1),
]


def fastest(subjects, rounds, turn=0.02):
    """Seconds of one call of each subject: the best turn of all rounds, in turns."""
    calls, best = {}, {name: float("inf") for name in subjects}
    for name, run in subjects.items():
        run()
        start = time.perf_counter()
        run()
        calls[name] = max(1, int(turn / max(time.perf_counter() - start, 1e-7)))
    names = list(subjects)
    for r in range(rounds):
        for name in names[r % len(names):] + names[: r % len(names)]:
            run, n = subjects[name], calls[name]
            start = time.perf_counter()
            for _ in range(n):
                run()
            best[name] = min(best[name], (time.perf_counter() - start) / n)
    return best


def layer(k, n, block, sparsity, dtype=torch.float32):
    """A dense layer with zeros, ours of it, and the mask."""
    raw = torch.nn.Linear(k, n, dtype=dtype)
    mask = sparta.testing.block_mask((n, k), block=block, sparsity=sparsity)
    with torch.no_grad():
        raw.weight.mul_(mask)
    ours = sparta.nn.SparseLinear(raw, weight_mask=mask)
    return raw, ours, mask


def torch_sparse(weight, block):
    """torch's own sparse layouts of the weight."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "torch csr", weight.to_sparse_csr()
        if block != (1, 1) and not any(s % b for s, b in zip(weight.shape, block)):
            yield "torch bsr", weight.to_sparse_bsr(block)


# Two ways to write it; torch runs them at different speeds, and not each of every layout.
WAYS = {"linear": lambda x, weight, bias: F.linear(x, weight, bias), "turned": lambda x, weight, bias: torch.add(torch.mm(weight, x.t()).t(), bias)}


def forward(raw, ours, x, block):
    """What a row compares: {name: function}; of torch's layouts each way that runs and is right."""
    subjects = {"dense": lambda: raw(x), "sparta": lambda: ours(x)}
    wanted = raw(x)
    for name, weight in torch_sparse(raw.weight.detach(), block):
        for way, run in WAYS.items():
            def call(run=run, weight=weight):
                return run(x, weight, raw.bias)
            try:
                if torch.allclose(call(), wanted, atol=1e-2, rtol=1e-2):
                    subjects[f"{name} {way}"] = call
            except RuntimeError:
                pass
    return subjects


def best_of(best, name):
    return min((seconds for key, seconds in best.items() if key.startswith(name)), default=None)


def linear(rounds, dtype=torch.float32, patterns=PATTERNS):
    rows = []
    for tokens, k, n in SHAPES:
        for block, sparsity in patterns:
            raw, ours, _ = layer(k, n, block, sparsity, dtype)
            x = torch.randn(tokens, k, dtype=dtype)
            with torch.no_grad():
                best = fastest(forward(raw, ours, x, block), rounds)
            best = {name: best_of(best, name) for name in ("dense", "sparta", "torch csr", "torch bsr")}
            rows.append([f"{tokens} x {k} x {n}", f"{block[0]}x{block[1]}, {sparsity:.0%}", str(dtype)[6:], *best.values()])
            note("  ".join(rows[-1][:3]) + f"  {best['dense'] / best['sparta']:.2f}x")
    return rows


def gradients(rounds):
    rows = []
    for tokens, k, n in SHAPES:
        for block, sparsity in PATTERNS[:3]:
            raw, ours, _ = layer(k, n, block, sparsity)
            x = torch.randn(tokens, k, requires_grad=True)
            gradient = torch.randn(tokens, n)

            def step(module, x=x, gradient=gradient):
                x.grad = None
                module.zero_grad()
                module(x).backward(gradient)

            best = fastest({"dense": lambda raw=raw, step=step: step(raw), "sparta": lambda ours=ours, step=step: step(ours)}, rounds)
            rows.append([f"{tokens} x {k} x {n}", f"{block[0]}x{block[1]}, {sparsity:.0%}", "float32", best["dense"], best["sparta"]])
            note("  ".join(rows[-1][:3]) + f"  {best['dense'] / best['sparta']:.2f}x")
    return rows


def attention(rounds, heads=8, tokens=4096, features=64, block=64, absent=0.95):
    torch.manual_seed(0)
    blocks = torch.rand(tokens // block, tokens // block) >= absent
    blocks.fill_diagonal_(True)
    mask = blocks.repeat_interleave(block, 0).repeat_interleave(block, 1)
    ours = sparta.nn.SparseAttention(mask=mask)
    q, k, v = (torch.randn(1, heads, tokens, features, requires_grad=True) for _ in range(3))
    gradient = torch.randn(1, heads, tokens, features)

    def both(run):
        for t in (q, k, v):
            t.grad = None
        run().backward(gradient)

    def dense():
        return F.scaled_dot_product_attention(q, k, v)

    def sparse():
        return ours(q, k, v)

    rows = []
    with torch.no_grad():
        best = fastest({"dense": dense, "sparta": sparse}, max(3, rounds // 3))
    rows.append([f"{heads} heads of {features}, {tokens} tokens", f"blocks of {block}, {1 - blocks.float().mean():.0%} absent", "forward", best["dense"], best["sparta"]])
    best = fastest({"dense": lambda: both(dense), "sparta": lambda: both(sparse)}, max(3, rounds // 3))
    rows.append([*rows[0][:2], "with backward", best["dense"], best["sparta"]])
    for row in rows:
        note("  ".join(row[:3]) + f"  {row[3] / row[4]:.2f}x")
    return rows


def overhead(rounds):
    raw, ours, _ = layer(4, 4, (1, 1), 0.5)
    x = torch.randn(1, 4)
    with torch.no_grad():
        best = fastest({"dense": lambda: raw(x), "sparta": lambda: ours(x)}, 3 * rounds)
    note(f"4 x 4: {best['sparta'] / best['dense']:.2f} of nn.Linear's time")
    return [["a 4 x 4 weight", "1x1, 50%", "no_grad", best["dense"], best["sparta"]]]


def built(rounds):
    rows = []
    for tokens, k, n, block, sparsity in LAYERS:
        raw = torch.nn.Linear(k, n)
        model = torch.nn.Sequential(torch.nn.Linear(k, n))
        mask = sparta.testing.block_mask((n, k), block=block, sparsity=sparsity)
        with torch.no_grad():
            raw.weight.mul_(mask)
            model[0].load_state_dict(raw.state_dict())
        x = torch.randn(tokens, k)
        sparta.sparsify_(model)
        sparta.build_(model, (x,))
        with torch.no_grad():
            best = fastest({"dense": lambda raw=raw, x=x: raw(x), "sparta": lambda m=model[0], x=x: m(x)}, rounds)
        runs = sparta.report(model)[0]["implement"]
        rows.append([f"{tokens} x {k} x {n}", f"{block[0]}x{block[1]}, {sparsity:.0%}", runs, best["dense"], best["sparta"]])
        note("  ".join(rows[-1][:3]) + f"  {best['dense'] / best['sparta']:.2f}x")
    return rows


def compiled(rounds, batch=8, tokens=128, layers=12):
    """transformers' BERT-base, whole: eager against Inductor, both modes of our backend, and the program on the package that mode engine made. Each is compiled in
    a function of its own, so that one does not see another's guards."""
    import transformers

    sparta.dynamo.register()
    model = sparta.sparsify_(transformers.BertModel(transformers.BertConfig(num_hidden_layers=layers)).eval(), {"encoder.*": "4x1:0.9"})
    x = {"input_ids": torch.randint(0, 30000, (batch, tokens)), "attention_mask": torch.ones(batch, tokens, dtype=torch.long)}
    ways = {"engine": {"backend": "sparta", "options": {"mode": "engine"}}, "rewrite": {"backend": "sparta", "options": {"mode": "rewrite"}},
            "Inductor, dense": {"backend": "inductor"}}
    subjects, took = {"eager": lambda: model(**x)}, {}
    with torch.no_grad():
        want = model(**x).last_hidden_state
        for name, how in ways.items():
            run = torch.compile(lambda **x: model(**x), **how)
            start = time.perf_counter()
            off = float((run(**x).last_hidden_state - want).abs().max())
            took[name] = time.perf_counter() - start
            note(f"{name}: compiled in {took[name]:.0f} s, differs from eager by {off:.1e}")
            if off > 1e-3:
                raise SystemExit(f"{name} answers something else")
            subjects[name] = lambda run=run: run(**x)
        best = fastest(subjects, rounds)
    model_name = f"BERT-base, {layers} layers, {batch} x {tokens}"
    rows = [[model_name, "4x1, 90%", f"{name}, compiled in {took[name]:.0f} s", best["eager"], best[name]] for name in ways]
    rows.append([model_name, "4x1, 90%", "`sparta bench` of the engine's package", best["eager"], program_time()])
    for row in rows:
        note("  ".join(row[:3]) + f"  {row[3] / row[4]:.2f}x")
    return rows


def program_time():
    """Seconds of the program on the package, the best of its runs."""
    package = next(part for graph in sparta.dynamo._alive for part in getattr(graph, "parts", [])).package
    with tempfile.TemporaryDirectory() as folder:
        path = package.save(os.path.join(folder, "bert.sparta"))
        said = subprocess.run([os.path.join(ROOT, "build/release/sparta"), "bench", path, "--no-baseline", "--json", "--threads", str(torch.get_num_threads())],
                              capture_output=True, text=True, check=True).stdout
    return json.loads(said)["subject"]["best_ms"] / 1e3


def time_text(seconds):
    return "" if seconds is None else f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def table(head, rows):
    """Rows of three texts and times; dense first, ours second, then peers."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        dense, ours, *peers = row[3:]
        lines.append("| " + " | ".join([*row[:3], time_text(dense), time_text(ours), f"**{dense / ours:.2f}x**"]
                                        + [f"{time_text(p)} ({p / ours:.1f}x)" if p else "-" for p in peers]) + " |")
    return "\n".join(lines)


SECTIONS = {
    "linear": (linear, "SparseLinear against nn.Linear and torch's own sparse layouts, forward, row-major in and out",
               ["tokens x inputs x outputs", "pattern", "type", "nn.Linear", "sparta", "ratio", "torch csr (ours against it)", "torch bsr (ours against it)"]),
    "gradients": (gradients, "Forward and backward: gradients of input, weight and bias",
                  ["tokens x inputs x outputs", "pattern", "type", "nn.Linear", "sparta", "ratio"]),
    "attention": (attention, "SparseAttention against scaled_dot_product_attention", ["shape", "mask", "", "SDPA, dense", "sparta", "ratio"]),
    "overhead": (overhead, "What a call costs: the module, nothing to compute", ["weight", "pattern", "", "nn.Linear", "sparta", "ratio"]),
    "compiled": (compiled, "torch.compile of a whole model, against eager dense", ["model", "pattern", "what runs", "eager", "it", "ratio"]),
    "built": (built, "After build_: what runs is what is faster", ["tokens x inputs x outputs", "pattern", "what runs", "nn.Linear", "built", "ratio"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--layers", type=int, default=12, help="of the BERT that is compiled")
    parser.add_argument("--write", action="store_true", help="put it into docs/benchmarks/torch.md")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    rounds = 3 if args.quick else args.rounds
    text = (f"{cpu_name()}, {args.threads} threads, torch {torch.__version__}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}, "
            f"commit {commit_name()}; best of {rounds} interleaved rounds.\n")
    for name, (measure, title, head) in SECTIONS.items():
        if args.only in (None, name):
            note(title)
            more = {"layers": args.layers} if name == "compiled" else {}
            text += f"\n### {title}\n\n{table(head, measure(rounds, **more))}\n"
    print(text)
    if args.write:
        write(text)


def write(text):
    """Between the marks of the page; the rest of it is written by hand."""
    with open(PAGE, encoding="utf-8") as file:
        before, rest = file.read().split("<!-- measured -->\n", 1)
        after = rest.split("<!-- end -->", 1)[1]
    with open(PAGE + ".new", "w", encoding="utf-8") as file:
        file.write(f"{before}<!-- measured -->\n{text}<!-- end -->{after}")
    os.replace(PAGE + ".new", PAGE)


if __name__ == "__main__":
    main()
