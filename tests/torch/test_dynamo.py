"""torch.compile(backend="sparta"): found by name, both modes against eager, open sizes without compiling again, weights and patterns that change, training,
what falls back and is said once. "aot_eager" is all of torch's compiler but its C++; one check of each mode takes Inductor."""

import gc
import logging
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
import warnings
import weakref

import torch
from torch import nn
from torch._dynamo.utils import counters

from common import ROOT, Tests, need, refused

import sparta  # common.py says where it is
import sparta.dynamo
import sparta.nn
import sparta.testing
from sparta import _zeros
from sparta.dynamo import engine, kept, rewrite, translate

tests = Tests()
os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tests.work.name
logging.getLogger("torch").setLevel(logging.ERROR)
sparta.dynamo.register()
torch.manual_seed(0)
REWRITE = {"mode": "rewrite", "inner": "aot_eager"}
QUICK = {"no_measure": 1, "context": {"cache_dir": "", "compiler": ""}}
ENGINE = {"mode": "engine", "inner": "aot_eager", "compile": QUICK}


class Turned(nn.Module):
    """A layer as GPT-2 has it: the weight is (inputs, outputs)."""

    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / 16)
        self.bias = nn.Parameter(torch.randn(outputs)) if bias else None

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        out = flat @ self.weight if self.bias is None else torch.addmm(self.bias, flat, self.weight)
        return out.view(*x.shape[:-1], -1)


def thin_(module, share=0.1):
    with torch.no_grad():
        module.weight.mul_(torch.rand_like(module.weight) < share)
    return module


def model():
    """Masked, with zeros only, turned, packed, dense."""
    layers = nn.Sequential(
        nn.Linear(256, 512), nn.GELU(), thin_(nn.Linear(512, 256)), thin_(Turned(256, 256)), thin_(Turned(256, 256, False)),
        nn.Linear(256, 256), nn.LayerNorm(256), nn.Linear(256, 8),
    )  # fmt: skip
    layers[5] = sparta.nn.SparseLinear(layers[5], pattern="4x1:0.9")
    return sparta.sparsify_(layers, {"0": "4x1:0.9"}).eval()


def compiled(module, options=REWRITE, **more):
    torch._dynamo.reset()
    counters.clear()
    return torch.compile(module, backend="sparta", options=options, **more)


def same(got, want, what="", atol=1e-4):
    need(got.shape == want.shape and got.dtype == want.dtype, f"{what}: {got.shape} {got.dtype}")
    need(torch.allclose(got, want, atol=atol, rtol=1e-3), f"{what} differs by {(got - want).abs().max()}")


def rows():
    gc.collect()
    return {row["name"]: row for row in sparta.dynamo.report()}


