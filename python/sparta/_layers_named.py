"""Which tensors of a torch model a name or glob of a schedule means.

fc1.weight                   a parameter: the weight of a layer
fc1                          a module that has a weight: that weight
encoder.*.dense              a glob: * any letters, ? one letter. Weights of linear and convolution layers; an embedding only by its own name
layer.3.mlp:output           what a module computes
layer.3.attention            a module without a weight: the scores of its attention where its name or class says attention, else its output
layer.3.mixer:attention      the scores of the attention that it computes, whatever it is called
"""

from __future__ import annotations

import dataclasses
import difflib

import torch

from . import _layers

_KINDS = ("output", "attention")


@dataclasses.dataclass
class Target:
    """A tensor: kind is weight, output or attention; modules hold it, several where a weight is tied."""

    name: str
    kind: str
    modules: list

    @property
    def rank(self):
        weight = getattr(self.modules[0], "weight", None)
        return weight.dim() if self.kind == "weight" and isinstance(weight, torch.Tensor) else 2


def _weight(module):
    weight = getattr(module, "weight", None)
    return weight if isinstance(weight, torch.Tensor) and weight.dim() >= 2 else None


def _by_glob(module):
    return isinstance(module, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)) or hasattr(module, "update_mask")


def _looks_like_attention(path, module):
    return any(word in text.lower() for text in (path.rpartition(".")[2], type(module).__name__) for word in ("attention", "attn"))


def _holders(model, module):
    """The module, and those that share its weight."""
    weight = module._parameters.get("weight")
    return [module] + [m for m in model.modules() if weight is not None and m is not module and m._parameters.get("weight") is weight]


def find(model: torch.nn.Module, glob: str) -> list[Target]:
    """The tensors that it means; a ValueError with the nearest names where there are none."""
    path, colon, kind = glob.rpartition(":")
    if not colon or kind not in _KINDS:
        path, kind = glob, ""
    regex = _layers.glob(path)
    exact = not set("*?") & set(path)
    modules = dict(model.named_modules())
    matched = {name: module for name, module in modules.items() if regex.fullmatch(name)}
    if kind:
        found = [Target(f"{name}:{kind}", kind, [module]) for name, module in matched.items()]
    else:
        weights = {(f"{name}.weight" if name else "weight"): m for name, m in modules.items() if _weight(m) is not None and (exact or _by_glob(m))}
        named = {name: m for name, m in weights.items() if regex.fullmatch(name)} or {
            name: m for name, m in weights.items() if regex.fullmatch(name.rpartition(".")[0]) and name != "weight"
        }
        found = _once([Target(name, "weight", _holders(model, m)) for name, m in named.items()])
        if not found and (exact or len(matched) < len(modules)):
            found = [_computed(name, m) for name, m in matched.items() if _weight(m) is None]
    if not found:
        _not_found(model, glob, modules)
    return found


def _once(targets):
    """A tied weight under its first name."""
    seen, kept = set(), []
    for target in targets:
        if id(target.modules[0]) not in seen:
            kept.append(target)
        seen.update(map(id, target.modules))
    return kept


def _computed(name, module):
    kind = "attention" if _looks_like_attention(name, module) else "output"
    return Target(f"{name}:{kind}", kind, [module])


def _not_found(model, glob, modules):
    parameter = dict(model.named_parameters(remove_duplicate=False)).get(glob)
    if parameter is not None:
        raise ValueError(f"'{glob}' has shape {tuple(parameter.shape)}; a schedule takes weights of at least 2 dimensions, and what modules compute")
    names = [*(name for name, _ in model.named_parameters()), *filter(None, modules)]
    plain = glob.rpartition(":")[0] if glob.rpartition(":")[2] in _KINDS else glob
    near = difflib.get_close_matches(plain, names, 3, 0.3) or names[:3]
    raise ValueError(f"'{glob}' names no tensor of the model; the nearest names are {', '.join(map(repr, near)) or 'none: it has no parameters'}")
