"""What a weight is worth, element by element; what is worth least goes. w is the weight, g its gradient, a block is worth the mean of its elements.

magnitude           |w|
gradient_x_weight   w g of the last step, the magnitude of its mean over a block: how much the loss changes when the whole block goes
snip                |w g| of the last step
snip_momentum       |w g|, with what is left of the steps before: s = m s + |w g|
movement            - sum of w g over all steps: what a step moves away from 0 is worth more (Sanh et al., 2020)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

__all__ = ["CRITERIA", "Criterion"]

Seen = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Criterion:
    """see: of what was known of the elements, w, g and the momentum, what is known after a step; it takes the place of what was known."""

    see: Seen | None = None
    signed: bool = False  # a block is worth the magnitude of the mean, not the mean of magnitudes

    @property
    def gradient(self) -> bool:
        return self.see is not None


CRITERIA: dict[str, Criterion] = {
    "magnitude": Criterion(),
    "gradient_x_weight": Criterion(lambda s, w, g, m: torch.mul(w, g, out=s), signed=True),
    "snip": Criterion(lambda s, w, g, m: torch.mul(w, g, out=s).abs_()),
    "snip_momentum": Criterion(lambda s, w, g, m: s.mul_(m).add_((w * g).abs_())),
    "movement": Criterion(lambda s, w, g, m: s.sub_(w * g)),
}
