"""Models of transformers, torchvision and timm, as PyTorch's two exporters write them, through sparta and through onnxruntime.

Each architecture is built small and with random weights, so that nothing is downloaded; exported with torch.onnx.export, dynamo=False ("script") and
dynamo=True; inspected, compiled, verified; and run at several batches and lengths, the package and the file on the references, against onnxruntime on
the same inputs. One line a model, then a table for docs/benchmarks/real-models.md. It needs torch, transformers, torchvision, timm, onnx, onnxscript
and onnxruntime:

    python tools/real_models.py build/release/sparta                all of it: an hour of two cores, most of it the exporters'
    python tools/real_models.py build/release/sparta gpt2 vit       some; also by library: timm
    python tools/real_models.py build/release/sparta --files DIR    ONNX files from elsewhere

Results are kept in --work DIR (real-models in TMPDIR): what is exported there already is not exported again. Exit 1 when an answer differs.
"""

import argparse
import collections
import functools
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnxruntime
import torch

CLOSE = 1e-5  # of an output's largest value
ONCE = ["--dim", "batch=2"]  # verify of images: one size, the references are slow

# ------------------------------------------------------------------ the models: name -> (library, what makes module, inputs, dynamic axes)

Model = collections.namedtuple("Model", "library make")
models: dict[str, Model] = {}


class Plain(torch.nn.Module):
    """Tensors in by position, the first two tensors of its outputs out."""

    def __init__(self, module, names, **fixed):
        super().__init__()
        self.module, self.names, self.fixed = module, names, fixed

    def forward(self, *inputs):
        out = self.module(**dict(zip(self.names, inputs)), **self.fixed)
        if isinstance(out, torch.Tensor):
            return (out,)
        all_of_it = out.to_tuple() if hasattr(out, "to_tuple") else out
        return tuple(x for x in all_of_it if isinstance(x, torch.Tensor))[:2]


def ids(length):
    return torch.randint(3, 99, (2, length))


