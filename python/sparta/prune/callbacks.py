"""For loops that are not the user's: a callback of transformers' Trainer and one of Lightning. Both let the optimizer call the pruner, and keep its
state in their checkpoints.

    pruner = sparta.prune.Pruner(model, config)
    Trainer(model, ..., callbacks=[sparta.prune.trainer_callback(pruner)])
    lightning.Trainer(..., callbacks=[sparta.prune.lightning_callback(pruner)])
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import torch

from .pruner import Pruner

__all__ = ["lightning_callback", "trainer_callback"]

_FILE = "sparta_prune.pt"


def trainer_callback(pruner: Pruner) -> Any:
    """For transformers.Trainer(callbacks=[...])."""
    from transformers import TrainerCallback

    def folder_of(args, state):
        return os.path.join(args.output_dir, f"checkpoint-{state.global_step}")

    class PruningCallback(TrainerCallback):
        def on_train_begin(self, args, state, control, optimizer=None, **kwargs):
            if state.global_step:  # it goes on; train(resume_from_checkpoint=True or a path) need not say so in args
                said = args.resume_from_checkpoint
                path = os.path.join(said if isinstance(said, str) else folder_of(args, state), _FILE)
                if not os.path.exists(path):
                    raise FileNotFoundError(
                        f"prune: training goes on at step {state.global_step}, and there is no {path}, the pruner's state; "
                        "say the folder of the checkpoint in TrainingArguments(resume_from_checkpoint=...)"
                    )
                pruner.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
            pruner.attach(optimizer)

        def on_save(self, args, state, control, **kwargs):
            folder = folder_of(args, state)
            if state.is_world_process_zero and os.path.isdir(folder):
                path = os.path.join(folder, _FILE)
                torch.save(pruner.state_dict(), path + ".new")
                os.replace(path + ".new", path)

        def on_train_end(self, args, state, control, **kwargs):
            pruner.on_train_end()

    return PruningCallback()


def lightning_callback(pruner: Pruner) -> Any:
    """For lightning.Trainer(callbacks=[...])."""
    try:
        module: Any = importlib.import_module("lightning.pytorch")
    except ImportError:
        module = importlib.import_module("pytorch_lightning")

    class PruningCallback(module.Callback):
        def on_train_start(self, trainer, pl_module):
            pruner.attach(trainer.optimizers[0])

        def on_train_end(self, trainer, pl_module):
            pruner.on_train_end()

        def state_dict(self):
            return pruner.state_dict()

        def load_state_dict(self, state_dict):
            pruner.load_state_dict(state_dict)

    return PruningCallback()
