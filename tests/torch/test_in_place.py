"""Writes in place through torch.compile(backend="sparta"), both modes against eager: every in-place method and every out= that ATen's schemas name, on
what a graph is given and on what it computes; buffers, BatchNorm in training, random numbers; generate of decoders with every cache of transformers.
Each day has its own part of the long ones; TEST_SEED repeats a day."""

import copy
import gc
import logging
import os
import random
import sys
import warnings

import torch
import transformers as T
from torch import nn

from common import NotRun, Tests, need
from today import ALL, SEED, turn

import sparta.dynamo  # common.py says where it is
from sparta import _zeros
from sparta.dynamo import rewrite, writes

tests = Tests()
os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tests.work.name
logging.getLogger("torch").setLevel(logging.ERROR)
T.logging.set_verbosity_error()
warnings.simplefilter("ignore")
sparta.dynamo.register()
_zeros.LEAST = 1 << 8  # these are small
torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 64
MODES = ("rewrite", "engine")
QUICK = {"no_measure": 1, "context": {"cache_dir": "", "compiler": ""}}
FEATURES, ROWS = 8, 6


def compiled(function, mode, inner="aot_eager", **more):
    return torch.compile(function, backend="sparta", options={"mode": mode, "inner": inner, "compile": QUICK}, **more)


def thin(layer, share=0.2):
    with torch.no_grad():
        layer.weight.mul_(torch.rand_like(layer.weight) < share)
    return layer


def flat(value):
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return [value] if isinstance(value, torch.Tensor) else []


def alive():
    gc.collect()
    return list(sparta.dynamo._alive)


def need_engine(what, instead=""):
    """In mode engine the graphs that are alive run as packages; or are rewritten, for a reason that has these words."""
    graphs = [(graph.mode, graph.instead) for graph in alive()]
    as_wanted = [instead in said if instead else mode == "engine" for mode, said in graphs]
    need(graphs and all(as_wanted), f"{what}: {graphs}, wanted {instead or 'engine'}")


def alike(got, want, what):
    need(len(flat(got)) == len(flat(want)), f"{what}: {len(flat(got))} tensors, eager has {len(flat(want))}")
    for a, b in zip(flat(got), flat(want)):
        need(a.shape == b.shape and a.dtype == b.dtype, f"{what}: {a.dtype} {list(a.shape)}, eager has {b.dtype} {list(b.shape)}")
        near = torch.allclose(a, b, atol=1e-4, rtol=1e-3, equal_nan=True) if b.is_floating_point() or b.is_complex() else torch.equal(a, b)
        need(near, f"{what} is not eager's")


