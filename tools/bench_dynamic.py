#!/usr/bin/env python3
"""Times models that are sparsified as they run (docs/schedules.md) against the same run dense: a Relu perceptron whose hidden layer is, an attention whose scores are, and one whose probabilities are.

    python3 tools/bench_dynamic.py --sparta build/release/sparta                        prints the page
    make bench-dynamic                                                                  writes docs/benchmarks/dynamic.md, about ten minutes

Of each line of the hidden layer a share stays (topk); of the blocks of keys each block of queries goes to the nearest (similarity). Products are timed by compile itself, all contenders window by window in turns on one thread, the best
of many windows; whole models by `sparta bench`, both in turns in one process. Needs no packages.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARES, TOKENS = (5, 10, 25, 50), (1, 2, 4, 8, 16, 32, 64, 128)
KEYS, ROUTES = (512, 1024, 2048, 4096), ((1, 64), (3, 64), (7, 64), (7, 32))  # of each length; (topk, block)
WEIGHED, STAYING = (128, 256, 512, 1024), (2, 5, 10, 20)  # keys; percent of the probabilities of each query
SIZES = {"1024-4096-1024": (1024, 4096, 1024), "2048-8192-2048": (2048, 8192, 2048)}


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"sparta {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def measure(args, model, folder, tokens, share):
    """The times of the second layer, skipping and dense, what was chosen, and the ratio of the whole model."""
    rules = os.path.join(folder, "s.sched")
    with open(rules, "w") as f:
        f.write(f'model {{ dim batch={tokens} }}\ntensor "/fc1/Relu:output" {{ sparsify topk({share}%) }}\n')
    db = os.path.join(folder, f"{tokens}-{share}.db")
    said = json.loads(run(args.sparta, "bench", model, "--schedule", rules, "--db", db, "--threads", 1, "--time", args.time, "--profile", "--json"))
    layer = next(one for one in said["layers"] if one["name"] == "/fc2/Gemm")
    times = re.search(r"measured: ([0-9.]+) us(?: with what skips)?, ([0-9.]+) us dense", layer["reason"])
    skip, dense = map(float, times.groups()) if times else (None, None)  # none: it was not tried
    return {"implement": layer["implement"], "skip": skip, "dense": dense, "ratio": said["ratio"], "ci": said["ratio_ci95"]}


def machine():
    with open("/proc/cpuinfo") as f:
        name = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return f"- machine: {name}, one of {os.cpu_count()} cores; date: {datetime.date.today()}; commit: {commit or 'unknown'}"


def page(args):
    yield "# Products that skip what is not there as the model runs"
    yield ""
    yield "Made by `make bench-dynamic` (tools/bench_dynamic.py). A perceptron of three layers with Relu, f32; of each line of its hidden layer `topk` leaves a share. Times are of the"
    yield "second product, in us: `few_skip`, the best dense one, and how many times as fast skipping is; bold where compile chose it. The last column is the whole model, Sparsify and the"
    yield "first layer included, which reads all of its weights, against the same model without any product that skips. In the second product other places are there from run to run; whole"
    yield "models get the same input again and again, but read some 16 MB and more of other weights in between. From 32 tokens on compile times products at 128, and does not try to skip where 30 % or more is there."
    yield ""
    yield machine()
    for name, (inputs, hidden, outputs) in SIZES.items() if "products" in args.only else ():
        yield from table(args, name, inputs, hidden, outputs)
    if "attention" in args.only:
        yield from attention(args)
    if "pairs" in args.only:
        yield from pairs(args)


def one_layer(args, folder, tokens):
    """The package of one layer of a BERT, and what makes another one with a schedule."""
    model, rules, thin, whole = (os.path.join(folder, n) for n in ("m.onnx", "s.sched", "thin.sparta", "all.sparta"))
    run(args.sparta, "zoo", "bert-mini", "--dim", "layers=1", "--dim", "vocab=100", "--dim", f"positions={tokens}", "-o", model)
    dims = ("--dim", "batch=1", "--dim", f"sequence={tokens}", "--db", os.path.join(folder, "tune.db"))
    run(args.sparta, "compile", model, *dims, "-o", whole)

    def thinned(schedule):
        with open(rules, "w") as f:
            f.write(schedule)
        run(args.sparta, "compile", model, "--schedule", rules, *dims, "-o", thin)
        return thin

    return whole, thinned


def pairs(args):
    yield ""
    yield "## Products of two values that are computed"
    yield ""
    yield "The same layer; `topk` leaves a share of the probabilities of each query, before they weigh the values. Times in ms on one thread, the best of six runs of `sparta bench`, both in turns in one process: the product by"
    yield "`matmul_skip`, the same product by the quick reference, which multiplies the zeros too, and the Sparsify that comes before either. Compile times up to 512 keys (bold where it chose to skip); above that it takes what skips. The last column"
    yield "is the whole layer against the model without the schedule, whose attention is one kernel and stores no probabilities: above 1 only where dropping them is faster than that."
    yield ""
    yield f"- load of the machine when this table began: {os.getloadavg()[0]:.1f}"
    yield ""
    yield "| keys | there | matmul_skip | dense | ratio | Sparsify | whole layer |"
    yield "|---|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        for tokens in WEIGHED:
            yield from weighed(args, folder, tokens)


def weighed(args, folder, tokens):
    """The rows of one number of keys."""
    all_keys, thinned = one_layer(args, folder, tokens)
    for share in STAYING:
        thin = thinned(f'tensor "*/Softmax:output" {{ sparsify topk({share}%) }}\n')
        best = {}
        for _ in range(6):
            said = json.loads(run(args.sparta, "bench", thin, "--threads", 1, "--time", args.time / 4, "--profile", "--json"))
            for one in said["layers"]:
                for key in ("ms", "baseline_ms"):
                    best[one["name"], key] = min(best.get((one["name"], key), float("inf")), one[key] or float("inf"))
        product = next(one for one in said["layers"] if one["name"].endswith("/MatMul_1"))
        sparsify = next(one for one in said["layers"] if one["op"] == "Sparsify")
        whole = json.loads(run(args.sparta, "bench", thin, "--against", all_keys, "--threads", 1, "--time", args.time, "--json"))
        lo, hi = whole["ratio_ci95"]
        skip, dense = best[product["name"], "ms"], best[product["name"], "baseline_ms"]
        time, ratio = f"{skip:.3f}", f"{dense / skip:.2f}x"
        if product["implement"] != "matmul_skip":
            time, ratio = "", "not chosen"
        elif "not timed" not in product["reason"]:
            ratio = f"**{ratio}**"
        yield f"| {tokens} | {share} % | {time} | {dense:.3f} | {ratio} | {best[sparsify['name'], 'ms']:.3f} | {whole['ratio']:.2f}x ({lo:.2f} to {hi:.2f}) |"


def attention(args):
    yield ""
    yield "## Attention that reads the keys it is routed to"
    yield ""
    yield "One layer of a BERT, hidden 256, 4 heads of 64, one sequence. `similarity(topk, block)`: each block of queries sees its own block of keys and the topk whose means are most alike. Times in ms on"
    yield "one thread: `routed` is everything that finds and reads them (the list, q and k in rows for it, scores, softmax, context), `all keys` the attention of the model without the schedule; both models run in"
    yield "turns in one process. `bound` is the share of keys that a list has room for: one over it is the most that could be gained. The last column is the whole layer, its linear layers included."
    yield ""
    yield f"- load of the machine when this table began: {os.getloadavg()[0]:.1f}"
    yield ""
    yield "| tokens | similarity | bound | routed | all keys | ratio | whole layer |"
    yield "|---|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        for tokens in KEYS:
            yield from routed(args, folder, tokens)


def routed(args, folder, tokens):
    """The rows of one length of sequences."""
    all_keys, thinned = one_layer(args, folder, tokens)
    for topk, block in ROUTES:
        thin = thinned(f'tensor "*/Softmax:input" {{ sparsify similarity(topk={topk}, block={block}) }}\n')
        said = json.loads(run(args.sparta, "bench", thin, "--against", all_keys, "--threads", 1, "--time", args.time, "--profile", "--json"))
        own = [one for one in said["layers"] if one["op"] == "Attention" or one["baseline_ms"] is None]  # the rest is in both models
        ms, dense = sum(one["ms"] for one in own), sum(one["baseline_ms"] or 0 for one in own)
        lo, hi = said["ratio_ci95"]
        bound = min(1, (topk + 1) * block / tokens)
        ratio = f"{dense / ms:.2f}x"
        ratio = f"**{ratio}**" if any(one["implement"] == "attention_skip" for one in own) else ratio
        yield f"| {tokens} | {topk}, {block} | {100 * bound:.3g} % | {ms:.2f} | {dense:.2f} | {ratio} | {said['ratio']:.2f}x ({lo:.2f} to {hi:.2f}) |"


def table(args, name, inputs, hidden, outputs):
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "mlp.onnx")
        run(args.sparta, "zoo", "mlp", *(w for n, v in (("inputs", inputs), ("hidden1", hidden), ("hidden2", outputs)) for w in ("--dim", f"{n}={v}")), "-o", model)
        yield ""
        yield f"## {name}"
        yield ""
        yield "| tokens | there | few_skip | dense | ratio | whole model |"
        yield "|---|---|---|---|---|---|"
        for tokens in TOKENS if hidden < 8192 else TOKENS[:3]:
            for share in SHARES:
                r = measure(args, model, folder, tokens, share)
                lo, hi = r["ci"]
                if not r["skip"]:
                    yield f"| {tokens} | {share} % | not tried | | | {r['ratio']:.2f}x ({lo:.2f} to {hi:.2f}) |"
                    continue
                ratio = f"{r['dense'] / r['skip']:.2f}x"
                ratio = f"**{ratio}**" if r["implement"] == "few_skip" else ratio
                yield f"| {tokens} | {share} % | {r['skip']:.1f} | {r['dense']:.1f} | {ratio} | {r['ratio']:.2f}x ({lo:.2f} to {hi:.2f}) |"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--sparta", default=os.path.join(ROOT, "build/release/sparta"))
    p.add_argument("--time", type=float, default=1.0, help="seconds of each whole model")
    p.add_argument("--only", nargs="+", choices=("products", "attention", "pairs"), default=("products", "attention", "pairs"), help="tables to make")
    p.add_argument("--out", help="file to write")
    args = p.parse_args()
    lines = list(page(args))
    if args.out:
        with open(args.out, "w") as f:
            f.write("\n".join(lines) + "\n")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
