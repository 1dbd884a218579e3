"""Masks named after PyTorch's parameters, in PyTorch's orientation, on what both exporters make of the model: the package must be that of the
model whose file was pruned by hand. And masks that lie the other way round, which a square weight does not show by its shape."""

import json
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

from common import FIXTURES, SPARTA, Tests, must, need, sparta

# The fixtures have no metadata: there the older exporter's node names and the newer one's biases say the module.
CASES = [  # model, parameter, its initialiser in the file, whether that is transposed
    ("bert-script-eager", "bert.encoder.layer.0.attention.self.query.weight", "/bert/encoder/layer.0/attention/self/query/MatMul", True),
    ("bert-script-eager", "bert.encoder.layer.1.intermediate.dense.weight", "/bert/encoder/layer.1/intermediate/dense/MatMul", True),
    ("bert-dynamo-eager", "bert.encoder.layer.0.attention.self.query.weight", "bert.encoder.layer.0.attention.self.query.bias", True),
    ("llama-script", "layers.0.q_proj.weight", "/layers.0/q_proj/MatMul", True),
    ("vit-script", "layers.0.proj.weight", "/layers/layers.0/proj/MatMul", True),
    ("encoder-dynamo", "first.self_attn.in_proj_weight", "first.self_attn.in_proj_bias", True),
    ("encoder-script", "first.self_attn.out_proj.weight", "first.self_attn.out_proj.weight", False),
    ("mlp-dynamo", "layers.2.weight", "layers.2.weight", False),
]


def weight_of(model, by):
    """The initialiser of the product of this name, in front of this bias, or of this name."""
    made = {o: n for n in model.graph.node for o in n.output}
    if by in {i.name for i in model.graph.initializer} and not by.endswith("bias"):
        return by
    for n in model.graph.node:
        if n.name == by:
            return n.input[1]
        if n.op_type == "Add" and by in n.input:
            other = [i for i in n.input if i != by][0]
            return made[other].input[1]
    raise AssertionError(f"no product for {by}")


def prune(model, name, keep):
    for t in model.graph.initializer:
        if t.name == name:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t) * keep, name))


def shape_of(model, name):
    return next(tuple(t.dims) for t in model.graph.initializer if t.name == name)


def save_masks(path, masks):
    if path.endswith(".npz"):
        np.savez(path, **masks)
    else:
        save_file(masks, path)
    return path


def compile_as(folder, model, masks, *words):
    return sparta("compile", model, "--masks", masks, "--no-measure", "--json", "-o", os.path.join(folder, "m.sparta"), *words)


def check_orientation(folder, model, parameter, by, turned, kind):
    path = os.path.join(FIXTURES, model + ".onnx")
    given = onnx.load(path)
    name = weight_of(given, by)
    shape = shape_of(given, name)
    rng = np.random.default_rng(3)
    mask = (rng.random(shape[::-1] if turned else shape) < 0.4).astype(np.uint8)  # as PyTorch has it
    masks = save_masks(os.path.join(folder, "masks" + kind), {parameter: mask})
    result = compile_as(folder, path, masks)
    need(result.code == 0, result)
    lost = json.loads(result.out)["masked_nonzero"]
    need(lost > 0 and f"removes {lost} weights that are not 0" in result.out, f"{lost} weights that are not 0 went and it is not said")
    prune(given, name, mask.T if turned else mask)
    pruned = os.path.join(folder, "pruned.onnx")
    onnx.save(given, pruned)
    must("verify", os.path.join(folder, "m.sparta"), "--against", pruned)
    # What was pruned so before loses nothing.
    again = json.loads(must("compile", pruned, "--masks", masks, "--no-measure", "--json", "-o", os.path.join(folder, "p.sparta")).out)
    need(again["masked_nonzero"] == 0 and not any("not 0" in n for n in again["notes"]), again["notes"])
    if mask.shape[0] == mask.shape[1]:  # the same the other way round is refused
        wrong = save_masks(os.path.join(folder, "wrong" + kind), {parameter: np.ascontiguousarray(mask.T)})
        result = compile_as(folder, pruned, wrong)
        need(result.code == 2 and "transposed it would remove zeros only" in result.err, result)
    else:
        wrong = save_masks(os.path.join(folder, "wrong" + kind), {parameter: np.ascontiguousarray(mask.T)})
        result = compile_as(folder, pruned, wrong)
        need(result.code == 2 and "transpose it" in result.err, result)


