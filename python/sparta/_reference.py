"""Torch's operators of ours as dense torch: what they mean, and what runs them where there is no kernel: batches and the softmax on a GPU, blocks
there that no kernel takes, other devices. Arguments as python/torch/operators.def has them.
"""

import torch

from ._blocks import Blocks


def _pattern(pos, crd, keep, rows, cols, height, width, patterns=1):
    return Blocks(pos, crd, keep, (rows, cols), (height, width), patterns)


def linear(x, values, pos, crd, keep, index, bias, rows, cols, height, width):
    return torch.nn.functional.linear(x, _pattern(pos, crd, keep, rows, cols, height, width).unpack(values), bias)


def linear_turned(x, values, pos, crd, keep, index, rows, cols, height, width):
    return torch.matmul(x, _pattern(pos, crd, keep, rows, cols, height, width).unpack(values))


def multiply(x, values, pos, crd, keep, index, rows, cols, height, width, patterns, turned):
    dense = _pattern(pos, crd, keep, rows, cols, height, width, patterns).unpack(values)
    return torch.matmul(dense.transpose(-1, -2) if turned else dense, x)


def sample(a, c, pos, crd, keep, index, rows, cols, height, width, patterns, scale):
    return _pattern(pos, crd, keep, rows, cols, height, width, patterns).pack(torch.matmul(a, c.transpose(-1, -2)) * scale)


def softmax(values, pos, crd, keep, index, rows, cols, height, width, patterns, scale):
    blocks = _pattern(pos, crd, keep, rows, cols, height, width, patterns)
    mask = blocks.mask()
    scores = (blocks.unpack(values) * scale).masked_fill(~mask, float("-inf"))
    return blocks.pack(torch.softmax(scores, -1).masked_fill(~mask.any(-1, keepdim=True), 0))


def softmax_gradient(probabilities, gradient, pos, crd, keep, index, rows, cols, height, width, patterns, scale):
    blocks = _pattern(pos, crd, keep, rows, cols, height, width, patterns)
    p, g = blocks.unpack(probabilities), blocks.unpack(gradient)
    return blocks.pack(p * (g - (p * g).sum(-1, keepdim=True)) * scale)


OPERATORS = {f.__name__: f for f in (linear, linear_turned, multiply, sample, softmax, softmax_gradient)}
