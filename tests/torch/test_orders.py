"""A model half ours and half dense, through sparsify, build, compile, export, save and load in many orders: the answer is the same after each step. Every day
has its own orders; TEST_SEED repeats a day, and `all` on the command line walks every pair of steps."""

import io
import itertools
import logging
import os
import random
import sys
import warnings

import torch
from torch import nn

from common import Tests, need
from today import ALL, SEED

import sparta  # common.py says where it is
import sparta.dynamo
import sparta.nn
from sparta import _zeros

everything, sys.argv[1:] = ALL or sys.argv[1:] == ["all"], []
tests = Tests()
os.environ["XDG_CACHE_HOME"] = tests.work.name
logging.getLogger("torch").setLevel(logging.ERROR)
warnings.simplefilter("ignore")
sparta.dynamo.register()
_zeros.LEAST = 1 << 10
QUICK = {"no_measure": 1, "context": {"cache_dir": "", "compiler": ""}}
X = torch.randn(5, 64)


def fresh():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    layers[4] = sparta.nn.SparseLinear(layers[4], pattern="4x1:0.75")  # packed from the start
    return layers.eval()


def pruned():
    """What every order has to compute."""
    return sparta.sparsify_(fresh(), {"0": "4x1:0.75"})


# ---------------------------------------------------------------- steps: a module in, a module that computes the same out
def sparsify(model):
    return sparta.sparsify_(model, {"0": "4x1:0.75"})


def build(model):
    """Packed by decree: which way is faster is another test's matter."""
    blocks = {"block": [4, 1], "us": None, "dense_us": None, "reason": "asked"}
    return sparta.build(model, None, {"0": blocks})


def unbuild(model):
    return sparta.unbuild_(model)


def save_load(model):
    """Its state into another model of the same form, and the whole of it."""
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    other = torch.load(file, weights_only=False)
    other.load_state_dict(model.state_dict())
    return other


def run_compiled(mode):
    def run(model):
        torch._dynamo.reset()
        fast = torch.compile(model, backend="sparta", dynamic=True, options={"mode": mode, "inner": "aot_eager", "compile": QUICK})
        agrees(fast, f"compiled, {mode},")
        return model

    return run


def export(model):
    program = torch.export.export(model, (X,), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    agrees(torch.export.load(file).module(), "exported")
    return model


STEPS = {
    "sparsify": sparsify, "build": build, "unbuild": unbuild, "save and load": save_load, "rewrite": run_compiled("rewrite"), "engine": run_compiled("engine"),
    "export": export,
}  # fmt: skip
WANT = {}


@torch.no_grad()
def agrees(run, what):
    for tokens in (5, 11):
        x = torch.randn(tokens, 64, generator=torch.Generator().manual_seed(tokens))
        if tokens not in WANT:
            WANT[tokens] = pruned()(x)
        got = run(x)
        need(torch.allclose(got, WANT[tokens], atol=1e-4), f"{what} differs by {(got - WANT[tokens]).abs().max()}")


def walk(order):
    model = pruned()
    for step in order:
        model = STEPS[step](model)
        agrees(model, f"after {step} of {' > '.join(order)}")


def compiled_before():
    """A function that was compiled before the model changed form, or was trained on, follows it."""
    for mode in ("rewrite", "engine"):
        torch._dynamo.reset()
        model = fresh()
        fast = torch.compile(model, backend="sparta", options={"mode": mode, "inner": "aot_eager", "compile": QUICK})
        with torch.no_grad():
            for change in (lambda m: m, sparsify, build, unbuild, lambda m: m[2].weight.mul_(0.5), save_load):
                change(model)
                need(torch.allclose(fast(X), model(X), atol=1e-4), f"{mode} after {getattr(change, '__name__', change)}")


LONG = (
    ["build", "rewrite", "save and load", "export", "unbuild", "engine"],
    ["export", "build", "save and load", "unbuild", "sparsify", "rewrite"],
    ["engine", "build", "export", "rewrite", "save and load", "build"],
)
A_DAY = 8


def orders():
    """Pairs of steps in a row, and longer ones."""
    pairs = list(itertools.permutations(STEPS, 2))
    chosen = [*pairs, *LONG] if everything else [*random.Random(SEED).sample(pairs, A_DAY), random.Random(SEED).choice(LONG)]
    for order in chosen:
        walk(order)
    return f"{len(chosen)} orders"


print(f"TEST_SEED={SEED}")
tests.check("orders of sparsify, build, compile, export, save, load", orders)
tests.check("compiled before the model changes", compiled_before)
sys.exit(tests.finish())
