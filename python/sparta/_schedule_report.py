"""What a schedule will do, or did, to each tensor: the rows of its report."""

from __future__ import annotations

from ._running_form import KERNELS
from .sparsifiers import Sparsifier
from .stages import Report

COLUMNS = ("name", "kind", "shape", "sparsify", "format", "density", "runs", "reason")


def report(plans) -> Report:
    return Report(map(row, plans), {name: name for name in COLUMNS})


def row(plan):
    target, said = plan.target, plan.said.get("sparsify")
    shape = tuple(plan.mask.shape) if plan.mask is not None else None
    density = plan.hook.density if plan.hook is not None else None
    if plan.mask is not None:
        density = float(plan.mask.float().mean()) if plan.mask.numel() else 1.0
    runs, reason = _runs(plan)
    return {
        "name": target.name,
        "kind": target.kind,
        "shape": shape,
        "sparsify": said if said is None or isinstance(said, str) else _said(said),
        "format": plan.said.get("format"),
        "density": density,
        "runs": runs,
        "reason": reason,
    }


def _said(sparsifier):
    name = repr(sparsifier) if isinstance(sparsifier, Sparsifier) else getattr(sparsifier, "__name__", repr(sparsifier))
    return getattr(sparsifier, "text", None) or name


def _runs(plan):
    """(what runs it, why)."""
    block, format = plan.block, plan.said.get("format")
    if plan.built is not None:
        return plan.built["runs"], plan.built["reason"]
    if plan.target.kind == "output":
        unread = "; the format has no effect, the next module reads it dense" if format else ""
        return "mask", "the mask is made of each output" + unread
    if plan.target.kind == "attention":
        if isinstance(block, tuple):
            return f"blocks {block[0]}x{block[1]}", "products and softmax of the blocks that have elements, with gradients"
        no = f"format {format} has no kernel with gradients, csr, strip(n) and bsr(h,w) have; " if format else "no format is said; "
        return "dense", no + "scores are masked and the dense attention runs"
    return _runs_weight(plan, block, format)


def _runs_weight(plan, block, format):
    if plan.stays:
        return "dense", plan.stays
    if format is None:
        return "measured", "no format is said: build_ takes blocks or dense, whichever is faster on the example inputs"
    if block is None:
        return "C operator", f"format {format}, after build_ and without gradients; until then dense with a mask, {KERNELS}"
    return f"blocks {block[0]}x{block[1]}", f"format {format}, after build_; until then dense with a mask"