# ---------------------------------------------------------------- the backend
def by_name():
    """In a process that imported nothing of ours, from the entry point as pyproject.toml has it."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["torch_dynamo_backends"]
    folder = os.path.join(tests.work.name, "installed", "sparta-0.dist-info")
    os.makedirs(folder)
    with open(os.path.join(folder, "METADATA"), "w", encoding="utf-8") as file:
        file.write("Metadata-Version: 2.1\nName: sparta\nVersion: 0\n")
    with open(os.path.join(folder, "entry_points.txt"), "w", encoding="utf-8") as file:
        file.write("[torch_dynamo_backends]\n" + "".join(f"{name} = {where}\n" for name, where in points.items()))
    code = """if True:
        import sys, torch
        assert "sparta" in torch._dynamo.list_backends(exclude_tags=None) and "sparta" not in sys.modules
        layer = torch.nn.Linear(256, 256)
        with torch.no_grad():
            layer.weight[torch.rand(256, 256) > 0.1] = 0
            x = torch.randn(4, 256)
            fast = torch.compile(layer, backend="sparta", options={"inner": "aot_eager"})
            assert torch.allclose(fast(x), layer(x), atol=1e-4)
        import sparta.dynamo
        print([row["implement"] for row in sparta.dynamo.report()])
    """
    path = os.pathsep.join([os.path.dirname(folder), os.path.join(ROOT, "python")])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    need(done.returncode == 0 and "linear_zeros" in done.stdout, done.stdout + done.stderr[-500:])


def refusals():
    x, layer = torch.randn(4, 256), nn.Linear(256, 256)
    fails = torch._dynamo.exc.BackendCompilerFailed
    for words, options in {"no mode 'fast'": {"mode": "fast"}, "knows no option 'inlet'": {"inlet": 1, "inner": "eager"}}.items():
        try:
            compiled(layer, options)(x)
        except (ValueError, fails) as error:
            need(words in str(error), error)
        else:
            raise AssertionError(f"{options} was accepted")


# ---------------------------------------------------------------- rewrite
def answers():
    layers = model()
    fast, x = compiled(layers, fullgraph=True), torch.randn(3, 5, 256)
    with torch.no_grad():
        same(fast(x), layers(x))
    found = {name: row["implement"] for name, row in rows().items()}
    wanted = {"0.weight": "linear_zeros", "2.weight": "linear_zeros", "3.weight": "linear_zeros", "4.weight": "linear_zeros", "7.weight": "dense"}
    need(found == wanted, found)
    need(all(row["reason"] for row in rows().values()), rows())
    with torch.inference_mode():
        same(fast(x), layers(x), "inference_mode")
    for kind in (torch.float64, torch.bfloat16):
        twin = model().to(kind)
        with torch.no_grad():
            same(compiled(twin)(x.to(kind)), twin(x.to(kind)), str(kind), 0.1 if kind == torch.bfloat16 else 1e-6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        same(compiled(layers)(x), layers(x), "autocast", 0.1)


def inductor():
    layers, x = model(), torch.randn(12, 256)
    fast = compiled(layers, {"mode": "rewrite"}, fullgraph=True, dynamic=True)
    with torch.no_grad():
        same(fast(x), layers(x))
        same(fast(torch.cat([x, x])), layers(torch.cat([x, x])), "another size")
    need(counters["stats"]["unique_graphs"] == 1, counters["stats"])


def sizes():
    """One graph for all of them; without dynamic=True torch makes the second one open."""
    layers = model()
    for dynamic, graphs in ((True, 1), (None, 2)):
        fast = compiled(layers, dynamic=dynamic)
        with torch.no_grad():
            for tokens in (6, 7, 19, 64, 130):
                x = torch.randn(tokens, 256)
                same(fast(x), layers(x), f"{tokens} tokens")
        need(counters["stats"]["unique_graphs"] == graphs, counters["stats"])


def changes():
    """Whatever writes to a weight is seen, values and patterns, with the graph that there is."""
    layers, x = model(), torch.randn(6, 256)
    fast = compiled(layers)
    other = model()

    def optimizer():
        step = torch.optim.SGD(layers[3].parameters(), lr=0.5)
        with torch.enable_grad():
            layers[3](x).square().mean().backward()
        step.step()

    ways = {
        "values": lambda: layers[2].weight.mul_(2),
        "a pattern with less": lambda: layers[2].weight[5:9].zero_(),
        "a pattern with more": lambda: layers[2].weight[:, 3].fill_(0.5),
        "an optimizer": optimizer,
        "a checkpoint": lambda: layers.load_state_dict(other.state_dict()),
        "another mask": lambda: layers[0].update_mask(sparta.testing.block_mask((512, 256), block=(4, 1), sparsity=0.8)),
        "no zeros": lambda: layers[4].weight.normal_(),
        "other memory": lambda: setattr(layers[4].weight, "data", torch.randn(256, 256)),
    }
    with torch.no_grad():
        same(fast(x), layers(x))
        for what, change in ways.items():
            change()
            same(fast(x), layers(x), what, 1e-3)
        graphs = counters["stats"]["unique_graphs"]
        for k in range(2 * _zeros.TRIES):
            layers[2].weight.normal_().mul_(torch.rand_like(layers[2].weight) < 0.1)
            same(fast(x), layers(x), f"pattern {k}", 1e-3)
    need(counters["stats"]["unique_graphs"] == graphs == 1, counters["stats"])


def later():
    """A weight that was full in earlier graphs is taken when it is pruned."""
    layers, x = nn.Sequential(nn.Linear(256, 256)).eval(), torch.randn(6, 256)
    with torch.no_grad():
        for _ in range(2 * _zeros.TRIES):
            layers[0].weight.add_(1)
            same(compiled(layers)(x), layers(x))
        thin_(layers[0])
        fast = compiled(layers)
        same(fast(x), layers(x))
        need(rows()["0.weight"]["implement"] == "linear_zeros", f"{rows()}")


def forgets():
    """What was packed goes with the weight, and memory that another weight gets says nothing of it."""
    gc.collect()
    x = torch.randn(4, 256)
    for _ in range(20):
        weight = thin_(nn.Linear(256, 256)).weight.detach()
        same(_zeros.linear_zeros(x, weight, None, None, False), x @ weight.t())
    need(len(_zeros._known) < 20, f"{len(_zeros._known)} are remembered")


def together():
    """Threads that make the first call at once have seen one pattern."""
    x, layer, count = torch.randn(4, 512), thin_(nn.Linear(512, 512)), 2 * _zeros.TRIES
    weight, gate = layer.weight.detach(), threading.Barrier(count)

    def call():
        gate.wait()
        _zeros.linear_zeros(x, weight, None, None, False)

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    packed = _zeros._remembered(weight, False)
    need(packed.patterns == 1 and packed.blocks is not None, f"{packed.patterns} patterns")


def operators():
    mask = sparta.testing.block_mask((256, 256), block=(4, 1), sparsity=0.9).bool()
    x = torch.randn(3, 256, dtype=torch.float64, requires_grad=True)
    for turned in (False, True):
        weight = (torch.randn(256, 256, dtype=torch.float64) * mask).requires_grad_()
        bias = torch.randn(256, dtype=torch.float64, requires_grad=True)
        for given in (mask, None):
            torch.library.opcheck(_zeros.linear_zeros, (x, weight, given, bias, turned))
        with torch.enable_grad():
            want = x @ torch.where(mask, weight, 0).t() + bias if not turned else x @ torch.where(mask, weight, 0) + bias
            upstream = torch.randn_like(want)
            wanted = torch.autograd.grad(want, (x, weight, bias), upstream)
            got = torch.autograd.grad(_zeros.linear_zeros(x, weight, mask, bias, turned), (x, weight, bias), upstream)
        for a, b, what in zip(got, wanted, ("x", "weight", "bias")):
            same(a, b, f"gradient of {what}", 1e-9)
    refused(RuntimeError, "takes 256 features", _zeros.linear_zeros, torch.randn(3, 5, device="meta"), weight.to("meta"), None, None, False)


def training():
    """Steps of AdamW, compiled and not: the same weights, and pruned ones stay 0."""
    torch.manual_seed(1)
    layers = model().train()
    twin = model().train()
    twin.load_state_dict(layers.state_dict())
    data = [torch.randn(8, 256) for _ in range(4)]
    fast = compiled(layers, dynamic=True)
    for module, run in ((layers, fast), (twin, twin)):
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
        for x in data:
            optimizer.zero_grad()
            run(x).square().mean().backward()
            optimizer.step()
    for (name, a), b in zip(layers.named_parameters(), twin.parameters()):
        same(a.detach(), b.detach(), name)
    need(rows()["0.weight"]["implement"] == "linear_zeros", "the masked layer trains with its elements")
    need(not bool(layers[0].weight[~layers[0].weight_mask].any()), "pruned weights moved")
    need(counters["stats"]["unique_graphs"] == 1, counters["stats"])
    with torch.no_grad():
        x = data[0]
        same(fast.eval()(x), layers.eval()(x), "eval after training", 1e-3)
    frozen = model().requires_grad_(False)
    x = torch.randn(5, 256, requires_grad=True)
    grads = []
    for run in (compiled(frozen), frozen):
        grads += torch.autograd.grad(run(x).square().sum(), x)
    same(*grads, "gradient through frozen layers", 1e-2)


def said_once():
    sparta.dynamo._told.clear()
    layers = nn.Sequential(thin_(nn.Linear(256, 256)), nn.ReLU())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            compiled(layers)(torch.randn(4, 256)).sum().backward()
    told = [str(w.message) for w in heard if "sparta" in str(w.message)]
    need(len(told) == 1 and "0.weight" in told[0] and "sparsify_" in told[0], told)


# ---------------------------------------------------------------- engine
def parts():
    """Of each graph that is alive: its packages, one for each model."""
    return [part for shared in shared_parts() for part in shared.parts.values()]


def shared_parts():
    gc.collect()
    return [shared for graph in sparta.dynamo._alive for shared in getattr(graph, "parts", [])]


def plain_model():
    """What the engine translates whole."""
    return sparta.sparsify_(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64), Turned(64, 16)), {"0": "4x1:0.75"}).eval()


def engine_answers():
    layers, x = plain_model(), torch.randn(3, 5, 64)
    fast = compiled(layers, ENGINE, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for shape in ((3, 5), (7, 4), (2, 130)):
            x = torch.randn(*shape, 64)
            same(fast(x), layers(x), str(shape))
            same(fast(x.transpose(0, 1)), layers(x.transpose(0, 1)), "memory in another order")
        found = {tuple(layer["shape"]): layer for layer in parts()[0].running.package.layers}
        need(found[128, 64]["op"] == "Linear" and found[128, 64]["pattern"] == "4x1", found)
        need({row["op"] for row in sparta.dynamo.report()} == {"Linear"}, sparta.dynamo.report())
        for threads in (1, 2):
            torch.set_num_threads(threads)
            same(fast(x), layers(x), f"{threads} threads")
        need(set().union(*(part.running.sessions for part in parts())) >= {1, 2}, "sessions follow torch's threads")
        for kind in (torch.float64, torch.bfloat16):
            twin = plain_model().to(kind)
            same(compiled(twin, ENGINE)(x.to(kind)), twin(x.to(kind)), str(kind), 0.05 if kind == torch.bfloat16 else 1e-6)


def engine_graphs():
    """How often torch compiles: once where all sizes are open."""
    layers = plain_model()
    fast = compiled(layers, ENGINE, dynamic=True)
    with torch.no_grad():
        for tokens in (6, 7, 19, 64, 130):
            x = torch.randn(tokens, 64)
            same(fast(x), layers(x), f"{tokens} tokens")
    need(counters["stats"]["unique_graphs"] == 1 and [part.builds for part in parts()] == [1], counters["stats"])


class Sorted(nn.Module):
    """Something that has no translation between two parts that have one."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 64)
        self.register_buffer("shift", torch.randn(64))

    def forward(self, x):
        y = torch.sort(self.one(x) + self.shift, -1).values
        return self.two(torch.relu(y)), y.sum(-1), x.shape[0]


