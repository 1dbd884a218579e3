"""Packages that mode engine of torch.compile keeps, mutated: whatever lies in the folder, the answer is torch's, nothing that a file names is called, and
what was damaged is made again.

Rotates: 2"""

import io
import os
import pickle
import random
import tempfile
import zipfile

import torch
from torch import nn

from common import Tests, need

import sparta  # common.py says where it is
import sparta.dynamo
from sparta.dynamo import engine
from today import SEED

tests = Tests()
os.environ["XDG_CACHE_HOME"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = tests.work.name
sparta.dynamo.register()
torch.manual_seed(0)
QUICK = {"no_measure": 1, "context": {"compiler": "", "cache_dir": tests.work.name + "/cache"}}
layers, others = (nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 16)).eval() for _ in range(2))
x = torch.randn(3, 8)
right, translated = engine.translate, []
engine.translate = lambda *given: translated.append(1) or right(*given)
FOLDER = tests.work.name + "/cache/packages"
MUTATIONS = 24


def run(model=layers):
    """How often it was compiled; the answer must be torch's. Nothing of an earlier call is alive."""
    translated.clear()
    torch._dynamo.reset()
    with torch.no_grad():
        fast = torch.compile(model, backend="sparta", options={"mode": "engine", "inner": "aot_eager", "compile": QUICK})
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    return len(translated)


def read():
    files = {}
    for name in os.listdir(FOLDER):
        with open(f"{FOLDER}/{name}", "rb") as file:
            files[os.path.splitext(name)[1]] = (f"{FOLDER}/{name}", file.read())
    return files


def put(path, data):
    """As another file: somebody may still have the old one mapped."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(FOLDER), delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


def restore(whole):
    for path, data in whole.values():
        put(path, data)


def mutated(rng, data, other):
    data = bytearray(data)
    kind = rng.randrange(6)
    at, n = rng.randrange(len(data)), 1 << rng.randrange(10)
    if kind == 0:
        for _ in range(rng.choice((1, 1, 8, 64))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at : at + n] = bytes(len(data[at : at + n]))
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        data += rng.randbytes(n)
    elif kind == 4:
        data[at : at + 8] = rng.choice((b"\xff" * 8, b"\0\0\0\0\0\0\0\x80", b"\xff" * 7 + b"\x7f", b"\1" + bytes(7)))[: len(data[at : at + 8])]
    else:
        return other
    return bytes(data)


def bytes_of(ending):
    whole, rng, again = read(), random.Random(SEED), 0
    for number in range(MUTATIONS):
        restore(whole)
        path, data = whole[ending]
        (other,) = (d for e, (_, d) in whole.items() if e != ending)
        put(path, mutated(rng, data, other))
        try:
            again += run()
        except Exception as error:
            raise AssertionError(f"TEST_SEED={SEED}, mutation {number}: {type(error).__name__}: {error}") from error
        need(run() == 0, f"TEST_SEED={SEED}, mutation {number}: it is not kept again")
    restore(whole)
    need(again > MUTATIONS // 4, f"{again} of {MUTATIONS} were noticed")
    return f"{again} of {MUTATIONS} were compiled again"


def saved(held):
    to = io.BytesIO()
    torch.save(held, to)
    return to.getvalue()


def fields():
    """What is asked, answered and called, taken away or replaced by what it is not."""
    whole = read()
    path, data = whole[".pt"]
    held = torch.load(io.BytesIO(data), weights_only=True)
    others = (None, [], {}, 7, "x", -1.5, [None], ["nobody"], torch.zeros(0), torch.zeros(2, 2, dtype=torch.int64), [torch.full((3, 16), float("nan"))], {"x": torch.zeros(1)})
    tried = 0
    for name in held:
        changed = [{k: v for k, v in held.items() if k != name}] + [{**held, name: other} for other in others]
        for now in changed:
            restore(whole)
            put(path, saved(now))
            try:
                run()
            except Exception as error:
                raise AssertionError(f"{name} is {now.get(name, 'gone')!r}: {type(error).__name__}: {error}") from error
            tried += 1
    for now in (held["answers"], None, "text", [1, 2]):
        restore(whole)
        put(path, saved(now))
        need(run() == 1, f"{type(now).__name__} instead of all of it was believed")
    restore(whole)
    return f"{tried} changes"


class Calls:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def hostile():
    """A pickle that calls: nothing is called."""
    whole, made = read(), tests.work.name + "/called"
    path, data = whole[".pt"]
    plain = pickle.dumps(Calls(made), protocol=2)
    inside = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(inside, "w") as new:
        for member in old.infolist():
            new.writestr(member.filename, plain if member.filename.endswith("data.pkl") else old.read(member))
    for what in (plain, inside.getvalue()):
        restore(whole)
        put(path, what)
        need(run() == 1 and not os.path.exists(made), "it was called")
    restore(whole)


def instead():
    """Links, folders, pipes and files that nobody may read in the places of both."""
    whole = read()
    for path, data in whole.values():
        for what in ("folder", "link to nothing", "link in a circle", "half of it, twice"):
            restore(whole)
            os.unlink(path)
            if what == "folder":
                os.mkdir(path)
            elif what == "half of it, twice":
                put(path, data[: len(data) // 2] * 2)
            else:
                os.symlink(path if "circle" in what else path + ".none", path)
            run()
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
    restore(whole)


def swapped():
    """The files of two models of equal shape, in each other's places: a whole pair is right by itself."""
    ours = set(os.listdir(FOLDER))
    need(run(others) == 1, "another model has a package of its own")
    theirs = set(os.listdir(FOLDER)) - ours
    need(len(ours) == len(theirs) == 2, f"{sorted(ours)} and {sorted(theirs)}")
    for a, b in zip(sorted(ours), sorted(theirs)):  # .pt, .sparta
        for old, new in ((a, "../free"), (b, a), ("../free", b)):
            os.replace(f"{FOLDER}/{old}", f"{FOLDER}/{new}")
    need(run() == 1 and run(others) == 1, "another model's package was believed")
    need(run() == 0 and run(others) == 0, "it is not kept again")
    for name in theirs:
        os.unlink(f"{FOLDER}/{name}")


need(run() == 1 and run() == 0, "a package is kept and found")
tests.check("bytes of the package", bytes_of, ".sparta")
tests.check("bytes of the question", bytes_of, ".pt")
tests.check("what the question says", fields)
tests.check("a pickle that calls", hostile)
tests.check("other things in their places", instead)
tests.check("pairs of two models, swapped", swapped)
raise SystemExit(tests.finish())
