"""torch.compile(backend="sparta") on models of transformers with random weights, a fifth of them left, in both modes against eager: at two sizes with one
graph, a second model of the class in turn with the first, after load_state_dict, under autocast; and generate with a cache that grows. Each day has its own
models; TEST_SEED repeats a day, and a name on the command line takes that model, `all` every one."""

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
from sparta.dynamo import rewrite

asked, sys.argv[1:] = sys.argv[1:], []
tests = Tests()
os.environ["XDG_CACHE_HOME"] = tests.work.name
logging.getLogger("torch").setLevel(logging.ERROR)
T.logging.set_verbosity_error()
sparta.dynamo.register()
_zeros.LEAST = 1 << 10  # these are small
QUICK = {"no_measure": 1, "context": {"cache_dir": "", "compiler": ""}}
A_DAY = 2

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


def both(batch, tokens):
    return {**padded(batch, tokens), "decoder_input_ids": ids(batch, tokens + 1)["input_ids"]}


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
    "mixtral": (lambda: T.MixtralModel(T.MixtralConfig(**{**GROUPED, "use_cache": True}, num_local_experts=4)), ids),
    "mamba": (
        lambda: T.MambaModel(T.MambaConfig(hidden_size=64, num_hidden_layers=1, vocab_size=100, state_size=4, use_cache=False, pad_token_id=0)),
        ids,
    ),
    "t5-whole": (lambda: T.T5Model(T.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100, use_cache=False)), both),
}
SCANS = ("mamba",)
GENERATE = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2", "neox", "phi", "mixtral", "t5-whole")


@torch.no_grad()
def thinned(make):
    model = make().eval()
    for module in model.modules():
        weight = module._parameters.get("weight")
        if weight is not None and weight.dim() >= 2 and not isinstance(module, torch.nn.Embedding):
            weight.mul_(torch.rand_like(weight) < 0.2)
    return model


def alike(got, want, what, least=1e-4):
    for name, answer in want.items():
        if isinstance(answer, torch.Tensor):
            off = float((got[name] - answer).abs().max() / answer.abs().max())
            need(got[name].shape == answer.shape and off < least, f"{name} {what} is off by {off:.1e} of its largest value")


def compiled(model, mode, **more):
    return torch.compile(model, backend="sparta", options={"mode": mode, "inner": "aot_eager", "compile": QUICK}, **more)


def start():
    torch._dynamo.reset()
    counters.clear()
    gc.collect()


def builds():
    """How often each package was compiled."""
    return [part.builds for graph in sparta.dynamo._alive for shared in getattr(graph, "parts", []) for part in shared.parts.values()]


@torch.no_grad()
def like_eager(make, inputs, mode):
    torch.manual_seed(0)
    model, other = thinned(make), thinned(make)
    start()
    fast = compiled(model, mode, dynamic=True)
    for size in ((3, 12), (2, 7)):
        x = inputs(*size)
        alike(fast(**x), model(**x), f"at {size}")
    graphs = counters["stats"]["unique_graphs"]
    need(graphs == 1 + (inputs is image), f"{graphs} graphs")  # a size in channels is none that may be open, which torch finds out
    second = compiled(other, mode, dynamic=True)
    for _ in range(2):
        alike(second(**x), other(**x), "of a second model")
        alike(fast(**x), model(**x), "of the first again")
    need(counters["stats"]["unique_graphs"] == graphs and set(builds()) <= {1}, f"{counters['stats']['unique_graphs']} graphs and {builds()} packages in turn")
    other.load_state_dict(model.state_dict())
    alike(second(**x), model(**x), "after load_state_dict")
    need(counters["stats"]["unique_graphs"] == graphs, "load_state_dict makes another graph")
    with torch.autocast("cpu", torch.bfloat16):
        alike(fast(**x), model(**x), "under autocast", 0.1)
    rows = [row for row in sparta.dynamo.report() if row["mode"] == mode]
    ours = [row for row in rows if row["implement"] not in ("dense", "builtin")]
    need(len(ours) >= len(rows) / 2 > 0, f"{len(ours)} of {len(rows)} layers are ours")
    return f"{len(ours)} of {len(rows)} layers"


@torch.no_grad()
def scans(make, inputs, mode):
    """A model whose graph has torch.func inside: eager's answers, by layers that stay dense, as the report says."""
    torch.manual_seed(0)
    model = thinned(make)
    start()
    fast = compiled(model, mode)
    for size in ((2, 5), (1, 7)):
        x = inputs(*size)
        alike(fast(**x), model(**x), f"at {size}")
    rows = sparta.dynamo.report()
    need(rows and all(row["mode"] == "rewrite" for row in rows) and any(row["reason"] == rewrite.LEVELS for row in rows), rows)
    return f"{len(rows)} layers"


@torch.no_grad()
def generates(make, mode):
    """The tokens and scores of eager, with three graphs at most: the prompt, a first step, and all others, whatever the cache has grown to."""
    torch.manual_seed(0)
    config = make().config
    config.use_cache, config.pad_token_id, config.eos_token_id, config.decoder_start_token_id = True, 0, None, 0
    family = T.AutoModelForSeq2SeqLM if config.is_encoder_decoder else T.AutoModelForCausalLM
    model = thinned(lambda: family.from_config(config))
    words = {**padded(2, 5), "max_new_tokens": 7, "do_sample": False, "return_dict_in_generate": True, "output_scores": True}
    want = model.generate(**words)
    start()
    model.forward = compiled(model.forward, mode)
    got = model.generate(**words)
    need(torch.equal(got.sequences, want.sequences), f"{got.sequences.tolist()}, eager has {want.sequences.tolist()}")
    for step, (a, b) in enumerate(zip(got.scores, want.scores, strict=True)):
        alike({"scores": a}, {"scores": b}, f"of token {step}")
    graphs = counters["stats"]["unique_graphs"]
    need(graphs <= 3, f"{graphs} graphs")
    gc.collect()
    found = {graph.mode for graph in list(sparta.dynamo._alive)}
    need(mode in found, f"no graph in mode {mode}: {found}")
    return f"{graphs} graphs"


chosen = list(MODELS) if ALL or asked == ["all"] else asked or random.Random(SEED).sample(sorted(MODELS), A_DAY)
print(f"TEST_SEED={SEED}: {', '.join(chosen)}")
for model_name in chosen:
    for mode in ("rewrite", "engine"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tests.check(f"{model_name}, {mode}", scans if model_name in SCANS else like_eager, *MODELS[model_name], mode)
generating = [(name, mode) for name in GENERATE for mode in ("rewrite", "engine")]
if asked and asked != ["all"]:
    generating = [case for case in generating if case[0] in asked]
elif not (ALL or asked):
    generating = random.Random(SEED).sample(generating, A_DAY)
for model_name, mode in generating:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests.check(f"generate: {model_name}, {mode}", generates, MODELS[model_name][0], mode)
sys.exit(tests.finish())
