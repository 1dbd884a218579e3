"""The layers of a torch model that can be sparse: their names, what is gone of each, the inputs that they meet, and another module in their place."""

from __future__ import annotations

import contextlib
import difflib
import re
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from ._conv1d import keep_layout
from .masked import CLASSES, Masked
from .nn import SparseLinear
from .nn._mask import too_few_zeros

ZEROS = 0.1  # an ordinary layer counts as pruned from this share of exact zeros on


def is_packed(module: nn.Module) -> bool:
    return isinstance(module, SparseLinear) and module.mode == "weight"


def layers(model: nn.Module) -> dict[str, nn.Module]:
    """Each once, under its first name, in the model's order."""
    return {name: m for name, m in model.named_modules() if type(m) in CLASSES or isinstance(m, Masked) or is_packed(m)}


def mask_of(module: Any) -> torch.Tensor | None:
    """Which elements of the weight exist; None: it is dense."""
    if isinstance(module, Masked):
        return module.weight_mask
    if any(hook._tensor_name == "weight" for hook in pruned_by_torch(module)):
        return module.weight_mask != 0
    if is_packed(module):
        return module.get_sparse_indexes().mask()
    weight = module.weight.detach()
    return weight != 0 if _counts(weight) and _zeros(weight) >= ZEROS else None


def _counts(weight: torch.Tensor) -> bool:
    return not weight.is_meta and weight.layout == torch.strided and weight.is_floating_point()


def _zeros(weight: torch.Tensor) -> float:
    """The share of exact zeros."""
    zeros = weight.numel() - int(weight.count_nonzero())
    return zeros / weight.numel() if zeros else 0.0


def unpruned(module: Any) -> tuple[float, str]:
    """Of a layer without a mask: the share of its weight that is not 0, and why the rest does not count as gone."""
    weight = weight_of(module)
    if not _counts(weight):
        return 1.0, f"dense: zeros of a {weight.layout} weight of {weight.dtype} on {weight.device} do not count"
    zeros = _zeros(weight)
    percent = int(1000 * zeros) / 10  # never the one that it is less than
    few = f"dense: {percent:g} % zeros: below {100 * ZEROS:g} % a layer does not count as pruned; sparsify_ with a mask makes it"
    return 1 - zeros, too_few_zeros(weight != 0) or few


def pruned_by_torch(module: nn.Module) -> list[prune.BasePruningMethod]:
    """What torch.nn.utils.prune does to the module before each call."""
    return [hook for hook in module._forward_pre_hooks.values() if isinstance(hook, prune.BasePruningMethod)]


def weight_of(module: Any, name: str = "weight") -> torch.Tensor:
    """The weight, or the bias, as the next call would use it: torch's pruning computes it anew before each."""
    hooks = [hook for hook in pruned_by_torch(module) if hook._tensor_name == name]
    return (hooks[0].apply_mask(module) if hooks else getattr(module, name)).detach()


def settle_(module: nn.Module) -> None:
    """Makes torch's pruning of a module permanent: the same Parameter, under its own name, with zeros."""
    for hook in pruned_by_torch(module):
        prune.remove(module, hook._tensor_name)


def made(module: nn.Module) -> str:
    """What computes the weight of a module out of other Parameters (weight_norm, a parametrization); "" where it is a Parameter itself."""
    if parametrize.is_parametrized(module, "weight"):
        return type(module.parametrizations["weight"][0]).__name__  # type: ignore[index]
    if type(module) not in CLASSES or "weight" in module._parameters or pruned_by_torch(module):
        return ""
    return next((type(hook).__name__ for hook in module._forward_pre_hooks.values() if getattr(hook, "name", "") == "weight"), "another module")


def computed(model: nn.Module) -> dict[str, nn.Module]:
    """Layers that could be sparse if their weight were a Parameter."""
    kinds: Any = tuple(CLASSES)
    return {name: m for name, m in model.named_modules() if isinstance(m, kinds) and made(m)}


def need_weight(where: str, name: str, module: nn.Module) -> None:
    how = made(module)
    if how:
        raise ValueError(
            f"{where}: the weight of {name!r} is computed by {how} before each call; take that away first "
            "(torch.nn.utils.remove_weight_norm, parametrize.remove_parametrizations), or leave the layer dense"
        )
    weight = module._parameters.get("weight")
    if weight is not None and weight.layout != torch.strided:
        raise TypeError(f"{where}: the weight of {name!r} is {weight.layout}; give the layer a dense one, weight.to_dense()")


