"""SparseConv2d: a convolution with a sparse weight, seen as the matrix (outputs, inputs * height * width)."""

from typing import Any

import torch
from torch.nn.functional import conv2d, pad, unfold

from .. import _torch
from ._mask import choose_blocks
from ._products import is_whole
from ._weight import SparseWeight


class SparseConv2d(SparseWeight):
    """A convolution whose weight has elements only where the mask says.

    >>> import torch, sparta
    >>> dense = torch.nn.Conv2d(16, 32, 3, padding=1)
    >>> sparse = sparta.nn.SparseConv2d(dense, pattern="1x1:0.9")
    >>> x = torch.ones(1, 16, 8, 8)
    >>> torch.allclose(sparse(x), torch.nn.functional.conv2d(x, sparse.weight, dense.bias, padding=1), atol=1e-5)
    True

    In blocks it runs as a sparse product over the unfolded input, otherwise as torch's dense convolution. Unless a format is asked for or tune()
    finds the blocks faster, only 1x1 kernels, which need no unfolding, run in blocks. Groups run dense.
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    in_channels: int
    padding_mode: str

    def __init__(self, raw_module: torch.nn.Conv2d, weight_mask: Any = None, *, pattern: str | None = None, format: Any = None) -> None:
        super().__init__()
        if not isinstance(raw_module, torch.nn.Conv2d):
            raise TypeError(f"SparseConv2d: raw_module is a {type(raw_module).__name__}; give a torch.nn.Conv2d")
        for name in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"):
            setattr(self, name, getattr(raw_module, name))
        # On each side, last dimension first, as torch.nn.functional.pad takes it; "same" may be uneven.
        self._pads = list(raw_module._reversed_padding_repeated_twice)
        self._take_weight(raw_module, weight_mask, pattern, format)
        self._take_bias(raw_module)

    def _choose(self, mask):
        whole = tuple(mask.shape)
        if self.groups > 1:
            return choose_blocks(mask, whole)[0], f"dense convolution: {self.groups} groups have no sparse product"
        if self._asked is None and tuple(self.kernel_size) != (1, 1):
            return choose_blocks(mask, whole)[0], "dense convolution: unfolding may cost what the zeros save; tune() measures it"
        return choose_blocks(mask, self._asked)

    def _config_blocks(self, config):
        blocks, reason = super()._config_blocks(config)
        if self.groups > 1 and not is_whole(blocks) and blocks.crd.numel():
            raise ValueError(f"SparseConv2d: {self.groups} groups have no sparse product; take {{'block': 'dense'}}")
        return blocks, reason

    def configs(self) -> list[dict]:
        return super().configs()[: 1 if self.groups > 1 else None]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if not isinstance(input, torch.Tensor) or input.dim() not in (3, 4) or input.shape[-3] != self.in_channels:
            said = tuple(input.shape) if isinstance(input, torch.Tensor) else type(input).__name__
            raise ValueError(f"SparseConv2d: the input is {said}; give (items, {self.in_channels}, height, width)")
        if input.dtype != self.values.dtype and not torch.is_autocast_enabled(input.device.type):
            raise TypeError(f"SparseConv2d: the input is {input.dtype}, the module {self.values.dtype}; convert one with .to()")
        if self._packed:
            return self._unfolded(input, self.values, self._blocks, self.bias)
        return self._dense(input, self._whole_weight().view(self._weight_shape), self.bias)

    def _padded(self, x):
        mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
        return pad(x, self._pads, mode=mode) if any(self._pads) else x

    def _dense(self, x, weight, bias):
        return conv2d(self._padded(x), weight, bias, self.stride, 0, self.dilation, self.groups)

    def _unfolded(self, x, values, blocks, bias):
        if self.groups > 1:  # the empty mask of a grouped convolution
            return self._dense(x, blocks.unpack(values).reshape(self._weight_shape), bias)
        single = x.dim() == 3
        x = self._padded(x.unsqueeze(0) if single else x)
        size = [(x.shape[2 + k] - self.dilation[k] * (self.kernel_size[k] - 1) - 1) // self.stride[k] + 1 for k in (0, 1)]
        if tuple(self.kernel_size) == (1, 1):
            columns = x[:, :, :: self.stride[0], :: self.stride[1]].flatten(2)
        else:
            columns = unfold(x, self.kernel_size, self.dilation, 0, self.stride)
        out = _torch.multiply(values, blocks, columns).unflatten(2, size)
        out = out if bias is None else out + bias.to(out.dtype)[:, None, None]
        return out[0] if single else out

    def _trial(self, config, inputs):
        weight, blocks, bias = self._trial_weight(config)
        (x,) = inputs
        return (lambda: self._dense(x, weight, bias)) if is_whole(blocks) else (lambda: self._unfolded(x, weight, blocks, bias))

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, {self.reason}"
