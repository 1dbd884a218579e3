"""Pruning: of a model file, which needs no torch, while a model trains, or after it with a little data (docs/training.md).

    sparta.prune("model.onnx", "pruned.onnx", "4x1:0.9")

    pruner = sparta.prune.prepare_pruning(model, {"pattern": "4x1", "target_sparsity": 0.9, "end_step": 1000}, optimizer)
    ... train as before ...
    sparta.compile(model, "model.sparta", example_inputs=x)

Masks are those of sparta.sparsify_: same Parameters, same names, pruned weights exactly 0 through every step.
"""

import importlib.util
import sys
import types
from typing import Any

from .. import _files

_torch = importlib.util.find_spec("torch")
if _torch is not None and _torch.origin:  # not the folder python/torch of a clone
    from ..compat.apex import ASP
    from .callbacks import lightning_callback, trainer_callback
    from .config import Config, read
    from .one_shot import one_shot
    from .pruner import Pruner, prepare_pruning

__all__ = ["ASP", "Config", "Pruner", "lightning_callback", "one_shot", "prepare_pruning", "read", "trainer_callback"]


class _Module(types.ModuleType):
    """The module, which is called for a file."""

    __call__ = staticmethod(_files.prune)

    def __getattr__(self, name: str) -> Any:
        if name in __all__:
            raise ImportError(f"sparta.prune.{name} needs torch; sparta.prune(model, out, pattern) prunes a file without")
        raise AttributeError(f"module 'sparta.prune' has no attribute {name!r}")


sys.modules[__name__].__class__ = _Module
