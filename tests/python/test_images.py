"""Convolutional networks: single operators with random attributes and the models of the zoo, against onnxruntime and ONNX's reference.

The references of both must agree on what each operator means; the cases are seeded, so a failure names one that can be run again."""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from common import Tests, error, must, need, open_onnxruntime, run_onnxruntime, run_sparta, sparta

CASES = 24  # of each operator
MODELS = [("resnet50", ["image=32", "width=8", "classes=10"]), ("mobilenet-v2", ["image=32", "classes=10"]),
          ("unet", ["image=32", "width=4"]), ("densenet-small", ["image=8", "layers=4"])]


def model_of(node, x, extra, path, opset=21):
    """One node; x is its input, the rest are initialisers."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    constants = [onnx.numpy_helper.from_array(a, n) for n, a in extra.items()]
    graph = helper.make_graph([node], "case", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


class Maker:
    """Random cases: each gives a node, its input and its constants."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def number(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def array(self, *shape):
        return self.rng.standard_normal(shape, dtype=np.float32)

    def window(self, spatial, dilated=True):
        """Attributes of a window and an image that it fits into."""
        n = range(spatial)
        kernel = [self.number(1, 3) for _ in n]
        attributes = {"strides": [self.number(1, 3) for _ in n]}
        if dilated:
            attributes["dilations"] = [self.number(1, 2) for _ in n]
        padding = self.pick("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
        if padding == "NOTSET":
            attributes["pads"] = [self.number(0, kernel[i % spatial] - 1) for i in range(2 * spatial)]
        else:
            attributes["auto_pad"] = padding
            if padding.startswith("SAME"):  # onnxruntime takes neither dilation nor a kernel smaller than the stride here
                attributes.pop("dilations", None)
                attributes["strides"] = [min(s, k) for s, k in zip(attributes["strides"], kernel)]
        return kernel, [self.number(6, 11) for _ in n], attributes

    def conv(self):
        kernel, image, attributes = self.window(self.number(1, 3))
        group = self.pick(1, 1, 2, 3)
        c, m = group * self.number(1, 3), group * self.number(1, 3)
        extra = {"w": self.array(m, c // group, *kernel)} | ({"b": self.array(m)} if self.pick(0, 1) else {})
        return helper.make_node("Conv", ["x", *extra], ["y"], group=group, **attributes), self.array(self.number(1, 2), c, *image), extra

    def conv_transpose(self):
        spatial = self.number(1, 2)
        kernel, image, attributes = self.window(spatial)
        group = self.pick(1, 1, 2)
        c, m = group * self.number(1, 3), group * self.number(1, 3)
        if "auto_pad" not in attributes and self.pick(0, 1):
            attributes["output_padding"] = [self.number(0, s - 1) for s in attributes["strides"]]
        if attributes.get("auto_pad", "").startswith("SAME"):
            del attributes["auto_pad"]
        extra = {"w": self.array(c, m // group, *kernel)} | ({"b": self.array(m)} if self.pick(0, 1) else {})
        return helper.make_node("ConvTranspose", ["x", *extra], ["y"], group=group, **attributes), self.array(2, c, *image), extra

    def pool(self):
        op = self.pick("MaxPool", "AveragePool", "AveragePool", "LpPool")
        kernel, image, attributes = self.window(self.number(1, 3))
        if op == "AveragePool":
            attributes["count_include_pad"] = self.number(0, 1)
        if op == "LpPool":
            attributes["p"] = self.number(1, 3)
        elif "auto_pad" not in attributes:
            attributes["ceil_mode"] = self.number(0, 1)
        return helper.make_node(op, ["x"], ["y"], kernel_shape=kernel, **attributes), self.array(2, 2, *image), {}

    def resize(self):
        mode = self.pick("nearest", "linear", "linear", "cubic")
        where = self.pick("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
        attributes = {"mode": mode, "coordinate_transformation_mode": where}
        if mode == "nearest":
            attributes["nearest_mode"] = self.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        image = [self.number(4, 7), self.number(4, 7)]
        if where != "align_corners" and self.pick(0, 1):
            extra = {"scales": np.array([1, 1, self.pick(0.5, 2, 2.5, 3), self.pick(0.75, 1, 2)], dtype=np.float32)}
            inputs = ["x", "", "scales"]
        else:
            extra = {"sizes": np.array([1, 2, self.number(2, 15), self.number(2, 15)], dtype=np.int64)}
            inputs = ["x", "", "", "sizes"]
        return helper.make_node("Resize", inputs, ["y"], **attributes), self.array(1, 2, *image), extra

    def pad(self):
        mode = self.pick("constant", "reflect", "edge", "wrap")
        image = [self.number(3, 5) for _ in range(3)]
        low = -1 if mode == "constant" else 0
        extra = {"pads": np.array([self.number(low, 2) for _ in range(6)], dtype=np.int64)}
        if mode == "constant":
            extra["value"] = np.array(self.pick(0, 2.5), dtype=np.float32)
        return helper.make_node("Pad", ["x", *extra], ["y"], mode=mode), self.array(*image), extra

    def normalise(self):
        op = self.pick("BatchNormalization", "InstanceNormalization", "GroupNormalization")
        c = 2 * self.number(1, 3)
        extra = {"scale": self.array(c), "bias": self.array(c)}
        attributes = {"epsilon": self.pick(1e-5, 1e-2)}
        if op == "BatchNormalization":
            extra |= {"mean": self.array(c), "variance": self.array(c) ** 2 + np.float32(0.1)}
        if op == "GroupNormalization":
            attributes["num_groups"] = self.pick(1, 2, c)
        return helper.make_node(op, ["x", *extra], ["y"], **attributes), self.array(2, c, self.number(1, 4), self.number(2, 5)), extra


def agrees(tests, kind, seed):
    node, x, extra = getattr(Maker(seed), kind)()
    path = model_of(node, x, extra, os.path.join(tests.work, f"{kind}-{seed}.onnx"))
    ours = run_sparta(path, {"x": x}, os.path.join(tests.work, "case"))["y"]
    text = helper.printable_node(node)
    if node.op_type == "GroupNormalization" or (node.op_type == "Resize" and seed % 2):
        theirs = ReferenceEvaluator(path).run(None, {"x": x})[0]  # the form of opset 21; and a second opinion
    else:
        theirs = run_onnxruntime(open_onnxruntime(path), {"x": x})["y"]
    worst, _, _ = error(ours, theirs)
    need(worst < 1e-5, f"{text} of {x.shape}: {worst:.1e}")


def one_node(tests, node, x, extra, opset, want=None):
    """An older form of an operator, against onnxruntime; `want` is a text that the refusal must have."""
    path = model_of(node, x, extra, os.path.join(tests.work, "old.onnx"), opset)
    if want:
        result = sparta("inspect", path)
        need(result.code != 0 and want in result.err, f"{result}")
        return
    ours = run_sparta(path, {"x": x}, os.path.join(tests.work, "case"))["y"]
    worst, _, _ = error(ours, run_onnxruntime(open_onnxruntime(path), {"x": x})["y"])
    need(worst < 1e-5, f"{worst:.1e}")


def old_forms(tests):
    make, empty = Maker(1), np.array([], dtype=np.float32)
    x, w = make.array(2, 4, 6, 6), make.array(4, 4, 3, 3)
    sizes, scales = np.array([2, 4, 9, 3], dtype=np.int64), np.array([1, 1, 2, 1.5], dtype=np.float32)
    resize = lambda inputs: helper.make_node("Resize", inputs, ["y"], mode="linear", coordinate_transformation_mode="asymmetric")
    tests.check("opset 11: Resize by sizes", one_node, tests, resize(["x", "r", "s", "n"]), x, {"r": empty, "s": empty, "n": sizes}, 11)
    tests.check("opset 11: Resize by scales", one_node, tests, resize(["x", "r", "s"]), x, {"r": empty, "s": scales}, 11)
    groups = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    tests.check("opset 18: GroupNormalization", one_node, tests, groups, x, {"s": make.array(2), "b": make.array(2)}, 18)
    for opset in (11, 13, 18, 22):
        conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
        tests.check(f"opset {opset}: Conv", one_node, tests, conv, x, {"w": w}, opset)
        pool = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1, strides=[2, 2])
        tests.check(f"opset {opset}: AveragePool", one_node, tests, pool, x, {}, opset)
        pads = helper.make_node("Pad", ["x", "p"], ["y"], mode="reflect")
        tests.check(f"opset {opset}: Pad", one_node, tests, pads, x, {"p": np.array([0, 0, 1, 2, 0, 0, 2, 0])}, opset)
    four = {n: make.array(4) for n in "sbmv"}
    norm = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y", "m1", "v1", "m2", "v2"])
    tests.check("opset 11: BatchNormalization in training", one_node, tests, norm, x, four, 11, "model.eval()")
    norm = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y", "m1", "v1"], training_mode=1)
    tests.check("opset 15: BatchNormalization in training", one_node, tests, norm, x, four, 15, "model.eval()")


def zoo(tests, name, sizes, prune):
    path = os.path.join(tests.work, name + ".onnx")
    flags = [w for s in sizes for w in ("--dim", s)] + (["--prune", prune] if prune else [])
    must("zoo", name, *flags, "-o", path, "--seed", 5)
    onnx.checker.check_model(path, full_check=True)
    image = int(next(s for s in sizes if s.startswith("image")).split("=")[1])
    x = np.random.default_rng(1).standard_normal((2, 3, image, image), dtype=np.float32)
    ours = run_sparta(path, {"x": x}, os.path.join(tests.work, "zoo"))["logits"]
    worst, _, _ = error(ours, run_onnxruntime(open_onnxruntime(path), {"x": x})["logits"])
    need(worst < 1e-4, f"{worst:.1e}")
    return f"{worst:.1e}"


def compiled(tests, name, sizes):
    """A convolution has no implement of its own yet: it runs on its reference, inside of a package like any other."""
    path, package = (os.path.join(tests.work, name + end) for end in (".onnx", ".sparta"))
    must("zoo", name, *[w for s in sizes for w in ("--dim", s)], "-o", path, "--seed", 5)
    must("compile", path, "-o", package)
    image = int(sizes[0].split("=")[1])
    x = np.random.default_rng(2).standard_normal((3, 3, image, image), dtype=np.float32)
    ours = run_sparta(package, {"x": x}, os.path.join(tests.work, "package"))["logits"]
    worst, _, _ = error(ours, run_onnxruntime(open_onnxruntime(path), {"x": x})["logits"])
    need(worst < 1e-4, f"{worst:.1e}")


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = os.path.join(tests.work, "cache")
    for kind in ("conv", "conv_transpose", "pool", "resize", "pad", "normalise"):
        for seed in range(CASES):
            tests.check(f"{kind} {seed}", agrees, tests, kind, seed)
    old_forms(tests)
    for name, sizes in MODELS:
        tests.check(f"{name}", zoo, tests, name, sizes, None)
        tests.check(f"{name} pruned", zoo, tests, name, sizes, "1x1:0.5")
        tests.check(f"{name} compiled", compiled, tests, name, sizes)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
