"""Which way to run each layer of a model: timed at the shapes that it meets, remembered, applied.

    config = sparta.tune(model, (ids, mask))       {"encoder.0.fc1": {"block": [4, 1], "us": 212.0, "dense_us": 1530.0, "reason": "..."}, ...}
    sparta.build(model, None, config)              applies it, in place

A layer can run dense or in blocks of several sizes. Ways are timed in turns, each by the best of its windows, so that what disturbs the machine
disturbs all of them; blocks have to be 5 % faster than dense to be taken. Layers of one shape, block, density and balance share a time. A
configuration is plain data: it can be written into a JSON file, and sent to other processes, which would time for themselves and decide otherwise.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import random
import time
from typing import Any

import torch
from torch import nn

from . import _layers, _points
from ._blocks import CHOICES, GPU_SIDES, choose, fill
from ._conv1d import turn_
from ._format_linear import FormatLinear
from ._quiet import Quiet
from ._times import Times, machine
from .masked import MaskedLinear, mask_
from .nn import OperatorBase, SparseLinear
from .nn._mask import block_of, choose_blocks, name_of, too_few_zeros
from .nn._race import least, plausible, race, speed

MARGIN = 0.95  # blocks have to take at most this share of the dense time
GAIN = 2.0  # and to save so many microseconds: less is what a timer cannot tell
TOKENS = 128  # rows of an input where no example says how many
LEAST_FILL = 0.5  # blocks that are emptier than this are not tried
SECONDS = 0.05  # of timing a way
ALGORITHMS = ("grid", "random")
LATER = ("tpe", "evolution")  # of the tuner, which is not there

Config = dict[str, dict[str, Any]]


def word(block: str | tuple[int, int] | list[int]) -> str:
    """ "4x1", as a configuration and its times say it."""
    return block if isinstance(block, str) else f"{block[0]}x{block[1]}"


def ways(mask: torch.Tensor) -> list:
    """The dense one first, then the blocks that fit the mask best, then others that it fills to a good part."""
    best = choose(mask)
    if mask.is_cuda:
        squares = [(side, side) for side in GPU_SIDES if side <= min(mask.shape)]
        fits = [b for b in squares if b != best and fill(mask, b) >= LEAST_FILL]
        return ["dense", *([best] if best in squares else []), *fits]
    fits = [b for b in CHOICES if b != best and b[0] <= mask.shape[0] and b[1] <= mask.shape[1] and fill(mask, b) >= LEAST_FILL]
    return ["dense", best, *fits]


# ---------------------------------------------------------------- one layer
def _raw(module: Any) -> nn.Linear:
    """An ordinary layer over the same numbers, for timing and packing; gradients of the module's own Parameters are its user's."""
    raw = nn.Linear(module.in_features, module.out_features, module.bias is not None, device="meta")
    raw.weight = nn.Parameter(_layers.weight_of(module), requires_grad=next(module.parameters(recurse=False)).requires_grad)
    raw.bias = (
        None
        if module.bias is None
        else nn.Parameter(  # type: ignore[assignment]
            _layers.weight_of(module, "bias"), requires_grad=module.bias.requires_grad
        )
    )
    raw.training = module.training
    return raw


def _key(mask, met, backward: float) -> str:
    """What the times of a layer depend on. Masks of one shape, block, density and balance run alike."""
    blocks = choose_blocks(mask, choose(mask))[0]
    row = blocks.pos.diff().float()
    uneven = float(row.max() / row.mean().clamp(min=1e-9)) if row.numel() and blocks.crd.numel() else 0.0
    rows, cols = mask.shape
    autocast = lambda m: "" if m.lower is None else f" as {m.lower}"
    inputs = ", ".join(f"{count} of {list(m.shape)} {list(m.stride)} {m.dtype}{autocast(m)}" for m, count in sorted(met.items(), key=str))
    where = f"{torch.get_num_threads()} threads" if not mask.is_cuda else torch.cuda.get_device_name(mask.device)
    return (
        f"linear {rows}x{cols}, {word(blocks.block)}, density {float(mask.float().mean()):.2f}, fill {fill(mask, blocks.block):.1f}, "
        f"uneven {uneven:.0f}; "
        f"{inputs}; gradients {backward:g}; {where}; {machine()}"
    )


def _run(f, meeting, x, grad):
    """The layer on an input as it met one, and with its gradients. Autocast casts the weight in each call, as in a model that is called once."""
    lower = lambda: torch.autocast(x.device.type, meeting.lower, cache_enabled=False) if meeting.lower else contextlib.nullcontext()

    def forward():
        with lower():
            return f(x)

    def both():
        with torch.enable_grad():
            with lower():
                out = f(x.detach().requires_grad_())
            out.backward(torch.ones_like(out) if grad is None else grad.to(out.dtype))

    return forward, both


def _kept(mask, tried) -> list[float]:
    """The share of the weight that each way stores."""
    density = float(mask.float().mean())
    return [1.0 if way == "dense" else density / fill(mask, way) for way in tried]


def _allowed(mask, kept, meeting) -> list[float]:
    """Seconds that the operations and bytes of each way allow, on a CPU."""
    fast = speed(torch.get_num_threads())
    return [least(fast, mask.shape, share, math.prod(meeting.shape[:-1]), meeting.dtype.itemsize) for share in kept]


def _times(module, mask, tried, met, backward_weight, grads, quiet) -> dict[str, float]:
    """Microseconds of each way, of all inputs that the layer meets in one call of the model."""
    raw = _raw(module)
    functions = [raw if way == "dense" else SparseLinear(raw, weight_mask=mask, format=tuple(way)) for way in tried]
    total = [0.0] * len(tried)
    kept = [] if mask.is_cuda else _kept(mask, tried)
    for meeting, count in met.items():
        x = _layers.example(meeting, mask.device)
        grad = next((g for g in grads if tuple(g.shape) == (*meeting.shape[:-1], module.out_features)), None)
        with torch.no_grad():
            runs = [_run(f, meeting, x, grad) for f in functions]
            if mask.is_cuda:
                forward = race([r[0] for r in runs], SECONDS, device=mask.device, quiet=quiet)
            else:
                forward = plausible([r[0] for r in runs], _allowed(mask, kept, meeting), SECONDS, quiet)
            cost = forward
            if backward_weight:
                both = race([r[1] for r in runs], SECONDS, device=mask.device, quiet=quiet)
                cost = [f + backward_weight * max(b - f, 0.0) for f, b in zip(forward, both)]
        total = [t + count * c for t, c in zip(total, cost)]
    return {word(way): 1e6 * t for way, t in zip(tried, total)}


def _decide(tried, times: dict[str, float], said: str, disturbed: bool = False) -> dict[str, Any]:
    dense = times["dense"]
    said += ", while other programs worked" if disturbed else ""
    best = min((way for way in tried if way != "dense"), key=lambda way: times[word(way)], default="dense")
    row: dict[str, Any] = {"block": "dense", "us": dense, "dense_us": dense, "ways": times, **({"disturbed": True} if disturbed else {})}
    if best == "dense" or times[word(best)] > min(MARGIN * dense, dense - GAIN):
        us = times.get(word(best), dense)
        against = "" if best == "dense" else f" against {us:.0f} us in blocks of {word(best)}"
        found = "dense is faster" if us >= dense else "dense: blocks would gain too little"
        return {**row, "reason": f"{found}: {dense:.0f} us{against} {said}"}
    us = times[word(best)]
    faster = "faster than" if disturbed else f"{dense / us:.1f}x as fast as"  # how much, a busy machine does not tell
    return {**row, "block": list(best), "us": us, "reason": f"blocks of {word(best)} are {faster} dense {said}"}


def _add_points(row, layer, mask, met, backward: bool) -> None:
    """On a GPU: the points of the kernels for these blocks, at each shape that the layer meets. What the tuning database has is not timed again."""
    packed = SparseLinear(_raw(layer), weight_mask=mask, format=tuple(row["block"]))
    points = []
    for meeting in met:
        lower = meeting.lower or meeting.dtype
        points += (copy.deepcopy(packed).to(lower) if meeting.lower else packed).tune_points(
            _layers.example(meeting, mask.device).to(lower), backward
        )
    row["points"] = points
    row["reason"] += _points.said_of(points)


def _said(met) -> str:
    shapes = [str(list(m.shape)) for m in met]
    return "with " + " and ".join(shapes[:2]) + (" and others" if len(shapes) > 2 else "")


# ---------------------------------------------------------------- a model
def held(model: nn.Module, name: str, module: nn.Module) -> str:
    """Why a layer has to stay as it is; "" when it need not."""
    if _layers.made(module):
        return f"its weight is computed by {_layers.made(module)} before each call"
    weight = module._parameters.get("weight")
    others = [other for other in _layers.shared(model).get(id(weight), []) if other != name]
    if others:
        return f"its weight is that of {others[0]!r}, too, and stays one"
    tensor = next(module.parameters(recurse=False))
    if tensor.device.type not in ("cpu", "cuda"):
        return f"it is on {tensor.device}; blocks run on the CPU and on CUDA"
    if hasattr(tensor, "device_mesh"):
        return "its weight is in shards; build after gathering it"
    if _reads_weights(model, name):
        return "the module that it is in reads its weight instead of calling it"
    return ""


def _reads_weights(model, name: str) -> bool:
    """Is it a part of one of torch's modules that reads the weights of its parts instead of calling them?"""
    parents = [model.get_submodule(".".join(name.split(".")[:i])) for i in range(name.count(".") + 1)] if name else []
    return any(isinstance(p, (nn.MultiheadAttention, nn.TransformerEncoderLayer)) for p in parents)


