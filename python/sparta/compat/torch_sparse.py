"""Weights that torch keeps sparse: to_sparse_csr, to_sparse_bsr, to_sparse_semi_structured.

linear.weight = nn.Parameter(linear.weight.to_sparse_bsr((32, 32)))     # before: no gradients, slow on the CPU
linear = torch_sparse.linear(linear)                                    # after: the same elements in the same blocks, gradients, any batch
torch_sparse.convert_(model)                                            # every linear layer of a model whose weight is such a tensor
linear = torch_sparse.to_sparse_semi_structured(linear)                 # 2:4, where torch's own needs a GPU
"""

from __future__ import annotations

import torch

from ..nn import SparseLinear

_SPARSE = {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


def _is_sparse(weight):
    return weight.layout in _SPARSE or hasattr(weight, "original_strategy_metadata") or "SemiStructured" in type(weight).__name__


def _mask(weight):
    """Where the tensor has elements, zero or not."""
    if weight.layout in _SPARSE:
        ones = torch.ones_like(weight.values() if weight.layout != torch.sparse_coo else weight.coalesce().values())
        if weight.layout == torch.sparse_coo:
            return torch.sparse_coo_tensor(weight.coalesce().indices(), ones, weight.shape).to_dense() != 0
        index = (
            (weight.crow_indices(), weight.col_indices())
            if weight.layout in (torch.sparse_csr, torch.sparse_bsr)
            else (weight.ccol_indices(), weight.row_indices())
        )
        return torch.sparse_compressed_tensor(*index, ones, weight.shape, layout=weight.layout).to_dense() != 0
    return weight.to_dense() != 0


def linear(weight, bias: torch.Tensor | None = None) -> SparseLinear:
    """A sparta.nn.SparseLinear of a sparse weight (out, in) of torch's, or of a torch.nn.Linear that holds one. Blocks of bsr stay.

    >>> dense = torch.eye(64)
    >>> layer = linear(dense.to_sparse_bsr((16, 16)))
    >>> layer.get_sparse_indexes().block, torch.equal(layer.weight, dense)
    ((16, 16), True)
    """
    if isinstance(weight, torch.nn.Linear):
        weight, bias = weight.weight, weight.bias
    weight = weight.detach()
    if weight.dim() != 2:
        raise ValueError(f"torch_sparse.linear: the weight has {weight.dim()} dimensions; (out, in) is needed")
    block = {torch.sparse_csr: (1, 1), torch.sparse_csc: (1, 1), torch.sparse_coo: (1, 1)}.get(weight.layout)
    if weight.layout in (torch.sparse_bsr, torch.sparse_bsc):
        block = tuple(weight.values().shape[-2:])
    dense = weight.to_dense()
    raw = torch.nn.Linear(dense.shape[1], dense.shape[0], bias is not None, dtype=dense.dtype)
    with torch.no_grad():
        raw.weight.copy_(dense)
        if bias is not None:
            raw.bias.copy_(bias)
    return SparseLinear(raw, weight_mask=_mask(weight), format=block)


def convert_(model: torch.nn.Module) -> torch.nn.Module:
    """Every linear layer whose weight torch keeps sparse, in place; returns the model."""
    found = {name: linear(m) for name, m in model.named_modules() if isinstance(m, torch.nn.Linear) and _is_sparse(m.weight)}
    if not found:
        raise ValueError("torch_sparse.convert_: no linear layer has a sparse weight of torch's; sparta.sparsify_ prunes dense ones")
    if "" in found:
        raise ValueError("torch_sparse.convert_: the model is the layer itself; write torch_sparse.linear(layer)")
    for name, layer in found.items():
        model.set_submodule(name, layer)
    return model


def to_sparse_semi_structured(layer: torch.nn.Linear) -> SparseLinear:
    """2 of each 4 along the input: those that are not 0, which must be at most 2, as torch's own asks for."""
    weight = layer.weight.detach()
    if weight.shape[1] % 4 or int((weight != 0).unflatten(1, (-1, 4)).sum(-1).max()) > 2:
        raise ValueError(
            "to_sparse_semi_structured: a group of 4 along the input has more than 2 elements; prune it first: sparta.sparsify_(model, '2:4')"
        )
    return SparseLinear(layer, weight_mask=weight != 0)
