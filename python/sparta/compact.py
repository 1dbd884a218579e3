"""compact_: channels, heads and neurons that do nothing leave a PyTorch model itself; the answer stays.

    sparta.sparsify_(model, {"*.intermediate.dense": "rows:0.5"})
    print(sparta.compact_(model, example_inputs))

The model is written as ONNX, propagation (docs/propagation.md) finds what is zero, constant or not needed, and its Parameters are cut accordingly:
of nn.Linear, nn.Conv2d, nn.BatchNorm and nn.Embedding. What a channel gave that was constant goes into the bias of the layer behind it. The smaller
model is compared with the given one on example_inputs before anything of it is changed; layers that hang together are cut together or not at all.
"""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from typing import Any

import numpy as np
import torch
from torch import nn

from . import _layers
from ._export import LARGEST, _need_exporter, export, plain, size
from .masked import Masked
from .stages import unbuild_

__all__ = ["Compaction", "compact_"]

RTOL = 1e-4  # of the largest element of an output

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_WEIGHTED = (nn.Linear, nn.Conv2d, nn.Embedding)


class Compaction(list):
    """Rows {"name", "before", "after", "reason"} of the Parameters that became smaller, and of those that could not; print shows a table."""

    parameters_before: int = 0
    parameters_after: int = 0

    def __str__(self) -> str:
        text = lambda shape: "x".join(map(str, shape))
        lines = [f"{r['name']}  {text(r['before'])} -> {text(r['after'])}" + (f"  left: {r['reason']}" if r["reason"] else "") for r in self]
        return "\n".join([*lines, f"{self.parameters_after} of {self.parameters_before} parameters"])


@dataclasses.dataclass
class _Change:
    """What is left of one module: outputs and inputs, or channels; None: all of them."""

    name: str
    outputs: torch.Tensor | None = None
    inputs: torch.Tensor | None = None
    groups: int | None = None
    bias: torch.Tensor | None = None  # what cut inputs gave, which was constant

    def marks(self) -> set[tuple]:
        return {tuple(kept.tolist()) for kept in (self.outputs, self.inputs) if kept is not None}


