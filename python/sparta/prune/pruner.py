"""The pruner: masks that grow along a schedule while a model trains. It owns no weights and no second kind of mask; the masks are sparta.masked's.

    pruner = prepare_pruning(model, config, optimizer)       and the training loop stays as it is

or by hand, in the places where a loop has them:

    pruner = Pruner(model, config)
    pruner.on_train_begin()
    for batch in data:
        pruner.on_step_begin()                               masks grow where the schedule says so
        loss(model(batch)).backward()
        pruner.on_before_optimizer_step()                    gradients are looked at; group lasso
        optimizer.step()
        pruner.on_after_optimizer_step()                     what is pruned is 0
    pruner.on_train_end()

A step of the schedule is a step of the optimizer. All that can be wrong is found before anything is changed: a config that contradicts itself, layers
that would be empty, gradients that are not finite. Several processes (DDP, FSDP2) look at the same gradients and whole weights, so that they choose
the same masks without a word between them.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .. import _layers
from .._conv1d import turn_
from ..masked import Masked, keep_, local, mask_, part_of
from ..patterns import Pattern
from ..stages import Report
from . import schedules
from .config import Config, Settings, contradictions, read
from .criteria import CRITERIA
from .distill import Distiller
from .fit import Exchange, fit
from .layers import prunable
from .units import Unit, check, choose, find_heads, together

__all__ = ["Pruner", "prepare_pruning"]

_TINY = 1e-12  # norm of a block below which group lasso leaves it alone


def _whole(x: Any) -> torch.Tensor:
    """All of it, where FSDP2 holds a shard."""
    return x.full_tensor() if hasattr(x, "full_tensor") else x


def _skips(optimizer: Any) -> bool:
    """A fused optimizer under a GradScaler that found Inf: step() is called, and does nothing."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(float(found))


@dataclasses.dataclass
class _Layer:
    name: str
    modules: list[Any]  # several where a weight is tied
    scores: torch.Tensor | None = None  # what a criterion has seen
    kept: torch.Tensor | None = None  # the weight where it is pruned, as long as it may come back

    @property
    def module(self) -> Any:
        return self.modules[0]

    def dense(self) -> torch.Tensor:
        """The weight, with what was pruned as it was."""
        weight = _whole(self.module.weight).detach()
        return weight if self.kept is None else torch.where(self.module.weight_mask, weight, self.kept.to(weight))

    def seen(self) -> torch.Tensor | None:
        """The scores, where the weight is now."""
        if self.scores is not None:
            self.scores = self.scores.to(self.module.weight.device)
        return self.scores

    def apply(self, mask: torch.Tensor, pattern: str | None) -> None:
        dense = self.dense() if self.kept is not None else None
        for module in self.modules:
            mask_(module, mask, pattern, self.name)
        if dense is not None:
            with torch.no_grad():
                local(self.module.weight).copy_(part_of(dense.masked_fill(~mask, 0), self.module.weight))
            self.kept = dense


@dataclasses.dataclass
class _Set:
    """Layers with the same settings."""

    settings: Settings
    units: list[Unit]
    layers: list[_Layer]
    text: str

    def may_return(self, step: int) -> bool:
        return step < self.settings.regrow_until

    def masks(self, step: int) -> dict[str, torch.Tensor] | None:
        """Of the layers when this step begins; None: they stay as they are."""
        s = self.settings
        sparsity = schedules.sparsity(s, step)
        if not schedules.due(s, step) or (sparsity <= 0 and not s.pattern.of):
            return None
        criterion = CRITERIA[s.criterion]
        scores = {layer.name: layer.seen() if criterion.gradient else layer.dense().abs() for layer in self.layers}
        if any(x is None for x in scores.values()):
            missing = next(name for name, x in scores.items() if x is None)
            raise ValueError(f"prune: {missing!r} had no gradient until step {step}, and pruning_type {s.criterion} looks at it; does it train?")
        kept = None if step <= s.regrow_until and s.regrow_until else {layer.name: layer.module.weight_mask for layer in self.layers}
        finite = together([torch.isfinite(x).all() for x in scores.values()])  # type: ignore[arg-type]
        for layer, sound in zip(self.layers, finite):
            if not sound:
                raise ValueError(f"prune: the weight of {layer.name!r} is not finite at step {step}; nothing was pruned")
        least = s.least * sparsity / s.target if s.target else 0.0
        return choose(self.units, scores, kept, criterion, sparsity, s.scope, (least, max(s.most, s.target)))  # type: ignore[arg-type]


