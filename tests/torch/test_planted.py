"""Faults of a thousandth, planted in kernels of models whose outputs the check forgives more than usual: a CodeGen, and a MobileViT that was never trained and fades away to 1e-40.
compile refuses them (tests/planted.py).

Rotates: 3"""

import os
import sys
import warnings

import torch
from common import ROOT, NotRun, Tests, need

import planted

warnings.filterwarnings("ignore")
SPARTA = os.path.join(ROOT, "build/release/sparta")


class First(torch.nn.Module):
    """The first output of a model of transformers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0]


def models():
    try:
        import transformers
    except ImportError as error:
        raise NotRun(error) from None
    return transformers


def codegen():
    t = models()
    torch.manual_seed(0)
    config = t.CodeGenConfig(vocab_size=64, n_positions=32, n_ctx=32, n_embd=64, n_layer=2, n_head=4, rotary_dim=8, use_cache=False, bos_token_id=1, eos_token_id=2)
    return First(t.CodeGenModel(config).eval()), torch.randint(0, 64, (2, 9))


def mobilevit():
    t = models()
    for thousandths in range(28, 36):
        torch.manual_seed(0)
        config = t.MobileViTConfig(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 32], num_attention_heads=2,
                                   initializer_range=thousandths / 1000)
        model, x = First(t.MobileViTModel(config).eval()), torch.randn(1, 3, 64, 64)
        with torch.no_grad():
            if 5e-40 < model(x).abs().max() < 1.2e-38:
                return model, x
    raise NotRun("its outputs are no such numbers in this version")


def save(tests, name, made):
    model, x = made()
    path = os.path.join(tests.work.name, name + ".pt2")
    torch.export.save(torch.export.export(model, (x,)), path)
    return path


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = tests.work.name

    def look(name, made, at_once, least, kernels):
        path = save(tests, name, made)
        n = planted.products(SPARTA, path, tests.work.name, at_once)
        need(n >= least, f"{n} faults in products are refused by name")
        planted.unasked(SPARTA, path, tests.work.name)
        g = planted.generated(SPARTA, path, tests.work.name)
        need(g >= kernels, f"{g} faults in generated kernels are refused by name")
        return f"{n} faults in products, {g} in generated kernels"

    tests.check("codegen", look, "codegen", codegen, 4, 32, 8)
    tests.check("mobilevit", look, "mobilevit", mobilevit, 4, 20, 3)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