# ---------------------------------------------------------------- cutting one module
def _cut(tensor: Any, axis: int, kept: torch.Tensor | None) -> Any:
    if tensor is None or kept is None:
        return tensor
    cut = tensor.detach().index_select(axis, kept.to(tensor.device)).clone()
    return nn.Parameter(cut, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else cut


def _shrink(module: Any, change: _Change) -> None:
    if isinstance(module, _BATCH_NORMS):
        for name in ("weight", "bias", "running_mean", "running_var"):
            setattr(module, name, _cut(getattr(module, name), 0, change.outputs))
        module.num_features = len(change.outputs)  # type: ignore[arg-type]
        return
    added = change.bias
    for name in ("weight", "weight_mask"):
        if hasattr(module, name):
            setattr(module, name, _cut(_cut(getattr(module, name), 0, change.outputs), 1, change.inputs))
    if isinstance(module, Masked):
        module._mask_changed()
    if isinstance(module, nn.Embedding):
        module.num_embeddings, module.embedding_dim = module.weight.shape
        return
    if added is not None:
        bias = added if module.bias is None else module.bias.detach() + added.to(module.bias)
        module.bias = nn.Parameter(bias.to(module.weight), module.weight.requires_grad)
    module.bias = _cut(module.bias, 0, change.outputs)
    if isinstance(module, nn.Linear):
        module.out_features, module.in_features = module.weight.shape
        return
    if change.groups is not None:
        module.groups = change.groups
    module.out_channels, module.in_channels = module.weight.shape[0], module.weight.shape[1] * module.groups


def _heads(model: nn.Module, name: str, before: int, after: int) -> None:
    """Attributes of transformers' attention that count its heads."""
    parent: Any = model.get_submodule(name.rpartition(".")[0])
    size = getattr(parent, "attention_head_size", 0)
    if size and getattr(parent, "all_head_size", None) == before and after % size == 0:
        parent.all_head_size, parent.num_attention_heads = after, after // size


def _apply(model: nn.Module, changes: list[_Change]) -> None:
    for change in changes:
        module: Any = model.get_submodule(change.name)
        before = getattr(module, "out_features", 0)
        _shrink(module, change)
        if isinstance(module, nn.Linear) and change.outputs is not None:
            _heads(model, change.name, before, module.out_features)


# ---------------------------------------------------------------- what to change
def _changes(model: nn.Module, cuts, groups, lost: dict[str, str]) -> dict[str, _Change]:
    """By module; what has no way to be cut goes to lost."""
    modules: dict[str, Any] = dict(model.named_modules())
    for name in [name for name in lost if not _says(modules.get(name.rpartition(".")[0]), name)]:
        del lost[name]
    changes: dict[str, _Change] = {}
    for name, axes in cuts.items():
        owner, _, leaf = name.rpartition(".")
        module = modules.get(owner)
        kept = [None if len(axis) == size else torch.from_numpy(np.ascontiguousarray(axis)) for axis, size in zip(axes, _sizes(module, leaf, axes))]
        if not _says(module, name):
            continue
        if isinstance(module, _BATCH_NORMS):
            changes[owner] = _Change(owner, kept[0])
        elif isinstance(module, _WEIGHTED):
            changes[owner] = _Change(owner, kept[0], kept[1], groups.get(name))
        else:
            lost[name] = f"a {type(module).__name__} cannot be cut"
    return changes


def _says(module, name: str) -> bool:
    """Is it the Parameter or buffer that tells what is left of the module? The others follow it."""
    return not isinstance(module, (*_WEIGHTED, *_BATCH_NORMS)) or name.endswith(".running_var" if isinstance(module, _BATCH_NORMS) else "weight")


def _sizes(module, leaf: str, axes) -> tuple[int, ...]:
    tensor = getattr(module, leaf, None)
    return tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else tuple(-1 for _ in axes)


def _constants(model: nn.Module, changes: dict[str, _Change], inputs: Any, lost: dict[str, str]) -> None:
    """The bias that stands for cut inputs which were constant, from what the layers meet."""
    meets: dict[str, list[torch.Tensor]] = {}

    def hook(name):
        return lambda module, args: meets.setdefault(name, []).append(args[0].detach())

    wanted = [name for name, c in changes.items() if c.inputs is not None and isinstance(model.get_submodule(name), (nn.Linear, nn.Conv2d))]
    handles = [model.get_submodule(name).register_forward_pre_hook(hook(name)) for name in wanted]
    try:
        with torch.no_grad():
            _layers.call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    for name in wanted:
        try:
            changes[name].bias = _constant(model.get_submodule(name), changes[name], meets.get(name, []))
        except ValueError as error:
            lost[name + ".weight"] = str(error)


def _constant(module: Any, change: _Change, meets: list[torch.Tensor]) -> torch.Tensor | None:
    weight = module.weight.detach().flatten(2).sum(2) if module.weight.dim() > 2 else module.weight.detach()
    gone = torch.ones(weight.shape[1], dtype=torch.bool)
    gone[change.inputs] = False
    # Where the weight has nothing for an input it does not matter what it is.
    gone &= module.weight.detach().transpose(0, 1).flatten(1).any(1)
    if not gone.any() or getattr(module, "groups", 1) > 1:
        return None
    axis = 1 if isinstance(module, nn.Conv2d) else -1
    values = [x.movedim(axis if x.dim() > 3 or axis == -1 else 0, -1)[..., gone].reshape(-1, int(gone.sum())) for x in meets]
    seen = torch.cat(values) if values else torch.zeros(0, int(gone.sum()))
    if not len(seen):
        raise ValueError("the example does not call it")
    low, high = seen.amin(0), seen.amax(0)
    if (high - low > 1e-5 * seen.abs().amax(0).clamp(min=1e-30)).any():
        raise ValueError("an input that propagation takes for constant is none in the example")
    return weight[:, gone] @ seen[0] if seen.any() else None


def _together(changes: dict[str, _Change]) -> list[list[_Change]]:
    """Changes that keep the same indices hang together; so do channels and the features that a Flatten makes of them."""
    parts: list[tuple[set[tuple], list[_Change]]] = []
    for change in changes.values():
        marks, members = change.marks(), [change]
        apart = []
        for other_marks, other in parts:
            if any(_alike(a, b) for a in marks for b in other_marks):
                marks, members = marks | other_marks, [*other, *members]
            else:
                apart.append((other_marks, other))
        parts = [*apart, (marks, members)]
    return [members for _, members in parts]


def _alike(a: tuple, b: tuple) -> bool:
    if a == b:
        return True
    few, many = sorted((a, b), key=len)
    if not few or len(many) % len(few):
        return False
    each = len(many) // len(few)
    return tuple(k * each + r for k in few for r in range(each)) == many


# ---------------------------------------------------------------- the same answer
def _flat(answer: Any) -> list[torch.Tensor]:
    if isinstance(answer, torch.Tensor):
        return [answer]
    if hasattr(answer, "values"):
        answer = list(answer.values())
    return [t for part in answer for t in _flat(part)] if isinstance(answer, (tuple, list)) else []


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """NaN and Inf have to be where they were."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    finite = b[b.isfinite()].abs()
    return torch.allclose(a, b, rtol=0, atol=RTOL * float(finite.max() if finite.numel() else 0) + 1e-6, equal_nan=True)


def _differs(model: nn.Module, changes: list[_Change], inputs: Any, want: list[torch.Tensor]) -> str:
    """Why a copy with these changes does not give the same answer; "" when it does."""
    twin = copy.deepcopy(model)
    try:
        _apply(twin, changes)
        with torch.no_grad():
            got = _flat(_layers.call(twin.eval(), inputs))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return f"the smaller model does not run: {str(error).splitlines()[0][:120]}"
    if not all(_same(a, b) for a, b in zip(got, want)):
        return "the smaller model gives another answer"
    return "" if len(got) == len(want) else "the smaller model gives another number of outputs"


def _choose(model, parts: list[list[_Change]], inputs, want, lost: dict[str, str]) -> list[_Change]:
    """All parts, or one after the other those that leave the answer as it was."""
    everything = [change for part in parts for change in part]
    if not everything or not _differs(model, everything, inputs, want):
        return everything
    chosen: list[_Change] = []
    for part in parts:
        why = _differs(model, chosen + part, inputs, want)
        if why:
            lost.update({f"{change.name}.weight": why for change in part})
        else:
            chosen = chosen + part
    return chosen


def _single(inputs: Any) -> Any:
    """float32, in which the model is looked at."""
    if isinstance(inputs, torch.Tensor):
        return inputs.float() if inputs.is_floating_point() else inputs
    if hasattr(inputs, "keys"):
        return {name: _single(x) for name, x in inputs.items()}
    return tuple(_single(x) for x in inputs) if isinstance(inputs, (tuple, list)) else inputs


def compact_(model: nn.Module, example_inputs: Any) -> Compaction:
    """Cuts what does nothing out of a model, in place. Returns what became smaller, and what could not and why.

    Whole rows and columns of zeros are what counts (sparsify_ with "rows:0.5" makes them, docs/propagation.md says which can go). Packed layers
    become masked ones first: build_ packs them again. Optimizers are to be made anew. Needs the packages onnx and onnxscript.

    >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    >>> result = compact_(sparta.sparsify_(model, {"0": "rows:0.5"}), torch.ones(2, 64))
    >>> model[0].weight.shape, model[2].weight.shape
    (torch.Size([16, 64]), torch.Size([8, 16]))
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"compact_: a torch.nn.Module is needed, not {type(model).__name__}")
    _need_exporter("compact_")
    from ._cuts import cuts

    inputs = _single(example_inputs)
    twin: Any = plain(model).float()
    if size(twin) > LARGEST:
        raise ValueError(f"compact_: the model has {size(twin) / 1e9:.1f} GB in float32 and ONNX files hold {LARGEST / 1e9:.1f}; compact parts of it")
    if hasattr(twin, "set_attn_implementation"):
        # transformers: fused attention hides its heads.
        twin.set_attn_implementation("eager")
    lost: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="sparta-") as folder:
        found, lost, groups = cuts(export(twin, inputs, folder, "compact_"), folder)
    changes = _changes(twin, found, groups, lost)
    with torch.no_grad():
        want = _flat(_layers.call(twin, inputs))
    _constants(twin, changes, inputs, lost)
    held = {name.rpartition(".")[0] for name in lost}
    parts = [part for part in _together(changes) if not _hold(part, held, lost)]
    chosen = _choose(twin, parts, inputs, want, lost)
    return _commit(model, chosen, lost)


def _hold(part: list[_Change], held: set[str], lost: dict[str, str]) -> bool:
    """A part with a member that cannot be cut stays whole."""
    who = [change.name for change in part if change.name in held]
    if who:
        why = lost.get(who[0] + ".weight", "it cannot be cut")
        for change in part:
            lost.setdefault(change.name + ".weight", f"{who[0]!r} stays: {why}")
    return bool(who)


def _commit(model: nn.Module, chosen: list[_Change], lost: dict[str, str]) -> Compaction:
    count = lambda: sum(p.numel() for p in model.parameters())
    unbuild_(model)
    result = Compaction()
    result.parameters_before = count()
    before = {name: list(p.shape) for name, p in model.named_parameters()}
    _apply(model, chosen)
    result.parameters_after = count()
    for name, p in model.named_parameters():
        was = before.get(name, [])
        if was != list(p.shape) or name in lost:
            result.append({"name": name, "before": was, "after": list(p.shape), "reason": lost.get(name, "")})
    for module in model.modules():
        if isinstance(module, Masked):
            module.zero_pruned_()
    return result
