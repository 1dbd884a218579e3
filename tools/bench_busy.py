#!/usr/bin/env python3
"""Do compile and build_ choose beside a busy loop on every core what they choose on a quiet machine?

    .venv-torch/bin/python tools/bench_busy.py [--layers 20] [--threads 1,2] [--anyway] [--write docs/times.md]

Twenty linear layers, each of a shape of its own, dense to 95 % zeros. They are compiled and tuned three times with nothing remembered: twice on the
quiet machine, once beside a loop on every core. For each layer the way that a run chose is looked up in the times of the first quiet run: "within
5 %" is how many layers have one that takes at most 5 % more than the first run's own choice. On a machine that is not quiet nothing is measured,
unless --anyway says so, which the table then says too.
"""

import argparse
import datetime
import multiprocessing
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import torch
from torch import nn

import sparta
from sparta import _quiet, _times, tuning

PATTERNS = ("4x1:0.95", "1x1:0.9", "4x1:0.6", "1x1:0.5", "1x1:0.1")
TOKENS, CLOSE = 128, 1.05


class Layers(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.each = nn.ModuleList(nn.Linear(256 + 32 * (i % 7), 256 + 64 * (i // 7) + 16 * (i % 7), bias=False) for i in range(n))

    def forward(self, *inputs):
        return tuple(layer(x) for layer, x in zip(self.each, inputs, strict=True))


def spin():
    while True:
        pass


class Loops:
    """A busy loop on every core."""

    def __enter__(self):
        self.all = [multiprocessing.get_context("fork").Process(target=spin, daemon=True) for _ in range(os.cpu_count() or 1)]
        for process in self.all:
            process.start()

    def __exit__(self, *error):
        for process in self.all:
            process.kill()
            process.join()


# ---------------------------------------------------------------- what is chosen
def compiled(model, inputs, db):
    """{layer: (implement, point)}, and the microseconds of all that were timed."""
    names = {(layer.out_features, layer.in_features): str(i) for i, layer in enumerate(model.each)}
    package = sparta.compile(model, example_inputs=inputs, db=db, no_propagate=1, remeasure=True)
    implements = {tuple(row["shape"]): row["implement"] for row in package.layers}
    times = {name: {} for name in names.values()}
    with sqlite3.connect(db) as records:
        rows = records.execute("SELECT key, implement, point, us FROM trial WHERE verdict='ok' AND key NOT LIKE '%mask=any%'")
        for key, implement, point, us in rows:
            shape = re.search(r" weight (\d+)x(\d+) ", key)
            if shape:
                times[names[int(shape[1]), int(shape[2])]][implement, point] = us
    chosen = {}
    for shape, name in names.items():
        points = [way for way in times[name] if way[0] == implements[shape]]
        chosen[name] = min(points, key=lambda way: times[name][way])
    return chosen, times


def tuned(model, inputs, db):
    """The same of the ways of build_."""
    rows = sparta.tune(model, inputs, remeasure=True)
    return {name: tuning.word(row["block"]) for name, row in rows.items()}, {name: row.get("ways", {"dense": 1.0}) for name, row in rows.items()}


def close(chosen, quiet, times):
    """How many layers run, by the quiet times, about as fast as with the quiet choice."""
    return sum(times[name].get(way, float("inf")) <= CLOSE * times[name][quiet[name]] for name, way in chosen.items())


def measure(what, run, model, inputs, folder):
    quiet, times = run(model, inputs, os.path.join(folder, f"{what}1.db"))
    again = close(run(model, inputs, os.path.join(folder, f"{what}2.db"))[0], quiet, times)
    with Loops():
        beside = close(run(model, inputs, os.path.join(folder, f"{what}3.db"))[0], quiet, times)
    return f"| {what} | {torch.get_num_threads()} | {len(quiet)} | {again} | {beside} |"


def where():
    """On what it was measured, and when."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return f"{datetime.date.today()}, commit {commit}; {_times.machine()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--threads", default="1,2", help="of torch, which times the ways of build_; compile times on one in any case")
    parser.add_argument("--anyway", action="store_true", help="measure although the machine is busy")
    parser.add_argument("--write", help="the page whose table between <!-- busy --> marks is replaced")
    options = parser.parse_args()
    threads = [int(n) for n in options.threads.split(",")]
    torch.manual_seed(0)
    quiet = _quiet.Quiet()
    time.sleep(1)
    others = quiet.others()
    if others > _quiet.OTHERS * (os.cpu_count() or 1) and not options.anyway:
        sys.exit(f"bench_busy: other programs use {others:.1f} processors; nothing was measured. Close them, or say --anyway")
    lines = [f"{where()}. Others used {others:.1f} processors at the beginning.", ""]
    lines += ["| choices of | threads | layers | within 5 %, a second quiet run | within 5 %, beside a loop on every core |", "|---|---:|---:|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        model = Layers(options.layers).eval()
        sparta.sparsify_(model, {f"each.{i}": PATTERNS[i % len(PATTERNS)] for i in range(options.layers)})
        inputs = tuple(torch.randn(TOKENS, layer.in_features) for layer in model.each)
        for what, run, n in (("compile", compiled, 1), *(("build_", tuned, n) for n in threads)):
            torch.set_num_threads(n)
            lines.append(measure(what, run, model, inputs, folder))
            print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(table)
    if options.write:
        with open(options.write, encoding="utf-8") as file:
            page = file.read()
        with open(options.write, "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?s)(<!-- busy -->\n).*(\n<!-- end -->)", lambda m: m[1] + table + m[2], page))


if __name__ == "__main__":
    main()
