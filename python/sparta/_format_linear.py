"""A masked linear layer that runs by the library's operator, in any format that the language can write; it trains dense, as a MaskedLinear.

    FormatLinear(MaskedLinear)     weight, bias, weight_mask as they are; without gradients, f32 on the CPU: the operator. Otherwise: dense
    Operator                       y(m,n) = x(m,k)*w(n,k) + b(n), the weight stored in the format; made again when the weight changed

An operator belongs to the process: it is not copied and not saved, and made when it is first needed.
"""

from __future__ import annotations

import concurrent.futures
import ctypes as c
import itertools
from typing import Any

import torch

from . import masked
from ._arrays import Tensor
from ._library import Context, Handle, Pool, lib, new, numbers, string

_ROWS = 64  # of a panel: what a thread gets at least
_pool = Pool(lambda: concurrent.futures.ThreadPoolExecutor(16, "sparta"))


def _tensor(shape, address=None):
    t = Tensor(dtype=numbers["SPARTA_F32"], rank=len(shape), data=address)
    step = 1
    for i in reversed(range(len(shape))):
        t.dim[i], t.stride[i] = shape[i], step
        step *= max(shape[i], 1)
    return t


def _plain(x):
    """Row-major and aligned, with its values as they are: what the library reads by its address."""
    x = x.resolve_neg().contiguous()
    return x.clone() if x.data_ptr() % x.element_size() else x


class Operator(Handle):
    """The product with one weight (n, k), and a bias or None."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, format: str):
        self.shape = tuple(weight.shape)
        self._held = [_plain(x.detach().float()) for x in (weight, bias) if x is not None]
        n, k = self.shape
        operands = [_tensor((-1, n)), _tensor((-1, k)), *(_tensor(tuple(x.shape), x.data_ptr()) for x in self._held)]
        array = (Tensor * len(operands))(*operands)
        expression = "y(m,n) = x(m,k)*w(n,k)" + (" + b(n)" if bias is not None else "")
        spec = new("sparta_operator_spec", expression=expression, n=len(operands), format=format, operand=c.cast(array, c.POINTER(Tensor)))
        context = Context()
        super().__init__(context, context.make("sparta_operator_create", c.byref(spec)), "sparta_operator_free")

    @property
    def reason(self) -> str:
        return string(lib.sparta_operator_reason(self._handle))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """(..., k) by the weight turned: (..., n)."""
        flat = _plain(x.reshape(-1, self.shape[1]))
        out = x.new_empty(flat.shape[0], self.shape[0])
        parts = max(1, min(torch.get_num_threads(), flat.shape[0] // _ROWS))
        cuts = [flat.shape[0] * i // parts // _ROWS * _ROWS if i < parts else flat.shape[0] for i in range(parts + 1)]
        jobs = [(flat[a:b], out[a:b]) for a, b in itertools.pairwise(cuts) if b > a]
        if len(jobs) < 2:
            for job in jobs:
                self._run(job)
        else:
            with _pool.one() as threads:
                list(threads.map(self._run, jobs))
        return out.reshape(*x.shape[:-1], self.shape[0])

    def _run(self, job):
        x, out = job
        arrays = (Tensor * 2)(_tensor(tuple(out.shape), out.data_ptr()), _tensor(tuple(x.shape), x.data_ptr()))
        launch = new("sparta_launch")
        size = lib.sparta_operator_workspace(self._handle, arrays, 2, c.byref(launch))
        room = torch.empty(size + 64, dtype=torch.uint8)
        launch.workspace, launch.workspace_bytes = -(-room.data_ptr() // 64) * 64, size
        message = c.create_string_buffer(400)
        if lib.sparta_operator_run(self._handle, arrays, 2, c.byref(launch), message, len(message)):
            raise RuntimeError(f"FormatLinear: {string(message.value)}")


class FormatLinear(masked.MaskedLinear):
    """Made by formatted_."""

    format: str
    implement = "C operator"
    _running: Any = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        learns = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (input, self.weight, self.bias))
        plain = all(x.dtype == torch.float32 and x.device.type == "cpu" for x in (input, self.weight))
        if learns or not plain or input.shape[-1:] != self.weight.shape[1:] or not input.numel():
            return super().forward(input)
        return self.operator()(input)

    def train(self, mode: bool = True):
        # What wrote to weight.data left no trace.
        self._running = None
        return super().train(mode)

    def operator(self) -> Operator:
        """For the weight as it is now."""
        parameters = [p for p in (self.weight, self.bias) if p is not None]
        now = [(id(p), p.data_ptr(), p._version, p.shape, p.stride()) for p in parameters]
        if self._running is None or self._running[0] != now:
            # Held, so that no other tensor is given their memory or their number.
            held = parameters, [p.detach() for p in parameters]
            self._running = now, Operator(self.weight, self.bias, self.format), held
        return self._running[1]

    def unformat_(self) -> None:
        """A MaskedLinear again, in place."""
        for name in ("format", "reason", "_running"):
            self.__dict__.pop(name, None)
        self.__class__ = masked.MaskedLinear  # type: ignore[assignment]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_running"}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, format={self.format}"


masked._PLAIN[FormatLinear] = torch.nn.Linear


def formatted_(module: Any, format: str, reason: str) -> FormatLinear:
    """A masked linear layer in a format. In place; returns it."""
    module.__class__ = FormatLinear
    module.format, module.reason = format, reason
    return module
