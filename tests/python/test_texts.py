"""Numbers and lists where a text belongs are refused from Python, by the name of what they are given as: C would take a number as an address. Each
door is a process of its own, so that one that crashes is told from the others. Beside it: what may be a number or a list is taken so."""

import os
import subprocess
import sys
import tempfile

import numpy as np

from common import ROOT, Tests, must, need

import sparta as door  # common.py says where it is

OUT = '"o.sparta"'
DOORS = {  # an expression of v: what the message names; None: whatever it is, it is a TypeError
    **{f'door.compile("m.onnx", no_measure=1, {o}=v)': o for o in ("db", "external_data_root", "target", "remove")},
    'door.compile("m.onnx", no_measure=1, tokens=[v, "a"])': "tokens",
    'door.compile("m.onnx", no_measure=1, masks=v)': "masks",
    'door.compile("m.onnx", no_measure=1, schedule=v)': "schedule",
    'door.compile("m.onnx", v, no_measure=1)': None,
    'door.compile(v, no_measure=1)': None,
    'door.compile("m.onnx", context={"cache_dir": v})': "cache_dir",
    'door.compile("m.onnx", no_measure=1, external={v if type(v) is int else id(v): np.ones(2, np.uint8)})': "name",
    'door.inspect("m.onnx", db=v)': "db",
    "door.inspect(v)": "path",
    "door.load(v)": None,
    "door.report(v)": None,
    f'door.load({OUT}).save(v)': "path",
    f'door.load({OUT}).run({{v if type(v) is int else id(v): x}})': "name",
    f'door.load({OUT}).run(x, outputs=[v])': "name",
    'door.propagate("m.onnx", v)': None,
    'door.prune("m.onnx", "p.onnx", v)': "pattern",
    'door.prune("m.onnx", v, "2:4")': None,
    'door.prune("m.onnx", "p.onnx", "2:4", method=v)': "method",
    'door.prune("m.onnx", "p.onnx", "2:4", keep=[v])': "keep",
    'door.prune("m.onnx", "p.onnx", "2:4", keep=["fc3*", v, None])': "keep",
    'door.prune("m.onnx", "p.onnx", "2:4", method="wanda", data=v)': None,
    'door.save_arrays("s.npz", {v if type(v) is int else id(v): x})': "name",
    "door.save_arrays(v, {'x': x})": "path",
    'door.expr("y(i) = A(i,j)*x(j)", A=x, schedule=v)': "schedule",
    'door.expr("y(i) = A(i,j)*x(j)", A=x, target=v)': "target",
    'door.expr("y(i) = A(i,j)*x(j)", {v if type(v) is int else id(v): x})': "name",
    'door.pack(x, "csr").save(v)': "path",
    "door.Packed.open(v)": "path",
    "door.Schedule.parse(v)": "text",
    "door.Schedule()[v]": "glob",
}
CHILD = """
import numpy as np, sparta as door
x = np.ones((2, 64), np.float32)
for v in 5, [5, "a"], object():
    try:
        {call}
    except TypeError as error:
        print(error)
    else:
        print("taken:", v)
"""


def refused(t, call, names):
    env = {**os.environ, "PYTHONPATH": ROOT + "/python"}
    r = subprocess.run([sys.executable, "-c", CHILD.replace("{call}", call)], capture_output=True, text=True, env=env)
    said = r.stdout.splitlines()
    need(r.returncode == 0 and len(said) == 3, f"exit {r.returncode}: {r.stdout[-300:]} {r.stderr[-300:]}")
    need(not any(line.startswith("taken") for line in said), said)
    need(names is None or all(line.startswith(names + " is a text") for line in said), said)
    need(not any("address" in line for line in said), said)


def taken(t):
    """Texts in every form, and what is a list of numbers or of names by nature."""
    given = {"x": np.ones((2, 64), np.float32)}
    wanted = door.compile("m.onnx", no_measure=1, tokens="1,16").run(given)["logits"]
    for tokens in (16, [16], (1, 16), "1,16"):
        answer = door.compile("m.onnx", no_measure=1, tokens=tokens).run(given)["logits"]
        need(np.allclose(answer, wanted, 1e-4, 1e-4), f"tokens={tokens!r}")
    package = door.compile("m.onnx", b"two.sparta", no_measure=1, target=["avx2", "avx512"])
    need({t["name"] for t in package.inspect()["targets"]} == {"avx2", "avx512"}, package.inspect()["targets"])
    need(door.load(b"two.sparta").run({"x": given["x"]}).keys() == {"logits"}, "bytes")
    door.prune("m.onnx", "p.onnx", "4x1:0.5", keep="fc3*")
    x = given["x"]
    for none in (
        lambda: door.load(None), lambda: package.save(None), lambda: door.inspect(None), lambda: package.run({None: x}), lambda: package.run(given, outputs=[None]),
        lambda: door.save_arrays("s.npz", {None: x}), lambda: door.expr("y(i) = x(i)", **{"x": x[0]}, formats={None: "csr"}),
    ):  # fmt: skip
        try:
            none()
        except TypeError as error:
            need("None" in str(error), error)
        else:
            need(False, "None was taken for a path")


def own_words(t):
    """What is given as arrays goes through a file, which no message names."""
    wrong = {"fc1.weight": np.ones((3, 3), np.float32)}
    calls = {
        "data": lambda: door.prune("m.onnx", "p.onnx", "2:4", method="wanda", data={"x": np.ones((2, 64))}),
        "masks": lambda: door.compile("m.onnx", no_measure=1, masks=wrong),
    }
    for what, call in calls.items():
        try:
            call()
        except door.Error as error:
            need(tempfile.gettempdir() not in str(error) and ".npz" not in str(error), error)
        else:
            need(False, f"{what} was taken")


def main():
    t = Tests()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        must("zoo", "mlp", "--dim", "inputs=64", "--dim", "hidden1=64", "--dim", "hidden2=32", "--prune", "4x1:0.8", "-o", "m.onnx")
        must("compile", "m.onnx", "--no-measure", "-o", "o.sparta")
        for call, names in DOORS.items():
            t.check(call, refused, t, call, names)
        t.check("taken", taken, t)
        t.check("own words", own_words, t)
        os.chdir("/")
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