class Pruner:
    """See the head of this file. `teacher` is the dense model for distillation; without one it is a copy of the model as it is now. example_inputs
    are what a target time is measured on, by rank 0 for all; `exchange` then says what was chosen. times: see sparta.prune.fit. patterns: those of
    the layers that a target time chose in another run, state_dict()["patterns"]; nothing is measured."""

    def __init__(
        self,
        model: nn.Module,
        config: Any,
        teacher: nn.Module | None = None,
        example_inputs: Any = None,
        times: Any = None,
        patterns: Mapping[str, str] | None = None,
    ):
        if not isinstance(model, nn.Module):
            raise TypeError(f"prune: a torch.nn.Module is needed, not {type(model).__name__}")
        self.model, self.config = model, read(config)
        self.exchange: Exchange | None = None
        self._patterns: dict[str, str] | None = None
        if self.config.time is not None:
            if patterns is None:
                self.exchange = _measured(model, self.config, example_inputs, times)
                patterns = {name: str(pattern) for name, pattern in self.exchange.patterns.items()}
            self._patterns = dict(patterns)
            self.config = _of_patterns(self.config, self._patterns)
        elif example_inputs is not None or times is not None or patterns is not None:
            raise ValueError("prune: example_inputs, times and patterns are for target_latency and target_speedup, and the config has none of them")
        self.step = 0
        self._attached: list[Any] = []
        self._began = -1  # the step for which masks were made
        self._sets = _sets(model, self.config)
        self._dry_run()
        self.distiller = Distiller(model, self.config, teacher) if self.config.distill else None
        for part in self._sets:
            for layer in part.layers:
                _settle(layer)
                if part.settings.regrow_until:
                    layer.kept = _whole(layer.module.weight).detach().clone()
        self._open()

    def _dry_run(self) -> None:
        """Would a layer be empty at the target?"""
        for part in self._sets:
            s = part.settings
            check(part.units, s.target, s.scope, (s.least, max(s.most, s.target)))

    @property
    def layers(self) -> dict[str, Any]:
        """The masked modules by name."""
        return {layer.name: layer.module for part in self._sets for layer in part.layers}

    # ---------------------------------------------------------------- the seed's functions
    @torch.no_grad()
    def prune_gradient_with_magnitude(self) -> None:
        """The gradient of what is pruned becomes 0."""
        for layer in self._all():
            for module in layer.modules:
                grad = module.weight.grad
                if grad is not None:
                    keep_(local(grad), part_of(module.weight_mask, grad))

    @torch.no_grad()
    def group_lasso_regularize(self, alpha: float | None = None) -> None:
        """Adds alpha w / |w of its block| to the gradient: the weight of small blocks goes to 0. Without alpha: reg_coeff of the config."""
        self._lasso(alpha, None)

    def _lasso(self, alpha: float | None, scale: torch.Tensor | None) -> None:
        """scale: what the gradients are multiplied by until a fused optimizer takes it out."""
        for part in self._sets:
            rate = part.settings.lasso if alpha is None else float(alpha)
            if not rate:
                continue
            if part.settings.pattern.of or part.settings.heads:
                raise ValueError(f"prune: group lasso needs blocks; pattern {part.text} has none")
            for unit, layer in zip(part.units, part.layers):
                grad = layer.module.weight.grad
                if grad is not None:
                    weight = _whole(layer.module.weight).detach()
                    mean, count = unit.pattern.blocks(weight.square())
                    norm = unit.pattern.spread((mean * count).sqrt(), weight.shape).to(weight.dtype)
                    push = torch.where(norm > _TINY, weight / norm.clamp(min=_TINY), 0)
                    push = push if scale is None else push * scale.to(push.device)
                    local(grad).add_(part_of(push, grad), alpha=rate)

    def prune_weights_with_magnitude(self) -> None:
        """After the optimizer: what is pruned is 0, the step is counted, and masks grow by magnitude where the schedule says so."""
        for part in self._sets:
            if part.settings.criterion != "magnitude":
                raise ValueError(f"prune: pruning_type is {part.settings.criterion}; call on_after_optimizer_step, or say magnitude")
        self._by_hand(self._next)

    # ---------------------------------------------------------------- callbacks
    def on_train_begin(self) -> None:
        self._by_hand(self._begin)

    def on_epoch_begin(self, epoch: int | None = None) -> None:
        """Schedules count steps; here for loops that call it."""

    def on_step_begin(self, step: int | None = None) -> None:
        self._by_hand(self._begin)

    def on_before_optimizer_step(self) -> None:
        self._by_hand(self._before)

    def on_after_optimizer_step(self) -> None:
        self._by_hand(self._after)

    def on_epoch_end(self) -> None:
        """Schedules count steps; here for loops that call it."""

    def on_train_end(self) -> None:
        """Warns where training ended before the schedule did; the hooks go."""
        if not self._attached:
            self._begin()
        self.detach()
        for layer in self._all():
            for module in layer.modules:
                module.open = False
        if self.distiller is not None:
            self.distiller.remove()
        late = [part.settings for part in self._sets if self.step < part.settings.end]
        if late:
            warnings.warn(
                f"prune: training ended at step {self.step}, before end_step {late[0].end}: sparsity is {self.sparsity():.3f}, "
                f"the target {late[0].target:g}",
                stacklevel=2,
            )

    def _by_hand(self, what) -> None:
        """Where an optimizer calls, a loop that calls too changes nothing."""
        if not self._attached:
            what()

    # ---------------------------------------------------------------- an optimizer that calls
    def attach(self, optimizer: Any) -> Pruner:
        """From now on its steps are those of the schedule."""
        while not hasattr(optimizer, "register_step_pre_hook") or isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
            inner = getattr(optimizer, "optimizer", None)
            if inner is None:
                raise TypeError(f"prune: a torch.optim optimizer is needed, not {type(optimizer).__name__}; or call the on_ functions by hand")
            optimizer = inner
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not any(id(layer.module.weight) in held for layer in self._all()):
            raise ValueError("prune: the optimizer has none of the pruned weights; make it of model.parameters()")
        self.detach()
        self._begin()
        self._attached = [
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(lambda o, *_: None if _skips(o) else self._next()),
        ]
        self._open()
        return self

    def _before_step(self, optimizer: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict] | None:
        """A closure makes the gradients within the step: they are looked at after it. args begin with the optimizer."""
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            self._before(optimizer)
            return None

        def wrapped():
            loss = closure()
            self._before(optimizer)
            return loss

        if "closure" in kwargs:
            return args, {**kwargs, "closure": wrapped}
        return (args[0], wrapped, *args[2:]), kwargs

    def detach(self) -> None:
        for handle in self._attached:
            handle.remove()
        self._attached = []

    # ---------------------------------------------------------------- the steps
    def _all(self) -> list[_Layer]:
        return [layer for part in self._sets for layer in part.layers]

    def _begin(self) -> None:
        if self._began == self.step:
            return
        made = [(part, part.masks(self.step)) for part in self._sets]
        for part, masks in made:
            for layer in part.layers if masks else ():
                text = None if part.settings.heads else part.text
                layer.apply(masks[layer.name].to(layer.module.weight.device), text)  # type: ignore[index]
        self._began = self.step
        self._open()

    @torch.no_grad()
    def _before(self, optimizer: Any = None) -> None:
        if _skips(optimizer):
            return
        scale = getattr(optimizer, "grad_scale", None)
        self._finite()
        for part in self._sets:
            see = CRITERIA[part.settings.criterion].see
            if see is None or self.step >= part.settings.end:
                continue
            for layer in part.layers:
                grad = layer.module.weight.grad
                if grad is not None:
                    weight, whole = layer.dense().float(), _whole(grad).float()
                    whole = whole if scale is None else whole / scale
                    before = layer.seen()
                    before = torch.zeros_like(weight) if before is None else before
                    layer.scores = see(before, weight, whole, part.settings.momentum)
        if any(module.open for layer in self._all() for module in layer.modules):
            self.prune_gradient_with_magnitude()
        self._lasso(None, scale)

    def _finite(self) -> None:
        grads = [(layer.name, layer.module.weight.grad) for layer in self._all() if layer.module.weight.grad is not None]
        norms = [_whole(torch.linalg.vector_norm(grad)) for _, grad in grads]
        for (name, _), norm in zip(grads, together(norms)):
            if not math.isfinite(norm):
                raise ValueError(f"prune: the gradient of {name!r} is not finite at step {self.step}; the step was not taken, the model is as it was")

    def _after(self) -> None:
        """torch's optimizers have set what is pruned to 0 by now (sparta.masked); one that calls by hand may be another."""
        if not self._attached:
            for layer in self._all():
                for module in layer.modules:
                    module.zero_pruned_()
        self.step += 1

    def _next(self) -> None:
        self._after()
        self._begin()

    def _open(self) -> None:
        """Gradients of what is pruned are needed as long as a criterion looks at them and it may come back."""
        for part in self._sets:
            open = part.may_return(self.step) and CRITERIA[part.settings.criterion].gradient
            for layer in part.layers:
                if part.settings.regrow_until and not part.may_return(self.step):
                    layer.kept = None
                for module in layer.modules:
                    module.open = open

    # ---------------------------------------------------------------- what came of it
    def sparsity(self) -> float:
        """Of the pruned layers together."""
        masks = [layer.module.weight_mask for layer in self._all()]
        return 1 - sum(int(mask.sum()) for mask in masks) / max(sum(mask.numel() for mask in masks), 1)

    def report(self) -> Report:
        """A row for each layer: name, shape, pattern, criterion and density."""
        rows = [
            {
                "name": layer.name,
                "shape": list(layer.module.weight.shape),
                "pattern": part.text,
                "criterion": part.settings.criterion,
                "density": layer.module.density(),
            }
            for part in self._sets
            for layer in part.layers
        ]
        return Report(rows, {"layer": "name", "shape": "shape", "pattern": "pattern", "criterion": "criterion", "density": "density"})

    def distill(self, loss: torch.Tensor, output: Any) -> torch.Tensor:
        """The loss with the dense model's share in it, for models whose output has no loss of its own (transformers' have)."""
        if self.distiller is None:
            raise ValueError("prune: the config says nothing of distillation; give distillation: {alpha: 0.5, temperature: 2}")
        return self.distiller.mixed(loss, output)

    def state_dict(self) -> dict[str, Any]:
        """Beside those of the model (which has the masks) and of the optimizer: all that a run needs to go on as if it had not stopped."""
        copied = lambda x: None if x is None else x.clone()  # scores change in place
        layers = {layer.name: {"scores": copied(layer.scores), "kept": copied(layer.kept)} for layer in self._all()}
        return {"version": 1, "step": self.step, "began": self._began, "layers": layers, "patterns": self._patterns}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """After those of the model and the optimizer."""
        if not isinstance(state, dict) or state.get("version") != 1 or not isinstance(state.get("layers"), dict):
            raise ValueError("prune: this is no state of a Pruner")
        if state.get("patterns") != self._patterns:
            raise ValueError(
                f"prune: the state has patterns {state.get('patterns')}, and this pruner {self._patterns}: a target time is measured anew each time; "
                "make the pruner with patterns=state['patterns']"
            )
        mine = {layer.name: layer for layer in self._all()}
        if set(mine) != set(state["layers"]):
            other = sorted(set(mine) ^ set(state["layers"]))[0]
            raise ValueError(f"prune: the state is of another config or model: only one of them prunes {other!r}")
        for name, layer in mine.items():
            for x in state["layers"][name].values():
                if x is not None and tuple(x.shape) != tuple(layer.module.weight.shape):
                    raise ValueError(f"prune: the state has {tuple(x.shape)} for {name!r}, whose weight is {tuple(layer.module.weight.shape)}")
        self.step, self._began = int(state["step"]), int(state["began"])
        for name, layer in mine.items():
            saved = state["layers"][name]
            device = layer.module.weight.device
            layer.scores, layer.kept = (None if x is None else x.to(device, copy=True) for x in (saved["scores"], saved["kept"]))
        self._open()


