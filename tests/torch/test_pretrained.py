"""save_pretrained of a model in any form: plain transformers loads the folder, finds every weight and answers the same. One form of each
model a day; TEST_SEED repeats a day."""

import copy
import json
import logging
import os
import subprocess
import sys
import warnings

import torch
import transformers as T
from torch import nn

from common import Tests, need, refused
from today import turn

import sparta  # common.py says where it is
import sparta.nn

tests = Tests()
logging.getLogger("torch").setLevel(logging.ERROR)
T.logging.set_verbosity_error()
T.logging.disable_progress_bar()
warnings.simplefilter("ignore")
os.environ["XDG_CACHE_HOME"] = tests.work.name
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 64}
MODELS = {
    "bert": lambda: T.BertForSequenceClassification(T.BertConfig(**SIZES)),
    "llama, tied": lambda: T.LlamaForCausalLM(T.LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=True)),
    "t5": lambda: T.T5EncoderModel(T.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100)),
    "mixtral": lambda: T.MixtralForCausalLM(T.MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=4)),
}
X = {"input_ids": torch.randint(3, 100, (2, 9), generator=torch.Generator().manual_seed(0))}


def packed(module):
    return [name for name, m in module.named_modules() if isinstance(m, sparta.nn.SparseLinear)]


def pack_all(module):
    """Every masked layer of at least a few elements as SparseLinear, whatever is faster here."""
    for name, layer in list(module.named_modules()):
        if isinstance(layer, sparta.masked.MaskedLinear):
            parent = module.get_submodule(name.rpartition(".")[0])
            dense = nn.Linear(layer.in_features, layer.out_features, layer.bias is not None)
            dense.load_state_dict({n: p for n, p in (("weight", layer.masked_weight()), ("bias", layer.bias)) if p is not None})
            setattr(parent, name.rpartition(".")[2], sparta.nn.SparseLinear(dense, weight_mask=layer.weight_mask, format="bsr(4,1)").train(layer.training))
    need(len(packed(module)) > 3, f"{len(packed(module))} layers are packed")
    return module


def trained_(model):
    """A step, so that it is not the weights that were given."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    answer(model).square().mean().backward()
    optimizer.step()
    return model


def answer(model):
    return next(v for v in model(**X).values() if isinstance(v, torch.Tensor))


PLAIN = """if True:
    import json, sys, torch, transformers as T
    T.logging.set_verbosity_error()
    model, info = getattr(T, sys.argv[2]).from_pretrained(sys.argv[1], output_loading_info=True)
    assert "sparta" not in sys.modules
    with torch.no_grad():
        out = model.eval()(input_ids=torch.tensor(json.loads(sys.argv[3])))
    out = next(v for v in out.values() if isinstance(v, torch.Tensor))
    print(json.dumps([{k: sorted(map(str, v)) for k, v in info.items()}, out.tolist()]))
