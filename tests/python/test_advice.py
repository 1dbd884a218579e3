"""What `sparta inspect` calls the fewest bytes is the first row of `sparta format advise`, and formats that kernels keep are timed."""

import json
import os
import sys

import numpy as np

from common import Tests, must, need


def matrices(rng):
    """Names and matrices: patterns, densities on both sides of where inspect asks for the whole advice, and none at all."""
    noise = 1 + rng.random((96, 160))
    for density in (0.01, 0.05, 0.1, 0.3, 0.7, 1):
        yield f"scattered {density}", np.where(rng.random(noise.shape) < density, noise, 0)
    yield "4x1", noise * np.repeat(rng.random((24, 160)) < 0.2, 4, axis=0)
    yield "32x32", noise * np.kron(rng.random((3, 5)) < 0.4, np.ones((32, 32)))
    yield "2:4", noise * (np.argsort(np.argsort(rng.random((96, 40, 4)), axis=2), axis=2) < 2).reshape(96, 160)
    yield "rows", noise * (rng.random((96, 1)) < 0.3)
    yield "nothing", 0 * noise
    mixed = np.kron(rng.random((3, 5)) < 0.4, np.ones((32, 32)))
    mixed[rng.random(mixed.shape) < 0.01] = 1
    yield "32x32 and single ones", mixed


def agree(folder, matrix):
    path = os.path.join(folder, "w.npy")
    np.save(path, matrix.astype(np.float32))
    said = json.loads(must("format", "advise", path, "--no-measure", "--json").out)
    best = json.loads(must("inspect", path, "--json").out)["layers"][0]["formats"][0]
    need(said["fastest"] is None and all(f["us"] is None for f in said["formats"]), "--no-measure measured")
    need((best["format"], best["bytes"]) == tuple(said["formats"][0][k] for k in ("format", "bytes")),
         f"inspect says {best}, advise {said['formats'][0]}")


def timed(folder, matrix):
    path = os.path.join(folder, "w.npy")
    np.save(path, matrix.astype(np.float32))
    said = json.loads(must("format", "advise", path, "--m", 20, "--time", 0.001, "--json").out)
    kept = {f["format"]: f for f in said["formats"]}
    need(kept["quads(128)"]["implement"] == "quads" and kept["pairs(128)"]["implement"] == "pairs", kept.keys())
    times = {name: f["us"] for name, f in kept.items() if f["us"] is not None}
    need({"csr", "quads(128)", "pairs(128)", "rows(4)"} <= set(times), times)
    need(said["fastest"] == min(times, key=times.get) and said["tokens"] == 20, said["fastest"])
    must("format", "advise", path, "--m", 20, "--time", 0.001)


def main():
    tests = Tests()
    os.environ["XDG_CACHE_HOME"] = os.path.join(tests.work, "cache")
    rng = np.random.default_rng(0)
    for name, matrix in matrices(rng):
        tests.check(f"inspect and advise agree: {name}", agree, tests.work, matrix)
    tests.check("advice has times", timed, tests.work, np.where(rng.random((96, 160)) < 0.1, 1, 0))
    return tests.finish()


if __name__ == "__main__":
    sys.exit(main())