def prepare_pruning(
    model: nn.Module,
    config: Any,
    optimizer: Any = None,
    teacher: nn.Module | None = None,
    example_inputs: Any = None,
    times: Any = None,
    patterns: Mapping[str, str] | None = None,
) -> Pruner:
    """A pruner whose callbacks the optimizer calls: a training loop needs no change. Without an optimizer, pruner.attach(optimizer) follows.

    >>> model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    >>> optimizer = torch.optim.SGD(model.parameters(), 0.1)
    >>> pruner = prepare_pruning(model, {"pattern": "4x1", "target_sparsity": 0.5, "end_step": 2}, optimizer)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     model(torch.ones(2, 8)).sum().backward()
    ...     optimizer.step()
    >>> pruner.sparsity()
    0.5
    """
    pruner = Pruner(model, config, teacher, example_inputs, times, patterns)
    return pruner if optimizer is None else pruner.attach(optimizer)


# ---------------------------------------------------------------- which layers
def _sets(model: nn.Module, config: Config) -> list[_Set]:
    found: dict[str, Any] = _layers.layers(turn_(model))
    taken: dict[str, int] = {}
    made = []
    for i, settings in enumerate(config.sets):
        pattern = None if settings.heads else settings.pattern
        skip = () if settings.names else taken
        names = list(prunable("prune", model, pattern, settings.names, settings.excluded, settings.types, skip))
        for name in names:
            if name in taken:
                raise ValueError(f"prune: {name!r} is named by two of pruning_configs, or its weight is by another name; let one of them name it")
        units = _units(model, found, names, settings)
        names = [name for unit in units for name in unit.shapes]
        shared = {other for others in _layers.shared(model).values() if set(others) & set(names) for other in others}
        taken.update(dict.fromkeys({*names, *shared}, i))
        layers = [_Layer(name, [found[name], *_tied(model, found, name)]) for name in names]
        made.append(_Set(settings, units, layers, f"heads:{settings.target:g}" if settings.heads else str(settings.pattern)))
    return made


