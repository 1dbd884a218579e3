"""torch.ops.sparta: libsparta_torch.so loaded, and what torch wants to know in Python about its operators: the sizes of results, gradients, autocast.

The operators and their arguments are in python/torch/operators.def; their meaning as dense torch is in _reference.py, which also runs them where
there is no kernel of ours: as NAME_dense, which the C side calls for what a GPU has none for. Each operator NAME, which has gradients, has a twin
NAME_run without. Importing this registers them, once in a process.
"""

import ctypes
import os
import re
import warnings

try:
    import torch
except ImportError as error:
    raise ImportError("sparta: this part needs torch 2.10 or newer: pip install 'torch>=2.10'") from error

from . import _reference
from ._library import _KIND, Error, OutOfMemory, lib, numbers


def _load():
    path = os.path.join(os.path.dirname(lib._name), "libsparta_torch.so")
    if not os.path.exists(path):
        raise ImportError(f"sparta: no {path}; run `make` in the clone, or `pip install .` there")
    library = ctypes.CDLL(path)
    library.sp_torch_register.restype = library.sp_torch_problem.restype = ctypes.c_char_p
    said = library.sp_torch_register()
    if said:
        raise ImportError(f"sparta: {said.decode()} (torch is {torch.__version__})")
    return library


_library = _load()  # never closed: torch calls into it
_ops = torch.ops.sparta
linear, linear_run = _ops.linear.default, _ops.linear_run.default
linear_turned, multiply, sample = _ops.linear_turned.default, _ops.multiply.default, _ops.sample.default
linear_turned_run, sample_run = _ops.linear_turned_run.default, _ops.sample_run.default
softmax, softmax_gradient = _ops.softmax.default, _ops.softmax_gradient.default
half_pack, half_linear = _ops.half_pack.default, _ops.half_linear.default
bits_pack, bits_linear = _ops.bits_pack.default, _ops.bits_linear.default


def problem():
    """Why no kernel runs on a GPU, as the first call found out that met it; None: nothing is known to be wrong."""
    said = _library.sp_torch_problem()
    return said.decode(errors="replace") if said else None


class OutOfGPUMemory(OutOfMemory, torch.OutOfMemoryError):
    pass


def told(error):
    """The exception for what an operator said, "sparta::linear: x has 5 features; the weight takes 4 [E_SHAPE]"; others as they are."""
    match = re.fullmatch(r"sparta::(\w+: .*) \[(E_\w+)\]", str(error).partition("\n")[0])
    if not match:
        return error
    kind = OutOfGPUMemory if match[2] == "E_MEMORY" and "no memory on cuda" in match[1] else _KIND.get(match[2], Error)
    what = kind(match[1])
    what.status = match[2]
    return what


# ---------------------------------------------------------------- sizes of results
def _linear_like(x, values, pos, crd, keep, index, bias, rows, cols, height, width):
    torch._check(x.shape[-1] == cols, lambda: f"linear: x is {tuple(x.shape)}; the weight takes {cols} features")
    return x.new_empty((*x.shape[:-1], rows))


def _turned_like(x, values, pos, crd, keep, index, rows, cols, height, width):
    torch._check(x.shape[-1] == rows, lambda: f"linear_turned: x is {tuple(x.shape)}; the weight takes {rows} features")
    return x.new_empty((*x.shape[:-1], cols))


def _multiply_like(x, values, pos, crd, keep, index, rows, cols, height, width, patterns, turned):
    batch = values.shape[0] if values.dim() == 4 else x.shape[0] if patterns == 1 else patterns
    return x.new_empty((batch, cols if turned else rows, x.shape[2]))


def _sample_like(a, c, pos, crd, keep, index, rows, cols, height, width, patterns, scale):
    return a.new_empty((*a.shape[: patterns == 1], crd.shape[0], height, width))


def _softmax_like(values, *rest):
    return values.new_empty(values.shape)


