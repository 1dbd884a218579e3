"""SparseWeight: what modules with a sparse weight share. The weight is a matrix (rows, cols) that holds its elements only: the Parameter `values`
(blocks, h, w), which stays the same object whatever the pattern becomes. One block of the whole matrix is a dense weight.

Pruned weights stay gone: slots of a block that the mask leaves out get no gradient, so neither momentum nor weight decay moves them, and they are
set to 0 whenever something else wrote them.
"""

import math
import sys
from typing import Any

import torch

from ._mask import block_of, check_mask, choose_blocks, mask_of, takes
from ._products import is_whole
from ._repack import repack, replace
from .base import OperatorBase


class SparseWeight(OperatorBase):
    values: torch.nn.Parameter
    bias: torch.nn.Parameter | None

    # ---------------------------------------------------------------- made of a dense module
    def _take_weight(self, raw_module, weight_mask, pattern, format):
        """Prunes the raw module's weight to the mask or the pattern and takes what is left."""
        if (weight_mask is None) == (pattern is None):
            raise ValueError(f"{type(self).__name__}: {'nothing' if pattern is None else 'both'} given; give weight_mask or pattern")
        weight, named = raw_module.weight.detach(), None
        self._weight_shape = tuple(weight.shape)
        if pattern is not None:
            mask, named = mask_of(weight, pattern)
            mask = self._matrix(mask)
        else:
            mask = self._check_weight_mask(weight_mask, weight.device)
        self._asked = block_of(format, mask.shape)
        blocks, reason = self._choose(mask)
        if named is not None and mask.is_cuda and (named[0] == named[1] or not takes(named)):
            named = None  # the rule has compared the squares
        if named is not None and self._asked is None and not is_whole(blocks) and len(self._weight_shape) == 2:
            blocks, reason = choose_blocks(mask, named)
        self.values = torch.nn.Parameter(blocks.pack(self._matrix(weight)).contiguous(), raw_module.weight.requires_grad)
        self._set_blocks(blocks, reason)

    def _take_bias(self, raw_module):
        bias = raw_module.bias
        self.register_parameter("bias", None if bias is None else torch.nn.Parameter(bias.detach().clone(), bias.requires_grad))
        self.training = raw_module.training

    def _matrix(self, weight):
        return weight.reshape(weight.shape[0], math.prod(weight.shape[1:]))

    def _check_weight_mask(self, mask, device=None, name="weight_mask"):
        dims = (len(self._weight_shape),)
        return self._matrix(check_mask(mask, f"{type(self).__name__}: {name}", self._weight_shape, dims, device))

    def _choose(self, mask):
        """Blocks and why."""
        return choose_blocks(mask, self._asked)

    # ---------------------------------------------------------------- the weight
    @property
    def weight(self) -> torch.Tensor:
        """The weight, dense; differentiable."""
        return self._blocks.unpack(self.values).reshape(self._weight_shape)

    def _set_blocks(self, blocks, reason=None):
        super()._set_blocks(blocks, reason)
        self._packed = not is_whole(blocks)
        self._seen = None  # a whole block that is known to be 0 wherever `keep` says so: where it lies, its version, and it as a matrix

    def _refresh(self):
        super()._refresh()
        self._seen = None

    def _whole_weight(self):
        """The one block, 0 wherever the mask left something out; with gradients only where it did not."""
        values, seen = self.values, self._seen
        if (torch.is_grad_enabled() and values.requires_grad) or torch.compiler.is_compiling() or values.is_inference():
            return (values if self.keep is None else torch.where(self.keep, values, 0))[0]
        if seen is None or seen[0] != values.data_ptr() or seen[1] != values._version:
            if self.keep is not None:
                values.data.masked_fill_(~self.keep, 0)
            self._seen = seen = values.data_ptr(), values._version, values.detach()[0]
        return seen[2]

    def repack(self) -> None:
        """Drops what was made of the values (the packed copy of a weight), which the next forward makes again. Say it after writes through .data,
        which torch does not count."""
        self._seen = None

    def train(self, mode: bool = True) -> Any:
        """As torch's; what was made of the values is dropped."""
        self.repack()
        return super().train(mode)

    # ---------------------------------------------------------------- other patterns
    def update_mask(self, mask: Any, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Takes another mask. Values stay as trained, elements that come back start at 0; what the optimizer remembers moves along
        (`optimizer` need be given only where it is none of torch.optim's kind). Wrap the model in DistributedDataParallel again afterwards: it
        remembers sizes."""
        blocks, reason = self._choose(self._check_weight_mask(mask, self._blocks.pos.device))
        self._change(blocks, reason, optimizer)
        self.ready = False
        for said_of_the_old in ("measured", "pattern"):
            self.__dict__.pop(said_of_the_old, None)

    def _change(self, blocks, reason, optimizer=None):
        repack(self.values, self._blocks, blocks, optimizer)
        self._set_blocks(blocks, reason)

    def _trial_weight(self, config):
        """The weight in a configuration (the matrix where it is whole, else values), its pattern and the bias: copies, for timing."""
        blocks, _ = self._config_blocks(config)
        dense = self._blocks.unpack(self.values.detach())
        weight = dense.reshape(self._weight_shape) if is_whole(blocks) else blocks.pack(dense).contiguous()
        bias = None if self.bias is None else self.bias.detach().requires_grad_(self.bias.requires_grad)
        return weight.requires_grad_(self.values.requires_grad), blocks, bias

    # ---------------------------------------------------------------- checkpoints
    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """As torch's; into a folder that other programs read, which save_pretrained writes, goes the dense module that this was."""
        if not _asked_by("save_pretrained"):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            return
        if getattr(self, "mode", "weight") != "weight":
            raise ValueError(
                f"save_pretrained: {prefix.rstrip('.')} is a {type(self).__name__} with a mask of its {self.mode}, which no dense layer answers as; "
                "save the model's state_dict with torch.save"
            )
        destination[prefix + "weight"] = self.weight.detach()
        if self.bias is not None:
            destination[prefix + "bias"] = self.bias if keep_vars else self.bias.detach()

    def __getstate__(self):
        return {**self.__dict__, "_seen": None, "_copy": None}

    def _pattern_of(self, state, prefix):
        values = state.get(prefix + "values")
        if values is None and isinstance(state.get(prefix + "weight"), torch.Tensor):
            return self._dense_checkpoint(state, prefix)
        blocks, where = super()._pattern_of(state, prefix), f"{prefix}{type(self).__name__}"
        if blocks is not None and (blocks.shape != self._blocks.shape or blocks.patterns != 1):
            raise ValueError(f"{where}: the checkpoint's weight is {blocks.shape}; this layer's is {self._blocks.shape}")
        if blocks is not None and (not isinstance(values, torch.Tensor) or tuple(values.shape) != (blocks.crd.numel(), *blocks.block)):
            raise ValueError(f"{where}: values do not have the shape {(blocks.crd.numel(), *blocks.block)} that the pattern asks for")
        return blocks

    def _dense_checkpoint(self, state, prefix):
        """A dense weight, with its mask where it brings one: the module's own pattern is filled, or the mask's."""
        weight, mask = state[prefix + "weight"], state.get(prefix + "weight_mask")
        if tuple(weight.shape) != self._weight_shape:
            raise ValueError(f"{prefix}{type(self).__name__}: the checkpoint's weight is {tuple(weight.shape)}; this layer's is {self._weight_shape}")
        blocks = self._blocks
        if mask is not None:
            blocks, _ = self._choose(self._check_weight_mask(mask, name=prefix + "weight_mask").to(self.pos.device))
        del state[prefix + "weight"]
        state.pop(prefix + "weight_mask", None)
        state[prefix + "values"] = blocks.pack(self._matrix(weight.detach().to(blocks.pos.device))).contiguous()
        state[prefix + "pos"], state[prefix + "crd"] = blocks.pos, blocks.crd
        if blocks.keep is not None:
            state[prefix + "keep"] = blocks.keep
        state[prefix + "_extra_state"] = torch.tensor([*blocks.shape, *blocks.block, 1])
        return blocks

    def _adopt(self, blocks):
        if self.values.shape != (blocks.crd.numel(), *blocks.block):
            replace(self.values, self.values.new_zeros(blocks.crd.numel(), *blocks.block))
        super()._adopt(blocks)


def _asked_by(name):
    """Is a function of this name among those that led here?"""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame is not None
