"""For tests and trials: random masks, times, and what the sparse operations mean, written with plain torch.

>>> import sparta
>>> mask = sparta.testing.block_mask((8, 8), block=(4, 4), sparsity=0.75)
>>> int(mask.sum())
16
"""

import math
import time
from collections.abc import Callable
from typing import Any

import torch


def block_mask(
    shape: tuple[int, ...], block: tuple[int, int] = (1, 1), sparsity: float = 0.99, algo: str = "rand", device: Any = "cpu"
) -> torch.Tensor:
    """A mask (uint8, 0 where an element is gone) of whole blocks; sizes that blocks do not divide have cut ones at the edge.

    algo "rand": this share of the blocks goes, at random; "uniform": each block goes with this chance.
    """
    if len(shape) < 2 or len(block) != 2 or min(block) < 1:
        raise ValueError(f"block_mask: shape {tuple(shape)} and block {tuple(block)}; give at least two sizes, and a height and a width")
    if not 0 <= sparsity <= 1:
        raise ValueError(f"block_mask: sparsity {sparsity}; give a share from 0 to 1")
    (height, width), (rows, cols) = block, shape[-2:]
    grid = (*shape[:-2], -(-rows // height), -(-cols // width))
    if algo == "rand":
        count = math.prod(grid)
        kept = torch.ones(count, dtype=torch.uint8, device=device)
        kept[torch.randperm(count, device=device)[: round(count * sparsity)]] = 0
        kept = kept.view(grid)
    elif algo == "uniform":
        kept = (torch.rand(grid, device=device) >= sparsity).to(torch.uint8)
    else:
        raise ValueError(f"block_mask: algo {algo!r}; give 'rand' or 'uniform'")
    return kept.repeat_interleave(height, -2).repeat_interleave(width, -1)[..., :rows, :cols].contiguous()


def check(func: Callable, inputs: Any, target_outputs: Any, atol: float = 1e-4, rtol: float = 1e-8) -> None:
    """AssertionError where func(*inputs) is not what it should be."""
    outputs = func(*inputs)
    outputs, targets = ((x,) if isinstance(x, torch.Tensor) else tuple(x) for x in (outputs, target_outputs))
    for got, want in zip(outputs, targets, strict=True):
        torch.testing.assert_close(got, want, atol=atol, rtol=rtol)


def profile(func: Callable, inputs: Any, target_outputs: Any = None, num_warmups: int = 10, num_iters: int = 10, cuda: bool = False) -> float:
    """Milliseconds of one call, on average; with target_outputs its answer is checked first."""
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    if target_outputs is not None:
        check(func, inputs, target_outputs)
    for _ in range(num_warmups):
        func(*inputs)
    if cuda:
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(num_iters):
        func(*inputs)
    if cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3 / max(num_iters, 1)


def sparse_softmax_forward_reference(x: torch.Tensor, mask: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Softmax of x / temperature over the elements of the mask; a row without any is 0."""
    scores = (x / temperature).masked_fill(mask == 0, -math.inf)
    return torch.softmax(scores, -1).masked_fill((mask == 0).all(-1, keepdim=True), 0.0)


def sparse_softmax_backward_reference(grad: torch.Tensor, output: torch.Tensor, mask: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """The gradient of x, from that of the output and the output itself."""
    product = grad * output
    return (product - output * product.sum(-1, keepdim=True)) * (mask != 0) / temperature


def sparse_multi_head_attention_reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, temperature: float | None = None
) -> torch.Tensor:
    """softmax(Q K' / temperature) V over the elements of the mask; the temperature is the square root of the features unless given."""
    scores = query @ key.transpose(-1, -2)
    return sparse_softmax_forward_reference(scores, mask, math.sqrt(query.shape[-1]) if temperature is None else temperature) @ value
