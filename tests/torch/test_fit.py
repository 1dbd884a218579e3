"""Pruning to a time: by times of a table, where the answer is known; then measured, compiled and run. (Alone: it compares times.)"""

import copy
import doctest
import importlib
import os
import sys

import torch
from torch import nn

from common import Tests, need, refused
from test_training import free_port

import sparta
from sparta.masked import Masked
from sparta.prune import Pruner, one_shot, prepare_pruning

PATTERNS = ("4x1:0.5", "4x1:0.9", "2:4")
TOLERANCE = 1.25  # of a time that is measured again: src/measure/fit.c allows 1.02 in its own run, the machine differs between two


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 8))


def table():
    """0 takes 1000 us, 2 500, 4 100; 4x1 in proportion to what is left, 2:4 60 %."""
    made = {}
    for name, dense in (("0", 1000.0), ("2", 500.0), ("4", 100.0)):
        made[name, None] = dense
        for pattern, share in zip(PATTERNS, (0.5, 0.1, 0.6)):
            made[name, pattern] = dense * share
    return made


def x():
    torch.manual_seed(1)
    return torch.randn(128, 64)


def by_a_table():
    for method, data in (("magnitude", None), ("magnitude", x()), ("wanda", x()), ("sparsegpt", x())):
        model = net()
        rows = one_shot(model, data, method, PATTERNS, target_latency="800us", example_inputs=x(), times=table())
        e = rows.exchange
        need(abs(e.dense_ms - 1.6) < 1e-9 and e.target_ms == 0.8 and e.measured_ms is None, str(e))
        need(e.expected_ms <= 0.8 * (1 + 1e-6) and abs(1e3 * e.expected_ms - sum(r["us"] for r in e.rows)) < 1e-6, str(e))
        need([r["name"] for r in rows] == list(e.patterns) and len(e.rows) == 3, str(rows))
        for row in e.rows:
            module = model.get_submodule(row["name"])
            need(isinstance(module, Masked) == row["sparse"], row["name"])
            if row["sparse"]:
                need(torch.equal(module.weight_mask, module.weight != 0) and module.pattern == row["pattern"], "the mask is there")
                density = 0.5 if row["pattern"] == "2:4" else 1 - float(row["pattern"].partition(":")[2])
                need(abs(module.density() - density) < 0.01, f"{row}: {module.density()}")
        again = one_shot(net(), data, method, PATTERNS, target_latency="800us", example_inputs=x(), times=table())
        need(again.exchange.rows == e.rows, "the same table, another choice")


def sensitive_layers_keep_more():
    """Two layers of one shape and one time: the one that loses more by the same pattern is pruned less."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    with torch.no_grad():
        model[0].weight[:, 8:] *= 1e-3  # most of it is worth nothing
    times = {(name, pattern): us for name in "02" for pattern, us in ((None, 100.0), ("4x1:0.5", 50.0), ("4x1:0.8", 20.0))}
    rows = one_shot(model, pattern=["4x1:0.5", "4x1:0.8"], target_latency="0.12ms", example_inputs=x(), times=times).exchange.rows
    need([r["pattern"] for r in rows] == ["4x1:0.8", "dense"], str(rows))


def pruner():
    said = {"target_latency": "0.8ms", "pattern": list(PATTERNS), "end_step": 4, "sparsity_decay_type": "cubic"}
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    made = prepare_pruning(model, said, optimizer, example_inputs=x(), times=table())
    for _ in range(6):
        optimizer.zero_grad()
        model(x()).square().mean().backward()
        optimizer.step()
    for name, pattern in made.exchange.patterns.items():
        want = 0.5 if pattern.of else 1 - pattern.sparsity
        need(abs(model.get_submodule(name).density() - want) < 0.01, f"{name} {pattern}")
    need({r["name"]: r["pattern"] for r in made.report()} == {n: str(p) for n, p in made.exchange.patterns.items()}, str(made.report()))
    # Of those that are excluded none is pruned.
    left = Pruner(net(), {**said, "target_latency": "1.2ms", "excluded_op_names": ["2"]}, example_inputs=x(), times=table())
    need(set(left.exchange.patterns) <= {"0", "4"}, str(left.exchange))


class Twice(nn.Module):
    """One layer runs twice, another weight has two modules, a third module has two names."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c, self.d = (nn.Linear(64, 64) for _ in range(4))
        self.c.weight = self.b.weight
        self.e = self.d

    def forward(self, x):
        return self.e(self.c(self.b(self.a(self.a(x).relu()).relu()).relu()).relu())