def mask(length):
    m = torch.ones(2, length, dtype=torch.int64)
    m[-1, length * 3 // 4 :] = 0
    return m


def of_transformers(name, config):
    import transformers

    model = getattr(transformers, name)
    return model(model.config_class(**config)).eval()


TEXT = {"input_ids": (ids, "sequence"), "attention_mask": (mask, "sequence")}
BOTH = {**TEXT, "decoder_input_ids": (ids, "target")}


def text(name, cls, inputs=TEXT, fixed=None, **config):
    def make():
        made = tuple(fill(12 if axis == "sequence" else 7) for fill, axis in inputs.values())
        axes = {n: {0: "batch", 1: axis} for n, (_, axis) in inputs.items()}
        return Plain(of_transformers(cls, config), list(inputs), **(fixed or {})), made, axes

    models[name] = Model("transformers", make)


def signal(name, library, build, *shape, key="x"):
    def make():
        return Plain(build().eval(), [key]), (torch.randn(2, *shape),), {key: {0: "batch"}}

    models[name] = Model(library, make)


def picture(name, cls, size, **config):
    signal(name, "transformers", functools.partial(of_transformers, cls, config), 3, size, size, key="pixel_values")


def define():
    import timm
    import torchvision

    size = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    groups = dict(size, num_key_value_heads=2)
    t5 = dict(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    decoder = dict(fixed=dict(use_cache=False))
    for name in "Bert Roberta Electra Albert Camembert MPNet SqueezeBert ConvBert".split():
        embedding = {} if name in ("Bert", "Roberta", "Camembert", "MPNet") else dict(embedding_size=32 if name == "SqueezeBert" else 16)
        text(name.lower(), f"{name}Model", **size, **embedding)
    text("bert-cls", "BertForSequenceClassification", **size)
    text("xlm-roberta", "XLMRobertaForTokenClassification", pad_token_id=1, **size)
    text("distilbert", "DistilBertModel", vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64)
    text("mobilebert", "MobileBertModel", embedding_size=16, intra_bottleneck_size=16, **size)
    text("modernbert", "ModernBertModel", pad_token_id=0, local_attention=8, **size)
    relative = dict(relative_attention=True, pos_att_type=["p2c", "c2p"], max_position_embeddings=64)
    text("deberta", "DebertaModel", max_relative_positions=16, **relative, **size)
    text("deberta-v2", "DebertaV2Model", position_buckets=8, share_att_key=True, norm_rel_ebd="layer_norm", **relative, **size)
    text("nystromformer", "NystromformerModel", segment_means_seq_len=12, num_landmarks=12, **size)
    text("esm", "EsmModel", pad_token_id=1, mask_token_id=2, position_embedding_type="rotary", **size)
    text("fnet", "FNetModel", inputs={"input_ids": TEXT["input_ids"]}, vocab_size=99, hidden_size=32, num_hidden_layers=2, intermediate_size=64)
    text("clip-text", "CLIPTextModel", max_position_embeddings=64, eos_token_id=2, **size)
    text("t5-encoder", "T5EncoderModel", **t5)
    text("mt5-encoder", "MT5EncoderModel", **t5)
    text("gpt2", "GPT2LMHeadModel", vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, **decoder)
    local = dict(attention_types=[[["global", "local"], 1]], window_size=8)
    text("gpt-neo", "GPTNeoForCausalLM", vocab_size=99, hidden_size=32, num_layers=2, num_heads=4, **local, **decoder)
    text("gpt-neox", "GPTNeoXForCausalLM", **size, **decoder)
    for name in "Llama Qwen2 Granite Olmo2 StableLm".split():
        text(name.lower(), f"{name}ForCausalLM", **groups, **decoder)
    for name in "Qwen3 Gemma".split():
        text(name.lower(), f"{name}ForCausalLM", head_dim=8, **groups, **decoder)
    for name in "Phi3 SmolLM3".split():
        text(name.lower(), f"{name}ForCausalLM", pad_token_id=0, **groups, **decoder)
    text("gemma2", "Gemma2ForCausalLM", head_dim=8, sliding_window=8, query_pre_attn_scalar=8, **groups, **decoder)
    text("mistral", "MistralForCausalLM", sliding_window=8, **groups, **decoder)
    text("mixtral", "MixtralForCausalLM", num_local_experts=4, **groups, **decoder)
    text("phi", "PhiForCausalLM", **size, **decoder)
    text("falcon", "FalconForCausalLM", vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **decoder)
    opt = dict(ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64)
    text("opt", "OPTForCausalLM", vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **opt, **decoder)
    text("bloom", "BloomForCausalLM", vocab_size=99, hidden_size=32, n_layer=2, n_head=4, **decoder)
    only_ids = {"input_ids": TEXT["input_ids"]}
    text("mamba", "MambaForCausalLM", inputs=only_ids, vocab_size=99, hidden_size=32, num_hidden_layers=2, state_size=8, **decoder)
    text("t5", "T5Model", inputs=BOTH, decoder_start_token_id=0, **t5, **decoder)
    layers = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))}
    pair = dict(vocab_size=99, d_model=32, max_position_embeddings=64, decoder_start_token_id=2, pad_token_id=1, **layers)
    text("bart", "BartModel", inputs=BOTH, **pair, **decoder)
    text("marian", "MarianModel", inputs=BOTH, **pair, **decoder)

    vision = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
    for name in "ViT DeiT SiglipVision CLIPVision".split():
        picture(name.lower(), f"{name}Model", 32, **vision)
    picture("beit", "BeitModel", 32, use_relative_position_bias=True, **vision)
    picture("dinov2", "Dinov2Model", 32, **{k: v for k, v in vision.items() if k != "intermediate_size"})
    for name in "Swin Swinv2".split():
        picture(name.lower(), f"{name}Model", 32, image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    stages = dict(depths=[1, 1], sr_ratios=[4, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2])
    picture("segformer", "SegformerModel", 32, num_encoder_blocks=2, num_attention_heads=[1, 2], mlp_ratios=[2, 2], **stages)
    picture("resnet", "ResNetModel", 32, embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1])
    picture("convnext", "ConvNextModel", 32, hidden_sizes=[16, 32], depths=[1, 1], num_stages=2)
    neck = [8, 8, 16, 16, 24, 24, 48]
    picture("mobilevit", "MobileViTModel", 64, image_size=32, hidden_sizes=[16, 24, 32], neck_hidden_sizes=neck, num_attention_heads=2)
    heads = dict(num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8])
    picture("levit", "LevitModel", 64, image_size=64, hidden_sizes=[16, 24, 32], **heads)
    sound = dict(num_mel_bins=16, max_source_positions=32, max_target_positions=32, bos_token_id=1, eos_token_id=2, **{**pair, "pad_token_id": 0})
    del sound["max_position_embeddings"]
    signal("whisper-encoder", "transformers", lambda: of_transformers("WhisperModel", sound).encoder, 16, 64, key="input_features")
    waves = dict(conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)
    signal("wav2vec2", "transformers", lambda: of_transformers("Wav2Vec2ForCTC", dict(size, **waves)), 800, key="input_values")

    for name in """resnet18 mobilenet_v2 mobilenet_v3_small efficientnet_b0 densenet121 squeezenet1_1 shufflenet_v2_x1_0 convnext_tiny regnet_y_400mf
                mnasnet0_5 resnext50_32x4d swin_t swin_v2_t""".split():
        signal(name, "torchvision", functools.partial(getattr(torchvision.models, name), weights=None), 3, 64, 64)
    small = dict(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64)
    signal("vision-transformer", "torchvision", functools.partial(torchvision.models.VisionTransformer, **small), 3, 32, 32)
    fitted = dict(img_size=64, depth=2)
    for name, side, config in [(n, 64, fitted) for n in "vit_tiny_patch16_224 deit_tiny_distilled_patch16_224 xcit_nano_12_p16_224".split()] + \
            [(n, 64, dict(img_size=64)) for n in "mixer_s32_224 resmlp_12_224 gmlp_s16_224".split()] + \
            [(n, 64, {}) for n in """convnext_atto convnextv2_atto mobilevit_xxs mobilenetv4_conv_small ghostnet_100 poolformer_s12 edgenext_xx_small
                repvgg_a0""".split()] + [(n, 224, {}) for n in "efficientformer_l1 levit_128s pit_ti_224 tiny_vit_5m_224".split()]:
        signal(f"timm-{name}", "timm", functools.partial(timm.create_model, name, pretrained=False, **config), 3, side, side)


