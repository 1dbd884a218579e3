"""Pruning to a time: by times of a table, where the answer is known; then measured, compiled and run. (Alone: it compares times.)"""

import copy
import doctest
import importlib
import os
import sys

import torch
from torch import nn

from common import Tests, need, refused

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
    tests.check("what is refused", refusals)
    tests.check("measured", measured)
    tests.check("examples in documents", documents)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