def engine_parts():
    sparta.dynamo._told.clear()
    layers = Sorted().eval()
    for inner in ("aot_eager", "eager"):
        with torch.no_grad(), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            fast = compiled(layers, {**ENGINE, "inner": inner}, dynamic=True)
            for tokens in (6, 9):
                x = torch.randn(tokens, 64)
                for got, want in zip(fast(x), layers(x)):
                    same(got, want) if isinstance(want, torch.Tensor) else need(got == want, got)
        told = [str(w.message) for w in heard if "aten.sort" in str(w.message)]
        need(len(told) == (inner == "aot_eager") and len(parts()) == 2, f"{told}, {len(parts())} parts")


def engine_changes():
    """Weights and buffers that change are seen; the package is compiled again."""
    layers, x = plain_model(), torch.randn(6, 64)
    other = plain_model()
    fast = compiled(layers, ENGINE)
    ways = {
        "values": lambda: layers[0].weight.mul_(2),
        "a bias": lambda: layers[3].bias.add_(1),
        "a pattern": lambda: layers[3].weight.mul_(torch.rand_like(layers[3].weight) < 0.1),
        "a checkpoint": lambda: layers.load_state_dict(other.state_dict()),
        "another Parameter": lambda: setattr(layers[4], "weight", nn.Parameter(torch.randn(64, 16))),
        "other memory": lambda: setattr(layers[4].weight, "data", torch.randn(64, 16)),
    }
    with torch.no_grad():
        same(fast(x), layers(x))
        for what, change in ways.items():
            change()
            same(fast(x), layers(x), what)
        builds = parts()[0].builds
        same(fast(x), layers(x))
    need(parts()[0].builds == builds, "it was compiled again for nothing")
    with torch.no_grad():
        layers[0].weight.mul_(2)
        want, answers = layers(x), {}
    threads = [threading.Thread(target=lambda i=i: answers.update({i: run_often(fast, x)})) for i in range(4)]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for i in range(4):
        same(answers[i], want, f"in thread {i}")
    need(parts()[0].builds == builds + 1, f"{parts()[0].builds - builds} packages for one change that several threads saw")
    need(not any("torch runs this part" in str(w.message) for w in heard), [str(w.message) for w in heard])


