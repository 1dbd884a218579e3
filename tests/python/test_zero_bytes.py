"""A zero byte in a text is refused wherever texts are taken, by the program and by Python: C would end the text there and go on with half of it."""

import os
import sys
import tempfile

import numpy as np

from common import ROOT, Tests, must, need, sparta

import sparta as door  # common.py says where it is

GRAPH = 'graph "g"\ninput x: f32[4,8]\nnode y: ? = Relu(x) "y"\noutput y\n'
MTX = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1.0\n"
TEXTS = {  # name of the file: (a text that is fine, the words that read it)
    "s.txt": ('tensor "*" { sparsify magnitude(4x1, 0.5) }\n', ["inspect", "m.onnx", "--schedule", "s.txt"]),
    "inner.txt": ('tensor "*" { sparsify magnitude(4x1, 0.5) }\n', ["inspect", "m.onnx", "--schedule", "outer.txt"]),
    "f.txt": ("format mine = (i,j)->(i:dense, j:compressed)\n", ["format", "check", "mine", "--formats", "f.txt"]),
    "g.txt": (GRAPH, ["specialize", "g.txt", "-o", "special"]),
    "a.mtx": (MTX, ["inspect", "a.mtx"]),
    "a.smtx": ("2, 2, 1\n0 1 1\n0\n", ["inspect", "a.smtx"]),
    "k.c": (None, ["inspect", "m.onnx", "--kernel", "k.c"]),
}


def texts(t, name):
    text, words = TEXTS[name]
    if text is None:
        with open(ROOT + "/examples/kernel.c") as file:
            text = file.read()
    with open(name, "w") as file:
        file.write(text)
    must(*words)
    for at in (0, len(text) // 2, len(text) - 1):
        with open(name, "w") as file:
            file.write(text[:at] + "\0" + text[at:])
        r = sparta(*words)
        need(r.code in (1, 2) and r.err.startswith("sparta: ") and r.err.count("\n") == 1, f"a zero byte at {at}: {r}")
    os.remove(name)


def names_in_files(t):
    """Names of arrays, in their files: of npz by the directory, of safetensors by JSON."""
    np.savez("m.npz", ab=np.ones((2, 2), np.float32))
    with open("m.npz", "rb") as file:
        bytes_ = file.read()
    with open("m.npz", "wb") as file:
        file.write(bytes_.replace(b"ab.npy", b"a\0.npy"))
    need(sparta("inspect", "m.npz").code == 1, "npz")
    head = b'{"a\\u0000b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    with open("m.safetensors", "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head + bytes(4))
    r = sparta("inspect", "m.safetensors")
    need(r.code == 1 and "NUL" in r.err, f"safetensors: {r}")


def tesa(t):
    """The text of an attribute in its file, and a format in a packed file."""
    must("propagate", "m.onnx", "--tesa", "t.npz", "-o", "small.onnx")
    arrays = dict(np.load("t.npz"))
    name, text = next((n, a) for n, a in arrays.items() if a.dtype == np.uint8 and a.ndim == 1 and b"]" in a.tobytes())
    np.savez("bad.npz", **{**arrays, name: np.frombuffer(text.tobytes() + b"\0 f16", np.uint8)})
    with open("g.txt", "w") as file:
        file.write(GRAPH)
    r = sparta("specialize", "g.txt", "--tesa", "bad.npz", "-o", "special")
    need(r.code != 0 and "no text of an attribute" in r.err, f"{r}")


def python(t):
    eye = np.eye(4, dtype=np.float32)
    package = door.compile("m.onnx", "m.sparta")
    given = {"x": np.ones((2, 64), np.float32)}
    calls = {
        "a format": lambda: door.pack(eye, "csr\0(x)"),
        "a format's text": lambda: door.Format("csr\0"),
        "another format": lambda: door.pack(eye, "csr").to("coo\0"),
        "an expression": lambda: door.expr("C(i,k) = A(i,j)*B(j,k)\0 nonsense"),
        "an expression's format": lambda: door.expr("C(i,k) = A(i,j)*B(j,k)", formats={"A": "csr\0"}),
        "a schedule": lambda: door.Schedule.parse('tensor "*" { format csr }\0 nonsense'),
        "a name in a schedule": lambda: door.Schedule()["fc1\0*"].set_format("csr"),
        "a rule's format": lambda: door.Schedule()["*"].set_format("csr\0"),
        "a path": lambda: door.load("m.sparta\0.not"),
        "a path to write": lambda: package.save("x.sparta\0.not"),
        "an option": lambda: door.compile("m.onnx", "x.sparta", target="avx2\0"),
        "a size": lambda: door.compile("m.onnx", "x.sparta", dims={"batch\0": 2}),
        "what to remove": lambda: door.compile("m.onnx", "x.sparta", remove="fc1.weight=1\0"),
        "an input": lambda: package.run({"x\0y": given["x"]}),
        "an array's name": lambda: door.save_arrays("x.npz", {"a\0b": eye}),
        "a path in bytes": lambda: door.load(b"m.sparta\0.not"),
        "a path in bytes to write": lambda: package.save(b"x.sparta\0.not"),
        "a packed tensor's": lambda: door.pack(eye, "csr").save(b"x.npz\0"),
        "what is compiled": lambda: door.compile("m.onnx", b"x.sparta\0"),
        "what is pruned": lambda: door.prune("m.onnx", b"x.onnx\0", "2:4"),
        "what is smaller": lambda: door.propagate("m.onnx", b"x.onnx\0"),
        "what to keep": lambda: door.prune("m.onnx", "x.onnx", "2:4", keep=[b"fc1*\0"]),
        "an archive": lambda: door.save_arrays(b"x.npz\0", {"a": eye}),
        "a schedule in bytes": lambda: door.Schedule.parse(b'tensor "*" { format csr }\0zz'),
        "an input in bytes": lambda: package.run({b"x\0y": given["x"]}),
    }
    package.run(given)
    for what, call in calls.items():
        try:
            call()
        except ValueError as error:
            need("zero byte" in str(error) or "null" in str(error), f"{what}: {error}")
        else:
            need(False, f"{what}: it was cut")
    need(not any(os.path.exists(path) for path in ("x.sparta", "x.npz", "x.onnx")), "something was written")


def main():
    t = Tests()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        must("zoo", "mlp", "--dim", "inputs=64", "--dim", "hidden1=64", "--dim", "hidden2=32", "--prune", "4x1:0.8", "-o", "m.onnx")
        with open("outer.txt", "w") as file:
            file.write('include "inner.txt"\n')
        for name in TEXTS:
            t.check(f"text: {name}", texts, t, name)
        for check in (names_in_files, tesa, python):
            t.check(check.__name__, check, t)
        os.chdir("/")
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