# ---------------------------------------------------------------- every in-place method and out=
SAME = lambda: torch.rand(ROWS, ROWS) * 0.8 + 0.1
INDEX = lambda: torch.randperm(ROWS)
MASK = lambda: torch.rand(ROWS, ROWS) < 0.5
# Arguments that the type in a schema does not say.
GIVEN = {
    "index_add": lambda: (0, INDEX(), SAME()), "index_copy": lambda: (0, INDEX(), SAME()), "index_fill": lambda: (0, INDEX(), 0.5),
    "index_put": lambda: ((INDEX(), INDEX()), torch.rand(ROWS)), "index_reduce": lambda: (0, INDEX(), SAME(), "prod"),
    "scatter": lambda: (0, INDEX()[None].expand(2, -1), SAME()), "scatter_add": lambda: (0, INDEX()[None].expand(2, -1), SAME()),
    "scatter_reduce": lambda: (0, INDEX()[None].expand(2, -1), SAME(), "amax"), "put": lambda: (INDEX(), torch.rand(ROWS)),
    "masked_fill": lambda: (MASK(), 0.5), "masked_scatter": lambda: (MASK(), SAME()), "clamp": lambda: (0.2, 0.7), "clip": lambda: (0.2, 0.7),
    "squeeze": lambda: (), "unsqueeze": lambda: (0,), "transpose": lambda: (0, 1), "swapaxes": lambda: (0, 1), "swapdims": lambda: (0, 1), "t": lambda: (),
    "renorm": lambda: (2, 0, 1.0), "polygamma": lambda: (1,), "mvlgamma": lambda: (1,), "addmv": lambda: (SAME(), torch.rand(ROWS)),
    "addr": lambda: (torch.rand(ROWS), torch.rand(ROWS)), "addbmm": lambda: (torch.rand(2, ROWS, ROWS), torch.rand(2, ROWS, ROWS)), "lerp": lambda: (SAME(), 0.3),
    "nan_to_num": lambda: (), "fill_diagonal": lambda: (0.5,), "pow": lambda: (2,), "float_power": lambda: (2,), "copy": lambda: (SAME(),), "ldexp": lambda: (SAME(),),
    "hardtanh": lambda: (), "addcmul": lambda: (SAME(), SAME()), "addcdiv": lambda: (SAME(), SAME()), "addmm": lambda: (SAME(), SAME()), "fill": lambda: (0.5,),
    "cumsum": lambda: (0,), "cumprod": lambda: (0,), "sub": lambda: (SAME(),), "subtract": lambda: (SAME(),), "add": lambda: (SAME(),),
    "mm": lambda: (SAME(),), "matmul": lambda: (SAME(),), "bmm": None, "mv": lambda: (torch.rand(ROWS),), "inner": lambda: (SAME(),), "sum": lambda: (0,), "mean": lambda: (0,), "prod": lambda: (0,),
    "softmax": lambda: (0,), "log_softmax": lambda: (0,), "argmax": lambda: (0,), "logsumexp": lambda: (0,), "tril": lambda: (), "triu": lambda: (),
    "where": None, "take": lambda: (INDEX(),), "gather": lambda: (0, INDEX()[None]), "index_select": lambda: (0, INDEX()), "var": lambda: (0,), "std": lambda: (0,), "norm": lambda: (2, 0),
    "amax": lambda: (0,), "amin": lambda: (0,), "diag": lambda: (), "roll": lambda: (1,), "flip": None, "narrow_copy": None, "clamp_min": lambda: (0.5,), "clamp_max": lambda: (0.5,),
}  # fmt: skip
WHOLE = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"}
# What decides memory or history rather than elements, and what torch.compile itself does not take.
NOT_ELEMENTS = {"requires_grad_", "retain_grad_", "rename_", "set_", "resize_", "resize_as_", "as_strided_", "sparse_resize_", "sparse_resize_and_clear_", "detach_",
                "squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "resize_as_sparse_", "resize_as_sparse", "_resize_output_"}  # fmt: skip


def of_schema(name, schema):
    """Arguments after the first, by the types in a schema."""
    made = []
    for a in schema.arguments[1:]:
        kind = str(a.type)
        if a.has_default_value() or a.kwarg_only or kind.startswith("Optional"):
            break
        value = {"Tensor": SAME, "number": lambda: 2, "float": lambda: 0.5, "int": lambda: 0, "bool": lambda: False, "Scalar": lambda: 2}.get(kind)
        if value is None:
            return None
        made.append(value())
    return tuple(made)


def whole(value):
    return torch.randint(1, 4, value.shape) if isinstance(value, torch.Tensor) else value


def arguments(word, name, schema):
    given = GIVEN[name]() if GIVEN.get(name) else of_schema(name, schema)
    return given if given is None or word.strip("_") not in {w.strip("_") for w in WHOLE} else tuple(map(whole, given))


def overloads():
    """(word, overload) of ATen: one row for each name."""
    for qualified in sorted(torch._C._dispatch_get_all_op_names()):
        if qualified.startswith("aten::"):
            word, _, overload = qualified[6:].partition(".")
            packet = getattr(torch.ops.aten, word, None)
            if packet is not None and (overload or "default") in packet.overloads():
                yield word, getattr(packet, overload or "default")


def in_place_methods():
    """{method: its arguments} of all that writes to its tensor, as far as eager takes it with these arguments."""
    found = {}
    for word, overload in overloads():
        in_place = word.endswith("_") and not word.startswith("_") or word.startswith("__i") and word.endswith("__")
        if not in_place or word in found or word in NOT_ELEMENTS or not hasattr(torch.Tensor, word) or not overload._schema.is_mutable:
            continue
        given = arguments(word, word.strip("_"), overload._schema)
        x = SAME() if word not in WHOLE and word.strip("_") not in WHOLE else whole(SAME())
        if given is None:
            continue
        try:
            getattr(x, word)(*given)
            found[word] = given
        except Exception:
            continue
    return found


def outs():
    """{function of torch: its arguments} of all that takes out=, one tensor."""
    found = {}
    for word, overload in overloads():
        outs_ = [a for a in overload._schema.arguments if a.is_out]
        function = getattr(torch, word, None)
        if function is None or word in found or len(outs_) != 1 or outs_[0].name != "out" or str(outs_[0].type) != "Tensor" or word.startswith("_"):
            continue
        first = overload._schema.arguments[0]
        given = arguments(word, word, overload._schema) if str(first.type) == "Tensor" else None
        if given is None or GIVEN.get(word, 0) is None:
            continue
        x = whole(SAME()) if word in WHOLE else SAME()
        try:
            want = function(x, *given)
            function(x, *given, out=torch.empty_like(want))
            found[word] = given
        except Exception:
            continue
    return found


def on_input(word, given):
    def f(x):
        getattr(x, word)(*given)
        return x * 2

    return f


def on_computed(word, given, layer, seen):
    """seen: through a view as well, for which mode engine has no answer of its own."""

    def f(x):
        y = layer(x)
        z = y.view(-1) if seen else None
        getattr(y, word)(*given)
        return (y * 2, z + 1) if seen else y * 2

    return f


def into(function, given):
    def f(x, out):
        function(x, *given, out=out)
        return out * 2

    return f


def once(what, f, tensors, mode, seed=3, inner="aot_eager"):
    """A function that writes, compiled and not: what it returns, what its tensors are afterwards, and which random number is next."""
    answers = []
    for run in (f, compiled(f, mode, inner)):
        torch._dynamo.reset() if run is not f else None
        mine = [t.clone() for t in tensors]
        torch.manual_seed(seed)
        returned = run(*mine)
        answers.append((flat(returned), mine, torch.get_rng_state()))
    (want, wrote, state), (got, mine, after) = answers
    alike(got, want, f"{what}, {mode}: the result")
    alike(mine, wrote, f"{what}, {mode}: what was written to")
    need(torch.equal(state, after), f"{what}, {mode}: the next random number is not eager's")


def by_torch(f, tensors):
    """Does torch's own backend compile it? polygamma_ of torch 2.15 is none of its operators."""
    torch._dynamo.reset()
    try:
        torch.compile(f, backend="aot_eager")(*[t.clone() for t in tensors])
    except torch._dynamo.exc.BackendCompilerFailed:
        return False
    return True


def table(kind, rows, case, least, by_engine=None):
    """All of a table in mode rewrite, some of it, others every day, in mode engine, which falls back for what others see; where a case for it is
    given, half of them run as packages."""
    ran, engines, packed, failed, beyond = 0, 0, 0, [], set()
    for number, word in enumerate(sorted(rows)):
        for mode in MODES:
            if turn(number + 4 * (mode == "engine"), 8):
                ran += 1
                try:
                    once(word, *case(word, rows[word]), mode)
                    if mode == "engine" and by_engine is not None:
                        once(word, *by_engine(word, rows[word]), mode)
                        ran_as = {graph.mode for graph in alive()}  # no graph is kept, which the next would meet
                        engines, packed = engines + 1, packed + (ran_as == {mode})
                except torch._dynamo.exc.BackendCompilerFailed as error:
                    if by_torch(*case(word, rows[word])):
                        failed.append(f"{word}: {error}"[:200])
                    beyond.add(word)
                except Exception as error:
                    failed.append(f"{error}"[:200])
    need(len(rows) >= least, f"{len(rows)} {kind}: {sorted(rows)}")
    need(not failed, f"{len(failed)} of {ran}: " + "; ".join(failed[:6]))
    need(len(beyond) <= 2, f"torch compiles none of {sorted(beyond)}")
    need(2 * packed >= engines, f"{packed} of {engines} ran as packages")
    return f"{len(rows)} are known, {ran} today" + (f", {packed} of {engines} as packages" if engines else "")


def start(word):
    return whole(SAME()) if word in WHOLE or word.strip("_") in WHOLE else SAME()


@torch.no_grad()
def methods():
    return table("methods", in_place_methods(), lambda word, given: (on_input(word, given), [start(word)]), 140)


@torch.no_grad()
def methods_on_computed():
    layer = thin(nn.Linear(FEATURES, ROWS)).eval()
    rows = {word: given for word, given in in_place_methods().items() if word.strip("_") not in WHOLE and word not in WHOLE}
    cases = [lambda word, given, seen=seen: (on_computed(word, given, layer, seen), [torch.rand(ROWS, FEATURES)]) for seen in (True, False)]
    return table("methods", rows, cases[0], 125, by_engine=cases[1])


@torch.no_grad()
def into_out():
    def case(word, given):
        function, x = getattr(torch, word), start(word)
        return into(function, given), [x, torch.zeros_like(function(x, *given))]

    return table("functions", outs(), case, 180)


def known_to_write():
    """writes.py names every one of them, in Dynamo's graph and in ATen's, and no method that only reads."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    named = in_place_methods()
    quiet = [word for word in named if not writes.writes(graph.call_method(word, (x,)))]
    need(not quiet, f"said to read only: {quiet}")
    pure = [word for word in ("add", "mul", "relu", "view", "__add__", "__getitem__", "index", "inverse", "isnan", "int") if writes.writes(graph.call_method(word, (x,)))]
    need(not pure, f"said to write: {pure}")
    quiet = [str(o) for _, o in overloads() if o._schema.is_mutable and not writes.writes(graph.call_function(o, (x,)))]
    need(not quiet, f"said to read only: {quiet}")
    f = nn.functional
    import operator as op

    for function, given, more, wanted in (
        (f.relu, (x,), {"inplace": True}, True), (f.relu, (x, True), {}, True), (f.relu, (x,), {}, False), (f.relu, (x,), {"inplace": False}, False),
        (f.dropout, (x, 0.5, True, True), {}, True), (f.batch_norm, (x, x, x), {}, True), (f.batch_norm, (x, None, None), {}, False),
        (f.embedding, (x, x), {}, False), (f.embedding, (x, x, None, 1.0), {}, True), (f.linear, (x, x), {}, False), (torch.add, (x, x), {"out": x}, True),
        (torch.add, (x, x), {}, False), (torch.relu_, (x,), {}, True), (op.iadd, (x, 1), {}, True), (op.setitem, (x, 0, 1), {}, True), (op.add, (x, 1), {}, False),
        (op.getitem, (x, 0), {}, False), (torch._foreach_add_, ([x], 1), {}, True), (print, (x,), {}, False), (lambda t: t, (x,), {}, True),
    ):  # fmt: skip
        need(writes.writes(graph.call_function(function, given, more)) == wanted, f"{function} of {given} {more}")
    aten = torch.ops.aten
    for function, given, wanted in (
        (aten.batch_norm.default, (x, None, None, x, x, True, 0.1, 1e-5, False), True), (aten.batch_norm.default, (x, None, None, x, x, False, 0.1, 1e-5, False), False),
        (aten.batch_norm.default, (x, None, None, None, None, True, 0.1, 1e-5, False), False), (aten.instance_norm.default, (x, None, None, x, x, True, 0.1, 1e-5, False), True),
        (aten.native_batch_norm.default, (x, None, None, x, x, True, 0.1, 1e-5), True), (aten.batch_norm_update_stats.default, (x, x, x, 0.1), True),
        (aten._native_batch_norm_legit_no_training.default, (x, None, None, x, x, 0.1, 1e-5), False), (torch.native_batch_norm, (x, None, None, x, x, True, 0.1, 1e-5), True),
    ):  # fmt: skip
        need(writes.writes(graph.call_function(function, given)) == wanted, f"{function} of {given}")
    # Blocks of autocast and of gradients write to no weight.
    weight = graph.placeholder("weight")
    weight.meta["example_value"] = torch.ones(2, 2)
    modes = [torch.amp.autocast_mode._enter_autocast, torch._C._set_grad_enabled, torch.autograd.grad_mode._enter_inference_mode, torch.manual_seed, torch._C._log_api_usage_once]
    nodes = [graph.call_function(function, ()) for function in modes]
    nodes += [graph.call_function(torch.amp.autocast_mode._exit_autocast, (nodes[0],)), graph.call_function(torch._check, (x,))]
    need(not writes.written(nodes, weight), "a mode is said to write to a weight")
    need(writes.written([*nodes, graph.call_function(lambda: None, ())], weight), "a function that nobody knows is said to write to no weight")
    return f"{len(named)} methods"


# Norms in training as functions of (x, mean, variance); what they return nobody reads.
NORMS = {
    "F.batch_norm": lambda x, m, v: nn.functional.batch_norm(x, m, v, training=True, momentum=0.5),
    "F.instance_norm": lambda x, m, v: nn.functional.instance_norm(x.t()[None], m, v, momentum=0.5),
    "torch.batch_norm": lambda x, m, v: torch.batch_norm(x, None, None, m, v, True, 0.5, 1e-5, False),
    "torch.native_batch_norm": lambda x, m, v: torch.native_batch_norm(x, None, None, m, v, True, 0.5, 1e-5),
}


class Uncounted(nn.Module):
    """A BatchNorm1d whose calls nobody counts: of all that it writes only the schema-less statistics are left."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = thin(nn.Linear(16, 16)), nn.BatchNorm1d(16)
        self.norm.num_batches_tracked = None

    def forward(self, x):
        self.norm(x)
        return self.layer(x)


@torch.no_grad()
def statistics():
    """Running statistics are updated where the norm's answer is not read, and who reads them later reads the new ones."""
    layer = thin(nn.Linear(16, 16)).eval()
    given = [torch.randn(16, 16), torch.zeros(16), torch.ones(16)]
    for name, norm in NORMS.items():
        for mode in MODES:

            def unread(x, m, v):
                norm(x, m, v)
                return nn.functional.batch_norm(layer(x), m, v)

            def read(x, m, v):
                return layer(norm(x, m, v)[0].reshape(-1, 16)), m * 2

            for what, f in (("unread", unread), ("read", read)):
                once(f"{name}, {what}", f, given, mode)
                if mode == "engine":
                    need_engine(f"{name}, {what}", "writes in place")
    for mode in MODES:
        model = Uncounted()
        twin, x = copy.deepcopy(model), torch.randn(6, 16)
        torch._dynamo.reset()
        alike(compiled(model, mode)(x), twin(x), f"{mode}: the result")
        alike(list(model.buffers()), list(twin.buffers()), f"{mode}: statistics")
    return f"{len(NORMS) + 1} norms"


# ---------------------------------------------------------------- modules that write
class Average(nn.Module):
    """A running mean of what it sees, and a count, written in several ways."""

    def __init__(self):
        super().__init__()
        self.layer = thin(nn.Linear(16, 16))
        self.register_buffer("mean", torch.zeros(16))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("seen", torch.zeros(4, 16))

    def forward(self, x):
        y = self.layer(x)
        self.count += 1
        self.mean.mul_(0.9).add_(y.mean(0).detach(), alpha=0.1)
        self.seen[1] = y[0].detach()
        self.seen.view(-1)[3:5].zero_()
        torch.add(self.seen[2], 1, out=self.seen[2])
        return y + self.mean


class Cached(nn.Module):
    """Keys as a static cache keeps them, as a sliding one, and in 8 bits."""

    def __init__(self):
        super().__init__()
        self.layer = thin(nn.Linear(16, 16))
        self.register_buffer("static", torch.zeros(2, 8, 16))
        self.register_buffer("sliding", torch.zeros(2, 4, 16))
        self.register_buffer("small", torch.zeros(2, 8, 16, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(2, 8, 1))

    def forward(self, x, at):
        k = self.layer(x)
        self.static.index_copy_(1, at, k)
        self.sliding.copy_(torch.cat([self.sliding[:, 1:], k], 1))
        scale = k.abs().amax(-1, keepdim=True) / 127
        self.small.index_copy_(1, at, (k / scale).round().to(torch.int8))
        self.scale[:, at] = scale
        return self.static.sum(1) + self.sliding.mean(1) + (self.small * self.scale).sum(1)


class Masked(nn.Module):
    """A weight or its mask that changes between the mask's use and the product's."""

    def __init__(self, changes):
        super().__init__()
        self.weight, self.changes = nn.Parameter(torch.randn(16, 16)), changes
        self.register_buffer("mask", torch.rand(16, 16) < 0.2)

    def forward(self, x):
        weight = torch.where(self.mask, self.weight, 0)
        with torch.no_grad():
            if self.changes == "weight":
                self.weight.mul_(2)
            elif self.changes == "mask":
                self.mask.logical_not_()
            elif self.changes == "a view":
                self.weight.detach().view(-1)[:8].zero_()
        return nn.functional.linear(x, weight)


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(thin(nn.Linear(16, 16)), nn.BatchNorm1d(16), nn.ReLU(inplace=True), thin(nn.Linear(16, 16)), nn.BatchNorm1d(16, momentum=None))
        self.embedding = nn.Embedding(5, 16, max_norm=0.5)

    def forward(self, x, ids):
        return self.layers(x + self.embedding(ids))


def stateful(make, inputs, inner="aot_eager", train=False, calls=3, instead="writes"):
    """A module that keeps something: the answers of several calls, and its buffers after them; and why mode engine leaves it to the other."""
    said = []
    for mode in MODES:
        torch.manual_seed(2)
        first = make().train(train)
        twin = copy.deepcopy(first)
        torch._dynamo.reset()
        fast = compiled(first, mode, inner)
        for call in range(calls):
            given = inputs(call)
            answers = []
            for run in (fast, twin):
                with torch.set_grad_enabled(train):
                    torch.manual_seed(call)
                    out = run(*(t.clone() for t in given))
                    if train:
                        out.square().mean().backward()
                    answers.append(out.detach())
            alike(answers[0], answers[1], f"{mode}, call {call}")
            for (name, a), b in zip(first.state_dict().items(), twin.state_dict().values()):
                alike(a, b, f"{mode}, call {call}: {name}")
        if mode == "engine":
            need_engine("what is kept", "gradients" if train else instead)
        said.append(len(sparta.dynamo.report()))
    return f"{said} rows"


def buffers(inner="aot_eager"):
    stateful(Average, lambda call: [torch.randn(6, 16)], inner)
    stateful(Average, lambda call: [torch.randn(6, 16)], inner, train=True)


def caches(inner="aot_eager"):
    return stateful(Cached, lambda call: [torch.randn(2, 1, 16), torch.tensor([call])], inner, calls=5)


def norms(inner="aot_eager"):
    return stateful(Norms, lambda call: [torch.randn(6, 16), torch.randint(5, (6,))], inner, train=True)


def between():
    """The answer is that of the values when the mask was applied."""
    for changes in ("weight", "mask", "a view", "nothing"):
        stateful(lambda: Masked(changes), lambda call: [torch.randn(6, 16)], instead="writes" if changes != "nothing" else "")
        torch._dynamo.reset()
        model, x = Masked(changes), torch.randn(6, 16)
        with torch.no_grad():
            compiled(model, "rewrite")(x)
        gc.collect()
        rows = [row for row in sparta.dynamo.report() if row["mode"] == "rewrite" and row["name"] == "weight"]
        need(all((row["reason"] == rewrite.WRITTEN) == (changes != "nothing") for row in rows) and rows, f"{changes}: {rows}")


class Noise(nn.Module):
    """Random numbers of several kinds before and after what has a package, and where it is asked for some that nobody reads."""

    def __init__(self, unread, written):
        super().__init__()
        self.unread, self.written = unread, written
        self.one, self.two, self.drop = thin(nn.Linear(16, 16)), thin(nn.Linear(16, 16)), nn.Dropout(0.3)

    def forward(self, x):
        y = self.drop(self.one(x))
        if self.unread:
            torch.rand(3)
        y = y + torch.randn_like(y)
        noise = torch.rand(16)
        z = self.two(y)
        z = z.bernoulli_(0.5) if self.written else torch.bernoulli(z, 0.5)
        if self.unread and self.written:
            torch.empty(4).uniform_()
        return z + noise + torch.randint(7, (16,)), torch.normal(y, 1.0)


@torch.no_grad()
def random_numbers():
    """The same ones as eager, and the same one next. Those that nobody reads torch's own compiler drops."""
    for train in (True, False):
        for unread, inner in ((False, "aot_eager"), (True, "eager")):
            x = torch.randn(6, 16)
            for mode, written in (("rewrite", True), ("engine", True), ("engine", False)):
                once(f"train={train}, {inner}", Noise(unread, written).train(train), [x], mode, inner=inner)
                if mode == "engine":
                    need_engine(f"train={train}, {inner}", "writes" if written else "")


class Views(nn.Module):
    """Answers that are views of what was given, and of each other."""

    def __init__(self):
        super().__init__()
        self.layer = thin(nn.Linear(16, 16))

    def forward(self, x):
        y = self.layer(x)
        return y, y.view(-1), x.t(), x[1:]


@torch.no_grad()
def views():
    """Who writes to one afterwards writes to the other, as with eager."""
    for mode in MODES:
        model, answers = Views().eval(), []
        torch._dynamo.reset()
        for run in (model, compiled(model, mode)):
            torch.manual_seed(5)
            x = torch.randn(6, 16)
            y, again, turned, rest = run(x)
            again.mul_(2)
            turned.add_(1)
            rest.mul_(3)
            answers.append([y, again, turned, rest, x])
        alike(answers[1], answers[0], mode)
        if mode == "engine":
            need_engine("views")


# ---------------------------------------------------------------- generate
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 64, "max_position_embeddings": 64,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
DECODERS = {
    "llama": lambda: T.LlamaForCausalLM(T.LlamaConfig(**GROUPED)),
    "mistral": lambda: T.MistralForCausalLM(T.MistralConfig(**GROUPED, sliding_window=6)),
    "qwen2": lambda: T.Qwen2ForCausalLM(T.Qwen2Config(**GROUPED)),
    "gemma2": lambda: T.Gemma2ForCausalLM(T.Gemma2Config(**GROUPED, head_dim=8, sliding_window=6)),
    "neox": lambda: T.GPTNeoXForCausalLM(T.GPTNeoXConfig(**SIZES)),
    "gpt2": lambda: T.GPT2LMHeadModel(T.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=64, n_positions=64, bos_token_id=1, eos_token_id=None, pad_token_id=0)),
}
# Of transformers' names all but those that move to another device; two of the decoders slide.
CACHES = {"static": {}, "dynamic": {}, "quantized": {"cache_config": {"backend": "fp8"}}, "none": {}}


@torch.no_grad()
def generated(make, cache, mode):
    """The same tokens as eager, and the same scores."""
    torch.manual_seed(1)
    model = make().eval()
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            thin(layer, 0.5)
            layer.weight.mul_(8)  # so that tokens differ
    ids = torch.randint(3, 64, (2, 5))
    words = {"max_new_tokens": 6, "do_sample": False, "return_dict_in_generate": True, "output_scores": True, "attention_mask": torch.ones_like(ids), **CACHES[cache]}
    words |= {"use_cache": False} if cache == "none" else {"cache_implementation": cache}
    if hasattr(model.generation_config, "disable_compile"):
        words["disable_compile"] = True  # transformers would compile by itself
    try:
        want = model.generate(ids, **words)
    except Exception as error:
        raise NotRun(f"eager does not: {type(error).__name__}: {str(error).splitlines()[0][:120]}") from error
    torch._dynamo.reset()
    model.forward = compiled(model.forward, mode)
    got = model.generate(ids, **words)
    need(torch.equal(got.sequences, want.sequences), f"{got.sequences.tolist()}, eager has {want.sequences.tolist()}")
    alike(list(got.scores), list(want.scores), "scores")
    if mode == "engine" and cache != "quantized":
        need_engine(cache, "writes" if cache == "static" else "")
    return f"{len(want.sequences[0])} tokens"


for name, function in {
    "what writes is known": known_to_write,
    "every in-place method, on what is given": methods,
    "every in-place method, on what is computed": methods_on_computed,
    "every out=": into_out,
    "running statistics": statistics,
    "buffers": buffers,
    "caches": caches,
    "BatchNorm in training, an embedding with max_norm": norms,
    "between the mask and the product": between,
    "random numbers": random_numbers,
    "views that are answers": views,
}.items():
    tests.check(name, function)
tests.check("by Inductor: buffers, caches, norms", lambda: [function("inductor") for function in random.Random(SEED).sample([buffers, caches, norms], 3 if ALL else 1)] and None)
cases = [(model, cache, mode) for model in DECODERS for cache in CACHES for mode in MODES]
for model, cache, mode in cases if ALL or tests.only else random.Random(SEED).sample(cases, 4):
    tests.check(f"generate: {model}, {cache} cache, {mode}", generated, DECODERS[model], cache, mode)
sys.exit(tests.finish())
