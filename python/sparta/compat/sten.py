"""STen: formats, sparsifiers and implementations of operators of one's own, in Python, with formats for gradients.

    @sten.register_fwd_op_impl(operator=torch.mm, inp=(MyCsc, torch.Tensor), out=[(sten.KeepAll, torch.Tensor)])
    def forward(ctx, inputs, output_sparsifiers): ...

    op = sten.sparsified_op(torch.add, out_fmt=[(sten.KeepAll(), torch.Tensor, MySparsifier(0.9), MyCsc)], grad_out_fmt=[...])
    y = torch.mm(op(a, b), c)               dispatched by operator and formats; without an implementation: dense, and a warning says so

A format is a class with from_dense(tensor) and to_dense(). A 4-tuple (inline sparsifier, its format, external sparsifier, format) belongs to
each output and gradient: the first pair is the implementation's, the second is applied behind it. Sparsifiers pass gradients as they are: what a
gradient loses is said by its own tuple. SparseTensorWrapper keeps a dense copy beside the format, for autograd and for operators without an
implementation; so speed comes from implementations and from sparta's own modules, not from here.
"""

from __future__ import annotations

import copy
import types
import warnings
from typing import Any

import torch

from .. import sparsifiers
from ..tensors import CooTensor, CscTensor, CsrTensor

__all__ = [
    "CooTensor",
    "CscTensor",
    "CsrTensor",
    "DenseTensor",
    "DispatchError",
    "FixedMaskTensor",
    "KeepAll",
    "RandomFractionSparsifier",
    "SameFormatSparsifier",
    "ScalarFractionSparsifier",
    "SparseParameterWrapper",
    "SparseTensorWrapper",
    "SparsityBuilder",
    "register_bwd_op_impl",
    "register_fwd_op_impl",
    "register_sparsifier_implementation",
    "set_dispatch_failure",
    "sparsified_op",
]

_FORWARD: dict = {}
_BACKWARD: dict = {}
_SPARSIFIERS: dict = {}
_failure = "warn"


class DispatchError(Warning):
    """Nothing is registered for these formats."""


def set_dispatch_failure(action: str) -> None:
    """ "warn": what has no implementation runs dense; "raise": it does not run."""
    global _failure
    if action not in ("warn", "raise"):
        raise ValueError(f"set_dispatch_failure: '{action}' is neither 'warn' nor 'raise'")
    _failure = action


def _missing(message):
    if _failure == "raise":
        raise DispatchError(message)
    warnings.warn(message, DispatchError, stacklevel=4)


# ---------------------------------------------------------------- sparsifiers and formats
class KeepAll(sparsifiers.Sparsifier):
    def mask(self, x):
        return torch.ones_like(x, dtype=torch.bool)


class SameFormatSparsifier(KeepAll):
    """What the tensor had before: masks stay through optimizer steps anyway."""


class ScalarFractionSparsifier(sparsifiers.Sparsifier):
    """This share of the elements goes, the smallest magnitudes."""

    def __init__(self, fraction=0.5):
        self.fraction = fraction

    def mask(self, x):
        gone = torch.zeros(x.numel(), dtype=torch.bool, device=x.device)
        gone[x.detach().abs().flatten().argsort(stable=True)[: int(self.fraction * x.numel())]] = True
        return ~gone.reshape(x.shape)


class RandomFractionSparsifier(ScalarFractionSparsifier):
    """This share goes, at random."""

    def mask(self, x):
        return super().mask(torch.rand(x.shape))


class DenseTensor:
    def __init__(self, data):
        self.data = data

    @staticmethod
    def from_dense(tensor):
        return DenseTensor(tensor)

    def to_dense(self):
        return self.data


class FixedMaskTensor:
    """Values and the mask that they have."""

    def __init__(self, val, mask):
        self.val, self.mask = val, mask

    @staticmethod
    def from_dense(tensor):
        return FixedMaskTensor(tensor, tensor != 0)

    def to_dense(self):
        return torch.where(self.mask != 0, self.val, 0)