def engine_models():
    """Models of one class have one graph, and each its own package: called in turn, none is compiled again. A package goes with its model."""
    torch._dynamo.reset()
    counters.clear()
    x, twins = torch.randn(6, 64), [plain_model() for _ in range(3)]
    fast = [torch.compile(layers, backend="sparta", options=ENGINE) for layers in twins]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", sparta.Note)  # no compiler
        for _ in range(3):
            for run, layers in zip(fast, twins):
                same(run(x), layers(x))
        need(counters["stats"]["unique_graphs"] == 1 and [part.builds for part in parts()] == [1] * 3, [part.builds for part in parts()])
        wanted, answers = [layers(x) for layers in twins], {}
        threads = [threading.Thread(target=lambda i=i: answers.update({i: run_often(fast[i], x)})) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, want in enumerate(wanted):
            same(answers[i], want, f"in thread {i}")
        weight = weakref.ref(twins[2][3].weight)
        fast[1:] = twins[1:] = []
        del run, layers, threads
        gc.collect()
        need(weight() is None, "a package keeps a model")
        warnings.simplefilter("ignore")
        other = plain_model()
        run = torch.compile(other, backend="sparta", options=ENGINE)
        same(run(x), other(x), "another model")
        same(fast[0](x), twins[0](x), "the first")
        need([part.builds for part in parts()][0] == 1 and len(parts()) == 2, "packages of models that are gone stay")


def run_often(run, x):
    with torch.no_grad():
        return [run(x) for _ in range(20)][-1]


def engine_size_numbers():
    """Open sizes that are numbers in a sum, a mask or a bound stay open."""
    layer = thin_(nn.Linear(8, 8))
    functions = {
        "sum": lambda x, n: layer(x) + n,
        "product": lambda x, n: layer(x) * n - n,
        "alpha": lambda x, n: torch.add(layer(x), x, alpha=n),
        "places": lambda x, n: layer(x) + (torch.arange(8) + n)[None],
        "comparison": lambda x, n: torch.where(torch.arange(8)[None] < n, layer(x), n),
        "diagonal": lambda x, n: layer(x) * torch.triu(torch.ones(8, 8), diagonal=n - 4)[:1],
        "bound": lambda x, n: layer(x) + torch.arange(8).clamp(max=n),
        "filled": lambda x, n: layer(x) + torch.full((8,), n),
        "masked": lambda x, n: layer(x).masked_fill(x > 0, n),
    }
    for what, function in functions.items():
        of_size = lambda x, function=function: function(x, x.shape[0])
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", sparta.Note)  # no compiler, open sizes
            fast = compiled(of_size, ENGINE, dynamic=True)
            for count in (3, 5, 9):
                x = torch.randn(count, 8)
                same(fast(x), of_size(x), f"{what}, {count} rows")
        need(counters["stats"]["unique_graphs"] == 1 and len(parts()) == 1, f"{what}: {counters['stats']['unique_graphs']} graphs, {len(parts())} packages")


def engine_numbers():
    """Files that Inductor caches know parts by their numbers: in another process they are the same for the same part, and others for another."""
    twins, numbers = (Others(torch.relu).eval(), Others(torch.relu).eval(), Others(torch.tanh).eval()), []
    with torch.no_grad():
        for layers in twins:
            run = compiled(layers, ENGINE)
            run(torch.randn(3, 8))
            (part,) = shared_parts()
            numbers.append(engine._Parts().add(part))
            need(engine._parts.known[part.number] is part, "found by its number")
            del part, run
    need(numbers[0] == numbers[1] != numbers[2] and 0 <= min(numbers) and max(numbers) < 2**62, numbers)


def engine_kept():
    """A package that an earlier process left is found, asked and run; one that is damaged or wrong is compiled anew, and so are other weights."""
    layers, x = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 512)).eval(), torch.randn(3, 8)
    right, translated, most = engine.translate, [], kept.MOST
    engine.translate = lambda *given: translated.append(1) or right(*given)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        listed = lambda ending="": sorted(name for name in os.listdir(folder + "/packages") if name.endswith(ending))
        path = lambda ending: f"{folder}/packages/{listed(ending)[0]}"

        def run(wanted, what, more=None, **sizes):
            translated.clear()
            options = {**ENGINE, "compile": {**QUICK, "context": {**QUICK["context"], "cache_dir": folder}, **(more or {})}}
            fast = compiled(layers, options, **sizes)
            same(fast(x), layers(x), what)
            need(len(parts()) == 1 and len(translated) == wanted, f"{what}: translated {len(translated)} times")
            return fast

        def wrong_answer():
            held = torch.load(path(".pt"), weights_only=True)
            torch.save({**held, "answers": [t + 1 for t in held["answers"]]}, path(".pt"))

        def cut(ending):
            with open(path(ending), "r+b") as file:
                file.truncate(100)

        def damaged():  # a bit of a weight, of which the answer says nothing
            with open(path(".sparta"), "r+b") as file:
                held = bytearray(file.read())
                at = held.find(layers[2].weight[500, 3].numpy().tobytes())
                need(at > 0, "the weight is in the package")
                held[at] ^= 1
                file.seek(0)
                file.write(held)

        try:
            run(1, "first")
            need(len(listed()) == 2 and not os.stat(folder + "/packages").st_mode & 0o077, f"{listed()}")
            fast = run(0, "again")
            layers[2].bias.data.mul_(2)
            need(not torch.allclose(fast(x), layers(x)), "a package in a file reads memory of torch")
            layers[2].bias.data.mul_(0.5)
            for what, change in {"wrong": wrong_answer, "damaged": damaged, "no package": lambda: cut(".sparta"), "no answer": lambda: cut(".pt")}.items():
                change()
                run(1, what)
                run(0, what + ", again")
            written = lambda *given: (layers[2].bias.data.add_(1), right(*given))[1]  # by another thread, say, after it was looked at
            before, engine.translate = listed(), lambda *given: translated.append(1) or written(*given)
            layers[2].bias.add_(1)
            run(1, "written meanwhile")
            need(listed() == before, f"what was written meanwhile is kept: {listed()}")
            layers[2].bias.add_(-2)
            engine.translate = lambda *given: translated.append(1) or right(*given)
            run(1, "another option", {"no_propagate": 1})
            run(1, "open sizes", dynamic=True)
            run(1, "open sizes, again", dynamic=True)
            layers[2].bias.add_(1)
            fast = run(1, "other weights")
            need(len(listed()) == 6, f"{listed()}")
            layers[2].bias.add_(1)
            same(fast(x), layers(x))
            need(len(listed()) == 6, f"weights that change while it runs are kept: {listed()}")
            for ending in (".pt", ".sparta"):
                os.utime(path(ending), (1, 1))
            old, kept.MOST = listed()[0].split(".")[0], sum(os.path.getsize(f"{folder}/packages/{name}") for name in listed())
            run(1, "where there is little room")
            need(len(listed()) == 6 and not any(name.startswith(old) for name in listed()), f"{listed()}")
            before, kept.MOST = listed(), 0
            layers[2].bias.add_(1)
            run(1, "where there is none")
            need(listed() == before, f"{listed()}")
        finally:
            engine.translate, kept.MOST = right, most


