"""Masks that users give, as booleans. Whatever is wrong is said before anything is changed."""

import torch

from . import _arrays


def as_bool(mask, name):
    """What says 0 where an element is gone, as a dense boolean tensor: the one given, where it is that already."""
    if not isinstance(mask, torch.Tensor):
        if _arrays.is_masked(mask):
            raise TypeError(f"{name}: a mask is no masked array, whose own mask would be lost; give .filled(0) of it")
        if not hasattr(mask, "__array__") and not isinstance(mask, (list, tuple)):
            raise TypeError(f"{name}: a mask is a tensor or an array, not {type(mask).__name__}; give 0 where an element is gone")
        try:
            mask = torch.as_tensor(mask)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"{name}: a mask is a tensor or an array of bool or numbers, which this {type(mask).__name__} is not") from None
    if mask.dtype.is_complex:
        raise TypeError(f"{name}: a mask of {mask.dtype} says neither yes nor no; give bool or numbers")
    mask = mask.detach()
    if mask.layout != torch.strided:
        mask = mask.to_dense()
    if mask.dtype.is_floating_point and not mask.is_meta and bool(mask.isnan().any()):
        raise ValueError(f"{name}: the mask has NaN; give 0 where an element is gone and 1 elsewhere")
    return mask if mask.dtype == torch.bool else mask != 0


def _need_values(mask, name):
    """What only looks like a tensor of numbers is refused by name."""
    if _arrays.is_wrapper(mask) or mask.is_nested:
        raise TypeError(f"{name}: a mask is a plain tensor, not a {'nested one' if mask.is_nested else type(mask).__name__}")
    if mask.layout == torch.strided and not mask.is_meta and not _arrays.reaches(mask):
        raise ValueError(f"{name}: the mask's memory is smaller than its sizes say; was its storage resized?")


def check_mask(mask, name, shape=None, dims=(2,), device=None, meta=False):
    """The mask as a boolean tensor of so many dimensions, the last of which are this shape. meta: one without values is for a module without any."""
    if isinstance(mask, torch.Tensor):
        _need_values(mask, name)
    mask = as_bool(mask, name)
    if device is not None and mask.device != torch.device(device):
        raise ValueError(f"{name}: the mask is on {mask.device}, the module on {device}; move one with .to()")
    if mask.is_meta and device is None and not meta:
        raise ValueError(f"{name}: the mask is on meta, where it has no values")
    if mask.dim() not in dims:
        raise ValueError(f"{name}: a mask of shape {tuple(mask.shape)}; it needs {' or '.join(map(str, dims))} dimensions")
    if shape is not None and tuple(mask.shape[-len(shape) :]) != tuple(shape):
        raise ValueError(f"{name}: the mask is {tuple(mask.shape)}, wanted {tuple(shape)}")
    return mask