def _measured(model: nn.Module, config: Config, example_inputs: Any, times: Any) -> Exchange:
    """What a target time chooses. Of several processes the first measures, and the others are told: times differ, and masks must not."""
    dist = torch.distributed
    if not (dist.is_available() and dist.is_initialized()):
        return _choose(model, config, example_inputs, times)
    said: list[Any] = [None]
    error: Exception | None = None
    if dist.get_rank() == 0:
        try:
            said[0] = _choose(model, config, example_inputs, times)
        except Exception as caught:
            error, said[0] = caught, str(caught)
    dist.broadcast_object_list(said, 0)
    if error is not None:
        raise error
    if isinstance(said[0], str):
        raise ValueError(f"prune: rank 0 could not choose patterns: {said[0]}")
    return said[0]


def _choose(model: nn.Module, config: Config, example_inputs: Any, times: Any) -> Exchange:
    """Of a time: the patterns that layers take. What a layer loses is the share of its norm."""
    template = config.sets[0]
    chosen = prunable("prune", model, None, template.names, template.excluded, ("Linear",))
    if any(hasattr(module.weight, "full_tensor") for module in chosen.values()):
        raise ValueError("prune: a target time is measured on a whole model; before fully_shard make a pruner of a copy, whose state has patterns")

    def lost(layer: str, pattern: str) -> float | None:
        weight = chosen[layer].weight.detach()
        mask = Pattern.parse(pattern).mask(weight)
        if not bool(mask.any()):
            return None
        kept = weight[mask].double().norm() / weight.double().norm().clamp(min=1e-300)
        return float((1 - kept.square()).clamp(min=0).sqrt())

    exchange = fit(model, example_inputs, config.time, chosen, lost, times)  # type: ignore[arg-type]
    if not exchange.patterns:
        raise ValueError(
            f"prune: the model runs in {exchange.dense_ms:.3g} ms dense, and {exchange.target_ms:.3g} are wanted: nothing is to be pruned"
        )
    return exchange


