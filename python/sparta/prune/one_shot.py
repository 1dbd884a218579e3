"""After training, with a little data: each layer is pruned once so that its output changes little on the inputs that it meets.

    magnitude   |w|, needs no data
    wanda       |w| times the norm of its input, compared within each row of blocks (Sun et al., 2023)
    sparsegpt   w^2 over what the inverse Hessian says that its loss costs; what stays makes up for what goes (Frantar and Alistarh, 2023)

Layer by layer in the order in which the model calls them. H = X'X is kept of as many layers at a time as fit into max_memory; later ones meet the
inputs that the pruned ones before them give. With U upper, H^-1 = U'U (by one factorisation: H = R R' with R upper, U = R^-1), column by column:

    err = (w - kept w) / U[i,i]          w[:, i:] -= err U[i, i:]

one by one within a few columns, by a product for what is right of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from .. import _layers
from ..masked import mask_
from ..patterns import Pattern, largest, needed
from ..stages import Report
from .fit import Time, fit
from .layers import prunable

__all__ = ["METHODS", "one_shot"]

METHODS = ("magnitude", "wanda", "sparsegpt")
_COLUMNS = 128  # of a step of SparseGPT
_FEW = 32  # of them one by one
_COMPARED = 16  # m of n:m up to which each is compared with each
_DAMP = 0.01  # of the mean of H's diagonal
_SAMPLE = 512  # inputs of a layer on which its error is measured


@dataclasses.dataclass
class _Seen:
    """What one layer met."""

    hessian: torch.Tensor | None  # X'X; None: the norms are enough
    squares: torch.Tensor
    sample: list[torch.Tensor] = dataclasses.field(default_factory=list)
    rows: int = 0

    def add(self, x: torch.Tensor) -> None:
        x = x.detach().reshape(-1, x.shape[-1]).float()
        if self.hessian is not None:
            self.hessian.addmm_(x.T, x)
        self.squares += x.square().sum(0)
        if self.rows < _SAMPLE:
            self.sample.append(x[: _SAMPLE - self.rows].clone())
        self.rows += len(x)


# ---------------------------------------------------------------- which stay
def _by_rows(pattern: Pattern, scores: torch.Tensor) -> torch.Tensor:
    """The pattern within each row of blocks: the same share of every one goes, but that what one rounds up the next need not give. Whole rows and
    columns are compared as they are."""
    if pattern.of or 0 in pattern.block:
        return pattern.stays(scores)
    score, weight = (x[:, :, 0] for x in pattern.blocks(scores))
    order = torch.sort(score, dim=1, stable=True).indices
    upto = weight.gather(1, order).cumsum(1).cpu()
    count = gone = 0
    cuts = []
    for line in upto:
        count += int(line[-1])
        need = needed(count, pattern.sparsity) - gone
        cuts.append(int(torch.searchsorted(line, need)) + 1 if need > 0 else 0)
        gone += int(line[cuts[-1] - 1]) if cuts[-1] else 0
    place = torch.arange(score.shape[1], device=scores.device)
    stays = torch.empty_like(score, dtype=torch.bool).scatter(1, order, place >= torch.tensor(cuts, device=scores.device)[:, None])
    return pattern.spread(stays[:, :, None], scores.shape)


def _so_many(pattern: Pattern, scores: torch.Tensor, need: int) -> torch.Tensor:
    """The blocks that stay when at least `need` elements go: of a panel, what all up to it must have lost less what went before."""
    return pattern.spread(largest(*pattern.blocks(scores), need), scores.shape)


def _factor(hessian: torch.Tensor) -> torch.Tensor:
    """U, upper, with H^-1 = U'U; more is added to the diagonal where rounding leaves H no longer positive."""
    mean = float(hessian.diagonal().mean())
    for damp in (_DAMP, 10 * _DAMP, 1.0):
        damped = hessian.flip(0, 1)
        damped.diagonal().add_(damp * mean)
        lower, failed = torch.linalg.cholesky_ex(damped)
        if not int(failed):
            return _inverse(lower.flip(0, 1))
    raise ValueError("its inputs cannot be factored; are they finite?")


