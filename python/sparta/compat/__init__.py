"""Names of other libraries over sparta's own modules, so that code that used them goes on with one import changed (docs/dropins.md).

    pytorch_block_sparse    BlockSparseLinear, BlockSparseModelPatcher
    torch_blocksparse       MatMul, Softmax over a layout; also triton.ops.blocksparse's matmul and softmax
    xformers                BlockSparseAttention, scaled_dot_product_attention with a mask
    deepspeed               SparseSelfAttention and its sparsity configs
    sten                    sparsified_op, formats, sparsifiers and implementations of one's own, SparsityBuilder
    torch_sparse            weights that torch keeps as csr, bsr or 2:4
    apex                    ASP: 2:4 masks, channel permutation, optimizers

Each is as thin as it can be; nothing of those libraries is needed, and all of it runs on the CPU with gradients.
"""

import importlib

__all__ = ["apex", "deepspeed", "pytorch_block_sparse", "sten", "torch_blocksparse", "torch_sparse", "xformers"]


def __getattr__(name):
    if name in __all__:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'sparta.compat' has no attribute {name!r}; it has {', '.join(__all__)}")