class SparseTensorWrapper:
    """A tensor in a format. torch's functions take it; `grad_fmt` is the 4-tuple of its gradient."""

    def __init__(self, wrapped_tensor, requires_grad=False, grad_fmt=None, *, require_grad=None, _dense=None):
        self.wrapped_tensor, self.grad_fmt = wrapped_tensor, grad_fmt
        wanted = bool(requires_grad if require_grad is None else require_grad)
        self.dense = wrapped_tensor.to_dense().detach().clone().requires_grad_(wanted) if _dense is None else _dense
        if self.dense.requires_grad and not self.dense.is_leaf:
            self.dense.retain_grad()

    @staticmethod
    def wrapped_from_dense(wrapped, dense, grad_fmt=None):
        return SparseTensorWrapper(wrapped, dense.requires_grad, grad_fmt)

    def to_dense(self):
        return self.dense

    @property
    def grad(self):
        """In the format that grad_fmt ends with."""
        grad = self.dense.grad
        out = self.grad_fmt[3] if self.grad_fmt else torch.Tensor
        return grad if grad is None or out is torch.Tensor else SparseTensorWrapper(out.from_dense(grad))

    def backward(self, gradient=None, **more):
        self.dense.backward(gradient.dense if isinstance(gradient, SparseTensorWrapper) else gradient, **more)

    def __getattr__(self, name):
        if name == "dense":  # of an object that is being made, by copy or pickle
            raise AttributeError(name)
        return getattr(self.dense, name)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        usual = (KeepAll(), torch.Tensor, KeepAll(), torch.Tensor)
        return sparsified_op(func, (usual,), (usual,))(*args, **(kwargs or {}))

    def __repr__(self):
        return f"SparseTensorWrapper({self.wrapped_tensor!r})"


class SparseParameterWrapper(torch.nn.Parameter):
    """A parameter in a format: plain for optimizers and checkpoints, `wrapped_tensor` for operators; elements that it does not have stay 0."""

    def __new__(cls, wrapper):
        wrapper = wrapper if isinstance(wrapper, SparseTensorWrapper) else SparseTensorWrapper(wrapper)
        self = super().__new__(cls, wrapper.dense.detach().clone())
        self.format, self.grad_fmt, self.kept = type(wrapper.wrapped_tensor), wrapper.grad_fmt, self.detach() != 0
        return self

    def __init__(self, wrapper):
        pass

    @property
    def wrapped_tensor(self):
        return self.format.from_dense(torch.where(self.kept, self.detach(), 0))


# ---------------------------------------------------------------- registering
def register_sparsifier_implementation(sparsifier=None, inp=torch.Tensor, out=torch.Tensor, sparsifer=None):
    """f(sparsifier, tensor, grad_fmt=None): from one format to another."""
    return _registered(_SPARSIFIERS, (sparsifier or sparsifer, inp, out))


def register_fwd_op_impl(operator, inp, out):
    """f(ctx, inputs, output_sparsifiers). inp: the format of each argument, None of others. out: (class of sparsifier, format) of each output."""
    return _registered(_FORWARD, (operator, _trimmed(inp), _trimmed(out)))


def register_bwd_op_impl(operator, grad_out, grad_inp, inp):
    """f(ctx, grad_outputs, input_sparsifiers): the gradient of each argument."""
    return _registered(_BACKWARD, (operator, _trimmed(grad_out), _trimmed(grad_inp), _trimmed(inp)))


def _registered(table, key):
    def decorator(function):
        table[key] = function
        return function

    return decorator


def _trimmed(formats):
    formats = list(formats)
    while formats and formats[-1] is None:
        formats.pop()
    return tuple(formats)


# ---------------------------------------------------------------- dispatch
def _format(value):
    if isinstance(value, SparseTensorWrapper):
        return type(value.wrapped_tensor)
    return torch.Tensor if isinstance(value, torch.Tensor) else None


def _dense(value):
    return value.dense if isinstance(value, SparseTensorWrapper) else value


def sparsify(sparsifier, value, format, grad_fmt=None):
    """A tensor, in a format or not, sparsified into a format: by what is registered, else by the sparsifier's mask and format.from_dense."""
    if isinstance(sparsifier, KeepAll) and format in (torch.Tensor, _format(value)):
        return value if format is not torch.Tensor else _dense(value)
    own = _SPARSIFIERS.get((type(sparsifier), _format(value), format))
    if own is not None:
        with torch.no_grad():
            return own(sparsifier, value, grad_fmt) if own.__code__.co_argcount > 2 else own(sparsifier, value)
    dense = _dense(value).detach()
    if not hasattr(sparsifier, "mask"):
        raise TypeError(
            f"sten: nothing says how {type(sparsifier).__name__} sparsifies; give it mask(self, x), or @sten.register_sparsifier_implementation("
            f"sparsifier={type(sparsifier).__name__}, inp={_format(value).__name__}, out={format.__name__})"
        )
    dense = torch.where(sparsifier.mask(dense).expand(dense.shape) != 0, dense, 0)
    return dense if format is torch.Tensor else SparseTensorWrapper(format.from_dense(dense), grad_fmt=grad_fmt)


def _through(four, value):
    """Both sparsifiers of a 4-tuple, one after the other."""
    return sparsify(four[2], sparsify(four[0], value, four[1]), four[3])


class _Carry(torch.autograd.Function):
    """Forward: another value in the place of x. Backward: the gradient through a 4-tuple."""

    @staticmethod
    def forward(ctx, x, value, four):
        ctx.four = four
        return value.clone() if value is x else value

    @staticmethod
    def backward(ctx, grad):
        return (grad if ctx.four is None else _dense(_through(ctx.four, grad))), None, None