def used_twice():
    """The time of a weight that is used twice is counted twice, and it has one row and one pattern."""
    rows = one_shot(Twice(), pattern="4x1:0.5", target_speedup=1, example_inputs=x(), times=Ones()).exchange.rows
    need([(r["name"], r["tokens"]) for r in rows] == [("a", 256), ("b", 256), ("d", 128)], str(rows))
    model = Twice()
    e = one_shot(model, x(), "wanda", "4x1:0.5", target_speedup=1.9, example_inputs=x(), times=Ones()).exchange
    need(len(e.patterns) == 3 and abs(e.expected_ms - 0.0015) < 1e-9, str(e))
    need(all(abs(m.density() - 0.5) < 0.01 for m in (model.a, model.b, model.c, model.d)), "all are pruned")
    said = {"target_speedup": 1.9, "pattern": "4x1:0.5", "end_step": 1}
    need(list(Pruner(Twice(), said, example_inputs=x(), times=Ones()).layers) == ["a", "b", "d"], "in training")


class Ones(dict):
    """A layer takes 1 us, sparse half of it."""

    def get(self, key):
        return 0.5 if key[1] else 1.0


def contradictions():
    """n:m prunes at one step: what contradicts it is found before anything is measured, or 2:4 is left out where nobody asked for it."""
    model, said = net(), {"target_speedup": 2, "end_step": 10}
    for more in ({"pruning_type": "snip_momentum"}, {"reg_type": "group_lasso"}, {"regrow_until": 5}):
        for pattern in (["2:4"], ["4x1:0.5", "2:4"]):
            refused(ValueError, "of pattern 2:4, which a target time may choose", Pruner, model, {**said, **more, "pattern": pattern}, times=Ones())
        made = Pruner(net(), {**said, **more}, example_inputs=x(), times=Ones())
        need(not any(p.of for p in made.exchange.patterns.values()), str(made.exchange))
    Pruner(net(), {**said, "pruning_type": "snip", "start_step": 1, "pattern": "2:4"}, example_inputs=x(), times=Ones())
    need(not any(isinstance(m, Masked) for m in model.modules()), "it was changed")


def resumed():
    """What was chosen is kept; a run that chose something else is not gone on with."""
    said = {"target_speedup": 2, "pattern": ["4x1:0.5"], "end_step": 2}
    first = Pruner(net(), said, example_inputs=x(), times=Ones())
    state = first.state_dict()
    need(state["patterns"] == dict.fromkeys("024", "4x1:0.5"), str(state["patterns"]))
    other = Pruner(net(), {**said, "pattern": ["4x1:0.6"]}, example_inputs=x(), times=Ones())
    refused(ValueError, "patterns=state['patterns']", other.load_state_dict, state)
    again = Pruner(net(), {**said, "pattern": ["4x1:0.6"]}, patterns=state["patterns"])
    again.load_state_dict(state)
    need(again.exchange is None and list(again.report()) == list(first.report()), str(again.report()))
    refused(ValueError, "none is given", Pruner, net(), said, patterns={})


def of_rank(rank, port, queue):
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    said = {"target_speedup": 2, "pattern": ["4x1:0.5", "4x1:0.6"], "end_step": 2}
    # Each would choose another pattern by its own times.
    slow = f"4x1:0.{6 - rank}"
    times = {(name, p): 1.0 if p in (None, slow) else 0.4 for name in "024" for p in (None, "4x1:0.5", "4x1:0.6")}
    try:
        queue.put(Pruner(net(), said, example_inputs=x(), times=times).state_dict()["patterns"])
        Pruner(net(), {**said, "target_speedup": 9}, example_inputs=x(), times=times)
    except Exception as error:
        queue.put(str(error))
    queue.close()
    queue.join_thread()
    dist.destroy_process_group()


def two_processes():
    context = torch.multiprocessing.get_context("spawn")
    queue, port = context.Queue(), free_port()
    both = [context.Process(target=of_rank, args=(rank, port, queue)) for rank in range(2)]
    for process in both:
        process.start()
    try:
        said = [queue.get(timeout=120) for _ in range(4)]
    finally:
        for process in both:
            process.join(10)
            if process.is_alive():
                process.kill()
    patterns, errors = [s for s in said if isinstance(s, dict)], [s for s in said if isinstance(s, str)]
    need(patterns == [dict.fromkeys("024", "4x1:0.5")] * 2, str(said))
    need(len(errors) == 2 and all("cannot be reached" in e for e in errors), str(said))


