"""Times the PyTorch door against torch itself: sparse layers, their gradients, attention, call overhead, whole layers after build_, a compiled BERT, dense models in mode
engine (make bench-torch).

    make bench-torch                             everything, about fifteen minutes; leave the machine alone
    make bench-torch TORCH_ARGS=--quick          few rounds: does it work?
    make bench-torch TORCH_ARGS="--only linear"  one section: linear, gradients, attention, overhead, compiled, models, built
    make bench-torch TORCH_ARGS="--threads 1 --cpu-time"     processor time: for a machine that others share
    make bench-torch TORCH_ARGS=--write          also puts it into docs/benchmarks/torch.md

Everything is in one process on the same two threads. A round gives each subject of a row one turn of a few calls, in an order that changes; the figure of
a subject is its fastest turn of all rounds, because on a shared machine everything else measures the neighbours. A ratio is dense time over ours.
"""

import argparse
import gc
import os
import platform
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
from sparta import package as packages  # noqa: E402
from sparta._arrays import Tensor  # noqa: E402
from sparta.dynamo.check import made_inputs  # noqa: E402
from sparta.dynamo.engine import _NAMED, describe  # noqa: E402

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


clock = time.perf_counter


def fastest(subjects, rounds, turn=0.02):
    """Seconds of one call of each subject: the best turn of all rounds, in turns."""
    calls, best = {}, {name: float("inf") for name in subjects}
    for name, run in subjects.items():
        run()
        start = clock()
        run()
        calls[name] = max(1, int(turn / max(clock() - start, 1e-7)))
    names = list(subjects)
    for r in range(rounds):
        for name in names[r % len(names):] + names[: r % len(names)]:
            run, n = subjects[name], calls[name]
            start = clock()
            for _ in range(n):
                run()
            best[name] = min(best[name], (clock() - start) / n)
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


def ways(folder=None):
    """What torch.compile is given for each subject; the engine's kernels and times lie in a folder, or where they usually do."""
    ours = {"context": {"cache_dir": folder}, "db": os.path.join(folder, "tune.db")} if folder else {}
    return {"engine": {"backend": "sparta", "options": {"mode": "engine", "compile": ours}}, "rewrite": {"backend": "sparta", "options": {"mode": "rewrite"}},
            "Inductor, dense": {"backend": "inductor"}}


def first_call(model, x, how):
    """The compiled model and the seconds of its first call. It is compiled in a function of its own, so that it does not see another's guards."""
    run = torch.compile(lambda **x: model(**x), **how)
    start = time.perf_counter()
    answer = run(**x)
    return run, answer, time.perf_counter() - start


def forget():
    """What torch holds in memory of graphs that it compiled."""
    torch._dynamo.reset()
    gc.collect()


def bert(layers, batch, tokens):
    import transformers

    model = sparta.sparsify_(transformers.BertModel(transformers.BertConfig(num_hidden_layers=layers)).eval(), {"encoder.*": "4x1:0.9"})
    return model, {"input_ids": torch.randint(0, 30000, (batch, tokens)), "attention_mask": torch.ones(batch, tokens, dtype=torch.long)}


def package_alone():
    """A run of the engine's only package without torch, Dynamo and Python around it: what `sparta bench` times, in this process and in turns."""
    (part,) = (part for graph in sparta.dynamo._alive for shared in getattr(graph, "parts", []) for part in shared.parts.values())
    inputs = made_inputs(part.package, {})
    given = (_NAMED * len(inputs))(*((name.encode(), describe(t)) for name, t in inputs.items()))
    answers = (_NAMED * len(part.outputs))(*((name, Tensor()) for name in part.outputs))
    session = packages._Session(part.package._open(), torch.get_num_threads())
    return lambda: (inputs, session.context.call("sparta_session_run", session.handle._handle, given, len(given), answers, len(answers)))