def _budget(budget) -> tuple[float, float]:
    """Seconds and trials of "60s", "200trials" or a number of seconds."""
    if budget is None:
        return float("inf"), float("inf")
    text = str(budget)
    for unit, which in (("trials", 1), ("s", 0), ("", 0)):
        number = text.removesuffix(unit)
        if unit and number == text:
            continue
        try:
            value = float(number)
        except ValueError:
            break
        if value >= 0:
            return (float("inf"), value) if which else (value, float("inf"))
        break
    raise ValueError(f"tune: budget {budget!r} is none; write seconds, '60s' or '200trials'")


def _check(model, algo, max_trials, backward_weight, sample_grads) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"tune: a torch.nn.Module is needed, not {type(model).__name__}")
    if algo in LATER:
        raise ValueError(f"tune: algo {algo!r} is not there yet; {' and '.join(ALGORITHMS)} are, which try every way of a layer")
    if algo not in ALGORITHMS:
        raise ValueError(f"tune: no algorithm {algo!r}; there are {', '.join(ALGORITHMS)}")
    if max_trials is not None and not (type(max_trials) is int and max_trials >= 0):
        raise ValueError(f"tune: max_trials {max_trials!r} must be a number of at least 0")
    if not (isinstance(backward_weight, (int, float)) and 0 <= backward_weight < float("inf")):
        raise ValueError(f"tune: backward_weight {backward_weight!r} must be a number of at least 0")
    if sample_grads is not None and not backward_weight:
        raise ValueError("tune: sample_grads count with the time of the gradients; say how much that counts, backward_weight=1, or leave them out")