def small():
    """Of a weight of which a pattern leaves nothing it is no option."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8), nn.Linear(8, 4))
    said = {"target_speedup": 1.3, "pattern": ["4x1:0.95"]}
    trained = Pruner(copy.deepcopy(model), {**said, "end_step": 1}, example_inputs=x(), times=Ones())
    for made in (trained, one_shot(model, **said, example_inputs=x(), times=Ones())):
        need([r["sparse"] for r in made.exchange.rows] == [True, True, False], str(made.exchange))


def refusals():
    model = net()
    before = copy.deepcopy(model.state_dict())
    good = {"example_inputs": x(), "times": table(), "pattern": PATTERNS}
    for words, more in (
        ("1e-06 ms cannot be reached", {"target_latency": "0.001us"}),
        ("0.16 ms (10.00 times as fast) is the least by the times", {"target_speedup": 11}),
        ("which of them", {"target_latency": "5ms", "target_speedup": 2}),
        ("a time with its unit", {"target_latency": "5 minutes"}),
        ("a time with its unit", {"target_latency": -1}),
        ("a number of at least 1", {"target_speedup": 0.5}),
        ("example_inputs are needed", {"target_speedup": 2, "example_inputs": None}),
        ("is no pattern", {"target_speedup": 2, "pattern": ["4y1"]}),
        ("patterns such as", {"target_speedup": 2, "pattern": []}),
        ("no time was given for '0.weight'", {"target_speedup": 2, "times": {}}),
    ):
        refused(ValueError, words, one_shot, model, **{**good, **more})
    refused(ValueError, "for target_latency", one_shot, model, threads=1)
    refused(ValueError, "for target_latency", one_shot, model, example_inputs=x())
    for more in ({"example_inputs": x()}, {"times": {}}, {"patterns": {"0": "2:4"}}):
        refused(ValueError, "are for target_latency", Pruner, model, {"target_sparsity": 0.5, "end_step": 1}, **more)
    for more in ({"example_inputs": x()}, {"dynamic_shapes": {}}):
        refused(ValueError, "are for a torch.nn.Module", sparta.compile, "m.onnx", **more)
    refused(ValueError, "could not convert", one_shot, model, **{**good, "target_speedup": 2, "times": {("0", None): "a"}})
    broken = net()
    with torch.no_grad():
        broken[2].weight[0, 0] = float("nan")
    refused(ValueError, "the weight of '2' is not finite", one_shot, broken, **good, target_speedup=1)
    refused(ValueError, "the weight of '2' is not finite", Pruner, broken, {"target_speedup": 1, "end_step": 1}, example_inputs=x(), times=table())
    for words, said in (
        ("target_sparsity: it contradicts target_speedup", {"target_speedup": 2, "target_sparsity": 0.5, "end_step": 1}),
        ("pruning_configs: they contradict", {"target_speedup": 2, "end_step": 1, "pruning_configs": [{"op_names": ["0"]}]}),
        ("prune: target_speedup: a number", {"target_speedup": "fast", "end_step": 1}),
        ("nothing is to be pruned", {"target_latency": "1s", "end_step": 1, "pattern": list(PATTERNS)}),
    ):
        refused(ValueError, words, Pruner, model, said, example_inputs=x(), times=table())
    boom = {"times": type("Broken", (), {"get": lambda self, key: 1 / 0})()}
    refused(ZeroDivisionError, "division", one_shot, model, **{**good, **boom, "target_speedup": 2})
    need(all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values())), "it was changed")


def measured():
    """Compiled, the result is as fast as was asked for."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 512)).eval()
    inputs = torch.randn(128, 512)
    dense = sparta.compile(model, example_inputs=inputs, threads=1)
    rows = one_shot(model, inputs, "wanda", target_speedup=2.5, threads=1)
    sparse = sparta.compile(model, example_inputs=inputs, threads=1)
    name = next(iter(sparse.inputs))
    took = sparse.bench({name: inputs.numpy()}, dense, 1.0)
    ratio = took["baseline"]["best_ms"] / took["subject"]["best_ms"]
    print(rows.exchange, f"\nmeasured again: {ratio:.2f} times as fast")
    need(ratio * TOLERANCE >= 2.5, f"{ratio:.2f} times as fast, 2.5 were wanted")
    answer = sparse.run({name: inputs.numpy()})
    want = model(inputs).detach()
    torch.testing.assert_close(torch.from_numpy(next(iter(answer.values()))), want, atol=1e-4, rtol=1e-4)


def documents():
    failed, tried = doctest.testmod(importlib.import_module("sparta.prune.fit"))
    need(tried and not failed, f"{failed} of {tried}")


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = tests.work.name
    tests.check("by a table", by_a_table)
    tests.check("what is sensitive keeps more", sensitive_layers_keep_more)
    tests.check("in training", pruner)
    tests.check("weights that are used twice", used_twice)
    tests.check("weights that are small", small)
    tests.check("n:m and what contradicts it", contradictions)
    tests.check("resumed", resumed)
    tests.check("two processes", two_processes)
    tests.check("what is refused", refusals)
    tests.check("measured", measured)
    tests.check("examples in documents", documents)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