# ------------------------------------------------------------------ exporting


def liven(module):
    """Norms, biases and statistics that are not 1 and 0, and no weight that is zero as a whole: those would hide mistakes."""
    noise = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for p in module.parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape, generator=noise) * 0.1)
            elif not p.any():
                p.add_(torch.randn(p.shape, generator=noise) * 0.05)
        for name, b in module.named_buffers():
            if name.endswith("running_mean"):
                b.add_(torch.randn(b.shape, generator=noise) * 0.1)
            if name.endswith("running_var"):
                b.mul_(torch.rand(b.shape, generator=noise) + 0.5)


def export(model, path, dynamo):
    torch.manual_seed(1)
    module, inputs, axes = model.make()
    liven(module)
    with torch.no_grad():
        outputs = [f"out{i}" for i in range(len(module(*inputs)))]
    common = dict(input_names=list(axes), output_names=outputs, dynamo=dynamo)
    if not dynamo:
        torch.onnx.export(module, inputs, path, dynamic_axes=axes, opset_version=17, **common)
        return axes
    named = {}
    for axis in {a for of_input in axes.values() for a in of_input.values()}:
        named[axis] = torch.export.Dim(axis, min=1, max=512 if axis == "batch" else 64)
    shapes = tuple({at: named[axis] for at, axis in of_input.items()} for of_input in axes.values())
    loose = tuple(dict.fromkeys(of_input, torch.export.Dim.AUTO) for of_input in axes.values())
    try:
        torch.onnx.export(module, inputs, path, dynamic_shapes=(shapes,), external_data=False, verbose=False, **common)
    except Exception:
        torch.onnx.export(module, inputs, path, dynamic_shapes=(loose,), external_data=False, verbose=False, **common)
    return axes


# ------------------------------------------------------------------ checking