@torch.no_grad()
def compiled(rounds, batch=8, tokens=128, layers=12):
    """transformers' BERT-base, whole: eager against Inductor, both modes of our backend, and the package that mode engine made, run in C alone."""
    sparta.dynamo.register()
    forget()
    model, x = bert(layers, batch, tokens)
    want = model(**x).last_hidden_state
    subjects = {"eager": lambda: model(**x)}
    for name, how in ways().items():
        run, answer, _ = first_call(model, x, how)
        off = float((answer.last_hidden_state - want).abs().max())
        if off > 1e-3:
            raise SystemExit(f"{name} answers something else: off by {off:.1e}")
        subjects[name] = lambda run=run: run(**x)
    subjects["engine's package in C alone"] = package_alone()
    best = fastest(subjects, rounds)
    model_name = f"BERT-base, {layers} layers, {batch} x {tokens}"
    rows = [[model_name, "4x1, 90%", name, best["eager"], best[name]] for name in subjects if name != "eager"]
    for row in rows:
        note("  ".join(row[:3]) + f"  {row[3] / row[4]:.2f}x")
    note(f"engine: {best['engine'] / best[rows[-1][2]]:.3f} of its package's time, {best['Inductor, dense'] / best['engine']:.2f}x Inductor")
    return rows


@torch.no_grad()
def compile_times(rounds, batch=8, tokens=128, layers=12):
    """Seconds of the first call: without anything on disk, and again with what that left there. Modules of Inductor are imported before."""
    from torch._inductor.utils import fresh_cache

    sparta.dynamo.register()
    first_call(lambda x: x + 1, {"x": torch.ones(4)}, ways()["Inductor, dense"])
    rows = []
    for n in sorted({min(2, layers), layers}):
        model, x = bert(n, batch, tokens)
        took = {}
        for name in ways():
            with tempfile.TemporaryDirectory(prefix="sparta-bench-") as folder, fresh_cache():
                times = []
                for _ in range(2):
                    forget()
                    times.append(first_call(model, x, ways(folder)[name])[2])
            took[name] = times
            note(f"{n} layers, {name}: compiled in {times[0]:.1f} s, again in {times[1]:.1f} s")
        forget()
        dense = took["Inductor, dense"]
        rows += [[f"BERT-base, {n} layers", name, f"{t[1]:.1f} s ({dense[1] / t[1]:.2f}x)", dense[0], t[0]] for name, t in took.items()]
    return rows


def small_models():
    """{name: (make, inputs)}: models of transformers at the width of their base sizes, of two layers, dense."""
    import transformers as T

    T.logging.set_verbosity_error()
    sizes = {"hidden_size": 768, "num_hidden_layers": 2, "num_attention_heads": 12, "intermediate_size": 3072}
    encoder = {**sizes, "vocab_size": 1000, "max_position_embeddings": 256}
    decoder = {**sizes, "vocab_size": 1000, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    image = {**sizes, "image_size": 224, "patch_size": 16}
    ids = {"input_ids": torch.randint(3, 1000, (4, 128))}
    masked = {**ids, "attention_mask": torch.ones(4, 128, dtype=torch.long)}
    pixels = {"pixel_values": torch.randn(2, 3, 224, 224)}
    return {
        "BERT": (lambda: T.BertModel(T.BertConfig(**encoder)), masked),
        "RoBERTa": (lambda: T.RobertaModel(T.RobertaConfig(**encoder)), masked),
        "DistilBERT": (lambda: T.DistilBertModel(T.DistilBertConfig(dim=768, n_layers=2, n_heads=12, hidden_dim=3072, vocab_size=1000)), masked),
        "DeBERTa": (lambda: T.DebertaV2Model(T.DebertaV2Config(**encoder, relative_attention=True, pos_att_type=["p2c", "c2p"])), masked),
        "T5 encoder": (lambda: T.T5EncoderModel(T.T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=2, num_heads=12, vocab_size=1000)), masked),
        "GPT-2": (lambda: T.GPT2Model(T.GPT2Config(n_layer=2, vocab_size=1000, use_cache=False, bos_token_id=1, eos_token_id=2)), ids),
        "Llama": (lambda: T.LlamaModel(T.LlamaConfig(**decoder, num_key_value_heads=4)), ids),
        "Gemma 2": (lambda: T.Gemma2Model(T.Gemma2Config(**decoder, num_key_value_heads=4, head_dim=64)), ids),
        "ViT": (lambda: T.ViTModel(T.ViTConfig(**image)), pixels),
        "Swin": (lambda: T.SwinModel(T.SwinConfig(depths=[2, 2], num_heads=[3, 6])), pixels),
        "ResNet": (lambda: T.ResNetModel(T.ResNetConfig(depths=[1, 1, 1, 1])), pixels),
    }


