"""torch.compile(backend="sparta") on models of transformers with random weights, a fifth of them left, in both modes against eager, at two sizes with one
graph. Each day has its own three of them; TEST_SEED repeats a day, and a name on the command line takes that model, `all` every one."""

import gc
import logging
import os
import random
import sys
import warnings

import torch
import transformers as T
from torch._dynamo.utils import counters

from common import Tests, need
from today import ALL, SEED

import sparta.dynamo  # common.py says where it is
from sparta import _zeros

asked, sys.argv[1:] = sys.argv[1:], []
tests = Tests()
os.environ["XDG_CACHE_HOME"] = tests.work.name
logging.getLogger("torch").setLevel(logging.ERROR)
T.logging.set_verbosity_error()
sparta.dynamo.register()
_zeros.LEAST = 1 << 10  # these are small
QUICK = {"no_measure": 1, "context": {"cache_dir": "", "compiler": ""}}
A_DAY = 3

SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}
ENCODER = {**SIZES, "max_position_embeddings": 64}
DECODER = {**SIZES, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED = {**DECODER, "num_key_value_heads": 2}
IMAGE = {k: v for k, v in SIZES.items() if k != "vocab_size"} | {"image_size": 32, "patch_size": 8}


def ids(batch, tokens):
    return {"input_ids": torch.randint(3, 100, (batch, tokens))}


def padded(batch, tokens):
    mask = torch.ones(batch, tokens, dtype=torch.long)
    mask[0, tokens - 2 :] = 0
    return {**ids(batch, tokens), "attention_mask": mask}


def image(batch, tokens):
    return {"pixel_values": torch.randn(batch, 3, 32, 32)}


MODELS = {
    "bert": (lambda: T.BertModel(T.BertConfig(**ENCODER)), padded),
    "distilbert": (
        lambda: T.DistilBertModel(T.DistilBertConfig(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=100, max_position_embeddings=64)),
        padded,
    ),
    "roberta": (lambda: T.RobertaModel(T.RobertaConfig(**ENCODER)), padded),
    "electra": (lambda: T.ElectraModel(T.ElectraConfig(**ENCODER, embedding_size=32)), padded),
    "albert": (lambda: T.AlbertModel(T.AlbertConfig(**ENCODER, embedding_size=32)), padded),
    "deberta": (lambda: T.DebertaV2Model(T.DebertaV2Config(**ENCODER, relative_attention=True, pos_att_type=["p2c", "c2p"])), padded),
    "clip": (lambda: T.CLIPTextModel(T.CLIPTextConfig(**ENCODER, eos_token_id=2, bos_token_id=1, pad_token_id=0)), ids),
    "t5": (lambda: T.T5EncoderModel(T.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100)), padded),
    "llama": (lambda: T.LlamaModel(T.LlamaConfig(**GROUPED)), padded),
    "mistral": (lambda: T.MistralModel(T.MistralConfig(**GROUPED)), ids),
    "qwen2": (lambda: T.Qwen2Model(T.Qwen2Config(**GROUPED)), ids),
    "qwen3": (lambda: T.Qwen3Model(T.Qwen3Config(**GROUPED, head_dim=16)), ids),
    "gemma": (lambda: T.GemmaModel(T.GemmaConfig(**GROUPED, head_dim=16)), ids),
    "gpt2": (
        lambda: T.GPT2Model(T.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, n_positions=64, use_cache=False, bos_token_id=1, eos_token_id=2)),
        ids,
    ),
    "neox": (lambda: T.GPTNeoXModel(T.GPTNeoXConfig(**DECODER, max_position_embeddings=64)), ids),
    "phi": (lambda: T.PhiModel(T.PhiConfig(**DECODER, max_position_embeddings=64)), ids),
    "vit": (lambda: T.ViTModel(T.ViTConfig(**IMAGE)), image),
    "deit": (lambda: T.DeiTModel(T.DeiTConfig(**IMAGE)), image),
}


@torch.no_grad()
def thinned(make):
    model = make().eval()
    for module in model.modules():
        weight = module._parameters.get("weight")
        if weight is not None and weight.dim() >= 2 and not isinstance(module, torch.nn.Embedding):
            weight.mul_(torch.rand_like(weight) < 0.2)
    return model


@torch.no_grad()
def like_eager(make, inputs, mode):
    torch.manual_seed(0)
    model = thinned(make)
    torch._dynamo.reset()
    counters.clear()
    gc.collect()
    fast = torch.compile(model, backend="sparta", dynamic=True, options={"mode": mode, "inner": "aot_eager", "compile": QUICK})
    for size in ((3, 12), (2, 7)):
        x = inputs(*size)
        for name, want in model(**x).items():
            got = fast(**x)[name]
            if isinstance(want, torch.Tensor):
                off = float((got - want).abs().max() / want.abs().max())
                need(got.shape == want.shape and off < 1e-4, f"{name} at {size} is off by {off:.1e} of its largest value")
    graphs = counters["stats"]["unique_graphs"]
    need(graphs == 1 + (inputs is image), f"{graphs} graphs")  # a size in channels is none that may be open, which torch finds out
    rows = [row for row in sparta.dynamo.report() if row["mode"] == mode]
    ours = [row for row in rows if row["implement"] not in ("dense", "builtin")]
    need(len(ours) >= len(rows) / 2 > 0, f"{len(ours)} of {len(rows)} layers are ours")
    return f"{len(ours)} of {len(rows)} layers"


chosen = list(MODELS) if ALL or asked == ["all"] else asked or random.Random(SEED).sample(sorted(MODELS), A_DAY)
print(f"TEST_SEED={SEED}: {', '.join(chosen)}")
for model_name in chosen:
    for mode in ("rewrite", "engine"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tests.check(f"{model_name}, {mode}", like_eager, *MODELS[model_name], mode)
sys.exit(tests.finish())