class Checker:
    def __init__(self, program, work):
        self.program, self.work = os.path.abspath(program), work

    def sparta(self, *words):
        """Exit code and last message."""
        done = subprocess.run([self.program, *words, "--cache", f"{self.work}/cache"], capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if not line.startswith("sparta: note")]
        return done.returncode, said[-1] if said else ""

    def differs(self, path, inputs, session, want):
        """Largest difference to onnxruntime over the largest value, or why there is none."""
        folder = tempfile.mkdtemp(dir=self.work)
        try:
            np.savez(f"{folder}/in.npz", **inputs)
            code, said = self.sparta("run", path, "--inputs", f"{folder}/in.npz", "--output-dir", f"{folder}/out")
            if code:
                return said
            worst = 0.0
            for output, w in zip(session.get_outputs(), want):
                g = np.load(f"{folder}/out/{output.name}.npy")
                if g.shape != w.shape or g.dtype != w.dtype or (np.isnan(g) != np.isnan(w)).any():
                    return f"{output.name} is {g.dtype} {g.shape}, not {w.dtype} {w.shape}, or has NaNs elsewhere"
                if g.size:
                    apart = np.abs(g.astype(np.float64) - w)[~np.isnan(w)]
                    worst = max(worst, float(apart.max(initial=0) / max(np.nanmax(np.abs(w)), 1e-30)))
            return worst
        finally:
            shutil.rmtree(folder)

    def check(self, path, axes, sizes, images):
        """{"refused": why} or {"verify": code, "worst": x, "odd": [why]}."""
        package = path.removesuffix(".onnx") + ".sparta"
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for verb in (["inspect", path, "-q"], ["compile", path, "-q", "-o", package]):
            code, said = self.sparta(*verb)
            if code:
                return {"refused": said, "code": code}
        code, said = self.sparta("verify", package, "--against", path, *(ONCE if images else []))
        result = {"verify": code, "worst": 0.0, "odd": [said] if code else []}
        random = np.random.default_rng(5)
        for size in sizes:
            inputs = {i.name: made_up(i, axes.get(i.name, {}), size, random) for i in session.get_inputs()}
            try:
                want = session.run(None, inputs)
            except Exception:  # a size that the exporter fixed
                continue
            for file in (package,) if images and size["batch"] > 1 else (package, path):
                answer = self.differs(file, inputs, session, want)
                if isinstance(answer, str):
                    result["odd"].append(answer)
                else:
                    result["worst"] = max(result["worst"], answer)
        return result


def made_up(given, axes, size, random):
    shape = [size.get(axes.get(at) or (d if isinstance(d, str) else ""), d) for at, d in enumerate(given.shape)]
    shape = [d if isinstance(d, int) and d > 0 else (size["batch"] if at == 0 else size["other"]) for at, d in enumerate(shape)]
    if "mask" in given.name:
        m = np.ones(shape, np.int64)
        m[-1, max(1, shape[1] * 3 // 4) :] = 0
        return m
    if "int" in given.type:
        return random.integers(3, 99, shape).astype(np.int32 if "int32" in given.type else np.int64)
    return random.standard_normal(shape).astype(np.float32)


SIZES = [dict(batch=b, sequence=s, target=t, other=64) for b, s, t in ((2, 12, 7), (1, 31, 13), (3, 5, 2), (2, 1, 1))]


# ------------------------------------------------------------------ the table


def table(results):
    columns = "tried exported compiles verify agrees".split()
    count = collections.defaultdict(collections.Counter)
    for (library, how, _), r in results.items():
        row = count[library, how]
        row["tried"] += 1
        row["exported"] += "not exported" not in r
        done = "worst" in r
        row["compiles"] += done
        row["verify"] += done and r["verify"] == 0
        row["agrees"] += done and not r["odd"] and r["worst"] <= CLOSE
        row["worst"] = max(row["worst"], r.get("worst", 0))
    print("\n| from | exporter |", " | ".join(columns), "| worst |\n|---|---|" + "---|" * (len(columns) + 1))
    for (library, how), row in sorted(count.items()):
        print(f"| {library} | {how} |", " | ".join(str(row[c]) for c in columns), f"| {row['worst']:.1e} |")


def one(checker, path, model, dynamo):
    try:
        axes = export(model, path, dynamo) if not os.path.exists(path) else model.make()[2]
    except Exception as e:
        if os.path.exists(path):
            os.remove(path)
        return {"not exported": str(e).splitlines()[0][:100]}
    images = len(axes) == 1 and 1 not in next(iter(axes.values()))
    return checker.check(path, axes, SIZES[:3] if images else SIZES, images)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sparta")
    parser.add_argument("names", nargs="*", help="models, or libraries; none: all")
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "real-models"))
    parser.add_argument("--files", help="folder of ONNX files to check instead")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    os.makedirs(asked.work, exist_ok=True)
    checker, results = Checker(asked.sparta, os.path.abspath(asked.work)), {}
    if asked.files:
        for name in sorted(os.listdir(asked.files)):
            path = shutil.copy(os.path.join(asked.files, name), checker.work)
            results["files", "", name] = checker.check(path, {}, [dict(batch=1, other=64)], True)
            print(name, json.dumps(results["files", "", name]), flush=True)
    else:
        define()
    for name, model in models.items():
        if asked.names and not {name, model.library} & set(asked.names):
            continue
        for how in ("script", "dynamo"):
            result = one(checker, f"{checker.work}/{name}.{how}.onnx", model, how == "dynamo")
            results[model.library, how, name] = result
            print(name, how, json.dumps(result), flush=True)
    table(results)
    sys.exit(any("worst" in r and (r["worst"] > CLOSE or r["odd"]) for r in results.values()))


if __name__ == "__main__":
    main()
