"""Small programs of torch.export and torch's answers to them, for whoever reads .pt2 files: needs torch alone, any version from 2.10.

    python programs.py DIR        DIR/NAME.pt2 and DIR/NAME.npz: an array for each input, by its name, and `answer`
"""

import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    """Embeddings, masked attention, a feed-forward layer: what BERT is made of."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.words, self.places = heads, nn.Embedding(50, width), nn.Embedding(16, width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, ids, mask):
        batch, length = ids.shape
        x = self.words(ids) + self.places(torch.arange(length))
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :] > 0)
        x = self.first(x + self.project(y.transpose(1, 2).reshape(batch, length, -1)))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Decoder(nn.Module):
    """RMS normalisation, rotary places, causal attention, a gate: what Llama is made of."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.RMSNorm(width, eps=1e-6)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(width, 64, bias=False), nn.Linear(width, 64, bias=False), nn.Linear(64, width, bias=False)

    def turn(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def forward(self, x):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        n = self.norm(x)
        y = F.scaled_dot_product_attention(self.turn(split(self.q(n))), self.turn(split(self.k(n))), split(self.v(n)), is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2, groups=2),
        nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5), nn.Softmax(-1),
    )  # fmt: skip


def perceptron():
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 8), nn.LogSoftmax(-1))
    with torch.no_grad():
        model[0].weight[torch.rand(64, 16) < 0.8] = 0
    return model


def programs():
    """(name, module, inputs, sizes that vary)"""
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=16)
    ids, mask = torch.randint(0, 50, (3, 9)), (torch.arange(9) < torch.tensor([[9], [4], [7]])).long()
    yield "perceptron", perceptron(), (torch.randn(5, 16),), ({0: batch},)
    yield "encoder", Encoder(), (ids, mask), ({0: batch, 1: length}, {0: batch, 1: length})
    yield "decoder", Decoder(), (torch.randn(2, 7, 32),), ({0: batch},)
    yield "convolutions", convolutions(), (torch.randn(2, 3, 12, 12),), None


def main(folder):
    torch.manual_seed(0)
    for name, module, inputs, sizes in programs():
        with torch.no_grad():
            program = torch.export.export(module.eval(), inputs, dynamic_shapes=sizes)
            answer = module(*inputs)
        torch.export.save(program, os.path.join(folder, name + ".pt2"))
        arrays = dict(zip(program.graph_signature.user_inputs, (x.numpy() for x in inputs)))
        np.savez(os.path.join(folder, name + ".npz"), answer=answer.numpy(), **arrays)
    print(torch.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