class Rows(nn.Module):
    """Where torch and ONNX differ: how axes move, the sign of NaN, queries without a key."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, mask):
        y = self.layer(x)
        seen = nn.functional.scaled_dot_product_attention(y, y, y, attn_mask=mask)
        other = nn.functional.scaled_dot_product_attention(y, y, y, attn_mask=torch.where(mask, 0.0, -torch.inf))
        return y.movedim(0, 2), y.movedim(-1, 1), torch.sign(torch.where(y > 0, torch.nan, y)), seen, other


class Others(nn.Module):
    """What has a row, but not for these types and ranks."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(8, 8), function

    def forward(self, x):
        return self.function(self.layer(x))


def engine_rows():
    x, mask = torch.randn(2, 3, 4, 8), torch.arange(4)[:, None].expand(4, 4) > torch.arange(4)
    f = nn.functional
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = Rows().eval()
        for i, (got, want) in enumerate(zip(compiled(layers, ENGINE)(x, mask), layers(x, mask))):
            same(got, want, f"row {i}")
        need(len(parts()) == 1, "one part")
        for what, function, kind in (
            ("clamp", lambda y: y.abs().to(torch.uint8).clamp(-2, 100), torch.float32),
            ("pool", lambda y: f.adaptive_avg_pool2d(y[0], 1), torch.float32),
            ("rms_norm", lambda y: f.rms_norm(y * 1e-3, (8,)), torch.bfloat16),
        ):
            layers = Others(function).to(kind).eval()
            same(compiled(layers, ENGINE)(x.to(kind)), layers(x.to(kind)), what, 0.05 if kind == torch.bfloat16 else 1e-4)


