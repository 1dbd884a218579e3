"""A weight with at most 2 of 4 neighbours along the inputs (2:4) on a GPU: packed for its tensor cores."""

import torch

from .. import _operators as ops
from ._packed import Packed

HOPPER = 9  # the compute capability that has its kernel


def is_half(mask):
    """Are at most 2 of 4 neighbours along the last dim there? One answer from the device."""
    fours = torch.nn.functional.pad(mask, (0, -mask.shape[-1] % 4)).unflatten(-1, (-1, 4))
    return bool((fours.sum(-1, dtype=torch.uint8) <= 2).all())


class Half(Packed):
    said = "2:4 on the GPU (forward without gradients); dense with gradients"

    @classmethod
    def made_for(cls, mask, values):
        """None: it is not 2:4, or the GPU has no kernel."""
        if torch.cuda.get_device_capability(values.device)[0] != HOPPER or not is_half(mask):
            return None
        return cls(tuple(mask.shape), values)

    def _pack(self, weight):
        return ops.half_pack(weight)

    def _run(self, x, packed, bias):
        return ops.half_linear_run(x, packed, bias, *self.shape)