def _of_patterns(config: Config, patterns: Mapping[str, str]) -> Config:
    """Layers of one pattern are a set of their own."""
    if not patterns:
        raise ValueError("prune: patterns: none is given; leave them out, and a target time chooses them")
    template = config.sets[0]
    by: dict[str, list[str]] = {}
    for layer, text in patterns.items():
        by.setdefault(text, []).append(layer)
    sets = []
    for text, layers in by.items():
        pattern = Pattern.parse(text)
        once: dict[str, Any] = {"decay": "oneshot", "end": template.start} if pattern.of else {}
        sets.append(dataclasses.replace(template, pattern=pattern, names=tuple(layers), excluded=(), scope="local", **once))
        contradictions(sets[-1], {})
    return dataclasses.replace(config, sets=tuple(sets), time=None)


def _tied(model: nn.Module, found: dict[str, Any], name: str) -> list[Any]:
    """The other modules that hold its weight."""
    others = next((names for names in _layers.shared(model).values() if name in names), [])
    for other in others:
        if other not in found:
            raise TypeError(f"prune: {other!r} shares the weight of {name!r} and has no masked form; leave the weight out with excluded_op_names")
    return [found[other] for other in others if other != name]


def _units(model: nn.Module, found: dict[str, Any], names: list[str], s: Settings) -> list[Unit]:
    if s.heads:
        return find_heads(model, set(names), s.pattern)
    return [Unit(name, {name: tuple(found[name].weight.shape)}, s.pattern) for name in names]


def _settle(layer: _Layer) -> None:
    """Masked, with all that is there."""
    for module in layer.modules:
        _layers.settle_(module)
        if not isinstance(module, Masked):
            mask_(module, torch.ones(tuple(module.weight.shape), dtype=torch.bool), None, layer.name)
