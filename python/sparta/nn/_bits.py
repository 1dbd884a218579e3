"""An unstructured weight on a GPU for few tokens: a bit for each pair of neighbours along the inputs, and the pairs that are there. With so few
tokens a product takes the time of reading its weight, so fewer bytes are less time; with more of them the dense product is faster."""

import torch

from .. import _operators as ops
from .._library import lib, numbers
from ._packed import Packed

AMPERE = 8  # the first compute capability that has its kernel
# What paid on an H200 (docs/benchmarks/gpu.md): up to so many tokens (1.6x with 16, 0.9x with 64, which the kernel takes, too), so much of the dense
# weight's bytes (1.1x at 79 %, which random masks reach at half of the elements), from so many elements on (1.2x at 4096 x 4096).
MOST_TOKENS = 16
BREAK_EVEN = 0.8
LEAST = 1 << 24


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
