"""Attention over a part of the blocks: BigBird's layout, forward and backward, against dense attention with the same mask.

python examples/python/block_attention.py
"""

import torch
import torch.nn.functional as F

import sparta
import sparta.attention
import sparta.nn


def main():
    torch.manual_seed(0)
    heads, tokens, features, block = 4, 1024, 64, 64
    layout = sparta.attention.BigBird(num_heads=heads, block=block, num_random_blocks=1, num_sliding_window_blocks=3, num_global_blocks=1)
    attention = sparta.nn.SparseAttention(layout.mask(tokens))
    q, k, v = (torch.randn(2, heads, tokens, features, requires_grad=True) for _ in range(3))
    out = attention(q, k, v)
    out.square().mean().backward()
    dense = F.scaled_dot_product_attention(q, k, v, attn_mask=layout.mask(tokens).bool())
    print(f"{attention.reason}; largest difference {float((out - dense).abs().max()):.1e}; gradients: {tuple(q.grad.shape)}")


if __name__ == "__main__":
    main()
