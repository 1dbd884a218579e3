"""How much is gone at which step, between 0 at the start and the target at the end.

    oneshot     all at once
    linear      t                       the same amount at each update
    cubic       1 - (1-t)^3             much at first, little at the end (Zhu and Gupta, 2017)
    exp         the same share of what is left at each update; iterative is another name
    cos         (1 - cos(pi t)) / 2     little at both ends

Masks change at the start, every `pruning_frequency` steps, and at the end, where the target is met exactly.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .config import Settings

__all__ = ["DECAYS", "due", "sparsity"]

DECAYS = {
    "exp": lambda t, target: 1 - (1 - target) ** t,
    "iterative": lambda t, target: 1 - (1 - target) ** t,
    "cubic": lambda t, target: target * (1 - (1 - t) ** 3),
    "cube": lambda t, target: target * (1 - (1 - t) ** 3),
    "cos": lambda t, target: target * (1 - math.cos(math.pi * t)) / 2,
    "cosine": lambda t, target: target * (1 - math.cos(math.pi * t)) / 2,
    "linear": lambda t, target: target * t,
    "exponential": lambda t, target: 1 - (1 - target) ** t,
    "oneshot": lambda t, target: target,
}


def sparsity(s: Settings, step: int) -> float:
    """Of what is to be gone when this step begins."""
    if step < s.start:
        return 0.0
    if step >= s.end or s.decay == "oneshot":
        return s.target
    return min(max(DECAYS[s.decay]((step - s.start) / (s.end - s.start), s.target), 0.0), s.target)


def due(s: Settings, step: int) -> bool:
    """Are masks made anew when this step begins?"""
    if not s.start <= step <= s.end:
        return False
    return step == s.end or (step - s.start) % s.every == 0