def tune(
    module: nn.Module,
    sample_inputs: Any = None,
    sample_grads: Any = None,
    algo: str = "grid",
    max_trials: int | None = None,
    budget: Any = None,
    backward_weight: float = 0,
    verbose: bool = False,
    remeasure: bool = False,
    _most: int | None = None,
    _only: set[str] | None = None,
) -> Config:
    """Times the ways to run each sparse layer of a module at the shapes that sample_inputs give it, and returns the configuration.

    sample_grads: gradients of outputs, where a layer's has their shape. algo: the order in which layers come, "grid" as in the model or "random";
    ways are few, so that every one of them is tried unless max_trials or budget (seconds, "60s", "200trials") end it: layers that were not reached
    get blocks by a rule, which their reason says. backward_weight: how much the time of the gradients counts (of attention, softmax and products
    with a pattern of their own wholly, unless it is 0). verbose prints what was found, line by line. remeasure: no time of before is believed.
    Nothing of the model is changed, but that transformers' Conv1D becomes an nn.Linear, as in sparsify_.

    >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    >>> config = tune(sparta.sparsify_(model, "4x1:0.75"), torch.ones(16, 64))
    >>> list(config)
    ['0', '2']
    >>> sparta.build(model, None, config)(torch.ones(16, 64)).shape
    torch.Size([16, 8])
    """
    _check(module, algo, max_trials, backward_weight, sample_grads)
    turn_(module)
    seconds, trials = _budget(budget)
    trials = min(trials, float("inf") if max_trials is None else max_trials)
    end = time.monotonic() + seconds
    wanted = {name: m for name, m in _layers.layers(module).items() if _wanted(m) and (_only is None or name in _only)}
    met = _meet(module, wanted, sample_inputs)
    grads = [g for g in (sample_grads if isinstance(sample_grads, (tuple, list)) else [sample_grads]) if isinstance(g, torch.Tensor)]
    known, config, order = Times(anew=remeasure), Config(), list(wanted)
    if algo == "random":
        random.Random(0).shuffle(order)
    for name in order:
        layer: Any = wanted[name]
        mask: Any = _layers.mask_of(layer)
        why = held(module, name, layer) or ("" if met[name] else "the example does not call it")
        if why:
            config[name] = {"block": "dense", "us": None, "dense_us": None, "reason": f"dense: {why}"}
            _tell(verbose, name, config)
            continue
        why = too_few_zeros(mask)
        if why:
            config[name] = {"block": "dense", "us": None, "dense_us": None, "reason": why}
            _tell(verbose, name, config)
            continue
        tried = ways(mask)[:_most]
        key = _key(mask, met[name], backward_weight)
        times = known.get(key) or {}
        if not all(word(way) in times for way in tried):
            if trials < len(tried) or time.monotonic() >= end:
                config[name] = _by_rule(mask)
                _tell(verbose, name, config)
                continue
            quiet = Quiet()
            times = _times(layer, mask, tried, met[name], backward_weight, grads, quiet)
            trials -= len(tried)
            known.put(key, times, quiet.disturbed())
        config[name] = _decide(tried, times, _said(met[name]), known.disturbed(key))
        if mask.is_cuda and config[name]["block"] != "dense":
            _add_points(config[name], layer, mask, met[name], backward_weight > 0)
        _tell(verbose, name, config)
    known.save()
    if _only is None:

        def take(ways: int) -> bool:
            nonlocal trials
            enough = trials >= ways and time.monotonic() < end
            trials -= ways * enough
            return enough

        _tune_operators(module, sample_inputs, config, backward_weight > 0, take, verbose)
    return {name: config[name] for name in (*wanted, *(set(config) - set(wanted)))}