def engine_wrong_rows():
    """A package that gives another type or another answer than torch is not run, whatever row it comes from."""
    layers, x, name = Others(torch.relu).eval(), torch.randn(3, 8), "aten.relu.default"
    right = translate._ROWS[name]
    wrong = {"torch gives f32": lambda w, x: w.node("Cast", x, to=translate.TYPES[torch.float64]), "differs from torch's": lambda w, x: w.node("Abs", x)}
    for words, row in wrong.items():
        translate._ROWS[name] = row
        try:
            with torch.no_grad(), warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                same(compiled(layers, ENGINE)(x), layers(x))
            need(not parts(), "it was run")
            need(any(words in str(w.message) for w in heard), f"{words}: {[str(w.message) for w in heard]}")
        finally:
            translate._ROWS[name] = right


def engine_refused_later():
    """A package for changed weights that is wrong is not run by any later call: torch runs the part, and a warning says so."""
    layers, name = Others(lambda y: torch.relu(y).view(-1, y.shape[0])).eval(), "aten.relu.default"
    right = translate._ROWS[name]
    fast = compiled(layers, ENGINE, dynamic=True)
    with torch.no_grad(), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        x = torch.randn(3, 8)
        same(fast(x), layers(x))
        translate._ROWS[name] = lambda w, x: w.node("Abs", x)
        try:
            for rows in (3, 5):
                layers.layer.weight.mul_(2)
                for _ in range(2):
                    x = torch.randn(rows, 8)
                    same(fast(x), layers(x), f"{rows} rows")
        finally:
            translate._ROWS[name] = right
    told = [str(w.message) for w in heard if "torch runs this part" in str(w.message)]
    need(len(told) == 1 and "differs from torch's" in told[0] and [part.running for part in parts()] == [None], told)


def engine_fails_later():
    """Where changed weights cannot be compiled, the package of the old ones is gone before they count as seen: no thread meets it between."""
    layers, name, held = Others(torch.relu).eval(), "aten.relu.default", []
    right, hold, x = translate._ROWS[name], engine.Part._hold, torch.randn(3, 8)
    fast = compiled(layers, ENGINE)

    def breaks(w, x):
        raise translate.Unknown("not any more")

    def watched(part, *given):
        held.append(part.running)
        hold(part, *given)

    with torch.no_grad(), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        same(fast(x), layers(x))
        translate._ROWS[name], engine.Part._hold = breaks, watched
        try:
            layers.layer.weight.mul_(2)
            same(fast(x), layers(x))
        finally:
            translate._ROWS[name], engine.Part._hold = right, hold
    need(held == [None] and any("not any more" in str(w.message) for w in heard), f"{held}: {[str(w.message) for w in heard]}")


