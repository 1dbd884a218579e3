"""sparta.compile of torch modules, masked and packed ones too: the package gives the module's answer, under the names of its parameters."""

import dataclasses
import os
import sys

import numpy as np
import torch
from torch import nn

from common import Tests, need, refused

import sparta  # common.py says where it is

tests = Tests()
os.environ["XDG_CACHE_HOME"] = tests.work.name
torch.manual_seed(0)
QUICK = {"no_measure": 1, "context": {"cache_dir": "", "compiler": ""}}
X = torch.randn(6, 64)


def mlp():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)).eval()


def close(got, want):
    want = want.detach().numpy()
    need(got.shape == want.shape and np.abs(got - want).max() <= 1e-5 * max(np.abs(want).max(), 1), f"off by {np.abs(got - want).max()}")


def modules():
    for form in (mlp(), sparta.sparsify_(mlp(), "4x1:0.75"), nn.Sequential(sparta.nn.SparseLinear(nn.Linear(64, 32), pattern="4x1:0.75"))):
        before = [type(m) for m in form.modules()]
        for via in (None, "onnx"):
            package = sparta.compile(form, example_inputs=X, via=via, **QUICK)
            close(package.run({"input": X})["output"], form(X))
        need([type(m) for m in form.modules()] == before, "the module was changed")
    model = sparta.sparsify_(mlp(), {"0": "4x1:0.75"})
    package = sparta.compile(model, os.path.join(tests.work.name, "m.sparta"), example_inputs=(X,), dims={"batch": (1, 8, 64)}, **QUICK)
    need(package.inputs["input"][1] == (None, 64), package.inputs)
    need(package.inspect()["symbols"] == ["batch"] and [l["name"] for l in package.layers] == ["0", "2"], package.inspect())
    more = torch.randn(33, 64)
    close(package.run({"input": more})["output"], model(more))
    gone = np.ones((8, 32), np.uint8)
    gone[:4] = 0
    package = sparta.compile(mlp(), example_inputs=X, masks={"2.weight": gone}, **QUICK)
    need(package.layers[-1]["shape"] == [8, 32] or package.layers[-1]["density"] < 1, "masks by the names of parameters")
    s = sparta.Schedule()
    s["2.weight"].sparsify("magnitude(1x1, 0.5)")
    need(sparta.compile(mlp(), example_inputs=X, schedule=s, **QUICK).layers[-1]["density"] <= 0.6, "schedules by the names of parameters")


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=50, max_position_embeddings=32)
    model = sparta.sparsify_(BertModel(config).eval(), {"encoder.*": "4x1:0.75"})
    inputs = {"input_ids": torch.arange(12).reshape(2, 6), "attention_mask": torch.ones(2, 6, dtype=torch.long)}
    package = sparta.compile(model, example_inputs=inputs, **QUICK)
    answer, want = package.run(inputs), model(**inputs)
    close(answer["last_hidden_state"], want.last_hidden_state)
    close(answer["pooler_output"], want.pooler_output)


class Halves(dict):
    """Times of layers, for a search that measures nothing: every pattern takes half as long as dense."""

    def get(self, key, default=None):
        return 100.0 if key[1] is None else 50.0


@dataclasses.dataclass(frozen=True)
class Settings:
    use_cache: bool = True


class Caches(nn.Module):
    """A model of one's own, whose use_cache means what it likes."""

    config = Settings()

    def forward(self, x):
        return x @ x.T if self.config.use_cache else x


def decoders():
    """Those of transformers answer with a cache unless their configuration says otherwise; the package has the tensors, and the model its settings."""
    import transformers as T

    from sparta.prune import one_shot

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 50, "max_position_embeddings": 32}
    ids = torch.arange(12).reshape(2, 6)
    llama = T.LlamaForCausalLM(T.LlamaConfig(**sizes)).eval()
    t5 = T.T5ForConditionalGeneration(T.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=2, vocab_size=50, decoder_start_token_id=0)).eval()
    for model, inputs in ((llama, {"input_ids": ids}), (t5, {"input_ids": ids, "decoder_input_ids": ids})):
        package = sparta.compile(model, example_inputs=inputs, **QUICK)
        close(package.run(inputs)["logits"], model(**inputs).logits)
        need(model.config.use_cache, "the model was changed")
    experts = T.MixtralForCausalLM(T.MixtralConfig(**{**sizes, "num_key_value_heads": 2}, num_local_experts=4)).eval()
    if hasattr(experts, "set_experts_implementation"):
        refused(sparta.Error, 'model.set_experts_implementation("batched_mm")', sparta.compile, experts, example_inputs={"input_ids": ids}, **QUICK)
        experts.set_experts_implementation("batched_mm")
    close(sparta.compile(experts, example_inputs={"input_ids": ids}, **QUICK).run({"input_ids": ids})["logits"], experts(input_ids=ids).logits)
    for bad in ({"use_cache": True}, {"past_key_values": T.DynamicCache()}):
        refused(ValueError, f"example_inputs[{min(bad)!r}] asks for a cache", sparta.compile, llama, example_inputs={"input_ids": ids, **bad}, **QUICK)
    close(next(iter(sparta.compile(Caches(), example_inputs=torch.ones(4, 4), **QUICK).run(np.ones((4, 4), "float32")).values())), Caches()(torch.ones(4, 4)))
    rows = one_shot(llama, method="magnitude", target_speedup=1.2, example_inputs={"input_ids": ids}, times=Halves())
    need(any(row["density"] < 1 for row in rows), str(rows))


def large():
    """Weights beyond what one ONNX file holds lie beside it; the package does not need them afterwards."""
    from sparta import _export

    most, _export.LARGEST = _export.LARGEST, 10
    try:
        model = sparta.sparsify_(mlp(), "4x1:0.75")
        package = sparta.compile(model, example_inputs=X, via="onnx", **QUICK)
        close(package.run({"input": X})["output"], model(X))
    finally:
        _export.LARGEST = most


class Odd(nn.Module):
    """An operator that no program of ours has, and ONNX has in parts."""

    def forward(self, x):
        return torch.logaddexp(x, x + 1)


def other_ways():
    """What .pt2 is refused for goes through ONNX where that is installed, and is refused where it is asked for."""
    refused(sparta.Error, "aten.logaddexp.default", sparta.compile, Odd(), example_inputs=X, via="pt2", **QUICK)
    close(sparta.compile(Odd(), example_inputs=X, **QUICK).run({"x": X})["output"], Odd()(X))
    for words in ("aten.special_airy_ai.default", "torch cannot write this module as ONNX"):
        refused(sparta.Error, words, sparta.compile, Neither(), example_inputs=X, **QUICK)
    refused(ValueError, "via", sparta.compile, mlp(), example_inputs=X, via="jit")


class Neither(nn.Module):
    """Operators that no program of ours has, nor ONNX."""

    def forward(self, x):
        return torch.special.airy_ai(x)


class ByValue(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def refusals():
    refused(ValueError, "example_inputs", sparta.compile, mlp())
    refused(ValueError, "'batch'", sparta.compile, mlp(), example_inputs=X, dims={"tokens": 3})
    refused(TypeError, "torch.nn.Module", sparta.compile, 3)
    refused(ValueError, "torch.export", sparta.compile, ByValue(), example_inputs=X)


for name, function in {"modules": modules, "transformers' BERT": bert, "transformers' decoders": decoders, "weights beside the file": large, "other ways": other_ways, "refusals": refusals}.items():
    tests.check(name, function)
sys.exit(tests.finish())