class _Call(torch.autograd.Function):
    """An operator by registered implementations."""

    @staticmethod
    def forward(ctx, call, *dense):
        ctx.call = call
        out = call.forward(call.context, call.inputs, call.inline)
        call.outputs = list(out) if isinstance(out, (tuple, list)) else [out]
        ctx.save_for_backward(*dense)
        made = tuple(_dense(o).detach() for o in call.outputs)
        return made if len(made) > 1 else made[0]

    @staticmethod
    def backward(ctx, *grads):
        call = ctx.call
        grads = [sparsify(four[2], g, four[3]) for g, four in zip(grads, call.grad_out)]
        key = (call.operator, _trimmed(map(_format, grads)), _trimmed((type(f[0]), f[1]) if f else None for f in call.grad_inp), call.formats)
        own = _BACKWARD.get(key)
        if own is not None:
            given = own(call.context, grads, [f[0] if f else None for f in call.grad_inp])
            given = list(given) + [None] * (len(call.inputs) - len(given))
            return (None, *(None if g is None else _dense(g) for g, i in zip(given, call.inputs) if _format(i)))
        _missing(f"backward of {_name(call.operator)} for {_said(key[1:])} runs dense; register it: @sten.register_bwd_op_impl")
        return (None, *_dense_gradients(call, ctx.saved_tensors, [_dense(g) for g in grads]))


def _dense_gradients(call, dense, grads):
    with torch.enable_grad():
        fresh = iter([d.detach().requires_grad_(d.is_floating_point()) for d in dense])
        made = [next(fresh) if _format(i) else i for i in call.inputs]
        out = call.operator(*made, **call.kwargs)
        wanted = [m for m, i in zip(made, call.inputs) if _format(i)]
        return torch.autograd.grad(out, wanted, grads, allow_unused=True)


class _Context(types.SimpleNamespace):
    """What implementations call ctx: what it saves may be in any format."""

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors


def sparsified_op(orig_op, out_fmt, grad_out_fmt=None):
    """The operator with formats for its outputs and their gradients."""
    out_fmt = tuple(out_fmt)
    usual = (KeepAll(), torch.Tensor, KeepAll(), torch.Tensor)
    grad_out_fmt = tuple(grad_out_fmt) if grad_out_fmt is not None else (usual,) * len(out_fmt)
    if any(len(four) != 4 for four in (*out_fmt, *grad_out_fmt)):
        raise ValueError("sparsified_op: a format is (inline sparsifier, its format, external sparsifier, format)")

    def op(*args, **kwargs):
        call = _Context(operator=orig_op, kwargs=kwargs, inline=[four[0] for four in out_fmt], grad_out=grad_out_fmt, context=_Context())
        call.inputs = [_wrapped(a) for a in args]
        call.formats = _trimmed(map(_format, call.inputs))
        call.grad_inp = [(getattr(i, "grad_fmt", None) or usual) if _format(i) else None for i in call.inputs]
        carried = [_carried(a, i) for a, i in zip(args, call.inputs)]
        call.forward = None if kwargs else _FORWARD.get((orig_op, call.formats, _trimmed((type(f[0]), f[1]) for f in out_fmt)))
        if call.forward is not None:
            made = _Call.apply(call, *(c for c, i in zip(carried, call.inputs) if _format(i)))
            outputs = made if isinstance(made, tuple) else (made,)
        else:
            if set(call.formats) - {torch.Tensor, None}:
                _missing(
                    f"{_name(orig_op)} of {_said(call.formats)} runs dense; register it: @sten.register_fwd_op_impl(operator={_name(orig_op)}, ...)"
                )
            made = orig_op(*carried, **{k: _dense(v) for k, v in kwargs.items()})
            outputs = made if isinstance(made, (tuple, list)) else (made,)
            call.outputs = [
                sparsify(four[0], o, four[1]) if isinstance(o, torch.Tensor) else o for o, four in zip(outputs, _as_many(out_fmt, outputs))
            ]
        grads = (None,) * len(outputs) if call.forward is not None else _as_many(grad_out_fmt, outputs)
        done = [_output(dense, inline, four, grad) for dense, inline, four, grad in zip(outputs, call.outputs, _as_many(out_fmt, outputs), grads)]
        return done[0] if not isinstance(made, (tuple, list)) else type(made)(done)

    return op


def _as_many(fours, outputs):
    return fours if len(fours) == len(outputs) else fours[:1] * len(outputs)


def _wrapped(argument):
    if isinstance(argument, SparseParameterWrapper):
        return SparseTensorWrapper(argument.wrapped_tensor, grad_fmt=argument.grad_fmt, _dense=argument.detach())
    return argument


