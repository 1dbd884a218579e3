"""An unstructured weight on a GPU for few tokens: a bit for each pair of neighbours along the inputs, and the pairs that are there. With so few
tokens a product takes the time of reading its weight, so fewer bytes are less time; with more of them the dense product is faster."""

import torch

from .. import _operators as ops
from .._library import lib, numbers
from ._packed import Packed

AMPERE = 8  # the first compute capability that has its kernel
MOST_TOKENS = 64
# Bytes of the packed weight over those of the dense one, up to which it is used: both are read once, and unpacking takes some of the bandwidth. Random
# masks reach this at half of the elements.
BREAK_EVEN = 0.8
# Elements of a weight from which it is used: smaller ones take the time of a launch, whichever way.
LEAST = 1 << 22


def count_pairs(mask):
    """Pairs of neighbours along the last dim of which one is there. One answer from the device."""
    return int(torch.nn.functional.pad(mask, (0, mask.shape[-1] % 2)).unflatten(-1, (-1, 2)).any(-1).sum())


def packed_bytes(dtype, shape, pairs):
    return lib.sparta_bits_bytes(numbers["SPARTA_F16" if dtype == torch.float16 else "SPARTA_BF16"], *shape, pairs)


class Bits(Packed):
    said = (
        f"unstructured on the GPU for 1 to {MOST_TOKENS} tokens (forward without gradients); dense for more, where it is faster, and with gradients"
    )

    def __init__(self, shape, values, pairs):
        super().__init__(shape, values)
        self.pairs = pairs

    @classmethod
    def made_for(cls, mask, values):
        """None: it would not pay, or the GPU has no kernel."""
        rows, cols = mask.shape
        if torch.cuda.get_device_capability(values.device)[0] < AMPERE or rows * cols < LEAST:
            return None
        pairs = count_pairs(mask)
        pays = 0 < packed_bytes(values.dtype, mask.shape, pairs) <= BREAK_EVEN * rows * cols * values.element_size()
        return cls((rows, cols), values, pairs) if pays else None

    def of(self, values):
        return Bits(self.shape, values, self.pairs)

    def _takes(self, x):
        return x.is_cuda and 0 < x.numel() <= MOST_TOKENS * self.shape[1]

    def _pack(self, weight):
        return ops.bits_pack(weight, self.pairs)

    def _run(self, x, packed, bias):
        return ops.bits_linear_run(x, packed, bias, *self.shape)
