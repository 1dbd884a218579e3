"""A full disk, kill -9 and clocks that jump: what the user had is whole, nothing is left that looks like a result, and the next call does its work.

Rotates: 3"""

import ctypes
import filecmp
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys

import numpy as np

from common import ROOT, SPARTA, Tests, limit_file_size, must, need, sparta, tree
from today import SEED

import sparta as door  # isort: skip  # the program is called sparta here

KILLS = 5
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long calls;
/* The wall's clock leaps by years to and fro; the other one, which promises only not to go back, by an hour now and then. */
static time_t leap(clockid_t id)
{
    static long hours;
    const long n = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) return (n * 2654435761u >> 7) % 3 * 315360000L - 315360000L;
    if (id != CLOCK_MONOTONIC) return 0;
    return 3600 * (n % 1000 == 999 ? __atomic_add_fetch(&hours, 1, __ATOMIC_RELAXED) : __atomic_load_n(&hours, __ATOMIC_RELAXED));
}
int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const int r = real(id, t);
    if (!r) t->tv_sec += leap(id);
    return r;
}
time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec s;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &s);
    t->tv_sec = s.tv_sec, t->tv_usec = s.tv_nsec / 1000;
    return 0;
}
"""


class Bed:
    def __init__(self, tests):
        self.tests, self.work, self.made = tests, tests.work, 0
        self.dense, self.pruned = self.work + "/dense.onnx", self.work + "/pruned.onnx"
        must("zoo", "bert-mini", "-o", self.dense, "-q")
        must("prune", self.dense, "--pattern", "4x1:0.9", "-o", self.pruned, "-q")
        self.small = os.path.join(ROOT, "tests/fixtures/mlp-script-4x1.onnx")

    def folder(self):
        self.made += 1
        path = f"{self.work}/{self.made}"
        os.mkdir(path)
        return path


# ---------------------------------------------------------------- a full disk
def full(bed, output, *words):
    """With no old file and with one: an error that names the file, nothing new, the old one whole."""
    folder = bed.folder()
    path = f"{folder}/{output}"
    for old in (None, b"the old one"):
        if old:
            with open(path, "wb") as f:
                f.write(old)
        before = tree(folder)
        for size in (4096, 1 << 20):  # what is said goes to a file, too
            result = sparta(*words, path, "-q", prepare=limit_file_size(size))
            need(result.code == 1 and output in result.err, f"limit {size}: {result}")
            need(tree(folder) == before, f"limit {size}: {tree(folder)}")


def full_door(bed):
    """The same from Python, whose process lives on and writes once there is room."""
    folder = bed.folder()
    package = door.compile(bed.small, no_measure=True)
    writers = {
        "m.sparta": package.save,
        "p.onnx": lambda path: door.propagate(bed.pruned, path),
        "a.npz": lambda path: door.save_arrays(path, {"w": np.ones((300, 300), "float32")}),
        "c.sparta": lambda path: door.compile(bed.small, path, no_measure=True),
    }
    import resource

    previous, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for name, write in writers.items():
        path = f"{folder}/{name}"
        for old in (None, b"the old one"):
            if old:
                with open(path, "wb") as f:
                    f.write(old)
            before = tree(folder)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, previous[1]))
            try:
                write(path)
                said = None
            except (door.Error, OSError) as error:
                said = str(error)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, previous)
            need(said is not None, f"{name}: it was written")
            need(tree(folder) == before, f"{name}: {tree(folder)}")
        write(path)
        need(os.path.getsize(path) > 4096, f"{name}: not written where there is room")
        os.unlink(path)
    signal.signal(signal.SIGXFSZ, handler)


# ---------------------------------------------------------------- kill -9
def killed(steps, *words):
    """Once it has said so many lines of what it does; how it ended."""
    with subprocess.Popen([SPARTA, *words, "--progress", "json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        for _ in range(steps):
            process.stderr.readline()
        process.kill()
        return process.wait()


def steps_of(*words):
    return must(*words, "--progress", "json").err.count('"done"')


def counted(ended):
    need(any(ended), "none was killed: each had ended")
    return f"{sum(code != 0 for code in ended)} of {len(ended)} killed"


def killed_prune(bed, rng):
    """Over the model itself: it is what it was, or what it becomes."""
    folder = bed.folder()
    path, ended = folder + "/m.onnx", []
    words = ("prune", path, "--pattern", "4x1:0.9", "-o", path)
    shutil.copy(bed.dense, path)
    most = steps_of(*words)
    for steps in (1, most, *(rng.randint(1, most) for _ in range(KILLS - 2))):  # behind the last one it writes
        shutil.copy(bed.dense, path)
        ended.append(killed(steps, *words))
        old, new = (filecmp.cmp(path, other, shallow=False) for other in (bed.dense, bed.pruned))
        need(old or new, f"a model in pieces; ended with {ended[-1]}")
        need(new or ended[-1] != 0, "it said that all was done")
        left = [name for name in os.listdir(folder) if name != "m.onnx"]
        need(not any(name.endswith(".onnx") for name in left), f"pieces that are called like a model: {left}")
    must(*words)
    need(filecmp.cmp(path, bed.pruned, shallow=False), "after all of it, it does not prune")
    return counted(ended)


def rows(path):
    with sqlite3.connect(path) as db:
        return sorted(row for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() for row in db.execute(f"SELECT * FROM {table}"))


def integrity(path):
    with sqlite3.connect(path) as db:
        return db.execute("PRAGMA integrity_check").fetchone()[0]


def killed_tune(bed, rng):
    """While it times and compiles kernels: times of before are there, database and cache serve the next one, and the package is the old one."""
    folder = bed.folder()
    db, cache, package = folder + "/times.db", folder + "/cache", folder + "/m.sparta"
    must("compile", bed.small, "-o", package, "--db", db, "--cache", cache, "-q")
    before, whole, ended = rows(db), open(package, "rb").read(), []
    words = ("compile", bed.pruned, "-o", package, "--db", db, "--cache", cache)
    for _ in range(KILLS):
        ended.append(killed(rng.randint(1, 20), *words))  # of 40 nodes
        if ended[-1] == 0:
            break
        need(open(package, "rb").read() == whole, "the old package is another")
        need(integrity(db) == "ok" and set(rows(db)) >= set(before), "times of before are gone")
    must(*words)
    must("inspect", package, "--check", "-q")
    must("verify", package, "--against", bed.pruned, "-q")
    left = [name for name in os.listdir(folder) if name.endswith(".sparta") and name != "m.sparta"]
    need(not left, f"pieces that are called like a package: {left}")
    return counted(ended)


# ---------------------------------------------------------------- clocks
def clock(bed):
    source, library = bed.work + "/clock.c", bed.work + "/clock.so"
    with open(source, "w") as f:
        f.write(CLOCK)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    ctypes.CDLL(library)  # it loads
    return {"LD_PRELOAD": library}


def jumps(bed):
    """The tuner ends, keeps no time that nobody can have measured, and its package is right; who comes later finds what it kept."""
    folder, env = bed.folder(), clock(bed)
    db, package = folder + "/times.db", folder + "/m.sparta"
    words = ("compile", bed.small, "-o", package, "--db", db, "--cache", folder + "/cache", "-q")
    for environment in (env, env, None):
        must(*words, env=environment)
        must("verify", package, "--against", bed.small, "-q", env=environment)
    with sqlite3.connect(db) as held:
        held.row_factory = sqlite3.Row
        times = [row["us"] for row in held.execute("SELECT * FROM trial")]
    need(times and all(0 < us < 1e7 for us in times), f"{len(times)} times of {min(times, default=0)} to {max(times, default=0)} us")
    return f"{len(times)} times kept"


def jumps_bench(bed):
    """bench ends, too, what it says are numbers, and its ratio is no hour."""
    said = json.loads(must("bench", bed.small, "--no-measure", "--time", "0.2", "--json", env=clock(bed)).out)
    numbers = [said["ratio"], *said["ratio_ci95"], said["subject"]["median_ms"], said["baseline"]["median_ms"]]
    need(all(0 < n < 3.6e6 for n in numbers), numbers)


def dates(bed):
    """Files of the caches from 1970 and from 2100 are used like others."""
    folder = bed.folder()
    db, package = folder + "/times.db", folder + "/m.sparta"
    words = ("compile", bed.small, "-o", package, "--db", db, "--cache", folder + "/cache", "-q")
    must(*words)
    for date in (0, 4102444800):
        for at, _, names in os.walk(folder):
            for name in names:
                os.utime(os.path.join(at, name), (date, date))
        must(*words)
        must("verify", package, "--against", bed.small, "-q")


def main():
    tests = Tests()
    bed, rng = Bed(tests), random.Random(SEED)
    tests.check("a full disk: prune", full, bed, "p.onnx", "prune", bed.dense, "--pattern", "4x1:0.9", "-o")
    tests.check("a full disk: propagate", full, bed, "s.onnx", "propagate", bed.pruned, "-o")
    tests.check("a full disk: from Python", full_door, bed)
    tests.check("kill -9 in prune", killed_prune, bed, rng)
    tests.check("kill -9 in tune", killed_tune, bed, rng)
    tests.check("clocks that jump: compile", jumps, bed)
    tests.check("clocks that jump: bench", jumps_bench, bed)
    tests.check("dates of the caches", dates, bed)
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