def _carried(argument, wrapper):
    """The dense tensor of an argument, with its gradient's format."""
    four = getattr(argument, "grad_fmt", None)
    dense = _dense(argument)
    if not isinstance(dense, torch.Tensor):
        return dense
    if isinstance(argument, SparseParameterWrapper):
        return torch.where(argument.kept, _Carry.apply(argument, argument, four), 0)
    return dense if four is None else _Carry.apply(dense, dense, four)


def _output(dense, inline, four, grad):
    """What an operator made, sparsified behind it, as a tensor or a wrapper that autograd knows."""
    if not isinstance(dense, torch.Tensor):
        return dense
    final = sparsify(four[2], inline, four[3])
    value = _dense(final)
    if value is not dense or grad is not None:
        dense = _Carry.apply(dense, value.detach(), grad)
    return SparseTensorWrapper(final.wrapped_tensor, grad_fmt=final.grad_fmt, _dense=dense) if isinstance(final, SparseTensorWrapper) else dense


def _name(op):
    return getattr(op, "__name__", str(op))


def _said(formats):
    return "(" + ", ".join(_said(f) if isinstance(f, tuple) else getattr(f, "__name__", str(f)) for f in formats) + ")"


# ---------------------------------------------------------------- models
class SparsityBuilder:
    """What a whole model gets, over sparta.create_schedule: weights by parameter name, intermediates by the path of the module that computes them."""

    def __init__(self, model: torch.nn.Module | None = None):
        self.model: Any = model
        self._weights: dict[str, list[tuple]] = {}
        self._interms: dict[str, list[tuple]] = {}
        self._gradients: dict[str, tuple] = {}

    def set_weight(
        self, name, initial_sparsifier=None, inline_sparsifier=None, tmp_format=torch.Tensor, external_sparsifier=None, out_format=torch.Tensor
    ):
        """What a format loses is lost after its sparsifier: tmp_format stands behind the inline one, out_format behind the external one."""
        self._weights[name] = [(initial_sparsifier, torch.Tensor), (inline_sparsifier, tmp_format), (external_sparsifier, out_format)]

    def set_interm(self, name, inline_sparsifier=None, tmp_format=torch.Tensor, external_sparsifier=None, out_format=torch.Tensor):
        self._interms[name] = [(inline_sparsifier, tmp_format), (external_sparsifier, out_format)]

    def set_weight_grad(self, name, inline_sparsifier=None, tmp_format=torch.Tensor, external_sparsifier=None, out_format=torch.Tensor):
        self._gradients[name] = (inline_sparsifier or KeepAll(), tmp_format, external_sparsifier or KeepAll(), out_format)

    def sparsify_model_inplace(self, model: torch.nn.Module | None = None) -> torch.nn.Module:
        from ..model_schedule import create_schedule

        model = model if model is not None else self.model
        if model is None:
            raise ValueError("SparsityBuilder: give the model")
        s = create_schedule(model)
        for name, steps in self._weights.items():
            s[name].sparsify(_Steps(steps))
        for name, steps in self._interms.items():
            s[name if ":" in name else name + ":output"].sparsify(_Steps(steps))
        parameters = dict(model.named_parameters())
        unknown = [name for name in self._gradients if name not in parameters]
        if unknown:
            raise ValueError(f"set_weight_grad: the model has no parameter '{unknown[0]}'")
        s.apply_()
        for name, four in self._gradients.items():
            parameters[name].register_hook(lambda grad, four=four: _dense(_through(four, grad)))
        return model

    def get_sparse_model(self, model: torch.nn.Module | None = None) -> torch.nn.Module:
        return self.sparsify_model_inplace(copy.deepcopy(model if model is not None else self.model))

    def sparsify_model_and_optimizer_inplace(self, model, optimizer):
        """The optimizer keeps its parameters: they are the same objects."""
        return self.sparsify_model_inplace(model), optimizer


class _Steps(sparsifiers.Sparsifier):
    """Sparsifiers of STen one after the other, each with the format that follows it, as one mask."""

    def __init__(self, steps):
        given = [(KeepAll() if step is None else step, format) for step, format in steps if step is not None or format is not torch.Tensor]
        self.steps = [(step() if isinstance(step, type) else step, format) for step, format in given]

    def mask(self, x):
        for step, format in self.steps:
            if (type(step), torch.Tensor, format) in _SPARSIFIERS or hasattr(step, "mask"):
                x = _dense(sparsify(step, x, format))
            else:
                x = _dense(sparsify(KeepAll(), _dense(_any(step, x)), format))
        return x != 0


def _any(step, x):
    """By an implementation into whichever format there is."""
    for kind, inp, out in _SPARSIFIERS:
        if kind is type(step) and inp is torch.Tensor:
            return sparsify(step, x, out)
    return sparsify(step, x, torch.Tensor)