def density(mask: torch.Tensor | None) -> float:
    return 1.0 if mask is None else float(mask.float().mean()) if mask.numel() else 0.0


def shared(model: nn.Module) -> dict[int, list[str]]:
    """By id of a weight that several modules hold: their names."""
    names: dict[int, list[str]] = {}
    for name, module in model.named_modules():
        weight = module._parameters.get("weight")
        if weight is not None:
            names.setdefault(id(weight), []).append(name)
    return {key: held for key, held in names.items() if len(held) > 1}


def glob(text: str) -> re.Pattern:
    """As schedules read it: * is any letters, ? is one."""
    return re.compile("".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in text), re.DOTALL)


def matching(names, text: str) -> list[str]:
    """The layers whose name, or whose weight's name, the glob fits; a ValueError with near names where there is none."""
    fits = glob(text).fullmatch
    found = [name for name in names if fits(name) or fits(f"{name}.weight" if name else "weight")]
    if not found:
        near = difflib.get_close_matches(text, list(names), 3, 0.3) or list(names)[:3]
        raise ValueError(f"no layer is named {text!r}; near it: {', '.join(map(repr, near)) or 'the model has none that can be sparse'}")
    return found


# ---------------------------------------------------------------- inputs
def call(model: nn.Module, inputs: Any) -> Any:
    """The model on example inputs: a tensor, a tuple of arguments, or a dict of named ones."""
    if isinstance(inputs, dict) or hasattr(inputs, "keys"):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)


@contextlib.contextmanager
def evaluating(model: nn.Module):
    """In eval mode without gradients, each module's own mode restored: an example must not change statistics."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def run(model: nn.Module, inputs: Any) -> None:
    """The model on example inputs, for what is seen meanwhile. What is wrong with them is one ValueError."""
    try:
        with evaluating(model):
            call(model, inputs)
    except Exception as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = "give a tensor, a tuple of arguments or a dict of named ones"
        raise ValueError(f"the model does not run on the example inputs: {said}; {what}") from error


class Meeting(NamedTuple):
    """An input of a layer; lower: the type in which autocast has the layer compute, where it is on."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    lower: torch.dtype | None = None


def meetings(model: nn.Module, wanted: dict[str, nn.Module], inputs: Any) -> dict[str, dict[Meeting, int]]:
    """For each layer the shapes, strides and dtypes of its inputs, autocast's too, and how often each came."""
    met: dict[str, dict[Meeting, int]] = {name: {} for name in wanted}

    def hook(name):
        def note(module, args):
            if args and isinstance(args[0], torch.Tensor):
                x = args[0]
                lower = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else None
                key = Meeting(tuple(x.shape), tuple(x.stride()), x.dtype, lower)
                met[name][key] = met[name].get(key, 0) + 1

        return note

    handles = [module.register_forward_pre_hook(hook(name)) for name, module in wanted.items()]
    try:
        run(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return met


def read_weights(model: nn.Module, inputs: Any) -> set[int]:
    """Ids of the packed layers whose dense weight something asks for while the model runs."""
    seen: set[int] = set()

    class Watched(SparseLinear):
        @property
        def weight(self):
            seen.add(id(self))
            return super().weight

    # These modules and no others: another thread may be running, or building, its own.
    watched = [m for m in model.modules() if type(m) is SparseLinear]
    try:
        for module in watched:
            module.__class__ = Watched
        run(model, inputs)
    finally:
        for module in watched:
            module.__class__ = SparseLinear
    return seen


def example(meeting: Meeting, device: Any = None) -> torch.Tensor:
    """A tensor as one that was met, of random numbers."""
    x = torch.empty_strided(meeting.shape, meeting.stride, dtype=meeting.dtype, device=device)
    return x.normal_() if meeting.dtype.is_floating_point else x.zero_()


# ---------------------------------------------------------------- replacing
_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_is_full_backward_hook",
)


def replace(model: nn.Module, new: dict[int, nn.Module]) -> None:
    """Puts modules in place of others (by id), under every name that they have. Hooks of users go along, and their handles still remove them. What
    was a Conv1D stays one in checkpoints."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is not None and id(child) in new:
                other = new[id(child)]
                for hooks in _HOOKS:
                    setattr(other, hooks, getattr(child, hooks))
                if hasattr(child, "_sparta_conv1d") and not hasattr(other, "_sparta_conv1d"):
                    keep_layout(other)
                parent._modules[name] = other