@torch.no_grad()
def models(rounds, names=()):
    """Dense models in mode engine against Inductor, in turns."""
    sparta.dynamo.register()
    rows = []
    for name, (make, x) in small_models().items():
        if names and name not in names:
            continue
        forget()
        model = make().eval()
        want = model(**x)[0]
        subjects, took = {"eager": lambda model=model, x=x: model(**x)}, []
        for way in ("engine", "Inductor, dense"):
            run, answer, seconds = first_call(model, x, ways()[way])
            off = float((answer[0] - want).abs().max() / want.abs().max())
            if off > 1e-3:
                raise SystemExit(f"{name}, {way} answers something else: off by {off:.1e}")
            subjects[way] = lambda run=run, x=x: run(**x)
            took.append(f"{seconds:.1f}")
        parts = [part for graph in sparta.dynamo._alive for part in getattr(graph, "parts", [])]
        best = fastest(subjects, rounds)
        shape = " x ".join(map(str, next(iter(x.values())).shape))
        rows.append([name, shape, f"{len(parts)}", best["Inductor, dense"], best["engine"], best["eager"]])
        note("  ".join(rows[-1][:3]) + f"  {best['Inductor, dense'] / best['engine']:.2f}x Inductor, compiled in {' and '.join(took)} s")
        del model, subjects, run, answer
    return rows


def time_text(seconds):
    return "" if seconds is None else f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms" if seconds < 2 else f"{seconds:.1f} s"


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
    "compiled times": (compile_times, "How long torch.compile takes: the first call, with empty caches and again with what it left there",
                       ["model", "what compiles", "again (Inductor's time over it)", "Inductor, empty caches", "it, empty caches", "ratio"]),
    "models": (models, "Dense models of transformers in mode engine, two layers, against Inductor",
               ["model", "input", "packages", "Inductor", "engine", "ratio", "eager (ours against it)"]),
    "built": (built, "After build_: what runs is what is faster", ["tokens x inputs x outputs", "pattern", "what runs", "nn.Linear", "built", "ratio"]),
}


def main():
    global clock
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="time of the processor, not of the clock: with one thread, whatever else runs")
    parser.add_argument("--only", choices=sorted({name.split()[0] for name in SECTIONS}), help="one section")
    parser.add_argument("--layers", type=int, default=12, help="of the BERT that is compiled")
    parser.add_argument("--models", nargs="+", default=(), help="of the section models: these, by name")
    parser.add_argument("--write", action="store_true", help="put it into docs/benchmarks/torch.md")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    rounds = 3 if args.quick else args.rounds
    if args.cpu_time and args.threads != 1:
        parser.error("--cpu-time: threads that wait count too; with --threads 1")
    clock = time.process_time if args.cpu_time else time.perf_counter
    text = (f"{cpu_name()}, {args.threads} threads, torch {torch.__version__}, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}, "
            f"commit {commit_name()}; best of {rounds} interleaved rounds{', processor time' if args.cpu_time else ''}.\n")
    for name, (measure, title, head) in SECTIONS.items():
        if args.only in (None, name.split()[0]):
            note(title)
            more = {"layers": args.layers} if name.startswith("compiled") else {"names": args.models} if name == "models" else {}
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