def _wanted(module) -> bool:
    """Of a FormatLinear a schedule said what it runs in."""
    return isinstance(module, (nn.Linear, SparseLinear)) and not isinstance(module, FormatLinear) and _layers.mask_of(module) is not None


def _meet(module, wanted, inputs):
    if inputs is not None:
        return _layers.meetings(module, wanted, inputs)
    rows = lambda m: _layers.Meeting((TOKENS, m.in_features), (m.in_features, 1), next(m.parameters(recurse=False)).dtype)
    return {name: {rows(m): 1} for name, m in wanted.items()}


def _by_rule(mask) -> dict[str, Any]:
    blocks, reason = choose_blocks(mask)
    dense = name_of(blocks.block, blocks.shape) == "dense"
    return {"block": "dense" if dense else list(blocks.block), "us": None, "dense_us": None, "reason": reason}


def _tell(verbose: bool, name: str, config: Config) -> None:
    if verbose:
        print(f"{name}: {config[name]['reason']}")


def _tune_operators(module, inputs, config, backward, take, verbose) -> None:
    """Other sparse operators (attention, softmax, products) have their own ways: a copy of each is asked on what it meets, if take(ways) says so."""
    others = {name: m for name, m in module.named_modules() if isinstance(m, OperatorBase) and not _layers.is_packed(m)}
    if not others or inputs is None:
        return
    seen: dict[str, Any] = {}

    def hook(name):
        def note(module, args, kwargs):
            seen.setdefault(name, _in_order(module, args, kwargs))

        return note

    handles = [m.register_forward_pre_hook(hook(name), with_kwargs=True) for name, m in others.items()]
    try:
        _layers.run(module, inputs)
    finally:
        for handle in handles:
            handle.remove()
    for name, args in seen.items():
        twin = copy.deepcopy(others[name])
        if twin.get_sparse_indexes() is not None and not take(len(twin.configs())):
            continue  # as it is
        row = twin.tune(inputs=args, backward=backward) if args else {}
        if row:  # without, it has one way to run
            config[name] = {**row, "us": None, "dense_us": None, "reason": twin.reason}
            _tell(verbose, name, config)