"""


def loads(make, form, plain, **words):
    torch.manual_seed(1)
    model = sparta.sparsify_(make().eval(), {"*": "4x1:0.75"})
    if form != "masked":
        pack_all(model)
    if form == "trained":
        trained_(model.train()).eval()
    with torch.no_grad():
        want = answer(model)
    folder = os.path.join(tests.work.name, f"{len(os.listdir(tests.work.name))}")
    keys = sorted(model.state_dict())
    model.save_pretrained(folder, **words)
    need(sorted(model.state_dict()) == keys, "state_dict is another afterwards")
    if plain:
        done = subprocess.run([sys.executable, "-c", PLAIN, folder, type(model).__name__, json.dumps(X["input_ids"].tolist())], capture_output=True, text=True)
        need(done.returncode == 0, done.stderr[-500:])
        info, got = json.loads(done.stdout)
        got = torch.tensor(got)
    else:
        twin, info = type(model).from_pretrained(folder, output_loading_info=True)
        with torch.no_grad():
            got = answer(twin.eval())
    lost = {k: v for k, v in info.items() if v and not all(str(n).endswith("weight_mask") for n in v)}  # masks are more than a dense model has
    need(not lost, lost)
    off = float((got - want).abs().max() / want.abs().max())
    need(off < 1e-4, f"the answer is off by {off:.1e}")
    return f"off by {off:.0e}"


def built():
    """What build_ itself makes, whichever layers it packs; the folder loads into a built model, too."""
    torch.manual_seed(1)
    model = sparta.sparsify_(MODELS["bert"]().eval(), {"*": "4x1:0.9"})
    sparta.build_(model, X)
    with torch.no_grad():
        want = answer(model)
    folder = os.path.join(tests.work.name, "built")
    model.save_pretrained(folder)
    twin = type(model).from_pretrained(folder).eval()
    with torch.no_grad():
        need(torch.allclose(answer(twin), want, atol=1e-4), "the answer is another")
        sparta.unbuild_(model)
        model.save_pretrained(folder)
        need(torch.allclose(answer(type(model).from_pretrained(folder).eval()), want, atol=1e-4), "the answer after unbuild_ is another")
    return f"{len(packed(model))} packed after unbuild_"


def conv1d():
    """GPT-2's Conv1D is pruned, packed and taken back as the linear layer that it is; in every form checkpoints are those of plain transformers."""
    make = lambda: T.GPT2LMHeadModel(T.GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=100, n_positions=64)).eval()
    model, reference = make(), make()
    layers = {n: m for n, m in model.named_modules() if type(m).__name__ == "Conv1D"}
    shapes = {r["name"]: r["shape"] for r in sparta.report(model)}
    need(len(layers) == 8 and all(shapes[n] == [m.nf, m.nx] and type(m).__name__ == "Conv1D" for n, m in layers.items()), f"{shapes}")
    dense = {n: p.clone() for n, p in model.state_dict().items()}
    reference.load_state_dict(dense)
    for name in layers:
        weight = reference.get_submodule(name).weight
        blocks = weight.detach().t().reshape(-1, 4, weight.shape[0]).abs().sum(1)  # 4 outputs of an input
        least = blocks.flatten().sort().values[blocks.numel() * 3 // 4]
        weight.data *= (blocks >= least).repeat_interleave(4, 0).t()
    before = {id(p) for p in model.parameters()}
    sparta.sparsify_(model, {"*.c_*": "4x1:0.75"})
    need(before == {id(p) for p in model.parameters()}, "Parameters stay what they are")

    def same(given, what):
        off = (answer(given) - answer(reference)).abs().max()
        need(off < 1e-4, f"{what}: off by {off}")

    def loads_plain(state, what):
        plain = make()
        plain.load_state_dict({n: p for n, p in state.items() if not n.endswith("_mask")})
        same(plain, what)

    same(model, "masked")
    loads_plain(model.state_dict(), "what a masked one saves")
    fresh = sparta.sparsify_(make(), {"*.c_*": "4x1:0.5"})
    fresh.load_state_dict(model.state_dict())
    same(copy.deepcopy(fresh), "one masked form from another")
    config = {n: {"block": [4, 1]} for n in layers}
    sparta.build(model, None, config)
    need(packed(model) == list(layers), f"{packed(model)}")
    same(model, "packed")
    model.load_state_dict(dense, strict=False)
    same(model, "a packed one that loaded the dense checkpoint")
    fresh.load_state_dict(model.state_dict())
    same(fresh, "what a packed one saves")
    folder = os.path.join(tests.work.name, "conv1d")
    model.save_pretrained(folder)
    same(T.GPT2LMHeadModel.from_pretrained(folder).eval(), "save_pretrained")
    sparta.unbuild_(model)
    same(model, "unbuilt")
    loads_plain(model.state_dict(), "what an unbuilt one saves")
    rows = sparta.prune.one_shot(make(), [X], "wanda", "4x1:0.5")
    need([r["name"] for r in rows] == list(layers) and all(abs(r["density"] - 0.5) < 0.01 for r in rows), f"{rows}")
    need(type(sparta.build_(make(), X).transformer.h[0].mlp.c_fc) is nn.Linear, "a dense one is built as it is")


def refuses():
    """What no dense layer answers as."""
    model = MODELS["bert"]()
    mask = torch.ones(4, 128, dtype=torch.bool)
    mask[:, :64] = False
    layer = model.bert.encoder.layer[0].intermediate
    layer.dense = sparta.nn.SparseLinear(layer.dense, output_mask=mask)
    refused(ValueError, "intermediate.dense is a SparseLinear with a mask of its output", model.save_pretrained, os.path.join(tests.work.name, "no"))


for number, (name, make) in enumerate(MODELS.items()):
    for place, form in enumerate(("packed", "trained", "masked")):
        if not (number + place == 0 or tests.only or turn(number + place, 3)):
            continue
        plain = form == "packed" and name == "bert"
        tests.check(f"{name}, {form}" + (", loaded where there is no sparta" if plain else ""), loads, make, form, plain, **({"max_shard_size": "60KB"} if form == "trained" else {}))
tests.check("as build_ makes it", built)
tests.check("Conv1D", conv1d)
tests.check("no dense layer", refuses)
sys.exit(tests.finish())