def engine_forgives():
    """What is not a sum is not forgiven for a huge operand, and options say how far is near."""
    x, name = torch.randn(3, 8), "aten.clamp.default"
    right = translate._ROWS[name]
    wrong = lambda w, x, *_: w.node("Tanh", x)
    loose = {**ENGINE, "compile": {**QUICK, "atol": 10.0}}
    translate._ROWS[name] = wrong
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for options, taken in ((ENGINE, 0), (loose, 1)):
                layers = Others(lambda y: torch.clamp(y * 1e8, -1e-3, 1e-3)).eval()
                fast = compiled(layers, options)
                fast(x)
                need(len(parts()) == taken, f"{len(parts())} parts with {options['compile']}")
    finally:
        translate._ROWS[name] = right


def engine_equal_sizes():
    """Open sizes that are one expression, or follow from another: the package has fewer symbols than the graph."""
    layer = nn.Linear(8, 8)
    for function in (lambda x: layer(torch.cat([x, x]).erfinv()) + torch.cat([x, x]).lgamma(), lambda x: torch.cat([layer(x)] * 2) + torch.cat([x, x]).erfinv()):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fast = compiled(function, ENGINE, dynamic=True)
            for rows in (3, 5):
                x = torch.rand(rows, 8) * 0.8
                same(fast(x), function(x), f"{rows} rows")
            need(len(parts()) == 1, "it stays outside")


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        y = self.layer(x)
        y.add_(1)
        return torch.relu_(y * 2)


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)
        self.register_buffer("seen", torch.zeros(64))

    def forward(self, x):
        y = self.layer(x)
        self.seen += y.sum(0)
        return y


