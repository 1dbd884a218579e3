"""Products with one sparse matrix, and the softmax of one, for torch tensors; differentiable.

    linear(x, values, blocks, bias)      x (..., cols) by a sparse weight (rows, cols)          -> (..., rows)
    multiply(values, blocks, x)          sparse (rows, cols) times x (cols, f)                  -> (rows, f)      turned: (cols, rows) times (rows, f)
    sample(a, c, blocks, scale)          scale * a (rows, f) times c (cols, f) turned, at the elements of the pattern     -> values
    softmax(values, blocks, scale)       of scale * values, row by row                          -> values      a row without elements is 0

multiply, sample and softmax take batches: of x, a and c (batch, ., f), of values as _blocks.py says. Elements that the pattern does not keep are 0.
These four are closed under gradients: those of each are made of the others.

The work is done by torch.ops.sparta (_operators.py). What they refuse is a ValueError, a TypeError or a MemoryError here.
"""

import torch

from . import _operators as ops

_PLAIN = (torch.Tensor, torch.nn.Parameter, type(None))
_compiles = torch.compiler.is_compiling
_autocasts, _transforms, _traces = torch._C._is_any_autocast_enabled, torch._C._are_functorch_transforms_active, torch._C._is_tracing
_dispatch_modes, _function_modes = torch._C._len_torch_dispatch_stack, torch._C._len_torch_function_stack


def _bare(x, values, bias):
    """Does nobody look for the operator, neither a compiler nor autocast, torch.func, a mode or a tensor of another kind?"""
    if _compiles() or type(x) not in _PLAIN or type(values) not in _PLAIN or type(bias) not in _PLAIN:
        return False
    return not (_autocasts() or _transforms() or _traces() or _dispatch_modes() or _function_modes())


def linear(x, values, blocks, bias=None):
    learns = torch.is_grad_enabled() and (values.requires_grad or x.requires_grad or (bias is not None and bias.requires_grad))
    pattern = blocks.pos, blocks.crd, blocks.keep, blocks.indexed() if values.is_cuda else None
    try:
        # The operator with gradients goes through Python and back, for half of the time of a small layer.
        if not learns:
            return ops.linear_run(x, values, *pattern, bias, *blocks.sizes)
        if _bare(x, values, bias):
            return ops.Linear.apply(x, values, bias, pattern, blocks.sizes)
        return ops.linear(x, values, *pattern, bias, *blocks.sizes)
    except RuntimeError as error:
        raise ops.told(error) from None


def multiply(values, blocks, x, turned=False):
    batch = _batch(values, blocks)
    if x.dim() == 2 or (x.shape[0] == 1 and batch):
        x, alone = x.expand(batch or 1, *x.shape[-2:]), not batch
    else:
        alone = False
    if values.dim() == 4 and values.shape[0] == 1:
        values = values.squeeze(0)
    try:
        out = ops.product(x, values, *_pattern(blocks), turned)
    except RuntimeError as error:
        raise ops.told(error) from None
    return out.squeeze(0) if alone else out


def sample(a, c, blocks, scale=1.0):
    batch = blocks.patterns if blocks.patterns > 1 else max(a.shape[0] if a.dim() == 3 else 1, c.shape[0] if c.dim() == 3 else 1)
    alone = blocks.patterns == 1 and a.dim() == c.dim() == 2
    a, c = (t.expand(batch, *t.shape[-2:]) if t.dim() == 2 or t.shape[0] == 1 else t for t in (a, c))
    try:
        out = ops.sampled(a, c, *_pattern(blocks), scale)
    except RuntimeError as error:
        raise ops.told(error) from None
    return out.squeeze(0) if alone else out


def softmax(values, blocks, scale=1.0):
    pattern, sizes = _pattern(blocks)
    try:
        return ops.softmax(values, *pattern, *sizes, scale)
    except RuntimeError as error:
        raise ops.told(error) from None


def _pattern(blocks):
    """Where the elements are, and sizes."""
    return (blocks.pos, blocks.crd, blocks.keep, blocks.indexed() if blocks.pos.is_cuda else None), (*blocks.sizes, blocks.patterns)


def _batch(values, blocks):
    """Matrices in the values, 0 for one without a batch."""
    return values.shape[0] if values.dim() == 4 else blocks.patterns if blocks.patterns > 1 else 0
