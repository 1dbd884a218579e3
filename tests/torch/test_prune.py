"""Training for sparsity: every criterion on cases small enough for paper, schedules, scopes, callbacks, resuming, processes, and what is refused."""

import copy
import doctest
import importlib
import importlib.util
import io
import math
import os
import sys
import tempfile
import warnings

import torch
from torch import nn

from common import NotRun, Tests, need, refused
from test_training import free_port, wrapped

import sparta  # common.py says where it is
from sparta.masked import Masked
from sparta.patterns import Pattern, largest
from sparta.prune import Pruner, prepare_pruning, read, schedules

CRITERIA = ("magnitude", "gradient_x_weight", "snip", "snip_momentum", "movement")


def layer(rows):
    model = nn.Sequential(nn.Linear(len(rows[0]), len(rows), bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor(rows))
    return model


def by_hand(rows, config, *grads):
    """The mask after as many steps as there are gradients; the optimizer moves nothing."""
    model = layer(rows)
    pruner = Pruner(model, {"pruning_op_types": ["Linear"], **config})
    pruner.on_train_begin()
    for grad in grads:
        pruner.on_step_begin()
        model[0].weight.grad = torch.tensor(grad)
        pruner.on_before_optimizer_step()
        pruner.on_after_optimizer_step()
    pruner.on_step_begin()
    return model[0].weight_mask.int().tolist()


def small_cases():
    """Worked by hand: half of a matrix goes, the criterion says which half."""
    w = [[1.0, -2.0, 3.0, -4.0]]
    once = {"pattern": "1x1", "target_sparsity": 0.5, "sparsity_decay_type": "oneshot"}
    need(by_hand(w, once) == [[0, 0, 1, 1]], "magnitude")
    # |w g| = 4 2 3 4 in the last step
    for kind in ("snip", "gradient_x_weight"):
        said = by_hand(w, {**once, "pruning_type": kind, "start_step": 2}, [[0.0, 9.0, 0.0, 0.0]], [[4.0, -1.0, 1.0, 1.0]])
        need(said == [[1, 0, 0, 1]], f"{kind}: {said}")
    # 0.5 |w g|(1) + |w g|(2) = 4 9+2 3 4
    said = by_hand(w, {**once, "pruning_type": "snip_momentum", "momentum": 0.5, "start_step": 2}, [[0.0, 9.0, 0.0, 0.0]], [[4.0, -1.0, 1.0, 1.0]])
    need(said == [[0, 1, 0, 1]], f"snip_momentum: {said}")
    # - sum w g: -(1*1) = -1, -(-2*-1) = -2, -(3*-1) = 3, -(-4*2) = 8: the first two move towards 0
    said = by_hand(w, {**once, "pruning_type": "movement", "start_step": 2}, [[1.0, 0.0, -1.0, 1.0]], [[0.0, -1.0, 0.0, 1.0]])
    need(said == [[0, 0, 1, 1]], f"movement: {said}")
    # Blocks of 2x1. w g: columns (1, -1), (3, 3), (5, -4), (0, 2). Sums 0 6 1 2, sums of magnitudes 2 6 9 2
    tall, grad = [[1.0] * 4, [1.0] * 4], [[1.0, 3.0, 5.0, 0.0], [-1.0, 3.0, -4.0, 2.0]]
    blocks = {**once, "pattern": "2x1", "start_step": 1}
    said = by_hand(tall, {**blocks, "pruning_type": "gradient_x_weight"}, grad)
    need(said == [[0, 1, 0, 1]] * 2, f"a block is worth its sum: {said}")
    said = by_hand(tall, {**blocks, "pruning_type": "snip"}, grad)
    need(said == [[0, 1, 1, 0]] * 2, f"a block is worth its magnitudes: {said}")


def lasso():
    model = layer([[3.0, 0.0], [4.0, 0.0]])
    pruner = Pruner(model, {"pattern": "2x1", "target_sparsity": 0.5, "end_step": 9})
    model[0].weight.grad = torch.ones(2, 2)
    pruner.group_lasso_regularize(0.5)
    # 1 + 0.5 * (3, 4) / 5; a block of zeros has no direction
    torch.testing.assert_close(model[0].weight.grad, torch.tensor([[1.3, 1.0], [1.4, 1.0]]))
    torch.manual_seed(0)
    norms = []
    for rate in (0.0, 0.05):
        model = layer(torch.randn(8, 8).tolist()) if rate == 0.0 else copy.deepcopy(first)
        first = copy.deepcopy(model)
        said = {"reg_type": "group_lasso", "reg_coeff": rate} if rate else {}
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        prepare_pruning(model, {"pattern": "4x1", "target_sparsity": 0.5, "end_step": 99, "start_step": 98, **said}, optimizer)
        for _ in range(20):
            optimizer.zero_grad()
            (model(torch.zeros(1, 8)).sum() * 0).backward()
            optimizer.step()
        norms.append(float(model[0].weight.detach().norm()))
    need(norms[1] < norms[0] - 0.1, f"the regulariser does nothing: {norms}")


def seeds_loop():
    """The functions of the seed, in its order."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    pruner = Pruner(model, {"pattern": "4x1", "target_sparsity": 0.75, "end_step": 10, "sparsity_decay_type": "cubic", "pruning_scope": "local"})
    x = torch.randn(32, 16)
    for _ in range(12):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        pruner.prune_gradient_with_magnitude()
        for m in pruner.layers.values():
            need(not m.weight.grad[~m.weight_mask].any(), "a gradient of what is pruned")
        pruner.group_lasso_regularize(1e-3)
        optimizer.step()
        pruner.prune_weights_with_magnitude()
        for m in pruner.layers.values():
            need(not m.weight[~m.weight_mask].any(), "a pruned weight is not 0")
    need(pruner.step == 12 and pruner.sparsity() == 0.75, f"{pruner.step} steps, {pruner.sparsity()}")
    refused(ValueError, "pruning_type is snip", Pruner(model, {"target_sparsity": 0.8, "end_step": 9, "pruning_type": "snip"}).prune_weights_with_magnitude)


# ---------------------------------------------------------------- schedules
def curves():
    at = lambda kind, t: schedules.sparsity(read({"target_sparsity": 0.8, "start_step": 10, "end_step": 110, "sparsity_decay_type": kind}).sets[0], t)
    for kind in schedules.DECAYS:
        if kind == "oneshot":
            continue
        line = [at(kind, t) for t in range(130)]
        need(line[9] == 0 and line[110] == 0.8 and line[129] == 0.8 and all(a <= b for a, b in zip(line, line[1:])), f"{kind}: {line}")
    need(abs(at("linear", 60) - 0.4) < 1e-12 and abs(at("cubic", 60) - 0.7) < 1e-12 and abs(at("cos", 60) - 0.4) < 1e-12, "half way")
    need(abs(at("exp", 60) - (1 - math.sqrt(0.2))) < 1e-12 and at("exp", 60) == at("iterative", 60), "the same share of what is left")


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.Flatten(), nn.Linear(8 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10))


def batch(i, n=16):
    g = torch.Generator().manual_seed(1000 + i)
    return torch.randn(n, 3, 8, 8, generator=g), torch.randint(0, 10, (n,), generator=g)


def step(model, optimizer, i, more=None):
    x, y = batch(i)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    if more:
        more()
    optimizer.step()
    return float(loss.detach())


def obeys(mask, pattern):
    """What stays is whole blocks, or n of m."""
    p = Pattern.parse(pattern if ":" in pattern else f"{pattern}:0.5")
    seen = mask.reshape(mask.shape[0], mask.shape[1], -1)
    if p.of:
        lines = seen.movedim(0 if p.along_out else 1, -1)
        lines = nn.functional.pad(lines, (0, -lines.shape[-1] % p.of))
        return bool((lines.unflatten(-1, (-1, p.of)).sum(-1) <= p.keep).all())
    mean, _ = p.blocks(mask.double())
    return bool(((mean == 0) | (mean == 1)).all())


def patterns_hold(tests):
    """Masks obey their pattern at every step, grow, and meet the target to the element."""
    every = ("4x1", "2x1", "1x1", "2x4", "rows", "channels", "cols", "2:4", "2:4@out", "16x4")
    for number, pattern in enumerate(every):
        for kind, scope in ((CRITERIA[number % 5], "global"), (CRITERIA[(number + 2) % 5], "local")):
            model = net()
            groups = ":" in pattern
            said = {"pattern": pattern, "pruning_type": kind, "start_step": 1, "end_step": 6, "pruning_frequency": 2, "excluded_op_names": ["0", "6"]}
            said |= {} if groups else {"target_sparsity": 0.6, "sparsity_decay_type": "linear", "pruning_scope": scope}
            optimizer = torch.optim.Adam(model.parameters(), 1e-2)
            pruner = prepare_pruning(model, said, optimizer)
            gone = 0.0
            for i in range(8):
                step(model, optimizer, i)
                for name, m in pruner.layers.items():
                    need(obeys(m.weight_mask, {"channels": "rows"}.get(pattern, pattern)), f"{pattern} {kind} {scope}: {name} at step {i}")
                    need(not m.weight[~m.weight_mask].any(), f"{pattern}: a pruned weight is not 0")
                need(pruner.sparsity() >= gone, "what was pruned came back")
                gone = pruner.sparsity()
            if groups:
                need(gone == 0.5, f"{pattern}: {gone}")
                continue
            parts = pruner.layers.values() if scope == "local" else [None]
            for m in parts:
                masks = [m.weight_mask] if m is not None else [m.weight_mask for m in pruner.layers.values()]
                total, left = sum(x.numel() for x in masks), sum(int(x.sum()) for x in masks)
                p = Pattern.parse(f"{'rows' if pattern == 'channels' else pattern}:0.6")
                largest_block = max(float(p.sizes(x.shape).max()) for x in masks)
                want = math.ceil(0.6 * total - 1e-6)
                need(want <= total - left < want + largest_block, f"{pattern} {kind} {scope}: {total - left} of {total} went, {want} were asked for")


def selection():
    """Without sorting, the same as with it; ties go by their index."""
    torch.manual_seed(0)
    for _ in range(50):
        score = torch.randint(-3, 3, (37,)).double()
        for needed in (0, 1, 36, 73, 74, 80):
            quick = largest(score, torch.full((37,), 2.0), needed)
            order = torch.sort(score, stable=True).indices
            slow = torch.ones(37, dtype=torch.bool)
            slow[order[: math.ceil(needed / 2)]] = False
            need(torch.equal(quick, slow), f"{score} {needed}")


def scopes():
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16))
    with torch.no_grad():
        for scale, m in zip((1.0, 10.0, 100.0), model):
            m.weight.copy_(scale * (1 + torch.rand(16, 16)))
    said = {"pattern": "1x1", "target_sparsity": 0.5, "sparsity_decay_type": "oneshot"}

    def shares(**more):
        other = copy.deepcopy(model)
        pruner = Pruner(other, {**said, **more})
        pruner.on_train_begin()
        return [1 - m.density() for m in pruner.layers.values()]

    need(shares(pruning_scope="local") == [0.5] * 3, "local")
    wide = shares(max_sparsity_ratio_per_op=1.0)
    # The lowest of all: the first layer goes but for the element that must stay, half of the second.
    need(wide == [255 / 256, 129 / 256, 0], f"global: {wide}")
    bounded = shares(max_sparsity_ratio_per_op=0.75, min_sparsity_ratio_per_op=0.125)
    need(bounded == [0.75, 0.625, 0.125], f"bounds: {bounded}")
    # Other words for some layers
    pruner = Pruner(copy.deepcopy(model), {**said, "pruning_configs": [{"op_names": ["1"], "pattern": "4x1", "target_sparsity": 0.75}]})
    pruner.on_train_begin()
    rows = {r["name"]: (r["pattern"], r["density"]) for r in pruner.report()}
    need(rows["1"] == ("4x1:0.75", 0.25) and rows["0"][0] == "1x1:0.5", str(rows))
    need("4x1:0.75" in str(pruner.report()), "the table")


def returns():
    """What went may come back until a step: with the weight it had, by magnitude; by its gradient where that is the criterion."""
    model = layer([[1.0, 2.0, 3.0, 4.0]])
    pruner = Pruner(model, {"pattern": "1x1", "target_sparsity": 0.5, "sparsity_decay_type": "oneshot", "end_step": 4, "regrow_until": 2})
    pruner.on_train_begin()
    m = model[0]
    need(m.weight.tolist() == [[0, 0, 3, 4]], str(m.weight))
    with torch.no_grad():
        m.weight[0, 2] = 0.5  # training made it small
    pruner.on_after_optimizer_step()
    pruner.on_step_begin()
    need(m.weight.tolist() == [[0, 2, 0, 4]], f"2 is larger than 0.5 and comes back as it was: {m.weight}")
    pruner.on_after_optimizer_step()
    pruner.on_step_begin()  # step 2: the last time that something may come back
    with torch.no_grad():
        m.weight[0, 1] = 0.1
    pruner.on_after_optimizer_step()
    pruner.on_step_begin()
    need(m.weight_mask.tolist() == [[False, True, False, True]], "locked")
    # A gradient of what is pruned is seen as long as it may come back, and never reaches the optimizer.
    model = layer([[1.0, 1.0, 1.0, 1.0]])
    said = {"pattern": "1x1", "target_sparsity": 0.5, "sparsity_decay_type": "oneshot", "pruning_type": "snip", "start_step": 1, "end_step": 4}
    optimizer = torch.optim.SGD(model.parameters(), 0.0, momentum=0.9)
    pruner = prepare_pruning(model, {**said, "regrow_until": 3}, optimizer)
    seen = []
    for grad in ([1.0, 2.0, 3.0, 4.0], [9.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 9.0], [9.0, 9.0, 0.0, 0.0]):
        optimizer.zero_grad()
        (model(torch.tensor([grad]))).sum().backward()
        before = model[0].weight_mask.clone()
        optimizer.step()
        seen.append(model[0].weight_mask.int().tolist()[0])
        need(not model[0].weight.grad[~before].any() and not model[0].weight[~model[0].weight_mask].any(), "it reached the optimizer")
    need(seen == [[0, 0, 1, 1], [1, 0, 0, 1], [0, 0, 1, 1], [0, 0, 1, 1]], str(seen))
    need(not model[0].open, "still open after the lock")


def masked_before():
    """A model that has masks: what they lack does not come back, in blocks or in heads."""
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
    sparta.prune.one_shot(model, None, "magnitude", "2:4")
    attention = bert()
    sparta.prune.one_shot(attention, None, "magnitude", "2:4", excluded=["classifier"])
    for net_, pattern in ((model, "4x1"), (attention, "heads")):
        pruner = Pruner(net_, {"pattern": pattern, "target_sparsity": 0.5, "sparsity_decay_type": "oneshot"})
        before = {name: m.weight_mask.clone() for name, m in pruner.layers.items()}
        pruner.on_train_begin()
        for name, m in pruner.layers.items():
            need(not m.weight_mask[~before[name]].any(), f"{pattern}: {name}: what was pruned came back")
        need(pruner.sparsity() > 0.5, "nothing went")


# ---------------------------------------------------------------- zeros stay zeros
def optimizers():
    makers = {
        "adam": lambda p: torch.optim.Adam(p, 1e-2),
        "adamw": lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1),
        "fused": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
        "momentum": lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True, weight_decay=0.1),
        "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-3),
    }
    for name, make in makers.items():
        for regrow in (0, 5):
            model = net()
            optimizer = make(model.parameters())
            said = {"pattern": "4x1", "target_sparsity": 0.75, "end_step": 6, "pruning_type": "snip_momentum", "regrow_until": regrow}
            pruner = prepare_pruning(model, {**said, "excluded_op_names": ["0", "6"]}, optimizer)
            for i in range(8):
                x, y = batch(i)
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=i % 2 == 1):
                    loss = nn.functional.cross_entropy(model(x).float(), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                for key, m in pruner.layers.items():
                    need(not m.weight[~m.weight_mask].any(), f"{name}: {key} at step {i}")
            need(abs(pruner.sparsity() - 0.75) < 0.01, f"{name}: {pruner.sparsity()}")


def scaled():
    """A GradScaler that finds Inf takes no step, and none is counted; where it takes one the scores are those without it."""
    seen = []
    for scaler in (torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=100), None):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 1e-2)
        pruner = prepare_pruning(model, {"target_sparsity": 0.5, "end_step": 4, "pruning_type": "snip"}, optimizer)
        for i in range(4):
            x, y = batch(i)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            if scaler is None:
                loss.backward()
                optimizer.step()
                continue
            scaler.scale(loss).backward()
            if i == 1:  # once more, with an Inf
                model[4].weight.grad[0, 0] = math.inf
                scaler.step(optimizer)
                scaler.update()
                need(pruner.step == 1, "a step that was not taken was counted")
                optimizer.zero_grad()
                scaler.scale(nn.functional.cross_entropy(model(x), y)).backward()
            scaler.step(optimizer)
            scaler.update()
        seen.append(model[4].weight_mask.clone())
    need(torch.equal(*seen), "masks differ under a GradScaler")


def fused():
    """A fused optimizer sees Inf and the scale itself, within step(): the same weights as without a scale, and what it skips is not counted."""
    ends = []
    for scaler in (torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=100), None):
        model = dense_net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
        said = {"target_sparsity": 0.5, "end_step": 2, "pruning_type": "snip", "reg_type": "group_lasso", "reg_coeff": 0.1}
        pruner = prepare_pruning(model, said, optimizer)
        for poison in (False, True, False, False):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 32)).square().mean()
            if scaler is None:
                loss.backward()
                if not poison:
                    optimizer.step()
                continue
            scaler.scale(loss).backward()
            if poison:
                model[0].weight.grad[0, 0] = math.inf
            scaler.step(optimizer)
            scaler.update()
        need(pruner.step == 3, f"{pruner.step} steps")
        ends.append(model[0].weight.detach().clone())
    torch.testing.assert_close(*ends)


def closures():
    """The gradients that a closure makes are those that the criterion sees, as they are without one."""
    ends = []
    for way in ("plain", "closure", "named"):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        pruner = prepare_pruning(model, {"target_sparsity": 0.5, "end_step": 2, "pruning_type": "snip", "excluded_op_names": ["0", "2"]}, optimizer)
        for i in range(3):
            x, y = batch(i)

            def closure(model=model, optimizer=optimizer, x=x, y=y):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                return loss

            loss = closure() if way == "plain" else None
            got = optimizer.step() if way == "plain" else optimizer.step(closure) if way == "closure" else optimizer.step(closure=closure)
            need(way == "plain" or float(got.detach()) > 0, "the loss is not handed on")
        need(pruner.step == 3 and pruner.sparsity() >= 0.5, f"{way}: {pruner.step} steps, {pruner.sparsity()}")
        ends.append(model[4].weight.detach())
    need(torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2]), "a closure changes what goes")


def moved():
    """A model that becomes another dtype after the pruner was made: what is kept and the dense copy follow."""
    model = net()
    said = {"target_sparsity": 0.5, "end_step": 4, "regrow_until": 3, "distillation": {"alpha": 0.5}}
    pruner = Pruner(model, said)
    model.double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    pruner.attach(optimizer)
    for i in range(3):
        x, y = batch(i)
        optimizer.zero_grad()
        out = model(x.double())
        pruner.distill(nn.functional.cross_entropy(out, y), out).backward()
        optimizer.step()
    need(model[4].weight.dtype == torch.float64 and pruner.distiller.answer.dtype == torch.float64, "it did not follow")


def resumed(tests):
    """Stopped at any step, and gone on in another model: the same bits."""
    for kind, regrow in (("magnitude", 0), ("snip_momentum", 6), ("movement", 0), ("magnitude", 6)):
        said = {"pattern": "2x1", "target_sparsity": 0.7, "end_step": 8, "pruning_frequency": 2, "pruning_type": kind, "regrow_until": regrow}

        def fresh():
            model = net()
            optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
            return model, optimizer, prepare_pruning(model, said, optimizer)

        whole, optimizer, pruner = fresh()
        for i in range(11):
            step(whole, optimizer, i)
        for stop in (1, 4, 5, 9):
            model, optimizer, pruner = fresh()
            for i in range(stop):
                step(model, optimizer, i)
            file = io.BytesIO()
            torch.save([model.state_dict(), optimizer.state_dict(), pruner.state_dict()], file)
            file.seek(0)
            model, optimizer, pruner = fresh()
            for part, state in zip((model, optimizer, pruner), torch.load(file, weights_only=True)):
                part.load_state_dict(state)
            for i in range(stop, 11):
                step(model, optimizer, i)
            for (name, a), b in zip(model.state_dict().items(), whole.state_dict().values()):
                need(torch.equal(a, b), f"{kind}, stopped at {stop}: {name} differs")
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    pruner = prepare_pruning(model, {"pattern": "2x1", "target_sparsity": 0.7, "end_step": 8, "pruning_type": "snip_momentum", "start_step": 1}, optimizer)
    step(model, optimizer, 0)
    state = pruner.state_dict()
    before = copy.deepcopy(state)
    step(model, optimizer, 1)
    pruner.load_state_dict(state)
    step(model, optimizer, 2)
    need(all(torch.equal(state["layers"][k]["scores"], before["layers"][k]["scores"]) for k in before["layers"]), "a state changes after it was taken")
    refused(ValueError, "no state", pruner.load_state_dict, {})
    other = Pruner(net(), {"target_sparsity": 0.5, "end_step": 9, "excluded_op_names": ["4"]})
    refused(ValueError, "only one of them prunes '4'", other.load_state_dict, pruner.state_dict())


# ---------------------------------------------------------------- two processes
def dense_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))


def steps_of(model, inner, x, said):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
    pruner = prepare_pruning(inner, said, optimizer)
    for _ in range(5):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [m.weight_mask for m in pruner.layers.values()], [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach() for p in inner.parameters()]


SETS = [{"target_sparsity": 0.75, "end_step": 4}, {"target_sparsity": 0.75, "end_step": 4, "pruning_type": "snip_momentum", "regrow_until": 3}]


def one_of_two(rank, which, port, queue):
    import torch.distributed as dist

    warnings.simplefilter("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    try:
        for i, said in enumerate(SETS):
            model = dense_net()
            # Masks are made after both: DDP has looked at the buffers, FSDP2 has made its Parameters.
            outer = wrapped(model, which)
            masks, weights = steps_of(outer, model, torch.randn(16, 32, generator=torch.Generator().manual_seed(1)).chunk(2)[rank], said)
            queue.put((rank, i, [m.numpy() for m in masks], [w.numpy() for w in weights]))
    except Exception as error:
        queue.put((rank, f"{type(error).__name__}: {str(error).splitlines()[0]}", None, None))
    queue.close()
    queue.join_thread()
    dist.destroy_process_group()


def two(which):
    """Both choose the masks that one process with the whole batch chooses."""
    context = torch.multiprocessing.get_context("spawn")
    queue, port = context.Queue(), free_port()
    both = [context.Process(target=one_of_two, args=(rank, which, port, queue)) for rank in range(2)]
    for process in both:
        process.start()
    try:
        said = []
        while len(said) < 2 * len(SETS):
            said.append(queue.get(timeout=300))
            need(said[-1][2] is not None, f"rank {said[-1][0]}: {said[-1][1]}")
    finally:
        for process in both:
            process.join(10)
            if process.is_alive():
                process.kill()
    for rank, i, masks, weights in said:
        alone = dense_net()
        want, dense = steps_of(alone, alone, torch.randn(16, 32, generator=torch.Generator().manual_seed(1)), SETS[i])
        for got, mask in zip(masks, want, strict=True):
            need(torch.equal(torch.from_numpy(got), mask), f"{which}, rank {rank}, {SETS[i]}: another mask")
        for got, weight in zip(weights, dense, strict=True):
            torch.testing.assert_close(torch.from_numpy(got), weight, atol=1e-4, rtol=1e-3)
        for got, mask in zip([w for w in weights if w.ndim == 2], masks):
            need(not got[~mask].any(), "a pruned weight is not 0")


# ---------------------------------------------------------------- whole models
def bert():
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=32, num_labels=3)
    )


def heads(tests):
    """Heads go whole, of query, key, value and output at once, and then out of the model."""
    model = bert()
    pruner = Pruner(model, {"pattern": "heads", "target_sparsity": 0.5, "sparsity_decay_type": "oneshot", "pruning_scope": "local"})
    need(len(pruner.layers) == 8, str(list(pruner.layers)))
    pruner.on_train_begin()
    for i in range(2):
        masks = [model.get_submodule(f"bert.encoder.layer.{i}.attention.self.{n}").weight_mask for n in ("query", "key", "value")]
        out = model.get_submodule(f"bert.encoder.layer.{i}.attention.output.dense").weight_mask
        gone = masks[0].reshape(4, -1).any(1)
        need(int(gone.sum()) == 2 and all(torch.equal(m.reshape(4, -1).all(1), gone) for m in masks), "heads of query, key and value")
        need(torch.equal(out.T.reshape(4, -1).all(1), gone), "columns of the output")
    ids = torch.randint(0, 64, (2, 8))
    model.eval()
    before = model(ids).logits
    sparta.compact_(model, {"input_ids": ids})
    need(model.bert.encoder.layer[0].attention.self.query.weight.shape == (16, 32), str(model.bert.encoder.layer[0].attention.self.query.weight.shape))
    torch.testing.assert_close(model(ids).logits, before, atol=1e-4, rtol=1e-4)
    refused(ValueError, "no attention was found", Pruner, net(), {"pattern": "heads", "target_sparsity": 0.5, "end_step": 1})


def names(count=96):
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 64, (count, 12), generator=g)
    return [{"input_ids": row, "attention_mask": torch.ones(12, dtype=torch.long), "labels": int(row[0]) % 3} for row in ids]


def trainer(tests):
    """transformers' Trainer: no change but the callback; stopped and gone on, the same weights."""
    import transformers

    if importlib.util.find_spec("accelerate") is None:
        raise NotRun("accelerate, which the Trainer needs, is not installed")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    said = {"pattern": "4x1", "target_sparsity": 0.8, "end_step": 8, "pruning_type": "snip_momentum", "excluded_op_names": ["classifier", "*pooler*"]}

    def run(folder, resume=None):
        model = bert()
        pruner = Pruner(model, said)
        args = transformers.TrainingArguments(
            folder, per_device_train_batch_size=8, max_steps=10, save_steps=5, report_to=[], use_cpu=True, logging_strategy="no", seed=0
        )
        made = transformers.Trainer(model, args, train_dataset=names(), callbacks=[sparta.prune.trainer_callback(pruner)])
        made.train(resume_from_checkpoint=resume)
        return model, pruner

    with tempfile.TemporaryDirectory(dir=tests.work.name) as folder:
        whole, pruner = run(folder)
        need(pruner.step == 10 and abs(pruner.sparsity() - 0.8) < 1e-3, f"{pruner.step} steps, {pruner.sparsity()}")
        again, other = run(folder, os.path.join(folder, "checkpoint-5"))
        need(other.step == 10, f"{other.step}")
        for (name, a), b in zip(again.state_dict().items(), whole.state_dict().values()):
            need(torch.equal(a, b), f"{name} differs after a checkpoint")
    return f"sparsity {pruner.sparsity():.3f}"


def trainer_goes_on(tests):
    """The callback as the Trainer calls it: what it goes on from is often said to train() alone, and then args say nothing."""
    import types

    def fresh():
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        pruner = Pruner(model, {"target_sparsity": 0.5, "end_step": 4, "pruning_type": "snip"})
        return model, optimizer, pruner, sparta.prune.trainer_callback(pruner)

    state = types.SimpleNamespace(global_step=0, is_world_process_zero=True)
    with tempfile.TemporaryDirectory(dir=tests.work.name) as folder:
        args = types.SimpleNamespace(output_dir=folder, resume_from_checkpoint=None)
        model, optimizer, pruner, callback = fresh()
        callback.on_train_begin(args, state, None, optimizer=optimizer)
        for i in range(2):
            step(model, optimizer, i)
        state.global_step = 2
        where = os.path.join(folder, "checkpoint-2")
        os.mkdir(where)
        callback.on_save(args, state, None)
        for said in (None, True, where):
            args.resume_from_checkpoint = said
            again, optimizer, other, callback = fresh()
            again.load_state_dict(model.state_dict())
            callback.on_train_begin(args, state, None, optimizer=optimizer)
            need(other.step == 2 and torch.equal(other._all()[0].scores, pruner._all()[0].scores), f"{said}: step {other.step}")
        state.global_step, args.resume_from_checkpoint = 3, None
        refused(FileNotFoundError, "there is no", fresh()[3].on_train_begin, args, state, None, optimizer=optimizer)


def lightning(tests):
    """Where it is installed."""
    try:
        module = importlib.import_module("lightning.pytorch")
    except ImportError:
        try:
            module = importlib.import_module("pytorch_lightning")
        except ImportError:
            raise NotRun("Lightning is not installed") from None

    class Lit(module.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, rows, i):
            return nn.functional.cross_entropy(self.net(rows[0]), rows[1])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-2)

    data = torch.utils.data.DataLoader([tuple(part[0] for part in batch(i, 1)) for i in range(32)], batch_size=4)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}

    def fit(epochs, path=None):
        model = Lit()
        pruner = Pruner(model, {"target_sparsity": 0.8, "end_step": 12, "excluded_op_names": ["net.0"]})
        made = module.Trainer(max_epochs=epochs, default_root_dir=tests.work.name, enable_checkpointing=False, **quiet, callbacks=[sparta.prune.lightning_callback(pruner)])
        made.fit(model, data, ckpt_path=path)
        return model, pruner, made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole, pruner, _ = fit(2)
        need(pruner.step == 16 and abs(pruner.sparsity() - 0.8) < 0.01, f"{pruner.step} steps, {pruner.sparsity()}")
        _, _, half = fit(1)
        path = os.path.join(tests.work.name, "half.ckpt")
        half.save_checkpoint(path)
        again, _, _ = fit(2, path)
    for (name, a), b in zip(again.state_dict().items(), whole.state_dict().values()):
        need(torch.equal(a, b), f"{name} differs after a checkpoint")
    return f"sparsity {pruner.sparsity():.3f}"