def engine_in_place():
    """Writes that nobody else sees are none; of others the graph is not ours, and is still right."""
    x = torch.randn(6, 64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = InPlace().eval()
        same(compiled(layers, ENGINE)(x), layers(x))
        need(len(parts()) == 1, "in place")
        layers, twin = Writes().eval(), Writes().eval()
        twin.load_state_dict(layers.state_dict())
        fast = compiled(layers, ENGINE)
        for _ in range(2):
            same(fast(x), twin(x))
        same(layers.seen, twin.seen, "what was written")


def engine_gradients():
    """With gradients the graph is rewritten, and says so."""
    sparta.dynamo._told.clear()
    layers, x = plain_model(), torch.randn(6, 64, requires_grad=True)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        got = torch.autograd.grad(compiled(layers, ENGINE)(x).sum(), x)[0]
    same(got, torch.autograd.grad(layers(x).sum(), x)[0])
    need(any("gradients are wanted" in str(w.message) for w in heard), [str(w.message) for w in heard])


class Cast(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.layer(x)


def engine_types():
    """Those of eager: under autocast, around a graph and in it, and where a write in place rounds."""
    x = torch.randn(6, 64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = plain_model()
        with torch.autocast("cpu", torch.bfloat16):
            same(compiled(layers, ENGINE)(x), layers(x), "autocast", 0.1)
        layers = Cast().eval()
        same(compiled(layers, ENGINE)(x), layers(x), "autocast inside", 0.1)
        layers = Others(lambda y: y.add_(torch.ones(8) / 3)).bfloat16().eval()
        same(compiled(layers, ENGINE)(x[:, :8].bfloat16()), layers(x[:, :8].bfloat16()), "a write that rounds", 0.05)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(5, 64), nn.Linear(64, 8)

    def forward(self, ids):
        return self.layer(self.table(ids))


def levels():
    """torch.func inside of a graph: eager's answer, of a plain tensor, in both modes; layers stay dense, and the report says it."""
    from torch._higher_order_ops.associative_scan import associative_scan

    layer = sparta.sparsify_(nn.Sequential(nn.Linear(256, 256)), "4x1:0.9").eval().requires_grad_(False)
    x = torch.randn(8, 256)
    functions = {
        "vmap": lambda x: torch.vmap(lambda v: layer(v).sum())(x),
        "jvp": lambda x: torch.func.jvp(layer, (x,), (x,))[1],
        "jacrev": lambda x: torch.func.jacrev(lambda v: layer(v).sum(0))(x),
        "grad": lambda x: torch.func.grad(lambda v: layer(v).square().sum())(x),
        "associative_scan": lambda x: associative_scan(lambda a, b: a * 0.5 + b, layer(x), dim=0, combine_mode="generic"),
    }

    def answer(name, options):
        with torch.no_grad():
            got = compiled(functions[name], options)(x)
            need(type(got) is torch.Tensor, f"{name} is a {type(got).__name__}")
            same(got, functions[name](x), f"{name}, {options['mode']}")
        return list(rows().values())

    for name in functions:
        for options in (REWRITE, ENGINE):
            found = answer(name, options)
            need(found and all(row["mode"] == "rewrite" and row["reason"] == rewrite.LEVELS for row in found), f"{name}: {found}")
    # Of what nobody has thought of, tensors that torch made up are no constants.
    known, engine.transforms = engine.transforms, lambda gm: False
    try:
        need([row["mode"] for row in answer("vmap", ENGINE)] == ["rewrite"], "a FakeTensor is a constant")
    finally:
        engine.transforms = known


def engine_fails():
    """An error inside of a run comes out as it is; the next run is right."""
    layers, ids = Words().eval(), torch.tensor([1, 4])
    with torch.no_grad():
        for inner in ("aot_eager", "eager"):
            fast = compiled(layers, {**ENGINE, "inner": inner})
            same(fast(ids), layers(ids))
            need(len(parts()) == 1, "one part")
            refused(sparta.Error, "id 7 is outside", fast, torch.tensor([1, 7]))
            same(fast(ids), layers(ids), "after an error")
            (session,) = (s for pool in parts()[0].running.sessions.values() for s in pool.idle)
            session.context.stop(KeyboardInterrupt("enough"))
            refused(KeyboardInterrupt, "enough", fast, ids)
            same(fast(ids), layers(ids), "after it was cancelled")


def engine_breaks():
    """A fault of torch or of ours while a graph is split, also when a part of it is a call already: the graph is rewritten, which is said."""
    layers, x, real = plain_model(), torch.randn(3, 64), engine.split

    def breaks(*given):
        real(*given)
        raise IndexError("as nobody thought")

    engine.split = breaks
    try:
        with torch.no_grad(), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            same(compiled(layers, ENGINE)(x), layers(x))
        need(any("as nobody thought" in str(w.message) for w in heard), [str(w.message) for w in heard])
        need({row["mode"] for row in sparta.dynamo.report()} == {"rewrite"}, sparta.dynamo.report())
    finally:
        engine.split = real


def engine_packed():
    """Modules of ours are in the package, as the matrices that their blocks are."""
    layers = nn.Sequential(nn.Linear(64, 64), nn.GELU(), sparta.nn.SparseLinear(nn.Linear(64, 64), pattern="4x1:0.75"), nn.Linear(64, 8)).eval()
    x = torch.randn(6, 64)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = compiled(layers, ENGINE)
        same(fast(x), layers(x))
        need([row["op"] for row in rows().values()] == ["Linear"] * 3, f"{rows()}")
        layers[2].values.mul_(2)
        same(fast(x), layers(x), "after its elements changed")
        layers[2].update_mask(sparta.testing.block_mask((64, 64), block=(4, 1), sparsity=0.5))
        same(fast(x), layers(x), "after its mask changed")
        alone = nn.Sequential(sparta.nn.SparseLinear(nn.Linear(64, 8), pattern="4x1:0.75")).eval()
        same(compiled(alone, ENGINE)(x), alone(x))
        need(len(parts()) == 1, "a model of nothing else")


for name, function in {
    "found by name": by_name,
    "refusals": refusals,
    "operators with zeros": operators,
    "what was packed is forgotten": forgets,
    "first calls of threads": together,
    "rewrite: answers": answers,
    "rewrite: Inductor": inductor,
    "torch.func inside of a graph": levels,
    "rewrite: sizes without compiling again": sizes,
    "rewrite: weights and patterns that change": changes,
    "rewrite: pruned later": later,
    "rewrite: training": training,
    "rewrite: what falls back is said once": said_once,
    "engine: answers": engine_answers,
    "engine: sizes without compiling again": engine_graphs,
    "engine: parts of a graph": engine_parts,
    "engine: weights that change": engine_changes,
    "engine: models in turn": engine_models,
    "engine: sizes that are numbers": engine_size_numbers,
    "engine: numbers of parts": engine_numbers,
    "engine: packages that are kept": engine_kept,
    "engine: rows that differ from ONNX": engine_rows,
    "engine: rows that are wrong": engine_wrong_rows,
    "engine: packages that are refused later": engine_refused_later,
    "engine: changed weights that cannot be compiled": engine_fails_later,
    "engine: what is near": engine_forgives,
    "engine: open sizes that are equal": engine_equal_sizes,
    "engine: writes in place": engine_in_place,
    "engine: gradients": engine_gradients,
    "engine: types of autocast and of writes in place": engine_types,
    "engine: errors in a run": engine_fails,
    "engine: errors while it splits": engine_breaks,
    "engine: modules of ours": engine_packed,
}.items():
    tests.check(name, function)
sys.exit(tests.finish())