def _half_pack_like(weight):
    return weight.new_empty(lib.sparta_half_bytes(_number(weight), *weight.shape) // 4, dtype=torch.int32)


def _bits_pack_like(weight, pairs):
    return weight.new_empty(lib.sparta_bits_bytes(_number(weight), *weight.shape, int(pairs)) // 4, dtype=torch.int32)


def _packed_linear_like(x, packed, bias, rows, cols):
    torch._check(x.shape[-1] == cols, lambda: f"x is {tuple(x.shape)}; the packed weight takes {cols} features")
    return x.new_empty((*x.shape[:-1], rows))


def _number(tensor):
    return numbers[_HALVES.get(tensor.dtype, "SPARTA_F32")]


_HALVES = {torch.float16: "SPARTA_F16", torch.bfloat16: "SPARTA_BF16"}


def _on_one_device(name, like):
    """`like` for arguments on one device: nobody computes with a meta tensor among others, so the result would be whatever memory held."""

    def fake(*arguments):
        first, *others = (str(a.device) for a in arguments if isinstance(a, torch.Tensor))
        elsewhere = next((device for device in others if device != first), first)
        torch._check(elsewhere == first, lambda: f"sparta::{name}: arguments are on {first} and on {elsewhere}; move them to one device [E_DTYPE]")
        return like(*arguments)

    return fake


# ---------------------------------------------------------------- gradients, made of the operators themselves
# A pattern is (pos, crd, keep, index), its sizes plain numbers. _save(ctx, arguments, result) and _NAME_gradient(ctx, gradient).
def _save(ctx, inputs, output):
    """Two operands, the pattern, and in ctx.rest what follows it."""
    one, two, pos, crd, keep, index, *ctx.rest = inputs
    ctx.save_for_backward(one, two, pos, crd, keep, index)


def _columns(x):
    """x (..., features) as (1, features, tokens)."""
    return (x if x.dim() == 2 else x.reshape(-1, x.shape[-1])).t().unsqueeze(0)


def _beside(x):
    """x (..., features) as GPU kernels take it, with features that lie side by side."""
    return x.contiguous() if x.is_cuda and x.stride(-1) != 1 else x


def alone(x, values, patterns):
    """On a GPU, where kernels take one matrix and no batch: is it one?"""
    return x.is_cuda and patterns == 1 and x.shape[0] == 1 and (values is None or values.dim() == 3 or values.shape[0] == 1)


def product(x, values, pattern, sizes, turned):
    """multiply. One matrix on a GPU is a linear layer of x turned, which has a kernel there."""
    if not alone(x, values, sizes[-1]):
        return multiply(x, values, *pattern, *sizes, turned)
    values = values.squeeze(0) if values.dim() == 4 else values
    x = x.squeeze(0).t()
    y = linear_turned(x, values, *pattern, *sizes[:-1]) if turned else linear(x, values, *pattern, None, *sizes[:-1])
    return y.t().unsqueeze(0)


def sampled(a, c, pattern, sizes, scale):
    """sample."""
    if alone(a, None, sizes[-1]):
        a, c = (_beside(t.mT).mT for t in (a, c))
    return sample(a, c, *pattern, *sizes, scale)


class Linear(torch.autograd.Function):
    """linear with gradients. The pattern is no tensor to autograd, which would take and give back each; and of x and the values, what the gradients
    that are wanted do not need is not kept."""

    @staticmethod
    def forward(ctx, x, values, bias, pattern, sizes):
        want = ctx.needs_input_grad
        ctx.save_for_backward(x if want[1] else None, values if want[0] else None)
        ctx.pattern, ctx.sizes = pattern, sizes
        return linear_run(x, values, *pattern, bias, *sizes)

    @staticmethod
    def backward(ctx, dy):
        try:
            return *_linear_gradient(ctx, _beside(dy)), None, None
        except RuntimeError as error:
            raise told(error) from None


def _linear_gradient(ctx, dy):
    x, values = ctx.saved_tensors
    want, pattern, sizes = ctx.needs_input_grad, ctx.pattern, ctx.sizes
    turned, sampling = (linear_turned, sample) if torch.is_grad_enabled() else (linear_turned_run, sample_run)
    dx = turned(dy, values, *pattern, *sizes) if want[0] else None
    dv = sampling(_columns(dy), _columns(_beside(x)), *pattern, *sizes, 1, 1.0).squeeze(0) if want[1] else None
    db = dy.reshape(-1, dy.shape[-1]).sum(0) if want[2] else None
    return dx, dv, db


def _apply_linear(x, values, pos, crd, keep, index, bias, *sizes):
    return Linear.apply(x, values, bias, (pos, crd, keep, index), sizes)


def _turned_gradient(ctx, dy):
    x, values, *pattern = ctx.saved_tensors
    want = ctx.needs_input_grad
    dy = _beside(dy)
    dx = linear(dy, values, *pattern, None, *ctx.rest) if want[0] else None
    dv = sample(_columns(_beside(x)), _columns(dy), *pattern, *ctx.rest, 1, 1.0).squeeze(0) if want[1] else None
    return dx, dv, *(None,) * 8


def _multiply_gradient(ctx, dy):
    x, values, *pattern = ctx.saved_tensors
    want = ctx.needs_input_grad
    *sizes, turned = ctx.rest
    dx = product(dy, values, pattern, sizes, not turned) if want[0] else None
    dv = None
    if want[1]:
        dv = sampled(*((x, dy) if turned else (dy, x)), pattern, sizes, 1.0)
        dv = dv.sum(0) if dv.dim() > values.dim() else dv
    return dx, dv, *(None,) * 10


def _sample_gradient(ctx, dv):
    a, c, *pattern = ctx.saved_tensors
    want = ctx.needs_input_grad
    *sizes, scale = ctx.rest
    dv = dv if scale == 1 else dv * scale
    da = product(c, dv, pattern, sizes, False) if want[0] else None
    dc = product(a, dv, pattern, sizes, True) if want[1] else None
    return da, dc, *(None,) * 10


def _save_softmax(ctx, inputs, output):
    _, pos, crd, keep, index, *ctx.sizes, ctx.scale = inputs
    ctx.save_for_backward(output, pos, crd, keep, index)


def _softmax_gradient(ctx, dp):
    p, *pattern = ctx.saved_tensors
    return softmax_gradient(p, dp, *pattern, *ctx.sizes, ctx.scale), *(None,) * 10


def _softmax_second(ctx, d):
    """Of out = scale * p * (g - sum of p * g in the row), which is symmetric in g and d."""
    p, g, *pattern = ctx.saved_tensors
    want = ctx.needs_input_grad
    *sizes, scale = ctx.rest
    dp = dg = None
    if want[0]:
        dp = (d * (g - _row_sums(p * g, pattern, sizes)) - g * _row_sums(p * d, pattern, sizes)) * scale
    if want[1]:
        dg = softmax_gradient(p, d, *pattern, *sizes, scale)
    return dp, dg, *(None,) * 10


def _row_sums(values, pattern, sizes):
    """At each element, the sum of its row."""
    _, cols, _, _, patterns = sizes
    ones = values.new_ones(1, 1, 1).expand(values.shape[0] if values.dim() == 4 else patterns, cols, 1)
    return sample(multiply(ones, values, *pattern, *sizes, False), ones, *pattern, *sizes, 1.0).view_as(values)


# ---------------------------------------------------------------- autocast: products in the lower type, a softmax in the type it is given
def _autocast(operator, device):
    def call(*arguments):
        kind = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            return operator(*(_cast(argument, device, kind) for argument in arguments))

    return call


def _cast(argument, device, kind):
    if not isinstance(argument, torch.Tensor) or argument.device.type != device:
        return argument
    return argument.to(kind) if argument.is_floating_point() and argument.dtype != torch.float64 else argument


# ---------------------------------------------------------------- registration
_kernels = torch.library.Library("sparta", "IMPL")


def _function(run, save, gradient):
    """An operator with gradients. torch.library.register_autograd does the same in four times the time."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *arguments):
            result = run(*arguments)
            save(ctx, arguments, result)
            return result

        @staticmethod
        def backward(ctx, *gradients):
            try:
                return gradient(ctx, *gradients)
            except RuntimeError as error:
                raise told(error) from None

    return Function.apply


def _differentiable(run, function, reference):
    """The kernel of an operator with gradients. Where torch.func differentiates, which takes no autograd.Function from inside of an operator, it is
    the reference: right, and dense."""

    def call(*arguments):
        learns = torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments)
        if learns and torch._C._are_functorch_transforms_active():
            return reference(*arguments)
        return (function if learns else run)(*arguments)

    return call


def _tf32():
    """Whether products of float32 on CUDA may be rounded to tf32: torch's own setting."""
    return torch.backends.cuda.matmul.fp32_precision in ("tf32", "bf16")


def _tell():
    """Asked for once in a process, when there is a problem."""
    warnings.warn(f"sparta: GPU kernels are not used, dense products run instead: {problem()}", stacklevel=2)
    return True


def _no_index(pos, *rest):
    """On other devices, and on ROCm's, which calls itself CUDA."""
    return pos.new_empty(0)


def _without_gradients(name, run):
    """A product with a packed weight, which has none, and says so instead of losing them."""

    def call(*arguments):
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments):
            raise RuntimeError(f"sparta::{name}: it has no gradients; call it under torch.no_grad(), or use a dense product [E_UNSUPPORTED]")
        return run(*arguments)

    return call


def half_linear_run(*arguments):
    """half_linear for who knows that no gradients are wanted."""
    with torch._C._AutoDispatchBelowAutograd():
        return half_linear(*arguments)


def bits_linear_run(*arguments):
    """The same of bits_linear."""
    with torch._C._AutoDispatchBelowAutograd():
        return bits_linear(*arguments)


_kernels.impl("tf32", _tf32, "CompositeExplicitAutograd")
_kernels.impl("tell", _tell, "CompositeExplicitAutograd")
_kernels.impl("make_index", _no_index, "CompositeExplicitAutograd")
_kernels.impl("half_linear", _without_gradients("half_linear", half_linear_run), "Autograd")
_kernels.impl("bits_linear", _without_gradients("bits_linear", bits_linear_run), "Autograd")
for _name, _like, _saves, _gradient in (
    ("linear", _linear_like, None, None),
    ("linear_turned", _turned_like, _save, _turned_gradient),
    ("multiply", _multiply_like, _save, _multiply_gradient),
    ("sample", _sample_like, _save, _sample_gradient),
    ("softmax", _softmax_like, _save_softmax, _softmax_gradient),
    ("softmax_gradient", _softmax_like, _save, _softmax_second),
):
    _twin = getattr(_ops, _name + "_run").default
    _learning = _apply_linear if _saves is None else _function(_twin, _saves, _gradient)
    _kernels.impl(_name, _differentiable(_twin, _learning, _reference.OPERATORS[_name]), "Autograd")
    if hasattr(_ops, _name + "_dense"):
        _kernels.impl(_name + "_dense", _reference.OPERATORS[_name], "CompositeExplicitAutograd")
    for _operator in (getattr(_ops, _name).default, _twin):
        _kernels.impl(_operator, _reference.OPERATORS[_name], "CompositeExplicitAutograd")  # other devices
        torch.library.register_fake(_operator, _on_one_device(_name, _like))
        if not _name.startswith("softmax"):
            for _device in ("cpu", "cuda"):
                _kernels.impl(_operator, _autocast(_operator, _device), "Autocast" + _device.upper())
for _name, _like in (
    ("half_pack", _half_pack_like),
    ("half_linear", _packed_linear_like),
    ("bits_pack", _bits_pack_like),
    ("bits_linear", _packed_linear_like),
):
    torch.library.register_fake(getattr(_ops, _name).default, _on_one_device(_name, _like))