def _in_order(module, args, kwargs) -> tuple:
    """What a module was called with, without names."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    if bound.kwargs:
        bound.apply_defaults()
    return () if bound.kwargs else bound.args


def quicken_(model: nn.Module, example_inputs: Any) -> None:
    """Lets masked layers train in blocks where forward and gradients together are faster so, at the shapes that the example gives them."""
    wanted: dict[str, Any] = {name: m for name, m in _layers.layers(model).items() if isinstance(m, MaskedLinear)}
    met = _layers.meetings(model, wanted, example_inputs)
    known = Times()
    for name, layer in wanted.items():
        layer.train_in(None)
        if held(model, name, layer) or not met[name] or layer.weight.device.type != "cpu" or too_few_zeros(layer.weight_mask):
            continue
        mask = layer.weight_mask
        block = choose(mask)
        key = "training form, " + _key(mask, met[name], 1)
        times = known.get(key)
        if times is None or word(block) not in times:
            quiet = Quiet()
            times = _training_times(layer, block, met[name], quiet)
            known.put(key, times, quiet.disturbed())
        if times[word(block)] <= MARGIN * times["dense"]:
            layer.train_in(block)
    known.save()


def _training_times(layer: MaskedLinear, block, met, quiet: Quiet) -> dict[str, float]:
    ways: list = ["dense", block]
    twins: list[Any] = [mask_(_raw(layer), layer.weight_mask.clone()) for _ in ways]
    total = [0.0, 0.0]
    for twin, way in zip(twins, ways):
        twin.train().train_in(None if way == "dense" else way)
    for meeting, count in met.items():
        x = _layers.example(meeting)
        took = race([_run(twin, meeting, x, None)[1] for twin in twins], SECONDS, quiet=quiet)
        total = [t + count * one for t, one in zip(total, took)]
    return {word(way): 1e6 * t for way, t in zip(ways, total)}


# ---------------------------------------------------------------- applying
def _pack(module: Any, block) -> SparseLinear:
    packed = SparseLinear(_raw(module), weight_mask=_layers.mask_of(module), format=block)
    packed.__dict__["pattern"] = getattr(module, "pattern", None)
    return packed


def _block(name: str, layer: Any, block) -> tuple[int, ...] | None:
    """The block that a row of a configuration says, a size or the text of a format; None: dense."""
    blocks = layer.get_sparse_indexes() if isinstance(layer, OperatorBase) else None
    shape = (layer.out_features, layer.in_features) if isinstance(layer, nn.Linear) else blocks.shape if blocks is not None else (0, 0)
    try:
        found = block_of(block, shape)
    except ValueError as error:
        raise ValueError(f"build: {name!r}: {error}") from None
    if found is None:
        raise ValueError(f"build: {name!r}: block {block!r} is none; give [height, width], a format as 'strip(4)', or 'dense'")
    return None if block == "dense" or found == shape else found


def _packed(module: nn.Module, config: Config, found: dict[str, Any]) -> dict[int, nn.Module]:
    """The packed layers, by id of those whose place they take. Whatever is wrong with a configuration is said here, with nothing changed."""
    if not isinstance(config, dict) or not all(isinstance(row, dict) and "block" in row for row in config.values()):
        raise TypeError("build: a configuration is what sparta.tune returns, {name: {'block': [4, 1]}}")
    new: dict[int, nn.Module] = {}
    for name, row in config.items():
        if name not in found:
            _layers.matching(list(_layers.layers(module)), name)
            raise ValueError(f"build: the layer {name!r} of the configuration is none that can be sparse")
        layer = found[name]
        _layers.need_weight("build", name, layer)
        block = _block(name, layer, row["block"])
        if isinstance(layer, OperatorBase) or block is None:
            continue
        if not isinstance(layer, nn.Linear) or _layers.mask_of(layer) is None:
            raise ValueError(f"build: {name!r} is a {type(layer).__name__} without a mask; sparsify it first")
        if layer is module:
            raise ValueError("build: the model is one layer, which cannot be replaced in place; use sparta.nn.SparseLinear(layer, weight_mask=...)")
        new[id(layer)] = _pack(layer, block)
    return new


def build(module: nn.Module, sample_inputs: Any = None, config: Config | None = None) -> nn.Module:
    """Puts each layer into the form that the configuration says, in place; without one, tunes first. Returns the module.

    With sample_inputs, layers whose weight the model itself reads (its dtype, say) stay dense: packed, it would be unpacked in every call.
    """
    if config is None:
        config = tune(module, sample_inputs)
    elif sample_inputs is not None:
        _layers.run(module, sample_inputs)
    found: dict[str, Any] = dict(module.named_modules())
    new = _packed(module, config, found)
    for name, row in config.items():
        layer = found[name]
        if isinstance(layer, OperatorBase):
            layer.build({"block": row["block"]})
            layer.reason = row.get("reason", layer.reason)
        if _layers.is_packed(layer) or isinstance(layer, nn.Linear):
            new.get(id(layer), layer).measured = {**row, "density": _layers.density(_layers.mask_of(layer))}
            _layers.settle_(layer)
        if id(layer) in new:
            new[id(layer)].bias = layer.bias  # the same Parameter: whatever holds it still does
    old = {id(new[id(layer)]): layer for layer in found.values() if id(layer) in new}
    _layers.replace(module, new)
    read = {} if sample_inputs is None else {key: old[key] for key in _layers.read_weights(module, sample_inputs) if key in old}
    for layer in read.values():
        why = "dense: the model reads its weight, not only its answer"
        layer.measured = {"block": "dense", "us": None, "dense_us": None, "reason": why, "density": _layers.density(_layers.mask_of(layer))}
    _layers.replace(module, read)
    return module