def check_own_name(folder):
    """An initialiser's name has the file's shape, whatever its module."""
    path = os.path.join(FIXTURES, "bert-script-eager.onnx")
    given = onnx.load(path)
    name = weight_of(given, "/bert/encoder/layer.0/attention/self/query/MatMul")
    mask = (np.random.default_rng(4).random(shape_of(given, name)) < 0.5).astype(np.uint8)
    need(compile_as(folder, path, save_masks(os.path.join(folder, "own.npz"), {name: mask})).code == 0, "own name")
    prune(given, name, mask)
    pruned = os.path.join(folder, "own.onnx")
    onnx.save(given, pruned)
    must("verify", os.path.join(folder, "m.sparta"), "--against", pruned)


def make_model(path, scopes, conv1d=False):
    """x -> three products of 16 x 16 as the newer exporter writes them, each in a module of its own, without biases."""
    rng = np.random.default_rng(5)
    nodes, weights, x = [], [], "x"
    for i, scope in enumerate(scopes):
        name = f"h.{i}.c.weight" if conv1d else f"val_{i}"
        op = helper.make_node("Gemm" if conv1d else "MatMul", [x, name], [f"y{i}"], f"node_linear_{i}")
        entry = op.metadata_props.add()
        entry.key, entry.value = "pkg.torch.onnx.name_scopes", scope
        nodes.append(op)
        weights.append(numpy_helper.from_array(rng.standard_normal((16, 16), dtype=np.float32), name))
        x = f"y{i}"
    kind = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 16])  # noqa: E731
    graph = helper.make_graph(nodes, "m", [kind("x")], [kind(x)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def check_metadata(folder, conv1d):
    """A Linear by its module's path; GPT-2's Conv1D has its own name, and its own orientation, (in, out)."""
    scopes = [f"['', 'h.{i}', 'h.{i}.c', 'linear_{i}']" for i in range(3)]
    path = make_model(os.path.join(folder, "scopes.onnx"), scopes, conv1d)
    mask = (np.random.default_rng(6).random((16, 16)) < 0.5).astype(np.uint8)
    masks = save_masks(os.path.join(folder, "scopes.safetensors"), {"h.1.c.weight": mask})
    result = compile_as(folder, path, masks)
    need(result.code == 0, result)
    given = onnx.load(path)
    prune(given, "h.1.c.weight" if conv1d else "val_1", mask if conv1d else mask.T)
    pruned = os.path.join(folder, "scopes-pruned.onnx")
    onnx.save(given, pruned)
    must("verify", os.path.join(folder, "m.sparta"), "--against", pruned)


def check_refused(folder, scopes, key, said):
    path = make_model(os.path.join(folder, "odd.onnx"), scopes)
    masks = save_masks(os.path.join(folder, "odd.npz"), {key: np.ones((16, 16), np.uint8)})
    result = compile_as(folder, path, masks)
    need(result.code == 2 and said in result.err, result)


def check_schedule(folder):
    """The same in a schedule's mask(...)."""
    path = os.path.join(FIXTURES, "bert-script-eager.onnx")
    given = onnx.load(path)
    name = weight_of(given, "/bert/encoder/layer.0/attention/self/query/MatMul")
    mask = (np.random.default_rng(7).random(shape_of(given, name)) < 0.5).astype(np.uint8)
    save_masks(os.path.join(folder, "s.npz"), {"bert.encoder.layer.0.attention.self.query.weight": mask})
    schedule = os.path.join(folder, "s.schedule")
    with open(schedule, "w") as f:
        f.write('tensor "/bert/encoder/layer.0/attention/self/query/MatMul" {\n    sparsify mask("s.npz")\n}\n')
    must("compile", path, "--schedule", schedule, "--no-measure", "-o", os.path.join(folder, "m.sparta"))
    prune(given, name, mask.T)
    pruned = os.path.join(folder, "s.onnx")
    onnx.save(given, pruned)
    must("verify", os.path.join(folder, "m.sparta"), "--against", pruned)


def check_names(folder, model, keep):
    """Weights and layers have the paths of their modules in files of both exporters, here without metadata; --keep and schedules take them."""
    shown = []
    for exporter in ("dynamo", "script"):
        path = os.path.join(FIXTURES, model.replace("*", exporter) + ".onnx")
        rows = json.loads(must("prune", path, "--pattern", "1x1:0.5", "--keep", keep, "--json", "-o", os.path.join(folder, "names.onnx")).out)["layers"]
        need([r["name"] for r in rows if r["left"].startswith("kept")] == [keep + ".weight"], rows)
        shown.append({r["name"] for r in rows if r["density"] is not None})
        with open(os.path.join(folder, "names.schedule"), "w") as f:
            f.write(f'tensor "{keep}" {{\n    sparsify magnitude(1x1, 0.5)\n}}\n')
        layers = json.loads(must("inspect", path, "--schedule", f.name, "--json").out)["layers"]
        need(sum(r["density"] is not None and r["density"] < 1 for r in layers) == 1, layers)
        need(not any(r["op"] == "Linear" and r["name"].startswith("node_") for r in layers), layers)
    need(shown[0] == shown[1] and all(n.endswith(".weight") for n in shown[0]), shown)


def tesa_of(masks):
    """The same masks as attributes: rows or columns that are alike are kept once."""
    arrays = {}
    for name, mask in masks.items():
        has = mask != 0
        for axis in range(has.ndim):
            first = np.take(has, [0], axis)
            has = first if (has == first).all() else has
        arrays[name + "/tesa"] = np.frombuffer(f"[{','.join(map(str, mask.shape))}] f32".encode(), np.uint8)
        arrays[name + "/has"] = np.ascontiguousarray(has)
    return arrays


def check_tesa(folder, kind, whole):
    """A file of attributes does what the masks do, by option and by schedule."""
    path = os.path.join(FIXTURES, "bert-script-eager.onnx")
    given = onnx.load(path)
    name = weight_of(given, "/bert/encoder/layer.0/attention/self/query/MatMul")
    shape = shape_of(given, name)[::-1]
    mask = np.random.default_rng(8).random((shape[0], 1) if whole else shape) < 0.5
    mask = np.broadcast_to(mask, shape).astype(np.uint8)
    masks = save_masks(os.path.join(folder, "tesa" + kind), tesa_of({"bert.encoder.layer.0.attention.self.query.weight": mask}))
    shown = json.loads(must("inspect", masks, "--json").out)
    need(shown["kind"] == "tesa" and abs(shown["layers"][0]["density"] - mask.mean()) < 1e-9, shown)
    schedule = os.path.join(folder, "t.schedule")
    with open(schedule, "w") as f:
        f.write(f'tensor "/bert/encoder/layer.0/attention/self/query/MatMul" {{\n    sparsify mask("tesa{kind}")\n}}\n')
    prune(given, name, mask.T)
    pruned = os.path.join(folder, "t.onnx")
    onnx.save(given, pruned)
    for words in (["--masks", masks], ["--schedule", schedule]):
        must("compile", path, *words, "--no-measure", "-o", os.path.join(folder, "m.sparta"))
        must("verify", os.path.join(folder, "m.sparta"), "--against", pruned)


def check_tesa_refused(folder):
    path = os.path.join(FIXTURES, "bert-script-eager.onnx")
    arrays = tesa_of({"x": np.ones((4, 4), np.uint8)})
    for text, said in ((b"[4,4", "no text of an attribute"), (b"[4,5] f32", ""), (b"[n,4] f32", ""), (b"[4,4] f3", "no precision")):
        arrays["x/tesa"] = np.frombuffer(text, np.uint8)
        arrays["x/has"] = np.ones((4, 4), bool)
        result = compile_as(folder, path, save_masks(os.path.join(folder, "bad.npz"), arrays))
        need(result.code in (1, 2) and said in result.err and "bad.npz" in result.err, result)


def main():
    tests = Tests()
    print(SPARTA)
    for kind in (".npz", ".safetensors"):
        for whole in (False, True):
            tests.check(f"attributes {kind}{' of rows' if whole else ''}", check_tesa, tests.work, kind, whole)
    tests.check("attributes that are wrong", check_tesa_refused, tests.work)
    for kind in (".npz", ".safetensors"):
        for model, parameter, by, turned in CASES:
            tests.check(f"{model} {parameter} {kind}", check_orientation, tests.work, model, parameter, by, turned, kind)
    tests.check("an initialiser's name", check_own_name, tests.work)
    tests.check("metadata of the newer exporter", check_metadata, tests.work, False)
    tests.check("Conv1D", check_metadata, tests.work, True)
    tests.check("a schedule's mask", check_schedule, tests.work)
    for model, keep in (("bert-*-sdpa", "bert.encoder.layer.0.attention.self.query"), ("mlp-*", "layers.2"), ("dlrm-*", "bot_l.0"), ("vit-*", "layers.1.fc2")):
        tests.check(f"names in {model}", check_names, tests.work, model, keep)
    tests.check("one module, two weights", check_refused, tests.work, ["['', 'a', 'linear']"] * 3, "a.weight", "several weights")
    tests.check("a module that is not there", check_refused, tests.work, ["['', 'query', 'linear']"] * 3, "qeury.weight",
                "did you mean 'query.weight'?")
    for odd in ("", "[", "['a'", "['', 'linear']", "[\"a\", 'b", "''''''"):
        tests.check(f"odd scopes {odd!r}", check_refused, tests.work, [odd] * 3, "a.weight", "no weight 'a.weight'")
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
