"""Sparse modules for PyTorch, with gradients.

    layer = sparta.nn.SparseLinear(torch.nn.Linear(1024, 1024), pattern="4x1:0.9")
    layer.build(sample_inputs=(x,))
    print(layer.reason)

Each takes any leading dims and any batch size, float32, bfloat16, float16 and float64, works before it is built, and trains, saves and loads like any
other module. Needs torch >= 2.10.
"""

from .attention import SeqlenDynamicSparseAttention, SparseAttention
from .base import OperatorBase
from .conv import SparseConv2d
from .embedding import SparseEmbedding
from .linear import SparseLinear
from .matmul import SparseBatchMatMul
from .moe import DynamicSparseMoE
from .softmax import SparseSoftmax

__all__ = [
    "DynamicSparseMoE",
    "OperatorBase",
    "SeqlenDynamicSparseAttention",
    "SparseAttention",
    "SparseBatchMatMul",
    "SparseConv2d",
    "SparseEmbedding",
    "SparseLinear",
    "SparseSoftmax",
]


def __getattr__(name):
    if name in ("tune", "build"):  # as the original has them; sparta.tune and sparta.build
        from .. import tuning

        return getattr(tuning, name)
    raise AttributeError(f"module 'sparta.nn' has no attribute {name!r}")
