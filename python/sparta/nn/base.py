"""OperatorBase: a module around one sparse pattern.

    pos, crd, keep     buffers: where the elements are (_blocks.py draws them); saved, loaded, moved like any other
    reason             what runs, and why, in one sentence
    update_mask(...)   another pattern; values, gradients and optimizer state move along
    tune(inputs)       times the ways to run, takes the fastest
    build(config)      takes a way: the one asked for, the fastest for sample_inputs, or one by rule. Optional: an unbuilt module works and is right
    ready              whether that was done

A checkpoint holds plain tensors only, and its indices are checked when it is loaded: one of another pattern is taken over.
"""

import copy
from typing import Any

import torch

from .._blocks import Blocks
from .._conv1d import read_layout
from ._mask import block_of, by_time, check_blocks, choose_blocks, name_of, said_of, takes
from ._race import race

MARGIN = 0.97  # another way than the dense one has to be this much faster
NEAR = 1.5  # times the dense one's by rule: what is worth timing on a GPU


class OperatorBase(torch.nn.Module):
    pos: Any
    crd: Any
    keep: torch.Tensor | None
    reason: str = "no pattern"
    ready: bool = False
    _reads_layouts = True
    _batches = True  # it multiplies batches
    _sizes = 5  # numbers in a checkpoint's _extra_state

    def __init__(self) -> None:
        super().__init__()
        for name in ("pos", "crd", "keep"):
            self.register_buffer(name, None)
        self._blocks: Any = None
        self._asked: tuple[int, int] | None = None

    # ---------------------------------------------------------------- the pattern
    def _set_blocks(self, blocks, reason=None):
        """Takes this pattern. Modules that hold values change them before."""
        self.pos, self.crd, self.keep = blocks.pos, blocks.crd, blocks.keep
        self._blocks = blocks
        if reason is not None:
            self.reason = reason
        self._prepare()

    def _refresh(self):
        """The pattern with the buffers as they are now."""
        if self._blocks is not None:
            old = self._blocks
            self._blocks = Blocks(self.pos, self.crd, self.keep, old.shape, old.block, old.patterns).follow(old)
            self._prepare()

    def _prepare(self):
        """On a GPU: the index, and what runs there."""
        dtype = next((p.dtype for p in self.parameters(recurse=False)), None)
        self.reason = said_of(self._blocks, self.reason, dtype, self._batches)

    def __setstate__(self, state):
        super().__setstate__(state)
        self._refresh()

    def get_sparse_indexes(self, port: str | None = None) -> Blocks:
        """The pattern, whose pack(dense) and unpack(values) convert."""
        return self._blocks

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self._refresh()
        return self

    # ---------------------------------------------------------------- ways to run
    def update_mask(self, mask: torch.Tensor) -> None:
        raise NotImplementedError

    def _config_blocks(self, config):
        """The pattern that a configuration stands for: {"block": [4, 1]}, or "dense" or any format that has blocks."""
        if not isinstance(config, dict) or set(config) != {"block"} or config["block"] is None:
            raise ValueError(
                f"{type(self).__name__}: a configuration is {{'block': [height, width]}}, {{'block': 'strip(4)'}} "
                f"or {{'block': 'dense'}}, not {config!r}"
            )
        block = block_of(config.get("block"), self._blocks.shape)
        return choose_blocks(self._blocks.mask(), block)

    def configs(self) -> list[dict]:
        """The configurations worth timing: the dense one first."""
        blocks, _ = choose_blocks(self._blocks.mask())
        fits = {blocks.block, self._blocks.block, (4, 1), (1, 1)} - {self._blocks.shape}
        if blocks.pos.is_cuda:
            near = {(side, side) for time, side, *_ in by_time(self._blocks.mask()) if time < NEAR} if blocks.patterns == 1 else set()
            fits = {block for block in fits | near if takes(block) and block != self._blocks.shape}
        return [{"block": "dense"}] + [{"block": list(block)} for block in sorted(fits, reverse=True)]

    def _trial(self, config, inputs):
        """A function without arguments that runs on the inputs in this configuration, the module left as it is; None: it has no other way."""
        other = copy.deepcopy(self)
        other._change(*other._config_blocks(config))
        return lambda: other(*inputs)

    def tune(self, inputs: Any = None, sample_inputs: Any = None, backward: bool = False, seconds: float = 0.2) -> dict:
        """Times the configurations on these inputs (with the gradients, if asked), about so many seconds each, takes the fastest and returns it.
        On a GPU the points of its kernels are measured too, which later calls and processes use (docs/gpu.md)."""
        given = inputs if inputs is not None else sample_inputs
        given = (given,) if isinstance(given, torch.Tensor) else tuple(given or ())
        if not given:
            raise ValueError(f"{type(self).__name__}.tune: no inputs; give inputs=(x,) as forward takes them")
        with torch.no_grad():
            self(*given)  # what is wrong with the inputs is said here
        given = tuple(x.detach().requires_grad_(backward) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given)
        configs = self.configs()
        trials = [self._trial(config, given) for config in configs]
        if any(trial is None for trial in trials):
            self.ready = True
            return {"block": list(self._blocks.block)}
        grads = [(parameter, parameter.grad) for parameter in self.parameters()]
        with torch.set_grad_enabled(backward):
            for parameter, _ in grads:
                parameter.grad = None
            times = race([_with_gradient(trial) if backward else trial for trial in trials], seconds, device=self._blocks.pos.device)
            for parameter, grad in grads:
                parameter.grad = grad
        best = min(range(len(times)), key=lambda k: times[k] * (1 if k == 0 else 1 / MARGIN))
        self.build(configs[best])
        others = ", ".join(f"{_said(config)} {seconds * 1e6:.0f} us" for k, (config, seconds) in enumerate(zip(configs, times)) if k != best)
        shapes = ", ".join(str(tuple(x.shape)) for x in given if isinstance(x, torch.Tensor))
        self.reason = f"{_said(configs[best])}: {times[best] * 1e6:.0f} us on {shapes}{' with gradients' if backward else ''}, against {others}"
        self.reason += self._tune_points(given, backward)
        return configs[best]

    def _tune_points(self, inputs, backward):
        """Measures the points of a GPU's kernels; what was found, for the reason."""
        return ""

    def build(self, config: dict | None = None, sample_inputs: Any = None) -> None:
        if config is None and sample_inputs is not None:
            self.tune(sample_inputs)
            return
        blocks, reason = choose_blocks(self._blocks.mask(), self._asked) if config is None else self._config_blocks(config)
        self._change(blocks, reason)
        self.ready = True

    def _change(self, blocks, reason, optimizer=None):
        """Another way to hold the same pattern, or another pattern."""
        self._set_blocks(blocks, reason)

    # ---------------------------------------------------------------- checkpoints
    def get_extra_state(self) -> torch.Tensor:
        """Shape, block and number of patterns, for checkpoints."""
        shape, block, patterns = (self._blocks.shape, self._blocks.block, self._blocks.patterns) if self._blocks is not None else ((0, 0), (1, 1), 0)
        return torch.tensor([*shape, *block, patterns])

    def set_extra_state(self, state: Any) -> None:
        """Read with the buffers, in _load_from_state_dict."""

    def _pattern_of(self, state, prefix):
        """The pattern that a checkpoint has, checked; None where it says nothing of one."""
        pos, crd, keep, facts = (state.get(prefix + name) for name in ("pos", "crd", "keep", "_extra_state"))
        if pos is None or crd is None or facts is None:
            return None
        where = f"{prefix}{type(self).__name__}"
        read = isinstance(facts, torch.Tensor) and facts.shape == (self._sizes,) and facts.dtype == torch.int64 and facts.device.type != "meta"
        if not read or int(facts.min()) < 0:
            raise ValueError(f"{where}: _extra_state is not {self._sizes} sizes; the checkpoint is damaged or of another module")
        rows, cols, height, width, patterns = facts[:5].tolist()
        if not height * width * patterns or height > max(rows, 1) or width > max(cols, 1) or max(facts.tolist()) >= 2**31:
            raise ValueError(f"{where}: _extra_state has sizes {facts.tolist()}; the checkpoint is damaged")
        # A block without `keep` holds no tensor of its size: sizes are bounded by what the module has, or anything could be asked for.
        self._check_shape(where, (rows, cols))
        return check_blocks(where, pos, crd, keep, (rows, cols), (height, width), patterns)

    def _check_shape(self, where, shape):
        if self._blocks is not None and shape != self._blocks.shape:
            raise ValueError(
                f"{where}: the checkpoint's mask is {shape}; this module's is {self._blocks.shape}: update_mask with one of that shape first"
            )

    def _adopt(self, blocks):
        """Makes room for a checkpoint's pattern."""
        self._set_blocks(blocks, f"{name_of(blocks.block, blocks.shape)}, as the checkpoint has them")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        read_layout(self, state_dict, prefix)
        try:
            blocks = self._pattern_of(state_dict, prefix)
        except (ValueError, TypeError) as error:
            error_msgs.append(str(error))
            return
        if blocks is not None:
            device = self.pos.device if self.pos is not None else blocks.pos.device
            tensors = [None if t is None else t.detach().to(device, copy=True) for t in (blocks.pos, blocks.crd, blocks.keep)]
            self._adopt(Blocks(*tensors, blocks.shape, blocks.block, blocks.patterns))
            state_dict[prefix + "pos"], state_dict[prefix + "crd"] = blocks.pos, blocks.crd
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        self._refresh()


def need_no_way(module: OperatorBase, config: dict | None) -> None:
    """Of a module that runs in one way."""
    if config:
        raise ValueError(f"{type(module).__name__}.build: it runs in one way, {module.reason}; leave config out")


def _said(config):
    block = config["block"]
    return block if isinstance(block, str) else f"blocks of {block[0]}x{block[1]}"


def _with_gradient(trial):
    def run():
        out = trial()
        if out.requires_grad:
            out.backward(torch.ones_like(out))

    return run