def _inverse(upper: torch.Tensor) -> torch.Tensor:
    """Of an upper factor, in its place: by halves, so that nothing is computed below the diagonal."""
    n = len(upper)
    if n <= 2 * _COLUMNS:
        upper.copy_(torch.linalg.solve_triangular(upper, torch.eye(n, device=upper.device), upper=True))
        return upper
    a, b, d = upper[: n // 2, : n // 2], upper[: n // 2, n // 2 :], upper[n // 2 :, n // 2 :]
    right = torch.linalg.solve_triangular(d, b, upper=True, left=False)
    b.copy_(torch.linalg.solve_triangular(a, right.neg_(), upper=True))
    _inverse(a), _inverse(d)
    return upper


def _sparsegpt(weight: torch.Tensor, hessian: torch.Tensor, pattern: Pattern) -> tuple[torch.Tensor, torch.Tensor]:
    """The mask and the weight that goes with it. Columns lie as rows here, so that a step reads and writes them at a stretch."""
    dead = hessian.diagonal() == 0
    if bool(dead.any()):
        hessian = hessian.clone()
        hessian.diagonal()[dead] = 1
    w = weight.float().T.contiguous()
    w[dead] = 0
    u = _factor(hessian)
    cost = u.diagonal().square()[:, None]
    along = pattern.of if pattern.of and not pattern.along_out else 0
    whole = 0 in pattern.block and not pattern.of
    stays = torch.ones_like(w, dtype=torch.bool)
    if whole:
        stays = pattern.stays((w.square() / cost).T).T.contiguous()
    wide = along or max(pattern.block[1], 1)
    few = wide * max(_FEW // wide, 1)  # columns that are brought up to date one by one
    wide *= max(_COLUMNS // wide, 1)
    gone = 0
    for c in range(0, len(w), wide):
        part, square = w[c : c + wide], u[c : c + wide, c : c + wide]
        keep = stays[c : c + wide]
        if not along and not whole:
            worth = (part.square() / cost[c : c + wide]).T
            need = needed(w[: c + wide].numel(), pattern.sparsity) - gone
            keep.copy_((pattern.stays(worth) if pattern.of else _so_many(pattern, worth, need)).T)
            gone += keep.numel() - int(keep.count_nonzero())
        errors = torch.empty_like(part)
        for a in range(0, len(part), few):
            b = min(a + few, len(part))
            _columns(part[a:b], keep[a:b], errors[a:b], square[a:b, a:b], cost[c + a : c + b], pattern if along else None)
            part[b:].addmm_(square[a:b, b:].T, errors[a:b], alpha=-1)
        w[c + wide :].addmm_(u[c : c + wide, c + wide :].T, errors, alpha=-1)
    return stays.T.contiguous(), w.T.contiguous()


def _columns(part, keep, errors, square, cost, groups: Pattern | None) -> None:
    """A few columns, one after the other; what each loses moves the rest of them. groups: n:m, chosen when its turn comes."""
    scale = square.diagonal().reciprocal().tolist()
    for i, column in enumerate(part):
        if groups is not None and i % groups.of == 0:
            group = slice(i, i + groups.of)
            keep[group] = _of_each(part[group].square() / cost[group], groups)
        torch.mul(column.masked_fill(keep[i], 0), scale[i], out=errors[i])
        column.masked_fill_(~keep[i], 0)
        if i + 1 < len(part):
            part[i + 1 :].addr_(square[i, i + 1 :], errors[i], alpha=-1)


def _of_each(worth: torch.Tensor, pattern: Pattern) -> torch.Tensor:
    """Which of a group stay, (of it, rows): as pattern.stays has it. Few are compared with each other, which is faster than sorting them."""
    if len(worth) != pattern.of or len(worth) > _COMPARED:
        return pattern.stays(worth.T).T
    ahead = torch.zeros(worth.shape, dtype=torch.int8, device=worth.device)
    for i in range(len(worth) - 1):
        less = worth[i] <= worth[i + 1 :]  # of equals the first goes
        ahead[i] += less.sum(0, dtype=torch.int8)
        ahead[i + 1 :] += ~less
    return ahead < pattern.keep


# ---------------------------------------------------------------- what is met
def _batches(data: Any) -> list[Any]:
    """A tensor or a dict is one batch; a list or a loader has several."""
    if data is None:
        return []
    return [data] if isinstance(data, (torch.Tensor, dict)) or hasattr(data, "keys") else list(data)


def _watch(model: nn.Module, layers: dict[str, Any], batches: list[Any], see: Callable[[str, torch.Tensor], None]) -> None:
    """The inputs of the layers while the model runs on the data."""

    def hook(name: str):
        return lambda module, args: see(name, args[0])

    handles = [module.register_forward_pre_hook(hook(name)) for name, module in layers.items()]
    try:
        for batch in batches:
            _layers.run(model, batch)
    finally:
        for handle in handles:
            handle.remove()


def _order(model: nn.Module, layers: dict[str, Any], batches: list[Any]) -> list[str]:
    """As the model calls them; those that it does not in any batch are refused."""
    called: dict[str, None] = {}
    for batch in batches:
        if len(called) < len(layers):
            _watch(model, layers, [batch], lambda name, x: called.setdefault(name))
    return _reached(layers, called)


def _reached(layers: dict[str, Any], called: Iterable[str]) -> list[str]:
    for name in layers:
        if name not in called:
            raise ValueError(f"one_shot: the data does not reach {name!r}; leave it out with excluded, or prune it by magnitude")
    return list(called)


def _groups(names: list[str], layers: dict[str, Any], method: str, most: int) -> Iterable[list[str]]:
    """As many at a time as what is kept of them fits into memory."""
    group: list[str] = []
    size = 0
    for name in names:
        k = layers[name].weight.shape[1]
        need = 4 * k * ((k if method == "sparsegpt" else 1) + _SAMPLE)
        if group and size + need > most:
            yield group
            group, size = [], 0
        group.append(name)
        size += need
    if group:
        yield group


def _meet(model: nn.Module, layers: dict[str, Any], batches: list[Any], method: str) -> dict[str, _Seen]:
    """In the order in which the model calls them; without those that it does not."""
    met: dict[str, _Seen] = {}

    def see(name: str, x: torch.Tensor) -> None:
        if name not in met:
            k, device = layers[name].in_features, layers[name].weight.device
            hessian = torch.zeros(k, k, device=device) if method == "sparsegpt" else None
            met[name] = _Seen(hessian, torch.zeros(k, device=device))
        met[name].add(x)

    _watch(model, layers, batches, see)
    for name, seen in met.items():
        if not bool(torch.isfinite(seen.squares).all()):
            raise ValueError(f"one_shot: {name!r} meets inputs that are not finite")
    return met


# ---------------------------------------------------------------- pruning
def _prune(name: str, module: Any, method: str, pattern: Pattern, seen: _Seen | None) -> dict[str, Any]:
    """One layer; its row of the report."""
    weight = _layers.weight_of(module)
    made = weight
    if method == "magnitude" or seen is None:
        stays = pattern.mask(weight)
    elif method == "wanda":
        stays = _by_rows(pattern, weight.double().abs() * seen.squares.double().sqrt())
    else:
        try:
            stays, made = _sparsegpt(weight, seen.hessian, pattern)  # type: ignore[arg-type]
        except ValueError as error:
            raise ValueError(f"one_shot: {name!r}: {error}") from None
    left = made.to(weight.dtype).masked_fill(~stays, 0)
    return {
        "name": name,
        "shape": list(weight.shape),
        "pattern": str(pattern),
        "density": float(stays.double().mean()),
        "norm_kept": float(weight[stays].double().norm() / weight.double().norm().clamp(min=1e-300)),
        "error": _error(seen, weight, left),
        "mask": stays,
        "weight": left,
    }


def _error(seen: _Seen | None, weight: torch.Tensor, left: torch.Tensor) -> float | None:
    """|X (W - W')| / |X W| on a sample of the inputs."""
    if seen is None or not seen.sample:
        return None
    x = torch.cat(seen.sample)
    lost, whole = (torch.linalg.vector_norm(x @ w.float().T, dtype=torch.float64) for w in (weight - left, weight))
    return float(lost / whole.clamp(min=1e-300))


def _commit(model: nn.Module, found: dict[str, Any], row: dict[str, Any], pattern: Pattern) -> None:
    stays, left = row.pop("mask"), row.pop("weight")
    others = next((names for names in _layers.shared(model).values() if row["name"] in names), [row["name"]])
    for other in others:
        _layers.settle_(found[other])
        mask_(found[other], stays, str(pattern), other)
    with torch.no_grad():
        found[row["name"]].weight.copy_(left)


def one_shot(
    model: nn.Module,
    data: Any = None,
    method: str = "magnitude",
    pattern: str | Pattern | Iterable[str] | None = None,
    *,
    excluded: Any = (),
    max_memory: int = 1 << 30,
    progress: Callable[[int, int, str], None] | None = None,
    target_latency: str | float | None = None,
    target_speedup: float | None = None,
    example_inputs: Any = None,
    threads: int = 0,
    times: Mapping[tuple[str, str | None], float] | None = None,
) -> Report:
    """Prunes a trained model in place and gives it masks (sparta.masked). Returns a row for each layer: density, norm_kept, error of its output.

    data: inputs of the model, as a tensor, a dict of named ones, or a list or loader of such; magnitude needs none. wanda and sparsegpt are for
    linear layers. excluded: globs of layers to leave. progress(done, all, layer) is called after each. What is wrong with weights is found before any
    is changed. pattern: 2:4 where nothing is said.

    target_latency ("5ms") or target_speedup (4): each linear layer takes the pattern, and the sparsity, by which the compiled model runs within that
    time on example_inputs (the first batch of data where they are not given) and loses least. pattern is then a list, "4x1" standing for several
    sparsities (4x1 and 2:4); threads: of the runs. The report's `exchange` has the times. Errors of layers are found by magnitude, with data by what
    they meet; SparseGPT's by Wanda's choice. times: {(layer, pattern or None): microseconds} instead of measuring.

    Where a later layer meets inputs that are not finite, those that did not fit into max_memory beside it were pruned by then.

    >>> model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    >>> print([row["density"] for row in one_shot(model, torch.randn(64, 16), "sparsegpt", "2:4")])
    [0.5, 0.5]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"one_shot: a torch.nn.Module is needed, not {type(model).__name__}")
    if method not in METHODS:
        raise ValueError(f"one_shot: method {method!r} is not known; there are {', '.join(METHODS)}")
    batches = _batches(data)
    if method != "magnitude" and not batches:
        raise ValueError(f"one_shot: {method} looks at what layers meet; give data")
    excluded = [excluded] if isinstance(excluded, str) else excluded
    exchange = None
    if target_latency is not None or target_speedup is not None:
        time = _time(target_latency, target_speedup, pattern, threads)
        layers = prunable("one_shot", model, None, (), excluded, ("Linear",))
        inputs = batches[0] if example_inputs is None and batches else example_inputs
        exchange = fit(model, inputs, time, layers, _Errors(model, layers, batches, method, max_memory), times)
        patterns = exchange.patterns
        layers = {name: m for name, m in layers.items() if name in patterns}
    else:
        if threads or times is not None or example_inputs is not None:
            raise ValueError("one_shot: example_inputs, threads and times are for target_latency and target_speedup; leave them out, or give one")
        one = _pattern(pattern, method)
        layers = prunable("one_shot", model, one, (), excluded, ("Linear",) if method != "magnitude" else ("Linear", "Conv2d"))
        patterns = dict.fromkeys(layers, one)
    rows = _prune_all(model, layers, patterns, batches, method, max_memory, progress)
    columns = {"layer": "name", "shape": "shape", "pattern": "pattern", "density": "density", "norm kept": "norm_kept", "error": "error"}
    report = Report(rows, columns)
    report.exchange = exchange
    return report


def _pattern(pattern: Any, method: str) -> Pattern:
    one = Pattern.parse("2:4" if pattern is None else pattern)
    if one.below is not None and method != "magnitude":
        raise ValueError(f"one_shot: {one} is a magnitude; {method} needs a pattern such as 4x1:0.9 or 2:4")
    return one


def _time(latency: Any, speedup: Any, patterns: Any, threads: int) -> Time:
    try:
        return Time.of(latency, speedup, patterns, threads)
    except ValueError as error:
        raise ValueError(f"one_shot: {error}") from None


class _Errors:
    """What a layer loses by a pattern: of its output on data, without data the share of its norm."""

    def __init__(self, model: nn.Module, layers: dict[str, Any], batches: list[Any], method: str, most: int):
        self.layers, self.met = layers, {}
        self.method = method if method == "magnitude" else "wanda"
        if batches:
            size = sum(4 * m.in_features * (1 + _SAMPLE) for m in layers.values())
            if size > most:
                raise ValueError(f"one_shot: what layers meet takes {size >> 20} MiB, more than max_memory; raise it, or give no data")
            self.met = _meet(model, layers, batches, self.method)

    def __call__(self, name: str, pattern: str) -> float | None:
        row = _prune(name, self.layers[name], self.method, Pattern.parse(pattern), self.met.get(name))
        if not row["density"]:
            return None
        lost = max(1 - row["norm_kept"] ** 2, 0.0) ** 0.5
        return lost if row["error"] is None else row["error"]


def _prune_all(model, layers, patterns, batches, method, most, progress) -> list[dict[str, Any]]:
    found: dict[str, Any] = _layers.layers(model)
    _check(layers, patterns)
    names, met = list(layers), {}
    together = len(list(_groups(names, layers, method, most))) == 1 and all(isinstance(m, nn.Linear) for m in layers.values())
    if batches and together:  # what they meet says their order, too
        met = _meet(model, layers, batches, method)
        names = _reached(layers, met)
    elif batches:
        names = _order(model, layers, batches)
    rows: list[dict[str, Any]] = []
    for group in _groups(names, layers, method, most):
        if batches and not together:
            met = _meet(model, {name: layers[name] for name in group if isinstance(layers[name], nn.Linear)}, batches, method)
        for name in group:
            rows.append(_prune(name, layers[name], method, patterns[name], met.pop(name, None)))
            _commit(model, found, rows[-1], patterns[name])
            if progress:
                progress(len(rows), len(names), name)
    return rows


def _check(layers: dict[str, Any], patterns: dict[str, Pattern]) -> None:
    """What can be wrong with weights, before any is changed. Blocks go until enough went, whatever the method: as long as all but the largest are
    enough, one stays."""
    for name, module in layers.items():
        weight, pattern = _layers.weight_of(module), patterns[name]
        if not bool(torch.isfinite(weight).all()):
            raise ValueError(f"one_shot: the weight of {name!r} is not finite")
        if pattern.of:
            continue
        sizes = pattern.sizes(weight.shape)
        stays = pattern.mask(weight) if pattern.below is not None else largest(sizes, sizes, needed(weight.numel(), pattern.sparsity))
        if not bool(stays.any()):
            raise ValueError(f"one_shot: {name!r} would become empty at {pattern}; lower the sparsity, or leave it out with excluded")
