"""SparseLinear: a linear layer whose weight, input or output is sparse.

weight    y = x W' + b      W holds its elements only (_weight.py)
input     y = x W' + b      x has elements only where the mask says; W is dense
output    y = x W' + b      y has elements only where the mask says, and is 0 elsewhere; W is dense
"""

from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.functional import linear as dense_linear

from .. import _points, _torch
from ._bits import Bits
from ._half import Half
from ._mask import ON_GPU, SEVERAL, block_of, check_mask, choose_blocks
from ._packed import mask_to_pack
from ._products import is_whole, multiply, sample
from ._weight import SparseWeight
from .base import OperatorBase

_linear = _torch.linear
_COPIES = (Half, Bits)  # ways to pack a weight for a GPU; the first that takes its mask


def _packed_of(blocks, values):
    """The packed form of a weight; None: it has none."""
    mask = mask_to_pack(blocks, values)
    return None if mask is None else next(filter(None, (kind.made_for(mask, values) for kind in _COPIES)), None)


class SparseLinear(SparseWeight):
    """A linear layer with a sparse weight, input or output.

    >>> import torch, sparta
    >>> dense = torch.nn.Linear(64, 32)
    >>> sparse = sparta.nn.SparseLinear(dense, pattern="4x1:0.9")
    >>> sparse(torch.rand(2, 5, 64)).shape
    torch.Size([2, 5, 32])
    >>> torch.allclose(sparse(torch.ones(64)), torch.nn.functional.linear(torch.ones(64), sparse.weight, dense.bias), atol=1e-5)
    True

    Exactly one of the masks (0 where an element is gone) or a pattern ("4x1:0.9", "2:4": by magnitude) says what is there. `format` ("csr",
    "strip(4)", "bsr(8,8)", "dense") says how it is held; without one a rule does, and tune() or build(sample_inputs=...) measure. The raw module's
    parameters are copied.
    """

    _batches = False

    def __init__(
        self,
        raw_module: torch.nn.Linear,
        input_mask: Any = None,
        weight_mask: Any = None,
        output_mask: Any = None,
        *,
        pattern: str | None = None,
        format: Any = None,
    ) -> None:
        super().__init__()
        if not isinstance(raw_module, torch.nn.Linear):
            raise TypeError(f"SparseLinear: raw_module is a {type(raw_module).__name__}; give a torch.nn.Linear")
        given = {"input": input_mask, "weight": weight_mask, "output": output_mask, "pattern": pattern}
        names = [name for name, what in given.items() if what is not None]
        if len(names) != 1:
            raise ValueError(
                f"SparseLinear: {' and '.join(names) or 'nothing'} given; give exactly one of input_mask, weight_mask, output_mask and pattern"
            )
        self.in_features, self.out_features = raw_module.in_features, raw_module.out_features
        self.mode = names[0] if names[0] != "pattern" else "weight"
        if self.mode == "weight":
            self._take_weight(raw_module, weight_mask, pattern, format)
        else:
            mask = self._check_activation(given[self.mode], raw_module.weight.device)
            self._asked = block_of(format, mask.shape)
            # Beside the property of this name, which register_parameter would take for another attribute.
            self._parameters["weight"] = torch.nn.Parameter(raw_module.weight.detach().clone(), raw_module.weight.requires_grad)
            self._set_blocks(*choose_blocks(mask, self._asked))
        self._take_bias(raw_module)

    def _check_activation(self, mask, device):
        return check_mask(mask, f"SparseLinear: {self.mode}_mask", (self._columns(),), device=device)

    def _columns(self):
        return self.in_features if self.mode == "input" else self.out_features

    @property
    def weight(self) -> torch.Tensor:
        """The weight, dense; differentiable."""
        kept: Any = self._parameters.get("weight")
        return self._blocks.unpack(self.values) if kept is None else kept

    def _set_blocks(self, blocks, reason=None):
        super()._set_blocks(blocks, reason)
        self._packed = self.mode == "weight" and not is_whole(blocks)

    def _prepare(self):
        for kind in _COPIES:
            self.reason = self.reason.removeprefix(kind.said + ". ")
        super()._prepare()
        self._copy = _packed_of(self._blocks, self.values) if self.mode == "weight" else None
        if self._copy is not None:
            self.reason = f"{self._copy.said}. {self.reason}"
        if self.mode != "weight" and self.reason.endswith(ON_GPU):
            self.reason += SEVERAL

    def repack(self) -> None:
        """As SparseWeight.repack."""
        super().repack()
        if self._copy is not None:
            self._copy.made = None

    def register_parameter(self, name: str, param: torch.nn.Parameter | None) -> None:
        super().register_parameter(name, param)
        if name == "values" and param is not None and self.__dict__.get("_copy") is not None:
            self._copy = self._copy.of(param)

    # ---------------------------------------------------------------- running
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        try:
            if self._copy is not None and (y := self._copy.linear(input, self.values, self.bias, self._dense_weight)) is not None:
                return y
            if self._packed:
                own = self._parameters  # where self.values finds it, too: both take a fifth of a small call's time
                found = not is_compiling() and "values" in own and "bias" in own
                values, bias = (own["values"], own["bias"]) if found else (self.values, self.bias)
                return _linear(input, values, self._blocks, bias)
            return dense_linear(input, self._whole_weight(), self.bias) if self.mode == "weight" else self._sparse_activation(input)
        except (RuntimeError, TypeError, ValueError):
            self._explain(input)
            raise

    def _dense_weight(self):
        return self._blocks.unpack(self.values) if self._packed else self._whole_weight()

    def _sparse_activation(self, x, blocks=None):
        blocks = blocks or self._blocks
        rows, shape = blocks.shape[0], x.shape
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise TypeError
        if x.dim() < 2 or x.shape[-2] != rows:
            if x.numel() != rows * self.in_features:
                raise ValueError(
                    f"SparseLinear: the input is {tuple(shape)}, the {self.mode} mask has {rows} rows; give (..., {rows}, {self.in_features})"
                )
            x = x.reshape(rows, self.in_features)
        x = x.reshape(-1, *x.shape[-2:]) if x.dim() > 2 else x
        out = self._sparse_input(x, blocks) if self.mode == "input" else self._sparse_output(x, blocks)
        return out.reshape(*shape[:-1], self.out_features)

    def _sparse_input(self, x, blocks):
        out = multiply(blocks.pack(x), blocks, self.weight.t().expand(*x.shape[:-2], -1, -1))
        return out if self.bias is None else out + self.bias.to(out.dtype)

    def _sparse_output(self, x, blocks):
        values = sample(x, self.weight.expand(*x.shape[:-2], -1, -1), blocks)
        if self.bias is not None:
            values = values + blocks.pack(self.bias.to(values.dtype).expand(blocks.shape))
        return blocks.unpack(values)

    def _explain(self, x):
        """Says what is wrong with an input that could not be run; nothing where it is not the input."""
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"SparseLinear: the input is a {type(x).__name__}; give a tensor") from None
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"SparseLinear: the input is {tuple(x.shape)}; its last dimension has to be {self.in_features}") from None
        parameter = next(self.parameters(recurse=False))
        if x.device != parameter.device:
            raise ValueError(f"SparseLinear: the input is on {x.device}, the module on {parameter.device}; move one with .to()") from None
        if x.dtype != parameter.dtype:
            raise TypeError(f"SparseLinear: the input is {x.dtype}, the module {parameter.dtype}; convert one with .to()") from None

    def _trial(self, config, inputs):
        if self.mode != "weight":
            blocks, _ = self._config_blocks(config)
            return lambda: self._sparse_activation(inputs[0], blocks)
        weight, blocks, bias = self._trial_weight(config)
        (x,) = inputs
        dense = (lambda: dense_linear(x, weight, bias)) if is_whole(blocks) else (lambda: _linear(x, weight, blocks, bias))
        copy = _packed_of(blocks, weight)
        return dense if copy is None else lambda: y if (y := copy.linear(x, weight, bias, self._dense_weight)) is not None else dense()

    def tune(self, *inputs: Any, **options: Any) -> dict:
        """As OperatorBase.tune."""
        found = super().tune(*inputs, **options)
        self._prepare()  # which says what runs in place of the dense product
        return found

    def _tune_points(self, inputs, backward):
        return _points.said_of(self.tune_points(*inputs, backward=backward))

    def tune_points(self, input: torch.Tensor, backward: bool = False, seconds: float = 0.0) -> list[dict]:
        """On a GPU: measures the points of the kernels that run this layer as it is, on such an input; later calls, of other processes too, use the
        fastest. A row for each kernel that has a choice; elsewhere there is none."""
        if self.mode != "weight" or not input.is_cuda:
            return []
        with torch.no_grad():
            copy = self._copy if isinstance(self._copy, Half) and not backward else None
            if copy is not None and copy.linear(input, self.values, self.bias, self._dense_weight) is not None:
                return _points.tune_half(copy.made[2], copy.shape, input, self.bias, seconds)
            return _points.tune_linear(self._blocks, self.values, input, self.bias, backward, seconds) if self._packed else []

    # ---------------------------------------------------------------- other patterns, of inputs and outputs
    def update_mask(self, mask: Any, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Takes another mask. Values stay as trained, elements that come back start at 0; what the optimizer remembers moves along."""
        if self.mode == "weight":
            super().update_mask(mask, optimizer)
        else:
            self._set_blocks(*choose_blocks(self._check_activation(mask, self._blocks.pos.device), self._asked))
            self.ready = False

    def _change(self, blocks, reason, optimizer=None):
        if self.mode == "weight":
            super()._change(blocks, reason, optimizer)
        else:
            self._set_blocks(blocks, reason)

    def _pattern_of(self, state, prefix):
        if self.mode == "weight":
            return super()._pattern_of(state, prefix)
        blocks = OperatorBase._pattern_of(self, state, prefix)
        if blocks is not None and (blocks.shape[1] != self._columns() or blocks.patterns != 1):
            raise ValueError(f"{prefix}SparseLinear: the checkpoint's {self.mode} mask is {blocks.shape}; this layer has {self._columns()} columns")
        return blocks

    def _adopt(self, blocks):
        super()._adopt(blocks) if self.mode == "weight" else OperatorBase._adopt(self, blocks)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, {self.mode} mask, {self.reason}"