def distillation():
    """alpha 1: the gradient is that of the dense model's answers alone, and vanishes where they are the same."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    said = {"target_sparsity": 0.5, "start_step": 50, "end_step": 60, "distillation": {"alpha": 1.0, "temperature": 2}}
    pruner = prepare_pruning(model, said, optimizer)
    x, y = batch(0)
    out = model(x)
    loss = pruner.distill(nn.functional.cross_entropy(out, y), out)
    need(abs(float(loss.detach())) < 1e-6, f"the same answers: {loss}")
    with torch.no_grad():
        model[6].bias[0] += 1
    out = model(x)
    loss = float(pruner.distill(nn.functional.cross_entropy(out, y), out).detach())
    t, mine = pruner.distiller.teacher(x) / 2, out.detach() / 2
    want = 4 * float((t.softmax(-1) * (t.log_softmax(-1) - mine.log_softmax(-1))).sum(-1).mean())
    need(abs(loss - want) < 1e-5 and want > 0, f"{loss}, {want}")
    refused(ValueError, "has not seen this batch", pruner.distill, torch.tensor(0.0), torch.zeros(3, 10))
    # A model whose output has its loss: nothing is called.
    hf = bert()
    rows = torch.utils.data.default_collate(names(8))
    prepare_pruning(hf, {"target_sparsity": 0.5, "end_step": 9, "distillation": {"alpha": 1.0}}, torch.optim.SGD(hf.parameters(), 0.1))
    hf.train()
    torch.manual_seed(0)
    for m in hf.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    need(abs(float(hf(**rows).loss.detach())) < 1e-6, "the loss of the output was not replaced")
    refused(ValueError, "says nothing of distillation", Pruner(net(), {"target_sparsity": 0.5, "end_step": 1}).distill, torch.tensor(0.0), None)


# ---------------------------------------------------------------- what is refused
def untouched(model, kind, words, said, **more):
    before = copy.deepcopy(model.state_dict())
    refused(kind, words, prepare_pruning, model, said, **more)
    need(list(before) == list(model.state_dict()) and all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values())), "it was changed")
    need(not any(isinstance(m, Masked) for m in model.modules()), "it was masked")


def bad_configs():
    good = {"target_sparsity": 0.9, "end_step": 10}
    for words, more in (
        ("'target_sparsty' is not known; did you mean 'target_sparsity'?", {"target_sparsty": 0.9}),
        ("target_sparsity: a number between 0 and 1", {"target_sparsity": 1.5}),
        ("target_sparsity: a number between 0 and 1", {"target_sparsity": "0.9"}),
        ("target_sparsity: a number between 0 and 1", {"target_sparsity": True}),
        ("end_step: 10 is before start_step 20", {"start_step": 20}),
        ("contradicts the pattern '2:4', which is 0.5", {"pattern": "2:4"}),
        ("contradicts the pattern '4x1:0.5'", {"pattern": "4x1:0.5"}),
        ("'4y1:0.9' is no pattern", {"pattern": "4y1"}),
        ("a text such as '4x1'", {"pattern": 4}),
        ("pruning_type: 'snp' is not known", {"pruning_type": "snp"}),
        ("pruning_scope: 'layer' is not known; there are global, local", {"pruning_scope": "layer"}),
        ("contradicts sparsity_decay_type oneshot", {"sparsity_decay_type": "oneshot"}),
        ("sparsity_decay_type: 'square' is not known", {"sparsity_decay_type": "square"}),
        ("pruning_frequency: 0", {"pruning_frequency": 0}),
        ("a number above 0 is needed, not '1e-4'; YAML takes 1e-4 for a text: write 1.0e-4", {"reg_type": "group_lasso", "reg_coeff": "1e-4"}),
        ("reg_type: group_lasso contradicts pattern heads", {"pattern": "heads", "reg_type": "group_lasso"}),
        ("reg_coeff: it is given without reg_type", {"reg_coeff": 0.1}),
        ("min_sparsity_ratio_per_op: 0.95 is above", {"min_sparsity_ratio_per_op": 0.95}),
        ("max_sparsity_ratio_per_op: 0.5 is below", {"max_sparsity_ratio_per_op": 0.5}),
        ("pruning_scope: local gives every layer the target", {"pruning_scope": "local", "max_sparsity_ratio_per_op": 0.95}),
        ("regrow_until: 11 must be after start_step 0 and not after end_step 10", {"regrow_until": 11}),
        ("momentum: pruning_type magnitude has none", {"momentum": 0.5}),
        ("op_names: no layer is named 'encoder'", {"op_names": ["encoder"]}),
        ("excluded_op_names: no layer is named 'head'", {"excluded_op_names": ["head"]}),
        ("excluded_op_names: a list of names", {"excluded_op_names": 3}),
        ("no layer is left to prune", {"excluded_op_names": ["*"]}),
        ("pruning_op_types: 'LSTM' is not known", {"pruning_op_types": ["LSTM"]}),
        ("no block of 64x64:0.9 fits into '2'", {"pattern": "64x64", "op_names": ["2"]}),
        ("pruning_configs[0]", {"pruning_configs": [{"pattern": "4x1"}]}),
        ("'2' is named by two of pruning_configs", {"pruning_configs": [{"op_names": ["2"]}, {"op_names": ["2"], "pattern": "2x1"}]}),
        ("'heat' is not known", {"distillation": {"heat": 2}}),
    ):
        untouched(net(), ValueError, words, {**good, **more})
    untouched(net(), ValueError, "end_step: it is missing", {"target_sparsity": 0.9})
    untouched(net(), ValueError, "target_sparsity: it is missing", {"end_step": 9})
    untouched(net(), ValueError, "at step 0 there were none", {"target_sparsity": 0.5, "sparsity_decay_type": "oneshot", "pruning_type": "snip"})
    untouched(net(), ValueError, "has one sparsity", {"pattern": "2:4", "sparsity_decay_type": "cubic", "end_step": 4})
    untouched(net(), TypeError, "a dict, or YAML", 7)
    untouched(net(), ValueError, "no YAML", "a: [")
    untouched(net(), ValueError, "quote it, '2:4'", "pattern: 2:4\nend_step: 0")
    untouched(net(), ValueError, "words with values", "just words")
    refused(TypeError, "torch.nn.Module is needed", Pruner, 3, good)
    model = net()
    refused(ValueError, "has none of the pruned weights", prepare_pruning, model, good, torch.optim.SGD(net().parameters(), 0.1))
    refused(TypeError, "a torch.optim optimizer is needed", prepare_pruning, net(), good, "sgd")
    text = "# as Neural Compressor writes it\ntarget_sparsity: 0.8\npattern: 4x1\nend_step: 20\nexcluded_op_names: ['0']\nsparsity_decay_type: cubic\n"
    need(read(text) == read({"target_sparsity": 0.8, "pattern": "4x1", "end_step": 20, "excluded_op_names": ["0"], "sparsity_decay_type": "cubic"}), "YAML")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        need(read(file.name) == read(text), "a file")


def empty_layers():
    # 2 blocks in the last layer: at 0.9 none would be left
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(2, 4))
    untouched(model, ValueError, "'1' (4x2, 2 blocks of 4x1:0.9) would become empty", {"target_sparsity": 0.9, "end_step": 9, "pruning_scope": "local"})
    untouched(model, ValueError, "1 of all layers cannot go", {"target_sparsity": 1.0, "end_step": 9})
    pruner = Pruner(model, {"target_sparsity": 0.9, "sparsity_decay_type": "oneshot"})
    pruner.on_train_begin()
    need(all(m.weight_mask.any() for m in pruner.layers.values()) and pruner.sparsity() >= 0.9, "a layer went empty")
    # What the bound of each layer rounds does not stand in the way of all: 98 % of 132 and of 195 blocks is no whole number
    for target in (0.97, 0.98):
        wide = nn.Sequential(nn.Linear(33, 16), nn.ReLU(), nn.Linear(65, 12))
        pruner = Pruner(wide, {"target_sparsity": target, "sparsity_decay_type": "oneshot"})
        pruner.on_train_begin()
        need(pruner.sparsity() >= target and all(m.weight_mask.any() for m in pruner.layers.values()), f"{target}: {pruner.sparsity()}")


def bad_gradients():
    for kind in ("magnitude", "snip"):
        model = net()
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        prepare_pruning(model, {"target_sparsity": 0.5, "end_step": 9, "pruning_type": kind}, optimizer)
        step(model, optimizer, 0)
        before = copy.deepcopy(model.state_dict())

        def poison(model=model):
            model[4].weight.grad[1, 2] = math.nan

        refused(ValueError, "the gradient of '4' is not finite at step 1", step, model, optimizer, 1, poison)
        need(all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values())), "the step was taken")
    model = net()
    pruner = Pruner(model, {"target_sparsity": 0.5, "sparsity_decay_type": "oneshot"})
    with torch.no_grad():
        model[4].weight[0, 0] = math.inf
    refused(ValueError, "the weight of '4' is not finite", pruner.on_train_begin)
    need(all(m.weight_mask.all() for m in pruner.layers.values()), "masks were made")
    frozen = net()
    frozen[4].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(frozen.parameters(), 0.1)
    prepare_pruning(frozen, {"target_sparsity": 0.5, "end_step": 2, "pruning_type": "snip"}, optimizer)
    refused(ValueError, "'4' had no gradient", step, frozen, optimizer, 0)


def tied_and_unfinished():
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Embedding(8, 16), nn.Linear(16, 8))
    model[1].weight, model[3].weight = model[0].weight, model[2].weight
    pruner = Pruner(model, {"target_sparsity": 0.5, "sparsity_decay_type": "oneshot"})
    pruner.on_train_begin()
    need(list(pruner.layers) == ["0"] and torch.equal(model[0].weight_mask, model[1].weight_mask), "a tied weight")
    twice = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 8))
    twice[1].weight = twice[0].weight
    said = {"target_sparsity": 0.5, "end_step": 9}
    pruner = Pruner(twice, {**said, "pruning_configs": [{"op_names": ["0"]}]})
    need(list(pruner.layers) == ["0", "2"], f"a tied weight in two sets: {list(pruner.layers)}")
    refused(ValueError, "'1' is named by two", Pruner, twice, {"pruning_configs": [{**said, "op_names": ["0"]}, {**said, "op_names": ["1"]}]})
    early = Pruner(net(), {**said, "pruning_type": "snip", "regrow_until": 8})
    need(all(m.open for m in early.layers.values()), "not open")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        early.on_train_end()
    need(not any(m.open for m in early.layers.values()), "open after training")
    pruner = Pruner(net(), {"target_sparsity": 0.5, "end_step": 10})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pruner.on_train_end()
    need(len(said) == 1 and "before end_step 10" in str(said[0].message), str(said))


def devices():
    """Layers on two devices get the masks that they get on one, and what is not finite is found on each."""
    if not torch.cuda.is_available():
        raise NotRun("one device")
    for scope in ("local", "global"):
        for pattern in ("4x1", "2:4"):
            made = []
            for there in ("cpu", "cuda"):
                torch.manual_seed(0)
                model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
                model[1].to(there)
                pruner = Pruner(model, {"pattern": pattern, "target_sparsity": 0.75, "pruning_scope": scope, "sparsity_decay_type": "oneshot"} if pattern == "4x1" else {"pattern": pattern})
                pruner.on_train_begin()
                pruner.on_step_begin()
                for m in model:
                    m.weight.grad = torch.ones_like(m.weight)
                pruner.on_before_optimizer_step()
                pruner.on_after_optimizer_step()
                made.append([m.weight_mask.cpu() for m in model])
                model[1].weight.grad[0, 0] = math.nan
                refused(ValueError, "gradient of '1' is not finite", pruner.on_before_optimizer_step)
            need(all(map(torch.equal, *made)), f"{scope} {pattern}: other masks on two devices")


def documents():
    """The examples in docstrings."""
    for name in ("pruner", "config"):
        module = importlib.import_module(f"sparta.prune.{name}")
        module.torch, module.nn = torch, nn
        failed, tried = doctest.testmod(module)
        need(tried and not failed, f"{name}: {failed} of {tried}")


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = tests.work.name
    tests.check("small cases for every criterion", small_cases)
    tests.check("group lasso", lasso)
    tests.check("the seed's functions", seeds_loop)
    tests.check("schedules", curves)
    tests.check("selection without sorting", selection)
    tests.check("patterns hold at every step", patterns_hold, tests)
    tests.check("scopes, bounds and several configs", scopes)
    tests.check("what went may come back", returns)
    tests.check("masks that were there", masked_before)
    tests.check("optimizers, clipping and autocast", optimizers)
    tests.check("a GradScaler", scaled)
    tests.check("fused optimizers under a GradScaler", fused)
    tests.check("closures", closures)
    tests.check("a model that is moved", moved)
    tests.check("layers on two devices", devices)
    tests.check("resumed is uninterrupted", resumed, tests)
    for which in ("DDP", "FSDP2"):
        tests.check(f"{which}, 2 processes", two, which)
    tests.check("heads", heads, tests)
    tests.check("transformers' Trainer", trainer, tests)
    tests.check("the Trainer's callback goes on", trainer_goes_on, tests)
    tests.check("Lightning", lightning, tests)
    tests.check("distillation", distillation)
    tests.check("bad configs", bad_configs)
    tests.check("empty layers", empty_layers)
    tests.check("bad gradients and weights", bad_gradients)
    tests.check("tied weights, unfinished training", tied_and_unfinished)
    tests.check("examples in documents", documents)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
