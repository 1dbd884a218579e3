"""Files and calls that must be refused: the right exit code, a message that says what and where, nothing half-written, quickly and in little memory.

Models are made here with the onnx package, so that everything is right about them except one thing. Words on the command line choose
checks by name.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import FIXTURES, SPARTA, Tests, busy_of, children_busy, limit_file_size, must, need, sparta, tree

MEMORY_MIB = 700  # what refusing may take; files here are small
SECONDS = 30
F32 = TensorProto.FLOAT


# ---------------------------------------------------------------- models
def value(name, shape=("batch", 4), kind=F32):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs=None, outputs=None, weights=(), opset=21, domains=()):
    graph = helper.make_graph(nodes, "g", inputs or [value("x")], outputs or [value("y")], list(weights))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def weight(shape=(4, 4), name="w"):
    return numpy_helper.from_array(np.random.default_rng(1).standard_normal(shape).astype(np.float32), name)


def linear(w=None):
    """y = x w, the model that is changed in one place."""
    return model([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], weights=[w if w is not None else weight()])


def raw(shape, data, kind=F32, name="w"):
    t = TensorProto(name=name, data_type=kind, dims=shape)
    t.raw_data = data
    return t


def external(location, offset=None, length=None, shape=(4, 4)):
    t = TensorProto(name="w", data_type=F32, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, v in (("location", location), ("offset", offset), ("length", length)):
        if v is not None:
            t.external_data.add(key=key, value=str(v))
    return linear(t)


# ---------------------------------------------------------------- checks
class Hostile:
    def __init__(self):
        self.tests = Tests()
        self.cache = os.path.join(self.tests.work, "cache")
        self.count = 0
        os.environ["XDG_CACHE_HOME"] = self.cache

    def folder(self):
        self.count += 1
        path = os.path.join(self.tests.work, f"case-{self.count}")
        os.makedirs(path)
        return path

    def refused(self, folder, codes, words, *command, **more):
        """The command fails with one of the codes, says the words, and leaves the folder and the place for temporary files as they were."""
        temporary = os.path.join(self.tests.work, "tmp")
        os.makedirs(temporary, exist_ok=True)
        before = tree(folder)
        result = sparta(*command, timeout=SECONDS, env={"TMPDIR": temporary}, **more)
        need(result.code in codes, f"wanted exit {codes}: {result}")
        need(result.err.splitlines()[-1].startswith("sparta: "), f"no message: {result}")
        for word in words:
            need(word in result.err, f"the message lacks {word!r}: {result}")
        need(not result.out, f"stdout is not empty: {result}")
        need(tree(folder) == before, f"files were left or changed: {set(tree(folder).items()) ^ set(before.items())}")
        need(not os.listdir(temporary), f"temporary files were left: {os.listdir(temporary)}")
        need(result.peak_mib < MEMORY_MIB, f"took {result.peak_mib:.0f} MiB")
        return f"exit {result.code}: {result.err.splitlines()[-1][8:150]}"

    def refuse_model(self, name, codes, words, proto, setup=None):
        """A model (message or bytes) that compile, inspect and run all refuse."""
        folder = self.folder()
        path = os.path.join(folder, "m.onnx")
        with open(path, "wb") as f:
            f.write(proto if isinstance(proto, bytes) else proto.SerializeToString())
        if setup:
            setup(folder)
        check = self.tests.check
        check(f"compile: {name}", self.refused, folder, codes, words, "compile", path, "-o", folder + "/m.sparta", "--no-measure")
        check(f"run: {name}", self.refused, folder, codes, [], "run", path, "--output-dir", folder + "/out")
        check(f"an old package stays: {name}", self.keeps_old, folder, path)

    def keeps_old(self, folder, path):
        """A package that is there already stays as it is when its successor cannot be made."""
        old = os.path.join(folder, "old.sparta")
        with open(old, "wb") as f:
            f.write(b"the old one")
        result = sparta("compile", path, "-o", old, "--no-measure", timeout=SECONDS)
        need(result.code != 0, f"succeeded: {result}")
        need(open(old, "rb").read() == b"the old one", "the old file changed")


# ---------------------------------------------------------------- what is wrong with a model
def shapes_and_types(h):
    bad = h.refuse_model
    bad("the shape is far larger than the file", {1}, ["'w'"], linear(raw([1 << 20, 1 << 20], bytes(64))))
    bad("the shape has more elements than 64 bits count", {1, 5}, ["'w'"], linear(raw([1 << 62, 1 << 62], bytes(64))))
    bad("the shape is negative", {1}, ["negative"], linear(raw([-4, -4], bytes(64))))
    bad("a tensor with fewer bytes than its shape", {1}, ["'w'"], linear(raw([4, 4], bytes(60))))
    bad("a tensor with more bytes than its shape", {1}, ["'w'"], linear(raw([4, 4], bytes(68))))
    bad("nine dimensions", {4}, ["8 dims"], linear(raw([1] * 9, bytes(4))))
    bad("an input far larger than memory", {1, 5}, [], model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1 << 31, 1 << 31])],
                                                             [value("y", [1 << 31, 1 << 31])]))
    bad("an Expand far larger than memory", {1, 5}, [],
        model([helper.make_node("Expand", ["x", "s"], ["y"], name="grow")], [value("x", [1])], [value("y", [1 << 30, 1 << 10])],
              [numpy_helper.from_array(np.array([1 << 30, 1 << 10]), "s")]))
    bad("a ConstantOfShape far larger than memory", {1, 5}, [],
        model([helper.make_node("ConstantOfShape", ["s"], ["c"], name="fill"), helper.make_node("Add", ["x", "c"], ["y"])],
              [value("x", [1])], [value("y", [1 << 32, 1 << 10])], [numpy_helper.from_array(np.array([1 << 32, 1 << 10]), "s")]))
    bad("strings", {4}, ["string"], linear(TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])))
    bad("an unknown element type", {1, 4}, ["'w'"], linear(raw([4, 4], bytes(64), kind=99)))
    bad("no element type", {1}, ["'w'"], linear(raw([4, 4], bytes(64), kind=0)))
    bad("float times integer", {1}, ["product"], linear(numpy_helper.from_array(np.ones((4, 4), np.int64), "w")))
    bad("sizes that do not fit a product", {1}, ["product"], linear(weight((5, 4))))
    bad("sizes that do not broadcast", {1}, ["sum"],
        model([helper.make_node("Add", ["x", "w"], ["y"], name="sum")], weights=[weight((3,))]))
    bad("a Reshape to another number of elements", {1}, ["again"],
        model([helper.make_node("Reshape", ["x", "s"], ["y"], name="again")], [value("x", [2, 4])], [value("y", [3, 3])],
              [numpy_helper.from_array(np.array([3, 3]), "s")]))
    bad("a Gather past its table", {1}, ["look"],
        model([helper.make_node("Gather", ["w", "i"], ["g"], name="look"), helper.make_node("Add", ["x", "g"], ["y"])],
              [value("x", [4])], [value("y", [4])], [weight(), numpy_helper.from_array(np.array(4), "i")]))
    bad("an axis out of range", {1}, ["soft"], model([helper.make_node("Softmax", ["x"], ["y"], name="soft", axis=7)]))
    bad("a permutation that is none", {1}, ["turn"], model([helper.make_node("Transpose", ["x"], ["y"], name="turn", perm=[0, 0])]))
    bad("an attribute of another type", {1}, ["soft"], model([helper.make_node("Softmax", ["x"], ["y"], name="soft", axis="one")]))


def structure(h):
    bad = h.refuse_model
    node = helper.make_node
    bad("a cycle", {1}, [], model([node("Add", ["x", "b"], ["a"], name="n1"), node("Relu", ["a"], ["b"], name="n2"), node("Relu", ["b"], ["y"])]))
    bad("a node that reads itself", {1}, [], model([node("Add", ["x", "y"], ["y"], name="n1")]))
    bad("a value that nobody makes", {1}, ["ghost"], model([node("Add", ["x", "ghost"], ["y"])]))
    bad("an output that nobody makes", {1}, ["y"], model([node("Relu", ["x"], ["z"])]))
    bad("a value that two nodes make", {1}, ["y"], model([node("Relu", ["x"], ["y"]), node("Abs", ["x"], ["y"])]))
    bad("two weights of one name", {1}, ["'w'"], model([node("MatMul", ["x", "w"], ["y"])], weights=[weight(), weight()]))
    bad("too few inputs of an operator", {1}, ["product"], model([node("MatMul", ["x"], ["y"], name="product")]))
    bad("too many inputs of an operator", {1}, ["act"], model([node("Relu", ["x", "x", "x"], ["y"], name="act")]))
    bad("no output", {1}, [], onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 21)],
                                              graph=helper.make_graph([node("Relu", ["x"], ["y"])], "g", [value("x")], [])))
    bad("no graph", {1}, [], onnx.ModelProto(ir_version=10, opset_import=[helper.make_opsetid("", 21)]))
    bad("an empty file", {1}, [], b"")
    bad("a text", {1}, [], b"this is not a model\n" * 20)
    bad("groups without end", {1}, [], b"\x0b" * 4096)
    bad("a field longer than the file", {1}, [], b"\x3a\xff\xff\xff\xff\x0f" + bytes(32))
    bad("a varint without end", {1}, [], b"\x08" + b"\xff" * 64)


def not_there_yet(h):
    bad = h.refuse_model
    node = helper.make_node
    bad("an operator of ONNX that is not there", {4}, ["StringNormalizer", "tidy"], model([node("StringNormalizer", ["x"], ["y"], name="tidy")]))
    bad("a recurrent layer", {4}, ["LSTM", "memory"],
        model([node("LSTM", ["x", "w", "w"], ["y"], name="memory", hidden_size=4)], weights=[weight((1, 16, 4))]))
    bad("an operator of somebody else", {4}, ["Frobnicate", "mine", "my.domain"],
        model([node("Frobnicate", ["x"], ["y"], name="mine", domain="my.domain")], domains=["my.domain"]))
    bad("an operator that does not exist", {4}, ["Relux", "act"], model([node("Relux", ["x"], ["y"], name="act")]))
    bad("an operator set before 11", {4}, ["10"], model([node("Relu", ["x"], ["y"])], opset=10))
    bad("an operator set from the future", {4}, ["4000"], model([node("Relu", ["x"], ["y"])], opset=4000))


def external_data(h):
    bad = h.refuse_model
    secret = os.path.join(h.tests.work, "secret.bin")
    with open(secret, "wb") as f:
        f.write(np.ones(16, np.float32).tobytes())

    def beside(size=64):
        return lambda folder: open(os.path.join(folder, "w.bin"), "wb").write(bytes(size))

    def made(function):
        return lambda folder: function(secret, os.path.join(folder, "w.bin"))

    def below(folder):
        os.makedirs(os.path.join(folder, "sub"))
        os.symlink(h.tests.work, os.path.join(folder, "sub", "up"))

    bad("external data in the folder above", {1}, ["secret.bin"], external("../secret.bin"))
    bad("external data through a folder and up", {1}, ["secret.bin"], external("sub/../../secret.bin"), below)
    bad("external data at an absolute path", {1}, ["secret.bin"], external(secret))
    bad("external data through a link", {1}, ["w.bin"], external("w.bin"), made(os.symlink))
    bad("external data through a linked folder", {1}, ["secret.bin"], external("sub/up/secret.bin"), below)
    bad("external data through a hard link", {1}, ["w.bin"], external("w.bin"), made(os.link))
    bad("external data that is missing", {1}, ["w.bin"], external("w.bin"))
    bad("external data that is a folder", {1}, ["w.bin"], external("w.bin"), made(lambda s, to: os.makedirs(to)))
    bad("external data that is a pipe", {1}, ["w.bin"], external("w.bin"), made(lambda s, to: os.mkfifo(to)))
    bad("external data without a location", {1}, [], external(None))
    bad("external data with an empty location", {1}, [], external(""))
    bad("external data from past the end", {1}, ["w.bin"], external("w.bin", offset=4), beside())
    bad("external data from far past the end", {1}, [], external("w.bin", offset=(1 << 63) - 1), beside())
    bad("external data from a negative place", {1}, ["offset"], external("w.bin", offset=-64), beside())
    bad("external data from a place that is no number", {1}, ["offset"], external("w.bin", offset="0x0"), beside())
    bad("external data of another length", {1}, ["length"], external("w.bin", length=32), beside())
    bad("external data that is truncated", {1}, ["w.bin"], external("w.bin"), beside(60))
    h.tests.check("external data that is right", external_right, h)


def external_right(h):
    """The way in which external data is used by honest models works, from another folder too."""
    folder, other = h.folder(), h.folder()
    array = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)
    with open(os.path.join(other, "w.bin"), "wb") as f:
        f.write(bytes(64) + array.tobytes())
    onnx.save(external("w.bin", offset=64, length=64), folder + "/m.onnx")
    x = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    np.save(folder + "/x.npy", x)
    must("compile", folder + "/m.onnx", "--external-data-root", other, "-o", folder + "/m.sparta", "--quiet")
    must("run", folder + "/m.sparta", "--input", f"x={folder}/x.npy", "--output-dir", folder + "/out")
    need(np.allclose(np.load(folder + "/out/y.npy"), x @ array, rtol=1e-5, atol=1e-6), "the answer is another")


# ---------------------------------------------------------------- damaged files
def survives(h, path, folder, output):
    """A damaged file: an answer or an error, never a signal, a hang, or something left behind."""
    result = sparta("compile", path, "-o", output, "--no-measure", "--quiet", timeout=SECONDS)
    need(result.code in (0, 1, 2, 3, 4, 5), f"{result}")
    need(result.peak_mib < MEMORY_MIB, f"took {result.peak_mib:.0f} MiB")
    left = set(os.listdir(folder)) - {"m.onnx"}
    need(left == ({os.path.basename(output)} if result.code == 0 else set()), f"left {left} after {result}")
    if result.code == 0:
        os.unlink(output)
    return result.code


def damaged_models(h):
    data = open(os.path.join(FIXTURES, "bert-dynamo-sdpa-4x1.onnx"), "rb").read()
    small = open(os.path.join(FIXTURES, "mlp-script-4x1.onnx"), "rb").read()
    folder = h.folder()
    path, output = folder + "/m.onnx", folder + "/m.sparta"

    def damage(pieces):
        codes = []
        for piece in pieces:
            with open(path, "wb") as f:
                f.write(piece)
            codes.append(survives(h, path, folder, output))
        return "exit codes " + ", ".join(f"{c}: {codes.count(c)}" for c in sorted(set(codes)))

    def cut():
        said = damage(data[: len(data) * i // 40] for i in range(40))
        need("0:" not in said, f"a truncated model was compiled; {said}")
        return said

    def mutated(seed, source, places, count):
        rng = random.Random(seed)
        for _ in range(count):
            piece = bytearray(source)
            for _ in range(rng.choice([1, 1, 3, 20])):
                at = rng.choice(places)
                piece[at] = rng.choice([piece[at] ^ (1 << rng.randrange(8)), 0, 0x7F, 0xFF, rng.randrange(256)])
            yield bytes(piece)

    def outside_weights(source):
        """The places of names, shapes and nodes."""
        weights = [t.raw_data for t in onnx.load_from_string(source).graph.initializer if len(t.raw_data) > 64]
        spans = [(source.index(w), len(w)) for w in weights]
        kept = np.ones(len(source), bool)
        for at, size in spans:
            kept[at : at + size] = False
        return np.flatnonzero(kept).tolist()

    h.tests.check("a model cut at 40 places", cut)
    h.tests.check("100 mutations of a small model", lambda: damage(mutated(1, small, outside_weights(small), 100)))
    h.tests.check("100 mutations of a model", lambda: damage(mutated(2, data, outside_weights(data), 100)))
    h.tests.check("20 mutations of weights", lambda: damage(mutated(3, small, range(len(small)), 20)))


def damaged_packages(h):
    folder = h.folder()
    package, broken, out = folder + "/m.sparta", folder + "/broken.sparta", folder + "/out"
    onnx_file = folder + "/m.onnx"
    must("zoo", "mlp", "--prune", "4x1:0.9", "-o", onnx_file)
    must("compile", onnx_file, "-o", package, "--quiet")
    data = open(package, "rb").read()

    def write(piece):
        with open(broken, "wb") as f:
            f.write(piece)

    def cut():
        for size in sorted({0, 1, 7, 8, 64, 4095, 4096, 4097, len(data) // 2, len(data) - 4096, len(data) - 1}):
            write(data[:size])
            h.refused(folder, {1}, ["broken.sparta"], "run", broken, "--output-dir", out)

    def version():
        now = int.from_bytes(data[8:12], "little")
        need(0 < now < 100, f"the version is not where it was: {data[:16]}")
        for other in (0, now - 1, now + 1, 255):
            piece = bytearray(data)
            piece[8:12] = other.to_bytes(4, "little")
            write(piece)
            said = h.refused(folder, {1}, ["version"], "run", broken, "--output-dir", out)
        return said

    def flips():
        """Everywhere, padding too: found when it is opened, or by `inspect --check` and `verify`."""
        must("run", package, "--output-dir", out, "--seed", 5)
        opened = checked = 0
        places = list(range(0, 400, 8)) + random.Random(4).sample(range(len(data)), 150)
        for at in places:
            piece = bytearray(data)
            piece[at] ^= 1 << (at % 8)
            write(piece)
            shutil.rmtree(out)
            result = sparta("run", broken, "--output-dir", out, "--seed", 5, timeout=SECONDS)
            if result.code:
                need(result.code == 1 and not os.path.exists(out), f"byte {at}: {result}")
                opened += 1
                os.makedirs(out)
                continue
            need(sparta("inspect", broken, "--check", timeout=SECONDS).code == 1, f"byte {at}: --check is content")
            need(sparta("verify", broken, "--against", onnx_file, timeout=SECONDS).code == 1, f"byte {at}: verify is content")
            checked += 1
        shutil.rmtree(out)
        need(opened and checked, f"{opened} found on opening, {checked} by --check")
        return f"{opened} found on opening, {checked} by --check and verify"

    h.tests.check("a package cut short", cut)
    h.tests.check("a package of another version", version)
    h.tests.check("a package with one bit flipped", flips)


# ---------------------------------------------------------------- wrong inputs
def wrong_inputs(h):
    folder = h.folder()
    package = folder + "/bert.sparta"
    must("compile", os.path.join(FIXTURES, "bert-dynamo-sdpa-4x1.onnx"), "-o", package, "--quiet")

    def array(name, a):
        file = os.path.join(folder, name + ".npy")
        np.save(file, a)
        return file

    ids = array("ids", np.ones((2, 9), np.int64))
    good = {"input_ids": ids, "attention_mask": ids, "token_type_ids": array("types", np.zeros((2, 9), np.int64))}

    def bad(name, codes, words, **changed):
        given = {**good, **changed}
        flags = [w for k, v in given.items() if v for w in ("--input", f"{k}={v}")]
        h.tests.check(f"inputs: {name}", h.refused, folder, codes, words, "run", package, *flags, "--output-dir", folder + "/out")

    def bytes_(name, data):
        file = os.path.join(folder, name)
        with open(file, "wb") as f:
            f.write(data)
        return file

    big = np.ones((2, 9), np.int64)
    header = b"\x93NUMPY\x01\x00v\x00"
    lie = "{'descr': '<i8', 'fortran_order': False, 'shape': (1099511627776, 1048576), }".ljust(0x76 - 1).encode() + b"\n"
    bad("a name that is not there", {2}, ["input_idx", "input_ids"], input_idx=ids)
    bad("one missing", {2}, ["token_type_ids"], token_type_ids=None)
    bad("two missing", {2}, ["token_type_ids", "attention_mask"], token_type_ids=None, attention_mask=None)
    bad("three dimensions instead of two", {1}, ["input_ids"], input_ids=array("cube", np.ones((2, 9, 1), np.int64)))
    bad("two batches", {1, 2}, ["batch"], attention_mask=array("three", np.ones((3, 9), np.int64)))
    bad("two sequences", {1, 2}, ["sequence"], attention_mask=array("ten", np.ones((2, 10), np.int64)))
    bad("float instead of integer", {1}, ["input_ids", "i64"], input_ids=array("float", np.ones((2, 9), np.float32)))
    bad("32 bits instead of 64", {1}, ["input_ids", "i64"], input_ids=array("narrow", np.ones((2, 9), np.int32)))
    for number in (100, 1 << 40, -101, -(1 << 63)):
        wrong = big.copy()
        wrong[1, 8] = number
        bad(f"id {number} of 100", {1}, [str(number)], input_ids=array(f"id{number}", wrong))
    bad("a token type out of range", {1}, ["2"], token_type_ids=array("type2", big * 2))
    long = array("long", np.ones((1, 257), np.int64))
    bad("a sequence longer than the position table", {1, 2}, ["256"], input_ids=long, attention_mask=long, token_type_ids=array("long0", np.zeros((1, 257), np.int64)))
    bad("a file that is missing", {1}, ["missing.npy"], input_ids=folder + "/missing.npy")
    bad("a file that is no npy", {1}, ["text.npy"], input_ids=bytes_("text.npy", b"hello"))
    bad("a file that is cut short", {1}, ["cut.npy"], input_ids=bytes_("cut.npy", open(ids, "rb").read()[:-1]))
    bad("a shape far larger than the file", {1, 5}, ["lie.npy"], input_ids=bytes_("lie.npy", header + lie + bytes(64)))
    np.save(folder + "/objects.npy", np.array([[{}] * 9] * 2, dtype=object), allow_pickle=True)
    bad("objects", {1, 4}, ["objects.npy"], input_ids=folder + "/objects.npy")
    bad("a range without numbers", {2}, ["input_ids"], input_ids="random:a:b")
    h.tests.check("inputs: column-major and negative ids", other_orders, folder, package, good)
    flags = [w for k, v in good.items() for w in ("--input", f"{k}={v}")]
    h.tests.check("outputs: the folder is a file", h.refused, folder, {1}, ["ids.npy"], "run", package, *flags, "--output-dir", ids)
    h.tests.check("outputs: a folder that cannot be made", h.refused, folder, {1}, [], "run", package, *flags, "--output-dir", "/proc/none/out")


def other_orders(folder, package, good):
    """What is unusual and right: Fortran order, and ids counted from the end, as Gather has them."""
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 100, (2, 9))
    answers = []
    for name, a in (("c", ids), ("f", np.asfortranarray(ids)), ("n", ids - 100)):
        np.save(f"{folder}/order.npy", a)
        flags = [w for k, v in {**good, "input_ids": f"{folder}/order.npy"}.items() for w in ("--input", f"{k}={v}")]
        must("run", package, *flags, "--output-dir", f"{folder}/order-{name}")
        answers.append(np.load(f"{folder}/order-{name}/last_hidden_state.npy"))
        shutil.rmtree(f"{folder}/order-{name}")
    os.unlink(f"{folder}/order.npy")
    need(np.array_equal(answers[0], answers[1]), "column-major input gives another answer")
    need(np.array_equal(answers[0], answers[2]), "ids counted from the end give another answer")


# ---------------------------------------------------------------- the surroundings
def surroundings(h):
    folder = h.folder()
    mini, mlp = folder + "/mini.onnx", os.path.join(FIXTURES, "mlp-script-4x1.onnx")
    must("zoo", "bert-mini", "--prune", "4x1:0.9", "-o", mini)
    output = folder + "/m.sparta"
    check = h.tests.check
    check("a budget that is too small for the model", h.refused, folder, {5}, ["memory"], "compile", mini, "-o", output, "--max-memory", "4M")
    check("a folder that is not there", h.refused, folder, {1}, ["nowhere"], "compile", mlp, "-o", folder + "/nowhere/m.sparta")
    check("an output that is a folder", h.refused, folder, {1}, ["is a folder"], "compile", mlp, "-o", folder)
    check("a full disk while compiling", h.refused, folder, {1}, ["m.sparta"], "compile", mini, "-o", output, "--no-measure", "--cache", "none",
          "--compiler", "none", prepare=limit_file_size(1 << 20))
    check("a full disk while making a model", h.refused, folder, {1}, ["z.onnx"], "zoo", "bert-mini", "-o", folder + "/z.onnx",
          prepare=limit_file_size(1 << 20))
    check("a full disk while running", h.refused, folder, {1}, [], "run", mlp, "--output-dir", folder, prepare=limit_file_size(16))
    whole = must("compile", mini, "-o", os.path.join(h.folder(), "m.sparta"), env={"XDG_CACHE_HOME": h.folder()}).busy
    for name, sign in (("Ctrl-C", signal.SIGINT), ("a polite kill", signal.SIGTERM)):
        check(f"{name} in the middle of compile", interrupted, h, folder, mini, output, sign, whole)
    check("a compiler that fails", still_works, h, mlp, ["--compiler", "/bin/false"], True)
    check("a compiler that is missing", still_works, h, mlp, ["--compiler", "/nonexistent/cc"], True)
    check("a compiler that hangs", hanging_compiler, h, mlp)
    check("no compiler and no cache", still_works, h, mlp, ["--compiler", "none", "--cache", "none"], False)
    check("a cache folder that others may write", foreign_cache, h, mlp)
    check("a cache folder that cannot be made", still_works, h, mlp, ["--cache", "/proc/none/cache"], True)
    check("an error as JSON", error_object, folder)


def interrupted(h, folder, mini, output, sign, whole):
    """A cold cache, so that there is a middle: once it says what it does. It stops, in less than half of the processor's seconds that it would take."""
    before = tree(folder)
    words = ["compile", mini, "-o", output, "--progress", "plain"]
    environment = {**os.environ, "XDG_CACHE_HOME": h.folder()}
    process = subprocess.Popen([SPARTA, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while b" of " not in process.stderr.readline():
        need(process.poll() is None, "it ended before it said what it does")
    process.send_signal(sign)
    begin, busy = time.monotonic(), busy_of(process.pid) + children_busy()
    _, err = process.communicate()
    took = time.monotonic() - begin
    need(process.returncode == 130, f"exit {process.returncode}: {err.decode()}")
    need(tree(folder) == before, "files were left or changed")
    busy = children_busy() - busy  # of the processor, which other work takes nothing of
    need(busy < whole / 2, f"stopped only after {busy:.1f} s of the processor; all of it takes {whole:.1f}")
    return f"after {took * 1e3:.0f} ms"


def compiled(h, model_file, words, env=None):
    folder = h.folder()
    result = must("compile", model_file, "-o", folder + "/m.sparta", "--tokens", "128", *words, env=env)
    must("verify", folder + "/m.sparta", "--against", model_file, *words, env=env)
    return result


def still_works(h, model_file, words, notes):
    """It runs all the same, and says so in one line."""
    environment = {"XDG_CACHE_HOME": h.folder()}
    result = compiled(h, model_file, words, environment)
    lines = [line for line in result.err.splitlines() if line.startswith("sparta: note: ") and "sizes assumed" not in line]
    need(bool(lines) or not notes, f"it says nothing: {result}")
    need(len(lines) <= 2, f"it says too much: {result}")
    return lines[0] if lines else ""


def hanging_compiler(h, model_file):
    folder = h.folder()
    script = folder + "/cc"
    with open(script, "w") as f:
        f.write("#!/bin/sh\nexec sleep 600\n")
    os.chmod(script, 0o755)
    result = compiled(h, model_file, ["--compiler", script], {"XDG_CACHE_HOME": h.folder(), "SPARTA_CC_TIMEOUT": "1"})
    need("note" in result.err, f"it says nothing: {result}")
    need(result.seconds < 300, f"took {result.seconds:.0f} s")  # half of what the compiler sleeps
    return result.err.splitlines()[0]


def foreign_cache(h, model_file):
    folder = h.folder()
    os.chmod(folder, 0o777)
    result = compiled(h, model_file, ["--cache", folder])
    need(not os.listdir(folder), f"it was used: {os.listdir(folder)}")
    need("note" in result.err, f"it says nothing: {result}")
    return result.err.splitlines()[0]


def error_object(folder):
    result = sparta("compile", folder + "/none.onnx", "-o", folder + "/m.sparta", "--json")
    error = json.loads(result.out)["error"]
    need(result.code == 1 and {"code", "where", "message", "hint"} <= set(error), f"{result}")
    need("none.onnx" in error["where"], f"{error}")


def main():
    h = Hostile()
    for group in (shapes_and_types, structure, not_there_yet, external_data, damaged_models, damaged_packages, wrong_inputs, surroundings):
        try:
            group(h)
        except Exception as error:  # a group that cannot even start
            h.tests.check(group.__name__, lambda e=error: need(False, f"could not start: {e}"))
    return h.tests.finish()


if __name__ == "__main__":
    sys.exit(main())
