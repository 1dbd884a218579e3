"""A weight with at most 2 of 4 neighbours along the inputs (2:4) on a GPU: packed for its tensor cores, without gradients.

The packed copy is made when it is first needed, and again when the values have changed: another tensor, another version of it (what optimizers and
every write in place leave), or a forward with gradients or a switch between train() and eval() since, after which writes through .data are seen too;
the layer's repack() says that there were some. While a CUDA graph is captured, whose replays have to see what the values are then, and in everything
that changes what calls mean (torch.compile, autocast, torch.func), the dense product runs.
"""

import torch

from .. import _operators as ops
from ._products import is_whole

SAID = "2:4 on the GPU (forward without gradients); dense with gradients"
TYPES = (torch.float16, torch.bfloat16)
HOPPER = 9  # the compute capability that has its kernel
STEP = 8  # elements from a token to the next are a multiple of it
# What a GPU, a driver or strides have no kernel for.
UNTAKEN = ("E_UNSUPPORTED", "E_COMPILER", "E_DEVICE")


def is_half(mask):
    """Are at most 2 of 4 neighbours along the last dim there? One answer from the device."""
    fours = torch.nn.functional.pad(mask, (0, -mask.shape[-1] % 4)).unflatten(-1, (-1, 4))
    return bool((fours.sum(-1, dtype=torch.uint8) <= 2).all())


def half_of(blocks, values):
    """The packed form of such a weight; None: it is none, or its blocks have a kernel of their own."""
    if torch.compiler.is_compiling() or type(values.data) is not torch.Tensor or not values.is_cuda or values.dtype not in TYPES:
        return None
    if blocks.patterns != 1 or not all(size and size % STEP == 0 for size in blocks.shape) or torch.cuda.is_current_stream_capturing():
        return None
    if torch.version.hip or torch.cuda.get_device_capability(values.device)[0] != HOPPER:
        return None
    if is_whole(blocks):
        mask = None if blocks.keep is None else blocks.keep[0]
    else:
        mask = blocks.mask() if (blocks if blocks.prepared else blocks.prepare()).index is None else None
    return Half(blocks.shape, values) if mask is not None and is_half(mask) else None


class Half:
    def __init__(self, shape, values):
        self.shape, self.owner = shape, values
        self.made = None  # where the values lay, their version, and what was packed of them

    def linear(self, x, values, bias, matrix):
        """x (..., cols) by the weight; None: the dense product has to do it. `matrix` gives the weight (rows, cols) with 0 where nothing is."""
        if torch.compiler.is_compiling() or type(x) is not torch.Tensor:
            return None
        if torch.is_grad_enabled() and (values.requires_grad or x.requires_grad or (bias is not None and bias.requires_grad)):
            self.made = None
            return None
        if x.dtype != values.dtype or not x.is_cuda or x.shape[-1:] != self.shape[1:] or not self._may(values):
            return None
        try:
            return ops.half_linear_run(x, self._packed(values, matrix), bias, *self.shape)
        except RuntimeError as error:
            told = ops.told(error)
            if getattr(told, "status", None) in UNTAKEN:
                return None
            raise told from None

    def _may(self, values):
        # Another parameter that nobody gave the module: FSDP and functional_call put one in its place while a forward runs, and write to it unseen.
        if values is not self.owner or values.is_inference() or torch.cuda.is_current_stream_capturing():
            return False
        return not (torch.is_autocast_enabled("cuda") or torch._C._are_functorch_transforms_active())

    def _packed(self, values, matrix):
        made = self.made
        if made is None or made[0] != values.data_ptr() or made[1] != values._version:
            packed = ops.half_pack(matrix().detach())
            if int(packed[-1]):  # also waits: other streams may use it now
                raise RuntimeError("sparta::half_pack: more than 2 of 4 neighbours of the weight are there [E_INTERNAL]")
            self.made = made = values.data_ptr(), values._version, packed
        return made[2]
