"""Dims of models as exporters write them: nameless, named twice, too small for a kernel by default; and --dim on every verb."""

import json
import os
import resource
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

from common import Tests, must, need, open_onnxruntime, run_onnxruntime, run_sparta, sparta

T = Tests()
rng = np.random.default_rng(1)
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def model(name, nodes, inputs, outputs, weights=()):
    """Writes NAME.onnx; a dim of -1 stays -1."""
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(n, FLOAT, None) for n in outputs],
                              [onnx.numpy_helper.from_array(w, n) for n, w in weights])
    path = os.path.join(T.work, name + ".onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], name=f"{op}_{output}", **attributes)


def weight(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def image(dims):
    return model("image-" + "-".join(str(d) for d in dims).replace("?", "q"),
                 [node("Conv", "x k", "a", kernel_shape=[5, 5]), node("MaxPool", "a", "b", kernel_shape=[3, 3], strides=[2, 2]),
                  node("Relu", "b", "y")], [("x", FLOAT, dims)], ["y"], [("k", weight(4, 3, 5, 5))])


def every_verb(path, *flags):
    """inspect, compile, run, verify and bench all take the model."""
    package = path.replace(".onnx", ".sparta")
    must("inspect", path, *flags)
    must("compile", path, "--no-measure", "-o", package, *flags)
    must("run", path, "--output-dir", path + ".out", *flags)
    must("verify", path, "--against", path, *flags)
    must("verify", package, "--against", path, *flags)
    must("bench", path, "--no-measure", "--no-baseline", "--iterations", "1", "--warmup", "0", *flags)
    return package


def same_as_onnxruntime(path, package, inputs):
    want = run_onnxruntime(open_onnxruntime(path), inputs)
    for subject in (path, package):
        got = run_sparta(subject, inputs, path + ".io")
        for name, array in want.items():
            need(got[name].shape == array.shape, f"{name}: {got[name].shape}, not {array.shape}")
            need(np.allclose(got[name], array, rtol=1e-4, atol=1e-5), f"{name} differs")


def nameless():
    for dims in ((-1, 3, -1, -1), ("?", 3, "?", "?"), (None, 3, None, None)):
        path = image(dims)
        symbols = json.loads(must("inspect", path, "--json").out)["symbols"]
        need(symbols == ["x_0", "x_2", "x_3"], f"symbols {symbols}")
        package = every_verb(path)
        must("run", path, "--output-dir", path + ".out", "--dim", "x_2=9", "--dim", "x_3=30", "--dim", "x_0=2")
        need(np.load(os.path.join(path + ".out", "x.npy")).shape == (2, 3, 9, 30), "--dim did not set the sizes")
        same_as_onnxruntime(path, package, {"x": weight(2, 3, 9, 30)})


def images_are_224():
    path = image(("n", 3, "height", "width"))
    said = must("run", path, "--output-dir", path + ".out")
    need("sizes assumed: n=1 height=224 width=224; --dim width=N" in said.err, said)
    need(np.load(os.path.join(path + ".out", "x.npy")).shape == (1, 3, 224, 224), "not 224")


def lengths_of_their_own():
    """ids and mask with symbols of their own, as exporters write them when both axes are named by hand."""
    path = model("lengths", [node("Gather", "t ids", "e"), node("Mul", "e mask", "m"), node("MatMul", "m w", "y")],
                 [("ids", INT, ["b1", "s1"]), ("mask", FLOAT, ["b2", "s2", 1])], ["y"],
                 [("t", weight(11, 8)), ("w", weight(8, 8))])
    package = every_verb(path)
    inputs = {"ids": rng.integers(0, 11, (3, 5)), "mask": weight(3, 5, 1)}
    same_as_onnxruntime(path, package, inputs)
    for subject in (path, package):
        for shape in ((3, 4, 1), (2, 5, 1)):
            files = []
            for name, array in {**inputs, "mask": weight(*shape)}.items():
                np.save(os.path.join(T.work, name + ".npy"), array)
                files += ["--input", f"{name}={T.work}/{name}.npy"]
            refused = sparta("run", subject, *files, "--output-dir", T.work + "/out")
            need(refused.code in (1, 2) and "elsewhere" in refused.err, f"{shape}: {refused}")
    # sizes that are said win: a mask of one row repeats
    must("run", path, "--dim", "b1=3", "--dim", "s1=5", "--dim", "b2=1", "--dim", "s2=5", "--output-dir", T.work + "/one")
    need(np.load(T.work + "/one/mask.npy").shape == (1, 5, 1), "b2 is not 1")
    need(np.load(T.work + "/one/y.npy").shape == (3, 5, 8), "the mask does not repeat")


def sizes_that_fit():
    """Half of the image and twice that again, added to itself: even sizes only."""
    path = model("even", [node("MaxPool", "x", "h", kernel_shape=[2, 2], strides=[2, 2]),
                          helper.make_node("Resize", ["h", "", "scales"], ["u"], name="up", mode="nearest",
                                           coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
                          node("Add", "x u", "y")], [("x", FLOAT, ["n", 2, "h", "w"])], ["y"],
                 [("scales", np.array([1, 1, 2, 2], np.float32))])
    package = every_verb(path)
    same_as_onnxruntime(path, package, {"x": weight(2, 2, 6, 4)})
    np.save(T.work + "/x.npy", weight(1, 2, 5, 4))
    for subject in (path, package):
        refused = sparta("run", subject, "--input", f"x={T.work}/x.npy", "--output-dir", T.work + "/out")
        need(refused.code == 1 and "two sizes that must be equal differ" in refused.err, refused)


def small_enough():
    """Text recognition: lines of a text are 48 high, or squeezing them is wrong; 224, the side of an image, is too much, and no double of it is less."""
    path = model("line", [node("Conv", "x k", "a", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[8, 4]), node("MaxPool", "a", "b", kernel_shape=[6, 1], strides=[6, 1]),
                          node("Squeeze", "b two", "c"), node("Transpose", "c", "d", perm=[0, 2, 1]), node("MatMul", "d w", "y")],
                 [("x", FLOAT, ["n", 3, "h", "w"])], ["y"],
                 [("k", weight(8, 3, 3, 3)), ("two", np.array([2])), ("w", weight(8, 16))])
    same_as_onnxruntime(path, every_verb(path), {"x": weight(2, 3, 48, 100)})
    for words in (("run", path, "--output-dir", T.work + "/out"), ("inspect", path, "--what-if", "1x1:0.5", "--time", "0.01")):
        said = must(*words)
        need("n=1 h=88 w=224" in said.err, said)
    refused = sparta("run", path, "--dim", "h=224", "--output-dir", T.work + "/out")
    need(refused.code == 1 and "two sizes that must be equal differ" in refused.err, refused)


def dims_on_every_verb():
    """A shape that is only known once the symbol is: the hint leads somewhere, whichever verb gives it."""
    path = model("counted", [node("Shape", "x", "s"), node("Cast", "s", "f", to=FLOAT), node("Sqrt", "f", "r"),
                             node("Cast", "r", "i", to=INT), node("ConstantOfShape", "i", "z"), node("MatMul", "x w", "p"),
                             node("ReduceSum", "z", "t", keepdims=0), node("Add", "p t", "y")],
                 [("x", FLOAT, ["n", 4])], ["y"], [("w", weight(4, 4))])
    refused = sparta("inspect", path)
    need(refused.code in (1, 4) and "--dim" in refused.err, refused)
    every_verb(path, "--dim", "n=9")
    wrong = sparta("inspect", path, "--dim", "m=9")
    need(wrong.code == 2 and "x[n,4]" in wrong.err, wrong)


def many_inputs():
    """The time to run grows with the number of inputs, not with its cube: processor seconds of two sizes."""
    def seconds(n):
        path = model(f"inputs{n}", [node("Sum", " ".join(f"x{i}" for i in range(n)), "y")],
                     [(f"x{i}", FLOAT, [1]) for i in range(n)], ["y"])
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        must("run", path, "--output-dir", path + ".out", "--quiet")
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    some, more = seconds(1200), seconds(2400)
    need(more < 5 * some + 0.5, f"{some:.2f} s for 1200 inputs, {more:.2f} s for 2400")


T.check("nameless dims are symbols with names, and run", nameless)
T.check("images are 224 by 224 when nobody says", images_are_224)
T.check("ids and mask with symbols of their own", lengths_of_their_own)
T.check("sizes that must be equal are compared by runs", sizes_that_fit)
T.check("sizes that only smaller ones fit", small_enough)
T.check("--dim on every verb", dims_on_every_verb)
T.check("thousands of inputs", many_inputs)

if __name__ == "__main__":
    sys.exit(T.finish())
