"""Pruning: while a model trains, or after it with a little data (docs/training.md).

    pruner = sparta.prune.prepare_pruning(model, {"pattern": "4x1", "target_sparsity": 0.9, "end_step": 1000}, optimizer)
    ... train as before ...
    sparta.compile(model, "model.sparta", example_inputs=x)

Masks are those of sparta.sparsify_: same Parameters, same names, pruned weights exactly 0 through every step.
"""

from ..compat.apex import ASP
from .callbacks import lightning_callback, trainer_callback
from .config import Config, read
from .one_shot import one_shot
from .pruner import Pruner, prepare_pruning

__all__ = ["ASP", "Config", "Pruner", "lightning_callback", "one_shot", "prepare_pruning", "read", "trainer_callback"]
