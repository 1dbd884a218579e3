"""Channel permutation: the inputs of a layer in an order in which n:m pruning keeps more, and the outputs of the layer before in the same order, so
that the model answers as before.

    fc1 -> relu -> fc2        columns of fc2 and rows of fc1 change places; relu does not care
    conv1 -> bn -> relu -> conv2     the same, with the rows of bn

Only a layer that alone reads what one other layer makes, with nothing between but modules that look at each channel by itself, has such an order.
Found by torch.fx; a model that it cannot trace is left as it is.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

_ALONE = (
    nn.ReLU,
    nn.GELU,
    nn.SiLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.LeakyReLU,
    nn.ELU,
    nn.ReLU6,
    nn.Hardswish,
    nn.Dropout,
    nn.Identity,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.MaxPool2d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
)
_ALONE_FUNCTIONS = {F.relu, F.gelu, F.silu, torch.relu, torch.tanh, torch.sigmoid, F.dropout}
_ALONE_METHODS = {"relu", "tanh", "sigmoid", "contiguous"}


def _before(node, modules):
    """(the layer that makes a node's input, the batch norms between), or None."""
    norms = []
    source = node.args[0]
    while len(source.users) == 1:
        if source.op == "call_module":
            module = modules[source.target]
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                return module, norms
            if not isinstance(module, _ALONE):
                return None
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
                norms.append(module)
        elif not (
            (source.op == "call_function" and source.target in _ALONE_FUNCTIONS) or (source.op == "call_method" and source.target in _ALONE_METHODS)
        ):
            return None
        source = source.args[0]
        if not isinstance(source, torch.fx.Node):
            return None
    return None


def _pairs(model, layers):
    """{name: (layer, the one before, batch norms between)}: each layer used once, neither with shared weights nor groups."""
    try:
        graph = torch.fx.symbolic_trace(model).graph
    except Exception:  # whatever a model's forward does to a tracer
        return {}
    modules = dict(model.named_modules())
    calls = [node.target for node in graph.nodes if node.op == "call_module"]
    weights = [id(p) for m in modules.values() for p in m._parameters.values() if p is not None]
    found = {}
    for node in graph.nodes:
        if node.op != "call_module" or node.target not in layers or not isinstance(node.args[0], torch.fx.Node):
            continue
        before = _before(node, modules)
        layer = layers[node.target]
        used = [layer, before[0], *before[1]] if before else []
        once = all(sum(modules[c] is m for c in calls) == 1 for m in used) and all(
            weights.count(id(m.weight)) == 1 for m in used if m.weight is not None
        )
        if (
            before
            and once
            and type(before[0]) is type(layer)
            and before[0].weight.shape[0] == layer.weight.shape[1]
            and getattr(layer, "groups", 1) == 1
            and getattr(before[0], "groups", 1) == 1
        ):
            found[node.target] = (layer, *before)
    return found


def _kept(weight, mask):
    return float((weight.abs() * mask(weight)).double().sum())


def find_order(weight: torch.Tensor, group: int = 4, rounds: int = 20) -> torch.Tensor:
    """An order of the columns of (rows, columns) in which the larger half of each group of 4 is worth more: exchanges of two columns, the best
    of each round for each pair of groups, as long as they gain.

    >>> w = torch.tensor([[9.0, 8, 7, 6, 0, 0, 0, 0]])
    >>> sorted(find_order(w)[:4].tolist()) == [0, 1, 2, 3]
    False
    """
    sizes = weight.detach().abs().double().reshape(weight.shape[0], weight.shape[1], -1).permute(1, 0, 2).flatten(1)
    columns = sizes.shape[0] // group * group
    order = torch.arange(weight.shape[1])

    def worth(tables):
        return tables.topk(group // 2, -2).values.sum((-1, -2))

    generator = torch.Generator().manual_seed(0)
    count = columns // group
    for _ in range(rounds if count > 1 else 0):
        gained = 0.0
        # Groups in random pairs; of each pair every exchange of one column with one is tried.
        pairs = torch.randperm(count, generator=generator)[: count // 2 * 2].reshape(-1, 2)
        for a, b in pairs.tolist():
            at = torch.cat([torch.arange(a * group, (a + 1) * group), torch.arange(b * group, (b + 1) * group)])
            held = order[at]
            tries = [held] + [_exchanged(held, i, group + j) for i in range(group) for j in range(group)]
            values = worth(sizes[torch.stack(tries)].unflatten(1, (2, group))).sum(-1)
            best = int(values.argmax())
            if float(values[best]) > float(values[0]) * (1 + 1e-9):
                gained += float(values[best] - values[0])
                order[at] = tries[best]
        if not gained:
            break
    return order


def _exchanged(order, i, j):
    order = order.clone()
    order[i], order[j] = int(order[j]), int(order[i])
    return order


def _permute_(tensor, order, dim, optimizers):
    """In place, with its gradient and what optimizers remember of each element."""
    remembered = [value for one in optimizers for value in one.state.get(tensor, {}).values() if isinstance(value, torch.Tensor)]
    for each in (tensor, tensor.grad, *(value for value in remembered if value.shape == tensor.shape)):
        if each is not None:
            each.copy_(each.index_select(dim, order.to(each.device)))


def permute_channels_(model: nn.Module, layers: dict, mask, optimizers=()) -> dict:
    """Permutes in place where `mask` then keeps more magnitude, and what the optimizers remember with it; {name: (kept before, kept after)}, shares
    of the whole."""
    done = {}
    for name, (layer, before, norms) in _pairs(model, layers).items():
        weight = layer.weight.detach()
        order = find_order(weight)
        total = float(weight.abs().double().sum()) or 1.0
        old, new = _kept(weight, mask), _kept(weight[:, order], mask)
        if new <= old:
            continue
        with torch.no_grad():
            _permute_(layer.weight, order, 1, optimizers)
            for module in (before, *norms):
                for tensor in (module.weight, module.bias, getattr(module, "running_mean", None), getattr(module, "running_var", None)):
                    if tensor is not None:
                        _permute_(tensor, order, 0, optimizers)
        done[name] = old / total, new / total
    return done
