"""A packed copy of a weight, for kernels of a GPU that want it in an order of their own, without gradients.

The copy is made when it is first needed, and again when the values have changed: another tensor, another version of it (what optimizers and
every write in place leave), or a forward with gradients or a switch between train() and eval() since, after which writes through .data are seen too;
the layer's repack() says that there were some. While a CUDA graph is captured, whose replays have to see what the values are then, and in everything
that changes what calls mean (torch.compile, autocast, torch.func), the dense product runs.
"""

import torch

from .. import _operators as ops
from ._products import is_whole

TYPES = (torch.float16, torch.bfloat16)
STEP = 8  # elements from a token to the next are a multiple of it
# What a GPU, a driver or strides have no kernel for.
UNTAKEN = ("E_UNSUPPORTED", "E_COMPILER", "E_DEVICE")


class Packed:
    """Kinds have `said` of them, and _pack, _run; _takes where they do not take every x."""

    said = ""

    def __init__(self, shape, values):
        self.shape, self.owner = shape, values
        self.made = None  # where the values lay, their version, and what was packed of them

    def of(self, values):
        """The same for another parameter."""
        return type(self)(self.shape, values)

    def linear(self, x, values, bias, matrix):
        """x (..., cols) by the weight; None: the dense product has to do it. `matrix` gives the weight (rows, cols) with 0 where nothing is."""
        if torch.compiler.is_compiling() or type(x) is not torch.Tensor:
            return None
        if torch.is_grad_enabled() and (values.requires_grad or x.requires_grad or (bias is not None and bias.requires_grad)):
            self.made = None
            return None
        if x.dtype != values.dtype or x.shape[-1:] != self.shape[1:] or not self._takes(x) or not self._may(values):
            return None
        try:
            return self._run(x, self._copy(values, matrix), bias)
        except RuntimeError as error:
            told = ops.told(error)
            if getattr(told, "status", None) in UNTAKEN:
                return None
            raise told from None

    def _takes(self, x):
        return x.is_cuda

    def _may(self, values):
        # Another parameter that nobody gave the module: FSDP and functional_call put one in its place while a forward runs, and write to it unseen.
        if values is not self.owner or values.is_inference() or torch.cuda.is_current_stream_capturing():
            return False
        return not (torch.is_autocast_enabled("cuda") or torch._C._are_functorch_transforms_active())

    def _copy(self, values, matrix):
        made = self.made
        if made is None or made[0] != values.data_ptr() or made[1] != values._version:
            packed = self._pack(matrix().detach())
            if int(packed[-1]):  # also waits: other streams may use it now
                raise RuntimeError(f"sparta::{type(self).__name__.lower()}_pack: the weight has elements that its mask has not [E_INTERNAL]")
            self.made = made = values.data_ptr(), values._version, packed
        return made[2]

    def _pack(self, weight):
        raise NotImplementedError

    def _run(self, x, packed, bias):
        raise NotImplementedError


def mask_to_pack(blocks, values):
    """The mask of a weight that no kernel of blocks takes, on a GPU that could take it packed; None: there is nothing to pack."""
    if torch.compiler.is_compiling() or type(values.data) is not torch.Tensor or not values.is_cuda or values.dtype not in TYPES:
        return None
    if blocks.patterns != 1 or not all(size and size % STEP == 0 for size in blocks.shape) or torch.cuda.is_current_stream_capturing():
        return None
    if torch.version.hip:
        return None
    if is_whole(blocks):
        return None if blocks.keep is None else blocks.keep[0]
    return blocks.mask() if (blocks if blocks.prepared else blocks.prepare()).index is None else None
