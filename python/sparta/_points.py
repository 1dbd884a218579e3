"""Points of a GPU's kernels (docs/gpu.md): those that other processes measured are used, and those of a layer are measured.

    recall()                                      once, when a pattern first lies on a GPU
    tune_linear(blocks, values, x, bias, True)    [{"verb": "forward", "implement": "strips", "point": "TOK=128", "us": 21.0, "rule_us": 23.1}, ...]

The library does both (sparta_blocks_recall, sparta_blocks_tune) and keeps what it finds in the tuning database.
"""

import ctypes
import functools
from typing import Any

import torch

from ._library import Error, contexts, lib, new, numbers, string, types

_DTYPE = {
    torch.float16: "SPARTA_F16",
    torch.bfloat16: "SPARTA_BF16",
    torch.float32: "SPARTA_F32",
    torch.int32: "SPARTA_I32",
    torch.bool: "SPARTA_BOOL",
}
# What a kernel cannot do is said where it is used: there is then nothing to measure.
_NOTHING = ("E_UNSUPPORTED", "E_COMPILER", "E_USAGE", "E_MEMORY")


@functools.cache
def recall() -> int:
    """Winners that the tuning database has are used from now on; how many there are."""
    with contexts.one() as context:
        found = lib.sparta_blocks_recall(context.cx, None)
        lib.sparta_ctx_reset(context.cx)
    return found


def _view(t):
    s = types["sparta_tensor"](dtype=numbers[_DTYPE[t.dtype]], rank=t.dim(), data=t.data_ptr() or None, device=1 + t.device.index)
    for i in range(t.dim()):
        s.dim[i], s.stride[i] = t.shape[i], t.stride(i)
    return s


def _tokens(t):
    """(tokens, features) as (1, features, tokens)."""
    return _view(t.t().unsqueeze(0))


def _struct(blocks, values):
    rows, cols, height, width = blocks.sizes
    s = new("sparta_blocks", rows=rows, cols=cols, height=height, width=width, batch=1, patterns=1)
    s.pos, s.crd, s.values = _view(blocks.pos), _view(blocks.crd), _view(values)
    if blocks.keep is not None:
        s.keep = _view(blocks.keep)
    if (index := blocks.indexed()) is not None:
        s.index = _view(index)
    return s


def _ask(verb: str, x, y, bias=None, seconds: float = 0.0, **matrix: Any) -> dict[str, Any] | None:
    """One call of the library; None: nothing can be measured. x and y: (tokens, features)."""
    options, found = new("sparta_multiply_options"), new("sparta_tuned")
    if bias is not None:
        options.bias = ctypes.pointer(_view(bias))
    call = new("sparta_tune_call", verb=numbers[verb], x=ctypes.pointer(_tokens(x)), y=ctypes.pointer(_tokens(y)), seconds=seconds, **matrix)
    call.options = ctypes.pointer(options)
    with contexts.one() as context:
        try:
            context.long("sparta_blocks_tune", call, found)
        except Error as error:
            if error.status not in _NOTHING:
                raise
            return None
        finally:
            lib.sparta_ctx_reset(context.cx)
    if not found.points:
        return None
    return {"implement": string(found.implement), "point": string(found.point), "us": found.us, "rule_us": found.rule_us}


def _flat(x):
    return x.detach().reshape(-1, x.shape[-1]).contiguous()


def tune_linear(blocks, values, x, bias=None, backward: bool = False, seconds: float = 0.0) -> list[dict[str, Any]]:
    """The points of a linear layer's product, with `backward` of its gradients too, measured for such an input. Empty where there is no choice."""
    if not x.is_cuda or x.dtype != values.dtype or x.dtype not in _DTYPE or not x.numel() or not values.numel():
        return []
    recall()
    rows = blocks.shape[0]
    values, x = values.detach().contiguous(), _flat(x)
    y, s = x.new_empty(x.shape[0], rows), ctypes.pointer(_struct(blocks, values))
    bias = None if bias is None else bias.detach().contiguous()
    asked = [("forward", _ask("SPARTA_MULTIPLY", x, y, bias, seconds, s=s))]
    if backward:
        asked.append(("gradient of the input", _ask("SPARTA_MULTIPLY_TURNED", y.zero_(), torch.empty_like(x), None, seconds, s=s)))
        asked.append(("gradient of the weight", _ask("SPARTA_SAMPLE", y, x, None, seconds, s=s)))
    return [{"verb": verb, **row} for verb, row in asked if row]


def tune_half(packed, shape, x, bias=None, seconds: float = 0.0) -> list[dict[str, Any]]:
    """The same of a product with a packed 2:4 weight."""
    recall()
    x = _flat(x)
    y = x.new_empty(x.shape[0], shape[0])
    bias = None if bias is None else bias.detach().contiguous()
    row = _ask("SPARTA_MULTIPLY", x, y, bias, seconds, packed=ctypes.pointer(_view(packed)), rows=shape[0], cols=shape[1])
    return [{"verb": "forward, 2:4", **row}] if row else []


def said_of(rows: list[dict[str, Any]]) -> str:
    """For a reason: "; forward strips at TOK=128, 21.0 us (by rule 23.1)"; what stays with the rule is not named."""
    return "".join(f"; {r['verb']}: {r['implement']} at {r['point']}, {r['us']:.1f} us (by rule {r['rule_us']:.1f})" for r in rows if r["point"])
